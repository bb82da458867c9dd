"""fp8 and int8 quantisation by token, group and block; int4 unpacking; NF4; 8-bit Adam."""
# ruff: noqa: E501  (lines as long as such programs have them)

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def round_int8(x):
    return libdevice.round(x).to(tl.int8)


@triton.jit
def _per_token_quant_int8(x_ptr, xq_ptr, scale_ptr, stride_x, stride_xq, N, BLOCK: tl.constexpr):
    row_id = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < N
    x = tl.load(x_ptr + row_id * stride_x + cols, mask=mask, other=0.0).to(tl.float32)
    absmax = tl.maximum(tl.max(tl.abs(x)), 1e-10)
    scale_x = absmax / 127
    x_q = round_int8(x * (127 / absmax))
    tl.store(xq_ptr + row_id * stride_xq + cols, x_q, mask=mask)
    tl.store(scale_ptr + row_id, scale_x)


@triton.jit
def _per_token_group_quant_fp8(
    y_ptr, y_q_ptr, y_s_ptr, y_num_columns, y_row_stride, y_s_col_stride, eps, group_size,
    fp8_min, fp8_max, COLUMN_MAJOR: tl.constexpr, UE8M0: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    groups_per_row = y_num_columns // group_size
    g_id = tl.program_id(0)
    row = g_id // groups_per_row
    group = g_id % groups_per_row
    y_ptr += row.to(tl.int64) * y_row_stride + group.to(tl.int64) * group_size
    y_q_ptr += g_id.to(tl.int64) * group_size
    if COLUMN_MAJOR:
        y_s_ptr += group * y_s_col_stride + row
    else:
        y_s_ptr += g_id
    cols = tl.arange(0, BLOCK)
    mask = cols < group_size
    y = tl.load(y_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    _absmax = tl.maximum(tl.max(tl.abs(y)), eps)
    scale_raw = _absmax / fp8_max
    y_s = tl.math.exp2(tl.ceil(tl.log2(scale_raw))) if UE8M0 else scale_raw
    y_q = tl.clamp(y / y_s, fp8_min, fp8_max).to(y_q_ptr.dtype.element_ty)
    tl.store(y_q_ptr + cols, y_q, mask=mask)
    tl.store(y_s_ptr, y_s)


def check_token_quantisation(device):
    torch.manual_seed(0)
    x = torch.randn(11, 250, device=device, dtype=torch.bfloat16)
    q = torch.empty_like(x, dtype=torch.int8)
    s = torch.empty(11, device=device)
    _per_token_quant_int8[(11,)](x, q, s, 250, 250, 250, BLOCK=256)
    want = x.float().abs().amax(1) / 127
    torch.testing.assert_close(s, want)
    torch.testing.assert_close(q.float() * s[:, None], x.float(), atol=float(want.max()) * 0.51, rtol=0)
    x = torch.randn(6, 384, device=device, dtype=torch.bfloat16) * 10
    for dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
        for power, column in ((False, False), (True, True)):
            q = torch.empty_like(x, dtype=dtype)
            s = torch.empty((3, 6) if column else (6, 3), device=device)
            limit = torch.finfo(dtype).max
            _per_token_group_quant_fp8[(18,)](
                x, q, s, 384, 384, s.stride(0) if column else s.stride(1), 1e-10, 128,
                fp8_min=-limit, fp8_max=limit, COLUMN_MAJOR=column, UE8M0=power, BLOCK=128,
            )  # fmt: skip
            got_s = s.T if column else s
            want_s = x.float().view(6, 3, 128).abs().amax(-1) / limit
            if power:
                want_s = torch.exp2(torch.ceil(torch.log2(want_s)))
            torch.testing.assert_close(got_s, want_s)
            want_q = (x.float().view(6, 3, 128) / got_s[..., None]).clamp(-limit, limit).to(dtype)
            got_q = q.float().view(6, 3, 128)
            # Quotients right between two codes may go either way.
            assert float((got_q != want_q.float()).double().mean()) < 2e-3


@triton.jit
def _w8a8_block_fp8_matmul(
    A, B, C, As, Bs, M, N, K, group_n, group_k, stride_am, stride_ak, stride_bk, stride_bn,
    stride_cm, stride_cn, stride_As_m, stride_As_k, stride_Bs_k, stride_Bs_n,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    pid_m = tl.program_id(0)
    pid_n = tl.program_id(1)
    offs_am = (pid_m * BLOCK_M + tl.arange(0, BLOCK_M)) % M
    offs_bn = (pid_n * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    offs_k = tl.arange(0, BLOCK_K)
    a_ptrs = A + (offs_am[:, None] * stride_am + offs_k[None, :] * stride_ak)
    b_ptrs = B + (offs_k[:, None] * stride_bk + offs_bn[None, :] * stride_bn)
    As_ptrs = As + offs_am * stride_As_m
    Bs_ptrs = Bs + (offs_bn // group_n) * stride_Bs_n
    accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_K)):
        a = tl.load(a_ptrs, mask=offs_k[None, :] < K - k * BLOCK_K, other=0.0)
        b = tl.load(b_ptrs, mask=offs_k[:, None] < K - k * BLOCK_K, other=0.0)
        offs_ks = k * BLOCK_K // group_k
        a_s = tl.load(As_ptrs + offs_ks * stride_As_k)
        b_s = tl.load(Bs_ptrs + offs_ks * stride_Bs_k)
        accumulator += tl.dot(a, b) * a_s[:, None] * b_s[None, :]
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk
    if C.dtype.element_ty == tl.bfloat16:
        c = accumulator.to(tl.bfloat16)
    elif C.dtype.element_ty == tl.float16:
        c = accumulator.to(tl.float16)
    else:
        c = accumulator.to(tl.float32)
    offs_cm = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_cn = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    c_ptrs = C + stride_cm * offs_cm[:, None] + stride_cn * offs_cn[None, :]
    tl.store(c_ptrs, c, mask=(offs_cm[:, None] < M) & (offs_cn[None, :] < N))


def check_block_fp8_matmul(device):
    torch.manual_seed(0)
    m, n, k, g = 33, 70, 160, 64
    a = torch.randn(m, k, device=device).to(torch.float8_e4m3fn)
    b = torch.randn(n, k, device=device).to(torch.float8_e4m3fn)
    sa, sb = torch.rand(m, 3, device=device), torch.rand(2, 3, device=device)
    for dtype, tol in ((torch.float32, 1e-4), (torch.bfloat16, 1e-2)):
        c = torch.empty(m, n, device=device, dtype=dtype)
        _w8a8_block_fp8_matmul[(triton.cdiv(m, 16), triton.cdiv(n, 32))](
            a, b, c, sa, sb, m, n, k, g, g, *a.stride(), b.stride(1), b.stride(0), *c.stride(),
            *sa.stride(), sb.stride(1), sb.stride(0), BLOCK_M=16, BLOCK_N=32, BLOCK_K=64,
        )  # fmt: skip
        want = (a.double() * sa.repeat_interleave(g, 1)[:, :k]) @ (
            b.double() * sb.repeat_interleave(g, 0)[:n].repeat_interleave(g, 1)[:, :k]
        ).T
        torch.testing.assert_close(c.double(), want, atol=tol * 10, rtol=tol)


AWQ_ORDER = [0, 4, 1, 5, 2, 6, 3, 7]


@triton.jit
def awq_dequantize_kernel(
    qweight_ptr, scales_ptr, zeros_ptr, group_size, result_ptr, num_cols, num_rows,
    BLOCK_SIZE_X: tl.constexpr, BLOCK_SIZE_Y: tl.constexpr,
):  # fmt: skip
    pid_x = tl.program_id(axis=0)
    pid_y = tl.program_id(axis=1)
    offsets_y = pid_y * BLOCK_SIZE_Y + tl.arange(0, BLOCK_SIZE_Y)
    offsets_x = pid_x * BLOCK_SIZE_X + tl.arange(0, BLOCK_SIZE_X)
    offsets = num_cols * offsets_y[:, None] + offsets_x[None, :]
    masks = (offsets_y < num_rows)[:, None] & (offsets_x < num_cols)[None, :]
    result_offsets_x = pid_x * BLOCK_SIZE_X * 8 + tl.arange(0, BLOCK_SIZE_X * 8)
    result_offsets = 8 * num_cols * offsets_y[:, None] + result_offsets_x[None, :]
    result_masks = (offsets_y < num_rows)[:, None] & (result_offsets_x < num_cols * 8)[None, :]

    iweights = tl.load(qweight_ptr + offsets, masks, 0.0)
    iweights = tl.interleave(iweights, iweights)
    iweights = tl.interleave(iweights, iweights)
    iweights = tl.interleave(iweights, iweights)
    reverse_awq_order_tensor = (
        (tl.arange(0, 2) * 4)[None, :] + tl.arange(0, 4)[:, None]
    ).reshape(8)
    shifts = reverse_awq_order_tensor * 4
    shifts = tl.broadcast_to(shifts[None, :], (BLOCK_SIZE_Y * BLOCK_SIZE_X, 8))
    shifts = tl.reshape(shifts, (BLOCK_SIZE_Y, BLOCK_SIZE_X * 8))
    iweights = (iweights >> shifts) & 0xF

    zero_offsets_y = offsets_y // group_size
    zero_offsets = num_cols * zero_offsets_y[:, None] + offsets_x[None, :]
    zeros = tl.load(zeros_ptr + zero_offsets, masks, 0.0)
    zeros = tl.interleave(zeros, zeros)
    zeros = tl.interleave(zeros, zeros)
    zeros = tl.interleave(zeros, zeros)
    zeros = (zeros >> shifts) & 0xF
    scale_offsets = num_cols * 8 * zero_offsets_y[:, None] + result_offsets_x[None, :]
    scales = tl.load(scales_ptr + scale_offsets, result_masks, 0.0)
    iweights = (iweights - zeros) * scales
    iweights = iweights.to(result_ptr.type.element_ty)
    tl.store(result_ptr + result_offsets, iweights, result_masks)


def _unpack_awq(packed):
    order = torch.tensor(AWQ_ORDER, device=packed.device)
    nibbles = (packed[..., None] >> (torch.arange(8, device=packed.device) * 4)) & 0xF
    return nibbles[..., order].flatten(-2)


def check_awq(device):
    torch.manual_seed(0)
    rows, cols, group = 64, 12, 32
    w = torch.randint(-(2**31), 2**31 - 1, (rows, cols), device=device, dtype=torch.int32)
    z = torch.randint(-(2**31), 2**31 - 1, (rows // group, cols), device=device, dtype=torch.int32)
    s = torch.rand(rows // group, cols * 8, device=device, dtype=torch.float16)
    out = torch.empty(rows, cols * 8, device=device, dtype=torch.float16)
    awq_dequantize_kernel[(triton.cdiv(cols, 8), triton.cdiv(rows, 16))](
        w, s, z, group, out, cols, rows, BLOCK_SIZE_X=8, BLOCK_SIZE_Y=16
    )
    want = (_unpack_awq(w) - _unpack_awq(z).repeat_interleave(group, 0)) * s.repeat_interleave(group, 0)
    torch.testing.assert_close(out, want)


@triton.jit
def _gptq_matmul_kernel(
    a_ptr, b_ptr, c_ptr, scales_ptr, zeros_ptr, g_ptr, M, N, K, stride_am, stride_ak, stride_bk,
    stride_bn, stride_cm, stride_cn, stride_scales, stride_zeros, bits: tl.constexpr, maxq: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, SPLIT_K: tl.constexpr,
):  # fmt: skip
    infearure_per_bits: tl.constexpr = 32 // bits
    pid = tl.program_id(axis=0)
    pid_k = tl.program_id(axis=1)
    num_pid_n = tl.cdiv(N, BLOCK_N)
    pid_m, pid_n = pid // num_pid_n, pid % num_pid_n
    offs_am = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_bn = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = pid_k * BLOCK_K + tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + (offs_am[:, None] * stride_am + offs_k[None, :] * stride_ak)
    a_mask = offs_am[:, None] < M
    b_ptrs = b_ptr + ((offs_k[:, None] // infearure_per_bits) * stride_bk + offs_bn[None, :] * stride_bn)
    g_ptrs = g_ptr + offs_k
    scales_ptrs = scales_ptr + offs_bn[None, :]
    zeros_ptrs = zeros_ptr + (offs_bn[None, :] // infearure_per_bits)
    shifter = (offs_k % infearure_per_bits) * bits
    zeros_shifter = (offs_bn % infearure_per_bits) * bits
    accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _k in range(0, K // (BLOCK_K * SPLIT_K)):
        g_idx = tl.load(g_ptrs)
        scales = tl.load(scales_ptrs + g_idx[:, None] * stride_scales)
        zeros = tl.load(zeros_ptrs + g_idx[:, None] * stride_zeros)
        zeros = (zeros >> zeros_shifter[None, :]) & maxq
        zeros = zeros + 1
        a = tl.load(a_ptrs, mask=a_mask, other=0.0)
        b = tl.load(b_ptrs)
        b = (b >> shifter[:, None]) & maxq
        b = (b - zeros) * scales
        accumulator += tl.dot(a, b.to(a.dtype))
        a_ptrs += BLOCK_K * SPLIT_K * stride_ak
        b_ptrs += ((BLOCK_K * SPLIT_K) // infearure_per_bits) * stride_bk
        g_ptrs += BLOCK_K * SPLIT_K
    c_ptrs = c_ptr + stride_cm * offs_am[:, None] + stride_cn * offs_bn[None, :]
    c_mask = (offs_am[:, None] < M) & (offs_bn[None, :] < N)
    tl.atomic_add(c_ptrs, accumulator, mask=c_mask, sem="relaxed")


def check_gptq(device):
    torch.manual_seed(0)
    m, n, k, bits, groups = 5, 64, 128, 4, 4
    a = torch.randn(m, k, device=device, dtype=torch.float16)
    w = torch.randint(-(2**31), 2**31 - 1, (k // 8, n), device=device, dtype=torch.int32)
    z = torch.randint(-(2**31), 2**31 - 1, (groups, n // 8), device=device, dtype=torch.int32)
    s = torch.rand(groups, n, device=device, dtype=torch.float16)
    g = torch.randint(0, groups, (k,), device=device, dtype=torch.int32)
    c = torch.zeros(m, n, device=device)
    _gptq_matmul_kernel[(1 * 2, 2)](
        a, w, c, s, z, g, m, n, k, *a.stride(), *w.stride(), *c.stride(), s.stride(0), z.stride(0),
        bits, 15, BLOCK_M=16, BLOCK_N=32, BLOCK_K=32, SPLIT_K=2,
    )  # fmt: skip
    shift = torch.arange(8, device=device) * 4
    wi = ((w[:, None, :] >> shift[:, None]) & 15).reshape(k, n)
    zi = ((z[..., None] >> shift) & 15).reshape(groups, n) + 1
    dense = ((wi - zi[g.long()]) * s[g.long()]).half().double()
    torch.testing.assert_close(c.double(), a.double() @ dense, atol=0.2, rtol=1e-2)


@triton.jit
def _nf4_lookup(code):
    """A tree of selects, as there is no table in registers."""
    x = tl.where((code & 8) != 0,
        tl.where((code & 4) != 0,
            tl.where((code & 2) != 0,
                tl.where((code & 1) != 0, 1.0, 0.7229568362236023),
                tl.where((code & 1) != 0, 0.5626170039176941, 0.44070982933044434)),
            tl.where((code & 2) != 0,
                tl.where((code & 1) != 0, 0.33791524171829224, 0.24611230194568634),
                tl.where((code & 1) != 0, 0.16093020141124725, 0.07958029955625534))),
        tl.where((code & 4) != 0,
            tl.where((code & 2) != 0,
                tl.where((code & 1) != 0, 0.0, -0.09105003625154495),
                tl.where((code & 1) != 0, -0.18477343022823334, -0.28444138169288635)),
            tl.where((code & 2) != 0,
                tl.where((code & 1) != 0, -0.39491748809814453, -0.5250730514526367),
                tl.where((code & 1) != 0, -0.6961928009986877, -1.0))))  # fmt: skip
    return x


@triton.jit
def _nf4_dequantize_kernel(packed_ptr, absmax_ptr, out_ptr, n, QUANT_BLOCK: tl.constexpr, SPLIT: tl.constexpr):
    PAIRS: tl.constexpr = SPLIT // 2
    at = tl.program_id(0) * PAIRS + tl.arange(0, PAIRS)
    packed = tl.load(packed_ptr + at, at < n // 2, eviction_policy="evict_first")
    absmax = tl.load(absmax_ptr + at // (QUANT_BLOCK // 2), mask=at < n // 2, other=1.0, eviction_policy="evict_last")
    high = _nf4_lookup((packed >> 4).to(tl.uint8)) * absmax
    low = _nf4_lookup((packed & 0xF).to(tl.uint8, bitcast=True)) * absmax
    out = tl.interleave(high, low)
    block = tl.program_id(0) * SPLIT + tl.arange(0, SPLIT)
    tl.store(out_ptr + block, out, mask=block < n)


def check_nf4(device):
    torch.manual_seed(0)
    table = [-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
             -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
             0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
             0.7229568362236023, 1.0]  # fmt: skip
    n = 1000
    packed = torch.randint(0, 256, (n // 2,), device=device, dtype=torch.uint8)
    absmax = torch.rand(triton.cdiv(n, 64), device=device)
    out = torch.empty(n, device=device, dtype=torch.bfloat16)
    _nf4_dequantize_kernel[(triton.cdiv(n, 512),)](packed, absmax, out, n, 64, SPLIT=512)
    codes = torch.stack((packed >> 4, packed & 15), -1).flatten().long()
    want = torch.tensor(table, device=device)[codes] * absmax.repeat_interleave(64)[:n]
    torch.testing.assert_close(out, want.bfloat16())


@triton.jit
def _adam8bit_kernel(
    p_ptr, g_ptr, m1_ptr, m2_ptr, s1_ptr, s2_ptr, n, lr, beta1, beta2, eps, weight_decay, step,
    BLOCK: tl.constexpr, BLOCKWISE: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    base = (pid * BLOCK + tl.arange(0, BLOCK)).reshape(BLOCK // BLOCKWISE, BLOCKWISE)
    mask = base < n
    scale_at = pid * (BLOCK // BLOCKWISE) + tl.arange(0, BLOCK // BLOCKWISE)
    g = tl.load(g_ptr + base, mask=mask, other=0.0)
    p = tl.load(p_ptr + base, mask=mask, other=0.0)
    s1 = tl.load(s1_ptr + scale_at)
    s2 = tl.load(s2_ptr + scale_at)
    m1 = tl.load(m1_ptr + base, mask=mask, other=0).to(tl.float32) * (s1[:, None] / 127.0)
    m2 = tl.load(m2_ptr + base, mask=mask, other=0).to(tl.float32) * (s2[:, None] / 255.0)
    m1 = beta1 * m1 + (1.0 - beta1) * g
    m2 = beta2 * m2 + (1.0 - beta2) * g * g
    correct1 = 1.0 - libdevice.pow(beta1, step.to(tl.float32))
    correct2 = tl.sqrt(1.0 - libdevice.pow(beta2, step.to(tl.float32)))
    update = (m1 / correct1) / (tl.sqrt(m2) / correct2 + eps)
    tl.store(p_ptr + base, p * (1.0 - lr * weight_decay) - lr * update, mask=mask)
    s1 = tl.max(tl.abs(m1), axis=1)
    s2 = tl.max(m2, axis=1)
    tl.store(s1_ptr + scale_at, s1)
    tl.store(s2_ptr + scale_at, s2)
    q1 = libdevice.rint(m1 * tl.where(s1 > 0, 127.0 / s1, 0.0)[:, None]).to(tl.int8)
    q2 = libdevice.nearbyint(m2 * tl.where(s2 > 0, 255.0 / s2, 0.0)[:, None]).to(tl.uint8)
    tl.store(m1_ptr + base, q1, mask=mask)
    tl.store(m2_ptr + base, q2, mask=mask)


def check_adam8bit(device):
    torch.manual_seed(0)
    n, block, wise = 700, 256, 64
    groups = triton.cdiv(n, block) * block // wise
    p = torch.randn(n, device=device)
    m1 = torch.zeros(n, device=device, dtype=torch.int8)
    m2 = torch.zeros(n, device=device, dtype=torch.uint8)
    s1, s2 = torch.zeros(2, groups, device=device)
    want = p.clone().requires_grad_()
    adam = torch.optim.AdamW([want], lr=1e-2, weight_decay=0.1)
    for step in range(1, 4):
        g = torch.randn(n, device=device)
        want.grad = g.clone()
        adam.step()
        _adam8bit_kernel[(triton.cdiv(n, block),)](
            p, g, m1, m2, s1, s2, n, 1e-2, 0.9, 0.999, 1e-8, 0.1, step, BLOCK=block, BLOCKWISE=wise
        )
        if step == 1:
            torch.testing.assert_close(p, want.detach(), atol=1e-5, rtol=1e-5)
    assert float((p - want.detach()).abs().median()) < 3e-3


if __name__ == "__main__":
    device = triton.runtime.driver.active.get_active_torch_device()
    check_token_quantisation(device)
    check_block_fp8_matmul(device)
    check_awq(device)
    check_gptq(device)
    check_nf4(device)
    check_adam8bit(device)
    print("quantisation: right")
