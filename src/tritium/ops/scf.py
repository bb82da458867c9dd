"""The `scf` dialect: structured control flow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import gcd
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
from xdsl.dialects.builtin import IndexType, UnitAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.traits import IsTerminator
from xdsl.utils.exceptions import VerifyException

from tritium.errors import OpError
from tritium.ir import types as ir
from tritium.ops.arith.compare import CmpIPredicate
from tritium.ops.arith.constant import constant_int
from tritium.ops.arith.integer import signed, unsigned
from tritium.ops.axis_info import AxisInfo, unknown
from tritium.ops.base import ControlEdge, Op
from tritium.ops.elementwise import check_condition, check_kind, check_same, describe
from tritium.ops.evaluation import Return
from tritium.ops.fields import operand, unit_attr, variadic
from tritium.ops.memory import Context
from tritium.ops.terminators import RegionEnd, terminator

if TYPE_CHECKING:
    from xdsl.parser import Parser
    from xdsl.printer import Printer


def types_of(values: Sequence[Any]) -> list[Attribute]:
    """The types of some values."""
    return [v.type for v in values]


def check_types(op: Op, what: str, have: Sequence[Attribute], want: Sequence[Attribute]) -> None:
    """Raise `VerifyException` unless two lists of types agree."""
    if list(have) != list(want):
        raise VerifyException(
            f"{op.name}: {what} ({', '.join(map(str, have))}); ({', '.join(map(str, want))}) "
            "is required"
        )


def only_block(op: Op, region: Region, terminator: type[Op]) -> Block:
    """The region's single block, which must end in `terminator`."""
    if len(region.blocks) != 1 or not isinstance(region.block.last_op, terminator):
        raise VerifyException(
            f"{op.name}: a region must be one block that ends in {terminator.name}"
        )
    return region.block


def _print_assignments(printer: Printer, targets: Sequence[Any], values: Sequence[Any]) -> None:
    def one(pair: tuple[Any, Any]) -> None:
        printer.print_ssa_value(pair[0])
        printer.print_string(" = ")
        printer.print_ssa_value(pair[1])

    printer.print_string("(")
    printer.print_list(list(zip(targets, values, strict=True)), one)
    printer.print_string(")")


def _print_types(printer: Printer, types: Sequence[Attribute]) -> None:
    printer.print_string("(")
    printer.print_list(types, printer.print_attribute)
    printer.print_string(")")


def _parse_assignment(parser: Parser) -> tuple[Any, Any]:
    target = parser.parse_argument(expect_type=False)
    parser.parse_punctuation("=")
    return target, parser.parse_unresolved_operand()


def _parse_types(parser: Parser) -> list[Attribute]:
    """`(T, U)` or a single `T`."""
    types = parser.parse_optional_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
    return [parser.parse_type()] if types is None else list(types)


def _with_yield(region: Region) -> Region:
    """Add the `scf.yield` that the text leaves out when it has no operands."""
    if not region.blocks:
        region.add_block(Block())
    if region.block.last_op is None or not isinstance(region.block.last_op, YieldOp):
        region.block.add_op(YieldOp.build([]))
    return region


class YieldOp(RegionEnd):
    """Ends a region of a loop or conditional; its operands go on as the next or final values."""

    name = "scf.yield"
    syntax = "attrs [$values : type(values)]"


class ConditionOp(Op, traits=[IsTerminator()]):
    """Ends the first region of a `while`: whether to go on, and with what values."""

    name = "scf.condition"
    condition = operand()
    values = variadic()

    @classmethod
    def infer(cls, condition: ir.Type, values: Sequence[ir.Type]) -> None:
        check_condition(cls.name, condition)

    def evaluate(self, context: Context, condition: Any, values: tuple[Any, ...]) -> Return:
        return Return((condition, *values))

    def print(self, printer: Printer) -> None:
        printer.print_string("(")
        printer.print_ssa_value(self.condition)
        printer.print_string(")")
        printer.print_op_attributes(self.attributes)
        if self.values:
            printer.print_string(" ")
            printer.print_list(self.values, printer.print_ssa_value)
            printer.print_string(" : ")
            printer.print_list(types_of(self.values), printer.print_attribute)

    @classmethod
    def parse(cls, parser: Parser) -> ConditionOp:
        parser.parse_punctuation("(")
        condition = parser.resolve_operand(parser.parse_unresolved_operand(), ir.i1)
        parser.parse_punctuation(")")
        attributes = parser.parse_optional_attr_dict()
        return cls.build(condition, parse_values(parser), attributes=attributes)


