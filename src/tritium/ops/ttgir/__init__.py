"""The `ttg` dialect (tiles distributed over threads, shared memory, asynchronous copies) and, in
`nvidia`, the `ttng` dialect. Classes of both are exported here."""

from tritium.ir.layouts.encodings import ENCODINGS
from tritium.ops.ttgir import async_copy, memory
from tritium.ops.ttgir.async_copy import (
    AsyncCommitGroupOp,
    AsyncCopyGlobalToLocalOp,
    AsyncWaitOp,
)
from tritium.ops.ttgir.hopper import (
    FenceAsyncSharedOp,
    WarpGroupDotOp,
    WarpGroupDotWaitOp,
)
from tritium.ops.ttgir.memory import (
    ConvertLayoutOp,
    LocalAllocOp,
    LocalDeallocOp,
    LocalLoadOp,
    LocalStoreOp,
    MemDescIndexOp,
    MemDescReinterpretOp,
    MemDescReshapeOp,
    MemDescSubsliceOp,
    MemDescTransOp,
    transposed_encoding,
)
from tritium.ops.ttgir.tensormap import (
    GlobalScratchAllocOp,
    ReinterpretTensorDescOp,
    TensormapCreateOp,
    TensormapFenceproxyAcquireOp,
)
from tritium.ops.ttgir.tma import (
    ArriveBarrierOp,
    AsyncTMACopyGlobalToLocalOp,
    AsyncTMACopyLocalToGlobalOp,
    AsyncTMAReduceOp,
    AsyncTMAStoreWaitOp,
    BarrierExpectOp,
    InitBarrierOp,
    InvalBarrierOp,
    WaitBarrierOp,
)
from tritium.ops.ttgir.tma_rows import AsyncTMAGatherOp, AsyncTMAScatterOp
from tritium.ops.ttgir.types import (
    TOKEN,
    AsyncTokenType,
    MemDescType,
    bytes_of,
    memdesc_of,
)

OPS = (*memory.OPS, *async_copy.OPS, GlobalScratchAllocOp)
ATTRIBUTES = (MemDescType, AsyncTokenType, *ENCODINGS)

__all__ = [
    "ATTRIBUTES",
    "OPS",
    "TOKEN",
    "ArriveBarrierOp",
    "AsyncCommitGroupOp",
    "AsyncCopyGlobalToLocalOp",
    "AsyncTMACopyGlobalToLocalOp",
    "AsyncTMACopyLocalToGlobalOp",
    "AsyncTMAGatherOp",
    "AsyncTMAReduceOp",
    "AsyncTMAScatterOp",
    "AsyncTMAStoreWaitOp",
    "AsyncTokenType",
    "AsyncWaitOp",
    "BarrierExpectOp",
    "ConvertLayoutOp",
    "FenceAsyncSharedOp",
    "GlobalScratchAllocOp",
    "InitBarrierOp",
    "InvalBarrierOp",
    "LocalAllocOp",
    "LocalDeallocOp",
    "LocalLoadOp",
    "LocalStoreOp",
    "MemDescIndexOp",
    "MemDescReinterpretOp",
    "MemDescReshapeOp",
    "MemDescSubsliceOp",
    "MemDescTransOp",
    "MemDescType",
    "ReinterpretTensorDescOp",
    "TensormapCreateOp",
    "TensormapFenceproxyAcquireOp",
    "WaitBarrierOp",
    "WarpGroupDotOp",
    "WarpGroupDotWaitOp",
    "bytes_of",
    "memdesc_of",
    "transposed_encoding",
]
