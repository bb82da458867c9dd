"""Descriptors of tensors in memory, whose blocks have a layout in shared memory."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from tritium.experimental.gluon.language._layouts import NVMMASharedLayout, layout_of
from tritium.ir.types import TensorDescType
from tritium.language.emitter import Evaluated
from tritium.language.values import types
from tritium.language.values.base import Handle
from tritium.language.values.tensor import tensor_descriptor as plain_descriptor
from tritium.language.values.types import block_type
from tritium.ops.ttgir import bytes_of, memdesc_of


class tensor_descriptor_type(types.tensor_descriptor_type):
    """Descriptors of tensors that are copied to and from shared memory of a layout."""

    @property
    def layout(self) -> Any:
        """The layout of blocks in shared memory."""
        return layout_of(self.block_type.encoding)  # pyright: ignore[reportArgumentType]

    @property
    def nbytes_per_cta(self) -> int:
        """The bytes of a block, or of the part of it that each thread block has."""
        element = self.dtype.to_ir()
        return bytes_of(memdesc_of(self.block_type.shape, element, self.block_type.encoding))  # pyright: ignore

    def mangle(self) -> str:
        block = block_type(self.dtype, self.block_type.shape)
        members = "_".join(t.mangle() for t in (block, self.shape_type, self.strides_type))
        return f"TD{members}_{self.layout.mangle()}TD"

    def __repr__(self) -> str:
        return f"tensor_descriptor<{self.block_type}>"

    __hash__ = types.tensor_descriptor_type.__hash__


class tensor_descriptor(plain_descriptor):
    """A strided tensor in memory, copied block by block to and from shared memory.

    Attributes:
        layout: of blocks in shared memory.
        nbytes_per_cta: the bytes that one copy brings.
        shape, strides, block_type, block_shape, dtype: as of `tl.tensor_descriptor`.
    """

    def __init__(self, handle: Any, shape: Any, strides: Any, block_type: block_type):
        super().__init__(handle, shape, strides, block_type)
        self.type = tensor_descriptor_type(block_type, self.shape.type, self.strides.type)

    @property
    def layout(self) -> Any:
        """The layout of blocks in shared memory."""
        return self.type.layout  # pyright: ignore

    @property
    def nbytes_per_cta(self) -> int:
        """The bytes that one copy brings."""
        return self.type.nbytes_per_cta  # pyright: ignore


tensor_descriptor_type.value_class = tensor_descriptor


def checked_layout(layout: Any, block_shape: Sequence[int], bits: int) -> NVMMASharedLayout:
    """The layout, if blocks of elements of so many bits can have it. Raises `ValueError`."""
    if not isinstance(layout, NVMMASharedLayout):
        raise TypeError(f"the layout of blocks is {layout!r}; an NVMMASharedLayout is required")
    if layout.element_bitwidth != bits:
        raise ValueError(f"{layout} for elements of {bits} bits")
    least = layout.swizzle_byte_width * 8 // bits
    if block_shape[-1] < least:
        raise ValueError(
            f"rows of {block_shape[-1]} elements in {layout}; {least} or more are required"
        )
    return layout


def laid_out(descriptor: plain_descriptor, layout: Any) -> tensor_descriptor:
    """An evaluated descriptor with blocks of the layout (for arguments of the interpreter)."""
    block = descriptor.block_type
    checked_layout(layout, block.shape, block.primitive_bitwidth)
    kind = tensor_descriptor_type(block_type(block.element_ty, block.shape, layout.to_encoding()))
    type = kind.to_ir()
    assert isinstance(type, TensorDescType)
    handle: Handle = Evaluated(type, descriptor.handle.array)
    return tensor_descriptor(handle, descriptor.shape, descriptor.strides, kind.block_type)


def _parsed(block: block_type, text: str) -> tensor_descriptor_type:
    """The type of a descriptor from the text of its layout, its `repr`, in a signature."""
    call: Any = ast.parse(text.strip(), mode="eval").body
    if not isinstance(call, ast.Call) or call.args:
        raise ValueError(f"{text!r} is no layout of a descriptor; NVMMASharedLayout(...) is")
    values = {str(k.arg): ast.literal_eval(k.value) for k in call.keywords}
    layout = NVMMASharedLayout(**values)
    return tensor_descriptor_type(block_type(block.element_ty, block.shape, layout.to_encoding()))


types.tensor_descriptor_type.parse_layout = _parsed
