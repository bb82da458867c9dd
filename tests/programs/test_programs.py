"""Programs as others write them, which say `import triton`: each of their checks, compiled and in
the interpreter; and some as they are, through `tritium run`."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.support import device

torch = pytest.importorskip("torch", reason="torch is not installed")

FOLDER = Path(__file__).parent
SRC = FOLDER.parents[1] / "src"
PROGRAMS = sorted(f.stem for f in FOLDER.glob("*.py") if not f.name.startswith("test_"))
CHECKS = [
    (program, node.name)
    for program in PROGRAMS
    for node in ast.parse((FOLDER / f"{program}.py").read_text()).body
    if isinstance(node, ast.FunctionDef) and node.name.startswith("check_")
]


def renamed(source: str) -> str:
    """The program with its imports of triton turned into imports of tritium."""
    source = re.sub(r"^(\s*)import triton$", r"\1import tritium as triton", source, flags=re.M)
    return re.sub(r"^(\s*)(import|from) triton\b(?! as)", r"\1\2 tritium", source, flags=re.M)


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory):
    """A function that loads a program for compiling or for the interpreter."""
    folder = tmp_path_factory.mktemp("programs")
    modules: dict[str, ModuleType] = {}

    def load(program: str, interpreted: bool) -> ModuleType:
        name = f"{program}_{'interpreted' if interpreted else 'compiled'}"
        if name in modules:
            return modules[name]
        file = folder / f"{name}.py"
        file.write_text(renamed((FOLDER / f"{program}.py").read_text()))
        spec = importlib.util.spec_from_file_location(name, file)
        assert spec is not None and spec.loader is not None
        modules[name] = module = importlib.util.module_from_spec(spec)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("TRITON_INTERPRET", "1" if interpreted else "0")
            spec.loader.exec_module(module)
        return module

    return load


LONG = [
    ("linear_attention", "check_chunked_gla"), ("flash_attention", "check_flash_attention"),
    ("assorted", "check_sampling"), ("linear_attention", "check_delta_rule"),
    ("paged_attention", "check_paged_decode"), ("losses", "check_cross_entropy"),
    ("parallel_algorithms", "check_hash_table"), ("assorted", "check_convolution"),
    ("mamba", "check_chunked_scan"), ("descriptors_and_tuples", "check_persistent_matmul"),
    ("moe", "check_fused_moe"), ("mamba", "check_state_update"), ("norms", "check_rms_norm"),
    ("moe", "check_grouped_topk"),
]  # fmt: skip
"""Checks that take the interpreter more than 1 s."""
LONG_COMPILED = [
    ("flash_attention", "check_flash_attention"), ("generated", "check_sort_with_index"),
    ("moe", "check_fused_moe"), ("linear_attention", "check_chunked_gla"),
    ("assorted", "check_convolution"), ("descriptors_and_tuples", "check_persistent_matmul"),
]  # fmt: skip
"""Checks that take the compiler more than 1.5 s, of programs that have others."""


@pytest.mark.every(5)
@pytest.mark.filterwarnings("ignore:Logical operators:UserWarning")
@pytest.mark.parametrize(
    ("program", "check"),
    [pytest.param(*c, marks=pytest.mark.slow) if c in LONG_COMPILED and device.device == "cpu"
     else c for c in CHECKS],
)  # fmt: skip
def test_compiled(loaded, program: str, check: str):
    place = "cuda" if device.device == "cuda" else "cpu"
    getattr(loaded(program, False), check)(torch.device(place))


@pytest.mark.every(7)
@pytest.mark.filterwarnings("ignore:Logical operators:UserWarning")
@pytest.mark.parametrize(
    ("program", "check"),
    [pytest.param(*c, marks=pytest.mark.slow) if c in LONG or i % 3 else c
     for i, c in enumerate(CHECKS)],
)  # fmt: skip
def test_interpreted(loaded, monkeypatch: pytest.MonkeyPatch, program: str, check: str):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    getattr(loaded(program, True), check)(torch.device("cpu"))


@pytest.mark.parametrize("interpret", ["0", pytest.param("1", marks=pytest.mark.slow)])
@pytest.mark.parametrize("program", ["attention"])
def test_as_it_is(program: str, interpret: str):
    """In a process of its own, without a change: `tritium run PROGRAM`."""
    command = [sys.executable, "-m", "tritium", "run", str(FOLDER / f"{program}.py")]
    path = os.pathsep.join([str(SRC), os.environ.get("PYTHONPATH", "")])
    env = {**os.environ, "PYTHONPATH": path, "TRITON_INTERPRET": interpret}
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(": right\n")
