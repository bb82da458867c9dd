"""What a kernel's compiled code depends on beside its own source.

The digest of a function covers, transitively, the kernel functions that it names (directly, as
`module.function`, as the value of a constexpr, or as methods of an aggregate), and the values of
the globals it reads, also those of modules and classes (`config.SIZE`). The language's own library
is not walked: the version of the compiler stands for it.
"""

from __future__ import annotations

import ast
import builtins
import hashlib
import inspect
from contextlib import suppress
from enum import Enum
from types import CodeType, FunctionType, ModuleType
from typing import Any, Protocol, TypeGuard

from tritium.language import syntax
from tritium.language.base import base_type, is_builtin, is_sequence
from tritium.language.constexpr import ConstexprFunction, constexpr, unwrap

Globals = dict[tuple[str, int], tuple[Any, dict[str, Any]]]
_VALUES = (bool, int, float, str, tuple, list, type(None), base_type)
_OWN = __name__.rsplit(".", 1)[0]


class Callable(Protocol):
    """What is asked of a kernel function here."""

    fn: Any
    noinline: bool
    __name__: str
    __module__: str
    used_global_vals: Globals
    _unsafe_src_changed: bool

    @property
    def src(self) -> str: ...
    @property
    def starting_line_number(self) -> int: ...
    @property
    def cache_key(self) -> str: ...
    def get_capture_scope(self) -> dict[str, Any]: ...


def is_jit_callable(value: object) -> TypeGuard[Callable]:
    """Whether a value is a function of the kernel language."""
    return getattr(value, "__jit_callable__", False) is True


def is_aggregate(value: object) -> bool:
    """Whether a value is a class made by `_aggregate`."""
    return isinstance(value, type) and hasattr(value, "__aggregate_members__")


def _text(function: FunctionType) -> str:
    """What tells a plain method from another: its source, or its code where there is none."""
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):
        return function.__code__.co_code.hex()


def digest(function: Callable) -> tuple[str, Globals]:
    """The function's digest, and the globals it depends on with their values now.

    Raises `RuntimeError` when two functions have seen different values of one global.
    """
    finder = _Finder(function)
    if not finder.names_only_the_language(function):
        finder.visit(syntax.parse(function.src))
    finder.add_defaults(function.fn)
    finder.add_globals_of_callees()
    text = "\n".join(
        [
            function.src,
            str(function.starting_line_number),
            *finder.parts,
            *sorted(f"{name}={value!r}" for (name, _), (value, _) in finder.globals.items()),
        ]
    )
    return hashlib.sha256(text.encode()).hexdigest(), finder.globals


def _is_language(value: object) -> bool:
    """Whether a value is a module, a class or a function of the language's library."""
    if isinstance(value, ModuleType):
        return f"{value.__name__}.".startswith(_OWN + ".")
    defined = isinstance(value, (type, FunctionType)) or is_builtin(value) or is_jit_callable(value)
    return defined and (value.__module__ or "").startswith(_OWN + ".")


