"""Layouts of the registers that instructions fill from tensor memory, or store to it."""

from __future__ import annotations

from tritium.ir.layouts.encodings import BLOCK, Cluster, LinearEncoding, linear, part_of
from tritium.ir.layouts.linear import LinearLayout
from tritium.ir.layouts.tensor_memory import COLUMN, ROW, ROWS, TensorEncoding, TensorMemoryEncoding

Bases = list[list[int]]

ATOMS: dict[str, tuple[list[str], list[str]]] = {
    "32x32b": (["r1", "r2", "r4", "r8", "r16"], []),
    "16x64b": (["r8", "w1", "r1", "r2", "r4"], []),
    "16x128b": (["w1", "w2", "r1", "r2", "r4"], ["r8"]),
    "16x256b": (["w2", "w4", "r1", "r2", "r4"], ["w1", "r8"]),
}
"""Rows, and columns of 32 bits, that each bit of the lane, and of the register, adds to the place
that an instruction reaches."""


class _Places:
    """The bases of tensor memory, by rows and by columns of 32 bits. Each is taken once."""

    def __init__(self, layout: LinearLayout, bits: int):
        inside = (32 // bits).bit_length() - 1
        columns = [list(basis) for basis in layout.bases(COLUMN)]
        self.packed = [basis for basis in columns[:inside] if any(basis)]
        self.words = {f"w{1 << i}": basis for i, basis in enumerate(columns[inside:])}
        self.rows = {f"r{1 << i}": list(basis) for i, basis in enumerate(layout.bases(ROW))}

    def take(self, names: list[str]) -> list[list[int]]:
        """The bases at these places. Raises `KeyError` where the memory has none."""
        return [self.words.pop(n) if n in self.words else self.rows.pop(n) for n in names]

    def rest(self, moved: int, copies: bool) -> tuple[list[list[int]], list[list[int]]]:
        """All that is left but the last `moved` bases, and these: columns, then the lower half of
        every 32 rows, which of those that move is the first. `copies`: bases of none move where
        there are fewer."""
        rows = [basis for basis in self.rows.values() if any(basis)]
        columns = [basis for basis in self.words.values() if any(basis)]
        taken = rows if moved else []
        split = len(columns) + len(taken) - moved
        if split < 0 and not copies:
            raise KeyError(moved)
        if split < 0:
            return [], taken + columns + [[0, 0]] * -split
        return columns[:split] + ([] if taken else rows), taken + columns[split:]


def register_bases(
    encoding: TensorEncoding, shape: tuple[int, ...], bits: int, num_warps: int,
    variant: str = "32x32b",
) -> tuple[Bases, Bases, Bases, Bases]:  # fmt: skip
    """The coordinates that each bit of the register, lane, warp and block adds to the place of an
    element of a tile in tensor memory, which `num_warps` warps access. With "32x32b" a lane has a
    row, or where a block of 64 rows is alone half of one. Raises `ValueError` for numbers of warps
    that cannot share it."""
    if num_warps < 4 or num_warps & (num_warps - 1):
        raise ValueError(f"num_warps is {num_warps}; 4 or a larger power of two is required")
    found = linear(encoding, shape)
    places = _Places(found, bits)
    further = num_warps.bit_length() - 3
    try:
        warps = places.take(["r32", "r64"])
        lanes, registers = (places.take(names) for names in ATOMS[variant])
        scales = not isinstance(encoding, TensorMemoryEncoding)
        halved = not any(lanes[4]) and not scales
        rest, moved = places.rest(further + halved, scales)
    except KeyError:
        raise ValueError(
            f"{variant} by {num_warps} warps for tensor memory of {list(shape)}"
        ) from None
    if halved:
        lanes[4] = moved.pop(0)
    blocks = [list(b) for b in found.bases(BLOCK)] if BLOCK in found.in_names else []
    return [*places.packed, *registers, *rest], lanes, warps + moved, blocks


def sums_encoding(shape: tuple[int, ...], cluster: Cluster = ()) -> TensorMemoryEncoding:
    """The encoding of tensor memory for the 32-bit sums of a product."""
    rows, columns = part_of(cluster, shape)
    return TensorMemoryEncoding.make(
        blockM=min(rows, ROWS), blockN=columns, colStride=1, CGALayout=cluster
    )


def in_registers(
    encoding: TensorEncoding, shape: tuple[int, ...], bits: int, num_warps: int
) -> LinearEncoding:
    """The encoding of registers for a tile in tensor memory: each lane has a row, or scales that
    all warps have. Raises `ValueError` for numbers of warps that cannot share it."""
    bases = register_bases(encoding, shape, bits, num_warps)
    return LinearEncoding.make(**dict(zip(LinearEncoding.KEYS, bases, strict=True)))


def sums_in_registers(
    shape: tuple[int, ...], num_warps: int, cluster: Cluster = ()
) -> LinearEncoding:
    """The encoding of registers for the sums of a product. Raises `ValueError` likewise."""
    return in_registers(sums_encoding(shape, cluster), shape, 32, num_warps)
