"""Modules of functions that call a library of bitcode, and the program gsan."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from llvmlite import binding as llvm

import tritium
import tritium.language as tl
from tritium import compat, knobs
from tritium.sanitize.launch import SanitizerError
from tritium.tools import build_extern, gsan

LIBRARY = """
target triple = "nvptx64-nvidia-cuda"
declare float @elsewhere(float)
@table = constant [4 x i8] zeroinitializer
define float @__nv_acosf(float %x) {
  ret float %x
}
define double @__nv_acos(double %x) #0 {
  ret double %x
}
define dso_local i32 @__nv_umax(i32 noundef %x, i32 noundef %y) {
  ret i32 %x
}
define i64 @__nv_llmax(i64 %x, i64 %y) {
  ret i64 %x
}
define i32 @__nv_umulhi(i32 %x, i32 %y) {
  ret i32 %x
}
define float @__nv_own_name(float %x, double %y) {
  ret float %x
}
define internal float @__nv_hidden(float %x) {
  ret float %x
}
define void @__nv_sincosf(float %x, ptr %s, ptr %c) {
  ret void
}
attributes #0 = { nounwind }
"""


@pytest.fixture
def library(tmp_path: Path) -> Path:
    file = tmp_path / "library.bc"
    file.write_bytes(llvm.parse_assembly(LIBRARY).as_bitcode())
    return file


def module_of(file: Path) -> Any:
    spec = importlib.util.spec_from_file_location("made_by_build_extern", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_functions_of_a_library(library: Path, tmp_path: Path):
    build_extern.main(["--lib-path", str(library), "--lib-name", "libdevice", "--output-dir",
                       str(tmp_path / "new" / "folder")])  # fmt: skip
    disassembler = build_extern.LLVMDisassembler("no-such-program")
    read = build_extern.Libdevice("")
    disassembler.disasm(str(library))
    read.parse_symbols(disassembler.ll_file)
    assert {s.name: (s.op_name, s.ret_type, s.arg_types) for s in read.symbols.values()} == {
        "__nv_acosf": ("acos", "fp32", ["fp32"]),
        "__nv_acos": ("acos", "fp64", ["fp64"]),
        "__nv_umax": ("max", "uint32", ["uint32", "uint32"]),
        "__nv_llmax": ("max", "int64", ["int64", "int64"]),
        "__nv_umulhi": ("mulhi", "uint32", ["uint32", "uint32"]),
        "__nv_own_name": ("own_name", "fp32", ["fp32", "fp64"]),
    }
    made = module_of(tmp_path / "new" / "folder" / "libdevice.py")
    assert str(library) == made.LIBRARY
    assert {"acos", "max", "mulhi", "own_name"} <= set(vars(made))
    assert not {"hidden", "sincosf", "elsewhere"} & set(vars(made))
    acos = made.acos

    @tritium.jit
    def kernel(x, out, N: tl.constexpr):
        i = tl.arange(0, N)
        tl.store(out + i, acos(tl.load(x + i)))

    for dtype in (np.float32, np.float64):
        x = np.linspace(0, 1, 16, dtype=dtype)
        out = np.zeros_like(x)
        kernel[(1,)](x, out, N=16)
        np.testing.assert_allclose(out, np.arccos(x), rtol=1e-6)


def test_files_that_are_no_library(library: Path, tmp_path: Path):
    def error(path: Path, name: str = "libdevice") -> str:
        with pytest.raises(SystemExit) as end:
            build_extern.main(["--lib-path", str(path), "--lib-name", name, "--output", "x"])
        return str(end.value)

    assert "No such file" in error(tmp_path / "nothing.bc")
    assert "Unknown extern library: libm; known: libdevice" in error(library, "libm")
    (tmp_path / "text.bc").write_text("int f(void);")
    assert "text.bc is no LLVM bitcode" in error(tmp_path / "text.bc")
    library.write_bytes(llvm.parse_assembly("define void @f() {\nret void\n}").as_bitcode())
    assert "library.bc defines no function of numbers" in error(library)


PROGRAM = """
import sys
import numpy as np, triton, triton.language as tl

@triton.jit
def shift(x, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(x + i, tl.load(x + i + 1))

if __name__ == "__main__":
    shift[(int(sys.argv[1]),)](np.zeros(257, np.float32), N=64)
"""


def test_gsan_runs_a_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    before = compat.is_installed(), knobs.compilation.instrumentation_mode
    assert gsan.main([str(file), "--", "1"]) == 0
    with pytest.raises(SanitizerError, match=r"race: (load|store) in kernel 'shift'"):
        gsan.main([str(file), "4"])
    for wrong, reason in ((sys.executable, "is no text"), (tmp_path, "without __main__.py")):
        with pytest.raises(SystemExit):
            gsan.main([str(wrong)])
        assert reason in capsys.readouterr().err
    assert before == (compat.is_installed(), knobs.compilation.instrumentation_mode)


@pytest.mark.parametrize(("module", "arguments"), [
    ("link", ["nothing.h", "-o", "out"]),
    ("build_extern", ["--lib-path", "nothing.bc", "--lib-name", "libdevice"]),
    ("gsan", ["nothing.py"]),
])  # fmt: skip
def test_files_that_are_not_there(
    module: str, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        importlib.import_module(f"tritium.tools.{module}").main(arguments)
    said = capsys.readouterr().err if end.value.code == 2 else str(end.value)
    assert re.search(r"error: nothing\.\w+: no such file", said, re.IGNORECASE), said
