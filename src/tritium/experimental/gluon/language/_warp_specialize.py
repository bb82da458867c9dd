"""`warp_specialize`: functions that run side by side, each in warps of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tritium.language import emitter
from tritium.language.decorators import builtin
from tritium.language.jit.function import JITCallable
from tritium.language.values.base import Handle, base_value, is_sequence
from tritium.language.values.tuples import tuple as tl_tuple
from tritium.language.values.tuples import wrap
from tritium.ops.ttgir import WarpReturnOp, WarpSpecializeOp, WarpYieldOp


def _partition(index: int, given: Any) -> tuple[JITCallable, tl_tuple]:
    """A function and its arguments. Raises `TypeError` for anything else."""
    if not is_sequence(given) or len(given) != 2:
        raise TypeError(
            f"warp_specialize: partition {index} is {given!r}; a pair (function, arguments) is "
            "required"
        )
    function, arguments = given
    if not isinstance(function, JITCallable):
        raise TypeError(f"warp_specialize: {function!r} is no @gluon.jit function")
    if not is_sequence(arguments):
        raise TypeError(
            f"warp_specialize: the arguments of {function.__name__} are {arguments!r}; a tuple is "
            "required"
        )
    return function, tl_tuple([wrap(a) for a in arguments])


@builtin
def warp_specialize(
    functions_and_args: Any, worker_num_warps: Any, worker_num_regs: Any = None
) -> Any:
    """Run functions at the same time. They tell each other what is done by mbarriers.

    Args:
        functions_and_args: pairs (function, tuple of its arguments). The first is run by the
            kernel's own warps; each of the others by further warps, which get scalars, descriptors,
            shared memory and compile-time values, but no blocks.
        worker_num_warps: how many warps each of the others has.
        worker_num_regs: how many registers a thread of theirs has, if that is to be changed.

    Returns what the first function returns. Raises `ValueError` where lengths differ.
    """
    (default, own), *workers = [_partition(i, p) for i, p in enumerate(functions_and_args)]
    warps, registers = tuple(worker_num_warps), tuple(worker_num_regs or ())
    for what, counts in (("warp", warps), ("register", registers)):
        if len(counts) != len(workers) and (counts or what == "warp"):
            raise ValueError(
                f"warp specialize got {len(workers)} partitions but {len(counts)} {what} counts"
            )
    current, returned, evaluated = emitter.current(), list[base_value](), False
    number = current.features.num_warps

    def run_default() -> Sequence[Handle]:
        with current.partition(number) as here:
            returned.append(wrap(here.call(default, own.values, {})))
        return [] if evaluated else returned[0].flatten()

    regions = [current.region([], run_default, WarpYieldOp)]
    handles = [h for _, arguments in workers for h in arguments.flatten()]
    start = 0
    for (function, arguments), count in zip(workers, warps, strict=True):
        body = _worker(current, function, arguments, count, start)
        regions.append(current.region([h.type for h in handles], body, WarpReturnOp))
        start += len(arguments.flatten())
    types = [h.type for h in returned[0].flatten()] if returned else []
    evaluated = not returned  # the interpreter runs regions only now
    results = current.emit(
        WarpSpecializeOp, handles, regions=regions, result=types, partitionNumWarps=warps,
        requestedRegisters=registers,
    )  # fmt: skip
    return returned[0] if evaluated else returned[0].type.unflatten(results, 0)[0]


def _worker(
    current: emitter.Emitter, function: JITCallable, arguments: tl_tuple, warps: int, start: int
) -> Any:
    """The body of a partition, whose arguments are the block's from `start` on."""

    def body(*values: Handle) -> Sequence[Handle]:
        given, _ = arguments.type.unflatten(values, start)
        with current.partition(warps) as here:
            here.call(function, given.values, {})
        return []

    return body
