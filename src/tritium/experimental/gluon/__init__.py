"""Gluon: kernels in which the program chooses layouts, shared memory and asynchronous copies.

    from tritium.experimental import gluon
    from tritium.experimental.gluon import language as gl

    @gluon.jit
    def copy(src, out, n, BLOCK: gl.constexpr):
        layout: gl.constexpr = gl.BlockedLayout([4], [32], [4], [0])
        i = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, layout)
        gl.store(out + i, gl.load(src + i, i < n), i < n)

`docs/gluon.md` is the guide.
"""

from __future__ import annotations

from tritium.experimental.gluon import amd as amd
from tritium.experimental.gluon import nvidia as nvidia
from tritium.experimental.gluon._runtime import (
    GluonASTSource,
    GluonJITFunction,
    constexpr_function,
    jit,
)
from tritium.language.core import must_use_result
from tritium.language.values.aggregate import aggregate

__all__ = [
    "GluonASTSource", "GluonJITFunction", "aggregate", "amd", "constexpr_function", "jit",
    "must_use_result", "nvidia",
]  # fmt: skip
