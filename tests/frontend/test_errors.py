"""Errors as users see them: the line, the caret, the cause, and no compiler frames."""

import pickle
import sys
import traceback

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tests.support.frontend import compile_kernel, text_of
from tritium.errors import (
    CompilationError,
    CompileTimeAssertionFailure,
    TritonError,
    UnsupportedLanguageConstruct,
)
from tritium.language.jit.function import device_function as jit

LIMIT = 42
CONSTANT = tl.constexpr(3)
ANNOTATED: tl.constexpr = 42


def failure(kernel, **args):
    with pytest.raises(CompilationError) as caught:
        text_of(kernel, **args)
    return caught.value


@jit
def bad_arange():
    x = tl.zeros((4,), tl.float32)  # noqa: F841
    y = tl.arange(2, 7)  # noqa: F841


def test_the_caret_is_under_the_expression():
    error = failure(bad_arange)
    lines = str(error).split("\n")
    assert lines[0] == "at 3:8:"
    assert lines[-3].startswith("    y = tl.arange(2, 7)")
    assert lines[-2] == "        ^"
    assert "arange's range must be a power of 2" in lines[-1]
    assert "arange's range must be a power of 2" in str(error.__cause__)
    assert isinstance(error.__cause__, ValueError)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 shows no notes")
def test_a_note_names_the_file_and_the_line_in_it():
    error = failure(bad_arange)
    line = bad_arange.starting_line_number + 3
    note = f"in the kernel function 'bad_arange', {__file__}:{line}"
    assert "".join(traceback.format_exception(error)).endswith(f"\n{note}\n")
    assert pickle.loads(pickle.dumps(error)).__notes__ == [note]


@jit
def inner(x):
    return x + undefined_name  # noqa: F821


@jit
def outer():
    return inner(1)


@jit
def outermost():
    outer()


def test_nested_calls_show_each_frame():
    error = failure(outermost)
    assert "outer()" in str(error)
    assert "return inner(1)" in str(error.__cause__)
    innermost = error.__cause__.__cause__
    assert "NameError('undefined_name is not defined')" in str(innermost)
    assert isinstance(innermost.__cause__, NameError)
    assert str(error).endswith("\n    ^\ninner: NameError('undefined_name is not defined')")


def test_errors_pickle():
    error = pickle.loads(pickle.dumps(failure(bad_arange)))
    assert str(error) == str(failure(bad_arange))


@tritium.jit
def bad_kernel():
    x = tl.arange(2, 7)  # noqa: F841


def frames_of(error):
    return [f.filename for f in traceback.extract_tb(error.__traceback__)]


def test_compiler_frames_are_hidden_unless_asked_for():
    with pytest.raises(CompilationError) as hidden:
        bad_kernel.warmup(grid=(1,))
    assert not any("/tritium/frontend/" in f for f in frames_of(hidden.value))
    assert not any("/tritium/frontend/" in f for f in frames_of(hidden.value.__cause__))
    with pytest.raises(ValueError, match="power of 2") as caught:
        compile_kernel(bad_arange, debugging=True)
    assert any(f.endswith("frontend/visitor.py") for f in frames_of(caught.value))


@jit
def asserts(N: tl.constexpr):
    tl.static_assert(N == 3, "N must be three")


def test_static_assertions():
    text_of(asserts, N=3)
    error = failure(asserts, N=4)
    assert isinstance(error, CompileTimeAssertionFailure)
    assert "at 2:4:" in str(error)
    assert isinstance(error, TritonError)


@jit
def reads_global(out):
    tl.store(out, LIMIT)


@jit
def reads_annotated(out):
    tl.store(out, ANNOTATED)


@jit
def reads_constexpr(out):
    tl.store(out, CONSTANT)


def test_globals_rule():
    out = np.zeros(1, np.int32)
    assert "Cannot access global variable LIMIT" in str(failure(reads_global, out=out))
    assert "Cannot access global variable ANNOTATED" in str(failure(reads_annotated, out=out))
    text_of(reads_constexpr, out=out)


def test_captured_variables():
    captured = 42

    @jit
    def kernel(out):
        tl.store(out, captured)

    assert "captured is not defined" in str(failure(kernel, out=np.zeros(1, np.int32)))


