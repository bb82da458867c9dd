"""Structs, symbols and key words shared by the native launcher and Python."""

from __future__ import annotations

from enum import IntEnum

from tritium.native.records import Record

CAPSULE = b"tritium.kernel"
WORDS, VALUES = 512, 512
"""Room on the stack for a launch's key and for its values; longer ones go through Python."""
MAX_GRID = (1 << 31) - 1


class Tag(IntEnum):
    """The low byte of the first word that an argument adds to the key; what follows it."""

    TENSOR = 1
    """bit 8: aligned; bit 10: small (`CONTEXT`); from bit 16 on: DLPack's type"""
    ARRAY = 2
    """bit 8: aligned; a word more: the dtype object"""
    INTEGER = 3
    """bit 8: divisible by 16; bit 9: needs 64 bits; bit 10: 1, of an annotated parameter"""
    ONE = 4
    """the integer 1, a constant"""
    BOOL = 5
    FLOAT = 6
    NONE = 7
    OBJECT = 8
    """a word more: a constant, by identity"""
    TUPLE = 9
    """from bit 16 on: how many arguments follow, its members"""
    DESCRIPTOR = 10
    """from bit 16 on: the rank; the key of the base, the block's sizes, the padding follow"""
    NUMBER = 11
    """a word more: a constant int"""
    REAL = 12
    """a word more: the bits of a constant float"""
    OPTION = 13
    """a word more: the name; the key of its value, a constant, follows"""
    UNSIGNED = 14
    """an integer from 2**63 to 2**64-1; bit 8: divisible by 16"""
    LARGE_NUMBER = 15
    """a word more: a constant int from 2**63 to 2**64-1"""


ALIGNED, WIDE, SMALL, DETAIL = 1 << 8, 1 << 9, 1 << 10, 16

PARAM = Record(
    ("name", "ptr"), ("default", "ptr"), ("constant", "i32"), ("fixed", "i32"),
    ("by_value", "i32"), ("by_alignment", "i32"),
)  # fmt: skip
"""A parameter of the Python function: its interned name, its default (or null), and what
`specialize.Specializer` knows of it. `fixed`: 0 no annotation, 1 an integer type, 2 another."""

CURSOR = Record(
    ("words", "ptr"), ("words_end", "ptr"), ("values", "ptr"), ("values_end", "ptr"),
    ("types", "ptr"), ("small", "ptr"),
)  # fmt: skip
"""The places of the next word of the key and of the next value. A pointer is three values: the
address; READ_ONLY, EMPTY (no element, and no memory) and the device; and the object. `small` is the
context's."""
POINTER_VALUES = 3
READ_ONLY, EMPTY, DEVICE = 1, 2, 8

CONTEXT = Record(
    ("epoch", "i64"), ("device", "ptr"), ("count", "i64"), ("guards", "ptr"), ("small", "ptr"),
)  # fmt: skip
"""The state of the process under which keys mean something; `device` is a Python function that
tells the current device, null where there is only one; `small` is one that tells whether a tensor
is one of those for whose size kernels are specialized, null where no size matters."""

OPERATION = Record(
    ("how", "i32"), ("refused", "i32"), ("device", "i32"), ("low", "i64"), ("high", "i64"),
    ("extent", "i64"),
)  # fmt: skip
"""A `Store`; `refused`: the value's flags that it cannot have; `extent`: the offset in bytes of the
slots of a pointer's extent, 0 for none."""

ENTRY = Record(
    ("hash", "i64"), ("count", "i64"), ("words", "ptr"), ("operations", "ptr"),
    ("operations_end", "ptr"), ("function", "ptr"), ("state", "ptr"), ("kernel", "ptr"),
    ("owner", "ptr"), ("caches", "ptr"), ("cache_count", "i64"), ("kernels", "ptr"),
    ("kernel_count", "ptr"), ("extent_of", "ptr"), ("on_error", "ptr"),
)  # fmt: skip
"""A compiled kernel under a key. `owner` is the Python object that keeps the rest alive. `kernels`
is the dict that the kernel is in, `caches` the one that this belongs to: a size that is not the
stated one (`kernel_count` points to it) means that something was removed. `extent_of` and
`on_error` are Python functions or null: `End.extent_of`, and one that takes an error of the launch,
the address of its `SIZES` and the arguments by name (`End.on_error`)."""

