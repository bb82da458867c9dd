"""Checks in GPU code: each planted fault is reported; one of bounds is not made."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tritium
import tritium.language as tl
from tests.sanitize.test_race_order import (
    counted_under_locks,
    handed_down,
    last_of_some,
    told_too_early,
)
from tests.simt.backend import use
from tritium import knobs
from tritium.backends.active import driver
from tritium.compiler import ASTSource
from tritium.ir import types as ir
from tritium.sanitize.exact.ring import ring_of
from tritium.sanitize.launch import SanitizerError
from tritium.target import GPUTarget

N = 1024


@pytest.fixture(params=[32, pytest.param(64, marks=pytest.mark.slow)], autouse=True)
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TRITON_INSTRUMENTATION_MODE", "bounds")
    before = driver.active
    use(request.param)
    yield
    driver.set_active(before)


@tritium.jit
def copy(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=-1)
    tl.store(out + i, v, mask=i < n)


@tritium.jit
def product(a, b, c, K, B: tl.constexpr):
    i = tl.arange(0, B)
    acc = tl.zeros((B, B), tl.float32)
    for k in range(0, K, B):
        left = tl.load(a + i[:, None] * K + (k + i)[None, :])
        acc = tl.dot(left, tl.load(b + (k + i)[:, None] * B + i[None, :]), acc)
    tl.store(c + i[:, None] * B + i[None, :], acc)


@tritium.jit
def count(x, where, out):
    tl.atomic_add(out + tl.load(where + tl.program_id(0)), tl.load(x))


@tritium.jit
def either(x, y, out, first, n: tl.constexpr):
    p = x
    if first == 0:
        p = y
    i = tl.arange(0, n)
    tl.store(out + i, tl.load(p + i))


@tritium.jit
def rows(descriptor, out, n: tl.constexpr):
    i = tl.arange(0, n)
    tile = descriptor.load([0, 0])
    tl.store(out + i[:, None] * n + i[None, :], tile)


def failing(launch: Any, access: str, argument: str, index: int | None) -> SanitizerError:
    with pytest.raises(SanitizerError, match=rf"^{access} out of bounds") as caught:
        launch()
    place = f"is index {'' if index is None else index}"
    assert place in str(caught.value) and f"of argument '{argument}'" in str(caught.value)
    return caught.value


def test_masked_accesses() -> None:
    x, out = np.arange(N, dtype=np.float32), np.zeros(N, np.float32)
    copy[(4,)](x, out, N, BLOCK=256)
    assert np.array_equal(x, out)
    few = out[:1000].copy()
    error = failing(lambda: copy[(4,)](x, few, 1001, BLOCK=256), "store", "out", 1000)
    line = copy.fn.__code__.co_firstlineno + 4
    assert (error.program, error.site) == ((3, 0, 0), (__file__, line))
    assert np.array_equal(few, x[:1000])
    short, out[:] = x[:1000].copy(), 0
    failing(lambda: copy[(4,)](short, out, 1001, BLOCK=256), "load", "x", 1000)
    assert np.array_equal(out[:1000], short) and out[1000] in (0, -1), "nothing was read there"


def test_a_product() -> None:
    a, b = (np.random.default_rng(0).random(s, np.float32) for s in ((32, 64), (64, 32)))
    c = np.zeros((32, 32), np.float32)
    with knobs.language.scope():
        product[(1,)](a, b, c, 64, B=32)
    np.testing.assert_allclose(c, a @ b, rtol=1e-2)
    failing(lambda: product[(1,)](a, b[:63].copy(), c, 64, B=32), "load", "b", None)


def test_atomic_operations() -> None:
    x, out = np.ones(1, np.int32), np.zeros(4, np.int32)
    where = np.array([0, 3, 3, 2], np.int32)
    count[(4,)](x, where, out)
    assert list(out) == [1, 0, 1, 2]
    for wrong in (4, -1, 1 << 20):
        error = failing(lambda: count[(1,)](x, np.array([wrong], np.int32), out),  # noqa: B023
                        "atomic access", "out", wrong)  # fmt: skip
        assert error.address == out.ctypes.data + 4 * wrong
    assert list(out) == [1, 0, 1, 2]


def test_pointers_from_one_of_two_arguments() -> None:
    x, y, out = np.ones(64, np.float32), np.full(32, 2, np.float32), np.zeros(64, np.float32)
    either[(1,)](x, y, out, 1, 64)
    assert out.sum() == 64
    failing(lambda: either[(1,)](x, y, out, 0, 64), "load", "y", None)
    assert out[:32].sum() == 64


@tritium.jit
def wide(x, out, n: tl.constexpr):
    i = tl.arange(0, n)
    tl.store(out + i, tl.load(x.to(tl.pointer_type(tl.int32)) + i))


def test_an_element_that_begins_inside() -> None:
    x, out = np.ones(4 * 16, np.int8), np.zeros(16, np.int32)
    wide[(1,)](x, out, 16)
    assert list(out) == [0x01010101] * 16
    for size in (61, 62, 63):
        failing(lambda: wide[(1,)](np.ones(size, np.int8), out, 16),  # noqa: B023
                "load", "x", 15)  # fmt: skip


def test_descriptors() -> None:
    from tritium.tools.tensor_descriptor import TensorDescriptor

    x, out = np.arange(1024, dtype=np.float32).reshape(32, 32), np.zeros((32, 32), np.float32)
    rows[(1,)](TensorDescriptor.from_tensor(x, [32, 32]), out, 32)
    assert np.array_equal(x, out)
    wrong = TensorDescriptor(x, [40, 32], [32, 1], [32, 32])
    rows[(1,)](wrong, out, 32)  # the block is inside
    small = x[:16].copy()
    wrong = TensorDescriptor(small, [32, 32], [32, 1], [32, 32])
    failing(lambda: rows[(1,)](wrong, out, 32), "load", "descriptor.base", None)


@tritium.jit
def shift(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i + 1, mask=i < n - 1)
    tl.store(x + i, v, mask=i < n - 1)


@tritium.jit
def turned(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    at = i[:, None] * N + i[None, :]
    for step in range(4):
        tile = tl.load(x + step * N * N + at)
        tl.store(out + step * N * N + at, tl.trans(tile))


def test_checked_programs_keep_their_barriers() -> None:
    """No step overwrites what another one still reads in shared memory."""
    x = np.random.default_rng(1).integers(0, 99, (4, 64, 64)).astype(np.int32)
    out = np.zeros_like(x)
    turned[(1,)](x, out, 64, instrumentation_mode="races")
    np.testing.assert_array_equal(out, x.transpose(0, 2, 1))


@tritium.jit
def total(x, out, ATOMIC: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    rows = tl.load(x + tl.program_id(0) * BLOCK * BLOCK + i[:, None] * BLOCK + i[None, :])
    v = tl.sum(tl.dot(rows, rows))
    if ATOMIC:
        tl.atomic_add(out, v)
    else:
        tl.store(out, tl.load(out) + v)


def raced(launch: Any) -> SanitizerError:
    with pytest.raises(SanitizerError, match=r"^race: ") as caught:
        launch()
    return caught.value


def test_races() -> None:
    mode = {"instrumentation_mode": "races"}
    x = np.arange(N, dtype=np.float32)
    shift[(1,)](x, N, BLOCK=N, **mode)  # one program is not watched for itself
    error = raced(lambda: shift[(8,)](x, N, BLOCK=128, **mode))
    load, store = (shift.fn.__code__.co_firstlineno + n for n in (3, 4))
    assert (error.kind, error.site) == ("races", (__file__, store))
    assert error.address == x.ctypes.data + 4 * 128 and error.program == (1, 0, 0)
    assert f"beside the load of program (0, 0, 0), at {__file__}:{load}" in str(error)
    assert "is index 128 of argument 'x', which has 1024 elements of float32" in str(error)


def test_races_of_single_elements() -> None:
    mode = {"instrumentation_mode": "gsan"}
    x, out = np.ones((4, 16, 16), np.float32), np.zeros(1, np.float32)
    total[(4,)](x, out, True, 16, **mode)
    assert out[0] == 4 * 16**3
    error = raced(lambda: total[(4,)](x, out, False, 16, **mode))
    assert error.address == out.ctypes.data and "of argument 'out'" in str(error)
    copy[(4,)](x, x, 4 * 256, BLOCK=256, **mode)  # each program its own elements


@pytest.mark.every(2)
def test_order_by_atomic_operations() -> None:
    mode = {"instrumentation_mode": "races"}

    def zeros(n: int) -> np.ndarray:
        return np.zeros(n, np.int32)

    x, out = zeros(1), zeros(1)
    counted_under_locks[(4,)](x, zeros(2), 1, **mode)
    handed_down[(4,)](x, zeros(4), "acq_rel", "cas", **mode)
    last_of_some[(5,)](zeros(4), zeros(4), out, 4, 4, **mode)
    assert (x[0], out[0]) == (4 + 6, 6)
    raced(lambda: counted_under_locks[(4,)](x, zeros(2), 2, **mode))
    raced(lambda: handed_down[(4,)](x, zeros(4), "relaxed", "cas", **mode))
    raced(lambda: told_too_early[(2,)](zeros(2), zeros(2), **mode))
    error = raced(lambda: last_of_some[(5,)](zeros(4), zeros(4), out, 4, 3, **mode))
    assert "is index 3 of argument 'x'" in str(error)


@tritium.jit
def divide(a, b, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ratio = tl.load(a + i, mask=i < n) / tl.load(b + i, mask=i < n)
    tl.store(out + i, ratio * 2, mask=i < n)


def test_floats() -> None:
    mode = {"instrumentation_mode": "bounds,races,fp"}
    a, b, out = (np.full(1000, value, np.float32) for value in (3, 2, 0))
    divide[(4,)](a, b, out, 1000, BLOCK=256, **mode)  # masked lanes divide 0 by 0
    assert np.all(out == 3)
    first = divide.fn.__code__.co_firstlineno
    for above, word in ((0, "NaN"), (3, "infinity")):
        a[700], b[700] = above, 0
        with pytest.raises(SanitizerError, match=f"^{word} stored") as caught:
            divide[(4,)](a, b, out, 1000, BLOCK=256, **mode)
        assert (caught.value.program, caught.value.site) == ((2, 0, 0), (__file__, first + 4))
        assert f"first made at {__file__}:{first + 3}" in str(caught.value)


def payloads(x: Any, dtype: Any) -> Any:
    """The numbers that stand for floats, as Python's integers of any size."""
    ring = ring_of(dtype)
    words = np.ascontiguousarray(x).view(f"u{x.dtype.itemsize}")
    found = [ring.embed(int(bits)) for bits in words.ravel()]
    signed = [n - (n >> ring.bits - 1 << ring.bits) for n in found]
    return np.array(signed, object).reshape(x.shape)


