"""LLVM under the reference's names, as far as modules of plug-ins need it to be imported.

Tritium writes LLVM IR as text and compiles it by llvmlite: the functions on LLVM modules, contexts
and targets raise `NotImplementedError`, which names them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

OPTIMIZE_O0, OPTIMIZE_O1, OPTIMIZE_O2, OPTIMIZE_O3, OPTIMIZE_Os, OPTIMIZE_Oz = range(6)


def init_targets() -> None:
    """Have LLVM know all processors: it does."""


def _missing(name: str) -> Callable[..., Any]:
    def function(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(
            f"triton._C.libtriton.llvm.{name}: Tritium keeps LLVM IR as text; stages "
            "(knobs.runtime.add_stages_inspection_hook) can change that of `llir`"
        )

    return function


attach_datalayout, context, dump_sched_dag, link_extern_libs, optimize_module, to_module = map(
    _missing, ("attach_datalayout", "context", "dump_sched_dag", "link_extern_libs",
               "optimize_module", "to_module"),
)  # fmt: skip
translate_to_asm, translate_to_mir = map(_missing, ("translate_to_asm", "translate_to_mir"))
