"""Decoding over a paged cache in two stages, grouped heads, fp8 caches; cache writes; merging."""

import torch
import triton
import triton.language as tl


@triton.jit
def tanh(x):
    # Tanh is just a scaled sigmoid
    return 2 * tl.sigmoid(2 * x) - 1


@triton.jit
def _decode_stage1(
    Q, K_Buffer, V_Buffer, sm_scale, Req_to_tokens, B_Seqlen, Att_Out, k_scale, v_scale,
    stride_req, stride_qbs, stride_qh, stride_kp, stride_kt, stride_kh,
    stride_vp, stride_vt, stride_vh, stride_ob, stride_oh, stride_os,
    kv_group_num: tl.constexpr, q_head_num: tl.constexpr, BLOCK_DMODEL: tl.constexpr,
    BLOCK_DV: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_H: tl.constexpr,
    NUM_KV_SPLITS: tl.constexpr, PAGE_SIZE: tl.constexpr, logit_cap: tl.constexpr,
    Lk: tl.constexpr, Lv: tl.constexpr,
):  # fmt: skip
    cur_batch = tl.program_id(0)
    cur_head_id = tl.program_id(1)
    cur_kv_head = cur_head_id // tl.cdiv(kv_group_num, BLOCK_H)
    split_kv_id = tl.program_id(2)

    VALID_BLOCK_H: tl.constexpr = BLOCK_H if kv_group_num > BLOCK_H else kv_group_num
    cur_head = cur_head_id * VALID_BLOCK_H + tl.arange(0, BLOCK_H)
    mask_h = cur_head < (cur_head_id + 1) * VALID_BLOCK_H
    mask_h = mask_h & (cur_head < q_head_num)

    offs_d = tl.arange(0, BLOCK_DMODEL)
    offs_dv = tl.arange(0, BLOCK_DV)
    mask_d = offs_d < Lk
    mask_dv = offs_dv < Lv
    seq_len = tl.load(B_Seqlen + cur_batch)
    q = tl.load(
        Q + cur_batch * stride_qbs + cur_head[:, None] * stride_qh + offs_d[None, :],
        mask=(mask_h[:, None]) & (mask_d[None, :]), other=0.0,
    )  # fmt: skip
    per_split = tl.cdiv(seq_len, NUM_KV_SPLITS)
    split_start = per_split * split_kv_id
    split_end = tl.minimum(split_start + per_split, seq_len)

    e_max = tl.zeros([BLOCK_H], dtype=tl.float32) - float("inf")
    e_sum = tl.zeros([BLOCK_H], dtype=tl.float32)
    acc = tl.zeros([BLOCK_H, BLOCK_DV], dtype=tl.float32)

    if split_end > split_start:
        ks = tl.load(k_scale)
        vs = tl.load(v_scale)
        for start_n in range(split_start, split_end, BLOCK_N):
            offs_n = start_n + tl.arange(0, BLOCK_N)
            page = tl.load(
                Req_to_tokens + stride_req * cur_batch + offs_n // PAGE_SIZE,
                mask=offs_n < split_end, other=0,
            )  # fmt: skip
            page = page.to(tl.int64)
            offs_k = (
                page[None, :] * stride_kp + (offs_n % PAGE_SIZE)[None, :] * stride_kt
                + cur_kv_head * stride_kh + offs_d[:, None]
            )
            k = tl.load(
                K_Buffer + offs_k,
                mask=(offs_n[None, :] < split_end) & (mask_d[:, None]), other=0.0,
            )  # fmt: skip
            if k.dtype.is_fp8():
                k = (k.to(tl.float32) * ks).to(q.dtype)
            qk = tl.dot(q, k.to(q.dtype))
            qk *= sm_scale
            if logit_cap > 0:
                qk = logit_cap * tanh(qk / logit_cap)
            qk = tl.where(mask_h[:, None] & (offs_n[None, :] < split_end), qk, float("-inf"))
            offs_v = (
                page[:, None] * stride_vp + (offs_n % PAGE_SIZE)[:, None] * stride_vt
                + cur_kv_head * stride_vh + offs_dv[None, :]
            )
            v = tl.load(
                V_Buffer + offs_v,
                mask=(offs_n[:, None] < split_end) & (mask_dv[None, :]), other=0.0,
            )  # fmt: skip
            if v.dtype.is_fp8():
                v = (v.to(tl.float32) * vs).to(q.dtype)
            n_e_max = tl.maximum(tl.max(qk, 1), e_max)
            re_scale = tl.exp(e_max - n_e_max)
            p = tl.exp(qk - n_e_max[:, None])
            acc *= re_scale[:, None]
            acc += tl.dot(p.to(v.dtype), v)
            e_sum = e_sum * re_scale + tl.sum(p, 1)
            e_max = n_e_max

        offs_mid_o = (
            cur_batch * stride_ob + cur_head[:, None] * stride_oh + split_kv_id * stride_os
            + offs_dv[None, :]
        )
        tl.store(
            Att_Out + offs_mid_o, acc / e_sum[:, None],
            mask=(mask_h[:, None]) & (mask_dv[None, :]),
        )  # fmt: skip
        offs_mid_o_1 = cur_batch * stride_ob + cur_head * stride_oh + split_kv_id * stride_os + Lv
        tl.store(Att_Out + offs_mid_o_1, e_max + tl.log(e_sum), mask=mask_h)


