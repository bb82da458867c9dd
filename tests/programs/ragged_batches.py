"""Batches of different sizes: attention over cumulative lengths, products by arrays of addresses, gates with bit masks."""
# ruff: noqa: E501  (lines as long as such programs have them)

import torch
import triton
import triton.language as tl


@triton.jit
def _varlen_kernel(q_ptr, k_ptr, v_ptr, o_ptr, cu_q, cu_k, stride_t, stride_h, scale, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr):
    block, head, seq = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    q0 = tl.load(cu_q + seq)
    lq = tl.load(cu_q + seq + 1) - q0
    if block * BM >= lq:
        return
    k0 = tl.load(cu_k + seq)
    lk = tl.load(cu_k + seq + 1) - k0
    rm = block * BM + tl.arange(0, BM)
    rd = tl.arange(0, D)
    out = o_ptr + (q0 + rm)[:, None] * stride_t + head * stride_h + rd[None, :]
    if lk == 0:
        tl.store(out, 0., mask=(rm < lq)[:, None])
        return
    q = tl.load(q_ptr + (q0 + rm)[:, None] * stride_t + head * stride_h + rd[None, :], mask=(rm < lq)[:, None], other=0.)
    m = tl.full((BM,), -1e30, tl.float32)
    l = tl.full((BM,), 0, tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    end = lk
    if CAUSAL:
        end = min(lk, (block + 1) * BM + lk - lq)
    for n in tl.range(0, end, BN, num_stages=3):
        rn = n + tl.arange(0, BN)
        k = tl.load(k_ptr + (k0 + rn)[None, :] * stride_t + head * stride_h + rd[:, None], mask=rn[None, :] < lk, other=0.)
        s = tl.dot(q, k, input_precision="ieee") * scale
        seen = rn[None, :] < lk
        if CAUSAL:
            seen = seen & (rm[:, None] + (lk - lq) >= rn[None, :])
        s = tl.where(seen, s, -1e30)
        largest = tl.maximum(m, tl.max(s, axis=1))
        p = tl.where(seen, tl.exp(s - largest[:, None]), 0.)
        decay = tl.exp(m - largest)
        l = l * decay + tl.sum(p, axis=1)
        v = tl.load(v_ptr + (k0 + rn)[:, None] * stride_t + head * stride_h + rd[None, :], mask=rn[:, None] < lk, other=0.)
        acc = acc * decay[:, None] + tl.dot(p.to(v.dtype), v, input_precision="ieee")
        m = largest
    acc = acc / tl.where(l == 0, 1, l)[:, None]
    tl.store(out, acc, mask=(rm < lq)[:, None])


def check_varlen_attention(device):
    torch.manual_seed(0)
    lens_q, lens_k, H, D = [5, 0, 33, 17], [9, 3, 40, 0], 2, 16
    cu_q = torch.tensor([0, 5, 5, 38, 55], dtype=torch.int32, device=device)
    cu_k = torch.tensor([0, 9, 12, 52, 52], dtype=torch.int32, device=device)
    q = torch.randn(sum(lens_q), H, D, device=device)
    k, v = (torch.randn(sum(lens_k), H, D, device=device) for _ in range(2))
    for causal in (False, True):
        o = torch.full_like(q, 7)
        _varlen_kernel[(triton.cdiv(33, 16), H, 4)](q, k, v, o, cu_q, cu_k, H * D, D, 0.2, 16, 16, D, CAUSAL=causal)
        parts = zip(q.split(lens_q), k.split(lens_k), v.split(lens_k), strict=True)
        for (a, b, c), got in zip(parts, o.split(lens_q), strict=True):
            s = torch.einsum("qhd,khd->hqk", a, b) * 0.2
            if causal:
                hidden = torch.ones(len(a), len(b), device=device).triu(1 + len(b) - len(a)).bool()
                s = s.masked_fill(hidden, float("-inf"))
            want = torch.einsum("hqk,khd->qhd", torch.softmax(s, -1).nan_to_num(), c)
            torch.testing.assert_close(got, want, atol=1e-4, rtol=1e-4)


@triton.jit
def _grouped_kernel(as_ptr, bs_ptr, cs_ptr, sizes_ptr, groups, PROGRAMS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    tile = tl.program_id(0)
    last = 0
    for g in range(groups):
        M = tl.load(sizes_ptr + g * 3)
        N = tl.load(sizes_ptr + g * 3 + 1)
        K = tl.load(sizes_ptr + g * 3 + 2)
        across = tl.cdiv(N, BN)
        tiles = tl.cdiv(M, BM) * across
        while tile >= last and tile < last + tiles:
            a_ptr = tl.load(as_ptr + g).to(tl.pointer_type(tl.float16))
            b_ptr = tl.load(bs_ptr + g).to(tl.pointer_type(tl.float16))
            c_ptr = tl.load(cs_ptr + g).to(tl.pointer_type(tl.float16))
            om = (tile - last) // across * BM + tl.arange(0, BM)
            on = (tile - last) % across * BN + tl.arange(0, BN)
            ok = tl.arange(0, BK)
            a_ptrs = a_ptr + om[:, None] * K + ok[None, :]
            b_ptrs = b_ptr + ok[:, None] * N + on[None, :]
            acc = tl.zeros((BM, BN), dtype=tl.float32)
            for k in range(0, tl.cdiv(K, BK)):
                a = tl.load(a_ptrs, mask=(om[:, None] < M) & (k * BK + ok[None, :] < K), other=0.0)
                b = tl.load(b_ptrs, mask=(on[None, :] < N) & (k * BK + ok[:, None] < K), other=0.0)
                acc += tl.dot(a, b)
                a_ptrs += BK
                b_ptrs += BK * N
            tl.store(c_ptr + om[:, None] * N + on[None, :], acc.to(tl.float16), mask=(om[:, None] < M) & (on[None, :] < N))
            tile += PROGRAMS
        last = last + tiles


def check_grouped_products(device):
    torch.manual_seed(0)
    shapes = [(40, 33, 50), (16, 80, 32), (1, 16, 8)]
    A = [torch.randn(m, k, dtype=torch.float16, device=device) for m, n, k in shapes]
    B = [torch.randn(k, n, dtype=torch.float16, device=device) for m, n, k in shapes]
    C = [torch.empty(m, n, dtype=torch.float16, device=device) for m, n, k in shapes]
    addresses = [torch.tensor([t.data_ptr() for t in ts], device=device) for ts in (A, B, C)]
    sizes = torch.tensor(shapes, dtype=torch.int32, device=device)
    _grouped_kernel[(3,)](*addresses, sizes, 3, PROGRAMS=3, BM=32, BN=32, BK=16)
    for a, b, c in zip(A, B, C, strict=True):
        torch.testing.assert_close(c.float(), a.float() @ b.float(), atol=2e-2, rtol=2e-2)


@triton.jit
def _ordered(x):
    """The bits of floats as unsigned numbers of the same order."""
    top: tl.constexpr = 1 << (x.dtype.primitive_bitwidth - 1)
    every: tl.constexpr = (1 << x.dtype.primitive_bitwidth) - 1
    return (x ^ tl.where((x & top) != 0, every, top)).to(x.dtype)


@triton.jit
def _unordered(x):
    top: tl.constexpr = 1 << (x.dtype.primitive_bitwidth - 1)
    every: tl.constexpr = (1 << x.dtype.primitive_bitwidth) - 1
    return (x ^ tl.where((x & top) == 0, every, top)).to(x.dtype)


@triton.jit
def _gate_kernel(x_ptr, values_ptr, indices_ptr, bits_ptr, rows, columns, BM: tl.constexpr, BN: tl.constexpr, K: tl.constexpr):
    x_dtype: tl.constexpr = x_ptr.dtype.element_ty
    bits: tl.constexpr = x_dtype.primitive_bitwidth
    key_dtype: tl.constexpr = tl.dtype(f"uint{bits}")
    pair_dtype: tl.constexpr = tl.dtype(f"uint{2 * bits}")
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.arange(0, BN)
    inside = rm[:, None] < rows
    x = tl.load(x_ptr + rm[:, None] * columns + rn[None, :], mask=inside & (rn[None, :] < columns), other=float("-inf"))
    key = _ordered(x.to(key_dtype, bitcast=True))
    pair = (key.to(pair_dtype) << bits) | (BN - 1 - rn)[None, :].to(pair_dtype)
    best = tl.topk(pair, K, dim=1)
    index = BN - 1 - (best & 0xFFFF).to(tl.int32)
    value = _unordered((best >> bits).to(key_dtype)).to(x_dtype, bitcast=True).to(tl.float32)
    place = rm[:, None] * K + tl.arange(0, K)[None, :]
    tl.store(values_ptr + place, tl.softmax(value, dim=1, keep_dims=True), mask=inside)
    tl.store(indices_ptr + place, index.to(tl.int16), mask=inside)
    for word in tl.static_range(BN // 32):
        chosen = tl.where(index // 32 == word, (1 << (index % 32)).to(tl.uint32), 0)
        tl.store(bits_ptr + rm * (BN // 32) + word, tl.reduce_or(chosen, axis=1), mask=rm < rows)


def check_gates(device):
    torch.manual_seed(0)
    for dtype, rows, columns, k in ((torch.bfloat16, 19, 50, 4), (torch.float32, 3, 33, 2)):
        x = torch.randn(rows, columns, dtype=dtype, device=device)
        values = torch.empty(rows, k, device=device)
        indices = torch.empty(rows, k, dtype=torch.int16, device=device)
        words = torch.zeros(rows, 2, dtype=torch.int32, device=device)
        _gate_kernel[(triton.cdiv(rows, 8),)](x, values, indices, words, rows, columns, BM=8, BN=64, K=k)
        want, places = torch.sort(x.float(), dim=1, descending=True, stable=True)
        assert torch.equal(indices.long(), places[:, :k])
        torch.testing.assert_close(values, torch.softmax(want[:, :k], -1))
        got = (words[:, :, None] >> torch.arange(32, device=device)) & 1
        assert torch.equal(got.flatten(1), torch.zeros_like(got.flatten(1)).scatter(1, places[:, :k], 1))
