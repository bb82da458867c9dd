"""Functions of CUDA's libdevice by its names, applied to each element: `signatures.py` lists them.

Each is one `tt.extern_elementwise` with the symbol for the arguments' dtypes (`__nv_sinf`). Every
backend resolves the symbols itself; docs/libdevice.md says how, and how accurate the results are.
The functions are made when they are first asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tritium.language.builtins import casts
from tritium.language.builtins.external import extern_elementwise
from tritium.language.extra.signatures import Signature, signatures
from tritium.language.values import types
from tritium.language.values.base import mark_builtin
from tritium.language.values.tensor import TensorLike


def _call(signature: Signature, *args: TensorLike) -> Any:
    overloads = signature.overloads
    table = {
        tuple(getattr(types, a) for a in o.arguments): (o.symbol, getattr(types, o.result))
        for o in overloads
    }
    values = [casts.to_tensor(a) for a in args]
    try:
        # Converts to a common dtype where that helps; numbers take the dtypes of tensors.
        found = extern_elementwise("", "", list(args), table, True)
    except ValueError as error:
        if "input arg type does not match" not in str(error):
            raise
        given = ", ".join(str(v.dtype) for v in values)
        accepted = " or ".join(f"({', '.join(map(str, key))})" for key in table)
        raise ValueError(
            f"libdevice.{signature.name}: arguments of dtype ({given}); it takes {accepted}"
        ) from None
    return casts.cast(found, types.int1) if overloads[0].as_bool else found


def _make(signature: Signature) -> Callable[..., Any]:
    def one(arg0: TensorLike, _semantic: object = None) -> Any:
        return _call(signature, arg0)

    def two(arg0: TensorLike, arg1: TensorLike, _semantic: object = None) -> Any:
        return _call(signature, arg0, arg1)

    def three(
        arg0: TensorLike, arg1: TensorLike, arg2: TensorLike, _semantic: object = None
    ) -> Any:
        return _call(signature, arg0, arg1, arg2)

    def four(
        arg0: TensorLike,
        arg1: TensorLike,
        arg2: TensorLike,
        arg3: TensorLike,
        _semantic: object = None,
    ) -> Any:
        return _call(signature, arg0, arg1, arg2, arg3)

    function = (one, two, three, four)[signature.arity - 1]
    function.__name__ = function.__qualname__ = signature.name
    accepted = "; ".join(
        f"{', '.join(o.arguments)} -> {'int1' if o.as_bool else o.result}"
        for o in signature.overloads
    )
    text = signature.description
    function.__doc__ = f"{text[0].upper()}{text[1:]}.\n\nDtypes: {accepted}."
    return mark_builtin(function)


__all__ = list(signatures())  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    signature = signatures().get(name)
    if signature is None:
        raise AttributeError(f"module {__name__!r} has no function {name!r}")
    function = globals()[name] = _make(signature)
    return function


def __dir__() -> list[str]:
    return __all__
