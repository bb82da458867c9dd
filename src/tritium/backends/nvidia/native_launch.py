"""The native end of a launch on CUDA: slots to `cuLaunchKernelEx`, on the caller's stream.

`tritium_cuda_end` is LLVM IR that calls the driver and CPython through pointers. What differs
between kernels is in a `STATE` record. The layouts of CUlaunchConfig and CUlaunchAttribute are
those of cuda.h, versions 12 and 13.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from tritium import knobs
from tritium.backends.nvidia.libcuda import check, library
from tritium.backends.nvidia.tensormap import data_type
from tritium.codegen.llvm.writer import Value
from tritium.launch.device_end import (
    CHECKED,
    NO,
    Calls,
    EndWriter,
    address_of_end,
    descriptor_slots,
    slot_of,
    stream_function,
)
from tritium.launch.ends import End, Link, Slot
from tritium.native.pyobjects_writer import call_object, is_null
from tritium.native.records import Record, allocate
from tritium.native.writer import NULL, Code, i32, i64
from tritium.sanitize.checked import NativeChecks
from tritium.sanitize.extents import extent_of

STATE = Record(
    ("function", "ptr"), ("launch", "ptr"), ("encode", "ptr"), ("stream", "ptr"),
    ("device", "ptr"), ("failed", "ptr"), ("threads", "i32"), ("shared", "i32"),
    ("attributes", "ptr"), ("attribute_count", "i32"), ("blocks", "i32"),
    ("parameter_count", "i64"),
    ("parameters", "ptr"), ("map_count", "i64"), ("maps", "ptr"), ("allocate", "ptr"),
    ("enter", "ptr"), *CHECKED,
)  # fmt: skip
"""`stream`: a Python function from `device` to the current stream, or null for the default stream;
`failed`: one that raises for a status; `parameters`: for each of the kernel's parameters its slot
(i64), or -1 - m for the tensor map m, where the address of the report of checks counts as the map
after the last one; `blocks`: of a program; `allocate`: null, or a Python
function from the number of programs and the stream to the scratch memory that the kernel needs, an
int that is its address: the kernel's last parameter, which has no entry; `enter`: a Python function
that makes the kernel's context current in this thread, and returns whether it has done so."""

MAP = Record(
    ("base", "i64"), ("rank", "i32"), ("type", "i32"), ("size", "i64"), ("swizzle", "i32"),
    ("box0", "i32"), ("box1", "i32"), ("box2", "i32"), ("box3", "i32"), ("box4", "i32"),
)  # fmt: skip
"""A tensor map: `base` is the slot of the address; those of the shape and of the strides follow.
`type` and `swizzle` are the driver's enumerations, `box` the block, fastest axis first."""

MAP_BYTES, MAP_ALIGNMENT, MAX_RANK = 128, 64, 5
L2_PROMOTION_128B = 2

CONFIG = Record(
    ("x", "i32"), ("y", "i32"), ("z", "i32"), ("block_x", "i32"), ("block_y", "i32"),
    ("block_z", "i32"), ("shared", "i32"), ("stream", "ptr"), ("attributes", "ptr"),
    ("attribute_count", "i32"),
)  # fmt: skip
ATTRIBUTE = Record(("id", "i32"), ("align 8", "align 8"), ("value", "i32"), ("value1", "i32"),
                   ("value2", "i32"), ("rest", "bytes 48"))  # fmt: skip

INVALID_CONTEXT, INVALID_HANDLE = 201, 400
"""Statuses of a call in a thread that has no current context, or another than the kernel's."""


