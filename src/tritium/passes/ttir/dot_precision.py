"""Write matrix products in terms of those that tensor cores have.

before:
    %r = tt.dot %a, %b, %c, inputPrecision = bf16x3 : tensor<64x32xf32> * ... -> tensor<64x64xf32>
after:
    %a0 = arith.truncf %a : to bf16;  %a1 = the rest %a - %a0, to bf16;  the same of %b
    %s = tt.dot %a1, %b0, 0;  %t = tt.dot %a0, %b1, %s;  %u = %t, 0 where it is NaN
    %p = tt.dot %a0, %b0, %u;  %r = arith.addf %c, %p

`tf32x3` has parts of 11 bits, `bf16x6` three parts and six products. The smaller products come
first. They are NaN where an operand is infinite, which the largest product then says by itself.

Sums in float16 become sums in float32 that are rounded at their end, as tensor cores round each
partial sum to the accumulator's type: after the product, after a chain of products, or after the
`scf.for` that carries the sum from one product to the next and uses it for nothing else. Operands
of 8-bit floats become float16, exactly, where the tensor cores do not take them (before sm_89).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, cast

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from tritium.analysis.loops import loops_around
from tritium.ir import types as ir
from tritium.ops.arith import (
    AddFOp,
    AddIOp,
    AndIOp,
    BitcastOp,
    CmpFOp,
    CmpFPredicate,
    ExtFOp,
    SubFOp,
    TruncFOp,
)
from tritium.ops.scf import ForOp
from tritium.ops.terminators import is_terminator, terminator
from tritium.ops.ttir.dot import InputPrecision, MatrixProduct
from tritium.passes.base import Pass
from tritium.passes.rewriting import Builder, erase, insert_after, insert_before, rebuild
from tritium.target import processor_named

_PARTS = {
    InputPrecision.TF32X3: 2, InputPrecision.BF16X3: 2, InputPrecision.BF16X6: 3,
}  # fmt: skip
"""The number of parts that each operand is split into."""
_TF32_HALF, _TF32_MASK = 1 << 12, -(1 << 13)
"""Half of the last bit that tf32 keeps of a float32, and a mask of all that it keeps."""


@dataclass(frozen=True)
class DotPrecision(Pass):
    """Write matrix products in terms of those that tensor cores have.

    `target`: the processor, `cuda:90`.
    """

    name: ClassVar[str] = "dot-precision"
    title: ClassVar[str] = "TritonGPUF32DotTC"
    target: str = ""

    def run(self, module: ModuleOp) -> bool:
        changed, processor = False, processor_named(self.target)
        rounded: list[TruncFOp] = []
        for op in [op for op in module.walk() if isinstance(op, MatrixProduct)]:
            rewrite = _Rewrite(op)
            small = {str(ir.element_type(v.type)) for v in (op.a, op.b) if _is_float8(v.type)}
            if not small <= set(processor.float8_products):
                rewrite.widen_operands()
                changed = True
            if ir.element_type(op.c.type) == ir.f16:
                rounded.append(rewrite.sum_in_float32())
                changed = True
            if op.inputPrecision in _PARTS and _fits(op, processor.least_k_bytes):
                rewrite.split()
                changed = True
        for narrow in rounded:
            _round_later(narrow)
        return changed


def _is_float8(type: ir.Type) -> bool:
    return ir.is_float(ir.element_type(type)) and ir.bit_width(type) == 8


def _fits(op: MatrixProduct, least_k_bytes: int) -> bool:
    """True if matrix units take products of this shape; others are computed without rounding."""
    size = 4 if op.inputPrecision is InputPrecision.TF32X3 else 2
    shallow = op.k * size < least_k_bytes or len(ir.shape_of(op.c.type)) != 2
    return ir.element_type(op.a.type) == ir.f32 and not shallow


def _round_later(narrow: TruncFOp) -> None:
    """Move the rounding of a sum behind the product, or the loop, that goes on with the sum."""
    result = narrow.results[0]
    if len(uses := list(result.uses)) != 1:
        return
    user, index = uses[0].operation, uses[0].index
    if isinstance(user, ExtFOp) and user.results[0].type == narrow.operands[0].type:
        user.results[0].replace_all_uses_with(narrow.operands[0])
        erase(user)
        erase(narrow)
    elif is_terminator(user) and (around := loops_around(user)):
        loop = around[0]
        argument = loop.body.args[1 + index]
        starts = [use.operation for use in argument.uses]
        if len(starts) == 1 and isinstance(starts[0], ExtFOp):
            _carry_wide(loop, index, starts[0], narrow)


def _carry_wide(loop: ForOp, index: int, start: ExtFOp, narrow: TruncFOp) -> None:
    """Let a loop carry the sum that `start` widens and `narrow` rounds as it is between them."""
    wide, location = start.results[0].type, narrow.location
    init = ExtFOp.build(loop.inits[index], result=wide, location=location)
    body = loop.body
    insert_before(loop, init)
    old = body.args[1 + index]
    new = body.insert_arg(wide, 1 + index)
    new.name_hint = old.name_hint
    start.results[0].replace_all_uses_with(new)
    erase(start)
    body.erase_arg(old)
    terminator(body).operands[index] = narrow.operands[0]
    erase(narrow)
    operands, types = list(loop.operands), [result.type for result in loop.results]
    operands[3 + index], kept = init.results[0], types[index]
    types[index] = wide
    loop = rebuild(loop, operands, range(len(types)), types=types)
    rounded = TruncFOp.build(loop.results[index], result=kept, location=location)
    insert_after(loop, rounded)
    loop.results[index].replace_uses_with_if(
        rounded.results[0], lambda use: use.operation is not rounded
    )
    _round_later(rounded)


class _Rewrite(Builder):
    """One product."""

    def __init__(self, op: MatrixProduct):
        super().__init__(op)
        self.op = op

    def widen_operands(self) -> None:
        """8-bit floats as float16."""
        for index in (0, 1):
            self.op.operands[index] = self.converted(self.op.operands[index], ir.f16)

    def replace(self, result: SSAValue) -> None:
        """Put another value in the place of the product's."""
        op = self.op
        result.name_hint = op.results[0].name_hint
        op.results[0].replace_all_uses_with(result)
        erase(op)

    def sum_in_float32(self) -> TruncFOp:
        """A float16 product that is rounded at its end; returns the rounding."""
        op = self.op
        narrow = op.results[0].type
        total = self.value(
            type(op), op.a, op.b, self.converted(op.c, ir.f32),
            inputPrecision=op.inputPrecision, maxNumImpreciseAcc=op.maxNumImpreciseAcc,
        )  # fmt: skip
        result = self.value(TruncFOp, total, result=narrow)
        self.replace(result)
        return cast(TruncFOp, result.owner)

    def split(self) -> None:
        """The sum of the products of the operands' parts, but for the smallest of these."""
        op, sums = self.op, self.op.c.type
        count = _PARTS[op.inputPrecision]
        tf32 = op.inputPrecision is InputPrecision.TF32X3
        split: Callable[[SSAValue, int], list[SSAValue]]
        split = self.tf32_parts if tf32 else self.bf16_parts
        left, right = split(op.a, count), split(op.b, count)
        kept = InputPrecision.TF32 if tf32 else InputPrecision.IEEE
        pairs = [(i, j) for i in range(count) for j in range(count) if i + j < count]
        total = self.constant(0.0, sums)
        # From the smallest to the largest, which is the product of the first parts.
        for i, j in sorted(pairs, key=lambda pair: (-sum(pair), -pair[0])):
            if (i, j) == (0, 0):
                absent = self.value(CmpFOp, total, total, predicate=CmpFPredicate.UNO)
                total = self.chosen(absent, self.constant(0.0, sums), total)
            total = self.value(type(op), left[i], right[j], total, inputPrecision=kept)
        self.replace(self.value(AddFOp, op.c, total))

    def bf16_parts(self, value: SSAValue, count: int) -> list[SSAValue]:
        """The nearest bfloat16, then that of what it leaves, and so on."""
        parts: list[SSAValue] = []
        for index in range(count):
            parts.append(self.converted(value, ir.bf16))
            if index + 1 < count:
                rounded = self.converted(parts[-1], ir.element_type(value.type))
                value = self.value(SubFOp, value, rounded)
        return parts

    def tf32_parts(self, value: SSAValue, count: int) -> list[SSAValue]:
        """The nearest float32 that is a tf32, then that of what it leaves."""
        parts: list[SSAValue] = []
        for _ in range(count):
            parts.append(self.rounded_to_tf32(value))
            value = self.value(SubFOp, value, parts[-1])
        return parts

    def rounded_to_tf32(self, value: SSAValue) -> SSAValue:
        """A float32 rounded to the bits that tf32 has; a tie goes away from zero."""
        bits = self.value(BitcastOp, value, result=ir.tensor_of(ir.shape_of(value.type), ir.i32))
        raised = self.value(AddIOp, bits, self.constant(_TF32_HALF, bits.type))
        kept = self.value(AndIOp, raised, self.constant(_TF32_MASK, bits.type))
        near = self.value(BitcastOp, kept, result=value.type)
        absent = self.value(CmpFOp, value, value, predicate=CmpFPredicate.UNO)
        # A NaN's lowest bits, maybe all that it has, would be cut off.
        return self.chosen(absent, self.constant(float("nan"), value.type), near)
