"""Operators on every pair of dtypes, in both orders and with Python numbers: types and values."""

import operator

import numpy as np
import pytest

import tritium.language as tl
from tests.conformance.support import (
    DTYPES,
    FLOATS,
    INTEGERS,
    NUMBERS,
    SIGNED,
    WAYS,
    Batch,
    is_float,
    promoted,
    samples,
)
from tests.support.device import device

SIZE = 16
ALL = ("int1", *NUMBERS)
ARITHMETIC = {"+": operator.add, "-": operator.sub, "*": operator.mul}
BITS = {"&": operator.and_, "|": operator.or_, "^": operator.xor}
COMPARISONS = {
    "<": operator.lt, "<=": operator.le, "==": operator.eq,
    "!=": operator.ne, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def divisible(a, b):
    """Whether `/` takes these types: integers must agree in sign (int1 counts as unsigned)."""
    return a in FLOATS or b in FLOATS or (a in SIGNED) == (b in SIGNED)


def convert(array, name):
    """The array in another dtype; integers wrap."""
    if array.dtype == DTYPES[name]:
        return array
    if is_float(array.dtype) and array.dtype != np.float64:
        array = array.astype(np.float64)  # exact
    with np.errstate(all="ignore"):
        return array.astype(DTYPES[name])


def truncated(a, b):
    """C's quotient and remainder of integers."""
    pairs = [(int(x), int(y)) for x, y in zip(a, b, strict=True)]
    quotients = [abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1) for x, y in pairs]
    rest = [x - y * q for (x, y), q in zip(pairs, quotients, strict=True)]
    return np.array(quotients, a.dtype), np.array(rest, a.dtype)


def boolean(function, x, y):
    """Arithmetic of one bit wraps."""
    if function in (operator.add, operator.sub):
        return x ^ y
    return x & y if function is operator.mul else function(x, y)


def compute(function, x, y):
    """`function` on arrays of one dtype, computed in it."""
    with np.errstate(all="ignore"):
        return boolean(function, x, y) if x.dtype == np.bool_ else function(x, y)


def divisors(name, seed):
    """Non-zero numbers, and no -1 (whose quotient with the smallest integer overflows)."""
    values = samples(name, SIZE, seed)
    if name in FLOATS:
        return values
    values[values == 0] = 1
    if name in SIGNED:
        values[values == -1] = 3
    return values


def add_pair(batch, a, b, x, y, d, s):
    """Checks of `x op y` for blocks named x, y (d: divisors, s: shift amounts, of y's dtype)."""
    type_ = promoted(a, b)
    left, right = (convert(batch.inputs[n], type_) for n in (x, y))
    for sign, function in ARITHMETIC.items():
        batch.add(f"{x} {sign} {y}", type_, compute(function, left, right))
    for sign, function in COMPARISONS.items():
        with np.errstate(invalid="ignore"):
            batch.add(f"{x} {sign} {y}", "int1", function(left, right))
    condition = batch.inputs["c"]
    batch.add(f"tl.where(c, {x}, {y})", type_, np.where(condition, left, right))
    if divisible(a, b):
        add_division(batch, a, b, x, d)
    if a in FLOATS or b in FLOATS:
        return
    for sign, function in BITS.items():
        batch.add(f"{x} {sign} {y}", type_, function(left, right))
    if "int1" not in (a, b):
        amounts = convert(batch.inputs[s], type_)
        batch.add(f"{x} << {s}", type_, left << amounts)
        # By the sign of the left operand's own type, not of the promoted one.
        own = np.dtype(f"int{8 * left.itemsize}") if a in SIGNED else left.dtype
        shifted = left.view(own) >> amounts.astype(own)
        batch.add(f"{x} >> {s}", type_, shifted.view(left.dtype))


def add_division(batch, a, b, x, d):
    type_ = promoted(a, b, divides=True)
    real = type_ if type_ in FLOATS else "float32"
    n, m = (convert(batch.inputs[v], type_) for v in (x, d))
    with np.errstate(all="ignore"):
        expected = convert(n, real) / convert(m, real)
        batch.add(f"{x} / {d}", real, expected, 2e-7 if real == "float32" else 0.0)
    if type_ in FLOATS:
        with np.errstate(all="ignore"):
            batch.add(f"{x} % {d}", type_, np.fmod(n, m))
    elif type_ != "int1":
        quotient, rest = truncated(n, m)
        batch.add(f"{x} // {d}", type_, quotient)
        batch.add(f"{x} % {d}", type_, rest)


