"""From Python arguments to a running kernel: a native function, made once for all kernels.

`make_launcher` returns a built-in function `launch(gx, gy, gz, *args)`. Its body is LLVM IR that
calls CPython's C API. What differs between kernels is in a record in memory (`STATE`, with one
`PARAM` for each parameter), which the function gets as its `self`. For each argument it has one
fast path (exact types: torch tensors by DLPack's C exchange API, NumPy arrays by their struct,
int, bool, float) and calls `_Signature` in Python for anything else and for every error.

A specialization key would be made in the same loop: the kind of a parameter chooses a block of
`_LaunchWriter._argument`, which has the address or the number in a register.
"""

from __future__ import annotations

import ctypes
import functools
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tritium import knobs
from tritium.backends.cpu import native as native_code
from tritium.backends.cpu import pool as pools
from tritium.backends.cpu.arguments import (
    DLPACK_TYPES,
    Param,
    extract_pointer,
    extract_scalar,
)
from tritium.backends.cpu.loader import (
    Image,
    ObjectStore,
    cached_object,
    compile_ir,
    load_object,
    object_key,
)
from tritium.backends.cpu.native import NULL, Code, Record, allocate, i32, i64
from tritium.lowering import llvm as llvm_text
from tritium.lowering.llvm import Module, Value, const

HEAD = object.__basicsize__  # of every Python object; its type is the last field of it
MAX_GRID = (1 << 31) - 1

POINTER, INTEGER, FLOAT32, FLOAT64, SKIP, OTHER = range(6)

PARAM = Record(
    ("kind", "i32"), ("dlpack", "i32"), ("low", "i64"), ("high", "i64"),
    ("descr", "ptr"), ("numpy_flags", "i32"),
)  # fmt: skip
"""A parameter: its kind; the DLPack type that a tensor must have (0: any); an integer's limits;
the NumPy dtype object that was last accepted for it; flags that the array must have."""

STATE = Record(
    ("kernel", "ptr"), ("pool", "ptr"), ("types", "ptr"), ("cost", "double"),
    ("scratch_bytes", "i64"), ("param_count", "i64"),
    ("on_argument", "ptr"), ("on_grid", "ptr"), ("on_count", "ptr"), ("on_fault", "ptr"),
    ("threads", "ptr"), ("params", "ptr"),
)  # fmt: skip
"""A kernel. `on_...` and `threads` are Python functions, kept alive by the launcher's owner;
`cost` is what a program was last seen to take, in ticks (infinite before the first launch)."""

TYPES = Record(
    ("int", "ptr"), ("bool", "ptr"), ("float", "ptr"), ("ndarray", "ptr"),
    ("tensor", "ptr"), ("parameter", "ptr"), ("export", "ptr"), ("none", "ptr"),
)  # fmt: skip
"""Type objects by address. NumPy's and torch's are filled in when the first such argument came:
`export` is torch's `dltensor_from_py_object_no_sync`."""

DLTENSOR = Record(
    ("data", "ptr"), ("device_type", "i32"), ("device_id", "i32"), ("ndim", "i32"),
    ("dtype", "i32"), ("shape", "ptr"), ("strides", "ptr"), ("byte_offset", "i64"),
)  # fmt: skip
ARRAY = Record(
    ("head", f"bytes {HEAD}"), ("data", "ptr"), ("nd", "i32"), ("dims", "ptr"), ("strides", "ptr"),
    ("base", "ptr"), ("descr", "ptr"), ("flags", "i32"),
)  # fmt: skip
NUMPY_WRITEABLE = 0x0400
CAPSULE = b"tritium.launcher"
EXPORT_SLOT = 40  # of dltensor_from_py_object_no_sync in DLPack 1.3's exchange API struct

API = (
    "PyCapsule_GetPointer", "PyErr_Clear", "PyErr_NoMemory", "PyErr_Occurred", "PyEval_SaveThread",
    "PyEval_RestoreThread", "PyLong_AsLong", "PyLong_AsLongLongAndOverflow",
    "PyLong_AsUnsignedLongLongMask", "PyLong_FromLongLong", "PyLong_FromVoidPtr",
    "PyObject_CallFunctionObjArgs", "Py_DecRef", "Py_IncRef",
)  # fmt: skip


