"""Parts of blocks in registers."""

from __future__ import annotations

from typing import Any

from tritium.experimental.gluon.language._core import convert_layout
from tritium.ir.layouts.encodings import REGISTER, linear
from tritium.language import core as tl
from tritium.language.jit.function import device_function
from tritium.language.values.constexpr import constexpr_function

__all__ = ["slice"]


@constexpr_function
def _halvings(
    shape: Any, layout: Any, part: Any, offsets: Any
) -> list[tuple[list[int], list[int], int]]:
    """For each time that the block is halved: its shape with the axis divided, the order that puts
    the two halves last, and which of them has the part. Raises `ValueError`."""
    now, found = list(shape), list[tuple[list[int], list[int], int]]()
    if not len(shape) == len(part) == len(offsets):
        raise ValueError(f"slice: shape {part} at {offsets} of a block of {now}; one number for "
                         "each axis is required")  # fmt: skip
    places = linear(layout.to_encoding(), tuple(now))
    apart = [basis for name in places.in_names if name != REGISTER for basis in places.bases(name)]
    for axis, (size, length, start) in enumerate(zip(shape, part, offsets, strict=True)):
        if length < (least := 2 * max(basis[axis] for basis in apart)):
            raise ValueError(f"slice: {length} elements along axis {axis} in {layout}; its threads "
                             f"have {least}, which a part cannot divide")  # fmt: skip
        if size % length or start % length or not 0 <= start < size:
            raise ValueError(
                f"slice: {length} elements from {start} on along axis {axis}, of {size}; a part "
                "that divides the block, at a multiple of its size, is required"
            )
        while now[axis] > length:
            now[axis] //= 2
            rest = range(axis + 1, len(now) + 1)
            found.append(([*now[:axis], 2, *now[axis:]], [*range(axis), *rest, axis],
                          start // now[axis] % 2))  # fmt: skip
    return found


@device_function
def slice(source: Any, shape: Any, offsets: Any) -> Any:
    """The part of a block that begins at `offsets`, in the block's layout. Nothing moves between
    threads: where something would have to, that is an error."""
    x = source
    halvings = _halvings(source.shape, source.type.layout, shape, offsets)
    for halving in tl.static_range(len(halvings)):
        parts = halvings[halving]
        x = tl.split(tl.permute(tl.reshape(x, parts[0]), parts[1]))[parts[2]]
    return convert_layout(x, source.type.layout, assert_trivial=True)
