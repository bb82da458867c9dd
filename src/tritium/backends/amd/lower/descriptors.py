"""Descriptors of tensors in registers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tritium.codegen.gpu.context import Context
from tritium.codegen.llvm.writer import Value
from tritium.ir import types as ir


@dataclass(frozen=True)
class Descriptor:
    """A descriptor in registers, of a tensor in the order of its axes: the address (i64), extents
    (i32), strides (i64) in elements, and whether copies are made (i32)."""

    address: Value
    extents: tuple[Value, ...]
    strides: tuple[Value, ...]
    made: Value

    @staticmethod
    def of(c: Context, value: Any) -> Descriptor:
        found: Any = c.values[value]
        rank = len(value.type.block.get_shape())
        return Descriptor(found[0], found[1 : rank + 1], found[rank + 1 : -1], found[-1])

    def define(self, c: Context, value: Any) -> None:
        """Make it the value of a result."""
        c.values[value] = (self.address, *self.extents, *self.strides, self.made)


def define_arguments(c: Context, arguments: Sequence[Any]) -> None:
    """Define the descriptors that a kernel is called with: each is a pointer; the extents and the
    strides are the arguments that follow."""
    for number, value in enumerate(arguments):
        if not isinstance(value.type, ir.TensorDescType):
            continue
        first, rank = number + 1, len(value.type.block.get_shape())  # pyright: ignore
        extents = [c.scalar(v) for v in arguments[first : first + rank]]
        strides = [c.scalar(v) for v in arguments[first + rank : first + 2 * rank]]
        address = c.f.cast("ptrtoint", c.scalar(value), "i64")
        Descriptor(address, tuple(extents), tuple(strides), c.i32(1)).define(c, value)
