"""Check that no NaN and no infinity is stored.

before:
    tt.store %p, %v, %mask
after:
    %kind = 2 where %v is NaN, 1 where it is infinite, 0 elsewhere and where the mask is false
    %worst = "tt.reduce"(%kind) ({ arith.maxui })
    tt.store %p, %v, %mask
    tt.sanitizer_check %worst == 0, %worst

What is masked off or replaced (`tl.where`) before it is stored may be anything. The check follows
the store, so that both share loops. `origin` finds where the number that is stored was made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from tritium.ir import types as ir
from tritium.ops.arith import CmpFOp, CmpFPredicate, CmpIOp, CmpIPredicate, ExtUIOp, MaxUIOp
from tritium.ops.base import Op
from tritium.ops.effects import GLOBAL, Action
from tritium.ops.evaluation import Evaluator
from tritium.ops.math import AbsFOp
from tritium.ops.memory import EvaluationError, Memory
from tritium.ops.parsing import parse_module
from tritium.ops.ttir.sanitize import ReportOp, SanitizerCheckOp
from tritium.passes.base import Pass
from tritium.passes.rewriting import Builder, reduced_along
from tritium.sanitize.bounds import accessed
from tritium.sanitize.extents import Copy
from tritium.sanitize.kinds import INFINITE, NAN, Origin, Site
from tritium.sanitize.origins import BAD, Origins
from tritium.sanitize.sites import capture, kernel_of, site_of

Place = tuple[str, int]
"""A file and a line."""


@dataclass(frozen=True)
class CheckFloats(Pass):
    """Check that no NaN and no infinity is stored.

    Attributes:
        sites: filled with what is checked.
        reports: holds the address of the report, on devices that go on after one.
    """

    name: ClassVar[str] = "sanitize-floats"
    title: ClassVar[str] = "SanitizeFloats"
    sites: list[Site] = field(default_factory=list[Site])
    reports: list[SSAValue] = field(default_factory=list[SSAValue])

    def run(self, module: ModuleOp) -> bool:
        kernel = kernel_of(module)
        found = [
            (op, value)
            for op in kernel.walk() if isinstance(op, Op) and _writes(op)
            for value in op.operands if ir.is_float(value.type)
        ]  # fmt: skip
        for op, value in found:
            _check(op, value, len(self.sites), self.reports)
            self.sites.append(site_of(op, "fp"))
        capture(kernel)
        return bool(found)


def _writes(op: Op) -> bool:
    return bool(accessed(op)) and any(
        effect.action is Action.WRITE and effect.resource is GLOBAL for effect in op.own_effects()
    )


def _check(op: Any, value: SSAValue, site: int, reports: Sequence[SSAValue]) -> None:
    at, kind = Builder(op), ir.with_element(value.type, ir.i32)
    if ir.bit_width(value.type) == 8:
        value = at.converted(value, ir.f32)
    none = at.constant(0, kind)
    size = at.value(AbsFOp, value)
    largest = at.constant(float("inf"), value)
    finite = at.value(CmpFOp, size, largest, predicate=CmpFPredicate.OLT)
    nan = at.value(CmpFOp, value, value, predicate=CmpFPredicate.UNO)
    found = at.chosen(finite, none, at.constant(INFINITE, kind))
    found = at.chosen(nan, at.constant(NAN, kind), found)
    mask = op.mask if "mask" in op.operand_names() else None
    if mask is not None:
        found = at.chosen(mask, found, none)
    for report in reports:  # each thread looks at what it holds
        detail = at.value(ExtUIOp, found, result=ir.with_element(kind, ir.i64))
        at.make(ReportOp, detail, report, site=site)
        return
    while ir.shape_of(found.type):  # axis by axis: the first loops are those of the store
        axis = len(ir.shape_of(found.type)) - 1
        found = reduced_along(at, found, axis, MaxUIOp)
    following = op.next_op
    assert following is not None
    behind = Builder(following, op.location)
    none = behind.constant(0, found)
    fine = behind.value(CmpIOp, found, none, predicate=CmpIPredicate.EQ)
    detail = behind.value(ExtUIOp, found, result=ir.i64)
    behind.make(SanitizerCheckOp, fine, detail, site=site)


class _Unchanged(Memory):
    """The memory of the process, in which nothing is stored, or copies of a device's."""

    def __init__(self, copies: Sequence[Copy]):
        super().__init__()
        self._copies = copies

    def load(
        self, addresses: np.ndarray[Any, Any], dtype: np.dtype[Any], mask: Any
    ) -> np.ndarray[Any, Any]:
        if self._copies:
            found = np.zeros_like(addresses)
            for begin, data in self._copies:
                offset = addresses - np.uint64(begin)
                moved = offset + np.uint64(data.ctypes.data)
                found = np.where(offset < np.uint64(data.size), moved, found)
            addresses = found
        return super().load(addresses, dtype, mask)

    def store(self, addresses: Any, value: Any, mask: Any) -> None:
        """Do nothing."""


