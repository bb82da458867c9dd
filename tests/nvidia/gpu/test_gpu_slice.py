"""Kernels on a real GPU, compared with torch: run with `pytest --device cuda`."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tritium
import tritium.language as tl
from tests.nvidia.support import KERNELS
from tritium.errors import OutOfResources

pytestmark = pytest.mark.gpu
TIME_LIMIT = 120.0


@pytest.fixture(autouse=True)
def watchdog() -> Iterator[None]:
    """A hung kernel cannot be interrupted: end the process."""
    timer = threading.Timer(TIME_LIMIT, lambda: os._exit(3))
    timer.start()
    yield
    timer.cancel()


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


@tritium.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x, y = tl.load(x_ptr + offsets, mask=mask), tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


@pytest.mark.parametrize("n", [1, 127, 1024, 98432, 1 << 20])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32", "int64", "int8"])
def test_add(torch: Any, n: int, dtype: str):
    kind = getattr(torch, dtype)
    x, y = (torch.randint(-50, 50, (n,), device="cuda").to(kind) for _ in range(2))
    out = torch.full((n + 64,), 77, dtype=kind, device="cuda")
    add[(tritium.cdiv(n, 1024),)](x, y, out, n, BLOCK=1024)
    assert torch.equal(out[:n], x + y) and bool((out[n:] == 77).all())


@tritium.jit
def softmax(out_ptr, x_ptr, stride, n_columns, BLOCK: tl.constexpr):
    row, columns = tl.program_id(0), tl.arange(0, BLOCK)
    mask = columns < n_columns
    x = tl.load(x_ptr + row * stride + columns, mask=mask, other=-float("inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(out_ptr + row * stride + columns, e / tl.sum(e, 0), mask=mask)


@pytest.mark.parametrize("shape", [(5, 1), (64, 100), (128, 1024), (33, 5000)])
@pytest.mark.parametrize("warps", [1, 4, 16])
def test_softmax(torch: Any, shape: tuple[int, int], warps: int):
    x = torch.randn(shape, device="cuda") * 10
    out = torch.full_like(x, float("nan"))
    block = tritium.next_power_of_2(shape[1])
    softmax[(shape[0],)](out, x, shape[1], shape[1], BLOCK=block, num_warps=warps)
    torch.testing.assert_close(out, torch.softmax(x, 1), atol=1e-6, rtol=1e-5)


@tritium.jit
def matmul(
    a_ptr, b_ptr, c_ptr, M, N, K, a_stride, b_stride, c_stride,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        a_mask = (m[:, None] < M) & (k[None, :] + start < K)
        b_mask = (k[:, None] + start < K) & (n[None, :] < N)
        a = tl.load(a_ptr + m[:, None] * a_stride + k[None, :] + start, mask=a_mask, other=0.0)
        b = tl.load(b_ptr + (k[:, None] + start) * b_stride + n[None, :], mask=b_mask, other=0.0)
        acc = tl.dot(a, b, acc)
    mask = (m[:, None] < M) & (n[None, :] < N)
    tl.store(c_ptr + m[:, None] * c_stride + n[None, :], acc, mask=mask)


@pytest.mark.parametrize("sizes", [(128, 128, 64), (256, 512, 192), (100, 70, 50), (512, 512, 512)])
@pytest.mark.parametrize("block", [(64, 64, 32, 4), (128, 128, 64, 4), (128, 256, 64, 8)])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_matmul(torch: Any, sizes: tuple[int, ...], block: tuple[int, ...], dtype: str):
    (m, n, k), (bm, bn, bk, warps) = sizes, block
    a = torch.randn(m, k, device="cuda").to(getattr(torch, dtype))
    b = torch.randn(k, n, device="cuda").to(getattr(torch, dtype))
    c = torch.full((m, n), float("nan"), device="cuda")
    grid = (tritium.cdiv(m, bm), tritium.cdiv(n, bn))
    matmul[grid](a, b, c, m, n, k, k, n, n, BM=bm, BN=bn, BK=bk, num_warps=warps)
    want = a.double() @ b.double()
    assert float((c.double() - want).norm() / want.norm()) < 1e-5


@pytest.mark.parametrize("name", ["matmul_wgmma", "matmul_mma"])
def test_matmul_from_ttgir(torch: Any, name: str):
    """Pipelined loops, as Triton writes them for Hopper and for Ampere."""
    n, (bm, bn) = 1024, (128, 256 if name == "matmul_wgmma" else 128)
    a, b = (torch.randn(n, n, device="cuda", dtype=torch.float16) for _ in range(2))
    c = torch.full_like(a, float("nan"))
    kernel = tritium.compile(KERNELS / f"{name}.ttgir")
    kernel[(n // bm) * (n // bn), 1, 1](a, b, c, n, n, n, n, n, n)
    torch.testing.assert_close(c, a @ b, atol=1e-1, rtol=1e-2)


def test_matmul_with_bulk_copies(torch: Any):
    tools = pytest.importorskip("triton.tools.tensor_descriptor")
    make, n = tools.TensorDescriptor.from_tensor, 1024
    a, b = (torch.randn(n, n, device="cuda", dtype=torch.float16) for _ in range(2))
    c = torch.full_like(a, float("nan"))
    kernel = tritium.compile(KERNELS / "matmul_tma.ttgir")
    kernel[64, 1, 1](make(a, [128, 64]), make(b, [128, 64]), make(c, [128, 128]), n, n, n)
    torch.testing.assert_close(c, a @ b.T, atol=1e-1, rtol=1e-2)


@tritium.jit
def count(x_ptr, sum_ptr, ticket_ptr, order_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    tl.atomic_add(sum_ptr + tl.arange(0, BLOCK), x)
    ticket = tl.atomic_add(ticket_ptr, 1)
    tl.store(order_ptr + ticket, tl.program_id(0))


def test_atomics(torch: Any):
    x = torch.randint(-8, 8, (300, 256), device="cuda").float()
    total = torch.zeros(256, device="cuda")
    ticket, order = (torch.zeros(n, device="cuda", dtype=torch.int32) for n in (1, 300))
    count[(300,)](x, total, ticket, order, BLOCK=256)
    assert torch.equal(total, x.sum(0)) and int(ticket) == 300
    assert sorted(order.tolist()) == list(range(300))


def test_current_stream_is_used(torch: Any):
    x = torch.randn(1 << 22, device="cuda")
    out, stream = torch.empty_like(x), torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(20_000_000)
        y = x * 2
        add[(4096,)](y, y, out, x.numel(), BLOCK=1024)
    stream.synchronize()
    assert torch.equal(out, x * 2 + x * 2)


def test_cpu_tensor_is_refused(torch: Any):
    x = torch.randn(16)
    y = torch.randn(16, device="cuda")
    with pytest.raises(ValueError, match=r"Pointer argument \(at 0\) cannot be accessed"):
        add[(1,)](x, y, y, 16, BLOCK=16)


def test_too_many_threads(torch: Any):
    x = torch.randn(8192, device="cuda")
    with pytest.raises(OutOfResources, match="out of resource: threads"):
        add[(1,)](x, x, x, 8192, BLOCK=8192, num_warps=64)


def test_too_much_shared_memory(torch: Any, tmp_path: Path):
    text = (KERNELS / "matmul_wgmma.ttgir").read_text().replace("4x128x64xf16", "16x128x64xf16")
    path = tmp_path / "large.ttgir"
    path.write_text(text)
    x = torch.zeros(16, device="cuda", dtype=torch.float16)
    with pytest.raises(OutOfResources, match="out of resource: shared memory, Required: "):
        tritium.compile(path)[(1, 1, 1)](x, x, x, 1, 1, 1, 1, 1, 1)


def test_properties_match_torch(torch: Any):
    from tritium.runtime import driver

    found = driver.active.utils.get_device_properties(0)
    known = torch.cuda.get_device_properties(0)
    assert found["multiprocessor_count"] == known.multi_processor_count
    assert driver.active.get_current_target().arch == known.major * 10 + known.minor
