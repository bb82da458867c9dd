"""LLVM under the reference's names: modules of LLVM IR text, by llvmlite.

`to_module` takes the text of a stage `llir`, as plug-ins' stages have it; what llvmlite cannot do
raises `NotImplementedError`, which names it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm

from tritium.codegen.llvm.bitcode import parse_library


class optimization_level(IntEnum):
    """LLVM's pipelines."""

    OPTIMIZE_O0 = 0
    OPTIMIZE_O1 = 1
    OPTIMIZE_O2 = 2
    OPTIMIZE_O3 = 3
    OPTIMIZE_Os = 4
    OPTIMIZE_Oz = 5


class module_flag_behavior(IntEnum):
    """The treatment, when modules are linked, of a flag that two of them state."""

    MODULE_FLAG_BEHAVIOR_ERROR = 1
    MODULE_FLAG_BEHAVIOR_WARNING = 2
    MODULE_FLAG_BEHAVIOR_REQUIRE = 3
    MODULE_FLAG_BEHAVIOR_OVERRIDE = 4
    MODULE_FLAG_BEHAVIOR_APPEND = 5
    MODULE_FLAG_BEHAVIOR_APPEND_UNIQUE = 6
    MODULE_FLAG_BEHAVIOR_MAX = 7
    MODULE_FLAG_BEHAVIOR_MIN = 8


OPTIMIZE_O0, OPTIMIZE_O1, OPTIMIZE_O2, OPTIMIZE_O3, OPTIMIZE_Os, OPTIMIZE_Oz = optimization_level
globals().update(module_flag_behavior.__members__)


def _missing(name: str) -> Callable[..., Any]:
    def function(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"triton._C.libtriton.llvm.{name}: llvmlite cannot do that")

    return function


class context:
    """Owner of modules."""

    def __init__(self) -> None:
        self.ref = llvm.create_context()


class function:
    """A function of a module."""

    def __init__(self, ref: Any, module: module):
        self._ref, self._module = ref, module
        self.name: str = ref.name

    def is_declaration(self) -> bool:
        """True if the function has no body."""
        return self._ref.is_declaration

    def is_external_linkage(self) -> bool:
        """True if other modules may call the function."""
        return self._ref.linkage.name == "external"

    set_nvvm_maxnreg = _missing("function.set_nvvm_maxnreg")
    set_calling_conv = _missing("function.set_calling_conv")
    add_fn_attr = _missing("function.add_fn_attr")
    remove_fn_attr = _missing("function.remove_fn_attr")
    add_fn_asan_attr = _missing("function.add_fn_asan_attr")
    add_fn_target_feature = _missing("function.add_fn_target_feature")


class module:
    """A module of LLVM IR; `str` gives its text."""

    def __init__(self, text: str, owner: context):
        self.ref, self.context = llvm.parse_assembly(text, owner.ref), owner

    def get_functions(self) -> list[function]:
        """All functions, declarations too."""
        return [function(ref, self) for ref in self.ref.functions]

    def __str__(self) -> str:
        return str(self.ref)

    add_flag = _missing("module.add_flag")


def init_targets() -> None:
    """Have LLVM know all processors."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


def to_module(source: Any, owner: context) -> module:
    """The module that LLVM IR text describes. Raises `NotImplementedError` for other IR, of which
    backends make LLVM IR in their stage `llir`; `RuntimeError` for text that is not valid."""
    if not isinstance(source, str):
        raise NotImplementedError(
            f"triton._C.libtriton.llvm.to_module of {type(source).__name__}: LLVM IR text is "
            "required; the stage `llir` makes it"
        )
    return module(source, owner)


def _machine(triple: str, proc: str, features: str) -> Any:
    init_targets()
    target = llvm.Target.from_triple(triple)
    return target.create_target_machine(
        cpu=proc, features=features, opt=3, reloc="pic", codemodel="default"
    )


def _check_flags(name: str, flags: Sequence[str]) -> None:
    if flags:
        raise NotImplementedError(
            f"triton._C.libtriton.llvm.{name}: flags {list(flags)}: llvmlite cannot set LLVM's "
            "options for one call"
        )


def attach_datalayout(mod: module, triple: str, proc: str, features: str) -> None:
    """State for which processor the module is."""
    mod.ref.triple = triple
    mod.ref.data_layout = str(_machine(triple, proc, features).target_data)


def link_extern_libs(mod: module, paths: Sequence[str]) -> None:
    """Link files of bitcode or LLVM's text; what they define becomes internal. Raises
    `RuntimeError` for a file that does not fit."""
    own = {f.name for f in mod.get_functions() if not f.is_declaration()}
    for path in paths:
        library = parse_library(Path(path).read_bytes(), mod.context.ref)
        library.triple, library.data_layout = mod.ref.triple, mod.ref.data_layout
        mod.ref.link_in(library)
    for ref in mod.ref.functions:
        if not ref.is_declaration and ref.name not in own:
            ref.linkage = "internal"


def optimize_module(
    mod: module, opt: int, arch: str = "", features: str = "", flags: Sequence[str] = (),
    enable_fp_fusion: bool = False, disable_slp_vectorizer: bool = False,
    disable_vector_combine: bool = False, expand_masked_div_rem: bool = False,
) -> None:  # fmt: skip
    """Run a pipeline of LLVM on the module; `arch` is the processor that costs are taken from.
    Products and sums are fused where the text says `contract`."""
    _check_flags("optimize_module", flags)
    if disable_vector_combine or expand_masked_div_rem or opt > OPTIMIZE_O3:
        raise NotImplementedError(
            "triton._C.libtriton.llvm.optimize_module: llvmlite has neither levels of size nor "
            "options of single passes"
        )
    tuning = llvm.create_pipeline_tuning_options(opt)
    tuning.slp_vectorization = opt > 1 and not disable_slp_vectorizer
    machine = _machine(mod.ref.triple or llvm.get_default_triple(), arch, features)
    builder = llvm.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(mod.ref, builder)


def translate_to_asm(
    llvm_ir: str, triple: str, proc: str, features: str, flags: Sequence[str],
    enable_fp_fusion: bool, is_object: bool, canonicalize_gep: bool = False,
    sched4reg: bool = False,
) -> str | bytes:  # fmt: skip
    """Assembly, or object code as bytes, of LLVM IR text. Products and sums are fused where it says
    `contract`; the other options do not change what the code does."""
    _check_flags("translate_to_asm", flags)
    owner = context()
    mod = module(llvm_ir, owner)
    attach_datalayout(mod, triple, proc, features)
    machine = _machine(triple, proc, features)
    return machine.emit_object(mod.ref) if is_object else machine.emit_assembly(mod.ref)


dump_sched_dag, translate_to_mir = _missing("dump_sched_dag"), _missing("translate_to_mir")
translate_mir_to_asm = _missing("translate_mir_to_asm")
add_version_info = _missing("add_version_info")


def to_bitcode(llvm_ir: str, enable_fp_fusion: bool = False) -> bytes:
    """Bitcode of LLVM IR text."""
    return module(llvm_ir, context()).ref.as_bitcode()
