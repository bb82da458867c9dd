"""The part of the library that is written in the language itself.

Reductions and scans with fixed functions, sorting, and small helpers. What a function does is what
its code says: it runs in the interpreter as it stands and is compiled like a user's.
"""

# Kernel-language functions take tensors of any type, constexprs and numbers: Python's types say
# little of them.
# pyright: basic, reportArgumentType=false, reportAssignmentType=false, reportReturnType=false
# pyright: reportOptionalMemberAccess=false, reportAttributeAccessIssue=false
# pyright: reportIndexIssue=false, reportOperatorIssue=false, reportCallIssue=false

from __future__ import annotations

from tritium.language import core
from tritium.language import math as tl_math
from tritium.language.core import constexpr
from tritium.language.core import zeros as zeros
from tritium.language.core import zeros_like as zeros_like
from tritium.language.decorators import tensor_member
from tritium.language.jit.function import device_function
from tritium.language.values.constexpr import constexpr_function


@constexpr_function
def _log2(n: int) -> int:
    return n.bit_length() - 1


@constexpr_function
def _axis_of(dim: int | None, rank: int) -> int:
    """`dim` counted from the front; the last axis for None."""
    if not rank:
        raise ValueError("a scalar has no axes; a block is required")
    chosen = rank - 1 if dim is None else dim
    if not isinstance(chosen, int):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValueError(f"invalid axis {dim!r}: it must be an int")
    if not -rank <= chosen < rank:
        raise ValueError(f"invalid axis {dim}. Expected {-rank} <= axis < {rank}")
    return chosen % rank


@constexpr_function
def _sum_dtype(given: core.dtype, wanted: core.dtype | None) -> core.dtype:
    """The dtype of a sum: `wanted`, or for narrow integers 32 bits of the same sign."""
    if wanted is not None:
        return wanted
    if given.is_int() and given.int_bitwidth < 32:
        return core.int32 if given.is_int_signed() else core.uint32
    return given


@constexpr_function
def _order_dtype(given: core.dtype) -> core.dtype:
    """The dtype in which a minimum or maximum is computed: at least 32 bits."""
    if given.is_floating():
        return core.float32 if given.primitive_bitwidth < 32 else given
    return core.int32 if given.primitive_bitwidth < 32 else given


# Small helpers


@tensor_member
@device_function
def cdiv(x, div):
    """`x / div` rounded up, of integers of one signedness; `div` is positive."""
    return (x + div - 1) // div


@tensor_member
@device_function
def sigmoid(x):
    """1 / (1 + exp(-x)) (fp32, fp64)."""
    return 1 / (1 + tl_math.exp(-x))


@tensor_member
@device_function
def softmax(
    x, dim: constexpr = None, keep_dims: constexpr = False, ieee_rounding: constexpr = False
):
    """exp(x) / sum(exp(x)) along `dim` (the first axis when None), computed from x - max(x).

    `ieee_rounding`: divide with correct rounding. The result has the shape of `x`.
    """
    axis: constexpr = 0 if dim is None else dim
    shifted = x - max(x, axis, keep_dims=True)
    weights = tl_math.exp(shifted)
    total = sum(weights, axis, keep_dims=True)
    return tl_math.fdiv(weights, total, ieee_rounding)


@tensor_member
@device_function
def ravel(x, can_reorder: constexpr = False):
    """All elements of `x` in one dimension, in row-major order unless `can_reorder`."""
    return core.reshape(x, [x.numel], can_reorder=can_reorder)


@constexpr_function
def _without(shape: tuple[int, ...], dim: int) -> list[int]:
    """`shape` without its axis `dim`, whose size must be 1."""
    axis = _axis_of(dim, len(shape))
    if shape[axis] != 1:
        size, full = int(shape[axis]), list(map(int, shape))
        raise ValueError(f"axis {dim} of shape {full} has size {size}; squeeze requires 1")
    return [int(extent) for at, extent in enumerate(shape) if at != axis]


@device_function
def squeeze(x, dim: constexpr):
    """`x` without its axis `dim`, whose size must be 1. The inverse of `unsqueeze`."""
    return core.reshape(x, _without(x.shape, dim))


@device_function
def unsqueeze(x, dim: constexpr):
    """`x` with a new axis of size 1 at `dim`, a position in the result. See `expand_dims`."""
    return core.expand_dims(x, dim)


@device_function
def swizzle2d(i, j, size_i, size_j, size_g):
    """The place of the (i, j)-th of `size_i` x `size_j` blocks if blocks run through groups of
    `size_g` rows column by column. The last group may have fewer rows. Returns the new (i, j)."""
    linear = i * size_j + j
    group_size = size_g * size_j
    group = linear // group_size
    first_row = group * size_g
    rows = core.minimum(size_i - first_row, size_g)
    within = linear % group_size
    return first_row + within % rows, within // rows


