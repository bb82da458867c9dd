"""Launching through a library that is none: its functions have the C interface of libamdhip64 and
record their calls."""

from __future__ import annotations

import ctypes
import gc
import struct
import traceback
from collections.abc import Generator
from ctypes import c_int, c_void_p
from types import SimpleNamespace
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest

import tritium
import tritium.language as tl
from tests.amd.kernels import add
from tritium.backends.active import driver as active
from tritium.backends.amd import launcher, libhip, native_launch, output
from tritium.backends.amd.driver import HIPDriver
from tritium.codegen.gpu.memory.records import Records
from tritium.codegen.llvm.writer import Function, Module
from tritium.errors import OutOfResources
from tritium.sanitize.launch import SanitizerError
from tritium.system.record_format import lines
from tritium.target import GPUTarget
from tritium.testing import do_bench
from tritium.tools.tensor_descriptor import TensorDescriptor

OUT_OF_MEMORY = 2


class FakeHip:
    """The functions of the library. `launches`: grid, block, LDS, stream, and the parameters as
    they are read through `kinds`."""

    def __init__(self, arch: str = "gfx942:sramecc+:xnack-", devices: int = 1):
        self.arch, self.devices, self.images, self.names = arch, devices, list[bytes](), list[str]()
        self.kinds, self.launches, self.cooperative = "", list[Any](), 0
        self.native = list[bool]()  # of each launch: whether Python's launcher made it
        self.output, self.synchronized = c_void_p(), 0
        self.reported: Any = None  # what a launch puts into the report of checks
        self.written: Any = None  # what a launch puts into the buffer
        self.times, self.clock, self.log, self.freed = list[float](), 0.0, list[str](), list[int]()
        self.launch_status, self.lanes = 0, 64 if arch.startswith("gfx9") else 32
        for name, parameters in libhip._FUNCTIONS.items():
            setattr(self, name, ctypes.CFUNCTYPE(c_int, *parameters)(getattr(self, f"_{name}")))
        self.hipGetErrorString: Any = lambda status: b"no memory"

    def _hipInit(self, flags: int) -> int:
        return 0

    def _hipGetDeviceCount(self, count: Any) -> int:
        count[0] = self.devices
        return 0

    def _hipGetDevice(self, device: Any) -> int:
        device[0] = 0
        return 0

    def _hipSetDevice(self, device: int) -> int:
        return 0

    def _hipGetDevicePropertiesR0600(self, memory: int, device: int) -> int:
        for form, place, value in (("Q", 296, 65536), ("i", 308, self.lanes), ("i", 388, 304)):
            data = struct.pack(f"<{form}", value)
            ctypes.memmove(memory + place, data, len(data))
        ctypes.memmove(memory + 1160, self.arch.encode() + b"\0", len(self.arch) + 1)
        return 0

    def _hipModuleLoadData(self, module: Any, image: bytes) -> int:
        self.images.append(image)
        module[0] = 0x1000
        return 0

    def _hipModuleUnload(self, module: int) -> int:
        return 0

    def _hipModuleGetFunction(self, function: Any, module: int, name: bytes) -> int:
        assert module == 0x1000
        self.names.append(name.decode())
        function[0] = 0x2000
        return 0

    def _hipFuncGetAttribute(self, value: Any, attribute: int, function: int) -> int:
        assert function == 0x2000
        value[0] = {4: 32, 3: 8, 0: 1024}[attribute]
        return 0

    def _hipModuleGetGlobal(self, place: Any, size: Any, module: int, name: bytes) -> int:
        assert name == b"tritium.output"
        place[0], size[0] = ctypes.addressof(self.output), 8
        return 0

    def _hipMalloc(self, place: Any, size: int) -> int:
        self.memory = ctypes.create_string_buffer(size)
        ctypes.memset(self.memory, 0xFF, min(size, 4096))
        place[0] = ctypes.addressof(self.memory)
        return 0

    def _hipFree(self, memory: int) -> int:
        self.freed.append(memory)
        return 0

    def _hipHostMalloc(self, place: Any, size: int, flags: int) -> int:
        self.host = ctypes.create_string_buffer(b"\xff" * size, size)
        place[0] = ctypes.addressof(self.host)
        return 0

    def _hipMallocManaged(self, place: Any, size: int, flags: int) -> int:
        return 1

    def _hipMemset(self, memory: int, value: int, size: int) -> int:
        assert memory == ctypes.addressof(self.memory) and size == len(self.memory) and value == 0
        self.log.append("cold")
        return 0

    def _hipDeviceSynchronize(self) -> int:
        return 0

    def _hipEventCreateWithFlags(self, event: Any, flags: int) -> int:
        self.times.append(0.0)
        event[0] = len(self.times)
        return flags

    def _hipEventRecord(self, event: int, stream: int | None) -> int:
        """Each takes 2 ms."""
        self.clock += 2.0
        self.times[event - 1] = self.clock
        self.log.append("event")
        return 0

    def _hipEventSynchronize(self, event: int) -> int:
        return 0

    def _hipEventDestroy(self, event: int) -> int:
        self.freed.append(event)
        return 0

    def _hipEventElapsedTime(self, found: Any, start: int, end: int) -> int:
        found[0] = self.times[end - 1] - self.times[start - 1]
        return 0

    def _hipMemcpyHtoD(self, to: int, source: int, size: int) -> int:
        ctypes.memmove(to, source, size)
        return 0

    def _hipMemcpyDtoH(self, to: Any, source: int, size: int) -> int:
        ctypes.memmove(to, source, size)
        return 0

    def _hipStreamSynchronize(self, stream: int) -> int:
        self.synchronized += 1
        return 0

    def _hipPointerGetAttribute(self, found: int, attribute: int, address: int) -> int:
        assert attribute == 3
        c_void_p.from_address(found).value = address + 1
        return 0 if address > 0x1000 else 1

    def _hipModuleLaunchKernel(self, function: int, *rest: Any) -> int:
        assert function == 0x2000
        *numbers, stream, parameters, extra = rest
        assert not extra
        places = (c_void_p * len(self.kinds)).from_address(parameters or 0) if self.kinds else ()
        values = [struct.unpack(k, ctypes.string_at(p, struct.calcsize(k)))[0]
                  for k, p in zip(self.kinds, places, strict=True)]  # fmt: skip
        self.launches.append((tuple(numbers), stream, values))
        if self.reported:
            ctypes.memmove(self.host, self.reported, len(self.reported))
        if self.written:
            ctypes.memmove(self.output.value or 0, self.written, len(self.written))
        callers = [frame.name for frame in traceback.extract_stack()]
        self.native.append("_launch" not in callers)
        return self.launch_status

    def _hipModuleLaunchCooperativeKernel(self, function: int, *rest: Any) -> int:
        self.cooperative += 1
        return self._hipModuleLaunchKernel(function, *rest, None)


