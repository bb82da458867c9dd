"""A kernel's source that tests of compiling share, and a launch of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.support.launching import add_kernel
from tritium.compiler import ASTSource, CompiledKernel

SIGNATURE = {"x": "*fp32", "y": "*fp32", "out": "*fp32", "n": "i32", "BLOCK": "constexpr"}
STAGES = ["source", "ttir", "tile", "llir", "obj"]


def source(block: int = 16, **attrs: Any) -> ASTSource:
    return ASTSource(add_kernel, SIGNATURE, {"BLOCK": block}, **attrs)


def run(kernel: CompiledKernel, block: int = 16) -> np.ndarray:
    x = np.arange(block, dtype=np.float32)
    out = np.zeros_like(x)
    kernel[(1, 1, 1)](x, x, out, block, block)
    return out
