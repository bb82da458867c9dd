"""Tensors from Python numbers, and conversions between types."""

from __future__ import annotations

from typing import Any

from tritium.ir import types as ir
from tritium.language import emitter
from tritium.language.builtins.build import build, emit
from tritium.language.values.base import base_value
from tritium.language.values.constexpr import AssignedFloat, AssignedInt, constexpr, fits_float32
from tritium.language.values.tensor import tensor
from tritium.language.values.types import (
    block_of,
    dtype,
    float16,
    float32,
    float64,
    int1,
    int8,
    int16,
    int32,
    int64,
    pointer_type,
    uint32,
    uint64,
)
from tritium.ops import ttir
from tritium.ops.arith.casts import (
    BitcastOp,
    ExtSIOp,
    ExtUIOp,
    FPToSIOp,
    FPToUIOp,
    SIToFPOp,
    TruncIOp,
    UIToFPOp,
)
from tritium.ops.arith.compare import CmpFOp, CmpFPredicate, CmpIOp, CmpIPredicate, SelectOp
from tritium.ops.arith.constant import ConstantOp, constant_attr
from tritium.ops.arith.integer import AddIOp, AndIOp, MinUIOp, OrIOp, ShLIOp, ShRUIOp
from tritium.ops.base import Op


def check_dtype_supported(type: dtype) -> None:
    """Raises `ValueError` for an fp8 type that the target has not."""
    supported = emitter.current().features.supported_fp8_dtypes
    if type.scalar.is_fp8() and type.scalar.name not in supported:
        raise ValueError(
            f"type {type.scalar} not supported in this architecture. "
            f"The supported fp8 dtypes are {supported}"
        )


def python_type(value: object) -> dtype:
    """The type that a Python number has when nothing else decides: int1, int32 (or uint32, int64,
    uint64 as it fits), float32 (float64 for what float32 cannot hold).

    Raises `ValueError` for an integer of more than 64 bits, `TypeError` for what is no number.
    """
    if isinstance(value, bool):
        return int1
    own = value.dtype if isinstance(value, (AssignedInt, AssignedFloat)) else None
    if isinstance(own, dtype):
        return own
    if isinstance(value, int):
        for type in (int32, uint32, int64, uint64):
            if type.get_int_min_value() <= value <= type.get_int_max_value():
                return type
        raise ValueError(f"Nonrepresentable integer {value}: at most 64 bits are possible")
    if isinstance(value, float):
        return float32 if fits_float32(value) else float64
    raise TypeError(f"cannot convert {value!r} of type {type_name(value)} to tensor")


def type_name(value: object) -> str:
    """The name of a Python value's type, for messages."""
    return type(value).__name__


def plain(value: object) -> Any:
    """A constexpr's value, a NumPy number (in the interpreter) as a Python one; others as they
    are."""
    if isinstance(value, tensor):
        return value
    inner: Any = value.value if isinstance(value, constexpr) else value
    if hasattr(inner, "dtype") and hasattr(inner, "item") and getattr(inner, "ndim", 1) == 0:
        return inner.item()
    return inner


def is_number(value: object) -> bool:
    """True if it is a Python number."""
    return isinstance(value, (bool, int, float))


def to_tensor(value: object) -> tensor:
    """A tensor as it is; a Python number as a scalar of its own type. Raises `TypeError` else."""
    if isinstance(value, tensor):
        return value
    value = plain(value)
    if isinstance(value, base_value):
        remedy = f"; {value.remedy}" if value.remedy else ""
        raise TypeError(f"cannot use a {type_name(value)} as a tensor{remedy}")
    return constant(value, python_type(value))


def as_element(value: object, element: dtype, like: dtype) -> tensor:
    """A value converted to `element`: a tensor of its own shape, but a Python number of the shape
    and encoding of `like` (so that no op is needed to repeat it)."""
    value = plain(value)
    if is_number(value) and not element.is_ptr():
        return constant(value, like.with_element_ty(element))
    return cast(to_tensor(value), element)


