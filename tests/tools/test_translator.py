"""Kernels translated to Gluon agree with the kernels, and compile."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tests.gluon.amd.test_programs import compiled as compiled_for_amd
from tests.gluon.support import compiled, launcher
from tritium.errors import CompilationError, InterpreterError
from tritium.experimental.gluon import language as gl
from tritium.experimental.gluon.amd.cdna5 import TensorDescriptor as AMDTensorDescriptor
from tritium.experimental.gluon.nvidia.hopper import TensorDescriptor
from tritium.tools.tensor_descriptor import TensorDescriptor as TritonDescriptor
from tritium.tools.triton_to_gluon_translator import (
    TranslatorTarget,
    convert_triton_to_gluon,
    translate_paths,
)
from tritium.tools.triton_to_gluon_translator.engines import convert_host_descriptor

SCALE = tl.constexpr(2.0)


@tritium.jit
def scaled(x, factor: tl.constexpr = SCALE):
    return tl.where(x > 0, x * factor, tl.exp(x))


@tritium.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    x = tl.load(x_ptr + at, mask=mask, other=0.0)
    y = tl.load(y_ptr + at, mask=mask)
    tl.store(out_ptr + at, scaled(x + y), mask=mask)


@tritium.jit
def softmax_kernel(x_ptr, out_ptr, sums_ptr, n, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, BLOCK)
    at = rows[:, None] * n + columns[None, :]
    x = tl.load(x_ptr + at, mask=columns[None, :] < n, other=float("-inf"))
    x = tl.exp(x - tl.max(x, axis=1)[:, None])
    total = x.sum(1)
    tl.store(sums_ptr + rows, total)
    tl.store(out_ptr + at, x / tl.expand_dims(total, 1), mask=columns[None, :] < n)


@tritium.jit
def matmul_kernel(a_ptr, b_ptr, out_ptr, K, N: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
                  BK: tl.constexpr):
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    j = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        a = tl.load(a_ptr + i[:, None] * K + start + k[None, :])
        b = tl.load(b_ptr + j[:, None] * K + start + k[None, :])
        acc = tl.dot(a, b.T, acc)
    tl.store(out_ptr + i[:, None] * N + j[None, :], acc)


@tritium.jit
def shapes_kernel(x_ptr, out_ptr):
    x = tl.load(x_ptr + tl.arange(0, 256))
    square = tl.reshape(x, (16, 16))
    low, high = tl.split(tl.join(square, tl.trans(square)))
    best, where = tl.max(square, axis=0, return_indices=True)
    tl.store(out_ptr + tl.arange(0, 256), tl.ravel(low + 2 * high))
    tl.store(out_ptr + 256 + tl.arange(0, 16), best + where)


@tritium.jit
def described_kernel(x_ptr, out_ptr, m, n, COUNT: tl.constexpr):
    source = tl.make_tensor_descriptor(x_ptr, [m, n], [n, 1], [16, 16])
    out = tl.make_tensor_descriptor(out_ptr, [m, n], [n, 1], [16, 16])
    for k in range(COUNT):
        out.store([0, 16 * k], source.load([0, 16 * k]) + 1)


@tritium.jit
def given_kernel(source, out, COUNT: tl.constexpr):
    for k in range(COUNT):
        out.store([0, 16 * k], source.load([0, 16 * k]) + 1)


@tritium.jit
def rows_kernel(x_ptr, rows_ptr, out_ptr, m, n, COUNT: tl.constexpr):
    rows = tl.load(rows_ptr + tl.arange(0, COUNT))
    source = tl.make_tensor_descriptor(x_ptr, [m, n], [n, 1], [1, 16])
    out = tl.make_tensor_descriptor(out_ptr, [m, n], [n, 1], [1, 16])
    out.scatter(source.gather(rows, 8) + 1, rows, 4)


@tritium.jit
def given_rows_kernel(source, out, rows_ptr, COUNT: tl.constexpr):
    rows = tl.load(rows_ptr + tl.arange(0, COUNT))
    out.scatter(source.gather(rows, 8) + 1, rows, 4)


@tritium.jit
def combined_kernel(x_ptr, most_ptr, sums_ptr, m, n, at, COUNT: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :])
    sums = tl.make_tensor_descriptor(sums_ptr, [m, n], [n, 1], [16, 16])
    most = tl.make_tensor_descriptor(most_ptr, [m, n], [n, 1], [16, 16])
    for k in range(COUNT):
        sums.atomic_add([at, 8 * k], x)
        most.atomic_max([at, 8 * k], x + k)


@tritium.jit
def reduced_kernel(sums, x_ptr):
    x = tl.load(x_ptr + tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :])
    sums.atomic_add([4, 8], x)
    sums.atomic_add([4, 16], x)


@tritium.jit
def pointers_kernel(x_ptr, index_ptr, out_ptr, count_ptr, locks_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    index = tl.load(index_ptr + i)
    x = tl.load(x_ptr + i)
    tl.atomic_add(out_ptr + index, x, mask=index < 20, sem="relaxed")
    (out_ptr + 32 + index).atomic_max(x)
    tl.store(out_ptr + 64 + i, x.gather(index, 0) + tl.gather(x, index, axis=0))
    seen = tl.atomic_cas(locks_ptr + i, i % 2, 7)
    tl.atomic_xchg(locks_ptr + N + i, seen)
    tl.atomic_add(count_ptr, 1)
    square = tl.reshape(x, (2, N // 2))
    turned = tl.gather(square, tl.reshape(index % 2, (2, N // 2)), 0)
    tl.store(out_ptr + 96 + i, tl.reshape(turned, (N,)))


@tritium.jit
def blocks_kernel(x_ptr, out_ptr, m, n, COUNT: tl.constexpr):
    source = tl.make_block_ptr(x_ptr, (m, n), (n, 1), (0, 4), (16, 16), (1, 0))
    out = tl.make_block_ptr(out_ptr, (m, n), (n, 1), (0, 4), (16, 16), (1, 0))
    for _ in range(COUNT):
        block = tl.load(source, boundary_check=(0, 1), padding_option="zero")
        tl.store(out, block * 2, boundary_check=(0, 1))
        source = tl.advance(source, (0, 16))
        out = tl.advance(out, [0, 16])


@tritium.jit
def sorts_kernel(x_ptr, out_ptr, top_ptr, ROWS: tl.constexpr, N: tl.constexpr):
    rows, columns = tl.arange(0, ROWS)[:, None], tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + rows * N + columns)
    tl.store(out_ptr + rows * N + columns, tl.sort(x, descending=True))
    tl.store(top_ptr + rows * 4 + tl.arange(0, 4)[None, :], tl.topk(x, 4, descending=False))


@tritium.jit
def scaled_product_kernel(a_ptr, b_ptr, a_scale, b_scale, out_ptr, FORMAT: tl.constexpr,
                          K: tl.constexpr):
    i, k = tl.arange(0, 32)[:, None], tl.arange(0, K)[None, :]
    runs = i * 2 + tl.arange(0, 2)[None, :]
    a, b = tl.load(a_ptr + i * K + k), tl.load(b_ptr + k.T * 32 + i.T)
    product = tl.dot_scaled(a, tl.load(a_scale + runs), FORMAT, b, tl.load(b_scale + runs), FORMAT)
    tl.store(out_ptr + i * 32 + tl.arange(0, 32)[None, :], product)


@tritium.jit
def any(x, dim):
    """A function of the name of Python's."""
    return tl.max(x, dim)


