"""The `cf` dialect: branches between the blocks of a function."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.ir import Block, SSAValue
from xdsl.traits import IsTerminator
from xdsl.utils.exceptions import VerifyException

from tritium.ir import types as ir
from tritium.ops.base import ControlEdge, Op
from tritium.ops.effects import opaque
from tritium.ops.elementwise import check_condition
from tritium.ops.evaluation import Jump
from tritium.ops.fields import operand, string_attr, variadic
from tritium.ops.memory import Context, EvaluationError
from tritium.ops.scf import parse_values

if TYPE_CHECKING:
    from xdsl.parser import Parser
    from xdsl.printer import Printer


def _check_target(op: Op, target: Block, values: Sequence[SSAValue]) -> None:
    have, want = [v.type for v in values], [a.type for a in target.args]
    if have != want:
        raise VerifyException(
            f"{op.name}: passes ({', '.join(map(str, have))}) to a block that takes "
            f"({', '.join(map(str, want))})"
        )


def _print_target(printer: Printer, target: Block, values: Sequence[SSAValue]) -> None:
    printer.print_block_name(target)
    if values:
        printer.print_string("(")
        printer.print_list(values, printer.print_ssa_value)
        printer.print_string(" : ")
        printer.print_list([v.type for v in values], printer.print_attribute)
        printer.print_string(")")


def _parse_target(parser: Parser) -> tuple[Block, list[SSAValue]]:
    target = parser.parse_successor()
    if not parser.parse_optional_punctuation("("):
        return target, []
    values = parse_values(parser)
    parser.parse_punctuation(")")
    return target, values


class BranchOp(Op, traits=[IsTerminator()]):
    """Go on with another block. `BranchOp.build(values, successors=[block])`."""

    name = "cf.br"
    may_wait = True
    values = variadic()

    @classmethod
    def infer(cls, values: Sequence[ir.Type]) -> tuple[ir.Type, ...]:
        return ()

    def control_edges(self) -> Iterator[ControlEdge]:
        yield ControlEdge(self, self.values, self.successors[0].args)

    def evaluate(self, context: Context, values: tuple[Any, ...]) -> Jump:
        return Jump(self.successors[0], values)

    def verify_structure(self) -> None:
        _check_target(self, self.successors[0], self.values)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        _print_target(printer, self.successors[0], self.values)
        printer.print_op_attributes(self.attributes)

    @classmethod
    def parse(cls, parser: Parser) -> BranchOp:
        target, values = _parse_target(parser)
        attributes = parser.parse_optional_attr_dict()
        return cls.build(values, successors=[target], attributes=attributes)


class CondBranchOp(Op, traits=[IsTerminator()]):
    """Go on with one block or another.

    `CondBranchOp.build(condition, then_values, else_values, successors=[then, else_])`.
    """

    name = "cf.cond_br"
    may_wait = True
    condition = operand()
    then_values = variadic()
    else_values = variadic()

    @classmethod
    def infer(
        cls, condition: ir.Type, then_values: Sequence[ir.Type], else_values: Sequence[ir.Type]
    ) -> None:
        check_condition(cls.name, condition)

    def control_edges(self) -> Iterator[ControlEdge]:
        then, other = self.successors
        yield ControlEdge(self, self.then_values, then.args)
        yield ControlEdge(self, self.else_values, other.args)

    def evaluate(
        self,
        context: Context,
        condition: Any,
        then_values: tuple[Any, ...],
        else_values: tuple[Any, ...],
    ) -> Jump:
        then, other = self.successors
        return Jump(then, then_values) if condition else Jump(other, else_values)

    def verify_structure(self) -> None:
        _check_target(self, self.successors[0], self.then_values)
        _check_target(self, self.successors[1], self.else_values)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.condition)
        for target, values in zip(
            self.successors, (self.then_values, self.else_values), strict=True
        ):
            printer.print_string(", ")
            _print_target(printer, target, values)
        printer.print_op_attributes(self.attributes)

    @classmethod
    def parse(cls, parser: Parser) -> CondBranchOp:
        condition = parser.resolve_operand(parser.parse_unresolved_operand(), ir.i1)
        parser.parse_punctuation(",")
        then, then_values = _parse_target(parser)
        parser.parse_punctuation(",")
        other, else_values = _parse_target(parser)
        attributes = parser.parse_optional_attr_dict()
        successors = [then, other]
        return cls.build(
            condition, then_values, else_values, successors=successors, attributes=attributes
        )


class AssertOp(Op):
    """Abort with `msg` where the condition is false."""

    name = "cf.assert"
    effects = (opaque(),)
    syntax = "$condition, $msg attrs"
    condition = operand()
    msg = string_attr()

    @classmethod
    def infer(cls, condition: ir.Type, *, msg: str) -> None:
        check_condition(cls.name, condition)

    def evaluate(self, context: Context, condition: Any) -> None:
        if not np.all(condition):
            raise EvaluationError(f"assertion failed: {self.msg}")
