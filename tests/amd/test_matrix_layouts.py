"""Which lane and register has which element of a matrix, by AMD's own formulas: those of the
instructions' model (`execution.matrix`), with which lowering is tested, and of our layouts.

gfx9: the formulas that AMD's matrix instruction calculator prints ("Matrix element to register
mapping with no modifiers", github.com/ROCm/amd_matrix_instruction_calculator); gfx950's longer
products and scaled ones: "Matrix Core Programming on AMD CDNA3 and CDNA4 architecture" (ROCm
blogs), whose kernels load operands by these indices. gfx11: the calculator, for waves of 32.
gfx12 and gfx1250: the traits of WMMA in AMD's Composable Kernel (`WmmaTraitsBase`,
`LayoutFromDataType` in warp_gemm_attribute_wmma_impl_base_traits.hpp). Where these have runs of 8
along K on gfx1250, ours has halves, an order that both operands share.
Without a source of AMD's: scaled products of 16x16x128 on gfx950 are as those of 32x32x64.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tritium
from tests.amd.execution import matrix as model
from tests.amd.execution.parse import Instruction, Reader
from tests.amd.execution.run import execute
from tests.amd.kernels import TARGETS
from tritium.backends.amd.matrix import matrix_cores
from tritium.ir.layouts.amd import AMDMfmaEncoding, AMDWmmaEncoding
from tritium.ir.layouts.encodings import AMDRotatingSharedEncoding
from tritium.target import GPUTarget

DTYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64,
          "i8": np.int8, "xf32": np.float32}  # fmt: skip
FLOAT8 = {
    "gfx942": {"fp8": ml_dtypes.float8_e4m3fnuz, "bf8": ml_dtypes.float8_e5m2fnuz},
    "": {"fp8": ml_dtypes.float8_e4m3fn, "bf8": ml_dtypes.float8_e5m2},
}
ARCHS = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1200", "gfx1250")


def instructions(arch: str) -> Iterator[tuple[str, Any, Any, str, int, int]]:
    """Names without `llvm.amdgcn.`, elements of A and of B, operand type, rows, K of all products
    that are not scaled and are emitted for a processor."""
    unit = matrix_cores(arch)
    small = FLOAT8.get(arch, FLOAT8[""])
    for kind in (*DTYPES, "f8"):
        for one in unit._of_kind(kind):
            size, k, operand = one.rows, one.k, one.operand
            name = one.intrinsic.removeprefix(f"{unit.family}.")
            if name.startswith("scale."):
                continue  # see below
            if kind == "f8":
                for a in small:
                    for b in small:
                        yield (f"{unit.family}.{name.format(a, b)}", small[a], small[b], operand,
                               size, k)  # fmt: skip
            else:
                yield f"{unit.family}.{name}", DTYPES[kind], DTYPES[kind], operand, size, k


def operand_place(arch: str, size: int, k: int) -> tuple[Any, Any, Any]:
    """The lanes of A[i][k] (of B[k][j]) of 16 blocks if there are some, and the element of the
    lane; (lanes that have it, blocks, rows, K)."""
    block, i, along = np.meshgrid(np.arange(16 if size == 4 else 1), np.arange(size), np.arange(k),
                                  indexing="ij")  # fmt: skip
    if arch.startswith("gfx11"):
        return np.stack([i, i + 16]), along, block
    if size == 4:
        return (4 * block + i)[None], along, block
    of_lane = k * size // TARGETS[arch]  # 64 lanes: the calculator's M * K * blocks / 64
    return (size * (along // of_lane) + i)[None], along % of_lane, block


def result_place(arch: str, size: int, double: bool) -> tuple[Any, Any]:
    """The lane and register of D[i][j]; (blocks, rows, columns)."""
    block, i, j = np.meshgrid(np.arange(16 if size == 4 else 1), np.arange(size), np.arange(size),
                              indexing="ij")  # fmt: skip
    if arch.startswith("gfx11"):
        return (16 * i) % 32 + j, (16 * i) // 32
    if arch.startswith("gfx12"):
        return 16 * (i // 8) + j, i % 8
    if double:
        return 16 * (i % 4) + j, i // 4
    if size == 4:
        return 4 * block + j, i
    return (size * (i // 4)) % 64 + j, 4 * (i // (256 // size)) + i % 4


def as_type(elements: Any, type: Any) -> Any:
    """A lane's elements as the value of an LLVM type."""
    found = np.ascontiguousarray(elements).view(type.dtype)
    return found if type.kind == "vector" else found[:, 0]


