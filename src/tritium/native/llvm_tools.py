"""Objects as text and text as objects, by programs of LLVM's: the LLVM of llvmlite has neither a
disassembler nor an assembler for GPUs."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from tritium.errors import TritonError

SETTING = "TRITIUM_LLVM_OBJDUMP_PATH"
ASSEMBLER = "TRITIUM_AMD_ASSEMBLER"
_ZIG = "ziglang"
"""The package of PyPI with a clang for all of LLVM's targets."""
NO_ASSEMBLER = (
    "it needs an assembler for AMD GPUs, which the LLVM of llvmlite has not: ROCm's clang, or that "
    f"of `pip install {_ZIG}`, is used where it is installed, and {ASSEMBLER} names another"
)


class AssemblyError(TritonError):
    """Assembly that the assembler refuses. `line`: the first such, from 1; 0 if it says none."""

    def __init__(self, message: str, line: int):
        super().__init__(message)
        self.line = line


def disassemble(code: bytes, cpu: str, chosen: str | None, folder: str) -> str:
    """The instructions of an object for a processor, by LLVM's name.

    Args:
        chosen: the path of the tool, if the user names one.
        folder: where it is looked for, beside the path.

    Raises: `RuntimeError` where there is no `llvm-objdump`, or one that does not know the
        processor or one of the instructions.
    """
    tool = chosen or shutil.which("llvm-objdump") or shutil.which("llvm-objdump", path=folder)
    if tool is None:
        raise RuntimeError(
            "disassembling needs llvm-objdump, which is not installed here: it is part of LLVM and "
            f"of ROCm; {SETTING} names one"
        )
    with tempfile.TemporaryDirectory() as place:
        path = Path(place, "kernel.o")
        path.write_bytes(code)
        command = [tool, "-d", "--no-show-raw-insn", f"--mcpu={cpu}", str(path)]
        try:
            done = subprocess.run(command, check=True, capture_output=True, text=True)
        except (OSError, subprocess.CalledProcessError) as error:
            said = getattr(error, "stderr", "")
            raise _too_old(tool, f"code for {cpu}", f"\n{error}\n{said}") from error
    if (word := re.search(r"^\s+\.long (\w+)", done.stdout, re.M)) is not None:
        raise _too_old(tool, f"the instruction {word[1]} of {cpu}")
    return done.stdout.replace(str(path), path.name)


def _too_old(tool: str, what: str, said: str = "") -> RuntimeError:
    return RuntimeError(
        f"{tool} cannot disassemble {what} (is it too old?); {SETTING} names another{said}"
    )


def assembler(chosen: str | None, folder: str) -> list[str] | None:
    """The command of a clang that assembles for GPUs: the one that the user names, ROCm's in
    `folder`, or that of the package `ziglang`. None where there is none."""
    if program := chosen or shutil.which("clang", path=folder):
        return [program]
    found = importlib.util.find_spec(_ZIG)
    if found is None or not found.submodule_search_locations:
        return None
    return [str(Path(found.submodule_search_locations[0], "zig")), "clang"]


def assemble(text: str, cpu: str, triple: str, command: list[str]) -> bytes:
    """The object that clang makes of assembly for a processor, by LLVM's name.

    Raises: `AssemblyError` for text that it refuses, `RuntimeError` if it does not run.
    """
    with tempfile.TemporaryDirectory() as place:
        source, target = Path(place, "kernel.s"), Path(place, "kernel.o")
        source.write_text(text, encoding="utf-8")
        how = ["-target", triple, f"-mcpu={cpu}", "-x", "assembler", "-c"]
        try:
            done = subprocess.run(
                [*command, *how, str(source), "-o", str(target)], capture_output=True, text=True
            )
        except OSError as error:
            raise RuntimeError(f"{ASSEMBLER}: {' '.join(command)} does not run: {error}") from error
        if done.returncode:
            said = done.stderr.replace(f"{place}/", "")
            first = re.search(r"kernel\.s:(\d+):\d+: error.*\n.*\n.*\n", said)
            message = (
                f"{' '.join(command)} cannot assemble this for {cpu}; if it is too old for the "
                f"processor, {ASSEMBLER} names another\n{first[0] if first else said}"
            )
            raise AssemblyError(message, int(first[1]) if first else 0)
        return target.read_bytes()
