"""Accesses out of bounds: each class of planted fault is an error that names it, and kernels that
are right run as they do without checks."""

from __future__ import annotations

from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tritium
import tritium.language as tl
from tritium.sanitize.extents import extent_of, memory_of
from tritium.sanitize.launch import SanitizerError

pytestmark = pytest.mark.cpu


@pytest.fixture(autouse=True)
def checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INSTRUMENTATION_MODE", "bounds")


@tritium.jit
def copy(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n, other=0), mask=i < n)


def failing(launch: Any) -> SanitizerError:
    with pytest.raises(SanitizerError) as caught:
        launch()
    return caught.value


def zeros(n: int, dtype: Any = np.float32) -> np.ndarray:
    return np.zeros(n, dtype)


def test_right_kernels_run_as_without_checks():
    x, out = np.arange(1000, dtype=np.float32), zeros(1000)
    copy[(4,)](x, out, 1000, BLOCK=256)
    assert np.array_equal(x, out)


def test_a_load_past_the_end_names_line_program_index_and_argument():
    x, out = zeros(1000), zeros(2048)
    error = failing(lambda: copy[(4,)](x, out, 1024, BLOCK=256))
    line = copy.fn.__code__.co_firstlineno + 3
    assert (error.kind, error.program, error.site) == ("bounds", (3, 0, 0), (__file__, line))
    assert error.address == x.ctypes.data + 4 * 1023
    message, place = str(error), f"program (3, 0, 0), at {__file__}:{line}"
    assert f"load out of bounds in kernel 'copy', {place}" in message
    assert "tl.store(out + i, tl.load(x + i, mask=i < n, other=0), mask=i < n)" in message
    assert "index 1023 of argument 'x', which has 1000 elements of float32" in message
    assert "92 bytes after the end of its memory" in message


def test_a_store_past_the_end_writes_nothing_there():
    behind = np.full(1024, 7, np.float32)
    out = np.frombuffer(behind.data, np.float32, 1000)  # its memory ends earlier
    error = failing(lambda: copy[(4,)](zeros(1024), out, 1024, BLOCK=256))
    assert "store out of bounds" in str(error) and "argument 'out'" in str(error)
    assert (behind[1000:] == 7).all()


@pytest.mark.parametrize("dtype", [np.int8, np.float16, np.int32, np.float64])
def test_the_first_element_outside_is_found(dtype: Any):
    x, out = zeros(1000, dtype), zeros(1024, dtype)
    copy[(4,)](x, out, 1000, BLOCK=256)
    assert "index 1000 of argument 'x'" in str(
        failing(lambda: copy[(4,)](x, out, 1001, BLOCK=256))
    )


def test_negative_offsets():
    @tritium.jit
    def before(x, out):
        i = tl.arange(0, 16)
        tl.store(out + i, tl.load(x + i - 1))

    error = failing(lambda: before[(1,)](zeros(64)[:32], zeros(16)))
    assert "is index -1 of argument 'x'" in str(error) and "4 bytes before its memory" in str(error)


def test_a_slice_may_use_the_storage_that_it_is_part_of():
    @tritium.jit
    def before(x, out):
        i = tl.arange(0, 16)
        tl.store(out + i, tl.load(x + i - 8))

    x, out = np.arange(64, dtype=np.float32), zeros(16)
    before[(1,)](x[8:12], out)
    assert out.tolist() == list(range(16))


def test_scalar_accesses_and_atomics():
    @tritium.jit
    def scalar(x, n):
        tl.store(x + n, 1.0)

    @tritium.jit
    def count(x, n):
        tl.atomic_add(x + n + tl.arange(0, 8), 1)

    @tritium.jit
    def swap(x, n):
        tl.atomic_cas(x + n, 0, 1)

    scalar[(1,)](zeros(8), 7)
    assert "index 8 of argument 'x'" in str(failing(lambda: scalar[(1,)](zeros(8), 8)))
    x = zeros(16, np.int32)
    count[(1,)](x, 8)
    swap[(1,)](x, 0)
    assert x.tolist() == [1] + [0] * 7 + [1] * 8
    error = failing(lambda: count[(1,)](x, 9))
    assert "atomic access out of bounds" in str(error) and "index 16 of argument 'x'" in str(error)
    assert "index -3 of argument 'x'" in str(failing(lambda: swap[(1,)](x, -3)))


