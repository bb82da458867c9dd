"""The tutorials about Gluon, and the kernel of its page: interpreted, and as compiled for sm_90."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.gluon.support import launcher
from tests.tutorials.test_tutorials import FOLDER
from tritium import knobs
from tritium.experimental import gluon
from tritium.experimental.gluon import language as gl

ROOT = FOLDER.parent


def load(path: Path, patch: pytest.MonkeyPatch) -> Any:
    patch.setattr(knobs.runtime, "interpret", knobs.runtime.interpret)  # which the program changes
    spec: Any = importlib.util.spec_from_file_location(path.stem, path)
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.every(7)
@pytest.mark.parametrize(("name", "said"), [
    ("01_layouts", r"'ld.global.v4.b32': 2(.|\n)*further turns: 0 15\n.*: 0 1\nthe copies are"),
    ("02_matmul_on_hopper", r"pipelined: 8 wgmma(.|\n)*specialized: 8 wgmma(.|\n)*are right"),
    ("03_attention_on_hopper", r"attention: 64 wgmma, 12 bulk copies.*\nthe results are right"),
    ("04_persistent_matmul", r"persistent: 8 wgmma.* 22\d{4} bytes.*\nthe products are right"),
    ("05_convolution", r"convolution: 8 wgmma, 1 copies of patches.*\nthe convolutions are right"),
    ("06_clusters", r"product: 8 wgmma, 4 copies for two .*\nthe results are right"),
    ("07_asynchronous_copies", r"sums: 8 copies .*\ncopy: 0 loads, 2 .*\nthe results are right"),
])  # fmt: skip
def test_programs(name: str, said: str) -> None:
    command = [sys.executable, "-m", "tritium", "run", str(FOLDER / "gluon" / f"{name}.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert re.search(said, done.stdout), done.stdout


@pytest.mark.covering(1)
@pytest.mark.parametrize("kernel", ["pipelined", "specialized"])
@pytest.mark.parametrize("depth", [40, 200])
def test_products_as_compiled(
    kernel: str, depth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    tutorial = load(FOLDER / "gluon" / "02_matmul_on_hopper.py", monkeypatch)
    fn = getattr(tutorial, kernel)
    rng = np.random.default_rng(0)
    a = rng.integers(-3, 4, (200, depth)).astype(np.float16)
    b = rng.integers(-3, 4, (depth, 72)).astype(np.float16)
    out = np.zeros((200, 72), np.float16)
    made = tutorial.arguments(fn, a, b, out, 128, 64, 32)
    launcher("engine")(gluon.GluonJITFunction(fn.fn), (2, 2), *made, depth, STAGES=4)
    np.testing.assert_array_equal(out, (a.astype(np.float32) @ b).astype(np.float16))


def test_persistent_products_as_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    tutorial = load(FOLDER / "gluon" / "04_persistent_matmul.py", monkeypatch)
    rng = np.random.default_rng(2)
    a = rng.integers(-3, 4, (200, 136)).astype(np.float16)
    b = rng.integers(-3, 4, (136, 136)).astype(np.float16)
    out = np.zeros((200, 136), np.float16)
    made = tutorial.arguments(a, b, out, 128, 64, 32)
    kernel = gluon.GluonJITFunction(tutorial.persistent.fn)
    launcher("engine")(kernel, (2,), *made, 200, 136, 136, STAGES=3, GROUP=2)
    np.testing.assert_array_equal(out, (a.astype(np.float32) @ b).astype(np.float16))


def test_convolutions_as_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    tutorial = load(FOLDER / "gluon" / "05_convolution.py", monkeypatch)
    rng = np.random.default_rng(3)
    x = rng.integers(-2, 3, (2, 6, 7, 32)).astype(np.float16)
    w = rng.integers(-2, 3, (16, 3, 3, 32)).astype(np.float16)
    count, height, width, _ = tutorial.sizes(x, w, 2, 1)
    out = np.zeros((count * height * width, 16), np.float16)
    made = (tutorial.patches(x, 64, 32, 3, 2, 1), tutorial.tiles(w.reshape(16, -1), [16, 32]),
            tutorial.tiles(out, [64, 16]))  # fmt: skip
    launcher("engine")(
        gluon.GluonJITFunction(tutorial.convolution.fn), (1, 1), *made, HEIGHT=height,
        WIDTH=width, SIZE=3, CHANNELS=32, STRIDE=2, PADDING=1, STAGES=2,
    )  # fmt: skip
    wanted = tutorial.reference(x, w, 2, 1).reshape(out.shape)
    np.testing.assert_array_equal(out, wanted.astype(np.float16))


def test_copies_as_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    tutorial = load(FOLDER / "gluon" / "07_asynchronous_copies.py", monkeypatch)
    x = np.random.default_rng(4).integers(-9, 10, (64, 512)).astype(np.float32)
    out, total = np.zeros_like(x), np.zeros(16, np.float32)
    made = (tutorial.described(a, [16, 64]) for a in (x, out))
    copy = gluon.GluonJITFunction(tutorial.copy_kernel.fn)
    launcher("engine")(copy, (3,), *made, 4, 8, STAGES=4, num_warps=1)
    np.testing.assert_array_equal(out, x)
    layout = gl.BlockedLayout([1, 4], [1, 32], [4, 1], [1, 0])
    launcher("simt")(gluon.GluonJITFunction(tutorial.sum_kernel.fn), (2,), x[:16], total, 500,
                     layout=layout, ROWS=8, WIDTH=128, STAGES=3)  # fmt: skip
    np.testing.assert_array_equal(total, x[:16].reshape(-1)[: 16 * 500].reshape(16, 500).sum(1))


@pytest.mark.parametrize("causal", [pytest.param(False, marks=pytest.mark.slow), True])
def test_attention_as_compiled(causal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    tutorial = load(FOLDER / "gluon" / "03_attention_on_hopper.py", monkeypatch)
    rng = np.random.default_rng(1)
    q, k, v = (rng.standard_normal((1, 256, 64)).astype(np.float16) for _ in range(3))
    out = np.zeros_like(q)
    launcher("engine")(
        gluon.GluonJITFunction(tutorial.attention.fn), (2, 1), *tutorial.arguments(q, k, v, out),
        256, 0.125, STAGES=2, CAUSAL=causal,
    )  # fmt: skip
    wanted = tutorial.reference(q, k, v, causal)
    np.testing.assert_allclose(out.astype(np.float32), wanted, rtol=2e-2, atol=2e-2)


def test_the_kernel_of_the_page(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (text,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs/gluon.md").read_text(), re.DOTALL)
    (tmp_path / "page.py").write_text(text)
    kernel = load(tmp_path / "page.py", monkeypatch).row_sums
    source = np.arange(32 * 64, dtype=np.float32).reshape(32, 64)
    for how in ("interpreted", "simt", "sm_90"):
        out = np.zeros(32, np.float32)
        launcher(how)(kernel, (1,), source, out, N=64,
                      layout=gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0]))  # fmt: skip
        np.testing.assert_allclose(out, source.sum(1))
