"""Tensor descriptors made on the host: a tensor, its shape and strides, and the block of a load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tritium.language.values.types import validate_block_shape


class DescriptorError(ValueError, AssertionError):
    """A tensor or a block that no descriptor can stand for."""


@dataclass
class TensorDescriptor:
    """A strided tensor that kernels access in blocks with `.load` and `.store`.

    Attributes:
        base: a tensor or array whose memory starts at a multiple of 16 bytes.
        shape: its extents, 1 to 5 of them, each positive.
        strides: in elements; the last is 1, the others are multiples of 16 bytes.
        block_shape: the block that one load reads, powers of two.
        padding: what is read outside of `shape`: "zero", or "nan" for floating-point numbers.
        round_f32_to_tf32: loads round float32 to tf32. Not built: `NotImplementedError`.

    Raises `DescriptorError` (a `ValueError`) for anything else. Attributes may be assigned later,
    as an autotuner's `pre_hook` does with `block_shape`.
    """

    base: Any
    shape: Sequence[int]
    strides: Sequence[int]
    block_shape: Sequence[int]
    padding: str = "zero"
    round_f32_to_tf32: bool = False

    def __post_init__(self) -> None:
        rank = len(self.shape)
        if not 1 <= rank <= 5:
            raise DescriptorError(f"TensorDescriptor: rank is {rank}; 1 to 5 is allowed")
        if len(self.strides) != rank or len(self.block_shape) != rank:
            raise DescriptorError(
                f"TensorDescriptor: rank mismatch: shape has {rank} elements, strides "
                f"{len(self.strides)}, block_shape {len(self.block_shape)}"
            )
        if not hasattr(self.base, "data_ptr") and not hasattr(self.base, "__array_interface__"):
            raise DescriptorError(
                f"TensorDescriptor: base is {self.base!r:.80}; a tensor or an array is required"
            )
        if type(self.base).__name__ not in ("FakeTensor", "FunctionalTensor"):  # have no memory
            address = _address(self.base)
            if address % 16:
                raise DescriptorError(
                    "TensorDescriptor: base must be 16-byte aligned; its address is "
                    f"{address % 16} bytes past a multiple of 16"
                )
        validate_block_shape(self.block_shape)
        size = int(self.base.dtype.itemsize)
        for axis, stride in enumerate(self.strides[:-1]):
            if stride * size % 16:
                raise DescriptorError(
                    f"TensorDescriptor: strides must be 16-byte aligned; strides[{axis}] is "
                    f"{stride} elements of {size} bytes"
                )
        for axis, extent in enumerate(self.shape):
            if isinstance(extent, float) or extent <= 0:
                raise DescriptorError(
                    f"TensorDescriptor: shape must be positive; shape[{axis}] is {extent}"
                    f"{', no integer' if isinstance(extent, float) else ''}"
                )
        if self.strides[-1] != 1:
            raise DescriptorError(
                "TensorDescriptor: Last dimension must be contiguous; its stride is "
                f"{self.strides[-1]} elements"
            )
        if self.padding not in ("zero", "nan"):
            raise DescriptorError(
                f"TensorDescriptor: Illegal value for padding: {self.padding!r}; 'zero' and 'nan' "
                "are allowed"
            )
        if self.padding == "nan" and not _is_floating(self.base.dtype):
            raise DescriptorError(
                "TensorDescriptor: Padding option `nan` is only supported for floating point "
                f"tensors; base holds {self.base.dtype}"
            )

        if self.round_f32_to_tf32:
            if canonical_name(self.base.dtype) != "float32":
                raise DescriptorError(
                    "TensorDescriptor: round_f32_to_tf32 is only supported for float32 tensors; "
                    f"base holds {self.base.dtype}"
                )
            raise NotImplementedError(
                "TensorDescriptor: round_f32_to_tf32 is not built; round in the kernel, or leave "
                "it to tl.dot (input_precision='tf32')"
            )

    @classmethod
    def unchecked(
        cls, base: Any, shape: Sequence[int], strides: Sequence[int], block_shape: Sequence[int]
    ) -> TensorDescriptor:
        """A descriptor that the caller knows to be right, which saves 4 us."""
        found: TensorDescriptor = object.__new__(cls)
        found.base, found.shape, found.strides = base, shape, strides
        found.block_shape, found.padding, found.round_f32_to_tf32 = block_shape, "zero", False
        return found

    @staticmethod
    def from_tensor(
        tensor: Any, block_shape: Sequence[int], padding: str = "zero",
        round_f32_to_tf32: bool = False,
    ) -> TensorDescriptor:  # fmt: skip
        """A descriptor of all of a tensor (of torch, or with `stride()`) or NumPy array."""
        return TensorDescriptor(
            tensor, tensor.shape, strides_of(tensor), block_shape, padding, round_f32_to_tf32
        )


def strides_of(tensor: Any) -> Sequence[int]:
    """The strides in elements of a tensor (of torch, or with `stride()`) or NumPy array."""
    if hasattr(tensor, "stride"):
        return tensor.stride()
    return [s // tensor.itemsize for s in tensor.strides]


def canonical_name(dtype: Any) -> str:
    """The name of a dtype of torch or of NumPy: "float32"."""
    return str(dtype).removeprefix("torch.")


def _address(tensor: Any) -> int:
    if hasattr(tensor, "data_ptr"):
        return int(tensor.data_ptr())
    return int(tensor.__array_interface__["data"][0])


def _is_floating(dtype: Any) -> bool:
    """True if a dtype of torch or of NumPy, in which ml_dtypes' are of kind V, is of floats."""
    floating = getattr(dtype, "is_floating_point", None)
    return dtype.kind in "fV" if floating is None else bool(floating)
