"""The compiler of `simt`: the stages ttir -> ttgir -> llir -> obj, the last for the CPU."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import prod
from pathlib import Path
from typing import Any, ClassVar

from xdsl.dialects.builtin import IntegerAttr

from tests.simt import rules as rules
from tests.simt.backend import NAME, target
from tests.simt.hardware import Simt
from tests.simt.machine import ENTRY, SHARED_BYTES, compile_kernel, machine
from tritium.analysis.writes import written_arguments
from tritium.backends.amd.matrix import MatrixCores
from tritium.backends.base import SANITIZERS, BaseBackend, Language, Stage, option_values
from tritium.backends.cpu.compiler import CPUOptions
from tritium.backends.nvidia.processor import LEAST_K_BYTES, MmaSync
from tritium.backends.pipeline import run_pipeline
from tritium.codegen.gpu.module import lower_to_llvm
from tritium.ir import types as ir
from tritium.native.records import allocate
from tritium.ops.attributes import POINTER_RANGE
from tritium.passes import PassManager, pipelines
from tritium.passes.base import Pass
from tritium.sanitize.kinds import EXACT
from tritium.sanitize.passes import sanitizer
from tritium.target import GPUTarget, Processor

_TYPES = {
    "*": "ptr addrspace(1)", "tensordesc": "ptr", "f16": "half", "bf16": "bfloat", "f32": "float",
    "f64": "double",
}  # fmt: skip
"""Parameters' types in LLVM, where they have other names."""


@dataclass(frozen=True)
class SimtOptions(CPUOptions):
    """Options of a kernel: those of the CPU backend, of which the counts have their effect."""

    backend_name: str = "simt"
    instrumentations: ClassVar[tuple[str, ...]] = (*SANITIZERS, EXACT, "default")


@cache
def _sources() -> str:
    """A digest of this folder and of the one above."""
    files = sorted(Path(__file__).parents[1].rglob("*.py"))
    return hashlib.sha256(b"".join(f.read_bytes() for f in files)).hexdigest()


@dataclass(frozen=True)
class SmallArguments(Pass):
    """State of all pointer arguments of kernels that their memory has less than 2 GiB."""

    name: ClassVar[str] = "small-arguments"
    title: ClassVar[str] = "SmallArguments"

    def run(self, module: Any) -> bool:
        kernel = next(f for f in module.ops if f.sym_visibility != "private")
        kinds = kernel.function_type.inputs
        stated = {POINTER_RANGE: IntegerAttr(32, ir.i32)}
        former = kernel.arg_attrs or [{}] * len(kinds)
        attributes = [
            dict(entries) | (stated if isinstance(kind, ir.PointerType) else {})
            for kind, entries in zip(kinds, former, strict=True)
        ]
        kernel.properties["arg_attrs"] = kernel.attr_fields["arg_attrs"].encode(attributes)
        return True


def gpu_passes(lanes: int, num_warps: int, num_stages: int, num_ctas: int = 1) -> list[Pass]:
    """From ttir to ttgir."""
    processor = SimtBackend.processor(target(lanes))
    return [SmallArguments(), *pipelines.ttgir(processor, num_warps, num_stages, num_ctas)]


def entry(kernel: str, kinds: list[str]) -> str:
    """LLVM IR of the function that calls a kernel with arguments from 8-byte slots."""
    types = [_TYPES.get(kind, kind) for kind in kinds]
    lines = [f"define void @{ENTRY}(ptr %slots) {{"]
    for i, type in enumerate(types):
        lines.append(f"  %p{i} = getelementptr i64, ptr %slots, i64 {i}")
        lines.append(f"  %a{i} = load {type}, ptr %p{i}, align 8")
    arguments = ", ".join(f"{type} %a{i}" for i, type in enumerate(types))
    return "\n".join([*lines, f"  call void @{kernel}({arguments})", "  ret void", "}", ""])


def run_module(
    module: Any, lanes: int, num_warps: int, slots: Sequence[int], grid: Sequence[int]
) -> None:
    """Compile the kernel of a ttir module, which is changed, without fused multiplication and
    addition, and run it. Raises `KernelFailure`."""
    options = SimtOptions(num_warps=num_warps, enable_fp_fusion=False)
    PassManager(gpu_passes(lanes, options.num_warps, options.num_stages)).run(module)
    module.verify()
    hardware = Simt(lanes)
    text, facts = lower_to_llvm(module, hardware, options)
    kernel = next(f for f in module.ops if f.sym_visibility != "private")
    text += entry(hardware.symbol(kernel.sym_name), facts["kernel_signature"])
    runner = machine(
        lanes, facts["num_warps"], facts["num_ctas"], last_warp_first=lanes == 64
    )  # fmt: skip
    runner.run(runner.load(compile_kernel(text)), slots, grid)


