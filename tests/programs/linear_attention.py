"""Chunked linear attention with gates, the delta rule, variable lengths, block pointers."""
# ruff: noqa: E501  (lines as long as such programs have them)

import os

import torch
import triton
import triton.language as tl
import triton.language.extra.libdevice as tldevice

if os.environ.get("USE_FAST_OPS", "0") == "1":
    exp = tldevice.fast_expf
    exp2 = tldevice.exp2
    log = tldevice.fast_logf
else:
    exp = tl.exp
    exp2 = tl.math.exp2
    log = tl.log


@triton.jit
def safe_exp(x):
    return exp(tl.where(x <= 0, x, float("-inf")))


@triton.heuristics({
    "USE_INITIAL_STATE": lambda args: args["h0"] is not None,
    "STORE_FINAL_STATE": lambda args: args["ht"] is not None,
    "USE_G": lambda args: args["g"] is not None,
    "IS_VARLEN": lambda args: args["cu_seqlens"] is not None,
})  # fmt: skip
@triton.autotune(
    configs=[triton.Config({"BK": BK, "BV": 16}, num_warps=w, num_stages=s)
             for BK in [16, 32] for w in [2] for s in [2]],
    key=["H", "K", "V", "BT", "USE_G"],
)  # fmt: skip
@triton.jit(do_not_specialize=["T"])
def chunk_fwd_kernel_h(
    k, v, h, g, h0, ht, cu_seqlens, split_offsets, T, H: tl.constexpr, K: tl.constexpr,
    V: tl.constexpr, BT: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr, USE_G: tl.constexpr,
    USE_INITIAL_STATE: tl.constexpr, STORE_FINAL_STATE: tl.constexpr, IS_VARLEN: tl.constexpr,
):  # fmt: skip
    i_k, i_v, i_nh = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    i_n, i_h = i_nh // H, i_nh % H
    if IS_VARLEN:
        bos, eos = tl.load(cu_seqlens + i_n).to(tl.int32), tl.load(cu_seqlens + i_n + 1).to(tl.int32)
        T = eos - bos
        NT = tl.cdiv(T, BT)
        boh = tl.load(split_offsets + i_n).to(tl.int32)
    else:
        bos, eos = i_n * T, i_n * T + T
        NT = tl.cdiv(T, BT)
        boh = i_n * NT
    b_h = tl.zeros([BK, BV], dtype=tl.float32)
    if USE_INITIAL_STATE:
        p_h0 = tl.make_block_ptr(h0 + i_nh * K * V, (K, V), (V, 1), (i_k * BK, i_v * BV), (BK, BV), (1, 0))
        b_h = tl.load(p_h0, boundary_check=(0, 1)).to(tl.float32)
    for i_t in range(NT):
        p_k = tl.make_block_ptr(k + (bos * H + i_h) * K, (K, T), (1, H * K), (i_k * BK, i_t * BT), (BK, BT), (0, 1))
        p_v = tl.make_block_ptr(v + (bos * H + i_h) * V, (T, V), (H * V, 1), (i_t * BT, i_v * BV), (BT, BV), (1, 0))
        o_h = ((boh + i_t) * H + i_h).to(tl.int64) * K * V
        p_h = tl.make_block_ptr(h + o_h, (K, V), (V, 1), (i_k * BK, i_v * BV), (BK, BV), (1, 0))
        tl.store(p_h, b_h.to(p_h.dtype.element_ty), boundary_check=(0, 1))
        b_k = tl.load(p_k, boundary_check=(0, 1))
        b_v = tl.load(p_v, boundary_check=(0, 1))
        last_idx = min((i_t + 1) * BT, T) - 1
        if USE_G:
            b_g_last = tl.load(g + bos * H + last_idx * H + i_h)
            p_g = g + bos * H + (i_t * BT + tl.arange(0, BT)) * H + i_h
            b_g = tl.load(p_g, mask=(i_t * BT + tl.arange(0, BT) < T), other=0.0)
            b_h *= exp(b_g_last)
            b_v = (b_v * exp(b_g_last - b_g)[:, None]).to(b_v.dtype)
        b_h += tl.dot(b_k, b_v, allow_tf32=False)
    if STORE_FINAL_STATE:
        p_ht = tl.make_block_ptr(ht + i_nh * K * V, (K, V), (V, 1), (i_k * BK, i_v * BV), (BK, BV), (1, 0))
        tl.store(p_ht, b_h.to(p_ht.dtype.element_ty), boundary_check=(0, 1))


