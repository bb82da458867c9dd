"""`tritium reduce`: what fails becomes small, and fails as before."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tritium import compat
from tritium.cli.app import app
from tritium.ops.parsing import parse_module
from tritium.target import GPUTarget
from tritium.tools import reduce as tool
from tritium.tools.reduce import ReduceError, by_command, by_compiling, by_passes, reduce

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="it forks")

TEXT = """module {
  tt.func public @kernel(%x: !tt.ptr<f32>, %out: !tt.ptr<f32>, %n: i32) {
    %c0 = arith.constant 0 : i32
    %c64 = arith.constant 64 : i32
    %zero = arith.constant dense<0.0> : tensor<64xf32>
    %i = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
    %p = tt.splat %x : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
    %acc = scf.for %k = %c0 to %n step %c64 iter_args(%sum = %zero) -> (tensor<64xf32>)  : i32 {
      %k_0 = tt.splat %k : i32 -> tensor<64xi32>
      %at = arith.addi %k_0, %i : tensor<64xi32>
      %q = tt.addptr %p, %at : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
      %v = tt.load %q : tensor<64x!tt.ptr<f32>>
      %late = arith.cmpi sgt, %k, %c64 : i32
      %next = scf.if %late -> (tensor<64xf32>) {
        %h = tt.call @halve(%v) : (tensor<64xf32>) -> tensor<64xf32>
        scf.yield %h : tensor<64xf32>
      } else {
        %e = MIDDLE %v : tensor<64xf32>
        %s = arith.addf %sum, %e : tensor<64xf32>
        scf.yield %s : tensor<64xf32>
      }
      scf.yield %next : tensor<64xf32>
    }
    %o = tt.splat %out : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
    %r = tt.addptr %o, %i : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
    tt.store %r, %acc : tensor<64x!tt.ptr<f32>>
    tt.return
  }
  tt.func private @halve(%x: tensor<64xf32>) -> tensor<64xf32> {
    %c = arith.constant dense<0.5> : tensor<64xf32>
    %h = arith.mulf %x, %c : tensor<64xf32>
    tt.return %h : tensor<64xf32>
  }
}
"""
PLAIN = TEXT.replace("MIDDLE %v", "math.exp %v")
ASSEMBLY = TEXT.replace(
    "MIDDLE %v : tensor<64xf32>",
    'tt.elementwise_inline_asm "nonsense $0, $1" {constraints = "=r,r", packed_element = 1 : i32, '
    "pure = true} %v : tensor<64xf32> -> tensor<64xf32>",
)


def names(text: str) -> list[str]:
    return [op.name for op in parse_module(text, "<test>").walk()]


def test_what_matters_stays() -> None:
    def outcome(text: str) -> str:
        return "both" if "math.exp" in text and "tt.load" in text else ""

    least, failure = reduce(PLAIN, outcome)
    assert failure == "both"
    wanted = {"builtin.module", "tt.func", "math.exp", "tt.load", "tt.return"}
    rest = [name for name in names(least) if name not in wanted]
    assert sorted(set(rest)) == ["arith.constant", "tt.int_to_ptr"] and len(rest) <= 3
    assert "@kernel()" in least and "@halve" not in least
    least, _ = reduce(PLAIN, lambda text: "loop" if "scf.for" in text else "")
    assert set(names(least)) <= {
        "builtin.module", "tt.func", "arith.constant", "scf.for", "scf.yield", "tt.return"
    }  # fmt: skip


def test_compilation_that_fails() -> None:
    outcome = by_compiling(GPUTarget("cpu", "haswell", 1), ".ttir", {})
    assert outcome(PLAIN) == ""
    assert outcome(ASSEMBLY).startswith("CompilationError: inline_asm_elementwise")


@pytest.mark.slow
def test_what_is_left_of_a_compilation_that_fails() -> None:
    outcome = by_compiling(GPUTarget("cpu", "haswell", 1), ".ttir", {})
    least, failure = reduce(ASSEMBLY, outcome)
    assert failure == outcome(ASSEMBLY)
    assert {"tt.elementwise_inline_asm", "tt.store"} <= set(names(least))
    assert not {"scf.for", "scf.if", "tt.call", "tt.load"} & set(names(least))
    assert len(least.splitlines()) < 14


def test_a_command(tmp_path: Path) -> None:
    outcome = by_command("! grep -q math.exp {}", ".ttir")
    least, failure = reduce(PLAIN, outcome)
    assert failure == "status 1" and "math.exp" in least and "scf" not in least
    with pytest.raises(ReduceError, match="it does not fail"):
        reduce(PLAIN, by_command("true", ".ttir"))


def test_passes_that_fail() -> None:
    least, failure = reduce(PLAIN, by_passes(["accelerate-matmul"]))
    assert failure and len(least) < len(PLAIN)
    with pytest.raises(Exception, match="no pass is called 'nothing'"):
        by_passes(["nothing"])


def test_ends_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    run = tool._apart
    assert run(lambda text: os.kill(os.getpid(), signal.SIGSEGV))("") == "signal 11"
    assert run(lambda text: None)("") == ""
    assert run(lambda text: int("x7"))("").startswith("ValueError: invalid literal for int() with")
    monkeypatch.setattr(tool, "LIMIT", 0.2)
    assert run(lambda text: time.sleep(60))("") == "no end in 0 s"
    assert by_command("sleep 60", ".ttir")("") == "no end in 0 s"


PROGRAM = """
import numpy as np, triton, triton.language as tl

