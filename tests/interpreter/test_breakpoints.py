"""A debugger stops inside an interpreted kernel and sees NumPy values."""

import bdb
import io
import pdb
import re
import sys

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tritium.backends.interpreter.interpret import InterpretedKernel
from tritium.errors import CompilationError
from tritium.language.jit.function import device_function as jit


@jit
def twice(value):
    result = value * 2
    return result


def kernel(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i)
    w = twice(v)
    tl.store(out + i, w)


def lines_seen(fn, code):
    """The local variables at each line of `code` while `fn` runs."""
    seen = {}

    def trace(frame, event, argument):
        # The interpreter runs a copy of the function, at the same place of the same file.
        ran = frame.f_code
        if (ran.co_filename, ran.co_name) != (code.co_filename, code.co_name):
            return trace if event == "call" else None
        if event == "line":
            seen[frame.f_lineno - code.co_firstlineno] = dict(frame.f_locals)
        return trace

    previous = sys.gettrace()
    sys.settrace(trace)
    try:
        fn()
    finally:
        sys.settrace(previous)
    return seen


def launch(out):
    x = np.arange(4, dtype=np.float32)
    InterpretedKernel(kernel)[(1,)](x, out, BLOCK=4)


def test_each_line_of_the_users_function_is_traced():
    out = np.zeros(4, np.float32)
    seen = lines_seen(lambda: launch(out), kernel.__code__)
    assert set(seen) == {1, 2, 3, 4}
    assert isinstance(seen[2]["i"].value, np.ndarray) and seen[2]["i"].value.tolist() == [
        0,
        1,
        2,
        3,
    ]
    assert seen[4]["w"].value.tolist() == [0, 2, 4, 6]
    assert out.tolist() == [0, 2, 4, 6]
    inner = lines_seen(lambda: launch(out), twice.fn.__code__)
    assert inner[3]["result"].value.dtype == np.float32


def test_pdb_stops_inside_the_kernel():
    commands = io.StringIO("continue\np v\np v.value + 1\np v.shape[0] + 1\ncontinue\n")
    output = io.StringIO()
    debugger = pdb.Pdb(stdin=commands, stdout=output, nosigint=True, readrc=False)
    debugger.use_rawinput = False
    line = kernel.__code__.co_firstlineno + 3
    assert debugger.set_break(__file__, line) is None
    try:
        debugger.runcall(launch, np.zeros(4, np.float32))
    finally:
        debugger.clear_all_breaks()
    text = output.getvalue()
    assert "w = twice(v)" in text
    assert "tensor([0. 1. 2. 3.], <[4], fp32>)" in text
    assert "array([1., 2., 3., 4.], dtype=float32)" in text and "constexpr[5]" in text


def test_quitting_the_debugger_ends_the_launch():
    raised = []

    def watched(out):
        try:
            launch(out)
        except BaseException as error:
            raised.append(type(error))
            raise

    commands, out = io.StringIO("continue\nquit\n"), np.zeros(4, np.float32)
    debugger = pdb.Pdb(stdin=commands, stdout=io.StringIO(), nosigint=True, readrc=False)
    debugger.use_rawinput = False
    debugger.set_break(__file__, kernel.__code__.co_firstlineno + 2)
    try:
        debugger.runcall(watched, out)
    finally:
        debugger.clear_all_breaks()
    assert raised == [bdb.BdbQuit] and out.tolist() == [0, 0, 0, 0]


def stops(x, out):
    v = tl.load(x)
    breakpoint()
    tl.store(out, v + 1)


def steps(x, out):
    v = tl.load(x)
    pdb.set_trace()
    tl.store(out, v + 1)


@pytest.mark.parametrize(("kernel", "name"), [(stops, "breakpoint"), (steps, "set_trace")])
def test_a_compiled_kernel_says_how_to_stop_in_it(kernel, name):
    x = np.ones(1, np.float32)
    message = f"{name} is not defined in compiled kernels. With TRITON_INTERPRET=1 in the"
    with pytest.raises(CompilationError, match=re.escape(message)):
        tritium.jit(kernel)[(1,)](x, x)


def test_a_breakpoint_in_the_source_stops_in_the_kernel(monkeypatch):
    stopped = []

    def hook():
        frame = sys._getframe(1)
        stopped.append((frame.f_code.co_name, frame.f_lineno, frame.f_locals["v"].value))

    monkeypatch.setattr(sys, "breakpointhook", hook)
    out = np.zeros(1, np.float32)
    InterpretedKernel(stops)[(1,)](np.ones(1, np.float32), out)
    assert stopped == [("stops", stops.__code__.co_firstlineno + 2, 1)] and out[0] == 2
