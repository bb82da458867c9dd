"""The lines of each stage's text, with the source line that each came from."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tritium.ir.locations import UNKNOWN, LocationSyntaxError, parse_location, source_position

Place = tuple[str, int]
"""A file and a line."""


@dataclass(frozen=True)
class Line:
    """A line of a stage, where in the source it came from, and how many registers hold something
    there, if these are known."""

    text: str
    place: Place | None
    live: int | None = None


_ALIAS = re.compile(r"^#(loc\d*) = loc\((.*)\)$")
_TRAILING = re.compile(r" loc\((#loc\d*|unknown)\)$")
_OF_ARGUMENT = re.compile(r' loc\("[^"]*"\(#loc\d*\)\)')


def ir_lines(text: str) -> list[Line]:
    """Lines of MLIR text: its locations are aliases at the ends of lines."""
    aliases = {m[1]: m[2] for line in text.splitlines() if (m := _ALIAS.match(line))}
    places: dict[str, Place | None] = {}

    def resolve(name: str) -> object:
        return parse_location(aliases[name], resolve) if name in aliases else UNKNOWN  # pyright: ignore

    def place_of(name: str) -> Place | None:
        if name not in places:
            try:
                found = source_position(resolve(name))  # pyright: ignore
            except LocationSyntaxError:
                found = None
            places[name] = found and (found[0], found[1])
        return places[name]

    lines: list[Line] = []
    for line in text.splitlines():
        if _ALIAS.match(line):
            continue
        match = _TRAILING.search(line)
        place = place_of(match[1][1:]) if match and match[1] != "unknown" else None
        lines.append(Line(_OF_ARGUMENT.sub("", _TRAILING.sub("", line)), place))
    return lines


_DEBUG = re.compile(r", !dbg !(\d+)")
_NODE = re.compile(r"^!(\d+) = (?:distinct )?!(DI\w+)\((.*)\)$", re.MULTILINE)
_FIELD = re.compile(r"(\w+): (?:!(\d+)|(\d+)|\"([^\"]*)\")")


def llvm_lines(text: str) -> list[Line]:
    """Lines of LLVM IR: `!dbg` names a node of the metadata."""
    nodes: dict[str, dict[str, str]] = {}
    for number, _, body in _NODE.findall(text):
        nodes[number] = {m[1]: m[2] or m[3] or m[4] or "" for m in _FIELD.finditer(body)}

    def file_of(number: str | None) -> str:
        for _ in range(64):
            node = nodes.get(number or "", {})
            if "filename" in node:
                folder = node.get("directory", "")
                name = node["filename"]
                return name if name.startswith("/") or not folder else f"{folder}/{name}"
            number = node.get("file") or node.get("scope")
        return ""

    lines: list[Line] = []
    for line in text.splitlines():
        match = _DEBUG.search(line)
        node = nodes.get(match[1]) if match else None
        place = None
        if node is not None and "line" in node:
            place = (file_of(node.get("scope")), int(node["line"]))
        if not _NODE.match(line):
            lines.append(Line(_DEBUG.sub("", line), place))
    return lines


_LOC = re.compile(r"^\s*\.loc\s+(\d+)\s+(\d+)")
_FILE = re.compile(r"^\s*\.file\s+(\d+)\s+(?:\"([^\"]*)\"\s+)?\"([^\"]*)\"", re.MULTILINE)


def assembly_lines(text: str) -> list[Line]:
    """Lines of PTX or assembly: `.loc` holds for what follows."""
    files = {m[1]: f"{m[2]}/{m[3]}" if m[2] else m[3] for m in _FILE.finditer(text)}
    place: Place | None = None
    lines: list[Line] = []
    for line in text.splitlines():
        match = _LOC.match(line)
        if match:
            place = (files.get(match[1], ""), int(match[2])) if match[2] != "0" else None
            continue
        code = line.strip()
        own = place if code and not code.startswith(("//", ".", "$", "#", "}")) else None
        lines.append(Line(line, own))
    return lines


_FUNCTION = re.compile(r"^Function:(\S+)")


def sass_lines(
    text: str, places: Mapping[str, Sequence[Place | None]],
    live: Mapping[str, Sequence[int]] | None = None,
) -> list[Line]:  # fmt: skip
    """Lines of SASS as `get_sass` lists it.

    Args:
        places: by function, of its instructions in order.
        live: by function, the registers that hold something at each instruction.
    """
    lines: list[Line] = []
    left: Iterator[Place | None] = iter(())
    counts: Iterator[int] = iter(())
    for line in text.splitlines():
        if match := _FUNCTION.match(line):
            left = iter(places.get(match[1], ()))
            counts = iter((live or {}).get(match[1], ()))
        code = "\t" in line
        lines.append(Line(line, next(left, None), next(counts, None)) if code else Line(line, None))
    return lines


_METADATA = re.compile(r", ![\w.]+ !\d+")


def placed(lines: Sequence[Line], located: Sequence[Line]) -> list[Line]:
    """Lines of code, with the places of the same code that was compiled with locations; as they are
    where that is not the same, instruction by instruction."""
    places = [(code, line.place) for line in located if (code := _instruction(line))]
    if [code for line in lines if (code := _instruction(line))] != [code for code, _ in places]:
        return list(lines)
    left = iter(places)
    return [replace(line, place=_known(next(left)[1])) if _instruction(line) else line
            for line in lines]  # fmt: skip


def _known(place: Place | None) -> Place | None:
    return place if place is not None and place[1] else None  # line 0: of no line


def _instruction(line: Line) -> str:
    """The text of an instruction; empty for other lines."""
    text = _METADATA.sub("", line.text).strip()
    indented = line.text.startswith(("\t", "  "))
    return text if indented and not text.startswith((".", "#", ";", "//")) else ""


STAGES: Mapping[str, tuple[Callable[[str], list[Line]], str]] = {
    "source": (ir_lines, "mlir"), "ttir": (ir_lines, "mlir"), "ttgir": (ir_lines, "mlir"),
    "tile": (ir_lines, "mlir"), "llir": (llvm_lines, "llvm"), "ptx": (assembly_lines, "gas"),
    "asm": (assembly_lines, "gas"), "amdgcn": (assembly_lines, "gas"),
    "sass": (assembly_lines, "gas"),
}  # fmt: skip
"""The reader of each stage's text, and its language (`highlight.lexer_for`)."""
