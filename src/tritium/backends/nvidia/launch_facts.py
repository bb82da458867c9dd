"""Launch facts in PTX that Tritium did not write.

The text tells the parameters and the static shared memory. How much dynamic shared memory a launch
takes, and what a tensor map describes, is known to the maker alone.
"""

from __future__ import annotations

import re
from typing import Any

from tritium.errors import TritonError

_ENTRY = re.compile(r"\.entry\s+([\w$]+)\s*(?:\((.*?)\))?", re.DOTALL)
_PARAMETER = re.compile(
    r"\.param\s+(?:\.align\s+(?P<align>\d+)\s+)?\.(?P<type>\w+)\s*(?P<pointer>\.ptr[^,\[]*?)?"
    r"\s+(?P<name>[\w$]+)\s*(?:\[(?P<size>\d+)\])?$"
)
_DYNAMIC = re.compile(r"^\s*\.extern\s+\.shared\b[^;\[]*?([\w$]+)\s*\[\s*\]", re.MULTILINE)
_TYPES = {
    "s8": "i8", "u8": "i8", "b8": "i8", "s16": "i16", "u16": "i16", "b16": "i16", "f16": "f16",
    "s32": "i32", "u32": "i32", "b32": "i32", "f32": "f32", "f64": "f64",
    # A 64-bit integer is passed as a pointer, which callers may also give as an int.
    "s64": "*", "u64": "*", "b64": "*",
}  # fmt: skip
_LINE = 'tritium-kernel: {"facts": {"shared": BYTES}}'


def launch_facts(text: str, shared_is_known: bool) -> dict[str, Any]:
    """The facts for the metadata of a kernel.

    Args:
        text: PTX.
        shared_is_known: whether the bytes of dynamic shared memory have been stated.

    Raises: `PTXError` that names what the text does not say.
    """
    entry = _ENTRY.search(text)
    if entry is None:
        raise PTXError("the PTX defines no kernel: it has no .entry")
    name = entry[1]
    dynamic = _DYNAMIC.search(text)
    if dynamic is not None and not shared_is_known:
        raise PTXError(
            f"kernel '{name}' has dynamic shared memory (.extern .shared {dynamic[1]}[]), and "
            "its PTX does not say how much a launch takes; a line of comment (// in PTX, ; in "
            f"LLVM IR) {_LINE} says it"
        )
    listed = [p.strip() for p in (entry[2] or "").split(",")]
    return {
        "kernel_signature": [_type(name, i, p) for i, p in enumerate(filter(None, listed))],
        "tensordesc_meta": [], "shared": 0, "tmem_size": 0, "libraries": [],
        "global_scratch_size": 0, "global_scratch_align": 1,
        "profile_scratch_size": 0, "profile_scratch_align": 1,
    }  # fmt: skip


def _type(kernel: str, position: int, text: str) -> str:
    """A parameter's type as the launcher calls it."""
    match = _PARAMETER.match(text)
    if match is not None and match["pointer"]:
        return "*"
    if match is not None and match["size"] is None and match["type"] in _TYPES:
        return _TYPES[match["type"]]
    raise PTXError(
        f"kernel '{kernel}': parameter {position} ({text}) is no pointer or number; a tensor map "
        "or a struct cannot be passed to a kernel of another maker"
    )


class PTXError(TritonError, ValueError):
    """PTX that does not say what compiling or launching it needs."""
