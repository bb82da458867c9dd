"""The CPU as a device: properties, loading, launching, timing."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from tritium import knobs
from tritium.backends.base import DriverBase, c_type
from tritium.backends.cpu.launcher import Param, cpu_threads, make_launcher, native, native_end
from tritium.backends.cpu.processors import processor
from tritium.cache import CachedObjects
from tritium.launch.ends import End, Link
from tritium.native.host import host
from tritium.native.loader import Image, load_object
from tritium.native.pool import MAX_TOGETHER
from tritium.native.pyobjects import known_types
from tritium.sanitize import ring
from tritium.sanitize.extents import extent_of
from tritium.sanitize.launch import CheckFailed, Checks
from tritium.sanitize.ring import PARAMETERS
from tritium.target import GPUTarget


class LoadedKernel(NamedTuple):
    """A kernel in memory; its address is valid as long as the image lives."""

    address: int
    image: Image


class CPUUtils:
    """The device queries of the runtime."""

    def get_device_properties(self, device: int = 0) -> dict[str, int]:
        """Figures that programs for GPUs look at, as far as they mean something here.

        `multiprocessor_count` is the number of threads that programs run on, `max_shared_mem` the
        data cache that one core has to itself, in bytes.
        """
        machine = host()
        return {
            "max_shared_mem": machine.l2,
            # Programs divide it by a kernel's registers and its warps, which are up to 64.
            "max_num_regs": 64 * machine.vector_registers,
            "vector_bits": machine.vector_bits,
            "multiprocessor_count": cpu_threads(),
            "warpSize": 1,
            "sm_clock_rate": 0,
            "mem_clock_rate": 0,
            "mem_bus_width": 0,
        }

    def load_binary(
        self, name: str, kernel: bytes, shared: int, device: int
    ) -> tuple[Image, LoadedKernel, int, int, int]:
        """(module, function, registers, spills, threads a program) of a kernel's object code."""
        image = load_object(kernel, [name])
        return image, LoadedKernel(image[name], image), host().vector_registers, 0, 1


_IR_FLOAT = re.compile(r"^(\*?)f(16|32|64)$")
"""Types as IR files name them."""


