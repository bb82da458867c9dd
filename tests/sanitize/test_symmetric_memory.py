"""Symmetric memory: processes exchange it and meet, and accesses of theirs that nothing orders are
found."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from threading import Thread
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tritium.experimental.gsan import circle, segments, settings
from tritium.experimental.gsan.circle import Circle
from tritium.experimental.gsan.notes import Notes, Part, compare
from tritium.sanitize import extents, shadow
from tritium.sanitize.extents import Pooled
from tritium.sanitize.launch import SanitizerError

pytestmark = [
    pytest.mark.cpu, pytest.mark.skipif(sys.platform != "linux", reason="files in memory"),
]  # fmt: skip

N = 64


@pytest.mark.slow
@pytest.mark.parametrize("interpreted", [False, True])
def test_two_processes(interpreted: bool, tmp_path: Path) -> None:
    pytest.importorskip("torch.distributed", reason="torch is not installed")
    run_two("cpu", tmp_path, {"TRITON_INTERPRET": "1"} if interpreted else {})


def run_two(device: str, folder: Path, more: dict[str, str]) -> None:
    """Run both processes of `symmetric_program`."""
    env = {**os.environ, "TRITON_INSTRUMENTATION_MODE": "races", **more}
    program = [sys.executable, "-m", "tests.sanitize.symmetric_program"]
    both = [
        subprocess.Popen([*program, str(rank), str(folder / "meeting"), device], env=env,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for rank in (0, 1)
    ]  # fmt: skip
    for process in both:
        text, _ = process.communicate(timeout=300)
        assert process.returncode == 0 and "misuse is as expected" in text, text


@tritium.jit
def fill(out, begin, end, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, 1, mask=(i >= begin) & (i < end))


@tritium.jit
def copy(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n), mask=i < n)


@tritium.jit
def release(flag):
    tl.atomic_xchg(flag, 1, sem="release")


@tritium.jit
def acquire(flag, out):
    tl.store(out, tl.atomic_add(flag, 0, sem="acquire"))


class Shared:
    """Memory of two processes, played by one."""

    def __init__(self, dtype: Any = np.int32, once: bool = False):
        self.x, self.flag = np.zeros(N, dtype), np.zeros(1, np.int32)
        begin, size = self.x.ctypes.data, self.x.nbytes
        written = [np.zeros(size, bool) if once else None for _ in (0, 1)]
        self.notes = [Notes([Part(begin, size, written[rank])]) for rank in (0, 1)]
        self.pool = [Pooled(begin, begin + size, -1, write_once=False, shared=True)]

    @contextmanager
    def rank(self, rank: int) -> Iterator[None]:
        """Launches are of this process."""
        shadow.watchers.append(self.notes[rank].launched)
        extents.pools.append(lambda: self.pool)
        try:
            yield
        finally:
            shadow.watchers.pop()
            extents.pools.pop()

    def meet(self) -> SanitizerError | None:
        """The error of a barrier."""
        reports = [notes.report() for notes in self.notes]
        found = [compare(reports, [(p.size, p.written) for p in n.parts]) for n in self.notes]
        assert str(found[0]) == str(found[1]), "both processes find the same"
        for notes in self.notes:
            notes.clear()
        return found[0]


@pytest.fixture(params=["compiled", "interpreted"])
def mode(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INSTRUMENTATION_MODE", "races")
    if request.param == "interpreted":
        monkeypatch.setenv("TRITON_INTERPRET", "1")


def again(kernel: Any) -> Any:
    """The kernel in the mode of the environment, which is read when a kernel is made."""
    return tritium.jit(kernel.fn)


@pytest.mark.every(2)
@pytest.mark.usefixtures("mode")
@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.float64])
def test_two_stores_and_what_a_barrier_forgets(dtype: Any) -> None:
    shared, kernel = Shared(dtype), again(fill)
    for rank, (begin, end) in enumerate([(0, 31), (30, N)]):
        with shared.rank(rank):
            kernel[(1,)](shared.x, begin, end, N)
    error = shared.meet()
    size = shared.x.itemsize
    assert error is not None and error.kind == "races"
    expected = (
        r"race: store in kernel 'fill' of rank 0, program \(0, 0, 0\), at .*:\d+\n    tl.store.*\n"
        r"  without order beside the store in kernel 'fill' of rank 1, .*\n.*\n"
        rf"    byte {30 * size} of rank 0's symmetric memory, which has {N * size} bytes"
    )
    assert re.fullmatch(expected, str(error)), error
    assert shared.meet() is None
    with shared.rank(1):
        kernel[(1,)](shared.x, 0, N, N)
    assert shared.meet() is None


@pytest.mark.usefixtures("mode")
def test_accesses_of_other_sizes_and_places() -> None:
    """A process's second launch reads bytes of what the other one writes as longer elements."""
    shared, load, store = Shared(np.int32), again(copy), again(fill)
    out = np.zeros(N, np.int8)
    with shared.rank(0):
        load[(1,)](shared.x.view(np.int8)[4:], out, 8, N)
        load[(1,)](shared.x.view(np.int8)[21:], out, 1, N)
    for place, expected in ((3, None), (5, "byte 21 of")):
        with shared.rank(1):
            store[(1,)](shared.x[place:], 0, 1, N)
        reports = [n.report() for n in shared.notes]
        found = compare(reports, [(shared.x.nbytes, None)])
        assert found is None if expected is None else expected in str(found), found


