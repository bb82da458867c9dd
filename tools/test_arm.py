"""Run tests on AArch64 under qemu: `python tools/test_arm.py [--cpu cortex-a76] [tests/...]`.

Needs Debian or Ubuntu and the right to install packages: takes `qemu-user` from the distribution,
its Python for arm64 unpacked beside it, and wheels for AArch64, all into one folder that later runs
use again, and the distribution's C compiler for AArch64, for programs that call kernels from C.
Emulated code is some twenty times slower than native code, so that by default a sample of the tests
runs: what checks native code against NumPy or the reference semantics, and what is compiled ahead
of time.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
DEFAULT = (
    "tests/conformance/test_reductions.py", "tests/conformance/test_memory.py",
    "tests/conformance/test_shapes.py", "tests/conformance/test_dot.py",
    "tests/conformance/test_casts.py", "tests/conformance/test_math.py",
    "tests/conformance/test_programs.py", "tests/ops/atomics/test_types.py",
    "tests/ops/sort/test_native.py", "tests/ops/memory/test_native.py", "tests/cpu/test_elf.py",
    "tests/cpu/test_processors.py",
    *(f"tests/tools/aot/test_aot.py::{name}" for name in (
        "test_a_library_is_loaded_and_run", "test_scratch_memory_and_calls_of_the_c_library",
        "test_a_bundle_needs_no_compiler_in_the_process", "test_arguments_that_do_not_fit",
        "test_a_grid_that_divides_by_an_argument_of_0_is_empty", "test_a_failed_assertion",
        "test_constants_that_are_no_numbers", "test_a_library_for_another_machine",
        "test_data_that_holds_addresses_is_relocated",
    )),
)  # fmt: skip
PROGRAMS = {"qemu-aarch64": "qemu-user", "aarch64-linux-gnu-gcc": "gcc-aarch64-linux-gnu"}
HOST = ("tests/tools/aot/test_aot_arm.py",)  # what runs here, and itself starts the emulator
PYTHON = ("python3.11-minimal", "libpython3.11-minimal", "libpython3.11-stdlib")
LIBRARIES = (
    "libc6", "libgcc-s1", "libstdc++6", "zlib1g", "libexpat1", "libffi8", "libssl3",
    "libsqlite3-0", "libuuid1", "liblzma5", "libbz2-1.0", "libcrypt1",
)  # fmt: skip
WHEELS = (
    "xdsl>=0.74,<0.75", "llvmlite>=0.50,<0.51", "numpy", "ml_dtypes", "typer", "rich", "filelock",
    "platformdirs", "pytest", "pytest-xdist", "hypothesis", "filecheck", "mpmath", "scipy",
)  # fmt: skip


def call(*command: str, **options: object) -> None:
    """Run a command; its output appears only if it fails."""
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options
    )
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout[-3000:]}")


def install(folder: Path) -> None:
    """The emulator, and a Python for AArch64 with our dependencies."""
    if (folder / "complete").exists() and all(map(shutil.which, PROGRAMS)):
        return
    print(f"preparing {folder} (a few minutes, once)", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    packages = folder / "packages"
    packages.mkdir(parents=True)
    call("dpkg", "--add-architecture", "arm64")
    call("apt-get", "update", "-qq")
    call("apt-get", "install", "-y", "-qq", *PROGRAMS.values())
    call("apt-get", "download", "-qq", *(f"{p}:arm64" for p in (*PYTHON, *LIBRARIES)), cwd=packages)
    for package in sorted(packages.glob("*.deb")):
        call("dpkg", "-x", str(package), str(folder / "root"))
    platforms = [f"manylinux_2_{n}_aarch64" for n in (17, 24, 27, 28, 31, 34)]
    call(
        sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder / "site"),
        "--python-version", "3.11", "--implementation", "cp", "--only-binary=:all:",
        *(word for name in platforms for word in ("--platform", name)), *WHEELS,
    )  # fmt: skip
    (folder / "complete").touch()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="*", help="default: a sample, and calls from C")
    parser.add_argument("--cpu", default="cortex-a76", help="what qemu emulates")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "arm")
    parser.add_argument("--out", type=Path, help="write the counts to this file, as JSON")
    parser.add_argument("--extra", nargs=argparse.REMAINDER, default=[], help="for pytest")
    options = parser.parse_args()
    folder: Path = options.folder.absolute()
    install(folder)
    paths: list[str] = options.paths or list(DEFAULT)
    path = os.pathsep.join(map(str, (ROOT / "src", folder / "site", ROOT)))
    cache = folder / f"cache-{options.cpu}"
    command = [
        str(emulated(folder, options.cpu)), "-m", "pytest", "-q", "-m", "not slow",
        "-p", "no:cacheprovider", *(["-n", str(options.jobs)] if options.jobs > 1 else []),
        *paths, *options.extra,
    ]  # fmt: skip
    environment = os.environ | {"PYTHONPATH": path, "TRITON_CACHE_DIR": str(cache)}
    start = time.monotonic()
    done = subprocess.run(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=False
    )
    print(done.stdout[-6000:])
    counts = {kind: int(n) for n, kind in re.findall(r"(\d+) (\w+)", done.stdout[-300:])}
    if options.out:
        facts = {"cpu": options.cpu, "emulator": version(), "tests": paths}
        facts |= {"counts": counts, "seconds": round(time.monotonic() - start)}
        options.out.write_text(json.dumps(facts, indent=1) + "\n")
    return done.returncode or (0 if options.paths else from_c())


def from_c() -> int:
    """Run the tests whose C programs alone are emulated; returns the exit status."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *HOST]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


def emulated(folder: Path, cpu: str) -> Path:
    """A program that is Python under the emulator, for processes that Python starts as well."""
    program, root = folder / f"python-{cpu}", folder / "root"
    program.write_text(
        f'#!/bin/sh\nexec qemu-aarch64 -cpu {cpu} -L {root} {root}/usr/bin/python3.11 "$@"\n'
    )
    program.chmod(0o755)
    (folder / "site" / "sitecustomize.py").write_text(
        f"import sys\n\nsys.executable = {str(program)!r}\n"
    )
    return program


def version() -> str:
    """The emulator's version."""
    return subprocess.run(
        ["qemu-aarch64", "--version"], capture_output=True, text=True, check=True
    ).stdout.splitlines()[0]


if __name__ == "__main__":
    sys.exit(main())
