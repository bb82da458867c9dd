"""Inline assembly and external functions: what they build and refuse."""

import numpy as np
import pytest

import tritium.language as tl
from tests.support.frontend import text_of
from tritium.backends.interpreter.interpret import InterpretedKernel
from tritium.errors import InterpreterError
from tritium.language.jit.function import device_function as jit


def test_inline_assembly():
    @jit
    def kernel(x):
        i = tl.arange(0, 8)
        a, b = tl.inline_asm_elementwise(
            "add $0, $2, $3; sub $1, $2, $3;", "=r,=r,r,r", [i, 3], (tl.int32, tl.int16), True, 1
        )
        tl.store(x + i, a + b)

    text = text_of(kernel, x=np.zeros(8, np.int32))
    assert "tt.elementwise_inline_asm" in text and "tensor<8xi32>, tensor<8xi16>" in text
    with pytest.raises(InterpreterError, match=r"NotImplementedError.*inline assembly"):
        InterpretedKernel(kernel.fn)[(1,)](np.zeros(8, np.int32))


def test_external_functions():
    @tl.core.extern
    def half(x, _semantic=None):
        table = {(tl.float32,): ("__nv_halff", tl.float32)}
        return tl.core.extern_elementwise("lib", "", [x], table, True, _semantic=_semantic)

    @jit
    def kernel(x):
        tl.store(x, half(tl.load(x)))

    text = text_of(kernel, x=np.zeros(1, np.float32))
    assert 'libname = "lib"' in text and 'symbol = "__nv_halff"' in text


@pytest.mark.parametrize(("symbol", "wanted"), [
    ("__ocml_half_sin_f32", None), ("__ocml_asin_f32", np.arcsin(0.5)),
    ("__ocml_erf_f32", 0.5204999),
])  # fmt: skip
def test_functions_of_amds_library(symbol, wanted):
    """The interpreter knows those that libdevice has under another name."""

    @tl.core.extern
    def call(x, _semantic=None):
        table = {(tl.float32,): (symbol, tl.float32)}
        return tl.core.extern_elementwise("ocml", "", [x], table, True, _semantic=_semantic)

    @jit
    def kernel(x):
        tl.store(x, call(tl.load(x)))

    x = np.full(1, 0.5, np.float32)
    if wanted is None:
        with pytest.raises(InterpreterError, match=f"external function {symbol}"):
            InterpretedKernel(kernel.fn)[(1,)](x)
        return
    InterpretedKernel(kernel.fn)[(1,)](x)
    np.testing.assert_allclose(x, [wanted], rtol=1e-6)
