"""The cache of compiled kernels on disk.

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

import errno
import hashlib
import json
import os
import shutil
import time
import uuid
import warnings
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from tritium import knobs
from tritium.cache.base import CacheManager

PARTS_PREFIX = "tmp.pid_"
"""The start of the name of a directory that files are written in before they are moved."""
_STALE = 600.0
"""Seconds after which a directory that a file is written in has been left behind."""
_MOST_IN_MEMORY = 128
"""Files that may be open: a process often may have 1024, and a kernel takes six."""


class _Memory:
    """Files of this process alone, for a cache directory that cannot be written.

    Attributes:
        paths: where each file that is kept here can be read.
        contents: of those that only `read` can, because this process may not write any file, or
            has many of these already.
    """

    def __init__(self) -> None:
        self.paths: dict[str, str] = {}
        self.contents: dict[str, bytes] = {}
        self._files = 0
        self._warned: set[str] = set()

    def warn_once(self, directory: str, error: OSError, dump: bool) -> None:
        """Say that `directory` cannot be written; only once a directory."""
        if directory not in self._warned:
            self._warned.add(directory)
            kind, instead = "cache", "compiled kernels are kept in memory for this process"
            if dump:
                kind, instead = "dump", "what it lacks is lost"
            warnings.warn(
                f"the {kind} directory {directory} cannot be written ({error}): {instead}; "
                f"set TRITON_{kind.upper()}_DIR to a writable directory",
                RuntimeWarning,
                stacklevel=4,
            )

    def put(self, path: str, data: bytes) -> str:
        """Keep `data` in place of the file `path`; returns a path where it can be read."""
        try:
            if self._files >= _MOST_IN_MEMORY:
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            self.paths[path] = knobs.system().write_in_memory(os.path.basename(path), data)
            self._files += 1
        except OSError:  # a limit on any file (`ulimit -f`), or on how many are open
            self.paths[path], self.contents[path] = path, data
        return self.paths[path]

    def forget(self, path: str) -> None:
        """Keep the file no longer: it is on disk, or nowhere."""
        self.paths.pop(path, None)
        self.contents.pop(path, None)


memory = _Memory()


def report_damage(path: str, why: object) -> None:
    """Warn of an entry that cannot be used."""
    warnings.warn(f"ignoring the damaged cache entry {path}: {why}", RuntimeWarning, stacklevel=4)


def encode_group(digests: Mapping[str, str], paths: Mapping[str, str]) -> bytes:
    """A group file's content."""
    return json.dumps({"child_paths": dict(paths), "digests": dict(digests)}).encode()


def decode_group(content: bytes) -> dict[str, str]:
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


