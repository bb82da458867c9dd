"""Functions that translated kernels call: blocks of one rank have one layout in them, and so can be
computed with each other as in Triton."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tritium.backends.amd.matrix import matrix_cores
from tritium.experimental.gluon import language as gl
from tritium.experimental.gluon.language._layouts import layout_of
from tritium.experimental.gluon.language.nvidia.ampere import mma_v2
from tritium.language import core as tl
from tritium.language import emitter
from tritium.language.decorators import builtin
from tritium.language.values.base import is_sequence
from tritium.language.values.tensor import tensor
from tritium.ops.ttir.dot import InputPrecision

LANES = 32
"""The threads of a warp where the target does not say."""


def block_layout(rank: int) -> gl.BlockedLayout:
    """The layout of blocks with `rank` axes: four neighbours a thread, warps along the axis before
    the last."""
    features = emitter.current().features
    if not features.before_new_axis:  # where blocks of two ranks meet, too
        features.before_new_axis.append(_sliced)
    warps = features.asked_num_warps()
    lanes = LANES if features.target is None else features.target.warp_size
    if rank == 1:
        return gl.BlockedLayout([4], [lanes], [warps], [0])
    ones = [1] * (rank - 2)
    return gl.BlockedLayout(
        [*ones, 1, 4], [*ones, lanes // 8, 8], [*ones, warps, 1], list(reversed(range(rank)))
    )


def _sliced(value: tensor, axis: int) -> tensor:
    """A block in the layout from which one in `block_layout` gets a new axis; results of reductions
    keep theirs."""
    layout: Any = getattr(value.type, "layout", None)
    if isinstance(layout, gl.SliceLayout) and layout.dim == axis:
        return value
    parent = block_layout(len(value.type.shape) + 1)
    return gl.convert_layout(value, gl.SliceLayout(axis, parent))


@builtin
def settle(value: Any) -> Any:
    """A block (or each of a tuple of blocks) in the layout of its rank; other values unchanged."""
    if isinstance(value, gl.tuple) or is_sequence(value):
        return gl.tuple([settle(member) for member in value])
    if not isinstance(value, tensor) or not value.type.is_block():
        return value
    layout = block_layout(len(value.type.shape))
    if isinstance(getattr(value.type, "layout", None), gl.AutoLayout):  # nothing else may decide it
        return gl.set_auto_layout(value, layout)
    return gl.convert_layout(value, layout)


@builtin
def arange(start: Any, end: Any) -> tensor:
    """`gl.arange` in the layout of blocks of one axis."""
    return gl.arange(start, end, block_layout(1))


@builtin
def full(shape: Any, value: Any, dtype: Any) -> tensor:
    """`gl.full` in the layout of the rank."""
    return gl.full(shape, value, dtype, block_layout(len(shape)) if len(shape) else None)


@builtin
def cat(input: Any, other: Any, can_reorder: bool = False, dim: int = 0) -> tensor:
    """`tl.cat` in order, in which layouts say where elements are."""
    return tl.cat(input, other, dim=dim)


@builtin
def zeros(shape: Any, dtype: Any) -> tensor:
    """`gl.zeros` in the layout of the rank."""
    return full(shape, 0, dtype)


@builtin
def expand_dims(value: Any, axis: int) -> tensor:
    """A block with a further axis, of size 1."""
    return settle(tl.expand_dims(value, axis))


@builtin
def dot(
    a: tensor, b: tensor, acc: Any = None, input_precision: Any = None, allow_tf32: Any = None,
    max_num_imprecise_acc: Any = None, out_dtype: Any = None,
) -> tensor:  # fmt: skip
    """`a @ b + acc` of matrices or batches of them, by the matrix unit where it takes the operands,
    else by multiplications of each thread."""
    *batch, m, _ = a.type.shape
    wanted = gl.float32 if out_dtype is None else out_dtype
    wanted = gl.int32 if a.dtype.is_int() else wanted
    total = full([*batch, m, b.type.shape[-1]], 0, wanted) if acc is None else acc
    bits = a.dtype.primitive_bitwidth
    exact = input_precision == "ieee" or allow_tf32 is False
    features = emitter.current().features
    if features.target is not None and features.target.backend == "hip":
        chosen = _amd_layout(a, b, total, "ieee" if exact else input_precision)
    elif bits == 64 or (bits == 32 and exact) or batch:
        chosen = None
    else:
        warps = features.asked_num_warps()
        down = min(warps, max(m // 16, 1))
        layout = gl.NVMMADistributedLayout([2, 0], [down, warps // down], [16, 8])
        chosen = layout, max(32 // bits, 1)
    parent, width = chosen or (block_layout(len(batch) + 2), 0)
    left, right = (gl.convert_layout(x, gl.DotOperandLayout(i, parent, width))
                   for i, x in enumerate((a, b)))  # fmt: skip
    if chosen is None:
        return gl.dot_fma(left, right, total)
    total = gl.convert_layout(total, parent)
    if isinstance(parent, gl.NVMMADistributedLayout):
        return settle(mma_v2(left, right, total, input_precision))
    precision = "ieee" if exact else input_precision
    return settle(tl.dot(left, right, total, input_precision=precision, out_dtype=total.dtype))


def _amd_layout(
    a: tensor, b: tensor, acc: tensor, input_precision: str | None
) -> tuple[Any, int] | None:
    """The layout of a product by the target's matrix unit, and the neighbours that a thread has of
    its operands; None where it does not take them."""
    features: Any = emitter.current().features
    precision = input_precision or features.default_dot_input_precision
    product: Any = SimpleNamespace(
        a=a.handle, b=b.handle, c=acc.handle, results=[acc.handle], k=a.type.shape[-1],
        has_scales=False, inputPrecision=InputPrecision[precision.upper()],
    )  # fmt: skip
    cores, warps = matrix_cores(features.target.arch), features.asked_num_warps()
    if not cores.takes(product, warps, ()):
        return None
    encoding = cores.encoding(product, warps, (), False)
    return layout_of(encoding), cores.neighbours(product, encoding)
