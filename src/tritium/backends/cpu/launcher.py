"""From Python arguments to a running kernel: a native function, made once for all kernels.

`make_launcher` returns a built-in function `launch(gx, gy, gz, *args)`, whose body `launch_writer`
writes. Here is its memory, and the careful path in Python (`_Signature`) for arguments that the
native code does not know and for every error.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tritium import forking, knobs
from tritium.backends.cpu.launch_records import (
    API,
    CAPSULE,
    FLOAT32,
    FLOAT64,
    INTEGER,
    MAX_GRID,
    OTHER,
    PARAM,
    POINTER,
    SKIP,
    STATE,
    THREADS,
)
from tritium.fingerprint import compiler_key
from tritium.launch.arguments import DLPACK_TYPES, Param, extract_pointer
from tritium.launch.ends import End, Slot
from tritium.launch.scalars import extract_scalar, limits
from tritium.native import pool as pools
from tritium.native import pyobjects
from tritium.native.crash import STATE_SYMBOL, reporter
from tritium.native.guards import Guard, item_guard, write_guards
from tritium.native.loader import (
    Image,
    ObjectStore,
    cached_object,
    compile_ir,
    load_object,
    object_key,
)
from tritium.native.pyobjects import HEAD, METH_FASTCALL, NUMPY_WRITEABLE, MethodDef, builtin
from tritium.native.records import allocate
from tritium.sanitize.launch import failed_check
from tritium.system import at_fork


def native_ir(system: pools.System | None = None) -> str:
    """The LLVM IR of the pool and of the launch function, for a system (default: this one)."""
    # Here, because a process that finds the object code in the cache never needs the writers.
    from tritium.backends.cpu.launch_writer import LaunchWriter
    from tritium.codegen.llvm.writer import Module
    from tritium.native.crash_writer import CrashWriter
    from tritium.native.pool_writer import PoolWriter

    module = Module()
    system = system or pools.System.here()
    PoolWriter(module, system).write()
    LaunchWriter(module).write()
    CrashWriter(module, system.crash_reports).write()
    return module.text()


def _native_key(system: pools.System) -> str:
    """The cache key of `native_ir(system)`'s object code, without writing it, which would cost
    more than loading the object."""
    parts = ("pool", compiler_key(), repr(system), str(HEAD), sys.platform)
    return object_key("\0".join(parts), "light")


def cpu_threads() -> int:
    """`knobs.runtime.cpu_threads` now."""
    return knobs.runtime.cpu_threads


class ThreadCount:
    """`cpu_threads()` for native code, which calls this again once the setting may have changed.
    (How many CPUs are usable is taken not to change but by a fork.)

    `slot` is the address of a pointer to the current `THREADS` record.
    """

    def __init__(self) -> None:
        self.slot, self._memory = allocate(8)
        # Threads that meet in `_write` leave the record of one of them; none may be freed.
        self._kept: deque[Any] = deque(maxlen=64)
        self._forget()
        at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        self._write(_NEVER, 0)

    def _write(self, guards: list[Guard], number: int) -> None:
        where, memory = write_guards(guards)
        record, own = allocate(THREADS.size)
        THREADS.write(record, guards=where, count=len(guards), number=number)
        self._kept.append((memory, own))
        ctypes.c_uint64.from_address(self.slot).value = record

    def __call__(self) -> int:
        guards = [item_guard(*place) for place in knobs.places(knobs.runtime, "cpu_threads")]
        number = cpu_threads()  # after the guards: what changes meanwhile breaks them
        self._write(guards, number)
        return number


_NEVER: list[Guard] = [([None], None, None)]
"""Guards that do not hold: a list must be empty that is not."""


class Native:
    """The native code and the memory that all launchers of the process share."""

    def __init__(self, store: ObjectStore | None, system: pools.System | None = None):
        system = system or pools.System.here()
        code = cached_object(
            _native_key(system), store, lambda: compile_ir(native_ir(system), opt="light")
        )
        symbols = ["tritium_launch", "tritium_end", "tritium_run", "tritium_crash"]
        imports = {**pyobjects.api_addresses(API), STATE_SYMBOL: reporter.state}
        self.image = load_object(code, symbols, imports)
        self.image.keep()  # workers sleep in it until the process ends
        self.pool = pools.Pool(knobs.system().usable_cpus(), knobs.runtime.cpu_threads, system)
        self.types = pyobjects.known_types()
        self.threads = ThreadCount()


_native_lock = forking.held_while_forking(threading.Lock())
_natives: list[Native] = []


def native(store: ObjectStore | None = None) -> Native:
    """The process's native code, made on the first call (with `store` to keep the object in)."""
    with _native_lock:
        if not _natives:
            _natives.append(Native(store))
        return _natives[0]