def constant(value: object, type: dtype) -> tensor:
    """A constant of a scalar or block type; integers wrap to the type's width.

    Raises `TypeError` for pointers, void and what is no number, `ValueError` for an integer of
    more than 64 bits.
    """
    element = type.scalar
    if not is_number(value):
        raise TypeError(f"{value!r} is no number, and cannot be a constant of type {element}")
    if element.is_ptr() or element.is_void():
        raise TypeError(f"a constant of type {element} cannot be made from {value!r}")
    if element.is_fp8():
        return cast(constant(value, type.with_element_ty(float32)), element)
    if element.is_bool():
        value = bool(value)
    elif element.is_int() and isinstance(value, int):
        python_type(value)  # raises
    elif element.is_int() and isinstance(value, float):
        if not element.get_int_min_value() <= value <= element.get_int_max_value():  # NaN, too
            return cast(constant(value, type.with_element_ty(python_type(value))), element)
        value = int(value)
    (handle,) = emit(ConstantOp, value=constant_attr(value, type.to_ir()))
    return tensor(handle, type)


def _convert(cls: type[Op], value: tensor, to: dtype, **attrs: object) -> tensor:
    result = ir.with_element(value.handle.type, to.to_ir())
    return build(cls, value, like=to, result=result, **attrs)


def bitcast(value: tensor, to: dtype) -> tensor:
    """The same bits as another type. Raises `ValueError` where the widths differ."""
    source, target = value.dtype, to.scalar
    if source == target:
        return value
    if source.is_ptr() or target.is_ptr():
        return cast(value, to)
    if source.primitive_bitwidth != target.primitive_bitwidth:
        raise ValueError(
            f"Cannot bitcast data-type of size {source.primitive_bitwidth} to data-type of size "
            f"{target.primitive_bitwidth}: {source} to {target}"
        )
    check_dtype_supported(target)
    if source.to_ir() == target.to_ir():
        return tensor(value.handle, value.type.with_element_ty(target))
    return _convert(BitcastOp, value, target)


def cast(value: tensor, to: dtype, fp_downcast_rounding: str | None = None) -> tensor:
    """Convert each element to type `to`.

    Floats narrow to nearest even unless `fp_downcast_rounding` is "rtz"; floats become integers
    toward zero; any number becomes int1 by comparison with 0.

    Raises `ValueError` for a bad rounding name, or one given where nothing is rounded.
    """
    source, target = value.dtype, to.scalar
    rounding = _rounding(source, target, fp_downcast_rounding)
    if source == target:
        return value
    check_dtype_supported(source)
    check_dtype_supported(target)
    if source.is_ptr() or target.is_ptr():
        return _cast_pointer(value, source, target)
    if source.is_floating() and target.is_floating():
        return _cast_float(value, source, target, rounding)
    if source.is_fp8():
        return cast(cast(value, float32), target)
    if target.is_bool():
        return _not_zero(value)
    if source.is_int() and target.is_int():
        return _cast_integer(value, source, target)
    if source.is_floating():
        return _convert(FPToSIOp if target.is_int_signed() else FPToUIOp, value, target)
    if target.is_fp8():
        return cast(cast(value, float32), target)
    return _convert(SIToFPOp if source.is_int_signed() else UIToFPOp, value, target)


def _rounding(source: dtype, target: dtype, name: str | None) -> Any:
    """The op's rounding mode (None for the default one). Checks the argument."""
    if name not in (None, "rtne", "rtz"):
        raise ValueError(
            f"fp_downcast_rounding is {name!r}; 'rtne' (to nearest even) and 'rtz' (toward zero) "
            "are allowed"
        )
    narrows = (
        source.is_floating()
        and target.is_floating()
        and source.primitive_bitwidth > target.primitive_bitwidth
    )
    if name is not None and not narrows and source != target:  # generic code asks for its own type
        raise ValueError(
            "fp_downcast_rounding should be set only for truncating fp conversions. "
            f"Source scalar type is {source} and destination type is {target}"
        )
    return name if name == "rtz" else None


def _cast_float(value: tensor, source: dtype, target: dtype, rounding: str | None) -> tensor:
    if source.is_fp8e4b15():
        return cast(_e4b15_to_half(value), target)
    if target.is_fp8e4b15():
        return _half_to_e4b15(cast(value, float16, rounding if source != float16 else None))
    if source.primitive_bitwidth == target.primitive_bitwidth:
        return cast(cast(value, float16 if source.is_fp8() else float32), target)
    if source.is_bf16() and not (target.is_fp8() or target.is_fp32() or rounding):
        return cast(cast(value, float32), target)
    mode = ttir.Rounding.RTZ if rounding else None
    cls, attrs = ttir.float_cast(source.to_ir(), target.to_ir(), mode)
    return _convert(cls, value, target, **attrs)


