"""The types of the `tt` dialect and the helpers that ops, passes and lowerings share.

Scalars are xDSL's builtin types; a tile is a builtin `TensorType`, whose element may be a
`PointerType`. The textual forms are the reference's (`!tt.ptr<f32>`, `!tt.tensordesc<...>`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
from xdsl.dialects import builtin
from xdsl.dialects.builtin import (
    Float8E4M3FNType,
    Float8E4M3FNUZType,
    Float8E5M2FNUZType,
    Float8E5M2Type,
    IntegerType,
    TensorType,
    bf16,
    f16,
    f32,
    f64,
    i1,
    i8,
    i16,
    i32,
    i64,
)
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition, param_def
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from tritium.errors import OpError

Type: TypeAlias = Attribute
Encoding: TypeAlias = Attribute

f8e5m2, f8e4m3fn = Float8E5M2Type(), Float8E4M3FNType()
f8e4m3fnuz, f8e5m2fnuz = Float8E4M3FNUZType(), Float8E5M2FNUZType()
_FLOATS = frozenset(map(type, (f16, bf16, f32, f64, f8e5m2, f8e4m3fn, f8e4m3fnuz, f8e5m2fnuz)))


@irdl_attr_definition
class PointerType(ParametrizedAttribute, TypeAttribute):
    """`!tt.ptr<f32>`: the address of an element (or, for block pointers, of a tensor) in memory.

    `address_space` is 1 (global memory) unless the text says otherwise. Release 3.9 names it, and
    gives pointers to constants one of their own, which is read as 1.
    """

    name = "tt.ptr"
    pointee: Attribute = param_def()
    address_space: builtin.IntAttr = param_def()

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_attribute(self.pointee)
            if self.address_space.data != 1:
                printer.print_string(f", {self.address_space.data}")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            pointee = parser.parse_type()
            space = 1
            if parser.parse_optional_punctuation(","):
                space = _address_space(parser)
        return [pointee, builtin.IntAttr(space)]


_ADDRESS_SPACES = {"global": 1, "constant": 1, "shared": 3}


def _address_space(parser: AttrParser) -> int:
    name = parser.parse_optional_str_literal()
    if name is None:
        return parser.parse_integer()
    if name not in _ADDRESS_SPACES:
        known = ", ".join(_ADDRESS_SPACES)
        parser.raise_error(f"tt.ptr: address space {name!r}; {known} or a number is required")
    return _ADDRESS_SPACES[name]


@irdl_attr_definition
class TensorDescType(ParametrizedAttribute, TypeAttribute):
    """`!tt.tensordesc<tensor<64x64xf16>>`: a strided tensor in memory, accessed block by block.

    Integer blocks keep their signedness in the element type (`si32`, `ui8`), as the reference's.
    Release 3.9 writes the block without its `tensor`: `!tt.tensordesc<64x64xf16>`.
    """

    name = "tt.tensordesc"
    block: Attribute = param_def()

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_attribute(self.block)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            block = parser.parse_optional_type()
            if block is None:
                shape, element = parser.parse_ranked_shape()
                encoding = None
                if parser.parse_optional_punctuation(","):
                    encoding = parser.parse_attribute()
                block = tensor_of(tuple(shape), element, encoding)
        return [block]


@irdl_attr_definition
class PatchesDescType(ParametrizedAttribute, TypeAttribute):
    """`!ttng.tensordesc_im2col<tensor<64x32xf16>, 4>`: a tensor of 3 to 5 axes in memory (batches,
    1 to 3 spatial axes, channels), whose blocks are (positions of a filter) x (channels).

    `filters`: where filters begin, for blocks of which each thread block of a cluster has some of
    the positions: lower corner, upper corner and steps, `[[-1, -1], [-1, -1], [1, 1, 1, 1]]`."""

    name = "ttng.tensordesc_im2col"
    block: Attribute = param_def()
    rank: builtin.IntAttr = param_def()
    filters: builtin.ArrayAttr[builtin.ArrayAttr[builtin.IntAttr]] = param_def()

    @staticmethod
    def of(block: Attribute, rank: int, filters: Sequence[Sequence[int]] = ()) -> PatchesDescType:
        """The type with the numbers as attributes."""
        lists = [builtin.ArrayAttr(map(builtin.IntAttr, numbers)) for numbers in filters]
        return PatchesDescType(block, builtin.IntAttr(rank), builtin.ArrayAttr(lists))

    def filter_numbers(self) -> list[list[int]]:
        """`filters` as integers."""
        return [[number.data for number in numbers] for numbers in self.filters]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_attribute(self.block)
            printer.print_string(f", {self.rank.data}")
            if self.filters.data:
                printer.print_string(f", {self.filter_numbers()}")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            block, filters = parser.parse_type(), list[list[int]]()
            parser.parse_punctuation(",")
            rank = parser.parse_integer()
            if parser.parse_optional_punctuation(","):
                lists, square = parser.parse_comma_separated_list, parser.Delimiter.SQUARE
                filters = lists(square, lambda: lists(square, parser.parse_integer))
            return PatchesDescType.of(block, rank, filters).parameters


DESCRIPTORS = (TensorDescType, PatchesDescType)
"""The types of descriptors that kernels take."""


@lru_cache(maxsize=4096)
def pointer_to(pointee: Type, address_space: int = 1) -> PointerType:
    """The type of pointers to `pointee`."""
    return PointerType(pointee, builtin.IntAttr(address_space))


@lru_cache(maxsize=4096)
def tensor_of(shape: tuple[int, ...], element: Type, encoding: Attribute | None = None) -> Type:
    """`tensor<shape x element>`, or just `element` when `shape` is empty."""
    if not shape:
        return element
    return TensorType(element, shape, builtin.NoneAttr() if encoding is None else encoding)


# What follows asks for classes by `is` where it is called thousands of times a kernel: attributes
# are of abstract base classes, for which `isinstance` takes a microsecond to say no.


def shape_of(type: Type) -> tuple[int, ...]:
    """The shape of a tile; () for a scalar."""
    if type.__class__ is not TensorType:
        return ()
    return tuple([size.data for size in type.shape.data])  # pyright: ignore  # a list: half the time


def extent(type: Type, axis: int) -> int:
    """The extent of a tile along an axis, without making its shape; 1 for a scalar."""
    return type.shape.data[axis].data if type.__class__ is TensorType else 1  # pyright: ignore


def element_type(type: Type) -> Type:
    """The type of one element of a tile; a scalar's own type."""
    return type.element_type if type.__class__ is TensorType else type  # pyright: ignore


