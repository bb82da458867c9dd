"""NVIDIA GPUs as code generation sees them (`codegen.gpu.hardware`)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from tritium.backends.nvidia.lower.async_copies import CpAsync
from tritium.backends.nvidia.lower.atomics import PtxAtomics
from tritium.backends.nvidia.lower.conversions import Cvt
from tritium.backends.nvidia.lower.functions import CudaFunctions
from tritium.backends.nvidia.lower.host import CudaHost
from tritium.backends.nvidia.lower.ldmatrix import WarpMatrices
from tritium.backends.nvidia.lower.memory import PtxGlobalMemory, PtxSharedMemory
from tritium.backends.nvidia.lower.mma import MmaSync
from tritium.backends.nvidia.options import check_cluster
from tritium.backends.nvidia.processor import processor
from tritium.backends.nvidia.ptx import DATA_LAYOUT, TRIPLE
from tritium.codegen.gpu.emitter import Emitter
from tritium.codegen.gpu.hardware import OWN, Assembly, Hardware, meeting
from tritium.codegen.gpu.partitions import GROUP, Plan, Registers
from tritium.codegen.llvm.writer import Function, Module, Value
from tritium.codegen.registry import Rule, rules
from tritium.ir.source_errors import error_at
from tritium.ir.tensor_maps import BYTES
from tritium.ops.base import Op

NVIDIA = "nvidia"
"""The table of the lowering rules for NVIDIA GPUs alone."""
REGISTERS = 1 << 16
"""The registers of a multiprocessor."""
LEAST_REGISTERS, MOST_REGISTERS = 24, 256
"""The least and the most registers of a thread whose number of registers changes."""
MOST_BLOCKS, MOST_BLOCKS_ACROSS = 2**31 - 1, 2**16 - 1
"""The most thread blocks of a grid along its first axis, and along its second and third."""
RESERVED = 1024
"""Bytes of shared memory that each block takes beside its own."""
_PTX = Assembly(
    "PTX", re.compile(r"=?&?[bchrlqfd]"),
    "letters of registers are b (predicate), h (16 bits), r (32), l (64), q (128), f (float) and d "
    "(double)",
)  # fmt: skip


def lacks(why: str) -> Rule:
    """The rule of an op whose instruction the processor lacks."""

    def rule(c: Any, op: Any) -> None:
        raise c.unsupported(op, why)

    return rule


class CudaGrid:
    """Special registers, with the ranges that a pass of LLVM's whole pipeline would state."""

    def thread(self, f: Function, threads: int) -> Value:
        return f.call("i32", "llvm.nvvm.read.ptx.sreg.tid.x", flags=f"range(i32 0, {threads})")

    def block_in_cluster(self, e: Emitter) -> Value:
        return e.f.call("i32", "llvm.nvvm.read.ptx.sreg.cluster.ctarank")

    def program_id(self, e: Emitter, axis: int, *, blocks: bool = False) -> Value:
        unit = "ctaid" if blocks or e.num_ctas == 1 else "clusterid"
        return self._of_grid(e, unit, axis, 0)

    def num_programs(self, e: Emitter, axis: int, *, blocks: bool = False) -> Value:
        unit = "nctaid" if blocks or e.num_ctas == 1 else "nclusterid"
        return self._of_grid(e, unit, axis, 1)

    @staticmethod
    def _of_grid(e: Emitter, unit: str, axis: int, least: int) -> Value:
        """A register of an axis of the grid; the numbers of blocks are 1 or more."""
        end = (MOST_BLOCKS if axis == 0 else MOST_BLOCKS_ACROSS) + least
        name = f"llvm.nvvm.read.ptx.sreg.{unit}.{'xyz'[axis]}"
        return e.f.call("i32", name, flags=f"range(i32 {least}, {end})")


class CudaBarriers:
    """`bar.sync`, and the barrier of a cluster."""

    def block(self, e: Emitter, proxy: bool, everything: bool) -> None:
        if proxy:
            e.asm("void", "fence.proxy.async.shared::cta;", "~{memory}")
        if e.barrier_number is not None and e.num_warps == 1:
            e.asm("void", "bar.warp.sync 0xffffffff;", "~{memory}")
            return
        if e.barrier_number is not None:
            self.named(e, e.barrier_number, e.num_warps)
            return
        e.call_together("void", "llvm.nvvm.barrier.cta.sync.aligned.all", e.i32(0))

    def named(self, e: Emitter, number: int, warps: int) -> None:
        name, threads = "llvm.nvvm.barrier.cta.sync.aligned.count", warps << e.lane_bits
        e.call_together("void", name, e.i32(number), e.i32(threads))

    def cluster(self, e: Emitter, *, relaxed: bool = False) -> None:
        text = "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;"
        if relaxed:
            text = "barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;"
        e.asm("void", text, "~{memory}")

    def prepare_clusters(self, e: Emitter, places: Sequence[Value]) -> None:
        first = e.f.icmp("eq", e.thread, e.i32(0))
        text = f"@$1 mbarrier.init.shared::cta.b64 [$0], {e.num_ctas};"
        for place in places:
            e.asm("void", text, "r,b,~{memory}", e.address(place), first)
        e.asm("void", "fence.mbarrier_init.release.cluster;", "~{memory}")

    def cluster_at(self, e: Emitter, place: Value) -> None:
        """The first thread arrives in the order of `meeting`, and waits in its own block."""
        self.block(e, proxy=False, everything=True)
        arrivals = "".join(map(_arrival, meeting(e.num_ctas)))
        text = (
            f"{{ .reg .pred P; .reg .b32 there; .reg .b64 state; @!$2 bra DONE; {arrivals}"
            "AGAIN: mbarrier.try_wait.acquire.cluster.shared::cta.b64 P, [$0], state; "
            "@P bra DONE; bra AGAIN; DONE: bar.warp.sync 0xffffffff; }"
        )
        first = e.f.icmp("eq", e.thread, e.i32(0))
        e.asm("void", text, "r,r,b,~{memory}", e.address(place), e.block, first)
        self.block(e, proxy=False, everything=True)


