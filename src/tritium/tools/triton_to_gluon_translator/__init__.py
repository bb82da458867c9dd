"""Translates Triton kernels to Gluon: the same program with a layout for each block, to go on from
by hand.

    print(convert_triton_to_gluon([kernel]))
    python -m tritium.tools.triton_to_gluon_translator package.module.kernel -o kernel_gluon.py

Blocks of one rank get one layout (`helpers.block_layout`), and functions whose results have another
are followed by `helpers.settle`, a change of layout. Products go through mma.sync, MFMA or WMMA.
Descriptors that kernels make, and block pointers, become pointers and masks (`memory_blocks`);
those of the host are copied by the engine (`engines`). The text is the same for all targets: the
helpers look at the one that the kernel is compiled for.
"""

from __future__ import annotations

import ast
import importlib
import re
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


class TranslatorTarget(str, Enum):
    """The processors that a translation may be for. Any `gfx...` is one, listed or not."""

    GENERIC = "generic"
    SM80 = "sm80"
    SM90 = "sm90"
    SM100 = "sm100"
    SM103 = "sm103"
    SM107 = "sm107"
    GFX90A = "gfx90a"
    GFX942 = "gfx942"
    GFX950 = "gfx950"
    GFX1100 = "gfx1100"
    GFX1200 = "gfx1200"
    GFX1250 = "gfx1250"

    @classmethod
    def _missing_(cls, value: object) -> TranslatorTarget | None:
        if not isinstance(value, str) or re.fullmatch(r"gfx[0-9a-f]{3,}", value) is None:
            return None
        other = str.__new__(cls, value)
        other._name_, other._value_ = value.upper(), value
        return other

    @property
    def is_amd(self) -> bool:
        """True if it is one of AMD's."""
        return self.value.startswith("gfx")

    @property
    def is_nvidia(self) -> bool:
        """True if it is one of NVIDIA's."""
        return self.value.startswith("sm")


def convert_triton_to_gluon(
    src: Sequence[Any], target: TranslatorTarget | str = TranslatorTarget.GENERIC
) -> str:
    """The text of a module with these functions, and those that they call, in Gluon; of functions
    under `autotune` or `heuristics` without these.

    Raises `ValueError` for other targets, or two functions of one name.
    """
    TranslatorTarget(target)
    done: dict[str, tuple[JITCallable, str]] = {}
    imports, constants, tables = set[str](), dict[str, Any](), dict[str, str]()

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
        tables.update(rewriter.tables)
        del done[name]  # behind those that it calls
        done[name] = function, ast.unparse(tree)

    for function in src:
        add(plain_function(function))
    head = HEADER + "".join(f"{line}\n" for line in sorted(imports))
    named = "".join(f"{name} = gl.constexpr({value!r})\n" for name, value in constants.items())
    lists = "".join(f"{name} = gl.constexpr({text})\n" for name, text in tables.items())
    parts = [head + ("\n" + named if named else ""), *(text for _, text in done.values()),
             *([lists] if lists else [])]  # fmt: skip
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
