"""Gradients of products of experts, against torch's in float64."""

from __future__ import annotations

from typing import Any

import pytest

import tritium
import tritium.language as tl
from tests.kernels.support import close, compare, normal, place, torch
from tritium_kernels.errors import ArgumentError
from tritium_kernels.matmul import Epilogue, FlexCtx, FusedActivation, PrecisionConfig, matmul
from tritium_kernels.matmul_ogs import matmul_ogs
from tritium_kernels.numerics import InFlexData
from tritium_kernels.numerics_details.mxfp import downcast_to_mxfp
from tritium_kernels.routing import routing
from tritium_kernels.specialize import FnSpecs
from tritium_kernels.swiglu import FlexCtx as GateFlexCtx
from tritium_kernels.swiglu import PrecisionConfig as GateConfig
from tritium_kernels.swiglu import swiglu, swiglu_fn
from tritium_kernels.tensor import (
    make_ragged_tensor_metadata,
    remap_ragged_tensor_metadata,
    wrap_torch_tensor,
)

EXACT = PrecisionConfig(allow_tf32=False)
SWIGLU = FusedActivation(FnSpecs("swiglu", swiglu_fn, ("alpha", "limit"), (), 2), (1.5, 1.0))
SIZES = (5, 0, 17, 3)


def gated(x: Any, alpha: float = 1.5, limit: float | None = 1.0) -> Any:
    gate, linear = x[..., ::2], x[..., 1::2]
    if limit is not None:
        gate, linear = gate.clamp(max=limit), linear.clamp(-limit, limit)
    return gate * torch.sigmoid(alpha * gate) * (linear + 1)


def slices(*sizes: int, rows: int | None = None) -> Any:
    given = torch.tensor(sizes, device=place())
    return make_ragged_tensor_metadata(given, sum(sizes) if rows is None else rows)


def by_slice(x: Any, w: Any, b: Any, sizes: Any = SIZES) -> Any:
    """Rows of slices times their matrices; rows of no slice are 0."""
    parts, first = [], 0
    for i, size in enumerate(sizes):
        parts.append(x[first : first + size] @ w[i] + b[i])
        first += size
    return torch.cat([*parts, x.new_zeros(x.shape[0] - first, w.shape[2])])


@pytest.mark.every(2)
@pytest.mark.covering(1)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("activation", [None, SWIGLU])
def test_rows_of_slices(activation: Any, dtype: Any):
    """With rows of no slice, bias, factors of rows and of all."""
    metadata = slices(*SIZES, rows=30)
    x, w = normal(30, 12, dtype=dtype), normal(4, 12, 10, dtype=dtype)

    def exact(x: Any, w: Any, b: Any, g: Any) -> Any:
        y = 0.5 * by_slice(x, w, b)
        return (y if activation is None else gated(y)) * g[:, None]

    compare(
        lambda x, w, b, g: matmul(
            x, w, b, metadata, precision_config=EXACT, gammas=g, out_alpha=0.5,
            fused_activation=activation,
        ),
        exact, [x, w, normal(4, 10), normal(30)],
    )  # fmt: skip


def test_rows_that_are_gathered_and_scattered():
    """A row may be gathered many times, or stand for zeros; rows may go nowhere."""
    metadata = slices(*SIZES)
    gather = torch.arange(25, device=place(), dtype=torch.int32) % 7
    gather[11] = -1
    scatter = torch.arange(25, device=place(), dtype=torch.int32).flip(0)
    scatter[3] = -1
    betas = normal(25)

    def exact(x: Any, w: Any, b: Any) -> Any:
        rows = torch.where((gather >= 0)[:, None], x[gather.clamp(min=0).long()], 0)
        first, parts = 0, []
        for i, size in enumerate(SIZES):
            part = slice(first, first + size)
            parts.append(rows[part] @ w[i] + betas[part, None].double() * b[i])
            first += size
        y = torch.cat(parts)
        kept = scatter >= 0
        out = y.new_zeros(y.shape)
        return out.index_put((scatter[kept].long(),), y[kept])

    compare(
        lambda x, w, b: matmul(
            x, w, b, metadata, gather_indx=gather, scatter_indx=scatter, betas=betas,
            precision_config=EXACT,
        ),
        exact, [normal(7, 12), normal(4, 12, 10), normal(4, 10)],
    )  # fmt: skip


