"""The methods by which the reference's builders make ops, as the op classes name them.

`Op.builders` lists the methods of a class, the most general one last: a method's name and those of
its arguments, which are operands, attributes, and

    result, shape, block_shape   the type of the result, its shape, that of a block pointer's tile
    op                           the computation itself, a function of arrays
    True, False                  what every call of the method for this class has there

`ptr@tile` is an operand that is a block pointer: other methods of the class are for pointers then.
A method without arguments takes the operands, then the attributes that have no default. Braces
stand for the name of an attribute's value: `create_icmp{predicate}`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import IntEnum
from functools import cache
from typing import Any, NamedTuple

from tritium.ops.base import REGISTRY, Op
from tritium.ops.dialects import op_classes

_FIELD = re.compile(r"\{(\w+)\}")
_DIALECTS = "arith", "math", "tt", "ub"


class Method(NamedTuple):
    """A method of a builder, and the arguments that it takes."""

    name: str
    arguments: tuple[str, ...]
    of_tiles: bool | None = None
    """True if it is for block pointers alone, False if for others alone."""


class Maker(NamedTuple):
    """A class of ops that a method makes, and the attributes that the method's name gives."""

    cls: type[Op]
    attributes: Mapping[str, Any]
    method: Method
    position: int
    """The method's place among those of the class."""


@cache
def _declared(cls: type[Op]) -> tuple[Method, ...]:
    if cls.builders is None:
        return ()
    own = cls.builders or (f"create_{cls.name.rpartition('.')[2]}",)
    family = (cls.builder_family,) if cls.builder_family else ()
    found = list[Method]()
    for text in (*own, *family):
        name, *arguments = text.split()
        named = _FIELD.findall(name)
        required = (n for n, f in cls.attr_fields.items() if f.required and n not in named)
        taken = tuple(a.removesuffix("@tile") for a in arguments)
        of_tiles = any(a.endswith("@tile") for a in arguments)
        found.append(Method(name, taken or (*cls.operand_names(), *required), of_tiles))
    if not any(method.of_tiles for method in found):
        found = [method._replace(of_tiles=None) for method in found]
    return tuple(found)


def _named(name: str, attributes: Mapping[str, IntEnum]) -> str:
    return _FIELD.sub(lambda found: attributes[found[1]].name, name)


def methods(cls: type[Op], attributes: Mapping[str, IntEnum]) -> Sequence[Method]:
    """The methods that make an op with these attributes, the most general one last."""
    return [m._replace(name=_named(m.name, attributes)) for m in _declared(cls)]


@cache
def makers() -> Mapping[str, Sequence[Maker]]:
    """The classes of the dialects of tile programs that each method makes."""
    for dialect in _DIALECTS:
        op_classes(dialect)
    found = dict[str, list[Maker]]()
    for cls in [c for name, c in REGISTRY.items() if name.partition(".")[0] in _DIALECTS]:
        for position, method in enumerate(_declared(cls)):
            for attributes in _attributes_of(cls, method.name):
                name = _named(method.name, attributes)
                maker = Maker(cls, attributes, method, position)
                found.setdefault(name, []).append(maker)
    return found


def _attributes_of(cls: type[Op], name: str) -> Sequence[Mapping[str, IntEnum]]:
    """The values of the attribute that the name of a method has a place for."""
    field = _FIELD.search(name)
    if field is None:
        return [{}]
    words = cls.attr_fields[field[1]].words or {}
    return [{field[1]: value} for value in dict.fromkeys(words.values())]