@device_function
def interleave(a, b):
    """The elements of `a` and `b` in turn along the last axis, which doubles."""
    joined = core.join(a, b)
    if len(joined.shape) == 1:
        return joined
    else:
        return core.reshape(joined, [*joined.shape[:-2], 2 * joined.shape[-2]])


# Reductions


@device_function
def _sum_combine(a, b):
    return a + b


@device_function
def _prod_combine(a, b):
    return a * b


@device_function
def _xor_combine(a, b):
    return a ^ b


@device_function
def _or_combine(a, b):
    return a | b


@device_function
def _elementwise_max(a, b):
    return core.maximum(a, b)


@device_function
def _elementwise_min(a, b):
    return core.minimum(a, b)


# The order of two elements with their indices. NaN loses against every number, as in `maximum` and
# `minimum`, so that the order in which a reduction meets the elements does not matter.


@device_function
def _wins(before, not_after, a, i, b, j, tie_break_left: constexpr):
    """True if `a` is chosen: it is `before` b, or b alone is NaN, or neither is before the other
    and a is further left (`tie_break_left`)."""
    if a.dtype.is_floating():
        before = before | ((a == a) & (b != b))
        not_after = not_after | (b != b)
    if tie_break_left:
        return core.where(i < j, not_after, before)
    else:
        return before


@device_function
def _argmax_combine(value1, index1, value2, index2, tie_break_left: constexpr):
    """The larger of two elements, with its index."""
    left = _wins(value1 > value2, value1 >= value2, value1, index1, value2, index2, tie_break_left)
    return core.where(left, value1, value2), core.where(left, index1, index2)


@device_function
def _argmax_combine_tie_break_left(value1, index1, value2, index2):
    return _argmax_combine(value1, index1, value2, index2, True)


@device_function
def _argmax_combine_tie_break_fast(value1, index1, value2, index2):
    return _argmax_combine(value1, index1, value2, index2, False)


@device_function
def _argmin_combine(value1, index1, value2, index2, tie_break_left: constexpr):
    """The smaller of two elements, with its index."""
    left = _wins(value1 < value2, value1 <= value2, value1, index1, value2, index2, tie_break_left)
    return core.where(left, value1, value2), core.where(left, index1, index2)


@device_function
def _argmin_combine_tie_break_left(value1, index1, value2, index2):
    return _argmin_combine(value1, index1, value2, index2, True)


@device_function
def _argmin_combine_tie_break_fast(value1, index1, value2, index2):
    return _argmin_combine(value1, index1, value2, index2, False)


@constexpr_function
def _index_shape(shape: tuple[int, ...], axis: int) -> list[int]:
    """The shape of 0, 1, 2, ... along `axis` that broadcasts to `shape`."""
    return [int(extent) if d == axis else 1 for d, extent in enumerate(shape)]


@device_function
def _with_indices(input, axis: constexpr, keep_dims: constexpr, combine: constexpr):
    if axis is None:
        flat = core.reshape(input, [input.numel])
        index = core.arange(0, flat.shape[0])
        value, place = core.reduce((flat, index), None, combine)
        if keep_dims:
            ones: constexpr = _index_shape(input.shape, -1)
            value, place = core.reshape(value, ones), core.reshape(place, ones)
        return value, place
    else:
        at: constexpr = _axis_of(axis, len(input.shape))
        index = core.reshape(core.arange(0, input.shape[at]), _index_shape(input.shape, at))
        index = core.broadcast_to(index, input.shape)
        return core.reduce((input, index), at, combine, keep_dims)


@tensor_member
@device_function
def max(
    input,
    axis: constexpr = None,
    return_indices: constexpr = False,
    return_indices_tie_break_left: constexpr = True,
    keep_dims: constexpr = False,
):
    """The largest element along `axis` (of all, when None); types below 32 bits give 32.

    Args:
        return_indices: return (value, int32 index along the axis).
        return_indices_tie_break_left: of equal elements the first one's index; else any one's.
        keep_dims: keep the axis with size 1.
    """
    if return_indices:
        if return_indices_tie_break_left:
            return _with_indices(input, axis, keep_dims, _argmax_combine_tie_break_left)
        else:
            return _with_indices(input, axis, keep_dims, _argmax_combine_tie_break_fast)
    else:
        return core.reduce(input.to(_order_dtype(input.dtype)), axis, _elementwise_max, keep_dims)


