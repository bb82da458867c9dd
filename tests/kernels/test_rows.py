"""Softmax, layer norm and RMS norm, forward and backward, against float64."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.kernels.support import FLOATS, compare, is_op, normal, place, torch
from tritium_kernels.dense import layer_norm, log_softmax, rms_norm, softmax
from tritium_kernels.errors import ArgumentError
from tritium_kernels.launching import tables
from tritium_kernels.launching.tables import ROWS, plan_rows

F = torch.nn.functional
LONG = 20000  # above the longest row that any table takes whole


def exact_layer_norm(x, w, b):
    return F.layer_norm(x, x.shape[-1:], w, b, 1e-5)


def exact_rms_norm(x, w):
    return F.rms_norm(x, x.shape[-1:], w, 1e-6)


def check_rows(rows: int, columns: int, dtype) -> None:
    x = normal(rows, columns, dtype=dtype) + 0.5
    w, b = (normal(columns, dtype=dtype, seed=s) for s in (2, 3))
    compare(softmax, lambda x: torch.softmax(x, -1), [x])
    compare(log_softmax, lambda x: torch.log_softmax(x, -1), [x])
    compare(layer_norm, exact_layer_norm, [x, w, b], rows**0.5)
    compare(rms_norm, exact_rms_norm, [x, w], rows**0.5)


def check_large_means(rows: int, columns: int) -> None:
    """Rounded means are off by more than a tenth of the deviation."""
    given = normal(rows, columns) + 5e6, normal(columns, seed=2), normal(columns, seed=3)
    compare(layer_norm, exact_layer_norm, given)


@pytest.mark.every(2)
@pytest.mark.parametrize("columns", [100, 4096])
def test_means_larger_than_deviations(columns: int):
    check_large_means(3, columns)


def test_long_rows_of_nearly_one_number():
    """Sums of 20000 elements would be off by more than the deviation."""
    x = (normal(20, 1) * 1e7).repeat(1, LONG)
    x[:, 3] = torch.nextafter(x[:, 3], x[:, 3] * 2)
    compare(lambda x: layer_norm(x, eps=1e-9),
            lambda x: F.layer_norm(x, x.shape[-1:], eps=1e-9), [x])  # fmt: skip


def test_float32():
    check_rows(3, 100, torch.float32)


def test_bfloat16():
    """In tiles that have no rows and no columns too many."""
    check_rows(72, 128, torch.bfloat16)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(8, 128), (5, 100), (3, LONG)])
def test_sums_in_registers(monkeypatch, shape):
    """Sums stay in registers where the table has none in memory, as on GPUs."""
    monkeypatch.setitem(ROWS, "cpu", replace(ROWS["cpu"], walk=None))
    check_rows(*shape, torch.float32)
    check_large_means(*shape)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("columns", [1, 2, 17, 64, 1000, 4096, 4097, LONG])
@pytest.mark.parametrize("rows", [1, 37, 1000])
def test_sizes(rows: int, columns: int, dtype):
    if rows * columns <= 1 << 20:
        check_rows(rows, columns, dtype)


def test_layouts_and_empty_tensors():
    x = normal(4, 6, 5)
    for dim in (0, 1, -1):
        compare(lambda x, d=dim: softmax(x, d), lambda x, d=dim: torch.softmax(x, d), [x])
    compare(lambda x: rms_norm(x.mT), lambda x: exact_rms_norm(x.mT, None), [x])
    compare(lambda x: rms_norm(x[:, :3]), lambda x: exact_rms_norm(x[:, :3], None), [x])
    for shape in ((0, 5), (5, 0), (0,)):
        empty = torch.empty(shape, device=place(), requires_grad=True)
        for fn in (softmax, log_softmax, layer_norm, rms_norm):
            y = fn(empty)
            assert y.shape == shape
            y.sum().backward()
            assert empty.grad.shape == shape


@pytest.mark.every(2)
@pytest.mark.parametrize("columns", [8, LONG])
def test_infinities_and_nan(columns: int):
    x = normal(4, columns)
    x[0], x[1, 3], x[2, 5], x[3, : columns - 2] = -torch.inf, torch.inf, torch.nan, -torch.inf
    y = softmax(x)
    assert y[:3].isnan().all()
    torch.testing.assert_close(y[3], torch.softmax(x[3], -1))


def test_gradients_of_float64():
    shapes = (3, 5), (5,), (5,)
    x, w, b = (normal(*shape, dtype=torch.float64).requires_grad_() for shape in shapes)
    assert torch.autograd.gradcheck(layer_norm, (x, w, b))
    assert torch.autograd.gradcheck(softmax, (x,))


def test_they_are_ops_of_torch():
    x, w = normal(3, 8).requires_grad_(), normal(8).requires_grad_()
    is_op(torch.ops.tritium_kernels.softmax.default, x, False)
    is_op(torch.ops.tritium_kernels.norm.default, x, w, None, 1e-6, False)


def test_torch_compile_takes_them():
    def layer(x, w):
        return softmax(rms_norm(x, w) * 2, -1)

    x, w = normal(3, 8), normal(8)
    compare(
        torch.compile(layer, backend="aot_eager", fullgraph=True),
        lambda x, w: torch.softmax(exact_rms_norm(x, w) * 2, -1), [x, w],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: softmax(x.int()), "softmax: x has dtype int32; accepted: float16, bfloat16"),
        (lambda x: softmax(x, 2), "softmax: dim is 2; accepted: -2 to 1"),
        (lambda x: rms_norm(x, x[0, :2]), r"rms_norm: weight has shape \(2,\); accepted: \(3,\)"),
        (lambda x: layer_norm(x, eps=-1), "layer_norm: eps is -1; accepted: eps >= 0"),
        (lambda x: layer_norm(x, None, x[0]), "layer_norm: bias is given without weight"),
        (lambda x: layer_norm(x, x[0].double(), x[0]), "bias has dtype float32; accepted: the"),
        (lambda x: softmax(x.to_sparse()), "x has the layout torch.sparse_coo; accepted: strided"),
        (lambda x: softmax([1.0]), "softmax: x is list; accepted: torch.Tensor"),
    ],
)
def test_errors(call, message: str):
    with pytest.raises(ArgumentError, match=message):
        call(normal(2, 3))


@pytest.mark.every(2)
@pytest.mark.parametrize(("columns", "dtype"), [(4096, torch.float32), (8192, torch.bfloat16)])
def test_rows_longer_than_fast_memory(columns: int, dtype):
    """Walked over on CPUs, several rows at a time."""
    size = normal(1, dtype=dtype).element_size()
    if place() == "cpu":
        assert not plan_rows(torch.device("cpu"), 6, columns, again=size).whole
        assert plan_rows(torch.device("cpu"), 6, columns // 2, again=size).whole
    check_rows(6, columns, dtype)


@pytest.mark.parametrize("kind", ["hopper", "gpu"])
@pytest.mark.parametrize("size", [2, 4, 8])
def test_rows_under_way_fit_shared_memory(monkeypatch, kind: str, size: int):
    """Loads of rows of x and dy beside those computed on, and of their statistics."""
    monkeypatch.setattr(tables, "device_class", lambda _: kind)
    monkeypatch.setattr(tables, "processors", lambda _: 132)
    limit = {"hopper": 227 << 10, "gpu": 99 << 10}[kind]
    for columns in (3, 64, 1000, 4096, 8192):
        plan = plan_rows.__wrapped__(torch.device("cuda"), 100_000, columns, sums=size)
        loaded = plan.rows * (2 * plan.block * size + 3 * max(4, size))
        assert plan.whole and (plan.stages - 1) * loaded <= limit - (12 << 10)
        assert plan.stages == ROWS[kind].stages or size > 2 or columns == 3
