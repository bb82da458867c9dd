"""Products of several shapes in a kernel for AMX, whose registers have one shape in a function."""

from __future__ import annotations

import subprocess
import sys

import tritium
import tritium.language as tl
from tritium.backends.compiler import GPUTarget
from tritium.compiler import ASTSource


@tritium.jit
def chained(a, b, d, o, n, stride, M: tl.constexpr, K: tl.constexpr, N: tl.constexpr,
            L: tl.constexpr):  # fmt: skip
    i, k, j, l = tl.arange(0, M), tl.arange(0, K), tl.arange(0, N), tl.arange(0, L)
    acc = tl.zeros((M, L), tl.float32)
    x = tl.load(a + i[:, None] * stride + k[None, :])
    for s in range(n):
        y = tl.load(b + (s * N + j)[None, :] * stride + k[:, None])
        w = tl.load(d + (s * N + j)[:, None] * stride + l[None, :])
        acc = tl.dot(tl.dot(x, y).to(w.dtype), w, acc)
    tl.store(o + i[:, None] * L + l[None, :], acc)


SHAPES = {
    (64, 64, 64, 64): True, (128, 16, 32, 64): True, (16, 128, 16, 64): True,
    (8, 32, 64, 32): False, (64, 128, 8, 16): False,
}  # fmt: skip
"""M, K, N and L, and whether one of the products fills whole registers."""


def compiled(m: int, k: int, n: int, length: int) -> str:
    """The LLVM IR for a processor with AMX."""
    signature = dict.fromkeys("abd", "*bf16") | {"o": "*fp32", "n": "i32", "stride": "i32"}
    sizes = dict(zip("MKNL", (m, k, n, length), strict=True))
    source = ASTSource(chained, signature | dict.fromkeys("MKNL", "constexpr"), sizes)
    return tritium.compile(source, target=GPUTarget("cpu", "emeraldrapids", 1)).asm["llir"]


def test_products_of_several_shapes_fit() -> None:
    # In a process of its own: LLVM ends the process where registers do not suffice.
    program = (
        f"from {__name__} import SHAPES, compiled\n"
        "for shape in SHAPES: print(compiled(*shape).count('x86.tdpbf16ps') > 0, flush=True)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(used) for used in SHAPES.values()]