def test_slices_of_k():
    metadata = slices(*SIZES)

    def exact(a: Any, b: Any, bias: Any) -> Any:
        parts, first = [], 0
        for i, size in enumerate(SIZES):
            parts.append(a[:, first : first + size] @ b[first : first + size] + bias[i])
            first += size
        return torch.stack(parts)

    compare(
        lambda a, b, bias: matmul(
            a, b, bias, b_ragged_metadata=metadata, precision_config=EXACT
        ),
        exact, [normal(6, 25), normal(25, 9), normal(4, 9)],
    )  # fmt: skip


def test_slices_that_do_not_follow_each_other():
    every = slices(*SIZES)
    left = remap_ragged_tensor_metadata(every, torch.tensor([1, -1, -1, 0], device=place()))

    def exact(x: Any, w: Any) -> Any:
        return torch.cat([x[:5] @ w[1], x.new_zeros(17, 10), x[22:] @ w[0]])

    compare(
        lambda x, w: matmul(x, w, None, left, precision_config=EXACT), exact,
        [normal(25, 12), normal(2, 12, 10)],
    )  # fmt: skip


@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("a", "b", "bias"),
    [((6, 8), (8, 4), (4,)), ((3, 6, 8), (3, 8, 4), (3, 4)), ((3, 6, 8), (8, 4), (4,)),
     ((6, 8), (1, 8, 4), (1, 4))],
)  # fmt: skip
def test_matrices_and_batches(a: Any, b: Any, bias: Any):
    def exact(x: Any, w: Any, v: Any) -> Any:
        y = x @ w + v.unsqueeze(-2)
        return y[0] if len(a) < len(b) else y

    config = PrecisionConfig(allow_tf32=False, acc_scale=1.0)
    compare(
        lambda x, w, v: matmul(x, w, v, precision_config=config), exact,
        [normal(*a), normal(*b), normal(*bias)],
    )  # fmt: skip


@pytest.mark.slow
def test_a_layer_learns_all_of_its_weights():
    """From logits to the sum over a token's experts, as `matmul_ogs` and `routing` give it."""

    def layer(route: Any, up: Any, down: Any) -> Any:
        def run(x: Any, logits: Any, w1: Any, b1: Any, w2: Any) -> Any:
            data, gather, scatter = route(logits, 2)
            return down(up(x, w1, b1, data, gather), w2, data, scatter)

        return run

    def exact(x: Any, logits: Any, w1: Any, b1: Any, w2: Any) -> Any:
        best = logits.topk(2, dim=1)
        gates, y = torch.softmax(best.values, 1), torch.zeros_like(x)
        for token in range(x.shape[0]):
            for gate, expert in zip(gates[token], best.indices[token].tolist(), strict=True):
                h = gated(x[token] @ w1[expert] + b1[expert])
                at = torch.tensor([token], device=x.device)
                y = y.index_add(0, at, (gate * h @ w2[expert])[None])
        return y

    ours = layer(
        routing,
        lambda x, w, b, data, gather: matmul_ogs(
            x, w, b, data, gather, precision_config=EXACT, fused_activation=SWIGLU
        ),
        lambda h, w, data, scatter: matmul_ogs(
            h, w, None, data, scatter_indx=scatter, precision_config=EXACT, gammas=data.gate_scal
        ),
    )
    compare(
        ours, exact,
        [normal(9, 8), normal(9, 5), normal(5, 8, 12), normal(5, 12), normal(5, 6, 8)],
    )  # fmt: skip


def test_swiglu():
    config = GateConfig(limit=1.0)
    compare(lambda x: swiglu(x, 1.5, config), gated, [normal(3, 4, 10)])
    compare(
        lambda x: swiglu(x.transpose(0, 1), 1.5, GateConfig()),
        lambda x: gated(x.transpose(0, 1), limit=None), [normal(10, 6).bfloat16()],
    )  # fmt: skip


@tritium.jit
def squared(x):
    return x * x


