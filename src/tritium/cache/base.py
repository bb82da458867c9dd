"""Interfaces of cache managers, which programs may implement."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping


class CacheManager(ABC):
    """The store of the files of one cache entry.

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

    def publish(
        self, filename: str, files: Mapping[str, bytes | str], replace: bool = False
    ) -> dict[str, str]:
        """Store files (contents by name) that belong together, as the group `filename`.

        Returns: their paths by name. Where another process has been faster these may be of its
        files; `replace` stores these all the same.
        """
        group = {name: self.put(content, name) for name, content in files.items()}
        self.put_group(filename, group)
        return group


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
