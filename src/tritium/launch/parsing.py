"""Native code that reads a launch's arguments: each adds words to the key, which say what the
kernel is compiled for (as `specialize.Specializer` does), and values, which become its slots.

A function here returns false (i1) for what it does not know; no exception is set then.
"""

from __future__ import annotations

from collections.abc import Callable

from tritium.codegen.llvm.writer import Module, Value, const
from tritium.launch.records import (
    ALIGNED,
    CURSOR,
    DESCRIPTOR_FIELDS,
    DETAIL,
    DEVICE,
    EMPTY,
    PARAM,
    READ_ONLY,
    SMALL,
    WIDE,
    Tag,
)
from tritium.native.pyobjects import ARRAY, DLTENSOR, NUMPY_WRITEABLE, TYPES
from tritium.native.pyobjects_writer import (
    call_object,
    export_tensor,
    has_no_elements,
    is_null,
    is_type,
    tensor_address,
    type_of,
)
from tritium.native.writer import NULL, Code, i32, i64

YES, NO = const("i1", 1), const("i1", 0)

MAX_RANK = 5


class ParseWriter:
    """Writes `constant` and `dynamic`, which read one argument.

    `names` is a global array of the interned names of a descriptor's attributes.
    """

    def __init__(self, module: Module, names: str):
        self.module, self.names = module, names

    def write(self) -> None:
        """Write every function."""
        self._room()
        self._large()
        self._constant()
        self._integers()
        self._descriptor()
        self._dynamic()

    # Words and values

    def _push(self, f: Code, cursor: Value, field: str, *values: Value) -> None:
        at = f.read(cursor, CURSOR, field)
        for i, value in enumerate(values):
            f.put(f.offset(at, 8 * i), value)
        f.write(cursor, CURSOR, field, f.offset(at, 8 * len(values)))

    def _word(self, f: Code, cursor: Value, *words: Value) -> None:
        self._push(f, cursor, "words", *words)

    def _value(self, f: Code, cursor: Value, *values: Value) -> None:
        self._push(f, cursor, "values", *values)

    def _room(self) -> None:
        """i1 room(cursor): whether one more argument (at most 8 words and values) fits."""
        f = Code(self.module, "room", [("ptr", "cursor")], "i1")
        (cursor,) = f.arguments
        words, values = (
            f.icmp("ule", f.offset(f.read(cursor, CURSOR, name), 8 * 8),
                   f.read(cursor, CURSOR, f"{name}_end"))
            for name in ("words", "values")
        )  # fmt: skip
        f.ret(f.op("and", words, values))

    def _flag(self, f: Code, condition: Value, bit: int) -> Value:
        return f.select(condition, i64(bit), i64(0))

    def _wants(self, f: Code, param: Value, field: str) -> Value:
        return f.icmp("ne", f.read(param, PARAM, field), i32(0))

    def _number(self, f: Code, obj: Value, beyond: Callable[[], None] | None = None) -> Value:
        """An int as i64; where it is larger, what `beyond` writes, which ends in a return. Returns
        from the function for any other that is no i64."""
        overflow = f.variable("i32", i32(0))
        value = f.call("i64", "PyLong_AsLongLongAndOverflow", obj, overflow)
        found = f.get("i32", overflow)
        with f.when(f.icmp("ne", found, i32(0))):
            if beyond is not None:
                with f.when(f.icmp("sgt", found, i32(0))):
                    beyond()
            f.ret(NO)
        return value

    def _large(self) -> None:
        """i1 large(obj, out): store an int from 2**63 to 2**64-1; returns whether it is one."""
        f = Code(self.module, "large", [("ptr", "obj"), ("ptr", "out")], "i1")
        obj, out = f.arguments
        value = f.call("i64", "PyLong_AsUnsignedLongLong", obj)
        f.put(out, value)
        with f.when(f.icmp("slt", value, i64(-1))):
            f.ret(YES)
        # The largest of them, or an int that does not fit.
        with f.when(f.icmp("eq", f.call("ptr", "PyErr_Occurred"), NULL)):
            f.ret(YES)
        f.call("void", "PyErr_Clear")
        f.ret(NO)

    def _large_number(self, f: Code, obj: Value) -> Value:
        """An int from 2**63 on as i64; returns from the function where it is beyond 64 bits."""
        place = f.variable("i64", i64(0))
        with f.when(f.op("xor", f.call("i1", "large", obj, place), YES)):
            f.ret(NO)
        return f.get("i64", place)

    # Constants

    def _constant(self) -> None:
        """i1 constant(obj, cursor): an argument for a constexpr parameter, or an option."""
        f = Code(self.module, "constant", [("ptr", "obj"), ("ptr", "cursor")], "i1")
        obj, cursor = f.arguments
        with f.when(f.op("xor", f.call("i1", "room", cursor), YES)):
            f.ret(NO)
        types, kind = f.read(cursor, CURSOR, "types"), type_of(f, obj)

        def beyond() -> None:
            self._word(f, cursor, i64(Tag.LARGE_NUMBER), self._large_number(f, obj))
            f.ret(YES)

        with f.when(is_type(f, kind, types, "int")):
            self._word(f, cursor, i64(Tag.NUMBER), self._number(f, obj, beyond))
            f.ret(YES)
        with f.when(is_type(f, kind, types, "float")):
            number = f.call("double", "PyFloat_AsDouble", obj)
            self._word(f, cursor, i64(Tag.REAL), f.cast("bitcast", number, "i64"))
            f.ret(YES)
        self._word(f, cursor, i64(Tag.OBJECT), f.cast("ptrtoint", obj, "i64"))
        f.ret(YES)

    # Arguments at run time

    def _dynamic(self) -> None:
        """i1 dynamic(param, obj, cursor): an argument for any other parameter."""
        arguments = [("ptr", "param"), ("ptr", "obj"), ("ptr", "cursor")]
        f = Code(self.module, "dynamic", arguments, "i1")
        param, obj, cursor = f.arguments
        with f.when(f.op("xor", f.call("i1", "room", cursor), YES)):
            f.ret(NO)
        types, kind = f.read(cursor, CURSOR, "types"), type_of(f, obj)
        self._tensor(f, (param, types, kind, obj), cursor)
        self._integer(f, (param, types, kind, obj), cursor)
        self._array(f, (param, types, kind, obj), cursor)
        with f.when(is_type(f, kind, types, "float")):
            number = f.call("double", "PyFloat_AsDouble", obj)
            self._word(f, cursor, i64(Tag.FLOAT))
            self._value(f, cursor, f.cast("bitcast", number, "i64"))
            f.ret(YES)
        with f.when(is_type(f, kind, types, "bool")):
            self._word(f, cursor, i64(Tag.BOOL))
            self._value(f, cursor, f.call("i64", "PyLong_AsLong", obj))
            f.ret(YES)
        with f.when(f.icmp("eq", obj, f.read(types, TYPES, "none"))):
            self._word(f, cursor, i64(Tag.NONE))
            f.ret(YES)
        with f.when(is_type(f, kind, types, "str")):
            self._word(f, cursor, i64(Tag.OBJECT), f.cast("ptrtoint", obj, "i64"))
            f.ret(YES)
        with f.when(is_type(f, kind, types, "tuple")):
            self._tuple(f, param, obj, cursor)
        with f.when(is_type(f, kind, types, "descriptor")):
            f.ret(f.call("i1", "descriptor", param, obj, cursor))
        f.ret(NO)

    def _aligned(self, f: Code, param: Value, address: Value) -> Value:
        low = f.op("and", address, i64(15))
        both = f.op("and", f.icmp("eq", low, i64(0)), self._wants(f, param, "by_alignment"))
        return self._flag(f, both, ALIGNED)

    def _small(self, f: Code, obj: Value, cursor: Value) -> Value:
        """The bit of a tensor that is small; returns from the function where that is not known."""
        bit, function = f.variable("i64", i64(0)), f.read(cursor, CURSOR, "small")
        with f.when(f.icmp("ne", function, NULL)):
            answer = call_object(f, function, obj)
            with f.when(is_null(f, answer)):
                f.call("void", "PyErr_Clear")
                f.ret(NO)
            small = f.icmp("ne", f.call("i64", "PyLong_AsLong", answer), i64(0))
            f.put(bit, self._flag(f, small, SMALL))
            f.call("void", "Py_DecRef", answer)
        return f.get("i64", bit)

    def _tensor(self, f: Code, values: tuple[Value, ...], cursor: Value) -> None:
        param, types, kind, obj = values
        with f.when(is_type(f, kind, types, "tensor", "parameter")):
            exported, tensor = export_tensor(f, types, obj, whole=False)
            with f.when(f.op("xor", exported, YES)):
                f.call("void", "PyErr_Clear")
                f.ret(NO)
            address = tensor_address(f, tensor)
            dtype = f.cast("zext", f.read(tensor, DLTENSOR, "dtype"), "i64")
            word = f.op("or", f.op("shl", dtype, i64(DETAIL)), self._aligned(f, param, address))
            word = f.op("or", word, self._small(f, obj, cursor))
            self._word(f, cursor, f.op("or", word, i64(Tag.TENSOR)))
            device = f.cast("zext", f.read(tensor, DLTENSOR, "device_type"), "i64")
            flags = f.variable("i64", f.op("shl", device, i64(DEVICE)))
            with f.when(f.icmp("eq", address, i64(0))):
                empty = self._flag(f, has_no_elements(f, tensor), EMPTY)
                f.put(flags, f.op("or", f.get("i64", flags), empty))
            self._value(f, cursor, address, f.get("i64", flags), obj)
            f.ret(YES)

    def _array(self, f: Code, values: tuple[Value, ...], cursor: Value) -> None:
        param, types, kind, obj = values
        with f.when(is_type(f, kind, types, "ndarray")):
            address = f.cast("ptrtoint", f.read(obj, ARRAY, "data"), "i64")
            word = f.op("or", self._aligned(f, param, address), i64(Tag.ARRAY))
            dtype = f.cast("ptrtoint", f.read(obj, ARRAY, "descr"), "i64")
            self._word(f, cursor, word, dtype)
            flags = f.op("and", f.read(obj, ARRAY, "flags"), i32(NUMPY_WRITEABLE))
            fixed = self._flag(f, f.icmp("eq", flags, i32(0)), READ_ONLY)
            self._value(f, cursor, address, f.op("or", fixed, i64(1 << DEVICE)), obj)
            f.ret(YES)

    def _integer(self, f: Code, values: tuple[Value, ...], cursor: Value) -> None:
        param, types, kind, obj = values

        def beyond() -> None:
            large = self._large_number(f, obj)
            word = f.op("or", self._aligned(f, param, large), i64(Tag.UNSIGNED))
            self._word(f, cursor, word)
            self._value(f, cursor, large)
            f.ret(YES)

        with f.when(is_type(f, kind, types, "int")):
            value = self._number(f, obj, beyond)
            fixed = f.read(param, PARAM, "fixed")
            free = f.icmp("eq", fixed, i32(0))
            one = f.op("and", f.icmp("eq", value, i64(1)), self._wants(f, param, "by_value"))
            with f.when(f.op("and", one, free)):
                self._word(f, cursor, i64(Tag.ONE))
                f.ret(YES)
            narrow = f.cast("sext", f.cast("trunc", value, "i32"), "i64")
            wide = f.op("and", f.icmp("ne", narrow, value), free)
            word = f.op("or", self._flag(f, wide, WIDE), self._aligned(f, param, value))
            word = f.op("or", word, self._flag(f, one, SMALL))
            # An annotation of another type fixes all there is to know.
            other = f.icmp("eq", fixed, i32(2))
            word = f.select(other, i64(0), word)
            self._word(f, cursor, f.op("or", word, i64(Tag.INTEGER)))
            self._value(f, cursor, value)
            f.ret(YES)

    def _tuple(self, f: Code, param: Value, obj: Value, cursor: Value) -> None:
        size = f.call("i64", "PyTuple_Size", obj)
        word = f.op("or", f.op("shl", size, i64(DETAIL)), i64(Tag.TUPLE))
        self._word(f, cursor, word)
        with f.counted(size) as (i, _):
            item = f.call("ptr", "PyTuple_GetItem", obj, i)
            known = f.call("i1", "dynamic", param, item, cursor)
            with f.when(f.op("xor", known, YES)):
                f.ret(NO)
        f.ret(YES)

    # Descriptors

    def _integers(self) -> None:
        """i1 integers(obj, rank, types, out): the `rank` ints of a list or tuple."""
        arguments = [("ptr", "obj"), ("i64", "rank"), ("ptr", "types"), ("ptr", "out")]
        f = Code(self.module, "integers", arguments, "i1")
        obj, rank, types, out = f.arguments
        kind = type_of(f, obj)
        item = f.variable("ptr", NULL)
        listed, tupled = is_type(f, kind, types, "list"), is_type(f, kind, types, "tuple", "size")
        with f.when(f.op("xor", f.op("or", listed, tupled), YES)):
            f.ret(NO)
        size = f.variable("i64", i64(-1))
        for is_kind, function in ((listed, "PyList_Size"), (tupled, "PyTuple_Size")):
            with f.when(is_kind):
                f.put(size, f.call("i64", function, obj))
        with f.when(f.icmp("ne", f.get("i64", size), rank)):
            f.ret(NO)
        with f.counted(rank) as (i, _):
            for is_kind, function in ((listed, "PyList_GetItem"), (tupled, "PyTuple_GetItem")):
                with f.when(is_kind):
                    f.put(item, f.call("ptr", function, obj, i))
            number = f.get("ptr", item)
            with f.when(f.op("xor", is_type(f, type_of(f, number), types, "int"), YES)):
                f.ret(NO)
            f.put(f.gep("i64", out, i), self._number(f, number))
        f.ret(YES)

    def _descriptor(self) -> None:
        """i1 descriptor(param, obj, cursor): a tensor descriptor made on the host; its attributes
        are read anew each time, because they may be assigned to."""
        arguments = [("ptr", "param"), ("ptr", "obj"), ("ptr", "cursor")]
        f = Code(self.module, "descriptor", arguments, "i1")
        param, obj, cursor = f.arguments
        fields = f.variable("", size=8 * len(DESCRIPTOR_FIELDS))
        for i in range(len(DESCRIPTOR_FIELDS)):
            f.put(f.offset(fields, 8 * i), NULL)
        known = f.call("i1", "read_descriptor", param, obj, cursor, fields)
        for i in range(len(DESCRIPTOR_FIELDS)):
            f.call("void", "Py_DecRef", f.get("ptr", f.offset(fields, 8 * i)))
        f.ret(known)
        self._read_descriptor()

    def _read_descriptor(self) -> None:
        """i1 read_descriptor(param, obj, cursor, fields): the same; the caller drops `fields`."""
        arguments = [("ptr", "param"), ("ptr", "obj"), ("ptr", "cursor"), ("ptr", "fields")]
        f = Code(self.module, "read_descriptor", arguments, "i1")
        param, obj, cursor, fields = f.arguments
        types = f.read(cursor, CURSOR, "types")
        for i, name in enumerate(DESCRIPTOR_FIELDS):
            text = f.get("ptr", f.offset(Value("ptr", self.names), 8 * i))
            found = f.call("ptr", "PyObject_GetAttr", obj, text)
            f.put(f.offset(fields, 8 * i), found)
            with f.when(is_null(f, found)):
                f.call("void", "PyErr_Clear")
                if name != "padding":
                    f.ret(NO)
        base, shape, strides, block, padding = (
            f.get("ptr", f.offset(fields, 8 * i)) for i in range(len(DESCRIPTOR_FIELDS))
        )
        with f.when(f.icmp("ne", padding, NULL)):
            text = is_type(f, type_of(f, padding), types, "str")
            with f.when(f.op("xor", text, YES)):
                f.ret(NO)
        rank = f.call("i64", "PyObject_Size", block)
        with f.when(f.op("or", f.icmp("slt", rank, i64(1)), f.icmp("sgt", rank, i64(MAX_RANK)))):
            f.call("void", "PyErr_Clear")
            f.ret(NO)
        word = f.op("or", f.op("shl", rank, i64(DETAIL)), i64(Tag.DESCRIPTOR))
        self._word(f, cursor, word)
        kind = type_of(f, base)
        tensor = is_type(f, kind, types, "tensor", "parameter", "ndarray")
        with f.when(f.op("xor", tensor, YES)):
            f.ret(NO)
        with f.when(f.op("xor", f.call("i1", "dynamic", param, base, cursor), YES)):
            f.ret(NO)
        with f.when(f.op("xor", f.call("i1", "room", cursor), YES)):
            f.ret(NO)
        for obj_, field in ((block, "words"), (shape, "values"), (strides, "values")):
            at = f.read(cursor, CURSOR, field)
            read = f.call("i1", "integers", obj_, rank, types, at)
            with f.when(f.op("xor", read, YES)):
                f.ret(NO)
            f.write(cursor, CURSOR, field, f.gep("i64", at, rank))
            with f.when(f.op("xor", f.call("i1", "room", cursor), YES)):
                f.ret(NO)
        self._word(f, cursor, f.cast("ptrtoint", padding, "i64"))
        f.ret(YES)
