"""Exact numbers in interpreted kernels: the same replacements as in compiled ones, evaluated at
once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tritium.ir import types as ir
from tritium.language.emitter import Evaluated
from tritium.ops.arith.constant import ConstantOp, constant_attr
from tritium.sanitize.exact.algebra import Replacement


class Emitting:
    """Makes the ops of `Payloads` through the emitter of a kernel."""

    def __init__(self, emitter: Any):
        self.emitter = emitter

    def value(self, cls: Any, *operands: Any, **attrs: Any) -> Any:
        """The only result of an op."""
        return self.emitter.emit(cls, *operands, **attrs)[0]

    def constant(self, value: Any, like: Any) -> Any:
        """A constant of the type `like`, or the type of that value."""
        kind = like if isinstance(like, ir.Type) else like.type
        return self.value(ConstantOp, value=constant_attr(value, kind))


class _Interpreted(Replacement):
    def summed(self, value: Any, axis: int) -> Any:
        kept = [n for i, n in enumerate(ir.shape_of(value.type)) if i != axis]
        total = value.array.sum(axis=axis, dtype=value.array.dtype)
        return Evaluated(ir.tensor_of(tuple(kept), ir.element_type(value.type)), total)

    def atomic_sum(self) -> Any:
        pointer, value, *mask = self.op.by_pointers(self.at, self.inputs)
        own: Any = self.own
        element = ir.element_type(value.type)

        def added(old: Any, where: Any) -> Any:
            kind = ir.tensor_of((len(where),), element)
            pair = (Evaluated(kind, a) for a in (old, value.array.reshape(-1)[where]))
            return own.unembed(own.add(*map(own.embed, pair))).array

        active = mask[0].array if mask else None
        found = self.at.emitter.memory.update(pointer.array, value.array.dtype, active, added)
        return own.embed(Evaluated(value.type, found))


def exact_result(emitter: Any, op: Any, operands: Sequence[Any]) -> Any:
    """The result of an op in exact numbers, for handles of its operands; None where the op is
    evaluated as always. Raises `NotImplementedError` where it has no meaning."""
    found = _Interpreted(Emitting(emitter), op, operands).run()
    return None if found is None else found.array
