"""Atomic operations through a pointer and 32-bit offsets, on AMD GPUs: interpreted, and the LLVM IR
that they become, executed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.amd.execution.run import execute
from tests.gluon.amd.test_programs import compiled
from tests.gluon.support import launcher
from tritium.experimental import gluon
from tritium.experimental.gluon import language as gl
from tritium.sanitize.launch import Checks, SanitizerError
from tritium.sanitize.report import REPORT, run_checked

KINDS = ("add", "max", "min", "and", "or", "xor", "xchg")
INTEGERS = ("i32", "u64")
TYPES = {"i32": np.int32, "u32": np.uint32, "i64": np.int64, "u64": np.uint64,
         "fp16": np.float16, "fp32": np.float32, "fp64": np.float64}  # fmt: skip
CASES = [
    *((kind, type) for kind in KINDS for type in INTEGERS), ("max", "u32"), ("add", "fp16"),
    ("add", "fp32"), ("add", "fp64"), ("max", "fp32"), ("min", "fp64"),
]  # fmt: skip
REDUCED: dict[str, Any] = {
    "add": np.add, "max": np.maximum, "min": np.minimum, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip


@gluon.jit
def update_kernel(x, out, seen, N: gl.constexpr, update: gl.constexpr, layout: gl.constexpr):
    i = gl.arange(0, 256, layout)
    value = gl.amd.cdna3.buffer_load(x, i)
    at = gl.where(i < 128, i % 64, 64 - i)  # offsets before the pointer, too
    old = update(out + N, at, value, mask=i < 200)
    gl.amd.cdna3.buffer_store(old, seen, i)


def constants(kind: str, lanes: int) -> dict[str, Any]:
    update = getattr(gl.amd.cdna3, f"buffer_atomic_{kind}")
    return {"N": 256, "update": update, "layout": gl.BlockedLayout([1], [lanes], [4], [0])}


def arrays(type: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng, dtype = np.random.default_rng(1), TYPES[type]
    least = 0 if type[0] == "u" else -20
    x, out = (rng.integers(least, 20, n).astype(dtype) for n in (256, 512))
    if type == "u32":
        x[5], out[256 + 5] = 3_000_000_000, 2
    return x, out, np.zeros(256, dtype)


def wanted(kind: str, x: np.ndarray, out: np.ndarray) -> np.ndarray:
    """The result of a reduction; that of an exchange depends on which of two comes last."""
    i = np.arange(200)
    places, found = 256 + np.where(i < 128, i % 64, 64 - i), out.copy()
    REDUCED[kind].at(found, places, x[:200])
    return found


def check(kind: str, x: np.ndarray, before: np.ndarray, out: np.ndarray, seen: np.ndarray) -> None:
    """Masked elements find zero; elements that one thread updates find what memory held."""
    i = np.arange(128, 200)
    np.testing.assert_array_equal(seen[200:], 0)
    np.testing.assert_array_equal(seen[i[i > 128]], before[256 + 64 - i[i > 128]])
    if kind != "xchg":
        np.testing.assert_array_equal(out, wanted(kind, x, before))
        return
    np.testing.assert_array_equal(out[256 + 64 - i[i > 128]], x[i[i > 128]])
    twice = np.arange(1, 64)
    assert all(n in pair for n, *pair in zip(out[257:320], x[twice], x[twice + 64], strict=True))


@pytest.mark.parametrize(("kind", "type"), CASES)
def test_interpreted(kind: str, type: str) -> None:
    x, out, seen = arrays(type)
    before = out.copy()
    launcher("interpreted")(update_kernel, (1,), x, out, seen, **constants(kind, 64))
    check(kind, x, before, out, seen)


@pytest.mark.covering(1)
@pytest.mark.parametrize("arch", ["gfx942", "gfx1100", "gfx1250"])
@pytest.mark.parametrize(("kind", "type"), CASES)
def test_executed(kind: str, type: str, arch: str) -> None:
    """By instructions with buffers, where the processor has them for the type."""
    x, out, seen = arrays(type)
    before, lanes = out.copy(), 64 if arch.startswith("gfx9") else 32
    kernel = compiled(update_kernel, f"*{type} *{type} *{type}", constants(kind, lanes), arch)
    text = kernel.asm["amdgcn"]
    buffers = type != "fp16" and (type != "fp64" or lanes == 64 or kind in ("max", "min"))
    assert bool(re.search(r"buffer_atomic_\w", text)) == buffers
    assert bool(re.search(r"(global|flat)_atomic_\w", text)) != buffers
    execute(kernel, (1,), (x, out, seen))
    check(kind, x, before, out, seen)


@gluon.jit
def sum_kernel(x, out, layout: gl.constexpr):
    i = gl.arange(0, 256, layout)
    gl.amd.cdna3.buffer_atomic_add(out, i % 64, gl.amd.cdna3.buffer_load(x, i), mask=i < 200)


def exact_sums(how: str) -> np.ndarray:
    x, out = np.random.default_rng(2).standard_normal(256).astype(np.float32), np.zeros(64, "f4")
    layout = gl.BlockedLayout([1], [64], [4], [0])
    if how == "interpreted":
        launcher(how)(sum_kernel, (1,), x, out, layout=layout, instrumentation_mode="exact")
        return out
    kernel = compiled(sum_kernel, "*fp32 *fp32", {"layout": layout}, "gfx942",
                      instrumentation_mode="exact")  # fmt: skip
    execute(kernel, (1,), (x, out))
    return out


def test_exact_sums() -> None:
    """The sums of what stands for the numbers, the same bits both ways; sums of floats differ."""
    found = exact_sums("interpreted")
    np.testing.assert_array_equal(found.view(np.uint32), exact_sums("executed").view(np.uint32))
    x = np.random.default_rng(2).standard_normal(256).astype(np.float32)
    sums = np.zeros(64, np.float32)
    np.add.at(sums, np.arange(200) % 64, x[:200])
    assert not np.array_equal(found, sums)


@pytest.mark.parametrize("short", ["x", "out", "seen", ""])
def test_accesses_out_of_bounds(short: str) -> None:
    """Each is reported at its line, and left out."""
    sizes = {"x": 256, "out": 512, "seen": 256}
    where = {n: np.zeros(s // 2 if n == short else s, np.int32) for n, s in sizes.items()}
    kernel = compiled(update_kernel, "*i32 *i32 *i32", constants("add", 64), "gfx942",
                      instrumentation_mode="bounds")  # fmt: skip
    names = ["x", "out", "seen"]
    checks, record = Checks(kernel.metadata.sanitizer, names, "update_kernel"), np.zeros(1, REPORT)

    def run(more: Sequence[int]) -> None:
        execute(kernel, (1,), (*where.values(), record, *more[1:]))

    lines = {"x": "value = gl.amd.cdna3.buffer_load", "out": "old = update(",
             "seen": "gl.amd.cdna3.buffer_store"}  # fmt: skip
    if not short:
        run_checked(checks, [*where.values()], (1,), record.ctypes.data, run)
        return
    with pytest.raises(SanitizerError) as caught:
        run_checked(checks, [*where.values()], (1,), record.ctypes.data, run)
    assert f"argument '{short}'" in str(caught.value) and lines[short] in str(caught.value)


def test_types_that_no_atomic_operation_has() -> None:
    layout = gl.BlockedLayout([1], [64], [4], [0])
    for kind, type, said in (("max", "fp16", "buffer_atomic_max does not support fp16"),
                             ("and", "fp32", "buffer_atomic_and does not support fp32"),
                             ("add", "i8", "buffer_atomic_add does not support int8")):  # fmt: skip
        with pytest.raises(Exception, match=said) as caught:
            compiled(update_kernel, f"*{type} *{type} *{type}",
                     {**constants(kind, 64), "layout": layout}, "gfx942")  # fmt: skip
        assert "old = update(" in str(caught.value)
