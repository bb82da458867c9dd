"""Kernels that access memory which they may not: what is said, and how the process ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tritium import knobs

pytestmark = pytest.mark.skipif(
    not knobs.system().crash_reports, reason="a signal's context is not known here"
)

KERNEL = """
import faulthandler, os, signal, sys
import numpy as np, tritium, tritium.language as tl

@tritium.jit
def far_away(x, where, which):
    pid = tl.program_id(0)
    if pid == which:
        tl.store(x + where, 1.0)
    tl.store(x, 1.0)

@tritium.jit
def fine(x):
    tl.store(x, 1.0)
"""
FAR = 1 << 44


def run(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    file = Path(os.environ["TRITON_CACHE_DIR"]) / "crash.py"
    file.write_text(KERNEL + textwrap.dedent(program))
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3] / "src"), **environment}
    return subprocess.run(
        [sys.executable, str(file)], env=env, capture_output=True, text=True, timeout=100
    )


CRASH = f"x = np.zeros(8, 'f4'); fine[(1,)](x); far_away[(64,)](x, {FAR}, WHICH)"


@pytest.mark.covering(1)
@pytest.mark.parametrize("which", [0, 40])
@pytest.mark.parametrize("python", ["", "faulthandler.enable()"])
def test_the_kernel_is_named(which, python):
    done = run(f"{python}\n{CRASH.replace('WHICH', str(which))}")
    assert done.returncode == -signal.SIGSEGV
    assert done.stderr.count("kernel 'far_away' accessed memory") == 1
    assert "TRITON_INTERPRET=1" in done.stderr
    assert ("Fatal Python error" in done.stderr) == bool(python)


@pytest.mark.parametrize(
    "start", ["{0}", "import threading; threading.Thread(target=lambda: {0}).start()"]
)
def test_a_handler_that_comes_later_passes_the_signal_on(start):
    fine = "x = np.zeros(8, 'f4'); fine[(1,)](x); faulthandler.enable()"
    done = run(f"{fine}\n{start.format(f'far_away[(1,)](x, {FAR}, 0)')}")
    assert done.returncode == -signal.SIGSEGV and "Fatal Python error" in done.stderr
    assert done.stderr.count("kernel 'far_away' accessed memory") == 1


@pytest.mark.parametrize("python", ["", "faulthandler.enable()"])
def test_a_signal_that_was_sent_ends_the_process(python):
    done = run(f"""
        x = np.zeros(8, "f4"); fine[(1,)](x)
        {python}
        signal.raise_signal(signal.SIGSEGV)
        print("alive")
    """)
    assert done.returncode == -signal.SIGSEGV and done.stdout == ""
    assert "kernel" not in done.stderr


def test_a_knob_turns_it_off():
    done = run(CRASH.replace("WHICH", "0"), TRITIUM_CRASH_REPORTS="0")
    assert done.returncode == -signal.SIGSEGV and done.stderr == ""


def test_other_code_s_faults_are_left_to_others():
    done = run("""
        x = np.zeros(8, "f4"); fine[(1,)](x)
        import ctypes; ctypes.string_at(0)
    """)
    assert done.returncode == -signal.SIGSEGV and done.stderr == ""


def test_kernels_that_are_gone_are_forgotten():
    done = run("""
        import gc
        from tritium.native.crash import REGION, STATE, reporter
        x = np.zeros(8, "f4"); fine[(1,)](x)
        def live():
            first = STATE.read(reporter.state, "regions")
            count = STATE.read(reporter.state, "count")
            return sum(REGION.read(first + i * REGION.size, "end") != 0 for i in range(count))
        before = live()
        fine.device_caches.clear(); gc.collect()
        print(before, live())
    """)
    assert done.stdout == "1 0\n", done.stderr
