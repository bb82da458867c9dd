"""Let the profiler's records inside a kernel be written to memory.

before:
    tt.func @kernel(...)
      proton.record {label = "load", starts = true}
after:
    tt.func @kernel(..., %records: i64, %mask: i64)
      proton.record {label = "kernel", starts = true} %records, %mask : i64, i64
      proton.record {label = "load", number = 1, starts = true} %records, %mask : i64, i64
      ...
      proton.record {label = "kernel", starts = false} %records, %mask : i64, i64

The memory is a number, of the records that were written so far, and from the 65th byte on a ring of
records (`tritium.sanitize.ring`): the last ones stay.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from xdsl.dialects.builtin import ModuleOp

from tritium.ops.ttir.profile import RecordOp
from tritium.passes.base import Pass
from tritium.passes.rewriting import Builder
from tritium.sanitize.sites import add_arguments, capture, kernel_of


@dataclass(frozen=True)
class WriteRecords(Pass):
    """Let the profiler's records be written to memory, and record each program as a whole.

    Attributes:
        labels: filled with the names of scopes, by number; the first is the kernel's.
    """

    name: ClassVar[str] = "write-records"
    labels: list[str] = field(default_factory=list[str])

    def run(self, module: ModuleOp) -> bool:
        kernel = kernel_of(module)
        stated = [op for op in kernel.walk() if isinstance(op, RecordOp)]
        memory = add_arguments(kernel, ("records", "mask"))
        self.labels.append(kernel.sym_name)
        self.labels.extend(dict.fromkeys(op.label for op in stated))

        def record(at: Builder, starts: bool, label: str, number: int) -> None:
            at.make(RecordOp, memory, starts=starts, label=label, number=number)

        for op in stated:
            record(Builder(op), op.starts, op.label, 1 + self.labels[1:].index(op.label))
            op.detach()
            op.erase()
        capture(kernel)
        first: Any = kernel.body.first_op
        record(Builder(first), True, kernel.sym_name, 0)
        for block in kernel.regions[0].blocks:
            end = block.last_op
            if end is not None and not end.successors:  # a return
                record(Builder(end), False, kernel.sym_name, 0)
        return True
