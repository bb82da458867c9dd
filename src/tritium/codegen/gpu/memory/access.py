"""Loads and stores through pointers: vectors of up to 16 bytes, masks, cache modifiers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, TypeAlias, TypeVar

from xdsl.ir import SSAValue

from tritium.codegen.gpu.context import Context, layout_of
from tritium.codegen.gpu.hardware import Caching
from tritium.codegen.gpu.types import GPU, memory_type, value_type
from tritium.codegen.llvm.types import memory_bytes
from tritium.codegen.llvm.writer import Value
from tritium.codegen.registry import lowers
from tritium.ir import types as ir
from tritium.ir.layouts.encodings import REGISTER
from tritium.ir.layouts.linear import LinearLayout
from tritium.ops import ttir

_T = TypeVar("_T")
MAX_BYTES = 16

Facts: TypeAlias = Callable[[SSAValue], Any]
"""Alignment, contiguity and constancy by value, as `Context` has them."""


@dataclass(frozen=True)
class Access:
    """The accesses of a thread to its elements of a tile of pointers.

    Attributes:
        groups: register numbers accessed together, neighbours in memory in this order.
        owner: the condition under which this thread, of those with copies, is to write.
    """

    groups: tuple[tuple[int, ...], ...]
    owner: Value | None


def runs(type: Any, limit: int) -> list[tuple[int, list[int]]]:
    """For each axis the register bits of its run of at most `limit` neighbours that a thread holds,
    1, 2, 4, ... further along it. A run begins at a multiple of its length: no other bit of the
    layout moves within it. The axis that the layout calls the fastest comes first."""
    layout, rank = layout_of(type), len(ir.shape_of(type))
    bases = layout.bases(REGISTER)
    last_first = tuple(reversed(range(rank)))
    order = type.encoding.get("order") if "order" in type.encoding.KEYS else last_first
    found: list[tuple[int, list[int]]] = []
    for axis in order:
        steps = (tuple(1 << i if a == axis else 0 for a in range(rank)) for i in range(len(bases)))
        bits = [bases.index(step) for step in takewhile(bases.__contains__, steps)]
        bits = bits[: limit.bit_length() - 1]
        while bits and _moves_within(layout, axis, bits):
            bits.pop()
        found.append((axis, bits))
    return sorted(found, key=lambda run: not run[1])  # stable: those without neighbours last


def _moves_within(layout: LinearLayout, axis: int, bits: Sequence[int]) -> bool:
    """True if bits of the layout other than these of the register move within runs of them."""
    return any(
        basis[axis] & (1 << len(bits)) - 1
        for name in layout.in_names
        for bit, basis in enumerate(layout.bases(name))
        if name != REGISTER or bit not in bits
    )


def grouped(registers: Sequence[int], bits: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """The registers in groups that differ in `bits`, each in the order of these bits."""
    mask = sum(1 << b for b in bits)
    inner = [sum(1 << b for j, b in enumerate(bits) if i >> j & 1) for i in range(1 << len(bits))]
    return tuple(tuple(r | i for i in inner) for r in registers if not r & mask)


def distinct_registers(layout: LinearLayout) -> list[int]:
    """The registers without those that hold copies of others."""
    free = layout.free_variables().get(REGISTER, 0)
    return [r for r in range(layout.in_size(REGISTER)) if not r & free]


def with_copies(layout: LinearLayout, found: Mapping[int, _T]) -> list[_T]:
    """The values of all registers, from those of `distinct_registers`. A redundant bit may repeat
    others: with the bases 4, 16, 16 the third bit alone stands for the same as the second, and both
    together for the same as none."""
    elements = [0]
    for column in layout.columns_of(REGISTER):
        elements += [element ^ column for element in elements]
    held = {elements[register]: value for register, value in found.items()}
    return [held[element] for element in elements]


def plan(c: Context, pointer: SSAValue, mask: SSAValue | None) -> Access:
    """The accesses for a tile of pointers, or, by the first thread alone, for one pointer."""
    if not ir.shape_of(pointer.type):
        return Access(((0,),), c.first)
    groups = register_groups(c.axis_info, c.address_info, pointer, mask)
    return Access(groups, c.owner(layout_of(pointer.type), of_program=True))


def register_groups(
    axis_info: Facts, address_info: Facts, pointer: SSAValue, mask: SSAValue | None, least: int = 1
) -> tuple[tuple[int, ...], ...]:
    """The registers of a tile of pointers that are accessed together: as wide as the layout, the
    addresses' contiguity and alignment and the mask allow (see `Context` for the facts). `least`:
    contiguity along the fastest axis that is known otherwise."""
    type: Any = pointer.type
    pointee: Any = ir.element_type(type)
    size = memory_bytes(pointee.pointee)
    best: list[int] = []
    for axis, bits in runs(type, MAX_BYTES // size):
        width = 1 << len(bits)
        if width > 1:
            width = min(width, max(least, _contiguous(address_info(pointer), axis, size, width)))
            if mask is not None and least < width:
                width = min(width, axis_info(mask).constancy[axis])
        if width > 1 << len(best):
            best = bits[: width.bit_length() - 1]
        least = 1
    return grouped(distinct_registers(layout_of(type)), best)


def _contiguous(info: Any, axis: int, size: int, width: int) -> int:
    """The largest number of neighbours, at most `width`, that one aligned access covers."""
    while width > 1:
        aligned = info.divisibility[axis] % (width * size) == 0
        if info.contiguity[axis] >= width and aligned:
            return width
        width //= 2
    return 1


def to_memory(c: Context, value: Value) -> Value:
    """The value as it is in memory: i1 as a byte."""
    return c.f.cast("zext", value, "i8") if value.type == "i1" else value


def from_memory(c: Context, value: Value, type: ir.Type) -> Value:
    """A value from memory as it is in registers."""
    held = value_type(type)
    return c.f.cast("trunc", value, held) if held == "i1" else value


@lowers(GPU, ttir.LoadOp)
def load(c: Context, op: ttir.LoadOp) -> None:
    if isinstance(ir.element_type(op.ptr.type).pointee, ir.TensorType):  # pyright: ignore
        raise c.unsupported(op, "block pointers")
    type: Any = op.results[0].type
    pointers = c.tile(op.ptr)
    masks = None if op.mask is None else c.tile(op.mask)
    others = None if op.other is None else c.tile(op.other)
    access = plan(c, op.ptr, op.mask)
    results: dict[int, Value] = {}
    element = memory_type(type)
    caching = Caching(op.cache, op.evict, bool(op.isVolatile), op.hints)
    for group in access.groups:
        loaded = c.hardware.memory.load(
            c, pointers[group[0]], element, len(group),
            None if masks is None else masks[group[0]],
            None if others is None else [to_memory(c, others[r]) for r in group], caching,
        )  # fmt: skip
        held = [from_memory(c, v, type) for v in loaded]
        results.update(zip(group, held, strict=True))
    if ir.shape_of(type):
        c.set(op.results[0], with_copies(layout_of(type), results))
    else:
        c.set(op.results[0], results[0])


@lowers(GPU, ttir.StoreOp)
def store(c: Context, op: ttir.StoreOp) -> None:
    if isinstance(ir.element_type(op.ptr.type).pointee, ir.TensorType):  # pyright: ignore
        raise c.unsupported(op, "block pointers")
    pointers, values = c.tile(op.ptr), c.tile(op.value)
    masks = None if op.mask is None else c.tile(op.mask)
    access = plan(c, op.ptr, op.mask)
    caching = Caching(op.cache, op.evict, hints=op.hints)
    for group in access.groups:
        parts = [to_memory(c, values[r]) for r in group]
        condition = access.owner
        if masks is not None:
            mask = masks[group[0]]
            condition = mask if condition is None else c.f.op("and", mask, condition)
        c.hardware.memory.store(c, pointers[group[0]], parts, condition, caching)
