"""Native code that reads Python's objects (`pyobjects`) and checks guards (`guards`)."""

from __future__ import annotations

from tritium.codegen.llvm.writer import Module, Value, const
from tritium.native.guards import GUARD
from tritium.native.pyobjects import DLTENSOR, HEAD, TYPES
from tritium.native.writer import NULL, Code, i32, i64


def type_of(f: Code, obj: Value) -> Value:
    """The address of an object's type."""
    return f.get("ptr", f.offset(obj, HEAD - 8))


def is_type(f: Code, kind: Value, known: Value, *names: str) -> Value:
    """Whether a type is one of those named, of the `TYPES` record `known` (i1)."""
    found = f.icmp("eq", kind, f.read(known, TYPES, names[0]))
    for name in names[1:]:
        found = f.op("or", found, f.icmp("eq", kind, f.read(known, TYPES, name)))
    return found


def call_object(f: Code, function: Value, *arguments: Value) -> Value:
    """Call a Python object; null where it raised."""
    f.module.declare("PyObject_CallFunctionObjArgs", "ptr", ["ptr", "..."])
    listed = ", ".join(map(str, (function, *arguments, NULL)))
    return f.emit("ptr", f"call ptr (ptr, ...) @PyObject_CallFunctionObjArgs({listed})")


def is_null(f: Code, value: Value) -> Value:
    return f.icmp("eq", value, NULL)


def export_tensor(f: Code, known: Value, obj: Value) -> tuple[Value, Value]:
    """Export a torch tensor: whether that succeeded (i1), and its DLTENSOR. A failure has set an
    exception."""
    tensor = f.variable("", size=DLTENSOR.size)
    status = f.invoke("i32", f.read(known, TYPES, "export"), obj, tensor)
    return f.icmp("eq", status, i32(0)), tensor


def tensor_address(f: Code, tensor: Value) -> Value:
    """The address (i64) of a DLTENSOR's first element."""
    start = f.cast("ptrtoint", f.read(tensor, DLTENSOR, "data"), "i64")
    return f.add(start, f.read(tensor, DLTENSOR, "byte_offset"))


def has_no_elements(f: Code, tensor: Value) -> Value:
    """Whether an extent of a DLTENSOR is zero (i1)."""
    zeros, shape = f.variable("i64", i64(0)), f.read(tensor, DLTENSOR, "shape")
    with f.counted(f.cast("sext", f.read(tensor, DLTENSOR, "ndim"), "i64")) as (i, _):
        zero = f.icmp("eq", f.get("i64", f.gep("i64", shape, i)), i64(0))
        f.put(zeros, f.op("or", f.get("i64", zeros), f.cast("zext", zero, "i64")))
    return f.icmp("ne", f.get("i64", zeros), i64(0))


def write_unchanged(module: Module) -> None:
    """Write i1 unchanged(guards, count): whether all guards hold."""
    f = Code(module, "unchanged", [("ptr", "guards"), ("i64", "count")], "i1")
    guards, count = f.arguments
    with f.counted(count) as (i, loop):
        guard = f.gep("i8", guards, f.op("mul", i, i64(GUARD.size)))
        where, key = f.read(guard, GUARD, "where"), f.read(guard, GUARD, "key")
        with f.when(is_null(f, key)):
            with f.when(f.icmp("ne", f.call("i64", "PyList_Size", where), i64(0))):
                f.ret(const("i1", 0))
            loop.restart()
        found = f.call("ptr", "PyDict_GetItemWithError", where, key)
        with f.when(f.icmp("ne", found, f.read(guard, GUARD, "expected"))):
            f.ret(const("i1", 0))
    f.ret(const("i1", 1))
