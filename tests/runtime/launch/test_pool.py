"""Grids on the thread pool: every program once, locks, chains, faults, forks, many launchers."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.runtime.launch.kernels import image
from tests.runtime.launch.windows import windows_functions
from tritium import knobs
from tritium.backends.cpu.launcher import Native, Param, make_launcher, native_ir
from tritium.native.host import host
from tritium.native.loader import compile_ir, load_object, object_key
from tritium.native.pool import POOL, SLOT, SLOTS, WORKER, System

POSIX = System(threads="posix", crash_reports=False, cycle_counter=False)
WINDOWS = System(threads="windows", crash_reports=False, cycle_counter=False)
SYSTEMS = {"here": System.here(), "posix": POSIX, "windows": WINDOWS}

Launch = Callable[..., None]


def native_of(name: str) -> Native:
    """The native code and a pool for one of `SYSTEMS`."""
    with pytest.MonkeyPatch.context() as patch:
        if name == "windows":
            functions = windows_functions()
            patch.setattr(type(knobs.system()), "native_functions", lambda _: functions)
        return Native(None, SYSTEMS[name])


@pytest.fixture(scope="module", params=SYSTEMS, autouse=True)
def shared(request: pytest.FixtureRequest):
    with knobs.runtime.scope():
        knobs.runtime.cpu_threads = 6  # more than there are CPUs: workers get descheduled
        yield native_of(request.param)


def launcher(shared: Native, name: str, *types: str, scratch: int = 0) -> Launch:
    params = [Param(f"a{i}", type) for i, type in enumerate(types)]
    return make_launcher(image()[name], params, scratch, name=name, shared=shared)


@pytest.mark.covering(1)
@pytest.mark.parametrize("grid", [(1, 1, 1), (2, 1, 1), (7, 3, 5), (5000, 1, 1), (1, 300, 7)])
@pytest.mark.parametrize("turns", [1, 3000])
def test_every_program_runs_once(shared: Native, grid, turns):
    total = int(np.prod(grid))
    turns = min(turns, 10_000_000 // total)
    count = np.zeros(total, np.int32)
    launch = launcher(shared, "spin", "*i32", "i64")
    for repetition in range(1, 5):
        launch(*grid, count, turns)
        assert (count == repetition).all()


def test_cost_that_changes_from_launch_to_launch(shared: Native):
    count = np.zeros(64, np.int32)
    launch = launcher(shared, "spin", "*i32", "i64")
    for i in range(200):
        launch(64, 1, 1, count, 1 if i % 3 else 20_000)
    assert (count == 200).all()


def test_empty_grids_run_nothing(shared: Native):
    count = np.zeros(1, np.int32)
    launch = launcher(shared, "spin", "*i32", "i64")
    for grid in ((0, 1, 1), (1, 0, 5), (2**31 - 1, 2**31 - 1, 0)):
        launch(*grid, count, 1)
    assert count[0] == 0


def test_locks_with_more_programs_than_threads(shared: Native):
    state = np.zeros(2, np.int32)
    launch = launcher(shared, "lock", "*i32")
    for _ in range(3):
        launch(400, 1, 1, state)
    assert state.tolist() == [0, 1200]


def test_programs_may_wait_for_lower_ones(shared: Native):
    flags = np.zeros(2001, np.int32)
    launch = launcher(shared, "chain", "*i32")
    for _ in range(2):
        flags[:] = 0
        flags[0] = 1
        launch(2000, 1, 1, flags)
        assert flags.all()


def test_context_and_scratch(shared: Native):
    out = np.zeros((4000, 4), np.int32)
    for scratch in (0, 64, 100_000, 5_000_000, 64):
        launch = launcher(shared, "context", "*i32", "i64", scratch=scratch)
        launch(40, 5, 2, out, scratch)
        assert (out[:400, :3] == [40, 5, 2]).all()
        threads = shared.pool.worker_count
        assert (out[:400, 3] >= 0).all() and (out[:400, 3] <= threads).all()
    for i in range(SLOTS):
        assert SLOT.read(shared.pool.slots + i * SLOT.size, "busy") == 0


def test_several_threads_take_part(shared: Native):
    out = np.zeros((64, 4), np.int32)
    launch = launcher(shared, "context", "*i32", "i64", scratch=3_000_000)
    for _ in range(20):
        launch(64, 1, 1, out, 3_000_000)
    # Which programs a worker got is the system's affair; that one took part, its scratch shows.
    workers = range(shared.pool.workers, shared.pool.workers + WORKER.size * 6, WORKER.size)
    took_part = [
        WORKER.read(worker, "capacity") > 0 for worker in workers[: shared.pool.worker_count]
    ]
    assert any(took_part)


def test_one_thread_means_the_launching_one(shared: Native):
    out = np.zeros((200, 4), np.int32)
    with knobs.runtime.scope():
        knobs.runtime.cpu_threads = 1
        launch = launcher(shared, "context", "*i32", "i64", scratch=1_000_000)
        for _ in range(3):
            launch(200, 1, 1, out, 1_000_000)
            assert (out[:, 3] == 0).all()


def test_bad_thread_setting_is_an_error(shared: Native, monkeypatch: pytest.MonkeyPatch):
    with knobs.runtime.scope():
        del knobs.runtime.cpu_threads
        monkeypatch.setenv("TRITIUM_NUM_THREADS", "many")
        launch = launcher(shared, "spin", "*i32", "i64")
        with pytest.raises(RuntimeError, match="TRITIUM_NUM_THREADS=many: expected int"):
            launch(64, 1, 1, np.zeros(64, np.int32), 1)


@pytest.mark.parametrize("total", [1, 8, 4000])
def test_fault_names_the_program_and_leaves_the_pool_usable(shared: Native, total):
    ran = np.zeros(1, np.int32)
    launch = launcher(shared, "fault", "*i32", "i64")
    for bad in (0, total - 1):
        x, y = bad % total, bad // total
        message = rf"device-side assert triggered: bad value \[program \({x}, {y}, 0\)\]"
        for _ in range(3):
            with pytest.raises(RuntimeError, match=message):
                launch(total, 1, 1, ran, bad)
    ran[0] = 0
    launch(total, 1, 1, ran, -1)
    assert ran[0] == total
    with pytest.raises(RuntimeError, match=r"\[program \(1, 2, 0\)\]"):
        launch(3, 4, 1, ran, 7)


def test_a_fault_stops_the_grid(shared: Native):
    ran, total = np.zeros(1, np.int32), 1_000_000
    launch = launcher(shared, "fault", "*i32", "i64")
    for _ in range(3):
        ran[0] = 0
        with pytest.raises(RuntimeError, match="device-side assert"):
            launch(total, 1, 1, ran, 0)
        assert ran[0] < total // 2


def test_python_threads_launch_at_once(shared: Native):
    counts = [np.zeros(500, np.int32) for _ in range(6)]
    launch = launcher(shared, "spin", "*i32", "i64")
    errors: list[BaseException] = []

    def run(count: np.ndarray) -> None:
        try:
            for i in range(30):
                launch(500, 1, 1, count, 2000 if i % 2 else 10)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(count,)) for count in counts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert not errors and all((count == 30).all() for count in counts)
    assert POOL.read(shared.pool.address, "lock") == POOL.read(shared.pool.address, "door") == 0


def test_long_launches_release_the_interpreter(shared: Native):
    """All programs but the first, which shows how long they take, wait until another Python thread
    has seen that they run."""
    count, flag = np.zeros(4, np.int32), np.zeros(2, np.int32)
    launch = launcher(shared, "until", "*i32", "*i32", "i64")

    def answer() -> None:
        while not flag[1]:
            time.sleep(0.001)
        flag[0] = 1

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    launch(4, 1, 1, count, flag, 10_000_000_000)
    thread.join()
    assert (count[1:] == 1).all()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_launches_too(shared: Native):
    count = np.zeros(256, np.int32)
    launch = launcher(shared, "spin", "*i32", "i64")
    launch(256, 1, 1, count, 20_000)
    child = os.fork()
    if child == 0:
        try:
            launch(256, 1, 1, count, 20_000)
            launch(256, 1, 1, count, 20_000)
            workers = len(os.listdir("/proc/self/task")) - 1 if sys.platform == "linux" else None
            right = (count == 3).all() and workers in (None, shared.pool.worker_count)
            os._exit(0 if right else 1)
        except BaseException:
            os._exit(2)
    deadline = time.monotonic() + 60
    while (found := os.waitpid(child, os.WNOHANG))[0] == 0 and time.monotonic() < deadline:
        time.sleep(0.01)
    if found[0] == 0:
        os.kill(child, 9)
        os.waitpid(child, 0)
    assert found[0] == child and os.waitstatus_to_exitcode(found[1]) == 0
    launch(256, 1, 1, count, 20_000)
    assert (count == 2).all()


EXIT = """
import numpy as np, threading
from tests.runtime.launch.kernels import image
from tests.runtime.launch.windows import windows_functions
from tritium.backends.cpu.launcher import Param, make_launcher
launch = make_launcher(image()["spin"], [Param("c", "*i32"), Param("n", "i64")], 0)
count = np.zeros(64, np.int32)
launch(64, 1, 1, count, 100000)
threading.Thread(target=lambda: launch(64, 1, 1, count, 3000000), daemon=True).start()
print("done", flush=True)
"""


@pytest.mark.every(3)  # the process that it starts has the system of this machine
def test_the_interpreter_exits(shared: Native):
    root = str(Path(__file__).parents[3])
    environment = knobs.child_environment(PYTHONPATH=os.pathsep.join([root, *sys.path]))
    done = subprocess.run(
        [sys.executable, "-c", EXIT], env=environment, timeout=60, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def test_images_are_released_and_errors_are_clear():
    ir = "define i32 @f() {\n ret i32 7\n}"
    code = compile_ir(ir)
    assert load_object(code, ["f"])["f"] != 0
    with pytest.raises(RuntimeError, match=r"not found.*\bg\b"):
        load_object(code, ["g"])
    with pytest.raises(RuntimeError, match="object code is damaged"):
        load_object(code[:100], ["f"])
    with pytest.raises(RuntimeError, match="invalid LLVM IR"):
        compile_ir("nonsense")
    with pytest.raises(ValueError, match="opt is 7"):
        compile_ir(ir, opt=7)
    assert object_key(ir) == object_key(ir) != object_key(ir + "\n") != object_key(ir, 1)


def test_host():
    assert host().vector_bits in (128, 256, 512) and 65536 <= host().l2 <= host().l3
    assert host().cpu and all(host().has(feature) for feature in host().features)


def test_native_code_is_compiled_once_and_kept():
    class Store:
        def __init__(self) -> None:
            self.codes: dict[str, bytes] = {}

        def load(self, key: str) -> bytes | None:
            return self.codes.get(key)

        def save(self, key: str, code: bytes) -> None:
            assert key not in self.codes
            self.codes[key] = code

    store = Store()
    Native(store)
    Native(store)
    assert len(store.codes) == 1
    Native(store, POSIX)
    assert len(store.codes) == 2
    assert native_ir(POSIX) != native_ir() == native_ir()