@pytest.mark.parametrize(
    ("dtype", "kind"), [(np.float16, ir.f16), (ml_dtypes.float8_e4m3fn, ir.f8e4m3fn)]
)
def test_exact_products(dtype: Any, kind: Any) -> None:
    random = np.random.default_rng(0)
    a, b = (random.standard_normal(s).astype(dtype) for s in ((32, 64), (64, 32)))
    c = np.zeros((32, 32), np.float32)
    product[(1,)](a, b, c, 64, B=32, instrumentation_mode="exact")
    found, wanted = payloads(c, ir.f32), payloads(a, kind) @ payloads(b, kind)
    assert ((found - wanted) % 2**32 == 0).all()


@tritium.jit
def sums(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out + i % 8, tl.load(x + i, mask=i < n), mask=i < n)


def test_exact_atomic_sums() -> None:
    x, out = np.random.default_rng(0).random(700, np.float32), np.zeros(8, np.float32)
    sums[(3,)](x, out, 700, BLOCK=256, instrumentation_mode="exact")
    added, found = payloads(x, ir.f32), payloads(out, ir.f32)
    assert [(found[i] - sum(added[i::8])) % 2**32 for i in range(8)] == [0] * 8


@tritium.jit
def found(x, out, seen, STEPS: tl.constexpr, LANES: tl.constexpr):
    i = tl.arange(0, LANES)
    for step in range(STEPS):
        tl.store(seen + step * LANES + i, tl.atomic_add(out + i % 8, tl.load(x + step * LANES + i)))


