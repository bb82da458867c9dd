"""The native launcher, as LLVM IR: one function for all kernels.

`tritium_kernel(capsule, args, nargs, names)` is a METH_FASTCALL | METH_KEYWORDS function; `args`
are the grid and then the kernel's. It matches arguments with parameters, makes the key, finds the
compiled kernel under it, stores the arguments into slots, works out the grid and calls the
backend's end. Whatever it does not know goes, before anything has happened, through the method
`slow` of the Python object, with the same arguments; so do all errors.

`tritium_key` does the first part alone, and returns the key as bytes (or None): with it Python
teaches the table what the careful path found.
"""

from __future__ import annotations

from tritium.codegen.llvm.writer import Module, Value, const
from tritium.launch.binding import BindWriter
from tritium.launch.ends import How
from tritium.launch.memory_extents import ExtentWriter
from tritium.launch.parsing import NO, YES
from tritium.launch.records import (
    CAPSULE,
    CURSOR,
    EMPTY,
    ENTRY,
    HASH_FACTOR,
    HASH_START,
    MAX_GRID,
    OPERATION,
    PARAM,
    PLAN,
    POINTER_VALUES,
    SIZES,
    VALUES,
    WORDS,
)
from tritium.native.pyobjects import TYPES
from tritium.native.pyobjects_writer import call_object, is_null, is_type, type_of
from tritium.native.writer import NULL, Code, i32, i64


