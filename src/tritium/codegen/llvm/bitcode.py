"""Linking of LLVM bitcode into a module that llvmlite has parsed."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm


def link_files(module: Any, paths: Iterable[str], context: Any) -> None:
    """Link files into a module. Raises `RuntimeError` for bad bitcode."""
    # An option and an op may name the same file.
    for path in dict.fromkeys(os.path.realpath(p) for p in paths):
        try:
            with llvm.parse_bitcode(Path(path).read_bytes(), context=context) as library:
                library.triple, library.data_layout = module.triple, module.data_layout
                module.link_in(library)
        except RuntimeError as error:
            raise RuntimeError(f"cannot link {path}: {error}") from error


def make_internal(module: Any, own: set[str]) -> None:
    """Make what was linked internal, so that inlining leaves of it only what the module's `own`
    functions use."""
    for function in module.functions:
        if not function.is_declaration and function.name not in own:
            function.linkage = "internal"
