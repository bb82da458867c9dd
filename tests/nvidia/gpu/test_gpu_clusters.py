"""Programs of several blocks (`num_ctas`), on a GPU, against torch."""

from __future__ import annotations

from typing import Any

import pytest

import tritium
import tritium.language as tl
from tritium.tools.tensor_descriptor import TensorDescriptor

pytestmark = pytest.mark.gpu


@pytest.fixture
def torch() -> Any:
    torch = pytest.importorskip("torch")
    if torch.cuda.get_device_capability()[0] < 9:
        pytest.skip("clusters need sm_90")
    torch.manual_seed(0)
    return torch


@tritium.jit
def add(x_ptr, y_ptr, o_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    x = tl.load(x_ptr + at, mask=mask)
    tl.store(o_ptr + at, x + tl.load(y_ptr + at, mask=mask) + tl.num_programs(0), mask=mask)


@pytest.mark.parametrize("num_ctas", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("block", [1, 2, 64, 1024])
def test_elements(torch: Any, num_ctas: int, block: int) -> None:
    n = 3 * block - 1 if block > 1 else 3
    x, y = (torch.randn(n, device="cuda") for _ in range(2))
    for _ in range(4):  # the third launch and those after it are native
        o = torch.full((n + block,), float("nan"), device="cuda")
        kernel = add[(3,)](x, y, o, n, BLOCK=block, num_ctas=num_ctas)
        assert torch.equal(o[:n], x + y + 3) and o[n:].isnan().all()
    assert tuple(kernel.metadata.cluster_dims) == (num_ctas, 1, 1)


@tritium.jit
def where_am_i(o_ptr):
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    at = (z * tl.num_programs(1) + y) * tl.num_programs(0) + x
    tl.atomic_add(o_ptr + at, at + 1)


@pytest.mark.parametrize("num_ctas", [1, 2, 8])
def test_programs_are_counted_not_blocks(torch: Any, num_ctas: int) -> None:
    grid = (3, 5, 7)
    for launch in range(1, 5):
        o = torch.zeros(105, device="cuda", dtype=torch.int32)
        where_am_i[grid](o, num_ctas=num_ctas)
        assert torch.equal(o.cpu(), torch.arange(1, 106, dtype=torch.int32)), launch


@tritium.jit
def rows(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = tl.program_id(0) * n
    x = tl.load(x_ptr + row + at, mask=at < n, other=-float("inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(o_ptr + row + at, e / tl.sum(e, 0), mask=at < n)


@pytest.mark.parametrize("num_ctas", [1, 2, 4, 8])
@pytest.mark.parametrize("n", [1, 100, 1000, 8192])
def test_softmax_across_blocks(torch: Any, num_ctas: int, n: int) -> None:
    x = torch.randn(33, n, device="cuda")
    o = torch.empty_like(x)
    rows[(33,)](x, o, n, BLOCK=tritium.next_power_of_2(n), num_ctas=num_ctas)
    torch.testing.assert_close(o, torch.softmax(x, 1), atol=1e-6, rtol=1e-5)


@tritium.jit
def sums(x_ptr, o_ptr, M: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + at)
    y = tl.cumsum(x, 0) + 3 * tl.cumsum(x, 1, reverse=True) + tl.sum(x, 0)[None, :]
    y += 2 * tl.sum(x, 1)[:, None] + tl.max(x) + tl.argmax(x, 0)[None, :]
    tl.store(o_ptr + at, y)


@pytest.mark.parametrize("num_ctas", [1, 2, 4, 8])
@pytest.mark.parametrize("shape", [(64, 32), (4, 256), (2, 2), (1, 128), (512, 1)])
def test_reductions_and_scans(torch: Any, num_ctas: int, shape: tuple[int, int]) -> None:
    x = torch.randperm(shape[0] * shape[1], device="cuda").int().reshape(shape)
    o = torch.full_like(x, -1)
    sums[(1,)](x, o, *shape, num_ctas=num_ctas)
    total = x.long()
    want = total.cumsum(0) + 3 * total.flip(1).cumsum(1).flip(1) + total.sum(0)[None, :]
    want = want + 2 * total.sum(1)[:, None] + total.max() + total.argmax(0)[None, :]
    assert torch.equal(o.long(), want)


@tritium.jit
def moved(x_ptr, i_ptr, sorted_ptr, top_ptr, gathered_ptr, counts_ptr, turned_ptr,
          N: tl.constexpr):  # fmt: skip
    at = tl.arange(0, N)
    x, index = tl.load(x_ptr + at), tl.load(i_ptr + at)
    tl.store(sorted_ptr + at, tl.sort(x))
    tl.store(top_ptr + tl.arange(0, 4), tl.topk(x, 4))
    tl.store(gathered_ptr + at, tl.gather(x, index, 0))
    tl.store(counts_ptr + tl.arange(0, 64), tl.histogram(index, 64))
    square = tl.reshape(x, (N // 16, 16))
    a, b = tl.split(tl.reshape(tl.join(square, -square), (N, 2)))
    flipped = tl.trans(tl.reshape(a + 2 * b, (N // 16, 16)))
    tl.store(turned_ptr + at, tl.reshape(tl.flip(tl.reshape(flipped, (N,))), (N,)))


@pytest.mark.parametrize("num_ctas", [1, 2, 4])
@pytest.mark.parametrize("n", [64, 512])
def test_sorting_gathering_counting_and_turning(torch: Any, num_ctas: int, n: int) -> None:
    x = torch.randn(n, device="cuda")
    index = torch.randint(0, min(n, 64), (n,), device="cuda", dtype=torch.int32)
    ordered, gathered, turned = (torch.full_like(x, float("nan")) for _ in range(3))
    top = torch.full((4,), float("nan"), device="cuda")
    counts = torch.full((64,), -1, device="cuda", dtype=torch.int32)
    moved[(1,)](x, index, ordered, top, gathered, counts, turned, N=n, num_ctas=num_ctas)
    assert torch.equal(ordered, x.sort().values)
    assert torch.equal(top, x.topk(4).values)
    assert torch.equal(gathered, x[index.long()])
    assert torch.equal(counts.long(), index.long().bincount(minlength=64))
    want = (x - 2 * x).reshape(n // 16, 16).T.reshape(n).flip(0)
    torch.testing.assert_close(turned, want, atol=1e-6, rtol=1e-6)


@tritium.jit
def atomics(x_ptr, o_ptr, old_ptr, p_ptr, lock_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    old = tl.atomic_add(o_ptr + at, tl.load(x_ptr + at))
    tl.store(old_ptr + tl.program_id(0) * N + at, old)
    one = tl.arange(0, 1)
    tl.atomic_add(p_ptr + one, one + 1)  # a tile of one element: every block has a copy
    mine = tl.atomic_add(p_ptr + 1, 1)
    tl.atomic_max(p_ptr + 2, mine)
    tl.store(p_ptr + 8 + mine, mine)
    seen = tl.atomic_add(p_ptr + 3 + one, one + 1)
    tl.atomic_add(p_ptr + 4, tl.sum(seen, 0))
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.store(p_ptr + 5, tl.load(p_ptr + 5, volatile=True) + 1)
    tl.debug_barrier()
    tl.atomic_xchg(lock_ptr, 0)


@pytest.mark.parametrize("num_ctas", [1, 2, 4])
def test_atomics_happen_once(torch: Any, num_ctas: int) -> None:
    programs, n = 50, 256
    x = torch.randint(1, 100, (n,), device="cuda", dtype=torch.int32)
    o, lock = torch.zeros_like(x), torch.zeros(1, device="cuda", dtype=torch.int32)
    old = torch.full((programs, n), -1, device="cuda", dtype=torch.int32)
    p = torch.zeros(8 + programs, device="cuda", dtype=torch.int32)
    atomics[(programs,)](x, o, old, p, lock, N=n, num_ctas=num_ctas)
    assert torch.equal(o, x * programs)
    steps = torch.arange(programs, device="cuda", dtype=torch.int32)[:, None] * x
    assert torch.equal(old.sort(0).values, steps)
    ones = programs * (programs - 1) // 2
    assert p[:6].tolist() == [programs, programs, programs - 1, programs, ones, programs]
    assert torch.equal(p[8:], torch.arange(programs, device="cuda", dtype=torch.int32))


@tritium.jit
def matmul(a_ptr, b_ptr, c_ptr, M, N, K, stride_b, stride_n,
           BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):  # fmt: skip
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        a = tl.load(a_ptr + m[:, None] * K + k[None, :], mask=m[:, None] < M, other=0.0)
        b = tl.load(b_ptr + k[:, None] * stride_b + n[None, :] * stride_n, mask=n[None, :] < N,
                    other=0.0)  # fmt: skip
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + m[:, None] * N + n[None, :], acc, mask=(m[:, None] < M) & (n[None, :] < N))


TILES = [(128, 128, 64, 4), (256, 64, 32, 8), (64, 128, 64, 4), (32, 32, 32, 4), (16, 16, 16, 2)]


@pytest.mark.parametrize("transposed", [False, True], ids=["", "transposed"])
@pytest.mark.parametrize("tile", TILES, ids=str)
@pytest.mark.parametrize("num_ctas", [1, 2, 4])
def test_products(
    torch: Any, num_ctas: int, tile: tuple[int, int, int, int], transposed: bool
) -> None:
    bm, bn, bk, warps = tile
    shape = m, n, k = 300, 264, 256
    a, b = (torch.randn(s, device="cuda", dtype=torch.float16) for s in ((m, k), (k, n)))
    c = torch.full((m, n), float("nan"), device="cuda")
    given = b.T.contiguous().T if transposed else b
    grid = tritium.cdiv(m, bm), tritium.cdiv(n, bn)
    matmul[grid](a, given, c, *shape, *given.stride(), BM=bm, BN=bn, BK=bk,
                 num_warps=warps, num_ctas=num_ctas)  # fmt: skip
    torch.testing.assert_close(c, (a.double() @ b.double()).float(), atol=2e-3, rtol=2e-3)


@tritium.jit
def described(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(a.load([m, k]), b.load([n, k]).T, acc)
    c.store([m, n], acc.to(tl.float16))


@pytest.mark.parametrize("tile", TILES[:4], ids=str)
@pytest.mark.parametrize("num_ctas", [1, 2, 4])
def test_products_of_descriptors(
    torch: Any, num_ctas: int, tile: tuple[int, int, int, int]
) -> None:
    bm, bn, bk, warps = tile
    m, n, k = 304, 264, 256
    a, b = (torch.randn(s, device="cuda", dtype=torch.float16) for s in ((m, k), (n, k)))
    for _ in range(4):
        c = torch.full((m, n), float("nan"), device="cuda", dtype=torch.float16)
        described[tritium.cdiv(m, bm), tritium.cdiv(n, bn)](
            TensorDescriptor.from_tensor(a, [bm, bk]), TensorDescriptor.from_tensor(b, [bn, bk]),
            TensorDescriptor.from_tensor(c, [bm, bn]), k, BM=bm, BN=bn, BK=bk,
            num_warps=warps, num_ctas=num_ctas,
        )  # fmt: skip
        torch.testing.assert_close(c.double(), a.double() @ b.double().T, atol=5e-2, rtol=5e-3)


@tritium.jit(noinline=True)
def block_of(d, row, column):
    return d.load([row, column])


@tritium.jit
def moving(x_ptr, y_ptr, o_ptr, M, N, BM: tl.constexpr, BN: tl.constexpr):
    """Descriptors that the kernel makes, one of which goes to a function; sums and maxima."""
    x = tl.make_tensor_descriptor(x_ptr, [M, N], [N, 1], [BM, BN])
    y = tl.make_tensor_descriptor(y_ptr, [M, N], [N, 1], [BM, BN])
    o = tl.make_tensor_descriptor(o_ptr, [M, N], [N, 1], [BM, BN])
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    total = block_of(x, row, column) + y.load([row, column])
    o.store([row, column], total * 2 + tl.sum(total, 0)[None, :])
    y.atomic_add([row, column], total)


@pytest.mark.parametrize("num_ctas", [1, 2, 4])
@pytest.mark.parametrize("block", [(64, 32), (2, 64), (1, 128)], ids=str)
def test_descriptors_that_the_kernel_makes(
    torch: Any, num_ctas: int, block: tuple[int, int]
) -> None:
    def memory(size: int, alignment: int, stream: Any) -> Any:
        return torch.empty(size, device="cuda", dtype=torch.int8)

    tritium.set_allocator(memory)
    m, n = 3 * block[0] - (block[0] > 1), 2 * block[1] - 8
    x, y = (torch.randint(0, 99, (m, n), device="cuda").float() for _ in range(2))
    for _ in range(4):
        o, z = torch.full_like(x, float("nan")), y.clone()
        moving[3, 2](x, z, o, m, n, *block, num_ctas=num_ctas)
        total = torch.zeros(3 * block[0], n, device="cuda")
        total[:m] = x + y
        sums = total.reshape(3, block[0], n).sum(1).repeat_interleave(block[0], 0)[:m]
        assert torch.equal(o, 2 * (x + y) + sums)
        assert torch.equal(z, x + 2 * y)


@tritium.jit
def descriptor_sums(d, x_ptr, M: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    d.atomic_add([0, 0], tl.load(x_ptr + at))


@pytest.mark.parametrize("num_ctas", [1, 2])
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_descriptor_atomics_happen_once(torch: Any, num_ctas: int, dtype: str) -> None:
    x = torch.randint(0, 100, (32, 64), device="cuda").to(getattr(torch, dtype))
    o = torch.zeros_like(x)
    d = TensorDescriptor.from_tensor(o, [32, 64])
    descriptor_sums[(7,)](d, x, M=32, N=64, num_ctas=num_ctas)
    assert torch.equal(o, 7 * x)


@tritium.jit
def attention(q_ptr, k_ptr, v_ptr, o_ptr, T, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr):
    m, d = tl.program_id(0) * M + tl.arange(0, M), tl.arange(0, D)
    q = tl.load(q_ptr + m[:, None] * D + d[None, :])
    top = tl.full((M,), -float("inf"), tl.float32)
    total = tl.zeros((M,), tl.float32)
    acc = tl.zeros((M, D), tl.float32)
    for start in range(0, T, N):
        n = start + tl.arange(0, N)
        s = tl.dot(q, tl.trans(tl.load(k_ptr + n[:, None] * D + d[None, :]))) * D**-0.5
        new = tl.maximum(top, tl.max(s, 1))
        p, scale = tl.exp(s - new[:, None]), tl.exp(top - new)
        total, top = total * scale + tl.sum(p, 1), new
        v = tl.load(v_ptr + n[:, None] * D + d[None, :])
        acc = tl.dot(p.to(tl.float16), v, acc * scale[:, None])
    tl.store(o_ptr + m[:, None] * D + d[None, :], acc / total[:, None])


@pytest.mark.parametrize("num_ctas", [1, 2, 4])
@pytest.mark.parametrize("m", [64, 128])
def test_attention(torch: Any, num_ctas: int, m: int) -> None:
    q, k, v = (torch.randn(256, 64, device="cuda", dtype=torch.float16) for _ in range(3))
    o = torch.full((256, 64), float("nan"), device="cuda")
    attention[(256 // m,)](q, k, v, o, 256, M=m, N=64, D=64, num_ctas=num_ctas)
    s = torch.softmax(q.double() @ k.double().T / 8, 1)
    torch.testing.assert_close(o, (s @ v.double()).float(), atol=2e-3, rtol=2e-3)


@tritium.jit
def turns(x_ptr, arrived_ptr, rounds, BLOCK: tl.constexpr):
    """In each round every program reads what its neighbour wrote in the one before."""
    pid, count = tl.program_id(0), tl.num_programs(0)
    at = tl.arange(0, BLOCK)
    for turn in range(rounds):
        neighbour = (pid + 1) % count
        x = tl.load(x_ptr + (turn * count + neighbour) * BLOCK + at, volatile=True)
        tl.store(x_ptr + ((turn + 1) * count + pid) * BLOCK + at, x + 1)
        tl.debug_barrier()
        tl.atomic_add(arrived_ptr, 1)
        while tl.atomic_add(arrived_ptr, 0) < (turn + 1) * count:
            pass


@pytest.mark.parametrize("num_ctas", [2, 4])
def test_a_cooperative_grid_of_clusters(torch: Any, num_ctas: int) -> None:
    count, rounds, block = 24, 20, 256
    for _ in range(4):
        x = torch.full((rounds + 1, count, block), -1, device="cuda", dtype=torch.int32)
        x[0] = torch.arange(count, device="cuda", dtype=torch.int32)[:, None]
        arrived = torch.zeros(1, device="cuda", dtype=torch.int32)
        turns[(count,)](x, arrived, rounds, BLOCK=block, launch_cooperative_grid=True,
                        num_ctas=num_ctas)  # fmt: skip
        want = (torch.arange(count, device="cuda") + rounds) % count + rounds
        assert torch.equal(x[-1], want.int()[:, None].expand(count, block))


@tritium.jit(noinline=True)
def apart(x, y):
    return x * 2 + tl.sum(y, 0)


@tritium.jit
def calls(x_ptr, o_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    tl.store(o_ptr + at, apart(x, x) + apart(x, x + 1))


@pytest.mark.parametrize("num_ctas", [1, 2])
def test_functions_that_stay_functions(torch: Any, num_ctas: int) -> None:
    x = torch.randint(0, 100, (256,), device="cuda", dtype=torch.int32)
    o = torch.full_like(x, -1)
    calls[(1,)](x, o, N=256, num_ctas=num_ctas)
    assert torch.equal(o, (4 * x + 2 * x.sum() + 256).int())
