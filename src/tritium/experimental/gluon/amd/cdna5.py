"""Descriptors of tensors made on the host, whose blocks have a layout in shared memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tritium.experimental.gluon.language._layouts import Layout
from tritium.experimental.gluon.language.amd.cdna5._descriptors import checked_layout, laid_out
from tritium.language.values.types import str_to_ty, validate_block_shape
from tritium.launch.signature import canonical_dtype
from tritium.tools.tensor_descriptor import DescriptorError, strides_of

__all__ = ["TensorDescriptor"]


@dataclass
class TensorDescriptor:
    """A strided tensor, copied block by block to and from shared memory of the layout.

    Attributes:
        base: a tensor or an array.
        shape: 1 to 5 extents.
        strides: in elements; the last is 1.
        block_shape: powers of two.
        layout: a `SwizzledSharedLayout` with `max_phase` 1 or a `PaddedSharedLayout` with one
            interval, whose rows are in order.
        padding: what loads see outside of the tensor: "zero".

    Raises `ValueError` or `TypeError` for what does not fit.
    """

    base: Any
    shape: Sequence[int]
    strides: Sequence[int]
    block_shape: Sequence[int]
    layout: Layout
    padding: str = "zero"

    def __post_init__(self) -> None:
        rank = len(self.shape)
        if not 1 <= rank <= 5 or not rank == len(self.strides) == len(self.block_shape):
            raise DescriptorError(
                f"TensorDescriptor: shape {[*self.shape]}, strides {[*self.strides]}, block_shape "
                f"{[*self.block_shape]}; 1 to 5 numbers, as many of each, are required"
            )
        validate_block_shape(self.block_shape)
        if self.strides[-1] != 1:
            raise DescriptorError(
                f"TensorDescriptor: the last stride is {self.strides[-1]}; 1 is required"
            )
        if self.padding != "zero":
            raise DescriptorError(f"TensorDescriptor: padding is {self.padding!r}; 'zero' is "
                                  "required")  # fmt: skip
        element: Any = str_to_ty(canonical_dtype(self.base.dtype))
        checked_layout(self.layout, self.block_shape, element)

    mode = "tiled"
    """The kind of copies of blocks."""

    def of_kernel(self, descriptor: Any) -> Any:
        """An evaluated descriptor of the same tensor as Gluon's."""
        return laid_out(descriptor, self.layout)

    @staticmethod
    def from_tensor(tensor: Any, block_shape: Sequence[int], layout: Layout) -> TensorDescriptor:
        """A descriptor of all of a tensor (of torch, or with `stride()`) or NumPy array."""
        return TensorDescriptor(tensor, tensor.shape, strides_of(tensor), block_shape, layout)
