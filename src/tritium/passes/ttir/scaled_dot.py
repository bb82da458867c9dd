"""Microscaled products as products of float32 or bfloat16 tiles.

before:
    %r = tt.dot_scaled %a scale %sa, %b, %c lhs = e2m1 rhs = bf16 ...
after:
    %x = the numbers of %a (two 4-bit codes a byte, taken apart and joined) * %sa repeated along K
    %y = arith.extf %b
    %r = tt.dot %x, %y, %c

For products that the target has no instruction for. Every number times its scale is exact in
float32. For tensor cores the tiles are of the narrowest type in which it is exact too: bfloat16 (8
bits of a number), float32 rounded to tf32 (11 bits), or float32 in two parts. Where the processor
multiplies bfloat16 as float32, numbers and scales are float32, and tiles the upper halves of their
products, which is exact but for subnormal ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from tritium.ir import types as ir
from tritium.ir.source_errors import unsupported_at
from tritium.ops.arith import (
    AndIOp,
    BitcastOp,
    CmpIOp,
    CmpIPredicate,
    ExtUIOp,
    MaxUIOp,
    MulFOp,
    OrIOp,
    ShLIOp,
    ShRUIOp,
    TruncIOp,
)
from tritium.ops.ttir import numeric
from tritium.ops.ttir.dot import InputPrecision, ScaleFormat, TileProduct
from tritium.ops.ttir.shape import ExpandDimsOp, JoinOp, ReshapeOp, TransOp
from tritium.passes.base import Pass
from tritium.passes.rewriting import Builder, erase
from tritium.target import processor_named

_BYTES = {ScaleFormat.E4M3: ir.f8e4m3fn, ScaleFormat.E5M2: ir.f8e5m2}
_UNPACK = 2.0**126
"""Factor that corrects the exponent of a float made from the bits of a 4-bit code."""


_BITS = {
    ScaleFormat.E2M1: 2, ScaleFormat.E4M3: 4, ScaleFormat.E5M2: 3, ScaleFormat.E2M3: 4,
    ScaleFormat.E3M2: 3, ScaleFormat.BF16: 8, ScaleFormat.FP16: 11,
}  # fmt: skip
"""The bits of a format's numbers without sign and exponent, the leading one counted."""
_SCALE_BITS = 4
"""The bits, counted likewise, of a scale that is a floating-point number (E4M3)."""
_BFLOAT16_BITS, _TF32_BITS = 8, 11


@dataclass(frozen=True)
class ScaledDot(Pass):
    """Microscaled products as products of float32 or bfloat16 tiles.

    `tensor_cores`: choose the tiles for them; else they are of float32, multiplied as it is.
    `target`: the processor, whose matrix units may take products as they are; `rows`: of such
    (`MatrixUnit.tuned`); `num_warps`: those of a program that may use units that read shared
    memory, which take groups of four.
    """

    name: ClassVar[str] = "scaled-dot"
    title: ClassVar[str] = "DecomposeScaledDot"
    tensor_cores: bool = False
    target: str = ""
    rows: int = 0
    num_warps: int = 1

    def run(self, module: ModuleOp) -> bool:
        processor = processor_named(self.target) if self.target else None
        known = processor.matrix_units if processor else ()
        units = [u.tuned(self.rows, 1) if self.rows else u for u in known if u.scaled]
        through_float = processor is not None and processor.bfloat_by_float
        products = [op for op in module.walk() if isinstance(op, TileProduct) and op.has_scales]
        changed = [op for op in products if _name_floats(op)]
        found = [
            op for op in products
            if not any(
                u.takes(op, self.num_warps if u.from_shared else 1, ir.shape_of(op.c.type))
                for u in units
            )
        ]  # fmt: skip
        for op in found:
            _Rewrite(op, self.tensor_cores, through_float).run()
        return bool(found or changed)


def _name_floats(op: TileProduct) -> bool:
    """Give operands that are bytes the type of the 8-bit floats that they hold; True if any is."""
    product: Any = op
    changed = False
    for index, form in enumerate((product.a_elem_type, product.b_elem_type)):
        tile, held = op.operands[index], _BYTES.get(form)
        if held is not None and ir.is_integer(tile.type):
            type = ir.tensor_of(ir.shape_of(tile.type), held)
            op.operands[index] = Builder(op).value(numeric.BitcastOp, tile, result=type)
            changed = True
    return changed


