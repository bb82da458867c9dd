"""Products by matrix units: which instructions are chosen, and the lowering, executed with a model
of the instructions that follows AMD's instruction set documents, on the lanes of all waves."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tritium
import tritium.language as tl
from benchmarks.gpu_sources import compiled as benchmark
from tests.amd.execution.run import execute
from tests.amd.kernels import TARGETS, compiled
from tritium.backends.amd.lower.hardware import AMDGPU
from tritium.backends.amd.lower.matmul import MatrixProducts
from tritium.backends.amd.matrix import matrix_cores
from tritium.codegen.gpu.context import layout_of
from tritium.codegen.llvm.writer import scalar, vector
from tritium.ir import types as ir
from tritium.ir.layouts.amd import AMDMfmaEncoding
from tritium.ir.layouts.encodings import DotOperandEncoding
from tritium.ops.ttir.dot import InputPrecision


class Parts:
    """An LLVM value: its type, and its numbers in each thread, (threads, numbers)."""

    def __init__(self, type: str, numbers: Any):
        self.type, self.numbers = type, numbers


class Model:
    """The part of a context that products use; each value is that of all threads."""

    def __init__(self, threads: int):
        self.threads, self.f, self.calls = threads, self, list[str]()

    def i32(self, number: int) -> int:
        return number

    def tile(self, value: Any) -> Any:
        return value.parts

    def set(self, result: Any, values: Any) -> None:
        result.parts = values

    def as_type(self, value: Any, type: str) -> Any:
        return Parts(type, value.numbers)

    def cast(self, opcode: str, value: Any, type: str) -> Any:
        return Parts(type, value.numbers)

    def vector(self, values: Any) -> Any:
        type = vector(values[0].type, len(values))
        return Parts(type, np.hstack([v.numbers for v in values]))

    def extract(self, vector: Any, lane: int) -> Any:
        return Parts(scalar(vector.type), vector.numbers[:, lane : lane + 1])

    def call(self, type: str, name: str, *arguments: Any) -> Any:
        """An instruction: two operands, then the sum."""
        self.calls.append(name)
        a, b, total = [v.numbers for v in arguments if isinstance(v, Parts)]
        size = int(re.findall(r"(\d+)x\d+x\d+", name)[0])
        wave, halves = (64, 64 // size) if ".mfma." in name else (32, 2)
        if size == 4:
            return Parts(type, self.in_blocks(a, b, total))
        out, k = np.empty_like(total), int(re.findall(r"\d+x\d+x(\d+)", name)[0])
        copies = ".wmma." in name and a.shape[1] == 16 and k == 16  # gfx11
        for start in range(0, self.threads, wave):
            left, right = (v[start : start + wave] for v in (a, b))
            if copies:
                assert (left[:16] == left[16:]).all() and (right[:16] == right[16:]).all()
                left, right = left[:16], right[:16]
            rows = left.reshape(-1, size, left.shape[1])
            columns = right.reshape(-1, size, right.shape[1])
            assert rows.shape[0] * rows.shape[2] == k and rows.shape[0] in (1, halves)
            product = np.einsum("gie,gje->ij", rows, columns)
            lane, r = np.meshgrid(np.arange(wave), np.arange(total.shape[1]), indexing="ij")
            row, column = self.place(name, size, copies, lane, r)
            out[start : start + wave] = total[start : start + wave] + product[row, column]
        return Parts(type, out)

    @staticmethod
    def in_blocks(a: Any, b: Any, total: Any) -> Any:
        """Groups of four lanes that have a product each; a lane has a column of it."""
        left, right = (v.reshape(-1, 4, v.shape[1]) for v in (a, b))
        return total + np.einsum("gik,gjk->gji", left, right).reshape(total.shape)

    @staticmethod
    def place(name: str, size: int, copies: bool, lane: Any, r: Any) -> tuple[Any, Any]:
        """The rows and columns of elements of the result."""
        column, group = lane % size, lane // size
        if ".wmma." in name:
            return (2 * r + group if copies else 8 * group + r), column
        if ".f64." in name:
            return 4 * r + group, column
        step = 64 // size * 4
        return step * (r // 4) + 4 * group + r % 4, column

    def unsupported(self, op: Any, why: str) -> NotImplementedError:
        return NotImplementedError(why)


def held(array: np.ndarray, type: Any, llvm: str) -> Any:
    """A tile as threads hold it."""
    layout = layout_of(type)
    registers, wave, waves = (layout.in_size(n) for n in ("register", "lane", "warp"))
    threads, parts = np.arange(wave * waves), list[Parts]()
    for register in range(registers):
        places = layout.apply(
            {"register": threads * 0 + register, "lane": threads % wave, "warp": threads // wave}
        )
        numbers = array[tuple(places[f"dim{axis}"] for axis in range(array.ndim))]
        parts.append(Parts(llvm, numbers.astype(float)[:, None]))
    return SimpleNamespace(type=type, parts=tuple(parts))


LLVM = {"f16": "half", "bf16": "bfloat", "f32": "float", "f64": "double", "i8": "i8", "i32": "i32"}
CASES = [
    (arch, kind, shape, 0, 1)
    for arch in ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1200", "gfx1250")
    for kind, shape in (
        ("f16", (64, 32, 64)), ("f16", (16, 32, 32)), ("bf16", (32, 128, 32)),
        ("i8", (64, 64, 64)), ("f32", (64, 64, 16)), ("f64", (32, 32, 16)),
        ("f8E4M3FN", (32, 32, 64)), ("f8E5M2FNUZ", (64, 64, 64)),
    )
] + [
    ("gfx942", "f16", (4, 128, 32), 0, 1), ("gfx950", "f16", (64, 8, 16), 0, 1),
    ("gfx90a", "bf16", (4, 64, 32), 4, 2), ("gfx942", "i8", (64, 64, 64), 4, 1),
    ("gfx942", "f32", (128, 4, 16), 0, 2), ("gfx942", "f16", (64, 64, 64), 16, 2),
    ("gfx942", "f16", (64, 64, 64), 32, 2), ("gfx950", "i8", (64, 64, 128), 16, 1),
    ("gfx942", "f16", (8, 4, 32), 16, 1), ("gfx942", "f16", (16, 64, 32), 32, 1),
    ("gfx950", "f8E4M3FN", (32, 32, 256), 0, 1), ("gfx950", "f8E5M2", (64, 64, 32), 0, 1),
    ("gfx950", "f16", (64, 64, 16), 16, 1), ("gfx950", "i8", (32, 32, 32), 0, 2),
    ("gfx1100", "f16", (16, 4, 32), 16, 2), ("gfx1200", "f16", (32, 32, 64), 16, 2),
]  # fmt: skip
"""Processor, elements, extents, `matrix_instr_nonkdim`, `kpack`."""


@pytest.mark.every(4)
@pytest.mark.parametrize(("arch", "kind", "shape", "rows", "pack"), CASES)
def test_products(arch: str, kind: str, shape: tuple[int, int, int], rows: int, pack: int) -> None:
    unit, (m, n, _) = matrix_cores(arch).tuned(rows, pack), shape
    kinds = {str(t): t for t in (ir.f16, ir.bf16, ir.f32, ir.f64, ir.i8, *unit.float8)}
    if kind not in kinds:
        return  # `dot-precision` makes it float16
    element = kinds[kind]
    out = {"i8": ir.i32, "f64": ir.f64}.get(kind, ir.f32)
    op = untiled(shape, element, out)
    if not unit.takes(op, 4, (m, n)):
        assert (unit.family, kind) in {("wmma", "f32"), ("wmma", "f64")}
        return
    check(arch, unit, op, unit.encoding(op, 4, (), False))


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("size", [16, 32])
def test_either_order_of_operands(size: int, transposed: bool) -> None:
    op, unit = untiled((64, 32, 32), ir.f16, ir.f32), matrix_cores("gfx942")
    encoding = AMDMfmaEncoding.make(
        version=3, instrShape=(size, size, 8), isTransposed=transposed, warpsPerCTA=(2, 2)
    )
    check("gfx942", unit, op, encoding)


@pytest.mark.covering(1)
@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1200", "gfx1250"])
@pytest.mark.parametrize("shape", [(4, 32, 32), (8, 16, 64), (2, 64, 16), (1, 32, 32), (2, 8, 16)])
def test_batches(arch: str, shape: tuple[int, int, int]) -> None:
    """More products than waves, as many, and fewer; tiles below an instruction's."""
    (count, m, n), unit = shape, matrix_cores(arch)
    op = untiled((m, n, 32), ir.f16, ir.f32, (count,))
    if m < 16:
        unit = unit.tuned(16, 1)
    assert unit.takes(op, 4, (count, m, n))
    encoding = unit.encoding(op, 4, (), False)
    assert encoding.get("warpsPerCTA")[0] == min(count, 4)
    check(arch, unit, op, encoding)


