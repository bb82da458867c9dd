"""Kernels that get checks, and the description of a check."""

from __future__ import annotations

import linecache
import os
from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from tritium.analysis.regions import calls_in, defined_inside, functions
from tritium.ir import types as ir
from tritium.ir.locations import source_positions
from tritium.ops.base import Op, is_constant
from tritium.ops.ttir.function import FuncOp
from tritium.passes.ttir.inline import Inline
from tritium.sanitize.kinds import Site

_OWN = os.path.join(os.path.dirname(os.path.dirname(__file__)), "")

def site_of(op: Operation, kind: str, **more: Any) -> Site:
    """The description of a check before `op`: the innermost line that is not the library's own."""
    places = [*source_positions(op.location), ("", 0, 0)]  # pyright: ignore
    file, line, _ = next((p for p in places if p[0] and not p[0].startswith(_OWN)), places[0])
    source = linecache.getline(file, line).strip() if file else ""
    return {"kind": kind, "file": file, "line": line, "source": source, **more}


def kernel_of(module: ModuleOp) -> FuncOp:
    """The kernel, into which all functions that it calls are inlined, `noinline` or not: they have
    no arguments for what a check needs to know.

    Raises `NotImplementedError` where a call remains.
    """
    apart = [function for function in functions(module) if function.noinline]
    for function in apart:
        function.attributes.pop("noinline")
    if apart:
        Inline().run(module)
    call = next(calls_in(module), None)
    if call is not None:
        raise NotImplementedError(
            f"the sanitizer: calls of {call.callee}, whose branches form a cycle"
        )
    return next(f for f in functions(module) if f.sym_visibility != "private")


def add_arguments(kernel: FuncOp, names: Sequence[str]) -> list[SSAValue]:
    """Further arguments of the kernel, at its end; integers of 64 bits."""
    added: list[SSAValue] = []
    for name in names:
        argument = kernel.body.insert_arg(ir.i64, len(kernel.body.args))
        argument.name_hint = name
        added.append(argument)
    if kernel.arg_attrs:
        attributes: list[Any] = [*kernel.arg_attrs, *({} for _ in names)]
        kernel.set_arg_attrs(attributes)
    kernel.update_type()
    return added


def capture(kernel: FuncOp) -> None:
    """Hand to partitions of warps the kernel's values that checks in them use: they see captures
    and constants alone."""
    for op in kernel.walk():
        if not isinstance(op, Op) or not op.concurrent:
            continue
        partitions = [region for region in op.regions if op.isolates(region)]
        used = dict.fromkeys(
            value for region in partitions for inner in region.walk() for value in inner.operands
            if not defined_inside(value, op) and not is_constant(value)
        )  # fmt: skip
        for value in used:
            op.operands = [*op.operands, value]
            for region in partitions:
                argument = region.block.insert_arg(value.type, len(region.block.args))
                argument.name_hint = value.name_hint
                value.replace_uses_with_if(
                    argument, lambda use, region=region: region.is_ancestor(use.operation)
                )
