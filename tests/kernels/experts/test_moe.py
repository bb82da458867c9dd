"""Products with experts: ragged, gathered, scattered, batched, MX operands; sums; SwiGLU."""

from __future__ import annotations

from dataclasses import replace

import pytest

import tritium
import tritium.language as tl
from tests.kernels.support import close, integers, normal, place, torch
from tritium_kernels import swiglu as gates
from tritium_kernels.errors import ArgumentError
from tritium_kernels.matmul import FusedActivation, PrecisionConfig, matmul, matmul_torch
from tritium_kernels.matmul_details import opt_flags
from tritium_kernels.matmul_ogs import matmul_ogs, matmul_ogs_torch
from tritium_kernels.numerics import InFlexData, OutFlexData
from tritium_kernels.numerics_details.mxfp import downcast_to_mxfp, upcast_from_mxfp
from tritium_kernels.reduce import (
    InapplicableConstraint,
    PostprocessFn,
    reduce,
    reduce_torch,
    scoped_opt_flags_constraints,
)
from tritium_kernels.routing import routing
from tritium_kernels.specialize import FnSpecs
from tritium_kernels.tensor import make_ragged_tensor_metadata, remap_ragged_tensor_metadata
from tritium_kernels.tensor_details.ragged_tensor import clear_other_rows
from tritium_kernels.testing import assert_close

SLOW = pytest.mark.slow
EXACT = PrecisionConfig(allow_tf32=False)
SWIGLU = FnSpecs("swiglu", gates.swiglu_fn, ("alpha", "limit"), reduction_n=2)


def slices(*sizes: int):
    return make_ragged_tensor_metadata(torch.tensor(sizes, device=place()), sum(sizes))


def test_gathered_and_scattered_rows():
    ragged = slices(5, 0, 30, 2)
    x, w, bias = normal(20, 48), normal(4, 48, 40), normal(4, 40)
    gather = integers(20, 37, dtype=torch.int32)
    gather[3] = -1
    betas, gammas = normal(37), normal(37, seed=1)
    options = {"gather_indx": gather, "betas": betas, "gammas": gammas}
    y = matmul(x, w, bias, ragged, precision_config=EXACT, **options)
    close(y, matmul_torch(x.double(), w, bias, ragged, **options), scale=4)
    scatter = torch.randperm(37, generator=torch.Generator().manual_seed(0)).int().to(place())
    scatter[7] = -1
    y = matmul(x, w, None, ragged, gather_indx=gather, scatter_indx=scatter, precision_config=EXACT)
    right = matmul_torch(x.double(), w, None, ragged, gather_indx=gather, scatter_indx=scatter)
    close(y, right, scale=4)


@pytest.mark.parametrize("tail", [8, 16])
def test_ends_of_slices_beside_the_last_tile(tail: int):
    """Slices that end in the first tile, beside it, after it, beside the second one."""
    sizes = 5, 0, 16, 17, 24, 25, 32, 40, 41, 1
    ragged, rows = slices(*sizes), sum(sizes)
    x, w, bias = normal(rows, 48), normal(len(sizes), 48, 40), normal(len(sizes), 40)
    gather = integers(rows, rows, dtype=torch.int32)
    gather[[3, 37, 60]] = -1
    scatter = torch.randperm(rows, generator=torch.Generator().manual_seed(0)).int().to(place())
    scatter[[7, 36, 59]] = -1
    options = {"gather_indx": gather, "scatter_indx": scatter, "betas": normal(rows),
               "gammas": normal(rows, seed=1)}  # fmt: skip
    with opt_flags.scoped_opt_flags_constraints({"block_m": 16, "tail_m": tail}):
        y = matmul(x, w, bias, ragged, precision_config=EXACT, **options)
    close(y, matmul_torch(x.double(), w, bias, ragged, **options), scale=4)


