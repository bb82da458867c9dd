"""Scales of numbers of 8 bits inside of kernels, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tests.kernels.support import normal, place, torch
from tritium_kernels.numerics import InFlexData, OutFlexData
from tritium_kernels.numerics_details import flexpoint


@tritium.jit
def convert(
    x_ptr, y_ptr, back_ptr, expected_ptr, actual_ptr, checksum_ptr, n, SATURATE: tl.constexpr,
    B: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < n, other=1e9)
    y = flexpoint.float_to_flex(
        x, expected_ptr, actual_ptr, checksum_ptr, i < n, y_ptr, saturate_infs=SATURATE
    ).to(y_ptr.dtype.element_ty)
    tl.store(y_ptr + i, y, mask=i < n)
    tl.store(back_ptr + i, flexpoint.flex_to_float(y, expected_ptr), mask=i < n)


@pytest.mark.parametrize("kind", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_conversion(kind):
    x = 300 * normal(100)
    y, back = torch.zeros(100, dtype=kind, device=place()), torch.zeros(100, device=place())
    expected, actual = (torch.full((1,), v, device=place()) for v in (2.0, 0.0))
    checksum = torch.zeros(1, dtype=torch.int32, device=place())
    convert[(4,)](x, y, back, expected, actual, checksum, 100, SATURATE=True, B=32)
    most = torch.finfo(kind).max
    right = (x / 2).clamp(-most, most).to(kind)
    assert torch.equal(y.float(), right.float()) and torch.equal(back, 2 * right.float())
    assert abs(actual.item() - x.abs().max().item() / most) < 1e-6 * actual.item()
    parts = x.cpu().numpy().view(np.int32)
    folds = [np.bitwise_xor.reduce(parts[i : i + 32]) for i in range(0, 100, 32)]
    assert checksum.item() == np.sum(folds, dtype=np.int32)
    x[7] = torch.nan
    convert[(4,)](x, y, back, expected, actual, None, 100, SATURATE=True, B=32)
    assert actual.isnan() and y.float().isnan().sum() == 1


@tritium.jit
def both(a_ptr, b_ptr, y_ptr, most_ptr, B: tl.constexpr):
    i = tl.arange(0, B)
    a, b = tl.load(a_ptr + i), tl.load(b_ptr + i)
    tl.store(y_ptr + i, flexpoint.sm86_max_nan_xorsign_abs_f32(a, b))
    tl.store(y_ptr + B + i, flexpoint.sm86_min_nan_xorsign_abs_f32(a, b))
    tl.store(most_ptr, flexpoint.nan_propagating_absmax_reduce(a))
    tl.store(most_ptr + 1, flexpoint.nan_propagating_absmax_reduce(b))


def test_magnitudes():
    a = torch.tensor([1.0, -3.0, torch.nan, -0.0], device=place())
    b = torch.tensor([-2.0, -2.0, 5.0, -torch.inf], device=place())
    y, most = torch.zeros(8, device=place()), torch.zeros(2, device=place())
    both[(1,)](a, b, y, most, B=4)
    right = torch.tensor([-2.0, 3.0, torch.nan, torch.inf, -1.0, 2.0, torch.nan, 0.0])
    torch.testing.assert_close(y.cpu(), right, rtol=0, atol=0, equal_nan=True)
    assert most[0].isnan() and most[1] == torch.inf


def test_descriptions_of_scales():
    words = torch.zeros(4, dtype=torch.uint8)
    assert InFlexData(torch.float8_e5m2).view(words).dtype == torch.float8_e5m2
    wide = torch.zeros(4)
    assert InFlexData(torch.float8_e5m2).reinterpret(wide) is wide
    assert InFlexData(scale=torch.ones(3)).is_per_batch and not InFlexData().is_per_batch
    given = OutFlexData(None, torch.ones(1), None, torch.ones(1))
    assert list(given) == [given.expected_scale, None, given.checksum_scale]
    assert not given.is_per_batch
