"""torch.compile takes every dense function whole, and its gradients."""

from __future__ import annotations

import pytest

from tests.kernels.support import close, integers, is_op, normal, torch
from tritium_kernels import dense
from tritium_kernels.dense.score import alibi
from tritium_kernels.matmul_ogs import PrecisionConfig, matmul_ogs
from tritium_kernels.routing import routing
from tritium_kernels.swiglu import PrecisionConfig as GateConfig
from tritium_kernels.swiglu import swiglu as gate

INDEX = [1, 4, 0, 2]


def layer(x, table, w, b, mix):
    """One of everything, on 4 tokens of 32 features."""
    index = torch.tensor(INDEX, device=x.device)
    x = x + dense.embedding(index, table)
    h = dense.layer_norm(dense.rms_norm(x, w), w, b)
    heads = dense.matmul(h, mix, b, "gelu", x).view(1, 4, 2, 16).transpose(1, 2)
    q, k, v = heads, 2 * heads, heads + 1
    angle = torch.arange(4.0, device=x.device)[:, None] * torch.ones(8, device=x.device)
    q = dense.rope(q, angle.cos(), angle.sin())
    slopes = torch.tensor([0.5, 0.25], device=x.device)
    o = dense.attention(q, k, v, causal=True, score=alibi, aux=slopes)
    offsets = torch.tensor([0, 1, 4], dtype=torch.int32, device=x.device)
    rows = [t[0].transpose(0, 1) for t in (q, k, v)]
    o = o[0].transpose(0, 1) + dense.attention_packed(*rows, offsets, offsets, 3, 3)
    x = dense.swiglu(x, o.reshape(4, 32)) + dense.geglu(x, h)
    x = dense.group_norm(x.view(1, 4, 32), 2)[0]
    loss = dense.cross_entropy(x, index) + dense.linear_cross_entropy(x, mix, index)
    return loss + dense.softmax(x).square().sum() + dense.log_softmax(x, 0).mean()


@pytest.mark.slow
def test_one_graph_of_all():
    inputs = [normal(4, 32), normal(6, 32), normal(32), normal(32, seed=1), normal(32, 32) / 6]
    results = []
    for fn in (layer, torch.compile(layer, backend="aot_eager", fullgraph=True)):
        given = [x.detach().requires_grad_() for x in inputs]
        loss = fn(*given)
        loss.backward()
        results.append([loss.detach(), *(x.grad for x in given)])
    for ours, right in zip(*results, strict=True):
        close(ours, right.double())


@pytest.mark.slow
def test_every_op():
    ops = torch.ops.tritium_kernels
    x, w = normal(4, 8).requires_grad_(), normal(8).requires_grad_()
    index, target = integers(4, 3), integers(8, 4)
    is_op(ops.softmax.default, x, True)
    is_op(ops.norm.default, x, w, w, 1e-5, True)
    is_op(ops.group_norm.default, x.detach().view(1, 4, 8).requires_grad_(), 2, None, None, 1e-5)
    is_op(ops.gated.default, x, x, "gelu")
    is_op(ops.cross_entropy.default, x, target, -100, 0.0, 0.0)
    is_op(ops.embedding.default, index, x, -1)
    is_op(ops.linear_cross_entropy.default, x, x, None, integers(4, 4), -100, 0.0, 0.0, True, True)
    is_op(ops.matmul.default, x, x.mT, None, None, None, None, None, torch.float32, "ieee", False)
    plain = [normal(8) for _ in range(4)]
    is_op(ops.adamw_.default, *plain, 1, 1e-3, 0.9, 0.999, 1e-8, 0.0, False, False)
    pages, table = normal(4, 2, 1, 8), integers(4, 2, 2)
    lengths = torch.tensor([3, 1], device=x.device)
    is_op(ops.paged_attention.default, normal(2, 2, 8), pages, pages, table, lengths, 0.5, -1)


@pytest.mark.slow
def test_a_mixture_of_experts_breaks_the_graph():
    """Compiled parts before and after, with the gradients of all."""
    exact = PrecisionConfig(allow_tf32=False)

    def experts(x, logits, w):
        data, gather, scatter = routing(logits.sin(), 2)
        h = matmul_ogs(2 * x, w, None, data, gather, precision_config=exact)
        h = gate(torch.cat([h, h], 1).cos(), 1.0, GateConfig())
        return matmul_ogs(
            h, w, None, data, scatter_indx=scatter, precision_config=exact, gammas=data.gate_scal
        ).cos()

    inputs, results = [normal(5, 8), normal(5, 4), normal(4, 8, 8)], []
    for fn in (experts, torch.compile(experts, backend="aot_eager")):
        given = [x.detach().requires_grad_() for x in inputs]
        y = fn(*given)
        y.sum().backward()
        results.append([y.detach(), *(x.grad for x in given)])
    for ours, right in zip(*results, strict=True):
        close(ours, right.double())
