"""The cache of compiled kernels, by the name that programs import (see `tritium.cache`)."""

from __future__ import annotations

from tritium import knobs as knobs
from tritium.cache import (
    CachedObjects,
    FileCacheManager,
    base32,
    get_cache_manager,
    get_dump_manager,
    get_override_manager,
)
from tritium.cache.base import CacheManager, RemoteCacheBackend
from tritium.cache.remote import RedisRemoteCacheBackend, RemoteCacheManager
from tritium.compiler.key import get_cache_key
from tritium.fingerprint import compiler_key as triton_key

_base32 = base32
"""torch.compile finds a kernel's binary by it."""

__all__ = [
    "CacheManager",
    "CachedObjects",
    "FileCacheManager",
    "RedisRemoteCacheBackend",
    "RemoteCacheBackend",
    "RemoteCacheManager",
    "get_cache_key",
    "get_cache_manager",
    "get_dump_manager",
    "get_override_manager",
    "triton_key",
]
