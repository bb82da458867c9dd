"""The kernels of `reference/generate.py`, run on NumPy arrays and checked against NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tritium.ir import types as ir
from tritium.ops.evaluation import Evaluator
from tritium.ops.memory import EvaluationError, Memory
from tritium.ops.parsing import parse_module

REFERENCE = Path(__file__).parent / "reference"
STAGES = ("source.ttir", "ttir")
CASES: dict[str, Callable[[Any], None]] = {}


class Kernel:
    """A kernel of the corpus; calling it runs a grid on NumPy arrays, in bounds-checked memory."""

    evaluator: type[Evaluator] = Evaluator

    def __init__(self, file: Path):
        self.module = parse_module(file.read_text(), file.name)
        self.printed: list[str] = []

    def __call__(
        self, *arguments: Any, grid: tuple[int, ...] = (1,), reachable: Sequence[Any] = ()
    ) -> None:
        """`reachable`: arrays besides the arguments that the kernel may access."""
        arrays = [a for a in (*arguments, *reachable) if isinstance(a, np.ndarray)]
        memory = Memory([(a.ctypes.data, a.nbytes) for a in arrays])
        evaluator = self.evaluator(self.module, memory)
        evaluator.print = self.printed.append  # type: ignore[method-assign]
        function: Any = next(f for f in self.module.ops if f.sym_visibility == "public")
        values = [
            np.uint64(value.ctypes.data)
            if isinstance(value, np.ndarray)
            else ir.numpy_dtype(type).type(value)
            for value, type in zip(arguments, function.function_type.inputs, strict=True)
        ]
        evaluator.launch(function.sym_name, values, grid)


def case(function: Callable[[Any], None]) -> Callable[[Any], None]:
    """Register the check of the kernel of the same name."""
    CASES[function.__name__] = function
    return function


def floats(*shape: int, seed: int = 0, dtype: Any = np.float32) -> np.ndarray:
    """Normally distributed numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def close(actual: Any, expected: Any, tolerance: float = 1e-5) -> None:
    np.testing.assert_allclose(
        np.asarray(actual, np.float64), np.asarray(expected, np.float64), tolerance, tolerance
    )


@case
def vector_add(kernel: Any) -> None:
    x, y, out = floats(300), floats(300, seed=1), np.zeros(300, np.float32)
    kernel(x, y, out, 300, grid=(3,))
    np.testing.assert_array_equal(out, x + y)


@case
def softmax(kernel: Any) -> None:
    x, out = floats(5, 50), np.zeros((5, 50), np.float32)
    kernel(out, x, 50, 5, 50, grid=(2,))
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    close(out, e / e.sum(1, keepdims=True))


@case
def layer_norm(kernel: Any) -> None:
    x, w, b = floats(3, 100), floats(100, seed=1), floats(100, seed=2)
    out, mean, rstd = np.zeros_like(x), np.zeros(3, np.float32), np.zeros(3, np.float32)
    kernel(x, out, w, b, mean, rstd, 100, 1e-5, grid=(3,))
    wide = x.astype(np.float64)
    scale = 1 / np.sqrt(wide.var(1) + 1e-5)
    close(mean, wide.mean(1))
    close(rstd, scale)
    close(out, (wide - wide.mean(1)[:, None]) * scale[:, None] * w + b)


@case
def lock_accumulate(kernel: Any) -> None:
    dy, dw, locks = floats(10, 20), np.full((4, 20), 7.0, np.float32), np.zeros(8, np.int32)
    kernel(dw, dy, locks, 20, grid=(10,))
    close(dw, [dy[group::4].sum(0) for group in range(4)])
    assert locks.tolist() == [0] * 4 + [1] * 4


@case
def matmul(kernel: Any) -> None:
    a, b = floats(50, 40, dtype=np.float16), floats(40, 70, seed=1, dtype=np.float16)
    c = np.zeros((50, 70), np.float16)
    kernel(a, b, c, 50, 70, 40, 40, 1, 70, 1, 70, 1, grid=(6,))
    product = a.astype(np.float64) @ b.astype(np.float64)
    close(c, np.where(product >= 0, product, 0.01 * product), 2e-3)


