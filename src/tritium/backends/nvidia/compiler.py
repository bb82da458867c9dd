"""The NVIDIA backend's compiler: the stages ttir -> ttgir -> llir -> ptx -> cubin.

    ttir    the frontend's IR, inlined and simplified
    ttgir   the same with layouts, shared memory and asynchronous copies
    llir    LLVM IR of one thread (`lower/`)
    ptx     what LLVM makes of it (`ptx`)
    cubin   what ptxas makes of that; without ptxas the PTX itself, which the driver assembles
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import nullcontext
from types import ModuleType
from typing import Any

import llvmlite.binding as llvm

from tritium import knobs
from tritium.backends.base import BaseBackend, Language, Stage
from tritium.backends.nvidia import ptx
from tritium.backends.nvidia.lower.module import lower_to_llvm
from tritium.backends.nvidia.options import CUDAOptions, make_options, pipeline_arch
from tritium.ir.parsing import parse_module
from tritium.language.emitter import TargetFeatures
from tritium.passes import PassManager, dump_before, pipelines
from tritium.target import GPUTarget


def _min_dot_size(lhs: Any, rhs: Any) -> tuple[int, int, int]:
    """The smallest (M, N, K): K fills one instruction, M and N are padded."""
    bits = getattr(lhs, "primitive_bitwidth", 16)
    return 1, 1, 32 if bits == 8 else 16


class NvidiaBackend(BaseBackend):
    """Compiles for NVIDIA GPUs of capability 8.0 and later; no GPU is needed for that."""

    binary_ext = "cubin"

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

    def hash(self) -> str:
        mock = knobs.nvidia.mock_ptx_version
        tool = knobs.nvidia.ptxas
        version = mock or (tool.version if tool else "driver")
        return f"{version}-{'.'.join(map(str, llvm.llvm_version_info))}-{self.arch}"

    def parse_options(self, options: dict[str, Any]) -> CUDAOptions:
        return make_options(options, self.arch)

    def target_features(self, options: CUDAOptions) -> TargetFeatures:
        return TargetFeatures(
            name="cuda",
            min_dot_size=_min_dot_size,
            supported_fp8_dtypes=options.supported_fp8_dtypes,
            deprecated_fp8_dot_operand_dtypes=options.deprecated_fp8_dot_operand_dtypes,
            allowed_dot_input_precisions=options.allowed_dot_input_precisions,
            default_dot_input_precision=options.default_dot_input_precision,
            max_num_imprecise_acc_default=options.max_num_imprecise_acc_default,
            debug=options.debug,
            sanitize_overflow=options.sanitize_overflow,
        )

    def add_stages(
        self, stages: dict[str, Stage], options: Any, language: Language = Language.TRITON
    ) -> None:
        if language is not Language.TRITON:
            raise NotImplementedError("Gluon kernels are not supported by the NVIDIA backend")
        arch = pipeline_arch(options.arch, self.arch)
        stages["ttir"] = lambda module, metadata: self._run(module, pipelines.ttir())
        stages["ttgir"] = lambda module, metadata: self._run(
            module, pipelines.ttgir(arch, options.num_warps, options.num_stages)
        )
        stages["llir"] = lambda module, metadata: self._llir(module, metadata, arch, options)
        stages["ptx"] = lambda text, metadata: self._ptx(text, metadata, options)
        stages["cubin"] = lambda text, metadata: self._cubin(text, metadata, options)

    @staticmethod
    def _run(module: Any, passes: list[Any]) -> Any:
        dump, path = knobs.compilation.dump_passes, knobs.compilation.dump_passes_path
        with open(path, "a") if dump and path else nullcontext(sys.stderr) as stream:
            hook = dump_before(stream, None if dump == "1" else dump) if dump else None
            PassManager(passes, before=hook).run(module)
        module.verify()
        return module

    @staticmethod
    def _llir(module: Any, metadata: dict[str, Any], arch: int, options: Any) -> str:
        text, facts = lower_to_llvm(module, arch, options)
        metadata.update(facts)
        metadata.setdefault("tensordesc_meta", [])
        return text

    def _ptx(self, text: str, metadata: dict[str, Any], options: Any) -> str:
        tool = knobs.nvidia.ptxas
        version = options.ptx_version or ptx.ptx_version(tool.version if tool else None)
        metadata["ptx_version"] = version
        result = ptx.emit_ptx(text, self.arch, version, optimize=not knobs.compilation.disable_llvm_opt)
        if knobs.nvidia.dump_nvptx:
            print(result)
        return result

    def _cubin(self, text: str, metadata: dict[str, Any], options: Any) -> bytes:
        arguments = ptx.ptxas_arguments(
            self.arch, enable_fp_fusion=options.enable_fp_fusion,
            line_info=not knobs.compilation.disable_line_info, options=options.ptx_options,
        )  # fmt: skip
        binary, log = ptx.assemble(text, arguments)
        metadata.update(ptx.report(log))
        ptx.warn_of_performance(metadata["name"], log)
        return binary

    def parse_stage(self, stage: str, text: str, options: Any) -> Any:
        return parse_module(text, "<override>") if stage in ("ttir", "ttgir") else text

    def pack_metadata(self, metadata: Any) -> tuple[int, int, int]:
        return metadata.num_warps, metadata.num_ctas, metadata.shared

    def load_dialects(self, context: Any) -> None:
        """The dialects are known to every context."""

    def get_module_map(self) -> Mapping[str, ModuleType]:
        return {}
