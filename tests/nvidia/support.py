"""Helpers for tests of the NVIDIA backend: kernels in ttgir, and lowering them without a GPU."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import tritium
from tritium.backends.nvidia import ptx
from tritium.backends.nvidia.lower.registrations import hardware
from tritium.backends.nvidia.options import CUDAOptions
from tritium.codegen.gpu.module import lower_to_llvm
from tritium.compiler import ASTSource
from tritium.ops.parsing import parse_module
from tritium.target import GPUTarget

KERNELS = Path(__file__).parent / "kernels"
"""ttgir that Triton 3.6 writes for small kernels, without locations."""

BLOCKED = (
    "#blocked = #ttg.blocked<{sizePerThread = [4], threadsPerWarp = [32], warpsPerCTA = [4], "
    "order = [0]}>\n"
)


def kernel_text(body: str, arguments: str, *, warps: int = 4, head: str = BLOCKED) -> str:
    """A ttgir module with one kernel `k`."""
    return (
        f'{head}module attributes {{"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = {warps} : i32, '
        f'ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32}} {{\n'
        f"  tt.func public @k({arguments}) {{\n{body}\n    tt.return\n  }}\n}}\n"
    )


def lowered(text: str, arch: int = 90, **options: Any) -> tuple[str, dict[str, Any]]:
    """LLVM IR of a ttgir module, and the facts for its metadata."""
    module = parse_module(text)
    module.verify()
    return lower_to_llvm(module, hardware(arch), CUDAOptions(**options))


def to_ptx(text: str, arch: int = 90, **options: Any) -> str:
    """PTX of a ttgir module."""
    return ptx.emit_ptx(lowered(text, arch, **options)[0], arch, 87)


def compiled(
    fn: Any, signature: str, arch: int = 90, *, aligned: bool = False, **options: Any
) -> Any:
    """A kernel's stages; `signature` are the types of its arguments; `aligned`: they are multiples
    of 16."""
    kinds = dict(zip(fn.arg_names, signature.split(), strict=True))
    attrs = {(i,): [["tt.divisibility", 16]] for i in range(len(kinds) if aligned else 0)}
    source = ASTSource(fn, kinds, {}, attrs)
    return tritium.compile(source, target=GPUTarget("cuda", arch, 32), options=options)


def in_order(text: str, *patterns: str) -> None:
    """Assert that the patterns (regular expressions) match in `text`, one after the other."""
    at = 0
    for pattern in patterns:
        found = re.compile(pattern).search(text, at)
        assert found is not None, f"{pattern!r} does not follow in:\n{text[at:]}"
        at = found.end()
