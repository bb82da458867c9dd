"""Each tutorial at a small size, natively compiled: the numbers that it claims."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

FOLDER = Path(__file__).parents[2] / "tutorials"
HAS_TORCH = importlib.util.find_spec("torch") is not None
needs_torch = pytest.mark.skipif(not HAS_TORCH, reason="torch is not installed")


def load(number: str) -> ModuleType:
    (file,) = FOLDER.glob(f"{number}_*.py")
    name = f"tutorial_{number}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("n", [1, 4096, 98432])
def test_vector_add_is_exact(n: int):
    assert load("01").check(n) == 0.0


def test_vector_add_of_doubles():
    x, y = np.random.default_rng(1).random((2, 5000))
    assert np.array_equal(load("01").add(x, y), x + y)


@needs_torch
def test_vector_add_of_torch_tensors():
    import torch

    x, y = torch.rand(98432), torch.rand(98432)
    assert torch.equal(load("01").add(x, y), x + y)


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (37, 781), (5, 1024), (3, 2049)])
def test_softmax(rows: int, columns: int):
    assert load("02").check(rows, columns) < 1e-6


@needs_torch
def test_softmax_of_a_strided_torch_tensor():
    import torch

    x = torch.randn(16, 600)[:, :500]
    torch.testing.assert_close(load("02").softmax(x), torch.softmax(x, dim=1))


@pytest.mark.parametrize(
    ("sizes", "activation"),
    [
        ((64, 64, 64), None),
        ((256, 128, 192), None),
        ((256, 128, 192), "leaky_relu"),
        ((130, 70, 50), None),
        ((1, 1, 1), "leaky_relu"),
    ],
)
def test_matmul(sizes: tuple[int, int, int], activation: str | None):
    assert load("03").check(*sizes, activation) < 2e-6 * max(sizes[2], 8)


def test_matmul_of_transposed_operands():
    a, b = np.random.default_rng(2).standard_normal((2, 128, 128), dtype=np.float32)
    found = load("03").matmul(a.T, b.T)
    assert np.max(np.abs(found - a.T.astype(np.float64) @ b.T)) < 3e-4


def test_matmul_in_half_precision():
    assert load("03").check(128, 64, 128, dtype=np.float16) < 2e-2


def test_matmul_of_sizes_that_do_not_fit():
    with pytest.raises(ValueError, match="a is 2 x 3 and b is 2 x 3"):
        load("03").matmul(np.zeros((2, 3), np.float32), np.zeros((2, 3), np.float32))


def test_the_order_of_tiles_goes_down_within_a_group():
    """Which tile each program takes, on a 5 x 4 grid in groups of 2 rows, the last one short."""
    module = load("03")
    import tritium
    import tritium.language as tl

    tile_of = module.tile_of

    @tritium.jit
    def table(out_ptr, tiles_m, tiles_n, GROUP_M: tl.constexpr):
        pid = tl.program_id(0)
        row, column = tile_of(pid, tiles_m, tiles_n, GROUP_M)
        tl.store(out_ptr + 2 * pid, row)
        tl.store(out_ptr + 2 * pid + 1, column)

    out = np.full((20, 2), -1, np.int32)
    table[(20,)](out, 5, 4, GROUP_M=2)
    expected = [(first + r, c) for first in (0, 2, 4) for c in range(4)
                for r in range(min(2, 5 - first))]  # fmt: skip
    assert out.tolist() == [list(pair) for pair in expected]


def test_dropout():
    found = load("04").check(10_000, 0.5)
    assert found["masked: difference from NumPy"] == 0
    assert abs(found["share dropped"] - 0.5) < 0.03
    assert found["kept: difference from x / (1 - p)"] == 0
    assert found["same seed: elements that differ"] == 0
    assert abs(found["other seed: share that differs"] - 0.5) < 0.03
    assert found["backward: elements dropped differently"] == 0


@pytest.mark.parametrize("p", [0.1, 0.9])
def test_dropout_drops_as_many_as_it_was_told(p: float):
    x = np.ones(20_000, np.float32)
    kept = load("04").seeded_dropout(x, p, seed=7)
    assert abs(np.mean(kept == 0) - p) < 0.02
    assert np.allclose(kept[kept != 0], 1 / (1 - p))


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (300, 100), (151, 777)])
def test_layer_norm_forward_and_backward(rows: int, columns: int):
    """With more rows than locks, so that programs wait for each other."""
    found = load("05").check(rows, columns)
    assert found["y"] < 1e-5 and found["dx"] < 1e-5
    assert found["dw"] < 1e-4 and found["db"] < 1e-4


def test_layer_norm_of_rows_longer_than_a_block():
    module = load("05")
    rng = np.random.default_rng(3)
    x = rng.standard_normal((3, 5000), dtype=np.float32)
    w, b = rng.random((2, 5000), dtype=np.float32)
    y, _, _ = module.forward(x, w, b)
    assert np.max(np.abs(y - module.exact(x, w, b, x)[0])) < 1e-5


@needs_torch
def test_layer_norm_as_an_autograd_function():
    import torch

    layer_norm = load("05").make_layer_norm()
    x, weight, bias = (torch.randn(*s, requires_grad=True) for s in ((64, 96), (96,), (96,)))
    dy = torch.randn(64, 96)
    ours = torch.autograd.grad(layer_norm(x, weight, bias, 1e-5), (x, weight, bias), dy)
    right = torch.nn.functional.layer_norm(x, (96,), weight, bias, 1e-5)
    wanted = torch.autograd.grad(right, (x, weight, bias), dy)
    for found, expected in zip(ours, wanted, strict=True):
        torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("number", ["01", "02", "03", "04", "05"])
def test_a_tutorial_runs_as_a_program(number: str, tmp_path: Path):
    (file,) = FOLDER.glob(f"{number}_*.py")
    command = [sys.executable, str(file), "--save", str(tmp_path)]
    env = {**os.environ, "MPLBACKEND": "Agg"}
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    assert len(list(tmp_path.glob("*.png"))) == 1 and len(list(tmp_path.glob("*.csv"))) == 1
