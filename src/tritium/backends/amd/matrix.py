"""Matrix instructions of AMD GPUs: MFMA (gfx9) and WMMA (gfx11, gfx12), and which products they
compute. LLVM's intrinsics are named here; `lower/matmul.py` calls them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from math import prod
from typing import Any

from tritium.codegen.llvm.writer import mangle
from tritium.ir import types as ir
from tritium.ir.layouts.amd import SCALED_RUN, AMDMfmaEncoding, AMDWmmaEncoding, scale_encoding
from tritium.ir.layouts.encodings import Cluster, LinearEncoding
from tritium.ir.source_errors import unsupported_at
from tritium.ops.ttir.dot import InputPrecision, MatrixProduct, ScaleFormat, TileProduct
from tritium.target import square_parts


@dataclass(frozen=True)
class Instruction:
    """One instruction.

    Attributes:
        rows, columns: of the result.
        k: the extent that it sums over.
        intrinsic: LLVM's name without `llvm.amdgcn.`.
        operand: the LLVM type of an operand, of a lane.
        count: the elements along K of an operand that a lane has.
    """

    rows: int
    columns: int
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

_SHAPES: dict[tuple[str, str], tuple[tuple[int, int, int, int], ...]] = {
    ("mfma", "f16"): ((2, 4, 32, 8), (2, 4, 16, 16), (2, 4, 4, 4), (4, 4, 32, 16), (4, 4, 16, 32)),
    ("mfma", "bf16"): ((2, 4, 32, 8), (2, 4, 16, 16), (2, 4, 4, 4), (4, 4, 32, 16), (4, 4, 16, 32)),
    ("mfma", "f32"): ((2, 4, 32, 2), (2, 4, 16, 4), (2, 4, 4, 1)),
    ("mfma", "xf32"): ((3, 3, 32, 4), (3, 3, 16, 8)),
    ("mfma", "f64"): ((2, 4, 16, 4),),
    ("mfma", "i8"): ((2, 2, 32, 8), (2, 2, 16, 16), (2, 4, 4, 4), (3, 4, 32, 16), (3, 4, 16, 32),
                     (4, 4, 32, 32), (4, 4, 16, 64)),
    ("mfma", "f8"): ((3, 4, 32, 16), (3, 4, 16, 32), (4, 4, 32, 64), (4, 4, 16, 128)),
    ("wmma", "f16"): ((1, 2, 16, 16), (3, 3, 16, 32)),
    ("wmma", "bf16"): ((1, 2, 16, 16), (3, 3, 16, 32)),
    ("wmma", "f32"): ((3, 3, 16, 4),),
    ("wmma", "i8"): ((1, 2, 16, 16), (3, 3, 16, 64)),
    ("wmma", "f8"): ((2, 2, 16, 16), (3, 3, 16, 64), (3, 3, 16, 128)),
}  # fmt: skip
"""The matrix instructions by the operands' elements (xf32: float32 as tf32): the first version and
the last that have them, rows, K. Those of 4 rows and columns are 16 products, which share one of
their operands here."""
_LLVM = {"f16": "half", "bf16": "bfloat", "f32": "float", "xf32": "float", "f64": "double"}
"""LLVM's types of floats; integers and 8-bit floats are in words."""