@triton.heuristics({
    "USE_G": lambda args: args["g"] is not None,
    "IS_VARLEN": lambda args: args["cu_seqlens"] is not None,
})  # fmt: skip
@triton.jit(do_not_specialize=["T"])
def chunk_fwd_kernel_o(
    q, k, v, h, g, o, cu_seqlens, chunk_indices, scale, T, H: tl.constexpr, K: tl.constexpr,
    V: tl.constexpr, BT: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr, USE_G: tl.constexpr,
    IS_VARLEN: tl.constexpr,
):  # fmt: skip
    i_v, i_t, i_bh = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    i_b, i_h = i_bh // H, i_bh % H
    if IS_VARLEN:
        i_tg = i_t
        i_n, i_t = tl.load(chunk_indices + i_t * 2).to(tl.int32), tl.load(chunk_indices + i_t * 2 + 1).to(tl.int32)
        bos, eos = tl.load(cu_seqlens + i_n).to(tl.int32), tl.load(cu_seqlens + i_n + 1).to(tl.int32)
        T = eos - bos
        NT = tl.cdiv(T, BT)
    else:
        NT = tl.cdiv(T, BT)
        i_tg = i_b * NT + i_t
        bos, eos = i_b * T, i_b * T + T
    q += (bos * H + i_h) * K
    k += (bos * H + i_h) * K
    v += (bos * H + i_h) * V
    o += (bos * H + i_h) * V
    h += (i_tg * H + i_h).to(tl.int64) * K * V
    b_o = tl.zeros([BT, BV], dtype=tl.float32)
    b_A = tl.zeros([BT, BT], dtype=tl.float32)
    for i_k in range(tl.cdiv(K, BK)):
        p_q = tl.make_block_ptr(q, (T, K), (H * K, 1), (i_t * BT, i_k * BK), (BT, BK), (1, 0))
        p_k = tl.make_block_ptr(k, (K, T), (1, H * K), (i_k * BK, i_t * BT), (BK, BT), (0, 1))
        p_h = tl.make_block_ptr(h, (K, V), (V, 1), (i_k * BK, i_v * BV), (BK, BV), (1, 0))
        b_q = tl.load(p_q, boundary_check=(0, 1))
        b_k = tl.load(p_k, boundary_check=(0, 1))
        b_h = tl.load(p_h, boundary_check=(0, 1))
        b_o += tl.dot(b_q, b_h, allow_tf32=False)
        b_A += tl.dot(b_q, b_k, allow_tf32=False)
    if USE_G:
        g += bos * H + i_h
        p_g = tl.make_block_ptr(g, (T,), (H,), (i_t * BT,), (BT,), (0,))
        b_g = tl.load(p_g, boundary_check=(0,))
        b_o = b_o * exp(b_g)[:, None]
        b_A = b_A * safe_exp(b_g[:, None] - b_g[None, :])
    o_i = i_t * BT + tl.arange(0, BT)
    m_t = o_i < T
    m_A = (o_i[:, None] >= o_i[None, :]) & (m_t[:, None] & m_t)
    b_A = tl.where(m_A, b_A, 0)
    p_v = tl.make_block_ptr(v, (T, V), (H * V, 1), (i_t * BT, i_v * BV), (BT, BV), (1, 0))
    p_o = tl.make_block_ptr(o, (T, V), (H * V, 1), (i_t * BT, i_v * BV), (BT, BV), (1, 0))
    b_v = tl.load(p_v, boundary_check=(0, 1))
    b_o = (b_o + tl.dot(b_A.to(b_v.dtype), b_v, allow_tf32=False)) * scale
    tl.store(p_o, b_o.to(p_o.dtype.element_ty), boundary_check=(0, 1))


def _recurrent(q, k, v, g, h0):
    """(o, final state) of one sequence and head, in float64."""
    h, out = h0.double(), []
    for t in range(q.shape[0]):
        h = h * (torch.exp(g[t].double()) if g is not None else 1.0)
        h = h + k[t].double()[:, None] * v[t].double()
        out.append(q[t].double() @ h)
    return torch.stack(out), h


def _local_cumsum(g, bounds, BT):
    out = torch.empty_like(g)
    for b, e in bounds:
        for s in range(b, e, BT):
            out[s : min(s + BT, e)] = g[s : min(s + BT, e)].cumsum(0)
    return out


