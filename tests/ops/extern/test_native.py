"""External functions in tiles; tests/libdevice has every one of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tritium.language as tl
import tritium.language.extra.libdevice as renamed
from tests.cpu.support import Kernel, compare
from tests.support.agreement import run_all
from tritium.errors import CompilationError
from tritium.language import core, extra
from tritium.language.extra import libdevice
from tritium.language.extra.cuda import libdevice as of_cuda
from tritium.language.extra.libdevice import asin as inverse_sine
from tritium.runtime.jit import JITFunction

pytestmark = pytest.mark.cpu


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


FP32, FP64 = core.dtype("fp32"), core.dtype("fp64")


@core.extern
def own_hypot(x, y, _semantic=None):
    """As users declare functions of a library."""
    table = {(FP32, FP32): ("__nv_hypotf", FP32), (FP64, FP64): ("__nv_hypot", FP64)}
    return core.extern_elementwise("", "", [x, y], table, is_pure=True, _semantic=_semantic)


@core.extern
def of_nobody(x, _semantic=None):
    table = {(FP32,): ("nobodys", FP32)}
    return core.extern_elementwise("own", "/own.bc", [x], table, is_pure=True, _semantic=_semantic)


def aliases(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    tl.store(out + i, libdevice.asin(v))
    tl.store(out + N + i, renamed.asin(v))
    tl.store(out + 2 * N + i, of_cuda.asin(v))
    tl.store(out + 3 * N + i, inverse_sine(v))
    tl.store(out + 4 * N + i, extra.libdevice.asin(v))
    tl.store(out + 5 * N + i, tl.extra.libdevice.asin(v))


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=lambda d: d.__name__)
def test_by_whatever_name_it_is_imported(dtype: Any) -> None:
    x = np.linspace(-1, 1, 16).astype(dtype)
    found = run_all(aliases, x=x, out=np.zeros((6, 16), dtype), N=16)["out"]
    np.testing.assert_allclose(found, np.tile(np.arcsin(x), (6, 1)), rtol=1e-6)


def test_libraries_of_a_launch() -> None:
    """The path of NVIDIA's library is accepted, and without effect: the functions are our own."""
    x, out = np.linspace(-1, 1, 16), np.zeros((6, 16))
    kernel = JITFunction(aliases)[(1,)](x, out, 16, extern_libs={"libdevice": "/some/path.bc"})
    np.testing.assert_allclose(out[0], np.arcsin(x), rtol=1e-14)
    assert kernel.metadata.extern_libs == [["libdevice", "/some/path.bc"]]


def own(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    tl.store(out + i, own_hypot(v, 1.0))
    tl.store(out + N + i, tl.sum(own_hypot(v[:, None], v[None, :]), 1))


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=lambda d: d.__name__)
def test_functions_that_users_declare(dtype: Any) -> None:
    """By dtype; numbers and blocks of other shapes are broadcast."""
    x = np.linspace(-2, 2, 16).astype(dtype)
    found = run_all(own, x=x, out=np.zeros((2, 16), dtype), N=16)["out"]
    np.testing.assert_allclose(found[0], np.hypot(x, 1), rtol=1e-6)
    np.testing.assert_allclose(found[1], np.hypot(x[:, None], x[None, :]).sum(1), rtol=1e-5)


def test_functions_that_do_not_fit() -> None:
    def unknown(x, N: tl.constexpr):
        i = tl.arange(0, N)
        tl.store(x + i, of_nobody(tl.load(x + i)))

    out = np.zeros((2, 16), np.int32)
    with pytest.raises(NotImplementedError, match=r"test_native.py:.*'nobodys'"):
        JITFunction(unknown)[(1,)](np.zeros(16, np.float32), 16)
    with pytest.raises(CompilationError, match=r"one of .fp32, fp32; fp64, fp64.; got int32"):
        JITFunction(own)[(1,)](np.zeros(16, np.int32), out, 16)