def batch_for(a, others):
    inputs = {"x": samples(a, SIZE, 1), "c": samples("int1", SIZE, 5)}
    for b in others:
        inputs[f"y_{b}"] = samples(b, SIZE, 2)
        inputs[f"d_{b}"] = divisors(b, 3)
        inputs[f"s_{b}"] = (np.arange(SIZE) % 7).astype(DTYPES[b])
    batch = Batch(inputs)
    for b in others:
        add_pair(batch, a, b, "x", f"y_{b}", f"d_{b}", f"s_{b}")
    return batch


SOME = ("int1", "int8", "uint8", "int32", "uint32", "int64", "float16", "bfloat16", "float32")


@pytest.mark.every(2)
@pytest.mark.parametrize("a", ALL)
def test_a_representative_partner_of_each(a):
    """One partner for each type in the fast suite, chosen so that all pairs of kinds occur."""
    at = ALL.index(a)
    batch_for(a, [ALL[(at * 5 + 3) % len(ALL)], ALL[(at * 3 + 7) % len(ALL)]]).run()


@pytest.mark.slow
@pytest.mark.parametrize("b", ALL)
@pytest.mark.parametrize("a", ALL)
def test_every_pair(a, b):
    batch_for(a, [b]).run()


def weak_type(name, number, divides=False):
    """The type of `block op number`: the block's, unless the number is of a higher kind."""
    kinds = {bool: 0, int: 1, float: 2}
    kind = 0 if name == "int1" else 1 if name in INTEGERS else 2
    if kinds[type(number)] > kind:
        return "float32" if isinstance(number, float) else "int32"
    return "float32" if divides and name in ("float16", "bfloat16") else name


@pytest.mark.every(3)
@pytest.mark.covering(1)
@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ALL)
def test_python_numbers(name, every):
    """3 in both orders beside every operator; True and 2.5 so in the slow suite."""
    x = samples(name, SIZE, 4)
    batch = Batch({"x": x})
    for number in (True, 3, 2.5):
        type_ = weak_type(name, number)
        left = convert(x, type_)
        right = np.full(SIZE, number).astype(DTYPES[type_])
        for sign, function in ARITHMETIC.items():
            batch.add(f"x {sign} {number}", type_, compute(function, left, right))
            if every or number == 3 or sign == "-":
                batch.add(f"{number} {sign} x", type_, compute(function, right, left))
        for sign, function in COMPARISONS.items():
            if not (every or number == 3 or sign in ("<", "==")):
                continue
            with np.errstate(invalid="ignore"):
                batch.add(f"x {sign} {number}", "int1", function(left, right))
                if every or number == 3:
                    batch.add(f"{number} {sign} x", "int1", function(right, left))
        if number == 3 and name in INTEGERS:
            quotient, rest = truncated(left, right)
            batch.add("x // 3", type_, quotient)
            batch.add("x % 3", type_, rest)
            batch.add("x << 3", type_, left << right)
            batch.add("x >> 3", type_, left >> right)
            batch.add("-x", type_, np.zeros_like(left) - left)
            batch.add("~x", type_, ~left)
    if name in FLOATS:
        wide = weak_type(name, 3, divides=True)
        with np.errstate(all="ignore"):
            batch.add("x / 3", wide, convert(x, wide) / DTYPES[wide].type(3), 2e-7)
            batch.add("3 / x", wide, DTYPES[wide].type(3) / convert(x, wide), 2e-7)
        batch.add("-x", name, -x)
    batch.run()


def test_scalars_of_a_kernel_promote_as_blocks():
    """A loaded scalar is not weak, unlike a Python number."""
    inputs = {"x": np.int8([1, -2, 3, 4]), "s": np.array([300], np.int32)[0:1].reshape(())}
    batch = Batch(inputs)
    batch.add("x + s", "int32", np.int32([301, 298, 303, 304]))
    batch.add("s * x", "int32", np.int32([300, -600, 900, 1200]))
    batch.add("s + 1", "int32", np.int32(301))
    batch.add("s > x", "int1", np.ones(4, bool))
    batch.run()


