"""Scales of weights in the order in which lanes of AMD's matrix instructions read them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from tritium_kernels.tensor_details.layout_details.base import (
    Layout,
    LayoutTransformation,
    batched,
    check_bytes,
    padded,
    up_to,
)


@dataclass(frozen=True)
class PreshuffledTransformation(LayoutTransformation):
    """The storage of scales (..., k / 32, n) as (..., n / rows, k / 32 * rows)."""

    ROWS = 0
    """Columns of b whose scales are in one row of the storage."""

    SCALES = 0
    """Scales along k that stand together."""

    @abstractmethod
    def _shuffled(self, x: Tensor) -> Tensor:
        """The order in a row of the storage, of (batch, n, scales)."""

    @abstractmethod
    def _unshuffled(self, x: Tensor, scales: int) -> Tensor:
        """The inverse, of (batch, n / ROWS, scales * ROWS)."""

    def swizzle_data(self, data: Tensor) -> Tensor:
        check_bytes(type(self).__name__, data)
        *leading, _, _ = data.shape
        x = padded(padded(batched(data.mT), 1, self.ROWS), 2, self.SCALES)
        rows, columns = x.shape[1] // self.ROWS, x.shape[2] * self.ROWS
        return self._shuffled(x).reshape(*leading, rows, columns).contiguous()

    def unswizzle_data(self, data: Tensor) -> Tensor:
        *_, scales, n = self.shape
        columns = data.shape[-1] // self.ROWS
        x = self._unshuffled(batched(data), columns)
        x = x.reshape(x.shape[0], data.shape[-2] * self.ROWS, columns)[:, :n, :scales]
        return x.mT.reshape(self.shape).contiguous()

    @classmethod
    def swizzle_block_shape(cls, block_shape: Sequence[int]) -> list[int]:
        """The block of the storage that holds the scales of a block of b."""
        *leading, scales, n = block_shape
        return [*leading, up_to(n, cls.ROWS) // cls.ROWS, up_to(scales, cls.SCALES) * cls.ROWS]


@dataclass(frozen=True)
class PreshuffledLayout(Layout):
    """Base of the layouts of these scales."""

    def swizzle_block_shape(self, block_shape: Sequence[int]) -> list[int]:
        kind: Any = self.transformation
        return kind.swizzle_block_shape(block_shape)
