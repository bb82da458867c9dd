"""Check that what is loaded has been written since it was allocated.

before:
    %v = tt.load %p, %mask
after:
    %v = tt.load %p, %mask
    %bits = tt.bitcast %v
    %found = %mask and %bits == PATTERN ? tt.ptr_to_int %p : 0
    %worst = "tt.reduce"(%found) ({ arith.maxui })
    tt.sanitizer_check %worst == 0, %worst

New arrays are filled with the pattern (`tritium.sanitize.allocations`), a NaN in every type of
floats. What is too short to hold it (8 bits, integers of 16) is not checked.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from tritium.ir import types as ir
from tritium.ops.arith import AndIOp, CmpIOp, CmpIPredicate, MaxUIOp
from tritium.ops.base import Op
from tritium.ops.effects import GLOBAL, Action
from tritium.ops.ttir.numeric import BitcastOp, PtrToIntOp
from tritium.ops.ttir.sanitize import ReportOp, SanitizerCheckOp
from tritium.passes.base import Pass
from tritium.passes.rewriting import Builder, reduced
from tritium.sanitize.allocations import PATTERN
from tritium.sanitize.bounds import accessed
from tritium.sanitize.kinds import Site
from tritium.sanitize.sites import capture, kernel_of, site_of

_INTEGERS = {16: ir.i16, 32: ir.i32, 64: ir.i64}


@dataclass(frozen=True)
class CheckUnwritten(Pass):
    """Check that what is loaded has been written.

    Attributes:
        sites: filled with what is checked.
        reports: holds the address of the report, on devices that go on after one.
    """

    name: ClassVar[str] = "sanitize-unwritten"
    sites: list[Site] = field(default_factory=list[Site])
    reports: list[SSAValue] = field(default_factory=list[SSAValue])

    def run(self, module: ModuleOp) -> bool:
        kernel = kernel_of(module)
        found = [
            (op, pointer)
            for op in kernel.walk() if isinstance(op, Op) and _reads(op)
            for pointer in accessed(op) if holds_pattern(ir.element_type(op.results[0].type))
        ]  # fmt: skip
        for op, pointer in found:
            self._check(op, pointer)
            size = ir.bit_width(op.results[0].type) // 8
            self.sites.append(site_of(op, "unwritten", size=size))
        capture(kernel)
        return bool(found)

    def _check(self, op: Any, pointer: SSAValue) -> None:
        at, value = Builder(op.next_op, op.location), op.results[0]
        width = ir.bit_width(value.type)
        kind = ir.with_element(value.type, _INTEGERS[width])
        if value.type != kind:
            value = at.value(BitcastOp, value, result=kind)
        pattern = int.from_bytes(PATTERN * (width // 16), "little", signed=True)
        same = at.value(CmpIOp, value, at.constant(pattern, kind), predicate=CmpIPredicate.EQ)
        mask = op.mask if "mask" in op.operand_names() else None
        if mask is not None:
            same = at.value(AndIOp, mask, same)
        address = at.value(PtrToIntOp, pointer)
        found = at.chosen(same, address, at.constant(0, address))
        for report in self.reports:
            at.make(ReportOp, found, report, site=len(self.sites))
            return
        worst = reduced(at, found, MaxUIOp)
        none = at.value(CmpIOp, worst, at.constant(0, worst), predicate=CmpIPredicate.EQ)
        at.make(SanitizerCheckOp, none, worst, site=len(self.sites))


def _reads(op: Op) -> bool:
    return len(op.results) == 1 and any(
        effect.action is Action.READ and effect.resource is GLOBAL for effect in op.own_effects()
    )


def holds_pattern(element: ir.Type) -> bool:
    """True if elements of a type are checked."""
    width = 64 if ir.is_pointer(element) else ir.bit_width(element)
    return not ir.is_pointer(element) and width >= (16 if ir.is_float(element) else 32)
