"""Bulk copies in the PTX, and the boxes that they move."""

from __future__ import annotations

import pytest

from tests.nvidia.support import KERNELS, in_order, to_ptx
from tritium.ir.tensor_maps import box
from tritium.passes.ttgir.layout_propagation import nvmma_encoding


@pytest.mark.parametrize(
    ("shape", "size", "want"),
    [((512,), 2, (256,)), ((64, 64), 2, (64, 64)), ((64, 128), 2, (64, 64)),
     ((512, 8), 4, (256, 8)), ((4, 64, 64), 2, (4, 64, 64)), ((4, 64, 128), 2, (1, 64, 64)),
     ((2, 3, 512, 8), 2, (1, 1, 256, 8)), ((300, 2, 8, 16), 2, (256, 2, 8, 16))],
)  # fmt: skip
def test_boxes(shape: tuple[int, ...], size: int, want: tuple[int, ...]):
    encoding = nvmma_encoding(shape, 8 * size, len(shape) - 1) if len(shape) > 1 else None
    assert box(shape, encoding, size) == want


def test_bulk_copies():
    text = to_ptx((KERNELS / "matmul_tma.ttgir").read_text())
    in_order(text, r"mbarrier\.init", r"mbarrier\.arrive\.expect_tx",
             r"cp\.async\.bulk\.tensor\.2d\.shared::cluster\.global", r"mbarrier\.try_wait\.parity",
             r"wgmma\.mma_async", r"cp\.async\.bulk\.tensor\.2d\.global\.shared::cta")  # fmt: skip
