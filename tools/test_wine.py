"""Run the thread pool and kernels compiled for Windows under Wine: `python tools/test_wine.py`.

Needs Debian or Ubuntu and the right to install packages: takes Wine and a C compiler for Windows
from the distribution. The objects are those that Windows would load. `test_wine.c` stands for
Python: it prepares the pool's memory, launches, and checks results. The pool calls Wine's
implementation of the Windows API. Python itself, and LLVM's loader, are not run.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import tritium
import tritium.language as tl
from tritium.backends.cpu.processors import processor
from tritium.codegen.llvm.writer import Module
from tritium.compiler import ASTSource
from tritium.native import pool
from tritium.native.loader import compile_ir
from tritium.native.pool_writer import PoolWriter
from tritium.target import GPUTarget

ARCH = "x86-64:x86_64-pc-windows-msvc"
PACKAGES = ("wine64", "gcc-mingw-w64-x86-64-win32")
COMPILER = "x86_64-w64-mingw32-gcc"
WINE, SERVER = "/usr/lib/wine/wine64", "/usr/lib/wine/wineserver64"
RECORDS = ("CONTEXT", "FAULT", "JOB", "ENTRY", "SLOT", "WORKER", "POOL")
STALL = "\n@stall_address = global ptr @stall\n"


@tritium.jit
def softmax(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    row = tl.load(x + tl.program_id(0) * n + i, mask=i < n, other=float("-inf"))
    row = tl.exp(row - tl.max(row, 0))
    tl.store(out + tl.program_id(0) * n + i, row / tl.sum(row, 0), mask=i < n)


@tritium.jit
def product(a, b, out, N: tl.constexpr):
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    at = tl.program_id(0) * N * N + i * N + j
    tl.store(out + at, tl.dot(tl.load(a + at), tl.load(b + i * N + j)))


@tritium.jit
def barrier(count, n):
    tl.atomic_add(count, 1)
    while tl.atomic_add(count, 0) < n:
        pass


FLOATS = "*fp32"
SOURCES = {
    "softmax": ASTSource(softmax, {"x": FLOATS, "out": FLOATS, "n": "i32"}, {"BLOCK": 512}),
    "product": ASTSource(product, {"a": FLOATS, "b": FLOATS, "out": FLOATS}, {"N": 32}),
    "barrier": ASTSource(barrier, {"count": "*i32", "n": "i32"}, {}),
}


def call(*command: str, **environment: str) -> None:
    """Run a command; the program ends if it fails."""
    if subprocess.run(command, env={**os.environ, **environment}, check=False).returncode:
        sys.exit(f"{' '.join(command)} failed")


def header(system: pool.System) -> str:
    """The records of the pool, for C."""
    lines = [f"#define SLOTS {pool.SLOTS}", f"#define POLLS {pool.POLLS}",
             f"#define THRESHOLD {system.threshold}", f"#define SPIN {system.spin}"]  # fmt: skip
    for name in RECORDS:
        record = getattr(pool, name)
        lines.append(f"#define {name}_SIZE {record.size}")
        lines += [f"#define {name}_{k} {f.offset}" for k, f in record.fields.items() if k]
    return "\n".join(lines) + "\n"


def build(folder: Path, kernels: dict[str, bytes], system: pool.System) -> str:
    """The program, of the kernels and a pool; its path."""
    module = Module()
    PoolWriter(module, system).write()
    code = compile_ir(module.text() + STALL, opt="light", processor=processor(ARCH))
    objects = [folder / f"{name}.obj" for name in ("pool", *kernels)]
    for path, content in zip(objects, (code, *kernels.values()), strict=True):
        path.write_bytes(content)
    (folder / "records.h").write_text(header(system))
    program, source = str(folder / "test.exe"), str(Path(__file__).with_suffix(".c"))
    files = [source, *map(str, objects)]
    call(COMPILER, "-O1", "-I", str(folder), *files, "-lsynchronization", "-o", program)
    return program


def main() -> None:
    if not Path(WINE).exists():
        call("apt-get", "install", "-y", "-qq", "--no-install-recommends", *PACKAGES)
    kernels = {
        name: tritium.compile(source, target=GPUTarget("cpu", ARCH, 1)).asm["obj"]
        for name, source in SOURCES.items()
    }
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        environment = {"WINEPREFIX": str(Path(name, "wine")), "WINEDEBUG": "-all"}
        for cycles in (False, True):
            program = build(Path(name), kernels, pool.System("windows", False, cycles))
            clock = "counter of cycles" if cycles else "performance counter"
            print(f"with the {clock}:", flush=True)
            call(WINE, program, **environment)
        call(SERVER, "-k", **environment)


if __name__ == "__main__":
    main()
