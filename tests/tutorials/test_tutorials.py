"""Each tutorial at a small size, natively compiled: the numbers that it claims."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tritium
from tests.support.device import device, native, to_gpu

FOLDER = Path(__file__).parents[2] / "tutorials"
PLACE = "cuda" if device == "cuda" else "cpu"
"""Where torch's tensors are made."""
HAS_TORCH = importlib.util.find_spec("torch") is not None
needs_torch = pytest.mark.skipif(not HAS_TORCH, reason="torch is not installed")


def there(x: np.ndarray) -> Any:
    """An array where kernels run."""
    return to_gpu(x) if device == "cuda" else x


def back(x: Any) -> np.ndarray:
    """`there` undone."""
    return x.cpu().numpy() if device == "cuda" else x


def load(number: str) -> ModuleType:
    (file,) = FOLDER.glob(f"{number}_*.py")
    name = f"tutorial_{number}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(FOLDER)  # where a program finds `arrays`
        spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("n", [1, 4096, 98432])
def test_vector_add_is_exact(n: int):
    assert load("01").check(n) == 0.0


def test_vector_add_of_doubles():
    x, y = np.random.default_rng(1).random((2, 5000))
    assert np.array_equal(back(load("01").add(there(x), there(y))), x + y)


@needs_torch
def test_vector_add_of_torch_tensors():
    import torch

    x, y = torch.rand(2, 98432, device=PLACE)
    assert torch.equal(load("01").add(x, y), x + y)


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (37, 781), (5, 1024), (3, 2049)])
def test_softmax(rows: int, columns: int):
    assert load("02").check(rows, columns) < 1e-6


@needs_torch
def test_softmax_of_a_strided_torch_tensor():
    import torch

    x = torch.randn(16, 600, device=PLACE)[:, :500]
    torch.testing.assert_close(load("02").softmax(x), torch.softmax(x, dim=1))


@pytest.mark.every(2)
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
    found = back(load("03").matmul(there(a).T, there(b).T))
    assert np.max(np.abs(found - a.T.astype(np.float64) @ b.T)) < 3e-4


def test_matmul_in_half_precision():
    assert load("03").check(128, 64, 128, dtype=np.float16) < 2e-2


def test_matmul_of_sizes_that_do_not_fit():
    with pytest.raises(ValueError, match="a is 2 x 3 and b is 2 x 3"):
        load("03").matmul(np.zeros((2, 3), np.float32), np.zeros((2, 3), np.float32))


def test_the_order_of_tiles_goes_down_within_a_group():
    """Which tile each program takes, on a 5 x 4 grid in groups of 2 rows, the last one short."""
    module = load("03")
    import tritium.language as tl

    tile_of = module.tile_of

    def table(out_ptr, tiles_m, tiles_n, GROUP_M: tl.constexpr):
        pid = tl.program_id(0)
        row, column = tile_of(pid, tiles_m, tiles_n, GROUP_M)
        tl.store(out_ptr + 2 * pid, row)
        tl.store(out_ptr + 2 * pid + 1, column)

    out = np.full((20, 2), -1, np.int32)
    native(table)[(20,)](out, 5, 4, GROUP_M=2)
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
    kept = back(load("04").seeded_dropout(there(x), p, seed=7))
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
    y, _, _ = module.forward(there(x), there(w), there(b))
    assert np.max(np.abs(back(y) - module.exact(x, w, b, x)[0])) < 1e-5


@needs_torch
def test_layer_norm_as_an_autograd_function():
    import torch

    layer_norm = load("05").make_layer_norm()
    x, weight, bias = (
        torch.randn(*s, requires_grad=True, device=PLACE) for s in ((64, 96), (96,), (96,))
    )
    dy = torch.randn(64, 96, device=PLACE)
    ours = torch.autograd.grad(layer_norm(x, weight, bias, 1e-5), (x, weight, bias), dy)
    right = torch.nn.functional.layer_norm(x, (96,), weight, bias, 1e-5)
    wanted = torch.autograd.grad(right, (x, weight, bias), dy)
    for found, expected in zip(ours, wanted, strict=True):
        torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)


@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("length", "d", "causal", "descriptors"),
    [(150, 32, False, True), (150, 32, True, False), (1, 16, True, False), (128, 64, True, True),
     *(pytest.param(*case, marks=pytest.mark.slow) for case in (
         (150, 32, False, False), (150, 32, True, True), (1, 16, False, True)))],
)  # fmt: skip
def test_attention_forward_and_backward(length: int, d: int, causal: bool, descriptors: bool):
    for name, error in load("06").check(length, d, causal, descriptors).items():
        assert error < 1e-5, name


def test_attention_in_half_precision():
    for name, error in load("06").check(100, 64, True, True, np.float16).items():
        assert error < 5e-3, name


def test_attention_of_a_size_that_has_no_block():
    x = np.zeros((1, 1, 8, 24), np.float32)
    with pytest.raises(ValueError, match="D is 24; a power of two"):
        load("06").forward(x, x, x)


