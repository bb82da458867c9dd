"""Translation of a ttgir module to LLVM IR text."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import IntegerAttr

from tritium.analysis.axis_info import AxisAnalysis
from tritium.analysis.barriers import Barriers
from tritium.analysis.regions import functions
from tritium.analysis.shared_memory import Allocation
from tritium.codegen.gpu import registrations
from tritium.codegen.gpu.calls import define, result_type, value_types
from tritium.codegen.gpu.context import SHARED_MEMORY, Context
from tritium.codegen.gpu.control import lower_function
from tritium.codegen.gpu.demand import Demand
from tritium.codegen.gpu.hardware import Hardware
from tritium.codegen.gpu.memory.frames import Frames, fitted_frames, frames
from tritium.codegen.gpu.partitions import (
    Plan,
    Registers,
    enter,
    plan_of,
    with_memory,
    with_registers,
    write_workers,
)
from tritium.codegen.gpu.scratch import Share, share_of, start_of_share
from tritium.codegen.gpu.types import GLOBAL, GPU, value_type
from tritium.codegen.llvm.debug_info import DebugInfo
from tritium.codegen.llvm.writer import Function, Module, const
from tritium.ir import types as ir
from tritium.ops.attributes import DIVISIBILITY, NUM_CTAS, NUM_WARPS, PLAIN_DESCRIPTORS
from tritium.ops.base import Op
from tritium.ops.ttir.extern import ExternElementwiseOp


def lower_to_llvm(
    module: Any, hardware: Hardware, options: Any, *, line_info: bool = False
) -> tuple[str, dict[str, Any]]:
    """LLVM IR for a ttgir module with one public function, the kernel; with `line_info` its
    instructions know their source lines.

    Returns the text, and facts for the metadata: `shared` (bytes), `num_warps`,
    `global_scratch_size` and the like. Raises `NotImplementedError` naming what is not built.
    """
    registrations.check(GPU, registrations.MODULES)
    functions, kernel = _functions(module)
    num_warps = _number(module, NUM_WARPS, options.num_warps)
    num_ctas = _number(module, NUM_CTAS, 1)
    hardware.check_cluster(num_ctas)
    out = Module(hardware.triple, hardware.data_layout)
    hardware.prepare(out, options)
    placed = fitted_frames(functions, kernel, hardware)
    shared = placed.size
    if shared:
        out.globals[SHARED_MEMORY] = "external addrspace(3) global [0 x i8], align 1024"
    libraries, tensor_columns = set[str](), 0
    share = share_of(placed.of)
    plan = plan_of(kernel, num_warps)
    plan = None if plan is None else with_memory(plan, kernel, shared)
    registers = None if plan is None else hardware.partition_registers(plan, shared, options)
    plan = None if plan is None else with_registers(plan, kernel, registers)
    total = num_warps if plan is None else plan.total
    attributes = hardware.kernel_attributes(
        total, num_ctas, options, None if registers is None else registers.launch
    )
    for op in functions:
        if op in placed.of:
            function = _header(out, op, op is kernel, hardware, attributes, share.size)
            threads = total * hardware.lanes
            context = _context(
                function, op, hardware, num_warps, num_ctas, options, placed, threads
            )
            if line_info:
                lines = DebugInfo(out, op.sym_name, op.location)
                function.debug, context.line_of = lines.of_function, lines.of_op
            if plan is not None:
                context.barrier_number, context.plan = 0, plan
                context.cluster_place = plan.clusters
            workers = _begin(context, op, plan, registers) if op is kernel else ""
            _body(context, op, placed.of[op].allocation, share)
            if plan is not None and workers:
                write_workers(context, plan, workers, registers)
            libraries |= context.libraries
            tensor_columns = max(tensor_columns, context.tensor_columns)
    facts = {
        "kernel_signature": [_signature(a.type) for a in kernel.body.args],
        "tensordesc_meta": _descriptors(kernel, hardware),
        "shared": shared, "num_warps": total, "num_ctas": num_ctas,
        "cluster_dims": (num_ctas, 1, 1), "tmem_size": tensor_columns,
        "libraries": sorted(libraries),
        "global_scratch_size": share.size, "global_scratch_align": share.alignment,
        "profile_scratch_size": 0, "profile_scratch_align": 1,
    }  # fmt: skip
    hardware.finish(out)
    return out.text(), facts


def _begin(c: Context, kernel: Any, plan: Plan | None, registers: Registers | None) -> str:
    """Write the beginning of a kernel; returns the label of its workers, if it has any."""
    plain = _plain_descriptors(kernel)
    c.hardware.prefetch_maps(c, [
        value for number, value in enumerate(c.f.arguments[: len(kernel.body.args)])
        if isinstance(kernel.body.args[number].type, ir.DESCRIPTORS) and number not in plain
    ])  # fmt: skip
    stores = any(isinstance(op, Op) and op.stores_to_blocks for op in kernel.parent_op().walk())
    waits = plan is not None and plan.clusters is not None  # in `enter`
    if c.num_ctas > 1 and stores and not waits:
        c.hardware.barriers.cluster(c)  # the others must have begun
    return "" if plan is None else enter(c, kernel, plan, registers)


def shared_bytes(module: Any, hardware: Hardware) -> int:
    """The bytes of shared memory that the kernel of a ttgir module needs, if no change of layout
    works in rounds."""
    registrations.check(GPU, registrations.MODULES)
    return frames(*_functions(module), hardware).size


def _functions(module: Any) -> tuple[list[Any], Any]:
    """The functions of a module, and its kernel."""
    defined = list(functions(module))
    kernels = [f for f in defined if f.sym_visibility != "private"]
    if len(kernels) != 1:
        raise NotImplementedError(f"a module of {len(kernels)} kernels; one is expected")
    return defined, kernels[0]


def _descriptors(kernel: Any, hardware: Hardware) -> list[dict[str, Any] | None]:
    """For each descriptor that the kernel is called with what its map needs; None for one of
    which the kernel takes the pointer, the shape and the strides alone."""
    plain = _plain_descriptors(kernel)
    return [
        None if number in plain else hardware.describe_map(argument.type)
        for number, argument in enumerate(kernel.body.args)
        if number in plain or isinstance(argument.type, ir.DESCRIPTORS)
    ]


def _plain_descriptors(kernel: Any) -> set[int]:
    """The numbers of the arguments that are descriptors without a map."""
    known: Any = kernel.attributes.get(PLAIN_DESCRIPTORS)
    return {entry.value.data for entry in known.data} if known is not None else set()


def _signature(type: Any) -> str:
    """The launcher's name of a parameter's type: `*` for pointers, `i32`, `f32`."""
    if isinstance(type, ir.DESCRIPTORS):
        return "tensordesc"
    return "*" if isinstance(type, ir.PointerType) else str(type)


def _number(module: Any, name: str, default: int) -> int:
    found = module.attributes.get(name)
    return found.value.data if isinstance(found, IntegerAttr) else default


def _header(
    out: Module, op: Any, is_kernel: bool, hardware: Hardware, attributes: str, scratch: int,
) -> Function:  # fmt: skip
    """The LLVM function, empty. With `scratch` its last argument is global scratch memory."""
    last = [(GLOBAL, "scratch", "")] if scratch else []
    if not is_kernel:
        types = [t for argument in op.body.args for t in value_types(argument.type)]
        arguments = [(t, f"arg{i}", "") for i, t in enumerate(types)]
        return Function(
            out, hardware.symbol(op.sym_name), arguments + last,
            result_type(list(op.function_type.outputs)), linkage="internal",
            attributes=f"noinline {hardware.function_attributes}",
        )  # fmt: skip
    arguments = list[tuple[str, str, str]]()
    for number, argument in enumerate(op.body.args):
        type: Any = argument.type
        if isinstance(type, ir.DESCRIPTORS):
            kind, facts = "ptr", hardware.descriptor_attributes
        else:
            kind = value_type(type)
            facts = "align 16" if kind == GLOBAL and _divisible(op, number) else ""
        arguments.append((kind, f"arg{number}", facts))
    return Function(
        out, hardware.symbol(op.sym_name, _called(op)), arguments + last,
        linkage=hardware.kernel_linkage, attributes=attributes,
    )  # fmt: skip


def _called(kernel: Any) -> set[str]:
    """The names of the functions of libraries that the kernel's module calls."""
    return {op.symbol for op in kernel.parent_op().walk() if isinstance(op, ExternElementwiseOp)}


