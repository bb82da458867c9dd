"""Tensor descriptors and block pointers of translated kernels: blocks of strided tensors, accessed
through pointers. Descriptors that the host makes are those of Gluon, copied by the engine."""

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
from tritium.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
)
from tritium.language import core as tl
from tritium.language.builtins import casts
from tritium.language.decorators import builtin
from tritium.language.values.tensor import tensor
from tritium.tools.triton_to_gluon_translator.helpers import arange, block_layout, expand_dims


@gluon.aggregate
class Blocks:
    """Blocks of `block_shape` of a strided tensor at `base`, from `offsets` on. `padding`: "zero"
    or "nan", what loads have outside of the tensor."""

    base: gl.tensor
    shape: gl.tuple
    strides: gl.tuple
    offsets: gl.tuple
    block_shape: gl.constexpr
    padding: gl.constexpr

    @property
    def dtype(self) -> Any:
        """The type of an element."""
        return self.base.dtype.element_ty


def _integers(values: Any, dtype: Any) -> gl.tuple:
    return gl.tuple([casts.cast(casts.to_tensor(value), dtype) for value in values])


@builtin
def make_tensor_descriptor(
    base: Any, shape: Any, strides: Any, block_shape: Any, padding_option: Any = "zero"
) -> Any:
    """The blocks of a tensor; as `tl.make_tensor_descriptor`."""
    order = list(reversed(range(len(block_shape))))
    made = make_block_ptr(base, shape, strides, [0] * len(block_shape), block_shape, order)
    return gl.aggregate_replace(made, padding=padding_option or "zero")


@builtin
def make_block_ptr(
    base: Any, shape: Any, strides: Any, offsets: Any, block_shape: Any, order: Any
) -> Any:
    """A block of a tensor; as `tl.make_block_ptr`."""
    return Blocks(base, _integers(shape, gl.int64), _integers(strides, gl.int64),
                  _integers(offsets, gl.int32), list(block_shape), "zero")  # fmt: skip


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
        gl.store(pointers, casts.cast(casts.to_tensor(value), pointer.dtype), inside)
        return
    gl.store(pointer, value, mask, cache_modifier=cache_modifier, eviction_policy=eviction_policy)


@builtin
def load_block(blocks: Any, offsets: Any) -> tensor:
    """`blocks.load(offsets)` of a descriptor."""
    if isinstance(blocks, Blocks):
        return _load(blocks, offsets, _every(blocks), blocks.padding.value)
    return copied_in(blocks, gl.tuple(list(offsets)), block_layout(len(blocks.block_shape)))


@builtin
def store_block(blocks: Any, offsets: Any, value: Any) -> None:
    """`blocks.store(offsets, value)` of a descriptor."""
    x = casts.cast(casts.to_tensor(value), blocks.dtype)
    if isinstance(blocks, Blocks):
        pointers, inside = _places(blocks, offsets, _every(blocks))
        gl.store(pointers, x, inside)
        return
    copied_out(blocks, gl.tuple(list(offsets)), x)


@gluon.jit
def copied_in(desc, offsets, layout: gl.constexpr):
    """A block that the copy engine brings."""
    memory = gl.allocate_shared_memory(desc.dtype, desc.block_shape, desc.layout)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    mbarrier.expect(bar, desc.nbytes_per_cta)
    tma.async_load(desc, offsets, bar, memory)
    mbarrier.wait(bar, 0)
    mbarrier.invalidate(bar)
    return memory.load(layout)


@gluon.jit
def copied_out(desc, offsets, value):
    """Let the copy engine write a block."""
    memory = gl.allocate_shared_memory(desc.dtype, desc.block_shape, desc.layout, value)
    fence_async_shared()
    tma.async_store(desc, offsets, memory)
    tma.store_wait(0, read_only=False)
