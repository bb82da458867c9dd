"""The notation in which ops state their textual form, and its interpreter.

A `syntax` string is made of:

    $x          an operand (a variadic one: separated by commas) or an attribute's value; an
                enumeration is spelled by its keyword, a set of bits by several (`valu|salu`; text
                may have the number), an i32 array as `[1, 0]`
    pairs(x y)  elements of two variadic operands of the same length: `, %x0[%y0], %x1[%y1]`
    [, $x]      present only if the first `$x` in the brackets is present (and not its default)
    flags(x)    a set of flags, absent when empty: `fastmath<nnan, ninf>`
    [type(x)]   the type of the optional operand x, if there is one
    [type(x) -> ]  the first of two types around an arrow, which text may leave out with the arrow
    attrs       the dictionary of all remaining attributes, sorted by name
    type(x)     the type of operand x or (x = `result`, unless an operand is called so) of the only
                result; for a variadic operand or `results` a list
    functional  `(operand types) -> result types`, a single result without parentheses
    pointee(x)  the type of the pointer x without its `!tt.ptr`: `<f32>`; text may have all of it
    'word'      literal text, also without quotes for punctuation: , : -> * ( ) < >
    ~           no space here

Types that are written are parsed; those of operands are checked against the values, those of
results become the result types. Results whose types are not written are inferred.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from xdsl.dialects.builtin import DenseArrayBase, i32
from xdsl.ir import Attribute, ParametrizedAttribute, SSAValue

from tritium.errors import OpError

if TYPE_CHECKING:
    from xdsl.parser import Parser, UnresolvedOperand
    from xdsl.printer import Printer

    from tritium.ops.declared import DeclaredOp
    from tritium.ops.fields import AttrField, OperandField

T = TypeVar("T")


class Part(NamedTuple):
    """One element of a syntax string. `kind` is "literal", "ref", "type", "pointee", "flags",
    "glue", "attrs", "functional", "pairs" or "group"; a group has `parts`, pairs the names of two
    operands, most others a name (or text). `text` is what is printed first: a space, or nothing;
    of a literal all."""

    kind: str
    name: str = ""
    parts: tuple[Any, ...] = ()
    text: str = ""

    def anchor(self) -> str:
        """The operand or attribute that decides whether an optional group is printed: the first
        one."""
        return next(p.name for p in self.parts if p.kind in ("ref", "type"))


_TOKEN = re.compile(
    r"\s*(\$\w+|(?:type|pointee|flags)\(\w+\)|pairs\(\w+ \w+\)|'[^']*'|[A-Za-z_]\w*|->"
    r"|[\[\],:*()<>=~])"
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
    return _spaced(_parts(stream, ""))


def _spaced(parts: Iterable[Part]) -> tuple[Part, ...]:
    """The parts with the spaces between them."""
    glue, found = False, list[Part]()
    for part in parts:
        space = "" if glue else " "
        if part.kind == "literal":
            space = ("" if part.name in _NO_SPACE_BEFORE else space) + part.name
        found.append(part._replace(text=space))
        glue = part.kind == "glue" or (part.kind == "literal" and part.name in _NO_SPACE_AFTER)
    return tuple(found)


_NO_SPACE_BEFORE = frozenset({",", ")", ">", "]"})
_NO_SPACE_AFTER = frozenset({"(", "<", "["})


def _parts(tokens: Iterator[str], end: str) -> Iterator[Part]:
    for token in tokens:
        if token == end:
            return
        if token.startswith("$"):
            yield Part("ref", token[1:])
        elif token.endswith(")") and "(" in token:
            kind, name = token[:-1].split("(")
            yield Part(kind, name)
        elif token in ("attrs", "functional"):
            yield Part(token)
        elif token == "~":
            yield Part("glue")
        elif token == "[":
            yield Part("group", parts=_spaced(_parts(tokens, "]")))
        else:
            yield Part("literal", token.strip("'"))


@cache
def _names(text: str) -> frozenset[str]:
    """The attributes (and operands) that a syntax string names."""

    def walk(parts: Iterable[Part]) -> Iterator[str]:
        for part in parts:
            if part.kind in ("ref", "flags"):
                yield part.name
            yield from walk(part.parts)

    return frozenset(walk(parts_of(text)))


@cache
def _unnamed(cls: type[DeclaredOp]) -> tuple[tuple[str, AttrField[Any]], ...]:
    """The declared attributes that the syntax does not name."""
    named = _names(cls.syntax or "")
    return tuple((name, spec) for name, spec in cls.attr_fields.items() if name not in named)


# Printing


def print_op(op: DeclaredOp, printer: Printer) -> None:
    """Print everything after the op's name in its custom syntax."""
    operands = dict(zip(op.operand_names(), op.operand_groups(), strict=True))
    _print_parts(op, printer, parts_of(op.syntax or ""), operands)


