"""Source lines of instructions, as LLVM debug metadata, with the call sites of inlined functions.

Only directives are asked for, no sections of DWARF: the assembler writes the line table from them.
"""

from __future__ import annotations

import linecache
import os
import re
from functools import lru_cache
from typing import Any, cast

from xdsl.dialects.builtin import CallSiteLoc, FileLineColLoc
from xdsl.ir import Attribute

from tritium.codegen.llvm.writer import Module, escaped
from tritium.ir.locations import parts_of

_DEF = re.compile(r"(\s*)(?:async\s+)?def\s+(\w+)")


class DebugInfo:
    """The debug metadata of one function.

    Args:
        module: gets the metadata.
        name: of the function.
        location: where it is defined; without a place in a file nothing is written.
    """

    def __init__(self, module: Module, name: str, location: Attribute | None):
        self._module = module
        self._known: dict[Any, str] = {}
        self._suffixes: dict[int, tuple[Attribute | None, str]] = {}
        """Suffixes for locations of ops, by identity: their hash takes long. Kept alive."""
        place = None if location is None else _place(location)
        self._scope = ""
        if place is not None:
            self._scope = self._subprogram(name, place.filename.data, place.line.data)

    @property
    def of_function(self) -> str:
        """The debug suffix of the function's header: ` !dbg !3`."""
        return f" !dbg {self._scope}" if self._scope else ""

    def of_op(self, op: Any) -> str:
        """The debug suffix of an op's instructions: `, !dbg !7`; "" in a function without a place.
        Line 0 where the op has none: LLVM drops the lines of a function with a call without one."""
        if not self._scope:
            return ""
        location = getattr(op, "location", None)
        known = self._suffixes.get(id(location))
        if known is None:
            known = self._suffixes[id(location)] = location, self._suffix(location)
        return known[1]

    def _suffix(self, location: Attribute | None) -> str:
        reference = "" if location is None else self._location(location, self._scope, "")
        if not reference:
            reference = self._node(
                ("nowhere", self._scope), f"!DILocation(line: 0, scope: {self._scope})"
            )
        return f", !dbg {reference}"

    def _location(self, location: Attribute, scope: str, inlined_at: str) -> str:
        key = location, scope, inlined_at
        known = self._known.get(key)  # once: to hash a location takes long
        if known is None:
            known = self._known[key] = self._new_location(location, scope, inlined_at)
        return known

    def _new_location(self, location: Attribute, scope: str, inlined_at: str) -> str:
        site = _call_site(location)
        if site is not None:
            at = self._location(site.caller, scope, inlined_at)
            place = _place(_innermost_callee(site.callee))
            if not at or place is None:
                return at
            file, line = place.filename.data, place.line.data
            inner = self._subprogram(*_definition(file, line))
            return self._location(site.callee, inner, at)
        place = _place(location)
        if place is None:
            return ""
        more = f", inlinedAt: {inlined_at}" if inlined_at else ""
        return self._module.add_metadata(
            f"!DILocation(line: {place.line.data}, column: {place.column.data}, "
            f"scope: {scope}{more})"
        )

    def _node(self, key: tuple[Any, ...], text: str) -> str:
        """A node that the module has once."""
        known = self._module.debug_nodes
        if key not in known:
            known[key] = self._module.add_metadata(text)
        return known[key]

    def _file(self, path: str) -> str:
        folder, name = os.path.split(path)
        return self._node(
            ("file", path), f'!DIFile(filename: "{escaped(name)}", directory: "{escaped(folder)}")'
        )

    def _unit(self, path: str) -> str:
        known = self._module.debug_nodes
        if "unit" not in known:
            known["unit"] = self._module.add_metadata(
                f"distinct !DICompileUnit(language: DW_LANG_C, file: {self._file(path)}, "
                'producer: "tritium", isOptimized: true, runtimeVersion: 0, '
                "emissionKind: DebugDirectivesOnly)"
            )
            flag = self._module.add_metadata('!{i32 2, !"Debug Info Version", i32 3}')
            self._module.named_metadata["llvm.dbg.cu"] = [known["unit"]]
            flags = self._module.named_metadata.setdefault("llvm.module.flags", [])
            flags.append(flag)
        return known["unit"]

    def _subprogram(self, name: str, path: str, line: int) -> str:
        unit, file = self._unit(path), self._file(path)
        kind = self._node(("type",), "!DISubroutineType(types: !{})")
        return self._node(
            ("function", name, path, line),
            f'distinct !DISubprogram(name: "{escaped(name)}", linkageName: "{escaped(name)}", '
            f"scope: {file}, file: {file}, line: {line}, type: {kind}, scopeLine: {line}, "
            f"spFlags: DISPFlagDefinition | DISPFlagOptimized, unit: {unit})",
        )


def _place(location: Attribute) -> FileLineColLoc | None:
    """The first place in a file that a location (no call site) names."""
    if location.__class__ is FileLineColLoc:  # locations have no subclasses
        return cast("FileLineColLoc", location)
    return next((p for part in parts_of(location) if (p := _place(part)) is not None), None)


def _call_site(location: Attribute) -> CallSiteLoc | None:
    """The call site that a location is, names and fused locations taken off."""
    if location.__class__ is CallSiteLoc:
        return cast("CallSiteLoc", location)
    if location.__class__ is FileLineColLoc:
        return None
    first = next(iter(parts_of(location)), None)
    return None if first is None else _call_site(first)


def _innermost_callee(location: Attribute) -> Attribute:
    """The location in the function that was inlined first, through however many calls."""
    site = _call_site(location)
    return location if site is None else _innermost_callee(site.caller)


@lru_cache(maxsize=4096)
def _definition(path: str, line: int) -> tuple[str, str, int]:
    """(name, file, first line) of the function around a line; the file's name if there is none."""
    text = linecache.getlines(path)
    for number in range(min(line, len(text)), 0, -1):
        match = _DEF.match(text[number - 1])
        if match is not None:
            return match[2], path, number
    return os.path.splitext(os.path.basename(path))[0], path, line
