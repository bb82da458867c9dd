"""Sorting in translated kernels: a bitonic network of gathers along the last axis."""

# Kernel-language functions take tensors of any type, constexprs and numbers: Python's types say
# little of them.
# pyright: basic, reportArgumentType=false, reportAssignmentType=false, reportReturnType=false
# pyright: reportOptionalMemberAccess=false, reportAttributeAccessIssue=false
# pyright: reportIndexIssue=false, reportOperatorIssue=false, reportCallIssue=false
# pyright: reportUnnecessaryComparison=false

from __future__ import annotations

from typing import Any

from tritium.experimental import gluon
from tritium.experimental.gluon import language as gl
from tritium.language import core as tl
from tritium.language.builtins import casts
from tritium.language.decorators import builtin
from tritium.language.values.tensor import tensor
from tritium.tools.triton_to_gluon_translator.helpers import arange, expand_dims, settle

_BITS: dict[int, Any] = {16: gl.int16, 32: gl.int32, 64: gl.int64}


@builtin
def positions(x: tensor, count: int) -> tensor:
    """The numbers of `count` elements along the last axis, for each row of a block."""
    found, rank = arange(0, count), len(x.type.shape)
    for _ in range(rank - 1):
        found = expand_dims(found, 0)
    return tl.broadcast_to(found, [*x.type.shape[:-1], count])


@builtin
def keys_of(x: tensor) -> tensor:
    """Integers in the order of the elements: NaN after infinity, -0 before 0."""
    if not x.dtype.is_floating():
        return x
    bits = x.dtype.primitive_bitwidth
    if bits < 16:
        return keys_of(casts.cast(x, gl.float32))
    found = tl.cast(x, _BITS[bits], bitcast=True)
    most = (1 << bits - 1) - 1
    return tl.where(x != x, most, found ^ ((found >> bits - 1) & most))


@builtin
def values_of(keys: tensor, dtype: Any) -> tensor:
    """The elements again."""
    if not dtype.is_floating():
        return keys
    wide = gl.float32 if dtype.primitive_bitwidth < 16 else dtype
    bits = wide.primitive_bitwidth
    plain = keys ^ ((keys >> bits - 1) & ((1 << bits - 1) - 1))
    return casts.cast(tl.cast(plain, wide, bitcast=True), dtype)


@gluon.jit
def sort(x, dim: gl.constexpr = None, descending: gl.constexpr = False):
    """`tl.sort`: along the last axis."""
    size: gl.constexpr = x.shape[len(x.shape) - 1]
    rounds: gl.constexpr = size.bit_length() - 1
    keys, place = keys_of(x), positions(x, size)
    for stage in gl.static_range(1, rounds + 1):
        for step in gl.static_range(stage):
            bit = 1 << (stage - 1 - step)
            other = settle(gl.gather(keys, place ^ bit, len(x.shape) - 1))
            rising = ((place >> stage) & 1) == (1 if descending else 0)
            first = (place & bit) == 0
            keys = gl.where(first == rising, gl.minimum(keys, other), gl.maximum(keys, other))
    return values_of(keys, x.dtype)


@gluon.jit
def topk(x, k: gl.constexpr, dim: gl.constexpr = None, descending: gl.constexpr = True):
    """`tl.topk`: the first `k` of the elements in order."""
    ordered = sort(x, dim, descending)
    found = settle(gl.gather(ordered, positions(x, k), len(x.shape) - 1))
    return found.to(_order_dtype(x.dtype)) if k < x.shape[len(x.shape) - 1] else found


@gluon.constexpr_function
def _order_dtype(given: Any) -> Any:
    if given.primitive_bitwidth >= 32:
        return given
    return gl.float32 if given.is_floating() else gl.int32
