"""Bulk copies of rows of a matrix, given by their numbers (TMA of Blackwell)."""

from __future__ import annotations

from typing import Any

import numpy as np

from tritium.errors import OpError
from tritium.ir import types as ir
from tritium.ops.effects import GLOBAL, SHARED, Queue, arrives, reads, writes
from tritium.ops.elementwise import describe
from tritium.ops.fields import operand
from tritium.ops.memory import Context
from tritium.ops.ttgir.model import Buffer
from tritium.ops.ttgir.tma import BulkLoad, bulk_source, check_barrier, check_flag
from tritium.ops.ttgir.types import check_memory
from tritium.ops.ttir.descriptor import check_rows
from tritium.ops.ttir.memory import HintedOp


def _check(
    name: str, desc: ir.Type, rows: ir.Type, column: ir.Type, target: ir.Type, mutable: bool
) -> None:
    tile, memory = check_rows(name, desc, rows, column), check_memory(name, target, mutable=mutable)
    same = ir.shape_of(tile) == memory.get_shape() and ir.element_type(tile) == memory.element_type
    if not same or ir.element_type(rows) != ir.i32 or ir.shape_of(rows)[0] % 4:
        raise OpError(
            f"{name}: rows {describe(rows)} of {describe(tile)} and memory {describe(memory)}; a "
            "multiple of 4 rows, numbered by i32, and memory for them are required"
        )


def _places(desc: Any, rows: Any, column: Any, data: np.ndarray) -> tuple[Any, Any]:
    found = [
        desc.at((row, column)).addresses((1, data.shape[1]), data.dtype.itemsize, (0, 1))
        for row in rows
    ]
    return np.concatenate([f[0] for f in found]), np.concatenate([f[1] for f in found])


class AsyncTMAGatherOp(HintedOp, BulkLoad):
    """Start copying the rows `x_offsets`, from column `y_offset` on, into the memory `result`, if
    `pred`. Their bytes count for the barrier."""

    name = "ttng.async_tma_gather"
    capabilities = 100, 999
    effects = (
        reads(GLOBAL, "desc"), writes(SHARED, "result", Queue.MBARRIER), arrives("barrier")
    )  # fmt: skip
    syntax = (
        "$desc ~ '[' $x_offsets, $y_offset ']' $result, $barrier, $pred attrs : type(desc), "
        "type(x_offsets), type(y_offset), type(barrier), type(result), type(pred)"
    )
    desc = operand()
    x_offsets = operand()
    y_offset = operand()
    barrier = operand()
    result = operand()  # pyright: ignore[reportIncompatibleMethodOverride]
    pred = operand()

    @classmethod
    def infer(
        cls, desc: ir.Type, x_offsets: ir.Type, y_offset: ir.Type, barrier: ir.Type,
        target: ir.Type, pred: ir.Type, **attrs: Any,
    ) -> None:  # fmt: skip
        check_barrier(cls.name, barrier)
        check_flag(cls.name, pred)
        _check(cls.name, desc, x_offsets, y_offset, target, True)

    def evaluate(
        self, context: Context, desc: Any, x_offsets: Any, y_offset: Any, barrier: Buffer,
        result: Buffer, pred: Any,
    ) -> None:  # fmt: skip
        if pred:
            self.start(context, barrier, result, desc.padding,
                       lambda data: _places(desc, x_offsets, y_offset, data))  # fmt: skip


class AsyncTMAScatterOp(HintedOp):
    """Start writing the rows `x_offsets`, from column `y_offset` on, from shared memory, which must
    keep them until an `async_tma_store_wait`."""

    name = "ttng.async_tma_scatter"
    capabilities = 100, 119
    effects = (reads(SHARED, "src", Queue.BULK_STORE), writes(GLOBAL, "desc"))
    syntax = (
        "$desc ~ '[' $x_offsets, $y_offset ']' $src attrs : type(desc), type(x_offsets), "
        "type(y_offset), type(src)"
    )
    desc = operand()
    x_offsets = operand()
    y_offset = operand()
    src = operand()

    @classmethod
    def infer(
        cls, desc: ir.Type, x_offsets: ir.Type, y_offset: ir.Type, src: ir.Type, *, hints: str
    ) -> None:
        _check(cls.name, desc, x_offsets, y_offset, src, False)

    def evaluate(
        self, context: Context, desc: Any, x_offsets: Any, y_offset: Any, src: Buffer
    ) -> None:
        data = bulk_source(context, src)
        addresses, inside = _places(desc, x_offsets, y_offset, data)
        context.memory.store(addresses, data, inside)
