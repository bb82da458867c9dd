"""Copies to LDS beside the program, products by priority, and Gluon's programs for AMD GPUs: their
LLVM IR, executed (`tests.amd.execution`)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.amd.execution.memory import ExecutionError
from tests.amd.execution.run import execute
from tests.amd.kernels import TARGETS
from tests.amd.kernels import compiled as compiled_kernel
from tests.amd.test_memory import products
from tests.gluon.amd import test_programs as programs
from tests.gluon.amd.test_programs import compiled
from tritium.errors import CompilationError
from tritium.experimental import gluon
from tritium.experimental.gluon import language as gl

WAIT = r"(s\.waitcnt\(i32) (\d+)"
LDS_DONE = 0xC07F


def multiplied(
    arch: str, n: int, change: Callable[[str], str] = str, *, small: bool = True,
    last_first: bool = False, **options: Any,
) -> tuple[Any, np.ndarray, np.ndarray]:  # fmt: skip
    """A product with neighbours along the axis of the sum: its kernel, what it gives, and what it
    should give."""
    rng, sizes = np.random.default_rng(n), {"M": 64, "N": 64, "K": 64, "FIRST": True}
    kernel = compiled_kernel(products, "*fp16 *fp16 *fp32 i32 i32 i32", arch, constants=sizes,
                             small=small, **options)  # fmt: skip
    a, b = (rng.integers(-4, 5, (64, n)).astype(np.float16) for _ in range(2))
    out = np.zeros((64, 64), np.float32)
    execute(kernel, (1,), (a, b, out, n, n, n), change=change, last_first=last_first)
    return kernel, out, a.astype(np.float32) @ b.astype(np.float32).T


@pytest.mark.covering(1)
@pytest.mark.parametrize("small", [True, False])
@pytest.mark.parametrize(
    ("stages", "last_first"),
    [
        (2, False), (3, True),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in ((2, True), (3, False))),
    ],
)  # fmt: skip
@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx950"])
def test_copies_to_lds(
    arch: str, stages: int, small: bool, last_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_HIP_USE_ASYNC_COPY", "1")
    kernel, found, wanted = multiplied(arch, 264, small=small, last_first=last_first,
                                       num_stages=stages)  # fmt: skip
    copy = "raw.ptr.buffer.load.lds" if small else "global.load.lds"
    assert f"call void @llvm.amdgcn.{copy}" in kernel.asm["llir"]
    np.testing.assert_array_equal(found, wanted)


def later(match: re.Match[str]) -> str:
    """A wait that leaves one more copy under way."""
    code = int(match[2])
    count = (code & 15 | code >> 14 << 4) + (code != LDS_DONE)
    return f"{match[1]} {code & 0xFF0 | count & 15 | count >> 4 << 14}"


@pytest.mark.parametrize(("pattern", "other"), [
    (WAIT, later),
    (rf"(s\.waitcnt\(i32) {LDS_DONE}", r"\1 53247"),  # a barrier before stores to LDS are done
    (r", !noalias !\d+", ""),  # LLVM waits for all copies: slower, not wrong
])  # fmt: skip
def test_waits_for_copies(
    pattern: str, other: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_HIP_USE_ASYNC_COPY", "1")

    def change(text: str) -> str:
        found, count = re.subn(pattern, other, text)
        assert count
        return found

    try:
        _, found, wanted = multiplied("gfx950", 264, change, num_stages=3)
        wrong = not np.array_equal(found, wanted)
    except ExecutionError:
        wrong = True
    assert wrong == (not pattern.startswith(", !noalias"))


def test_priority_of_products(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_HIP_USE_BLOCK_PINGPONG", "1")
    kernel, found, wanted = multiplied("gfx942", 200, num_warps=8)
    assert "llvm.amdgcn.s.setprio" in kernel.asm["llir"]
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.every(2)
@pytest.mark.parametrize("arch", programs.UNITS)
def test_gluon_products(arch: str) -> None:
    result, width, multiply, _ = programs.UNITS[arch]
    constants = {"result": result, "rows": programs.rows_of(TARGETS[arch]), "width": width,
                 "multiply": multiply}  # fmt: skip
    kernel = compiled(programs.product_kernel, "*fp16 *fp16 *fp32 i32", constants, arch)
    rng = np.random.default_rng(30)
    a, b = (rng.integers(-4, 5, (64, 64)).astype(np.float16) for _ in range(2))
    out = np.zeros((64, 64), np.float32)
    execute(kernel, (1,), (a, b, out, 40))
    a[40:] = 1
    wanted = a.astype(np.float32) @ b
    wanted[:, 40:] = 0
    np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize(("arch", "count"), [("gfx950", 4), ("gfx1250", 4), ("gfx1250", 8)])
def test_gluon_scaled_products(arch: str, count: int) -> None:
    result, width, multiply, of_scales, _ = programs.SCALED[arch]
    constants = {"result": result, "rows": programs.rows_of(TARGETS[arch]), "width": width,
                 "of_scales": of_scales, "multiply": multiply, "count": count,
                 "formats": ("e2m1", "e5m2"), "packed": result}  # fmt: skip
    kernel = compiled(programs.scaled_kernel, "*u8 *fp8e5 *u8 i32 *fp32", constants, arch)
    rng = np.random.default_rng(31)
    codes, b = rng.integers(0, 16, (64, 128)).astype(np.uint8), rng.integers(-3, 4, (64, 64))
    scales = rng.integers(125, 130, (64, count)).astype(np.uint8)
    packed, out = codes[:, ::2] | codes[:, 1::2] << 4, np.zeros((64, 64), np.float32)
    execute(kernel, (1,), (packed, b.astype(ml_dtypes.float8_e5m2), scales, 128, out))
    factors = np.repeat(np.exp2(scales - 127.0), 128 // count, 1)
    wanted = 2 * (programs.HALVES[codes] * factors) @ np.repeat(b, 2, 0)
    np.testing.assert_array_equal(out, wanted)


@gluon.jit
def short_kernel(a, b, out, result: gl.constexpr, k: gl.constexpr):
    rows: gl.constexpr = gl.BlockedLayout([1, 8], [8, 4], [4, 1], [1, 0])
    i = gl.arange(0, 32, gl.SliceLayout(1, rows))[:, None]
    j = gl.arange(0, 32, gl.SliceLayout(0, rows))[None, :]
    x = gl.load(a + i * k + gl.arange(0, k, gl.SliceLayout(0, rows))[None, :])
    y = gl.load(b + gl.arange(0, k, gl.SliceLayout(1, rows))[:, None] * 32 + j)
    acc = gl.amd.gfx1250.wmma(
        gl.convert_layout(x, gl.DotOperandLayout(0, result, 8)),
        gl.convert_layout(y, gl.DotOperandLayout(1, result, 8)),
        gl.zeros([32, 32], gl.float32, result),
    )
    gl.store(out + i * 32 + j, gl.convert_layout(acc, rows))


@pytest.mark.parametrize("k", [16, 8, 4])
def test_products_of_short_k(k: int) -> None:
    """The instruction sums over 32: registers, lanes and registers of copies are left."""
    constants = {"result": gl.amd.AMDWMMALayout(3, True, [[0, 1], [1, 0]], [], [16, 16, 32]),
                 "k": k}  # fmt: skip
    kernel = compiled(short_kernel, "*fp16 *fp16 *fp32", constants, "gfx1250")
    rng, out = np.random.default_rng(k), np.zeros((32, 32), np.float32)
    a, b = (rng.integers(-4, 5, shape).astype(np.float16) for shape in ((32, k), (k, 32)))
    execute(kernel, (1,), (a, b, out))
    np.testing.assert_array_equal(out, a.astype(np.float32) @ b)


@pytest.mark.parametrize("arch", ["gfx950", "gfx1250"])
def test_gluon_copies(arch: str) -> None:
    src, out = np.arange(1024, dtype=np.float32), np.zeros(1024, np.float32)
    layout = gl.BlockedLayout([4], [TARGETS[arch]], [4], [0])
    kernel = compiled(programs.named_copy_kernel, "*fp32 *fp32 i32", {"layout": layout}, arch)
    execute(kernel, (1,), (src, out, 512))
    np.testing.assert_array_equal(out, np.where(src < 512, src, -1))


def test_gluon_copies_by_buffers() -> None:
    src, out = np.arange(1024, dtype=np.float32), np.zeros(1024, np.float32)
    constants = {"copies": gl.amd.cdna4.async_copy,
                 "layout": gl.BlockedLayout([4], [64], [4], [0])}  # fmt: skip
    kernel = compiled(programs.copies_kernel, "*fp32 *fp32 i32", constants, "gfx950")
    execute(kernel, (1,), (src, out, 512))
    np.testing.assert_array_equal(out, np.where(src < 512, src, -1) + src)


@pytest.mark.parametrize("masked", [False, True])
def test_gluon_waits(masked: bool) -> None:
    src, out = np.arange(2048, dtype=np.float32), np.zeros(1024, np.float32)
    constants = {"layout": gl.BlockedLayout([4], [32], [4], [0]), "MASKED": masked}
    kernel = compiled(programs.two_copies_kernel, "*fp32 *fp32 i32", constants, "gfx1250")
    execute(kernel, (1,), (src, out, 1024))
    np.testing.assert_array_equal(out, src[:1024] + src[1024:])


def test_gluon_atomics_by_buffers() -> None:
    out, seen = np.zeros(64, np.int32), np.zeros(256, np.int32)
    layout = gl.BlockedLayout([1], [64], [4], [0])
    kernel = compiled(programs.atomic_kernel, "*i32 *i32", {"layout": layout}, "gfx942")
    execute(kernel, (1,), (out, seen))
    sums = np.where(np.arange(256) < 200, np.arange(256), 0).reshape(64, 4).sum(1)
    np.testing.assert_array_equal(out, np.maximum(sums, np.arange(3, 256, 4)))


@gluon.jit
def swizzled_kernel(src, out, rows: gl.constexpr, shared: gl.constexpr, N: gl.constexpr):
    i = gl.arange(0, 64, gl.SliceLayout(1, rows))[:, None]
    j = gl.arange(0, N, gl.SliceLayout(0, rows))[None, :]
    memory = gl.allocate_shared_memory(gl.float16, [64, N], shared)
    gl.amd.cdna4.async_copy.buffer_load_to_shared(memory, src, i * N + j, mask=i < 60)
    gl.amd.cdna4.async_copy.commit_group()
    gl.amd.cdna4.async_copy.wait_group(0)
    gl.store(out + i * N + j, memory.load(rows))


@pytest.mark.parametrize(("phases", "rows", "n"), [
    ((2, 8), gl.BlockedLayout([1, 8], [8, 8], [4, 1], [1, 0]), 64),  # rows of one copy
    ((1, 8), gl.BlockedLayout([1, 8], [1, 64], [4, 1], [1, 0]), 512),  # of waves and registers
    ((1, 4), gl.BlockedLayout([1, 8], [2, 32], [4, 1], [1, 0]), 256),
])  # fmt: skip
def test_copies_to_swizzled_memory(phases: tuple[int, int], rows: Any, n: int) -> None:
    """A lane copies the elements of that lane whose place it fills."""
    constants = {"rows": rows, "shared": gl.SwizzledSharedLayout(8, *phases, [1, 0]), "N": n}
    kernel = compiled(swizzled_kernel, "*fp16 *fp16", constants, "gfx950")
    assert "global.load.lds" in kernel.asm["llir"]
    source = (np.arange(64 * n) % 2039).astype(np.float16).reshape(64, n)
    out = np.zeros_like(source)
    execute(kernel, (1,), (source, out))
    wanted = source.copy()
    wanted[60:] = 0
    np.testing.assert_array_equal(out, wanted)


@gluon.jit
def small_kernel(src, out, n, rows: gl.constexpr, copy: gl.constexpr, M: gl.constexpr,
                 N: gl.constexpr, shared: gl.constexpr, STRIDE: gl.constexpr = 1,
                 MORE: gl.constexpr = 0):  # fmt: skip
    i = gl.arange(0, M, gl.SliceLayout(1, rows))[:, None]
    j = gl.arange(0, N, gl.SliceLayout(0, rows))[None, :]
    memory = gl.allocate_shared_memory(gl.uint8, [M, N], shared)
    copy(memory, src, i * N + j * STRIDE, i * N + j < n + MORE)
    gl.amd.cdna4.async_copy.commit_group()
    gl.amd.cdna4.async_copy.wait_group(0)
    gl.store(out + i * N + j, memory.load(rows))


@gluon.jit
def copy_by_pointers(memory, src, offsets, mask):
    gl.amd.cdna4.async_copy.global_load_to_shared(memory, src + offsets, mask=mask)


@gluon.jit
def copy_by_buffers(memory, src, offsets, mask):
    gl.amd.cdna4.async_copy.buffer_load_to_shared(memory, src, offsets, mask=mask)


PLAIN = gl.SwizzledSharedLayout(1, 1, 1, [1, 0])
FIXED = {"STRIDE": 1, "MORE": 0}
COPIES = pytest.mark.parametrize("copy", [copy_by_pointers, copy_by_buffers])


@COPIES
@pytest.mark.parametrize(("m", "n", "rows", "shared"), [
    (128, 4, gl.BlockedLayout([1, 4], [64, 1], [8, 1], [1, 0]), PLAIN),  # by two of eight waves
    (16, 4, gl.BlockedLayout([1, 4], [64, 1], [8, 1], [1, 0]), PLAIN),  # by 16 of 64 lanes
    (8, 16, gl.BlockedLayout([1, 4], [16, 4], [8, 1], [0, 1]), PLAIN),  # lanes 0 to 7, 16 to 23...
    (64, 8, gl.BlockedLayout([1, 4], [32, 2], [8, 1], [1, 0]), PLAIN),
    (64, 16, gl.BlockedLayout([1, 4], [16, 4], [8, 1], [1, 0]),
     gl.SwizzledSharedLayout(4, 1, 4, [1, 0])),
])  # fmt: skip
def test_copies_of_which_waves_and_lanes_have_copies(
    m: int, n: int, rows: Any, shared: Any, copy: Any
) -> None:
    """The first waves and lanes copy; the others would write to places beyond the block."""
    constants = {"rows": rows, "M": m, "N": n, "copy": copy, "shared": shared}
    kernel = compiled(small_kernel, "*u8 *u8 i32", constants | FIXED, "gfx950", num_warps=8)
    assert ".load.lds" in kernel.asm["llir"]
    source = (np.arange(m * n) % 251 + 1).astype(np.uint8)
    out = np.zeros_like(source)
    execute(kernel, (1,), (source, out, 48))
    np.testing.assert_array_equal(out, np.where(np.arange(m * n) < 48, source, 0))


@COPIES
@pytest.mark.parametrize(("changed", "message"), [
    ({"STRIDE": 2}, "4 elements at once, which are not known to be neighbours in global memory"),
    ({"MORE": 1}, "whose masks are not known to be equal: a bound that is a multiple of 4"),
])  # fmt: skip
def test_elements_of_a_copy_that_lie_apart(
    changed: dict[str, int], message: str, copy: Any
) -> None:
    """A lane would copy the neighbours of the first, by the first one's mask."""
    constants = {"rows": gl.BlockedLayout([1, 4], [64, 1], [4, 1], [1, 0]), "M": 256, "N": 4,
                 "copy": copy, "shared": PLAIN}  # fmt: skip
    with pytest.raises(CompilationError, match=message):
        compiled(small_kernel, "*u8 *u8 i32", constants | FIXED | changed, "gfx950")