class _LaunchWriter:
    """Writes the native launch function."""

    def __init__(self, module: Module):
        self.module = module
        for name in ("PyObject_CallFunctionObjArgs",):
            module.declare(name, "ptr", ["ptr", "..."])

    def _call_python(self, f: Code, function: Value, *arguments: Value) -> Value:
        listed = ", ".join(map(str, (function, *arguments, NULL)))
        return f.emit("ptr", f"call ptr (ptr, ...) @PyObject_CallFunctionObjArgs({listed})")

    def _returns_null(self, f: Code, value: Value) -> Value:
        return f.icmp("eq", value, NULL)

    def write(self) -> None:
        """Write `tritium_launch` and what it calls."""
        self._threads()
        self._ask()
        self._extent()
        self._argument()
        self._launch()

    def _threads(self) -> None:
        """i32 tritium_threads(entry): see `pool.ENTRY`."""
        f = Code(self.module, "tritium_threads", [("ptr", "request")], "i32", cold=True)
        (entry,) = f.arguments
        answer = self._call_python(f, f.read(entry, pools.ENTRY, "callable"))
        with f.when(self._returns_null(f, answer)):
            f.ret(i32(-1))
        number = f.cast("trunc", f.call("i64", "PyLong_AsLong", answer), "i32")
        f.call("void", "Py_DecRef", answer)
        f.write(entry, pools.ENTRY, "thread_state", f.call("ptr", "PyEval_SaveThread"))
        f.ret(number)

    def _ask(self) -> None:
        """i1 ask(function, number, object, result): call `function(number, object)`, an integer,
        and store it; false when it raised."""
        arguments = [("ptr", "function"), ("i64", "number"), ("ptr", "object"), ("ptr", "result")]
        f = Code(self.module, "ask", arguments, "i1", cold=True)
        function, number, obj, result = f.arguments
        boxed = f.call("ptr", "PyLong_FromLongLong", number)
        with f.when(self._returns_null(f, boxed)):
            f.ret(const("i1", 0))
        answer = self._call_python(f, function, boxed, obj)
        f.call("void", "Py_DecRef", boxed)
        with f.when(self._returns_null(f, answer)):
            f.ret(const("i1", 0))
        f.put(result, f.call("i64", "PyLong_AsUnsignedLongLongMask", answer))
        f.call("void", "Py_DecRef", answer)
        f.ret(const("i1", 1))

    def _type_of(self, f: Code, obj: Value) -> Value:
        return f.get("ptr", f.offset(obj, HEAD - 8))

    def _is(self, f: Code, kind: Value, types: Value, name: str) -> Value:
        return f.icmp("eq", kind, f.read(types, TYPES, name))

    def _extent(self) -> None:
        """i64 extent(state, axis, object): the grid's size along an axis; -1 when it raised."""
        f = Code(
            self.module, "extent", [("ptr", "state"), ("i64", "axis"), ("ptr", "object")], "i64"
        )
        state, axis, obj = f.arguments
        result, overflow = f.variable("i64"), f.variable("i32", i32(0))
        types = f.read(state, STATE, "types")
        with f.when(self._is(f, self._type_of(f, obj), types, "int")):
            size = f.call("i64", "PyLong_AsLongLongAndOverflow", obj, overflow)
            fits = f.icmp("ule", size, i64(MAX_GRID))
            with f.when(f.op("and", fits, f.icmp("eq", f.get("i32", overflow), i32(0)))):
                f.ret(size)
        asked = f.call("i1", "ask", f.read(state, STATE, "on_grid"), axis, obj, result)
        f.ret(f.select(asked, f.get("i64", result), i64(-1)))

    # Arguments

    def _argument(self) -> None:
        """i1 argument(state, index, object, slot): store one argument; false when it raised."""
        arguments = [("ptr", "state"), ("i64", "index"), ("ptr", "object"), ("ptr", "slot")]
        f = Code(self.module, "argument", arguments, "i1")
        state, index, obj, slot = f.arguments
        types, kind = f.read(state, STATE, "types"), self._type_of(f, obj)
        step = f.op("mul", index, i64(PARAM.size))
        param = f.gep("i8", f.read(state, STATE, "params"), step)
        form = f.read(param, PARAM, "kind")
        with f.when(f.icmp("eq", form, i32(POINTER))):
            self._tensor(f, (param, types, kind, obj), slot)
            self._array(f, (param, types, kind, obj), slot)
        with f.when(f.icmp("eq", form, i32(INTEGER))):
            self._integer(f, (param, types, kind, obj), slot)
        with f.when(self._is(f, kind, types, "float")):
            number = f.get("double", f.offset(obj, HEAD))
            with f.when(f.icmp("eq", form, i32(FLOAT32))):
                f.put(slot, f.cast("fptrunc", number, "float"))
                f.ret(const("i1", 1))
            with f.when(f.icmp("eq", form, i32(FLOAT64))):
                f.put(slot, number)
                f.ret(const("i1", 1))
        f.ret(f.call("i1", "ask", f.read(state, STATE, "on_argument"), index, obj, slot))

    def _tensor(self, f: Code, values: tuple[Value, ...], slot: Value) -> None:
        param, types, kind, obj = values
        ours = f.op("or", self._is(f, kind, types, "tensor"), self._is(f, kind, types, "parameter"))
        with f.when(ours):
            tensor = f.variable("", size=DLTENSOR.size)
            status = f.invoke("i32", f.read(types, TYPES, "export"), obj, tensor)
            with f.when(f.icmp("eq", status, i32(0))):
                wanted, given = f.read(param, PARAM, "dlpack"), f.read(tensor, DLTENSOR, "dtype")
                fits = f.op("or", f.icmp("eq", wanted, i32(0)), f.icmp("eq", wanted, given))
                here = f.icmp("eq", f.read(tensor, DLTENSOR, "device_type"), i32(1))
                with f.when(f.op("and", fits, here)):
                    start = f.cast("ptrtoint", f.read(tensor, DLTENSOR, "data"), "i64")
                    f.put(slot, f.add(start, f.read(tensor, DLTENSOR, "byte_offset")))
                    f.ret(const("i1", 1))
            f.call("void", "PyErr_Clear")

    def _array(self, f: Code, values: tuple[Value, ...], slot: Value) -> None:
        param, types, kind, obj = values
        with f.when(self._is(f, kind, types, "ndarray")):
            known = f.icmp("eq", f.read(obj, ARRAY, "descr"), f.read(param, PARAM, "descr"))
            wanted = f.read(param, PARAM, "numpy_flags")
            flags = f.op("and", f.read(obj, ARRAY, "flags"), wanted)
            with f.when(f.op("and", known, f.icmp("eq", flags, wanted))):
                f.put(slot, f.read(obj, ARRAY, "data"))
                f.ret(const("i1", 1))

    def _integer(self, f: Code, values: tuple[Value, ...], slot: Value) -> None:
        param, types, kind, obj = values
        number = f.op("or", self._is(f, kind, types, "int"), self._is(f, kind, types, "bool"))
        with f.when(number):
            overflow = f.variable("i32", i32(0))
            value = f.call("i64", "PyLong_AsLongLongAndOverflow", obj, overflow)
            fits = f.icmp("eq", f.get("i32", overflow), i32(0))
            fits = f.op("and", fits, f.icmp("sge", value, f.read(param, PARAM, "low")))
            fits = f.op("and", fits, f.icmp("sle", value, f.read(param, PARAM, "high")))
            with f.when(fits):
                f.put(slot, value)
                f.ret(const("i1", 1))

    # The function itself

    def _launch(self) -> None:
        """object tritium_launch(capsule, args, nargs): a METH_FASTCALL function."""
        arguments = [("ptr", "capsule"), ("ptr", "args"), ("i64", "nargs")]
        f = Code(self.module, "tritium_launch", arguments, "ptr", exported=True)
        capsule, args, nargs = f.arguments
        name = self.module.constant(f"[{len(CAPSULE) + 1} x i8]", f'c"{CAPSULE.decode()}\\00"')
        state = f.call("ptr", "PyCapsule_GetPointer", capsule, name)
        with f.when(self._returns_null(f, state)):
            f.ret(NULL)
        ignored = f.variable("i64")
        count = f.read(state, STATE, "param_count")
        with f.when(f.icmp("ne", nargs, f.add(count, i64(3)))):
            handler = f.read(state, STATE, "on_count")
            none = f.read(self._types(f, state), TYPES, "none")
            f.call("i1", "ask", handler, nargs, none, ignored)
            f.ret(NULL)
        job = f.variable("", size=pools.JOB.size)
        total = self._grid(f, state, args, job)
        slots = f.emit("ptr", f"alloca i64, {f.add(count, i64(1))}, align 16")
        self._arguments(f, state, args, (count, slots))
        with f.when(f.icmp("ne", total, i64(0))):
            self._run(f, state, job, slots)
        none = f.read(self._types(f, state), TYPES, "none")
        f.call("void", "Py_IncRef", none)
        f.ret(none)

    def _types(self, f: Code, state: Value) -> Value:
        return f.read(state, STATE, "types")

    def _grid(self, f: Code, state: Value, args: Value, job: Value) -> Value:
        """Read the grid into the job; returns the number of programs."""
        product = f.variable("i64", i64(1))
        for axis, name in enumerate(("nx", "ny", "nz")):
            obj = f.get("ptr", f.offset(args, 8 * axis))
            size = f.call("i64", "extent", state, i64(axis), obj)
            with f.when(f.icmp("slt", size, i64(0))):
                f.ret(NULL)
            f.write(job, pools.JOB, name, f.cast("trunc", size, "i32"))
            before = f.get("i64", product)
            self.module.declare("llvm.smul.with.overflow.i64", "{ i64, i1 }", ["i64", "i64"])
            call = f"call {{ i64, i1 }} @llvm.smul.with.overflow.i64({before}, {size})"
            pair = f.emit("", call)
            over = f.emit("i1", f"extractvalue {{ i64, i1 }} {pair.ref}, 1")
            with f.when(over):
                handler, ignored = f.read(state, STATE, "on_grid"), f.variable("i64")
                f.call("i1", "ask", handler, i64(3), obj, ignored)
                f.ret(NULL)
            f.put(product, f.emit("i64", f"extractvalue {{ i64, i1 }} {pair.ref}, 0"))
        total = f.get("i64", product)
        f.write(job, pools.JOB, "total", total)
        return total

    def _arguments(self, f: Code, state: Value, args: Value, where: tuple[Value, Value]) -> None:
        """Store every argument in its slot."""
        count, slots = where
        index, at = f.variable("i64", i64(0)), f.variable("ptr", slots)
        params = f.read(state, STATE, "params")
        with f.forever() as loop:
            i = f.get("i64", index)
            with f.when(f.icmp("sge", i, count)):
                loop.leave()
            f.put(index, f.add(i, i64(1)))
            kind = f.read(f.gep("i8", params, f.op("mul", i, i64(PARAM.size))), PARAM, "kind")
            with f.when(f.icmp("eq", kind, i32(SKIP))):
                loop.restart()
            slot = f.get("ptr", at)
            f.put(slot, i64(0))
            obj = f.get("ptr", f.gep("ptr", args, f.add(i, i64(3))))
            stored = f.call("i1", "argument", state, i, obj, slot)
            with f.when(f.op("xor", stored, const("i1", 1))):
                f.ret(NULL)
            f.put(at, f.offset(slot, 8))

    def _run(self, f: Code, state: Value, job: Value, slots: Value) -> None:
        """Run the grid; return from the launch function if that fails."""
        fault = f.variable("", size=pools.FAULT.size)
        f.write(fault, pools.FAULT, "raised", i32(0))
        for name, value in (("args", slots), ("fault", fault)):
            f.write(job, pools.JOB, name, value)
        f.write(job, pools.JOB, "kernel", f.read(state, STATE, "kernel"))
        f.write(job, pools.JOB, "scratch_bytes", f.read(state, STATE, "scratch_bytes"))
        entry = f.variable("", size=pools.ENTRY.size)
        f.write(entry, pools.ENTRY, "function", Value("ptr", "@tritium_threads"))
        f.write(entry, pools.ENTRY, "thread_state", NULL)
        f.write(entry, pools.ENTRY, "callable", f.read(state, STATE, "threads"))
        pool, cost = f.read(state, STATE, "pool"), f.at(state, STATE, "cost")
        status = f.call("i32", "tritium_run", pool, job, cost, entry)
        released = f.read(entry, pools.ENTRY, "thread_state")
        with f.when(f.icmp("ne", released, NULL)):
            f.call("void", "PyEval_RestoreThread", released)
        with f.when(f.icmp("eq", status, i32(pools.NO_MEMORY))):
            f.ret(f.call("ptr", "PyErr_NoMemory"))
        with f.when(f.icmp("eq", status, i32(pools.ERROR_SET))):
            f.ret(NULL)
        with f.when(f.icmp("ne", f.read(fault, pools.FAULT, "raised"), i32(0))):
            ignored, handler = f.variable("i64"), f.read(state, STATE, "on_fault")
            where = f.cast("ptrtoint", fault, "i64")
            none = f.read(self._types(f, state), TYPES, "none")
            f.call("i1", "ask", handler, where, none, ignored)
            f.ret(NULL)


