"""Products whose operands `stage-operands` puts into shared memory, evaluated after all passes."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tests.support.frontend import compile_kernel
from tritium.backends.nvidia.processor import processor
from tritium.ir.printing import print_module
from tritium.ops.evaluation import Evaluator
from tritium.ops.memory import Memory
from tritium.passes import PassManager, pipelines


@tritium.jit
def multiply(a, b, c, K, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr, WHICH: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BK)
    total = tl.zeros((M, N), tl.float32)
    for i in range(0, K, BK):
        x = tl.load(a + m[:, None] * K + (i + k)[None, :])
        y = tl.load(b + (i + k)[:, None] * N + n[None, :])
        x = x * 2 if "a" in WHICH else x
        y = y + 1 if "b" in WHICH else y
        total = tl.dot(x, y, total, input_precision="ieee")
    tl.store(c + m[:, None] * N + n[None, :], total)


@pytest.mark.covering(1)
@pytest.mark.parametrize("num_stages", [1, 3])
@pytest.mark.parametrize("which", ["", "a", "b", "ab"])
def test_computed_operands(which: str, num_stages: int):
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-4, 5, s).astype(np.float32) for s in ((32, 96), (96, 64)))
    c = np.zeros((32, 64), np.float32)
    sizes = {"K": 96, "M": 32, "N": 64, "BK": 32}
    module = compile_kernel(multiply, a=a, b=b, c=c, **sizes, WHICH=which)
    passes = [*pipelines.ttir(), *pipelines.ttgir(processor(90), 4, num_stages)]
    PassManager(passes, verify_each=True).run(module)
    operands = re.findall(r"= (\S+) .* -> tensor<\S+ #ttg.dot_op<", print_module(module))
    assert operands == ["ttg.local_load"] * 2
    memory = Memory([(x.ctypes.data, x.nbytes) for x in (a, b, c)])
    arguments = [*(np.uint64(x.ctypes.data) for x in (a, b, c)), np.int32(96)]
    Evaluator(module, memory).launch("multiply", arguments, (1,))
    np.testing.assert_array_equal(c, (a * (1 + ("a" in which))) @ (b + ("b" in which)))


@tritium.jit
def multiply_reshaped(a, b, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    x = tl.reshape(tl.load(a + tl.arange(0, M * K)), (M, K))
    y = tl.trans(tl.reshape(tl.load(b + tl.arange(0, N * K)), (N, K)))
    product = tl.dot(x, y, input_precision="ieee")
    tl.store(c + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :], product)


def test_operands_of_any_layout():
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-4, 5, s).astype(np.float32) for s in ((32, 64), (64, 64)))
    c = np.zeros((32, 64), np.float32)
    module = compile_kernel(multiply_reshaped, a=a, b=b, c=c, M=32, N=64, K=64)
    passes = [*pipelines.ttir(), *pipelines.ttgir(processor(90), 4, 3)]
    PassManager(passes, verify_each=True).run(module)
    memory = Memory([(x.ctypes.data, x.nbytes) for x in (a, b, c)])
    arguments = [np.uint64(x.ctypes.data) for x in (a, b, c)]
    Evaluator(module, memory).launch("multiply_reshaped", arguments, (1,))
    np.testing.assert_array_equal(c, a @ b.T)
