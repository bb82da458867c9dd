"""The CPU backend's stages, each from the previous stage's result to its own."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import ModuleOp

from tritium.analysis.writes import written_arguments
from tritium.backends.cpu.lower.module import lower_to_llvm
from tritium.backends.cpu.remarks import remark_on
from tritium.backends.cpu.tiles.build import lower_to_tiles
from tritium.backends.cpu.tiles.ir import kernel_of
from tritium.backends.pipeline import make_ttir as make_ttir
from tritium.backends.pipeline import run_pipeline
from tritium.native.host import CPU
from tritium.native.loader import compile_ir


def make_tiles(
    module: ModuleOp, metadata: dict[str, Any], processor: CPU, mode: str = ""
) -> ModuleOp:
    """Fuse into loop nests over tiles; `mode` names the sanitizer's checks to put in before."""
    if mode:
        from tritium.sanitize.passes import sanitizer  # which few kernels are compiled with

        checks, metadata["sanitizer"] = sanitizer(module, mode)
        run_pipeline(module, checks, "sanitize")
    module = lower_to_tiles(module, processor)
    remark_on(module)
    return module


def make_llir(
    module: ModuleOp, metadata: dict[str, Any], processor: CPU, fuse: bool
) -> str:
    """Write LLVM IR for a processor; finds out how much scratch memory a thread needs, and which
    pointer arguments are written through."""
    metadata["written_args"] = sorted(written_arguments(kernel_of(module)))
    text, facts = lower_to_llvm(module, processor, fuse)
    # Programs for GPUs divide a device's `max_shared_mem` by it, and take what results.
    metadata["shared"] = min(max(facts.get("scratch_bytes", 0), 64), processor.l2)
    metadata.update(facts)
    return text


def make_object(text: str, metadata: dict[str, Any], processor: CPU) -> bytes:
    """Compile for a processor."""
    return compile_ir(text, opt=metadata.get("llvm_opt"), processor=processor)
