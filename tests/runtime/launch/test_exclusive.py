"""Exclusive launches: which kernels are told so; no other thread runs programs meanwhile."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest

from tests.runtime.launch.kernels import image
from tests.runtime.launch.test_pool import SYSTEMS, Launch, native_of
from tritium import forking, knobs
from tritium.backends.cpu.launcher import Native, Param, make_launcher
from tritium.native.pool import POOL


@pytest.fixture(params=SYSTEMS)
def shared(request: pytest.FixtureRequest):
    with knobs.runtime.scope():
        knobs.runtime.cpu_threads = 4
        yield native_of(request.param)


def launcher(shared: Native, exclusive: bool = True) -> Launch:
    """Of a kernel that counts its programs in `count[0]`, and those not exclusive in `count[1]`."""
    params = [Param("count", "*i32")]
    return make_launcher(
        image()["exclusive"], params, 0, exclusive=exclusive, name="exclusive", shared=shared
    )


def times_exclusive(launch: Launch, programs: int = 4, tries: int = 30) -> int:
    """Of several launches, those all of whose programs were exclusive. A thread that was
    descheduled meanwhile makes the programs look too long for the next one."""
    found = 0
    for _ in range(tries):
        count = np.zeros(2, np.int32)
        launch(programs, 1, 1, count)
        assert count[0] == programs >= count[1] >= 0
        found += count[1] == 0
    return found


def launches(shared: Native) -> int:
    return POOL.read(shared.pool.address, "launches")


def test_which_launches_are_exclusive(shared: Native):
    launch = launcher(shared)
    assert times_exclusive(launch, tries=1) == 0  # how long it takes is not known
    assert times_exclusive(launch) and times_exclusive(launch, 8)
    assert not times_exclusive(launcher(shared, exclusive=False))
    assert launches(shared) == 0


def test_one_thread_is_exclusive_as_long_as_it_takes(shared: Native):
    count = np.zeros(2, np.int32)
    launch = launcher(shared)
    with knobs.runtime.scope():
        knobs.runtime.cpu_threads = 1
        assert times_exclusive(launch)
        for _ in range(10):
            count[:] = 0
            launch(20_000, 1, 1, count)
            assert count[0] == 20_000
            if count[1] == 0:
                break
        assert count[1] == 0


def test_nothing_is_lost_between_workers_and_launches(shared: Native):
    """Several Python threads, with grids that workers help with and others."""
    count = np.zeros(2, np.int32)
    launch = launcher(shared)
    sizes = [(3, 500)[i % 7 == 0] for i in range(300)]

    def run() -> None:
        for size in sizes:
            launch(size, 1, 1, count)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert count[0] == 4 * sum(sizes)
    assert 0 < count[1] < count[0]
    assert launches(shared) == 0


def test_another_launch_need_not_wait_for_the_end(shared: Native):
    """It comes between two programs, from where on both go on at once."""
    count, other = np.zeros(2, np.int32), np.zeros(2, np.int32)
    launch = launcher(shared)
    with knobs.runtime.scope():
        knobs.runtime.cpu_threads = 1
        assert times_exclusive(launch)
        total = 3_000_000
        thread = threading.Thread(target=lambda: launch(total, 1, 1, count))
        thread.start()
        while count[0] < 100:
            pass
        launch(4, 1, 1, other)
        seen = int(count[0])
        thread.join(timeout=60)
    assert 100 <= seen < total == count[0]
    assert 0 < count[1] < total


def fork_once(private: bool) -> None:
    def fork() -> None:
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)

    if private:
        with forking.private():
            fork()
    else:
        fork()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("private", [True, False])
def test_a_process_that_forks_may_share_memory(shared: Native, private: bool):
    launch = launcher(shared)
    assert times_exclusive(launch)
    fork_once(private)
    assert bool(times_exclusive(launch)) == private
