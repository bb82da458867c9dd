"""The first launches of a process, before native code has learned any."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import numpy as np, tritium, tritium.language as tl

@tritium.jit
def add(x, y, n, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(y + at, tl.load(x + at) + n)

x, y = np.arange(8), np.zeros(8, np.int64)
for n in range(5, 10):
    # Strings that are equal to the names of the parameters, but other objects.
    add[(1,)](**dict(zip("xy", (x, y))), n=n, N=8)
    assert (y == x + n).all()
"""


def test_keywords_that_are_other_strings(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    subprocess.run([sys.executable, str(path)], check=True)


HOOKED = """
import torch, tritium, tritium.language as tl
from tritium import knobs
from tritium.native.pyobjects import TYPES, known_types

@tritium.jit
def put(x):
    tl.store(x + tl.arange(0, 8), 1.0)

def entered(metadata):
    print(bool(TYPES.read(known_types().address, "export")))

knobs.runtime.launch_enter_hook.add(entered)
put[(1,)](torch.zeros(8))
"""


@pytest.mark.cpu
def test_what_is_found_out_once_is_before_the_hook(tmp_path: Path):
    """A profiler takes what is between the hooks for the kernel's time: finding out how torch's
    tensors lie in memory takes more of it than a small kernel."""
    pytest.importorskip("torch")
    file = tmp_path / "hooked.py"
    file.write_text(HOOKED)
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True)
    assert done.stdout == "True\n", done.stderr
