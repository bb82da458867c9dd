"""Without Linux's own interfaces: no module needs them to be imported, and kernels compile, launch
and are tuned without; objects of other systems load through LLVM's loader, and run."""

from __future__ import annotations

import ast
import ctypes
import functools
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest

import tritium
import tritium.language as tl
from tests.cpu.test_processors import undefined
from tritium import knobs
from tritium.backends.cpu.launch_records import API
from tritium.backends.cpu.launcher import native_ir
from tritium.backends.cpu.processors import processor
from tritium.compiler import ASTSource
from tritium.launch import records, writer
from tritium.native import loader, pyobjects
from tritium.native.host import CPU, is_x86
from tritium.native.pool import CONTEXT, System
from tritium.native.records import allocate
from tritium.system import system
from tritium.system.portable import WINDOWS_FUNCTIONS, Portable
from tritium.target import GPUTarget

PACKAGE = Path(__file__).parents[2] / "src" / "tritium"

LACKING = """
import ctypes, llvmlite.binding, mmap, numpy.testing, os, signal, sys, xdsl.ir
GONE = {
    os: ("fork", "forkpty", "sched_getaffinity", "sched_setaffinity", "register_at_fork",
         "memfd_create", "killpg", "setpgid", "setsid", "pread", "pwrite", "sysconf", "uname",
         "getuid", "geteuid", "mkfifo", "sched_yield"),
    signal: ("SIGKILL", "SIGSTOP", "SIGCONT", "SIGBUS", "SIGUSR1", "SIG_SETMASK", "SIG_BLOCK",
             "pthread_sigmask", "pthread_kill", "setitimer", "alarm"),
    mmap: ("MAP_PRIVATE", "MAP_ANONYMOUS", "PROT_READ", "PROT_WRITE", "PROT_EXEC"),
}
def take_away(signals=True):
    for module, names in GONE.items():
        for name in names if signals or module is not signal else ():
            if hasattr(module, name):
                delattr(module, name)
    for name in ("fcntl", "resource", "pwd", "grp", "termios", "pty", "syslog"):
        sys.modules[name] = None
    CDLL = ctypes.CDLL
    class Named(CDLL):
        def __init__(self, name, *args, **kwargs):
            if name is None:
                raise TypeError("the process is no library")
            super().__init__(name, *args, **kwargs)
    ctypes.CDLL = Named
    def refuse(event, args):
        if event == "open" and str(args[0]).startswith(("/proc", "/sys")):
            raise OSError(f"{args[0]} is Linux's")
    sys.addaudithook(refuse)
"""


