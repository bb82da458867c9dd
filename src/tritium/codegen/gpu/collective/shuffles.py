"""Moves between lanes of a warp, and changes of layout made of them."""

from __future__ import annotations

from collections.abc import Callable

from tritium.codegen.gpu.context import Context, Tile
from tritium.codegen.gpu.emitter import bits_of
from tritium.codegen.llvm.writer import Value
from tritium.ir.layouts.conversion import found_place
from tritium.ir.layouts.encodings import LANE, REGISTER
from tritium.ir.layouts.linear import LinearLayout

MOST_SHUFFLES = 16
"""The most shuffles, of 32 bits each, for a change of layout; one that needs more goes through
shared memory."""


def _choices(source_of: LinearLayout) -> list[int]:
    """The registers, as differences, among which a lane picks by its own index."""
    where = found_place(source_of, REGISTER)
    columns = [(x >> where.start) & ((1 << len(where)) - 1) for x in source_of.columns_of(LANE)]
    choices = [0]
    for column in columns:
        if column not in choices:
            choices += [x ^ column for x in choices]
    return choices


def shuffle_count(source_of: LinearLayout, size: int) -> int:
    """The number of shuffles that a change of layout takes."""
    return source_of.in_size(REGISTER) * len(_choices(source_of)) * max(size // 4, 1)


def shuffled(c: Context, values: Tile, source_of: LinearLayout) -> list[Value]:
    """A tile brought to the layout whose (register, lane) are at `source_of` in that of `values`,
    in the same warp: for each register one shuffle for every register that some lane may want."""
    lanes = found_place(source_of, LANE)
    part = source_of.restrict(source_of.in_names, [LANE])
    columns = [x >> lanes.start & (c.hardware.lanes - 1) for x in source_of.columns_of(LANE)]
    part = part.with_columns(LANE, columns)
    part = part.with_columns("warp", [0] * part.in_bits("warp"))
    registers = source_of.restrict(source_of.in_names, [REGISTER])
    wanted = c.linear_map(c.lane, registers.columns_of(LANE))
    results: list[Value] = []
    for register, lane in enumerate(c.positions(part, range(source_of.in_size(REGISTER)))):
        first = registers(**{REGISTER: register})[0]
        result = None
        for choice in _choices(source_of):
            moved = shuffle(c, values[first ^ choice], lane)
            if result is None or wanted is None:
                result = moved
            else:
                mine = c.f.icmp("eq", wanted, c.i32(choice))
                result = c.f.select(mine, moved, result)
        assert result is not None
        results.append(result)
    return results


def shuffle_xor(c: Context, value: Value, mask: int, alike: int = 0) -> Value:
    """The value of the lane whose number differs in `mask`. Lanes whose numbers differ in the bits
    `alike` have the same values."""
    return _by_words(c, value, lambda word: c.hardware.shuffles.xor(c, word, mask, alike))


def shuffle(c: Context, value: Value, lane: Value) -> Value:
    """The value of another lane (modulo the number of lanes)."""
    return _by_words(c, value, lambda word: c.hardware.shuffles.index(c, word, lane))


def _by_words(c: Context, value: Value, move: Callable[[Value], Value]) -> Value:
    """A value whose words of 32 bits are moved one by one."""
    bits = bits_of(value.type)
    words = c.pack([value], "i32") if bits == 32 else _to_words(c, value)
    moved = [move(word) for word in words]
    return c.as_type(moved[0], value.type) if bits == 32 else _from_words(c, moved, value.type)


def _to_words(c: Context, value: Value) -> list[Value]:
    bits = bits_of(value.type)
    plain = c.as_type(value, f"i{bits}")
    if bits < 32:
        return [c.f.cast("zext", plain, "i32")]
    halves = c.f.cast("bitcast", plain, "<2 x i32>")
    return [c.f.extract(halves, i) for i in range(2)]


def _from_words(c: Context, words: list[Value], type: str) -> Value:
    bits = bits_of(type)
    if bits < 32:
        return c.as_type(c.f.cast("trunc", words[0], f"i{bits}"), type)
    return c.as_type(c.f.cast("bitcast", c.vector(words), "i64"), type)
