"""The set of dialects that the parser knows.

A dialect's module is imported when a text first uses the dialect. Its op classes are those of
`REGISTRY`; a module may list attribute and type classes as `ATTRIBUTES`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module

from xdsl.context import Context
from xdsl.dialects.builtin import Builtin
from xdsl.ir import Dialect

from tritium.ops.base import REGISTRY, Op

DIALECTS: dict[str, str] = {
    "arith": "tritium.ops.arith",
    "math": "tritium.ops.math",
    "scf": "tritium.ops.scf",
    "cf": "tritium.ops.cf",
    "ub": "tritium.ops.ub",
    "llvm": "tritium.ops.llvm",
    "gpu": "tritium.ops.gpu",
    "tt": "tritium.ops.ttir",
    "proton": "tritium.ops.ttir",
    "ttg": "tritium.ops.ttgir",
    "ttng": "tritium.ops.ttgir",
    "amdg": "tritium.ops.ttgir",
    "rocdl": "tritium.ops.ttgir",
    "tile": "tritium.ops.tile",
    "gluon": "tritium.ops.gluon",
}
"""The module that defines each dialect."""


def op_classes(dialect: str) -> Sequence[type[Op]]:
    """The op classes of a dialect of `DIALECTS`, which is imported."""
    import_module(DIALECTS[dialect])
    return [cls for name, cls in REGISTRY.items() if name.startswith(f"{dialect}.")]


def load_dialect(name: str) -> Dialect:
    """Import a dialect of `DIALECTS`."""
    attributes = getattr(import_module(DIALECTS[name]), "ATTRIBUTES", ())
    own = [cls for cls in attributes if cls.name.startswith(f"{name}.")]
    return Dialect(name, list(op_classes(name)), own)


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
