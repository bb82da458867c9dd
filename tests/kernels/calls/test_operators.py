"""Plain calls of ops, which skip torch's dispatcher, beside calls of the ops."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from tests.kernels.support import normal, place, torch
from tritium_kernels.dense import (
    adamw_,
    cross_entropy,
    group_norm,
    layer_norm,
    matmul,
    rms_norm,
    softmax,
)
from tritium_kernels.dense.matmul import matmul_op
from tritium_kernels.dense.norm import norm_op
from tritium_kernels.launching.operators import Operator
from tritium_kernels.launching.plans import forget_records

CASES: list[tuple[Operator, Any]] = [
    (norm_op, lambda: (normal(3, 8), normal(8), normal(8), 1e-5, True)),
    (matmul_op, lambda: (
        normal(3, 8), normal(8, 5), normal(5), normal(3, 5), None, None, "gelu", torch.float32,
        "ieee", True)),
]  # fmt: skip


@pytest.mark.parametrize(("operator", "make"), CASES)
def test_gradients_are_the_op_s(operator: Operator, make: Any) -> None:
    torch.manual_seed(0)
    args = make()
    found: list[Any] = []
    for call in (operator, operator.op):
        copies = [
            a.clone().requires_grad_() if isinstance(a, torch.Tensor) else a for a in args
        ]
        output = call(*copies)
        assert output[0].requires_grad and not output[1].requires_grad
        (output[0] * 1.5).sum().backward()
        found.append([a.grad for a in copies if isinstance(a, torch.Tensor)])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


def test_plain_calls_do_not_dispatch(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("the op is called")

    monkeypatch.setattr(norm_op, "op", refuse)
    x, w = normal(3, 8), torch.nn.Parameter(normal(8))
    rms_norm(x, w).sum().backward()
    with torch.no_grad():
        rms_norm(x, w)


class Noted(torch.Tensor):
    """A subclass that keeps the names of the ops called."""

    names: ClassVar[list[str]] = []

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.names.append(str(func))
        with torch._C._DisableTorchDispatch():
            return func(*args, **(kwargs or {}))


def test_whoever_looks_at_ops_sees_them() -> None:
    from torch.fx.experimental.proxy_tensor import make_fx

    x = normal(3, 8)

    def function(x: torch.Tensor) -> torch.Tensor:
        return softmax(x)

    assert "tritium_kernels.softmax" in make_fx(function)(x).code
    assert "tritium_kernels::softmax" in str(torch.jit.trace(function, (x,)).graph)
    softmax(x.as_subclass(Noted))
    assert "tritium_kernels.softmax.default" in Noted.names


def test_second_gradients_are_refused() -> None:
    x = normal(3, 8).requires_grad_()
    (g,) = torch.autograd.grad(rms_norm(x).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="no autograd formula"):
        torch.autograd.grad(g.sum(), x)


def test_second_gradients_of_products() -> None:
    a, b = (normal(4, 4).double().requires_grad_() for _ in range(2))
    assert torch.autograd.gradgradcheck(matmul, (a, b))


def test_forward_mode_is_refused() -> None:
    from torch.autograd import forward_ad

    x = normal(3, 8)
    with forward_ad.dual_level():
        softmax(x)
        dual = forward_ad.make_dual(x, torch.ones_like(x))
        with pytest.raises(NotImplementedError, match="softmax: derivatives in forward mode"):
            softmax(dual)


def test_transformations_are_refused_that_need_derivatives() -> None:
    x, func = normal(3, 8), torch.func
    for derive in (func.jacrev, func.grad, lambda f: func.vmap(func.grad(f))):
        with pytest.raises(NotImplementedError, match=r"softmax: gradients by torch\.func"):
            derive(lambda x: softmax(x).square().sum())(x)
    with pytest.raises(NotImplementedError, match="softmax: derivatives in forward mode"):
        func.jvp(softmax, (x,), (torch.ones_like(x),))
    with pytest.raises(NotImplementedError, match="softmax: derivatives in forward mode"):
        func.jacfwd(softmax)(x)
    constant = func.grad(lambda z: (z * softmax(x)).sum())(x)
    assert torch.equal(constant, softmax(x)) and torch.equal(func.vmap(softmax)(x), softmax(x))


def test_what_an_op_writes_is_known_to_autograd() -> None:
    p, g, m, v = (normal(8).abs() for _ in range(4))
    w = torch.ones_like(p).requires_grad_()
    y = (w * p).sum()  # the gradient of w needs p as it is now
    adamw_(p, g, m, v, step=1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_statistics_are_computed_for_gradients_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forward passes without a gradient allocate and store none."""
    from tritium_kernels.dense.kernels import cross_entropy as losses
    from tritium_kernels.dense.kernels import group_norm as groups
    from tritium_kernels.dense.kernels import norm

    given: list[list[bool]] = []

    def noted(module: Any, name: str, places: slice) -> None:
        kernel = getattr(module, name)

        class Launches:
            def __getitem__(self, grid: Any) -> Any:
                def launch(*args: Any, **options: Any) -> Any:
                    given.append([a is not None for a in args[places]])
                    return kernel[grid](*args, **options)

                return launch

        monkeypatch.setattr(module, name, Launches())

    noted(norm, "norm_forward", slice(4, 6))
    noted(groups, "group_norm_forward", slice(4, 6))
    noted(groups, "group_norm_whole", slice(4, 6))  # which GPUs launch
    noted(losses, "loss_forward", slice(3, 4))
    noted(losses, "total_of_losses", slice(3, 4))
    forget_records()  # which launch what was there before
    x, target = normal(4, 8), torch.zeros(4, dtype=torch.int64, device=place())
    for wanted in (False, True):
        x.requires_grad_(wanted)
        layer_norm(x)
        rms_norm(x)
        group_norm(x, 2)
        cross_entropy(x, target)
        assert all(any(found) == wanted for found in given) and len(given) == 5
        given.clear()


def test_tensors_that_outlive_a_transformation() -> None:
    seen: list[torch.Tensor] = []

    def total(x: torch.Tensor) -> torch.Tensor:
        seen.append(x)
        return x.sum()

    x, w = normal(3, 8), normal(8).requires_grad_()
    torch.func.grad(total)(x)
    y = layer_norm(seen[0], w)
    y.sum().backward()
    assert torch.equal(y, layer_norm(x, w)) and w.grad is not None
