"""Constants."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from xdsl.dialects.builtin import (
    BytesAttr,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
    LocationAttr,
    TensorType,
)
from xdsl.ir import Attribute, Operation, SSAValue

from tritium.errors import OpError
from tritium.ir import intervals
from tritium.ir import types as ir
from tritium.ir.intervals import Algebra, Interval
from tritium.ops import axis_info as facts
from tritium.ops.axis_info import AxisInfo
from tritium.ops.base import Op
from tritium.ops.fields import integer_attr, raw_attr
from tritium.ops.memory import Context

if TYPE_CHECKING:
    from xdsl.parser import Parser
    from xdsl.printer import Printer


@lru_cache(maxsize=256)
def _text(type: Any) -> str:
    """The text of a type; to print one takes a tenth of a millisecond."""
    return str(type)


class ConstantOp(Op):
    """A number, or a tile of numbers. `ConstantOp.of(3, i32)` makes one from Python values."""

    name = "arith.constant"
    cost = 0
    tile_source = is_constant = True
    value = raw_attr()

    @classmethod
    def infer(cls, *, value: Attribute) -> ir.Type:
        if not isinstance(value, (IntegerAttr, FloatAttr, DenseIntOrFPElementsAttr)):
            raise OpError(f"{cls.name}: value is {value}; a number or dense<...> is required")
        return value.type  # pyright: ignore[reportUnknownVariableType, reportReturnType]

    @classmethod
    def of(cls, value: Any, type: ir.Type, location: LocationAttr | None = None) -> ConstantOp:
        """A constant of `type`: a Python or NumPy number (repeated in a tile), or an array."""
        return cls.build(value=constant_attr(value, type), location=location)

    @property
    def default_name(self) -> str:
        """The name of the result in text: `c4_i32`, `true`, `cst` for tiles and floats."""
        value = self.value
        if not isinstance(value, IntegerAttr):
            return "cst"
        number: int = value.value.data
        type = cast("Any", value).type
        if isinstance(type, IndexType):
            return f"c{number}"
        if type == ir.i1:
            return "true" if number else "false"
        return f"c{number}_{_text(type)}"

    def evaluate(self, context: Context) -> Any:
        return attr_value(self.value)

    def axis_info(self, operands: Sequence[AxisInfo]) -> AxisInfo:
        type, value = self.results[0].type, attr_value(self.value)
        if not ir.is_integer(type) or getattr(value, "size", 1) == 0:
            return facts.unknown(type)
        first = value.flat[0] if hasattr(value, "flat") else value
        if getattr(value, "strides", ()) and any(value.strides) and (value != first).any():
            return facts.unknown(type)
        return facts.repeated(type, int(first))

    def spacing(self, axis: int) -> int | None:
        return None if splat_number(self.value) is None else 0

    def interval(self, algebra: Algebra, operands: Sequence[Interval]) -> Interval:
        number = splat_number(self.value)
        if number is not None:
            return intervals.known(int(number), int(number))
        held = attr_value(self.value)
        return intervals.known(int(held.min()), int(held.max()))

    def print(self, printer: Printer) -> None:
        printer.print_op_attributes(self.attributes)
        printer.print_string(" ")
        printer.print_attribute(self.value)

    @classmethod
    def parse(cls, parser: Parser) -> ConstantOp:
        attributes = parser.parse_optional_attr_dict()
        at = parser.pos
        value = parser.parse_attribute()
        try:
            return cls.build(value=value, attributes=attributes)
        except OpError as error:
            parser.raise_error(str(error), at)


def constant_attr(value: Any, type: ir.Type) -> Attribute:
    """The attribute that holds `value` as `type`; integers wrap to the type's width."""
    if isinstance(value, int):
        return _cached_attr(int(value), type)
    if isinstance(value, float):
        # By its digits, because 0.0 == -0.0 and NaN != NaN.
        return _cached_attr(value.hex(), type)
    return _make_attr(value, type)


@lru_cache(maxsize=512)
def _cached_attr(value: int | str, type: ir.Type) -> Attribute:
    return _make_attr(float.fromhex(value) if isinstance(value, str) else value, type)


def _make_attr(value: Any, type: ir.Type) -> Attribute:
    dtype = ir.numpy_dtype(type)
    if isinstance(value, int) and dtype.kind in "ib":
        width = ir.bit_width(type)
        low = int(value) & ((1 << width) - 1)
        value = low if width == 1 or low < 1 << (width - 1) else low - (1 << width)
    with np.errstate(over="ignore"):  # a number too large for the type is infinite there
        array = np.asarray(value).astype(dtype)
    if not isinstance(type, TensorType):
        if ir.is_integer(type):
            return integer_attr(int(array), type)
        return FloatAttr(float(array), type)  # pyright: ignore
    tile: Any = type  # pyright: ignore[reportUnknownVariableType]
    full = np.ascontiguousarray(np.broadcast_to(array, tile.get_shape()))
    return DenseIntOrFPElementsAttr(tile, BytesAttr(full.tobytes()))


def splat_number(attribute: Attribute) -> Any | None:
    """The number a constant's attribute repeats, a NumPy scalar; None if elements differ."""
    if not isinstance(attribute, DenseIntOrFPElementsAttr):
        return attr_value(attribute)
    dense = cast(Any, attribute)
    raw: bytes = dense.data.data
    dtype = ir.numpy_dtype(dense.type)
    first = raw[: dtype.itemsize]
    if not raw or (len(raw) > len(first) and raw != first * (len(raw) // len(first))):
        return None
    return np.frombuffer(first, dtype)[0]


def attr_value(attribute: Attribute) -> Any:
    """The number or array that a constant's attribute holds, of the type's NumPy dtype."""
    constant: Any = attribute
    dtype, shape = ir.numpy_dtype(constant.type), ir.shape_of(constant.type)
    if isinstance(attribute, (IntegerAttr, FloatAttr)):
        return np.asarray(constant.value.data).astype(dtype)[()]
    assert isinstance(attribute, DenseIntOrFPElementsAttr)
    array = np.frombuffer(constant.data.data, dtype)
    return np.broadcast_to(array, shape) if array.size == 1 else array.reshape(shape)


def constant_int(value: SSAValue) -> int | None:
    """The Python integer that a scalar constant holds; None for other values."""
    owner = value.owner
    if type(owner) is not ConstantOp or not ir.is_integer(value.type) or ir.shape_of(value.type):
        return None
    attribute: Any = owner.properties["value"]
    return attribute.value.data


def constant_value(source: Operation | SSAValue) -> Any | None:
    """The NumPy value of a constant op (or of a value that one defines); None for others."""
    op = source.owner if isinstance(source, SSAValue) else source
    return attr_value(op.value) if isinstance(op, ConstantOp) else None


def is_zero(value: SSAValue) -> bool:
    """True if a value is a constant of zeros."""
    number = constant_value(value)
    return number is not None and not number.any()
