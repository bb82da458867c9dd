"""The AMD backend's compiler: the stages ttir -> ttgir -> llir -> amdgcn -> hsaco.

The stages themselves are in `stages`.

    ttir    the frontend's IR, inlined and simplified
    ttgir   the same with layouts and shared memory
    llir    LLVM IR of one thread (`lower/`)
    amdgcn  the assembly that LLVM makes of it (`amdgcn`)
    hsaco   the code object that the HIP runtime loads (`native.code_object`)
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Mapping
from typing import Any, cast

from tritium import knobs
from tritium.backends.amd.libhip import is_small
from tritium.backends.amd.options import HIPOptions, compiled_arch, make_options, warn_of_knobs
from tritium.backends.amd.processor import facts_of
from tritium.backends.base import BaseBackend, Language, Stage, stage_method, unchanged
from tritium.ops.attributes import POINTER_RANGE
from tritium.target import GPUTarget, Processor


def min_dot_size(target: GPUTarget) -> Callable[[Any, Any], tuple[int, int, int]]:
    """A function that gives the smallest (M, N, K) of a product: any, as products that matrix
    units do not take are computed without them."""
    return lambda lhs, rhs: (1, 1, 1)


class HIPBackend(BaseBackend):
    """Compiles for AMD GPUs; no GPU is needed for that."""

    binary_ext, late_stages = "hsaco", ("amdgcn",)
    make_ttgir = stage_method("ttgir")
    make_amdgcn, make_hsaco = stage_method("amdgcn"), stage_method("hsaco")
    supports_native_tensor_specialization = False

    @staticmethod
    def supports_target(target: GPUTarget) -> bool:
        return target.backend == "hip"

    def __init__(self, target: GPUTarget):
        super().__init__(target)
        lanes = facts_of(target.arch).lanes
        if target.warp_size not in (0, lanes):  # 0: whatever the processor has
            raise ValueError(
                f"GPUTarget('hip', {target.arch!r}, {target.warp_size}): waves have {lanes} lanes"
            )
        self.arch = str(target.arch)

    @staticmethod
    def processor(target: GPUTarget) -> Processor:
        from tritium.backends.amd.processor import processor  # as in add_stages

        return processor(str(target.arch))

    def hash(self) -> str:
        return f"{importlib.metadata.version('llvmlite')}-{self.arch}"

    def parse_options(self, options: dict[str, Any]) -> HIPOptions:
        return make_options(options, compiled_arch(self.arch))

    def get_codegen_implementation(self, options: HIPOptions) -> dict[str, Any]:
        return {"min_dot_size": min_dot_size(self.target)}

    def add_stages(
        self, stages: dict[str, Stage], options: Any, language: Language = Language.TRITON
    ) -> None:
        warn_of_knobs()
        # Here, because a process that finds its kernels in the cache never needs the lowering.
        from tritium.backends.amd import stages as amd

        if language is Language.GLUON:
            stages["glir"] = unchanged
            stages["ttgir"] = lambda module, facts: amd.make_ttgir_of_gluon(module, facts, options)
        else:
            stages["ttir"] = amd.make_ttir
            stages["ttgir"] = lambda module, facts: amd.make_ttgir(module, facts, options)
        stages["llir"] = lambda module, facts: amd.make_llir(module, facts, options)
        stages["amdgcn"] = lambda text, facts: amd.make_amdgcn(text, facts, options)
        stages["hsaco"] = amd.make_hsaco

    def parse_stage(self, stage: str, text: str, options: Any) -> Any:
        if stage == "hsaco" and not cast("bytes", text).startswith(b"\x7fELF"):
            raise ValueError("this is no code object, which begins as all ELF files do")
        return super().parse_stage(stage, text, options)

    def pack_metadata(self, metadata: Any) -> tuple[int, int, int]:
        return metadata.num_warps, metadata.num_ctas, metadata.shared

    def asm_views(self, metadata: Any) -> Mapping[str, Callable[[Mapping[str, Any]], str]]:
        def assembly(asm: Mapping[str, Any]) -> str:
            from tritium.backends.amd import amdgcn  # it loads LLVM

            return amdgcn.assembly(asm["llir"], amdgcn.How(**metadata.code))

        def disassembly(asm: Mapping[str, Any]) -> str:
            from tritium.backends.amd.disassembly import disassemble  # few programs ask for it

            return disassemble(asm["hsaco"], metadata.arch)

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
