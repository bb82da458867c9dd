"""Bulk copies between tensors in memory and shared memory (TMA)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tritium.experimental.gluon.language._memory import bulk_hints
from tritium.experimental.gluon.language._shared_memory import shared_memory_descriptor
from tritium.experimental.gluon.language.nvidia.hopper._descriptors import (
    checked_layout,
    tensor_descriptor,
    tensor_descriptor_im2col,
    tensor_descriptor_im2col_type,
    tensor_descriptor_type,
)
from tritium.ir.layouts.encodings import BLOCK, linear
from tritium.language.builtins import casts, descriptors
from tritium.language.builtins.build import emit
from tritium.language.builtins.memory import integers
from tritium.language.decorators import builtin
from tritium.language.values.constexpr import unwrap
from tritium.language.values.types import int1, int16, int32
from tritium.ops import ttgir
from tritium.ops.ttir import DescriptorReduceKind

__all__ = [
    "async_atomic_add", "async_atomic_and", "async_atomic_max", "async_atomic_min",
    "async_atomic_or", "async_atomic_xor", "async_copy_global_to_shared",
    "async_copy_global_to_shared_im2col", "async_copy_shared_to_global", "async_load",
    "async_load_im2col", "async_store", "make_tensor_descriptor", "store_wait",
    "tensor_descriptor", "tensor_descriptor_im2col", "tensor_descriptor_im2col_type",
    "tensor_descriptor_type",
]  # fmt: skip


def check(name: str, desc: Any, memory: Any, patches: bool = False) -> None:
    """Raise `TypeError` for what is no descriptor or memory, `ValueError` for other layouts."""
    if not isinstance(desc, tensor_descriptor):
        raise TypeError(f"{name}: {desc!r} is no descriptor whose blocks have a layout")
    if isinstance(desc, tensor_descriptor_im2col) != patches:
        wanted = "a TensorDescriptorIm2Col" if patches else "a TensorDescriptor"
        raise TypeError(f"{name}: {desc!r}; {wanted} is required")
    if not isinstance(memory, shared_memory_descriptor):
        raise TypeError(f"{name}: {memory!r} is no shared memory")
    if memory.layout.to_encoding() != desc.block_type.encoding:
        raise ValueError(
            f"{name}: the memory has {memory.layout}, the descriptor's blocks {desc.layout}; they "
            "must be the same"
        )


@builtin
def async_load(
    tensor_desc: Any, coord: Any, barrier: Any, result: Any, pred: Any = True,
    multicast: bool = False, cache_policy: Any = None, divided: bool = False,
) -> None:  # fmt: skip
    """Start copying the block at `coord` (one integer an axis) to shared memory, if `pred`.

    Args:
        coord: the block's place.
        barrier: has been told to expect the bytes, which count for it.
        result: the memory. Zeros (or NaN) are what lies outside of the tensor.
        pred: a condition.
        multicast: what several blocks of the cluster have copies of is read once, for all of them,
            by the first.
        cache_policy: of the second-level cache.
        divided: with `multicast` each of them reads a share of it for all, and must know that the
            others are done with the memory (`mbarrier.arrive(multicast_cta=...)`).

    Raises `ValueError` for `divided` without `multicast`.
    """
    check("async_load", tensor_desc, result)
    if divided and not multicast:
        raise ValueError("async_load(divided=True) without multicast=True: nothing is shared out")
    flag = casts.cast(casts.to_tensor(pred), int1)
    indices, shared = integers(coord, int32, "coord"), bool(multicast) and is_shared(result)
    emit(ttgir.AsyncTMACopyGlobalToLocalOp, tensor_desc, indices, barrier, result, flag,
         multicast=shared, divided=shared and bool(divided),
         hints=bulk_hints(cache_policy))  # fmt: skip


def is_shared(memory: shared_memory_descriptor) -> bool:
    """True if blocks of the cluster have copies of the same elements."""
    bases = linear(memory.layout.to_encoding(), tuple(memory.shape)).bases(BLOCK)
    return any(not any(basis) for basis in bases)


@builtin
def async_load_im2col(
    tensor_desc: Any, coord: Any, offsets: Any, barrier: Any, result: Any, pred: Any = True,
    multicast: bool = False, cache_policy: Any = None,
) -> None:  # fmt: skip
    """Start copying the pixels that one element of a convolution's filter meets. A row of the block
    is a position of the filter: of the pixel `offsets` further the channels, as many as the block
    has columns. Positions go along the rows of images, row after row, image after image.

    Args:
        coord: (batch, spatial axes, channel) of the first position and channel.
        offsets: an int16 for each spatial axis: which element of the filter.
        tensor_desc, barrier, result, pred, multicast, cache_policy: as for `async_load`.
    """
    check("async_load_im2col", tensor_desc, result, patches=True)
    flag = casts.cast(casts.to_tensor(pred), int1)
    at, moved = integers(coord, int32, "coord"), integers(offsets, int16, "offsets")
    parts = linear(result.layout.to_encoding(), tuple(result.shape)).bases(BLOCK)
    shape = list(tensor_desc.shape) if any(pixels for pixels, _ in parts) else []
    emit(ttgir.AsyncTMACopyGlobalToLocalOp, tensor_desc, at, barrier, result, flag, moved, shape,
         multicast=bool(multicast) and is_shared(result),
         hints=bulk_hints(cache_policy))  # fmt: skip


@builtin
def async_store(tensor_desc: Any, coord: Any, src: Any, cache_policy: Any = None) -> None:
    """Start copying shared memory to the block at `coord`. What lies outside of the tensor is
    dropped. What threads wrote to the memory needs a `fence_async_shared` before."""
    check("async_store", tensor_desc, src)
    indices = integers(coord, int32, "coord")
    emit(
        ttgir.AsyncTMACopyLocalToGlobalOp, tensor_desc, indices, src,
        hints=bulk_hints(cache_policy),
    )  # fmt: skip


async_copy_global_to_shared, async_copy_shared_to_global = async_load, async_store
async_copy_global_to_shared_im2col = async_load_im2col
"""The names of `async_load`, `async_store` and `async_load_im2col` before release 3.9."""


def _atomic(kind: str) -> Callable[..., None]:
    def function(tensor_desc: Any, coord: Any, src: Any) -> None:
        check(function.__name__, tensor_desc, src)
        descriptors.check_atomic_dtype(kind, tensor_desc.dtype)
        indices = integers(coord, int32, "coord")
        reduction = DescriptorReduceKind[kind.upper()]
        emit(ttgir.AsyncTMAReduceOp, tensor_desc, indices, src, kind=reduction)

    function.__name__ = f"async_atomic_{kind}"
    function.__doc__ = f"Start the atomic `{kind}` of shared memory to the block at `coord`."
    return builtin(function)


async_atomic_add, async_atomic_min, async_atomic_max = map(_atomic, ("add", "min", "max"))
async_atomic_and, async_atomic_or, async_atomic_xor = map(_atomic, ("and", "or", "xor"))


@builtin
def store_wait(pendings: int, read_only: bool = True) -> None:
    """Wait until all but the `pendings` newest stores have read their shared memory; without
    `read_only` until what they wrote can be seen."""
    emit(ttgir.AsyncTMAStoreWaitOp, pendings=pendings, complete=not read_only)


@builtin
def make_tensor_descriptor(
    base: Any, shape: Any, strides: Any, block_shape: Any, layout: Any,
    padding_option: str = "zero",
) -> tensor_descriptor:  # fmt: skip
    """Describe a tensor in memory, whose blocks have the layout in shared memory; see
    `tl.make_tensor_descriptor`."""
    element = getattr(base.dtype, "element_ty", base.dtype)
    for axis, stride in enumerate(map(unwrap, list(strides)[:-1])):
        nbytes = stride * element.primitive_bitwidth // 8 if isinstance(stride, int) else 0
        if nbytes % 16:
            raise ValueError(f"make_tensor_descriptor: strides must be 16-byte aligned; "
                             f"strides[{axis}] is {stride}, {nbytes} bytes")  # fmt: skip
    found = checked_layout(layout, list(block_shape), element.primitive_bitwidth)
    return descriptors.make(
        base, shape, strides, block_shape, padding_option, found.to_encoding(), tensor_descriptor
    )
