"""Several devices and streams: each launch is on the caller's current ones."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import tritium
import tritium.language as tl
from tritium.runtime import driver

pytestmark = pytest.mark.gpu


@tritium.jit
def scale_kernel(x_ptr, out_ptr, factor, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=mask) * factor, mask=mask)


@tritium.jit
def wait_kernel(flag_ptr, out_ptr):
    """Ends when another kernel, on another stream, sets the flag."""
    while tl.atomic_add(flag_ptr, 0) == 0:
        pass
    tl.store(out_ptr, 1)


@tritium.jit
def set_kernel(flag_ptr):
    tl.atomic_xchg(flag_ptr, 1)


@pytest.fixture
def torch() -> Any:
    import torch

    return torch


@pytest.fixture
def two(torch: Any) -> Any:
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    return torch


def scaled(torch: Any, device: int, factor: float) -> bool:
    """Whether a launch on that device, made current, does what it should."""
    with torch.cuda.device(device):
        x = torch.randn(10_000, device=f"cuda:{device}")
        out = torch.empty_like(x)
        scale_kernel[(10,)](x, out, factor, x.numel(), BLOCK=1024)
        return bool(torch.equal(out, x * factor))


def test_each_device_has_its_kernels(two: Any):
    for device in (0, 1, 0, 1):
        assert scaled(two, device, 2.0 + device)
    caches = scale_kernel.device_caches
    kernels = [next(iter(caches[device][0].values())) for device in (0, 1)]
    assert kernels[0] is not kernels[1] and kernels[0].function != kernels[1].function


def test_threads_have_their_own_devices(two: Any):
    results: dict[int, bool] = {}

    def work(number: int) -> None:
        results[number] = all(scaled(two, number % 2, 1.0 + number) for _ in range(20))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == dict.fromkeys(range(4), True)


def test_the_current_device_is_torchs(two: Any):
    with two.cuda.device(1):
        assert driver.active.get_current_device() == 1
    assert driver.active.get_current_device() == 0


def test_a_new_thread(torch: Any):
    found: list[bool] = []
    thread = threading.Thread(target=lambda: found.append(scaled(torch, 0, 3.0)))
    thread.start()
    thread.join()
    assert found == [True]


def test_streams_overlap(torch: Any):
    """A kernel waits for what a later one, on another stream, does."""
    flag = torch.zeros(1, dtype=torch.int32, device="cuda")
    out = torch.zeros(1, dtype=torch.int32, device="cuda")
    other = torch.zeros(1, dtype=torch.int32, device="cuda")
    # Loaded before: loading a module waits for what runs.
    set_kernel[(1,)](other)
    wait_kernel[(1,)](other, out)
    torch.cuda.synchronize()
    out.zero_()
    first, second = torch.cuda.Stream(), torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(first):
        wait_kernel[(1,)](flag, out)
    with torch.cuda.stream(second):
        set_kernel[(1,)](flag)
    torch.cuda.synchronize()
    assert int(out) == 1
