"""Elementary functions and what they refuse."""

import math

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tests.language.support import block, eager
from tritium.language.extra import libdevice

FUNCTIONS = {
    "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2, "sin": np.sin, "cos": np.cos,
    "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "floor": np.floor, "ceil": np.ceil,
    "erf": np.vectorize(math.erf),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values(name):
    x = np.array([0.1, 0.5, 1.0, 2.75])
    with eager():
        for dtype in (tl.float32, tl.float64):
            given = block(x, dtype)
            expected = FUNCTIONS[name](given.value.astype(np.float64))
            for found in (getattr(tl, name)(given), getattr(given, name)(),
                          getattr(tl.math, name)(given)):  # fmt: skip
                assert found.dtype == dtype
                np.testing.assert_allclose(found.value, expected, rtol=1e-6)
        with pytest.raises(ValueError, match=r"Expected dtype \['fp32', 'fp64'\] but got fp16"):
            getattr(tl, name)(block(x, tl.float16))


def test_exact_functions():
    with eager():
        x, y = block([1.0, 2.0], tl.float32), block([3.0, 7.0], tl.float32)
        assert (tl.div_rn(x, y).value == x.value / y.value).all()
        assert (tl.fdiv(x, y, ieee_rounding=True).value == x.value / y.value).all()
        assert (tl.sqrt_rn(y).value == np.sqrt(y.value)).all()
        assert tl.fma(x, y, 1.0).value.tolist() == [4, 15]
        with pytest.raises(ValueError, match=r"Expected dtype .'fp32'. but got fp64"):
            tl.sqrt_rn(block([1.0], tl.float64))
        with pytest.raises(TypeError, match="one operand at least must be floating-point"):
            tl.fdiv(block([1]), block([2]))


def test_umulhi():
    a = np.array([2**31, 2**32 - 1, 7, 0], np.uint32)
    with eager():
        found = tl.umulhi(block(a, tl.uint32), block(a, tl.uint32)).value
        assert found.tolist() == [int(v) * int(v) >> 32 for v in a]
        wide = block([2**63], tl.uint64)
        assert tl.umulhi(wide, wide).value.tolist() == [2**62]
        with pytest.raises(ValueError, match="but got int16"):
            tl.umulhi(block([1], tl.int16), block([1], tl.int16))


def test_libdevice():
    with eager():
        for dtype, tolerance in ((tl.float32, 1e-6), (tl.float64, 1e-12)):
            x = block([0.1, 0.5, -0.3, 0.9], dtype)
            np.testing.assert_allclose(libdevice.tanh(x).value, np.tanh(x.value), rtol=tolerance)
            np.testing.assert_allclose(libdevice.asin(x).value, np.arcsin(x.value), rtol=tolerance)
            found = libdevice.pow(x, 2.0)
            np.testing.assert_allclose(found.value, x.value**2, rtol=tolerance)
            assert found.dtype == dtype
        with pytest.raises(ValueError, match=r"libdevice.asin: .*\(int32\); it takes \(fp32\) or"):
            libdevice.asin(block([1]))


MAGNITUDES = """module {
  tt.func public @kernel(%x: !tt.ptr<f8>, %y: !tt.ptr<f8>) attributes {noinline = false} {
    %at = tt.make_range {end = 256 : i32, start = 0 : i32} : tensor<256xi32>
    %0 = tt.splat %x : !tt.ptr<f8> -> tensor<256x!tt.ptr<f8>>
    %1 = tt.addptr %0, %at : tensor<256x!tt.ptr<f8>>, tensor<256xi32>
    %2 = tt.splat %y : !tt.ptr<f8> -> tensor<256x!tt.ptr<f8>>
    %3 = tt.addptr %2, %at : tensor<256x!tt.ptr<f8>>, tensor<256xi32>
    %4 = tt.load %1 : tensor<256x!tt.ptr<f8>>
    %5 = math.absf %4 : tensor<256xf8>
    tt.store %3, %5 : tensor<256x!tt.ptr<f8>>
    tt.return
  }
}
"""


@tritium.jit
def magnitudes(x, out):
    at = tl.arange(0, 256)
    tl.store(out + at, tl.abs(tl.load(x + at)))


@pytest.mark.parametrize(
    "dtype,text",
    [
        (tl.float8e5, "f8E5M2"), (tl.float8e4nv, "f8E4M3FN"), (tl.float8e4b15, None),
        (tl.float8e4b8, "f8E4M3FNUZ"), (tl.float8e5b16, "f8E5M2FNUZ"),
    ],
)  # fmt: skip
def test_magnitudes_of_small_floats_keep_the_other_bits(dtype, text, tmp_path):
    """Infinities stay infinities; 0x80 is the NaN of formats that have no negative zero."""
    given = np.arange(256, dtype=np.uint8)
    kept = (0x80,) if dtype in (tl.float8e4b8, tl.float8e5b16) else ()
    kernels = [magnitudes]
    if text is not None:
        file = tmp_path / "kernel.ttir"
        file.write_text(MAGNITUDES.replace("f8", text))
        kernels.append(tritium.compile(str(file)))
    for kernel in kernels:
        x, out = given.view(np.int8).copy(), np.zeros(256, np.int8)
        kernel[(1, 1, 1)](tritium.reinterpret(x, dtype), tritium.reinterpret(out, dtype))
        want = np.where(np.isin(given, kept), given, given & 0x7F)
        np.testing.assert_array_equal(out.view(np.uint8), want)
