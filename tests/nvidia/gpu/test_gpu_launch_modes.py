"""Cooperative grids, dependent launches and another architecture's pipeline, on a GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tritium
import tritium.language as tl
from tritium.tools.tensor_descriptor import TensorDescriptor

pytestmark = pytest.mark.gpu


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


@tritium.jit
def turns(x_ptr, arrived_ptr, rounds, BLOCK: tl.constexpr):
    """In each round every program reads what its neighbour wrote in the one before: all of them
    must run at the same time."""
    pid, count = tl.program_id(0), tl.num_programs(0)
    at = tl.arange(0, BLOCK)
    for turn in range(rounds):
        neighbour = (pid + 1) % count
        x = tl.load(x_ptr + (turn * count + neighbour) * BLOCK + at, volatile=True)
        tl.store(x_ptr + ((turn + 1) * count + pid) * BLOCK + at, x + 1)
        tl.debug_barrier()
        tl.atomic_add(arrived_ptr, 1)
        while tl.atomic_add(arrived_ptr, 0) < (turn + 1) * count:
            pass


def test_programs_of_a_cooperative_grid_wait_for_each_other(torch: Any) -> None:
    count, rounds, block = torch.cuda.get_device_properties(0).multi_processor_count, 20, 256
    x = torch.full((rounds + 1, count, block), -1, device="cuda", dtype=torch.int32)
    x[0] = torch.arange(count, device="cuda", dtype=torch.int32)[:, None]
    arrived = torch.zeros(1, device="cuda", dtype=torch.int32)
    turns[(count,)](x, arrived, rounds, BLOCK=block, launch_cooperative_grid=True)
    want = (torch.arange(count, device="cuda") + rounds) % count + rounds
    assert torch.equal(x[-1], want.int()[:, None].expand(count, block))


@tritium.jit
def fill(x_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + at, at, mask=at < n)


def test_a_cooperative_grid_that_does_not_fit_is_refused(torch: Any) -> None:
    x = torch.zeros(1 << 24, device="cuda", dtype=torch.int32)
    with pytest.raises(RuntimeError, match=r"(?i)cooperative"):
        fill[(1 << 16,)](x, x.numel(), BLOCK=256, launch_cooperative_grid=True)
    fill[(1 << 16,)](x, x.numel(), BLOCK=256)
    assert torch.equal(x, torch.arange(1 << 24, device="cuda", dtype=torch.int32))


@tritium.jit
def produce(x_ptr, delay, BLOCK: tl.constexpr):
    """Lets the next kernel start, takes its time, then writes."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    go = tl.inline_asm_elementwise(
        "griddepcontrol.launch_dependents; mov.u32 $0, $1;", "=r,r", [at], dtype=tl.int32,
        is_pure=False, pack=1,
    )  # fmt: skip
    value = go
    for _ in range(delay):
        value = (value * 5 + 3) % 1000003
    tl.store(x_ptr + at, value)


@tritium.jit
def consume(x_ptr, out_ptr, BLOCK: tl.constexpr):
    """Waits for the kernel before it, then reads."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ready = tl.inline_asm_elementwise(
        "griddepcontrol.wait; mov.u32 $0, $1;", "=r,r", [at], dtype=tl.int32,
        is_pure=False, pack=1,
    )  # fmt: skip
    tl.store(out_ptr + at, tl.load(x_ptr + ready) + 1)


def test_a_dependent_launch_waits_where_it_says(torch: Any) -> None:
    count, block, delay = 64, 256, 20000
    x = torch.zeros(count * block, device="cuda", dtype=torch.int32)
    out, want = torch.zeros_like(x), torch.zeros_like(x)
    produce[(count,)](want, delay, BLOCK=block)
    torch.cuda.synchronize()
    for _ in range(5):
        x.zero_()
        produce[(count,)](x, delay, BLOCK=block)
        kernel = consume[(count,)](x, out, BLOCK=block, launch_pdl=True)
        assert torch.equal(out, want + 1)
    assert kernel.metadata.launch_pdl


@tritium.jit
def matmul(a_ptr, b_ptr, c_ptr, N: tl.constexpr, BLOCK: tl.constexpr):
    m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    n = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, N, 32):
        k = start + tl.arange(0, 32)
        a = tl.load(a_ptr + m[:, None] * N + k[None, :])
        b = tl.load(b_ptr + k[:, None] * N + n[None, :])
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + m[:, None] * N + n[None, :], acc)


@pytest.mark.parametrize("arch", ["sm80", "sm89", None])
def test_the_pipeline_of_another_architecture(
    torch: Any, arch: str | None, fresh_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ampere's instructions on a newer GPU, by TRITON_OVERRIDE_ARCH."""
    if arch is not None:
        monkeypatch.setenv("TRITON_OVERRIDE_ARCH", arch)
    a, b = (torch.randn(256, 256, device="cuda", dtype=torch.float16) for _ in range(2))
    c = torch.full((256, 256), float("nan"), device="cuda")
    matmul.device_caches.clear()
    kernel = matmul[(4, 4)](a, b, c, N=256, BLOCK=64)
    torch.testing.assert_close(c, (a.double() @ b.double()).float(), atol=2e-3, rtol=2e-3)
    ptx = kernel.asm["ptx"]
    hopper = torch.cuda.get_device_capability()[0] == 9
    assert ("mma.sync" in ptx) == (arch is not None or not hopper)
    assert ("wgmma" in ptx) == (arch is None and hopper)


@tritium.jit
def matmul_t(a, b, c, N: tl.constexpr, BLOCK: tl.constexpr):
    """Of descriptors; the right operand is stored transposed."""
    m, n = tl.program_id(0) * BLOCK, tl.program_id(1) * BLOCK
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for k in range(0, N, 32):
        acc = tl.dot(a.load([m, k]), b.load([n, k]).T, acc)
    c.store([m, n], acc)


@pytest.mark.parametrize("stages", [1, 2, 4])
@pytest.mark.parametrize("arch", ["sm80", "sm120", None])
def test_transposed_operands_of_other_architectures(
    torch: Any, arch: str | None, stages: int, fresh_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if arch is not None:
        monkeypatch.setenv("TRITON_OVERRIDE_ARCH", arch)
    a, b = (torch.randn(512, 512, device="cuda", dtype=torch.float16) for _ in range(2))
    c = torch.full((512, 512), float("nan"), device="cuda")
    blocks = ((a, [64, 32]), (b, [64, 32]), (c, [64, 64]))
    descriptors = [TensorDescriptor.from_tensor(t, block) for t, block in blocks]
    matmul_t.device_caches.clear()
    matmul_t[(8, 8)](*descriptors, N=512, BLOCK=64, num_stages=stages)
    torch.testing.assert_close(c, (a.double() @ b.double().T).float(), atol=2e-3, rtol=2e-3)


def test_a_tensor_whose_memory_is_gone_is_named(torch: Any) -> None:
    good, gone = (torch.zeros(256, device="cuda", dtype=torch.int32) for _ in range(2))
    gone.untyped_storage().resize_(0)
    for _ in range(3):  # the later ones natively
        fill[(1,)](good, 256, BLOCK=256)
        fill[(1,)](torch.zeros(0, device="cuda", dtype=torch.int32), 0, BLOCK=256)
        with pytest.raises(ValueError, match=r"of shape \[256\] whose memory is not there"):
            fill[(1,)](gone, 256, BLOCK=256)
    assert good.tolist() == list(range(256))
