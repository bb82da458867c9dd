"""The set of dialects that the parser knows.

A dialect's module is imported when a text first uses the dialect. Each module of the table has
`OPS` (op classes) and `ATTRIBUTES` (attribute and type classes).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module

from xdsl.context import Context
from xdsl.dialects.builtin import Builtin
from xdsl.ir import Dialect

DIALECTS: dict[str, str] = {
    "arith": "tritium.ops.arith",
    "math": "tritium.ops.math",
    "scf": "tritium.ops.scf",
    "cf": "tritium.ops.cf",
    "ub": "tritium.ops.ub",
    "llvm": "tritium.ops.llvm",
    "gpu": "tritium.ops.gpu",
    "tt": "tritium.ops.ttir",
    "ttg": "tritium.ops.ttgir",
    "ttng": "tritium.ops.ttgir.nvidia",
}
"""The module that defines each dialect."""


def load_dialect(name: str) -> Dialect:
    """Import a dialect of `DIALECTS`."""
    module = import_module(DIALECTS[name])
    return Dialect(name, list(module.OPS), list(module.ATTRIBUTES))


def load_all() -> None:
    """Import every dialect, so that `tritium.ops.base.REGISTRY` is complete."""
    for module in DIALECTS.values():
        import_module(module)


def make_context() -> Context:
    """A new context in which all dialects are registered; each loads at its first use."""

    def loader(name: str) -> Callable[[], Dialect]:
        return lambda: load_dialect(name)

    context = Context()
    context.load_dialect(Builtin)
    for name in DIALECTS:
        context.register_dialect(name, loader(name))
    return context


@cache
def default_context() -> Context:
    """The context that `parse_module` uses."""
    return make_context()