def sha256(data: bytes) -> str:
    """The digest, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


class FileCacheManager(CacheManager):
    """A cache entry in a directory below `knobs.cache.dir` (or `dump_dir`, `override_dir`)."""

    def __init__(self, key: str, override: bool = False, dump: bool = False):
        self.key, self._dump = key, dump
        names = "dump_dir" if dump else "override_dir" if override else "dir"
        base = getattr(knobs.cache, names)
        if not base:
            raise RuntimeError(f"cannot locate the cache directory: knobs.cache.{names} is empty")
        self.base_dir = base
        self.cache_dir = os.path.join(base, key)
        self._digests: dict[str, str] = {}
        self._own: str | None = None  # where parts are written, while several are
        self._checked = self.cache_dir  # the file that is being looked at

    def _make_path(self, filename: str) -> str:
        return os.path.join(self.cache_dir, filename)

    def has_file(self, filename: str) -> bool:
        """True if the entry has this file."""
        return self.get_file(filename) is not None

    def get_file(self, filename: str) -> str | None:
        path = self._make_path(filename)
        # Memory first: what is there is newer than what could not be replaced on disk.
        return memory.paths.get(path) or (path if os.path.exists(path) else None)

    def put(self, data: bytes | str, filename: str, binary: bool = True) -> str:
        """Store a file atomically; `binary` is accepted for the reference's sake."""
        content = data.encode() if isinstance(data, str) else bytes(data)
        self._digests[filename] = sha256(content)
        path = self._make_path(filename)
        try:
            self._write(path, content)
        except OSError as error:
            memory.warn_once(self.base_dir, error, self._dump)
            return path if self._dump else memory.put(path, content)
        memory.forget(path)
        return path

    def _write(self, path: str, content: bytes) -> None:
        with self._parts() as own:
            part = os.path.join(own, os.path.basename(path))
            with open(part, "wb") as file:
                file.write(content)
            os.replace(part, path)

    @contextmanager
    def _parts(self) -> Generator[str]:
        """A directory to write in; the same one for all that is written within."""
        if self._own is not None:
            yield self._own
            return
        self._own = os.path.join(self.cache_dir, f"{PARTS_PREFIX}{os.getpid()}_{uuid.uuid4().hex}")
        try:
            os.makedirs(self._own)
            yield self._own
        finally:  # also on Ctrl-C
            shutil.rmtree(self._own, ignore_errors=True)
            self._own = None

    def get_group(self, filename: str) -> dict[str, str] | None:
        """The files of a group whose contents are as they were stored.

        A file that has been deleted is left out. If any is damaged, or the group file itself, a
        `RuntimeWarning` says so and the result is None.
        """
        try:
            return self._verified(filename)
        except (OSError, ValueError):
            pass
        try:
            with self._locked():  # it may just have been in the middle of being replaced
                return self._verified(filename)
        except (OSError, ValueError) as error:
            report_damage(self._checked, error)
            return None

    def _verified(self, filename: str) -> dict[str, str] | None:
        path = self.get_file(f"__grp__{filename}")
        if path is None:
            return None
        self._checked = path
        digests, found = decode_group(read(path)), dict[str, str]()
        for name, digest in digests.items():
            child = self.get_file(name)
            if child is None:
                continue
            self._checked = child
            if sha256(read(child)) != digest:
                raise ValueError("its content is not what was stored")
            found[name] = child
        return found

    def put_group(self, filename: str, group: dict[str, str]) -> str:
        """Store that the files of `group` (paths by name) belong together, with their digests."""
        digests = {
            name: self._digests.get(name) or sha256(read(path)) for name, path in group.items()
        }
        return self.put(encode_group(digests, group), f"__grp__{filename}")

    def publish(
        self, filename: str, files: Mapping[str, bytes | str], replace: bool = False
    ) -> dict[str, str]:
        # Two processes may have made different files for one key: the same text in two source
        # files differs in its locations. One at a time, so that a group is always of one maker.
        with self._locked():
            group = None if replace else self._intact(filename)
            if group is not None and set(files) <= set(group):
                return group
            self._forget(filename)
            self._sweep()
            with suppress(OSError), self._parts():  # to remove one takes as long as ten files
                return super().publish(filename, files)
            return super().publish(filename, files)

    def _sweep(self) -> None:
        """Remove what processes that were killed have left behind."""
        with suppress(OSError), os.scandir(self.cache_dir) as entries:
            for entry in entries:
                old = time.time() - _STALE
                if entry.name.startswith(PARTS_PREFIX) and entry.stat().st_mtime < old:
                    shutil.rmtree(entry.path, ignore_errors=True)

    def _intact(self, filename: str) -> dict[str, str] | None:
        """The group, if nothing is wrong with it; otherwise None, silently."""
        try:
            return self._verified(filename)
        except (OSError, ValueError):
            return None

    def _forget(self, filename: str) -> None:
        """Remove a group file, so that nobody takes its files while they are replaced."""
        memory.forget(path := self._make_path(f"__grp__{filename}"))
        with suppress(OSError):
            os.unlink(path)

    @contextmanager
    def _locked(self) -> Generator[None]:
        """The entry is this process's alone, where its directory can be locked."""
        with suppress(OSError):  # `put` will find out, too, and say so
            os.makedirs(self.cache_dir, exist_ok=True)
        with knobs.system().lock(self.cache_dir):
            yield


def check_readable(path: str) -> None:
    """Raise `OSError` (`TypeError` for what is no path) if `read` cannot read the file."""
    if path not in memory.contents:
        os.stat(path)


def read(path: str) -> bytes:
    """The content of a file that a manager has named."""
    if path in memory.contents:
        return memory.contents[path]
    # Not by `open`, whose objects take longer to make than a small file does to be read.
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
    try:
        parts = [os.read(descriptor, os.fstat(descriptor).st_size + 1)]
        while part := os.read(descriptor, 1 << 20):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(descriptor)