class _Finder(ast.NodeVisitor):
    def __init__(self, function: Callable):
        self.name = function.__name__
        self.scope = function.get_capture_scope()
        self.namespace = function.fn.__globals__
        self.parts: list[str] = []
        self.globals: Globals = {}
        self.locals: set[str] = set()
        self.run: list[ConstexprFunction] = []
        self.callees: list[Callable] = []
        self.aggregates: list[Any] = []

    def names_only_the_language(self, function: Callable) -> bool:
        """Whether nothing is to be found in the source, by the names in its code: parsing it takes
        longer than all else that is done in Python for a kernel from the cache."""
        if function._unsafe_src_changed:  # pyright: ignore[reportPrivateUsage]  (the reference's name)
            return False
        pending = [function.fn.__code__]
        while pending:
            code = pending.pop()
            for name in (*code.co_names, *code.co_freevars):
                if name in self.scope and not _is_language(self.scope[name]):
                    return False
            pending += [c for c in code.co_consts if isinstance(c, CodeType)]
        return True

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        arguments = node.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        every += [a for a in (arguments.vararg, arguments.kwarg) if a is not None]
        self.locals |= {a.arg for a in every}
        self.locals |= {
            n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        }
        for part in node.body:
            self.visit(part)

    def add_defaults(self, fn: Any) -> None:
        """Depend on the values that the parameters' defaults had when the function was defined;
        the names that they came from may change since."""
        values: list[Any] = [*(fn.__defaults__ or ()), *(fn.__kwdefaults__ or {}).values()]
        for value in values:
            plain = unwrap(value)
            if is_jit_callable(plain):
                self._call(plain)
            elif isinstance(plain, _VALUES):
                self.parts.append(f"default {plain!r}")

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load) and node.id not in self.locals:
            self._record(node.id, self.scope.get(node.id, self))

    def visit_Attribute(self, node: ast.Attribute) -> None:
        owner = self._owner(node.value)
        if owner is None:
            self.visit(node.value)
        elif not _is_language(owner):
            value = getattr(owner, node.attr, None)
            if is_jit_callable(value):
                self._call(value)
            elif isinstance(value, ConstexprFunction):
                self._run(value)
            elif is_aggregate(value):
                self._add_aggregate(value)
            elif isinstance(unwrap(value), (*_VALUES, Enum)):
                if isinstance(owner, ModuleType):
                    self.globals[node.attr, id(vars(owner))] = (value, vars(owner))
                else:
                    name = getattr(owner, "__qualname__", owner)
                    self.parts.append(f"{name}.{node.attr}={value!r}")

    def _owner(self, node: ast.expr) -> Any:
        """The module, class or member of an enumeration that an expression such as `a.b` names."""
        value: Any = None
        if isinstance(node, ast.Name) and node.id not in self.locals:
            value = self.scope.get(node.id)
        elif isinstance(node, ast.Attribute):
            value = getattr(self._owner(node.value), node.attr, None)
        return value if isinstance(value, (ModuleType, type, Enum)) else None

    def _record(self, name: str, value: Any) -> None:
        if value is self or value is getattr(builtins, name, self):
            return
        if isinstance(value, constexpr) and is_jit_callable(value.value):
            value = value.value
        if is_jit_callable(value):
            self._call(value)
        elif isinstance(value, ConstexprFunction):
            self._run(value)
        elif is_aggregate(value):
            self._add_aggregate(value)
        elif is_sequence(value) and any(is_jit_callable(v) for v in value):
            for item in value:
                self._record(name, item)
        elif not (
            isinstance(value, (ModuleType, type))
            or is_builtin(value)
            or callable(unwrap(value))
            or (
                getattr(value, "__module__", "").startswith(_OWN + ".")
                and not isinstance(value, (constexpr, base_type))
            )
        ):
            namespace = self.namespace if name in self.namespace else self.scope
            self.globals[name, id(namespace)] = (value, namespace)

    def _run(self, function: ConstexprFunction) -> None:
        """Depend on what a function that is called at compile time computes: its source, the
        constants that it names, and the functions like it that it calls."""
        if (function.__module__ or "").startswith(_OWN + ".") or function in self.run:
            return
        self.run.append(function)
        self.parts.append(function.identity)
        if not isinstance(function.fn, FunctionType):  # written in C: it depends on nothing
            return
        for cell in function.fn.__closure__ or ():
            with suppress(ValueError):  # a variable that has no value yet
                if isinstance(cell.cell_contents, ConstexprFunction):
                    self._run(cell.cell_contents)
                else:
                    self.parts.append(f"closure {cell.cell_contents!r}")
        namespace = function.fn.__globals__
        for name in function.fn.__code__.co_names:
            value = namespace.get(name)
            if isinstance(value, ConstexprFunction):
                self._run(value)
            elif isinstance(value, (*_VALUES, constexpr)) and value is not None:
                self.globals[name, id(namespace)] = (value, namespace)

    def _call(self, callee: Callable) -> None:
        if (callee.__module__ or "").startswith(_OWN + "."):
            return
        self.parts.append(f"{callee.cache_key} noinline={callee.noinline}")
        self.callees.append(callee)

    def add_globals_of_callees(self) -> None:
        """Depend on what the functions that are called read. Raises `RuntimeError` where that had
        another value when they were compiled."""
        for callee in self.callees:
            for key, (value, namespace) in callee.used_global_vals.items():
                mine = self.globals.get(key)
                if mine is not None and unwrap(mine[0]) != unwrap(value):
                    raise RuntimeError(
                        f"Global variable {key[0]} has value {mine[0]} when compiling {self.name}, "
                        f"but inner kernel {callee.__name__} has conflicting value {value} from "
                        "when it was first compiled. This is not allowed."
                    )
                self.globals[key] = (value, namespace)

    def _add_aggregate(self, aggregate: Any) -> None:
        """Depend on an aggregate's fields, with those that are aggregates, and on its methods."""
        if aggregate in self.aggregates:
            return
        self.aggregates.append(aggregate)
        self.parts.append(f"aggregate {aggregate.__qualname__}")
        for name, annotation in aggregate.__aggregate_fields__.items():
            self.parts.append(f"{name}: {getattr(annotation, '__qualname__', annotation)}")
            if is_aggregate(annotation):
                self._add_aggregate(annotation)
        for name, member in aggregate.__aggregate_members__.items():
            if is_jit_callable(member):
                self._call(member)
            elif isinstance(member, ConstexprFunction):
                self._run(member)
            elif isinstance(member, FunctionType):
                self.parts.append(f"{name} {_text(member)}")
            elif isinstance(unwrap(member), _VALUES) and not name.startswith("__"):
                self.parts.append(f"{name}={member!r}")
