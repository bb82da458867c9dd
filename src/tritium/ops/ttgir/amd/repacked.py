"""`amdg`: operands of two e2m1 numbers a byte, loaded along another axis than they are packed."""

from __future__ import annotations

from typing import Any

import numpy as np

from tritium.errors import OpError
from tritium.ir import types as ir
from tritium.ops.base import Op
from tritium.ops.effects import SHARED, reads
from tritium.ops.elementwise import describe
from tritium.ops.fields import operand, optional
from tritium.ops.memory import Context
from tritium.ops.ttgir.model import Buffer, state_of
from tritium.ops.ttgir.types import AsyncTokenType, check_memory


class LocalLoadPackedTransposedOp(Op):
    """The matrix in shared memory of bytes that hold two e2m1 numbers along one of the last two
    axes, as bytes that hold two along the other one, the first in the lower half."""

    name = "amdg.local_load_packed_transposed"
    effects = (reads(SHARED, "src"),)
    syntax = "$src [token $token] attrs : type(src) -> type(result)"
    reads_operand_types = True
    src = operand()
    token = optional()

    @classmethod
    def infer(cls, src: ir.Type, token: ir.Type | None, *, result: ir.Type) -> ir.Type:
        memory = check_memory(cls.name, src)
        if ir.element_type(result) != ir.i8 or memory.element_type != ir.i8:
            raise OpError(f"{cls.name}: from {src} to {describe(result)}; bytes (i8) are required")
        shape, found = memory.get_shape(), ir.shape_of(result)
        allowed = [tuple(n) for n in _repacked_shapes(shape)]
        if found not in allowed:
            raise OpError(
                f"{cls.name}: from {'x'.join(map(str, shape))} to {describe(result)}; "
                f"{' or '.join('x'.join(map(str, n)) for n in allowed) or 'two axes or more'}: "
                "twice as many along the axis of the packing, half along the other of the last two"
            )
        if token is not None and not isinstance(token, AsyncTokenType):
            raise OpError(f"{cls.name}: token is {describe(token)}; an async token is required")
        return result

    @property
    def axes(self) -> tuple[int, int]:
        """The axis along which the numbers are packed in memory, and that of the result."""
        shape, found = self.src.type.get_shape(), ir.shape_of(self.result_types[0])
        last = len(shape) - 1
        return (last - 1, last) if found[-1] < shape[-1] else (last, last - 1)

    def evaluate(self, context: Context, src: Buffer, token: Any) -> Any:
        packed, other = self.axes
        contents: Any = state_of(context).check_read(src)
        bytes = np.moveaxis(contents.view(np.uint8), (packed, other), (-2, -1))
        codes = np.stack([bytes & 15, bytes >> 4], -2)  # (..., packed, 2, other)
        codes = codes.reshape(*bytes.shape[:-2], -1, bytes.shape[-1])
        found = codes[..., ::2] | codes[..., 1::2] << 4
        return np.ascontiguousarray(np.moveaxis(found, (-2, -1), (packed, other))).view(np.int8)


def _repacked_shapes(shape: tuple[int, ...]) -> list[list[int]]:
    """The shapes of a result: numbers are packed along the last axis but one, or along the last."""
    found: list[list[int]] = []
    for packed, other in ((-2, -1), (-1, -2)):
        if len(shape) >= 2 and shape[other] % 2 == 0:
            wanted = list(shape)
            wanted[packed], wanted[other] = 2 * shape[packed], shape[other] // 2
            found.append(wanted)
    return found
