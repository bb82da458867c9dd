"""Replace operations on floats by operations on the payloads that stand for them.

before:
    %z = arith.addf %x, %y : f32
after:
    %p = (the payload of %x), %q = (that of %y): bits, mixed; see `payloads.embed`
    %s = arith.addi %p, %q : i32
    %z = (the float with the payload %s) : f32

Values keep their types, so that memory, loops, selections and moves are what they were. Ops say by
`exact` which rule replaces them; functions of which nothing is known become a mixture of their
operands and their name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, SSAValue

from tritium.ir import types as ir
from tritium.ops.arith import AddIOp, CmpFPredicate, MaxSIOp, MinSIOp
from tritium.ops.base import Op
from tritium.passes.base import Pass
from tritium.passes.rewriting import Builder, erase, reduced_along
from tritium.sanitize.exact.atomic_sums import add_payloads, find_and_add
from tritium.sanitize.exact.payloads import Payloads
from tritium.sanitize.exact.ring import ring_of
from tritium.sanitize.sites import kernel_of


@dataclass(frozen=True)
class ExactAlgebra(Pass):
    """Replace operations on floats by operations on payloads."""

    name: ClassVar[str] = "exact-algebra"

    def run(self, module: ModuleOp) -> bool:
        kernel = kernel_of(module)
        known: dict[SSAValue, SSAValue] = {}
        for op in list(kernel.walk()):
            if isinstance(op, Op):
                _Compiled(op, known).replace()
        return True


def _is_real(value: Any) -> bool:
    return ir.is_float(getattr(value.type, "element_type", value.type))  # of memory, too


def _refusal(op: Op) -> NotImplementedError:
    return NotImplementedError(
        f"{op.name} has no meaning in exact comparisons (instrumentation_mode 'exact' or 'fpsan'): "
        "the hardware would compute with what stands for a float there as if it were one; scaled "
        "products and products of memory by tensor cores are refused"
    )


class Replacement:
    """The code that stands for one op, which is built before it.

    Args:
        at: makes the ops.
        op: says by its class, its attributes and the types of its results what is replaced.
        inputs: its operands.
    """

    def __init__(self, at: Any, op: Any, inputs: Sequence[Any]):
        self.at, self.op, self.inputs = at, op, inputs

    def run(self) -> Any:
        """The value to take for the op's result; None where the op stays. Raises
        `NotImplementedError` where it has no meaning."""
        op, rule = self.op, self.op.exact
        if not any(map(_is_real, (*self.inputs, *op.results))):
            return None
        if not rule:
            if op.movement is not None or not op.is_elementwise:
                return None
            rule = "tag" if len(op.results) == 1 and _is_real(op.results[0]) else "none"
        if rule == "bits":
            return None
        if rule == "none":
            raise _refusal(op)
        found = _RULES[rule](self)
        if not _is_real(op.results[0]):
            return found
        return self.unembedded(Payloads(self.at, op.results[0].type), found)

    @property
    def own(self) -> Payloads:
        """Payloads of the result's type, or of the first operand's where the result is no float."""
        result = self.op.results[0]
        return Payloads(self.at, (result if _is_real(result) else self.inputs[0]).type)

    def payload(self, value: Any) -> Any:
        """The payload of an operand."""
        return Payloads(self.at, value.type).embed(value)

    def unembedded(self, own: Payloads, payload: Any) -> Any:
        """The float of the result's payload."""
        return own.unembed(payload)

    def summed(self, value: Any, axis: int) -> Any:
        """The sum of integers along an axis."""
        return reduced_along(self.at, value, axis, AddIOp)

    def operands(self) -> list[Any]:
        """The payloads of all operands."""
        return [self.payload(v) for v in self.inputs]

    # Rules

    def combined(self, function: Callable[..., SSAValue]) -> SSAValue:
        """A function of the operands' payloads."""
        return function(self.own, *self.operands())

    def picked(self, cls: type[Op]) -> SSAValue:
        """The least or the greatest of two payloads, as signed numbers."""
        return self.at.value(cls, *self.operands())

    def clamped(self) -> SSAValue:
        """The operand, but within limits."""
        x, low, high = self.operands()
        return self.at.value(MinSIOp, self.at.value(MaxSIOp, x, low), high)

    def compared(self) -> SSAValue:
        """The comparison of payloads as signed numbers; none is a NaN."""
        kind, own = self.op.predicate, self.own
        a, b = self.operands()
        if kind in (CmpFPredicate.FALSE, CmpFPredicate.UNO):
            return self.at.constant(0, self.op.results[0])
        if kind in (CmpFPredicate.TRUE, CmpFPredicate.ORD):
            return self.at.constant(1, self.op.results[0])
        word = kind.name[1:].lower()
        return own.compare(word if word in ("eq", "ne") else f"s{word}", a, b)

    def resized(self) -> SSAValue:
        """The payload in the ring of another type."""
        (operand,) = self.inputs
        return self.own.resized(self.payload(operand), ring_of(ir.element_type(operand.type)))

    def tagged(self) -> SSAValue:
        """A mixture of the operands and the function's name."""
        own, operands = self.own, list[SSAValue]()
        for operand in self.inputs:
            if not _is_real(operand):
                raise _refusal(self.op)
            ring = ring_of(ir.element_type(operand.type))
            operands.append(own.resized(self.payload(operand), ring))
        return own.tagged(getattr(self.op, "symbol", "") or self.op.name, operands)

    def root(self) -> SSAValue:
        """The square root, whose name is the same for all precisions."""
        return self.own.tagged("square root", self.operands())

    def dot(self) -> SSAValue:
        """The same op on integers. It extends narrower ones by their sign."""
        own, (a, b, c) = self.own, self.operands()
        a, b = (self._no_wider(v, operand) for v, operand in zip((a, b), self.inputs, strict=False))
        return own.add(self.at.value(type(self.op), a, b, own.like(0, c)), c)

    def _no_wider(self, payload: Any, operand: Any) -> Any:
        """The payload of an operand in the ring of the result, unless its own is smaller."""
        ring = ring_of(ir.element_type(operand.type))
        return self.own.resized(payload, ring) if ring.bits > self.own.ring.bits else payload

    def atomic_sum(self) -> Any:
        """The payload of what an atomic sum found in memory, to which it has added."""
        raise _refusal(self.op)

    def ordered(self) -> SSAValue:
        """The same op on payloads, which it orders as signed numbers."""
        op, (operand,) = self.op, self.inputs
        attributes = {name: getattr(op, name) for name in op.attr_fields}
        result = self.own.payloads(op.results[0].type)
        return self.at.value(type(op), self.payload(operand), result=result, **attributes)


