"""Replace calls by the bodies of the functions they call.

before:
    tt.func public @kernel(%x: f32) {
      %y = tt.call @twice(%x) : (f32) -> f32   loc(caller)
      use %y
    }
    tt.func private @twice(%a: f32) -> f32 {
      %b = arith.addf %a, %a : f32             loc(callee)
      tt.return %b : f32
    }
after:
    tt.func public @kernel(%x: f32) {
      %b = arith.addf %x, %x : f32             loc(callsite(callee at caller))
      use %b
    }

Functions marked `noinline` stay functions, but where regions run at the same time: the code of each
counts the warps that run it. Callees with branches are made structured first;
a callee whose blocks form a cycle stays a function. Functions that nothing calls any more go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from xdsl.dialects.builtin import LocationAttr, ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from tritium.analysis.regions import calls_in, functions
from tritium.errors import TritonError
from tritium.ir.graph import ops_of
from tritium.ir.locations import call_site
from tritium.ops.base import Op
from tritium.ops.terminators import terminator
from tritium.ops.ttir.function import CallOp, FuncOp
from tritium.passes.base import Pass
from tritium.passes.rewriting import Builder, copy_names, erase, move_ops
from tritium.passes.ttir.structure import structure
from tritium.passes.ttir.symbol_dce import remove_uncalled


class RecursiveCall(TritonError):
    """A function calls itself, directly or through others."""


@dataclass(frozen=True)
class Inline(Pass):
    """Replace calls by the bodies of the functions they call."""

    name: ClassVar[str] = "inline"
    title: ClassVar[str] = "Inliner"

    def run(self, module: ModuleOp) -> bool:
        inliner = _Inliner(module)
        for name in list(inliner.functions):
            inliner.finish(name, ())
        for function in inliner.functions.values():
            inliner.finish_partitions(function)
        return remove_uncalled(module) or inliner.changed


class _Inliner:
    def __init__(self, module: ModuleOp):
        self.changed = False
        self.functions = {function.sym_name: function for function in functions(module)}
        self.calls = {
            name: list(calls_in(function)) for name, function in self.functions.items()
        }
        self.calls_left: dict[str, int] = {}
        for calls in self.calls.values():
            for call in calls:
                self.calls_left[call.callee] = self.calls_left.get(call.callee, 0) + 1
        self.finished: set[str] = set()

    def finish(self, name: str, path: tuple[str, ...]) -> None:
        """Inline all calls in a function, its callees' calls first."""
        _check_path(name, path)
        if name in self.finished:
            return
        for call in self.calls[name]:
            callee = self.functions.get(call.callee)
            if callee is None or callee.noinline:
                continue
            self.finish(call.callee, (*path, name))
            if structure(callee):
                self.inline(call, callee)
        self.finished.add(name)

    def finish_partitions(self, function: FuncOp) -> None:
        """Inline all calls in regions that run at the same time, and those in what they call."""
        beside = [call for call in calls_in(function) if _runs_beside_others(call)]
        calls = [(call, (function.sym_name,)) for call in beside]
        while calls:
            call, path = calls.pop()
            name = call.callee
            _check_path(name, path)
            callee = self.functions.get(name)
            if callee is not None and structure(callee):
                calls += [(inner, (*path, name)) for inner in _calls(self.inline(call, callee))]

    def inline(self, call: CallOp, callee: FuncOp) -> list[Operation]:
        """Replace a call; returns all ops that are in its place."""
        self.calls_left[call.callee] -= 1
        body = callee.body
        if self.calls_left[call.callee] == 0 and callee.sym_visibility == "private":
            ops, results = _move(body, call)
        else:
            ops, results = _copy(body, call)
            for inner in _calls(ops):
                self.calls_left[inner.callee] += 1
        for result, value in zip(call.results, results, strict=True):
            copy_names([result], [value])
            result.replace_all_uses_with(value)
        erase(call)
        self.changed = True
        return ops


def _check_path(name: str, path: tuple[str, ...]) -> None:
    """Refuse a call of a function by way of itself."""
    if name in path:
        chain = " -> ".join([*path[path.index(name) :], name])
        raise RecursiveCall(f"a kernel cannot call itself: {chain}; recursion has no bound")


def _calls(ops: Sequence[Operation]) -> list[CallOp]:
    """The calls among some ops."""
    found: list[Any] = [op for op in ops if isinstance(op, Op) and op.is_call]
    return found


def _runs_beside_others(call: CallOp) -> bool:
    """True if a call is in one of the regions of an op that run at the same time."""
    parent = call.parent_op()
    while isinstance(parent, Op) and not parent.concurrent:
        parent = parent.parent_op()
    return isinstance(parent, Op)


def _move(body: Block, call: CallOp) -> tuple[list[Operation], list[SSAValue]]:
    """Move the body to before the call; returns its ops, and what it returns."""
    for arg, value in zip(body.args, call.operands, strict=True):
        arg.replace_all_uses_with(value)
    results = list(terminator(body).operands)
    moved = ops_of(body)[:-1]
    move_ops(body, call)
    _relocate(moved, call.location)
    return [inner for op in moved for inner in op.walk()], results


def _copy(body: Block, call: CallOp) -> tuple[list[Operation], list[SSAValue]]:
    """Copy the body to before the call; returns the ops, and what it returns."""
    at, last = Builder(call), terminator(body)
    values: dict[SSAValue, SSAValue] = dict(zip(body.args, call.operands, strict=True))
    copies = [at.copy(op, values) for op in body.ops if op is not last]
    _relocate(copies, call.location)
    ops = [inner for op in copies for inner in op.walk()]
    return ops, [values.get(v, v) for v in last.operands]


def _relocate(ops: Sequence[Operation], caller: LocationAttr) -> None:
    """Note at each op that it came from a call."""
    # Hashing a nested location costs more than the rest; each object is looked at once.
    known: dict[int, LocationAttr] = {}
    alive: list[LocationAttr] = []

    def at_call(location: LocationAttr) -> LocationAttr:
        found = known.get(id(location))
        if found is None:
            found = known[id(location)] = call_site(location, caller)
            alive.append(location)
        return found

    for top in ops:
        for op in top.walk():
            op.location = at_call(op.location)
            for region in op.regions:
                for block in region.blocks:
                    for arg in block.args:
                        arg.location = at_call(arg.location)