def untiled(
    shape: tuple[int, int, int], element: ir.Type, out: ir.Type, batch: tuple[int, ...] = ()
) -> Any:
    """A product without layouts."""
    m, n, k = shape
    left, right, result = (
        SimpleNamespace(type=ir.tensor_of((*batch, *s), kind))
        for s, kind in (((m, k), element), ((k, n), element), ((m, n), out))
    )
    return SimpleNamespace(
        a=left, b=right, results=[result], k=k, location="here", has_scales=False,
        inputPrecision=InputPrecision.IEEE, attributes={},
    )  # fmt: skip


def check(arch: str, unit: Any, op: Any, encoding: Any) -> None:
    """Execute a product whose result has the encoding."""
    (*batch, m, n), k = ir.shape_of(op.results[0].type), op.k
    element, out = ir.element_type(op.a.type), ir.element_type(op.results[0].type)
    kind = str(element)
    width, rng = unit.neighbours(op, encoding), np.random.default_rng(m + n + k)
    a, b, c = (rng.integers(-4, 5, s).astype(float)
               for s in ((*batch, m, k), (*batch, k, n), (*batch, m, n)))  # fmt: skip
    operands = [DotOperandEncoding.make(opIdx=i, parent=encoding, kWidth=width) for i in (0, 1)]
    op.a = held(a, ir.tensor_of(a.shape, element, operands[0]), LLVM.get(kind, "i8"))
    op.b = held(b, ir.tensor_of(b.shape, element, operands[1]), LLVM.get(kind, "i8"))
    type = ir.tensor_of(c.shape, out, encoding)
    op.c, op.results = held(c, type, LLVM[str(out)]), [SimpleNamespace(type=type)]
    model: Any = Model(4 * TARGETS[arch])
    MatrixProducts(unit, pingpong=False).multiply(model, op)
    expected = held(a @ b + c, type, "").parts
    assert model.calls
    for found, wanted in zip(op.results[0].parts, expected, strict=True):
        np.testing.assert_array_equal(found.numbers, wanted.numbers)


