"""Tuning side by side: child processes, executors, hanging and crashing configurations."""

from __future__ import annotations

import copy
import io
import mmap
import os
import pickle
import select
import signal
import subprocess
import sys
import textwrap
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tests.support.launching import module_from
from tritium import knobs
from tritium.compiler import ASTSource
from tritium.errors import AutotunerError
from tritium.runtime import Config, JITFunction
from tritium.runtime.autotuning import display as tuning_display
from tritium.runtime.autotuning.display import TuningDisplay
from tritium.runtime.autotuning.measuring import Trials, race
from tritium.runtime.workers import children, compile_ahead
from tritium.runtime.workers.children import (
    ChildCrash,
    ChildError,
    ChildTimeout,
    ForkedWorkers,
    ForkWorker,
)
from tritium.runtime.workers.compile_ahead import ExecutorWorkers, LocalWorkers, WorkerMismatch

BLOCKS = [Config({"BLOCK": block}) for block in (16, 32, 64, 128, 256)]


@pytest.fixture(autouse=True)
def forks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Children are forked; test_spawned.py is about the portable ones."""
    monkeypatch.delenv("TRITIUM_PORTABLE", raising=False)


@tritium.jit
def double(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < n) * 2, i < n)


@tritium.jit
def halve(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < n) / 2, i < n)


def grid(meta: dict[str, Any]) -> tuple[int]:
    return (tritium.cdiv(meta["n"], meta["BLOCK"]),)


def look(call: Any, quantiles: Any) -> list[float]:
    """A benchmark for which all configurations are equally fast."""
    call()
    return [1.0] * 3


def tuned(kernel: Any, configs: Any = BLOCKS, **options: Any) -> Any:
    options.setdefault("do_bench", look)
    return tritium.autotune(configs=configs, key=["n"], **options)(kernel)


def launch(kernel: Any, n: int = 500, dtype: Any = np.float32) -> None:
    x, out = np.arange(n, dtype=dtype), np.zeros(n, dtype)
    kernel[grid](x, out, n)
    base: Any = kernel.base_fn
    np.testing.assert_array_equal(out, x / 2 if "halve" in base.__name__ else x * 2)


# Child processes


def asked(answer: Any, *question: Any, limit: float = 20) -> Any:
    """Answer of a child to one question."""
    with closing(ForkWorker(answer, limit)) as worker:
        return worker.ask(*question)


def test_a_child_returns_its_result() -> None:
    assert asked(lambda x: (os.getppid(), x), 1) == (os.getpid(), 1)


def test_a_child_answers_again_and_again() -> None:
    def answer(number: int) -> tuple[int, bytes]:
        if number == 2:
            raise ValueError("not two")
        return os.getpid(), bytes(number)

    with closing(ForkWorker(answer, 20)) as worker:
        first = worker.ask(3)
        with pytest.raises(ValueError, match=r"not two"):
            worker.ask(2)
        assert worker.ask(100_000) == (first[0], bytes(100_000)) and first[1] == bytes(3)
        assert worker.ask(1) == (first[0], bytes(1)), "nothing is left of the longer answer"


def test_a_childs_error_is_raised() -> None:
    def fail() -> None:
        raise tritium.OutOfResources(2, 1, "threads")

    with pytest.raises(tritium.OutOfResources, match=r"threads, Required: 2"):
        asked(fail)


def test_an_error_that_does_not_pickle() -> None:
    class Local(Exception):
        pass

    def fail() -> None:
        raise Local("for some reason")

    with pytest.raises(ChildError, match=r"Local: for some reason"):
        asked(fail)


def test_a_crash_is_named() -> None:
    with pytest.raises(ChildCrash, match=r"crashed \(SIGKILL\)"):
        asked(lambda: os.kill(os.getpid(), signal.SIGKILL))
    with pytest.raises(ChildCrash, match=r"crashed \(exit status 3\)"):
        asked(lambda: os._exit(3))


def test_who_has_crashed_answers_no_more() -> None:
    with closing(ForkWorker(os._exit, 20)) as worker:
        with pytest.raises(ChildCrash, match=r"exit status 4"):
            worker.ask(4)
        with pytest.raises(ChildCrash, match=r"is gone"):
            worker.ask(0)


def test_a_hanging_child_is_stopped_with_its_children() -> None:
    """All processes that could write to the pipe have ended when it can be read to its end."""
    read, write = os.pipe()

    def hang() -> None:
        subprocess.Popen(["sleep", "1000"], pass_fds=[write]).wait()

    with pytest.raises(ChildTimeout, match=r"took longer than 1 s"):
        asked(hang, limit=1.0)
    os.close(write)
    assert select.select([read], [], [], 60)[0] and os.read(read, 1) == b""
    os.close(read)


def test_questions_and_answers_larger_than_a_pipe() -> None:
    assert asked(lambda x: x + x, bytes(5_000_000)) == bytes(10_000_000)


@contextmanager
def working(count: int, limit: float, jobs: dict[Any, Any]) -> Iterator[ForkedWorkers]:
    with closing(ForkedWorkers(count, limit)) as workers:
        workers.start(jobs)
        yield workers


def test_workers_run_side_by_side(tmp_path: Path) -> None:
    """The first three jobs end only when all three have begun."""

    def job(number: int) -> Any:
        (tmp_path / str(number)).touch()
        while len(list(tmp_path.iterdir())) < 3:
            time.sleep(0.01)
        return number, os.getpid()

    with working(3, 100, {number: partial(job, number) for number in range(6)}) as workers:
        results = [workers.next()[1]() for _ in range(6)]
        assert sorted(number for number, _ in results) == list(range(6)) and not len(workers)
    assert len({pid for _, pid in results}) == 3, "they live on"


@pytest.mark.usefixtures("crashing")
def test_a_worker_that_crashes_or_hangs_is_replaced(begun_long_ago: set[int]) -> None:
    jobs: dict[Any, Any] = {n: partial(int, n) for n in range(6)}
    jobs[1], jobs[2] = os.abort, partial(time.sleep, 100)

    def fail() -> None:
        raise KeyError("four")

    jobs[4] = fail
    found: dict[Any, Any] = {}
    begun_long_ago.add(2)
    with working(1, 500, jobs) as workers:
        while len(workers):
            key, result = workers.next()
            try:
                found[key] = result()
            except Exception as error:
                found[key] = f"{type(error).__name__}: {error}"
    assert found == {
        0: 0, 1: "ChildCrash: crashed (SIGABRT)", 2: "ChildTimeout: took longer than 500 s", 3: 3,
        4: "KeyError: 'four'", 5: 5,
    }  # fmt: skip


def test_paused_time_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock of this process alone, which is set forward by 1000 s during the pause."""
    ahead = [0.0]
    clock = SimpleNamespace(monotonic=lambda now=time.monotonic: now() + ahead[0])
    with working(1, 500, {"a": signal.pause}) as workers:
        (worker,) = workers._workers  # pyright: ignore[reportPrivateUsage]
        assert worker.told() is None and worker.job == 0, "it has begun"
        monkeypatch.setattr(children, "time", clock)
        with workers.paused():
            ahead[0] = 1000.0
        assert workers._left(worker) > 0  # pyright: ignore[reportPrivateUsage]
        ahead[0] += 500.0
        assert workers._left(worker) == 0  # pyright: ignore[reportPrivateUsage]