def test_what_exact_atomic_sums_find() -> None:
    """Each element finds the sum of some others: in order, they differ by the elements."""
    x = np.random.default_rng(0).random(128, np.float32)
    out, seen = np.zeros(8, np.float32), np.zeros(128, np.float32)
    found[(1,)](x, out, seen, STEPS=2, LANES=64, instrumentation_mode="exact")
    added, total, before = (payloads(a, ir.f32) % 2**32 for a in (x, out, seen))
    for lane in range(8):
        known, sum = dict(zip(before[lane::8], added[lane::8], strict=True)), 0
        for _ in range(16):
            sum = (sum + known.pop(sum)) % 2**32
        assert sum == total[lane]


@pytest.mark.every(2)
@pytest.mark.ptxas
def test_exact_numbers_assemble(fresh_cache: Any) -> None:
    kinds = {"a": "*fp16", "b": "*fp16", "c": "*fp32", "K": "i32", "B": "constexpr"}
    added = {"x": "*bf16", "out": "*bf16", "n": "i32", "BLOCK": "constexpr"}
    for target in (GPUTarget("cuda", 90, 32), GPUTarget("hip", "gfx942", 64)):
        used = {"x": "*fp16", "out": "*fp16", "seen": "*fp16", "STEPS": "constexpr",
                "LANES": "constexpr"}  # fmt: skip
        for source in (ASTSource(product, kinds, {"B": 32}), ASTSource(sums, added, {"BLOCK": 64}),
                       ASTSource(found, used, {"STEPS": 2, "LANES": 64})):  # fmt: skip
            kernel = tritium.compile(source, target=target,
                                     options={"instrumentation_mode": "fpsan"})  # fmt: skip
            assert kernel.kernel and "tt.bitcast" in kernel.asm["ttgir"]


