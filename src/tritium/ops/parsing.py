"""Reading IR text: what this package prints, and the reference's `.ttir` files."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    IndexType,
    IntegerType,
    LocationAttr,
    MemRefType,
    ModuleOp,
    TensorType,
    VectorType,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.parser import AttrParser
from xdsl.parser.generic_parser import ParserState
from xdsl.utils import exceptions as xdsl_errors
from xdsl.utils.lexer import Input, Span
from xdsl.utils.mlir_lexer import MLIRTokenKind

from tritium.errors import TritonError
from tritium.ir.lexer import IRLexer, TokenReader
from tritium.ir.locations import LocationSyntaxError, file_line, name_of, parse_location
from tritium.ops.attributes import DISABLE_LICM
from tritium.ops.base import is_constant
from tritium.ops.declared import DeclaredOp
from tritium.ops.dialects import default_context
from tritium.ops.terminators import is_terminator


class ParseError(TritonError):
    """The text is not valid IR. The message reads "file:line:column: what is wrong" and shows
    the line.

    Attributes:
        filename, line, column: the place, both numbers from 1.
    """

    def __init__(self, message: str, filename: str, line: int, column: int, source: str = ""):
        self.reason, self.filename, self.line, self.column = message, filename, line, column
        self.source = source
        caret = f"\n{source}\n{' ' * (column - 1)}^" if source else ""
        super().__init__(f"{filename}:{line}:{column}: {message}{caret}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.reason, self.filename, self.line, self.column, self.source)


class NotBuiltError(ParseError, NotImplementedError):
    """The text has an op, type or attribute that is not built; the message names it."""


_RENAMED = {"ttg.barrier": "gpu.barrier"}
"""Ops by the names that later releases of the reference give them."""
_LOOP_ALIAS = re.compile(r"^#([\w.$-]+) = (#llvm\.loop_\w+<.*>)[ \t]*$", re.MULTILINE)
_LOOP_ANNOTATION = re.compile(r"llvm\.loop_annotation = (#[\w.$-]+(?:<(?:[^<>]|<[^<>]*>)*>)?)")
_NUMBERS = IntegerType | IndexType | AnyFloat
_PLAIN_TYPE = re.compile(
    r"tensor<(?:\d+x)+(?:\w+|!tt\.ptr<\w+>)>|!tt\.ptr<\w+>|(?:i\d+|b?f\d+)(?![\w$.])", re.ASCII
)
"""Most of the types that a text has."""
_known_types: dict[str, Attribute] = {}
_PLAIN_NUMBER = re.compile(r"-?\d+ : i\d+(?![\w$.])", re.ASCII)
"""Most of the numbers that attributes are."""
_known_numbers: dict[str, Attribute] = {}
_MOST_NUMBERS = 4096
_LOCATION_USE = re.compile(r"loc\(#([\w$.-]+)\)", re.ASCII)
_LOCATION_ALIAS = re.compile(r"^#([\w$.-]+) = loc\((.*)\)[ \t]*$", re.MULTILINE)


def parse_module(text: str, filename: str = "<ir>", here: bool = False) -> ModuleOp:
    """The module that `text` describes. Raises `ParseError`, of which `NotBuiltError` is one kind.

    Location aliases may be defined anywhere in the text, before or after their use. With `here`
    the ops' locations are where they stand in this text, whatever it says. The module is not
    verified.
    """
    definitions = {m[1]: (m[2], m.start()) for m in _LOCATION_ALIAS.finditer(text)}
    # Blanked, not removed: positions in messages must stay those of the file.
    code = _LOCATION_ALIAS.sub(lambda m: " " * len(m[0]), text)
    code = _without_loop_annotations(code)
    if not text.strip():
        raise _located("the text is empty; a module is expected", text, filename, 0)
    try:
        parser = IRParser(code, filename, definitions)
        module = parser.parse_module()
        for op, start in parser.starts:
            if op.next_op is not None and is_terminator(op):
                message = f"{op.name} ends its block; {op.next_op.name} follows it"
                raise _located(message, text, filename, start)
        if here:
            _relocate(parser.starts, text, filename)
        return module
    except xdsl_errors.ParseError as error:
        kind = NotBuiltError if error.msg.endswith("is not registered") else ParseError
        message = error.msg.strip()
        if message == "in block definition":  # xDSL says no more
            message = "an operation or '}' is expected"
        raise _located(message, text, filename, error.span.start, kind) from error
    except (xdsl_errors.VerifyException, ValueError) as error:
        # Raised by the constructors of attributes, which know nothing of the text.
        raise _located(str(error), text, filename, parser.pos) from error  # pyright: ignore


def _without_loop_annotations(code: str) -> str:
    """The text with the annotations of LLVM's loops as attributes of `tt`, in as many characters:
    the reference writes `tl.range(disable_licm=True)` as one."""
    aliases = {m[1]: m[2] for m in _LOOP_ALIAS.finditer(code)}

    def disables_licm(text: str) -> bool:
        for _ in range(2):  # an annotation, and the part of it about LICM, may each be an alias
            text += "".join(aliases.get(n, "") for n in re.findall(r"#([\w.$-]+)", text))
        return re.search(r"licm\b[^<]*<[^>]*\bdisable = true", text) is not None

    def attribute(match: re.Match[str]) -> str:
        name = DISABLE_LICM if disables_licm(match[1]) else "tt.annotated"
        return name.ljust(len(match[0]))

    code = _LOOP_ALIAS.sub(lambda m: " " * len(m[0]), code)
    return _LOOP_ANNOTATION.sub(attribute, code)


def _relocate(starts: Sequence[tuple[Operation, int]], text: str, filename: str) -> None:
    lines = [0, *(match.end() for match in re.finditer("\n", text))]
    for op, start in starts:
        line = bisect_right(lines, start)
        op.location = file_line(filename, line, start - lines[line - 1] + 1)


def _located(
    message: str, text: str, filename: str, position: int, kind: type[ParseError] = ParseError
) -> ParseError:
    before = text[:position]
    line, start = before.count("\n") + 1, before.rfind("\n") + 1
    source = text[start:].split("\n", 1)[0]
    return kind(message.strip(), filename, line, position - start + 1, source)


class IRParser(TokenReader):
    """xDSL's parser with location aliases and with name hints as the reference means them."""

    def __init__(self, text: str, filename: str, definitions: dict[str, tuple[str, int]]):
        super().__init__(default_context(), text, filename)
        self._parser_state = ParserState(IRLexer(Input(text, filename)))
        self._definitions = definitions
        self._aliases: dict[str, LocationAttr] = {}
        self._resolving: list[str] = []
        self.starts: list[tuple[Operation, int]] = []
        """The ops, and where in the text each begins."""

    def _alias(self, name: str) -> LocationAttr:
        """The location that `#name` stands for."""
        known = self._aliases.get(name)
        if known is not None:
            return known
        if name not in self._definitions:
            raise LocationSyntaxError(f"undefined location alias '#{name}'")
        if name in self._resolving:
            raise LocationSyntaxError(f"location alias '#{name}' is defined by itself")
        self._resolving.append(name)
        text, start = self._definitions[name]
        try:
            location = parse_location(text, self._alias)
        except LocationSyntaxError as error:
            self.raise_error(f"#{name}: {error}", start, start)
        self._resolving.pop()
        self._aliases[name] = location
        return location

    def parse_optional_type(self) -> Any:
        token = self._parser_state.current_token
        found = _PLAIN_TYPE.match(token.input.content, token.start)
        if found is None:
            return super().parse_optional_type()
        known = _known_types.get(found[0])
        if known is not None:
            self._resume_from(found.end())
            return known
        type: Any = super().parse_optional_type()
        _known_types[found[0]] = type
        return type

    def parse_optional_attribute(self) -> Attribute | None:
        token = self._parser_state.current_token
        found = _PLAIN_NUMBER.match(token.input.content, token.start)
        if found is None:
            return super().parse_optional_attribute()
        known = _known_numbers.get(found[0])
        if known is not None:
            self._resume_from(found.end())
            return known
        number = super().parse_optional_attribute()
        if number is not None and len(_known_numbers) < _MOST_NUMBERS:
            _known_numbers[found[0]] = number
        return number

    def parse_optional_location(self) -> LocationAttr | None:
        token = self._parser_state.current_token
        found = _LOCATION_USE.match(token.input.content, token.start)
        if found is None:
            return super().parse_optional_location()
        try:
            location = self._alias(found[1])
        except LocationSyntaxError as error:
            self.raise_error(str(error), found.start(1) - 1, found.end(1))
        self._resume_from(found.end())
        return location

    def _parse_dense_literal_type(self) -> Any:
        place = self._current_token.span
        type: Any = self.parse_type()  # xDSL makes a constraint of the classes for each literal
        is_shaped = isinstance(type, TensorType | VectorType | MemRefType)
        if not is_shaped or not isinstance(type.get_element_type(), _NUMBERS):
            self.raise_error("the type of a literal must be a tensor of integers or floats", place)
        if DYNAMIC_INDEX in type.get_shape():
            self.raise_error("the type of a literal must have a static shape", place)
        return type

    def _parse_tensor_literal_element(self) -> AttrParser._TensorLiteralElement:
        is_hexadecimal = self._current_token.text[:2] in ("0x", "0X")
        element = super()._parse_tensor_literal_element()
        if is_hexadecimal:
            return _BitsElement(False, element.value, element.span)
        return element

    def _get_op_by_name(self, name: str) -> type[Operation]:
        try:
            return super()._get_op_by_name(_RENAMED.get(name, name))
        except xdsl_errors.ParseError as error:
            # The parser is behind the name already.
            here = self._current_token.span
            start = here.input.content.rfind(name, 0, here.start)
            self.raise_error(error.msg, start, start)

    def _parse_location(self) -> LocationAttr:
        if self._current_token.kind != MLIRTokenKind.HASH_IDENT:
            return super()._parse_location()
        token = self._consume_token(MLIRTokenKind.HASH_IDENT)
        try:
            return self._alias(token.text[1:])
        except LocationSyntaxError as error:
            self.raise_error(str(error), token.span)

    def _register_ssa_definition(self, name: str, values: Any, span: Span) -> None:
        super()._register_ssa_definition(name, values, span)
        for value in values:
            if value.name_hint is not None and _is_default_name(value):
                value.name_hint = None

    def _parse_own_syntax(self, start: int) -> Operation | None:
        """An operation in its own syntax, with one result or without, as nearly all are: what
        xDSL's parser does, in fewer calls. None, and nothing is read, for others."""
        bound = self._parse_optional_token(MLIRTokenKind.PERCENT_IDENT)
        equals = bound is None or self.parse_optional_punctuation("=") is not None
        name = self._parse_optional_token(MLIRTokenKind.BARE_IDENT) if equals else None
        if name is None:
            self._resume_from(start)
            return None
        kind: Any = self._get_op_by_name(name.text)
        self._parser_state.dialect_stack.append(kind.dialect_name())
        op: Operation = kind.parse(self)
        self._parser_state.dialect_stack.pop()
        location = self.parse_optional_location()
        if location is not None:
            op.location = location
        if bound is not None:
            if len(op.results) != 1:
                message = f"Operation has {len(op.results)} results, but was given 1 to bind."
                self.raise_error(message, bound.span)
            self._register_ssa_definition(bound.text[1:], op.results, bound.span)
        return op

    def parse_operation(self) -> Operation:
        """An operation; the variable in its location, if any, is the first result's name."""
        start = self._parser_state.current_token.start
        op = self._parse_own_syntax(start) or super().parse_operation()
        self.starts.append((op, start))
        if op.attributes and isinstance(op, DeclaredOp):
            # The generic syntax of older texts has an op's own attributes among all others.
            for name in op.attributes.keys() & op.attr_fields.keys() - op.properties.keys():
                op.properties[name] = op.attributes.pop(name)
        if op.results and op.results[0].name_hint is None:
            name = name_of(op.location)
            if name is not None and SSAValue.is_valid_name(name):
                op.results[0].name_hint = name
        return op


class _BitsElement(AttrParser._TensorLiteralElement):  # pyright: ignore[reportPrivateUsage]
    """A hexadecimal element: for floating-point types the bits of the number."""

    def to_type(self, parser: AttrParser, type: Any) -> Any:
        if not isinstance(type, AnyFloat):
            return super().to_type(parser, type)
        assert isinstance(self.value, int)
        raw = self.value.to_bytes(type.compile_time_size, "little")
        return next(iter(type.iter_unpack(raw)))


def _is_default_name(value: SSAValue) -> bool:
    """True if the name in the text is one that the printer makes up (`%cst`, `%c1_i32`)."""
    if not is_constant(value):
        return value.name_hint is not None and re.fullmatch(r"arg\d+", value.name_hint) is not None
    hint = value.name_hint or ""
    return re.fullmatch(r"cst|true|false|c-?\w+_i\d+|c-?\d+", hint) is not None
