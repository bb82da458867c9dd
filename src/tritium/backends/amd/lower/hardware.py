"""AMD GPUs as code generation sees them (`codegen.gpu.hardware`)."""

from __future__ import annotations

import re
from typing import Any

from tritium import knobs
from tritium.backends.amd.amdgcn import PLAIN, TRIPLE, assembler, data_layout
from tritium.backends.amd.lower.buffers import BufferAccess
from tritium.backends.amd.lower.conversions import AMDConversions, formats_of
from tritium.backends.amd.lower.functions import AMDFunctions
from tritium.backends.amd.lower.matmul import MatrixProducts
from tritium.backends.amd.lower.memory import AsyncToLDS, GlobalAccess, GlobalAtomics, LocalMemory
from tritium.backends.amd.matrix import matrix_cores
from tritium.backends.amd.processor import check_cluster, processor
from tritium.codegen.gpu.emitter import Emitter, bits_of
from tritium.codegen.gpu.hardware import Assembly, Barriers, NoAsyncCopies
from tritium.codegen.gpu.memory.descriptors import WithoutMaps
from tritium.codegen.gpu.memory.records import Records
from tritium.codegen.gpu.memory.turned import TurnedReads
from tritium.codegen.llvm.writer import Function, Module, Value, const
from tritium.native.llvm_tools import NO_ASSEMBLER

_CODE_OBJECT_VERSION = 500
_NEAREST_ONLY = frozenset(
    (operation, type) for operation, types in (
        ("fdiv", ("float", "double")), ("sqrt", ("float", "double")), ("sitofp", ("i64",)),
        ("uitofp", ("i64",)),
    ) for type in types
)  # fmt: skip
"""Functions of several instructions, for which LLVM does not know the rounding mode."""
LDS_DONE = 0xC07F
"""The operand of `s_waitcnt` that waits, on gfx9, for accesses of LDS alone."""
_LDS_ALONE = '!{!"amdgpu-synchronize-as", !"local"}'
"""The tag of fences for which LLVM waits for accesses to LDS, not for loads from global memory."""
_INPUTS = (
    "dispatch-id", "dispatch-ptr", "implicitarg-ptr", "lds-kernel-id", "queue-ptr",
    "workgroup-id-y", "workgroup-id-z", "workitem-id-y", "workitem-id-z",
)  # fmt: skip
"""Inputs that hardware or runtime give a kernel that asks by the intrinsic of the same name."""
_NEVER_USED = (
    "cluster-id-x", "cluster-id-y", "cluster-id-z", "completion-action", "default-queue",
    "flat-scratch-init", "heap-ptr", "hostcall-ptr", "multigrid-sync-arg",
)  # fmt: skip
_ASSEMBLY = Assembly(
    "AMD's assembly", re.compile(r"=?&?([vsar]|\{[vsa](\d+|\[\d+:\d+\])\})"),
    "letters of registers are v (of a lane), s (scalar), a (accumulation) and r (any)",
    lambda: "" if assembler() else NO_ASSEMBLER,
)  # fmt: skip
_OF_CLUSTER = -3
"""The number of the barrier of a cluster."""


class Grid:
    """Workitems and workgroups. The numbers of workgroups are the first implicit arguments. The
    workgroups of a cluster are neighbours along the first axis."""

    def thread(self, f: Function, threads: int) -> Value:
        return f.call("i32", "llvm.amdgcn.workitem.id.x")

    def block_in_cluster(self, e: Emitter) -> Value:
        return e.f.call("i32", "llvm.amdgcn.cluster.workgroup.id.x")

    def program_id(self, e: Emitter, axis: int, *, blocks: bool = False) -> Value:
        number = e.f.call("i32", f"llvm.amdgcn.workgroup.id.{'xyz'[axis]}")
        return number if blocks or axis else self._programs(e, number)

    @staticmethod
    def _programs(e: Emitter, workgroups: Value) -> Value:
        """The number of programs that `workgroups` run: clusters, where kernels have them."""
        if e.num_ctas == 1:
            return workgroups
        return e.f.op("lshr", workgroups, e.i32(e.num_ctas.bit_length() - 1))

    def num_programs(self, e: Emitter, axis: int, *, blocks: bool = False) -> Value:
        start = e.f.call("ptr addrspace(4)", "llvm.amdgcn.implicitarg.ptr")
        place = e.byte_offset(start, e.i32(4 * axis))
        count = e.f.load("i32", place, 4, f", !invariant.load {e.f.module.add_metadata('!{}')}")
        return count if blocks or axis else self._programs(e, count)


