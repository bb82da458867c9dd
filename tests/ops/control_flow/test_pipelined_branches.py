"""Loops whose loads, started ahead, are also used in a branch, evaluated after all passes."""

from __future__ import annotations

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
def multiply(a, b, c, d, K: tl.constexpr, M: tl.constexpr, B: tl.constexpr, HOW: tl.constexpr):
    """c = a @ b; d = what of the first block of a is used in a branch."""
    m, k = tl.arange(0, M), tl.arange(0, B)
    total, extra = tl.zeros((M, B), tl.float32), tl.zeros((M, B), tl.float32)
    for i in range(0, K, B):
        x = tl.load(tl.multiple_of(a + m[:, None] * K + (i + k)[None, :], (16, 16)))
        y = tl.load(tl.multiple_of(b + (i + k)[:, None] * B + k[None, :], (16, 16)))
        if i == 0:
            if HOW == "left":
                extra += tl.dot(x, y)
            elif HOW == "right":
                extra += tl.dot(y, x)
            elif HOW == "transposed":
                extra += tl.dot(tl.trans(x), tl.trans(y))
            else:
                extra += x.to(tl.float32)
        total = tl.dot(x, y, total)
    tl.store(c + m[:, None] * B + k[None, :], total)
    tl.store(d + m[:, None] * B + k[None, :], extra)


@pytest.mark.covering(1)
@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("num_stages", [2, 3])
@pytest.mark.parametrize("how", ["left", "right", "transposed", "plain"])
def test_a_branch_uses_the_load(how: str, num_stages: int, dtype: str):
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-4, 5, s).astype(dtype) for s in ((64, 192), (192, 64)))
    c, d = np.zeros((64, 64), np.float32), np.zeros((64, 64), np.float32)
    module = compile_kernel(multiply, a=a, b=b, c=c, d=d, K=192, M=64, B=64, HOW=how)
    passes = [*pipelines.ttir(), *pipelines.ttgir(processor(90), 4, num_stages)]
    PassManager(passes, verify_each=True).run(module)
    assert "ttg.async_copy_global_to_local" in print_module(module)
    memory = Memory([(x.ctypes.data, x.nbytes) for x in (a, b, c, d)])
    arguments = [np.uint64(x.ctypes.data) for x in (a, b, c, d)]
    Evaluator(module, memory).launch("multiply", arguments, (1,))
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))
    x, y = a[:, :64].astype(np.float32), b[:64].astype(np.float32)
    expected = {"left": x @ y, "right": y @ x, "transposed": x.T @ y.T, "plain": x}[how]
    np.testing.assert_array_equal(d, expected)
