"""Compile a kernel ahead of time: `python -m tritium.tools.compile FILE --kernel-name NAME ...`.

For CUDA writes a C source that holds the cubin, and its header. For the CPU (`--target cpu`, or
`cpu:haswell`) writes a shared library, with `--object` an object file, and its header; no C
compiler is needed. `tritium.aot.load` takes the library.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import sys
import traceback
from argparse import ArgumentParser
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tritium import compat, knobs
from tritium.aot import ABOUT
from tritium.aot.grid import as_c
from tritium.aot.sources import Interface, c_name, cpu_header, cuda_header, cuda_source
from tritium.backends.active import driver
from tritium.backends.base import BaseBackend
from tritium.compiler import CompiledKernel
from tritium.compiler import compile as compile_source
from tritium.errors import TritonError, message_of
from tritium.target import GPUTarget


@dataclass
class CompileArgs:
    """The arguments of the command line."""

    path: str = ""
    kernel_name: str = ""
    signature: str = ""
    grid: str = ""
    target: str | None = None
    num_warps: int = 1
    num_stages: int = 3
    out_name: str | None = None
    out_path: Path | None = None
    object: bool = False


@dataclass
class Signature:
    """A signature as it is given: types with hints, and constants; `fixed` has the types of those
    that a hint of 1 makes constants."""

    names: list[str]
    types: dict[str, str]
    constants: dict[str, Any]
    hints: dict[int, int]
    fixed: dict[str, str]

    @property
    def suffix(self) -> str:
        """Positions of hints, with c for one of 1 and d for one of 16: `0d1d4c`."""
        return "".join(f"{i}{'c' if hint == 1 else 'd'}" for i, hint in sorted(self.hints.items()))

    @property
    def parameters(self) -> list[tuple[str, str]]:
        """(name, type) of what a launch passes."""
        return [(n, self.types[n]) for n in self.names if n not in self.constants]


_WORDS = {"True": True, "False": False, "None": None}
_TEXT = re.compile(r"""(["'])(\w+)\1""")
_NO_CONSTANT = object()


def _constant(text: str) -> Any:
    """The value of a part that is a number, True, False, None or a word in quotes; else
    `_NO_CONSTANT`."""
    if text in _WORDS:
        return _WORDS[text]
    if quoted := _TEXT.fullmatch(text):
        return quoted[2]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return _NO_CONSTANT


def parse_signature(text: str, names: Sequence[str]) -> Signature:
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != len(names):
        raise ValueError(
            f"the signature has {len(parts)} parts; the kernel's {len(names)} parameters are "
            f"{', '.join(names)}"
        )
    found = Signature(list(names), {}, {}, {}, {})
    for i, (name, part) in enumerate(zip(names, parts, strict=True)):
        type, colon, hint = part.partition(":")
        constant = _constant(part)
        if constant is not _NO_CONSTANT:
            found.types[name], found.constants[name] = "constexpr", constant
            continue
        found.types[name] = type
        if colon:
            if hint not in ("1", "16"):
                raise ValueError(f"{name}: Only 1 and 16 are valid hints, got {hint}")
            if type[:1] not in ("i", "u") and (type[:1] != "*" or hint == "1"):
                raise ValueError(f"{name}: hints of 1 are for integers, of 16 for integers and "
                                 f"pointers; got {part}")  # fmt: skip
            found.hints[i] = int(hint)
            if hint == "1":
                found.types[name], found.constants[name] = "constexpr", 1
                found.fixed[name] = type
    return found


def load_kernel(args: CompileArgs) -> Any:
    """The kernel: the file is run from its own folder's point of view, where `triton` means
    Tritium."""
    path = Path(args.path)
    if path.is_dir():
        raise ValueError(f"{path}: a folder; a Python file is required")
    if not path.is_file():
        raise ValueError(f"{path}: no such file")
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    was_installed = compat.is_installed()
    compat.install()
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        raise ValueError(f"{path} is no Python program: {error}") from None
    except Exception as error:
        raise ValueError(_failure(path, spec.origin, error)) from error
    finally:
        if not was_installed:
            compat.uninstall()
    kernel = getattr(module, args.kernel_name, None)
    kernel = getattr(kernel, "base_fn", kernel)  # below autotuners
    if not hasattr(kernel, "arg_names") or not hasattr(kernel, "ASTSource"):
        raise ValueError(f"{path} has no kernel called {args.kernel_name!r}")
    return kernel


def _failure(path: Path, file: str | None, error: Exception) -> str:
    """The message for a file whose own statements fail, with its last line that was executed."""
    frames = reversed(traceback.extract_tb(error.__traceback__))
    line = next((f":{frame.lineno}" for frame in frames if frame.filename == file), "")
    return (
        f"{path}{line} fails where the file is run for its definitions (launches belong under "
        f"`if __name__ == '__main__':`): {type(error).__name__}: {message_of(error)}"
    )


def target_of(text: str | None) -> GPUTarget:
    """`cpu`, `cpu:haswell`, `cuda:80:32`; the machine's own for None."""
    if not text:
        return driver.active.get_current_target()
    backend, *rest = text.split(":")
    if backend == "cpu":
        named = rest[:-1] if rest and rest[-1].isdigit() else rest
        return GPUTarget("cpu", ":".join(named) or "native", 1)
    if len(rest) != 2 or not rest[1].isdigit():
        lacks = " has no warp size, as in cuda:90:32 or hip:gfx942:64" if len(rest) == 1 else ""
        raise ValueError(
            f"target {text!r}{lacks}; <backend>:<arch>:<warp size> or cpu[:<processor>]"
        )
    arch = int(rest[0]) if rest[0].isdigit() else rest[0]
    return GPUTarget(backend, arch, int(rest[1]))


def compile_given(kernel: Any, args: CompileArgs) -> tuple[CompiledKernel, Signature]:
    """The compiled kernel, and the signature. Raises as `compile_kernel`.

    Args:
        kernel: what `load_kernel` gave for the same arguments.
    """
    signature = parse_signature(args.signature, kernel.arg_names)
    for parameter in kernel.params:
        type = signature.types[parameter.name]
        if parameter.is_constexpr and type != "constexpr":
            raise ValueError(f"{parameter.name} is a tl.constexpr, whose value the signature must "
                             f"give; got the type {type}")  # fmt: skip
    attrs = {(i,): BaseBackend.parse_attr("D") for i, h in signature.hints.items() if h == 16}
    source = kernel.ASTSource(kernel, signature.types, signature.constants, attrs)
    debug = bool(kernel.debug) or knobs.runtime.debug
    options = {"num_warps": args.num_warps, "num_stages": args.num_stages, "debug": debug}
    compiled = compile_source(source, target=target_of(args.target), options=options)
    return compiled, signature


def compile_kernel(args: CompileArgs) -> tuple[str, list[Path]]:
    """Compile, and write the files. Returns the C function's name and the files.

    Raises `ValueError` for arguments that do not fit, `NotImplementedError` for kernels that need
    what a C caller cannot give, and the compiler's errors.
    """
    grid = args.grid.split(",")
    if len(grid) != 3:
        raise ValueError(f"the grid {args.grid!r} has {len(grid)} sizes; three are required")
    kernel = load_kernel(args)
    compiled, signature = compile_given(kernel, args)
    target = compiled.metadata.target
    settings = f"warps{args.num_warps}xstages{args.num_stages}"
    parts = [part.strip() for part in args.signature.split(",")]
    digest = hashlib.sha256(" ".join([*parts, settings]).encode()).hexdigest()[:8]
    name = f"{args.out_name or args.kernel_name}_{digest}_{signature.suffix}"
    if not (name.isascii() and name.isidentifier()):
        raise ValueError(f"{name} is no name of a C function; give one with --out-name")
    place = args.out_path or Path(args.out_name or args.kernel_name)
    place = place.with_name(f"{place.name}.{digest}_{signature.suffix}")
    place.parent.mkdir(parents=True, exist_ok=True)
    writers = {"cpu": _write_cpu, "cuda": _write_cuda}
    if target.backend not in writers:
        raise NotImplementedError(f"ahead-of-time compilation for {target.backend}")
    values = "x".join(str(v) for n, v in signature.constants.items() if n not in signature.fixed)
    about = ", ".join(f"{n}={v}" for n, v in signature.constants.items())
    interface = Interface(
        name, *_parameters(signature, target), f"{values}_{settings}",
        f"{args.kernel_name} of {Path(args.path).name}; {about or 'no constants'}; {settings}",
        {c_name(kernel.arg_names[i]): hint for i, hint in signature.hints.items()},
    )  # fmt: skip
    return name, writers[target.backend](args, compiled, signature, interface, grid, place)


def _parameters(
    signature: Signature, target: GPUTarget
) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    pointer = "CUdeviceptr" if target.backend == "cuda" else "void *"
    kept = {n: c_type(t, n, pointer) for n, t in signature.parameters}
    types = kept | {n: c_type(t, n, pointer) for n, t in signature.fixed.items()}
    every = [(types[n], c_name(n)) for n in signature.names if n in types]
    return [(t, c_name(n)) for n, t in kept.items()], every


_C_TYPES = {
    "i1": "int8_t", "u1": "uint8_t", "fp32": "float", "fp64": "double",
    **{f"i{n}": f"int{n}_t" for n in (8, 16, 32, 64)},
    **{f"u{n}": f"uint{n}_t" for n in (8, 16, 32, 64)},
}  # fmt: skip


def c_type(type: str, name: str, pointer: str) -> str:
    """The C type of an argument. Raises `NotImplementedError` for types that C has not."""
    if type.startswith("*"):
        return pointer
    if type not in _C_TYPES:
        raise NotImplementedError(f"argument {name} of type {type}: C has no such type; pass fp32")
    return _C_TYPES[type]


def _write_cuda(
    args: CompileArgs, compiled: Any, signature: Signature, to: Interface, grid: list[str],
    place: Path,
) -> list[Path]:  # fmt: skip
    data = compiled.metadata
    if data.global_scratch_size or data.profile_scratch_size:
        raise NotImplementedError(f"{args.kernel_name} needs global scratch memory, which C "
                                  "callers do not give")  # fmt: skip
    blocks, threads = data.num_ctas, data.num_warps * data.target.warp_size
    if blocks > 1 or data.launch_cooperative_grid or data.launch_pdl:
        raise NotImplementedError(f"{args.kernel_name}: launches of clusters, cooperative ones and "
                                  "dependent ones")  # fmt: skip
    known = {n: str(int(v)) for n, v in signature.constants.items() if isinstance(v, int)}
    known |= {n: c_name(n) for n, t in signature.parameters if t[0] in "iu"}
    grid = [as_c(size, known) for size in grid]
    files = [place.with_name(f"{place.name}.{ext}") for ext in ("h", "c")]
    texts = cuda_header(to), cuda_source(
        to, compiled.asm["cubin"], data.name, grid, threads, data.shared
    )
    for file, text in zip(files, texts, strict=True):
        file.write_text(text, encoding="utf-8")
    return files


def _write_cpu(
    args: CompileArgs, compiled: Any, signature: Signature, to: Interface, grid: list[str],
    place: Path,
) -> list[Path]:  # fmt: skip
    from tritium.aot.entry import entry_ir  # with the compiler, which kernels in the cache need not
    from tritium.backends.cpu.processors import processor
    from tritium.native.loader import compile_ir
    from tritium.native.shared_library import shared_library
    from tritium.system.linux_processor import FLAGS

    data = compiled.metadata
    if data.polls:
        raise NotImplementedError(f"{args.kernel_name} has programs that wait for each other")
    machine = processor(data.arch)
    if "linux" not in machine.triple:
        raise NotImplementedError(f"libraries and objects for {machine.triple}; only for Linux")
    about = {
        "name": args.kernel_name, "entry": to.name, "parameters": signature.parameters,
        "constants": signature.constants, "grid": args.grid, "cpu": machine.cpu,
        "features": sorted({*FLAGS} & {*machine.features}), "written": data.written_args,
        "hints": {signature.names[i]: hint for i, hint in signature.hints.items()},
    }  # fmt: skip
    # Only the entries are seen from outside: the kernel's own name may be any C function's.
    text = compiled.asm["llir"].replace(f"define void @{data.name}(",
                                        f"define internal void @{data.name}(", 1)  # fmt: skip
    text += entry_ir(
        to.name, data.name, signature.parameters, data.scratch_bytes, grid, signature.constants,
        None if args.object else about,
    )
    code = compile_ir(text, opt=data.llvm_opt, processor=machine)
    header, binary = (
        place.with_name(f"{place.name}.{ext}") for ext in ("h", "o" if args.object else "so")
    )
    if not args.object:
        functions = [to.name, *(f"{to.name}_{word}" for word in ("programs", "failure")),
                     f"load_{to.name}", f"unload_{to.name}"]  # fmt: skip
        code = shared_library(code, binary.name, functions, [ABOUT], machine.architecture)
    header.write_text(cpu_header(to), encoding="utf-8")
    part = binary.with_name(f"{binary.name}.{os.getpid()}")
    part.write_bytes(code)
    part.replace(binary)  # processes that have loaded the earlier file keep it
    return [header, binary]


def _parser() -> ArgumentParser:
    parser = ArgumentParser(prog="python -m tritium.tools.compile", description=__doc__)
    add = parser.add_argument
    add("path", help="the Python file with the kernel; it is run")
    add("--kernel-name", "-n", default="", required=True, help="the kernel")
    add("--target", "-t", help="cpu, cpu:haswell, cuda:90:32; default: this machine's")
    add("--num-warps", "-w", type=int, default=1, help="warps of a program")
    add("--num-stages", "-ns", type=int, default=3, help="stages of pipelined loops")
    add("--out-name", "-on", help="the C function's name begins with it; default: the kernel's")
    add("--out-path", "-o", type=Path, help="the files' names begin with it")
    add("--signature", "-s", required=True,
        help='one part for each parameter: a type with a hint or a constant, "*fp32:16, i32, 64"')
    add("--grid", "-g", required=True, help='three sizes of the arguments, "M/16, N/16, 1"')
    add("--object", action="store_true", help="for the CPU: an object file, not a library")
    return parser


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line; prints the files it has written."""
    args = CompileArgs(**vars(_parser().parse_args(arguments)))
    try:
        _, files = compile_kernel(args)
    except (TritonError, ValueError, TypeError, RuntimeError, AssertionError, OSError) as error:
        sys.exit(f"tritium.tools.compile: error: {message_of(error)}")
    for file in files:
        print(file)


if __name__ == "__main__":
    main()