@tritium.jit
def squared_derivative(x, dy):
    return 2 * x * dy


def test_an_activation_brings_its_derivative():
    square = FusedActivation(FnSpecs("squared", squared), (), squared_derivative)
    compare(
        lambda x, w: matmul(x, w, None, precision_config=EXACT, fused_activation=square),
        lambda x, w: (x @ w).square(), [normal(6, 8), normal(8, 4)],
    )  # fmt: skip
    x, w = normal(6, 8).requires_grad_(), normal(8, 4)
    bare = FusedActivation(FnSpecs("squared", squared))
    with pytest.raises(ArgumentError, match="fused_activation 'squared' has no derivative, with"):
        matmul(x, w, None, fused_activation=bare)
    with torch.no_grad():
        matmul(x, w, None, fused_activation=bare)


@tritium.jit
def halved(x):
    return x * tl.full((), 0.5, tl.float32)


def test_what_has_no_gradient_is_refused():
    x, w = normal(6, 32).requires_grad_(), normal(32, 4)
    values, scales = downcast_to_mxfp(w.bfloat16(), torch.float8_e4m3fn, 0)
    one = torch.ones(1, device=place())
    cases: list[tuple[str, Any]] = [
        ("c is given", lambda: matmul(x, w, None, c=normal(6, 4))),
        ("c_acc_in is given", lambda: matmul(x, w, None, c_acc_in=normal(6, 4))),
        ("epilogue is given", lambda: matmul(x, w, None, epilogue=Epilogue(FnSpecs("h", halved)))),
        ("flex_ctx is given", lambda: matmul(
            x, w, None, precision_config=PrecisionConfig(flex_ctx=FlexCtx(InFlexData(scale=one))))),
        ("b has a layout or dtype", lambda: matmul(
            x.bfloat16(), values, None, precision_config=PrecisionConfig(b_mx_scale=scales))),
        ("b has a layout or dtype", lambda: matmul(x, wrap_torch_tensor(w), None)),
        ("out_dtype is torch.float8_e4m3fn", lambda: matmul(
            x, w, None, precision_config=PrecisionConfig(out_dtype=torch.float8_e4m3fn))),
        ("swiglu: flex_ctx is given", lambda: swiglu(
            x, 1.0, GateConfig(flex_ctx=GateFlexCtx(saturate_inf=True)))),
    ]  # fmt: skip
    for message, call in cases:
        with pytest.raises(ArgumentError, match=message):
            call()
    for name in ("betas", "out_alpha"):
        given = {name: normal(6 if name == "betas" else 1).requires_grad_()}
        with pytest.raises(NotImplementedError, match=f"matmul: {name} requires grad"):
            matmul(x.detach(), w, normal(4), **given)


def test_numbers_are_the_same_with_a_gradient():
    metadata, x, w = slices(*SIZES), normal(25, 12), normal(4, 12, 10)
    plain = matmul(x, w, None, metadata, fused_activation=SWIGLU)
    found = matmul(x.requires_grad_(), w, None, metadata, fused_activation=SWIGLU)
    assert torch.equal(found, plain) and found.requires_grad
    close(plain, gated(by_slice(x.double(), w.double(), [0] * 4)).detach(), 100)


@pytest.mark.covering(1)
@pytest.mark.parametrize(("rows", "columns"), [(3, 0), (0, 4)])
@pytest.mark.parametrize("activation", [None, SWIGLU])
def test_products_without_elements(activation: Any, rows: int, columns: int):
    x, w = normal(2 * rows, 6).requires_grad_(), normal(2, 6, columns).requires_grad_()
    weights = normal(2 * rows).requires_grad_()
    y = matmul(x, w, None, slices(rows, rows), gammas=weights, fused_activation=activation)
    y.sum().backward()
    for given in (x, w, weights):
        assert given.grad is not None and not given.grad.any()


def test_experts_without_columns():
    data, gather, scatter = routing(normal(4, 8), 2)
    x = normal(4, 6)
    y = matmul_ogs(x, normal(8, 6, 0), None, data, gather, scatter, gammas=data.gate_scal)
    assert y.shape == (4, 0)