Operands = dict[str, tuple[SSAValue, ...]]
"""An op's operands by their declared names."""


def _present(op: DeclaredOp, name: str, operands: Operands) -> bool:
    spec = op.attr_fields.get(name)
    if spec is not None:
        return name in op.properties and spec.get(op) != spec.default
    return bool(operands[name])


def _print_parts(
    op: DeclaredOp, printer: Printer, parts: tuple[Part, ...], operands: Operands
) -> None:
    for part in parts:
        kind, name, inner, text = part
        if kind == "literal":
            printer.print_string(text)
        elif kind == "group":
            if _present(op, part.anchor(), operands):
                _print_parts(op, printer, inner, operands)
        elif kind == "attrs":
            print_attr_dict(op, printer)
        elif kind == "flags":
            if flags := op.attr_fields[name].get(op):
                printer.print_string(f" {_flags_word(name)}<{', '.join(flags)}>")
        elif kind == "pairs":
            first, second = (operands[n] for n in name.split())
            for value, beside in zip(first, second, strict=True):
                printer.print_string(", ")
                printer.print_ssa_value(value)
                printer.print_string("[")
                printer.print_ssa_value(beside)
                printer.print_string("]")
        elif kind != "glue":
            values = operands.get(name) if kind == "ref" else None
            if text and values != ():
                printer.print_string(text)
            if values is not None:
                _print_each(printer, values, printer.print_ssa_value)
            elif kind == "type":
                _print_each(printer, _types(op, name, operands), printer.print_attribute)
            elif kind == "functional":
                printer.print_function_type(op.operand_types, op.result_types)
            elif kind == "pointee":
                _types(op, name, operands)[0].print_parameters(printer)  # pyright: ignore
            else:
                _print_value(op, name, printer)


def _print_each(printer: Printer, items: Sequence[T], print_one: Callable[[T], object]) -> None:
    if len(items) == 1:  # nearly always
        print_one(items[0])
    else:
        printer.print_list(items, print_one)


def _flags_word(name: str) -> str:
    return name.removesuffix("Flags")


def _types(op: DeclaredOp, name: str, operands: Operands) -> Sequence[Attribute]:
    if name in operands:
        return [value.type for value in operands[name]]
    if name in op.result_names:
        return [op.results[op.result_names.index(name)].type]
    return op.result_types


def _print_value(op: DeclaredOp, name: str, printer: Printer) -> None:
    spec = op.attr_fields[name]
    if spec.words is not None:
        value = spec.get(op)
        named = [word for word, member in spec.words.items() if member == value]
        if spec.joined and not named:
            named = ["|".join(word for word, member in spec.words.items()
                               if member and not member & ~value)]  # fmt: skip
        printer.print_string(named[0])
        return
    if not spec.typed:
        printer.print_string(str(spec.get(op)))
        return
    attribute = op.properties.get(name)
    if attribute is None:
        attribute = spec.encode(spec.default)
    if isinstance(attribute, DenseArrayBase):
        printer.print_string("[" + ", ".join(str(v) for v in attribute.get_values()) + "]")
    else:
        printer.print_attribute(attribute)


def print_attr_dict(op: DeclaredOp, printer: Printer) -> None:
    """Print the attributes that the syntax does not name: declared ones that differ from their
    default, and discardable ones."""
    entries = dict(op.attributes)
    for name, spec in _unnamed(type(op)):
        if name in op.properties and (spec.required or spec.get(op) != spec.default):
            entries[name] = op.properties[name]
    if entries:
        printer.print_string(" ")
        printer.print_attr_dict(dict(sorted(entries.items())))


# Parsing


