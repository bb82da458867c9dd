"""Races between programs of a grid: each planted one is an error that names both lines, and right
kernels run as they do without checks."""

from __future__ import annotations

import inspect
import re
from typing import Any

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tritium.backends.interpreter.interpret import InterpretedKernel
from tritium.ops.ttir.sanitize import Access
from tritium.sanitize.extents import Memory, memory_of
from tritium.sanitize.launch import SanitizerError
from tritium.sanitize.meetings import Noting, NotingShadow, Progress
from tritium.sanitize.shadow import ATOMIC, READS, Noted, Shadow

pytestmark = pytest.mark.cpu

N, BLOCK = 1024, 128


@pytest.fixture(autouse=True)
def checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INSTRUMENTATION_MODE", "races")


def line_of(kernel: Any, text: str) -> int:
    lines, start = inspect.getsourcelines(kernel.fn)
    return next(start + i for i, line in enumerate(lines) if text in line)


def failing(launch: Any) -> SanitizerError:
    with pytest.raises(SanitizerError, match=r"^race: ") as caught:
        launch()
    return caught.value


def numbers(n: int = N, dtype: Any = np.float32) -> np.ndarray:
    return np.arange(n).astype(dtype)


@tritium.jit
def copy(x, out, n, step, BLOCK: tl.constexpr):
    i = tl.program_id(0) * step + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n)
    tl.store(out + i, v, mask=i < n)


@tritium.jit
def shift(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i + 1, mask=i < n - 1)
    tl.store(x + i, v, mask=i < n - 1)


