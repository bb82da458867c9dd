"""Functions, calls and returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FunctionType
from xdsl.ir import Attribute, Block, Region
from xdsl.utils.exceptions import VerifyException

from tritium.errors import OpError
from tritium.ir import types as ir
from tritium.ir.printing import IRPrinter
from tritium.ops.base import Op
from tritium.ops.effects import GLOBAL, opaque, reads, writes
from tritium.ops.fields import AttrField, raw_attr, string_attr, symbol_attr, variadic
from tritium.ops.memory import Context
from tritium.ops.terminators import RegionEnd

if TYPE_CHECKING:
    from xdsl.parser import Parser
    from xdsl.printer import Printer


def _dictionaries(default: Any = ()) -> Any:
    """One dictionary of attributes for each argument (or result)."""
    return AttrField[Sequence[Mapping[str, Attribute]]](
        lambda v: ArrayAttr([DictionaryAttr(dict(d)) for d in v]),
        lambda a: tuple(dict(d.data) for d in a.data),
        default,
    )


class FuncOp(Op):
    """A function. Arguments are the arguments of its first block; each may have attributes
    (`tt.divisibility`). `noinline` is among the op's discardable attributes.

    `FuncOp.build(sym_name=..., function_type=..., sym_visibility="public", regions=[body],
    arg_attrs=[{...}, ...])`.
    """

    name = "tt.func"
    builders = None
    effects = (opaque(),)
    sym_name = string_attr()
    function_type = raw_attr()
    sym_visibility = string_attr("")
    arg_attrs = _dictionaries()
    res_attrs = _dictionaries()

    @classmethod
    def infer(cls, *, function_type: Attribute, **attrs: Any) -> None:
        if not isinstance(function_type, FunctionType):
            raise OpError(f"{cls.name}: function_type is {function_type}; (...) -> (...) required")

    @property
    def body(self) -> Block:
        """The entry block."""
        return self.regions[0].blocks[0]

    @property
    def noinline(self) -> bool:
        """True if calls stay calls."""
        flag: Any = self.attributes.get("noinline")
        return flag is not None and bool(flag.value.data)

    def set_arg_attrs(self, attributes: Sequence[Mapping[str, Attribute]]) -> None:
        """State the attributes of the arguments."""
        self.properties["arg_attrs"] = self.attr_fields["arg_attrs"].encode(attributes)

    def update_type(self) -> None:
        """Make the type that of the body's arguments and of the values that it returns."""
        end = next((op for op in self.walk() if isinstance(op, ReturnOp)), None)
        outputs = self.function_type.outputs if end is None else [v.type for v in end.operands]
        types = [a.type for a in self.body.args], list(outputs)
        self.properties["function_type"] = FunctionType.from_lists(*types)

    def verify_structure(self) -> None:
        inputs = list(self.function_type.inputs)
        found = [a.type for a in self.body.args] if self.regions[0].blocks else inputs
        if found != inputs:
            raise VerifyException(
                f"{self.name} @{self.sym_name}: the entry block's arguments do not match "
                f"{self.function_type}"
            )
        if self.arg_attrs and len(self.arg_attrs) != len(inputs):
            raise VerifyException(f"{self.name} @{self.sym_name}: arg_attrs needs one entry each")

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.sym_visibility} " if self.sym_visibility else " ")
        printer.print_symbol_name(self.sym_name)
        printer.print_string("(")
        attrs: Any = self.arg_attrs or [{}] * len(self.body.args)  # pyright: ignore[reportUnknownVariableType]
        for i, (argument, entries) in enumerate(zip(self.body.args, attrs, strict=True)):
            printer.print_string(", " if i else "")
            printer.print_ssa_value(argument)
            printer.print_string(": ")
            printer.print_attribute(argument.type)
            if entries:
                printer.print_string(" ")
                printer.print_attr_dict(dict(sorted(entries.items())))
            if isinstance(printer, IRPrinter):
                printer.print_argument_location(argument)
        printer.print_string(")")
        self._print_results(printer)
        if self.attributes:
            printer.print_string(" attributes ")
            printer.print_attr_dict(dict(sorted(self.attributes.items())))
        printer.print_string(" ")
        printer.print_region(self.regions[0], print_entry_block_args=False, print_empty_block=False)

    def _print_results(self, printer: Printer) -> None:
        outputs: list[Attribute] = list(self.function_type.outputs)
        if not outputs:
            return
        attrs: Any = self.res_attrs or [{}] * len(outputs)  # pyright: ignore[reportUnknownVariableType]
        printer.print_string(" -> ")
        if len(outputs) == 1 and not attrs[0]:
            printer.print_attribute(outputs[0])
            return
        printer.print_string("(")
        for i, (type, entries) in enumerate(zip(outputs, attrs, strict=True)):
            printer.print_string(", " if i else "")
            printer.print_attribute(type)
            if entries:
                printer.print_string(" ")
                printer.print_attr_dict(dict(sorted(entries.items())))
        printer.print_string(")")

    @classmethod
    def parse(cls, parser: Parser) -> FuncOp:
        visibility = parser.parse_optional_visibility_keyword()
        name = parser.parse_symbol_name().data
        delimiter = parser.Delimiter.PAREN
        inputs = parser.parse_comma_separated_list(delimiter, lambda: _parse_argument(parser))
        outputs: list[_TypeAndAttrs] = []
        if parser.parse_optional_punctuation("->"):
            several = parser.parse_optional_comma_separated_list(
                delimiter, lambda: _parse_output(parser)
            )
            outputs = [(parser.parse_type(), {})] if several is None else several
        extra: dict[str, Attribute] = {}
        if parser.parse_optional_keyword("attributes"):
            extra = parser.parse_optional_attr_dict()
        arguments = [argument for argument, _ in inputs]
        types = [a.type for a in arguments], [t for t, _ in outputs]
        arg_attrs, res_attrs = [d for _, d in inputs], [d for _, d in outputs]
        return cls.build(
            sym_name=name,
            function_type=FunctionType.from_lists(*types),
            sym_visibility=visibility.data if visibility else "",
            regions=[parser.parse_optional_region(arguments) or Region()],
            attributes=extra,
            arg_attrs=arg_attrs if any(arg_attrs) else (),
            res_attrs=res_attrs if any(res_attrs) else (),
        )


