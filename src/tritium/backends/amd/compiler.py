"""The AMD backend's compiler: the stages ttir -> ttgir -> llir -> amdgcn -> hsaco.

The stages themselves are in `stages`.

    ttir    the frontend's IR, inlined and simplified
    ttgir   the same with layouts and shared memory
    llir    LLVM IR of one thread (`lower/`)
    amdgcn  the assembly that LLVM makes of it (`amdgcn`)
    hsaco   the code object that the HIP runtime loads (`native.code_object`)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tritium import knobs
from tritium.backends.amd.libhip import is_small
from tritium.backends.amd.options import HIPOptions, compiled_arch, make_options, warn_of_knobs
from tritium.backends.amd.processor import processor as amd_processor
from tritium.backends.base import BaseBackend, Language, Stage, stage_method
from tritium.backends.gpu_compiler import GPUBackend, llvmlite_version
from tritium.ops.attributes import POINTER_RANGE
from tritium.target import GPUTarget, Processor


class HIPBackend(GPUBackend):
    """Compiles for AMD GPUs."""

    binary_ext, binary_title, late_stages = "hsaco", "code object", ("amdgcn",)
    make_amdgcn, make_hsaco = stage_method("amdgcn"), stage_method("hsaco")
    supports_native_tensor_specialization = False

    @staticmethod
    def supports_target(target: GPUTarget) -> bool:
        return target.backend == "hip"

    def __init__(self, target: GPUTarget):
        super().__init__(target)
        lanes = amd_processor(target.arch).lanes
        if target.warp_size not in (0, lanes):  # 0: whatever the processor has
            raise ValueError(
                f"GPUTarget('hip', {target.arch!r}, {target.warp_size}): waves have {lanes} lanes"
            )
        self.arch = str(target.arch)

    @staticmethod
    def processor(target: GPUTarget) -> Processor:
        return amd_processor(target.arch)

    def hash(self) -> str:
        return f"{llvmlite_version()}-{self.arch}"

    def parse_options(self, options: dict[str, Any]) -> HIPOptions:
        return make_options(options, compiled_arch(self.arch))

    def add_stages(
        self, stages: dict[str, Stage], options: Any, language: Language = Language.TRITON
    ) -> None:
        warn_of_knobs()
        # Here, because a process that finds its kernels in the cache never needs the lowering.
        from tritium.backends.amd import stages as amd

        def make_ttgir(module: Any, facts: dict[str, Any]) -> Any:
            return amd.make_ttgir(module, facts, options)

        self.add_first_stages(stages, language, options, make_ttgir, tensor_maps=False)
        stages["llir"] = lambda module, facts: amd.make_llir(module, facts, options)
        stages["amdgcn"] = lambda text, facts: amd.make_amdgcn(text, facts, options)
        stages["hsaco"] = amd.make_hsaco

    def asm_views(self, metadata: Any) -> Mapping[str, Callable[[Mapping[str, Any]], str]]:
        def assembly(asm: Mapping[str, Any]) -> str:
            from tritium.backends.amd import amdgcn  # it loads LLVM

            return amdgcn.assembly(asm["llir"], amdgcn.How(**metadata.code))

        def disassembly(asm: Mapping[str, Any]) -> str:
            from tritium.backends.amd.amdgcn import ROCM_TOOLS
            from tritium.native.llvm_tools import disassemble  # few programs ask for it

            return disassemble(asm["hsaco"], metadata.arch, knobs.amd.objdump_path, ROCM_TOOLS)

        return {"amdgcn": assembly, "disassembly": disassembly}

    @staticmethod
    def get_tensor_specialization(arg: Any, **kwargs: Any) -> str:
        """The key of an argument as for any backend, with "S" for a small tensor, which buffer
        instructions reach."""
        found = BaseBackend.get_tensor_specialization(arg, **kwargs)
        return found + "S" if knobs.amd.use_buffer_ops and is_small(arg) else found

    @staticmethod
    def parse_attr(desc: str) -> list[list[Any]]:
        small = [[POINTER_RANGE, 32]] if "S" in desc else []
        return BaseBackend.parse_attr(desc) + small
