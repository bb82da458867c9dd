"""`cp.async`."""

from __future__ import annotations

from tritium.backends.nvidia.lower.hints import Hints
from tritium.backends.nvidia.processor import COPY_BYTES
from tritium.codegen.gpu.emitter import Emitter
from tritium.codegen.gpu.hardware import AsyncCopies
from tritium.codegen.llvm.writer import Value


class CpAsync(AsyncCopies):
    """Copies of 4 to 16 bytes."""

    least_bytes = COPY_BYTES[0]

    def copy(
        self, e: Emitter, to: Value, source: Value, size: int, filled: Value | None, keep: bool,
        condition: Value | None, hints: str = "",
    ) -> None:  # fmt: skip
        kind, given = "ca" if keep or size < 16 else "cg", Hints.of(hints)
        place, offset = e.immediate(to)
        text = f"cp.async.{kind}.shared.global{given.second} [ $0{offset} ], [ $1 ], {size}"
        arguments, constraints = [place, source], ["r", "l"]
        if filled is not None:
            text += ", $2"  # a predicate: ignore the source
            arguments.append(e.f.op("xor", filled, Value("i1", "true")))
            constraints.append("b")
        if given.policy is not None:
            text += f", ${len(arguments)}"
            arguments.append(given.policy(e))
            constraints.append("l")
        if condition is not None:
            text = f"@${len(arguments)} {text}"
            arguments.append(condition)
            constraints.append("b")
        e.asm("void", text + ";", ",".join([*constraints, "~{memory}"]), *arguments)

    def commit(self, e: Emitter) -> None:
        e.asm("void", "cp.async.commit_group;", "~{memory}")

    def wait(self, e: Emitter, pending: int) -> None:
        e.asm("void", f"cp.async.wait_group {pending};", "~{memory}")
