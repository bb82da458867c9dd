"""Comparing arrays and tensors of any library."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Tolerance = float | Callable[[Any], float] | None


def to_numpy(x: Any) -> npt.NDArray[Any]:
    """A NumPy array with the values of `x`: an array, a number, or a tensor on any device.

    Types that NumPy lacks (bfloat16, the 8-bit floats) come back as float32.
    """
    if hasattr(x, "detach"):
        x = x.detach().cpu().resolve_conj().resolve_neg()
        if not str(x.dtype).rpartition(".")[2].startswith(_NUMPY_TYPES):
            x = x.float()
        x = x.numpy()
    array: npt.NDArray[Any] = np.asarray(x)
    return array.astype(np.float32) if array.dtype.kind == "V" else array


_NUMPY_TYPES = ("float16", "float32", "float64", "int", "uint", "bool", "complex")


def assert_close(
    x: Any,
    y: Any,
    atol: Tolerance = None,
    rtol: Tolerance = None,
    err_msg: str = "",
) -> None:
    """Raise `AssertionError` unless |x - y| <= atol + rtol * |y| everywhere; NaN equals NaN.

    Integers of any size are compared exactly. dtypes may differ.

    Args:
        x: what was computed: an array, a tensor on any device, or a number.
        y: what is right; broadcast against `x` where it is one number, or `x` is.
        atol: 1e-2 if not given; a function is called with the dtype of `x`.
        rtol: 0 if not given; likewise.
        err_msg: put in front of the error's text.

    Raises `TypeError` for what are no numbers, `ValueError` for a bad tolerance.
    """
    dtype = getattr(x, "dtype", None)
    a, r = _tolerance("atol", atol, 1e-2, dtype), _tolerance("rtol", rtol, 0.0, dtype)
    have, want = _numbers("x", x), _numbers("y", y)
    prefix = f"{err_msg} " if err_msg else ""
    if have.size != want.size and 0 in (have.size, want.size) and have.ndim and want.ndim:
        raise AssertionError(f"{prefix}shapes {have.shape} and {want.shape}: one has no elements")
    if have.size == want.size == 0 and have.shape != want.shape:
        raise AssertionError(f"{prefix}shapes {have.shape} and {want.shape} differ")
    if _needs_integers(have, want):
        _compare_integers(have, want, (a, r), prefix)
    elif have.size > 1 or want.size > 1:
        np.testing.assert_allclose(have, want, atol=a, rtol=r, equal_nan=True, err_msg=err_msg)
    elif not np.allclose(have, want, atol=a, rtol=r, equal_nan=True):
        raise AssertionError(f"{prefix}{have} is not close to {want} (atol={a}, rtol={r})")


def _tolerance(name: str, given: Tolerance, default: float, dtype: Any) -> float:
    value: Any = given(dtype) if callable(given) else default if given is None else given
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not number >= 0:
        raise ValueError(f"assert_close: {name} is {value!r}; a number that is not negative is "
                         "required")  # fmt: skip
    return number


def _numbers(name: str, value: Any) -> npt.NDArray[Any]:
    array = to_numpy(value)
    if array.dtype.kind == "O":  # Python's integers may be of any size
        items: list[Any] = array.ravel().tolist()
        if items and all(isinstance(v, int) for v in items):
            return array
        array = np.array(array.tolist())
    if array.dtype.kind not in "biufc":
        kind = f"of type {array.dtype}"
        raise TypeError(f"assert_close: {name} holds values {kind}; numbers are required")
    if array.dtype == np.float16:  # in which a tolerance would be rounded too
        return array.astype(np.float32)
    return array


def _needs_integers(*arrays: npt.NDArray[Any]) -> bool:
    """True if all are integers, and some are too large for a float64."""
    if not all(array.size and array.dtype.kind in "biuO" for array in arrays):
        return False
    return any(max(-int(array.min()), int(array.max())) > 2**53 for array in arrays)


def _compare_integers(
    x: npt.NDArray[Any], y: npt.NDArray[Any], tolerances: tuple[float, float], prefix: str
) -> None:
    atol, rtol = tolerances
    try:
        have, want = np.broadcast_arrays(x.astype(object), y.astype(object))
    except ValueError:
        raise AssertionError(f"{prefix}shapes {x.shape} and {y.shape} differ") from None
    if x.shape != y.shape and 1 not in (x.size, y.size):
        raise AssertionError(f"{prefix}shapes {x.shape} and {y.shape} differ")
    left: list[int] = have.ravel().tolist()
    right: list[int] = want.ravel().tolist()
    pairs = list(zip(left, right, strict=True))
    wrong = [i for i, (h, w) in enumerate(pairs) if abs(h - w) > atol + rtol * abs(w)]
    if wrong:
        first = tuple(map(int, np.unravel_index(wrong[0], have.shape)))
        h, w = pairs[wrong[0]]
        raise AssertionError(
            f"{prefix}{len(wrong)} of {len(pairs)} elements are not close (atol={atol}, "
            f"rtol={rtol}), the first at {list(first)}: {h} is not close to {w}"
        )
