"""Leave accesses out of bounds out, and report the first one: for devices on which a fault ends
more than the program.

before:
    tt.func @kernel(%x: !tt.ptr<f32>, ...)
      %v = tt.load %p, %mask
after:
    tt.func @kernel(%x: !tt.ptr<f32>, ..., %report: i64, %x_begin: i64, %x_end: i64)
      %address = tt.ptr_to_int %p
      %inside = (%address - %x_begin) < (%x_end - %x_begin - 3), unsigned
      tt.sanitizer_report (%mask and not %inside ? %address : 0), %report {site = 0}
      %v = tt.load %p, %mask and %inside

No thread waits for another one, and none leaves: this is right in any control flow, with any
barriers. Accesses that take no mask (compare-and-swap) are reported and made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from tritium.ir import types as ir
from tritium.ops.arith import AndIOp, CmpIOp, CmpIPredicate, MaxSIOp, OrIOp, SubIOp
from tritium.ops.base import Op
from tritium.ops.ttgir.buffers import pointers_of
from tritium.ops.ttir.numeric import PtrToIntOp
from tritium.ops.ttir.sanitize import ReportOp
from tritium.ops.ttir.shape import SplatOp
from tritium.passes.base import Pass
from tritium.passes.rewriting import Builder, erase
from tritium.sanitize.bounds import Extent, accessed_bytes, add_extents, bounded, described
from tritium.sanitize.kinds import Site
from tritium.sanitize.sites import capture, kernel_of


@dataclass(frozen=True)
class GuardBounds(Pass):
    """Leave accesses out of bounds out, and report the first one.

    Attributes:
        sites, pointers: as of `CheckBounds`.
        reports: holds the address of the report.
    """

    name: ClassVar[str] = "guard-bounds"
    sites: list[Site] = field(default_factory=list[Site])
    pointers: list[int] = field(default_factory=list[int])
    reports: list[SSAValue] = field(default_factory=list[SSAValue])

    def run(self, module: ModuleOp) -> bool:
        kernel = kernel_of(module)
        found = bounded(module, kernel)
        extents = add_extents(kernel, found, self.pointers)
        (report,) = self.reports
        for op, pointer, roots in found:
            self.sites.append(described(op, pointer, roots))
            _guard(op, pointer, [extents[r] for r in roots], report, len(self.sites) - 1)
        capture(kernel)
        return True


def _guard(
    op: Any, pointer: SSAValue, extents: Sequence[Extent], report: SSAValue, site: int
) -> None:
    at, size = Builder(op), accessed_bytes(pointer)
    if "offsets" in op.operand_names():
        pointer = pointers_of(at, pointer, op.offsets)
    addresses = at.value(PtrToIntOp, pointer)

    def like(scalar: SSAValue) -> SSAValue:
        tile = bool(ir.shape_of(addresses.type))
        return at.value(SplatOp, scalar, result=addresses.type) if tile else scalar

    inside: SSAValue | None = None
    for begin, end in extents:
        count = at.value(SubIOp, at.value(SubIOp, end, begin), at.constant(size - 1, ir.i64))
        count = at.value(MaxSIOp, count, at.constant(0, ir.i64))
        offset = at.value(SubIOp, addresses, like(begin))
        here = at.value(CmpIOp, offset, like(count), predicate=CmpIPredicate.ULT)
        inside = here if inside is None else at.value(OrIOp, inside, here)
    assert inside is not None
    masked = "mask" in op.operand_names()
    none = at.constant(0, addresses)
    wrong = at.chosen(inside, none, addresses)
    if masked and op.mask is not None:
        wrong = at.chosen(op.mask, wrong, none)
        inside = at.value(AndIOp, op.mask, inside)
    at.make(ReportOp, wrong, report, site=site)
    if masked:
        _with_mask(at, op, inside)


def _with_mask(at: Builder, op: Any, mask: SSAValue) -> None:
    """Put an op with another mask in place of one."""
    cls: type[Op] = type(op)  # pyright: ignore[reportUnknownVariableType]
    operands = [mask if f.name == "mask" else getattr(op, f.name) for f in cls.operand_fields]
    new = at.make(cls, *operands, **{name: getattr(op, name) for name in cls.attr_fields})
    new.attributes.update(op.attributes)
    for old, result in zip(op.results, new.results, strict=True):
        result.name_hint = old.name_hint
        old.replace_all_uses_with(result)
    erase(op)
