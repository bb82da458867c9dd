"""The CPU backend's compiler: options, and the stages ttir -> tile -> llir -> obj.

The stages themselves are in `stages`.

    ttir   the frontend's IR, inlined and simplified
    tile   fused loop nests over tiles (`tiles/`), printed for reading
    llir   LLVM IR with explicit vectors (`lower/`)
    obj    object code for the target (`loader`)
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, cast

from tritium import knobs
from tritium.backends.base import (
    SANITIZERS,
    BaseBackend,
    Language,
    Stage,
    check_counts,
    option_values,
)
from tritium.backends.cpu.processors import processor
from tritium.language.emitter import TargetFeatures
from tritium.native.loader import assembly, check_object, llvm_version
from tritium.sanitize.kinds import EXACT
from tritium.target import GPUTarget


@dataclass(frozen=True)
class CPUOptions:
    """Options of a kernel on the CPU.

    `num_warps`, `num_stages`, `num_ctas` and the like are accepted, reported in the metadata, and
    have no effect: a program of the grid is one thread's work.

    Attributes:
        arch: the processor to compile for (`processors`), where it is not the target's; the knob
            `TRITON_OVERRIDE_ARCH` goes before it unless it names a GPU.
        debug: compile in `device_assert`.
        sanitize_overflow: with `debug`, check integer arithmetic for overflow.
        enable_fp_fusion: let a multiplication and an addition become one fused operation.
        ir_override: a file that replaces a stage's result.
        instrumentation_mode: the sanitizer's checks, or the profiler's mode, as
            `TRITON_INSTRUMENTATION_MODE` names them.
    """

    num_warps: int = 4
    num_stages: int = 3
    num_ctas: int = 1
    warp_size: int = 1
    maxnreg: int | None = None
    cluster_dims: tuple[int, int, int] = (1, 1, 1)
    debug: bool = False
    sanitize_overflow: bool = True
    enable_fp_fusion: bool = True
    ir_override: str | None = None
    backend_name: str = "cpu"
    arch: str | None = None
    extern_libs: tuple[tuple[str, str], ...] = ()
    supported_fp8_dtypes: tuple[str, ...] = TargetFeatures.supported_fp8_dtypes
    deprecated_fp8_dot_operand_dtypes: tuple[str, ...] = ()
    allowed_dot_input_precisions: tuple[str, ...] = ("tf32", "tf32x3", "ieee", "bf16x3", "bf16x6")
    default_dot_input_precision: str = "ieee"
    max_num_imprecise_acc_default: int = 0
    launch_cooperative_grid: bool = False
    launch_pdl: bool = False
    instrumentation_mode: str = ""
    instrumentations: ClassVar[tuple[str, ...]] = (*SANITIZERS, EXACT, "default")

    def __post_init__(self) -> None:
        check_counts(self.num_warps, self.num_stages, self.num_ctas)

    def hash(self) -> str:
        """A digest of all options."""
        text = "_".join(f"{name}-{value}" for name, value in sorted(self.__dict__.items()))
        return hashlib.sha256(text.encode()).hexdigest()


_WITHOUT_EFFECT = frozenset({"num_warps", "num_stages", "num_ctas", "maxnreg", "cluster_dims"})


class CPUBackend(BaseBackend):
    """Compiles for one processor, this machine's or another."""

    binary_ext = "obj"

    @staticmethod
    def supports_target(target: GPUTarget) -> bool:
        return target.backend == "cpu"

    def __init__(self, target: GPUTarget):
        super().__init__(target)
        self.machine = processor(target.arch)
        # The warp size, 32 in torch.compile's targets, says nothing: a program is one thread.
        own = self.machine is processor("native")
        self.target = GPUTarget("cpu", self.machine.cpu if own else target.arch, 1)

    def hash(self) -> str:
        return f"{llvm_version()}-{self.machine.key}"

    def parse_options(self, options: dict[str, Any]) -> CPUOptions:
        known = option_values(CPUOptions, options)
        override = knobs.runtime.override_arch
        if override and override.startswith(("sm", "gfx")):  # a GPU's: for kernels compiled for it
            override = None
        known["arch"] = override or known.get("arch") or self.target.arch
        processor(known["arch"])  # an unknown one is an error here
        return CPUOptions(**known)

    def without_effect(self, options: CPUOptions) -> frozenset[str]:
        return _WITHOUT_EFFECT

    def target_features(self, options: CPUOptions) -> TargetFeatures:
        return replace(super().target_features(options), sorts=True)

    def add_stages(
        self, stages: dict[str, Stage], options: Any, language: Language = Language.TRITON
    ) -> None:
        if language is not Language.TRITON:
            raise NotImplementedError(
                "Gluon kernels need a GPU target; this one is 'cpu'. With TRITON_INTERPRET=1 they "
                "run in the interpreter"
            )
        # Here, because a process that finds its kernels in the cache never needs the lowering.
        from tritium.backends.cpu import stages as cpu

        chosen = processor(options.arch)

        stages["ttir"] = cpu.make_ttir
        stages["tile"] = lambda module, metadata: cpu.make_tiles(
            module, metadata, chosen, options.instrumentation_mode
        )
        stages["llir"] = lambda module, metadata: cpu.make_llir(
            module, metadata, chosen, options.enable_fp_fusion
        )
        stages["obj"] = lambda text, metadata: cpu.make_object(text, metadata, chosen)

    def parse_stage(self, stage: str, text: str, options: Any) -> Any:
        if stage == "tile":
            return _tiles(text, "<override>")
        if stage == self.binary_ext:
            check_object(cast("bytes", text))
        return super().parse_stage(stage, text, options)

    def stage_module(self, stage: str, text: str, path: str) -> Any:
        return _tiles(text, path) if stage == "tile" else None

    def asm_views(self, metadata: Any) -> Mapping[str, Callable[[Mapping[str, Any]], str]]:
        located = partial(_located, metadata.arch, metadata.enable_fp_fusion)
        return {
            "asm": partial(_assembly, metadata.arch),  # kernels are pickled
            "llir_lines": located,
            "asm_lines": partial(_located_assembly, metadata.arch, located),
        }


