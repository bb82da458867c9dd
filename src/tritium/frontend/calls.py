"""Calls: of kernel functions, language builtins, methods, and Python functions at compile time."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from tritium.errors import CompilationError
from tritium.frontend.control import ControlFlow
from tritium.frontend.python_calls import call_python
from tritium.frontend.values import wrap
from tritium.language.jit.function import JITCallable
from tritium.language.values.base import base_value
from tritium.language.values.constexpr import constexpr


class CodeGenerator(ControlFlow):
    """Generates the IR of one function: all visitors together, and calls."""

    def visit_Call(self, node: ast.Call) -> Any:
        function = self.visit(node.func)
        if isinstance(function, constexpr):
            function = function.value
        args = self._elements(node.args)
        kwargs = self._keywords(node.keywords)
        self.node = node
        self.place(node)
        return self.apply(function, args, kwargs, node)

    def _keywords(self, keywords: Sequence[ast.keyword]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for keyword in keywords:
            if keyword.arg is None:
                raise self.unsupported(
                    keyword.value, "`**kwargs` is not supported in a kernel; name the arguments"
                )
            values[keyword.arg] = self.visit(keyword.value)
        return values

    def apply(
        self, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any], node: ast.Call
    ) -> Any:
        """Call `function` with language values; returns a language value."""
        if isinstance(function, JITCallable):
            return function(*args, **kwargs)
        return call_python(function, args, kwargs)

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
            message, name = error.error_message, function.__name__
            innermost = not isinstance(error.__cause__, CompilationError)
            if innermost and not message.startswith(f"{name}: "):
                message = f"{name}: {message}"
            raise CompilationError(self.function.src, self.node, message) from error

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

    def _check_parameters(self, tree: ast.FunctionDef) -> None:
        """A constant is always specialized for."""
        for param in self.function.params:
            if not param.is_constexpr:
                continue
            if param.do_not_specialize or param.do_not_specialize_on_alignment:
                arguments = tree.args
                every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
                node = next((a for a in every if a.arg == param.name), tree)
                raise self.error(
                    node,
                    f"{param.name} marked as constexpr and listed in do_not_specialize/"
                    "do_not_specialize_on_alignment; remove one of both",
                )

    def visit_function(self, tree: ast.FunctionDef, arguments: Mapping[str, Any]) -> Any:
        """Visit the whole body with the given arguments; returns the function's value."""
        self.node = tree
        self._check_parameters(tree)
        for name, value in arguments.items():
            self.scope.locals[name] = value
        try:
            return self.visit_tail(tree.body)
        except Exception as error:
            raise self.located(error)  # noqa: B904  (`located` sets the cause)