PLAN = Record(
    ("enabled", "i64"), ("context", "ptr"), ("types", "ptr"), ("function", "ptr"), ("slow", "ptr"),
    ("params", "ptr"), ("param_count", "i64"), ("positional", "i64"), ("hooks", "ptr"),
    ("table", "ptr"), ("global_count", "i64"), ("globals", "ptr"),
)  # fmt: skip
"""A kernel's function. `context`: the address of the current context's address; `function`: the
object itself, whose method named `slow` takes what this code does not know; `hooks`: its list of
pre-run hooks; `table`: a mask (i64), the entry last found, then entries by hash; `globals`: guards
on the globals that it reads."""

SIZES = Record(("x", "i64"), ("y", "i64"), ("z", "i64"), ("total", "i64"))
"""The grid."""

API = (
    "PyBytes_FromStringAndSize", "PyCapsule_GetPointer", "PyDict_GetItemWithError", "PyDict_New",
    "PyDict_SetItem", "PyDict_Size", "PyErr_Clear", "PyErr_Fetch", "PyErr_NormalizeException",
    "PyErr_Occurred", "PyErr_Restore", "PyFloat_AsDouble",
    "PyList_GetItem", "PyList_Size", "PyLong_AsLong", "PyLong_AsLongLongAndOverflow",
    "PyLong_AsUnsignedLongLong", "PyLong_FromVoidPtr", "PyObject_CallFunctionObjArgs",
    "PyObject_GetAttr", "PyObject_Size", "PyObject_VectorcallMethod", "PyTuple_GetItem",
    "PyTuple_Size", "PyType_IsSubtype", "Py_DecRef", "Py_IncRef",
)  # fmt: skip

NAMES = "tritium_names"
SYMBOLS = ("tritium_kernel", "tritium_key", NAMES)

DESCRIPTOR_FIELDS = ("base", "shape", "strides", "block_shape", "padding")
"""The attributes of a tensor descriptor; their names are interned strings at `NAMES`."""

HASH_START, HASH_FACTOR = 0x243F6A8885A308D3, 0x9E3779B97F4A7C15 - (1 << 64)
"""Digits of pi and of the golden ratio (an odd number), as signed integers."""

SIGNATURE_CAPSULE = b"tritium.signature"
SIGNATURE = "tritium_signature"
SIGNATURE_WORDS = 16384
"""Room on the stack for a signature."""

SIGNATURE_STATE = Record(
    ("types", "ptr"), ("requires_grad", "ptr"), ("is_neg", "ptr"), ("functions", "ptr"),
    ("count", "i64"), ("address_mask", "i64"), ("lists", "i64"), ("impl", "i64"),
    ("gradient", "i64"), ("keys", "i64"), ("negative", "i64"),
)  # fmt: skip
"""The `TYPES` record, the names of the attributes as interned strings, functions that tell of the
program's state and how many, the bits of an address that are told, whether lists are, and a
`TensorStruct`."""

SIGNATURE_API = (
    "PyBytes_FromStringAndSize", "PyCapsule_GetPointer", "PyErr_Clear", "PyFloat_AsDouble",
    "PyList_GetItem", "PyList_Size", "PyLong_AsLongLongAndOverflow", "PyLong_AsLong",
    "PyObject_CallFunctionObjArgs", "PyObject_GetAttr", "PyObject_VectorcallMethod",
    "PyTuple_GetItem", "PyTuple_Size", "Py_DecRef", "Py_IncRef",
)  # fmt: skip