def native_ir(system: pools.System | None = None) -> str:
    """The LLVM IR of the pool and of the launch function, for a system (default: this one)."""
    module = Module()
    pools.PoolWriter(module, system or pools.System.here()).write()
    _LaunchWriter(module).write()
    return module.text()


def _native_key(system: pools.System) -> str:
    """The cache key of `native_ir(system)`'s object code, from what the text is made of: writing
    it would cost more than loading the object."""
    writers = (__name__, pools.__name__, native_code.__name__, llvm_text.__name__)
    sources = [_source(name) for name in writers]
    if not all(sources):
        return object_key(native_ir(system), "light")
    return object_key("\0".join([*sources, repr(system), str(HEAD), sys.platform]), "light")


def _source(module: str) -> str:
    spec = sys.modules[module].__spec__
    loader: Any = spec.loader if spec else None
    return (loader.get_source(module) or "") if hasattr(loader, "get_source") else ""


def _api_addresses() -> dict[str, int]:
    return {
        name: ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0
        for name in API
    }


class Native:
    """The native code and the memory that all launchers of the process share."""

    def __init__(self, store: ObjectStore | None, system: pools.System | None = None):
        system = system or pools.System.here()
        code = cached_object(
            _native_key(system), store, lambda: compile_ir(native_ir(system), opt="light")
        )
        self.image = load_object(code, ["tritium_launch", "tritium_run"], _api_addresses())
        self.image.keep()  # workers sleep in it until the process ends
        self.pool = pools.Pool(knobs.usable_cpus(), knobs.runtime.cpu_threads, system)
        self.types, self._memory = allocate(TYPES.size)
        unknown = id(object)  # no fast path yet: no argument is exactly an `object` of use
        TYPES.write(
            self.types, int=id(int), bool=id(bool), float=id(float), none=id(None),
            ndarray=unknown, tensor=0, parameter=0, export=0,
        )  # fmt: skip
        self._numpy_checked = False

    def learn(self, obj: object) -> None:
        """Open the fast path for the type of an argument that the careful path accepted."""
        if type(obj) is np.ndarray:
            if not self._numpy_checked:
                self._numpy_checked = True
                if _array_struct_is_as_expected():
                    TYPES.write(self.types, ndarray=id(np.ndarray))
            return
        torch: Any = sys.modules.get("torch")
        if torch is None or TYPES.read(self.types, "export") or not isinstance(obj, torch.Tensor):
            return
        if export := _torch_export(torch):
            TYPES.write(self.types, export=export)
            parameter = id(torch.nn.Parameter)
            TYPES.write(self.types, tensor=id(torch.Tensor), parameter=parameter)


