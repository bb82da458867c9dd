"""Python's operators on numbers that a kernel assigned to names: they wrap, round and promote as
the scalars do that the names stand for."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, cast

from xdsl.ir import SSAValue

from tritium.language import emitter
from tritium.language.builtins import arithmetic, casts
from tritium.language.values.constexpr import OF_SCALARS, as_assigned, scalar_of
from tritium.language.values.tensor import tensor
from tritium.ops.base import Op


class _Folder:
    """An emitter that computes each op at once; all operands are constants."""

    def __init__(self, features: emitter.TargetFeatures):
        self.features = replace(features, debug=False)
        self.values: dict[SSAValue, Any] = {}

    def emit(self, cls: type[Op], *operands: SSAValue, **attrs: Any) -> tuple[SSAValue, ...]:
        """Build the op and compute its results. Raises `ValueError` where it has none."""
        from tritium.ops.evaluation import fold  # which launches from the cache do not need

        op = cls.build(*operands, **attrs)
        found = fold(op, [self.values[operand] for operand in op.operands])
        if found is None:
            raise ValueError(f"{cls.name} of these numbers has no result")
        self.values.update(zip(op.results, found, strict=True))
        return tuple(op.results)


def _computed(compute: Callable[..., tensor], *operands: object) -> object:
    """The result of `compute` on these numbers: a bool, or a number of the result's dtype."""
    folder = _Folder(emitter.current().features if emitter.active() else emitter.TargetFeatures())
    with emitter.activate(cast("emitter.Emitter", folder)):
        result = compute(*operands)
    number, dtype = folder.values[result.handle].item(), result.dtype
    if dtype.is_int_unsigned() and not dtype.is_bool():  # the IR's integers have no sign
        number %= 1 << dtype.int_bitwidth
    return as_assigned(number, dtype)


def _divided(compute: Callable[..., tensor], left: object, right: object) -> object:
    """`//` and `%`. Raises `ZeroDivisionError` for integers, which have no such quotient."""
    if right == 0 and not isinstance(left, float) and not isinstance(right, float):
        raise ZeroDivisionError("integer division or modulo by zero")
    return _computed(compute, left, right)


OF_SCALARS.update({
    scalar_of: casts.to_tensor,
    operator.add: partial(_computed, arithmetic.add),
    operator.sub: partial(_computed, arithmetic.sub),
    operator.mul: partial(_computed, arithmetic.mul),
    operator.truediv: partial(_computed, arithmetic.truediv),
    operator.floordiv: partial(_divided, arithmetic.floordiv),
    operator.mod: partial(_divided, arithmetic.mod),
    operator.and_: partial(_computed, arithmetic.and_),
    operator.or_: partial(_computed, arithmetic.or_),
    operator.xor: partial(_computed, arithmetic.xor),
    operator.lshift: partial(_computed, arithmetic.lshift),
    operator.rshift: partial(_computed, arithmetic.rshift),
    operator.neg: partial(_computed, arithmetic.negate),
    operator.pos: partial(_computed, casts.to_tensor),
    operator.invert: partial(_computed, arithmetic.invert),
    **{
        getattr(operator, kind): partial(_computed, partial(arithmetic.compare, kind))
        for kind in ("eq", "ne", "lt", "le", "gt", "ge")
    },
})  # fmt: skip
