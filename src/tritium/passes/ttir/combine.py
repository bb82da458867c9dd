"""Use the combined form of ops that the `tt` dialect has one for.

before:
    %d = tt.dot %a, %b, %zero
    %s = arith.addf %d, %c
    %x = tt.load %p, %m
    %y = arith.select %m, %x, %other
after:
    %s = tt.dot %a, %b, %c
    %y = tt.load %p, %m, %other

The sum then takes part in the dot's accumulation: a floating-point result may differ in its
rounding (it is the only pass here that may change one).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from tritium.ops.arith.compare import SelectOp
from tritium.ops.arith.floating import AddFOp
from tritium.ops.arith.integer import AddIOp
from tritium.ops.base import Op
from tritium.ops.ttir.dot import DotOp
from tritium.ops.ttir.memory import LoadOp
from tritium.passes.base import Pass
from tritium.passes.rewriting import Pattern, Rewriter, apply_patterns
from tritium.passes.simplify.arithmetic import is_zero, owner_of
from tritium.passes.simplify.tiles import given_attrs


@dataclass(frozen=True)
class Combine(Pass):
    """Add into a dot's accumulator; select a load's default in the load."""

    name: ClassVar[str] = "combine"
    title: ClassVar[str] = "TritonCombineOps"

    def run(self, module: ModuleOp) -> bool:
        return apply_patterns(module, _PATTERNS)


def add_to_dot(op: Op, rewriter: Rewriter) -> bool:
    """dot(a, b, 0) + c, c + dot(a, b, 0) -> dot(a, b, c)"""
    left, right = op.operands
    for dot, added in ((owner_of(left, DotOp), right), (owner_of(right, DotOp), left)):
        if dot is None or dot.parent is not op.parent or not dot.results[0].has_one_use():
            continue
        # Hardware that accumulates imprecisely adds the sum precisely afterwards.
        if dot.maxNumImpreciseAcc or not is_zero(rewriter.known(dot.operands[2])):
            continue
        a, b, _ = dot.operands
        new = rewriter.insert(
            DotOp, a, b, added, before=op, attributes=dot.attributes, **given_attrs(dot)
        )
        new.results[0].name_hint = op.results[0].name_hint or dot.results[0].name_hint
        return rewriter.replace(op, new.results[0])
    return False


def select_to_load(op: SelectOp, rewriter: Rewriter) -> bool:
    """select(m, load(p, m, ...), other) -> load(p, m, other)"""
    mask, loaded, other = op.operands
    load = owner_of(loaded, LoadOp)
    if load is None or load.mask is not mask or not loaded.has_one_use() or load.isVolatile:
        return False
    if not _available(other, load):
        return False
    new = rewriter.insert(
        LoadOp, load.ptr, mask, other, before=load, attributes=load.attributes, **given_attrs(load)
    )
    new.results[0].name_hint = op.results[0].name_hint or loaded.name_hint
    return rewriter.replace(op, new.results[0])


def _available(value: SSAValue, op: Op) -> bool:
    """Whether `value` is defined before `op` (the load must stay where it is in memory order)."""
    owner: Any = value.owner
    if not isinstance(owner, Op) or owner.parent is not op.parent:
        return True
    return owner.is_before_in_block(op)


_PATTERNS: dict[type[Op], tuple[Pattern, ...]] = {
    AddFOp: (add_to_dot,),
    AddIOp: (add_to_dot,),
    SelectOp: (select_to_load,),
}
