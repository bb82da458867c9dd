"""Assorted kernels: convolution by implicit products, bit matrices, sparse blocks, integer hashes,
grid sampling, non-maximum suppression, a transform of Walsh and Hadamard, sampling."""
# ruff: noqa: E501  (lines as long as such programs have them)

import torch
import triton
import triton.language as tl


@triton.jit
def _conv2d_kernel(x_ptr, w_ptr, b_ptr, y_ptr, N, C, H, W, K, P, Q, stride: tl.constexpr, pad: tl.constexpr, R: tl.constexpr, S: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    batch, rest = m // (P * Q), m % (P * Q)
    p, q = rest // Q, rest % Q
    acc = tl.zeros((BM, BN), tl.float32)
    for r in tl.static_range(R):
        for s in tl.static_range(S):
            h = p * stride - pad + r
            w = q * stride - pad + s
            inside = (h >= 0) & (h < H) & (w >= 0) & (w < W) & (batch < N)
            for c0 in range(0, C, BK):
                c = c0 + tl.arange(0, BK)
                x = tl.load(x_ptr + ((batch * H + h) * W + w)[:, None] * C + c[None, :], mask=inside[:, None] & (c < C)[None, :], other=0.0)
                f = tl.load(w_ptr + ((r * S + s) * C + c)[:, None] * K + n[None, :], mask=(c < C)[:, None] & (n < K)[None, :], other=0.0)
                acc = tl.dot(x, f, acc, input_precision="ieee")
    acc += tl.load(b_ptr + n, mask=n < K, other=0.0)[None, :]
    tl.store(y_ptr + m[:, None] * K + n[None, :], acc, mask=(m < N * P * Q)[:, None] & (n < K)[None, :])


def check_convolution(device):
    torch.manual_seed(0)
    N, C, H, W, K, R = 2, 20, 9, 11, 24, 3
    x, w, b = torch.randn(N, H, W, C, device=device), torch.randn(R, R, C, K, device=device), torch.randn(K, device=device)
    for stride, pad in ((1, 1), (2, 0)):
        P, Q = (H + 2 * pad - R) // stride + 1, (W + 2 * pad - R) // stride + 1
        y = torch.empty(N, P, Q, K, device=device)
        _conv2d_kernel[(triton.cdiv(N * P * Q, 32), triton.cdiv(K, 16))](x, w, b, y, N, C, H, W, K, P, Q, stride, pad, R, R, BM=32, BN=16, BK=16)
        want = torch.nn.functional.conv2d(x.permute(0, 3, 1, 2), w.permute(3, 2, 0, 1), b, stride, pad)
        torch.testing.assert_close(y.permute(0, 3, 1, 2), want, atol=1e-3, rtol=1e-3)


@triton.jit
def _pack_bits_kernel(x_ptr, out_ptr, counts_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    word = tl.arange(0, BLOCK)[:, None]
    bit = tl.arange(0, 32)[None, :]
    at = word * 32 + bit
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=0.0) > 0
    packed = tl.sum(x.to(tl.uint32) << bit.to(tl.uint32), axis=1)
    words = tl.cdiv(columns, 32)
    tl.store(out_ptr + row * words + tl.arange(0, BLOCK), packed, mask=tl.arange(0, BLOCK) < words)
    v = packed - ((packed >> 1) & 0x55555555)
    v = (v & 0x33333333) + ((v >> 2) & 0x33333333)
    v = (((v + (v >> 4)) & 0x0F0F0F0F) * 0x01010101) >> 24
    tl.store(counts_ptr + row, tl.sum(v.to(tl.int32)))


def check_bits(device):
    torch.manual_seed(0)
    x = torch.randn(7, 100, device=device)
    out, counts = torch.empty(7, 4, device=device, dtype=torch.int32), torch.empty(7, device=device, dtype=torch.int32)
    _pack_bits_kernel[(7,)](x, out.view(torch.uint32), counts, 100, BLOCK=4)
    bits = torch.nn.functional.pad((x > 0).long(), (0, 28)).view(7, 4, 32)
    want = (bits << torch.arange(32, device=device)).sum(-1)
    torch.testing.assert_close(out.long() & 0xFFFFFFFF, want)
    torch.testing.assert_close(counts.long(), (x > 0).sum(1))


@triton.jit
def _block_sparse_kernel(values_ptr, columns_ptr, offsets_ptr, x_ptr, out_ptr, n, B: tl.constexpr, BN: tl.constexpr):
    row, tile = tl.program_id(0), tl.program_id(1)
    cols = tile * BN + tl.arange(0, BN)
    i = tl.arange(0, B)
    begin, end = tl.load(offsets_ptr + row), tl.load(offsets_ptr + row + 1)
    acc = tl.zeros((B, BN), tl.float32)
    for e in range(begin, end):
        column = tl.load(columns_ptr + e)
        a = tl.load(values_ptr + e * B * B + i[:, None] * B + i[None, :])
        x = tl.load(x_ptr + (column * B + i)[:, None] * n + cols[None, :], mask=cols[None, :] < n, other=0.0)
        acc += tl.dot(a, x, input_precision="ieee")
    if end > begin:
        tl.store(out_ptr + (row * B + i)[:, None] * n + cols[None, :], acc, mask=cols[None, :] < n)


def check_block_sparse(device):
    torch.manual_seed(0)
    B, rows, columns, n = 16, 4, 5, 40
    keep = torch.rand(rows, columns) < 0.5
    keep[2] = False
    dense = torch.randn(rows * B, columns * B) * keep.repeat_interleave(B, 0).repeat_interleave(B, 1)
    values = torch.stack([dense[r * B : r * B + B, c * B : c * B + B] for r, c in keep.nonzero().tolist()]).to(device)
    index = keep.nonzero()[:, 1].to(device, torch.int32)
    offsets = torch.cat((torch.zeros(1, dtype=torch.long), keep.sum(1).cumsum(0))).to(device, torch.int32)
    x = torch.randn(columns * B, n, device=device)
    out = torch.zeros(rows * B, n, device=device)
    _block_sparse_kernel[(rows, triton.cdiv(n, 32))](values.contiguous(), index, offsets, x, out, n, B, 32)
    torch.testing.assert_close(out, dense.to(device) @ x, atol=1e-4, rtol=1e-4)


@triton.jit
def _hadamard_kernel(x_ptr, out_ptr, LOG: tl.constexpr):
    N: tl.constexpr = 1 << LOG
    row = tl.program_id(0)
    x = tl.load(x_ptr + row * N + tl.arange(0, N)).to(tl.float32)
    for step in tl.static_range(LOG):
        pairs = tl.reshape(x, (N >> (step + 1), 2, 1 << step))
        a, b = tl.split(tl.permute(pairs, (0, 2, 1)))
        x = tl.reshape(tl.permute(tl.join(a + b, a - b), (0, 2, 1)), (N,))
    tl.store(out_ptr + row * N + tl.arange(0, N), x * (1.0 / tl.sqrt(N * 1.0)))


def check_hadamard(device):
    torch.manual_seed(0)
    x = torch.randn(5, 128, device=device)
    out = torch.empty_like(x)
    _hadamard_kernel[(5,)](x, out, 7)
    h = torch.ones(1, 1)
    for _ in range(7):
        h = torch.cat((torch.cat((h, h), 1), torch.cat((h, -h), 1)))
    torch.testing.assert_close(out, x @ h.to(device) / 128**0.5, atol=1e-5, rtol=1e-5)


@triton.jit
def _nms_kernel(boxes_ptr, keep_ptr, n, threshold, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x1 = tl.load(boxes_ptr + i * 4, mask=i < n, other=0.0)
    y1 = tl.load(boxes_ptr + i * 4 + 1, mask=i < n, other=0.0)
    x2 = tl.load(boxes_ptr + i * 4 + 2, mask=i < n, other=0.0)
    y2 = tl.load(boxes_ptr + i * 4 + 3, mask=i < n, other=0.0)
    area = (x2 - x1) * (y2 - y1)
    alive = i < n
    for k in range(n):
        chosen = i == k
        if tl.max((chosen & alive).to(tl.int32), axis=0) == 1:
            kx1, ky1 = tl.sum(tl.where(chosen, x1, 0.0)), tl.sum(tl.where(chosen, y1, 0.0))
            kx2, ky2 = tl.sum(tl.where(chosen, x2, 0.0)), tl.sum(tl.where(chosen, y2, 0.0))
            w = tl.maximum(tl.minimum(x2, kx2) - tl.maximum(x1, kx1), 0.0)
            h = tl.maximum(tl.minimum(y2, ky2) - tl.maximum(y1, ky1), 0.0)
            union = area + (kx2 - kx1) * (ky2 - ky1) - w * h
            alive = alive & ~((w * h > threshold * union) & (i > k))
    tl.store(keep_ptr + i, alive, mask=i < n)


def check_nms(device):
    torch.manual_seed(0)
    n = 50
    corner = torch.rand(n, 2) * 10
    boxes = torch.cat((corner, corner + torch.rand(n, 2) * 5), 1)
    keep = torch.empty(n, device=device, dtype=torch.bool)
    _nms_kernel[(1,)](boxes.to(device), keep, n, 0.3, BLOCK=64)
    alive = [True] * n
    for i in range(n):
        for j in range(i + 1, n):
            if alive[i] and alive[j]:
                a, b = boxes[i], boxes[j]
                w = (torch.minimum(a[2:], b[2:]) - torch.maximum(a[:2], b[:2])).clamp(min=0).prod()
                union = (a[2:] - a[:2]).prod() + (b[2:] - b[:2]).prod() - w
                alive[j] = not bool(w > 0.3 * union)
    assert keep.tolist() == alive


@triton.jit
def _top_p_kernel(logits_ptr, out_ptr, seeds_ptr, V, top_p, temperature, BLOCK: tl.constexpr):
    """Sample from the smallest set of tokens whose probability reaches top_p."""
    row = tl.program_id(0)
    v = tl.arange(0, BLOCK)
    logits = tl.load(logits_ptr + row * V + v, mask=v < V, other=-float("inf")) / temperature
    p = tl.softmax(logits, 0)
    low, high = 0.0, 1.0
    for _ in range(30):
        middle = (low + high) * 0.5
        if tl.sum(tl.where(p >= middle, p, 0.0), axis=0) >= top_p:
            low = middle
        else:
            high = middle
    kept = tl.where(p >= low, p, 0.0)
    running = tl.cumsum(kept, 0)
    total = tl.sum(kept, 0)
    u = tl.rand(tl.load(seeds_ptr + row), row) * total
    choice = tl.min(tl.where((running > u) & (kept > 0), v, BLOCK), axis=0)
    tl.store(out_ptr + row, choice)


def check_sampling(device):
    torch.manual_seed(0)
    rows, V = 100, 50
    logits = (torch.randn(1, V) * 2).expand(rows, V).contiguous().to(device)
    out = torch.empty(rows, device=device, dtype=torch.int64)
    _top_p_kernel[(rows,)](logits, out, torch.arange(rows, device=device), V, 0.7, 1.0, BLOCK=64)
    p, order = logits[0].softmax(-1).sort(descending=True)
    allowed = set(order[: int((p.cumsum(0) < 0.7).sum()) + 1].tolist())
    assert set(out.tolist()) <= allowed
    share = float((out == order[0]).double().mean())
    assert abs(share - float(p[0] / p[: len(allowed)].sum())) < 0.2


@triton.jit
def _bilinear_kernel(x_ptr, grid_ptr, out_ptr, C, H, W, points, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    c = tl.program_id(1)
    gx = tl.load(grid_ptr + 2 * i, mask=i < points, other=0.0)
    gy = tl.load(grid_ptr + 2 * i + 1, mask=i < points, other=0.0)
    x, y = ((gx + 1) * W - 1) / 2, ((gy + 1) * H - 1) / 2
    x0, y0 = tl.floor(x).to(tl.int32), tl.floor(y).to(tl.int32)
    total = tl.zeros((BLOCK,), tl.float32)
    for dy in tl.static_range(2):
        for dx in tl.static_range(2):
            xi, yi = x0 + dx, y0 + dy
            weight = (1 - tl.abs(x - xi)) * (1 - tl.abs(y - yi))
            inside = (xi >= 0) & (xi < W) & (yi >= 0) & (yi < H) & (i < points)
            total += weight * tl.load(x_ptr + (c * H + yi) * W + xi, mask=inside, other=0.0)
    tl.store(out_ptr + c * points + i, total, mask=i < points)


def check_grid_sample(device):
    torch.manual_seed(0)
    x, grid = torch.randn(3, 9, 14, device=device), torch.rand(100, 2, device=device) * 2.4 - 1.2
    out = torch.empty(3, 100, device=device)
    _bilinear_kernel[(triton.cdiv(100, 64), 3)](x, grid, out, 3, 9, 14, 100, BLOCK=64)
    want = torch.nn.functional.grid_sample(x[None], grid[None, None], align_corners=False)[0, :, 0]
    torch.testing.assert_close(out, want, atol=1e-5, rtol=1e-5)


@triton.jit
def _find(value, begin, end, ptr):
    """The first place in sorted ptr[begin:end] whose element is at least value."""
    while begin < end:
        middle = begin + (end - begin) // 2
        if tl.load(ptr + middle) < value:
            begin = middle + 1
        else:
            end = middle
    return begin


@triton.jit
def _merge_kernel(a_ptr, b_ptr, out_ptr, n, m, BLOCK: tl.constexpr):
    for k in range(BLOCK):
        i = tl.program_id(0) * BLOCK + k
        if i < n:
            x = tl.load(a_ptr + i)
            tl.store(out_ptr + i + _find(x, 0, m, b_ptr), x)
        if i < m:
            y = tl.load(b_ptr + i)
            tl.store(out_ptr + i + _find(y + 1, 0, n, a_ptr), y)


def check_merge_path(device):
    torch.manual_seed(0)
    a = torch.randint(-40, 40, (70,), device=device).sort().values
    b = torch.randint(-40, 40, (55,), device=device).sort().values
    out = torch.full((125,), 1000, device=device)
    _merge_kernel[(triton.cdiv(70, 8),)](a, b, out, 70, 55, BLOCK=8)
    torch.testing.assert_close(out, torch.cat((a, b)).sort().values)


if __name__ == "__main__":
    device = triton.runtime.driver.active.get_active_torch_device()
    for name, function in list(globals().items()):
        if name.startswith("check_"):
            function(device)
    print("assorted: right")
