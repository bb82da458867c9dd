"""Plans as products state them in their attribute `tile.plan`: written, followed, checked."""

from __future__ import annotations

from collections.abc import Iterator

from tritium.backends.cpu.dot.operand import ELEMENT_BYTES, Chunks, View
from tritium.backends.cpu.dot.plan import (
    Host,
    Method,
    Plan,
    complete,
    is_readable,
    methods,
    oriented,
    types,
)
from tritium.ops.tile import ProductPlan

_BY_WORD = {method.word: method for method in Method}
_ACCUMULATORS = 4
"""Registers of AMX, of eight, that may accumulate."""

Views = tuple[View | Chunks, View | Chunks]
Shape = tuple[int, int, int]


def follow(stated: ProductPlan, host: Host, views: Views, result: str, shape: Shape) -> Plan:
    """The plan of a host that a product states. Raises `ValueError` if the host cannot follow it.

    `views` are A and B, `shape` is (M, N, K), `result` the LLVM type of the result's elements.
    """
    m, n, k = shape
    (a, b), of = views, (n, m, k) if stated.transposed else shape
    possible = list(methods(host, a, b, result, of))
    method = _BY_WORD[stated.method]
    if method not in possible:
        names = ", ".join(one.word for one in possible)
        raise ValueError(
            f"tile.plan <{stated}>: {method.word}; this processor and these types allow {names}"
        )
    plan = complete(
        host, a, b, result, method=method, lanes=stated.lanes, block_rows=stated.rows,
        block_vectors=stated.vectors, unroll=stated.unroll, prefetch=stated.prefetch,
        pack_a="a" in stated.pack, pack_b="b" in stated.pack, swap=stated.transposed,
        together=max(1, stated.loop),
    )  # fmt: skip
    most = host.bits // (8 * ELEMENT_BYTES[plan.accumulate])
    if stated.lanes > most and not method.in_tiles:
        raise ValueError(
            f"tile.plan <{stated}>: {stated.lanes} lanes; a vector of this processor has {most}"
        )
    return plan.reading(*plan.operands(a, b, shape))


def fault_of(stated: ProductPlan, views: Views, result: str, shape: Shape) -> str | None:
    """The reason why no processor can follow a plan; None if there is none."""
    method = _BY_WORD.get(stated.method)
    if method is None:
        return f"method {stated.method}; one of {', '.join(_BY_WORD)} is allowed"
    if stated.transposed and shape[1] != 1:
        return f"transposed, with {shape[1]} columns; 1 is allowed"
    faults = _faults(stated, method, views, result, shape)
    return next(faults, None)


def _faults(
    stated: ProductPlan, method: Method, views: Views, result: str, shape: Shape
) -> Iterator[str]:
    m, n, k = shape
    rows, columns, depth = (n, m, k) if stated.transposed else shape
    width, group = stated.lanes * stated.vectors, method.group
    if not width or columns % width:
        yield f"vectors {stated.vectors} of {stated.lanes} lanes do not divide {columns} columns"
    if not 1 <= stated.rows <= rows:
        yield f"rows {stated.rows}; 1 to {rows} are allowed"
    if depth % group or not stated.unroll or (depth // group) % stated.unroll:
        yield f"unroll {stated.unroll} steps of {group} along K do not divide {depth}"
    if method.in_tiles:
        yield from _faults_of_registers(stated, rows, depth // group)
    elif method.in_pairs and (stated.lanes != 4 or stated.rows % 2):
        yield f"rows {stated.rows}, lanes {stated.lanes}; {method.word} has pairs of rows, 4 lanes"
    elif method is not Method.FMA and stated.lanes not in (4, 8, 16):
        yield f"lanes {stated.lanes}; {method.word} has 4, 8 or 16"
    if stated.prefetch and "b" in stated.pack:
        yield "prefetch, though B is packed"
    compute, _ = types(*views, result, method)
    operands = oriented(*views, shape, stated.transposed)
    sizes, chunks = (rows, columns), (1, stated.lanes)
    for name, operand, outer, chunk in zip("ab", operands, sizes, chunks, strict=True):
        if name not in stated.pack and not is_readable(operand, method, compute, chunk):
            yield f"{name} is not in pack, and {method.word} cannot read it where it is"
        size = 2 * outer * depth * ELEMENT_BYTES[compute] * stated.loop
        if name in stated.keep and stated.room < size:
            yield f"room {stated.room}; {size} bytes or more are needed to keep {name}"


def _faults_of_registers(stated: ProductPlan, rows: int, cells: int) -> Iterator[str]:
    """Faults of a plan for AMX's registers of 16 rows of 16 cells."""
    down = stated.rows // 16
    if stated.lanes != 16:
        yield f"lanes {stated.lanes}; AMX has 16"
    if stated.rows % 16 or rows % max(stated.rows, 1):
        yield f"rows {stated.rows}; AMX takes multiples of 16 that divide {rows}"
    if cells % 16:
        yield f"{cells} cells along K; AMX takes multiples of 16"
    if down * stated.vectors > _ACCUMULATORS:
        yield f"{down * stated.vectors} accumulators; AMX has {_ACCUMULATORS}"