class WaveShuffles:
    """DPP within rows of 16 lanes. Between two rows `v_permlanex16` (gfx11, gfx12), the exchanges
    of rows and halves of gfx950, or `ds_swizzle`. Else `ds_bpermute`."""

    def __init__(self, arch: str):
        self._gfx9, self._swaps = arch.startswith("gfx9"), arch == "gfx950"

    def xor(self, e: Emitter, word: Value, mask: int, alike: int) -> Value:
        control = self._row_control(mask, alike)
        if control is not None:
            numbers = [e.i32(control), e.i32(15), e.i32(15), const("i1", 1)]
            return _moved(e, "update.dpp.i32", Value("i32", "poison"), word, *numbers)
        if mask < 32 and not self._gfx9:
            return _from_other_row(e, word, mask & 15)
        if self._swaps and mask in (16, 32):
            return _from_swapped(e, word, mask)
        if mask < 32:
            return _moved(e, "ds.swizzle", word, e.i32(mask << 10 | 0x1F))
        return self.index(e, word, e.f.op("xor", e.lane, e.i32(mask)))

    def _row_control(self, mask: int, alike: int) -> int | None:
        """DPP's control for lanes whose numbers differ in the mask; None where it has none."""
        if mask < 4:
            return sum((lane ^ mask) << 2 * lane for lane in range(4))
        if not self._gfx9:
            return 0x160 | mask if mask < 16 else None
        if mask == 4 and alike & 8:
            return _ROTATE_BY_4
        return {7: 0x141, 8: 0x128, 15: 0x140}.get(mask)

    def index(self, e: Emitter, word: Value, lane: Value) -> Value:
        return _moved(e, "ds.bpermute", e.f.op("shl", lane, e.i32(2)), word)


_ROTATE_BY_4 = 0x124
"""DPP's control for rotated rows: a lane's number changes in bit 2, and perhaps in bit 3."""


def _from_other_row(e: Emitter, word: Value, mask: int) -> Value:
    """The word of the lane in the other row of 16 whose number differs in the mask there:
    `v_permlanex16`, which has four bits with the number for each lane."""
    chosen = [sum((lane ^ mask) << 4 * i for i, lane in enumerate(half))
              for half in (range(8), range(8, 16))]  # fmt: skip
    which = [e.i32(n - (n >> 31 << 32)) for n in chosen]
    no = const("i1", 0)
    return _moved(e, "permlanex16.i32", Value("i32", "poison"), word, *which, no, no)


def _from_swapped(e: Emitter, word: Value, mask: int) -> Value:
    """The word of the lane whose number differs in 16 or in 32: `v_permlane16_swap` exchanges odd
    rows of a register for even rows of another, `v_permlane32_swap` the upper half for the lower.
    With the same word in both, the first has that of the lower lane everywhere, the second that of
    the upper one."""
    no = const("i1", 0)
    name = f"llvm.amdgcn.permlane{mask}.swap"
    both = e.call_together("{ i32, i32 }", name, word, word, no, no)
    lower, upper = e.members(both, ["i32", "i32"])
    odd = e.f.icmp("ne", e.f.op("and", e.lane, e.i32(mask)), e.i32(0))
    return e.f.select(odd, lower, upper)


def _moved(e: Emitter, name: str, *arguments: Value) -> Value:
    """A word that an intrinsic moves between lanes."""
    return e.call_together("i32", f"llvm.amdgcn.{name}", *arguments)


def wait_for_waves(e: Emitter) -> None:
    """`s_barrier` alone, which orders no accesses."""
    e.call_together("void", "llvm.amdgcn.s.barrier")


class WorkgroupBarriers(Barriers):
    """`s_barrier`, between fences of the workgroup. For these LLVM waits for all copies to LDS, so
    that fences of one thread, and a wait for its accesses of LDS alone, stand in their places where
    there are copies."""

    def __init__(self, buffers: BufferAccess):
        self._buffers = buffers

    def block(self, e: Emitter, proxy: bool, everything: bool) -> None:
        apart = self._buffers.copies and not everything
        scope = "singlethread" if apart else "workgroup"
        spaces = "" if everything else f", !mmra {e.f.module.add_metadata(_LDS_ALONE)}"
        e.f.line(f'fence syncscope("{scope}") release{spaces}')
        if apart:
            e.f.call("void", "llvm.amdgcn.s.waitcnt", e.i32(LDS_DONE))
        wait_for_waves(e)
        e.f.line(f'fence syncscope("{scope}") acquire{spaces}')

    def cluster(self, e: Emitter, *, relaxed: bool = False) -> None:
        self.arrive_in_cluster(e)
        self.wait_for_cluster(e)

    def arrive_in_cluster(self, e: Emitter) -> None:
        """Arrive at the cluster's barrier by one wave, once all of the workgroup are here."""
        self.block(e, proxy=False, everything=True)
        e.f.line('fence syncscope("cluster") release')
        with e.f.when(e.f.icmp("eq", e.warp, e.i32(0)), "arrive", "arrived"):
            e.call_together("void", "llvm.amdgcn.s.barrier.signal", e.i32(_OF_CLUSTER))

    def wait_for_cluster(self, e: Emitter) -> None:
        """Each wave waits for itself."""
        e.call_together("void", "llvm.amdgcn.s.barrier.wait", const("i16", _OF_CLUSTER))
        e.f.line('fence syncscope("cluster") acquire')


