"""NVIDIA GPUs as passes see them: `target.Processor`, by compute capability."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any, ClassVar

from tritium.analysis.regions import function_of
from tritium.ir import types as ir
from tritium.ir.layouts.encodings import WARP, Cluster, Encoding, NvidiaMmaEncoding, linear, part_of
from tritium.ir.layouts.tensor_access import in_registers, sums_in_registers
from tritium.ir.layouts.tensor_memory import COLUMNS, TensorMemoryScalesEncoding
from tritium.ops.ttgir import TensorDotOp, TensorScaledDotOp, WarpGroupDotOp
from tritium.ops.ttgir.tcgen05 import sums_columns
from tritium.ops.ttir.dot import (
    DotScaledOp,
    InputPrecision,
    MatrixProduct,
    ScaleFormat,
    TileProduct,
)
from tritium.target import BulkCopies, MatrixUnit, Processor, square_parts

_BYTE_FLOATS = (ir.f8e5m2, ir.f8e4m3fn)
_MMA = (16, 8)
"""The rows and columns of `mma.sync`."""
LEAST_K_BYTES = 32
"""The bytes along K of any matrix instruction."""
COPY_BYTES = (4, 16)
"""The least and the most of `cp.async`."""

_WORDS = frozenset({"i32", "si32", "ui32", "i64", "si64", "ui64"})
_ORDERED = _WORDS | {"f16", "bf16"}
_SUMS = {
    "ADD": frozenset({"f16", "bf16", "f32", "i32", "si32", "ui32", "ui64"}),
    "MIN": _ORDERED, "MAX": _ORDERED, "AND": _WORDS, "OR": _WORDS, "XOR": _WORDS,
}  # fmt: skip
"""Element types of `cp.reduce.async.bulk.tensor` (PTX ISA, data movement)."""


def _kinds(op: MatrixProduct) -> tuple[ir.Type, ir.Type, int]:
    """The element types of operands and result, and the bits of the first."""
    return ir.element_type(op.a.type), ir.element_type(op.results[0].type), ir.bit_width(op.a.type)


def _fills_k(op: MatrixProduct) -> bool:
    return op.k * ir.bit_width(op.a.type) >= 8 * LEAST_K_BYTES


class NvidiaUnit:
    """Base of NVIDIA's matrix units: one choice of rows, 32 bits of neighbours along K."""

    NAME: ClassVar[str]
    ROWS: ClassVar[str]
    """The rows of its instructions, in words."""

    def neighbours(self, product: MatrixProduct, encoding: Encoding | None = None) -> int:
        return max(32 // ir.bit_width(product.a.type), 1)

    def tuned(self, rows: int, pack: int) -> MatrixUnit:
        raise ValueError(f"{self.NAME} has {self.ROWS} rows")

    def scales(self, product: MatrixProduct, encoding: Encoding, index: int) -> Encoding:
        raise ValueError(f"{self.NAME} takes no scales from registers")

    def rounds_sums(self, product: MatrixProduct) -> bool:
        return False


@dataclass(frozen=True)
class Wgmma(NvidiaUnit):
    """`wgmma` (sm_90): four warps, 64 rows, the right operand in shared memory."""

    NAME, ROWS = "wgmma", "64"
    from_shared: type[MatrixProduct] | None = WarpGroupDotOp
    scaled: bool = False

    def takes(self, product: MatrixProduct, num_warps: int, part: tuple[int, ...]) -> bool:
        element, out, bits = _kinds(product)
        m, n = part[-2:]
        if len(part) != 2 or num_warps % 4 or m % 64 or n % 8 or not _fills_k(product):
            return False
        if element in _BYTE_FLOATS and 0 < product.maxNumImpreciseAcc < product.k:
            return False  # mma.sync sums all products precisely
        if element in (ir.f16, ir.bf16, *_BYTE_FLOATS):
            return out == ir.f32 and bits == ir.bit_width(product.b.type)
        if element == ir.f32:
            return product.inputPrecision is InputPrecision.TF32
        return element == ir.i8 and out == ir.i32

    def encoding(
        self, product: MatrixProduct, num_warps: int, cluster: Cluster, chained: bool
    ) -> NvidiaMmaEncoding:
        """Warp groups go down the rows first."""
        rows, columns = part_of(cluster, ir.shape_of(product.results[0].type))
        across = max(num_warps // max(rows // 16, 1), 1)
        widest = max(columns // across, 8)
        width = next(n for n in range(256, 0, -8) if columns % n == 0 and n <= widest)
        warps = [4, 1]
        while prod(warps) < num_warps:
            warps[0 if rows > 16 * warps[0] else 1] *= 2
        return NvidiaMmaEncoding.make(
            versionMajor=3, versionMinor=0, warpsPerCTA=tuple(warps),
            instrShape=(16, width, 256 // ir.bit_width(product.a.type)), CGALayout=cluster,
        )  # fmt: skip

    def rounds_sums(self, product: MatrixProduct) -> bool:
        """Sums of products of 8-bit floats have few bits."""
        return _kinds(product)[0] in _BYTE_FLOATS and product.maxNumImpreciseAcc == product.k


@dataclass(frozen=True)
class Tcgen05(NvidiaUnit):
    """`tcgen05.mma` (sm_100): 64 or 128 rows, operands in shared memory, sums in tensor memory.
    `integers`: it multiplies 8-bit integers."""

    NAME, ROWS = "tcgen05", "64 or 128"
    integers: bool
    from_shared: type[MatrixProduct] | None = TensorDotOp
    scaled: bool = False

    def takes(self, product: MatrixProduct, num_warps: int, part: tuple[int, ...]) -> bool:
        element, out, bits = _kinds(product)
        m, n = part[-2:]
        if len(part) != 2 or num_warps % 4 or m % 64 or n % 16 or not _fills_k(product):
            return False
        if part != ir.shape_of(product.results[0].type) or not self._shared(part, num_warps):
            return False
        if element in (ir.f16, ir.bf16, *_BYTE_FLOATS):
            return out == ir.f32 and bits == ir.bit_width(product.b.type)
        if element == ir.f32:
            return product.inputPrecision is InputPrecision.TF32
        return self.integers and element == ir.i8 and out == ir.i32

    @staticmethod
    def _shared(part: tuple[int, ...], num_warps: int) -> bool:
        """True if `num_warps` warps can have the sums."""
        try:
            sums_in_registers(part, num_warps)
        except ValueError:
            return False
        return True

    def encoding(
        self, product: MatrixProduct, num_warps: int, cluster: Cluster, chained: bool
    ) -> Encoding:
        """Each lane has a row."""
        return sums_in_registers(ir.shape_of(product.results[0].type), num_warps, cluster)


_SCALED = {ScaleFormat.E4M3: ir.f8e4m3fn, ScaleFormat.E5M2: ir.f8e5m2, ScaleFormat.E2M1: ir.i8}
"""The element types of operands with scales."""


@dataclass(frozen=True)
class Tcgen05Scaled(Tcgen05):
    """`tcgen05.mma` with scales for each 32 elements along K, or 16 where these have 4 bits."""

    integers: bool = False
    from_shared: Any = TensorScaledDotOp
    scaled: bool = True

    def takes(self, product: Any, num_warps: int, part: tuple[int, ...]) -> bool:
        if not isinstance(product, DotScaledOp) or num_warps % 4 or len(part) != 2:
            return False
        formats, scales = (
            (product.a_elem_type, product.b_elem_type), (product.a_scale, product.b_scale)
        )  # fmt: skip
        packed = formats == (ScaleFormat.E2M1,) * 2
        if (not packed and ScaleFormat.E2M1 in formats) or None in scales:
            return False
        for value, form in zip((product.a, product.b), formats, strict=True):
            if ir.element_type(value.type) != _SCALED.get(form):
                return False
        if packed and not (product.lhs_k_pack and product.rhs_k_pack):
            return False
        kinds = {(ir.element_type(s.type), product.k // ir.shape_of(s.type)[-1]) for s in scales}
        if kinds != {(ir.i8, 32)} and not (packed and kinds == {(ir.f8e4m3fn, 16)}):
            return False
        step = 64 if packed else 32
        whole = part == ir.shape_of(product.results[0].type) and product.k % step == 0
        return (
            whole and part[0] % 128 == 0 and part[1] % 16 == 0
            and ir.element_type(product.results[0].type) == ir.f32
            and self._shared(part, num_warps) and self._has_room(product)
        )

    @staticmethod
    def _has_room(product: Any) -> bool:
        """True if the sums, and the scales, of all products of the kernel find room in tensor
        memory."""
        function = function_of(product)
        found = [op for op in function.walk() if isinstance(op, TileProduct)]
        total = sum(sums_columns(op) for op in found)
        return function.sym_visibility != "private" and total <= COLUMNS

    def scales(self, product: Any, encoding: Encoding, index: int) -> Encoding:
        kind = (product.a_scale, product.b_scale)[index].type
        warps = linear(encoding, ir.shape_of(product.results[0].type)).in_size(WARP)
        return in_registers(TensorMemoryScalesEncoding.make(), ir.shape_of(kind), 8, warps)


@dataclass(frozen=True)
class MmaSync(NvidiaUnit):
    """`mma.sync`: one warp, 16 rows and 8 columns (copies, where a tile has fewer), operands in
    registers."""

    NAME, ROWS = "mma.sync", "16"
    float8: bool
    from_shared: type[MatrixProduct] | None = None
    scaled: bool = False

    def takes(self, product: MatrixProduct, num_warps: int, part: tuple[int, ...]) -> bool:
        element, out, _ = _kinds(product)
        if len(part) != 2 or not _fills_k(product):
            return False
        if element in (ir.f16, ir.bf16):
            return out == ir.f32 or (element == ir.f16 and out == ir.f16)
        if element in _BYTE_FLOATS:
            return out == ir.f32 and self.float8
        if element == ir.f64:
            return product.k >= 8
        if element == ir.f32:
            return product.inputPrecision is InputPrecision.TF32
        return element == ir.i8 and out == ir.i32

    def encoding(
        self, product: MatrixProduct, num_warps: int, cluster: Cluster, chained: bool
    ) -> NvidiaMmaEncoding:
        """About square parts for each warp; chained products keep rows in one warp."""
        part = part_of(cluster, ir.shape_of(product.results[0].type))
        rows, columns = max(part[0] // _MMA[0], 1), max(part[1] // _MMA[1], 1)
        warps = square_parts(num_warps, rows, columns // 2, chained=chained)
        return NvidiaMmaEncoding.make(
            versionMajor=2, versionMinor=0, warpsPerCTA=warps, instrShape=_MMA,
            CGALayout=cluster,
        )  # fmt: skip


@lru_cache
def processor(arch: int) -> Processor:
    """The GPUs of a compute capability: 90 for sm_90."""
    units: tuple[MatrixUnit, ...] = (MmaSync(float8=arch >= 89),)
    if arch // 10 == 9:
        units = (Wgmma(), *units)
    elif 100 <= arch < 120:
        units = (Tcgen05(integers=arch != 103), Tcgen05Scaled(), *units)
    small = arch in (86, 89) or arch >= 120
    bulk = BulkCopies(  # its maps hold 8-bit floats as bytes
        most_bytes=1 << 17, alignment=16, sums=tuple(_SUMS.items()),
        without_nan=tuple(map(str, _BYTE_FLOATS)), rows=100 <= arch < 120,
    )  # fmt: skip
    return Processor(
        name=f"cuda:{arch}", lanes=32,
        max_shared=1024 * (99 if small else 163 if arch < 90 else 227),
        sum_widths=(("f16", 8), ("bf16", 8), ("f32", 4)) if arch >= 90 else (("f16", 2),),
        least_k_bytes=LEAST_K_BYTES, matrix_units=units,
        float8_products=tuple(map(str, _BYTE_FLOATS)) if arch >= 89 else (),
        product_part=(64, 16),  # a warp group's rows
        bulk_copies=bulk if arch >= 90 else None, copy_bytes=COPY_BYTES,
        registers=(65536, 255),
    )  # fmt: skip
