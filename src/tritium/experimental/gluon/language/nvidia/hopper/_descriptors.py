"""Descriptors of tensors in memory, whose blocks have a layout in shared memory."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any, ClassVar

from tritium.experimental.gluon.language._layouts import Layout, NVMMASharedLayout, layout_of
from tritium.ir import types as ir
from tritium.language.builtins.memory import integers
from tritium.language.emitter import Evaluated
from tritium.language.values import types
from tritium.language.values.base import Handle
from tritium.language.values.tensor import tensor_descriptor as plain_descriptor
from tritium.language.values.types import block_type, tuple_type
from tritium.ops.ttgir import copied_bytes_of, memdesc_of
from tritium.ops.ttgir.im2col import Patches
from tritium.ops.ttir import PaddingOption


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
        memory = memdesc_of(self.block_type.shape, element, self.block_type.encoding)  # pyright: ignore
        return copied_bytes_of(memory)

    def mangle(self) -> str:
        block = block_type(self.dtype, self.block_type.shape)
        members = "_".join(t.mangle() for t in (block, self.shape_type, self.strides_type))
        return f"TD{members}_{self.layout.mangle()}TD"

    def __repr__(self) -> str:
        return f"{type(self).__name__.removesuffix('_type')}<{self.block_type}>"

    __hash__ = types.tensor_descriptor_type.__hash__


class tensor_descriptor_im2col_type(tensor_descriptor_type):
    """Descriptors of patches: blocks (pixels, channels) of a tensor of more axes. `filters`: where
    filters begin (lower corner, upper corner, steps), for blocks of which each thread block of a
    cluster has some of the pixels."""

    filters: Sequence[Sequence[int]] = ()

    @classmethod
    def of_rank(
        cls, block: block_type, rank: int, filters: Sequence[Sequence[int]] = ()
    ) -> tensor_descriptor_im2col_type:
        """The type of descriptors of tensors with `rank` axes."""
        found = cls(block, tuple_type([types.int32] * rank), tuple_type([types.int64] * rank))
        found.filters = tuple(map(tuple, filters))
        return found

    def to_ir(self, builder: object = None) -> ir.Type:
        """`!ttng.tensordesc_im2col<tensor<...>, 4>`, with the number of the tensor's axes."""
        rank = len(self.shape_type.types)
        return ir.PatchesDescType.of(self._ir_block(), rank, self.filters)

    def mangle(self) -> str:
        filters = "_".join(str(n).replace("-", "m") for numbers in self.filters for n in numbers)
        return f"I{len(self.shape_type.types)}{filters}{super().mangle()}"

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, tensor_descriptor_im2col_type) and self.filters == other.filters
            and super().__eq__(other)
        )  # fmt: skip

    __hash__ = types.tensor_descriptor_type.__hash__


class tensor_descriptor(plain_descriptor):
    """A strided tensor in memory, copied block by block to and from shared memory.

    Attributes:
        layout: of blocks in shared memory.
        nbytes_per_cta: the bytes that one copy brings.
        shape, strides, block_type, block_shape, dtype: as of `tl.tensor_descriptor`.
    """

    TYPE: ClassVar[type[tensor_descriptor_type]] = tensor_descriptor_type

    def __init__(self, handle: Any, shape: Any, strides: Any, block_type: block_type):
        super().__init__(handle, shape, strides, block_type)
        self.type = self.TYPE(block_type, self.shape.type, self.strides.type)  # pyright: ignore

    @property
    def layout(self) -> Any:
        """The layout of blocks in shared memory."""
        return self.type.layout  # pyright: ignore

    @property
    def nbytes_per_cta(self) -> int:
        """The bytes that one copy brings."""
        return self.type.nbytes_per_cta  # pyright: ignore


class tensor_descriptor_im2col(tensor_descriptor):
    """A tensor in memory (batches, spatial axes, channels) of which copies have what filters of a
    convolution cover; made on the host. Attributes as of `tensor_descriptor`."""

    TYPE = tensor_descriptor_im2col_type

    def __init__(self, handle: Any, shape: Any, strides: Any, block_type: block_type):
        super().__init__(handle, shape, strides, block_type)
        filters = handle.type.filter_numbers()
        self.type = self.TYPE.of_rank(block_type, len(self.shape), filters)  # pyright: ignore