def _array_struct_is_as_expected() -> bool:
    """Whether an array's struct is laid out as `ARRAY` says (another NumPy may change it)."""
    for writable in (True, False):
        array = np.empty((3, 5), np.float32)
        array.flags.writeable = writable
        at = id(array)
        data, readonly = array.__array_interface__["data"]
        flags = ARRAY.read(at, "flags") & 0xFFFFFFFF
        same = (
            np.ndarray.__basicsize__ >= ARRAY.fields["flags"].offset + 4
            and ARRAY.read(at, "data") == data
            and ARRAY.read(at, "nd") == 2
            and ARRAY.read(at, "descr") == id(array.dtype)
            and flags == array.flags.num
            and bool(flags & NUMPY_WRITEABLE) != readonly
        )
        if not same:
            return False
    return True


def _torch_export(torch: Any) -> int:
    """The address of torch's function from a tensor to a DLTensor; 0 where it has none."""
    capsule = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
    if capsule is None:
        return 0
    function = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    table = function(("PyCapsule_GetPointer", ctypes.pythonapi))(capsule, b"dlpack_exchange_api")
    if not table or ctypes.c_uint32.from_address(table).value != 1:  # the major version
        return 0
    return ctypes.c_uint64.from_address(table + EXPORT_SLOT).value


