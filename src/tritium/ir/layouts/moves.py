"""Layouts of tiles whose elements get other coordinates, but stay in their threads."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from tritium.errors import OpError
from tritium.ir.layouts.encodings import (
    BLOCK,
    LANE,
    REGISTER,
    WARP,
    BlockedEncoding,
    Cluster,
    Encoding,
    LinearEncoding,
    SliceEncoding,
    dim,
    linear,
)
from tritium.ir.layouts.linear import LinearLayout
from tritium.ir.layouts.undecided import UndecidedEncoding


def permuted(cluster: Cluster, order: Sequence[int]) -> Cluster:
    """The split of a tile whose axis i was axis `order[i]`."""
    return tuple(tuple(basis[i] for i in order) for basis in cluster)


@lru_cache(maxsize=1024)
def covers(encoding: Encoding, shape: tuple[int, ...]) -> bool:
    """True if a tile of this shape can have the encoding: one given by its bases may have gaps,
    others have none."""
    return linear(encoding, shape).is_surjective


@lru_cache(maxsize=1024)
def transposed(encoding: Encoding, order: tuple[int, ...], shape: tuple[int, ...]) -> Encoding:
    """The encoding of a tile whose axis i was axis `order[i]` of a tile of this shape and encoding:
    all elements stay where they are."""
    if isinstance(encoding, UndecidedEncoding) or order == tuple(range(len(order))):
        return encoding
    if isinstance(encoding, BlockedEncoding):
        where = {axis: i for i, axis in enumerate(order)}
        sizes = {
            key: tuple(encoding.get(key)[i] for i in order)
            for key in ("sizePerThread", "threadsPerWarp", "warpsPerCTA")
        }
        return BlockedEncoding.make(
            **sizes, order=tuple(where[a] for a in encoding.get("order")),
            CGALayout=permuted(encoding.get("CGALayout"), order),
        )  # fmt: skip
    layout = linear(encoding, shape)
    layout = layout.transpose_outs([dim(i) for i in order])
    layout = layout.rename_outs({dim(axis): dim(i) for i, axis in enumerate(order)})
    return LinearEncoding.from_layout(layout)


def flat(layout: LinearLayout) -> LinearLayout:
    """The map to the row-major index."""
    return layout.transpose_outs(layout.out_names[::-1]).flatten_outs(dim(0))


def in_shape(layout: LinearLayout, shape: tuple[int, ...]) -> LinearLayout:
    """The map to the coordinates in another shape, elements in row-major order."""
    sizes = {dim(axis): shape[axis] for axis in reversed(range(len(shape)))}
    return flat(layout).reshape_outs(sizes).transpose_outs([*reversed(sizes)])


@lru_cache(maxsize=1024)
def reshaped(encoding: Encoding, shape: tuple[int, ...], result: tuple[int, ...]) -> Encoding:
    """The encoding of a tile of this shape after a reshape that moves nothing between threads."""
    if isinstance(encoding, UndecidedEncoding):
        return encoding
    if (sliced := _with_unit_axis(encoding, shape, result)) is not None:
        return sliced
    layout = in_shape(linear(encoding, shape), result)
    if isinstance(encoding, BlockedEncoding):
        parts = _divided(encoding, shape, result)
        if parts is not None and linear(parts, result) == layout:
            return parts
        if (found := _blocked(layout, result)) is not None:
            return found
    return LinearEncoding.from_layout(layout)


def _with_unit_axis(
    encoding: Encoding, shape: tuple[int, ...], result: tuple[int, ...]
) -> Encoding | None:
    """The encoding after a reshape that takes an axis of size 1 off a blocked tile, or gives back
    the one that a slice lacks; None for another one. `expand_dims` and programs name such
    encodings."""
    if isinstance(encoding, BlockedEncoding):
        for axis, size in enumerate(shape):
            if size == 1 and len(shape) > 1 and (*shape[:axis], *shape[axis + 1 :]) == result:
                return SliceEncoding.make(dim=axis, parent=encoding)
    if isinstance(encoding, SliceEncoding):
        axis = encoding.get("dim")
        if (*shape[:axis], 1, *shape[axis:]) == result:
            return encoding.get("parent")
    return None


def _divided(
    encoding: BlockedEncoding, shape: tuple[int, ...], result: tuple[int, ...]
) -> BlockedEncoding | None:
    """The blocked encoding of a tile whose axes are divided into several, the inner ones taking
    their share of elements, lanes and warps first; None where axes are joined."""
    groups, end = list[list[int]](), 0
    for size in shape:
        start, count = end, 1
        while count < size and end < len(result):
            count *= result[end]
            end += 1
        if count != size:
            return None
        groups.append(list(range(start, end))[::-1])
    groups[-1] = list(range(groups[-1][-1] if groups[-1] else end, len(result)))[::-1]
    if encoding.get("CGALayout") or not all(groups):
        return None
    left, sizes = list(result), dict[str, tuple[int, ...]]()
    for key in ("sizePerThread", "threadsPerWarp", "warpsPerCTA"):
        shares = [1] * len(result)
        for wanted, group in zip(encoding.get(key), groups, strict=True):
            for axis in group:
                shares[axis] = min(wanted, left[axis])
                left[axis] //= shares[axis]
                wanted //= shares[axis]
            shares[group[-1]] *= wanted
        sizes[key] = tuple(shares)
    sources: tuple[int, ...] = encoding.get("order")
    order = tuple(axis for source in sources for axis in groups[source])
    return BlockedEncoding.make(**sizes, order=order)


def _blocked(layout: LinearLayout, shape: tuple[int, ...]) -> BlockedEncoding | None:
    """The blocked encoding of a tile with this layout, if there is one: programs that reshape a
    tile and compute with it name such encodings."""
    if layout.in_bits(BLOCK):
        return None
    bases = {name: layout.bases(name) for name in (REGISTER, LANE, WARP)}
    for count in reversed(range(len(bases[REGISTER]) + 1)):
        parts = (bases[REGISTER][:count], bases[LANE], bases[WARP])
        sizes = [_extents(part, len(shape)) for part in parts]
        axes = [next((i for i, x in enumerate(b) if x), None) for part in parts for b in part]
        rest = reversed(range(len(shape)))
        order = tuple(dict.fromkeys([*(a for a in axes if a is not None), *rest]))
        found = BlockedEncoding.make(
            sizePerThread=sizes[0], threadsPerWarp=sizes[1], warpsPerCTA=sizes[2], order=order
        )
        if linear(found, shape) == layout:
            return found
    return None


def _extents(bases: Sequence[Sequence[int]], rank: int) -> tuple[int, ...]:
    """The number of elements, lanes or warps along each axis."""
    return tuple(1 << sum(1 for basis in bases if basis[axis]) for axis in range(rank))


@lru_cache(maxsize=1024)
def joined(encoding: Encoding, shape: tuple[int, ...]) -> Encoding:
    """The encoding of two tiles joined: the new axis is in each thread's lowest register bit, or
    where the tile has it that the encoding is a half of (`halved`)."""
    if isinstance(encoding, UndecidedEncoding):
        return encoding
    rank = len(shape)
    whole = parent(encoding, rank)
    if whole is not None and _has_pairs(whole, (*shape, 2)):
        return whole
    if isinstance(encoding, BlockedEncoding):
        return BlockedEncoding.make(
            sizePerThread=(*encoding.get("sizePerThread"), 2),
            threadsPerWarp=(*encoding.get("threadsPerWarp"), 1),
            warpsPerCTA=(*encoding.get("warpsPerCTA"), 1), order=(rank, *encoding.get("order")),
            CGALayout=tuple((*basis, 0) for basis in encoding.get("CGALayout")),
        )  # fmt: skip
    layout = LinearLayout.identity(2, "register", dim(rank)) * linear(encoding, shape)
    layout = layout.transpose_outs([dim(i) for i in range(rank + 1)])
    whole = parent(encoding, rank)  # of halves that a split left
    if whole is not None and linear(whole, (*shape, 2)) == layout:
        return whole
    return LinearEncoding.from_layout(layout)


def unjoined(encoding: Encoding, shape: tuple[int, ...]) -> Encoding:
    """The encoding of two tiles whose joined one, of this shape, has the encoding."""
    last = len(shape) - 1
    if isinstance(encoding, BlockedEncoding):
        sizes = {key: encoding.get(key)[:last]
                 for key in ("sizePerThread", "threadsPerWarp", "warpsPerCTA")}  # fmt: skip
        found = BlockedEncoding.make(
            **sizes, order=tuple(a for a in encoding.get("order") if a != last),
            CGALayout=tuple(basis[:last] for basis in encoding.get("CGALayout")),
        )  # fmt: skip
        if joined(found, shape[:last]) == encoding:
            return found
    return halved(encoding, shape)


@lru_cache(maxsize=1024)
def halved(encoding: Encoding, shape: tuple[int, ...]) -> Encoding:
    """The encoding of either half of a tile of this shape along its last axis, of size 2. Raises
    `OpError` where a thread does not have both elements of all pairs that it has."""
    if isinstance(encoding, UndecidedEncoding):
        return encoding
    if not _has_pairs(encoding, shape):
        raise OpError(f"tt.split: the last axis in {encoding}; a thread must have both elements")
    return SliceEncoding.make(dim=len(shape) - 1, parent=encoding)


def can_halve(encoding: Encoding, shape: tuple[int, ...]) -> bool:
    """True if `halved` gives an encoding."""
    return isinstance(encoding, UndecidedEncoding) or _has_pairs(encoding, shape)


def _has_pairs(encoding: Encoding, shape: tuple[int, ...]) -> bool:
    """True if each thread has both elements of the pairs along the last axis of which it has
    one."""
    last, layout = len(shape) - 1, linear(encoding, shape)
    pair = (*[0] * last, 1)
    others = [basis for n in layout.in_names for basis in layout.bases(n) if basis != pair]
    return layout.bases(REGISTER).count(pair) == 1 and not any(basis[last] for basis in others)


def in_order(layout: LinearLayout, axis: int) -> bool:
    """True if the elements along an axis are, in order, a thread's registers, then a run of lanes,
    then one of warps, of one block: as scans take them."""
    found: list[int] = []
    for name in (REGISTER, LANE, WARP, BLOCK):
        bases = layout.bases(name)
        places = [i for i, basis in enumerate(bases) if basis[axis]]
        if any(sum(map(bool, bases[i])) > 1 for i in places) or (name == BLOCK and places):
            return False
        along = [bases[i][axis] for i in places]
        if name == REGISTER:
            along.sort()
        elif places and places[-1] - places[0] + 1 != len(places):
            return False
        found += along
    return found == [1 << i for i in range(len(found))]


def is_separate(layout: LinearLayout, axis: int) -> bool:
    """True if just as many bits as there must be move along the axis, and none of them along
    another one, as reductions need it."""
    every = (basis for name in layout.in_names for basis in layout.bases(name))
    along = [basis for basis in every if basis[axis]]
    is_alone = all(sum(map(bool, basis)) == 1 for basis in along)
    return is_alone and 1 << len(along) == layout.out_size(layout.out_names[axis])


def sliced(encoding: Encoding, axis: int) -> Encoding:
    """The encoding of a tile that lost the axis to a reduction."""
    if isinstance(encoding, UndecidedEncoding):
        return encoding
    return SliceEncoding.make(dim=axis, parent=encoding)


def parent(encoding: Encoding, axis: int) -> Encoding | None:
    """The encoding of a tile that got an axis; None where the tile's own is no slice along it."""
    if isinstance(encoding, UndecidedEncoding):
        return encoding
    if not isinstance(encoding, SliceEncoding) or encoding.get("dim") != axis:
        return None
    return encoding.get("parent")


def concatenated(encoding: Encoding, shape: tuple[int, ...]) -> LinearEncoding:
    """The encoding of the concatenation of two tiles with one axis: the second tile's registers
    follow the first one's."""
    layout = linear(encoding, shape) * LinearLayout.identity(2, "register", dim(0))
    return LinearEncoding.from_layout(layout)
