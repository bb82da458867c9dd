"""The sizes of a grid that `tritium.tools.compile` is given: texts of numbers, arguments and
constants with C's + - * / % and parentheses (`//` is `/`)."""

from __future__ import annotations

import ast
from collections.abc import Mapping

OPERATIONS: dict[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "/", ast.Mod: "%",
}  # fmt: skip
_NODES = ast.BinOp, ast.UnaryOp, ast.USub, ast.Name, ast.Load, ast.Constant
_OTHER = "has more than numbers, arguments and + - * / %"


def parsed(text: str, known: Mapping[str, str]) -> ast.expr:
    """The expression of a size, in which only names of `known` occur. Raises `ValueError`."""

    def error(message: str) -> ValueError:
        return ValueError(f"the grid's size {text.strip()!r} {message}")

    try:
        expression = ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        raise error("cannot be read") from None
    for node in ast.walk(expression):
        if isinstance(node, ast.Name) and node.id not in known:
            raise error(f"names {node.id}; the integers that it may name are "
                        f"{', '.join(known) or 'none'}")  # fmt: skip
        if isinstance(node, ast.Constant) and type(node.value) is not int:
            raise error(_OTHER)
        if isinstance(node, ast.BinOp) and OPERATIONS.get(type(node.op), "") in ("/", "%"):
            divisor = ast.unparse(node.right)
            if known.get(divisor, divisor) == "0":
                raise error("divides by 0")
        if not isinstance(node, (*OPERATIONS, *_NODES)):
            raise error(_OTHER)
    return expression


def as_c(text: str, known: Mapping[str, str]) -> str:
    """A size in C, with the values of `known` in place of the names. Raises `ValueError`."""

    def of(node: ast.expr) -> str:
        if isinstance(node, ast.Name):
            return known[node.id]
        if isinstance(node, ast.BinOp):
            return f"({of(node.left)} {OPERATIONS[type(node.op)]} {of(node.right)})"
        return f"(-{of(node.operand)})" if isinstance(node, ast.UnaryOp) else ast.unparse(node)

    return of(parsed(text, known))