def statement_kernels():
    @jit
    def with_break(n):
        for _ in range(n):
            break

    @jit
    def with_try(n):
        try:  # noqa: SIM105
            n = 1  # noqa: F841
        except ValueError:
            pass

    @jit
    def with_nested_def(n):
        def f():
            pass

    @jit
    def with_lambda(n):
        f = lambda: 1  # noqa: E731, F841

    @jit
    def with_dict(n):
        x = {1: n}  # noqa: F841

    @jit
    def with_import(n):
        import os  # noqa: F401

    return [with_break, with_try, with_nested_def, with_lambda, with_dict, with_import]


@pytest.mark.parametrize("kernel", statement_kernels(), ids=lambda k: k.__name__)
def test_unsupported_constructs(kernel):
    assert isinstance(failure(kernel, n=2), UnsupportedLanguageConstruct)


def test_item_assignment_says_what_to_do():
    @jit
    def kernel(n):
        x = tl.zeros((4,), tl.float32)
        x[0] = 1

    assert "tl.where" in str(failure(kernel, n=2))


def test_python_functions_need_compile_time_values():
    def plain(x):
        return x + 1

    @jit
    def kernel(n):
        plain(n)

    assert "decorate it with @triton.jit" in str(failure(kernel, n=2))


def test_recursion():
    assert "recursion is not supported" in _chain(failure(recursive_kernel, n=3))


@jit
def recursive(n):
    return recursive(n - 1)


@jit
def recursive_kernel(n):
    recursive(n)


def _chain(error):
    texts = []
    while error is not None:
        texts.append(str(error))
        error = error.__cause__
    return "\n".join(texts)


def test_wrong_argument_count():
    @jit
    def kernel(n):
        inner(1, 2)

    assert "too many positional arguments" in _chain(failure(kernel, n=3))


def test_a_kernel_returns_nothing():
    @jit
    def kernel(n):
        return n

    assert "a kernel cannot return a value" in str(failure(kernel, n=3))


@tritium.constexpr_function
def complaining():
    raise KeyError("why")


@jit
def calls_it():
    complaining()


def causes_of(error):
    kinds = []
    while error.__cause__ is not None:
        error = error.__cause__
        kinds.append(type(error))
    return kinds


def test_errors_carry_their_cause():
    @jit
    def direct():
        complaining()

    @jit
    def inner():
        calls_it()

    @jit
    def unpacks():
        a, b = (1, 2, 3)  # noqa: F841

    @jit
    def tests_a_block():
        if tl.arange(0, 8) > 3:
            pass

    @jit
    def formats(x):
        _ = f"{tl.load(x)}"

    assert causes_of(failure(direct)) == [KeyError]
    assert causes_of(failure(inner)) == [CompilationError, KeyError]
    assert causes_of(failure(unpacks)) == [TypeError]
    assert causes_of(failure(tests_a_block)) == [ValueError]
    assert causes_of(failure(formats, x=np.zeros(1))) == [TypeError]


def test_a_tensor_is_made_of_a_value_of_the_ir():
    @jit
    def of_a_number():
        tl.tensor(3, tl.int32)

    error = failure(of_a_number)
    assert "tl.tensor(3, int32): the first argument is a value of the IR; tl.full(" in str(error)


@jit
def opens(PATH: tl.constexpr):
    open(PATH, "w")  # noqa: SIM115


@jit
def opens_with(PATH: tl.constexpr):
    with open(PATH, "w"):
        pass


@jit
def evaluates(PATH: tl.constexpr):
    eval("open(PATH, 'w')")


@pytest.mark.parametrize("kernel", [opens, opens_with, evaluates], ids=lambda k: k.__name__)
def test_python_that_changes_the_world_does_not_run_at_compile_time(kernel, tmp_path):
    file = tmp_path / "file"
    file.write_text("precious")
    error = failure(kernel, PATH=str(file))
    assert "would run when the kernel is compiled" in str(error)
    assert file.read_text() == "precious"


@jit
def pure_python():
    pairs = dict(zip(("a", "b"), sorted((2, 1))))  # noqa: B905
    tl.static_assert(sum(pairs.values()) + round(1.6) == 5 and any([False, True]))


def test_python_functions_of_constants_run_at_compile_time():
    text_of(pure_python)
