"""`tritium opt`: named passes over a file of IR."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

import typer
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import VerifyException

from tritium.backends import backends as backends  # which describe the targets that passes name
from tritium.backends.cpu.tiles import build as build  # which registers the CPU's passes
from tritium.cli import opt_llvm
from tritium.cli.opt_llvm import SUFFIXES, is_llvm_pass
from tritium.errors import TritonError
from tritium.ir.printing import print_module
from tritium.ir.reproducer import split_reproducer
from tritium.ops.parsing import parse_module
from tritium.passes import registry
from tritium.passes.base import Pass

_PREFIXES = ("tritongpu-", "triton-nvidia-gpu-", "triton-nvidia-", "tritonamdgpu-", "triton-")
"""Prefixes of the names of the reference's passes."""
_OTHER_NAMES = {
    "loop-unroll": "unroll", "loop-aware-cse": "cse", "rewrite-tensor-pointer": "tensor-pointers",
    "rewrite-tensor-descriptor-to-pointer": "tensor-pointers", "F32DotTC": "dot-precision",
    "convert-triton-to-tritongpu": "convert-ttir-to-ttgir", "tma-lowering": "descriptors-to-tma",
    "remove-layout-conversions": "assign-layouts", "optimize-thread-locality": "thread-locality",
    "convert-to-buffer-ops": "buffer-accesses",
    "automatic-warp-specialization": "warp-specialize",
}  # fmt: skip
"""The pass that does the work of one of the reference's that is called differently."""


def pass_named(word: str) -> str | None:
    """The pass, with its options, that an argument such as `-tritongpu-coalesce` or
    `--convert-triton-to-tritongpu=target=cuda:90` names; None for any other argument."""
    name, equals, options = word.lstrip("-").partition("=")
    if word[:1] != "-" or not name:
        return None
    prefix = next((p for p in _PREFIXES if name.startswith(p)), "")
    for found in (name, name.removeprefix(prefix)):
        found = _OTHER_NAMES.get(found, found)
        if found in registry.available():
            return f"{found}{{{options}}}" if equals else found
    if is_llvm_pass(name) and not equals:
        return name
    return name if prefix else None


def options_of(word: str) -> list[str]:
    """A word of a command line of `triton-opt` (of LLVM's `opt`: `-passes=sroa,instcombine`, `-O2`)
    as options of ours. There `-debug` and `-debug-only=a,b` show what passes do, all or some of
    them."""
    name, equals, values = word.lstrip("-").partition("=")
    if word[:1] == "-" and name in ("debug", "mlir-print-ir-after-all") and not equals:
        return ["--print-after-all"]
    if word[:1] == "-" and name == "debug-only" and equals:
        named = [pass_named(f"-{value}") or value for value in values.split(",")]
        return [option for value in named for option in ("--print-after", value)]
    if word[:1] == "-" and name == "passes" and equals:
        return [option for value in values.split(",") for option in ("--pass", value)]
    if re.fullmatch("-O[0-3]", word):
        return ["--pass", f"default<{word[1:]}>"]
    found = pass_named(word)
    return [word] if found is None else ["--pass", found]


class InvalidIR(TritonError):
    """The file is no text, or parses, but breaks a rule of one of its operations."""


def list_passes() -> None:
    """Print the name of every pass with the first line of its description."""
    for name, item in sorted(registry.available().items()):
        text = (item.__doc__ or "").strip().split("\n")[0]
        typer.echo(f"{name:24} {text}".rstrip())


def optimize(
    file: str, passes: Sequence[str], *, print_after_all: bool = False,
    print_after: Sequence[str] = (),
) -> str:  # fmt: skip
    """Parse and verify a file, run passes over it, print the result.

    Args:
        file: its name, or "-" for standard input. One that ends in .llir or .ll holds LLVM IR.
        passes: in order; each a name, with options where needed: `unroll{factor=4}`. Without any,
            the pipeline that a reproducer file names.
        print_after_all: also print the module after each pass, to standard error.
        print_after: names of passes after which alone it is printed so.

    Raises:
        TritonError: the text does not parse or verify, a pass is not known (found out before
            anything is read) or fails, or what it leaves does not verify.
    """
    pipeline = ",".join(passes)
    of_llvm = file.endswith(SUFFIXES)
    if not of_llvm:
        registry.parse_pipeline(pipeline)
        for name in print_after:
            registry.get(name)
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InvalidIR(f"{file} is no text: {error}") from None
    if of_llvm:
        return opt_llvm.optimize(text, file, passes, print_after_all=print_after_all,
                                 print_after=print_after)  # fmt: skip
    text, own = split_reproducer(text)
    if own is not None and not pipeline:
        registry.parse_pipeline(pipeline := own)
    module = parse_module(text, file)
    try:
        module.verify()
    except VerifyException as error:
        raise InvalidIR(f"{file}: {error}") from error

    def show(item: Pass, module: ModuleOp) -> None:
        if print_after_all or item.name in print_after:
            _print_after(item, module)

    registry.run_pipeline(module, pipeline, print_after=show)
    return print_module(module).rstrip("\n") + "\n"


def _print_after(item: Pass, module: ModuleOp) -> None:
    sys.stderr.write(f"// -----// IR Dump After {item.title} ({item.name}) //----- //\n")
    sys.stderr.write(f"{print_module(module)}\n\n")
