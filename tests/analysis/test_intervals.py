"""Intervals of integers hold all that ops compute; passes know what tiles and checks do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tritium.analysis.intervals import Ranges, range_of
from tritium.ir import types as ir
from tritium.ir.intervals import type_limits
from tritium.ops import arith
from tritium.ops.arith import ConstantOp, constant_value
from tritium.ops.arith.constant import constant_attr
from tritium.ops.base import REGISTRY, Op
from tritium.ops.elementwise import BinaryOp, CastOp
from tritium.ops.ttir import GetProgramIdOp, MakeRangeOp

NO_CONTEXT: Any = None
BINARY = sorted(
    (
        cls for name, cls in REGISTRY.items()
        if name.startswith("arith.") and issubclass(cls, BinaryOp)
        and cls.interval is not Op.interval
    ),
    key=lambda cls: cls.name,
)  # fmt: skip


def constant(values: Any, type: ir.Type) -> Any:
    array = np.asarray(values)
    tile = ir.tensor_of(array.shape, type) if array.shape else type
    return ConstantOp.build(value=constant_attr(array.astype(ir.numpy_dtype(tile)), tile)).result


def inside(value: Any, elements: Any) -> None:
    """Check that an interval holds some elements."""
    found = Ranges().of(value)
    low, high = np.asarray(elements).min(), np.asarray(elements).max()
    assert found.low <= low and high <= found.high, (value.owner, found, low, high)


@pytest.mark.parametrize("cls", BINARY, ids=lambda cls: cls.name)
def test_elements_are_in_the_interval(cls: Any) -> None:
    """All pairs of a few numbers, which are also those that a result is known best by."""
    random = np.random.default_rng(5)
    for type in (ir.i8, ir.i32):
        low, high = type_limits(type)
        some = [low, low + 1, -7, -1, 0, 1, 2, 5, 8, 31, high - 1, high]
        for _ in range(60):
            first, second = (random.choice(some, random.choice([1, 2, 8])) for _ in range(2))
            if "div" in cls.name or "rem" in cls.name:
                second = second[second != 0] if (second != 0).any() else np.ones(1, int)
            a, b = np.meshgrid(first, second)
            x, y = (constant(v.ravel(), type) for v in (a, b))
            op = cls.build(x, y)
            inside(op.result, op.evaluate(NO_CONTEXT, constant_value(x), constant_value(y)))


@pytest.mark.parametrize("cls", [arith.ExtSIOp, arith.ExtUIOp, arith.TruncIOp])
def test_conversions(cls: type[CastOp]) -> None:
    for source in (ir.i1, ir.i8, ir.i32):
        for target in (ir.i8, ir.i16, ir.i64):
            wider = ir.bit_width(target) > ir.bit_width(source)
            if source == target or wider == (cls is arith.TruncIOp):
                continue
            low, high = (0, 1) if source == ir.i1 else type_limits(source)
            for values in ([low, high], [high], [0, 1]):
                x = constant(values, source)
                op = cls.build(x, result=ir.tensor_of((len(values),), target))
                inside(op.result, op.evaluate(NO_CONTEXT, constant_value(x)))


def range_tile(end: int) -> Any:
    return MakeRangeOp.build(start=0, end=end).result


def test_ranges_that_passes_ask_for() -> None:
    """The ranges follow from the same hook as the bounds of tiles: bits, shifts, remainders and
    extremes are known as sums are."""
    i, x = range_tile(64), GetProgramIdOp.build(axis=0).result
    assert range_of(i) == (0, 63) and range_of(x) == (0, 2**31 - 2)

    def of(cls: Any, by: int) -> Any:
        return range_of(cls.build(i, constant([by] * 64, ir.i32)).result)

    assert of(arith.AddIOp, 5) == (5, 68) and of(arith.MulIOp, -2) == (-126, 0)
    assert of(arith.AndIOp, -2) == (0, 63) and of(arith.RemSIOp, 16) == (0, 15)
    assert of(arith.MinSIOp, 7) == (0, 7) and of(arith.ShRUIOp, 2) == (0, 63)
    assert of(arith.AddIOp, 2**31 - 1) is None


def test_long_chains_take_little_time() -> None:
    """Both operands of each sum are the sum before: as many paths as `2**200`."""
    value = range_tile(64)
    for _ in range(200):
        value = arith.AddIOp.build(value, value).result
    assert range_of(value) is None
