"""Blocks of descriptors that the host makes, copied by the engine of the GPU: the TMA of NVIDIA's,
the tensor data mover of gfx1250."""

# Kernel-language functions take tensors of any type, constexprs and numbers: Python's types say
# little of them.
# pyright: basic, reportArgumentType=false, reportAssignmentType=false, reportReturnType=false
# pyright: reportOptionalMemberAccess=false, reportAttributeAccessIssue=false
# pyright: reportIndexIssue=false, reportOperatorIssue=false, reportCallIssue=false

from __future__ import annotations

from typing import Any

from tritium.experimental import gluon
from tritium.experimental.gluon import language as gl
from tritium.experimental.gluon.amd.cdna5 import TensorDescriptor as AMDTensorDescriptor
from tritium.experimental.gluon.language.amd.cdna5 import tdm
from tritium.experimental.gluon.language.amd.cdna5._descriptors import (
    tensor_descriptor as amd_descriptor,
)
from tritium.experimental.gluon.language.nvidia.blackwell import tma as blackwell_tma
from tritium.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma
from tritium.experimental.gluon.language.nvidia.hopper._descriptors import (
    tensor_descriptor as gluon_descriptor,
)
from tritium.experimental.gluon.nvidia.hopper import TensorDescriptor
from tritium.language import emitter
from tritium.language.values.types import str_to_ty
from tritium.launch.signature import canonical_dtype
from tritium.ops import ttgir
from tritium.tools.triton_to_gluon_translator.helpers import LANES

_ROWS = {"gather": ttgir.AsyncTMAGatherOp, "scatter": ttgir.AsyncTMAScatterOp}
"""The ops that copy chosen rows, by the methods of descriptors."""


@gluon.constexpr_function
def is_amd(desc: Any) -> bool:
    """True if a descriptor is one for gfx1250."""
    return isinstance(desc, amd_descriptor)


def check_descriptor(desc: Any) -> None:
    """Raise `TypeError` for what is no descriptor of Gluon's, whose blocks have a layout."""
    if not isinstance(desc, gluon_descriptor):
        raise TypeError(
            f"{desc!r} is no descriptor of Gluon's; pass what engines.convert_host_descriptor "
            "makes of the host's TensorDescriptor"
        )


def convert_host_descriptor(desc: Any, target: str = "generic") -> Any:
    """The descriptor of Gluon's for a kernel that takes a `TensorDescriptor` in Triton, with the
    layout in shared memory that suits its blocks. `target`: a `TranslatorTarget`."""
    shape, element = list(desc.block_shape), str_to_ty(canonical_dtype(desc.base.dtype))
    extents = list(desc.shape), list(desc.strides)
    if not target.startswith("gfx"):
        layout = gl.NVMMASharedLayout.get_default_for(shape, element)
        return TensorDescriptor(desc.base, *extents, shape, layout, desc.padding)
    order = list(reversed(range(len(shape))))
    plain = gl.SwizzledSharedLayout(1, 1, 1, order)
    return AMDTensorDescriptor(desc.base, *extents, shape, plain, desc.padding)


def check_rows(name: str, desc: Any) -> None:
    """Raise `NotImplementedError` where the target's engine does not copy chosen rows."""
    target = emitter.current().features.target
    of_nvidia = target is not None and target.backend == "cuda"
    lacking = _ROWS[name].lacking(int(target.arch)) if of_nvidia else None
    if lacking or isinstance(desc, amd_descriptor):
        reason = lacking or "the target is gfx1250"
        raise NotImplementedError(
            f".{name}() of descriptors that the host makes: {reason}; make the descriptor in the "
            "kernel (tl.make_tensor_descriptor), or compile for sm_100"
        )


@gluon.constexpr_function
def rows_layout() -> gl.SliceLayout:
    """The layout of the numbers of rows."""
    warps = emitter.current().features.asked_num_warps()
    return gl.SliceLayout(0, gl.BlockedLayout([1, 4], [LANES, 1], [1, warps], [1, 0]))


@gluon.jit
def copied_in(desc, offsets, layout: gl.constexpr):
    """A block that the engine brings."""
    memory = gl.allocate_shared_memory(desc.dtype, desc.block_shape, desc.layout)
    if is_amd(desc):
        tdm.async_load(desc, offsets, memory)
        tdm.async_wait(0)
    else:
        bar = mbarrier.allocate_mbarrier()
        mbarrier.init(bar, count=1)
        mbarrier.expect(bar, desc.nbytes_per_cta)
        tma.async_load(desc, offsets, bar, memory)
        mbarrier.wait(bar, 0)
        mbarrier.invalidate(bar)
    return memory.load(layout)


@gluon.jit
def copied_out(desc, offsets, value):
    """Let the engine write a block."""
    memory = gl.allocate_shared_memory(desc.dtype, desc.block_shape, desc.layout, value)
    if is_amd(desc):
        tdm.async_store(desc, offsets, memory)
        tdm.async_wait(0)
    else:
        fence_async_shared()
        tma.async_store(desc, offsets, memory)
        tma.store_wait(0, read_only=False)


@gluon.jit
def rows_in(desc, rows, column, layout: gl.constexpr):
    """Rows that the engine brings."""
    shape: gl.constexpr = [rows.shape[0], desc.block_shape[1]]
    memory = gl.allocate_shared_memory(desc.dtype, shape, desc.layout)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    mbarrier.expect(bar, rows.shape[0] * desc.nbytes_per_cta)
    blackwell_tma.async_gather(desc, gl.convert_layout(rows, rows_layout()), column, bar, memory)
    mbarrier.wait(bar, 0)
    mbarrier.invalidate(bar)
    return memory.load(layout)


@gluon.jit
def rows_out(desc, rows, column, value):
    """Let the engine write rows."""
    shape: gl.constexpr = [rows.shape[0], desc.block_shape[1]]
    memory = gl.allocate_shared_memory(desc.dtype, shape, desc.layout, value)
    fence_async_shared()
    blackwell_tma.async_scatter(desc, gl.convert_layout(rows, rows_layout()), column, memory)
    tma.store_wait(0, read_only=False)


@gluon.jit
def combined_out(desc, offsets, value, combine: gl.constexpr):
    """Let the engine combine a block with what is in memory; `combine` is its function."""
    memory = gl.allocate_shared_memory(desc.dtype, desc.block_shape, desc.layout, value)
    fence_async_shared()
    combine(desc, offsets, memory)
    tma.store_wait(0, read_only=False)