def _arrival(block: int) -> str:
    """PTX of a step of `meeting`."""
    if block == OWN:
        return "mbarrier.arrive.release.cluster.shared::cta.b64 state, [$0]; "
    return (
        f"mapa.shared::cluster.u32 there, $0, {block}; setp.ne.u32 P, $1, {block}; "
        "@P mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there]; "
    )


class Shfl:
    """`shfl.sync`."""

    def xor(self, e: Emitter, word: Value, mask: int, alike: int) -> Value:
        return shfl(e, "bfly", word, e.i32(mask))

    def index(self, e: Emitter, word: Value, lane: Value) -> Value:
        return shfl(e, "idx", word, lane)


def shfl(e: Emitter, kind: str, word: Value, which: Value) -> Value:
    """One instruction over all lanes."""
    name = f"llvm.nvvm.shfl.sync.{kind}.i32"
    return e.call_together("i32", name, e.i32(-1), word, which, e.i32(31))


class Nvidia(Hardware):
    """A GPU of a compute capability: 90 for sm_90."""

    name = NVIDIA
    title = "NVIDIA"
    triple = TRIPLE
    data_layout = DATA_LAYOUT
    kernel_linkage = "ptx_kernel"
    function_attributes = 'convergent nounwind "denormal-fp-math-f32"="ieee"'
    descriptor_attributes = f'byval([{BYTES} x i8]) align 64 "nvvm.grid_constant"'
    assembly = _PTX

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
        self.functions, self.products = CudaFunctions(), MmaSync(arch)

    @cached_property
    def rules(self) -> dict[type[Op], Rule]:
        own = {op: why for op in rules(NVIDIA) if (why := op.lacking(self.arch))}
        return {**super().rules, **{op: lacks(why) for op, why in own.items()}}

    def check_cluster(self, num_ctas: int) -> None:
        check_cluster(num_ctas, self.arch)

    def prepare(self, module: Module, options: Any) -> None:
        self.functions = CudaFunctions(options.enable_reflect_ftz)
        if options.enable_reflect_ftz:
            flag = module.add_metadata('!{i32 4, !"nvvm-reflect-ftz", i32 1}')
            module.named_metadata["llvm.module.flags"] = [flag]

    def partition_registers(self, plan: Plan, shared: int, options: Any) -> Registers | None:
        """The launch takes as many as fit into the processor, for one block or, of few warps that
        leave room in shared memory, for two; workers give back what they do not need."""
        wanted = plan.group_registers()
        if not wanted or self.arch < 90:
            return None
        blocks = 2 if plan.total <= 8 and 2 * (shared + RESERVED) <= self.max_shared else 1
        threads = self.lanes * plan.total
        launch = options.maxnreg or REGISTERS // (threads * blocks)
        if launch >= MOST_REGISTERS:
            return None
        launch = launch // 8 * 8
        used = self.lanes * GROUP * sum(wanted.values())
        default = (launch * threads - used) // (self.lanes * plan.num_warps) // 8 * 8
        if default < LEAST_REGISTERS:
            raise error_at(plan.ops[0].location, (
                f"ttg.warp_specialize: partitions ask for {used} registers of the "
                f"{launch * threads} of a block; {default} a thread are left for the other "
                f"{plan.num_warps} warps, at least {LEAST_REGISTERS} are needed"
            ))  # fmt: skip
        return Registers(launch, min(default, MOST_REGISTERS - 8))

    def prefetch_maps(self, e: Emitter, maps: Sequence[Value]) -> None:
        first = e.f.icmp("eq", e.thread, e.i32(0))
        for place in maps if self.arch >= 90 else ():  # others have no copy engine
            e.asm("void", "@$1 prefetch.tensormap [$0];", "l,b,~{memory}", place, first)

    def set_registers(self, e: Emitter, count: int, before: int) -> None:
        if count != before:
            name = f"llvm.nvvm.setmaxnreg.{'inc' if count > before else 'dec'}.sync.aligned.u32"
            e.f.module.declare(name, "void", ["i32"])
            e.f.line(f"call void @{name}(i32 {count}) {e.convergent}")

    def kernel_attributes(
        self, num_warps: int, num_ctas: int, options: Any, registers: int | None
    ) -> str:
        parts = [self.function_attributes, f'"nvvm.reqntid"="{self.lanes * num_warps},1,1"']
        if num_ctas > 1:
            parts.append(f'"nvvm.cluster_dim"="{num_ctas},1,1"')
        most = options.maxnreg if registers is None else registers
        if most is not None:
            parts.append(f'"nvvm.maxnreg"="{most}"')
        return " ".join(parts)
