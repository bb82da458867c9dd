"""The AMD backend's stages; imported when a kernel is compiled, not when it is launched."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from tritium import knobs
from tritium.backends.amd import amdgcn
from tritium.backends.amd.lower import barriers as barriers  # registers its rules
from tritium.backends.amd.lower import copies as copies
from tritium.backends.amd.lower import hints as hints
from tritium.backends.amd.lower import tensors as tensors
from tritium.backends.amd.lower.hardware import AMDGPU
from tritium.backends.amd.options import HIPOptions
from tritium.backends.amd.processor import processor, waves_beside_lds
from tritium.backends.pipeline import instrument, run_pipeline
from tritium.backends.pipeline import make_ttir as make_ttir
from tritium.codegen.gpu.module import lower_to_llvm, shared_bytes
from tritium.codegen.llvm.bitcode import passes_asked_for
from tritium.errors import OutOfResources
from tritium.native.code_object import link, link_with, resources
from tritium.ops.base import Op
from tritium.passes import Pass, pipelines
from tritium.passes.ttgir.warp_specialize import WarpSpecialize
from tritium.target import Processor


def make_ttgir(module: Any, metadata: dict[str, Any], options: HIPOptions) -> Any:
    """Choose layouts, use shared memory and the matrix units. Loops that would need more LDS than
    there is have fewer stages."""
    instrument(module, metadata, options.instrumentation_mode)
    facts = replace(processor(options.arch), buffers=knobs.amd.use_buffer_ops)
    if not knobs.amd.use_buffer_atomics:
        facts = replace(facts, buffer_atomics=())
    if knobs.amd.use_in_thread_transpose is not None:
        facts = replace(facts, transposes_in_threads=knobs.amd.use_in_thread_transpose)
    hardware, least = AMDGPU(options.arch), options.num_stages
    loops = any(isinstance(op, Op) and op.is_loop for op in module.walk())
    passes = _passes(facts, options, least)
    if not loops:
        return run_pipeline(module, passes, "make_ttgir")
    # The passes before the first that is told of stages run once.
    same = next(i for i, item in enumerate(passes) if isinstance(item, WarpSpecialize))
    original = run_pipeline(module, passes[:same], "make_ttgir", verify=False)
    module = run_pipeline(original.clone(), passes[same:], "make_ttgir_of_loops")
    excess = shared_bytes(module, hardware) - hardware.max_shared
    while excess > 0 and least > 1:
        least -= 1
        passes = _passes(facts, options, least)[same:]
        fewer = run_pipeline(original.clone(), passes, "make_ttgir_of_loops")
        smaller = shared_bytes(fewer, hardware) - hardware.max_shared
        if smaller < excess:
            module, excess = fewer, smaller
    return module


def _passes(facts: Processor, options: HIPOptions, num_stages: int) -> list[Pass]:
    """The passes of the stage; loads of loops run at most `num_stages` ahead."""
    return pipelines.ttgir(
        facts, options.num_warps, num_stages,
        rows=options.matrix_instr_nonkdim, pack=options.kpack, direct=knobs.amd.use_async_copy,
    )  # fmt: skip


def make_llir(module: Any, metadata: dict[str, Any], options: HIPOptions) -> str:
    """LLVM IR of one thread; the metadata gets what launching needs to know."""
    line_info = not knobs.compilation.disable_line_info
    hardware = AMDGPU(options.arch)
    text, facts = lower_to_llvm(module, hardware, options, line_info=line_info)
    if facts["shared"] > hardware.max_shared:
        raise OutOfResources(facts["shared"], hardware.max_shared, "shared memory")
    metadata.update(facts, output=hardware.records.formats)
    return text


def make_amdgcn(text: str, metadata: dict[str, Any], options: HIPOptions) -> amdgcn.Code:
    """The code, as an object; the metadata gets registers and spills, and how the code is made.

    Where LLVM puts registers into scratch memory it is told how many waves there is LDS for, as it
    keeps registers free for more and may spill for their sake, and runs all of its IR passes.
    """
    libraries = (path for _, path in options.extern_libs)
    optimize, flags = passes_asked_for()
    how = amdgcn.How(
        options.arch, optimize, not knobs.amd.scalarize_packed_fops, options.wgp_cu_mode == "cu",
        libraries=(*libraries, *metadata.get("libraries", ())), flags=flags,
    )  # fmt: skip
    result = amdgcn.emit(text, how)
    report = resources(result.object)
    if report["scratch_bytes"] and amdgcn.WAVES not in text:
        warps = metadata.get("num_warps", options.num_warps)  # of llir from a file alone
        waves = waves_beside_lds(options.arch, warps, metadata.get("shared", 0))
        other = amdgcn.emit(text, replace(how, waves=waves, whole=True))
        found = resources(other.object)
        if found["scratch_bytes"] < report["scratch_bytes"]:
            result, report = other, found
    metadata.update(report, code=asdict(result.how))
    if knobs.amd.dump_amdgcn:
        print(f"// -----// AMDGCN Dump //----- //\n{result}")
    return result


def make_hsaco(code: Any, metadata: dict[str, Any]) -> bytes:
    """The code object of what `make_amdgcn` gave, or of assembly in its place.

    Raises: `NotImplementedError` for assembly alone, which does not say what a launch needs.
    """
    if isinstance(code, amdgcn.Code):
        object = code.object
    elif "kernel_signature" not in metadata:
        raise NotImplementedError(
            "assembly from a file alone, which does not say how the kernel is launched; replace "
            "the stage of a kernel by the file (TRITON_KERNEL_OVERRIDE), or compile its llir"
        )
    else:
        object = amdgcn.assembled(str(code), metadata["arch"])
        metadata.update(resources(object))
    return link_with(knobs.amd.lld_path, object) if knobs.amd.lld_path else link(object)
