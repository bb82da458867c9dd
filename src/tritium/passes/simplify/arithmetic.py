"""Constant folding, and identities of `arith` and `math`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from tritium.analysis.axis_info import is_stated
from tritium.analysis.intervals import range_of
from tritium.ir import types as ir
from tritium.ops.arith.compare import CmpIOp, CmpIPredicate, SelectOp
from tritium.ops.arith.floating import DivFOp, MulFOp
from tritium.ops.arith.integer import AddIOp, DivisionOp, RemainderOp, SubIOp, XOrIOp
from tritium.ops.base import Op
from tritium.ops.dialects import op_classes
from tritium.ops.elementwise import BinaryOp, CastOp, SameBitsOp, UnaryOp
from tritium.ops.terminators import is_terminator
from tritium.passes.rewriting import Pattern, Rewriter

NO_CONTEXT: Any = None


def is_zero(number: object) -> bool:
    """True if a known integer is 0."""
    return number is not None and number == 0


def is_ones(number: object) -> bool:
    """True if all bits of a known integer are set."""
    if number is None:
        return False
    truth = np.asarray(number).dtype == np.bool_
    return bool(number) if truth else bool(number == -1)


def owner_of(value: SSAValue, *classes: type[Op]) -> Any | None:
    """The op that defines the value, if it is of one of these classes."""
    owner = value.owner
    return owner if type(owner) in classes else None


def joined(op: Op, rewriter: Rewriter, cls: type[Op], *inner: type[Op]) -> bool:
    """op(inner x) -> cls x"""
    owner = owner_of(op.operands[0], *inner)
    if owner is None:
        return False
    return rewriter.become(op, cls, owner.operands[0], result=op.results[0].type)


def fold(op: Op, rewriter: Rewriter) -> bool:
    """An elementwise op of constants -> a constant, which may be no pointer: int_to_ptr c stays."""
    if ir.is_pointer(op.results[0].type):
        return False
    values: list[Any] = []
    for operand in op.operands:
        number = rewriter.known(operand)
        if number is None:
            return False
        values.append(number)
    if isinstance(op, DivisionOp) and (values[1] == 0 or is_ones(values[1])):
        return False
    with np.errstate(all="ignore"):
        result = op.evaluate(NO_CONTEXT, *values)
    return rewriter.replace(op, rewriter.constant(result, op.results[0], op))


def constant_to_right(op: Op, rewriter: Rewriter) -> bool:
    """c + x -> x + c"""
    left, right = op.operands
    if rewriter.known(left) is None or rewriter.known(right) is not None:
        return False
    op.operands = [right, left]
    return True


def combine_constants(op: Op, rewriter: Rewriter) -> bool:
    """(x + c) + d -> x + (c + d), and so for other associative integer ops"""
    left, right = op.operands
    outer = rewriter.known(right)
    inner = owner_of(left, type(op))
    if outer is None or inner is None:
        return False
    first = rewriter.known(inner.operands[1])
    if first is None:
        return False
    with np.errstate(all="ignore"):
        number = op.evaluate(NO_CONTEXT, first, outer)
    total = rewriter.constant(number, right, op)
    return rewriter.become(op, type(op), inner.operands[0], total)


def combine_sum(op: Op, rewriter: Rewriter) -> bool:
    """(x + c) - d -> x + (c - d), (x - c) - d -> x - (c + d), (x - c) + d -> x + (d - c)"""
    left, right = op.operands
    outer = rewriter.known(right)
    inner = owner_of(left, AddIOp, SubIOp)
    if outer is None or inner is None or type(op) is type(inner) is AddIOp:
        return False
    first = rewriter.known(inner.operands[1])
    if first is None:
        return False
    with np.errstate(all="ignore"):
        if type(op) is type(inner):
            number, kind = first + outer, SubIOp
        else:
            number, kind = (first - outer if type(op) is SubIOp else outer - first), AddIOp
    total = rewriter.constant(number, right, op)
    return rewriter.become(op, kind, inner.operands[0], total)


def is_number(number: Any | None, wanted: float | int | None) -> bool:
    """True if a known number is the wanted one; of integers, -1 is the one whose bits are all set,
    and zeros of floating-point numbers have signs."""
    if number is None or wanted is None:
        return False
    if np.asarray(number).dtype == np.bool_:
        return bool(number) == bool(wanted)
    return bool(number == wanted) and bool(np.signbit(number) == np.signbit(wanted))


def neutral(op: BinaryOp, rewriter: Rewriter) -> bool:
    """x + 0, x - 0, x * 1, x & ~0, x << 0, x / 1, x + -0.0 -> x, unless the op is there for the
    facts that it states"""
    left, right = op.operands
    wanted = op.identity_of(right.type) if op.commutative else op.right_neutral
    if is_stated(op) or not is_number(rewriter.known(right), wanted):
        return False
    return rewriter.replace(op, left)


def absorbed(op: BinaryOp, rewriter: Rewriter) -> bool:
    """x * 0, x & 0 -> 0;  x | ~0 -> ~0"""
    right = op.operands[1]
    return is_number(rewriter.known(right), op.absorbing) and rewriter.replace(op, right)


def only_carried(op: Op) -> bool:
    """True if nothing but terminators uses the op's result, and it states no facts."""
    users = [use.operation for use in op.results[0].uses]
    return not is_stated(op) and bool(users) and all(map(is_terminator, users))