@pytest.mark.cpu
@pytest.mark.parametrize("which", ["a", "b"])
def test_slices_past_the_last_element(which: str):
    """On CPUs the sizes of slices are read; and no kernel goes past the last element by them."""
    ragged = slices(3, 4)
    a, b = (normal(6, 5), normal(2, 5, 8)) if which == "a" else (normal(5, 6), normal(6, 8))
    with pytest.raises(ArgumentError, match=r"metadata has slices of 7 elements; accepted: 6 or"):
        matmul(a, b, None, **{f"{which}_ragged_metadata": ragged})
    hidden = replace(ragged, slice_offs=torch.tensor([0, 3, 6], dtype=torch.int32))
    kept = normal(12, 8) if which == "a" else torch.zeros(2, 5, 8)
    into = kept[:6] if which == "a" else kept
    before = kept.clone()
    y = matmul(a, b, None, c=into, precision_config=EXACT, **{f"{which}_ragged_metadata": hidden})
    right = matmul_torch(a.double(), b, None, **{f"{which}_ragged_metadata": slices(3, 3)})
    close(y, right, scale=4)
    assert which == "b" or torch.equal(kept[6:], before[6:])


def test_slices_of_fewer_rows_than_there_are():
    x, w, ragged = normal(300, 5), normal(2, 5, 8), slices(3, 4)
    y = matmul(x, w, None, ragged, precision_config=EXACT)
    close(y[:7], matmul_torch(x[:7].double(), w, None, ragged), scale=4)
    assert not y[7:].any()


@pytest.mark.parametrize("kept", [[], [0, 1, 2, 3], [3, 0], [1]])
def test_rows_of_no_slice_are_cleared(kept: list[int]):
    """Whatever was in their memory; slices may stand in any order, with rows between them."""
    sizes = [70, 0, 65, 100]
    mapped = torch.full((4,), -1).int()
    mapped[kept] = torch.arange(len(kept)).int()
    ragged = remap_ragged_tensor_metadata(slices(*sizes), mapped.to(place()))
    y = torch.ones(300, 8, device=place())[:, ::2]
    clear_other_rows(y, ragged)
    owner = torch.tensor([i for i, size in enumerate(sizes) for _ in range(size)] + [-1] * 65)
    is_kept = torch.isin(owner, torch.tensor(kept).long())
    assert torch.equal(y.cpu(), is_kept[:, None].expand(-1, 4).float())


def test_no_slices():
    """A process may have none of the experts: nothing is multiplied, and rows are zeros."""
    whole = slices(100, 104)
    none = remap_ragged_tensor_metadata(whole, torch.full((2,), -1, device=place()).int())
    assert none.n_blocks(0, 204, 128) == 0
    a, b = normal(204, 65).requires_grad_(), normal(0, 65, 64).requires_grad_()
    y = matmul(a, b, None, none, precision_config=EXACT)
    y.sum().backward()
    assert y.shape == (204, 64) and not y.any() and not a.grad.any() and b.grad.shape == b.shape
    kept = torch.ones_like(y)
    assert matmul(a.detach(), b.detach(), None, none, c=kept).all()


def test_activation_in_the_product():
    ragged = slices(9, 11)
    x, w, bias = normal(20, 33), normal(2, 33, 64), normal(2, 64)
    activation = FusedActivation(SWIGLU, (1.5, 1.0))
    y = matmul(x, w, bias, ragged, precision_config=EXACT, fused_activation=activation)
    wide = matmul_torch(x, w, bias, ragged)
    close(y, gates.swiglu_torch(wide, 1.5, gates.PrecisionConfig(1.0)).double(), scale=4)


def test_batches_and_slices_of_k():
    a, b, bias = normal(3, 20, 33), normal(3, 33, 40), normal(3, 40)
    y = matmul(a, b.mT.contiguous().mT, bias, precision_config=EXACT)
    close(y, a.double() @ b.double() + bias[:, None].double(), scale=4)
    ragged = slices(5, 0, 70)
    a, b = normal(24, 75), normal(75, 40)
    y = matmul(a, b, None, b_ragged_metadata=ragged, precision_config=EXACT)
    close(y, matmul_torch(a.double(), b, None, b_ragged_metadata=ragged), scale=8)
    assert not y[1].any()


