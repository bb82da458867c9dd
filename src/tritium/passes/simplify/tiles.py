"""Identities of the ops that make and reshape tiles, of pointers, loads and stores."""

from __future__ import annotations

from typing import Any

from tritium.analysis.axis_info import is_stated
from tritium.ir import types as ir
from tritium.ops.base import Movement, Op, repeated
from tritium.ops.dialects import op_classes
from tritium.ops.ttir.memory import AddPtrOp, ElementAccess
from tritium.ops.ttir.shape import AxesOp, ReshapeOp, SplatOp, TransOp, UnsplatOp, repetition
from tritium.passes.rewriting import Pattern, Rewriter
from tritium.passes.simplify.arithmetic import is_zero, joined, only_carried, owner_of, same_type


def constant_tile(op: Op, rewriter: Rewriter) -> bool:
    """splat c, broadcast c, reshape c, ... -> a constant tile"""
    number = rewriter.known(op.operands[0])
    if number is None:
        return False
    return rewriter.replace(op, rewriter.constant(number, op.results[0], op))


def shape_of_splat(op: Op, rewriter: Rewriter) -> bool:
    """expand_dims(splat x), reshape(splat x), ... -> splat x"""
    return joined(op, rewriter, SplatOp, SplatOp)


def repeated_twice(op: AxesOp, rewriter: Rewriter) -> bool:
    """broadcast(broadcast x) -> broadcast x;  broadcast(splat x) -> splat x"""
    source = repeated(op.src)
    if source is None:
        return False
    return rewriter.become(op, repetition(source.type), source, result=op.results[0].type)


def reshape_chain(op: ReshapeOp, rewriter: Rewriter) -> bool:
    """reshape(reshape x), reshape(expand_dims x) -> reshape x"""
    inner: Any = op.src.owner
    adds_axis = isinstance(inner, AxesOp) and inner.movement is Movement.IN_ORDER
    if not isinstance(inner, ReshapeOp) and (not adds_axis or inner.repeats):
        return False
    if op.allow_reorder or getattr(inner, "allow_reorder", False):
        return False
    return rewriter.become(op, ReshapeOp, inner.src, result=op.results[0].type)


def trans_identity(op: TransOp, rewriter: Rewriter) -> bool:
    """trans that leaves the axes where they are -> nothing"""
    value = op.operands[0]
    if tuple(op.order) != tuple(range(len(op.order))) or value.type != op.results[0].type:
        return False
    return rewriter.replace(op, value)


def trans_chain(op: TransOp, rewriter: Rewriter) -> bool:
    """trans(trans x) -> trans x"""
    inner = owner_of(op.operands[0], TransOp)
    if inner is None:
        return False
    order = tuple(inner.order[i] for i in op.order)
    result = op.results[0].type
    return rewriter.become(op, TransOp, inner.operands[0], order=order, result=result)


def unsplat_of_splat(op: UnsplatOp, rewriter: Rewriter) -> bool:
    """unsplat(splat x) -> x"""
    inner = owner_of(op.operands[0], SplatOp)
    return inner is not None and rewriter.replace(op, inner.operands[0])


def stated_number(op: Op, rewriter: Rewriter) -> bool:
    """make_range of one number -> a constant"""
    number = op.stated_number()
    return number is not None and rewriter.replace(
        op, rewriter.constant(number, op.results[0], op)
    )


# Pointers and memory


def add_nothing(op: AddPtrOp, rewriter: Rewriter) -> bool:
    """p + 0 -> p, unless the op is there for the facts that it states"""
    pointer, offset = op.operands
    if is_stated(op) or not is_zero(rewriter.known(offset)):
        return False
    return rewriter.replace(op, pointer)


def add_to_stated(op: AddPtrOp, rewriter: Rewriter) -> bool:
    """(p + 0) + x -> p + x, where it is only carried on"""
    inner = owner_of(op.operands[0], AddPtrOp)
    if inner is None or not is_zero(rewriter.known(inner.operands[1])) or not only_carried(op):
        return False
    op.operands = [inner.operands[0], op.operands[1]]
    return True


def add_chain(op: AddPtrOp, rewriter: Rewriter) -> bool:
    """(p + c) + d -> p + (c + d) for constants, where the sum does not overflow"""
    pointer, offset = op.operands
    second = rewriter.known(offset)
    inner = owner_of(pointer, AddPtrOp) if second is not None else None
    if inner is None or second is None or inner.operands[1].type != offset.type:
        return False
    first = rewriter.known(inner.operands[1])
    if first is None:
        return False
    total, half = int(first) + int(second), 1 << (ir.bit_width(offset.type) - 1)
    if not -half <= total < half:
        return False
    return rewriter.become(op, AddPtrOp, inner.operands[0], rewriter.constant(total, offset, op))


def given_attrs(op: Op) -> dict[str, Any]:
    """The declared attributes that are set on the op."""
    return {n: f.get(op) for n, f in op.attr_fields.items() if n in op.properties}


def access_known_mask(op: ElementAccess, rewriter: Rewriter) -> bool:
    """load p, true, other -> load p;  load p, false, other -> other;
    store p, v, true -> store p, v;  store p, v, false -> nothing"""
    number = None if op.mask is None else rewriter.known(op.mask)
    if number is None or (op.is_load and op.isVolatile):
        return False
    if number:
        accessed = (op.ptr,) if op.is_load else (op.ptr, op.value)
        given = given_attrs(op)
        return rewriter.become(op, type(op), *accessed, attributes=op.attributes, **given)
    if not op.is_load:
        return rewriter.erase(op)
    if op.other is not None:
        return rewriter.replace(op, op.other)
    if ir.is_pointer(op.results[0].type):
        return False
    # The value is undefined; zero is what evaluation gives.
    return rewriter.replace(op, rewriter.constant(0, op.results[0], op))


def patterns() -> dict[type[Op], list[Pattern]]:
    """The patterns of this module by the class of the op that they look at."""
    along_axes = [cls for cls in op_classes("tt") if issubclass(cls, AxesOp)]
    repeating = [cls for cls in along_axes if cls.repeats]
    return {
        **{cls: [stated_number] for cls in op_classes("tt") if cls.tile_source},
        **{cls: [constant_tile, shape_of_splat] for cls in along_axes},
        **{cls: [same_type, constant_tile, repeated_twice] for cls in repeating},
        UnsplatOp: [constant_tile, unsplat_of_splat],
        ReshapeOp: [same_type, constant_tile, shape_of_splat, reshape_chain],
        TransOp: [trans_identity, constant_tile, shape_of_splat, trans_chain],
        AddPtrOp: [add_nothing, add_chain, add_to_stated],
        **{cls: [access_known_mask] for cls in op_classes("tt") if issubclass(cls, ElementAccess)},
    }
