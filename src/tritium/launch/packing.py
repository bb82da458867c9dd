"""The parameters of a kernel on a GPU, and numbers as their bytes."""

from __future__ import annotations

import ctypes
import operator
import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, SupportsIndex

import ml_dtypes
import numpy as np

from tritium.launch.scalars import type_is_bool

_FORMATS = {
    "i8": "b", "u8": "B", "i16": "h", "u16": "H", "i32": "i", "u32": "I",
    "i64": "q", "u64": "Q", "fp16": "e", "fp32": "f", "fp64": "d",
}  # fmt: skip
_IR_NAMES = {"f16": "fp16", "f32": "fp32", "f64": "fp64"}

Pack = Callable[[Any, int, Any], None]
"""Writes a number: (buffer, offset, number). Raises `struct.error`, `OverflowError` or
`ValueError` for one that does not fit."""


class Parameters(NamedTuple):
    """Arguments of a launch: for each the name and the type, None for one that the kernel does not
    take. Where some are tuples, `leaves` are listed, and `types` are those of the signature; it is
    empty elsewhere."""

    kinds: list[tuple[str, str] | None]
    types: list[Any]


def parameters(src: Any, metadata: Any) -> Parameters:
    """The arguments of a source's kernel."""
    if hasattr(src, "fn"):
        signature: Any = src.signature
    else:  # a file of IR: the types of the kernel's own parameters
        signature = {f"arg{i}": t for i, t in enumerate(_of_kernel(metadata))}
    constants = getattr(src, "constants", {})
    found: list[tuple[str, str] | None] = []

    def add(name: str, kind: Any, path: tuple[int, ...]) -> None:
        if isinstance(kind, (tuple, list)):
            members: list[Any] = list(kind)  # pyright: ignore[reportUnknownArgumentType]
            for i, member in enumerate(members):
                add(f"{name}[{i}]", member, (*path, i))
        elif kind == "constexpr" or path in constants:
            found.append(None)
        else:
            found.append((name, _IR_NAMES.get(kind) or str(kind)))

    for i, (name, kind) in enumerate(signature.items()):
        add(name, kind, (i,))
    types: list[Any] = list(signature.values())
    return Parameters(found, types if any(isinstance(t, (tuple, list)) for t in types) else [])


def _of_kernel(metadata: Any) -> list[str]:
    """The arguments that stand for a kernel's parameters: a descriptor's shape and strides, which
    follow it, come from the descriptor."""
    kinds, maps = iter(metadata.kernel_signature), filter(None, metadata.tensordesc_meta)
    found: list[str] = []
    for kind in kinds:
        found.append(kind)
        if kind == "tensordesc":
            for _ in range(2 * next(maps)["rank"]):
                next(kinds)
    return found


def rank_of(kind: str) -> int:
    """The rank of a descriptor, from its type in a signature: `tensordesc<fp16[64, 64],...>`."""
    return kind.partition("]")[0].count(",") + 1


def leaves(values: Sequence[Any], types: Sequence[Any]) -> list[Any]:
    """The values, those whose type is a tuple as their members, in order. A tuple that is a
    constant is one value. If there are more or fewer values than types, they are left as they
    are."""
    if len(values) != len(types):
        return list(values)
    flat: list[Any] = []
    for value, type_ in zip(values, types, strict=True):
        if isinstance(type_, (tuple, list)):
            flat.extend(leaves(value, type_))  # pyright: ignore[reportUnknownArgumentType]
        else:
            flat.append(value)
    return flat


def packer(kind: str, name: str) -> Pack:
    """Writer of a number of a type. Raises `NotImplementedError` for other types."""
    if kind == "bf16":
        return _pack_bf16
    if kind in ("i1", "u1"):
        return _pack_bool
    if kind not in _FORMATS:
        raise NotImplementedError(f"arguments of type {kind!r} ('{name}')")
    return struct.Struct(_FORMATS[kind]).pack_into


def _pack_bool(buffer: Any, offset: int, value: Any) -> None:
    number: Any = bool(value) if type_is_bool(value) else value
    if not isinstance(number, SupportsIndex) or operator.index(number) not in (0, 1):
        raise ValueError("a truth value is required, or 0 or 1")
    struct.pack_into("?", buffer, offset, number)


def _pack_bf16(buffer: Any, offset: int, value: Any) -> None:
    buffer[offset : offset + 2] = np.asarray(value, ml_dtypes.bfloat16).tobytes()


def memory_size(tensor: object) -> int | None:
    """The bytes of all of a tensor's memory, of which it may be a view, or of what is used of it
    (`ptr_range`); None where it does not tell."""
    told = getattr(tensor, "ptr_range", None)
    if told is not None:
        return told()
    storage = getattr(tensor, "untyped_storage", None)
    return None if storage is None else storage().size()


def address_of(
    arg: Any, position: int, accessible: Callable[[int, int], int], kinds: Sequence[int]
) -> int:
    """The device address of a pointer argument: a tensor (`data_ptr()`), an array that has
    `__cuda_array_interface__`, an int, or None.

    Args:
        accessible: the address by which the device sees some memory of the host, at a position.
        kinds: DLPack's numbers of devices whose memory the device accesses.

    Raises: `TypeError` for anything else, `ValueError` for memory that the device cannot access.
    """
    if getattr(arg, "is_cuda", False):  # torch's name of AMD's as well
        address = arg.data_ptr()
        if not address and arg.numel():
            raise ValueError(
                f"Pointer argument (at {position}) is a {type(arg).__name__} of shape "
                f"{list(arg.shape)} whose memory is not there (its data_ptr() is 0)"
            )
        return address
    if arg is None:
        return 0
    interface = getattr(arg, "__cuda_array_interface__", None)
    if interface is not None:
        return interface["data"][0]
    if hasattr(arg, "data_ptr"):
        address = arg.data_ptr()
    elif type(arg) is int:
        return arg
    elif isinstance(arg, np.ndarray):
        address = arg.__array_interface__["data"][0]
    elif hasattr(arg, "__dlpack__"):
        return _from_dlpack(arg, position, kinds)
    else:
        raise TypeError(
            f"Pointer argument (at {position}) doesn't have `data_ptr` method; "
            f"got {type(arg).__name__}"
        )
    return accessible(address, position) if address else 0


def _from_dlpack(arg: Any, position: int, kinds: Sequence[int]) -> int:
    kind, _ = arg.__dlpack_device__()
    if kind not in kinds:
        raise not_on_device(position)
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    capsule = arg.__dlpack__()
    tensor = get(capsule, b"dltensor")
    data = ctypes.c_uint64.from_address(tensor).value
    offset = ctypes.c_uint64.from_address(tensor + 40).value
    return data + offset


def not_on_device(position: int) -> ValueError:
    """The error of a pointer argument in memory that the GPU cannot access, in Triton's words, with
    the ways out."""
    return ValueError(
        f"Pointer argument (at {position}) cannot be accessed from Triton (cpu tensor?): move the "
        "tensor to the GPU, or launch on the CPU (TRITON_DEFAULT_BACKEND=cpu, or "
        "tritium.runtime.driver.set_active_to_cpu())"
    )
