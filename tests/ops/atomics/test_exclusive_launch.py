"""Atomic operations without locked instructions, in exclusive launches: the same results."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator

import ml_dtypes
import numpy as np
import pytest

import tritium
from tritium import language as tl
from tritium.native.pool import CONTEXT, SLOT


@tritium.jit
def rmw(x, index, out, old, OP: tl.constexpr, SCOPE: tl.constexpr, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    value, place = tl.load(x + at), tl.load(index + at)
    held = OP(out + place, value, mask=place % 5 != 3, scope=SCOPE)
    tl.store(old + at, held, mask=place % 5 != 3)


@tritium.jit
def block(x, out, OP: tl.constexpr, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    OP(out + 3 + at, tl.load(x + at), mask=at % 7 != 0)


@tritium.jit
def swap(x, index, out, old, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    held = tl.atomic_cas(out + tl.load(index + at), tl.load(x + N + at), tl.load(x + at))
    tl.store(old + at, held)


def kinds() -> Iterator[tuple[str, str]]:
    for op in ("add", "max", "min", "xchg", "and", "or", "xor"):
        for dtype in ("int32", "uint64", "float32", "float64", "float16", "bfloat16"):
            floating = "float" in dtype
            if op in ("and", "or", "xor") and floating:
                continue
            if op in ("max", "min", "xchg") and dtype in ("float16", "bfloat16"):
                continue
            yield op, dtype


def numbers(dtype: str, count: int) -> np.ndarray:
    rng = np.random.default_rng(5)
    kind = np.dtype(getattr(ml_dtypes, dtype) if dtype == "bfloat16" else dtype)
    return rng.integers(0, 9, count).astype(kind)


def check(launch, out: np.ndarray, old: np.ndarray) -> None:
    """The first launch, of which nobody knows how long it takes, is locked; of the others most are
    exclusive."""
    first_out, first_old = out.copy(), old.copy()
    launch(first_out, first_old)
    assert (first_out != out).any()
    for _ in range(4):
        next_out, next_old = out.copy(), old.copy()
        launch(next_out, next_old)
        np.testing.assert_array_equal(next_out, first_out)
        np.testing.assert_array_equal(next_old, first_old)


@pytest.mark.every(3)
@pytest.mark.parametrize(("op", "dtype"), list(kinds()))
def test_elements_anywhere(op: str, dtype: str):
    """Small whole numbers, so that the order of additions does not matter; one program."""
    x, index = numbers(dtype, 2048), np.random.default_rng(1).permutation(3000)[:2048]
    out = np.full(3000, 3, x.dtype)
    function = getattr(tl, f"atomic_{op}")

    def launch(out, old):
        rmw[(1,)](x, index, out, old, OP=function, SCOPE="gpu", N=2048)

    check(launch, out, np.zeros_like(x))


@pytest.mark.every(3)
@pytest.mark.parametrize(("op", "dtype"), list(kinds()))
def test_blocks(op: str, dtype: str):
    x, out = numbers(dtype, 4 * 256), numbers(dtype, 4 * 256 + 5)[::-1].copy()
    function = getattr(tl, f"atomic_{op}")

    def launch(out, old):
        block[(4,)](x, out, OP=function, N=256)

    check(launch, out, np.zeros(1))


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32"])
def test_compare_and_swap(dtype: str):
    x, index = numbers(dtype, 2048), np.random.default_rng(1).permutation(1024)
    out = numbers(dtype, 1024)[::-1].copy()

    def launch(out, old):
        swap[(1,)](x, index, out, old, N=1024)

    check(launch, out, np.zeros(1024, x.dtype))


@tritium.jit
def waiting(flag, N: tl.constexpr):
    tl.atomic_add(flag + tl.arange(0, N), 1)
    while tl.atomic_add(flag, 0) < 1:
        pass


@tritium.jit
def of_the_system(out, N: tl.constexpr):
    tl.atomic_add(out + tl.arange(0, N), 1, scope="sys")


@tritium.jit
def of_a_scalar(out, N: tl.constexpr):
    tl.atomic_add(out, N)


@tritium.jit
def of_a_tile(out, N: tl.constexpr):
    tl.atomic_add(out + tl.arange(0, N), 1)


@pytest.mark.parametrize(
    ("kernel", "exclusive"),
    [(waiting, False), (of_the_system, False), (of_a_scalar, False), (of_a_tile, True)],
)
def test_which_kernels_gain(kernel, exclusive: bool):
    out = np.zeros(64, np.int32)
    found = kernel[(1,)](out, N=64)
    assert found.metadata.exclusive is exclusive
    text = found.asm["llir"]
    assert "atomicrmw add" in text or "cmpxchg" in text
    assert bool(re.search(r"^exclusive\S*:", text, re.M)) is exclusive


def test_the_context_is_where_kernels_look():
    assert CONTEXT.fields["exclusive"].offset == 32
    assert SLOT.fields["capacity"].offset >= CONTEXT.size


WAITING = """
import sys, threading, time
import numpy as np
import tritium, tritium.language as tl
from tests.ops.atomics.test_exclusive_launch import setting, until_set
flag, out, other = (np.ones(1, np.int32) for _ in range(3))
for _ in range(20):
    until_set[(1,)](flag, out)  # known to be short
    setting[(1,)](other)
flag[0] = out[0] = 0
thread = threading.Thread(target=lambda: until_set[(1,)](flag, out))
thread.start()
while out[0] == 0:
    time.sleep(0.001)
setting[(1,)](flag)
thread.join()
print(out[0])
"""


@tritium.jit
def until_set(flag, out):
    tl.atomic_xchg(out, 1)
    while tl.atomic_add(flag, 0) == 0:
        pass
    tl.store(out, 7)


@tritium.jit
def setting(flag):
    tl.atomic_xchg(flag, 1)


def test_a_kernel_may_wait_for_one_that_another_thread_launches():
    """Whoever waits does not hold the GIL, which the other launch needs."""
    done = subprocess.run(
        [sys.executable, "-c", WAITING], capture_output=True, text=True, timeout=100,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "7\n"), done.stderr