class AMDGPU(WithoutMaps):
    """A processor by LLVM's name: gfx942."""

    name = "amd"
    title = "AMD"
    triple = TRIPLE
    kernel_linkage = "amdgpu_kernel"
    function_attributes = "convergent nounwind"
    descriptor_attributes = ""
    assembly = _ASSEMBLY
    computes_again = True
    carries_words = True
    reserved_names = re.compile(r"_|llvm\..*|__.*|.*\$")

    def __init__(self, arch: str):
        self.arch, facts, buffers = arch, processor(arch), BufferAccess(arch)
        self._attributes = ""
        self.data_layout = data_layout(arch)
        self.lanes, self.banks, self.max_shared = facts.lanes, facts.banks, facts.max_shared
        self.grid, self.barriers = Grid(), WorkgroupBarriers(buffers)
        turned = "amdgcn.ds.read.tr16.b64" if arch == "gfx950" else ""
        self.memory, self.shared = GlobalAccess(), LocalMemory(buffers)
        self.shuffles, self.matrices = WaveShuffles(arch), TurnedReads(turned, self.shared)
        self.async_copies = AsyncToLDS() if arch == "gfx1250" else NoAsyncCopies()
        self.atomics = GlobalAtomics(facts)
        self.buffers, self.conversions = buffers, AMDConversions(arch)
        self.host = self.records = Records("llvm.amdgcn.endpgm")
        self.functions = AMDFunctions()
        self.pairs, self.descriptors_in_registers = frozenset({"half", "i16"}), facts.barriers
        self.pairs |= {"float"} if arch.startswith(("gfx9", "gfx1250")) else set()

    def check_cluster(self, num_ctas: int) -> None:
        check_cluster(num_ctas, self.arch)

    def prepare(self, module: Module, options: Any) -> None:
        wanted = bool(knobs.amd.use_block_pingpong) and options.num_stages > 1
        self.products = MatrixProducts(matrix_cores(self.arch), pingpong=wanted)
        module.nearest_only = _NEAREST_ONLY
        module.outlined = "alwaysinline"  # a call saves registers in scratch memory
        version = f'!{{i32 1, !"amdhsa_code_object_version", i32 {_CODE_OBJECT_VERSION}}}'
        module.named_metadata["llvm.module.flags"] = [module.add_metadata(version)]

    def kernel_attributes(
        self, num_warps: int, num_ctas: int, options: Any, registers: int | None
    ) -> str:
        threads, waves = self.lanes * num_warps, options.waves_per_eu
        mode = "preserve-sign" if options.allow_flush_denorm else "ieee"
        found = {
            "amdgpu-flat-work-group-size": f"{threads},{threads}",
            "uniform-work-group-size": "true", "denormal-fp-math-f32": f"{mode},{mode}",
        }  # fmt: skip
        if processor(self.arch).cluster > 1:
            found["amdgpu-cluster-dims"] = f"{num_ctas},1,1"
        if waves:
            found["amdgpu-waves-per-eu"] = f"{waves},{waves}"
        if "memory-bound-attention" in options.hints:
            found["amdgpu-sched-strategy"] = "iterative-ilp"
        found |= dict(options.llvm_fn_attrs)
        named = [f'"{name}"="{value}"' if value else f'"{name}"' for name, value in found.items()]
        self._attributes = " ".join([self.function_attributes, *named])
        return self._attributes

    def handed_on(self, e: Emitter, value: Value, iteration: Value | None = None) -> Value:
        if iteration is None:
            return e.asm("i32", "", "=v,0", value, effects=False)
        number = iteration
        if (bits := bits_of(number.type)) != 32:
            number = e.f.cast("zext" if bits < 32 else "trunc", number, "i32")
        uniform = e.f.call("i32", "llvm.amdgcn.readfirstlane.i32", number)
        return e.asm("i32", "", "=v,0,s", value, uniform, effects=False)

    def cast_together(self, source: str, target: str) -> int:
        """Two of an 8-bit format that integer arithmetic widens; four where bytes are moved."""
        by_integers = source.startswith("fp8") and source not in formats_of(self.arch)
        if not by_integers or target != "fp16":
            return 1
        return 4 if source == "fp8e5" else 2

    def finish(self, module: Module) -> None:
        """State what a kernel that calls no other function does without: LLVM's pipeline finds it
        out by a pass of its own. Without accumulation registers the matrix instructions of gfx9
        use plain ones, so that sums need not be copied."""
        if len(module.functions) > 1 or processor(self.arch).cluster > 1:
            return
        absent = [
            f'"amdgpu-no-{name}"' for name in (*_INPUTS, *_NEVER_USED)
            if f"llvm.amdgcn.{name.replace('-', '.')}" not in module.declarations
        ]  # fmt: skip
        stated = " ".join([PLAIN, '"amdgpu-agpr-alloc"="0"', *absent])
        groups = module.attribute_groups
        groups[f"{stated} {self._attributes}"] = groups.pop(self._attributes)
