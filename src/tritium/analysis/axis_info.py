"""Axis analysis: runs, alignment and repetition of tiles of integers and pointers by axis.

The facts are those of `ops/axis_info.py`, and each op says what follows for its result
(`Op.axis_info`). Sums are taken not to overflow, as in all reasoning about addresses, unless
the analysis is told that they may (`wraps`). The facts start at `tt.make_range`, constants and the
attributes of arguments (`tt.divisibility`) and of ops (`tl.multiple_of` and its like), and go
forward; around loops until nothing changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import Any

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue

from tritium.analysis.intervals import AssumedRanges
from tritium.ir import types as ir
from tritium.ops.arith.casts import IntegerExtensionOp
from tritium.ops.arith.constant import attr_value
from tritium.ops.arith.integer import DivisionOp, WrappingOp
from tritium.ops.attributes import CONSTANCY, CONTIGUITY, DIVISIBILITY
from tritium.ops.axis_info import MOST, AxisInfo, join, unknown
from tritium.ops.base import ControlEdge, Op
from tritium.ops.elementwise import CastOp


class AxisAnalysis:
    """The facts about the values of a function, each computed when it is first needed.

    `AxisAnalysis(func).of(value)`. With `assume_no_wrap`, index arithmetic that is divided is taken
    not to be negative unless the numbers in the source say that it is (`AssumedRanges`): right for
    addresses, not for numbers that are stored. With `wraps`, integers wrap around: the facts hold
    of the numbers as they are. `carried` is the analysis from which the facts about what loops and
    branches give are taken. """

    def __init__(
        self, function: Operation, assume_no_wrap: bool = False, *, wraps: bool = False,
        carried: AxisAnalysis | None = None,
    ):  # fmt: skip
        self._function, self._assume_no_wrap = function, assume_no_wrap
        self._wraps, self._carried = wraps, carried
        self._ranges = AssumedRanges()
        self._info: dict[SSAValue, AxisInfo] = {}
        self._entered: dict[Operation, None] = {}
        """The function, and the loops and branches of which is known what they pass on."""

    def of(self, value: SSAValue) -> AxisInfo:
        """The facts about a value of the function, and first about what it is computed from."""
        if not self._entered:
            self._start()
        info, stack = self._info, [value]
        while stack:
            wanted = stack[-1]
            owner: Any = wanted.owner
            block = owner.__class__ is Block
            op = owner.parent_op() if block else owner
            if wanted in info:
                stack.pop()
            elif op.regions and op not in self._entered:
                self._enter(op)
            elif block:
                info[wanted] = unknown(wanted.type)
            else:
                missing = [operand for operand in owner.operands if operand not in info]
                if missing:
                    stack += missing
                else:
                    self._op(owner)
        return info[value]

    def _start(self) -> None:
        function: Any = self._function
        self._entered[function] = None
        arguments = function.regions[0].blocks[0].args
        attrs = list(function.arg_attrs) or [{}] * len(arguments)
        for argument, entries in zip(arguments, attrs, strict=False):
            self._info[argument] = _hinted(unknown(argument.type), entries)

    def _enter(self, op: Any) -> None:
        """Find what an op with regions passes on. The loops around it come first, as what they
        carry may come from it; and those before it in its block, so that a chain of them takes no
        recursive calls."""
        around = [op]
        while (op := op.parent_op()) is not None and op not in self._entered:
            around.append(op)
        for outer in reversed(around):
            entered, before = [outer], outer
            while (before := before.prev_op) is not None and before not in self._entered:
                if before.regions:
                    entered.append(before)
            for each in reversed(entered):
                if each not in self._entered:
                    self._entered[each] = None
                    self._regions(each, list(each.control_edges()))

    def _op(self, op: Any) -> None:
        info, results = self._info, op.results
        if len(results) > 1:  # a statement about one of them does not tell which
            info.update((result, unknown(result.type)) for result in results)
            return
        operands = [info[v] for v in op.operands]
        if self._wraps and op.weights and ir.is_pointer(results[0].type):
            operands[1] = _within_type(op.operands[1].type, operands[1])
        if self._assume_no_wrap and isinstance(op, DivisionOp) and not op.is_unsigned:
            operands = [
                o if self._ranges.of(v).low < 0 else o._replace(non_negative=True)
                for v, o in zip(op.operands, operands, strict=True)
            ]
        found = op.axis_info(operands)
        if self._wraps:
            found = _wrapped(op, results[0].type, found)
        info[results[0]] = _hinted(found, op.attributes)

    def _regions(self, op: Op, edges: Sequence[ControlEdge]) -> None:
        """Loops and branches: of what arrives on several ways is known what holds on all."""
        blocks = [block for region in op.regions for block in region.blocks]
        self._info.update(op.counter_info(self.of))
        if self._carried is not None:
            passed = (*op.results, *(argument for block in blocks for argument in block.args))
            self._info.update((v, self._carried.of(v)) for v in passed)
            return
        found: dict[SSAValue, AxisInfo] = {}
        self._arrive(op, edges, found)
        known, again = [(table, len(table)) for table in (self._info, self._entered)], True
        while again:
            for table, count in known:
                while len(table) > count:  # what follows from facts of which less holds now
                    table.popitem()
            self._info.update(found)
            again = False
            for number, block in enumerate(blocks):
                for target in self._arrive(block.last_op, edges, found):
                    again |= target.owner in blocks[: number + 1]

    def _arrive(
        self, source: Operation | None, edges: Sequence[ControlEdge],
        found: dict[SSAValue, AxisInfo],
    ) -> list[SSAValue]:  # fmt: skip
        """Pass on what is known of the values that an op takes along; returns the targets of which
        less is known than before."""
        changed: list[SSAValue] = []
        for edge in edges:
            if edge.source is not source:
                continue
            for value, target in zip(edge.values, edge.targets, strict=True):
                info, known = self.of(value), found.get(target)
                merged = info if known is None else join(known, info)
                if merged != known:
                    changed.append(target)
                    found[target] = self._info[target] = merged
        return changed


def _wrapped(op: Any, type: Attribute, info: AxisInfo) -> AxisInfo:
    """The facts about a result where integers wrap around. Runs and divisibility by powers of two
    survive that; signs do not, nor runs that are widened where they pass the end of their type."""
    if isinstance(op, IntegerExtensionOp):
        info = _within_type(op.operands[0].type, info)
    if not ir.is_integer(type):
        return info
    if isinstance(op, CastOp) and op.widens is False:
        info = _within_type(type, info)
    known = info.known
    if known is not None:
        half = 1 << (ir.bit_width(ir.element_type(type)) - 1)
        known = (known + half) % (2 * half) - half
        return info._replace(known=known, non_negative=known >= 0)
    return info._replace(non_negative=False) if isinstance(op, WrappingOp) else info


def _within_type(type: Attribute, info: AxisInfo) -> AxisInfo:
    """Runs cut into groups none of which passes the largest number of an integer type."""
    half = 1 << (ir.bit_width(ir.element_type(type)) - 1)
    contiguity = tuple(
        gcd(c, gcd(d, half)) for c, d in zip(info.contiguity, info.divisibility, strict=True)
    )
    divisibility = tuple(info.aligned(d, c) for d, c in enumerate(contiguity))
    return info._replace(contiguity=contiguity, divisibility=divisibility)


_STATED = {CONTIGUITY: "contiguity", DIVISIBILITY: "divisibility", CONSTANCY: "constancy"}
"""The attributes that state facts: those of `AxisInfo`."""


def is_stated(op: Any) -> bool:
    """True if attributes of the op state facts about its result (`tl.multiple_of`, say)."""
    return bool(op.attributes) and any(name in op.attributes for name in _STATED)


def _hinted(info: AxisInfo, attributes: Any) -> AxisInfo:
    """`info` improved by attributes that state facts."""
    changes: dict[str, tuple[int, ...]] = {}
    for attribute_name, name in _STATED.items():
        attribute = attributes.get(attribute_name)
        if attribute is not None:
            stated = _numbers(attribute)
            known = getattr(info, name)
            if len(stated) == 1:
                stated = stated * len(known)
            changes[name] = tuple(
                max(k, s & -s if s else MOST) for k, s in zip(known, stated, strict=False)
            )
    return info._replace(**changes) if changes else info  # pyright: ignore


def _numbers(attribute: Any) -> tuple[int, ...]:
    if isinstance(attribute, IntegerAttr):
        return (attribute.value.data,)
    if isinstance(attribute, DenseArrayBase):
        return tuple(int(v) for v in attribute.get_values())
    return tuple(int(v) for v in attr_value(attribute).reshape(-1))