MFMA = gl.amd.cdna4.AMDMFMALayout(4, [16, 16, 32], True, [2, 1])
ROWS = gl.constexpr(gl.BlockedLayout([1, 8], [8, 8], [2, 1], [1, 0]))


@gluon.jit
def operand_kernel(x, out, memory: gl.constexpr, operand: gl.constexpr, first: gl.constexpr,
                   turned: gl.constexpr):  # fmt: skip
    """32 rows of a tile in shared memory, or of its transpose, as an operand of a product."""
    i = gl.arange(0, 64, gl.SliceLayout(1, ROWS))[:, None]
    j = gl.arange(0, 64, gl.SliceLayout(0, ROWS))[None, :]
    held = gl.allocate_shared_memory(x.dtype.element_ty, [64, 64], memory)
    held.store(gl.load(x + i * 64 + j))
    part = held.slice(first, 32, 0)
    found = (part.permute((1, 0)) if turned else part).load(operand)
    i = gl.arange(0, found.shape[0], gl.SliceLayout(1, operand))[:, None]
    j = gl.arange(0, found.shape[1], gl.SliceLayout(0, operand))[None, :]
    gl.store(out + i * found.shape[1] + j, found)


@pytest.mark.parametrize(("first", "kind"), [(0, "bf16"), (32, "fp16")])
@pytest.mark.parametrize(("place", "width", "turned", "reads"), [
    (1, 8, False, 8), (1, 4, False, 8), (0, 8, True, 4), (0, 4, True, 4), (1, 8, True, 0),
])  # fmt: skip
@pytest.mark.parametrize("memory", [
    gl.SwizzledSharedLayout(1, 1, 1, [1, 0]), gl.SwizzledSharedLayout(8, 2, 8, [1, 0]),
    gl.PaddedSharedLayout.with_identity_for([[64, 8]], [64, 64], [1, 0]),
    gl.PaddedSharedLayout.with_identity_for([[64, 2]], [64, 64], [1, 0]),
], ids=["plain", "swizzled", "padded", "odd"])  # fmt: skip
def test_operands_across_memory(
    memory: Any, place: int, width: int, turned: bool, reads: int, first: int, kind: str
) -> None:
    """Operands whose rows lie along memory are turned as they are read; rows that begin at other
    multiples than of four elements are not."""
    constants = {"memory": memory, "operand": gl.DotOperandLayout(place, MFMA, width),
                 "first": first, "turned": turned}  # fmt: skip
    kernel = compiled(operand_kernel, f"*{kind} *{kind}", constants, "gfx950", num_warps=2)
    odd = isinstance(memory, gl.PaddedSharedLayout) and memory.interval_padding_pairs[0][1] == 2
    assert kernel.asm["llir"].count("call <4 x") == (0 if odd else reads)
    dtype = ml_dtypes.bfloat16 if kind == "bf16" else np.float16
    x = np.random.default_rng(3).standard_normal((64, 64)).astype(dtype)
    wanted = x[first : first + 32]
    wanted = wanted.T if turned else wanted
    out = np.zeros(wanted.shape, dtype)
    execute(kernel, (1,), (x, out))
    np.testing.assert_array_equal(out.astype(np.float32), wanted.astype(np.float32))
