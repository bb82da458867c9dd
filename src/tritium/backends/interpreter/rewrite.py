"""A kernel's Python function compiled once more, with the kernel language's meaning of Python.

Most of a kernel means by itself what it should: operators and calls find tensors. What no class
can define is replaced, statement by statement, on the same lines of the same file:

    x = 0                              x = _k.constant(0)
    if a and not b:                    if (f := _k.test(_k.also(t, _k.negated(b)) if ... )):
        x = 1              ->              x = _k.constant(1)
                                       if f.dynamic: x = f.merged('x', x)

`_k` is a `semantics.Semantics`, which the new function closes over; its globals, its closure and
its defaults are those of the user's. Debuggers see the user's file, lines and variables.
"""

from __future__ import annotations

import ast
import copy
import sys
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from tritium.backends.interpreter.semantics import Semantics
from tritium.frontend.control import assigned_names, contains_return, with_hint
from tritium.frontend.statements import is_constexpr_annotation, is_placeholder
from tritium.frontend.values import TENSOR_ATTRIBUTES
from tritium.frontend.visitor import HINTS
from tritium.language.jit.function import JITCallable

_K = "_tritium"
_INNER = "_tritium_function"


class ASTTransformer(ast.NodeTransformer):
    """The class of which a tool may replace `visit_For`: what it makes of a loop over `range(...)`
    gives the iterable, with a function of ours in place of `range`."""


@dataclass
class Rewritten:
    """The new function, and where its code objects come from."""

    fn: Callable[..., Any]
    function: JITCallable
    line_offset: int
    column_offset: int

    @property
    def def_file_lineno(self) -> int:
        """The line of `def` in its file, from 1."""
        return self.function.first_line


def rewrite(function: JITCallable) -> Rewritten:
    """The function as the interpreter runs it. Raises `ValueError` where there is no source."""
    tree = function.parse()
    definition = tree.body[0]
    assert isinstance(definition, ast.FunctionDef)
    semantics = Semantics(function)
    user: Any = function.fn
    free: tuple[str, ...] = user.__code__.co_freevars
    _Rewriter(semantics, definition).run()
    outer = ast.parse(f"def outer({', '.join([_K, *free])}): pass").body[0]
    assert isinstance(outer, ast.FunctionDef)
    definition.name = _INNER  # its own would hide the global of that name from it
    outer.body = [definition]
    lines = function.first_line - 1
    columns = _indentation(function)
    _place(outer, lines, columns)
    module = ast.Module([outer], [])
    code = _inner_code(compile(module, function.file_name, "exec"))
    code = code.replace(co_name=user.__name__)
    if sys.version_info >= (3, 11):
        code = code.replace(co_qualname=user.__qualname__)
    cells: dict[str, Any] = dict(zip(free, user.__closure__ or (), strict=True))
    cells[_K] = types.CellType(semantics)
    closure = tuple(cells[name] for name in code.co_freevars)
    fn = types.FunctionType(code, user.__globals__, user.__name__, user.__defaults__, closure)
    fn.__kwdefaults__ = user.__kwdefaults__
    fn.__qualname__, fn.__module__ = user.__qualname__, user.__module__
    return Rewritten(fn, function, lines, columns)


_cache: WeakKeyDictionary[JITCallable, tuple[str, Any, Rewritten]] = WeakKeyDictionary()


def rewritten(function: JITCallable) -> Rewritten:
    """The result of `rewrite`, which runs once for each source of the function (and each visitor of
    loops that a tool sets)."""
    known, visitor = _cache.get(function), vars(ASTTransformer).get("visit_For")
    if known is None or known[0] != function.src or known[1] is not visitor:
        known = _cache[function] = (function.src, visitor, rewrite(function))
    return known[2]


def _inner_code(code: types.CodeType) -> types.CodeType:
    """The code of the function inside of the function inside of the module."""
    for wanted in ("outer", _INNER):
        code = next(
            c for c in code.co_consts if isinstance(c, types.CodeType) and c.co_name == wanted
        )
    return code


def _indentation(function: JITCallable) -> int:
    """The indentation of the `def` in its file."""
    raw = function.raw_src
    at = function.first_line - function.starting_line_number
    line = raw[at] if at < len(raw) else ""
    return len(line) - len(line.lstrip())


