"""Descriptors of tensors in memory, whose blocks have rows in order in shared memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from tritium.errors import OpError
from tritium.experimental.gluon.language._layouts import (
    Layout,
    PaddedSharedLayout,
    SwizzledSharedLayout,
)
from tritium.experimental.gluon.language.amd.cdna5._layouts import PartitionedSharedLayout
from tritium.experimental.gluon.language.nvidia.hopper import _descriptors as common
from tritium.language.emitter import Evaluated
from tritium.language.values.tensor import tensor_descriptor as plain_descriptor
from tritium.language.values.types import block_type, dtype
from tritium.ops.ttgir import check_new_memory, memdesc_of
from tritium.ops.ttgir.amd.tensors import gaps

KINDS = PaddedSharedLayout, SwizzledSharedLayout, PartitionedSharedLayout


class tensor_descriptor_type(common.tensor_descriptor_type):
    """Descriptors of tensors that are copied to and from shared memory."""


class tensor_descriptor(common.tensor_descriptor):
    """A strided tensor in memory, and the place of a block in it.

    Attributes:
        layout: of blocks in shared memory.
        shape, strides, block_type, block_shape, dtype: as of `tl.tensor_descriptor`.
    """

    TYPE: ClassVar[type[common.tensor_descriptor_type]] = tensor_descriptor_type


tensor_descriptor_type.value_class = tensor_descriptor
common.LAYOUTS.update(dict.fromkeys(KINDS, tensor_descriptor_type))


def checked_layout(layout: Any, block_shape: Sequence[int], element: dtype) -> Layout:
    """The layout, if blocks of such elements can have it. Raises `TypeError` or `ValueError`."""
    if not isinstance(layout, KINDS):
        allowed = " or ".join(kind.__name__ for kind in KINDS)
        raise TypeError(f"the layout of blocks is {layout!r}; a {allowed} is required")
    try:
        memory = memdesc_of(tuple(block_shape), element.to_ir(), layout.to_encoding())
        gaps("a descriptor", check_new_memory("a descriptor", memory))
    except OpError as error:
        raise ValueError(str(error)) from None
    return layout


def laid_out(descriptor: plain_descriptor, layout: Any) -> tensor_descriptor:
    """An evaluated descriptor with blocks of the layout (for arguments of the interpreter)."""
    block = descriptor.block_type
    checked_layout(layout, block.shape, block.element_ty)
    kind = tensor_descriptor_type(block_type(block.element_ty, block.shape, layout.to_encoding()))
    handle = Evaluated(kind.to_ir(), descriptor.handle.array)
    return tensor_descriptor(handle, descriptor.shape, descriptor.strides, kind.block_type)
