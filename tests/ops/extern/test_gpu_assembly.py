"""Inline assembly on a GPU."""

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
def assembly(x, y, o, q, n: tl.constexpr):
    i = tl.arange(0, n)
    a, b = tl.load(x + i), tl.load(y + i)
    tl.store(o + i, tl.inline_asm_elementwise(
        "add.s32 $0, $1, $2;", "=r,r,r", [a, b], dtype=tl.int32, is_pure=True, pack=1))
    # Bytes shifted, four in a register.
    c = a.to(tl.int8)
    tl.store(q + i, tl.inline_asm_elementwise(
        "{ .reg .b32 t; shl.b32 t, $1, 3; and.b32 $0, t, 0xF8F8F8F8; }", "=r,r", [c],
        dtype=tl.int8, is_pure=False, pack=4))


@pytest.mark.parametrize("n", [4, 64, 1024])
def test_inline_assembly(torch: Any, n: int):
    x, y = (torch.randint(0, 100, (n,), dtype=torch.int32, device="cuda") for _ in range(2))
    o, q = torch.zeros_like(x), torch.zeros(n, dtype=torch.int8, device="cuda")
    assembly[(1,)](x, y, o, q, n=n)
    assert torch.equal(o, x + y)
    assert torch.equal(q, (x << 3).to(torch.int8))
