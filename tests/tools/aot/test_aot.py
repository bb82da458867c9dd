"""Ahead of time: what `tritium.tools.compile` and `link` write is loaded and run."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.support.cuda_toolkit import COMPILER, header_folder
from tritium import aot
from tritium.aot.entry import describe
from tritium.native.elf import ObjectFile
from tritium.native.host import host
from tritium.native.loader import compile_ir
from tritium.native.shared_library import shared_library
from tritium.system import linux_processor
from tritium.tools import compile as tool
from tritium.tools.link import (
    HeaderParser,
    KernelLinkerMeta,
    LinkerError,
    gen_signature,
    gen_signature_with_full_args,
    link,
    make_kernel_hints_dispatcher,
)

KERNELS = '''
import triton, triton.language as tl

@triton.jit
def add(x_ptr, y_ptr, out_ptr, n, scale, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, y = tl.load(x_ptr + i, mask=i < n), tl.load(y_ptr + i, mask=i < n)
    tl.store(out_ptr + i, x + scale * y, mask=i < n)

@triton.jit
def matmul(a, b, c, M, N, K, stride, BLOCK: tl.constexpr):
    m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    n = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, K, BLOCK):
        k = start + tl.arange(0, BLOCK)
        left = tl.load(a + m[:, None] * K + k[None, :], mask=k[None, :] < K, other=0.0)
        right = tl.load(b + k[:, None] * N + n[None, :], mask=k[:, None] < K, other=0.0)
        acc = tl.dot(left, right, acc)
    tl.store(c + m[:, None] * N + n[None, :] * stride, tl.exp(acc))

@triton.jit(debug=True)
def refuse(x, n):
    tl.device_assert(n < 8, "too many")
    tl.store(x, n)
'''
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="libraries are Linux's")
pytestmark = linux
SRC = str(Path(__file__).parents[3] / "src")


def meta_of(header: Path) -> KernelLinkerMeta:
    """The function that a header declares."""
    parser = HeaderParser()
    parser.extract_linker_meta(header.read_text())
    ((meta,),) = parser.kernels.values()
    return meta


@pytest.fixture
def source(tmp_path: Path) -> Path:
    file = tmp_path / "kernels.py"
    file.write_text(KERNELS)
    return file


def compiled(source: Path, kernel: str, signature: str, grid: str, **options: object) -> list[Path]:
    given = {"target": "cpu", "out_path": source.parent / kernel, **options}
    args = tool.CompileArgs(str(source), kernel, signature, grid, **given)  # pyright: ignore
    return tool.compile_kernel(args)[1]


ADD = "*fp32:16, *fp32, *fp32, i32, fp32, 256"


def test_a_library_is_loaded_and_run(source: Path):
    header, library = compiled(source, "add", ADD, "(n + 255) / BLOCK, 1, 1",
                               out_path=source.parent / "new" / "add")  # fmt: skip
    assert header.name.startswith("add.") and library.suffix == ".so"
    add = aot.load(library)
    assert [name for name, _ in add.parameters] == ["x_ptr", "y_ptr", "out_ptr", "n", "scale"]
    x, y = np.random.default_rng(0).random((2, 1000), np.float32)
    out = np.zeros(1000, np.float32)
    add(x, y, out, 1000, 2.0)
    np.testing.assert_allclose(out, x + 2 * y, rtol=1e-6)
    out[:] = 0
    add[(4,)](x, y, out, 1000, 3.0, threads=3)
    np.testing.assert_allclose(out, x + 3 * y, rtol=1e-6)
    add[(0,)](x, y, out, 1000, 0.0)


def test_scratch_memory_and_calls_of_the_c_library(source: Path):
    _, library = compiled(source, "matmul", "*fp32, *fp32, *fp32, i32, i32, i32, i32:1, 16",
                          "M / BLOCK, N / BLOCK, 1")  # fmt: skip
    matmul = aot.load(library)
    a, b = (np.random.default_rng(1).random((2, 32, 32)) / 8).astype(np.float32)
    c = np.zeros((32, 32), np.float32)
    matmul(a, b, c, 32, 32, 32)
    np.testing.assert_allclose(c, np.exp(a @ b), rtol=1e-5)


def test_a_bundle_needs_no_compiler_in_the_process(source: Path):
    _, library = compiled(source, "add", ADD, "(n + 255) / BLOCK, 1, 1")
    program = f"""
