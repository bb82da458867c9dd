"""Functions that a program puts in place of methods of `interpreter_builder`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tritium.backends.interpreter.builder import (
    InterpreterBuilder,
    TensorHandle,
    interpreter_builder,
)
from tritium.backends.interpreter.emitter import EagerEmitter
from tritium.backends.interpreter.interpret import InterpretedKernel
from tritium.errors import InterpreterError
from tritium.language.builder_methods import makers
from tritium.language.emitter import activate
from tritium.language.semantic import TritonSemantic

Calls = list[tuple[str, tuple[Any, ...]]]


def every(x, out, n, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    value = tl.load(x + i, mask=i < n, other=1.0)
    square = tl.load(x + i[:, None] % n + tl.zeros((1, N), tl.int32))
    value = tl.sqrt(tl.abs(value)) * 2.0 + tl.sum(tl.dot(square, square), axis=1)
    whole = value.to(tl.int32) // 3 + (i >> 1)
    tl.store(out + i, whole.to(tl.float32) + value)
    tl.atomic_add(out + i, 1.0)


def launch(kernel: Callable[..., Any] = every) -> np.ndarray:
    x, out = np.linspace(-3, 3, 16, dtype=np.float32), np.zeros(16, np.float32)
    InterpretedKernel(kernel)[(1,)](x, out, 13, 16)
    return out


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Calls]:
    """Puts functions in place of methods that note their arguments and call the methods."""

    def watch(*names: str, of: object = interpreter_builder) -> Calls:
        calls: Calls = []

        def noting(name: str) -> Callable[..., Any]:
            original = getattr(interpreter_builder, name)

            def function(*args: Any) -> Any:
                taken = args if of is interpreter_builder else args[1:]
                calls.append((name, taken))
                return original(*taken)

            return function

        for name in names:
            monkeypatch.setattr(of, name, noting(name), raising=False)
        return calls

    return watch


@pytest.mark.parametrize("of", [interpreter_builder, InterpreterBuilder], ids=["object", "class"])
def test_originals_that_are_called_give_the_same(watched: Callable[..., Calls], of: object):
    wanted = launch()
    names = [n for n in makers() if "return" not in n]
    calls = watched(*names, of=of)
    np.testing.assert_array_equal(launch(), wanted)
    seen = {name for name, _ in calls}
    assert seen >= {
        "create_get_program_id", "create_make_range", "create_splat", "create_addptr", "create_dot",
        "create_load", "create_masked_load", "create_store", "create_masked_store", "create_fabs",
        "unary_op", "create_fmul", "binary_op", "create_sdiv", "create_idiv", "create_ashr",
        "create_fp_to_si", "cast_impl", "create_expand_dims", "create_broadcast",
        "create_atomic_rmw", "create_icmpSLT",
    }  # fmt: skip


def test_arguments_are_handles_with_data(watched: Callable[..., Calls]):
    calls = watched("create_masked_load", "create_dot", "create_splat")
    launch()
    found = dict(reversed(calls))
    pointer, mask, other, *_ = found["create_masked_load"]
    assert pointer.data.shape == mask.data.shape == other.data.shape == (16,)
    assert pointer.get_element_ty() == tl.float32 and mask.data.sum() == 13
    full = [args for name, args in calls if name == "create_masked_load"][1]
    assert full[1].data.all() and full[1].data.shape == (16, 16) and full[2] is None
    a, b, c, *_ = found["create_dot"]
    assert a.data.shape == b.data.shape == c.data.shape == (16, 16)
    assert found["create_splat"][0] == tl.block_type(tl.int32, [16])


def test_results_come_from_the_function_in_place(monkeypatch: pytest.MonkeyPatch):
    def load(ptr: Any, mask: Any, other: Any, *_: Any) -> TensorHandle:
        return TensorHandle(np.full(ptr.data.shape, 7, np.float32), ptr.get_element_ty())

    def kernel(x, out, n, N: tl.constexpr):
        tl.store(out + tl.arange(0, N), tl.load(x + tl.arange(0, N)) + tl.load(x))

    monkeypatch.setattr(interpreter_builder, "create_masked_load", load, raising=False)
    np.testing.assert_array_equal(launch(kernel), np.full(16, 14))
    monkeypatch.undo()
    assert launch(kernel)[0] == -6


def test_functions_of_numpy_in_elementwise_families(monkeypatch: pytest.MonkeyPatch):
    original = interpreter_builder.binary_op

    def exchanged(lhs: Any, rhs: Any, op: Any) -> Any:
        assert op is np.multiply
        return original(lhs, rhs, np.add)

    def kernel(x, out, n, N: tl.constexpr):
        value = tl.load(x + tl.arange(0, N))
        tl.store(out + tl.arange(0, N), value * value)

    monkeypatch.setattr(interpreter_builder, "binary_op", exchanged, raising=False)
    with pytest.raises(InterpreterError, match="AssertionError"):
        launch(every)
    monkeypatch.setattr(interpreter_builder, "create_addptr", interpreter_builder.create_addptr)
    wanted = 2 * np.linspace(-3, 3, 16, dtype=np.float32)
    np.testing.assert_array_equal(launch(kernel), wanted)


def test_a_function_that_returns_nothing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(interpreter_builder, "create_fmul", lambda *_: None, raising=False)
    with pytest.raises(InterpreterError, match=r"create_fmul: .* returned None; arith.mulf has 1"):
        launch()


@pytest.mark.parametrize(("given", "message"), [
    (5, r"5 for a value of type .*; a handle with `data` and `dtype` is required"),
    (TensorHandle(np.zeros(3, np.float32), tl.float32), r"a handle with 3 elements for .*<16xf32"),
])  # fmt: skip
def test_a_function_that_returns_no_such_handle(
    monkeypatch: pytest.MonkeyPatch, given: Any, message: str
):
    monkeypatch.setattr(interpreter_builder, "create_fmul", lambda *_: given, raising=False)
    with pytest.raises(InterpreterError, match=message):
        launch()


class Term:
    """A handle whose elements are known as text only."""

    def __init__(self, text: str, dtype: Any, shape: Any = (16,)):
        self.data, self.dtype, self.shape = text, dtype, shape


def text_of(handle: Any) -> str:
    return handle.data if isinstance(handle, Term) else "v"


def replace_by_terms(monkeypatch: pytest.MonkeyPatch, *names: str) -> list[str]:
    """Put functions that make terms in place of methods; the terms that stores get."""
    stored = list[str]()

    def function(name: str) -> Any:
        def make(*arguments: Any) -> Any:
            if name == "create_masked_store":
                return stored.append(text_of(arguments[1]))
            first, last = arguments[0], arguments[-1]
            word = last.__name__ if callable(last) else name.removeprefix("create_")
            given = [a for a in arguments if hasattr(a, "data") and hasattr(a, "dtype")]
            return Term(f"{word}({', '.join(map(text_of, given))})", getattr(first, "dtype", first))

        return make

    for name in names:
        monkeypatch.setattr(interpreter_builder, name, function(name), raising=False)
    return stored


def test_values_that_are_not_known_pass_between_replaced_methods(monkeypatch: pytest.MonkeyPatch):
    def kernel(x, out, n, N: tl.constexpr):
        i = tl.arange(0, N)
        value = tl.load(x + i, mask=i < n) * 3.0
        tl.store(out + i, tl.where(value > 2.0, value, tl.exp(value)), mask=i < n)

    stored = replace_by_terms(
        monkeypatch, "create_fmul", "create_splat", "unary_op", "binary_op", "ternary_op",
        "create_masked_load", "create_masked_store", "create_addptr",
    )  # fmt: skip
    launch(kernel)
    value = "fmul(masked_load(addptr(splat(v), v), less(v, splat(v))), splat(v))"
    assert stored == [f"where(greater({value}, splat(v)), {value}, exp({value}))"]


def test_tensors_of_handles_that_a_program_makes(monkeypatch: pytest.MonkeyPatch):
    term = Term("sum", tl.float32, ())

    @tl.core.builtin
    def total(value: Any, _semantic: Any = None) -> Any:
        made = tl.core.tensor(term, value.dtype)
        made.handle.note = isinstance(made.handle, Term) and made.handle.data
        return made

    def kernel(x, out, n, N: tl.constexpr):
        tl.store(out + tl.arange(0, N), total(tl.load(x + tl.arange(0, N))))

    stored = replace_by_terms(
        monkeypatch, "create_masked_store", "create_masked_load", "create_splat", "create_addptr"
    )
    launch(kernel)
    assert stored == ["splat(sum)"] and vars(term)["note"] == "sum"


def test_comparisons_and_choices_by_functions_of_numpy(monkeypatch: pytest.MonkeyPatch):
    original = interpreter_builder.binary_op, interpreter_builder.ternary_op

    def less(ptr: Any, mask: Any, *_: Any) -> TensorHandle:
        a, b = (TensorHandle(np.full(16, v, np.float32), tl.float32) for v in (1, 2))
        condition = original[0](a, b, np.less)
        assert condition.dtype == tl.int1
        return original[1](condition, b, a, np.where)

    def kernel(x, out, n, N: tl.constexpr):
        tl.store(out + tl.arange(0, N), tl.load(x + tl.arange(0, N)))

    monkeypatch.setattr(interpreter_builder, "create_masked_load", less, raising=False)
    assert launch(kernel).tolist() == [2] * 16


def test_values_that_are_not_known_are_refused(monkeypatch: pytest.MonkeyPatch):
    replace_by_terms(monkeypatch, "create_fmul")
    message = r"arith.addf of a handle whose `data` is str, not a NumPy array; only a function in p"
    with pytest.raises(InterpreterError, match=message):
        launch()


def test_block_pointers_have_methods_of_their_own(watched: Callable[..., Calls]):
    def kernel(x, out, n, N: tl.constexpr):
        tile = tl.make_block_ptr(x, (n,), (1,), (0,), (N,), (0,))
        target = tl.make_block_ptr(out, (n,), (1,), (0,), (N,), (0,))
        tl.store(target, tl.load(tile, boundary_check=(0,)), boundary_check=(0,))

    calls = watched("create_tensor_pointer_load", "create_tensor_pointer_store",
                    "create_make_block_ptr", "create_masked_load")  # fmt: skip
    wanted = np.linspace(-3, 3, 16, dtype=np.float32) * (np.arange(16) < 13)
    np.testing.assert_array_equal(launch(kernel), wanted)
    assert [name for name, _ in calls] == [
        "create_make_block_ptr", "create_make_block_ptr",
        "create_tensor_pointer_load", "create_masked_load", "create_tensor_pointer_store",
    ]  # fmt: skip
    assert calls[0][1][4] == [16]
    pointers, mask, *_ = calls[3][1]
    assert np.diff(pointers.data).tolist() == [4] * 15 and mask.data.sum() == 13


def test_methods_build_operations_outside_of_replacements():
    with activate(EagerEmitter()):
        five, two = (TensorHandle(np.array([v], np.int32), tl.int32) for v in (5, 2))
        assert interpreter_builder.create_add(five, two).data == [7]
        splat = interpreter_builder.create_splat(tl.block_type(tl.int32, [4]), five)
        assert splat.data.tolist() == [5] * 4
        assert interpreter_builder.create_icmpSLT(five, two).data == [False]
        with pytest.raises(TypeError, match=r"create_add\(\) takes \(lhs, rhs\); 3 arguments"):
            interpreter_builder.create_add(five, two, two)


@tl.core.builtin
def product(a, b, _semantic=None):
    return tl.core.tensor(_semantic.builder.create_fmul(a.handle, b.handle), a.type)


def test_compiled_kernels_build_by_the_same_names():
    def kernel(x, out, n, N: tl.constexpr):
        value = tl.load(x + tl.arange(0, N))
        tl.store(out + tl.arange(0, N), product(value, value))

    x, out = np.linspace(-3, 3, 16, dtype=np.float32), np.zeros(16, np.float32)
    tritium.jit(kernel)[(1,)](x, out, 13, 16)
    np.testing.assert_array_equal(out, x * x)
    assert TritonSemantic().builder.create_fmul.__name__ == "create_fmul"
