"""Reads of memory that was allocated and never written: each planted one is an error."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tests.simt.backend import use
from tritium.backends.active import driver
from tritium.sanitize.allocations import new_arrays_filled
from tritium.sanitize.launch import SanitizerError

pytestmark = pytest.mark.cpu


@pytest.fixture(params=["cpu", "simt"], autouse=True)
def checked(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TRITON_INSTRUMENTATION_MODE", "unwritten")
    before = driver.active
    if request.param == "simt":
        use(32)
    with new_arrays_filled():
        yield
    driver.set_active(before)


@tritium.jit
def double(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n)
    tl.store(out + i, v * 2, mask=i < n)


@tritium.jit
def count(out):
    tl.atomic_add(out + tl.program_id(0), 1)


def failing(launch: Any) -> SanitizerError:
    with pytest.raises(SanitizerError, match=r"^load of memory that was never written") as caught:
        launch()
    assert caught.value.kind == "unwritten"
    return caught.value


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int32, np.uint64])
def test_part_of_an_array(dtype: Any) -> None:
    x, out = np.empty(300, dtype), np.empty((300,), dtype=dtype)
    x[:200] = np.arange(200)
    double[(2,)](x, out, 200, BLOCK=128)  # `out` is written, masked elements are not read
    assert np.array_equal(out[:200], x[:200] * 2)
    error = failing(lambda: double[(2,)](x, out, 201, BLOCK=128))
    first = double.fn.__code__.co_firstlineno
    assert (error.program, error.site) == ((1, 0, 0), (__file__, first + 3))
    assert error.address == x.ctypes.data + 200 * x.itemsize
    assert "is index 200 of argument 'x', which has 300 elements" in str(error)
    double[(2,)](np.zeros_like(x), out, 300, BLOCK=128)
    double[(2,)](out, out, 300, BLOCK=128)


def test_atomic_operations_on_what_was_not_set() -> None:
    counts = np.empty_like(np.zeros(4, np.int32))
    counts[:3] = 0
    count[(3,)](counts)
    assert list(counts[:3]) == [1, 1, 1]
    failing(lambda: count[(4,)](counts))


@tritium.jit
def padded(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n, other=0x7FF57FF5))  # the pattern


def test_masked_elements_are_not_read() -> None:
    x, out = np.ones(4, np.int32), np.zeros(8, np.int32)
    padded[(1,)](x, out, 4, BLOCK=8)
    assert out[7] == 0x7FF57FF5


def test_what_is_filled() -> None:
    original = np.empty
    assert np.isnan(np.empty((3, 5), order="F")).all()
    assert np.empty(0).size == 0 and np.empty(3, object)[0] is None
    assert bytes(np.empty(5, np.int8)[:4]) == b"\xf5\x7f\xf5\x7f"
    with new_arrays_filled():
        assert np.empty is not original
    assert np.empty is original


def test_torch() -> None:
    torch = pytest.importorskip("torch")
    x = torch.zeros(8)
    strided = torch.empty_strided((8,), (2,))
    for new in (torch.empty(8), torch.empty_like(x), x.new_empty(8), strided):
        assert new.isnan().all()
        failing(lambda: double[(1,)](new, x, 8, BLOCK=8))  # noqa: B023
    assert torch.empty(3, dtype=torch.bool).shape == (3,) and torch.empty(2, device="meta").is_meta


def test_tensors_without_memory() -> None:
    """Those of torch.func, and the fake ones of torch.compile."""
    torch = pytest.importorskip("torch")
    x = torch.ones(2, 3)
    sums = torch.func.vmap(lambda v: torch.empty_like(v).fill_(1) + v)
    assert (sums(x) == 2).all()
    fake = torch._subclasses.fake_tensor.FakeTensorMode().from_tensor(x)
    assert torch.empty_like(fake).shape == (2, 3)
