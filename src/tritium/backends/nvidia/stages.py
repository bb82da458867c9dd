"""The NVIDIA backend's stages; imported when a kernel is compiled, not when it is launched."""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from tritium import knobs
from tritium.backends.nvidia import ptx
from tritium.backends.nvidia.assembler_runs import AssemblerRun
from tritium.backends.nvidia.launch_facts import launch_facts
from tritium.backends.nvidia.lower.registrations import hardware
from tritium.backends.nvidia.options import CUDAOptions, assembler
from tritium.backends.nvidia.processor import processor
from tritium.backends.nvidia.remarks import remark_on, remark_on_resources
from tritium.backends.pipeline import instrument, run_pipeline
from tritium.backends.pipeline import make_ttir as make_ttir
from tritium.codegen.gpu.module import lower_to_llvm, shared_bytes
from tritium.codegen.llvm.bitcode import passes_asked_for
from tritium.ops.attributes import FLATTEN, WARP_SPECIALIZE
from tritium.ops.base import Op
from tritium.passes import pipelines
from tritium.passes.ttgir.accelerate_matmul import has_computed_operands
from tritium.passes.ttgir.descriptors_to_tma import LATE, has_stores_in_loops
from tritium.passes.ttgir.operands.reload_operands import ReloadOperands, operands_to_reload
from tritium.passes.ttgir.tensor_cores.hoist_tensor_memory import (
    HoistTensorMemory,
    nested_allocations,
)
from tritium.passes.ttgir.warp_specialize import may_split

_ENTRY = re.compile(r"\.entry\s+([\w$]+)")


def make_ttgir(module: Any, metadata: dict[str, Any], arch: int, options: CUDAOptions) -> Any:
    """Choose layouts, use shared memory and the tensor cores, copy ahead. Loops that ask for what
    takes more shared memory than there is get less of it."""
    instrument(module, metadata, options.instrumentation_mode)
    asking = [op for op in module.walk() if {FLATTEN, WARP_SPECIALIZE} & op.attributes.keys()]
    automatic = knobs.nvidia.auto_warp_specialize and may_split(module)
    stores = processor(arch).bulk_copies is not None and has_stores_in_loops(module)
    late = list(LATE if stores else LATE[-1:])
    computed, registers = has_computed_operands(module, processor(arch)), False
    again = asking or automatic or stores or computed
    target, original = hardware(arch), module.clone() if again else None
    off = knobs.nvidia.disable_mma_v3 if arch < 100 else knobs.nvidia.disable_mma_v5
    flatten, spare = any(FLATTEN in op.attributes for op in asking), 0
    tight = list[Any]()
    while True:
        passes = pipelines.ttgir(
            processor(arch), options.num_warps, options.num_stages, options.num_ctas,
            wgmma=not off, flatten=flatten, spare=spare,
            automatic=automatic, late=late[0], registers=registers, reload=False,
        )  # fmt: skip
        run_pipeline(module, passes, "make_ttgir")
        excess = shared_bytes(module, target) - target.max_shared if original is not None else 0
        split = excess > 0 and any(op.concurrent for op in module.walk() if isinstance(op, Op))
        more = late[1:] or (computed and not registers)
        if original is None or excess <= 0 or not (split or flatten or more):
            break
        if late[1:]:
            late = late[1:]
        elif automatic:
            automatic = False
        elif split:
            spare += excess
        elif flatten:
            flatten = False
            # What loads ahead lives as long as the fused loop, beside the epilogue's scratch.
            tight = [op for op in asking if FLATTEN in op.attributes]
        else:
            registers = True
        module = original.clone()
    module = _with_reloaded_operands(module, target)
    why = ("the loop is not flattened, as it would need more shared memory than the "
           f"{target.max_shared} bytes that a block may have")  # fmt: skip
    remark_on(module, arch, options.num_stages, [(op, why) for op in tight])
    return module


def _with_reloaded_operands(module: Any, target: Any) -> Any:
    """A module whose loops hold fewer operands than there are registers, if shared memory has room
    for them."""
    if not operands_to_reload(module):
        return module
    reloaded = module.clone()
    run_pipeline(reloaded, [ReloadOperands()], "make_ttgir")
    return reloaded if shared_bytes(reloaded, target) <= target.max_shared else module


class Assembly:
    """The run of ptxas of one compilation, which begins while the PTX is made."""

    def __init__(self, arch: int, options: CUDAOptions):
        self.arch, self.options = arch, options
        self.run: AssemblerRun | None = None

    def arguments(self) -> list[str]:
        """The options of ptxas, as settings are now."""
        return ptx.ptxas_arguments(
            self.arch, enable_fp_fusion=self.options.enable_fp_fusion,
            line_info=not knobs.compilation.disable_line_info, options=self.options.ptx_options,
        )  # fmt: skip

    @contextmanager
    def begun(self) -> Generator[None]:
        """Begin the run, and end it where what is done meanwhile fails."""
        tool = assembler(self.arch)
        if self.run is None and tool is not None:
            self.run = AssemblerRun(tool.path, self.arguments())
        try:
            yield
        except BaseException:
            if self.run is not None:
                self.run.close()
            raise


def make_llir(module: Any, metadata: dict[str, Any], arch: int, options: CUDAOptions) -> str:
    """LLVM IR of one thread; the metadata gets what launching needs to know."""
    line_info = not knobs.compilation.disable_line_info
    if next(nested_allocations(module), None) is not None:
        module = run_pipeline(module.clone(), [HoistTensorMemory()], "make_llir")
    text, facts = lower_to_llvm(module, hardware(arch), options, line_info=line_info)
    metadata.update(facts)
    return text


def make_ptx(text: str, metadata: dict[str, Any], arch: int, options: CUDAOptions) -> str:
    """PTX of the asked version, or of the newest that ptxas reads."""
    tool = assembler(arch)
    version = options.ptx_version or ptx.ptx_version(tool.version if tool else None)
    metadata["ptx_version"] = version
    optimize, flags = passes_asked_for()
    libraries = [path for _, path in options.extern_libs] + metadata.get("libraries", [])
    result = ptx.emit_ptx(text, arch, version, optimize=optimize, libraries=libraries, flags=flags)
    if knobs.nvidia.dump_nvptx:
        print(f"// -----// NVPTX Dump //----- //\n{result}")
    return result


def make_cubin(text: str, metadata: dict[str, Any], assembly: Assembly) -> bytes:
    """Machine code; without ptxas the PTX for the driver (see `ptx`)."""
    if (entry := _ENTRY.search(text)) is not None:  # what the driver is to look for
        metadata["name"] = entry[1]
    if "kernel_signature" not in metadata:  # the text is not ours
        for name, value in launch_facts(text, "shared" in metadata).items():
            metadata.setdefault(name, value)
    binary, log = ptx.assemble(text, assembly.arch, assembly.arguments(), assembly.run)
    facts = ptx.report(log)
    metadata.update(facts)
    if log:
        messages = ptx.performance_messages(log, assembly.options.maxnreg)
        remark_on_resources(metadata["name"], facts, metadata["shared"], messages)
    return binary