@triton.jit
def _decode_stage2(
    Mid_O, o, lse, B_Seqlen, stride_mid_ob, stride_mid_oh, stride_mid_os, stride_obs, stride_oh,
    stride_lse_bs, NUM_KV_SPLITS: tl.constexpr, BLOCK_DV: tl.constexpr, Lv: tl.constexpr,
):  # fmt: skip
    cur_batch = tl.program_id(0)
    cur_head = tl.program_id(1)
    seq_len = tl.load(B_Seqlen + cur_batch)
    offs_d = tl.arange(0, BLOCK_DV)
    mask_d = offs_d < Lv
    e_sum = 0.0
    e_max = -float("inf")
    acc = tl.zeros([BLOCK_DV], dtype=tl.float32)
    offs_v = cur_batch * stride_mid_ob + cur_head * stride_mid_oh + offs_d
    offs_logic = cur_batch * stride_mid_ob + cur_head * stride_mid_oh + Lv
    for split_kv_id in range(0, NUM_KV_SPLITS):
        per_split = tl.cdiv(seq_len, NUM_KV_SPLITS)
        split_start = per_split * split_kv_id
        split_end = tl.minimum(split_start + per_split, seq_len)
        if split_end > split_start:
            tv = tl.load(Mid_O + offs_v + split_kv_id * stride_mid_os, mask=mask_d, other=0.0)
            tlogic = tl.load(Mid_O + offs_logic + split_kv_id * stride_mid_os)
            n_e_max = tl.maximum(tlogic, e_max)
            old_scale = tl.exp(e_max - n_e_max)
            acc *= old_scale
            exp_logic = tl.exp(tlogic - n_e_max)
            acc += exp_logic * tv
            e_sum = e_sum * old_scale + exp_logic
            e_max = n_e_max
    tl.store(o + cur_batch * stride_obs + cur_head * stride_oh + offs_d, acc / e_sum, mask=mask_d)
    tl.store(lse + cur_batch * stride_lse_bs + cur_head, e_max + tl.log(e_sum))


