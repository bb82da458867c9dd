"""Mixture of experts: routing tables with atomics, grouped products with fp8 and int8 weights."""
# ruff: noqa: E501  (lines as long as such programs have them)

import torch
import triton
import triton.language as tl


@triton.jit
def align_stage1(topk_ids_ptr, tokens_cnts_ptr, num_experts: tl.constexpr, numel: tl.constexpr, tokens_per_thread: tl.constexpr):
    pid = tl.program_id(0)
    start_idx = pid * tokens_per_thread
    off_c = (pid + 1) * num_experts
    for i in range(tokens_per_thread):
        if start_idx + i < numel:
            idx = tl.load(topk_ids_ptr + start_idx + i)
            token_cnt = tl.load(tokens_cnts_ptr + off_c + idx)
            tl.store(tokens_cnts_ptr + off_c + idx, token_cnt + 1)


@triton.jit
def align_stage2(tokens_cnts_ptr, num_experts: tl.constexpr):
    pid = tl.program_id(0)
    last_cnt = 0
    for i in range(1, num_experts + 1):
        token_cnt = tl.load(tokens_cnts_ptr + i * num_experts + pid)
        last_cnt = last_cnt + token_cnt
        tl.store(tokens_cnts_ptr + i * num_experts + pid, last_cnt)


@triton.jit
def align_stage3(total_ptr, tokens_cnts_ptr, cumsum_ptr, num_experts: tl.constexpr, block_size: tl.constexpr):
    last_cumsum = 0
    off_cnt = num_experts * num_experts
    for i in range(1, num_experts + 1):
        token_cnt = tl.load(tokens_cnts_ptr + off_cnt + i - 1)
        last_cumsum = last_cumsum + tl.cdiv(token_cnt, block_size) * block_size
        tl.store(cumsum_ptr + i, last_cumsum)
    tl.store(total_ptr, last_cumsum)


@triton.jit
def align_stage4(topk_ids_ptr, sorted_ptr, expert_ids_ptr, tokens_cnts_ptr, cumsum_ptr, num_experts: tl.constexpr, block_size: tl.constexpr, numel: tl.constexpr, tokens_per_thread: tl.constexpr):
    pid = tl.program_id(0)
    start_idx = tl.load(cumsum_ptr + pid)
    end_idx = tl.load(cumsum_ptr + pid + 1)
    for i in range(start_idx, end_idx, block_size):
        tl.store(expert_ids_ptr + i // block_size, pid)
    start_idx = pid * tokens_per_thread
    off_t = pid * num_experts
    for i in range(start_idx, tl.minimum(start_idx + tokens_per_thread, numel)):
        expert_id = tl.load(topk_ids_ptr + i)
        token_cnt = tl.load(tokens_cnts_ptr + off_t + expert_id)
        rank_post_pad = token_cnt + tl.load(cumsum_ptr + expert_id)
        tl.store(sorted_ptr + rank_post_pad, i)
        tl.store(tokens_cnts_ptr + off_t + expert_id, token_cnt + 1)


def align(topk_ids, block_size, experts):
    numel = topk_ids.numel()
    most = numel + experts * (block_size - 1)
    sorted_ids = torch.full((most,), numel, dtype=torch.int32, device=topk_ids.device)
    expert_ids = torch.full((triton.cdiv(most, block_size),), -1, dtype=torch.int32, device=topk_ids.device)
    total = torch.empty(1, dtype=torch.int32, device=topk_ids.device)
    counts = torch.zeros((experts + 1, experts), dtype=torch.int32, device=topk_ids.device)
    cumsum = torch.zeros(experts + 1, dtype=torch.int32, device=topk_ids.device)
    each = triton.cdiv(numel, experts)
    grid = (experts,)
    align_stage1[grid](topk_ids, counts, experts, numel, each)
    align_stage2[grid](counts, experts)
    align_stage3[(1,)](total, counts, cumsum, experts, block_size)
    align_stage4[grid](topk_ids, sorted_ids, expert_ids, counts, cumsum, experts, block_size, numel, each)
    return sorted_ids, expert_ids, total


@triton.jit
def write_zeros_to_output(c_ptr, stride_cm, stride_cn, pid_n, N, offs_token, token_mask, BLOCK_SIZE_M, BLOCK_SIZE_N, compute_type):
    accumulator = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=compute_type)
    offs_cn = pid_n * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)
    c_ptrs = c_ptr + stride_cm * offs_token[:, None] + stride_cn * offs_cn[None, :]
    c_mask = token_mask[:, None] & (offs_cn[None, :] < N)
    tl.store(c_ptrs, accumulator, mask=c_mask)


