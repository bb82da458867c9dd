"""Graphs and ragged rows: a frontier that grows by compare-and-swap, sums of segments, bags of embeddings."""
# ruff: noqa: E501  (lines as long as such programs have them)

import torch
import triton
import triton.language as tl


@triton.jit
def _frontier_kernel(rowptr, col, distance, frontier, size_ptr, following, next_size_ptr, level):
    pid = tl.program_id(0)
    if pid < tl.load(size_ptr):
        node = tl.load(frontier + pid)
        for edge in range(tl.load(rowptr + node), tl.load(rowptr + node + 1)):
            other = tl.load(col + edge)
            if tl.atomic_cas(distance + other, -1, level) == -1:
                slot = tl.atomic_add(next_size_ptr, 1)
                tl.store(following + slot, other)


def check_breadth_first_search(device):
    torch.manual_seed(0)
    n = 40
    near = torch.rand(n, n) < 0.06
    near = near | near.T
    rowptr = torch.cat([torch.tensor([0]), near.sum(1).cumsum(0)]).int().to(device)
    col = near.nonzero()[:, 1].int().to(device)
    distance = torch.full((n,), -1, dtype=torch.int32, device=device)
    distance[0] = 0
    frontier = torch.zeros(n, dtype=torch.int32, device=device)
    size = torch.ones(1, dtype=torch.int32, device=device)
    level = 0
    while int(size):
        level += 1
        following, next_size = torch.zeros_like(frontier), torch.zeros_like(size)
        _frontier_kernel[(n,)](rowptr, col, distance, frontier, size, following, next_size, level)
        frontier, size = following, next_size
    want, edge, level = torch.full((n,), -1), {0}, 0
    while edge:
        want[list(edge)] = level
        level += 1
        edge = {v for u in edge for v in near[u].nonzero().flatten().tolist() if want[v] < 0}
    assert distance.cpu().tolist() == want.tolist()


@triton.jit
def _segment_combine(sum1, begins1, sum2, begins2):
    return tl.where(begins2 != 0, sum2, sum1 + sum2), begins1 | begins2


@triton.jit
def _segment_sum_kernel(values_ptr, segments_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    value = tl.load(values_ptr + i, mask=inside, other=0.0)
    segment = tl.load(segments_ptr + i, mask=inside, other=-1)
    previous = tl.load(segments_ptr + i - 1, mask=inside & (i > 0), other=-2)
    following = tl.load(segments_ptr + i + 1, mask=i + 1 < n, other=-3)
    begins = (segment != previous) | (i % BLOCK == 0)
    total, _ = tl.associative_scan((value, begins.to(tl.int32)), 0, _segment_combine)
    ends = (segment != following) | (i % BLOCK == BLOCK - 1)
    tl.atomic_add(out_ptr + segment, total, mask=inside & ends)


@triton.jit
def _ragged_softmax_kernel(rowptr, x_ptr, y_ptr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    begin = tl.load(rowptr + row)
    end = tl.load(rowptr + row + 1)
    largest = -float("inf")
    for i in range(begin, end, BLOCK):
        offs = i + tl.arange(0, BLOCK)
        largest = max(largest, tl.max(tl.load(x_ptr + offs, mask=offs < end, other=-float("inf"))))
    total = 0.
    for i in range(begin, end, BLOCK):
        offs = i + tl.arange(0, BLOCK)
        total += tl.sum(tl.exp(tl.load(x_ptr + offs, mask=offs < end, other=-float("inf")) - largest))
    for i in range(begin, end, BLOCK):
        offs = i + tl.arange(0, BLOCK)
        tl.store(y_ptr + offs, tl.exp(tl.load(x_ptr + offs, mask=offs < end) - largest) / total, offs < end)


def check_segments(device):
    torch.manual_seed(0)
    n, count = 303, 20
    segments = torch.randint(0, count, (n,), device=device).sort()[0]
    values = torch.randn(n, device=device)
    out = torch.zeros(count, device=device)
    _segment_sum_kernel[(triton.cdiv(n, 64),)](values, segments, out, n, BLOCK=64)
    torch.testing.assert_close(out, torch.zeros_like(out).index_add(0, segments, values), atol=1e-5, rtol=1e-5)
    sizes = torch.bincount(segments, minlength=count)
    rowptr = torch.cat([torch.zeros_like(sizes[:1]), sizes.cumsum(0)])
    y = torch.empty_like(values)
    _ragged_softmax_kernel[(count,)](rowptr, values, y, BLOCK=8)
    want = torch.cat([torch.softmax(part, 0) for part in values.split(sizes.tolist())])
    torch.testing.assert_close(y, want)


@triton.jit
def _bag_kernel(table_ptr, indices_ptr, offsets_ptr, weights_ptr, out_ptr, D, MODE: tl.constexpr, BLOCK: tl.constexpr):
    bag = tl.program_id(0)
    d = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    begin, end = tl.load(offsets_ptr + bag), tl.load(offsets_ptr + bag + 1)
    start = float("-inf") if MODE == "max" else 0.0
    acc = tl.full((BLOCK,), start, dtype=tl.float32)
    for i in range(begin, end):
        row = tl.load(table_ptr + tl.load(indices_ptr + i) * D + d, mask=d < D, other=0.0).to(tl.float32)
        if weights_ptr is not None:
            row *= tl.load(weights_ptr + i)
        acc = tl.maximum(acc, row) if MODE == "max" else acc + row
    if MODE == "mean":
        acc = acc / tl.maximum(end - begin, 1).to(tl.float32)
    elif MODE == "max":
        acc = tl.where(begin == end, 0.0, acc)
    tl.store(out_ptr + bag * D + d, acc, mask=d < D)


def check_embedding_bag(device):
    torch.manual_seed(0)
    table = torch.randn(50, 20, dtype=torch.float16, device=device)
    offsets = torch.tensor([0, 3, 3, 10, 17], device=device)
    indices = torch.randint(0, 50, (17,), device=device)
    for mode in ("sum", "mean", "max"):
        weights = torch.rand(17, device=device) if mode == "sum" else None
        out = torch.empty(4, 20, device=device)
        _bag_kernel[(4, 2)](table, indices, offsets, weights, out, 20, MODE=mode, BLOCK=16)
        want = torch.nn.functional.embedding_bag(indices, table.float(), offsets[:-1], mode=mode, per_sample_weights=weights)
        torch.testing.assert_close(out, want)
