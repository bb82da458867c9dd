"""Native code that reads Python's objects (`pyobjects`) and checks guards (`guards`)."""

from __future__ import annotations

from tritium.codegen.llvm.writer import Module, Value, const
from tritium.native.guards import GUARD
from tritium.native.pyobjects import DLTENSOR, HEAD, TYPES
from tritium.native.tensor_struct import DTYPES, PLAIN
from tritium.native.writer import NULL, Code, i32, i64


def type_of(f: Code, obj: Value) -> Value:
    """The address of an object's type."""
    return f.get("ptr", f.offset(obj, HEAD - 8))


def is_type(f: Code, kind: Value, known: Value, *names: str) -> Value:
    """True if a type is one of those named, of the `TYPES` record `known` (i1)."""
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


def export_tensor(
    f: Code, known: Value, obj: Value, *, whole: bool = True
) -> tuple[Value, Value]:
    """Export a torch tensor: whether that succeeded (i1), and its DLTENSOR. A failure has set an
    exception. Unless `whole`, shape and strides are valid only where the address is 0."""
    tensor, status = f.variable("", size=DLTENSOR.size), f.variable("i32", i32(0))
    read = const("i1", 0) if whole else f.call("i1", "read_plain", known, obj, tensor)
    with f.when(f.op("xor", read, const("i1", 1))):
        f.put(status, f.invoke("i32", f.read(known, TYPES, "export"), obj, tensor))
    return f.icmp("eq", f.get("i32", status), i32(0)), tensor


def write_read_plain(module: Module) -> None:
    """Write i1 read_plain(types, obj, out): read a dense tensor of the CPU that has memory from
    torch's structs (`PLAIN`), all but shape and strides; returns whether it is one."""
    f = Code(module, "read_plain", [("ptr", "types"), ("ptr", "obj"), ("ptr", "out")], "i1")
    types, obj, out = f.arguments
    plain = f.read(types, TYPES, "plain")

    def unless(condition: Value) -> None:
        with f.when(f.op("xor", condition, const("i1", 1))):
            f.ret(const("i1", 0))

    def get(type: str, base: Value, name: str) -> Value:
        return f.get(type, f.gep("i8", base, f.read(plain, PLAIN, name)))

    unless(f.icmp("ne", plain, NULL))
    impl = get("ptr", obj, "impl")
    unless(f.icmp("eq", get("i64", impl, "keys"), f.read(plain, PLAIN, "plain")))
    storage = get("ptr", impl, "storage")
    unless(f.icmp("ne", storage, NULL))
    copied = f.op("and", get("i64", storage, "copied"), f.read(plain, PLAIN, "mask"))
    unless(f.icmp("eq", copied, i64(0)))
    number = f.cast("zext", get("i16", impl, "dtype"), "i64")
    unless(f.icmp("ult", number, i64(DTYPES)))
    dtype = f.get("i64", f.gep("i64", f.at(plain, PLAIN, "dtypes"), number))
    unless(f.icmp("ne", dtype, i64(0)))
    data = get("ptr", storage, "data")
    unless(f.icmp("ne", data, NULL))
    f.write(out, DLTENSOR, "data", data)
    start = f.op("mul", get("i64", impl, "start"), f.op("lshr", dtype, i64(32)))
    f.write(out, DLTENSOR, "byte_offset", start)
    f.write(out, DLTENSOR, "dtype", f.cast("trunc", dtype, "i32"))
    f.write(out, DLTENSOR, "device_type", i32(1))
    f.ret(const("i1", 1))


def tensor_address(f: Code, tensor: Value) -> Value:
    """The address (i64) of a DLTENSOR's first element."""
    start = f.cast("ptrtoint", f.read(tensor, DLTENSOR, "data"), "i64")
    return f.add(start, f.read(tensor, DLTENSOR, "byte_offset"))


def has_no_elements(f: Code, tensor: Value) -> Value:
    """True if an extent of a DLTENSOR is zero (i1)."""
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
