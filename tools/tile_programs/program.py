"""A kernel in the making: its text, the values of its tiles in every program, its arguments."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

from tools.tile_programs.memory import Base

LANGUAGE = {
    np.dtype(np.int8): "tl.int8", np.dtype(np.int16): "tl.int16", np.dtype(np.int32): "tl.int32",
    np.dtype(np.int64): "tl.int64", np.dtype(np.float16): "tl.float16",
    np.dtype(ml_dtypes.bfloat16): "tl.bfloat16", np.dtype(np.float32): "tl.float32",
}  # fmt: skip
EXACT = 2.0**22
"""Floats are integers below this: sums and products of them are exact in any order."""
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
        """`b` (mask), `i` or `f`."""
        return self.data.dtype.kind


@dataclass(eq=False)
class Pointer:
    """A pointer argument: to the element `start` of some memory."""

    name: str
    base: Base
    start: int
    shared: bool = False
    """Whether atomics change the array, which nothing else accesses then."""

    @property
    def length(self) -> int:
        return self.base.data.size - self.start


@dataclass(eq=False)
class Program:
    """A kernel of a grid."""

    source: random.Random
    grid: tuple[int, int, int]
    tiles: list[Tile] = field(default_factory=list)
    pointers: list[Pointer] = field(default_factory=list)
    scalars: dict[str, int] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    _count: int = 0

    def __post_init__(self) -> None:
        self.programs = int(np.prod(self.grid))
        self.pid = Tile("pid", np.arange(self.programs, dtype=np.int32))
        self.lines.append(
            "pid = tl.program_id(0) + tl.num_programs(0) * (tl.program_id(1) "
            "+ tl.num_programs(1) * tl.program_id(2))"
        )

    def name(self, letter: str) -> str:
        """A name that nothing has."""
        self._count += 1
        return f"{letter}{self._count}"

    def line(self, text: str) -> None:
        self.lines.append(text)

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
        """A run-time argument of type i32."""
        for name, held in self.scalars.items():
            if held == value:
                return name
        name = self.name("n")
        self.scalars[name] = value
        return name

    def pointer(self, dtype: Any, length: int, values: np.ndarray | None = None) -> Pointer:
        """A new array of small numbers."""
        numbers = np.random.default_rng(self.source.getrandbits(32))
        if values is None:
            low, high = (-4, 5) if np.dtype(dtype).kind != "i" else (-100, 101)
            values = numbers.integers(low, high, length)
        made = Pointer(self.name("p"), Base(np.asarray(values).astype(dtype)), 0)
        self.pointers.append(made)
        return made

    def alias(self, of: Pointer, start: int) -> Pointer:
        """Another pointer into an argument's memory."""
        made = Pointer(self.name("q"), of.base, of.start + start)
        self.pointers.append(made)
        return made

    def exact(self, data: np.ndarray) -> bool:
        """Whether floats are small integers."""
        return data.dtype.kind != "f" or bool(
            (np.abs(data) < EXACT).all() and (data == np.trunc(data)).all()
        )

    def text(self) -> str:
        """The kernel."""
        arguments = [p.name for p in self.pointers] + list(self.scalars)
        body = "\n".join(f"    {line}" for line in self.lines)
        return (
            "import tritium\nimport tritium.language as tl\n\n\n@tritium.jit\n"
            f"def kernel({', '.join(arguments)}):\n{body}\n"
        )


def wrapped(data: Any, dtype: Any) -> np.ndarray:
    """Integers in a type, modulo its size."""
    return np.asarray(data).astype(np.int64).astype(dtype)


def row_major(shape: Sequence[int]) -> np.ndarray:
    """The numbers of a tile's elements."""
    return np.arange(int(np.prod(shape)), dtype=np.int32).reshape(shape)