@pytest.fixture
def hip(monkeypatch: pytest.MonkeyPatch) -> Generator[FakeHip]:
    assert active.default, "found without the library below"
    fake = FakeHip()
    caches = libhip.library, libhip.device_count, libhip.properties, output._buffer
    for cache in caches:
        cache.cache_clear()
    monkeypatch.setattr(libhip, "open_library", lambda: fake)
    active.set_active(HIPDriver())
    yield fake
    active.reset_active()
    for cache in caches:
        cache.cache_clear()


class Tensor:
    """Memory of a device, as far as launches look at it."""

    dtype, is_cuda = "float32", True

    def __init__(self, address: int):
        self._address = address

    def data_ptr(self) -> int:
        return self._address


def test_a_launch(hip: FakeHip) -> None:
    hip.kinds = "QQQi"
    x, y, out = (Tensor(a) for a in (0x10000, 0x20000, 0x30000))
    kernel = add[(3, 2)](x, y, out, 1000, BLOCK=256, num_warps=2)
    assert kernel.metadata.target == GPUTarget("hip", "gfx942", 64)
    sizes = (3, 2, 1, 128, 1, 1, kernel.metadata.shared)
    assert hip.launches == [(sizes, None, [0x10000, 0x20000, 0x30000, 1000])]
    assert hip.names == ["add"] and hip.images[0][:4] == b"\x7fELF"
    assert (kernel.n_regs, kernel.n_spills) == (32, 2)
    add[(1,)](x, y, out, 1000, BLOCK=256, num_warps=2, launch_cooperative_grid=True)
    assert hip.cooperative == 1 and len(hip.launches) == 2
    add[(0,)](x, y, out, 1000, BLOCK=256, num_warps=2)
    assert len(hip.launches) == 2, "no program, no launch"


