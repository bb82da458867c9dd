"""Printing and assertions, of the compiler and of kernels."""

import numpy as np
import pytest

import tritium.language as tl
from tests.language.support import block, both, eager
from tests.support.frontend import text_of
from tritium.backends.interpreter.interpret import InterpretedKernel
from tritium.errors import CompilationError, CompileTimeAssertionFailure, InterpreterError
from tritium.language.jit.function import device_function as jit


def test_static_assertions_and_prints(capsys):
    @jit
    def kernel(x, N: tl.constexpr):
        tl.static_print("N is", N, end="!")
        tl.static_assert(N > 2, "N must be more than 2")
        assert N < 10, "and less than 10"
        tl.store(x, N)

    x = np.zeros(1, np.int32)
    both(kernel, x=x, N=5)
    assert capsys.readouterr().out == "N is 5!" * 2
    for n, text in ((1, "N must be more than 2"), (11, "and less than 10")):
        with pytest.raises(CompileTimeAssertionFailure, match=text):
            text_of(kernel, x=x, N=n)
    with pytest.raises(InterpreterError, match="N must be more than 2"):
        InterpretedKernel(kernel.fn)[(1,)](x, 1)

    @jit
    def dynamic(x):
        tl.static_assert(tl.load(x) > 0)

    with pytest.raises(CompilationError, match="not known when the kernel is compiled"):
        text_of(dynamic, x=x)


def test_device_print_prefixes():
    @jit
    def kernel(x):
        tl.device_print("a", tl.load(x), tl.program_id(0).to(tl.uint32))

    text = text_of(kernel, x=np.zeros(1, np.float32))
    assert 'tt.print " a: "' in text and "isSigned = array<i32: 0, 0>" in text

    @jit
    def others(x):
        tl.device_print("nothing")
        tl.device_print("done:")
        tl.device_print("v: ", x)
        tl.device_print("", 1)

    text = text_of(others, x=np.zeros(1, np.float32))
    assert [line.split('"')[1] for line in text.splitlines() if "tt.print" in line] == [
        " nothing", " done:", " v: ", ": "
    ]  # fmt: skip
    with eager():
        for prefix in ("é", "two\nlines", 3):
            with pytest.raises(ValueError, match="must be a string of printable ASCII"):
                tl.device_print(prefix, 1)


def test_device_assert_needs_debug():
    @jit
    def kernel(x):
        tl.device_assert(tl.load(x) > 0, "positive", mask=tl.program_id(0) < 1)

    assert "tt.assert" not in text_of(kernel, x=np.zeros(1, np.float32))
    with eager(debug=True):
        tl.device_assert(block([1, 0]), "masked away", mask=block([True, False], tl.int1))
        with pytest.raises(Exception, match=r"device-side assert.*everywhere"):
            tl.device_assert(block([1, 0]), "everywhere")
        with pytest.raises(TypeError, match="a string is required"):
            tl.device_assert(block(1), 3)
