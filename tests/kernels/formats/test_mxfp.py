"""Conversions to and from MX formats: bit for bit those of torch's functions."""

from __future__ import annotations

import pytest

from tests.kernels.support import normal, place, torch
from tritium_kernels.errors import ArgumentError
from tritium_kernels.numerics_details.mxfp import (
    DequantScaleRoundingMode,
    downcast_to_mxfp,
    downcast_to_mxfp_torch,
    upcast_from_mxfp,
    upcast_from_mxfp_torch,
)

KINDS = (
    torch.uint8, torch.float8_e4m3fn, pytest.param(torch.float8_e5m2, marks=pytest.mark.slow)
)  # fmt: skip


def check(x, kind, axis: int, mode=DequantScaleRoundingMode.ROUND_UP) -> None:
    found = downcast_to_mxfp(x, kind, axis, DEQUANT_SCALE_ROUNDING_MODE=mode)
    right = downcast_to_mxfp_torch(x.cpu(), kind, axis, DEQUANT_SCALE_ROUNDING_MODE=mode)
    for ours, theirs in zip(found, right, strict=True):
        ours, theirs = ours.cpu().float(), theirs.float()
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0, equal_nan=True)
    up = upcast_from_mxfp(*found, x.dtype, axis)
    exact = upcast_from_mxfp_torch(*right, x.dtype, axis)
    torch.testing.assert_close(up.cpu(), exact, rtol=0, atol=0, equal_nan=True)


@pytest.mark.every(2)
@pytest.mark.parametrize("kind", KINDS)
def test_formats(kind):
    check(normal(7, 100) * torch.exp(5 * normal(7, 100, seed=1)), kind, 1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", DequantScaleRoundingMode)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("shape", "axis"), [((100, 7), 0), ((2, 64, 33), 1), ((5, 2), 1)])
def test_axes(shape, axis: int, dtype, mode, kind):
    x = normal(*shape) * torch.exp(3 * normal(*shape, seed=1))
    check(x.to(dtype), kind, axis, mode)


def test_every_code_of_e2m1_and_ties():
    """Halfway between two codes the even one is taken."""
    x = [0, 0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5, 6, -0.25, -0.75, -1.25, -5, -0.0, 0.2, 0.3]
    y = [0, 0.00, 1.00, 1.00, 2.00, 2.0, 4.0, 4, 6, -0.00, -1.00, -1.00, -4, -0.0, 0.0, 0.5]
    given = torch.tensor([x], device=place())
    found = upcast_from_mxfp(*downcast_to_mxfp(given, torch.uint8, 1), torch.float32, 1)
    assert found.tolist() == [y]


def test_scales_of_the_largest_power_of_two():
    """Rounded down, a scale is 2**floor(log2(33 / 4)): multiples of it up to 4 are kept."""
    x = torch.zeros(1, 32, device=place())
    x[0, :6] = torch.tensor([33.0, 24.0, 16.0, 8.0, 4.0, -32.0])
    for down in (downcast_to_mxfp, downcast_to_mxfp_torch):
        values, scales = down(
            x, torch.uint8, 1, DEQUANT_SCALE_ROUNDING_MODE=DequantScaleRoundingMode.ROUND_DOWN
        )
        assert scales.item() == 127 + 3
        assert torch.equal(upcast_from_mxfp(values, scales, x.dtype, 1)[:, 1:], x[:, 1:])


def test_large_numbers_are_cut_off():
    """Finite numbers stay finite; an infinity of float8_e5m2 stays one."""
    kind, most = torch.float8_e5m2, torch.finfo(torch.float16).max
    x = torch.tensor([57344.0, -57344.0, torch.inf, 1.0], device=place()).repeat(8)[None].to(kind)
    scales = torch.tensor([[129]], dtype=torch.uint8, device=place())
    for up in (upcast_from_mxfp, upcast_from_mxfp_torch):
        assert up(x, scales, torch.float16, 1)[0, :4].tolist() == [most, -most, torch.inf, 4.0]


@pytest.mark.every(2)
@pytest.mark.parametrize("kind", KINDS)
def test_special_numbers(kind):
    x = torch.zeros(4, 32, device=place())
    x[0, :3] = torch.tensor([torch.nan, torch.inf, 1.0])
    x[1], x[2], x[3, 0] = 1e-42, 3e38, -1e-30
    check(x, kind, 1)
    values, scales = downcast_to_mxfp(x, kind, 1)
    assert scales[0] == 254
    scales[:] = 255
    assert upcast_from_mxfp(values, scales, torch.float32, 1).isnan().all()
    empty = downcast_to_mxfp(torch.empty(0, 64, device=place()), kind, 1)
    assert empty[1].shape == (0, 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: downcast_to_mxfp(x, torch.int8, 1), "out_dtype is torch.int8; accepted: torch"),
        (lambda x: downcast_to_mxfp(x, torch.uint8, 2), "axis is 2; accepted: -2 to 1"),
        (lambda x: downcast_to_mxfp(x, torch.uint8, 1), "x has 3 elements along axis 1; accepted"),
        (lambda x: upcast_from_mxfp(x, x, torch.float32, 1), "tensor has dtype float32; accepted"),
        (lambda x: upcast_from_mxfp(x.byte(), x.byte(), torch.float32, 1), "scale has shape"),
    ],
)  # fmt: skip
def test_errors(call, message: str):
    with pytest.raises(ArgumentError, match=message):
        call(normal(2, 3))
