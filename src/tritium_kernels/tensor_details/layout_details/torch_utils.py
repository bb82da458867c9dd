"""Bytes with two elements of 4 bits."""

from __future__ import annotations

import torch
from torch import Tensor

from tritium_kernels.errors import refuse


def unpack(data: Tensor, dim: int) -> Tensor:
    """A byte for each element; bytes hold neighbours along `dim`, the first in the low bits."""
    dim %= data.ndim
    return torch.stack([data & 15, data >> 4], dim + 1).flatten(dim, dim + 1)


def pack(codes: Tensor, dim: int) -> Tensor:
    """The inverse of `unpack`."""
    dim %= codes.ndim
    if codes.shape[dim] % 2:
        found = f"has {codes.shape[dim]} elements along dimension {dim}"
        raise refuse("repack", "data", found, "an even number, for two in a byte")
    low, high = codes.unflatten(dim, (codes.shape[dim] // 2, 2)).unbind(dim + 1)
    return low | (high << 4)


def repack(
    data: Tensor, old_dim: int, new_dim: int, is_fp4: bool, out: Tensor | None = None
) -> Tensor:
    """The data, with neighbours along `new_dim` in a byte that were neighbours along `old_dim`.

    Elements that are no FP4 have bytes of their own: nothing changes. `out`: a tensor to write to.
    """
    if is_fp4 and (old_dim - new_dim) % data.ndim:
        data = pack(unpack(data, old_dim), new_dim)
    if out is None:
        return data
    return out.copy_(data)