import sys, tritium.aot
add = tritium.aot.load({str(library)!r})
slow = sys.modules.keys() & {{"numpy", "subprocess", "tempfile", "tritium.knobs"}}
assert not slow, slow
import numpy as np
x = np.ones(512, np.float32); out = np.zeros(512, np.float32)
add(x, x, out, 512, 1.0)
assert (out == 2).all()
loaded = {{name.partition(".")[0] for name in sys.modules}}
print(sorted(loaded & {{"xdsl", "llvmlite", "typer"}}))
"""
    path = os.pathsep.join([SRC, os.environ.get("PYTHONPATH", "")])
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": path})  # fmt: skip
    assert (done.stdout, done.stderr) == ("[]\n", "")


_STARTED = """
import sys
before = set(sys.modules)
import tritium.aot
tritium.aot.load(sys.argv[1])
new = set(sys.modules) - before
own = sorted(name for name in new if name.partition(".")[0] == "tritium")
print(len(new - set(own)), *own)
"""


def test_loading_imports_few_modules(source: Path):
    """Start-up is the time that modules take: 20 of Python's and ten of ours cost some 20 ms."""
    _, library = compiled(source, "add", ADD, "(n + 255) / BLOCK, 1, 1")
    command = [sys.executable, "-S", "-c", _STARTED, str(library)]
    done = subprocess.run(command, capture_output=True, text=True, check=True,
                          env={**os.environ, "PYTHONPATH": SRC})  # fmt: skip
    count, *own = done.stdout.split()
    assert int(count) <= 24, count
    assert set(own) <= {
        "tritium", "tritium.aot", "tritium.errors", "tritium.launch", "tritium.launch.arguments",
        "tritium.launch.scalars", "tritium.reference_paths", "tritium.system",
        "tritium.system.linux_processor", "tritium.version",
    }, own  # fmt: skip


def test_arguments_that_do_not_fit(source: Path):
    add = aot.load(compiled(source, "add", ADD, "(n + 255) / BLOCK, 1, 1")[1])
    x = np.zeros(8, np.float32)
    fixed = np.zeros(8, np.float32)
    fixed.setflags(write=False)
    add(x, fixed, x, 8, 1)
    with pytest.raises(TypeError, match=r"add takes 5 arguments \(x_ptr, y_ptr, out_ptr, n, scale"):
        add(x, x, x, 8)
    for dtype in (np.float64, np.int32, ">f4"):
        with pytest.raises(TypeError, match=r"'y_ptr' .*(fp32|byte order)"):
            add(x, np.zeros(8, dtype), x, 8, 1.0)
    with pytest.raises(TypeError, match=r"'x_ptr' .* is None of type NoneType"):
        add(None, x, x, 8, 1.0)
    with pytest.raises(ValueError, match=r"'out_ptr' .* is read-only and the kernel writes"):
        add(x, x, fixed, 8, 1.0)
    with pytest.raises(ValueError, match=r"'x_ptr' .*compiled for multiples of 16"):
        add(np.zeros(9, np.float32)[1:], x, x, 8, 1.0)
    with pytest.raises(OverflowError, match=r"'n' .* is 2147483648, out of range for i32"):
        add(x, x, x, 2**31, 1.0)
    with pytest.raises(TypeError, match=r"'n' .* is 8\.5 .*integer of type i32"):
        add(x, x, x, 8.5, 1.0)
    for grid in ((1, 1, 1, 1), (-1,), (), (2**31,)):
        with pytest.raises(ValueError, match="1 to 3 sizes"):
            add[grid](x, x, x, 8, 1.0)
    with pytest.raises(TypeError, match="the grid is 'a'; integers are required"):
        add["a"](x, x, x, 8, 1.0)
    with pytest.raises(ValueError, match="threads=0; at least 1"):
        add[(1,)](x, x, x, 8, 1.0, threads=0)


def test_a_tensor_without_memory_is_refused(source: Path):
    torch = pytest.importorskip("torch")
    add = aot.load(compiled(source, "add", ADD, "(n + 255) / BLOCK, 1, 1")[1])
    with pytest.raises(ValueError, match=r"'y_ptr' .* in the memory of device meta"):
        add(torch.ones(8), torch.ones(8, device="meta"), torch.ones(8), 8, 1.0)


