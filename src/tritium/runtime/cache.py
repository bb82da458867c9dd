"""The cache of compiled kernels, by the name that programs import (see `tritium.cache`)."""

from __future__ import annotations

from tritium.cache import (
    CachedObjects,
    CacheManager,
    FileCacheManager,
    RedisRemoteCacheBackend,
    RemoteCacheBackend,
    RemoteCacheManager,
    get_cache_manager,
    get_dump_manager,
    get_override_manager,
)

__all__ = [
    "CacheManager",
    "CachedObjects",
    "FileCacheManager",
    "RedisRemoteCacheBackend",
    "RemoteCacheBackend",
    "RemoteCacheManager",
    "get_cache_manager",
    "get_dump_manager",
    "get_override_manager",
]
