"""Lifetimes of pieces of memory in a program, and places for them.

Positions in the program are numbered. A piece lives from the first position that touches it to the
last one; if it was touched before a loop and is touched in it, it lives to the loop's end. Pieces
that live at the same time get different bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Sequence
from contextlib import contextmanager
from typing import Generic, NamedTuple, TypeVar

K = TypeVar("K", bound=Hashable)


class Span(NamedTuple):
    """The first and the last position at which something is needed."""

    first: int
    last: int

    def overlaps(self, other: Span) -> bool:
        """True if the two have a position in common."""
        return other.first <= self.last and self.first <= other.last


class Lifetimes(Generic[K]):
    """The spans of pieces of memory, by key; `clock` is the position that the walk has reached."""

    def __init__(self) -> None:
        self.clock = 0
        self.spans: dict[K, Span] = {}

    def touch(self, key: K) -> None:
        """A piece is needed at the current position."""
        first, last = self.spans.get(key, (self.clock, self.clock))
        self.spans[key] = Span(min(first, self.clock), max(last, self.clock))

    @contextmanager
    def loop(self) -> Generator[None]:
        """Code that may run again: what it needs of before it needs in every iteration."""
        start, before = self.clock, set(self.spans)
        yield
        for key in before:
            first, last = self.spans[key]
            if last > start:
                self.spans[key] = Span(first, max(last, self.clock))


class Piece(NamedTuple, Generic[K]):
    """A piece of memory that needs a place: its size and alignment in bytes; of several `parts` of
    this size it says where they are from the start on."""

    key: K
    size: int
    alignment: int
    span: Span
    parts: tuple[int, ...] = (0,)

    @property
    def extent(self) -> int:
        """The bytes from the start to the end of the last part."""
        return self.parts[-1] + self.size


def place(
    pieces: Sequence[Piece[K]], together: Callable[[Piece[K], Piece[K]], bool] | None = None
) -> dict[K, int]:
    """The start of each piece: the lowest one that none before it in the sequence has bytes of
    which it lives with. `together`: which pieces do; by default those whose spans overlap."""
    placed: list[tuple[Piece[K], int]] = []
    for piece in pieces:
        if together is None:
            # Span.overlaps, without a call for each pair.
            first, last = piece.span
            beside = [p for p in placed if p[0].span[0] <= last and first <= p[0].span[1]]
        else:
            beside = [p for p in placed if together(piece, p[0])]
        taken = sorted(
            (start + there - here, start + there - here + other.size)
            for other, start in beside for there in other.parts for here in piece.parts
        )  # fmt: skip
        start = 0
        for low, high in taken:
            if start + piece.size <= low:
                break
            start = max(start, -(-high // piece.alignment) * piece.alignment)
        placed.append((piece, start))
    return {piece.key: start for piece, start in placed}