class _Signature:
    """The careful path of one kernel's launches; it refers to nothing that refers to it."""

    def __init__(self, shared: Native, name: str, params: tuple[Param, ...], params_address: int):
        self.shared, self.name, self.params = shared, name, params
        self.params_address = params_address
        self.dtypes: dict[int, np.dtype[Any]] = {}

    def argument(self, index: int, obj: Any) -> int:
        """The slot of argument `index`."""
        param = self.params[index]
        if not param.is_pointer:
            return extract_scalar(obj, index, param.name, param.type)
        address = extract_pointer(obj, index, param.name, param.element, param.writes)
        self.shared.types.learn(obj)
        if type(obj) is np.ndarray:
            dtype: np.dtype[Any] = obj.dtype
            self.dtypes[index] = dtype  # the record holds its address: keep it alive
            PARAM.write(self.params_address + index * PARAM.size, descr=id(dtype))
        return address & 0xFFFFFFFFFFFFFFFF

    def grid(self, axis: int, value: Any) -> int:
        """A grid extent that is no plain int, or an error. Axis 3: the product is too large;
        4: too large for a cooperative launch."""
        if axis == 4:
            pools.check_together(self.name, value)
        if axis == 3:
            raise ValueError(f"kernel '{self.name}': the grid has more than 2**63 - 1 programs")
        try:
            size = value.__index__()
        except (AttributeError, TypeError):
            raise TypeError(
                f"kernel '{self.name}': grid[{axis}] is {value!r:.80}; expected an int from 0 to "
                f"{MAX_GRID}"
            ) from None
        if not 0 <= size <= MAX_GRID:
            raise ValueError(
                f"kernel '{self.name}': grid[{axis}] is {size}; expected 0 to {MAX_GRID}"
            )
        return size

    def count(self, given: int, _: None) -> int:
        """The error of a wrong number of arguments."""
        names = ", ".join(param.name for param in self.params)
        raise TypeError(
            f"kernel '{self.name}' takes the grid (3 ints) and {len(self.params)} arguments "
            f"({names}); got {max(given - 3, 0)} arguments"
        )

    def fault(self, address: int, _: None) -> int:
        """The error of a failed device_assert."""
        x, y, z, message, detail = (
            pools.FAULT.read(address, name)
            for name in ("pid_x", "pid_y", "pid_z", "message", "detail")
        )
        text = (ctypes.c_char_p(message).value or b"").decode(errors="replace")
        failed = failed_check(text, (x, y, z), detail)
        if failed is not None:
            raise failed
        raise RuntimeError(f"device-side assert triggered: {text} [program ({x}, {y}, {z})]")


class _Owner(NamedTuple):
    """Everything that a launcher's memory refers to."""

    method: MethodDef
    state: int
    end: int
    memory: tuple[Any, ...]
    functions: tuple[Callable[..., int], ...]
    keep: object


def _write_param(address: int, param: Param) -> None:
    if param.is_pointer:
        code, bits = DLPACK_TYPES.get(param.element, (0, 0))
        dlpack = code | bits << 8 | 1 << 16 if bits else 0
        flags = NUMPY_WRITEABLE if param.writes else 0
        PARAM.write(address, kind=POINTER, dlpack=dlpack, numpy_flags=flags)
    elif param.type[0] in "iu":
        low, high = limits(param.type)
        PARAM.write(address, kind=INTEGER, low=low, high=min(high, (1 << 63) - 1))
    else:
        kinds = {"fp32": FLOAT32, "fp64": FLOAT64, "constexpr": SKIP}
        PARAM.write(address, kind=kinds.get(param.type, OTHER))


