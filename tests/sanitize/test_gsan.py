"""Pools of GPU memory: their settings, and the library that allocates, on a driver in Python."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tritium.backends.active import driver
from tritium.experimental import gsan
from tritium.experimental.gsan import allocator, settings
from tritium.experimental.gsan.writer import ALLOCATE, ALLOCATE_WRITE_ONCE, DRIVER, RELEASE
from tritium.sanitize import extents
from tritium.sanitize.extents import Pooled
from tritium.target import GPUTarget

pytestmark = [
    pytest.mark.cpu, pytest.mark.skipif(sys.platform != "linux", reason="libraries of Linux"),
]  # fmt: skip

PAGE = 1 << 16
U64, I32, PTR = ctypes.c_uint64, ctypes.c_int32, ctypes.c_void_p
SIGNATURES = {
    "cuMemCreate": (PTR, U64, PTR, U64), "cuMemAddressReserve": (PTR, U64, U64, U64, U64),
    "cuMemMap": (U64, U64, U64, U64, U64), "cuMemSetAccess": (U64, U64, PTR, U64),
    "cuMemUnmap": (U64, U64), "cuMemAddressFree": (U64, U64), "cuMemRelease": (U64,),
    "cuStreamSynchronize": (PTR,),
}  # fmt: skip


class FakeDriver:
    """The driver's functions of virtual memory, which note what they are asked for."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.fails: dict[str, int] = {}
        self.created, self.reserved = 0, 0
        self._held = [
            ctypes.CFUNCTYPE(I32, *SIGNATURES[name])(self._made(name)) for name in DRIVER
        ]
        self.functions = {
            name: ctypes.cast(f, PTR).value or 0 for name, f in zip(DRIVER, self._held, strict=True)
        }

    def _made(self, name: str) -> Any:
        def call(*args: Any) -> int:
            if name in self.fails:
                self.calls.append((name, "fails"))
                return self.fails[name]
            self.calls.append((name, *getattr(self, f"_{name}", lambda *given: given)(*args)))
            return 0

        return call

    def _cuMemCreate(self, out: int, size: int, about: int, flags: int) -> tuple[Any, ...]:
        self.created += 1
        U64.from_address(out).value = 700 + self.created
        return size, ctypes.string_at(about, 32), flags

    def _cuMemAddressReserve(self, out: int, size: int, *rest: int) -> tuple[Any, ...]:
        self.reserved += 1
        U64.from_address(out).value = self.reserved << 32
        return size, *rest

    def _cuMemSetAccess(self, place: int, size: int, about: int, count: int) -> tuple[Any, ...]:
        return place, size, ctypes.string_at(about, 12 * count), count


class Functions:
    """The functions of a library that torch would call."""

    def __init__(self, path: str):
        library = ctypes.CDLL(path)
        self.free = getattr(library, RELEASE)
        self.free.argtypes = PTR, U64, I32, PTR
        self.allocate, self.once = (
            getattr(library, name) for name in (ALLOCATE, ALLOCATE_WRITE_ONCE)
        )
        for function in (self.allocate, self.once):
            function.argtypes, function.restype = (U64, I32, PTR), PTR


@pytest.fixture
def fake() -> FakeDriver:
    return FakeDriver()


@pytest.fixture
def made(fake: FakeDriver, tmp_path: Any) -> allocator.NativeAllocator:
    copy = tmp_path / "own.so"  # each test has a state of its own
    copy.write_bytes(Path(allocator.write_library()).read_bytes())
    found = allocator.NativeAllocator(str(copy), fake.functions)
    found.use(settings.Settings(ranks={0: 0, 3: 1}), PAGE)
    return found


@pytest.fixture(autouse=True)
def own_state(monkeypatch: pytest.MonkeyPatch) -> Iterator[settings.State]:
    state = settings.State()
    monkeypatch.setattr(settings, "state", state)
    monkeypatch.setattr(allocator, "state", state)
    monkeypatch.setattr(allocator, "_loaded", [])
    monkeypatch.setattr(extents, "pools", [])
    monkeypatch.delenv("PYTORCH_CUDA_ALLOC_CONF", raising=False)
    yield state
    allocator._native.cache_clear()
    allocator._torch_allocator.cache_clear()