def run(program: str, *arguments: str, **environment: str) -> str:
    """Output of a program, after `LACKING`."""
    file = Path(os.environ["TRITON_CACHE_DIR"]) / f"portable_{abs(hash(program))}.py"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(LACKING + textwrap.dedent(program))
    env = knobs.child_environment(PYTHONPATH=str(PACKAGE.parent), **environment)
    done = subprocess.run(
        [sys.executable, str(file), *arguments], env=env, capture_output=True, text=True,
        timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_module_is_imported_without() -> None:
    """First with the names, so that others' modules are there, then without on each platform."""
    names = sorted(
        ".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
        for file in PACKAGE.rglob("*.py")
        if "reference" not in file.parts and file.name != "__main__.py"
    )
    assert len(names) > 300
    program = """
    import importlib
    def load():
        for name in [m for m in sys.modules if m.partition(".")[0] == "tritium"]:
            del sys.modules[name]
        bad = []
        for name in sys.argv[1:]:
            try:
                importlib.import_module(name)
            except ImportError as error:
                bad.append(f"{name}: {error}")
        return bad
    absent = load()  # a package that is not installed here
    take_away()
    for sys.platform in ("darwin", "win32"):
        for bad in sorted(set(load()) - set(absent)):
            print(sys.platform, bad)
    """
    assert run(program, *names).strip() == ""


KERNELS = """
take_away(signals=False)  # POSIX threads have them
import numpy as np, tritium, tritium.language as tl
from tritium import knobs

@tritium.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < n) + tl.load(y + i, i < n), i < n)

@tritium.jit
def product(a, b, out, N: tl.constexpr):
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    at = tl.program_id(0) * N * N + i * N + j
    tl.store(out + at, tl.dot(tl.load(a + at), tl.load(b + at)))

@tritium.jit(debug=True)
def fails(x):
    tl.device_assert(tl.program_id(0) != 3, "third")

@tritium.jit
def barrier(count, G):
    tl.atomic_add(count, 1)
    while tl.atomic_add(count, 0) < G:
        pass

@tritium.jit
def shout(x):
    tl.device_print("number", x)

rng = np.random.default_rng(1)
for n in (1, 1000, 3_000_000):
    x, y, out = rng.random(n, np.float32), rng.random(n, np.float32), np.zeros(n, np.float32)
    for _ in range(4):
        out[:] = 0
        kernel = add[(tritium.cdiv(n, 64),)](x, y, out, n, BLOCK=64)
        np.testing.assert_array_equal(out, x + y)
a, b = rng.random((50, 32, 32), np.float32), rng.random((50, 32, 32), np.float32)
for _ in range(3):
    c = np.zeros_like(a)
    product[(50,)](a, b, c, N=32)
    np.testing.assert_allclose(c, a @ b, rtol=1e-5)
try:
    fails[(6,)](x)
except RuntimeError as error:
    assert "third" in str(error)
else:
    raise AssertionError
count = np.zeros(1, np.int32)
barrier[(20,)](count, 20)
assert count[0] == 20
shout[(2,)](7)

configs = [tritium.Config({"BLOCK": 1 << k}) for k in range(4, 9)]
tuned = tritium.autotune(configs=configs, key=["n"])(tritium.jit(add.fn))
out[:] = 0
tuned[lambda meta: (tritium.cdiv(n, meta["BLOCK"]),)](x, y, out, n)
np.testing.assert_array_equal(out, x + y)
assert len(tuned.configs_timings) == 5
system = knobs.system()
print(type(system).__name__, system.threads, system.forks, system.cache_sizes())
"""


@pytest.mark.every(2)
@pytest.mark.parametrize("threads", ["1", "2"])
def test_kernels_run_without(threads: str, fresh_cache: Path) -> None:
    fresh_cache.mkdir()
    out = run(KERNELS, TRITIUM_PORTABLE="1", TRITIUM_NUM_THREADS=threads)
    *printed, system = out.strip().splitlines()
    assert len(printed) == 2 and all("number: 7" in line for line in printed)
    assert system == "Portable posix False {}"


MACHO = """
import platform, subprocess, multiprocessing, concurrent.futures, llvmlite.binding as llvm, numpy
import xdsl.dialects.builtin
TRIPLE, make = "x86_64-apple-darwin", llvm.create_lljit_compiler
def create(**options):
    llvm.initialize_native_target()
    return make(llvm.Target.from_triple(TRIPLE).create_target_machine(jit=True), **options)
llvm.get_process_triple, llvm.create_lljit_compiler = lambda: TRIPLE, create
sys.platform = "darwin"
"""


@pytest.mark.skipif(not is_x86(), reason="code for x86-64")
def test_programs_run_as_macho(fresh_cache: Path) -> None:
    """The pool and all kernels as objects for macOS on x86-64, whose calls are Linux's."""
    fresh_cache.mkdir()
    size = "import tritium.system.portable as p; p._sysctl = lambda name: 1 << 20"
    objects = "print(add[(1,)](x, y, out, 1, BLOCK=64).asm['obj'][:4] == b'\\xcf\\xfa\\xed\\xfe')"
    out = run("\n".join([MACHO, size, KERNELS, objects]))
    assert out.splitlines()[-2:] == [
        "Portable posix False {2: 1048576, 3: 1048576}", "True",
    ]  # fmt: skip


@tritium.jit
def softmax(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    row = tl.load(x + tl.program_id(0) * n + i, mask=i < n, other=float("-inf"))
    row = tl.exp(row - tl.max(row, 0))
    tl.store(out + tl.program_id(0) * n + i, row / tl.sum(row, 0), mask=i < n)


FROM_LINUX = """
define void @call(ptr %kernel, ptr %args, ptr %ctx, i64 %begin, i64 %end) {
  call win64cc void %kernel(ptr %args, ptr %ctx, i64 %begin, i64 %end)
  ret void
}
"""


def pretend(triple: str, patch: pytest.MonkeyPatch) -> CPU:
    """Take this machine's system to be that of a triple, and all that it lacks to be there."""
    make: Any = llvm.create_lljit_compiler
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple(triple).create_target_machine(jit=True)
    linker: Any = loader._linker  # pyright: ignore[reportPrivateUsage]
    cpu = "x86-64" if triple.startswith("x86") else "cortex-a76"
    found = processor(f"{cpu}:{triple}")
    patch.setenv("TRITIUM_PORTABLE", "1")
    patch.setattr(llvm, "create_lljit_compiler", lambda **given: make(machine, **given))
    patch.setattr(loader, "_linker", functools.cache(linker.__wrapped__))
    patch.setattr(loader, "host", lambda: found)
    patch.setattr(sys, "platform", "darwin" if "darwin" in triple else "win32")
    functions = {"_fltused": ctypes.addressof(FLOATS)}
    patch.setattr(Portable, "native_functions", lambda _: functions)
    return found


FLOATS = ctypes.c_int32()
FAR = """
declare i64 @far(i64)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
define i64 @f(i64 %x, ptr %p) {
  %y = call i64 @far(i64 %x)
  call void @llvm.memset.p0.i64(ptr %p, i8 3, i64 %x, i1 false)
  ret i64 %y
}
"""
SYSTEMS = ["x86_64-apple-darwin", "arm64-apple-darwin", "x86_64-pc-windows-msvc",
           "aarch64-pc-windows-msvc"]  # fmt: skip


@pytest.mark.parametrize("triple", SYSTEMS)
def test_far_functions_are_reached(triple: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their whole addresses are in the code or beside it; a library may be anywhere. (In AArch64's
    code for Windows in four parts.)"""
    with monkeypatch.context() as patch:
        target = pretend(triple, patch)
        code = loader.compile_ir(FAR, processor=target)
        imports = {"far": 0x1234_5678_9ABC, "memset": 0x2345_6789_ABCD}
        image = loader.load_object(code, ["f"], imports)
        with pytest.raises(RuntimeError):
            loader.load_object(code, ["missing"], imports)
        with pytest.raises(RuntimeError, match="no object code for this machine"):
            loader.load_object(b"\x7fELF" + code[4:], ["f"])
    near = ctypes.string_at(image["f"], 400)
    for address in imports.values():
        if triple.startswith("aarch64"):
            parts = [0xF2C00010, 0xF2A00010, 0xF2800010]  # movk x16, the bits from 32, 16 and 0
            wanted = b"".join(
                (word | (address >> shift & 0xFFFF) << 5).to_bytes(4, "little")
                for word, shift in zip(parts, (32, 16, 0), strict=True)
            )
        else:
            wanted = address.to_bytes(8, "little")
        assert wanted in near


@pytest.mark.skipif(not is_x86(), reason="code for x86-64")
def test_launches_need_what_windows_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python's functions, and those whose addresses the portable interfaces know there."""
    python = pyobjects.api_addresses([*API, *records.API])
    windows = [name for names in WINDOWS_FUNCTIONS.values() for name in names]
    imports = {**python, **{name: 0x1234_5678_9ABC + i for i, name in enumerate(windows)}}
    for cycles in (False, True):
        with monkeypatch.context() as patch:
            target = pretend("x86_64-pc-windows-msvc", patch)
            text = native_ir(System("windows", crash_reports=False, cycle_counter=cycles))
            code = loader.compile_ir(text, opt="light", processor=target)
            assert undefined(code) <= imports.keys() | {"_fltused"}
            assert loader.load_object(code, ["tritium_end"], imports)["tritium_end"]
            code = loader.compile_ir(writer.native_ir(), opt="light", processor=target)
            assert undefined(code) <= imports.keys() | {"_fltused"}


@pytest.mark.skipif(not is_x86(), reason="code for x86-64")
def test_kernels_run_as_coff(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel for Windows, called as functions are there."""
    triple = "x86_64-pc-windows-msvc"
    source = ASTSource(softmax, {"x": "*fp32", "out": "*fp32", "n": "i32"}, {"BLOCK": 512})
    kernel = tritium.compile(source, target=GPUTarget("cpu", f"x86-64:{triple}", 1))
    with monkeypatch.context() as patch:
        pretend(triple, patch)
        image = loader.load_object(kernel.asm["obj"], ["softmax"])
    caller = loader.load_object(loader.compile_ir(FROM_LINUX), ["call"])
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 2)(caller["call"])
    rng = np.random.default_rng(5)
    x, out = rng.standard_normal((7, 300), np.float32), np.zeros((7, 300), np.float32)
    slots = (ctypes.c_int64 * 3)(x.ctypes.data, out.ctypes.data, 300)
    context, _memory = allocate(CONTEXT.size)
    scratch, _scratch = allocate(1 << 16)
    CONTEXT.write(context, nx=7, ny=1, nz=1, scratch=scratch)
    call(image["softmax"], ctypes.addressof(slots), context, 0, 7)
    powers = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    np.testing.assert_allclose(out, powers / powers.sum(1, keepdims=True), rtol=2e-6)


SAMPLE = [
    "test_memory.py::test_contention", "test_memory.py::test_exchange_and_compare",
    "test_memory.py::test_masked_lanes_touch_no_memory", "test_dot.py::test_small_shapes",
    "test_programs.py::test_assertions", "test_programs.py::test_program_ids",
]  # fmt: skip


def test_a_sample_of_the_conformance_suite(fresh_cache: Path) -> None:
    folder = Path(__file__).parents[1] / "conformance"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow"]
    done = subprocess.run(
        [*command, *(str(folder / name) for name in SAMPLE)], cwd=folder.parents[1],
        env=knobs.child_environment(TRITIUM_PORTABLE="1"), capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout and "skipped" not in done.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="it is the only one there")
def test_linux_is_used_on_linux() -> None:
    out = run("from tritium import knobs; print(type(knobs.system()).__name__)")
    assert out == "Linux\n"


OWN = {
    "system/__init__.py", "system/linux.py", "system/linux_processor.py", "native/threads.py",
    "native/elf.py", "native/crash.py", "native/crash_writer.py", "runtime/workers/children.py",
    "backends/cpu/lower/debug.py", "tools/reduce.py",
}  # fmt: skip
NAMES = re.compile(
    r"\b(fcntl|futex|getauxval|memfd_create|sched_\w+affinity|sched_getcpu|register_at_fork|mprotect"
    r"|sigaction|os\.fork|killpg|prctl|setpgid|SIG(?:KILL|STOP|CONT|BUS)\b|pthread_\w+)\b"
    r"|[\"'](/proc|/sys)\b|import resource\b"
)


def test_other_files_name_no_interface_of_linux() -> None:
    """Only the files that hold them; each has another form beside it, or says what is missing."""
    found = [
        f"{place}:{number}: {line.strip()}"
        for file in sorted(PACKAGE.rglob("*.py"))
        if (place := str(file.relative_to(PACKAGE))) not in OWN and file.parts[-2] != "nvidia"
        for number, line in enumerate(file.read_text().splitlines(), 1)
        if NAMES.search(line)
    ]
    assert not found, "\n".join(found)


def test_text_files_are_utf_8() -> None:
    """Windows has another encoding where none is named."""
    found: list[str] = []
    for file in sorted(PACKAGE.rglob("*.py")):
        source = file.read_text()
        if not re.search(r"open\(|(read|write)_text\(", source):
            continue  # most files are not worth parsing
        for node in ast.walk(ast.parse(source)):
            if not isinstance(node, ast.Call):
                continue
            name = ast.unparse(node.func)
            given = {k.arg: k.value for k in node.keywords}
            mode = given.get("mode", (node.args[1:2] or [ast.Constant("r")])[0])
            text = name == "open" and not (isinstance(mode, ast.Constant) and "b" in mode.value)
            if (text or name.endswith((".read_text", ".write_text"))) and "encoding" not in given:
                found.append(f"{file.relative_to(PACKAGE)}:{node.lineno}: {name}")
    assert not [f for f in found if not f.startswith("system/linux.py")], found


@pytest.mark.parametrize("portable", [False, True])
def test_files_without_names(portable: bool) -> None:
    """Each is its own, and has no path that another program could open."""
    first, second = (system(portable).file_without_name("tritium_test") for _ in range(2))
    try:
        os.write(first, b"abc")
        assert [os.fstat(f).st_size for f in (first, second)] == [3, 0]
        assert os.fstat(first).st_nlink == 0
    finally:
        os.close(first)
        os.close(second)
