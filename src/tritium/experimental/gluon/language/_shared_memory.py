"""Shared memory: allocation, loads, stores and views."""

from __future__ import annotations

from math import prod
from typing import Any

from tritium.experimental.gluon.language._core import checked
from tritium.experimental.gluon.language._descriptor import memory_descriptor
from tritium.experimental.gluon.language._layouts import (
    DistributedLayout,
    NVMMASharedLayout,
    SharedLayout,
)
from tritium.experimental.gluon.language._types import shared_memory_descriptor_type
from tritium.ir import types as ir
from tritium.ir.layouts.shared_linear import reshaped_memory
from tritium.language.builtins import arithmetic, casts
from tritium.language.builtins.build import build, emit
from tritium.language.builtins.creation import check_dtype, check_shape
from tritium.language.decorators import builtin
from tritium.language.values.tensor import tensor
from tritium.language.values.types import int32
from tritium.ops import ttgir
from tritium.ops.ttir import AtomicKind


def _atomic_scatter(kind: str, about: str) -> Any:
    """A method of shared memory that combines it atomically with values."""

    def method(
        self: shared_memory_descriptor, values: Any, indices: Any, axis: int, mask: Any = None
    ) -> tensor:
        return self.combine(AtomicKind[kind.upper()], values, indices, axis, mask)

    method.__name__ = f"atomic_scatter_{kind}"
    method.__doc__ = f"""{about}, written atomically at positions along an axis, where the mask is
        true. Values, indices and mask broadcast. Returns what the memory held."""
    return builtin(method)


