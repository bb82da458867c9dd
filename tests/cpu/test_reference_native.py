"""The reference's kernels, compiled natively, in the checks that `tests/ir` makes of evaluation."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cpu.support import Kernel
from tests.ir.test_reference_runs import CASES, REFERENCE
from tritium.errors import CompilationError
from tritium.ops.parsing import parse_module
from tritium.passes import PassManager, pipelines

NOT_NATIVE = {
    "indirect_pointers": "uses the evaluator", "inline_asm": "PTX",
    "print_assert": "prints by printf",
}  # fmt: skip


class Native:
    """A kernel of the corpus, compiled; called like the evaluated one."""

    def __init__(self, name: str):
        module = parse_module((REFERENCE / f"{name}.ttir").read_text())
        for op in module.body.block.ops:
            # The checks pass sizes that are not the multiples of 16 that the text promises.
            op.properties.pop("arg_attrs", None)
        self.kernel = Kernel(module)

    def __call__(self, *arguments: Any, grid: tuple[int, ...] = (1,)) -> None:
        fault = self.kernel.run(arguments, grid)
        assert not fault.raised


@pytest.mark.every(2)
@pytest.mark.parametrize("name", sorted(set(CASES) - set(NOT_NATIVE)))
def test_runs_natively(name: str) -> None:
    CASES[name](Native(name))


def test_block_pointers_natively() -> None:
    """The text before the reference turned block pointers into addresses."""
    module = parse_module((REFERENCE / "block_pointers.source.ttir").read_text())
    PassManager(pipelines.ttir()).run(module)
    assert any(op.name == "tt.make_tensor_ptr" for op in module.walk())
    kernel = Kernel(module)
    CASES["block_pointers"](lambda *arguments, grid=(1,): kernel.run(arguments, grid))


def test_assembly_for_another_processor() -> None:
    with pytest.raises(CompilationError, match=r"this is PTX, which a CPU cannot run"):
        Native("inline_asm")
