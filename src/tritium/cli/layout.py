"""`tritium layout`: where the elements of a tile are."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Any

from tritium.errors import TritonError
from tritium.experimental.gluon.language._views import hardware_view, tensor_view
from tritium.ir.layouts.encodings import Encoding
from tritium.ops.parsing import parse_module

_MOST = 1 << 16


class LayoutError(TritonError):
    """A text is no type with a layout, or a file has no such layout."""


def show(source: str, aliases: Sequence[str] = (), *, hardware: bool = False) -> str:
    """The tables of a type's layout, or of the layouts of a file of ttgir. Raises `LayoutError`,
    `ParseError`, `OSError`.

    Args:
        source: `tensor<16x16xf16, #ttg.blocked<{...}>>` (or a `!ttg.memdesc`), or the file's name.
        aliases: of a file's layouts those with these names (`#blocked`); all without any. Each is
            shown for the largest tile that has it.
        hardware: for each thread its elements, instead of for each element its threads.
    """
    if "<" in source:
        found = _types(f"tt.func @f(%x: {source}) {{\n  tt.return\n}}", "<type>")
    else:
        found = _of_file(Path(source), aliases)
    parts: list[str] = []
    for kind in found:
        if prod(kind.get_shape()) > _MOST:
            raise LayoutError(f"{kind} has {prod(kind.get_shape())} elements; up to {_MOST} are "
                              "shown")  # fmt: skip
        linear = kind.encoding.to_linear(tuple(kind.get_shape()))
        parts.append(f"{kind}\n{(hardware_view if hardware else tensor_view)(linear)}\n")
    return "\n".join(parts)


def _types(text: str, name: str) -> list[Any]:
    """The largest type of each layout in IR."""
    largest: dict[Encoding, Any] = {}
    for op in parse_module(text, name).walk():
        arguments = [a for region in op.regions for block in region.blocks for a in block.args]
        for value in (*arguments, *op.results):
            kind: Any = value.type
            if not isinstance(encoding := getattr(kind, "encoding", None), Encoding):
                continue
            if encoding not in largest or prod(kind.get_shape()) > prod(
                largest[encoding].get_shape()
            ):
                largest[encoding] = kind
    if not largest:
        raise LayoutError(f"{name} has no layout")
    return list(largest.values())


def _of_file(file: Path, aliases: Sequence[str]) -> list[Any]:
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise LayoutError(f"{file} is no text: {error}") from None
    found = _types(text, str(file))
    if not aliases:
        return found
    lines = [line.partition(" = ") for line in text.splitlines() if line.startswith("#")]
    named = {alias: value for alias, _, value in lines if value.startswith(("#ttg.", "#ttng."))}
    wanted: list[str] = []
    for alias in aliases:
        alias = f"#{alias.removeprefix('#')}"
        if alias not in named:
            raise LayoutError(f"{file} has no layout {alias}; there are {', '.join(named)}")
        wanted.append(_plain(named[alias]))
    chosen = [kind for kind in found if _plain(str(kind.encoding)) in wanted]
    if not chosen:
        raise LayoutError(f"{file}: no tile has the layout {', '.join(aliases)}")
    return chosen


def _plain(text: str) -> str:
    return "".join(text.split())
