"""The real functions natively and as the interpreter computes them, within NVIDIA's bounds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.libdevice import bounds, exact, hip
from tests.libdevice.support import (
    STORED,
    Array,
    arguments,
    defined,
    each_function_once,
    label,
    native,
    signatures,
)
from tritium.language.extra.signatures import Overload

CASES = [
    (name, overload) for name in exact.FUNCTIONS for overload in signatures()[name].overloads
    if "powi" not in overload.symbol
]  # fmt: skip
BESSEL = {"j0", "j1", "y0", "y1", "jn", "yn"}


def inputs(name: str, overload: Overload, count: int, seed: int = 0) -> list[Array]:
    """Finite arguments other than zeros, which test_special_values.py has."""
    arrays = arguments(name, overload, count, seed)
    if name in BESSEL:
        arrays[-1] = np.clip(arrays[-1], -1e5, 1e5)
    if name == "rcp64h":  # to which subnormal numbers are 0
        arrays = [a[np.abs(a) >= np.finfo(np.float64).smallest_normal] for a in arrays]
    keep = np.all([np.isfinite(a) & ((a != 0) | (a.dtype.kind == "i")) for a in arrays], axis=0)
    return [a[keep] for a in arrays]


def errors(
    name: str, overload: Overload, arrays: list[Array], actual: Array, wanted: Array
) -> Array:
    """In ulp from the correctly rounded result; 0 where another bound is documented and kept."""
    found = exact.distance(actual, wanted)
    if name in BESSEL:
        with np.errstate(all="ignore"):
            difference = np.abs(actual.astype(np.float64) - wanted)
        # Y grows without bound for large orders; there the recurrence has some ulp for each step.
        close = difference < bounds.ABSOLUTE[overload.result] * np.maximum(1, np.abs(wanted))
        distant = np.abs(arrays[-1]) >= 8 if len(arrays) == 1 else arrays[0] >= 0
        found = np.where(distant & close, 0, found)
    if name == "lgamma":
        low, high = bounds.LGAMMA_ZEROS[overload.result]
        inside = (arrays[0] > low) & (arrays[0] < high)
        with np.errstate(all="ignore"):
            close = np.abs(actual - wanted) < 50 * np.finfo(actual.dtype).eps
        found = np.where(inside & close, 0, found)
    if name == "rcp64h":
        with np.errstate(all="ignore"):
            close = np.abs(actual / wanted - 1) < 2.0**-19
        found = np.where(close | (actual == 0), 0, found)
    return found


def bound(name: str, overload: Overload) -> float:
    limit = bounds.ulp(name, overload.result)
    return 0 if np.isinf(limit) else limit


def check(name: str, overload: Overload, arrays: list[Array], actual: Array, wanted: Array) -> None:
    found = errors(name, overload, arrays, actual, wanted)
    worst = int(np.argmax(found))
    at = ", ".join(repr(float(a[worst])) for a in arrays)
    case = f"{overload.symbol}({at}) = {actual[worst]!r}, not {wanted[worst]!r}"
    assert found[worst] <= bound(name, overload), f"{case}: {found[worst]:.3g} ulp"


def values(name: str, overload: Overload, count: int, seed: int = 0) -> tuple[list[Array], Array]:
    arrays = inputs(name, overload, count, seed)
    return arrays, exact.expected(name, STORED[overload.result], *arrays)


@pytest.mark.parametrize("name, overload", each_function_once(CASES), ids=label)
@pytest.mark.every(2)
def test_native(name: str, overload: Overload) -> None:
    arrays, wanted = values(name, overload, 120)
    check(name, overload, arrays, native(overload, *arrays, level="host"), wanted)


HALF = [c if i % 2 else pytest.param(*c, marks=pytest.mark.slow) for i, c in enumerate(CASES)]


@pytest.mark.every(3)
@pytest.mark.parametrize("name, overload", HALF, ids=label)
def test_in_narrow_vectors(name: str, overload: Overload) -> None:
    arrays, wanted = values(name, overload, 120)
    check(name, overload, arrays, native(overload, *arrays, level="sse"), wanted)


@pytest.mark.parametrize("name, overload", CASES, ids=label)
@pytest.mark.every(3)
def test_as_interpreted(name: str, overload: Overload) -> None:
    arrays, wanted = values(name, overload, 120)
    check(name, overload, arrays, defined(overload, *arrays), wanted)


@pytest.mark.every(4)
@pytest.mark.parametrize("name, overload", CASES, ids=label)
def test_one_lane_gives_the_same(name: str, overload: Overload) -> None:
    arrays = arguments(name, overload, 30)
    one, eight = (native(overload, *arrays, width=w) for w in (1, 8))
    assert np.array_equal(one, eight, equal_nan=True)


SOME = [c if i % 6 == 0 else pytest.param(*c, marks=pytest.mark.slow)
        for i, c in enumerate(hip.CASES)]  # fmt: skip


@pytest.mark.parametrize("name, overload", SOME, ids=label)
def test_on_amd_as_accurate_as_hip(name: str, overload: Overload) -> None:
    found, _ = hip.errors(name, overload, 150)
    assert found <= hip.documented(name, overload)


AMD = [c if i % 6 == 0 else pytest.param(*c, marks=pytest.mark.slow)
       for i, c in enumerate(hip.ALL)]  # fmt: skip


@pytest.mark.parametrize("name, overload", AMD, ids=label)
def test_on_amd_as_accurate_as_ocml(name: str, overload: Overload) -> None:
    assert hip.largest(name, overload, 90) <= hip.goal(name, overload)[0]


@pytest.mark.parametrize("name", ["j0", "j1", "y0", "y1"])
def test_bessel_functions_beside_their_zeros(name: str) -> None:
    """All zeros up to 12, where ocml's bounds end."""
    overload = next(o for o in signatures()[name].overloads if o.result == "float64")
    kind, order = {"j": exact.mp.besseljzero, "y": exact.mp.besselyzero}[name[0]], int(name[1])
    zeros = [z for k in range(1, 5) if (z := float(kind(order, k))) < 12]
    x = np.array([z + sign * z * 2.0**-power for z in zeros for sign in (-1, 1)
                  for power in (6, 12, 20, 40)])  # fmt: skip
    found = exact.ulps(name, native(overload, x), x)
    assert found.max() <= hip.goal(name, overload)[0]


