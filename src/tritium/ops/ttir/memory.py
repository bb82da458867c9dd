"""Loads and stores through pointers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from types import NoneType
from typing import Any

import numpy as np
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition, param_def
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from tritium.errors import OpError
from tritium.ir import types as ir
from tritium.ops import axis_info as facts
from tritium.ops.arith.integer import signed
from tritium.ops.axis_info import AxisInfo
from tritium.ops.base import Op
from tritium.ops.effects import GLOBAL, Effects, opaque, reads, writes
from tritium.ops.elementwise import check_same_shape, describe
from tritium.ops.fields import (
    bool_attr,
    enum_attr,
    i32_array_attr,
    operand,
    optional,
    string_attr,
    variadic,
)
from tritium.ops.memory import Context


class CacheModifier(IntEnum):
    """The caches that a memory access may use (PTX cache operators)."""

    NONE = 1
    CA = 2
    CG = 3
    WB = 4
    CS = 5
    WT = 6
    CV = 7


class EvictionPolicy(IntEnum):
    """The priority with which a cache gives up the line of an access."""

    EVICT_NORMAL = 1
    EVICT_FIRST = 2
    EVICT_LAST = 3


@irdl_attr_definition
class CachePolicyAttr(ParametrizedAttribute):
    """`#tt.cache_policy<cache_modifier = cg, eviction_policy = evict_last>`: both, as release 3.9
    writes them. It is only read."""

    name = "tt.cache_policy"
    cache: StringAttr = param_def()
    evict: StringAttr = param_def()

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        words: list[Attribute] = []
        with parser.in_angle_brackets():
            for place, name in enumerate(("cache_modifier", "eviction_policy")):
                if place:
                    parser.parse_punctuation(",")
                parser.parse_keyword(name)
                parser.parse_punctuation("=")
                words.append(StringAttr(parser.parse_identifier()))
        return words

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(f"cache_modifier = {self.cache.data}, ")
            printer.print_string(f"eviction_policy = {self.evict.data}")


class HintedOp(Op):
    """An access for which a program can say, in the words of one processor, how it treats caches.
    Others ignore the words."""

    hints = string_attr("")


class CachedOp(HintedOp):
    """An access for which a program can say where it is cached, and what makes room for it."""

    cache = enum_attr(CacheModifier, CacheModifier.NONE)
    evict = enum_attr(EvictionPolicy, EvictionPolicy.EVICT_NORMAL)

    @classmethod
    def read_attributes(cls, attributes: dict[str, Attribute]) -> dict[str, Attribute]:
        policy = attributes.get("cachePolicy")
        if not isinstance(policy, CachePolicyAttr):
            return attributes
        read = {name: value for name, value in attributes.items() if name != "cachePolicy"}
        for name, word in (("cache", policy.cache.data), ("evict", policy.evict.data)):
            field = cls.attr_fields[name]
            if field.words is None or word not in field.words:
                raise OpError(f"{cls.name}: {word!r} is no value of {name} in cachePolicy")
            read[name] = field.encode(field.words[word])
        return read


class PaddingOption(IntEnum):
    """The value of elements beyond the bounds of a tensor."""

    PAD_ZERO = 1
    PAD_NAN = 2


@dataclass(frozen=True)
class Tile:
    """A tile of a strided tensor in memory: the value of a block pointer or a descriptor.

    Attributes:
        base: the address of the tensor's first element.
        shape, strides: of the tensor, strides in elements.
        offsets: where the tile starts, in elements along each axis.
        padding: what a descriptor's loads see beyond the bounds.
    """

    base: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offsets: tuple[int, ...] = ()
    padding: PaddingOption = PaddingOption.PAD_ZERO

    def addresses(
        self, block: tuple[int, ...], size: int, checked: Iterable[int]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Addresses of a block of elements of `size` bytes, and which of them lie within the
        bounds of the `checked` axes."""
        grid = np.indices(block, dtype=np.int64)
        inside = np.ones(block, dtype=bool)
        total: Any = np.zeros(block, dtype=np.int64)
        for axis, index in enumerate(grid):
            position = index + self.offsets[axis]
            total += position * self.strides[axis]
            if axis in checked:
                inside &= (position >= 0) & (position < self.shape[axis])
        return np.uint64(self.base) + (total * size).view(np.uint64), inside

    def moved(self, offsets: Iterable[Any]) -> Tile:
        """The tile that starts `offsets` further on."""
        pairs = zip(self.offsets, offsets, strict=True)
        return replace(self, offsets=tuple(have + int(more) for have, more in pairs))

    def at(self, offsets: Iterable[Any]) -> Tile:
        """The tile that starts at `offsets`."""
        return replace(self, offsets=tuple(int(offset) for offset in offsets))


def check_boundary(name: str, ptr: ir.Type, axes: tuple[int, ...]) -> None:
    """Boundary checks must name axes of a block pointer's tile."""
    pointee = ptr.pointee if isinstance(ptr, ir.PointerType) else None
    rank = len(ir.shape_of(pointee)) if pointee is not None else 0
    if any(not 0 <= axis < rank for axis in axes):
        raise OpError(f"{name}: boundary check of axes {tuple(axes)} of {describe(ptr)}")