@pytest.mark.usefixtures("mode")
@pytest.mark.parametrize("order", ["release first", "no acquire", "acquire late", "in order"])
def test_what_launches_order(order: str) -> None:
    shared, store, load = Shared(), again(fill), again(copy)
    tell, learn = again(release), again(acquire)
    out = np.zeros(N, np.int32)
    with shared.rank(0):
        steps = [lambda: store[(1,)](shared.x, 0, 4, N), lambda: tell[(1,)](shared.flag)]
        for step in reversed(steps) if order == "release first" else steps:
            step()
    with shared.rank(1):
        if order in ("in order", "release first"):
            learn[(1,)](shared.flag, out)
        load[(1,)](shared.x, out, 4, N)
        if order == "acquire late":
            learn[(1,)](shared.flag, out)
    error = shared.meet()
    assert (error is None) == (order == "in order"), error


@pytest.mark.usefixtures("mode")
def test_write_once_memory_of_two_processes() -> None:
    shared, store, load = Shared(once=True), again(fill), again(copy)
    out = np.zeros(N, np.int32)
    with shared.rank(0):
        store[(1,)](shared.x, 0, 8, N)
    assert shared.meet() is None
    with shared.rank(1):
        load[(1,)](shared.x, out, 8, N)
        with pytest.raises(SanitizerError, match=r"^second store to write-once memory in kernel"):
            store[(1,)](shared.x, 7, 9, N)
    assert shared.meet() is None
    with shared.rank(1):
        load[(1,)](shared.x[8:], out, 1, N)
    assert "load of write-once memory that was not written before" in str(shared.meet())
    with shared.rank(1):
        again(release)[(1,)](shared.x[20:])
    assert "atomic access in write-once memory in kernel 'release' of rank 1" in str(shared.meet())


