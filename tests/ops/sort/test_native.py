"""`tt.sort`: native code, its meaning, NumPy, and the network that other targets get."""

import ml_dtypes
import numpy as np
import pytest

from tests.support.frontend import signature_of
from tests.support.launching import tl
from tritium.backends.cpu.processors import processor
from tritium.errors import OpError
from tritium.frontend.module import compile_function
from tritium.frontend.visitor import FrontendOptions
from tritium.ir import types as ir
from tritium.ir.printing import print_module
from tritium.language.emitter import TargetFeatures
from tritium.native.host import host
from tritium.ops.evaluation import Evaluator
from tritium.ops.memory import Memory
from tritium.ops.ttir import SortOp
from tritium.runtime.interpreted import InterpretedFunction
from tritium.runtime.jit import JITFunction


def rows(x, out, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, DESCENDING: tl.constexpr):
    value = tl.load(x + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])
    if K == 0:
        value = tl.sort(value, descending=DESCENDING)
    else:
        value = tl.topk(value, K)
    size: tl.constexpr = N if K == 0 else K
    tl.store(out + tl.arange(0, M)[:, None] * size + tl.arange(0, size)[None, :], value)


DTYPES = (
    np.int8, np.uint8, np.int16, np.int32, np.uint32, np.int64, np.uint64, np.float16,
    ml_dtypes.bfloat16, np.float32, np.float64,
)  # fmt: skip
SHAPES = ((1, 1), (1, 2), (16, 1), (4, 8), (64, 4), (2, 64), (1, 512), (2, 1024))
COUNTS = (1, 2, 16)


def inputs(dtype, shape):
    """Random bits: NaNs of both signs, infinities and denormal numbers are among them."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    bits = np.random.default_rng([size, shape[0]]).integers(0, 256, size, dtype=np.uint8)
    return bits.view(dtype).reshape(shape)


def bits(x):
    """NaNs keep their sign only: the largest of a row passes through other dtypes."""
    if np.dtype(x.dtype).kind not in "iu":
        x = np.where(np.isnan(x), np.copysign(np.array(np.nan, x.dtype), x), x)
    return x.view(f"u{x.itemsize}")


def check(dtype, shape, k, descending):
    m, n = shape
    x = inputs(dtype, shape)
    outs = [np.zeros((m, k or n), dtype) for _ in range(2)]
    for way, out in zip((JITFunction, InterpretedFunction), outs, strict=True):
        way(rows)[(1,)](x, out, m, n, k, descending)
    np.testing.assert_array_equal(bits(outs[0]), bits(outs[1]))
    if np.dtype(dtype).kind in "iu":
        want = np.sort(x, -1)[:, :: -1 if descending else 1]
        np.testing.assert_array_equal(outs[0], want[:, : k or n])


@pytest.mark.every(4)
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
def test_sorts_as_numpy(dtype):
    """Every shape in one direction, one number of largest elements for every second shape; long
    rows for some types."""
    at = DTYPES.index(dtype)
    for i, (m, n) in enumerate(SHAPES if at % 3 == 0 else SHAPES[:-2], at):
        check(dtype, (m, n), 0, i % 2)
        if i % 2:
            check(dtype, (m, n), min(COUNTS[i // 2 % 3], n), 1)


@pytest.mark.parametrize("arch", ["x86-64", "haswell"])
def test_sorts_in_narrower_vectors(arch):
    if not host().runs_code_of(processor(arch)):
        pytest.skip(f"this machine does not run code for {arch}")
    for dtype in (np.int16, np.float32, np.int64):
        x, out = inputs(dtype, (2, 64)), np.zeros((2, 64), dtype)
        JITFunction(rows)[(1,)](x, out, 2, 64, 0, 0, arch=arch)
        np.testing.assert_array_equal(bits(out), bits(np.sort(x, -1)))


def test_lanes_of_two_vectors_are_compared_at_once():
    """10 steps within vectors, 4 in each merge of two pairs, 3 of vectors: 39 one by one."""
    x = inputs(np.int32, (1, 64))
    kernel = JITFunction(rows).warmup(x, x.copy(), 1, 64, 0, 0, grid=(1,), arch="znver4")
    assert kernel.asm["llir"].count(" call <16 x i32> @llvm.smin.v16i32(") == 27


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
def test_sorts_as_numpy_in_each_direction(dtype):
    for m, n in SHAPES:
        for k, descending in ((0, 0), (0, 1), *((k, 1) for k in (*COUNTS, n) if k <= n)):
            check(dtype, (m, n), k, descending)


def test_floats_are_in_total_order():
    x = np.float32([[np.nan, 1, -0.0, np.inf, 0.0, -np.nan, -np.inf, -1]])
    out = np.zeros_like(x)
    JITFunction(rows)[(1,)](x, out, 1, 8, 0, 0)
    want = np.float32([[-np.inf, -1, -0.0, 0.0, 1, np.inf, np.nan, np.nan]])
    np.testing.assert_array_equal(out, want)
    assert list(np.signbit(out[0])) == [True, True, True, False, False, False, False, False]


def network(x, out, k, descending):
    """Sort of targets without `tt.sort`, by the reference semantics."""
    kernel = JITFunction(rows)
    m, n = x.shape
    args = {"x": x, "out": out, "M": m, "N": n, "K": k, "DESCENDING": descending}
    module = compile_function(
        kernel, *signature_of(kernel, args), {}, TargetFeatures(), FrontendOptions()
    )
    assert "tt.sort" not in print_module(module, locations=False)
    ranges = [(a.ctypes.data, a.nbytes) for a in (x, out)]
    Evaluator(module, Memory(ranges)).launch("rows", [np.uint64(r[0]) for r in ranges], (1,))


@pytest.mark.parametrize("k, descending", [(0, 0), (0, 1), (4, 1)])
def test_the_network_gives_the_same(k, descending):
    x = np.random.default_rng(k).permutation(64).astype(np.int32).reshape(2, 32)
    outs = [np.zeros((2, k or 32), np.int32) for _ in range(2)]
    network(x, outs[0], k, descending)
    JITFunction(rows)[(1,)](x, outs[1], 2, 32, k, descending)
    np.testing.assert_array_equal(outs[0], outs[1])


def test_what_does_not_fit_is_said():
    tile = ir.tensor_of((8,), ir.f32)
    with pytest.raises(OpError, match="k is 3; a power of two up to 8"):
        SortOp.infer(tile, k=3)
    with pytest.raises(OpError, match="floats of at least 16 bits"):
        SortOp.infer(ir.tensor_of((8,), ir.f8e5m2), k=8)
