"""Check that programs of a grid do not touch the same memory while one of them writes.

before:
    tt.func @kernel(%x: !tt.ptr<f32>, ...)
      %v = tt.load %p, %mask
after:
    tt.func @kernel(%x: !tt.ptr<f32>, ..., %shadow: i64)
      %address = tt.ptr_to_int %p
      tt.race_check (%mask ? %address : 0), %shadow {access = 0, size = 4, site = 0}
      %v = tt.load %p, %mask

Programs of a grid have no order unless they make one: by atomic operations whose results they look
at, and by volatile loads. Kernels with such are left as they are; what they do is not decided here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from xdsl.dialects.builtin import ModuleOp

from tritium.ops.arith import SelectOp
from tritium.ops.base import Op
from tritium.ops.effects import GLOBAL, Action, observes
from tritium.ops.ttir.atomic import MemSemantic
from tritium.ops.ttir.function import FuncOp
from tritium.ops.ttir.numeric import PtrToIntOp
from tritium.ops.ttir.sanitize import Access, RaceCheckOp
from tritium.passes.base import Pass
from tritium.passes.rewriting import Builder
from tritium.sanitize.bounds import accessed, accessed_bytes
from tritium.sanitize.sites import Site, add_arguments, kernel_of, site_of


@dataclass(frozen=True)
class CheckRaces(Pass):
    """Check that programs do not touch the same memory while one of them writes.

    Attributes:
        sites: filled with a description of each check.
        granules: filled with the number of bytes that are noted together, the size of the smallest
            access; empty where nothing is checked.
    """

    name: ClassVar[str] = "sanitize-races"
    title: ClassVar[str] = "SanitizeRaces"
    sites: list[Site] = field(default_factory=list[Site])
    granules: list[int] = field(default_factory=list[int])

    def run(self, module: ModuleOp) -> bool:
        kernel = kernel_of(module)
        if any(isinstance(op, Op) and orders(op, used=_used(op)) for op in kernel.walk()):
            return False
        found = [
            (op, pointer) for op in kernel.walk() if isinstance(op, Op) for pointer in accessed(op)
        ]
        if all(access_of(op) in (Access.READ, Access.ATOMIC_READ) for op, _ in found):
            return False
        self._insert(kernel, found)
        return True

    def _insert(self, kernel: FuncOp, found: list[tuple[Any, Any]]) -> None:
        (shadow,) = add_arguments(kernel, ("shadow",))
        for op, pointer in found:
            at, size = Builder(op), accessed_bytes(pointer)
            mask = op.mask if "mask" in op.operand_names() else None
            address = at.value(PtrToIntOp, pointer)
            if mask is not None:
                address = at.value(SelectOp, mask, address, at.constant(0, address))
            site = len(self.sites)
            at.make(RaceCheckOp, address, shadow, access=access_of(op), size=size, site=site)
            self.sites.append(site_of(op, "races", access=WORDS[access_of(op)], size=size))
        self.granules.append(min(accessed_bytes(pointer) for _, pointer in found))


WORDS = {Access.READ: "load", Access.WRITE: "store", Access.ATOMIC_READ: "atomic load",
          Access.ATOMIC_WRITE: "atomic access"}  # fmt: skip


def _used(op: Op) -> bool:
    return any(result.uses for result in op.results)


def orders(op: Op, *, used: bool) -> bool:
    """Whether a program may wait for another one by an op, or learn how far that one is; `used`
    says whether the program looks at the result."""
    if not observes(op.own_effects()) or getattr(op, "sem", None) is MemSemantic.RELAXED:
        return False
    return used or bool(op.results and not _writes(op))


def _writes(op: Any) -> bool:
    return "val" in op.operand_names()


def access_of(op: Any) -> Access:
    """The kind of an op's access to global memory."""
    effects = op.own_effects()
    if observes(effects):
        return Access.ATOMIC_WRITE if _writes(op) else Access.ATOMIC_READ
    actions = {effect.action for effect in effects if effect.resource is GLOBAL}
    return Access.WRITE if Action.WRITE in actions else Access.READ