@pytest.mark.parametrize("kind", [torch.uint8, pytest.param(torch.float8_e4m3fn, marks=SLOW)])
def test_mx_weights(kind):
    ragged = slices(3, 14)
    x, w = normal(17, 96, dtype=torch.bfloat16), normal(2, 96, 48)
    values, scales = downcast_to_mxfp(w, kind, 1)
    config = PrecisionConfig(b_mx_scale=scales, out_dtype=torch.float32)
    y = matmul(x, values, None, ragged, precision_config=config)
    exact = upcast_from_mxfp(values, scales, torch.float32, 1)
    close(y, matmul_torch(x.double(), exact, None, ragged), scale=4)


@pytest.mark.slow
@pytest.mark.parametrize("kinds", [(a, b) for a in (0, 1, 2) for b in (0, 1, 2)])
def test_mx_operands(kinds):
    kinds = [(torch.uint8, torch.float8_e4m3fn, torch.float8_e5m2)[i] for i in kinds]
    x, w = normal(17, 160), normal(160, 48)
    (a, a_scale), (b, b_scale) = (
        downcast_to_mxfp(t, kind, axis) for t, kind, axis in ((x, kinds[0], 1), (w, kinds[1], 0))
    )
    config = PrecisionConfig(a_mx_scale=a_scale, b_mx_scale=b_scale, out_dtype=torch.float32)
    y = matmul(a, b, None, precision_config=config)
    x, w = (upcast_from_mxfp(*t, torch.float32, axis).double()
            for t, axis in (((a, a_scale), 1), ((b, b_scale), 0)))  # fmt: skip
    close(y, x @ w, scale=8)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("sizes", [(0, 0), (1,), (200, 0, 1, 300), tuple(range(20))])
def test_slices(sizes, dtype):
    ragged = slices(*sizes)
    x, w = normal(sum(sizes), 130, dtype=dtype), normal(len(sizes), 130, 100, dtype=dtype)
    y = matmul(x, w, None, ragged, precision_config=EXACT)
    close(y, matmul_torch(x.double(), w, None, ragged), scale=4)


@pytest.mark.parametrize("dtype", [torch.float32, pytest.param(torch.bfloat16, marks=SLOW)])
def test_layer_of_experts(dtype):
    """Routing, two products with SwiGLU between, and the sum over experts."""
    tokens, experts, act, width, hidden = 25, 6, 2, 32, 24
    x, logits = normal(tokens, width, dtype=dtype), normal(tokens, experts)
    w1, w2 = normal(experts, width, 2 * hidden), normal(experts, hidden, width)
    w1, w2 = (w1 / width**0.5).to(dtype), (w2 / hidden**0.5).to(dtype)
    data, gather, scatter = routing(logits, act)
    activation = FusedActivation(SWIGLU, (1.0, None))
    h = matmul_ogs(x, w1, None, data, gather_indx=gather, precision_config=EXACT,
                   fused_activation=activation)  # fmt: skip
    y = matmul_ogs(h, w2, None, data, scatter_indx=scatter, gammas=data.gate_scal,
                   precision_config=EXACT)  # fmt: skip
    same = matmul_ogs_torch(h, w2, None, data, scatter_indx=scatter, gammas=data.gate_scal)
    close(y, same.double(), scale=4)
    best, chosen = torch.topk(logits.double(), act)
    weights = torch.softmax(best, 1)
    right = torch.zeros(tokens, width, dtype=torch.float64, device=x.device)
    for t in range(tokens):
        for weight, e in zip(weights[t], chosen[t].tolist(), strict=True):
            hidden_ = x[t].double() @ w1[e].double()
            gate, linear = hidden_[::2], hidden_[1::2]
            right[t] += weight * ((gate * torch.sigmoid(gate) * (linear + 1)) @ w2[e].double())
    if dtype == torch.float32:
        assert_close(right, y, 1e-3, 1e-4)
    else:
        assert_close(right, y, 0.5, 1e-2)


@pytest.mark.parametrize("dim", [1, *(pytest.param(d, marks=SLOW) for d in (0, 2))])
def test_sums(dim: int):
    x = normal(3, 9, 50).requires_grad_()
    mask, scale = normal(3, 9, 1, seed=1) > 0, normal(3, 1, 50, seed=2)
    (y, _), (right, _) = (f(x, dim, mask, scale) for f in (reduce, reduce_torch))
    close(y.detach(), right.detach().double())
    dy = normal(*y.shape)
    expected = torch.autograd.grad(right, x, dy)[0]
    y.backward(dy)
    close(x.grad, expected.double())


