"""The places at which the NaNs and infinities in values were made, element by element.

Each array that holds some has marks: for each element the number of an origin, 0 where there is
none or it is not known. Which operands an element's number came from, the op itself tells: it is
evaluated again with only the bad numbers of one origin left in its operands, and ones in place of
the others. A number that `tl.where` replaces, or that a sum leaves out, is no origin of the result.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tritium.ir import types as ir
from tritium.ops.effects import GLOBAL
from tritium.sanitize.kinds import INFINITE, NAN, Origin, Site

BAD: dict[int, Callable[[Any], Any]] = {NAN: np.isnan, INFINITE: np.isinf}
"""Tests of numbers by kind."""
_Marks = dict[int, Any]
_Again = Callable[[Sequence[Any]], Any]


class Origins:
    """The origins of the NaNs and infinities of one program."""

    def __init__(self) -> None:
        self._found: list[Origin] = []
        self._marks: dict[int, tuple[weakref.ref[Any], _Marks]] = {}

    def of(self, value: Any, kind: int, where: Any = None) -> Origin | None:
        """The origin of the first element of a kind, as far as known, among those of a mask."""
        numbers = np.asarray(self._of(value).get(kind, 0)).reshape(-1)
        if where is not None and np.size(where) == numbers.size:
            numbers = numbers[np.reshape(where, -1)]
        first = int(numbers[np.argmax(numbers != 0)]) if numbers.size else 0
        return self._found[first - 1] if first else None

    def follow(
        self, op: Any, operands: Sequence[Any], outcome: Any, again: _Again,
        site: Callable[[], Site],
    ) -> Any:  # fmt: skip
        """Mark what an op gave. Returns it, scalars that have marks as arrays.

        Args:
            operands: as `op.evaluate` took them.
            again: evaluates the op on others.
            site: describes the op's place.
        """
        if not any(ir.is_float(r.type) for r in op.results):
            return outcome
        single = len(op.results) == 1
        given = [outcome] if single else list(outcome)
        for number, result in enumerate(op.results):
            value: Any = given[number]
            if not ir.is_float(result.type) or not _is_float(value):
                continue
            if op.regions and any(marks.any() for marks in self._of(value).values()):
                continue  # a loop or a choice hands it on

            def one_again(changed: Sequence[Any], number: int = number) -> Any:
                values = again(changed)
                return values if single else values[number]

            marks = self._made(op, operands, value, one_again, site)
            if marks:
                given[number] = self._mark(np.asarray(value), marks)
        return given[0] if single else tuple(given)

    def _made(
        self, op: Any, operands: Sequence[Any], value: Any, again: _Again,
        site: Callable[[], Site],
    ) -> _Marks:  # fmt: skip
        marks: _Marks = {}
        for kind, is_bad in BAD.items():
            bad = is_bad(_numbers(value))
            if not bad.any():
                continue
            if any(effect.resource is GLOBAL for effect in op.own_effects()):
                marks[kind] = np.where(bad, self._new(Origin("loaded", site())), 0)
            elif op.is_pure:
                marks[kind] = self._traced(operands, bad, kind, again, site)
        return marks

    def _traced(
        self, operands: Sequence[Any], bad: Any, kind: int, again: _Again,
        site: Callable[[], Site],
    ) -> Any:  # fmt: skip
        """The marks of the elements `bad` of what an op made of these operands."""
        is_bad, leaves = BAD[kind], list(_leaves(operands))
        worst = [leaf for leaf in leaves if is_bad(_numbers(leaf)).any()]
        numbers = np.zeros(bad.shape, np.int64)
        made = bad & is_bad(_numbers(again(self._left(operands, kind, 0)))) if worst else bad
        if made.any():
            cause = self._cause(leaves, made) if kind == NAN else None
            numbers[made] = self._new(Origin("made", site(), cause))
        candidates = {int(n) for leaf in worst for n in np.unique(self._of(leaf).get(kind, 0)) if n}
        for candidate in sorted(candidates):
            rest = bad & (numbers == 0)
            if not rest.any():
                break
            still = is_bad(_numbers(again(self._left(operands, kind, candidate))))
            numbers[rest & still] = candidate
        return numbers

    def _left(self, operands: Any, kind: int, origin: int) -> list[Any]:
        """Operands with the bad numbers of one origin (0: none), and ones in place of others."""

        def changed(value: Any) -> Any:
            if isinstance(value, tuple):
                return tuple(changed(v) for v in value)  # pyright: ignore[reportUnknownVariableType]
            if not _is_float(value):
                return value
            other = BAD[kind](_numbers(value))
            if origin:
                other &= self._of(value).get(kind, 0) != origin
            return np.where(other, np.ones((), value.dtype), value) if other.any() else value

        return [changed(value) for value in operands]

    def _cause(self, leaves: Sequence[Any], made: Any) -> Origin | None:
        """The origin of an infinity of which NaNs were made at these elements."""
        found = [n for leaf in leaves if (n := self._of(leaf).get(INFINITE)) is not None]
        found = [n[made] if n.shape == made.shape else n for n in found]
        numbers = [int(n) for marks in found for n in marks.flat if n]
        return self._found[numbers[0] - 1] if numbers else None

    def _new(self, origin: Origin) -> int:
        """The number of an origin."""
        if origin not in self._found:
            self._found.append(origin)
        return self._found.index(origin) + 1

    def _of(self, value: Any) -> _Marks:
        held = self._marks.get(id(value))
        return held[1] if held is not None and held[0]() is value else {}

    def _mark(self, value: Any, marks: _Marks) -> Any:
        key = id(value)
        forget = self._marks

        def gone(reference: Any) -> None:
            held = forget.get(key)
            if held is not None and held[0] is reference:
                del forget[key]

        self._marks[key] = weakref.ref(value, gone), marks
        return value


def _leaves(operands: Sequence[Any]) -> Iterator[Any]:
    for value in operands:
        if isinstance(value, tuple):
            yield from _leaves(value)  # pyright: ignore[reportUnknownArgumentType]
        elif _is_float(value):
            yield value


def _is_float(value: Any) -> bool:
    """True for floats, those of ml_dtypes (V) included."""
    return isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "fV"


def _numbers(value: Any) -> Any:
    return np.asarray(value).astype(np.float64)
