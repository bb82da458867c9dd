"""Promotion, operators, broadcasting, their values against NumPy and their messages."""

import itertools
import warnings

import ml_dtypes
import numpy as np
import pytest

import tritium.language as tl
from tests.language.support import NUMPY, block, eager
from tests.support.agreement import run_all
from tritium.errors import TritonError
from tritium.language.builtins.arithmetic import promote
from tritium.ops.memory import EvaluationError

INTS = [tl.int8, tl.int16, tl.int32, tl.int64, tl.uint8, tl.uint16, tl.uint32, tl.uint64]
FLOATS = [tl.float16, tl.bfloat16, tl.float32, tl.float64]
NUMBERS = [*INTS, *FLOATS]
RNG = np.random.default_rng(0)


def result_type(a, b, divides=False):
    """The rules in words: the widest float wins (two different 16-bit ones give fp32), 16-bit
    floats divide in fp32, integers take the larger width and at equal width the unsigned type."""
    floats = [t for t in (a, b) if t.is_floating()]
    for wide in (tl.float64, tl.float32):
        if wide in floats:
            return wide
    if floats:
        if divides:
            return tl.float32
        if tl.float16 in floats:
            return tl.float16
        return tl.bfloat16 if len(floats) == 2 else tl.float32
    if a.int_bitwidth != b.int_bitwidth and a.is_int_signed() == b.is_int_signed():
        return max(a, b, key=lambda t: t.int_bitwidth)
    if a.is_int_signed() == b.is_int_signed():
        return a
    unsigned, signed = (a, b) if a.is_int_unsigned() else (b, a)
    return unsigned if unsigned.int_bitwidth >= signed.int_bitwidth else signed


@pytest.mark.parametrize(("a", "b"), list(itertools.product(NUMBERS, NUMBERS)), ids=str)
@pytest.mark.every(5)
def test_values_of_every_pair_of_dtypes(a, b):
    left, right = [3, 7, 100, 12], [5, 2, 9, 4]
    with eager():
        x, y = block(left, a), block(right, b)
        common = result_type(a, b)
        u, v = (np.asarray(w).astype(NUMPY[common]) for w in (left, right))
        for result, expected in (
            (x + y, u + v), (x - y, u - v), (x * y, u * v),
        ):  # fmt: skip
            assert result.dtype == common
            np.testing.assert_array_equal(result.value, expected)
        larger = tl.maximum(x, y)
        assert larger.dtype == common
        np.testing.assert_array_equal(larger.value, np.maximum(left, right))
        np.testing.assert_array_equal((x < y).value, u < v)
        np.testing.assert_array_equal((x != y).value, u != v)
        check_division(x, y, np.asarray(left), np.asarray(right))


