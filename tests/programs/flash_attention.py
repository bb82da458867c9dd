"""Attention with an online softmax: bias, causal masks, windows, sinks; forward and backward."""
# ruff: noqa: E501  (lines as long as such programs have them)

import math

import torch
import triton
import triton.language as tl


@triton.heuristics({
    "EVEN_M": lambda args: args["seqlen_q"] % args["BLOCK_M"] == 0,
    "EVEN_N": lambda args: args["seqlen_k"] % args["BLOCK_N"] == 0,
    "EVEN_D": lambda args: args["headdim"] == args["BLOCK_D"],
})  # fmt: skip
@triton.jit
def _fwd_kernel(
    Q, K, V, Bias, Out, Lse, softmax_scale,
    stride_qb, stride_qh, stride_qm, stride_kb, stride_kh, stride_kn,
    stride_vb, stride_vh, stride_vn, stride_bb, stride_bh, stride_bm,
    stride_ob, stride_oh, stride_om,
    nheads, seqlen_q, seqlen_k, headdim,
    BIAS_TYPE: tl.constexpr, IS_CAUSAL: tl.constexpr, BLOCK_D: tl.constexpr,
    EVEN_M: tl.constexpr, EVEN_N: tl.constexpr, EVEN_D: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    start_m = tl.program_id(0)
    off_b = tl.program_id(1) // nheads
    off_h = tl.program_id(1) % nheads
    offs_m = start_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.arange(0, BLOCK_N)
    offs_d = tl.arange(0, BLOCK_D)
    q_ptrs = Q + off_b * stride_qb + off_h * stride_qh + (offs_m[:, None] * stride_qm + offs_d[None, :])
    k_ptrs = K + off_b * stride_kb + off_h * stride_kh + (offs_n[:, None] * stride_kn + offs_d[None, :])
    v_ptrs = V + off_b * stride_vb + off_h * stride_vh + (offs_n[:, None] * stride_vn + offs_d[None, :])
    if BIAS_TYPE == "vector":
        b_ptrs = Bias + off_b * stride_bb + off_h * stride_bh + offs_n
    elif BIAS_TYPE == "matrix":
        b_ptrs = Bias + off_b * stride_bb + off_h * stride_bh + (offs_m[:, None] * stride_bm + offs_n[None, :])

    lse_i = tl.zeros([BLOCK_M], dtype=tl.float32) - float("inf")
    m_i = tl.zeros([BLOCK_M], dtype=tl.float32) - float("inf")
    acc_o = tl.zeros([BLOCK_M, BLOCK_D], dtype=tl.float32)
    if EVEN_M & EVEN_D:
        q = tl.load(q_ptrs)
    elif EVEN_D:
        q = tl.load(q_ptrs, mask=offs_m[:, None] < seqlen_q, other=0.0)
    else:
        q = tl.load(q_ptrs, mask=(offs_m[:, None] < seqlen_q) & (offs_d[None, :] < headdim), other=0.0)

    end_n = seqlen_k if not IS_CAUSAL else tl.minimum((start_m + 1) * BLOCK_M, seqlen_k)
    for start_n in range(0, end_n, BLOCK_N):
        start_n = tl.multiple_of(start_n, BLOCK_N)
        if EVEN_N & EVEN_D:
            k = tl.load(k_ptrs + start_n * stride_kn)
        else:
            k = tl.load(
                k_ptrs + start_n * stride_kn,
                mask=((start_n + offs_n)[:, None] < seqlen_k) & (offs_d[None, :] < headdim),
                other=0.0,
            )
        qk = tl.zeros([BLOCK_M, BLOCK_N], dtype=tl.float32)
        qk += tl.dot(q, tl.trans(k), input_precision="ieee")
        if not EVEN_N:
            qk += tl.where((start_n + offs_n)[None, :] < seqlen_k, 0, float("-inf"))
        if IS_CAUSAL:
            qk += tl.where(offs_m[:, None] >= (start_n + offs_n)[None, :], 0, float("-inf"))
        if BIAS_TYPE != "none":
            if BIAS_TYPE == "vector":
                bias = tl.load(b_ptrs + start_n, mask=(start_n + offs_n) < seqlen_k, other=0.0)
                bias = bias.to(tl.float32)[None, :]
            elif BIAS_TYPE == "matrix":
                bias = tl.load(
                    b_ptrs + start_n,
                    mask=(offs_m[:, None] < seqlen_q) & ((start_n + offs_n)[None, :] < seqlen_k),
                    other=0.0,
                ).to(tl.float32)
            qk = qk * softmax_scale + bias
            m_ij = tl.maximum(tl.max(qk, 1), lse_i)
            p = tl.exp(qk - m_ij[:, None])
        else:
            m_ij = tl.maximum(tl.max(qk, 1) * softmax_scale, lse_i)
            p = tl.exp(qk * softmax_scale - m_ij[:, None])
        l_ij = tl.sum(p, 1)
        acc_o_scale = tl.exp(m_i - m_ij)
        acc_o = acc_o * acc_o_scale[:, None]
        if EVEN_N & EVEN_D:
            v = tl.load(v_ptrs + start_n * stride_vn)
        else:
            v = tl.load(
                v_ptrs + start_n * stride_vn,
                mask=((start_n + offs_n)[:, None] < seqlen_k) & (offs_d[None, :] < headdim),
                other=0.0,
            )
        p = p.to(v.dtype)
        acc_o += tl.dot(p, v, input_precision="ieee")
        m_i = m_ij
        l_i_new = tl.exp(lse_i - m_ij) + l_ij
        lse_i = m_ij + tl.log(l_i_new)

    o_scale = tl.exp(m_i - lse_i)
    acc_o = acc_o * o_scale[:, None]
    rounded = tl.cdiv(seqlen_q, BLOCK_M) * BLOCK_M
    tl.store(Lse + tl.program_id(1) * rounded + offs_m, lse_i)
    out_ptrs = Out + off_b * stride_ob + off_h * stride_oh + (offs_m[:, None] * stride_om + offs_d[None, :])
    tl.store(out_ptrs, acc_o, mask=(offs_m[:, None] < seqlen_q) & (offs_d[None, :] < headdim))


@triton.jit
def _bwd_one_column_block(
    start_n, Q, K, V, DO, DQ, DK, DV, Lse, Delta, softmax_scale, stride, seqlen_q, seqlen_k,
    headdim, ATOMIC_ADD: tl.constexpr, IS_CAUSAL: tl.constexpr, BLOCK_D: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    begin_m = 0 if not IS_CAUSAL else ((start_n * BLOCK_N) // BLOCK_M) * BLOCK_M
    offs_n = start_n * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_m0 = tl.arange(0, BLOCK_M)
    offs_d = tl.arange(0, BLOCK_D)
    n_mask = (offs_n[:, None] < seqlen_k) & (offs_d[None, :] < headdim)
    dv = tl.zeros([BLOCK_N, BLOCK_D], dtype=tl.float32)
    dk = tl.zeros([BLOCK_N, BLOCK_D], dtype=tl.float32)
    if begin_m >= seqlen_q:
        tl.store(DV + offs_n[:, None] * stride + offs_d[None, :], dv, mask=n_mask)
        tl.store(DK + offs_n[:, None] * stride + offs_d[None, :], dk, mask=n_mask)
        return
    k = tl.load(K + offs_n[:, None] * stride + offs_d[None, :], mask=n_mask, other=0.0)
    v = tl.load(V + offs_n[:, None] * stride + offs_d[None, :], mask=n_mask, other=0.0)
    for start_m in range(begin_m, tl.cdiv(seqlen_q, BLOCK_M) * BLOCK_M, BLOCK_M):
        start_m = tl.multiple_of(start_m, BLOCK_M)
        offs_m = start_m + offs_m0
        m_mask = (offs_m[:, None] < seqlen_q) & (offs_d[None, :] < headdim)
        at = offs_m[:, None] * stride + offs_d[None, :]
        q = tl.load(Q + at, mask=m_mask, other=0.0)
        qk = tl.dot(q, tl.trans(k), input_precision="ieee")
        qk = tl.where(offs_n[None, :] < seqlen_k, qk, float("-inf"))
        if IS_CAUSAL:
            qk = tl.where(offs_m[:, None] >= (offs_n[None, :]), qk, float("-inf"))
        lse = tl.load(Lse + offs_m)
        p = tl.exp(qk * softmax_scale - lse[:, None])
        do = tl.load(DO + at, mask=m_mask, other=0.0)
        dv += tl.dot(tl.trans(p.to(do.dtype)), do, input_precision="ieee")
        dp = tl.dot(do, tl.trans(v), input_precision="ieee")
        delta = tl.load(Delta + offs_m)
        ds = (p * (dp - delta[:, None]) * softmax_scale).to(q.dtype)
        dk += tl.dot(tl.trans(ds), q, input_precision="ieee")
        if not ATOMIC_ADD:
            dq = tl.load(DQ + at, mask=m_mask, other=0.0, eviction_policy="evict_last")
            dq += tl.dot(ds, k, input_precision="ieee")
            tl.store(DQ + at, dq, mask=m_mask, eviction_policy="evict_last")
        else:
            dq = tl.dot(ds, k, input_precision="ieee")
            tl.atomic_add(DQ + at, dq, mask=m_mask)
    tl.store(DV + offs_n[:, None] * stride + offs_d[None, :], dv, mask=n_mask)
    tl.store(DK + offs_n[:, None] * stride + offs_d[None, :], dk, mask=n_mask)


def _zero_dq(nargs):
    nargs["DQ"].zero_()


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 32, "BLOCK_N": 32, "SEQUENCE_PARALLEL": False}, num_warps=4, num_stages=1, pre_hook=_zero_dq),
        triton.Config({"BLOCK_M": 32, "BLOCK_N": 16, "SEQUENCE_PARALLEL": True}, num_warps=4, num_stages=1, pre_hook=_zero_dq),
    ],
    key=["CACHE_KEY_SEQLEN_Q", "CACHE_KEY_SEQLEN_K", "IS_CAUSAL", "BLOCK_D"],
)
@triton.jit
def _bwd_kernel(
    Q, K, V, DO, DQ, DK, DV, Lse, Delta, softmax_scale, stride_h, stride, seqlen_q, seqlen_k,
    rounded, headdim, CACHE_KEY_SEQLEN_Q, CACHE_KEY_SEQLEN_K,
    IS_CAUSAL: tl.constexpr, BLOCK_D: tl.constexpr, SEQUENCE_PARALLEL: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1)
    Q += head * stride_h
    K += head * stride_h
    V += head * stride_h
    DO += head * stride_h
    DQ += head * stride_h
    DK += head * stride_h
    DV += head * stride_h
    Delta += head * rounded
    Lse += head * rounded
    if not SEQUENCE_PARALLEL:
        num_block_n = tl.cdiv(seqlen_k, BLOCK_N)
        for start_n in range(0, num_block_n):
            _bwd_one_column_block(
                start_n, Q, K, V, DO, DQ, DK, DV, Lse, Delta, softmax_scale, stride, seqlen_q,
                seqlen_k, headdim, ATOMIC_ADD=False, IS_CAUSAL=IS_CAUSAL, BLOCK_D=BLOCK_D,
                BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N,
            )  # fmt: skip
    else:
        start_n = tl.program_id(0)
        _bwd_one_column_block(
            start_n, Q, K, V, DO, DQ, DK, DV, Lse, Delta, softmax_scale, stride, seqlen_q,
            seqlen_k, headdim, ATOMIC_ADD=True, IS_CAUSAL=IS_CAUSAL, BLOCK_D=BLOCK_D,
            BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N,
        )  # fmt: skip


class FlashAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, bias=None, causal=False):
        batch, heads, seqlen_q, d = q.shape
        seqlen_k = k.shape[2]
        scale = 1.0 / math.sqrt(d)
        block = 32
        rounded = math.ceil(seqlen_q / block) * block
        lse = torch.empty(batch, heads, rounded, device=q.device)
        o = torch.empty_like(q)
        kind = "none" if bias is None else "vector" if bias.shape[2] == 1 else "matrix"
        strides = (0, 0, 0) if bias is None else bias.stride()[:3]
        _fwd_kernel[lambda META: (triton.cdiv(seqlen_q, META["BLOCK_M"]), batch * heads)](
            q, k, v, bias, o, lse, scale, *q.stride()[:3], *k.stride()[:3], *v.stride()[:3],
            *strides, *o.stride()[:3], heads, seqlen_q, seqlen_k, d,
            kind, causal, max(triton.next_power_of_2(d), 16), BLOCK_M=block, BLOCK_N=block,
            num_warps=4, num_stages=1,
        )  # fmt: skip
        ctx.save_for_backward(q, k, v, o, lse)
        ctx.causal, ctx.scale, ctx.rounded = causal, scale, rounded
        return o

    @staticmethod
    def backward(ctx, do):
        q, k, v, o, lse = ctx.saved_tensors
        batch, heads, seqlen_q, d = q.shape
        seqlen_k = k.shape[2]
        delta = torch.zeros_like(lse)
        delta[:, :, :seqlen_q] = (o.float() * do.float()).sum(-1)
        lse[:, :, seqlen_q:] = float("inf")
        dq = torch.zeros(q.shape, device=q.device)
        dk, dv = torch.empty_like(k), torch.empty_like(v)
        grid = lambda META: (  # noqa: E731
            triton.cdiv(seqlen_k, META["BLOCK_N"]) if META["SEQUENCE_PARALLEL"] else 1,
            batch * heads,
        )
        assert seqlen_q == seqlen_k
        _bwd_kernel[grid](
            q, k, v, do.contiguous(), dq, dk, dv, lse, delta, ctx.scale, q.stride(1), q.stride(2),
            seqlen_q, seqlen_k, ctx.rounded, d, seqlen_q // 32, seqlen_k // 32,
            IS_CAUSAL=ctx.causal, BLOCK_D=max(triton.next_power_of_2(d), 16),
        )  # fmt: skip
        return dq.to(q.dtype), dk, dv, None, None


