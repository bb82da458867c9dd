"""The numbers that stand for floats in exact comparisons (the reference's `fpsan`)."""

from __future__ import annotations

from typing import Any

from tritium.ir import types as ir
from tritium.language import emitter
from tritium.language.builtins import casts
from tritium.language.builtins.build import typed
from tritium.language.decorators import builtin
from tritium.language.values.constexpr import unwrap
from tritium.language.values.types import dtype as element
from tritium.language.values.types import int8, int16, int32, int64
from tritium.sanitize.exact.interpreted import Emitting
from tritium.sanitize.exact.payloads import Payloads

_INTEGERS = {8: int8, 16: int16, 32: int32, 64: int64}


@builtin
def embed(input: Any) -> Any:
    """The integers, of the same width, that stand for a block's floats."""
    value = casts.to_tensor(input)
    if not value.dtype.is_floating():
        raise TypeError(f"fpsan.embed: input is {value.dtype}; floats are required")
    integer = _INTEGERS[value.dtype.primitive_bitwidth]
    return typed(_payloads(value.handle.type).embed(value.handle), integer)


@builtin
def unembed(input: Any, dtype: Any) -> Any:
    """The floats of a type for which integers of the same width stand."""
    value, kind = casts.to_tensor(input), unwrap(dtype)
    if not isinstance(kind, element) or not kind.is_floating():
        raise TypeError(f"fpsan.unembed: dtype is {kind}; a floating-point type is required")
    if not value.dtype.is_int() or value.dtype.primitive_bitwidth != kind.primitive_bitwidth:
        raise TypeError(
            f"fpsan.unembed: input is {value.dtype}; integers of {kind.primitive_bitwidth} bits "
            f"are required for {kind}"
        )
    floats = ir.with_element(value.handle.type, kind.to_ir())
    return typed(_payloads(floats).unembed(value.handle), kind)


def _payloads(floats: ir.Type) -> Any:
    at: Any = Emitting(emitter.current())
    return Payloads(at, floats)
