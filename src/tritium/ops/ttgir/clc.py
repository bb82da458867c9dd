"""`ttng`: cluster launch control (Blackwell): a program takes over one that has not begun."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np
from xdsl.dialects.builtin import IntegerType

from tritium.errors import OpError
from tritium.ir import types as ir
from tritium.ops.base import Op
from tritium.ops.effects import SHARED, Queue, arrives, opaque, reads, writes
from tritium.ops.elementwise import describe
from tritium.ops.fields import enum_attr, operand
from tritium.ops.memory import Context, EvaluationError
from tritium.ops.ttgir.model import Buffer, state_of
from tritium.ops.ttgir.types import check_barrier, check_memory

BYTES = 16
"""The size of an answer."""
i128 = IntegerType(128)


def _check_answer(name: str, type: ir.Type) -> None:
    memory = check_memory(name, type)
    if memory.get_shape() != (2,) or memory.element_type != ir.i64:
        raise OpError(f"{name}: {describe(type)}; memory of 2xi64 is required")


class CLCTryCancelOp(Op):
    """Ask for a program that has not begun, which then never will. The answer comes to `result`;
    its 16 bytes count for the barrier."""

    name = "ttng.clc_try_cancel"
    capabilities = 100, 999
    effects = (writes(SHARED, "result", Queue.MBARRIER), arrives("barrier"), opaque())
    syntax = "$result, $barrier attrs : type(result), type(barrier)"
    result = operand()  # pyright: ignore[reportIncompatibleMethodOverride]
    barrier = operand()

    @classmethod
    def infer(cls, answer: ir.Type, barrier: ir.Type) -> None:
        _check_answer(cls.name, answer)
        check_barrier(cls.name, barrier)

    def most_arrivals(self) -> float:
        return 0

    def expected_bytes(self) -> int:
        return -BYTES

    def evaluate(self, context: Context, result: Buffer, barrier: Buffer) -> None:
        """Find none: all programs are evaluated, one after the other."""
        state = state_of(context)
        state.check_write(result)
        state.barrier(barrier).copies.append(result.copy(np.zeros(2, np.int64), BYTES))


class CLCLoadResultOp(Op):
    """The answer, in registers."""

    name = "ttng.clc_load_result"
    effects = (reads(SHARED, "src"),)
    syntax = "$src attrs : type(src) -> type(results)"
    src = operand()

    @classmethod
    def infer(cls, src: ir.Type) -> ir.Type:
        _check_answer(cls.name, src)
        return i128

    def evaluate(self, context: Context, src: Buffer) -> Any:
        answer: Any = state_of(context).check_read(src)
        return answer.copy()


def _check_loaded(name: str, type: ir.Type) -> None:
    if type != i128:
        raise OpError(f"{name}: {describe(type)}; i128 is required")


class CLCIsCanceledOp(Op):
    """True if the answer names a program."""

    name = "ttng.clc_is_canceled"
    syntax = "$answer attrs : type(answer) -> type(results)"
    answer = operand()

    @classmethod
    def infer(cls, answer: ir.Type) -> ir.Type:
        _check_loaded(cls.name, answer)
        return ir.i1

    def evaluate(self, context: Context, answer: Any) -> Any:
        return np.bool_(np.any(answer))


class ProgramDim(IntEnum):
    """An axis of the grid."""

    X = 0
    Y, Z = range(1, 3)


class CLCGetProgramIdOp(Op):
    """The index along an axis of the program that the answer names; there must be one."""

    name = "ttng.clc_get_program_id"
    syntax = "$answer, $dim attrs : type(answer) -> type(results)"
    answer = operand()
    dim = enum_attr(ProgramDim)

    @classmethod
    def infer(cls, answer: ir.Type, *, dim: ProgramDim) -> ir.Type:
        _check_loaded(cls.name, answer)
        return ir.i32

    def evaluate(self, context: Context, answer: Any) -> Any:
        raise EvaluationError(f"{self.name}: the answer names no program")
