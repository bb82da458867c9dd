"""Access global memory through a scalar pointer and 32-bit offsets, which the hardware checks.

before:
    %0 = arith.muli %pid, %stride : i32
    %1 = tt.addptr %x, %0 : !tt.ptr<f32>, i32
    %2 = tt.splat %1 : !tt.ptr<f32> -> tensor<1024x!tt.ptr<f32>, #blocked>
    %3 = tt.addptr %2, %i : tensor<1024x!tt.ptr<f32>, #blocked>, tensor<1024xi32, #blocked>
    %4 = tt.load %3, %mask : tensor<1024x!tt.ptr<f32>, #blocked>
after:
    %0 = arith.muli %pid, %stride : i32
    %1 = tt.addptr %x, %0 : !tt.ptr<f32>, i32
    %4 = amdg.buffer_load %1[%i], %mask : !tt.ptr<f32> -> ...

for tiles of addresses that are a scalar pointer, an argument, and offsets. Offsets have to stay
within 2 GiB of the pointer:

- by their ranges, whatever the pointer is (sums are taken not to overflow); or
- because all of the argument's memory is within 2 GiB (`tt.pointer_range`), and an access outside
  of that is none. Scalars are added to the pointer if neither they nor offsets are negative, else
  to the offsets.

A scalar that is computed of what is loaded is added to the offsets, too: the hardware takes the
pointer from registers that threads share, and LLVM does not know what is loaded to be the same in
all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, ClassVar, NamedTuple, TypeAlias, TypeGuard, cast

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Block, Operation, SSAValue

from tritium.analysis.axis_info import AxisAnalysis
from tritium.analysis.intervals import range_of
from tritium.analysis.regions import is_argument
from tritium.ir import types as ir
from tritium.ops import ttir
from tritium.ops.arith import AddIOp, ExtSIOp, TruncIOp, constant_value, is_zero
from tritium.ops.attributes import POINTER_RANGE
from tritium.ops.base import Op, retypes_pointers
from tritium.ops.ttgir import (
    AsyncCopyGlobalToLocalOp,
    BufferAtomicRMWOp,
    BufferLoadOp,
    BufferLoadToLocalOp,
    BufferStoreOp,
)
from tritium.ops.ttir.function import FuncOp
from tritium.ops.ttir.shape import splat_source
from tritium.passes.base import FunctionPass
from tritium.passes.rewriting import Builder, copy_names, erase, insert_before

MOST_OFFSET = (1 << 31) - 16
"""The size of a buffer, in bytes, in which a 32-bit offset reaches each access of up to 16
bytes."""


_Access: TypeAlias = ttir.ElementAccess | ttir.AtomicUpdate | AsyncCopyGlobalToLocalOp


class _Address(NamedTuple):
    """A tile of addresses: an argument, and what is added to it, in elements."""

    pointer: SSAValue
    scalars: tuple[SSAValue, ...] = ()
    offsets: tuple[SSAValue, ...] = ()


@dataclass(frozen=True)
class BufferAccesses(FunctionPass):
    """Access global memory through a scalar pointer and 32-bit offsets, which the hardware
    checks. `atomics`: the element types of atomic operations, with a plus between them."""

    name: ClassVar[str] = "buffer-accesses"
    title: ClassVar[str] = "TritonAMDGPUConvertToBufferOps"
    atomics: str = ""

    def function(self, function: FuncOp) -> bool:
        analysis, atomics = AxisAnalysis(function), self.atomics.split("+")
        found = [op for op in function.walk() if _is_candidate(op, atomics)]
        changed = [_rewrite(op, analysis) for op in found]
        return any(changed)


def _is_candidate(op: Operation, atomics: Sequence[str]) -> TypeGuard[_Access]:
    if not isinstance(op, _Access) or not isinstance(_pointer(op).type, ir.TensorType):
        return False
    kind: Any = ir.element_type(_pointer(op).type)
    if isinstance(op, AsyncCopyGlobalToLocalOp):
        return op.other is None or is_zero(op.other)
    if isinstance(op, ttir.AtomicUpdate):
        return str(kind.pointee) in atomics and op.scope is not ttir.MemScope.SYSTEM
    return not (op.is_load and op.isVolatile) and not ir.is_pointer(kind.pointee)


def _pointer(op: _Access) -> SSAValue:
    return op.src if isinstance(op, AsyncCopyGlobalToLocalOp) else op.ptr


def _rewrite(op: _Access, analysis: AxisAnalysis) -> bool:
    """Rewrite an access, if that is possible."""
    at = Builder(op)
    pointers = _pointer(op)
    address = _address_of(pointers, at)
    if address is None:
        return False
    size = ir.pointee_bytes(pointers.type)
    tile = ir.with_element(pointers.type, ir.i32)
    scalars = tuple(filter(_is_uniform, address.scalars))
    others = (v for v in address.scalars if v not in scalars)
    moved = *address.offsets, *(_repeated(at, v, tile) for v in others)
    if not _within(moved, MOST_OFFSET // size):
        if not _is_small(address.pointer):
            return False
        # An offset that is negative by itself is out of range even where the address is not.
        if not all(analysis.of(v).non_negative for v in (*moved, *scalars)):
            moved, scalars = (*moved, *(_repeated(at, v, tile) for v in scalars)), ()
    pointer, wanted = address.pointer, ir.element_type(pointers.type)
    if pointer.type != wanted:
        pointer = at.value(ttir.BitcastOp, pointer, result=wanted)
    pointer = reduce(lambda p, scalar: at.value(ttir.AddPtrOp, p, scalar), scalars, pointer)
    numbers = [_narrow(at, v) for v in moved] or [at.constant(0, tile)]
    offsets = reduce(lambda a, b: at.value(AddIOp, a, b), numbers)
    new: Op
    if isinstance(op, ttir.AtomicUpdate):
        new = at.make(
            BufferAtomicRMWOp, pointer, op.val, offsets, op.mask, sem=op.sem, scope=op.scope,
            atomic_rmw_op=op.atomic_rmw_op,
        )  # fmt: skip
    elif isinstance(op, AsyncCopyGlobalToLocalOp):
        new = at.make(BufferLoadToLocalOp, op.result, pointer, offsets, op.mask, cache=op.cache,
                      evict=op.evict)  # fmt: skip
    elif op.is_load:
        new = at.make(BufferLoadOp, pointer, offsets, op.mask, op.other, cache=op.cache,
                      evict=op.evict)  # fmt: skip
    else:
        new = at.make(BufferStoreOp, op.value, pointer, offsets, op.mask, cache=op.cache,
                      evict=op.evict)  # fmt: skip
    for old, result in zip(op.results, new.results, strict=True):
        copy_names([old], [result])
        old.replace_all_uses_with(result)
    erase(op)
    return True


def _address_of(value: SSAValue, at: Builder) -> _Address | None:
    """The parts of the sum that is a pointer or a tile of pointers; None for other computations."""
    owner: Any = value.owner
    if isinstance(owner, Block):
        given = is_argument(value) and owner.prev_block is None
        return _Address(value) if given and isinstance(value.type, ir.PointerType) else None
    if (source := splat_source(value)) is not None:
        return _address_of(source, at)
    if owner.weights == (1, 1):
        pointer, offset = owner.operands
        found = _address_of(pointer, at)
        return None if found is None else _added(found, offset, at)
    if retypes_pointers(owner):
        return _address_of(owner.operands[0], at)
    if owner.movement is None:
        return None
    if len(owner.operands) != 1 or not isinstance(value.type, ir.TensorType):
        return None
    found = _address_of(owner.operands[0], at)
    if found is None:
        return None
    offsets = tuple(_moved(owner, offset, at) for offset in found.offsets)
    return found._replace(offsets=offsets)


def _added(address: _Address, offset: SSAValue, at: Builder) -> _Address:
    """An address and an offset, the terms of a sum each for itself."""
    owner: Any = offset.owner
    if isinstance(owner, Op) and owner.weights == (1, 1):
        return reduce(lambda sum, term: _added(sum, term, at), owner.operands, address)
    scalar: SSAValue | None = offset
    if isinstance(offset.type, ir.TensorType):
        scalar, number = splat_source(offset), constant_value(offset)
        if number is not None and (number == number.flat[0]).all():
            scalar = at.constant(number.flat[0], ir.element_type(cast("ir.Type", offset.type)))
    if scalar is not None:
        return address._replace(scalars=(*address.scalars, scalar))
    return address._replace(offsets=(*address.offsets, offset))


def _moved(op: Op, offset: SSAValue, at: Builder) -> SSAValue:
    """An offset moved as an op moves pointers."""
    new: Op = cast(Any, type(op)).create(
        operands=[offset], properties=op.properties, attributes=op.attributes,
        result_types=[ir.with_element(op.results[0].type, ir.element_type(offset.type))],
        location=op.location,
    )  # fmt: skip
    insert_before(at.before, new)
    return new.results[0]


def _is_uniform(value: SSAValue) -> bool:
    """True if a scalar is known to be the same in all threads: computed without memory."""
    pending, seen = [value], set[SSAValue]()
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        owner: Any = value.owner
        if is_argument(value):
            continue
        op = owner.parent_op() if isinstance(owner, Block) else owner
        if not isinstance(op, Op):
            return False
        if op.regions:
            sources = [
                source for edge in op.control_edges()
                for source, target in zip(edge.values, edge.targets, strict=True)
                if target is value
            ]  # fmt: skip
            pending += sources if sources and op is not owner else [*sources, *op.operands]
        elif op.memory_effects() or any(isinstance(v.type, ir.TensorType) for v in op.operands):
            return False
        else:
            pending += op.operands
    return True


def _is_small(pointer: SSAValue) -> bool:
    """True if all memory of an argument is within 2 GiB."""
    function: Any = pointer.owner.parent_op()  # pyright: ignore[reportAttributeAccessIssue]
    attributes = function.arg_attrs
    stated = attributes[pointer.index].get(POINTER_RANGE) if attributes else None  # pyright: ignore
    return isinstance(stated, IntegerAttr) and stated.value.data == 32


def _within(offsets: Sequence[SSAValue], count: int) -> bool:
    """True if the sum of offsets is in a range of 0 to `count - 1`."""
    low = high = 0
    for offset in offsets:
        found = range_of(offset)
        if found is None:  # often, and then the others do not matter
            return False
        low, high = low + found[0], high + found[1]
    return low >= 0 and high < count


def _repeated(at: Builder, scalar: SSAValue, tile: ir.Type) -> SSAValue:
    """A tile of which each element is the low 32 bits of a scalar."""
    return at.value(ttir.SplatOp, _narrow(at, scalar), result=tile)


def _narrow(at: Builder, value: SSAValue) -> SSAValue:
    """The low 32 bits of an integer or of a tile of them."""
    width = ir.bit_width(ir.element_type(value.type))
    if width == 32:
        return value
    cls = TruncIOp if width > 32 else ExtSIOp
    return at.value(cls, value, result=ir.with_element(value.type, ir.i32))
