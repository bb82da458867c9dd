"""Integer arithmetic. Integers are signless and wrap; signedness is in the op."""

from __future__ import annotations

from typing import Any

import numpy as np

from tritium.ops.base import Op
from tritium.ops.elementwise import BinaryOp
from tritium.ops.evaluation import Context


def unsigned(value: Any) -> Any:
    """The same bits as unsigned integers (booleans stay)."""
    value = np.asarray(value)
    return value if value.dtype == np.bool_ else value.view(f"u{value.dtype.itemsize}")


class AddIOp(BinaryOp):
    """`a + b`, wrapping."""

    name = "arith.addi"
    commutative = True

    def evaluate(self, context: Context, lhs: Any, rhs: Any) -> Any:
        return lhs ^ rhs if np.asarray(lhs).dtype == np.bool_ else np.add(lhs, rhs)


class DivUIOp(BinaryOp):
    """`a / b` of unsigned numbers, rounded toward zero. Division by zero is undefined (0 here)."""

    name = "arith.divui"
    speculatable = False

    def evaluate(self, context: Context, lhs: Any, rhs: Any) -> Any:
        divisor = unsigned(rhs)
        safe = np.where(divisor == 0, np.ones_like(divisor), divisor)
        return np.where(divisor == 0, 0, unsigned(lhs) // safe).astype(np.asarray(lhs).dtype)


OPS: tuple[type[Op], ...] = (AddIOp, DivUIOp)