def encoding_of(type: Any) -> Any:
    """The encoding of a tile, which says how it is distributed; None without one."""
    if type.__class__ is not TensorType:
        return None
    encoding = type.encoding
    return None if encoding.__class__ is builtin.NoneAttr else encoding


def with_element(type: Type, element: Type) -> Type:
    """`type` with its element replaced, its shape and encoding kept."""
    if isinstance(type, TensorType):
        return tensor_of(type.get_shape(), element, type.encoding)
    return element


def with_shape(type: Type, shape: tuple[int, ...]) -> Type:
    """`type` with another shape, its element and encoding kept; a scalar becomes a tile."""
    return tensor_of(shape, element_type(type), encoding_of(type))


def is_float(type: Type) -> bool:
    """True if the elements are floating-point numbers."""
    return element_type(type).__class__ in _FLOATS


def is_integer(type: Type) -> bool:
    """True if the elements are integers (i1 and `index` included)."""
    kind = element_type(type).__class__
    return kind is IntegerType or kind is builtin.IndexType


def is_pointer(type: Type) -> bool:
    """True if the elements are pointers."""
    return element_type(type).__class__ is PointerType


def is_block_pointer(type: Type) -> bool:
    """True if a type is that of pointers to tiles."""
    return type.__class__ is PointerType and type.pointee.__class__ is TensorType  # pyright: ignore


def bit_width(type: Type) -> int:
    """Bits of one element; pointers have 64."""
    element = element_type(type)
    kind = element.__class__
    if kind is IntegerType:
        return element.width.data  # pyright: ignore
    if kind is PointerType or kind is builtin.IndexType:
        return 64
    return numpy_dtype(element).itemsize * 8


@lru_cache(maxsize=512)
def memory_bytes(type: Type) -> int:
    """Bytes of one element in memory."""
    return max(1, bit_width(type) // 8)


def pointee_bytes(pointer: Type) -> int:
    """Bytes of what a pointer, or each of a tile of them, leads to."""
    kind: Any = element_type(pointer)
    return memory_bytes(kind.pointee)


# By class and by width, as hashing a type takes several calls.
_NUMPY: dict[type[Attribute], np.dtype] = {
    f16.__class__: np.dtype(np.float16),
    bf16.__class__: np.dtype(ml_dtypes.bfloat16),
    f32.__class__: np.dtype(np.float32),
    f64.__class__: np.dtype(np.float64),
    f8e5m2.__class__: np.dtype(ml_dtypes.float8_e5m2),
    f8e4m3fn.__class__: np.dtype(ml_dtypes.float8_e4m3fn),
    f8e4m3fnuz.__class__: np.dtype(ml_dtypes.float8_e4m3fnuz),
    f8e5m2fnuz.__class__: np.dtype(ml_dtypes.float8_e5m2fnuz),
    builtin.IndexType: np.dtype(np.int64),
    PointerType: np.dtype(np.uint64),
}
_INTEGERS: dict[int, np.dtype] = {
    type.width.data: np.dtype(dtype)
    for type, dtype in (
        (i1, np.bool_), (i8, np.int8), (i16, np.int16), (i32, np.int32), (i64, np.int64),
    )
}  # fmt: skip


def numpy_dtype(type: Type) -> np.dtype:
    """The NumPy dtype that holds one element: integers are signed, pointers are uint64.

    Raises `OpError` for a type that no array can hold (a descriptor, `i7`).
    """
    element = element_type(type)
    if element.__class__ is IntegerType:
        known = _INTEGERS.get(element.width.data)  # pyright: ignore
    else:
        known = _NUMPY.get(element.__class__)
    if known is None:
        raise OpError(f"type {element} has no NumPy equivalent")
    return known