@triton.jit
def reshape_and_cache_kernel(
    key_ptr, value_ptr, key_cache_ptr, value_cache_ptr, slot_mapping_ptr, k_scale, v_scale,
    key_stride: tl.int64, value_stride: tl.int64, block_stride: tl.int64, page_stride: tl.int64,
    num_heads: tl.constexpr, head_size: tl.constexpr, block_size: tl.constexpr,
    FP8_KV_CACHE: tl.constexpr, TILE_SIZE: tl.constexpr,
):  # fmt: skip
    token_idx = tl.program_id(axis=0)
    slot_idx = tl.load(slot_mapping_ptr + token_idx).to(tl.int64)
    if slot_idx < 0:
        # Padding token that should be ignored.
        return
    tile_offs = tl.program_id(axis=1) * TILE_SIZE + tl.arange(0, TILE_SIZE)
    block_idx = slot_idx // block_size
    block_offset = slot_idx % block_size
    tgt_idx = block_idx * block_stride + block_offset * page_stride
    mask = tile_offs < (num_heads * head_size)
    key = tl.load(key_ptr + token_idx * key_stride + tile_offs, mask=mask)
    value = tl.load(value_ptr + token_idx * value_stride + tile_offs, mask=mask)
    if FP8_KV_CACHE:
        key = (key.to(tl.float32) / tl.load(k_scale)).to(key_cache_ptr.dtype.element_ty)
        value = (value.to(tl.float32) / tl.load(v_scale)).to(value_cache_ptr.dtype.element_ty)
    tl.store(key_cache_ptr + tgt_idx + tile_offs, key, mask=mask)
    tl.store(value_cache_ptr + tgt_idx + tile_offs, value, mask=mask)