_native_lock = threading.Lock()
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
        self.shared.learn(obj)
        if type(obj) is np.ndarray:
            dtype: np.dtype[Any] = obj.dtype
            self.dtypes[index] = dtype  # the record holds its address: keep it alive
            PARAM.write(self.params_address + index * PARAM.size, descr=id(dtype))
        return address & 0xFFFFFFFFFFFFFFFF

    def grid(self, axis: int, value: Any) -> int:
        """A grid extent that is no plain int, or an error. Axis 3: the product is too large."""
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
        x, y, z, message = (
            pools.FAULT.read(address, name) for name in ("pid_x", "pid_y", "pid_z", "message")
        )
        text = (ctypes.c_char_p(message).value or b"").decode(errors="replace")
        raise RuntimeError(f"device-side assert triggered: {text} [program ({x}, {y}, {z})]")


class _MethodDef(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p), ("method", ctypes.c_void_p), ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )  # fmt: skip


METH_FASTCALL = 0x0080


class _Owner(NamedTuple):
    """Everything that a launcher's memory refers to."""

    method: _MethodDef
    memory: tuple[Any, ...]
    functions: tuple[Callable[..., int], ...]
    keep: object


def cpu_threads() -> int:
    """`knobs.runtime.cpu_threads` now."""
    return knobs.runtime.cpu_threads


