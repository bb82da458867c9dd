"""Running sums, sorting, histograms, quantized rows, sampling."""

from __future__ import annotations

import pytest

from tests.kernels.support import close, compare, is_op, normal, place, torch
from tritium_kernels.dense import cumsum, dequantize, histogram, order, quantize, sample, sort
from tritium_kernels.errors import ArgumentError

NAN, INF = torch.nan, torch.inf


def reversed_sums(x):
    return x.flip(-1).cumsum(-1).flip(-1)


def test_cumsum():
    x = normal(5, 33)
    compare(cumsum, lambda x: x.cumsum(-1), [x], 4)
    compare(lambda x: cumsum(x, -1, True), reversed_sums, [x], 4)
    compare(lambda x: cumsum(x, 0), lambda x: x.cumsum(0), [normal(6, 5, dtype=torch.float64)], 4)
    numbers = torch.arange(12, dtype=torch.int32, device=place()).view(3, 4).T
    assert torch.equal(cumsum(numbers), numbers.cumsum(-1, dtype=torch.int32))
    assert cumsum(normal(0, 5)).shape == (0, 5) and cumsum(normal(5, 0)).shape == (5, 0)
    x[0, 3], x[1, 2], x[1, 7] = NAN, INF, -INF
    assert torch.equal(cumsum(x).isnan(), x.cumsum(-1).isnan())


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_sums_of_long_rows(dtype):
    compare(cumsum, lambda x: x.cumsum(-1), [normal(3, 20000, dtype=dtype)], 50)


@pytest.mark.every(2)
@pytest.mark.parametrize("descending", [False, True])
def test_sort(descending: bool):
    for dtype in (torch.float32, torch.bfloat16, torch.int32):
        x = (3 * normal(9, 33)).round().to(dtype)  # some are equal
        if dtype != torch.int32:
            x[0, :5] = torch.tensor([NAN, INF, -INF, -0.0, 0.0])
        same_as_stable_sort(x, descending)
    x = normal(5, 7)
    compare(lambda x: sort(x, 0, descending)[0], lambda x: x.sort(0, descending)[0], [x])
    assert sort(normal(0, 3))[1].shape == (0, 3) and sort(normal(2, 1))[1].tolist() == [[0], [0]]


def same_as_stable_sort(x, descending: bool) -> None:
    values, index = sort(x, descending=descending)
    # On a GPU, torch 2.11 sorts NaN of short rows before all numbers.
    right = torch.sort(x.cpu(), dim=-1, descending=descending, stable=True)
    assert torch.equal(index.cpu(), right.indices)
    assert torch.equal(values.cpu().nan_to_num(7), right.values.nan_to_num(7))


@pytest.mark.every(2)
@pytest.mark.parametrize("columns", [65, pytest.param(700, marks=pytest.mark.slow)])
@pytest.mark.parametrize("descending", [False, True])
def test_sort_of_merged_runs(monkeypatch: pytest.MonkeyPatch, descending: bool, columns: int):
    """Rows of more runs than one, the last of them short, with equal elements in several."""
    monkeypatch.setattr(order, "MOST_SORTED", 32)
    x = (2 * normal(3, columns)).round()
    x[0, 3], x[0, 40], x[1, 5], x[1, 50], x[2, 7], x[2, 60] = NAN, NAN, INF, INF, -0.0, 0.0
    same_as_stable_sort(x, descending)
    values, _ = sort(x.mT, 0, descending)
    assert torch.equal(values.nan_to_num(7), sort(x, 1, descending)[0].mT.nan_to_num(7))
    compare(lambda x: sort(x)[0], lambda x: x.sort()[0], [normal(2, columns)])


@pytest.mark.slow
def test_sort_of_long_rows():
    same_as_stable_sort(normal(2, 50001), False)
    same_as_stable_sort(normal(1, 300000, dtype=torch.bfloat16), True)


