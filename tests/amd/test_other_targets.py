"""Compiling for AMD GPUs leaves what is compiled for others in the same process as it is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import tritium, tritium.language as tl
from tritium.compiler import ASTSource
from tritium.target import GPUTarget

@tritium.jit
def kernel(x, y, n, stride, B: tl.constexpr):
    i, j = tl.arange(0, B)[:, None], tl.arange(0, B)[None, :]
    acc = tl.zeros((B, B), tl.float32)
    for k in range(n):
        acc += tl.load(x + i * stride + j * 3 * stride + k) * tl.load(y + (i + k) * stride + j)
    tl.store(y + i * stride + j, acc)

def code(target, stage):
    kinds = {"x": "*fp32", "y": "*fp32", "n": "i32", "stride": "i32", "B": "constexpr"}
    return tritium.compile(ASTSource(kernel, kinds, {"B": 16}), target=target).asm[stage]

others = (GPUTarget("cuda", 80, 32), "ptx"), (GPUTarget("cpu", "haswell", 0), "asm")
before = [code(*other) for other in others]
code(GPUTarget("hip", "gfx942", 64), "amdgcn")
after = [code(*other) for other in others]
print([one == another for one, another in zip(before, after)])
"""


def test_code_for_other_targets(tmp_path: Path) -> None:
    """LLVM's options are the process's: one that is set for a target would be for all."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, check=False,
        env={**os.environ, "TRITON_ALWAYS_COMPILE": "1"},
    )  # fmt: skip
    assert done.stdout.strip() == "[True, True]", done.stdout + done.stderr
