"""Atomic operations on floats on a GPU."""

from __future__ import annotations

from typing import Any

import pytest

import tritium
import tritium.language as tl

pytestmark = pytest.mark.gpu


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


@tritium.jit
def atomics(x, p, KIND: tl.constexpr, n: tl.constexpr):
    i = tl.arange(0, n)
    v = tl.load(x + i)
    if KIND == "add":
        tl.atomic_add(p + i % 4, v)
    elif KIND == "max":
        tl.atomic_max(p + i % 4, v)
    else:
        tl.atomic_min(p + i % 4, v)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("kind", ["add", "max", "min"])
def test_float_atomics(torch: Any, kind: str, dtype: str):
    if kind != "add" and dtype in ("float16", "bfloat16"):
        pytest.skip("the language has none")
    x = torch.randint(-8, 8, (64,), device="cuda").to(getattr(torch, dtype))
    p = torch.zeros(4, dtype=x.dtype, device="cuda")
    atomics[(1,)](x, p, KIND=kind, n=64)
    rows = x.reshape(16, 4).double()
    want = {
        "add": rows.sum(0), "max": rows.max(0).values.clamp(min=0),
        "min": rows.min(0).values.clamp(max=0),
    }  # fmt: skip
    assert torch.equal(p.double(), want[kind])
