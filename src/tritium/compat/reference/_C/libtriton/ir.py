"""Modules, and their operations, blocks and values; see `tritium.ops.view`."""

from __future__ import annotations

from typing import Any

from tritium.backends.pipeline import run_pipeline
from tritium.ops.view import (
    block,
    context,
    load_dialects,
    module,
    operation,
    parse_mlir_module,
    region,
    value,
)

__all__ = [
    "block",
    "context",
    "load_dialects",
    "module",
    "operation",
    "parse_mlir_module",
    "pass_manager",
    "region",
    "value",
]


class pass_manager:
    """Passes in order; the functions of `passes` add them. `context` is not used."""

    def __init__(self, context: Any = None):
        self.passes: list[Any] = []

    def enable_debug(self) -> bool:
        """Do nothing: `knobs.compilation` decides on dumps and times. Returns False."""
        return False

    def run(self, module: Any, repro_pipeline_tag: str = "pass_manager") -> None:
        """Run the passes over a module of the compiler or one that was parsed, in place."""
        run_pipeline(getattr(module, "_module", module), self.passes, repro_pipeline_tag)
