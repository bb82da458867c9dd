"""Properties of a compiled kernel on the CPU."""

import numpy as np
import pytest

import tritium
import tritium.language as tl

pytestmark = pytest.mark.cpu


@tritium.jit
def double(x, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, i < n) * 2, i < n)


def test_every_stage_and_the_assembly():
    x = np.ones(16, np.float32)
    kernel = double[(1,)](x, 10, BLOCK=16)
    assert x.tolist() == [2] * 10 + [1] * 6
    assert list(kernel.asm) == ["source", "ttir", "tile", "llir", "obj"]
    assert isinstance(kernel.asm["obj"], bytes)
    assert "ret" in kernel.asm["asm"] and "double:" in kernel.asm["asm"]
    assert "sass" not in kernel.asm
