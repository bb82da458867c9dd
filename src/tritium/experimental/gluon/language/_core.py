"""Functions of Gluon that make blocks and change their layouts."""

from __future__ import annotations

from math import prod
from typing import Any

from tritium.experimental.gluon.language._layouts import (
    AutoLayout,
    BlockedLayout,
    DistributedLayout,
    DistributedLinearLayout,
    DotOperandLayout,
    Layout,
    SharedLinearLayout,
    TensorMemoryLinearLayout,
)
from tritium.experimental.gluon.language._types import (
    distributed_type,
    shared_memory_descriptor_type,
)
from tritium.ir.layouts.conversion import plan
from tritium.ir.layouts.encodings import BLOCK, LANE, OFFSET, REGISTER, WARP, SharedEncoding, linear
from tritium.ir.layouts.linear import LinearLayout
from tritium.ir.layouts.swizzle import access, place_of
from tritium.ir.layouts.tensor_memory import TensorEncoding
from tritium.ir.layouts.undecided import UndecidedEncoding
from tritium.language import core as tl
from tritium.language import emitter
from tritium.language.builtins import casts
from tritium.language.builtins.build import build, emit
from tritium.language.builtins.creation import check_dtype, check_shape, make_range
from tritium.language.decorators import builtin
from tritium.language.values.constexpr import constexpr
from tritium.language.values.tensor import TensorLike, tensor
from tritium.language.values.types import bfloat16, float16, int32, uint8, uint16
from tritium.ops import gpu
from tritium.ops.gluon import SetAutoLayoutOp
from tritium.ops.ttgir import ClusterBarrierOp, ConvertLayoutOp


def checked(layout: Any, shape: Any, element: Any = int32) -> distributed_type:
    """The type of a block in a layout that a program asks for. Raises as `distributed_type`."""
    return distributed_type(element, shape, AutoLayout() if layout is None else layout)


@builtin
def arange(start: object, end: object, layout: Any = None) -> tensor:
    """The int32 block [start, ..., end - 1] in a layout (`AutoLayout()` by default)."""
    if layout is None or not isinstance(start, int) or not isinstance(end, int):
        return tl.arange(start, end)
    if end - start > 0 and (end - start) & (end - start - 1) == 0:  # else the op says what is wrong
        checked(layout, [end - start])
    return make_range(start, end, layout.to_encoding())


@builtin
def full(shape: Any, value: TensorLike, dtype: Any, layout: Any = None) -> tensor:
    """A block of `shape` in a layout (`AutoLayout()` by default), every element `value`."""
    extents, element = check_shape(shape), check_dtype("full", dtype)
    encoding = checked(layout, extents, element).encoding if extents else None
    return casts.full(extents, value, element, encoding)


def _layout(name: str, value: Any) -> Any:
    """The layout of a block. Raises `TypeError` for anything else."""
    if not isinstance(value, tensor) or not isinstance(value.type, distributed_type):
        remedy = f"; {value.remedy}" if getattr(value, "remedy", "") else ""
        raise TypeError(f"{name}: {value!r} is no block with a layout{remedy}")
    return value.type.layout


def _distributed(name: str, layout: Any) -> DistributedLayout:
    if not isinstance(layout, DistributedLayout):
        raise TypeError(f"{name}: layout is {layout!r}; a DistributedLayout is required")
    return layout


@builtin
def convert_layout(value: tensor, layout: Any, assert_trivial: bool = False) -> tensor:
    """The block in another layout. With `assert_trivial` a `TypeError` is raised where elements
    would have to move to other threads."""
    before, x = _layout("convert_layout", value), value
    shape, wanted = x.type.shape, _distributed("convert_layout", layout)
    type = checked(wanted, shape, x.dtype)
    if assert_trivial and not _is_trivial(x.type, type):
        raise TypeError(
            f"layout conversion from {before} to {layout} is not trivial.\n"
            f"The linear layouts are:\n{to_linear_layout(before, shape).value}\n"
            f"{to_linear_layout(wanted, shape).value}"
        )
    return build(ConvertLayoutOp, x, like=x, result=type.to_ir())


def _is_trivial(source: Any, result: Any) -> bool:
    if any(isinstance(type.encoding, UndecidedEncoding) for type in (source, result)):
        return False
    before, after = (linear(t.encoding, t.shape) for t in (source, result))
    return plan(before, after, max(source.itemsize, 1)).kind in ("none", "registers")


@builtin
def set_auto_layout(value: tensor, layout: Any) -> tensor:
    """The block, whose layout is `AutoLayout()`, in this layout."""
    _layout("set_auto_layout", value)
    type = checked(_distributed("set_auto_layout", layout), value.type.shape, value.dtype)
    return build(SetAutoLayoutOp, value, like=value, result=type.to_ir())


