"""`tritium opt` on LLVM IR: passes of LLVM by their names in `opt`, as far as llvmlite has them."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import Any

import llvmlite.binding as llvm

from tritium.errors import TritonError
from tritium.native import loader

SUFFIXES = (".llir", ".ll")
"""The ends of names of files that hold LLVM IR."""
_METHODS = {
    "adce": "aggressive_dce", "aggressive-instcombine": "aggressive_instcombine",
    "always-inline": "always_inliner", "argpromotion": "argument_promotion",
    "break-crit-edges": "break_critical_edges", "constmerge": "constant_merge",
    "dce": "dead_code_elimination", "deadargelim": "dead_arg_elimination",
    "dse": "dead_store_elimination", "function-attrs": "post_order_function_attributes",
    "globaldce": "global_dead_code_eliminate", "globalopt": "global_opt",
    "instcombine": "instruction_combine", "instnamer": "instruction_namer",
    "internalize": "internalize", "ipsccp": "ipsccp", "jump-threading": "jump_threading",
    "lcssa": "lcssa", "loop-deletion": "loop_deletion", "loop-extract": "loop_extract",
    "loop-reduce": "loop_strength_reduce", "loop-rotate": "loop_rotate",
    "loop-simplify": "loop_simplify", "loop-unroll": "loop_unroll",
    "loop-unroll-and-jam": "loop_unroll_and_jam", "lower-atomic": "lower_atomic",
    "lower-invoke": "lower_invoke", "lower-switch": "lower_switch", "memcpyopt": "mem_copy_opt",
    "mergefunc": "merge_functions", "mergereturn": "unify_function_exit_nodes",
    "newgvn": "new_gvn", "partial-inliner": "partial_inliner", "reassociate": "reassociate",
    "reg2mem": "register_to_memory", "rpo-function-attrs": "rpo_function_attrs", "sccp": "sccp",
    "simplifycfg": "simplify_cfg", "sink": "sinking", "sroa": "sroa", "strip": "strip_symbols",
    "strip-dead-debug-info": "strip_dead_debug_info", "strip-debug-declare": "strip_debug_declare",
    "strip-dead-prototypes": "strip_dead_prototype",
    "strip-nondebug": "strip_non_debug_symbols", "tailcallelim": "tail_call_elimination",
}  # fmt: skip
"""The end of the name of llvmlite's method that adds a pass, by the pass's name in `opt`. It is
written by hand, because neither library relates the two: llvmlite binds LLVM's passes one by one,
under names of its own, and neither LLVM's parser of pass names nor the printer of a pipeline. A
test compares the table with the methods that there are."""
_PIPELINE = re.compile(r"default<O([0-3])>")


def is_llvm_pass(name: str) -> bool:
    """True for the name of a pass of LLVM, or of a pipeline: `default<O2>`."""
    return name in _METHODS or _PIPELINE.fullmatch(name) is not None


def list_passes() -> list[str]:
    """The names of all of them."""
    return [*_METHODS, *(f"default<O{level}>" for level in range(4))]


def optimize(
    text: str, name: str, passes: Sequence[str], *, print_after_all: bool = False,
    print_after: Sequence[str] = (),
) -> str:  # fmt: skip
    """The LLVM IR of a text after some passes.

    Args:
        name: of the file.

    Raises:
        TritonError: the text is no LLVM IR, a pass is not known, or LLVM has no such target.
    """
    with loader.lock:
        return _optimize(text, name, passes, print_after, print_after_all)


def _optimize(
    text: str, name: str, passes: Sequence[str], print_after: Sequence[str], all: bool
) -> str:
    for item in (*passes, *print_after):
        if not is_llvm_pass(item):
            raise TritonError(
                f"llvmlite has no pass of LLVM that is called {item!r}; there are "
                f"{', '.join(list_passes())}"
            )
    try:
        module = loader.parse(text, llvm.create_context())
    except RuntimeError as error:
        raise TritonError(f"{name}: {error}") from None
    with module:
        machine = _machine(module, name)
        for item in passes:
            _run(module, item, machine)
            if all or item in print_after:
                sys.stderr.write(f"; *** IR Dump After {item} ***\n{module}\n")
        return str(module)


def _machine(module: Any, name: str) -> Any:
    """The target that passes ask about costs: that of the module's triple, or this machine's."""
    loader.initialize_all()
    triple = module.triple or llvm.get_default_triple()
    try:
        return llvm.Target.from_triple(triple).create_target_machine()
    except RuntimeError as error:
        raise TritonError(f"{name}: {error}") from None


def _run(module: Any, name: str, machine: Any) -> None:
    pipeline = _PIPELINE.fullmatch(name)
    level = int(pipeline[1]) if pipeline else 2
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(level))
    if pipeline:
        manager = builder.getModulePassManager()
    else:
        manager = llvm.create_new_module_pass_manager()
        getattr(manager, f"add_{_METHODS[name]}_pass")()
    manager.run(module, builder)
