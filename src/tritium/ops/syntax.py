"""The notation in which ops state their textual form, and its interpreter.

A `syntax` string is made of:

    $x          an operand (a variadic one: separated by commas) or an attribute's value; an
                enumeration is spelled by its keyword, an i32 array as `[1, 0]`
    [, $x]      present only if the first `$x` in the brackets is present (and not its default)
    flags(x)    a set of flags, absent when empty: `fastmath<nnan, ninf>`
    attrs       the dictionary of all remaining attributes, sorted by name
    type(x)     the type of operand x or (x = `result`) of the only result; for a variadic operand
                or `results` a list
    functional  `(operand types) -> result types`, a single result without parentheses
    pointee(x)  the type of the pointer x without its `!tt.ptr`: `<f32>`
    'word'      literal text, also without quotes for punctuation: , : -> * ( ) < >
    ~           no space here

Types that are written are parsed; those of operands are checked against the values, those of
results become the result types. Results whose types are not written are inferred.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

from xdsl.dialects.builtin import DenseArrayBase, i32
from xdsl.ir import Attribute, ParametrizedAttribute, SSAValue

from tritium.errors import OpError

if TYPE_CHECKING:
    from xdsl.parser import Parser
    from xdsl.printer import Printer

    from tritium.ops.base import Op


@dataclass(frozen=True)
class Literal:
    text: str


@dataclass(frozen=True)
class Ref:
    name: str


@dataclass(frozen=True)
class TypeOf:
    name: str
    short: bool = False


@dataclass(frozen=True)
class Flags:
    name: str

    def word(self) -> str:
        return self.name.removesuffix("Flags")


@dataclass(frozen=True)
class Glue:
    pass


@dataclass(frozen=True)
class AttrDict:
    pass


@dataclass(frozen=True)
class Functional:
    pass


@dataclass(frozen=True)
class Group:
    parts: tuple[Part, ...]

    def anchor(self) -> str:
        return next(p.name for p in self.parts if isinstance(p, (Ref, TypeOf)))


Part: TypeAlias = "Literal | Ref | TypeOf | Flags | Glue | AttrDict | Functional | Group"

_TOKEN = re.compile(
    r"\s*(\$\w+|(?:type|pointee|flags)\(\w+\)|'[^']*'|[A-Za-z_]\w*|->|[\[\],:*()<>=~])"
)


@cache
def parts_of(text: str) -> tuple[Part, ...]:
    """The parsed form of a syntax string."""
    tokens: list[str] = []
    position = 0
    while position < len(text.rstrip()):
        match = _TOKEN.match(text, position)
        assert match, f"bad syntax notation at {text[position:]!r}"
        tokens.append(match[1])
        position = match.end()
    stream = iter(tokens)
    return tuple(_parts(stream, ""))


def _parts(tokens: Iterator[str], end: str) -> Iterator[Part]:
    for token in tokens:
        if token == end:
            return
        if token.startswith("$"):
            yield Ref(token[1:])
        elif token.startswith("type("):
            yield TypeOf(token[5:-1])
        elif token.startswith("pointee("):
            yield TypeOf(token[8:-1], short=True)
        elif token == "~":
            yield Glue()
        elif token.startswith("flags("):
            yield Flags(token[6:-1])
        elif token == "attrs":
            yield AttrDict()
        elif token == "functional":
            yield Functional()
        elif token == "[":
            yield Group(tuple(_parts(tokens, "]")))
        else:
            yield Literal(token.strip("'"))


def _names(parts: tuple[Part, ...]) -> Iterator[str]:
    for part in parts:
        if isinstance(part, (Ref, Flags)):
            yield part.name
        elif isinstance(part, Group):
            yield from _names(part.parts)


# Printing


def print_op(op: Op, printer: Printer) -> None:
    """Print everything after the op's name in its custom syntax."""
    _print_parts(op, printer, parts_of(op.syntax or ""))


def _present(op: Op, name: str) -> bool:
    spec = op.attr_fields.get(name)
    if spec is not None:
        return name in op.properties and spec.get(op) != spec.default
    return bool(op.operand_group(name))


_NO_SPACE_BEFORE = frozenset({",", ")", ">", "]"})
_NO_SPACE_AFTER = frozenset({"(", "<", "["})