def test_a_child_that_hangs_before_its_first_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one may that was forked while another thread held a lock."""
    monkeypatch.setattr(children.gc, "freeze", signal.pause)
    with working(2, 1, {"a": os.getpid, "b": os.getpid}) as workers:
        for _ in range(2):
            with pytest.raises(ChildCrash):
                workers.next()[1]()
        assert not len(workers)


def test_closing_stops_what_runs() -> None:
    with working(2, 1000, dict.fromkeys(range(4), signal.pause)) as workers:
        pids = [worker.pid for worker in workers._workers]  # pyright: ignore
        assert len(pids) == 2
    assert len(workers) == 0
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


# Compiling in child processes


@pytest.fixture
def in_children(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Jobs that went to child processes."""
    sent: list[Any] = []
    start = LocalWorkers.start

    def recording(self: LocalWorkers, jobs: dict[Any, Any]) -> None:
        sent.extend(jobs)
        start(self, jobs)

    monkeypatch.setattr(LocalWorkers, "start", recording)
    monkeypatch.setattr(knobs.autotuning, "workers", 2)
    return sent


def test_configurations_are_compiled_in_children(fresh_cache: Path, in_children: list[Any]) -> None:
    told: list[Any] = []
    with knobs.compilation.scope():
        knobs.compilation.listener = lambda **info: told.append(info)  # pyright: ignore
        kernel = tuned(tritium.jit(double.fn))
        launch(kernel)
    assert in_children == BLOCKS
    assert set(kernel.configs_timings) == set(BLOCKS) and not kernel.failures
    assert [i["cache_hit"] for i in told] == [False] * len(BLOCKS), "none was compiled twice"
    assert all(i["times"].total_lowering > 0 for i in told)