def _cast_integer(value: tensor, source: dtype, target: dtype) -> tensor:
    if source.int_bitwidth == target.int_bitwidth:
        return tensor(value.handle, value.type.with_element_ty(target))
    if target.int_bitwidth < source.int_bitwidth:
        return _convert(TruncIOp, value, target)
    return _convert(ExtSIOp if source.is_int_signed() else ExtUIOp, value, target)


def _not_zero(value: tensor) -> tensor:
    zero = constant(0, value.type)
    if value.dtype.is_floating():
        return build(CmpFOp, value, zero, like=int1, predicate=CmpFPredicate.UNE)
    return build(CmpIOp, value, zero, like=int1, predicate=CmpIPredicate.NE)


def _cast_pointer(value: tensor, source: dtype, target: dtype) -> tensor:
    if isinstance(source, pointer_type) and isinstance(target, pointer_type):
        if source.to_ir() == target.to_ir():
            return tensor(value.handle, value.type.with_element_ty(target))
        return _convert(ttir.BitcastOp, value, target)
    if source.is_ptr() and target.is_int() and target.int_bitwidth in (1, 64):
        address = _convert(ttir.PtrToIntOp, value, int64)
        return cast(address, target)
    if source.is_int() and target.is_ptr():
        return _convert(ttir.IntToPtrOp, cast(value, int64), target)
    raise TypeError(
        f"cannot cast {source} to {target}: pointers convert from integers, and to those of 64 bits"
    )


def _bits(cls: type[Op], value: tensor, operand: tensor | int) -> tensor:
    other = constant(operand, value.type) if isinstance(operand, int) else operand
    return build(cls, value, other, like=value)


def _e4b15_to_half(value: tensor) -> tensor:
    """fp8e4b15 has float16's bias, so its exponent and mantissa (subnormals too) only shift."""
    bits = cast(tensor(value.handle, value.type.with_element_ty(int8)), int16)
    sign = _bits(ShLIOp, _bits(AndIOp, bits, 0x80), 8)
    magnitude = _bits(ShLIOp, _bits(AndIOp, bits, 0x7F), 7)
    return bitcast(_bits(OrIOp, sign, magnitude), float16)


def _half_to_e4b15(value: tensor) -> tensor:
    """Round to nearest even; what is too large (or NaN) becomes the largest number, 1.875."""
    bits = bitcast(value, int16)
    magnitude = _bits(AndIOp, bits, 0x7FFF)
    odd = _bits(AndIOp, _bits(ShRUIOp, magnitude, 7), 1)
    rounded = _bits(ShRUIOp, _bits(AddIOp, _bits(AddIOp, magnitude, 63), odd), 7)
    # The sum may carry into the sign bit for NaN; as unsigned it is still large.
    rounded = _bits(MinUIOp, rounded, 0x7F)
    sign = _bits(AndIOp, _bits(ShRUIOp, bits, 8), 0x80)
    narrow = cast(_bits(OrIOp, rounded, sign), int8)
    return tensor(narrow.handle, value.type.with_element_ty(dtype("fp8e4b15")))


def select(condition: tensor, x: tensor, y: tensor) -> tensor:
    """`x` where the condition holds, else `y`; all of one shape."""
    return build(SelectOp, condition, x, y, like=x)


def block(element: dtype, shape: tuple[int, ...], encoding: object = None) -> dtype:
    """The type of a block that a program makes (with shape () of a scalar), in the encoding that
    it asks for or else that of all blocks."""
    if not shape:
        return element
    return block_of(element, shape, encoding or emitter.current().features.encoding)


def full(shape: tuple[int, ...], value: object, type: dtype, encoding: object = None) -> tensor:
    """A block (or with shape () a scalar) filled with a number or a scalar tensor."""
    result = block(type, shape, encoding)
    if not isinstance(value, tensor):
        return constant(value, result)
    if value.numel.value != 1:
        raise ValueError(f"only a scalar can fill a block; got shape {list(value.type.shape)}")
    value = cast(value, type)
    if not shape:
        return value
    return build(ttir.SplatOp, value, like=type, result=result.to_ir())
