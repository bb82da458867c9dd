"""Compiles the kernels of the corpus for a processor: `python -m tests.amd.corpus gfx942 [NAME]`.
A program of its own, because LLVM ends the process where it fails. A line for each kernel: a name,
registers, spilled ones, bytes of scratch memory, matrix instructions; or a name and the error."""

from __future__ import annotations

import re
import sys

from tests.ir.test_reference_runs import CASES, REFERENCE
from tritium.backends.amd import stages
from tritium.backends.amd.options import make_options
from tritium.ops.parsing import parse_module


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
        assert stages.make_hsaco(code, facts).startswith(b"\x7fELF")
        matrix = sorted(set(re.findall(r"\tv_((?:mfma|wmma)_\w+)", str(code))))
        print(facts["n_regs"], facts["n_spills"], facts["scratch_bytes"], *matrix, flush=True)


main(sys.argv[1], sys.argv[2:])
