"""Passes of LLVM on a module that llvmlite has parsed, and bitcode that is linked into it."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Sequence, Set
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm

from tritium import knobs

_BITCODE = b"BC\xc0\xde", b"\xde\xc0\x17\x0b"
"""The first bytes of files of bitcode: without a wrapper, and with one
(llvm.org/docs/BitCodeFormat.html)."""


def passes_asked_for() -> tuple[bool, tuple[str, ...]]:
    """False where LLVM's passes are turned off, and the flags of LLVM for them: `DISABLE_LLVM_OPT`
    is a truth value that turns them off, or has flags, separated by commas (`disable-lsr`)."""
    text = knobs.compilation.disable_llvm_opt or ""
    if text.lower() in (*knobs.TRUE_WORDS, *knobs.FALSE_WORDS):
        return text.lower() in knobs.FALSE_WORDS, ()
    return True, tuple(flag for word in text.split(",") if (flag := word.strip().lstrip("-")))


@contextmanager
def flags_set(flags: Sequence[str]) -> Generator[None]:
    """Set flags of LLVM, of the whole process, meanwhile; those that it does not know do nothing.
    The caller holds `native.loader.lock`."""
    for flag in flags:
        llvm.set_option("", f"-{flag}")
    try:
        yield
    finally:
        for flag in flags:
            llvm.set_option("", f"-{flag}=0")


def gpu_machine(triple: str, cpu: str, features: str, reloc: str = "default") -> Any:
    """LLVM's target machine of a GPU, whose assembly has comments."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    # At level 3 GVN takes the place of early CSE: it takes longer, and makes no better code.
    machine = llvm.Target.from_triple(triple).create_target_machine(
        cpu=cpu, features=features, opt=2, reloc=reloc, codemodel="default"
    )
    machine.set_asm_verbosity(True)  # lines with call sites, resources of kernels
    return machine


def optimize(module: Any, machine: Any, level: int, packing: bool) -> None:
    """Run LLVM's passes on code that is vectorized and unrolled already. `packing`: put two floats
    in a register, or in one instruction, where the machine can."""
    tuning = llvm.create_pipeline_tuning_options(speed_level=level)
    tuning.loop_vectorization = tuning.loop_unrolling = False
    tuning.slp_vectorization = packing
    builder = llvm.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(module, builder)


def optimize_function(module: Any, machine: Any) -> None:
    """Run the part of LLVM's pipeline that is for one function at a time: on a module of one
    function half the time of `optimize`, as that is most of what its parts for whole programs do
    again."""
    tuning = llvm.create_pipeline_tuning_options(speed_level=1)
    tuning.loop_unrolling = False
    builder = llvm.create_pass_builder(machine, tuning)
    for function in module.functions:
        if not function.is_declaration:
            builder.getFunctionPassManager().run(function, builder)


def simplify(module: Any, machine: Any) -> None:
    """Run the few of LLVM's passes that generated code without calls needs: it has no variables in
    memory, and its vectors are explicit."""
    passes = llvm.create_new_module_pass_manager()
    passes.add_loop_rotate_pass()
    passes.add_new_gvn_pass()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    passes.run(module, llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(1)))


def link_files(module: Any, paths: Iterable[str], context: Any) -> None:
    """Link files into a module. Raises `RuntimeError` for bad bitcode."""
    # An option and an op may name the same file.
    for path in dict.fromkeys(os.path.realpath(p) for p in paths):
        with _linking(path):
            _link(module, Path(path).read_bytes(), context)


def link_all(module: Any, libraries: Sequence[str], context: Any) -> None:
    """Link files into a module, whose functions become internal. Raises `RuntimeError` for bad
    ones, and for functions that are in none of them."""
    own = {f.name for f in module.functions if not f.is_declaration}
    link_files(module, libraries, context)
    make_internal(module, own)
    missing = sorted(
        f.name for f in module.functions if f.is_declaration and not f.name.startswith("llvm.")
    )
    if missing:
        raise RuntimeError(
            f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} in none of the libraries "
            f"({', '.join(libraries) or 'there are none'}); extern_libs names them"
        )


def link_called(module: Any, path: Path, machine: Any, context: Any) -> None:
    """Link what a module declares and a large file defines, with what that calls in turn."""
    wanted = frozenset(f.name for f in module.functions if f.is_declaration)
    with _linking(path):
        _link(module, _part(path, path.stat().st_mtime_ns, wanted, machine), context)


def parse_library(content: bytes, context: Any = None) -> Any:
    """The module that a file has: bitcode, or LLVM's text. Raises `RuntimeError` for neither."""
    if content.startswith(_BITCODE):
        return llvm.parse_bitcode(content, context=context)
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise RuntimeError("neither bitcode nor LLVM's text") from None
    return llvm.parse_assembly(text, context=context)


def _link(module: Any, content: bytes, context: Any) -> None:
    with parse_library(content, context) as library:
        library.triple, library.data_layout = module.triple, module.data_layout
        module.link_in(library)


@contextmanager
def _linking(path: str | Path) -> Generator[None]:
    try:
        yield
    except RuntimeError as error:
        raise RuntimeError(f"cannot link {path}: {error}") from error


@lru_cache(64)
def _part(path: Path, modified: int, wanted: frozenset[str], machine: Any) -> bytes:
    """The bitcode of the functions `wanted` of a file alone: to link and to optimize the hundreds
    that a library has takes longer than to compile most kernels."""
    content = path.read_bytes()
    with llvm.create_context() as context, llvm.parse_bitcode(content, context=context) as library:
        make_internal(library, wanted)
        passes = llvm.create_new_module_pass_manager()
        passes.add_global_dead_code_eliminate_pass()
        tuning = llvm.create_pipeline_tuning_options(speed_level=0)
        passes.run(library, llvm.create_pass_builder(machine, tuning))
        return library.as_bitcode()


def make_internal(module: Any, own: Set[str]) -> None:
    """Make what was linked internal, so that inlining leaves of it only what the module's `own`
    functions use."""
    for function in module.functions:
        if not function.is_declaration and function.name not in own:
            function.linkage = "internal"
