"""The native end of a launch on CUDA, against a driver that only records what it is called with."""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tritium
from tests.support.launching import StubDriver
from tritium.backends.nvidia.native_launch import CONFIG, CudaCalls, make_end
from tritium.launch.device_end import Calls
from tritium.launch.packing import parameters
from tritium.runtime import driver
from tritium.sanitize.checked import Checked
from tritium.sanitize.launch import SanitizerError
from tritium.sanitize.report import REPORT
from tritium.tools.tensor_descriptor import TensorDescriptor

LAUNCH = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p
)
WAIT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
ENCODE = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.c_void_p,
    ctypes.POINTER(ctypes.c_uint64), ctypes.POINTER(ctypes.c_uint64),
    ctypes.POINTER(ctypes.c_uint32), ctypes.POINTER(ctypes.c_uint32),
    ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int,
)  # fmt: skip


class FakeCuda(StubDriver):
    """Launches natively into functions that record. Arrays in host memory stand for the GPU's."""

    def __init__(self) -> None:
        super().__init__()
        self.recorded: list[dict[str, Any]] = []
        self.encoded: list[tuple[Any, ...]] = []
        self.status = 0
        self.stream = 7000
        self.blocks = 1
        self.scratch = 0
        self.held: list[Any] = []
        self.allocated: list[tuple[int, int]] = []
        self.alive: list[bool] = []
        self.sizes: list[int] = []
        self.contexts = threading.local()
        """Of each thread: `status`, what calls return until `enter` is called, and `entered`."""
        self.enters = True
        self.checks: Any = None
        self.reports: list[Any] = []
        """Memory of reports of checks."""
        self.fails: tuple[int, ...] | None = None
        """Fields that launches write to the report: number of the check, program, address."""
        self.waited: list[int] = []
        self.waits: Callable[[], None] = int
        self._launch, self._encode, self._wait = (
            LAUNCH(self._record), ENCODE(self._map), WAIT(self._waited)
        )  # fmt: skip

    def native_device(self) -> Callable[[], int]:
        return self.get_current_device

    def _record(self, config: int, function: int, parameters: Any, extra: Any) -> int:
        if status := getattr(self.contexts, "status", 0):
            return status
        fields = ("x", "y", "z", "block_x", "block_y", "block_z", "shared", "attribute_count")
        values = {name: CONFIG.read(config, name) for name in fields}
        values["stream"] = CONFIG.read(config, "stream")
        attributes = CONFIG.read(config, "attributes")
        values["attributes"] = [
            (ctypes.c_int.from_address(attributes + 72 * i).value,
             *(ctypes.c_int * 3).from_address(attributes + 72 * i + 8))
            for i in range(values.pop("attribute_count"))
        ]  # fmt: skip
        values["function"] = function
        self.alive += [held() is not None for held in self.held[-1:]]
        values["parameters"] = [
            ctypes.string_at(parameters[i], size) for i, size in enumerate(self.sizes)
        ]
        self.recorded.append(values)
        if self.fails is not None:
            self.reports[-1][:] = (1, *self.fails[:4], 0, self.fails[4])
        return self.status

    def _waited(self, stream: int | None) -> int:
        self.waited.append(stream or 0)
        self.waits()
        return 0

    def host_memory(self, size: int) -> int:
        """Memory of a report (of `tritium.sanitize.checked.Device`)."""
        assert size == REPORT.itemsize
        self.reports.append(np.zeros(1, REPORT))
        return self.reports[-1].ctypes.data

    def _map(
        self, out: int, kind: int, rank: int, address: int, sizes: Any, strides: Any, box: Any,
        ones: Any, interleave: int, swizzle: int, promotion: int, fill: int,
    ) -> int:  # fmt: skip
        if status := getattr(self.contexts, "status", 0):
            return status
        ctypes.memset(out, 0x40 + len(self.encoded), 128)
        assert out % 64 == 0 and list(ones[:rank]) == [1] * rank
        listed = tuple(tuple(v[:n]) for v, n in ((sizes, rank), (strides, rank - 1), (box, rank)))
        self.encoded.append((kind, address, *listed, interleave, swizzle, promotion, fill))
        return 0

    def _allocate(self, programs: int, stream: int) -> tuple[Any, int]:
        """Memory that is to live until the launch; `held` sees it alive."""
        memory = np.zeros(1)
        self.held.append(weakref.ref(memory))
        self.allocated.append((programs, stream))
        if programs == 13:
            raise RuntimeError("no allocator")
        return memory, 1 << 40

    def _enter(self) -> bool:
        self.contexts.entered = getattr(self.contexts, "entered", 0) + 1
        if self.enters:
            self.contexts.status = 0
        return self.enters

    def _failed(self, status: int) -> None:
        raise RuntimeError(f"status {status}")

    def _launcher(self, src: Any, metadata: Any, function: Any) -> Any:
        careful = super()._launcher(src, metadata, function)
        named, _ = parameters(src, metadata)
        params = [param for param in named if param is not None]
        described = [
            {"block_size": [16, 64], "rank": kind.count(",") + 1, "is_im2col": False,
             "fp4_padded": False, "elem_type": 6, "elem_size": 2, "swizzle": 3}
            for _, kind in params if kind.startswith("tensordesc")
        ]  # fmt: skip
        facts = SimpleNamespace(
            num_warps=8, warp_size=32, num_ctas=self.blocks, shared=4096, tensordesc_meta=described,
            global_scratch_size=self.scratch,
        )
        attributes: dict[int, tuple[int, ...]] = {6: (1,), 2: (1,)}
        if self.blocks > 1:
            attributes[4] = (self.blocks, 1, 1)
        launch, encode, wait = (ctypes.cast(function, ctypes.c_void_p).value or 0
                                for function in (self._launch, self._encode, self._wait))
        common = Calls(launch, lambda device: self.stream + device, self.device, self._failed,
                       self._allocate)  # fmt: skip
        calls = CudaCalls(common, encode, wait, self._enter)

        checks = self.checks and Checked(self, self.checks, named, "plain").native(tuple)

        class Launcher:
            def __call__(self, *args: Any) -> None:
                careful(*args)

            def native_end(self, link: Any) -> Any:
                end = make_end(link, calls, 1234, params, facts, attributes, checks)
                if end is None:
                    return None
                return end._replace(slots=[s._replace(device=1) for s in end.slots])

        return Launcher()


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCuda]:
    for kernel in (plain, described):  # which nothing has launched
        monkeypatch.setitem(globals(), kernel.__name__, tritium.jit(kernel.fn))
    fake = FakeCuda()
    driver.set_active(fake)
    try:
        yield fake
    finally:
        driver.reset_active()