def test_compared_numbers_take_the_type_of_the_block():
    """0.1 is rounded to fp16 beside an fp16 block; floats beside integers are float32."""
    i, u, h = np.int8([-128, -1, 3, 127]), np.uint8([0, 1, 200, 255]), np.float16([0.1, 0, 5, -1])
    d = np.float64([0.1, 0.1 + 1e-12, 1, -1])
    batch = Batch({"i": i, "u": u, "h": h, "d": d})
    batch.add("i < 3", "int1", i < 3)
    batch.add("-1 >= i", "int1", i <= -1)
    batch.add("u > 0.5", "int1", u > 0.5)
    batch.add("h == 0.1", "int1", h == np.float16(0.1))
    batch.add("h < 0.1", "int1", h < np.float16(0.1))
    batch.add("d == 0.1", "int1", d == 0.1)
    batch.add("tl.maximum(u, 7)", "uint8", np.maximum(u, np.uint8(7)))
    batch.add("tl.minimum(i, 1.5)", "float32", np.minimum(i.astype(np.float32), 1.5))
    batch.add("tl.maximum(h, 0.1)", "float16", np.maximum(h, np.float16(0.1)))
    batch.add("tl.maximum(h, 1)", "float16", np.maximum(h, np.float16(1)))
    batch.add("tl.fma(h, 0.5, 1.0)", "float16", (h.astype(float) * 0.5 + 1).astype(np.float16))
    batch.run()


@pytest.mark.parametrize("name", FLOATS)
def test_fdiv_widens_small_floats(name):
    x, y = samples(name, SIZE, 1), divisors(name, 3)
    batch = Batch({"x": x, "y": y})
    result = "float64" if name == "float64" else "float32"
    with np.errstate(all="ignore"):
        quotient = (x.astype(np.float64) / y.astype(np.float64)).astype(DTYPES[result])
        # A GPU divides float32 to within two units in the last place unless asked.
        rough = 3e-7 if result == "float32" and device == "cuda" else 0.0
        batch.add("tl.fdiv(x, y)", result, quotient, rough)
        batch.add("tl.fdiv(x, y, ieee_rounding=True)", result, quotient)
    batch.run()


def test_join_and_cat_of_integers_that_differ_in_sign():
    batch = Batch({"i": np.int16([-1, 2]), "u": np.uint16([65535, 7])})
    batch.add("tl.interleave(i, u)", "int16", np.int16([-1, -1, 2, 7]))
    batch.add("tl.join(u, i)", "uint16", np.uint16([[65535, 65535], [7, 2]]))
    batch.add("tl.cat(u, i)", "uint16", np.uint16([65535, 7, 65535, 2]))
    batch.run()


def assigned_numbers(h, i, u, f, n):
    """Numbers assigned to names are no weak ones, wherever they come from."""
    j = tl.arange(0, 4)
    x, y, z = tl.load(h + j), tl.load(i + j), tl.load(u + j)
    scale = 0.1
    weak: tl.constexpr = scale
    large, down = 300, -1
    pair = (0.1, 2)
    twice = scale * 2
    steps = 0
    steps += -7
    tl.static_assert((x * scale).dtype == tl.float32)
    tl.static_assert((x * weak).dtype == tl.float16)
    tl.static_assert((x * pair[0]).dtype == tl.float32)
    tl.static_assert((x * twice).dtype == tl.float32)
    tl.static_assert((x * -twice).dtype == tl.float32)
    tl.static_assert((y + large).dtype == tl.int32)
    tl.static_assert((z + down).dtype == tl.int32)
    tl.static_assert(tl.where(x > 0, x, scale).dtype == tl.float32)
    for k in tl.static_range(1):
        tl.static_assert((y + k).dtype == tl.int8)
        kept = k
        tl.static_assert((y + kept).dtype == tl.int32)
    tl.store(f + j, x * scale)
    tl.store(f + 4 + j, x * weak)
    tl.store(n + j, y + large)
    tl.store(n + 4 + j, z + down)
    # As scalar tensors divide: toward zero.
    tl.store(n + 8, steps // 2)
    tl.store(n + 9, steps % 4)
    tl.store(n + 10, -7 // 2)
    four = 4
    tl.store(n + 11 + tl.arange(0, four), four)  # still known at compile time


@pytest.mark.parametrize("way", WAYS)
def test_assigned_numbers(way):
    h, i = np.float16([0.1, 3, -5, 1e4]), np.int8([-128, -1, 3, 127])
    u = np.uint8([0, 1, 200, 255])
    f, n = np.zeros(8, np.float32), np.zeros(15, np.int32)
    WAYS[way](assigned_numbers)[(1,)](h, i, u, f, n)
    np.testing.assert_array_equal(f[:4], h.astype(np.float32) * np.float32(0.1))
    np.testing.assert_array_equal(f[4:], h * np.float16(0.1))
    np.testing.assert_array_equal(n[:4], i.astype(np.int32) + 300)
    np.testing.assert_array_equal(n[4:8], u.astype(np.int32) - 1)
    assert n[8:].tolist() == [-3, -3, -4, 4, 4, 4, 4]
