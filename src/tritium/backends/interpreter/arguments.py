"""Kernel arguments as an interpreted kernel sees them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tritium.ir.types import numpy_dtype
from tritium.language import core
from tritium.language.builtins import descriptors
from tritium.language.emitter import Evaluated
from tritium.language.values.base import base_type, base_value, class_of
from tritium.language.values.tensor import tensor
from tritium.language.values.types import dtype, pointer_type, str_to_ty
from tritium.launch.scalars import SCALARS, extract_scalar
from tritium.launch.signature import canonical_dtype, int_type
from tritium.ops.memory import EvaluationError, Memory
from tritium.sanitize.extents import UNKNOWN, memory_of
from tritium.sanitize.extents import Memory as Extent


@dataclass(frozen=True)
class Range:
    """The memory behind an argument."""

    name: str
    start: int
    size: int
    description: str
    writable: bool = True


class ArgumentMemory(Memory):
    """Memory that may be accessed only where the arguments lie; an error names the nearest."""

    def __init__(self, arguments: Iterable[Range]):
        self.arguments = [a for a in arguments if a.size]
        self._read_only = [a for a in self.arguments if not a.writable]
        super().__init__([(a.start, a.size) for a in self.arguments])

    def store(self, addresses: np.ndarray, value: np.ndarray, mask: np.ndarray | None) -> None:
        if self._read_only:
            self._check_writable(addresses[self._active(addresses, mask)], value.dtype.itemsize)
        super().store(addresses, value, mask)

    def _check_writable(self, active: np.ndarray, size: int) -> None:
        for range in self._read_only:
            inside = (active >= range.start) & (active < range.start + range.size)
            # An array that may be written may share the memory.
            if not all(self._inside(int(a), size, writable=True) for a in active[inside]):
                raise EvaluationError(
                    f"argument '{range.name}' is read-only and the kernel writes to it; "
                    "pass a writable array"
                )

    def _check(self, active: np.ndarray, size: int) -> None:
        try:
            super()._check(active, size)
        except EvaluationError:
            raise EvaluationError(self._explain(active, size)) from None

    def _explain(self, active: np.ndarray, size: int) -> str:
        wild = next(int(a) for a in active if not self._inside(int(a), size))
        text = f"out-of-bounds access of {size} bytes at {wild:#x}"
        if not self.arguments:
            return f"{text}: the kernel has no pointer arguments"
        near = min(self.arguments, key=lambda r: self._distance(r, wild))
        if wild < near.start:
            where = f"{near.start - wild} bytes before the start"
        else:
            where = f"{wild + size - near.start - near.size} bytes beyond the end"
        return (
            f"{text}: {where} of argument '{near.name}' ({near.description}, memory "
            f"{near.start:#x} to {near.start + near.size:#x})"
        )

    def _inside(self, address: int, size: int, writable: bool = False) -> bool:
        return any(
            r.start <= address and address + size <= r.start + r.size
            for r in self.arguments if r.writable or not writable
        )  # fmt: skip

    @staticmethod
    def _distance(range: Range, address: int) -> int:
        return max(range.start - address, address - range.start - range.size, 0)


class Arguments:
    """Converts the arguments of one launch, and copies device memory there and back."""

    def __init__(self) -> None:
        self.ranges: list[Range] = []
        self.unknown_memory = False
        self.pointers: list[tuple[str, Extent, int, Any]] = []
        """Name, extent, bytes of an element and handle of each pointer, for the sanitizer."""
        self._copies: dict[int, tuple[Any, Any]] = {}
        self._keep: list[Any] = []

    def memory(self) -> Memory:
        """The memory that the arguments give access to."""
        return Memory() if self.unknown_memory else ArgumentMemory(self.ranges)

    def convert(
        self, name: str, value: Any, type_name: str = "", const: bool = False, index: int = 0
    ) -> Any:
        """An argument as the kernel sees it: arrays as pointers, numbers as scalar tensors.

        Args:
            name: the parameter, for messages.
            type_name: the dtype that an annotation fixes ("i8", "fp32"), or "".
            const: whether the kernel only reads through the pointer.
            index: the parameter's position, for messages.

        Raises `TypeError` for what a kernel cannot take, `OverflowError` for an integer that the
        parameter's type cannot hold.
        """
        if value is None or isinstance(value, (base_value, base_type, str)):
            return value
        if _is(value, np.generic):
            value = value.item()
        if _is(value, (bool, int, float)):
            return self._scalar(name, value, type_name, index)
        if _is(value, tuple):
            members = [
                self.convert(f"{name}[{i}]", v, type_name, const, index)
                for i, v in enumerate(value)
            ]
            fields = getattr(value, "_fields", None)
            # A named tuple keeps its class.
            kind = class_of(value)
            return core.tuple(members if fields is None else kind(*members))
        if hasattr(value, "block_shape") and hasattr(value, "base"):
            return self._descriptor(name, value)
        if _is(value, np.ndarray):
            return self._array(name, value, const)
        if hasattr(value, "data_ptr") and hasattr(value, "dtype"):
            return self._tensor(name, value, const)
        if callable(value):
            return value
        return self._array(name, self._exported(name, value), const)

    @staticmethod
    def _scalar(name: str, value: Any, type_name: str, index: int) -> tensor:
        # In a signature every Python float is an fp32.
        found = type_name or ("fp32" if _is(value, float) else "u1")
        if not type_name and not _is(value, (float, bool)):
            try:
                found = int_type(value)
            except OverflowError as error:
                raise OverflowError(f"argument '{name}': {error}") from None
        type = str_to_ty(found)
        assert isinstance(type, dtype)
        ir_type = type.to_ir()
        storage = np.dtype(numpy_dtype(ir_type))
        if found not in SCALARS:  # an 8-bit float
            return tensor(Evaluated(ir_type, storage.type(value)), type)
        slot = extract_scalar(value, index, name, found).to_bytes(8, "little")
        return tensor(Evaluated(ir_type, np.frombuffer(slot, storage, 1)[0]), type)

    def _pointer(
        self, address: int, element: dtype, const: bool, name: str = "", extent: Extent = UNKNOWN
    ) -> tensor:
        type = pointer_type(element, const=const)
        handle = Evaluated(type.to_ir(), np.uint64(address))
        if extent is not UNKNOWN:
            size = numpy_dtype(element.to_ir()).itemsize
            self.pointers.append((name, extent, size, handle))
        return tensor(handle, type)

    def _array(self, name: str, array: Any, const: bool) -> tensor:
        element = _element(name, array.dtype)
        if not array.dtype.isnative:
            raise TypeError(
                f"argument '{name}' is not in this machine's byte order (dtype {array.dtype})"
            )
        owner: Any = array
        while _is(owner.base, np.ndarray):
            owner = owner.base
        low, high = _byte_bounds(owner)
        text = f"{array.dtype}{list(array.shape)}"
        self.ranges.append(Range(name, low, high - low, text, array.flags.writeable))
        address = array.__array_interface__["data"][0]
        extent = memory_of(array)._replace(begin=low, end=high)
        return self._pointer(address, element, const, name, extent)

    def _tensor(self, name: str, value: Any, const: bool) -> tensor:
        """A torch tensor, or anything else that has `data_ptr` and `dtype`."""
        kind: Any = value.dtype
        element = kind if isinstance(kind, dtype) else _element(name, kind)
        source: Any = getattr(value, "base", None) if isinstance(kind, dtype) else value
        if not hasattr(source, "untyped_storage"):
            self.unknown_memory = True
            return self._pointer(value.data_ptr(), element, const)
        try:
            storage, address = source.untyped_storage(), value.data_ptr()
        except (NotImplementedError, RuntimeError) as error:
            raise TypeError(
                f"argument '{name}' is a tensor without memory of its own: {error}"
            ) from error
        if source.device.type == "meta":
            raise ValueError(f"argument '{name}' has no elements: it is on the device meta")
        try:
            offset = address - storage.data_ptr()
        except RuntimeError:  # a subclass that says itself where its memory is
            self.unknown_memory = True
            return self._pointer(address, element, const)
        if source.device.type != "cpu":
            storage = self._copied(storage)
        start, size = storage.data_ptr(), storage.nbytes()
        self.ranges.append(Range(name, start, size, f"{kind}{list(source.shape)}"))
        # The address of the copy, where the memory is a device's.
        extent = memory_of(source)._replace(begin=start, end=start + size, first=start + offset)
        return self._pointer(start + offset, element, const, name, extent)

    def _copied(self, storage: Any) -> Any:
        """A copy in main memory of a device's memory; the same one for arguments that share it."""
        key = storage.data_ptr()
        if key not in self._copies:
            self._copies[key] = (storage, storage.cpu())
        return self._copies[key][1]

    def write_back(self) -> None:
        """Copy what the kernel wrote to the devices' memory."""
        for original, copy in self._copies.values():
            original.copy_(copy)

    def _exported(self, name: str, value: Any) -> np.ndarray:
        """The memory of an object with an array interface, DLPack or the buffer protocol."""
        try:
            if hasattr(value, "__array_interface__"):
                array = np.asarray(value)
            elif hasattr(value, "__dlpack__"):
                array = np.from_dlpack(value)
            else:
                array = np.asarray(memoryview(value))
        except (TypeError, BufferError, ValueError) as error:
            raise TypeError(
                f"argument '{name}' has type {type(value).__name__}; a kernel takes tensors, "
                "numbers, None, tuples of these, and compile-time values"
            ) from error
        self._keep.append(array)
        return array

    def _descriptor(self, name: str, value: Any) -> Any:
        """A descriptor made on the host. The emitter must be active."""
        base = self.convert(f"{name}.base", value.base)
        if hasattr(value, "of_pointer"):
            return value.of_pointer(base)
        padding = getattr(value, "padding", "zero")
        found = descriptors.make(
            base, list(value.shape), list(value.strides), list(value.block_shape), padding,
            on_host=True,
        )  # fmt: skip
        return value.of_kernel(found) if hasattr(value, "of_kernel") else found


def _element(name: str, kind: Any) -> dtype:
    """The dtype of the language for one of NumPy or torch."""
    try:
        type = str_to_ty(canonical_dtype(kind))
    except TypeError as error:
        raise TypeError(f"argument '{name}': {error}") from None
    assert isinstance(type, dtype)
    return type


def _is(value: object, classes: Any) -> bool:
    """`isinstance` without narrowing, which would make every member's type unknown."""
    return isinstance(value, classes)


def _byte_bounds(array: np.ndarray) -> tuple[int, int]:
    """The addresses of the first byte of an array and of the byte after its last."""
    start = array.__array_interface__["data"][0]
    if not array.size:
        return start, start
    spans = [(n - 1) * s for n, s in zip(array.shape, array.strides, strict=True)]
    low = start + sum(s for s in spans if s < 0)
    return low, start + sum(s for s in spans if s > 0) + array.itemsize
