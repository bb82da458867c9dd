"""Which driver is active, and what programs ask it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tests.support.launching import StubDriver
from tritium.backends import active
from tritium.backends.base import Backends, BaseBackend, DriverBase, GPUDriver
from tritium.backends.compiler import GPUTarget
from tritium.backends.cpu import driver as cpu_driver
from tritium.backends.cpu.driver import CPUDriver
from tritium.errors import OutOfResources
from tritium.runtime import driver
from tritium.runtime.driver import DriverConfig


class Usable(CPUDriver):
    @classmethod
    def is_active(cls) -> bool:
        return True


class Unusable(Usable):
    @classmethod
    def is_active(cls) -> bool:
        return False


class Second(Usable):
    pass


def _installed(monkeypatch: pytest.MonkeyPatch, *drivers: type[DriverBase]) -> DriverConfig:
    found = Backends()
    found._packages = {"cpu": "tritium.backends.cpu"} | {d.__name__: "nowhere" for d in drivers}
    known = {d.__name__: d for d in drivers}
    known["cpu"] = CPUDriver
    monkeypatch.setattr(found, "driver", known.__getitem__)
    monkeypatch.setattr(active, "backends", found)
    return DriverConfig()


def test_nothing_is_looked_for_before_use() -> None:
    code = (
        "import sys, tritium; from tritium.runtime import driver\n"
        "assert driver._active is None and driver._default is None\n"
        "assert 'torch' not in sys.modules\n"
        "assert driver.active.get_current_target().backend == 'cpu'\n"
        "assert driver._active is driver._default is not None\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_usable_gpu_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    assert type(_installed(monkeypatch).active) is CPUDriver
    assert type(_installed(monkeypatch, Unusable).active) is CPUDriver
    assert type(_installed(monkeypatch, Unusable, Usable).active) is Usable
    monkeypatch.setenv("TRITON_CPU_BACKEND", "1")
    assert type(_installed(monkeypatch, Usable).active) is CPUDriver


def test_a_backend_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """`TRITON_DEFAULT_BACKEND`, as in Triton 3.9, goes before what is found, and decides between
    several."""
    monkeypatch.setenv("TRITON_DEFAULT_BACKEND", "Second")
    assert type(_installed(monkeypatch, Usable, Second).active) is Second
    monkeypatch.setenv("TRITON_CPU_BACKEND", "1")
    assert type(_installed(monkeypatch, Usable, Second).active) is Second
    monkeypatch.setenv("TRITON_DEFAULT_BACKEND", "cpu")
    assert type(_installed(monkeypatch, Usable, Second).active) is CPUDriver
    monkeypatch.setenv("TRITON_DEFAULT_BACKEND", "Unusable")
    with pytest.raises(RuntimeError, match="'Unusable' has no device or driver on this machine"):
        _ = _installed(monkeypatch, Usable, Unusable).active
    monkeypatch.setenv("TRITON_DEFAULT_BACKEND", "cuda")
    with pytest.raises(RuntimeError, match=r"no backend 'cuda'.*there are \['Usable', 'cpu'\]"):
        _ = _installed(monkeypatch, Usable).active


def test_several_usable_drivers(monkeypatch: pytest.MonkeyPatch) -> None:
    config = _installed(monkeypatch, Usable, Second)
    with pytest.raises(
        RuntimeError, match=r"2 active drivers \(\['Usable', 'Second'\]\). There sh"
    ):
        _ = config.active
    config.set_active_to_cpu()
    assert type(config.active) is CPUDriver


def test_set_and_reset() -> None:
    before = driver.active
    stub = StubDriver()
    driver.set_active(stub)
    assert driver.active is stub
    driver.reset_active()
    assert driver.active is before


@pytest.mark.parametrize("wrong", [3, None, "cpu", CPUDriver], ids=repr)
def test_what_is_no_driver(wrong: Any) -> None:
    before = driver.active
    with pytest.raises(TypeError, match=r"set_active: .* is no driver; an? .* is required"):
        driver.set_active(wrong)
    assert driver.active is before


def test_questions() -> None:
    current = driver.active
    target = current.get_current_target()
    assert isinstance(target, GPUTarget) and target.backend == "cpu" and target.warp_size == 1
    assert current.get_current_device() == 0 and current.get_current_stream(0) == 0
    current.set_current_device(0)
    with pytest.raises(ValueError, match=r"device is 3; the CPU is device 0"):
        current.set_current_device(3)
    assert str(current.get_active_torch_device()) == "cpu"
    properties = current.utils.get_device_properties(0)
    assert properties["multiprocessor_count"] >= 1 and properties["warpSize"] == 1
    assert properties["max_shared_mem"] >= 1 << 16 and properties["max_num_regs"] >= 16
    device: Any = current.get_device_interface()
    device.synchronize()
    start, end = device.Event(enable_timing=True), device.Event(enable_timing=True)
    start.record()
    end.record()
    assert 0 <= start.elapsed_time(end) < 10_000
    assert device.current_device() == 0 and device.device_count() == 1 and device.is_available()
    buffer = current.get_empty_cache_for_benchmark()
    assert buffer.nbytes >= 64 << 20
    current.clear_cache(buffer)


def test_benchmarker() -> None:
    calls: list[int] = []
    bench = driver.active.get_benchmarker()
    low, high = bench(lambda: calls.append(1), quantiles=[0.2, 0.8], warmup=1, rep=2)
    assert 0 < low <= high and len(calls) > 2


@pytest.mark.parametrize(
    ("type_", "c"),
    [
        ("*fp32", "void*"),
        ("i32", "int32_t"),
        ("u8", "uint8_t"),
        ("fp32", "float"),
        ("i1", "int8_t"),
    ],
)
def test_c_types(type_: str, c: str) -> None:
    assert driver.active.map_python_to_cpp_type(type_) == c


def test_unknown_c_type() -> None:
    with pytest.raises(TypeError, match=r"kernel type 'fp7' has no C type"):
        driver.active.map_python_to_cpp_type("fp7")


def test_contracts_are_enforced() -> None:
    class Half(DriverBase):
        @classmethod
        def is_active(cls) -> bool:
            return True

    with pytest.raises(TypeError, match=r"get_benchmarker"):
        Half()  # pyright: ignore[reportAbstractUsage]

    class HalfBackend(BaseBackend):
        pass

    with pytest.raises(TypeError, match=r"add_stages"):
        HalfBackend(GPUTarget("cpu", None, 1))  # pyright: ignore[reportAbstractUsage]
    assert issubclass(GPUDriver, DriverBase)


def test_targets_are_values() -> None:
    assert GPUTarget("a", 1, 32) == GPUTarget("a", 1, 32) and hash(GPUTarget("a", 1, 32))
    with pytest.raises(AttributeError):
        GPUTarget("a", 1, 32).arch = 5  # pyright: ignore


def test_set_active_to_cpu_launches_here() -> None:
    driver.set_active_to_cpu()
    try:
        import tritium.language as tl

        @tritium.jit
        def fill(out):
            tl.store(out, 7)

        out = np.zeros(1, np.int32)
        fill[(1,)](out)
        assert out[0] == 7
    finally:
        driver.reset_active()


class DuckUtils:
    """Loads nothing, on a device with little room."""

    threads = 1024

    def load_binary(self, *args: Any) -> tuple[Any, ...]:
        return None, 0xDEAD, 32, 0, self.threads

    def get_device_properties(self, device: int) -> dict[str, int]:
        return {"max_shared_mem": 8192, "multiprocessor_count": 132, "warpSize": 32}


class DuckDriver:
    """A driver that has the reference's methods, and derives from nothing of ours."""

    def __init__(self) -> None:
        self.utils, self.launched = DuckUtils(), list[Any]()
        self.launcher_cls = self._launcher

    def _launcher(self, src: Any, metadata: Any) -> Any:
        assert metadata.target == self.get_current_target() and src.fn is not None
        return lambda *args: self.launched.append(args)

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", 90, 32)

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 7


