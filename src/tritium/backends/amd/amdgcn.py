"""LLVM IR text to assembly and an object, by LLVM's AMDGPU target (llvmlite)."""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Sequence
from typing import Any

import llvmlite.binding as llvm

from tritium import forking
from tritium.codegen.llvm.bitcode import link_files, make_internal

TRIPLE = "amdgcn-amd-amdhsa"
_lock = forking.held_while_forking(threading.RLock())


_NOT_SELECTED = re.compile(
    r"^declare .*constrained\.(fdiv|sqrt|[su]itofp\.f\d+\.i64)\.?", re.MULTILINE
)
"""Operations rounded in one direction for which LLVM ends the process on this target."""


class Assembly(str):
    """Assembly text. `code`: the object that LLVM wrote of the same code, as it has no assembler
    here."""

    code: bytes = b""


@functools.cache
def machine(arch: str) -> Any:
    """LLVM's target machine of a processor."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    features = "-real-true16" if arch.startswith("gfx11") else ""
    made = llvm.Target.from_triple(TRIPLE).create_target_machine(
        cpu=arch, features=features, opt=3, reloc="pic", codemodel="default"
    )
    made.set_asm_verbosity(True)  # the resources of a kernel, as comments
    return made


def data_layout(arch: str) -> str:
    """LLVM's data layout of a processor."""
    with _lock:
        return str(machine(arch).target_data)


def emit(
    text: str, arch: str, *, optimize: bool = True, packed: bool = True,
    libraries: Sequence[str] = (),
) -> Assembly:  # fmt: skip
    """The assembly of a module.

    Args:
        text: LLVM IR.
        arch: LLVM's name of the processor.
        optimize: run IR passes.
        packed: let one instruction compute two floats.
        libraries: paths of LLVM bitcode that the module calls.

    Raises: `RuntimeError` if the text is not valid IR (a defect of lowering, or of an override),
    and for functions that are in no library; `NotImplementedError` for what LLVM has no code for.
    """
    if (missing := _NOT_SELECTED.search(text)) is not None:
        raise NotImplementedError(f"{missing[1]} rounded in one direction on AMD GPUs")
    with _lock, llvm.create_context() as context:
        try:
            module = llvm.parse_assembly(text, context=context)
            module.verify()
        except RuntimeError as error:
            raise RuntimeError(f"invalid LLVM IR: {error}") from error
        with module:
            _link(module, libraries, context)
            _optimize(module, machine(arch), 2 if optimize else 0, packed)
            bitcode = module.as_bitcode()  # code generation changes the module
            result = Assembly(machine(arch).emit_assembly(module))
        with llvm.parse_bitcode(bitcode, context=context) as module:
            result.code = machine(arch).emit_object(module)
    return result


def _link(module: Any, libraries: Sequence[str], context: Any) -> None:
    own = {f.name for f in module.functions if not f.is_declaration}
    link_files(module, libraries, context)
    make_internal(module, own)
    missing = sorted(
        f.name for f in module.functions if f.is_declaration and not f.name.startswith("llvm.")
    )
    if missing:
        raise RuntimeError(
            f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} in none of the libraries "
            f"({', '.join(libraries) or 'there are none'}); extern_libs names them"
        )


def _optimize(module: Any, target: Any, level: int, packed: bool) -> None:
    tuning = llvm.create_pipeline_tuning_options(speed_level=level)
    tuning.loop_vectorization = tuning.loop_unrolling = False
    tuning.slp_vectorization = packed
    builder = llvm.create_pass_builder(target, tuning)
    builder.getModulePassManager().run(module, builder)


_COUNTS = {
    "n_regs": r"^\s*\.vgpr_count:\s*(\d+)", "n_spills": r"^\s*\.vgpr_spill_count:\s*(\d+)",
    "scratch_bytes": r"^; ScratchSize: (\d+)", "occupancy": r"^; Occupancy: (\d+)",
}  # fmt: skip


def report(text: str) -> dict[str, int]:
    """Registers of a thread, those spilled, bytes of scratch memory, and waves that a SIMD has room
    for, from assembly."""
    found = {name: re.findall(form, text, re.M) for name, form in _COUNTS.items()}
    return {name: int(numbers[-1]) if numbers else 0 for name, numbers in found.items()}
