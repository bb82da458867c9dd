"""Conversions."""

import itertools

import ml_dtypes
import numpy as np
import pytest

import tritium.language as tl
from tests.language.support import NUMPY, block, eager

FP8 = [tl.float8e5, tl.float8e4nv, tl.float8e4b8, tl.float8e5b16]
WIDE = [tl.float16, tl.bfloat16, tl.float32, tl.float64]
INTS = [tl.int8, tl.int16, tl.int32, tl.int64, tl.uint8, tl.uint16, tl.uint32, tl.uint64]


def codes(dtype):
    return np.arange(256, dtype=np.uint8).view(NUMPY[dtype])


@pytest.mark.parametrize(("source", "target"), list(itertools.product(FP8, WIDE)), ids=str)
def test_every_fp8_code_widens_exactly(source, target):
    with eager():
        x = block(codes(source), source)
        found = x.to(target)
        exact = codes(source).astype(NUMPY[target])
        np.testing.assert_array_equal(found.value.astype(float), exact.astype(float))
        finite = np.isfinite(codes(source).astype(np.float32))
        back = found.to(source).value
        assert (back.view(np.uint8) == np.arange(256))[finite].all()


def e4b15(code):
    """sign, 4 bits of exponent with bias 15, 3 of mantissa; no infinities or NaN."""
    sign, exponent, mantissa = code >> 7, code >> 3 & 15, code & 7
    scale = 2.0 ** (exponent - 15) * (1 + mantissa / 8) if exponent else 2.0**-14 * mantissa / 8
    return -scale if sign else scale


def test_every_e4b15_code():
    expected = np.array([e4b15(c) for c in range(256)], np.float32)
    with eager():
        x = block(np.arange(256, dtype=np.uint8), tl.uint8).to(tl.float8e4b15, bitcast=True)
        assert x.dtype == tl.float8e4b15
        for target in WIDE:
            np.testing.assert_array_equal(
                x.to(target).value.astype(np.float32), expected.astype(NUMPY[target])
            )
        back = x.to(tl.float32).to(tl.float8e4b15).to(tl.uint8, bitcast=True)
        assert back.value.tolist() == list(range(256))


def test_narrowing_to_e4b15_rounds_and_saturates():
    with eager():

        def narrow(values):
            x = block(values, tl.float32).to(tl.float8e4b15)
            return x.to(tl.float32).value.tolist()

        assert narrow([1.0625, 1.1875, 5.0, -100.0]) == [1.0, 1.25, 1.875, -1.875]
        assert narrow([np.inf, np.nan])[0] == 1.875 and narrow([np.inf, np.nan])[1] == 1.875
        assert narrow([0.0, -0.0]) == [0.0, 0.0]


@pytest.mark.parametrize(("source", "target"), list(itertools.product(WIDE, WIDE)), ids=str)
def test_between_wide_floats(source, target):
    values = np.array([0.0, -0.0, 1.0, 1.001, -3.14159, 65504.0, 1e-7, np.inf, np.nan])
    given = values.astype(NUMPY[source])
    with eager(), np.errstate(all="ignore"):
        found = block(given[:8], source).to(target).value
        expected = given[:8].astype(NUMPY[target])
        np.testing.assert_array_equal(found.astype(float), expected.astype(float))


@pytest.mark.parametrize(("source", "target"), list(itertools.product(INTS, INTS)), ids=str)
@pytest.mark.every(3)
def test_between_integers(source, target):
    info = np.iinfo(NUMPY[source])
    given = np.array([0, 1, 100, info.max], NUMPY[source])
    with eager():
        found = block(given, source).to(target)
        assert found.dtype == target
        np.testing.assert_array_equal(found.value, given.astype(NUMPY[target]))


@pytest.mark.parametrize(("integer", "real"), list(itertools.product(INTS, WIDE)), ids=str)
@pytest.mark.every(2)
def test_between_integers_and_floats(integer, real):
    given = np.array([0, 1, 77, 127], NUMPY[integer])
    with eager():
        up = block(given, integer).to(real)
        np.testing.assert_array_equal(up.value, given.astype(NUMPY[real]))
        np.testing.assert_array_equal(up.to(integer).value, given)
    if integer.is_int_signed():
        with eager():
            assert block([-1.75, 1.75], real).to(integer).value.tolist() == [-1, 1]
            assert block([-2, 3], integer).to(real).value.tolist() == [-2.0, 3.0]
    else:
        with eager():
            top = np.iinfo(NUMPY[integer]).max
            expected = np.array([top], NUMPY[integer]).astype(NUMPY[real])
            np.testing.assert_array_equal(block([top], integer).to(real).value, expected)


