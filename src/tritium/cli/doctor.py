"""`tritium doctor`: what this machine offers to the compiler, what is missing, how to get it."""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib.metadata
import json
import os
import platform
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

import llvmlite.binding as llvm
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tritium import knobs
from tritium.backends.base import OWN_BACKENDS, backends
from tritium.version import REFERENCE_VERSION, __version__

#: Feature names (LLVM's) that change the code we generate, in the order in which they are shown.
_NOTABLE_FEATURES = (
    *("sse4.2", "avx", "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512vl", "avx512bf16"),
    *("avx512fp16", "avx512vnni", "amx-tile", "amx-bf16", "amx-int8"),
    *("neon", "fp16", "bf16", "dotprod", "i8mm", "sve", "sve2", "sme"),
)


@dataclass(frozen=True)
class Finding:
    """One line of the report.

    Attributes:
        group: the heading that it stands under.
        name: what was looked for.
        state: `ok`, `missing` (optional, `remedy` says how to get it) or `broken` (needed).
        detail: the version, path or value found.
        remedy: what to do about it; empty when nothing is to be done.
    """

    group: str
    name: str
    state: str
    detail: str = ""
    remedy: str = ""


def examine() -> list[Finding]:
    """Look at everything; starts no kernel and imports neither torch nor CUDA."""
    return [*_software(), *_processor(), *_gpu(), *_optional(), *_plug_ins(), *_cache()]


def run_doctor(*, as_json: bool) -> bool:
    """Print the report; returns whether the CPU backend can work here."""
    findings = examine()
    if as_json:
        print(json.dumps([asdict(f) for f in findings], indent=1))
    else:
        _print(findings)
    return all(f.state != "broken" for f in findings)


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _software() -> Iterable[Finding]:
    group = "software"
    yield Finding(group, "tritium", "ok", f"{__version__}, follows triton {REFERENCE_VERSION}")
    yield Finding(group, "python", "ok", f"{platform.python_version()} at {sys.executable}")
    yield Finding(group, "system", "ok", platform.platform())
    for name in ("xdsl", "numpy", "ml_dtypes"):
        found = _version(name)
        state, remedy = ("ok", "") if found else ("broken", "pip install --force-reinstall tritium")
        yield Finding(group, name, state, found or "", remedy)
    yield _code_generator(group)


def _code_generator(group: str) -> Finding:
    """LLVM, seen to compile and run a function: a hardened system may forbid fresh code."""
    numbers = cast("tuple[int, ...]", llvm.llvm_version_info)
    detail = f"{_version('llvmlite')}, LLVM {'.'.join(map(str, numbers))}"
    try:
        answer = _compile_and_call()
    except (OSError, RuntimeError) as error:
        remedy = "the system may forbid executable memory (SELinux, PaX, a sandbox)"
        return Finding(group, "llvmlite", "broken", f"{detail}: {error}", remedy)
    if answer != 42:
        return Finding(group, "llvmlite", "broken", f"{detail}: compiled 42, got {answer}")
    return Finding(group, "llvmlite", "ok", f"{detail}, compiles and runs native code")


def _compile_and_call() -> int:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    module = llvm.parse_assembly("define i32 @answer(i32 %x) { %y = add i32 %x, 1 ret i32 %y }")
    machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
    jit = llvm.create_mcjit_compiler(module, machine)
    jit.finalize_object()
    address = cast(int, jit.get_function_address("answer"))
    return ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32)(address)(41)


def _processor() -> Iterable[Finding]:
    group = "processor"
    model = knobs.system().processor_name()
    yield Finding(group, "model", "ok", f"{model} (LLVM: {llvm.get_host_cpu_name()})")
    yield Finding(group, "cores", "ok", _cores())
    features = llvm.get_host_cpu_features()
    notable = [f for f in _NOTABLE_FEATURES if features.get(f)]
    yield Finding(group, "features", "ok", " ".join(notable) or "none that we use")
    if caches := _caches():
        yield Finding(group, "caches", "ok", caches)


def _cores() -> str:
    usable, threads = len(knobs.system().usable_cpus()), knobs.runtime.cpu_threads
    return f"{usable} usable of {os.cpu_count()}; kernels use {threads} (TRITIUM_NUM_THREADS)"


