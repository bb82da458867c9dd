"""Assignments and other simple statements."""

from __future__ import annotations

import ast
from typing import Any

from tritium import language as tl
from tritium.frontend.builder import value_name
from tritium.frontend.expressions import Expressions
from tritium.frontend.values import assigned, declared, is_dynamic, unpacked, wrap
from tritium.language.values.aggregate import is_mutable
from tritium.language.values.constexpr import constexpr, unwrap

HINTS = {
    "With": "`with` has no meaning in a kernel",
    "AsyncWith": "`with` has no meaning in a kernel",
    "Try": "exceptions do not exist on the device; test the condition with `if` or `tl.where`",
    "TryStar": "exceptions do not exist on the device; test the condition with `if` or `tl.where`",
    "Raise": "exceptions do not exist on the device; use `tl.device_assert` or `tl.static_assert`",
    "Import": "import modules outside of the kernel",
    "ImportFrom": "import modules outside of the kernel",
    "FunctionDef": "nested function definition is not supported; define it outside, with @jit",
    "AsyncFunctionDef": "a kernel cannot be asynchronous",
    "ClassDef": "define classes outside of the kernel",
    "Global": "a kernel cannot change global variables; return the value instead",
    "Nonlocal": "a kernel cannot change outer variables; return the value instead",
    "Delete": "`del` has no meaning in a kernel",
    "Match": "`match` is not supported; use `if`/`elif`",
    "Break": "`break` is not supported; use a `while` loop with a condition",
    "Continue": "`continue` is not supported; put the rest of the body under an `if`",
    "Yield": "a kernel cannot be a generator",
    "YieldFrom": "a kernel cannot be a generator",
    "Await": "a kernel cannot be asynchronous",
    "Dict": "dictionaries are not supported in a kernel; use a tuple or a namedtuple",
    "DictComp": "dictionaries are not supported in a kernel; use a tuple or a namedtuple",
    "Set": "sets are not supported in a kernel; use a tuple",
    "SetComp": "sets are not supported in a kernel; use a tuple",
    "GeneratorExp": "generators are not supported in a kernel; use a list comprehension",
}
"""Why a construct is refused, and what to write instead, by the name of its AST node."""


