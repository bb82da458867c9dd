"""The types of the kernel language: numbers, pointers, blocks, descriptors.

The language's integers are signed or unsigned; the IR's are not, its ops are. `dtype.to_ir` drops
the sign, so a language value always travels with its language type.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import lru_cache
from typing import Any, ClassVar

from xdsl.dialects.builtin import Signedness

from tritium.errors import OpError
from tritium.ir import types as ir
from tritium.language.values.base import Handle, as_tuple, base_type, is_sequence
from tritium.language.values.constexpr import constexpr_type, unwrap
from tritium.language.values.tuples import tuple_type

TRITON_MAX_TENSOR_NUMEL = 1048576
"""The most elements that a block may have."""

_INTEGERS = {f"{s}int{w}": (s, w) for s in ("", "u") for w in (8, 16, 32, 64)} | {"int1": ("", 1)}
_FP8_MANTISSA = {"fp8e4b15": 3, "fp8e4nv": 3, "fp8e4b8": 3, "fp8e5": 2, "fp8e5b16": 2}
_FP_MANTISSA = {"fp16": 10, "bf16": 7, "fp32": 23, "fp64": 52}
_BIAS = {
    "fp8e4b15": 15, "fp8e4nv": 7, "fp8e4b8": 8, "fp8e5": 15, "fp8e5b16": 16,
    "fp16": 15, "bf16": 127, "fp32": 127, "fp64": 1023,
}  # fmt: skip
_IR: dict[str, ir.Type] = {
    "int1": ir.i1, "int8": ir.i8, "int16": ir.i16, "int32": ir.i32, "int64": ir.i64,
    "uint8": ir.i8, "uint16": ir.i16, "uint32": ir.i32, "uint64": ir.i64,
    "fp8e5": ir.f8e5m2, "fp8e5b16": ir.f8e5m2fnuz, "fp8e4nv": ir.f8e4m3fn,
    "fp8e4b8": ir.f8e4m3fnuz, "fp8e4b15": ir.i8,
    "fp16": ir.f16, "bf16": ir.bf16, "fp32": ir.f32, "fp64": ir.f64,
}  # fmt: skip
_PYTHON_NAMES = {
    "fp8e5": "float8e5", "fp8e5b16": "float8e5b16", "fp8e4nv": "float8e4nv",
    "fp8e4b8": "float8e4b8", "fp8e4b15": "float8e4b15", "fp16": "float16", "bf16": "bfloat16",
    "fp32": "float32", "fp64": "float64",
}  # fmt: skip


def _named(name: str) -> Callable[[dtype], bool]:
    """A method of `dtype` that asks whether it is the one of this name."""

    def method(self: dtype) -> bool:
        return self.name == name

    method.__name__ = f"is_{name}"
    return method


class dtype(base_type):
    """The type of a scalar, or of an element of a block.

    Args:
        name: one of `SINT_TYPES`, `UINT_TYPES`, `FP_TYPES`, `OTHER_TYPES`.

    Attributes:
        primitive_bitwidth: bits of one element.
        int_signedness, int_bitwidth: of integers.
        fp_mantissa_width, exponent_bias: of floating-point types.
        itemsize: bytes.
    """

    SINT_TYPES: ClassVar[list[str]] = ["int8", "int16", "int32", "int64"]
    UINT_TYPES: ClassVar[list[str]] = ["int1", "uint8", "uint16", "uint32", "uint64"]
    FP_TYPES: ClassVar[list[str]] = [
        "fp8e4b15", "fp8e4nv", "fp8e4b8", "fp8e5", "fp8e5b16", "fp16", "bf16", "fp32", "fp64",
    ]  # fmt: skip
    STANDARD_FP_TYPES: ClassVar[list[str]] = ["fp16", "bf16", "fp32", "fp64"]
    OTHER_TYPES: ClassVar[list[str]] = ["void"]

    value_class: ClassVar[Any] = None
    """The class of values of such types: `tensor`, which registers itself here."""

    encoding: ir.Encoding | None = None
    """The encoding of a block; scalars have none."""

    class SIGNEDNESS(Enum):
        """True if an integer has a sign."""

        SIGNED = 0
        UNSIGNED = 1

    class KIND(Enum):
        """The rank of a kind in promotion: a Python scalar of a lower or equal kind is weak."""

        BOOLEAN = 0
        INTEGRAL = 1
        FLOATING = 2

    def __init__(self, name: Any):
        name = unwrap(name)
        self.name: str = name
        self.primitive_bitwidth = 0
        if name in _INTEGERS:
            sign, width = _INTEGERS[name]
            signed = not sign and width > 1
            self.int_signedness = dtype.SIGNEDNESS.SIGNED if signed else dtype.SIGNEDNESS.UNSIGNED
            self.int_bitwidth = self.primitive_bitwidth = width
        elif name in self.FP_TYPES:
            self.fp_mantissa_width = {**_FP8_MANTISSA, **_FP_MANTISSA}[name]
            self.exponent_bias = _BIAS[name]
            self.primitive_bitwidth = ir.bit_width(_IR[name])
        elif name not in self.OTHER_TYPES:
            known = [*self.SINT_TYPES, *self.UINT_TYPES, *self.FP_TYPES, *self.OTHER_TYPES]
            raise RuntimeError(f"{name!r} is no dtype; there are {', '.join(known)}")
        self.itemsize = self.primitive_bitwidth // 8

    # Questions

    def is_fp8(self) -> bool:
        return "fp8" in self.name and "pointer" not in self.name

    is_fp8e4nv, is_fp8e4b8, is_fp8e4b15 = map(_named, ("fp8e4nv", "fp8e4b8", "fp8e4b15"))
    is_fp8e5, is_fp8e5b16 = map(_named, ("fp8e5", "fp8e5b16"))
    is_fp16, is_bf16, is_fp32, is_fp64 = map(_named, ("fp16", "bf16", "fp32", "fp64"))
    is_int1, is_void = map(_named, ("int1", "void"))
    is_int8, is_int16, is_int32, is_int64 = map(_named, SINT_TYPES)
    is_uint8, is_uint16, is_uint32, is_uint64 = map(_named, UINT_TYPES[1:])

    def is_floating(self) -> bool:
        return self.name in self.FP_TYPES

    def is_standard_floating(self) -> bool:
        return self.name in self.STANDARD_FP_TYPES

    def is_int_signed(self) -> bool:
        return self.name in self.SINT_TYPES

    def is_int_unsigned(self) -> bool:
        return self.name in self.UINT_TYPES

    def is_int(self) -> bool:
        return self.name in self.SINT_TYPES or self.name in self.UINT_TYPES

    def is_bool(self) -> bool:
        return self.is_int1()

    @staticmethod
    def is_dtype(type_str: str) -> bool:
        """True if `type_str` names a dtype."""
        return type_str in _IR or type_str in dtype.OTHER_TYPES

    @staticmethod
    def is_block() -> bool:
        return False

    @staticmethod
    def is_ptr() -> bool:
        return False

    @staticmethod
    def is_const() -> bool:
        """True if it is a pointer that the kernel must not store through."""
        return False

    def kind(self) -> dtype.KIND:
        """Boolean, integral or floating. Raises `TypeError` for pointers and void."""
        if self.is_bool():
            return dtype.KIND.BOOLEAN
        if self.is_int():
            return dtype.KIND.INTEGRAL
        if self.is_floating():
            return dtype.KIND.FLOATING
        raise TypeError(f"type {self} is not a number")

    def get_int_max_value(self) -> int:
        """The largest value of an integer type."""
        bits = self.int_bitwidth - (1 if self.is_int_signed() else 0)
        return (1 << bits) - 1

    def get_int_min_value(self) -> int:
        """The smallest value of an integer type."""
        return -(1 << (self.int_bitwidth - 1)) if self.is_int_signed() else 0

    @property
    def scalar(self) -> dtype:
        """The type of one element."""
        return self

    @property
    def shape(self) -> builtins.tuple[int, ...]:
        """() for a scalar."""
        return ()

    def with_element_ty(self, element_ty: dtype) -> dtype:
        """This type with its element replaced."""
        return element_ty

    def get_block_shapes(self) -> builtins.tuple[int, ...]:
        """The shape; () for a scalar."""
        return ()

    # Names

    @property
    def cache_key_part(self) -> str:
        return self.name

    def codegen_name(self) -> str:
        """The name that generated Python uses: `tl.` before it is the type."""
        for short, long in (("fp", "float"), ("bf", "bfloat")):
            if self.name.startswith(short):
                return long + self.name.removeprefix(short)
        return self.name

    def mangle(self) -> str:
        if self.is_int():
            return f"{'i' if self.is_int_signed() else 'u'}{self.int_bitwidth}"
        return "V" if self.is_void() else self.name

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"triton.language.{_PYTHON_NAMES.get(self.name, self.name)}"

    def __eq__(self, other: object) -> bool:
        other = unwrap(other)
        return type(other) is dtype and self.name == other.name

    def __hash__(self) -> int:
        return hash((self.name,))

    # IR

    def to_ir(self, builder: object = None) -> ir.Type:
        """The IR type. Raises `TypeError` for void. (`builder` is accepted and not needed.)"""
        if self.name not in _IR:
            raise TypeError(f"type {self} has no values")
        return _IR[self.name]

    def flatten_types(self) -> list[ir.Type]:
        return [self.to_ir()]

    def unflatten(self, handles: Sequence[Handle], cursor: int) -> builtins.tuple[Any, int]:
        return dtype.value_class(handles[cursor], self), cursor + 1


class pointer_type(dtype):
    """Pointers to `element_ty`, which may be a block (a block pointer).

    `const`: the kernel must not store through it.
    """

    def __init__(self, element_ty: object, address_space: int = 1, const: bool = False):
        element_ty = unwrap(element_ty)
        if not isinstance(element_ty, dtype):
            raise TypeError(f"element_ty has type `{type(element_ty).__name__}`; expected `dtype`.")
        self.element_ty = element_ty
        self.address_space = unwrap(address_space)
        self.const = bool(unwrap(const))
        self.name = f"{'const_' if self.const else ''}pointer<{element_ty}>"
        self.primitive_bitwidth = 64
        self.itemsize = 8

    def to_ir(self, builder: object = None) -> ir.Type:
        return ir.pointer_to(self.element_ty.to_ir(), self.address_space)

    def is_ptr(self) -> bool:  # pyright: ignore[reportIncompatibleMethodOverride]
        return True

    def is_const(self) -> bool:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self.const

    @property
    def scalar(self) -> dtype:
        return self

    def mangle(self) -> str:
        return f"P{'k' if self.const else ''}{self.element_ty.mangle()}"

    def codegen_name(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        other = unwrap(other)
        return (
            isinstance(other, pointer_type)
            and self.element_ty == other.element_ty
            and self.address_space == other.address_space
            and self.const == other.const
        )

    def __hash__(self) -> int:
        return hash((self.name, self.address_space))

    def __repr__(self) -> str:
        return self.name


class block_type(dtype):
    """Blocks of `element_ty`. Each extent is a power of two; see `validate_block_shape`.

    `encoding` is the IR type's: how the elements lie in threads, where a program says so.
    """

    distributed_class: ClassVar[Any] = None
    """The class of blocks with an encoding, if it is another: `distributed_type` of Gluon, which
    registers itself here."""

    def __init__(
        self, element_ty: dtype, shape: Sequence[Any], encoding: ir.Encoding | None = None
    ):
        self.encoding = encoding
        self.element_ty: dtype = unwrap(element_ty)
        self._shape = builtins.tuple(unwrap(list(shape)))
        if not self._shape:
            raise TypeError("0d block_type is forbidden")
        self.numel = validate_block_shape(self._shape)
        self._shape = builtins.tuple(map(int, self._shape))
        self.primitive_bitwidth = self.element_ty.primitive_bitwidth
        self.itemsize = self.element_ty.itemsize

    @property
    def name(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        encoding = "" if self.encoding is None else f", {self.encoding}"
        return f"<{list(self._shape)}, {self.element_ty}{encoding}>"

    def to_ir(self, builder: object = None) -> ir.Type:
        return ir.tensor_of(self._shape, self.element_ty.to_ir(), self.encoding)

    def is_block(self) -> bool:  # pyright: ignore[reportIncompatibleMethodOverride]
        return True

    @property
    def shape(self) -> builtins.tuple[int, ...]:
        return self._shape

    @property
    def scalar(self) -> dtype:
        return self.element_ty

    @property
    def nbytes(self) -> int:
        """Bytes of the whole block."""
        return self.numel * (self.primitive_bitwidth // 8)

    def get_block_shapes(self) -> builtins.tuple[int, ...]:
        return self._shape

    def with_element_ty(self, element_ty: dtype) -> block_type:
        return block_of(element_ty, self._shape, self.encoding)

    def mangle(self) -> str:
        encoding = "" if self.encoding is None else f"L{self.encoding}L"
        return f"{self.element_ty.mangle()}S{'_'.join(map(str, self._shape))}S{encoding}"

    def codegen_name(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        other = unwrap(other)
        return (
            isinstance(other, block_type)
            and self.element_ty == other.element_ty
            and self._shape == other._shape
            and self.encoding == other.encoding
        )

    def __hash__(self) -> int:
        return hash((self.element_ty, self._shape))

    def __repr__(self) -> str:
        return self.name


class slice_type(base_type):
    """The type of a `tl.slice`: compile-time start, stop and step."""

    def __repr__(self) -> str:
        return "slice_type"

    def flatten_types(self) -> list[ir.Type]:
        return []


class tensor_descriptor_type(base_type):
    """Descriptors of strided tensors in memory that are accessed in blocks of `block_type`.

    A value is the descriptor itself, its shape (int32 each) and its strides (int64 each).
    """

    value_class: ClassVar[Any] = None
    """`tensor_descriptor`, which registers itself here."""

    parse_layout: ClassVar[Callable[[str, block_type, str], tensor_descriptor_type] | None] = None
    """The type from its kind (`tensordesc`, or with a suffix), its blocks and the text of their
    layout in shared memory; Gluon's, which registers it here."""

    def __init__(
        self,
        block_type: block_type,
        shape_type: tuple_type | None = None,
        strides_type: tuple_type | None = None,
    ):
        rank = len(block_type.shape)
        self.block_type = block_type
        self.shape_type = shape_type or tuple_type([int32] * rank)
        self.strides_type = strides_type or tuple_type([int64] * rank)

    @property
    def dtype(self) -> dtype:
        """The type of an element."""
        return self.block_type.element_ty

    def to_ir(self, builder: object = None) -> ir.Type:
        """`!tt.tensordesc<tensor<...>>`; integers keep their sign there."""
        return ir.TensorDescType(self._ir_block())

    def _ir_block(self) -> ir.Type:
        element = self.block_type.element_ty
        ir_element = element.to_ir()
        if element.is_int() and not element.is_bool():
            ir_element = ir.IntegerType(
                element.int_bitwidth,
                Signedness.SIGNED if element.is_int_signed() else Signedness.UNSIGNED,
            )
        block = self.block_type
        return ir.tensor_of(block.shape, ir_element, block.encoding)

    def flatten_types(self) -> list[ir.Type]:
        members = (self.shape_type, self.strides_type)
        return [self.to_ir(), *(t for member in members for t in member.flatten_types())]

    def unflatten(self, handles: Sequence[Handle], cursor: int) -> builtins.tuple[Any, int]:
        handle = handles[cursor]
        shape, cursor = self.shape_type.unflatten(handles, cursor + 1)
        strides, cursor = self.strides_type.unflatten(handles, cursor)
        return type(self).value_class(handle, shape, strides, self.block_type), cursor

    def mangle(self) -> str:
        members = "_".join(
            t.mangle() for t in (self.block_type, self.shape_type, self.strides_type)
        )
        return f"TD{members}TD"

    def __eq__(self, other: object) -> bool:
        other = unwrap(other)
        return (
            isinstance(other, tensor_descriptor_type)
            and self.block_type == other.block_type
            and self.shape_type == other.shape_type
            and self.strides_type == other.strides_type
        )

    def __hash__(self) -> int:
        return hash(("tensordesc", self.block_type))

    def __repr__(self) -> str:
        return f"tensor_descriptor<{self.block_type}>"


