"""What a call of a function of tensors looks like, as bytes: a key under which a program keeps what
it found out about such calls."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from tritium.launch.native import link
from tritium.native import pyobjects
from tritium.native.pyobjects import METH_FASTCALL, METH_KEYWORDS, MethodDef, builtin
from tritium.native.records import Record, allocate

CAPSULE = b"tritium.signature"
SYMBOL = "tritium_signature"
WORDS = 512
"""Room on the stack for a signature."""

STATE = Record(("types", "ptr"), ("requires_grad", "ptr"))
"""The `TYPES` record, and the name of the attribute as an interned string."""

API = (
    "PyBytes_FromStringAndSize", "PyCapsule_GetPointer", "PyErr_Clear", "PyFloat_AsDouble",
    "PyLong_AsLongLongAndOverflow", "PyLong_AsLong", "PyObject_GetAttr", "PyTuple_GetItem",
    "PyTuple_Size", "Py_DecRef", "Py_IncRef",
)  # fmt: skip


def _native_ir() -> str:
    # Here, because a process that finds the object code in the cache never needs the writer.
    from tritium.launch.call_signature_writer import native_ir

    return native_ir()


@functools.cache
def make_signature() -> Callable[..., bytes | None]:
    """The function `signature(*args, **kwargs)`; it needs torch, which the caller has loaded.

    It tells a tensor's type, device, shape, strides, whether its memory begins at a multiple of 16
    bytes and whether it requires grad; the value of an int of 64 bits or a float; the same of a
    tuple's members; the identity of any other object, which whoever keeps a signature has to keep
    alive; and the names of keywords. None: an argument is a list, a larger int or a tensor without
    strides or memory, or there are too many.
    """
    if not pyobjects.supported():
        return _unknown
    torch: Any = sys.modules["torch"]
    types = pyobjects.known_types()
    types.learn(torch.empty(0))
    address, memory = allocate(STATE.size)
    name = sys.intern("requires_grad")
    STATE.write(address, types=types.address, requires_grad=id(name))
    image = link(_native_ir, [SYMBOL], pyobjects.api_addresses(API))
    flags = METH_FASTCALL | METH_KEYWORDS
    method = MethodDef(b"signature", image[SYMBOL], flags, None)
    return builtin(method, address, CAPSULE, (method, memory, name, image))


def _unknown(*_: Any, **__: Any) -> None:
    return None
