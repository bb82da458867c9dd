"""Shrink IR on which the compiler fails: `tritium reduce`.

Ops are taken out, many at once and then fewer; what used their results gets an operand of the same
type, or a constant. Bodies of loops and branches take the place of these, and unused arguments go.
A smaller module stays where it fails in the same way: with the same exception, whose message is the
same but for names and numbers, the same signal, or the same exit status of a command.
"""

from __future__ import annotations

import os
import re
import select
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.traits import IsTerminator
from xdsl.utils.exceptions import VerifyException

from tritium.analysis.regions import functions
from tritium.backends.base import make_backend
from tritium.compiler import compile as compile_source
from tritium.errors import TritonError
from tritium.ir import types as ir
from tritium.ir.printing import print_module
from tritium.ops.parsing import parse_module
from tritium.ops.ttir.function import FuncOp
from tritium.ops.ttir.numeric import IntToPtrOp
from tritium.ops.ub import PoisonOp
from tritium.passes import PassManager, pipelines, registry
from tritium.passes.rewriting import Builder, erase
from tritium.target import GPUTarget

LIMIT = 60.0
"""Seconds that one try may take."""
_VARYING = re.compile(r"%[\w#$]+|@\w+|'[^']*'|\"[^\"]*\"|\d+|/\S+|<.*>")

Outcome = Callable[[str], str]
"""A function that gives the failure of a text; empty if it does not fail."""


class ReduceError(TritonError):
    """Error: there is nothing to reduce."""


def reduce(text: str, outcome: Outcome, name: str = "<reduce>") -> tuple[str, str]:
    """The least text that was found to fail as this one does, and how it fails; `name` is the
    text's in messages.

    Raises `ReduceError` where it does not fail, `ParseError` where it is no IR.
    """
    module = parse_module(text, name)
    wanted = outcome(print_module(module, locations=False))  # which messages may name
    if not wanted:
        raise ReduceError("it does not fail")
    work = _Work(module, outcome, wanted)
    before = -1
    while before != (before := work.size()):
        for substitute in (_operand, _constant):
            work.drop(substitute)
        work.one_by_one(_regions, _unfolded)
        work.one_by_one(_arguments, _without)
    return print_module(work.module, locations=False).rstrip("\n") + "\n", wanted


class _Work:
    """A module that fails, and how."""

    def __init__(self, module: ModuleOp, outcome: Outcome, wanted: str):
        self.module, self._outcome, self._wanted = module, outcome, wanted

    def size(self) -> int:
        return sum(1 + len(op.operands) for op in self.module.walk())

    def _copy(self) -> ModuleOp:
        return cast(ModuleOp, cast(Any, self.module).clone())

    def _keep(self, module: ModuleOp) -> bool:
        """Go on with a module if it fails alike."""
        try:
            module.verify()
        except VerifyException:
            return False
        if self._outcome(print_module(module, locations=False)) != self._wanted:
            return False
        self.module = module
        return True

    def drop(self, substitute: Callable[[Operation, SSAValue], SSAValue]) -> None:
        """Take out ops, from the last to the first: first half of them at once, at last each."""
        size = max(2, len(_removable(self.module)))
        while size > 1:
            size //= 2
            end = len(_removable(self.module))
            while end > 0:
                smaller = self._copy()
                ops = _removable(smaller)[max(0, end - size) : end]
                if sum(_dropped(op, substitute) for op in reversed(ops)):
                    self._keep(smaller)
                end -= size

    def one_by_one(
        self, places: Callable[[ModuleOp], list[Any]], change: Callable[[Any], None]
    ) -> None:
        """Change the places that a function finds, from the last to the first."""
        for number in reversed(range(len(places(self.module)))):
            smaller = self._copy()
            found = places(smaller)
            if number < len(found):
                change(found[number])
                self._keep(smaller)


def _removable(module: ModuleOp) -> list[Operation]:
    kept, kernels = (ModuleOp, PoisonOp), _kernels(module)
    return [
        op for op in module.walk()
        if not isinstance(op, kept) and not op.has_trait(IsTerminator)
        and op not in kernels
    ]  # fmt: skip


def _dropped(op: Operation, substitute: Callable[[Operation, SSAValue], SSAValue]) -> bool:
    """Take an op out; returns whether that was possible."""
    if op.parent is None:  # with the one around it
        return False
    used = [result for result in op.results if result.uses]
    if used and _is_substitute(op):
        return False
    for result in used:
        result.replace_all_uses_with(substitute(op, result))
    erase(op)
    return True


def _operand(op: Operation, result: SSAValue) -> SSAValue:
    """An operand of an op of the type of its result, else a constant."""
    return next((v for v in op.operands if v.type == result.type), None) or _constant(op, result)


def _constant(op: Operation, result: SSAValue) -> SSAValue:
    """A zero of the type of a result, else a value that may be anything."""
    kind: Any = result.type
    element = ir.element_type(kind)
    at = Builder(op)
    if ir.is_float(element) or ir.is_integer(element):
        return at.constant(0.0 if ir.is_float(element) else 0, kind)
    if isinstance(element, ir.PointerType):
        return at.value(IntToPtrOp, at.constant(0, ir.with_element(kind, ir.i64)), result=kind)
    return at.value(PoisonOp, result=kind)


