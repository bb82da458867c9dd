"""Tensor descriptors and block pointers of translated kernels: blocks of strided tensors, accessed
through pointers. Descriptors that the host makes are those of Gluon, copied by `engines`."""

# Kernel-language functions take tensors of any type, constexprs and numbers: Python's types say
# little of them.
# pyright: basic, reportArgumentType=false, reportAssignmentType=false, reportReturnType=false
# pyright: reportOptionalMemberAccess=false, reportAttributeAccessIssue=false
# pyright: reportIndexIssue=false, reportOperatorIssue=false, reportCallIssue=false
# pyright: reportUnnecessaryComparison=false

from __future__ import annotations

from typing import Any

from tritium.experimental import gluon
from tritium.experimental.gluon import language as gl
from tritium.experimental.gluon.language.nvidia.hopper import tma
from tritium.language import core as tl
from tritium.language.builtins import casts
from tritium.language.builtins.descriptors import check_atomic_dtype
from tritium.language.decorators import builtin
from tritium.language.values.tensor import tensor
from tritium.tools.triton_to_gluon_translator.engines import (
    check_descriptor,
    check_rows,
    combined_out,
    copied_in,
    copied_out,
    is_amd,
    rows_in,
    rows_out,
)
from tritium.tools.triton_to_gluon_translator.helpers import (
    arange,
    block_layout,
    expand_dims,
    settle,
)


@gluon.aggregate
class Blocks:
    """Blocks of `block_shape` of a strided tensor at `base`, from `offsets` on; of a block pointer
    or a descriptor. `padding`: "zero" or "nan", what loads have outside of the tensor."""

    base: gl.tensor
    shape: gl.tuple
    strides: gl.tuple
    offsets: gl.tuple
    block_shape: gl.constexpr
    padding: gl.constexpr
    is_pointer: gl.constexpr

    @property
    def dtype(self) -> Any:
        """The type of an element; of a block pointer that of the pointer."""
        return self.base.dtype if self.is_pointer.value else self.base.dtype.element_ty


def _integers(values: Any, dtype: Any) -> gl.tuple:
    return gl.tuple([casts.cast(casts.to_tensor(value), dtype) for value in values])


@builtin
def make_tensor_descriptor(
    base: Any, shape: Any, strides: Any, block_shape: Any, padding_option: Any = "zero"
) -> Any:
    """The blocks of a tensor; as `tl.make_tensor_descriptor`."""
    order = list(reversed(range(len(block_shape))))
    made = make_block_ptr(base, shape, strides, [0] * len(block_shape), block_shape, order)
    return gl.aggregate_replace(made, padding=padding_option or "zero", is_pointer=False)


@builtin
def make_block_ptr(
    base: Any, shape: Any, strides: Any, offsets: Any, block_shape: Any, order: Any
) -> Any:
    """A block of a tensor; as `tl.make_block_ptr`."""
    return Blocks(base, _integers(shape, gl.int64), _integers(strides, gl.int64),
                  _integers(offsets, gl.int32), list(block_shape), "zero", True)  # fmt: skip


@builtin
def advance(pointer: Any, offsets: Any) -> Any:
    """The block that is `offsets` further on."""
    moved = [a + b for a, b in zip(pointer.offsets, offsets, strict=True)]
    return gl.aggregate_replace(pointer, offsets=_integers(moved, gl.int32))


def _along(axis: int, rank: int, size: int, start: Any) -> tensor:
    """The positions along an axis, as a block of all axes."""
    found = casts.cast(arange(0, size) + start, gl.int64)
    for place in range(rank):
        if place != axis:
            found = expand_dims(found, place)
    return found


def _places(blocks: Any, starts: Any, checked: Any) -> tuple[Any, Any]:
    """The pointers of a block, and which of its elements the tensor has along the axes checked."""
    shape = list(blocks.block_shape.value)
    rank, pointers, inside = len(shape), blocks.base, None
    for axis, size in enumerate(shape):
        at = _along(axis, rank, size, starts[axis])
        pointers = pointers + at * blocks.strides[axis]
        if axis in checked:
            within = (at >= 0) & (at < blocks.shape[axis])
            inside = within if inside is None else inside & within
    pointers = tl.broadcast_to(pointers, shape)
    return pointers, None if inside is None else tl.broadcast_to(inside, shape)


def _load(blocks: Any, starts: Any, checked: Any, padding: str) -> tensor:
    pointers, inside = _places(blocks, starts, checked)
    other = None if inside is None else float("nan") if padding == "nan" else 0
    return gl.load(pointers, mask=inside, other=other)


def _every(blocks: Any) -> list[int]:
    return list(range(len(blocks.block_shape.value)))


@builtin
def load(
    pointer: Any, mask: Any = None, other: Any = None, boundary_check: Any = (),
    padding_option: Any = "", cache_modifier: Any = "", eviction_policy: Any = "",
    volatile: bool = False,
) -> tensor:  # fmt: skip
    """`tl.load`, also of block pointers."""
    if isinstance(pointer, Blocks):
        return _load(pointer, pointer.offsets, list(boundary_check), padding_option)
    return gl.load(pointer, mask, other, cache_modifier=cache_modifier,
                   eviction_policy=eviction_policy, volatile=volatile)  # fmt: skip