def _parameter_table(params: Sequence[Param]) -> tuple[int, Any]:
    """The address and the memory of the records of a kernel's parameters."""
    address, memory = allocate(PARAM.size * max(len(params), 1), 64)
    for i, param in enumerate(params):
        _write_param(address + i * PARAM.size, param)
    return address, memory


def make_launcher(
    address: int,
    params: Sequence[Param],
    scratch_bytes: int,
    *,
    exclusive: bool = False,
    waits: bool = False,
    polls: bool = False,
    most: int | None = None,
    name: str = "kernel",
    keep: object = None,
    store: ObjectStore | None = None,
    shared: Native | None = None,
) -> Callable[..., None]:
    """A native function that launches a kernel: `launch(gx, gy, gz, *args)`.

    Args:
        address: the kernel, `void (ptr args, ptr ctx, i64 begin, i64 end)` (see `pool`).
        params: one for each argument of `launch`, in order; constexpr ones take no slot.
        scratch_bytes: how much scratch memory a thread of it needs.
        exclusive: whether its exclusive launches are faster, and it waits for no other kernel.
        waits: whether it may wait for another kernel, whose launch needs the GIL.
        polls: whether programs may wait for each other, in loops that call `pool.FAULT.stall`.
        most: how many programs a grid may have, if all must run at the same time.
        name: for messages, and the function's `__name__`.
        keep: kept alive as long as the function is (the `Image` of the kernel).
        store: where the launcher's own object code is kept between processes.
        shared: native code and pool to use instead of the process's own.

    Returns:
        The function. It returns None and raises TypeError, ValueError or OverflowError for an
        argument that does not fit (see `arguments`), RuntimeError for a failed device_assert,
        MemoryError when there is no memory for scratch. A grid of 0 programs runs nothing.
    """
    if scratch_bytes < 0:
        raise ValueError(f"make_launcher: scratch_bytes is {scratch_bytes}; expected at least 0")
    shared = shared or native(store)
    if isinstance(keep, Image):
        reporter.watch(keep, name, shared.image["tritium_crash"])
    state, state_memory = allocate(STATE.size, 64)
    table, table_memory = _parameter_table(params)
    signature = _Signature(shared, name, tuple(params), table)
    functions = (
        signature.argument, signature.grid, signature.count, signature.fault, shared.threads
    )  # fmt: skip
    on_argument, on_grid, on_count, on_fault, threads = map(id, functions)
    STATE.write(
        state, kernel=address, pool=shared.pool.address, types=shared.types.address,
        cost=float("inf"), exclusive=int(exclusive), waits=pools.POLLS if polls else int(waits),
        scratch_bytes=scratch_bytes,
        param_count=len(params), most=sys.maxsize if most is None else most,
        on_argument=on_argument, on_grid=on_grid, on_count=on_count, on_fault=on_fault,
        threads=threads, known_threads=shared.threads.slot, params=table,
    )  # fmt: skip
    text = f"{name}(gx, gy, gz, {', '.join(p.name for p in params)})\n--\n\nLaunch the kernel."
    method = MethodDef(name.encode(), shared.image["tritium_launch"], METH_FASTCALL, text.encode())
    memory = (state_memory, table_memory, shared)
    owner = _Owner(method, state, shared.image["tritium_end"], memory, functions, keep)
    return builtin(method, state, CAPSULE, owner)


def native_end(launch: Callable[..., None], params: Sequence[Param]) -> End:
    """The last step of a native launch, for a launcher that `make_launcher` made."""
    owner: Any = launch.__module__
    slots = [Slot(p.type, p.writes) for p in params if p.type != "constexpr"]
    return End(owner.end, owner.state, slots, launch)


__all__ = [
    "Image", "Native", "Param", "cpu_threads", "make_launcher", "native", "native_end", "native_ir",
]  # fmt: skip