def _place(tree: ast.AST, lines: int, columns: int) -> None:
    """Give nodes without a place that of the node around them, and move all to the file's lines."""
    nodes: list[tuple[Any, tuple[int, int, int, int]]] = [(tree, (1, 0, 1, 0))]
    while nodes:
        node, place = nodes.pop()
        if "lineno" in node._attributes:
            if hasattr(node, "lineno"):
                place = node.lineno, node.col_offset, node.end_lineno, node.end_col_offset
            node.lineno, node.end_lineno = place[0] + lines, place[2] + lines
            node.col_offset, node.end_col_offset = place[1] + columns, place[3] + columns
        nodes += [(child, place) for child in ast.iter_child_nodes(node)]


class _Exchange(ast.NodeTransformer):
    """Puts one node in the place of another."""

    def __init__(self, old: ast.expr, new: ast.expr):
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> Any:
        return self.new if node is self.old else self.generic_visit(node)


class _Rewriter(ast.NodeTransformer):
    def __init__(self, semantics: Semantics, definition: ast.FunctionDef):
        self.semantics = semantics
        self.lines = semantics.function.first_line - 1
        self.definition = definition
        arguments = definition.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        every += [a for a in (arguments.vararg, arguments.kwarg) if a is not None]
        self.parameters = {a.arg for a in every}
        stores = [
            n for n in ast.walk(definition)
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        ]  # fmt: skip
        imported = {
            (n.asname or n.name).split(".")[0]
            for n in ast.walk(definition) if isinstance(n, ast.alias)
        }  # fmt: skip
        self.locals = self.parameters | imported | {n.id for n in stores}
        self.loops = 0
        self.announced: set[str] = set()
        self.count = 0

    def run(self) -> None:
        """Rewrite the definition in place."""
        node = self.definition
        node.decorator_list, node.returns = [], None
        arguments = node.args
        # The defaults are the user's function's own; only their number matters to Python here.
        for argument in ast.walk(arguments):
            if isinstance(argument, ast.arg):
                argument.annotation = None
        arguments.defaults = []
        arguments.kw_defaults = [None] * len(arguments.kwonlyargs)
        node.body = self._block(node.body)

    # Helpers

    def _k(self, name: str, *args: ast.expr, at: ast.AST) -> ast.expr:
        """`_tritium.name(args)`, at a node's place."""
        function = ast.Attribute(ast.Name(_K, ast.Load()), name, ast.Load())
        return _located(ast.Call(function, list(args), []), at)

    def _block(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        result: list[ast.stmt] = []
        for statement in statements:
            new = self.visit(statement)
            result += new if isinstance(new, list) else [new]
        return result

    def _fresh(self, kind: str) -> str:
        self.count += 1
        return f"_{kind}{self.count}"

    def _refusal(self, node: ast.AST, message: str) -> ast.expr:
        number = len(self.semantics.refusals)
        self.semantics.refusals.append((node, message))
        return self._k("refuse", ast.Constant(number), at=node)

    def _refused(self, node: ast.stmt, message: str) -> ast.stmt:
        return _located(ast.Expr(self._refusal(node, message)), node)

    def visit(self, node: ast.AST) -> Any:
        kind = type(node).__name__
        hint = with_hint(node) if isinstance(node, ast.With) else HINTS.get(kind)
        if hint is not None and kind not in ("Import", "ImportFrom"):
            message = f"unsupported AST node type: {kind}: {hint}"
            if isinstance(node, ast.stmt):
                return self._refused(node, message)
            return self._refusal(node, message)
        return getattr(self, f"visit_{kind}", self.generic_visit)(node)

    # Expressions

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        if node.value is Ellipsis:
            return self._refusal(node, "`...` has no meaning in a kernel; name each dimension")
        return self._k("constant", _located(ast.Constant(node.value), node), at=node)

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if not isinstance(node.ctx, ast.Load) or node.id in self.locals:
            return node
        if self.semantics.reads_itself(node.id):
            return node
        return self._k("look_up", ast.Constant(node.id), at=node)

    def visit_Tuple(self, node: ast.Tuple) -> ast.expr:
        self.generic_visit(node)
        return self._k("sequence", node, at=node) if isinstance(node.ctx, ast.Load) else node

    def visit_List(self, node: ast.List) -> ast.expr:
        return self.visit_Tuple(node)  # pyright: ignore[reportArgumentType]

    def visit_Starred(self, node: ast.Starred) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.ctx, ast.Load):
            node.value = self._k("spread", node.value, at=node.value)
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        node.value = self.visit(node.value)
        index = node.slice
        if isinstance(index, ast.Tuple):  # may hold slices, which are no values of their own
            index.elts = [self.visit(e) for e in index.elts]
        else:
            node.slice = self.visit(index)
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        name, stop = ("both", "is_false") if isinstance(node.op, ast.And) else ("either", "is_true")
        return self._combined([self.visit(value) for value in node.values], name, stop, node)

    def _combined(self, values: Sequence[ast.expr], name: str, stop: str, at: ast.AST) -> ast.expr:
        """Rewritten expressions combined by `_tritium.name`; none is evaluated after one for
        which `_tritium.stop` is true."""
        result = values[0]
        for value in values[1:]:
            kept = self._fresh("v")
            store = _located(ast.NamedExpr(ast.Name(kept, ast.Store()), result), at)
            decided = self._k(stop, store, at=at)
            more = self._k(name, ast.Name(kept, ast.Load()), value, at=at)
            result = _located(ast.IfExp(decided, ast.Name(kept, ast.Load()), more), at)
        return result

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        return self._k("negated", node.operand, at=node) if isinstance(node.op, ast.Not) else node

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        """A chain becomes `and` of its comparisons, whose inner operands are kept in variables."""
        self.generic_visit(node)
        left, values = node.left, list[ast.expr]()
        for op, operand in zip(node.ops, node.comparators, strict=True):
            right = operand
            if operand is not node.comparators[-1]:
                kept = self._fresh("v")
                right = _located(ast.NamedExpr(ast.Name(kept, ast.Store()), operand), operand)
            name = _COMPARISONS.get(type(op).__name__)
            if name is None:
                values.append(_located(ast.Compare(left, [op], [right]), node))
            else:
                values.append(self._k(name, left, right, at=node))
            if isinstance(right, ast.NamedExpr):
                left = _located(ast.Name(right.target.id, ast.Load()), operand)
        return self._combined(values, "chained", "is_false", node)

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        flag = self._fresh("c")
        test = self._k("test", self.visit(node.test), at=node.test)
        node.test = _located(ast.NamedExpr(ast.Name(flag, ast.Store()), test), node.test)
        node.body, node.orelse = self.visit(node.body), self.visit(node.orelse)
        return self._k("chosen", node, ast.Name(flag, ast.Load()), at=node)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        return self._call(node, "callee")

    def _call(self, node: ast.Call, callee: str) -> ast.expr:
        for keyword in node.keywords:
            if keyword.arg is None:
                return self._refusal(
                    keyword.value, "`**kwargs` is not supported in a kernel; name the arguments"
                )
        self.generic_visit(node)
        node.func = self._k(callee, node.func, at=node.func)
        return node

    def visit_ListComp(self, node: ast.ListComp) -> ast.expr:
        if len(node.generators) != 1 or node.generators[0].is_async:
            return self._refusal(node, "a list comprehension may have one `for` only")
        self.generic_visit(node)
        only = node.generators[0]
        # Python takes no `:=`, which rewriting adds, in a comprehension's iterable.
        kept = self._fresh("v")
        items = self._k("items", only.iter, at=only.iter)
        store = _located(ast.NamedExpr(ast.Name(kept, ast.Store()), items), only.iter)
        only.iter = _located(ast.Name(kept, ast.Load()), only.iter)
        only.ifs = [self._k("truth", test, at=test) for test in only.ifs]
        both = ast.Tuple([store, self._k("sequence", node, at=node)], ast.Load())
        return _located(ast.Subscript(both, ast.Constant(1), ast.Load()), node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.expr:
        return self._k("constant", self._text(node), at=node)

    def _text(self, node: ast.JoinedStr) -> ast.JoinedStr:
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                conversion = "" if part.conversion == -1 else chr(part.conversion)
                spec = part.format_spec
                text = self._text(spec) if isinstance(spec, ast.JoinedStr) else ast.Constant("")
                place = part.value
                part.value = self._k(
                    "formatted", self.visit(part.value), ast.Constant(conversion), text, at=place
                )
                part.conversion, part.format_spec = -1, None
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.expr:
        return self._refusal(
            node, "lambda is not supported in a kernel; define a function with @triton.jit"
        )

    # Simple statements

    def visit_Expr(self, node: ast.Expr) -> Any:
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            return node
        if is_placeholder(node):
            return node
        if isinstance(node.value, ast.Call):
            call, name = node.value, ast.unparse(node.value.func)
            new = self._call(call, "callee" if call.args or call.keywords else "effect")
            if new is call:
                call.func = self._k("dropping", call.func, ast.Constant(name), at=call.func)
            node.value = new
            return node
        return self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.ctx, ast.Store):
            node.value = self._k("mutable", node.value, at=node)
        elif node.attr in TENSOR_ATTRIBUTES and isinstance(node.ctx, ast.Load):
            node.value = self._k("owner", node.value, ast.Constant(node.attr), at=node.value)
        return node

    def visit_Assign(self, node: ast.Assign) -> Any:
        for part in (part for target in node.targets for part in ast.walk(target)):
            if isinstance(part, ast.Subscript) and isinstance(part.ctx, ast.Store):
                return self._refused(node, _NO_ITEM)
        value = self.visit(node.value)
        node.targets = [self.visit(target) for target in node.targets]
        announced = [name for name in _stored(node.targets) if name in self.announced]
        if announced:
            self.announced.difference_update(announced)
            return self._declaring(node, value, announced)
        value = self._k("assigned", value, at=node.value)
        if not any(isinstance(t, (ast.Tuple, ast.List)) for t in node.targets):
            node.value = value
            return node
        kept = self._fresh("v")
        result: list[ast.stmt] = [ast.Assign([ast.Name(kept, ast.Store())], value)]
        result += [self._from(kept, target) for target in node.targets]
        return [_located(statement, node) for statement in result]

    def _declaring(self, node: ast.Assign, value: ast.expr, names: Sequence[str]) -> Any:
        """An assignment to names that are declared `tl.constexpr`, and perhaps to others."""
        kept, result = self._fresh("v"), list[ast.stmt]()
        result.append(ast.Assign([ast.Name(kept, ast.Store())], value))
        for target in node.targets:
            result.append(self._from(kept, target))
            for name in _stored([target]):
                how = "weak" if name in names else "assigned"
                stored = self._k(how, ast.Name(name, ast.Load()), at=node)
                result.append(ast.Assign([ast.Name(name, ast.Store())], stored))
        return [_located(statement, node) for statement in result]

    def _from(self, kept: str, target: ast.expr) -> ast.Assign:
        """The assignment of a variable's value to a target."""
        value: ast.expr = ast.Name(kept, ast.Load())
        if isinstance(target, (ast.Tuple, ast.List)):
            value = self._unpack(target, value)
        return ast.Assign([target], value)

    def _unpack(self, target: ast.Tuple | ast.List, value: ast.expr) -> ast.expr:
        """The values for a target of several names; what a starred one takes is a tuple then."""
        star = next((i for i, t in enumerate(target.elts) if isinstance(t, ast.Starred)), None)
        target.elts = [t.value if isinstance(t, ast.Starred) else t for t in target.elts]
        count = ast.Constant(len(target.elts))
        return self._k("unpacked", value, count, ast.Constant(star), at=target)

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        if isinstance(node.target, ast.Subscript):
            return self._refused(node, _NO_ITEM)
        if not isinstance(node.target, ast.Name):
            return self.generic_visit(node)
        name = _located(ast.Name(node.target.id, ast.Load()), node.target)
        computed = _located(ast.BinOp(name, node.op, self.visit(node.value)), node)
        value = self._k("assigned", computed, at=node)
        return _located(ast.Assign([node.target], value), node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        if node.value is None or not isinstance(node.target, ast.Name):
            if isinstance(node.target, ast.Name) and is_constexpr_annotation(node.annotation):
                self.announced.add(node.target.id)
            return self.generic_visit(node)
        value, name = self.visit(node.value), node.target.id
        if is_constexpr_annotation(node.annotation):
            value = self._k("declared", ast.Constant(name), value, at=node)
        else:
            value = self._k("assigned", value, at=node)
        return _located(ast.Assign([node.target], value), node)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> ast.expr:
        self.generic_visit(node)
        how = "weak" if node.target.id in self.announced else "assigned"
        self.announced.discard(node.target.id)
        node.value = self._k(how, node.value, at=node.value)
        return node

    def visit_Assert(self, node: ast.Assert) -> ast.stmt:
        message = ast.Constant("") if node.msg is None else self.visit(node.msg)
        return _located(ast.Expr(self._k("check", self.visit(node.test), message, at=node)), node)

    def visit_Return(self, node: ast.Return) -> ast.stmt:
        if self.loops:
            return self._refused(
                node,
                "Cannot have `return` statements inside `while` or `for` statements in triton; "
                "compute the value in a variable and return it after the loop",
            )
        self.generic_visit(node)
        return node

    # Control flow

    def visit_If(self, node: ast.If) -> Any:
        flag = self._fresh("c")
        test = self._k("test", self.visit(node.test), at=node.test)
        set_flag = _located(ast.Assign([ast.Name(flag, ast.Store())], test), node)
        names = _stored([*node.body, *node.orelse])
        returning = contains_return([node])
        one_sided = set(_stored(node.body)) ^ set(_stored(node.orelse))
        node.body, node.orelse = self._block(node.body), self._block(node.orelse)
        node.test = _located(ast.Name(flag, ast.Load()), node.test)
        if returning:  # what follows is reached on one path only: nothing is merged
            return [set_flag, node]
        before = [self._noted(flag, n, node) for n in names if n in one_sided]
        after = [self._rebound(flag, "merged", n, node) for n in names]
        forgotten = [
            self._forgotten(flag, n, node) for n in names
            if n in one_sided and n not in self.parameters and self._used_outside(n, node)
        ]  # fmt: skip
        dynamic = ast.Attribute(ast.Name(flag, ast.Load()), "dynamic", ast.Load())
        if not names:
            return [set_flag, node]
        merge = _located(ast.If(dynamic, [*after, *forgotten], []), node)
        return [set_flag, *before, node, merge]

    def visit_For(self, node: ast.For) -> Any:
        if node.orelse:
            return self._refused(node, "`else` after a loop is not supported")
        loop = self._fresh("loop")
        told = self._told(node, loop)
        simple = ast.Constant(isinstance(node.target, ast.Name))
        iterator = self._k("loop", self.visit(node.iter), simple, at=node.iter)
        start = _located(ast.Assign([ast.Name(loop, ast.Store())], iterator), node)
        names = assigned_names(node)
        target = node.target.id if isinstance(node.target, ast.Name) else None
        names = [n for n in names if n != target]
        every = _stored(node.body)
        self.loops += 1
        body = self._block(node.body)
        self.loops -= 1
        fresh = self._fresh_turn(loop, [n for n in every if n != target], node)
        kept = [target] if target is not None and self._used_outside(target, node) else []
        following = [self._rebound(loop, "next", n, node) for n in [*names, *kept]]
        node.body = [*fresh, *body, *following]
        node.iter = _located(told, node.iter)
        forgotten = [
            self._forgotten(loop, n, node) for n in every
            if n not in self.parameters and n != target and self._used_outside(n, node)
        ]  # fmt: skip
        forgotten += [self._forgotten(loop, n, node) for n in kept]
        entered = [self._rebound(loop, "entered", n, node) for n in names]
        entered += [self._rebound(loop, "kept", n, node) for n in kept]
        return [start, *entered, node, *forgotten]

    def _told(self, node: ast.For, loop: str) -> ast.expr:
        """The iterable of a `for` whose loop is in a variable, as a tool's visitor has it."""
        source, items = node.iter, ast.Name(loop, ast.Load())
        visitor = vars(ASTTransformer).get("visit_For")
        if visitor is None:
            return items
        if isinstance(source, ast.Call):
            items = ast.Attribute(items, "again", ast.Load())
            source = ast.Call(copy.deepcopy(source.func), [], [])
        line = ast.Pass(lineno=node.lineno + self.lines)
        seen = ast.For(node.target, source, [line], [], lineno=line.lineno, col_offset=0)
        new = visitor(ASTTransformer(), seen).iter
        return _Exchange(source.func if isinstance(source, ast.Call) else source, items).visit(new)

    def visit_While(self, node: ast.While) -> Any:
        if node.orelse:
            return self._refused(node, "`else` after a loop is not supported")
        loop = self._fresh("loop")
        start = ast.Assign([ast.Name(loop, ast.Store())], self._k("repeat", at=node))
        names = assigned_names(node)
        every = _stored(node.body)
        held = ast.Attribute(ast.Name(loop, ast.Load()), "holds", ast.Load())
        node.test = _located(ast.Call(held, [self.visit(node.test)], []), node.test)
        self.loops += 1
        body = self._block(node.body)
        self.loops -= 1
        fresh = self._fresh_turn(loop, every, node)
        node.body = [*fresh, *body, *(self._rebound(loop, "next", n, node) for n in names)]
        forgotten = [
            self._forgotten(loop, n, node) for n in every
            if n not in self.parameters and self._used_outside(n, node)
        ]  # fmt: skip
        entered = [self._rebound(loop, "entered", n, node) for n in names]
        return [_located(start, node), *entered, node, *forgotten]

    # Names around a branch or loop, of which `holder` is the variable that knows about it

    def _rebound(self, holder: str, method: str, name: str, at: ast.stmt) -> ast.stmt:
        """`name = holder.method('name', name)`, if the name has a value."""
        call = self._about(holder, method, name)
        return _if_bound(ast.Assign([ast.Name(name, ast.Store())], call), at)

    def _noted(self, holder: str, name: str, at: ast.stmt) -> ast.stmt:
        return _if_bound(ast.Expr(self._about(holder, "noted", name)), at)

    def _forgotten(self, holder: str, name: str, at: ast.stmt) -> ast.stmt:
        """`if holder.forgets('name'): del name`."""
        method = ast.Attribute(ast.Name(holder, ast.Load()), "forgets", ast.Load())
        test = ast.Call(method, [ast.Constant(name)], [])
        gone = ast.Delete([ast.Name(name, ast.Del())])
        return _if_bound(ast.If(test, [gone], []), at)

    def _fresh_turn(self, loop: str, names: Sequence[str], at: ast.stmt) -> list[ast.stmt]:
        """Names that exist inside the loop only, and that an iteration must not see of the previous
        one."""
        return [self._forgotten(loop, n, at) for n in names if n not in self.parameters]

    @staticmethod
    def _about(holder: str, method: str, name: str) -> ast.expr:
        function = ast.Attribute(ast.Name(holder, ast.Load()), method, ast.Load())
        return ast.Call(function, [ast.Constant(name), ast.Name(name, ast.Load())], [])

    def _used_outside(self, name: str, node: ast.stmt) -> bool:
        """True if the function has the name anywhere but in this statement."""
        inside = {id(n) for n in ast.walk(node)}
        return any(
            isinstance(n, ast.Name) and n.id == name and id(n) not in inside
            for n in ast.walk(self.definition)
        )


_COMPARISONS = {"Is": "same", "IsNot": "different", "In": "inside", "NotIn": "outside"}
_NO_ITEM = (
    "values cannot be changed in place; compute a new one "
    "(`tl.where(index == i, v, x)` replaces one element of a block)"
)


def _located(node: Any, at: ast.AST) -> Any:
    """`node`, and what is below it down to the nodes that have a place, at the place of another
    (its first line: Python takes a call of a method to be where the method's name ends)."""
    place: Any = at
    end = place.end_lineno, place.end_col_offset
    if place.end_lineno != place.lineno:
        end = place.lineno, place.col_offset + 1
    nodes: list[Any] = [node]
    while nodes:
        inner = nodes.pop()
        if "lineno" in inner._attributes:
            if not hasattr(inner, "lineno"):
                inner.lineno, inner.col_offset = place.lineno, place.col_offset
                inner.end_lineno, inner.end_col_offset = end
            elif inner is not node:
                continue
        nodes += ast.iter_child_nodes(inner)
    return node


def _if_bound(statement: ast.stmt, at: ast.AST) -> ast.stmt:
    """The statement, which does nothing where a name in it has no value."""
    handler = ast.ExceptHandler(ast.Name("NameError", ast.Load()), None, [ast.Pass()])
    return _located(ast.Try([statement], [handler], [], []), at)


def _stored(statements: Sequence[ast.AST]) -> list[str]:
    """The names that statements give values to."""
    names = [
        n.id for statement in statements for n in ast.walk(statement)
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    ]  # fmt: skip
    return list(dict.fromkeys(names))
