"""Run one kernel natively, in the interpreter and by the reference semantics; all must agree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.support.device import native
from tests.support.frontend import evaluate
from tritium.runtime.interpreted import InterpretedFunction
from tritium.runtime.jit import JITFunction


def _copies(args: dict[str, Any]) -> dict[str, Any]:
    return {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in args.items()}


def _native(fn: Callable[..., Any], grid: tuple[int, ...], args: dict[str, Any]) -> None:
    native(fn)[grid](**args)


def _interpreted(fn: Callable[..., Any], grid: tuple[int, ...], args: dict[str, Any]) -> None:
    InterpretedFunction(fn)[grid](**args)


def _evaluated(fn: Callable[..., Any], grid: tuple[int, ...], args: dict[str, Any]) -> None:
    evaluate(JITFunction(fn), grid, **args)


WAYS = {"native": _native, "interpreted": _interpreted, "evaluated": _evaluated}


def run_all(
    fn: Callable[..., Any],
    grid: tuple[int, ...] = (1,),
    *,
    rtol: float = 1e-5,
    atol: float = 1e-6,
    ways: tuple[str, ...] = tuple(WAYS),
    **args: Any,
) -> dict[str, np.ndarray]:
    """Run `fn` in each way on copies of the arguments; returns the arrays of the first way.

    Arrays of the other ways must equal them: exactly for integers, within the tolerances (NaNs
    equal) for floating-point numbers.
    """
    results: dict[str, dict[str, Any]] = {}
    for way in ways:
        copies = _copies(args)
        WAYS[way](fn, grid, copies)
        results[way] = {k: v for k, v in copies.items() if isinstance(v, np.ndarray)}
    first = results[ways[0]]
    for way in ways[1:]:
        for name, array in results[way].items():
            message = f"'{name}': {way} differs from {ways[0]}"
            if np.issubdtype(array.dtype, np.integer) or array.dtype == bool:
                np.testing.assert_array_equal(first[name], array, err_msg=message)
            else:
                np.testing.assert_allclose(
                    first[name].astype(np.float64), array.astype(np.float64),
                    rtol=rtol, atol=atol, equal_nan=True, err_msg=message,
                )  # fmt: skip
    return first
