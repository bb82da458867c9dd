"""The `tt` dialect: tiles of numbers and pointers with value semantics."""

from tritium.ir.types import PointerType, TensorDescType
from tritium.ops.ttir import (
    atomic,
    debug,
    descriptor,
    dot,
    extern,
    function,
    memory,
    numeric,
    program,
    reduction,
    shape,
    sort,
)
from tritium.ops.ttir.atomic import AtomicCASOp as AtomicCASOp
from tritium.ops.ttir.atomic import AtomicKind as AtomicKind
from tritium.ops.ttir.atomic import AtomicLoadOp as AtomicLoadOp
from tritium.ops.ttir.atomic import AtomicOp as AtomicOp
from tritium.ops.ttir.atomic import AtomicPollOp as AtomicPollOp
from tritium.ops.ttir.atomic import AtomicRMWOp as AtomicRMWOp
from tritium.ops.ttir.atomic import AtomicStoreOp as AtomicStoreOp
from tritium.ops.ttir.atomic import MemScope as MemScope
from tritium.ops.ttir.atomic import MemSemantic as MemSemantic
from tritium.ops.ttir.debug import AssertOp as AssertOp
from tritium.ops.ttir.debug import PrintOp as PrintOp
from tritium.ops.ttir.descriptor import DescriptorGatherOp as DescriptorGatherOp
from tritium.ops.ttir.descriptor import DescriptorLoadOp as DescriptorLoadOp
from tritium.ops.ttir.descriptor import DescriptorReduceKind as DescriptorReduceKind
from tritium.ops.ttir.descriptor import DescriptorReduceOp as DescriptorReduceOp
from tritium.ops.ttir.descriptor import DescriptorScatterOp as DescriptorScatterOp
from tritium.ops.ttir.descriptor import DescriptorStoreOp as DescriptorStoreOp
from tritium.ops.ttir.descriptor import MakeTensorDescOp as MakeTensorDescOp
from tritium.ops.ttir.dot import DotOp as DotOp
from tritium.ops.ttir.dot import DotScaledOp as DotScaledOp
from tritium.ops.ttir.dot import InputPrecision as InputPrecision
from tritium.ops.ttir.dot import ScaleFormat as ScaleFormat
from tritium.ops.ttir.dot import product_shape as product_shape
from tritium.ops.ttir.extern import ElementwiseInlineAsmOp as ElementwiseInlineAsmOp
from tritium.ops.ttir.extern import ExternElementwiseOp as ExternElementwiseOp
from tritium.ops.ttir.function import CallOp as CallOp
from tritium.ops.ttir.function import FuncOp as FuncOp
from tritium.ops.ttir.function import ReturnOp as ReturnOp
from tritium.ops.ttir.memory import AddPtrOp as AddPtrOp
from tritium.ops.ttir.memory import AdvanceOp as AdvanceOp
from tritium.ops.ttir.memory import CacheModifier as CacheModifier
from tritium.ops.ttir.memory import EvictionPolicy as EvictionPolicy
from tritium.ops.ttir.memory import LoadOp as LoadOp
from tritium.ops.ttir.memory import MakeTensorPtrOp as MakeTensorPtrOp
from tritium.ops.ttir.memory import PaddingOption as PaddingOption
from tritium.ops.ttir.memory import StoreOp as StoreOp
from tritium.ops.ttir.memory import Tile as Tile
from tritium.ops.ttir.numeric import ApproxDivFOp as ApproxDivFOp
from tritium.ops.ttir.numeric import BitcastOp as BitcastOp
from tritium.ops.ttir.numeric import ClampFOp as ClampFOp
from tritium.ops.ttir.numeric import FpToFpOp as FpToFpOp
from tritium.ops.ttir.numeric import IntToPtrOp as IntToPtrOp
from tritium.ops.ttir.numeric import MulHiUIOp as MulHiUIOp
from tritium.ops.ttir.numeric import PreciseDivFOp as PreciseDivFOp
from tritium.ops.ttir.numeric import PreciseSqrtOp as PreciseSqrtOp
from tritium.ops.ttir.numeric import PropagateNan as PropagateNan
from tritium.ops.ttir.numeric import PtrToIntOp as PtrToIntOp
from tritium.ops.ttir.numeric import Rounding as Rounding
from tritium.ops.ttir.program import Axis as Axis
from tritium.ops.ttir.program import GetNumProgramsOp as GetNumProgramsOp
from tritium.ops.ttir.program import GetProgramIdOp as GetProgramIdOp
from tritium.ops.ttir.reduction import MapElementwiseOp as MapElementwiseOp
from tritium.ops.ttir.reduction import MapElementwiseReturnOp as MapElementwiseReturnOp
from tritium.ops.ttir.reduction import ReduceOp as ReduceOp
from tritium.ops.ttir.reduction import ReduceReturnOp as ReduceReturnOp
from tritium.ops.ttir.reduction import ScanOp as ScanOp
from tritium.ops.ttir.reduction import ScanReturnOp as ScanReturnOp
from tritium.ops.ttir.shape import BroadcastOp as BroadcastOp
from tritium.ops.ttir.shape import CatOp as CatOp
from tritium.ops.ttir.shape import ExpandDimsOp as ExpandDimsOp
from tritium.ops.ttir.shape import GatherOp as GatherOp
from tritium.ops.ttir.shape import HistogramOp as HistogramOp
from tritium.ops.ttir.shape import JoinOp as JoinOp
from tritium.ops.ttir.shape import MakeRangeOp as MakeRangeOp
from tritium.ops.ttir.shape import ReshapeOp as ReshapeOp
from tritium.ops.ttir.shape import SplatOp as SplatOp
from tritium.ops.ttir.shape import SplitOp as SplitOp
from tritium.ops.ttir.shape import TransOp as TransOp
from tritium.ops.ttir.shape import UnsplatOp as UnsplatOp
from tritium.ops.ttir.sort import SortOp as SortOp

OPS = (
    *atomic.OPS,
    *debug.OPS,
    *descriptor.OPS,
    *dot.OPS,
    *extern.OPS,
    *function.OPS,
    *memory.OPS,
    *numeric.OPS,
    *program.OPS,
    *reduction.OPS,
    *shape.OPS,
    *sort.OPS,
)
ATTRIBUTES = (PointerType, TensorDescType, memory.CachePolicyAttr)