def check_access(name: str, ptr: ir.Type, mask: ir.Type | None, value: ir.Type | None) -> ir.Type:
    """The type of the elements accessed through `ptr`; mask and value must fit it."""
    element = ir.element_type(ptr)
    if not isinstance(element, ir.PointerType):
        raise OpError(f"{name}: address has type {describe(ptr)}; a pointer is required")
    accessed = ir.with_element(ptr, element.pointee)
    if isinstance(element.pointee, ir.TensorType) and mask is not None:
        raise OpError(f"{name}: a mask cannot be used with the block pointer {describe(ptr)}")
    if value is not None and value != accessed:
        raise OpError(f"{name}: value has type {describe(value)}; {describe(accessed)} is required")
    if mask is not None and mask != ir.with_element(ptr, ir.i1):
        wanted = ir.with_element(ptr, ir.i1)
        raise OpError(f"{name}: mask has type {describe(mask)}; {describe(wanted)} is required")
    return accessed


class AddPtrOp(Op):
    """The address of the element `offset` elements after `ptr`. Block pointers do not add."""

    name = "tt.addptr"
    elementwise = True
    weights = (1, 1)
    widened_operand = "offset"
    memory_operands = ("ptr",)
    syntax = "$ptr, $offset attrs : type(ptr), type(offset)"
    ptr = operand()
    offset = operand()

    @classmethod
    def infer(cls, ptr: ir.Type, offset: ir.Type) -> ir.Type:
        check_same_shape(cls.name, ptr, offset)
        element = ir.element_type(ptr)
        pointee = element.pointee if isinstance(element, ir.PointerType) else None
        if pointee is None or isinstance(pointee, ir.TensorType) or not ir.is_integer(offset):
            raise OpError(
                f"{cls.name}: operands have types {describe(ptr, offset)}; "
                "a pointer and an integer are required"
            )
        return ptr

    def evaluate(self, context: Context, ptr: Any, offset: Any) -> Any:
        size = np.int64(ir.pointee_bytes(self.result_types[0]))
        step = signed(offset).astype(np.int64) * size
        return np.asarray(ptr) + step.view(np.uint64)

    def axis_info(self, operands: Sequence[AxisInfo]) -> AxisInfo:
        pointer, offset = operands
        size = ir.pointee_bytes(self.results[0].type)
        return facts.add(pointer, facts.scale(offset, size))._replace(known=None)


class ElementAccess(CachedOp):
    """A load or store of the elements at `ptr`, or of the tile of a block pointer."""

    ptr: Any
    mask: Any
    value: Any
    """The value that a store writes; only stores have it."""
    other: Any
    isVolatile: bool
    """True if a load is volatile; only loads have it, and `other`."""

    @property
    def is_load(self) -> bool:
        """True if it is a load."""
        return self.loads_elements


class LoadOp(ElementAccess):
    """The elements at the addresses; where the mask is false, `other` (or an undefined value)
    without touching memory."""

    name = "tt.load"
    builders = (
        "create_tensor_pointer_load ptr@tile boundaryCheck padding cache evict isVolatile",
        "create_load ptr cache evict isVolatile",
        "create_masked_load ptr mask other cache evict isVolatile",
    )
    loads_elements = True
    cost = 12
    effects = (reads(GLOBAL, "ptr"),)
    syntax = (
        "$ptr [, $mask] [, $other] [cacheModifier = $cache] [evictionPolicy = $evict] attrs "
        ": type(ptr)"
    )
    ptr = operand()
    mask = optional()
    other = optional()
    boundaryCheck = i32_array_attr(())
    padding = enum_attr(PaddingOption, None)
    isVolatile = bool_attr(False)

    @classmethod
    def infer(
        cls, ptr: ir.Type, mask: ir.Type | None, other: ir.Type | None, **attrs: Any
    ) -> ir.Type:
        if other is not None and mask is None:
            raise OpError("tt.load: `other` cannot be provided without `mask`")
        accessed = check_access(cls.name, ptr, mask, other)
        check_boundary(cls.name, ptr, attrs["boundaryCheck"])
        if attrs["padding"] is PaddingOption.PAD_NAN and ir.is_integer(accessed):
            raise OpError(
                f"{cls.name}: padding of {describe(accessed)}; `nan` is not supported for integer "
                "block pointers"
            )
        return accessed

    def own_effects(self) -> Effects:
        return (*self.effects, opaque(GLOBAL)) if self.isVolatile else self.effects

    def evaluate(self, context: Context, ptr: Any, mask: Any, other: Any) -> Any:
        type = self.result_types[0]
        dtype = ir.numpy_dtype(type)
        if isinstance(ptr, Tile):
            ptr, mask = ptr.addresses(ir.shape_of(type), dtype.itemsize, self.boundaryCheck)
            if self.padding is PaddingOption.PAD_NAN:
                other = np.full(ir.shape_of(type), np.nan, dtype)
        loaded = context.memory.load(ptr, dtype, mask)
        return loaded if other is None else np.where(mask, loaded, other)

    def axis_info(self, operands: Sequence[AxisInfo]) -> AxisInfo:
        return facts.uniform(self.results[0].type, operands)  # equal addresses hold equal elements


