"""Objects in ELF files as text, by LLVM's `llvm-objdump`: the LLVM of llvmlite has no
disassembler."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

SETTING = "TRITIUM_LLVM_OBJDUMP_PATH"


def disassemble(code: bytes, cpu: str, chosen: str | None, folder: str) -> str:
    """The instructions of an object for a processor, by LLVM's name.

    Args:
        chosen: the path of the tool, if the user names one.
        folder: where it is looked for, beside the path.

    Raises: `RuntimeError` where there is no `llvm-objdump`, or one that does not know the
        processor.
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
            raise RuntimeError(
                f"{tool} cannot disassemble code for {cpu} (is it too old?); {SETTING} names "
                f"another\n{error}\n{said}"
            ) from error
    return done.stdout.replace(str(path), path.name)