class Statements(Expressions):
    """Visits statements without control flow."""

    def visit(self, node: ast.AST) -> Any:
        hint = HINTS.get(type(node).__name__)
        if hint is not None:
            kind = type(node).__name__
            raise self.unsupported(node, f"unsupported AST node type: {kind}: {hint}")
        return super().visit(node)

    def visit_Pass(self, node: ast.Pass) -> None:
        pass

    def visit_Expr(self, node: ast.Expr) -> None:
        if is_placeholder(node):
            return
        value = self.visit(node.value)
        if isinstance(node.value, ast.Call):
            self.check_result_used(node.value, value)

    def check_result_used(self, call: ast.Call, value: Any) -> None:
        """Raise if the called function is marked `must_use_result`."""
        function = self.callee(call)
        message = getattr(function, "must_use_result", None)
        if message is None or message is False:
            return
        name = ast.unparse(call.func)
        text = f"The result of {name} is not being used."
        raise self.error(call, text if message is True else f"{text} {message}")

    def callee(self, call: ast.Call) -> Any:
        """The callee of a call, looked up without emitting ops; None if unknown."""
        try:
            owner: Any = None
            names: list[str] = []
            func: ast.expr = call.func
            while isinstance(func, ast.Attribute):
                names.append(func.attr)
                func = func.value
            if not isinstance(func, ast.Name):
                return None
            owner = self.scope.lookup(func.id)
            for name in reversed(names):
                owner = getattr(owner, name)
            return unwrap(owner) if isinstance(owner, constexpr) else owner
        except (NameError, AttributeError):
            return None

    # Assignment

    def visit_Assign(self, node: ast.Assign) -> None:
        target = node.targets[0]
        if len(node.targets) == 1 and isinstance(target, ast.Name):
            with self.builder.naming(target.id):
                value = assigned(self.visit(node.value))
            self.bind(target, value)
            return
        value = assigned(self.visit(node.value))
        for target in node.targets:
            self.bind(target, value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is None:
            return
        if not isinstance(node.target, ast.Name):
            self.bind(node.target, self.visit(node.value))
            return
        name = node.target.id
        with self.builder.naming(name):
            value = self.visit(node.value)
        if is_constexpr_annotation(node.annotation):
            if name in self.scope.locals:
                raise self.error(
                    node, f"{name} is already defined. constexpr cannot be reassigned."
                )
            # As in the reference, and as some programs have it, what is known only at run time may
            # be declared so, and stays what it is.
            value = assigned(value) if is_dynamic(value) else declared(value)
        else:
            value = assigned(value)
        self.bind(node.target, value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Subscript):
            raise self.no_item_assignment(node)
        load = ast.copy_location(self._as_load(node.target), node.target)
        name = node.target.id if isinstance(node.target, ast.Name) else None
        if name is None:
            value = self.binary(node.op, self.visit(load), self.visit(node.value), node)
        else:
            with self.builder.naming(name):
                value = self.binary(node.op, self.visit(load), self.visit(node.value), node)
        self.bind(node.target, assigned(value))

    @staticmethod
    def _as_load(target: ast.expr) -> ast.expr:
        if isinstance(target, ast.Name):
            return ast.Name(id=target.id, ctx=ast.Load())
        assert isinstance(target, ast.Attribute)
        return ast.Attribute(value=target.value, attr=target.attr, ctx=ast.Load())

    def no_item_assignment(self, node: ast.AST) -> Exception:
        """The error for `x[i] = v`."""
        return self.unsupported(
            node,
            "values cannot be changed in place; compute a new one "
            "(`tl.where(index == i, v, x)` replaces one element of a block)",
        )

    def bind(self, target: ast.AST, value: Any) -> None:
        if isinstance(target, ast.Name):
            self.scope.locals[target.id] = self.named(target.id, wrap(value))
        elif isinstance(target, (ast.Tuple, ast.List)):
            self._unpack(target, value)
        elif isinstance(target, ast.Attribute):
            self._set_attribute(target, value)
        elif isinstance(target, ast.Subscript):
            raise self.no_item_assignment(target)
        else:
            raise self.unsupported(target, f"cannot assign to {type(target).__name__}")

    def _set_attribute(self, target: ast.Attribute, value: Any) -> None:
        owner = self.visit(target.value)
        if not is_mutable(owner):
            raise self.error(target, "only the fields of an aggregate can be assigned")
        if id(owner) in self.scope.fixed:
            raise self.error(target, self.scope.fixed[id(owner)][1])
        setattr(owner, target.attr, wrap(value))

    def _unpack(self, target: ast.Tuple | ast.List, value: Any) -> None:
        names = target.elts
        star = next((i for i, t in enumerate(names) if isinstance(t, ast.Starred)), None)
        try:
            values = unpacked(value, len(names), star)
        except TypeError as error:
            raise self.error(target, str(error)) from error
        for name, item in zip(names, values, strict=True):
            self.bind(name.value if isinstance(name, ast.Starred) else name, item)

    def named(self, name: str, value: Any) -> Any:
        """Name the IR values after the variable, where they have no name yet."""
        if isinstance(value, tl.tensor) and value.handle.name_hint is None:
            value.handle.name_hint = value_name(name)
        return value

    def visit_Assert(self, node: ast.Assert) -> None:
        test = self.visit(node.test)
        message = self.visit(node.msg) if node.msg is not None else constexpr("")
        if is_dynamic(test):
            tl.device_assert(test, message)
        else:
            tl.static_assert(test, message)


def is_placeholder(node: ast.Expr) -> bool:
    """Whether the statement is `...`, which does nothing."""
    return isinstance(node.value, ast.Constant) and node.value.value is Ellipsis


def is_constexpr_annotation(annotation: ast.expr) -> bool:
    """Whether an annotation says `tl.constexpr`, as an expression or a string."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return annotation.value.split(".")[-1] == "constexpr"
    if isinstance(annotation, ast.Attribute):
        return annotation.attr == "constexpr"
    return isinstance(annotation, ast.Name) and annotation.id == "constexpr"
