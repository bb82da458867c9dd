"""Gluon programs for AMD's GPUs: interpreted, against NumPy, and compiled."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tritium
from tests.gluon.support import launcher
from tritium.errors import CompilationError
from tritium.experimental import gluon
from tritium.experimental.gluon import language as gl
from tritium.experimental.gluon.language._layouts import layout_of
from tritium.experimental.gluon.language.amd import AMDMFMALayout, AMDWMMALayout, cdna4
from tritium.experimental.gluon.language.nvidia.blackwell import TensorMemoryLayout
from tritium.experimental.gluon.language.nvidia.hopper import mbarrier
from tritium.ir.layouts.encodings import REGISTER, WARP, linear
from tritium.target import GPUTarget


def compiled(
    kernel: Any, types: str, constants: dict[str, Any], arch: str, **options: Any
) -> Any:
    names = [n for n in kernel.arg_names if n not in constants]
    signature = dict(zip(names, types.split(), strict=True)) | dict.fromkeys(constants, "constexpr")
    attrs = {(kernel.arg_names.index(n),): [["tt.divisibility", 16]] for n in names}
    source = gluon.GluonASTSource(kernel, signature, constants, attrs)
    lanes = 64 if arch.startswith("gfx9") else 32
    return tritium.compile(source, target=GPUTarget("hip", arch, lanes), options=options)


@gluon.jit
def product_kernel(a, b, out, n, result: gl.constexpr, rows: gl.constexpr, width: gl.constexpr,
                   multiply: gl.constexpr):
    i = gl.arange(0, 64, gl.SliceLayout(1, rows))[:, None]
    j = gl.arange(0, 64, gl.SliceLayout(0, rows))[None, :]
    at = i * 64 + j
    left = gl.amd.cdna3.buffer_load(a, at, mask=i < n, other=1.0)
    right = gl.amd.cdna3.buffer_load(b, at)
    left = gl.convert_layout(left, gl.DotOperandLayout(0, result, width))
    right = gl.convert_layout(right, gl.DotOperandLayout(1, result, width))
    acc = multiply(left, right, gl.zeros([64, 64], gl.float32, result))
    gl.amd.cdna3.buffer_store(gl.convert_layout(acc, rows), out, at, mask=j < n)


def rows_of(lanes: int) -> gl.BlockedLayout:
    return gl.BlockedLayout([1, 8], [lanes // 8, 8], [4, 1], [1, 0])


UNITS = {
    "gfx942": (AMDMFMALayout(3, [32, 32, 8], True, [2, 2]), 4, gl.amd.cdna3.mfma, "v_mfma"),
    "gfx950": (AMDMFMALayout(4, [16, 16, 32], True, [4, 1]), 8, gl.amd.cdna4.mfma, "v_mfma"),
    "gfx1100": (AMDWMMALayout(1, True, [[0, 1], [1, 0]]), 16, gl.amd.rdna3.wmma, "v_wmma"),
    "gfx1200": (AMDWMMALayout(2, True, [2, 2]), 8, gl.amd.rdna4.wmma, "v_wmma"),
    "gfx1250": (AMDWMMALayout(3, True, [[0, 1], [1, 0]], None, [16, 16, 32]), 16,
                gl.amd.cdna5.wmma, "v_wmma"),
}  # fmt: skip


@pytest.mark.every(2)
@pytest.mark.parametrize("arch", UNITS)
def test_products(arch: str) -> None:
    result, width, multiply, instruction = UNITS[arch]
    constants = {"result": result, "rows": rows_of(64 if arch.startswith("gfx9") else 32),
                 "width": width, "multiply": multiply}  # fmt: skip
    kernel = compiled(product_kernel, "*fp16 *fp16 *fp32 i32", constants, arch)
    text = kernel.asm["amdgcn"]
    assert instruction in text
    assert re.search(r"buffer_load_(dwordx4|b128)", text) is not None
    assert "buffer_store_" in text and "global_load" not in text and "global_store" not in text
    assert kernel.asm["hsaco"].startswith(b"\x7fELF")


@pytest.mark.parametrize("arch", UNITS)
def test_products_interpreted(arch: str) -> None:
    result, width, multiply, _ = UNITS[arch]
    rng = np.random.default_rng(30)
    a, b = (rng.integers(-4, 5, (64, 64)).astype(np.float16) for _ in range(2))
    out = np.zeros((64, 64), np.float32)
    launcher("interpreted")(
        product_kernel, (1,), a, b, out, 40, result=result, width=width, multiply=multiply,
        rows=rows_of(64 if arch.startswith("gfx9") else 32),
    )  # fmt: skip
    left = a.copy()
    left[40:] = 1
    wanted = left.astype(np.float32) @ b
    np.testing.assert_array_equal(out[:, :40], wanted[:, :40])
    assert not out[:, 40:].any()


@gluon.jit
def scaled_kernel(a, b, a_scale, b_scale, out, result: gl.constexpr, rows: gl.constexpr,
                  width: gl.constexpr, of_scales: gl.constexpr, multiply: gl.constexpr,
                  formats: gl.constexpr, packed: gl.constexpr, count: gl.constexpr):
    """Multiply a left operand with two elements a byte, in the layout of the product `packed`, by a
    right one; `b_scale` is one number for all."""
    i = gl.arange(0, 64, gl.SliceLayout(1, rows))[:, None]
    j = gl.arange(0, 64, gl.SliceLayout(0, rows))[None, :]
    at = i * 64 + j
    left = gl.convert_layout(gl.load(a + at), gl.DotOperandLayout(0, packed, width))
    right = gl.load(b + (i * 64 + j))
    right = gl.join(right, right).permute((0, 2, 1)).reshape((128, 64))
    right = gl.convert_layout(right, gl.DotOperandLayout(1, result, width))
    layout: gl.constexpr = of_scales(gl.DotOperandLayout(0, packed, width), [64, count],
                                     128 // count)  # fmt: skip
    m = gl.arange(0, 64, gl.SliceLayout(1, layout))[:, None]
    k = gl.arange(0, count, gl.SliceLayout(0, layout))[None, :]
    acc = multiply(left, gl.load(a_scale + m * count + k), formats[0], right, b_scale, formats[1],
                   gl.zeros([64, 64], gl.float32, result))  # fmt: skip
    gl.store(out + at, gl.convert_layout(acc, rows))


SCALED = {
    "gfx950": (AMDMFMALayout(4, [32, 32, 64], True, [2, 2]), 16, gl.amd.cdna4.mfma_scaled,
               gl.amd.cdna4.get_mfma_scale_layout, "v_mfma_scale_f32_32x32x64"),
    "gfx1250": (AMDWMMALayout(3, True, [[0, 1], [1, 0]], None, [16, 16, 128]), 16,
                gl.amd.cdna5.wmma_scaled, gl.amd.cdna5.get_wmma_scale_layout, "v_wmma_scale"),
}  # fmt: skip
HALVES = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6])


@pytest.mark.parametrize(("arch", "count"), [("gfx950", 4), ("gfx1250", 4), ("gfx1250", 8)])
def test_scaled_products(arch: str, count: int) -> None:
    result, width, multiply, of_scales, instruction = SCALED[arch]
    constants = {
        "result": result, "rows": rows_of(64 if arch.startswith("gfx9") else 32), "width": width,
        "of_scales": of_scales, "multiply": multiply, "formats": ("e2m1", "e5m2"),
        "packed": result, "count": count,
    }  # fmt: skip
    rng = np.random.default_rng(31)
    codes, b = rng.integers(0, 16, (64, 128)).astype(np.uint8), rng.integers(-3, 4, (64, 64))
    scales = rng.integers(125, 130, (64, count)).astype(np.uint8)
    out = np.zeros((64, 64), np.float32)
    packed = codes[:, ::2] | codes[:, 1::2] << 4
    launcher("interpreted")(scaled_kernel, (1,), packed, b.astype(ml_dtypes.float8_e5m2), scales,
                            128, out, **constants)  # fmt: skip
    factors = np.repeat(np.exp2(scales - 127.0), 128 // count, 1)
    np.testing.assert_array_equal(out, 2 * (HALVES[codes] * factors) @ np.repeat(b, 2, 0))
    text = compiled(scaled_kernel, "*u8 *fp8e5 *u8 i32 *fp32", constants, arch).asm["amdgcn"]
    assert instruction + "16" * (count == 8) in text
    if arch == "gfx1250":  # whose layouts may count the bytes of e2m1
        constants["packed"] = replace(result, instr_shape=[16, 16, 64])
        same = compiled(scaled_kernel, "*u8 *fp8e5 *u8 i32 *fp32", constants, arch).asm["amdgcn"]
        assert [line.count("ds_") for line in same.split()] == \
               [line.count("ds_") for line in text.split()]  # fmt: skip


@pytest.mark.parametrize(("arch", "scaled", "message"), [
    ("gfx942", True, r"scaled products of .* in .*version = 4.*; the target has mfma of version 3"),
    ("gfx950", False, r"f16 in #ttg.amd_mfma<{version = 3.*; the target has mfma of version 4"),
])  # fmt: skip
def test_products_of_other_processors(arch: str, scaled: bool, message: str) -> None:
    if scaled:
        result, width, multiply, of_scales, _ = SCALED["gfx950"]
        kernel, types = scaled_kernel, "*u8 *fp8e5 *u8 i32 *fp32"
        constants: dict[str, Any] = {"of_scales": of_scales, "formats": ("e2m1", "e5m2"),
                                     "packed": result, "count": 4}  # fmt: skip
    else:
        result, width, multiply, _ = UNITS["gfx942"]
        kernel, types, constants = product_kernel, "*fp16 *fp16 *fp32 i32", {}
    constants |= {"result": result, "rows": rows_of(64), "width": width, "multiply": multiply}
    with pytest.raises(NotImplementedError, match=message):
        compiled(kernel, types, constants, arch)


@gluon.jit
def upcast_kernel(src, scale, out, layout: gl.constexpr, axis: gl.constexpr, run: gl.constexpr):
    i = gl.arange(0, 32, gl.SliceLayout(1, layout))[:, None]
    j = gl.arange(0, 32, gl.SliceLayout(0, layout))[None, :]
    x = gl.load(src + i * 32 + j)
    of_scales: gl.constexpr = gl.amd.cdna4.get_scaled_upcast_fp4_scale_layout(
        x, run, gl.bfloat16, axis
    )
    shape: gl.constexpr = of_scales.shape
    m = gl.arange(0, shape[0], gl.SliceLayout(1, of_scales))[:, None]
    k = gl.arange(0, shape[1], gl.SliceLayout(0, of_scales))[None, :]
    scales = gl.load(scale + m * shape[1] + k)
    y = gl.amd.cdna4.scaled_upcast(x, scales, out.dtype.element_ty, axis=axis)
    m = gl.arange(0, y.shape[0], gl.SliceLayout(1, y.type.layout))[:, None]
    k = gl.arange(0, y.shape[1], gl.SliceLayout(0, y.type.layout))[None, :]
    gl.store(out + m * y.shape[1] + k, y)


@pytest.mark.parametrize("type", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize(("axis", "run"), [(1, 16), (1, 1), (0, 8)])
def test_numbers_with_scales(axis: int, run: int, type: Any) -> None:
    rng = np.random.default_rng(5)
    codes = rng.integers(0, 16, (32, 32, 2), np.uint8)
    whole = [32, 32]
    whole[axis] *= 2
    numbers = HALVES[np.moveaxis(codes, 2, axis + 1).reshape(whole)]
    whole[axis] //= run
    scales = rng.integers(120, 134, whole, np.uint8)
    scales[0, 0] = 255
    factors = np.where(scales == 255, np.nan, np.exp2(scales - 127.0)).repeat(run, axis)
    out = np.zeros(numbers.shape, type)
    constants = {"layout": rows_of(64), "axis": axis, "run": run}
    packed = codes[..., 0] | codes[..., 1] << 4
    launcher("interpreted")(upcast_kernel, (1,), packed, scales, out, **constants)
    wanted = (numbers * factors).astype(type).astype(np.float32)
    np.testing.assert_array_equal(out.astype(np.float32), wanted)


@pytest.mark.parametrize("code", [0, 1, 253, 254])
def test_the_least_and_the_largest_scale(code: int) -> None:
    out, packed = np.zeros((32, 64), ml_dtypes.bfloat16), np.full((32, 32), 0x21, np.uint8)
    constants = {"layout": rows_of(64), "axis": 1, "run": 1}
    launcher("interpreted")(upcast_kernel, (1,), packed, np.full((32, 64), code, np.uint8), out,
                            **constants)  # fmt: skip
    wanted = np.array([0.5, 1.0]) * 2.0 ** (code - 127)
    np.testing.assert_array_equal(out, np.tile(wanted, (32, 32)).astype(ml_dtypes.bfloat16))


def test_numbers_with_scales_compiled() -> None:
    constants = {"layout": rows_of(64), "axis": 1, "run": 16}
    text = compiled(upcast_kernel, "*u8 *u8 *bf16", constants, "gfx942").asm["ttgir"]
    assert re.search("tt.join.*\n.*tt.reshape", text) is not None
    other = gl.BlockedLayout([4, 8], [16, 4], [1, 4], [0, 1])
    with pytest.raises(CompilationError, match="scale_factor is 3, of 64 numbers"):
        compiled(upcast_kernel, "*u8 *u8 *bf16", constants | {"run": 3}, "gfx942")
    with pytest.raises(CompilationError, match=r"from Blocked.* to .* is not trivial"):
        compiled(other_scales_kernel, "", {"layout": rows_of(64), "other": other}, "gfx942")


@gluon.jit
def other_scales_kernel(layout: gl.constexpr, other: gl.constexpr):
    scales = gl.zeros([32, 64], gl.uint8, other)
    gl.amd.cdna3.scaled_upcast(gl.zeros([32, 32], gl.uint8, layout), scales, gl.float16, 1)


@gluon.jit
def copies_kernel(src, out, n, layout: gl.constexpr, copies: gl.constexpr):
    i = gl.arange(0, 1024, layout)
    shared: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0])
    memory = gl.allocate_shared_memory(gl.float32, [2, 1024], shared)
    copies.buffer_load_to_shared(memory.index(0), src, i, mask=i < n, other=-1.0)
    copies.commit_group()
    copies.global_load_to_shared(memory.index(1), src + i)
    copies.commit_group()
    copies.wait_group(1)
    x = copies.load_shared_relaxed(memory.index(0), layout)
    copies.wait_group(0)
    gl.store(out + i, x + memory.index(1).load(layout))


def test_copies_to_shared_memory() -> None:
    src, out = np.arange(1024, dtype=np.float32), np.zeros(1024, np.float32)
    copies = gl.amd.cdna4.async_copy
    launcher("interpreted")(copies_kernel, (1,), src, out, 512, copies=copies,
                            layout=gl.BlockedLayout([4], [64], [4], [0]))  # fmt: skip
    np.testing.assert_array_equal(out, np.where(src < 512, src, -1) + src)


@gluon.jit
def atomic_kernel(out, seen, layout: gl.constexpr):
    i = gl.arange(0, 256, layout)
    gl.store(seen + i, gl.amd.cdna3.buffer_atomic_add(out, i // 4, i, mask=i < 200))
    gl.amd.cdna3.buffer_atomic_max(out, i // 4, i)


def test_atomics() -> None:
    out, seen = np.zeros(64, np.int32), np.zeros(256, np.int32)
    layout = gl.BlockedLayout([1], [64], [4], [0])
    launcher("interpreted")(atomic_kernel, (1,), out, seen, layout=layout)
    sums = np.where(np.arange(256) < 200, np.arange(256), 0).reshape(64, 4).sum(1)
    np.testing.assert_array_equal(out, np.maximum(sums, np.arange(3, 256, 4)))
    text = compiled(atomic_kernel, "*i32 *i32", {"layout": layout}, "gfx942").asm["amdgcn"]
    assert "atomic_add" in text and "atomic_smax" in text


def test_products_of_other_layouts() -> None:
    other = AMDMFMALayout(4, [16, 16, 32], True, [4, 1])
    constants = {"result": other, "rows": rows_of(64), "width": 8, "multiply": gl.amd.cdna3.mfma}
    assert compiled(product_kernel, "*fp16 *fp16 *fp32 i32", constants, "gfx950")
    with pytest.raises(NotImplementedError, match="the target has mfma of version 3"):
        compiled(product_kernel, "*fp16 *fp16 *fp32 i32", constants, "gfx942")


@gluon.jit
def pinned(a, b, acc):
    return gl.amd.cdna3.mfma(a, b, acc, cd_regclass="a")


def test_registers_of_sums() -> None:
    constants = {"result": AMDMFMALayout(3, [32, 32, 8], True, [2, 2]), "rows": rows_of(64),
                 "width": 4, "multiply": pinned}  # fmt: skip
    kernel = compiled(product_kernel, "*fp16 *fp16 *fp32 i32", constants, "gfx942")
    assert '"=a,0"' in kernel.asm["llir"]
    assert re.search(r"v_mfma_f32_32x32x8_?f16 a\[", kernel.asm["amdgcn"])


@gluon.jit
def named_copy_kernel(src, out, n, layout: gl.constexpr):
    i = gl.arange(0, 1024, layout)
    shared: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0])
    memory = gl.allocate_shared_memory(gl.float32, [1024], shared)
    copies: gl.constexpr = gl.amd.cdna5.async_copy
    copies.global_to_shared(smem=memory, pointer=src + i, mask=i < n, other=-1.0)
    copies.commit_group()
    copies.wait_group(0)
    gl.store(out + i, memory.load(layout))


def test_copies_of_cdna5() -> None:
    src, out = np.arange(1024, dtype=np.float32), np.zeros(1024, np.float32)
    layout = gl.BlockedLayout([4], [32], [4], [0])
    launcher("interpreted")(named_copy_kernel, (1,), src, out, 512, layout=layout)
    np.testing.assert_array_equal(out, np.where(src < 512, src, -1))
    for arch, copy, store in (("gfx1250", "global_load_async_to_lds_b128", "ds_store_b128"),
                              ("gfx950", "global_load_lds_dwordx4", "ds_write_b128")):  # fmt: skip
        lanes = gl.BlockedLayout([4], [64 if arch == "gfx950" else 32], [4], [0])
        kernel = compiled(named_copy_kernel, "*fp32 *fp32 i32", {"layout": lanes}, arch)
        assert copy in kernel.asm["amdgcn"] and store in kernel.asm["amdgcn"]


@gluon.jit
def two_copies_kernel(src, out, n, layout: gl.constexpr, MASKED: gl.constexpr):
    i = gl.arange(0, 1024, layout)
    shared: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0])
    memory = gl.allocate_shared_memory(gl.float32, [2, 1024], shared)
    for part in gl.static_range(2):
        pointers = src + part * 1024 + i
        if MASKED:
            gl.amd.cdna5.async_copy.global_to_shared(memory.index(part), pointers, i < n)
        else:
            gl.amd.cdna5.async_copy.global_to_shared(memory.index(part), pointers)
        gl.amd.cdna5.async_copy.commit_group()
    gl.amd.cdna5.async_copy.wait_group(1)
    x = memory.index(0).load(layout)
    gl.amd.cdna5.async_copy.wait_group(0)
    gl.store(out + i, x + memory.index(1).load(layout))


@pytest.mark.parametrize("masked", [False, True])
def test_waits_of_cdna5(masked: bool) -> None:
    """A group is two copies of 16 bytes a lane; waves may jump over copies with masks."""
    src, out = np.arange(2048, dtype=np.float32), np.zeros(1024, np.float32)
    constants = {"layout": gl.BlockedLayout([4], [32], [4], [0]), "MASKED": masked}
    launcher("interpreted")(two_copies_kernel, (1,), src, out, 1024, **constants)
    np.testing.assert_array_equal(out, src[:1024] + src[1024:])
    text = compiled(two_copies_kernel, "*fp32 *fp32 i32", constants, "gfx1250").asm["amdgcn"]
    assert text.count("global_load_async_to_lds_b128") == 4
    waits = re.findall(r"s_wait_asynccnt 0x(\d)", text)
    assert waits == (["0", "0"] if masked else ["2", "0"])


@gluon.jit
def part_kernel(src, out, layout: gl.constexpr, part: gl.constexpr, at: gl.constexpr):
    i = gl.arange(0, 128, gl.SliceLayout(1, layout))[:, None]
    j = gl.arange(0, 64, gl.SliceLayout(0, layout))[None, :]
    x = gl.amd.slice(gl.load(src + i * 64 + j), part, at)
    gl.static_assert(x.type.layout == layout)
    i = gl.arange(0, part[0], gl.SliceLayout(1, layout))[:, None]
    j = gl.arange(0, part[1], gl.SliceLayout(0, layout))[None, :]
    gl.store(out + i * part[1] + j, x)


PARTS = gl.BlockedLayout([1, 4], [8, 8], [4, 1], [1, 0])


def test_parts_of_blocks() -> None:
    src = np.arange(128 * 64, dtype=np.float32).reshape(128, 64)
    for part, at in (([32, 32], [96, 32]), ([64, 64], [0, 0]), ([128, 32], [0, 32])):
        out = np.zeros(part, np.float32)
        constants: dict[str, Any] = {"layout": PARTS, "part": part, "at": at}
        launcher("interpreted")(part_kernel, (1,), src, out, **constants)
        np.testing.assert_array_equal(out, src[at[0] :, at[1] :][: part[0], : part[1]])
        text = compiled(part_kernel, "*fp32 *fp32", constants, "gfx950").asm["amdgcn"]
        assert "ds_write" not in text and "ds_bpermute" not in text
    for part, at, message in (
        ([16, 64], [0, 0], "lane and warp dim basis must match between source and destination"),
        ([32, 64], [16, 0], r"no source register holds .* destination index \[16, 0\]"),
        ([32, 64], [112, 0], "invalid offset at dimension 0: 32 elements from 112 on, of 128"),
        ([32], [0], "slice: shape must have rank 2, got 1"),
    ):
        with pytest.raises(CompilationError, match=message):
            compiled(part_kernel, "*fp32 *fp32",
                     {"layout": PARTS, "part": part, "at": at}, "gfx950")  # fmt: skip


@gluon.jit
def stages_kernel(src, out, n, layout: gl.constexpr, priority: gl.constexpr):
    i = gl.arange(0, 1024, layout)
    total = gl.zeros([1024], gl.float32, layout)
    for step in range(n):
        with gl.amd.warp_pipeline_stage("load", priority=priority):
            x = gl.load(src + step * 1024 + i)
        with gl.amd.warp_pipeline_stage("add"):
            total += x
    gl.amd.hint.sched_barrier()
    gl.store(out + i, total)


def test_stages_of_loops() -> None:
    src, out = np.arange(3072, dtype=np.float32), np.zeros(1024, np.float32)
    line = gl.BlockedLayout([4], [64], [4], [0])
    constants = {"layout": line, "priority": 3}
    launcher("interpreted")(stages_kernel, (1,), src, out, 3, **constants)
    np.testing.assert_array_equal(out, src.reshape(3, 1024).sum(0))
    kernel = compiled(stages_kernel, "*fp32 *fp32 i32", constants, "gfx942")
    names = re.findall(r"s_setprio \d|sched_barrier|load_dwordx4|add_f32|store_dwordx4",
                       kernel.asm["amdgcn"])  # fmt: skip
    assert re.search("sched_barrier s_setprio 3 load_dwordx4 .*s_setprio 0 .*add_f32 .*"
                     "sched_barrier sched_barrier store", " ".join(names)) is not None  # fmt: skip
    with pytest.raises(CompilationError, match="priority is 4; 0 to 3 are allowed"):
        compiled(stages_kernel, "*fp32 *fp32 i32", {"layout": line, "priority": 4}, "gfx942")


@gluon.jit
def linear_kernel(result: gl.constexpr):
    layout: gl.constexpr = gl.to_linear_layout(result, [64, 64])
    gl.convert_layout(gl.full([64, 64], 1.0, gl.float32, result), layout, assert_trivial=True)


@pytest.mark.parametrize(("version", "arch"), [(1, "gfx1100"), (2, "gfx1200")])
def test_bases_of_products(version: int, arch: str) -> None:
    """In the order of registers, lanes and warps, whatever order the layout is made in."""
    layout = AMDWMMALayout(version, True, [[0, 1], [1, 0]], instr_shape=[16, 16, 16])
    compiled(linear_kernel, "", {"result": layout}, arch)


def _bases(layout: Any) -> tuple[list[Any], list[Any]]:
    found = linear(layout.to_encoding(), (64, 64))
    return tuple([list(b) for b in found.bases(name)] for name in (REGISTER, WARP))  # pyright: ignore


def test_repeated_parts_of_products() -> None:
    """The bases are those of release 3.9 (of MFMA in another order of registers)."""
    layout = AMDWMMALayout(1, True, [[0, 2], [2, 0]], [[0, 1], [1, 0]])
    assert _bases(layout) == ([[0, 2], [0, 4], [0, 8], [0, 16], [16, 0]], [[0, 32], [32, 0]])
    operand = gl.DotOperandLayout(1, layout, 16)
    assert _bases(operand) == (
        [[1, 0], [2, 0], [4, 0], [8, 0], [0, 16], [16, 0], [32, 0]], [[0, 32], [0, 0]]
    )
    layout = AMDWMMALayout(2, False, [[1, 0], [0, 1]])
    assert _bases(layout) == ([[1, 0], [2, 0], [4, 0], [0, 32], [32, 0]], [[16, 0], [0, 16]])
    layout = AMDMFMALayout(3, [16, 16, 16], True, [2, 1], tiles_per_warp=[2, 2])
    assert _bases(layout) == ([[0, 1], [0, 2], [0, 16], [16, 0], [0, 32]], [[32, 0]])
    for made in (layout, AMDWMMALayout(2, False, [[1, 0], [0, 1]], [[0, 2]], [16, 16, 16])):
        assert layout_of(made.to_encoding()) == made


@gluon.jit
def downcast_kernel(src, scale, out, layout: gl.constexpr, format: gl.constexpr,
                    axis: gl.constexpr, run: gl.constexpr):
    rows: gl.constexpr = gl.SliceLayout(1, layout)
    columns: gl.constexpr = gl.SliceLayout(0, layout)
    i, j = gl.arange(0, 64, rows)[:, None], gl.arange(0, 64, columns)[None, :]
    x = gl.load(src + i * 64 + j)
    m: gl.constexpr = 64 if axis else 64 // run
    n: gl.constexpr = 64 // run if axis else 64
    s = gl.load(scale + gl.arange(0, m, rows)[:, None] * n + gl.arange(0, n, columns)[None, :])
    y = gl.amd.cdna4.scaled_downcast(x, s, format, axis=axis)
    w: gl.constexpr = y.shape[1]
    y = gl.convert_layout(y, layout)
    gl.store(out + gl.arange(0, y.shape[0], rows)[:, None] * w
             + gl.arange(0, w, columns)[None, :], y)


@pytest.mark.covering(1)
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("format", ["e4m3", "e5m2", "e2m1"])
def test_numbers_that_get_scales(format: str, axis: int) -> None:
    rng = np.random.default_rng(34)
    src = (rng.standard_normal((64, 64)) * 3).astype(np.float32)
    src[:2, :32] = np.arange(-8, 8, 0.25).reshape(2, 32)
    scales = rng.integers(126, 129, (64, 2) if axis else (2, 64)).astype(np.uint8)
    factors = np.repeat(np.exp2(scales.astype(np.float32) - 127), 32, axis)
    kind = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2,
            "e2m1": ml_dtypes.float4_e2m1fn}[format]  # fmt: skip
    wanted = (src / factors).clip(*((-6, 6) if format == "e2m1" else (-400, 400))).astype(kind)
    if format == "e2m1":
        code = np.moveaxis(wanted.view(np.uint8) & 15, axis, 1)
        wanted = np.moveaxis(code[:, ::2] | code[:, 1::2] << 4, 1, axis)
    out = np.zeros(wanted.shape, wanted.dtype)
    layout = rows_of(64) if axis else gl.BlockedLayout([2, 4], [4, 16], [4, 1], [1, 0])
    constants = {"layout": layout, "format": format, "axis": axis, "run": 32}
    launcher("interpreted")(downcast_kernel, (1,), src, scales, out, **constants)
    np.testing.assert_array_equal(out.view(np.uint8), wanted.view(np.uint8))
    types = f"*fp32 *u8 *{'u8' if format == 'e2m1' else 'fp8e4nv' if format == 'e4m3' else 'fp8e5'}"
    compiled(downcast_kernel, types, constants, "gfx950")
    if format == "e2m1":
        with pytest.raises(CompilationError, match="one for 8 or more numbers along axis"):
            compiled(downcast_kernel, types, constants | {"run": 4}, "gfx950")


@gluon.jit
def repacked_kernel(src, out, layout: gl.constexpr, rows: gl.constexpr):
    turned: gl.constexpr = layout.operand_index == 1
    m: gl.constexpr = 64 if turned else 32
    n: gl.constexpr = 96 - m
    i = gl.arange(0, m, gl.SliceLayout(1, rows))[:, None]
    j = gl.arange(0, n, gl.SliceLayout(0, rows))[None, :]
    shared: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [1, 0])
    memory = gl.allocate_shared_memory(gl.uint8, [m, n], shared, gl.load(src + i * n + j))
    x = gl.convert_layout(gl.amd.cdna4.load_shared_fp4_repacked(memory, layout), rows)
    i = gl.arange(0, n, gl.SliceLayout(1, rows))[:, None]
    j = gl.arange(0, m, gl.SliceLayout(0, rows))[None, :]
    gl.store(out + i * m + j, x)


@pytest.mark.parametrize("index", [0, 1])
def test_operands_that_are_packed_along_rows(index: int) -> None:
    codes = np.random.default_rng(35).integers(0, 16, (64, 64)).astype(np.uint8)
    along_rows = codes[::2] | codes[1::2] << 4
    along_k = codes[:, ::2] | codes[:, 1::2] << 4
    src, wanted = (np.ascontiguousarray(x.T if index else x) for x in (along_rows, along_k))
    out = np.zeros_like(wanted)
    unit = AMDMFMALayout(4, [16, 16, 128], True, [2, 2])
    constants = {"layout": gl.DotOperandLayout(index, unit, 16), "rows": rows_of(64)}
    launcher("interpreted")(repacked_kernel, (1,), src, out, **constants)
    np.testing.assert_array_equal(out, wanted)
    compiled(repacked_kernel, "*u8 *u8", constants, "gfx950")


def test_numbers_of_warps_and_tiles() -> None:
    """As release 3.6 has them."""
    layout = AMDWMMALayout(version=2, transposed=True, warps_per_cta=[2, 2], tiles_per_warp=[2, 1])
    assert layout == AMDWMMALayout(2, True, [[0, 1], [2, 0]], [[1, 0]])
    assert AMDWMMALayout(2, True, [2, 2]) == AMDWMMALayout(2, True, [[0, 1], [1, 0]])
    split = TensorMemoryLayout((128, 128), col_stride=1, cta_split_num=(2, 1))
    assert split == TensorMemoryLayout((128, 128), col_stride=1, cga_layout=[[1, 0]])


@pytest.mark.parametrize(("arch", "result", "width", "multiply", "count"), [
    ("gfx942", AMDMFMALayout(3, [16, 16, 16], True, [2, 2], tiles_per_warp=[2, 1]), 4,
     gl.amd.cdna3.mfma, "v_mfma_f32_16x16x16"),
    ("gfx1100", AMDWMMALayout(1, False, [[0, 1], [1, 0]]), 16, gl.amd.rdna3.wmma,
     "v_wmma_f32_16x16x16"),
    ("gfx1200", AMDWMMALayout(2, False, [[0, 2], [1, 0]], [[0, 1]]), 8, gl.amd.rdna4.wmma,
     "v_wmma_f32_16x16x16"),
])  # fmt: skip
def test_products_in_repeated_parts(
    arch: str, result: Any, width: int, multiply: Any, count: str
) -> None:
    rows = rows_of(64 if arch == "gfx942" else 32)
    constants = {"result": result, "rows": rows, "width": width, "multiply": multiply}
    assert count in compiled(product_kernel, "*fp16 *fp16 *fp32 i32", constants, arch).asm["amdgcn"]


@gluon.jit
def barrier_kernel(unused):
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)


@gluon.jit
def wide_copy_kernel(src, layout: gl.constexpr):
    memory = gl.allocate_shared_memory(
        gl.float32, [1024], gl.SwizzledSharedLayout(1, 1, 1, [0])
    )
    cdna4.async_copy.global_load_to_shared(memory, src + gl.arange(0, 1024, layout))


@gluon.jit
def wide_buffer_kernel(src, layout: gl.constexpr):
    memory = gl.allocate_shared_memory(
        gl.float32, [1024], gl.SwizzledSharedLayout(1, 1, 1, [0])
    )
    cdna4.async_copy.buffer_load_to_shared(memory, src, gl.arange(0, 1024, layout))


@pytest.mark.parametrize(("kernel", "message"), [
    (barrier_kernel, r"init\(.*\n +\^\n.*: the AMD backend does not support ttng.init_barrier"),
    (wide_copy_kernel, r"\^\n.* \(copies of 16 bytes a lane; of gfx942 they are 4\)"),
    (wide_buffer_kernel, r"\^\n.* \(copies of 16 bytes a lane; of gfx942 they are 4\)"),
])  # fmt: skip
def test_what_a_processor_lacks_is_an_error_at_its_line(kernel: Any, message: str) -> None:
    layout = gl.BlockedLayout([4], [64], [4], [0])
    constants = {"layout": layout} if "layout" in kernel.arg_names else {}
    with pytest.raises(CompilationError, match=message) as caught:
        compiled(kernel, "*fp32", constants, "gfx942")
    assert isinstance(caught.value, NotImplementedError)
