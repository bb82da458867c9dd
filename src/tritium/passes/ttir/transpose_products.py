"""Transpose products with too few rows for units that read shared memory, where that pays.

before (32 rows: one such unit takes 64):
    %t = tt.trans %k : tensor<128x64xf16> -> tensor<64x128xf16>
    %s = tt.dot %q, %t, %zero : tensor<32x64xf16> * ... -> tensor<32x128xf32>
    %e = math.exp2 %s;  %p = arith.truncf %e
    %u = tt.trans %p : tensor<32x128xf16> -> tensor<128x32xf16>
    %d = tt.dot %u, %v, %acc : tensor<128x32xf16> * tensor<32x64xf16> -> tensor<128x64xf32>
after:
    %t = tt.trans %q : tensor<32x64xf16> -> tensor<64x32xf16>
    %n = tt.dot %k, %t, %zero : tensor<128x64xf16> * ... -> tensor<128x32xf32>
    %s = tt.trans %n : tensor<128x32xf32> -> tensor<32x128xf32>
    as above

The same numbers are added in the same order. `%k` is read from shared memory, so that a loop
does not hold it in registers, and the two transposes take nothing: where the result was computed
is where the next product needs its left operand. So the pass does it only where the result,
computed on element by element, is the transposed left operand of a product for such a unit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, TypeGuard

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from tritium.ir import types as ir
from tritium.ops.arith import is_zero
from tritium.ops.base import Movement, Op
from tritium.ops.ttir.dot import MatrixProduct
from tritium.ops.ttir.shape import TransOp
from tritium.passes.base import Pass
from tritium.passes.rewriting import Builder, erase
from tritium.target import MatrixUnit, processor_named

_SWAPPED = (1, 0)


@dataclass(frozen=True)
class TransposeProducts(Pass):
    """Transpose products with too few rows for units that read shared memory, where that pays.

    `target`: the processor, `cuda:90`; `num_warps`: that run a program.
    """

    name: ClassVar[str] = "transpose-products"
    target: str = ""
    num_warps: int = 4

    def run(self, module: ModuleOp) -> bool:
        units = [u for u in processor_named(self.target).matrix_units if u.from_shared]
        if not units:
            return False
        products = [op for op in module.walk() if isinstance(op, MatrixProduct)]
        found = [op for op in products if self._pays(op, units)]
        for op in found:
            transpose(op)
        return bool(found)

    def _pays(self, op: MatrixProduct, units: list[MatrixUnit]) -> bool:
        """True if the product as it is would not be for one of the units, but transposed would, as
        is what takes its transposed result."""
        shape = ir.shape_of(op.results[0].type)
        if len(shape) != 2 or self._taken(op, units, shape) or not is_zero(op.c):
            return False
        if not self._taken(op, units, shape[::-1]):
            return False
        return any(
            self._taken(user, units, ir.shape_of(user.results[0].type))
            for user in _products_of_transposed(op.results[0])
        )

    def _taken(self, op: MatrixProduct, units: list[MatrixUnit], shape: tuple[int, ...]) -> bool:
        return any(unit.takes(op, self.num_warps, shape) for unit in units)


def transpose(op: MatrixProduct) -> None:
    """Compute the transposed result of a product by swapping its operands."""
    at = Builder(op)
    a, b, c = (_transposed(at, value) for value in (op.b, op.a, op.c))
    product = at.value(
        type(op), a, b, c, inputPrecision=op.inputPrecision,
        maxNumImpreciseAcc=op.maxNumImpreciseAcc,
    )  # fmt: skip
    result = at.value(TransOp, product, order=_SWAPPED)
    result.name_hint = product.name_hint = op.results[0].name_hint
    op.results[0].replace_all_uses_with(result)
    erase(op)


def _transposed(at: Builder, value: SSAValue) -> SSAValue:
    if _swaps(owner := value.owner):
        return owner.operands[0]
    if is_zero(value):
        kind = ir.tensor_of(ir.shape_of(value.type)[::-1], ir.element_type(value.type))
        return at.constant(0, kind)
    return at.value(TransOp, value, order=_SWAPPED)


def _swaps(op: Operation | Block) -> TypeGuard[Op]:
    """True if an op swaps the axes of a matrix."""
    if not isinstance(op, Op) or op.movement is not Movement.REORDERED:
        return False
    return tuple(op.source_axes() or ()) == _SWAPPED


def _products_of_transposed(value: SSAValue) -> Iterator[MatrixProduct]:
    """The products of which a tile, transposed once and computed on, is the left operand."""
    pending, seen = [(value, False)], set[tuple[int, bool]]()
    while pending:
        current, swapped = pending.pop()
        for use in current.uses:
            user, turned = use.operation, swapped
            if isinstance(user, MatrixProduct):
                if use.index == 0 and swapped:
                    yield user
                continue
            if _swaps(user):
                turned = not swapped
            elif not isinstance(user, Op) or not user.is_elementwise:
                continue
            if (id(user), turned) not in seen:
                seen.add((id(user), turned))
                pending += [(result, turned) for result in user.results]
