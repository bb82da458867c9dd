"""The text of the tile stage.

    kernel @add  scratch 4096 {
      %pid = tt.get_program_id x
      for [i: 1024] {
        store %out <- %sum
          %sum = arith.addf %x, %y
          ...
"""

from __future__ import annotations

from io import StringIO
from typing import Any

from xdsl.ir import Block, SSAValue
from xdsl.printer import Printer

from tritium.backends.cpu.tiles.ir import (
    Body,
    Buffer,
    Dot,
    For,
    If,
    Nest,
    Root,
    RootKind,
    Scalar,
    Step,
    TileFunction,
    While,
    WholeTile,
)
from tritium.ir import types as ir


class _Names:
    """Names of values: hints made unique, or numbers."""

    def __init__(self) -> None:
        self.names: dict[SSAValue, str] = {}
        self.used: set[str] = set()
        self.numbers: dict[str, int] = {}
        """The last number that a hint was given."""

    def __call__(self, value: SSAValue) -> str:
        name = self.names.get(value)
        if name is None:
            hint = value.name_hint or str(len(self.names))
            name, number = hint, self.numbers.get(hint, 0)
            while name in self.used:
                number += 1
                name = f"{hint}_{number}"
            self.numbers[hint] = number
            self.used.add(name)
            self.names[value] = name
        return f"%{name}"


class _Writer:
    def __init__(self, function: TileFunction):
        self.function = function
        self.lines: list[str] = []
        self.name = _Names()

    def line(self, depth: int, text: str) -> None:
        self.lines.append("  " * depth + text)

    def run(self) -> str:
        f = self.function
        kind = "kernel" if f.public else "function"
        arguments = ", ".join(f"{self.name(a)}: {a.type}" for a in f.op.body.args)
        self.line(0, f"{kind} @{f.name}({arguments}) scratch {f.scratch_bytes} {{")
        for buffer in f.all_buffers:
            if buffer.offset >= 0:
                self.line(1, f"buffer {buffer} at {buffer.offset}")
        for number, body in enumerate(f.blocks):
            if len(f.blocks) > 1:
                self.line(0, f"^{number}:")
            self.body(body, 1)
        self.line(0, "}")
        return "\n".join(self.lines)

    def body(self, body: Body, depth: int) -> None:
        for step in body.steps:
            self.step(step, depth)
        self.line(depth, self.op(body.terminator))

    def step(self, step: Step, depth: int) -> None:
        if isinstance(step, Scalar):
            self.line(depth, self.op(step.op))
        elif isinstance(step, Nest):
            self.nest(step, depth)
        elif isinstance(step, Dot):
            op: Any = step.op
            views = [" (view)" if v else "" for v in (step.a_is_view, step.b_is_view)]
            sign = "=" if step.zero else "+="
            self.line(depth, f"{step.buffer.name} {sign} dot {self.name(op.a)}{views[0]}, "
                             f"{self.name(op.b)}{views[1]}")  # fmt: skip
            seen: set[SSAValue] = set()
            for value, view in ((op.a, step.a_is_view), (op.b, step.b_is_view)):
                if view:
                    self.expression(value, depth + 1, seen)
        elif isinstance(step, WholeTile):
            self.line(depth, self.op(step.op) + _into(step.buffers))
        elif isinstance(step, For):
            op = step.op
            bounds = f"{self.name(op.lower)} to {self.name(op.upper)} step {self.name(op.step)}"
            self.line(depth, f"for {self.name(op.body.args[0])} = {bounds}{_into(step.buffers)} {{")
            self.body(step.body, depth + 1)
            self.line(depth, "}")
        elif isinstance(step, If):
            self.line(depth, f"if {self.name(step.op.operands[0])}{_into(step.buffers)} {{")
            self.body(step.then, depth + 1)
            if step.otherwise is not None:
                self.line(depth, "} else {")
                self.body(step.otherwise, depth + 1)
            self.line(depth, "}")
        elif isinstance(step, While):
            self.line(depth, f"while{_into(step.before_buffers)} {{")
            self.body(step.before, depth + 1)
            self.line(depth, f"}} do{_into(step.after_buffers)} {{")
            self.body(step.after, depth + 1)
            self.line(depth, "}")

    def nest(self, nest: Nest, depth: int) -> None:
        shape = "x".join(map(str, nest.domain))
        along = "" if nest.axis is None else f" along {nest.axis}"
        self.line(depth, f"loops [{shape}]{along} {{")
        seen: set[SSAValue] = set()
        for root in nest.roots:
            for value in root.values:
                self.expression(value, depth + 1, seen, root)
            self.line(depth + 1, self.root(root))
        self.line(depth, "}")

    def root(self, root: Root) -> str:
        values = ", ".join(map(self.name, root.values))
        if root.kind == RootKind.COPY:
            source = values if root.source is None else root.source.name
            target = root.buffers[0]
            assert target is not None
            return f"{target.name} <- {source}"
        if root.op is not None and root.op.results:
            results = ", ".join(map(self.name, root.op.results))
            return f"{results} = {root.kind.value} {values}{_into(root.buffers)}"
        return f"{root.kind.value} {values}"

    def expression(
        self, value: SSAValue, depth: int, seen: set[SSAValue], root: Root | None = None
    ) -> None:
        """The inlined ops that compute a tile."""
        stack: list[SSAValue | str] = [value]
        while stack:
            value_or_line = stack.pop()
            if isinstance(value_or_line, str):
                self.line(depth, value_or_line)
                continue
            value = value_or_line
            if value in seen or isinstance(value.owner, Block):
                continue
            seen.add(value)
            held = self.function.buffers.get(value)
            filled = root is not None and root.kind == RootKind.COPY and root.buffers[0] is held
            root = None  # an operand that has a buffer is read
            if not isinstance(value.type, ir.TensorType):
                continue
            if held is not None and not filled:
                self.line(depth, f"{self.name(value)} = {held.name}")
                continue
            stack.append(self.op(value.owner))
            stack.extend(reversed(value.owner.operands))

    def op(self, op: Any) -> str:
        results = ", ".join(map(self.name, op.results))
        operands = ", ".join(map(self.name, op.operands))
        extra = "".join(
            f" {key}={_attribute(value)}"
            for key, value in sorted(op.properties.items())
            if key != "operandSegmentSizes"
        )
        type = f" : {op.results[0].type}" if op.results else ""
        return f"{results + ' = ' if results else ''}{op.name} {operands}{extra}{type}"


def _attribute(attribute: Any) -> str:
    out = StringIO()
    Printer(out).print_attribute(attribute)
    return out.getvalue()


def _into(buffers: tuple[Buffer | None, ...]) -> str:
    names = [b.name for b in buffers if b is not None]
    return f" in {', '.join(names)}" if names else ""


def format_function(function: TileFunction) -> str:
    """A function of the tile stage as text."""
    return _Writer(function).run()
