"""The flag attributes of `arith` and `math`: `#arith.fastmath<...>`, `#arith.overflow<...>`."""

from __future__ import annotations

from xdsl.ir import Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer


class FlagSet(Data[tuple[str, ...]]):
    """A set of flags by name; `none` is the empty set."""

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[str, ...]:
        names = parser.parse_comma_separated_list(parser.Delimiter.ANGLE, parser.parse_identifier)
        return tuple(n for n in names if n != "none")

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{', '.join(self.data) or 'none'}>")


@irdl_attr_definition
class FastMathAttr(FlagSet):
    """reassoc, nnan, ninf, nsz, arcp, contract, afn; `fast` is all of them."""

    name = "arith.fastmath"


@irdl_attr_definition
class OverflowAttr(FlagSet):
    """nsw, nuw: the operation is known not to wrap as a signed (unsigned) number."""

    name = "arith.overflow"
