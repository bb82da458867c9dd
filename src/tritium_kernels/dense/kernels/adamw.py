"""One step of AdamW: parameter and moments are read and written once."""

from __future__ import annotations

import tritium
import tritium.language as tl
from tritium_kernels.dense.kernels.common import inside, wide


@tritium.jit
def adamw(
    p_ptr, g_ptr, m_ptr, v_ptr, n, rate: tl.float64, beta1: tl.float64, beta2: tl.float64,
    eps: tl.float64, decay: tl.float64, correction1: tl.float64, correction2: tl.float64, sign,
    BLOCK: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    """`correction1`: 1 - beta1**step, `correction2`: sqrt(1 - beta2**step)."""
    start = tl.program_id(0).to(tl.int64) * BLOCK
    at = start + tl.arange(0, BLOCK)
    mask = inside(start, n, BLOCK, EVEN)
    p = wide(tl.load(p_ptr + at, mask=mask, other=0.0))
    g = wide(tl.load(g_ptr + at, mask=mask, other=0.0)) * sign
    m = wide(tl.load(m_ptr + at, mask=mask, other=0.0))
    v = wide(tl.load(v_ptr + at, mask=mask, other=0.0))
    m += (g - m) * (1 - beta1).to(p.dtype)
    v += (g * g - v) * (1 - beta2).to(p.dtype)
    p -= p * decay.to(p.dtype)
    root = tl.sqrt(v) / correction2.to(p.dtype) + eps.to(p.dtype)
    p -= (rate / correction1).to(p.dtype) * m / root
    tl.store(p_ptr + at, p.to(p_ptr.dtype.element_ty), mask=mask)
    tl.store(m_ptr + at, m.to(m_ptr.dtype.element_ty), mask=mask)
    tl.store(v_ptr + at, v.to(v_ptr.dtype.element_ty), mask=mask)
