"""Python's objects as native code reads them: the C API by address, types by address, and the few
structs that are read without a call (NumPy's arrays, torch's tensors by DLPack).

Nothing of CPython's own structs is used but the head of an object, whose last field is its type in
every version that this package supports; builds without the GIL have another head and get no
native launches (`supported`).
"""

from __future__ import annotations

import ctypes
import functools
import sys
import types
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np

from tritium.native.records import Record, allocate
from tritium.native.tensor_struct import plain_struct

HEAD = object.__basicsize__

TYPES = Record(
    ("int", "ptr"), ("bool", "ptr"), ("float", "ptr"), ("ndarray", "ptr"),
    ("tensor", "ptr"), ("parameter", "ptr"), ("export", "ptr"), ("none", "ptr"),
    ("tuple", "ptr"), ("list", "ptr"), ("str", "ptr"), ("function", "ptr"), ("method", "ptr"),
    ("descriptor", "ptr"), ("size", "ptr"), ("item_size", "i64"), ("plain", "ptr"),
)  # fmt: skip
"""Type objects by address (and None itself). NumPy's and torch's are filled in when the first such
argument came: `export` is torch's `dltensor_from_py_object_no_sync`. `descriptor` is the class of
the last tensor descriptor, `size` torch's class of shapes, a tuple; `item_size` is the offset of
the size of an element in the struct of NumPy's dtypes, an i32 (the low half of an i64 in NumPy 2),
0 where that is not known. `plain`: a `tensor_struct.PLAIN`, or null."""

DLTENSOR = Record(
    ("data", "ptr"), ("device_type", "i32"), ("device_id", "i32"), ("ndim", "i32"),
    ("dtype", "i32"), ("shape", "ptr"), ("strides", "ptr"), ("byte_offset", "i64"),
)  # fmt: skip
ARRAY = Record(
    ("head", f"bytes {HEAD}"), ("data", "ptr"), ("nd", "i32"), ("dims", "ptr"), ("strides", "ptr"),
    ("base", "ptr"), ("descr", "ptr"), ("flags", "i32"),
)  # fmt: skip
NUMPY_WRITEABLE = 0x0400
EXPORT_SLOT = 40  # of dltensor_from_py_object_no_sync in DLPack 1.3's exchange API struct


def supported() -> bool:
    """True if an object's head is as native code expects it."""
    probe = 1.5
    kind = ctypes.c_uint64.from_address(id(probe) + HEAD - 8).value
    # By the flag, which a free-threaded build has: sysconfig would take milliseconds to load.
    return kind == id(float) and "t" not in getattr(sys, "abiflags", "")


def api_addresses(names: Iterable[str]) -> dict[str, int]:
    """The addresses of functions of CPython's C API."""
    return {
        name: ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0
        for name in names
    }


class KnownTypes:
    """The process's `TYPES` record."""

    def __init__(self) -> None:
        self.address, self._memory = allocate(TYPES.size)
        unknown = id(object)  # no fast path yet: no argument is exactly an `object` of use
        TYPES.write(
            self.address, int=id(int), bool=id(bool), float=id(float), none=id(None),
            ndarray=unknown, tensor=0, parameter=0, export=0, tuple=id(tuple), list=id(list),
            str=id(str), function=id(types.FunctionType), method=id(types.MethodType),
            descriptor=0, size=0, item_size=0, plain=0,
        )  # fmt: skip
        self._numpy_checked = False
        self._plain: tuple[int, object] | None = None
        self._descriptor: type | None = None

    def learn(self, obj: object) -> None:
        """Open the fast path for the type of an argument that the careful path accepted."""
        if type(obj) is np.ndarray:
            if not self._numpy_checked:
                self._numpy_checked = True
                if _array_struct_is_as_expected():
                    TYPES.write(self.address, item_size=_item_size_offset(), ndarray=id(np.ndarray))
            return
        torch: Any = sys.modules.get("torch")
        if torch is None or TYPES.read(self.address, "export") or not isinstance(obj, torch.Tensor):
            return
        if export := _torch_export(torch):
            TYPES.write(self.address, export=export)
            self._plain = plain_struct(torch, partial(_exported, export))
            TYPES.write(self.address, plain=self._plain[0] if self._plain else 0)
            parameter = id(torch.nn.Parameter)
            TYPES.write(
                self.address, tensor=id(torch.Tensor), parameter=parameter, size=id(torch.Size)
            )

    def learn_descriptor(self, kind: type) -> None:
        """Read objects of this class as tensor descriptors."""
        self._descriptor = kind  # the record holds its address: keep it alive
        TYPES.write(self.address, descriptor=id(kind))


@functools.cache
def known_types() -> KnownTypes:
    """The process's record."""
    return KnownTypes()


def _array_struct_is_as_expected() -> bool:
    """True if an array's struct is laid out as `ARRAY` says (another NumPy may change it)."""
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


def _item_size_offset() -> int:
    """The offset of the size of an element in a dtype's struct; 0 where it is not found."""
    # After the head: the class of scalars, four characters and the number of the type.
    head = HEAD + ctypes.sizeof(ctypes.c_void_p) + 4 + 4
    probes = [np.dtype(np.int8), np.dtype(np.complex128), np.dtype("V777")]
    for offset in (head, head + 8):  # NumPy 1; NumPy 2, which has flags of 8 bytes before
        sizes = [ctypes.c_int32.from_address(id(probe) + offset).value for probe in probes]
        if sizes == [probe.itemsize for probe in probes]:
            return offset
    return 0


def _exported(export: int, tensor: Any) -> tuple[int, int] | None:
    """The address and the DLPack type of a tensor of the CPU, by torch; None if it raises."""
    function = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)(export)
    at, _owner = allocate(DLTENSOR.size)
    try:
        function(tensor, at)
    except Exception:  # of whatever kind: torch raises many
        return None
    if DLTENSOR.read(at, "device_type") != 1:
        return None
    start = DLTENSOR.read(at, "data") + DLTENSOR.read(at, "byte_offset")
    return start, DLTENSOR.read(at, "dtype") & 0xFFFFFFFF


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


class MethodDef(ctypes.Structure):
    """CPython's `PyMethodDef`."""

    _fields_ = (
        ("name", ctypes.c_char_p), ("method", ctypes.c_void_p), ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )  # fmt: skip


METH_KEYWORDS, METH_FASTCALL = 0x0002, 0x0080


@functools.cache
def _constructors() -> tuple[Any, Any]:
    capsule = ctypes.PYFUNCTYPE(
        ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p
    )(("PyCapsule_New", ctypes.pythonapi))
    function = ctypes.PYFUNCTYPE(
        ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.py_object
    )(("PyCFunction_NewEx", ctypes.pythonapi))
    return capsule, function


def builtin(method: MethodDef, state: int, capsule: bytes, owner: object) -> Callable[..., Any]:
    """A built-in function whose `self` is a capsule (of the name `capsule`) around the address
    `state`. It keeps `owner` alive, which must keep `method`, `capsule` and the state alive."""
    new_capsule, new_function = _constructors()
    # The function keeps its module alive: that is where its owner goes.
    return new_function(ctypes.addressof(method), new_capsule(state, capsule, None), owner)