@case
def attention(kernel: Any) -> None:
    q, k, v = (floats(32, 16, seed=i) for i in range(3))
    out, lse = np.zeros_like(q), np.zeros(32, np.float32)
    kernel(q, k, v, out, lse, 32, 0.25, grid=(2,))
    score = q.astype(np.float64) @ k.T * 0.25
    score[np.triu_indices(32, 1)] = -np.inf
    p = np.exp(score - score.max(1, keepdims=True))
    close(out, p / p.sum(1, keepdims=True) @ v)
    # The running sum starts at 1, which the first block's alpha of exp2(-inf) makes 0.
    close(lse, np.log2(np.exp(score).sum(1)))


@case
def control_flow(kernel: Any) -> None:
    x = np.array([1, 2, 3, 6, 7, 27, 97], np.int32)
    out = np.full(7, -7, np.int32)
    kernel(x, out, 6, 100, grid=(7,))

    def steps(n: int) -> int:
        count = 0
        while n != 1 and count < 100:
            n, count = (n // 2 if n % 2 == 0 else 3 * n + 1), count + 1
        return -1 if count == 100 else count * 100 if count > 10 else count

    assert out.tolist() == [*(steps(int(n)) for n in x[:6]), -7]


@case
def reductions(kernel: Any) -> None:
    x = floats(8, 32) * 10
    x[3, 5] = x[3, 9] = x[3].min() - 1
    out, index = np.zeros(25, np.float32), np.zeros(56, np.int32)
    kernel(x, out, index)
    wide, whole = x.astype(np.float64), x.astype(np.int32)
    close(out[:8], wide.mean(1))
    close(out[8:16], wide.var(1))
    np.testing.assert_array_equal(out[16:24], x.max(1))
    close(out[24], wide.sum(), 1e-4)
    np.testing.assert_array_equal(index[:8], x.argmax(1))
    assert (x[np.arange(8), index[8:16]] == x.min(1)).all()
    np.testing.assert_array_equal(index[16:24], np.bitwise_xor.reduce(whole, 1))
    np.testing.assert_array_equal(index[24:], whole.min(0))


@case
def scans(kernel: Any) -> None:
    x, out = floats(4, 16), np.zeros((3, 4, 16), np.float32)
    kernel(x, out)
    wide = x.astype(np.float64)
    close(out[0], wide.cumsum(1))
    close(out[1], wide[::-1].cumprod(0)[::-1])
    state = np.zeros((4, 16))
    state[:, 0] = wide[:, 0]
    for i in range(1, 16):
        state[:, i] = wide[:, i] * 0.5 * state[:, i - 1] + wide[:, i]
    # combine((a, b), (c, d)) = (a c, c b + d) with a = x / 2, b = x.
    close(out[2], state)


@case
def sorting(kernel: Any) -> None:
    x, out = floats(2, 4), np.zeros((2, 2, 4), np.float32)
    kernel(x, out)
    np.testing.assert_array_equal(out[0], np.sort(x, 1)[:, ::-1])
    np.testing.assert_array_equal(out[1], x[:, ::-1])


@case
def histogram_gather(kernel: Any) -> None:
    x = np.random.default_rng(0).integers(0, 16, 64).astype(np.int32)
    src, out, gathered = floats(16), np.zeros(32, np.int32), np.zeros(64, np.float32)
    kernel(x, src, out, gathered)
    counts = np.bincount(x, minlength=16)
    np.testing.assert_array_equal(out[:16], counts)
    np.testing.assert_array_equal(out[16:], np.where(np.arange(16) < 8, counts, 0))
    np.testing.assert_array_equal(gathered, src[x])


@case
def join_split(kernel: Any) -> None:
    x, y, out = floats(16), floats(16, seed=1), np.zeros(80, np.float32)
    kernel(x, y, out)
    np.testing.assert_array_equal(out[:32].reshape(16, 2), np.stack([x, y], 1))
    np.testing.assert_array_equal(out[32:48], x - y)
    close(out[48], x.sum(dtype=np.float64) + y.sum(dtype=np.float64))
    np.testing.assert_array_equal(out[64:], x.reshape(2, 2, 4).transpose(2, 0, 1).ravel())


@case
def atomics(kernel: Any) -> None:
    x = np.arange(-4, 12).astype(np.float32)
    f, i = np.zeros(4, np.float32), np.zeros(16, np.int32)
    i[5], u = 13, np.full(3, 100, np.uint32)
    i[12:] = [0, 0, 9, 0]
    old, h = np.zeros(48, np.int32), np.zeros(16, np.float16)
    kernel(x, f, i, u, old, h)
    whole, at = x.astype(np.int64), np.arange(16)
    assert i[:4].tolist() == [whole[0::4].sum(), 0, whole[2::4].sum(), 0]
    assert old[:16].tolist() == [
        whole[n % 4 : n : 4].sum() if n % 2 == 0 else 0 for n in range(16)
    ]
    close(f, [x.sum(), 10, 11, -1.5])
    assert i[4] == 11 and i[5] == 12
    assert i[6] == np.bitwise_or.reduce(whole[at % 2 == 0])
    assert i[7] == np.bitwise_xor.reduce(whole)
    assert i[8:12].tolist() == [8, 9, 10, 11]
    assert old[16:32].tolist() == [0] * 4 + whole[:12].tolist()
    # Compare with 0: the first of each group of four stores -4, -3, (9 stays), -1.
    assert i[12:].tolist() == [-4, -3, 9, -1]
    assert u.tolist() == [0, 1, 100]
    np.testing.assert_array_equal(h, x.astype(np.float16))


@case
def block_pointers(kernel: Any) -> None:
    a, b = floats(10, 40, dtype=np.float16), np.zeros((10, 40), np.float16)
    kernel(a, b, 10, 37, 40)
    expected = np.zeros_like(b)
    expected[:, :37] = a[:, :37] * 2
    np.testing.assert_array_equal(b, expected)


@case
def descriptors(kernel: Any) -> None:
    a, b = floats(12, 24), np.zeros((12, 24), np.float32)
    kernel(a, b, 12, 24, grid=(2,))
    expected = a + 1
    # The first program's addition is overwritten by neither: rows differ.
    expected[:8, :16] += 2
    close(b, expected)


@case
def descriptor_rows(kernel: Any) -> None:
    a, b = floats(6, 32), np.zeros((6, 32), np.float32)
    rows = np.array([5, 0, 2, 3, 7, 1, 4, 9], np.int32)
    kernel(a, b, rows, 6, 32)
    expected = np.zeros_like(b)
    expected[:, 16:] = a[:, :16]
    np.testing.assert_array_equal(b, expected)


@case
def print_assert(kernel: Any) -> None:
    x = np.arange(8).astype(np.float32)
    kernel(x, 26)
    assert kernel.printed[0] == "pid (0, 0, 0) idx (0) value: (operand 0) 0.000000"
    assert kernel.printed[7].endswith("idx (7) value: (operand 0) 7.000000")
    assert kernel.printed[8] == "pid (0, 0, 0) idx () value: (operand 1) 26"
    assert kernel.printed[9] == "pid (0, 0, 0) idx () hex: 0x0000001a"
    np.testing.assert_array_equal(x, np.arange(8) + 26)


@case
def noinline_call(kernel: Any) -> None:
    x, out = floats(16), np.zeros(16, np.float32)
    kernel(x, out, 3)
    first = float(x[0])
    close(out, x * first**2 + first**3 + 3)


@case
def casts(kernel: Any) -> None:
    x = np.abs(floats(16)) * 4
    b, h = np.zeros(16, ml_dtypes.bfloat16), np.zeros(16, np.float16)
    i, u = np.zeros(16, np.int8), np.zeros(16, np.uint8)
    e5, e4 = np.zeros(16, ml_dtypes.float8_e5m2), np.zeros(16, ml_dtypes.float8_e4m3fn)
    l, d = np.zeros(32, np.int64), np.zeros(16, np.float64)
    kernel(x, b, h, i, e5, e4, l, u, d)
    np.testing.assert_array_equal(b, x.astype(ml_dtypes.bfloat16))
    assert (h.astype(np.float32) <= x).all() and (x - h < 2**-9 * np.maximum(x, 1)).all()
    np.testing.assert_array_equal(i, x.astype(np.int8))
    np.testing.assert_array_equal(u, x.astype(np.uint8))
    np.testing.assert_array_equal(e5, x.astype(ml_dtypes.float8_e5m2))
    np.testing.assert_array_equal(e4, x.astype(ml_dtypes.float8_e4m3fn))
    np.testing.assert_array_equal(l[:16], x.view(np.int32).astype(np.int64) >> 3)
    np.testing.assert_array_equal(l[16:], np.arange(16) * 4)
    parts = [e5, e4, b, h, i, u]
    close(d, sum(np.asarray(part).astype(np.float64) for part in parts))


@case
def dot_scaled(kernel: Any) -> None:
    rng = np.random.default_rng(0)
    a = rng.integers(0, 256, (32, 32)).astype(np.uint8)
    b = rng.standard_normal((64, 32)).astype(ml_dtypes.float8_e5m2)
    sa, sb = (rng.integers(125, 130, (32, 2)).astype(np.uint8) for _ in range(2))
    c = np.zeros((32, 32), np.float32)
    kernel(a, sa, b.view(np.uint8), sb, c)
    magnitude = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    left = np.zeros((32, 64))
    for half in range(2):
        code = (a >> (4 * half)) & 15
        left[:, half::2] = magnitude[code & 7] * np.where(code & 8, -1, 1)
    left *= np.repeat(2.0 ** (sa.astype(int) - 127), 32, 1)
    right = b.astype(np.float64) * np.repeat(2.0 ** (sb.astype(int) - 127), 32, 1).T
    close(c, left @ right)


@case
def map_elementwise(kernel: Any) -> None:
    x, y, out = floats(16), floats(16, seed=1), np.zeros(32, np.float32)
    kernel(x, y, out)
    close(out[:16], np.where(x > y, x * 2, y))
    close(out[16:], np.where(x > y, y, x - 1))


@case
def library(kernel: Any) -> None:
    x, out = np.linspace(0.05, 0.95, 16).astype(np.float32), np.zeros(32, np.float32)
    kernel(x, out)
    close(out[:16], np.arcsin(x.astype(np.float64)))
    close(out[16:], x.astype(np.float64) ** x)


@case
def mathematics(kernel: Any) -> None:
    v = np.linspace(0.1, 4.5, 16).astype(np.float32)
    out = np.zeros((8, 16), np.float32)
    kernel(v, out)
    w = v.astype(np.float64)
    whole = v.astype(np.int64)
    close(out[0], np.exp(w) + np.exp2(w) + np.log(w) + np.log2(w))
    close(out[1], np.sin(w) + np.cos(w) + [math.erf(x) for x in w])
    close(out[2], 2 * np.sqrt(w) + 1 / np.sqrt(w))
    close(out[3], np.floor(w) + np.ceil(w) + w)
    close(out[4], w * w + w + w / (w + 1) + w / (w + 2))
    close(out[5], np.clip(w, 0.5, 1.5) + np.minimum(w, 1))
    close(out[6], np.maximum(w, 1) + 1 / (1 + np.exp(-w)))
    close(out[7], (whole * whole >> 32) + whole // (whole + 1))


@case
def random_numbers(kernel: Any) -> None:
    out = np.zeros(128, np.float32)
    kernel(out, 42, grid=(2,))
    close(out, [philox_uniform(42, n) for n in range(128)])


def philox_uniform(seed: int, offset: int) -> float:
    """The first output of Philox 4x32-10 (Salmon et al., 2011) as a number in [0, 1)."""
    c, k, low = [offset, 0, 0, 0], [seed & 0xFFFFFFFF, seed >> 32], 0xFFFFFFFF
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & low, (a >> 32) ^ c[3] ^ k[1], a & low]
        k = [(k[0] + 0x9E3779B9) & low, (k[1] + 0xBB67AE85) & low]
    value = c[0] - 2**32 if c[0] >= 2**31 else c[0]
    return (-value - 1 if value < 0 else value) * 4.6566127342e-10


@case
def indirect_pointers(kernel: Any) -> None:
    data = floats(4, 8)
    addresses = np.array([row.ctypes.data for row in data], np.int64)
    expected = data.copy()
    expected[:, 0] = data[:, 5]
    kernel(addresses, 5, reachable=[data])
    np.testing.assert_array_equal(data, expected)


@case
def hints(kernel: Any) -> None:
    x, out = floats(16), np.zeros(16, np.float32)
    kernel(x, out, 5)
    close(out, np.full(16, x[:10].sum(dtype=np.float64)))


@pytest.mark.every(2)
@pytest.mark.covering(1)
@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("name", sorted(CASES))
def test_runs_on_arrays(name: str, stage: str) -> None:
    CASES[name](Kernel(REFERENCE / f"{name}.{stage}"))


def test_inline_assembly_says_that_it_cannot_be_evaluated() -> None:
    kernel = Kernel(REFERENCE / "inline_asm.ttir")
    with pytest.raises(NotImplementedError, match=r"inline assembly .*: 'shf\.l\.wrap"):
        kernel(np.zeros(16, "i4"), np.zeros(16, "i4"))


def test_an_access_outside_of_the_arguments_is_an_error() -> None:
    kernel = Kernel(REFERENCE / "vector_add.ttir")
    x, out = floats(100), floats(100)
    with pytest.raises(EvaluationError, match="belongs to no argument"):
        kernel(x, x, out, 101)