@tritium.jit
def rows(x, out, M, N, stride, BLOCK: tl.constexpr, CHECK: tl.constexpr):
    m, n = tl.arange(0, BLOCK)[:, None], tl.arange(0, BLOCK)[None, :]
    inside = (m < M) & (n < N) if CHECK else n < N
    tile = tl.load(x + m * stride + n, mask=inside, other=0.0)
    tl.store(out + tl.arange(0, BLOCK), tl.sum(tile, axis=1))


def test_tiles_of_two_axes():
    x, out = np.ones((13, 30), np.float32), zeros(16)
    rows[(1,)](x, out, 13, 30, 30, BLOCK=16, CHECK=True)
    assert out.sum() == 13 * 16
    error = failing(lambda: rows[(1,)](x, out, 13, 30, 30, BLOCK=16, CHECK=False))
    assert "which has 390 elements of float32 (shape (13, 30))" in str(error)
    assert "is index 465 of argument 'x'" in str(error)


def test_pointers_that_a_loop_carries():
    @tritium.jit
    def total(x, out, n, BLOCK: tl.constexpr):
        pointers, sums = x + tl.arange(0, BLOCK), tl.zeros((BLOCK,), tl.float32)
        for _ in range(n):
            sums += tl.load(pointers)
            pointers += BLOCK
        tl.store(out, tl.sum(sums))

    x, out = np.ones(256, np.float32), zeros(1)
    total[(1,)](x, out, 4, BLOCK=64)
    assert out[0] == 256
    assert "index 319 of argument 'x'" in str(failing(lambda: total[(1,)](x, out, 5, BLOCK=64)))


def test_block_pointers_without_a_boundary_check():
    @tritium.jit
    def load(x, out, N, CHECK: tl.constexpr):
        block = tl.make_block_ptr(x, (N,), (1,), (0,), (64,), (0,))
        value = tl.load(block, boundary_check=(0,) if CHECK else ())
        tl.store(out + tl.arange(0, 64), value)

    x, out = np.ones(50, np.float32), zeros(64)
    load[(1,)](x, out, 50, CHECK=True)
    assert out.sum() == 50
    error = failing(lambda: load[(1,)](x, out, 50, CHECK=False))
    assert "index 63 of argument 'x'" in str(error)
    assert error.site == (__file__, load.fn.__code__.co_firstlineno + 3)


def test_descriptors_of_a_larger_shape_than_the_tensor():
    @tritium.jit
    def load(x, out, M):
        descriptor = tl.make_tensor_descriptor(x, [M, 16], [16, 1], [8, 16])
        tl.store(out + tl.arange(0, 8), tl.sum(descriptor.load([0, 0]), axis=1))

    x, out = np.ones((6, 16), np.float32), zeros(8)
    load[(1,)](x, out, 6)
    assert out.sum() == 6 * 16
    error = failing(lambda: load[(1,)](x, out, 8))
    assert "index 127 of argument 'x'" in str(error)
    assert error.site == (__file__, load.fn.__code__.co_firstlineno + 3)


@tritium.jit(noinline=True)
def fetch(pointer, i):
    return tl.load(pointer + i)


@tritium.jit(noinline=True)
def put(pointer, i, value):
    tl.store(pointer + i, value)


def test_functions_that_are_not_inlined():
    @tritium.jit
    def caller(x, out, n, m):
        put(out, m, fetch(x, n))

    x, out = np.arange(4, dtype=np.float32), zeros(2)
    caller[(1,)](x, out, 3, 1)
    assert out.tolist() == [0, 3]
    for function, places in ((fetch, (4, 0)), (put, (3, 2))):
        error = failing(partial(caller[(1,)], x, out, *places))
        assert error.site[1] == function.fn.__code__.co_firstlineno + 2


def test_a_pointer_that_comes_from_one_of_two_arguments():
    @tritium.jit
    def either(x, y, out, first, n):
        pointer = x if first else y
        i = tl.arange(0, 8)
        tl.store(out + i, tl.load(pointer + i, mask=i < n, other=0.0))

    x, y, out = np.full(8, 1, np.float32), np.full(4, 2, np.float32), zeros(8)
    either[(1,)](x, y, out, 1, 8)
    assert out.sum() == 8
    either[(1,)](x, y, out, 0, 4)
    assert out.sum() == 8
    error = failing(lambda: either[(1,)](x, zeros(0), out, 0, 8))
    assert "'x'" in str(error) and "'y'" in str(error)


