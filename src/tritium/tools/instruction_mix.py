"""Instructions of an assembly text, counted by their opcode."""

from __future__ import annotations

import re
from collections import Counter

_COMMENT = re.compile(r"//.*|/\*.*?\*/|;.*$|\s#.*$")
_OPCODE = re.compile(r"^(?:\{\s*)?(?:@!?%?\w+\s+)?([A-Za-z_][\w.]*)(?=\s|$)")


def instruction_mix(text: str) -> Counter[str]:
    """The number of times that each opcode occurs in PTX, SASS or assembly: PTX's and SASS's up to
    the first dot (`ld.global.v4.b32` counts as `ld.global`)."""
    found: Counter[str] = Counter()
    for line in text.splitlines():
        code = _COMMENT.sub("", line).strip()
        if not code or (code[0] in ".$#{}()" and not code.startswith("{ ")) or code.endswith(":"):
            continue
        match = _OPCODE.match(code)
        if match:
            parts = match[1].split(".")
            memory = parts[0] in ("ld", "st", "atom", "red", "cp", "ldmatrix")
            found[".".join(parts[: 2 if memory else 1])] += 1
    return found
