"""What conformance tests, which run on any device, do not cover of the language on a real GPU."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tests.support.device import from_gpu, to_gpu
from tritium.language.extra import libdevice

pytestmark = pytest.mark.gpu


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


def elementwise(function: Any, *arguments: np.ndarray, out: Any = None, **options: Any) -> Any:
    """A libdevice function (a builtin) of whole arrays."""

    @tritium.jit
    def unary(x, o, n: tl.constexpr, FUNCTION: tl.constexpr):
        i = tl.arange(0, n)
        tl.store(o + i, FUNCTION(tl.load(x + i)))

    @tritium.jit
    def binary(x, y, o, n: tl.constexpr, FUNCTION: tl.constexpr):
        i = tl.arange(0, n)
        tl.store(o + i, FUNCTION(tl.load(x + i), tl.load(y + i)))

    result = np.zeros_like(arguments[0] if out is None else out)
    moved = [to_gpu(a) for a in arguments]
    target = to_gpu(result)
    kernel = unary if len(moved) == 1 else binary
    kernel[(1,)](*moved, target, n=arguments[0].size, FUNCTION=function, **options)
    from_gpu(target, result)
    return result


UNARY = {
    "acos": np.arccos, "asinh": np.arcsinh, "atan": np.arctan, "cbrt": np.cbrt, "cosh": np.cosh,
    "erfc": np.vectorize(math.erfc), "exp10": lambda x: 10.0**x, "expm1": np.expm1,
    "lgamma": np.vectorize(math.lgamma), "log1p": np.log1p, "rsqrt": lambda x: 1 / np.sqrt(x),
    "tan": np.tan, "tanh": np.tanh, "tgamma": np.vectorize(math.gamma),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", UNARY)
def test_libdevice(torch: Any, name: str, dtype: Any):
    x = np.linspace(0.01, 0.99, 256).astype(dtype)
    found = elementwise(getattr(libdevice, name), x)
    want = UNARY[name](x.astype(np.float64))
    tolerance = 4e-6 if dtype == np.float32 else 1e-14
    np.testing.assert_allclose(found, want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_libdevice_of_two(torch: Any, dtype: Any):
    rng = np.random.default_rng(0)
    x, y = (rng.uniform(0.1, 9, 128).astype(dtype) for _ in range(2))
    for name, function in (("pow", np.power), ("fmod", np.fmod), ("atan2", np.arctan2),
                           ("hypot", np.hypot), ("copysign", np.copysign)):  # fmt: skip
        found = elementwise(getattr(libdevice, name), x, y)
        want = function(x.astype(np.float64), y.astype(np.float64))
        np.testing.assert_allclose(found, want, rtol=1e-5 if dtype == np.float32 else 1e-13)


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


@tritium.jit
def scans(x, o, M: tl.constexpr, N: tl.constexpr, AXIS: tl.constexpr, REVERSE: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(o + at, tl.cumsum(tl.load(x + at), AXIS, reverse=REVERSE))


@tritium.jit
def sorts(x, o, M: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(o + at, tl.flip(tl.sort(tl.load(x + at)), 1))


@pytest.mark.parametrize("shape", [(1, 4), (2, 512), (64, 64), (128, 8), (1, 4096), (4, 1)])
@pytest.mark.parametrize("warps", [1, 4, 8])
def test_scans(torch: Any, shape: tuple[int, int], warps: int):
    x = torch.randint(-50, 50, shape, dtype=torch.int32, device="cuda")
    for axis in (0, 1):
        for reverse in (False, True):
            o = torch.zeros_like(x)
            scans[(1,)](x, o, *shape, AXIS=axis, REVERSE=reverse, num_warps=warps)
            want = x.flip(axis).cumsum(axis).flip(axis) if reverse else x.cumsum(axis)
            assert torch.equal(o, want.to(torch.int32)), (axis, reverse)


@pytest.mark.parametrize("shape", [(1, 4), (2, 64), (16, 32), (1, 512)])
@pytest.mark.parametrize("warps", [4, 8])
def test_sorts(torch: Any, shape: tuple[int, int], warps: int):
    x = torch.randint(-50, 50, shape, dtype=torch.int32, device="cuda")
    o = torch.zeros_like(x)
    sorts[(1,)](x, o, *shape, num_warps=warps)
    assert torch.equal(o, x.sort(1, descending=True).values)


@tritium.jit
def picks(x, i, o, h, M: tl.constexpr, N: tl.constexpr, BINS: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    index = tl.load(i + at)
    tl.store(o + at, tl.gather(tl.load(x + at), index, 1))
    counts = tl.histogram(tl.reshape(index, [M * N]), BINS)
    tl.store(h + tl.arange(0, BINS), counts)


@pytest.mark.parametrize("shape", [(1, 16), (8, 32), (64, 128)])
def test_gather_and_histogram(torch: Any, shape: tuple[int, int]):
    x = torch.randn(shape, device="cuda")
    i = torch.randint(0, shape[1], shape, dtype=torch.int32, device="cuda")
    o, bins = torch.zeros_like(x), shape[1] // 2
    h = torch.zeros(bins, dtype=torch.int32, device="cuda")
    picks[(1,)](x, i, o, h, *shape, BINS=bins)
    assert torch.equal(o, x.gather(1, i.long()))
    counts = torch.bincount(i.flatten(), minlength=2 * bins)[:bins]
    assert torch.equal(h, counts.to(torch.int32))


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


@tritium.jit
def double(x, o, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o + i, tl.load(x + i, i < n) * 2, i < n)


def test_arrays_of_other_libraries(torch: Any):
    """`__cuda_array_interface__` and DLPack arguments, with no torch tensor among them."""
    cupy = pytest.importorskip("cupy")
    x, o = cupy.arange(100, dtype=cupy.float32), cupy.zeros(100, cupy.float32)
    double[(2,)](x, o, 100, BLOCK=64)
    cupy.cuda.runtime.deviceSynchronize()
    assert cupy.array_equal(o, 2 * x)
    part = cupy.zeros(100, cupy.float32)
    double[(1,)](x[50:], part[50:], 50, BLOCK=64)
    cupy.cuda.runtime.deviceSynchronize()
    assert cupy.array_equal(part[50:], 2 * x[50:]) and not part[:50].any()


class Capsule:
    """A tensor that offers DLPack alone."""

    def __init__(self, tensor: Any):
        self._tensor, self.dtype = tensor, tensor.dtype

    def __dlpack__(self, **options: Any) -> Any:
        return self._tensor.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._tensor.__dlpack_device__()


def test_dlpack(torch: Any):
    x = torch.arange(64, device="cuda", dtype=torch.float32)
    o = torch.zeros(70, device="cuda")
    double[(1,)](Capsule(x), Capsule(o[3:67]), 64, BLOCK=64)
    torch.cuda.synchronize()
    assert torch.equal(o[3:67], 2 * x) and not o[:3].any() and not o[67:].any()
    with pytest.raises(ValueError, match=r"Pointer argument \(at 0\) cannot be accessed"):
        double[(1,)](Capsule(x.cpu()), o, 64, BLOCK=64)