tensor_descriptor_type.value_class = tensor_descriptor
tensor_descriptor_im2col_type.value_class = tensor_descriptor_im2col


def checked_layout(layout: Any, block_shape: Sequence[int], bits: int) -> NVMMASharedLayout:
    """The layout, if blocks of elements of `bits` bits can have it. Raises `ValueError`."""
    if not isinstance(layout, NVMMASharedLayout):
        raise TypeError(f"the layout of blocks is {layout!r}; an NVMMASharedLayout is required")
    if layout.rank > len(block_shape):
        raise ValueError(f"{layout} for blocks of {list(block_shape)}; a layout of "
                         f"{len(block_shape)} axes is required")  # fmt: skip
    if layout.element_bitwidth != bits:
        raise ValueError(f"{layout} for elements of {bits} bits")
    layout.check_block(block_shape, bits)
    layout.check_copies(block_shape, bits)
    return layout


def laid_out(descriptor: plain_descriptor, layout: Any) -> tensor_descriptor:
    """An evaluated descriptor with blocks of the layout (for arguments of the interpreter)."""
    block = descriptor.block_type
    checked_layout(layout, block.shape, block.primitive_bitwidth)
    kind = tensor_descriptor_type(block_type(block.element_ty, block.shape, layout.to_encoding()))
    type = kind.to_ir()
    assert isinstance(type, ir.TensorDescType)
    handle: Handle = Evaluated(type, descriptor.handle.array)
    return tensor_descriptor(handle, descriptor.shape, descriptor.strides, kind.block_type)


def patches(pointer: Any, host: Any) -> tensor_descriptor_im2col:
    """An evaluated descriptor of patches (for arguments of the interpreter) from its pointer and a
    `TensorDescriptorIm2Col`."""
    block = block_type(pointer.type.element_ty, host.block_shape, host.layout.to_encoding())
    lower, upper, steps = host.filters
    kind = tensor_descriptor_im2col_type.of_rank(
        block, len(host.shape), host.filters if host.shares_positions else ()
    )
    padding = PaddingOption.PAD_NAN if host.padding == "nan" else PaddingOption.PAD_ZERO
    shape, strides = (tuple(map(int, x)) for x in (host.shape, host.strides))
    address = int(pointer.handle.array)
    value = Patches(address, shape, strides, lower, upper, steps, padding)
    extents, further = integers(shape, types.int32, ""), integers(strides, types.int64, "")
    return tensor_descriptor_im2col(Evaluated(kind.to_ir(), value), extents, further, block)


def _parsed(kind: str, block: block_type, text: str) -> tensor_descriptor_type:
    """The type of a descriptor from its kind and the text of its layout, its `repr`, in a
    signature; of patches the rank of the tensor and where filters begin come first."""
    rank, filters = 0, ()
    if kind == "tensordesc_im2col":
        number, _, text = text.removeprefix("input_rank=").partition(",")
        rank = int(number)
    elif kind != "tensordesc":
        raise ValueError(f"{kind!r} is no descriptor; tensordesc and tensordesc_im2col are")
    found = ast.parse(text.strip(), mode="eval").body
    if rank and isinstance(found, ast.Tuple) and len(found.elts) == 2:
        filters, found = ast.literal_eval(found.elts[0]), found.elts[1]
    layout = _layout(found, text)
    block = block_type(block.element_ty, block.shape, layout.to_encoding())
    if rank:
        return tensor_descriptor_im2col_type.of_rank(block, rank, filters)
    return LAYOUTS[type(layout)](block)


LAYOUTS: dict[type[Layout], type[tensor_descriptor_type]] = {
    NVMMASharedLayout: tensor_descriptor_type
}
"""The types of descriptors by the layouts of their blocks; other processors' are added."""


def _layout(call: Any, text: str) -> Layout:
    """A layout from the expression that its `repr` is."""
    known = {kind.__name__: kind for kind in LAYOUTS}
    name = call.func.id if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) else ""
    if name not in known or call.args:
        raise ValueError(f"{text!r} is no layout of a descriptor; {', '.join(known)} are, with "
                         "names of arguments")  # fmt: skip
    values = {str(k.arg): _layout(k.value, text) if isinstance(k.value, ast.Call)
              else ast.literal_eval(k.value) for k in call.keywords}  # fmt: skip
    return known[name](**values)


types.tensor_descriptor_type.parse_layout = _parsed
