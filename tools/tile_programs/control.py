"""Statements around others: `for`, `while`, `if`, with tiles that they carry.

The body of a loop is made anew for each iteration, with the same random numbers and the tiles as
they are then. Where its text is the same each time, the kernel has it once, in a loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tools.tile_programs.hazards import turned_tile
from tools.tile_programs.program import ALL_KINDS, Program, Tile, Unlike

Statement = Callable[[Program], bool]
_DEEPEST = 2
_STRIDES = ((0, 1), (3, 1), (-2, 2), (1, 7), (5, -1), (-1, -3))
"""First numbers and steps of ranges."""


class Control:
    """The statements `for`, `while` and `if` around some others.

    Args:
        body: the statements of bodies; those of this class may be among them.
    """

    stages: tuple[int, ...] = (1, 2, 3)
    """Numbers of stages that loops may ask for."""

    def __init__(self, body: Sequence[Statement]):
        self.body = (*body, self.loop, self.choice)

    def loop(self, p: Program) -> bool:
        """A `for` or `while` loop, as often as an argument, a constant or each program says."""
        if len(p.indent) // 4 >= _DEEPEST:
            return False
        done = False
        with p.attempt():
            self._loop(p)
            done = True
        return done

    def choice(self, p: Program) -> bool:
        """An `if`, with or without `else`."""
        if len(p.indent) // 4 >= _DEEPEST:
            return False
        done = False
        with p.attempt():
            self._choice(p)
            done = True
        return done

    def turned(self, p: Program, tile: Tile) -> Tile | None:
        """The elements of a tile in other places."""
        return turned_tile(p, tile)

    def _loop(self, p: Program) -> None:
        s = p.source
        carried, unrolls = _carried(p), False
        index = Tile(p.name("i"), np.zeros(p.programs, np.int32))
        bound, trips = _trips(p)
        is_for = s.random() < 0.7
        first_index, step = (0, 1) if not is_for or s.random() < 0.6 else s.choice(_STRIDES)
        if is_for:
            is_staged = bool(self.stages) and s.random() < 0.3
            stages = f", num_stages={s.choice(self.stages)}" if is_staged else ""
            limits = (
                bound
                if (first_index, step) == (0, 1) and not stages
                else (f"{first_index}, {first_index} + ({bound}) * {step}, {step}")
            )
            unrolls = bound in ("0", "1", "2", "3") and not stages and s.random() < 0.3
            kind = "tl.static_" if unrolls else "tl." if stages else ""
            p.line(f"for {'u' if unrolls else ''}{index.name} in {kind}range({limits}{stages}):")
        else:
            p.line(f"{index.name} = pid * 0")
            p.line(f"while {index.name} < {bound}:")
        outer, outside, first = p.active, p.keep(), len(p.lines)
        state, count = s.getstate(), p.count
        p.indent += "    "
        text: list[str] | None = None
        # A body that no program executes is made once, for its text.
        for trip in range(max(1, int(trips[outer].max()) if outer.any() else 1)):
            s.setstate(state)
            p.count = count
            del p.lines[first:]
            p.active = outer & (trips > trip)
            index.data = np.full(p.programs, first_index + trip * step, np.int32)
            p.go_back(outside)
            if unrolls:
                p.line(f"{index.name} = pid * 0 + u{index.name}")
            p.tiles.append(index)
            _assign(p, carried, self._statements(p, carried))
            if not is_for:
                p.line(f"{index.name} += 1")
            if text is not None and text != p.lines[first:]:
                raise Unlike
            text = p.lines[first:]
        p.indent, p.active = p.indent[4:], outer
        _leave(p, outside, carried)

    def _choice(self, p: Program) -> None:
        s = p.source
        carried = _carried(p)
        text, condition = _condition(p)
        outer, outside = p.active, p.keep()
        for word, holds in ((f"if {text}:", condition), ("else:", ~condition)):
            if word == "else:" and s.random() < 0.5:
                break
            p.line(word)
            p.indent += "    "
            p.active = outer & holds
            p.go_back(outside)
            _assign(p, carried, self._statements(p, carried))
            p.indent = p.indent[4:]
        p.active = outer
        _leave(p, outside, carried)

    def _statements(self, p: Program, carried: list[Tile]) -> list[Tile]:
        """A few statements; new values for carried tiles, which are often turned ones."""
        s = p.source
        for _ in range(s.choice((0, 1, 2, 3))):
            for _ in range(5):
                if s.choice(self.body)(p):
                    break
        values = []
        for tile in carried:
            of = s.choice(carried)
            of = of if _alike(of, tile) else tile
            found = self.turned(p, of) if s.random() < 0.7 else None
            if found is not None and s.random() < 0.5 and found.kind == "i":
                found = p.new(f"{found.name} + {p.as_carried(of, found)}", found.data + of.data)
            fit = [t for t in p.tiles if _alike(t, tile) and t is not tile]
            value = s.choice(fit[-3:]) if fit and s.random() < 0.3 else (found or of)
            if not p.exact(value.data):
                raise Unlike
            values.append(value)
        p.line("pass")
        return values


def returned(p: Program) -> bool:
    """An early `return` of some programs, rarely of all."""
    text, condition = _condition(p)
    active = p.active & ~condition
    if p.source.random() < 0.5 or (not active.any() and p.source.random() < 0.8):
        return False
    p.line(f"if {text}:")
    p.line("    return")
    p.active = active
    return True


def _alike(a: Tile, b: Tile) -> bool:
    return a.shape == b.shape and a.data.dtype == b.data.dtype


def _leave(p: Program, outside: Any, carried: list[Tile]) -> None:
    """Go back to what there was outside; carried tiles come last: they are used, and stored, more
    often."""
    p.go_back(outside)
    p.tiles = [t for t in p.tiles if t not in carried] + carried


def _carried(p: Program) -> list[Tile]:
    """Names for tiles that a body changes."""
    s, found = p.source, list[Tile]()
    for _ in range(s.choice((1, 1, 2, 2, 3))):
        of = p.pick(ALL_KINDS.replace("b", ""), 1)
        if found and s.random() < 0.6:
            same = [t for t in p.tiles if _alike(t, found[0])]
            of = s.choice(same)
        if of is not None:
            found.append(p.new(of.name, of.data, "c"))
    return found


def _assign(p: Program, carried: list[Tile], values: list[Tile]) -> None:
    """Give carried tiles their new values, all at once, in the programs that execute this."""
    if not carried:
        return
    given = (p.as_carried(v, t) for v, t in zip(values, carried, strict=True))
    p.line(f"{', '.join(t.name for t in carried)} = {', '.join(given)}")
    new = [np.where(p.among_active(np.ones(t.data.shape, bool)), v.data, t.data)
           for t, v in zip(carried, values, strict=True)]  # fmt: skip
    for tile, data in zip(carried, new, strict=True):
        tile.data = data


def _trips(p: Program) -> tuple[str, np.ndarray]:
    """The text of a number of iterations, and the number in each program."""
    s = p.source
    kind = s.choice(("constant", "argument", "program", "tile"))
    number = s.choice((0, 1, 2, 3, 3, 3, 5))
    scalars = [t for t in p.tiles if t.shape == () and t.kind == "i" and t.data.dtype == np.int32]
    if kind == "tile" and scalars:
        tile = s.choice(scalars)
        return f"({tile.name} & 3)", tile.data & 3
    if kind == "program":
        return f"(pid + {number}) % 3", (np.arange(p.programs) + number) % 3
    text = p.scalar(number) if kind == "argument" else str(number)
    return text, np.full(p.programs, number)


def _condition(p: Program) -> tuple[str, np.ndarray]:
    """The text of a condition on scalars, and its value in each program."""
    s = p.source
    scalars = [t for t in p.tiles if t.shape == () and t.kind in "bi"]
    if scalars and s.random() < 0.6:
        tile = s.choice(scalars)
        if tile.kind == "b":
            return tile.name, tile.data
        return f"{tile.name} % 2 == 0", tile.data % 2 == 0
    number = s.choice((0, 1))
    if s.random() < 0.3:
        return f"{p.scalar(number)} == 1", np.full(p.programs, number == 1)
    return f"pid % 2 == {number}", np.arange(p.programs) % 2 == number
