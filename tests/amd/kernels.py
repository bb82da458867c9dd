"""Small kernels that tests compile for AMD GPUs."""

from __future__ import annotations

from typing import Any

import tritium
import tritium.language as tl
from tritium.backends.amd.compiler import HIPBackend
from tritium.compiler import ASTSource
from tritium.target import GPUTarget

TARGETS = {
    "gfx90a": 64, "gfx942": 64, "gfx950": 64, "gfx1100": 32, "gfx1150": 32, "gfx1200": 32,
    "gfx1201": 32, "gfx1250": 32,
}  # fmt: skip
"""The lanes of a wave by processor."""


@tritium.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    tl.store(out + i, tl.load(x + i, mask=inside) + tl.load(y + i, mask=inside), mask=inside)


@tritium.jit
def softmax(out, x, stride, n, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    inside = column < n
    value = tl.load(x + row * stride + column, mask=inside, other=-float("inf"))
    power = tl.exp(value - tl.max(value, 0))
    tl.store(out + row * stride + column, power / tl.sum(power, 0), mask=inside)


@tritium.jit(noinline=True)
def apart(x, i):
    return tl.sum(x, 0) + i, x * 2


@tritium.jit
def calls(x, out):
    i = tl.arange(0, 256)
    s, d = apart(tl.load(x + i), 3)
    t, e = apart(tl.sin(d), 4)
    tl.store(out + i, e + s + t)


def compiled(fn: Any, signature: str, arch: str = "gfx942", *, constants: Any = None,
             aligned: bool = True, small: bool = False, **options: Any) -> Any:  # fmt: skip
    """A kernel's stages; `signature` are the types of its arguments but the constants. `small`:
    the memory of pointers has less than 2 GiB."""
    constants = constants or {}
    names = [n for n in fn.arg_names if n not in constants]
    kinds = dict(zip(names, signature.split(), strict=True))
    spec = "D" * aligned + "S" * small
    attrs = {(i,): HIPBackend.parse_attr(spec) for i in range(len(kinds) if spec else 0)}
    source = ASTSource(fn, kinds, constants, attrs)
    return tritium.compile(source, target=GPUTarget("hip", arch, TARGETS[arch]), options=options)