def test_an_allocation_and_its_end(made: allocator.NativeAllocator, fake: FakeDriver) -> None:
    functions = Functions(made.path)
    assert not made.holds() and not made.is_used()
    begin = functions.allocate(PAGE + 1, 3, None)
    assert begin == 1 << 32 and made.holds() and made.is_used()
    about = np.array([1, 1, 1, 3, 0, 0, 0, 0], np.int32).tobytes()  # pinned, descriptor, device 3
    access = np.array([1, 3, 3], np.int32).tobytes()  # device 3 may read and write
    assert fake.calls == [
        ("cuMemCreate", 2 * PAGE, about, 0), ("cuMemAddressReserve", 2 * PAGE, 0, 0, 0),
        ("cuMemMap", begin, 2 * PAGE, 0, 701, 0), ("cuMemSetAccess", begin, 2 * PAGE, access, 1),
    ]  # fmt: skip
    other = functions.once(PAGE, 0, None)
    assert made.live() == [
        Pooled(begin, begin + 2 * PAGE, 0, False), Pooled(other, other + PAGE, 1, True),
    ]  # fmt: skip
    fake.calls.clear()
    functions.free(begin, PAGE + 1, 3, 77)
    assert fake.calls == [
        ("cuStreamSynchronize", 77), ("cuMemUnmap", begin, 2 * PAGE),
        ("cuMemAddressFree", begin, 2 * PAGE), ("cuMemRelease", 701),
    ]  # fmt: skip
    third = functions.allocate(0, 0, None)  # takes the entry of the first
    assert made.live() == [
        Pooled(third, third + PAGE, 2, False), Pooled(other, other + PAGE, 1, True),
    ]  # fmt: skip
    functions.free(other, 0, 0, None)
    functions.free(third, 0, 0, None)
    functions.free(None, 0, 0, None)
    assert not made.holds() and made.is_used()


@pytest.mark.parametrize(
    ("failing", "undone"),
    [("cuMemCreate", []), ("cuMemAddressReserve", ["cuMemRelease"]),
     ("cuMemMap", ["cuMemAddressFree", "cuMemRelease"]),
     ("cuMemSetAccess", ["cuMemUnmap", "cuMemAddressFree", "cuMemRelease"])],
)  # fmt: skip
def test_what_the_driver_refuses_is_taken_back(
    made: allocator.NativeAllocator, fake: FakeDriver, capfd: pytest.CaptureFixture[str],
    failing: str, undone: list[str],
) -> None:  # fmt: skip
    fake.fails[failing] = 801
    functions = Functions(made.path)
    assert functions.allocate(8, 0, None) is None and not made.holds() and not made.is_used()
    names = [name for name, *_ in fake.calls]
    assert names[names.index(failing) + 1 :] == undone
    error = f"tritium.experimental.gsan: {failing} failed: CUresult 801\n"
    assert capfd.readouterr().err == error


def test_what_the_library_refuses(
    made: allocator.NativeAllocator, fake: FakeDriver, capfd: pytest.CaptureFixture[str]
) -> None:
    functions = Functions(made.path)
    for device in (1, -1, 64):
        assert functions.allocate(8, device, None) is None
        error = f"gsan: device {device} is not in device_ranks of configure\n"
        assert capfd.readouterr().err.endswith(error)
    functions.free(0x5000, 8, 0, None)
    assert "free of 0x5000, which is no allocation" in capfd.readouterr().err
    assert not fake.calls


def test_settings_reach_the_library_until_it_is_used(
    monkeypatch: pytest.MonkeyPatch, fake: FakeDriver
) -> None:
    """`create_mem_pool` on a machine whose driver is the fake one."""
    monkeypatch.setattr(driver, "_active", SimpleNamespace(
        get_current_target=lambda: GPUTarget("cuda", 90, 32)
    ))  # fmt: skip
    monkeypatch.setattr(allocator, "_granularity", lambda _: PAGE)
    monkeypatch.setattr(allocator, "_functions", lambda: fake.functions)
    monkeypatch.setitem(sys.modules, "torch.cuda.memory", SimpleNamespace(
        CUDAPluggableAllocator=lambda *x: SimpleNamespace(given=x, allocator=lambda: x),
        MemPool=lambda allocator: ["pool", allocator],
    ))  # fmt: skip
    assert not gsan.has_live_allocations()
    name, (path, *names) = gsan.create_mem_pool(write_once=True)
    assert name == "pool" and names == [ALLOCATE_WRITE_ONCE, RELEASE]
    assert gsan.get_allocator().given == (path, ALLOCATE, RELEASE)
    assert gsan.get_allocator() is gsan.get_allocator()
    gsan.configure(device_ranks={2: 0}, num_devices=1, handle_type=gsan.ShareableHandleType.FABRIC)
    functions = Functions(path)
    assert functions.once(8, 0, None) is None
    place = functions.once(8, 2, None)
    about = next(about for name, _, about, _ in fake.calls if name == "cuMemCreate")
    assert np.frombuffer(about, np.int32).tolist() == [1, 8, 1, 2, 0, 0, 0, 0]
    assert gsan.has_live_allocations()
    assert extents.pooled() == [Pooled(place, place + PAGE, 0, True)]
    with pytest.raises(RuntimeError, match="configure: the settings of pools are frozen"):
        gsan.configure(rng_seed=1)
    with pytest.raises(AssertionError, match="memory of a pool is still allocated"):
        gsan.reset()
    functions.free(place, 8, 2, None)
    gsan.reset()
    assert not extents.pooled()


