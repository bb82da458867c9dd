"""What is known of tiles of integers and pointers along each axis: runs, alignment, repetition.

    contiguity[d]    in each aligned group of so many elements along axis d, every element is the
                     previous one plus one (for pointers: the next element)
    divisibility[d]  the first element of each such group is a multiple of this (pointers: bytes)
    constancy[d]     in each aligned group of so many elements along axis d, all are equal

All are powers of two. Sums are taken not to overflow, as in all reasoning about addresses, unless
the analysis is told that they may (`wraps`). The facts start at `tt.make_range`, constants and the
attributes of arguments (`tt.divisibility`) and of ops (`tl.multiple_of` and its like), and go
forward; around loops until nothing changes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import gcd
from typing import Any

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue

from tritium.ir import types as ir
from tritium.ops.arith import (
    ConstantOp,
    ExtSIOp,
    ExtUIOp,
    IndexCastOp,
    TruncIOp,
    attr_value,
)
from tritium.ops.arith.integer import WrappingOp
from tritium.ops.ttir.memory import AddPtrOp

MOST = 1 << 62
"""Divisibility of zero."""


@dataclass(frozen=True)
class AxisInfo:
    """Facts about one value; see the module. Scalars have one axis of size 1.

    `known` is the number that all elements are known to be; `natural`: no element is negative.
    """

    contiguity: tuple[int, ...]
    divisibility: tuple[int, ...]
    constancy: tuple[int, ...]
    known: int | None = None
    natural: bool = False

    def aligned(self, axis: int, group: int) -> int:
        """A divisor of the first elements of aligned groups of `group` elements along an axis."""
        if group >= self.contiguity[axis]:
            return self.divisibility[axis]
        return gcd(self.divisibility[axis], group)

    def every(self, axis: int) -> int:
        """A divisor of all elements, by what is known along one axis."""
        return self.aligned(axis, 1)


def power_of_two_in(number: int) -> int:
    """The largest power of two that divides a number."""
    return MOST if number == 0 else min(number & -number, MOST)


def _shape(type: Attribute) -> tuple[int, ...]:
    return ir.shape_of(type) or (1,)


def unknown(type: Attribute) -> AxisInfo:
    """Nothing is known."""
    ones = (1,) * len(_shape(type))
    return AxisInfo(ones, ones, ones)


def _repeated(type: Attribute, number: int) -> AxisInfo:
    shape = _shape(type)
    ones = (1,) * len(shape)
    divisor = power_of_two_in(number)
    return AxisInfo(ones, (divisor,) * len(shape), shape, number, number >= 0)


def join(a: AxisInfo, b: AxisInfo) -> AxisInfo:
    """What holds of either of two values."""
    contiguity = tuple(map(gcd, a.contiguity, b.contiguity))
    return AxisInfo(
        contiguity,
        tuple(gcd(a.aligned(d, c), b.aligned(d, c)) for d, c in enumerate(contiguity)),
        tuple(map(gcd, a.constancy, b.constancy)),
        a.known if a.known == b.known else None,
        a.natural and b.natural,
    )


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
        if op.name == "scf.for":
            self._loop(op)
            return
        if op.name == "scf.if":
            self._branches(op)
            return
        for region in op.regions:
            for block in region.blocks:
                self._block(block)
        rule = _RULES.get(op.name)
        operands = [self._get(v) for v in op.operands]
        if self._wraps and isinstance(op, AddPtrOp):
            operands[1] = _within_type(op.operands[1].type, operands[1])
        if self._trust and op.name in _SIGNED_DIVISIONS:
            operands = [replace(o, natural=True) for o in operands]
        for result in op.results:
            if rule is not None:
                info = rule(op, operands)
            else:
                info = _default(op, result.type, operands)
            if self._wraps:
                info = _wrapped(op, result.type, info)
            # A statement about one of several results does not tell which.
            one = len(op.results) == 1
            self._info[result] = _hinted(info, op.attributes) if one else info

    def _loop(self, op: Any) -> None:
        assert self._info is not None
        lower, step = self._get(op.lower), self._get(op.step)
        divisor = gcd(lower.divisibility[0], step.divisibility[0])
        body = op.body
        self._info[body.args[0]] = replace(
            unknown(op.lower.type), divisibility=(divisor,), natural=lower.natural
        )
        carried = [self._get(v) for v in op.inits]
        if self._carried is not None:
            self._info.update((v, self._carried.of(v)) for v in (*body.args, *op.results))
            self._block(body)
            return
        while True:
            self._info.update(zip(body.args[1:], carried, strict=False))
            self._block(body)
            following = [self._get(v) for v in body.last_op.operands]
            merged = [join(c, v) for c, v in zip(carried, following, strict=True)]
            if merged == carried:
                break
            carried = merged
        self._info.update(zip(op.results, carried, strict=False))

    def _branches(self, op: Any) -> None:
        assert self._info is not None
        ends: list[Sequence[SSAValue]] = []
        for region in op.regions:
            for block in region.blocks:
                self._block(block)
                ends.append(block.last_op.operands)  # pyright: ignore
        if self._carried is not None:
            self._info.update((v, self._carried.of(v)) for v in op.results)
            return
        for number, result in enumerate(op.results):
            infos = [self._get(end[number]) for end in ends]
            self._info[result] = join(infos[0], infos[-1])


_EXTENSIONS = (ExtSIOp, ExtUIOp, IndexCastOp)


def _wrapped(op: Any, type: Attribute, info: AxisInfo) -> AxisInfo:
    """The facts about a result where integers wrap around. Runs and divisibility by powers of two
    survive that; signs do not, nor runs that are widened where they pass the end of their type."""
    if isinstance(op, _EXTENSIONS):
        info = _within_type(op.operands[0].type, info)
    if not ir.is_integer(type):
        return info
    if isinstance(op, TruncIOp):
        info = _within_type(type, info)
    known = info.known
    if known is not None:
        half = 1 << (ir.bit_width(ir.element_type(type)) - 1)
        known = (known + half) % (2 * half) - half
        return replace(info, known=known, natural=known >= 0)
    return replace(info, natural=False) if isinstance(op, WrappingOp) else info


def _within_type(type: Attribute, info: AxisInfo) -> AxisInfo:
    """Runs cut into groups none of which passes the largest number of an integer type."""
    half = 1 << (ir.bit_width(ir.element_type(type)) - 1)
    contiguity = tuple(
        gcd(c, gcd(d, half)) for c, d in zip(info.contiguity, info.divisibility, strict=True)
    )
    divisibility = tuple(info.aligned(d, c) for d, c in enumerate(contiguity))
    return replace(info, contiguity=contiguity, divisibility=divisibility)


_STATED = ("contiguity", "divisibility", "constancy")


def is_stated(op: Any) -> bool:
    """Whether attributes of the op state facts of its result (`tl.multiple_of` and the like)."""
    return bool(op.attributes) and any(f"tt.{name}" in op.attributes for name in _STATED)


def _hinted(info: AxisInfo, attributes: Any) -> AxisInfo:
    """`info` improved by attributes that state facts."""
    changes: dict[str, tuple[int, ...]] = {}
    for name in _STATED:
        attribute = attributes.get(f"tt.{name}")
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


def _default(op: Operation, type: Attribute, operands: list[AxisInfo]) -> AxisInfo:
    """An elementwise op: equal operands give equal results. Anything else: nothing."""
    base = unknown(type)
    rank = len(base.constancy)
    elementwise = op.name.startswith(("arith.", "math.")) or op.name in _ELEMENTWISE
    if not elementwise or not operands or any(len(o.constancy) != rank for o in operands):
        return base
    constancy = operands[0].constancy
    for other in operands[1:]:
        constancy = tuple(map(gcd, constancy, other.constancy))
    return replace(base, constancy=constancy)


_ELEMENTWISE = frozenset({
    "tt.load", "tt.bitcast", "tt.int_to_ptr", "tt.ptr_to_int", "tt.fp_to_fp", "tt.clampf",
    "tt.mulhiui",
})  # fmt: skip

_SIGNED_DIVISIONS = frozenset({"arith.divsi", "arith.remsi", "arith.floordivsi"})

Rule = Callable[[Any, list[AxisInfo]], AxisInfo]
_RULES: dict[str, Rule] = {}


def _rule(*names: str) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        _RULES.update(dict.fromkeys(names, rule))
        return rule

    return register


@_rule("arith.constant")
def _constant(op: ConstantOp, operands: list[AxisInfo]) -> AxisInfo:
    type = op.results[0].type
    value = attr_value(op.value)
    if not ir.is_integer(type) or getattr(value, "size", 1) == 0:
        return unknown(type)
    first = value.flat[0] if hasattr(value, "flat") else value
    if getattr(value, "strides", ()) and any(value.strides) and (value != first).any():
        return unknown(type)
    return _repeated(type, int(first))


@_rule("tt.make_range")
def _make_range(op: Any, operands: list[AxisInfo]) -> AxisInfo:
    size = op.end - op.start
    return AxisInfo((size,), (power_of_two_in(op.start),), (1,), None, op.start >= 0)


@_rule("tt.get_program_id", "tt.get_num_programs")
def _program(op: Any, operands: list[AxisInfo]) -> AxisInfo:
    return replace(unknown(op.results[0].type), natural=True)


@_rule("tt.splat")
def _splat(op: Any, operands: list[AxisInfo]) -> AxisInfo:
    (a,), shape = operands, _shape(op.results[0].type)
    ones = (1,) * len(shape)
    return AxisInfo(ones, a.divisibility * len(shape), shape, a.known, a.natural)


@_rule("tt.expand_dims")
def _expand_dims(op: Any, operands: list[AxisInfo]) -> AxisInfo:
    (a,), axis = operands, op.axis
    every = max(a.every(d) for d in range(len(a.contiguity)))

    def insert(values: tuple[int, ...], value: int) -> tuple[int, ...]:
        return (*values[:axis], value, *values[axis:])

    return AxisInfo(
        insert(a.contiguity, 1), insert(a.divisibility, every), insert(a.constancy, 1), a.known,
        a.natural,
    )  # fmt: skip


@_rule("tt.broadcast")
def _broadcast(op: Any, operands: list[AxisInfo]) -> AxisInfo:
    (a,), shape = operands, _shape(op.results[0].type)
    before = _shape(op.operands[0].type)
    constancy = tuple(
        s if b != s else c for b, s, c in zip(before, shape, a.constancy, strict=True)
    )
    return replace(a, constancy=constancy)


@_rule("ttg.convert_layout")
def _convert_layout(op: Any, operands: list[AxisInfo]) -> AxisInfo:
    return operands[0]


@_rule("tt.trans")
def _trans(op: Any, operands: list[AxisInfo]) -> AxisInfo:
    (a,) = operands
    order: tuple[int, ...] = op.order

    def permute(values: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(values[i] for i in order)

    return AxisInfo(
        permute(a.contiguity), permute(a.divisibility), permute(a.constancy), a.known, a.natural
    )


@_rule("arith.addi", "tt.addptr")
def _add(op: Any, operands: list[AxisInfo]) -> AxisInfo:
    a, b = operands
    if op.name == "tt.addptr":
        pointer: Any = ir.element_type(op.results[0].type)
        size = max(1, ir.bit_width(pointer.pointee) // 8)
        b = replace(
            b, divisibility=tuple(min(d * size, MOST) for d in b.divisibility), known=None
        )
        known = None
    else:
        known = a.known + b.known if a.known is not None and b.known is not None else None
    rank = range(len(a.contiguity))
    contiguity = tuple(
        max(gcd(a.contiguity[d], b.constancy[d]), gcd(a.constancy[d], b.contiguity[d]))
        for d in rank
    )
    return AxisInfo(
        contiguity,
        tuple(gcd(a.aligned(d, contiguity[d]), b.aligned(d, contiguity[d])) for d in rank),
        tuple(map(gcd, a.constancy, b.constancy)),
        known,
        a.natural and b.natural,
    )


@_rule("arith.subi")
def _sub(op: Any, operands: list[AxisInfo]) -> AxisInfo:
    a, b = operands
    rank = range(len(a.contiguity))
    contiguity = tuple(gcd(a.contiguity[d], b.constancy[d]) for d in rank)
    known = a.known - b.known if a.known is not None and b.known is not None else None
    return AxisInfo(
        contiguity,
        tuple(gcd(a.aligned(d, contiguity[d]), b.aligned(d, contiguity[d])) for d in rank),
        tuple(map(gcd, a.constancy, b.constancy)),
        known,
        known is not None and known >= 0,
    )


@_rule("arith.muli")
def _mul(op: Any, operands: list[AxisInfo]) -> AxisInfo:
    a, b = operands
    if a.known == 1:
        a, b = b, a
    if b.known == 1:
        return a
    rank = range(len(a.contiguity))
    known = a.known * b.known if a.known is not None and b.known is not None else None
    return AxisInfo(
        (1,) * len(a.contiguity),
        tuple(min(a.every(d) * b.every(d), MOST) for d in rank),
        tuple(map(gcd, a.constancy, b.constancy)),
        known,
        a.natural and b.natural,
    )


def _same_in_group(a: AxisInfo, b: AxisInfo, axis: int) -> int:
    """How many neighbours differ in their remainder by b only, not in their quotient: groups
    that start at multiples of a number that divides b."""
    group = min(a.contiguity[axis], b.constancy[axis])
    return gcd(group, gcd(a.aligned(axis, group), b.divisibility[axis]))


@_rule("arith.divsi", "arith.divui", "arith.floordivsi")
def _div(op: Any, operands: list[AxisInfo]) -> AxisInfo:
    a, b = operands
    if b.known == 1:
        return a
    base = _default(op, op.results[0].type, operands)
    # Rounding toward zero makes the groups around zero differ, a negative divisor those of floor.
    signed = op.name == "arith.divsi" and not a.natural
    if signed or (op.name == "arith.floordivsi" and not b.natural):
        return base
    natural = a.natural and (op.name == "arith.divui" or b.natural)
    constancy = tuple(
        max(c, _same_in_group(a, b, d)) for d, c in enumerate(base.constancy)
    )
    divisibility = base.divisibility
    if b.known is not None and b.known > 0 and b.known & (b.known - 1) == 0:
        divisibility = tuple(
            max(a.aligned(d, constancy[d]) // b.known, 1) for d in range(len(constancy))
        )
        # What is divisible in groups of the quotient must be so for all its elements.
        divisibility = tuple(
            q if constancy[d] >= a.contiguity[d] or a.contiguity[d] == 1 else 1
            for d, q in enumerate(divisibility)
        )
    return replace(base, constancy=constancy, divisibility=divisibility, natural=natural)


@_rule("arith.remsi", "arith.remui")
def _rem(op: Any, operands: list[AxisInfo]) -> AxisInfo:
    a, b = operands
    base = _default(op, op.results[0].type, operands)
    rank = range(len(a.contiguity))
    contiguity = base.contiguity
    if op.name == "arith.remui" or a.natural:
        contiguity = tuple(_same_in_group(a, b, d) for d in rank)
    divisibility = tuple(gcd(a.aligned(d, contiguity[d]), b.divisibility[d]) for d in rank)
    return replace(base, contiguity=contiguity, divisibility=divisibility, natural=a.natural)


@_rule("arith.shli")
def _shift_left(op: Any, operands: list[AxisInfo]) -> AxisInfo:
    a, b = operands
    if b.known is None or not 0 <= b.known < 62:
        return _default(op, op.results[0].type, operands)
    return _mul(op, [a, replace(b, known=1 << b.known, divisibility=tuple(
        1 << b.known for _ in b.divisibility))])  # fmt: skip


@_rule("arith.shrsi", "arith.shrui")
def _shift_right(op: Any, operands: list[AxisInfo]) -> AxisInfo:
    a, b = operands
    base = _default(op, op.results[0].type, operands)
    if b.known is None or not 0 <= b.known < 62:
        return base
    divisor = replace(b, divisibility=tuple(1 << b.known for _ in b.divisibility))
    constancy = tuple(
        max(c, _same_in_group(a, divisor, d)) for d, c in enumerate(base.constancy)
    )
    return replace(base, constancy=constancy, natural=a.natural)


@_rule("arith.andi")
def _and(op: Any, operands: list[AxisInfo]) -> AxisInfo:
    a, b = operands
    if a.known is not None:
        a, b = b, a
    base = _default(op, op.results[0].type, operands)
    if b.known is None or b.known < 0 or ir.element_type(op.results[0].type) == ir.i1:
        return base
    # The low bits (mask 2^k - 1) are a remainder; clear low bits make groups equal.
    rank = range(len(a.contiguity))
    if b.known & (b.known + 1) == 0:
        divisor = replace(b, divisibility=tuple(b.known + 1 for _ in rank))
        contiguity = tuple(_same_in_group(a, divisor, d) for d in rank)
        return replace(
            base, contiguity=contiguity, natural=True,
            divisibility=tuple(gcd(a.aligned(d, contiguity[d]), b.known + 1) for d in rank),
        )  # fmt: skip
    return replace(base, natural=True)


@_rule("arith.cmpi")
def _compare(op: Any, operands: list[AxisInfo]) -> AxisInfo:
    a, b = operands
    base = _default(op, op.results[0].type, operands)
    kind = op.predicate.name[-2:]
    constancy = list(base.constancy)
    for d in range(len(constancy)):
        # 16 m + r < 16 k does not depend on 0 <= r < 16; nor does >=, nor either of the others
        # seen from the right.
        if kind in ("LT", "GE"):
            constancy[d] = max(constancy[d], _same_in_group(a, b, d))
        if kind in ("GT", "LE"):
            constancy[d] = max(constancy[d], _same_in_group(b, a, d))
    return replace(base, constancy=tuple(constancy))


@_rule("arith.select")
def _select(op: Any, operands: list[AxisInfo]) -> AxisInfo:
    condition, a, b = operands
    rank = len(a.contiguity)
    held = condition.constancy
    if len(held) != rank:
        held = _shape(op.results[0].type)
    both = join(a, b)
    contiguity = tuple(map(gcd, both.contiguity, held))
    return AxisInfo(
        contiguity,
        tuple(both.aligned(d, c) for d, c in enumerate(contiguity)),
        tuple(map(gcd, both.constancy, held)),
        both.known,
        both.natural,
    )


@_rule("arith.minsi", "arith.maxsi", "arith.minui", "arith.maxui")
def _min_max(op: Any, operands: list[AxisInfo]) -> AxisInfo:
    a, b = operands
    base = _default(op, op.results[0].type, operands)
    every = tuple(gcd(a.every(d), b.every(d)) for d in range(len(a.contiguity)))
    natural = a.natural and b.natural
    if op.name == "arith.maxsi":
        natural = a.natural or b.natural
    return replace(base, divisibility=every, natural=natural)


@_rule("arith.extsi", "arith.extui", "arith.index_cast")
def _extend(op: Any, operands: list[AxisInfo]) -> AxisInfo:
    (a,) = operands
    if ir.element_type(op.operands[0].type) == ir.i1:
        return _default(op, op.results[0].type, operands)
    return replace(a, known=a.known if a.known is None or a.known >= 0 else None)


@_rule("arith.trunci")
def _truncate(op: Any, operands: list[AxisInfo]) -> AxisInfo:
    (a,) = operands
    return replace(a, known=None, natural=False)
