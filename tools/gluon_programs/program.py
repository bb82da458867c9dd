"""A Gluon kernel in the making: tiles and shared memory with layouts, and what they hold."""

from __future__ import annotations

import random
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tools.gluon_programs.layouts import Layouts, text_of
from tools.tile_programs.program import HELPERS, LANGUAGE, Program, Tile

IMPORTS = """from tritium.experimental import gluon
from tritium.experimental.gluon import language as gl
from tritium.experimental.gluon.language.nvidia import ampere, hopper
from tritium.experimental.gluon.language.nvidia.hopper import mbarrier, tma
"""


@dataclass(eq=False)
class Memory:
    """Shared memory, or a part of it.

    Attributes:
        data: what it holds, programs first: a view of the whole allocation's.
        layout: that of the allocation; None for a part of which only shape and type are known.
        buffers: True if its first axis is none of the layout's.
    """

    name: str
    data: np.ndarray
    layout: Any
    buffers: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        return self.data.shape[1:]


@dataclass(eq=False)
class GluonProgram(Program):
    """A Gluon kernel of a grid, for warps of some lanes on a device with some abilities."""

    lanes: int = 32
    warps: int = 4
    abilities: frozenset[str] = frozenset()
    memories: list[Memory] = field(default_factory=list)
    room: int = 32 << 10
    """Bytes of shared memory that may still be allocated."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.known: dict[str, str] = {}
        units = sorted(self.abilities & {"mma", "wgmma", "mfma3", "mfma4", "wmma1", "wmma2"})
        self.layouts = Layouts(self.source, self.lanes, self.warps, units)

    @property
    def num_warps(self) -> int:
        return self.warps

    def layout(self, layout: Any) -> str:
        """The name of a layout in the kernel."""
        text = text_of(layout)
        return self.known.setdefault(text, f"L{len(self.known)}")

    def any_layout(self, shape: Sequence[int]) -> str:
        """The name of any layout for blocks of a shape."""
        return self.layout(self.layouts.any(shape))

    def keep(self) -> Any:
        return list(self.tiles), list(self.memories), self.room

    def go_back(self, kept: Any) -> None:
        tiles, memories, self.room = kept
        self.tiles, self.memories = list(tiles), list(memories)

    def as_carried(self, value: Tile, carried: Tile) -> str:
        return f"gl.convert_layout({value.name}, {carried.name}.type.layout)"

    def together(self, *tiles: Tile) -> list[str]:
        """The texts of tiles in one layout, that of the first or another."""
        first = tiles[0]
        alike = all(t.shape == first.shape for t in tiles)
        if alike and self.source.random() < 0.5:
            layout = f"{first.name}.type.layout"
            return [first.name, *(converted(tile, layout) for tile in tiles[1:])]
        rank = max(len(t.shape) for t in tiles)
        layout = (
            self.any_layout(first.shape) if alike and rank
            else self.layout(self.layouts.blocked(max(rank, 1)))
        )  # fmt: skip
        return [converted(tile, layout) for tile in tiles]

    def splittable(self, tile: Tile) -> str:
        return converted(tile, self.layout(self.layouts.splittable(len(tile.shape))))

    def coordinates(self, tile: Tile, axis: int) -> str:
        layout = f"{tile.name}.type.layout"
        zeros = f"gl.zeros({list(tile.shape)}, gl.int32, {layout})"
        return f"{index(axis, tile.shape, layout)} + {zeros}"

    @contextmanager
    def attempt(self) -> Generator[None]:
        kept = self.keep()
        wholes = {id(w): (w, w.copy()) for w in (whole(m.data) for m in self.memories)}
        with super().attempt():
            yield
            return
        self.go_back(kept)
        for array, state in wholes.values():
            array[...] = state

    def update(self, part: np.ndarray, values: np.ndarray) -> None:
        """Change a part of shared memory in the programs that execute this."""
        part[...] = np.where(self.among_active(np.ones(part.shape, bool)), values, part)

    def tile_of(self, shape: Sequence[int], dtype: np.dtype) -> Tile:
        """A tile of a shape and type: one there is, or one that is loaded."""
        fit = [t for t in self.tiles if t.shape == tuple(shape) and t.data.dtype == dtype]
        if fit and self.source.random() < 0.7:
            return self.source.choice(fit)
        return self.load(shape, dtype, self.any_layout(shape))

    def load(self, shape: Sequence[int], dtype: np.dtype, layout: str) -> Tile:
        """A tile loaded from an array of its own, whose axes may be in any order."""
        s, numel = self.source, int(np.prod(shape))
        pointer = self.pointer(dtype, self.programs * numel)
        strides = [0] * len(shape)
        order, stride = list(range(len(shape))), 1
        if s.random() < 0.4:
            s.shuffle(order)
        for axis in reversed(order):
            strides[axis], stride = stride, stride * shape[axis]
        at = places(shape, strides) + self.first(len(shape), numel)
        data = pointer.base.read(at, np.ones(at.shape, bool))
        assert data is not None
        text = f"{pointer.name} + pid * {numel} + ({offsets(shape, strides, layout)})"
        return self.new(f"gl.load({text})", data)

    def first(self, rank: int, numel: int) -> np.ndarray:
        """The number of the first element of each program."""
        return np.arange(self.programs).reshape(-1, *(1,) * rank) * numel

    def text(self) -> str:
        arguments = [p.name for p in self.pointers] + list(self.scalars)
        body = "\n".join(f"    {line}" for line in self.lines)
        known = "\n".join(f"{name} = gl.constexpr({text})" for text, name in self.known.items())
        helpers = HELPERS.replace("tritium.jit", "gluon.jit")
        whole = (
            f"{IMPORTS}\n{known}\n{helpers}{''.join(self.functions)}@gluon.jit\n"
            f"def kernel({', '.join(arguments)}):\n{body}\n"
        )
        return whole.replace("tl.", "gl.")


def whole(part: np.ndarray) -> np.ndarray:
    """The array that a part is a view of."""
    while isinstance(part.base, np.ndarray):
        part = part.base
    return part


def converted(tile: Tile, layout: str) -> str:
    """The text of a tile in a layout; a scalar has none."""
    return f"gl.convert_layout({tile.name}, {layout})" if tile.shape else tile.name


def strides_of(shape: Sequence[int]) -> list[int]:
    """Strides of a row-major block."""
    return [int(np.prod(shape[axis + 1 :])) for axis in range(len(shape))]


def places(shape: Sequence[int], strides: Sequence[int]) -> np.ndarray:
    """The places of a block's elements."""
    found = np.zeros(tuple(shape), np.int64)
    for axis, (size, stride) in enumerate(zip(shape, strides, strict=True)):
        found = (
            found
            + np.arange(size).reshape([-1 if a == axis else 1 for a in range(len(shape))]) * stride
        )
    return found


def index(axis: int, shape: Sequence[int], layout: str) -> str:
    """The text of the coordinates along an axis, of extent one along the others, in a layout."""
    rank, here = len(shape), layout
    for other in reversed(range(rank)):
        if other != axis:
            here = f"gl.SliceLayout({other}, {here})"
    places = ", ".join(":" if a == axis else "None" for a in range(rank))
    return f"gl.arange(0, {shape[axis]}, {here})" + (f"[{places}]" if rank > 1 else "")


def offsets(shape: Sequence[int], strides: Sequence[int], layout: str) -> str:
    """The text of the block `places` in a layout."""
    return " + ".join(
        f"{index(axis, shape, layout)} * {stride}" for axis, stride in enumerate(strides)
    )


def chance_of(source: random.Random) -> np.random.Generator:
    """NumPy's numbers of a source of chance."""
    return np.random.default_rng(source.getrandbits(32))


def named(dtype: np.dtype) -> str:
    """A type in the language."""
    return LANGUAGE[dtype].replace("tl.", "gl.")
