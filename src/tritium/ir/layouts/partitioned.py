"""Encoding of shared memory in partitions: parts of a tile that lie far apart."""

from __future__ import annotations

from typing import Any, ClassVar

from xdsl.irdl import irdl_attr_definition

from tritium.ir.layouts.encodings import BLOCK, OFFSET, SharedEncoding, dim, linear
from tritium.ir.layouts.linear import LinearLayout

PARTITION_BYTES = 1 << 16
"""Bytes between the starts of partitions."""


@irdl_attr_definition
class PartitionedSharedEncoding(SharedEncoding):
    """A tile in `numPartitions` * `numGroups` pieces along `partitionDim`, each laid out as
    `partitionLayout` says. Pieces are in the partitions in turn; those of one partition follow each
    other. `to_linear` leaves out the space between partitions, as gaps."""

    name = "ttg.partitioned_shared"
    KEYS: ClassVar[tuple[str, ...]] = (
        "numPartitions", "numGroups", "partitionDim", "partitionLayout"
    )  # fmt: skip
    DEFAULTS: ClassVar[dict[str, Any]] = {}

    def check(self) -> None:
        for key in ("numPartitions", "numGroups"):
            if (value := self.get(key)) < 1 or value & (value - 1):
                raise ValueError(f"#{self.name}: {key} is {value}; a power of two is required")
        inner = self.get("partitionLayout")
        if not isinstance(inner, SharedEncoding) or isinstance(inner, PartitionedSharedEncoding):
            raise ValueError(f"#{self.name}: partitionLayout is {inner}; a layout of shared memory "
                             "without partitions is required")  # fmt: skip
        if not 0 <= self.get("partitionDim") < inner.rank:
            raise ValueError(f"#{self.name}: partitionDim is {self.get('partitionDim')}; 0 to "
                             f"{inner.rank - 1} is required")  # fmt: skip

    @property
    def pieces(self) -> int:
        """The number of pieces of a tile."""
        return int(self.get("numPartitions")) * int(self.get("numGroups"))

    def piece(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of a piece of a tile. Raises `ValueError` where there are no such pieces."""
        axis = self.get("partitionDim")
        if shape[axis] % self.pieces:
            raise ValueError(f"#{self.name}: {self.pieces} pieces of a tile of {list(shape)} along "
                             f"the axis {axis}; the extent must be a multiple")  # fmt: skip
        return tuple(n // self.pieces if i == axis else n for i, n in enumerate(shape))

    def to_linear(self, shape: tuple[int, ...]) -> LinearLayout:
        piece, axis = self.piece(shape), int(self.get("partitionDim"))
        inner = linear(self.get("partitionLayout"), piece)
        count = int(self.get("numPartitions")).bit_length() - 1
        bits = [piece[axis] << bit for bit in range(self.pieces.bit_length() - 1)]
        steps = [tuple(n if i == axis else 0 for i in range(len(shape)))
                 for n in (*bits[count:], *bits[:count])]  # fmt: skip
        cluster = inner.bases(BLOCK) if BLOCK in inner.in_names else ()
        bases = {OFFSET: (*inner.bases(OFFSET), *steps), BLOCK: cluster}
        return LinearLayout.of(bases, {dim(i): size for i, size in enumerate(shape)})

    @property
    def rank(self) -> int:
        return self.get("partitionLayout").rank

    def check_memory(self, shape: tuple[int, ...], bits: int) -> None:
        super().check_memory(shape, bits)
        piece = self.piece(shape[len(shape) - self.rank :])
        self.get("partitionLayout").check_memory(piece, bits)

    @property
    def base_alignment(self) -> int:
        return self.get("partitionLayout").base_alignment

    def elements_of_block(self, shape: tuple[int, ...]) -> int:
        """Elements of one partition."""
        own, buffers = shape[len(shape) - self.rank :], shape[: len(shape) - self.rank]
        inner = self.get("partitionLayout").elements_of_block((*buffers, *self.piece(own)))
        return inner * self.get("numGroups")

    def gaps(self, shape: tuple[int, ...], size: int) -> tuple[tuple[int, int], ...]:
        own = shape[len(shape) - self.rank :]
        within = 1
        for extent in own:
            within *= extent
        within //= self.get("numPartitions")
        apart = PARTITION_BYTES // size - self.elements_of_block(own)
        inner = self.get("partitionLayout").gaps(own, size)
        return (*inner, (within, apart)) if apart else inner

    @property
    def parts(self) -> tuple[int, ...]:
        return tuple(PARTITION_BYTES * i for i in range(self.get("numPartitions")))
