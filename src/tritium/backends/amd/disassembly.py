"""Code objects as text, by LLVM's `llvm-objdump`: the LLVM of llvmlite has no disassembler."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from tritium import knobs

SETTING = "TRITIUM_LLVM_OBJDUMP_PATH"
_ROCM = "/opt/rocm/llvm/bin"


def disassemble(code: bytes, arch: str) -> str:
    """The instructions of a code object. Raises `RuntimeError` where there is no `llvm-objdump`, or
    one that does not know the processor."""
    tool = knobs.amd.objdump_path or shutil.which("llvm-objdump")
    tool = tool or shutil.which("llvm-objdump", path=_ROCM)
    if tool is None:
        raise RuntimeError(
            "disassembling needs llvm-objdump, which is not installed here: it is part of LLVM and "
            f"of ROCm; {SETTING} names one"
        )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernel.hsaco")
        path.write_bytes(code)
        command = [tool, "-d", "--no-show-raw-insn", f"--mcpu={arch}", str(path)]
        try:
            done = subprocess.run(command, check=True, capture_output=True, text=True)
        except (OSError, subprocess.CalledProcessError) as error:
            said = getattr(error, "stderr", "")
            raise RuntimeError(
                f"{tool} cannot disassemble code for {arch} (is it too old?); {SETTING} names "
                f"another\n{error}\n{said}"
            ) from error
    return done.stdout.replace(str(path), path.name)
