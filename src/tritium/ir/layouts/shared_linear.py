"""Encodings of shared memory given by their bases."""

from __future__ import annotations

from math import prod
from typing import Any, ClassVar

from xdsl.irdl import irdl_attr_definition

from tritium.errors import OpError
from tritium.ir.layouts.encodings import (
    BLOCK,
    OFFSET,
    SharedEncoding,
    SwizzledSharedEncoding,
    dim,
    linear,
)
from tritium.ir.layouts.linear import LinearLayout
from tritium.ir.layouts.moves import flat


class BasesEncoding(SharedEncoding):
    """Base of both: `offset` and `block` are bases."""

    def to_linear(self, shape: tuple[int, ...]) -> LinearLayout:
        sizes = {dim(i): size for i, size in enumerate(shape)}
        return LinearLayout.of({key: self.get(key) for key in (OFFSET, BLOCK)}, sizes)

    @property
    def rank(self) -> int:
        return len(self.get(OFFSET)[0])

    def elements_of_block(self, shape: tuple[int, ...]) -> int:
        return prod(shape[: len(shape) - self.rank]) << len(self.get(OFFSET))


def _powers_of_two(*numbers: int) -> bool:
    return all(n > 0 and n & (n - 1) == 0 for n in numbers)


@irdl_attr_definition
class SharedLinearEncoding(BasesEncoding):
    """Elements in the order of the bases of `offset`; `block`: those of a cluster's blocks."""

    name = "ttg.shared_linear"
    KEYS: ClassVar[tuple[str, ...]] = (OFFSET, BLOCK, "alignment")
    DEFAULTS: ClassVar[dict[str, Any]] = {BLOCK: ()}

    def check(self) -> None:
        if not self.get(OFFSET):
            raise ValueError(f"#{self.name}: no bases of offsets; at least one is required")
        if not _powers_of_two(self.get("alignment")):
            raise ValueError(
                f"#{self.name}: alignment {self.get('alignment')}; a power of two is required"
            )
        ranks = {len(basis) for key in (OFFSET, BLOCK) for basis in self.get(key)}
        if len(ranks) != 1:
            raise ValueError(f"#{self.name}: bases of ranks {sorted(ranks)}; one is required")

    @property
    def base_alignment(self) -> int:
        return self.get("alignment")


def reshaped_memory(
    encoding: SharedEncoding, shape: tuple[int, ...], result: tuple[int, ...]
) -> SharedEncoding:
    """The encoding of memory of this shape seen in another one, elements in row-major order. Raises
    `OpError` for shapes of different sizes, and for memory with gaps."""
    if prod(shape) != prod(result):
        raise OpError(
            f"memory of {list(shape)} as {list(result)}; the number of elements must be the same"
        )
    if encoding.gaps(shape, 1):
        raise OpError(f"memory with gaps, {encoding}, cannot be reshaped")
    layout = flat(linear(encoding, shape))
    sizes = {dim(i): result[i] for i in reversed(range(len(result)))}
    layout = layout.reshape_outs(sizes).transpose_outs([dim(i) for i in range(len(result))])
    if not layout.bases(OFFSET):  # one element, which has no offset to move by
        order = tuple(reversed(range(len(result))))
        return SwizzledSharedEncoding.make(
            vec=1, perPhase=1, maxPhase=1, order=order, CGALayout=layout.bases(BLOCK)
        )
    return SharedLinearEncoding.make(
        **{key: layout.bases(key) for key in (OFFSET, BLOCK)}, alignment=encoding.base_alignment
    )


@irdl_attr_definition
class PaddedSharedEncoding(BasesEncoding):
    """Elements in the order of the bases of `offset` with gaps: of each pair (interval, padding)
    in `intervals`, so much padding after every so many elements. `to_linear` leaves the gaps out,
    which no linear map has."""

    name = "ttg.padded_shared"
    KEYS: ClassVar[tuple[str, ...]] = ("intervals", OFFSET, BLOCK)
    DEFAULTS: ClassVar[dict[str, Any]] = {BLOCK: ()}

    def check(self) -> None:
        pairs = self.get("intervals")
        if not pairs or any(len(pair) != 2 or not _powers_of_two(*pair) for pair in pairs):
            raise ValueError(
                f"#{self.name}: intervals {list(pairs)}; pairs of powers of two are required"
            )
        if len({interval for interval, _ in pairs}) != len(pairs):
            raise ValueError(f"#{self.name}: an interval is given twice: {list(pairs)}")

    def gaps(self, shape: tuple[int, ...], size: int) -> tuple[tuple[int, int], ...]:
        return self.get("intervals")

    def elements_of_block(self, shape: tuple[int, ...]) -> int:
        count = super().elements_of_block(shape)
        return count + sum(count // interval * padding for interval, padding in
                           self.get("intervals"))  # fmt: skip
