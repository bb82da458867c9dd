"""From a ttgir module to LLVM IR text for NVPTX."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import IntegerAttr

from tritium.analysis.axis_info import AxisAnalysis
from tritium.backends.nvidia.lower import atomic, rules
from tritium.backends.nvidia.lower.allocation import allocate
from tritium.backends.nvidia.lower.barriers import Barriers
from tritium.backends.nvidia.lower.context import Context
from tritium.backends.nvidia.lower.control import lower_function
from tritium.backends.nvidia.lower.demand import Demand
from tritium.backends.nvidia.lower.descriptors import describe
from tritium.backends.nvidia.lower.reduce import scratch_bytes
from tritium.backends.nvidia.lower.shared import conversion_bytes
from tritium.backends.nvidia.lower.types import GLOBAL, value_type
from tritium.backends.nvidia.ptx import DATA_LAYOUT, TRIPLE
from tritium.backends.nvidia.tensormap import BYTES
from tritium.ir import types as ir
from tritium.lowering.llvm import Function, Module, Value
from tritium.ops import ttir

NVIDIA = "nvidia"


def lower_to_llvm(module: Any, arch: int, options: Any) -> tuple[str, dict[str, Any]]:
    """LLVM IR for a ttgir module with one public function, the kernel.

    Returns the text, and facts for the metadata: `shared` (bytes), `num_warps`,
    `global_scratch_size` and the like. Raises `NotImplementedError` naming what is not built.
    """
    rules.check(NVIDIA)
    functions = [op for op in module.body.block.ops if isinstance(op, ttir.FuncOp)]
    kernels = [f for f in functions if f.sym_visibility != "private"]
    if len(kernels) != 1:
        raise NotImplementedError(f"a module of {len(kernels)} kernels; one is expected")
    num_warps = _number(module, "ttg.num-warps", options.num_warps)
    if _number(module, "ttg.num-ctas", 1) != 1:
        raise NotImplementedError("the NVIDIA backend does not build clusters (num_ctas > 1)")
    out = Module(TRIPLE, DATA_LAYOUT)
    shared = _kernel(out, kernels[0], arch, num_warps, options)
    facts = {
        "kernel_signature": [_signature(a.type) for a in kernels[0].body.args],
        "tensordesc_meta": [
            describe(a.type) for a in kernels[0].body.args if isinstance(a.type, ir.TensorDescType)
        ],
        "shared": shared, "num_warps": num_warps, "tmem_size": 0,
        "global_scratch_size": 0, "global_scratch_align": 1,
        "profile_scratch_size": 0, "profile_scratch_align": 1,
    }  # fmt: skip
    return out.text(), facts


def _signature(type: Any) -> str:
    """What the launcher calls a parameter's type: `*` for pointers, `i32`, `f32`."""
    if isinstance(type, ir.TensorDescType):
        return "tensordesc"
    return "*" if isinstance(type, ir.PointerType) else str(type)


def _number(module: Any, name: str, default: int) -> int:
    found = module.attributes.get(name)
    return found.value.data if isinstance(found, IntegerAttr) else default


def _scratch(op: Any) -> int:
    """Shared memory that an op needs for itself."""
    if op.name == "tt.reduce":
        return scratch_bytes(op)
    if op.name == "ttg.convert_layout":
        return conversion_bytes(op)
    if op.name in ("tt.atomic_rmw", "tt.atomic_cas"):
        return atomic.scratch_bytes(op)
    return 0


def _attributes(num_warps: int, options: Any) -> str:
    parts = [
        'convergent nounwind "denormal-fp-math-f32"="ieee"',
        f'"nvvm.reqntid"="{32 * num_warps},1,1"',
    ]
    if options.maxnreg is not None:
        parts.append(f'"nvvm.maxnreg"="{options.maxnreg}"')
    return " ".join(parts)


def _kernel(out: Module, op: Any, arch: int, num_warps: int, options: Any) -> int:
    arguments: list[tuple[str, str, str]] = []
    for number, argument in enumerate(op.body.args):
        type: Any = argument.type
        if isinstance(type, ir.TensorDescType):
            kind, attributes = (
                "ptr", f'byval([{BYTES} x i8]) align 64 "nvvm.grid_constant"'
            )  # fmt: skip
        else:
            kind = value_type(type)
            attributes = "align 16" if kind == GLOBAL and _divisible(op, number) else ""
        arguments.append((kind, f"arg{number}", attributes))
    f = Function(
        out, op.sym_name, arguments, linkage="ptx_kernel",
        attributes=_attributes(num_warps, options),
    )  # fmt: skip
    blocks = list(op.regions[0].blocks)
    allocation = allocate(blocks, _scratch)
    if allocation.size:
        out.globals["smem"] = "external addrspace(3) global [0 x i8], align 1024"
    context = _context(f, op, arch, num_warps, options, allocation)
    context.barriers = Barriers(allocation).find(blocks)
    context.demand = Demand(context.axis_info).find(blocks).of
    for argument, value in zip(op.body.args, f.arguments, strict=False):
        context.set(argument, value)
    lower_function(context, blocks)
    return allocation.size


def _divisible(op: Any, number: int) -> bool:
    attributes: Any = op.arg_attrs[number] if op.arg_attrs else {}
    found: Any = attributes.get("tt.divisibility")
    return isinstance(found, IntegerAttr) and found.value.data % 16 == 0


def _context(
    f: Function, op: Any, arch: int, num_warps: int, options: Any, allocation: Any
) -> Context:
    entry = f.section()
    lines = f.enter(entry)
    thread = f.call("i32", "llvm.nvvm.read.ptx.sreg.tid.x")
    lane = f.op("and", thread, Value("i32", "31"))
    warp = f.op("lshr", thread, Value("i32", "5"))
    f.leave(lines)
    return Context(
        f, arch, num_warps, AxisAnalysis(op).of,
        {o: place.start for o, place in allocation.places.items()}, {},
        entry, thread, lane, warp,
        contract="contract" if options.enable_fp_fusion else "",
    )  # fmt: skip
