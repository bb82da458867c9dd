"""Descriptors of tensors made on the host, whose blocks have a layout in shared memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tritium.experimental.gluon.language._layouts import NVMMASharedLayout
from tritium.experimental.gluon.language.nvidia.hopper._descriptors import (
    checked_layout,
    laid_out,
)
from tritium.tools import tensor_descriptor as plain

__all__ = ["TensorDescriptor", "TensorDescriptorIm2Col"]


@dataclass
class TensorDescriptor:
    """A strided tensor, copied block by block to and from shared memory of the layout.

    `base`, `shape`, `strides`, `block_shape`, `padding`, `round_f32_to_tf32`: as of
    `tritium.tools.tensor_descriptor.TensorDescriptor`, whose errors it raises; `ValueError` for a
    layout that such blocks cannot have.
    """

    base: Any
    shape: Sequence[int]
    strides: Sequence[int]
    block_shape: Sequence[int]
    layout: NVMMASharedLayout
    padding: str = "zero"
    round_f32_to_tf32: bool = False

    def __post_init__(self) -> None:
        plain.TensorDescriptor(
            self.base, self.shape, self.strides, self.block_shape, self.padding,
            self.round_f32_to_tf32,
        )  # fmt: skip
        checked_layout(self.layout, list(self.block_shape), 8 * int(self.base.dtype.itemsize))

    @property
    def mode(self) -> str:
        """How blocks are copied."""
        return "tiled"

    def of_kernel(self, descriptor: Any) -> Any:
        """An evaluated descriptor of the same tensor as Gluon's."""
        return laid_out(descriptor, self.layout)

    @staticmethod
    def from_tensor(
        tensor: Any, block_shape: Sequence[int], layout: NVMMASharedLayout,
        padding: str = "zero", round_f32_to_tf32: bool = False,
    ) -> TensorDescriptor:  # fmt: skip
        """A descriptor of all of a tensor (of torch, or with `stride()`) or NumPy array."""
        found = plain.TensorDescriptor.from_tensor(
            tensor, block_shape, padding, round_f32_to_tf32
        )
        return TensorDescriptor(
            tensor, found.shape, found.strides, block_shape, layout, padding, round_f32_to_tf32
        )


class TensorDescriptorIm2Col:
    """A tensor whose patches a convolution reads."""

    def __init__(self, *args: Any, **kwargs: Any):
        raise NotImplementedError("gluon.nvidia.hopper.TensorDescriptorIm2Col is not built")
