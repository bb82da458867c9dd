"""LLVM IR text to assembly and an object, by LLVM's AMDGPU target (llvmlite)."""

from __future__ import annotations

import functools
import re
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import llvmlite.binding as llvm

from tritium import knobs
from tritium.codegen.llvm.bitcode import flags_set, gpu_machine, link_all, optimize, simplify
from tritium.errors import CompilationError
from tritium.native import llvm_tools
from tritium.native.loader import lock, parse

TRIPLE = "amdgcn-amd-amdhsa"
ROCM_TOOLS = "/opt/rocm/llvm/bin"
WAVES, _SIZE = '"amdgpu-waves-per-eu"', '"amdgpu-flat-work-group-size"'
"""Attributes of kernels; all have the second one."""
PLAIN = '"tritium-plain"'
"""The attribute of kernels for which a few of LLVM's IR passes make the code that its pipeline
makes in three times the time: they call nothing, and say which inputs they do without."""


@dataclass(frozen=True)
class How:
    """Options with which machine code is made of LLVM IR.

    Attributes:
        arch: LLVM's name of the processor.
        optimize: run IR passes.
        packed: let one instruction compute two floats.
        alone: the waves of a workgroup run on one compute unit of a pair.
        waves: LLVM's attribute of kernels that says for how many waves a SIMD is to have room; ""
            leaves it to LLVM.
        libraries: paths of LLVM bitcode that the module calls.
        flags: of LLVM, that are set meanwhile.
        whole: run LLVM's whole pipeline of IR passes on plain kernels, too.
    """

    arch: str
    optimize: bool = True
    packed: bool = True
    alone: bool = False
    waves: str = ""
    libraries: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    whole: bool = False

    def machine(self) -> Any:
        return machine(self.arch, self.packed, self.alone)


@dataclass(frozen=True)
class Code:
    """The object that LLVM makes of a module. Its assembly is written when it is asked for, as
    that takes LLVM as long as the object."""

    text: str
    how: How
    object: bytes

    def __str__(self) -> str:
        return assembly(self.text, self.how)


@functools.cache
def machine(arch: str, packed: bool = True, alone: bool = False) -> Any:
    """LLVM's target machine of a processor; `packed`, `alone`: as in `How`."""
    wanted = {
        "-real-true16": arch.startswith("gfx11"),
        "-packed-fp32-ops": not packed and arch.startswith("gfx9"),
        "+cumode": alone and arch.startswith(("gfx11", "gfx120")),  # which have pairs
    }
    features = ",".join(name for name, is_on in wanted.items() if is_on)
    return gpu_machine(TRIPLE, arch, features, reloc="pic")


def data_layout(arch: str) -> str:
    """LLVM's data layout of a processor."""
    with lock:
        return str(machine(arch).target_data)


def emit(text: str, how: How) -> Code:
    """The code of a module.

    Raises: `RuntimeError` if the text is not valid IR (a defect of lowering, or of an override),
    and for functions that are in no library; `CompilationError` for assembly of the program's that
    is none.
    """
    if _OWN_ASSEMBLY.search(text):  # which LLVM writes out as it is, and cannot read
        return Code(text, how, assembled(assembly(text, how), how.arch))
    with _optimized(text, how) as module:
        return Code(text, how, how.machine().emit_object(module))


def assembler() -> list[str] | None:
    """The command of the assembler, if there is one."""
    return llvm_tools.assembler(knobs.amd.assembler, ROCM_TOOLS)


def assembled(text: str, arch: str) -> bytes:
    """The object of assembly.

    Raises: `NotImplementedError` where there is no assembler, `CompilationError` with the line of
        the kernel, where one is known, for what it refuses.
    """
    if (command := assembler()) is None:
        raise NotImplementedError(f"code of assembly: {llvm_tools.NO_ASSEMBLER}")
    try:
        return llvm_tools.assemble(text, arch, TRIPLE, command)
    except llvm_tools.AssemblyError as error:
        place = _source_line(text.splitlines()[: error.line])
        raise CompilationError(None, None, f"{place}{error}") from error


def _source_line(lines: list[str]) -> str:
    """The place in the program that the last of these lines of assembly comes from."""
    for line in reversed(lines):
        if (found := _LINE.match(line)) is not None:
            return f"{found[1]}: "
    return ""


_OWN_ASSEMBLY = re.compile(r'asm(?<=\basm) (?:sideeffect )?"[^"]')  # `\b` first is 20 times slower
_LINE = re.compile(r"\s*\.loc\s.*; (\S+:\d+)")
"""A line of assembly that names the line of the source which the next ones come from."""


def assembly(text: str, how: How) -> str:
    """The assembly of the code that `emit` makes."""
    with _optimized(text, how) as module:
        return how.machine().emit_assembly(module)


@contextmanager
def _optimized(text: str, how: How) -> Generator[Any]:
    if how.waves:
        text = text.replace(_SIZE, f'{WAVES}="{how.waves}" {_SIZE}')
    short = how.optimize and PLAIN in text and not (how.libraries or how.whole)
    with lock, flags_set(how.flags), llvm.create_context() as context, \
            parse(text, context) as module:  # fmt: skip
        link_all(module, how.libraries, context)
        if short:
            simplify(module, how.machine())
        else:
            optimize(module, how.machine(), 1 if how.optimize else 0, packing=False)
        llvm.set_option("", f"-amdgpu-scalar-ir-passes={int(_shares_addresses(text, how))}")
        yield module


_ACCESS = re.compile(r"addrspace\(1\) %[\w.]+, align")
"""Loads and stores through pointers to global memory."""


def _shares_addresses(text: str, how: How) -> bool:
    """True if LLVM is to share parts of addresses: up to a quarter of its time, as it compares all
    of a block with each other. The offsets of buffers have been shared already; kernels that use
    pointers in most places would have a tenth more instructions, but on gfx9."""
    if how.arch.startswith("gfx9"):
        return False
    return len(_ACCESS.findall(text)) > text.count("raw.ptr.buffer.")