class _Compiled(Replacement):
    """One op of a kernel that is compiled.

    Args:
        known: the payloads of floats, as far as they have been computed.
    """

    def __init__(self, op: Op, known: dict[SSAValue, SSAValue]):
        super().__init__(Builder(op), op, op.operands)
        self.known = known

    def replace(self) -> None:
        """Put what stands for the op in its place."""
        found = self.run()
        if found is None:
            return
        (result,) = self.op.results
        found.name_hint = result.name_hint
        result.replace_all_uses_with(found)
        erase(self.op)

    def payload(self, value: SSAValue) -> SSAValue:
        """The payload of an operand, computed once, where the operand is."""
        if value not in self.known:
            owner = value.owner
            place = owner.first_op if isinstance(owner, Block) else owner.next_op
            assert place is not None
            self.known[value] = Payloads(Builder(place), value.type).embed(value)
        return self.known[value]

    def atomic_sum(self) -> SSAValue:
        op: Any = self.op
        update = op.as_update(self.at)
        if op.results[0].uses:
            found = self.own.embed(find_and_add(update))
        else:
            add_payloads(update)
            found = self.own.constant(0.0, self.own.embed(self.inputs[1]))  # for the unused result
        if update is not op:
            erase(update)
        return found

    def unembedded(self, own: Payloads, payload: SSAValue) -> SSAValue:
        """The float of the result's payload, which is known."""
        found = own.unembed(payload)
        self.known[found] = payload
        return found


def _quotient(own: Payloads, a: SSAValue, b: SSAValue) -> SSAValue:
    return own.product(a, own.inverse(b))


def _fused(own: Payloads, a: SSAValue, b: SSAValue, c: SSAValue) -> SSAValue:
    return own.add(own.product(a, b), c)


def _cosine(own: Payloads, a: SSAValue) -> SSAValue:
    return own.cosine_and_sine(a)[0]


def _sine(own: Payloads, a: SSAValue) -> SSAValue:
    return own.cosine_and_sine(a)[1]


_Rule = Callable[[Replacement], SSAValue]


def _combined(function: Callable[..., SSAValue]) -> _Rule:
    return lambda replaced: replaced.combined(function)


_RULES: dict[str, _Rule] = {
    "sum": _combined(Payloads.add),
    "difference": _combined(Payloads.sub),
    "product": _combined(Payloads.product),
    "quotient": _combined(_quotient),
    "negative": _combined(Payloads.negative),
    "fused": _combined(_fused),
    "least": lambda replaced: replaced.picked(MinSIOp),
    "greatest": lambda replaced: replaced.picked(MaxSIOp),
    "clamp": Replacement.clamped,
    "compare": Replacement.compared,
    "power": _combined(Payloads.power),
    "exponential": _combined(Payloads.exponential),
    "cosine": _combined(_cosine),
    "sine": _combined(_sine),
    "root": Replacement.root,
    "inverse root": lambda replaced: replaced.own.inverse(replaced.root()),
    "resize": Replacement.resized,
    "dot": Replacement.dot,
    "ordered": Replacement.ordered,
    "atomic sum": lambda replaced: replaced.atomic_sum(),
    "tag": Replacement.tagged,
}
"""The rules by `Op.exact`."""
