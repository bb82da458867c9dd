"""Remarks about kernels for the CPU (see `backends.remarks`)."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import ModuleOp

from tritium.analysis.axis_info import AxisAnalysis
from tritium.analysis.regions import functions
from tritium.backends.remarks import Remarks, wanted
from tritium.ir import types as ir
from tritium.ops.ttir import ElementAccess


def remark_on(module: ModuleOp) -> None:
    """Write remarks to standard error, if they are asked for, on loads and stores of a tile whose
    elements are neither neighbours in memory nor the same one: they are gathered or scattered."""
    if not wanted():
        return
    remarks = Remarks()
    for function in functions(module):
        analysis = AxisAnalysis(function)
        for op in function.walk():
            if isinstance(op, ElementAccess):
                _on_access(remarks, analysis, op)
    remarks.write()


def _on_access(remarks: Remarks, analysis: AxisAnalysis, op: Any) -> None:
    shape = ir.shape_of(op.ptr.type)
    if max(shape, default=1) == 1:
        return
    info = analysis.of(op.ptr)
    if max(info.contiguity) > 1 or max(info.constancy) > 1:
        return
    remarks.add(
        op, f"Warning: vectorization fails vec = 1 origin vec = 1 numElems = {max(shape)}: the "
        "elements are not known to be neighbours in memory along any axis",
    )  # fmt: skip
