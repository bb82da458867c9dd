"""Block pointers and tensor descriptors as plain addresses.

before:
    %p = tt.make_tensor_ptr %a, [%M, %N], [%s, %one], [%i, %j] {...} : <tensor<16x16xf32>>
    %v = tt.load %p {boundaryCheck = array<i32: 0, 1>} : !tt.ptr<tensor<16x16xf32>>
after:
    %rows = (%i + range) as a column, %columns = (%j + range) as a row
    %at = tt.addptr (splat %a), %rows * %s + %columns * %one
    %inside = 0 <= %rows < %M and 0 <= %columns < %N
    %v = tt.load %at, %inside, 0

The rows of tensors whose descriptors are made on the host begin at multiples of 16 bytes. Where
loads go through registers, the mask is of whole pieces of 16 bytes, so that threads load these, and
a select puts the padding in place of what lies between the extent and the end of its piece.

For targets without hardware that copies blocks, and for descriptors that it does not serve. A block
pointer that a `for` loop carries becomes one i32 for each axis; what goes through branches and
calls becomes its base, shape and strides (`descriptors/parts.py`, `block_pointers.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import nan
from typing import Any, ClassVar

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, ModuleOp
from xdsl.ir import Attribute, Block, Region, SSAValue

from tritium.analysis.regions import defined, functions
from tritium.ir import types as ir
from tritium.ir.graph import ops_of
from tritium.ir.source_errors import unsupported_at
from tritium.ops.arith import AddIOp, AndIOp, CmpIOp, CmpIPredicate, ConstantOp, ExtSIOp, MulIOp
from tritium.ops.attributes import DIVISIBILITY, PADDING, PLAIN_DESCRIPTORS
from tritium.ops.base import Op
from tritium.ops.scf import ForOp, is_counted
from tritium.ops.terminators import terminator
from tritium.ops.ttir.atomic import AtomicKind, unordered_update
from tritium.ops.ttir.descriptor import (
    BlockAccess,
    DescriptorAccess,
    MakeTensorDescOp,
    RowAccess,
    block_of,
)
from tritium.ops.ttir.function import FuncOp
from tritium.ops.ttir.memory import (
    AddPtrOp,
    AdvanceOp,
    ElementAccess,
    LoadOp,
    MakeTensorPtrOp,
    PaddingOption,
    StoreOp,
)
from tritium.ops.ttir.numeric import BitcastOp
from tritium.ops.ttir.shape import ExpandDimsOp, MakeRangeOp, ReshapeOp
from tritium.passes.base import Pass
from tritium.passes.rewriting import Builder, erase, insert_before
from tritium.passes.ttir.descriptors.block_pointers import split_block_pointers
from tritium.passes.ttir.descriptors.flow import served
from tritium.passes.ttir.descriptors.parts import split_descriptors
from tritium.target import processor_named


@dataclass(frozen=True)
class TensorPointers(Pass):
    """Block pointers and tensor descriptors as plain addresses.

    Those that the bulk copy engine of `target` (`cuda:90`) serves (`descriptors/flow.py`) are left
    to it; without `rows`, its gathers and scatters of rows are not used. The attribute
    `tt.plain_descriptors` says which arguments of a kernel stand for descriptors.
    """

    name: ClassVar[str] = "tensor-pointers"
    title: ClassVar[str] = "RewriteTensorPointers"
    target: str = ""
    rows: bool = True

    def run(self, module: ModuleOp) -> bool:
        if not any(_is_place(value.type) for op in module.walk() for value in defined(op)):
            return False
        engine = processor_named(self.target).bulk_copies if self.target else None
        kept = served(module, engine, self.rows) if engine else set[SSAValue]()
        changed, bases = False, set[SSAValue]()
        for function in functions(module):
            if function.sym_visibility != "private":
                bases |= _plain_arguments(function, kept)
        changed = bool(bases)
        # What is loaded into registers can be compared with the extent there, copies cannot.
        registers = bool(self.target) and processor_named(self.target).ahead_in_registers
        padded = bases if registers else set[SSAValue]()
        split_descriptors(module, kept)
        split_block_pointers(module)
        for function in functions(module):
            rewriter = _Rewriter(kept, padded)
            for block in function.regions[0].blocks:
                rewriter.block(block)
            rewriter.finish()
            changed |= bool(rewriter.dead)
        return changed


def _plain_arguments(function: FuncOp, kept: set[SSAValue]) -> set[SSAValue]:
    """Make the descriptors that the kernel takes of pointers, which are returned; the shape and the
    strides are the arguments that follow. `TensorDescriptor` refuses bases and strides that are not
    multiples of 16 bytes, and a last stride that is not 1."""
    entry = function.body
    attributes: list[dict[str, Any]] = [dict(a) for a in function.arg_attrs]
    attributes = attributes or [{} for _ in entry.args]
    plain, bases = list[Attribute](), set[SSAValue]()
    first = entry.first_op
    for old in list(entry.args):
        kind: Any = old.type
        if not isinstance(kind, ir.TensorDescType) or old in kept:
            continue
        plain.append(IntegerAttr(old.index, ir.i32))
        block, number = block_of(function.name, kind), old.index
        rank = len(block.get_shape())
        base = entry.insert_arg(ir.pointer_to(block.element_type), number)
        base.name_hint = old.name_hint
        bases.add(base)
        nan = PADDING in attributes[number]
        assert first is not None
        at, strides = Builder(first, function.location), number + 2 + rank
        made = at.make(
            MakeTensorDescOp, base, entry.args[number + 2 : strides],
            [*entry.args[strides : strides + rank - 1], at.constant(1, ir.i64)],
            result=kind, padding=PaddingOption.PAD_NAN if nan else PaddingOption.PAD_ZERO,
        )  # fmt: skip
        elements = max(1, 128 // ir.bit_width(block.element_type))
        attributes[number][DIVISIBILITY] = IntegerAttr(16, ir.i32)
        old.replace_all_uses_with(made.result)
        entry.erase_arg(old)
        for stride in entry.args[number + 1 + rank : number + 2 * rank]:
            attributes[stride.index][DIVISIBILITY] = IntegerAttr(elements, ir.i32)
    if plain:
        function.attributes[PLAIN_DESCRIPTORS] = ArrayAttr(plain)
        function.set_arg_attrs(attributes)
        function.update_type()
    return bases


@dataclass(frozen=True)
class _Place:
    """A tensor in memory, and for a block pointer where the block is (i32 for each axis)."""

    base: SSAValue
    shape: tuple[SSAValue, ...]
    strides: tuple[SSAValue, ...]
    offsets: tuple[SSAValue, ...]
    padding: PaddingOption | None = None


def _is_place(type: ir.Type) -> bool:
    return isinstance(type, ir.TensorDescType) or ir.is_block_pointer(type)


class _Rewriter:
    """Goes through the ops in order; `places` are the block pointers and descriptors so far.
    `padded`: the bases of tensors whose rows are read in pieces of 16 bytes, each as a whole."""

    def __init__(self, kept: set[SSAValue], padded: set[SSAValue]) -> None:
        self.kept = kept
        self.padded = padded
        self.places: dict[SSAValue, _Place] = {}
        self.dead: list[Op] = []
        self.at: Any = None

    def finish(self) -> None:
        for op in reversed(self.dead):
            erase(op)

    def add(self, op: Any) -> Any:
        """Insert an op before the current one, at its source location; returns the first result,
        where there is any."""
        op.location = self.at.location
        insert_before(self.at, op)
        return op.results[0] if op.results else None

    def block(self, block: Block) -> None:
        for op in ops_of(block):
            self.at = op
            self.op(op)

    def op(self, op: Any) -> None:
        if isinstance(op, MakeTensorPtrOp):
            self.places[op.result] = _Place(op.base, op.shape, op.strides, op.offsets)
            self.dead.append(op)
        elif isinstance(op, MakeTensorDescOp) and op.result not in self.kept:
            shape = tuple(self.wide(v) for v in op.shape)
            self.places[op.result] = _Place(op.base, shape, op.strides, (), op.padding)
            self.dead.append(op)
        elif isinstance(op, AdvanceOp):
            place = self.place(op, op.ptr)
            pairs = zip(place.offsets, op.offsets, strict=True)
            moved = [self.add(AddIOp.build(o, d)) for o, d in pairs]
            self.places[op.result] = replace(place, offsets=tuple(moved))
            self.dead.append(op)
        elif isinstance(op, ElementAccess) and ir.is_block_pointer(op.ptr.type):
            self.block_access(op)
        elif isinstance(op, DescriptorAccess) and op.desc not in self.kept:
            self.descriptor_access(op)
        elif is_counted(op) and any(ir.is_block_pointer(v.type) for v in op.inits):
            self.loop(op)
        else:
            for region in op.regions:
                for block in region.blocks:
                    self.block(block)

    def place(self, op: Op, value: SSAValue) -> _Place:
        found = self.places.get(value)
        if found is None:
            raise unsupported_at(op.location, (
                f"{op.name} of a block pointer that was not made in this function, or that a "
                "branch passes on; make it with tl.make_block_ptr where it is used"
            ))
        return found

    # Index arithmetic

    def repeated(self, value: SSAValue, type: ir.Type) -> SSAValue:
        return Builder(self.at).repeated(value, type)

    def wide(self, value: SSAValue) -> SSAValue:
        return self.add(ExtSIOp.build(value, result=ir.i64))

    def line(self, offset: SSAValue, size: int) -> SSAValue:
        """offset, offset + 1, ... as i64."""
        tile = ir.tensor_of((size,), ir.i64)
        numbers = self.add(MakeRangeOp.build(start=0, end=size))
        numbers = self.add(ExtSIOp.build(numbers, result=tile))
        start = self.repeated(self.wide(offset), tile)
        return self.add(AddIOp.build(start, numbers))

    def spread(self, line: SSAValue, axis: int, rank: int) -> SSAValue:
        """A line along an axis of `rank`, the others of size 1."""
        for other in range(rank):
            if other != axis:
                line = self.add(ExpandDimsOp.build(line, axis=other))
        return line

    def addresses(
        self, place: _Place, lines: Sequence[SSAValue], checked: Sequence[int]
    ) -> tuple[SSAValue, SSAValue | None]:
        """Addresses of the block at these lines of indices, and which are inside the tensor."""
        rank = len(lines)
        shape = tuple(ir.shape_of(line.type)[0] for line in lines)
        full = ir.tensor_of(shape, ir.i64)
        total: SSAValue | None = None
        mask: SSAValue | None = None
        for axis, line in enumerate(lines):
            index = self.spread(line, axis, rank)
            stride = self.repeated(place.strides[axis], index.type)
            part = self.repeated(self.add(MulIOp.build(index, stride)), full)
            total = part if total is None else self.add(AddIOp.build(total, part))
            if axis not in checked:
                continue
            limit = self.repeated(place.shape[axis], index.type)
            zero = self.add(ConstantOp.of(0, index.type))
            low = self.add(CmpIOp.build(index, zero, predicate=CmpIPredicate.SGE))
            high = self.add(CmpIOp.build(index, limit, predicate=CmpIPredicate.SLT))
            within = self.add(AndIOp.build(low, high))
            within = self.repeated(within, ir.tensor_of(shape, ir.i1))
            mask = within if mask is None else self.add(AndIOp.build(mask, within))
        assert total is not None
        base = self.repeated(place.base, ir.tensor_of(shape, place.base.type))
        return self.add(AddPtrOp.build(base, total)), mask

    def with_padding(self, place: _Place, count: int) -> _Place:
        """A tensor with the rest of the last `count` elements of each row, so that the mask of an
        access is the same for `count` neighbours."""
        more = self.add(AddIOp.build(place.shape[-1], self.number(count - 1)))
        extent = self.add(AndIOp.build(more, self.number(-count)))
        return replace(place, shape=(*place.shape[:-1], extent))

    def number(self, value: int) -> SSAValue:
        return self.add(ConstantOp.of(value, ir.i64))

    def load(
        self, place: _Place, lines: Sequence[SSAValue], checked: Sequence[int], result: ir.Type,
        **attrs: Any,
    ) -> SSAValue:  # fmt: skip
        whole = place
        if place.base in self.padded and len(lines) > 1:
            whole = self.with_padding(place, 128 // ir.bit_width(result))
        pointers, mask = self.addresses(whole, lines, checked)
        shape = ir.shape_of(pointers.type)
        other = None
        if mask is not None:
            number = nan if place.padding is PaddingOption.PAD_NAN else 0
            other = self.add(ConstantOp.of(number, ir.tensor_of(shape, ir.element_type(result))))
        loaded = self.add(LoadOp.build(pointers, mask, other, **attrs))
        if other is not None and whole is not place:
            index = self.spread(lines[-1], len(lines) - 1, len(lines))
            limit = self.repeated(place.shape[-1], index.type)
            within = self.add(CmpIOp.build(index, limit, predicate=CmpIPredicate.SLT))
            within = self.repeated(within, ir.tensor_of(shape, ir.i1))
            loaded = Builder(self.at).chosen(within, loaded, other)
        same = shape == ir.shape_of(result)
        return loaded if same else self.add(ReshapeOp.build(loaded, result=result))

    def shaped(self, value: SSAValue, shape: tuple[int, ...]) -> SSAValue:
        if ir.shape_of(value.type) == shape:
            return value
        wanted = ir.tensor_of(shape, ir.element_type(value.type))
        return self.add(ReshapeOp.build(value, result=wanted))

    # Accesses

    def block_access(self, op: Any) -> None:
        place = self.place(op, op.ptr)
        sizes = ir.shape_of(op.ptr.type.pointee)
        lines = [self.line(o, s) for o, s in zip(place.offsets, sizes, strict=False)]
        attrs = {"cache": op.cache, "evict": op.evict}
        if op.is_load:
            place = replace(place, padding=op.padding)
            found = self.load(place, lines, op.boundaryCheck, op.result.type, **attrs)
            op.result.replace_all_uses_with(found)
        else:
            pointers, mask = self.addresses(place, lines, op.boundaryCheck)
            self.add(StoreOp.build(pointers, op.value, mask, **attrs))
        self.dead.append(op)

    def descriptor_access(self, op: Any) -> None:
        place = self.place(op, op.desc)
        sizes = op.desc.type.block.get_shape()
        checked = range(len(sizes))
        if isinstance(op, RowAccess):
            rows = op.x_offsets
            if ir.element_type(rows.type) != ir.i64:
                rows = self.add(ExtSIOp.build(rows, result=ir.with_element(rows.type, ir.i64)))
            lines = [rows, self.line(op.y_offset, sizes[1])]
        else:
            lines = [self.line(o, s) for o, s in zip(op.indices, sizes, strict=False)]
        if op.is_load:
            found = self.load(place, lines, checked, op.result.type)
            op.result.replace_all_uses_with(found)
        else:
            pointers, mask = self.addresses(place, lines, checked)
            value = self.shaped(op.src, ir.shape_of(pointers.type))
            if isinstance(op, BlockAccess) and op.combines:
                self.reduction(op, pointers, value, mask)
            else:
                self.add(StoreOp.build(pointers, value, mask))
        self.dead.append(op)

    def reduction(
        self, op: BlockAccess, pointers: SSAValue, value: SSAValue, mask: SSAValue | None
    ) -> None:
        other = {"MAX": "UMIN", "MIN": "UMAX"}.get(op.kind.name)
        if not ir.is_float(value.type) or other is None:
            self.add(unordered_update(pointers, value, mask, _kind(op, value)))
            return
        # The bits of floats are ordered as integers: those without a sign upward, and above the
        # others as signed numbers; those with one downward, as unsigned numbers.
        number = {16: ir.i16, 32: ir.i32, 64: ir.i64}[ir.bit_width(value.type)]
        shape = ir.shape_of(value.type)
        at = ir.tensor_of(shape, ir.pointer_to(number))
        pointers = self.add(BitcastOp.build(pointers, result=at))
        bits = self.add(BitcastOp.build(value, result=ir.tensor_of(shape, number)))
        zero = self.add(ConstantOp.of(0, bits.type))
        for predicate, name in ((CmpIPredicate.SGE, op.kind.name), (CmpIPredicate.SLT, other)):
            chosen = self.add(CmpIOp.build(bits, zero, predicate=predicate))
            if mask is not None:
                chosen = self.add(AndIOp.build(chosen, mask))
            self.add(unordered_update(pointers, bits, chosen, AtomicKind[name]))

    # Loops

    def loop(self, op: ForOp) -> None:
        """Carry offsets instead of block pointers."""
        places = [self.place(op, v) if ir.is_block_pointer(v.type) else None for v in op.inits]
        inits: list[SSAValue] = []
        for value, place in zip(op.inits, places, strict=False):
            inits += [value] if place is None else place.offsets
        block = Block(arg_types=[op.body.args[0].type, *(v.type for v in inits)])
        self._spread(op.body.args[1:], places, block.args[1:])
        op.body.args[0].replace_all_uses_with(block.args[0])
        for inner in ops_of(op.body):
            inner.detach()
            block.add_op(inner)
        self.block(block)
        end = terminator(block)
        values: list[SSAValue] = []
        for value, place in zip(end.operands, places, strict=False):
            if place is None:
                values.append(value)
                continue
            following = self.place(op, value)
            if following.base is not place.base or following.strides != place.strides:
                raise unsupported_at(op.location, (
                    "a loop that exchanges block pointers; exchange their offsets, and call "
                    "tl.make_block_ptr in the loop"
                ))
            values += following.offsets
        end.operands = values
        new = ForOp.build(
            op.lower, op.upper, op.step, inits, regions=[Region(block)],
            unsignedCmp=op.unsignedCmp, attributes=dict(op.attributes), location=op.location,
        )  # fmt: skip
        self.at = op
        self.add(new)
        self._spread(op.results, places, new.results)
        self.dead.append(op)

    def _spread(
        self, old: Sequence[SSAValue], places: Sequence[_Place | None], new: Sequence[SSAValue]
    ) -> None:
        """Values of the old loop by those of the new one."""
        start = 0
        for value, place in zip(old, places, strict=False):
            count = 1 if place is None else len(place.offsets)
            if place is None:
                new[start].name_hint = value.name_hint
                value.replace_all_uses_with(new[start])
            else:
                self.places[value] = replace(place, offsets=tuple(new[start : start + count]))
            start += count


def _kind(op: BlockAccess, value: SSAValue) -> AtomicKind:
    name = op.kind.name
    if ir.is_float(value.type) and name == "ADD":
        return AtomicKind.FADD
    unsigned = "ui" in str(op.desc.type)
    if unsigned and name in ("MIN", "MAX"):
        name = f"U{name}"
    return AtomicKind[name]
