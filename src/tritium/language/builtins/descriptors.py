"""Tensor descriptors: strided tensors in memory, loaded and stored block by block.

Beyond the tensor's bounds loads give zeros (or NaN), and stores are dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tritium.ir.layouts.encodings import LEAST_ROW_BYTES
from tritium.language.builtins import arithmetic, casts
from tritium.language.builtins.build import build, emit
from tritium.language.builtins.memory import choose, integers
from tritium.language.decorators import builtin
from tritium.language.emitter import Evaluated
from tritium.language.values.base import as_tuple
from tritium.language.values.constexpr import unwrap
from tritium.language.values.tensor import TensorLike, tensor, tensor_descriptor
from tritium.language.values.tuples import tuple as tl_tuple
from tritium.language.values.types import (
    block_type,
    dtype,
    int32,
    int64,
    pointer_type,
    tensor_descriptor_type,
    validate_block_shape,
)
from tritium.ops import ttir
from tritium.ops.ttir import DescriptorReduceKind, PaddingOption

_SUM = {"uint32", "int32", "uint64", "fp32", "fp16", "bf16"}
_ORDER = {"uint32", "int32", "uint64", "int64", "fp16", "bf16"}
_BITS = {"uint32", "int32", "uint64", "int64"}
_ATOMIC_DTYPES = {
    "add": _SUM, "min": _ORDER, "max": _ORDER, "and": _BITS, "or": _BITS, "xor": _BITS,
}  # fmt: skip


@builtin
def make_tensor_descriptor(
    base: TensorLike, shape: object, strides: object, block_shape: object,
    padding_option: str = "zero",
) -> tensor_descriptor:  # fmt: skip
    """Describe a tensor in memory.

    Args:
        base: a pointer to the first element, aligned to 16 bytes.
        shape: 1 to 5 extents of the whole tensor.
        strides: in elements; multiples of 16 bytes but for the last, which is 1.
        block_shape: compile-time powers of two; the last axis of a block has 16 bytes or more.
        padding_option: what loads see beyond the bounds: "zero" or "nan".

    Raises `ValueError` for arguments that do not fit.
    """
    return make(base, shape, strides, block_shape, padding_option)


def make(
    base: TensorLike, shape: Any, strides: Any, block_shape: Any, padding_option: str,
    encoding: Any = None, value_class: type[tensor_descriptor] = tensor_descriptor,
    on_host: bool = False,
) -> Any:  # fmt: skip
    """`make_tensor_descriptor`, of blocks with an encoding in shared memory if one is given. Blocks
    of descriptors made on the host may be narrower than the copy engine takes."""
    pointer = casts.to_tensor(base)
    if not isinstance(pointer.type, pointer_type) or pointer.type.element_ty.is_block():
        raise ValueError(f"Expected `base` to be a pointer type; got {pointer.type}")
    element = pointer.type.element_ty
    extents = as_tuple(block_shape)
    rank = len(shape)
    if not 1 <= rank <= 5:
        raise ValueError(f"Expected 1 <= ndim <= 5 but got {rank} dimensions")
    validate_block_shape(extents)
    size = element.primitive_bitwidth // 8
    if extents[-1] * size < LEAST_ROW_BYTES and not on_host:
        raise ValueError(
            f"Descriptor block shape must have at least {LEAST_ROW_BYTES} bytes in the last "
            f"dimension, but got {extents[-1]} * {size} = {extents[-1] * size} bytes"
        )
    if not _is_one(strides[-1]):
        raise ValueError(f"Tensor descriptor last dim must be 1 but got {strides[-1]}")
    padding = choose(
        "Padding option", padding_option,
        {"": PaddingOption.PAD_ZERO, "zero": PaddingOption.PAD_ZERO, "nan": PaddingOption.PAD_NAN},
    )  # fmt: skip
    if element.is_int() and padding is PaddingOption.PAD_NAN:
        raise ValueError("Padding option `nan` is not supported for integer blocks")
    sizes, steps = integers(shape, int32, "shape"), integers(strides, int64, "strides")
    type = tensor_descriptor_type(block_type(element, extents, encoding))
    (handle,) = emit(
        ttir.MakeTensorDescOp, pointer, sizes, steps, result=type.to_ir(), padding=padding
    )
    return value_class(handle, tl_tuple(sizes), tl_tuple(steps), type.block_type)


def _is_one(stride: object) -> bool:
    stride = unwrap(stride)
    if isinstance(stride, tensor):
        return isinstance(stride.handle, Evaluated) and int(stride) == 1
    return stride == 1


def _check(desc: object) -> tensor_descriptor:
    if not isinstance(desc, tensor_descriptor):
        raise TypeError(f"{casts.type_name(desc)} given; a tensor descriptor is required")
    return desc


def _load(desc: object, offsets: object) -> tensor:
    d = _check(desc)
    return build(ttir.DescriptorLoadOp, d, integers(offsets, int32, "offsets"), like=d.dtype)


def _block(desc: tensor_descriptor, value: TensorLike) -> tensor:
    shape = desc.block_type.shape
    return arithmetic.broadcast_shape(casts.as_element(value, desc.dtype, desc.block_type), shape)


def _store(desc: object, offsets: object, value: TensorLike) -> None:
    d = _check(desc)
    indices = integers(offsets, int32, "offsets")
    emit(ttir.DescriptorStoreOp, d, _block(d, value), indices)


@builtin
def load_tensor_descriptor(desc: object, offsets: object) -> tensor:
    """The block of `desc` at `offsets` (one integer an axis). The same as `desc.load(offsets)`."""
    return _load(desc, offsets)


@builtin
def store_tensor_descriptor(desc: object, offsets: object, value: TensorLike) -> None:
    """Write a block at `offsets`. The same as `desc.store(offsets, value)`."""
    _store(desc, offsets, value)


# Methods


def _method(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def attach(fn: Callable[..., Any]) -> Callable[..., Any]:
        fn.__name__ = name
        method = builtin(fn)
        setattr(tensor_descriptor, name, method)
        return method

    return attach


@_method("load")
def _load_method(self: tensor_descriptor, offsets: object) -> tensor:
    """The block at `offsets` (one integer an axis); zeros beyond the bounds."""
    return _load(self, offsets)


@_method("store")
def _store_method(self: tensor_descriptor, offsets: object, value: TensorLike) -> None:
    """Write `value`, cast and broadcast to a block, at `offsets`."""
    _store(self, offsets, value)


_ROW_BYTES = 32
"""The narrowest row that the hardware gathers or scatters."""


def _rows(
    name: str, desc: tensor_descriptor, x_offsets: object, y_offset: object
) -> tuple[tensor, tensor]:
    rows = casts.to_tensor(x_offsets)
    shape = desc.block_shape
    if len(shape) != 2 or shape[0] != 1:
        raise ValueError(f"descriptor must be 2D with block [1, BLOCK_Y]; its block is {shape}")
    if len(rows.type.shape) != 1 or not rows.dtype.is_int():
        raise ValueError(f"x offsets must be a 1D block of integers; got {rows.type}")
    if rows.type.shape[0] < 8:
        raise ValueError(
            f"descriptor {name} must have at least 8 rows, but got {rows.type.shape[0]}"
        )
    least = _ROW_BYTES * 8 // desc.dtype.primitive_bitwidth
    if shape[1] < least:
        raise ValueError(
            f"descriptor {name} of {desc.dtype} must have at least {least} columns, but got "
            f"{shape[1]}"
        )
    (column,) = integers([y_offset], int32, "y_offset")
    return casts.cast(rows, int32), column


@_method("gather")
def _gather_method(self: tensor_descriptor, *args: object) -> tensor:
    """`gather(x_offsets, y_offset)`: the rows `x_offsets` from column `y_offset` on, for a
    descriptor of blocks [1, BLOCK_Y]: a block [len(x_offsets), BLOCK_Y]."""
    if len(args) != 2:
        raise ValueError(f"descriptor gather only supports 2D indexing, but got {len(args)}")
    rows, column = _rows("gather", _check(self), *args)
    return build(ttir.DescriptorGatherOp, self, rows, column, like=self.dtype)


@_method("scatter")
def _scatter_method(self: tensor_descriptor, value: TensorLike, *args: object) -> None:
    """`scatter(value, x_offsets, y_offset)`: write the rows of `value`. See `gather`."""
    if len(args) != 2:
        raise ValueError(f"descriptor scatter only supports 2D indexing, but got {len(args)}")
    rows, column = _rows("scatter", _check(self), *args)
    block = arithmetic.broadcast_shape(
        casts.to_tensor(value), (rows.type.shape[0], self.block_shape[1])
    )
    block = casts.cast(block, self.dtype)
    emit(ttir.DescriptorScatterOp, self, rows, column, block)


def check_atomic_dtype(kind: str, element: dtype) -> None:
    """Raises `ValueError` for an element type that the operation does not take."""
    if element.name not in _ATOMIC_DTYPES[kind]:
        allowed = ", ".join(sorted(_ATOMIC_DTYPES[kind]))
        raise ValueError(f"Unsupported dtype {element} for descriptor atomic_{kind}: {allowed}")


def _atomic(kind: str) -> None:
    @_method(f"atomic_{kind}")
    def method(self: tensor_descriptor, offsets: object, value: TensorLike) -> None:
        d = _check(self)
        check_atomic_dtype(kind, d.dtype)
        indices = integers(offsets, int32, "offsets")
        operation = DescriptorReduceKind[kind.upper()]
        emit(ttir.DescriptorReduceOp, d, _block(d, value), indices, kind=operation)

    method.__doc__ = f"Combine the block of memory at `offsets` with `value` by {kind}, atomically."


for _kind in _ATOMIC_DTYPES:
    _atomic(_kind)