def test_what_is_cached_needs_no_child(fresh_cache: Path, in_children: list[Any]) -> None:
    launch(tuned(tritium.jit(double.fn)))
    in_children.clear()
    launch(tuned(tritium.jit(double.fn)))
    assert in_children == []


def test_no_workers(fresh_cache: Path, in_children: list[Any]) -> None:
    knobs.autotuning.workers = 0
    launch(tuned(tritium.jit(double.fn)))
    assert in_children == []


def test_through_heuristics(fresh_cache: Path, in_children: list[Any]) -> None:
    @tritium.jit
    def kernel(x, out, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out + i, tl.load(x + i, i < n) * (2 if EVEN else 3), i < n)

    even = tritium.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
    tuner = tuned(even(kernel), BLOCKS[:3])
    x, out = np.ones(64, np.float32), np.zeros(64, np.float32)
    tuner[grid](x, out, 64)
    assert (out == 2).all() and len(in_children) == 3


def test_a_configurations_hook_decides_on_the_specialization(
    fresh_cache: Path, in_children: list[Any]
) -> None:
    class View:
        """Memory that is read as the type that a hook says."""

        dtype: Any = tl.int8

        def __init__(self, array: np.ndarray):
            self.array = array

        def data_ptr(self) -> int:
            return self.array.ctypes.data

    @tritium.jit
    def kernel(x, out, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.static_assert(x.dtype.element_ty.primitive_bitwidth == BLOCK)
        tl.store(out + i, tl.load(x + i).to(tl.float32), i < n)

    def set_type(args: dict[str, Any]) -> None:
        args["x"].dtype = {32: tl.int32, 64: tl.int64}[args["BLOCK"]]

    configs = [Config({"BLOCK": b}, pre_hook=set_type) for b in (32, 64)]
    tuner = tuned(kernel, configs)
    tuner[grid](View(np.arange(64)), np.zeros(64, np.float32), 64)
    assert len(in_children) == 2 and not tuner.failures


def test_failing_configurations(fresh_cache: Path, in_children: list[Any]) -> None:
    @tritium.jit
    def kernel(x, out, n, BLOCK: tl.constexpr):
        tl.static_assert(BLOCK < 64, "too large")
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out + i, tl.load(x + i, i < n) * 2, i < n)

    tuner = tuned(kernel)
    launch(tuner)
    assert {c.kwargs["BLOCK"] for c in tuner.failures} == {64, 128, 256}
    assert all("too large" in str(error) for error in tuner.failures.values())
    assert tuner.best_config.kwargs["BLOCK"] < 64


HANGING = """
import os, time
import tritium, tritium.language as tl

parent = os.getpid()

def hang(BLOCK):
    if BLOCK == 64 and os.getpid() != parent:
        {what}
    return BLOCK

{hang}

@tritium.jit
def double(x, out, n, BLOCK: tl.constexpr):
    size: tl.constexpr = hang(BLOCK)
    i = tl.program_id(0) * size + tl.arange(0, size)
    tl.store(out + i, tl.load(x + i, i < n) * 2, i < n)
"""


@pytest.mark.usefixtures("crashing")
@pytest.mark.parametrize(
    ("what", "error", "message"),
    [("time.sleep(1000)", ChildTimeout, "took longer than 500 s"),
     ("os.abort()", ChildCrash, r"crashed \(SIGABRT\)")],
)  # fmt: skip
def test_compilations_that_hang_or_crash(
    fresh_cache: Path, tmp_path: Path, in_children: list[Any], begun_long_ago: set[int],
    what: str, error: Any, message: str,
) -> None:  # fmt: skip
    wrap = "hang = tritium.constexpr_function(hang)"
    module = module_from(HANGING.format(what=what, hang=wrap), tmp_path)
    if error is ChildTimeout:
        begun_long_ago.add([config.kwargs["BLOCK"] for config in BLOCKS].index(64))
    tuner = tuned(module.double, timeout=500)
    with pytest.warns(RuntimeWarning, match=f"BLOCK: 64.*is left out: it {message}"):
        launch(tuner)
    ((config, failure),) = tuner.failures.items()
    assert config.kwargs == {"BLOCK": 64} and isinstance(failure, error)
    assert tuner.configs_timings[config][0] == float("inf")


