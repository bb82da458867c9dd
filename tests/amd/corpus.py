"""Compiles the kernels of the corpus for a processor: `python -m tests.amd.corpus gfx942 [NAME]`.
A program of its own, because LLVM ends the process where it fails. A line for each kernel: a name,
registers, spilled ones, bytes of scratch memory, what checked the code object, matrix instructions;
or a name and the error. The object is disassembled where there is an `llvm-objdump` that knows the
processor, or else its assembly is assembled where there is a clang (`TRITIUM_LLVM_OBJDUMP_PATH`,
`TRITIUM_AMD_ASSEMBLER`): other programs than LLVM's that made it say what is in it."""

from __future__ import annotations

import re
import sys

from tests.amd.test_code_object import Elf
from tests.ir.test_reference_runs import CASES, REFERENCE
from tritium import knobs
from tritium.backends.amd import amdgcn, stages
from tritium.backends.amd.options import make_options
from tritium.native.llvm_tools import disassemble
from tritium.ops.parsing import parse_module

INSTRUCTION = r"^\s+((?:v|s|ds|buffer|global|flat|scratch|tensor|cluster)_\w+)"


def instructions(text: str) -> list[str]:
    """The names of a text's instructions, without those that also fill gaps of the object; sorted,
    as the linker places sections in an order of its own."""
    found = re.findall(INSTRUCTION, text, re.M)
    return sorted(name for name in found if name not in ("s_code_end", "s_nop"))


def checked(code: amdgcn.Code, binary: bytes, arch: str) -> str:
    """The name of the tool that finds the instructions of LLVM's assembly in a code object; `none`
    where there is none for the processor."""
    text = str(code)
    try:
        found = disassemble(binary, arch, knobs.amd.objdump_path, amdgcn.ROCM_TOOLS)
    except RuntimeError:
        if amdgcn.assembler() is None:
            return "none"
        other = Elf(amdgcn.assembled(text, arch)).section(".text").data
        assert other == Elf(code.object).section(".text").data, "other code"
        return "assembler"
    assert instructions(found) == instructions(text), "other instructions"
    return "disassembler"


def main(arch: str, names: list[str]) -> None:
    for name in names or sorted(CASES):
        print(name, end=" ", flush=True)
        module, facts = parse_module((REFERENCE / f"{name}.source.ttir").read_text(), name), {}
        options = make_options({}, arch)
        try:
            module = stages.make_ttgir(stages.make_ttir(module, facts), facts, options)
            code = stages.make_amdgcn(stages.make_llir(module, facts, options), facts, options)
        except NotImplementedError as error:
            print("error", error, flush=True)
            continue
        tool = checked(code, stages.make_hsaco(code, facts), arch)
        matrix = sorted(set(re.findall(r"\tv_((?:mfma|wmma)_\w+)", str(code))))
        numbers = (facts[name] for name in ("n_regs", "n_spills", "scratch_bytes"))
        print(*numbers, tool, *matrix, flush=True)


main(sys.argv[1], sys.argv[2:])