@builtin
def store(
    pointer: Any, value: Any, mask: Any = None, boundary_check: Any = (),
    cache_modifier: Any = "", eviction_policy: Any = "",
) -> None:  # fmt: skip
    """`tl.store`, also through block pointers."""
    if isinstance(pointer, Blocks):
        pointers, inside = _places(pointer, pointer.offsets, list(boundary_check))
        gl.store(pointers, casts.cast(casts.to_tensor(value), pointer.base.dtype.element_ty),
                 inside)  # fmt: skip
        return
    gl.store(pointer, value, mask, cache_modifier=cache_modifier, eviction_policy=eviction_policy)


@builtin
def load_block(blocks: Any, offsets: Any) -> tensor:
    """`blocks.load(offsets)` of a descriptor."""
    if isinstance(blocks, Blocks):
        return _load(blocks, offsets, _every(blocks), blocks.padding.value)
    check_descriptor(blocks)
    return copied_in(blocks, gl.tuple(list(offsets)), block_layout(len(blocks.block_shape)))


@builtin
def store_block(blocks: Any, offsets: Any, value: Any) -> None:
    """`blocks.store(offsets, value)` of a descriptor."""
    x = casts.cast(casts.to_tensor(value), blocks.dtype)
    if isinstance(blocks, Blocks):
        pointers, inside = _places(blocks, offsets, _every(blocks))
        gl.store(pointers, x, inside)
        return
    check_descriptor(blocks)
    copied_out(blocks, gl.tuple(list(offsets)), x)


@builtin
def gather(owner: Any, *args: Any, **options: Any) -> tensor:
    """`owner.gather(rows, column)` of a descriptor; of a block, its elements at indices."""
    if isinstance(owner, tensor):
        return settle(gl.gather(owner, *args, **options))
    rows, column = _rows("gather", owner, *args, **options)
    if isinstance(owner, Blocks):
        pointers, inside = _row_places(owner, rows, column)
        other = float("nan") if owner.padding.value == "nan" else 0
        return gl.load(pointers, mask=inside, other=other)
    check_descriptor(owner)
    check_rows("gather", owner)
    return rows_in(owner, rows, column, block_layout(2))


@builtin
def scatter(owner: Any, value: Any, *args: Any, **options: Any) -> None:
    """`owner.scatter(value, rows, column)` of a descriptor."""
    rows, column = _rows("scatter", owner, *args, **options)
    shape = [rows.type.shape[0], owner.block_shape[1]]
    x = casts.cast(tl.broadcast_to(casts.to_tensor(value), shape), owner.dtype)
    if isinstance(owner, Blocks):
        pointers, inside = _row_places(owner, rows, column)
        gl.store(pointers, x, inside)
        return
    check_descriptor(owner)
    check_rows("scatter", owner)
    rows_out(owner, rows, column, x)


def _rows(name: str, desc: Any, x_offsets: Any, y_offset: Any) -> tuple[tensor, Any]:
    shape = list(desc.block_shape)
    if len(shape) != 2 or shape[0] != 1:
        raise ValueError(f"{name}: the descriptor's block is {shape}; [1, columns] is required")
    return casts.cast(x_offsets, gl.int32), casts.cast(casts.to_tensor(y_offset), gl.int32)


def _row_places(blocks: Any, rows: tensor, column: Any) -> tuple[Any, Any]:
    """The pointers of rows of a matrix, and which of the elements it has."""
    shape = [rows.type.shape[0], blocks.block_shape.value[1]]
    down = casts.cast(expand_dims(rows, 1), gl.int64)
    across = _along(1, 2, shape[1], column)
    pointers = blocks.base + down * blocks.strides[0] + across * blocks.strides[1]
    inside = ((down >= 0) & (down < blocks.shape[0])
              & (across >= 0) & (across < blocks.shape[1]))  # fmt: skip
    return pointers, inside


def _atomic(kind: str) -> Any:
    def function(owner: Any, *args: Any, **options: Any) -> Any:
        if isinstance(owner, tensor):
            return getattr(gl, f"atomic_{kind}")(owner, *args, **options)
        return combine(owner, *args, **options)

    def combine(desc: Any, offsets: Any, value: Any) -> None:
        check_atomic_dtype(kind, desc.dtype)
        shape = list(desc.block_shape)
        x = casts.cast(tl.broadcast_to(casts.to_tensor(value), shape), desc.dtype)
        if isinstance(desc, Blocks):
            pointers, inside = _places(desc, offsets, _every(desc))
            getattr(gl, f"atomic_{kind}")(pointers, x, inside, sem="relaxed")
            return
        check_descriptor(desc)
        if is_amd(desc):
            raise NotImplementedError(f".atomic_{kind}() of descriptors that the host makes, on "
                                      "gfx1250; its engine has no atomic operations")  # fmt: skip
        combined_out(desc, gl.tuple(list(offsets)), x, getattr(tma, f"async_atomic_{kind}"))

    function.__name__ = f"atomic_{kind}"
    function.__doc__ = f"`owner.atomic_{kind}(...)` of a descriptor, or of pointers."
    return builtin(function)


atomic_add, atomic_min, atomic_max = map(_atomic, ("add", "min", "max"))
atomic_and, atomic_or, atomic_xor = map(_atomic, ("and", "or", "xor"))
