"""Launching interpreted kernels: grids, arguments, options, control flow."""

import collections
import linecache

import numpy as np
import pytest

import tritium.language as tl
from tritium.backends.interpreter.interpret import InterpretedKernel
from tritium.errors import InterpreterError
from tritium.ir.types import i32
from tritium.language.emitter import Evaluated
from tritium.language.jit.function import device_function as jit
from tritium.runtime.interpreted import InterpretedFunction
from tritium.runtime.interpreter import (
    GridExecutor,
    InterpreterBuilder,
    TensorHandle,
    interpreter_builder,
)

Pair = collections.namedtuple("Pair", ["left", "right"])


def run(fn, *args, grid=(1,), **kwargs):
    InterpretedKernel(fn)[grid](*args, **kwargs)


def test_every_program_runs_once():
    def kernel(out):
        x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
        at = (z * tl.num_programs(1) + y) * tl.num_programs(0) + x
        tl.atomic_add(out + at, x + 10 * y + 100 * z)

    out = np.zeros((4, 3, 2), np.int32)
    run(kernel, out, grid=(2, 3, 4))
    z, y, x = np.indices(out.shape)
    np.testing.assert_array_equal(out, x + 10 * y + 100 * z)


def test_grid_forms():
    def kernel(out, n, BLOCK: tl.constexpr):
        tl.store(out + tl.program_id(0), tl.num_programs(0))

    for grid, count in (
        (3, 3),
        ((2,), 2),
        ([4], 4),
        (lambda meta: (meta["n"] // meta["BLOCK"],), 5),
        ((np.array(2),), 2),
    ):
        out = np.zeros(8, np.int32)
        run(kernel, out, 10, BLOCK=2, grid=grid)
        assert out.tolist() == [count] * count + [0] * (8 - count)
    for grid in ((), (1, 1, 1, 1), (1.5,), "x", None):
        with pytest.raises(TypeError, match=r"the grid must be a tuple of 1 to 3|grid\[0\] is 1.5"):
            run(kernel, out, 10, BLOCK=2, grid=grid)
    with pytest.raises(ValueError, match=r"grid\[0\] is -1; it must be in 0"):
        run(kernel, out, 10, BLOCK=2, grid=(-1,))


def test_arguments_and_options():
    def kernel(out, n, SCALE: tl.constexpr = 2, other=None):
        tl.store(out, n * SCALE)

    out = np.zeros(1, np.int32)
    run(kernel, out, 3, num_warps=8, num_stages=2, waves_per_eu=1, enable_fp_fusion=False)
    assert out[0] == 6
    run(kernel, n=4, out=out, SCALE=5)
    assert out[0] == 20
    with pytest.raises(KeyError, match="Keyword argument nope was specified but unrecognised"):
        run(kernel, out, 3, nope=1)
    with pytest.raises(TypeError, match=r"kernel\(\) missing 1 required positional argument: 'n'"):
        run(kernel, out)


def test_types_of_scalars():
    seen = {}

    @tl.core.builtin
    def keep(**values):
        seen.update(values)

    def kernel(i, j, k, x, flag, annotated: tl.uint8, text: "tl.float16", C: tl.constexpr):
        keep(i=i, j=j, k=k, x=x, flag=flag, annotated=annotated, text=text, C=C)

    run(kernel, 3, 1 << 31, 1 << 40, 0.5, True, 255, 1.5, C=7)
    dtypes = {n: str(v.dtype) for n, v in seen.items() if n != "C"}
    assert dtypes == {
        "i": "int32", "j": "int64", "k": "int64", "x": "fp32", "flag": "int1",
        "annotated": "uint8", "text": "fp16",
    }  # fmt: skip
    assert seen["annotated"].value == 255 and seen["C"] == 7


def test_none_and_constants_work_as_in_python():
    def kernel(out, bias, MODE: tl.constexpr, FN: tl.constexpr, N: tl.constexpr):
        total = 0
        if bias is not None:
            total += 100
        if MODE == "sum" and N > 2:
            for i in tl.static_range(N):
                total += i
        if FN is not None:
            total = FN(total)
        tl.store(out, total + len(MODE) + min(N, 3))

    @jit
    def double(x):
        return x * 2

    out = np.zeros(1, np.int32)
    run(kernel, out, None, "sum", double, 4)
    assert out[0] == 12 + 3 + 3
    run(kernel, out, out, "max", None, 1)
    assert out[0] == 100 + 3 + 1


def test_control_flow():
    def kernel(x, out, n, START: tl.constexpr):
        if tl.program_id(0) >= n:
            return
        i = START
        while i < n:
            i += 1
        total = tl.zeros([4], tl.int32)
        for k in range(0, n, 2):
            total += tl.load(x + tl.arange(0, 4)) * k
        for k in tl.range(2, num_stages=3):
            total += k.to(tl.int32)
        if tl.sum(total) > 5:
            tl.store(out + tl.arange(0, 4), total)
        elif n > 100:
            tl.store(out, -1)

    x, out = np.arange(4, dtype=np.int32), np.zeros(4, np.int32)
    run(kernel, x, out, 5, 1, grid=(9,))
    assert out.tolist() == [1, 7, 13, 19]


def test_calls_tuples_and_defaults():
    @jit
    def both(a, b=3, SCALE: tl.constexpr = 2):
        return a * SCALE, (b, a + b)

    @jit
    def factorial(n: tl.constexpr):
        return n if n < 2 else n * factorial(n - 1)

    def kernel(out, pair, values):
        first, (second, third) = both(pair.left, SCALE=4)
        tl.store(out, first + second + third)
        tl.store(out + 1, factorial(4))
        tl.store(out + 2, values[0] + len(values))
        tl.store(values[1], 9)

    out, other = np.zeros(3, np.int32), np.zeros(1, np.int32)
    run(kernel, out, Pair(5, 4), (7, other, None))
    assert out.tolist() == [20 + 3 + 8, 24, 10] and other[0] == 9


def test_namedtuples_carry_functions():
    @jit
    def scale(x, factor):
        return x * factor

    def kernel(out, op):
        tl.store(out, op.left(3, op.right[0]))

    out = np.zeros(1, np.int32)
    run(kernel, out, Pair(scale, (5,)))
    assert out[0] == 15


def test_side_effects_in_combine_functions(capsys):
    @jit
    def add(a, b):
        tl.device_print("adding", a)
        return a + b

    def kernel(out):
        tl.store(out, tl.reduce(tl.arange(0, 4), 0, add))

    out = np.zeros(1, np.int32)
    run(kernel, out)
    assert out[0] == 6
    # One scalar a call, though calls without effects are evaluated all at once.
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3 and all("idx () adding: " in line for line in lines)


def test_a_launchs_number_of_warps():
    def kernel(out):
        tl.store(out + tl.arange(0, tl.extra.cuda.num_warps()), tl.extra.cuda.num_threads())

    out = np.zeros(8, np.int32)
    run(kernel, out, num_warps=8)
    assert (out == 256).all()
    run(kernel, out)
    assert (out[:4] == 128).all() and (out[4:] == 256).all()


def test_the_source_is_read_where_the_kernel_is_defined(tmp_path):
    path = tmp_path / "defines.py"
    text = "import tritium.language as tl\n\ndef kernel(out):\n    tl.store(out, 3)\n"
    path.write_text(text)
    scope = {}
    exec(compile(text, str(path), "exec"), scope)
    kernel = InterpretedFunction(scope["kernel"])
    path.unlink()
    linecache.checkcache()
    out = np.zeros(1, np.int32)
    kernel[(1,)](out)
    assert out[0] == 3


def test_debug_switch(monkeypatch):
    def kernel(n):
        tl.device_assert(n > 3, "n is small")

    run(kernel, 1)
    with pytest.raises(
        InterpreterError, match=r"device-side assert triggered in program \(0, 0, 0\): n is small"
    ):
        run(kernel, 1, debug=True)
    always = InterpretedFunction(kernel, debug=True)
    with pytest.raises(InterpreterError, match="n is small"):
        always[(1,)](1)
    always[(1,)](1, debug=False)
    monkeypatch.setenv("TRITON_DEBUG", "1")
    for debug in (None, False):
        with pytest.raises(InterpreterError, match="n is small"):
            run(kernel, 1, debug=debug)


def test_device_print(capsys):
    def kernel(x):
        tl.device_print("x", tl.load(x + tl.arange(0, 2)), 5)
        tl.device_print("hex: ", 255, hex=True)
        tl.device_print("unsigned", tl.full((), -1, tl.int64).to(tl.uint64))
        tl.device_print("pointer", x)
        tl.device_print("nothing")
        tl.static_print("static", 3, sep="-")

    array = np.array([1.5, 2], np.float32)
    run(kernel, array)
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "pid (0, 0, 0) idx (0) x: (operand 0) 1.500000",
        "pid (0, 0, 0) idx (1) x: (operand 0) 2.000000",
        "pid (0, 0, 0) idx () x: (operand 1) 5",
        "pid (0, 0, 0) idx () hex: 0x000000ff",
        "pid (0, 0, 0) idx () unsigned: 18446744073709551615",
        f"pid (0, 0, 0) idx () pointer: {array.ctypes.data:#x}",
        "pid (0, 0, 0) nothing",
        "static-3",
    ]


def test_errors_are_chained():
    def kernel(x):
        tl.arange(0, 3)

    with pytest.raises(InterpreterError, match="range must be a power of 2") as caught:
        run(kernel, None)
    assert isinstance(caught.value.__cause__, ValueError)

    @tl.core.builtin
    def broken(x):
        raise KeyError("nothing")

    def calls(x):
        broken(x)

    with pytest.raises(InterpreterError, match="KeyError") as caught:
        run(calls, 3)
    assert isinstance(caught.value.__cause__, KeyError)


def test_warnings_name_the_kernels_line():
    def kernel(out):
        tl.store(out, tl.where(tl.program_id(0), 1, 2))

    with pytest.warns(UserWarning, match="non-boolean condition") as caught:
        run(kernel, np.zeros(1, np.int32))
    assert caught[0].filename == __file__
    assert caught[0].lineno == kernel.__code__.co_firstlineno + 1


def test_messages_outside_and_inside():
    with pytest.raises(RuntimeError, match=r"tl.range can only be used in @triton.jit"):
        list(tl.range(3))

    def kernel(x):
        for _ in tl.range(0, 2.5):
            pass

    with pytest.raises(InterpreterError, match="For loop bounds and step must all be ints"):
        run(kernel, None)
    with pytest.raises(RuntimeError, match="outside of the scope of a kernel"):
        tl.cdiv(3, 2)


def test_the_program_that_is_running_can_be_asked_for():
    seen = []

    def note():
        seen.append((interpreter_builder.grid_idx, interpreter_builder.grid_dim))

    def kernel():
        note()

    InterpretedKernel(kernel)[(2, 1)]()
    assert seen == [((0, 0, 0), (2, 1, 1)), ((1, 0, 0), (2, 1, 1))]
    with pytest.raises(ValueError):
        interpreter_builder.grid_idx  # noqa: B018


def test_handles_show_their_elements(capsys):
    """`x.handle.data`, as one prints it while debugging, and tensors of handles that one makes."""

    def kernel(x):
        v = tl.load(x + tl.arange(0, 2))
        print(v.handle.data, v.handle.data.dtype, v.handle.dtype)
        print(v.to(tl.uint8).handle.data, v.to(tl.uint8).handle.dtype)
        print(v.to(tl.bfloat16).handle.data, v.to(tl.bfloat16).handle.dtype)
        print(tl.sum(v, 0).handle.data, (v > 200).handle.data)
        print(x.handle.data.dtype, x.handle.data.shape, x.handle.dtype)
        u = v.to(tl.uint8)
        twice = tl.tensor(TensorHandle(u.handle.data * 2, tl.uint8), u.type)
        tl.store(x + tl.arange(0, 2), twice.to(tl.int32))

    x = np.array([1, 255], np.int32)
    InterpretedKernel(kernel)[(1,)](x)
    assert capsys.readouterr().out.splitlines() == [
        "[  1 255] int32 int32", "[  1 255] uint8", "[16256 17279] bf16",
        "[256] [False  True]", "uint64 (1,) pointer<int32>",
    ]  # fmt: skip
    np.testing.assert_array_equal(x, [2, 254])
    assert isinstance(tl.tensor(Evaluated(i32, 3), tl.int32).handle, TensorHandle)
    with pytest.raises(ValueError, match=r"64 bits.* primitive_bitwidth .32 bits. for triton"):
        TensorHandle(np.zeros(2), tl.float32)


def test_a_function_runs_on_a_grid_by_itself():
    def kernel(x, N: tl.constexpr):
        tl.store(x + tl.program_id(0) * N + tl.arange(0, N), tl.program_id(0) + N)

    x, hooked = np.zeros(4, np.int32), []
    run = GridExecutor(kernel, ["x", "N"], (2,), [lambda *args, **kwargs: hooked.append(kwargs)])
    run(x, N=2)
    np.testing.assert_array_equal(x, [2, 2, 3, 3])
    assert hooked == [{"N": 2}] and run.constexprs == ["N"]
    with pytest.raises(NotImplementedError, match="create_load_of_nothing"):
        InterpreterBuilder().create_load_of_nothing()


def test_numbers_of_the_kernel_meet_numpy_arrays(capsys):
    def kernel(x):
        data = tl.load(x + tl.arange(0, 2)).handle.data
        print((data * 2).dtype, (2 + data).dtype, (data > 1).dtype)

    InterpretedKernel(kernel)[(1,)](np.array([1, 2], np.float32))
    assert capsys.readouterr().out == "float32 float32 bool\n"


def test_unsigned_results_of_atomics_under_the_sanitizer():
    """Their handles, which the sanitizer watches, become those of unsigned tensors."""

    def kernel(counter, out):
        if tl.atomic_add(counter, 1) == 1:
            tl.store(out, 7)

    counter, out = np.zeros(1, np.uint32), np.zeros(1, np.int32)
    InterpretedKernel(kernel)[(2,)](counter, out, instrumentation_mode="races")
    assert (counter[0], out[0]) == (2, 7)
