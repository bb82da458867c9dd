"""Machine code of NVIDIA GPUs as text, by the toolkit's `cuobjdump`.

Each instruction comes with what the hardware is told of its schedule, the upper bits of its 128
(Jia et al., "Dissecting the NVIDIA Volta GPU architecture via microbenchmarking", 2018):

    wait:read:write:yield:stall <tab> instruction
    04:-:2:Y:6                        LDG.E R8, desc[UR4][R8.64];

`wait` is the mask of the barriers that are waited for, `read` and `write` the barriers that are
raised when operands are read and the result is written, `Y` lets another warp go first, and `stall`
is cycles (in hexadecimal) until the next instruction. Targets of branches are labels.
"""

from __future__ import annotations

import functools
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tritium import knobs

_CODE = re.compile(r"/\*\s*0x([0-9a-fA-F]{16})\s*\*/")
_INSTRUCTION = re.compile(r"^\s*/\*([0-9a-fA-F]+)\*/\s+(.*?)\s*;")
_FUNCTION = re.compile(r"^\s*Function\s*:\s*(\S+)")
_TARGET = re.compile(r"^((?:@!?U?P\w+\s+)?(?:BRA|BRX|BSSY|CALL|JMP|WARPSYNC)\b.*?)\b0x([0-9a-f]+)$")


def path_to_cuobjdump() -> str:
    """The path of the disassembler. Raises `RuntimeError` if there is none."""
    tool = knobs.nvidia.cuobjdump
    if tool is None:
        raise RuntimeError(
            "disassembling needs cuobjdump, which is not installed here: it is part of the CUDA "
            "toolkit; TRITON_CUOBJDUMP_PATH names one"
        )
    return tool.path


def control(word: int) -> str:
    """The schedule in the second half of an instruction: `wait:read:write:yield:stall`."""
    bits = word >> 41
    stall, stays, write, read, wait = (
        bits & 15, bits >> 4 & 1, bits >> 5 & 7, bits >> 8 & 7, bits >> 11 & 63
    )  # fmt: skip
    shown = [f"{wait:02d}" if wait else "--"]
    shown += ["-" if barrier == 7 else str(barrier) for barrier in (read, write)]
    return ":".join([*shown, "-" if stays else "Y", f"{stall:x}"])


def parse_control(line: str) -> str:
    """`control` of a line that holds the second half. Raises `ValueError` for any other."""
    found = _CODE.search(line)
    if found is None:
        raise ValueError(f"no second half of an instruction: {line!r}")
    return control(int(found[1], 16))


def parse_instruction(first: str, second: str, labels: dict[int, int]) -> tuple[str, str]:
    """(schedule, text) of an instruction from its two lines. A branch's target is added to
    `labels`: its address, and the label's number. Raises `ValueError` for other lines."""
    found = _INSTRUCTION.match(first)
    if found is None:
        raise ValueError(f"no instruction: {first!r}")
    text = found[2]
    if target := _TARGET.match(text):
        labels.setdefault(int(target[2], 16), len(labels))
    return parse_control(second), f"{text};"


def disassemble(path: str, function: str | None = None) -> str:
    """All functions of a cubin file, or one; nothing if it has none of that name."""
    command = [path_to_cuobjdump(), "-sass", path]
    if function is not None:
        command[1:1] = ["-fun", function]
    tool = knobs.nvidia.nvdisasm  # cuobjdump has it do the work
    folders = [os.path.dirname(tool.path)] if tool else []
    env = knobs.child_environment(
        PATH=os.pathsep.join([*folders, knobs.getenv("PATH", os.defpath) or os.defpath])
    )
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    if done.returncode != 0:
        raise RuntimeError(
            f"cuobjdump failed (exit status {done.returncode}): {done.stderr.strip()}"
        )
    return "\n".join(_functions(done.stdout.splitlines()))


_SECTION = re.compile(r"^\.text\.(\S+):")
_REGISTER_COUNT = re.compile(rb"(\x04\x2f\x08\0.{4})\xff\0\0\0", re.DOTALL)
"""EIATTR_REGCOUNT of a function that has 255 registers, which `nvdisasm` takes for invalid where it
looks for what is alive."""
_LIVE = re.compile(r"// \|\s*(\d*)\s*\|")
_LINE = re.compile(r"^\s*//## File \"([^\"]*)\", line (\d+)")


