"""The cache of compiled kernels on disk, and the remote cache in front of which it stands.

An entry is a directory named by the base-32 form of its SHA-256 key. It holds files and, for what
belongs together, a group file written last:

    <cache dir>/<52 characters>/add_kernel.ttir
                                add_kernel.json
                                __grp__add_kernel.json   {"child_paths": {...}, "digests": {...}}

A file is written into a directory of its own (`tmp.pid_<pid>_<uuid>`) and moved into place, so
that no process ever sees a part of one, and an interrupted one leaves nothing behind. A group is
only given out when every child's content has the SHA-256 that the group file states; anything
damaged is reported by a warning and counts as absent. Where the directory cannot be written
(full, read-only), entries are kept in memory for this process, with one warning.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import tempfile
import uuid
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

from tritium import knobs


class CacheManager(ABC):
    """Where the files of one cache entry are kept.

    Subclasses are chosen by `knobs.cache.manager_class` (`TRITON_CACHE_MANAGER=module:Class`).
    """

    def __init__(self, key: str, override: bool = False, dump: bool = False):
        """`key` is the entry's directory name; `override` and `dump` pick those directories."""
        super().__init__()

    @abstractmethod
    def get_file(self, filename: str) -> str | None:
        """The path of a file of this entry, or None."""

    @abstractmethod
    def put(self, data: bytes | str, filename: str, binary: bool = True) -> str:
        """Store a file; returns its path."""

    @abstractmethod
    def get_group(self, filename: str) -> dict[str, str] | None:
        """The paths by name of the files that were stored as a group, or None."""

    @abstractmethod
    def put_group(self, filename: str, group: dict[str, str]) -> str:
        """Store that the files of `group` (paths by name) belong together."""


class _Memory:
    """Files of this process alone, for a cache directory that cannot be written."""

    def __init__(self) -> None:
        self.paths: dict[str, str] = {}
        self._descriptors: list[int] = []
        self._directory: str | None = None
        self._warned: set[str] = set()

    def warn_once(self, directory: str, error: OSError) -> None:
        """Say that `directory` cannot be written; only once a directory."""
        if directory not in self._warned:
            self._warned.add(directory)
            warnings.warn(
                f"the cache directory {directory} cannot be written ({error}): compiled kernels "
                "are kept in memory for this process; set TRITON_CACHE_DIR to a writable directory",
                RuntimeWarning,
                stacklevel=4,
            )

    def put(self, path: str, data: bytes) -> str:
        """Keep `data` in place of the file `path`; returns a path where it can be read."""
        if hasattr(os, "memfd_create"):
            descriptor = os.memfd_create(os.path.basename(path)[:200])
            with open(descriptor, "wb", closefd=False) as file:
                file.write(data)
            self._descriptors.append(descriptor)
            # The process is named so that a child process (an assembler) can read it too.
            self.paths[path] = f"/proc/{os.getpid()}/fd/{descriptor}"
        else:
            self._directory = self._directory or tempfile.mkdtemp(prefix="tritium-")
            self.paths[path] = os.path.join(self._directory, uuid.uuid4().hex)
            with open(self.paths[path], "wb") as file:
                file.write(data)
        return self.paths[path]


_memory = _Memory()


def _damaged(path: str, why: object) -> None:
    warnings.warn(
        f"ignoring the damaged cache entry {path}: {why}", RuntimeWarning, stacklevel=4
    )


def _encode(digests: Mapping[str, str], paths: Mapping[str, str]) -> bytes:
    return json.dumps({"child_paths": dict(paths), "digests": dict(digests)}).encode()


