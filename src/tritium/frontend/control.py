"""Control flow: `if`, `for`, `while`, `return`, as structured ops.

A `return` inside an `if` is kept structured too: the statements after the `if` are visited inside
the branch (or branches) that reach them, so that each branch computes the function's result.

    if n == 0:                      %r = scf.if %n0 {
        return a          ->          scf.yield %a
    b = f(a)                        } else {
    return b                          %b = ...; scf.yield %b
                                    }
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import BoolAttr, IntegerAttr, UnitAttr, i32
from xdsl.ir import Attribute, Block, Region

from tritium import language as tl
from tritium.frontend.builder import value_name
from tritium.frontend.expressions import emit_if, run_time_condition
from tritium.frontend.scope import SHARED, Undefined
from tritium.frontend.statements import is_constexpr_annotation
from tritium.frontend.targets import bind, named
from tritium.frontend.values import (
    assigned,
    carriable,
    check_loop,
    flatten,
    ir_types,
    is_dynamic,
    is_number,
    make_dynamic,
    mismatch,
    same,
    unflatten,
    wrap,
)
from tritium.frontend.visitor import Part, Visitor
from tritium.language.builtins.casts import to_tensor
from tritium.language.builtins.iterators import common_integer_type
from tritium.language.values.aggregate import is_mutable
from tritium.language.values.base import base_type
from tritium.language.values.constexpr import constexpr, unwrap
from tritium.ops import attributes as names
from tritium.ops.arith import SubIOp
from tritium.ops.base import Op
from tritium.ops.scf import ConditionOp, ForOp, WhileOp, YieldOp
from tritium.ops.ub import PoisonOp

_MAX_COPIES = 64
_NOTHING = constexpr(None)
"""The value of a function that ends without a `return`."""


def is_valued(value: Any) -> bool:
    """True if a path's value is one at run time, or a number."""
    return is_dynamic(value) or is_number(value)


@dataclass
class _Loop:
    """A loop that is being generated: the names that it carries, their values before it, and what
    its end restores."""

    node: ast.For | ast.While
    names: list[str]
    inits: list[Any]
    shared: list[tuple[str, str]]
    fixed: dict[int, Any]
    before: dict[str, Any]

    @property
    def types(self) -> list[Any]:
        """The types of the carried values."""
        return [value.type for value in self.inits]


