"""Matrix products with epilogues, forward and backward, against float64 and integers."""

from __future__ import annotations

import pytest

from tests.kernels.support import (
    FLOATS,
    TOLERANCE,
    compare,
    is_op,
    normal,
    place,
    torch,
    with_copy_engine,
)
from tritium_kernels.dense import matmul, matmul_launch
from tritium_kernels.errors import ArgumentError

F = torch.nn.functional


def test_epilogue_and_gradients():
    inputs = [normal(3, 50, 33), normal(33, 70), normal(70), normal(3, 50, 70)]
    compare(
        lambda a, b, bias, r: matmul(a, b, bias, "silu", r),
        lambda a, b, bias, r: F.silu(a @ b + bias) + r, inputs, scale=4,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    ("kind", "formula"),
    [
        ("relu", F.relu), ("relu2", lambda x: F.relu(x) ** 2), ("sigmoid", torch.sigmoid),
        ("silu", F.silu), ("tanh", torch.tanh), ("gelu", F.gelu),
        ("gelu_tanh", lambda x: F.gelu(x, approximate="tanh")),
    ],
)  # fmt: skip
def test_activations(kind: str, formula, dtype):
    inputs = [normal(20, 40, dtype=dtype), normal(40, 30, dtype=dtype), normal(30, dtype=dtype)]
    compare(
        lambda a, b, bias: matmul(a, b, bias, kind),
        lambda a, b, bias: formula(a @ b + bias), inputs, scale=4,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("sizes", [(1, 1, 1), (4, 300, 500), (200, 130, 17), (65, 64, 1025)])
def test_strides_and_sizes(sizes, dtype):
    m, n, k = sizes
    a, b = normal(2, k, m, dtype=dtype), normal(k, 2 * n, dtype=dtype)
    compare(
        lambda a, b: matmul(a.mT, b[:, ::2]), lambda a, b: a.mT @ b[:, ::2], [a, b], scale=k**0.5
    )


@pytest.mark.parametrize(
    ("a_columns", "b_columns", "descriptors"),
    [(False, False, 3), pytest.param(True, True, 3, marks=pytest.mark.slow)],
)
def test_by_descriptors(monkeypatch: pytest.MonkeyPatch, a_columns, b_columns, descriptors):
    """As on GPUs whose engine copies blocks of tensors: either operand row by row or column by
    column, edges in all directions, more tiles than programs."""
    taken = with_copy_engine(monkeypatch, matmul_launch.kernels, "matmul_blocks")
    a = normal(2, *((72, 136) if a_columns else (136, 72)), dtype=torch.float16)
    b = normal(2, *((200, 72) if b_columns else (72, 200)), dtype=torch.float16)
    a, b = a.mT if a_columns else a, b.mT if b_columns else b
    bias = normal(200, dtype=torch.float16)
    found = matmul(a, b, bias, "relu")
    right = F.relu(a.double() @ b.double() + bias.double())
    torch.testing.assert_close(found.double(), right, atol=0.05, rtol=2e-3)
    assert taken == [descriptors]


def test_integers_are_exact():
    generator = torch.Generator().manual_seed(0)
    a, b = (
        torch.randint(-128, 128, (n, 100), dtype=torch.int8, generator=generator).to(place())
        for n in (20, 40)
    )
    right = (a.cpu().long() @ b.cpu().long().T).to(place())
    assert torch.equal(matmul(a, b.T), right.int())
    rows = torch.rand(20, generator=generator).to(place())
    found = matmul(a, b.T, a_scale=rows, b_scale=torch.tensor(0.5, device=place()))
    torch.testing.assert_close(found, right.float() * rows[:, None] * 0.5)


@pytest.mark.parametrize(
    "dtype", [torch.float8_e4m3fn, pytest.param(torch.float8_e5m2, marks=pytest.mark.slow)]
)
def test_float8(dtype):
    a, b = normal(20, 96).to(dtype), normal(32, 96).to(dtype)
    found = matmul(a, b.T, out_dtype=torch.float32)
    torch.testing.assert_close(found.double(), a.double() @ b.double().T, atol=1e-2, rtol=1e-3)


def test_parts_of_k(monkeypatch):
    """A product whose K is shared by programs has the epilogue applied to the sum."""
    blocks = matmul_launch.Blocks(16, 32, 32, 4, 1, split_k=4)
    monkeypatch.setattr(matmul_launch, "choose", lambda *_: blocks)
    a, b, bias = normal(2, 10, 300), normal(300, 40), normal(40)
    found = matmul(a, b, bias, "relu")
    right = F.relu(a.double() @ b.double() + bias)
    torch.testing.assert_close(found.double(), right, atol=300 * TOLERANCE[a.dtype], rtol=0)


@pytest.mark.parametrize(
    ("dtype", "sizes", "programs"),
    [
        (torch.float32, (2, 33, 90, 257), 7),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (
                (torch.float64, (1, 70, 90, 300), 4), (torch.bfloat16, (3, 64, 64, 33), 5),
                (torch.float32, (1, 16, 32, 20), 3), (torch.float16, (1, 70, 200, 600), 36),
            )
        ),
    ],
)  # fmt: skip
def test_shared_sums(monkeypatch: pytest.MonkeyPatch, dtype, sizes, programs: int):
    """Tiles that are left over have their sums done by all programs; the same at every call."""
    blocks = matmul_launch.Blocks(16, 32, 32, 4, 1, sharers=programs)
    monkeypatch.setattr(matmul_launch, "choose", lambda *_: blocks)
    batch, m, n, k = sizes
    a, bias = normal(batch, m, k, dtype=dtype), normal(n, dtype=dtype)
    b, residual = normal(batch, n, k, dtype=dtype).mT, normal(batch, m, n, dtype=dtype)
    found = matmul(a, b, bias, "relu", residual)
    right = F.relu(a.double() @ b.double() + bias.double()) + residual.double()
    torch.testing.assert_close(found.double(), right, atol=3 * k**0.5 * TOLERANCE[dtype], rtol=0)
    assert torch.equal(found, matmul(a, b, bias, "relu", residual))


