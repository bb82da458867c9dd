"""Programs of a grid that wait for each other, more of them than there are threads; interruption.

Each runs in a process of its own: it hangs where something is wrong, and gets signals.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tritium.native.pool import MAX_TOGETHER

ROOT = Path(__file__).parents[3]
HEAD = """
import time, numpy as np, tritium, tritium.language as tl
from tests.runtime.launch.waiting_kernels import *
"""


@pytest.fixture(params=["", "1"], ids=["linux", "portable"], autouse=True)
def portable(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With Linux's own interfaces, and with the portable ones."""
    monkeypatch.setenv("TRITIUM_PORTABLE", request.param)


def start(program: str, interpret: bool = False, threads: int = 2) -> subprocess.Popen[str]:
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    env = {
        **os.environ, "PYTHONPATH": path, "TRITON_INTERPRET": str(int(interpret)),
        "TRITIUM_NUM_THREADS": str(threads),
    }  # fmt: skip
    file = Path(os.environ["TRITON_CACHE_DIR"]) / f"waiting_{abs(hash(program))}.py"
    file.write_text(HEAD + textwrap.dedent(program))
    return subprocess.Popen(
        [sys.executable, str(file)], env=env, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def finish(process: subprocess.Popen[str], seconds: float = 100) -> tuple[str, str, int]:
    try:
        out, err = process.communicate(timeout=seconds)
    finally:
        process.kill()
    return out, err, process.returncode


@pytest.mark.every(2)
@pytest.mark.covering(1)
@pytest.mark.parametrize(("interpret", "threads"), [(False, 1), (False, 2), (True, 2)])
def test_all_programs_of_a_grid_wait_for_each_other(interpret, threads):
    # Interpreted programs that wait take turns: more of them or more grids take seconds.
    grids = "(3, False), (4, True)" if interpret else (
        "(1, False), (3, False), (20, False), (3, True), (20, True)")  # fmt: skip
    program = f"""
    for G, cooperative in ({grids}):
        count, out = np.zeros(1, "i4"), np.zeros(2 * G, "i4")
        barrier[(G,)](count, out, G, launch_cooperative_grid=cooperative)
        assert (out[G:] == sum(10 * i for i in range(G))).all(), out
        count[:] = 0
        volatile_barrier[(G, 1)](count, out, G, launch_cooperative_grid=cooperative)
        assert count[0] == G
        flags, out = np.zeros(G + 1, "i4"), np.zeros(G, "i4")
        from_the_end[(1, 1, G)[::-1]](flags, out, G, launch_cooperative_grid=cooperative)
        assert (out == np.arange(G)).all()
    print("done")
    """
    out, err, _ = finish(start(program, interpret, threads))
    assert out == "done\n", err


@pytest.mark.covering(1)
@pytest.mark.parametrize("interpret", [False, True])
def test_a_cooperative_grid_has_a_limit_and_polls_wait_for_programs_that_have_not_begun(interpret):
    program = f"""
    for G in ({MAX_TOGETHER} + 1, 100_000):
        try:
            barrier[(G,)](np.zeros(1, "i4"), np.zeros(2 * G, "i4"), G, launch_cooperative_grid=True)
        except ValueError as error:
            print(error)
    @tritium.jit
    def poll(flags, G):
        pid = tl.program_id(0)
        if pid < G - 1:
            tl.atomic_poll(flags + pid + 1, 1)
        tl.atomic_store(flags + pid, 1)
    for G in (2, 12):
        flags = np.zeros(G, "i4")
        poll[(G,)](flags, G)
        print(flags.all())
    """
    out, err, _ = finish(start(program, interpret))
    lines = out.splitlines()
    assert lines[2:] == ["True", "True"], err
    assert str(MAX_TOGETHER + 1) in lines[0] and "100000" in lines[1], err
    assert all(
        "launch_cooperative_grid" in line and str(MAX_TOGETHER) in line for line in lines[:2]
    )


@pytest.mark.every(2)
@pytest.mark.covering(1)
@pytest.mark.parametrize("interpret", [False, True])
@pytest.mark.parametrize("programs", [1, 5])
def test_a_signal_ends_programs_that_wait_for_ever(interpret, programs):
    program = f"""
    flag = np.zeros(2, "i4")
    for _ in range(2):
        flag[1] = 0
        say_when(flag, 1)
        try:
            for_ever[({programs},)](flag)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
    flag[:] = 1
    for_ever[({programs},)](flag)
    G, count, out = 9, np.zeros(1, "i4"), np.zeros(18, "i4")
    barrier[(G,)](count, out, G)
    print(out[G:].tolist() == [360] * G)
    """
    process = start(program, interpret)
    assert process.stdout is not None
    for _ in range(2):
        assert process.stdout.readline() == "runs\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "interrupted\n"
    out, err, _ = finish(process)
    assert out == "True\n", err


@pytest.mark.every(2)
@pytest.mark.covering(1)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("warm", [False, True])
def test_a_signal_ends_a_long_grid_between_its_programs(threads, warm):
    program = f"""
    x = np.ones(1025, "f4")
    long_programs[(64,)](x, 1)
    if {warm}:  # the pool knows what a program costs, at least
        long_programs[(64,)](x, 10)
        long_programs[(64,)](x, 1000)
    x[1024] = 0
    say_when(x, 1024)
    try:
        long_programs[(10_000_000,)](x, 1000)
    except KeyboardInterrupt:
        print("interrupted", 0 < x[1024] < 5_000_000, flush=True)
    x[1024] = 0
    long_programs[(64,)](x, 1)
    print(x[1024])
    """
    process = start(program, threads=threads)
    assert process.stdout is not None and process.stdout.readline() == "runs\n"
    process.send_signal(signal.SIGINT)
    assert finish(process)[:1] == ("interrupted True\n64.0\n",)


def test_a_failed_assertion_ends_programs_that_wait():
    program = """
    @tritium.jit(debug=True)
    def fails(flag):
        pid = tl.program_id(0)
        tl.device_assert(pid != 3, "third")
        while tl.atomic_add(flag, 0) == 0:
            pass
    try:
        fails[(6,)](np.zeros(1, "i4"))
    except RuntimeError as error:
        print("third" in str(error))
    """
    out, err, _ = finish(start(program))
    assert out == "True\n", err


def test_handlers_that_return_do_not_end_a_grid():
    program = """
    import signal
    seen = []
    signal.signal(signal.SIGUSR1, lambda *_: seen.append(1))
    x = np.ones(1025, "f4")
    x[1024] = 0
    say_when(x, 1024)
    while not seen:
        x[1024] = 0
        long_programs[(20_000,)](x, 100)
        assert x[1024] == 20_000
    print("seen")
    """
    process = start(program)
    assert process.stdout is not None and process.stdout.readline() == "runs\n"
    process.send_signal(signal.SIGUSR1)
    out, err, _ = finish(process)
    assert out == "seen\n", err
