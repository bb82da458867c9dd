"""One function: its body, and its calls of other kernel functions."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from tritium.errors import CompilationError
from tritium.frontend.control import ControlFlow
from tritium.frontend.expressions import Expressions
from tritium.frontend.statements import Statements
from tritium.frontend.values import wrap
from tritium.frontend.visitor import ModuleUnderConstruction, Visitor
from tritium.language.jit.function import JITCallable
from tritium.language.values.base import base_value
from tritium.language.values.constexpr import constexpr


class FunctionGenerator:
    """Generates the IR of one function: a visitor made of its parts, and what calls need."""

    def __init__(self, module: ModuleUnderConstruction, function: JITCallable):
        self.module, self.function = module, function
        self.visitor = Visitor(module, function)
        self.control = ControlFlow(self.visitor)
        for part in (Expressions(self.visitor), Statements(self.visitor), self.control):
            self.visitor.handlers.update(part.handlers())

    # Calls of kernel functions

    def call_function(
        self, function: JITCallable, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        """Emit a call (the builder's `handle_call`). Errors inside the callee are chained below
        an error that shows this call and repeats what was wrong."""
        try:
            bound = self.bind_arguments(function, args, kwargs)
            return self.module.call(function, bound)
        except CompilationError as error:
            if self.module.options.debugging:
                raise
            message, name = str(error.error_message), function.__name__
            innermost = not isinstance(error.__cause__, CompilationError)
            if innermost and not message.startswith(f"{name}: "):
                message = f"{name}: {message}"
            raise self.visitor.error(self.visitor.node, message) from error

    @staticmethod
    def bind_arguments(
        function: JITCallable, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Arguments by parameter name, defaults filled in. Raises `TypeError` as Python does.

        What is known only at run time may be given where a parameter is declared constexpr, as
        many programs do: it stays a run-time value.
        """
        try:
            bound = function.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{function.__name__}() {error}") from error
        bound.apply_defaults()
        # Functions, modules and the like are compile-time values of the callee.
        wrapped = {name: wrap(value) for name, value in bound.arguments.items()}
        values = {n: v if isinstance(v, base_value) else constexpr(v) for n, v in wrapped.items()}
        for name, value in values.items():
            if not hasattr(value, "type"):
                raise TypeError(f"{function.__name__}() parameter '{name}' cannot be {value!r}")
        return values

    # The function itself

    def generate(self, tree: ast.FunctionDef, arguments: Mapping[str, Any]) -> Any:
        """Visit the whole body with the given arguments; returns the function's value."""
        self.visitor.node = tree
        self.function.check_parameters()
        self.visitor.scope.locals.update(arguments)
        try:
            return self.control.tail(tree.body)
        except Exception as error:
            raise self.visitor.located(error)  # noqa: B904  (`located` sets the cause)