def _body(context: Context, op: Any, allocation: Allocation, share: Share) -> None:
    """Write a function's body."""
    blocks = list(op.regions[0].blocks)
    context.barriers = Barriers(allocation).find(blocks)
    demand = Demand(context.axis_info, context.address_info, context.hardware)
    context.demand = demand.find(blocks).of
    private, arguments = op.sym_visibility == "private", list(context.f.arguments)
    if share.size:
        start = arguments.pop()
        start = start if private else start_of_share(context, start, share.size)
        context.share = start, share.places
    if private:
        define(context, op.body.args, arguments)
    else:
        for argument, value in zip(op.body.args, arguments, strict=True):
            context.set(argument, value)
    context.hardware.define_descriptors(context, op.body.args, of_kernel=not private)
    lower_function(context, blocks)


def _divisible(op: Any, number: int) -> bool:
    attributes: Any = op.arg_attrs[number] if op.arg_attrs else {}
    found: Any = attributes.get(DIVISIBILITY)
    return isinstance(found, IntegerAttr) and found.value.data % 16 == 0


def _context(
    f: Function, op: Any, hardware: Hardware, num_warps: int, num_ctas: int, options: Any,
    placed: Frames, threads: int,
) -> Context:  # fmt: skip
    frame, entry = placed.of[op], f.section()
    lines = f.enter(entry)
    thread, lane_bits = hardware.grid.thread(f, threads), hardware.lanes.bit_length() - 1
    lane = f.op("and", thread, const("i32", hardware.lanes - 1))
    warp = f.op("lshr", thread, const("i32", lane_bits))
    f.leave(lines)
    return Context(
        f=f, entry=entry, num_warps=num_warps, num_ctas=num_ctas, lane_bits=lane_bits,
        thread=thread, lane=lane, warp=warp, hardware=hardware, axis_info=AxisAnalysis(op).of,
        address_info=AxisAnalysis(op, assume_no_wrap=True).of,
        offsets={o: frame.start + p.start for o, p in frame.allocation.places.items()},
        rounds=placed.rounds,
        contract="contract" if options.enable_fp_fusion else "",
        sharing=frozenset(o.sym_name for o, other in placed.of.items() if other.end > frame.end),
    )  # fmt: skip
