"""NaN and infinity that are stored: the error names the store, and where the number was made."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tritium
import tritium.language as tl
from tritium.sanitize.extents import Copy
from tritium.sanitize.floats import origin
from tritium.sanitize.kinds import NAN
from tritium.sanitize.launch import SanitizerError

pytestmark = pytest.mark.cpu


@pytest.fixture(autouse=True)
def checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INSTRUMENTATION_MODE", "fp")


@tritium.jit
def divide(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a, b = tl.load(x + i, mask=i < n), tl.load(y + i, mask=i < n)
    ratio = a / b
    tl.store(out + i, ratio * 2, mask=i < n)


def failing(launch: Any) -> SanitizerError:
    with pytest.raises(SanitizerError) as caught:
        launch()
    return caught.value


def line(kernel: Any, offset: int) -> int:
    return kernel.fn.__code__.co_firstlineno + offset


def test_masked_lanes_may_hold_anything():
    x, out = np.ones(50, np.float32), np.zeros(50, np.float32)
    divide[(1,)](x, x, out, 50, BLOCK=64)  # 0 / 0 in the other lanes
    assert (out == 2).all()


@pytest.mark.parametrize(("a", "b", "word"), [(0, 0, "NaN"), (1, 0, "infinity")])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_the_first_one_stored_is_an_error_and_its_origin_is_named(
    a: int, b: int, word: str, dtype: Any
):
    x, y, out = (np.ones(300, dtype) for _ in range(3))
    x[170], y[170] = a, b
    error = failing(lambda: divide[(3,)](x, y, out, 300, BLOCK=128))
    assert error.kind == "fp" and error.program == (1, 0, 0)
    assert error.site == (__file__, line(divide, 5))
    message = str(error)
    assert f"{word} stored in kernel 'divide', program (1, 0, 0)" in message
    assert f"first made at {__file__}:{line(divide, 4)}\n    ratio = a / b" in message


def test_numbers_that_were_loaded():
    x, out = np.ones(64, np.float32), np.zeros(64, np.float32)
    x[3] = np.nan
    message = str(failing(lambda: divide[(1,)](x, np.ones(64, np.float32), out, 64, BLOCK=64)))
    assert f"first loaded at {__file__}:{line(divide, 3)}" in message


@tritium.jit
def overflow(x, out, BLOCK: tl.constexpr):
    v = tl.load(x + tl.arange(0, BLOCK))
    big = tl.exp(v * 100)
    scaled = big
    for _ in range(2):
        scaled = scaled * 0.5
    tl.store(out + tl.arange(0, BLOCK), scaled - scaled)


def test_a_nan_made_of_an_infinity_leads_to_the_infinity():
    x, out = np.ones(64, np.float32), np.zeros(64, np.float32)
    message = str(failing(lambda: overflow[(1,)](x, out, BLOCK=64)))
    assert message.endswith(
        f"  first made at {__file__}:{line(overflow, 7)}\n"
        "    tl.store(out + tl.arange(0, BLOCK), scaled - scaled)\n"
        f"  of an infinity, first made at {__file__}:{line(overflow, 3)}\n"
        "    big = tl.exp(v * 100)"
    )
    x[:] = np.inf
    message = str(failing(lambda: overflow[(1,)](x, out, BLOCK=64)))
    assert f"of an infinity, first loaded at {__file__}:{line(overflow, 2)}" in message
    x[:] = 0
    overflow[(1,)](x, out, BLOCK=64)


def test_replaced_ones_are_not_reported_and_products_are_seen_whole():
    @tritium.jit
    def softmax(x, out, n, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        row = tl.load(x + i, mask=i < n, other=-float("inf"))
        e = tl.exp(row - tl.max(row, axis=0))
        tl.store(out + i, e / tl.sum(e, axis=0), mask=i < n)

    @tritium.jit
    def product(a, b, out, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        at = i[:, None] * BLOCK + i[None, :]
        c = tl.dot(tl.load(a + at), tl.load(b + at))
        tl.store(out + at, c)

    x, out = np.ones(40, np.float32), np.zeros(40, np.float32)
    softmax[(1,)](x, out, 40, BLOCK=64)
    np.testing.assert_allclose(out, 1 / 40, rtol=1e-6)
    a = np.ones((16, 16), np.float32)
    product[(1,)](a, a, c := np.zeros_like(a), BLOCK=16)
    assert (c == 16).all()
    a[2, 3] = 3e38
    b = np.full_like(a, 20)
    error = failing(lambda: product[(1,)](a, b, c, BLOCK=16))
    assert "infinity stored" in str(error)
    assert f"{line(product, 4)}\n    c = tl.dot(" in str(error)


def test_both_modes_together():
    def run(x: np.ndarray, y: np.ndarray) -> None:
        divide[(1,)](x, y, out, 64, BLOCK=64, instrumentation_mode="bounds,fp")

    x, out = np.ones(64, np.float32), np.zeros(64, np.float32)
    run(x, x)
    assert "infinity stored" in str(failing(lambda: run(x, x * 0)))
    assert "out of bounds" in str(failing(lambda: run(x[:9].copy(), x)))


@tritium.jit
def copy(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i))


@pytest.mark.parametrize(("dtype", "number", "word"), [
    (ml_dtypes.float8_e5m2, np.nan, "NaN"), (ml_dtypes.float8_e5m2, -np.inf, "infinity"),
    (ml_dtypes.float8_e4m3fn, np.nan, "NaN"), (ml_dtypes.bfloat16, np.nan, "NaN"),
])  # fmt: skip
def test_8_bit_floats(dtype: Any, number: float, word: str):
    x = np.linspace(-400, 400, 32).astype(dtype)
    copy[(1,)](x, np.zeros_like(x), BLOCK=32)
    x[9] = number
    error = failing(lambda: copy[(1,)](x, np.zeros_like(x), BLOCK=32))
    assert f"{word} stored in kernel 'copy'" in str(error)


def test_the_origin_is_found_in_copies_of_a_devices_memory():
    kernel = divide[(1,)](*(np.ones(64, np.float32) for _ in range(3)), 64, BLOCK=64)
    x, y = np.ones(64, np.float32), np.ones(64, np.float32)
    y[7] = x[7] = 0
    far = [1 << 44, 1 << 45, 1 << 46, 64]  # addresses that are not the process's
    copies = [Copy(begin, a.view(np.uint8)) for begin, a in zip(far, (x, y), strict=False)]
    text = kernel.metadata.sanitizer["ttir"]
    found = origin(text, "divide", NAN, (0, 0, 0), (1, 1, 1), far, copies)
    assert found and (found[0], found[1]["line"]) == ("made", line(divide, 4))
    assert origin(text, "divide", NAN, (0, 0, 0), (1, 1, 1), far, copies[:1]) is None
