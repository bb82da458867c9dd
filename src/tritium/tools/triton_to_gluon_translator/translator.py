"""Texts of Triton functions in Gluon, with those that they call."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from tritium.language.jit.function import JITCallable
from tritium.tools.triton_to_gluon_translator.global_names import GlobalValue
from tritium.tools.triton_to_gluon_translator.rewriting import Rewriter
from tritium.tools.triton_to_gluon_translator.target import TranslatorTarget

HEADER = """from tritium.experimental import gluon
from tritium.experimental.gluon import language as gl
from tritium.tools.triton_to_gluon_translator import helpers
"""


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
    kernels: Sequence[JITCallable | GlobalValue],
    target: TranslatorTarget | str = TranslatorTarget.GENERIC,
) -> str:
    """The same as `convert_triton_to_gluon`."""
    return convert_triton_to_gluon(kernels, target)


def get_base_value(path: str) -> GlobalValue:
    """The object at `package.module:name` or `package.module.name`."""
    return GlobalValue.at(path)


def translate_paths(
    kernel_paths: Sequence[str], target: TranslatorTarget | str = TranslatorTarget.GENERIC
) -> str:
    """The same of functions given as `package.module.name`; of autotuned kernels the function."""
    return convert_triton_to_gluon([get_base_value(path) for path in kernel_paths], target)


def plain_function(function: Any) -> JITCallable:
    """The function under decorators such as `autotune` and `heuristics`. Raises `TypeError`."""
    found: Any = function.original_value if isinstance(function, GlobalValue) else function
    while not isinstance(found, JITCallable) and hasattr(found, "fn"):
        found = found.fn
    if not isinstance(found, JITCallable):
        raise TypeError(f"{function!r} is translated to Gluon; a function of jit is required")
    return found