def check_flash_attention(device):
    torch.manual_seed(0)
    for dtype, n, d, causal, tol in (
        (torch.float32, 64, 32, True, 1e-5),
        (torch.float32, 77, 24, True, 1e-5),
        (torch.float16, 77, 32, False, 4e-3),
        (torch.bfloat16, 64, 16, True, 3e-2),
    ):
        q, k, v, do = torch.randn(4, 2, 2, n, d, device=device, dtype=dtype)
        for t in (q, k, v):
            t.requires_grad_()
        o = FlashAttention.apply(q, k, v, None, causal)
        got = (o, *torch.autograd.grad(o, (q, k, v), do))
        qd, kd, vd = (t.detach().double().requires_grad_() for t in (q, k, v))
        want = torch.nn.functional.scaled_dot_product_attention(qd, kd, vd, is_causal=causal)
        wants = (want, *torch.autograd.grad(want, (qd, kd, vd), do.double()))
        for g, w in zip(got, wants):  # noqa: B905
            torch.testing.assert_close(g.double(), w, atol=tol * 3, rtol=tol)


def check_bias(device):
    torch.manual_seed(0)
    q = torch.randn(2, 3, 40, 16, device=device)
    k, v = torch.randn(2, 2, 3, 50, 16, device=device)
    for shape in ((2, 3, 1, 50), (2, 3, 40, 50)):
        bias = torch.randn(shape, device=device)
        o = FlashAttention.apply(q, k, v, bias, False)
        want = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        torch.testing.assert_close(o, want, atol=1e-5, rtol=1e-5)