def _tiles(text: str, filename: str = "<ir>") -> Any:
    """The module of the tile stage that a text, which may have been edited, describes. Raises
    `ParseError` for what cannot be read, `ValueError` for what does not fit together."""
    from xdsl.utils.exceptions import VerifyException  # as in add_stages

    from tritium.backends.cpu.tiles.ir import functions_of
    from tritium.backends.cpu.tiles.plan_products import verify_plans
    from tritium.backends.cpu.tiles.schedule import verify_schedules
    from tritium.backends.cpu.tiles.version import may_wait, verify_versions
    from tritium.ops.parsing import parse_module

    module = parse_module(text, filename)
    try:
        module.verify()
        waits = may_wait(module)
        for function in functions_of(module):
            verify_schedules(function)
            verify_versions(function, waits)
            verify_plans(function)
            for op in function.order:
                function.touched(op)
    except VerifyException as error:
        raise ValueError(f"the tile stage's text does not fit together: {error}") from error
    except KeyError as error:
        raise ValueError(f"the tile stage's text has no tile.buffer @{error.args[0]}") from error
    return module


def _assembly(arch: Any, stages: Mapping[str, Any]) -> str:
    return assembly(stages["llir"], processor=processor(arch))


def _located(arch: Any, fuse: bool, stages: Mapping[str, Any]) -> str:
    """The LLVM IR once more, with the source lines of its instructions."""
    from tritium.backends.cpu.lower.module import lower_to_llvm  # as in add_stages

    return lower_to_llvm(_tiles(stages["tile"]), processor(arch), fuse, lines=True)[0]


def _located_assembly(
    arch: Any, located: Callable[[Mapping[str, Any]], str], stages: Mapping[str, Any]
) -> str:
    """The assembly once more, with source lines."""
    return assembly(located(stages), processor=processor(arch))
