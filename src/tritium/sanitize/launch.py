"""Launches of sanitized kernels: what the checks need beside the arguments, and the error of a
check that fails."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tritium.errors import TritonError
from tritium.ops.ttir.sanitize import Access, Order
from tritium.sanitize.extents import UNKNOWN, Memory, extent_of, host_copy, memory_of, pooled
from tritium.sanitize.kinds import NAN, Origin
from tritium.sanitize.shadow import Launch, Noted, Shadow, watchers

PREFIX = "sanitizer:"
"""The beginning of the message of a fault that is the number of a check."""


class SanitizerError(TritonError, RuntimeError):
    """A check of the sanitizer failed; the kernel's results are incomplete.

    Attributes:
        kind: which check ("bounds", "races", "unwritten", "fp").
        site: the file and the line of the kernel's source.
        program: the program's place in the grid.
        address: for accesses, where.
    """

    def __init__(
        self, message: str, kind: str = "", site: tuple[str, int] = ("", 0),
        program: tuple[int, int, int] = (0, 0, 0), address: int = 0,
    ):  # fmt: skip
        super().__init__(message)
        self.kind, self.site, self.program, self.address = kind, site, program, address

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.args[0], self.kind, self.site, self.program, self.address)


class CheckFailed(Exception):
    """Report of native code on a failed check; `Checks.run` makes a `SanitizerError` of it."""

    def __init__(self, site: int, program: tuple[int, int, int], detail: int):
        super().__init__(site, program, detail)
        self.site, self.program, self.detail = site, program, detail


def failed_check(message: str, program: tuple[int, int, int], detail: int) -> CheckFailed | None:
    """The failed check that a fault's message names; None for another message."""
    number = message.removeprefix(PREFIX)
    return CheckFailed(int(number), program, detail) if number != message else None


class Checks:
    """The checks in a kernel.

    Args:
        data: what the kernel's metadata says: `sites`, `pointers`, the slots of the arguments
            whose extent the kernel takes, `granules`, of the shadow that it takes, if any, and
            `report`, whether it takes the address of one; `clocks`, whether programs keep some.
        names: of the arguments by slot.
        kernel: its name.
    """

    def __init__(self, data: Mapping[str, Any], names: Sequence[str], kernel: str):
        self.sites: list[dict[str, Any]] = data["sites"]
        self.pointers: list[int] = data["pointers"]
        self.granules: list[int] = data.get("granules", [])
        self.clocks = bool(data.get("clocks"))
        self.chip: list[int] = data.get("chip", [])
        self.reports: list[bool] = [True] if data.get("report") else []
        self.ttir: str = data.get("ttir", "")
        self.names, self.kernel = names, kernel
        for site in data.get("ordering", []):
            warn_of_order(kernel, site)
        for what in data.get("unwatched", []):
            warnings.warn(f"races: of kernel '{kernel}' {what}", stacklevel=2)
        self.orders = 0
        for site in self.sites:
            self.orders |= site.get("order", 0)
        if data.get("ordering") and not self.granules:  # volatile loads: any store is a release
            self.orders = Order.BEFORE | Order.LATER

    @property
    def parameters(self) -> list[str]:
        """The names of the arguments that launches add."""
        extents = [f"{self.names[i]}.{end}" for i in self.pointers for end in ("begin", "end")]
        return [*("report" for _ in self.reports), *extents, *("shadow" for _ in self.granules),
                *("chip" for _ in self.chip)]  # fmt: skip

    def shadow(self, arguments: Sequence[Any], grid: Sequence[int], **device: Any) -> Shadow | None:
        """The shadow memory of a launch with these arguments (by slot); None without one.
        `device`: as of `Shadow`."""
        if not self.granules:
            return None
        memories = [memory_of(a) for a in arguments if not np.isscalar(a)]
        orders = len({site["order"] for site in self.sites if "order" in site})
        return Shadow(memories, self.granules[0], grid, pooled=pooled(), orders=orders,
                      clocks=self.clocks, **device)  # fmt: skip

    def done(self, shadow: Shadow | None) -> None:
        """Tell the watchers of launches of one without a failed check."""
        if watchers and (shadow is not None or self.orders):
            launch = Launch(self.kernel, self.sites, shadow, self.orders)
            for watcher in watchers:
                watcher(launch)

    def values(self, arguments: Sequence[Any], shadow: Shadow | None) -> list[int]:
        """The additional arguments of a launch with these (by slot)."""
        extents = [address for i in self.pointers for address in extent_of(arguments[i])]
        return extents if shadow is None else [*extents, shadow.address]

    def error(
        self, failed: CheckFailed, arguments: Sequence[Any], grid: Sequence[int],
        shadow: Shadow | None,
    ) -> SanitizerError:  # fmt: skip
        """The error to raise after a launch with these arguments (by slot)."""
        site = self.sites[failed.site]
        place = place_of(site)
        if "memory" in site:
            title = f"race: {site['access']} of {site['memory']} memory"
            details = met(site, self.sites[failed.detail])
        elif site["kind"] == "races":
            other = self._other(failed, shadow)
            title = f"race: {site['access']}"
            if other is None and shadow is not None and shadow.is_write_once(_address(failed)):
                title = _ONCE.get(site["access"], f"{site['access']} in write-once memory")
            details = self._raced(failed, arguments, other)
        elif site["kind"] == "unwritten":
            title = "load of memory that was never written"
            details = self._arguments_at(failed, arguments)
        elif site["kind"] == "bounds":
            title = f"{site['access']} out of bounds"
            details = self._outside(site, failed.detail, arguments)
        else:
            title = f"{'NaN' if failed.detail == NAN else 'infinity'} stored"
            details = self._made(failed, arguments, grid)
        lines = [
            f"{title} in kernel '{self.kernel}', program {failed.program}, at {place}",
            *([f"    {site['source']}"] if site["source"] else []), *details,
        ]  # fmt: skip
        return SanitizerError(
            "\n".join(lines), site["kind"], (site["file"], site["line"]), failed.program,
            0 if "memory" in site else failed.detail,
        )  # fmt: skip

    def _made(
        self, failed: CheckFailed, arguments: Sequence[Any], grid: Sequence[int]
    ) -> list[str]:
        from tritium.sanitize.floats import origin  # with the IR, which launches do not need

        values = [a if np.isscalar(a) else memory_of(a).first for a in arguments]
        copies = [copy for a in arguments if (copy := host_copy(a)) is not None]
        site = self.sites[failed.site]
        return self.origin_lines(
            origin(self.ttir, self.kernel, failed.detail, failed.program, grid, values, copies,
                   (site["file"], site["line"]))
        )  # fmt: skip

    @staticmethod
    def origin_lines(found: Origin | None) -> list[str]:
        """The lines about where a number was made."""
        if found is None:
            return ["    where it was made could not be found"]
        how, site, cause = found
        lines = [f"  first {how} at {site['file']}:{site['line']}", f"    {site['source']}"]
        if cause is not None:
            how, site, _ = cause
            lines += [f"  of an infinity, first {how} at {site['file']}:{site['line']}",
                      f"    {site['source']}"]  # fmt: skip
        return lines

    def _raced(
        self, failed: CheckFailed, arguments: Sequence[Any], other: Noted | None
    ) -> list[str]:
        lines: list[str] = []
        if other is not None:
            site = self.sites[other.site]
            lines = [
                f"  without order beside the {site['access']} of program {other.program}, at "
                f"{place_of(site)}", *([f"    {site['source']}"] if site["source"] else []),
            ]  # fmt: skip
        return [*lines, *self._arguments_at(failed, arguments)]

    def _other(self, failed: CheckFailed, shadow: Shadow | None) -> Noted | None:
        """The other access of a race."""
        site = self.sites[failed.site]
        atomic = site["access"] in _ATOMIC
        return shadow and shadow.other(
            _address(failed), failed.program, site["order"], atomic, site["size"]
        )

    def _arguments_at(self, failed: CheckFailed, arguments: Sequence[Any]) -> list[str]:
        """The arguments that an address is in; else the allocation of a pool."""
        address, lines = _address(failed), list[str]()
        for name, argument in zip(self.names, arguments, strict=True):
            memory = None if np.isscalar(argument) else memory_of(argument)
            if memory and memory is not UNKNOWN and memory.begin <= address < memory.end:
                where = _index(address, memory, self.sites[failed.site]["size"])
                lines.append(
                    f"    {address:#x} is {where} of argument '{name}', which has {memory.text}"
                )
        return lines or [
            f"    {address:#x} is byte {address - p.begin} of an allocation of the pool, which has "
            f"{p.end - p.begin} bytes" for p in pooled() if p.begin <= address < p.end
        ]  # fmt: skip

    def _outside(self, site: Any, address: int, arguments: Sequence[Any]) -> list[str]:
        indices: list[int] = site["arguments"]
        return [
            _place(address & (1 << 64) - 1, self.names[i], memory_of(arguments[i]), site["size"])
            for i in indices
        ]