def add_to_stated(op: Op, rewriter: Rewriter) -> bool:
    """(x + 0) + y -> x + y where it is only carried on, so that what states facts is in no chain of
    sums from one iteration to the next"""
    if not only_carried(op):
        return False
    inner = [owner_of(operand, AddIOp) for operand in op.operands]
    plain = [
        operand if sum_ is None or not is_zero(rewriter.known(sum_.operands[1]))
        else sum_.operands[0]
        for operand, sum_ in zip(op.operands, inner, strict=True)
    ]  # fmt: skip
    if plain == list(op.operands):
        return False
    op.operands = plain
    return True


def remainder_one(op: Op, rewriter: Rewriter) -> bool:
    """x % 1 -> 0"""
    if not is_number(rewriter.known(op.operands[1]), 1) or op.results[0].type == ir.i1:
        return False
    return rewriter.replace(op, rewriter.constant(0, op.results[0], op))


def same_gives_zero(op: Op, rewriter: Rewriter) -> bool:
    """x - x, x ^ x -> 0"""
    left, right = op.operands
    return left is right and rewriter.replace(op, rewriter.constant(0, left, op))


def same_gives_same(op: Op, rewriter: Rewriter) -> bool:
    """x & x, x | x, min(x, x), max(x, x) -> x"""
    left, right = op.operands
    return left is right and rewriter.replace(op, left)


# Comparisons and selection

_MIRRORED = {
    CmpIPredicate.EQ: CmpIPredicate.EQ,
    CmpIPredicate.NE: CmpIPredicate.NE,
    CmpIPredicate.SLT: CmpIPredicate.SGT,
    CmpIPredicate.SLE: CmpIPredicate.SGE,
    CmpIPredicate.SGT: CmpIPredicate.SLT,
    CmpIPredicate.SGE: CmpIPredicate.SLE,
    CmpIPredicate.ULT: CmpIPredicate.UGT,
    CmpIPredicate.ULE: CmpIPredicate.UGE,
    CmpIPredicate.UGT: CmpIPredicate.ULT,
    CmpIPredicate.UGE: CmpIPredicate.ULE,
}
_REFLEXIVE = (
    CmpIPredicate.EQ, CmpIPredicate.SLE, CmpIPredicate.SGE, CmpIPredicate.ULE, CmpIPredicate.UGE,
)  # fmt: skip


def compare_same(op: CmpIOp, rewriter: Rewriter) -> bool:
    """x == x, x <= x -> true;  x < x -> false"""
    left, right = op.operands
    if left is not right:
        return False
    return rewriter.replace(op, rewriter.constant(op.predicate in _REFLEXIVE, op.results[0], op))


