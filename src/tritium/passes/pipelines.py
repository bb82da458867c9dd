"""The sequences of passes that the compiler runs."""

from __future__ import annotations

from tritium.passes.base import Pass
from tritium.passes.ttir import (
    CSE,
    DCE,
    LICM,
    CallFacts,
    Canonicalize,
    Combine,
    DotPrecision,
    Inline,
    NarrowReductions,
    ReorderBroadcast,
    ReshapeAccesses,
    ScaledDot,
    Structure,
    SymbolDCE,
    TensorPointers,
    TransposeProducts,
    UniformAdvance,
    UniformAtomics,
    Unroll,
)
from tritium.target import Processor


def ttir() -> list[Pass]:
    """The passes from the frontend's ttir to the ttir that backends take."""
    return [
        Inline(),
        Canonicalize(),
        Combine(),
        ReorderBroadcast(),
        CSE(),
        LICM(),
        Unroll(),
        Canonicalize(),
        CSE(),
        SymbolDCE(),
    ]


def tiles() -> list[Pass]:
    """The passes from ttir to the ttir that the tile stage of the CPU backend is built from."""
    return [
        TensorPointers(),
        UniformAdvance(),
        UniformAtomics(),
        ScaledDot(),
        Structure(bodies=False),
        ReshapeAccesses(),
        NarrowReductions(),
    ]


def ttgir(
    processor: Processor, num_warps: int, num_stages: int, num_ctas: int = 1, wgmma: bool = True,
    flatten: bool = True, spare: int = 0, automatic: bool = False,
    late: str = "none", rows: int = 0, pack: int = 1, direct: bool = False,
    registers: bool = False, reload: bool = True,
) -> list[Pass]:
    """The passes from ttir to the ttgir that `codegen/gpu` takes.

    Args:
        processor: what the code is for.
        num_warps: how many warps run a block of a program, a power of two.
        num_stages: how many loads of a loop may be in flight; 1 for none ahead.
        num_ctas: how many blocks, a cluster, run a program.
        wgmma: whether products may read operands from shared memory (sm_90).
        flatten: whether loops that ask for it become one with the loop inside.
        spare: bytes of shared memory that loops leave whose copies warps of their own start.
        automatic: whether loops that do not ask for such warps get them, where it pays.
        late: which stores by descriptors in loops have shared memory of their own (`LATE`).
        rows, pack: of matrix instructions (`target.MatrixUnit.tuned`).
        direct: whether the lanes of a warp copy to shared memory (`Processor.lane_copy_bytes`).
        registers: whether left operands of products that are computed stay in registers.
        reload: whether loops read operands again where registers are short.
    """
    from tritium.passes import ttgir as gpu  # which code for CPUs does not need
    return [
        ScaledDot(True, processor.name, rows, num_warps if wgmma and num_ctas == 1 else 1),
        DotPrecision(target=processor.name),
        *([TransposeProducts(processor.name, num_warps)] if wgmma and num_ctas == 1 else []),
        CallFacts(),
        TensorPointers(target=processor.name, rows=num_ctas == 1),
        *([UniformAdvance()] if processor.buffers else []),
        Canonicalize(), CSE(), LICM(),
        gpu.ConvertTTIRToTTGIR(
            num_warps=num_warps, num_ctas=num_ctas, target=processor.name, lanes=processor.lanes
        ),
        gpu.Coalesce(processor.transposes_in_threads, direct),
        gpu.AccelerateMatmul(wgmma=wgmma, rows=rows, pack=pack, registers=registers),
        gpu.OrderScans(loaded=True),
        gpu.AssignLayouts(),
        *([gpu.ConvertLoads()] if wgmma else []),
        *([gpu.MatchClusters()] if num_ctas > 1 else [gpu.ThreadLocality()]),
        CSE(),
        LICM(),
        *([gpu.FuseSplitLoops()] if flatten else []),
        gpu.WarpSpecialize(num_stages=num_stages, spare=spare, automatic=automatic),
        *([gpu.FuseNestedLoops()] if flatten else []),
        gpu.Pipeline(num_stages=num_stages, direct=direct),
        gpu.StageOperands(),
        gpu.DescriptorsToTMA(late=late),
        gpu.AsyncDots(),
        gpu.TensorProducts(),
        gpu.DoubleBufferSums(),
        *([gpu.BufferAccesses("+".join(processor.buffer_atomics))] if processor.buffers else []),
        Canonicalize(),
        CSE(),
        LICM(),
        *(_for_registers(processor, reload) if processor.registers else []),
        DCE(),
    ]


def _for_registers(processor: Processor, reload: bool) -> list[Pass]:
    """The passes that keep tiles within the registers that a thread has."""
    from tritium.passes import ttgir as gpu

    return [
        *([gpu.ReloadOperands()] if reload else []),
        *([gpu.SliceProducts()] if processor.buffers else []),
        *([gpu.SplitConversions()] if processor.copy_bytes else []),
    ]


def gluon(tensor_maps: bool = True) -> list[Pass]:
    """The passes from the frontend's ttgir of a Gluon kernel to the one that `codegen/gpu` takes:
    layouts that the program leaves open are found, no others are changed. `tensor_maps`: whether
    descriptors are maps in memory."""
    from tritium.passes import ttgir as gpu  # as above

    return [
        Inline(),
        gpu.InferCoalescedEncodings(),
        gpu.ResolveAutoEncodings(),
        Structure(bodies=False),
        gpu.OrderScans(),
        gpu.MakeOperandsWhole(),
        *([gpu.DescriptorsToTMA()] if tensor_maps else []),
        Canonicalize(),
        CSE(),
        Canonicalize(),
        CSE(),
        DCE(),
        SymbolDCE(),
    ]
