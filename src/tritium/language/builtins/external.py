"""Inline assembly and functions of external libraries."""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from typing import Any

from tritium.ir import types as ir
from tritium.language.builtins import arithmetic, casts
from tritium.language.builtins.build import build, build_many
from tritium.language.decorators import builtin
from tritium.language.values.base import as_tuple, base_value, is_sequence
from tritium.language.values.tensor import tensor
from tritium.language.values.tuples import tuple as tl_tuple
from tritium.language.values.types import dtype
from tritium.ops import ttir


def _broadcast_all(values: Sequence[tensor]) -> list[tensor]:
    result = list(values)
    for _ in range(2):  # the second round gives the first ones the shape of the last
        for i in range(1, len(result)):
            result[0], result[i] = arithmetic.broadcast_values(result[0], result[i])
    return result


@builtin
def inline_asm_elementwise(
    asm: str, constraints: str, args: Any, dtype: Any, is_pure: bool, pack: int
) -> Any:
    """Run target assembly for each element.

    Args:
        asm: the text, with `$0`, `$1`, ... for results and then arguments.
        constraints: LLVM's constraint string, e.g. "=r,r".
        args: tensors and numbers, broadcast to one shape.
        dtype: the result's dtype, or a tuple of them for several results.
        is_pure: whether it has no effect but its results.
        pack: how many neighbouring elements one run takes.

    Returns a tensor, or a tuple of them where `dtype` is one.
    """
    return elementwise_assembly(asm, constraints, args, {}, dtype, is_pure, pack)


def elementwise_assembly(
    asm: str, constraints: str, args: Sequence[object], memory: Mapping[int, base_value],
    dtype: object, is_pure: bool, pack: int,
) -> tensor | tl_tuple:  # fmt: skip
    """See `inline_asm_elementwise`; `memory`: the arguments that are memory, by their places."""
    several, dtypes = is_sequence(dtype), as_tuple(dtype)
    values = _broadcast_all([casts.to_tensor(a) for i, a in enumerate(args) if i not in memory])
    operands: list[Any] = [*values]
    for place in sorted(memory):
        operands.insert(place, memory[place])
    elements = [t.to_ir() for t in dtypes]
    results = build_many(
        ttir.ElementwiseInlineAsmOp, operands, like=dtypes, asm_string=asm,
        constraints=constraints, pure=bool(is_pure), packed_element=pack,
        result=[ir.with_element(values[0].handle.type, e) if values else e for e in elements],
    )  # fmt: skip
    return tl_tuple(results) if several else results[0]


Symbols = Mapping[tuple[dtype, ...], tuple[str, dtype]]


def dispatch(
    library: str, path: str, values: Sequence[tensor], symbols: Symbols, pure: bool
) -> tensor:
    """Call the function that `symbols` names for these element types.

    Raises `ValueError` where it names none, with those that there are.
    """
    key = builtins.tuple(v.dtype for v in values)
    if key not in symbols:
        have = "; ".join(", ".join(map(str, k)) for k in symbols)
        raise ValueError(
            f"input arg type does not match. Expect one of ({have}); got {', '.join(map(str, key))}"
        )
    symbol, result = symbols[key]
    element = result.to_ir()
    return build(
        ttir.ExternElementwiseOp, values, like=result,
        result=ir.with_element(values[0].handle.type, element) if values else element,
        libname=library, libpath=path, symbol=symbol, pure=pure,
    )  # fmt: skip


@builtin
def extern_elementwise(
    lib_name: Any, lib_path: Any, args: Any, arg_type_symbol_dict: Any, is_pure: Any
) -> tensor:
    """Apply a function of an external library to each element.

    Args:
        lib_name: the library ("libdevice").
        lib_path: where it is; "" to let the backend find it.
        args: tensors and numbers, broadcast to one shape and, where their dtypes match no entry,
            converted to their common dtype.
        arg_type_symbol_dict: (dtype, ...) of the arguments -> (symbol, dtype of the result).
        is_pure: whether calls may be merged and dropped.

    Raises `ValueError` where the table has no entry for the arguments.
    """
    values = [casts.to_tensor(a) for a in args]
    if builtins.tuple(v.dtype for v in values) not in arg_type_symbol_dict and len(values) > 1:
        common = values[0].dtype
        weak = [not isinstance(a, tensor) for a in args]
        first_weak = weak[0]
        for value, is_weak in zip(values[1:], weak[1:], strict=True):
            common = arithmetic.promote(common, first_weak, value.dtype, is_weak, False)
            first_weak = first_weak and is_weak
        values = [casts.cast(v, common) for v in values]
    return dispatch(lib_name, lib_path, _broadcast_all(values), arg_type_symbol_dict, bool(is_pure))
