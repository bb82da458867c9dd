"""Top-k, bit matrices, ragged metadata, compaction and routing, against torch."""

from __future__ import annotations

import pytest

import tritium
import tritium.language as tl
from tests.kernels.support import close, integers, normal, place, torch
from tritium_kernels.compaction import compaction, compaction_torch
from tritium_kernels.errors import ArgumentError
from tritium_kernels.routing import compute_metadata, routing, routing_torch
from tritium_kernels.tensor_details.bitmatrix import (
    make_bitmatrix_metadata_torch,
    sum_bitmatrix_rows,
)
from tritium_kernels.tensor_details.bitmatrix_details.sum_bitmatrix_rows import vpopc
from tritium_kernels.tensor_details.ragged_tensor import (
    RaggedTensorMetadata,
    make_ragged_tensor_metadata,
    make_ragged_tensor_metadata_torch,
    remap_ragged_tensor_metadata,
    remap_ragged_tensor_metadata_torch,
)
from tritium_kernels.topk import topk, topk_torch


def same(found, right, *names: str) -> None:
    for name in names:
        assert torch.equal(getattr(found, name), getattr(right, name)), name


def check_topk(rows: int, columns: int, k: int, softmax: bool, dtype) -> None:
    x = normal(rows, columns, dtype=dtype)
    x = (2 * x).round() if columns > 50 else x  # with equal elements
    found, right = topk(x, k, softmax), topk_torch(x, k, softmax)
    assert found.mask.storage.data.stride() == right.mask.storage.data.stride()
    assert torch.equal(found.indx, right.indx) and torch.equal(found.mask.data, right.mask.data)
    close(found.vals, right.vals.double())
    chosen = topk(x, k, softmax, y_indx=found.indx, n_rows=2)
    right = topk_torch(x, k, softmax, y_indx=found.indx, n_rows=2)
    assert torch.equal(chosen.mask.data, right.mask.data)
    close(chosen.vals, right.vals.double())
    order = found.mask_metadata
    names = ("col_sum", "col_sorted_indx", "row_sorted_indx")
    same(order, make_bitmatrix_metadata_torch(found.indx, found.mask), *names)
    sums, parts = sum_bitmatrix_rows(found.mask, 32)
    assert torch.equal(sums, order.col_sum) and torch.equal(parts.sum(0).int(), sums)


def test_topk():
    check_topk(7, 60, 3, True, torch.float32)
    x = torch.tensor([[1.0, torch.nan, torch.inf, -torch.inf, 2.0, 2.0]], device=place())
    assert topk(x, 6, False).indx.tolist() == [[1, 2, 4, 5, 0, 3]]
    zeros = torch.tensor([[-1.0, -0.0, 0.0, -2.0]], device=place())
    assert topk(zeros, 2, False).indx.tolist() == [[1, 2]]
    assert topk(normal(0, 8), 2).mask_metadata.col_sum.tolist() == [0] * 8


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("softmax", [False, True])
@pytest.mark.parametrize(("columns", "k"), [(4, 4), (32, 4), (100, 1), (128, 3), (2000, 8)])
def test_topk_sizes(columns: int, k: int, softmax: bool, dtype):
    for rows in (1, 33, 300):
        check_topk(rows, columns, k, softmax, dtype)