def check_chunked_gla(device):
    torch.manual_seed(0)
    H, K, V, BT = 2, 24, 40, 32
    lens = [70, 33, 1]
    total = sum(lens)
    cu = torch.tensor([0, *torch.tensor(lens).cumsum(0)], device=device)
    bounds = [(int(cu[i]), int(cu[i + 1])) for i in range(3)]
    n_chunks = [triton.cdiv(x, BT) for x in lens]
    q, k = torch.randn(2, total, H, K, device=device) * K**-0.25
    v = torch.randn(total, H, V, device=device)
    h0 = torch.randn(3, H, K, V, device=device)
    for gated in (True, False):
        g = torch.nn.functional.logsigmoid(torch.randn(total, H, device=device)) if gated else None
        gc = _local_cumsum(g, bounds, BT) if gated else None
        offsets = torch.tensor([0, *torch.tensor(n_chunks).cumsum(0)], device=device)
        indices = torch.tensor([(n, c) for n in range(3) for c in range(n_chunks[n])], device=device)
        h = torch.empty(sum(n_chunks), H, K, V, device=device)
        ht = torch.empty(3, H, K, V, device=device)
        grid = lambda meta: (triton.cdiv(K, meta["BK"]), triton.cdiv(V, meta["BV"]), 3 * H)  # noqa: E731
        chunk_fwd_kernel_h[grid](k, v, h, gc, h0, ht, cu, offsets, T=total, H=H, K=K, V=V, BT=BT)
        o = torch.empty_like(v)
        chunk_fwd_kernel_o[(triton.cdiv(V, 16), len(indices), H)](
            q, k, v, h, gc, o, cu, indices, 1.0, T=total, H=H, K=K, V=V, BT=BT, BK=16, BV=16
        )
        for n, (b, e) in enumerate(bounds):
            for i in range(H):
                want_o, want_h = _recurrent(
                    q[b:e, i], k[b:e, i], v[b:e, i], g[b:e, i] if gated else None, h0[n, i]
                )
                torch.testing.assert_close(o[b:e, i].double(), want_o, atol=1e-3, rtol=1e-3)
                torch.testing.assert_close(ht[n, i].double(), want_h, atol=1e-3, rtol=1e-3)


@triton.jit
def solve_tril_16_kernel(A, Ad, T, H: tl.constexpr, BT: tl.constexpr):
    """Inverses of I + (strictly lower 16 x 16 blocks), row by row."""
    i_t, i_h = tl.program_id(0), tl.program_id(1)
    offset = (i_t * 16) % BT
    p_A = tl.make_block_ptr(A + i_h * BT, (T, BT), (H * BT, 1), (i_t * 16, offset), (16, 16), (1, 0))
    o_i = tl.arange(0, 16)
    b_A = tl.load(p_A, boundary_check=(0, 1)).to(tl.float32)
    b_A = -tl.where(o_i[:, None] > o_i[None, :], b_A, 0)
    for i in range(2, min(16, T - i_t * 16)):
        b_a = -tl.load(A + i_h * BT + (i_t * 16 + i) * H * BT + o_i + offset)
        b_a = tl.where(o_i < i, b_a, 0.0)
        b_a = b_a + tl.sum(b_a[:, None] * b_A, 0)
        mask = o_i == i
        b_A = tl.where(mask[:, None], b_a, b_A)
    b_A += o_i[:, None] == o_i[None, :]
    p_Ai = tl.make_block_ptr(Ad + i_h * 16, (T, 16), (H * 16, 1), (i_t * 16, 0), (16, 16), (1, 0))
    tl.store(p_Ai, b_A.to(p_Ai.dtype.element_ty, fp_downcast_rounding="rtne"), boundary_check=(0, 1))


def check_solve_tril(device):
    torch.manual_seed(0)
    T, H, BT = 41, 2, 32
    A = torch.randn(T, H, BT, device=device) * 0.3
    Ad = torch.zeros(T, H, 16, device=device)
    solve_tril_16_kernel[(triton.cdiv(T, 16), H)](A, Ad, T, H, BT)
    for t in range(0, T, 16):
        e = min(t + 16, T)
        for h in range(H):
            block = A[t:e, h, t % BT : t % BT + e - t].double().tril(-1)
            want = torch.linalg.inv(torch.eye(e - t, device=device) + block)
            torch.testing.assert_close(Ad[t:e, h, : e - t].double(), want, atol=1e-4, rtol=1e-4)