class CPULauncher:
    """Launches one compiled kernel; called with everything spelled out (see `CompiledKernel`)."""

    _checks: Checks | None = None
    """The sanitizer's, in the kernel."""
    _labels: list[str] | None = None
    """The scopes that the kernel records for the profiler."""

    def __init__(self, src: Any, metadata: Any, function: LoadedKernel):
        self._kinds = list(src.signature.values())
        written = frozenset(metadata.written_args)
        self._params: list[Param] = []
        self._nested = any(isinstance(t, (tuple, list)) or _rank(t) for t in self._kinds)
        self._slot = 0
        for i, (name, kind) in enumerate(src.signature.items()):
            self._add(str(name), kind, (i,), src.constants, written)
        self._slots = [i for i, param in enumerate(self._params) if param.type != "constexpr"]
        data: dict[str, Any] = getattr(metadata, "sanitizer", None) or {}
        self._labels = data.get("labels")
        if self._labels is not None:
            self._params += [Param(name, "i64") for name in PARAMETERS]
        elif data:
            names = [self._params[i].name for i in self._slots]
            self._checks = Checks(data, names, metadata.name)
            self._params += [Param(name, "i64") for name in self._checks.parameters]
        self._launch = make_launcher(
            function.address, self._params, metadata.scratch_bytes,
            exclusive=getattr(metadata, "exclusive", False), waits=getattr(metadata, "waits", True),
            polls=getattr(metadata, "polls", True),
            most=MAX_TOGETHER if getattr(metadata, "launch_cooperative_grid", False) else None,
            name=metadata.name, keep=function.image, store=CachedObjects("launcher"),
        )  # fmt: skip

    def native_end(self, link: Link) -> End | None:
        """The last step of a native launch of this kernel; None where launches need Python."""
        checks = self._checks
        if self._labels is not None or (checks is not None and (checks.granules or checks.orders)):
            return None  # each launch has its own memory, or tells watchers
        end = native_end(self._launch, self._params)
        if checks is None:
            return end
        given, added = len(self._slots), 2 * len(checks.pointers)
        slots = list(end.slots[:given])
        assert len(end.slots) == given + added, "only extents are added on the CPU"
        for i, pointer in enumerate(checks.pointers):
            slots[pointer] = slots[pointer]._replace(extent=given + 2 * i)
        return end._replace(slots=slots, extent_of=extent_of, on_error=self._explain)

    def _explain(
        self, error: BaseException, grid: tuple[int, int, int], arguments: dict[str, Any]
    ) -> None:
        """Raise the error of a check that failed in a native launch."""
        if isinstance(error, CheckFailed) and self._checks is not None:
            args = tuple(arguments.values())
            if self._nested:
                args = tuple(_leaves(args, self._kinds))
            given = [args[i] for i in self._slots]
            raise self._checks.error(error, given, grid, None) from None

    def _add(
        self, name: str, kind: Any, path: tuple[int, ...], constants: Any, written: frozenset[int]
    ) -> None:
        if isinstance(kind, (tuple, list)):
            for i, member in enumerate(cast("Sequence[Any]", kind)):
                self._add(f"{name}[{i}]", member, (*path, i), constants, written)
            return
        if kind == "constexpr" or path in constants:
            self._params.append(Param(name, "constexpr"))
            return
        if rank := _rank(kind):
            element = kind.removeprefix("tensordesc<").partition("[")[0]
            self._add(f"{name}.base", f"*{element}", path, (), written)
            for part, integer in (("shape", "i32"), ("strides", "i64")):
                for axis in range(rank):
                    self._add(f"{name}.{part}[{axis}]", integer, path, (), written)
            return
        kind = _IR_FLOAT.sub(r"\1fp\2", kind)
        self._params.append(Param(name, kind, writes=self._slot in written))
        self._slot += 1

    def __call__(
        self,
        gx: int,
        gy: int,
        gz: int,
        stream: Any,
        function: Any,
        packed_metadata: Any,
        launch_metadata: Any,
        enter_hook: Callable[[Any], None] | None,
        exit_hook: Callable[[Any], None] | None,
        *args: Any,
    ) -> None:
        if self._nested:
            args = tuple(_leaves(args, self._kinds))
        if enter_hook:
            for arg in args:  # here, lest a profiler takes it for the first kernel's time
                known_types().learn(arg)
            enter_hook(launch_metadata)
        if self._labels is not None:
            args = (*args, *ring.arguments(self._labels))
        if self._checks is None:
            self._launch(gx, gy, gz, *args)
        else:
            self._launch_checked(self._checks, (gx, gy, gz), args)
        if exit_hook:
            exit_hook(launch_metadata)

    def _launch_checked(
        self, checks: Checks, grid: tuple[int, int, int], args: tuple[Any, ...]
    ) -> None:
        given = [args[i] for i in self._slots]
        shadow = checks.shadow(given, grid)
        try:
            self._launch(*grid, *args, *checks.values(given, shadow))
        except CheckFailed as failed:
            raise checks.error(failed, given, grid, shadow) from None
        checks.done(shadow)


def _rank(kind: Any) -> int:
    """The rank of a descriptor's type, `tensordesc<fp32[16, 64]>`; 0 for other types."""
    if not isinstance(kind, str) or not kind.startswith("tensordesc<"):
        return 0
    return kind.count(",") + 1


def _leaves(values: Sequence[Any], kinds: Sequence[Any]) -> list[Any]:
    """The members, in order, of those values whose kind is a tuple (a constant stays whole), and
    base, shape and strides of descriptors."""
    flat: list[Any] = []
    for value, kind in zip(values, kinds, strict=True):
        if isinstance(kind, (tuple, list)):
            flat.extend(_leaves(value, cast("Sequence[Any]", kind)))
        elif _rank(kind):
            flat += [value.base, *map(int, value.shape), *map(int, value.strides)]
        else:
            flat.append(value)
    return flat


class CPUDeviceInterface:
    """The `torch.cuda` functions that programs use, for the CPU: work is done when a launch
    returns."""

    class Event:
        """A point in time."""

        def __init__(self, enable_timing: bool = True):
            self.time = 0.0

        def record(self) -> None:
            """Remember now."""
            self.time = time.perf_counter()

        def elapsed_time(self, end: CPUDeviceInterface.Event) -> float:
            """Milliseconds until `end`."""
            return (end.time - self.time) * 1e3

        def synchronize(self) -> None:
            """Do nothing: launches on the CPU have ended when they return."""

    @staticmethod
    def synchronize(device: Any = None) -> None:
        """Do nothing: launches on the CPU have ended when they return."""

    @staticmethod
    def current_device() -> int:
        """The only device."""
        return 0

    @staticmethod
    def set_device(device: int) -> None:
        """Do nothing: there is only one device."""
        if device != 0:
            raise ValueError(f"set_device: device is {device}; the CPU is device 0")

    @staticmethod
    def is_available() -> bool:
        """Always."""
        return True

    @staticmethod
    def device_count() -> int:
        """One."""
        return 1


