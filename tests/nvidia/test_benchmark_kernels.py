"""The kernels of the benchmarks compile for the GPUs that they are measured on, without spills."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.gpu_sources import CASES, compiled

pytestmark = pytest.mark.ptxas


@pytest.mark.every(3)
@pytest.mark.parametrize("name", list(CASES))
def test_no_spills_and_no_serialized_products(name: str, fresh_cache: Path, recwarn) -> None:
    kernel = compiled(name)
    assert kernel.metadata.n_spills == 0 and kernel.metadata.n_regs > 0
    assert not [w for w in recwarn if "C75" in str(w.message)]
    products = {"matmul": 1, "attention": 2}.get(name.split()[0], 0)
    assert ("wgmma.mma_async" in kernel.asm["ptx"]) == (products > 0)


def test_addresses_within_a_copy_are_not_computed(fresh_cache: Path) -> None:
    """A thread copies 4 and 8 pieces of 16 bytes a turn, and has as many pointers (besides the
    accumulator) in the loop, not one for each element."""
    text = compiled("matmul 128x256x64").asm["llir"]
    phis = re.findall(r"= phi ptr addrspace\(1\)", text)
    assert 12 <= len(phis) <= 24  # in the loop, and (dead) after it


def test_masks_are_computed_once_for_equal_elements(fresh_cache: Path) -> None:
    """`at < columns` for columns divisible by 16: 2 runs of 8 elements a thread, 2 comparisons."""
    text = compiled("layer norm, rows").asm["llir"]
    assert len(re.findall(r"= icmp slt i32 ", text)) <= 2