@triton.jit
def fused_moe_kernel(
    a_ptr, b_ptr, c_ptr, a_scale_ptr, b_scale_ptr, topk_weights_ptr,
    sorted_token_ids_ptr, expert_ids_ptr, num_tokens_post_padded_ptr,
    N, K, EM, num_valid_tokens,
    stride_am, stride_ak, stride_be, stride_bk, stride_bn, stride_cm, stride_cn,
    stride_asm, stride_ask, stride_bse, stride_bsk, stride_bsn,
    group_n: tl.constexpr, group_k: tl.constexpr,
    BLOCK_SIZE_M: tl.constexpr, BLOCK_SIZE_N: tl.constexpr, BLOCK_SIZE_K: tl.constexpr,
    GROUP_SIZE_M: tl.constexpr, MUL_ROUTED_WEIGHT: tl.constexpr, top_k: tl.constexpr,
    compute_type: tl.constexpr, use_fp8: tl.constexpr, use_int8: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(axis=0)
    num_pid_m = tl.cdiv(EM, BLOCK_SIZE_M)
    num_pid_n = tl.cdiv(N, BLOCK_SIZE_N)
    num_pid_in_group = GROUP_SIZE_M * num_pid_n
    group_id = pid // num_pid_in_group
    first_pid_m = group_id * GROUP_SIZE_M
    group_size_m = min(num_pid_m - first_pid_m, GROUP_SIZE_M)
    pid_m = first_pid_m + ((pid % num_pid_in_group) % group_size_m)
    pid_n = (pid % num_pid_in_group) // group_size_m

    num_tokens_post_padded = tl.load(num_tokens_post_padded_ptr)
    if pid_m * BLOCK_SIZE_M >= num_tokens_post_padded:
        return
    offs_token_id = pid_m * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M).to(tl.int64)
    offs_token = tl.load(sorted_token_ids_ptr + offs_token_id)
    token_mask = offs_token < num_valid_tokens

    off_experts = tl.load(expert_ids_ptr + pid_m).to(tl.int64)
    if off_experts == 1:
        # This expert lives elsewhere.
        write_zeros_to_output(
            c_ptr, stride_cm, stride_cn, pid_n, N, offs_token, token_mask,
            BLOCK_SIZE_M, BLOCK_SIZE_N, compute_type,
        )  # fmt: skip
        return

    offs_bn = (pid_n * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N).to(tl.int64)) % N
    offs_k = tl.arange(0, BLOCK_SIZE_K)
    a_ptrs = a_ptr + (offs_token[:, None] // top_k * stride_am + offs_k[None, :] * stride_ak)
    b_ptrs = (
        b_ptr + off_experts * stride_be + (offs_k[:, None] * stride_bk + offs_bn[None, :] * stride_bn)
    )
    if use_int8:
        b_scale = tl.load(b_scale_ptr + off_experts * stride_bse + offs_bn[None, :] * stride_bsn)
        a_scale = tl.load(a_scale_ptr + (offs_token // top_k) * stride_asm, mask=token_mask, other=0.0)[:, None]
        accumulator = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=tl.int32)
    else:
        if use_fp8:
            if group_k > 0 and group_n > 0:
                a_scale_ptrs = a_scale_ptr + (offs_token // top_k) * stride_asm
                offs_bsn = offs_bn // group_n
                b_scale_ptrs = b_scale_ptr + off_experts * stride_bse + offs_bsn * stride_bsn
            else:
                a_scale = tl.load(a_scale_ptr)
                b_scale = tl.load(b_scale_ptr + off_experts)
        accumulator = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_SIZE_K)):
        a = tl.load(
            a_ptrs,
            mask=token_mask[:, None] & (offs_k[None, :] < K - k * BLOCK_SIZE_K),
            other=0.0,
        )
        b = tl.load(b_ptrs, mask=offs_k[:, None] < K - k * BLOCK_SIZE_K, other=0.0)
        if use_fp8:
            if group_k > 0 and group_n > 0:
                k_start = k * BLOCK_SIZE_K
                offs_ks = k_start // group_k
                a_scale = tl.load(a_scale_ptrs + offs_ks * stride_ask, mask=token_mask, other=0.0)
                b_scale = tl.load(b_scale_ptrs + offs_ks * stride_bsk)
                accumulator += tl.dot(a, b) * a_scale[:, None] * b_scale[None, :]
            else:
                accumulator = tl.dot(a, b, acc=accumulator)
        else:
            accumulator += tl.dot(a, b)
        a_ptrs += BLOCK_SIZE_K * stride_ak
        b_ptrs += BLOCK_SIZE_K * stride_bk

    if MUL_ROUTED_WEIGHT:
        moe_weight = tl.load(topk_weights_ptr + offs_token, mask=token_mask, other=0)
        accumulator = accumulator * moe_weight[:, None]
    if use_int8:
        accumulator = (accumulator * a_scale * b_scale).to(compute_type)
    elif use_fp8:
        if group_k > 0 and group_n > 0:
            accumulator = accumulator.to(compute_type)
        else:
            accumulator = (accumulator * a_scale * b_scale).to(compute_type)
    else:
        accumulator = accumulator.to(compute_type)
    offs_cn = pid_n * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)
    c_ptrs = c_ptr + stride_cm * offs_token[:, None] + stride_cn * offs_cn[None, :]
    c_mask = token_mask[:, None] & (offs_cn[None, :] < N)
    tl.store(c_ptrs, accumulator, mask=c_mask)