@pytest.mark.parametrize("operator", ["/", "%"])
def test_a_grid_that_divides_by_an_argument_of_0_is_empty(source: Path, operator: str):
    add = aot.load(compiled(source, "add", ADD, f"256 {operator} n, 1, 1")[1])
    x, out = np.ones(8, np.float32), np.zeros(8, np.float32)
    add(x, x, out, 0, 1.0)
    add(x, x, out, 7, 1.0)
    assert out.tolist() == [2.0] * 7 + [0.0]


def test_a_failed_assertion(source: Path):
    refuse = aot.load(compiled(source, "refuse", "*i32, i32", "1, 1, 1")[1])
    x = np.zeros(1, np.int32)
    refuse(x, 7)
    assert x[0] == 7
    with pytest.raises(RuntimeError) as failed:
        refuse(x, 8)
    line = 1 + KERNELS.splitlines().index('    tl.device_assert(n < 8, "too many")')
    text = str(failed.value)
    assert text.startswith("device-side assert triggered: ") and "too many" in text
    assert f"kernels.py:{line}" in text and text.endswith("[program (0, 0, 0)]")
    with pytest.raises(RuntimeError, match=r"too many.*\[program \([012], 0, 0\)\]"):
        refuse[(3,)](x, 9, threads=3)


def test_constants_that_are_no_numbers(source: Path):
    source.write_text(source.read_text() + '''
@triton.jit
def chosen(x, n, ON: tl.constexpr, HOW: tl.constexpr, NONE: tl.constexpr):
    if ON and HOW == "max" and NONE is None:
        tl.store(x, n)
''')
    header, library = compiled(source, "chosen", '*i32, i32, True, "max", None', "ON, 1, 1")
    x = np.zeros(1, np.int32)
    chosen = aot.load(library)
    chosen(x, 5)
    assert x[0] == 5
    assert {"ON": True, "HOW": "max", "NONE": None}.items() <= chosen.constants.items()
    assert "ON=True, HOW=max, NONE=None" in header.read_text()
    _, library = compiled(source, "chosen", "*i32, i32, False, 'max', None", "1, 1, 1")
    aot.load(library)(x, 6)
    assert x[0] == 5


@pytest.mark.parametrize("word", ["größer \U0001f642 \\ \\n \"", "it's", "\t\x7f\u2028"])
def test_a_description_holds_any_text(word: str):
    about = {"S": word, "NAN": [float("inf"), -float("inf")], "I": 2**70, "B": [True, False, None]}
    assert aot.read_description(describe(about).encode()) == about


def test_a_description_that_is_broken(source: Path):
    _, library = compiled(source, "add", ADD, "1, 1, 1")
    library.write_bytes(library.read_bytes().replace(b'{"name"', b'{"name\n'))
    with pytest.raises(aot.BundleError, match="its description cannot be read"):
        aot.load(library)


def test_files_that_are_no_bundle(tmp_path: Path):
    with pytest.raises(FileNotFoundError, match=r"nothing\.so: no such file"):
        aot.load(tmp_path / "nothing.so")
    (tmp_path / "text.so").write_text("no library")
    with pytest.raises(aot.BundleError, match=r"text\.so is no library of a compiled kernel"):
        aot.load(tmp_path / "text.so")
    with pytest.raises(aot.BundleError, match="it is a folder"):
        aot.load(tmp_path)


