"""Replace atomic sums of floats by sums of the payloads that stand for them.

before:
    tt.atomic_rmw fadd, relaxed, gpu, %p, %x, %m
after:
    scf.while (%rest = %x, %left = %m) {
      %taken = tt.atomic_rmw exch, relaxed, gpu, %p, 0.0, %left
      %sum = (the float with the sum of the payloads of %taken and %rest)
      %found = tt.atomic_rmw exch, relaxed, gpu, %p, %sum, %left
      %more = %left and %found is not 0
      scf.condition(any of %more) %found, %more
    } do { yield }

A program takes out what memory holds, and puts the sum back. What others have put there meanwhile
it takes along, and adds it in turn; nothing is lost, and 0 adds nothing. (A compare-and-swap takes
no mask.) Memory may be 0 for a moment.

Where the program uses what the sum finds, a loop compares and exchanges (%q is %p; where %m is
false, the highest address of those where it is true):

    scf.while (%guess = 0.0, %left = %m) {
      scf.condition(any of %left) %guess, %left
    } do {
      %sum = (the float with the sum of the payloads of %guess and %x)
      %seen = (compare and swap) %q, %guess, %sum        (0.0, 0.0 where not %left)
      yield (%seen where %left, else %guess), %left and %seen is not %guess
    }
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from functools import partial

from xdsl.ir import Block, Region, SSAValue

from tritium.ir import types as ir
from tritium.ops.arith import AndIOp, MaxUIOp, OrIOp
from tritium.ops.arith.constant import ConstantOp, constant_attr
from tritium.ops.scf import ConditionOp, WhileOp, YieldOp
from tritium.ops.ttir.atomic import AtomicKind, AtomicUpdate
from tritium.ops.ttir.numeric import IntToPtrOp, PtrToIntOp
from tritium.ops.ttir.shape import SplatOp
from tritium.passes.rewriting import Builder, erase, insert_before, reduced
from tritium.sanitize.exact.payloads import Payloads


def add_payloads(op: AtomicUpdate) -> None:
    """Put the loop before an atomic sum whose result is not used."""
    at, mask = Builder(op), op.mask
    if mask is None:
        mask = _everywhere(at, op)
    types = [op.val.type, mask.type]
    test, repeat = Block(arg_types=types), Block(arg_types=types)
    repeat.add_op(YieldOp.build(tuple(repeat.args), location=op.location))
    with _inside(test, op) as within:
        rest, left = test.args
        own = Payloads(within, op.val.type)
        exchange = partial(within.value, type(op), op.ptr, atomic_rmw_op=AtomicKind.XCHG,
                           sem=op.sem, scope=op.scope)  # fmt: skip
        taken = exchange(within.constant(0.0, rest), left)
        found = exchange(own.unembed(own.add(own.embed(taken), own.embed(rest))), left)
        more = within.value(AndIOp, left, own.compare("ne", own.embed(found), 0))
        within.make(ConditionOp, reduced(within, more, OrIOp), (found, more))
    at.make(WhileOp, (op.val, mask), result=types, regions=[Region(test), Region(repeat)])


def find_and_add(op: AtomicUpdate) -> SSAValue:
    """Put the loop before an atomic sum whose result is used; what it finds, 0 where the mask is
    false."""
    at, ptr = Builder(op), op.ptr
    if op.mask is not None and ir.shape_of(op.mask.type):
        ptr = _allowed(at, op.ptr, op.mask)
    mask = op.mask or _everywhere(at, op)
    types = [op.val.type, mask.type]
    test, repeat = Block(arg_types=types), Block(arg_types=types)
    with _inside(test, op) as within:
        within.make(ConditionOp, reduced(within, test.args[1], OrIOp), tuple(test.args))
    with _inside(repeat, op) as within:
        guess, left = repeat.args
        own, zero = Payloads(within, op.val.type), within.constant(0.0, guess)
        old = own.embed(guess)
        total = own.unembed(own.add(old, own.embed(op.val)))
        swap = op.exchange(ptr, within.chosen(left, guess, zero), within.chosen(left, total, zero))
        insert_before(within.before, swap)
        now = within.chosen(left, swap.result, guess)
        missed = within.value(AndIOp, left, own.compare("ne", own.embed(now), old))
        within.make(YieldOp, (now, missed))
    start = at.constant(0.0, op.val), mask
    loop = at.make(WhileOp, start, result=types, regions=[Region(test), Region(repeat)])
    return loop.results[0]


def _allowed(at: Builder, ptr: SSAValue, mask: SSAValue) -> SSAValue:
    """Pointers to memory that may be accessed, also where the mask is false, if it is true
    anywhere: there nothing is exchanged, but a compare-and-swap takes no mask."""
    numbers = ir.with_element(ptr.type, ir.i64)
    address = at.value(PtrToIntOp, ptr, result=numbers)
    highest = reduced(at, at.chosen(mask, address, at.constant(0, numbers)), MaxUIOp)
    spread = at.value(SplatOp, highest, result=numbers)
    return at.value(IntToPtrOp, at.chosen(mask, address, spread), result=ptr.type)


def _everywhere(at: Builder, op: AtomicUpdate) -> SSAValue:
    """The mask that is true everywhere."""
    return at.constant(1, ir.with_element(op.val.type, ir.i1))


@contextmanager
def _inside(block: Block, op: AtomicUpdate) -> Generator[Builder]:
    """A builder of the ops of an empty block."""
    place = ConstantOp.build(value=constant_attr(0, ir.i1), location=op.location)
    block.add_op(place)
    yield Builder(place)
    erase(place)