def check_fused_moe(device):
    torch.manual_seed(0)
    tokens, experts, top_k, n, k = 21, 4, 2, 80, 96
    ids = torch.stack([torch.randperm(experts)[:top_k] for _ in range(tokens)]).int().to(device)
    weights = torch.rand(tokens, top_k, device=device)
    block = 16
    sorted_ids, expert_ids, total = align(ids, block, experts)
    flat = ids.flatten()
    place = 0
    for e in range(experts):
        mine = (flat == e).nonzero().flatten()
        assert torch.equal(sorted_ids[place : place + len(mine)].sort().values, mine.int())
        place += triton.cdiv(len(mine), block) * block
    assert int(total) == place

    a32 = torch.randn(tokens, k, device=device)
    b32 = torch.randn(experts, n, k, device=device)
    for kind in ("bf16", "fp8", "fp8-blocks", "int8"):
        sa = sb = None
        group_n = group_k = 0
        if kind == "bf16":
            a, b = a32.bfloat16(), b32.bfloat16()
            ad, bd = a.double(), b.double()
        elif kind == "fp8":
            sa, sb = torch.tensor([0.02], device=device), torch.rand(experts, device=device) / 50 + 0.02
            a, b = (a32 / sa).to(torch.float8_e4m3fn), (b32 / sb[:, None, None]).to(torch.float8_e4m3fn)
            ad, bd = a.double() * sa, b.double() * sb[:, None, None]
        elif kind == "fp8-blocks":
            group_n = group_k = 32
            sa = torch.rand(tokens, 3, device=device) + 0.5
            sb = torch.rand(experts, 3, 3, device=device) + 0.5
            a, b = a32.to(torch.float8_e4m3fn), b32.to(torch.float8_e4m3fn)
            ad = a.double() * sa.repeat_interleave(32, 1)
            bd = b.double() * sb.repeat_interleave(32, 1)[:, :n].repeat_interleave(32, 2)
        else:
            sa, sb = a32.abs().amax(1, keepdim=True) / 127, b32.abs().amax(2) / 127
            a, b = (a32 / sa).round().to(torch.int8), (b32 / sb[..., None]).round().to(torch.int8)
            ad, bd = a.double() * sa, b.double() * sb[..., None]
        c = torch.full((tokens * top_k, n), float("nan"), device=device, dtype=torch.bfloat16)
        grid = lambda META: (  # noqa: E731
            triton.cdiv(sorted_ids.numel(), META["BLOCK_SIZE_M"]) * triton.cdiv(n, META["BLOCK_SIZE_N"]),
        )
        fused_moe_kernel[grid](
            a, b, c, sa, sb, weights, sorted_ids, expert_ids, total,
            n, k, sorted_ids.numel(), ids.numel(),
            a.stride(0), a.stride(1), b.stride(0), b.stride(2), b.stride(1), c.stride(0), c.stride(1),
            sa.stride(0) if sa is not None and sa.ndim == 2 else 0,
            sa.stride(1) if sa is not None and sa.ndim == 2 else 0,
            sb.stride(0) if sb is not None and sb.ndim >= 2 else 0,
            sb.stride(2) if sb is not None and sb.ndim == 3 else 0,
            sb.stride(1) if sb is not None and sb.ndim >= 2 else 0,
            group_n, group_k, BLOCK_SIZE_M=block, BLOCK_SIZE_N=32, BLOCK_SIZE_K=32, GROUP_SIZE_M=4,
            MUL_ROUTED_WEIGHT=True, top_k=top_k, compute_type=tl.bfloat16,
            use_fp8=kind.startswith("fp8"), use_int8=kind == "int8",
        )  # fmt: skip
        want = torch.einsum("tk,tjnk->tjn", ad, bd[ids.long()]) * weights[..., None]
        want[ids == 1] = 0
        torch.testing.assert_close(c.double().view(tokens, top_k, n), want, atol=0.1, rtol=2e-2)


