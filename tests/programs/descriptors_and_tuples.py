"""The newer parts of the language: descriptors on host and device, tuples, structures, lists of
functions, persistent loops, maps, joins, gathers, compile-time functions."""
# ruff: noqa: E501  (lines as long as such programs have them)

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


def alloc_fn(size: int, alignment: int, stream):
    device = triton.runtime.driver.active.get_active_torch_device()
    return torch.empty(size, device=device, dtype=torch.int8)


@triton.jit
def _compute_pid(tile_id, num_pid_in_group, num_pid_m, GROUP_SIZE_M: tl.constexpr):
    group_id = tile_id // num_pid_in_group
    first_pid_m = group_id * GROUP_SIZE_M
    group_size_m = min(num_pid_m - first_pid_m, GROUP_SIZE_M)
    pid_m = first_pid_m + (tile_id % group_size_m)
    pid_n = (tile_id % num_pid_in_group) // group_size_m
    return pid_m, pid_n


def _set_blocks(nargs):
    nargs["a_desc"].block_shape = [nargs["BLOCK_M"], nargs["BLOCK_K"]]
    nargs["b_desc"].block_shape = [nargs["BLOCK_N"], nargs["BLOCK_K"]]
    width = nargs["BLOCK_N"] // 2 if nargs["SUBTILE"] else nargs["BLOCK_N"]
    nargs["c_desc"].block_shape = [nargs["BLOCK_M"], width]


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 64, "BLOCK_N": bn, "BLOCK_K": 32, "SUBTILE": s}, num_stages=2, num_warps=4, pre_hook=_set_blocks)
        for bn in (32, 64) for s in (False, True)
    ],
    key=["M", "N", "K"],
)  # fmt: skip
@triton.jit
def _persistent_kernel(
    a_desc, b_desc, c_desc, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr, SUBTILE: tl.constexpr, PROGRAMS: tl.constexpr, SPECIALIZE: tl.constexpr,
):  # fmt: skip
    dtype = tl.float16
    start_pid = tl.program_id(0)
    num_pid_m = tl.cdiv(M, BLOCK_M)
    num_pid_n = tl.cdiv(N, BLOCK_N)
    k_tiles = tl.cdiv(K, BLOCK_K)
    tile_id_c = start_pid - PROGRAMS
    for tile_id in tl.range(start_pid, num_pid_m * num_pid_n, PROGRAMS, flatten=True, warp_specialize=SPECIALIZE):
        pid_m, pid_n = _compute_pid(tile_id, 2 * num_pid_n, num_pid_m, 2)
        accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for ki in range(k_tiles):
            a = a_desc.load([pid_m * BLOCK_M, ki * BLOCK_K])
            b = b_desc.load([pid_n * BLOCK_N, ki * BLOCK_K])
            accumulator = tl.dot(a, b.T, accumulator)
        tile_id_c += PROGRAMS
        pid_m, pid_n = _compute_pid(tile_id_c, 2 * num_pid_n, num_pid_m, 2)
        if SUBTILE:
            acc = tl.reshape(accumulator, (BLOCK_M, 2, BLOCK_N // 2))
            acc = tl.permute(acc, (0, 2, 1))
            acc0, acc1 = tl.split(acc)
            c_desc.store([pid_m * BLOCK_M, pid_n * BLOCK_N], acc0.to(dtype))
            c_desc.store([pid_m * BLOCK_M, pid_n * BLOCK_N + BLOCK_N // 2], acc1.to(dtype))
        else:
            c_desc.store([pid_m * BLOCK_M, pid_n * BLOCK_N], accumulator.to(dtype))


def check_persistent_matmul(device):
    torch.manual_seed(0)
    for m, n, k in ((128, 96, 64), (72, 88, 40)):
        a = torch.randn(m, k, device=device, dtype=torch.float16)
        b = torch.randn(n, k, device=device, dtype=torch.float16)
        c = torch.full((m, n), float("nan"), device=device, dtype=torch.float16)
        a_desc, b_desc, c_desc = (TensorDescriptor.from_tensor(t, [1, 1]) for t in (a, b, c))
        _persistent_kernel[(3,)](a_desc, b_desc, c_desc, m, n, k, PROGRAMS=3, SPECIALIZE=False)
        torch.testing.assert_close(c.double(), a.double() @ b.double().T, atol=2e-2, rtol=2e-3)


@triton.jit
def _device_descriptor_kernel(x_ptr, out_ptr, sums_ptr, B, M, N, BM: tl.constexpr, BN: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, [B, M, N], [M * N, N, 1], [1, BM, BN])
    out = tl.make_tensor_descriptor(out_ptr, shape=[B, N, M], strides=[N * M, M, 1], block_shape=[1, BN, BM])
    sums = tl.make_tensor_descriptor(sums_ptr, [B, N], [N, 1], [1, BN])
    b, i, j = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    tile = x.load([b, i * BM, j * BN])
    out.store([b, j * BN, i * BM], tile.permute(0, 2, 1))
    sums.atomic_add([b, j * BN], tl.sum(tile, 1))
    tl.static_assert(x.block_shape[1] == BM)


def check_device_descriptors(device):
    torch.manual_seed(0)
    triton.set_allocator(alloc_fn)
    x = torch.randn(2, 28, 44, device=device)
    out, sums = torch.full((2, 44, 28), float("nan"), device=device), torch.zeros(2, 44, device=device)
    _device_descriptor_kernel[(2, 2, 2)](x, out, sums, 2, 28, 44, 16, 32)
    torch.testing.assert_close(out, x.transpose(1, 2))
    torch.testing.assert_close(sums, x.sum(1), atol=1e-5, rtol=1e-5)


class Matrix(NamedTuple):
    base: tl.tensor
    strides: tl.tuple
    transform: tl.constexpr


@triton.jit
def _twice(x):
    return 2 * x


@triton.jit
def _at(matrix, rows, columns):
    return matrix.base + rows[:, None] * matrix.strides[0] + columns[None, :] * matrix.strides[1]


@triton.jit
def _tuple_kernel(src, dst, extra, shape, BLOCK: tl.constexpr):
    rows, columns = tl.arange(0, BLOCK), tl.arange(0, BLOCK)
    mask = (rows < shape[0])[:, None] & (columns < shape[1])[None, :]
    x = tl.load(_at(src, rows, columns), mask=mask)
    for i in tl.static_range(len(extra)):
        if extra[i] is not None:
            x += tl.load(extra[i] + columns, mask=columns < shape[1], other=0.0)[None, :]
    tl.store(_at(dst, rows, columns), src.transform(x), mask=mask)


def check_tuples(device):
    torch.manual_seed(0)
    x = torch.randn(13, 9, device=device).T
    e1, e2 = torch.randn(2, 13, device=device)
    out = torch.empty(9, 13, device=device)
    _tuple_kernel[(1,)](
        Matrix(x, x.stride(), _twice), Matrix(out, out.stride(), None), (e1, None, e2), (9, 13), BLOCK=16
    )
    torch.testing.assert_close(out, 2 * (x + e1 + e2))


@tl.core._aggregate
class Running:
    count: tl.tensor
    mean: tl.tensor
    m2: tl.tensor
    UNBIASED: tl.constexpr

    def __init__(self, count, mean, m2, UNBIASED):
        self.count = count
        self.mean = mean
        self.m2 = m2
        self.UNBIASED = UNBIASED

    @triton.jit
    def add(self, x, inside):
        count = self.count + inside.to(tl.float32)
        delta = x - self.mean
        mean = self.mean + tl.where(inside, delta / tl.maximum(count, 1.0), 0.0)
        m2 = self.m2 + tl.where(inside, delta * (x - mean), 0.0)
        return Running(count, mean, m2, self.UNBIASED)

    @triton.jit
    def variance(self):
        if self.UNBIASED:
            return self.m2 / (self.count - 1)
        else:
            return self.m2 / self.count


@triton.jit
def _aggregate_kernel(x_ptr, out_ptr, rows, columns, UNBIASED: tl.constexpr, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    zero = tl.zeros((BLOCK,), tl.float32)
    running = Running(zero, zero, zero, UNBIASED)
    for r in range(rows):
        running = running.add(tl.load(x_ptr + r * columns + c, mask=c < columns, other=0.0), c < columns)
    tl.store(out_ptr + c, running.variance(), mask=c < columns)


def check_aggregates(device):
    torch.manual_seed(0)
    x = torch.randn(30, 13, device=device)
    for unbiased in (False, True):
        out = torch.empty(13, device=device)
        _aggregate_kernel[(1,)](x, out, 30, 13, unbiased, BLOCK=16)
        torch.testing.assert_close(out, x.var(0, correction=int(unbiased)), atol=1e-5, rtol=1e-5)


@triton.jit
def _relu(x):
    return tl.maximum(x, 0.0)


@triton.jit
def _square(x, power: tl.constexpr = 2):
    tl.static_assert(power == 2, "only squares")
    return x * x


@triton.constexpr_function
def bits(n):
    return n.bit_length() - 1


FUNCTIONS: tl.constexpr = tl.constexpr([_relu, _square, _twice])


@triton.jit
def _pipeline_kernel(x_ptr, out_ptr, ORDER: tl.constexpr, N: tl.constexpr):
    LOG: tl.constexpr = bits(N)
    x = tl.load(x_ptr + tl.arange(0, 2**LOG))
    for i in tl.static_range(len(ORDER)):
        x = FUNCTIONS[ORDER[i]](x)
    pairs = x.reshape(N // 2, 2)
    even, odd = pairs.split()
    mixed = tl.join(odd, even).reshape(N)
    index = tl.flip(tl.arange(0, N))
    turned = tl.gather(mixed, index, 0)
    tl.store(out_ptr + tl.arange(0, N), turned)
    top = tl.topk(x, 4)
    tl.store(out_ptr + N + tl.arange(0, 4), top)
    tl.store(out_ptr + N + 4 + tl.arange(0, N), tl.sort(x, descending=True))


def check_lists_of_functions(device):
    torch.manual_seed(0)
    x = torch.randn(64, device=device)
    out = torch.empty(64 + 4 + 64, device=device)
    _pipeline_kernel[(1,)](x, out, (2, 0, 1), 64)
    y = (2 * x).relu().square()
    swapped = y.view(32, 2).flip(1).reshape(64).flip(0)
    torch.testing.assert_close(out[:64], swapped)
    ordered = y.sort(descending=True).values
    torch.testing.assert_close(out[64:68], ordered[:4])
    torch.testing.assert_close(out[68:], ordered)


@triton.jit
def _levenshtein_kernel(a_ptr, b_ptr, out_ptr, n, m, BLOCK: tl.constexpr):
    """Edit distance of two strings, a row at a time; a scan carries what comes from the left."""
    j = tl.arange(0, BLOCK)
    b = tl.load(b_ptr + j - 1, mask=(j > 0) & (j <= m), other=-1)
    row = j
    for i in range(1, n + 1):
        a = tl.load(a_ptr + i - 1)
        diagonal = tl.gather(row, tl.maximum(j - 1, 0), 0)
        best = tl.minimum(row + 1, tl.where(j > 0, diagonal + (a != b), i))
        # left to right: min over k <= j of best[k] + (j - k)
        row = tl.associative_scan(best - j, 0, _least) + j
    tl.store(out_ptr, tl.sum(tl.where(j == m, row, 0)))


@triton.jit
def _least(a, b):
    return tl.minimum(a, b)


def check_edit_distance(device):
    def distance(a, b):
        row = list(range(len(b) + 1))
        for i, x in enumerate(a, 1):
            new = [i]
            for j, y in enumerate(b, 1):
                new.append(min(row[j] + 1, new[-1] + 1, row[j - 1] + (x != y)))
            row = new
        return row[-1]

    for a, b in (("kitten", "sitting"), ("flaw", "lawn"), ("intention", "execution"), ("a", "abcdef")):
        ta, tb = (torch.tensor([ord(c) for c in s], device=device, dtype=torch.int32) for s in (a, b))
        out = torch.zeros(1, device=device, dtype=torch.int32)
        _levenshtein_kernel[(1,)](ta, tb, out, len(a), len(b), BLOCK=16)
        assert int(out) == distance(a, b), (a, b)


if __name__ == "__main__":
    device = triton.runtime.driver.active.get_active_torch_device()
    for name, function in list(globals().items()):
        if name.startswith("check_"):
            function(device)
    print("descriptors and tuples: right")
