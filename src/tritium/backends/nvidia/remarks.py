"""Remarks about kernels for NVIDIA GPUs (see `backends.remarks`)."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, SSAValue

from tritium.analysis.axis_info import AxisAnalysis
from tritium.analysis.loop_writes import unwritten
from tritium.analysis.loops import stages_of
from tritium.analysis.regions import functions
from tritium.backends.remarks import Remarks, is_new, wanted
from tritium.codegen.gpu.memory.access import Facts, register_groups
from tritium.ir import types as ir
from tritium.ir.layouts.encodings import BlockedEncoding
from tritium.ops.attributes import NOT_WARP_SPECIALIZED
from tritium.ops.scf import is_counted
from tritium.ops.ttgir.types import MemDescType
from tritium.ops.ttir import ElementAccess
from tritium.ops.ttir.dot import MatrixProduct


def remark_on(
    module: ModuleOp, capability: int, num_stages: int, others: Sequence[tuple[Any, str]] = ()
) -> None:
    """Write remarks on a finished ttgir module to standard error, if they are asked for: on
    products without wgmma, on accesses element by element, on operands of products in loops that
    are not copied ahead, and on loops that are not split among warps. `num_stages` is what loops
    have that say nothing else; `others` are more remarks."""
    if not wanted():
        return
    remarks = Remarks()
    for op, text in others:
        remarks.add(op, text)
    for function in functions(module):
        facts = AxisAnalysis(function).of, AxisAnalysis(function, assume_no_wrap=True).of
        for op in function.walk():
            why: Any = op.attributes.get(NOT_WARP_SPECIALIZED)
            if why is not None:
                remarks.add(
                    op, f"Warning: warp_specialize has no effect on this loop: {why.data}"
                )
            if isinstance(op, MatrixProduct) and not op.asynchronous:
                _on_product(remarks, op, capability)
            elif isinstance(op, ElementAccess):
                _on_access(remarks, facts, op)
            elif is_counted(op) and stages_of(op, num_stages) > 1:
                _on_loop(remarks, op)
    remarks.write()


def _on_product(remarks: Remarks, op: Any, capability: int) -> None:
    """Products that do not use the newest tensor cores, or none."""
    if capability // 10 == 9:
        remarks.add(
            op, "MMA version 3 acceleration not applied due to unsupported shapes or data types: "
            f"target compute capability ({capability}) supports MMA v3",
        )  # fmt: skip
    if isinstance(op.results[0].type.encoding, BlockedEncoding):
        precision = op.inputPrecision.name.lower()
        remarks.add(
            op, f"Warning: this product of {op.a.type.get_element_type()} (input_precision="
            f"{precision!r}) of {'x'.join(map(str, ir.shape_of(op.a.type)))} and "
            f"{'x'.join(map(str, ir.shape_of(op.b.type)))} is computed without tensor cores",
        )  # fmt: skip
    elif capability // 10 in (10, 11) and ir.bit_width(op.a.type) < 64:
        remarks.add(
            op, "MMA version 5 acceleration not applied due to unsupported shapes, data types or "
            "numbers of warps: mma.sync is used; target compute capability "
            f"({capability}) supports MMA v5",
        )  # fmt: skip


def _on_access(remarks: Remarks, facts: tuple[Facts, Facts], op: Any) -> None:
    """Elements that a thread holds, and accesses one by one."""
    if not ir.shape_of(op.ptr.type):
        return
    groups = register_groups(*facts, op.ptr, op.mask)
    if len(groups) < 2 or len(groups[0]) > 1:
        return
    mask = -1 if op.mask is None else max(facts[0](op.mask).constancy)
    unmasked = len(register_groups(*facts, op.ptr, None)[0])
    remarks.add(
        op, f"Warning: vectorization fails vec = 1 origin vec = {unmasked} "
        f"numElems = {len(groups)} mask is {mask}",
    )  # fmt: skip


def _on_loop(remarks: Remarks, loop: Any) -> None:
    """Operands of products that are loaded into registers in the iteration that needs them."""
    block: Block = loop.body
    for op in block.ops:
        if not isinstance(op, MatrixProduct):
            continue
        for number, operand in enumerate(op.operands[:2]):
            for load, changed in _loads(operand, block):
                why = (
                    "it is changed in registers before the product" if changed
                    else "the loop writes memory that may be the same"
                    if not unwritten(loop, [load])
                    else "its elements cannot be copied to shared memory asynchronously"
                )  # fmt: skip
                remarks.add(
                    load, f"Warning: operand {number} of a dot is loaded in the iteration that "
                    f"uses it, as {why}; the pipelined load for this operand will be disabled, so "
                    "poor performance is expected",
                )  # fmt: skip


def _loads(value: SSAValue, block: Block, changed: bool = False) -> Iterator[tuple[Any, bool]]:
    """(load, whether anything is computed from it) of the loads in `block` that a tile is of."""
    op: Any = value.owner
    if isinstance(op, Block) or op.parent is not block:
        return
    if isinstance(op, ElementAccess):
        yield op, changed
        return
    changed |= op.is_elementwise
    for operand in op.operands:
        if ir.shape_of(operand.type) or isinstance(operand.type, MemDescType):
            yield from _loads(operand, block, changed)


def remark_on_resources(
    name: str, facts: Mapping[str, int], shared: int, messages: Sequence[str] = ()
) -> None:
    """Write what a kernel takes of the processor to standard error, if remarks are asked for.
    `facts` are those of `ptx.report`, `shared` is in bytes, `messages` are of
    `ptx.performance_messages`."""
    text = "; ".join([
        f"{facts['n_regs']} registers a thread, {4 * facts['n_spills']} bytes spilled, {shared} "
        "bytes of shared memory", *messages,
    ])  # fmt: skip
    if wanted() and is_new([(name, text)]):
        sys.stderr.write(f"{name}: remark: {text}\n")