def check_paged_decode(device):
    torch.manual_seed(0)
    page, heads, kv_heads, d, dv = 8, 6, 2, 48, 40
    lens = torch.tensor([37, 1, 64], device=device, dtype=torch.int32)
    pages = triton.cdiv(int(lens.max()), page)
    table = torch.randperm(3 * pages, device=device, dtype=torch.int32).view(3, pages)
    for cache_dtype, cap, tol in (
        (torch.float16, 0.0, 4e-3), (torch.float16, 20.0, 4e-3), (torch.float8_e4m3fn, 0.0, 2e-2),
    ):  # fmt: skip
        fp8 = cache_dtype == torch.float8_e4m3fn
        ks = torch.tensor([0.02 if fp8 else 1.0], device=device)
        vs = torch.tensor([0.03 if fp8 else 1.0], device=device)
        k_cache = torch.zeros(3 * pages, page, kv_heads, d, device=device).to(cache_dtype)
        v_cache = torch.zeros(3 * pages, page, kv_heads, d, device=device).to(cache_dtype)
        n = int(lens.sum())
        k = torch.randn(n + 1, kv_heads, d, device=device, dtype=torch.float16)
        v = torch.randn(n + 1, kv_heads, d, device=device, dtype=torch.float16)
        slots = [
            int(table[b, i // page]) * page + i % page for b in range(3) for i in range(lens[b])
        ]
        slot_mapping = torch.tensor([*slots, -1], device=device)
        reshape_and_cache_kernel[(n + 1, 2)](
            k, v, k_cache, v_cache, slot_mapping, ks, vs, k.stride(0), v.stride(0),
            k_cache.stride(0), k_cache.stride(1), kv_heads, d, page, fp8, TILE_SIZE=64,
        )  # fmt: skip
        want_cache = torch.zeros(3 * pages * page, kv_heads, d, device=device)
        want_cache[slot_mapping[:-1]] = (k[:-1].float() / ks).to(cache_dtype).float()
        torch.testing.assert_close(k_cache.float().view(-1, kv_heads, d), want_cache)
        q = torch.randn(3, heads, d, device=device, dtype=torch.float16)
        splits = 4
        mid = torch.full((3, heads, splits, dv + 1), float("nan"), device=device)
        out = torch.empty(3, heads, dv, device=device, dtype=torch.float16)
        lse = torch.empty(3, heads, device=device)
        group = heads // kv_heads
        _decode_stage1[(3, triton.cdiv(heads, min(16, group)), splits)](
            q, k_cache, v_cache, d**-0.5, table, lens, mid, ks, vs, table.stride(0),
            *q.stride()[:2], *k_cache.stride()[:3], *v_cache.stride()[:3], *mid.stride()[:3],
            kv_group_num=group, q_head_num=heads, BLOCK_DMODEL=64, BLOCK_DV=64, BLOCK_N=32,
            BLOCK_H=16, NUM_KV_SPLITS=splits, PAGE_SIZE=page, logit_cap=cap, Lk=d, Lv=dv,
            num_warps=4, num_stages=2,
        )  # fmt: skip
        _decode_stage2[(3, heads)](
            mid, out, lse, lens, *mid.stride()[:3], *out.stride()[:2], lse.stride(0),
            NUM_KV_SPLITS=splits, BLOCK_DV=64, Lv=dv, num_warps=4,
        )
        start = 0
        for b in range(3):
            these = slice(start, start + int(lens[b]))
            start += int(lens[b])
            kk = k[these].double().repeat_interleave(group, 1)
            vv = v[these].double().repeat_interleave(group, 1)[..., :dv]
            s = torch.einsum("hd,nhd->hn", q[b].double(), kk) * d**-0.5
            s = cap * torch.tanh(s / cap) if cap else s
            want = torch.einsum("hn,nhd->hd", s.softmax(-1), vv)
            torch.testing.assert_close(out[b].double(), want, atol=tol * 3, rtol=tol * 3)
            torch.testing.assert_close(lse[b].double(), s.logsumexp(-1), atol=tol * 2, rtol=tol)


@triton.jit
def _merge_kernel(
    output, output_lse, prefix_output, prefix_lse, suffix_output, suffix_lse,
    HEAD_SIZE: tl.constexpr, PADDED_HEAD_SIZE: tl.constexpr, OUTPUT_LSE: tl.constexpr,
):  # fmt: skip
    token_idx = tl.program_id(0)
    num_tokens = tl.num_programs(0)
    head_idx = tl.program_id(1)
    num_heads = tl.num_programs(1)
    p_lse = tl.load(prefix_lse + head_idx * num_tokens + token_idx)
    s_lse = tl.load(suffix_lse + head_idx * num_tokens + token_idx)
    p_lse = float("-inf") if p_lse == float("inf") else p_lse
    s_lse = float("-inf") if s_lse == float("inf") else s_lse
    max_lse = tl.maximum(p_lse, s_lse)
    p_lse = p_lse - max_lse
    s_lse = s_lse - max_lse
    p_se = tl.exp(p_lse)
    s_se = tl.exp(s_lse)
    out_se = p_se + s_se
    if OUTPUT_LSE:
        tl.store(output_lse + head_idx * num_tokens + token_idx, tl.log(out_se) + max_lse)
    head_arange = tl.arange(0, PADDED_HEAD_SIZE)
    head_mask = head_arange < HEAD_SIZE
    at = token_idx * num_heads * HEAD_SIZE + head_idx * HEAD_SIZE + head_arange
    p_out = tl.load(prefix_output + at, mask=head_mask)
    s_out = tl.load(suffix_output + at, mask=head_mask)
    out = p_out * (p_se / out_se) + s_out * (s_se / out_se)
    tl.store(output + at, out, mask=head_mask)


def check_merge(device):
    torch.manual_seed(0)
    p, s = torch.randn(2, 5, 3, 20, device=device)
    pl, sl = torch.randn(2, 3, 5, device=device)
    pl[1, 2] = float("inf")
    out, lse = torch.empty_like(p), torch.empty_like(pl)
    _merge_kernel[(5, 3)](out, lse, p, pl, s, sl, 20, 32, True)
    pl = torch.where(pl == float("inf"), -float("inf"), pl)
    want_lse = torch.logaddexp(pl, sl)
    w1, w2 = ((x - want_lse).exp().T[..., None] for x in (pl, sl))
    torch.testing.assert_close(lse, want_lse)
    torch.testing.assert_close(out, p * w1 + s * w2)


if __name__ == "__main__":
    device = triton.runtime.driver.active.get_active_torch_device()
    check_paged_decode(device)
    check_merge(device)
    print("paged attention: right")
