"""NVIDIA GPUs as code generation sees them (`codegen.gpu.hardware`)."""

from __future__ import annotations

import re
from typing import Any

from tritium.backends.nvidia.lower.async_copies import CpAsync
from tritium.backends.nvidia.lower.atomics import PtxAtomics
from tritium.backends.nvidia.lower.conversions import Cvt
from tritium.backends.nvidia.lower.host import CudaHost
from tritium.backends.nvidia.lower.ldmatrix import WarpMatrices
from tritium.backends.nvidia.lower.memory import PtxGlobalMemory, PtxSharedMemory
from tritium.backends.nvidia.options import check_cluster
from tritium.backends.nvidia.processor import processor
from tritium.backends.nvidia.ptx import DATA_LAYOUT, TRIPLE
from tritium.codegen.gpu.emitter import Emitter
from tritium.codegen.gpu.hardware import Hardware
from tritium.codegen.llvm.writer import Function, Module, Value
from tritium.ir.tensor_maps import BYTES

NVIDIA = "nvidia"
"""The table of the lowering rules for NVIDIA GPUs alone."""
ELEMENTWISE = "nvidia.elementwise"


class CudaGrid:
    """Special registers."""

    def thread(self, f: Function) -> Value:
        return f.call("i32", "llvm.nvvm.read.ptx.sreg.tid.x")

    def block_in_cluster(self, e: Emitter) -> Value:
        return e.f.call("i32", "llvm.nvvm.read.ptx.sreg.cluster.ctarank")

    def program_id(self, e: Emitter, axis: int, *, blocks: bool = False) -> Value:
        unit = "ctaid" if blocks or e.num_ctas == 1 else "clusterid"
        return e.f.call("i32", f"llvm.nvvm.read.ptx.sreg.{unit}.{'xyz'[axis]}")

    def num_programs(self, e: Emitter, axis: int, *, blocks: bool = False) -> Value:
        unit = "nctaid" if blocks or e.num_ctas == 1 else "nclusterid"
        return e.f.call("i32", f"llvm.nvvm.read.ptx.sreg.{unit}.{'xyz'[axis]}")


class CudaBarriers:
    """`bar.sync`, and the barrier of a cluster."""

    def block(self, e: Emitter, proxy: bool) -> None:
        if proxy:
            e.asm("void", "fence.proxy.async.shared::cta;", "~{memory}")
        e.f.module.declare("llvm.nvvm.barrier.cta.sync.aligned.all", "void", ["i32"])
        e.f.line(f"call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0) {e.convergent}")

    def cluster(self, e: Emitter) -> None:
        text = "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;"
        e.asm("void", text, "~{memory}")


class Shfl:
    """`shfl.sync`."""

    def xor(self, e: Emitter, word: Value, mask: int) -> Value:
        return shfl(e, "bfly", word, e.i32(mask))

    def index(self, e: Emitter, word: Value, lane: Value) -> Value:
        return shfl(e, "idx", word, lane)


def shfl(e: Emitter, kind: str, word: Value, which: Value) -> Value:
    """One instruction over all lanes."""
    name = f"llvm.nvvm.shfl.sync.{kind}.i32"
    e.f.module.declare(name, "i32", ["i32"] * 4)
    return e.f.emit("i32", f"call i32 @{name}(i32 -1, {word}, {which}, i32 31) {e.convergent}")


class Nvidia(Hardware):
    """A GPU of a compute capability: 90 for sm_90."""

    name = NVIDIA
    title = "NVIDIA"
    triple = TRIPLE
    data_layout = DATA_LAYOUT
    kernel_linkage = "ptx_kernel"
    function_attributes = 'convergent nounwind "denormal-fp-math-f32"="ieee"'
    descriptor_attributes = f'byval([{BYTES} x i8]) align 64 "nvvm.grid_constant"'

    reserved_names = re.compile(
        r"_|WARP_SZ|vprintf|malloc|free|__assertfail|__nv_.*|__nvvm.*|__cuda.*|.*\$"
    )
    """Names that PTX, libdevice or the driver's functions have; those of our own globals end in
    `$`."""

    def __init__(self, arch: int):
        self.arch, facts = arch, processor(arch)
        self.lanes, self.banks, self.max_shared = facts.lanes, facts.banks, facts.max_shared
        self.grid, self.barriers, self.shuffles = CudaGrid(), CudaBarriers(), Shfl()
        self.memory, self.shared = PtxGlobalMemory(), PtxSharedMemory()
        self.matrices = WarpMatrices(stores=arch >= 90)
        self.async_copies, self.atomics = CpAsync(), PtxAtomics(arch)
        self.conversions, self.host = Cvt(arch), CudaHost()

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


def arch_of(hardware: Hardware) -> int:
    """The compute capability of the hardware that an NVIDIA rule is used with."""
    assert isinstance(hardware, Nvidia)
    return hardware.arch
