"""Descriptors of tensors in registers, for hardware that takes no tensor maps from memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tritium.codegen.gpu.context import Context
from tritium.codegen.gpu.hardware import Hardware
from tritium.codegen.gpu.types import GPU
from tritium.codegen.llvm.types import memory_bytes
from tritium.codegen.llvm.writer import Value, const
from tritium.codegen.registry import lowers
from tritium.ir import types as ir
from tritium.ops import ttgir, ttir


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

    @staticmethod
    def made_of(
        c: Context, base: Any, shape: Sequence[Any], strides: Sequence[Any]
    ) -> Descriptor:
        """The descriptor of a tensor at a pointer."""
        extents, steps = (tuple(c.scalar(v) for v in part) for part in (shape, strides))
        address = c.f.cast("ptrtoint", c.scalar(base), "i64")
        return Descriptor(address, extents, steps, c.i32(1))

    def define(self, c: Context, value: Any) -> None:
        """Make it the value of a result."""
        c.values[value] = (self.address, *self.extents, *self.strides, self.made)

    def address_at(self, c: Context, size: int, offsets: Sequence[Value]) -> Value:
        """The address of the element, of `size` bytes, that is so much further along the axes."""
        total = self.address
        for offset, stride in zip(offsets, self.strides, strict=True):
            step = c.f.op("mul", c.f.cast("sext", offset, "i64"), stride)
            total = c.f.op("add", total, c.f.op("mul", step, const("i64", size)))
        return total

    def moved(
        self, c: Context, size: int, offsets: Sequence[Value], *, clamped: bool
    ) -> Descriptor:
        """The descriptor that begins so much further along the axes. `clamped`: its extents are
        what is left of these, nothing behind a negative offset."""
        address, extents = self.address_at(c, size, offsets), self.extents
        if clamped:
            extents = tuple(
                c.f.select(c.f.icmp("slt", o, c.i32(0)), c.i32(0),
                           at_least_0(c, c.f.op("sub", n, o)))
                for n, o in zip(extents, offsets, strict=True)
            )  # fmt: skip
        return Descriptor(address, extents, self.strides, self.made)


def at_least_0(c: Context, extent: Value) -> Value:
    """An extent, 0 for a negative one."""
    return c.f.call("i32", "llvm.smax.i32", extent, c.i32(0))


def element_bytes(desc: Any) -> int:
    """The bytes of an element of a descriptor's tensor."""
    return memory_bytes(ir.element_type(desc.type.block))


class WithoutMaps(Hardware):
    """Hardware whose kernels take a descriptor as a pointer, its extents and its strides."""

    def define_descriptors(self, c: Any, arguments: Sequence[Any], *, of_kernel: bool) -> None:
        if not of_kernel and any(isinstance(value.type, ir.DESCRIPTORS) for value in arguments):
            raise NotImplementedError(f"the {self.title} backend passes no tensor descriptors to "
                                      "functions that are not inlined")  # fmt: skip
        for number, value in enumerate(arguments):
            if isinstance(value.type, ir.TensorDescType):
                first, rank = number + 1, len(value.type.block.get_shape())  # pyright: ignore
                shape = arguments[first : first + rank]
                strides = arguments[first + rank : first + 2 * rank]
                Descriptor.made_of(c, value, shape, strides).define(c, value)

    def describe_map(self, type: Any) -> None:
        return None


@lowers(GPU, ttir.MakeTensorDescOp)
def make(c: Context, op: ttir.MakeTensorDescOp) -> None:
    if not c.hardware.descriptors_in_registers:
        raise c.unsupported(op)
    Descriptor.made_of(c, op.base, op.shape, op.strides).define(c, op.result)


@lowers(GPU, ttgir.UpdateTensorDescOp)
def update(c: Context, op: ttgir.UpdateTensorDescOp) -> None:
    if not c.hardware.descriptors_in_registers:
        raise c.unsupported(op)
    found = Descriptor.of(c, op.desc)
    if op.add_offsets:
        offsets = [c.scalar(v) for v in op.add_offsets]
        found = found.moved(c, element_bytes(op.desc), offsets, clamped=op.clamp_bounds)
    if op.set_bounds:
        extents = tuple(at_least_0(c, c.scalar(v)) for v in op.set_bounds)
        found = replace(found, extents=extents)
    if op.pred is not None:
        found = replace(found, made=c.f.op("and", c.scalar(op.pred), c.i32(1)))
    found.define(c, op.result)
