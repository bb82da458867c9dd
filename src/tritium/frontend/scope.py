"""What a name means inside a kernel."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from types import MappingProxyType, ModuleType
from typing import Any

from tritium import language as tl
from tritium.language.aggregate import fork
from tritium.language.base import base_type, base_value, is_builtin
from tritium.language.constexpr import constexpr
from tritium.language.function import JITCallable

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
    "range": tl.range,
    "print": tl.device_print,
    "min": min,
    "max": max,
}
"""Python builtins that may be used in kernels, and what they stand for there."""


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
        self._globals = function.__globals__
        self._captured = function.get_capture_scope()
        self._allow_any_global = allow_any_global
        self.used_globals: dict[str, Any] = {}

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
        if hasattr(builtins, name):
            return getattr(builtins, name)
        raise NameError(f"{name} is not defined")

    def replaced(self, value: Any) -> Any:
        """What the backend puts in place of a module, or of a function of one."""
        if not self._modules or not hasattr(value, "__name__"):
            return value
        seen: set[str] = set()
        while isinstance(value, ModuleType) and value.__name__ not in seen:
            seen.add(value.__name__)
            value = self._modules.get(value.__name__, value)
        module = self._modules.get(getattr(value, "__module__", None) or "")
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
        return {name: fork(value) for name, value in self.locals.items()}
