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
it takes along, and adds it in turn; nothing is lost, and 0 adds nothing. (`tt.atomic_cas` takes no
mask.) Memory may be 0 for a moment: what an atomic sum finds there has no meaning.
"""

from __future__ import annotations

from functools import partial

from xdsl.ir import Block, Region

from tritium.ir import types as ir
from tritium.ops.arith import AndIOp, OrIOp
from tritium.ops.arith.constant import ConstantOp, constant_attr
from tritium.ops.scf import ConditionOp, WhileOp, YieldOp
from tritium.ops.ttir.atomic import AtomicKind, AtomicUpdate
from tritium.passes.rewriting import Builder, erase, reduced
from tritium.sanitize.exact.payloads import Payloads


def add_payloads(op: AtomicUpdate) -> None:
    """Put the loop before an atomic sum. Raises `NotImplementedError` where its result is used."""
    if op.results[0].uses:
        raise NotImplementedError(
            f"{op.name}: what an atomic sum of floats found in memory has no meaning in exact "
            "comparisons (instrumentation_mode 'exact' or 'fpsan'); only sums whose result is not "
            "used are added up"
        )
    at, mask = Builder(op), op.mask
    if mask is None:
        mask = at.constant(1, ir.with_element(op.val.type, ir.i1))
    types = [op.val.type, mask.type]
    test, repeat = Block(arg_types=types), Block(arg_types=types)
    repeat.add_op(YieldOp.build(tuple(repeat.args), location=op.location))
    place = ConstantOp.build(value=constant_attr(0, ir.i1), location=op.location)
    test.add_op(place)
    within, (rest, left) = Builder(place), test.args
    own = Payloads(within, op.val.type)
    exchange = partial(within.value, type(op), op.ptr, atomic_rmw_op=AtomicKind.XCHG, sem=op.sem,
                       scope=op.scope)  # fmt: skip
    taken = exchange(within.constant(0.0, rest), left)
    found = exchange(own.unembed(own.add(own.embed(taken), own.embed(rest))), left)
    more = within.value(AndIOp, left, own.compare("ne", own.embed(found), 0))
    within.make(ConditionOp, reduced(within, more, OrIOp), (found, more))
    erase(place)
    at.make(WhileOp, (op.val, mask), result=types, regions=[Region(test), Region(repeat)])
