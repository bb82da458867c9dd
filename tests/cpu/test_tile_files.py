"""Files of the tile stage that do not fit together are refused before they are compiled."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tritium.backends.compiler import GPUTarget

pytestmark = pytest.mark.cpu


@tritium.jit
def softmax(p, o, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(p + i)
    e = tl.exp(x - tl.max(x, 0))
    tl.store(o + i, e / tl.sum(e, 0))


def without_buffers(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if "tile.buffer @" not in line)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace("tile.nest [256]", "tile.nest [128]"), r"runs over \(256,\)"),
        (lambda text: text.replace(" to @", " to @no."), "to @no."),
        (without_buffers, "no tile.buffer @"),
    ],
)
def test_a_file_that_does_not_fit_together(change, message: str, tmp_path: Path) -> None:
    x = np.ones(256, np.float32)
    text = softmax[(1,)](x, x.copy(), N=256).asm["tile"]
    file = tmp_path / "softmax.tile"
    file.write_text(text)
    target = GPUTarget("cpu", "native", 1)
    assert "obj" in tritium.compile(str(file), target=target).asm
    file.write_text(change(text))
    with pytest.raises(ValueError, match=message):
        tritium.compile(str(file), target=target)
