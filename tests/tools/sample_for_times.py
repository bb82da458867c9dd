"""Two kernels, of which one takes longer."""

import numpy as np

import tritium
import tritium.language as tl


@tritium.jit
def once(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)


@tritium.jit
def often(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n)
    for _ in range(200):
        v = tl.sin(v)
    tl.store(x + i, v, mask=i < n)


if __name__ == "__main__":
    x = np.ones(65536, np.float32)
    for _ in range(5):
        once[(64,)](x, 65536, BLOCK=1024)
        often[(64,)](x, 65536, BLOCK=1024)
