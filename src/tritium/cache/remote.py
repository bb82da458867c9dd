"""Caches that machines share, in front of which the disk stands."""

from __future__ import annotations

import functools
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from tritium import knobs
from tritium.cache.base import CacheManager, RemoteCacheBackend
from tritium.cache.files import (
    FileCacheManager,
    decode_group,
    encode_group,
    read,
    report_damage,
    sha256,
)

T = TypeVar("T")
_RETRY = 60.0
"""Seconds for which a remote cache that failed is left alone."""


class RedisRemoteCacheBackend(RemoteCacheBackend):
    """Files in Redis, at `knobs.redis.host` and `.port`, under `knobs.redis.key_format`.

    A server that does not answer within `knobs.redis.timeout_ms` counts as down.
    """

    def __init__(self, key: str):
        self._key, self._format = key, knobs.redis.key_format
        self._redis = _client(knobs.redis.host, knobs.redis.port, knobs.redis.timeout_ms / 1e3)

    def _name(self, filename: str) -> str:
        return self._format.format(key=self._key, filename=filename)

    def get(self, filenames: list[str]) -> dict[str, bytes]:
        contents = self._redis.mget([self._name(name) for name in filenames])
        return {n: c for n, c in zip(filenames, contents, strict=True) if c is not None}

    def put(self, filename: str, data: bytes) -> None:
        self._redis.set(self._name(filename), data)


@functools.cache
def _client(host: str, port: int, timeout: float) -> Any:
    """A pool of connections, which also knows when it has been forked. Raises `RuntimeError` if
    the package is missing."""
    try:
        import redis  # optional: only users of this backend need it
    except ImportError as error:
        raise RuntimeError(
            "the Redis remote cache needs the package redis (pip install 'tritium[redis]')"
        ) from error
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    return redis.Redis(
        host=host, port=port, socket_timeout=timeout, socket_connect_timeout=timeout,
        retry=Retry(NoBackoff(), 0),
    )  # fmt: skip


class RemoteCacheManager(CacheManager):
    """A local directory in front of a `RemoteCacheBackend` (`knobs.cache.remote_manager_class`).

    What is stored goes to both; what is missing here is fetched, verified and kept here. Dumps
    and overrides stay local. A remote cache that raises is warned of once, and not asked again
    for a minute: everything stays local then.
    """

    def __init__(self, key: str, override: bool = False, dump: bool = False):
        self._files = FileCacheManager(key, override=override, dump=dump)
        self._connect: Callable[[], RemoteCacheBackend] | None = None
        if not override and not dump:
            backend: Callable[[str], RemoteCacheBackend] | None = knobs.cache.remote_manager_class
            if backend is None:
                raise RuntimeError(
                    "RemoteCacheManager: TRITON_REMOTE_CACHE_BACKEND is not set; expected "
                    "MODULE:CLASS of a RemoteCacheBackend"
                )
            if time.monotonic() >= _down.get(backend, 0.0):
                self._connect = functools.cache(functools.partial(backend, key))
                self._kind = backend

    def _ask(self, question: Callable[[RemoteCacheBackend], T], otherwise: T) -> T:
        """The remote cache's answer; None if it cannot be reached."""
        if self._connect is None:
            return otherwise
        try:
            return question(self._connect())
        except Exception as error:
            self._connect = None
            _is_down(self._kind, error)
            return otherwise

    def _fetch(self, names: list[str]) -> dict[str, bytes]:
        return self._ask(lambda backend: backend.get(names), {})

    def get_file(self, filename: str) -> str | None:
        if path := self._files.get_file(filename):
            return path
        content = self._fetch([filename]).get(filename)
        return None if content is None else self._files.put(content, filename)

    def put(self, data: bytes | str, filename: str, binary: bool = True) -> str:
        content = data.encode() if isinstance(data, str) else bytes(data)
        self._ask(lambda backend: backend.put(filename, content), None)
        return self._files.put(content, filename, binary=binary)

    def get_group(self, filename: str) -> dict[str, str] | None:
        if (group := self._files.get_group(filename)) is not None:
            return group
        name = f"__grp__{filename}"
        content = self._fetch([name]).get(name)
        if content is None:
            return None
        try:
            digests = decode_group(content)
            children = self._fetch(list(digests))
            for child, data in children.items():
                if sha256(data) != digests[child]:
                    raise ValueError(f"the content of {child} is not what was stored")
        except ValueError as error:
            report_damage(f"{self._files.key}/{filename} of the remote cache", error)
            return None
        return self._files.publish(filename, children) if children else None

    def put_group(self, filename: str, group: dict[str, str]) -> str:
        path = self._files.put_group(filename, group)
        # Paths of this machine mean nothing on another: names stand for themselves there.
        digests = decode_group(read(path))
        content = encode_group(digests, {name: name for name in digests})
        self._ask(lambda backend: backend.put(f"__grp__{filename}", content), None)
        return path

    def publish(
        self, filename: str, files: Mapping[str, bytes | str], replace: bool = False
    ) -> dict[str, str]:
        group = self._files.publish(filename, files, replace)
        contents = {name: read(path) for name, path in group.items()}
        digests = {name: sha256(content) for name, content in contents.items()}
        whole = encode_group(digests, {name: name for name in digests})

        def send(backend: RemoteCacheBackend) -> None:
            for name, content in contents.items():
                backend.put(name, content)
            backend.put(f"__grp__{filename}", whole)  # last: it makes the others visible

        self._ask(send, None)
        return group


_down: dict[Any, float] = {}
_warned: set[Any] = set()


def _is_down(backend: Callable[[str], RemoteCacheBackend], error: Exception) -> None:
    _down[backend] = time.monotonic() + _RETRY
    if backend not in _warned:
        _warned.add(backend)
        warnings.warn(
            f"the remote cache {backend.__module__}.{backend.__qualname__} failed with "
            f"{type(error).__name__}: {error}; compiled kernels are kept on this machine alone",
            RuntimeWarning,
            stacklevel=4,
        )
