"""Printing and assertions in LLVM IR for GPUs."""

from __future__ import annotations

import pytest

import tritium
import tritium.language as tl
from tests.nvidia.support import compiled

pytestmark = pytest.mark.usefixtures("no_ptxas")


@tritium.jit
def says(x):
    i = tl.arange(0, 4)
    v = tl.load(x + i)
    tl.device_print("100% value", v)
    tl.device_assert(v > 0, 'not "positive"')


def test_printing_and_assertions():
    ir = compiled(says, "*fp32", debug=True).asm["llir"]
    assert 'idx (%1u) 100%% value: %f\\0A\\00"' in ir
    assert 'not \\22positive\\22\\00"' in ir and "@__assertfail" in ir
    assert "@__assertfail" not in compiled(says, "*fp32").asm["llir"]
