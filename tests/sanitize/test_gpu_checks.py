"""Planted faults on a GPU: each check reports its own, with the report of other devices."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

import tritium
import tritium.language as tl
from tests.sanitize.test_race_order import counted_under_locks, handed_down, last_of_some
from tritium.sanitize.launch import SanitizerError
from tritium.tools.tensor_descriptor import TensorDescriptor

pytestmark = pytest.mark.gpu

torch = pytest.importorskip("torch", reason="torch is not installed")


@tritium.jit(do_not_specialize=["n", "by"])
def shifted(x, out, n, by, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i + by, mask=i < n)
    tl.store(out + i, v * 2, mask=i < n)


@tritium.jit
def counted(out, where):
    tl.atomic_add(out + tl.load(where + tl.program_id(0)), 1)


@tritium.jit
def tiled(descriptor, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i[:, None] * N + i[None, :], descriptor.load([0, 0]))


@tritium.jit
def product(a, b, c, K, B: tl.constexpr):
    i = tl.arange(0, B)
    acc = tl.zeros((B, B), tl.float32)
    for k in range(0, K, B):
        left = tl.load(a + i[:, None] * K + (k + i)[None, :])
        acc = tl.dot(left, tl.load(b + (k + i)[:, None] * B + i[None, :]), acc)
    tl.store(c + i[:, None] * B + i[None, :], acc)


@tritium.jit
def moved(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i + 1, mask=i < n - 1)
    tl.store(x + i, v, mask=i < n - 1)


@tritium.jit
def ticket_is_no_lock(x, ticket, BLOCK: tl.constexpr):
    n = tl.atomic_add(ticket, 1)
    tl.store(x + tl.arange(0, BLOCK), n)


@tritium.jit
def in_turn(x, lock):
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(x, tl.load(x) + 1)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@tritium.jit
def divided(a, b, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ratio = tl.load(a + i, mask=i < n) / tl.load(b + i, mask=i < n)
    tl.store(out + i, ratio * 2, mask=i < n)


@tritium.jit
def overflowed(x, out, BLOCK: tl.constexpr):
    big = tl.exp(tl.load(x + tl.arange(0, BLOCK)) * 100)
    tl.store(out + tl.arange(0, BLOCK), big * 0.5 - big)


@tritium.jit
def summed(x, out, BLOCK: tl.constexpr):
    tl.atomic_add(out, tl.sum(tl.load(x + tl.arange(0, BLOCK))))


def ones(*shape: int, dtype: Any = torch.float32) -> Any:
    return torch.ones(shape, device="cuda", dtype=dtype)


def line_of(kernel: Any, text: str) -> int:
    lines, start = inspect.getsourcelines(kernel.fn)
    return next(start + i for i, line in enumerate(lines) if text in line)


def failing(launch: Callable[[], Any], title: str) -> SanitizerError:
    with pytest.raises(SanitizerError, match=f"^{title}") as caught:
        launch()
    torch.cuda.synchronize()  # the device is there
    return caught.value


BOUNDS = {"instrumentation_mode": "bounds"}
RACES = {"instrumentation_mode": "races"}
FLOATS = {"instrumentation_mode": "fp"}


@pytest.mark.parametrize(("by", "index"), [(1, 1000), (-5, -5), (24, None)])
def test_a_load_out_of_bounds(by: int, index: int | None) -> None:
    x, out = ones(1000), ones(1024)
    shifted[(4,)](x, out, 1000, 0, BLOCK=256, **BOUNDS)
    assert bool((out[:1000] == 2).all())
    error = failing(lambda: shifted[(4,)](x, out, 1000, by, BLOCK=256, **BOUNDS),
                    "load out of bounds in kernel 'shifted', program")  # fmt: skip
    assert (error.kind, error.site) == ("bounds", (__file__, line_of(shifted, "tl.load")))
    text = str(error)
    assert "v = tl.load(x + i + by, mask=i < n)" in text
    assert f"is index {'' if index is None else index}" in text
    assert "of argument 'x', which has 1000 elements of float32" in text
    assert error.program[0] == (0 if by < 0 else 3)


def test_a_store_out_of_bounds_is_not_made() -> None:
    x, out = ones(1024), ones(1000)
    failing(lambda: shifted[(4,)](x, out, 1024, 0, BLOCK=256, **BOUNDS),
            "store out of bounds in kernel 'shifted', program \\(3, 0, 0\\)")  # fmt: skip
    assert bool((out == 2).all())


def test_atomic_operations_and_descriptors_out_of_bounds() -> None:
    out, where = ones(4, dtype=torch.int32), torch.tensor([0, 3, 7], device="cuda")
    error = failing(lambda: counted[(3,)](out, where, **BOUNDS), "atomic access out of bounds")
    assert error.address == out.data_ptr() + 4 * 7 and out.tolist() == [2, 1, 1, 2]
    x, to = ones(16, 32), ones(32, 32)
    wrong = TensorDescriptor(x, [32, 32], [32, 1], [32, 32])
    error = failing(lambda: tiled[(1,)](wrong, to, 32, **BOUNDS), "load out of bounds")
    assert "of argument 'descriptor.base'" in str(error)


def test_a_pipelined_product() -> None:
    a, b, c = ones(32, 256), ones(256, 32), ones(32, 32)
    product[(1,)](a, b, c, 256, B=32, **BOUNDS)
    assert bool((c == 256).all())
    failing(lambda: product[(1,)](a, b[:255].clone(), c, 256, B=32, **BOUNDS),
            "load out of bounds in kernel 'product'")  # fmt: skip


def test_races_between_programs() -> None:
    x = ones(1024)
    moved[(1,)](x, 1024, BLOCK=1024, **RACES)
    error = failing(lambda: moved[(8,)](x, 1024, BLOCK=128, **RACES), "race: ")
    lines = [line_of(moved, text) for text in ("tl.load", "tl.store")]
    assert error.kind == "races" and error.site[1] in lines
    assert all(f"{__file__}:{line}\n" in str(error) for line in lines)
    assert "of argument 'x', which has 1024 elements of float32" in str(error)


def test_races_beside_ordering_operations() -> None:
    x, lock = ones(64, dtype=torch.int32), torch.zeros(1, device="cuda", dtype=torch.int32)
    error = failing(lambda: ticket_is_no_lock[(8,)](x, lock, 64, **RACES), "race: store")
    assert error.site[1] == line_of(ticket_is_no_lock, "tl.store")
    lock.zero_()
    x.zero_()
    for grid in (32, 600):
        x.zero_()
        in_turn[(grid,)](x, lock, **RACES)
        assert int(x[0]) == grid


@pytest.mark.parametrize("how", ["cas", "load", "poll"])
def test_a_location_that_is_handed_from_one_to_the_next(how: str) -> None:
    x, flags = (torch.zeros(n, device="cuda", dtype=torch.int32) for n in (1, 64))
    handed_down[(64,)](x, flags, "acq_rel" if how == "cas" else "release", how, **RACES)
    assert int(x[0]) == 64 * 63 // 2
    flags.zero_()
    failing(lambda: handed_down[(64,)](x, flags, "relaxed", how, **RACES), "race: ")


def test_a_location_that_two_locks_guard() -> None:
    x, locks = (torch.zeros(n, device="cuda", dtype=torch.int32) for n in (1, 2))
    counted_under_locks[(256,)](x, locks, 1, **RACES)
    assert int(x[0]) == 256
    locks.zero_()
    error = failing(lambda: counted_under_locks[(256,)](x, locks, 2, **RACES), "race: ")
    assert error.site[1] == line_of(counted_under_locks, "tl.store(x") and " beside " in str(error)


@pytest.mark.parametrize("awaited", [32, 31])
def test_a_program_waits_for_all_that_have_told_or_for_too_few(awaited: int) -> None:
    x, count = ones(32, dtype=torch.int32), torch.zeros(4, device="cuda", dtype=torch.int32)
    if awaited == 32:
        out = ones(1, dtype=torch.int32)
        last_of_some[(33,)](x, count, out, 32, awaited, **RACES)
        assert int(out[0]) == 32 * 31 // 2
    else:
        failing(lambda: last_of_some[(33,)](x, count, ones(1), 32, awaited, **RACES), "race: ")


@pytest.mark.parametrize(("above", "word"), [(0, "NaN"), (3, "infinity")])
def test_numbers_that_are_none(above: int, word: str) -> None:
    a, b, out = ones(1000) * 3, ones(1000) * 2, ones(1000)
    divided[(4,)](a, b, out, 1000, BLOCK=256, **FLOATS)  # masked lanes divide 0 by 0
    a[700], b[700] = above, 0
    error = failing(lambda: divided[(4,)](a, b, out, 1000, BLOCK=256, **FLOATS),
                    f"{word} stored in kernel 'divided', program \\(2, 0, 0\\)")  # fmt: skip
    ratio = line_of(divided, "ratio = ")
    assert f"first made at {__file__}:{ratio}\n    ratio = " in str(error)


def test_a_nan_of_an_infinity() -> None:
    error = failing(lambda: overflowed[(1,)](ones(64), ones(64), 64, **FLOATS), "NaN stored")
    first, then = (line_of(overflowed, text) for text in ("big * 0.5", "big = "))
    assert f"first made at {__file__}:{first}\n" in str(error)
    assert f"of an infinity, first made at {__file__}:{then}\n" in str(error)


def test_memory_that_was_never_written() -> None:
    from tritium.sanitize.allocations import new_arrays_filled

    mode = {"instrumentation_mode": "unwritten"}
    with new_arrays_filled():
        x, out = torch.empty(64, device="cuda"), torch.zeros(1, device="cuda")
        error = failing(lambda: summed[(1,)](x, out, 64, **mode),
                        "load of memory that was never written in kernel 'summed'")  # fmt: skip
        assert error.site[1] == line_of(summed, "tl.load")
        summed[(1,)](x.fill_(1), out, 64, **mode)


def test_a_checked_kernel_gives_what_one_without_checks_gives() -> None:
    x = torch.randn(1000, device="cuda")
    found = []
    for mode in ("", "bounds", "races", "fp", "bounds,races,fp"):
        out = torch.zeros(1024, device="cuda")
        options = {"instrumentation_mode": mode} if mode else {}
        shifted[(4,)](x, out, 1000, 0, BLOCK=256, **options)
        found.append(out)
    assert all(torch.equal(found[0], other) for other in found[1:])
