"""Descriptors of tensors made on the host, whose blocks have a layout in shared memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tritium.experimental.gluon.language._layouts import NVMMASharedLayout
from tritium.experimental.gluon.language.nvidia.hopper._descriptors import (
    checked_layout,
    laid_out,
    patches,
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

    mode = "tiled"
    """The kind of copies of blocks."""

    def of_kernel(self, descriptor: Any) -> Any:
        """An evaluated descriptor of the same tensor as Gluon's."""
        return laid_out(descriptor, self.layout)

    @staticmethod
    def from_tensor(
        tensor: Any, block_shape: Sequence[int], layout: NVMMASharedLayout,
        padding: str = "zero", round_f32_to_tf32: bool = False,
    ) -> TensorDescriptor:  # fmt: skip
        """A descriptor of all of a tensor (of torch, or with `stride()`) or NumPy array."""
        found = plain.TensorDescriptor.from_tensor(tensor, block_shape, padding, round_f32_to_tf32)
        return TensorDescriptor(
            tensor, found.shape, found.strides, block_shape, layout, padding, round_f32_to_tf32
        )


_CORNERS = {3: (-32768, 32767), 4: (-128, 127), 5: (-16, 15)}
"""The least and the largest number of a corner, by the number of the tensor's axes."""


@dataclass
class TensorDescriptorIm2Col:
    """A tensor (batches, 1 to 3 spatial axes, channels), copied as the patches that the filter of a
    convolution covers: blocks of positions of the filter and channels; see
    `tma.async_load_im2col`.

    Attributes:
        base, shape, strides, layout, padding, round_f32_to_tf32: as of `TensorDescriptor`.
        block_shape: (positions, channels).
        element_strides: how far apart positions are along each axis (1 to 8; all 1 by default).
        pixel_box_lower_corner: for each spatial axis where positions begin: minus the padding.
        pixel_box_upper_corner: where the last one is, counted from the last pixel: the padding
            minus what the filter extends beyond its first element.

    Raises `ValueError` for what the copy engine does not take.
    """

    base: Any
    shape: Sequence[int]
    strides: Sequence[int]
    block_shape: Sequence[int]
    layout: NVMMASharedLayout
    padding: str = "zero"
    round_f32_to_tf32: bool = False
    element_strides: Sequence[int] | None = None
    pixel_box_lower_corner: Sequence[int] | None = None
    pixel_box_upper_corner: Sequence[int] | None = None

    def __post_init__(self) -> None:
        rank = len(self.shape)
        if rank not in _CORNERS:
            raise plain.DescriptorError(f"shape is {[*self.shape]}; 3 to 5 axes are required")
        if len(self.block_shape) != 2:
            raise plain.DescriptorError(
                f"block_shape is {[*self.block_shape]}; (positions, channels) is required"
            )
        plain.TensorDescriptor(
            self.base, self.shape, self.strides, [1] * (rank - 2) + [*self.block_shape],
            self.padding, self.round_f32_to_tf32,
        )  # fmt: skip
        checked_layout(self.layout, list(self.block_shape), 8 * int(self.base.dtype.itemsize))
        low, high = _CORNERS[rank]
        for name in ("pixel_box_lower_corner", "pixel_box_upper_corner"):
            corner = getattr(self, name)
            if corner is None or len(corner) != rank - 2 or not low <= min(corner) <= high \
                    or max(corner) > high:  # fmt: skip
                raise plain.DescriptorError(
                    f"{name} is {corner}; {rank - 2} integers from {low} to {high} are required"
                )
        steps = self.element_strides
        wrong = steps is not None and (len(steps) != rank or steps[-1] != 1)
        if steps is not None and (wrong or min(steps) < 1 or max(steps) > 8):
            raise plain.DescriptorError(
                f"element_strides is {steps}; {rank} integers from 1 to 8 are required, 1 for "
                "channels"
            )

    mode = "im2col"
    """The kind of copies of blocks."""

    @property
    def filters(self) -> tuple[tuple[int, ...], ...]:
        """The lower corner, the upper corner and the steps, which say where filters begin."""
        steps = self.element_strides or (1,) * len(self.shape)
        lists: Any = self.pixel_box_lower_corner, self.pixel_box_upper_corner, steps
        return tuple(tuple(map(int, numbers)) for numbers in lists)

    @property
    def shares_positions(self) -> bool:
        """True if each thread block of a cluster has some of a block's positions. Kernels are then
        compiled for where filters begin."""
        return any(basis[0] for basis in self.layout.cga_layout or ())

    def of_pointer(self, pointer: Any) -> Any:
        """An evaluated descriptor of the tensor at a pointer of the kernel language."""
        return patches(pointer, self)

    @staticmethod
    def from_tensor(
        tensor: Any, block_shape: Sequence[int], layout: NVMMASharedLayout, padding: str = "zero",
        round_f32_to_tf32: bool = False, element_strides: Sequence[int] | None = None,
        pixel_box_lower_corner: Sequence[int] | None = None,
        pixel_box_upper_corner: Sequence[int] | None = None,
    ) -> TensorDescriptorIm2Col:  # fmt: skip
        """A descriptor of all of a tensor (of torch, or with `stride()`) or NumPy array."""
        return TensorDescriptorIm2Col(
            tensor, tensor.shape, plain.strides_of(tensor), block_shape, layout, padding,
            round_f32_to_tf32, element_strides, pixel_box_lower_corner, pixel_box_upper_corner,
        )  # fmt: skip