@pytest.mark.ptxas
def test_all_checks_assemble(fresh_cache: Any) -> None:
    signature = {"x": "*fp32", "out": "*fp32", "ATOMIC": "constexpr", "BLOCK": "constexpr"}
    source = ASTSource(total, signature, {"ATOMIC": True, "BLOCK": 16})
    mode = {"instrumentation_mode": "bounds,races,fp"}
    for arch in (80, 90, 100):
        kernel = tritium.compile(source, target=GPUTarget("cuda", arch, 32), options=mode)
        assert kernel.asm["cubin"] and "note_atomic_write" in kernel.asm["ptx"]


def test_machine_code_of_nvidia(monkeypatch: pytest.MonkeyPatch) -> None:
    source = ASTSource(copy, {"x": "*fp32", "out": "*fp32", "n": "i32", "BLOCK": "constexpr"},
                       {"BLOCK": 256})  # fmt: skip
    kernel = tritium.compile(source, target=GPUTarget("cuda", 90, 32))
    assert kernel.metadata.kernel_signature == ["*", "*", "i32", *["i64"] * 5]
    assert len(kernel.metadata.sanitizer["sites"]) == 2 and "atom" in kernel.asm["ptx"]
    monkeypatch.delenv("TRITON_INSTRUMENTATION_MODE")
    kernel = tritium.compile(source, target=GPUTarget("cuda", 90, 32))
    assert not hasattr(kernel.metadata, "sanitizer") and "atom" not in kernel.asm["ptx"]
