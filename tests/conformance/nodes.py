"""The statements of a random kernel, as a tree that prints itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Var:
    """A value: `exact` if both ways must agree to the bit."""

    name: str
    dtype: str
    shape: Shape
    exact: bool = True


@dataclass(eq=False)
class Assign:
    """`var = text`."""

    var: Var
    text: str

    def lines(self, indent: str) -> Iterator[str]:
        yield f"{indent}{self.var.name} = {self.text}"


@dataclass(eq=False)
class Block:
    """A compound statement; `update` (text) ends its body and is never dropped alone."""

    header: str
    body: list[Any]
    orelse: list[Any] = field(default_factory=list)
    update: str = ""

    def lines(self, indent: str) -> Iterator[str]:
        yield indent + self.header
        inner = indent + "    "
        for node in self.body:
            yield from node.lines(inner)
        if self.update:
            yield inner + self.update
        elif not self.body:
            yield inner + "pass"
        if self.orelse:
            yield indent + "else:"
            for node in self.orelse:
                yield from node.lines(inner)


@dataclass(eq=False)
class Store:
    """`var` goes into its own output array, one block for each program; `masked`: only where the
    flat index is below n."""

    var: Var
    masked: bool

    def lines(self, indent: str) -> Iterator[str]:
        name, shape = self.var.name, self.var.shape
        size = int(np.prod(shape)) if shape else 1
        at = f"pid * {size}"
        if shape:
            at += f" + tl.reshape(tl.arange(0, {size}), {list(shape)})"
        mask = f", ({at}) % 7 != n % 7" if self.masked else ""
        yield f"{indent}tl.store(o_{name} + {at}, {name}{mask})"


@dataclass(eq=False)
class Effect:
    """Statements for what they do, not for a value."""

    texts: list[str]

    def lines(self, indent: str) -> Iterator[str]:
        yield from (indent + text for text in self.texts)
