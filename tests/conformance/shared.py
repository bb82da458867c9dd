"""Statements for random kernels that meet in memory: arrays that several places of a program read,
write and change atomically, in loops and branches too, under two names; tiles that change places.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tests.conformance.checking import View
from tests.conformance.nodes import Assign, Effect, Shape, Var
from tests.conformance.support import FLOATS, INTEGERS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ELEMENTS = 8192
"""Of a shared array: no place leads beyond."""
LARGEST = 1024
"""Elements of a tile that goes to one."""


class SharedMemory:
    """Methods of a generator; each returns a node, or None where nothing in the pool fits."""

    if TYPE_CHECKING:
        pick: Callable[[Sequence[Any]], Any]
        some: Callable[..., Var | None]
        _tile: Callable[..., Var | None]
        _result: Callable[..., Assign]
        _integers: Callable[..., str]
        _edge: Callable[[Shape], str]
        _rearranged: Callable[[str, Shape], tuple[str, Shape]]
        array: Callable[[str, int], str]
        pool: list[Var]
        arrays: dict[str, np.ndarray | View]
        shared: dict[str, str]
        count: int
        m: int
        n: int

    def _read_shared(self, depth: int) -> Assign:
        name, dtype = self._shared(None)
        shape: Shape = self.pick([(self.n,), (self.m, self.n), (self.n, self.m), (8, 8), (64,)])
        place = self._anywhere(shape)
        return self._result(f"tl.load({name} + {place}{self._edge(shape)})", dtype, shape)

    def _write_shared(self, depth: int) -> Effect | None:
        a = self._small(lambda v: v.dtype in (*INTEGERS, *FLOATS))
        if a is None:
            return None
        lines: list[str] = []
        for _ in range(self.pick([1, 1, 2])):
            name, dtype = self._shared(a.dtype if self.pick([True, True, False]) else None)
            text, shape = self._rearranged(a.name, a.shape)
            if dtype != a.dtype:
                if a.dtype in FLOATS and dtype not in FLOATS:
                    text = f"safe_int({text})"
                text = f"({text}).to(tl.{dtype})"
            edge = self._edge(shape).removesuffix(", other=0")
            lines.append(f"tl.store({name} + {self._anywhere(shape)}, {text}{edge})")
        return Effect(lines)

    def _change_shared(self, depth: int) -> Effect:
        """Memory read and written through the same pointers."""
        name, dtype = self._shared(None)
        shape: Shape = self.pick([(self.n,), (self.m, self.n), (8, 8), (32, 16)])
        self.count += 1
        at, value = f"p{self.count}", f"b{self.count}"
        other = self._small(lambda v: v.shape == shape and v.dtype == dtype)
        text = self.pick([f"{value} + 1", f"{value} * 2", value])
        if other is not None:
            text = self.pick([text, f"{value} ^ {other.name}", f"{other.name}"])
            text = text.replace("^", "-") if dtype in FLOATS else text
        edge = self._edge(shape)
        lines = [f"{at} = {name} + {self._anywhere(shape)}", f"{value} = tl.load({at}{edge})"]
        lines.append(f"tl.store({at}, {text}{self.pick(['', edge.removesuffix(', other=0')])})")
        if self.pick([True, False]):
            more = self._edge(shape).removesuffix(", other=0")
            lines.append(f"tl.store({at}, {self.pick([value, f'{value} - 3'])}{more})")
        return Effect(lines)

    def _count_shared(self, depth: int) -> Assign | None:
        """An atomic operation on memory that is read and written otherwise too."""
        a = self._small(lambda v: v.dtype in ("int32", "uint32", "int64", "uint64"))
        if a is None:
            return None
        name, _ = self._shared(a.dtype)
        kind = self.pick(["add", "max", "xor", "xchg"])
        text = f"tl.atomic_{kind}({name} + {self._anywhere(a.shape)}, {a.name})"
        return self._result(text, a.dtype, a.shape)

    def _exchange(self, depth: int) -> Effect | None:
        """Tiles that take each other's place, or another order, under their names."""
        a = self._small(lambda v: v.name.startswith("v"))
        if a is None:
            return None
        b = self.some(
            lambda v: v.shape == a.shape and v.dtype == a.dtype and v.name.startswith("v")
        )
        text, shape = self._rearranged(a.name, a.shape)
        same = text if shape == a.shape and a.dtype != "int1" else a.name
        if b is None or b.name == a.name:
            return Effect([f"{a.name} = ({same}).to(tl.{a.dtype})"]) if same != a.name else None
        return Effect([f"{a.name}, {b.name} = {b.name}, ({same}).to(tl.{a.dtype})"])

    def _small(self, test: Callable[[Var], bool]) -> Var | None:
        return self._tile(lambda v: int(np.prod(v.shape)) <= LARGEST and test(v))

    def _shared(self, dtype: str | None) -> tuple[str, str]:
        """One of few arrays, or another name for it or for a part of it; of this dtype, if any."""
        names = [name for name, held in self.shared.items() if dtype in (None, held)]
        if not names or (len(self.shared) < 2 and self.pick([True, False, False])):
            dtype = dtype or self.pick(["int32", "int32", "int8", "int16", "float32", "int64"])
            old = self.array(dtype, ELEMENTS)
            name = f"s{old[1:]}"
            self.arrays[name] = self.arrays.pop(old)
            self.shared[name] = dtype
            if self.pick([True, False]):
                start = self.pick([0, 0, 1, 4, self.n])
                self.arrays[f"z{old[1:]}"] = View(name, start)
        else:
            name = self.pick(names)
        other = f"z{name[1:]}"
        chosen = self.pick([name, other]) if other in self.arrays else name
        return chosen, self.shared[name]

    def _anywhere(self, shape: Shape) -> str:
        """Places in a shared array: often those of other accesses, apart by what an axis has or by
        less, moved on by the loops around, or of no order."""
        size = int(np.prod(shape))
        turn = self.some(lambda v: v.shape == () and v.name[0] in "jw" and v.name != "w")
        starts = ["0", "0", "0", "k & 3", f"pid * {shape[-1]}", f"{shape[-1]}", "pid"]
        if turn is not None:
            starts += [turn.name, f"({turn.name} & 3) * {shape[-1]}", f"3 - ({turn.name} & 3)"] * 2
        start = self.pick(starts)
        index = self._small(lambda v: v.shape == shape and v.dtype in INTEGERS)
        if index is not None and self.pick([True, False, False, False]):
            return f"({self._integers(index)} & {self.pick([7, 63, 1023])})"
        flat = f"tl.reshape(tl.arange(0, {size}), {list(shape)})"
        if len(shape) == 1:
            steps = ["", " * 2", " * 0", " * (k & 1)", " * (k - 1)", " // 2"]
            line = f"tl.arange(0, {size})"
            line = self.pick([line, line, line, f"({size - 1} - {line})"])
            return f"({start}) + {size} + {line}{self.pick(['', '', *steps])}"
        if len(shape) != 2 or self.pick([True, False, False]):
            return f"({start}) + {size} + {flat}"
        rows, columns = shape
        far, near = self.pick([
            (f"{columns}", "1"), (f"{columns}", "1"), ("1", f"{rows}"), ("1", f"{rows}"),
            (f"{columns // 2}", "1"), ("(k + 1)", "1"), ("1", "(k & 3)"), ("1", "2"), ("0", "1"),
            (f"({columns} + k)", "1"), ("1", f"({max(rows, 4)} - k)"), ("1", "0"), ("2", "-1"),
        ])  # fmt: skip
        return (
            f"({start}) + {size} + tl.arange(0, {rows})[:, None] * {far} "
            f"+ tl.arange(0, {columns})[None, :] * {near}"
        )