@tritium.jit
def plus(x, value):
    return x + value


@tritium.jit
def without_zeros(x):
    return tl.where(x == 0, 1e6, x)


KINDS = (torch.float8_e4m3fn, torch.uint8)
PLUS = PostprocessFn(FnSpecs("plus", plus, ("value",)), (1.0,))
FULL = PostprocessFn(FnSpecs("without_zeros", without_zeros))


@pytest.mark.parametrize("out", [KINDS[1], pytest.param(KINDS[0], marks=SLOW)])
@pytest.mark.parametrize("kind", [KINDS[0], pytest.param(KINDS[1], marks=SLOW)])
def test_sums_of_mx_terms(kind, out):
    x = normal(3, 9, 80)  # columns past the last count in no block, whatever is added
    values, scales = downcast_to_mxfp(x, kind, 2)
    terms = upcast_from_mxfp(values, scales, torch.float32, 2)
    pack = 2 if out == torch.uint8 else 1
    factor, whole = normal(3, 9, 1, seed=2), torch.full((1,), 2.0, device=place())
    y, y_scale = reduce(
        values, 0, scale=factor, x_mxscale=scales, x_global_scale=whole, y_has_mx=True,
        y_dtype=out, y_value_pack_factor=pack, postprocess_fn2=FULL,
    )  # fmt: skip
    exact, _ = reduce(terms, 0, scale=factor, x_global_scale=whole, postprocess_fn2=FULL)
    sums = 2 * (terms * factor).double().sum(0)
    close(exact, torch.where(sums == 0, 1e6, sums))
    right, right_scale = downcast_to_mxfp(exact, out, 1)
    assert torch.equal(y.float(), right.float()) and torch.equal(y_scale, right_scale)
    by_torch = reduce_torch(values, 0, scale=factor, x_mxscale=scales)
    back = upcast_from_mxfp(*by_torch, torch.float32, 1)
    assert torch.allclose(back, (sums / 2).float(), rtol=2.0**-4, atol=1e-3 * sums.abs().max())


def test_ways_of_summing():
    """Configurations give the same; scales of the result are those of the sums."""
    x, mask = normal(5, 9, 40), normal(5, 9, 1, seed=1) > 0
    mask[:, 3] = False
    right = (x * mask).double().sum(0) + 1
    for given in ({}, {"use_static_loop": True}, {"use_rowidxs": True, "chain_factor": 2},
                  {"block_x_s1": 16, "block_s0": 2}):  # fmt: skip
        with scoped_opt_flags_constraints(given):
            close(reduce(x, 0, mask, postprocess_fn2=PLUS)[0], right)
    with scoped_opt_flags_constraints({"chain_factor": 4}):
        close(reduce(x[:3], 0)[0], x[:3].double().sum(0))  # the term after the last is not added
    kind = torch.float8_e4m3fn
    results = []
    for sums in (reduce, reduce_torch):
        expected, actual = (torch.full((1,), v, device=place()) for v in (0.01, 0.0))
        flex = OutFlexData(kind, expected, actual)
        y, _ = sums(x, 0, mask, y_flex=flex, y_flex_saturate_inf=True)
        results.append((y.float(), actual))
    assert torch.equal(results[0][0], results[1][0]) and results[0][0].abs().max() == 448
    assert torch.allclose(results[0][1], results[1][1], rtol=1e-6)
    with (
        scoped_opt_flags_constraints({"block_x_s1": 16, "block_y_s1": 32}),
        pytest.raises(InapplicableConstraint, match="are prescribed"),
    ):
        reduce(x, 0)


def test_function_of_sums():
    x = normal(4, 5, 60)
    config = gates.PrecisionConfig(None)
    y, _ = reduce(x, 1, postprocess_fn1=PostprocessFn(SWIGLU, (1.5, None)))
    close(y, gates.swiglu_torch(x.sum(1), 1.5, config).double())
    assert reduce(torch.empty(3, 0, 4, device=place()), 1)[0].tolist() == [[0.0] * 4] * 3


