"""Faults of the compiler: what is told of the kernel, and that the compiler's frames are folded."""

from __future__ import annotations

import pickle
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tritium import knobs
from tritium.backends.cpu import stages
from tritium.codegen.registry import rules
from tritium.errors import CompilationError, InternalError
from tritium.language.builtins import memory
from tritium.ops.arith import AddIOp


@tritium.jit
def plus(i, n):
    return i + n


@tritium.jit
def add_by_helper(x, n):
    i = tl.program_id(0)
    total = plus(i, n)
    tl.store(x + i, total)


@tritium.jit
def add_one(x, n):
    i = tl.program_id(0)
    total = i + n
    tl.store(x + i, total)


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path):
    with knobs.cache.scope(), knobs.compilation.scope():
        knobs.cache.dir = str(tmp_path / "cache")
        add_one.device_caches.clear()
        yield
        add_one.device_caches.clear()


def launch() -> InternalError:
    with pytest.raises(InternalError) as caught:
        add_one[(1,)](np.zeros(1, np.int32), 5)
    return caught.value


def test_a_fault_names_kernel_line_and_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise KeyError("no such thing")

    monkeypatch.setitem(rules("cpu.scalar"), AddIOp, fail)
    error = launch()
    place = f"{__file__}:{add_one.starting_line_number + 3} (line 3 of the function)"
    text = str(error)
    assert text.startswith("internal error of the compiler: KeyError: 'no such thing'\n")
    assert f"kernel 'add_one', stage 'llir', {place}" in text
    assert "TRITON_KERNEL_DUMP=1" in text and "send the folder" in text
    assert isinstance(error.__cause__, KeyError)
    shown = "".join(traceback.format_exception(error))
    assert shown.count("src/tritium/") < 6 and error.details.count('File "') > 6
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.details) == (text, error.details)
    knobs.compilation.front_end_debugging = True
    shown = "".join(traceback.format_exception(launch()))
    assert "in lower_function" in shown


def test_a_fault_in_a_helper_names_the_line_of_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise KeyError("no such thing")

    monkeypatch.setitem(rules("cpu.scalar"), AddIOp, fail)
    with pytest.raises(InternalError) as caught:
        add_by_helper[(1,)](np.zeros(1, np.int32), 5)
    place = f"{__file__}:{plus.starting_line_number + 2}\n"
    assert f"kernel 'add_by_helper', stage 'llir', {place}" in str(caught.value)


def test_a_fault_while_the_source_is_visited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "pointer_type", int)  # breaks an assertion
    with pytest.raises(CompilationError) as caught:
        add_one[(1,)](np.zeros(1, np.int32), 5)
    text = str(caught.value)
    assert text.startswith("at 4:4:\n")
    assert "internal error of the compiler: AssertionError()" in text
    assert "TRITON_KERNEL_DUMP=1" in text and "send the folder" in text


def test_errors_of_what_the_kernel_says_are_no_faults() -> None:
    kernels = [lambda x: x.nothing, lambda x: tl.store(x, {1: 2}[3])]
    for function in kernels:

        @tritium.jit
        def wrong(x, f: tl.constexpr):
            f(x)

        with pytest.raises(CompilationError) as caught:
            wrong[(1,)](np.zeros(1, np.int32), tritium.constexpr_function(function))
        assert "internal" not in str(caught.value)


def test_text_that_llvm_does_not_take_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "lower_to_llvm", lambda module, host, fuse: ("define nothing", {}))
    text = str(launch())
    assert "stage 'obj'" in text and "add_one" in text and __file__ in text


class Mine(Exception):
    """An error that only a user's stage raises."""


@pytest.mark.parametrize("kind", [Mine, AttributeError])
def test_errors_of_stages_that_users_add_are_theirs(kind: type[Exception]) -> None:
    def fail(module: Any, metadata: Any) -> Any:
        raise kind("mine")

    def hook(*arguments: Any) -> Any:
        if arguments:
            arguments[1]["llir"] = fail
        return "key", "hash"

    with knobs.runtime.scope():
        knobs.runtime.add_stages_inspection_hook = hook
        with pytest.raises(kind, match=r"^mine$"):
            add_one[(1,)](np.zeros(1, np.int32), 5)


def test_frames_of_the_compiler_are_folded() -> None:
    @tritium.jit
    def wrong(x):
        tl.store(x, nothing)  # noqa: F821

    with pytest.raises(CompilationError) as caught:
        wrong[(1,)](np.zeros(1, np.int32))
    files = [frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert sum("src/tritium/" in file for file in files) <= 4


def test_a_kernel_that_is_nested_too_deeply_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        return fail()

    monkeypatch.setitem(rules("cpu.scalar"), AddIOp, fail)
    with pytest.raises(CompilationError, match="nested too deeply") as caught:
        add_one[(1,)](np.zeros(1, np.int32), 5)
    assert "kernel 'add_one', stage 'llir'" in str(caught.value)
    assert "fault of Tritium" not in str(caught.value)
