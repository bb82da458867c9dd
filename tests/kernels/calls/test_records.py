"""Calls that are repeated from records: what is recorded, and what is told apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.kernels.support import close, normal, torch, with_copy_engine
from tritium_kernels.dense import (
    adamw_foreach_,
    attention,
    attention_launch,
    layer_norm,
    matmul,
    matmul_launch,
    rms_norm,
    softmax,
    swiglu,
)
from tritium_kernels.dense.adamw_step import _known
from tritium_kernels.dense.kernels.softmax import softmax_forward
from tritium_kernels.dense.softmax import softmax_op
from tritium_kernels.errors import ArgumentError
from tritium_kernels.launching.plans import forget_records, repeated


def counted(function: Callable[..., Any]) -> tuple[Callable[..., Any], list[int]]:
    """The function with its calls repeated, and how often it was entered."""
    entered = [0]

    def run(*args: Any, **kwargs: Any) -> Any:
        entered[0] += 1
        return function(*args, **kwargs)

    return repeated(run), entered


def test_from_the_third_call_on_a_record_is_repeated() -> None:
    call, entered = counted(lambda x, log: softmax_op(x, log))
    found = []
    for seed in range(4):
        x = normal(5, 12, seed=seed)
        found.append(call(x, False))
        close(found[-1], torch.softmax(x.double(), -1))
    assert entered == [2]
    assert len({y.data_ptr() for y in found}) == 4


def launch_softmax(x: Any, y: Any) -> Any:
    """Run softmax over rows of 8 or 16 elements; returns y."""
    softmax_forward[(x.shape[0],)](
        x, y, *x.shape, x.shape[1], x.shape[1], LOG=False, WHOLE=True, ROWS=1, BLOCK=16, EVEN=False
    )
    return y


def test_parts_of_new_memory_are_repeated() -> None:
    def halves(x: Any) -> Any:
        return launch_softmax(x, x.new_empty(2, *x.shape)[1])

    call, entered = counted(halves)
    for seed in range(4):
        x = normal(3, 16, seed=seed)
        close(call(x), torch.softmax(x.double(), -1))
    assert entered == [2]


def test_descriptors_are_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records repeat launches with descriptors, of views of arguments too, as on GPUs whose engine
    copies blocks; a repeated call does not reach the function that counts launches."""
    attended = with_copy_engine(monkeypatch, attention_launch.forward_kernels, "attention_forward")
    multiplied = with_copy_engine(monkeypatch, matmul_launch.kernels, "matmul_blocks")
    forget_records()
    for seed in range(4):
        q, k, v = (normal(1, 2, 32, 32, dtype=torch.float16, seed=seed + i) for i in (0, 10, 20))
        right = torch.softmax(q.double() @ k.double().mT / 32**0.5, -1) @ v.double()
        close(attention(q, k, v), right)
        a = normal(128, 64, dtype=torch.float16, seed=seed)
        b = normal(96, 64, dtype=torch.float16, seed=seed)
        close(matmul(a, b.T), a.double() @ b.double().T, 8)
    assert (attended, multiplied) == ([4, 4], [3, 3])
    forget_records()


def test_views_of_arguments_that_share_memory_are_not_repeated() -> None:
    call, entered = counted(lambda x, y: launch_softmax(x[0], x.new_empty(4, 8)))
    for seed in range(4):
        both = normal(2, 4, 8, seed=seed)
        other = both[0] if seed < 2 else normal(4, 8)
        close(call(both, other), torch.softmax(both[0].double(), -1))
    assert entered == [4]


@pytest.mark.parametrize("part", [0, 1])
def test_views_of_arguments_at_the_same_address_are_repeated(part: int) -> None:
    call, entered = counted(lambda x: launch_softmax(x[part], x.new_empty(4, 8)))
    for seed in range(4):
        x = normal(2, 4, 8, seed=seed)
        close(call(x), torch.softmax(x[part].double(), -1))
    assert entered == [4 if part else 2]


@pytest.mark.parametrize("other", [
    lambda x: softmax_op(x + 1, False), lambda x: softmax_op(x, False).neg_(),
    lambda x: softmax_op(x.T, False), lambda x: [softmax_op(x, False)],
])  # fmt: skip
def test_calls_that_do_anything_else_are_not(other: Any) -> None:
    call, entered = counted(other)
    x = normal(4, 4)
    for _ in range(4):
        found, right = call(x), other(x)
        torch.testing.assert_close(found, right)
    assert entered == [4]