def _write_param(address: int, param: Param) -> None:
    if param.is_pointer:
        code, bits = DLPACK_TYPES.get(param.element, (0, 0))
        dlpack = code | bits << 8 | 1 << 16 if bits else 0
        flags = NUMPY_WRITEABLE if param.writes else 0
        PARAM.write(address, kind=POINTER, dlpack=dlpack, numpy_flags=flags)
    elif param.type[0] in "iu":
        low, high = param.limits
        PARAM.write(address, kind=INTEGER, low=low, high=min(high, (1 << 63) - 1))
    else:
        kinds = {"fp32": FLOAT32, "fp64": FLOAT64, "constexpr": SKIP}
        PARAM.write(address, kind=kinds.get(param.type, OTHER))


def make_launcher(
    address: int,
    params: Sequence[Param],
    scratch_bytes: int,
    *,
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
    state, state_memory = allocate(STATE.size, 64)
    table, table_memory = allocate(PARAM.size * max(len(params), 1), 64)
    for i, param in enumerate(params):
        _write_param(table + i * PARAM.size, param)
    signature = _Signature(shared, name, tuple(params), table)
    functions = (
        signature.argument, signature.grid, signature.count, signature.fault, cpu_threads
    )  # fmt: skip
    on_argument, on_grid, on_count, on_fault, threads = map(id, functions)
    STATE.write(
        state, kernel=address, pool=shared.pool.address, types=shared.types, cost=float("inf"),
        scratch_bytes=scratch_bytes, param_count=len(params), on_argument=on_argument,
        on_grid=on_grid, on_count=on_count, on_fault=on_fault, threads=threads, params=table,
    )  # fmt: skip
    text = f"{name}(gx, gy, gz, {', '.join(p.name for p in params)})\n--\n\nLaunch the kernel."
    method = _MethodDef(name.encode(), shared.image["tritium_launch"], METH_FASTCALL, text.encode())
    owner = _Owner(method, (state_memory, table_memory, shared), functions, keep)
    return _builtin(method, state, owner)


@functools.cache
def _constructors() -> tuple[Any, Any]:
    capsule = ctypes.PYFUNCTYPE(
        ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p
    )(("PyCapsule_New", ctypes.pythonapi))
    function = ctypes.PYFUNCTYPE(
        ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.py_object
    )(("PyCFunction_NewEx", ctypes.pythonapi))
    return capsule, function


def _builtin(method: _MethodDef, state: int, owner: _Owner) -> Callable[..., None]:
    new_capsule, new_function = _constructors()
    # The function keeps its module alive: that is where its owner goes.
    return new_function(ctypes.addressof(method), new_capsule(state, CAPSULE, None), owner)


__all__ = ["Image", "Native", "Param", "cpu_threads", "make_launcher", "native", "native_ir"]