@dataclass
class _Parsed:
    operands: dict[str, list[UnresolvedOperand]] = field(default_factory=lambda: {})
    attributes: dict[str, Attribute] = field(default_factory=lambda: {})
    types: dict[str, list[Attribute]] = field(default_factory=lambda: {})
    #: A type that was read where another one, which is absent, could have been.
    ahead: Attribute | None = None


def parse_op(cls: type[DeclaredOp], parser: Parser) -> DeclaredOp:
    """Parse what `print_op` prints."""
    start = parser.pos
    found = _Parsed()
    _parse_parts(cls, parser, parts_of(cls.syntax or ""), found)
    attrs: dict[str, Any] = {}
    extra: dict[str, Attribute] = {}
    for name, attribute in cls.read_attributes(found.attributes).items():
        if name in cls.attr_fields:
            attrs[name] = cls.attr_fields[name].decode(attribute)
        else:
            extra[name] = attribute
    operands = [_resolve(field, found, parser) for field in cls.operand_fields]
    result: Any = found.types.get("results")
    if result is not None and len(result) == 1:
        result = result[0]
    if result is None and found.types.get("result"):
        result = found.types["result"][0]
    if result is None and cls.result_names:
        # One type written for all results.
        result = found.types.get(cls.result_names[0])
    try:
        op = cls.build(*operands, result=result, attributes=extra, **attrs)
    except OpError as error:
        parser.raise_error(str(error), start, start)
    _check_results(op, found, parser, start)
    return op


def _check_results(op: DeclaredOp, found: _Parsed, parser: Parser, start: int) -> None:
    """Result types that are both written and inferred are the same."""
    names = op.operand_names()
    for name, written in found.types.items():
        if name in names or name not in ("results", "result", *op.result_names):
            continue
        for given, result in zip(written, op.results, strict=False):
            if given is not result.type and given != result.type:
                parser.raise_error(
                    f"{op.name} gives {result.type}; the text says {given}", start, start
                )


def _resolve(field: OperandField, found: _Parsed, parser: Parser) -> Any:
    """The values of a declared operand. Where the text gives their types, they may be defined
    further below (in a block that comes first in execution)."""
    unresolved, types = found.operands.get(field.name, []), found.types.get(field.name)
    if types is None:
        values = [_lookup(parser, operand) for operand in unresolved]
    else:
        values = list(parser.resolve_operands(unresolved, types, parser.pos))
    if field.kind == "variadic":
        return values
    return values[0] if values else None


def _lookup(parser: Parser, operand: UnresolvedOperand) -> SSAValue:
    name = operand.operand_name
    values = parser.ssa_values.get(name)
    if values is None or operand.index >= len(values):
        parser.raise_error(f"%{name} is not defined before its use", operand.span)
    return values[operand.index]


def _parse_parts(
    cls: type[DeclaredOp], parser: Parser, parts: tuple[Part, ...], found: _Parsed
) -> None:
    for part in parts:
        kind, name = part.kind, part.name
        if kind == "group":
            _parse_group(cls, parser, part, found)
        elif kind == "literal":
            _parse_literal(parser, name, optional=False)
        elif kind == "attrs":
            found.attributes.update(parser.parse_optional_attr_dict())
        elif kind == "flags":
            if parser.parse_optional_keyword(_flags_word(name)) is not None:
                flags = parser.parse_comma_separated_list(
                    parser.Delimiter.ANGLE, parser.parse_identifier
                )
                found.attributes[name] = cls.attr_fields[name].encode(tuple(flags))
        elif kind == "pairs":
            _parse_pairs(parser, *(found.operands.setdefault(n, []) for n in name.split()))
        elif kind == "functional":
            found.types["results"] = list(parser.parse_function_type().outputs)
        elif kind == "pointee":
            found.types[name] = [_parse_short(cls, name, parser, found)]
        elif kind == "type":
            many = name == "results" or (
                name in cls.operand_names() and cls.operand_kind(name) == "variadic"
            )
            types: list[Attribute] = [found.ahead or parser.parse_type()]
            found.ahead = None
            while many and parser.parse_optional_punctuation(","):
                types.append(parser.parse_type())
            found.types[name] = types
        elif kind == "ref" and name in cls.attr_fields:
            found.attributes[name] = _parse_value(cls, name, parser)
        elif kind == "ref":
            _parse_operand(cls, name, parser, found)


