"""Printing and assertions, of the compiler and of kernels."""

import itertools
import warnings
from contextlib import ExitStack

import numpy as np
import pytest

import tritium.language as tl
from tests.language.support import block, both, eager
from tests.support.frontend import text_of
from tritium.backends.interpreter.interpret import InterpretedKernel
from tritium.errors import CompilationError, CompileTimeAssertionFailure, InterpreterError
from tritium.language.jit.function import device_function as jit
from tritium.runtime.interpreted import InterpretedFunction
from tritium.runtime.jit import JITFunction


def test_static_assertions_and_prints(capsys):
    @jit
    def kernel(x, N: tl.constexpr):
        tl.static_print("N is", N, end="!")
        tl.static_assert(N > 2, "N must be more than 2")
        tl.store(x, N)

    x = np.zeros(1, np.int32)
    both(kernel, x=x, N=5)
    assert capsys.readouterr().out == "N is 5!" * 2
    with pytest.raises(CompileTimeAssertionFailure, match="N must be more than 2"):
        text_of(kernel, x=x, N=1)
    with pytest.raises(InterpreterError, match="N must be more than 2"):
        InterpretedKernel(kernel.fn)[(1,)](x, 1)

    @jit
    def dynamic(x):
        tl.static_assert(tl.load(x) > 0)

    with pytest.raises(CompilationError, match="not known when the kernel is compiled"):
        text_of(dynamic, x=x)


def test_assertions_of_what_is_known_when_compiled():
    """The program need not reach them: they are of run time, and checked with debug=True."""

    @jit
    def kernel(x, N: tl.constexpr):
        if tl.load(x) > 5:
            assert N < 10, f"N is {N}"
            assert isinstance(N, int) and "abc"
            tl.store(x, N)

    interpreted, cases = InterpretedFunction(kernel.fn), ((7, 3, 3), (0, 11, 0), (7, 11, 11))
    for way, (first, n, last) in itertools.product((JITFunction(kernel.fn), interpreted), cases):
        x, checked = np.full((2, 1), first, np.int32)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            way[(1,)](x, n)
        assert x[0] == last
        with ExitStack() as stack:
            if (first, n) == (7, 11):
                failed = pytest.raises((RuntimeError, InterpreterError), match="N is 11")
                stack.enter_context(failed)
            stack.enter_context(warnings.catch_warnings())
            warnings.simplefilter("error")
            way[(1,)](checked, n, debug=True)
    message = r"this assertion does not hold: N is 11\. "
    with pytest.warns(UserWarning, match=message) as caught:
        text_of(kernel, x=x, N=11)
        interpreted[(1,)](np.full(1, 7, np.int32), 11)
    assert [warning.filename for warning in caught] == [__file__] * 2


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
