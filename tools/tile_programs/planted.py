"""A last statement of a random program with a planted fault, or without: the sanitizer must report
exactly that fault, or nothing (`tools/fuzz_sanitize.py`)."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from tools.tile_programs.arithmetic import numbers_of
from tools.tile_programs.program import BFLOAT16, LANGUAGE, Pointer, Program, Tile, is_float

FAULT, OTHER = "# fault", "# other"
"""Comments that mark the line of the fault, and the one that the report must name beside it."""
UNWRITTEN = 0x7FF5
"""The 16 bits with which new memory is filled."""
_FARTHEST = 1 << 12
_TYPES = tuple(map(np.dtype, (np.int32, np.int64, np.float16, BFLOAT16, np.float32, np.float64)))


@dataclass(frozen=True)
class Wanted:
    """The report of a planted fault.

    Attributes:
        kind: the check that reports it.
        argument: the name of the array; "" for `fp`.
        places: the number of a program and an index of the array, of which one must be named; of
            `fp` the index is 0.
        words: the beginning of the message.
    """

    kind: str
    argument: str
    places: frozenset[tuple[int, int]]
    words: str


@dataclass(frozen=True)
class _Index:
    """A tile of places in a new array.

    Attributes:
        name: of the tile in the kernel.
        trips: its values in each iteration of a loop, programs first.
        active: the programs that execute the statement.
    """

    name: str
    trips: list[np.ndarray]
    active: np.ndarray

    @property
    def data(self) -> np.ndarray:
        """Values of all iterations in the programs that execute, programs first."""
        return np.stack([t.astype(np.int64).reshape(len(t), -1) for t in self.trips], 1)

    def where(self, holds: Callable[[np.ndarray], np.ndarray]) -> list[tuple[int, int]]:
        """The program and the value of each element for which something holds."""
        data = self.data
        found = holds(data) & self.active.reshape(-1, 1, 1)
        return [(int(n), int(v)) for n, v in zip(np.nonzero(found)[0], data[found], strict=True)]


class Plant:
    """A statement of a kind, `faulty` or not, for `program_of`; `wanted` is its report then.

    Args:
        kind: `bounds`, `races`, `unwritten` or `fp`.
        faulty: with the fault.
    """

    def __init__(self, kind: str, faulty: bool):
        self.faulty, self.kind = faulty, kind
        self.wanted: Wanted | None = None

    def __call__(self, p: Program) -> None:
        """Write the statement."""
        with np.errstate(all="ignore"):
            {"bounds": self._bounds, "races": self._races, "unwritten": self._unwritten,
             "fp": self._float}[self.kind](p)  # fmt: skip

    def _want(self, words: str, argument: str, places: Sequence[tuple[int, int]]) -> None:
        if places:  # else no program comes there
            self.wanted = Wanted(self.kind, argument, frozenset(places), words)

    def _bounds(self, p: Program) -> None:
        """An access whose last element is an array's last; with the fault one further on, one
        before the array, or without its mask."""
        s = p.source
        with _index(p, p.tiles) as at:
            length, mask = _inside(p, at)
            dtype = s.choice(_TYPES)
            pointer = p.pointer(dtype, length)
            way = s.choice(("beyond", "before", "unmasked"))
            outside = at.where(lambda x: (x < 0) | (x >= length))
            least = min(v for _, v in at.where(lambda x: (x >= 0) & (x < length)))
            place, held = at.name, mask
            if way == "unmasked" and outside:
                held, places = "", outside
            elif way == "before":
                place = f"({at.name} - {least + 1})"
                places = [(n, -1) for n, _ in at.where(lambda x: x == least)]
            else:
                place = f"({at.name} + 1)"
                places = [(n, length) for n, _ in at.where(lambda x: x == length - 1)]
            if not self.faulty:
                place, held = at.name, mask
            name = _access(p, pointer, place, held, at)
        if self.faulty:
            self._want(f"{name} out of bounds", pointer.name, places)

    def _races(self, p: Program) -> None:
        """Programs that write parts of an array of their own; with the fault, neighbours meet."""
        s = p.source
        size, programs = s.choice((1, 4, 16, 64)), range(p.programs)
        dtype, way = s.choice(_TYPES), s.choice(("stride", "shift", "atomic"))
        at = f"tl.arange(0, {size})"
        value = f"tl.full([{size}], 1, {LANGUAGE[dtype]})"
        if way == "atomic":
            pointer = p.pointer(s.choice(_TYPES[:2]), 64)
            pointer.shared = True
            p.line(f"tl.atomic_add({pointer.name} + {at}, 1, sem='relaxed')  {OTHER}")
            np.add.at(pointer.base.data, np.tile(np.arange(size), len(programs)), 1)
            last = p.programs - 1
            if self.faulty and last:
                p.line(f"if pid == {last}:")
                p.line(f"    tl.store({pointer.name} + {at}, 0)  {FAULT}")
                pairs = [(n, i) for n in programs for i in range(size)]
                self._want("race: ", pointer.name, pairs)
            return
        pointer = p.pointer(dtype, p.programs * size + 1)
        start = f"{pointer.name} + pid * {size}"
        if way == "stride":
            step = size - 1 if self.faulty else size
            p.line(f"tl.store({pointer.name} + pid * {step} + {at}, {value})  {FAULT}")
            places = [n * step + np.arange(size) for n in programs]
            one = np.ones(size, dtype)
            for where in places:
                pointer.base.data[where] = one
            if self.faulty:
                count = np.bincount(np.concatenate(places))
                self._want("race: store", pointer.name, [
                    (n, int(i)) for n, w in zip(programs, places, strict=True)
                    for i in w if count[i] > 1
                ])  # fmt: skip
            return
        name = p.name("v")
        p.line(f"{name} = tl.load({start} + {at}{' + 1' if self.faulty else ''})  {OTHER}")
        p.line(f"tl.store({start} + {at}, {name})  {FAULT}")
        if self.faulty:
            self._want("race: ", pointer.name,
                       [(m, n * size) for n in programs[1:] for m in (n - 1, n)])  # fmt: skip

    def _unwritten(self, p: Program) -> None:
        """A load of what has been written of an array; with the fault, but one place."""
        s = p.source
        with _index(p, p.tiles) as at:
            length, mask = _inside(p, at)
            dtype = s.choice(_TYPES)
            filled = np.full(length * dtype.itemsize // 2, UNWRITTEN, np.uint16).view(dtype)
            read = at.where(lambda x: (x >= 0) & (x < length))
            gap = s.choice(read)[1]
            for _, place in read:
                if not (self.faulty and place == gap):
                    filled[place] = place % 5
            pointer = p.pointer(dtype, length, filled)
            _load(p, pointer, at.name, mask, at)
        if self.faulty:
            self._want("load of memory that was never written", pointer.name,
                       [(n, v) for n, v in read if v == gap])  # fmt: skip

    def _float(self, p: Program) -> None:
        """A function of the elements of an array; with the fault, one has no finite result. The
        index is of no loaded numbers: these may be others when the line is looked for."""
        s = p.source
        with _index(p, p.tiles[:1]) as at:
            length, mask = _inside(p, at)
            dtype = s.choice((np.dtype(np.float32), np.dtype(np.float64)))
            numbers = np.full(length, 4, dtype)
            read = at.where(lambda x: (x >= 0) & (x < length))
            bad = s.choice(read)[1]
            text, number, what = s.choice((
                ("tl.sqrt({})", -1, "NaN"), ("tl.log({})", -3, "NaN"), ("1.0 / {}", 0, "infinity"),
                ("({0} - 4.0) / {0}", np.inf, "NaN"),
            ))  # fmt: skip
            if self.faulty:
                numbers[bad] = number
            pointer, name, result = p.pointer(dtype, length, numbers), p.name("v"), p.name("v")
            masked = f", mask={mask}, other=4" if mask else ""
            p.line(f"{name} = tl.load({pointer.name} + {at.name}{masked})")
            p.line(f"{result} = {text.format(name)}  {OTHER}")
            _keep(p, result, dtype, at, f"  {FAULT}")
        if self.faulty:
            self._want(f"{what} stored", "", [(n, 0) for n, v in read if v == bad])


@contextmanager
def _index(p: Program, tiles: Sequence[Tile]) -> Generator[_Index]:
    """Some tile of several as an index: as it is, in a loop that moves it, or under an `if`."""
    s, outer = p.source, p.active
    fit = [t for t in tiles if t.kind == "i" and t.data.size and _near(t.data[outer]).any()]
    tile: Tile = s.choice(fit) if fit else p.new("pid", p.pid.data)
    name, way = p.name("at"), s.choice(("plain", "loop", "if"))
    trips = [tile.data]
    if way == "if" and outer.all():
        of = s.choice(np.flatnonzero(_near(tile.data).reshape(p.programs, -1).any(1)).tolist())
        p.line(f"if pid % 2 == {of % 2}:")
        p.active = outer & (np.arange(p.programs) % 2 == of % 2)
        p.indent += "    "
    elif way == "loop":
        number, step = s.choice((1, 2, 3)), s.choice((1, 8, -1))
        trips = [tile.data + tile.data.dtype.type(t * step) for t in range(number)]
        p.line(f"for t in range({p.scalar(number) if s.random() < 0.5 else number}):")
        p.indent += "    "
    moved = f" + t * {step}" if way == "loop" else ""
    p.line(f"{name} = {tile.name}{moved}")
    indent = p.indent
    yield _Index(name, trips, p.active)
    p.indent = indent[4:] if way == "loop" or p.active is not outer else indent
    p.active = outer


def _near(data: np.ndarray) -> np.ndarray:
    return (data >= 0) & (data < _FARTHEST)


def _inside(p: Program, at: _Index) -> tuple[int, str]:
    """The length of an array that ends with an element of the index, and the text of a mask of
    those that are in it; "" where all are."""
    s = p.source
    values = sorted(v for _, v in at.where(_near))
    length = (values[-1] if s.random() < 0.6 else s.choice(values)) + 1
    masks: list[str] = []
    if at.where(lambda x: x < 0):
        masks.append(f"({at.name} >= 0)")
    if at.where(lambda x: x >= length) or s.random() < 0.3:
        masks.append(f"({at.name} < {p.scalar(length) if s.random() < 0.6 else length})")
    return length, " & ".join(masks)


def _access(p: Program, pointer: Pointer, place: str, mask: str, at: _Index) -> str:
    """A load, a store or an atomic addition; its name in reports."""
    s, dtype = p.source, pointer.base.data.dtype
    way = s.choice(("load", "load", "store", "atomic"))
    masked = f", mask={mask}" if mask else ""
    if way == "atomic" and dtype.itemsize >= 4:
        p.line(f"tl.atomic_add({pointer.name} + {place}, ({place}).to({LANGUAGE[dtype]}) * 0"
               f"{masked})  {FAULT}")  # fmt: skip
        return "atomic access"
    if way == "store" and len(at.trips) == 1 and _writes(pointer, at):
        p.line(f"tl.store({pointer.name} + {place}, {place}{masked})  {FAULT}")
        return "store"
    _load(p, pointer, place, mask, at)
    return "load"


def _writes(pointer: Pointer, at: _Index) -> bool:
    """Note a store of the places themselves, if no two elements meet."""
    data = at.trips[0]
    places = data.astype(np.int64)
    active = at.active.reshape(-1, *(1,) * (data.ndim - 1)) & np.ones(data.shape, bool)
    active &= (places >= 0) & (places < pointer.length)
    if is_float(pointer.base.data.dtype) and places[active].max(initial=0) > 64:
        return False
    return pointer.base.write(places, active, places.astype(pointer.base.data.dtype))


def _load(p: Program, pointer: Pointer, place: str, mask: str, at: _Index) -> None:
    name = p.name("v")
    masked = f", mask={mask}, other=0" if mask else ""
    p.line(f"{name} = tl.load({pointer.name} + {place}{masked})  {FAULT}")
    _keep(p, name, pointer.base.data.dtype, at, "")


def _keep(p: Program, name: str, dtype: np.dtype, at: _Index, comment: str) -> None:
    """Store a tile where nothing else is."""
    shape = at.trips[0].shape[1:]
    numel = int(np.prod(shape))
    sink = p.pointer(dtype, p.programs * numel, np.zeros(p.programs * numel, dtype))
    sink.shared = sink.unknown = True
    at_text = f" + ({numbers_of(shape)})" if shape else ""
    p.line(f"tl.store({sink.name} + pid * {numel}{at_text}, {name}){comment}")
