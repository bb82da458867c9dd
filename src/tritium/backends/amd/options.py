"""Compilation options of kernels for AMD GPUs."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from typing import Any, ClassVar

from tritium import knobs
from tritium.backends.amd.processor import check_cluster, processor
from tritium.backends.base import option_values
from tritium.backends.gpu_options import GPUOptions
from tritium.sanitize.kinds import EXACT

_HINTS = ("none", "attention", "memory-bound-attention")
_CHOICES: dict[str, tuple[Any, ...]] = {
    "matrix_instr_nonkdim": (0, 4, 16, 32), "kpack": (1, 2), "wgp_cu_mode": ("wgp", "cu"),
}  # fmt: skip
_FP8_OF_GFX942 = ("fp8e4b8", "fp8e4nv", "fp8e5", "fp8e5b16")


@dataclass(frozen=True)
class HIPOptions(GPUOptions):
    """Options of a kernel: those of all GPUs, and these.

    Attributes:
        num_ctas: 1; on gfx1250 up to 16, which kernels can be compiled for and not launched with.
        waves_per_eu: waves that a SIMD is to have room for, by using fewer registers; 0 leaves it
            to LLVM.
        matrix_instr_nonkdim: the rows of a matrix instruction, 4 (and 64 columns, or the other way
            round), 16 or 32; 0 leaves them to the product.
        kpack: of how many matrix instructions a thread has operands as neighbours, 1 or 2; 1 on
            gfx950.
        schedule_hint: hints to LLVM's scheduler, with commas between them:
            "memory-bound-attention" chooses another strategy, "attention" has no effect.
        llvm_fn_attrs: attributes of the kernel's LLVM function, name=value or a name alone, with
            commas between them (after make_options pairs); they replace those of the same names.
        wgp_cu_mode: "wgp": a workgroup's waves run on both compute units of a pair; "cu": on one of
            them. Processors but gfx11 and gfx120x have no pairs.
        allow_flush_denorm: float32 arithmetic may take subnormal numbers for zero.
        arch: the processor; `make_options` fills it in.
    """

    num_stages: int = 2
    waves_per_eu: int = 0
    warp_size: int = 64
    matrix_instr_nonkdim: int = 0
    kpack: int = 1
    schedule_hint: str = "none"
    llvm_fn_attrs: tuple[tuple[str, str], ...] = ()
    wgp_cu_mode: str = "wgp"
    allow_flush_denorm: bool = False
    supported_fp8_dtypes: tuple[str, ...] = _FP8_OF_GFX942
    default_dot_input_precision: str = "ieee"
    allowed_dot_input_precisions: tuple[str, ...] = ("ieee", "bf16x3", "bf16x6")
    arch: str = ""
    backend_name: str = "hip"
    instrumentations: ClassVar[tuple[str, ...]] = ("bounds", EXACT)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.arch:
            check_cluster(self.num_ctas, self.arch)
        for name, allowed in _CHOICES.items():
            if (value := getattr(self, name)) not in allowed:
                *others, last = map(repr, allowed)
                choices = f"{', '.join(others)} or {last}"
                raise ValueError(f"{name} is {value!r}; {choices} is required")
        if not 0 <= self.waves_per_eu <= 20:
            raise ValueError(f"waves_per_eu is {self.waves_per_eu!r}; 0 to 20 is required")
        if not set(self.hints) <= set(_HINTS):
            raise ValueError(
                f"schedule_hint is {self.schedule_hint!r}; {', '.join(_HINTS)} are known"
            )

    @property
    def hints(self) -> list[str]:
        """Each of the hints to the scheduler."""
        return [hint.strip() for hint in self.schedule_hint.split(",") if hint.strip()]


_ATTRIBUTE = re.compile(r'[\w.-]+=[^"\\\s]*')


def function_attributes(given: Any) -> tuple[tuple[str, str], ...]:
    """Names and values of LLVM attributes, from text (`llvm_fn_attrs`) or pairs. Raises
    `ValueError`."""
    pairs = given
    if isinstance(given, str):
        pairs = [part.partition("=")[::2] for part in given.split(",") if part.strip()]
    try:
        found = tuple((name.strip(), value.strip()) for name, value in pairs)
    except (AttributeError, TypeError, ValueError):
        found = (("", ""),)
    if not all(_ATTRIBUTE.fullmatch(f"{name}={value}") for name, value in found):
        why = "name=value or a name, with commas between them, is required"
        raise ValueError(f"llvm_fn_attrs is {given!r}; {why}")
    return found


def compiled_arch(arch: str) -> str:
    """The processor to compile for on a device that has `arch`: `TRITON_OVERRIDE_ARCH` if that is
    set. Raises `ValueError` for one that is not known, or has waves of other sizes."""
    chosen = knobs.runtime.override_arch
    if not chosen:
        return arch
    try:
        lanes = processor(chosen).lanes
    except ValueError as error:
        raise ValueError(f"TRITON_OVERRIDE_ARCH is {chosen!r}: {error}") from None
    if lanes != processor(arch).lanes:
        raise ValueError(
            f"TRITON_OVERRIDE_ARCH is {chosen!r}, whose waves have {lanes} lanes; those of {arch} "
            f"have {processor(arch).lanes}"
        )
    return chosen


_WITHOUT_EFFECT = (
    "buffer_ops_analyze_small_tensor_range", "codegen_path", "use_coexec_scheduler",
    "use_expert_scheduling", "dump_mir", "swap_mir", "swap_mir_enable_misched",
)  # fmt: skip
"""Knobs of the reference that nothing here reads: llvmlite's LLVM cannot write or read MIR, and has
no such schedulers."""


def warn_of_knobs() -> None:
    """Warn of knobs that are set and have no effect."""
    for name in _WITHOUT_EFFECT:
        if getattr(knobs.amd, name):
            variable = vars(type(knobs.amd))[name].key
            warnings.warn(f"{variable} (knobs.amd.{name}) has no effect", stacklevel=2)


def make_options(given: dict[str, Any], arch: str) -> HIPOptions:
    """Options from keywords (unknown ones are left out), with the target's defaults. The target's
    own number of lanes replaces a given one."""
    known = option_values(HIPOptions, given)
    known.update(arch=arch, warp_size=processor(arch).lanes)
    known["llvm_fn_attrs"] = function_attributes(known.get("llvm_fn_attrs", ""))
    if arch == "gfx950" and known.get("kpack", 1) != 1:
        warnings.warn(f"kpack is {known['kpack']}; gfx950 uses 1", stacklevel=2)
        known["kpack"] = 1
    if arch == "gfx950":
        known.setdefault("deprecated_fp8_dot_operand_dtypes", ("fp8e4b8", "fp8e5b16"))
    if arch == "gfx942" and "allowed_dot_input_precisions" not in known:
        known["allowed_dot_input_precisions"] = ("ieee", "tf32", "bf16x3", "bf16x6")
    return HIPOptions(**known)
