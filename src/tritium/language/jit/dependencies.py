"""Dependencies of a kernel's compiled code besides its own source.

The digest of a function covers, transitively, the kernel functions that it names (directly, as
`module.function`, as the value of a constexpr, or as methods of an aggregate), the functions that
it calls at compile time, and the values of the globals that they read, also those of modules,
classes and objects (`config.SIZE`). The language's own library is not walked: the version of the
compiler stands for it.
"""

from __future__ import annotations

import ast
import builtins
import dis
import hashlib
import inspect
from collections.abc import Iterator
from contextlib import suppress
from enum import Enum
from types import CodeType, FunctionType, ModuleType
from typing import Any, Protocol, TypeGuard, cast

from tritium.language.jit import syntax
from tritium.language.jit.captured_globals import (
    ABSENT,
    Watched,
    as_now,
    namespace_of,
    same,
    value_of,
)
from tritium.language.values.base import base_type, is_builtin, is_sequence, module_of
from tritium.language.values.constexpr import ConstexprFunction, constexpr, unwrap

_VALUES = (bool, int, float, str, tuple, list, type(None), base_type)
_OWN = "tritium.language"
_READ_FIRST: dict[type[ast.AST], tuple[str, ...]] = {
    ast.Assign: ("value", "targets"),
    ast.AnnAssign: ("annotation", "value", "target"),
    ast.AugAssign: ("value", "target"),
    ast.NamedExpr: ("value", "target"),
    ast.For: ("iter", "target", "body", "orelse"),
    ast.comprehension: ("iter", "target", "ifs"),
    ast.ListComp: ("generators", "elt"),
    ast.GeneratorExp: ("generators", "elt"),
}
"""Parts of the syntax that assigns names, in the order in which it runs: a name means the global
until it has been assigned."""


class Callable(Protocol):
    """The interface of a kernel function that this module needs."""

    fn: Any
    noinline: bool
    __name__: str
    __module__: str
    used_global_vals: Watched
    _unsafe_src_changed: bool

    @property
    def src(self) -> str: ...
    @property
    def starting_line_number(self) -> int: ...
    @property
    def cache_key(self) -> str: ...
    def get_capture_scope(self) -> dict[str, Any]: ...


def is_jit_callable(value: object) -> TypeGuard[Callable]:
    """True if a value is a function of the kernel language."""
    return getattr(value, "__jit_callable__", False) is True


def is_aggregate(value: object) -> bool:
    """True if a value is a class made by `_aggregate`."""
    return isinstance(value, type) and hasattr(value, "__aggregate_members__")


def _text(function: FunctionType) -> str:
    """The key of a plain method: its source, or its code where there is no source."""
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):
        return function.__code__.co_code.hex()


def digest(function: Callable) -> tuple[str, Watched]:
    """The function's digest, and the names it depends on with their values now.

    Raises `RuntimeError` when two functions have seen different values of one global.
    """
    finder = _Finder(function.__name__)
    finder.scope, finder.namespace = function.get_capture_scope(), function.fn.__globals__
    finder.captured = set(function.fn.__code__.co_freevars)
    if not finder.names_only_the_language(function):
        finder.visit(syntax.shared(function.src))
    finder.add_defaults(function.fn)
    finder.add_callees()
    return finder.digest(function.src, str(function.starting_line_number)), finder.globals


def digest_of_constexpr(function: ConstexprFunction) -> tuple[str, Watched]:
    """The same of a function that is called at compile time, given as a constant."""
    finder = _Finder(function.__name__)
    finder.depend_on(function)
    finder.add_callees()
    return finder.digest(), finder.globals


def _is_language(value: object) -> bool:
    """True if a value is a module, a class or a function of the language's library."""
    if isinstance(value, ModuleType):
        return f"{value.__name__}.".startswith(_OWN + ".")
    defined = isinstance(value, (type, FunctionType)) or is_builtin(value) or is_jit_callable(value)
    return defined and module_of(value).startswith(_OWN + ".")