void = dtype("void")
int1 = dtype("int1")
int8, int16, int32, int64 = dtype("int8"), dtype("int16"), dtype("int32"), dtype("int64")
uint8, uint16, uint32, uint64 = dtype("uint8"), dtype("uint16"), dtype("uint32"), dtype("uint64")
float8e5, float8e5b16 = dtype("fp8e5"), dtype("fp8e5b16")
float8e4nv, float8e4b8, float8e4b15 = dtype("fp8e4nv"), dtype("fp8e4b8"), dtype("fp8e4b15")
float16, bfloat16, float32, float64 = dtype("fp16"), dtype("bf16"), dtype("fp32"), dtype("fp64")
pi32_t = pointer_type(int32)


class const:
    """Annotation of a pointer argument that the kernel only reads through."""


def get_int_dtype(bitwidth: int, signed: bool) -> dtype:
    """The integer type of `bitwidth` bits. Raises `ValueError` if there is none."""
    name = "int1" if bitwidth == 1 else f"{'' if signed else 'u'}int{bitwidth}"
    if name not in _INTEGERS or (bitwidth == 1 and signed):
        raise ValueError(f"Unsupported bitwidth {bitwidth} and signedness {signed}")
    return dtype(name)


def validate_block_shape(shape: Sequence[object]) -> int:
    """The number of elements of a block of this shape.

    Raises:
        TypeError: an extent is not a compile-time integer.
        ValueError: an extent is not a power of two, or there are more than
            `TRITON_MAX_TENSOR_NUMEL` elements.
    """
    numel = 1
    for i, extent in enumerate(shape):
        if not isinstance(extent, int):
            raise TypeError(
                f"Shape element {i} must have type `constexpr[int]`, got "
                f"`{'constexpr[' + type(extent).__name__ + ']'}`"
            )
        if extent <= 0 or extent & (extent - 1):
            raise ValueError(f"Shape element {i} must be a power of 2")
        numel *= extent
    if numel > TRITON_MAX_TENSOR_NUMEL:
        raise ValueError(
            f"numel ({numel}) exceeds triton maximum tensor numel ({TRITON_MAX_TENSOR_NUMEL})"
        )
    return numel


