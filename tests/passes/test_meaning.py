"""Passes keep the meaning of programs: random functions are evaluated before and after."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, note, settings
from xdsl.dialects.builtin import ModuleOp

from tests.support.random_ir import Sample, modules, run, same_bits
from tritium.ir.printing import print_module
from tritium.passes import PassManager, parse_pipeline, pipelines

SETTINGS = settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

PIPELINES = (
    "canonicalize", "cse", "dce", "inline", "licm", "unroll{factor=2}", "unroll{factor=3}",
    "combine", "canonicalize,reorder-broadcast", "cse,licm,cse", "inline,canonicalize,dce",
)  # fmt: skip


def check(module: ModuleOp, manager: PassManager) -> None:
    before = [run(module, n) for n in (0, 3)]
    manager.run(module)
    note(print_module(module, locations=False))
    after = [run(module, n) for n in (0, 3)]
    for left, right in zip(before, after, strict=True):
        assert same_bits(left, right), (left, right)


@pytest.mark.parametrize("text", PIPELINES)
@settings(SETTINGS, max_examples=12)
@given(sample=modules())
def test_pass_keeps_meaning(text: str, sample: Sample) -> None:
    check(sample.module, PassManager(parse_pipeline(text), verify_each=True))


@settings(SETTINGS, max_examples=20)
@given(sample=modules(statements=20))
def test_standard_pipeline_keeps_meaning(sample: Sample) -> None:
    check(sample.module, PassManager(pipelines.ttir(), verify_each=True))


@settings(SETTINGS, max_examples=15)
@given(sample=modules())
def test_standard_pipeline_reaches_a_fixpoint(sample: Sample) -> None:
    module = sample.module
    PassManager(pipelines.ttir()).run(module)
    once = print_module(module, locations=False)
    PassManager(pipelines.ttir()).run(module)
    assert print_module(module, locations=False) == once


@pytest.mark.slow
@settings(SETTINGS, max_examples=2000)
@given(sample=modules(statements=30))
def test_standard_pipeline_keeps_meaning_at_length(sample: Sample) -> None:
    check(sample.module, PassManager(pipelines.ttir(), verify_each=True))
