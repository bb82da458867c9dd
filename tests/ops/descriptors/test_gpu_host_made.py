"""Tensor descriptors made on the host, on a real GPU."""

from __future__ import annotations

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
def copy_block(source, target, i, j, RANK: tl.constexpr):
    if RANK == 1:
        target.store([i], source.load([i]))
    elif RANK == 2:
        target.store([i, j], source.load([i, j]))
    else:
        target.store([0, i, j], source.load([0, i, j]))


@pytest.mark.parametrize(
    ("shape", "block"),
    [((100,), (64,)), ((1000,), (512,)), ((40, 48), (16, 32)), ((600, 64), (512, 16)),
     ((3, 40, 80), (2, 8, 64)), ((64, 512), (8, 256))],
)  # fmt: skip
@pytest.mark.parametrize("dtype", ["float16", "float32", "int8"])
def test_host_descriptors(torch: Any, shape: Any, block: Any, dtype: str):
    """Ranks 1 to 3, blocks over the edge, boxes that take several copies."""
    kind = getattr(torch, dtype)
    x = torch.randint(-9, 9, shape, device="cuda").to(kind)
    if any(s * x.itemsize % 16 for s in x.stride()[:-1]):
        pytest.skip("no descriptor has these strides")
    o = torch.full(shape, 77, device="cuda").to(kind)
    make = TensorDescriptor.from_tensor
    # Over the edge; along the fastest axis by multiples of 16 bytes, as TMA demands.
    i = (shape[0] - block[0]) // 16 * 16 + 16 if len(shape) == 1 else shape[-2] - block[-2] + 2
    j = 16
    copy_block[(1,)](make(x, list(block)), make(o, list(block)), i, j, RANK=len(shape))
    want = torch.full(shape, 77, device="cuda").to(kind)
    starts = (i,) if len(shape) == 1 else (*[0] * (len(shape) - 2), i, j)
    at = tuple(slice(s, s + b) for s, b in zip(starts, block, strict=True))
    want[at] = x[at]  # a slice ends at the edge
    assert torch.equal(o, want)


@tritium.jit
def scatter_rows(source, target, index, N: tl.constexpr):
    rows = tl.load(index + tl.arange(0, 8))
    target.scatter(source.gather(rows, 4) * 2, rows, 8)
    target.atomic_add([0, 0], tl.full([1, N], 3, tl.int32))


def test_descriptors_that_only_pointers_serve(torch: Any):
    """gather, scatter and reductions: the kernel gets the pointer, the shape and the strides."""
    x = torch.arange(20 * 32, dtype=torch.int32, device="cuda").reshape(20, 32)
    o = torch.zeros_like(x)
    index = torch.tensor([3, 1, 19, 0, 7, 5, 30, 2], dtype=torch.int32, device="cuda")
    make = TensorDescriptor.from_tensor
    scatter_rows[(1,)](make(x, [1, 8]), make(o, [1, 8]), index, N=8)
    want = torch.zeros_like(x)
    rows = index[index < 20].long()
    want[rows, 8:16] = 2 * x[rows, 4:12]
    want[0, :8] += 3
    assert torch.equal(o, want)


@pytest.mark.parametrize("arch", ["sm80", "sm90"])
def test_descriptors_for_older_pipelines(torch: Any, arch: str):
    x = torch.randn(40, 48, device="cuda")
    o, make = torch.zeros_like(x), TensorDescriptor.from_tensor
    copy_block[(1,)](make(x, [16, 32]), make(o, [16, 32]), 30, 16, RANK=2, arch=arch)
    assert torch.equal(o[30:, 16:], x[30:, 16:]) and not o[:30].any() and not o[:, :16].any()
