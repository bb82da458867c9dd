"""fp4 numbers and their scales, against tables and plain arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tritium.tools.mxfp import MXFP4Tensor, MXScaleTensor, fp8e8m0_to_float32

E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)
VALUES = np.concatenate([E2M1, -E2M1])


def kinds() -> list[Any]:
    try:
        import torch
    except ImportError:
        return [np.asarray]
    return [np.asarray, torch.tensor]


@pytest.fixture(params=kinds(), ids=lambda make: make.__module__.partition(".")[0])
def make(request: pytest.FixtureRequest) -> Any:
    return request.param


def nearest(value: float) -> float:
    """The nearest number; of two the one with the even code, as the mantissa is the last bit."""
    distances = np.abs(E2M1 - min(abs(value), 6.0))
    best = np.flatnonzero(distances == distances.min())
    code = next((c for c in best if c % 2 == 0), best[0])
    return float(np.copysign(E2M1[code], value))


def test_all_codes_and_what_lies_between(make: Any):
    values = np.concatenate([np.linspace(-8, 8, 1025), [0.25, -0.25, 5, 2.5, 1e-30, np.inf]])
    values = values.astype(np.float32)
    made = MXFP4Tensor(make(values))
    want = np.array([nearest(v) for v in values], np.float32)
    floats = made.to(__import__(type(make(values)).__module__).float32)
    np.testing.assert_array_equal(np.asarray(floats), want)
    assert type(made.data) is type(make(values)) and made.size == values.shape
    np.testing.assert_array_equal(np.asarray(made.data), [np.flatnonzero(
        (v == VALUES) & (np.signbit(VALUES) == np.signbit(v)))[0] for v in want])  # fmt: skip

    nans = MXFP4Tensor(make(np.array([np.nan, -np.nan], np.float32)))
    assert np.asarray(nans.data).tolist() == [7, 15]


@pytest.mark.parametrize("shape", [(6,), (5,), (4, 6), (3, 5, 7), (2, 0)])
def test_packing(make: Any, shape: tuple[int, ...]):
    rng = np.random.default_rng(0)
    made = MXFP4Tensor(make(rng.choice(VALUES, shape).astype(np.float32)))
    for dim in range(-1, len(shape)):
        packed = made.to_packed_tensor(dim)
        assert packed.shape[dim] == (shape[dim] + 1) // 2
        unpacked = made.unpack_packed_tensor(packed, dim, shape)
        np.testing.assert_array_equal(np.asarray(unpacked), np.asarray(made.data))
    flat = MXFP4Tensor(make(np.array([0.5, -6.0, 1.0], np.float32)))
    assert np.asarray(flat.to_packed_tensor(0)).tolist() == [0xF1, 0x02]
    with pytest.raises(AssertionError, match="dim is 2; the tensor has 1 dim"):
        flat.to_packed_tensor(2)
    with pytest.raises(ValueError, match=r"shape \(2,\), which is not \(6,\) with two in one"):
        flat.unpack_packed_tensor(flat.to_packed_tensor(0), 0, (6,))


def test_scales_round_down(make: Any):
    values = np.array([1, 1.5, 2, 3.99, 0.75, 2.0**-127, 2.0**-149, 3e38, 0, -1, np.inf, np.nan],
                      np.float32)  # fmt: skip
    made = MXScaleTensor(make(values))
    codes = [127, 127, 128, 128, 126, 0, 0, 254, 255, 255, 255, 255]
    assert np.asarray(made.data).tolist() == codes
    floats = np.asarray(made.to(__import__(type(made.data).__module__).float32))
    np.testing.assert_array_equal(floats[:8], [2.0 ** (c - 127) for c in codes[:8]])
    assert np.isnan(floats[8:]).all()


def test_random():
    made = MXFP4Tensor(size=(50, 40)).random()
    assert tuple(made.data.shape) == (50, 40)
    assert set(np.asarray(made.data).ravel().tolist()) == set(range(16))
    scales = MXScaleTensor(size=(500,)).random(1 / 4, 9.0)
    assert set(np.asarray(scales.data).tolist()) == {125, 126, 127, 128, 129, 130}
    assert np.asarray(MXScaleTensor(size=(5000,)).random().data).max() == 254
    with pytest.raises(ValueError, match=r"no scale from 4 to 2"):
        scales.random(4, 2)


def test_what_is_refused():
    with pytest.raises(ValueError, match=r"MXFP4Tensor: data or size is required"):
        MXFP4Tensor()
    with pytest.raises(TypeError, match=r"MXScaleTensor: data is list; a tensor of torch or a Num"):
        MXScaleTensor([1.0])
    with pytest.raises(TypeError, match=r"no floating-point dtype"):
        MXFP4Tensor(np.zeros(2, np.float32)).to(np.int32)


def test_scales_as_numbers():
    codes = np.arange(256, dtype=np.uint8)
    want = np.where(codes == 255, np.nan, 2.0 ** (codes.astype(np.float64) - 127))
    np.testing.assert_array_equal(fp8e8m0_to_float32(codes), want.astype(np.float32))
    torch = pytest.importorskip("torch")
    for given in (torch.from_numpy(codes), torch.from_numpy(codes).view(torch.float8_e8m0fnu)):
        found = fp8e8m0_to_float32(given)
        assert found.dtype == torch.float32
        np.testing.assert_array_equal(found.numpy(), want.astype(np.float32))
    with pytest.raises(TypeError, match="scale holds float32; bytes are required"):
        fp8e8m0_to_float32(want.astype(np.float32))
    with pytest.raises(TypeError, match="scale is list; a tensor or array is required"):
        fp8e8m0_to_float32([1])