def _print_parts(op: Op, printer: Printer, parts: tuple[Part, ...], glue: bool = False) -> None:
    for part in parts:
        if isinstance(part, Group):
            if _present(op, part.anchor()):
                _print_parts(op, printer, part.parts)
            continue
        if isinstance(part, Glue):
            glue = True
            continue
        if isinstance(part, AttrDict):
            print_attr_dict(op, printer)
            continue
        if isinstance(part, Functional):
            printer.print_string(" ")
            printer.print_function_type(op.operand_types, op.result_types)
            continue
        if isinstance(part, Flags):
            if flags := op.attr_fields[part.name].get(op):
                printer.print_string(f" {part.word()}<{', '.join(flags)}>")
            continue
        space = not (isinstance(part, Literal) and part.text in _NO_SPACE_BEFORE) and not glue
        glue = isinstance(part, Literal) and part.text in _NO_SPACE_AFTER
        if isinstance(part, Ref) and part.name in op.operand_names():
            group = op.operand_group(part.name)
            values = group if isinstance(group, tuple) else (() if group is None else (group,))
            if values:
                printer.print_string(" " if space else "")
                printer.print_list(values, printer.print_ssa_value)
            continue
        printer.print_string(" " if space else "")
        if isinstance(part, Literal):
            printer.print_string(part.text)
        elif isinstance(part, TypeOf) and part.short:
            _types(op, part.name)[0].print_parameters(printer)  # pyright: ignore
        elif isinstance(part, TypeOf):
            printer.print_list(_types(op, part.name), printer.print_attribute)
        else:
            _print_value(op, part.name, printer)


def _types(op: Op, name: str) -> list[Attribute]:
    if name in ("result", "results"):
        return [r.type for r in op.results]
    if name in op.result_names:
        return [op.results[op.result_names.index(name)].type]
    group = op.operand_group(name)
    return [v.type for v in (group if isinstance(group, tuple) else (group,)) if v is not None]


def _print_value(op: Op, name: str, printer: Printer) -> None:
    spec = op.attr_fields[name]
    if spec.words is not None:
        value = spec.get(op)
        printer.print_string(next(w for w, member in spec.words.items() if member == value))
        return
    attribute = op.properties.get(name)
    if attribute is None:
        attribute = spec.encode(spec.default)
    if isinstance(attribute, DenseArrayBase):
        printer.print_string("[" + ", ".join(str(v) for v in attribute.get_values()) + "]")
    else:
        printer.print_attribute(attribute)


def print_attr_dict(op: Op, printer: Printer) -> None:
    """Print the attributes that the syntax does not name: declared ones that differ from their
    default, and discardable ones."""
    shown = set(_names(parts_of(op.syntax or "")))
    entries = dict(op.attributes)
    for name, spec in op.attr_fields.items():
        if name not in shown and name in op.properties and (
            spec.required or spec.get(op) != spec.default
        ):
            entries[name] = op.properties[name]
    if entries:
        printer.print_string(" ")
        printer.print_attr_dict(dict(sorted(entries.items())))


# Parsing


@dataclass
class _Parsed:
    operands: dict[str, Any] = field(default_factory=dict)
    attributes: dict[str, Attribute] = field(default_factory=dict)
    types: dict[str, list[Attribute]] = field(default_factory=dict)


def parse_op(cls: type[Op], parser: Parser) -> Op:
    """Parse what `print_op` prints."""
    found = _Parsed()
    _parse_parts(cls, parser, parts_of(cls.syntax or ""), found)
    start = parser.pos
    attrs: dict[str, Any] = {}
    extra: dict[str, Attribute] = {}
    for name, attribute in found.attributes.items():
        if name in cls.attr_fields:
            attrs[name] = cls.attr_fields[name].decode(attribute)
        else:
            extra[name] = attribute
    operands = [found.operands.get(f.name) for f in cls.operand_fields]
    for name, types in found.types.items():
        if name in ("result", "results") or name in cls.result_names:
            continue
        group = found.operands.get(name)
        values: list[SSAValue] = list(group) if isinstance(group, list) else [group]
        if [v.type for v in values] != types:
            have = ", ".join(str(v.type) for v in values)
            parser.raise_error(f"{cls.name}: operand '{name}' has type {have}", start)
    result: Any = found.types.get("results")
    if result is not None and len(result) == 1:
        result = result[0]
    if result is None and found.types.get("result"):
        result = found.types["result"][0]
    try:
        return cls.build(*operands, result=result, attributes=extra, **attrs)
    except OpError as error:
        parser.raise_error(str(error), start)