@triton.jit
def _inner(
    acc, l_i, m_i, q, K_block_ptr, V_block_ptr, start_m, qk_scale, slope, window, N_CTX,
    STAGE: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, OFFS_M: tl.constexpr = None,
):  # fmt: skip
    offs_m = start_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.arange(0, BLOCK_N)
    if STAGE == 1:
        lo = tl.maximum(0, (start_m * BLOCK_M - window) // BLOCK_N * BLOCK_N)
        hi = start_m * BLOCK_M
    else:
        lo, hi = start_m * BLOCK_M, (start_m + 1) * BLOCK_M
    K_block_ptr = tl.advance(K_block_ptr, (0, lo))
    V_block_ptr = tl.advance(V_block_ptr, (lo, 0))
    for start_n in tl.range(lo, hi, BLOCK_N, num_stages=2):
        k = tl.load(K_block_ptr, boundary_check=(1,), padding_option="zero")
        qk = tl.dot(q, k) * qk_scale
        distance = offs_m[:, None] - (start_n + offs_n[None, :])
        qk -= slope * distance
        qk = tl.where((distance >= 0) & (distance <= window), qk, -1.0e6)
        m_ij = tl.maximum(m_i, tl.max(qk, 1))
        p = tl.math.exp2(qk - m_ij[:, None])
        alpha = tl.math.exp2(m_i - m_ij)
        l_i = l_i * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        v = tl.load(V_block_ptr, boundary_check=(0,), padding_option="zero")
        acc = tl.dot(p.to(v.dtype), v, acc)
        m_i = m_ij
        V_block_ptr = tl.advance(V_block_ptr, (BLOCK_N, 0))
        K_block_ptr = tl.advance(K_block_ptr, (0, BLOCK_N))
    return acc, l_i, m_i


@triton.jit
def _window_kernel(
    Q, K, V, Sinks, Slopes, sm_scale, Out, stride_z, stride_h, stride_m, stride_d, H, N_CTX,
    window, HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    tl.static_assert(BLOCK_N <= BLOCK_M)
    start_m = tl.program_id(0)
    z, h = tl.program_id(1) // H, tl.program_id(1) % H
    base = z.to(tl.int64) * stride_z + h.to(tl.int64) * stride_h
    Q_block_ptr = tl.make_block_ptr(
        base=Q + base, shape=(N_CTX, HEAD_DIM), strides=(stride_m, stride_d),
        offsets=(start_m * BLOCK_M, 0), block_shape=(BLOCK_M, HEAD_DIM), order=(1, 0),
    )  # fmt: skip
    K_block_ptr = tl.make_block_ptr(
        base=K + base, shape=(HEAD_DIM, N_CTX), strides=(stride_d, stride_m),
        offsets=(0, 0), block_shape=(HEAD_DIM, BLOCK_N), order=(0, 1),
    )  # fmt: skip
    V_block_ptr = tl.make_block_ptr(V + base, (N_CTX, HEAD_DIM), (stride_m, stride_d), (0, 0), (BLOCK_N, HEAD_DIM), (1, 0))
    O_block_ptr = tl.make_block_ptr(Out + base, (N_CTX, HEAD_DIM), (stride_m, stride_d), (start_m * BLOCK_M, 0), (BLOCK_M, HEAD_DIM), (1, 0))
    LOG2E: tl.constexpr = 1.4426950408889634
    slope = tl.load(Slopes + h) * LOG2E
    if Sinks is not None:
        m_i = tl.full([BLOCK_M], 0.0, tl.float32) + tl.load(Sinks + h) * LOG2E
        l_i = tl.full([BLOCK_M], 1.0, tl.float32)
    else:
        m_i = tl.full([BLOCK_M], -float("inf"), tl.float32)
        l_i = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, HEAD_DIM], dtype=tl.float32)
    q = tl.load(Q_block_ptr, boundary_check=(0,), padding_option="zero")
    acc, l_i, m_i = _inner(acc, l_i, m_i, q, K_block_ptr, V_block_ptr, start_m, sm_scale * LOG2E, slope, window, N_CTX, 1, BLOCK_M, BLOCK_N)
    acc, l_i, m_i = _inner(acc, l_i, m_i, q, K_block_ptr, V_block_ptr, start_m, sm_scale * LOG2E, slope, window, N_CTX, 2, BLOCK_M, BLOCK_N)
    acc = acc / l_i[:, None]
    tl.store(O_block_ptr, acc.to(Out.type.element_ty), boundary_check=(0,))


