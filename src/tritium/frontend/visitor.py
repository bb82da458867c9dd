"""The base of the code generator: state, dispatch over AST nodes, positions, errors."""

from __future__ import annotations

import ast
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from tritium.errors import CompilationError, UnsupportedLanguageConstruct
from tritium.frontend.builder import IRBuilder
from tritium.frontend.scope import Scope
from tritium.language.jit.function import JITCallable


@dataclass(frozen=True)
class FrontendOptions:
    """Frontend options.

    Attributes:
        allow_non_constexpr_globals: let kernels read any global
            (TRITON_ALLOW_NON_CONSTEXPR_GLOBALS).
        debugging: do not wrap errors or hide the compiler's frames (TRITON_FRONT_END_DEBUGGING).
    """

    allow_non_constexpr_globals: bool = False
    debugging: bool = False


@dataclass
class LoopContext:
    """The loop around the statement being visited; `kind` is "for" or "while"."""

    kind: str
    node: ast.AST = field(default_factory=ast.Pass)


class ModuleUnderConstruction(Protocol):
    """The module that a visited function belongs to."""

    builder: IRBuilder
    options: FrontendOptions

    def call(self, function: JITCallable, arguments: Mapping[str, Any]) -> Any:
        """Emit a call; returns the call's value."""
        ...


class Visitor:
    """Visits the AST of one function. Subclasses add `visit_<Node>` methods."""

    def __init__(self, module: ModuleUnderConstruction, function: JITCallable):
        self.module = module
        self.builder: IRBuilder = module.builder
        self.function = function
        allow = module.options.allow_non_constexpr_globals
        self.scope = Scope(function, allow, self.builder.features.modules)
        self.node: ast.AST = ast.Pass()
        self.loops: list[LoopContext] = []

    def visit(self, node: ast.AST) -> Any:
        """Visit a node; errors from below are wrapped once with this function's source."""
        method = getattr(self, "visit_" + type(node).__name__, None)
        if method is None:
            raise self.unsupported(node, f"unsupported AST node type: {type(node).__name__}")
        if not hasattr(node, "lineno"):
            return method(node)
        previous, self.node = self.node, node
        self.place(node)
        try:
            result = method(node)
        except Exception as error:
            raise self.located(error)  # noqa: B904  (`located` sets the cause)
        self.node = previous
        if hasattr(previous, "lineno"):
            self.place(previous)
        return result

    def place(self, node: ast.AST) -> None:
        """New ops come from this node."""
        line: int = getattr(node, "lineno", 1)
        column: int = getattr(node, "col_offset", 0)
        self.builder.set_position(
            self.function.file_name, self.function.first_line + line - 1, column
        )

    def error(self, node: ast.AST, message: str) -> CompilationError:
        """An error at a node of this function."""
        return CompilationError(self.function.src, node, message)

    def located(self, error: Exception) -> Exception:
        """An error as the user sees it: with this function's source, if it has none yet."""
        if isinstance(error, CompilationError):
            if error.node is not None:
                return error
            return type(error)(self.function.src, self.node, error.error_message)
        if self.module.options.debugging:
            return error
        message = str(error) or type(error).__name__
        if isinstance(error, NameError) and message.endswith("is not defined"):
            message = repr(error)  # programs look for it as the reference writes it
        elif isinstance(error, RecursionError) and "maximum recursion depth" in message:
            message = (
                "this is nested too deeply (each `elif`, and each `if` that returns, nests what "
                f"follows it): Python's recursion limit is {sys.getrecursionlimit()}"
            )
        elif isinstance(error, KeyError):
            message = f"KeyError: {message}"  # alone it is the key
        found = self.error(self.node, message)
        found.__cause__ = error
        return found

    def unsupported(self, node: ast.AST, message: str) -> UnsupportedLanguageConstruct:
        """An error for Python that kernels cannot use; the message says what to write instead."""
        return UnsupportedLanguageConstruct(self.function.src, node, message)

    @contextmanager
    def in_loop(self, kind: str, node: ast.AST) -> Generator[None]:
        """Statements visited inside are in the body of a loop that runs on the device."""
        self.loops.append(LoopContext(kind, node))
        try:
            yield
        finally:
            self.loops.pop()
