"""Comparing arrays and tensors of any library."""

from __future__ import annotations

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
        x = x.detach().cpu()
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

    Args:
        x: what was computed: an array, a tensor on any device, or a number.
        y: what is right; broadcast against `x`.
        atol: 1e-2 if not given; a function is called with the dtype of `x`.
        rtol: 0 if not given; likewise.
        err_msg: put in front of the error's text.
    """
    dtype = getattr(x, "dtype", None)
    a = atol(dtype) if callable(atol) else 1e-2 if atol is None else atol
    r = rtol(dtype) if callable(rtol) else 0.0 if rtol is None else rtol
    have, want = to_numpy(x), to_numpy(y)
    if have.size > 1 or want.size > 1:
        np.testing.assert_allclose(have, want, atol=a, rtol=r, equal_nan=True, err_msg=err_msg)
        return
    if not np.allclose(have, want, atol=a, rtol=r, equal_nan=True):
        prefix = f"{err_msg} " if err_msg else ""
        raise AssertionError(f"{prefix}{have} is not close to {want} (atol={a}, rtol={r})")
