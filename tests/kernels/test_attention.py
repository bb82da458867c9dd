"""Attention, forward and backward, against float64."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.kernels.support import (
    close,
    compare,
    integers,
    is_op,
    normal,
    place,
    torch,
    with_copy_engine,
)
from tritium_kernels.dense import attention, attention_launch, attention_packed, paged_attention
from tritium_kernels.dense.score import alibi, softcap
from tritium_kernels.errors import ArgumentError


def exact(q, k, v, causal=False, window=None, score=None):
    group = q.shape[1] // k.shape[1]
    k, v = (t.repeat_interleave(group, 1) for t in (k, v))
    queries, keys = q.shape[2], k.shape[2]
    at = torch.arange(queries, device=q.device)[:, None] + keys - queries
    key = torch.arange(keys, device=q.device)[None]
    scores = (q @ k.mT) * q.shape[-1] ** -0.5
    if score is not None:
        scores = score(scores, at, key)
    left, right = window or (-1, -1)
    right = 0 if causal else right
    seen = torch.ones(queries, keys, dtype=torch.bool, device=q.device)
    if left >= 0:
        seen &= key >= at - left
    if right >= 0:
        seen &= key <= at + right
    return (torch.softmax(scores.masked_fill(~seen, -1e300), -1) * seen) @ v


def tensors(queries, keys, heads, kv_heads, d, dv, dtype=torch.float32):
    """q with heads inside of rows; k and v the other way round."""
    q = normal(2, queries, heads, d, dtype=dtype).transpose(1, 2)
    return [
        q, normal(2, kv_heads, keys, d, dtype=dtype, seed=1),
        normal(2, kv_heads, keys, dv, dtype=dtype, seed=2),
    ]  # fmt: skip


def check(*sizes: int, dtype=torch.float32, score=None, aux=None, formula=None, **options) -> None:
    compare(
        lambda q, k, v: attention(q, k, v, score=score, aux=aux, **options),
        lambda q, k, v: exact(q, k, v, score=formula, **options), tensors(*sizes, dtype=dtype),
    )  # fmt: skip


def test_causal_with_grouped_heads():
    check(70, 150, 4, 2, 24, 16, causal=True)


@pytest.mark.every(2)
@pytest.mark.parametrize("scale", [0.1, 0.0, -0.3])
def test_scales(scale: float):
    """Of any sign: the largest score times a negative scale is the smallest."""
    q, k, v = tensors(40, 130, 2, 1, 16, 16)
    found = attention(q, k, v, scale=scale)
    want = exact(q.double() * scale * 4, k.double(), v.double())  # over sqrt(16)
    torch.testing.assert_close(found.double(), want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("sizes", "options"),
    [
        ((70, 150, 4, 2, 24, 16), {"causal": True}),
        pytest.param((100, 128, 2, 2, 64, 64), {}, marks=pytest.mark.slow),
        pytest.param((130, 130, 2, 1, 64, 64), {"window": (20, 30)}, marks=pytest.mark.slow),
    ],
)
def test_by_descriptors(monkeypatch: pytest.MonkeyPatch, sizes, options):
    """As on GPUs whose engine copies blocks of tensors."""
    taken = with_copy_engine(monkeypatch, attention_launch.forward_kernels, "attention_forward")
    q, k, v = tensors(*sizes, dtype=torch.float16)
    want = exact(q.double(), k.double(), v.double(), **options)
    torch.testing.assert_close(attention(q, k, v, **options).double(), want, rtol=2e-3, atol=2e-3)
    assert taken == [4]


def test_windows_of_more_keys_than_there_can_be():
    q, k, v = tensors(70, 90, 2, 1, 24, 16)
    most = (1 << 31) - 1
    assert torch.equal(attention(q, k, v, window=(most, most)), attention(q, k, v))


@pytest.mark.cpu
@pytest.mark.parametrize("walks", [True, False])
def test_gradients_by_heads_and_by_blocks(monkeypatch: pytest.MonkeyPatch, walks: bool):
    """Programs that take all keys of a head, and those that take blocks of queries or keys."""
    monkeypatch.setattr(attention_launch, "_walks_heads", lambda *_: walks)
    check(70, 90, 2, 1, 24, 16, causal=True)


@pytest.mark.slow
@pytest.mark.parametrize("causal", [True, False])
def test_gradients_by_one_kernel(monkeypatch: pytest.MonkeyPatch, causal: bool):
    """dQ is added to memory by the copy engine, unless results may not vary."""
    table = replace(attention_launch._HOST, together={256: attention_launch.Tiles(32, 64, 4, 1)})
    monkeypatch.setattr(attention_launch, "_HOST", table)
    monkeypatch.setattr(attention_launch, "_walks_heads", lambda *_: False)
    taken = with_copy_engine(monkeypatch, attention_launch.backward_kernels, "attention_dk_dv")
    check(70, 90, 2, 1, 24, 16, dtype=torch.float16, causal=causal)
    assert taken == [9]  # q, k, v, do, dk, dv, dq, and two numbers of each query
    if not causal:
        monkeypatch.setattr(torch, "are_deterministic_algorithms_enabled", lambda: True)
        check(70, 90, 2, 1, 24, 16, dtype=torch.float16)
        assert taken == [9, 6]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize(
    ("sizes", "options"),
    [
        ((100, 100, 2, 2, 16, 16), {}),
        ((1, 130, 2, 1, 64, 64), {"causal": True}),
        ((128, 128, 2, 2, 128, 128), {"causal": True}),
        ((200, 70, 2, 1, 16, 16), {"causal": True}),  # some queries see no key
        ((300, 300, 2, 1, 16, 16), {"window": (20, 10)}),
        ((300, 300, 2, 1, 16, 16), {"window": (100, -1)}),
        ((150, 260, 2, 1, 16, 16), {"window": (130, 0), "causal": True}),
        ((64, 64, 1, 1, 1, 3), {}),
    ],
)
def test_forms(sizes, options, dtype):
    check(*sizes, dtype=dtype, **options)


@pytest.mark.slow
def test_score_functions():
    slopes = torch.tensor([0.5, 0.25, 0.125, 0.0625], device=place())
    check(
        100, 100, 4, 2, 16, 16, causal=True, score=alibi, aux=slopes,
        formula=lambda s, i, j: s - slopes.double()[:, None, None] * (i - j).abs(),
    )  # fmt: skip
    cap = torch.tensor([0.5], device=place())
    check(
        100, 70, 4, 2, 16, 16, score=softcap, aux=cap,
        formula=lambda s, i, j: 0.5 * torch.tanh(s / 0.5),
    )  # fmt: skip


def packed(q, k, v, queries: list[int], keys: list[int]):
    q, k, v = (
        torch.split(t.transpose(0, 1)[None], sizes, 2)
        for t, sizes in ((q, queries), (k, keys), (v, keys))
    )
    parts = [exact(*one, causal=True) for one in zip(q, k, v, strict=True)]
    return torch.cat(parts, 2)[0].transpose(0, 1)


def test_packed_sequences():
    queries, keys = [5, 0, 75, 40], [50, 10, 75, 30]

    def offsets(sizes: list[int]):
        sums = torch.tensor([0, *sizes]).cumsum(0)
        return sums.to(place(), torch.int32)

    at = offsets(queries), offsets(keys)
    inputs = [normal(n, h, 16, seed=h) for n, h in ((120, 4), (165, 2), (165, 2))]
    compare(
        lambda q, k, v: attention_packed(q, k, v, *at, 75, 75, causal=True),
        lambda q, k, v: packed(q, k, v, queries, keys), inputs,
    )  # fmt: skip


@pytest.mark.every(2)
@pytest.mark.parametrize("first", [0, 130, 200])
def test_keys_of_minus_infinity(first: int):
    """Blocks of keys that all score minus infinity weigh nothing, before others as well."""
    q, k, v = (t.clone() for t in tensors(9, 300, 2, 2, 16, 16))
    q[..., 0] = q[..., 0].abs() + 0.1
    k[:, :, first : first + 100, 0] = float("-inf")
    close(attention(q, k, v), exact(q.double(), k.double(), v.double()))
    rows = [t.transpose(1, 2).reshape(2 * 10, 30, 2, 16) for t in (k, v)]
    table = torch.arange(20, dtype=torch.int32, device=place()).reshape(2, 10)
    lengths = torch.full((2,), 300, dtype=torch.int32, device=place())
    one = paged_attention(q[:, :, 0], *rows, table, lengths)
    close(one, exact(q[:, :, :1].double(), k.double(), v.double())[:, :, 0])


@pytest.mark.slow
def test_dropout():
    """Each weight is dropped or divided by 1 - p, by the same choice forward and backward."""
    q, k, _ = tensors(60, 90, 2, 1, 16, 16)
    v = torch.eye(90, device=place()).expand(2, 1, 90, 90).contiguous()
    weights, plain = attention(q, k, v, dropout=0.25, seed=3), attention(q, k, v)
    kept = weights != 0
    assert abs(kept.double().mean().item() - 0.75) < 0.02
    torch.testing.assert_close(weights, plain * kept / 0.75)
    assert torch.equal(weights, attention(q, k, v, dropout=0.25, seed=3))
    assert not torch.equal(weights, attention(q, k, v, dropout=0.25, seed=4))

    def exact_dropout(q, k, v):
        p = torch.softmax((q @ k.mT) * 0.25, -1) * kept / 0.75
        return p @ v

    compare(
        lambda q, k, v: attention(q, k, v, dropout=0.25, seed=3),
        exact_dropout, tensors(60, 90, 2, 1, 16, 16),
    )  # fmt: skip


@pytest.mark.parametrize("window", [20, pytest.param(None, marks=pytest.mark.slow)])
def test_pages(window: int | None):
    lengths = torch.tensor([190, 0, 33], dtype=torch.int32, device=place())
    k, v = normal(40, 16, 2, 32), normal(40, 16, 2, 32, seed=1)
    order = torch.randperm(36, generator=torch.Generator().manual_seed(0))
    table = order.view(3, 12).to(place(), torch.int32)
    q = normal(3, 8, 32)
    found = paged_attention(q, k, v, table, lengths, window=window)
    for i, length in enumerate(lengths.tolist()):
        first = 0 if window is None else max(0, length - 1 - window)
        here = [
            t[table[i].long()].reshape(-1, 2, 32)[first:length].double().transpose(0, 1)[None]
            for t in (k, v)
        ]
        right = exact(q[i].double()[None, :, None], *here)[0, :, 0]
        torch.testing.assert_close(found[i].double(), right, atol=1e-5, rtol=1e-5)


@pytest.mark.every(2)
@pytest.mark.parametrize(
    "options",
    [pytest.param({"causal": True}, marks=pytest.mark.slow), {"window": (2, 1)},
     pytest.param({"dropout": 0.3}, marks=pytest.mark.slow),
     {"score": alibi, "aux": torch.tensor([0.5, 0.25, 0.125, 1.0], dtype=torch.float64)},
     pytest.param({"score": softcap, "aux": torch.tensor(0.7)}, marks=pytest.mark.slow)],
)  # fmt: skip
def test_double_precision(options):
    """On CPUs: gradients are those of the function, to its last bits."""
    q, k, v = (
        normal(*shape, dtype=torch.float64)
        for shape in ((1, 4, 7, 5), (1, 2, 9, 5), (1, 2, 9, 3))
    )
    if place() == "cuda":
        with pytest.raises(ArgumentError, match="q has dtype float64 on cuda:0; accepted: float16"):
            attention(q, k, v)
        return
    inputs = [t.requires_grad_() for t in (q, k, v)]
    assert torch.autograd.gradcheck(lambda *qkv: attention(*qkv, **options), inputs)
    if set(options) <= {"causal", "window"}:
        close(attention(q, k, v, **options).detach(), exact(q, k, v, **options).detach(), 1e-4)


def test_empty_tensors():
    for queries, keys in ((0, 5), (5, 0)):
        q, k, v = (t.requires_grad_() for t in tensors(queries, keys, 2, 1, 16, 16))
        o = attention(q, k, v, causal=True)
        assert o.shape == q.shape and not o.any()
        o.sum().backward()
        assert not q.grad.any() and not k.grad.any()


@pytest.mark.slow
def test_it_is_an_op_of_torch():
    q, k, v = (t.requires_grad_() for t in tensors(20, 30, 2, 1, 16, 16))
    options = (None, None, None, 0.25, -1, 0, None, 0.0, 0, 20, 30)
    is_op(torch.ops.tritium_kernels.attention.default, q, k, v, *options)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda q, k, v: attention(q[0], k, v), "attention: q has 3 dimensions; accepted: 4"),
        (lambda q, k, v: attention(q, k, v[:, :, :1]), r"attention: v has shape \(2, 3, 1, 16\)"),
        (lambda q, k, v: attention(q[:, :2], k, v), "k has 3 heads; accepted: a number that div"),
        (lambda q, k, v: attention(q, k.half(), v), "k has dtype float16; accepted: the dtype of"),
        (lambda q, k, v: attention(q.int(), k, v), "q has dtype int32; accepted: float16"),
        (lambda q, k, v: attention(q, k, v, window=(-2, 0)), r"window is \(-2, 0\); accepted: \(l"),
        (lambda q, k, v: attention(q, k, v, dropout=1.0), "dropout is 1.0; accepted: 0 <= dropout"),
        (lambda q, k, v: attention(q, k, v, score=abs), "score is builtin_function_or_method; acc"),
        (lambda q, k, v: paged_attention(q[:, :, 0], k.transpose(1, 2), v.transpose(1, 2),
                                         integers(3, 3, 2), integers(3, 2)),
         r"paged_attention: table has shape \(3, 2\); accepted: \(2, 2\)"),
    ],
)  # fmt: skip
def test_errors(call, message: str):
    with pytest.raises(ArgumentError, match=message):
        call(*tensors(4, 5, 6, 3, 16, 16))
