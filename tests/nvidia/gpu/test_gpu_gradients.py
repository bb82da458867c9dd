"""Attention's gradients in steps of few queries, and products that nearly fill shared memory, on a
real GPU, compared with torch: run with `pytest --device cuda`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.nvidia.test_resources import byte_product, scaled_product
from tests.simt.test_gradients import gradients

pytestmark = pytest.mark.gpu


@pytest.fixture
def torch() -> Any:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    return torch


@pytest.mark.parametrize("num_warps,depth,step,num_stages", [
    (4, 64, 32, 2), (8, 64, 16, 3), (8, 128, 32, 2), (8, 128, 32, 3), (4, 64, 64, 3),
])  # fmt: skip
@pytest.mark.parametrize("arch", [None, "sm80"])
def test_steps_of_few_queries(
    torch: Any, arch: str | None, num_warps: int, depth: int, step: int, num_stages: int
) -> None:
    length, options = 1024, {} if arch is None else {"arch": arch}
    q, k, v, do = (torch.randn(length, depth, device="cuda").half() / 4 for _ in range(4))
    lse, delta = (torch.randn(length, device="cuda") for _ in range(2))
    p = torch.exp2(q.double() @ k.double().T - lse[:, None]).tril()
    ds = p * (do.double() @ v.double().T - delta[:, None])
    for _ in range(3):  # a race shows in some runs
        dk, dv = (torch.full((length, depth), float("nan"), device="cuda") for _ in range(2))
        gradients[(length // 128,)](
            q, k, v, do, lse, delta, dk, dv, length, D=depth, BLOCK=128, STEP=step,
            num_warps=num_warps, num_stages=num_stages, **options,
        )  # fmt: skip
        for found, want in ((dv, p.T @ do.double()), (dk, ds.T @ q.double())):
            assert ((found.double() - want).norm() / want.norm()).item() < 3e-3


def test_a_result_that_changes_its_layout_in_parts(torch: Any) -> None:
    if torch.cuda.get_device_capability() < (8, 9):
        pytest.skip("products of 8-bit floats begin with sm_89")
    a, b = (torch.randn(128, 512, device="cuda").to(torch.float8_e4m3fn) for _ in range(2))
    c = torch.full((128, 128), float("nan"), device="cuda")
    byte_product[(1,)](a, b, c, 512, BLOCK=128, BK=64, num_warps=8, num_stages=3)
    want = a.double() @ b.double().T
    assert ((c.double() - want).norm() / want.norm()).item() < 1e-3


def test_a_scaled_product_that_nearly_fills_shared_memory(torch: Any) -> None:
    if torch.cuda.get_device_capability()[0] != 9:
        pytest.skip("the tiles are for Hopper's shared memory")
    steps, m, n, k = 3, 128, 256, 256
    a = torch.randn(m, steps * k, device="cuda").to(torch.float8_e4m3fn)
    codes = torch.randint(0, 16, (n, steps * k), device="cuda")
    packed = (codes[:, ::2] | codes[:, 1::2] << 4).to(torch.uint8)
    of_a, of_b = (
        torch.randint(124, 131, (rows, steps * k // 32), device="cuda", dtype=torch.uint8)
        for rows in (m, n)
    )
    c = torch.full((m, n), float("nan"), device="cuda")
    scaled_product[(1,)](
        a, of_a, packed, of_b, c, steps, BM=m, BN=n, BK=k, num_warps=8, num_stages=2
    )
    values = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6], device="cuda").double()
    numbers = values[codes & 7] * torch.where(codes > 7, -1, 1)
    left, right = (
        x * 2.0 ** (scale.double() - 127).repeat_interleave(32, 1)
        for x, scale in ((a.double(), of_a), (numbers, of_b))
    )
    want = left @ right.T
    assert ((c.double() - want).norm() / want.norm()).item() < 1e-3