class ControlFlow(Part):
    """Visits statements that choose what runs next."""

    def __init__(self, visitor: Visitor):
        super().__init__(visitor)
        self.copies = 0
        """The number of times that the rest of the function was generated once more."""
        self.last_return: ast.Return | None = None
        """The `return` that was visited last."""
        self._without_return: set[ast.stmt] = set()
        """Statements that are known to have no `return` inside."""

    def _block(self, statements: Sequence[ast.stmt]) -> None:
        """Visit statements, none of which returns."""
        for statement in statements:
            self.visit(statement)

    def _line(self, node: ast.stmt) -> int:
        """The line of a statement in its file."""
        return self.visitor.function.first_line + node.lineno - 1

    def visit_With(self, node: ast.With) -> None:
        """Context managers that exist while compiling: their enter and exit write ops."""
        hint = with_hint(node)
        if hint is not None:
            raise self.unsupported(node, f"unsupported AST node type: With: {hint}")
        with ExitStack() as managers:
            for item in node.items:
                value = managers.enter_context(unwrap(self.visit(item.context_expr)))
                if item.optional_vars is not None:
                    bind(self.visitor, item.optional_vars, assigned(value))
            self._block(node.body)

    # Functions' bodies and returns

    def tail(self, statements: Sequence[ast.stmt]) -> Any:
        """Visit statements to the end of the function; returns the function's value."""
        for index, statement in enumerate(statements):
            if isinstance(statement, ast.Return):
                return self.returned(statement)
            if isinstance(statement, ast.If) and contains_return([statement]):
                return self._tail_if(statement, statements[index + 1 :])
            self.visit(statement)
        return _NOTHING

    def returned(self, node: ast.Return) -> Any:
        """The value of a `return` statement."""
        self.visitor.enter(node)
        value = constexpr(None) if node.value is None else wrap(self.visit(node.value))
        self.last_return = node
        return value

    def visit_Return(self, node: ast.Return) -> None:
        raise self.unsupported(
            node,
            "Cannot have `return` statements inside `while` or `for` statements in triton; "
            "compute the value in a variable and return it after the loop",
        )

    def _tail_if(self, node: ast.If, rest: Sequence[ast.stmt]) -> Any:
        self.visitor.enter(node)
        condition = self.visit(node.test)
        if not is_dynamic(condition):
            chosen = node.body if unwrap(condition) else node.orelse
            return self.tail([*chosen, *rest])
        condition = run_time_condition(self.visitor, condition, node.test)
        if rest and not always_returns(node.body) and not always_returns(node.orelse):
            self.copies += 1
            if self.copies > _MAX_COPIES:
                raise self.unsupported(
                    node,
                    f"more than {_MAX_COPIES} nested conditional returns; what follows each of "
                    "them is generated twice. Set a variable and return once, at the end",
                )
        blocks, _, values = self._branches(node, lambda branch: self.tail([*branch, *rest]))
        values = self._unify_returns(values, blocks)
        if values[0] is values[1] is _NOTHING:
            emit_if(self.builder, condition, blocks, [[], []])
            return _NOTHING
        results = emit_if(self.builder, condition, blocks, [[v] for v in values])
        return unflatten([values[0].type], results)[0]

    def _branches(
        self, node: ast.If, visit: Callable[[list[ast.stmt]], Any]
    ) -> tuple[tuple[Block, Block], list[dict[str, Any]], list[Any]]:
        """Visit both branches of an `if`; returns their blocks, the variables at their ends, and
        what `visit` returned."""
        before, blocks = self.scope.locals, (Block(), Block())
        scopes: list[dict[str, Any]] = []
        values: list[Any] = []
        for block, branch in zip(blocks, (node.body, node.orelse), strict=True):
            self.scope.locals = before
            self.scope.locals = self.scope.snapshot()
            with self.builder.inserting_into(block):
                values.append(visit(branch))
            scopes.append(self.scope.locals)
        self.scope.locals = before
        return blocks, scopes, values

    def _make_dynamic(
        self, values: list[Any], likes: Sequence[Any], blocks: Sequence[Block]
    ) -> None:
        """Make the values of both branches dynamic, each at the end of its block."""
        for i, block in enumerate(blocks):
            with self.builder.inserting_into(block):
                values[i] = make_dynamic(values[i], likes[i])

    def _unify_returns(self, values: list[Any], blocks: Sequence[Block]) -> list[Any]:
        """The values of both paths, of one type. A path that ends without a `return` gives an
        undefined value where the other one returns something."""
        ends = [value is _NOTHING for value in values]
        if ends[0] != ends[1] and is_valued(values[ends[0]]):
            with self.builder.inserting_into(blocks[ends[0]]):
                value = values[ends[0]] = make_dynamic(values[ends[0]])
            with self.builder.inserting_into(blocks[ends[1]]):
                values[ends[1]] = self._undefined(value.type)
            return values
        likes = [getattr(v, "type", None) for v in reversed(values)]
        if any(map(is_dynamic, values)) or not same(values[0], values[1]):
            self._make_dynamic(values, likes, blocks)
        if values[0].type != values[1].type:
            raise self.error(
                self.last_return or self.visitor.node,
                f"Return type mismatch: one path returns {values[0].type} "
                f"and another {values[1].type}; all paths must return the same type",
            )
        return values

    # if

    def visit_If(self, node: ast.If) -> None:
        condition = self.visit(node.test)
        if not is_dynamic(condition):
            self._block(node.body if unwrap(condition) else node.orelse)
            return
        if node not in self._without_return:
            for statement in returns([node]):
                self.visit_Return(statement)
        self._without_return.update((*node.body, *node.orelse))
        condition = run_time_condition(self.visitor, condition, node.test)
        blocks, scopes, _ = self._branches(node, self._block)
        names, merged, same_as = self._merge_branches(node, blocks, scopes)
        shared = [self._conflicts(scope, [*names, *same_as], same_as) for scope in scopes]
        results = emit_if(self.builder, condition, blocks, merged)
        values = unflatten([v.type for v in merged[0]], results)
        for name, value in zip(names, values, strict=True):
            self.scope.locals[name] = named(name, value)
        for name, first in same_as.items():
            self.scope.locals[name] = self.scope.locals[first]
        for name, other in [pair for conflicts in shared for pair in conflicts]:
            why = SHARED.format(name, other, f"since the `if` at line {self._line(node)}")
            for one in (name, other):
                self.scope.fix(self.scope.locals.get(one), why)

    def _conflicts(
        self, scope: dict[str, Any], names: Sequence[str], same_as: dict[str, str]
    ) -> list[tuple[str, str]]:
        """The names that an `if` gives new aggregates which they share with another name at the end
        of a branch, and that name, which is not the same in both branches."""
        self.scope.locals, outer = scope, self.scope.locals
        try:
            shared = self.scope.sharing(names)
        finally:
            self.scope.locals = outer
        root = {name: same_as.get(name, name) for name in scope}
        return [(name, other) for name, other in shared if root[name] != root[other]]

    def _merge_branches(
        self, node: ast.If, blocks: Sequence[Block], scopes: list[dict[str, Any]]
    ) -> tuple[list[str], list[list[Any]], dict[str, str]]:
        """The names that the branches leave with different values, and these values; and the names
        that are another one's aggregate in both, with that other name."""
        names: list[str] = []
        first: dict[tuple[int, int], str] = {}
        same_as: dict[str, str] = {}
        merged: list[list[Any]] = [[], []]
        for name in dict.fromkeys([*scopes[0], *scopes[1]]):
            if any(isinstance(s.get(name, Undefined("")), Undefined) for s in scopes):
                self.scope.locals[name] = Undefined(
                    f"only one branch of the `if` at line {self._line(node)} assigns it"
                )
                continue
            pair = [scope[name] for scope in scopes]
            if same(pair[0], pair[1]):
                self.scope.locals[name] = pair[0]
                continue
            if all(is_mutable(v) for v in pair):
                leader = first.setdefault((id(pair[0]), id(pair[1])), name)
                if leader != name:
                    same_as[name] = leader
                    continue
            pair = self._unify(node, name, pair, blocks)
            if pair is None:
                continue
            names.append(name)
            for values, value in zip(merged, pair, strict=True):
                values.append(value)
        return names, merged, same_as

    def _unify(
        self, node: ast.If, name: str, pair: list[Any], blocks: Sequence[Block]
    ) -> list[Any] | None:
        if not all(carriable(v) for v in pair):
            self.scope.locals[name] = Undefined(
                f"the branches of the `if` at line {self._line(node)} give it different "
                "compile-time values"
            )
            return None
        likes = [None if is_number(v) else v.type for v in reversed(pair)]
        self._make_dynamic(pair, likes, blocks)
        if pair[0].type != pair[1].type:
            raise self.error(node, mismatch(name, pair[0].type, pair[1].type))
        return pair

    # Loops

    def _carried(self, node: ast.For | ast.While) -> list[str]:
        """The names that exist before the loop and are assigned in it, made dynamic."""
        names: list[str] = []
        for name in assigned_names(node):
            value = self.scope.locals.get(name)
            if value is None or isinstance(value, Undefined) or not carriable(value):
                continue
            with self.builder.naming(name):
                self.scope.locals[name] = make_dynamic(value)
            names.append(name)
        return names

    def _enter(self, node: ast.For | ast.While, names: list[str]) -> _Loop:
        """Begin a loop that carries some names."""
        shared, fixed = self.scope.sharing(names), self._fix_outside(node)
        before = dict(self.scope.locals)
        return _Loop(node, names, [before[name] for name in names], shared, fixed, before)

    def _leave(self, loop: _Loop, op: Op) -> None:
        """Append a loop; what it carries are its results from now on."""
        self.builder.insert(op)
        self._after_loop(loop.node, loop.before)
        self.scope.fixed = loop.fixed
        self._rebind(loop, op.results)

    def _rebind(self, loop: _Loop, handles: Sequence[Any]) -> None:
        """Have the carried names stand for these handles."""
        for name, value in zip(loop.names, unflatten(loop.types, handles), strict=True):
            self.scope.locals[name] = named(name, value)
        for name, other in loop.shared:
            why = SHARED.format(name, other, "before the loop")
            for one in (name, other):
                self.scope.fix(self.scope.locals.get(one), why)

    def _fix_outside(self, node: ast.For | ast.While) -> dict[int, Any]:
        """Have fields of aggregates from outside a loop be assigned only through names that the
        loop carries (which it gives new ones); returns what to go back to after it."""
        before = dict(self.scope.fixed)
        where = f"outside the loop at line {self._line(node)}"
        for name, value in self.scope.locals.items():
            self.scope.fix(value, SHARED.format("this value", name, where))
        return before

    def _iterate(self, loop: _Loop) -> None:
        """Visit the body, and yield what it leaves for the next iteration, the types checked."""
        for statement in loop.node.body:
            self.visit(statement)
        self.builder.emit(YieldOp, tuple(self._next_values(loop)))

    def _next_values(self, loop: _Loop) -> list[Any]:
        """The handles of the carried values as they are now, the types checked."""
        values: list[Any] = []
        for name, type_ in zip(loop.names, loop.types, strict=True):
            value = self.scope.lookup(name)
            if carriable(value):
                value = make_dynamic(value, type_)
            if not type_.carries(getattr(value, "type", None)):
                found = value.type if isinstance(value, tl.tensor) else repr(value)
                raise self.error(
                    loop.node,
                    f"Loop-carried variable {name} has initial type {type_} but is re-assigned "
                    f"to {found} in loop! Please make sure that the type stays consistent.",
                )
            values.append(value)
        return flatten(values)

    def _after_loop(self, node: ast.For | ast.While, before: dict[str, Any]) -> None:
        """Forget the names that only exist inside the loop's body."""
        line = self._line(node)
        inside = self.scope.locals
        self.scope.locals = dict(before)
        for name, value in inside.items():
            if name not in before:
                self.scope.locals[name] = Undefined(f"only the loop at line {line} assigns it")
            elif not same(value, before[name]) and not carriable(before[name]):
                self.scope.locals[name] = Undefined(
                    f"the loop at line {line} changes its compile-time value"
                )

    def visit_While(self, node: ast.While) -> None:
        if node.orelse:
            raise self.unsupported(node, "`else` after a loop is not supported")
        self._name_values_of_test(node)
        loop = self._enter(node, self._carried(node))
        types = ir_types(loop.types)
        test_block, body = Block(arg_types=types), Block(arg_types=types)
        with self.builder.inserting_into(test_block):
            self._rebind(loop, test_block.args)
            test = self.visit(node.test)
            disable_licm = isinstance(test, tl.condition) and bool(unwrap(test.disable_licm))
            test = test.condition if isinstance(test, tl.condition) else test
            if not is_dynamic(test):
                return self._constant_while(node, test, loop.before)
            condition = run_time_condition(self.visitor, test, node.test)
            self.builder.emit(ConditionOp, condition.handle, tuple(self._next_values(loop)))
        with self.builder.inserting_into(body):
            self._rebind(loop, body.args)
            self._iterate(loop)
        op = WhileOp.build(
            flatten(loop.inits),
            result=types,
            regions=[Region(test_block), Region(body)],
            location=self.builder.location,
        )
        if disable_licm:
            op.attributes[names.DISABLE_LICM] = UnitAttr()
        self._leave(loop, op)

    def _name_values_of_test(self, node: ast.While) -> None:
        """Give names that only the test of a `while` assigns, with `:=`, a value before the loop of
        the type that they will have, for the loop to carry; no iteration uses it."""
        names = [n.target.id for n in ast.walk(node.test) if isinstance(n, ast.NamedExpr)]
        known = self.scope.locals
        new = [n for n in names if isinstance(known.get(n, Undefined("")), Undefined)]
        if not new:
            return
        self.scope.locals = self.scope.snapshot()
        with self.builder.inserting_into(Block()):  # only for the types
            runs = is_dynamic(self.visit(node.test))
            found = {name: self.scope.locals.get(name) for name in new}
            found = {n: make_dynamic(v) for n, v in found.items() if runs and carriable(v)}
        self.scope.locals = known
        for name, value in found.items():
            known[name] = self._undefined(value.type)

    def _undefined(self, type_: base_type) -> Any:
        """A value of a type that nothing may use."""
        handles = [self.builder.emit(PoisonOp, result=t)[0] for t in type_.flatten_types()]
        return unflatten([type_], handles)[0]

    def _constant_while(self, node: ast.While, test: Any, before: dict[str, Any]) -> None:
        if unwrap(test):
            raise self.error(node.test, "this condition is always true, and the loop has no end")
        self.scope.locals = before

    def visit_For(self, node: ast.For) -> None:
        if node.orelse:
            raise self.unsupported(node, "`else` after a loop is not supported")
        iterator = self.visit(node.iter)
        self.visitor.node = node.iter
        check_loop(iterator)
        self.visitor.node = node
        if isinstance(iterator, tl.range):
            self._dynamic_for(node, iterator)
            return
        for i in range(*(unwrap(v) for v in (iterator.start, iterator.end, iterator.step))):
            bind(self.visitor, node.target, constexpr(i))
            self._block(node.body)

    def _dynamic_for(self, node: ast.For, iterator: Any) -> None:
        if not isinstance(node.target, ast.Name):
            raise self.error(node.target, "the variable of a loop must be a single name")
        step_value = unwrap(iterator.step)
        backwards = isinstance(step_value, int) and step_value < 0
        if isinstance(step_value, int) and step_value == 0:
            raise self.error(node.iter, "the step of a loop cannot be 0")
        lower, upper, step = self._bounds(node, iterator, backwards)
        names = [n for n in self._carried(node) if n != node.target.id]
        if keeps := self._keeps(node.target.id, lower.type):
            names.append(node.target.id)
        loop = self._enter(node, names)
        body = Block(arg_types=[lower.handle.type, *ir_types(loop.types)])
        with self.builder.inserting_into(body):
            self._rebind(loop, body.args[1:])
            index = body.args[0]
            index.name_hint = value_name(node.target.id)
            if backwards:
                # scf.for counts up from the lower bound; the loop's variable counts down.
                (gone,) = self.builder.emit(SubIOp, index, lower.handle)
                (index,) = self.builder.emit(SubIOp, upper.handle, gone)
            bind(self.visitor, node.target, tl.tensor(index, lower.type))
            self._iterate(loop)
        op = ForOp.build(
            *(v.handle for v in (lower, upper, step)),
            flatten(loop.inits),
            regions=[Region(body)],
            location=self.builder.location,
            unsignedCmp=not lower.dtype.is_int_signed(),
            attributes=loop_attributes(iterator),
        )
        self._leave(loop, op)
        if not keeps:
            ended = Undefined("it is the variable of a loop that has ended")
            self.scope.locals[node.target.id] = ended

    def _keeps(self, name: str, type_: tl.dtype) -> bool:
        """True if a loop's variable, of this type, has a value after the loop: it had one of the
        type before, which is made dynamic here, and stays if there is no iteration."""
        value = self.scope.locals.get(name)
        if value is None or isinstance(value, Undefined) or not carriable(value):
            return False
        value = make_dynamic(value, type_)
        if value.type != type_:
            return False
        self.scope.locals[name] = value
        return True

    def _bounds(
        self, node: ast.For, iterator: Any, backwards: bool
    ) -> tuple[tl.tensor, tl.tensor, tl.tensor]:
        """Lower bound, upper bound and positive step as scalars of one integer type. For a loop
        that counts down these are (end + 1 .. start], as [end, start) shifted by the caller."""
        given = [iterator.start, iterator.end, iterator.step]
        values = [to_tensor(unwrap(v)) for v in given]
        if not all(v.dtype.is_int() and not v.type.is_block() for v in values):
            described = ", ".join(str(v.type) for v in values)
            raise self.error(
                node.iter, f"For loop bounds and step must all be ints, are ({described})"
            )
        common = common_integer_type([v.dtype for v in values])
        if backwards:
            values = [values[1], values[0], to_tensor(-unwrap(iterator.step))]
        lower, upper, step = (v.to(common) for v in values)
        return lower, upper, step


