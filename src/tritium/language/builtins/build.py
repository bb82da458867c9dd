"""Ops from tensors: the result has the type that the op's `infer` gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from tritium.language import emitter
from tritium.language.values.base import base_value
from tritium.language.values.tensor import tensor, tensor_descriptor
from tritium.language.values.types import dtype, from_ir
from tritium.ops.base import Op

Operand: TypeAlias = "tensor | tensor_descriptor | Sequence[tensor] | None"
"""An op's argument: a value, several for a variadic operand, None for an absent one."""


def emit(cls: type[Op], *operands: Operand, **attrs: Any) -> Sequence[Any]:
    """Emit an op; the handles of its results. Raises `OpError` where the op's `infer` does.

    Args:
        operands: in their declared order.
        attrs: the op's attributes, `regions`, and `result` for an op that takes it.
    """
    handles: list[Any] = [
        o.handle if isinstance(o, tensor) else _handles(o)
        for o in operands
    ]
    return emitter.current().emit(cls, *handles, **attrs)


def _handles(operand: Operand) -> Any:
    if operand is None or isinstance(operand, base_value):
        return None if operand is None else operand.handle
    return tuple([v.handle for v in operand])


def build(cls: type[Op], *operands: Operand, like: tensor | dtype, **attrs: object) -> tensor:
    """Emit an op; its only result as a tensor of the type that the op's `infer` gives.

    Args:
        operands, attrs: see `emit`.
        like: a tensor or type with the element of the result: the IR has no signs.
    """
    (result,) = emit(cls, *operands, **attrs)
    return typed(result, like)


def build_many(
    cls: type[Op], *operands: Operand, like: Sequence[tensor | dtype], **attrs: object
) -> list[tensor]:
    """Emit an op with as many results as `like` has members. See `build`."""
    results = emit(cls, *operands, **attrs)
    return [typed(r, element) for r, element in zip(results, like, strict=True)]


def typed(handle: emitter.Handle, like: tensor | dtype) -> tensor:
    """The tensor of an IR value, whose type says all but the sign of the element."""
    if isinstance(like, tensor):
        if handle.type is like.handle.type:
            return tensor(handle, like.type)
        like = like.type
    return tensor(handle, from_ir(handle.type, like))