@pytest.fixture
def arrays(hip: FakeHip, monkeypatch: pytest.MonkeyPatch) -> list[np.ndarray]:
    """Arrays in host memory that stand for the GPU's."""
    monkeypatch.setattr(native_launch, "ROCM", 1)
    monkeypatch.setattr(launcher, "address_of", lambda arg, position: address(arg))
    return [np.zeros(1024, np.float32) for _ in range(3)]


def address(array: Any) -> int:
    return array.__array_interface__["data"][0]


def test_native_launches(hip: FakeHip, arrays: list[np.ndarray]) -> None:
    hip.kinds = "QQQi"
    for n in (999, 1000, 1001, 1002):
        kernel = add[(3, 2)](*arrays, n, BLOCK=256, num_warps=2)
    assert not hip.native[0] and hip.native[-2:] == [True, True]
    sizes = (3, 2, 1, 128, 1, 1, kernel.metadata.shared)
    assert hip.launches[-1] == (sizes, None, [*map(address, arrays), 1002])
    hip.launch_status = OUT_OF_MEMORY
    with pytest.raises(RuntimeError, match=r"\[HIP\]: no memory \(status 2\)"):
        add[(1,)](*arrays, 1003, BLOCK=256, num_warps=2)
    assert hip.native[-1]
    hip.launch_status = 0
    for _ in range(3):
        add[(1,)](*arrays, 1000, BLOCK=256, launch_cooperative_grid=True)
    assert hip.cooperative == 3 and hip.native[-1]


