"""Arithmetic of which one instruction does two elements."""

from __future__ import annotations

from typing import Any

from tritium.language.builtins import arithmetic, casts
from tritium.language.builtins.build import build
from tritium.language.decorators import builtin
from tritium.language.values.tensor import tensor
from tritium.ops import ttgir


def _packed(kind: ttgir.PackedKind, operands: tuple[Any, ...], dtype: Any) -> tensor:
    """Raises `TypeError` for operands of different dtypes, or of another one than `dtype`."""
    values = [casts.to_tensor(v) for v in operands]
    for i in range(len(values) - 1):
        values[i], values[i + 1] = arithmetic.broadcast_values(values[i], values[i + 1])
    values[0], values[-1] = arithmetic.broadcast_values(values[0], values[-1])
    dtypes = [*(v.dtype for v in values), values[0].dtype if dtype is None else dtype]
    if any(d != dtypes[0] for d in dtypes):
        raise TypeError(f"{kind.name.lower()}2: {', '.join(map(str, dtypes))}; one is required")
    return build(ttgir.PackedArithOp, tuple(values), like=values[0], kind=kind)


def _of_two(kind: str, about: str) -> Any:
    def function(lhs: Any, rhs: Any, dtype: Any = None) -> tensor:
        return _packed(ttgir.PackedKind[kind.upper()], (lhs, rhs), dtype)

    function.__name__ = function.__qualname__ = f"{kind}2"
    function.__doc__ = f"{about}, two elements an instruction."
    return builtin(function)


add2, sub2 = _of_two("add", "`lhs + rhs`"), _of_two("sub", "`lhs - rhs`")
mul2 = _of_two("mul", "`lhs * rhs`")
max2 = _of_two("max", "The larger, of float16 and bfloat16")
min2 = _of_two("min", "The smaller, of float16 and bfloat16")


@builtin
def fma2(lhs: Any, rhs: Any, acc: Any, dtype: Any = None) -> tensor:
    """`lhs * rhs + acc` rounded once, two elements an instruction."""
    return _packed(ttgir.PackedKind.FMA, (lhs, rhs, acc), dtype)
