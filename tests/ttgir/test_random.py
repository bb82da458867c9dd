"""Random functions compute the same after the passes to ttgir."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, note, settings

from tests.support.random_ir import Sample, modules, run, same_bits
from tritium.backends.nvidia.processor import processor
from tritium.ir.printing import print_module
from tritium.passes import PassManager, pipelines


@pytest.mark.every(2)
@pytest.mark.parametrize("num_warps,num_ctas", [(1, 1), (4, 1), (2, 4)])
@settings(
    max_examples=14, deadline=None, derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)  # fmt: skip
@given(sample=modules())
def test_pipeline_keeps_meaning(num_warps: int, num_ctas: int, sample: Sample) -> None:
    before = [run(sample.module, n) for n in (0, 3)]
    passes = [*pipelines.ttir(), *pipelines.ttgir(processor(90), num_warps, 3, num_ctas)]
    PassManager(passes, verify_each=True).run(sample.module)
    note(print_module(sample.module, locations=False))
    after = [run(sample.module, n) for n in (0, 3)]
    for left, right in zip(before, after, strict=True):
        assert same_bits(left, right), (left, right)
