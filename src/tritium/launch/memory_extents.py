"""Native code that finds the memory that an argument belongs to: the whole storage of its array or
tensor, of which a slice may be another part. It agrees with `tritium.sanitize.extents`."""

from __future__ import annotations

from tritium.codegen.llvm.writer import Module, Value
from tritium.launch.parsing import NO, YES
from tritium.native.pyobjects import ARRAY, TYPES
from tritium.native.pyobjects_writer import call_object, is_null, is_type, type_of
from tritium.native.writer import Code, i32, i64


class ExtentWriter:
    """Writes `memory_extent` and what it calls."""

    def __init__(self, module: Module):
        self.module = module

    def write(self) -> None:
        """Write every function."""
        self._owned()
        self._memory_extent()

    def _memory_extent(self) -> None:
        """i1 memory_extent(types, function, obj, out): store the begin and the end of an
        argument's memory; of what is no NumPy array, `function` tells them. False where that is
        left to the careful path."""
        arguments = [("ptr", "types"), ("ptr", "function"), ("ptr", "obj"), ("ptr", "out")]
        f = Code(self.module, "memory_extent", arguments, "i1")
        types, function, obj, out = f.arguments
        with f.when(is_type(f, type_of(f, obj), types, "ndarray")):
            self._owner(f, types, obj, out)
        answer = call_object(f, function, obj)
        with f.when(is_null(f, answer)):
            f.call("void", "PyErr_Clear")
            f.ret(NO)
        for i in range(2):
            item = f.call("ptr", "PyTuple_GetItem", answer, i64(i))
            f.put(f.offset(out, 8 * i), f.call("i64", "PyLong_AsUnsignedLongLong", item))
        f.call("void", "Py_DecRef", answer)
        f.ret(YES)

    def _owner(self, f: Code, types: Value, obj: Value, out: Value) -> None:
        """Go from a view to the array that owns the memory; return its extent."""
        item_size = f.read(types, TYPES, "item_size")
        with f.when(f.icmp("eq", item_size, i64(0))):  # another NumPy has another struct
            f.ret(NO)
        owner, known = f.variable("ptr", obj), f.read(types, TYPES, "ndarray")
        with f.forever() as loop:
            array = f.get("ptr", owner)
            base = f.read(array, ARRAY, "base")
            with f.when(is_null(f, base)):
                loop.leave()
            kind = type_of(f, base)
            with f.when(is_type(f, kind, types, "ndarray")):
                f.put(owner, base)
                loop.restart()
            # A subclass may look at memory in its own way. Others only own the bytes.
            derived = f.call("i32", "PyType_IsSubtype", kind, known)
            with f.when(f.icmp("ne", derived, i32(0))):
                f.ret(NO)
            loop.leave()
        f.call("void", "owned", f.get("ptr", owner), item_size, out)
        f.ret(YES)

    def _owned(self) -> None:
        """void owned(array, item_size, out): store the begin and the end of an array's elements.
        `item_size`: where the dtype's struct has the size of one."""
        arguments = [("ptr", "array"), ("i64", "item_size"), ("ptr", "out")]
        f = Code(self.module, "owned", arguments)
        array, item_size, out = f.arguments
        dims, strides = f.read(array, ARRAY, "dims"), f.read(array, ARRAY, "strides")
        start = f.cast("ptrtoint", f.read(array, ARRAY, "data"), "i64")
        begin, end = f.variable("i64", start), f.variable("i64", start)
        with f.counted(f.cast("sext", f.read(array, ARRAY, "nd"), "i64")) as (i, _):
            size = f.get("i64", f.gep("i64", dims, i))
            with f.when(f.icmp("eq", size, i64(0))):  # no elements
                f.put(out, start)
                f.put(f.offset(out, 8), start)
                f.ret()
            reach = f.op("mul", f.sub(size, i64(1)), f.get("i64", f.gep("i64", strides, i)))
            place = f.select(f.icmp("slt", reach, i64(0)), begin, end)
            f.put(place, f.add(f.get("i64", place), reach))
        descr = f.read(array, ARRAY, "descr")
        item = f.cast("zext", f.get("i32", f.gep("i8", descr, item_size)), "i64")
        f.put(out, f.get("i64", begin))
        f.put(f.offset(out, 8), f.add(f.get("i64", end), item))
        f.ret()
