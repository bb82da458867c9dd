"""Results of analyses, kept with the function that they are about until a pass changes it.

`result_of(function, TileFunction.of)` runs the analysis at the first question. `PassManager`
forgets the results after each pass that changed a module, unless the pass `keeps_analyses`. It also
keeps with a module the passes that left it as it was, which need not be run again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from xdsl.dialects.builtin import ModuleOp

from tritium.analysis.regions import functions
from tritium.ops.ttir.function import FuncOp

T = TypeVar("T")


def result_of(function: FuncOp, analysis: Callable[[FuncOp], T]) -> T:
    """The result of `analysis` for a function."""
    known: dict[Any, Any] = vars(function).setdefault("analyses", {})
    if analysis not in known:
        known[analysis] = analysis(function)
    return known[analysis]


def idle_passes(module: ModuleOp) -> list[Any]:
    """The passes that have changed nothing since the module was changed last."""
    return vars(module).setdefault("idle_passes", [])


def forget_results(module: ModuleOp) -> None:
    """Forget what is known of a module, which is changed, and of its functions."""
    idle_passes(module).clear()
    for function in functions(module):
        vars(function).pop("analyses", None)
