"""Selective state spaces: single step, associative scan, and the chunked (SSD) form."""
# ruff: noqa: E501  (lines as long as such programs have them)

import torch
import triton
import triton.language as tl


@triton.jit
def softplus(dt):
    return tl.where(dt <= 20.0, tl.math.log(tl.math.exp(dt) + 1), dt)


@triton.heuristics({"HAS_DT_BIAS": lambda args: args["dt_bias_ptr"] is not None})
@triton.heuristics({"HAS_D": lambda args: args["D_ptr"] is not None})
@triton.heuristics({"HAS_Z": lambda args: args["z_ptr"] is not None})
@triton.heuristics({"HAS_INDICES": lambda args: args["state_indices_ptr"] is not None})
@triton.heuristics({"BLOCK_DSTATE": lambda args: triton.next_power_of_2(args["dstate"])})
@triton.jit(do_not_specialize=["batch", "pad_slot_id"])
def _state_update_kernel(
    state_ptr, x_ptr, dt_ptr, dt_bias_ptr, A_ptr, B_ptr, C_ptr, D_ptr, z_ptr, out_ptr,
    state_indices_ptr, pad_slot_id, batch, nheads, dim, dstate, nheads_ngroups_ratio,
    stride_sb, stride_sh, stride_sd, stride_sn, stride_xb, stride_xh, stride_xd,
    stride_db, stride_dh, stride_dd, stride_bh, stride_bd, stride_ah, stride_ad, stride_an,
    stride_Bb, stride_Bg, stride_Bn,
    DT_SOFTPLUS: tl.constexpr, TIE_HDIM: tl.constexpr, BLOCK_M: tl.constexpr,
    HAS_DT_BIAS: tl.constexpr, HAS_D: tl.constexpr, HAS_Z: tl.constexpr,
    HAS_INDICES: tl.constexpr, BLOCK_DSTATE: tl.constexpr,
):  # fmt: skip
    pid_m = tl.program_id(axis=0)
    pid_b = tl.program_id(axis=1)
    pid_h = tl.program_id(axis=2)
    if HAS_INDICES:
        state_indices_ptr += pid_b
        state_idx = tl.load(state_indices_ptr).to(tl.int64)
        state_ptr += state_idx * stride_sb + pid_h * stride_sh
    else:
        state_ptr += pid_b * stride_sb + pid_h * stride_sh
    x_ptr += pid_b * stride_xb + pid_h * stride_xh
    out_ptr += pid_b * stride_xb + pid_h * stride_xh
    dt_ptr += pid_b * stride_db + pid_h * stride_dh
    A_ptr += pid_h * stride_ah
    B_ptr += pid_b * stride_Bb + (pid_h // nheads_ngroups_ratio) * stride_Bg
    C_ptr += pid_b * stride_Bb + (pid_h // nheads_ngroups_ratio) * stride_Bg
    offs_m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.arange(0, BLOCK_DSTATE)
    state_ptrs = state_ptr + (offs_m[:, None] * stride_sd + offs_n[None, :] * stride_sn)
    mask = (offs_m[:, None] < dim) & (offs_n[None, :] < dstate)
    if HAS_INDICES:
        mask &= (state_idx != pad_slot_id)
    state = tl.load(state_ptrs, mask=mask, other=0.0)
    x = tl.load(x_ptr + offs_m * stride_xd, mask=offs_m < dim, other=0.0).to(tl.float32)
    if not TIE_HDIM:
        dt = tl.load(dt_ptr + offs_m * stride_dd, mask=offs_m < dim, other=0.0).to(tl.float32)
        if HAS_DT_BIAS:
            dt_bias_ptrs = dt_bias_ptr + pid_h * stride_bh + offs_m * stride_bd
            dt += tl.load(dt_bias_ptrs, mask=offs_m < dim, other=0.0).to(tl.float32)
        if DT_SOFTPLUS:
            dt = softplus(dt)
        A = tl.load(
            A_ptr + (offs_m[:, None] * stride_ad + offs_n[None, :] * stride_an),
            mask=(offs_m[:, None] < dim) & (offs_n[None, :] < dstate), other=0.0,
        ).to(tl.float32)  # fmt: skip
        dA = tl.exp(A * dt[:, None])
    else:
        dt = tl.load(dt_ptr).to(tl.float32)
        if HAS_DT_BIAS:
            dt += tl.load(dt_bias_ptr + pid_h * stride_bh).to(tl.float32)
        if DT_SOFTPLUS:
            dt = softplus(dt)
        A = tl.load(A_ptr).to(tl.float32)
        dA = tl.exp(A * dt)
    B = tl.load(B_ptr + offs_n * stride_Bn, mask=offs_n < dstate, other=0.0).to(tl.float32)
    C = tl.load(C_ptr + offs_n * stride_Bn, mask=offs_n < dstate, other=0.0).to(tl.float32)
    dB = B[None, :] * dt[:, None] if not TIE_HDIM else B * dt
    state = state * dA + dB * x[:, None]
    tl.store(state_ptrs, state, mask=mask)
    out = tl.sum(state * C[None, :], axis=1)
    if HAS_D:
        out += x * tl.load(D_ptr + pid_h)
    if HAS_Z:
        z = tl.load(z_ptr + pid_b * stride_xb + pid_h * stride_xh + offs_m * stride_xd, mask=offs_m < dim, other=0.0).to(tl.float32)
        out *= z * tl.sigmoid(z)
    tl.store(out_ptr + offs_m * stride_xd, out, mask=offs_m < dim)


def check_state_update(device):
    torch.manual_seed(0)
    batch, heads, dim, n, groups = 3, 4, 20, 12, 2
    for tied, extras, indexed in ((False, True, False), (True, True, True), (False, False, False)):
        state = torch.randn(5, heads, dim, n, device=device)
        x, z = torch.randn(2, batch, heads, dim, device=device)
        dt = torch.randn(batch, heads, 1, device=device)
        dt = dt.expand(batch, heads, dim) if tied else torch.randn(batch, heads, dim, device=device)
        bias = torch.randn(heads, 1, device=device).expand(heads, dim) if extras else None
        A = -torch.rand(heads, 1, 1, device=device).expand(heads, dim, n)
        A = A if tied else -torch.rand(heads, dim, n, device=device)
        B, C = torch.randn(2, batch, groups, n, device=device)
        D = torch.randn(heads, device=device) if extras else None
        index = torch.tensor([4, 0, 2], device=device, dtype=torch.int32) if indexed else None
        rows = index.long() if indexed else torch.arange(batch, device=device)
        step = torch.nn.functional.softplus(dt + bias if extras else dt)
        Bh, Ch = (t.repeat_interleave(heads // groups, 1)[:, :, None] for t in (B, C))
        want_state = state[rows] * torch.exp(A * step[..., None]) + Bh * (step * x)[..., None]
        want = (want_state * Ch).sum(-1)
        if extras:
            want = (want + x * D[:, None]) * torch.nn.functional.silu(z)
        out = torch.empty_like(x)
        grid = lambda META: (triton.cdiv(dim, META["BLOCK_M"]), batch, heads)  # noqa: E731
        _state_update_kernel[grid](
            state, x, dt, bias, A, B, C, D, z if extras else None, out, index, -1,
            batch, heads, dim, n, heads // groups, *state.stride(), *x.stride(), *dt.stride(),
            *(bias.stride() if extras else (0, 0)), *A.stride(), *B.stride(),
            DT_SOFTPLUS=True, TIE_HDIM=tied, BLOCK_M=8,
        )  # fmt: skip
        torch.testing.assert_close(out, want, atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(state[rows], want_state, atol=1e-5, rtol=1e-5)


@triton.jit
def first_order(a1, b1, a2, b2):
    return a1 * a2, a2 * b1 + b2


@triton.jit
def _scan_kernel(u, delta, A, B, C, y, L, D, N: tl.constexpr, BLOCK_L: tl.constexpr, REVERSE: tl.constexpr):
    d = tl.program_id(0)
    n = tl.arange(0, N)
    a = tl.load(A + d * N + n)
    h = tl.zeros((N,), tl.float32)
    steps = tl.cdiv(L, BLOCK_L)
    for i in range(0, steps):
        block = steps - 1 - i if REVERSE else i
        t = block * BLOCK_L + tl.arange(0, BLOCK_L)
        inside = t < L
        dt = tl.load(delta + t * D + d, mask=inside, other=0.0)
        x = tl.load(u + t * D + d, mask=inside, other=0.0)
        b = tl.load(B + t[:, None] * N + n[None, :], mask=inside[:, None], other=0.0)
        c = tl.load(C + t[:, None] * N + n[None, :], mask=inside[:, None], other=0.0)
        decay = tl.exp(dt[:, None] * a[None, :])
        value = dt[:, None] * b * x[:, None]
        decays, values = tl.associative_scan((decay, value), 0, first_order, reverse=REVERSE)
        states = decays * h[None, :] + values
        tl.store(y + t * D + d, tl.sum(states * c, axis=1), mask=inside)
        last = 0 if REVERSE else BLOCK_L - 1
        h = tl.sum(tl.where((tl.arange(0, BLOCK_L) == last)[:, None], states, 0.0), axis=0)


def check_selective_scan(device):
    torch.manual_seed(0)
    L, D, N = 75, 5, 8
    u, delta = torch.randn(L, D, device=device), torch.rand(L, D, device=device)
    A = -torch.rand(D, N, device=device)
    B, C = torch.randn(2, L, N, device=device)
    for reverse in (False, True):
        h = torch.zeros(D, N, device=device, dtype=torch.float64)
        want = torch.empty(L, D, device=device, dtype=torch.float64)
        for t in reversed(range(L)) if reverse else range(L):
            h = h * torch.exp(delta[t, :, None].double() * A) + (delta[t] * u[t])[:, None] * B[t]
            want[t] = (h * C[t]).sum(-1)
        y = torch.empty(L, D, device=device)
        _scan_kernel[(D,)](u, delta, A, B, C, y, L, D, N, BLOCK_L=32, REVERSE=reverse)
        torch.testing.assert_close(y.double(), want, atol=1e-4, rtol=1e-4)


@triton.autotune(
    configs=[triton.Config({"BLOCK_SIZE_H": 1}), triton.Config({"BLOCK_SIZE_H": 2})],
    key=["chunk_size", "nheads"],
)
@triton.jit
def _chunk_cumsum_kernel(
    dt_ptr, A_ptr, dt_out_ptr, dA_cs_ptr, seqlen, nheads, chunk_size,
    BLOCK_SIZE_H: tl.constexpr, BLOCK_SIZE_CHUNK: tl.constexpr,
):  # fmt: skip
    pid_c = tl.program_id(axis=0)
    pid_h = tl.program_id(axis=1)
    offs_h = pid_h * BLOCK_SIZE_H + tl.arange(0, BLOCK_SIZE_H)
    offs_c = tl.arange(0, BLOCK_SIZE_CHUNK)
    limit = min(chunk_size, seqlen - pid_c * chunk_size)
    at = (pid_c * chunk_size + offs_c[None, :]) * nheads + offs_h[:, None]
    inside = (offs_h[:, None] < nheads) & (offs_c[None, :] < limit)
    dt = softplus(tl.load(dt_ptr + at, mask=inside, other=0.0).to(tl.float32))
    dt = tl.where(inside, dt, 0.0)
    out = offs_h[:, None] * (tl.num_programs(0) * chunk_size) + pid_c * chunk_size + offs_c[None, :]
    written = (offs_h[:, None] < nheads) & (offs_c[None, :] < chunk_size)
    tl.store(dt_out_ptr + out, dt, mask=written)
    A = tl.load(A_ptr + offs_h, mask=offs_h < nheads, other=0.0).to(tl.float32)
    dA_cs = tl.cumsum(dt * A[:, None], axis=1)
    tl.store(dA_cs_ptr + out, dA_cs, mask=written)


@triton.jit
def _chunk_state_kernel(
    x_ptr, b_ptr, states_ptr, dt_ptr, dA_cs_ptr, seqlen, nheads, total, hdim: tl.constexpr,
    dstate: tl.constexpr, chunk_size: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    c, h = tl.program_id(0), tl.program_id(1)
    offs_m = tl.arange(0, hdim)
    offs_n = tl.arange(0, dstate)
    offs_k = tl.arange(0, BLOCK_K)
    start = c * chunk_size
    limit = min(chunk_size, seqlen - start)
    x_ptrs = x_ptr + ((start + offs_k)[None, :] * nheads + h) * hdim + offs_m[:, None]
    b_ptrs = b_ptr + (start + offs_k)[:, None] * dstate + offs_n[None, :]
    row = h * total + start
    last = tl.load(dA_cs_ptr + row + chunk_size - 1)
    acc = tl.zeros((hdim, dstate), tl.float32)
    for k in range(0, limit, BLOCK_K):
        x = tl.load(x_ptrs, mask=offs_k[None, :] < limit - k, other=0.0)
        b = tl.load(b_ptrs, mask=offs_k[:, None] < limit - k, other=0.0).to(tl.float32)
        cs = tl.load(dA_cs_ptr + row + k + offs_k, mask=offs_k < limit - k, other=0.0)
        dt = tl.load(dt_ptr + row + k + offs_k, mask=offs_k < limit - k, other=0.0)
        scale = tl.exp(last - cs) * dt
        acc += tl.dot(x, (b * scale[:, None]).to(x_ptr.dtype.element_ty), input_precision="ieee")
        x_ptrs += BLOCK_K * nheads * hdim
        b_ptrs += BLOCK_K * dstate
    tl.store(states_ptr + ((c * nheads + h) * hdim + offs_m[:, None]) * dstate + offs_n[None, :], acc)


@triton.jit
def _state_passing_kernel(states_ptr, out_ptr, dA_cs_ptr, nchunks, nheads, total, chunk_size, SIZE: tl.constexpr):
    h = tl.program_id(0)
    at = tl.arange(0, SIZE)
    s = tl.zeros((SIZE,), tl.float32)
    for c in range(nchunks):
        tl.store(out_ptr + (c * nheads + h) * SIZE + at, s)
        new = tl.load(states_ptr + (c * nheads + h) * SIZE + at)
        s = tl.exp(tl.load(dA_cs_ptr + h * total + (c + 1) * chunk_size - 1)) * s + new
    tl.store(out_ptr + (nchunks * nheads + h) * SIZE + at, s)


@triton.jit
def _chunk_scan_kernel(
    x_ptr, b_ptr, c_ptr, prev_ptr, dt_ptr, dA_cs_ptr, out_ptr, seqlen, nheads, total,
    hdim: tl.constexpr, dstate: tl.constexpr, chunk_size: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    pid_c, h, pid_m = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    start = pid_c * chunk_size
    limit = min(chunk_size, seqlen - start)
    offs_m = pid_m * BLOCK + tl.arange(0, BLOCK)
    offs_d = tl.arange(0, hdim)
    offs_n = tl.arange(0, dstate)
    row = h * total + start
    cs_m = tl.load(dA_cs_ptr + row + offs_m, mask=offs_m < limit, other=0.0)
    c = tl.load(c_ptr + (start + offs_m)[:, None] * dstate + offs_n[None, :], mask=offs_m[:, None] < limit, other=0.0)
    prev = tl.load(prev_ptr + ((pid_c * nheads + h) * hdim + offs_d[None, :]) * dstate + offs_n[:, None])
    acc = tl.dot(c, prev, input_precision="ieee") * tl.exp(cs_m)[:, None]
    for k in range(0, min((pid_m + 1) * BLOCK, limit), BLOCK):
        offs_k = k + tl.arange(0, BLOCK)
        b = tl.load(b_ptr + (start + offs_k)[None, :] * dstate + offs_n[:, None], mask=offs_k[None, :] < limit, other=0.0)
        cb = tl.dot(c, b, input_precision="ieee")
        cs_k = tl.load(dA_cs_ptr + row + offs_k, mask=offs_k < limit, other=0.0)
        dt_k = tl.load(dt_ptr + row + offs_k, mask=offs_k < limit, other=0.0)
        cb *= tl.exp(tl.minimum(cs_m[:, None] - cs_k[None, :], 0.0)) * dt_k[None, :]
        cb = tl.where(offs_m[:, None] >= offs_k[None, :], cb, 0.0)
        x = tl.load(x_ptr + ((start + offs_k)[:, None] * nheads + h) * hdim + offs_d[None, :], mask=offs_k[:, None] < limit, other=0.0)
        acc += tl.dot(cb, x, input_precision="ieee")
    tl.store(out_ptr + ((start + offs_m)[:, None] * nheads + h) * hdim + offs_d[None, :], acc, mask=offs_m[:, None] < limit)


def check_chunked_scan(device):
    torch.manual_seed(0)
    L, heads, hdim, dstate, chunk = 150, 3, 16, 16, 64
    chunks = triton.cdiv(L, chunk)
    total = chunks * chunk
    x = torch.randn(L, heads, hdim, device=device)
    dt = torch.randn(L, heads, device=device)
    A = -torch.rand(heads, device=device)
    B, C = torch.randn(2, L, dstate, device=device)
    dt_out, dA_cs = torch.full((2, heads, total), float("nan"), device=device)
    _chunk_cumsum_kernel[lambda META: (chunks, triton.cdiv(heads, META["BLOCK_SIZE_H"]))](
        dt, A, dt_out, dA_cs, L, heads, chunk, BLOCK_SIZE_CHUNK=triton.next_power_of_2(chunk)
    )
    states = torch.empty(chunks, heads, hdim, dstate, device=device)
    prev = torch.empty(chunks + 1, heads, hdim, dstate, device=device)
    out = torch.full_like(x, float("nan"))
    _chunk_state_kernel[(chunks, heads)](x, B, states, dt_out, dA_cs, L, heads, total, hdim, dstate, chunk, 32)
    _state_passing_kernel[(heads,)](states, prev, dA_cs, chunks, heads, total, chunk, hdim * dstate)
    _chunk_scan_kernel[(chunks, heads, chunk // 32)](
        x, B, C, prev, dt_out, dA_cs, out, L, heads, total, hdim, dstate, chunk, BLOCK=32
    )
    h = torch.zeros(heads, hdim, dstate, device=device, dtype=torch.float64)
    step = torch.nn.functional.softplus(dt.double())
    want = torch.empty(L, heads, hdim, device=device, dtype=torch.float64)
    for t in range(L):
        h = h * torch.exp(step[t] * A)[:, None, None] + (step[t, :, None] * x[t])[..., None] * B[t].double()
        want[t] = h @ C[t].double()
    torch.testing.assert_close(out.double(), want, atol=1e-3, rtol=1e-3)
    torch.testing.assert_close(prev[-1].double(), h, atol=1e-3, rtol=1e-3)


if __name__ == "__main__":
    device = triton.runtime.driver.active.get_active_torch_device()
    check_state_update(device)
    check_selective_scan(device)
    check_chunked_scan(device)
    print("mamba: right")