def test_swiglu_with_scales():
    a = (50 * normal(5, 64)).to(torch.float8_e5m2)
    results = []
    for function in (gates.swiglu, gates.swiglu_torch):
        scale, expected, actual = (torch.full((1,), v, device=place()) for v in (0.5, 4.0, 0.0))
        flex = gates.FlexCtx(
            OutFlexData(torch.float8_e4m3fn, expected, actual), InFlexData(None, scale), True
        )
        y = function(a, 1.7, gates.PrecisionConfig(2.0, flex))
        results.append((y.float(), actual))
    close(results[0][0], results[1][0].double(), scale=3000)  # one step of e4m3
    assert torch.allclose(results[0][1], results[1][1], rtol=1e-5) and results[0][1] > 0


def test_swiglu_alone():
    a = normal(5, 70)
    for limit in (None, 0.5):
        config = gates.PrecisionConfig(limit)
        close(gates.swiglu(a, 1.7, config), gates.swiglu_torch(a, 1.7, config).double())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: matmul(x, x, None), "matmul: b has 3 rows; accepted: 4, the columns of a"),
        (lambda x: matmul(x, x.T[None], None, slices(1, 2)), "b has 1 matrices; accepted: 2, the"),
        (lambda x: matmul(x, x.T[None], None, (1, 2)), "a_ragged_metadata is tuple; accepted: Rag"),
        (lambda x: matmul(x, x.T, None, out_alpha="2"), "out_alpha is str; accepted: a number"),
        (lambda x: matmul(x[None], x.T, None, gather_indx=integers(3, 2)), "given with batches"),
        (lambda x: matmul(x, x.T, None, gammas=x[0]), r"gammas has shape \(4,\); accepted: \(3,\)"),
        (lambda x: matmul(x, x.T.half(), None), "b has dtype float16; accepted: the dtype of a"),
        (lambda x: matmul(x, x.T.byte()[:2], None), "b_mx_scale is None; accepted: scales, for b"),
        (lambda x: matmul(x, x.T, None, c=x), r"c has shape \(3, 4\) and dtype float32; accepted"),
        (lambda x: matmul_ogs(x, x.T, None, gather_indx=x), "gather_indx is given without routing"),
        (lambda x: reduce(x[None], 0, y_value_pack_factor=2), "y_value_pack_factor is 2; accep"),
        (lambda x: reduce(x[None], 0, y_dtype=torch.int8), "y_dtype is int8; accepted: float16"),
        (lambda x: reduce(x, 0), "reduce: x has 2 dimensions; accepted: 3"),
        (lambda x: reduce(x[None], 3), "reduce: dim is 3; accepted: 0, 1, 2"),
        (lambda x: gates.swiglu(x[:, :3], 1.0, gates.PrecisionConfig()), "an even number of col"),
    ],
)
def test_errors(call, message: str):
    with pytest.raises(ArgumentError, match=message):
        call(normal(3, 4))


@pytest.mark.cpu  # a check of numbers on a GPU would wait for them
@pytest.mark.parametrize(("name", "rows"), [("gather_indx", "a"), ("scatter_indx", "the result")])
def test_rows_that_do_not_exist(name: str, rows: str):
    x, indices = normal(3, 4), torch.tensor([0, 1, 3])
    message = f"{name} has 3; accepted: less than 3, the rows of {rows}"
    with pytest.raises(ArgumentError, match=message):
        matmul(x, x.T, None, **{name: indices})


@tritium.jit
def squared(x, factor):
    return factor * x * x


@tritium.jit
def squared_derivative(x, dy, factor):
    return 2 * factor * x * dy


GLU = PostprocessFn(SWIGLU, (1.5, 1.0), gates.swiglu_derivative)
SQUARE = PostprocessFn(
    FnSpecs("squared", squared, ("factor",)), (0.5,), squared_derivative
)  # fmt: skip


