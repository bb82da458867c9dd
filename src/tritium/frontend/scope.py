"""Name lookup inside a kernel."""

from __future__ import annotations

import builtins
import inspect
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType, ModuleType
from typing import Any

from tritium import language as tl
from tritium.language.builtins.iterators import python_range
from tritium.language.jit.function import JITCallable
from tritium.language.values.aggregate import aggregates_in, fork
from tritium.language.values.base import base_type, base_value, is_builtin, module_of
from tritium.language.values.constexpr import constexpr

BUILTINS: Mapping[str, Any] = {
    "len": len,
    "list": list,
    "tuple": tuple,
    "int": int,
    "float": float,
    "bool": bool,
    "str": str,
    "repr": repr,
    "isinstance": isinstance,
    "issubclass": issubclass,
    "hasattr": hasattr,
    "getattr": getattr,
    "type": type,
    "abs": abs,
    "range": python_range,
    "print": tl.device_print,
    "min": min,
    "max": max,
    # On values that are known when the kernel is compiled:
    **{
        function.__name__: function
        for function in (
            all, any, bin, bytes, callable, chr, complex, dict, divmod, enumerate, filter, format,
            frozenset, hex, map, object, oct, ord, pow, reversed, round, set, slice, sorted, sum,
            zip,
        )
    },
    **{
        name: value
        for name, value in vars(builtins).items()
        if inspect.isclass(value) and issubclass(value, BaseException)
    },
    "NotImplemented": NotImplemented,
    "Ellipsis": Ellipsis,
}
"""Python builtins that may be used in kernels, and what they stand for there.

All depend on their arguments alone: a function that reads or changes anything else (`open`,
`eval`, `setattr`, `id`) would do so once, when the kernel is compiled, and not when it comes from
the cache.
"""


DEBUGGER = (
    "{} is not defined in compiled kernels. With TRITON_INTERPRET=1 in the environment the kernel "
    "is interpreted, and Python's debugger stops there"
)
SHARED = (
    "{} and {} may be the same aggregate {}, and an assignment to a field here could be missed "
    "under one of the names: use one of them only, or make a new aggregate for the other"
)


class Undefined:
    """Marks a local name that is defined on some paths only; `why` explains it to the user."""

    def __init__(self, why: str):
        self.why = why


class Scope:
    """The local variables of one function, then the globals that it may read.

    Which globals may be read follows the reference: constexpr instances, types, functions and
    modules, because a kernel is compiled once and a plain global could change afterwards.
    """

    def __init__(
        self, function: JITCallable, allow_any_global: bool,
        modules: Mapping[str, ModuleType] = MappingProxyType({}),
    ):  # fmt: skip
        self.function = function
        self._modules = modules
        self.locals: dict[str, Any] = {}
        self.announced: set[str] = set()
        """Names declared `tl.constexpr` that have no value yet."""
        self._globals = function.__globals__
        self._captured = function.get_capture_scope()
        self._allow_any_global = allow_any_global
        self.fixed: dict[int, tuple[Any, str]] = {}
        """Aggregates (by `id`) whose fields cannot be assigned, and why."""

    def lookup(self, name: str) -> Any:
        """The value of a name. Raises `NameError` with the reason where there is none."""
        if name in self.locals:
            value = self.locals[name]
            if isinstance(value, Undefined):
                raise NameError(f"{name} is not defined here: {value.why}")
            return value
        if name in self._captured:
            value = self._captured[name]
            if name in BUILTINS and value is getattr(builtins, name, None):
                return BUILTINS[name]
            if self._allow_any_global or self._readable(value):
                return self.replaced(value)
            self._refuse(name)
        if name in BUILTINS:
            return BUILTINS[name]
        if name == "breakpoint":
            raise NameError(DEBUGGER.format(name))
        if hasattr(builtins, name):
            raise NameError(
                f"{name} is not defined in kernels: Python's `{name}` would run when the kernel is "
                "compiled, not when it is launched. Call it outside of the kernel"
            )
        raise NameError(f"{name} is not defined")

    def replaced(self, value: Any) -> Any:
        """The backend's replacement for a module, or for a function of one."""
        if not self._modules or not hasattr(value, "__name__"):
            return value
        seen: set[str] = set()
        while isinstance(value, ModuleType) and value.__name__ not in seen:
            seen.add(value.__name__)
            value = self._modules.get(value.__name__, value)
        module = self._modules.get(module_of(value))
        return value if module is None else getattr(module, value.__name__)

    def _refuse(self, name: str) -> None:
        if name not in self._globals:
            raise NameError(
                f"{name} is not defined: it is a variable of the enclosing function, and a kernel "
                f"can only capture compile-time constants (`{name} = tl.constexpr(...)`)"
            )
        raise NameError(
            f"Cannot access global variable {name} from within @jit'ed function. Kernels can only "
            f"read globals that are compile-time constants, functions, types or modules: define "
            f"it as `{name} = tl.constexpr(...)`, pass it as an argument, or set "
            "TRITON_ALLOW_NON_CONSTEXPR_GLOBALS=1 (then its value is compiled in as well)"
        )

    @staticmethod
    def _readable(value: Any) -> bool:
        return (
            isinstance(value, (ModuleType, JITCallable, constexpr, base_type, base_value, type))
            or is_builtin(value)
            or callable(value)
        )

    def snapshot(self) -> dict[str, Any]:
        """A copy of the local variables; values that a branch may mutate are copied too."""
        copies: dict[int, Any] = {}
        result = {name: fork(value, copies) for name, value in self.locals.items()}
        for old, copy in copies.items():
            if old in self.fixed:
                self.fixed[id(copy)] = copy, self.fixed[old][1]
        return result

    # Aggregates that have several names. A branch or loop makes a new one for each name, so that
    # an assignment to a field could be missed under the other names.

    def fix(self, value: Any, why: str) -> None:
        """Have assignments to fields of the aggregates in a value refused from here on."""
        for aggregate in aggregates_in(value):
            self.fixed.setdefault(id(aggregate), (aggregate, why))

    def fix_either(self, values: Sequence[Any], chosen: Any) -> None:
        """Fix the aggregates in `chosen`, which is one of the values, and in the values, if a local
        variable has one of them."""
        aggregates = {id(aggregate) for value in values for aggregate in aggregates_in(value)}
        for name, known in self.locals.items():
            if aggregates.intersection(map(id, aggregates_in(known))):
                why = SHARED.format(name, "the value of `... if ... else ...`", "here")
                for value in (*values, chosen):
                    self.fix(value, why)

    def sharing(self, names: Iterable[str]) -> list[tuple[str, str]]:
        """The pairs of one of these names and another name of an aggregate that it holds."""
        reached: dict[int, list[str]] = {}
        for name, value in self.locals.items():
            for aggregate in aggregates_in(value):
                reached.setdefault(id(aggregate), []).append(name)
        return [
            (name, other)
            for name in names
            for aggregate in aggregates_in(self.locals.get(name))
            for other in reached[id(aggregate)]
            if other != name
        ]