class _EndWriter(EndWriter):
    """Writes `tritium_cuda_end`."""

    state, symbol = STATE, "tritium_cuda_end"

    def write(self) -> None:
        self.write_failure()
        self._entered()
        self._encode()
        self._launch()
        self._launch_again()
        self._end()

    def _entered(self) -> None:
        """i1 entered(state, status): after a status that may mean that the kernel's context is not
        current in this thread, make it current; returns whether the thread had another one."""
        arguments = [("ptr", "state"), ("i32", "status")]
        f = Code(self.module, "entered", arguments, "i1", cold=True)
        state, status = f.arguments
        missing = f.icmp("eq", status, i32(INVALID_CONTEXT))
        other = f.icmp("eq", status, i32(INVALID_HANDLE))
        with f.when(f.icmp("eq", f.op("or", missing, other), NO)):
            f.ret(NO)
        answer = call_object(f, f.read(state, STATE, "enter"))
        with f.when(is_null(f, answer)):  # the status is what is reported
            f.call("void", "PyErr_Clear")
            f.ret(NO)
        changed = f.call("i32", "PyObject_IsTrue", answer)
        f.call("void", "Py_DecRef", answer)
        f.ret(f.icmp("eq", changed, i32(1)))

    def _launch(self) -> None:
        """i32 launch(state, config, parameters): `cuLaunchKernelEx` without the GIL; the status."""
        arguments = [("ptr", "state"), ("ptr", "config"), ("ptr", "parameters")]
        f = Code(self.module, "launch", arguments, "i32")
        state, config, parameters = f.arguments
        launch, function = f.read(state, STATE, "launch"), f.read(state, STATE, "function")
        # The driver waits where its queue is full.
        f.ret(self.waiting(f, launch, config, function, parameters, NULL))

    def _launch_again(self) -> None:
        """i32 launch_again(state, status, config, parameters): the same after a failure, once the
        kernel's context is current; the status, which is the given one where it was."""
        arguments = [("ptr", "state"), ("i32", "status"), ("ptr", "config"), ("ptr", "parameters")]
        f = Code(self.module, "launch_again", arguments, "i32", cold=True)
        state, status, config, parameters = f.arguments
        with f.when(f.call("i1", "entered", state, status)):
            f.ret(f.call("i32", "launch", state, config, parameters))
        f.ret(status)

    def _encode(self) -> None:
        """i32 encode(state, map, slots, out): encode a tensor map at `out`; the status."""
        arguments = [("ptr", "state"), ("ptr", "map"), ("ptr", "slots"), ("ptr", "out")]
        f = Code(self.module, "encode", arguments, "i32")
        state, record, slots, out = f.arguments
        sizes, strides, ones = (f.variable("", size=8 * MAX_RANK) for _ in range(3))
        rank = f.cast("sext", f.read(record, MAP, "rank"), "i64")
        base, size = f.read(record, MAP, "base"), f.read(record, MAP, "size")
        with f.counted(rank) as (i, _):  # the driver's axes are in the opposite order
            last = f.sub(rank, i)
            extent = f.get("i64", f.gep("i64", slots, f.add(base, last)))
            f.put(f.gep("i64", sizes, i), extent)
            stride = f.get("i64", f.gep("i64", slots, f.add(base, f.add(last, rank))))
            with f.when(f.icmp("sgt", i, i64(0))):  # that of the fastest axis is 1, and implied
                place = f.gep("i64", strides, f.sub(i, i64(1)))
                f.put(place, f.op("mul", stride, size))
            f.put(f.gep("i32", ones, i), i32(1))
        address = f.get("i64", f.gep("i64", slots, base))
        f.ret(f.invoke(
            "i32", f.read(state, STATE, "encode"), out, f.read(record, MAP, "type"),
            f.read(record, MAP, "rank"), address, sizes, strides, f.at(record, MAP, "box0"), ones,
            i32(0), f.read(record, MAP, "swizzle"), i32(L2_PROMOTION_128B), i32(0),
        ))  # fmt: skip

    def _end(self) -> None:
        arguments = [("ptr", "state"), ("ptr", "grid"), ("i64", "total"), ("ptr", "slots")]
        f = Code(self.module, self.symbol, arguments, "i1", exported=True)
        state, grid, total, slots = f.arguments
        config = f.variable("", size=CONFIG.size)
        maps = self._maps(f, state, slots)
        parameters = self._parameters(f, state, slots, maps)
        for axis, name in enumerate(("x", "y", "z")):
            size = f.get("i64", f.offset(grid, 8 * axis))
            size = f.cast("trunc", size, "i32")
            if name == "x":
                size = f.op("mul", size, f.read(state, STATE, "blocks"))
            f.write(config, CONFIG, name, size)
        f.write(config, CONFIG, "block_x", f.read(state, STATE, "threads"))
        f.write(config, CONFIG, "block_y", i32(1))
        f.write(config, CONFIG, "block_z", i32(1))
        for name in ("shared", "attributes", "attribute_count"):
            f.write(config, CONFIG, name, f.read(state, STATE, name))
        stream = self.stream(f, state)
        f.write(config, CONFIG, "stream", stream)
        memory = self.scratch(f, state, total, stream, parameters)
        wait = self.take_report(f, state, stream)
        result = f.variable("i32", f.call("i32", "launch", state, config, parameters))
        failed = f.get("i32", result)
        with f.when(f.icmp("ne", failed, i32(0))):
            f.put(result, f.call("i32", "launch_again", state, failed, config, parameters))
        self.read_report(f, state, stream, result, wait)
        self.finish(f, state, memory, f.get("i32", result))

    def _maps(self, f: Code, state: Value, slots: Value) -> Value:
        count = f.read(state, STATE, "map_count")
        room = f.add(f.op("mul", count, i64(MAP_BYTES)), i64(MAP_BYTES))
        maps = f.emit("ptr", f"alloca i8, {room}, align {MAP_ALIGNMENT}")
        with f.counted(count) as (i, _):
            record = f.gep("i8", f.read(state, STATE, "maps"), f.op("mul", i, i64(MAP.size)))
            out = f.gep("i8", maps, f.op("mul", i, i64(MAP_BYTES)))
            result = f.variable("i32", f.call("i32", "encode", state, record, slots, out))
            failed = f.get("i32", result)
            with f.when(f.icmp("ne", failed, i32(0))):
                with f.when(f.call("i1", "entered", state, failed)):
                    f.put(result, f.call("i32", "encode", state, record, slots, out))
                status = f.get("i32", result)
                with f.when(f.icmp("ne", status, i32(0))):
                    f.ret(f.call("i1", "fail", state, status))
        return maps

    def _parameters(self, f: Code, state: Value, slots: Value, maps: Value) -> Value:
        """The addresses of the kernel's parameters."""
        report = f.op("mul", f.read(state, STATE, "map_count"), i64(MAP_BYTES))
        f.put(f.gep("i8", maps, report), f.read(state, STATE, "report"))
        count = f.read(state, STATE, "parameter_count")
        pointers = self.room(f, count)
        with f.counted(count) as (i, _):
            slot = f.get("i64", f.gep("i64", f.read(state, STATE, "parameters"), i))
            number = f.sub(i64(-1), slot)
            mapped = f.gep("i8", maps, f.op("mul", number, i64(MAP_BYTES)), flags="")
            plain = f.gep("i64", slots, slot, flags="")
            chosen = f.select(f.icmp("slt", slot, i64(0)), mapped, plain)
            f.put(f.gep("ptr", pointers, i), chosen)
        return pointers