def parse_values(parser: Parser) -> list[Any]:
    """`%a, %b : T, U`, or nothing."""
    unresolved = parser.parse_optional_undelimited_comma_separated_list(
        parser.parse_optional_unresolved_operand, parser.parse_unresolved_operand
    )
    if unresolved is None:
        return []
    parser.parse_punctuation(":")
    types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
    return list(parser.resolve_operands(unresolved, types, parser.pos))


class ForOp(Op):
    """`for i in range(lower, upper, step)`, with values carried from one iteration to the next.

    The region's one block takes (i, *carried) and ends in `scf.yield` of the next carried values;
    the results are the last ones. The step is an unsigned number; bounds are compared as signed
    ones unless `unsignedCmp`. As in Python, the counter never passes the upper bound, so that it
    does not wrap around. `ForOp.build(lower, upper, step, inits, regions=[region])`.
    """

    name = "scf.for"
    is_loop = True
    recursive_effects = True
    lower = operand()
    upper = operand()
    step = operand()
    inits = variadic()
    unsignedCmp = unit_attr()

    @classmethod
    def infer(
        cls, lower: ir.Type, upper: ir.Type, step: ir.Type, inits: Sequence[ir.Type], **attrs: Any
    ) -> Sequence[ir.Type]:
        check_kind(cls.name, "integer", check_same(cls.name, lower, upper, step))
        if ir.shape_of(lower):
            raise OpError(f"{cls.name}: bounds have type {describe(lower)}; scalars are required")
        return tuple(inits)

    @property
    def body(self) -> Block:
        """The block that runs once an iteration."""
        return self.regions[0].block

    @property
    def counting(self) -> tuple[SSAValue, SSAValue, SSAValue, SSAValue]:
        return self.body.args[0], self.lower, self.upper, self.step

    @property
    def less(self) -> CmpIPredicate:
        """The comparison of the counter with the upper bound that holds while the loop goes on."""
        return CmpIPredicate.ULT if self.unsignedCmp else CmpIPredicate.SLT

    @property
    def bounds(self) -> tuple[int | None, int | None, int | None]:
        """Lower and upper bound and step where they are known; the step is an unsigned number."""
        lower, upper, step = map(constant_int, (self.lower, self.upper, self.step))
        size = 1 << ir.bit_width(self.lower.type)
        if self.unsignedCmp:
            lower, upper = (None if v is None else v % size for v in (lower, upper))
        return lower, upper, None if step is None else step % size

    @property
    def trip_count(self) -> int | None:
        """The number of iterations, if the bounds tell."""
        if self.lower is self.upper:
            return 0
        lower, upper, step = self.bounds
        if lower is None or upper is None or not step:
            return None
        return max(0, -((lower - upper) // step))

    @property
    def may_wrap(self) -> bool:
        """True if the last counter and the step may add up to more than their type holds."""
        _, upper, step = self.bounds
        if step == 1:
            return False
        if step is None or upper is None:
            return True
        width = ir.bit_width(self.lower.type)
        return upper + step > 1 << (width if self.unsignedCmp else width - 1)

    def surely_runs(self, region: Region) -> bool:
        return bool(self.trip_count)

    def counter_info(self, of: Callable[[SSAValue], AxisInfo]) -> dict[SSAValue, AxisInfo]:
        lower, step = of(self.lower), of(self.step)
        divisor = gcd(lower.divisibility[0], step.divisibility[0])
        counter = unknown(self.lower.type)._replace(
            divisibility=(divisor,), non_negative=lower.non_negative
        )
        return {self.body.args[0]: counter}

    def control_edges(self) -> Iterator[ControlEdge]:
        end = terminator(self.body)
        for source, values in ((self, self.inits), (end, end.operands)):
            yield ControlEdge(source, values, self.body.args[1:])
            yield ControlEdge(source, values, self.results)

    def evaluate(
        self, context: Context, lower: Any, upper: Any, step: Any, inits: tuple[Any, ...]
    ) -> tuple[Any, ...] | Any:
        dtype, view = lower.dtype, unsigned if self.unsignedCmp else signed
        carried = inits
        for i in range(int(view(lower)), int(view(upper)), int(unsigned(step))):
            counter = np.asarray(i).astype(dtype)[()]
            carried = context.run_region(self.regions[0], counter, *carried)
        return carried[0] if len(carried) == 1 else carried

    def verify_structure(self) -> None:
        body = only_block(self, self.regions[0], YieldOp)
        inits = types_of(self.inits)
        check_types(self, "the body takes", types_of(body.args), [self.lower.type, *inits])
        check_types(self, "the body yields", types_of(terminator(body).operands), inits)

    def print(self, printer: Printer) -> None:
        induction, *carried = self.body.args
        if self.unsignedCmp:
            printer.print_string(" unsigned")
        for word, value in (("", induction), ("=", self.lower), ("to", self.upper),
                            ("step", self.step)):  # fmt: skip
            printer.print_string(f" {word} " if word else " ")
            printer.print_ssa_value(value)
        if carried:
            printer.print_string(" iter_args")
            _print_assignments(printer, carried, self.inits)
            printer.print_string(" -> ")
            _print_types(printer, types_of(carried))
        if not isinstance(induction.type, IndexType):
            printer.print_string("  : ")
            printer.print_attribute(induction.type)
        printer.print_string(" ")
        printer.print_region(self.regions[0], False, False, bool(carried))
        printer.print_op_attributes(self.attributes)

    @classmethod
    def parse(cls, parser: Parser) -> ForOp:
        is_unsigned = parser.parse_optional_keyword("unsigned") is not None
        induction, lower = _parse_assignment(parser)
        parser.parse_keyword("to")
        upper = parser.parse_unresolved_operand()
        parser.parse_keyword("step")
        step = parser.parse_unresolved_operand()
        pairs: list[tuple[Any, Any]] = []
        types: list[Attribute] = []
        at = parser.pos
        if parser.parse_optional_keyword("iter_args"):
            pairs = parser.parse_comma_separated_list(
                parser.Delimiter.PAREN, lambda: _parse_assignment(parser)
            )
            parser.parse_punctuation("->")
            types = _parse_types(parser)
        counter: Attribute = IndexType()
        if parser.parse_optional_punctuation(":"):
            counter = parser.parse_type()
        inits = parser.resolve_operands([p[1] for p in pairs], types, at)
        bounds = [parser.resolve_operand(v, counter) for v in (lower, upper, step)]
        arguments = [induction.resolve(counter)]
        arguments += [p[0].resolve(t) for p, t in zip(pairs, types, strict=True)]
        region = _with_yield(parser.parse_region(arguments))
        attributes = parser.parse_optional_attr_dict()
        op = cls.build(*bounds, inits, regions=[region], attributes=attributes)
        if is_unsigned:
            op.properties["unsignedCmp"] = UnitAttr()
        return op


class IfOp(Op):
    """Run one region or another; each ends in `scf.yield` of the results.

    `IfOp.build(condition, regions=[then, else_], result=[types])`; the second region may be empty
    (have no block) when there are no results.
    """

    name = "scf.if"
    recursive_effects = True
    condition = operand()

    @classmethod
    def infer(cls, condition: ir.Type, *, result: Any) -> Sequence[ir.Type]:
        check_condition(cls.name, condition)
        return (result,) if isinstance(result, Attribute) else tuple(result or ())

    def control_edges(self) -> Iterator[ControlEdge]:
        for region in self.regions:
            if region.blocks:
                end = terminator(region.block)
                yield ControlEdge(end, end.operands, self.results)

    def evaluate(self, context: Context, condition: Any) -> tuple[Any, ...] | Any:
        region = self.regions[0 if condition else 1]
        values = context.run_region(region) if region.blocks else ()
        return values[0] if len(values) == 1 else values

    def verify_structure(self) -> None:
        results = types_of(self.results)
        for region in self.regions:
            if not region.blocks and not results:
                continue
            block = only_block(self, region, YieldOp)
            check_types(self, "a branch yields", types_of(terminator(block).operands), results)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.condition)
        if self.results:
            printer.print_string(" -> ")
            _print_types(printer, types_of(self.results))
        printer.print_string(" ")
        printer.print_region(self.regions[0], False, False, bool(self.results))
        if self.regions[1].blocks:
            printer.print_string(" else ")
            printer.print_region(self.regions[1], False, False, bool(self.results))
        printer.print_op_attributes(self.attributes)

    @classmethod
    def parse(cls, parser: Parser) -> IfOp:
        condition = parser.resolve_operand(parser.parse_unresolved_operand(), ir.i1)
        results = _parse_types(parser) if parser.parse_optional_punctuation("->") else []
        regions = [_with_yield(parser.parse_region())]
        if parser.parse_optional_keyword("else"):
            regions.append(_with_yield(parser.parse_region()))
        else:
            regions.append(Region())
        attributes = parser.parse_optional_attr_dict()
        return cls.build(condition, regions=regions, result=results, attributes=attributes)


class WhileOp(Op):
    """The first region, given the carried values, ends in `scf.condition`: whether to go on, and
    what values to hand to the second region (or to return). The second yields the next carried
    values. `WhileOp.build(inits, regions=[before, after], result=types)`.
    """

    name = "scf.while"
    is_loop = True
    may_wait = True
    recursive_effects = True
    inits = variadic()

    @classmethod
    def infer(cls, inits: Sequence[ir.Type], *, result: Any) -> Sequence[ir.Type]:
        return (result,) if isinstance(result, Attribute) else tuple(result or ())

    def surely_runs(self, region: Region) -> bool:
        return region is self.regions[0]

    def control_edges(self) -> Iterator[ControlEdge]:
        before, after = (region.block for region in self.regions)
        condition, end = terminator(before), terminator(after)
        yield ControlEdge(self, self.inits, before.args)
        yield ControlEdge(end, end.operands, before.args)
        yield ControlEdge(condition, condition.operands[1:], after.args)
        yield ControlEdge(condition, condition.operands[1:], self.results)

    def evaluate(self, context: Context, inits: tuple[Any, ...]) -> tuple[Any, ...] | Any:
        carried = inits
        while True:
            going, *values = context.run_region(self.regions[0], *carried)
            if not going:
                return values[0] if len(values) == 1 else tuple(values)
            carried = context.run_region(self.regions[1], *values)

    def verify_structure(self) -> None:
        before = only_block(self, self.regions[0], ConditionOp)
        after = only_block(self, self.regions[1], YieldOp)
        inits, results = types_of(self.inits), types_of(self.results)
        passed, yielded = terminator(before).operands[1:], terminator(after).operands
        check_types(self, "the first region takes", types_of(before.args), inits)
        check_types(self, "its condition passes", types_of(passed), results)
        check_types(self, "the second region takes", types_of(after.args), results)
        check_types(self, "the second region yields", types_of(yielded), inits)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        if self.inits:
            _print_assignments(printer, self.regions[0].block.args, self.inits)
            printer.print_string(" ")
        printer.print_string(": ")
        _print_types(printer, types_of(self.inits))
        printer.print_string(" -> ")
        results = types_of(self.results)
        if len(results) == 1:
            printer.print_attribute(results[0])
        else:
            _print_types(printer, results)
        printer.print_string(" ")
        printer.print_region(self.regions[0], False, False, True)
        printer.print_string(" do ")
        printer.print_region(self.regions[1], True, False, True)
        if self.attributes:
            printer.print_string(" attributes")
            printer.print_op_attributes(self.attributes)

    @classmethod
    def parse(cls, parser: Parser) -> WhileOp:
        at = parser.pos
        pairs = parser.parse_optional_comma_separated_list(
            parser.Delimiter.PAREN, lambda: _parse_assignment(parser)
        )
        pairs = pairs or []
        parser.parse_punctuation(":")
        types = _parse_types(parser)
        parser.parse_punctuation("->")
        results = _parse_types(parser)
        inits = parser.resolve_operands([p[1] for p in pairs], types, at)
        arguments = [p[0].resolve(t) for p, t in zip(pairs, types, strict=True)]
        before = parser.parse_region(arguments)
        parser.parse_keyword("do")
        after = _with_yield(parser.parse_region())
        attributes: dict[str, Attribute] = {}
        if parser.parse_optional_keyword("attributes"):
            attributes = parser.parse_optional_attr_dict()
        return cls.build(inits, regions=[before, after], result=results, attributes=attributes)


def is_counted(op: Operation | None) -> TypeGuard[ForOp]:
    """True if an op is a counted loop."""
    return isinstance(op, ForOp)


def is_choice(op: Operation | None) -> TypeGuard[IfOp]:
    """True if an op runs one of its two regions, by a condition."""
    return isinstance(op, IfOp)
