"""Tell functions that stay functions what all their callers know of arguments.

before:
    %b = arith.muli %i, %c64 : i32
    tt.call @f(%a, %b)                           %a: {tt.divisibility = 16 : i32}
    tt.func private @f(%p: !tt.ptr<f32>, %n: i32)
after:
    tt.func private @f(%p: !tt.ptr<f32> {tt.divisibility = 16 : i32},
                       %n: i32 {tt.divisibility = 64 : i32})

Wide accesses and copies of blocks need to know alignment. Only scalars are looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd
from typing import Any, ClassVar

from xdsl.dialects.builtin import IntegerAttr, ModuleOp

from tritium.analysis.axis_info import AxisAnalysis
from tritium.analysis.regions import calls_in, functions
from tritium.ir import types as ir
from tritium.ops.attributes import DIVISIBILITY
from tritium.ops.ttir.function import CallOp, FuncOp
from tritium.passes.base import Pass

MOST = 1 << 20
"""Divisibility that is told, at most."""


@dataclass(frozen=True)
class CallFacts(Pass):
    """Tell functions what all their callers know of arguments."""

    name: ClassVar[str] = "call-facts"

    def run(self, module: ModuleOp) -> bool:
        defined = list(functions(module))
        calls: dict[str, list[tuple[FuncOp, CallOp]]] = {}
        for function in defined:
            for call in calls_in(function):
                calls.setdefault(call.callee, []).append((function, call))
        known: dict[FuncOp, AxisAnalysis] = {}
        changed = False
        for function in _callers_first(defined, calls):
            if function.sym_visibility == "private" and function.sym_name in calls:
                changed |= _tell(function, calls[function.sym_name], known)
            known[function] = AxisAnalysis(function)
        return changed


def _callers_first(
    functions: list[FuncOp], calls: dict[str, list[tuple[FuncOp, CallOp]]]
) -> Iterator[FuncOp]:
    done: set[FuncOp] = set()

    def visit(function: FuncOp) -> Iterator[FuncOp]:
        if function not in done:
            done.add(function)
            for caller, _ in calls.get(function.sym_name, ()):
                yield from visit(caller)
            yield function

    for function in functions:
        yield from visit(function)


def _tell(
    function: FuncOp, calls: list[tuple[FuncOp, CallOp]], known: dict[FuncOp, AxisAnalysis]
) -> bool:
    attributes: list[dict[str, Any]] = [dict(a) for a in function.arg_attrs]
    attributes = attributes or [{} for _ in function.body.args]
    changed = False
    for index, argument in enumerate(function.body.args):
        scalar = isinstance(argument.type, ir.PointerType) or ir.is_integer(argument.type)
        if not scalar or ir.shape_of(argument.type) or DIVISIBILITY in attributes[index]:
            continue
        infos = [known[caller].of(call.arguments[index]) for caller, call in calls]
        divisor = gcd(MOST, *(info.divisibility[0] for info in infos))
        if divisor > 1:
            attributes[index][DIVISIBILITY] = IntegerAttr(divisor, ir.i32)
            changed = True
    if changed:
        function.set_arg_attrs(attributes)
    return changed