def compare_constant_to_right(op: CmpIOp, rewriter: Rewriter) -> bool:
    """c < x -> x > c"""
    left, right = op.operands
    if rewriter.known(left) is None or rewriter.known(right) is not None:
        return False
    return rewriter.become(op, CmpIOp, right, left, predicate=_MIRRORED[op.predicate])


def compare_truth(op: CmpIOp, rewriter: Rewriter) -> bool:
    """b != false, b == true -> b"""
    left, right = op.operands
    number = rewriter.known(right)
    if number is None or ir.element_type(left.type) != ir.i1:
        return False
    if (op.predicate, bool(number)) in ((CmpIPredicate.NE, False), (CmpIPredicate.EQ, True)):
        return rewriter.replace(op, left)
    return False


_COMPARED = 12
"""Values that each operand's range is computed from: comparisons are many."""


def compare_ranges(op: CmpIOp, rewriter: Rewriter) -> bool:
    """A comparison that the ranges of its operands decide -> a constant."""
    kind = op.predicate.name
    right = range_of(op.operands[1], _COMPARED)  # first, as nothing is known of most bounds
    left = range_of(op.operands[0], _COMPARED) if right is not None else None
    if left is None or right is None or ir.element_type(op.operands[0].type) == ir.i1:
        return False
    (low, high), (first, last) = left, right
    if kind[0] == "U" and (low < 0 or first < 0):
        return False
    apart = high < first or last < low
    decided = {
        "EQ": (False if apart else None),
        "NE": (True if apart else None),
        "LT": (True if high < first else False if low >= last else None),
        "LE": (True if high <= first else False if low > last else None),
        "GT": (True if low > last else False if high <= first else None),
        "GE": (True if low >= last else False if high < first else None),
    }[kind[-2:]]
    if decided is None:
        return False
    return rewriter.replace(op, rewriter.constant(decided, op.results[0], op))


def select_known(op: SelectOp, rewriter: Rewriter) -> bool:
    """select(true, a, b) -> a;  select(c, a, a) -> a"""
    condition, yes, no = op.operands
    if yes is no:
        return rewriter.replace(op, yes)
    number = rewriter.known(condition)
    return number is not None and rewriter.replace(op, yes if number else no)


def select_truth(op: SelectOp, rewriter: Rewriter) -> bool:
    """select(c, true, false) -> c;  select(c, false, true) -> c ^ true"""
    condition, yes, no = op.operands
    if yes.type != condition.type:
        return False
    first, second = rewriter.known(yes), rewriter.known(no)
    if first is None or second is None:
        return False
    if first:
        return rewriter.replace(op, condition)
    return rewriter.become(op, XOrIOp, condition, rewriter.constant(True, condition, op))


def select_not(op: SelectOp, rewriter: Rewriter) -> bool:
    """select(c ^ true, a, b) -> select(c, b, a)"""
    condition, yes, no = op.operands
    inverted = owner_of(condition, XOrIOp)
    if inverted is None or not is_ones(rewriter.known(inverted.operands[1])):
        return False
    op.operands = [inverted.operands[0], no, yes]
    rewriter.visit(inverted)
    return True


# Floating point


def divide_by_power(op: DivFOp, rewriter: Rewriter) -> bool:
    """x / 2^k -> x * 2^-k: both are the same number rounded once"""
    left, right = op.operands
    number = rewriter.known(right)
    if number is None or ir.bit_width(right.type) < 16 or not np.isfinite(number) or number == 0:
        return False
    mantissa, exponent = math.frexp(float(number))
    # The reciprocal must be exact and not subnormal: some targets flush those to zero.
    limit = {16: 14, 32: 126, 64: 1022}[ir.bit_width(right.type)]
    if abs(mantissa) != 0.5 or abs(exponent - 1) > limit:
        return False
    reciprocal = rewriter.constant(1.0 / float(number), right, op)
    return rewriter.become(op, MulFOp, left, reciprocal, fastmath=op.fastmath)