@tritium.jit
def product(a, b, out, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, P: tl.constexpr):
    i, j, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    x = tl.load(a + i[:, None] * K + k[None, :])
    y = tl.load(b + k[:, None] * N + j[None, :])
    tl.store(out + i[:, None] * N + j[None, :], tl.dot(x, y, input_precision=P))


WANTED = {
    "gfx90a": {"fp16": "f32_32x32x8f16", "bf16": "f32_32x32x8bf16_1k", "i8": "i32_32x32x8i8",
               "fp64": "f64_16x16x4f64", "fp32": "f32_32x32x2f32", "fp8e4nv": "f32_32x32x8f16"},
    "gfx942": {"fp16": "f32_32x32x8_f16", "i8": "i32_32x32x16_i8", "fp64": "f64_16x16x4_f64",
               "fp8e4b8": "f32_32x32x16_fp8_fp8", "fp8e5b16": "f32_32x32x16_bf8_bf8"},
    "gfx950": {"bf16": "f32_32x32x16_bf16", "i8": "i32_32x32x32_i8",
               "fp8e4nv": "f32_32x32x64_f8f6f4", "fp8e5": "f32_32x32x64_f8f6f4"},
    "gfx1100": {"fp16": "f32_16x16x16_f16", "i8": "i32_16x16x16_iu8"},
    "gfx1200": {"bf16": "f32_16x16x16_bf16", "fp8e5": "f32_16x16x16_bf8_bf8"},
    "gfx1250": {"fp16": "f32_16x16x32_f16", "i8": "i32_16x16x64_iu8", "fp32": "f32_16x16x4_f32"},
}  # fmt: skip
"""The instructions that Triton 3.6 and 3.9 choose too."""


