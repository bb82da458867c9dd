"""Assertions, printing and hints."""

from __future__ import annotations

import builtins
from typing import Any

from xdsl.dialects.builtin import DenseIntElementsAttr, TensorType, i32

from tritium.errors import CompileTimeAssertionFailure
from tritium.language import emitter
from tritium.language.builtins import arithmetic, casts
from tritium.language.builtins.build import build, emit
from tritium.language.builtins.memory import is_block_pointer
from tritium.language.decorators import builtin
from tritium.language.values.base import as_tuple
from tritium.language.values.tensor import TensorLike, tensor
from tritium.language.values.types import int1, int32
from tritium.ops import gpu, llvm, ttir
from tritium.ops.arith.integer import AddIOp
from tritium.ops.attributes import CONSTANCY, CONTIGUITY, DIVISIBILITY


@builtin
def static_assert(cond: TensorLike, msg: object = "") -> None:
    """Require a compile-time condition. Raises `CompileTimeAssertionFailure`."""
    if isinstance(cond, tensor):
        raise TypeError("static_assert: the condition is not known when the kernel is compiled")
    if not cond:
        raise CompileTimeAssertionFailure(None, None, str(msg) or "static_assert failed")


@builtin
def static_print(
    *values: object, sep: Any = " ", end: Any = "\n", file: Any = None, flush: Any = False
) -> None:
    """Print values when the kernel is compiled, as Python's `print` does."""
    text = sep.join(str(v) for v in values) + end
    emitter.current().static_print(text, file=file, flush=bool(flush))


def _check_prefix(prefix: object, has_values: bool) -> str:
    """The text before the values: after a space, and with `: ` where values follow."""
    if not isinstance(prefix, str) or not prefix.isascii() or not prefix.isprintable():
        raise ValueError(f"device_print prefix {prefix!r} must be a string of printable ASCII")
    text = prefix if prefix.startswith(" ") or not prefix else f" {prefix}"
    if not has_values:
        return text
    text = text.rstrip(" ")  # whatever of the colon and the space was given
    return f"{text} " if text.endswith(":") else f"{text}: "


@builtin
def device_print(prefix: str, *args: TensorLike, hex: bool = False) -> None:
    """Print values when the kernel runs: one line for each element, with the program's id, the
    element's index, `prefix` and the value.

    Args:
        prefix: printable ASCII; `ValueError` otherwise.
        args: numbers or tensors of any dtype.
        hex: print integers in base 16.
    """
    text = _check_prefix(prefix, bool(args))
    values = [casts.to_tensor(a) for a in args]
    emit(
        ttir.PrintOp, values, prefix=text, hex=bool(hex),
        isSigned=builtins.tuple(int(v.dtype.is_int_signed()) for v in values),
    )  # fmt: skip


@builtin
def device_assert(cond: TensorLike, msg: object = "", mask: TensorLike | None = None) -> None:
    """Stop the program with `msg` where the condition does not hold and `mask` (if any) does.

    Compiled in only when debugging is on: `TRITON_DEBUG=1`, or `debug=True` of `jit` or a launch.
    """
    if not emitter.current().features.debug:
        return
    if not isinstance(msg, str):
        raise TypeError(f"device_assert: msg is {msg!r}; a string is required")
    condition = casts.to_tensor(cond)
    if not condition.dtype.is_bool():
        condition = casts.cast(condition, int1)
    if mask is not None:
        condition = condition | ~casts.cast(casts.to_tensor(mask), int1)
    emit(ttir.AssertOp, condition, message=msg)


@builtin
def assert_statement(cond: TensorLike, msg: object) -> None:
    """`assert cond, msg`: as `device_assert`, since a program need not reach it. Warns of a
    condition that is known not to hold and that nothing checks."""
    if isinstance(cond, tensor):
        return device_assert(cond, msg)
    if not cond and not emitter.current().features.debug:
        text = f": {msg}" if msg != "" else ""
        emitter.current().warn(
            f"this assertion does not hold{text}. Launches with `debug=True` check it where it is "
            "reached, `tl.static_assert` is checked when a kernel is compiled"
        )
    return device_assert(builtins.bool(cond), str(msg))


@builtin
def expect_zero(x: TensorLike, mask: TensorLike) -> tensor:
    """`x`, which the program says to be 0 (an underflow, say) where `mask` holds. Checked as by
    `device_assert` when debugging is on."""
    value, where = casts.to_tensor(x), casts.cast(casts.to_tensor(mask), int1)
    if emitter.current().features.debug:
        kept = arithmetic.invert(where)
        held = arithmetic.or_(arithmetic.compare("eq", value, 0), kept)
        device_assert(held, "expect_zero: x is not 0 where the mask holds")
    if "exact" in emitter.current().features.instrumentation_mode.split(","):
        # What underflows in floats does not in the numbers that take their place.
        return arithmetic.where(where, 0, value)
    return value


@builtin
def assume(cond: TensorLike) -> None:
    """Promise the compiler that a scalar condition holds; undefined behaviour if it does not."""
    condition = casts.to_tensor(cond)
    if not condition.dtype.is_bool():
        condition = casts.cast(condition, int1)
    emit(llvm.AssumeOp, condition)


@builtin
def debug_barrier() -> None:
    """Wait until all threads of the program have come here."""
    emit(gpu.BarrierOp)


def _hint(name: str, attribute: str, input: TensorLike, values: object) -> tensor:
    x = casts.to_tensor(input)
    numbers = as_tuple(values)
    rank = max(1, len(x.type.shape))
    if len(numbers) != rank:
        raise ValueError(
            f"Shape of input to {name} does not match the length of values: "
            f"{list(x.type.shape)} has {rank} axes, {len(numbers)} values were given"
        )
    for i, number in enumerate(numbers):
        if not isinstance(number, int) or isinstance(number, bool):
            raise TypeError(
                f"values element {i} must have type `constexpr[int]`, got "
                f"`constexpr[{casts.type_name(number)}]`"
            )
    value = DenseIntElementsAttr.from_list(TensorType(i32, [len(numbers)]), numbers)
    if emitter.current().needs_carrier(x.handle):
        local = emitter.current().is_of_block(x.handle)
        carried = _carried(x)
        # What other blocks see as well stays as it is: this block's ops may not have run there.
        x.handle = carried.handle if local else x.handle
        x = carried
    emitter.current().set_attribute(x.handle, attribute, value)
    return x


def _carried(x: tensor) -> tensor:
    """The result of an op that changes nothing, `x + 0`; `x` itself if it is no number."""
    if x.dtype.is_int():
        return build(AddIOp, x, casts.constant(0, x.type), like=x)
    if x.dtype.is_ptr() and not is_block_pointer(x):
        offset = casts.constant(0, x.type.with_element_ty(int32))
        return build(ttir.AddPtrOp, x, offset, like=x)
    return x


@builtin
def multiple_of(input: TensorLike, values: object) -> tensor:
    """Promise that the first element of each contiguous run of `input` is a multiple of `values`
    (one number an axis). Returns `input`. Raises `ValueError` for a wrong number of values."""
    return _hint("multiple_of", DIVISIBILITY, input, values)


@builtin
def max_contiguous(input: TensorLike, values: object) -> tensor:
    """Promise that elements are consecutive in runs of `values` (one number an axis)."""
    return _hint("max_contiguous", CONTIGUITY, input, values)


@builtin
def max_constancy(input: TensorLike, values: object) -> tensor:
    """Promise that elements are equal in runs of `values` (one number an axis)."""
    return _hint("max_constancy", CONSTANCY, input, values)
