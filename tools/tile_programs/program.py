"""A kernel in the making: its text, the values of its tiles in every program, its arguments."""

from __future__ import annotations

import random
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

from tools.tile_programs.memory import Base

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
E4M3, E5M2 = np.dtype(ml_dtypes.float8_e4m3fn), np.dtype(ml_dtypes.float8_e5m2)
INTEGERS = tuple(np.dtype(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64))
LANGUAGE = {
    **{dtype: f"tl.{dtype.name}" for dtype in INTEGERS}, np.dtype(bool): "tl.int1",
    np.dtype(np.float16): "tl.float16", BFLOAT16: "tl.bfloat16", np.dtype(np.float32): "tl.float32",
    np.dtype(np.float64): "tl.float64", E4M3: "tl.float8e4nv", E5M2: "tl.float8e5",
}  # fmt: skip
_KINDS = {
    np.dtype(bool): "b", np.dtype(np.int32): "i", np.dtype(np.int64): "i",
    np.dtype(np.float32): "f", np.dtype(np.float16): "h", BFLOAT16: "h", np.dtype(np.float64): "h",
    E4M3: "q", E5M2: "q",
}  # fmt: skip
ALL_KINDS = "bifnhq"
_EXACT = {np.dtype(np.float16): 2048.0, BFLOAT16: 256.0, E4M3: 16.0, E5M2: 8.0}
EXACT = 2.0**22
"""Floats are integers below this, or what their type holds exactly: sums and products of them are
exact in any order."""
HELPERS = """
@tritium.jit
def times(a, b):
    return a * b


@tritium.jit
def larger(a, b):
    return tl.maximum(a, b)


@tritium.jit
def smaller(a, b):
    return tl.minimum(a, b)


@tritium.jit
def recurrence(a, x, b, y):
    return a * b, x * b + y


@tritium.jit
def first_largest(a, i, b, j):
    is_first = (a > b) | ((a == b) & (i < j))
    return tl.where(is_first, a, b), tl.where(is_first, i, j)


@tritium.jit(noinline=True)
def called(a, b):
    return tl.where(a > b, a * 3, b ^ a)


"""
"""Functions that statements may call."""
LARGEST = 2048
"""Elements of a tile at most."""


@dataclass(eq=False)
class Tile:
    """A value of the kernel; `data` has the programs as its first axis."""

    name: str
    data: np.ndarray

    @property
    def shape(self) -> tuple[int, ...]:
        return self.data.shape[1:]

    @property
    def kind(self) -> str:
        """`b` (mask), `i` (int32, int64), `f` (float32), `n` (narrow and unsigned integers), `h`
        (float16, bfloat16, float64) or `q` (8-bit floats)."""
        return _KINDS.get(self.data.dtype, "n")


@dataclass(eq=False)
class Pointer:
    """A pointer argument: to the element `start` of some memory."""

    name: str
    base: Base
    start: int
    shared: bool = False
    """True if atomics change the array, which nothing else accesses then."""
    unknown: bool = False
    """True if what is in the array afterwards is not known."""

    @property
    def length(self) -> int:
        return self.base.data.size - self.start


class Unlike(Exception):
    """A body of a loop has another text in a later iteration than in the first."""


