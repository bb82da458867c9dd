"""Conversions of very many values: every code of the 16-bit formats, a million random ones of the
wider, to every format, by both roundings."""

import numpy as np
import pytest

from tests.conformance.rounding import odd_float, round_to
from tests.conformance.support import DTYPES, FLOATS, FP8, WAYS, assert_equal, build, run
from tests.conformance.test_casts import expected
from tests.support.device import device

COUNT, BLOCK = 1 << 17 if device == "amd" else 1 << 20, 1 << 15  # which executes them by a model
REAL = (*FLOATS, *FP8)


def values_of(name, count):
    """Random bits of a dtype: all exponents, NaN and infinities; every code of a 16-bit float."""
    dtype = DTYPES[name]
    bits = np.dtype(f"u{dtype.itemsize}")
    if dtype.itemsize == 2:
        return np.arange(1 << 16, dtype=bits).view(dtype)
    rng = np.random.default_rng([11, *name.encode()])
    values = rng.integers(0, np.iinfo(bits).max, count, dtype=bits, endpoint=True).view(dtype)
    if name in FLOATS:
        # Half of them where the small formats have values.
        near = rng.standard_normal(count) * 2.0 ** rng.integers(-30, 30, count)
        values = np.where(rng.random(count) < 0.5, values, near.astype(dtype))
        values[: 1 << 16] = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    return values


def check(source, targets, count, ways):
    values = values_of(source, count)
    outs, lines, wanted = {}, [], {}
    for target in targets:
        modes = ["", "rtne", "rtz"]
        wider = DTYPES[source].itemsize > DTYPES[target].itemsize
        for mode in modes if wider and source in REAL else [""]:
            key = f"{target}_{mode}"
            outs[key] = np.zeros(len(values), DTYPES[target])
            rounding = f", '{mode}'" if mode else ""
            lines.append(f"    tl.store({key} + at, v.to(tl.{target}{rounding}))")
            if source in REAL:
                wanted[key] = expected(values, source, target, mode == "rtz")
            else:
                exact = np.array([odd_float(int(v)) for v in values])
                wanted[key] = round_to(exact, target)
    source_text = "\n".join([
        f"def kernel(x, {', '.join(outs)}):",
        f"    at = tl.program_id(0) * {BLOCK} + tl.arange(0, {BLOCK})",
        "    v = tl.load(x + at)", *lines, "",
    ])  # fmt: skip
    fn = build(source_text)
    for way in ways:
        found = run(fn, {"x": values, **outs}, (len(values) // BLOCK,), way)
        for key, array in wanted.items():
            assert_equal(found[key], array, f"{way}: {source} to {key}")


@pytest.mark.parametrize("source", ["float16", "bfloat16"])
def test_every_code(source):
    check(source, [t for t in REAL if t != source], 0, WAYS)


@pytest.mark.slow
@pytest.mark.parametrize("source", ["float32", "float64"])
def test_a_million_floats(source):
    check(source, [t for t in REAL if t != source], COUNT, WAYS)


@pytest.mark.slow
@pytest.mark.parametrize("source", ["int32", "uint32", "int64", "uint64"])
def test_a_million_integers(source):
    # float64 holds 32-bit integers, and rounds wider ones by itself.
    check(source, ["float16", "bfloat16", "float32"], COUNT, WAYS)


def near_halfway(name, count):
    """Integers at, and by one or a few beside, the points halfway between two floats of 8, 11 and
    24 digits, and beside powers of two."""
    info = np.iinfo(DTYPES[name])
    rng = np.random.default_rng([13, *name.encode()])
    found = []
    for _ in range(count):
        exponent = int(rng.integers(1, info.bits))
        digits = int(rng.choice([1, 8, 11, 24]))
        unit = 1 << max(exponent - digits, 0)
        number = (1 << exponent) + int(rng.integers(0, 1 << (digits - 1))) * 2 * unit + unit
        number += int(rng.integers(-2, 3))
        number = -number if rng.random() < 0.5 else number
        found.append(max(min(number, info.max), info.min))
    return np.array(found, DTYPES[name])


@pytest.mark.every(2)
@pytest.mark.parametrize("source", [
    "int32", "uint64", *(pytest.param(name, marks=pytest.mark.slow) for name in ("uint32", "int64"))
])  # fmt: skip
def test_integers_near_halfway(source, monkeypatch):
    """They are rounded once, where a first rounding to a wider float would hide the last digits."""
    monkeypatch.setattr(f"{__name__}.values_of", near_halfway)
    check(source, ["float16", "bfloat16", "float32"], BLOCK, WAYS)