def check_division(x, y, left, right):
    a, b = x.dtype, y.dtype
    integers = a.is_int() and b.is_int()
    if integers and a.is_int_signed() != b.is_int_signed():
        for operation in (lambda: x / y, lambda: x // y, lambda: x % y):
            with pytest.raises(TypeError, match=r"Cannot use /, //, or %.*signedness"):
                operation()
        return
    common = result_type(a, b, True)
    quotient = tl.float32 if integers else common
    expected = left.astype(NUMPY[quotient]) / right.astype(NUMPY[quotient])
    assert (x / y).dtype == quotient
    np.testing.assert_array_equal((x / y).value, expected)
    np.testing.assert_array_equal((x % y).value, np.fmod(left, right).astype(NUMPY[common]))
    if integers:
        np.testing.assert_array_equal((x // y).value, left // right)
        assert (x & y).dtype == common and (x << 1).dtype == a
        np.testing.assert_array_equal((x ^ y).value, (left ^ right).astype(NUMPY[common]))
    else:
        with pytest.raises(TypeError, match=r"unexpected type .*// takes integers"):
            _ = x // y


def test_promotion_is_that_of_the_reference():
    # Samples of what Triton 3.9 answers: (a, a is a Python number, b, b is one, divides).
    for arguments, expected in {
        (tl.int32, True, tl.int8, False, False): tl.int8,
        (tl.float32, True, tl.float16, False, False): tl.float16,
        (tl.float32, True, tl.float16, False, True): tl.float32,
        (tl.int32, True, tl.bfloat16, False, False): tl.bfloat16,
        (tl.float32, True, tl.float8e5, False, False): tl.float8e5,
        (tl.float32, True, tl.float8e5, False, True): tl.float32,
        (tl.float8e5, False, tl.float8e4nv, False, True): tl.float32,
        (tl.float32, True, tl.int32, False, False): tl.float32,
        (tl.int1, False, tl.int1, False, False): tl.int1,
        (tl.int1, False, tl.int8, False, False): tl.int8,
        (tl.float8e5, False, tl.float8e5, False, False): tl.float8e5,
        (tl.float8e5, False, tl.float8e4nv, False, False): tl.float16,
        (tl.float8e5, False, tl.float32, False, False): tl.float32,
        (tl.uint32, False, tl.int64, False, False): tl.int64,
        (tl.uint64, False, tl.int64, False, False): tl.uint64,
    }.items():
        assert promote(*arguments) == expected, arguments
    with pytest.raises(TypeError, match="unexpected type"):
        promote(tl.float8e5, False, tl.int32, False, False)


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_python_numbers_are_weak(dtype):
    with eager():
        x = block([1, 2, 3, 4], dtype)
        assert (x + 1).dtype == dtype and (2 * x).dtype == dtype and (x + True).dtype == dtype
        assert (x + 1.5).dtype == (dtype if dtype.is_floating() else tl.float32)
        np.testing.assert_array_equal((5 - x).value, np.asarray([4, 3, 2, 1], NUMPY[dtype]))
        for found in (tl.minimum(x, 2), tl.maximum(3, x), tl.clamp(2, x, 3), tl.clamp(x, True, 3)):
            assert found.dtype == dtype
        assert tl.minimum(x, 2).value.tolist() == [1, 2, 2, 2]
        assert tl.clamp(x, 2, 3).value.tolist() == [2, 2, 3, 3]
        assert (x < 3).value.tolist() == [True, True, False, False]
        wide = dtype if dtype.is_floating() else tl.float32
        assert tl.clamp(x, 1.5, 3).dtype == tl.maximum(0.5, x).dtype == wide
        if dtype.is_floating():
            assert tl.fma(2, x, 0.5).dtype == tl.fma(0.5, 2, x).dtype == dtype


def test_compared_numbers_take_the_type_of_the_tensor():
    tenth = {t: np.asarray(0.1, NUMPY[t]) for t in FLOATS}
    with eager():
        for dtype, value in tenth.items():
            x = block([value, 1], dtype)
            assert (x == 0.1).value.tolist() == [True, False]
            assert (x > 0.1).value.tolist() == [False, True]
            assert tl.maximum(x, 0.1).value.tolist() == [value, 1]
        assert (block([5], tl.int8) < 5.5).value.tolist() == [True]
        for wrong, message in (
            (lambda: block([1], tl.int8) < 300, "Scalar 300 is out of range for type int8"),
            (lambda: tl.minimum(block([1], tl.uint8), -1), "a negative scalar"),
            (lambda: tl.clamp(block([1], tl.int16), 0, 1 << 20), "out of range for type int16"),
        ):
            with pytest.raises(ValueError, match=message):
                wrong()


def narrow_floats(x, y, out, index, n: tl.constexpr):
    i = tl.arange(0, n)
    a, b = tl.load(x + i), tl.load(y + i)
    tl.store(out + i, tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL))
    tl.store(out + n + i, tl.maximum(a, 0.3))
    tl.store(out + 2 * n + i, tl.clamp(a, -0.7, b))
    tl.store(out + 3 * n + i, tl.fma(a, b, 0.1))
    tl.store(out + 4 * n + i, tl.where(a < 0.3, a, b))
    largest, at = tl.max(a, 0, return_indices=True)
    tl.static_assert(largest.dtype == a.dtype and tl.cumsum(a, 0).dtype == a.dtype)
    tl.store(index, at)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32], ids=str)
def test_narrow_floats_keep_their_type(dtype):
    n = 32
    x, y = (RNG.standard_normal(n).astype(dtype) for _ in range(2))
    y = np.maximum(y, dtype(-0.7))
    limit, low, tenth = dtype(0.3), dtype(-0.7), np.float64(dtype(0.1))
    wanted = np.concatenate([
        np.minimum(x, y), np.maximum(x, limit), np.minimum(np.maximum(x, low), y),
        (x.astype(np.float64) * y.astype(np.float64) + tenth).astype(dtype),
        np.where(x < limit, x, y),
    ])  # fmt: skip
    found = run_all(
        narrow_floats, x=x, y=y, out=np.zeros(5 * n, dtype), index=np.zeros(1, np.int32), n=n,
        rtol=0, atol=0,
    )  # fmt: skip
    np.testing.assert_array_equal(found["out"], wanted)
    assert found["index"][0] == np.argmax(x.astype(np.float32))