def test_a_kernel_that_hangs(fresh_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its limit is over when it says, in memory that it has in common with the parent, that it
    hangs."""
    n = 500
    x, out = np.arange(n, dtype=np.float32), np.frombuffer(mmap.mmap(-1, 4096), np.float32)

    def wait(files: Any, *rest: Any) -> Any:
        while not out[n]:
            if (found := select.select(files, [], [], 0.01))[0]:
                return found
        out[n] = 0
        return [], [], []

    monkeypatch.setattr(children, "select", SimpleNamespace(select=wait))

    @tritium.jit
    def kernel(x, out, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        if BLOCK == 32:
            tl.atomic_xchg(out + n, 1.0)
            while tl.atomic_add(out + n, 0.0) >= 0.0:
                pass
        tl.store(out + i, tl.load(x + i, i < n) * 2, i < n)

    tuner = tuned(kernel, BLOCKS[:3], timeout=500, do_bench=None)
    with pytest.warns(RuntimeWarning, match=r"BLOCK: 32.*left out: it took longer than 500 s"):
        tuner[grid](x, out, n)
    np.testing.assert_array_equal(out[:n], x * 2)
    assert [c.kwargs["BLOCK"] for c in tuner.failures] == [32]


@pytest.mark.usefixtures("crashing")
def test_a_kernel_that_crashes(fresh_cache: Path) -> None:
    @tritium.jit
    def kernel(x, out, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        far = n.to(tl.int64) << 40 if BLOCK == 32 else n * 0
        tl.store(out + i + far, tl.load(x + i, i < n) * 2, i < n)

    tuner = tuned(kernel, BLOCKS[:3], do_bench=None)
    with pytest.warns(RuntimeWarning, match=r"BLOCK: 32.*left out: it crashed \(SIGSEGV\)"):
        launch(tuner)
    assert [c.kwargs["BLOCK"] for c in tuner.failures] == [32]


def test_a_trial_leaves_no_trace(fresh_cache: Path) -> None:
    """Configurations run first in a child: what it writes and what hooks do there stays there."""

    @tritium.jit
    def increment(x, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(x + i, tl.load(x + i, i < n) + 1, i < n)

    x = np.zeros(100, np.int32)
    calls: list[int] = []
    tuner = tuned(increment, BLOCKS[:3], pre_hook=lambda args, reset_only=False: calls.append(1))
    tuner[grid](x, 100)
    assert (x == 4).all() and len(calls) == 4


def test_the_race() -> None:
    """Configurations clearly behind are measured once, others twice; the best take turns."""
    times = {"a": 1.0, "b": 1.05, "c": 1.15, "d": 1.5, "e": 9.0}
    asked_for: list[tuple[str, float]] = []

    def again(one: str, milliseconds: float) -> list[float]:
        asked_for.append((one, milliseconds))
        return [times[one]] * 3

    found = race({one: [1.02 * time_] * 3 for one, time_ in times.items()}, again)
    looks, in_turns = asked_for[:3], asked_for[3:]
    assert [one for one, _ in looks] == ["a", "b", "c"], "the second looks"
    assert [one for one, _ in in_turns] == ["a", "b"] * 3
    assert {ms for _, ms in looks} == {5.0} and {ms for _, ms in in_turns} == {15.0}
    assert found == {"a": [1.0] * 3, "b": [1.05] * 3, "c": [1.15] * 3, "d": [1.53] * 3,
                     "e": [1.02 * 9.0] * 3}  # fmt: skip


def test_a_disturbed_look_and_a_lucky_one() -> None:
    looks = {"disturbed": [1.18, 1.1, 1.3], "lucky": [1.0, 0.9, 1.1], "third": [1.1, 1.1, 1.1]}
    real = {"disturbed": 1.05, "lucky": 1.3, "third": 1.15}
    found = race(looks, lambda one, _: [real[one]] * 3)
    assert {one: time_[0] for one, time_ in found.items()} == real


def test_who_wins_has_been_measured_well() -> None:
    """Four look equally fast; the three that take turns turn out to be slower than the fourth
    looked, which then has its turns too."""
    asked_for: list[str] = []

    def again(one: str, milliseconds: float) -> list[float]:
        asked_for.append(one) if milliseconds > 5 else None
        return [1.0 if milliseconds <= 5 else 1.2] * 3

    found = race({one: [1.0] * 3 for one in "abcd"}, again)
    assert sorted(asked_for) == sorted("abcd" * 3) and set(map(max, found.values())) == {1.2}


def test_the_race_of_slow_ones_is_short() -> None:
    asked_for: list[str] = []

    def again(one: str, _: float) -> list[float]:
        asked_for.append(one)
        return [500.0] * 3

    race({"a": [510.0] * 3, "b": [500.0] * 3}, again)
    assert asked_for == ["b", "a"], "one turn each, and no second look"


def test_who_fails_in_the_race_is_out() -> None:
    found = race({"a": [1.0] * 3, "b": [1.05] * 3},
                 lambda one, _: None if one == "a" else [1.1] * 3)  # fmt: skip
    assert found == {"a": [float("inf")] * 3, "b": [1.1] * 3}
    assert race({"a": [1.0] * 3, "b": [1.0] * 3}, lambda *_: None)["b"] == [float("inf")] * 3
    assert race({"a": [1.0] * 3}, lambda *_: None) == {"a": [1.0] * 3}, "nothing to compare with"
    assert race({}, lambda *_: None) == {}


def test_one_child_tries_out_all(fresh_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also what was compiled after it was forked: its parent says where the files are."""
    seen: list[Any] = []
    run = Trials.run

    def recording(self: Trials, *which: Any) -> Any:
        took = run(self, *which)
        worker: Any = self._worker  # pyright: ignore
        seen.append((took, worker._process.pid))
        return took

    monkeypatch.setattr(Trials, "run", recording)
    for workers in (2, 0):
        seen.clear()
        monkeypatch.setattr(knobs.autotuning, "workers", workers)
        launch(tuned(tritium.jit(double.fn)), n=500 + workers)
        assert len(seen) == len(BLOCKS) and len({pid for _, pid in seen}) == 1
        assert all(took > 0 for took, _ in seen)


# Executors


def start_method(name: str) -> Executor:
    return ProcessPoolExecutor(2, mp_context=get_context(name))


def test_an_executors_workers_compile(fresh_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    with start_method("spawn") as executor:
        kernel = tuned(halve, BLOCKS[:3], executor=executor)
        monkeypatch.setattr(compile_ahead, "LocalWorkers", None)
        launch(kernel)
    assert len(kernel.configs_timings) == 3 and not kernel.failures


def test_workers_need_not_share_the_cache(
    fresh_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "theirs"))
    with start_method("spawn") as executor:
        executor.submit(os.getpid).result()
        monkeypatch.setenv("TRITON_CACHE_DIR", str(fresh_cache))
        told: list[bool] = []
        with knobs.compilation.scope():
            knobs.compilation.listener = lambda cache_hit, **_: told.append(cache_hit)  # pyright: ignore
            launch(tuned(halve, BLOCKS[3:], executor=executor))
    assert told == [False, False]


def test_a_kernel_that_cannot_be_sent() -> None:
    @tritium.jit
    def local(x, out, n, BLOCK: tl.constexpr):
        tl.store(out, n + BLOCK)

    with ThreadPoolExecutor(1) as executor, pytest.raises(
        AutotunerError, match=r"local cannot be sent to another process: no such name is found in"
    ):  # fmt: skip
        tuned(local, executor=executor)[(1,)](np.ones(1), np.ones(1), 3)


def test_kernels_travel_by_name() -> None:
    assert pickle.loads(pickle.dumps(double)) is double
    assert copy.deepcopy([double])[0] is double and copy.copy(double) is double
    assert isinstance(double, JITFunction)
    with pytest.raises(pickle.PicklingError, match=r"double cannot be sent.*top of a module"):
        pickle.dumps(tritium.jit(double.fn))


def test_a_kernel_without_its_function_travels_as_what_else_is_known() -> None:
    """torch.compile's workers send kernels of modules that the receiver does not have."""
    kernel = tritium.jit(double.fn)
    signature = {"x": "*fp32", "out": "*fp32", "n": "i32"}
    compiled = tritium.compile(ASTSource(kernel, signature, {"BLOCK": 8}))
    digest = kernel.cache_key
    kernel.fn = kernel.__globals__ = kernel.used_global_vals = None
    kernel.repr = len  # pyright: ignore
    twin, source = pickle.loads(pickle.dumps((kernel, compiled.src)))
    assert source.fn is twin and twin.repr is len and twin.cache_key == digest
    assert twin.__name__ == "double" and twin.src == kernel.src
    assert [p.is_constexpr for p in twin.params] == [p.is_constexpr for p in kernel.params]


def test_another_compiler_is_refused() -> None:
    kernel = tuned(double)
    seen: list[Any] = []

    class Recording(Executor):
        def submit(self, fn: Any, *args: Any, **kwargs: Any) -> Any:  # pyright: ignore
            seen.append(args)
            future: Future[Any] = Future()
            future.set_exception(WorkerMismatch("no"))
            return future

    with knobs.compilation.scope():
        knobs.compilation.always_compile = True
        kernel.executor = Recording()
        launch(kernel, dtype=np.int16)
    job, identities = seen[0]
    made = compile_ahead.compile_as_told(job, identities)
    assert made and all(one.files for one in made)
    with pytest.raises(WorkerMismatch, match=r"double: the worker has Tritium .* needed are"):
        compile_ahead.compile_as_told(job, [("0.0.0", identities[0][1])])


def test_an_executor_that_hangs() -> None:
    class Hanging(Executor):
        def submit(self, fn: Any, *args: Any, **kwargs: Any) -> Any:  # pyright: ignore
            return Future()

    kernel = tuned(double, BLOCKS[:2], executor=Hanging(), timeout=0.3)
    with knobs.compilation.scope(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        knobs.compilation.always_compile = True
        with pytest.raises(AutotunerError, match=r"no worker ended within 0.3 s"):
            launch(kernel, dtype=np.int8)
    assert sum("left out" in str(w.message) for w in caught) == 2


def test_executor_workers_close_only_their_own() -> None:
    with ThreadPoolExecutor(1) as executor:
        ExecutorWorkers(executor, 1).close()
        assert executor.submit(lambda: 5).result() == 5


DASK = """
    import os, sys
    from concurrent.futures import Executor
    from dask.distributed import Client, LocalCluster
    import numpy as np
    import tritium
    from tests.runtime.autotuning.test_tuning import BLOCKS, halve, launch, tuned

    if __name__ == "__main__":
        with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None,
                          host="127.0.0.1") as cluster, Client(cluster) as client:
            executor = client.get_executor()
            assert isinstance(executor, Executor)
            kernel = tuned(halve, executor=executor)
            launch(kernel)
            assert len(kernel.configs_timings) == len(BLOCKS) and not kernel.failures
            where = client.run(lambda: os.environ["TRITON_REMOTE_CACHE_BACKEND"])
            print(len(set(client.run(os.getpid).values())), set(where.values()))
"""

REMOTE = """
    import os
    from pathlib import Path
    from tritium.runtime.cache import RemoteCacheBackend

    class Folder(RemoteCacheBackend):
        '''A cache on a shared disk.'''

        def __init__(self, key):
            self.folder = Path(os.environ["SHARED_FOLDER"]) / key

        def get(self, filenames):
            files = {n: self.folder / n for n in filenames}
            return {n: p.read_bytes() for n, p in files.items() if p.exists()}

        def put(self, filename, data):
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.folder / filename).write_bytes(data)
"""


@pytest.mark.slow
def test_dask_workers(tmp_path: Path) -> None:
    """A cluster compiles; its workers and the program share a remote cache."""
    pytest.importorskip("distributed", reason="needs the extra `distributed`")
    (tmp_path / "program.py").write_text(textwrap.dedent(DASK))
    (tmp_path / "remote.py").write_text(textwrap.dedent(REMOTE))
    path = [str(tmp_path), *sys.path]
    env = knobs.child_environment(
        PYTHONPATH=os.pathsep.join(path), SHARED_FOLDER=str(tmp_path / "shared"),
        TRITON_CACHE_DIR=str(tmp_path / "own"), TRITON_REMOTE_CACHE_BACKEND="remote:Folder",
    )  # fmt: skip
    done = subprocess.run(
        [sys.executable, str(tmp_path / "program.py")], env=env, capture_output=True, text=True,
        timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[0] == "2 {'remote:Folder'}"
    stored = [p.name for p in (tmp_path / "shared").rglob("*.obj")]
    assert stored == ["halve.obj"] * len(BLOCKS)


# One configuration a launch


def test_incremental(fresh_cache: Path) -> None:
    measured: list[int] = []
    times = iter([3.0, 2.0, 4.0, 1.0, 5.0])

    def bench(call: Any, quantiles: Any) -> list[float]:
        call()
        measured.append(1)
        return [next(times)] * 3

    kernel = tuned(tritium.jit(double.fn), incremental=True, do_bench=bench)
    best: list[int] = []
    for count in range(1, 8):
        launch(kernel)
        assert len(measured) == min(count, 5)
        best.append(kernel.best_config.kwargs["BLOCK"])
    assert best == [16, 32, 32, 128, 128, 128, 128]
    assert kernel.cache and [t[0] for t in kernel.configs_timings.values()] == [3, 2, 4, 1, 5]


def test_incremental_skips_what_fails(fresh_cache: Path) -> None:
    @tritium.jit
    def kernel(x, out, n, BLOCK: tl.constexpr):
        tl.static_assert(BLOCK == 64)
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out + i, tl.load(x + i, i < n) * 2, i < n)

    tuner = tuned(kernel, incremental=True)
    launch(tuner)
    assert tuner.best_config.kwargs == {"BLOCK": 64} and len(tuner.failures) == 2
    launch(tuner)
    launch(tuner)
    assert len(tuner.failures) == 4 and tuner.cache


# What a person sees


def test_plain_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with knobs.autotuning.scope():
        knobs.autotuning.progress = "on"
        with TuningDisplay("k", 3) as display:
            for config, time_ in zip(BLOCKS, (2.5, 1.25), strict=False):
                display.was_compiled(config)
                display.was_measured(config, time_)
            display.has_failed(BLOCKS[2], "out of resource: x\nmore")
            display.is_decided({BLOCKS[0]: 1.125, BLOCKS[1]: 1.25, BLOCKS[2]: float("inf")})
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "autotuning k: 3 configurations"
    assert lines[1].startswith("  [1/3] BLOCK: 16, num_warps: 4") and lines[1].endswith(": 2.5 ms")
    assert lines[3].startswith("  [3/3] BLOCK: 64")
    assert lines[3].endswith("failed: out of resource: x")
    assert "2 compiled, 2 measured, 1 failed, best 1.125 ms with BLOCK: 16" in lines[4]


def test_silent_elsewhere(capsys: pytest.CaptureFixture[str], fresh_cache: Path) -> None:
    launch(tuned(tritium.jit(double.fn)))
    assert capsys.readouterr() == ("", "")


def test_live_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(tuning_display, "_PATIENCE", 0)
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with TuningDisplay("some_kernel", 2) as display:
        display.was_compiled(BLOCKS[0])
        display.was_measured(BLOCKS[0], 1.5)
    text = terminal.getvalue()
    assert "autotuning some_kernel" in text and "1.5 ms" in text and "\x1b[" in text


# What the decorator is given


def test_no_and_repeated_and_wrong_configurations() -> None:
    with pytest.warns(UserWarning, match=r"autotune: double has no configurations: it is launched"):
        tuned(double, [])
    with pytest.warns(UserWarning, match=r"double has the configuration BLOCK: 16.* 2 times"):
        kernel = tuned(double, [*BLOCKS[:2], Config({"BLOCK": 16})])
    assert len(kernel.configs) == 2
    with pytest.raises(TypeError, match=r"configurations of double contain \{'BLOCK': 16\}; each"):
        tuned(double, [{"BLOCK": 16}])
    with pytest.raises(TypeError, match=r"configurations of double are Config.*; put it in a list"):
        tuned(double, BLOCKS[0])
    with pytest.raises(TypeError, match=r"Config: kwargs is \['BLOCK'\]; a dict"):
        Config(["BLOCK"])  # pyright: ignore[reportArgumentType]
    assert len(tuned(double, iter(BLOCKS)).configs) == len(BLOCKS)
