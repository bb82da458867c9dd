"""Conversions between every two dtypes: all codes of the small formats, edges of the large."""

import platform

import numpy as np
import pytest

from tests.conformance.rounding import odd_float, round_to, table
from tests.conformance.support import (
    DTYPES,
    FLOATS,
    FP8,
    INTEGERS,
    UNSIGNED,
    Batch,
    is_float,
    samples,
)
from tests.support.device import device

REAL = (*FLOATS, *FP8)
ALL = ("int1", *INTEGERS, *REAL)
SIZE = 256
BITS = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}


def around_values_of(name, size):
    """Float64 numbers at, halfway between and just beside the values of a format."""
    rng = np.random.default_rng([3, *name.encode()])
    if name in ("float32", "float64"):
        base = np.abs(rng.standard_normal(size // 4)).astype(DTYPES[name])
        step = np.spacing(base).astype(np.float64)
        base = base.astype(np.float64)
    else:
        values = table(name)
        at = rng.integers(0, len(values) - 1, size // 4)
        at[:3] = 0, len(values) - 2, 1
        base, step = values[at], values[at + 1] - values[at]
    points = [base, base + step / 2, base + step * 0.49, base + step * 0.51]
    if name in ("float16", "bfloat16"):  # beside the middle by less than float32 can say
        points = [base, base + step / 2, *(base + step * (0.5 + t) for t in (-1e-12, 1e-12))]
    if name in ("float32", "float64"):
        points = [base, base + step / 2, base + step * 0.25, base + step * 0.75]
    out = np.concatenate(points) * rng.choice([-1.0, 1.0], size)
    out[-6:] = 0.0, -0.0, np.nan, np.inf, -np.inf, 1e30
    return out


def source_values(name, target):
    """Inputs of dtype `name` that are interesting for a cast to `target`."""
    dtype = DTYPES[name]
    if dtype.itemsize == 1 and name != "int1":
        return np.arange(SIZE, dtype=np.uint8).view(dtype)
    if name in REAL and target in REAL:
        with np.errstate(all="ignore"):
            return around_values_of(target, SIZE).astype(dtype)
    return samples(name, SIZE, 7)


def to_integer(values, target):
    """Float64 truncated; None where NaN or out of range (which the language leaves undefined)."""
    info = np.iinfo(DTYPES[target])
    inside = np.isfinite(values) & (values > info.min - 1.0) & (values < info.max + 1.0)
    return np.where(inside, np.trunc(np.where(inside, values, 0)), 0), inside


def expected(values, source, target, toward_zero=False):
    dtype = DTYPES[target]
    if target == "int1":
        return values.astype(np.float64) != 0 if source in REAL else values != 0
    if source in REAL and target in REAL:
        return round_to(values.astype(np.float64), target, toward_zero)
    if target in REAL:
        if target == "float64":
            return values.astype(np.float64)
        return round_to([odd_float(int(v)) for v in values], target)
    return values.astype(dtype)  # integers wrap


def batch_of(source, targets):
    inputs, batch = {}, Batch({})
    for target in targets:
        if target == source:
            continue
        values = source_values(source, target)
        if source in REAL and target in INTEGERS:
            exact, inside = to_integer(values.astype(np.float64), target)
            values = np.where(inside, values, np.zeros(1, values.dtype)).astype(values.dtype)
            result = np.array([int(v) for v in exact], object).astype(DTYPES[target])
        else:
            with np.errstate(all="ignore"):
                result = expected(values, source, target)
        name = f"x_{target}"
        inputs[name] = values
        batch.add(f"{name}.to(tl.{target})", target, result)
        wider = DTYPES[source].itemsize > DTYPES[target].itemsize
        if source in REAL and target in REAL and wider:
            batch.add(
                f"{name}.to(tl.{target}, 'rtz')", target, expected(values, source, target, True)
            )
            batch.add(f"tl.cast({name}, tl.{target}, fp_downcast_rounding='rtne')", target, result)
    batch.inputs = inputs
    return batch


@pytest.mark.every(3)
@pytest.mark.parametrize("source", ALL)
def test_from(source):
    """To every other dtype; narrowing ones with each rounding mode."""
    batch_of(source, ALL).run()


@pytest.mark.covering(1)
@pytest.mark.parametrize("target", ["float16", "bfloat16", "float32", "float8e4nv", "float8e5"])
@pytest.mark.parametrize("source", ["int32", "uint32", "int64", "uint64", "int16"])
def test_integers_beside_the_middle_are_rounded_once(source, target):
    """Between two neighbours of the target, by one more or less than half."""
    info = np.iinfo(DTYPES[source])
    found = [
        sign * ((1 << high) + (odd << high - bits + 1) + (1 << high - bits) + beside)
        for bits in [{"float8e4nv": 4, "float8e5": 3}.get(target) or BITS[target]]
        for high in range(bits + 1, 64) for odd in (0, 1) for beside in (-1, 0, 1)
        for sign in (1, -1)
    ]  # fmt: skip
    found = [v for v in found if info.min <= v <= info.max]
    values = np.array((found * 256)[:256], object).astype(DTYPES[source])
    if not found:
        return
    batch = Batch({"x": values})
    batch.add(f"x.to(tl.{target})", target, expected(values, source, target))
    batch.run()


def test_bitcasts():
    batch = Batch({f"x_{n}": source_values(n, "float32") for n in ALL if n != "int1"})
    for source in batch.inputs:
        name = source[2:]
        for target in ALL:
            if target in ("int1", name) or DTYPES[target].itemsize != DTYPES[name].itemsize:
                continue
            batch.add(
                f"{source}.to(tl.{target}, bitcast=True)", target,
                batch.inputs[source].view(DTYPES[target]),
            )  # fmt: skip
    batch.run()


def test_e4b15():
    """fp8e4b15: bias 15, no infinity or NaN; NumPy has no such type, so its codes are spelled
    out."""
    codes = np.arange(256, dtype=np.uint8)
    sign, exponent, mantissa = codes >> 7, (codes >> 3 & 15).astype(int), (codes & 7).astype(int)
    value = np.where(exponent > 0, 2.0 ** (exponent - 15) * (1 + mantissa / 8), 2.0**-17 * mantissa)
    value = np.where(sign == 1, -value, value)
    batch = Batch({"x": codes}, "y = x.to(tl.float8e4b15, bitcast=True)")
    for target in FLOATS:
        batch.add(f"y.to(tl.{target})", target, value)
        batch.add(
            f"y.to(tl.{target}).to(tl.float8e4b15).to(tl.uint8, bitcast=True)", "uint8", codes
        )
    batch.run()


def test_numbers_become_constants_of_each_dtype():
    batch = Batch({})
    for name in ALL:
        for number in (0, 1, True, 2.5) if name in REAL else (0, 1, True):
            batch.add(f"tl.full([4], {number}, tl.{name})", name, np.full(4, number))
    for name in REAL:
        batch.add(f"tl.full([4], -0.3, tl.{name})", name, round_to(np.full(4, -0.3), name))
        batch.add(f"tl.full([4], -0.0, tl.{name})", name, round_to(np.full(4, -0.0), name))
    for name in UNSIGNED:
        top = int(np.iinfo(DTYPES[name]).max)
        batch.add(f"tl.full([4], {top}, tl.{name})", name, np.full(4, top, DTYPES[name]))
    batch.run()


def test_scalars_cast_like_blocks():
    batch = Batch({"x": np.array(-3.75, np.float32), "n": np.array(300, np.int32)})
    batch.add("x.to(tl.int8)", "int8", np.int8(-3))
    batch.add("x.to(tl.float16)", "float16", np.float16(-3.75))
    batch.add("n.to(tl.int8)", "int8", np.int8(44))
    batch.add("n.to(tl.uint8)", "uint8", np.uint8(44))
    batch.add("n.to(tl.int1)", "int1", np.bool_(True))
    batch.add("n.to(tl.float8e4nv)", "float8e4nv", np.float32(288))
    batch.run()


def test_the_table_of_values_is_sound():
    """The reference of this file, against NumPy where NumPy rounds once."""
    values = around_values_of("float16", SIZE)
    assert is_float(DTYPES["bfloat16"])
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(round_to(values, "float16"), values.astype(np.float16))
    assert float(round_to(odd_float(2**60 + 2**36 + 1), "float32")) == 2.0**60 + 2.0**37


@pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64") or device == "cuda", reason="the processor's way"
)
@pytest.mark.parametrize("name", ["float16", "float32", "float64"])
def test_what_does_not_fit_an_integer(name):
    """NaN and too large numbers: undefined, but alike in both ways of the CPU, and as NumPy has
    it. GPUs saturate."""
    with np.errstate(all="ignore"):
        x = np.array([np.nan, np.inf, -np.inf, 3e9, -3e9, 1e20, 2.0**31, -2.0**31]).astype(name)
        batch = Batch({"x": x})
        for integer in (np.int32, np.int64):
            batch.add(f"x.to(tl.{integer.__name__})", integer.__name__, x.astype(integer))
        for integer in (np.int8, np.int16, np.uint8, np.uint16):
            wanted = x.astype(np.int32).astype(integer).astype(np.int64)
            batch.add(f"x.to(tl.{integer.__name__}).to(tl.int64)", "int64", wanted)
    batch.run()
