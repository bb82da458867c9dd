"""The first launches of a process, before native code has learned any."""

import subprocess
import sys
from pathlib import Path

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