@pytest.mark.parametrize("level", ["host", "sse"])
def test_lgamma_where_terms_cancel(level: str) -> None:
    overload = next(o for o in signatures()["lgamma"].overloads if o.result == "float64")
    arrays = [np.array([1.289999961905683, 1.2783031100982813, 1.322323230640845])]
    wanted = exact.expected("lgamma", np.float64, *arrays)
    check("lgamma", overload, arrays, native(overload, *arrays, level=level), wanted)


def test_a_wrong_result_is_noticed() -> None:
    overload = signatures()["j0"].overloads[0]
    arrays, wanted = values("j0", overload, 60)
    actual = native(overload, *arrays)
    actual[3] += np.float32(1e-4)
    with pytest.raises(AssertionError, match="__nv_j0f"):
        check("j0", overload, arrays, actual, wanted)


def test_the_page_states_every_function_and_its_bound() -> None:
    page = (Path(__file__).parents[2] / "docs" / "libdevice.md").read_text()
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| `")]
    table = {(row[0].strip("`"), row[1]): row[2:] for row in rows if len(row) == 5}
    for name, overload in CASES:
        cpu, interpreter, stated = table[name, {"float32": "fp32"}.get(overload.result, "fp64")]
        limit = bounds.ulp(name, overload.result)
        if not np.isinf(limit):
            assert float(stated.split(";")[0]) == limit
            assert max(float(cpu), float(interpreter)) <= limit


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("name, overload", CASES, ids=label)
def test_sweep(name: str, overload: Overload, seed: int) -> None:
    arrays, wanted = values(name, overload, 6000, seed)
    for level in ("host", "avx2", "sse"):
        check(name, overload, arrays, native(overload, *arrays, level=level), wanted)
    check(name, overload, arrays, defined(overload, *arrays), wanted)


def _dense(low: float, high: float, dtype: Any) -> Array:
    return np.linspace(low, high, 20_000).astype(dtype)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "name, low, high",
    [("j0", 0, 9), ("j1", 0, 9), ("y0", 1e-3, 9), ("y1", 1e-3, 9), ("lgamma", -2.2, 10),
     ("tgamma", -30, 30), ("erfinv", -1, 1), ("erfcinv", 1e-6, 2), ("normcdfinv", 1e-6, 1),
     ("erfcx", -5, 40), ("normcdf", -38, 9), ("cyl_bessel_i0", -20, 20), ("cyl_bessel_i1", -20,
     20)],
)  # fmt: skip
def test_dense(name: str, low: float, high: float, dtype: str) -> None:
    """Where the pieces of the approximations meet, and around their zeros."""
    overload = next(o for o in signatures()[name].overloads if o.result == dtype)
    arrays = [_dense(low, high, STORED[dtype])]
    arrays = [arrays[0][arrays[0] != 0]]
    wanted = exact.expected(name, STORED[dtype], *arrays)
    check(name, overload, arrays, native(overload, *arrays), wanted)
