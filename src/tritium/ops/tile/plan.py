"""Plans of matrix products, as text.

    #tile.plan<fma rows 6 vectors 4 lanes 16 unroll 1 loop 16 keep [b] room 1048576>
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xdsl.ir import Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

PLAN = "tile.plan"
"""The attribute of a product that holds its plan (`tile-plan-products`)."""

OPERANDS = ("a", "b")
_BLOCK = ("rows", "vectors", "lanes", "unroll")
"""The numbers that each plan states, in the order of the text."""


@dataclass(frozen=True)
class ProductPlan:
    """The choices about one product; of its transpose, B's columns by A's rows, if `transposed`.

    Args:
        method: the instruction, by `dot.plan.Method`'s names.
        rows, vectors: the register block, in rows of A and in vectors of columns of B.
        lanes: accumulators in one vector.
        unroll: steps of k (in cells) in one iteration of the innermost loop.
        prefetch: how many steps of k ahead B is prefetched where it is; 0: not.
        pack: the operands that are first copied to scratch in the form that the kernel reads.
        loop: how many iterations of the loop around the product run with the accumulators in
            registers; 0: its iterations run one by one.
        keep: the operands whose copy the next program on the thread may use. One that is not
            packed is copied from the second program with it on.
        room: bytes of the second cache; such a copy may take four times as many.
        transposed: whether the transpose is computed.
        used_rows: whether only the rows are computed that the mask of A leaves.
    """

    method: str
    rows: int
    vectors: int
    lanes: int
    unroll: int = 1
    prefetch: int = 0
    pack: tuple[str, ...] = ()
    loop: int = 0
    keep: tuple[str, ...] = ()
    room: int = 0
    transposed: bool = False
    used_rows: bool = False

    def __str__(self) -> str:
        words = [self.method]
        words += (f"{name} {getattr(self, name)}" for name in _BLOCK)
        if self.prefetch:
            words.append(f"prefetch {self.prefetch}")
        if self.pack:
            words.append(f"pack [{', '.join(self.pack)}]")
        if self.loop:
            words.append(f"loop {self.loop}")
        if self.keep:
            words.append(f"keep [{', '.join(self.keep)}] room {self.room}")
        words += (flag for flag in ("transposed", "used_rows") if getattr(self, flag))
        return " ".join(words)


@irdl_attr_definition
class PlanAttr(Data[ProductPlan]):
    """The attribute of a product that holds its plan."""

    name = "tile.plan"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> ProductPlan:
        given: dict[str, Any] = {}
        with parser.in_angle_brackets():
            given["method"] = parser.parse_identifier()
            for name in _BLOCK:
                parser.parse_keyword(name)
                given[name] = parser.parse_integer(allow_negative=False)
            if parser.parse_optional_keyword("prefetch"):
                given["prefetch"] = parser.parse_integer(allow_negative=False)
            if parser.parse_optional_keyword("pack"):
                given["pack"] = _operands(parser)
            if parser.parse_optional_keyword("loop"):
                given["loop"] = parser.parse_integer(allow_negative=False)
            if parser.parse_optional_keyword("keep"):
                given["keep"] = _operands(parser)
                parser.parse_keyword("room")
                given["room"] = parser.parse_integer(allow_negative=False)
            for flag in ("transposed", "used_rows"):
                given[flag] = parser.parse_optional_keyword(flag) is not None
        return ProductPlan(**given)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(str(self.data))


def _operands(parser: AttrParser) -> tuple[str, ...]:
    """A list of some of the operands."""
    names = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_identifier)
    if not set(names) <= set(OPERANDS) or len(set(names)) < len(names):
        parser.raise_error(f"tile.plan: operands [{', '.join(names)}]; some of a, b are allowed")
    return tuple(names)
