"""Products on a GPU that conformance tests do not have: scaled, without tensor cores."""

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
def scaled(a, sa, b, sb, o, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m, n = tl.arange(0, M), tl.arange(0, N)
    k, g = tl.arange(0, K), tl.arange(0, K // 32)
    x = tl.load(a + m[:, None] * K + k[None, :])
    y = tl.load(b + k[:, None] * N + n[None, :])
    p = tl.load(sa + m[:, None] * (K // 32) + g[None, :])
    q = tl.load(sb + n[:, None] * (K // 32) + g[None, :])
    r = tl.dot_scaled(x, p, "e4m3", y, q, "e5m2")
    tl.store(o + m[:, None] * N + n[None, :], r)


def test_scaled_products_are_exact(torch: Any):
    m, n, k = 64, 64, 64
    a = torch.randint(-4, 5, (m, k), device="cuda").float().to(torch.float8_e4m3fn)
    b = torch.randint(-4, 5, (k, n), device="cuda").float().to(torch.float8_e5m2)
    sa, sb = (torch.randint(125, 130, (s, k // 32), dtype=torch.uint8, device="cuda")
              for s in (m, n))  # fmt: skip
    out = torch.zeros(m, n, device="cuda")
    scaled[(1,)](a.view(torch.uint8), sa, b.view(torch.uint8), sb, out, M=m, N=n, K=k)
    left = a.double() * (2.0 ** (sa.double() - 127)).repeat_interleave(32, 1)
    right = b.double() * (2.0 ** (sb.double() - 127)).repeat_interleave(32, 1).T
    assert torch.equal(out.double(), left @ right)


@tritium.jit
def multiply(
    a, b, c, K, B: tl.constexpr, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr,
    COMPUTED: tl.constexpr,
):  # fmt: skip
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BK)
    total = tl.zeros((B, M, N), c.dtype.element_ty) if B else tl.zeros((M, N), c.dtype.element_ty)
    for i in range(0, K, BK):
        p = a + m[:, None] * K + (i + k)[None, :]
        q = b + (i + k)[:, None] * N + n[None, :]
        if B:
            p = p[None] + tl.arange(0, B)[:, None, None] * M * K
            q = q[None] + tl.arange(0, B)[:, None, None] * K * N
        x, y = tl.load(p), tl.load(q)
        if COMPUTED:
            x, y = x + 1, y * 2
        total = tl.dot(x, y, total, input_precision="ieee", out_dtype=c.dtype.element_ty)
    o = c + m[:, None] * N + n[None, :]
    if B:
        o = o[None] + tl.arange(0, B)[:, None, None] * M * N
    tl.store(o, total)


@pytest.mark.parametrize("stages", [1, 3])
@pytest.mark.parametrize("computed", [False, True])
@pytest.mark.parametrize(
    ("dtype", "result", "shape", "warps"),
    [("float32", "float32", (0, 128, 128, 32), 4), ("float32", "float32", (0, 128, 64, 64), 4),
     ("float32", "float32", (0, 16, 256, 64), 2), ("float32", "float32", (0, 64, 16, 128), 4),
     ("float32", "float32", (0, 32, 32, 16), 4), ("float32", "float32", (2, 64, 64, 64), 4),
     ("float32", "float32", (0, 128, 128, 32), 8), ("float64", "float64", (0, 128, 128, 32), 4),
     ("float16", "float32", (0, 8, 256, 128), 2), ("int8", "int32", (0, 8, 256, 256), 4)],
)  # fmt: skip
def test_products_without_tensor_cores(
    torch: Any, dtype: str, result: str, shape: tuple[int, ...], warps: int, computed: bool,
    stages: int,
):  # fmt: skip
    """Sums of small integers are exact."""
    batches, m, n, k = shape
    lead, depth = (batches,) if batches else (), 3 * k
    a, b = (
        torch.randint(-3, 4, (*lead, *s), device="cuda").to(getattr(torch, dtype))
        for s in ((m, depth), (depth, n))
    )
    c = torch.zeros(*lead, m, n, dtype=getattr(torch, result), device="cuda")
    sizes = {"B": batches, "M": m, "N": n, "BK": k, "COMPUTED": computed}
    multiply[(1,)](a, b, c, depth, **sizes, num_warps=warps, num_stages=stages)
    left, right = a.double() + computed, b.double() * (1 + computed)
    assert torch.equal(c.double(), left @ right)
