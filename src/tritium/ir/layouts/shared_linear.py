"""Encodings of shared memory given by their bases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, ClassVar

from xdsl.dialects.builtin import ArrayAttr
from xdsl.ir import Attribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from tritium.errors import OpError
from tritium.ir.layouts.encodings import (
    BLOCK,
    OFFSET,
    SharedEncoding,
    SwizzledSharedEncoding,
    decode,
    dim,
    encode,
    linear,
)
from tritium.ir.layouts.linear import LinearLayout
from tritium.ir.layouts.moves import in_shape, permuted


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

    def check_memory(self, shape: tuple[int, ...], bits: int) -> None:
        super().check_memory(shape, bits)
        bases = [*self.get(OFFSET), *self.get(BLOCK)]
        own = list(shape[len(shape) - self.rank :])
        extent = [1 << max(axis).bit_length() for axis in zip(*bases, strict=True)]
        if extent != own:
            raise ValueError(f"the bases of the layout are of a tile of {extent}; of {own} are "
                             "required")  # fmt: skip
        moving = sum(map(any, bases))
        if not self.to_linear(tuple(own)).is_surjective or 1 << moving != prod(own):
            raise ValueError(f"the {moving} bases of the layout that are not zero do not give each "
                             f"element of {own} one place: some are sums of others")  # fmt: skip


def bases_in_order(order: Sequence[int], shape: Sequence[int]) -> list[list[int]]:
    """The bases of offsets of a tile whose elements run along the axes in `order`, fastest
    first."""
    return [[1 << bit if i == axis else 0 for i in range(len(shape))]
            for axis in order for bit in range(shape[axis].bit_length() - 1)]  # fmt: skip


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
    layout = in_shape(linear(encoding, shape), result)
    if not layout.bases(OFFSET):  # one element, which has no offset to move by
        order = tuple(reversed(range(len(result))))
        return SwizzledSharedEncoding.make(
            vec=1, perPhase=1, maxPhase=1, order=order, CGALayout=layout.bases(BLOCK)
        )
    return SharedLinearEncoding.make(
        **{key: layout.bases(key) for key in (OFFSET, BLOCK)}, alignment=encoding.base_alignment
    )


def permuted_memory(
    encoding: SharedEncoding, shape: tuple[int, ...], order: tuple[int, ...]
) -> SharedEncoding:
    """The encoding of memory of this shape with its axes in another order: axis i is the axis
    `order[i]`. Raises `OpError` for memory with gaps."""
    if encoding.gaps(shape, 1):
        raise OpError(f"memory with gaps, {encoding}, cannot be permuted by {list(order)}")
    layout = linear(encoding, shape)
    return SharedLinearEncoding.make(
        **{key: permuted(tuple(layout.bases(key)), order) for key in (OFFSET, BLOCK)},
        alignment=encoding.base_alignment,
    )


@irdl_attr_definition
class PaddedSharedEncoding(BasesEncoding):
    """Elements in the order of the bases of `offset` with gaps: for each pair (interval, padding)
    in `intervals`, `padding` elements after every `interval` elements. `to_linear` leaves the gaps
    out, which no linear map has."""

    name = "ttg.padded_shared"
    KEYS: ClassVar[tuple[str, ...]] = ("intervals", OFFSET, BLOCK)
    DEFAULTS: ClassVar[dict[str, Any]] = {BLOCK: ()}

    def print_parameters(self, printer: Printer) -> None:
        """`<[64:+8] {offset = [[0, 1], ...], block = []}>`"""
        intervals = ", ".join(f"{interval}:+{gap}" for interval, gap in self.get("intervals"))
        bases = ", ".join(f"{k} = {[list(b) for b in self.get(k)]}" for k in (OFFSET, BLOCK))
        printer.print_string(f"<[{intervals}] {{{bases}}}>")

    @classmethod
    def parse_entries(cls, parser: AttrParser) -> Mapping[str, Attribute]:
        """Bases, or `{order = [1, 0], shape = [64, 32]}`: elements along the axes in order, fastest
        first."""

        def pair() -> Attribute:
            interval = parser.parse_integer()
            for sign in (":", "+"):
                parser.parse_punctuation(sign)
            return encode((interval, parser.parse_integer()))

        intervals = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, pair)
        found = dict(parser.parse_optional_dictionary_attr_dict())
        if found.keys() == {"order", "shape"}:
            order, shape = (decode(found[key]) for key in ("order", "shape"))
            found = {OFFSET: encode(bases_in_order(order, shape))}
        return {"intervals": ArrayAttr(intervals), **found}

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