def _parse_pairs(
    parser: Parser, first: list[UnresolvedOperand], second: list[UnresolvedOperand]
) -> None:
    while parser.parse_optional_punctuation(","):
        first.append(parser.parse_unresolved_operand())
        parser.parse_punctuation("[")
        second.append(parser.parse_unresolved_operand())
        parser.parse_punctuation("]")


def _parse_group(cls: type[DeclaredOp], parser: Parser, group: Part, found: _Parsed) -> None:
    """A part that may be absent; its first element tells."""
    first = group.parts[0]
    if first.kind == "literal":
        if not _parse_literal(parser, first.name, optional=True):
            return
    elif first.kind == "type" and len(group.parts) == 1:
        if not found.operands.get(first.name):
            return
        found.types[first.name] = [parser.parse_type()]
    elif first.kind == "type":
        found.ahead = parser.parse_type()
        if not _parse_literal(parser, group.parts[1].name, optional=True):
            return
        found.types[first.name], found.ahead = [found.ahead], None
        return
    elif first.name in cls.attr_fields:
        _parse_optional_word(cls, first.name, parser, found)
        return
    elif not _parse_operand(cls, first.name, parser, found, may_be_absent=True):
        return
    _parse_parts(cls, parser, group.parts[1:], found)


def _parse_short(cls: type[DeclaredOp], name: str, parser: Parser, found: _Parsed) -> Attribute:
    """A type whose name may be left out; that of an operand is known, that of a result declared."""
    whole = parser.parse_optional_type()
    if whole is not None:
        return whole
    operands = found.operands.get(name)
    kind = type(_lookup(parser, operands[0]).type) if operands else cls.short_result
    assert kind is not None and issubclass(kind, ParametrizedAttribute), f"{cls.name}.{name}"
    return kind.new(kind.parse_parameters(parser))  # pyright: ignore[reportUnknownVariableType]


def _parse_optional_word(cls: type[DeclaredOp], name: str, parser: Parser, found: _Parsed) -> None:
    """An enumeration's keyword that may be absent."""
    spec = cls.attr_fields[name]
    assert spec.words is not None, f"{cls.name}: only an enumeration may stand alone in brackets"
    for word, member in spec.words.items():
        if parser.parse_optional_keyword(word) is not None:
            found.attributes[name] = spec.encode(_with_joined(cls, name, parser, member))
            return


def _parse_operand(
    cls: type[DeclaredOp], name: str, parser: Parser, found: _Parsed, may_be_absent: bool = False
) -> bool:
    """Parse an operand, or a list of them; returns whether there was one."""
    many = cls.operand_kind(name) == "variadic"
    operands: list[UnresolvedOperand] = []
    if many or may_be_absent:
        first = parser.parse_optional_unresolved_operand()
        if first is not None:
            operands.append(first)
    else:
        operands.append(parser.parse_unresolved_operand())
    while many and operands and parser.parse_optional_punctuation(","):
        operands.append(parser.parse_unresolved_operand())
    found.operands[name] = operands
    return bool(operands)


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


def _parse_word(cls: type[DeclaredOp], name: str, parser: Parser) -> Any:
    words, at = cls.attr_fields[name].words or {}, parser.pos
    word = parser.parse_identifier()
    if word not in words:
        allowed = ", ".join(words)
        parser.raise_error(f"{cls.name}: '{word}' is no value of {name}: {allowed}", at)
    return words[word]


def _with_joined(cls: type[DeclaredOp], name: str, parser: Parser, value: Any) -> Any:
    """The value with those of the words that follow it behind `|`, where words may be joined."""
    while cls.attr_fields[name].joined and parser.parse_optional_punctuation("|"):
        value |= _parse_word(cls, name, parser)
    return value


def _parse_value(cls: type[DeclaredOp], name: str, parser: Parser) -> Attribute:
    spec = cls.attr_fields[name]
    if spec.words is not None:
        number = parser.parse_optional_integer() if spec.joined else None
        value = _parse_word(cls, name, parser) if number is None else number
        return spec.encode(_with_joined(cls, name, parser, value))
    if not spec.typed:
        return spec.encode(parser.parse_integer())
    numbers = parser.parse_optional_comma_separated_list(
        parser.Delimiter.SQUARE, lambda: parser.parse_integer()
    )
    if numbers is not None:
        return DenseArrayBase.from_list(i32, numbers)
    return parser.parse_attribute()