@tritium.jit
def plain(x, n, m, s, flag, w):
    pass


@tritium.jit
def described(d, n):
    pass


def test_a_launch(fake: FakeCuda) -> None:
    x = np.zeros(64, np.float32)
    for _ in range(2):
        plain[(3,)](x, 5, 2**40, 1.5, True, 1)
    assert len(fake.launches) == 2 and not fake.recorded
    fake.sizes = [8, 4, 8, 4, 1]
    kernel = plain[(3, 4)](x, 7, 2**41, 2.5, False, 1)
    assert len(fake.launches) == 2 and kernel is not None and kernel.name == "plain"
    (call,) = fake.recorded
    address = x.__array_interface__["data"][0]
    assert call == {
        "x": 3, "y": 4, "z": 1, "block_x": 256, "block_y": 1, "block_z": 1, "shared": 4096,
        "stream": 7000, "attributes": [(6, 1, 0, 0), (2, 1, 0, 0)], "function": 1234,
        "parameters": [
            address.to_bytes(8, "little"), (7).to_bytes(4, "little"), (2**41).to_bytes(8, "little"),
            np.float32(2.5).tobytes(), b"\0",
        ],
    }  # fmt: skip
    plain[(0,)](x, 7, 2**41, 2.5, False, 1)
    assert len(fake.recorded) == 1, "an empty grid launches nothing"
    plain[(1,)](x, 7, 2**41, 1e300, False, 1)
    assert len(fake.launches) == 3, "a float32 that overflows is Python's to refuse"


def test_a_program_of_several_blocks(fake: FakeCuda) -> None:
    x = np.zeros(64, np.float32)
    fake.blocks = 4
    for _ in range(4):
        plain[(3, 5, 7)](x, 5, 2**40, 1.5, True, 1)
    call = fake.recorded[-1]
    assert [call[name] for name in "xyz"] == [12, 5, 7], "blocks of a program are along x"
    assert call["attributes"][2] == (4, 4, 1, 1), "the cluster's dimensions"
    assert call["block_x"] == 256


def test_scratch_memory(fake: FakeCuda) -> None:
    """It is asked for with each launch, comes last, and is given back when the launch is under
    way."""
    x = np.zeros(64, np.float32)
    fake.scratch, fake.sizes = 256, [8, 4, 8, 4, 1, 8]
    for _ in range(2):
        plain[(3,)](x, 5, 2**40, 1.5, True, 1)
    fake.allocated, fake.alive = [], []
    for stream in (7000, 0):
        fake.stream = stream
        plain[(3, 5)](x, 5, 2**40, 1.5, True, 1)
        assert fake.recorded[-1]["parameters"][-1] == (1 << 40).to_bytes(8, "little")
    assert fake.allocated == [(15, 7000), (15, 0)] and fake.alive == [True, True]
    assert not any(held() for held in fake.held)
    launched = len(fake.recorded)
    with pytest.raises(RuntimeError, match="no allocator"):
        plain[(13,)](x, 5, 2**40, 1.5, True, 1)
    plain[(0,)](x, 5, 2**40, 1.5, True, 1)
    assert len(fake.recorded) == launched and len(fake.allocated) == 3