@pytest.mark.every(2)
@pytest.mark.parametrize("arch", WANTED)
def test_instructions(arch: str) -> None:
    sizes = {"M": 64, "N": 64, "K": 64, "P": "ieee"}
    for kind, instruction in WANTED[arch].items():
        out = {"i8": "i32", "fp64": "fp64"}.get(kind, "fp32")
        kernel = compiled(product, f"*{kind} *{kind} *{out}", arch, constants=sizes)
        found = set(re.findall(r"v_((?:mfma|wmma)\w+)", kernel.asm["amdgcn"]))
        family = "mfma" if TARGETS[arch] == 64 else "wmma"
        assert found == {f"{family}_{instruction}"}, kind
        assert kernel.metadata.n_spills == kernel.metadata.scratch_bytes == 0


@pytest.mark.parametrize(("arch", "name"), [
    ("gfx1100", "matmul fp8 128x256x128"), ("gfx1150", "matmul fp8 128x256x128"),
    *(pytest.param(arch, f"matmul {name}", marks=pytest.mark.slow) for arch, names in (
        ("gfx1100", ("128x256x64", "64x256x32", "fp8 128x128x128")),
        ("gfx1150", ("128x256x64", "64x256x32")),
        ("gfx1200", ("128x256x64", "64x256x32")),
    ) for name in names),
])  # fmt: skip
def test_large_products_use_no_scratch(arch: str, name: str) -> None:
    facts = benchmark(name, arch=arch).metadata
    assert (facts.scratch_bytes, facts.n_spills) == (0, 0)


@pytest.mark.parametrize(("arch", "name"), [
    ("gfx1200", "128"),  # which LLVM does not give as many registers as there are at once
    *(pytest.param(arch, name, marks=pytest.mark.slow)
      for arch in ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1150", "gfx1200", "gfx1250")
      for name in ("64", "128", "64 causal", "128 causal")),
])  # fmt: skip
def test_attention_uses_no_scratch(arch: str, name: str) -> None:
    facts = benchmark(f"attention {name}", arch=arch).metadata
    assert (facts.scratch_bytes, facts.n_spills) == (0, 0)


@tritium.jit
def placed(a, b, out, n, stride, M: tl.constexpr):
    i, j = tl.arange(0, M), tl.arange(0, M)
    places = i.to(tl.int64)[:, None] * stride + j[None, :]
    first = tl.load(a + places, mask=i[:, None] < n)
    total = tl.zeros((M, M), tl.float32)
    for k in range(0, n, M):
        total = tl.dot(first, tl.load(b + k * M + i[:, None] * M + j[None, :]), total)
    tl.store(out + places, total.to(tl.float16), mask=i[:, None] < n)


def test_places_are_computed_again_behind_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_ALWAYS_COMPILE", "1")

    def made() -> Any:
        return compiled(placed, "*fp16 *fp16 *fp16 i32 i64", "gfx1200", constants={"M": 64})

    found = made()
    a, b = np.random.default_rng(3).integers(-4, 4, (2, 64, 64)).astype(np.float16)
    out = np.full((64, 64), 7, np.float16)
    execute(found, (1,), (a, b, out, 60, 64))
    a[60:] = 0
    wanted = a.astype(np.float32) @ b.astype(np.float32)
    wanted[60:] = 7
    np.testing.assert_array_equal(out, wanted.astype(np.float16))
    monkeypatch.setattr(AMDGPU, "computes_again", False)
    assert found.metadata.n_regs < made().metadata.n_regs


