"""Loops split among warps on a real GPU, compared with torch: run with `pytest --device cuda`."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import tritium
from benchmarks import gpu_kernels
from tests.support import split_loops
from tritium.tools.tensor_descriptor import TensorDescriptor

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
    torch = pytest.importorskip("torch")
    if torch.cuda.get_device_capability()[0] != 9:
        pytest.skip("loops are split for Hopper")
    torch.manual_seed(0)
    tritium.set_allocator(
        lambda size, alignment, stream: torch.empty(size, dtype=torch.int8, device="cuda")
    )
    return torch


@pytest.mark.parametrize("m,n,k", [(128, 256, 64), (300, 200, 72), (1000, 1112, 1336)])
@pytest.mark.parametrize(
    "bm,bn,warps,stages", [(64, 64, 4, 2), (128, 128, 8, 3), (128, 128, 4, 4), (128, 256, 8, 4)]
)
@pytest.mark.parametrize("name", ["matmul_blocks", "persistent", "persistent_made"])
def test_products(
    torch: Any, name: str, bm: int, bn: int, warps: int, stages: int, m: int, n: int, k: int
) -> None:
    a, b = (torch.randn(rows, k, device="cuda", dtype=torch.float16) for rows in (m, n))
    out = torch.full((m, n), float("nan"), device="cuda", dtype=torch.float16)
    blocks = ((a, [bm, 64]), (b, [bn, 64]), (out, [bm, bn]))
    made = [TensorDescriptor.from_tensor(*p) for p in blocks]
    more = {} if name == "matmul_blocks" else {"SUBTILE": False}
    tiles = tritium.cdiv(m, bm) * tritium.cdiv(n, bn)
    kernel = getattr(gpu_kernels, name)[(tiles if name == "matmul_blocks" else min(tiles, 5),)]
    arguments = (a, b, out) if name == "persistent_made" else made
    want = a.double() @ b.double().T
    for _ in range(3):  # a race shows in some runs
        out.fill_(float("nan"))
        compiled = kernel(*arguments, m, n, k, BM=bm, BN=bn, BK=64, GROUP=8, SPLIT=True,
                          num_warps=warps, num_stages=stages, **more)  # fmt: skip
        assert compiled.metadata.num_warps == warps + 4
        assert (out.double() - want).norm() / want.norm() < 1e-3


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    "depth,keys,warps,stages", [(64, 64, 4, 3), (64, 128, 8, 2), (128, 64, 8, 3), (128, 128, 8, 2)]
)
def test_attention(
    torch: Any, depth: int, keys: int, warps: int, stages: int, causal: bool
) -> None:
    heads, length = 3, 1024
    q, k, v = (
        torch.randn(heads * length, depth, device="cuda", dtype=torch.float16) for _ in range(3)
    )
    out, top = torch.full_like(q, float("nan")), torch.empty(heads * length, device="cuda")
    blocks = ((q, [128, depth]), (k, [keys, depth]), (v, [keys, depth]), (out, [128, depth]))
    made = [TensorDescriptor.from_tensor(*p) for p in blocks]
    compiled = gpu_kernels.attention[(length // 128, heads)](
        *made, top, length, depth**-0.5, D=depth, BM=128, BN=keys, CAUSAL=causal, SPLIT=True,
        num_warps=warps, num_stages=stages,
    )  # fmt: skip
    assert compiled.metadata.num_warps == warps + 4
    parts = [t.view(1, heads, length, depth).float() for t in (q, k, v)]
    attend = torch.nn.functional.scaled_dot_product_attention
    want = attend(*parts, is_causal=causal, scale=depth**-0.5).reshape(heads * length, depth)
    assert (out.float() - want).norm() / want.norm() < 3e-3


@pytest.mark.parametrize("num_warps,num_stages", [(2, 2), (4, 3), (8, 4)])
@pytest.mark.parametrize("name", split_loops.RESULTS)
def test_loops(torch: Any, name: str, num_warps: int, num_stages: int) -> None:
    shape = split_loops.SHAPE
    columns = shape["BK"] * split_loops.ITERATIONS
    a, b = (
        torch.randn(shape[rows], columns, device="cuda", dtype=torch.float16)
        for rows in ("BM", "BN")
    )
    exact = [t.double().cpu().numpy() for t in (a, b)]
    want = torch.tensor(split_loops.RESULTS[name](*exact))
    out = torch.full(tuple(want.shape), float("nan"), device="cuda", dtype=torch.float16)
    blocks = ((a, ["BM", "BK"]), (b, ["BN", "BK"]), (out, ["BM", "BN"]))
    made = [TensorDescriptor.from_tensor(t, [shape[n] for n in names]) for t, names in blocks]
    for _ in range(3):
        out.fill_(float("nan"))
        compiled = getattr(split_loops, name)[(2,)](
            *made, split_loops.ITERATIONS, **shape, num_warps=num_warps, num_stages=num_stages
        )
        assert compiled.metadata.num_warps > num_warps
        torch.testing.assert_close(out.double().cpu(), want, atol=4e-2, rtol=2e-2)
