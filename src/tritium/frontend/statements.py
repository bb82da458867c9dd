"""Assignments and other simple statements."""

from __future__ import annotations

import ast

from tritium.frontend.expressions import binary
from tritium.frontend.targets import bind, no_item_assignment, stored
from tritium.frontend.values import assigned, declared, is_dynamic, wrap
from tritium.frontend.visitor import Part
from tritium.language.builtins.debug import assert_statement
from tritium.language.values.constexpr import constexpr


class Statements(Part):
    """Visits statements without control flow."""

    def visit_Pass(self, node: ast.Pass) -> None:
        pass

    def visit_Expr(self, node: ast.Expr) -> None:
        if is_placeholder(node):
            return
        self.visit(node.value)
        if isinstance(node.value, ast.Call):
            self._check_result_used(node.value)

    def _check_result_used(self, call: ast.Call) -> None:
        """Raise if the called function, which has a name, is marked `must_use_result`."""
        root = call.func
        while isinstance(root, ast.Attribute):
            root = root.value
        message = getattr(self.visitor.called, "must_use_result", None)
        if message is None or message is False or not isinstance(root, ast.Name):
            return
        text = f"The result of {ast.unparse(call.func)} is not being used."
        raise self.error(call, text if message is True else f"{text} {message}")

    # Assignment

    def visit_Assign(self, node: ast.Assign) -> None:
        with self.builder.naming(name_of(*node.targets)):
            value = wrap(self.visit(node.value))
        for target in node.targets:
            bind(self.visitor, target, value, stored)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is None:
            if isinstance(node.target, ast.Name) and is_constexpr_annotation(node.annotation):
                self.scope.announced.add(node.target.id)
            return
        if not isinstance(node.target, ast.Name):
            bind(self.visitor, node.target, self.visit(node.value))
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
        bind(self.visitor, node.target, value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Subscript):
            raise no_item_assignment(self.visitor, node)
        with self.builder.naming(name_of(node.target)):
            value = binary(node.op, self.visit(node.target), self.visit(node.value))
        bind(self.visitor, node.target, value, stored)

    def visit_Assert(self, node: ast.Assert) -> None:
        test = self.visit(node.test)
        message = self.visit(node.msg) if node.msg is not None else constexpr("")
        assert_statement(test, message)


def name_of(*targets: ast.expr) -> str | None:
    """The variable that an assignment is to, if it is to one."""
    first = targets[0]
    return first.id if len(targets) == 1 and isinstance(first, ast.Name) else None


def is_placeholder(node: ast.Expr) -> bool:
    """True if the statement is `...`, which does nothing."""
    return isinstance(node.value, ast.Constant) and node.value.value is Ellipsis


def is_constexpr_annotation(annotation: ast.expr) -> bool:
    """True if an annotation says `tl.constexpr`, as an expression or a string."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return annotation.value.split(".")[-1] == "constexpr"
    if isinstance(annotation, ast.Attribute):
        return annotation.attr == "constexpr"
    return isinstance(annotation, ast.Name) and annotation.id == "constexpr"