@pytest.mark.parametrize(("depth", "wanted"), [(64, "16x16x64"), (128, "16x16x128")])
def test_products_of_8_bit_floats_along_all_of_k(depth: int, wanted: str) -> None:
    kernel = compiled(product, "*fp8e4nv *fp8e4nv *fp32", "gfx1250",
                      constants={"M": 32, "N": 32, "K": depth, "P": "ieee"})  # fmt: skip
    text = kernel.asm["amdgcn"]
    assert set(re.findall(r"v_wmma_f32_(\w+)", text)) == {f"{wanted}_fp8_fp8"}
    codes = np.random.default_rng(depth).integers(0, 120, (2, 32 * depth)).astype(np.uint8)
    a, b = codes.view(ml_dtypes.float8_e4m3fn).astype(np.float64)
    out = np.empty((32, 32), np.float32)
    execute(kernel, (1,), (codes[0], codes[1], out))
    found = a.reshape(32, depth) @ b.reshape(depth, 32)
    np.testing.assert_allclose(out, found, rtol=1e-6)


@tritium.jit
def converted(a, b, out, n, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """Operands that the loop converts, before other threads read them."""
    i, j, k = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :], tl.arange(0, K)
    total = tl.zeros([M, N], tl.float32)
    for start in range(0, n, K):
        x = tl.load(a + i * n + start + k[None, :])
        y = tl.load(b + (start + k[:, None]) * N + j)
        total = tl.dot(x.to(tl.float16), y.to(tl.float16), total)
    tl.store(out + i * N + j, total)


def test_products_whose_operands_have_shared_memory_of_their_own() -> None:
    kernel = compiled(converted, "*i8 *i8 *fp32 i32", "gfx1100", num_warps=8,
                      constants={"M": 128, "N": 128, "K": 64})  # fmt: skip
    assert kernel.asm["ttgir"].count("ttg.local_alloc") == 2
    assert kernel.metadata.scratch_bytes == 0
    a, b = np.random.default_rng(0).integers(-9, 9, (2, 128, 128)).astype(np.int8)
    out = np.empty((128, 128), np.float32)
    execute(kernel, (1,), (a, b, out, 128))
    np.testing.assert_array_equal(out, a.astype(np.float32) @ b.astype(np.float32))


def test_operands_are_converted_behind_shared_memory_that_is_short() -> None:
    """Both operands as float16 would take 96 KiB of the 64 that there are."""
    kernel = compiled(converted, "*i8 *i8 *fp32 i32", "gfx90a", num_warps=8,
                      constants={"M": 128, "N": 256, "K": 128})  # fmt: skip
    assert re.search(r"local_load .*xi8, #shared.*tensor<128x256xi8", kernel.asm["ttgir"])
    assert kernel.metadata.scratch_bytes == 0 and kernel.metadata.n_regs < 200
    a, b = (np.random.default_rng(n).integers(-9, 9, (128, n)).astype(np.int8) for n in (128, 256))
    out = np.empty((128, 256), np.float32)
    execute(kernel, (1,), (a, b, out, 128))
    np.testing.assert_array_equal(out, a.astype(np.float32) @ b.astype(np.float32))


@pytest.mark.parametrize("depth", [128, pytest.param(256, marks=pytest.mark.slow)])
def test_slices_of_products_whose_operands_are_converted(depth: int) -> None:
    """The sums and the next tiles leave too few registers for more than one slice's operands."""
    kernel = compiled(converted, "*fp8e5 *fp8e5 *fp32 i32", "gfx1150", num_warps=8,
                      constants={"M": 128, "N": 256, "K": 128})  # fmt: skip
    assert kernel.asm["ttgir"].count("rocdl.sched.barrier none") == 8
    assert kernel.metadata.scratch_bytes == 0
    of_a, of_b = (np.random.default_rng(n).integers(-9, 9, (depth, n)) for n in (128, 256))
    a, b = (v.astype(ml_dtypes.float8_e5m2) for v in (of_a.T, of_b))
    out = np.empty((128, 256), np.float32)
    execute(kernel, (1,), (np.ascontiguousarray(a), b, out, depth))
    np.testing.assert_array_equal(out, a.astype(np.float32) @ b.astype(np.float32))


