"""Stages that a hook changes as plug-ins of the reference do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import tritium
import tritium.language as tl
from tests.runtime.compiling.sources import source
from tritium import knobs
from tritium._C.libtriton import ir, passes
from tritium.analysis.results import idle_passes


def test_a_hook_that_runs_passes_of_the_references_names(fresh_cache: Path) -> None:
    """As plug-ins write it."""
    seen: list[str] = []

    def hook(*args: Any) -> Any:
        if not args:
            return "key", "hash"
        stages = args[1]
        original = stages["ttir"]

        def ttir(module: Any, metadata: Any) -> Any:
            module = original(module, metadata)
            pm = ir.pass_manager(module.context)
            pm.enable_debug()
            passes.ttir.add_loop_unroll(pm)
            passes.common.add_cse(pm)
            pm.run(module, "more")
            seen.append(str(module))
            return module

        stages["ttir"] = ttir
        return None

    knobs.runtime.add_stages_inspection_hook = hook
    kernel = tritium.compile(source())
    assert len(seen) == 1 and "add_kernel" in kernel.asm["ttir"]


def test_a_hook_that_runs_the_backends_own_stage(fresh_cache: Path) -> None:
    """By the method of the reference's backends, whose last argument is the capability."""

    def hook(*args: Any) -> Any:
        if args:
            backend, stages, options = args[:3]

            def llir(module: Any, metadata: Any) -> Any:
                return "; changed\n" + backend.make_llir(module, metadata, options, 90)

            stages["llir"] = llir
        return "key", "hash"

    knobs.runtime.add_stages_inspection_hook = hook
    assert tritium.compile(source()).asm["llir"].startswith("; changed\n")


def test_passes_run_again_behind_a_stage_that_a_hook_may_have_changed(fresh_cache: Path) -> None:
    idle: list[list[Any]] = []

    def hook(*args: Any) -> Any:
        if args:
            tile = args[1]["tile"]

            def noting(module: Any, metadata: Any) -> Any:
                idle.append(list(idle_passes(module)))
                return tile(module, metadata)

            args[1]["tile"] = noting
        return "key", "hash"

    knobs.runtime.add_stages_inspection_hook = hook
    tritium.compile(source())
    assert idle == [[]]


def test_launches_ask_the_hook_which_stages_there_are(fresh_cache: Path) -> None:
    @tritium.jit
    def kernel(out: Any) -> None:
        tl.store(out, 1)

    compiled: list[str] = []
    tags = ["none"]

    def hook(*args: Any) -> Any:
        if not args:
            return tags[-1], tags[-1]
        compiled.append(tags[-1])
        return None

    out = np.zeros(1, np.int32)
    kernel[(1,)](out)
    kernel[(1,)](out)  # natively
    knobs.runtime.add_stages_inspection_hook = hook
    for tag in ("first", "first", "second", "first"):
        tags.append(tag)
        kernel[(1,)](out)
    knobs.runtime.add_stages_inspection_hook = None
    kernel[(1,)](out)
    assert compiled == ["first", "second"]
    assert len(kernel.device_caches[0][0]) == 3