class CPUDriver(DriverBase):
    """Launches kernels on the threads of this process's CPUs."""

    shares_processors = True

    def __init__(self) -> None:
        self.utils = CPUUtils()
        self.launcher_cls = CPULauncher

    def make_launcher(self, src: Any, metadata: Any, function: Any) -> Any:
        return self.launcher_cls(src, metadata, function)  # which it is bound to

    @classmethod
    def is_active(cls) -> bool:
        return True

    def record_memory(self, size: int) -> Any:
        return np.zeros(size, np.uint8)

    def load_native(self) -> None:
        """Load the native code that all launches share; where it is not cached, make it."""
        native(CachedObjects("launcher"))

    def get_current_device(self) -> int:
        """The CPU is one device: 0."""
        return 0

    def set_current_device(self, device: int) -> None:
        """Do nothing: there is only one device."""
        CPUDeviceInterface.set_device(device)

    def native_device(self) -> None:
        """The current device for native launches: there is only one."""

    def get_current_stream(self, device: int = 0) -> int:
        """Launches run at once, in order: the one stream is 0."""
        return 0

    def get_device_capability(self, device: int = 0) -> tuple[int, int]:
        """CUDA's notion of a capability, which a CPU does not have: (0, 0)."""
        return 0, 0

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cpu", host().cpu, 1)

    def check_runs(self, metadata: Any) -> None:
        super().check_runs(metadata)
        wanted, own = processor(metadata.arch), host()
        if not own.runs_code_of(wanted):
            lacks = ", ".join(sorted({*wanted.features} - {*own.features}))
            raise RuntimeError(
                f"kernel {metadata.name!r} is compiled for {metadata.arch!r} ({wanted.triple}); "
                f"this machine, {own.cpu!r} ({own.triple}), cannot run it"
                + (f": it lacks {lacks}" if wanted.triple == own.triple else "")
            )

    def map_python_to_cpp_type(self, ty: str) -> str:
        return c_type(ty, pointer="void*", fp32="float")

    def get_active_torch_device(self) -> Any:
        torch = sys.modules.get("torch")
        return "cpu" if torch is None else torch.device("cpu")

    def get_device_interface(self) -> type[CPUDeviceInterface]:
        """Synchronization and timing, named as torch names them."""
        return CPUDeviceInterface

    def get_benchmarker(self) -> Any:
        return benchmark

    def get_empty_cache_for_benchmark(self) -> np.ndarray:
        """A buffer larger than the last-level cache; writing it evicts what is there.

        A large last-level cache is many processors', of which few are this process's: no more than
        256 MB are written, and no more than an eighth of the memory that is free.
        """
        size = min(max(4 * host().l3, 64 << 20), 256 << 20)
        free = knobs.system().free_memory()
        return np.empty(size if free is None else min(size, max(free // 8, 1 << 20)), np.uint8)

    def clear_cache(self, cache: np.ndarray) -> None:
        """Evict all data from the caches."""
        cache.fill(0)


def benchmark(
    kernel_call: Callable[[], Any], *, quantiles: Sequence[float], **kwargs: Any
) -> list[float]:
    """Quantiles of the wall time of a call, in milliseconds (`Benchmarker`).

    Keywords: `warmup` and `rep`, how long to warm up and to measure, in milliseconds.
    """
    warmup, rep = kwargs.get("warmup", 25), kwargs.get("rep", 100)
    _run_for(kernel_call, warmup)
    times = _run_for(kernel_call, rep)
    return [float(q) for q in np.quantile(times, quantiles)]


def _run_for(kernel_call: Callable[[], Any], milliseconds: float) -> list[float]:
    times: list[float] = []
    end = time.perf_counter() + milliseconds / 1e3
    while not times or time.perf_counter() < end:
        start = time.perf_counter()
        kernel_call()
        times.append((time.perf_counter() - start) * 1e3)
    return times
