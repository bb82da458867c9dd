"""Blocks transposed in registers, for accesses whose neighbours lie along another axis than the
nest's lanes.

A nest with a block dimension emits its chunks for `width` positions along that dimension in turn.
The first time one of them asks for a strided access, all the block is read, a vector along the
block dimension for each lane, and transposed; the others find their vectors ready.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from xdsl.ir import Block, SSAValue

from tritium.backends.cpu.lower.context import Context
from tritium.backends.cpu.lower.emitter import Emitter
from tritium.backends.cpu.lower.values import At, Kind, Lanes, Vec, differs_by_lane, result_axes
from tritium.backends.cpu.tiles.ir import Nest
from tritium.codegen.llvm.writer import Function, Value
from tritium.ir import types as ir
from tritium.ops.tile.nests import CopyOp, tiles_of
from tritium.ops.ttir.memory import LoadOp, StoreOp

Dims = tuple[int | None, ...]
"""For each axis of a value the dimension of the nest that it runs along."""


def store_dimension(context: Context, nest: Nest) -> int | None:
    """The dimension along which all stores of a nest are consecutive; None for the last."""
    last = len(nest.domain) - 1
    found: set[int] = set()
    for root in nest.roots:
        if not isinstance(root, StoreOp):
            return None
        contiguity = context.address_info(root.ptr).contiguity
        found.add(max(range(last, -1, -1), key=lambda d: contiguity[d]))
    (dim,) = found if len(found) == 1 else (last,)
    return None if dim == last or nest.domain[dim] < 8 else dim


def block_dimension(context: Context, nest: Nest, lane: int, width: int) -> int | None:
    """A dimension along which reads are consecutive that are not so along the lanes."""
    if nest.axis is not None or width < 4 or len(nest.domain) < 2:
        return None
    for dims, contiguity in _reads(context, nest):
        along = [c for d, c in zip(dims, contiguity, strict=True) if d == lane]
        if not along or along[0] % width == 0:
            continue
        for dim, count in zip(dims, contiguity, strict=True):
            if dim is not None and count % width == 0 and nest.domain[dim] >= width:
                return dim
    return None


def _reads(context: Context, nest: Nest) -> Iterator[tuple[Dims, tuple[int, ...]]]:
    """Loads and reads of buffers: along what they run, and how far they are consecutive."""
    stack: list[tuple[SSAValue, Dims]] = [
        (v, tuple(range(len(nest.domain)))) for root in nest.roots for v in tiles_of(root)
    ]
    seen: set[tuple[SSAValue, Dims]] = set()
    filling = {root.value for root in nest.roots if isinstance(root, CopyOp)}
    while stack:
        value, dims = stack.pop()
        if (value, dims) in seen or len(ir.shape_of(value.type)) != len(dims):
            continue
        seen.add((value, dims))
        owner: Any = value.owner
        if value in context.buffers and value not in filling:
            shape = ir.shape_of(value.type)
            yield dims, (*(1 for _ in shape[:-1]), shape[-1])
        elif isinstance(owner, Block):
            continue
        elif type(owner) is LoadOp:
            yield dims, context.address_info(owner.operands[0]).contiguity
        else:
            stack.extend(_operands(owner, dims))


def _operands(op: Any, dims: Dims) -> Iterator[tuple[SSAValue, Dims]]:
    moves = op.source_axes() is not None
    if not moves and not op.is_elementwise:
        return
    for operand in op.operands:
        if isinstance(operand.type, ir.TensorType):
            axes = result_axes(op) if moves else ()
            yield operand, tuple(None if a is None else dims[a] for a in axes) if moves else dims


def blocked(e: Emitter, key: Any, at: At, read: Callable[[At], Lanes | None]) -> Lanes | None:
    """The elements at `at` from a transposed block, where the nest has a block dimension and
    `read(positions along that)` finds them consecutive; else None."""
    if e.block is None or differs_by_lane(at):
        return None
    lane = next((d for d, i in enumerate(at) if i.kind == Kind.LANES), None)
    axis = next((d for d, i in enumerate(at) if i.kind == Kind.SCALAR and i.value == e.block), None)
    if lane is None or axis is None:
        return None
    first = at[axis]._replace(shift=0)
    start = (*at[:axis], first, *at[axis + 1 :])
    known = e.known(("block", key, start))
    if known is None:
        rows: list[Value] = []
        for number in range(e.width):
            place = list(at)
            place[axis] = first._replace(kind=Kind.LANES)
            place[lane] = at[lane]._replace(kind=Kind.SCALAR, shift=at[lane].shift + number)
            row = read(tuple(place))
            if row is None:
                return None
            rows.append(e.vec(row))
        known = e.remember(("block", key, start), e.depth, transposed(e.f, rows))
    return Vec(known[at[axis].shift], e.depth, True)


def transposed(f: Function, rows: list[Value]) -> list[Value]:
    """The columns of a square of vectors: in each step, pairs of blocks across the diagonal are
    exchanged, from the largest to single elements."""
    rows, width = list(rows), len(rows)
    distance = width // 2
    while distance:
        high = [i - distance + width if i & distance else i for i in range(width)]
        low = [i + width if i & distance else i + distance for i in range(width)]
        for i in range(width):
            if not i & distance:
                a, b = rows[i], rows[i + distance]
                rows[i], rows[i + distance] = f.shuffle(a, b, high), f.shuffle(a, b, low)
        distance //= 2
    return rows