def test_an_empty_array_allows_masked_accesses_only():
    x, out = zeros(0), zeros(256)
    copy[(1,)](x, out, 0, BLOCK=256)
    assert "has 0 elements" in str(failing(lambda: copy[(1,)](x, out, 1, BLOCK=256)))


def test_an_assertion_before_the_access_comes_first():
    @tritium.jit(debug=True)
    def checked_copy(x, n):
        tl.device_assert(n < 8, "too many")
        tl.store(x + n, 1.0)

    with pytest.raises(RuntimeError, match="too many"):
        checked_copy[(1,)](zeros(8), 8)


def test_the_first_fault_in_the_order_of_the_program_is_reported():
    @tritium.jit
    def two(x, y):
        i = tl.arange(0, 16)
        tl.store(y + i, tl.load(x + i))

    assert "load out of bounds" in str(failing(lambda: two[(1,)](zeros(8), zeros(8))))
    assert "store out of bounds" in str(failing(lambda: two[(1,)](zeros(16), zeros(8))))


def test_a_launch_after_a_fault_works_and_arguments_stay_read_only():
    x, out = np.ones(1000, np.float32), zeros(1024)
    x.flags.writeable = False
    failing(lambda: copy[(4,)](x, out, 1024, BLOCK=256))
    copy[(4,)](x, out, 1000, BLOCK=256)
    assert out.sum() == 1000


