"""The passes to ttgir keep the meaning of programs: the kernels of the reference's corpus are
run after them by the reference semantics, which catches missing waits of asynchronous work too."""

from __future__ import annotations

from typing import Any

import pytest

from tests.ir.test_reference_runs import CASES, REFERENCE, Kernel
from tritium.backends.nvidia.processor import processor
from tritium.passes import PassManager, pipelines


def lowered(
    name: str, capability: int, num_warps: int, num_stages: int, num_ctas: int = 1
) -> Any:
    """The kernel of the corpus, brought to ttgir."""
    kernel = Kernel(REFERENCE / f"{name}.source.ttir")
    target = processor(capability)
    passes = [*pipelines.ttir(), *pipelines.ttgir(target, num_warps, num_stages, num_ctas)]
    PassManager(passes, verify_each=True).run(kernel.module)
    kernel.module.verify()
    return kernel


@pytest.mark.every(2)
@pytest.mark.covering(1)
@pytest.mark.parametrize(
    "capability,num_warps,num_stages,num_ctas",
    [(90, 4, 3, 1), (80, 8, 2, 1), (90, 1, 1, 1), (90, 4, 3, 2), (100, 4, 2, 8), (100, 4, 3, 1),
     (103, 8, 2, 1)],
)
@pytest.mark.parametrize("name", sorted(CASES))
def test_ttgir_runs_on_arrays(
    name: str, capability: int, num_warps: int, num_stages: int, num_ctas: int
) -> None:
    CASES[name](lowered(name, capability, num_warps, num_stages, num_ctas))
