"""Packed operands that outlive a program.

Programs of a grid that a thread runs one after the other often read the same B (or A): in grouped
order all programs of a column of a group. The copy stays where it is, with what it was made from:
addresses, steps, iterations. A thread's first program packs all of its operand, for others to use.
If a copy was used again, the first program with the next operand packs all of it, too. If it was
not, that program packs block by block, because it may be the only one again; a second one with the
same operand packs all of it; from the third on it is there.

This is right only if no program may write what another one reads, that is for kernels without
atomic and volatile accesses, and for a dot that a program executes once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tritium.backends.cpu.dot.operand import Operand, Step, as_value, static
from tritium.backends.cpu.dot.pack import Packing, ScratchAlloc
from tritium.codegen.llvm.writer import Function, Value, const

_ZERO, _ONE, _TWO = (const("i64", n) for n in range(3))
_CACHES = 4
"""Times the second cache that a copy may take. It is read in order, which the processor sees
coming; where it does not fit, every program copies its parts."""
_WORDS = 8
"""The words of the head of a panel: how often its operand came, and what it was made from."""


@dataclass(frozen=True)
class Kept:
    """Memory that a thread keeps from program to program.

    Args:
        alloc: gives a number of bytes of it, 64-byte-aligned. Before the first program of a range
            the first 8 of them are set to -1.
        bytes: those of the second cache.
    """

    alloc: ScratchAlloc
    bytes: int

    def most(self, packing: Packing) -> int:
        """The number of iterations whose tiles a copy holds."""
        return _CACHES * self.bytes // packing.bytes


@dataclass(frozen=True)
class Panel:
    """The place of the copy of an operand.

    Args:
        target: its address.
        rest: the address of the memory after the tiles, for `extra` bytes of each.
        whole: an i1, whether it holds all iterations, each at its own place.
        filled: an i1, whether it is whole and complete already.
    """

    target: Value
    rest: Value
    whole: Value
    filled: Value

    @classmethod
    def find(
        cls, f: Function, kept: Kept, packing: Packing, table: Value | None,
        facts: Sequence[Step], trips: Value, extra: int = 0,
    ) -> Panel:  # fmt: skip
        """Compare an operand with that of the program before.

        Args:
            table: its addresses, if they are not those of a strided matrix.
            facts: what else the copy depends on.
            extra: bytes that each iteration needs besides its tile.
        """
        run, entries = packing.address_run, packing.outer if table is not None else 0
        entries = -(-entries // 8) * 8
        most = kept.most(packing)
        tiles = 8 * (_WORDS + entries)
        head = kept.alloc(tiles + most * (packing.bytes + extra))
        words = [as_value(word) for word in (*facts, trips) if static(word) is None]
        if table is None:
            start = packing.source.pointer(f, _ZERO, _ZERO)
            words.append(f.cast("ptrtoint", start, "i64"))
        assert len(words) < _WORDS
        differs = _ZERO
        for number, word in enumerate(words):
            place = f.offset(head, 8 * (number + 1))
            differs = f.op("or", differs, f.op("xor", f.load("i64", place, 8), word))
            f.store(word, place, 8)
        if table is not None:
            copy = f.offset(head, 8 * _WORDS)
            differs = _compare(f, table, copy, (packing.outer, run), differs)
        before = f.load("i64", head, 8)
        again = f.intrinsic("smin", f.op("add", before, _ONE), _TWO)
        # Where the last operand's copy was used again, this one's will be as well; so it is
        # expected of the first of all.
        first = f.select(f.icmp("ugt", before, _ONE), _ONE, _ZERO)
        again = f.select(f.icmp("eq", differs, _ZERO), again, _ZERO)
        times = f.intrinsic("smax", again, first)
        f.store(times, head, 8)
        fits = f.icmp("sle", trips, const("i64", most))
        return cls(
            f.offset(head, tiles),
            f.offset(head, tiles + most * packing.bytes),
            f.op("and", fits, f.icmp("sge", times, _ONE)),
            f.op("and", fits, f.icmp("eq", times, _TWO)),
        )


def _compare(
    f: Function, table: Value, copy: Value, size: tuple[int, int], differs: Value
) -> Value:
    """`differs`, and the bits in which the addresses differ from those before; they are kept."""
    count, every = (const("i64", number) for number in size)
    with f.loop(_ZERO, count, every, [differs], at_least_once=True) as place:
        at = f.op("mul", place.index, const("i64", 8))
        new, old = f.load("i64", f.gep("i8", table, at), 8), f.gep("i8", copy, at)
        place.next = [f.op("or", place.carried[0], f.op("xor", f.load("i64", old, 8), new))]
        f.store(new, old, 8)
    return place.results[0]


def facts(source: Operand, advance: Step) -> list[Step]:
    """Facts on which a copy depends besides addresses."""
    return [step for step in (source.k_step, source.outer_step, advance) if step is not None]