def loop_attributes(iterator: Any) -> dict[str, Attribute]:
    """The attributes of `tl.range` as the IR states them."""
    attributes: dict[str, Attribute] = {}
    for name, value in (
        (names.NUM_STAGES, iterator.num_stages),
        (names.UNROLL_FACTOR, iterator.loop_unroll_factor),
    ):
        if unwrap(value) is not None:
            attributes[name] = IntegerAttr(int(unwrap(value)), i32)
    for name, asked in (
        (names.DISALLOW_ACC_MULTI_BUFFER, iterator.disallow_acc_multi_buffer),
        (names.FLATTEN, iterator.flatten),
        (names.DISABLE_LICM, iterator.disable_licm),
    ):
        if unwrap(asked):
            attributes[name] = UnitAttr()
    if unwrap(iterator.warp_specialize):
        attributes[names.WARP_SPECIALIZE] = BoolAttr.from_bool(True)
    return attributes


def returns(nodes: Sequence[ast.AST]) -> Iterator[ast.Return]:
    """The `return` statements below some nodes."""
    for node in nodes:
        for inner in ast.walk(node):
            if isinstance(inner, ast.Return):
                yield inner


def contains_return(nodes: Sequence[ast.AST]) -> bool:
    """True if any of the statements may return from the function."""
    return next(returns(nodes), None) is not None


