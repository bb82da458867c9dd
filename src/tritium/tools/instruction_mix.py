"""Instructions of an assembly text, counted by their opcode."""

from __future__ import annotations

import re
from collections import Counter

_COMMENT = re.compile(r"//.*|/\*.*?\*/|;.*$|\s#.*$")
_SCHEDULE = re.compile(r"^[\w-]+:[\w-]+:[\w-]+:[\w-]+:\w+\s+")
"""The schedule before an instruction of SASS, as `backends/nvidia/sass.py` writes it."""
_OPCODE = re.compile(r"^(?:@!?%?\w+\s+)?([A-Za-z_][\w.]*)(?=\s|$)")

_FAMILIES = {"ld", "st", "atom", "red", "cp", "ldmatrix", "wgmma", "tcgen05"}
"""The first parts of opcodes that say little without the second."""


def without_schedule(line: str) -> str:
    """A line of SASS without what the hardware is told of its schedule; other lines as they are."""
    return _SCHEDULE.sub("", line)


def instruction_mix(text: str) -> Counter[str]:
    """The number of times that each opcode occurs in PTX, SASS or assembly: PTX's and SASS's up to
    the first dot (the second one for families, `ld.global.v4.b32` counts as `ld.global`)."""
    found: Counter[str] = Counter()
    for line in text.splitlines():
        line = without_schedule(line).strip()
        group = line.startswith("{ ")  # of PTX, several instructions
        for piece in line[2:].split(";") if group else [_COMMENT.sub("", line)]:
            code = piece.strip()
            if not code or code[0] in ".$#{}()" or code.endswith(":"):
                continue
            match = _OPCODE.match(code)
            if match:
                parts = match[1].split(".")
                found[".".join(parts[: 2 if parts[0] in _FAMILIES else 1])] += 1
    return found
