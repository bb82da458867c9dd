"""Parameters with the names of `run`'s own: `grid` and `warmup`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tritium.runtime.interpreted import InterpretedFunction


def named(out, grid, warmup, N: tl.constexpr):
    tl.store(out + tl.arange(0, N), grid + warmup)


def tuned(fn: Any) -> Any:
    return tritium.autotune(configs=[tritium.Config({"N": 4})], key=[])(tritium.jit(fn))


def guided(fn: Any) -> Any:
    return tritium.heuristics({"N": lambda _: 4})(tritium.jit(fn))


KINDS: dict[str, Callable[..., Any]] = {
    "jit": tritium.jit, "interpreted": InterpretedFunction, "tuned": tuned, "guided": guided,
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_arguments_by_name(kind: str):
    given = {} if kind in ("tuned", "guided") else {"N": 4}
    kernel = KINDS[kind](named)
    out = np.zeros(4, np.int32)
    kernel[(1,)](out, warmup=5, grid=3, **given)
    assert out.tolist() == [8] * 4
    kernel[(1,)](out=out, grid=3, warmup=1, **given)
    assert out.tolist() == [4] * 4


@pytest.mark.parametrize("kind", KINDS)
def test_defaults_stand_before_arguments_by_name(kind: str):
    def k(out, step=2, grid=5, warmup=7, N: tl.constexpr = 4):
        tl.store(out + tl.arange(0, N), step * tl.arange(0, N) + grid * warmup)

    out = np.zeros(4, np.int32)
    KINDS[kind](k)[(1,)](out, warmup=10)
    assert out.tolist() == [50, 52, 54, 56]
    KINDS[kind](k)[(1,)](out, grid=1)
    assert out.tolist() == [7, 9, 11, 13]


@pytest.mark.parametrize("kind", ["tuned", "guided"])
def test_a_default_is_not_given_where_a_decorator_computes_the_value(kind: str):
    def k(out, N: tl.constexpr = 8, grid=5):
        tl.store(out + tl.arange(0, N), grid)

    with pytest.raises(TypeError, match=r"^k: argument 'N': `grid` and `warmup` by name are for"):
        KINDS[kind](k)[(1,)](np.zeros(8, np.int32), grid=3)


@pytest.mark.parametrize("kind", ["interpreted", "tuned"])
def test_what_lacks_is_named(kind: str):
    def other(out, N: tl.constexpr):
        pass

    out = np.zeros(4, np.int32)
    with pytest.raises(TypeError, match="argument 'grid': `grid` and `warmup` by name are for"):
        KINDS[kind](named)[(1,)](out, warmup=5, N=4)
    with pytest.raises(TypeError, match="argument 'warmup': `grid` and `warmup` by name are for"):
        KINDS[kind](other)[(1,)](out, warmup=True)
