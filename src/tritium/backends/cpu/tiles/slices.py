"""Backward slices of nests: the values that roots depend on and that are not in memory yet."""

from __future__ import annotations

from collections.abc import Container, Iterator
from functools import cached_property
from typing import Any

from xdsl.ir import Block, SSAValue

from tritium.backends.cpu.tiles.alias import base_of
from tritium.backends.cpu.tiles.index_arithmetic import SEVERAL, index_arithmetic
from tritium.backends.cpu.tiles.ir import Nest, TileFunction
from tritium.ops.base import Movement
from tritium.ops.tile.nests import NestOp, is_nest, is_tile, tiles_of


class Slice:
    """Values that a nest computes, where the values `buffers` are in memory.

    `values` has each value once, with the op that defines it. Numbers are given, but not followed
    further. `index_ops` is its index arithmetic.
    """

    def __init__(self, function: TileFunction, nest: Nest, buffers: Container[SSAValue]):
        self.function, self.nest = function, nest
        self.values = list(_computed(nest, buffers))
        values = [v for root in nest.roots for v in tiles_of(root)]
        lane = self._only_lane()
        self.index_ops = list(index_arithmetic(function, values, buffers, lane=lane))

    def _only_lane(self) -> int:
        """The axis along which a nest takes neighbours together; `SEVERAL` if other axes matter
        too: to transpositions, and to the question whether stores meet other accesses."""
        nest, shape = self.nest, self.nest.shape
        if len(nest.domain) < 2 or nest.is_sequential or shape is None or shape.block is not None:
            return SEVERAL
        if nest.stores and (len(nest.roots) > 1 or not shape.in_order(nest) or self.loads):
            return SEVERAL
        return shape.lane

    @cached_property
    def loads(self) -> list[Any]:
        """The loads of tiles, in no order."""
        return [op for value, op in self.values if op.loads_elements and is_tile(value)]

    @cached_property
    def stores(self) -> list[Any]:
        """The stores, in order."""
        return [root for root in self.nest.roots if root.stores_elements]

    @cached_property
    def masks(self) -> list[SSAValue]:
        """The masks of the stores and of the loads that they depend on, each once."""
        accesses = (*self.stores, *(op for _, op in self.values if op.loads_elements))
        return list(dict.fromkeys(a.mask for a in accesses if a.mask is not None))

    @cached_property
    def moved(self) -> set[SSAValue]:
        """The values that are put into another order, or whose results are, before the nest stores
        them."""
        ops = dict(self.values)
        stack = [v for op in ops.values() if op.movement is Movement.REORDERED
                 for v in op.operands]  # fmt: skip
        found: set[SSAValue] = set()
        while stack:
            value = stack.pop()
            if value not in found:
                found.add(value)
                stack.extend(ops[value].operands if value in ops else ())
        return found

    @cached_property
    def overlaps(self) -> list[tuple[Any, Any]]:
        """The pairs (access, later store) through different pointers whose memory may overlap, each
        pair of pointers once; and unless the chunks come in row-major order, each store with
        itself, which may have elements twice."""
        found = dict[tuple[SSAValue, SSAValue], tuple[Any, Any]]()
        bases = {access.ptr: base_of(access.ptr) for access in (*self.loads, *self.stores)}
        shape = self.nest.shape
        in_order = shape is not None and shape.in_order(self.nest)
        for number, store in enumerate(self.stores):
            before = (*self.loads, *self.stores[:number])
            for access in before if in_order else (*before, store):
                first, second = access.ptr, store.ptr
                if first is second or bases[first] is not bases[second]:
                    found.setdefault((first, second), (access, store))
        return list(found.values())


def _computed(nest: Nest, buffers: Container[SSAValue]) -> Iterator[tuple[SSAValue, Any]]:
    copies = nest.copies
    copied, filling = {r for r in copies if r.source}, {r.value for r in copies}
    stack = [v for root in nest.roots if root not in copied for v in tiles_of(root)]
    seen: set[SSAValue] = set()
    while stack:
        value = stack.pop()
        owner: Any = value.owner
        held = value in buffers and value not in filling
        if value in seen or owner.__class__ is Block or held:
            continue
        seen.add(value)
        yield value, owner
        if is_tile(value):
            stack.extend(owner.operands)


def slice_of(function: TileFunction, op: NestOp, buffers: Container[SSAValue]) -> Slice:
    """The slice of a nest, found once for its schedule."""
    properties, known = function.slices.get(op, (None, None))
    if known is None or properties != op.properties:
        nest = Nest.of(op)
        if known is None or known.nest.shape != nest.shape:
            known = Slice(function, nest, buffers)
        known.nest = nest
        function.slices[op] = dict(op.properties), known
    return known


def nests_of(function: TileFunction) -> Iterator[tuple[NestOp, Container[SSAValue]]]:
    """The nests in order, each with the values that are in buffers before it."""
    filled = function.buffers.keys() - function.copied
    for op in function.order:
        if is_nest(op):
            yield op, filled
            filled |= op.kept.keys()


def products_of(function: TileFunction) -> Iterator[tuple[Any, Container[SSAValue]]]:
    """The products in order, each with the values that are in buffers before it."""
    products = function.products
    if products and not function.copied:
        yield from ((op, function.buffers) for op in products)
    elif products:
        rest, filled = iter(products), function.buffers.keys() - function.copied
        following = next(rest)
        for op in function.order:
            if op is following:
                yield op, filled
                following = next(rest, None)
            elif is_nest(op):
                filled |= op.kept.keys()