@tritium.jit
def twice(x):
    return x * 2


@tritium.jit
def outer(x, y):
    return x + y


FUNCTIONS = tl.constexpr([scaled, twice])


@tritium.jit
def ranks_kernel(x_ptr, out_ptr, N: tl.constexpr):
    """Blocks of two ranks meet, as they may in Triton."""
    i = tl.arange(0, N)
    row = tl.load(x_ptr + i)
    square = tl.load(x_ptr + i[:, None] * N + i[None, :])
    square = tl.where((i == 1)[:, None], row, outer(row, square)) - row
    square += tl.broadcast_to(any(square, 1)[:, None], (N, N)) + tl.zeros((1,), tl.float32)
    for k in tl.static_range(2):
        square = FUNCTIONS[k](square)
    kind = tl.core.get_int_dtype(32, signed=True)
    out = tl.make_block_ptr(out_ptr, (N, N), (N, 1), (0, 0), (N, N), (1, 0))
    tl.store(out, square.to(kind).to(out.dtype.element_ty))


@tritium.jit
def counts_kernel(x_ptr, counts_ptr, out_ptr, N: tl.constexpr):
    """Blocks that nothing but their use gives a layout."""
    x = tl.load(x_ptr + tl.arange(0, N))
    tl.store(counts_ptr + tl.arange(0, 16), tl.histogram(x & 15, 16))
    both = tl.cat(tl.flip(x), tl.sort(x) - x, can_reorder=True)
    tl.atomic_add(out_ptr + (both & 63), both)