def _parse_parts(
    cls: type[Op], parser: Parser, parts: tuple[Part, ...], found: _Parsed
) -> None:
    for part in parts:
        if isinstance(part, Glue):
            continue
        if isinstance(part, Group):
            first = part.parts[0]
            if isinstance(first, Literal):
                if _parse_literal(parser, first.text, optional=True):
                    _parse_parts(cls, parser, part.parts[1:], found)
            elif isinstance(first, Ref) and first.name in cls.attr_fields:
                _parse_optional_word(cls, first.name, parser, found)
            else:
                assert isinstance(first, Ref)
                if _parse_operand(cls, first.name, parser, found, may_be_absent=True):
                    _parse_parts(cls, parser, part.parts[1:], found)
        elif isinstance(part, Flags):
            if parser.parse_optional_keyword(part.word()) is not None:
                flags = parser.parse_comma_separated_list(
                    parser.Delimiter.ANGLE, parser.parse_identifier
                )
                found.attributes[part.name] = cls.attr_fields[part.name].encode(tuple(flags))
        elif isinstance(part, Literal):
            _parse_literal(parser, part.text, optional=False)
        elif isinstance(part, Functional):
            signature = parser.parse_function_type()
            found.types["results"] = list(signature.outputs)
        elif isinstance(part, AttrDict):
            found.attributes.update(parser.parse_optional_attr_dict())
        elif isinstance(part, TypeOf):
            many = part.name == "results" or (
                part.name in cls.operand_names() and cls.operand_kind(part.name) == "variadic"
            )
            types = [_parse_short(cls, part.name, parser, found) if part.short
                     else parser.parse_type()]  # fmt: skip
            while many and parser.parse_optional_punctuation(","):
                types.append(parser.parse_type())
            found.types[part.name] = types
        elif part.name in cls.attr_fields:
            found.attributes[part.name] = _parse_value(cls, part.name, parser)
        else:
            _parse_operand(cls, part.name, parser, found)


def _parse_short(cls: type[Op], name: str, parser: Parser, found: _Parsed) -> Attribute:
    """A type whose name is left out; that of an operand is known, that of a result declared."""
    operand = found.operands.get(name)
    kind = type(operand.type) if operand is not None else cls.short_result
    assert kind is not None and issubclass(kind, ParametrizedAttribute), f"{cls.name}.{name}"
    parameters = kind.parse_parameters(parser)
    return kind.new(parameters)


def _parse_optional_word(cls: type[Op], name: str, parser: Parser, found: _Parsed) -> None:
    """An enumeration's keyword that may be absent."""
    spec = cls.attr_fields[name]
    assert spec.words is not None, f"{cls.name}: only an enumeration may stand alone in brackets"
    for word, member in spec.words.items():
        if parser.parse_optional_keyword(word) is not None:
            found.attributes[name] = spec.encode(member)
            return


def _parse_operand(
    cls: type[Op], name: str, parser: Parser, found: _Parsed, may_be_absent: bool = False
) -> bool:
    """Parse an operand, or a list of them; whether there was one."""
    if cls.operand_kind(name) != "variadic":
        value = parser.parse_optional_operand() if may_be_absent else parser.parse_operand()
        found.operands[name] = value
        return value is not None
    values: list[SSAValue] = []
    first = parser.parse_optional_operand()
    if first is not None:
        values.append(first)
        while parser.parse_optional_punctuation(","):
            values.append(parser.parse_operand())
    found.operands[name] = values
    return bool(values)


def _parse_literal(parser: Parser, text: str, *, optional: bool) -> bool:
    if text[0].isalpha() or text[0] == "_":
        if optional:
            return parser.parse_optional_keyword(text) is not None
        parser.parse_keyword(text)
        return True
    if optional:
        return parser.parse_optional_punctuation(text) is not None  # pyright: ignore
    if text == "*":
        parser.parse_optional_punctuation("*")  # pyright: ignore
        return True
    parser.parse_punctuation(text)  # pyright: ignore
    return True


def _parse_value(cls: type[Op], name: str, parser: Parser) -> Attribute:
    spec = cls.attr_fields[name]
    if spec.words is not None:
        at = parser.pos
        word = parser.parse_identifier()
        if word not in spec.words:
            allowed = ", ".join(spec.words)
            parser.raise_error(f"{cls.name}: '{word}' is no value of {name}: {allowed}", at)
        return spec.encode(spec.words[word])
    numbers = parser.parse_optional_comma_separated_list(
        parser.Delimiter.SQUARE, lambda: parser.parse_integer()
    )
    if numbers is not None:
        return DenseArrayBase.from_list(i32, numbers)
    return parser.parse_attribute()