def test_shared_sums_of_descriptors_and_integers(monkeypatch: pytest.MonkeyPatch):
    blocks = matmul_launch.Blocks(16, 32, 32, 4, 1, sharers=3)
    monkeypatch.setattr(matmul_launch, "choose", lambda *_: blocks)
    a, b = (torch.arange(n, device=place()).view(-1, 200) for n in (50 * 200, 40 * 200))
    a, b = ((x * 7 % 251 - 125).to(torch.int8) for x in (a, b))
    right = (a.cpu().long() @ b.cpu().long().T).to(place())
    assert torch.equal(matmul(a, b.T), right.int())
    taken = with_copy_engine(monkeypatch, matmul_launch.kernels, "matmul_shared")
    x, w = normal(50, 200, dtype=torch.float16), normal(200, 48, dtype=torch.float16)
    exact = x.double() @ w.double()
    torch.testing.assert_close(matmul(x, w).double(), exact, atol=0.05, rtol=2e-3)
    assert taken == [2]


def test_which_products_share_sums(monkeypatch: pytest.MonkeyPatch):
    """On a GPU of 132 processors: where tiles leave many of them idle and sums are long."""
    monkeypatch.setattr(matmul_launch, "device_class", lambda _: "hopper")
    monkeypatch.setattr(matmul_launch, "processors", lambda _: 132)
    matmul_launch.choose.cache_clear()
    half = torch.bfloat16
    found = {
        sizes: matmul_launch.choose(torch.device("cpu"), half, 1, *sizes)
        for sizes in ((1280, 1792, 8192), (1280, 1792, 512), (2048, 2048, 2048),
                      (4096, 4096, 4096), (8192, 8192, 8192), (128, 256, 8192))
    }  # fmt: skip
    matmul_launch.choose.cache_clear()
    assert [sizes for sizes, blocks in found.items() if blocks.sharers] == [(1280, 1792, 8192)]
    assert found[128, 256, 8192].split_k > 1
    # 128 wide tiles keep 132 processors as busy as 256 narrow ones, and load less.
    assert found[2048, 2048, 2048].n == matmul_launch.LARGE["hopper"][2].n