def _is_substitute(op: Any) -> bool:
    """True if an op is a constant, or an address that is one."""
    if not isinstance(op, Operation):
        return False
    if ir.is_pointer(op.results[0].type):
        return all(not ir.is_pointer(v.type) and _is_substitute(v.owner) for v in op.operands)
    return not op.operands and cast(Any, op).cost == 0


def _regions(module: ModuleOp) -> list[tuple[Operation, int]]:
    """Bodies of one block that end with a yield."""
    return [
        (op, number) for function in functions(module) for op in function.walk()
        if op is not function
        for number, region in enumerate(op.regions) if len(region.blocks) == 1
        and isinstance(region.block.last_op, Operation)
    ]  # fmt: skip


def _unfolded(place: tuple[Operation, int]) -> None:
    """Put the ops of a body in place of the op that has it."""
    op, number = place
    block = op.regions[number].block
    for argument in block.args:
        argument.replace_all_uses_with(_operand(op, argument))
    end = block.last_op
    assert end is not None and op.parent is not None
    given = list(end.operands) if end.has_trait(IsTerminator) else []
    for inner in list(block.ops):
        if inner is not end or not end.has_trait(IsTerminator):
            inner.detach()
            op.parent.insert_op_before(inner, op)
    for result in op.results:
        value = next((v for v in given if v.type == result.type), None)
        result.replace_all_uses_with(value or _constant(op, result))
    erase(op)


def _kernels(module: ModuleOp) -> list[FuncOp]:
    return [f for f in functions(module) if f.sym_visibility != "private"]


def _arguments(module: ModuleOp) -> list[tuple[FuncOp, int]]:
    """Unused arguments of kernels."""
    return [
        (op, argument.index) for op in _kernels(module)
        for argument in op.body.args if not argument.uses
    ]  # fmt: skip


def _without(place: tuple[FuncOp, int]) -> None:
    function, index = place
    function.body.erase_arg(function.body.args[index])
    if function.arg_attrs:
        attributes: list[Any] = list(function.arg_attrs)
        del attributes[index]
        function.properties["arg_attrs"] = function.attr_fields["arg_attrs"].encode(attributes)
    function.update_type()


def by_passes(passes: Sequence[str]) -> Outcome:
    """The failure of passes (`tritium opt -p PASS`)."""
    pipeline = ",".join(passes)
    registry.parse_pipeline(pipeline)  # raises for unknown ones

    def run(text: str) -> None:
        module = parse_module(text, "<reduce>")
        registry.run_pipeline(module, pipeline)
        module.verify()

    return _apart(run)


def by_compiling(target: GPUTarget, ending: str, options: dict[str, int]) -> Outcome:
    """The failure of compilation for a target, from a stage on (`.ttir`: from what the frontend
    gives) to machine code. Raises `ReduceError` for a target or options that no kernel is compiled
    for."""
    try:
        make_backend(target).parse_options(options)
    except (ValueError, AssertionError) as error:
        raise ReduceError(str(error)) from None

    def run(text: str) -> None:
        if ending == ".ttir":
            module = parse_module(text, "<reduce>")
            PassManager(pipelines.ttir()).run(module)
            text = print_module(module)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, f"kernel{ending}")
            file.write_text(text, encoding="utf-8")
            compile_source(str(file), target=target, options=options)

    return _apart(run)


def by_command(command: str, ending: str) -> Outcome:
    """The exit status of a command, in which `{}` is the file."""

    def outcome(text: str) -> str:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, f"kernel{ending}")
            file.write_text(text, encoding="utf-8")
            line = command.replace("{}", shlex.quote(str(file)))
            silent: Any = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
            try:
                status = subprocess.call(line, shell=True, timeout=LIMIT, **silent)
            except subprocess.TimeoutExpired:
                return f"no end in {LIMIT:.0f} s"
        return f"status {status}" if status else ""

    return outcome


def _apart(run: Callable[[str], None]) -> Outcome:
    """The failure of a function, in a process of its own: it may end the process, or never end."""

    def outcome(text: str) -> str:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                for stream in (1, 2):
                    os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
                os.write(writing, _failure(run, text).encode()[:4096])
                status = 0
            finally:
                os._exit(status)
        os.close(writing)
        with os.fdopen(reading, "rb") as answer:
            if not select.select([answer], [], [], LIMIT)[0]:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                return f"no end in {LIMIT:.0f} s"
            said = answer.read().decode(errors="replace")
        _, status = os.waitpid(child, 0)
        return f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else said

    return outcome


def _failure(run: Callable[[str], None], text: str) -> str:
    try:
        run(text)
    except Exception as error:
        root = error
        while root.__cause__ is not None:
            root = root.__cause__
        first = (str(root).strip().splitlines() or [""])[0]
        return f"{type(root).__name__}: {_VARYING.sub('_', first)}"
    return ""


def supported() -> None:
    """Raise `NotImplementedError` where a system cannot fork."""
    if not hasattr(os, "fork"):
        raise NotImplementedError(f"tritium reduce on {sys.platform}: it has no fork")
