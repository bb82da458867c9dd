"""Random functions, run natively and by the reference semantics: the same bits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, note, settings
from xdsl.dialects.builtin import ModuleOp

from tests.cpu.support import Kernel
from tests.support.random_ir import SIZE, Sample, modules, run, same_bits
from tritium.ir.printing import print_module
from tritium.ops import arith
from tritium.ops.ttir.reduction import ReduceOp

SETTINGS = settings(
    max_examples=20,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def run_native(kernel: Kernel, n: int, programs: int = 2, seed: int = 0) -> tuple:
    """As `random_ir.run`, compiled."""
    random = np.random.default_rng(seed)
    reals = [random.standard_normal(SIZE).astype(np.float32) for _ in range(2)]
    integers = [random.integers(-100, 100, SIZE, dtype=np.int32) for _ in range(2)]
    kernel.run([reals[0], integers[0], reals[1], integers[1], n], (programs,))
    return reals[1], integers[1]


def without_float_sums(module: ModuleOp) -> None:
    """Replace sums of floats, whose rounding depends on the order, by maxima."""
    for op in list(module.walk()):
        if isinstance(op, ReduceOp):
            for inner in list(op.regions[0].block.ops):
                if isinstance(inner, arith.AddFOp):
                    other = arith.MaximumFOp.build(*inner.operands)
                    op.regions[0].block.insert_op_before(other, inner)
                    inner.results[0].replace_all_uses_with(other.result)
                    inner.detach()
                    inner.erase()


def check(sample: Sample) -> None:
    without_float_sums(sample.module)
    note(print_module(sample.module, locations=False))
    wanted = [run(sample.module, n) for n in (0, 3)]
    kernel = Kernel(sample.module)
    note(print_module(kernel.tiles))
    for n, expected in zip((0, 3), wanted, strict=False):
        found = run_native(kernel, n)
        assert same_bits(found, expected), (found, expected)


@SETTINGS
@given(sample=modules())
def test_random_functions(sample: Sample) -> None:
    check(sample)


@pytest.mark.slow
@settings(SETTINGS, max_examples=600)
@given(sample=modules())
def test_many_random_functions(sample: Sample) -> None:
    check(sample)
