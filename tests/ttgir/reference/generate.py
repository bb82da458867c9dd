"""Regenerates the `.ttir` and `.ttgir` files beside this script with the reference compiler.

    python generate.py        (in an environment where `import triton` is Triton 3.6)

No GPU is needed. The directories of source locations are removed, and this file is called
`kernels.py` in them.
"""

from __future__ import annotations

import re
from pathlib import Path

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

HERE = Path(__file__).parent
ALIGNED = [["tt.divisibility", 16]]


@triton.jit
def add(x_ptr, y_ptr, o_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    m = offs < n
    x, y = tl.load(x_ptr + offs, mask=m), tl.load(y_ptr + offs, mask=m)
    tl.store(o_ptr + offs, x + y, mask=m)


@triton.jit
def softmax(o_ptr, x_ptr, xs, os, nr, nc, BLOCK: tl.constexpr):
    r0 = tl.program_id(0)
    st = tl.num_programs(0)
    for r in tl.range(r0, nr, st, num_stages=2):
        c = tl.arange(0, BLOCK)
        m = c < nc
        x = tl.load(x_ptr + r * xs + c, mask=m, other=-float("inf"))
        x = x - tl.max(x, 0)
        e = tl.exp(x)
        tl.store(o_ptr + r * os + c, e / tl.sum(e, 0), mask=m)


@triton.jit
def mm(
    a_ptr, b_ptr, c_ptr, M, N, K, sam, sbk, scm, BM: tl.constexpr, BN: tl.constexpr,
    BK: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    nn = tl.cdiv(N, BN)
    pm = pid // nn
    pn = pid % nn
    om = (pm * BM + tl.arange(0, BM)) % M
    on = (pn * BN + tl.arange(0, BN)) % N
    ok = tl.arange(0, BK)
    ap = a_ptr + om[:, None] * sam + ok[None, :]
    bp = b_ptr + ok[:, None] * sbk + on[None, :]
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        a = tl.load(ap, mask=ok[None, :] < K - k * BK, other=0.0)
        b = tl.load(bp, mask=ok[:, None] < K - k * BK, other=0.0)
        acc = tl.dot(a, b, acc)
        ap += BK
        bp += BK * sbk
    rm = pm * BM + tl.arange(0, BM)
    rn = pn * BN + tl.arange(0, BN)
    cp = c_ptr + scm * rm[:, None] + rn[None, :]
    tl.store(cp, acc.to(tl.float16), mask=(rm[:, None] < M) & (rn[None, :] < N))


@triton.jit
def mmdesc(
    a_desc, b_desc, c_desc, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    pid = tl.program_id(0)
    nn = tl.cdiv(N, BN)
    pm = pid // nn
    pn = pid % nn
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        a = a_desc.load([pm * BM, k * BK])
        b = b_desc.load([pn * BN, k * BK])
        acc = tl.dot(a, b.T, acc)
    c_desc.store([pm * BM, pn * BN], acc.to(tl.float16))


def write(kernel, arch: int, pointers: str, numbers: str, constants: dict, **options) -> None:
    """Compile a kernel whose arguments are `pointers` ("x_ptr:*fp32 ...") and `numbers` (i32)."""
    signature = dict(p.split(":", 1) for p in pointers.split())
    signature.update(dict.fromkeys(numbers.split(), "i32"))
    aligned = {} if kernel is mmdesc else {(i,): ALIGNED for i in range(len(signature))}
    if kernel is softmax:
        del aligned[(5,)]
    signature = {k: v.replace("_", " ") for k, v in signature.items()}
    source = ASTSource(
        kernel, signature | dict.fromkeys(constants, "constexpr"), constants, aligned
    )
    compiled = triton.compile(source, target=GPUTarget("cuda", arch, 32), options=options)
    for stage in ("ttir", "ttgir"):
        if stage == "ttir" and arch != 90:
            continue
        text = re.sub(r'loc\("[^"]*/generate\.py"', 'loc("kernels.py"', compiled.asm[stage])
        text = re.sub(r'loc\("[^"]*/site-packages/', 'loc("', text)
        (HERE / f"{kernel.__name__}_{arch}.{stage}").write_text(text)


if __name__ == "__main__":
    tiles = {"BM": 128, "BN": 128, "BK": 64}
    for arch in (80, 90):
        write(add, arch, "x_ptr:*fp32 y_ptr:*fp32 o_ptr:*fp32", "n", {"BLOCK": 1024})
        write(softmax, arch, "o_ptr:*fp32 x_ptr:*fp32", "xs os nr nc", {"BLOCK": 1024})
        write(mm, arch, "a_ptr:*fp16 b_ptr:*fp16 c_ptr:*fp16", "M N K sam sbk scm", tiles,
              num_warps=4 if arch == 80 else 8)  # fmt: skip
    write(
        mmdesc, 90,
        "a_desc:tensordesc<fp16[128,_64]> b_desc:tensordesc<fp16[128,_64]> "
        "c_desc:tensordesc<fp16[128,_128]>", "M N K", tiles, num_warps=8,
    )  # fmt: skip
