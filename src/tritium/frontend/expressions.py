"""Expressions, and calls in them."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from xdsl.ir import Block, Region

from tritium import language as tl
from tritium.frontend.builder import IRBuilder
from tritium.frontend.python_calls import call_python
from tritium.frontend.targets import bind, stored
from tritium.frontend.values import (
    carriable,
    contains,
    flatten,
    formatted,
    identical,
    ir_types,
    is_dynamic,
    is_number,
    items_of,
    make_dynamic,
    owner_of,
    same,
    scalar_condition,
    spread,
    unflatten,
    wrap,
)
from tritium.frontend.visitor import Part, Visitor
from tritium.language.builtins.casts import to_tensor
from tritium.language.builtins.operators import both_hold
from tritium.language.jit.function import JITCallable
from tritium.language.values.base import base_value
from tritium.language.values.constexpr import constexpr, unwrap
from tritium.ops.scf import IfOp, YieldOp

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.MatMult: operator.matmul,
}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Invert: operator.invert,
}


class Expressions(Part):
    """Visits expressions; each visit returns a language value or a compile-time object."""

    def visit_Constant(self, node: ast.Constant) -> Any:
        if node.value is Ellipsis:
            raise self.unsupported(node, "`...` has no meaning in a kernel; name each dimension")
        return constexpr(node.value)

    def visit_Name(self, node: ast.Name) -> Any:
        return self.scope.lookup(node.id)

    def visit_Tuple(self, node: ast.Tuple | ast.List) -> Any:
        return tl.tuple(self._elements(node.elts))

    visit_List = visit_Tuple

    def _elements(self, nodes: list[ast.expr]) -> list[Any]:
        values: list[Any] = []
        for item in nodes:
            if isinstance(item, ast.Starred):
                values.extend(self.visit(item))
            else:
                values.append(self.visit(item))
        return values

    def visit_Starred(self, node: ast.Starred) -> list[Any]:
        return spread(self.visit(node.value))

    def visit_ListComp(self, node: ast.ListComp) -> Any:
        if len(node.generators) != 1 or node.generators[0].is_async:
            raise self.unsupported(node, "a list comprehension may have one `for` only")
        generator = node.generators[0]
        saved = dict(self.scope.locals)
        values: list[Any] = []
        iterable = self.visit(generator.iter)
        self.visitor.node = generator.iter
        for item in items_of(iterable):
            bind(self.visitor, generator.target, item)
            if all(self.truth(self.visit(test), test) for test in generator.ifs):
                values.append(self.visit(node.elt))
        self.scope.locals = saved
        return tl.tuple(values)

    def truth(self, value: Any, node: ast.AST) -> bool:
        """The truth of a compile-time condition. An error if it is only known at run time."""
        if is_dynamic(value):
            raise self.error(node, "this condition must be known at compile time")
        return bool(unwrap(value))

    # Operators

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        chain = [node]  # `a + b + c + ...` is nested to the left, as deep as it is long
        while isinstance(chain[-1].left, ast.BinOp):
            chain.append(chain[-1].left)
        result = self.visit(chain[-1].left)
        for inner in reversed(chain):
            self.visitor.node = inner
            right = self.visit(inner.right)
            self.place(inner)
            result = binary(inner.op, result, right)
        return result

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        value = self.visit(node.operand)
        if isinstance(node.op, ast.Not):
            return tl.logical_not(value) if is_dynamic(value) else constexpr(not unwrap(value))
        if isinstance(value, (constexpr, base_value)):
            return wrap(_UNARY[type(node.op)](value))
        return wrap(_UNARY[type(node.op)](unwrap(value)))

    def visit_Compare(self, node: ast.Compare) -> Any:
        values = self._comparisons(node)
        return next(values) if len(node.ops) == 1 else self._combined(values, True, both_hold)

    def _comparisons(self, node: ast.Compare) -> Iterator[Any]:
        """The comparisons of a chain, each made when asked for; `a < b < c` visits `b` once."""
        left = self.visit(node.left)
        for op, operand in zip(node.ops, node.comparators, strict=True):
            right = self.visit(operand)
            if isinstance(op, (ast.Is, ast.IsNot)):
                yield constexpr(identical(left, right) is isinstance(op, ast.Is))
            elif isinstance(op, (ast.In, ast.NotIn)):
                yield constexpr(contains(right, left) is isinstance(op, ast.In))
            else:
                yield wrap(_COMPARE[type(op)](left, right))
            left = right

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        is_and = isinstance(node.op, ast.And)
        values = (self.visit(operand) for operand in node.values)
        return self._combined(values, is_and, tl.logical_and if is_and else tl.logical_or)

    @staticmethod
    def _combined(values: Iterator[Any], is_and: bool, combine: Callable[[Any, Any], Any]) -> Any:
        """`and` or `or` of values, each made when it is asked for: as in Python, none is made
        after one that is known at compile time to decide."""
        last: Any = None
        dynamic: Any = None
        for value in values:
            if not is_dynamic(value):
                if bool(unwrap(value)) != is_and:
                    return wrap(value)
                last = value
                continue
            last = dynamic = value if dynamic is None else combine(dynamic, value)
        return wrap(last) if dynamic is None else dynamic

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        # `a if p else b if q else c` is nested as deep as the chain is long.
        levels: list[tuple[ast.IfExp, Block, tl.tensor, tuple[Block, Block], Any]] = []
        rest: ast.expr = node
        block = self.builder.block
        while isinstance(rest, ast.IfExp):
            with self.builder.inserting_into(block):
                self.visitor.enter(rest)
                condition = self.visit(rest.test)
                if not is_dynamic(condition):
                    rest = rest.body if unwrap(condition) else rest.orelse
                    continue
                condition = run_time_condition(self.visitor, condition, rest.test)
                self._refuse_names(rest.body, rest.orelse)
                blocks = (Block(), Block())
                with self.builder.inserting_into(blocks[0]):
                    value = self.visit(rest.body)
            levels.append((rest, block, condition, blocks, value))
            rest, block = rest.orelse, blocks[1]
        with self.builder.inserting_into(block):
            value = self.visit(rest)
        for level, block, condition, blocks, first in reversed(levels):
            with self.builder.inserting_into(block):
                self.visitor.enter(level)
                value = self._either(level, condition, blocks, [first, value])
        return value

    def _refuse_names(self, *branches: ast.expr) -> None:
        """Raise for `:=` in what is computed on a condition that is only known at run time."""
        for node in (inner for branch in branches for inner in ast.walk(branch)):
            if isinstance(node, ast.NamedExpr):
                raise self.unsupported(
                    node,
                    "`:=` in `... if ... else ...` with a condition that is only known at run time "
                    "is not supported; assign before it, or use an `if` statement",
                )

    def _either(
        self, node: ast.IfExp, condition: tl.tensor, blocks: Sequence[Block], values: list[Any]
    ) -> Any:
        """One of two values, which two blocks leave, by a run-time condition."""
        if same(values[0], values[1]) and not is_number(values[0]):
            # Of calls that return nothing, say.
            emit_if(self.builder, condition, blocks, ([], []))
            return values[0]
        for i, block in enumerate(blocks):
            with self.builder.inserting_into(block):
                known = values[i] if carriable(values[i]) else to_tensor(values[i])
                values[i] = make_dynamic(known)
        if values[0].type != values[1].type:
            raise self.error(
                node,
                "ternary expression with dynamic condition has inconsistent types "
                f"{values[0].type} and {values[1].type}",
            )
        results = emit_if(self.builder, condition, blocks, [[value] for value in values])
        chosen = unflatten([values[0].type], results)[0]
        self.scope.fix_either(values, chosen)
        return chosen

    def visit_NamedExpr(self, node: ast.NamedExpr) -> Any:
        bind(self.visitor, node.target, self.visit(node.value), stored)
        return self.visit(node.target)

    # Access

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        owner = owner_of(self.visit(node.value), node.attr)
        if isinstance(owner, tl.tensor) and node.attr == "T":
            return tl.trans(owner)
        if not hasattr(owner, node.attr):
            kind = f"a {type(owner).__name__}"
            if isinstance(owner, base_value):
                kind = f"a value of type {owner.type}"
            name = getattr(owner, "__name__", None)
            if name is not None and not isinstance(owner, base_value):
                kind = f"`{name}`"
            remedy = f"; {owner.remedy}" if getattr(owner, "remedy", "") else ""
            raise self.error(node, f"{kind} has no attribute '{node.attr}'{remedy}")
        return self.scope.replaced(getattr(owner, node.attr))

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        owner, index = self.visit(node.value), self.visit(node.slice)
        if isinstance(owner, base_value) and not isinstance(owner, constexpr):
            if not hasattr(type(owner), "__getitem__"):
                raise self.error(node, f"{owner!r} cannot be indexed")
            return wrap(owner[index])  # pyright: ignore[reportIndexIssue]
        owner, index = unwrap(owner), unwrap(index)
        if isinstance(owner, JITCallable):
            raise self.error(node, str(owner.no_launch()))
        return wrap(owner[index])

    def visit_Slice(self, node: ast.Slice) -> Any:
        parts = [None if p is None else self.visit(p) for p in (node.lower, node.upper, node.step)]
        return slice(*(unwrap(p) for p in parts))

    def visit_JoinedStr(self, node: ast.JoinedStr) -> Any:
        text = ""
        for part in node.values:
            if isinstance(part, ast.Constant):
                text += str(part.value)
                continue
            assert isinstance(part, ast.FormattedValue)
            value = self.visit(part.value)
            conversion = "" if part.conversion == -1 else chr(part.conversion)
            spec = self.visit(part.format_spec).value if part.format_spec else ""
            try:
                text += formatted(value, conversion, spec)
            except TypeError as error:
                raise self.error(part.value, str(error)) from error
        return constexpr(text)

    def visit_Lambda(self, node: ast.Lambda) -> Any:
        raise self.unsupported(
            node, "lambda is not supported in a kernel; define a function with @triton.jit"
        )

    # Calls

    def visit_Call(self, node: ast.Call) -> Any:
        function = self.visit(node.func)
        if isinstance(function, constexpr):
            function = function.value
        args = self._elements(node.args)
        kwargs = self._keywords(node.keywords)
        self.visitor.enter(node)
        is_kernel = isinstance(function, JITCallable)
        result = function(*args, **kwargs) if is_kernel else call_python(function, args, kwargs)
        self.visitor.called = function
        return result

    def _keywords(self, keywords: Sequence[ast.keyword]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for keyword in keywords:
            if keyword.arg is None:
                raise self.unsupported(
                    keyword.value, "`**kwargs` is not supported in a kernel; name the arguments"
                )
            values[keyword.arg] = self.visit(keyword.value)
        return values


def binary(op: ast.operator, left: Any, right: Any) -> Any:
    """Apply a binary operator to two values, at compile time if both are known."""
    return wrap(_BINARY[type(op)](left, right))


def run_time_condition(visitor: Visitor, value: Any, node: ast.AST) -> tl.tensor:
    """A run-time condition as a scalar i1."""
    try:
        return scalar_condition(value)
    except (TypeError, ValueError) as error:
        raise visitor.error(node, str(error)) from error


def emit_if(
    builder: IRBuilder,
    condition: tl.tensor,
    blocks: Sequence[Block],
    values: Sequence[Sequence[Any]],
) -> tuple[Any, ...]:
    """An `scf.if` of two blocks, which yield these values; returns the handles of its results."""
    for block, yielded in zip(blocks, values, strict=True):
        with builder.inserting_into(block):
            builder.emit(YieldOp, tuple(flatten(yielded)))
    types = ir_types([value.type for value in values[0]])
    regions = [Region(block) for block in blocks]
    return builder.emit(IfOp, condition.handle, result=types, regions=regions)