@tritium.jit
def products(a, b, out, B: tl.constexpr, M: tl.constexpr):
    z, i, j = tl.arange(0, B)[:, None, None] * M * M, tl.arange(0, M)[:, None], tl.arange(0, M)
    place = z + i[None] * M + j[None, None, :]
    tl.store(out + place, tl.dot(tl.load(a + place), tl.load(b + place)))


@pytest.mark.parametrize(("arch", "registers"), [
    ("gfx90a", 44), ("gfx942", 48), ("gfx950", 88), ("gfx1100", 100), ("gfx1200", 100),
])  # fmt: skip
def test_batches_use_the_matrix_unit(arch: str, registers: int) -> None:
    """Registers are bounded by about what the reference needs."""
    kernel = compiled(products, "*fp16 *fp16 *fp32", arch, constants={"B": 4, "M": 32})
    assert re.search("v_(mfma|wmma)_f32", kernel.asm["amdgcn"])
    assert kernel.metadata.n_regs <= registers and kernel.metadata.scratch_bytes == 0


def test_products_that_matrix_units_lack() -> None:
    sizes = {"M": 16, "N": 16, "K": 16, "P": "ieee"}
    for arch, kind in (("gfx1100", "fp64"), ("gfx1200", "fp32"), ("gfx942", "i8")):
        out = "i32" if kind == "i8" else kind
        text = compiled(product, f"*{kind} *{kind} *{out}", arch, constants=sizes).asm["amdgcn"]
        assert not re.search("v_(mfma|wmma)", text), (arch, kind)
    text = compiled(product, "*fp32 *fp32 *fp32", constants=sizes | {"K": 32, "P": "tf32"})
    assert "v_mfma_f32_16x16x8_xf32" in text.asm["amdgcn"]
    with pytest.raises(tritium.CompilationError, match="tf32"):
        compiled(product, "*fp32 *fp32 *fp32", "gfx90a", constants=sizes | {"P": "tf32"})


def test_the_instruction_that_options_ask_for() -> None:
    sizes = {"M": 64, "N": 64, "K": 64, "P": "ieee"}
    for rows, name in ((4, "4x4x4_16b_f16"), (16, "16x16x16_f16"), (32, "32x32x8_f16")):
        kernel = compiled(product, "*fp16 *fp16 *fp32", constants=sizes, matrix_instr_nonkdim=rows)
        assert set(re.findall(r"v_mfma_f32_(\w+)", kernel.asm["amdgcn"])) == {name}
    packed = compiled(product, "*fp16 *fp16 *fp32", constants=sizes, kpack=2)
    assert "kWidth = 8" in packed.asm["ttgir"]
    with pytest.warns(UserWarning, match="gfx950 uses 1"):
        packed = compiled(product, "*fp16 *fp16 *fp32", "gfx950", constants=sizes, kpack=2)
    assert "kWidth = 8" in packed.asm["ttgir"]


@pytest.mark.parametrize(("arch", "kind", "rows", "wanted"), [
    ("gfx942", "fp64", 32, "16x16x4"), ("gfx1100", "fp16", 32, "16x16x16"),
    ("gfx942", "fp8e4b8", 4, "32x32x16, 16x16x32"),
])  # fmt: skip
def test_instructions_that_there_are_not(arch: str, kind: str, rows: int, wanted: str) -> None:
    sizes, out = {"M": 64, "N": 64, "K": 64, "P": "ieee"}, "fp64" if kind == "fp64" else "fp32"
    with pytest.raises(NotImplementedError, match=f"is {rows}, .*instructions are {wanted}"):
        compiled(product, f"*{kind} *{kind} *{out}", arch, constants=sizes,
                 matrix_instr_nonkdim=rows)  # fmt: skip