def _is_value(value: object) -> bool:
    """True if a value is one to compare, not something that has or computes values."""
    plain = unwrap(value)
    if isinstance(plain, (*_VALUES, Enum)):
        return True
    if plain is ABSENT or isinstance(plain, (ModuleType, type)) or is_builtin(value):
        return False
    return not callable(plain) and not module_of(plain).startswith(_OWN + ".")


def _has_attributes(value: object) -> bool:
    """True if a kernel may read attributes of a global: a module, a class, a member of an
    enumeration, or an object of a user's class."""
    if isinstance(value, (ModuleType, type, Enum)):
        return True
    plain = unwrap(value)
    return _is_value(value) and not isinstance(plain, _VALUES) and hasattr(plain, "__dict__")


def _shown(value: object) -> str:
    """A value as a text that is the same in each process."""
    plain = unwrap(value)
    if type(plain).__repr__ is object.__repr__:  # which tells the address
        held = getattr(plain, "__dict__", "")
        return f"{type(plain).__module__}.{type(plain).__qualname__}({held})"
    return repr(plain)


def _names_in(code: CodeType) -> Iterator[tuple[str, bool]]:
    """The names, with dots, that code reads, and whether of an enclosing function's variables."""
    parts: list[str] = []
    free = False
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_ATTR", "LOAD_METHOD") and parts:
            parts.append(step.argval)
            continue
        if parts:
            yield ".".join(parts), free
        parts = []
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF"):
            free = step.opname == "LOAD_DEREF"
            parts = [step.argval]
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in(constant)


