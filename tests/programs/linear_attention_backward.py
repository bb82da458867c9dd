"""Gradients of gated linear attention by chunks, beside derivatives of the recurrence in float64.

Published packages refuse some releases of Triton on Hopper since those miscompile kernels of this
form: several sums over a loop, a gate applied to them after it.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def chunk_bwd_kernel(
    q, k, v, h, g, do, dh, dq, dk, dg, scale, T, H: tl.constexpr, K: tl.constexpr, V: tl.constexpr,
    BT: tl.constexpr, BV: tl.constexpr, USE_G: tl.constexpr,
):  # fmt: skip
    """The gradients of q, k and the running sums of the gate in one chunk of one head."""
    i_t, i_h = tl.program_id(0), tl.program_id(1)
    q += i_h * K
    k += i_h * K
    dq += i_h * K
    dk += i_h * K
    v += i_h * V
    do += i_h * V
    h += (i_t * H + i_h) * K * V
    dh += (i_t * H + i_h) * K * V
    acc_dq = tl.zeros([BT, K], dtype=tl.float32)
    acc_dk = tl.zeros([BT, K], dtype=tl.float32)
    ds = tl.zeros([BT, BT], dtype=tl.float32)
    dg_last = tl.zeros([1], dtype=tl.float32)
    for i_v in range(tl.cdiv(V, BV)):
        p_v = tl.make_block_ptr(v, (T, V), (H * V, 1), (i_t * BT, i_v * BV), (BT, BV), (1, 0))
        p_do = tl.make_block_ptr(do, (T, V), (H * V, 1), (i_t * BT, i_v * BV), (BT, BV), (1, 0))
        p_h = tl.make_block_ptr(h, (V, K), (1, V), (i_v * BV, 0), (BV, K), (0, 1))
        p_dh = tl.make_block_ptr(dh, (V, K), (1, V), (i_v * BV, 0), (BV, K), (0, 1))
        b_v = tl.load(p_v, boundary_check=(0, 1))
        b_do = tl.load(p_do, boundary_check=(0, 1))
        b_h = tl.load(p_h, boundary_check=(0, 1))
        b_dh = tl.load(p_dh, boundary_check=(0, 1))
        if USE_G:
            dg_last += tl.sum(b_h.to(tl.float32) * b_dh.to(tl.float32))
        ds += tl.dot(b_do, tl.trans(b_v), allow_tf32=False)
        acc_dq += tl.dot(b_do, b_h, allow_tf32=False)
        acc_dk += tl.dot(b_v, b_dh, allow_tf32=False)
    p_q = tl.make_block_ptr(q, (T, K), (H * K, 1), (i_t * BT, 0), (BT, K), (1, 0))
    p_k = tl.make_block_ptr(k, (T, K), (H * K, 1), (i_t * BT, 0), (BT, K), (1, 0))
    b_q = tl.load(p_q, boundary_check=(0, 1))
    b_k = tl.load(p_k, boundary_check=(0, 1))
    o_t = i_t * BT + tl.arange(0, BT)
    causal = (o_t[:, None] >= o_t[None, :]) & (o_t[:, None] < T)
    if USE_G:
        b_g = tl.load(g + o_t * H + i_h, mask=o_t < T, other=0.0)
        last = min((i_t + 1) * BT, T) - 1
        g_last = tl.load(g + last * H + i_h)
        dg_last *= tl.exp(g_last)
        acc_dq = acc_dq * tl.exp(b_g)[:, None] * scale
        b_dg = tl.sum(acc_dq * b_q, axis=1)
        acc_dk = acc_dk * tl.where(o_t < T, tl.exp(g_last - b_g), 0)[:, None]
        b_dg -= tl.sum(acc_dk * b_k, axis=1)
        dg_last += tl.sum(acc_dk * b_k)
        ds = tl.where(causal, ds * tl.exp(b_g[:, None] - b_g[None, :]), 0) * scale
        weighted = ds * tl.dot(b_q, tl.trans(b_k), allow_tf32=False)
        b_dg += tl.sum(weighted, axis=1) - tl.sum(weighted, axis=0)
        ds = ds.to(b_k.dtype)
        acc_dq += tl.dot(ds, b_k, allow_tf32=False)
        acc_dk += tl.dot(tl.trans(ds), b_q, allow_tf32=False)
        b_dg = tl.where(o_t == last, b_dg + dg_last, b_dg)
        tl.store(dg + o_t * H + i_h, b_dg, mask=o_t < T)
    else:
        ds = tl.where(causal, ds, 0).to(b_k.dtype)
        acc_dq = (acc_dq + tl.dot(ds, b_k, allow_tf32=False)) * scale
        acc_dk += tl.dot(tl.trans(ds), b_q, allow_tf32=False) * scale
    p_dq = tl.make_block_ptr(dq, (T, K), (H * K, 1), (i_t * BT, 0), (BT, K), (1, 0))
    p_dk = tl.make_block_ptr(dk, (T, K), (H * K, 1), (i_t * BT, 0), (BT, K), (1, 0))
    tl.store(p_dq, acc_dq.to(p_dq.dtype.element_ty), boundary_check=(0, 1))
    tl.store(p_dk, acc_dk.to(p_dk.dtype.element_ty), boundary_check=(0, 1))


def recurrence(q, k, v, g, do, scale, BT):
    """float64, by torch's derivatives of the recurrence: the states at which chunks start, what the
    later chunks add to the gradients of those at which they end, and the gradients of q, k, g."""
    q, k, v = (x.detach().double().requires_grad_() for x in (q, k, v))
    g = None if g is None else g.detach().double().requires_grad_()
    state = torch.zeros(q.shape[1], q.shape[2], v.shape[2], dtype=torch.float64, device=q.device)
    state.requires_grad_()
    starts, loss = [], 0.0
    for t in range(q.shape[0]):
        if t % BT == 0:
            state = state.clone()  # the later chunks' alone: the last output does not use it
            starts.append(state)
        if g is not None:
            state = state * torch.exp(g[t])[:, None, None]
        state = state + k[t][:, :, None] * v[t][:, None, :]
        out = torch.einsum("hk,hkv->hv", q[t], state) * scale
        loss = loss + (out * do[t].double()).sum()
    inputs = [q, k] if g is None else [q, k, g]
    gradients = torch.autograd.grad(loss, [*inputs, *starts])
    flows = [*gradients[len(inputs) + 1 :], torch.zeros_like(state)]
    return torch.stack(starts).detach(), torch.stack(flows), gradients[: len(inputs)]


def check_gradients_of_chunks(device):
    torch.manual_seed(0)
    sizes = [(75, 2, 16, 32, 32)]
    dtypes = [(torch.float32, 1e-4)]
    if device.type == "cuda":
        sizes += [(200, 2, 64, 64, 64), (130, 1, 128, 128, 64), (64, 1, 64, 128, 64)]
        dtypes += [(torch.float16, 3e-3), (torch.bfloat16, 2e-2)]
    for T, H, K, V, BT in sizes:
        for dtype, error in dtypes:
            for gated in (True, False):
                q, k = (torch.randn(2, T, H, K, device=device) * K**-0.25).to(dtype)
                v, do = torch.randn(2, T, H, V, device=device).to(dtype)
                g = torch.nn.functional.logsigmoid(torch.randn(T, H, device=device) + 2)
                sums = torch.cat([part.cumsum(0) for part in g.split(BT)])
                scale = K**-0.5
                h, dh, want = recurrence(q, k, v, g if gated else None, do, scale, BT)
                dq, dk, dg = torch.empty_like(q), torch.empty_like(k), torch.empty_like(sums)
                chunk_bwd_kernel[(triton.cdiv(T, BT), H)](
                    q, k, v, h.to(dtype), sums, do, dh.to(dtype), dq, dk, dg, scale, T, H=H, K=K,
                    V=V, BT=BT, BV=min(V, 32), USE_G=gated, num_warps=4, num_stages=2,
                )  # fmt: skip
                found = [dq, dk]
                if gated:
                    found.append(torch.cat([p.flip(0).cumsum(0).flip(0) for p in dg.split(BT)]))
                for name, x, y in zip(("dq", "dk", "dg"), found, want, strict=False):
                    off = (x.double() - y).norm() / y.norm()
                    assert off < error, (T, H, K, V, BT, dtype, gated, name, off.item())