def _decode(content: bytes) -> dict[str, str]:
    """The digests by name that a group file holds; ValueError when it holds none."""
    group: Any = json.loads(content)
    try:
        digests: dict[str, str] = dict(group["digests"])
        complete = set(digests) == set(group["child_paths"])
    except (TypeError, KeyError, ValueError):
        complete, digests = False, {}
    if not complete:
        raise ValueError("the group file has no digests of its files")
    return digests


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class FileCacheManager(CacheManager):
    """A cache entry in a directory below `knobs.cache.dir` (or `dump_dir`, `override_dir`)."""

    def __init__(self, key: str, override: bool = False, dump: bool = False):
        self.key = key
        names = "dump_dir" if dump else "override_dir" if override else "dir"
        base = getattr(knobs.cache, names)
        if not base:
            raise RuntimeError(f"cannot locate the cache directory: knobs.cache.{names} is empty")
        self.base_dir = base
        self.cache_dir = os.path.join(base, key)
        self._digests: dict[str, str] = {}

    def _make_path(self, filename: str) -> str:
        return os.path.join(self.cache_dir, filename)

    def has_file(self, filename: str) -> bool:
        """Whether the entry has this file."""
        return self.get_file(filename) is not None

    def get_file(self, filename: str) -> str | None:
        path = self._make_path(filename)
        # Memory first: what is there is newer than what could not be replaced on disk.
        return _memory.paths.get(path) or (path if os.path.exists(path) else None)

    def put(self, data: bytes | str, filename: str, binary: bool = True) -> str:
        """Store a file atomically; `binary` is accepted for the reference's sake."""
        content = data.encode() if isinstance(data, str) else bytes(data)
        self._digests[filename] = _sha256(content)
        path = self._make_path(filename)
        try:
            self._write(path, content)
        except OSError as error:
            _memory.warn_once(self.base_dir, error)
            return _memory.put(path, content)
        _memory.paths.pop(path, None)
        return path

    def _write(self, path: str, content: bytes) -> None:
        os.makedirs(self.cache_dir, exist_ok=True)
        own = os.path.join(self.cache_dir, f"tmp.pid_{os.getpid()}_{uuid.uuid4().hex}")
        try:
            os.makedirs(own)
            part = os.path.join(own, os.path.basename(path))
            with open(part, "wb") as file:
                file.write(content)
            os.replace(part, path)
        finally:  # also on Ctrl-C
            shutil.rmtree(own, ignore_errors=True)

    def get_group(self, filename: str) -> dict[str, str] | None:
        """The files of a group whose contents are as they were stored.

        A file that has been deleted is left out. If any is damaged, or the group file itself, a
        `RuntimeWarning` says so and the result is None.
        """
        path = self.get_file(f"__grp__{filename}")
        if path is None:
            return None
        try:
            digests, found = _decode(_read(path)), dict[str, str]()
            for name, digest in digests.items():
                child = self.get_file(name)
                if child is None:
                    continue
                path = child
                if _sha256(_read(child)) != digest:
                    raise ValueError("its content is not what was stored")
                found[name] = child
        except (OSError, ValueError) as error:
            _damaged(path, error)
            return None
        return found

    def put_group(self, filename: str, group: dict[str, str]) -> str:
        """Store that the files of `group` (paths by name) belong together, with their digests."""
        digests = {
            name: self._digests.get(name) or _sha256(_read(path)) for name, path in group.items()
        }
        return self.put(_encode(digests, group), f"__grp__{filename}")


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


class RemoteCacheBackend(ABC):
    """A store of files shared between machines: the files of one entry, by name."""

    def __init__(self, key: str):
        """`key` names the entry."""
        super().__init__()

    @abstractmethod
    def get(self, filenames: list[str]) -> dict[str, bytes]:
        """The contents of those of the files that exist."""

    @abstractmethod
    def put(self, filename: str, data: bytes) -> None:
        """Store one file."""


class RedisRemoteCacheBackend(RemoteCacheBackend):
    """Files in Redis, at `knobs.redis.host` and `.port`, under `knobs.redis.key_format`."""

    def __init__(self, key: str):
        try:
            import redis  # pyright: ignore  (optional: only users of this backend need it)
        except ImportError as error:
            raise RuntimeError(
                "the Redis remote cache needs the package redis (pip install 'tritium[redis]')"
            ) from error
        self._key, self._format = key, knobs.redis.key_format
        self._redis: Any = redis.Redis(host=knobs.redis.host, port=knobs.redis.port)

    def _name(self, filename: str) -> str:
        return self._format.format(key=self._key, filename=filename)

    def get(self, filenames: list[str]) -> dict[str, bytes]:
        contents = self._redis.mget([self._name(name) for name in filenames])
        return {n: c for n, c in zip(filenames, contents, strict=True) if c is not None}

    def put(self, filename: str, data: bytes) -> None:
        self._redis.set(self._name(filename), data)


