"""The native half of a launch on the CPU, as LLVM IR: Python arguments to slots, then the pool.

`tritium_launch` takes a kernel's arguments as they are; `tritium_end` takes slots that are filled
in already (by the launcher of `tritium.launch`). What differs between kernels is in a record in
memory (`STATE`, with one `PARAM` for each parameter). For each argument there is one fast path
(exact types: torch tensors by DLPack's C exchange API, NumPy arrays by their struct, int, bool,
float); Python is called for anything else and for every error.
"""

from __future__ import annotations

from tritium.backends.cpu.launch_records import (
    CAPSULE,
    FLOAT32,
    FLOAT64,
    INTEGER,
    MAX_GRID,
    PARAM,
    POINTER,
    SKIP,
    STATE,
    THREADS,
)
from tritium.codegen.llvm.writer import Module, Value, const
from tritium.native import pool as pools
from tritium.native.pyobjects import ARRAY, DLTENSOR, HEAD, TYPES
from tritium.native.pyobjects_writer import (
    call_object,
    export_tensor,
    is_null,
    is_type,
    tensor_address,
    type_of,
    write_read_plain,
    write_unchanged,
)
from tritium.native.writer import NULL, Code, i32, i64


class LaunchWriter:
    """Writes the native launch function."""

    def __init__(self, module: Module):
        self.module = module

    def write(self) -> None:
        """Write `tritium_launch`, `tritium_end` and what they call."""
        write_unchanged(self.module)
        write_read_plain(self.module)
        self._threads()
        self._poll()
        self._ask()
        self._extent()
        self._argument()
        self._run()
        self._launch()
        self._end()

    def _threads(self) -> None:
        """i32 tritium_threads(entry): see `pool.ENTRY`."""
        f = Code(self.module, "tritium_threads", [("ptr", "request")], "i32")
        (entry,) = f.arguments
        state, number = f.read(entry, pools.ENTRY, "state"), f.variable("i32")
        known = f.get("ptr", f.read(state, STATE, "known_threads"))
        f.put(number, f.read(known, THREADS, "number"))
        guards, count = f.read(known, THREADS, "guards"), f.read(known, THREADS, "count")
        same = f.call("i1", "unchanged", guards, count)
        with f.when(f.op("xor", same, const("i1", 1))):
            answer = call_object(f, f.read(state, STATE, "threads"))
            with f.when(is_null(f, answer)):
                f.ret(i32(-1))
            f.put(number, f.cast("trunc", f.call("i64", "PyLong_AsLong", answer), "i32"))
            f.call("void", "Py_DecRef", answer)
        f.write(entry, pools.ENTRY, "thread_state", f.call("ptr", "PyEval_SaveThread"))
        f.ret(f.get("i32", number))

    def _poll(self) -> None:
        """i32 tritium_poll(entry): see `pool.ENTRY`. Called without the GIL."""
        f = Code(self.module, "tritium_poll", [("ptr", "request")], "i32", cold=True)
        (entry,) = f.arguments
        f.call("void", "PyEval_RestoreThread", f.read(entry, pools.ENTRY, "thread_state"))
        answer = f.call("i32", "PyErr_CheckSignals")
        f.write(entry, pools.ENTRY, "thread_state", f.call("ptr", "PyEval_SaveThread"))
        f.ret(answer)

    def _ask(self) -> None:
        """i1 ask(function, number, object, result): call `function(number, object)`, an integer,
        and store it; false when it raised."""
        arguments = [("ptr", "function"), ("i64", "number"), ("ptr", "object"), ("ptr", "result")]
        f = Code(self.module, "ask", arguments, "i1", cold=True)
        function, number, obj, result = f.arguments
        boxed = f.call("ptr", "PyLong_FromLongLong", number)
        with f.when(is_null(f, boxed)):
            f.ret(const("i1", 0))
        answer = call_object(f, function, boxed, obj)
        f.call("void", "Py_DecRef", boxed)
        with f.when(is_null(f, answer)):
            f.ret(const("i1", 0))
        f.put(result, f.call("i64", "PyLong_AsUnsignedLongLongMask", answer))
        f.call("void", "Py_DecRef", answer)
        f.ret(const("i1", 1))

    def _extent(self) -> None:
        """i64 extent(state, axis, object): the grid's size along an axis; -1 when it raised."""
        f = Code(
            self.module, "extent", [("ptr", "state"), ("i64", "axis"), ("ptr", "object")], "i64"
        )
        state, axis, obj = f.arguments
        result, overflow = f.variable("i64"), f.variable("i32", i32(0))
        types = f.read(state, STATE, "types")
        with f.when(is_type(f, type_of(f, obj), types, "int")):
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
        types, kind = f.read(state, STATE, "types"), type_of(f, obj)
        step = f.op("mul", index, i64(PARAM.size))
        param = f.gep("i8", f.read(state, STATE, "params"), step)
        form = f.read(param, PARAM, "kind")
        with f.when(f.icmp("eq", form, i32(POINTER))):
            self._tensor(f, (param, types, kind, obj), slot)
            self._array(f, (param, types, kind, obj), slot)
        with f.when(f.icmp("eq", form, i32(INTEGER))):
            self._integer(f, (param, types, kind, obj), slot)
        with f.when(is_type(f, kind, types, "float")):
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
        with f.when(is_type(f, kind, types, "tensor", "parameter")):
            exported, tensor = export_tensor(f, types, obj, whole=False)
            with f.when(exported):
                wanted, given = f.read(param, PARAM, "dlpack"), f.read(tensor, DLTENSOR, "dtype")
                fits = f.op("or", f.icmp("eq", wanted, i32(0)), f.icmp("eq", wanted, given))
                here = f.icmp("eq", f.read(tensor, DLTENSOR, "device_type"), i32(1))
                address = tensor_address(f, tensor)
                there = f.icmp("ne", address, i64(0))  # an empty tensor's may be 0
                with f.when(f.op("and", f.op("and", fits, here), there)):
                    f.put(slot, address)
                    f.ret(const("i1", 1))
            f.call("void", "PyErr_Clear")

    def _array(self, f: Code, values: tuple[Value, ...], slot: Value) -> None:
        param, types, kind, obj = values
        with f.when(is_type(f, kind, types, "ndarray")):
            known = f.icmp("eq", f.read(obj, ARRAY, "descr"), f.read(param, PARAM, "descr"))
            wanted = f.read(param, PARAM, "numpy_flags")
            flags = f.op("and", f.read(obj, ARRAY, "flags"), wanted)
            with f.when(f.op("and", known, f.icmp("eq", flags, wanted))):
                f.put(slot, f.read(obj, ARRAY, "data"))
                f.ret(const("i1", 1))

    def _integer(self, f: Code, values: tuple[Value, ...], slot: Value) -> None:
        param, types, kind, obj = values
        with f.when(is_type(f, kind, types, "int", "bool")):
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
        with f.when(is_null(f, state)):
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
            ran = f.call("i1", "run", state, job, slots)
            with f.when(f.op("xor", ran, const("i1", 1))):
                f.ret(NULL)
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

    def _run(self) -> None:
        """i1 run(state, job, slots): run the job's grid; false when it raised."""
        arguments = [("ptr", "state"), ("ptr", "job"), ("ptr", "slots")]
        f = Code(self.module, "run", arguments, "i1")
        state, job, slots = f.arguments
        self._limit(f, state, f.read(job, pools.JOB, "total"))
        fault = f.variable("", size=pools.FAULT.size)
        for name in ("raised", "helpers", "starting"):
            f.write(fault, pools.FAULT, name, i32(0))
        f.write(fault, pools.FAULT, "counter", NULL)
        f.write(fault, pools.FAULT, "thread", i64(0))
        f.write(fault, pools.FAULT, "stall", Value("ptr", "@stall"))
        for name, value in (("args", slots), ("fault", fault)):
            f.write(job, pools.JOB, name, value)
        f.write(job, pools.JOB, "kernel", f.read(state, STATE, "kernel"))
        for name in ("scratch_bytes", "exclusive", "waits"):
            f.write(job, pools.JOB, name, f.read(state, STATE, name))
        f.write(job, pools.JOB, "threads", i32(0))
        entry = f.variable("", size=pools.ENTRY.size)
        f.write(entry, pools.ENTRY, "function", Value("ptr", "@tritium_threads"))
        f.write(entry, pools.ENTRY, "poll", Value("ptr", "@tritium_poll"))
        f.write(entry, pools.ENTRY, "thread_state", NULL)
        f.write(entry, pools.ENTRY, "state", state)
        pool, cost = f.read(state, STATE, "pool"), f.at(state, STATE, "cost")
        status = f.call("i32", "tritium_run", pool, job, cost, entry)
        released = f.read(entry, pools.ENTRY, "thread_state")
        with f.when(f.icmp("ne", released, NULL)):
            f.call("void", "PyEval_RestoreThread", released)
        with f.when(f.icmp("eq", status, i32(pools.NO_MEMORY))):
            f.call("ptr", "PyErr_NoMemory")
            f.ret(const("i1", 0))
        with f.when(f.icmp("eq", status, i32(pools.ERROR_SET))):
            f.ret(const("i1", 0))
        with f.when(f.icmp("ne", f.read(fault, pools.FAULT, "raised"), i32(0))):
            ignored, handler = f.variable("i64"), f.read(state, STATE, "on_fault")
            where = f.cast("ptrtoint", fault, "i64")
            none = f.read(self._types(f, state), TYPES, "none")
            f.call("i1", "ask", handler, where, none, ignored)
            f.ret(const("i1", 0))
        f.ret(const("i1", 1))

    def _limit(self, f: Code, state: Value, total: Value) -> None:
        with f.when(f.icmp("sgt", total, f.read(state, STATE, "most"))):
            boxed, ignored = f.call("ptr", "PyLong_FromLongLong", total), f.variable("i64")
            with f.when(f.icmp("ne", boxed, NULL)):
                f.call("i1", "ask", f.read(state, STATE, "on_grid"), i64(4), boxed, ignored)
                f.call("void", "Py_DecRef", boxed)
            f.ret(const("i1", 0))

    def _end(self) -> None:
        """i1 tritium_end(state, grid, total, slots): run a grid of `total` programs, more than 0,
        its three sizes at `grid` (i64); false when it raised."""
        arguments = [("ptr", "state"), ("ptr", "grid"), ("i64", "total"), ("ptr", "slots")]
        f = Code(self.module, "tritium_end", arguments, "i1", exported=True)
        state, grid, total, slots = f.arguments
        job = f.variable("", size=pools.JOB.size)
        for axis, name in enumerate(("nx", "ny", "nz")):
            size = f.get("i64", f.offset(grid, 8 * axis))
            f.write(job, pools.JOB, name, f.cast("trunc", size, "i32"))
        f.write(job, pools.JOB, "total", total)
        f.ret(f.call("i1", "run", state, job, slots))
