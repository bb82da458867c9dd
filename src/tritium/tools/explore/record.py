"""Records of compilations: each stage's text, and what every pass did."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from tritium import knobs
from tritium.backends.pipeline import observing
from tritium.compiler.kernel import CompiledKernel
from tritium.ir.printing import print_module
from tritium.passes.base import Pass

_CONTEXT = 3
"""Lines around a change."""


@dataclass(frozen=True)
class PassRecord:
    """The effect of a pass.

    Attributes:
        stage: the pipeline it ran in.
        name: its text, options included; empty for what the pipeline began with.
        seconds: the time it took.
        ops: how many ops the module had then.
        changes: by op name how many there are more (or less) than before.
        diff: the lines that differ, as a unified diff without its head.
    """

    stage: str
    name: str
    seconds: float
    ops: int
    changes: dict[str, int]
    diff: list[str]


@dataclass
class KernelRecord:
    """A compiled kernel, its passes in order, and the seconds that each stage took."""

    kernel: CompiledKernel
    passes: list[PassRecord] = field(default_factory=list[PassRecord])
    stages: dict[str, float] = field(default_factory=dict[str, float])

    @property
    def label(self) -> str:
        """The kernel's name and its constants."""
        constants = getattr(self.kernel.src, "constants", {})
        names = getattr(getattr(self.kernel.src, "fn", None), "arg_names", None)
        text = [
            f"{names[path[0]] if names else path[0]}={getattr(value, '__name__', value)}"
            for path, value in constants.items() if len(path) == 1
        ]  # fmt: skip
        return f"{self.kernel.name} ({', '.join(text)})" if text else self.kernel.name


class Recorder:
    """Collects what is compiled within `recording`."""

    def __init__(self) -> None:
        self.kernels: list[KernelRecord] = []
        self._passes: list[PassRecord] = []
        self._lines: list[str] = []
        self._counts: Counter[str] = Counter()

    @contextmanager
    def recording(self) -> Generator[None]:
        """Compile every kernel anew, and record it."""
        with knobs.compilation.scope(), observing(self._observe):
            knobs.compilation.always_compile = True
            knobs.compilation.listener = self._compiled
            yield

    def _observe(self, stage: str, item: Pass[Any] | None, unit: Any, seconds: float) -> None:
        module = unit if isinstance(unit, ModuleOp) else unit.module
        lines = print_module(module, locations=False).splitlines()
        counts = Counter(op.name for op in module.walk())
        changes = {
            name: counts[name] - self._counts[name]
            for name in sorted({*counts, *self._counts})
            if counts[name] != self._counts[name]
        }
        diff = list(difflib.unified_diff(self._lines, lines, lineterm="", n=_CONTEXT))[2:]
        if item is None:
            changes, diff = {}, []
        name = "" if item is None else item.text()
        self._passes.append(PassRecord(stage, name, seconds, counts.total(), changes, diff))
        self._lines, self._counts = lines, counts

    def _compiled(
        self, *, src: Any, metadata: Any, metadata_group: Any, times: Any, cache_hit: bool
    ) -> None:
        stages = {name: seconds / 1e6 for name, seconds in times.lowering_stages}
        kernel = CompiledKernel(src, metadata_group, metadata["hash"])
        self.kernels.append(KernelRecord(kernel, self._passes, stages))
        self._passes = []
