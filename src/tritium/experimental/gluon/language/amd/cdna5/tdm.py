"""Copies of blocks between tensors in memory and shared memory by the tensor data mover (TDM).

    desc = tdm.make_tensor_descriptor(base, [M, N], [stride, 1], [64, 64], layout)
    tdm.async_load(desc, [row, 0], memory)
    tdm.async_wait(0)

A descriptor has the place of its block. A copy with a barrier (`mbarrier`) lets each warp that
takes part arrive there once; those by numbers of rows as often as a warp has instructions.
"""

from __future__ import annotations

from typing import Any

from tritium.experimental.gluon.language._shared_memory import shared_memory_descriptor
from tritium.experimental.gluon.language.amd.cdna5._descriptors import (
    checked_layout,
    tensor_descriptor,
    tensor_descriptor_type,
)
from tritium.language import emitter
from tritium.language.builtins import casts, descriptors
from tritium.language.builtins.build import emit
from tritium.language.builtins.memory import cache_options, integers
from tritium.language.decorators import builtin
from tritium.language.values.base import as_tuple
from tritium.language.values.tensor import tensor
from tritium.language.values.types import int1, int32
from tritium.ops import ttgir

__all__ = [
    "async_gather", "async_load", "async_load_fused", "async_scatter", "async_store", "async_wait",
    "make_tensor_descriptor", "prefetch", "tensor_descriptor", "tensor_descriptor_type",
    "update_tensor_descriptor",
]  # fmt: skip


@builtin
def make_tensor_descriptor(
    base: Any, shape: Any, strides: Any, block_shape: Any, layout: Any
) -> tensor_descriptor:
    """Describe a tensor in memory; the block is at its start.

    Args:
        base: a pointer to the first element.
        shape: 1 to 5 extents.
        strides: in elements; the last is 1.
        block_shape: compile-time powers of two.
        layout: of blocks in shared memory, whose rows are in order: a `SwizzledSharedLayout` with
            `max_phase` 1 or a `PaddedSharedLayout` with one interval.

    Raises `TypeError` or `ValueError` for arguments that do not fit.
    """
    extents = [int(size) for size in as_tuple(block_shape)]
    element = getattr(base.dtype, "element_ty", base.dtype)
    found = checked_layout(layout, extents, element)
    return descriptors.make(
        base, shape, strides, extents, "zero", found.to_encoding(), tensor_descriptor, on_host=True
    )


def _check(name: str, desc: Any, memory: Any = None) -> None:
    if not isinstance(desc, tensor_descriptor):
        raise TypeError(f"{name}: {desc!r} is no descriptor of `tdm.make_tensor_descriptor`")
    if memory is not None and not isinstance(memory, shared_memory_descriptor):
        raise TypeError(f"{name}: {memory!r} is no shared memory")


def _condition(pred: Any) -> tensor | None:
    """A condition as an int32; None where there is none. Raises `TypeError`."""
    if pred is None:
        return None
    value = casts.to_tensor(pred)
    if value.type.is_block() or not value.dtype.is_int():
        raise TypeError(f"pred is {value.type}; a scalar condition is required")
    return casts.cast(value, int32)


@builtin
def update_tensor_descriptor(
    desc: Any, add_offsets: Any = None, set_bounds: Any = None, pred: Any = None,
    clamp_bounds: bool = False,
) -> tensor_descriptor:  # fmt: skip
    """A descriptor with some things changed.

    Args:
        add_offsets: how much further the block is, in elements along each axis.
        set_bounds: the extents of the tensor from the block's start on.
        pred: whether copies are made.
        clamp_bounds: the extents become what `add_offsets` leaves of them; none along an axis with
            a negative offset.

    Raises `ValueError` where the arguments do not go together.
    """
    _check("update_tensor_descriptor", desc)
    offsets = [] if add_offsets is None else integers(add_offsets, int32, "add_offsets")
    bounds = [] if set_bounds is None else integers(set_bounds, int32, "set_bounds")
    (handle,) = emit(
        ttgir.UpdateTensorDescOp, desc, offsets, bounds, _condition(pred),
        clamp_bounds=bool(clamp_bounds),
    )  # fmt: skip
    return tensor_descriptor(handle, desc.shape, desc.strides, desc.block_type)


def _warps() -> int:
    return emitter.current().features.asked_num_warps()


