"""Products of operands with scales: the instructions, and the lowering, executed with a model of
them: where lanes have K, and which of it a scale is for."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from xdsl.utils.test_value import create_ssa_value

import tritium
import tritium.language as tl
from tests.amd.execution.run import execute
from tests.amd.kernels import TARGETS, compiled
from tests.amd.test_products import Model, Parts, held
from tests.gluon.amd.test_programs import compiled as of_gluon
from tritium.backends.amd.lower.matmul import MatrixProducts
from tritium.backends.amd.matrix import matrix_cores
from tritium.experimental import gluon
from tritium.experimental.gluon import language as gl
from tritium.ir import types as ir
from tritium.ir.layouts.encodings import DotOperandEncoding
from tritium.ops.ttir.dot import DotScaledOp, ScaleFormat, scale_factors, unpack_fp4

CODES = {0: ir.f8e4m3fn, 1: ir.f8e5m2}


class ScaledModel(Model):
    """Numbers are bytes here: of operands, and four of a word of scales."""

    tiles: dict[Any, Any]

    def tile(self, value: Any) -> Any:
        return self.tiles[value]

    def set(self, result: Any, values: Any) -> None:
        self.tiles[result] = values

    def pack(self, parts: Any, word: str) -> Any:
        return [Parts(word, np.concatenate([p.numbers for p in parts], 1))]

    def call(self, type: str, name: str, *arguments: Any) -> Any:
        self.calls.append(name)
        size, k = int(name.split("x")[1]), int(name.split("x")[2].split(".")[0])
        if ".mfma." in name:
            a, b, total, *numbers = arguments
            formats, scales = numbers[:2], [(numbers[2], numbers[3]), (numbers[4], numbers[5])]
        else:
            first, a, second, b, _, total = arguments[:6]
            formats, scales = (first, second), [(arguments[n], arguments[n + 2]) for n in (6, 9)]
        wave, sides = (64 if ".mfma." in name else 32), list[Any]()
        for operand, format, (byte, words) in zip((a, b), formats, scales, strict=True):
            lanes = operand.numbers.reshape(-1, wave // size, size, operand.numbers.shape[1])
            numbers = np.moveaxis(self.along_k(lanes, format), 1, 2).astype(np.float64)
            of_lanes = words.numbers.reshape(-1, wave // size, size, words.numbers.shape[1])
            factors = of_lanes[:, byte] if wave == 32 else np.moveaxis(of_lanes[..., byte], 1, 2)
            codes = factors.astype(np.uint8).view(np.int8)
            repeated = np.repeat(scale_factors(codes), k // codes.shape[-1], -1)
            sides.append(numbers.reshape(-1, size, k) * repeated)
        product = np.einsum("wik,wjk->wij", *sides)
        lane, r = np.meshgrid(np.arange(wave), np.arange(total.numbers.shape[1]), indexing="ij")
        row, column = self.place(name.replace("x128.", "x64."), size, False, lane, r)
        return Parts(type, total.numbers + product[:, row, column].reshape(total.numbers.shape))

    @staticmethod
    def along_k(lanes: Any, format: int) -> Any:
        """(waves, parts, rows, numbers) such that parts follow each other along K: of 8-bit
        numbers a lane has 16 neighbours, then the same behind those of the other lanes; of 4-bit
        ones 32."""
        waves, parts, size, count = lanes.shape
        chunks = lanes.reshape(waves, parts, size, count // 16, 16).astype(np.uint8)
        chunks = np.transpose(chunks, (0, 3, 1, 2, 4)).reshape(waves, -1, size, 16)
        if format == 4:
            return unpack_fp4(chunks, -1)
        return chunks.view(ir.numpy_dtype(CODES[format]))


def product(kinds: Any, out: Any, formats: Any) -> Any:
    a, b, left, right, c = (create_ssa_value(t) for t in (*kinds, out))
    formats = {"a_elem_type": formats[0], "b_elem_type": formats[1]}
    return DotScaledOp.build(a, b, c, left, right, fastMath=False, **formats)


@pytest.mark.parametrize(("arch", "left", "right", "shape", "rows", "run"), [
    ("gfx950", "E4M3", "E4M3", (64, 32, 256), 16, 32),
    ("gfx950", "E2M1", "E5M2", (64, 64, 128), 0, 32),
    ("gfx950", "E2M1", "E2M1", (32, 128, 256), 32, 32),
    ("gfx950", "E5M2", "E2M1", (16, 64, 256), 0, 32),
    ("gfx1250", "E2M1", "E4M3", (32, 32, 256), 0, 32),
    ("gfx1250", "E4M3", "E4M3", (32, 16, 256), 16, 32),
    ("gfx1250", "E4M3", "E2M1", (128, 64, 256), 0, 16),
    ("gfx950", "E2M1", "E4M3", (2, 64, 32, 128), 0, 32),
    ("gfx1250", "E5M2", "E2M1", (8, 16, 32, 256), 0, 32),
])  # fmt: skip
def test_scaled_products(
    arch: str, left: str, right: str, shape: tuple[int, ...], rows: int, run: int
) -> None:
    unit, (*batch, m, n, k) = matrix_cores(arch).tuned(rows, 1), shape
    rng, formats = np.random.default_rng(k), [ScaleFormat[left], ScaleFormat[right]]
    arrays = [rng.integers(0, 120, (*batch, m, k)), rng.integers(0, 120, (*batch, k, n))]  # no NaN
    for index, format in enumerate(formats):
        if format is ScaleFormat.E2M1:
            half = arrays[index][..., : k // 2] if index == 0 else arrays[index][..., : k // 2, :]
            arrays[index] = half
    factors = [rng.integers(124, 130, (*batch, size, k // run)) for size in (m, n)]
    kinds = [ir.tensor_of(x.shape, ir.i8) for x in (*arrays, *factors)]
    out = ir.tensor_of((*batch, m, n), ir.f32)
    op = product(kinds, out, formats)
    assert unit.takes(op, 4, (*batch, m, n))
    encoding = unit.encoding(op, 4, (), False)
    for index in (0, 1):
        width = unit.neighbours(op, encoding)
        layout = DotOperandEncoding.make(opIdx=index, parent=encoding, kWidth=width)
        kinds[index] = ir.tensor_of(arrays[index].shape, ir.i8, layout)
        scale = unit.scales(op, encoding, index)
        kinds[2 + index] = ir.tensor_of(factors[index].shape, ir.i8, scale)
    out = ir.tensor_of((*batch, m, n), ir.f32, encoding)
    op, c = product(kinds, out, formats), rng.integers(-4, 5, (*batch, m, n)).astype(float)
    tiles = [held(x, t, "i8") for x, t in zip((*arrays, *factors), kinds, strict=True)]
    tiles.insert(2, held(c, out, "float"))
    model: Any = ScaledModel(4 * TARGETS[arch])
    model.tiles = {v: tile.parts for v, tile in zip(op.operands, tiles, strict=True)}
    MatrixProducts(unit, pingpong=False).multiply(model, op)
    bytes_ = [x.astype(np.uint8).view(np.int8) for x in (*arrays, *factors)]
    wanted = DotScaledOp.evaluate(op, None, bytes_[0], bytes_[1], c, *bytes_[2:])  # type: ignore[arg-type]
    expected = held(wanted, out, "").parts
    assert model.calls
    for found, part in zip(model.tiles[op.results[0]], expected, strict=True):
        np.testing.assert_allclose(found.numbers, part.numbers, rtol=1e-12)


@tritium.jit
def scaled(a, sa, b, sb, out, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, F: tl.constexpr,
           P: tl.constexpr):  # fmt: skip
    i, j, s, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K // 32), tl.arange(0, K)
    x = tl.load(a + i[:, None] * (K // 2) + tl.arange(0, K // 2)[None, :])
    y = tl.load(b + k[:, None] + j[None, :] * K)
    ax = tl.load(sa + i[:, None] * (K // 32) + s[None, :])
    bx = tl.load(sb + j[:, None] * (K // 32) + s[None, :])
    tl.store(out + i[:, None] * N + j[None, :], tl.dot_scaled(x, ax, P, y, bx, F))


@pytest.mark.parametrize("arch", ["gfx950", "gfx1250"])
def test_values_of_scaled_products(arch: str) -> None:
    """With a model of the instructions that follows AMD's sources."""
    rng, (m, n, k) = np.random.default_rng(4), (32, 32, 256)
    kernel = compiled(scaled, "*u8 *u8 *u8 *u8 *fp32", arch,
                      constants={"M": m, "N": n, "K": k, "F": "e4m3", "P": "e2m1"})  # fmt: skip
    assert "scale_f32_" in kernel.asm["amdgcn"]
    fours, right = rng.integers(0, 16, (m, k)), rng.integers(0, 120, (n, k)).astype(np.uint8)
    left = (fours[:, ::2] | fours[:, 1::2] << 4).astype(np.uint8)
    exponents = [rng.integers(124, 130, (size, k // 32)).astype(np.uint8) for size in (m, n)]
    out = np.empty((m, n), np.float32)
    execute(kernel, (1,), (left, exponents[0], right, exponents[1], out))
    values = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6])
    x, y = (
        numbers * np.repeat(2.0 ** (scale.astype(int) - 127), 32, axis=1)
        for numbers, scale in zip(
            (values[fours], right.view(ml_dtypes.float8_e4m3fn).astype(np.float64)), exponents,
            strict=True,
        )
    )  # fmt: skip
    np.testing.assert_allclose(out, x @ y.T, rtol=1e-5)


@gluon.jit
def of_four_bits(a, sa, b, sb, out, result: gl.constexpr, rows: gl.constexpr, count: gl.constexpr,
                 size: gl.constexpr):
    half: gl.constexpr = size // 2
    i = gl.arange(0, 64, gl.SliceLayout(1, rows))[:, None]
    j = gl.arange(0, half, gl.SliceLayout(0, rows))[None, :]
    left: gl.constexpr = gl.DotOperandLayout(0, result, 16)
    right: gl.constexpr = gl.DotOperandLayout(1, result, 16)
    k = gl.arange(0, half, gl.SliceLayout(1, rows))[:, None]
    n = gl.arange(0, 64, gl.SliceLayout(0, rows))[None, :]
    x = gl.convert_layout(gl.load(a + i * half + j), left)
    y = gl.convert_layout(gl.load(b + k + n * half), right)
    layouts: gl.constexpr = (
        gl.amd.gfx1250.get_wmma_scale_layout(left, [64, count], size // count),
        gl.amd.gfx1250.get_wmma_scale_layout(right, [64, count], size // count),
    )
    m = gl.arange(0, 64, gl.SliceLayout(1, layouts[0]))[:, None] * count
    ax = gl.load(sa + m + gl.arange(0, count, gl.SliceLayout(0, layouts[0]))[None, :])
    m = gl.arange(0, 64, gl.SliceLayout(1, layouts[1]))[:, None] * count
    bx = gl.load(sb + m + gl.arange(0, count, gl.SliceLayout(0, layouts[1]))[None, :])
    acc = gl.amd.gfx1250.wmma_scaled(x, ax, "e2m1", y, bx, "e2m1",
                                     gl.zeros([64, 64], gl.float32, result))
    gl.store(out + i * 64 + n, gl.convert_layout(acc, rows))


@pytest.mark.every(2)
@pytest.mark.parametrize(("exchanged", "rows", "count", "k"), [
    (True, 32, 8, 256), (False, 32, 16, 256), (False, 16, 2, 32), (True, 16, 2, 64),
])  # fmt: skip
def test_products_of_4_bit_numbers(exchanged: bool, rows: int, count: int, k: int) -> None:
    """With operands exchanged the right one has 32 columns. Zeros are behind a shorter K."""
    result = gl.amd.AMDWMMALayout(3, exchanged, [[0, 1], [1, 0]], [], [rows, 16, 128])
    constants = {"result": result, "rows": gl.BlockedLayout([1, 16], [4, 8], [4, 1], [1, 0]),
                 "count": count, "size": k}  # fmt: skip
    types = "*u8 *u8 *u8 *u8 *fp32"
    kernel = of_gluon(of_four_bits, types, constants, "gfx1250")
    kinds = "f4" if rows == 32 else "f8f6f4"
    name = f"v_wmma_scale{'16' * (k == 16 * count)}_f32_{rows}x16x128_{kinds}"
    assert set(re.findall(r"v_wmma\w+", kernel.asm["amdgcn"])) == {name}
    rng, values = np.random.default_rng(6), np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    codes = rng.integers(0, 16, (2, 64, k)).astype(np.uint8)
    scales = rng.integers(124, 130, (2, 64, count)).astype(np.uint8)
    packed, out = codes[..., ::2] | codes[..., 1::2] << 4, np.zeros((64, 64), np.float32)
    execute(kernel, (1,), (packed[0], scales[0], packed[1], scales[1], out))
    numbers = np.concatenate([values, -values])[codes]
    x, y = numbers * np.repeat(2.0 ** (scales.astype(int) - 127), k // count, -1)
    np.testing.assert_allclose(out, x @ y.T, rtol=1e-5)


WANTED = [
    ("gfx950", "u8", "e4m3", 128, 0, "mfma_scale_f32_32x32x64_f8f6f4"),
    ("gfx950", "u8", "e5m2", 128, 16, "mfma_scale_f32_16x16x128_f8f6f4"),
    ("gfx950", "bf16", "bf16", 128, 0, "mfma_f32_32x32x16_bf16"),
    ("gfx942", "u8", "e4m3", 128, 0, "mfma_f32_32x32x8_bf16"),
    ("gfx1250", "u8", "e4m3", 128, 0, "wmma_scale_f32_16x16x128_f8f6f4"),
    ("gfx1250", "u8", "e4m3", 64, 0, "wmma_f32_16x16x32_bf16"),
]


@pytest.mark.every(2)
@pytest.mark.parametrize(("arch", "kind", "format", "k", "rows", "instruction"), WANTED)
def test_instructions(arch: str, kind: str, format: str, k: int, rows: int, instruction: str
                      ) -> None:  # fmt: skip
    """The ones that Triton 3.6 chooses too (where K is short, gfx1250 has none)."""
    constants = {"M": 64, "N": 64, "K": k, "F": format, "P": "e2m1"}
    kernel = compiled(scaled, f"*u8 *u8 *{kind} *u8 *fp32", arch, constants=constants,
                      matrix_instr_nonkdim=rows)  # fmt: skip
    found = set(re.findall(r"v_((?:mfma|wmma)\w+)", kernel.asm["amdgcn"]))
    assert found == {instruction}
    assert kernel.metadata.n_spills == kernel.metadata.scratch_bytes == 0


@tritium.jit
def scaled_by_bfloat(a, sa, b, out, M: tl.constexpr, K: tl.constexpr):
    i, k, n = tl.arange(0, M)[:, None], tl.arange(0, K), tl.arange(0, M)[None, :]
    x = tl.load(a + i * (K // 2) + tl.arange(0, K // 2)[None, :])
    scale = tl.load(sa + i * (K // 32) + tl.arange(0, K // 32)[None, :])
    y = tl.load(b + k[:, None] * M + n)
    tl.store(out + i * M + n, tl.dot_scaled(x, scale, "e2m1", y, None, "bf16"))


@pytest.mark.parametrize(("arch", "most"), [("gfx942", 480), ("gfx950", 480), ("gfx1200", 820)])
def test_scaled_numbers_are_computed_in_float(arch: str, most: int) -> None:
    """Products of bfloat16 would each be rounded, by several instructions."""
    kernel = compiled(scaled_by_bfloat, "*u8 *u8 *bf16 *fp32", arch, constants={"M": 64, "K": 128})
    code = kernel.asm["amdgcn"].partition(".rodata")[0]
    assert "fmul bfloat" not in kernel.asm["llir"] and "fptrunc" not in kernel.asm["llir"]
    assert len(re.findall(r"^\t[vsdbg]\w*_", code, re.M)) <= most
