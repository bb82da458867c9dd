"""The reference's kernels, as its frontend writes them, mean the same after our passes."""

from __future__ import annotations

import pytest

from tests.ir.test_reference_runs import CASES, REFERENCE, Kernel
from tritium.ops.parsing import parse_module
from tritium.passes import PassManager, parse_pipeline, pipelines

PIPELINES = {
    "ttir": pipelines.ttir(),
    "structured": parse_pipeline("inline,structure,canonicalize,cse,licm,dce"),
    "unrolled": parse_pipeline("inline,canonicalize,unroll{factor=3},canonicalize,cse"),
}


@pytest.mark.covering(1)
@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize("name", sorted(CASES))
def test_kernels_still_compute_the_same(name: str, pipeline: str) -> None:
    kernel = Kernel(REFERENCE / f"{name}.source.ttir")
    PassManager(PIPELINES[pipeline], verify_each=True).run(kernel.module)
    CASES[name](kernel)


@pytest.mark.every(2)
@pytest.mark.parametrize("name", sorted(CASES))
def test_no_more_ops_than_the_reference_leaves(name: str) -> None:
    ours = parse_module((REFERENCE / f"{name}.source.ttir").read_text())
    theirs = parse_module((REFERENCE / f"{name}.ttir").read_text())
    PassManager(pipelines.ttir()).run(ours)
    counts = [sum(1 for _ in module.walk()) for module in (ours, theirs)]
    assert counts[0] <= counts[1] * 1.1 + 4, counts
