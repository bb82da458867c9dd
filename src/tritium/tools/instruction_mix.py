"""Instructions of an assembly text, counted by their opcode."""

from __future__ import annotations

import re
from collections import Counter

_COMMENT = re.compile(r"//.*|/\*.*?\*/|;.*$|\s#.*$")
_SCHEDULE = re.compile(r"^[\w-]+:[\w-]+:[\w-]+:[\w-]+:\w+\s+")
"""The schedule before an instruction of SASS, as `backends/nvidia/sass.py` writes it."""
_OPCODE = re.compile(r"^(?:\{\s*)?(?:@!?%?\w+\s+)?([A-Za-z_][\w.]*)(?=\s|$)")


def without_schedule(line: str) -> str:
    """A line of SASS without what the hardware is told of its schedule; other lines as they are."""
    return _SCHEDULE.sub("", line)


def instruction_mix(text: str) -> Counter[str]:
    """The number of times that each opcode occurs in PTX, SASS or assembly: PTX's and SASS's up to
    the first dot (`ld.global.v4.b32` counts as `ld.global`)."""
    found: Counter[str] = Counter()
    for line in text.splitlines():
        code = _COMMENT.sub("", without_schedule(line)).strip()
        if not code or (code[0] in ".$#{}()" and not code.startswith("{ ")) or code.endswith(":"):
            continue
        match = _OPCODE.match(code)
        if match:
            parts = match[1].split(".")
            memory = parts[0] in ("ld", "st", "atom", "red", "cp", "ldmatrix")
            found[".".join(parts[: 2 if memory else 1])] += 1
    return found