@tensor_member
@device_function
def min(
    input,
    axis: constexpr = None,
    return_indices: constexpr = False,
    return_indices_tie_break_left: constexpr = True,
    keep_dims: constexpr = False,
):
    """The smallest element along `axis`. See `max`."""
    if return_indices:
        if return_indices_tie_break_left:
            return _with_indices(input, axis, keep_dims, _argmin_combine_tie_break_left)
        else:
            return _with_indices(input, axis, keep_dims, _argmin_combine_tie_break_fast)
    else:
        return core.reduce(input.to(_order_dtype(input.dtype)), axis, _elementwise_min, keep_dims)


@tensor_member
@device_function
def argmax(input, axis: constexpr, tie_break_left: constexpr = True, keep_dims: constexpr = False):
    """The int32 index of the largest element along `axis`; of the first one with
    `tie_break_left`."""
    _, index = max(input, axis, True, tie_break_left, keep_dims)
    return index


@tensor_member
@device_function
def argmin(input, axis: constexpr, tie_break_left: constexpr = True, keep_dims: constexpr = False):
    """The int32 index of the smallest element along `axis`; of the first one with
    `tie_break_left`."""
    _, index = min(input, axis, True, tie_break_left, keep_dims)
    return index


@tensor_member
@device_function
def sum(input, axis: constexpr = None, keep_dims: constexpr = False, dtype: constexpr = None):
    """The sum along `axis` (of all elements, when None), computed in `dtype`: by default the
    input's, but 32 bits for narrower integers."""
    wide = input.to(_sum_dtype(input.dtype, dtype))
    return core.reduce(wide, axis, _sum_combine, keep_dims)


@tensor_member
@device_function
def xor_sum(input, axis: constexpr = None, keep_dims: constexpr = False):
    """The exclusive or of the integers along `axis` (of all, when None)."""
    core.static_assert(input.dtype.is_int(), "xor_sum only supported for integers")
    return core.reduce(input, axis, _xor_combine, keep_dims)


@tensor_member
@device_function
def reduce_or(input, axis: constexpr, keep_dims: constexpr = False):
    """The inclusive or of the integers along `axis` (of all, when None)."""
    core.static_assert(input.dtype.is_int(), "reduce_or only supported for integers")
    return core.reduce(input, axis, _or_combine, keep_dims)


# Scans


@tensor_member
@device_function
def cumsum(input, axis: constexpr = 0, reverse: constexpr = False, dtype: constexpr = None):
    """Running sums along `axis`, from its end with `reverse`, computed in `dtype`: by default the
    input's, but 32 bits for narrower integers."""
    wide = input.to(_sum_dtype(input.dtype, dtype))
    return core.associative_scan(wide, axis, _sum_combine, reverse)


@tensor_member
@device_function
def cumprod(input, axis: constexpr = 0, reverse: constexpr = False, dtype: constexpr = None):
    """Running products along `axis`, from its end with `reverse`, computed in `dtype`: by default
    the input's, but 32 bits for narrower integers."""
    wide = input.to(_sum_dtype(input.dtype, dtype))
    return core.associative_scan(wide, axis, _prod_combine, reverse)


_LAST_ONLY = constexpr("only minor dimension is currently supported")

# Sorting: bitonic networks on the last axis. A stage compares elements whose positions differ in
# one bit. The rows are cubes, with an axis of size 2 for each bit of the position, so that every
# element stays where it is: the exclusive or of a pair gives each of the two the other.


