"""Memory: launching and compiling again and again leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

from tritium import knobs

HEAD = """
    import gc, resource, sys
    import numpy as np
    import tritium, tritium.language as tl
    from tests.support.launching import add_kernel

    def resident():
        gc.collect()
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * resource.getpagesize()

    x, out = np.zeros(4096, np.float32), np.zeros(4096, np.float32)
"""

LAUNCHES = """
    def launch(count):
        for i in range(count):
            add_kernel[(4,)](x, x, out, 4000 + i % 16, BLOCK=1024)

    launch(2000)
    before = resident()
    launch(10_000)
    print(resident() - before)
"""

ERRORS = """
    def launch(count):
        for i in range(count):
            try:
                add_kernel[(4,)](x, object(), out, 4000, BLOCK=1024)
            except TypeError:
                pass
            else:
                raise AssertionError

    launch(500)
    before = resident()
    launch(2_000)
    print(resident() - before)
"""

KERNELS = """
    def compile_some(first, count):
        for size in range(first, first + count):
            kernel = tritium.jit(add_kernel.fn)
            kernel[(1,)](x, x, out, size + 1, BLOCK=64)

    from tritium import knobs
    knobs.compilation.always_compile = True
    compile_some(0, 10)
    before = resident()
    compile_some(10, 15)
    print((resident() - before) // 15)
"""


def measure(program: str, tmp_path: os.PathLike[str]) -> int:
    """Output of a program in a process of its own: bytes."""
    env = knobs.child_environment(
        PYTHONPATH=os.pathsep.join(sys.path), TRITON_CACHE_DIR=os.fspath(tmp_path)
    )
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(HEAD) + textwrap.dedent(program)],
        env=env, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    ("program", "limit"),
    [(LAUNCHES, 1 << 20), (ERRORS, 1 << 20), (KERNELS, 100 << 10)],
    ids=["launches", "failing launches", "kernels that are collected"],
)
def test_growth(tmp_path: os.PathLike[str], program: str, limit: int) -> None:
    assert measure(program, tmp_path) < limit
