"""Visiting the AST of one function: state, dispatch over nodes, positions, errors."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from tritium.errors import HOW_TO_REPORT, CompilationError, UnsupportedLanguageConstruct
from tritium.frontend.builder import IRBuilder
from tritium.frontend.scope import Scope
from tritium.frontend.tracebacks import is_fault
from tritium.language.jit.function import JITCallable

HINTS = {
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


class ModuleUnderConstruction(Protocol):
    """The module that a visited function belongs to."""

    builder: IRBuilder
    options: FrontendOptions

    def call(self, function: JITCallable, arguments: Mapping[str, Any]) -> Any:
        """Emit a call; returns the call's value."""
        ...

    def too_deep(self) -> str:
        """The reason why the kernel is too deep for Python's stack."""
        ...


class Visitor:
    """Visits the AST of one function: the state, and the handlers of its parts by name of node."""

    def __init__(self, module: ModuleUnderConstruction, function: JITCallable):
        self.module = module
        self.builder: IRBuilder = module.builder
        self.function = function
        allow = module.options.allow_non_constexpr_globals
        self.scope = Scope(function, allow, self.builder.features.modules)
        self.node: ast.AST = ast.Pass()
        self.called: Any = None
        """The function that was called last."""
        self.handlers: dict[str, Callable[[Any], Any]] = {}

    def visit(self, node: ast.AST) -> Any:
        """Visit a node; errors from below are wrapped once with this function's source."""
        kind = type(node).__name__
        method = self.handlers.get(kind)
        if method is None:
            hint = f": {HINTS[kind]}" if kind in HINTS else ""
            raise self.unsupported(node, f"unsupported AST node type: {kind}{hint}")
        if not hasattr(node, "lineno"):
            return method(node)
        previous, self.node, place = self.node, node, self.builder.place
        self.place(node)
        try:
            result = method(node)
        except Exception as error:
            raise self.located(error)  # noqa: B904  (`located` sets the cause)
        self.node = previous
        if hasattr(previous, "lineno"):
            self.builder.place = place
        return result

    def enter(self, node: ast.AST) -> None:
        """Ops and errors from here on are the node's."""
        self.node = node
        self.place(node)

    def place(self, node: ast.AST) -> None:
        """New ops come from this node."""
        line: int = getattr(node, "lineno", 1)
        column: int = getattr(node, "col_offset", 0)
        place = self.function.file_name, self.function.first_line + line - 1, column + 1
        self.builder.place = place

    def error(self, node: ast.AST, message: str) -> CompilationError:
        """An error at a node of this function."""
        return CompilationError.in_function(self.function, node, message)

    def located(self, error: Exception) -> Exception:
        """An error as the user sees it: with this function's source, if it has none yet."""
        if isinstance(error, CompilationError):
            if error.node is not None:
                return error
            return type(error).in_function(self.function, self.node, error.error_message)
        if self.module.options.debugging:
            return error
        message = str(error) or type(error).__name__
        if is_fault(error):
            message = f"internal error of the compiler: {error!r}\n{HOW_TO_REPORT}"
        elif isinstance(error, NameError) and message.endswith("is not defined"):
            message = repr(error)  # programs look for it as the reference writes it
        elif isinstance(error, RecursionError) and "maximum recursion depth" in message:
            message = self.module.too_deep()
        elif isinstance(error, KeyError):
            message = f"KeyError: {message}"  # alone it is the key
        found = self.error(self.node, message)
        found.__cause__ = error
        return found

    def unsupported(self, node: ast.AST, message: str) -> UnsupportedLanguageConstruct:
        """An error for Python that kernels cannot use; the message says what to write instead."""
        return UnsupportedLanguageConstruct.in_function(self.function, node, message)


class Part:
    """A part of a visitor: a method `visit_<Node>` for each kind of AST node that it visits."""

    def __init__(self, visitor: Visitor):
        self.visitor, self.builder, self.scope = visitor, visitor.builder, visitor.scope
        self.visit, self.place = visitor.visit, visitor.place
        self.error, self.unsupported = visitor.error, visitor.unsupported

    def handlers(self) -> dict[str, Callable[[Any], Any]]:
        """The methods that visit AST nodes, by name of node."""
        names = (name for name in vars(type(self)) if name.startswith("visit_"))
        return {name.removeprefix("visit_"): getattr(self, name) for name in names}