@tritium.jit
def turn(x, out, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out + i[:, None] * B + i, tl.trans(tl.load(x + i[:, None] * B + i)))


@pytest.fixture
def duck() -> Iterator[DuckDriver]:
    duck = DuckDriver()
    driver.set_active(duck)  # pyright: ignore[reportArgumentType]
    try:
        yield duck
    finally:
        driver.reset_active()


def test_a_driver_that_only_looks_like_one(duck: DuckDriver) -> None:
    torch = pytest.importorskip("torch")
    x, out = torch.zeros(256), torch.zeros(256)
    for _ in range(3):
        kernel = turn[(2, 3)](x, out, B=16)
    assert [args[:5] for args in duck.launched] == [(2, 3, 1, 7, 0xDEAD)] * 3
    assert duck.launched[0][-3:] == (x, out, 16) and kernel.n_regs == 32


def test_resources_are_checked_for_every_driver(duck: DuckDriver) -> None:
    torch = pytest.importorskip("torch")
    x = torch.zeros(1 << 15)
    with pytest.raises(OutOfResources, match=r"shared memory, Required: \d+, Hardware limit: 8192"):
        turn[(1,)](x, x, B=128, num_warps=4)
    duck.utils.threads = 64
    with pytest.raises(OutOfResources, match=r"threads, Required: 256, Hardware limit: 64"):
        turn[(1,)](x, x, B=16, num_warps=8)
    assert not duck.launched


@pytest.mark.parametrize(
    ("l3", "free", "expected"),
    [(8 << 20, 1 << 34, 64 << 20), (32 << 20, None, 128 << 20), (504 << 20, 1 << 34, 256 << 20),
     (504 << 20, 1 << 30, 128 << 20), (32 << 20, 0, 1 << 20)],
)  # fmt: skip
def test_what_clears_the_cache_is_bounded(monkeypatch, l3, free, expected):
    monkeypatch.setattr(cpu_driver, "host", lambda: SimpleNamespace(l3=l3))
    system = SimpleNamespace(free_memory=lambda: free)
    monkeypatch.setattr(cpu_driver.knobs, "system", lambda: system)
    assert CPUDriver().get_empty_cache_for_benchmark().nbytes == expected