def test_streams_and_devices(fake: FakeCuda) -> None:
    x = np.zeros(64, np.float32)
    for device in (0, 1, 0, 1, 0, 1):
        fake.device = device
        plain[(1,)](x, 5, 2**40, 1.5, True, 1)
    streams = [call["stream"] for call in fake.recorded]
    assert len(streams) + len(fake.launches) == 6 and set(streams) == {7000, 7001}
    fake.stream = 0
    plain[(1,)](x, 5, 2**40, 1.5, True, 1)
    fake.device = 0
    plain[(1,)](x, 5, 2**40, 1.5, True, 1)
    assert [call["stream"] for call in fake.recorded][-2:] == [1, 0]


def test_the_drivers_errors(fake: FakeCuda) -> None:
    x = np.zeros(64, np.float32)
    for _ in range(2):
        plain[(1,)](x, 5, 2**40, 1.5, True, 1)
    fake.status = 700
    with pytest.raises(RuntimeError, match="status 700"):
        plain[(1,)](x, 5, 2**40, 1.5, True, 1)
    fake.status = 0
    assert plain[(1,)](x, 5, 2**40, 1.5, True, 1) is not None


def test_descriptors(fake: FakeCuda) -> None:
    x = np.zeros((128, 256), np.float16)
    room = np.zeros(x.nbytes + 16, np.uint8)
    x = room[-room.ctypes.data % 16 :][: x.nbytes].view(np.float16).reshape(128, 256)
    tensor = TensorDescriptor.from_tensor(x, [16, 64])
    for _ in range(2):
        described[(1,)](tensor, 3)
    fake.sizes = [128, 4, 4, 8, 8, 4]
    described[(1,)](tensor, 3)
    (call,) = fake.recorded
    address = x.__array_interface__["data"][0]
    assert fake.encoded == [(6, address, (256, 128), (512,), (64, 16), 0, 3, 2, 0)]
    assert call["parameters"] == [
        b"\x40" * 128, *(v.to_bytes(4, "little") for v in (128, 256)),
        *(v.to_bytes(8, "little") for v in (256, 1)), (3).to_bytes(4, "little"),
    ]  # fmt: skip
    tensor.shape = [100, 200]
    described[(1,)](tensor, 3)
    assert fake.encoded[1][2] == (200, 100), "attributes are read at each launch"
    before = len(fake.launches)
    tensor.block_shape = [32, 64]
    described[(1,)](tensor, 3)
    assert len(fake.launches) == before + 1, "another block is another kernel"
    tensor.block_shape, tensor.padding = [16, 64], "nan"
    for _ in range(3):
        described[(1,)](tensor, 3)
    assert len(fake.launches) == before + 4, "padding with NaN is done in Python"


