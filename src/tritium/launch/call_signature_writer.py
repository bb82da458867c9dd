"""Native code for `call_signature`, as LLVM IR."""

from __future__ import annotations

from tritium.codegen.llvm.writer import Module, Value
from tritium.launch.parsing import NO, YES
from tritium.launch.records import (
    SIGNATURE,
    SIGNATURE_CAPSULE,
    SIGNATURE_STATE,
    SIGNATURE_WORDS,
    Tag,
)
from tritium.native.pyobjects import DLTENSOR, TYPES
from tritium.native.pyobjects_writer import (
    call_object,
    export_tensor,
    is_null,
    is_type,
    tensor_address,
    type_of,
)
from tritium.native.writer import NULL, Code, i32, i64

MAX_RANK = 16


class SignatureWriter:
    """Writes `tritium_signature` and what it calls."""

    def __init__(self, module: Module):
        self.module = module

    def write(self) -> None:
        """Write every function."""
        self._describe()
        self._signature()

    def _push(self, f: Code, end: Value, *words: Value) -> None:
        at = f.get("ptr", end)
        for i, word in enumerate(words):
            f.put(f.offset(at, 8 * i), word)
        f.put(end, f.offset(at, 8 * len(words)))

    def _truth(self, f: Code, found: Value) -> Value:
        """A bool that a call gave, as a number; returns from the function where it raised."""
        with f.when(is_null(f, found)):
            f.call("void", "PyErr_Clear")
            f.ret(NO)
        truth = f.call("i64", "PyLong_AsLong", found)
        f.call("void", "Py_DecRef", found)
        return truth

    def _properties(self, f: Code, state: Value, obj: Value) -> Value:
        """A variable: 1 if a tensor requires grad, else 0; returns from the function for a tensor
        that has yet to be negated. Read from torch's structs, or asked for where their places are
        not known."""
        grad, asks = f.variable("i64", i64(1)), f.variable("i64", i64(1))
        impl = f.read(state, SIGNATURE_STATE, "impl")
        with f.when(f.icmp("ne", impl, i64(0))):
            tensor = f.get("ptr", f.gep("i8", obj, impl))
            words = (
                f.get("i64", f.gep("i8", tensor, f.read(state, SIGNATURE_STATE, name)))
                for name in ("gradient", "keys")
            )
            f.put(grad, next(words))
            f.put(asks, f.op("and", next(words), f.read(state, SIGNATURE_STATE, "negative")))
        with f.when(f.icmp("ne", f.get("i64", grad), i64(0))):
            attribute = f.read(state, SIGNATURE_STATE, "requires_grad")
            f.put(grad, self._truth(f, f.call("ptr", "PyObject_GetAttr", obj, attribute)))
        with f.when(f.icmp("ne", f.get("i64", asks), i64(0))):
            method, itself = f.read(state, SIGNATURE_STATE, "is_neg"), f.variable("ptr", obj)
            called = f.call("ptr", "PyObject_VectorcallMethod", method, itself, i64(1), NULL)
            with f.when(f.icmp("ne", self._truth(f, called), i64(0))):
                f.ret(NO)
        return grad

    def _tensor(self, f: Code, state: Value, obj: Value, end: Value) -> None:
        """The words of a tensor; returns from the function."""
        exported, tensor = export_tensor(f, f.read(state, SIGNATURE_STATE, "types"), obj)
        with f.when(f.op("xor", exported, YES)):
            f.call("void", "PyErr_Clear")
            f.ret(NO)
        rank = f.cast("sext", f.read(tensor, DLTENSOR, "ndim"), "i64")
        shape, strides = f.read(tensor, DLTENSOR, "shape"), f.read(tensor, DLTENSOR, "strides")
        unknown = f.op("or", f.icmp("sgt", rank, i64(MAX_RANK)), is_null(f, strides))
        with f.when(unknown):
            f.ret(NO)
        grad = self._properties(f, state, obj)
        word = i64(Tag.TENSOR)
        mask = f.read(state, SIGNATURE_STATE, "address_mask")
        address = f.op("and", tensor_address(f, tensor), mask)
        parts = ((f.get("i64", grad), 12), (rank, 16))
        for value, place in parts:
            word = f.op("or", word, f.op("shl", value, i64(place)))
        dtype, kind, number = (
            f.cast("zext", f.read(tensor, DLTENSOR, name), "i64")
            for name in ("dtype", "device_type", "device_id")
        )
        word = f.op("or", word, f.op("shl", dtype, i64(32)))
        device = f.op("or", kind, f.op("shl", number, i64(32)))
        self._push(f, end, word, device, address)
        size = f.op("shl", rank, i64(3))
        for source in (shape, strides):
            at = f.get("ptr", end)
            f.call("void", "llvm.memcpy.p0.p0.i64", at, source, size, NO)
            f.put(end, f.gep("i8", at, size))
        f.ret(YES)

    def _describe(self) -> None:
        """i1 describe(state, obj, end, last): add the words of an argument; `end` points to the
        place of the next, `last` is where there is room for no further argument."""
        arguments = [("ptr", "state"), ("ptr", "obj"), ("ptr", "end"), ("ptr", "last")]
        f = Code(self.module, "describe", arguments, "i1")
        state, obj, end, last = f.arguments
        with f.when(f.icmp("ugt", f.get("ptr", end), last)):
            f.ret(NO)
        types, kind = f.read(state, SIGNATURE_STATE, "types"), type_of(f, obj)
        with f.when(is_type(f, kind, types, "tensor", "parameter")):
            self._tensor(f, state, obj, end)
        with f.when(is_type(f, kind, types, "int")):
            overflow = f.variable("i32", i32(0))
            value = f.call("i64", "PyLong_AsLongLongAndOverflow", obj, overflow)
            with f.when(f.icmp("ne", f.get("i32", overflow), i32(0))):
                f.ret(NO)
            self._push(f, end, i64(Tag.NUMBER), value)
            f.ret(YES)
        with f.when(is_type(f, kind, types, "float")):
            number = f.call("double", "PyFloat_AsDouble", obj)
            self._push(f, end, i64(Tag.REAL), f.cast("bitcast", number, "i64"))
            f.ret(YES)
        with f.when(is_type(f, kind, types, "list")):
            with f.when(f.icmp("eq", f.read(state, SIGNATURE_STATE, "lists"), i64(0))):
                f.ret(NO)
            self._members(f, "PyList")
        with f.when(is_type(f, kind, types, "tuple")):
            self._members(f, "PyTuple")
        self._push(f, end, i64(Tag.OBJECT), f.cast("ptrtoint", obj, "i64"))
        f.ret(YES)

    def _members(self, f: Code, kind: str) -> None:
        """The words of a sequence's members; returns from `describe`."""
        state, obj, end, last = f.arguments
        size = f.call("i64", f"{kind}_Size", obj)
        self._push(f, end, i64(Tag.TUPLE), size)
        with f.counted(size) as (i, _):
            item = f.call("ptr", f"{kind}_GetItem", obj, i)
            with f.when(f.op("xor", f.call("i1", "describe", state, item, end, last), YES)):
                f.ret(NO)
        f.ret(YES)

    def _signature(self) -> None:
        """object tritium_signature(capsule, args, nargs, names)."""
        arguments = [("ptr", "capsule"), ("ptr", "args"), ("i64", "nargs"), ("ptr", "names")]
        f = Code(self.module, SIGNATURE, arguments, "ptr", exported=True)
        capsule, args, nargs, names = f.arguments
        text = 'c"' + SIGNATURE_CAPSULE.decode() + '\\00"'
        name = self.module.constant(f"[{len(SIGNATURE_CAPSULE) + 1} x i8]", text)
        state = f.call("ptr", "PyCapsule_GetPointer", capsule, name)
        with f.when(is_null(f, state)):
            f.ret(NULL)
        words = f.variable("", size=8 * SIGNATURE_WORDS)
        end = f.variable("ptr", words)
        last = f.offset(words, 8 * (SIGNATURE_WORDS - 2 * MAX_RANK - 3))
        none = f.read(f.read(state, SIGNATURE_STATE, "types"), TYPES, "none")
        named = f.variable("i64", i64(0))
        with f.when(f.icmp("ne", names, NULL)):
            f.put(named, f.call("i64", "PyTuple_Size", names))
        self._push(f, end, nargs)
        functions = f.read(state, SIGNATURE_STATE, "functions")
        with f.counted(f.read(state, SIGNATURE_STATE, "count")) as (i, _):
            found = call_object(f, f.get("ptr", f.gep("ptr", functions, i)))
            with f.when(is_null(f, found)):
                f.call("void", "PyErr_Clear")
                f.call("void", "Py_IncRef", none)
                f.ret(none)
            self._push(f, end, f.cast("ptrtoint", found, "i64"))
            f.call("void", "Py_DecRef", found)
        with f.counted(f.get("i64", named)) as (i, _):
            with f.when(f.icmp("ugt", f.get("ptr", end), last)):
                f.call("void", "Py_IncRef", none)
                f.ret(none)
            keyword = f.call("ptr", "PyTuple_GetItem", names, i)
            self._push(f, end, f.cast("ptrtoint", keyword, "i64"))
        with f.counted(f.add(nargs, f.get("i64", named))) as (i, _):
            obj = f.get("ptr", f.gep("ptr", args, i))
            known = f.call("i1", "describe", state, obj, end, last)
            with f.when(f.op("xor", known, YES)):
                f.call("void", "Py_IncRef", none)
                f.ret(none)
        stop = f.cast("ptrtoint", f.get("ptr", end), "i64")
        size = f.sub(stop, f.cast("ptrtoint", words, "i64"))
        f.ret(f.call("ptr", "PyBytes_FromStringAndSize", words, size))


def native_ir() -> str:
    """The LLVM IR of `tritium_signature`."""
    module = Module()
    SignatureWriter(module).write()
    return module.text()