def test_to_and_from_booleans():
    with eager():
        assert block([0, 2, -1, 256]).to(tl.int1).value.tolist() == [False, True, True, True]
        half = block([0.0, -0.0, 0.5, np.nan], tl.float32).to(tl.int1)
        assert half.value.tolist() == [False, False, True, True]
        assert block([True, False], tl.int1).to(tl.int32).value.tolist() == [1, 0]
        assert block([True, False], tl.int1).to(tl.float16).value.tolist() == [1, 0]
        assert block([0, 3], tl.int32).to(tl.float8e5).to(tl.int1).value.tolist() == [False, True]


def test_rounding_modes():
    value = np.float32(1 + 2**-11 + 2**-12)  # above the middle between two float16
    with eager():
        x = block([value, -value], tl.float32)
        step = 2.0**-10
        assert x.to(tl.float16).value.tolist() == [1 + step, -1 - step]
        assert x.to(tl.float16, "rtne").value.tolist() == [1 + step, -1 - step]
        assert x.to(tl.float16, fp_downcast_rounding="rtz").value.tolist() == [1, -1]
        y = block([1.9, 300.7], tl.float32)
        assert y.to(tl.float8e5, fp_downcast_rounding="rtz").value.tolist() == [1.75, 256]
        assert y.to(tl.bfloat16, fp_downcast_rounding="rtz").value.astype(float).tolist() == [
            1.8984375, 300,
        ]  # fmt: skip


def test_fp8_arithmetic_goes_through_casts():
    with eager():
        x = block([1.5, -2.0], tl.float8e5)
        assert (x.to(tl.float32) * 2).to(tl.float8e4nv).value.astype(float).tolist() == [3, -4]
        assert x.to(tl.float8e4nv).value.astype(float).tolist() == [1.5, -2]
        full = tl.full([4], 0.3, tl.float8e4nv)
        assert full.value.dtype == ml_dtypes.float8_e4m3fn and float(full.value[0]) == 0.3125


def test_bitcasts():
    with eager():
        one = block([1.0], tl.float32)
        assert one.to(tl.int32, bitcast=True).value.tolist() == [0x3F800000]
        assert one.to(tl.uint32, bitcast=True).dtype == tl.uint32
        assert block([-1], tl.int8).to(tl.uint8, bitcast=True).value.tolist() == [255]
        assert block([0x3C00], tl.int16).to(tl.float16, bitcast=True).value.tolist() == [1.0]
        with pytest.raises(ValueError, match=r"Cannot bitcast data-type of size 32 to .* size 16"):
            one.to(tl.float16, bitcast=True)


def test_wrong_casts():
    with eager():
        x = block([1.0], tl.float32)
        with pytest.raises(ValueError, match=r"'up'; 'rtne' .* and 'rtz'"):
            x.to(tl.float16, fp_downcast_rounding="up")
        with pytest.raises(ValueError, match="set only for truncating fp conversions"):
            x.to(tl.float64, fp_downcast_rounding="rtz")
        # A kernel for several dtypes names the rounding also where nothing is left to round.
        assert x.to(x.dtype, fp_downcast_rounding="rtne") is x
        with pytest.raises(TypeError, match="which is no dtype"):
            x.to(3)
        with pytest.raises(TypeError, match="pointers convert from integers, and"):
            x.to(tl.pointer_type(tl.int8))
    unsupported = pytest.raises(ValueError, match="type fp8e4nv not supported in this arch")
    with eager(supported_fp8_dtypes=("fp8e5",)), unsupported:
        block([1.0], tl.float32).to(tl.float8e4nv)


def test_constants_become_tensors():
    with eager():
        found = tl.constexpr(300).to(tl.uint8)
        assert found.dtype == tl.uint8 and int(found) == 44
        assert tl.constexpr(1.5).to(tl.float16).dtype == tl.float16


def test_pointer_casts():
    with eager():
        p = block([16, 32], tl.int64).to(tl.pointer_type(tl.float32))
        assert p.to(tl.pointer_type(tl.int8)).to(tl.int64).value.tolist() == [16, 32]
        with pytest.raises(TypeError, match=r"pointers convert .* to those of 64 bits"):
            p.to(tl.int32)
        assert p.to(tl.int1).value.tolist() == [True, True]
        assert p.to(tl.int64, bitcast=True).value.tolist() == [16, 32]
