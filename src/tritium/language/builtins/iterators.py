"""Iterators of a kernel's `for` and `while`."""

from __future__ import annotations

import builtins
import inspect
from collections.abc import Iterator
from typing import Any

from tritium.language import emitter
from tritium.language.builtins import casts
from tritium.language.builtins.arithmetic import integer_promote
from tritium.language.values.base import base_value
from tritium.language.values.constexpr import constexpr, unwrap
from tritium.language.values.types import dtype, int32


class range(base_value):
    """`range` with hints for the compiler.

    Args:
        arg1, arg2, step: as Python's `range`; integers, known at compile time or not.
        num_stages: how many iterations the loads of a pipelined loop run ahead.
        loop_unroll_factor: unroll the loop by this factor.
        disallow_acc_multi_buffer: keep one buffer for the accumulator of a dot.
        flatten: merge the loop nest into one loop.
        warp_specialize: let a warp of its own start the loop's loads by descriptors (Hopper). It
            comes on top of `num_warps`, with three more that fill up its group.
        disable_licm: keep loop-invariant code inside the loop.

    Iterating over it outside of a kernel raises `RuntimeError`; `TypeError` for a hint that is not
    known at compile time.
    """

    def __init__(
        self,
        arg1: object,
        arg2: object = None,
        step: object = None,
        num_stages: object = None,
        loop_unroll_factor: object = None,
        disallow_acc_multi_buffer: object = False,
        flatten: object = False,
        warp_specialize: object = False,
        disable_licm: object = False,
    ):
        self.start, self.end = (constexpr(0), arg1) if arg2 is None else (arg1, arg2)
        self.step = constexpr(1) if step is None else step
        self.num_stages = _hint("num_stages", num_stages)
        self.loop_unroll_factor = _hint("loop_unroll_factor", loop_unroll_factor)
        self.disallow_acc_multi_buffer = _hint(
            "disallow_acc_multi_buffer", disallow_acc_multi_buffer
        )
        self.flatten = _hint("flatten", flatten)  # pyright: ignore[reportIncompatibleMethodOverride]
        self.warp_specialize = _hint("warp_specialize", warp_specialize)
        self.disable_licm = _hint("disable_licm", disable_licm)

    def __iter__(self) -> Iterator[Any]:
        """Scalars of the bounds' type, as in a compiled loop."""
        if not emitter.active():
            raise RuntimeError("tl.range can only be used in @triton.jit'd functions")
        type = self.variable_type()
        start, end = (int(casts.cast(casts.to_tensor(b), type)) for b in (self.start, self.end))
        for i in builtins.range(start, end, int(casts.to_tensor(self.step))):
            yield casts.constant(i, type)

    def variable_type(self) -> dtype:
        """The variable's type. Raises `TypeError` for bounds that are no integers."""
        bounds = [casts.to_tensor(b) for b in (self.start, self.end, self.step)]
        if not all(b.dtype.is_int() and not b.type.is_block() for b in bounds):
            described = ", ".join(str(b.type) for b in bounds)
            raise TypeError(f"For loop bounds and step must all be ints, are ({described})")
        return common_integer_type([b.dtype for b in bounds])

    def __repr__(self) -> str:
        return f"range({self.start}, {self.end}, {self.step})"


_PARAMETERS = [*inspect.signature(range).parameters]


class python_range(range):
    """Python's `range` in a kernel: it has no argument after the step; hints are keywords."""

    def __init__(self, *bounds: object, **hints: object):
        if not 1 <= len(bounds) <= 3:
            raise TypeError(f"range takes 1 to 3 arguments; got {len(bounds)}")
        if unknown := hints.keys() - {*_PARAMETERS[len(bounds) :]}:
            raise TypeError(
                f"range got an unexpected keyword argument {min(unknown)!r}; its hints are "
                f"{', '.join(_PARAMETERS[3:])}"
            )
        super().__init__(*bounds, **hints)


class static_range(base_value):
    """A loop over compile-time bounds that is fully unrolled; the variable is a constexpr."""

    def __init__(self, arg1: object, arg2: object = None, step: object = None):
        start, end = (0, arg1) if arg2 is None else (arg1, arg2)
        self.start, self.end = constexpr(start), constexpr(end)
        self.step = constexpr(1 if step is None else step)

    def __iter__(self) -> Iterator[Any]:
        if not emitter.active():
            raise RuntimeError("static_range can only be used in @triton.jit'd functions")
        bounds = [unwrap(b) for b in (self.start, self.end, self.step)]
        for i in builtins.range(*(int(b) for b in bounds)):
            yield constexpr(i)

    def __repr__(self) -> str:
        return f"static_range({self.start}, {self.end}, {self.step})"


class condition(base_value):
    """The condition of a `while`, with hints: `while tl.condition(i < n, disable_licm=True)`."""

    def __init__(self, arg1: object, disable_licm: object = False):
        self.condition = arg1
        self.disable_licm = disable_licm

    def __bool__(self) -> bool:
        return bool(self.condition)


def _hint(name: str, value: object) -> Any:
    if unwrap(value) is not None and not isinstance(unwrap(value), int):
        raise TypeError(f"range: {name} is {value!r}; a compile-time int is required")
    return value


def common_integer_type(types: list[dtype]) -> dtype:
    """The integer type of a loop's variable for bounds of these types: at least int32."""
    result = int32
    for type in types:
        result = integer_promote(result, type)
    return result
