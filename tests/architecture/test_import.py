"""Cost of `import tritium`, and the modules that it loads."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SRC = str(Path(__file__).parents[2] / "src")
HEAVY = ("torch", "cuda", "triton", "llvmlite", "xdsl", "numpy", "matplotlib", "pandas", "typer")


def run(code: str) -> str:
    env = {**os.environ, "PYTHONPATH": SRC}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_tritium_loads_three_modules_of_its_own():
    code = "import sys, tritium; print(*[m for m in sys.modules if m.startswith('tritium')])"
    assert set(run(code).split()) == {"tritium", "tritium.reference_paths", "tritium.version"}


def test_import_tritium_loads_nothing_heavy():
    loaded = run("import sys, tritium; print(*sys.modules)").split()
    assert not [name for name in HEAVY if name in loaded]


@pytest.mark.parametrize("module", ["tritium.language", "tritium.runtime", "tritium.testing"])
def test_the_parts_import_neither_torch_nor_cuda(module: str):
    code = f"import sys, {module}; print(*[m for m in ('torch', 'cuda') if m in sys.modules])"
    assert run(code).strip() == ""


def test_launching_imports_nothing_that_compiles():
    """A kernel that is in the cache is found and launched without the compiler's stages."""
    launching = ("runtime", "backends.active", "backends.cpu.launcher", "backends.amd.driver")
    loaded = run(f"import sys, {', '.join(f'tritium.{m}' for m in launching)}; print(*sys.modules)")
    stages = {"analysis", "codegen", "frontend", "passes"}
    assert not [m for m in loaded.split() if stages & {m.removeprefix("tritium.").split(".")[0]}]


def test_every_public_name_is_there():
    missing = run(
        "import tritium\n"
        "print(*[n for n in tritium.__all__ if not hasattr(tritium, n)])"
    ).split()
    assert not missing


def test_public_names_are_those_of_the_reference():
    names = run("import tritium; print(*tritium.__all__)").split()
    assert len(names) == len(set(names))
    assert set(names) == {
        *("CompilationError", "Config", "InterpreterError", "JITFunction", "KernelInterface"),
        *("MockTensor", "OutOfResources", "TensorWrapper", "TritonError", "autotune", "cdiv"),
        *("compile", "heuristics", "jit", "language", "must_use_result", "next_power_of_2"),
        *("reinterpret", "runtime", "set_allocator", "testing", "tools"),
    }


def test_an_unknown_name_is_an_attribute_error():
    code = "import tritium\ntry: tritium.nonsense\nexcept AttributeError as e: print(e)"
    assert run(code).strip() == "module 'tritium' has no attribute 'nonsense'"


@pytest.mark.parametrize(
    ("x", "y", "blocks"), [(0, 4, 0), (1, 4, 1), (4, 4, 1), (5, 4, 2), (98432, 1024, 97)]
)
def test_cdiv(x: int, y: int, blocks: int):
    import tritium

    assert tritium.cdiv(x, y) == blocks


@pytest.mark.parametrize(
    ("n", "power"), [(0, 0), (1, 1), (2, 2), (3, 4), (781, 1024), (1024, 1024), (1025, 2048)]
)
def test_next_power_of_2(n: int, power: int):
    import tritium

    assert tritium.next_power_of_2(n) == power
