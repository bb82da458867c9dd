"""The NVIDIA backend's compiler: the stages ttir -> ttgir -> llir -> ptx -> cubin.

The stages themselves are in `stages`.

    ttir    the frontend's IR, inlined and simplified
    ttgir   the same with layouts, shared memory and asynchronous copies
    llir    LLVM IR of one thread (`lower/`)
    ptx     what LLVM makes of it (`ptx`)
    cubin   what ptxas makes of that; without ptxas the PTX itself, which the driver assembles
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from typing import Any

from tritium import knobs
from tritium.backends.base import Language, Stage, stage_method
from tritium.backends.gpu_compiler import GPUBackend, llvmlite_version
from tritium.backends.nvidia.options import CUDAOptions, assembler, make_options, pipeline_arch
from tritium.target import GPUTarget, Processor


def min_dot_size(target: GPUTarget) -> Callable[[Any, Any], tuple[int, int, int]]:
    """A function that gives the smallest (M, N, K) of a product for its operands' types: K fills 32
    bytes, one instruction's share, M and N are padded."""

    def smallest(lhs: Any, rhs: Any) -> tuple[int, int, int]:
        bits = getattr(lhs, "primitive_bitwidth", 16)
        return 1, 1, 256 // bits

    return smallest


class CUDABackend(GPUBackend):
    """Compiles for NVIDIA GPUs of capability 8.0 and later."""

    binary_ext, binary_title, last_module = "cubin", "cubin", "ttgir"
    make_ptx, make_cubin = stage_method("ptx"), stage_method("cubin")

    @staticmethod
    def supports_target(target: GPUTarget) -> bool:
        return target.backend == "cuda"

    def __init__(self, target: GPUTarget):
        super().__init__(target)
        if not isinstance(target.arch, int) or target.arch < 80:
            raise ValueError(
                f"GPUTarget('cuda', {target.arch!r}): the capability must be an int from 80 on "
                "(80 is Ampere)"
            )
        self.arch: int = target.arch

    @staticmethod
    def processor(target: GPUTarget) -> Processor:
        from tritium.backends.nvidia.processor import processor  # as in add_stages

        assert isinstance(target.arch, int)
        return processor(target.arch)

    def hash(self) -> str:
        mock = knobs.nvidia.mock_ptx_version
        tool = assembler(self.arch)
        version = mock or (tool.version if tool else "driver")
        return f"{version}-{llvmlite_version()}-{self.arch}"

    def parse_options(self, options: dict[str, Any]) -> CUDAOptions:
        return make_options(options, self.arch)

    def get_codegen_implementation(self, options: CUDAOptions) -> dict[str, Any]:
        return {"min_dot_size": min_dot_size(self.target)}

    def add_stages(
        self, stages: dict[str, Stage], options: Any, language: Language = Language.TRITON
    ) -> None:
        # Here, because a process that finds its kernels in the cache never needs the lowering.
        from tritium.backends.nvidia import stages as nvidia

        arch, real = pipeline_arch(options.arch, self.arch), self.arch
        assembly = nvidia.Assembly(real, options)

        def make_ttgir(module: Any, facts: dict[str, Any]) -> Any:
            return nvidia.make_ttgir(module, facts, arch, options)

        def make_llir(module: Any, facts: dict[str, Any]) -> str:
            with assembly.begun():
                return nvidia.make_llir(module, facts, arch, options)

        def make_ptx(text: str, facts: dict[str, Any]) -> str:
            with assembly.begun():
                return nvidia.make_ptx(text, facts, real, options)

        self.add_first_stages(stages, language, options, make_ttgir)
        stages["llir"], stages["ptx"] = make_llir, make_ptx
        stages["cubin"] = lambda text, facts: nvidia.make_cubin(text, facts, assembly)

    def asm_views(self, metadata: Any) -> Mapping[str, Callable[[Mapping[str, Any]], str]]:
        return {"sass": _disassembly}


def _disassembly(asm: Mapping[str, Any]) -> str:
    from tritium.backends.nvidia.sass import get_sass  # few programs ask for it

    return get_sass(asm["cubin"])


def get_ptxas(arch: int) -> knobs.NvidiaTool:
    """The assembler for an architecture. Raises `RuntimeError` where there is none."""
    tool = assembler(arch)
    if tool is None:
        raise RuntimeError("there is no ptxas; pip install 'tritium[cuda]' brings one")
    return tool


def get_ptxas_version(arch: int = 80) -> str:
    """The assembler's version report (`TRITON_MOCK_PTX_VERSION` replaces it)."""
    mock = knobs.nvidia.mock_ptx_version
    if mock is not None:
        return mock
    return subprocess.run(
        [get_ptxas(arch).path, "--version"], capture_output=True, text=True, check=True, timeout=60
    ).stdout


def ptx_get_version(cuda_version: str) -> int:
    """The newest PTX version (87 for 8.7) that a CUDA version's ptxas reads and LLVM writes."""
    from tritium.backends.nvidia.ptx import ptx_version  # it loads LLVM

    return ptx_version(cuda_version)


def sm_arch_from_capability(capability: int) -> str:
    """The processor's name: `sm_90a` for 90."""
    from tritium.backends.nvidia.ptx import cpu_name  # as above

    return cpu_name(capability)
