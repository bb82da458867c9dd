"""The checks of interpreted kernels. The reports are those of compiled kernels, the facts about ops
the same; what passes find by analysis is found while the program runs.

`Watch` sees each op and the handles of its operands and results; `WatchedMemory` sees each access.
Noted for handles are the arguments that a pointer leads to, and whether somebody looks at the
result of an atomic operation.
"""

from __future__ import annotations

import linecache
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from tritium.ir import types as ir
from tritium.language.emitter import Evaluated
from tritium.ops.effects import GLOBAL
from tritium.ops.memory import EvaluationError, Memory
from tritium.sanitize.allocations import PATTERN
from tritium.sanitize.bounds import access_name
from tritium.sanitize.chip.interpreted import (
    Accesses,
    Conflict,
    accesses_chip,
    works_asynchronously,
)
from tritium.sanitize.exact.interpreted import exact_result
from tritium.sanitize.extents import Memory as Extent
from tritium.sanitize.extents import pooled
from tritium.sanitize.kinds import EXACT, Origin, Site
from tritium.sanitize.launch import (
    CheckFailed,
    Checks,
    SanitizerError,
    met,
    place_of,
    warn_of_order,
)
from tritium.sanitize.meetings import Meeting, Noting, NotingShadow, Ordering, acquire, places_of
from tritium.sanitize.origins import BAD, Origins
from tritium.sanitize.races import access_of, is_volatile, orders, releases
from tritium.sanitize.shadow import SITE_BITS, Launch, Noted, Shadow, watchers
from tritium.sanitize.unwritten import holds_pattern

_LIBRARY = ("tritium.", "functools")


