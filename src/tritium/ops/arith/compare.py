"""Comparisons and selection."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
from xdsl.ir import SSAValue

from tritium.errors import OpError
from tritium.ir import intervals
from tritium.ir import types as ir
from tritium.ir.intervals import Algebra, Interval
from tritium.ops import axis_info as facts
from tritium.ops.arith.flags import FastMathAttr
from tritium.ops.arith.integer import signed, unsigned
from tritium.ops.axis_info import AxisInfo
from tritium.ops.base import Op
from tritium.ops.elementwise import check_kind, check_same, check_same_shape, describe, of_operands
from tritium.ops.fields import enum_attr, flags_attr, operand
from tritium.ops.memory import Context

if TYPE_CHECKING:
    from xdsl.parser import Parser
    from xdsl.printer import Printer


class CmpIPredicate(IntEnum):
    """Integer comparisons, numbered as MLIR does."""

    EQ, NE, SLT, SLE, SGT, SGE, ULT, ULE, UGT, UGE = range(10)


class CmpFPredicate(IntEnum):
    """Float comparisons, numbered as MLIR does: O... is false and U... true if either is NaN."""

    FALSE, OEQ, OGT, OGE, OLT, OLE, ONE, ORD, UEQ, UGT, UGE, ULT, ULE, UNE, UNO, TRUE = range(16)


_COMPARE = {
    "EQ": np.equal, "NE": np.not_equal, "LT": np.less, "LE": np.less_equal,
    "GT": np.greater, "GE": np.greater_equal,
}  # fmt: skip


class CmpIOp(Op):
    """Compare integers; i1 of the operands' shape."""

    name = "arith.cmpi"
    builder_family = "binary_op lhs rhs op"
    builders = ("create_icmp{predicate}",)
    elementwise = True
    syntax = "$predicate, $lhs, $rhs attrs : type(lhs)"
    lhs = operand()
    rhs = operand()
    predicate = enum_attr(CmpIPredicate, integer_type=ir.i64)

    @classmethod
    def infer(cls, lhs: ir.Type, rhs: ir.Type, **attrs: Any) -> ir.Type:
        check_kind(cls.name, "integer", check_same(cls.name, lhs, rhs))
        return ir.with_element(lhs, ir.i1)

    def evaluate(self, context: Context, lhs: Any, rhs: Any) -> Any:
        kind = self.predicate.name
        view = unsigned if kind[0] == "U" else signed
        return _COMPARE[kind[-2:]](view(lhs), view(rhs))

    def numpy_function(self) -> Any:
        return _COMPARE[self.predicate.name[-2:]]

    def axis_info(self, operands: Sequence[AxisInfo]) -> AxisInfo:
        kind = self.predicate.name[-2:]
        less, greater = kind in ("LT", "GE"), kind in ("GT", "LE")
        a, b = operands
        return facts.compare(self.results[0].type, a, b, less, greater)


def is_signed_compare(op: object) -> TypeGuard[CmpIOp]:
    """True if an op compares the order of signed numbers."""
    return isinstance(op, CmpIOp) and op.predicate.name[0] == "S"


class CmpFOp(Op):
    """Compare floating-point numbers; i1 of the operands' shape."""

    name = "arith.cmpf"
    builder_family = "binary_op lhs rhs op"
    builders = ("create_fcmp{predicate}",)
    exact = "compare"
    elementwise = True
    syntax = "$predicate, $lhs, $rhs flags(fastmath) attrs : type(lhs)"
    lhs = operand()
    rhs = operand()
    predicate = enum_attr(CmpFPredicate, integer_type=ir.i64)
    fastmath = flags_attr(FastMathAttr)

    @classmethod
    def infer(cls, lhs: ir.Type, rhs: ir.Type, **attrs: Any) -> ir.Type:
        check_kind(cls.name, "float", check_same(cls.name, lhs, rhs))
        return ir.with_element(lhs, ir.i1)

    def evaluate(self, context: Context, lhs: Any, rhs: Any) -> Any:
        kind = self.predicate.name
        unordered = np.isnan(lhs) | np.isnan(rhs)
        if kind in ("FALSE", "TRUE"):
            return np.full_like(unordered, kind == "TRUE")
        if kind in ("ORD", "UNO"):
            return unordered if kind == "UNO" else ~unordered
        compared = _COMPARE[kind[1:]](lhs, rhs)
        return compared | unordered if kind[0] == "U" else compared & ~unordered

    def numpy_function(self) -> Any:
        kind = self.predicate.name  # as NumPy compares with NaN: not equal, else false
        return _COMPARE.get(kind[1:]) if (kind[0] == "U") == (kind[1:] == "NE") else None


class SelectOp(Op):
    """`a` where the condition is true, else `b`. A scalar condition chooses between tiles."""

    name = "arith.select"
    builder_family = "ternary_op condition true_value false_value op"
    exact = "bits"
    elementwise = piecewise = chooses = True
    condition = operand()
    true_value = operand()
    false_value = operand()

    def numpy_function(self) -> Any:
        return np.where

    def forwarded_values(self) -> Iterator[tuple[SSAValue, SSAValue]]:
        yield self.true_value, self.result
        yield self.false_value, self.result

    def interval(self, algebra: Algebra, operands: Sequence[Interval]) -> Interval:
        return intervals.union(algebra, self.results[0].type, *operands[1:])

    @classmethod
    def infer(
        cls, condition: ir.Type, true_value: ir.Type, false_value: ir.Type, **attrs: Any
    ) -> ir.Type:
        check_same(cls.name, true_value, false_value)
        if ir.element_type(condition) != ir.i1:
            raise OpError(f"{cls.name}: condition has type {describe(condition)}; i1 is required")
        if condition != ir.i1:
            check_same_shape(cls.name, condition, true_value)
        return true_value

    def evaluate(self, context: Context, condition: Any, true_value: Any, false_value: Any) -> Any:
        kind: type[Any] = type(true_value)  # pyright: ignore[reportUnknownVariableType]
        if not issubclass(kind, (np.ndarray, np.generic)):  # a descriptor
            return true_value if condition else false_value
        return np.where(condition, true_value, false_value)  # pyright: ignore[reportUnknownVariableType]

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.operands, printer.print_ssa_value)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        if self.condition.type != ir.i1:
            printer.print_attribute(self.condition.type)
            printer.print_string(", ")
        printer.print_attribute(self.result.type)

    @classmethod
    def parse(cls, parser: Parser) -> SelectOp:
        unresolved = [parser.parse_unresolved_operand()]
        for _ in range(2):
            parser.parse_punctuation(",")
            unresolved.append(parser.parse_unresolved_operand())
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        condition: ir.Type = ir.i1
        value = parser.parse_type()
        if parser.parse_optional_punctuation(","):
            condition, value = value, parser.parse_type()
        operands = parser.resolve_operands(unresolved, [condition, value, value], parser.pos)
        return cls.build(*operands, attributes=attributes)

    axis_info = of_operands(facts.select)