@builtin
def to_linear_layout(layout: Any, shape: Any) -> constexpr:
    """The layout of a block of this shape by its bases."""
    if isinstance(layout, (AutoLayout, DistributedLinearLayout, SharedLinearLayout)):
        return constexpr(layout)
    if not isinstance(layout, Layout):
        raise TypeError(f"to_linear_layout of {layout!r}; a layout is required")
    extents, encoding = check_shape(shape), layout.to_encoding()
    if isinstance(encoding, TensorEncoding):
        return constexpr(TensorMemoryLinearLayout(*encoding.bases(extents), list(extents)))
    found = linear(encoding, extents)
    shared = isinstance(encoding, SharedEncoding)
    names = (OFFSET, BLOCK) if shared else (REGISTER, LANE, WARP, BLOCK)
    bases: Any = [found.bases(name) if name in found.in_names else () for name in names]
    if isinstance(encoding, SharedEncoding):
        return constexpr(SharedLinearLayout(bases[0], bases[1], encoding.base_alignment))
    return constexpr(DistributedLinearLayout(*bases, shape=list(extents)))


@builtin
def bank_conflicts(distr_ty: Any, shared_ty: Any) -> constexpr:
    """The number of further accesses of the memory's banks that each access of a warp takes because
    of conflicts, where a block of the first type is loaded from or stored to memory of the second.

    Raises `TypeError` or `ValueError` for types that do not fit together.
    """
    if not isinstance(distr_ty, distributed_type):
        raise TypeError(f"bank_conflicts: {distr_ty!r}; a distributed_type is required")
    if not isinstance(shared_ty, shared_memory_descriptor_type):
        raise TypeError(
            f"bank_conflicts: {shared_ty!r}; a shared_memory_descriptor_type is required"
        )
    shape = list(distr_ty.shape)
    if shape != shared_ty.shape or shape != shared_ty.alloc_shape[-len(shape) :]:
        raise ValueError(
            f"bank_conflicts: a block of {shape}, memory of {shared_ty.shape} in "
            f"{shared_ty.alloc_shape}; the shapes must be the same"
        )
    if distr_ty.element_ty != shared_ty.element_ty:
        raise ValueError(
            f"bank_conflicts: elements {distr_ty.element_ty} and {shared_ty.element_ty}; they must "
            "be the same"
        )
    tile, memory = (linear(e, distr_ty.shape) for e in (
        distr_ty.encoding, shared_ty.layout.to_encoding()))  # fmt: skip
    found = access(_place(tile, memory), distr_ty.itemsize, False)
    return constexpr(found.conflicts // (found.cycles - found.conflicts))


def _place(tile: LinearLayout, memory: LinearLayout) -> LinearLayout:
    assert OFFSET in memory.in_names
    return place_of(tile, memory)


@builtin
def num_warps() -> constexpr:
    """The number of warps that run the program."""
    return constexpr(emitter.current().features.asked_num_warps())


@builtin
def num_ctas() -> constexpr:
    """The number of thread blocks, a cluster, that run the program."""
    return constexpr(emitter.current().features.num_ctas)


@builtin
def barrier(*, cluster: bool = False) -> None:
    """Wait for the other threads of the block; with `cluster` for those of the cluster."""
    if cluster:
        emit(ClusterBarrierOp, relaxed=False)
    else:
        emit(gpu.BarrierOp, memory=gpu.BarrierMemory.LOCAL)


@builtin
def dot_fma(a: tensor, b: tensor, acc: tensor) -> tensor:
    """`a @ b + acc` by multiplications and additions of each thread. `acc` has a `BlockedLayout`,
    the operands a `DotOperandLayout` of it."""
    parent = _layout("dot_fma", acc)
    if not isinstance(parent, BlockedLayout):
        raise ValueError(f"dot_fma: acc has {parent}; a BlockedLayout is required")
    for index, operand in enumerate((a, b)):
        found = _layout("dot_fma", operand)
        wanted = DotOperandLayout(index, parent, found.k_width if hasattr(found, "k_width") else 0)
        if found != wanted:
            raise ValueError(f"dot_fma: operand {index} has {found}; {wanted} is required")
    if prod((*acc.type.shape, a.type.shape[-1])) > 2**19:
        emitter.current().warn(
            f"dot_fma of {list(acc.type.shape)} with K = {a.type.shape[-1]} takes long to compile"
        )
    return tl.dot(a, b, acc, input_precision="ieee", out_dtype=acc.dtype)


@builtin
def fp4_to_fp(src: tensor, elem_type: Any, axis: int) -> tensor:
    """E2M1 numbers, two a byte (the lower half first), as float16 or bfloat16: a block with twice
    the elements along the axis. Raises `TypeError` for other dtypes."""
    if src.dtype.primitive_bitwidth != 8 or src.dtype.is_floating():
        raise TypeError(f"fp4_to_fp: src is {src.type}; bytes are required")
    if elem_type not in (float16, bfloat16):
        raise TypeError(f"fp4_to_fp: elem_type is {elem_type}; float16 or bfloat16 is required")
    rank, shape = len(src.type.shape), list(src.type.shape)
    place, codes = axis % rank, tl.cast(src, uint8, bitcast=True)
    codes = casts.cast(codes, uint16)
    parts = tl.join(codes & 15, codes >> 4)
    order = [*range(place + 1), rank, *range(place + 1, rank)]
    shape[place] *= 2
    codes = tl.reshape(tl.permute(parts, order), shape)
    # Exponent and fraction moved to those of float16, of which the bias is greater by 14.
    bits = (codes & 7) << 9 | (codes & 8) << 12
    value = tl.cast(bits, float16, bitcast=True) * 16384.0
    return casts.cast(value, elem_type)
