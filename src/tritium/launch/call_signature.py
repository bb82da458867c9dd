"""Signatures of calls of functions of tensors, as bytes: keys under which a program keeps what it
found out about such calls."""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable
from typing import Any

from tritium.launch.native import link
from tritium.launch.records import SIGNATURE, SIGNATURE_API, SIGNATURE_CAPSULE, SIGNATURE_STATE
from tritium.native import pyobjects
from tritium.native.loader import Image
from tritium.native.pyobjects import METH_FASTCALL, METH_KEYWORDS, TYPES, MethodDef, builtin
from tritium.native.records import allocate
from tritium.native.tensor_struct import tensor_struct


def _native_ir() -> str:
    # Here, because a process that finds the object code in the cache never needs the writer.
    from tritium.launch.call_signature_writer import native_ir

    return native_ir()


def make_signature(
    *state: Callable[[], Any], addresses: bool = False, lists: bool = False
) -> Callable[..., bytes | None]:
    """The function `signature(*args, **kwargs)`; it needs torch, which the caller has loaded.

    It tells a tensor's type, device, shape, strides, whether it requires grad and the low four bits
    of its address, or all with `addresses`; the value of an int of 64 bits or a float; the same of
    a tuple's members, and of a list's with `lists`; the identity of any other object, which whoever
    keeps a signature has to keep alive; the names of keywords; and the identity of what the
    functions `state` give. None: an argument is a list (without `lists`), a larger int, a tensor
    without strides or memory, or one whose numbers are those in memory with the other sign; there
    are too many, or a function raised; or this torch or this Python is one that native code cannot
    read.
    """
    torch: Any = sys.modules["torch"]
    types = pyobjects.known_types()
    types.learn(torch.empty(0))
    if not pyobjects.supported() or not TYPES.read(types.address, "export"):
        return _unknown
    address, memory = allocate(SIGNATURE_STATE.size)
    functions, listed = allocate(8 * max(len(state), 1))
    (ctypes.c_uint64 * len(state)).from_address(functions)[:] = [id(f) for f in state]
    names, struct = (sys.intern("requires_grad"), sys.intern("is_neg")), tensor_struct()
    SIGNATURE_STATE.write(
        address, types=types.address, requires_grad=id(names[0]), is_neg=id(names[1]),
        functions=functions, count=len(state), address_mask=-1 if addresses else 15,
        lists=int(lists), **struct._asdict(),
    )  # fmt: skip
    image = _image()
    flags = METH_FASTCALL | METH_KEYWORDS
    method = MethodDef(b"signature", image[SIGNATURE], flags, None)
    owner = method, memory, listed, state, names, image
    return builtin(method, address, SIGNATURE_CAPSULE, owner)


@functools.cache
def _image() -> Image:
    return link(_native_ir, [SIGNATURE], pyobjects.api_addresses(SIGNATURE_API))


def _unknown(*_: Any, **__: Any) -> None:
    return None