class _Stored(Exception):
    """Ends a program that has stored what is looked for."""


class _Watching(Evaluator):
    """Stops at the store of a NaN (or an infinity).

    Attributes:
        origin: where the number was made; None before, or where that is not known.
    """

    def __init__(self, module: ModuleOp, kind: int, place: Place | None, copies: Sequence[Copy]):
        super().__init__(module, _Unchanged(copies))
        self._kind, self._place, self._origins, self._again = kind, place, Origins(), False
        self.origin: Origin | None = None

    def _apply(self, op: Op, operands: Sequence[Any]) -> Any:
        if self._again:
            return super()._apply(op, operands)
        if _writes(op):
            self._look(op)
        outcome = super()._apply(op, operands)
        return self._origins.follow(
            op, operands, outcome, lambda changed: self._once_more(op, changed),
            lambda: site_of(op, "fp"),
        )  # fmt: skip

    def _once_more(self, op: Op, operands: Sequence[Any]) -> Any:
        self._again = True
        try:
            return op.evaluate(self, *operands)
        finally:
            self._again = False

    def _look(self, op: Any) -> None:
        site = site_of(op, "fp")
        if self._place not in (None, (site["file"], site["line"])):
            return
        for operand in op.operands:
            if not ir.is_float(operand.type):
                continue
            value = self._environment[operand]
            bad = BAD[self._kind](np.asarray(value).astype(np.float64))
            if "mask" in op.operand_names() and op.mask is not None:
                bad = bad & self._environment[op.mask]
            if bad.any():
                self.origin = self._origins.of(value, self._kind, bad)
                raise _Stored


def origin(
    text: str, kernel: str, kind: int, program: tuple[int, int, int], grid: Sequence[int],
    arguments: Sequence[Any], copies: Sequence[Copy] = (), place: Place | None = None,
) -> Origin | None:  # fmt: skip
    """The place at which a program made the NaN (or infinity) that it stores, or loaded it, and for
    a NaN that was made of an infinity, the place at which this one came: the program is run again
    by the reference semantics, without storing. None where it does not happen again, as when memory
    has changed, or where an op has no reference semantics.

    Args:
        text: the kernel's ttir.
        arguments: numbers; addresses for pointers.
        copies: of the memory that they lead to, where it is a device's.
        place: the file and the line of the store; None for the first one.
    """
    module = parse_module(text, "<ttir>")
    watching = _Watching(module, kind, place, copies)
    watching.program_id, watching.num_programs = program, (grid[0], grid[1], grid[2])
    function = kernel_of(module)
    values = [
        np.asarray(a).astype(np.uint64 if ir.is_pointer(v.type) else ir.numpy_dtype(v.type))
        for a, v in zip(arguments, function.body.args, strict=True)
    ]
    try:
        watching.call(kernel, *values)
    except _Stored:
        pass
    except (NotImplementedError, EvaluationError):
        return None
    return watching.origin
