"""Changing the shape of blocks."""

from __future__ import annotations

from typing import Any

from tritium.ir import types as ir
from tritium.language.builtins import arithmetic, casts
from tritium.language.builtins.build import build, build_many
from tritium.language.builtins.creation import check_shape
from tritium.language.decorators import builtin, tensor_member
from tritium.language.values.base import as_tuple
from tritium.language.values.tensor import TensorLike, tensor
from tritium.language.values.tuples import tuple as tl_tuple
from tritium.ops import ttir


def wrap_axis(axis: object, rank: int) -> int:
    """An axis counted from the front. Raises `ValueError` where there is none such."""
    if not isinstance(axis, int) or not -rank <= axis < rank:
        raise ValueError(f"invalid axis {axis}. Expected {-rank} <= axis < {rank}")
    return axis % rank


def reshape_to(value: tensor, shape: tuple[int, ...], can_reorder: bool = False) -> tensor:
    """`value` in another shape of as many elements; () makes a scalar of a single element."""
    if value.type.shape == shape:
        return value
    if not shape:
        return build(ttir.UnsplatOp, value, like=value)
    if not value.type.is_block():
        return reshape_to(arithmetic.splat(value, (1,) * len(shape)), shape)
    result = ir.tensor_of(shape, value.dtype.to_ir())  # its encoding is inferred
    return build(ttir.ReshapeOp, value, like=value, result=result, allow_reorder=can_reorder)


@tensor_member
@builtin
def reshape(input: TensorLike, *shape: object, can_reorder: bool = False) -> tensor:
    """The elements of `input` in row-major order (any order with `can_reorder`) in another shape,
    given as a sequence or as separate arguments.

    Raises `OpError` where the number of elements differs.
    """
    return reshape_to(casts.to_tensor(input), check_shape(shape), bool(can_reorder))


@tensor_member
@builtin
def view(input: TensorLike, *shape: object) -> tensor:
    """`reshape` that may reorder the elements. Prefer `reshape`."""
    return reshape_to(casts.to_tensor(input), check_shape(shape), True)


@tensor_member
@builtin
def expand_dims(input: TensorLike, axis: object) -> tensor:
    """New axes of size 1 at `axis`, an integer or a sequence of them (positions in the result,
    negative ones from its end). Raises `ValueError` for an axis out of range or given twice."""
    x = casts.to_tensor(input)
    axes = as_tuple(axis)
    rank = len(x.type.shape) + len(axes)
    if any(not isinstance(a, int) or not -rank <= a < rank for a in axes):
        raise ValueError(f"invalid axis {axis}. Expected {-rank} <= axis < {rank}")
    places = sorted(a % rank for a in axes)
    if len(set(places)) != len(places):
        raise ValueError(f"expand_dims received duplicate axes, normalized axes = {places}")
    for place in places:
        x = arithmetic.expand_dims(x, place)
    return x


@builtin
def broadcast(input: TensorLike, other: TensorLike) -> tl_tuple:
    """Both tensors repeated to their common shape, as a pair."""
    return tl_tuple(arithmetic.broadcast_values(casts.to_tensor(input), casts.to_tensor(other)))


@tensor_member
@builtin
def broadcast_to(input: TensorLike, *shape: object) -> tensor:
    """`input` repeated along its axes of size 1 (a scalar: along all) to `shape`.

    Raises `OpError` where an extent is neither 1 nor the wanted one, or the ranks differ.
    """
    return arithmetic.broadcast_shape(casts.to_tensor(input), check_shape(shape))


def permute_axes(value: tensor, dims: tuple[int, ...]) -> tensor:
    """The axes in another order: result axis i is axis `dims[i]`."""
    return build(ttir.TransOp, value, like=value, order=dims)


def _dims(dims: tuple[Any, ...]) -> tuple[int, ...]:
    return as_tuple(dims[0]) if len(dims) == 1 else dims


@tensor_member
@builtin
def trans(input: TensorLike, *dims: object) -> tensor:
    """The axes permuted as `permute` does; the last two swapped when no `dims` are given."""
    x, order = casts.to_tensor(input), _dims(dims)
    rank = len(x.type.shape)
    if not order:
        if rank < 2:
            raise ValueError(f"trans of a tensor of shape {list(x.type.shape)}: 2 axes are needed")
        order = (*range(rank - 2), rank - 1, rank - 2)
    return permute_axes(x, order)


@tensor_member
@builtin
def permute(input: TensorLike, *dims: object) -> tensor:
    """The axes in the order `dims`: result axis i is axis `dims[i]`.

    Raises `OpError` where `dims` is no permutation of the axes.
    """
    return permute_axes(casts.to_tensor(input), _dims(dims))


def _transposed(self: tensor) -> tensor:
    """The last two axes swapped."""
    return trans(self)


tensor.T = property(_transposed)  # pyright: ignore[reportAttributeAccessIssue]


def _in_sign_of(a: tensor, b: tensor) -> tensor:
    """`b` with the bits that it has, in the dtype of `a`, if both are integers of one width."""
    integers = a.dtype.is_int() and b.dtype.is_int()
    same_width = a.dtype.primitive_bitwidth == b.dtype.primitive_bitwidth
    return casts.bitcast(b, a.dtype) if integers and same_width else b


@builtin
def join(a: TensorLike, b: TensorLike) -> tensor:
    """The two tensors side by side along a new last axis of size 2. They are broadcast to a common
    shape; two scalars give a block of two elements. Integers that differ in sign alone are taken as
    of the dtype of `a`. Raises `TypeError` where dtypes differ otherwise."""
    a, b = arithmetic.broadcast_values(casts.to_tensor(a), casts.to_tensor(b))
    b = _in_sign_of(a, b)
    if a.dtype != b.dtype:
        raise TypeError(f"join of {a.dtype} and {b.dtype}: the dtypes must be the same")
    scalars = not a.type.is_block()
    if scalars:
        a, b = arithmetic.splat(a, (1,)), arithmetic.splat(b, (1,))
    joined = build(ttir.JoinOp, a, b, like=a)
    return reshape_to(joined, (2,)) if scalars else joined


@tensor_member
@builtin
def split(a: TensorLike) -> tl_tuple:
    """The two halves of a tensor whose last axis has size 2, without that axis: the inverse of
    `join`. Raises `OpError` for another shape."""
    x = casts.to_tensor(a)
    scalars = x.type.shape == (2,)
    if scalars:
        x = reshape_to(x, (1, 2))
    halves = build_many(ttir.SplitOp, x, like=[x, x])
    return tl_tuple([reshape_to(h, ()) for h in halves] if scalars else halves)


@builtin
def cat(input: TensorLike, other: TensorLike, can_reorder: bool = False, dim: object = 0) -> tensor:
    """The elements of two blocks of one shape and dtype one after the other along the axis `dim`.

    With `can_reorder` the blocks have one axis and the order of the result's elements is
    unspecified, which is cheaper. Raises `ValueError`.
    """
    a, b = casts.to_tensor(input), casts.to_tensor(other)
    b = _in_sign_of(a, b)
    shape = a.type.shape
    if not a.type.is_block() or a.type != b.type:
        raise ValueError(f"cat of {a.type} and {b.type}: two blocks of one type are required")
    axis = wrap_axis(dim, len(shape))
    if can_reorder:
        return build(ttir.CatOp, a, b, like=a)
    order = list(range(len(shape)))
    order.insert(axis, len(shape))
    stacked = permute_axes(join(a, b), tuple(order))
    return reshape_to(stacked, (*shape[:axis], 2 * shape[axis], *shape[axis + 1 :]))
