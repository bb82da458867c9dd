"""Cluster launch control: a program takes over one that has not begun."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tritium.ir.types import Type
from tritium.language.builtins.build import emit
from tritium.language.decorators import builtin
from tritium.language.values.base import Handle, base_type, base_value
from tritium.language.values.tensor import tensor
from tritium.language.values.types import int1, int32
from tritium.ops import ttgir
from tritium.ops.ttgir.clc import i128

__all__ = ["clc_result", "clc_result_type", "load_result", "try_cancel"]


class clc_result_type(base_type):
    """The type of answers."""

    def to_ir(self, builder: object = None) -> Type:
        """The IR type."""
        return i128

    def flatten_types(self) -> list[Type]:
        return [i128]

    def unflatten(self, handles: Sequence[Handle], cursor: int) -> tuple[Any, int]:
        return clc_result(handles[cursor]), cursor + 1

    def mangle(self) -> str:
        return "CLC"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, clc_result_type)

    def __hash__(self) -> int:
        return hash(clc_result_type)

    def __repr__(self) -> str:
        return "clc_result"


class clc_result(base_value):
    """The answer to `try_cancel`."""

    def __init__(self, handle: Any):
        self.handle = handle
        self.type = clc_result_type()

    def flatten(self) -> list[Handle]:
        return [self.handle]

    @builtin
    def is_canceled(self) -> tensor:
        """True if a program was found, which will not begin."""
        (handle,) = emit(ttgir.CLCIsCanceledOp, self)  # pyright: ignore[reportArgumentType]
        return tensor(handle, int1)

    @builtin
    def program_id(self, dim: int) -> tensor:
        """The index of that program along an axis of the grid; there must be one."""
        (handle,) = emit(
            ttgir.CLCGetProgramIdOp, self, dim=ttgir.ProgramDim(dim)  # pyright: ignore
        )
        return tensor(handle, int32)


@builtin
def try_cancel(result: Any, barrier: Any) -> None:
    """Ask for a program that has not begun. The answer comes to the shared memory `result`, two
    int64; its 16 bytes count for the barrier."""
    emit(ttgir.CLCTryCancelOp, result, barrier)


@builtin
def load_result(src: Any) -> clc_result:
    """The answer in shared memory."""
    (handle,) = emit(ttgir.CLCLoadResultOp, src)
    return clc_result(handle)
