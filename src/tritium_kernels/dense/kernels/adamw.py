"""One step of Adam or AdamW, of one tensor or of many: parameters and moments are read and written
once."""

from __future__ import annotations

import tritium
import tritium.language as tl
from tritium_kernels.dense.kernels.common import inside, wide


@tritium.jit
def update(
    p_ptr, g_ptr, m_ptr, v_ptr, at, mask, rate, beta1, beta2, eps, decay, correction1,
    correction2, sign, COUPLED: tl.constexpr,
):  # fmt: skip
    """The step of the elements `at`. COUPLED: the decay is part of the gradient, as Adam has it;
    no decay takes nothing from a gradient, whatever the parameter is."""
    p = wide(tl.load(p_ptr + at, mask=mask, other=0.0))
    g = wide(tl.load(g_ptr + at, mask=mask, other=0.0)) * sign
    m = wide(tl.load(m_ptr + at, mask=mask, other=0.0))
    v = wide(tl.load(v_ptr + at, mask=mask, other=0.0))
    if COUPLED:
        g += tl.where(decay != 0, p * decay.to(p.dtype), 0.0)
    m += (g - m) * (1 - beta1).to(p.dtype)
    v += (g * g - v) * (1 - beta2).to(p.dtype)
    if not COUPLED:
        p -= p * decay.to(p.dtype)
    root = tl.sqrt(v) * (1 / correction2).to(p.dtype) + eps.to(p.dtype)
    p -= (rate / correction1).to(p.dtype) * m / root
    tl.store(p_ptr + at, p.to(p_ptr.dtype.element_ty), mask=mask)
    tl.store(m_ptr + at, m.to(m_ptr.dtype.element_ty), mask=mask)
    tl.store(v_ptr + at, v.to(v_ptr.dtype.element_ty), mask=mask)


@tritium.jit
def adamw(
    p_ptr, g_ptr, m_ptr, v_ptr, n, rate: tl.float64, beta1: tl.float64, beta2: tl.float64,
    eps: tl.float64, decay: tl.float64, correction1: tl.float64, correction2: tl.float64, sign,
    COUPLED: tl.constexpr, BLOCK: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    """`correction1`: 1 - beta1**step, `correction2`: sqrt(1 - beta2**step)."""
    start = tl.program_id(0).to(tl.int64) * BLOCK
    at = start + tl.arange(0, BLOCK)
    mask = inside(start, n, BLOCK, EVEN)
    update(
        p_ptr, g_ptr, m_ptr, v_ptr, at, mask, rate, beta1, beta2, eps, decay, correction1,
        correction2, sign, COUPLED,
    )  # fmt: skip


@tritium.jit
def pointer(table_ptr, TYPE: tl.constexpr, ALIGNED: tl.constexpr):
    """A pointer from an address in memory; ALIGNED: a multiple of 16 bytes."""
    address = tl.load(table_ptr)
    if ALIGNED:
        address = tl.multiple_of(address, 16)
    return address.to(tl.pointer_type(TYPE))


@tritium.jit
def adamw_of_many(
    table_ptr, count, rate: tl.float64, beta1: tl.float64, beta2: tl.float64, eps: tl.float64,
    decay: tl.float64, correction1: tl.float64, correction2: tl.float64, sign,
    COUPLED: tl.constexpr, P: tl.constexpr, G: tl.constexpr, M: tl.constexpr, V: tl.constexpr,
    ALIGNED: tl.constexpr, BLOCK: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    """A program's block of one of `count` tensors. The table has the addresses of parameters,
    gradients, first and second moments, the numbers of elements, then for each program the number
    of its tensor and of its first element. P, G, M, V: types of elements."""
    own = table_ptr + 5 * count + 2 * tl.program_id(0)
    of = table_ptr + tl.load(own)
    start = tl.load(own + 1)
    p_ptr = pointer(of, P, ALIGNED)
    g_ptr = pointer(of + count, G, ALIGNED)
    m_ptr = pointer(of + 2 * count, M, ALIGNED)
    v_ptr = pointer(of + 3 * count, V, ALIGNED)
    n = tl.load(of + 4 * count)
    for first in range(start, tl.minimum(start + BLOCK, n), STEP):
        at = first + tl.arange(0, STEP)
        update(
            p_ptr, g_ptr, m_ptr, v_ptr, at, at < n, rate, beta1, beta2, eps, decay, correction1,
            correction2, sign, COUPLED,
        )  # fmt: skip
