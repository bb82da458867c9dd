"""`do_bench`: what it calls on the device, and what it makes of the times."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tritium import testing
from tritium.backends.active import driver
from tritium.backends.cpu import driver as cpu_driver
from tritium.testing.bench import quantile, summarize


class Device:
    """A device with a clock of its own: each call of `kernel` takes the next of `durations`."""

    def __init__(self, durations: list[float]):
        self.now, self.log, self.durations = 0.0, [], durations
        device = self

        class Event:
            def __init__(self, enable_timing: bool = False):
                assert enable_timing
                self.at = None

            def record(self) -> None:
                self.at = device.now
                device.log.append("record")

            def elapsed_time(self, end: Event) -> float:
                return end.at - self.at

        self.interface = SimpleNamespace(Event=Event, synchronize=lambda: None)

    def kernel(self) -> None:
        self.log.append("kernel")
        self.now += self.durations[self.log.count("kernel") % len(self.durations)]

    def get_current_target(self):
        raise AssertionError("nothing is compiled here")

    def get_device_interface(self):
        return self.interface

    def get_empty_cache_for_benchmark(self):
        return "buffer"

    def clear_cache(self, cache: str) -> None:
        assert cache == "buffer"
        self.log.append("clear")
        self.now += 1.0


@pytest.fixture
def device():
    device = Device([10.0])
    before = driver._active
    driver.set_active(device)
    yield device
    driver._active = before


def test_the_budget_decides_how_often_the_kernel_runs(device):
    assert testing.do_bench(device.kernel, warmup=30, rep=100) == 10.0
    # Once; five times to estimate (with clearing the cache 11 ms); to warm up; those that count.
    assert device.log.count("kernel") == 1 + 5 + 30 // 11 + 100 // 11


def test_the_cache_is_cleared_before_each_timed_run_but_not_timed(device):
    testing.do_bench(device.kernel, warmup=1, rep=55)
    assert device.log[-4 * 5 :] == ["clear", "record", "kernel", "record"] * 5


def test_a_kernel_longer_than_the_budget_runs_once_at_least(device):
    assert testing.do_bench(device.kernel, warmup=1, rep=1) == 10.0


@pytest.mark.parametrize(
    ("mode", "expected"), [("min", 10.0), ("max", 40.0), ("mean", 20.0), ("median", 15.0)]
)
def test_return_modes(device, mode, expected):
    assert summarize([10.0, 40.0, 10.0, 20.0], None, mode) == expected
    assert testing.do_bench(device.kernel, return_mode=mode) == 10.0


def test_all_times_can_be_had(device):
    device.durations = [10.0, 20.0]
    times = testing.do_bench(device.kernel, warmup=1, rep=80, return_mode="all")
    assert len(times) == 80 // 16 and set(times) == {10.0, 20.0}


def test_quantiles_give_a_list_and_one_quantile_a_number(device):
    low, high = testing.do_bench(device.kernel, quantiles=[0.2, 0.8])
    assert low == high == 10.0
    assert testing.do_bench(device.kernel, quantiles=[0.5]) == 10.0


def test_quantile_interpolates():
    assert quantile([4.0, 1.0, 3.0, 2.0], 0.5) == 2.5
    assert quantile([1.0, 2.0], 0.0) == 1.0 and quantile([1.0, 2.0], 1.0) == 2.0
    assert quantile([1.0, 2.0, 4.0], 0.75) == 3.0
    with pytest.raises(ValueError, match="from 0 to 1"):
        quantile([1.0], 1.5)


def test_gradients_are_dropped_before_each_run(device):
    tensor = SimpleNamespace(grad="old")
    seen = []

    def kernel():
        seen.append(tensor.grad)
        tensor.grad = "new"
        device.kernel()

    testing.do_bench(kernel, warmup=1, rep=33, grad_to_none=[tensor])
    assert seen[-3:] == [None, None, None]


def test_an_unknown_return_mode(device):
    with pytest.raises(ValueError, match="'avg'; expected one of"):
        testing.do_bench(device.kernel, return_mode="avg")
    assert not device.log


@pytest.mark.parametrize("bench", [testing.do_bench, testing.do_bench_cudagraph])
def test_what_cannot_be_called(device, bench):
    with pytest.raises(TypeError, match=rf"{bench.__name__}: fn is 3; a function"):
        bench(3)
    assert not device.log


def test_without_graphs_calls_are_timed_in_a_row(device):
    assert testing.do_bench_cudagraph(device.kernel, rep=50) == 10.0
    assert device.log.count("record") == 2 * 11  # one estimate and ten measurements


def test_on_the_cpu(monkeypatch: pytest.MonkeyPatch):
    """By the clock of the CPU's events, which here only the measured function moves."""
    now, calls = [0.0], []

    def take_five_milliseconds() -> None:
        calls.append(now[0])
        now[0] += 0.005

    monkeypatch.setattr(cpu_driver, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    before = driver._active
    driver.set_active_to_cpu()
    try:
        found = testing.do_bench(take_five_milliseconds, warmup=5, rep=25, return_mode="all")
    finally:
        driver._active = before
    assert found == pytest.approx([5.0] * 5) and len(calls) == 1 + 5 + 1 + 5
