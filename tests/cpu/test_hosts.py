"""Code for processors with narrower vectors than this one's, which this one runs as well."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.cpu.support import Kernel
from tests.ir.test_reference_runs import CASES, REFERENCE
from tritium.native.host import CPU, host
from tritium.ops.parsing import parse_module

NARROW = {
    "256 bits": {"sse2", "avx", "avx2", "fma", "f16c"},
    "128 bits": {"sse2"},
}
NAMES = ("softmax", "matmul", "reductions", "scans", "casts", "attention", "random_numbers")
LONG = ("matmul", "attention", "softmax", "casts")
"""Kernels whose vectors may be longer than a register."""


def machine(features: set[str]) -> CPU:
    known = tuple(f for f in host().features if f in features)
    return replace(host(), features=known)


@pytest.mark.covering(1)
@pytest.mark.parametrize("features", NARROW.values(), ids=list(NARROW))
@pytest.mark.parametrize("name", NAMES)
def test_narrow_vectors(name: str, features: set[str]) -> None:
    module = parse_module((REFERENCE / f"{name}.ttir").read_text())
    for op in module.body.block.ops:
        op.properties.pop("arg_attrs", None)
    kernel = Kernel(module, machine=machine(features))

    def call(*arguments: Any, grid: tuple[int, ...] = (1,)) -> None:
        kernel.run(arguments, grid)

    CASES[name](call)
    assert "avx512" not in kernel.llir
    assert "<16 x float>" not in kernel.llir or name in LONG
    assert np.all(kernel.facts["scratch_bytes"] >= 0)
