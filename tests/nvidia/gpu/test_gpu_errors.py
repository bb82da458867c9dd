"""Bad input on a GPU: the message, and that the process and the next launch are well after it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tritium.errors import CompilationError, OutOfResources

pytestmark = pytest.mark.gpu


@tritium.jit
def double(x, o, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o + i, tl.load(x + i, i < n) * 2, i < n)


@pytest.fixture
def tensors() -> Iterator[Any]:
    """(x, o); afterwards a launch must work."""
    torch = pytest.importorskip("torch")
    x, o = torch.ones(256, device="cuda"), torch.zeros(256, device="cuda")
    yield x, o
    double[(4,)](x, o, 256, BLOCK=64)
    torch.cuda.synchronize()
    assert torch.equal(o, 2 * x)


@pytest.mark.parametrize("make", [lambda x: x.cpu(), lambda x: x.cpu().numpy()])
def test_memory_of_the_host(tensors: Any, make: Any):
    x, o = tensors
    message = r"Pointer argument \(at 0\) cannot be accessed from .*: argument 'x'"
    with pytest.raises(ValueError, match=message):
        double[(4,)](make(x), o, 256, BLOCK=64)


def test_pinned_memory_is_seen(tensors: Any):
    x, o = tensors
    pinned = x.cpu().pin_memory()
    double[(4,)](pinned, o, 256, BLOCK=64)


def test_object_that_is_no_tensor(tensors: Any):
    _, o = tensors
    with pytest.raises(TypeError):
        double[(4,)](object(), o, 256, BLOCK=64)


def test_number_that_does_not_fit(tensors: Any):
    x, o = tensors
    double[(4,)](x, o, 255, BLOCK=64)
    with pytest.raises((TypeError, OverflowError)):
        double[(4,)](x, o, 2**70, BLOCK=64)


def test_misaligned_views_are_compiled_for(tensors: Any):
    import torch

    x, o = torch.arange(300.0, device="cuda"), torch.zeros(300, device="cuda")
    for shift in (0, 1, 3, 4):
        double[(4,)](x[shift:], o[shift:], 256, BLOCK=64)
        assert torch.equal(o[shift : shift + 256], 2 * x[shift : shift + 256])


@pytest.mark.parametrize("warps", [3, 0, -4, 6])
def test_number_of_warps(tensors: Any, warps: int):
    x, o = tensors
    with pytest.raises((AssertionError, ValueError), match=r"power of 2|an int from 1 on"):
        double[(4,)](x, o, 256, BLOCK=64, num_warps=warps)


def test_too_many_threads(tensors: Any):
    x, o = tensors
    with pytest.raises(OutOfResources, match="out of resource: threads, Required: 2048"):
        double[(4,)](x, o, 256, BLOCK=64, num_warps=64)


@tritium.jit
def transposed(x, o, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i[:, None] * N + i[None, :])
    tl.store(o + i[:, None] * N + i[None, :], tl.gather(v, (i[:, None] + i[None, :]) % N, 1))


def test_too_much_shared_memory(tensors: Any):
    import torch

    x = torch.zeros(256, 256, device="cuda", dtype=torch.float32)
    with pytest.raises(OutOfResources, match="out of resource: shared memory, Required: 262144"):
        transposed[(1,)](x, x, N=256)


def test_grid_beyond_the_limits(tensors: Any):
    x, o = tensors
    with pytest.raises(RuntimeError, match="65535 x 65535 programs"):
        double[(1, 70000)](x, o, 256, BLOCK=64)


def test_empty_grid_does_nothing(tensors: Any):
    x, o = tensors
    double[(0,)](x, o, 256, BLOCK=64)
    assert not o.any()


@tritium.jit
def to_amd_fp8(x, o):
    i = tl.arange(0, 64)
    tl.store(o + i, tl.load(x + i).to(tl.float8e4b8).to(tl.float32))


def test_dtype_that_the_architecture_lacks(tensors: Any):
    x, o = tensors
    with pytest.raises(CompilationError, match="fp8e4b8 not supported in this architecture"):
        to_amd_fp8[(1,)](x, o)


def test_bad_machine_code_is_refused(tensors: Any, monkeypatch: pytest.MonkeyPatch):
    """The driver's error for a cubin that is none; another kernel still loads."""
    from tritium.runtime import driver

    with pytest.raises(RuntimeError, match=r"Triton Error \[CUDA\]"):
        driver.active.utils.load_binary("k", b"\x7fELF" + bytes(64), 0, 0)


def test_without_ptxas_the_driver_assembles(tensors: Any, monkeypatch: pytest.MonkeyPatch):
    from tritium import knobs

    x, o = tensors

    @tritium.jit
    def triple(x, o, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        tl.store(o + i, tl.load(x + i) * 3)

    monkeypatch.setattr(type(knobs.nvidia).ptxas, "find", lambda path: None)
    kernel = triple[(1,)](x, o, BLOCK=256)
    assert bytes(kernel.asm["cubin"]).lstrip().startswith(b"//")
    assert np.array_equal(o.cpu().numpy(), np.full(256, 3, np.float32))
