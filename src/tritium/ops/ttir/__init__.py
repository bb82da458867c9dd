"""The `tt` dialect: tiles of numbers and pointers with value semantics."""

from tritium.ops.ttir import dot, extern, function, memory, program, reduction, shape
from tritium.ops.ttir.dot import (
    DotOp,
    InputPrecision,
)
from tritium.ops.ttir.extern import (
    ExternElementwiseOp,
)
from tritium.ops.ttir.function import (
    CallOp,
    FuncOp,
    ReturnOp,
)
from tritium.ops.ttir.memory import (
    AddPtrOp,
    CacheModifier,
    EvictionPolicy,
    LoadOp,
    StoreOp,
)
from tritium.ops.ttir.program import (
    Axis,
    GetNumProgramsOp,
    GetProgramIdOp,
)
from tritium.ops.ttir.reduction import (
    ReduceOp,
    ReduceReturnOp,
)
from tritium.ops.ttir.shape import (
    BroadcastOp,
    ExpandDimsOp,
    MakeRangeOp,
    ReshapeOp,
    SplatOp,
    TransOp,
    UnsplatOp,
)

OPS = (
    *dot.OPS,
    *extern.OPS,
    *function.OPS,
    *memory.OPS,
    *program.OPS,
    *reduction.OPS,
    *shape.OPS,
)
ATTRIBUTES = ()

__all__ = [
    "ATTRIBUTES",
    "OPS",
    "AddPtrOp",
    "Axis",
    "BroadcastOp",
    "CacheModifier",
    "CallOp",
    "DotOp",
    "EvictionPolicy",
    "ExpandDimsOp",
    "ExternElementwiseOp",
    "FuncOp",
    "GetNumProgramsOp",
    "GetProgramIdOp",
    "InputPrecision",
    "LoadOp",
    "MakeRangeOp",
    "ReduceOp",
    "ReduceReturnOp",
    "ReshapeOp",
    "ReturnOp",
    "SplatOp",
    "StoreOp",
    "TransOp",
    "UnsplatOp",
]  # fmt: skip
