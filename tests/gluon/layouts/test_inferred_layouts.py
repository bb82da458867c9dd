"""The layouts of results, as Triton 3.6 infers them (`inferred_layouts.json`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tritium.backends.base import make_backend
from tritium.experimental import gluon
from tritium.experimental.gluon import language as gl
from tritium.target import GPUTarget

CASES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "inferred_layouts.json").read_text()
)["cases"]


@gluon.jit
def shapes_kernel(
    layout: gl.constexpr, shape: gl.constexpr, to: gl.constexpr, order: gl.constexpr,
    axis: gl.constexpr,
):  # fmt: skip
    x = gl.full(shape, 1.0, gl.float32, layout)
    gl.static_print("reshape", gl.reshape(x, to).type.layout)
    gl.static_print("permute", gl.permute(x, order).type.layout)
    pairs = gl.join(x, x)
    gl.static_print("join", pairs.type.layout)
    first, _ = gl.split(pairs)
    gl.static_print("split", first.type.layout)
    moved = gl.permute(pairs, (len(shape), *order))
    gl.static_print("moved", moved.type.layout)
    gl.static_print("sum", gl.sum(x, axis).type.layout)
    gl.static_print("flat", gl.reshape(moved, [moved.numel]).type.layout)


@pytest.mark.parametrize("number", range(len(CASES)))
def test_as_triton(number: int, capsys: pytest.CaptureFixture[str]) -> None:
    names = {n: getattr(gl, n) for n in ("BlockedLayout", "NVMMADistributedLayout")}
    constants: dict[str, Any] = eval(CASES[number]["case"], names)
    backend = make_backend(GPUTarget("cuda", 90, 32))
    source = gluon.GluonASTSource(shapes_kernel, dict.fromkeys(constants, "constexpr"), constants)
    source.generate(backend, backend.parse_options({"num_warps": 4}))
    printed = dict(line.split(" ", 1) for line in capsys.readouterr().out.splitlines())
    found = {name: text.strip() for name, text in printed.items()}
    assert found == CASES[number]["layouts"], CASES[number]["case"]
