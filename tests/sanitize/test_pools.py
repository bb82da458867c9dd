"""Memory of pools in the search for races: it is watched without an argument that leads there, and
in write-once memory each byte is written once, before it is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tests.simt.backend import use
from tritium.backends.active import driver
from tritium.sanitize import extents
from tritium.sanitize.extents import Pooled
from tritium.sanitize.launch import SanitizerError
from tritium.sanitize.shadow import forget_allocations

pytestmark = pytest.mark.cpu

N, BLOCK = 256, 64


@pytest.fixture(params=["cpu", "simt", "interpreter"], autouse=True)
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TRITON_INSTRUMENTATION_MODE", "races")
    if request.param == "interpreter":
        monkeypatch.setenv("TRITON_INTERPRET", "1")
    before = driver.active
    if request.param == "simt":
        use(32)
    yield
    driver.set_active(before)


Put = Callable[..., np.ndarray]


@pytest.fixture
def put() -> Iterator[Put]:
    """Put arrays into a pool."""
    held: list[tuple[np.ndarray, Pooled]] = []

    def put(array: np.ndarray, write_once: bool = False) -> np.ndarray:
        begin = array.ctypes.data
        held.append((array, Pooled(begin, begin + array.nbytes, 1000 + len(held), write_once)))
        return array

    def live() -> list[Pooled]:
        return [pooled for _, pooled in held]

    extents.pools.append(live)
    yield put
    extents.pools.remove(live)
    forget_allocations()


def kernels() -> tuple[Any, ...]:
    """Kernels of the mode that the environment names: it is read when a kernel is made."""

    @tritium.jit
    def copy(x, out, n, step, BLOCK: tl.constexpr):
        i = tl.program_id(0) * step + tl.arange(0, BLOCK)
        v = tl.load(x + i, mask=i < n)
        tl.store(out + i, v, mask=i < n)

    @tritium.jit
    def through(table, n, step, BLOCK: tl.constexpr):
        x = tl.load(table).to(tl.pointer_type(tl.float32))
        i = tl.program_id(0) * step + tl.arange(0, BLOCK)
        tl.store(x + i, 1.0, mask=i < n)

    @tritium.jit
    def count(x):
        tl.atomic_add(x, 1)

    return copy, through, count


def failing(launch: Callable[[], Any], title: str) -> SanitizerError:
    with pytest.raises(SanitizerError, match=f"^{title} in kernel") as caught:
        launch()
    return caught.value


def test_memory_behind_a_table_of_pointers(put: Put) -> None:
    _, through, _ = kernels()
    x = np.zeros(N, np.float32)
    table = np.array([x.ctypes.data])
    through[(4,)](table, N, BLOCK - 1, BLOCK)  # nobody knows of x
    put(x)
    through[(4,)](table, N, BLOCK, BLOCK)
    error = failing(lambda: through[(4,)](table, N, BLOCK - 1, BLOCK), "race: store")
    place = error.address - x.ctypes.data
    assert place % 4 == 0 and place // 4 in (63, 126, 189)
    assert f"is byte {place} of an allocation of the pool, which has 1024 bytes" in str(error)


@pytest.mark.every(2)
@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.float32, np.float64])
def test_a_second_store_is_found_in_later_launches(put: Put, dtype: Any) -> None:
    copy, *_ = kernels()
    x = np.ones(N, dtype)
    out = put(np.zeros(N, dtype), write_once=True)
    copy[(2,)](x, out, 100, BLOCK, BLOCK)
    copy[(2,)](x[100:], out[100:], 56, BLOCK, BLOCK)
    assert (out[:156] == 1).all() and not out[156:].any()
    error = failing(lambda: copy[(1,)](x, out[155:], 2, BLOCK, BLOCK),
                    "second store to write-once memory")  # fmt: skip
    assert error.address == out[155:].ctypes.data and error.program == (0, 0, 0)
    assert "is index 0 of argument 'out'" in str(error)


def test_a_load_before_the_store(put: Put) -> None:
    copy, *_ = kernels()
    x = put(np.zeros(N, np.float32), write_once=True)
    out = np.zeros(N, np.float32)
    copy[(1,)](np.ones(N, np.float32), x, 10, BLOCK, BLOCK)
    copy[(1,)](x, out, 10, BLOCK, BLOCK)
    assert out.sum() == 10
    error = failing(lambda: copy[(1,)](x, out, 11, BLOCK, BLOCK),
                    "load of write-once memory that was not written before")  # fmt: skip
    assert error.address == x[10:].ctypes.data


def test_words_of_bits_meet_in_an_element(put: Put) -> None:
    """An element at an odd address has bits in two words."""
    copy, *_ = kernels()
    raw = put(np.zeros(N, np.uint8), write_once=True)
    values, place = np.ones(N, np.int64), raw[60 : 60 + 8 * 4].view(np.int64)
    copy[(1,)](values, place, 1, BLOCK, BLOCK)
    copy[(1,)](values, place[1:], 1, BLOCK, BLOCK)
    assert place.tolist() == [1, 1, 0, 0]
    for byte in (60, 63, 64, 75):
        launch = partial(copy[(1,)], values.view(np.uint8), raw[byte:], 1, BLOCK, BLOCK)
        failing(launch,
                "second store to write-once memory")  # fmt: skip
    copy[(1,)](values.view(np.uint8), raw[76:], 1, BLOCK, BLOCK)
    copy[(1,)](values.view(np.uint8), raw[59:], 1, BLOCK, BLOCK)


def test_atomic_operations_are_not_for_write_once_memory(put: Put) -> None:
    *_, count = kernels()
    x = np.zeros(4, np.int32)
    count[(4,)](put(x))
    assert x[0] == 4
    failing(lambda: count[(1,)](put(np.zeros(4, np.int32), write_once=True)),
            "atomic access in write-once memory")  # fmt: skip


def test_programs_that_store_to_the_same_place_are_a_race_first(put: Put) -> None:
    copy, *_ = kernels()
    out = put(np.zeros(N, np.float32), write_once=True)
    x = np.ones(N, np.float32)
    error = failing(lambda: copy[(2,)](x, out, N, BLOCK - 1, BLOCK), "race: store")
    assert "without order beside the store of program" in str(error)


def test_bits_are_those_of_one_allocation(put: Put) -> None:
    copy, *_ = kernels()
    x, out = np.ones(N, np.float32), np.zeros(N, np.float32)
    put(out, write_once=True)
    copy[(1,)](x, out, 8, BLOCK, BLOCK)
    forget_allocations()  # freed, and allocated again
    copy[(1,)](x, out, 8, BLOCK, BLOCK)
    failing(lambda: copy[(1,)](x, out, 8, BLOCK, BLOCK), "second store to write-once memory")
