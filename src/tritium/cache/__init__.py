"""The caches of compiled kernels: which one is used, and its entries."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import TypeVar

from tritium import knobs
from tritium.cache.base import CacheManager
from tritium.cache.files import FileCacheManager, check_readable, read

_BASE32 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"


def base32(key: str) -> str:
    """The directory name (52 characters) of a SHA-256 key in hexadecimal."""
    try:
        raw = bytes.fromhex(key)
    except ValueError:
        raise ValueError(f"cache key {key!r}: expected a digest in hexadecimal") from None
    # Not by `base64`, which first makes a table of 1024 entries.
    count = -(-8 * len(raw) // 5)
    number = int.from_bytes(raw, "big") << (5 * count - 8 * len(raw))
    return "".join(_BASE32[number >> 5 * i & 31] for i in range(count - 1, -1, -1))


def _manager_class() -> Callable[..., CacheManager]:
    if chosen := knobs.cache.manager_class:
        return chosen
    if knobs.cache.remote_manager_class is None:
        return FileCacheManager
    from tritium.cache.remote import RemoteCacheManager  # few programs have one

    return RemoteCacheManager


def get_cache_manager(key: str) -> CacheManager:
    """The manager of the entry with this SHA-256 key (hexadecimal)."""
    return _manager_class()(base32(key))


def get_override_manager(key: str) -> CacheManager:
    """The manager of the entry's files below `knobs.cache.override_dir`."""
    return _manager_class()(base32(key), override=True)


def get_dump_manager(key: str) -> CacheManager:
    """The manager of the entry's files below `knobs.cache.dump_dir`."""
    return _manager_class()(base32(key), dump=True)


def find(key: str, filename: str) -> dict[str, str] | None:
    """The paths by name of the files that were published as the group `filename`, or None.

    `key` is a SHA-256 in hexadecimal. A cache manager of the user's that raises is warned of, and
    the directory on disk is used in its place.
    """
    return _ask(key, lambda manager: manager.get_group(filename))


def publish(
    key: str, filename: str, files: Mapping[str, bytes | str], replace: bool = False
) -> dict[str, str]:
    """Store files (contents by name) that belong together; returns their paths. See `find`, and
    `CacheManager.publish`."""
    return _ask(key, lambda manager: manager.publish(filename, files, replace))


T = TypeVar("T", bound="dict[str, str] | None")


def _ask(key: str, question: Callable[[CacheManager], T]) -> T:
    """The group that the chosen manager answers with; that of the directory on disk where it
    raises, or names files that cannot be read."""
    kind = _manager_class()
    if kind is not FileCacheManager:
        try:
            group = question(kind(base32(key)))
            for path in (group or {}).values():
                check_readable(path)
            return group
        except Exception as error:
            _gave_up(kind, error)
    return question(FileCacheManager(base32(key)))


_warned: set[Callable[..., CacheManager]] = set()


def _gave_up(kind: Callable[..., CacheManager], error: Exception) -> None:
    """Warn of a class of managers that cannot be used; once."""
    if kind in _warned:
        return
    _warned.add(kind)
    warnings.warn(
        f"the cache manager {kind.__module__}.{kind.__qualname__} raised {type(error).__name__}: "
        f"{error}; compiled kernels are kept in {knobs.cache.dir} instead",
        RuntimeWarning,
        stacklevel=4,
    )


class CachedObjects:
    """Object code by key, in the cache: what the CPU backend's loader stores its own code in."""

    def __init__(self, name: str):
        """`name` is what the files are called."""
        self._name = name

    def load(self, key: str) -> bytes | None:
        """The object code stored under a SHA-256 key (hexadecimal), or None."""
        path = (find(key, f"{self._name}.json") or {}).get(f"{self._name}.o")
        return None if path is None else read(path)

    def save(self, key: str, code: bytes) -> None:
        """Store object code under a key."""
        publish(key, f"{self._name}.json", {f"{self._name}.o": code})
