"""Passes over ttgir, one a file."""

from tritium.passes.base import Pass
from tritium.passes.ttgir.accelerate_matmul import AccelerateMatmul
from tritium.passes.ttgir.assign_layouts import AssignLayouts
from tritium.passes.ttgir.async_dots import AsyncDots
from tritium.passes.ttgir.buffer_accesses import BufferAccesses
from tritium.passes.ttgir.coalesce import Coalesce
from tritium.passes.ttgir.convert_ttir_to_ttgir import ConvertTTIRToTTGIR
from tritium.passes.ttgir.descriptors_to_tma import DescriptorsToTMA
from tritium.passes.ttgir.fuse_nested_loops import FuseNestedLoops, FuseSplitLoops
from tritium.passes.ttgir.match_clusters import MakeOperandsWhole, MatchClusters
from tritium.passes.ttgir.operands.convert_loads import ConvertLoads
from tritium.passes.ttgir.operands.reload_operands import ReloadOperands
from tritium.passes.ttgir.operands.slice_products import SliceProducts
from tritium.passes.ttgir.operands.stage_operands import StageOperands
from tritium.passes.ttgir.order_scans import OrderScans
from tritium.passes.ttgir.pipeline import Pipeline
from tritium.passes.ttgir.resolve_layouts import InferCoalescedEncodings, ResolveAutoEncodings
from tritium.passes.ttgir.split_conversions import SplitConversions
from tritium.passes.ttgir.tensor_cores.double_buffer_sums import DoubleBufferSums
from tritium.passes.ttgir.tensor_cores.hoist_tensor_memory import HoistTensorMemory
from tritium.passes.ttgir.tensor_cores.tensor_products import TensorProducts
from tritium.passes.ttgir.thread_locality import ThreadLocality
from tritium.passes.ttgir.warp_specialize import WarpSpecialize

PASSES: tuple[type[Pass], ...] = (
    AccelerateMatmul, AssignLayouts, AsyncDots, BufferAccesses, Coalesce, ConvertLoads,
    ConvertTTIRToTTGIR, DescriptorsToTMA, DoubleBufferSums, FuseNestedLoops, FuseSplitLoops,
    HoistTensorMemory,
    InferCoalescedEncodings, MakeOperandsWhole, MatchClusters, OrderScans, Pipeline, ReloadOperands,
    ResolveAutoEncodings, SliceProducts, SplitConversions, StageOperands, TensorProducts,
    ThreadLocality, WarpSpecialize,
)  # fmt: skip