def held(matrix: Any, place: Any, lanes: int, dtype: Any) -> Any:
    """(blocks, rows, K) as lanes hold it."""
    of, element, block = place
    found = np.zeros((lanes, int(element.max()) + 1), dtype)
    i = np.broadcast_to(np.arange(matrix.shape[1])[None, :, None], matrix.shape)
    k = np.broadcast_to(np.arange(matrix.shape[2]), matrix.shape)
    for copy in of:
        found[copy, element] = matrix[block, i, k]
    return found


def arguments(name: str, a: Any, b: Any, c: Any, types: list[Any]) -> tuple[list[Any], list[Any]]:
    """All operands of an instruction and their types."""
    no, flag, numbers = np.zeros(1, bool), Reader("i1").type(), Reader("i32").type()
    if name.startswith("mfma."):
        return [a, b, c, *[np.zeros(1, np.uint32)] * 3], [*types, *[numbers] * 3]
    if ".iu8." in name:
        yes = np.ones(1, bool)
        return [yes, a, yes, b, c, no], [flag, types[0], flag, types[1], types[2], flag]
    return [a, b, c], types


@pytest.mark.parametrize("arch", ARCHS)
def test_products_of_operands_that_lie_as_documented(arch: str) -> None:
    lanes, rng, seen = TARGETS[arch], np.random.default_rng(0), set[str]()
    wave: Any = SimpleNamespace(arch=arch, lanes=lanes, need_all=lambda mask, what: None)
    for name, left, right, operand, size, k in instructions(arch):
        double = ".f64." in name
        result = "double" if double else "i32" if ".i32." in name else "float"
        of, register = result_place(arch, size, double)
        blocks, count = (16 if size == 4 else 1), int(register.max()) + 1
        a, b = (rng.integers(-3, 4, (blocks, size, k)) for _ in range(2))
        c = rng.integers(-9, 9, (blocks, size, size))
        total = np.zeros((lanes, count), Reader(result).type().dtype)
        total[of, register] = c.astype(total.dtype)
        place = operand_place(arch, size, k)
        types = [Reader(operand).type()] * 2 + [Reader(f"<{count} x {result}>").type()]
        values = [as_type(held(v, place, lanes, d), types[0]) for v, d in ((a, left), (b, right))]
        values, types = arguments(name, *values, total, types)
        ins = Instruction("call", Reader(f"<{count} x {result}>").type(), name, types=types,
                          what=f"llvm.amdgcn.{name}")  # fmt: skip
        found = model.multiply(wave, ins, None, *values)[of, register]
        wanted = a @ b.transpose(0, 2, 1) + c
        np.testing.assert_array_equal(found.astype(np.int64).astype(np.int32), wanted, name)
        seen.add(name)
    assert len(seen) >= {"gfx90a": 13, "gfx942": 20, "gfx950": 18}.get(arch, 3)


SCALED = {0: ml_dtypes.float8_e4m3fn, 1: ml_dtypes.float8_e5m2, 4: None}
E2M1 = (0, 0.5, 1, 1.5, 2, 3, 4, 6)


def scaled_operand(format: int, size: int, k: int, rng: Any) -> tuple[Any, Any]:
    """Random numbers (rows, K), and the 32 bytes of each of 64 lanes that hold them: 8-bit ones as
    two runs of 16, of both halves of K; 4-bit ones as one run of 32."""
    codes = rng.integers(0, 8, (size, k))
    numbers = np.take(E2M1, codes) if format == 4 else codes.astype(float)
    lane, step = np.meshgrid(np.arange(64), np.arange(32), indexing="ij")
    row, part = lane % size, lane // size
    held = np.zeros((64, 32), np.uint8)
    if format == 4:
        of_lane = codes[row, 32 * part + step]
        held[:, :16] = of_lane[:, ::2] | of_lane[:, 1::2] << 4
    else:
        places = 16 * part + step % 16 + k // 2 * (step // 16)
        held[:] = numbers.astype(SCALED[format])[row, places].view(np.uint8)
    return numbers, held.view(np.uint32)