class FakeCuda:
    """The driver's functions of memory that is shared, which note what they are asked for."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.fails = ""
        enum = SimpleNamespace(CU_MEM_LOCATION_TYPE_DEVICE=1, CU_MEM_ACCESS_FLAGS_PROT_READWRITE=3)
        self.CUmemLocationType = self.CUmemAccess_flags = enum
        self.CUmemAllocationHandleType = int
        self.CUmemGenericAllocationHandle = int
        self.CUmemFabricHandle = SimpleNamespace
        self.CUmemAccessDesc = lambda: SimpleNamespace(location=SimpleNamespace())

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any) -> tuple[Any, ...]:
            self.calls.append((name, *args))
            exported = SimpleNamespace(data=b"f" * 64) if args[1:2] == (8,) else 33
            results = {"cuMemAddressReserve": 0x7000, "cuMemImportFromShareableHandle": 55,
                       "cuMemExportToShareableHandle": exported}  # fmt: skip
            return int(name == self.fails), results.get(name)

        return call


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> FakeCuda:
    fake = FakeCuda()
    def check(result: tuple[int, Any]) -> Any:
        if result[0]:
            raise RuntimeError("the driver refuses")
        return result[1]

    monkeypatch.setattr(segments, "library", lambda: fake)
    monkeypatch.setattr(segments, "check", check)
    monkeypatch.setattr(segments, "state", settings.State())
    return fake


def test_handles_of_the_fabric_are_bytes(cuda: FakeCuda) -> None:
    kind = settings.ShareableHandleType.FABRIC
    segments.state.set(settings.Settings(handle_type=kind))
    segment = segments.DeviceSegment(Pooled(0x100, 0x300, 4, False), 77, 2)
    assert segment.export() == b"f" * 64
    segment.map(b"g" * 64, 512)
    (given,) = [args[0] for name, *args in cuda.calls if name == "cuMemImportFromShareableHandle"]
    assert given.data == b"g" * 64


def test_allocations_of_devices_are_exported_and_mapped(cuda: FakeCuda) -> None:
    segment = segments.DeviceSegment(Pooled(0x100, 0x300, 4, False), 77, 2)
    assert segment.export() == 33
    assert cuda.calls == [("cuMemExportToShareableHandle", 77, 1, 0)]
    cuda.calls.clear()
    mapping = segment.map(9, 512)
    assert mapping.begin == 0x7000
    *calls, (name, begin, size, (access,), count) = cuda.calls
    assert calls == [
        ("cuMemImportFromShareableHandle", 9, 1), ("cuMemAddressReserve", 512, 0, 0, 0),
        ("cuMemMap", 0x7000, 512, 0, 55, 0), ("cuMemRelease", 55),
    ]  # fmt: skip
    assert (name, begin, size, count) == ("cuMemSetAccess", 0x7000, 512, 1)
    assert (access.location.type, access.location.id, access.flags) == (1, 2, 3)
    cuda.calls.clear()
    mapping.unmap()
    assert cuda.calls == [("cuMemUnmap", 0x7000, 512), ("cuMemAddressFree", 0x7000, 512)]


@pytest.mark.parametrize("failing", ["cuMemMap", "cuMemSetAccess"])
def test_a_mapping_that_the_driver_refuses_is_taken_back(cuda: FakeCuda, failing: str) -> None:
    cuda.fails = failing
    with pytest.raises(RuntimeError, match="the driver refuses"):
        segments.DeviceSegment(Pooled(0x100, 0x300, 4, False), 77, 2).map(9, 512)
    names = [name for name, *_ in cuda.calls]
    assert "cuMemRelease" in names and names[-1] == "cuMemAddressFree"
    assert ("cuMemUnmap" in names) == (failing == "cuMemSetAccess")


def beside(other: Any) -> Circle:
    """Rank 0 of two, while a thread calls `other` with rank 1."""
    places = Queue[Any]()

    def run() -> None:
        made = Circle(1, 2, lambda _: places.get())
        other(made)
        made.close()

    Thread(target=run, daemon=True).start()
    return Circle(0, 2, places.put)


def test_a_process_that_never_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(circle, "_PATIENCE", 0.05)
    with pytest.raises(TimeoutError, match=r"1 of the 2 processes of the group came in 0\.05 s"):
        Circle(0, 2, lambda place: None)


def test_a_process_that_ends_before_it_gives_its_memory() -> None:
    mine = beside(lambda theirs: theirs.gather("exchange of handles", None))
    file = os.open(os.devnull, os.O_RDONLY)
    try:
        with pytest.raises(RuntimeError, match="exchange of handles: another process has ended"):
            mine.exchange(file)
        with pytest.raises(RuntimeError, match="out of step since: exchange of handles: another"):
            mine.gather("barrier", None)
    finally:
        os.close(file)


def test_memory_of_two_kinds() -> None:
    def give_bytes(theirs: Circle) -> None:
        with pytest.raises(ValueError, match="some processes share memory by files"):
            theirs.exchange(b"fabric")

    with pytest.raises(ValueError, match=r"gsan\.configure must say the same in all"):
        beside(give_bytes).exchange(0)
