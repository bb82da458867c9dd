"""Axis analysis: runs, alignment and repetition of tiles of integers and pointers by axis.

The facts are those of `ops/axis_info.py`, and each op says what follows for its result
(`Op.axis_info`). Sums are taken not to overflow, as in all reasoning about addresses, unless
the analysis is told that they may (`wraps`). The facts start at `tt.make_range`, constants and the
attributes of arguments (`tt.divisibility`) and of ops (`tl.multiple_of` and its like), and go
forward; around loops until nothing changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import gcd
from typing import Any

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue

from tritium.ir import types as ir
from tritium.ops.arith.casts import IntegerExtensionOp
from tritium.ops.arith.constant import attr_value
from tritium.ops.arith.integer import DivisionOp, WrappingOp
from tritium.ops.attributes import CONSTANCY, CONTIGUITY, DIVISIBILITY
from tritium.ops.axis_info import MOST, AxisInfo, join, unknown
from tritium.ops.base import ControlEdge, Op
from tritium.ops.elementwise import CastOp
from tritium.ops.scf import ForOp


class AxisAnalysis:
    """The facts about all values of a function, computed at the first question.

    `AxisAnalysis(func).of(value)`. With `trust`, index arithmetic that is divided is taken not to
    be negative, as the reference takes it: right for addresses (a negative remainder would lead
    out of the array), not for numbers that are stored. With `wraps`, integers wrap around: the
    facts hold of the numbers as they are. `carried` is the analysis from which the facts about
    what loops and branches give are taken.
    """

    def __init__(
        self, function: Operation, trust: bool = False, *, wraps: bool = False,
        carried: AxisAnalysis | None = None,
    ):  # fmt: skip
        self._function, self._trust = function, trust
        self._wraps, self._carried = wraps, carried
        self._info: dict[SSAValue, AxisInfo] | None = None

    def of(self, value: SSAValue) -> AxisInfo:
        """The facts about a value of the function."""
        if self._info is None:
            self._info = {}
            self._run()
        found = self._info.get(value)
        return unknown(value.type) if found is None else found

    def _run(self) -> None:
        assert self._info is not None
        function: Any = self._function
        blocks = list(function.regions[0].blocks)
        attrs = list(function.arg_attrs) or [{}] * len(blocks[0].args)
        for argument, entries in zip(blocks[0].args, attrs, strict=False):
            self._info[argument] = _hinted(unknown(argument.type), entries)
        for block in blocks:
            self._block(block)

    def _block(self, block: Block) -> None:
        for op in block.ops:
            self._op(op)

    def _get(self, value: SSAValue) -> AxisInfo:
        assert self._info is not None
        found = self._info.get(value)
        return unknown(value.type) if found is None else found

    def _op(self, op: Any) -> None:
        assert self._info is not None
        edges = list(op.control_edges()) if op.regions else []
        if edges:
            self._regions(op, edges)
            return
        for region in op.regions:
            for block in region.blocks:
                self._block(block)
        operands = [self._get(v) for v in op.operands]
        if self._wraps and op.weights and ir.is_pointer(op.results[0].type):
            operands[1] = _within_type(op.operands[1].type, operands[1])
        if self._trust and isinstance(op, DivisionOp) and not op.is_unsigned:
            operands = [replace(o, non_negative=True) for o in operands]
        for result in op.results:
            info = op.axis_info(operands) if len(op.results) == 1 else unknown(result.type)
            if self._wraps:
                info = _wrapped(op, result.type, info)
            # A statement about one of several results does not tell which.
            one = len(op.results) == 1
            self._info[result] = _hinted(info, op.attributes) if one else info

    def _regions(self, op: Op, edges: Sequence[ControlEdge]) -> None:
        """Loops and branches: of what arrives on several ways is known what holds on all."""
        assert self._info is not None
        blocks = [block for region in op.regions for block in region.blocks]
        if isinstance(op, ForOp):
            self._info[op.body.args[0]] = self._counter(op)
        if self._carried is not None:
            passed = (*op.results, *(argument for block in blocks for argument in block.args))
            self._info.update((v, self._carried.of(v)) for v in passed)
            for block in blocks:
                self._block(block)
            return
        found: dict[SSAValue, AxisInfo] = {}
        self._arrive(op, edges, found)
        again = True
        while again:
            again = False
            for number, block in enumerate(blocks):
                self._block(block)
                for target in self._arrive(block.last_op, edges, found):
                    again |= target.owner in blocks[: number + 1]

    def _arrive(
        self, source: Operation | None, edges: Sequence[ControlEdge],
        found: dict[SSAValue, AxisInfo],
    ) -> list[SSAValue]:  # fmt: skip
        """Pass on what is known of the values that an op takes along; returns the targets of which
        less is known than before."""
        assert self._info is not None
        changed: list[SSAValue] = []
        for edge in edges:
            if edge.source is not source:
                continue
            for value, target in zip(edge.values, edge.targets, strict=True):
                info, known = self._get(value), found.get(target)
                merged = info if known is None else join(known, info)
                if merged != known:
                    changed.append(target)
                    found[target] = self._info[target] = merged
        return changed

    def _counter(self, loop: ForOp) -> AxisInfo:
        lower, step = self._get(loop.lower), self._get(loop.step)
        divisor = gcd(lower.divisibility[0], step.divisibility[0])
        first = unknown(loop.lower.type)
        return replace(first, divisibility=(divisor,), non_negative=lower.non_negative)


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
        return replace(info, known=known, non_negative=known >= 0)
    return replace(info, non_negative=False) if isinstance(op, WrappingOp) else info


def _within_type(type: Attribute, info: AxisInfo) -> AxisInfo:
    """Runs cut into groups none of which passes the largest number of an integer type."""
    half = 1 << (ir.bit_width(ir.element_type(type)) - 1)
    contiguity = tuple(
        gcd(c, gcd(d, half)) for c, d in zip(info.contiguity, info.divisibility, strict=True)
    )
    divisibility = tuple(info.aligned(d, c) for d, c in enumerate(contiguity))
    return replace(info, contiguity=contiguity, divisibility=divisibility)


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
    return replace(info, **changes) if changes else info  # pyright: ignore


def _numbers(attribute: Any) -> tuple[int, ...]:
    if isinstance(attribute, IntegerAttr):
        return (attribute.value.data,)
    if isinstance(attribute, DenseArrayBase):
        return tuple(int(v) for v in attribute.get_values())
    return tuple(int(v) for v in attr_value(attribute).reshape(-1))
