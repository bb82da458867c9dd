"""Encodings of tensor memory (Blackwell): 128 rows ("lanes") of 512 columns of 32 bits.

The linear layouts map (row, column) to coordinates; columns are counted in elements of the tile.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser

from tritium.ir.layouts.encodings import BLOCK, Encoding, dim, part_of
from tritium.ir.layouts.linear import LinearLayout

ROW, COLUMN = "row", "column"
ROWS = 128
COLUMNS = 512
SCALES_OF_WORD = 4
"""Scales, of a byte each, in a column of 32 bits."""


@irdl_attr_definition
class TensorMemorySpace(ParametrizedAttribute):
    """`#ttng.tensor_memory`: the memory space of tensor memory."""

    name = "ttng.tensor_memory"


def _bits(size: int) -> range:
    return range(size.bit_length() - 1)


class TensorEncoding(Encoding):
    """Base of encodings of tensor memory."""

    BRACKETS: ClassVar[tuple[str, str]] = ("<", ">")

    @classmethod
    def parse_entries(cls, parser: AttrParser) -> Mapping[str, Attribute]:
        found: dict[str, Attribute] = {}
        while (name := parser.parse_optional_identifier()) is not None:
            parser.parse_punctuation("=")
            found[name] = parser.parse_attribute()
            parser.parse_optional_punctuation(",")
        return found

    def check(self) -> None:
        for basis in self.get("CGALayout"):
            if len(basis) != 2:
                raise ValueError(f"#{self.name}: CGALayout has {basis}; two axes are required")

    def check_memory(self, shape: tuple[int, ...], bits: int) -> None:
        """Raise `ValueError` for memory of this shape, of elements of `bits` bits, that cannot have
        the encoding."""
        if len(shape) < 2:
            raise ValueError(
                f"the shape is {list(shape)}; tensor memory has two axes, behind those of buffers"
            )
        if any(n < 1 or n & (n - 1) for n in shape[-2:]):
            raise ValueError(f"tiles of {list(shape[-2:])}; powers of two are required")

    def bases(self, shape: tuple[int, ...]) -> tuple[list[list[int]], list[list[int]]]:
        """The coordinates that each bit of the row and of the column adds, in one block of a
        cluster that has a tile of this shape."""
        raise NotImplementedError(f"{type(self).__name__}.bases")

    def to_linear(self, shape: tuple[int, ...]) -> LinearLayout:
        cluster, tile = self.get("CGALayout"), shape[-2:]
        part = part_of(cluster, tile)
        rows, columns = self.bases(part)
        bases = {ROW: rows, COLUMN: columns}
        if cluster:
            bases[BLOCK] = [
                [x * p if x * p < n else 0 for x, p, n in zip(basis, part, tile, strict=True)]
                for basis in cluster
            ]
        return LinearLayout.of(bases, {dim(i): size for i, size in enumerate(tile)})

    def columns_of(self, shape: tuple[int, ...], bits: int) -> int:
        """The columns of 32 bits that a tile of elements of `bits` bits takes; several tiles lie
        side by side."""
        count = 1 << len(self.bases(part_of(self.get("CGALayout"), shape[-2:]))[1])
        tiles = 1
        for size in shape[:-2]:
            tiles *= size
        return max(count * bits // 32, 1) * tiles


@irdl_attr_definition
class TensorMemoryEncoding(TensorEncoding):
    """Blocks of `blockM` rows and `blockN` columns, down the rows first. `colStride`: 1 where
    elements fill the columns, 32 / bits where each has a column of its own. A block of 64 rows has
    the first 16 of every 32 rows of the memory, the next block, if there is one, the others.
    `twoCTAs`: results of products of two thread blocks, of `blockM` rows each; those of 64 rows
    have the right half of their columns below the left. `fp4Padded`: of operands of 4 bits beside
    others of 8: each has a byte, bits 2 to 5 of it, so that two bytes stand for one element."""

    name = "ttng.tensor_memory_encoding"
    KEYS: ClassVar[tuple[str, ...]] = (
        "blockM", "blockN", "colStride", "CGALayout", "twoCTAs", "fp4Padded",
    )  # fmt: skip
    DEFAULTS: ClassVar[dict[str, Any]] = {"CGALayout": (), "twoCTAs": False, "fp4Padded": False}

    def check(self) -> None:
        rows, columns, stride = map(self.get, ("blockM", "blockN", "colStride"))
        if rows not in (64, ROWS):
            raise ValueError(f"#{self.name}: blockM is {rows}; 64 or 128 is required")
        for key, value in (("blockN", columns), ("colStride", stride)):
            if value < 1 or value & (value - 1):
                raise ValueError(f"#{self.name}: {key} is {value}; a power of two is required")
        cluster = self.get("CGALayout")
        if self.get("twoCTAs") and (not cluster or tuple(cluster[0]) != (1, 0)):
            raise ValueError(
                f"#{self.name}: CGALayout is {list(cluster)}; with twoCTAs its first basis is "
                "[1, 0]: two blocks have rows of one product"
            )
        super().check()

    def check_memory(self, shape: tuple[int, ...], bits: int) -> None:
        super().check_memory(shape, bits)
        rows, stride = part_of(self.get("CGALayout"), shape[-2:])[0], self.get("colStride")
        if rows < self.get("blockM"):
            raise ValueError(f"a thread block has {rows} rows; {self.get('blockM')} (blockM) or "
                             "more are required")  # fmt: skip
        if bits * stride > 32:
            raise ValueError(f"colStride is {stride}, of elements of {bits} bits; a column has 32")

    def bases(self, shape: tuple[int, ...]) -> tuple[list[list[int]], list[list[int]]]:
        m, n = self.get("blockM"), min(self.get("blockN"), shape[1])
        columns = [[0, 0] for _ in _bits(self.get("colStride") << self.get("fp4Padded"))]
        columns += [[0, 1 << i] for i in _bits(n)]
        blocks = [[m << i, 0] for i in _bits(shape[0] // m)]
        blocks += [[0, n << i] for i in _bits(shape[1] // n)]
        rows = [[1 << i, 0] for i in _bits(m)]
        if m < ROWS and self.get("twoCTAs"):
            rows.append(columns.pop())
        elif m < ROWS:
            rows.insert(4, blocks.pop(0) if blocks else [0, 0])
        return rows, columns + blocks


@irdl_attr_definition
class TensorMemoryScalesEncoding(TensorEncoding):
    """Scales of operands: four of a row in a column (copies, where a row has fewer); rows 0, 32,
    64, 96 side by side, two such columns at least; a copy for each warp."""

    name = "ttng.tensor_memory_scales_encoding"
    KEYS: ClassVar[tuple[str, ...]] = ("CGALayout",)
    DEFAULTS: ClassVar[dict[str, Any]] = {"CGALayout": ()}

    def check_memory(self, shape: tuple[int, ...], bits: int) -> None:
        super().check_memory(shape, bits)
        if bits != 8:
            raise ValueError(f"elements of {bits} bits; scales have 8")

    def bases(self, shape: tuple[int, ...]) -> tuple[list[list[int]], list[list[int]]]:
        rows, scales = shape
        columns = [[0, x if x < scales else 0] for x in (1, 2)]
        columns += [[32 if rows > 32 else 0, 0]]
        columns += [[64 << i, 0] for i in _bits(rows // 64)]
        columns += [[0, SCALES_OF_WORD << i] for i in _bits(scales // SCALES_OF_WORD)]
        return [*([x if x < rows else 0, 0] for x in (1, 2, 4, 8, 16)), [0, 0], [0, 0]], columns