def _placed(desc: Any, offsets: Any, pred: Any = None) -> Any:
    """The descriptor of the block that is `offsets` further, if there are any."""
    if offsets:
        return update_tensor_descriptor(desc, offsets, None, pred, True)
    return desc if pred is None else update_tensor_descriptor(desc, None, None, pred)


@builtin
def async_load(
    src: Any, offsets: Any = None, dest: Any = None, pred: Any = None, mbarrier: Any = None,
    warp_used_hint: Any = None, cache_modifier: str = "",
) -> None:  # fmt: skip
    """Start copying a descriptor's block to shared memory; zeros are what lies outside of the
    tensor.

    Args:
        offsets, pred: change the descriptor before, as `update_tensor_descriptor` with
            `clamp_bounds`.
        mbarrier: at which each warp that takes part arrives when its part is there.
        warp_used_hint: the bits of the warps that take part: a power of two of them, whose numbers
            differ in some bits. All do without it.
    """
    _check("async_load", src, dest)
    if dest is None:
        raise TypeError("async_load: dest is None; shared memory is required")
    if warp_used_hint == 0:
        raise ValueError("async_load: warp_used_hint is 0; one warp or more is required")
    emit(
        ttgir.AsyncTDMCopyGlobalToLocalOp, _placed(src, offsets, pred), dest, mbarrier,
        warps=_warps(), warp_used_hint=warp_used_hint or 0,
        **cache_options(cache_modifier or None, None),
    )  # fmt: skip


@builtin
def async_load_fused(members: Any, cache_modifier: str = "") -> None:
    """Start copying the blocks of 2 to 4 descriptors by one instruction of each warp. `members`:
    (descriptor, memory, warp_used_hint) of each, by different warps. For `async_wait` this is one
    copy."""
    parts = [as_tuple(member) for member in as_tuple(members)]
    for number, part in enumerate(parts):
        if len(part) != 3 or not isinstance(part[2], int):
            raise ValueError(f"async_load_fused: member {number} is {part}; (descriptor, memory, "
                             "warp_used_hint) is required")  # fmt: skip
        _check("async_load_fused", part[0], part[1])
    emit(
        ttgir.AsyncTDMFusedCopyOp, [part[0] for part in parts], [part[1] for part in parts],
        warps=_warps(), warp_used_hints=tuple(part[2] for part in parts),
        **cache_options(cache_modifier or None, None),
    )  # fmt: skip


@builtin
def async_store(
    dest: Any, offsets: Any = None, src: Any = None, mbarrier: Any = None, cache_modifier: str = ""
) -> None:
    """Start copying shared memory to a descriptor's block. What lies outside of the tensor is
    dropped. Arguments as for `async_load`."""
    _check("async_store", dest, src)
    if src is None:
        raise TypeError("async_store: src is None; shared memory is required")
    emit(
        ttgir.AsyncTDMCopyLocalToGlobalOp, _placed(dest, offsets), src, mbarrier, warps=_warps(),
        **cache_options(cache_modifier or None, None),
    )  # fmt: skip


@builtin
def async_wait(num_outstanding: int = 0) -> None:
    """Wait until all but the `num_outstanding` newest copies are done."""
    emit(ttgir.AsyncTDMWaitOp, num=num_outstanding)


@builtin
def async_gather(desc: Any, src_row_indices: Any, dst: Any, mbarrier: Any = None) -> None:
    """Start copying rows of a matrix, by their numbers from the block's first row on (int16 or
    int32, the same in all lanes of a warp), to shared memory."""
    _check("async_gather", desc, dst)
    emit(ttgir.AsyncTDMGatherOp, desc, src_row_indices, dst, mbarrier, warps=_warps())


@builtin
def async_scatter(desc: Any, dst_row_indices: Any, src: Any, mbarrier: Any = None) -> None:
    """Start copying shared memory to rows of a matrix; see `async_gather`."""
    _check("async_scatter", desc, src)
    emit(ttgir.AsyncTDMScatterOp, desc, dst_row_indices, src, mbarrier, warps=_warps())


@builtin
def prefetch(src: Any, offsets: Any, pred: Any = True, speculative: bool = False) -> None:
    """Read the block that is `offsets` further than a descriptor's into the second-level cache, if
    `pred`. With `speculative` it may read beyond the tensor, and does nothing where addresses have
    not been translated before."""
    _check("prefetch", src)
    emit(
        ttgir.TDMPrefetchOp, src, integers(offsets, int32, "offsets"),
        casts.cast(casts.to_tensor(pred), int1), speculative=bool(speculative),
    )  # fmt: skip