@triton.jit
def _grouped_topk_kernel(
    logits_ptr, bias_ptr, weights_ptr, ids_ptr, stride, EXPERTS: tl.constexpr,
    GROUPS: tl.constexpr, TOPK_GROUPS: tl.constexpr, TOPK: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    per: tl.constexpr = EXPERTS // GROUPS
    e = tl.arange(0, EXPERTS)
    scores = tl.sigmoid(tl.load(logits_ptr + row * stride + e).to(tl.float32))
    biased = scores + tl.load(bias_ptr + e)
    grouped = tl.reshape(biased, (GROUPS, per))
    first, where = tl.max(grouped, axis=1, return_indices=True)
    rest = tl.where(tl.arange(0, per)[None, :] == where[:, None], -float("inf"), grouped)
    group_score = first + tl.max(rest, axis=1)
    g = tl.arange(0, GROUPS)
    keep = g < 0
    for _ in tl.static_range(TOPK_GROUPS):
        best = tl.argmax(tl.where(keep, -float("inf"), group_score), axis=0)
        keep = keep | (g == best)
    keep2 = tl.broadcast_to(keep[:, None], (GROUPS, per)).reshape(EXPERTS)
    left = tl.where(keep2, biased, -float("inf"))
    slot = tl.arange(0, BLOCK_K)
    chosen = tl.zeros((BLOCK_K,), tl.int32)
    weight = tl.zeros((BLOCK_K,), tl.float32)
    for i in tl.range(TOPK):
        best = tl.argmax(left, axis=0)
        w = tl.sum(tl.where(e == best, scores, 0.0))
        chosen = tl.where(slot == i, best, chosen)
        weight = tl.where(slot == i, w, weight)
        left = tl.where(e == best, -float("inf"), left)
    weight /= tl.sum(weight, axis=0)
    tl.store(weights_ptr + row * TOPK + slot, weight, mask=slot < TOPK)
    tl.store(ids_ptr + row * TOPK + slot, chosen, mask=slot < TOPK)


def check_grouped_topk(device):
    torch.manual_seed(0)
    logits = torch.randn(13, 64, device=device)
    bias = torch.randn(64, device=device) * 0.1
    weights = torch.empty(13, 6, device=device)
    ids = torch.empty(13, 6, device=device, dtype=torch.int32)
    _grouped_topk_kernel[(13,)](logits, bias, weights, ids, 64, 64, 8, 3, 6, 8)
    scores = logits.sigmoid()
    biased = scores + bias
    groups = biased.view(13, 8, 8).topk(2, -1).values.sum(-1).topk(3, -1).indices
    keep = torch.zeros(13, 8, dtype=torch.bool, device=device).scatter_(1, groups, True)
    left = biased.masked_fill(~keep.repeat_interleave(8, 1), -float("inf"))
    want_ids = left.topk(6, -1).indices
    torch.testing.assert_close(ids.long(), want_ids)
    want = scores.gather(1, want_ids)
    torch.testing.assert_close(weights, want / want.sum(-1, keepdim=True))


if __name__ == "__main__":
    device = triton.runtime.driver.active.get_active_torch_device()
    check_fused_moe(device)
    check_grouped_topk(device)
    print("mixture of experts: right")
