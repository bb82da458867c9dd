"""`ttg.warp_specialize`: warps of a thread block that run different code at the same time.

    %r = ttg.warp_specialize(%a, %b) attributes {requestedRegisters = array<i32: 24>}
    default {
      ttg.warp_yield %x : i32
    }
    partition0(%c: i32, %d: i32) num_warps(1) {
      ttg.warp_return
    } : (i32, i32) -> i32

The default region is run by the warps that run the code around the op, and gives the op's results.
Each partition is run by further warps. It sees its captures, as arguments, and constants, but no
other value from outside. What regions tell each other goes through shared memory and mbarriers. The
op ends when all regions have ended.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from xdsl.ir import Attribute, Region, SSAValue
from xdsl.traits import IsTerminator
from xdsl.utils.exceptions import VerifyException

from tritium.errors import OpError
from tritium.ir import types as ir
from tritium.ops.base import ControlEdge, Op, is_constant
from tritium.ops.elementwise import describe
from tritium.ops.evaluation import Return
from tritium.ops.fields import i32_array_attr, variadic
from tritium.ops.memory import Context
from tritium.ops.scf import check_types, only_block, types_of
from tritium.ops.terminators import RegionEnd, terminator
from tritium.ops.ttgir.model import state_of

if TYPE_CHECKING:
    from xdsl.parser import Parser
    from xdsl.printer import Printer

MOST_WARPS = 32
"""Warps of a thread block."""


class WarpYieldOp(RegionEnd):
    """Ends the default region; its operands are the results of the op."""

    name = "ttg.warp_yield"
    syntax = "attrs [$values : type(values)]"
    takes_any_layout = True


class WarpReturnOp(Op, traits=[IsTerminator()]):
    """Ends a partition."""

    name = "ttg.warp_return"
    syntax = "attrs"

    @classmethod
    def infer(cls) -> tuple[ir.Type, ...]:
        return ()

    def evaluate(self, context: Context) -> Return:
        return Return(())


class WarpSpecializeOp(Op):
    """Run a default region and partitions at the same time, each by warps of its own.

    `WarpSpecializeOp.build(captures, regions=[default, *partitions], partitionNumWarps=(1,),
    requestedRegisters=(24,), result=types)`. A partition of four warps or more begins at a warp
    whose number is a multiple of four, as a warp group does. `requestedRegisters`: of each
    partition's threads; what the partitions leave is the default region's.
    """

    name = "ttg.warp_specialize"
    concurrent = True
    recursive_effects = True
    captures = variadic()
    partitionNumWarps = i32_array_attr()
    requestedRegisters = i32_array_attr(())

    @classmethod
    def infer(
        cls, captures: Sequence[ir.Type], *, partitionNumWarps: tuple[int, ...],
        requestedRegisters: tuple[int, ...], result: Any,
    ) -> Sequence[ir.Type]:  # fmt: skip
        for type in captures:
            if ir.shape_of(type):
                raise OpError(
                    f"{cls.name}: captures {describe(type)}; scalars and shared memory can be "
                    "captured, tiles go through shared memory"
                )
        for warps in partitionNumWarps:
            if warps < 1 or warps & (warps - 1):
                raise OpError(f"{cls.name}: a partition of {warps} warps; a power of two is needed")
        if requestedRegisters and len(requestedRegisters) != len(partitionNumWarps):
            raise OpError(
                f"{cls.name}: registers of {len(requestedRegisters)} partitions are given; there "
                f"are {len(partitionNumWarps)}"
            )
        for count in requestedRegisters:
            if count % 8 or not 24 <= count <= 256:
                raise OpError(
                    f"{cls.name}: {count} registers are requested; a multiple of 8 from 24 to 256 "
                    "is required"
                )
        return (result,) if isinstance(result, Attribute) else tuple(result or ())

    @property
    def default(self) -> Region:
        """The region that the warps around the op run."""
        return self.regions[0]

    @property
    def partitions(self) -> Sequence[Region]:
        """The regions that further warps run."""
        return self.regions[1:]

    def isolates(self, region: Region) -> bool:
        return region is not self.default

    def first_warps(self, num_warps: int) -> list[int]:
        """The number of the first warp of each partition in a block whose first `num_warps` warps
        run the default region: groups of four first, so that they are aligned."""
        found, following = [0] * len(self.partitionNumWarps), num_warps
        for index in sorted(range(len(found)), key=lambda i: -self.partitionNumWarps[i]):
            step = min(self.partitionNumWarps[index], 4)
            found[index] = -(-following // step) * step
            following = found[index] + self.partitionNumWarps[index]
        return found

    def control_edges(self) -> Iterator[ControlEdge]:
        for region in self.partitions:
            yield ControlEdge(self, self.captures, region.block.args)
        end = terminator(self.default.block)
        yield ControlEdge(end, end.operands, self.results)

    def evaluate(self, context: Context, captures: tuple[Any, ...]) -> Any:
        results: list[tuple[Any, ...]] = []
        jobs = [lambda: results.append(context.run_region(self.default))]
        for region in self.partitions:
            jobs.append(lambda r=region: context.run_region(r, *captures))  # pyright: ignore
        state_of(context).run_together(jobs)
        return results[0][0] if len(results[0]) == 1 else results[0]

    def verify_structure(self) -> None:
        if len(self.partitions) != len(self.partitionNumWarps):
            raise VerifyException(
                f"{self.name}: warps of {len(self.partitionNumWarps)} partitions are given; there "
                f"are {len(self.partitions)}"
            )
        end = terminator(only_block(self, self.default, WarpYieldOp))
        check_types(self, "the default region yields", types_of(end.operands),
                    types_of(self.results))  # fmt: skip
        for index, region in enumerate(self.partitions):
            block = only_block(self, region, WarpReturnOp)
            check_types(self, f"partition{index} takes", types_of(block.args),
                        types_of(self.captures))  # fmt: skip
            _check_isolated(self, index, region)

    def print(self, printer: Printer) -> None:
        printer.print_string("(")
        printer.print_list(self.captures, printer.print_ssa_value)
        printer.print_string(")")
        shown = {k: v for k, v in self.properties.items() if k != "partitionNumWarps"}
        if shown := {**shown, **self.attributes}:
            printer.print_string(" attributes")
            printer.print_op_attributes(shown)
        printer.print_string("\ndefault ")
        printer.print_region(self.default, False, False, True)
        for index, region in enumerate(self.partitions):
            printer.print_string(f"\npartition{index}(")
            printer.print_list(region.block.args, printer.print_block_argument)
            printer.print_string(f") num_warps({self.partitionNumWarps[index]}) ")
            printer.print_region(region, False, False, True)
        printer.print_string(" : ")
        printer.print_function_type(types_of(self.captures), types_of(self.results))

    @classmethod
    def parse(cls, parser: Parser) -> WarpSpecializeOp:
        at = parser.pos
        captured = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, parser.parse_unresolved_operand
        )
        given: dict[str, Attribute] = {}
        if parser.parse_optional_keyword("attributes"):
            given = dict(parser.parse_optional_attr_dict())
        parser.parse_keyword("default")
        regions, counts = [parser.parse_region()], list[int]()
        while parser.parse_optional_keyword(f"partition{len(counts)}") is not None:
            arguments = parser.parse_comma_separated_list(
                parser.Delimiter.PAREN, lambda: _parse_argument(parser)
            )
            parser.parse_keyword("num_warps")
            with parser.in_parens():
                counts.append(parser.parse_integer())
            regions.append(parser.parse_region(arguments))
        parser.parse_punctuation(":")
        kind: Any = parser.parse_type()
        operands = parser.resolve_operands(captured, list(kind.inputs.data), at)
        registers: Any = given.pop("requestedRegisters", None)
        return cls.build(
            operands, regions=regions, result=list(kind.outputs.data), attributes=given,
            partitionNumWarps=tuple(counts),
            requestedRegisters=() if registers is None else registers.get_values(),
        )  # fmt: skip


def _parse_argument(parser: Parser) -> Any:
    argument = parser.parse_argument()
    argument.location = parser.parse_optional_location()
    return argument


def _check_isolated(op: WarpSpecializeOp, index: int, region: Region) -> None:
    """A partition must see nothing from outside but its arguments and constants."""
    inside: set[SSAValue] = set()
    for nested in region.walk():
        inside.update(nested.results)
        inside.update(a for r in nested.regions for block in r.blocks for a in block.args)
    inside.update(region.block.args)
    for nested in region.walk():
        for value in nested.operands:
            if value not in inside and not is_constant(value):
                raise VerifyException(
                    f"{op.name}: {nested.name} in partition{index} uses a value from outside of "
                    "the partition, which is no capture"
                )
