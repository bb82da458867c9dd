"""Group norm, embedding, AdamW and the fused linear cross entropy, against float64."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

from tests.kernels.support import FLOATS, close, compare, integers, normal, place, torch
from tritium_kernels.dense import (
    AdamW,
    adamw_,
    cross_entropy,
    embedding,
    group_norm,
    layer_norm,
    linear_cross_entropy,
)
from tritium_kernels.errors import ArgumentError
from tritium_kernels.launching.plans import forget_records
from tritium_kernels.launching.tables import plan_flat

group_norms = import_module("tritium_kernels.dense.group_norm")  # the package has the function

F = torch.nn.functional


def check_group_norm(shape, groups: int, dtype) -> None:
    inputs = [normal(*shape, dtype=dtype), *(normal(shape[1], dtype=dtype, seed=s) for s in (1, 2))]
    compare(
        lambda x, w, b: group_norm(x, groups, w, b),
        lambda x, w, b: F.group_norm(x, groups, w, b), inputs, scale=4,
    )  # fmt: skip


@pytest.mark.every(2)
@pytest.mark.parametrize(("shape", "groups", "dtype"), [
    ((2, 6, 5, 7), 3, torch.float32),
    ((1, 4, 512), 2, torch.float64),
    ((2, 6, 3), 3, torch.float32),  # a CPU takes few positions element by element
    ((1, 4, 300), 1, torch.float32),  # fewer groups than processors
    ((1, 4, 28, 28), 2, torch.bfloat16),
])  # fmt: skip
def test_group_norm(shape, groups: int, dtype):
    check_group_norm(shape, groups, dtype)


def test_group_norm_of_no_elements():
    assert group_norm(torch.empty(0, 4, 3, device=place()), 2).shape == (0, 4, 3)
    assert group_norm(torch.empty(2, 4, 0, device=place()), 2).shape == (2, 4, 0)


@pytest.mark.every(2)
@pytest.mark.parametrize("shape", [(2, 8, 40), (2, 8, 3), (2, 8, 600)])
def test_group_norm_where_means_are_large(shape):
    """Rounded means are off by more than a tenth of the deviation."""
    inputs = [normal(*shape) + 5e6, normal(8, seed=2), normal(8, seed=3)]
    compare(lambda x, w, b: group_norm(x, 4, w, b), lambda x, w, b: F.group_norm(x, 4, w, b),
            inputs)  # fmt: skip


@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("shape", "groups", "dtype"),
    [((2, 6, 5, 7), 2, torch.float32), ((3, 4), 4, torch.bfloat16), ((5, 4, 64), 1, torch.float64)],
)
def test_groups_held_in_registers(monkeypatch: pytest.MonkeyPatch, shape, groups: int, dtype):
    """Programs read a group once, which is what they do on GPUs."""
    monkeypatch.setitem(group_norms._WHOLE, "cpu", 1 << 16)
    group_norms._tile.cache_clear()
    forget_records()  # which launch what the table had before
    try:
        check_group_norm(shape, groups, dtype)
        far, w = normal(*shape) + 5e6, normal(shape[1], seed=2)
        compare(lambda x, w: group_norm(x, groups, w), lambda x, w: F.group_norm(x, groups, w),
                [far, w])  # fmt: skip
        compare(lambda x: group_norm(x, groups), lambda x: F.group_norm(x, groups), [far])
    finally:
        monkeypatch.undo()
        group_norms._tile.cache_clear()
        forget_records()


@pytest.mark.every(2)
@pytest.mark.parametrize("given", [(True, False), (False, True), (False, False)])
def test_gradients_of_weight_and_bias_alone(given: tuple[bool, bool]):
    """Each in its own type; of many batches more than one tile is added up."""
    x, parts = normal(40, 4, 3), [normal(4, seed=s).bfloat16() for s in (2, 3)]
    weight, bias = (p if there else None for p, there in zip(parts, given, strict=True))
    have = [p for p in (weight, bias) if p is not None]

    def of(function: Any) -> Any:
        def call(x: Any, *some: Any) -> Any:
            left = iter(some)
            return function(x, 2, *(next(left) if there else None for there in given))

        return call

    def exact(x: Any, groups: int, weight: Any, bias: Any) -> Any:  # torch needs both or a weight
        y = F.group_norm(x, groups)
        y = y if weight is None else y * weight[:, None]
        return y if bias is None else y + bias[:, None]

    compare(of(group_norm), of(exact), [x, *have], scale=4)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("shape", "groups"), [((3, 4), 4), ((2, 8, 50, 50), 1), ((2, 2, 9000), 2)])
def test_group_norm_sizes(shape, groups: int, dtype):
    check_group_norm(shape, groups, dtype)


def test_embedding():
    index = integers(9, 4, 10)
    compare(lambda t: embedding(index, t, 2), lambda t: F.embedding(index, t, 2), [normal(9, 33)])
    table = normal(3, 4).requires_grad_()
    y = embedding(torch.tensor([1, 3, -1], dtype=torch.int32, device=place()), table)
    assert y.isnan().all(1).tolist() == [False, True, True]
    y.sum().backward()
    assert table.grad.tolist() == [[0.0] * 4, [1.0] * 4, [0.0] * 4]
    assert embedding(integers(3, 0), table).shape == (0, 4)


def test_adamw_takes_the_steps_of_torch():
    start = normal(50, 3).T
    ours, theirs = (torch.nn.Parameter(p) for p in (start.clone(), start.double()))
    steps = AdamW([ours], lr=0.1, maximize=True), torch.optim.AdamW([theirs], lr=0.1, maximize=True)
    for number in range(3):
        gradient = normal(3, 50, seed=number)
        ours.grad, theirs.grad = gradient, gradient.double()
        for optimizer in steps:
            optimizer.step()
    close(ours.detach(), theirs.detach())


@pytest.mark.every(2)
@pytest.mark.parametrize("size", [1, 300, 4096, 9000])
def test_adamw_of_few_elements(size: int):
    """On CPUs programs have no more lanes than there are elements, to a power of two."""
    if place() == "cpu":
        table, even = plan_flat(torch.device("cpu"), size)
        assert table.block == max(256, min(8192, 1 << (size - 1).bit_length()))
        assert even == (size == 4096)
    start, gradient = normal(size), normal(size, seed=1)
    ours, theirs = (torch.nn.Parameter(p) for p in (start.clone(), start.double()))
    ours.grad, theirs.grad = gradient, gradient.double()
    for optimizer in AdamW([ours], lr=0.1), torch.optim.AdamW([theirs], lr=0.1):
        optimizer.step()
    close(ours.detach(), theirs.detach())


def exact_loss(x, w, b, target, reduction: str):
    return F.cross_entropy(x @ w.T + b, target, label_smoothing=0.1, reduction=reduction)


@pytest.mark.parametrize("reduction", ["mean", pytest.param("sum", marks=pytest.mark.slow)])
def test_linear_cross_entropy(reduction: str):
    target = integers(100, 37)
    target[5] = -100
    compare(
        lambda x, w, b: 2 * linear_cross_entropy(
            x, w, target, b, label_smoothing=0.1, reduction=reduction
        ),
        lambda x, w, b: 2 * exact_loss(x, w, b, target, reduction),
        [normal(37, 16), normal(100, 16), normal(100)], scale=3,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: group_norm(x, 2), "group_norm: groups is 2; accepted: a divisor of the 3 chan"),
        (lambda x: embedding(x, x), "embedding: index has dtype float32; accepted: int32, int64"),
        (lambda x: embedding(integers(2, 2), x, 2), "padding_idx is 2; accepted: an integer, 0 to"),
        (lambda x: adamw_(x, x[0], x, x, 1), r"adamw_: gradient has shape \(3,\); accepted: \(2,"),
        (lambda x: adamw_(x, x, x, x, 0), "adamw_: step is 0; accepted: step >= 1"),
        (lambda x: AdamW([x], lr=-1.0), "AdamW: lr is -1.0; accepted: 0 <= lr"),
        (lambda x: linear_cross_entropy(x, x, integers(2, 2), reduction="all"), "is 'all'; acc"),
    ],
)
def test_errors(call, message: str):
    with pytest.raises(ArgumentError, match=message):
        call(normal(2, 3))


def test_options_of_float64_layers_have_64_bits():
    kind, exact = torch.float64, torch.nn.functional
    x = 1e-3 * normal(4, 8, dtype=kind)
    close(layer_norm(x), exact.layer_norm(x, (8,)), 1e-5)
    close(group_norm(x, 2), exact.group_norm(x, 2), 1e-5)
    target = integers(8, 4)
    found = cross_entropy(x, target, label_smoothing=0.1)
    close(found, exact.cross_entropy(x, target, label_smoothing=0.1), 1e-5)
    ours, theirs = (normal(50, dtype=kind).requires_grad_() for _ in range(2))
    for parameter, optimizer in ((ours, AdamW), (theirs, torch.optim.AdamW)):
        parameter.grad = normal(50, dtype=kind, seed=1)
        optimizer([parameter], lr=0.1).step()
    close(ours, theirs, 1e-5)