_ATOMIC = frozenset(access.words for access in Access if access.is_atomic)
_ONCE = {
    Access.READ.words: "load of write-once memory that was not written before",
    Access.WRITE.words: "second store to write-once memory",
}


def _address(failed: CheckFailed) -> int:
    return failed.detail & (1 << 64) - 1


def met(site: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """The lines about the access of on-chip memory that another one has met."""
    what, place = other["access"], place_of(other)
    lines = [f"    {other['source']}"] if other["source"] else []
    if other["later"]:
        kind = {"load": "read"}.get(what, "write")
        return [f"  without a wait for the asynchronous {kind} that began at {place}", *lines]
    return [
        f"  by partition {site['partition']}, without an mbarrier's order beside the {what} by "
        f"partition {other['partition']}, at {place}", *lines,
    ]  # fmt: skip


def warn_of_order(kernel: str, site: Mapping[str, Any]) -> None:
    """Warn that races of a kernel may go unreported, because its programs may order themselves."""
    warnings.warn(
        f"races: programs of kernel '{kernel}' may order themselves by the {site['access']} at "
        f"{place_of(site)}; what such operations may order is not reported", stacklevel=2
    )


def _index(address: int, memory: Memory, size: int) -> str:
    index, rest = divmod(address - memory.first, size)
    return f"byte {address - memory.first}" if rest else f"index {index}"


def place_of(site: Mapping[str, Any]) -> str:
    """The file and the line of a check."""
    return f"{site['file']}:{site['line']}" if site["file"] else "an unknown line"


def _place(address: int, name: str, memory: Memory, size: int) -> str:
    where = _index(address, memory, size)
    if address < memory.begin:
        distance = f"{memory.begin - address} bytes before its memory"
    else:
        distance = f"{address - memory.end} bytes after the end of its memory"
        if address < memory.end:
            distance = f"{address + size - memory.end} bytes of it after the end of its memory"
    return (
        f"    {address:#x} is {where} of argument '{name}', which has {memory.text}: {distance}"
    )