@pytest.mark.parametrize(
    ("function", "exact", "dim"),
    [
        (GLU, lambda s: _glu(s, 1.5, 1.0), 1),
        pytest.param(SQUARE, lambda s: 0.5 * s * s, 0, marks=SLOW),
        pytest.param(PostprocessFn(SWIGLU, (0.7, None), gates.swiglu_derivative),
                     lambda s: _glu(s, 0.7, None), 2, marks=SLOW),
    ],
)  # fmt: skip
def test_gradient_of_functions_of_sums(function, exact, dim: int):
    """With a mask, factors, a scale of all, and rows that are not computed."""
    x = normal(5, 6, 44).requires_grad_()
    mask, factor = normal(5, 6, 1, seed=1) > -1, normal(5, 6, 44, seed=2)
    whole = torch.full((1,), 0.5, device=place())
    y, _ = reduce(x, dim, mask, factor, x_flex=InFlexData(scale=whole), postprocess_fn1=function,
                  unpadded_batch_size=3)  # fmt: skip
    z = x.detach().double().requires_grad_()
    right = exact((z * factor.double() * mask).sum(dim) * 0.5)[:3]
    close(y[:3], right)
    dy = normal(*y.shape, seed=3)
    y.backward(dy)
    right.backward(dy[:3].double())
    close(x.grad, z.grad, scale=4)
    assert x.grad.abs().max() > 0.1


@pytest.mark.parametrize("dim", [0, 1])
def test_gradient_of_sums_of_mx_terms(dim: int):
    x, scales = downcast_to_mxfp(normal(6, 5, 70), torch.float8_e4m3fn, 2)
    mask = (normal(6, 5, 1) > 0.3).to(torch.int8).expand(6, 5, 70)
    factor = normal(6, 5, 70)
    x = x.requires_grad_()
    y, none = reduce(x, dim, mask, factor, scales, y_has_mx=False, y_dtype=torch.float32)
    assert none is None
    y.sum().backward()
    exact = torch.ldexp(mask * factor, (scales.int() - 127).repeat_interleave(32, 2)[..., :70])
    assert torch.equal(x.grad.float(), exact.to(torch.float8_e4m3fn).float())
    y, y_scales = reduce(x, dim, x_mxscale=scales)
    assert y_scales.shape == (y.shape[0], 3)
    with pytest.raises(NotImplementedError, match="the gradient of a result that has MX scales"):
        y.float().sum().backward()
    same = reduce_torch(x.detach(), dim, x_mxscale=scales, x_flex=None, y_flex=None)
    given = reduce(x.detach(), dim, x_mxscale=scales, x_flex=None, y_flex=None)
    close(*(upcast_from_mxfp(*y, torch.float32, 1) for y in (given, same)))


def test_sums_of_floats_with_scales():
    """Scales of blocks are of elements of any type, to 2**-127; a result is of x's type."""
    x = normal(4, 3, 64).bfloat16().requires_grad_()
    scales = torch.tensor([0, 130], dtype=torch.uint8, device=place()).expand(4, 3, 2)
    y, _ = reduce(x, 0, x_mxscale=scales, y_has_mx=False)
    factors = torch.tensor([2.0**-127, 8.0], device=place()).repeat_interleave(32)
    assert y.dtype == torch.bfloat16
    assert torch.equal(y, (x.float() * factors).sum(0).bfloat16())
    (2.0**100 * y.float()).sum().backward()
    assert torch.equal(x.grad, (2.0**100 * factors).bfloat16().expand(4, 3, 64))
    assert reduce(x.detach().to(torch.float8_e5m2), 0)[0].dtype == torch.float8_e5m2


def _glu(sums, alpha: float, limit: float | None):
    gate, linear = sums[..., ::2], sums[..., 1::2]
    if limit is not None:
        gate, linear = gate.clamp(max=limit), linear.clamp(-limit, limit)
    return gate * torch.sigmoid(alpha * gate) * (linear + 1)


def test_functions_of_sums_without_a_derivative():
    x = normal(3, 4, 8).requires_grad_()
    y, _ = reduce(x, 0, postprocess_fn1=PostprocessFn(SWIGLU, (1.5, None)))
    with pytest.raises(ArgumentError, match=r"'swiglu' has no derivative, with a gradient wanted; "
                       r"accepted: PostprocessFn\(specs, fn_args, derivative\)"):  # fmt: skip
        y.sum().backward()