class CudaCalls(NamedTuple):
    """The functions that the launch end calls: those of all ends, two of the driver by address, and
    `enter`, which makes the kernel's context current (see `KernelContext.enter`)."""

    common: Calls
    encode: int
    wait: int
    enter: Callable[[], bool]


def _failed(status: int) -> None:
    check((library().CUresult(status),))


@functools.cache
def _driver_addresses() -> tuple[int, int, int]:
    name = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    cuda = ctypes.CDLL(knobs.nvidia.libcuda_path or name)
    launch, encode, wait = (
        ctypes.cast(getattr(cuda, function), ctypes.c_void_p).value or 0
        for function in ("cuLaunchKernelEx", "cuTensorMapEncodeTiled", "cuStreamSynchronize")
    )
    return launch, encode, wait


def driver_calls(
    enter: Callable[[], bool], allocate: Callable[[int, int], tuple[Any, int]]
) -> CudaCalls:
    """The driver's functions, and the stream that torch has made current (else the default)."""
    torch: Any = sys.modules.get("torch")
    launch, encode, wait = _driver_addresses()
    used = torch if torch is not None and torch.cuda.is_available() else None
    common = Calls(launch, *stream_function(used), _failed, allocate)
    return CudaCalls(common, encode, wait, enter)


def make_end(
    link: Link,
    calls: CudaCalls,
    function: int,
    params: Sequence[tuple[str, str]],
    metadata: Any,
    attributes: Mapping[int, tuple[int, ...]],
    checks: NativeChecks | None = None,
) -> End | None:
    """A kernel's end; None for parameters that it does not know.

    Args:
        function: the driver's handle.
        params: (name, type) of the arguments that the kernel takes, without those of its checks.
        attributes: of the launch: the driver's number -> value, of up to three ints.
        checks: those in the kernel, if it has some.
    """
    slots: list[Slot] = []
    parameters: list[int] = []
    maps: list[dict[str, int]] = []
    described = iter(metadata.tensordesc_meta)
    for _, kind in params:
        if kind.startswith("tensordesc"):
            meta = next(described)
            if meta is not None and (meta["is_im2col"] or meta["fp4_padded"]):
                return None
            base = len(slots)
            slots += descriptor_slots(kind, _CUDA)
            if meta is None:  # its pointer, shape and strides
                parameters += range(base, len(slots))
                continue
            box = {f"box{i}": int(s) for i, s in enumerate(reversed(meta["block_size"]))}
            maps.append({
                "base": base, "rank": meta["rank"], "type": data_type(meta["elem_type"]),
                "size": int(meta["elem_size"]), "swizzle": int(meta["swizzle"]), **box,
            })  # fmt: skip
            parameters += [-len(maps), *range(base + 1, len(slots))]
        elif (slot := slot_of(kind, _CUDA)) is not None:
            parameters.append(len(slots))
            slots.append(slot)
        else:
            return None
    if checks is not None:
        parameters.append(-1 - len(maps))
        for number, pointer in enumerate(checks.pointers):
            extent = len(slots) + 2 * number
            slots[pointer] = slots[pointer]._replace(extent=extent)
            parameters += [extent, extent + 1]
    return _write(link, calls, function, metadata, attributes, slots, parameters, maps, checks)