def test_kernels_for_tensors_of_less_than_2_gib(
    hip: FakeHip, arrays: list[np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Are launched natively, and never for larger tensors."""
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(launcher, "address_of", lambda arg, position: arg.data_ptr())
    monkeypatch.setattr(libhip, "_LARGEST", 4096)
    hip.kinds = "QQQi"
    small, large = ([torch.zeros(size) for _ in range(3)] for size in (1024, 1025))
    made = [add[(1,)](*given, 1000, BLOCK=64) for given in (small, large) for _ in range(3)]
    assert not hip.native[0] and not hip.native[3]
    assert hip.native[2] and hip.native[4:] == [True, True]
    ranges = ["tt.pointer_range = 32" in kernel.asm["ttir"] for kernel in made]
    assert ranges == [True] * 3 + [False] * 3
    views = [x[:8] for x in large]
    assert add[(1,)](*views, 1000, BLOCK=64) is made[3] and hip.native[-1]
    for given in (small, large):
        assert add[(1,)](*given, 1000, BLOCK=64) is made[0 if given is small else 3]
    assert all(hip.native[-2:])
    assert hip.launches[-1][2] == [*(x.data_ptr() for x in large), 1000]
    monkeypatch.setattr(libhip, "_LARGEST", 4)
    assert add[(1,)](*small, 1000, BLOCK=64) is made[3]


def test_descriptors_made_on_the_host(hip: FakeHip, arrays: list[np.ndarray]) -> None:
    hip.kinds = "QiiqqQ"
    given = TensorDescriptor(arrays[0], [32, 32], [32, 1], [16, 32])
    for _ in range(3):
        by_descriptor[(1,)](given, arrays[1])
    assert hip.native[-1]
    expected = [address(arrays[0]), 32, 32, 32, 1, address(arrays[1])]
    assert [values for _, _, values in hip.launches] == [expected] * 3


@tritium.jit
def by_descriptor(desc, out):
    i, j = tl.arange(0, 16), tl.arange(0, 32)
    tl.store(out + i[:, None] * 32 + j[None, :], desc.load([16, 0]))


@tritium.jit
def scalars(out, a, b, c, d, pair):
    tl.store(out, a + b + c + d + pair[0] + pair[1])


def test_the_forms_of_arguments(hip: FakeHip) -> None:
    hip.kinds = "Qfqi?if"
    scalars[(1,)](Tensor(0x10000), 0.5, 1 << 40, -7, True, (3, 2.5))
    (_, _, values), = hip.launches
    assert values == [0x10000, 0.5, 1 << 40, -7, True, 3, 2.5]


def test_errors(hip: FakeHip, monkeypatch: pytest.MonkeyPatch) -> None:
    hip.kinds, hip.launch_status = "QQQi", OUT_OF_MEMORY
    good = Tensor(0x10000)
    with pytest.raises(RuntimeError, match=r"\[HIP\]: no memory \(status 2\)"):
        add[(1,)](good, good, good, 1000, BLOCK=256)
    hip.launch_status, host = 0, Tensor(0x100)
    host.is_cuda = False  # type: ignore[misc]
    with pytest.raises(ValueError, match=r"at 0\) cannot be accessed .*: argument 'x'"):
        add[(1,)](host, good, good, 1000, BLOCK=256)
    pinned = Tensor(0x20000)
    pinned.is_cuda = False  # type: ignore[misc]
    add[(1,)](pinned, good, good, 1000, BLOCK=256)
    assert hip.launches[-1][2][0] == 0x20001
    memory = np.zeros(4, np.float32)
    assert launcher.address_of(memory, 0) == address(memory) + 1
    given = SimpleNamespace(__cuda_array_interface__={"data": (0x30000, False)})
    assert launcher.address_of(given, 0) == 0x30000
    with pytest.raises(ValueError, match="cannot be accessed from Triton"):
        launcher.address_of(SimpleNamespace(__dlpack__=None, __dlpack_device__=lambda: (1, 0)), 0)
    driver = HIPDriver()
    with pytest.raises(OutOfResources, match="shared memory"):
        driver.utils.load_binary("add", b"", 1 << 17, 0)


def test_discovery(hip: FakeHip, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = HIPDriver()
    assert HIPDriver.is_active()
    assert driver.get_current_target() == GPUTarget("hip", "gfx942", 64)
    assert driver.utils.get_device_properties(0)["multiprocessor_count"] == 304
    assert driver.get_current_stream() == 0
    libhip.device_count.cache_clear()
    hip.devices = 0
    assert not HIPDriver.is_active()

    def missing() -> Any:
        raise OSError("libamdhip64.so: not found")

    monkeypatch.setattr(libhip, "open_library", missing)
    libhip.device_count.cache_clear()
    libhip.library.cache_clear()
    assert not HIPDriver.is_active()
    with pytest.raises(RuntimeError, match="TRITON_LIBHIP_PATH may name it"):
        libhip.library()


def test_a_library_without_a_function_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libhip, "open_library", SimpleNamespace)
    libhip.device_count.cache_clear()
    assert libhip.device_count() == 0
    libhip.device_count.cache_clear()


@tritium.jit
def says(x, n):
    tl.device_print("100% n", n)
    tl.device_print("x", tl.load(x), hex=True)
    tl.device_assert(n < 7, "n is 50% too large")


def test_what_kernels_print(hip: FakeHip, capfd: pytest.CaptureFixture[str]) -> None:
    hip.kinds, x = "Qi", Tensor(0x10000)
    hip.written = struct.pack("<QQ3QqQ3QQ", 80, 1, 3, 0, 0, -5, 2, 4, 0, 1, 0x40400000)
    says[(5,)](x, 5, debug=True)
    assert hip.synchronized == 1 and hip.memory.raw == bytes(len(hip.memory))
    assert capfd.readouterr().out == (
        "pid (3, 0, 0) idx () 100% n: -5\npid (4, 0, 1) idx () x: 0x40400000\n"
    )
    says[(5,)](x, 5, debug=True)  # which is no native launch
    assert hip.synchronized == 2 and len(capfd.readouterr().out.splitlines()) == 2
    hip.written = struct.pack("<QQ4Q", 40, 3, 1, 2, 0, 17)
    wanted = (r"device-side assert: pid \(1, 2, 0\) thread 17: .*test_driver\.py:\d+: says: "
              r"Assertion `n is 50% too large` failed\.")  # fmt: skip
    with pytest.raises(RuntimeError, match=wanted):
        says[(5,)](x, 8, debug=True)
    assert "Assertion" in capfd.readouterr().err


def test_more_than_there_is_room_for(hip: FakeHip, capfd: pytest.CaptureFixture[str]) -> None:
    hip.kinds = "Qi"
    count = (output.CAPACITY - 8) // 40
    hip.written = struct.pack("<Q", 40 * count + 80) + struct.pack("<Q3Qq", 1, 0, 0, 0, 9) * count
    says[(5,)](Tensor(0x10000), 5, debug=True)
    *printed, last = capfd.readouterr().out.splitlines()
    assert len(printed) == count and last.startswith("80 bytes of what kernels print are lost")


def test_the_code_that_writes_records() -> None:
    """On the CPU: two lines of a kernel, and one for which there is no room."""
    module, host = Module(), Records("llvm.amdgcn.endpgm")
    f = Function(module, "write", [("i32", "x", ""), ("double", "y", "")], "void", linkage="")
    e: Any = SimpleNamespace(f=f)
    for form, value in (("x %u %%\n", f.arguments[0]), ("y %f\n", f.arguments[1])):
        host.print(e, form, [value])
    f.ret(None)
    text = module.text().replace("protected", "").replace("externally_initialized", "")
    memory = ctypes.create_string_buffer(output.CAPACITY)
    variable = c_void_p(ctypes.addressof(memory))
    engine = jit(text)
    c_void_p.from_address(engine.get_global_value_address(output.SYMBOL)).value = variable.value
    write = ctypes.CFUNCTYPE(None, c_int, ctypes.c_double)(engine.get_function_address("write"))
    write(7, 2.5)
    write(-1, -0.25)
    found = [line for _, line in lines(memory.raw, host.formats)]
    assert found == ["x 7 %\n", "y 2.500000\n", "x 4294967295 %\n", "y -0.250000\n"]
    struct.pack_into("<Q", memory, 0, output.CAPACITY - 8)
    write(7, 2.5)
    assert struct.unpack_from("<Q", memory)[0] == output.CAPACITY + 24
    assert not any(memory.raw[72:])


def jit(text: str) -> Any:
    """A module in this process."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine()
    module = llvm.parse_assembly(text)
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    return engine


def test_time_by_events(hip: FakeHip) -> None:
    calls = list[int]()
    found = active.active.get_benchmarker()(lambda: calls.append(1), quantiles=[0.5, 0.2], rep=10)
    assert found == [2.0, 2.0] and len(calls) == 1 + 5 + 12 + 5
    assert hip.log[:6] == ["cold", "event", "event"] * 2
    del hip.log[:]
    assert do_bench(lambda: calls.append(1), warmup=4, rep=8, return_mode="all") == [2.0] * 20
    gc.collect()
    assert ctypes.addressof(hip.memory) in hip.freed, "the cache's memory"
    assert set(range(1, len(hip.times) + 1)) <= set(hip.freed)


def test_accesses_out_of_bounds(
    hip: FakeHip, arrays: list[np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the setting of the reference's address sanitizer."""
    monkeypatch.setenv("TRITON_ENABLE_ASAN", "1")
    hip.kinds = "QQQi" + "Q" * 7
    kernel = add[(3,)](*arrays, 1000, BLOCK=256)
    assert "cmpxchg" in kernel.asm["llir"] and hip.synchronized == 1
    (values,) = [values for _, _, values in hip.launches]
    ends = [address(x) + x.nbytes for x in arrays]
    assert values[4] == ctypes.addressof(hip.host) and set(ends) <= set(values[5:])
    hip.reported = struct.pack("<6iq", 1, 0, 2, 0, 0, 0, ends[0])
    with pytest.raises(SanitizerError, match=r"(?s)program \(2, 0, 0\).*1024 of argument 'x'"):
        add[(3,)](*arrays, 1000, BLOCK=256)
    assert hip.native == [False, False]
