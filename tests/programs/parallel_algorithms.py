"""Programs that talk to each other: locks, look-back scans, work queues, hash tables, stream-K."""
# ruff: noqa: E501  (lines as long as such programs have them)

import torch
import triton
import triton.language as tl


@triton.jit
def _look_back_scan_kernel(x_ptr, out_ptr, flags_ptr, sums_ptr, prefixes_ptr, ticket_ptr, n, BLOCK: tl.constexpr):
    # A ticket makes sure that every block before this one has been started.
    block = tl.atomic_add(ticket_ptr, 1)
    offsets = block * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0)
    total = tl.sum(x, axis=0)
    exclusive = tl.zeros([], dtype=tl.int32)
    if block == 0:
        tl.store(prefixes_ptr, total)
        tl.debug_barrier()
        tl.atomic_xchg(flags_ptr, 2, sem="release")
    else:
        tl.store(sums_ptr + block, total)
        tl.debug_barrier()
        tl.atomic_xchg(flags_ptr + block, 1, sem="release")
        at = block - 1
        while at >= 0:
            flag = tl.atomic_add(flags_ptr + at, 0, sem="acquire")
            while flag == 0:
                flag = tl.atomic_add(flags_ptr + at, 0, sem="acquire")
            if flag == 2:
                exclusive += tl.load(prefixes_ptr + at, volatile=True)
                at = -1
            else:
                exclusive += tl.load(sums_ptr + at, volatile=True)
                at -= 1
        tl.store(prefixes_ptr + block, exclusive + total)
        tl.debug_barrier()
        tl.atomic_xchg(flags_ptr + block, 2, sem="release")
    tl.store(out_ptr + offsets, tl.cumsum(x, axis=0) + exclusive, mask=offsets < n)


def check_look_back_scan(device):
    torch.manual_seed(0)
    n = 10_007
    x = torch.randint(-50, 50, (n,), device=device, dtype=torch.int32)
    blocks = triton.cdiv(n, 128)
    out = torch.empty_like(x)
    flags, sums, prefixes = torch.zeros(3, blocks, device=device, dtype=torch.int32)
    ticket = torch.zeros(1, device=device, dtype=torch.int32)
    _look_back_scan_kernel[(blocks,)](x, out, flags, sums, prefixes, ticket, n, BLOCK=128)
    torch.testing.assert_close(out, x.cumsum(0, dtype=torch.int32))


@triton.jit
def _insert_kernel(keys_ptr, table_keys_ptr, table_counts_ptr, n, CAPACITY: tl.constexpr):
    i = tl.program_id(0)
    if i >= n:
        return
    key = tl.load(keys_ptr + i)
    h = key.to(tl.uint32)
    h = (h ^ (h >> 16)) * 0x45D9F3B
    h = (h ^ (h >> 16)) * 0x45D9F3B
    slot = ((h ^ (h >> 16)) % CAPACITY).to(tl.int32)
    searching = True
    while searching:
        previous = tl.atomic_cas(table_keys_ptr + slot, -1, key)
        if previous == -1 or previous == key:
            tl.atomic_add(table_counts_ptr + slot, 1)
            searching = False
        else:
            slot = (slot + 1) % CAPACITY


def check_hash_table(device):
    torch.manual_seed(0)
    keys = torch.randint(0, 60, (500,), device=device, dtype=torch.int32)
    table = torch.full((128,), -1, device=device, dtype=torch.int32)
    counts = torch.zeros(128, device=device, dtype=torch.int32)
    _insert_kernel[(512,)](keys, table, counts, 500, CAPACITY=128)
    want = torch.bincount(keys, minlength=60)
    found = {int(k): int(c) for k, c in zip(table, counts) if k >= 0}  # noqa: B905
    assert found == {i: int(c) for i, c in enumerate(want) if c > 0}