def test_thin_products_leave_no_processor_idle(monkeypatch: pytest.MonkeyPatch):
    """Few rows: strips of B that are narrow enough for all. Few columns: half the rows, rather than
    A read for each of several columns of tiles; K is split where these are too few."""
    monkeypatch.setattr(matmul_launch, "device_class", lambda _: "hopper")
    monkeypatch.setattr(matmul_launch, "processors", lambda _: 132)
    matmul_launch.choose.cache_clear()
    for (m, n, k), width, splits in (
        ((16, 4096, 4096), 32, 1), ((64, 8192, 8192), 64, 1), ((8192, 128, 8192), 128, 1),
        ((4096, 128, 8192), 128, 2), ((16384, 128, 8192), 128, 1), ((16, 1024, 4096), 32, 4),
    ):  # fmt: skip
        blocks = matmul_launch.choose(torch.device("cpu"), torch.bfloat16, 1, m, n, k)
        programs = -(-m // blocks.m) * -(-n // blocks.n) * blocks.split_k
        assert (blocks.n, blocks.split_k, programs) == (width, splits, 128)
        assert (blocks.m + blocks.n) * blocks.k * 2 * blocks.stages <= 200 << 10
    matmul_launch.choose.cache_clear()


def test_parts_of_k_by_descriptors(monkeypatch: pytest.MonkeyPatch):
    """The copy engine reads the operands of split sums as well."""
    blocks = matmul_launch.Blocks(16, 32, 32, 4, 1, split_k=4)
    monkeypatch.setattr(matmul_launch, "choose", lambda *_: blocks)
    taken = with_copy_engine(monkeypatch, matmul_launch.kernels, "matmul_shared")
    x, w, bias = (normal(*s, dtype=torch.float16) for s in ((50, 200), (200, 48), (48,)))
    exact = F.relu(x.double() @ w.double() + bias.double())
    torch.testing.assert_close(matmul(x, w, bias, "relu").double(), exact, atol=0.05, rtol=2e-3)
    assert taken == [2]


def test_empty_matrices():
    a, b = normal(3, 0).requires_grad_(), normal(0, 5).requires_grad_()
    y = matmul(a, b)
    assert y.shape == (3, 5) and not y.any()
    y.sum().backward()
    assert b.grad.shape == b.shape
    assert matmul(normal(0, 4), normal(4, 5)).shape == (0, 5)


@pytest.mark.slow
def test_gradients_of_float64():
    a, b, bias = (normal(*s, dtype=torch.float64).requires_grad_() for s in ((3, 4), (4, 2), (2,)))
    assert torch.autograd.gradcheck(lambda *x: matmul(*x, activation="gelu"), (a, b, bias))
    kind = torch.float64
    is_op(
        torch.ops.tritium_kernels.matmul.default, a, b, bias, None, None, None, "silu", kind,
        "ieee", True,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda a, b: matmul(a, b.mT), "matmul: b has 5 rows; accepted: 4, the columns of a"),
        (lambda a, b: matmul(a, b.half()), "b has dtype float16; accepted: the dtype of a"),
        (lambda a, b: matmul(a, b, activation="selu"), "activation is 'selu'; accepted: None, 're"),
        (lambda a, b: matmul(a, b, b[0, :2]), r"bias has shape \(2,\); accepted: \(5,\)"),
        (lambda a, b: matmul(a, b, residual=a), r"residual has shape \(3, 4\); accepted: those"),
        (lambda a, b: matmul(a, b, a_scale=a[0, 0]), "a_scale is given for torch.float32; acc"),
        (lambda a, b: matmul(a.int(), b), "a has dtype int32; accepted: float16"),
        (lambda a, b: matmul(a, b, precision="bf16"), "precision is 'bf16'; accepted: 'ieee'"),
        (lambda a, b: matmul(a.expand(2, 3, 4), b.expand(3, 4, 5)), r"b has batches \(3,\); acc"),
        (lambda a, b: matmul(a[0], b), "a has 1 dimensions; accepted: 2"),
    ],
)
def test_errors(call, message: str):
    with pytest.raises(ArgumentError, match=message):
        call(normal(3, 4), normal(4, 5))


@pytest.mark.parametrize("residual", [False, True])
def test_one_matrix_for_all_batches(residual: bool):
    """Batches become rows of one product, where that copies nothing."""
    a, b = normal(3, 10, 40), normal(40, 24)
    after = normal(3, 10, 24) if residual else None
    for x in (a, a.mT.contiguous().mT, a[:, ::2]):
        added = None if after is None else after[:, : x.shape[1]]
        right = x.double() @ b.double() + (0 if added is None else added.double())
        found = matmul(x, b, None, None, added).double()
        torch.testing.assert_close(found, right, atol=1e-4, rtol=1e-5)
    scales = torch.tensor(0.5, device=place())
    small = (a.clamp(-1, 1) * 100).to(torch.int8), (b.clamp(-1, 1) * 100).to(torch.int8)
    right = small[0].double() @ small[1].double() * 0.5
    assert torch.equal(matmul(*small, a_scale=scales).double(), right)
    each = torch.arange(10, device=place()).float()
    assert torch.equal(matmul(*small, a_scale=each).double(), right * 2 * each[:, None])