def test_signatures_are_told_apart() -> None:
    """Each of these has two calls of its own in the function, and no more."""
    call, entered = counted(lambda x, scale=1.0, *, log=False: softmax_op(x, log))
    x = normal(8, 8)
    calls: list[Callable[[], Any]] = [
        lambda: call(x), lambda: call(x[:4]), lambda: call(x.half()),
        lambda: call(x, 2.0), lambda: call(x, log=True), lambda: call(x, log=False),
        lambda: call(x[1:, 1:]), lambda: call(x.detach().requires_grad_()),
        lambda: call(torch.nn.Parameter(x, requires_grad=False), 3.0),
    ]  # fmt: skip
    for i, one in enumerate(calls):
        first = one()
        for _ in range(3):
            torch.testing.assert_close(one(), first)
        assert entered == [2 * i + 2]
    with torch.no_grad():
        assert not call(x.detach().requires_grad_()).requires_grad
    assert call(x.detach().requires_grad_()).requires_grad


def test_a_tensor_given_twice_is_not_recorded() -> None:
    call, entered = counted(lambda a, b: swiglu(a, b))
    x, y = (normal(8, 8, seed=s) for s in (1, 2))
    for a, b in [(x, x)] * 4 + [(x, y)] * 4 + [(y, x), (y, y)]:
        close(call(a, b), torch.nn.functional.silu(a.double()) * b.double())
    assert entered == [6]


def test_state_is_told_apart() -> None:
    call, entered = counted(lambda x: softmax_op(x, False))
    x = normal(4, 8)
    for _ in range(3):
        call(x)
    torch.use_deterministic_algorithms(True)
    try:
        call(x)
    finally:
        torch.use_deterministic_algorithms(False)
    torch.set_default_dtype(torch.float64)
    try:
        call(x)
    finally:
        torch.set_default_dtype(torch.float32)
    assert entered == [4]


def test_gradients_of_repeated_calls() -> None:
    for seed in range(4):
        given = [normal(*s, seed=seed).requires_grad_() for s in ((6, 16), (16,), (16,))]
        wide = [t.detach().double().requires_grad_() for t in given]
        dy = normal(6, 16, seed=seed + 9)
        found = torch.autograd.grad(layer_norm(*given), given, dy)
        right = torch.autograd.grad(
            torch.nn.functional.layer_norm(wide[0], (16,), *wide[1:]), wide, dy.double()
        )
        for ours, theirs in zip(found, right, strict=True):
            close(ours, theirs)


def test_errors_and_modes_after_records() -> None:
    from torch.fx.experimental.proxy_tensor import make_fx

    x = normal(4, 8)
    for _ in range(3):
        softmax(x)
        rms_norm(x, x[0])
        product = matmul(x, x.T)
    with pytest.raises(ArgumentError, match="softmax: dim is 2"):
        softmax(x, 2)
    with pytest.raises(ArgumentError, match="rms_norm: weight has shape"):
        rms_norm(x, x[0, :4])
    assert "tritium_kernels.softmax" in make_fx(lambda x: softmax(x))(x).code
    with torch.autocast(x.device.type, torch.bfloat16):
        assert matmul(x, x.T).dtype == torch.bfloat16
    assert torch.func.vmap(softmax)(x).shape == x.shape
    torch.testing.assert_close(matmul(x, x.T), product)


def test_steps_of_known_tensors() -> None:
    lists = [[normal(n, seed=s).abs() for n in (3, 40)] for s in range(4)]
    copies = [[t.double() for t in tensors] for tensors in lists]
    _known.clear()
    tensors = [t for each in lists for t in each]
    for step in range(1, 5):
        versions = [t._version for t in tensors]
        adamw_foreach_(*lists, step)
        adamw_foreach_(*copies, step)
        written = [t._version - v for t, v in zip(tensors, versions, strict=True)]
        assert written == [1, 1, 0, 0, 1, 1, 1, 1]
    assert len(_known) == 2
    for ours, right in zip(lists[0], copies[0], strict=True):
        close(ours, right)
    with pytest.raises(ArgumentError, match="step is 0"):
        adamw_foreach_(*lists, 0)
    lists[0][1].requires_grad_()
    with pytest.raises(ArgumentError, match=r"parameters\[1\] requires grad"):
        adamw_foreach_(*lists, 5)