def test_histogram():
    x = 2 * normal(20, 50).mT
    x[0, :4] = torch.tensor([NAN, INF, 3.0, -3.0])
    right = torch.histc(x[x.isfinite()].cpu(), 12, -3, 3).int()
    assert torch.equal(histogram(x, 12, -3, 3).cpu(), right)
    assert histogram(normal(0), 3, 0, 1).tolist() == [0, 0, 0]


@pytest.mark.every(2)
@pytest.mark.parametrize("dtype", [torch.int8, torch.float8_e4m3fn, torch.float8_e5m2])
def test_quantize(dtype):
    most = {torch.int8: 127, torch.float8_e4m3fn: 448, torch.float8_e5m2: 57344}[dtype]
    x = normal(6, 96)
    x[1] = 0
    for group in (None, 32):
        q, scale = quantize(x, dtype, group)
        parts = x.view(6, -1, group or 96)
        assert torch.equal(scale.view(6, -1), parts.abs().amax(-1) / most)
        step = {torch.int8: 0.5 / 127, torch.float8_e4m3fn: 1 / 16, torch.float8_e5m2: 1 / 8}[dtype]
        y = dequantize(q, scale)
        assert y.shape == x.shape and not y[1].any()
        bound = parts.abs() if dtype != torch.int8 else parts.abs().amax(-1, keepdim=True)
        bound = step * bound + 2.0**-9 * scale.view(6, -1, 1)
        assert ((y.view_as(parts) - parts).abs() <= bound).all()
    odd = torch.tensor([[0.5, 1.5, 127.0], [1.0, NAN, 1.0], [INF, 1.0, 0.0]], device=place())
    q, scale = quantize(odd, dtype)
    assert scale.isfinite().tolist() == [True, False, False] and not q[1:].float().any()
    if dtype == torch.int8:
        assert q[0].tolist() == [0, 2, 127]  # ties to even
    assert quantize(normal(0, 4), dtype)[1].shape == (0,)
    assert quantize(normal(4, 0), dtype)[1].tolist() == [0.0] * 4


def drawn(logits, **options):
    """The share of each column in 8000 draws."""
    rows = logits.expand(8000, -1)
    return torch.bincount(sample(rows, **options), minlength=rows.shape[1]).cpu() / 8000


def test_sample():
    logits = torch.tensor([1.0, 2.0, 0.0, 3.0, 2.5, -1.0], device=place())
    for options, left, factor in (
        ({}, [0, 1, 2, 3, 4, 5], 1), ({"temperature": 0.5}, [0, 1, 2, 3, 4, 5], 2),
        ({"top_k": 2}, [3, 4], 1), ({"top_p": 0.8}, [1, 3, 4], 1),
        ({"top_k": 4, "top_p": 0.9}, [1, 3, 4], 1),
    ):  # fmt: skip
        right = torch.zeros(6)
        right[left] = torch.softmax(factor * logits[left].cpu(), 0)
        found = drawn(logits, **options)
        assert (found - right).abs().max() < 0.03 and not found[right == 0].any(), (options, found)
    x = normal(7, 5000, dtype=torch.bfloat16)
    assert torch.equal(sample(x, 0), x.float().argmax(1)) and torch.equal(sample(x), sample(x))
    assert not torch.equal(sample(x, seed=1), sample(x, seed=2))


def test_sample_of_odd_rows():
    x = torch.full((4, 9), -INF, device=place())
    x[1], x[2, 3], x[3, 5] = NAN, INF, 1.0
    for options in ({}, {"temperature": 0}, {"top_k": 2, "top_p": 0.5}):
        assert sample(x, **options).tolist() == [-1, -1, 3, 5]
    assert sample(normal(0, 4)).shape == (0,)


