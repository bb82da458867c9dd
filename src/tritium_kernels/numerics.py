"""Numbers of 8 bits with a scale that is kept outside of the tensor (flexpoint)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from tritium_kernels.errors import refuse

MAX_FINITE_FLOAT8E5 = 57344.0
MAX_FINITE_FLOAT8E4NV = 448.0
MAX_FINITE_FLOAT8E4B8 = 240.0
MAX_FINITE = {
    torch.float8_e4m3fn: MAX_FINITE_FLOAT8E4NV, torch.float8_e5m2: MAX_FINITE_FLOAT8E5,
    torch.float8_e4m3fnuz: MAX_FINITE_FLOAT8E4B8,
}  # fmt: skip
"""The largest numbers of the types that are scaled."""


@dataclass(frozen=True)
class BaseFlexData:
    """`dtype`: the type of the elements, of a tensor whose own type may be any of as many bits."""

    dtype: torch.dtype | None = None

    def view(self, x: Tensor) -> Tensor:
        """The same memory as elements of `dtype`."""
        return x if self.dtype is None else x.view(self.dtype)

    def reinterpret(self, x: Tensor) -> Tensor:
        """`view` of tensors with one byte an element; others as they are."""
        return x if x.dtype.itemsize > 1 else self.view(x)


@dataclass(frozen=True)
class InFlexData(BaseFlexData):
    """`scale`: float32, of one element or one for each batch; a number is scale * element."""

    scale: Tensor | None = None

    @property
    def is_per_batch(self) -> bool:
        return self.scale is not None and self.scale.numel() > 1


@dataclass(frozen=True)
class OutFlexData(BaseFlexData):
    """Conversion of a result, float32 of one element or one for each batch.

    Attributes:
        expected_scale: what numbers are divided by before they are stored.
        actual_scale: where max(|number|) / largest number of the type is written; the larger of
            what it was and this one is kept. NaN is larger than all.
        checksum_scale: int32, to which checksums of the numbers are added.
    """

    expected_scale: Tensor | None = None
    actual_scale: Tensor | None = None
    checksum_scale: Tensor | None = None

    @property
    def is_per_batch(self) -> bool:
        return self.expected_scale is not None and self.expected_scale.numel() > 1

    def __iter__(self) -> Iterator[Tensor | None]:
        """Iterate over the fields in the order in which kernels take them."""
        return iter((self.expected_scale, self.actual_scale, self.checksum_scale))


UNSCALED = InFlexData()
UNSCALED_RESULT = OutFlexData()


def compute_actual_scale(x: Tensor, dtype: torch.dtype, per_batch_scale: bool = False) -> Tensor:
    """max(|x|) / the largest number of a float8 type; of each batch, or of all."""
    if dtype not in MAX_FINITE:
        accepted = "float8_e4m3fn, float8_e5m2, float8_e4m3fnuz"
        raise refuse("compute_actual_scale", "dtype", f"is {dtype}", accepted)
    magnitudes = x.abs().float()
    most = magnitudes.amax(tuple(range(1, x.ndim))) if per_batch_scale else magnitudes.max()
    return most / MAX_FINITE[dtype]
