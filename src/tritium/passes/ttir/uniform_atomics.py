"""Combine the elements before the one address that they all go to.

before:
    %p = tt.splat %out : !tt.ptr<i32> -> tensor<64x!tt.ptr<i32>>
    %old = tt.atomic_rmw add, acq_rel, gpu, %p, %v, %mask        (%old unused)
after:
    %w = arith.select %mask, %v, %zeros
    %sum = "tt.reduce"(%w) ({ arith.addi })
    %any = "tt.reduce"(%mask) ({ arith.ori })
    %old = tt.atomic_rmw add, acq_rel, gpu, %out, %sum, %any

For targets on which an atomic operation costs as much as a hundred additions. The order in which
floats are added to memory is not defined, and changes here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp

from tritium.ir import types as ir
from tritium.ops.dialects import op_classes
from tritium.ops.elementwise import BinaryOp
from tritium.ops.ttir.atomic import AtomicKind, AtomicUpdate
from tritium.ops.ttir.shape import splat_source
from tritium.passes.base import Pass
from tritium.passes.rewriting import Builder, erase, reduced

_COMBINE = {
    AtomicKind[cls.atomic]: cls
    for cls in op_classes("arith") if issubclass(cls, BinaryOp) and cls.atomic
}  # fmt: skip
"""The op that combines numbers in registers, by the atomic operation that combines memory so."""


@dataclass(frozen=True)
class UniformAtomics(Pass):
    """Combine the elements before the one address that they all go to."""

    name: ClassVar[str] = "uniform-atomics"

    def run(self, module: ModuleOp) -> bool:
        found = [op for op in module.walk() if isinstance(op, AtomicUpdate) and _matches(op)]
        for op in found:
            _rewrite(op)
        return bool(found)


def _matches(op: AtomicUpdate) -> bool:
    return (
        splat_source(op.ptr) is not None
        and op.atomic_rmw_op in _COMBINE
        and not op.results[0].uses
        and ir.bit_width(op.val.type) > 1
    )


def _rewrite(op: AtomicUpdate) -> None:
    at, value, mask, kind = Builder(op), op.val, op.mask, op.atomic_rmw_op
    if mask is not None:
        other = at.constant(_COMBINE[kind].identity_of(value.type), value)
        value = at.chosen(mask, value, other)
    total = reduced(at, value, _COMBINE[kind])
    wanted = None if mask is None else reduced(at, mask, _COMBINE[AtomicKind.OR])
    attributes = {"atomic_rmw_op": kind, "sem": op.sem, "scope": op.scope}
    at.make(op.__class__, splat_source(op.ptr), total, wanted, **attributes)
    erase(op)
