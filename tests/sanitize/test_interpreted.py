"""The interpreter gives the reports of compiled kernels, word for word."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tests.gluon import hopper_programs, partition_programs
from tests.gluon.support import launcher
from tests.sanitize import test_races
from tritium.backends.interpreter.interpret import InterpretedKernel
from tritium.sanitize.allocations import new_arrays_filled
from tritium.sanitize.launch import SanitizerError

pytestmark = pytest.mark.cpu


@tritium.jit
def inner(p, mask):
    return tl.load(p, mask=mask)


@tritium.jit(do_not_specialize=["n", "by"])
def shifted(x, out, n, by, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = inner(x + i + by, i < n)
    tl.store(out + i, v * 2, mask=i < n)


@tritium.jit
def described(x, out, rows, columns, start):
    desc = tl.make_tensor_descriptor(x, [rows, columns], [columns, 1], [4, 8])
    to = tl.make_tensor_descriptor(out, [rows, columns], [columns, 1], [4, 8])
    to.store([0, 0], desc.load([start, 0]))


@tritium.jit(do_not_specialize=["by"])
def counted(x, out, by):
    tl.atomic_add(out + by, tl.load(x))


@tritium.jit
def swapped(out, by):
    tl.atomic_cas(out + by, 0, 1)


@tritium.jit(do_not_specialize=["n"])
def divided(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a, b = tl.load(x + i, mask=i < n), tl.load(y + i, mask=i < n)
    ratio = a / b
    kept = tl.where(b > -5, ratio, 0.0)
    tl.store(out + i, kept + 1, mask=i < n)


@tritium.jit
def summed(x, out, BLOCK: tl.constexpr):
    v = tl.sum(tl.load(x + tl.arange(0, BLOCK)))
    tl.atomic_add(out, v)


@tritium.jit
def overflowed(x, out, BLOCK: tl.constexpr):
    big = tl.exp(tl.load(x + tl.arange(0, BLOCK)) * 100)
    tl.store(out + tl.arange(0, BLOCK), big * 0.5 - big)


def ones(n: int, **places: float) -> np.ndarray:
    made = np.ones(n, np.float32)
    for place, value in places.items():
        made[int(place[1:])] = value
    return made


def tile(rows: int) -> np.ndarray:
    return np.ones((rows, 8), np.float32)


X, OUT = np.ones(300, np.float32), np.zeros(512, np.float32)
LOADED = np.ones(512, np.float32)[100:400]
FEW = np.zeros(4, np.int32)
CASES: dict[str, tuple[str, Any, int, tuple[Any, ...], dict[str, Any]]] = {
    "a load behind": ("bounds", shifted, 3, (X, OUT, 300, 1), {"BLOCK": 128}),
    "a load before": ("bounds", shifted, 3, (X, OUT, 300, -5), {"BLOCK": 128}),
    "a store behind": ("bounds", shifted, 3, (np.ones(512, np.float32), X, 512, 0),
                       {"BLOCK": 128}),
    "a slice": ("bounds", shifted, 3, (LOADED, OUT, 300, 200), {"BLOCK": 128}),
    "a descriptor that says too much": ("bounds", described, 1, (tile(4), tile(8), 8, 8, 2), {}),
    "an atomic sum": ("bounds", counted, 1, (np.ones(1, np.int32), FEW, 4), {}),
    "a compare-and-swap": ("bounds", swapped, 1, (FEW, -1), {}),
    "a NaN": ("fp", divided, 3, (ones(300, _170=0), ones(300, _170=0), OUT, 300),
              {"BLOCK": 128}),
    "an infinity": ("fp", divided, 3, (X, ones(300, _40=0), OUT, 300), {"BLOCK": 128}),
    "both": ("fp", divided, 1, (ones(128, _9=0), ones(128, _9=0, _8=0), OUT, 128),
             {"BLOCK": 128}),
    "a NaN that was loaded": ("fp", divided, 3, (ones(300, _2=np.nan), X, OUT, 300),
                              {"BLOCK": 128}),
    "a sum that is too large": ("fp", summed, 1, (ones(64, _3=3e38, _4=3e38), OUT),
                                {"BLOCK": 64}),
    "a NaN of an infinity": ("fp", overflowed, 1, (X, OUT), {"BLOCK": 64}),
    "a NaN of an infinity that was loaded": ("fp", overflowed, 1, (ones(64, _5=np.inf), OUT),
                                             {"BLOCK": 64}),
}  # fmt: skip


def report(launch: Callable[[], Any]) -> SanitizerError:
    with pytest.raises(SanitizerError) as caught:
        launch()
    return caught.value


def same(checks: str, kernel: Any, grid: int, arguments: Any, constants: Any) -> SanitizerError:
    """The report that both give."""
    options = {"instrumentation_mode": checks, **constants}
    compiled = report(lambda: kernel[(grid,)](*arguments, **options))
    interpreted = report(lambda: InterpretedKernel(kernel)[(grid,)](*arguments, **options))
    assert str(interpreted) == str(compiled)
    for name in ("kind", "site", "program", "address"):
        assert getattr(interpreted, name) == getattr(compiled, name)
    return interpreted


@pytest.mark.parametrize("case", CASES)
def test_reports_are_those_of_compiled_kernels(case: str):
    checks, *rest = CASES[case]
    assert same(checks, *rest).kind == checks


def test_reads_of_what_was_never_written():
    with new_arrays_filled():
        x, counts = np.empty(300, np.float32), [np.empty(4, np.int32) for _ in range(2)]
    x[:200] = 1
    found = same("unwritten", shifted, 3, (x, OUT, 300, 0), {"BLOCK": 128})
    assert found.address == x.ctypes.data + 4 * 255
    for kernel, out in zip((counted, InterpretedKernel(counted)), counts, strict=True):
        error = report(lambda k=kernel, o=out: k[(1,)](
            np.ones(1, np.int32), o, 2, instrumentation_mode="bounds,unwritten"))  # fmt: skip
        assert error.address == out.ctypes.data + 8 and "load of memory that" in str(error)
    x[:] = 1
    for kernel in (shifted, InterpretedKernel(shifted)):
        kernel[(3,)](x, OUT, 300, 0, BLOCK=128, instrumentation_mode="unwritten")


def test_right_programs_run_as_without_checks():
    x, out, words = ones(300, _7=5), np.zeros(512, np.float32), "bounds,races,fp"
    InterpretedKernel(shifted)[(3,)](x, out, 300, 0, BLOCK=128, instrumentation_mode=words)
    assert np.array_equal(out[:300], x * 2) and not out[300:].any()
    inner, to = np.arange(64, dtype=np.float32).reshape(8, 8), tile(4)
    InterpretedKernel(described)[(1,)](inner, to, 4, 8, 0, instrumentation_mode=words)
    assert np.array_equal(to, inner[:4])


@tritium.jit
def moved(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i + 1, mask=i < n)
    tl.store(x + i, v, mask=i < n)


@tritium.jit
def written(x, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, tl.program_id(0), mask=i < n)


@tritium.jit
def bytes_of_words(x, BLOCK: tl.constexpr):
    p = x.to(tl.pointer_type(tl.int8))
    tl.store(p + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), 1)


@tritium.jit
def total(x, out, RELAXED: tl.constexpr, PLAIN: tl.constexpr):
    if RELAXED:
        tl.atomic_add(out, tl.load(x), sem="relaxed")
    else:
        tl.atomic_add(out, tl.load(x))
    if PLAIN:
        tl.store(x + 8 + tl.program_id(0), tl.load(out))


@tritium.jit
def locked(lock, count):
    while tl.atomic_xchg(lock, 1):
        pass
    tl.store(count, tl.load(count) + 1)
    tl.atomic_xchg(lock, 0, sem="release")


def race(kernel: Any, grid: int, *arguments: Any, **constants: Any) -> str:
    return str(report(lambda: InterpretedKernel(kernel)[(grid,)](
        *arguments, **constants, instrumentation_mode="races")))  # fmt: skip


def test_races_between_programs():
    x = np.zeros(512, np.int32)
    first = moved.fn.__code__.co_firstlineno
    message = race(moved, 4, x, 511, BLOCK=128)
    assert f"race: store in kernel 'moved', program (1, 0, 0), at {__file__}:{first + 4}" in message
    assert f"beside the load of program (0, 0, 0), at {__file__}:{first + 3}" in message
    assert "is index 128 of argument 'x', which has 512 elements of int32" in message
    message = race(written, 3, x, 100, BLOCK=128)
    assert "beside the store of program (0, 0, 0)" in message and "is index 0 of" in message
    message = race(total, 4, x, x[300:], RELAXED=True, PLAIN=True)
    assert "race: atomic access in kernel 'total', program (1, 0, 0)" in message
    message = race(test_races.atomic_then_plain, 4, x, FIRST=0)
    assert message.startswith("race: atomic access in")
    assert "beside the store of program (0, 0, 0)" in message


@tritium.jit
def float_total(out, x, LOOKED_AT: tl.constexpr):
    tl.store(x + tl.program_id(0), 2.0)
    old = tl.atomic_add(out, 1.0)
    if not LOOKED_AT or old == 1:
        tl.store(out + 1, tl.load(x))


def test_an_order_is_made_by_looking_at_a_result_alone():
    out, x, mode = np.zeros(2, np.float32), np.zeros(2, np.float32), "races,fp"
    with pytest.raises(SanitizerError, match=r"^race: load"):
        InterpretedKernel(float_total)[(2,)](out, x, LOOKED_AT=False, instrumentation_mode=mode)
    out[0] = 0
    InterpretedKernel(float_total)[(2,)](out, x, LOOKED_AT=True, instrumentation_mode=mode)


@pytest.mark.parametrize(("kernel", "text"), [
    (test_races.after_the_lock, "tl.store(x + 1"), (test_races.ticket_is_no_lock, "tl.store(x +"),
    (test_races.barrier_is_no_release, "tl.store(x +"),
])  # fmt: skip
def test_what_ordering_operations_do_not_order(kernel: Any, text: str):
    more = {} if kernel is test_races.after_the_lock else {"BLOCK": 8}
    message = race(kernel, 8, np.zeros(8, np.int32), np.zeros(1, np.int32), **more)
    line = test_races.line_of(kernel, text)
    assert message.startswith("race: store in") and message.count(f":{line}\n") == 2


def test_programs_that_do_not_meet_or_have_an_order():
    x, out, options = np.zeros(512, np.int32), np.ones(1, np.int32), {"BLOCK": 128}
    mode = {"instrumentation_mode": "races"}
    InterpretedKernel(moved)[(1,)](x, 100, **options, **mode)
    InterpretedKernel(bytes_of_words)[(16,)](x, **options, **mode)
    assert (x == 0x01010101).all()
    for relaxed in (True, False):
        InterpretedKernel(total)[(4,)](out, x, RELAXED=relaxed, PLAIN=False, **mode)
    InterpretedKernel(locked)[(4,)](np.zeros(1, np.int32), out, **mode)
    assert out[0] == 5


def test_pointers_from_a_table_are_not_checked():
    @tritium.jit
    def through(table, out):
        p = tl.load(table).to(tl.pointer_type(tl.float32))
        tl.store(out, tl.load(p + 1))

    two, out = np.array([1, 2], np.float32), np.zeros(1, np.float32)
    table = np.array([two.ctypes.data], np.int64)
    InterpretedKernel(through)[(1,)](table, out, instrumentation_mode="bounds")
    assert out[0] == 2


def test_the_setting_holds_for_the_interpreter(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TRITON_INSTRUMENTATION_MODE", "fp")
    with pytest.raises(SanitizerError, match="infinity stored"):
        InterpretedKernel(divided)[(1,)](X, ones(300, _40=0), OUT, 300, BLOCK=128)
    with pytest.raises(ValueError, match="nothing is none of bounds"):
        InterpretedKernel(divided)[(1,)](X, X, OUT, 1, BLOCK=128, instrumentation_mode="nothing")


@pytest.mark.every(2)
@pytest.mark.parametrize("name", ["matmul", "two_consumers"])
def test_asynchronous_products_are_no_fault(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TRITON_INSTRUMENTATION_MODE", "bounds,races,fp")
    {**hopper_programs.PROGRAMS, **partition_programs.PROGRAMS}[name](launcher("interpreted"))
