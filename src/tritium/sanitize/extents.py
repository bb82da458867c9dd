"""The memory that belongs to an argument of a launch: the whole storage of its tensor, of which a
slice may be another part."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import numpy as np


class Memory(NamedTuple):
    """The extent of an argument's memory, and what reports say about it.

    Attributes:
        begin, end: addresses; all of the address space where the object does not tell.
        first: the address of element 0, which the kernel gets.
        text: "1000 elements of float32", with the shape where there are several axes.
    """

    begin: int
    end: int
    first: int
    text: str


class Pooled(NamedTuple):
    """An allocation of a pool whose memory the search for races watches in every launch, whether or
    not an argument leads there.

    Attributes:
        begin, end: addresses.
        number: of the allocation, never that of an earlier one.
        write_once: each byte may be written once, before it is read.
        shared: other processes may write here: it is not for one to say what was written.
    """

    begin: int
    end: int
    number: int
    write_once: bool
    shared: bool = False


pools: list[Callable[[], list[Pooled]]] = []
"""Functions that give the live allocations of a pool (`experimental.gsan`)."""


def pooled() -> list[Pooled]:
    """The live allocations of all pools."""
    found = [allocation for pool in pools for allocation in pool()]
    shared = [p.begin for p in found if p.shared]
    return [
        p._replace(write_once=False) if any(p.begin <= place < p.end for place in shared) else p
        for p in found
    ]


UNKNOWN = Memory(0, (1 << 63) - 1, 0, "an extent that is not known")


def extent_of(argument: Any) -> tuple[int, int]:
    """The start and the end of an argument's memory: `memory_of` without the words of reports, for
    each launch."""
    torch: Any = sys.modules.get("torch")
    if torch is not None and isinstance(argument, torch.Tensor):
        storage = argument.untyped_storage()
        begin = storage.data_ptr()
        return begin, begin + storage.nbytes()
    if type(argument) is np.ndarray:
        owner = argument
        while type(owner.base) is np.ndarray:
            owner = owner.base
        if owner.base is None and owner.flags.c_contiguous and owner.dtype.kind in _NUMBERS:
            begin = owner.__array_interface__["data"][0]
            return begin, begin + owner.nbytes
    memory = memory_of(argument)
    return memory.begin, memory.end


_NUMBERS = "biufcV"
"""Kinds of dtypes that hold their elements themselves; V: those of ml_dtypes."""


def memory_of(argument: Any) -> Memory:
    """The memory of a NumPy array, a torch tensor, or an object that shows its memory as one."""
    if isinstance(argument, Memory):
        return argument
    torch: Any = sys.modules.get("torch")
    if torch is not None and isinstance(argument, torch.Tensor):
        storage = argument.untyped_storage()
        begin, first = storage.data_ptr(), argument.data_ptr()
        dtype = str(argument.dtype).rpartition(".")[2]
        return Memory(begin, begin + storage.nbytes(), first, _text(argument.shape, dtype))
    base = getattr(argument, "base", None)
    if not isinstance(argument, np.ndarray) and callable(getattr(argument, "data_ptr", None)):
        return UNKNOWN if base is None else memory_of(base)  # a tensor seen with another dtype
    try:
        array = cast(Any, np.asarray(cast(Any, argument)))
    except Exception:  # of whoever implements __array__
        return UNKNOWN
    if array.dtype == object:
        return UNKNOWN
    owner = array
    while isinstance(owner.base, np.ndarray):
        owner = cast(Any, owner.base)
    begin, end = _byte_bounds(owner)
    first = array.__array_interface__["data"][0]
    return Memory(begin, end, first, _text(array.shape, str(array.dtype)))


class Copy(NamedTuple):
    """Memory of a device at an address, and the bytes there."""

    begin: int
    data: np.ndarray[Any, np.dtype[np.uint8]]


def host_copy(argument: Any) -> Copy | None:
    """A copy of the storage of a tensor that is on a device; None for other objects."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not isinstance(argument, torch.Tensor) or argument.device.type == "cpu":
        return None
    storage: Any = argument.untyped_storage()
    held = torch.empty(0, dtype=torch.uint8).set_(storage.cpu())
    return Copy(storage.data_ptr(), held.numpy())


def _byte_bounds(array: Any) -> tuple[int, int]:
    begin = end = array.__array_interface__["data"][0]
    if array.size == 0:
        return begin, begin
    for size, stride in zip(array.shape, array.strides, strict=True):
        reach = (size - 1) * stride
        begin, end = begin + min(reach, 0), end + max(reach, 0)
    return begin, end + array.itemsize


def _text(shape: Any, dtype: str) -> str:
    sizes = tuple(map(int, shape))
    count = 1
    for size in sizes:
        count *= size
    noun = "element" if count == 1 else "elements"
    several = f" (shape {sizes})" if len(sizes) > 1 else ""
    return f"{count} {noun} of {dtype}{several}"
