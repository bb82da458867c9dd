"""Reductions, scans and elementwise maps with a function of the user's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np

from tritium.ir import types as ir
from tritium.ir.types import Type
from tritium.language import emitter
from tritium.language.builtins import arithmetic, casts
from tritium.language.builtins.build import build_many
from tritium.language.builtins.shapes import reshape_to, wrap_axis
from tritium.language.decorators import builtin, tensor_member
from tritium.language.emitter import Evaluated
from tritium.language.values.base import is_builtin, is_sequence
from tritium.language.values.constexpr import constexpr
from tritium.language.values.tensor import TensorLike, tensor
from tritium.language.values.tuples import tuple as tl_tuple
from tritium.language.values.types import dtype
from tritium.ops import ttir
from tritium.ops.base import Op


def _inputs(name: str, input: Any) -> tuple[list[tensor], bool]:
    """One tensor or several of one shape, and whether it was a tuple of them."""
    several = isinstance(input, tl_tuple) or is_sequence(input)
    members: list[Any] = list(input) if several else [input]
    values = [casts.to_tensor(v) for v in members]
    shapes = [v.type.shape for v in values]
    if any(s != shapes[0] for s in shapes):
        raise ValueError(f"{name}: the tensors of a tuple have shapes {shapes}; one is required")
    return values, several


def _check_function(name: str, parameter: str, function: object) -> None:
    """Raises `TypeError` for what is no function of kernels: Python's own (`max`) would run while
    the kernel is compiled, on values that it does not know."""
    of_python = isinstance(function, (FunctionType, BuiltinFunctionType))
    if not callable(function) or (of_python and not is_builtin(function)):
        shown = getattr(function, "__name__", repr(function))
        raise TypeError(f"{name}: {parameter} is {shown}; a @triton.jit function is needed")


def _combiner(
    name: str, combine_fn: Callable[..., Any], types: Sequence[dtype]
) -> Callable[..., list[Any]]:
    """The body of a region that calls `combine_fn` with scalars of the given types, twice."""
    count = len(types)
    _check_function(name, "combine_fn", combine_fn)

    def body(*handles: object) -> list[Any]:
        arguments = [tensor(h, types[i % count]) for i, h in enumerate(handles)]
        found = combine_fn(*arguments)
        if isinstance(found, constexpr):
            found = found.value
        several = isinstance(found, tl_tuple) or is_sequence(found)
        results: list[Any] = list(found) if several else [found]
        if len(results) != count:
            raise ValueError(f"{name}: combine_fn returns {len(results)} values; {count} needed")
        return [_typed(name, r, t).handle for r, t in zip(results, types, strict=True)]

    return body


def _typed(name: str, value: TensorLike, type: dtype) -> tensor:
    if not isinstance(value, tensor):
        value = casts.to_tensor(value)
        return casts.cast(value, type)
    if value.type != type:
        raise TypeError(f"{name}: combine_fn returns {value.type} for an element of type {type}")
    return value


@tensor_member
@builtin
def reduce(
    input: TensorLike | tl_tuple, axis: object, combine_fn: object, keep_dims: bool = False
) -> Any:
    """Combine the elements along an axis with an associative and commutative function.

    Args:
        input: a tensor, or a tuple of tensors of one shape that are reduced together.
        axis: the axis; None for all of them.
        combine_fn: takes one element of each input, then another of each, and returns one of each.
        keep_dims: keep the reduced axis (with None: all axes), with size 1.

    Returns a tensor (a tuple for a tuple) without the axis, a scalar where none is left.
    Raises `ValueError` for an axis out of range.
    """
    values, several = _inputs("reduce", input)
    shape = values[0].type.shape
    if not shape:
        return tl_tuple(values) if several else values[0]
    if axis is None:
        values = [reshape_to(v, (prod(shape),)) for v in values]
        place = 0
    else:
        place = wrap_axis(axis, len(shape))
    results = _reduce(values, place, combine_fn)
    if keep_dims and axis is None:
        results = [reshape_to(r, (1,) * len(shape)) for r in results]
    elif keep_dims:
        results = [arithmetic.expand_dims(r, place) for r in results]
    return tl_tuple(results) if several else results[0]


def _reduce(values: Sequence[tensor], axis: int, combine_fn: object) -> list[tensor]:
    return _combined("reduce", ttir.ReduceOp, ttir.ReduceReturnOp, values, combine_fn, axis=axis)


def _combined(
    name: str, cls: type[Op], end: type[Op], values: Sequence[tensor], function: Any, **attrs: Any
) -> list[tensor]:
    """The results of an op with a region, ended by `end`, that combines two elements."""
    types = [v.dtype for v in values]
    for value in values[1:]:  # in Gluon a layout that is open follows from the others'
        values = [arithmetic.decided(v, value) for v in values]
    values = [arithmetic.decided(v, values[0]) for v in values]
    body = _combiner(name, function, types)
    region = emitter.current().region([t.to_ir() for t in types] * 2, body, end)
    return build_many(cls, values, like=values, regions=[region], **attrs)


@tensor_member
@builtin
def associative_scan(
    input: TensorLike | tl_tuple, axis: object, combine_fn: object, reverse: bool = False
) -> Any:
    """Running combination of the elements along an axis.

    Args:
        input: a tensor, or a tuple of tensors of one shape that are scanned together.
        axis: the axis.
        combine_fn: an associative function, as for `reduce`.
        reverse: from the end of the axis.

    Returns a tensor (a tuple for a tuple) of the same shape: element i combines elements 0 to i.
    """
    values, several = _inputs("associative_scan", input)
    place = wrap_axis(axis, len(values[0].type.shape))
    results = _combined(
        "associative_scan", ttir.ScanOp, ttir.ScanReturnOp, values, combine_fn,
        axis=place, reverse=bool(reverse),
    )  # fmt: skip
    return tl_tuple(results) if several else results[0]


@builtin
def map_elementwise(scalar_fn: Any, *args: Any, pack: Any = 1) -> Any:
    """Apply a function of scalars, which may branch and loop, to each element.

    Args:
        scalar_fn: takes `pack` scalars of the first tensor, then `pack` of the second, ...; returns
            a scalar or a tuple of scalars, `pack` of each result.
        args: tensors, broadcast to one shape.
        pack: how many neighbouring elements one call gets.

    Returns a tensor, or a tuple of them where the function returns a tuple (of one, for `pack`
    values of one result).
    """
    _check_function("map_elementwise", "scalar_fn", scalar_fn)
    tensors = [casts.to_tensor(a) for a in args]
    if not tensors or not isinstance(pack, int) or pack < 1:
        raise ValueError(f"map_elementwise of {len(tensors)} tensors with pack={pack}")
    for _ in range(2):  # the second round gives the first ones the shape of the last
        for i in range(1, len(tensors)):
            tensors[0], tensors[i] = arithmetic.broadcast_values(tensors[0], tensors[i])
    if not tensors[0].type.is_block():
        return scalar_fn(*tensors)
    types = [t.dtype for t in tensors for _ in range(pack)]
    found: list[dtype] = []
    single = False

    def body(*handles: Any) -> list[Any]:
        nonlocal single
        result: Any = scalar_fn(*[tensor(h, t) for h, t in zip(handles, types, strict=True)])
        single = not isinstance(result, tl_tuple) and not is_sequence(result)
        results = [casts.to_tensor(r) for r in ([result] if single else result)]
        found[:] = [r.dtype for r in results]
        return [r.handle for r in results]

    ir_types = [t.to_ir() for t in types]
    region = emitter.current().region(ir_types, body, ttir.MapElementwiseReturnOp)
    if not found:
        _probe(body, tensors, ir_types, pack)
    groups = [found[i : i + pack] for i in range(0, len(found), pack)]
    if any(group != [group[0]] * pack for group in groups):
        raise ValueError(
            f"map_elementwise: scalar_fn returns ({', '.join(map(str, found))}); with pack={pack} "
            f"each result is {pack} values of one dtype, one after the other"
        )
    elements = found[::pack]
    outputs = build_many(
        ttir.MapElementwiseOp, tensors, like=elements, regions=[region], pack=pack,
        result=[ir.with_element(tensors[0].handle.type, t.to_ir()) for t in elements],
    )  # fmt: skip
    return outputs[0] if single else tl_tuple(outputs)


def _probe(
    body: Callable[..., Any], tensors: Sequence[tensor], types: Sequence[Type], pack: int
) -> None:
    """Learn the types of the results from the first elements: the interpreter has not run the
    body yet."""
    firsts: list[Any] = [np.asarray(t.handle.array).flat[i] for t in tensors for i in range(pack)]
    body(*[Evaluated(t, v) for t, v in zip(types, firsts, strict=True)])
