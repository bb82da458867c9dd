"""Sorting whole tiles: an op of ours, for targets that sort better than a network of `tt` ops."""

from __future__ import annotations

from typing import Any

import numpy as np

from tritium.errors import OpError
from tritium.ir import types as ir
from tritium.ops.base import Op
from tritium.ops.elementwise import describe
from tritium.ops.fields import i32_attr, operand, unit_attr
from tritium.ops.memory import Context


class SortOp(Op):
    """The `k` smallest elements along the last axis in rising order, or the `k` largest in falling
    order with `descending`.

    Floats are totally ordered: -0 before +0, and any NaN (which comes out as a positive one) after
    infinity. `unsigned` says how integers compare.
    """

    name = "tt.sort"
    exact = "ordered"
    syntax = "$src attrs : type(src) -> type(result)"
    src = operand()
    k = i32_attr()
    descending = unit_attr()
    unsigned = unit_attr()

    @classmethod
    def infer(cls, src: ir.Type, *, k: int, result: ir.Type | None = None, **attrs: Any) -> ir.Type:
        shape, element = ir.shape_of(src), ir.element_type(src)
        fits = ir.is_integer(element) or (ir.is_float(element) and ir.bit_width(element) >= 16)
        if not shape or not fits:
            raise OpError(
                f"{cls.name}: operand is {describe(src)}; a tensor of integers, or of floats of at "
                "least 16 bits, is required"
            )
        if not 1 <= k <= shape[-1] or k & (k - 1):
            raise OpError(f"{cls.name}: k is {k}; a power of two up to {shape[-1]} is required")
        inferred = ir.tensor_of((*shape[:-1], k), element)
        if result is not None and result != inferred:
            raise OpError(f"{cls.name}: result is {describe(result)}; {describe(inferred)} needed")
        return inferred

    def evaluate(self, context: Context, src: Any) -> Any:
        keys = np.asarray(src)
        is_real = ir.is_float(self.result_types[0])
        if is_real:
            keys = float_keys(keys)
        elif self.unsigned:
            keys = keys.view(f"u{keys.itemsize}")
        keys = np.sort(keys, axis=-1)
        keys = (keys[..., ::-1] if self.descending else keys)[..., : self.k]
        if is_real:
            keys = flip_negative(keys)
        return np.ascontiguousarray(keys).view(np.asarray(src).dtype)


def flip_negative(bits: Any) -> Any:
    """Bits of floats to signed integers in the same order, and back."""
    return bits ^ ((bits >> (8 * bits.itemsize - 1)) & np.iinfo(bits.dtype).max)


def float_keys(values: Any) -> Any:
    """Signed integers in the order of the floats, NaNs last."""
    bits = values.view(f"i{values.itemsize}")
    nan = np.isnan(values.astype(np.float64))
    return np.where(nan, np.iinfo(bits.dtype).max, flip_negative(bits))