@functools.lru_cache(maxsize=64)
def instruction_places(cubin: bytes) -> Mapping[str, Sequence[tuple[str, int] | None]]:
    """The file and the line of each instruction, by function, as `nvdisasm` tells them;
    nothing where that is not installed or cannot read the cubin."""
    return parse_places(_nvdisasm(cubin, "-g"))


@functools.lru_cache(maxsize=64)
def live_registers(cubin: bytes) -> Mapping[str, Sequence[int]]:
    """The number of registers that hold something at each instruction, by function, as `nvdisasm`
    tells; nothing where that is not installed, or older than the cubin."""
    fewer = _REGISTER_COUNT.sub(lambda count: count[1] + b"\xfe\0\0\0", cubin)
    return parse_live(_nvdisasm(fewer, "-lrm", "count"))


def _nvdisasm(cubin: bytes, *options: str) -> str:
    """The text that `nvdisasm` prints; nothing where there is none or it cannot read the cubin."""
    tool = knobs.nvidia.nvdisasm
    if tool is None:
        return ""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        done = subprocess.run([tool.path, *options, "-c", str(path)], capture_output=True,
                              text=True, check=False)  # fmt: skip
    return done.stdout if done.returncode == 0 else ""


def parse_places(printed: str) -> dict[str, list[tuple[str, int] | None]]:
    """`instruction_places` of what `nvdisasm -g` prints: a comment names the line of what
    follows."""
    found: dict[str, list[tuple[str, int] | None]] = {}
    places: list[tuple[str, int] | None] = []
    place: tuple[str, int] | None = None
    for line in printed.splitlines():
        if section := _SECTION.match(line):
            places = found.setdefault(section[1], [])
            place = None
        elif comment := _LINE.match(line):
            place = comment[1], int(comment[2])
        elif _INSTRUCTION.match(line):
            places.append(place)
    return found


def parse_live(printed: str) -> dict[str, list[int]]:
    """`live_registers` of what `nvdisasm -lrm count` prints: the first column behind an instruction
    has the general registers, and is empty for none."""
    found: dict[str, list[int]] = {}
    live: list[int] = []
    for line in printed.splitlines():
        if section := _SECTION.match(line):
            live = found.setdefault(section[1], [])
        elif (count := _LIVE.search(line)) and _INSTRUCTION.match(line):
            live.append(int(count[1] or 0))
    return found


def _functions(lines: list[str]) -> Iterator[str]:
    name: str | None = None
    code: dict[int, tuple[str, str]] = {}
    labels: dict[int, int] = {}
    for number, line in enumerate([*lines, "Function : end"]):
        if found := _FUNCTION.match(line):
            if name is not None:
                yield _listing(name, code, labels)
            name, code, labels = found[1], {}, {}
        elif (found := _INSTRUCTION.match(line)) and number + 1 < len(lines):
            code[int(found[1], 16)] = parse_instruction(line, lines[number + 1], labels)


def _listing(name: str, code: dict[int, tuple[str, str]], labels: dict[int, int]) -> str:
    lines = [f"Function:{name}"]
    for address, (schedule, text) in code.items():
        if address in labels:
            lines.append(f"LBB{labels[address]}:")
        target = _TARGET.match(text.rstrip(";"))
        if target and int(target[2], 16) in code:
            text = f"{target[1]}LBB{labels[int(target[2], 16)]};"
        lines.append(f"{schedule}\t{text}")
    return "\n".join([*lines, "\n"])


@functools.lru_cache(maxsize=64)
def get_sass(cubin_asm: bytes, fun: str | None = None) -> str:
    """The machine code in a cubin as text, of all its functions or of one. Raises `RuntimeError`
    where there is no disassembler or the bytes are no cubin, `TypeError` for no bytes."""
    given: Any = cubin_asm
    if not isinstance(given, bytes):
        raise TypeError(f"get_sass: cubin_asm is {given!r:.80}; the bytes of a cubin are required, "
                        "as kernel.asm['cubin'] is")  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin_asm)
        return disassemble(str(path), fun)
