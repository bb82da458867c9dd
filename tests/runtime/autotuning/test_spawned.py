"""Compile workers that are new Python processes: jobs, errors, crashes, limits, pauses, tuning."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tritium import knobs
from tritium.errors import OutOfResources
from tritium.runtime import Config
from tritium.runtime.workers import compile_ahead, spawned
from tritium.runtime.workers.children import ChildCrash, ChildTimeout, WorkerMismatch
from tritium.runtime.workers.spawned import SpawnedWorkers

BLOCKS = [Config({"BLOCK": block}) for block in (16, 32, 64, 128)]


@tritium.jit
def double(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < n) * 2, i < n)


def own_process() -> tuple[int, int]:
    return os.getpid(), os.getppid()


def fail(text: str) -> None:
    print("it prints before")  # not into what its parent reads
    raise OutOfResources(2, 1, text)


def refuse() -> None:
    raise WorkerMismatch("not here")


def outcomes(workers: SpawnedWorkers, jobs: Mapping[Any, Any]) -> dict[Any, Any]:
    """Answers by key: a result or an error. Each is -1 where it is done here."""
    workers.start({key: (job, lambda: -1) for key, job in jobs.items()})
    found: dict[Any, Any] = {}
    while len(workers):
        key, result = workers.next()
        try:
            found[key] = result()
        except Exception as error:
            found[key] = error
    return found


def test_jobs_come_back_from_few_processes() -> None:
    with closing(SpawnedWorkers(2, 100)) as workers:
        found = outcomes(workers, dict.fromkeys(range(6), own_process))
    assert set(found) == set(range(6)) and {parent for _, parent in found.values()} == {os.getpid()}
    assert len({own for own, _ in found.values()}) <= 2


def test_errors_crashes_and_what_cannot_be_sent() -> None:
    jobs = {
        "error": partial(fail, "threads"), "crash": partial(os._exit, 3), "refused": refuse,
        "lambda": lambda: 0, "large": partial(bytes, 3_000_000), "last": own_process,
    }  # fmt: skip
    with closing(SpawnedWorkers(1, 100)) as workers:
        found = outcomes(workers, jobs)
    with pytest.raises(OutOfResources, match="threads, Required: 2"):
        raise found["error"]
    with pytest.raises(ChildCrash, match=r"crashed \(exit status 3\)"):
        raise found["crash"]
    assert found["refused"] == found["lambda"] == -1 and len(found["large"]) == 3_000_000
    assert found["last"][1] == os.getpid()


def test_a_job_has_a_limit() -> None:
    with closing(SpawnedWorkers(1, 2)) as workers:
        found = outcomes(workers, {"hangs": partial(time.sleep, 1000), "after": os.getppid})
    with pytest.raises(ChildTimeout, match="took longer than 2 s"):
        raise found["hangs"]
    assert found["after"] == os.getpid()


def wait_for_file(go: Path) -> None:
    while not go.exists():
        time.sleep(0.001)


def test_no_job_begins_in_a_pause(tmp_path: Path) -> None:
    go, done = tmp_path / "go", tmp_path / "done"
    with closing(SpawnedWorkers(1, 100)) as workers:
        jobs = {"first": partial(wait_for_file, go), "second": done.touch}
        workers.start({key: (job, lambda: -1) for key, job in jobs.items()})
        change: Any = workers._change  # pyright: ignore[reportPrivateUsage]
        while not workers._running:  # pyright: ignore[reportPrivateUsage]
            time.sleep(0.001)
        with change:  # which the second needs to begin, until the pause waits for the first
            go.touch()
            with workers.paused():
                while not (change._waiters or done.exists()):  # the second waits
                    change.wait(0.001)
                assert workers._running == 0  # pyright: ignore[reportPrivateUsage]
                assert not done.exists()
        while len(workers):
            workers.next()[1]()
    assert done.exists()


def test_closing_ends_what_runs() -> None:
    workers = SpawnedWorkers(1, 1000)
    workers.start({i: (partial(time.sleep, 1000), lambda: -1) for i in range(3)})
    while not workers._processes:  # pyright: ignore[reportPrivateUsage]
        time.sleep(0.01)
    workers.close()
    assert len(workers) == 0
    popen: Any = workers._processes[0]._popen  # pyright: ignore[reportPrivateUsage]
    assert popen.poll() is not None and len(workers._processes) == 1  # pyright: ignore


@contextmanager
def portable(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The portable interfaces; how many processes are started."""
    started: list[int] = []
    process = spawned._Process  # pyright: ignore[reportPrivateUsage]

    def counting() -> Any:
        started.append(1)
        return process()

    monkeypatch.setattr(spawned, "_Process", counting)
    monkeypatch.setenv("TRITIUM_PORTABLE", "1")
    monkeypatch.setattr(knobs.autotuning, "workers", 2)
    yield started


def launch(kernel: Any) -> None:
    x, out = np.arange(500, dtype=np.float32), np.zeros(500, np.float32)
    kernel[lambda meta: (tritium.cdiv(500, meta["BLOCK"]),)](x, out, 500)
    np.testing.assert_array_equal(out, 2 * x)


def test_tuning_compiles_in_new_processes(
    fresh_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here: list[Any] = []
    run = compile_ahead._run  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(compile_ahead, "_run", lambda job: here.append(job) or run(job))
    with portable(monkeypatch) as started:
        kernel = tritium.autotune(configs=BLOCKS, key=["n"])(double)
        launch(kernel)
    assert len(kernel.configs_timings) == 4 and not kernel.failures
    assert len(started) == 2 and not here


def test_kernels_that_cannot_be_imported_are_compiled_here(
    fresh_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with portable(monkeypatch) as started:
        kernel = tritium.autotune(configs=BLOCKS, key=["n"])(tritium.jit(double.fn))
        launch(kernel)
    assert len(kernel.configs_timings) == 4 and not kernel.failures and not started


def test_a_program_of_one_file_is_not_run_again(tmp_path: Path, fresh_cache: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent("""
        import numpy as np, tritium, tritium.language as tl
        print("runs")
        @tritium.autotune([tritium.Config({"B": 1 << k}) for k in (4, 5, 6)], key=["n"])
        @tritium.jit
        def fill(x, n, B: tl.constexpr):
            i = tl.program_id(0) * B + tl.arange(0, B)
            tl.store(x + i, i, i < n)
        x = np.zeros(300, np.int32)
        fill[lambda meta: (tritium.cdiv(300, meta["B"]),)](x, 300)
        print((x == np.arange(300)).all(), len(fill.configs_timings))
    """))
    env = knobs.child_environment(
        TRITIUM_PORTABLE="1", PYTHONPATH=os.pathsep.join(sys.path), TRITIUM_AUTOTUNE_WORKERS="2"
    )
    done = subprocess.run([sys.executable, program], env=env, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("runs\nTrue 3\n", "")