@pytest.mark.parametrize("softmax", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_gradient_of_topk(softmax: bool):
    x, dv = normal(5, 40).requires_grad_(), normal(5, 4)
    found = topk(x, 4, softmax)
    found.vals.backward(dv)
    exact = x.detach().double().requires_grad_()
    v = torch.gather(exact, 1, found.indx.long())
    (torch.softmax(v, 1) if softmax else v).backward(dv.double())
    close(x.grad, exact.grad)


def test_elements_that_no_expert_takes():
    index = torch.tensor([[2, -1], [0, 2], [-1, -1]], dtype=torch.int16, device=place())
    found = topk(normal(3, 5), 2, y_indx=index)
    order = found.mask_metadata
    assert order.col_sum.tolist() == [1, 0, 2, 0, 0]
    assert order.col_sorted_indx.tolist() == [2, 0, 3, -1, -1, -1]
    assert order.row_sorted_indx.tolist() == [1, -1, 0, 2, -1, -1]
    assert found.vals[0].tolist() == [1.0, 0.0] and not found.vals[2].any()


@pytest.mark.parametrize(
    ("sizes", "rows"),
    [([5, 0, 100, 33], 140), ([0, 0], 0), ([], 0), ([1] * 200, 200), ([1000], 1000)],
)
def test_ragged_metadata(sizes: list[int], rows: int):
    given = torch.tensor(sizes, dtype=torch.int32, device=place())
    found = make_ragged_tensor_metadata(given, rows)
    right = make_ragged_tensor_metadata_torch(given, rows)
    same(found, right, "slice_offs", "block_offs_data", "block_schedule_data")
    for block in RaggedTensorMetadata.block_sizes():
        used = int(found.block_offs(block)[-1]) if sizes else 0
        assert used <= RaggedTensorMetadata.n_blocks(len(sizes), rows, block)


def test_compaction():
    found, mask = topk(normal(9, 64), 6), topk(normal(9, 64, seed=1), 20).mask
    pairs = [f(found.vals, found.indx, mask, -2) for f in (compaction, compaction_torch)]
    for ours, theirs in zip(*pairs, strict=True):
        assert torch.equal(ours, theirs)
    assert (pairs[0][1] == -2).any() and (pairs[0][1] != -2).any()
    words = mask.storage.data
    for same in (words.view(torch.uint32), words.long() & 0xFFFFFFFF):
        assert torch.equal(compaction(found.vals, found.indx, same, -2)[1], pairs[0][1])


def test_experts_of_one_device():
    logits = normal(20, 12)
    (whole, _, _), (part, gather, scatter) = (
        routing(logits, 3, simulated_ep=parts) for parts in (1, 2)
    )
    assert part.n_expts_tot == 6 and torch.equal(part.expt_hist, whole.expt_hist[:6])
    count = int(part.expt_hist.sum())
    assert torch.equal(part.gate_scal[:count], whole.gate_scal[:count])
    assert (gather.src_indx[count:] == -1).all() and int((scatter.src_indx >= 0).sum()) == count
    data = compute_metadata(part, 60, 16)
    assert torch.equal(data.hist, part.expt_hist) and data.offs[-1] == count
    sizes = part.expt_hist.tolist()
    words = [(b << 16) + e for e, n in enumerate(sizes) for b in range(-(-n // 16))]
    assert data.blocks.tolist() == words + [-1] * (len(data.blocks) - len(words))
    assert data.offs_sum.item() == len(words)
    assert torch.equal(data.buffer[:6], data.hist)


@pytest.mark.parametrize("renormalize", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_routing(renormalize: bool):
    logits = normal(50, 12)
    (data, gather, scatter), (right, places, _) = (
        f(logits, 3, renormalize) for f in (routing, routing_torch)
    )
    assert torch.equal(gather.src_indx, places.src_indx)
    assert torch.equal(data.expt_hist, right.expt_hist) and int(data.expt_hist.sum()) == 150
    close(data.gate_scal, right.gate_scal.double())
    assert torch.equal(gather.src_indx[scatter.src_indx.long()].cpu(), torch.arange(150).int())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: topk(x, 5), "topk: k is 5; accepted: 1 to 4, the columns of x"),
        (lambda x: topk(x, 1, dim=0), "topk: dim is 0; accepted: 1"),
        (lambda x: topk(x.double(), 1), "topk: x has dtype float64; accepted: float16"),
        (lambda x: topk(torch.zeros(1, 40000, device=x.device), 1), "has 40000 columns; accepted"),
        (lambda x: topk(x, 2, y_indx=x[:, :2].int()[:1]), r"y_indx has shape \(1, 2\); accepted"),
        (lambda x: make_ragged_tensor_metadata(x[0], 1), "slice_sizes has dtype float32; accepted"),
        (lambda x: routing(x, 1, simulated_ep=3), "simulated_ep is 3; accepted: a divisor of 4"),
        (lambda x: compaction(x, x, x.int()), "compaction: yi has dtype float32; accepted: int16"),
    ],
)
def test_errors(call, message: str):
    with pytest.raises(ArgumentError, match=message):
        call(normal(3, 4))


def test_some_of_the_slices():
    given = torch.tensor([5, 0, 100, 33], dtype=torch.int32, device=place())
    source = make_ragged_tensor_metadata(given, 140)
    chosen = torch.tensor([-1, 2, 0, 1], device=place())
    found = remap_ragged_tensor_metadata(source, chosen)
    right = remap_ragged_tensor_metadata_torch(source, chosen)
    same(found, right, "slice_sizes", "slice_offs", "block_offs_data", "block_schedule_data")
    assert found.slice_sizes.tolist() == [100, 33, 0]
    assert found.slice_offs.tolist() == [5, 105, 5, 138]
    with pytest.raises(ArgumentError, match=r"slice_map is .*; accepted: the numbers 0 to 2 once"):
        remap_ragged_tensor_metadata(source, torch.tensor([0, 0, 1, -1], device=place()))


def test_counts_of_bits():
    words = integers(1 << 31, 3, 8, dtype=torch.int32)
    counts = torch.zeros(3, 32, dtype=torch.int32, device=place())
    count_bits[(1,)](words, counts)
    bits = (words[..., None].long() >> torch.arange(32, device=place())) & 1
    assert torch.equal(counts.long(), bits.sum(1))


@tritium.jit
def count_bits(words_ptr, counts_ptr):
    i = tl.arange(0, 4)[:, None]
    at = i * 8 + tl.arange(0, 8)[None, :]
    counts = vpopc(tl.load(words_ptr + at, mask=i < 3, other=0).to(tl.uint32))
    tl.store(counts_ptr + i * 32 + tl.arange(0, 32)[None, :], counts, mask=i < 3)
