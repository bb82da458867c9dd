"""Targets of assignments: names, tuples of names, fields of aggregates."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from tritium import language as tl
from tritium.frontend.builder import value_name
from tritium.frontend.values import assigned, declared, is_dynamic, unpacked, wrap
from tritium.frontend.visitor import Visitor
from tritium.language.values.aggregate import is_mutable

Keep = Callable[[Visitor, ast.AST, Any], Any]
"""The value that a target is given, of the one that is assigned to it."""


def stored(visitor: Visitor, target: ast.AST, value: object) -> object:
    """The value that an assignment stores: one that is known and declared before
    (`x: tl.constexpr`) as such a constant, other numbers as the scalars that they stand for."""
    announced = visitor.scope.announced
    if isinstance(target, ast.Name) and target.id in announced and not is_dynamic(value):
        announced.discard(target.id)
        return declared(value)
    return assigned(value)


def bind(visitor: Visitor, target: ast.AST, value: Any, keep: Keep | None = None) -> None:
    """Assign a value to a target; `keep` gives the one that is stored, if it is another."""
    if keep is not None and not isinstance(target, (ast.Tuple, ast.List)):
        value = keep(visitor, target, value)
    if isinstance(target, ast.Name):
        visitor.scope.locals[target.id] = named(target.id, wrap(value))
    elif isinstance(target, (ast.Tuple, ast.List)):
        _unpack(visitor, target, value, keep)
    elif isinstance(target, ast.Attribute):
        _set_attribute(visitor, target, value)
    elif isinstance(target, ast.Subscript):
        raise no_item_assignment(visitor, target)
    else:
        raise visitor.unsupported(target, f"cannot assign to {type(target).__name__}")


def named(name: str, value: Any) -> Any:
    """Name the IR values after the variable, where they have no name yet."""
    if isinstance(value, tl.tensor) and value.handle.name_hint is None:
        value.handle.name_hint = value_name(name)
    return value


def no_item_assignment(visitor: Visitor, node: ast.AST) -> Exception:
    """The error for `x[i] = v`."""
    return visitor.unsupported(
        node,
        "values cannot be changed in place; compute a new one "
        "(`tl.where(index == i, v, x)` replaces one element of a block)",
    )


def _set_attribute(visitor: Visitor, target: ast.Attribute, value: Any) -> None:
    owner = visitor.visit(target.value)
    if not is_mutable(owner):
        raise visitor.error(target, "only the fields of an aggregate can be assigned")
    if id(owner) in visitor.scope.fixed:
        raise visitor.error(target, visitor.scope.fixed[id(owner)][1])
    setattr(owner, target.attr, wrap(value))


def _unpack(
    visitor: Visitor, target: ast.Tuple | ast.List, value: object, keep: Keep | None
) -> None:
    names = target.elts
    star = next((i for i, t in enumerate(names) if isinstance(t, ast.Starred)), None)
    try:
        values = unpacked(value, len(names), star)
    except TypeError as error:
        raise visitor.error(target, str(error)) from error
    for name, item in zip(names, values, strict=True):
        bind(visitor, name.value if isinstance(name, ast.Starred) else name, item, keep)