@dataclass(eq=False)
class Program:
    """A kernel of a grid.

    Attributes:
        active: the programs that execute what is made now, under `if` and in loops.
        indent: the blank columns before its lines.
        pool: arrays, and the elements of each that belong to one program, that accesses share.
        functions: the texts of functions that the kernel calls, beside `HELPERS`.
    """

    source: random.Random
    grid: tuple[int, int, int]
    tiles: list[Tile] = field(default_factory=list)
    pointers: list[Pointer] = field(default_factory=list)
    scalars: dict[str, int] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    indent: str = ""
    pool: list[tuple[Pointer, int]] = field(default_factory=list)
    functions: list[str] = field(default_factory=list)
    count: int = 0

    def __post_init__(self) -> None:
        self.programs = int(np.prod(self.grid))
        self.active = np.ones(self.programs, bool)
        self.pid = Tile("pid", np.arange(self.programs, dtype=np.int32))
        self.lines.append(
            "pid = tl.program_id(0) + tl.num_programs(0) * (tl.program_id(1) "
            "+ tl.num_programs(1) * tl.program_id(2))"
        )

    def name(self, letter: str) -> str:
        """A name that nothing has."""
        self.count += 1
        return f"{letter}{self.count}"

    def line(self, text: str) -> None:
        self.lines.append(self.indent + text)

    def function(self, *texts: str) -> None:
        """Define functions before the kernel."""
        self.functions += [text for text in texts if text not in self.functions]

    def keep(self) -> Any:
        """The values that statements may use now, for `go_back`."""
        return list(self.tiles)

    def go_back(self, kept: Any) -> None:
        """Let statements use what they could at an earlier `keep()`."""
        self.tiles = list(kept)

    def as_carried(self, value: Tile, carried: Tile) -> str:
        """The text of a value that a carried tile gets."""
        return value.name

    def together(self, *tiles: Tile) -> list[str]:
        """The texts of tiles that an operation has as operands."""
        return [tile.name for tile in tiles]

    def splittable(self, tile: Tile) -> str:
        """The text of a tile that can be split along its last axis."""
        return tile.name

    def coordinates(self, tile: Tile, axis: int) -> str:
        """The text of the coordinates along an axis of a tile's elements."""
        places = axes_text(f"tl.arange(0, {tile.shape[axis]})", axis, len(tile.shape))
        return f"tl.broadcast_to({places}, {list(tile.shape)})"

    def among_active(self, mask: np.ndarray) -> np.ndarray:
        """A mask, programs first, without the programs that do not execute."""
        return mask & self.active.reshape(-1, *(1,) * (mask.ndim - 1))

    @contextmanager
    def attempt(self) -> Generator[None]:
        """Undo all that was made within where `Unlike` is raised."""
        lines, tiles, pointers = list(self.lines), list(self.tiles), list(self.pointers)
        pool, scalars, active, indent, functions = (
            list(self.pool), dict(self.scalars), self.active, self.indent, list(self.functions)
        )  # fmt: skip
        memory = [(p, p.shared, p.base.state()) for p in self.pointers]
        try:
            yield
        except Unlike:
            self.lines, self.tiles, self.pointers = lines, tiles, pointers
            self.pool, self.scalars, self.active, self.indent = pool, scalars, active, indent
            self.functions = functions
            for pointer, shared, state in memory:
                pointer.shared = shared
                pointer.base.restore(state)

    def new(self, text: str, data: np.ndarray, letter: str = "v") -> Tile:
        """A tile that an expression gives."""
        tile = Tile(self.name(letter), np.asarray(data))
        self.line(f"{tile.name} = {text}")
        self.tiles.append(tile)
        return tile

    def pick(self, kinds: str = "bif", least: int = 0, most: int = 3) -> Tile | None:
        """A tile of one of the kinds and of a rank between two; late ones more often."""
        fit = [t for t in self.tiles if t.kind in kinds and least <= len(t.shape) <= most]
        if not fit:
            return None
        return fit[max(self.source.randrange(len(fit)) for _ in range(2))]

    def scalar(self, value: int) -> str:
        """A run-time argument of type i32; in a later iteration of a loop, of the same value."""
        name = self.name("n")  # taken in each iteration, so that what follows is named alike
        for there, held in self.scalars.items():
            if held == value:
                return there
        if self.scalars.setdefault(name, value) != value:
            raise Unlike(name)
        return name

    def pointer(self, dtype: Any, length: int, values: np.ndarray | None = None) -> Pointer:
        """A new array of small numbers."""
        numbers = np.random.default_rng(self.source.getrandbits(32))
        dtype = np.dtype(dtype)
        if values is None:
            low, high = {"i": (-100, 101), "u": (0, 201)}.get(dtype.kind, (-4, 5))
            values = numbers.integers(low, high, length)
            if dtype.kind in "iu" and numbers.random() < 0.3:
                raw = numbers.integers(0, 256, length * dtype.itemsize, np.uint8)
                values = np.frombuffer(raw.tobytes(), dtype)
        return self._argument("p", Base(np.asarray(values).astype(dtype)), 0)

    def _argument(self, letter: str, base: Base, start: int) -> Pointer:
        """A new argument; in a later iteration of a loop, the one that the first made."""
        name = self.name(letter)
        for there in self.pointers:
            if there.name == name:
                held = there.base.data
                if (held.size, held.dtype, there.start) != (base.data.size, base.data.dtype, start):
                    raise Unlike(name)
                return there
        made = Pointer(name, base, start)
        self.pointers.append(made)
        return made

    def alias(self, of: Pointer, start: int) -> Pointer:
        """Another pointer into an argument's memory."""
        return self._argument("q", of.base, of.start + start)

    def exact(self, data: np.ndarray) -> bool:
        """True if floats are small integers."""
        if data.dtype.kind in "iub":
            return True
        wide = data.astype(np.float64)
        bound = _EXACT.get(data.dtype, EXACT)
        return bool((np.abs(wide) < bound).all() and (wide == np.trunc(wide)).all())

    def text(self) -> str:
        """The kernel."""
        arguments = [p.name for p in self.pointers] + list(self.scalars)
        body = "\n".join(f"    {line}" for line in self.lines)
        return (
            f"import tritium\nimport tritium.language as tl\n\n{HELPERS}"
            f"{''.join(self.functions)}@tritium.jit\ndef kernel({', '.join(arguments)}):\n{body}\n"
        )


def wrapped(data: Any, dtype: Any) -> np.ndarray:
    """Integers in a type, modulo its size."""
    return np.asarray(data).astype(np.int64).astype(dtype)


def is_float(dtype: np.dtype) -> bool:
    """True if elements are floats, those that NumPy has not among its own included."""
    return dtype.kind not in "iub"


def row_major(shape: Sequence[int]) -> np.ndarray:
    """The numbers of a tile's elements."""
    return np.arange(int(np.prod(shape)), dtype=np.int32).reshape(shape)


def axes_text(text: str, axis: int, rank: int) -> str:
    """`text[None, :, None]`: a one-dimensional tile along one of some axes."""
    places = ", ".join(":" if a == axis else "None" for a in range(rank))
    return f"{text}[{places}]" if rank > 1 else text