class _Result(Evaluated):
    """The result of an op by which programs may order themselves, until somebody looks at it."""

    def __init__(self, type: ir.Type, array: Any, seen: Callable[[], None]):
        object.__setattr__(self, "type", type)
        vars(self)["held"] = array, seen

    @property
    def array(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        array, seen = vars(self)["held"]
        seen()
        return array


class _Now(threading.local):
    """The op that a thread evaluates."""

    op: Any = None
    operands: Sequence[Any] = ()
    origins: Origins
    again = False
    roots: frozenset[int] | None = None
    program: tuple[int, int, int] = (0, 0, 0)
    accessed: tuple[np.ndarray[Any, Any], int] | None = None
    updated = False
    replacing = False


class _Reports(Checks):
    """Reports; what a pass would have written into the kernel's metadata comes as it is found."""

    origin: Origin | None = None

    def _made(self, failed: CheckFailed, arguments: Any, grid: Any) -> list[str]:
        return self.origin_lines(self.origin)

    raced: Noted | None = None

    def _other(self, failed: CheckFailed, shadow: Shadow | None) -> Noted | None:
        return self.raced


class Watch:
    """The checks of one launch.

    Args:
        checks: `bounds`, `races`, `unwritten`, `fp`.
        kernel: its name.
        grid: the launch's.
        arguments: name, extent and bytes of an element of each pointer that the launch passes.
    """

    def __init__(
        self, checks: Sequence[str], kernel: str, grid: tuple[int, int, int],
        arguments: Sequence[tuple[str, Extent, int]],
    ):  # fmt: skip
        self._checks, self._grid = frozenset(checks), grid
        self._extents = [extent for _, extent, _ in arguments]
        self._reports = _Reports(
            {"sites": [], "pointers": []}, [name for name, *_ in arguments], kernel
        )
        self._roots: WeakKeyDictionary[Any, frozenset[int]] = WeakKeyDictionary()
        self._now = _Now()
        self._shadow: NotingShadow | None = None
        if "races" in self._checks:
            granule = min((size for *_, size in arguments), default=1)
            self._shadow = NotingShadow(self._extents, granule, grid, pooled=pooled(), orders=2)
        self._ordering, self._kernel = Ordering(), kernel
        self._misused: CheckFailed | None = None
        self._numbers: dict[tuple[Any, ...], int] = {}

    def argument(self, handle: Any, number: int) -> None:
        """A handle leads to an argument's memory."""
        self._roots[handle] = frozenset((number,))

    def finish(self) -> None:
        """The programs are done. Raises `SanitizerError` for a race, or else for a misuse of
        write-once memory."""
        shadow, race = self._shadow, self._ordering.race
        if race is not None and shadow is not None:
            self._reports.raced = Noted(shadow.program(race.programs[1]), race.sites[1])
            failed = CheckFailed(race.sites[0], shadow.program(race.programs[0]), race.address)
            raise self._reports.error(failed, self._extents, self._grid, shadow)
        if self._misused is not None:
            raise self._reports.error(self._misused, self._extents, self._grid, shadow)
        if self._ordering.unreported and self._ordering.volatile is not None:
            warn_of_order(self._kernel, self._ordering.volatile)
        if shadow is not None:
            self._tell(shadow)

    def _tell(self, shadow: NotingShadow) -> None:
        sites, ordering = self._reports.sites, self._ordering

        def order_of(word: int) -> int:
            return ordering.order(word, sites[word & (1 << SITE_BITS) - 1])

        launch = Launch(self._kernel, sites, shadow, ordering.all, order_of)
        for watcher in watchers:
            watcher(launch)

    # Ops

    def begin(self, op: Any, operands: Sequence[Any], program: tuple[int, int, int]) -> None:
        """An op will be evaluated on these handles."""
        now = self._now
        now.op, now.operands, now.program, now.updated = op, operands, program, False
        now.accessed = None
        pointers = [self._roots.get(h) for h in operands if _leads(h.type)]
        now.roots = None if None in pointers or not pointers else frozenset().union(*pointers)  # pyright: ignore

    def evaluate(self, op: Any, context: Any, handles: Sequence[Any], values: Sequence[Any]) -> Any:
        """Evaluate an op on the values of these handles. Raises `SanitizerError` for an access of
        on-chip memory that comes before the wait for an asynchronous one."""
        if EXACT in self._checks and not self._now.replacing:
            self._now.replacing = True  # what stands for the op is evaluated as it is
            try:
                found = exact_result(context, op, handles)
            finally:
                self._now.replacing = False
            if found is not None:
                return found
        if "fp" in self._checks and not self._now.again:
            return self._followed(op, context, values)
        return self._evaluated(op, context, values)

    def _followed(self, op: Any, context: Any, values: Sequence[Any]) -> Any:
        """The results of an op, of whose NaNs and infinities it is noted where they were made."""
        now, origins = self._now, context.state(Origins)
        now.origins = origins

        def again(changed: Sequence[Any]) -> Any:
            now.again = True
            try:
                return op.evaluate(context, *changed)
            finally:
                now.again = False

        outcome = self._evaluated(op, context, values)
        return origins.follow(op, values, outcome, again, lambda: self._site("fp"))

    def _evaluated(self, op: Any, context: Any, values: Sequence[Any]) -> Any:
        if "races" not in self._checks or not accesses_chip(op):
            return op.evaluate(context, *values)
        begun: Accesses = context.state(Accesses)
        try:
            outcome = op.evaluate(context, *values)
        except EvaluationError:
            found = begun.conflict(op, values, context)
            if found is None:
                raise
            raise self._too_early(found) from None
        if works_asynchronously(op):
            begun.note(op, values, self._site("races"))
        return outcome

    def _too_early(self, found: Conflict) -> SanitizerError:
        site, program = self._site("races"), self._now.program
        kind = "store" if found.other.writes else "load"
        lines = [
            f"race: {found.access} of {found.memory} memory in kernel '{self._kernel}', program "
            f"{program}, at {place_of(site)}", f"    {site['source']}",
            *met(site, {**found.other.site, "access": kind, "later": True}),
        ]  # fmt: skip
        return SanitizerError("\n".join(lines), "races", (site["file"], site["line"]), program)

    def results(self, op: Any, operands: Sequence[Any], results: Sequence[Any]) -> list[Any]:
        """The handles of what an op gave."""
        effects = op.own_effects()
        accesses = any(effect.resource is GLOBAL for effect in effects)
        found = list(results)
        if self._now.updated and "fp" in self._checks:
            self._check_taken(operands)
        if accesses and self._shadow is not None:
            found = self._ordered(op, results)
        for handle in found:
            if _leads(handle.type) and not accesses and self._now.roots is not None:
                self._roots[handle] = self._now.roots
        return found

    def _ordered(self, op: Any, results: Sequence[Any]) -> list[Any]:
        """The results of an access, of which it is noted when somebody looks at them."""
        shadow, ordering, accessed = self._shadow, self._ordering, self._now.accessed
        assert shadow is not None
        if not orders(op, used=True):
            return list(results)
        progress = ordering.of(shadow.number(self._now.program))
        if is_volatile(op):
            ordering.volatile = ordering.volatile or self._site("races", access=access_of(op).words)
        told = [] if accessed is None else ordering.told(places_of(*accessed))

        def seen() -> None:
            acquire(progress, told)

        if orders(op, used=False):
            seen()
        return [_Result(h.type, h.array, seen) for h in results]

    def _check_taken(self, operands: Sequence[Any]) -> None:
        """Check what an atomic operation takes."""
        masks = [h.array for h in operands if ir.element_type(h.type) == ir.i1]
        for handle in operands:
            if ir.is_float(handle.type):
                self._check_floats(handle.array, masks[-1] if masks else None)

    # Accesses

    def before(
        self, addresses: np.ndarray[Any, Any], size: int, mask: Any, *, atomic: bool = False
    ) -> None:
        """Elements of `size` bytes at these addresses will be accessed."""
        active = addresses if mask is None else addresses[np.broadcast_to(mask, addresses.shape)]
        if not active.size:
            return
        active, self._now.updated = active.reshape(-1), atomic
        self._now.accessed = active, size
        if "bounds" in self._checks and self._now.roots:
            self._check_bounds(active, size, sorted(self._now.roots))
        if self._shadow is not None:
            self._check_race(active, size, self._shadow)

    def _check_bounds(self, active: np.ndarray[Any, Any], size: int, roots: list[int]) -> None:
        outside = np.ones(active.shape, bool)
        for root in roots:
            extent = self._extents[root]
            count = max(extent.end - extent.begin - (size - 1), 0)
            outside &= active - np.uint64(extent.begin) >= np.uint64(count)
        if outside.any():
            wrong = active[outside]
            # The same one as in compiled kernels: places before the begin are huge numbers.
            begin = np.uint64(self._extents[roots[0]].begin if len(roots) == 1 else 0)
            address = int(wrong[np.argmax(wrong - begin)])
            site = self._site("bounds", access=access_name(self._now.op), arguments=roots,
                              size=size)  # fmt: skip
            raise self._error(site, address)

    def _check_race(self, active: np.ndarray[Any, Any], size: int, shadow: NotingShadow) -> None:
        op, ordering = self._now.op, self._ordering
        access, program = access_of(op), ordering.of(shadow.number(self._now.program))
        site = self._site("races", access=access.words, size=size,
                          before=program.acquired or orders(op, used=True))  # fmt: skip
        sites, key = self._reports.sites, tuple(site.values())
        if key not in self._numbers:
            if len(sites) >= 1 << SITE_BITS:
                return  # a word has no room for more
            self._numbers[key] = len(sites)
            sites.append(site)
        mine, tells = self._numbers[key], releases(op)
        noting = Noting(access, size, mine, site["before"], tells)
        for word, address in shadow.note(noting, program, active).items():
            both = mine, word & (1 << SITE_BITS) - 1
            ordering.met(Meeting(both, (program.number, word >> SITE_BITS), address))
        misused = shadow.misused(access, size, active)
        if misused is not None and self._misused is None:
            self._misused = CheckFailed(mine, self._now.program, misused)
        if tells:
            ordering.release(program, places_of(active, size))

    def loaded(self, addresses: np.ndarray[Any, Any], values: Any, mask: Any) -> None:
        """These elements were loaded from these addresses."""
        op, size = self._now.op, values.dtype.itemsize
        if "unwritten" not in self._checks or len(op.results) != 1:
            return
        if not holds_pattern(ir.element_type(op.results[0].type)):
            return
        raw = np.ascontiguousarray(values).reshape(-1, 1).view(np.uint8)
        same = (raw == np.frombuffer(PATTERN * (size // 2), np.uint8)).all(axis=1)
        if mask is not None:
            same &= np.broadcast_to(mask, addresses.shape).reshape(-1)
        if same.any():
            raise self._error(self._site("unwritten", size=size),
                              int(addresses.reshape(-1)[same].max()))  # fmt: skip

    def stored(self, values: Any, mask: Any) -> None:
        """These elements were stored."""
        if "fp" in self._checks and values.dtype.kind in "fV":  # V: those of ml_dtypes
            self._check_floats(values, mask)

    def _check_floats(self, values: Any, mask: Any) -> None:
        numbers = np.asarray(values).astype(np.float64)
        for kind, is_bad in BAD.items():
            bad = is_bad(numbers) & (True if mask is None else mask)
            if bad.any():
                now = self._now
                stored = (h.array for h in now.operands if _is_number(h))
                origins = (now.origins.of(array, kind, bad) for array in stored)
                self._reports.origin = next((o for o in origins if o is not None), None)
                raise self._error(self._site("fp"), kind)

    # Reports

    def _site(self, kind: str, **more: Any) -> Site:
        frame: Any = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
        while frame is not None and frame.f_globals.get("__name__", "").startswith(_LIBRARY):
            frame = frame.f_back
        if frame is None:
            return {"kind": kind, "file": "", "line": 0, "source": "", **more}
        file, line = frame.f_code.co_filename, frame.f_lineno
        source = linecache.getline(file, line).strip()
        return {"kind": kind, "file": file, "line": line, "source": source, **more}

    def _error(self, site: Site, detail: int) -> SanitizerError:
        sites = self._reports.sites
        if site not in sites:
            sites.append(site)
        failed = CheckFailed(sites.index(site), self._now.program, detail)
        return self._reports.error(failed, self._extents, self._grid, self._shadow)


def _is_number(handle: Any) -> bool:
    """True if a handle has floats; sums of asynchronous products are none before they are done."""
    return ir.is_float(handle.type) and isinstance(handle.array, np.ndarray | np.generic)


def _leads(type: ir.Type) -> bool:
    """True if a value leads to memory: a pointer, a tile of them, a descriptor."""
    return ir.is_pointer(type) or not (ir.is_float(type) or ir.is_integer(type))


class WatchedMemory(Memory):
    """Memory whose accesses are checked.

    Args:
        memory: where they are made.
    """

    def __init__(self, memory: Memory, watch: Watch):
        self._memory, self._watch = memory, watch

    @property
    def ranges(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The ranges of the memory below."""
        return self._memory.ranges

    @ranges.setter
    def ranges(self, value: Any) -> None:
        self._memory.ranges = value

    def load(self, addresses: Any, dtype: np.dtype[Any], mask: Any) -> Any:
        addresses = np.asarray(addresses, np.uint64)
        self._watch.before(addresses, dtype.itemsize, mask)
        values = self._memory.load(addresses, dtype, mask)
        self._watch.loaded(addresses, values, mask)
        return values

    def store(self, addresses: Any, value: Any, mask: Any) -> None:
        addresses = np.asarray(addresses, np.uint64)
        self._watch.before(addresses, value.dtype.itemsize, mask)
        self._memory.store(addresses, value, mask)
        self._watch.stored(value, mask)

    def update(self, addresses: Any, dtype: np.dtype[Any], mask: Any, change: Any) -> Any:
        addresses = np.asarray(addresses, np.uint64)
        self._watch.before(addresses, dtype.itemsize, mask, atomic=True)
        values = self._memory.update(addresses, dtype, mask, change)
        self._watch.loaded(addresses, values, mask)
        return values