class shared_memory_descriptor(memory_descriptor):
    """A piece of shared memory; `numel` is its number of elements."""

    TYPE = shared_memory_descriptor_type

    @property
    def numel(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def nbytes_per_cta(self) -> int:
        """The bytes that each thread block has."""
        return self.type.nbytes_per_cta

    @builtin
    def load(self, layout: Any) -> tensor:
        """The contents as a block in the layout."""
        if not isinstance(layout, DistributedLayout):
            raise TypeError(f"load: layout is {layout!r}; a DistributedLayout is required")
        type = checked(layout, self.shape, self.dtype)
        return build(
            ttgir.LocalLoadOp, self, None, like=self.dtype, result=type.to_ir()  # pyright: ignore
        )

    @builtin
    def store(self, value: Any) -> None:
        """Write a block of the same shape and dtype."""
        emit(ttgir.LocalStoreOp, self._to_store(value), self)  # pyright: ignore[reportArgumentType]

    @builtin
    def slice(self, start: int, length: int, dim: int = 0) -> shared_memory_descriptor:
        """The `length` elements from `start` on along the axis `dim`."""
        for name, value in (("start", start), ("length", length), ("dim", dim)):
            if not isinstance(value, int):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise TypeError(f"slice: {name} is {value!r}; a compile-time int is required")
        if not -self.rank <= dim < self.rank:
            raise ValueError(f"slice: dim is {dim}; the memory has axes 0 to {self.rank - 1}")
        offsets, shape = [0] * self.rank, list(self.shape)
        offsets[dim], shape[dim] = start, length
        memory: Any = self.handle.type
        check_shape(shape[-memory.encoding.rank :])  # of buffers there is any number
        result = ttgir.memdesc_of(
            tuple(shape), memory.element_type, memory.encoding, memory.mutable,
            memory.allocation_shape(), memory.memory_space,
        )  # fmt: skip
        return self._view(ttgir.MemDescSubsliceOp, offsets=tuple(offsets), result=result)

    @builtin
    def index(self, index: Any) -> shared_memory_descriptor:
        """One of the pieces along the first axis, which the result does not have."""
        (at,) = [casts.to_tensor(index)]
        if at.type != int32:
            raise TypeError(f"index is {at.type}; an int32 scalar is required")
        return self._view(ttgir.MemDescIndexOp, at)

    @builtin
    def permute(self, order: Any) -> shared_memory_descriptor:
        """The same memory with its axes in another order: axis i is axis `order[i]`."""
        return self._view(ttgir.MemDescTransOp, order=tuple(order))

    @builtin
    def reshape(self, shape: Any) -> shared_memory_descriptor:
        """The same memory with another shape, elements in row-major order."""
        memory: Any = self.handle.type
        encoding = reshaped_memory(memory.encoding, memory.get_shape(), check_shape(shape))
        result = ttgir.memdesc_of(
            check_shape(shape), memory.element_type, encoding, memory.mutable,
            space=memory.memory_space,
        )  # fmt: skip
        return self._view(ttgir.MemDescReshapeOp, result=result)

    @builtin
    def reinterpret(
        self, dtype: Any = None, shape: Any = None, layout: Any = None
    ) -> shared_memory_descriptor:
        """The same bytes as memory of another dtype, shape or layout."""
        element = self.dtype if dtype is None else check_dtype("reinterpret", dtype)
        extents = self.shape if shape is None else shape
        type = shared_memory_descriptor_type(element, extents, layout or self.layout)
        _check_rows(type)
        (handle,) = emit(ttgir.MemDescReinterpretOp, self, result=type.to_ir())  # pyright: ignore
        return shared_memory_descriptor(handle, element)

    @builtin
    def gather(self, indices: Any, axis: int) -> tensor:
        """The elements at positions along an axis: `self[indices[i, j], j]` for axis 0."""
        at = casts.to_tensor(indices)
        return build(
            ttgir.LocalGatherOp, self, at, like=self.dtype, axis=axis  # pyright: ignore
        )

    @builtin
    def scatter(self, values: Any, indices: Any, axis: int) -> None:
        """Write elements at positions along an axis; values and indices broadcast."""
        at, elements, _ = self._indexed(values, indices)
        emit(ttgir.LocalScatterOp, self, at, elements, axis=axis)  # pyright: ignore

    def _indexed(
        self, values: Any, indices: Any, mask: Any = None
    ) -> tuple[tensor, tensor, tensor | None]:
        """Indices, values and mask of one shape. Raises `TypeError` for values of other dtypes."""
        elements, at = arithmetic.broadcast_values(
            casts.to_tensor(values), casts.to_tensor(indices)
        )
        if elements.dtype != self.dtype:
            raise TypeError(f"values are {elements.dtype}; the memory's are {self.dtype}")
        if mask is None:
            return at, elements, None
        at, chosen = arithmetic.broadcast_values(at, casts.to_tensor(mask))
        return at, arithmetic.broadcast_like(elements, at.type), chosen

    def combine(self, kind: AtomicKind, values: Any, indices: Any, axis: int, mask: Any) -> tensor:
        """Combine values atomically with elements at indices along an axis; returns what these
        were. Raises `TypeError` for operations that the dtype does not have."""
        at, elements, chosen = self._indexed(values, indices, mask)
        floats = self.dtype.is_floating()
        if floats and kind not in (AtomicKind.ADD, AtomicKind.XCHG):
            raise TypeError(f"atomic {kind.name.lower()} of {self.dtype}; integers are required")
        name = f"F{kind.name}" if floats else f"U{kind.name}" * self.dtype.is_int_unsigned()
        kind = AtomicKind.__members__.get(name, kind)
        return build(
            ttgir.LocalAtomicScatterRMWOp, self, at, elements, chosen, like=self.dtype,  # pyright: ignore
            axis=axis, atomic_rmw_op=kind,
        )  # fmt: skip

    atomic_scatter_add = _atomic_scatter("add", "The sum of memory and value")
    atomic_scatter_max = _atomic_scatter("max", "The larger of memory and value, integers")
    atomic_scatter_min = _atomic_scatter("min", "The smaller of memory and value, integers")
    atomic_scatter_and = _atomic_scatter("and", "Bitwise and of memory and value, integers")
    atomic_scatter_or = _atomic_scatter("or", "Bitwise or of memory and value, integers")
    atomic_scatter_xor = _atomic_scatter("xor", "Exclusive or of memory and value, integers")
    atomic_scatter_xchg = _atomic_scatter("xchg", "The value")

    @builtin
    def _reinterpret(self, dtype: Any, shape: Any, layout: Any) -> shared_memory_descriptor:
        """The name of `reinterpret` in release 3.6."""
        return self.reinterpret(dtype, shape, layout)

    @builtin
    def _keep_alive(self) -> None:
        """Ends the life of the memory here, not after its last use."""
        emit(ttgir.LocalDeallocOp, self)  # pyright: ignore[reportArgumentType]


def _check_rows(type: shared_memory_descriptor_type) -> None:
    if isinstance(type.layout, NVMMASharedLayout):
        type.layout.check_memory(type.shape, type.element_ty.primitive_bitwidth)


@builtin
def allocate_shared_memory(
    element_ty: Any, shape: Any, layout: Any, value: Any = None
) -> shared_memory_descriptor:
    """Shared memory for elements of the dtype, filled with the block `value` if one is given."""
    element = check_dtype("allocate_shared_memory", element_ty)
    if not isinstance(layout, SharedLayout):
        raise TypeError(f"allocate_shared_memory: layout is {layout!r}; a SharedLayout is required")
    type = shared_memory_descriptor_type(element, shape, layout)
    _check_rows(type)
    source = None if value is None else casts.to_tensor(value)
    if source is not None and ir.element_type(source.handle.type) != element.to_ir():
        raise TypeError(f"allocate_shared_memory of {element} for {source.type}")
    (handle,) = emit(ttgir.LocalAllocOp, source, result=type.to_ir())
    return shared_memory_descriptor(handle, element)