def most_likely(x, top_k=None, top_p=None):
    """The mask of the columns that may be drawn, by sorting each row in float64."""
    keys = x.double().nan_to_num(nan=-INF, posinf=INF, neginf=-INF)
    allowed = keys > -INF
    if top_k is not None:
        allowed &= keys >= keys.topk(min(top_k, x.shape[1])).values[:, -1:]
    if top_p is not None:
        p = torch.softmax(keys.masked_fill(~allowed, -INF), 1)
        falling, order = p.sort(dim=1, descending=True, stable=True)
        count = (falling.cumsum(1) - falling < top_p - 1e-6).sum(1)
        last = keys.gather(1, order).gather(1, (count - 1)[:, None])
        allowed &= keys >= last
    return allowed


@pytest.mark.covering(1)
@pytest.mark.parametrize("kind", ["normal", "ties", "equal", "holes"])
@pytest.mark.parametrize("columns", [37, 5000])
def test_columns_drawn_are_of_the_largest(kind: str, columns: int):
    """Of ties and equal elements there are more than are put aside as candidates."""
    x = normal(6, columns)
    if kind == "ties":
        x = x.round()
    elif kind == "equal":
        x = x * 0
    elif kind == "holes":
        x[:, ::3], x[:, 1::7] = -INF, NAN
    for options in ({"top_k": 1}, {"top_k": 30}, {"top_p": 0.3}, {"top_k": 700, "top_p": 0.6}):
        allowed = most_likely(x, **options)
        seen = torch.stack([sample(x, seed=seed, **options) for seed in range(12)], 1)
        assert allowed.gather(1, seen).all(), options
        assert kind != "equal" or seen.unique().numel() > 20


@pytest.mark.slow
def test_ops():
    ops, x = torch.ops.tritium_kernels, normal(4, 8)
    is_op(ops.cumsum.default, x.clone().requires_grad_(), False)
    is_op(ops.sort.default, x.clone().requires_grad_(), True)
    is_op(ops.histogram.default, x, 4, -1.0, 1.0)
    is_op(ops.quantize.default, x, torch.int8)
    is_op(ops.dequantize.default, *quantize(x), torch.float32)
    is_op(ops.sample.default, x, 1.0, 2, 0.5, 0)
    g = torch.tensor([0.5], device=x.device)
    q = [normal(1, 1, 5, 8, seed=s).requires_grad_() for s in range(3)]
    is_op(ops.linear_attention.default, *q, g, 1.0)
    found = torch.compile(lambda x: sort(cumsum(x))[0].sum(), backend="aot_eager", fullgraph=True)
    close(found(x), x.cumsum(-1).double().sum(), 10)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: cumsum(x.bool()), "cumsum: x has dtype bool; accepted: float16"),
        (lambda x: cumsum(x, 2), "cumsum: dim is 2; accepted: -2 to 1"),
        (lambda x: sort(x.double()), "sort: x has dtype float64; accepted: float16"),
        (lambda x: sort(x[0, :1].expand(1 << 31)), "x has 2147483648 elements along dim; accepted"),
        (lambda x: histogram(x, 0, 0, 1), "histogram: bins is 0; accepted: 1 to 16384"),
        (lambda x: histogram(x, 4, 1, 1), "high is 1 for low 1; accepted: finite low < high"),
        (lambda x: quantize(x, torch.int32), "quantize: dtype is torch.int32; accep"),
        (lambda x: quantize(x, group=3), "group is 3; accepted: None, or a divisor of 4 columns"),
        (lambda x: dequantize(x, x), "dequantize: q has dtype float32; accepted: int8"),
        (lambda x: dequantize(x.to(torch.int8), x[0]), r"scale has shape \(4,\); accepted: \(3,\)"),
        (lambda x: sample(x[0]), "sample: logits has 1 dimensions; accepted: 2"),
        (lambda x: sample(x, -1), "temperature is -1; accepted: 0 or more, finite"),
        (lambda x: sample(x, top_p=0), "top_p is 0; accepted: 0 < top_p <= 1, or None"),
        (lambda x: sample(x, top_k=0), "top_k is 0; accepted: 1 or more, or None"),
    ],
)
def test_errors(call, message: str):
    with pytest.raises(ArgumentError, match=message):
        call(normal(3, 4))