def _caches() -> str:
    """Sizes of the first CPU's caches, as far as they are known."""
    sizes = knobs.system().cache_sizes(lowest=1)
    return ", ".join(f"L{level}{'d' if level == 1 else ''} {size >> 10}K"
                     for level, size in sorted(sizes.items()))  # fmt: skip


def _gpu() -> Iterable[Finding]:
    group = "nvidia (optional)"
    chosen = knobs.nvidia.libcuda_path
    yield _library(group, "cuda", chosen, "install NVIDIA's driver")
    ptxas = knobs.nvidia.ptxas
    if ptxas:
        yield Finding(group, "ptxas", "ok", f"{ptxas.version} at {ptxas.path}")
    else:
        yield Finding(group, "ptxas", "missing", "", "pip install 'tritium[cuda]'")
    yield _package(group, "cuda-bindings", "pip install 'tritium[cuda]'")
    group = "amd (optional; this backend has not been run on hardware)"
    yield _library(group, "amdhip64", knobs.amd.libhip_path, "install ROCm")


def _library(group: str, name: str, chosen: str | None, remedy: str) -> Finding:
    found = chosen or ctypes.util.find_library(name)
    if found:
        return Finding(group, "driver", "ok", found)
    return Finding(group, "driver", "missing", f"no lib{name}", remedy)


def _package(group: str, name: str, remedy: str) -> Finding:
    version = _version(name)
    if version is None:
        return Finding(group, name, "missing", "", remedy)
    return Finding(group, name, "ok", version)


def _optional() -> Iterable[Finding]:
    group = "python packages (optional)"
    yield _package(group, "torch", "pip install 'tritium[torch]' to pass tensors of torch")
    yield _package(group, "matplotlib", "pip install 'tritium[bench]' for the plots of perf_report")
    yield _package(group, "pandas", "pip install 'tritium[bench]' for the tables of perf_report")
    yield _package(group, "jinja2", "pip install 'tritium[explore]' for tritium explore")
    yield _package(group, "redis", "pip install 'tritium[redis]' to share a kernel cache")
    real = _version("triton")
    if real is not None:
        yield Finding(group, "triton", "ok", f"{real}, untouched beside tritium")


def _plug_ins() -> Iterable[Finding]:
    """Backends of other distributions; one that cannot be imported disturbs no other."""
    group = "backends of others (optional)"
    names = [name for name in backends if name not in OWN_BACKENDS]
    usable = dict(backends.usable(names))
    for name in names:
        package = backends.packages[name]
        if name in usable:
            yield Finding(group, name, "ok", package)
        else:
            error = backends.failures[name]
            detail = f"{package}: {type(error).__name__}: {error}"
            yield Finding(group, name, "missing", detail, "kernels for its target cannot compile")


def _cache() -> Iterable[Finding]:
    group, path = "kernel cache", Path(knobs.cache.dir)
    existing = next(p for p in (path, *path.absolute().parents) if p.exists())
    try:
        # Asking for permissions is not enough: a read-only file system grants them to root.
        with tempfile.TemporaryFile(dir=existing):
            yield Finding(group, "folder", "ok", str(path))
            return
    except OSError:
        pass
    remedy = "set TRITON_CACHE_DIR to a folder that can be written; kernels compile in each process"
    yield Finding(group, "folder", "missing", f"{path} cannot be written", remedy)


_MARKS: dict[str, str] = {
    "ok": "[green]ok[/]",
    "missing": "[yellow]missing[/]",
    "broken": "[bold red]broken[/]",
}


def _print(findings: list[Finding]) -> None:
    console = Console()
    for group in dict.fromkeys(f.group for f in findings):
        table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
        for finding in (f for f in findings if f.group == group):
            text = escape(finding.detail)
            if finding.remedy:
                text = f"{text + ': ' if text else ''}[italic]{escape(finding.remedy)}[/]"
            table.add_row("  " + finding.name, _MARKS[finding.state], text)
        console.print(f"[bold]{group}[/]")
        console.print(table)
    states = Counter(f.state for f in findings)
    verdict = "cannot work here" if states["broken"] else "ready"
    console.print(f"\nCPU backend: {verdict}; {states['missing']} optional parts missing")