@tritium.jit
def total(x, out, BLOCK: tl.constexpr):
    v = tl.load(x + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    tl.store(out, tl.load(out) + tl.sum(v))


@tritium.jit
def atomic_total(x, out, BLOCK: tl.constexpr):
    v = tl.load(x + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    tl.atomic_add(out, tl.sum(v))


@tritium.jit
def atomic_and_plain(x, out, BLOCK: tl.constexpr):
    tl.atomic_add(out, 1)
    if tl.program_id(0) == 3:
        tl.store(x, tl.load(out))


def test_right_kernels_run_as_without_checks() -> None:
    for dtype in (np.float32, np.int8, np.float64, np.float16):
        x, out = numbers(dtype=dtype), np.zeros(N, dtype)
        kernel = copy[(N // BLOCK,)](x, out, N, BLOCK, BLOCK)
        assert np.array_equal(x, out) and "tt.race_check" in kernel.asm["tile"]
    copy[(N // BLOCK,)](x, x, N, BLOCK, BLOCK)  # each program its own elements
    one = np.zeros(1, np.float32)
    atomic_total[(N // BLOCK,)](numbers(), one, BLOCK)
    assert one[0] == N * (N - 1) / 2
    shift[(1,)](x, N, N)  # one program is in order with itself
    assert list(x[:4]) == [1, 2, 3, 4]


def test_two_programs_write_an_element() -> None:
    x, out = numbers(), np.zeros(N, np.float32)
    error = failing(lambda: copy[(2,)](x, out, N, BLOCK - 1, BLOCK))
    store = line_of(copy, "tl.store")
    assert (error.kind, error.site) == ("races", (__file__, store))
    assert error.address == out.ctypes.data + 4 * (BLOCK - 1)
    programs = {(0, 0, 0), (1, 0, 0)}
    (other,) = programs - {error.program}
    text = str(error)
    assert f"race: store in kernel 'copy', program {error.program}, at {__file__}:{store}" in text
    assert f"beside the store of program {other}, at {__file__}:{store}" in text
    assert text.count("tl.store(out + i, v, mask=i < n)") == 2
    assert f"is index {BLOCK - 1} of argument 'out', which has 1024 elements of float32" in text


def test_a_program_reads_what_another_writes() -> None:
    error = failing(lambda: shift[(N // BLOCK,)](numbers(), N, BLOCK))
    load, store = line_of(shift, "tl.load"), line_of(shift, "tl.store")
    assert error.site[1] in (load, store)
    assert f":{load}\n" in str(error) and f":{store}\n" in str(error)
    failing(lambda: total[(N // BLOCK,)](numbers(), np.zeros(1, np.float32), BLOCK))


def test_arguments_in_the_same_memory() -> None:
    x = numbers(2 * N)
    copy[(N // BLOCK,)](x, x[N:], N, BLOCK, BLOCK)
    error = failing(lambda: copy[(N // BLOCK,)](x, x[BLOCK:], N, BLOCK, BLOCK))
    assert "of argument 'x'" in str(error) and "of argument 'out'" in str(error)


def test_atomic_and_plain_accesses() -> None:
    x, out = np.zeros(1, np.int32), np.zeros(1, np.int32)
    error = failing(lambda: atomic_and_plain[(4,)](x, out, BLOCK))
    assert "atomic access" in str(error) and "load" in str(error)
    assert f":{line_of(atomic_and_plain, 'tl.atomic_add')}\n" in str(error)


@tritium.jit
def atomic_then_plain(x, FIRST: tl.constexpr):
    tl.atomic_add(x, 1, sem="relaxed")
    if tl.program_id(0) == FIRST:
        tl.store(x, 5)


@pytest.mark.parametrize("first", [0, 3])
def test_a_plain_store_behind_an_atomic_operation(
    first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_CPU_THREADS", "1")  # the first program is over before the others
    error = failing(lambda: atomic_then_plain[(4,)](np.zeros(1, np.int32), first))
    lines = [line_of(atomic_then_plain, text) for text in ("tl.atomic_add", "tl.store")]
    assert all(f":{line}\n" in str(error) for line in lines)


@tritium.jit
def looked_at(x, out, PLAIN: tl.constexpr, HOW: tl.constexpr):
    pid = tl.program_id(0)
    if pid == PLAIN:
        if HOW == "load":
            tl.store(out + pid, tl.load(x))
        elif HOW != "nothing":
            tl.store(x, 5)
    elif HOW == "load" and pid == 2:
        tl.atomic_store(x, 3, sem="relaxed")
    elif HOW == "poll":
        tl.atomic_poll(x, 0, sem="relaxed", timeout_ns=1)
    else:
        tl.store(out + pid, tl.atomic_load(x, sem="relaxed"))


@pytest.mark.covering(1)
@pytest.mark.parametrize("interpreted", [False, True])
@pytest.mark.parametrize("plain", [0, 1, 3])
def test_plain_accesses_beside_atomic_loads(
    plain: int, interpreted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Program 0 comes first, 3 last."""
    monkeypatch.setenv("TRITON_CPU_THREADS", "1")
    kernel = InterpretedKernel(looked_at) if interpreted else looked_at

    def launch(how: str) -> None:
        arguments = np.zeros(1, np.int32), np.zeros(4, np.int32), plain, how
        kernel[(4,)](*arguments, instrumentation_mode="races")

    others = {"store": "tl.atomic_load", "load": "tl.atomic_store", "poll": "tl.atomic_poll"}
    for how, atomic in others.items():
        error = str(failing(lambda how=how: launch(how)))
        own = "tl.load(x)" if how == "load" else "tl.store(x, 5)"
        assert all(f":{line_of(looked_at, text)}\n" in error for text in (own, atomic))
    launch("nothing")


@tritium.jit
def counted_by_one(x, SCOPE: tl.constexpr):
    tl.atomic_add(x, 1, scope=SCOPE)


@pytest.mark.parametrize("interpreted", [False, True])
def test_what_is_atomic_for_one_program_is_not_for_two(interpreted: bool) -> None:
    kernel = InterpretedKernel(counted_by_one) if interpreted else counted_by_one
    mode = {"instrumentation_mode": "races"}
    kernel[(4,)](np.zeros(1, np.int32), "gpu", **mode)
    kernel[(1,)](np.zeros(1, np.int32), "cta", **mode)
    error = failing(lambda: kernel[(4,)](np.zeros(1, np.int32), "cta", **mode))
    assert 'race: atomic access of scope "cta" in kernel' in str(error)
    assert 'beside the atomic access of scope "cta" of program' in str(error)


@tritium.jit
def sums_are_no_release(x, sums, ticket):
    rows = tl.make_tensor_descriptor(sums, [4, 8], [8, 1], [1, 8])
    if tl.program_id(0) == 0:
        tl.store(x, 5)
        rows.atomic_add([0, 0], tl.full([1, 8], 1, tl.int32))
    elif tl.atomic_add(ticket, 1) == 0:
        tl.store(x, 6)


@pytest.mark.parametrize("interpreted", [False, True])
def test_sums_through_descriptors_order_nothing(interpreted: bool) -> None:
    kernel = InterpretedKernel(sums_are_no_release) if interpreted else sums_are_no_release
    one, sums = np.zeros(1, np.int32), np.zeros((4, 8), np.int32)
    error = failing(
        lambda: kernel[(2,)](one, sums, one.copy(), instrumentation_mode="races")
    )
    assert error.site[1] in (line_of(sums_are_no_release, f"tl.store(x, {n})") for n in (5, 6))


@tritium.jit
def barrier_is_no_release(x, ticket, BLOCK: tl.constexpr):
    n = tl.atomic_add(ticket, 1)
    tl.store(x + tl.arange(0, BLOCK), n)
    tl.debug_barrier()


@tritium.jit
def wide_and_narrow(x, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    if pid == 0:
        tl.store(x.to(tl.pointer_type(tl.int64)) + tl.arange(0, BLOCK), 0)
    else:
        tl.store(x + 8 * BLOCK - pid, 1)


def test_accesses_of_different_sizes() -> None:
    x = np.zeros(16 * BLOCK, np.int8)
    wide_and_narrow[(1,)](x, BLOCK)
    error = failing(lambda: wide_and_narrow[(2,)](x, BLOCK))
    assert 0 <= error.address - x.ctypes.data < 8 * BLOCK


@tritium.jit
def word_and_byte(words, x, BYTE_FIRST: tl.constexpr):
    if (tl.program_id(0) == 0) == BYTE_FIRST:
        tl.store(x + 3, 1)
    else:
        tl.store(words, 7)


@pytest.mark.parametrize("byte_first", [False, True])
@pytest.mark.parametrize("interpreted", [False, True])
def test_a_byte_within_a_word_is_named(
    byte_first: bool, interpreted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1" if interpreted else "0")
    kernel, x = tritium.jit(word_and_byte.fn), np.zeros(8, np.int8)
    error = failing(lambda: kernel[(2,)](x.view(np.int32), x, byte_first))
    lines = [line_of(word_and_byte, f"tl.store({name}") for name in ("x", "words")]
    assert sorted(int(n) for n in re.findall(r"test_races.py:(\d+)", str(error))) == lines


@tritium.jit
def rows(x, out, M: tl.constexpr, K: tl.constexpr, WRITE_ALL: tl.constexpr):
    pid = tl.program_id(0) + tl.num_programs(0) * tl.program_id(1)
    source = tl.make_block_ptr(x, (M, K), (K, 1), (0, 0), (M, K), (1, 0))
    v = tl.sum(tl.load(source), 1)
    i = tl.arange(0, M)
    tl.store(out + i, v, mask=(i == pid) | WRITE_ALL)


def test_all_programs_read_and_masks_separate_what_they_write() -> None:
    x, out = numbers(64).reshape(8, 8), np.zeros(8, np.float32)
    rows[(4, 2)](x, out, 8, 8, False)
    assert np.array_equal(out, x.sum(1))
    error = failing(lambda: rows[(4, 2)](x, out, 8, 8, True))
    assert error.site[1] == line_of(rows, "tl.store")


@tritium.jit
def in_turn(x, lock):
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(x, tl.load(x) + 1)
    tl.atomic_xchg(lock, 0)


@tritium.jit
def relaxed_ticket(x, out):
    ticket = tl.atomic_add(x, 1, sem="relaxed")
    tl.store(out, ticket)


@tritium.jit
def after_the_lock(x, lock):
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(x, tl.load(x) + 1)
    tl.atomic_xchg(lock, 0)
    tl.store(x + 1, tl.program_id(0))


@tritium.jit
def ticket_is_no_lock(x, ticket, BLOCK: tl.constexpr):
    n = tl.atomic_add(ticket, 1)
    tl.store(x + tl.arange(0, BLOCK), n)


@tritium.jit
def last_adds_up(x, ticket, out, N: tl.constexpr, TOO_EARLY: tl.constexpr):
    pid = tl.program_id(0)
    if TOO_EARLY:
        n = tl.atomic_add(ticket, 1)
        tl.store(x + pid, pid)
    else:
        tl.store(x + pid, pid)
        n = tl.atomic_add(ticket, 1)
    if n == N - 1:
        tl.store(out, tl.sum(tl.load(x + tl.arange(0, N))))
        tl.store(ticket, 0)


@tritium.jit
def waits(x, flag):
    if tl.program_id(0) == 0:
        tl.store(x, 7)
        tl.store(flag, 1)
    else:
        while tl.load(flag, volatile=True) == 0:
            pass
        tl.store(x + tl.program_id(0), tl.load(x))


def test_programs_that_order_their_accesses_are_right() -> None:
    x, lock = np.zeros(8, np.int32), np.zeros(1, np.int32)
    in_turn[(8,)](x, lock)
    assert x[0] == 8
    last_adds_up[(8,)](x, lock, x[:1].copy(), 8, False)
    with pytest.warns(UserWarning, match="'waits' may order themselves by the load at"):
        waits[(4,)](np.zeros(8, np.int32), lock)
    failing(lambda: relaxed_ticket[(8,)](np.zeros(1, np.int32), x))


def test_what_ordering_operations_do_not_order() -> None:
    x, lock = np.zeros(8, np.int32), np.zeros(1, np.int32)
    error = failing(lambda: after_the_lock[(8,)](x, lock))
    store = line_of(after_the_lock, "tl.store(x + 1")
    assert error.site[1] == store and str(error).count(f":{store}\n") == 2
    error = failing(lambda: ticket_is_no_lock[(8,)](x, lock, 8))
    assert error.site[1] == line_of(ticket_is_no_lock, "tl.store")
    error = failing(lambda: barrier_is_no_release[(8,)](x, lock, 8))
    assert error.site[1] == line_of(barrier_is_no_release, "tl.store")
    error = failing(lambda: last_adds_up[(8,)](x, np.zeros(1, np.int32), x[:1].copy(), 8, True))
    lines = [line_of(last_adds_up, f"tl.store({text}") for text in ("x + pid", "out")]
    assert all(f":{line}\n" in str(error) for line in lines)


def test_both_checks() -> None:
    x, out = numbers(), np.zeros(N, np.float32)
    mode = {"instrumentation_mode": "bounds,races"}
    copy[(N // BLOCK,)](x, out, N, BLOCK, BLOCK, **mode)
    assert np.array_equal(x, out)
    failing(lambda: copy[(N // BLOCK,)](x, out, N, 1, BLOCK, **mode))
    with pytest.raises(SanitizerError, match="store out of bounds"):
        copy[(N // BLOCK,)](numbers(2 * N), out, 2 * N, N, BLOCK, **mode)


def test_words_of_more_memory_than_there_is() -> None:
    def shadow(size: int) -> Shadow:
        return Shadow([Memory(1 << 46, (1 << 46) + size, 1 << 46, "")], 4, (2,))

    words = shadow(1 << 40)._words[0]
    words[-1, 0] = words[1 << 37, 3] = 5
    assert words[-1].tolist() == [5, 0, 0, 0] and words[1 << 37].tolist() == [0, 0, 0, 5]
    with pytest.raises(MemoryError, match=r"races: the notes .* take 536870912 GiB"):
        shadow(1 << 56)


def test_shadow_names_the_other_program() -> None:
    x = np.zeros(8, np.float32)
    shadow = Shadow([memory_of(x), memory_of(x[2:])], 4, (2, 3, 4))
    words = shadow._words[0]
    number = 1 + 2 * (2 + 3 * 3) + 1  # program (1, 2, 3)
    words[5, 0] = ATOMIC | number << 16 | 7
    words[5, READS] = 9 << 16 | 2
    at = x.ctypes.data + 4 * 5 + 3
    assert len(shadow._words) == 1
    assert shadow.other(at, (0, 0, 0)) == Noted((1, 2, 3), 7)
    assert shadow.other(at, (1, 2, 3)) == Noted((0, 1, 1), 2)
    assert shadow.other(x.ctypes.data, (0, 0, 0)) is None
    assert shadow.other(0, (0, 0, 0)) is None


@tritium.jit
def handed_on(x, flag, out, READS: tl.constexpr):
    p = tl.program_id(0)
    if p == 0:
        tl.store(x, 1.0)
        tl.atomic_xchg(flag, 1, sem="release")
    else:
        while tl.atomic_cas(flag, 1, 1, sem="acquire") == 0:
            pass
        if READS:
            if p == 1:
                tl.store(x, 2.0)
            else:
                tl.store(out, tl.load(x))
        else:
            tl.store(x, 3.0)


@pytest.mark.parametrize("interpreted", [False, True])
@pytest.mark.parametrize(("reads", "line"), [(False, "tl.store(x, 3.0)"), (True, "tl.load(x))")])
def test_an_access_that_is_ordered_hides_none_that_is_not(
    reads: bool, line: str, interpreted: bool
) -> None:
    """The first store, of program 0, is ordered beside both of the others."""
    kernel = InterpretedKernel(handed_on) if interpreted else handed_on

    def launch(programs: int) -> None:
        kernel[(programs,)](numbers(2), np.zeros(1, np.int32), numbers(2), reads,
                            instrumentation_mode="races")  # fmt: skip

    launch(2)
    error = failing(lambda: launch(3))
    assert error.program in ((1, 0, 0), (2, 0, 0)) and "program (0, 0, 0)" not in str(error)
    assert f":{line_of(handed_on, line)}\n" in str(error)


@pytest.mark.parametrize("orders", [1, 2])
def test_a_second_atomic_access_is_noted(orders: int) -> None:
    x = np.zeros(8, np.float32)
    shadow = NotingShadow([memory_of(x)], 4, (2, 1, 1), orders=orders)
    at = np.array([x.ctypes.data + 8], np.uint64)
    for program in range(2):
        noting = Noting(Access.ATOMIC_WRITE, 4, program)
        assert not shadow.note(noting, Progress(program + 1), at)
    found = shadow.note(Noting(Access.WRITE, 4, 2), Progress(1), at)
    assert [divmod(word, 1 << 16) for word in found] == [(2, 1)]  # program 1, check 1
    assert shadow.other(int(at[0]), (0, 0, 0)) == Noted((1, 0, 0), 1)
    assert shadow.other(int(at[0]), (0, 0, 0), atomic=True) is None
