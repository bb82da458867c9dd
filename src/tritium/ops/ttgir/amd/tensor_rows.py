"""`amdg`: copies of rows of a matrix, by their numbers, and reads ahead into the caches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tritium.errors import OpError
from tritium.ir import types as ir
from tritium.ir.layouts.encodings import LANE, REGISTER, WARP, linear
from tritium.ops.base import Op
from tritium.ops.effects import GLOBAL, SHARED, Queue, arrives, opaque, reads, writes
from tritium.ops.elementwise import describe
from tritium.ops.fields import operand, optional, unit_attr, variadic
from tritium.ops.memory import Context
from tritium.ops.ttgir.amd.tensors import Placed, TensorCopyOp, gaps, loaded, pieces_of, stored
from tritium.ops.ttgir.model import Buffer, state_of
from tritium.ops.ttgir.types import TOKEN, check_barrier, check_memory
from tritium.ops.ttir.descriptor import block_of, check_indices
from tritium.ops.ttir.memory import Tile

MOST_ROWS = {16: 16, 32: 8}
"""The rows that one instruction copies, by the bits of their numbers."""


class Rows(NamedTuple):
    """The rows that each warp copies by each instruction: the registers of their numbers, and the
    first of them, in the warp 0. `warps`: the first row of further warps, by the bits of their
    number."""

    groups: tuple[tuple[int, tuple[int, ...]], ...]
    warps: tuple[int, ...]


def rows_of(name: str, type: Any) -> Rows:
    """The rows of each warp, of those that a block of numbers names. Raises `OpError` for layouts
    in which the lanes of a warp have different ones."""
    layout = linear(type.encoding, ir.shape_of(type))
    if any(any(basis) for basis in layout.bases(LANE)):
        raise OpError(
            f"{name}: rows are {describe(type)}; a layout in which all lanes of a warp have the "
            "same numbers is required"
        )
    warps = tuple(basis[0] for basis in layout.bases(WARP))
    where = {int(layout.apply({REGISTER: r, LANE: 0, WARP: 0, "block": 0})["dim0"]): r
             for r in reversed(range(layout.in_size(REGISTER)))}  # fmt: skip
    most, groups = MOST_ROWS[ir.bit_width(ir.element_type(type))], list[Any]()
    run: list[int] = []
    for row in sorted(where):
        if run and (row != run[-1] + 1 or len(run) == most):
            groups.append((run[0], tuple(where[r] for r in run)))
            run = []
        run.append(row)
    groups.append((run[0], tuple(where[r] for r in run)))
    return Rows(tuple(groups), warps)


class TensorRowsOp(TensorCopyOp):
    """Base of copies of rows; every warp makes as many instructions, and arrives with each."""

    rows: Any

    @property
    def arrivals(self) -> int:
        return self.warps * len(rows_of(self.name, self.rows.type).groups)

    @classmethod
    def check(
        cls, desc: ir.Type, rows: ir.Type, target: ir.Type, barrier: ir.Type | None, store: bool
    ) -> None:
        """Raise `OpError` for what does not fit together."""
        block, memory = block_of(cls.name, desc), check_memory(cls.name, target, mutable=not store)
        count, shape = ir.shape_of(rows), memory.get_shape()
        same = len(shape) == 2 == len(block.get_shape()) and (shape[0],) == count
        same = same and block.element_type == memory.element_type
        if not same or shape[1] != block.get_shape()[1]:
            raise OpError(
                f"{cls.name}: rows {describe(rows)} of blocks {describe(block)} and memory "
                f"{describe(memory)}; two axes, and memory for as many rows, are required"
            )
        if ir.element_type(rows) not in (ir.i16, ir.i32):
            raise OpError(f"{cls.name}: rows are {describe(rows)}; i16 or i32 is required")
        gap = gaps(cls.name, memory, store)
        if (gap is not None and (store or gap[0] > shape[1])) or pieces_of(memory) > 1:
            raise OpError(
                f"{cls.name}: {describe(memory)}; memory without partitions, and with gaps "
                f"{'nowhere' if store else 'after equal parts of rows at most'}, is required"
            )
        if ir.encoding_of(rows) is not None and hasattr(ir.encoding_of(rows), "to_linear"):
            rows_of(cls.name, rows)
        if barrier is not None:
            check_barrier(cls.name, barrier)


class AsyncTDMGatherOp(TensorRowsOp):
    """Start copying the rows of these numbers, counted from the block's first one, into the memory
    `result`; zeros are what lies outside of the tensor."""

    name = "amdg.async_tdm_gather"
    effects = (reads(GLOBAL, "desc"), writes(SHARED, "result", Queue.TENSOR_COPY))
    QUEUED = (writes(SHARED, "result", Queue.MBARRIER), arrives("barrier"))
    syntax = (
        "$desc ~ '[' $rows ']' to $result [, barrier = $barrier] attrs : type(rows), "
        "type(result) [, type(barrier)] -> type(desc)"
    )
    desc = operand()
    rows = operand()
    result = operand()  # pyright: ignore[reportIncompatibleMethodOverride]
    barrier = optional()

    @classmethod
    def infer(
        cls, desc: ir.Type, rows: ir.Type, target: ir.Type, barrier: ir.Type | None, **attrs: Any
    ) -> ir.Type:
        cls.check(desc, rows, target, barrier, store=False)
        return TOKEN

    def evaluate(
        self, context: Context, desc: Tile, rows: Any, result: Buffer, barrier: Buffer | None
    ) -> None:
        copy = loaded(context, Placed.of(desc), result, np.asarray(rows))
        self.start(state_of(context), copy, barrier)


class AsyncTDMScatterOp(TensorRowsOp):
    """Start copying the memory `src`, which must keep it until a wait, to the rows of these
    numbers. What lies outside of the tensor is dropped."""

    name = "amdg.async_tdm_scatter"
    effects = (reads(SHARED, "src", Queue.TENSOR_COPY), writes(GLOBAL, "desc"))
    QUEUED = (reads(SHARED, "src", Queue.MBARRIER), arrives("barrier"))
    syntax = (
        "$desc ~ '[' $rows ']' from $src [, barrier = $barrier] attrs : type(rows), "
        "type(src) [, type(barrier)] -> type(desc)"
    )
    desc = operand()
    rows = operand()
    src = operand()
    barrier = optional()

    @classmethod
    def infer(
        cls, desc: ir.Type, rows: ir.Type, src: ir.Type, barrier: ir.Type | None, **attrs: Any
    ) -> ir.Type:
        cls.check(desc, rows, src, barrier, store=True)
        return TOKEN

    def evaluate(
        self, context: Context, desc: Tile, rows: Any, src: Buffer, barrier: Buffer | None
    ) -> None:
        copy = stored(context, Placed.of(desc), src, np.asarray(rows))
        self.start(state_of(context), copy, barrier)


class TDMPrefetchOp(Op):
    """Read the block that is `offsets` further than a descriptor's into the second-level cache, if
    `pred`. With `speculative` it may read beyond the tensor."""

    name = "amdg.tdm_prefetch"
    effects = (reads(GLOBAL, "desc"), opaque(GLOBAL))
    syntax = "$desc ~ '[' $offsets ']' , $pred attrs : type(desc)"
    desc = operand()
    offsets = variadic()
    pred = operand()
    speculative = unit_attr()

    @classmethod
    def infer(
        cls, desc: ir.Type, offsets: Sequence[ir.Type], pred: ir.Type, *, speculative: bool
    ) -> tuple[ir.Type, ...]:
        check_indices(cls.name, desc, offsets)
        if pred != ir.i1:
            raise OpError(f"{cls.name}: pred is {describe(pred)}; i1 is required")
        return ()

    def evaluate(self, context: Context, desc: Tile, offsets: tuple[Any, ...], pred: Any) -> None:
        """Do nothing that a program sees."""