class RemoteCacheManager(CacheManager):
    """A local directory in front of a `RemoteCacheBackend` (`knobs.cache.remote_manager_class`).

    What is stored goes to both; what is missing here is fetched, verified and kept here. Dumps
    and overrides stay local.
    """

    def __init__(self, key: str, override: bool = False, dump: bool = False):
        self._files = FileCacheManager(key, override=override, dump=dump)
        self._backend: RemoteCacheBackend | None = None
        if not override and not dump:
            backend: Callable[[str], RemoteCacheBackend] | None = knobs.cache.remote_manager_class
            if backend is None:
                raise RuntimeError(
                    "RemoteCacheManager: TRITON_REMOTE_CACHE_BACKEND is not set; expected "
                    "MODULE:CLASS of a RemoteCacheBackend"
                )
            self._backend = backend(key)

    def get_file(self, filename: str) -> str | None:
        if (path := self._files.get_file(filename)) or self._backend is None:
            return path
        content = self._backend.get([filename]).get(filename)
        return None if content is None else self._files.put(content, filename)

    def put(self, data: bytes | str, filename: str, binary: bool = True) -> str:
        content = data.encode() if isinstance(data, str) else bytes(data)
        if self._backend is not None:
            self._backend.put(filename, content)
        return self._files.put(content, filename, binary=binary)

    def get_group(self, filename: str) -> dict[str, str] | None:
        if (group := self._files.get_group(filename)) is not None or self._backend is None:
            return group
        name = f"__grp__{filename}"
        content = self._backend.get([name]).get(name)
        if content is None:
            return None
        try:
            digests = _decode(content)
            children = self._backend.get(list(digests))
            for child, data in children.items():
                if _sha256(data) != digests[child]:
                    raise ValueError(f"the content of {child} is not what was stored")
        except ValueError as error:
            _damaged(f"{self._files.key}/{filename} of the remote cache", error)
            return None
        paths = {child: self._files.put(data, child) for child, data in children.items()}
        self._files.put_group(filename, paths)
        return paths

    def put_group(self, filename: str, group: dict[str, str]) -> str:
        path = self._files.put_group(filename, group)
        if self._backend is not None:
            # Paths of this machine mean nothing on another: names stand for themselves there.
            digests = _decode(_read(path))
            content = _encode(digests, {name: name for name in digests})
            self._backend.put(f"__grp__{filename}", content)
        return path


def _base32(key: str) -> str:
    """The directory name (52 characters) of a SHA-256 key in hexadecimal."""
    try:
        raw = bytes.fromhex(key)
    except ValueError:
        raise ValueError(f"cache key {key!r}: expected a digest in hexadecimal") from None
    return base64.b32encode(raw).decode().rstrip("=")


def _manager_class() -> Callable[..., CacheManager]:
    if chosen := knobs.cache.manager_class:
        return chosen
    return RemoteCacheManager if knobs.cache.remote_manager_class else FileCacheManager


def get_cache_manager(key: str) -> CacheManager:
    """The manager of the entry with this SHA-256 key (hexadecimal)."""
    return _manager_class()(_base32(key))


def get_override_manager(key: str) -> CacheManager:
    """The manager of the entry's files below `knobs.cache.override_dir`."""
    return _manager_class()(_base32(key), override=True)


def get_dump_manager(key: str) -> CacheManager:
    """The manager of the entry's files below `knobs.cache.dump_dir`."""
    return _manager_class()(_base32(key), dump=True)


class CachedObjects:
    """Object code by key, in the cache: what the CPU backend's loader stores its own code in."""

    def __init__(self, name: str):
        """`name` is what the files are called."""
        self._name = name

    def load(self, key: str) -> bytes | None:
        """The object code stored under a SHA-256 key (hexadecimal), or None."""
        group = get_cache_manager(key).get_group(f"{self._name}.json") or {}
        path = group.get(f"{self._name}.o")
        return None if path is None else _read(path)

    def save(self, key: str, code: bytes) -> None:
        """Store object code under a key."""
        manager = get_cache_manager(key)
        name = f"{self._name}.o"
        manager.put_group(f"{self._name}.json", {name: manager.put(code, name)})