def run_ttgir(
    module: Any, num_warps: int, slots: Sequence[int], grid: Sequence[int], hardware: Simt,
    last_warp_first: bool = False, seed: int = 0,
) -> None:  # fmt: skip
    """Run the kernel of a ttgir module for warps of 32 lanes; with a seed other than 0 in a random
    order. Raises `KernelFailure`."""
    options = SimtOptions(num_warps=num_warps)
    text, facts = lower_to_llvm(module, hardware, options)
    kernel: Any = next(f for f in module.ops if f.sym_visibility == "public")
    kinds, given = list(facts["kernel_signature"]), list(slots)
    size = facts["global_scratch_size"] * facts["num_ctas"] * prod(grid)
    if size:
        place, _owner = allocate(size, facts["global_scratch_align"])
        kinds, given = [*kinds, "*"], [*given, place]
    text += entry(hardware.symbol(kernel.sym_name), kinds)
    counts = facts["num_warps"], facts["num_ctas"]
    runner = machine(32, *counts, last_warp_first=last_warp_first)
    runner.run(runner.load(compile_kernel(text)), given, grid, seed)


class SimtBackend(BaseBackend):
    """Compiles for the lanes of the target's warp size."""

    binary_ext = "obj"

    @staticmethod
    def supports_target(target: GPUTarget) -> bool:
        return target.backend == NAME

    @staticmethod
    def processor(target: GPUTarget) -> Processor:
        """Warps of 32 lanes have NVIDIA's `mma.sync`; those of 64 have AMD's MFMA and buffers,
        load ahead into registers, and have other ways of AMD's processors."""
        wide, mfma = target.arch == 64, MatrixCores("mfma", 3)
        return Processor(
            name=f"{NAME}:{target.arch}", lanes=int(target.arch), max_shared=SHARED_BYTES,
            least_k_bytes=LEAST_K_BYTES, matrix_units=(mfma if wide else MmaSync(float8=True),),
            float8_products=tuple(map(str, mfma.float8)) if wide else ("f8E5M2", "f8E4M3FN"),
            copy_bytes=() if wide else (4, 16), ahead_in_registers=wide,
            transposes_in_threads=wide, lane_copy_bytes=(4, 16), buffers=wide,
            buffer_atomics=("i32", "i64", "f32", "f64"), bfloat_by_float=wide, even_accesses=wide,
        )  # fmt: skip

    def hash(self) -> str:
        return f"{_sources()}-{self.target.warp_size}"

    def parse_options(self, options: dict[str, Any]) -> SimtOptions:
        return SimtOptions(**option_values(SimtOptions, options))

    def add_stages(
        self, stages: dict[str, Stage], options: Any, language: Language = Language.TRITON
    ) -> None:
        if language is Language.GLUON:
            stages["glir"] = lambda module, facts: module
            stages["ttgir"] = self._gluon
        else:
            stages["ttir"] = self._ttir
            stages["ttgir"] = lambda module, facts: self._ttgir(module, facts, options)
        stages["llir"] = lambda module, facts: self._llir(module, facts, options)
        stages["obj"] = lambda text, facts: compile_kernel(text)

    def _ttir(self, module: Any, metadata: dict[str, Any]) -> Any:
        run_pipeline(module, pipelines.ttir(), "make_ttir")
        return self._with_written(module, metadata)

    def _gluon(self, module: Any, metadata: dict[str, Any]) -> Any:
        run_pipeline(module, pipelines.gluon(), "gluon_to_ttgir")
        return self._with_written(module, metadata)

    @staticmethod
    def _with_written(module: Any, metadata: dict[str, Any]) -> Any:
        kernel = next(f for f in module.ops if f.sym_visibility != "private")
        metadata["written_args"] = sorted(written_arguments(kernel))
        return module

    def _ttgir(self, module: Any, metadata: dict[str, Any], options: Any) -> Any:
        if options.instrumentation_mode:
            passes, metadata["sanitizer"] = sanitizer(
                module, options.instrumentation_mode, on_gpu=True
            )  # fmt: skip
            run_pipeline(module, passes, "instrument")
        counts = options.num_warps, options.num_stages, options.num_ctas
        passes = gpu_passes(self.target.warp_size, *counts)
        return run_pipeline(module, passes, "make_ttgir")

    def _llir(self, module: Any, metadata: dict[str, Any], options: Any) -> str:
        hardware = Simt(self.target.warp_size)
        text, facts = lower_to_llvm(module, hardware, options)
        assert not facts["global_scratch_size"], "only copy engines use it"
        metadata.update(facts)
        return text + entry(hardware.symbol(metadata["name"]), facts["kernel_signature"])