class StoreOp(ElementAccess):
    """Write the elements for which the mask is true (or absent)."""

    name = "tt.store"
    builders = (
        "create_tensor_pointer_store ptr@tile value boundaryCheck cache evict",
        "create_store ptr value cache evict",
        "create_masked_store ptr value mask cache evict",
    )
    stores_elements = True
    effects = (writes(GLOBAL, "ptr"),)
    syntax = (
        "$ptr, $value [, $mask] [cacheModifier = $cache] [evictionPolicy = $evict] attrs "
        ": type(ptr)"
    )
    ptr = operand()
    value = operand()
    mask = optional()
    boundaryCheck = i32_array_attr(())

    @classmethod
    def infer(cls, ptr: ir.Type, value: ir.Type, mask: ir.Type | None, **attrs: Any) -> None:
        check_access(cls.name, ptr, mask, value)
        check_boundary(cls.name, ptr, attrs["boundaryCheck"])

    def evaluate(self, context: Context, ptr: Any, value: Any, mask: Any) -> None:
        if isinstance(ptr, Tile):
            value = np.asarray(value)
            ptr, mask = ptr.addresses(value.shape, value.dtype.itemsize, self.boundaryCheck)
        context.memory.store(ptr, value, mask)


class MakeTensorPtrOp(Op):
    """A block pointer: the tile of `type(result)` at `offsets` in a strided tensor at `base`."""

    name = "tt.make_tensor_ptr"
    builders = ("create_make_block_ptr base shape strides offsets block_shape order",)
    memory_operands = ("base",)
    syntax = (
        "$base, '[' $shape ']', '[' $strides ']', '[' $offsets ']' attrs : pointee(result)"
    )
    short_result = ir.PointerType
    base = operand()
    shape = variadic()
    strides = variadic()
    offsets = variadic()
    order = i32_array_attr()

    @classmethod
    def infer(
        cls,
        base: ir.Type,
        shape: Sequence[ir.Type],
        strides: Sequence[ir.Type],
        offsets: Sequence[ir.Type],
        *,
        order: tuple[int, ...],
        result: ir.Type,
    ) -> ir.Type:
        tile = result.pointee if isinstance(result, ir.PointerType) else None
        pointee = base.pointee if isinstance(base, ir.PointerType) else None
        if not isinstance(tile, ir.TensorType) or isinstance(pointee, (NoneType, ir.TensorType)):
            raise OpError(
                f"{cls.name}: from {describe(base)} to {describe(result)}; from a pointer to a "
                "number to one to a block is required"
            )
        if tile.element_type != pointee:
            raise OpError(f"{cls.name}: {describe(base)} points to no {tile.element_type}")
        rank = len(tile.get_shape())
        lengths = [len(part) for part in (shape, strides, offsets, order)]
        if lengths != [rank] * 4:
            raise OpError(
                f"{cls.name}: {lengths} for a block of {rank} axes; shape, strides, offsets and "
                "order have to have the same length as it"
            )
        if sorted(order) != list(range(rank)):
            raise OpError(
                f"{cls.name}: order {tuple(order)}; Expected a permutation of {tuple(range(rank))}"
            )
        for what, items, wanted in (("shape", shape, ir.i64), ("strides", strides, ir.i64),
                                    ("offsets", offsets, ir.i32)):  # fmt: skip
            if any(t != wanted for t in items):
                raise OpError(f"{cls.name}: {what} ({describe(*items)}); {wanted} is required")
        return result

    def evaluate(
        self,
        context: Context,
        base: Any,
        shape: tuple[Any, ...],
        strides: tuple[Any, ...],
        offsets: tuple[Any, ...],
    ) -> Tile:
        return Tile(
            int(base), tuple(map(int, shape)), tuple(map(int, strides)), tuple(map(int, offsets))
        )


class AdvanceOp(Op):
    """A block pointer moved on by `offsets` elements along each axis."""

    name = "tt.advance"
    memory_operands = ("ptr",)
    syntax = "$ptr, '[' $offsets ']' attrs : pointee(ptr)"
    ptr = operand()
    offsets = variadic()

    @classmethod
    def infer(cls, ptr: ir.Type, offsets: Sequence[ir.Type]) -> ir.Type:
        tile = ptr.pointee if isinstance(ptr, ir.PointerType) else None
        if not isinstance(tile, ir.TensorType):
            raise OpError(f"{cls.name}: operand is {describe(ptr)}; a block pointer is required")
        if len(offsets) != len(tile.get_shape()) or any(t != ir.i32 for t in offsets):
            raise OpError(
                f"{cls.name}: offsets ({describe(*offsets)}); one i32 for each axis is required"
            )
        return ptr

    def evaluate(self, context: Context, ptr: Tile, offsets: tuple[Any, ...]) -> Tile:
        return ptr.moved(offsets)