@triton.jit
def _stream_k_kernel(
    A, B, C, locks, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    full_tiles, partial_per_program, total_iters,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    iters_per_tile = tl.cdiv(K, BLOCK_K)
    start_iter = pid * full_tiles + tl.minimum(pid, partial_per_program)
    last_iter = tl.minimum((pid + 1) * full_tiles + tl.minimum(pid + 1, partial_per_program), total_iters)
    while start_iter < last_iter:
        remainder = start_iter % iters_per_tile
        end_iter = tl.minimum(start_iter + (iters_per_tile - remainder), last_iter)
        tile_id = start_iter // iters_per_tile
        pid_m = tile_id // tl.cdiv(N, BLOCK_N)
        pid_n = tile_id % tl.cdiv(N, BLOCK_N)
        rm = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
        rn = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
        rk = tl.arange(0, BLOCK_K)
        a_ptr = A + (rm[:, None] * stride_am + rk[None, :] * stride_ak) + BLOCK_K * stride_ak * remainder
        b_ptr = B + (rk[:, None] * stride_bk + rn[None, :] * stride_bn) + BLOCK_K * stride_bk * remainder
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for current in range(start_iter, end_iter):
            left = K - (current % iters_per_tile) * BLOCK_K
            a = tl.load(a_ptr, mask=(rm[:, None] < M) & (rk[None, :] < left), other=0.0)
            b = tl.load(b_ptr, mask=(rk[:, None] < left) & (rn[None, :] < N), other=0.0)
            acc += tl.dot(a, b, input_precision="ieee")
            a_ptr += BLOCK_K * stride_ak
            b_ptr += BLOCK_K * stride_bk
        c_ptr = C + (rm[:, None] * stride_cm + rn[None, :] * stride_cn)
        mask = (rm < M)[:, None] & (rn < N)[None, :]
        if remainder == 0 and end_iter % iters_per_tile == 0:
            tl.store(c_ptr, acc, mask=mask)
        elif remainder == 0:
            tl.store(c_ptr, acc, mask=mask)
            tl.debug_barrier()
            tl.atomic_xchg(locks + tile_id, 1)
        else:
            while tl.atomic_cas(locks + tile_id, 1, 1) != 1:
                pass
            tl.atomic_add(c_ptr, acc, mask=mask)
        start_iter = end_iter


def check_stream_k(device):
    torch.manual_seed(0)
    m, n, k = 70, 90, 100
    a, b = torch.randn(m, k, device=device), torch.randn(k, n, device=device)
    c = torch.full((m, n), float("nan"), device=device)
    tiles, iters = triton.cdiv(m, 32) * triton.cdiv(n, 32), triton.cdiv(k, 16)
    programs, total = 4, tiles * iters
    locks = torch.zeros(tiles, device=device, dtype=torch.int32)
    _stream_k_kernel[(programs,)](
        a, b, c, locks, m, n, k, *a.stride(), *b.stride(), *c.stride(),
        total // programs, total % programs, total, BLOCK_M=32, BLOCK_N=32, BLOCK_K=16,
    )  # fmt: skip
    torch.testing.assert_close(c, a @ b, atol=1e-4, rtol=1e-4)


@triton.jit
def _radix_pass_kernel(keys_ptr, out_ptr, counts_ptr, n, shift, SCATTER: tl.constexpr, BLOCK: tl.constexpr, RADIX: tl.constexpr):
    pid = tl.program_id(0)
    offsets = pid * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    keys = tl.load(keys_ptr + offsets, mask=mask)
    digit = ((keys >> shift) & (RADIX - 1)).to(tl.int32)
    bins = tl.arange(0, RADIX)
    if not SCATTER:
        counted = tl.histogram(digit, RADIX, mask=mask)
        tl.store(counts_ptr + bins * tl.num_programs(0) + pid, counted)
    else:
        same = (digit[:, None] == bins[None, :]) & mask[:, None]
        rank = tl.cumsum(same.to(tl.int32), axis=0) - 1
        start = tl.load(counts_ptr + bins * tl.num_programs(0) + pid)
        place = tl.sum(tl.where(same, rank + start[None, :], 0), axis=1)
        tl.store(out_ptr + place, keys, mask=mask)


def check_radix_sort(device):
    torch.manual_seed(0)
    n, block, bits = 3001, 256, 4
    keys = torch.randint(0, 2**16, (n,), device=device, dtype=torch.int32)
    blocks = triton.cdiv(n, block)
    current, other = keys.clone(), torch.empty_like(keys)
    for shift in range(0, 16, bits):
        counts = torch.empty((1 << bits) * blocks, device=device, dtype=torch.int32)
        _radix_pass_kernel[(blocks,)](current, other, counts, n, shift, False, block, 1 << bits)
        starts = (counts.cumsum(0) - counts).int()
        _radix_pass_kernel[(blocks,)](current, other, starts, n, shift, True, block, 1 << bits)
        current, other = other, current
    torch.testing.assert_close(current, keys.sort().values)


@triton.jit
def _queue_kernel(queue_ptr, sizes_ptr, x_ptr, out_ptr, tasks, stride, BLOCK: tl.constexpr):
    task = tl.atomic_add(queue_ptr, 1)
    while task < tasks:
        size = tl.load(sizes_ptr + task)
        total = 0.0
        largest = -float("inf")
        i = 0
        while i < size:
            at = i + tl.arange(0, BLOCK)
            x = tl.load(x_ptr + task * stride + at, mask=at < size, other=-float("inf"))
            now = tl.maximum(largest, tl.max(x, axis=0))
            total = total * tl.exp(largest - now) + tl.sum(tl.exp(x - now), axis=0)
            largest = now
            i += BLOCK
        tl.store(out_ptr + task, tl.log(total) + largest)
        task = tl.atomic_add(queue_ptr, 1)


def check_work_queue(device):
    torch.manual_seed(0)
    tasks = 40
    x = torch.randn(tasks, 300, device=device)
    sizes = torch.randint(1, 300, (tasks,), device=device, dtype=torch.int32)
    out, queue = torch.empty(tasks, device=device), torch.zeros(1, device=device, dtype=torch.int32)
    _queue_kernel[(4,)](queue, sizes, x, out, tasks, 300, BLOCK=64)
    want = torch.stack([x[i, : sizes[i]].logsumexp(0) for i in range(tasks)])
    torch.testing.assert_close(out, want)
    assert int(queue) == tasks + 4


@triton.jit
def _segment_kernel(rows_ptr, cols_ptr, values_ptr, x_ptr, out_ptr, best_ptr, nnz, features, BLOCK_E: tl.constexpr, BLOCK_F: tl.constexpr):
    e = tl.program_id(0) * BLOCK_E + tl.arange(0, BLOCK_E)
    f = tl.program_id(1) * BLOCK_F + tl.arange(0, BLOCK_F)
    mask = (e < nnz)[:, None] & (f < features)[None, :]
    row = tl.load(rows_ptr + e, mask=e < nnz, other=0)
    col = tl.load(cols_ptr + e, mask=e < nnz, other=0)
    value = tl.load(values_ptr + e, mask=e < nnz, other=0.0)
    x = tl.load(x_ptr + col[:, None] * features + f[None, :], mask=mask, other=0.0)
    message = x * value[:, None]
    tl.atomic_add(out_ptr + row[:, None] * features + f[None, :], message, mask=mask, sem="relaxed")
    tl.atomic_max(best_ptr + row[:, None] * features + f[None, :], message, mask=mask)


def check_message_passing(device):
    torch.manual_seed(0)
    nodes, edges, features = 20, 150, 24
    rows = torch.randint(0, nodes, (edges,), device=device)
    cols = torch.randint(0, nodes, (edges,), device=device)
    values, x = torch.randn(edges, device=device), torch.randn(nodes, features, device=device)
    out = torch.zeros_like(x)
    best = torch.full_like(x, -float("inf"))
    _segment_kernel[(triton.cdiv(edges, 32), 2)](rows, cols, values, x, out, best, edges, features, 32, 16)
    messages = x[cols] * values[:, None]
    torch.testing.assert_close(out, torch.zeros_like(x).index_add_(0, rows, messages), atol=1e-5, rtol=1e-5)
    want = torch.full_like(x, -float("inf")).scatter_reduce_(
        0, rows[:, None].expand(-1, features), messages, "amax"
    )
    torch.testing.assert_close(best, want)


if __name__ == "__main__":
    device = triton.runtime.driver.active.get_active_torch_device()
    for name, function in list(globals().items()):
        if name.startswith("check_"):
            function(device)
    print("parallel algorithms: right")
