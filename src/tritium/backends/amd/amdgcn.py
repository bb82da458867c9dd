"""LLVM IR text to assembly and an object, by LLVM's AMDGPU target (llvmlite)."""

from __future__ import annotations

import functools
import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import llvmlite.binding as llvm

from tritium.codegen.llvm.bitcode import flags_set, link_files, make_internal, optimize, simplify
from tritium.native.loader import lock, parse

TRIPLE = "amdgcn-amd-amdhsa"
WAVES, _SIZE = '"amdgpu-waves-per-eu"', '"amdgpu-flat-work-group-size"'
"""Attributes of kernels; all have the second one."""


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
    """

    arch: str
    optimize: bool = True
    packed: bool = True
    alone: bool = False
    waves: str = ""
    libraries: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()

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
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    wanted = {
        "-real-true16": arch.startswith("gfx11"),
        "-packed-fp32-ops": not packed and arch.startswith("gfx9"),
        "+cumode": alone and arch.startswith(("gfx11", "gfx120")),  # which have pairs
    }
    features = ",".join(name for name, is_on in wanted.items() if is_on)
    # At level 3 GVN takes the place of early CSE: it takes longer, and makes more instructions.
    made = llvm.Target.from_triple(TRIPLE).create_target_machine(
        cpu=arch, features=features, opt=2, reloc="pic", codemodel="default"
    )
    made.set_asm_verbosity(True)  # the resources of a kernel, as comments
    return made


def data_layout(arch: str) -> str:
    """LLVM's data layout of a processor."""
    with lock:
        return str(machine(arch).target_data)


def emit(text: str, how: How) -> Code:
    """The code of a module.

    Raises: `RuntimeError` if the text is not valid IR (a defect of lowering, or of an override),
    and for functions that are in no library.
    """
    with _optimized(text, how) as module:
        return Code(text, how, how.machine().emit_object(module))


def assembly(text: str, how: How) -> str:
    """The assembly of the code that `emit` makes."""
    with _optimized(text, how) as module:
        return how.machine().emit_assembly(module)


@contextmanager
def _optimized(text: str, how: How) -> Generator[Any]:
    if how.waves:
        text = text.replace(_SIZE, f'{WAVES}="{how.waves}" {_SIZE}')
    packing = may_pack(text, how)
    short = how.optimize and not packing and is_plain(text)
    if short:
        text = text.replace(_SIZE, f"{unused(text)} {_SIZE}")
    with lock, flags_set(how.flags), llvm.create_context() as context, \
            parse(text, context) as module:  # fmt: skip
        _link(module, how.libraries, context)
        if short:
            simplify(module, how.machine())
        else:
            optimize(module, how.machine(), 1 if how.optimize else 0, packing)
        yield module


_NOT_PLAIN = re.compile(
    r' addrspacecast | alloca |@llvm\.(debug|ubsan)?trap\(|\.cluster\.|"amdgpu-cluster-dims'
    r'| asm (?!"", "=[vs],0"\()'
)


def is_plain(text: str) -> bool:
    """Tell kernels for which a few of LLVM's IR passes make the code that its pipeline makes in
    three times the time: one function that has no use for what `unused` says is never used."""
    return text.count("\ndefine ") == 1 and not _NOT_PLAIN.search(text)


_INPUTS = (
    "dispatch-id", "dispatch-ptr", "implicitarg-ptr", "lds-kernel-id", "queue-ptr",
    "workgroup-id-y", "workgroup-id-z", "workitem-id-y", "workitem-id-z",
)  # fmt: skip
"""Inputs that hardware or runtime give a kernel that asks by the intrinsic of the same name."""
_NEVER_USED = (
    "cluster-id-x", "cluster-id-y", "cluster-id-z", "completion-action", "default-queue",
    "flat-scratch-init", "heap-ptr", "hostcall-ptr", "multigrid-sync-arg",
)  # fmt: skip


def unused(text: str) -> str:
    """LLVM's attributes of a plain kernel that say what it does without: LLVM's pipeline finds them
    out by a pass of its own. Without accumulation registers the matrix instructions of gfx9 use
    plain ones, so that sums need not be copied."""
    names = [n for n in _INPUTS if f"@llvm.amdgcn.{n.replace('-', '.')}(" not in text]
    absent = " ".join(f'"amdgpu-no-{name}"' for name in (*names, *_NEVER_USED))
    return f'"amdgpu-agpr-alloc"="0" {absent}'


_NARROW = re.compile(
    r"= (fpext|sitofp|uitofp|zext|sext|fadd|fsub|fmul|fneg|add|sub|mul|and|or|xor|shl|lshr|ashr)"
    r"( [a-z]+)* (half|bfloat|i16|i8) "
)
_FLOAT = re.compile(
    r"(%\S+) = (?:(?:fadd|fsub|fmul)(?: [a-z]+)* |call (?:[a-z]+ )*float @llvm\.fma\.f32\()float "
)
_BESIDE_OTHERS = re.compile(r"= insertelement <\d+ x float> [^,]+, float (%[^\s,]+)")
_CARRIED = re.compile(r"= phi float (.*)")


def may_pack(text: str, how: How) -> bool:
    """Look for instructions of which two may become a packed one. LLVM's own search for pairs
    takes up to a fifth of the time of a kernel that has none."""
    if not how.packed or how.libraries:
        return how.packed
    has_floats = how.arch.startswith("gfx9") or how.arch == "gfx1250"
    return bool(_NARROW.search(text)) or (has_floats and _has_float_pairs(text))


def _has_float_pairs(text: str) -> bool:
    """Look for arithmetic whose results become elements of vectors, or are carried by loops: from
    there LLVM searches for pairs."""
    computed, used = set(_FLOAT.findall(text)), set(_BESIDE_OTHERS.findall(text))
    for incoming in _CARRIED.findall(text):
        used.update(re.findall(r"\[ (%[^\s,]+)", incoming))
    return not computed.isdisjoint(used)


def _link(module: Any, libraries: Sequence[str], context: Any) -> None:
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


_COUNTS = {"n_regs": ".vgpr_count", "n_spills": ".vgpr_spill_count",
           "scratch_bytes": ".private_segment_fixed_size"}  # fmt: skip


def report(code: bytes) -> dict[str, int]:
    """Registers of a thread, those spilled, and bytes of scratch memory, from the notes of an
    object, a map in MessagePack."""
    return {name: _number_behind(code, key) for name, key in _COUNTS.items()}


def _number_behind(notes: bytes, key: str) -> int:
    place = notes.rindex(bytes([0xA0 | len(key)]) + key.encode()) + 1 + len(key)
    first = notes[place]
    size = {0xCC: 1, 0xCD: 2, 0xCE: 4}.get(first, 0)
    return int.from_bytes(notes[place + 1 : place + 1 + size], "big") if size else first