def test_launches_without_the_mode_have_no_checks(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("TRITON_INSTRUMENTATION_MODE")

    @tritium.jit
    def plain(x):
        tl.store(x, 1.0)

    x = zeros(1)
    kernel = plain[(1,)](x)
    assert not hasattr(kernel.metadata, "sanitizer") and "sanitizer" not in kernel.asm["tile"]
    assert "sanitizer_check" in plain[(1,)](x, instrumentation_mode="bounds").asm["tile"]


def test_memory_of_arguments():
    x = np.zeros((4, 6), np.int16)
    assert memory_of(x[1:, ::2])[:3] == (x.ctypes.data, x.ctypes.data + 48, x.ctypes.data + 12)
    assert memory_of(x[::-1]).begin == x.ctypes.data
    assert memory_of(bytearray(5))[1] - memory_of(bytearray(5))[0] == 5
    assert memory_of(x[:, 0]).text == "4 elements of int16"
    read = np.frombuffer(bytes(24), np.int16)
    others = np.ones(3, ml_dtypes.bfloat16), np.ones(2, np.float16).view(np.recarray)
    views = x, x[1:, ::2], x[::-1], x.T, np.asfortranarray(x), x[:0], read, read[3:]
    for array in (*views, *others):
        assert extent_of(array) == memory_of(array)[:2]


def test_memory_of_torch_tensors_is_their_storage():
    torch = pytest.importorskip("torch")
    x = torch.zeros(10, 4)
    assert memory_of(x[2:, 1])[:2] == (x.data_ptr(), x.data_ptr() + 160)


@tritium.jit(do_not_specialize=["row", "column", "start", "rows", "columns"])
def affine(x, out, row, column, start, rows, columns, M: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, M), tl.arange(0, N)
    inside = (i < rows)[:, None] & (j < columns)[None, :]
    pointers = x + start + (i * row)[:, None] + (j * column)[None, :]
    tl.store(out + i[:, None] * N + j[None, :], tl.load(pointers, mask=inside, other=0))


@tritium.jit(do_not_specialize=["by", "start", "n"])
def wide_remainder(x, out, by, start, n, BLOCK: tl.constexpr):
    i = (start + tl.arange(0, BLOCK)) % by
    tl.store(out + tl.arange(0, BLOCK), tl.load(x + i.to(tl.int64) * 2, mask=i < n, other=0))


@pytest.mark.parametrize("seed", range(3))
def test_tiles_are_checked_as_a_whole_or_by_their_elements(seed: int) -> None:
    """One test for a tile whose offsets are computed from scalars agrees with one of each element,
    where offsets wrap around, too."""
    random = np.random.default_rng(seed)
    x, out = np.ones(300, np.float32), np.zeros(8 * 16, np.float32)
    i, j = np.arange(8)[:, None], np.arange(16)[None, :]
    far = [0, 1, -1, 16, 3, 37, -16, 1 << 28, -(1 << 28), (1 << 31) - 1, -(1 << 31)]
    verdicts = set[bool]()
    for _ in range(120):
        row, column, start = (int(random.choice(far)) for _ in range(3))
        start = int(random.choice([start, 60, 299, 284]))
        rows, columns = int(random.integers(0, 9)), int(random.integers(0, 17))
        inside = (i < rows) & (j < columns)
        # Each sum of a pointer and an offset is one of addresses, which do not wrap at 32 bits.
        product = [(a * by).astype(np.int32).astype(np.int64) for a, by in
                   ((i.astype(np.int64), row), (j.astype(np.int64), column))]  # fmt: skip
        index = np.broadcast_to(start + product[0] + product[1], inside.shape)
        fine = bool(((index >= 0) & (index < x.size))[inside].all())
        verdicts.add(fine)
        launch = partial(affine[(1,)], x, out, row, column, start, rows, columns, 8, 16)
        if fine:
            launch()
        else:
            with pytest.raises(SanitizerError, match="load out of bounds"):
                launch()
    assert verdicts == {True, False}


@pytest.mark.parametrize(("by", "start", "n", "fine"), [
    (32, 5, 32, True), (33, 0, 33, True), (34, 20, 33, True), (34, 20, 34, False),
    (32, -5, 32, False), (1, 99, 1, True), (1 << 30, (1 << 31) - 5, 3, False),
])  # fmt: skip
def test_remainders_in_wide_offsets(by: int, start: int, n: int, fine: bool) -> None:
    x, out = np.ones(66, np.float32), np.zeros(64, np.float32)
    launch = partial(wide_remainder[(1,)], x, out, by, start, n, 64)
    if fine:
        launch()
    else:
        with pytest.raises(SanitizerError, match="load out of bounds"):
            launch()


@tritium.jit(do_not_specialize=["start", "by", "n"])
def bent(x, out, start, by, n, KIND: tl.constexpr, BLOCK: tl.constexpr):
    i = start + tl.arange(0, BLOCK) * by
    if KIND == 0:
        i = i // 4
    elif KIND == 1:
        i = i & 63
    elif KIND == 2:
        i = tl.minimum(tl.maximum(i, 0), 70)
    elif KIND == 3:
        i = (i >> 1) - by
    else:
        i = (i << 1) - i
    found = tl.load(x + i, mask=tl.arange(0, BLOCK) < n, other=0)
    tl.store(out + tl.arange(0, BLOCK), found)


def test_arithmetic_behind_sums_that_wrap_around() -> None:
    """Operations that are not linear take the elements, not the sums before these wrapped."""
    random, far = np.random.default_rng(2), [0, 1, -1, 5, 64, (1 << 31) - 9, -(1 << 31), 1 << 29]
    x, out = np.ones(66, np.float32), np.zeros(16, np.float32)
    verdicts = dict.fromkeys(range(5), frozenset[bool]())
    for number in range(200):
        kind, n = number % 5, int(random.integers(0, 17))
        start, by = int(random.choice(far)), int(random.choice(far))
        i = (start + np.arange(16) * by).astype(np.int32)
        with np.errstate(over="ignore"):
            index = [
                (np.abs(i.astype(np.int64)) // 4 * np.sign(i)), i & 63, i.clip(0, 70),
                ((i >> 1) - np.int32(by)).astype(np.int32), i,
            ][kind][:n]  # fmt: skip
        fine = bool(((index >= 0) & (index < x.size)).all())
        verdicts[kind] |= {fine}
        launch = partial(bent[(1,)], x, out, start, by, n, kind, 16)
        if fine:
            launch()
        else:
            with pytest.raises(SanitizerError, match="load out of bounds"):
                launch()
    assert [len(v) for v in verdicts.values()] == [2, 1, 2, 2, 2]


@pytest.mark.parametrize("kind", range(5))
def test_a_bent_tile_costs_one_test_where_its_ends_are_known(kind: int) -> None:
    x, out = np.ones(66, np.float32), np.zeros(16, np.float32)
    text = bent[(1,)](x, out, 9, 1, 16, kind, 16).asm["tile"]
    assert text.count("scf.if") == 2


def test_a_whole_tile_costs_one_test() -> None:
    """The check of each element stands where the one of the whole tile fails."""
    x, out = np.ones(300, np.float32), np.zeros(8 * 16, np.float32)
    kernel = affine[(1,)](x, out, 16, 1, 0, 8, 16, 8, 16)
    text = kernel.asm["tile"]
    outside = text.split("scf.if")[0]
    assert text.count("scf.if") == 2 == text.count("tt.sanitizer_check")
    assert "tt.reduce" not in outside and "sanitizer_check" not in outside
