"""Encodings of descriptors whose blocks do not tell them: how the blocks of a cluster share
what the bulk copy engine moves, and the swizzle of rows that are gathered.

A descriptor's map is of what one block copies, so that all descriptors that meet in one value are
shared out alike: as the products want whose operands or results they are of; else by rows.
Descriptors of rows by their numbers have blocks of one row, the tiles in shared memory have many.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from tritium.analysis.regions import functions
from tritium.ir import types as ir
from tritium.ir.layouts.encodings import Cluster, part_of
from tritium.ops.ttir.descriptor import RowAccess
from tritium.passes.ttgir.clusters import copies, split_rows
from tritium.passes.ttgir.layout_propagation import block_encoding, with_encoding
from tritium.passes.ttir.descriptors.flow import Groups, descriptors, flow

LEAST_BYTES = 16
"""The least bytes of a row that one copy moves."""


def encode_descriptors(
    module: ModuleOp, num_ctas: int, wishes: Mapping[int, Cluster]
) -> None:
    """Give descriptors encodings of their blocks: all in a cluster, else those by which rows are
    gathered or scattered. `wishes`: what products want of accesses, by their ids."""
    groups, found, rows = Groups(), dict[SSAValue, set[Cluster]](), dict[SSAValue, int]()
    for source, target in flow(module):
        groups.join(source, target)
    everything = [v for function in functions(module) for v in descriptors(function)]
    for value in everything:
        group = groups.find(value)
        wanted = found.setdefault(group, set())
        wanted |= {wishes[id(u.operation)] for u in value.uses if id(u.operation) in wishes}
        rows[group] = max(rows.get(group, 0), _rows_of(value))
    for value in everything:
        group = groups.find(value)
        if num_ctas == 1 and not rows[group]:
            continue
        block: Any = value.type.block
        cluster = _chosen(block, num_ctas, found[group]) if num_ctas > 1 else ()
        encoding = block_encoding(value.type, cluster, rows[group])
        value._type = ir.TensorDescType(with_encoding(block, encoding))
    for function in functions(module):
        function.update_type()


def _rows_of(value: SSAValue) -> int:
    """The most rows that an op gathers or scatters by a descriptor."""
    users: list[Any] = [use.operation for use in value.uses]
    found = (ir.shape_of(op.x_offsets.type)[0] for op in users if isinstance(op, RowAccess))
    return max(found, default=0)


def _chosen(block: Any, num_ctas: int, wanted: set[Cluster]) -> Cluster:
    shape, size = tuple(block.get_shape()), ir.memory_bytes(block.element_type)
    rows = split_rows(shape, num_ctas, whole=len(shape) - 1 if len(shape) > 1 else None)
    cluster = rows if not wanted else next(iter(wanted)) if len(wanted) == 1 else None
    if cluster is None or part_of(cluster, shape)[-1] * size < LEAST_BYTES:
        return copies(len(shape), num_ctas)
    return cluster