def applied_twice(op: UnaryOp, rewriter: Rewriter) -> bool:
    """-(-x) -> x"""
    inner = owner_of(op.operands[0], type(op))
    return inner is not None and rewriter.replace(op, inner.operands[0])


# Casts


def same_type(op: Op, rewriter: Rewriter) -> bool:
    """A bitcast, broadcast or reshape to the type it comes from -> nothing."""
    value = op.operands[0]
    return value.type == op.results[0].type and rewriter.replace(op, value)


def cast_chain(op: CastOp, rewriter: Rewriter) -> bool:
    """ext(ext x), trunc(trunc x), bitcast(bitcast x) -> one cast"""
    return joined(op, rewriter, type(op), type(op))


def sign_of_zero_extended(op: CastOp, rewriter: Rewriter) -> bool:
    """extsi(extui x) -> extui x: the sign is known to be 0"""
    inner = _cast_before(op)
    if inner is None or not inner.non_negative or op.source != op.target:
        return False
    return rewriter.become(op, type(inner), inner.operands[0], result=op.results[0].type)


def truncated_extension(op: CastOp, rewriter: Rewriter) -> bool:
    """trunc(ext x) -> x; of integers, also ext x or trunc x"""
    inner = _cast_before(op)
    if inner is None or not inner.widens or not op.source == op.target == inner.source:
        return False
    source, result = inner.operands[0], op.results[0].type
    if source.type == result:
        return rewriter.replace(op, source)
    if op.source != "integer":
        return False
    wider = ir.bit_width(result) > ir.bit_width(source.type)
    return rewriter.become(op, type(inner if wider else op), source, result=result)


def _cast_before(op: CastOp) -> CastOp | None:
    """The cast whose result an op casts."""
    inner = op.operands[0].owner
    return inner if isinstance(inner, CastOp) else None


def elementwise_classes() -> list[type[Op]]:
    """The op classes that are elementwise whatever their attributes."""
    dialects = ("arith", "math", "tt")
    return [cls for name in dialects for cls in op_classes(name) if cls.elementwise]


def patterns() -> dict[type[Op], list[Pattern]]:
    """The patterns of this module by the class of the op that they look at."""
    table: dict[type[Op], list[Pattern]] = {}

    def add(pattern: Pattern, *classes: type[Op]) -> None:
        for cls in classes:
            table.setdefault(cls, []).append(pattern)

    for cls in elementwise_classes():
        add(fold, cls)
        if issubclass(cls, BinaryOp):
            for pattern in _of_binary(cls):
                add(pattern, cls)
        elif issubclass(cls, CastOp):
            for pattern in _of_cast(cls):
                add(pattern, cls)
        elif issubclass(cls, UnaryOp) and cls.involution:
            add(applied_twice, cls)
    add(combine_sum, AddIOp, SubIOp)
    add(add_to_stated, AddIOp)
    add(compare_same, CmpIOp)
    add(compare_constant_to_right, CmpIOp)
    add(compare_truth, CmpIOp)
    add(compare_ranges, CmpIOp)
    add(select_known, SelectOp)
    add(select_truth, SelectOp)
    add(select_not, SelectOp)
    add(divide_by_power, DivFOp)
    return table


def _of_binary(cls: type[BinaryOp]) -> Iterator[Pattern]:
    """The patterns for what is stated on the class of a binary op."""
    if cls.commutative:
        yield constant_to_right
    if cls.commutative or cls.right_neutral is not None:
        yield neutral
    if cls.absorbing is not None:
        yield absorbed
    if issubclass(cls, RemainderOp):
        yield remainder_one
    if cls.cancels:
        yield same_gives_zero
    if cls.idempotent:
        yield same_gives_same
    if cls.associative:
        yield combine_constants


def _of_cast(cls: type[CastOp]) -> Iterator[Pattern]:
    """The patterns for what is stated on the class of a cast."""
    if issubclass(cls, SameBitsOp) and cls.composes:
        yield same_type
    if cls.composes:
        yield cast_chain
    if cls.widens:
        yield sign_of_zero_extended
    if cls.widens is False:
        yield truncated_extension