class KernelWriter(BindWriter):
    """Writes `tritium_kernel`, `tritium_key` and what they call."""

    def write(self) -> None:
        """Write every function."""
        super().write()
        self._find()
        ExtentWriter(self.module).write()
        self._store()
        self._extents()
        self._named()
        self._call_grid()
        self._explain()
        self._slowly()
        self._key()
        self._kernel()

    # Kernels

    def _find(self) -> None:
        """ptr find(table, words, count): the entry of a key, or null. The last entry found is
        compared first: hashing a key takes longer. The hash is that of `native._hash`."""
        f = self._code("find", "ptr table, ptr words, i64 count", "ptr")
        table, words, count = f.arguments
        size = f.op("shl", count, i64(3))
        recent = f.get("ptr", f.offset(table, 8))
        known = f.icmp("ne", recent, NULL)
        with f.when(known), f.when(f.icmp("eq", f.read(recent, ENTRY, "count"), count)):
            differs = f.call("i32", "memcmp", f.read(recent, ENTRY, "words"), words, size)
            with f.when(f.icmp("eq", differs, i32(0))):
                f.ret(recent)
        digest = f.variable("i64", i64(HASH_START))
        with f.counted(count) as (i, _):
            mixed = f.op("xor", f.get("i64", digest), f.get("i64", f.gep("i64", words, i)))
            mixed = f.op("mul", mixed, i64(HASH_FACTOR))
            f.put(digest, f.op("xor", mixed, f.op("lshr", mixed, i64(29))))
        wanted = f.get("i64", digest)
        mask = f.get("i64", table)
        at = f.variable("i64", wanted)
        with f.forever() as probe:
            slot = f.op("and", f.get("i64", at), mask)
            entry = f.get("ptr", f.gep("ptr", f.offset(table, 16), slot))
            with f.when(is_null(f, entry)):
                f.ret(NULL)
            f.put(at, f.add(slot, i64(1)))
            with f.when(f.icmp("ne", f.read(entry, ENTRY, "hash"), wanted)):
                probe.restart()
            with f.when(f.icmp("ne", f.read(entry, ENTRY, "count"), count)):
                probe.restart()
            differs = f.call("i32", "memcmp", f.read(entry, ENTRY, "words"), words, size)
            with f.when(f.icmp("eq", differs, i32(0))):
                f.put(f.offset(table, 8), entry)
                f.ret(entry)
        f.unreachable()

    def _store(self) -> None:
        """i1 store(entry, types, values, slots): the values as the kernel takes them."""
        f = self._code("store", "ptr known, ptr types, ptr values, ptr slots", "i1")
        entry, types, values, slots = f.arguments
        at = f.variable("ptr", f.read(entry, ENTRY, "operations"))
        source, target = f.variable("ptr", values), f.variable("ptr", slots)
        end = f.read(entry, ENTRY, "operations_end")
        with f.forever() as loop:
            operation = f.get("ptr", at)
            with f.when(f.icmp("eq", operation, end)):
                loop.leave()
            f.put(at, f.offset(operation, OPERATION.size))
            place, slot = f.get("ptr", source), f.get("ptr", target)
            value, how = f.get("i64", place), f.read(operation, OPERATION, "how")
            f.put(source, f.offset(place, 8))
            f.put(target, f.offset(slot, 8))
            with f.when(f.icmp("eq", how, i32(How.POINTER))):
                flags = f.get("i64", f.offset(place, 8))
                refused = f.cast("zext", f.read(operation, OPERATION, "refused"), "i64")
                device = f.cast("zext", f.read(operation, OPERATION, "device"), "i64")
                elsewhere = f.icmp("ne", f.op("lshr", flags, i64(8)), device)
                wrong = f.icmp("ne", f.op("and", flags, refused), i64(0))
                full = f.icmp("eq", f.op("and", flags, i64(EMPTY)), i64(0))
                gone = f.op("and", full, f.icmp("eq", value, i64(0)))  # has it memory?
                wrong = f.op("or", wrong, gone)
                with f.when(f.op("or", wrong, elsewhere)):
                    f.ret(NO)
                f.put(slot, value)
                f.put(source, f.offset(place, 8 * POINTER_VALUES))
                extent = f.read(operation, OPERATION, "extent")
                with f.when(f.icmp("eq", extent, i64(0))):
                    loop.restart()
                owner, where = f.get("ptr", f.offset(place, 16)), f.gep("i8", slots, extent)
                function = f.read(entry, ENTRY, "extent_of")
                found = f.call("i1", "memory_extent", types, function, owner, where)
                with f.when(self._unless(f, found)):
                    f.ret(NO)
                loop.restart()
            with f.when(f.icmp("eq", how, i32(How.INTEGER))):
                below = f.icmp("slt", value, f.read(operation, OPERATION, "low"))
                above = f.icmp("sgt", value, f.read(operation, OPERATION, "high"))
                with f.when(f.op("or", below, above)):
                    f.ret(NO)
                f.put(slot, value)
                loop.restart()
            self._store_float(f, (how, value, slot))
        f.ret(YES)

    def _store_float(self, f: Code, values: tuple[Value, Value, Value]) -> None:
        how, value, slot = values
        number = f.cast("bitcast", value, "double")
        of_integer = f.icmp("sge", how, i32(How.FLOAT32_OF_INTEGER))
        number = f.select(of_integer, f.cast("sitofp", value, "double"), number)
        double = f.icmp("eq", how, i32(How.FLOAT64))
        double = f.op("or", double, f.icmp("eq", how, i32(How.FLOAT64_OF_INTEGER)))
        single = f.cast("fptrunc", number, "float")
        with f.when(f.icmp("eq", how, i32(How.FLOAT32_FINITE))):
            magnitude = f.call("float", "llvm.fabs.f32", single)
            infinite = f.fcmp("oeq", magnitude, const("float", float("inf")))
            large = f.call("double", "llvm.fabs.f64", number)
            finite = f.fcmp("one", large, const("double", float("inf")))
            with f.when(f.op("and", infinite, finite)):
                f.ret(NO)
        bits = f.cast("zext", f.cast("bitcast", single, "i32"), "i64")
        f.put(slot, f.select(double, f.cast("bitcast", number, "i64"), bits))

    # The grid

    def _extents(self) -> None:
        """i1 extents(types, grid, sizes): `SIZES` from an int or a tuple of ints."""
        f = self._code("extents", "ptr types, ptr grid, ptr sizes", "i1")
        types, grid, sizes = f.arguments
        for axis in range(3):
            f.put(f.offset(sizes, 8 * axis), i64(1))
        kind = type_of(f, grid)
        with f.when(is_type(f, kind, types, "int")):
            self._extent(f, grid, sizes)
            f.write(sizes, SIZES, "total", f.read(sizes, SIZES, "x"))
            f.ret(YES)
        with f.when(self._unless(f, is_type(f, kind, types, "tuple"))):
            f.ret(NO)
        count = f.call("i64", "PyTuple_Size", grid)
        with f.when(f.op("or", f.icmp("slt", count, i64(1)), f.icmp("sgt", count, i64(3)))):
            f.ret(NO)
        for axis in range(3):
            with f.when(f.icmp("sgt", count, i64(axis))):
                item = f.call("ptr", "PyTuple_GetItem", grid, i64(axis))
                with f.when(self._unless(f, is_type(f, type_of(f, item), types, "int"))):
                    f.ret(NO)
                self._extent(f, item, f.offset(sizes, 8 * axis))
        # The product of three sizes below 2**31 can only overflow in its second step.
        plane = f.op("mul", f.read(sizes, SIZES, "x"), f.read(sizes, SIZES, "y"))
        self.module.declare("llvm.smul.with.overflow.i64", "{ i64, i1 }", ["i64", "i64"])
        z = f.read(sizes, SIZES, "z")
        call = f"call {{ i64, i1 }} @llvm.smul.with.overflow.i64({plane}, {z})"
        pair = f.emit("", call)
        with f.when(f.emit("i1", f"extractvalue {{ i64, i1 }} {pair.ref}, 1")):
            f.ret(NO)
        total = f.emit("i64", f"extractvalue {{ i64, i1 }} {pair.ref}, 0")
        f.write(sizes, SIZES, "total", total)
        f.ret(YES)

    def _extent(self, f: Code, number: Value, place: Value) -> None:
        overflow = f.variable("i32", i32(0))
        size = f.call("i64", "PyLong_AsLongLongAndOverflow", number, overflow)
        with f.when(f.icmp("ugt", size, i64(MAX_GRID))):  # -1 where it overflows
            f.ret(NO)
        f.put(place, size)

    def _named(self) -> None:
        """ptr named(plan, objects): the arguments by name; null where that raised."""
        f = self._code("named", "ptr plan, ptr objects", "ptr")
        plan, objects = f.arguments
        named = f.call("ptr", "PyDict_New")
        with f.when(is_null(f, named)):
            f.ret(NULL)
        count, params = f.read(plan, PLAN, "param_count"), f.read(plan, PLAN, "params")
        with f.counted(count) as (i, _):
            param = f.gep("i8", params, f.op("mul", i, i64(PARAM.size)))
            name, obj = f.read(param, PARAM, "name"), f.get("ptr", f.gep("ptr", objects, i))
            status = f.call("i32", "PyDict_SetItem", named, name, obj)
            with f.when(f.icmp("ne", status, i32(0))):
                f.call("void", "Py_DecRef", named)
                f.ret(NULL)
        f.ret(named)

    def _call_grid(self) -> None:
        """ptr call_grid(plan, grid, objects): a function of the arguments by name, called."""
        f = self._code("call_grid", "ptr plan, ptr grid, ptr objects", "ptr")
        plan, grid, objects = f.arguments
        named = f.call("ptr", "named", plan, objects)
        with f.when(is_null(f, named)):
            f.ret(NULL)
        result = call_object(f, grid, named)
        f.call("void", "Py_DecRef", named)
        f.ret(result)

    def _explain(self) -> None:
        """void explain(on_error, plan, objects, sizes): give the exception that is set to
        `on_error`; where this returns, the exception is set again."""
        names = ("on_error", "plan", "objects", "sizes")
        f = Code(self.module, "explain", [("ptr", name) for name in names], cold=True)
        on_error, plan, objects, sizes = f.arguments
        fetched = [f.variable("ptr", NULL) for _ in range(3)]  # type, value, traceback
        f.call("void", "PyErr_Fetch", *fetched)
        f.call("void", "PyErr_NormalizeException", *fetched)
        kind, error, traceback = (f.get("ptr", place) for place in fetched)
        where, named = f.call("ptr", "PyLong_FromVoidPtr", sizes), f.variable("ptr", NULL)
        answer = f.variable("ptr", NULL)
        with f.when(f.icmp("ne", where, NULL)):
            f.put(named, f.call("ptr", "named", plan, objects))
        with f.when(f.icmp("ne", f.get("ptr", named), NULL)):
            f.put(answer, call_object(f, on_error, error, where, f.get("ptr", named)))
        f.call("void", "Py_DecRef", where)
        f.call("void", "Py_DecRef", f.get("ptr", named))
        with f.when(f.icmp("ne", f.get("ptr", answer), NULL)):
            f.call("void", "Py_DecRef", f.get("ptr", answer))
            f.call("void", "PyErr_Restore", kind, error, traceback)
            f.ret()
        for held in (kind, error, traceback):
            f.call("void", "Py_DecRef", held)
        f.ret()

    # Python's part

    def _slowly(self) -> None:
        """ptr slowly(plan, grid, args, nargs, names): call the careful path, with this grid."""
        f = self._code("slowly", "ptr plan, ptr grid, ptr args, i64 nargs, ptr names", "ptr")
        plan, grid, args, nargs, names = f.arguments
        total = f.variable("i64", nargs)
        with f.when(f.icmp("ne", names, NULL)):
            f.put(total, f.add(nargs, f.call("i64", "PyTuple_Size", names)))
        count = f.get("i64", total)
        copied = f.emit("ptr", f"alloca ptr, {f.add(count, i64(2))}, align 16")
        f.put(copied, f.read(plan, PLAN, "function"))
        size = f.op("shl", count, i64(3))
        f.call("void", "llvm.memcpy.p0.p0.i64", f.offset(copied, 8), args, size, NO)
        with f.when(f.icmp("sgt", nargs, i64(0))):
            f.put(f.offset(copied, 8), grid)
        slow, given = f.read(plan, PLAN, "slow"), f.add(nargs, i64(1))
        f.ret(f.call("ptr", "PyObject_VectorcallMethod", slow, copied, given, names))

    def _state(self, f: Code, capsule: Value) -> Value:
        text = f'c"{CAPSULE.decode()}\\00"'
        name = self.module.constant(f"[{len(CAPSULE) + 1} x i8]", text)
        plan = f.call("ptr", "PyCapsule_GetPointer", capsule, name)
        with f.when(is_null(f, plan)):
            f.ret(NULL)
        return plan

    def _buffers(self, f: Code, plan: Value) -> tuple[Value, Value, Value, Value]:
        """Room for a key, values and the parameters' arguments; and a cursor over them."""
        words = f.variable("", size=8 * WORDS)
        values = f.variable("", size=8 * VALUES)
        cursor = f.variable("", size=CURSOR.size)
        count = f.add(f.read(plan, PLAN, "param_count"), i64(1))
        objects = f.emit("ptr", f"alloca ptr, {count}, align 16")
        f.write(cursor, CURSOR, "words", words)
        f.write(cursor, CURSOR, "words_end", f.offset(words, 8 * WORDS))
        f.write(cursor, CURSOR, "values", values)
        f.write(cursor, CURSOR, "values_end", f.offset(values, 8 * VALUES))
        f.write(cursor, CURSOR, "types", f.read(plan, PLAN, "types"))
        return words, values, objects, cursor

    def _word_count(self, f: Code, words: Value, cursor: Value) -> Value:
        end = f.cast("ptrtoint", f.read(cursor, CURSOR, "words"), "i64")
        return f.op("lshr", f.sub(end, f.cast("ptrtoint", words, "i64")), i64(3))

    def _key(self) -> None:
        """object tritium_key(capsule, args, nargs, names): a launch's key, or None."""
        arguments = "ptr capsule, ptr args, i64 nargs, ptr names"
        f = self._code("tritium_key", arguments, "ptr", exported=True)
        capsule, args, nargs, names = f.arguments
        plan = self._state(f, capsule)
        words, _, objects, cursor = self._buffers(f, plan)
        known = f.call("i1", "front", plan, args, nargs, names, objects, cursor)
        with f.when(known):
            size = f.op("shl", self._word_count(f, words, cursor), i64(3))
            f.ret(f.call("ptr", "PyBytes_FromStringAndSize", words, size))
        none = f.read(f.read(plan, PLAN, "types"), TYPES, "none")
        f.call("void", "Py_IncRef", none)
        f.ret(none)

    def _kernel(self) -> None:
        """object tritium_kernel(capsule, args, nargs, names): a launch; returns the kernel."""
        arguments = "ptr capsule, ptr args, i64 nargs, ptr names"
        f = self._code("tritium_kernel", arguments, "ptr", exported=True)
        capsule, args, nargs, names = f.arguments
        plan = self._state(f, capsule)
        words, values, objects, cursor = self._buffers(f, plan)
        slots = f.variable("", size=8 * VALUES)
        entry = f.call("ptr", "prepare", plan, args, nargs, names, objects, cursor, words, values,
                       slots)  # fmt: skip
        given = f.get("ptr", args)
        with f.when(is_null(f, entry)):
            f.ret(f.call("ptr", "slowly", plan, given, args, nargs, names))
        # From here on Python code may run, and forget this entry: hold it.
        owner, types = f.read(entry, ENTRY, "owner"), f.read(plan, PLAN, "types")
        sizes = f.variable("", size=SIZES.size)
        with f.when(f.call("i1", "extents", types, given, sizes)):
            f.call("void", "Py_IncRef", owner)
            f.ret(f.call("ptr", "run", entry, plan, objects, sizes, slots))
        callable_ = is_type(f, type_of(f, given), types, "function", "method")
        with f.when(self._unless(f, callable_)):
            f.ret(f.call("ptr", "slowly", plan, given, args, nargs, names))
        f.call("void", "Py_IncRef", owner)
        found = f.call("ptr", "call_grid", plan, given, objects)
        with f.when(is_null(f, found)):
            f.call("void", "Py_DecRef", owner)
            f.ret(NULL)
        simple = f.call("i1", "extents", types, found, sizes)
        with f.when(simple):
            f.call("void", "Py_DecRef", found)
            f.ret(f.call("ptr", "run", entry, plan, objects, sizes, slots))
        f.call("void", "Py_DecRef", owner)
        result = f.call("ptr", "slowly", plan, found, args, nargs, names)
        f.call("void", "Py_DecRef", found)
        f.ret(result)
        self._prepare()
        self._run()

    def _prepare(self) -> None:
        """ptr prepare(...): the entry for a launch whose slots are filled in; null if unknown."""
        arguments = (
            "ptr plan, ptr args, i64 nargs, ptr names, ptr objects, ptr cursor, ptr words, "
            "ptr values, ptr slots"
        )
        f = self._code("prepare", arguments, "ptr")
        plan, args, nargs, names, objects, cursor, words, values, slots = f.arguments
        known = f.call("i1", "front", plan, args, nargs, names, objects, cursor)
        with f.when(self._unless(f, known)):
            f.ret(NULL)
        count = self._word_count(f, words, cursor)
        entry = f.call("ptr", "find", f.read(plan, PLAN, "table"), words, count)
        with f.when(is_null(f, entry)):
            f.ret(NULL)
        caches, kernels = (f.read(entry, ENTRY, name) for name in ("caches", "kernels"))
        expected = f.read(entry, ENTRY, "cache_count")
        with f.when(f.icmp("ne", f.call("i64", "PyDict_Size", caches), expected)):
            f.ret(NULL)
        expected = f.get("i64", f.read(entry, ENTRY, "kernel_count"))
        with f.when(f.icmp("ne", f.call("i64", "PyDict_Size", kernels), expected)):
            f.ret(NULL)
        guards, number = f.read(plan, PLAN, "globals"), f.read(plan, PLAN, "global_count")
        with f.when(self._unless(f, f.call("i1", "unchanged", guards, number))):
            f.ret(NULL)
        types = f.read(plan, PLAN, "types")
        with f.when(self._unless(f, f.call("i1", "store", entry, types, values, slots))):
            f.ret(NULL)
        f.ret(entry)

    def _run(self) -> None:
        """ptr run(entry, plan, objects, sizes, slots): run the grid; drops the entry's owner."""
        arguments = "ptr known, ptr plan, ptr objects, ptr sizes, ptr slots"
        f = self._code("run", arguments, "ptr")
        entry, plan, objects, sizes, slots = f.arguments
        owner, kernel = f.read(entry, ENTRY, "owner"), f.read(entry, ENTRY, "kernel")
        total = f.read(sizes, SIZES, "total")
        done = f.variable("i1", YES)
        with f.when(f.icmp("ne", total, i64(0))):
            function, state = f.read(entry, ENTRY, "function"), f.read(entry, ENTRY, "state")
            ran = f.invoke("i1", function, state, sizes, total, slots)
            f.put(done, ran)
        with f.when(f.get("i1", done)):
            f.call("void", "Py_IncRef", kernel)
            f.call("void", "Py_DecRef", owner)
            f.ret(kernel)
        on_error = f.read(entry, ENTRY, "on_error")
        with f.when(f.icmp("ne", on_error, NULL)):
            f.call("void", "explain", on_error, plan, objects, sizes)
        f.call("void", "Py_DecRef", owner)
        f.ret(NULL)


def native_ir() -> str:
    """The LLVM IR of the launcher."""
    module = Module()
    KernelWriter(module).write()
    return module.text()
