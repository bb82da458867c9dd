"""Spans of pieces of memory, and places for them."""

from __future__ import annotations

from tritium.analysis.lifetimes import Lifetimes, Piece, Span, place


def test_what_a_loop_needs_of_before_lives_to_its_end() -> None:
    found = Lifetimes[str]()
    found.touch("before")
    found.touch("unused")
    found.clock = 1
    with found.loop():
        found.clock = 2
        found.touch("inside")
        found.clock = 3
        found.touch("before")
        found.clock = 5
    assert found.spans == {"before": Span(0, 5), "unused": Span(0, 0), "inside": Span(2, 2)}


def test_pieces_share_bytes_at_different_times() -> None:
    pieces = [
        Piece("a", 64, 16, Span(0, 2)),
        Piece("b", 40, 16, Span(2, 3)),
        Piece("c", 40, 16, Span(3, 4)),
        Piece("d", 8, 8, Span(2, 4)),
    ]
    assert place(pieces) == {"a": 0, "b": 64, "c": 0, "d": 104}


def test_pieces_that_are_needed_together_whatever_their_spans() -> None:
    pieces = [Piece("a", 64, 16, Span(0, 1)), Piece("b", 64, 16, Span(5, 6))]
    assert place(pieces) == {"a": 0, "b": 0}
    assert place(pieces, lambda one, other: True) == {"a": 0, "b": 64}