class _Rewrite(Builder):
    """One product."""

    def __init__(self, op: Any, tensor_cores: bool, through_float: bool):
        """`through_float`: compute the tiles of bfloat16 as float32."""
        super().__init__(op)
        self.op = op
        self.type, self.precision = ir.f32, InputPrecision.IEEE
        pairs = ((op.a_elem_type, op.a_scale), (op.b_elem_type, op.b_scale))
        bits = max(
            _BITS[form] + (_SCALE_BITS if scale is not None and ir.is_float(scale.type) else 0)
            for form, scale in pairs
        )
        if tensor_cores and bits <= _BFLOAT16_BITS:
            self.type = ir.bf16
        elif tensor_cores:
            exact = bits <= _TF32_BITS
            self.precision = InputPrecision.TF32 if exact else InputPrecision.TF32X3
        self.tiles = self.type
        """The type of the product's operands; `type` is that in which they are computed."""
        if through_float:
            self.type = ir.f32
        self.word = ir.i16 if self.type == ir.bf16 else ir.i32
        self.width, self.fraction = (16, 7) if self.type == ir.bf16 else (32, 23)

    def run(self) -> None:
        op = self.op
        a = self.operand(op.a, op.a_elem_type, -1 if op.lhs_k_pack else -2, op.a_scale, False)
        b = self.operand(op.b, op.b_elem_type, -2 if op.rhs_k_pack else -1, op.b_scale, True)
        result = self.value(op.unscaled, a, b, op.c, inputPrecision=self.precision)
        result.name_hint = op.result.name_hint
        op.result.replace_all_uses_with(result)
        erase(op)

    def operand(
        self, tile: SSAValue, format: ScaleFormat, packed: int, scale: SSAValue | None, right: bool
    ) -> SSAValue:
        """An operand of the product, multiplied by its scales."""
        if scale is None and ir.element_type(tile.type) == self.tiles:
            return tile
        value = self.numbers(tile, format, packed)
        if scale is not None and right:
            order = self.swapped(len(ir.shape_of(value.type)))
            flipped = ir.tensor_of(tuple(ir.shape_of(value.type)[i] for i in order), self.type)
            factors = self.value(TransOp, self.factors(scale, flipped), order=order)
            value = self.value(MulFOp, value, factors)
        elif scale is not None:
            value = self.value(MulFOp, value, self.factors(scale, value.type))
        return value if self.type == self.tiles else self.upper_half(value)

    def upper_half(self, value: SSAValue) -> SSAValue:
        """Float32 numbers that bfloat16 has, in that type."""
        shape = ir.shape_of(value.type)
        bits = self.value(BitcastOp, value, result=ir.tensor_of(shape, ir.i32))
        bits = self.value(ShRUIOp, bits, self.constant(16, bits))
        half = self.value(TruncIOp, bits, result=ir.tensor_of(shape, ir.i16))
        return self.value(BitcastOp, half, result=ir.tensor_of(shape, self.tiles))

    @staticmethod
    def swapped(rank: int) -> tuple[int, ...]:
        """The order of axes that exchanges the last two."""
        return (*range(rank - 2), rank - 1, rank - 2)

    def numbers(self, tile: SSAValue, format: ScaleFormat, packed: int) -> SSAValue:
        """An operand's numbers in the tiles' type."""
        if format is ScaleFormat.E2M1:
            return self.unpacked(tile, packed)
        if ir.is_integer(tile.type):
            built = ", ".join(f.name.lower() for f in (*_BYTES, ScaleFormat.E2M1))
            raise unsupported_at(self.op.location, (
                f"tt.dot_scaled of {format.name.lower()} operands; bytes can be {built}"
            ))
        return self.converted(tile, self.type)

    def unpacked(self, tile: SSAValue, packed: int) -> SSAValue:
        """The numbers of bytes that hold two e2m1 codes along an axis, low half first."""
        shape = list(ir.shape_of(tile.type))
        codes = self.value(ExtUIOp, tile, result=ir.tensor_of(tuple(shape), self.word))
        low = self.code(self.value(AndIOp, codes, self.constant(15, codes)))
        high = self.code(self.value(ShRUIOp, codes, self.constant(4, codes)))
        pairs = self.value(JoinOp, low, high)
        if packed == -2:
            rank = len(shape)
            pairs = self.value(TransOp, pairs, order=(*range(rank - 1), rank, rank - 1))
        shape[packed] *= 2
        return self.value(ReshapeOp, pairs, result=ir.tensor_of(tuple(shape), self.type))

    def code(self, codes: SSAValue) -> SSAValue:
        """The value of an e2m1 code (an integer as wide as the result): its exponent and fraction
        in a float's place make that value times 2**-126, also where the exponent is 0."""
        sign = self.value(AndIOp, codes, self.constant(8, codes))
        rest = self.value(AndIOp, codes, self.constant(7, codes))
        bits = self.value(
            OrIOp,
            self.value(ShLIOp, sign, self.constant(self.width - 4, codes)),
            self.value(ShLIOp, rest, self.constant(self.fraction - 1, codes)),
        )
        small = self.value(BitcastOp, bits, result=ir.tensor_of(ir.shape_of(codes.type), self.type))
        return self.value(MulFOp, small, self.constant(_UNPACK, small))

    def factors(self, scale: SSAValue, type: Any) -> SSAValue:
        """Scales (..., K / run) in the tiles' type, each repeated for its run of a tile's K."""
        shape, size = ir.shape_of(scale.type), ir.shape_of(type)[-1]
        given = ir.is_float(scale.type)
        value = self.converted(scale, self.type) if given else self.powers(scale)
        value = self.value(ExpandDimsOp, value, axis=len(shape))
        run = ir.tensor_of((*shape, size // shape[-1]), self.type)
        return self.value(ReshapeOp, self.repeated(value, run), result=type)

    def powers(self, scale: SSAValue) -> SSAValue:
        """E8M0 codes in the tiles' type: 2**(code - 127), 255 being NaN."""
        shape = ir.shape_of(scale.type)
        codes = self.value(ExtUIOp, scale, result=ir.tensor_of(shape, self.word))
        bits = self.value(ShLIOp, codes, self.constant(self.fraction, codes))
        least = self.constant(1 << self.fraction - 1, codes)
        bits = self.value(MaxUIOp, bits, least)  # 2**-127 is subnormal
        value = self.value(BitcastOp, bits, result=ir.tensor_of(shape, self.type))
        absent = self.value(CmpIOp, codes, self.constant(255, codes), predicate=CmpIPredicate.EQ)
        return self.chosen(absent, self.constant(float("nan"), value), value)