def check_window_and_sinks(device):
    torch.manual_seed(0)
    Z, H, N, D, window = 2, 3, 150, 32, 40
    q, k, v = torch.randn(3, Z, H, N, D, device=device, dtype=torch.float16)
    slopes = torch.tensor([0.5, 0.25, 0.0], device=device)
    for sinks in (None, torch.tensor([0.1, -0.5, 1.0], device=device)):
        out = torch.empty_like(q)
        _window_kernel[(triton.cdiv(N, 64), Z * H)](
            q, k, v, sinks, slopes, D**-0.5, out, *q.stride(), H, N, window,
            HEAD_DIM=D, BLOCK_M=64, BLOCK_N=32,
        )  # fmt: skip
        place = torch.arange(N, device=device)
        distance = place[:, None] - place[None, :]
        s = q.double() @ k.double().transpose(-1, -2) * D**-0.5
        s = s - slopes.double()[:, None, None] * distance
        s = s.masked_fill((distance < 0) | (distance > window), float("-inf"))
        if sinks is not None:
            extra = sinks.double()[None, :, None, None].expand(Z, H, N, 1)
            p = torch.softmax(torch.cat((s, extra), -1), -1)[..., :-1]
        else:
            p = torch.softmax(s, -1)
        torch.testing.assert_close(out.double(), p @ v.double(), atol=4e-3, rtol=4e-3)


if __name__ == "__main__":
    device = triton.runtime.driver.active.get_active_torch_device()
    check_flash_attention(device)
    check_bias(device)
    check_window_and_sinks(device)
    print("flash attention: right")
