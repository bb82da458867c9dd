"""libdevice's functions natively, against their definition on NumPy."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

from tests.cpu.support import Kernel, compare
from tritium.language.extra import libdevice

INTEGER_RESULTS: dict[str, tuple[str, int, str]] = {
    "__nv_popc": ("i32", 1, "i32"), "__nv_popcll": ("i64", 1, "i32"), "__nv_abs": ("i32", 1, "i32"),
    "__nv_max": ("i32", 2, "i32"), "__nv_min": ("i32", 2, "i32"),
}  # fmt: skip


def functions() -> list[tuple[str, int]]:
    """Names and numbers of arguments of what the language offers."""
    found: list[tuple[str, int]] = []
    for name, function in vars(libdevice).items():
        own = inspect.isfunction(function) and function.__module__ == libdevice.__name__
        if own and not name.startswith("_"):
            symbol = "fabs" if name == "abs" else name
            found.append((symbol, len(inspect.signature(function).parameters)))
    return found


def program(symbol: str, source: str, result: str, count: int, size: int) -> str:
    """`o[i] = symbol(x[i], y[i])` for the first `count` of x and y."""
    tile = f"tensor<{size}x"

    def pointers(name: str, kind: str) -> str:
        return f"""
      %{name}s = tt.splat %{name} : !tt.ptr<{kind}> -> {tile}!tt.ptr<{kind}>>
      %{name}a = tt.addptr %{name}s, %r : {tile}!tt.ptr<{kind}>>, {tile}i32>"""

    values = ", ".join(["%xv", "%yv"][:count])
    types = ", ".join([f"{tile}{source}>"] * count)
    return f"""
    tt.func public @kernel(%x: !tt.ptr<{source}>, %y: !tt.ptr<{source}>, %o: !tt.ptr<{result}>) {{
      %r = tt.make_range {{end = {size} : i32, start = 0 : i32}} : {tile}i32>
      {pointers("x", source)}{pointers("y", source)}{pointers("o", result)}
      %xv = tt.load %xa : {tile}!tt.ptr<{source}>>
      %yv = tt.load %ya : {tile}!tt.ptr<{source}>>
      %v = tt.extern_elementwise {values} {{libname = "", libpath = "", pure = true,
        symbol = "{symbol}"}} : ({types}) -> {tile}{result}>
      tt.store %oa, %v : {tile}!tt.ptr<{result}>>
      tt.return
    }}
    """


@pytest.mark.parametrize("size", [1, 32])
@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("name, count", functions())
def test_real_functions(name: str, count: int, kind: str, size: int) -> None:
    dtype: Any = np.float32 if kind == "f32" else np.float64
    symbol = f"__nv_{name}f" if kind == "f32" else f"__nv_{name}"
    x = np.linspace(0.05, 0.95, size).astype(dtype)
    if name == "acosh":
        x += dtype(1)
    y = np.linspace(0.3, 0.7, size).astype(dtype)
    tolerance = 1e-5 if kind == "f32" else 1e-13
    text = program(symbol, kind, kind, count, size)
    compare(text, [x, y, np.zeros(size, dtype)], rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("symbol", INTEGER_RESULTS)
def test_integer_functions(symbol: str) -> None:
    source, count, result = INTEGER_RESULTS[symbol]
    types: Any = {"i32": np.int32, "i64": np.int64}
    x = np.random.default_rng(1).integers(-(2**30), 2**30, 32).astype(types[source])
    text = program(symbol, source, result, count, 32)
    compare(text, [x, x[::-1].copy(), np.zeros(32, types[result])])


def test_an_unknown_function_is_named() -> None:
    with pytest.raises(NotImplementedError, match=r"tt.extern_elementwise .*'__nv_unheard'"):
        Kernel(program("__nv_unheard", "f32", "f32", 1, 16))
