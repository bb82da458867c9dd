"""The reference's kernels, compiled natively, in the checks that `tests/ir` makes of evaluation."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cpu.support import Kernel
from tests.ir.test_reference_runs import CASES, REFERENCE

NOT_NATIVE = {
    "indirect_pointers": "uses the evaluator", "inline_asm": "PTX", "library": "libdevice",
    "print_assert": "prints by printf",
}  # fmt: skip


class Native:
    """A kernel of the corpus, compiled; called like the evaluated one."""

    def __init__(self, name: str):
        text = (REFERENCE / f"{name}.ttir").read_text()
        self.kernel = Kernel(text)

    def __call__(self, *arguments: Any, grid: tuple[int, ...] = (1,)) -> None:
        fault = self.kernel.run(arguments, grid)
        assert not fault.raised


@pytest.mark.parametrize("name", sorted(set(CASES) - set(NOT_NATIVE)))
def test_runs_natively(name: str) -> None:
    CASES[name](Native(name))