@pytest.mark.every(2)
@needs_torch
@pytest.mark.parametrize("causal", [False, True])
def test_attention_as_an_autograd_function(causal: bool):
    import torch

    q, k, v, do = torch.randn(4, 2, 3, 70, 32, device=PLACE)
    for t in (q, k, v):
        t.requires_grad_()
    ours = load("06").make_attention()(q, k, v, causal, None)
    right = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
    torch.testing.assert_close(ours, right, atol=1e-5, rtol=1e-5)
    found, wanted = (torch.autograd.grad(o, (q, k, v), do) for o in (ours, right))
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_extern_functions(dtype: type):
    single = dtype is np.float32
    for name, error in load("07").check(1000, dtype).items():
        assert error < (2e-6 if single else 1e-14 if "quantile" not in name else 1e-8), name


def test_an_extern_function_of_a_dtype_that_it_does_not_have():
    with pytest.raises(tritium.CompilationError, match="int32"):
        load("07").asin(np.zeros(8, np.int32))


@pytest.mark.covering(1)
@pytest.mark.parametrize("descriptors", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_grouped_products(dtype: type, descriptors: bool):
    tolerance = 2e-6 if dtype is np.float32 else 2e-3
    assert load("08").check(dtype=dtype, descriptors=descriptors) < tolerance
    assert load("08").check([(5, 8, 16)], dtype, descriptors) < tolerance


def test_grouped_products_that_do_not_fit():
    a = np.zeros((2, 3), np.float32)
    with pytest.raises(ValueError, match="a is 2 x 3 and b is 2 x 3"):
        load("08").grouped_gemm([(a, a)])


@pytest.mark.every(2)
@pytest.mark.parametrize("variant", ["plain", "persistent", "descriptors",
                                     "descriptors, persistent",
                                     "descriptors, persistent, specialized",
                                     "descriptors made in the kernel"])  # fmt: skip
def test_persistent_matmul(variant: str):
    check = load("09").check
    assert check(variant=variant) < 2e-6
    assert check(1, 8, 16, variant) < 2e-6
    assert check(100, 72, 200, variant, np.float16) < 2e-3


@pytest.mark.every(2)
@pytest.mark.covering(1)
@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("format", ["mxfp8", "mxfp4", "nvfp4", "mixed"])
def test_block_scaled_matmul(format: str, shuffled: bool):
    exact, rounding = load("10").check(format=format, shuffled=shuffled)
    assert exact < 1e-6 and 0.01 < rounding < 0.25
    assert load("10").check(1, 5, 96, format, shuffled)[0] < 1e-6


def test_quantizing_is_exact_for_what_the_format_has():
    module = load("10")
    x = np.array([[0, 0.5, 1, 1.5, 2, 3, 4, 6] * 4, [-3, 96, 16, 32, -64, 48, 24, 8] * 4])
    found = module.quantize(x, "e2m1", 32, True)
    assert found.value.tolist() == [x[0].tolist(), [0, 96, 16, 32, -64, 48, 24, 8] * 4]
    assert found.scales.tolist() == [[127], [131]]
    assert found.numbers[0, :4].tolist() == [0x10, 0x32, 0x54, 0x76]


def renamed(folder: Path) -> None:
    """Copies of the tutorials as programs that say `import triton`."""
    for file in FOLDER.glob("*.py"):
        text = file.read_text().replace("import tritium as triton", "import triton")
        text = re.sub(r"^(import|from) tritium\b", r"\1 triton", text, flags=re.M)
        assert "import tritium" not in text
        (folder / file.name).write_text(text)


PROGRAMS = {"01": 1, "02": 1, "03": 1, "04": 1, "05": 1,
            "06": 4, "07": 1, "08": 1, "09": 1, "10": 1}  # fmt: skip
"""The tutorials, and how many plots each of them draws."""


@pytest.mark.slow
@pytest.mark.parametrize("number", PROGRAMS)
def test_a_tutorial_runs_as_a_program(number: str, tmp_path: Path):
    (file,) = FOLDER.glob(f"{number}_*.py")
    command = [sys.executable, str(file), "--save", str(tmp_path)]
    env = {**os.environ, "MPLBACKEND": "Agg"}
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    assert len(list(tmp_path.glob("*.png"))) == PROGRAMS[number] == len([*tmp_path.glob("*.csv")])


@pytest.mark.slow
@pytest.mark.parametrize("number", PROGRAMS)
def test_a_tutorial_that_says_import_triton(number: str, tmp_path: Path):
    """Its check, through `tritium run`."""
    renamed(tmp_path)
    (file,) = tmp_path.glob(f"{number}_*.py")
    text = re.sub(r"^    benchmark\.run\(.*\)$", "", file.read_text(), flags=re.M)
    file.write_text(text)
    command = [sys.executable, "-m", "tritium", "run", str(file)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout
