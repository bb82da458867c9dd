"""Translates Triton kernels to Gluon: the same program with a layout for each block, to go on from
by hand.

    print(convert_triton_to_gluon([kernel]))
    python -m tritium.tools.triton_to_gluon_translator package.module.kernel -o kernel_gluon.py

Blocks of one rank get one layout (`helpers.block_layout`), and functions whose results have another
are followed by `helpers.settle`, a change of layout. Products go through mma.sync. Descriptors
that kernels make, and block pointers, become pointers and masks (`memory_blocks`); those of the
host are copied by the engine. `NotImplementedError` names what is not translated: gathers, scatters
and atomic operations of descriptors.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Sequence
from enum import Enum
from typing import Any

from tritium.language.jit.function import JITCallable
from tritium.tools.triton_to_gluon_translator.rewriting import Rewriter

__all__ = ["TranslatorTarget", "convert_triton_to_gluon", "get_base_value", "translate_kernels",
           "translate_paths"]  # fmt: skip

HEADER = '''from tritium.experimental import gluon
from tritium.experimental.gluon import language as gl
from tritium.tools.triton_to_gluon_translator import helpers
'''


class TranslatorTarget(Enum):
    """The processors that a translation is for: warps of 32 threads, mma.sync."""

    GENERIC = "generic"
    SM80 = "sm80"
    SM90 = "sm90"
    SM100 = "sm100"
    SM103 = "sm103"


def convert_triton_to_gluon(
    src: Sequence[Any], target: TranslatorTarget | str = TranslatorTarget.GENERIC
) -> str:
    """The text of a module with these functions, and those that they call, in Gluon; of functions
    under `autotune` or `heuristics` without these.

    Raises `NotImplementedError` for what is not translated, `ValueError` for other targets, or two
    functions of one name.
    """
    TranslatorTarget(target)
    done: dict[str, tuple[JITCallable, str]] = {}
    imports, constants = set[str](), dict[str, Any]()

    def add(function: JITCallable) -> None:
        name = function.__name__
        if name in done:
            if done[name][0] is not function:
                raise ValueError(f"two functions are called {name}")
            return
        done[name] = function, ""
        rewriter = Rewriter(function, function.get_capture_scope())
        tree = rewriter.rewritten()
        for callee in rewriter.callees.values():
            add(callee)
        imports.update(rewriter.imports)
        constants.update(rewriter.constants)
        del done[name]  # behind those that it calls
        done[name] = function, ast.unparse(tree)

    for function in src:
        add(plain_function(function))
    head = HEADER + "".join(f"{line}\n" for line in sorted(imports))
    named = "".join(f"{name} = gl.constexpr({value!r})\n" for name, value in constants.items())
    parts = [head + ("\n" + named if named else ""), *(text for _, text in done.values())]
    return "\n\n".join(parts) + "\n"


def translate_kernels(
    kernels: Sequence[JITCallable], target: TranslatorTarget | str = TranslatorTarget.GENERIC
) -> str:
    """The same as `convert_triton_to_gluon`."""
    return convert_triton_to_gluon(kernels, target)


def get_base_value(path: str) -> Any:
    """The object at `package.module.name`."""
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def translate_paths(
    kernel_paths: Sequence[str], target: TranslatorTarget | str = TranslatorTarget.GENERIC
) -> str:
    """The same of functions given as `package.module.name`; of autotuned kernels the function."""
    return convert_triton_to_gluon([get_base_value(path) for path in kernel_paths], target)


def plain_function(function: Any) -> JITCallable:
    """The function under decorators such as `autotune` and `heuristics`. Raises `TypeError`."""
    found = function
    while not isinstance(found, JITCallable) and hasattr(found, "fn"):
        found = found.fn
    if not isinstance(found, JITCallable):
        raise TypeError(f"{function!r} is translated to Gluon; a function of jit is required")
    return found
