"""The order that programs make for themselves by atomic operations, as clocks keep it."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tests.sanitize.test_races import line_of
from tritium.backends.interpreter.interpret import InterpretedKernel
from tritium.sanitize import shadow
from tritium.sanitize.launch import SanitizerError

pytestmark = pytest.mark.cpu

MODE = {"instrumentation_mode": "races"}


@tritium.jit
def counted_under_locks(x, locks, LOCKS: tl.constexpr):
    lock = locks + tl.program_id(0) % LOCKS
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(x, tl.load(x) + 1)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@tritium.jit
def handed_down(x, flags, SEM: tl.constexpr, HOW: tl.constexpr):
    p = tl.program_id(0)
    LOOK: tl.constexpr = "relaxed" if SEM == "relaxed" else "acquire"
    if p > 0:
        if HOW == "poll":
            tl.atomic_poll(flags + p - 1, 1, sem=LOOK)
        elif HOW == "load":
            while tl.atomic_load(flags + p - 1, sem=LOOK) == 0:
                pass
        else:
            while tl.atomic_cas(flags + p - 1, 1, 1, sem=SEM) == 0:
                pass
    tl.store(x, tl.load(x) + p)
    tl.debug_barrier()
    tl.atomic_xchg(flags + p, 1, sem=SEM)


@tritium.jit
def told_too_early(x, flag):
    if tl.program_id(0) == 0:
        tl.store(x, 1)
        tl.atomic_xchg(flag, 1)
        tl.store(x, 2)
        tl.atomic_xchg(flag + 1, 1)
    else:
        while tl.atomic_cas(flag, 1, 1) == 0:
            pass
        tl.store(x + 1, tl.load(x))


@tritium.jit
def last_of_some(x, count, out, N: tl.constexpr, AWAITED: tl.constexpr):
    """Each program but the last tells the last one by a tile of counters."""
    p, i = tl.program_id(0), tl.arange(0, 4)
    if p < N:
        tl.store(x + p, p)
        tl.debug_barrier()
        if p < AWAITED:
            tl.atomic_add(count + i, 1)
    else:
        while tl.min(tl.atomic_add(count + i, 0)) < AWAITED:
            pass
        tl.store(out, tl.sum(tl.load(x + tl.arange(0, N))))


@tritium.jit
def set_back(count, AT: tl.constexpr):
    if tl.atomic_add(count, 1) == AT:
        tl.store(count, 0)


@tritium.jit
def often(x, lock, TIMES: tl.constexpr):
    for _ in range(TIMES):
        while tl.atomic_cas(lock, 0, 1) == 1:
            pass
        tl.store(x, tl.load(x) + 1)
        tl.debug_barrier()
        tl.atomic_xchg(lock, 0)


def variants(kernel: Any) -> list[Any]:
    return [kernel, InterpretedKernel(kernel)]


def zeros(n: int = 1) -> np.ndarray:
    return np.zeros(n, np.int32)


def right(kernel: Any, programs: int, *arguments: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kernel[(programs,)](*arguments, **MODE)


def race(kernel: Any, programs: int, *arguments: Any) -> SanitizerError:
    with pytest.raises(SanitizerError, match=r"^race: ") as caught:
        kernel[(programs,)](*arguments, **MODE)
    assert "without order beside" in str(caught.value)
    return caught.value


@pytest.mark.parametrize("kernel", variants(counted_under_locks))
def test_a_location_that_two_locks_guard(kernel: Any) -> None:
    x = zeros()
    right(kernel, 8, x, zeros(2), 1)
    assert x[0] == 8
    error = race(kernel, 8, zeros(), zeros(2), 2)
    assert error.site[1] == line_of(counted_under_locks, "tl.store(x")


@pytest.mark.covering(1)
@pytest.mark.parametrize("how", ["cas", "load", "poll"])
@pytest.mark.parametrize("kernel", variants(handed_down))
def test_a_location_that_is_handed_from_one_to_the_next(kernel: Any, how: str) -> None:
    x = zeros()
    right(kernel, 6, x, zeros(6), "release" if how != "cas" else "acq_rel", how)
    assert x[0] == 15
    race(kernel, 6, zeros(), zeros(6), "relaxed", how)


@pytest.mark.parametrize("kernel", variants(told_too_early))
def test_what_follows_a_release_is_not_told(kernel: Any) -> None:
    error = race(kernel, 2, zeros(2), zeros(2))
    lines = {line_of(told_too_early, text) for text in ("tl.store(x, 2)", "tl.load(x)")}
    assert all(f":{line}\n" in str(error) for line in lines)


@pytest.mark.parametrize("kernel", variants(last_of_some))
def test_a_program_waits_for_all_that_have_told_or_for_too_few(kernel: Any) -> None:
    out = zeros()
    right(kernel, 5, zeros(4), zeros(4), out, 4, 4)
    assert out[0] == 6
    error = race(kernel, 5, zeros(4), zeros(4), out, 4, 3)
    assert "is index 3 of argument 'x'" in str(error)


@pytest.mark.parametrize("kernel", variants(set_back))
def test_a_plain_store_behind_all_atomic_operations_or_some(kernel: Any) -> None:
    count = zeros()
    right(kernel, 8, count, 7)
    assert count[0] == 0
    error = race(kernel, 8, count, 3)
    assert all(f":{line_of(set_back, text)}\n" in str(error) for text in ("tl.atomic", "tl.store"))


def test_more_programs_and_releases_than_clocks_tell_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs that share a lane, a slot or an epoch are never reported for that."""
    x, mode = zeros(), (zeros(2), 1)
    for lanes in (2, shadow.LANES):
        monkeypatch.setattr(shadow, "LANES", lanes)
        right(counted_under_locks, 600, x, *mode)
    right(often, 4, x, zeros(), shadow.LAST_EPOCH + 50)
    assert x[0] == 2 * 600 + 4 * (shadow.LAST_EPOCH + 50)
    monkeypatch.setattr(shadow, "SLOT_WORDS", 0)  # two slots
    right(counted_under_locks, 8, x, *mode)
    for lock in range(8):
        right(counted_under_locks, 8, x, zeros(9)[lock:], 1)


def test_a_grid_of_more_programs_than_words_name() -> None:
    with pytest.raises(NotImplementedError, match="races: 8589934592 programs; 4294967295 at most"):
        shadow.Shadow([], 4, (1 << 31, 4, 1))