@constexpr_function
def _cubes(n: int, size: int) -> list[int]:
    """The shape of `n` elements as cubes of `size` elements each."""
    return [*([n // size] if n > size else []), *[2] * _log2(size)]


@constexpr_function
def _other_axes(rank: int, bit: int) -> list[int]:
    """The axes but for that of a position's `bit`."""
    return [axis for axis in range(rank) if axis != rank - 1 - bit]


@device_function
def _bit_of_position(rank: constexpr, bit: constexpr):
    """True if a position's `bit` is set."""
    index = core.arange(0, 2) != 0
    return core.expand_dims(index, _other_axes(rank, bit)) if rank > 1 else index


@device_function
def _pair(x, bit: constexpr):
    """For each element of cubes: (the one of the pair that differs in position bit `bit` whose bit
    is clear, the one whose bit is set, the other one)."""
    rank: constexpr = len(x.shape)
    if x.dtype.is_int():
        bits = x
    else:
        bits = x.to(core.get_int_dtype(x.dtype.primitive_bitwidth, False), bitcast=True)
    both = core.reduce(bits, rank - 1 - bit, _xor_combine, True)
    other = core.broadcast_to(both, x.shape) ^ bits
    if not x.dtype.is_int():
        other = other.to(x.dtype, bitcast=True)
    high = core.broadcast_to(_bit_of_position(rank, bit), x.shape)
    return core.where(high, other, x), core.where(high, x, other), other


@device_function
def _exchange(x, bit: constexpr, stage: constexpr, descending: constexpr, whole: constexpr):
    """Order each pair of elements of cubes that differ in position bit `bit`: downward where
    position bit `stage` is set (everywhere alike with `whole`), the other way round with
    `descending`."""
    left, right, other = _pair(x, bit)
    swap = left > right
    if not whole:
        swap = swap ^ core.broadcast_to(_bit_of_position(len(x.shape), stage), x.shape)
    if descending:
        # Not `left < right`: pairs of equal elements would be swapped to no end, which is harmless,
        # but NaN would then be compared differently in the two orders.
        swap = ~swap
    return core.where(swap, other, x)


@device_function
def _merge(x, stage: constexpr, descending: constexpr, whole: constexpr):
    """One round of a bitonic network on cubes: sorts runs of 2**stage that are bitonic, alternately
    up and down unless they are `whole` cubes."""
    for i in core.static_range(stage):
        x = _exchange(x, stage - 1 - i, stage, descending, whole)
    return x


@device_function
def _first(a, b):
    return a


@device_function
def bitonic_merge(x, dim: constexpr = None, descending: constexpr = core.CONSTEXPR_0):
    """Sort a sequence that rises and then falls (or the reverse) along the last axis."""
    last: constexpr = len(x.shape) - 1
    core.static_assert(_axis_of(dim, last + 1) == last, _LAST_ONLY)
    cubes = core.reshape(x, _cubes(x.numel, x.shape[-1]))
    return core.reshape(_merge(cubes, _log2(x.shape[-1]), descending, True), x.shape)


@tensor_member
@device_function
def sort(x, dim: constexpr = None, descending: constexpr = core.CONSTEXPR_0):
    """`x` sorted along the last axis (whose size is a power of two), the largest first with
    `descending`. Not stable. `dim` must be None or the last axis."""
    last: constexpr = len(x.shape) - 1
    core.static_assert(_axis_of(dim, last + 1) == last, _LAST_ONLY)
    if core.sorts_whole(x.dtype):
        return core.sort_whole(x, x.shape[-1], descending)
    rounds: constexpr = _log2(x.shape[-1])
    cubes = core.reshape(x, _cubes(x.numel, x.shape[-1]))
    for stage in core.static_range(1, rounds + 1):
        cubes = _merge(cubes, stage, descending, stage == rounds)
    return core.reshape(cubes, x.shape)


@constexpr_function
def _is_power_of_two(n: int) -> bool:
    return isinstance(n, int) and n > 0 and n & (n - 1) == 0  # pyright: ignore[reportUnnecessaryIsInstance]


@device_function
def topk(x, k: constexpr, dim: constexpr = None, descending: constexpr = True):
    """The `k` largest elements along the last axis, the largest first; the `k` smallest, the
    smallest first, without `descending`. `k` is a power of two.

    Types below 32 bits give 32, as `max` does, unless `k` is the whole axis."""
    last: constexpr = len(x.shape) - 1
    core.static_assert(_axis_of(dim, last + 1) == last, _LAST_ONLY)
    size: constexpr = x.shape[-1]
    core.static_assert(_is_power_of_two(k), "topk: k must be a power of two")
    core.static_assert(k <= size, "topk: k must not be larger than the axis")
    result: constexpr = _order_dtype(x.dtype) if k < size else x.dtype
    if core.sorts_whole(x.dtype):
        return core.sort_whole(x, k, descending).to(result)
    rounds: constexpr = _log2(k)
    folds: constexpr = _log2(size) - rounds
    cubes = core.reshape(x, _cubes(x.numel, size))
    # Sort runs of k, one down, the next up; of two neighbouring runs the larger elements at each
    # position are the k largest of both and bitonic, so that a merge sorts them again.
    for stage in core.static_range(1, rounds + 1):
        cubes = _merge(cubes, stage, descending, stage == rounds and folds == 0)
    for fold in core.static_range(1, folds + 1):
        left, right, _other = _pair(cubes, rounds)
        first = left > right if descending else left < right
        best = core.where(first, left, right)
        cubes = core.reduce(best, len(best.shape) - 1 - rounds, _first)
        cubes = _merge(cubes, rounds, descending, fold == folds)
    return core.reshape(cubes, [*x.shape[:-1], k]).to(result)


@tensor_member
@device_function
def flip(x, dim: constexpr = None):
    """The elements in reverse order along `dim` (the last axis when None)."""
    axis: constexpr = _axis_of(dim, len(x.shape))
    size: constexpr = x.shape[axis]
    index = core.reshape(size - 1 - core.arange(0, size), _index_shape(x.shape, axis))
    return core.gather(x, core.broadcast_to(index, x.shape), axis)
