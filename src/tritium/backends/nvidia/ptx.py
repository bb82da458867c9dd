"""LLVM IR text to PTX (LLVM's NVPTX target, by llvmlite), and PTX to a cubin (`ptxas`).

Without `ptxas` the last stage keeps the PTX, as text with a final zero byte: the driver's own
assembler takes that in the place of a cubin (`cuModuleLoadData`), in about the same time.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import Any

import llvmlite.binding as llvm

from tritium import knobs
from tritium.backends.nvidia import libdevice
from tritium.backends.nvidia.assembler_runs import AssemblerRun
from tritium.backends.nvidia.options import assembler
from tritium.backends.nvidia.ptxas_workarounds import shift_factors, with_all_registers
from tritium.codegen.llvm.bitcode import flags_set, gpu_machine, optimize_function
from tritium.codegen.llvm.bitcode import optimize as run_passes
from tritium.errors import PTXASError
from tritium.native.loader import lock, parse

TRIPLE = "nvptx64-nvidia-cuda"
DATA_LAYOUT = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"
_NEWEST_PTX = 90  # that LLVM 22 knows


def cpu_name(arch: int) -> str:
    """`sm_90a` for 90: from Hopper on with the features of exactly that architecture."""
    return f"sm_{arch}a" if arch >= 90 else f"sm_{arch}"


def ptx_version(tool_version: str | None) -> int:
    """The PTX version (87 for 8.7) that a `ptxas` of a CUDA version reads; 87 when unknown."""
    if tool_version is None:
        return 87
    major, minor = (int(part) for part in tool_version.split(".")[:2])
    if major < 12:
        raise PTXASError(f"ptxas is of CUDA {tool_version}; 12.0 or later is required")
    if major == 12 and minor >= 6:  # 12.6 has no version of its own: 8.5, as 12.5
        minor -= 1
    return min(10 * (major - 4) + minor, _NEWEST_PTX)


@functools.cache
def _machine(arch: int, version: int) -> Any:
    return gpu_machine(TRIPLE, cpu_name(arch), f"+ptx{version}")


def emit_ptx(
    text: str, arch: int, version: int, *, optimize: bool = True, libraries: Sequence[str] = (),
    flags: Sequence[str] = (),
) -> str:  # fmt: skip
    """PTX for a module.

    Args:
        text: LLVM IR.
        arch: the compute capability, 90 for example.
        version: the PTX version, 87 for 8.7; LLVM writes for the nearest one that it knows.
        optimize: run IR passes; instruction selection always optimizes (else wgmma is serialized).
        libraries: paths of LLVM bitcode that it calls, besides libdevice.
        flags: of LLVM, that are set meanwhile.

    Raises: `RuntimeError` if the text is not valid IR (a defect of lowering, or of an override);
    what `libdevice.link` raises.
    """
    # Closed here, in this order: a module that an error keeps alive must not outlive its context.
    with lock, flags_set(flags), llvm.create_context() as context, parse(text, context) as module:
        machine = _machine(arch, min(max(version, 80), _NEWEST_PTX))
        linked = libdevice.link(module, libraries, machine, context)
        packing = optimize and _PACKABLE.search(text) is not None
        if optimize and not packing and _is_one_function(module):
            optimize_function(module, machine)
        elif optimize or linked:  # what is linked must be inlined
            run_passes(module, machine, 1 if optimize else 0, packing)
        ptx = machine.emit_assembly(module)
    number = f".version {version // 10}.{version % 10}"
    ptx = re.sub(r"^\.version .*$", number, ptx, count=1, flags=re.M)
    return shift_factors(ptx) if optimize else ptx


def _is_one_function(module: Any) -> bool:
    """True of a module of one function, which calls nothing but intrinsics of LLVM."""
    others = [f for f in module.functions if not f.name.startswith("llvm.")]
    return len(others) == 1


_PACKABLE = re.compile(r"= (phi|fadd|fsub|fmul)( [a-z]+)* (half|bfloat) ")
"""16-bit floats that are kept over branches or computed with: two fit in a register."""


def ptxas_arguments(
    arch: int, *, enable_fp_fusion: bool = True, line_info: bool = True, options: str | None = None
) -> list[str]:
    """The command line's options."""
    arguments = [f"--gpu-name={cpu_name(arch)}", "-v"]
    if line_info:
        arguments.append("-lineinfo")
    if not enable_fp_fusion:
        arguments.append("--fmad=false")
    if knobs.nvidia.disable_ptxas_opt:
        arguments += ["--opt-level", "0"]
    for text in (options, knobs.nvidia.ptxas_options):
        arguments += (text or "").split()
    return arguments


def assemble(
    ptx: str, arch: int, arguments: Sequence[str], begun: AssemblerRun | None = None
) -> tuple[bytes, str]:
    """(cubin, what ptxas reported) for PTX text; without ptxas (PTX with a zero byte, "").
    `begun`: a run to use if it has these arguments.

    Raises: `PTXASError`, with the tool's output and a command that repeats it; also where ptxas
    takes longer than `knobs.nvidia.ptxas_timeout`.
    """
    tool = assembler(arch)
    if tool is None:
        return ptx.encode() + b"\0", ""
    if begun is None or begun.program != (tool.path, *arguments):
        begun = AssemblerRun(tool.path, arguments)
    cubin, log = begun.assemble(ptx)
    facts = report(log)
    again = with_all_registers(ptx, facts["n_regs"], 4 * facts["n_spills"])
    if again is not None and not any("maxrregcount" in argument for argument in arguments):
        cubin, log = AssemblerRun(tool.path, arguments).assemble(again)
    if knobs.nvidia.dump_ptxas_log:
        print(log)
    return cubin, log


_WARNING = re.compile(r"\(C(75\d\d)\)\s*(.*)")
_USED = re.compile(r"Used (\d+) registers")
_SPILLED = re.compile(r"(\d+) bytes spill stores")


def report(log: str) -> dict[str, int]:
    """Registers a thread and bytes spilled, from ptxas' log."""
    used, spilled = _USED.search(log), _SPILLED.search(log)
    return {
        "n_regs": int(used[1]) if used else 0,
        "n_spills": int(spilled[1]) // 4 if spilled else 0,
    }


def performance_messages(log: str, maxnreg: int | None) -> list[str]:
    """ptxas' messages on code that it had to make slow: numbers C75xx, registers spilled.

    `maxnreg`: the option of the kernel, which limits the registers of a thread.
    """
    found = [f"C{m[1]}: {m[2].strip()}" for m in _WARNING.finditer(log)]
    facts = report(log)
    if facts["n_spills"]:
        limit = f"the {maxnreg} registers that maxnreg allows" if maxnreg else "its registers"
        more = ", or a larger maxnreg," if maxnreg else ""
        found.append(
            f"{4 * facts['n_spills']} bytes a thread do not fit {limit} and are spilled to memory; "
            f"smaller tiles or more warps{more} avoid that"
        )
    return found
