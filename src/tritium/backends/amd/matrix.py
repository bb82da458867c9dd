"""Matrix instructions of AMD GPUs: MFMA (gfx9) and WMMA (gfx11, gfx12), and which products they
compute. LLVM's intrinsics are named here; `lower/products.py` calls them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any

from tritium.ir import types as ir
from tritium.ir.layouts.amd import AMDMfmaEncoding, AMDWmmaEncoding
from tritium.ir.layouts.encodings import Cluster
from tritium.ops.ttir.dot import InputPrecision, MatrixProduct


@dataclass(frozen=True)
class Instruction:
    """One instruction.

    Attributes:
        size: rows and columns of the result.
        k: the extent that it sums over.
        intrinsic: LLVM's name without `llvm.amdgcn.`.
        operand: the LLVM type of an operand, of a lane.
        count: the elements along K of an operand that a lane has.
    """

    size: int
    k: int
    intrinsic: str
    operand: str
    count: int


_F8: dict[ir.Type, str] = {
    ir.f8e4m3fn: "fp8", ir.f8e5m2: "bf8", ir.f8e4m3fnuz: "fp8", ir.f8e5m2fnuz: "bf8",
}  # fmt: skip
_SUMS = {"i8": "i32", "f64": "f64"}
"""The elements of sums, by those of operands; f32 else."""
_OCP: tuple[ir.Type, ...] = (ir.f8e4m3fn, ir.f8e5m2)
_FNUZ: tuple[ir.Type, ...] = (ir.f8e4m3fnuz, ir.f8e5m2fnuz)
_VERSIONS = {"gfx90a": 2, "gfx942": 3, "gfx950": 4, "gfx11": 1, "gfx12": 2, "gfx1250": 3}

_MFMA: dict[tuple[int, str], tuple[tuple[int, int, str, str], ...]] = {
    (2, "f16"): ((32, 8, "f32.32x32x8f16", "<4 x half>"),
                 (16, 16, "f32.16x16x16f16", "<4 x half>")),
    (2, "bf16"): ((32, 8, "f32.32x32x8bf16.1k", "<4 x i16>"),
                  (16, 16, "f32.16x16x16bf16.1k", "<4 x i16>")),
    (2, "f32"): ((32, 2, "f32.32x32x2f32", "float"), (16, 4, "f32.16x16x4f32", "float")),
    (2, "f64"): ((16, 4, "f64.16x16x4f64", "double"),),
    (2, "i8"): ((32, 8, "i32.32x32x8i8", "i32"), (16, 16, "i32.16x16x16i8", "i32")),
    (3, "i8"): ((32, 16, "i32.32x32x16.i8", "i64"), (16, 32, "i32.16x16x32.i8", "i64")),
    (3, "f8"): ((32, 16, "f32.32x32x16.{}.{}", "i64"), (16, 32, "f32.16x16x32.{}.{}", "i64")),
    (4, "f16"): ((32, 16, "f32.32x32x16.f16", "<8 x half>"),
                 (16, 32, "f32.16x16x32.f16", "<8 x half>")),
    (4, "bf16"): ((32, 16, "f32.32x32x16.bf16", "<8 x bfloat>"),
                  (16, 32, "f32.16x16x32.bf16", "<8 x bfloat>")),
    (4, "i8"): ((32, 32, "i32.32x32x32.i8", "<4 x i32>"), (16, 64, "i32.16x16x64.i8", "<4 x i32>")),
}  # fmt: skip
"""By the first version that has them and the operands' elements: rows, K, intrinsic, operand."""
_XF32 = ((32, 4, "f32.32x32x4.xf32", "<2 x float>"), (16, 8, "f32.16x16x8.xf32", "<2 x float>"))
"""tf32, of version 3 alone."""

_WMMA: dict[tuple[int, str], tuple[int, str, str]] = {
    (1, "f16"): (16, "f32.16x16x16.f16.v8f32.v16f16", "<16 x half>"),
    (1, "bf16"): (16, "f32.16x16x16.bf16.v8f32.v16i16", "<16 x i16>"),
    (1, "i8"): (16, "i32.16x16x16.iu8.v8i32.v4i32", "<4 x i32>"),
    (2, "f16"): (16, "f32.16x16x16.f16.v8f32.v8f16", "<8 x half>"),
    (2, "bf16"): (16, "f32.16x16x16.bf16.v8f32.v8i16", "<8 x i16>"),
    (2, "i8"): (16, "i32.16x16x16.iu8.v8i32.v2i32", "<2 x i32>"),
    (2, "f8"): (16, "f32.16x16x16.{}.{}.v8f32.v2i32", "<2 x i32>"),
    (3, "f16"): (32, "f32.16x16x32.f16.v8f32.v16f16", "<16 x half>"),
    (3, "bf16"): (32, "f32.16x16x32.bf16.v8f32.v16bf16", "<16 x bfloat>"),
    (3, "f32"): (4, "f32.16x16x4.f32.v8f32.v2f32", "<2 x float>"),
    (3, "i8"): (64, "i32.16x16x64.iu8.v8i32.v8i32", "<8 x i32>"),
    (3, "f8"): (64, "f32.16x16x64.{}.{}.v8f32.v8i32", "<8 x i32>"),
}  # fmt: skip


