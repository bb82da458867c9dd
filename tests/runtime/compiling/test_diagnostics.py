"""Output about a compilation: passes, their times and failures, remarks, the LLVM IR."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import tritium
import tritium.language as tl
from tests.runtime.compiling.sources import source
from tritium import knobs
from tritium.backends.compiler import GPUTarget
from tritium.cli.opt import optimize
from tritium.compiler import ASTSource
from tritium.passes import PassError
from tritium.passes.ttir import CSE


def test_dump_of_passes(capfd: Any, monkeypatch: pytest.MonkeyPatch, fresh_cache: Path) -> None:
    monkeypatch.setenv("MLIR_ENABLE_DUMP", "add_kernel")
    tritium.compile(source())
    error = capfd.readouterr().err
    assert re.search(r"// -----// IR Dump Before \S+ \(.*\) .*----- //", error)
    assert "IR Dump Before ReshapeAccesses (reshape-accesses) " in error, "of the tile stage"
    monkeypatch.setenv("MLIR_ENABLE_DUMP", "another_kernel")
    tritium.compile(source())
    assert "IR Dump" not in capfd.readouterr().err


def test_a_named_kernels_passes_alone(capfd: Any, fresh_cache: Path) -> None:
    for name, shown in (("add_kernel", True), ("another", False), ("0", False), ("TRUE", True)):
        knobs.compilation.dump_passes = name
        tritium.compile(source())
        header = "// -----// IR Dump Before Inliner (inline) ('builtin.module' operation) //---"
        assert (header in capfd.readouterr().err) == shown


@pytest.mark.parametrize("variable", ["MLIR_DUMP_PATH", "TRITON_REPRODUCER_PATH"])
def test_paths_that_cannot_be_written(
    variable: str, fresh_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLIR_ENABLE_DUMP", "1")
    monkeypatch.setenv(variable, "/no/such/folder/x")
    with pytest.raises(RuntimeError, match=f"Unable to use {variable}=/no/such/folder/x: "):
        tritium.compile(source())


def test_reproducer(tmp_path: Path, fresh_cache: Path) -> None:
    knobs.compilation.reproducer_path = str(tmp_path / "repro")
    key = tritium.compile(source()).hash
    tiles, file = sorted(tmp_path.glob("repro*"))
    assert tiles.name == "repro.make_tiles.repro.mlir"
    assert 'pipeline: "builtin.module(tensor-pointers,' in tiles.read_text()
    assert file.name == "repro.make_ttir.repro.mlir"
    text = file.read_text()
    assert "mlir_reproducer" in text
    assert re.search(r'pipeline: "builtin\.module\(inline,canonicalize,.*\)"', text)
    done = optimize(str(file), [])
    assert done.strip() == tritium.compile(source()).asm["ttir"].strip()
    assert optimize(str(file), ["cse"]) != done, "passes that are named are run instead"
    del knobs.compilation.reproducer_path
    assert tritium.compile(source()).hash == key, "it is neutral"


def test_a_failing_pass_prints_its_reproducer(
    capfd: Any, fresh_cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(self: Any, module: Any) -> bool:
        raise RuntimeError("no reason")

    monkeypatch.setattr(CSE, "run", fail)
    with pytest.raises(PassError, match=r"cse: no reason"):
        tritium.compile(source())
    err = capfd.readouterr().err
    assert err.startswith("error: cse: no reason\nnote: pass cse failed; `tritium opt FILE` runs")
    text = err.split("\n", 2)[2]
    assert "tt.func public @add_kernel" in text and 'pipeline: "builtin.module(inline,' in text
    (tmp_path / "r.mlir").write_text(text)
    with pytest.raises(PassError, match=r"cse: no reason"):
        optimize(str(tmp_path / "r.mlir"), [])


def test_times_of_passes(capfd: Any, fresh_cache: Path) -> None:
    knobs.compilation.pass_timing = True
    tritium.compile(source())
    err = capfd.readouterr().err
    assert "... Execution time report ..." in err and re.search(r"\d+\.\d+ \( *\d.*%\)  cse", err)
    assert "  reshape-accesses\n" in err


def test_llvm_dump_and_times(capfd: Any, fresh_cache: Path) -> None:
    knobs.compilation.dump_llvm = knobs.compilation.llvm_timing = True
    tritium.compile(source())
    err = capfd.readouterr().err
    assert "; *** IR Dump of add_kernel ***\n" in err and "define" in err
    assert "execution timing report" in err


def test_remarks(capfd: Any, fresh_cache: Path) -> None:
    @tritium.jit
    def product(x, out):
        i = tl.arange(0, 32)[:, None] * 32 + tl.arange(0, 32)[None, :]
        a = tl.load(x + i)
        tl.store(out + i, tl.dot(a, a))

    src = ASTSource(product, {"x": "*fp64", "out": "*fp64"}, {})
    assert knobs.compilation.diagnostics == frozenset()
    text = r"test_diagnostics.py:\d+:\d+: remark: MMA version 3 acceleration not applied due to un"
    for words, patterns in (
        ("", []),
        ("remarks", [text]),
        ("remarks,operations", [text, "note: see current operation: "]),
        ("remarks, stacktraces", [text, "note: diagnostic emitted with trace:\n  File"]),
    ):
        knobs.compilation.diagnostics = words
        knobs.compilation.always_compile = True
        tritium.compile(src, GPUTarget("cuda", 90, 32))
        err = capfd.readouterr().err
        assert all(re.search(p, err) for p in patterns) and bool(err) == bool(words), (words, err)
    with pytest.raises(RuntimeError, match=r"MLIR_ENABLE_DIAGNOSTICS.*some of warnings, remarks"):
        knobs.compilation.diagnostics = "everything"


@pytest.mark.parametrize("name", ["TRITON_ENABLE_LLVM_DEBUG", "TRITON_LLVM_DEBUG_ONLY"])
def test_no_llvm_debug_output(
    fresh_cache: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "1")
    with pytest.warns(RuntimeWarning, match=r"only LLVM built with assertions has debug output"):
        tritium.compile(source())
