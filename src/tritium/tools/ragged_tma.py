"""Descriptors of parts of a tensor whose extent is only known in the kernel ("ragged" batches).

A descriptor's bounds are fixed when it is made. Here they are moved by what it is indexed with: the
ragged axis is given three axes, x of 2**30 elements at the axis's own stride s, y at the stride s
and z at 2**34 - s. At x = 2**30 - size + row, y = offset + size and z = 2**30 the address is

    2**30 * (2**34 - s) + (offset + size) * s + (2**30 - size + row) * s
        = 2**64 + (offset + row) * s,

which is that of the row, as addresses have 64 bits; and x is out of bounds where row >= size.
"""

# Kernels have no types that Python knows.
# pyright: basic, reportArgumentType=false, reportOptionalMemberAccess=false

from __future__ import annotations

from typing import Any

import tritium.language as tl
from tritium.runtime.jit import jit
from tritium.tools.tensor_descriptor import TensorDescriptor

__all__ = [
    "TensorDescriptor",
    "atomic_add_ragged",
    "create_ragged_descriptor",
    "load_ragged",
    "store_ragged",
    "to_ragged_indices",
]

_X = 2**30
_YZ = 2**31 - 2**16
"""Above what z and y may be; an extent is an int32."""


def create_ragged_descriptor(
    T: Any,
    block_shape: Any,
    ragged_dim: int = 0,
) -> TensorDescriptor:
    """A descriptor that `load_ragged` and its like take.

    Args:
        T: a tensor or array of 1 to 3 axes, the last of stride 1.
        block_shape: of one load, an extent for each axis of T.
        ragged_dim: the axis along which T is divided; not the last one of several.

    Raises `ValueError` for others.
    """
    block_shape = list(block_shape)
    rank = len(T.shape)
    if not 1 <= rank <= 3 or len(block_shape) != rank:
        raise ValueError(
            f"create_ragged_descriptor: the tensor has {rank} axes and block_shape "
            f"{len(block_shape)}; both must have the same number, 1 to 3"
        )
    ragged_dim = ragged_dim + rank if ragged_dim < 0 else ragged_dim
    if not 0 <= ragged_dim < rank or (rank > 1 and ragged_dim == rank - 1):
        raise ValueError(
            f"create_ragged_descriptor: ragged_dim is {ragged_dim}; of {rank} axes "
            f"{list(range(max(1, rank - 1)))} can be ragged"
        )
    plain = TensorDescriptor.from_tensor(T, block_shape)
    shape, strides = list(plain.shape), list(plain.strides)
    stride = strides[ragged_dim]
    shape[ragged_dim] = _X
    return TensorDescriptor(
        T, [_YZ, _YZ, *shape], [2**34 - stride, stride, *strides], [1, 1, *block_shape]
    )


@jit
def _one_of(slice_value, batch_value):
    tl.static_assert(
        (slice_value is None) != (batch_value is None),
        "a ragged descriptor: pass slice_off and slice_size, or batch_offset and batch_size",
    )
    return batch_value if slice_value is None else slice_value


@jit
def to_ragged_indices(
    slice_off=None, slice_size=None, row=None, *, batch_offset=None, batch_size=None
):
    """(z, y, x) at which the descriptor has a row of the rows from `slice_off` on, of which
    there are `slice_size`. Triton 3.6 names the two `batch_offset` and `batch_size`."""
    size = _one_of(slice_size, batch_size)
    whole = 0x40000000
    return whole, _one_of(slice_off, batch_offset) + size, whole - size + row


@jit
def _indices(first, size, coords, ragged_dim: tl.constexpr):
    z, y, x = to_ragged_indices(first, size, coords[ragged_dim])
    return (z, y, *coords[:ragged_dim], x, *coords[ragged_dim + 1 :])


@jit
def load_ragged(
    TMA,
    slice_off=None,
    slice_size=None,
    coords=None,
    ragged_dim: tl.constexpr = 0,
    *,
    batch_offset=None,
    batch_size=None,
):
    """The block at `coords`, none negative, of the rows from `slice_off` on; zeros from
    `slice_size` on. Triton 3.6 names the two `batch_offset` and `batch_size`, here and below."""
    first, size = _one_of(slice_off, batch_offset), _one_of(slice_size, batch_size)
    block = TMA.load(_indices(first, size, coords, ragged_dim))
    return tl.reshape(block, block.shape[2:])


@jit
def store_ragged(
    TMA,
    slice_off=None,
    slice_size=None,
    coords=None,
    data=None,
    ragged_dim: tl.constexpr = 0,
    *,
    batch_offset=None,
    batch_size=None,
):
    """Write a block at `coords` of the rows from `slice_off` on, below `slice_size`."""
    first, size = _one_of(slice_off, batch_offset), _one_of(slice_size, batch_size)
    block = tl.reshape(data, (1, 1, *data.shape))
    TMA.store(_indices(first, size, coords, ragged_dim), block)


@jit
def atomic_add_ragged(
    TMA,
    slice_off=None,
    slice_size=None,
    coords=None,
    data=None,
    ragged_dim: tl.constexpr = 0,
    *,
    batch_offset=None,
    batch_size=None,
):
    """Add to what is there, at the places to which `store_ragged` stores."""
    first, size = _one_of(slice_off, batch_offset), _one_of(slice_size, batch_size)
    block = tl.reshape(data, (1, 1, *data.shape))
    TMA.atomic_add(_indices(first, size, coords, ragged_dim), block)