def _in_a_thread(work: Callable[[], None]) -> list[BaseException]:
    """Exception of `work` in a thread of its own."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return raised


@pytest.mark.parametrize("status", [201, 400])
def test_a_thread_without_the_kernels_context(fake: FakeCuda, status: int) -> None:
    """The native launch makes the context current and launches; the next one does not ask."""
    x = np.zeros(64, np.float32)
    for _ in range(3):
        plain[(1,)](x, 5, 2**40, 1.5, True, 1)
    native, careful = len(fake.recorded), len(fake.launches)
    assert native and not hasattr(fake.contexts, "entered")

    def work() -> None:
        fake.contexts.status = status
        for _ in range(3):
            plain[(1,)](x, 5, 2**40, 1.5, True, 1)
        assert fake.contexts.entered == 1

    assert not _in_a_thread(work)
    assert len(fake.recorded) == native + 3 and len(fake.launches) == careful


def test_a_thread_whose_context_cannot_be_had(fake: FakeCuda) -> None:
    x = np.zeros(64, np.float32)
    for _ in range(3):
        plain[(1,)](x, 5, 2**40, 1.5, True, 1)
    fake.enters = False

    def work(status: int, asked: int) -> None:
        fake.contexts.status = status
        with pytest.raises(RuntimeError, match=f"status {status}"):
            plain[(1,)](x, 5, 2**40, 1.5, True, 1)
        assert getattr(fake.contexts, "entered", 0) == asked

    assert not _in_a_thread(lambda: work(201, 1))
    assert not _in_a_thread(lambda: work(700, 0)), "other errors have nothing to do with contexts"


def test_tensor_maps_in_a_thread_without_a_context(fake: FakeCuda) -> None:
    room = np.zeros(2 * 128 * 256 + 16, np.uint8)
    x = room[-room.ctypes.data % 16 :][: 2 * 128 * 256].view(np.float16).reshape(128, 256)
    tensor = TensorDescriptor.from_tensor(x, [16, 64])
    for _ in range(3):
        described[(1,)](tensor, 3)
    before = len(fake.encoded)

    def work() -> None:
        fake.contexts.status = 201
        described[(1,)](tensor, 3)
        assert fake.contexts.entered == 1

    assert not _in_a_thread(work)
    assert len(fake.encoded) == before + 1


SITE = {"kind": "bounds", "access": "load", "file": "k.py", "line": 7, "source": "tl.load(x)",
        "size": 4, "arguments": [0]}  # fmt: skip


def _checked(fake: FakeCuda) -> Any:
    """An array of 64 float32, 16 behind the begin of its memory, with which `plain` has native
    launches that check bounds."""
    fake.checks = {"sites": [SITE], "pointers": [0], "report": True}
    x = np.zeros(80, np.float32)[16:]
    for _ in range(2):
        plain[(1,)](x, 5, 2**40, 1.5, True, 1)
    assert len(fake.launches) == 2
    return x


def test_a_launch_with_checks(fake: FakeCuda) -> None:
    """Gets a report and the extents of memory, and waits for the kernel."""
    x = _checked(fake)
    fake.sizes = [8, 4, 8, 4, 1, 8, 8, 8]
    plain[(3, 4)](x, 7, 2**41, 2.5, False, 1)
    assert len(fake.launches) == 2 and fake.waited == [7000]
    begin = x.base.ctypes.data
    assert fake.recorded[-1]["parameters"][5:] == [
        v.to_bytes(8, "little") for v in (fake.reports[-1].ctypes.data, begin, begin + 4 * 80)
    ]


def test_a_descriptor_with_checks(fake: FakeCuda) -> None:
    """The report's address has its place behind the tensor maps."""
    fake.checks = {"sites": [SITE], "pointers": [0], "report": True}
    room = np.zeros(2 * 128 * 256 + 16, np.uint8)
    x = room[-room.ctypes.data % 16 :][: 2 * 128 * 256].view(np.float16).reshape(128, 256)
    tensor = TensorDescriptor.from_tensor(x, [16, 64])
    for _ in range(2):
        described[(1,)](tensor, 3)
    fake.sizes = [128, 4, 4, 8, 8, 4, 8, 8, 8]
    described[(1,)](tensor, 3)
    call, begin = fake.recorded[-1], room.ctypes.data
    assert call["parameters"][0] == b"\x40" * 128
    assert call["parameters"][6:] == [
        v.to_bytes(8, "little")
        for v in (fake.reports[-1].ctypes.data, begin, begin + room.nbytes)
    ]


def test_a_check_that_fails(fake: FakeCuda) -> None:
    x = _checked(fake)
    fake.fails = (0, 2, 1, 0, x.base.ctypes.data + 4 * 80)
    with pytest.raises(SanitizerError, match=r"program \(2, 1, 0\), at k.py:7") as caught:
        plain[(3, 4)](x, 7, 2**41, 2.5, False, 1)
    assert "index 64 of argument 'x'" in str(caught.value)
    fake.fails = None
    plain[(3, 4)](x, 7, 2**41, 2.5, False, 1)  # with the report cleared
    fake.status, fake.fails = 700, (0, 2, 1, 0, x.ctypes.data - 80)
    with pytest.raises(SanitizerError, match="out of bounds"):  # which is why the driver failed
        plain[(3, 4)](x, 7, 2**41, 2.5, False, 1)
    fake.fails = None
    with pytest.raises(RuntimeError, match="status 700"):
        plain[(3, 4)](x, 7, 2**41, 2.5, False, 1)
    assert len(fake.launches) == 2


def test_launches_with_checks_in_threads(fake: FakeCuda) -> None:
    """A launch waits until no other one has the report."""
    x, y = _checked(fake), np.zeros(16, np.float32)
    inside, begun = threading.Event(), threading.Event()
    first = threading.current_thread()
    before, raised = len(fake.recorded), list[BaseException]()

    def second() -> None:
        begun.set()
        try:
            plain[(1,)](y, 7, 2**41, 2.5, False, 1)
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=second)

    def waits() -> None:
        if threading.current_thread() is not first:
            inside.set()  # in the loop that waits for the report
        elif not begun.is_set():
            thread.start()
            assert inside.wait(30)
            assert len(fake.recorded) == before + 1, "the other launch is not under way"
            fake.fails = None

    fake.waits, fake.fails = waits, (0, 0, 0, 0, x.base.ctypes.data + 4 * 80)
    with pytest.raises(SanitizerError, match="index 64 of argument 'x'"):
        plain[(1,)](x, 7, 2**41, 2.5, False, 1)
    thread.join()
    assert not raised and len(fake.recorded) == before + 2 and len(fake.launches) == 2
