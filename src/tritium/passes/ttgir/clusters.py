"""`CGALayout`s of encodings: how the blocks (CTAs) of a cluster share tiles.

A program of `num_ctas` blocks splits its tiles along the outermost axes that are long enough, so
that sums along rows, the commonest, stay within a block. Products are split along the rows of their
result, then along its columns; their operands have all of k in every block. Where a tile is too
small, blocks hold copies and compute the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from xdsl.ir import Operation, SSAValue

from tritium.ir import types as ir
from tritium.ir.layouts.encodings import BLOCK, Cluster, Encoding, linear
from tritium.ir.layouts.moves import permuted
from tritium.ops import ttir
from tritium.ops.attributes import NUM_CTAS
from tritium.ops.base import permutes
from tritium.ops.terminators import is_terminator
from tritium.ops.ttgir.types import MemDescType
from tritium.ops.ttir.dot import MatrixProduct
from tritium.passes.ttgir.layout_propagation import keeps_places
from tritium.target import Processor

_ACCESSES = (ttir.ElementAccess, ttir.BlockAccess)


def num_ctas_of(module: Operation) -> int:
    """The blocks of a program, from the module's attributes."""
    found: Any = module.attributes.get(NUM_CTAS)
    return 1 if found is None else found.value.data


def _split(least: Sequence[int], shape: Sequence[int], num_ctas: int) -> Cluster:
    """Halve the first axis whose parts stay at least so long, again and again."""
    parts, bases = [1] * len(shape), list[tuple[int, ...]]()
    while 1 << len(bases) < num_ctas:
        long = [a for a, size in enumerate(shape) if size // parts[a] >= 2 * least[a]]
        bases.append(tuple(part if i in long[:1] else 0 for i, part in enumerate(parts)))
        for axis in long[:1]:
            parts[axis] *= 2
    return tuple(bases)


def split_rows(shape: Sequence[int], num_ctas: int, whole: int | None = None) -> Cluster:
    """The outermost axes split between blocks; the axis `whole` is left alone."""
    least = [size if axis == whole else 1 for axis, size in enumerate(shape)]
    return _split(least, shape, num_ctas)


def copies(rank: int, num_ctas: int) -> Cluster:
    """Every block has the whole tile."""
    return ((0,) * rank,) * (num_ctas.bit_length() - 1)


def split_product(shape: Sequence[int], num_ctas: int, processor: Processor) -> Cluster:
    """A product's result: parts of fewer rows, else of fewer columns."""
    return _split([*[1] * (len(shape) - 2), *processor.product_part], shape, num_ctas)


def operand_cluster(cluster: Cluster, k_axis: int) -> Cluster:
    """An operand's split, given that of the product: k is in every block."""
    return tuple(tuple(0 if i == k_axis else x for i, x in enumerate(b)) for b in cluster)


@lru_cache(maxsize=4096)
def blocks_of(encoding: Encoding, shape: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """The coordinates at which the parts of blocks 1, 2, 4, ... begin."""
    return tuple(linear(encoding, shape).bases(BLOCK))


def product_accesses(
    function: Operation, num_ctas: int, processor: Processor
) -> dict[int, Cluster]:
    """For accesses (by id) that bring operands of products or store their results, perhaps after
    computing, the split that needs no exchange between blocks. What products would have differently
    is left out."""
    wishes: dict[int, set[Cluster]] = {}
    for op in function.walk():
        if not isinstance(op, MatrixProduct):
            continue
        shape = ir.shape_of(op.results[0].type)
        cluster, rank = split_product(shape, num_ctas, processor), len(shape)
        for value, k_axis in ((op.a, rank - 1), (op.b, rank - 2)):
            _follow(value, operand_cluster(cluster, k_axis), wishes)
        _follow_results(op.results[0], cluster, wishes)
    return {key: next(iter(found)) for key, found in wishes.items() if len(found) == 1}


def _follow(value: SSAValue, cluster: Cluster, wishes: dict[int, set[Cluster]]) -> None:
    pending, seen = [(value, cluster)], set[tuple[int, Cluster]]()
    while pending:
        value, cluster = pending.pop()
        owner = value.owner
        if not isinstance(owner, Operation) or (id(owner), cluster) in seen:
            continue
        seen.add((id(owner), cluster))
        if isinstance(owner, _ACCESSES):
            wishes.setdefault(id(owner), set()).add(cluster)
        elif permutes(owner):
            order = owner.permuted_axes or ()
            inverse = [order.index(i) for i in range(len(order))]
            pending.append((owner.operands[0], permuted(cluster, inverse)))
        elif keeps_places(owner):
            shape = ir.shape_of(value.type)
            pending += [(v, cluster) for v in owner.operands if ir.shape_of(v.type) == shape]


def _follow_results(value: SSAValue, cluster: Cluster, wishes: dict[int, set[Cluster]]) -> None:
    pending, seen, shape = [value], set[SSAValue](), ir.shape_of(value.type)
    while pending:
        value = pending.pop()
        if value in seen or ir.shape_of(value.type) != shape:
            continue
        seen.add(value)
        for use in value.uses:
            user: Any = use.operation
            if isinstance(user, _ACCESSES) and not user.is_load:
                wishes.setdefault(id(user), set()).add(cluster)
            elif is_terminator(user):
                around: Any = user.parent_op()
                pending += [to for source, to in around.forwarded_values() if source is value]
            elif keeps_places(user):
                pending += user.results


def in_block(tile: ir.Type, memory: MemDescType) -> bool:
    """True if each block of a cluster has in its own memory what it has of the tile."""
    kept = blocks_of(memory.encoding, tuple(memory.get_shape())[-len(ir.shape_of(tile)) :])
    return not any(map(any, kept)) or kept == blocks_of(ir.encoding_of(tile), ir.shape_of(tile))
