"""The tile stage: a program as fused loop nests over tiles, scalar ops and control flow.

A tile-valued op is either *inlined* (it has no place in this stage: whoever needs an element
computes it) or *materialised* in a buffer by a root of some nest. What is computed stays stated by
the ttir ops themselves; this stage says where, when and in which loops.
"""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, field
from enum import Enum
from math import prod
from operator import attrgetter
from typing import Any

from xdsl.ir import Block, SSAValue

from tritium.ir import types as ir
from tritium.ops.base import Op
from tritium.ops.ttir.function import FuncOp


@dataclass(eq=False)
class Buffer:
    """A tile in scratch memory: dense, row-major, 64-byte aligned.

    i1 elements take a byte each, pointers eight. `offset` in bytes is set by the allocation.
    """

    name: str
    shape: tuple[int, ...]
    element: ir.Type
    offset: int = -1

    @property
    def element_bytes(self) -> int:
        """Bytes of one element."""
        return max(1, ir.bit_width(self.element) // 8)

    @property
    def bytes(self) -> int:
        """Bytes of the whole tile."""
        return self.element_bytes * prod(self.shape)

    def __str__(self) -> str:
        return f"{self.name}: {'x'.join(map(str, (*self.shape, self.element)))}"


class RootKind(Enum):
    """What a root does; the value names it in printed tiles."""

    COPY = "copy"
    """Writes `values[0]` to `buffers[0]`."""
    STORE = "store"
    """A `tt.store` (`op`)."""
    REDUCE = "reduce"
    """A `tt.reduce` (`op`) of `values` along `axis`; results in `buffers`, or scalars."""
    SCAN = "scan"
    """A `tt.scan` (`op`) of `values` along `axis` into `buffers`."""
    EXTRACT = "extract"
    """The only element of `values[0]`, the scalar result of `op`."""
    SCALARIZED = "scalarized"
    """`op`, element by element in row-major order (atomics, printing, assertions)."""


@dataclass(eq=False)
class Root:
    """Something that a nest does for each element of its domain.

    `values` are the tiles that are read element by element. With a `source`, a copy reads that
    buffer instead (which holds the value).
    """

    kind: RootKind
    op: Op | None
    values: tuple[SSAValue, ...]
    domain: tuple[int, ...]
    position: float
    axis: int | None = None
    buffers: tuple[Buffer | None, ...] = ()
    source: Buffer | None = None
    number: int = 0
    """Which operand of `op` this is about (printing)."""
    body: Body | None = None
    """The combine region of a reduction or scan with control flow or effects, run on scalars."""

    @classmethod
    def copy(
        cls, value: SSAValue, domain: tuple[int, ...], position: float, *buffers: Buffer
    ) -> Root:
        """One that copies a tile, into a buffer that may be given later."""
        return cls(RootKind.COPY, None, (value,), domain, position, None, buffers)


@dataclass(eq=False)
class Step:
    """A part of a block, executed in the order of `position`."""

    position: float


_position = attrgetter("position")


@dataclass(eq=False)
class Scalar(Step):
    """A scalar op."""

    op: Op


@dataclass(eq=False)
class Nest(Step):
    """Loops over `domain` that do all of the roots at each point (chunk)."""

    roots: list[Root]
    domain: tuple[int, ...]
    axis: int | None = None


@dataclass(eq=False)
class Dot(Step):
    """A `tt.dot`: `buffer` holds C on entry (unless `zero`) and the result afterwards.

    `a` and `b` are views of memory where the operand is an unmasked load that nothing forbids to
    delay; otherwise tiles in buffers.
    """

    op: Op
    buffer: Buffer
    zero: bool
    a_is_view: bool
    b_is_view: bool


@dataclass(eq=False)
class WholeTile(Step):
    """An op on whole tiles that is not a loop nest: histogram, calls with tiles, ...; `body` is
    its region, where it has one."""

    op: Op
    buffers: tuple[Buffer | None, ...] = ()
    body: Body | None = None


@dataclass(eq=False)
class For(Step):
    """`scf.for`; the tiles among the carried values live in `buffers` (None for scalars)."""

    op: Op
    body: Body
    buffers: tuple[Buffer | None, ...]


@dataclass(eq=False)
class If(Step):
    """`scf.if`; the tiles among the results live in `buffers`."""

    op: Op
    then: Body
    otherwise: Body | None
    buffers: tuple[Buffer | None, ...]


@dataclass(eq=False)
class While(Step):
    """`scf.while`; carried tiles live in `before_buffers`, passed on ones in `after_buffers`."""

    op: Op
    before: Body
    after: Body
    before_buffers: tuple[Buffer | None, ...]
    after_buffers: tuple[Buffer | None, ...]


@dataclass(eq=False)
class Body:
    """A block: its steps, in the order of their positions, and how it ends."""

    block: Block
    steps: list[Step] = field(default_factory=list[Step])

    def add(self, step: Step) -> None:
        """Insert a step after those at its position."""
        insort(self.steps, step, key=_position)

    @property
    def terminator(self) -> Op:
        """The op that ends the block."""
        last: Any = self.block.last_op
        return last


@dataclass(eq=False)
class TileFunction:
    """A function: its blocks in order, and the buffers that hold tiles.

    `buffers` maps every materialised value to where it is.
    """

    name: str
    op: FuncOp
    public: bool = True
    blocks: list[Body] = field(default_factory=list[Body])
    """Empty before `tile-fuse`."""
    buffers: dict[SSAValue, Buffer] = field(default_factory=dict[SSAValue, Buffer])
    results: list[Buffer | None] = field(default_factory=list[Any])
    """Buffers of the caller that results go to (None for scalars)."""
    all_buffers: list[Buffer] = field(default_factory=list[Buffer])
    scratch_bytes: int = 0