@pytest.mark.parametrize(("size", "k"), [(32, 64), (16, 128)])
@pytest.mark.parametrize("formats", [(0, 0), (1, 4), (4, 4), (4, 0)])
def test_scaled_products(size: int, k: int, formats: tuple[int, int]) -> None:
    """A lane has the scale of 32 numbers of its row, Ax[lane % size][lane / size]."""
    rng, name = np.random.default_rng(k), f"mfma.scale.f32.{size}x{size}x{k}.f8f6f4"
    (a, left), (b, right) = (scaled_operand(f, size, k, rng) for f in formats)
    exponents = rng.integers(124, 131, (2, size, k // 32))
    lane = np.arange(64)
    words = [(e[lane % size, lane // size] << 8 | 1).astype(np.uint32) for e in exponents]
    wave: Any = SimpleNamespace(arch="gfx950", lanes=64, need_all=lambda mask, what: None)
    of, register = result_place("gfx950", size, False)
    count = int(register.max()) + 1
    types = [Reader("<8 x i32>").type()] * 2 + [Reader(f"<{count} x float>").type()]
    numbers = [np.array([n], np.uint32) for n in (*formats, 1, 1)]
    ins = Instruction("call", types[2], name, types=types, args=[None] * 9,
                      what=f"llvm.amdgcn.{name}")  # fmt: skip
    found = model.multiply_scaled(
        wave, ins, None, left, right, np.zeros((64, count), np.float32), *numbers[:2],
        numbers[2], words[0], numbers[3], words[1],
    )  # fmt: skip
    factors = [np.repeat(2.0 ** (e - 127), 32, axis=1) for e in exponents]
    wanted = (a * factors[0]) @ (b * factors[1]).T
    np.testing.assert_allclose(found[of, register][0], wanted, rtol=1e-6)


@pytest.mark.parametrize("arch", ARCHS)
def test_layouts_of_results_and_operands(arch: str) -> None:
    """Not transposed a result lies as the instruction's; transposed, rows are its columns."""
    unit, shapes = matrix_cores(arch), set[tuple[int, int, bool]]()
    for name, _, _, _, size, k in instructions(arch):
        if size != 4:  # whose 16 blocks share an operand here
            shapes.add((size, k, ".f64." in name))
    for size, k, double in shapes:
        of, register = (v[0] for v in result_place(arch, size, double))
        place_of, element, _ = operand_place(arch, size, k)
        for exchanged in (False, True):
            common: Any = {"version": unit.version, "warpsPerCTA": (1, 1),
                           "instrShape": (size, size, k)}  # fmt: skip
            encoding = (
                AMDMfmaEncoding.make(isTransposed=exchanged, elementBitWidth=64 if double else 32,
                                     **common) if unit.family == "mfma"
                else AMDWmmaEncoding.make(isTranspose=exchanged, **common)
            )  # fmt: skip
            names = ["dim0", "dim1"][:: -1 if exchanged else 1]
            places = encoding.instruction("dim0", "dim1").apply({"register": register, "lane": of})
            i, j = np.meshgrid(np.arange(size), np.arange(size), indexing="ij")
            for axis, wanted in zip(names, (i, j), strict=True):
                np.testing.assert_array_equal(places[axis], wanted)
            width = int(element.max()) + 1
            part = encoding.operand_part(True, "k", "outer", width)
            for copy in place_of:
                found = part.apply({"register": element[0], "lane": copy[0]})
                i, along = np.meshgrid(np.arange(size), np.arange(k), indexing="ij")
                np.testing.assert_array_equal(found["outer"], i)
                np.testing.assert_array_equal(found["k"], along)


@pytest.mark.parametrize(("vec", "per_phase", "max_phase"), [(1, 1, 4), (4, 1, 16), (4, 2, 8)])
def test_rows_of_rotating_memory(vec: int, per_phase: int, max_phase: int) -> None:
    """Groups of a row are XORed with its phase in its block, and with the block's number."""
    encoding: Any = AMDRotatingSharedEncoding.make(
        vec=vec, perPhase=per_phase, maxPhase=max_phase, order=(1, 0)
    )
    places = encoding.to_linear((64, 64)).apply({"offset": np.arange(64 * 64), "block": 0})
    row, column = np.divmod(np.arange(64 * 64), 64)
    phase = row // per_phase % max_phase ^ row // (per_phase * max_phase) % max_phase
    np.testing.assert_array_equal(places["dim0"], row)
    np.testing.assert_array_equal(places["dim1"], column ^ phase * vec % 64)


def test_transposing_through_rotating_memory() -> None:
    path = Path(__file__).parent / "execution" / "transposed.ttgir"
    kernel = tritium.compile(str(path), target=GPUTarget("hip", "gfx942", 64))
    assert kernel.metadata.shared == 2 * 64 * 64, "registers are exchanged in a thread"
    x, out = np.arange(64 * 64).astype(np.float16), np.empty(64 * 64, np.float16)
    execute(kernel, (1,), (x, out))
    np.testing.assert_array_equal(out.reshape(64, 64), x.reshape(64, 64).T)
