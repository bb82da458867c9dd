"""Disassembly of compiled kernels: `get_sass(kernel.asm["cubin"])`, which is `kernel.asm["sass"]`.

The names are the reference's; `backends/nvidia/sass.py` does the work.
"""

from tritium.backends.nvidia.sass import (
    disassemble,
    get_sass,
    parse_control,
    parse_instruction,
    path_to_cuobjdump,
)

__all__ = ["extract", "get_sass", "parseCtrl", "path_to_cuobjdump", "processSassLines"]


def extract(file_path: str, fun: str | None) -> str:
    """The machine code in a cubin file as text; see `get_sass`."""
    return disassemble(file_path, fun)


def parseCtrl(sline: str) -> str:
    """The schedule in an instruction's second line: `wait:read:write:yield:stall`."""
    return parse_control(sline)


def processSassLines(fline: str, sline: str, labels: dict[int, int]) -> tuple[str, str]:
    """(schedule, text) of an instruction of two lines; adds a branch's target to `labels`."""
    return parse_instruction(fline, sline, labels)