class _Finder(ast.NodeVisitor):
    def __init__(self, name: str):
        self.name = name
        self.scope: dict[str, Any] = {}
        self.namespace: dict[str, Any] = {}
        self.captured: set[str] = set()
        self.parts: list[str] = []
        self.globals: Watched = {}
        self.locals: set[str] = set()
        self.run: list[ConstexprFunction | FunctionType] = []
        self.callees: list[Callable] = []
        self.aggregates: list[Any] = []

    def digest(self, *parts: str) -> str:
        """The digest of everything found, and of further texts."""
        values = [f"{name}={_shown(value)}" for (name, _), (value, _) in self.globals.items()]
        text = "\n".join([*parts, *self.parts, *sorted(values)])
        return hashlib.sha256(text.encode()).hexdigest()

    def names_only_the_language(self, function: Callable) -> bool:
        """True if nothing is to be found in the source, by the names in its code: parsing it takes
        longer than all else that is done in Python for a kernel from the cache."""
        if function._unsafe_src_changed:  # pyright: ignore[reportPrivateUsage]  (the reference's name)
            return False
        pending = [function.fn.__code__]
        while pending:
            code = pending.pop()
            # A local name may be read as a global before it is assigned.
            assigned = code.co_varnames[code.co_argcount + code.co_kwonlyargcount :]
            for name in (*code.co_names, *code.co_freevars, *assigned):
                if name in self.scope and not _is_language(self.scope[name]):
                    return False
            pending += [c for c in code.co_consts if isinstance(c, CodeType)]
        return True

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        arguments = node.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        every += [a for a in (arguments.vararg, arguments.kwarg) if a is not None]
        self.locals |= {a.arg for a in every}
        for part in node.body:
            self.visit(part)

    def generic_visit(self, node: ast.AST) -> None:
        outer = set(self.locals)
        for name in _READ_FIRST.get(type(node), node._fields):
            part: Any = getattr(node, name)
            for child in cast("list[Any]", part if isinstance(part, list) else [part]):
                if isinstance(child, ast.AST):
                    self.visit(child)
        if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
            self.locals = outer

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name):
            self.visit_Name(ast.Name(node.target.id, ast.Load()))
        self.generic_visit(node)

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
        if isinstance(node.ctx, ast.Store):
            self.locals.add(node.id)
        elif node.id not in self.locals:
            self._read(node.id, self._namespace(node.id))

    def visit_Attribute(self, node: ast.Attribute) -> None:
        name = ast.unparse(node)
        first, *rest = name.split(".")
        plain = all(part.isidentifier() for part in (first, *rest)) and first not in self.locals
        if not plain or not self._read_attribute(name, self._namespace(first)):
            self.visit(node.value)

    def _namespace(self, name: str) -> dict[str, Any]:
        """The namespace in which a name of the function is looked up."""
        known = name in self.namespace and name not in self.captured
        return self.namespace if known else self.scope

    def _read_attribute(self, name: str, namespace: dict[str, Any]) -> bool:
        """Depend on the value of a name with dots; returns whether nothing else is to be found."""
        owner_name = name.rpartition(".")[0]
        owners = [value_of(owner_name, namespace)]
        while "." in owner_name:
            owner_name = owner_name.rpartition(".")[0]
            owners.append(value_of(owner_name, namespace))
        if any(map(_is_language, owners)):
            return True
        value = value_of(name, namespace)
        if not all(map(_has_attributes, owners)):
            return False
        if self.depend_on(value):
            return True
        if _is_value(value):
            self.globals[name, id(namespace)] = (as_now(value), namespace)
            return True
        return all(isinstance(owner, (ModuleType, type)) for owner in owners)

    def _read(self, name: str, namespace: dict[str, Any]) -> None:
        value = namespace.get(name, ABSENT)
        if value is ABSENT or value is getattr(builtins, name, ABSENT) or _is_language(value):
            return
        if not self.depend_on(value) and _is_value(value):
            self.globals[name, id(namespace)] = (as_now(value), namespace)

    def depend_on(self, value: Any) -> bool:
        """Depend on the sources of a value, if it is a function or a class that kernels use;
        returns whether it is one."""
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
                if not self.depend_on(item):
                    self.parts.append(_shown(item))
        else:
            return False
        return True

    def _run(self, function: ConstexprFunction | FunctionType) -> None:
        """Depend on what a function that is called at compile time computes: its source, the
        values that it reads, and the functions like it, or of its module, that it calls."""
        if module_of(function).startswith(_OWN + ".") or function in self.run:
            return
        self.run.append(function)
        is_marked = isinstance(function, ConstexprFunction)
        self.parts.append(function.identity if is_marked else _text(function))
        fn = function.fn if is_marked else function
        if not isinstance(fn, FunctionType):  # written in C: it depends on nothing
            return
        captured: dict[str, Any] = {}
        for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
            with suppress(ValueError):  # a variable that has no value yet
                captured[name] = cell.cell_contents
        for name, is_captured in _names_in(fn.__code__):
            namespace = captured if is_captured else fn.__globals__
            while "." in name and not self._read_attribute(name, namespace):
                name = name.rpartition(".")[0]
            value = value_of(name, namespace)
            if isinstance(value, FunctionType) and value.__module__ == fn.__module__:
                self._run(value)
            elif "." not in name:
                self._read(name, namespace)

    def _call(self, callee: Callable) -> None:
        if module_of(callee).startswith(_OWN + "."):
            return
        self.callees.append(callee)

    def add_callees(self) -> None:
        """Depend on the functions that are called, and on what they read. Raises `RuntimeError`
        where that had another value when they were compiled."""
        # Not where a call is found: chains of calls would take as many frames as the syntax does.
        for callee in self.callees:
            self.parts.append(f"{callee.cache_key} noinline={callee.noinline}")
            for key, (value, namespace) in callee.used_global_vals.items():
                mine = self.globals.get(key)
                if mine is not None and not same(mine[0], value):
                    raise RuntimeError(
                        f"Global variable {key[0]} has value {mine[0]!s} when compiling "
                        f"{self.name}, but inner kernel {callee.__name__} has conflicting value "
                        f"{value!s} from when it was first compiled. This is not allowed."
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
            if isinstance(member, staticmethod):
                member = member.__func__
            if is_jit_callable(member):
                self._call(member)
            elif isinstance(member, ConstexprFunction):
                self._run(member)
            elif isinstance(member, FunctionType):
                self.parts.append(f"{name} {_text(member)}")
            elif _is_value(member) and not name.startswith("__"):
                owner = next((c for c in aggregate.__mro__ if name in vars(c)), aggregate)
                namespace = namespace_of(owner)
                if namespace.get(name) is member:
                    self.globals[name, id(namespace)] = (as_now(member), namespace)
                else:
                    self.parts.append(f"{name}={_shown(member)}")
