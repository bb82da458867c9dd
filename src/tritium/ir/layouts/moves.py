"""Layouts of tiles whose elements get other coordinates, but stay in their threads."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from tritium.ir.layouts.encodings import (
    BlockedEncoding,
    Cluster,
    Encoding,
    LinearEncoding,
    dim,
    linear,
)
from tritium.ir.layouts.linear import LinearLayout


def permuted(cluster: Cluster, order: Sequence[int]) -> Cluster:
    """The split of a tile whose axis i was axis `order[i]`."""
    return tuple(tuple(basis[i] for i in order) for basis in cluster)


@lru_cache(maxsize=1024)
def covers(encoding: Encoding, shape: tuple[int, ...]) -> bool:
    """Whether a tile of this shape can have the encoding: one given by its bases may be too small,
    others repeat themselves."""
    return linear(encoding, shape).is_surjective


@lru_cache(maxsize=1024)
def transposed(encoding: Encoding, order: tuple[int, ...], shape: tuple[int, ...]) -> Encoding:
    """The encoding of a tile whose axis i was axis `order[i]` of a tile of this shape and encoding:
    all elements stay where they are."""
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


@lru_cache(maxsize=1024)
def reshaped(
    encoding: Encoding, shape: tuple[int, ...], result: tuple[int, ...]
) -> LinearEncoding:
    """The encoding of a tile of this shape after a reshape that moves nothing between threads."""
    layout = flat(linear(encoding, shape))
    sizes = {dim(i): result[i] for i in reversed(range(len(result)))}
    layout = layout.reshape_outs(sizes).transpose_outs([dim(i) for i in range(len(result))])
    return LinearEncoding.from_layout(layout)


@lru_cache(maxsize=1024)
def joined(encoding: Encoding, shape: tuple[int, ...]) -> Encoding:
    """The encoding of two tiles joined: the new axis is in each thread's lowest register bit."""
    rank = len(shape)
    if isinstance(encoding, BlockedEncoding):
        return BlockedEncoding.make(
            sizePerThread=(*encoding.get("sizePerThread"), 2),
            threadsPerWarp=(*encoding.get("threadsPerWarp"), 1),
            warpsPerCTA=(*encoding.get("warpsPerCTA"), 1), order=(rank, *encoding.get("order")),
            CGALayout=tuple((*basis, 0) for basis in encoding.get("CGALayout")),
        )  # fmt: skip
    layout = LinearLayout.identity(2, "register", dim(rank)) * linear(encoding, shape)
    return LinearEncoding.from_layout(layout.transpose_outs([dim(i) for i in range(rank + 1)]))


def concatenated(encoding: Encoding, shape: tuple[int, ...]) -> LinearEncoding:
    """The encoding of two tiles of one axis, one behind the other: the second has the registers
    above those of the first."""
    layout = linear(encoding, shape) * LinearLayout.identity(2, "register", dim(0))
    return LinearEncoding.from_layout(layout)
