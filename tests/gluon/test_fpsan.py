"""`gl.fpsan`: the integers that stand for floats, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.gluon.support import launcher
from tritium.errors import TritonError
from tritium.experimental import gluon
from tritium.experimental.gluon import language as gl
from tritium.ir import types as ir
from tritium.sanitize.exact.ring import ring_of


@gluon.jit
def numbers(x, out, back, N: gl.constexpr):
    i = gl.arange(0, N, gl.BlockedLayout([1], [32], [4], [0]))
    number = gl.fpsan.embed(gl.load(x + i))
    gl.store(out + i, number)
    gl.store(back + i, gl.fpsan.unembed(number, gl.float16))


@gluon.jit
def wrong(x, N: gl.constexpr):
    i = gl.arange(0, N, gl.BlockedLayout([1], [32], [4], [0]))
    gl.store(x + i, gl.fpsan.unembed(gl.load(x + i), gl.float32))


@pytest.mark.parametrize("how", ["interpreted", "simt"])
def test_numbers_of_floats_and_back(how: str) -> None:
    bits = np.random.default_rng(0).integers(0, 1 << 16, 256).astype(np.uint16)
    x, ring = bits.view(np.float16), ring_of(ir.f16)
    out, back = np.zeros(256, np.int16), np.zeros(256, np.float16)
    launcher(how)(numbers, (1,), x, out, back, N=256)
    assert out.view(np.uint16).tolist() == [ring.embed(int(b)) for b in bits]
    assert np.array_equal(back.view(np.uint16), bits)


@pytest.mark.parametrize("how", ["interpreted", "simt"])
def test_widths_must_be_the_same(how: str) -> None:
    launch: Any = launcher(how)
    with pytest.raises(TritonError, match=r"fpsan\.unembed: input is int16; integers of 32 bits"):
        launch(wrong, (1,), np.zeros(256, np.int16), N=256)