@triton.heuristics({"USE_INITIAL_STATE": lambda args: args["h0"] is not None})
@triton.jit(do_not_specialize=["T"])
def fused_recurrent_delta_rule_kernel(
    q, k, v, g, beta, o, h0, ht, scale, T, H: tl.constexpr, HV: tl.constexpr, K: tl.constexpr,
    V: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr, USE_INITIAL_STATE: tl.constexpr,
    USE_QK_L2NORM: tl.constexpr,
):  # fmt: skip
    i_k, i_v, i_nh = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    i_n, i_hv = i_nh // HV, i_nh % HV
    i_h = i_hv // (HV // H)
    bos = i_n * T
    o_k = i_k * BK + tl.arange(0, BK)
    o_v = i_v * BV + tl.arange(0, BV)
    p_q = q + (bos * H + i_h) * K + o_k
    p_k = k + (bos * H + i_h) * K + o_k
    p_v = v + (bos * HV + i_hv) * V + o_v
    p_beta = beta + bos * HV + i_hv
    p_g = g + bos * HV + i_hv
    p_o = o + (bos * HV + i_hv) * V + o_v
    mask_k, mask_v = o_k < K, o_v < V
    mask_h = mask_k[:, None] & mask_v[None, :]
    b_h = tl.zeros([BK, BV], dtype=tl.float32)
    if USE_INITIAL_STATE:
        b_h += tl.load(h0 + i_nh * K * V + o_k[:, None] * V + o_v[None, :], mask=mask_h, other=0).to(tl.float32)
    for _ in range(0, T):
        b_q = tl.load(p_q, mask=mask_k, other=0).to(tl.float32)
        b_k = tl.load(p_k, mask=mask_k, other=0).to(tl.float32)
        b_v = tl.load(p_v, mask=mask_v, other=0).to(tl.float32)
        b_g = tl.load(p_g).to(tl.float32)
        b_beta = tl.load(p_beta).to(tl.float32)
        if USE_QK_L2NORM:
            b_q = b_q / (tl.sqrt(tl.sum(b_q * b_q)) + 1e-6)
            b_k = b_k / (tl.sqrt(tl.sum(b_k * b_k)) + 1e-6)
        b_q = b_q * scale
        b_h *= exp(b_g)
        b_v -= tl.sum(b_h * b_k[:, None], 0)
        b_v *= b_beta
        b_h += b_k[:, None] * b_v[None, :]
        b_o = tl.sum(b_h * b_q[:, None], 0)
        tl.store(p_o, b_o.to(p_o.dtype.element_ty), mask=mask_v)
        p_q += H * K
        p_k += H * K
        p_o += HV * V
        p_v += HV * V
        p_g += HV
        p_beta += HV
    tl.store(ht + i_nh * K * V + o_k[:, None] * V + o_v[None, :], b_h.to(ht.dtype.element_ty), mask=mask_h)


def check_delta_rule(device):
    torch.manual_seed(0)
    B, T, H, HV, K, V = 2, 19, 2, 4, 24, 20
    q, k = torch.randn(2, B, T, H, K, device=device, dtype=torch.bfloat16)
    v = torch.randn(B, T, HV, V, device=device, dtype=torch.bfloat16)
    g = -torch.rand(B, T, HV, device=device)
    beta = torch.rand(B, T, HV, device=device)
    h0 = torch.randn(B, HV, K, V, device=device)
    o, ht = torch.empty_like(v), torch.empty_like(h0)
    fused_recurrent_delta_rule_kernel[(1, triton.cdiv(V, 8), B * HV)](
        q, k, v, g, beta, o, h0, ht, K**-0.5, T=T, H=H, HV=HV, K=K, V=V, BK=32, BV=8,
        USE_QK_L2NORM=True, num_warps=1, num_stages=3,
    )  # fmt: skip
    qd, kd = (torch.nn.functional.normalize(x.double(), dim=-1).repeat_interleave(2, 2) for x in (q, k))
    h = h0.double()
    for t in range(T):
        h = h * torch.exp(g[:, t].double())[..., None, None]
        delta = (v[:, t].double() - torch.einsum("bhkv,bhk->bhv", h, kd[:, t])) * beta[:, t, :, None]
        h = h + kd[:, t, :, :, None] * delta[:, :, None]
        want = torch.einsum("bhkv,bhk->bhv", h, qd[:, t]) * K**-0.5
        torch.testing.assert_close(o[:, t].double(), want, atol=2e-2, rtol=2e-2)
    torch.testing.assert_close(ht.double(), h, atol=1e-4, rtol=1e-4)


if __name__ == "__main__":
    device = triton.runtime.driver.active.get_active_torch_device()
    check_chunked_gla(device)
    check_solve_tril(device)
    check_delta_rule(device)
    print("linear attention: right")