def with_hint(node: ast.With) -> str | None:
    """Why a `with` is refused, if it is. Its managers are made in it, as in the reference."""
    if contains_return(node.body):
        return "Cannot have `return` statements inside `with` statements in a kernel"
    if all(isinstance(item.context_expr, ast.Call) for item in node.items):
        return None
    return "`with` has no meaning in a kernel except of calls that give context managers"


def always_returns(statements: Sequence[ast.stmt]) -> bool:
    """True if control never reaches what follows the statements."""
    last = statements[-1] if statements else None
    if isinstance(last, ast.If):
        return always_returns(last.body) and always_returns(last.orelse)
    return isinstance(last, ast.Return)


def assigned_names(loop: ast.For | ast.While) -> list[str]:
    """Names that the loop's body (or a `while`'s test) assigns, in order of appearance. Those
    declared `tl.constexpr` are local to one iteration and left out."""
    names: dict[str, None] = {}
    constant: set[str] = set()

    def collect(node: ast.AST) -> None:
        if (
            isinstance(node, ast.AnnAssign)
            and isinstance(node.target, ast.Name)
            and is_constexpr_annotation(node.annotation)
        ):
            constant.add(node.target.id)
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Store):
                names[node.id] = None
            return
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            root: ast.expr = node.value
            while isinstance(root, (ast.Attribute, ast.Subscript)):
                root = root.value
            if isinstance(root, ast.Name):
                names[root.id] = None
        if not isinstance(node, ast.ListComp):
            for child in ast.iter_child_nodes(node):
                collect(child)

    for statement in [*([loop.test] if isinstance(loop, ast.While) else []), *loop.body]:
        collect(statement)
    return [name for name in names if name not in constant]