def test_configure(own_state: settings.State, monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = gsan.ShareableHandleType
    assert (kinds.POSIX_FILE_DESCRIPTOR, kinds.FABRIC) == (1, 8)
    gsan.configure(rng_seed=7, clock_buffer_size=16)
    assert own_state.settings.handles is kinds.POSIX_FILE_DESCRIPTOR
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "a:b, fabric_handles:True")
    assert own_state.settings.handles is kinds.FABRIC
    gsan.configure(handle_type=kinds.POSIX_FILE_DESCRIPTOR)
    assert own_state.settings.handles is kinds.POSIX_FILE_DESCRIPTOR
    assert own_state.settings.devices == (1 << 64) - 1
    gsan.configure(device_ranks={1: 5, 3: 0}, num_devices=8)
    assert own_state.settings.devices == 0b1010
    gsan.freeze_config()
    with pytest.raises(RuntimeError, match="frozen"):
        gsan.configure()


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [({"num_devices": 2}, ValueError, "num_devices is given without device_ranks"),
     ({"device_ranks": {0: 0}}, ValueError, "device_ranks is given without num_devices"),
     ({"device_ranks": {0: 2}, "num_devices": 2}, ValueError, r"\[0\] is 2; expected 0 to 1"),
     ({"device_ranks": {0: 1, 1: 1}, "num_devices": 2}, ValueError, "two devices of number 1"),
     ({"device_ranks": {64: 1}, "num_devices": 2}, ValueError, "is 64; expected 0 to 63"),
     ({"device_ranks": {}, "num_devices": 2}, ValueError, "expected a dict"),
     ({"device_ranks": [0], "num_devices": 2}, TypeError, "expected a dict"),
     ({"num_devices": 0, "device_ranks": {0: 0}}, ValueError, "num_devices is 0"),
     ({"rng_seed": -1}, ValueError, "rng_seed is -1; expected 0 to 4294967295"),
     ({"rng_seed": 1.5}, TypeError, "rng_seed is 1.5; expected an int"),
     ({"clock_buffer_size": 0}, ValueError, "clock_buffer_size is 0; expected 1"),
     ({"handle_type": 2}, ValueError, "handle_type is 2; expected ShareableHandleType.POSIX_FILE"),
     ({"handle_type": "fd"}, TypeError, "handle_type is 'fd'")],
)  # fmt: skip
def test_bad_settings(
    own_state: settings.State, given: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        gsan.configure(**given)
    assert own_state.settings == settings.Settings()


def test_pools_are_memory_of_nvidia_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    target = SimpleNamespace(backend="cpu")
    monkeypatch.setattr(driver, "_active", SimpleNamespace(get_current_target=lambda: target))
    for make in (gsan.create_mem_pool, gsan.get_allocator):
        with pytest.raises(RuntimeError, match="NVIDIA GPUs; the active backend is 'cpu'"):
            make()
    assert not gsan.has_live_allocations()
    gsan.reset()


def test_what_is_not_built_says_so() -> None:
    with pytest.raises(NotImplementedError, match=r"gsan\.graph: the search for races does"):
        _ = gsan.graph
    assert not hasattr(gsan, "symmetric")


def test_the_reference_s_name() -> None:
    program = ["import tritium.compat as c; c.install(); from triton.experimental import gsan",
               "import triton.experimental.gsan as g; assert g is gsan; g.freeze_config()"]
    subprocess.run([sys.executable, "-c", "\n".join(program)], check=True, env=os.environ)
