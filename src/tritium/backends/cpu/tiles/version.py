"""Give nests versions: faster forms, each behind a test, beside the form that is always right.

before:
    tile.nest [1024] lane 0 width 16 unroll 4 { tt.store %q, %y, %mask }
after:
    tile.nest [1024] lane 0 width 16 unroll 4 versions [linear, apart, unmasked, streaming] {
      tt.store %q, %y, %mask
    }

    linear     index arithmetic does not wrap around (tested: bounds of its scalars)
    apart      accesses are apart in memory, or the same element by element (tested: addresses);
               otherwise they are done one whole after the other
    unmasked   all masks are true (tested: the corners of the tile)
    streaming  stores bypass the caches, where the launch writes more than they hold, and not what
               it has read
    quick      a search for the largest or smallest float does not look for NaN, and is done again,
               exactly, if it finds nothing
    exclusive  no other thread runs a program: atomic operations need no lock
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from math import inf, prod
from typing import Any, ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, SSAValue
from xdsl.utils.exceptions import VerifyException

from tritium.analysis.recursion import resolve
from tritium.backends.cpu.tiles.alias import base_of
from tritium.backends.cpu.tiles.ir import Nest, TileFunction, functions_of
from tritium.backends.cpu.tiles.slices import Slice, nests_of, slice_of
from tritium.codegen.llvm.types import memory_bytes
from tritium.ir import types as ir
from tritium.ops.arith import AndIOp, CmpIOp, MaxNumFOp, MinNumFOp
from tritium.ops.arith.compare import is_signed_compare
from tritium.ops.base import Movement, Op, is_constant, retypes_pointers
from tritium.ops.elementwise import BinaryOp
from tritium.ops.tile.nests import is_tile
from tritium.ops.ttir.atomic import AtomicOp, MemScope
from tritium.ops.ttir.reduction import combining_op, is_reduction
from tritium.ops.ttir.shape import splat_source
from tritium.passes.base import Pass

LINE = 64
"""Bytes of a line of the caches; a store of part of one must not pass its end."""
_LONG = 64
"""Elements from which on a nest is worth versions that differ in masks and stores."""
_SEARCHED = 16
"""Elements for each result from which on a second look at the results is worth it."""
_EXTREMES: dict[type[BinaryOp] | None, tuple[str, float]] = {
    MaxNumFOp: ("ogt", -inf), MinNumFOp: ("olt", inf)
}  # fmt: skip
"""The comparison that finds a larger (smaller) number than the accumulator, and the accumulator's
first value, for ops in which NaN needs no test."""


@dataclass(frozen=True)
class Version(Pass):
    """Set the versions of nests."""

    name: ClassVar[str] = "tile-version"
    keeps_analyses: ClassVar[bool] = True

    def run(self, module: ModuleOp) -> bool:
        waits = may_wait(module)
        for function in functions_of(module):
            static = dict[SSAValue, bool]()
            for op, filled in nests_of(function):
                found = slice_of(function, op, filled)
                op.set_versions(tuple(_versions(found, static, waits)))
        return True


def may_wait(module: ModuleOp) -> bool:
    """True if it is not certain that a kernel ends without another one."""
    ops = (op for function in functions_of(module) for op in function.order)
    return any(isinstance(op, Op) and op.may_wait for op in ops)


def gains(root: object) -> bool:
    """True if a root is faster where no other thread runs programs."""
    if not isinstance(root, AtomicOp) or root.scope is not MemScope.GPU:
        return False
    return root.updates and is_tile(root.ptr)


def _versions(found: Slice, static: dict[SSAValue, bool], waits: bool) -> Iterator[str]:
    nest = found.nest
    narrow = (v for one in found.index_ops for v in one.numbers)
    if not all(resolve(value, _is_static, static) for value in narrow):
        yield "linear"
    if not nest.is_sequential and found.overlaps:
        yield "apart"
    if all(signed_compares(mask) is not None for mask in found.masks):
        if may_be_unmasked(nest) and masks_of(found):
            yield "unmasked"
        lines = is_long(nest) and lines_fit(nest) and _is_consecutive(found)
        if lines and not _needs_alignment(found) and not _is_in_place(found):
            yield "streaming"
    if may_be_quick(nest):
        yield "quick"
    if not waits and any(map(gains, nest.roots)):
        yield "exclusive"


def _is_static(value: SSAValue) -> Generator[SSAValue, bool, bool]:
    """True if the bounds of an integer, or of a tile, are compile-time numbers or unknown."""
    owner: Any = value.owner
    if is_tile(value):
        if owner.__class__ is Block or owner.memory_effects():
            return True
        for operand in owner.operands:
            if not (yield operand):
                return False
        return True
    return is_constant(value)


def is_long(nest: Nest) -> bool:
    """True if a nest is worth versions that differ in masks and in how they store and reduce: one
    of stores, or of a reduction, over one long dimension; the others have one element."""
    if nest.shape is None or prod(nest.domain) < _LONG:
        return False
    if prod(nest.domain) > nest.domain[nest.shape.lane]:
        return False
    if all(root.stores_elements for root in nest.roots):
        return True
    return bool(nest.others) and all(map(is_reduction, nest.others))


def may_be_unmasked(nest: Nest) -> bool:
    """True for a nest that is worth a version without masks: a long one, or one that stores tiles
    of several dimensions, as a masked store of AVX2 takes tens of cycles on a Zen 3."""
    if is_long(nest):
        return True
    several = nest.shape is not None and nest.shape.width > 1 and prod(nest.domain) >= _LONG
    return several and all(root.stores_elements for root in nest.roots)


def may_be_quick(nest: Nest) -> bool:
    """True for a nest of reductions that is worth a version that is quick: one with a search in
    float, along many elements for each result."""
    if nest.shape is None or nest.axis is None or not any(map(extreme_of, nest.others)):
        return False
    long = prod(nest.domain) >= _LONG and nest.domain[nest.axis] >= _SEARCHED
    return long and nest.shape.width > 1 and all(map(is_reduction, nest.others))


def lines_fit(nest: Nest) -> bool:
    """True if a nest stores elements of one size, by chunks that lines of the caches consist of."""
    if nest.shape is None or not all(root.stores_elements for root in nest.roots):
        return False
    sizes = {memory_bytes(root.value.type) for root in nest.roots}
    return len(sizes) == 1 and max(sizes) < nest.shape.width * max(sizes) <= LINE


def masks_of(found: Slice) -> list[SSAValue]:
    """The masks of a nest, and those of other loads that numbers beside a row are replaced by, as
    in `where(i < n, x - mean, 0)`, if they are of indices."""
    masks, others = dict.fromkeys(found.masks), found.function.load_masks
    return found.masks + [
        v for v, _ in found.values if v in others and v not in masks and of_indices(v)
    ]


def of_indices(mask: SSAValue) -> bool:
    """True if a mask compares signed numbers that do not come from memory."""
    stack, seen = [mask], set[SSAValue]()
    while stack:
        value = stack.pop()
        if value not in seen and is_tile(value):
            owner: Any = value.owner
            if isinstance(owner, Block) or owner.memory_effects():
                return False
            stack.extend(owner.operands)
        seen.add(value)
    return signed_compares(mask) is not None


def signed_compares(mask: SSAValue) -> list[CmpIOp] | None:
    """The comparisons of signed numbers that a mask is the conjunction of, repeated along axes,
    beside scalars; None if it is anything else. If what they compare is linear, it is true
    everywhere where it is true at the corners."""
    found, stack = list[CmpIOp](), [mask]
    while stack:
        value = stack.pop()
        owner: Any = value.owner
        if isinstance(owner, AndIOp):
            stack.extend(reversed(owner.operands))
        elif is_signed_compare(owner):
            found.append(owner)
        elif splat_source(value) is not None:
            continue
        elif isinstance(owner, Block) or owner.source_axes() is None:
            return None
        else:
            stack.extend(owner.operands)
    return found


def _is_consecutive(found: Slice) -> bool:
    """True if all stores are to consecutive addresses."""
    size, axes = prod(found.nest.domain), found.function.address_axes
    pointers = (s.ptr.owner.operands[0] if retypes_pointers(s.ptr.owner) else s.ptr
                for s in found.stores)  # fmt: skip
    return all(max(axes.of(pointer).contiguity) >= size for pointer in pointers)


def _is_in_place(found: Slice) -> bool:
    """True if a store is through a pointer that tiles are loaded through: the caches hold what it
    overwrites."""
    return any(base_of(store.ptr) in found.function.read for store in found.stores)


def _needs_alignment(found: Slice) -> bool:
    """True if some value is cheaper where chunks of a tile begin at multiples of the width."""
    shape, function = found.nest.shape, found.function
    assert shape is not None
    for value, op in found.values:
        if not is_tile(value):
            continue
        if op.movement is Movement.REORDERED or op.reshapes:
            return True
        if op.piecewise and ir.element_type(value.type) != ir.i1:
            shape_ = ir.shape_of(value.type)
            long = shape_.index(max(shape_))
            equal = function.axes.of(value).constancy[long]
            run = function.address_axes.of(value).contiguity[long]
            if equal % shape.width == 0 or run % shape.width == 0:
                return True
    return False


def extreme_of(root: Any) -> tuple[str, float] | None:
    """The comparison and the first value of a reduction that looks for the largest or smallest
    float; None for other reductions."""
    if not is_reduction(root) or len(root.regions[0].blocks) != 1:
        return None
    type_ = ir.element_type(root.operands[0].type)
    wide = ir.is_float(type_) and ir.bit_width(type_) in (32, 64)
    if not wide:
        return None
    return _EXTREMES.get(combining_op(root.regions[0].block))


def verify_versions(function: TileFunction, waits: bool) -> None:
    """Raise `VerifyException` for versions that a nest cannot have."""
    for op, filled in nests_of(function):
        found = slice_of(function, op, filled)
        nest = found.nest
        possible = {
            "apart": nest.stores and not nest.is_sequential,
            "unmasked": may_be_unmasked(nest),
            "streaming": is_long(nest) and lines_fit(nest)
            and (not found.masks or "unmasked" in nest.versions),
            "quick": may_be_quick(nest),
            "exclusive": not waits and any(map(gains, nest.roots)),
        }  # fmt: skip
        for name in nest.versions:
            if not possible.get(name, True):
                raise VerifyException(f"tile.nest {list(op.domain)} cannot have a version {name}")
