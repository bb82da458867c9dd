"""A backend of someone else's, in a wheel: found, compiles, launches through C."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import pytest

from tests.runtime.backends.dummy_backend import COMPILER, DRIVER
from tritium import knobs

LAUNCHER = '''
from tritium.runtime.build import compile_module_from_src

SOURCE = """
#include <Python.h>
static long counter = 0;
static PyObject *launch(PyObject *self, PyObject *args) {
    counter += PyLong_AsLong(PyTuple_GET_ITEM(args, 0));
    Py_RETURN_NONE;
}
static PyObject *count(PyObject *self, PyObject *args) { return PyLong_FromLong(counter); }
static PyMethodDef methods[] = {
    {"launch", launch, METH_VARARGS, NULL}, {"count", count, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "launch_counter", NULL, -1, methods};
PyMODINIT_FUNC PyInit_launch_counter(void) { return PyModule_Create(&definition); }
"""


class Launcher:
    """Built when a kernel is launched first; C from there on."""

    def __init__(self, src, metadata):
        self.native = compile_module_from_src(SOURCE, "launch_counter")
        self.launch = self.native.launch

    def __call__(self, gx, gy, gz, stream, function, packed, data, enter, exit_, *args):
        self.launch(gx * gy * gz, *args)
'''

PROGRAM = """
    import sys
    import numpy as np
    import tritium, tritium.language as tl
    from tritium.backends import backends
    from tritium.backends.compiler import GPUTarget
    from tritium.runtime import driver

    assert set(backends) >= {"cpu", "dummy"}, list(backends)
    assert backends["dummy"].compiler.__module__ == "dummy_backend.compiler"

    @tritium.jit
    def fill(out, value, N: tl.constexpr):
        tl.store(out + tl.arange(0, N), value)

    target = GPUTarget("dummy", "v1", 1)
    source = tritium.compiler.ASTSource(fill, {"out": "*i32", "value": "i32"}, {"N": 8})
    kernel = tritium.compile(source, target)
    assert list(kernel.asm) == ["source", "ttir", "words"] and b"tt.store" in kernel.asm["words"]

    assert driver.active.get_current_target() == target, "the only usable driver is the active one"
    out = np.zeros(8, np.int32)
    for _ in range(100):
        compiled = fill[(2, 3)](out, 7, 8)
    native = compiled.run.native
    print(native.count(), native.__file__)
"""


def make_wheel(folder: Path) -> Path:
    """A wheel with the backend's package and its entry point."""
    driver = DRIVER.replace("usable = False", "usable = True")
    start = driver.index("    def launcher_cls(")
    driver = driver[:start] + "    launcher_cls = Launcher\n"
    driver = driver.replace("class DummyUtils", "from dummy_backend.launcher import Launcher\n\n\n"
                            "class DummyUtils", 1)  # fmt: skip
    info = "dummy_backend-1.0.dist-info"
    files = {
        "dummy_backend/__init__.py": "",
        "dummy_backend/compiler.py": COMPILER,
        "dummy_backend/driver.py": driver,
        "dummy_backend/launcher.py": LAUNCHER,
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: dummy-backend\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: hand\nRoot-Is-Purelib: true\n"
                         "Tag: py3-none-any\n",
        f"{info}/entry_points.txt": "[triton.backends]\ndummy = dummy_backend\n",
    }  # fmt: skip
    record = [f"{name},sha256={_digest(text)},{len(text.encode())}" for name, text in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,", ""])
    path = folder / "dummy_backend-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)
    return path


def _digest(text: str) -> str:
    raw = hashlib.sha256(text.encode()).digest()
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


@pytest.mark.skipif(
    shutil.which("gcc") is None and shutil.which("clang") is None, reason="needs a C compiler"
)
def test_a_backend_in_a_wheel(tmp_path: Path) -> None:
    site = tmp_path / "site"
    options = ["--no-index", "--no-deps", "--no-compile", "--quiet", "--target", str(site)]
    subprocess.run(
        [sys.executable, "-m", "pip", "install", *options, str(make_wheel(tmp_path))], check=True
    )
    (tmp_path / "program.py").write_text(textwrap.dedent(PROGRAM))
    env = knobs.child_environment(
        PYTHONPATH=os.pathsep.join([str(site), *sys.path]), TRITON_CACHE_DIR=str(tmp_path / "cache")
    )
    command = [sys.executable, str(tmp_path / "program.py")]
    built: set[str] = set()
    for _ in range(2):  # what is built the first time is found in the cache the second
        done = subprocess.run(command, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        launches, file = done.stdout.split()
        assert int(launches) == 600 and str(tmp_path / "cache") in file
        built.add(f"{file} {os.stat(file).st_mtime_ns}")
    assert len(built) == 1