def test_a_library_that_is_cut_off(source: Path):
    _, library = compiled(source, "add", ADD, "1, 1, 1")
    data = library.read_bytes()
    for size in (5, 70, len(data) // 2):
        library.write_bytes(data[:size])
        with pytest.raises(aot.BundleError, match="its end is missing"):
            aot.load(library)


def test_a_library_for_another_machine(source: Path, tmp_path: Path):
    here = os.uname().machine
    target, machine = ("x86-64", "x86_64") if here == "aarch64" else ("neoverse-n1", "aarch64")
    args = tool.CompileArgs(str(source), "add", ADD, "1, 1, 1", f"cpu:{target}",
                            out_path=tmp_path / "other")  # fmt: skip
    with pytest.raises(aot.BundleError, match=f"compiled for {machine}; this machine is {here}"):
        aot.load(tool.compile_kernel(args)[1][1])


def test_a_library_that_is_compiled_again_is_another_one(tmp_path: Path):
    def built(number: int) -> aot.Kernel:
        file = tmp_path / f"kernels_{number}.py"
        file.write_text("import tritium, tritium.language as tl\n@tritium.jit\n"
                        f"def put(x):\n    tl.store(x, {number})\n")  # fmt: skip
        args = tool.CompileArgs(str(file), "put", "*i32", "1, 1, 1", "cpu",
                                out_path=tmp_path / "put")  # fmt: skip
        return aot.load(tool.compile_kernel(args)[1][1])

    x = np.zeros(2, np.int32)
    first, second = built(5), built(7)
    second(x)
    first(x[1:])
    assert x.tolist() == [7, 5]


def test_a_bundle_for_a_better_processor(source: Path, monkeypatch: pytest.MonkeyPatch):
    (_, library) = compiled(source, "add", ADD, "1, 1, 1")
    monkeypatch.setattr(linux_processor, "flags", lambda: ["popcnt"])
    with pytest.raises(aot.BundleError, match="this processor lacks"):
        aot.load(library)


@pytest.mark.parametrize(("changes", "message"), [
    ({"kernel_name": "nothing"}, "has no kernel called 'nothing'"),
    ({"path": "nothing.py"}, r"nothing\.py: no such file"),
    ({"path": "."}, r"\.: a folder; a Python file is required"),
    ({"path": "no_python.py"}, r"no_python\.py is no Python program: source code string cannot"),
    ({"signature": "*fp32, i32"}, "has 2 parts; the kernel's 6 parameters are x_ptr"),
    ({"signature": ADD.replace(":16", ":8")}, "Only 1 and 16 are valid hints, got 8"),
    ({"signature": ADD.replace("fp32,", "fp32:16,")}, "scale: hints of 1 are for integers"),
    ({"signature": ADD.replace("*fp32:16", "*fp32:1")}, "x_ptr: hints of 1 are for integers"),
    ({"num_warps": "3"}, "num_warps must be a power of 2; got 3"),
    ({"target": "none:90:32"}, "compatible backends for target"),
    ({"grid": "1, 1"}, "has 2 sizes; three are required"),
    ({"grid": "m / 4, 1, 1"}, "names m; the integers that it may name are BLOCK, n"),
    ({"grid": "max(n, 4), 1, 1"}, "three are required"),
    ({"grid": "n ** 2, 1, 1"}, r"has more than numbers, arguments and \+"),
    ({"grid": "n / 0, 1, 1"}, "divides by 0"),
    ({"target": "cuda:90"}, "target 'cuda:90' has no warp size, as in cuda:90:32"),
    ({"target": "cuda"}, "<backend>:<arch>:<warp size> or cpu"),
    ({"target": "cpu:pentium"}, "no processor 'pentium' is known"),
    ({"signature": ADD.replace(" fp32,", " fp16,")}, "argument scale of type fp16"),
    ({"signature": ADD.replace("256", "i32")}, "BLOCK is a tl.constexpr, whose value the .* i32"),
    ({"path": "failing.py"}, r"failing\.py:3 fails where .*`if __name__ .*: ZeroDivisionError: d"),
])  # fmt: skip
def test_errors_of_the_command_line(
    source: Path, changes: dict, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(source.parent)
    Path("no_python.py").write_bytes(b"x = 1\0")
    Path("failing.py").write_text("def f():\n    pass\nx = 1 / 0\n")
    args = {"path": str(source), "kernel_name": "add", "signature": ADD, "grid": "1, 1, 1",
            "target": "cpu", **changes}  # fmt: skip
    words = [args.pop("path"), "-o", str(source.parent / "out")]
    for name, value in args.items():
        words += [f"--{name.replace('_', '-')}", value]
    with pytest.raises(SystemExit) as end:
        tool.main(words)
    import re

    assert re.search(message, str(end.value)), end.value


def test_a_library_for_another_architecture(source: Path):
    _, library = compiled(source, "add", ADD, "1, 1, 1", target="cpu:cortex-a72")
    data = library.read_bytes()
    assert data[:4] == b"\x7fELF" and int.from_bytes(data[18:20], "little") == 183
    with pytest.raises(aot.BundleError):
        aot.load(library)


def test_data_that_holds_addresses_is_relocated(tmp_path: Path):
    code = compile_ir("""
@numbers = internal constant [2 x i32] [i32 7, i32 41]
@place = internal global ptr getelementptr (i32, ptr @numbers, i64 1)
@counter = internal global i32 0
declare i32 @abs(i32)
define i32 @next() {
  %p = load ptr, ptr @place
  %n = load i32, ptr %p
  %c = load i32, ptr @counter
  %d = sub i32 %c, 1
  store i32 %d, ptr @counter
  %a = call i32 @abs(i32 %d)
  %s = add i32 %n, %a
  ret i32 %s
}""")
    file = tmp_path / "data.so"
    file.write_bytes(shared_library(code, "data.so", ["next"], [], host().architecture))
    library = ctypes.CDLL(str(file))
    assert [library.next() for _ in range(3)] == [42, 43, 44]
    with pytest.raises(RuntimeError, match="symbol not found in the object: other"):
        shared_library(code, "data.so", ["other"], [], host().architecture)
    with pytest.raises(RuntimeError, match="damaged"):
        shared_library(code[:200], "data.so", ["next"], [], host().architecture)
    assert ObjectFile(code).symbols


def test_names_that_c_has_a_use_for(tmp_path: Path):
    file = tmp_path / "names.py"
    file.write_text("import tritium, tritium.language as tl\n@tritium.jit\n"
                    "def put(stream, int, größe, n):\n    tl.store(stream, int + größe + n)\n"
                    "@tritium.jit\ndef größe(n):\n    pass\n")  # fmt: skip
    header, library = compiled(file, "put", "*i32, i32, i32, i32:1", "int, 1, 1")
    parameters = "void *stream_, int32_t int_, int32_t gruf6udfe"
    assert f"(void *stream, {parameters});" in header.read_text()
    assert meta_of(header).arg_names[1:] == ["int_", "gruf6udfe", "n"]
    x = np.zeros(1, np.int32)
    aot.load(library)(x, 2, 3)
    assert x[0] == 6
    if COMPILER is not None:
        subprocess.run([COMPILER, "-fsyntax-only", "-xc", str(header)], check=True)
    with pytest.raises(ValueError, match="is no name of a C function; give one with --out-name"):
        compiled(file, "größe", "i32", "1, 1, 1")


@pytest.mark.skipif(COMPILER is None, reason="needs a C compiler")
def test_a_c_program_calls_the_kernel_that_fits(source: Path):
    assert COMPILER is not None
    grid = "(n + 255) / BLOCK, 1, 1"
    plain, other = ADD.replace(":16", ""), ADD.replace("256", "512")
    files = [
        file for signature in (ADD, plain, plain.replace("i32", "i32:1"), other)
        for file in compiled(source, "add", signature, grid, object=True)
    ]  # fmt: skip
    headers, folder = [f for f in files if f.suffix == ".h"], source.parent
    for _ in range(2):  # the second time the first one's header is among them
        link([*headers, headers[0], *folder.glob("linked.h")], folder / "linked", "my_")
    (folder / "main.c").write_text("""
#include <stdio.h>
#include "linked.h"
_Alignas(64) static float x[1001], y[1001], out[1001];
int main(void) {
  load_my_add();
  for (int i = 0; i < 1001; i++) { x[i] = i; y[i] = 1; }
  if (my_add_default(0, x, y, out, 1000, 0.5f)) return 1;
  printf("%g %g %d\\n", out[0], out[999], my_add_get_num_algos());
  if (my_add(0, x + 1, y, out, 1000, 2.0f, 0)) return 1;
  printf("%g %d %d\\n", out[0], my_add(0, x, y, out, 1000, 2.0f, 2),
         my_add(0, x, y, out, 1000, 2.0f, -1));
  if (my_add(0, x + 5, y, out, 1, 2.0f, 0)) return 1;
  printf("%g %g\\n", out[0], out[1]);
  if (my_add(0, x, y, out, 992, 3.0f, 1)) return 1;
  printf("%g %d\\n", out[1], my_add(0, x + 1, y, out, 1000, 2.0f, 1));
  unload_my_add();
  return 0;
}""")
    objects = [str(f) for f in files if f.suffix == ".o"]
    subprocess.run([COMPILER, "-Wall", "-Werror", "-o", "main", "main.c", "linked.c", *objects,
                    "-lm"], cwd=folder, check=True)  # fmt: skip
    done = subprocess.run([folder / "main"], capture_output=True, text=True, check=True)
    assert done.stdout == "0.5 999.5 2\n3 -1 -1\n7 4\n4 -1\n"


@pytest.mark.skipif(COMPILER is None, reason="needs a C compiler")
def test_a_c_program_links_with_the_library(source: Path):
    assert COMPILER is not None
    header, library = compiled(source, "add", ADD, "(n + 255) / BLOCK, 1, 1", out_name="sum")
    name = meta_of(header).function
    (source.parent / "main.c").write_text(f"""
#include <stdio.h>
#include "{header.name}"
static float x[256], out[256];
int main(void) {{
  x[7] = 2;
  int status = {name}(0, x, x, out, 256, 1.0f);
  printf("%d %g\\n", status, out[7]);
  return 0;
}}""")
    folder = source.parent
    subprocess.run([COMPILER, "-o", "main", "main.c", library.name, "-Wl,-rpath,."], cwd=folder,
                   check=True)  # fmt: skip
    done = subprocess.run(["./main"], cwd=folder, capture_output=True, text=True, check=True)
    assert done.stdout == "0 4\n"


def header_text(function: str, parameters: str, algorithm: str, backend: str = "cpu") -> str:
    """As the reference writes it: hints are in the name alone."""
    return (f"// tt-linker-backend: {backend}\n"
            f"// tt-linker: {function}:{parameters}:{algorithm}\n")  # fmt: skip


def test_headers_that_do_not_fit_together(tmp_path: Path):
    one = header_text("add_0123abcd_0d1", "void *x, int32_t n", "64_warps1xstages3")
    for text, message in (
        (header_text("add_0123abcd_0d1", "void *x, int64_t n", "64"), "versions of one kernel"),
        (header_text("sub_0123abcd_0d1", "void *x, int32_t n", "64"), "versions of one kernel"),
        (header_text("add_0123abcd_01", "void *x, int32_t n", "64", "cuda"), "cpu and for cuda"),
        (header_text("add_0123abcd_01", "void *x, int32_t", "64"), "'int32_t' of .* no parameter"),
        (header_text("add", "void *x", "64"), "add is no name of a compiled kernel"),
        ("int f(void);", "has no line '// tt-linker:'"),
        ("\x8d\0", "has no line '// tt-linker:'"),
    ):
        (tmp_path / "one.h").write_text(one)
        (tmp_path / "two.h").write_text(text)
        with pytest.raises(LinkerError, match=rf"two.h.*{message}"):
            link([tmp_path / "one.h", tmp_path / "two.h"], tmp_path / "out")
    (tmp_path / "one.h").write_text(one.replace("cpu", "hip"))
    with pytest.raises(LinkerError, match="kernels for the backend hip; linked are cuda, cpu"):
        link([tmp_path / "one.h"], tmp_path / "out")
    (tmp_path / "one.h").write_text(one)
    with pytest.raises(LinkerError, match="'9add' is no name of a C function"):
        link([tmp_path / "one.h"], tmp_path / "out", "9")
    assert not (tmp_path / "out.h").exists()


def test_hints_and_algorithms_of_headers():
    parser = HeaderParser()
    for suffix, algorithm in (("0d1", "1e-05"), ("0d1d3c", "1e-05"), ("01", "1e+05")):
        text = header_text(f"a_kernel_00ff00ff_{suffix}", "void *x, int32_t n, float f, int32_t s",
                           f"{algorithm}_warps1xstages3")  # fmt: skip
        parser.extract_linker_meta(text)
    first, second = parser.kernels["a_kernel_1em05_warps1xstages3"]
    (third,) = parser.kernels["a_kernel_1e05_warps1xstages3"]
    assert parser.backend_name == "cpu"
    assert [m.sizes for m in (first, second, third)] == [
        [16, None, None, None], [16, 16, None, 1], [None] * 4
    ]  # fmt: skip
    assert (second.orig_kernel_name, second.sig_hash, second.num_specs) == (
        "a_kernel", "00ff00ff", 3
    )  # fmt: skip
    many = ", ".join(f"int32_t a{i}" for i in range(12))
    for suffix, hints in (("10d11c", {10: 16, 11: 1}), ("01d23456789c1011", {1: 16, 9: 1}),
                          ("0d11d", {0: 16, 11: 16}), ("0d12d", {0: 16, 2: 16})):  # fmt: skip
        reader = HeaderParser()
        reader.extract_linker_meta(header_text(f"k_00ff00ff_{suffix}", many, "1"))
        ((meta,),) = reader.kernels.values()
        assert meta.sizes == [hints.get(i) for i in range(12)]
    assert gen_signature(second) == "void *x, int32_t n, float f"
    assert gen_signature_with_full_args(second) == "void *x, int32_t n, float f, int32_t s"
    text = make_kernel_hints_dispatcher("best", [first, second])
    tests = [line.strip() for line in text.splitlines() if "if (" in line]
    assert tests == [
        "if ((uintptr_t)x % 16 == 0 && (uintptr_t)n % 16 == 0 && s == 1)",
        "if ((uintptr_t)x % 16 == 0)",
    ]


FAKE_DRIVER = """
#include <cuda.h>
#include <stdio.h>
CUresult cuGetErrorString(CUresult status, const char **text) { *text = "wrong"; return 0; }
CUresult cuModuleLoadData(CUmodule *module, const void *data) {
  printf("load %.3s\\n", (const char *)data + 1);
  *module = (CUmodule)data;
  return CUDA_SUCCESS;
}
CUresult cuModuleUnload(CUmodule module) { printf("unload\\n"); return CUDA_SUCCESS; }
CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
  printf("function %s\\n", name);
  *function = (CUfunction)module;
  return CUDA_SUCCESS;
}
CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
  return CUDA_SUCCESS;
}
CUresult cuLaunchKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                        unsigned by, unsigned bz, unsigned shared, CUstream stream, void **values,
                        void **extra) {
  printf("%u %u %u, %u threads, %llx %d %g\\n", gx, gy, gz, bx,
         *(CUdeviceptr *)values[0], *(int *)values[3], *(float *)values[4]);
  return CUDA_SUCCESS;
}
"""


@pytest.mark.ptxas
def test_cuda_source_holds_the_cubin_and_runs(source: Path):
    files = [
        compiled(source, "add", signature, "-(-n // BLOCK), 1, n * 0 + 1",
                 target="cuda:90:32", num_warps=4)
        for signature in (ADD, ADD.replace(":16", "").replace("256", "512"))
    ]  # fmt: skip
    (header, text), name = files[0], meta_of(files[0][0]).function
    assert "gx = (unsigned)((-((-n) / 256))), gy = (unsigned)(1)" in text.read_text()
    assert "CUdeviceptr x_ptr, CUdeviceptr y_ptr" in header.read_text()
    assert "0x7f, 0x45, 0x4c, 0x46" in text.read_text()
    assert f'cuModuleGetFunction(&{name}_function, {name}_module, "add")' in text.read_text()
    include = header_folder()
    if COMPILER is None or include is None:
        return
    folder = source.parent
    link([header for header, _ in files], folder / "linked")
    (folder / "main.c").write_text(FAKE_DRIVER + """
#include "linked.h"
int main(void) {
  int status = add_default(0, 0x1000, 0x2000, 0x3000, 512, 0.5f);
  status |= add(0, 0x1004, 0x2000, 0x3000, 513, 1.5f, 1);
  printf("%d %d\\n", status, add(0, 0x1004, 0x2000, 0x3000, 513, 1.5f, 0));
  unload_add();
  return 0;
}""")
    command = [COMPILER, "-Wall", "-Werror", "-o", "main", "main.c", "linked.c",
               *(text.name for _, text in files), f"-I{include}"]  # fmt: skip
    subprocess.run(command, cwd=folder, check=True)
    done = subprocess.run([folder / "main"], capture_output=True, text=True, check=True)
    loaded = ["load ELF", "function add"]
    assert done.stdout.splitlines() == [
        *loaded, "2 1 1, 128 threads, 1000 512 0.5",
        *loaded, "1 1 1, 128 threads, 1004 513 1.5", "0 1", "unload", "unload",
    ]  # fmt: skip
