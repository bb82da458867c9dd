"""Passes over the IR: `run_pipeline(module, "canonicalize,cse")`.

- `base`: what a pass is, and the manager that runs several.
- `registry`: passes by name, and pipelines as text.
- `pipelines`: the sequences that the compiler runs.
- `rewriting`: the worklist that the peephole passes share.
- `ttir/`, `ttgir/`: the passes, one a file.
"""

from __future__ import annotations

from tritium.passes.base import Pass, PassError, PassManager, dump_before, timing_report
from tritium.passes.registry import parse_pipeline, run_pipeline

__all__ = [
    "Pass",
    "PassError",
    "PassManager",
    "dump_before",
    "parse_pipeline",
    "run_pipeline",
    "timing_report",
]
