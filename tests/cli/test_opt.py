"""`tritium opt`: passes by name over a file."""

from __future__ import annotations

import re
import subprocess
import sys

import llvmlite.binding as llvm
import pytest
from typer.testing import CliRunner

from tritium.cli import opt_llvm
from tritium.cli.app import app
from tritium.cli.opt_llvm import list_passes, optimize
from tritium.ir.printing import print_module
from tritium.ops.parsing import parse_module

TEXT = """module {
  tt.func public @f(%x: i32, %p: !tt.ptr<i32>) {
    %a = arith.addi %x, %x : i32
    %b = arith.addi %x, %x : i32
    %c = arith.muli %a, %b : i32
    %dead = arith.subi %x, %c : i32
    tt.store %p, %c : !tt.ptr<i32>
    tt.return
  }
}
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "kernel.ttir"
    path.write_text(TEXT)
    return str(path)


def opt(*arguments: str, stdin: str | None = None):
    return CliRunner().invoke(app, ["opt", *arguments], input=stdin)


@pytest.mark.every(2)
@pytest.mark.parametrize(("target", "status", "text"), [
    ("{target=cuda:90}", 0, '"ttg.threads-per-warp" = 32 : i32'),
    ("{target=hip:gfx942}", 0, '"ttg.threads-per-warp" = 64 : i32'),
    ("{target=xpu:1}", 1, "0 compatible backends for target (xpu)"),
    ("", 1, "a name such as 'cuda:90' is required"),
])  # fmt: skip
def test_passes_for_a_target(file, target, status, text):
    """In a process that has loaded nothing else."""
    command = [sys.executable, "-m", "tritium", "opt", file, "-p", f"convert-ttir-to-ttgir{target}"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == status and text in done.stdout + done.stderr


def test_passes_of_the_tile_stage(tmp_path):
    """In a process that has loaded nothing else."""
    path = tmp_path / "kernel.ttir"
    path.write_text(TEXT.replace("i32", "tensor<8xi32>").replace("!tt.ptr<tensor<8xi32>>",
                    "tensor<8x!tt.ptr<i32>>"))  # fmt: skip
    command = [sys.executable, "-m", "tritium", "opt", str(path), "-p", "tile-fuse,tile-allocate"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and "tile.nest [8] {" in done.stdout, done.stderr


def test_without_passes_the_module_is_printed(file):
    done = opt(file)
    assert done.exit_code == 0
    assert done.stdout == print_module(parse_module(TEXT, file)).rstrip("\n") + "\n"


def test_passes_run_in_order(file):
    once = opt(file, "--pass", "cse").stdout
    assert once.count("arith.addi") == 1 and "arith.subi" in once
    both = opt(file, "--pass", "cse", "--pass", "dce").stdout
    assert both.count("arith.addi") == 1 and "arith.subi" not in both
    assert opt(file, "-p", "cse,dce").stdout == both


@pytest.mark.parametrize("words", [
    ["-triton-loop-aware-cse", "--dce"], ["-cse", "-dce"],
    ["--convert-triton-to-tritongpu=target=cuda:90 num-warps=4", "-tritongpu-coalesce", "-cse"],
])  # fmt: skip
def test_passes_as_the_reference_spells_them(file, words):
    found = opt(*words, file)
    assert found.exit_code == 0, found.output
    assert found.stdout.count("arith.addi") == 1
    wrong = opt("-tritongpu-nothing", file)
    assert wrong.exit_code == 1 and "no pass is called 'tritongpu-nothing'" in wrong.output


def test_the_result_reads_in_again(file, tmp_path):
    out = tmp_path / "out.ttir"
    assert opt(file, "--pass", "cse", "-o", str(out)).stdout == ""
    again = opt(str(out), "--pass", "cse")
    assert again.exit_code == 0 and again.stdout.count("arith.addi") == 1


def test_files_that_cannot_be_read(tmp_path):
    done = opt(str(tmp_path / "none.ttir"))
    assert done.exit_code == 1 and done.stderr.endswith("none.ttir: No such file or directory\n")
    assert f"{tmp_path}: Is a directory" in opt(str(tmp_path)).stderr


def test_standard_input(file):
    assert "arith.subi" not in opt("-", "--pass", "dce", stdin=TEXT).stdout


def test_printing_after_each_pass(file):
    done = opt(file, "--pass", "cse", "--pass", "dce", "--print-after-all")
    headers = [line for line in done.stderr.splitlines() if "IR Dump After" in line]
    assert len(headers) == 2 and "(cse)" in headers[0] and "(dce)" in headers[1]
    assert "IR Dump" not in done.stdout


@pytest.mark.parametrize(("words", "shown"), [
    (["-debug"], ["cse", "dce"]), (["--mlir-print-ir-after-all"], ["cse", "dce"]),
    (["-debug-only=dce,triton-loop-unroll"], ["dce"]), (["--print-after", "cse"], ["cse"]),
    (["-debug-only=triton-loop-aware-cse,dce"], ["cse", "dce"]),
])  # fmt: skip
def test_printing_as_the_reference_spells_it(file, words, shown):
    done = opt(file, "-cse", "-dce", *words)
    assert done.exit_code == 0, done.output
    headers = [line for line in done.stderr.splitlines() if "IR Dump After" in line]
    assert [header.partition("(")[2].partition(")")[0] for header in headers] == shown
    assert "no pass is called 'xyz'" in opt(file, "-cse", "-debug-only=xyz").stderr


def test_the_list_of_passes():
    lines = opt("--list").stdout.splitlines()
    names = [line.split()[0] for line in lines]
    assert names == sorted(names) and {"canonicalize", "cse", "dce", "licm"} <= set(names)
    assert all(len(line.split()) > 2 for line in lines), "a pass without a description"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--pass", "nonsense"), "no pass is called 'nonsense'; there are"),
        (("--pass", "unroll{speed=3}"), "has no option 'speed'"),
    ],
)
def test_what_the_user_got_wrong_about_passes(file, arguments, message):
    done = opt(file, *arguments)
    assert done.exit_code == 1 and message in done.stderr and done.stdout == ""


def test_what_the_user_got_wrong_about_the_file(tmp_path):
    done = opt(str(tmp_path / "none.ttir"))
    assert done.exit_code == 1 and "none.ttir" in done.stderr
    done = opt("-", stdin="module {\n  tt.nonsense\n}\n")
    assert done.exit_code == 1 and "Operation tt.nonsense is not registered" in done.stderr
    done = opt("-", stdin=TEXT.replace("arith.muli %a, %b", "arith.muli %a, %p"))
    assert done.exit_code == 1 and "tritium: error" in done.stderr
    assert opt().exit_code == 1


def test_a_file_that_is_no_text(tmp_path):
    place = tmp_path / "kernel.ttir"
    place.write_bytes(b"\x8d\x00")
    result = opt(str(place))
    assert result.exit_code == 1 and "kernel.ttir is no text" in result.stderr


LLVM = """define i32 @f(i32 %x) {
  %p = alloca i32
  store i32 %x, ptr %p
  %v = load i32, ptr %p
  %w = mul i32 %v, 2
  ret i32 %w
}
"""


@pytest.fixture
def llir(tmp_path):
    path = tmp_path / "kernel.llir"
    path.write_text(LLVM)
    return str(path)


@pytest.mark.parametrize("words", [
    ("--pass", "sroa", "-p", "instcombine"), ("-passes=sroa,instcombine",), ("-O2",),
    ("-sroa", "-instcombine", "--print-after", "sroa"),
])  # fmt: skip
def test_passes_of_llvm(llir: str, words: tuple[str, ...]):
    done = opt(llir, *words)
    assert done.exit_code == 0, done.output
    assert "alloca" not in done.stdout and "shl i32 %x, 1" in done.stdout
    assert ("IR Dump After sroa" in done.stderr) == ("--print-after" in words)
    assert "mul i32" in done.stderr or "--print-after" not in words


def test_what_the_user_got_wrong_about_llvm(llir: str, tmp_path):
    done = opt(llir, "-p", "canonicalize")
    assert done.exit_code == 1 and "no pass of LLVM that is called 'canonicalize'" in done.stderr
    assert "instcombine" in done.stderr
    wrong = tmp_path / "wrong.ll"
    wrong.write_text(LLVM.replace("ret i32 %w", "ret i32 %no"))
    done = opt(str(wrong), "-O1")
    assert done.exit_code == 1 and "wrong.ll: invalid LLVM IR" in done.stderr
    wrong.write_text('target triple = "abacus-none"\n' + LLVM)
    assert "wrong.ll: " in opt(str(wrong), "-O1").stderr


def test_every_method_of_llvmlite_that_changes_code_has_a_name():
    names = re.findall(r"add_(\w+)_pass\b", " ".join(dir(llvm.create_new_module_pass_manager())))
    showing = ("aa_eval", "module_debug_info", "printer", "viewer")
    numba = "refprune"  # of Numba's reference counts
    changing = {name for name in names if not name.endswith(showing) and name != numba}
    assert changing == set(opt_llvm._METHODS.values())


def test_every_pass_of_llvm_has_its_method():
    for name in list_passes():
        assert "@f" in optimize(LLVM, "f.ll", [name]) or name == "internalize"
