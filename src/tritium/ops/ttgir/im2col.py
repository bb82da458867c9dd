"""Patches of tensors: what a filter of a convolution covers, read by the bulk copy engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tritium.ops.memory import EvaluationError
from tritium.ops.ttir.memory import PaddingOption


@dataclass(frozen=True)
class Patches:
    """The value of a descriptor of patches.

    Attributes:
        base: the address of the tensor's first element.
        shape, strides: of the tensor, (batches, spatial axes, channels), strides in elements.
        lower, upper: how far from the first and the last pixel of each spatial axis filters begin.
        steps: how far apart filters begin, for each axis.
        padding: what is read beyond the bounds.
    """

    base: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    lower: tuple[int, ...]
    upper: tuple[int, ...]
    steps: tuple[int, ...]
    padding: PaddingOption = PaddingOption.PAD_ZERO

    def addresses(
        self, start: tuple[Any, ...], offsets: tuple[Any, ...], block: tuple[int, ...], size: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Addresses of a block (pixels, channels) of elements of `size` bytes, and which of them
        lie within the bounds. Raises `EvaluationError` for a start at which no filter begins."""
        at = [int(x) for x in start]
        last = [n - 1 + u for n, u in zip(self.shape[1:-1], self.upper, strict=True)]
        for axis, (x, low, high) in enumerate(zip(at[1:-1], self.lower, last, strict=True), 1):
            if not low <= x <= high:
                raise EvaluationError(
                    f"patches from {at} on: filters begin at {low} to {high} along axis {axis}"
                )
        moved = (0, *(int(x) for x in offsets))
        total: Any = np.zeros(block, np.int64)
        inside = np.ones(block, np.bool_)
        channels = at[-1] + np.arange(block[1])
        inside &= (channels >= 0) & (channels < self.shape[-1])
        total += channels * self.strides[-1]
        for pixel in range(block[0]):
            for axis, (x, further) in enumerate(zip(at[:-1], moved, strict=True)):
                inside[pixel] &= 0 <= x + further < self.shape[axis]
                total[pixel] += (x + further) * self.strides[axis]
            for axis in range(len(last), 0, -1):
                at[axis] += self.steps[axis]
                if at[axis] <= last[axis - 1]:
                    break
                at[axis] = self.lower[axis - 1]
            else:
                at[0] += self.steps[0]
        return np.uint64(self.base) + (total * size).view(np.uint64), inside