_SIGNATURE_NAMES: Mapping[str, str] = {
    **{name: name for name in dtype.FP_TYPES},
    **{f"i{w}": f"int{w}" for w in (1, 8, 16, 32, 64)},
    **{f"u{w}": f"uint{w}" for w in (8, 16, 32, 64)},
    "u1": "int1",
    "B": "int1",
    "void": "void",
}


def str_to_ty(name: Any, value: Any = None) -> base_type:
    """The type that a signature entry names.

    Args:
        name: `fp32`, `i64`, `u1`, `*fp16`, `*kfp16` (const), `tensordesc<fp16[64, 64]>`,
            `constexpr`, or a (named) tuple of such entries.
        value: the value of a `constexpr` entry (for a tuple: a tuple of values).

    Raises `ValueError` for any other text.
    """
    if is_sequence(name):
        names = as_tuple(name)
        values = as_tuple(value) if value is not None else (None,) * len(names)
        members = [str_to_ty(n, v) for n, v in zip(names, values, strict=True)]
        return tuple_type(members, getattr(name, "_fields", None))
    if name == "constexpr":
        return constexpr_type(value)
    if name.startswith("*"):
        const_pointer = name.startswith("*k")
        pointee = str_to_ty(name[2 if const_pointer else 1 :])
        assert isinstance(pointee, dtype), name
        return pointer_type(pointee, const=const_pointer)
    if name.startswith("tensordesc"):
        kind, _, rest = name.partition("<")
        element, _, rest = rest.partition("[")
        extents, closed, rest = rest.partition("]")
        if not closed or element not in _SIGNATURE_NAMES:
            raise ValueError(f"{name!r} is no descriptor type; write tensordesc<fp16[64, 64]>")
        block = block_type(dtype(_SIGNATURE_NAMES[element]), [int(e) for e in extents.split(",")])
        if rest.startswith(",") and tensor_descriptor_type.parse_layout is not None:
            return tensor_descriptor_type.parse_layout(kind, block, rest[1:].removesuffix(">"))
        if kind != "tensordesc":
            raise ValueError(f"{name!r}: descriptors of this kind are Gluon's")
        return tensor_descriptor_type(block)
    if name not in _SIGNATURE_NAMES:
        raise ValueError(
            f"{name!r} is no type of a signature; there are {', '.join(_SIGNATURE_NAMES)}, "
            "*T, *kT, tensordesc<T[...]>, constexpr"
        )
    return dtype(_SIGNATURE_NAMES[name])


