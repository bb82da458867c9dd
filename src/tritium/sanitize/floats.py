"""Check that no NaN and no infinity is stored.

before:
    tt.store %p, %v, %mask
after:
    %kind = 2 where %v is NaN, 1 where it is infinite, 0 elsewhere and where the mask is false
    %worst = "tt.reduce"(%kind) ({ arith.maxui })
    tt.store %p, %v, %mask
    tt.sanitizer_check %worst == 0, %worst

What is masked off or replaced (`tl.where`) before it is stored may be anything. The check follows
the store, so that both share loops. `origin` finds where the number was made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from tritium.ir import types as ir
from tritium.ops.arith import (
    CmpFOp,
    CmpFPredicate,
    CmpIOp,
    CmpIPredicate,
    ExtUIOp,
    MaxUIOp,
)
from tritium.ops.base import Op
from tritium.ops.effects import GLOBAL, Action
from tritium.ops.evaluation import Evaluator
from tritium.ops.math import AbsFOp
from tritium.ops.memory import EvaluationError, Memory
from tritium.ops.parsing import parse_module
from tritium.ops.ttir.numeric import FpToFpOp
from tritium.ops.ttir.sanitize import ReportOp, SanitizerCheckOp
from tritium.passes.base import Pass
from tritium.passes.rewriting import Builder, reduced_along
from tritium.sanitize.bounds import accessed
from tritium.sanitize.extents import Copy
from tritium.sanitize.kinds import INFINITE, NAN
from tritium.sanitize.sites import Origin, Site, kernel_of, site_of


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
        found = [
            (op, value)
            for op in kernel_of(module).walk() if isinstance(op, Op) and _writes(op)
            for value in op.operands if ir.is_float(value.type)
        ]  # fmt: skip
        for op, value in found:
            _check(op, value, len(self.sites), self.reports)
            self.sites.append(site_of(op, "fp"))
        return bool(found)


def _writes(op: Op) -> bool:
    return bool(accessed(op)) and any(
        effect.action is Action.WRITE and effect.resource is GLOBAL for effect in op.own_effects()
    )


def _check(op: Any, value: SSAValue, site: int, reports: Sequence[SSAValue]) -> None:
    at, kind = Builder(op), ir.with_element(value.type, ir.i32)
    if ir.bit_width(value.type) == 8:
        value = at.value(FpToFpOp, value, result=ir.with_element(value.type, ir.f32))
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
        """Nothing."""


class _Made(Exception):
    """Ends a program that has made what is looked for."""


class _Watching(Evaluator):
    """Stops at the first op that makes a NaN (or an infinity) of numbers that are none, and notes
    the first infinity before."""

    def __init__(self, module: ModuleOp, kind: int, copies: Sequence[Copy]):
        super().__init__(module, _Unchanged(copies))
        self._kinds = (INFINITE, NAN) if kind == NAN else (INFINITE,)
        self._first: dict[int, tuple[str, Operation]] = {}
        """The way in which the first one came, and its op, by kind."""
        self._kind = kind

    def _operands(self, op: Op) -> list[Any]:
        for value in op.operands:
            owner = value.owner
            if ir.is_float(value.type) and isinstance(owner, Op):
                self._look(owner, np.asarray(self._environment[value], np.float64))
        return super()._operands(op)

    def _look(self, owner: Op, value: Any) -> None:
        if np.isfinite(value).all():
            return
        for kind in self._kinds:
            bad = _BAD[kind](value)
            if bad.any() and (how := self._came(kind, owner, bad)) is not None:
                if kind not in self._first or (self._first[kind][0], how) == ("loaded", "made"):
                    self._first[kind] = how, owner
                if (kind, how) == (self._kind, "made"):
                    raise _Made

    def _came(self, kind: int, owner: Op, bad: Any) -> str | None:
        """The way in which NaNs or infinities came into an op's result; None where its operands had
        them."""
        if accessed(owner):
            return "loaded"
        inputs = self._inputs(owner)
        if not inputs or owner.movement is not None:
            return None
        fine = [np.isfinite(x) if kind == INFINITE else ~np.isnan(x) for x in inputs]
        if owner.is_elementwise and all(x.shape == bad.shape for x in inputs):
            made = (bad & np.logical_and.reduce(fine)).any()
        else:
            made = all(x.all() for x in fine)
        return "made" if made else None

    def _inputs(self, owner: Op) -> list[Any]:
        return [
            np.asarray(self._environment[v], np.float64) for v in owner.operands
            if ir.is_float(v.type) and v in self._environment
        ]  # fmt: skip

    def origin(self) -> Origin | None:
        """The origin of the first one; None where there is none."""
        first = self._first.get(self._kind)
        if first is None:
            return None
        how, op = first
        cause = self._first.get(INFINITE) if (self._kind, how) == (NAN, "made") else None
        if cause is not None and not any(np.isinf(x).any() for x in self._inputs(op)):  # pyright: ignore
            cause = None
        infinity = None if cause is None else Origin(cause[0], site_of(cause[1], "fp"))
        return Origin(how, site_of(op, "fp"), infinity)


_BAD: dict[int, Any] = {NAN: np.isnan, INFINITE: np.isinf}


def origin(
    text: str, kernel: str, kind: int, program: tuple[int, int, int], grid: Sequence[int],
    arguments: Sequence[Any], copies: Sequence[Copy] = (),
) -> Origin | None:  # fmt: skip
    """The place at which a program made its first NaN (or infinity), or loaded it, and for a NaN
    that was made of an infinity, the place at which the first of these came: the program is run
    again by the reference semantics, without storing. None where it does not happen again, as when
    memory has changed, or where an op has no reference semantics.

    Args:
        text: the kernel's ttir.
        arguments: numbers; addresses for pointers.
        copies: of the memory that they lead to, where it is a device's.
    """
    module = parse_module(text, "<ttir>")
    watching = _Watching(module, kind, copies)
    watching.program_id, watching.num_programs = program, (grid[0], grid[1], grid[2])
    function = kernel_of(module)
    values = [
        np.asarray(a).astype(np.uint64 if ir.is_pointer(v.type) else ir.numpy_dtype(v.type))
        for a, v in zip(arguments, function.body.args, strict=True)
    ]
    try:
        watching.call(kernel, *values)
    except _Made:
        pass
    except (NotImplementedError, EvaluationError):
        return None
    return watching.origin()