_CUDA = 2  # DLPack's number


def _write(
    link: Link, calls: CudaCalls, function: int, metadata: Any,
    attributes: Mapping[int, tuple[int, ...]],
    slots: Sequence[Slot], parameters: Sequence[int], maps: Sequence[Mapping[str, int]],
    checks: NativeChecks | None,
) -> End:  # fmt: skip
    state, memory = allocate(STATE.size, 64)
    listed, own = allocate(8 * max(len(parameters), 1), 64)
    (ctypes.c_int64 * len(parameters)).from_address(listed)[:] = parameters
    table, maps_memory = allocate(MAP.size * max(len(maps), 1), 64)
    for i, values in enumerate(maps):
        MAP.write(table + i * MAP.size, **values)
    chosen, attributes_memory = allocate(ATTRIBUTE.size * max(len(attributes), 1), 64)
    for i, (number, value) in enumerate(attributes.items()):
        values = dict(zip(("value", "value1", "value2"), value, strict=False))
        ATTRIBUTE.write(chosen + i * ATTRIBUTE.size, id=number, **values)
    values, kept = calls.common.fields(metadata)
    keep = (memory, own, maps_memory, attributes_memory, calls, kept, checks)
    STATE.write(
        state, function=function, encode=calls.encode, enter=id(calls.enter),
        attributes=chosen if attributes else 0, attribute_count=len(attributes),
        blocks=metadata.num_ctas,
        parameter_count=len(parameters), parameters=listed, map_count=len(maps), maps=table,
        **values,
    )  # fmt: skip
    if checks is None:
        return End(address_of_end(_EndWriter, link), state, slots, keep)
    STATE.write(state, wait=calls.wait, report=checks.report, found=id(checks.found))
    return End(address_of_end(_EndWriter, link), state, slots, keep, extent_of, checks.explain)
