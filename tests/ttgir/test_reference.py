"""The reference's `.ttgir` files: they are read, verified, printed as they were, and compute what
the kernels say. Our own pipeline from the reference's `.ttir` computes the same."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.ir.test_reference import lines
from tritium.backends.nvidia.processor import processor
from tritium.ir.printing import print_module
from tritium.ops.evaluation import Evaluator
from tritium.ops.memory import Memory
from tritium.ops.parsing import parse_module
from tritium.ops.ttir import Tile
from tritium.passes import PassManager, pipelines

REFERENCE = Path(__file__).parent / "reference"
FILES = sorted(REFERENCE.glob("*.ttgir"))


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.name)
def test_prints_as_the_reference_does(file: Path) -> None:
    module = parse_module(file.read_text(), file.name)
    module.verify()
    difference = difflib.unified_diff(
        lines(file.read_text()), lines(print_module(module)), lineterm="", n=0
    )
    assert not "\n".join(difference)
    again = parse_module(print_module(module))
    assert module.is_structurally_equivalent(again)


def run(module: Any, arguments: list[Any], grid: tuple[int, ...]) -> None:
    """Run a module's kernel on arrays and numbers, in bounds-checked memory."""
    arrays = [a for a in arguments if isinstance(a, np.ndarray)]
    memory = Memory([(a.ctypes.data, a.nbytes) for a in arrays])
    values = [
        np.uint64(a.ctypes.data) if isinstance(a, np.ndarray)
        else a if isinstance(a, Tile) else np.int32(a)
        for a in arguments
    ]  # fmt: skip
    function: Any = next(iter(module.ops))
    Evaluator(module, memory).launch(function.sym_name, values, grid)


def check_add(module: Any) -> None:
    x, y = np.random.default_rng(0).standard_normal((2, 1500)).astype(np.float32)
    out = np.zeros(1500, np.float32)
    run(module, [x, y, out, 1500], (2,))
    np.testing.assert_array_equal(out, x + y)


def check_softmax(module: Any) -> None:
    x = np.random.default_rng(0).standard_normal((5, 900)).astype(np.float32)
    out = np.zeros_like(x)
    run(module, [out, x, 900, 900, 5, 900], (2,))
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    np.testing.assert_allclose(out, e / e.sum(1, keepdims=True), 1e-5)


def check_mm(module: Any) -> None:
    rng = np.random.default_rng(0)
    m, n, k = 160, 144, 336
    a = rng.standard_normal((m, k)).astype(np.float16)
    b = rng.standard_normal((k, n)).astype(np.float16)
    c = np.zeros((m, n), np.float16)
    run(module, [a, b, c, m, n, k, k, n, n], (4,))
    product = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(c.astype(np.float64), product, 2e-2, 2e-2)


def check_mmdesc(module: Any) -> None:
    rng = np.random.default_rng(0)
    m, n, k = 160, 144, 336
    a = rng.standard_normal((m, k)).astype(np.float16)
    b = rng.standard_normal((n, k)).astype(np.float16)
    c = np.zeros((m, n), np.float16)
    arguments: list[Any] = []
    for array in (a, b, c):
        arguments += [Tile(array.ctypes.data, array.shape, (array.shape[1], 1))]
        arguments += [*array.shape, *(np.int64(s) for s in (array.shape[1], 1))]
    memory = Memory([(x.ctypes.data, x.nbytes) for x in (a, b, c)])
    Evaluator(module, memory).launch("mmdesc", [*arguments, *map(np.int32, (m, n, k))], (4,))
    product = a.astype(np.float64) @ b.astype(np.float64).T
    np.testing.assert_allclose(c.astype(np.float64), product, 2e-2, 2e-2)


CHECKS = {"add": check_add, "softmax": check_softmax, "mm": check_mm, "mmdesc": check_mmdesc}


@pytest.mark.every(2)
@pytest.mark.parametrize("file", FILES, ids=lambda f: f.name)
def test_the_reference_computes_the_same(file: Path) -> None:
    CHECKS[file.name.split("_")[0]](parse_module(file.read_text(), file.name))


TARGETS = [(80, 4), (90, 4), (90, 8)]
RUNS = [(name, *target) for name in CHECKS for target in TARGETS
        if name != "mmdesc" or target[0] >= 90]  # fmt: skip


@pytest.mark.covering(1)
@pytest.mark.parametrize("num_stages", [1, 2, 3, 5])
@pytest.mark.parametrize("name,capability,num_warps", RUNS)
def test_our_pipeline_computes_the_same(
    name: str, capability: int, num_warps: int, num_stages: int
) -> None:
    module = parse_module((REFERENCE / f"{name}_90.ttir").read_text())
    passes = pipelines.ttgir(processor(capability), num_warps, num_stages)
    PassManager(passes, verify_each=True).run(module)
    CHECKS[name](module)
