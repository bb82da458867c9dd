"""Extension modules from C."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tritium import knobs
from tritium.runtime import build
from tritium.runtime.build import compile_module_from_src

SOURCE = """
#define PY_SSIZE_T_CLEAN
#include <Python.h>
static PyObject *go(PyObject *self, PyObject *args) {
    const char *word;
    if (!PyArg_ParseTuple(args, "s", &word)) return NULL;
    return PyUnicode_FromString(strcmp(word, "hello") ? "what?" : "hiya");
}
static PyMethodDef methods[] = {{"go", go, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "NAME", NULL, -1, methods};
PyMODINIT_FUNC PyInit_NAME(void) { return PyModule_Create(&definition); }
"""

needs_cc = pytest.mark.skipif(
    shutil.which("gcc") is None and shutil.which("clang") is None, reason="needs a C compiler"
)


def module(name: str = "hi", **options: Any) -> Any:
    return compile_module_from_src(SOURCE.replace("NAME", name), name, **options)


@needs_cc
def test_a_module_is_built_once(fresh_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = module()
    assert first.go("hello") == "hiya"
    monkeypatch.setattr(build, "_build", None)
    again = module()
    assert again.__file__ == first.__file__ and str(fresh_cache) in again.__file__


@needs_cc
def test_a_damaged_module_is_built_again(fresh_cache: Path) -> None:
    path = Path(module("other").__file__)
    path.unlink()  # it is mapped
    path.write_bytes(b"not a module")
    with pytest.warns(RuntimeWarning, match="damaged"):
        assert module("other").go("hello") == "hiya"


@needs_cc
def test_a_module_that_cannot_be_imported(fresh_cache: Path) -> None:
    with knobs.build.scope():
        knobs.build.impl = lambda name, src, srcdir, *_: _broken(srcdir)
        with pytest.raises(ImportError):
            module("third")
    with pytest.warns(RuntimeWarning, match=r"third.* cannot be imported .*; it is built again"):
        assert module("third").go("hello") == "hiya"


def _broken(folder: str) -> str:
    path = Path(folder, "broken.so")
    path.write_bytes(b"nonsense")
    return str(path)


@needs_cc
def test_errors_of_the_compiler(fresh_cache: Path) -> None:
    with pytest.raises(RuntimeError, match=r"(?s)building bad failed: .*cc.*-shared.*error"):
        compile_module_from_src("int f( {", "bad")


def test_compilers(fresh_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with knobs.build.scope():
        knobs.build.cc = "/no/such/compiler -m64"
        with pytest.raises(RuntimeError, match=r"the C compiler /no/such/compiler cannot be run"):
            module("fourth")
        knobs.build.cc = None
        monkeypatch.setenv("PATH", "")
        with pytest.raises(RuntimeError, match=r"no gcc or clang on PATH; set CC to"):
            module("fourth")


def test_another_implementation(fresh_cache: Path) -> None:
    calls: list[Any] = []

    def impl(name: str, src: str, srcdir: str, *lists: Any) -> str:
        calls.append((name, Path(src).read_text()[:10], lists))
        return _broken(srcdir)

    with knobs.build.scope():
        knobs.build.impl = impl
        with pytest.raises(ImportError):
            compile_module_from_src("int x = 1;", "k", ["/l"], ["/i"], ["m"])
    assert calls == [("k", "int x = 1;", (["/l"], ["/i"], ["m"]))]


@pytest.mark.parametrize("made", [None, 3, "/nowhere/hello.so", "/"])
def test_an_implementation_that_builds_nothing(
    fresh_cache: Path, monkeypatch: pytest.MonkeyPatch, made: Any
) -> None:
    monkeypatch.setitem(knobs.build.__dict__, "impl", lambda *arguments: made)
    message = rf"knobs\.build\.impl returned {made!r} for hello; the path of the module"
    with pytest.raises(RuntimeError, match=message):
        compile_module_from_src(SOURCE, "hello")


def test_a_command_that_cannot_be_split(fresh_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", 'gcc "')
    message = r'CC=gcc " \(knobs\.build\.cc\) is no command line: no closing quotation'
    with pytest.raises(RuntimeError, match=message):
        compile_module_from_src(SOURCE, "hello")


def test_arguments_of_the_wrong_kind(fresh_cache: Path) -> None:
    with pytest.raises(TypeError, match=r"src is .*a\.c.*; C source, a str, is required"):
        compile_module_from_src(Path("a.c"), "hello")  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="libraries is 'm'; a list is required"):
        compile_module_from_src(SOURCE, "hello", libraries="m")