def test_numbers_that_do_not_fit():
    with eager():
        with pytest.raises(ValueError, match="Scalar 300 is out of range for type int8"):
            block([1], tl.int8) + 300
        with pytest.raises(ValueError, match="Scalar 256 is out of range for type uint8"):
            256 * block([1], tl.uint8)
        with pytest.raises(ValueError, match=r"unsigned tensor .* and a negative scalar"):
            block([1], tl.uint32) + -1
        with pytest.raises(ValueError, match="Nonrepresentable integer"):
            tl.to_tensor(1 << 64)
        with pytest.raises(TypeError, match="cannot convert 'a'"):
            tl.to_tensor("a")
        assert tl.to_tensor(1 << 31).dtype == tl.uint32
        assert tl.to_tensor(1 << 40).dtype == tl.int64
        assert tl.to_tensor(1e300).dtype == tl.float64
        assert tl.to_tensor(float("inf")).dtype == tl.float32


def test_integer_division_truncates():
    with eager():
        x = block([-7, 7, -7, 7])
        y = block([2, -2, -2, 2])
        assert (x // y).value.tolist() == [-3, -3, 3, 3]
        assert (x % y).value.tolist() == [-1, 1, -1, 1]
        assert (block([250, 7], tl.uint8) // 3).value.tolist() == [83, 2]


def test_shifts_follow_the_sign():
    with eager():
        assert (block([-8, 8]) >> 1).value.tolist() == [-4, 4]
        assert (block([0xF0], tl.uint8) >> 4).value.tolist() == [15]
        assert (block([1, 3]) << block([4, 1])).value.tolist() == [16, 6]


@pytest.mark.parametrize(("a", "b"), list(itertools.product([tl.int1, *INTS], INTS)), ids=str)
@pytest.mark.every(5)
def test_a_shift_goes_by_the_sign_of_its_left_operand(a, b):
    """Not by the promoted type: int32 >> uint32 copies the sign."""
    low = 0 if a.is_int_unsigned() else -(2 ** (a.int_bitwidth - 1))
    values = [low, low + 1 if low else 1, 1, 0]
    with eager():
        shifted = block(values, a) >> block([1, 3, 0, 2], b)
        signed = np.array(values, np.int64) >> np.array([1, 3, 0, 2])
        common = b if a.is_bool() else result_type(a, b)
        assert shifted.dtype == common
        np.testing.assert_array_equal(shifted.value, signed.astype(shifted.value.dtype))
        if b.is_int_unsigned() and b.int_bitwidth == 32:
            assert (0xF0000000 >> block([4], b)).value.tolist() == [0x0F000000]


def test_wrapping():
    with eager():
        assert (block([2**31 - 1]) + 1).value.tolist() == [-(2**31)]
        assert (block([0], tl.uint8) - 1).value.tolist() == [255]
        assert tl.add(block([127], tl.int8), 1).value.tolist() == [-128]


def test_unary():
    with eager():
        assert (-block([1, -2])).value.tolist() == [-1, 2]
        assert np.signbit((-block([0.0], tl.float32)).value).tolist() == [True]
        assert (~block([0, 5])).value.tolist() == [-1, -6]
        assert (~block([True, False], tl.int1)).value.tolist() == [False, True]
        with pytest.raises(ValueError, match="wrong type argument to unary invert"):
            ~block([1.0], tl.float32)
        assert abs_of([-3, 4], tl.int32) == [3, 4] and abs_of([-1.5], tl.float16) == [1.5]
        assert abs_of([200], tl.uint8) == [200]


def abs_of(values, dtype):
    return tl.abs(block(values, dtype)).value.tolist()


def test_pointer_arithmetic():
    with eager():
        base = block(0x1000, tl.int64).to(tl.pointer_type(tl.float32))
        moved = base + block([0, 1, 2, -1])
        assert (moved.to(tl.int64).value - 0x1000).tolist() == [0, 4, 8, -4]
        assert moved.type == tl.block_type(tl.pointer_type(tl.float32), [4])
        assert int((2 + base).to(tl.int64)) == 0x1008 and int((base - 1).to(tl.int64)) == 0xFFC
        unsigned = base + block([0xFFFFFFFF], tl.uint32)
        assert (unsigned.to(tl.int64).value - 0x1000).tolist() == [4 * 0xFFFFFFFF]
        with pytest.raises(TypeError, match="cannot add pointers together"):
            base + base
        with pytest.raises(
            TypeError, match=r"invalid operands of type pointer<fp32> and .*float32"
        ):
            base + block([1.0], tl.float32)
        with pytest.raises(TypeError, match="invalid operands"):
            base * 2
        with pytest.raises(ValueError, match="unary minus"):
            _ = -base


def test_broadcasting():
    with eager():
        a, b = block([[1], [2]]), block([[10, 20, 30, 40]])
        np.testing.assert_array_equal((a + b).value, a.value + b.value)
        assert (a + block([1, 2, 3, 4])).type.shape == (2, 4)
        x, y = tl.broadcast(a, b)
        assert x.type.shape == y.type.shape == (2, 4)
        with pytest.raises(ValueError, match="incompatible dimensions at index 0: 4 and 2"):
            block([1, 2, 3, 4]) + block([1, 2])
        assert tl.broadcast_to(block([[5], [6]]), (2, 4)).value[:, 3].tolist() == [5, 6]
        assert tl.broadcast_to(block(7), 2, 2).value.tolist() == [[7, 7], [7, 7]]
        with pytest.raises(ValueError, match=r"new size .4. must match"):
            tl.broadcast_to(block([1, 2]), [4])
        with pytest.raises(ValueError, match="rank mismatch"):
            tl.broadcast_to(block([1, 2]), [1, 2])


def test_comparison_of_nan_and_unsigned():
    with eager():
        nan = block([np.nan, 1.0], tl.float32)
        assert (nan == nan).value.tolist() == [False, True]
        assert (nan != nan).value.tolist() == [True, False]
        assert (nan < 2.0).value.tolist() == [False, True]
        assert (block([255], tl.uint8) > 1).value.tolist() == [True]
        assert (block([-1], tl.int8) > 1).value.tolist() == [False]


def test_where():
    with eager():
        x = tl.where(block([True, False], tl.int1), block([1, 2]), 5)
        assert x.value.tolist() == [1, 5] and x.dtype == tl.int32
        y = tl.where(block([[True], [False]], tl.int1), block([1.0, 2.0], tl.float32), -1)
        assert y.value.tolist() == [[1, 2], [-1, -1]]
        assert int(tl.where(block(True, tl.int1), block(3), 4)) == 3
        with pytest.warns(UserWarning, match="non-boolean condition is deprecated.*uint32"):
            tl.where(block([1, 0], tl.uint32), 1, 2)


@pytest.mark.parametrize("propagate", ["NONE", "ALL"])
def test_nan_table_of_min_max_clamp(propagate):
    mode = getattr(tl.PropagateNan, propagate)
    nan, one = np.float32("nan"), np.float32(1)
    every = propagate == "ALL"
    with eager():
        x, y = block([nan, one, nan, one], tl.float32), block([one, nan, nan, one], tl.float32)
        for function in (tl.minimum, tl.maximum):
            found = function(x, y, propagate_nan=mode).value
            np.testing.assert_array_equal(found, [nan if every else 1] * 2 + [nan, 1])
        clamped = tl.clamp(x, -1.0, 0.5, propagate_nan=mode).value
        assert clamped[1] == 0.5 and np.isnan(clamped[0]) == every
        with pytest.raises(ValueError, match="Unexpected propagate_nan 3"):
            tl.minimum(x, y, propagate_nan=3)
        assert tl.clamp(block([-1, 9]), 0, 2).value.tolist() == [0, 2]


def test_min_max_of_integers_and_bf16():
    with eager():
        assert tl.minimum(block([-1, 5]), block([0, 2])).value.tolist() == [-1, 2]
        assert tl.maximum(block([200], tl.uint8), block([100], tl.uint8)).value.tolist() == [200]
        larger = tl.maximum(block([1.5], tl.bfloat16), 1.0)
        assert larger.dtype == tl.bfloat16 and larger.value.tolist() == [1.5]
        assert tl.clamp(block([-3.0, 3.0], tl.float16), -1, 1).value.tolist() == [-1, 1]


def fused(x, y, z, out):
    i = tl.arange(0, 4)
    tl.store(out + i, tl.fma(tl.load(x + i), tl.load(y + i), tl.load(z + i)))


@pytest.mark.parametrize(
    ("dtype", "x", "y", "small", "step"),
    [(np.float16, 683 / 512, 0.75, 2**-24, 2**-10),
     (ml_dtypes.bfloat16, 37 / 32, 0.875, 2**-60, 2**-7)], ids=["fp16", "bf16"],
)  # fmt: skip
def test_fma_is_rounded_once(dtype, x, y, small, step):
    # The product is halfway between two numbers; what is added decides.
    down = np.floor(x * y / step) * step
    x, y, z = (np.asarray(v, dtype) for v in ([x, -x, x, -x], [y] * 4, [small, -small, -small, 0]))
    out = run_all(fused, x=x, y=y, z=z, out=np.zeros(4, dtype), rtol=0, atol=0)["out"]
    even = down + step * (round(down / step) % 2)
    assert out.astype(np.float64).tolist() == [down + step, -down - step, down, -even]


def test_logical_operators_on_blocks_warn():
    with eager():
        x, y = block([0, 1, 2, 0]), block([0, 0, 3, 1])
        with pytest.warns(UserWarning, match="'and' and 'or' are deprecated for non-scalar"):
            assert tl.logical_and(x, y).value.tolist() == [False, False, True, False]
        with pytest.warns(UserWarning):
            assert x.logical_or(y).value.tolist() == [False, True, True, True]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert bool(tl.logical_and(block(1), block(2.0, tl.float32)))
            assert not bool(tl.logical_not(block(2)))


def test_truth_of_blocks():
    with eager():
        with pytest.raises(ValueError, match="more than one value is ambiguous"):
            bool(block([1, 2]))
        assert bool(block(1)) and bool(block([[2]])) and not bool(block(0.0, tl.float32))


def test_overflow_sanitizer():
    with eager(debug=True):
        top = block([2**31 - 1])
        with pytest.raises(EvaluationError, match="int32 overflow detected for operation add"):
            top + 1
        with pytest.raises(EvaluationError, match="operation mul"):
            block([1 << 20]) * (1 << 12)
        with pytest.raises(EvaluationError, match="int16 overflow detected for operation sub"):
            block([-(2**15)], tl.int16) - 1
        assert tl.add(top, 1, sanitize_overflow=False).value.tolist() == [-(2**31)]
        assert (block([-(2**31)]) * 1).value.tolist() == [-(2**31)]
        # Words of 64 bits wrap on purpose, in hashes.
        assert (block([2**63 - 1], tl.int64) + 1).value.tolist() == [-(2**63)]
        assert (block([2**40], tl.int64) * (1 << 24)).value.tolist() == [0]
        assert (block([1], tl.uint64) - 2).value.tolist() == [2**64 - 1]
        assert (block([2**32 - 1], tl.uint32) + 0).value.tolist() == [2**32 - 1]
    with eager(debug=True, sanitize_overflow=False):
        assert (block([2**31 - 1]) + 1).value.tolist() == [-(2**31)]
    assert issubclass(EvaluationError, TritonError)


def test_index_syntax():
    with eager():
        x = block([1, 2, 3, 4])
        assert x[:, None].type.shape == (4, 1) and x[None, :].type.shape == (1, 4)
        assert x[None].type.shape == (1, 4) and x[:].type.shape == (4,)
        assert x[:, None, None].type.shape == (4, 1, 1)
        assert x[tl.slice(None, None, None), None].type.shape == (4, 1)
        assert x[:, :].type.shape == (4,)
        scalar = x.sum()
        assert scalar[:].type.shape == () and scalar[None, :].type.shape == (1,)
        assert scalar[:, None].type.shape == (1,)
        for index in (0, slice(0, 2), "a"):
            with pytest.raises(ValueError, match="unsupported tensor index"):
                x[index]


def test_bfloat16_rounds_each_step():
    with eager():
        x = block([1.0], tl.bfloat16) + block([2**-8], tl.bfloat16)
        assert x.value.dtype == ml_dtypes.bfloat16 and x.value.tolist() == [1.0]


def test_outside_of_a_kernel():
    for call in (lambda: tl.arange(0, 4), lambda: tl.zeros([4], tl.int32), lambda: tl.exp(1.0)):
        with pytest.raises(ValueError, match=r"did you forget to add @triton.jit"):
            call()
