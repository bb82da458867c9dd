"""External functions in tiles; tests/libdevice has every one of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.cpu.support import Kernel, compare


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
@pytest.mark.parametrize(
    "symbol, kind, count", [("__nv_asinf", "f32", 1), ("__nv_hypot", "f64", 2)]
)
def test_functions(symbol: str, kind: str, count: int, size: int) -> None:
    dtype: Any = np.float32 if kind == "f32" else np.float64
    x, y = (np.linspace(start, 0.95, size).astype(dtype) for start in (0.05, 0.3))
    text = program(symbol, kind, kind, count, size)
    compare(text, [x, y, np.zeros(size, dtype)], rtol=1e-5 if kind == "f32" else 1e-13)


def test_an_unknown_function_is_named() -> None:
    with pytest.raises(NotImplementedError, match=r"tt.extern_elementwise .*'__nv_unheard'"):
        Kernel(program("__nv_unheard", "f32", "f32", 1, 16))