@tritium.jit
def batch_kernel(a_ptr, b_ptr, out_ptr, B: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, B)[:, None, None], tl.arange(0, N)
    at = i * N * N + j[None, :, None] * N + j[None, None, :]
    tl.store(out_ptr + at, tl.dot(tl.load(a_ptr + at), tl.load(b_ptr + at)))


def translated(kernel: Any, folder: Path) -> Any:
    """The Gluon kernel, from a file."""
    path = folder / f"gluon_{kernel.__name__}.py"
    path.write_text(convert_triton_to_gluon([kernel]))
    spec: Any = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return getattr(module, kernel.__name__)


def _floats(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


CASES: dict[str, tuple[Any, tuple[int, ...], list[Any], dict[str, Any], str]] = {
    "add": (add_kernel, (3,), [_floats(0, 300), _floats(1, 300), np.zeros(300, np.float32), 300],
            {"BLOCK": 128}, "*fp32 *fp32 *fp32 i32"),
    "softmax": (softmax_kernel, (2,),
                [_floats(2, 16, 50), np.zeros((16, 50), np.float32), np.zeros(16, np.float32), 50],
                {"ROWS": 8, "BLOCK": 64}, "*fp32 *fp32 *fp32 i32"),
    "matmul": (matmul_kernel, (2, 2),
               [_floats(3, 64, 64).astype(np.float16), _floats(4, 64, 64).astype(np.float16),
                np.zeros((64, 64), np.float32), 64],
               {"N": 64, "BM": 32, "BN": 32, "BK": 32}, "*fp16 *fp16 *fp32 i32"),
    "shapes": (shapes_kernel, (1,), [np.arange(256, dtype=np.int32) * 37 % 101,
                                     np.zeros(272, np.int32)], {}, "*i32 *i32"),
    "descriptors": (described_kernel, (1,), [_floats(5, 12, 40), np.zeros((12, 40), np.float32),
                                             12, 40], {"COUNT": 3}, "*fp32 *fp32 i32 i32"),
    "blocks": (blocks_kernel, (1,), [_floats(5, 12, 40), np.zeros((12, 40), np.float32), 12, 40],
               {"COUNT": 3}, "*fp32 *fp32 i32 i32"),
    "sorts": (sorts_kernel, (1,), [
        np.where(_floats(6, 8, 32) > 1, np.nan, _floats(6, 8, 32)).astype(np.float32),
        np.zeros((8, 32), np.float32), np.zeros((8, 4), np.float32)],
        {"ROWS": 8, "N": 32}, "*fp32 *fp32 *fp32"),
    "scaled": (scaled_product_kernel, (1,), [
        *(np.random.default_rng(i).integers(0, 120, (64, 32)).astype(np.uint8) for i in range(2)),
        *(np.random.default_rng(i).integers(120, 130, (32, 2)).astype(np.uint8) for i in range(2)),
        np.zeros((32, 32), np.float32)], {"FORMAT": "e5m2", "K": 64}, "*u8 *u8 *u8 *u8 *fp32"),
    "packed": (scaled_product_kernel, (1,), [
        *(np.random.default_rng(i).integers(0, 256, (32, 32)).astype(np.uint8) for i in range(2)),
        *(np.random.default_rng(i).integers(120, 130, (32, 2)).astype(np.uint8) for i in range(2)),
        np.zeros((32, 32), np.float32)], {"FORMAT": "e2m1", "K": 32}, "*u8 *u8 *u8 *u8 *fp32"),
    "rows": (rows_kernel, (1,), [
        _floats(7, 12, 40), np.array([3, 0, 11, 7, 20, 5, -1, 2], np.int32),
        np.zeros((12, 40), np.float32), 12, 40], {"COUNT": 8}, "*fp32 *i32 *fp32 i32 i32"),
    "combined": (combined_kernel, (2,), [
        np.random.default_rng(8).integers(-50, 50, (16, 16)).astype(np.int32),
        *(np.zeros((12, 40), np.int32) for _ in range(2)), 12, 40, -2], {"COUNT": 4},
        "*i32 *i32 *i32 i32 i32 i32"),
    "pointers": (pointers_kernel, (1,), [
        np.random.default_rng(9).integers(-50, 50, 32).astype(np.int32),
        np.random.default_rng(9).integers(0, 32, 32).astype(np.int32), np.zeros(128, np.int32),
        np.zeros(1, np.int32), np.zeros(64, np.int32)], {"N": 32}, "*i32 *i32 *i32 *i32 *i32"),
    "batch": (batch_kernel, (1,), [_floats(11, 4, 32, 32).astype(np.float16),
                                   _floats(12, 4, 32, 32).astype(np.float16),
                                   np.zeros((4, 32, 32), np.float32)], {"B": 4, "N": 32},
              "*fp16 *fp16 *fp32"),
    "counts": (counts_kernel, (1,), [
        np.random.default_rng(12).integers(0, 99, 32).astype(np.int32), np.zeros(16, np.int32),
        np.zeros(64, np.int32)], {"N": 32}, "*i32 *i32 *i32"),
    "ranks": (ranks_kernel, (1,), [_floats(10, 16, 16), np.zeros((16, 16), np.float32)], {"N": 16},
              "*fp32 *fp32"),
}  # fmt: skip


@pytest.mark.cpu
@pytest.mark.every(6)
@pytest.mark.parametrize("how", ["interpreted", pytest.param("simt", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", CASES)
def test_translated_kernels_agree(name: str, how: str, tmp_path: Path) -> None:
    kernel, grid, arguments, constants, types = CASES[name]
    wanted, found = (
        [a.copy() if isinstance(a, np.ndarray) else a for a in arguments] for _ in range(2)
    )
    kernel[grid](*wanted, **constants)
    gluon_kernel = translated(kernel, tmp_path)
    launcher(how)(gluon_kernel, grid, *found, **constants)
    for a, b in zip(wanted, found, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-3, atol=1e-3)
    if how == "interpreted":
        asm = compiled(gluon_kernel, types, constants, 80).asm
        assert asm["cubin"].startswith(b"\x7fELF")
        assert ("mma.sync" in asm["ptx"]) == (name in ("matmul", "scaled", "packed"))


@pytest.mark.cpu
@pytest.mark.parametrize("how", ["interpreted", "engine", "sm_90"])
def test_descriptors_of_the_host(how: str, tmp_path: Path) -> None:
    """They are copied by the engine, as Gluon's."""
    source = _floats(7, 12, 40)
    out, layout = np.zeros_like(source), gl.NVMMASharedLayout.get_default_for([16, 16], gl.float32)
    made = [TensorDescriptor.from_tensor(x, [16, 16], layout) for x in (source, out)]
    launcher(how)(translated(given_kernel, tmp_path), (1,), *made, COUNT=3)
    np.testing.assert_array_equal(out, source + 1)


def test_rows_of_descriptors_of_the_host(tmp_path: Path) -> None:
    """The engine copies them on Blackwell; other targets say so."""
    source, rows = _floats(7, 12, 40), np.array([3, 0, 11, 7, 20, 5, 4, 2], np.int32)
    out, layout = np.zeros_like(source), gl.NVMMASharedLayout.get_default_for([8, 16], gl.float32)
    made = [TensorDescriptor.from_tensor(x, [1, 16], layout) for x in (source, out)]
    kernel, inside = translated(given_rows_kernel, tmp_path), rows[rows < 12]
    launcher("sm_100")(kernel, (1,), *made, rows, COUNT=8)
    wanted = np.zeros_like(source)
    wanted[inside, 4:20] = source[inside, 8:24] + 1
    np.testing.assert_array_equal(out, wanted)
    for name, arch in (("gather", 90), ("scatter", 120)):
        with pytest.raises(CompilationError, match=rf"\.{name}\(\) of descriptors .* is sm_{arch}"):
            launcher(f"sm_{arch}")(kernel, (1,), *made, rows, COUNT=8)


@pytest.mark.cpu
@pytest.mark.parametrize("how", ["interpreted", "engine"])
def test_atomic_operations_of_descriptors_of_the_host(how: str, tmp_path: Path) -> None:
    x, out = _floats(8, 16, 16), np.zeros((12, 40), np.float32)
    layout = gl.NVMMASharedLayout.get_default_for([16, 16], gl.float32)
    made = TensorDescriptor.from_tensor(out, [16, 16], layout)
    launcher(how)(translated(reduced_kernel, tmp_path), (1,), made, x)
    wanted = np.zeros_like(out)
    for column in (8, 16):
        wanted[4:, column : column + 16] += x[:8]
    np.testing.assert_allclose(out, wanted, rtol=1e-6)


AMD = {"gfx90a": "v_mfma", "gfx942": "v_mfma", "gfx950": "v_mfma", "gfx1100": "v_wmma",
       "gfx1200": "v_wmma", "gfx1250": "v_wmma"}  # fmt: skip


@pytest.mark.covering(1)
@pytest.mark.cpu
@pytest.mark.parametrize("arch", AMD)
@pytest.mark.parametrize("name", ["matmul", "batch", "pointers"])
def test_translations_for_amd(name: str, arch: str, tmp_path: Path) -> None:
    """One text is for all targets."""
    kernel, _, _, constants, types = CASES[name]
    text = compiled_for_amd(translated(kernel, tmp_path), types, constants, arch).asm["amdgcn"]
    assert (AMD[arch] in text) == (name in ("matmul", "batch"))
    assert convert_triton_to_gluon([kernel], arch) == convert_triton_to_gluon([kernel])


@pytest.mark.cpu
def test_descriptors_of_the_host_on_amd(tmp_path: Path) -> None:
    source, layout = _floats(7, 12, 40), gl.PaddedSharedLayout.with_identity_for(
        [[16, 4]], [16, 16], [1, 0])  # fmt: skip
    out = np.zeros_like(source)
    made = [AMDTensorDescriptor.from_tensor(x, [16, 16], layout) for x in (source, out)]
    launcher("interpreted")(translated(given_kernel, tmp_path), (1,), *made, COUNT=3)
    np.testing.assert_array_equal(out, source + 1)


def test_the_text_is_readable() -> None:
    text = convert_triton_to_gluon([softmax_kernel, add_kernel])
    assert "@gluon.jit\ndef softmax_kernel(" in text
    assert "helpers.expand_dims(rows, 0)" not in text and "helpers.expand_dims(rows, 1)" in text
    assert "helpers.settle(gl.max(x, axis=1))" in text and "helpers.settle(x.sum(1))" in text
    assert text.index("def scaled(") < text.index("def add_kernel(")
    assert "SCALE = gl.constexpr(2.0)" in text and "tl." not in text


@pytest.mark.usefixtures("named_by_alias")
def test_a_program_under_the_alias() -> None:
    test_the_text_is_readable()


def test_functions_under_decorators() -> None:
    """Choosing constants is left to the reader."""
    chosen = tritium.heuristics({"BLOCK": lambda _: 128})(add_kernel)
    tuned = tritium.autotune([tritium.Config({})], key=["n"])(chosen)
    assert convert_triton_to_gluon([tuned]) == convert_triton_to_gluon([add_kernel])
    with pytest.raises(TypeError, match="a function of jit is required"):
        convert_triton_to_gluon([print])


@pytest.mark.cpu
def test_descriptors_of_the_host_are_converted(tmp_path: Path) -> None:
    source = _floats(7, 12, 40)
    out, kernel = np.zeros_like(source), translated(given_kernel, tmp_path)
    made = [TritonDescriptor(x, [12, 40], [40, 1], [16, 16]) for x in (source, out)]
    with pytest.raises(InterpreterError, match=r"pass what engines.convert_host_descriptor makes"):
        launcher("interpreted")(kernel, (1,), *made, COUNT=3)
    for target in ("generic", "gfx1250"):
        out[:] = 0
        launcher("interpreted")(
            kernel, (1,), *(convert_host_descriptor(d, target) for d in made), COUNT=3
        )
        np.testing.assert_array_equal(out, source + 1)


MIXED = tl.constexpr([scaled, 3])


@tritium.jit
def mixed_kernel(x_ptr):
    tl.store(x_ptr, MIXED[0](tl.load(x_ptr)))


def test_lists_of_functions_and_other_values() -> None:
    with pytest.raises(NotImplementedError, match="has functions and other values"):
        convert_triton_to_gluon([mixed_kernel])


def test_targets() -> None:
    for name in ("sm75", "gfx", "gfx9x", "cpu"):
        with pytest.raises(ValueError, match=name):
            convert_triton_to_gluon([add_kernel], name)
    listed, other = TranslatorTarget("gfx942"), TranslatorTarget("gfx1151")
    assert listed is TranslatorTarget.GFX942 and listed.is_amd and not listed.is_nvidia
    assert (other.value, other.name, other.is_amd) == ("gfx1151", "GFX1151", True)
    assert TranslatorTarget.SM90.is_nvidia and not TranslatorTarget.GENERIC.is_amd


def test_the_program(tmp_path: Path) -> None:
    path = "tests.tools.test_translator.add_kernel"
    output = tmp_path / "out.py"
    command = [sys.executable, "-m", "tritium.tools.triton_to_gluon_translator", path, "-o",
               str(output)]  # fmt: skip
    subprocess.run(command, check=True, cwd=Path(__file__).parents[2])
    assert output.read_text() == translate_paths([path])
