"""Calls: of kernel functions, language builtins, methods, and Python functions at compile time."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from tritium import language as tl
from tritium.errors import CompilationError
from tritium.frontend.control import ControlFlow
from tritium.frontend.values import is_dynamic, wrap
from tritium.language.base import as_tuple, base_value, is_builtin
from tritium.language.constexpr import constexpr, unwrap
from tritium.language.function import JITCallable

_VALUE_BUILTINS = frozenset({len, isinstance, issubclass, hasattr, getattr, type})
"""Python builtins that look at language values themselves, not at what they stand for."""


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
        if function in (min, max) and not any(is_dynamic(a) for a in args):
            return wrap(function(*unwrap(list(args)), **unwrap(dict(kwargs))))
        if function in (min, max):
            return self._fold(tl.minimum if function is min else tl.maximum, args, node)
        if is_builtin(function) or self._is_language(function):
            return wrap(function(*args, **kwargs))
        if not callable(function):
            raise self.error(node, f"{function!r} is not callable")
        return self._call_python(function, args, kwargs, node)

    def _fold(self, function: Any, args: Sequence[Any], node: ast.Call) -> Any:
        if len(args) < 2:
            raise self.error(node, f"`{function.__name__}` of one value: use tl.min or tl.max")
        result = args[0]
        for arg in args[1:]:
            result = function(result, arg)
        return result

    @staticmethod
    def _is_language(function: Any) -> bool:
        """Whether calling it with language values is meant: types and values of the language,
        their methods, named tuples."""
        owner = getattr(function, "__self__", None)
        if isinstance(owner, base_value):
            return True
        if inspect.isclass(function):
            return issubclass(function, (base_value, tl.range, tl.static_range, tl.condition))
        return isinstance(function, tl.dtype)

    def _call_python(
        self, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any], node: ast.Call
    ) -> Any:
        if function in _VALUE_BUILTINS:
            args = [a.value if isinstance(a, constexpr) and i else a for i, a in enumerate(args)]
            if function is isinstance and isinstance(args[0], constexpr):
                classes = tuple(c for c in as_tuple(args[1]) if inspect.isclass(c))
                plain = isinstance(args[0].value, classes)
                return constexpr(isinstance(args[0], args[1]) or plain)
            return wrap(function(*args, **unwrap(dict(kwargs))))
        if inspect.isclass(function) and hasattr(function, "_fields"):
            return wrap(function(*args, **kwargs))
        if function is tuple or function is list:
            return tl.tuple(self._sequence_value(args[0], node) if args else [])
        if any(is_dynamic(a) for a in (*args, *kwargs.values())):
            name = getattr(function, "__qualname__", repr(function))
            raise self.error(
                node,
                f"the Python function `{name}` cannot be called with values known only at run "
                "time; decorate it with @triton.jit, or use the `tl.` function for it",
            )
        return wrap(function(*unwrap(list(args)), **unwrap(dict(kwargs))))

    def _sequence_value(self, value: Any, node: ast.AST) -> list[Any]:
        value = value.value if isinstance(value, constexpr) else value
        if isinstance(value, tl.range):
            value = range(*(unwrap(v) for v in (value.start, value.end, value.step)))
        if not hasattr(value, "__iter__"):
            raise self.error(node, f"{value!r} cannot be made into a tuple")
        return [wrap(v) for v in value]

    # Calls of kernel functions

    def call_function(
        self, function: JITCallable, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        """Emit a call (the builder's `handle_call`). Errors inside the callee are chained below
        an error that shows this call."""
        try:
            bound = self.bind_arguments(function, args, kwargs)
            return self.module.call(function, bound)
        except CompilationError as error:
            if self.module.options.debugging:
                raise
            raise CompilationError(self.function.src, self.node, None) from error

    @staticmethod
    def bind_arguments(
        function: JITCallable, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Arguments by parameter name, defaults filled in. Raises `TypeError` as Python does."""
        try:
            bound = function.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{function.__name__}() {error}") from None
        bound.apply_defaults()
        # Functions, modules and the like are compile-time values of the callee.
        wrapped = {name: wrap(value) for name, value in bound.arguments.items()}
        values = {n: v if isinstance(v, base_value) else constexpr(v) for n, v in wrapped.items()}
        for param in function.params:
            value = values[param.name]
            if param.is_constexpr and is_dynamic(value):
                raise TypeError(
                    f"{function.__name__}() parameter '{param.name}' is declared constexpr; "
                    f"got a value known only at run time ({value!r})"
                )
        return values

    # The function itself

    def visit_function(self, tree: ast.FunctionDef, arguments: Mapping[str, Any]) -> Any:
        """Visit the whole body with the given arguments; returns the function's value."""
        self.node = tree
        for name, value in arguments.items():
            self.scope.locals[name] = value
        try:
            return self.visit_tail(tree.body)
        except Exception as error:
            raise self.located(error)  # noqa: B904  (`located` sets the cause)
