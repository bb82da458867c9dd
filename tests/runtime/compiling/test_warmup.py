"""Compiling without launching."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tests.support.launching import StubDriver
from tritium import knobs
from tritium.runtime import AsyncCompileMode, FutureKernel


@pytest.fixture
def kernel() -> Any:
    @tritium.jit
    def fill(out, n, BLOCK: tl.constexpr = 16):
        i = tl.arange(0, BLOCK)
        tl.store(out + i, n, i < n)

    return fill


@pytest.mark.parametrize("dtype", [np.dtype("f4"), np.float32])
def test_dtypes_stand_for_tensors(kernel: Any, dtype: Any) -> None:
    compiled = kernel.warmup(dtype, 32, grid=(1,))
    assert compiled.src.signature == {"out": "*fp32", "n": "i32", "BLOCK": "constexpr"}
    kernel.warmup(dtype, n=48, grid=(5,))
    kernel.warmup(out=dtype, n=64, grid=lambda meta: (1,))
    (cache,) = kernel.device_caches.values()
    assert len(cache[0]) == 1


def test_torch_dtypes(kernel: Any) -> None:
    torch = pytest.importorskip("torch")
    assert kernel.warmup(torch.float32, 32, grid=(1,)).src.signature["out"] == "*fp32"
    first = kernel.warmup(torch.bfloat16, 32, grid=(1,))
    assert kernel.warmup(tritium.MockTensor(torch.bfloat16), 32, grid=(1,)) is first
    assert kernel.warmup(torch.zeros(3, dtype=torch.bfloat16), 32, grid=(1,)) is first


def test_a_dtype_as_a_constant() -> None:
    """It is the value of a constexpr parameter, by position and by keyword, through heuristics."""

    @tritium.jit
    def kernel(out, KIND: tl.constexpr, SIZE: tl.constexpr):
        tl.store(out, KIND == "float16")

    first = kernel.warmup(np.dtype("f4"), np.float16, 4, grid=(1,))
    assert first.src.constants[1,] is np.float16
    assert kernel.warmup(np.dtype("f4"), KIND=np.float16, SIZE=4, grid=(1,)) is first
    sized = tritium.heuristics({"SIZE": lambda nargs: 4})(kernel)
    assert sized.warmup(np.dtype("f4"), np.float16, grid=(1,)) is first


def test_a_launch_finds_what_was_warmed_up(kernel: Any) -> None:
    first = kernel.warmup(np.dtype("f4"), 32, grid=(1,))

    def hook(**_: Any) -> None:
        raise AssertionError("compiled again")

    knobs.runtime.jit_cache_hook = hook
    room = np.zeros(20, np.float32)
    out = room[-room.ctypes.data // 4 % 4 :][:16]
    assert kernel[(1,)](out, 32) is first
    assert (out == 32).all()


def test_nothing_runs(kernel: Any, stub: StubDriver) -> None:
    assert kernel.warmup(np.dtype("f4"), 32, grid=(1,)).module is None
    assert not stub.launches


def test_warmup_of_an_interpreted_kernel(monkeypatch: pytest.MonkeyPatch, kernel: Any) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert tritium.jit(kernel.fn).warmup(np.dtype("f4"), 32, grid=(1,)) is None


def test_asynchronous(kernel: Any) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(2) as executor, AsyncCompileMode(executor) as mode:
        futures = [kernel.warmup(np.dtype(d), 32, grid=(1,)) for d in ("f4", "f8", "f4")]
        assert all(isinstance(f, FutureKernel) for f in futures)
        assert futures[0] is futures[2] and len(mode.future_kernels) == 2
        with pytest.raises(RuntimeError, match=r"Another AsyncCompileMode is already active"):
            AsyncCompileMode(executor).__enter__()
    assert futures[0].name == "fill" and "ttir" in futures[1].asm
    assert kernel.warmup(np.dtype("f4"), 32, grid=(1,)) is futures[0].result()
    (cache,) = kernel.device_caches.values()
    assert len(cache[0]) == 2


def test_a_launch_in_asynchronous_mode_waits(kernel: Any) -> None:
    from concurrent.futures import ThreadPoolExecutor

    out = np.zeros(16, np.float32)
    with ThreadPoolExecutor(1) as executor, AsyncCompileMode(executor):
        kernel.warmup(out, 7, grid=(1,))
        kernel[(1,)](out, 7)
        assert out.sum() == 49


def test_errors_of_asynchronous_compilations() -> None:
    from concurrent.futures import ThreadPoolExecutor

    @tritium.jit
    def wrong(x):
        tl.store(x, undefined_name)  # noqa: F821  # pyright: ignore

    with ThreadPoolExecutor(1) as executor:
        error = pytest.raises(tritium.CompilationError, match=r"undefined_name")
        with error, AsyncCompileMode(executor):
            wrong.warmup(np.dtype("f4"), grid=(1,))
        with AsyncCompileMode(executor, ignore_errors=True):
            future = wrong.warmup(np.dtype("f4"), grid=(1,))
        with pytest.raises(tritium.CompilationError):
            future.result()
        assert future.result(ignore_errors=True) is None