@triton.jit
def fine(x):
    tl.store(x, 1.0)

@triton.jit
def wrong(x):
    v = tl.load(x) + 1
    tl.store(x, tl.inline_asm_elementwise("nonsense $0, $1", "=r,r", [v], tl.float32, True, 1))

x = np.zeros(1, np.float32)
fine[(1,)](x)
if FAILS:
    wrong[(1,)](x)
"""


def test_the_command_line(tmp_path: Path) -> None:
    def run(*arguments: str) -> tuple[int, str]:
        result = CliRunner().invoke(app, ["reduce", *arguments])
        compat.uninstall()
        return result.exit_code, result.output

    program, out = tmp_path / "prog.py", tmp_path / "least.ttir"
    program.write_text(PROGRAM.replace("FAILS", "True"))
    status, text = run("-o", str(out), str(program))
    assert status == 0 and "lines are left" in text
    least = out.read_text()
    assert "@wrong" in least and "nonsense" in least and "arith.addf" not in least
    program.write_text(PROGRAM.replace("FAILS", "False"))
    assert run(str(program)) == (1, f"tritium: error: {program}: no kernel failed behind the "
                                    "frontend\n")  # fmt: skip
    assert run("none.py") == (1, "tritium: error: none.py: no such file\n")
    assert run(str(tmp_path)) == (1, f"tritium: error: {tmp_path}: a folder without __main__.py\n")
    (tmp_path / "data").write_bytes(b"\0\1")
    assert run(str(tmp_path / "data"))[1].endswith("data is no program: it is no text\n")
    out.write_text(PLAIN)
    status, text = run("--target", "cpu:haswell", str(out))
    assert status == 1 and text.endswith("least.ttir: it does not fail\n")
    for wrong in (("--target", "cpu:none"), ("--num-warps", "3"), ("--num-warps", "0")):
        status, text = run(*wrong, str(out))
        assert status == 1 and "lines are left" not in text and text.count("\n") == 1
    out.write_bytes(b"\x8d")
    assert "is no text" in run(str(out))[1]
    out.write_text(" \n")
    status, text = run(str(out))
    assert status == 1 and f"{out}:1:1: the text is empty; a module is expected" in text
    out.write_text("module {")
    status, text = run(str(out))
    assert status == 1 and f"{out}:1:9: " in text
