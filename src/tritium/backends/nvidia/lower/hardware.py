"""NVIDIA GPUs as code generation sees them (`codegen.gpu.hardware`)."""

from __future__ import annotations

from typing import Any

from tritium.backends.nvidia.lower.ldmatrix import WarpMatrices
from tritium.backends.nvidia.options import check_cluster
from tritium.backends.nvidia.ptx import DATA_LAYOUT, TRIPLE
from tritium.codegen.gpu.emitter import Emitter
from tritium.codegen.gpu.hardware import Hardware
from tritium.codegen.llvm.writer import Function, Module, Value
from tritium.ir.tensor_maps import BYTES

NVIDIA = "nvidia"
"""The table of the lowering rules for NVIDIA GPUs alone."""
ELEMENTWISE = "nvidia.elementwise"


class Nvidia(Hardware):
    """A GPU of a compute capability: 90 for sm_90."""

    name = NVIDIA
    title = "NVIDIA"
    triple = TRIPLE
    data_layout = DATA_LAYOUT
    lanes = 32
    kernel_linkage = "ptx_kernel"
    function_attributes = 'convergent nounwind "denormal-fp-math-f32"="ieee"'
    descriptor_attributes = f'byval([{BYTES} x i8]) align 64 "nvvm.grid_constant"'

    def __init__(self, arch: int):
        self.arch = arch
        self.matrices = WarpMatrices(stores=arch >= 90)
        small = arch in (86, 89) or arch >= 120
        self.max_shared = 1024 * (99 if small else 163 if arch < 90 else 227)
        """The most bytes of shared memory that a block may have."""

    def check_cluster(self, num_ctas: int) -> None:
        check_cluster(num_ctas, self.arch)

    def prepare(self, module: Module, options: Any) -> None:
        if options.enable_reflect_ftz:
            flag = module.add_metadata('!{i32 4, !"nvvm-reflect-ftz", i32 1}')
            module.named_metadata["llvm.module.flags"] = [flag]

    def kernel_attributes(self, num_warps: int, num_ctas: int, options: Any) -> str:
        parts = [self.function_attributes, f'"nvvm.reqntid"="{self.lanes * num_warps},1,1"']
        if num_ctas > 1:
            parts.append(f'"nvvm.cluster_dim"="{num_ctas},1,1"')
        if options.maxnreg is not None:
            parts.append(f'"nvvm.maxnreg"="{options.maxnreg}"')
        return " ".join(parts)

    def thread_in_block(self, f: Function) -> Value:
        return f.call("i32", "llvm.nvvm.read.ptx.sreg.tid.x")

    def block_in_cluster(self, e: Emitter) -> Value:
        return e.f.call("i32", "llvm.nvvm.read.ptx.sreg.cluster.ctarank")

    def program_id(self, e: Emitter, axis: int, *, blocks: bool = False) -> Value:
        unit = "ctaid" if blocks or e.num_ctas == 1 else "clusterid"
        return e.f.call("i32", f"llvm.nvvm.read.ptx.sreg.{unit}.{'xyz'[axis]}")

    def num_programs(self, e: Emitter, axis: int, *, blocks: bool = False) -> Value:
        unit = "nctaid" if blocks or e.num_ctas == 1 else "nclusterid"
        return e.f.call("i32", f"llvm.nvvm.read.ptx.sreg.{unit}.{'xyz'[axis]}")

    def block_barrier(self, e: Emitter, proxy: bool) -> None:
        if proxy:
            e.asm("void", "fence.proxy.async.shared::cta;", "~{memory}")
        e.f.module.declare("llvm.nvvm.barrier.cta.sync.aligned.all", "void", ["i32"])
        e.f.line(f"call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0) {e.convergent}")

    def cluster_barrier(self, e: Emitter) -> None:
        text = "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;"
        e.asm("void", text, "~{memory}")

    def address_in_block(self, e: Emitter, address: Value, block: Value) -> Value:
        text = "mapa.shared::cluster.u32 $0, $1, $2;"
        return e.asm("i32", text, "=r,r,r", address, block, effects=False)