_OF_IR = {t: dtype(n) for n, t in reversed(_IR.items()) if n[0] != "u" and n != "fp8e4b15"}


@lru_cache(maxsize=4096)
def block_of(
    element: dtype, shape: builtins.tuple[int, ...], encoding: ir.Encoding | None = None
) -> block_type:
    """The type of blocks, of the class for those with an encoding where there is one."""
    distributed = block_type.distributed_class
    kind = block_type if encoding is None or distributed is None else distributed
    return kind(element, shape, encoding)


def from_ir(type: ir.Type, like: dtype | None = None) -> dtype:
    """The language type of an IR type: integers signed, unless `like` (a type of the same IR
    element) says otherwise. Raises `OpError` for an IR type that the language has not."""
    element = ir.element_type(type)
    scalar = void if like is None else like.scalar
    if like is not None and ((known := scalar.to_ir()) is element or known == element):
        pass
    elif isinstance(element, ir.PointerType):
        scalar = pointer_type(from_ir(element.pointee), element.address_space.data)
    else:
        if element not in _OF_IR:
            raise OpError(f"IR type {type} has no equivalent in the language")
        scalar = _OF_IR[element]
    shape = ir.shape_of(type)
    return block_of(scalar, shape, ir.encoding_of(type)) if shape else scalar
