"""`ldmatrix`: a warp loads four 8x8 matrices of 16-bit elements, spread as the tensor cores want.

A lane gives the address of one row (16 bytes) and gets two neighbours of a row (with `trans`: of a
column) of each matrix: lane t those of row t / 4 at 2 (t % 4). Whether a tile can be loaded so is
read off the map from (register, lane) to offsets:

    plain    register bit, lane bits 0, 1 -> 1, 2, 4 elements;  lane bits 2, 3, 4 -> rows
    trans    lane bits 2, 3, 4 -> 1, 2, 4 elements;  register bit, lane bits 0, 1 -> rows
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tritium.backends.nvidia.lower.access import distinct_registers
from tritium.backends.nvidia.lower.context import Context
from tritium.backends.nvidia.lower.types import SHARED
from tritium.ir.layouts.encodings import LANE, REGISTER, WARP
from tritium.ir.layouts.linear import LinearLayout
from tritium.lowering.llvm import Value


@dataclass(frozen=True)
class Matrices:
    """How to load a tile: register bits `pair` (the two elements of a word) and `which` (of the
    four matrices), and the offsets of rows: `rows` by the low three bits of the lane."""

    pair: int
    which: tuple[int, ...]
    rows: tuple[int, ...]
    trans: bool


def find(tile: LinearLayout, place: LinearLayout, size: int) -> Matrices | None:
    """How to load a tile of elements of `size` bytes with ldmatrix; None if it cannot be."""
    registers, lanes = place.columns_of(REGISTER), place.columns_of(LANE)
    if size != 2 or len(lanes) != 5 or tile.free_variables().get(REGISTER, 0):
        return None
    for pair, step in enumerate(registers):
        plain = (step, *lanes[:2]) == (1, 2, 4)
        if not plain and lanes[2:] != (1, 2, 4):
            continue
        rows = lanes[2:] if plain else (step, *lanes[:2])
        others = [b for b in range(len(registers)) if b != pair]
        rest = [*rows, *(registers[b] for b in others), *place.columns_of(WARP)]
        if all(column % 8 == 0 for column in rest):
            return Matrices(pair, tuple(others[:2]), tuple(rows), not plain)
    return None


def load(
    c: Context, tile: LinearLayout, place: LinearLayout, base: Value, element: str, how: Matrices
) -> list[Value]:
    """Read a tile's registers."""
    registers = place.columns_of(REGISTER)
    rows = (*how.rows, *(registers[b] for b in how.which))
    rows += (0,) * (5 - len(rows))
    addresses = LinearLayout(
        ((REGISTER, len(registers)), (LANE, 5), *place.in_dims[2:]), place.out_dims,
        (*registers, *rows, *[x for n in place.in_names[2:] for x in place.columns_of(n)]),
    )  # fmt: skip
    inner = sum(1 << b for b in (how.pair, *how.which))
    firsts = [r for r in distinct_registers(tile) if not r & inner]
    loaded: dict[int, Value] = {}
    for first, offset in zip(firsts, c.positions(addresses, firsts), strict=False):
        pointer = c.f.emit(SHARED, f"getelementptr {element}, {base}, {offset}")
        words = _instruction(c, c.address(pointer), 1 << len(how.which), how.trans)
        for number, word in enumerate(words):
            register = first | _bits(how.which, number)
            low, high = c.unpack([word], element)
            loaded[register], loaded[register | 1 << how.pair] = low, high
    return [loaded[r] for r in range(1 << len(registers))]


def _bits(places: Sequence[int], number: int) -> int:
    return sum(1 << place for i, place in enumerate(places) if number >> i & 1)


def _instruction(c: Context, address: Value, count: int, trans: bool) -> list[Value]:
    outputs = ", ".join(f"${i}" for i in range(count))
    text = (
        f"ldmatrix.sync.aligned.m8n8.x{count}{'.trans' if trans else ''}.shared.b16 "
        f"{{{outputs}}}, [${count}];"
    )
    struct = "i32" if count == 1 else "{ " + ", ".join(["i32"] * count) + " }"
    constraints = ",".join([*["=r"] * count, "r", "~{memory}"])
    return c.members(c.asm(struct, text, constraints, address), ["i32"] * count)
