"""The `ttg` dialect (tiles distributed over threads, shared memory, asynchronous copies), the
`ttng` dialect (what NVIDIA's GPUs from Hopper on have) and `amdg` (what AMD's have)."""

from tritium.ir.layouts.amd import AMDMfmaEncoding, AMDWmmaEncoding
from tritium.ir.layouts.encodings import ENCODINGS
from tritium.ir.layouts.partitioned import PartitionedSharedEncoding
from tritium.ir.layouts.shared_linear import PaddedSharedEncoding, SharedLinearEncoding
from tritium.ir.layouts.tensor_memory import (
    TensorMemoryEncoding,
    TensorMemoryScalesEncoding,
    TensorMemorySpace,
)
from tritium.ir.types import PatchesDescType
from tritium.ops.ttgir.amd.barriers import ArriveThreadsOp as ArriveThreadsOp
from tritium.ops.ttgir.amd.barriers import AsyncCopyArriveLDSOp as AsyncCopyArriveLDSOp
from tritium.ops.ttgir.amd.barriers import ClusterArriveOp as ClusterArriveOp
from tritium.ops.ttgir.amd.barriers import ClusterWaitOp as ClusterWaitOp
from tritium.ops.ttgir.amd.barriers import InitLDSBarrierOp as InitLDSBarrierOp
from tritium.ops.ttgir.amd.barriers import WaitLDSBarrierOp as WaitLDSBarrierOp
from tritium.ops.ttgir.amd.pieces import ConcatOp as ConcatOp
from tritium.ops.ttgir.amd.pieces import ExtractSliceOp as ExtractSliceOp
from tritium.ops.ttgir.amd.repacked import (
    LocalLoadPackedTransposedOp as LocalLoadPackedTransposedOp,
)
from tritium.ops.ttgir.amd.scaled import ScaledDowncastFp4Op as ScaledDowncastFp4Op
from tritium.ops.ttgir.amd.scaled import ScaledDowncastFp8Op as ScaledDowncastFp8Op
from tritium.ops.ttgir.amd.scaled import ScaledUpcastFp4Op as ScaledUpcastFp4Op
from tritium.ops.ttgir.amd.scaled import ScaledUpcastFp8Op as ScaledUpcastFp8Op
from tritium.ops.ttgir.amd.tensor_rows import AsyncTDMGatherOp as AsyncTDMGatherOp
from tritium.ops.ttgir.amd.tensor_rows import AsyncTDMScatterOp as AsyncTDMScatterOp
from tritium.ops.ttgir.amd.tensor_rows import TDMPrefetchOp as TDMPrefetchOp
from tritium.ops.ttgir.amd.tensors import AsyncTDMCopyGlobalToLocalOp as AsyncTDMCopyGlobalToLocalOp
from tritium.ops.ttgir.amd.tensors import AsyncTDMCopyLocalToGlobalOp as AsyncTDMCopyLocalToGlobalOp
from tritium.ops.ttgir.amd.tensors import AsyncTDMFusedCopyOp as AsyncTDMFusedCopyOp
from tritium.ops.ttgir.amd.tensors import AsyncTDMWaitOp as AsyncTDMWaitOp
from tritium.ops.ttgir.amd.tensors import UpdateTensorDescOp as UpdateTensorDescOp
from tritium.ops.ttgir.async_copy import AsyncCommitGroupOp as AsyncCommitGroupOp
from tritium.ops.ttgir.async_copy import AsyncCopyGlobalToLocalOp as AsyncCopyGlobalToLocalOp
from tritium.ops.ttgir.async_copy import AsyncCopyLocalToGlobalOp as AsyncCopyLocalToGlobalOp
from tritium.ops.ttgir.async_copy import AsyncCopyMbarrierArriveOp as AsyncCopyMbarrierArriveOp
from tritium.ops.ttgir.async_copy import AsyncWaitOp as AsyncWaitOp
from tritium.ops.ttgir.async_copy import ElementCopy as ElementCopy
from tritium.ops.ttgir.buffers import BufferAtomicCASOp as BufferAtomicCASOp
from tritium.ops.ttgir.buffers import BufferAtomicRMWOp as BufferAtomicRMWOp
from tritium.ops.ttgir.buffers import BufferLoadOp as BufferLoadOp
from tritium.ops.ttgir.buffers import BufferLoadToLocalOp as BufferLoadToLocalOp
from tritium.ops.ttgir.buffers import BufferStoreOp as BufferStoreOp
from tritium.ops.ttgir.clc import CLCGetProgramIdOp as CLCGetProgramIdOp
from tritium.ops.ttgir.clc import CLCIsCanceledOp as CLCIsCanceledOp
from tritium.ops.ttgir.clc import CLCLoadResultOp as CLCLoadResultOp
from tritium.ops.ttgir.clc import CLCTryCancelOp as CLCTryCancelOp
from tritium.ops.ttgir.clc import ProgramDim as ProgramDim
from tritium.ops.ttgir.hopper import AsyncSharedStoreOp as AsyncSharedStoreOp
from tritium.ops.ttgir.hopper import ClusterBarrierOp as ClusterBarrierOp
from tritium.ops.ttgir.hopper import FenceAsyncSharedOp as FenceAsyncSharedOp
from tritium.ops.ttgir.hopper import WarpGroupDotOp as WarpGroupDotOp
from tritium.ops.ttgir.hopper import WarpGroupDotWaitOp as WarpGroupDotWaitOp
from tritium.ops.ttgir.inline_asm import InlineAsmOp as InlineAsmOp
from tritium.ops.ttgir.local_gather import LocalAtomicScatterRMWOp as LocalAtomicScatterRMWOp
from tritium.ops.ttgir.local_gather import LocalGatherOp as LocalGatherOp
from tritium.ops.ttgir.local_gather import LocalScatterOp as LocalScatterOp
from tritium.ops.ttgir.memory import ConvertLayoutOp as ConvertLayoutOp
from tritium.ops.ttgir.memory import InThreadTransposeOp as InThreadTransposeOp
from tritium.ops.ttgir.memory import LocalAllocOp as LocalAllocOp
from tritium.ops.ttgir.memory import LocalDeallocOp as LocalDeallocOp
from tritium.ops.ttgir.memory import LocalLoadOp as LocalLoadOp
from tritium.ops.ttgir.memory import LocalStoreOp as LocalStoreOp
from tritium.ops.ttgir.memory import MemDescIndexOp as MemDescIndexOp
from tritium.ops.ttgir.memory import MemDescReinterpretOp as MemDescReinterpretOp
from tritium.ops.ttgir.memory import MemDescReshapeOp as MemDescReshapeOp
from tritium.ops.ttgir.memory import MemDescSubsliceOp as MemDescSubsliceOp
from tritium.ops.ttgir.memory import MemDescTransOp as MemDescTransOp
from tritium.ops.ttgir.packed import Fp4ToFpOp as Fp4ToFpOp
from tritium.ops.ttgir.packed import PackedArithOp as PackedArithOp
from tritium.ops.ttgir.packed import PackedKind as PackedKind
from tritium.ops.ttgir.scheduling import CondBarrierOp as CondBarrierOp
from tritium.ops.ttgir.scheduling import SchedBarrierOp as SchedBarrierOp
from tritium.ops.ttgir.scheduling import SchedGroupBarrierOp as SchedGroupBarrierOp
from tritium.ops.ttgir.scheduling import SetPriorityOp as SetPriorityOp
from tritium.ops.ttgir.scheduling import WaveBarrierOp as WaveBarrierOp
from tritium.ops.ttgir.scheduling import WorkitemIdOp as WorkitemIdOp
from tritium.ops.ttgir.tcgen05 import TCGen5CommitOp as TCGen5CommitOp
from tritium.ops.ttgir.tcgen05 import TCGen5MMAOp as TCGen5MMAOp
from tritium.ops.ttgir.tcgen05 import TCGen5MMAScaledOp as TCGen5MMAScaledOp
from tritium.ops.ttgir.tcgen05 import TensorDotOp as TensorDotOp
from tritium.ops.ttgir.tcgen05 import TensorScaledDotOp as TensorScaledDotOp
from tritium.ops.ttgir.tensor_memory import TMemAllocOp as TMemAllocOp
from tritium.ops.ttgir.tensor_memory import TMemCopyOp as TMemCopyOp
from tritium.ops.ttgir.tensor_memory import TMemLoadOp as TMemLoadOp
from tritium.ops.ttgir.tensor_memory import TMemStoreOp as TMemStoreOp
from tritium.ops.ttgir.tensor_memory import TMemSubSliceOp as TMemSubSliceOp
from tritium.ops.ttgir.tensormap import GlobalScratchAllocOp as GlobalScratchAllocOp
from tritium.ops.ttgir.tensormap import ReinterpretTensorDescOp as ReinterpretTensorDescOp
from tritium.ops.ttgir.tensormap import TensormapCreateOp as TensormapCreateOp
from tritium.ops.ttgir.tensormap import TensormapFenceproxyAcquireOp as TensormapFenceproxyAcquireOp
from tritium.ops.ttgir.tma import ITSELF as ITSELF
from tritium.ops.ttgir.tma import ArriveBarrierOp as ArriveBarrierOp
from tritium.ops.ttgir.tma import AsyncTMACopyGlobalToLocalOp as AsyncTMACopyGlobalToLocalOp
from tritium.ops.ttgir.tma import AsyncTMACopyLocalToGlobalOp as AsyncTMACopyLocalToGlobalOp
from tritium.ops.ttgir.tma import AsyncTMAReduceOp as AsyncTMAReduceOp
from tritium.ops.ttgir.tma import AsyncTMAStoreWaitOp as AsyncTMAStoreWaitOp
from tritium.ops.ttgir.tma import BarrierExpectOp as BarrierExpectOp
from tritium.ops.ttgir.tma import InitBarrierOp as InitBarrierOp
from tritium.ops.ttgir.tma import InvalBarrierOp as InvalBarrierOp
from tritium.ops.ttgir.tma import WaitBarrierOp as WaitBarrierOp
from tritium.ops.ttgir.tma_rows import AsyncTMAGatherOp as AsyncTMAGatherOp
from tritium.ops.ttgir.tma_rows import AsyncTMAScatterOp as AsyncTMAScatterOp
from tritium.ops.ttgir.types import AsyncTokenType
from tritium.ops.ttgir.types import MemDescType as MemDescType
from tritium.ops.ttgir.types import bytes_of as bytes_of
from tritium.ops.ttgir.types import check_new_memory as check_new_memory
from tritium.ops.ttgir.types import copied_bytes_of as copied_bytes_of
from tritium.ops.ttgir.types import memdesc_of as memdesc_of
from tritium.ops.ttgir.warp_specialize import WarpReturnOp as WarpReturnOp
from tritium.ops.ttgir.warp_specialize import WarpSpecializeOp as WarpSpecializeOp
from tritium.ops.ttgir.warp_specialize import WarpYieldOp as WarpYieldOp

ATTRIBUTES = (
    MemDescType, AsyncTokenType, *ENCODINGS, AMDMfmaEncoding, AMDWmmaEncoding,
    PaddedSharedEncoding, PartitionedSharedEncoding, SharedLinearEncoding, PatchesDescType,
    TensorMemoryEncoding, TensorMemoryScalesEncoding, TensorMemorySpace,
)  # fmt: skip
