"""Signatures of calls of functions of tensors, as bytes: keys under which a program keeps what it
found out about such calls."""

from __future__ import annotations

import ctypes
import functools
import itertools
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from tritium.launch.native import link
from tritium.launch.records import (
    SIGNATURE,
    SIGNATURE_API,
    SIGNATURE_CAPSULE,
    SIGNATURE_STATE,
)
from tritium.native import pyobjects
from tritium.native.loader import Image
from tritium.native.pyobjects import METH_FASTCALL, METH_KEYWORDS, TYPES, MethodDef, builtin
from tritium.native.records import allocate


def _native_ir() -> str:
    # Here, because a process that finds the object code in the cache never needs the writer.
    from tritium.launch.call_signature_writer import native_ir

    return native_ir()


def make_signature(
    *state: Callable[[], Any], addresses: bool = False
) -> Callable[..., bytes | None]:
    """The function `signature(*args, **kwargs)`; it needs torch, which the caller has loaded.

    It tells a tensor's type, device, shape, strides, whether it requires grad and the low four bits
    of its address, or all with `addresses`; the value of an int of 64 bits or a float; the same of
    a tuple's members; the identity of any other object, which whoever keeps a signature has to keep
    alive; the names of keywords; and the identity of what the functions `state` give. None: an
    argument is a list, a larger int, a tensor without strides or memory, or one whose numbers are
    those in memory with the other sign; there are too many, or a function raised; or this torch or
    this Python is one that native code cannot read.
    """
    torch: Any = sys.modules["torch"]
    types = pyobjects.known_types()
    types.learn(torch.empty(0))
    if not pyobjects.supported() or not TYPES.read(types.address, "export"):
        return _unknown
    address, memory = allocate(SIGNATURE_STATE.size)
    functions, listed = allocate(8 * max(len(state), 1))
    (ctypes.c_uint64 * len(state)).from_address(functions)[:] = [id(f) for f in state]
    names, struct = (sys.intern("requires_grad"), sys.intern("is_neg")), _tensor_struct()
    SIGNATURE_STATE.write(
        address, types=types.address, requires_grad=id(names[0]), is_neg=id(names[1]),
        functions=functions, count=len(state), address_mask=-1 if addresses else 15,
        **struct._asdict(),
    )  # fmt: skip
    image = _image()
    flags = METH_FASTCALL | METH_KEYWORDS
    method = MethodDef(b"signature", image[SIGNATURE], flags, None)
    owner = method, memory, listed, state, names, image
    return builtin(method, address, SIGNATURE_CAPSULE, owner)


class TensorStruct(NamedTuple):
    """The places in torch's structs of what it takes a call each to ask a tensor; zeros where they
    are not found.

    Attributes:
        impl: in a tensor's object, the address of its TensorImpl.
        gradient: in that, what autograd knows of the tensor; 0: nothing, so it requires no grad.
        keys: in that too, the bits that torch dispatches by.
        negative: the bit of them that a tensor has whose numbers have the other sign in memory.
    """

    impl: int = 0
    gradient: int = 0
    keys: int = 0
    negative: int = 0


_WORDS = 22
"""Words of a TensorImpl that are looked at: as many as the smallest of known versions has."""


def _words(tensor: Any) -> list[int]:
    return [*(ctypes.c_uint64 * _WORDS).from_address(tensor._cdata)]


def _pairs(first: Any, second: Any) -> list[tuple[int, int, int]]:
    """(place, word of the first, word of the second) of two TensorImpls."""
    words = zip(_words(first), _words(second), strict=True)
    return [(8 * i, *both) for i, both in enumerate(words)]


@functools.cache
def _tensor_struct() -> TensorStruct:
    """Found by comparing tensors that differ in one property."""
    torch: Any = sys.modules["torch"]
    found: list[set[tuple[int, int, tuple[int, int]]]] = []
    for shape, dtype in (((3,), torch.float32), ((2, 0, 5), torch.float64), ((), torch.bfloat16)):
        plain = torch.empty(shape, dtype=dtype)
        wanting, negated = plain.detach().requires_grad_(), torch._neg_view(plain)
        size = torch.Tensor.__basicsize__
        held = (ctypes.c_uint64 * (size // 8)).from_address(id(plain))
        impls = [8 * i for i, word in enumerate(held) if word == plain._cdata]
        gradients = [at for at, old, new in _pairs(plain, wanting) if not old and new]
        sets = [(at, new ^ old) for at, old, new in _pairs(plain, negated) if not old & ~new]
        bits = [(at, bit) for at, bit in sets if bit.bit_count() == 1]
        found.append({*itertools.product(impls, gradients, bits)})
    common = found.pop().intersection(*found)
    if len(common) != 1:
        return TensorStruct()
    impl, gradient, (keys, negative) = common.pop()
    return TensorStruct(impl, gradient, keys, negative)


@functools.cache
def _image() -> Image:
    return link(_native_ir, [SIGNATURE], pyobjects.api_addresses(SIGNATURE_API))


def _unknown(*_: Any, **__: Any) -> None:
    return None
