"""Layouts in which strides lead from an element to the next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tritium_kernels.errors import refuse
from tritium_kernels.tensor_details.layout_details.base import Layout, LayoutTransformation
from tritium_kernels.tensor_details.layout_details.torch_utils import repack


@dataclass(frozen=True)
class StridedLayoutTransformation(LayoutTransformation):
    """`order`: dimensions from that whose elements are adjacent to the outermost."""

    order: tuple[int, ...]

    def swizzle_data(self, data: Tensor) -> Tensor:
        if not self.order:
            return data.clone()
        packed = repack(data, -1, self.order[0], self.is_fp4)
        outward = tuple(reversed(self.order))
        memory = packed.permute(outward).contiguous()
        return memory.permute(tuple(outward.index(d) for d in range(data.ndim)))

    def unswizzle_data(self, data: Tensor) -> Tensor:
        if not self.order:
            return data.clone()
        return repack(data, self.order[0], -1, self.is_fp4).contiguous()


@dataclass(frozen=True)
class StridedLayout(Layout):
    """`major_dim`: the dimension whose elements are adjacent, counted from the last (-1)."""

    major_dim: int = -1

    @property
    def name(self) -> str:
        return f"STRIDED_{-self.major_dim}"

    def order(self, rank: int) -> tuple[int, ...]:
        """Dimensions from that whose elements are adjacent to the outermost."""
        if rank == 0:
            return ()
        if not -rank <= self.major_dim < rank:
            found = f"is {self.major_dim}"
            raise refuse("StridedLayout", "major_dim", found, f"{-rank} to {rank - 1}")
        major = self.major_dim % rank
        return (major, *(d for d in reversed(range(rank)) if d != major))

    def make_transformation(
        self, shape: Sequence[int], is_fp4: bool
    ) -> StridedLayoutTransformation:
        return StridedLayoutTransformation(tuple(shape), is_fp4, self.order(len(shape)))

    def swizzle_block_shape(self, block_shape: Sequence[int]) -> list[int]:
        return list(block_shape)

    def can_preserve_storage_as(self, layout: Layout) -> bool:
        return isinstance(layout, StridedLayout) and layout.major_dim == self.major_dim

    @staticmethod
    def of(data: torch.Tensor) -> StridedLayout:
        """The layout of a torch tensor's memory: the last dimension with stride 1, of those with
        more elements than one if there are any."""
        adjacent = [d for d in range(data.ndim) if data.stride(d) == 1]
        longer = [d for d in adjacent if data.shape[d] > 1]
        found = (longer or adjacent or [data.ndim - 1])[-1]
        return StridedLayout(found - data.ndim if data.ndim else -1)
