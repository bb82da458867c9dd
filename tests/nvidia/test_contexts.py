"""CUDA contexts of threads, with a driver that only keeps each thread's current context."""

from __future__ import annotations

import sys
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from tritium.backends.nvidia import contexts
from tritium.backends.nvidia import driver as nvidia
from tritium.backends.nvidia.contexts import KernelContext, ensure_context


class FakeDriver:
    """Device d has the primary context 100 + d; the context c is one of the device c % 10."""

    def __init__(self) -> None:
        self.local = threading.local()
        self.retained: list[int] = []
        self.unloaded: list[tuple[int, int]] = []
        self.left: list[int] = []

    @property
    def current(self) -> int:
        return getattr(self.local, "context", 0)

    def cuDeviceGet(self, device: int) -> tuple[int, int]:
        return 0, device

    def cuCtxGetCurrent(self) -> tuple[int, int]:
        return 0, self.current

    def cuCtxGetDevice(self) -> tuple[int, int]:
        return (0, self.current % 10) if self.current else (201, -1)

    def cuDevicePrimaryCtxRetain(self, device: int) -> tuple[int, int]:
        self.retained.append(device)
        return 0, 100 + device

    def cuCtxSetCurrent(self, context: int) -> tuple[int]:
        self.local.context = context
        return (0,)

    def cuCtxPushCurrent(self, context: int) -> tuple[int]:
        self.left.append(self.current)
        return self.cuCtxSetCurrent(context)

    def cuCtxPopCurrent(self) -> tuple[int, int]:
        context, self.local.context = self.current, self.left.pop()
        return 0, context

    def cuFuncGetModule(self, function: int) -> tuple[int, int]:
        return 0, 1000 + function

    def cuModuleUnload(self, module: int) -> tuple[int]:
        self.unloaded.append((module, self.current))
        return (0,)


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    fake = FakeDriver()
    monkeypatch.setattr(contexts, "library", lambda: fake)
    monkeypatch.setitem(sys.modules, "torch", None)
    return fake


def _torch(monkeypatch: pytest.MonkeyPatch, device: int) -> None:
    cuda = SimpleNamespace(is_available=lambda: True, current_device=lambda: device)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))


@pytest.mark.parametrize(
    ("before", "after"), [(0, 101), (100, 101), (101, 101), (201, 201)],
    ids=["none", "another device's", "the device's", "the program's own"],
)  # fmt: skip
def test_a_device_is_entered(driver: FakeDriver, before: int, after: int) -> None:
    driver.local.context = before
    ensure_context(1)
    assert driver.current == after and driver.retained == [1] * (before != after)


def _entered(driver: FakeDriver, current: int, kernel: KernelContext) -> tuple[bool, int]:
    """Result of `enter` in a new thread with a current context, and the context it has then."""
    found: list[Any] = []

    def work() -> None:
        driver.local.context = current
        found.extend((kernel.enter(), driver.current))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return found[0], found[1]


def test_a_thread_without_a_context_gets_the_kernels(driver: FakeDriver) -> None:
    driver.local.context = 101
    kernel = KernelContext()
    assert _entered(driver, 0, kernel) == (True, 101)
    assert _entered(driver, 101, kernel) == (False, 101)
    assert _entered(driver, 201, kernel) == (False, 201), "the program's own context stays"
    assert _entered(driver, 100, kernel) == (False, 100), "so does another device's, without torch"


def test_torchs_current_device_decides(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    driver.local.context = 101
    kernel = KernelContext()
    _torch(monkeypatch, 1)
    assert _entered(driver, 0, kernel) == (True, 101)
    assert _entered(driver, 100, kernel) == (True, 101), "torch changed the device, no context"
    assert _entered(driver, 201, kernel) == (False, 201)
    _torch(monkeypatch, 0)
    assert _entered(driver, 0, kernel) == (False, 0)
    assert _entered(driver, 100, kernel) == (False, 100)


def test_a_module_is_unloaded_in_its_own_context(driver: FakeDriver) -> None:
    driver.local.context = 100
    kernel = KernelContext()
    driver.local.context = 101
    kernel.unload(7)
    assert driver.unloaded == [(1007, 100)] and driver.current == 101


def test_a_forked_process_takes_torchs_word_for_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvidia, "has_bindings", lambda: True)
    monkeypatch.setattr(nvidia, "device_count", lambda: 0)
    monkeypatch.setitem(sys.modules, "torch", None)
    assert not nvidia.CudaDriver.is_active()
    _torch(monkeypatch, 0)
    assert nvidia.CudaDriver.is_active()
