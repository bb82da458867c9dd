"""`proton`: a session around a program."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tritium import compat
from tritium.profiler import proton

PROGRAM = """\
import sys
import numpy as np, triton, triton.language as tl, triton.profiler as proton

@triton.jit
def fill(x):
    tl.store(x, 2.0)

assert proton.start("other", hook="triton") is None
with proton.scope(sys.argv[1]):
    fill[(1,)](np.zeros(1, np.float32))
proton.finalize()
with proton.scope("later"):
    fill[(1,)](np.zeros(1, np.float32))
sys.exit(3)
"""


def test_a_program(tmp_path: Path) -> None:
    (tmp_path / "prog.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "tritium.profiler.proton", "-n", "out", "prog.py", "-n"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (3, "")
    assert [p.name for p in tmp_path.glob("*.hatchet")] == ["out.hatchet"]
    root = json.loads((tmp_path / "out.hatchet").read_text())[0]
    found = [(s["frame"]["name"], s["children"][0]["metrics"]["count"]) for s in root["children"]]
    assert found == [("-n", 1), ("later", 1)]


@pytest.mark.parametrize("arguments, text", [
    ([], "a program is needed"), (["none.py"], "none.py: no such file"),
    (["-b", "fast", "x.py"], "invalid choice: 'fast'"),
    ([str(Path(__file__).parent)], "a folder without __main__.py"),
    ([sys.executable], f"{sys.executable} is no program: it is no text"),
    (["-n", "none/p", __file__], "--name none/p: there is no folder none"),
])  # fmt: skip
def test_wrong_uses(capsys: pytest.CaptureFixture[str], arguments: list[str], text: str) -> None:
    with pytest.raises(SystemExit):
        proton.main(arguments)
    assert text in capsys.readouterr().err
    assert not proton.flags.command_line


def test_a_mode_that_the_backend_has_not() -> None:
    try:
        with pytest.raises(SystemExit, match=r"proton: profiler\.start: mode='fast'"):
            proton.main(["-m", "fast", __file__])
    finally:
        compat.uninstall()