@dataclass(frozen=True)
class MatrixCores:
    """The matrix unit of a processor: `mfma` or `wmma`, in a version (that of the encoding)."""

    family: str
    version: int
    from_shared: type[MatrixProduct] | None = None

    @property
    def float8(self) -> tuple[ir.Type, ...]:
        """The 8-bit floats that it multiplies."""
        if self.family == "mfma":
            return {3: _FNUZ, 4: _OCP}.get(self.version, ())
        return _OCP if self.version > 1 else ()

    def instructions(self, product: MatrixProduct) -> list[Instruction]:
        """The instructions for a product's types, the largest first."""
        a, b = (ir.element_type(v.type) for v in (product.a, product.b))
        out = ir.element_type(product.results[0].type)
        if a in self.float8 and b in self.float8:
            kind = "f8"
        elif a != b:
            return []
        else:
            kind = str(a)
        exact = a != ir.f32 or product.inputPrecision is not InputPrecision.TF32
        known = exact or (self.family, self.version) == ("mfma", 3)
        if str(out) != _SUMS.get(kind, "f32") or not known:
            return []
        found = self._rows(kind, exact)
        # The operands are exchanged, and with them their formats.
        names = _F8.get(b, ""), _F8.get(a, "")
        lanes = {size: 64 // size if self.family == "mfma" else 2 for size, *_ in found}
        if self.family == "wmma" and self.version == 1:
            lanes = {16: 1}
        return [
            Instruction(size, k, f"{self.family}.{name.format(*names)}", operand, k // lanes[size])
            for size, k, name, operand in found
        ]

    def _rows(self, kind: str, exact: bool) -> tuple[tuple[int, int, str, str], ...]:
        if self.family == "wmma":
            row = _WMMA.get((self.version, kind))
            return () if row is None else ((16, *row),)
        if not exact:
            return _XF32
        versions = [v for v, name in _MFMA if name == kind and v <= self.version]
        return _MFMA[max(versions), kind] if versions else ()

    def instruction(self, product: MatrixProduct, size: int = 0) -> Instruction | None:
        """The instruction for a product, of so many rows where `size` is not 0."""
        m, n = ir.shape_of(product.results[0].type)[-2:]
        for found in self.instructions(product):
            fits = min(m, n) >= found.size and product.k >= found.k
            if fits and size in (0, found.size):
                return found
        return None

    def takes(self, product: MatrixProduct, num_warps: int, part: tuple[int, ...]) -> bool:
        return len(part) == 2 and self.instruction(product) is not None

    def encoding(
        self, product: MatrixProduct, num_warps: int, cluster: Cluster, chained: bool
    ) -> AMDMfmaEncoding | AMDWmmaEncoding:
        """About square parts for each wave; chained products keep rows in one wave."""
        rows, columns = ir.shape_of(product.results[0].type)
        chosen = self._for_waves(product, num_warps)
        warps = [1, 1]
        while prod(warps) < num_warps:
            down, across = rows // chosen.size // warps[0], columns // chosen.size // warps[1]
            warps[0 if chained or (down >= across and down > 1) else 1] *= 2
        common: Any = {"warpsPerCTA": tuple(warps), "CGALayout": cluster}
        if self.family == "wmma":
            return AMDWmmaEncoding.make(
                version=self.version, isTranspose=True, instrShape=(16, 16, chosen.k), **common
            )
        bits = ir.bit_width(product.results[0].type)
        return AMDMfmaEncoding.make(
            version=self.version, instrShape=(chosen.size, chosen.size, chosen.k),
            isTransposed=True, elementBitWidth=bits, **common,
        )  # fmt: skip

    def _for_waves(self, product: MatrixProduct, num_warps: int) -> Instruction:
        """The largest instruction that leaves work for each wave."""
        fitting = [i for i in self.instructions(product) if self.instruction(product, i.size)]
        m, n = ir.shape_of(product.results[0].type)
        busy = [i for i in fitting if (m // i.size) * (n // i.size) >= num_warps]
        return busy[0] if busy else fitting[-1]

    def neighbours(self, product: MatrixProduct) -> int:
        """As many as an instruction takes, whatever its size."""
        return self.instructions(product)[0].count

    def rounds_sums(self, product: MatrixProduct) -> bool:
        return False


@cache
def matrix_cores(arch: str) -> MatrixCores:
    """The matrix unit of a processor."""
    for prefix in ("gfx1250", "gfx11", "gfx12"):
        if arch.startswith(prefix):
            return MatrixCores("wmma", _VERSIONS[prefix])
    return MatrixCores("mfma", _VERSIONS[arch])