_TypeAndAttrs: TypeAlias = "tuple[Attribute, dict[str, Attribute]]"


def _parse_argument(parser: Parser) -> tuple[Any, dict[str, Attribute]]:
    """`%x: type {attributes} loc(...)`."""
    argument = parser.parse_argument()
    attributes = parser.parse_optional_attr_dict()
    argument.location = parser.parse_optional_location()
    return argument, attributes


def _parse_output(parser: Parser) -> _TypeAndAttrs:
    """`type {attributes}`."""
    return parser.parse_type(), parser.parse_optional_attr_dict()


class ReturnOp(RegionEnd):
    """Leave the function with these values."""

    name = "tt.return"
    syntax = "attrs [$values : type(values)]"


class CallOp(Op):
    """Call a function of the module: `CallOp.build(arguments, callee="f", result=[types])`."""

    name = "tt.call"
    builders = None
    effects = (reads(GLOBAL, "arguments"), writes(GLOBAL, "arguments"), opaque())
    arguments = variadic()
    callee = symbol_attr()
    is_call = True

    @classmethod
    def infer(cls, arguments: Sequence[ir.Type], *, callee: str, result: Any) -> Sequence[ir.Type]:
        return (result,) if isinstance(result, Attribute) else tuple(result or ())

    def evaluate(self, context: Context, arguments: tuple[Any, ...]) -> Any:
        values = context.call(self.callee, *arguments)
        return values[0] if len(values) == 1 else values

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.callee)
        printer.print_string("(")
        printer.print_list(self.arguments, printer.print_ssa_value)
        printer.print_string(")")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_function_type(self.operand_types, self.result_types)

    @classmethod
    def parse(cls, parser: Parser) -> CallOp:
        callee = parser.parse_symbol_name().data
        at = parser.pos
        unresolved = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, parser.parse_unresolved_operand
        )
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        function_type = parser.parse_function_type()
        operands = parser.resolve_operands(unresolved, list(function_type.inputs), at)
        outputs = list(function_type.outputs)
        return cls.build(operands, callee=callee, result=outputs, attributes=attributes)