def _operand(family: str, kind: str, count: int, since: int) -> str:
    """The LLVM type of `count` elements of an instruction that there is since a version."""
    if kind in ("i8", "f8"):
        word, count = ("i32", count // 4) if family == "wmma" or count > 8 else (f"i{8 * count}", 1)
    else:
        old = kind == "bf16" and since < (3 if family == "wmma" else 4)
        word = "i16" if old else _LLVM[kind]
    return word if count == 1 else f"<{count} x {word}>"


def _intrinsic(family: str, kind: str, size: int, k: int, operand: str, since: int) -> str:
    """LLVM's name of an instruction; those of 8-bit floats have places for the names of two."""
    shape, out = f"{size}x{size}x{k}", _SUMS.get(kind, "f32")
    names = "{}.{}" if kind == "f8" else kind
    if family == "wmma":
        return f"{out}.{shape}.{'iu8' if kind == 'i8' else names}.v8{out}.{mangle(operand)}"
    if kind == "f8" and since == 4:
        return f"scale.{out}.{shape}.f8f6f4"
    if since > 2:
        return f"{out}.{shape}.{names}"
    return f"{out}.{shape}{kind}" + ".1k" * (kind == "bf16")


_SCALED = {("mfma", 4): ((32, 64), (16, 128)), ("wmma", 3): ((16, 128),)}
"""Rows and K of products of operands with a scale for each run of elements along K."""
_RUNS = {"mfma": {SCALED_RUN}, "wmma": {SCALED_RUN, 16}}
"""The lengths of these runs."""
FLOAT8_FORMATS: dict[ir.Type, int] = {ir.f8e4m3fn: 0, ir.f8e5m2: 1}
"""The numbers of formats in instructions for several."""
SCALED_FORMATS = {ScaleFormat.E4M3: 0, ScaleFormat.E5M2: 1, ScaleFormat.E2M1: 4}
SCALED_BYTES = 16
"""The elements with one scale; the bytes of an operand that are neighbours in a lane."""


@dataclass(frozen=True)
class MatrixCores:
    """The matrix unit of a processor: `mfma` or `wmma`, in a version (that of the encoding).

    `rows`: those of an instruction (the option `matrix_instr_nonkdim`); 0 leaves them to the
    product. `pack`: of how many instructions a thread has operands as neighbours (`kpack`).
    """

    family: str
    version: int
    rows: int = 0
    pack: int = 1
    from_shared: type[MatrixProduct] | None = None

    @property
    def float8(self) -> tuple[ir.Type, ...]:
        """The 8-bit floats that it multiplies."""
        if self.family == "mfma":
            return {3: _FNUZ, 4: _OCP}.get(self.version, ())
        return _OCP if self.version > 1 else ()

    def tuned(self, rows: int, pack: int) -> MatrixCores:
        return replace(self, rows=rows, pack=pack)

    @property
    def scaled(self) -> bool:
        return (self.family, self.version) in _SCALED

    def _scaled_instructions(self, product: Any) -> list[Instruction]:
        scales = [s for s in (product.a_scale, product.b_scale) if s is not None]
        known = {product.a_elem_type, product.b_elem_type} <= set(SCALED_FORMATS)
        whole = product.lhs_k_pack and product.rhs_k_pack
        runs = {product.k // ir.shape_of(s.type)[-1] for s in scales} or {SCALED_RUN}
        of_run = len(runs) == 1 and runs <= _RUNS[self.family]
        kinds = {ir.element_type(s.type) for s in scales}
        powers = kinds <= {ir.i8} or (kinds == {ir.f8e4m3fn} and self.family == "wmma" and
            product.a_elem_type is product.b_elem_type is ScaleFormat.E2M1)  # fmt: skip
        if not (known and whole and of_run and powers) \
                or ir.element_type(product.c.type) != ir.f32:  # fmt: skip
            return []
        kind = "scale" if runs == {SCALED_RUN} else "scale16"
        sizes = [(size, size, k, "f8f6f4") for size, k in _SCALED[self.family, self.version]]
        if self.family == "wmma" and \
                product.a_elem_type is product.b_elem_type is ScaleFormat.E2M1:  # fmt: skip
            sizes.append((32, 16, 128, "f4"))  # only where the program's layout says so
        return [
            Instruction(m, n, k, f"{self.family}.{kind}.f32.{m}x{n}x{k}.{types}", "i32",
                        SCALED_BYTES)
            for m, n, k, types in sizes
        ]  # fmt: skip

    def scales(
        self, product: Any, encoding: AMDMfmaEncoding | AMDWmmaEncoding, index: int
    ) -> LinearEncoding:
        """The layout of an operand's scales."""
        scale: Any = (product.a_scale, product.b_scale)[index]
        shape = ir.shape_of(scale.type)
        return scale_encoding(encoding, index, shape, product.k // shape[-1])

    def instructions(self, product: Any) -> list[Instruction]:
        """The instructions for a product's types, the largest first."""
        if product.has_scales:
            return self._scaled_instructions(product) if self.scaled else []
        a, b = (ir.element_type(v.type) for v in (product.a, product.b))
        out = ir.element_type(product.results[0].type)
        if a in self.float8 and b in self.float8:
            kind = "f8"
        elif a != b:
            return []
        else:
            kind = str(a)
        if str(out) != _SUMS.get(kind, "f32"):
            return []
        if a == ir.f32 and product.inputPrecision is InputPrecision.TF32:
            kind = "xf32"
        # Where operands are exchanged, their formats are.
        names = _F8.get(b, ""), _F8.get(a, "")
        return [
            replace(instruction, rows=rows, columns=columns,
                    intrinsic=instruction.intrinsic.format(*names))
            for instruction in self._of_kind(kind)
            for rows, columns in (
                ((64, 4), (4, 64)) if instruction.rows == 4 else ((instruction.rows,) * 2,)
            )
        ]  # fmt: skip

    def parts_of_k(self, size: int) -> int:
        """Over how many lanes an instruction has K."""
        if self.family == "wmma":
            return 1 if self.version == 1 else 2
        return 1 if size == 4 else 64 // size

    def _of_kind(self, kind: str) -> Iterator[Instruction]:
        """The instructions for elements of a kind, the largest first."""
        shapes = sorted(_SHAPES.get((self.family, kind), ()), key=lambda s: s[2:], reverse=True)
        for since, until, size, k in shapes:
            if since <= self.version <= until:
                count = k // self.parts_of_k(size)
                operand = _operand(self.family, kind, count, since)
                name = _intrinsic(self.family, kind, size, k, operand, since)
                yield Instruction(size, size, k, f"{self.family}.{name}", operand, count)

    def instruction(
        self, product: TileProduct, rows: int, columns: int, k: int
    ) -> Instruction | None:
        """The instruction of `rows` rows, `columns` columns and, if there is one, this K; of a tile
        that is smaller it computes copies, and (WMMA) of a smaller K sums of zeros."""
        size, short = (rows, columns), self.family == "wmma" and self.version == 3
        fitting = [
            i for i in self.instructions(product) if (i.rows, i.columns) == size
            and (product.k >= i.k or (short and i.k == k))
        ]  # fmt: skip
        return next((i for i in fitting if i.k == k), fitting[0] if fitting else None)

    def takes(self, product: TileProduct, num_warps: int, part: tuple[int, ...]) -> bool:
        return bool(self._fitting(product))

    def _fitting(self, product: TileProduct) -> list[Instruction]:
        """The instructions that can be used, the largest first. Raises `NotImplementedError` where
        there are some, but none of as many rows as there are to be."""
        known = self.instructions(product)
        if not known or not self.rows:
            fitting = [i for i in known if self._fits(i, product)]
            # Those of 4 rows only where there is no other.
            return [i for i in fitting if i.rows == i.columns] or fitting
        wanted = [i for i in known if min(i.rows, i.columns) == self.rows and product.k >= i.k]
        if self.rows == 4:
            wanted = [i for i in wanted if self._fits(i, product)]
        if not wanted:
            m, n = ir.shape_of(product.results[0].type)[-2:]
            sizes = ", ".join(f"{i.rows}x{i.columns}x{i.k}" for i in known)
            size = f"{m}x{n}x{product.k} {ir.element_type(product.a.type)}"
            given = f"matrix_instr_nonkdim is {self.rows}, for a product of {size}"
            raise unsupported_at(product.location, f"{given}; instructions are {sizes}")
        return wanted

    @staticmethod
    def _fits(instruction: Instruction, product: TileProduct) -> bool:
        m, n = ir.shape_of(product.results[0].type)[-2:]
        enough = product.k >= instruction.k
        return enough and m >= instruction.rows and n >= instruction.columns

    def encoding(
        self, product: TileProduct, num_warps: int, cluster: Cluster, chained: bool
    ) -> AMDMfmaEncoding | AMDWmmaEncoding:
        """Products of a batch for each wave, or about square parts of one; chained products keep
        rows in one wave."""
        *batch, rows, columns = ir.shape_of(product.results[0].type)
        alone = [min(count, num_warps) for count in batch]
        chosen = self._for_waves(product, num_warps // prod(alone), chained)
        parts = square_parts(num_warps // prod(alone), rows // chosen.rows,
                             columns // chosen.columns, chained=chained)  # fmt: skip
        warps = [*alone, *parts]
        common: Any = {"warpsPerCTA": tuple(warps), "CGALayout": cluster}
        if self.family == "wmma":
            return AMDWmmaEncoding.make(
                version=self.version, isTranspose=True, instrShape=(16, 16, chosen.k), **common
            )
        bits = ir.bit_width(product.results[0].type)
        return AMDMfmaEncoding.make(
            version=self.version, instrShape=(chosen.rows, chosen.columns, chosen.k),
            isTransposed=chosen.rows >= chosen.columns, elementBitWidth=bits, **common,
        )  # fmt: skip

    def _for_waves(self, product: TileProduct, num_warps: int, chained: bool) -> Instruction:
        """The largest instruction that leaves work for each wave: of chained products, rows."""
        fitting = self._fitting(product)
        m, n = ir.shape_of(product.results[0].type)[-2:]
        parts = [m // i.rows * (1 if chained else n // i.columns) for i in fitting]
        busy = [i for i, count in zip(fitting, parts, strict=True) if count >= num_warps]
        return busy[0] if busy else min(fitting, key=lambda i: i.rows * i.columns)

    def neighbours(
        self, product: TileProduct, encoding: AMDMfmaEncoding | AMDWmmaEncoding | None = None
    ) -> int:
        """The `kWidth`: what an instruction takes, or a multiple if K is long; 1 for products that
        none computes."""
        if encoding is None:
            chosen = next(iter(self._fitting(product)), None)
        else:
            chosen = self.instruction(product, *encoding.get("instrShape"))
        if chosen is None:
            return 1
        if product.has_scales:
            return chosen.count
        return chosen.count * (self.pack if product.k >= chosen.k * self.pack else 1)

    def rounds_sums(self, product: TileProduct) -> bool:
        return False


@cache
def matrix_cores(arch: str) -> MatrixCores:
    """The matrix unit of a processor."""
    for prefix in ("gfx1250", "gfx11", "gfx12"):
        if arch.startswith(prefix):
            return MatrixCores("wmma", _VERSIONS[prefix])
    return MatrixCores("mfma", _VERSIONS[arch])
