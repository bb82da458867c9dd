"""Running a backend's stages over a source: dumps, replacements from files, times."""

from __future__ import annotations

import functools
import importlib
import sys
import time
import warnings
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from tritium import knobs
from tritium.backends.base import BaseBackend, Stage, unchanged
from tritium.backends.waiting import put_off, waiting
from tritium.cache import get_cache_manager, get_dump_manager
from tritium.compiler.overrides import blaming, read, replacer, source_hash
from tritium.compiler.sources import COMMENT, ASTSource, IRSource, entry_signature, with_facts

Files = dict[str, "str | bytes"]


class Timer:
    """Microseconds spent in each part of a compilation."""

    def __init__(self) -> None:
        self.start = self.last = time.perf_counter()
        self.ir_initialization = 0
        self.stage = "source"
        """The stage that is being run."""
        self.stages: list[tuple[str, int]] = []

    def _lap(self) -> int:
        now = time.perf_counter()
        elapsed, self.last = now - self.last, now
        return int(elapsed * 1e6)

    def finished_ir(self) -> None:
        self.ir_initialization = self._lap()

    def finished_stage(self, stage: str) -> None:
        self.stages.append((stage, self._lap()))

    def end(self, hit: bool) -> knobs.CompileTimes:
        """The times; a cache hit is all initialization."""
        last = self._lap()
        if hit:
            return knobs.CompileTimes(last, [], 0)
        return knobs.CompileTimes(self.ir_initialization, self.stages, last)


def run_stages(
    src: ASTSource | IRSource,
    backend: BaseBackend,
    options: Any,
    metadata: dict[str, Any],
    name: str,
    timer: Timer,
) -> Files:
    """Run all stages after the source's own, which extend `metadata`.

    Returns: the results to store, by file name (`name` and the stage).
    """
    stages = _available_stages(src, backend, options)
    _check_settings(options, stages)
    module = src.generate(backend, options)
    if knobs.runtime.add_stages_inspection_hook is not None and isinstance(module, ModuleOp):
        module.context = None  # pyright: ignore  # what stages of plug-ins make pass managers for
    timer.finished_ir()
    compilation = _Compilation(src, backend, options, metadata, name, timer)
    module = compilation.start(module)
    order = list(stages)
    first = order.index(src.ext) + (1 if isinstance(src, IRSource) else 0)
    with waiting():
        for stage in order[first:]:
            module = compilation.run(stage, stages[stage], module)
    return compilation.keep.results


def _available_stages(
    src: ASTSource | IRSource, backend: BaseBackend, options: Any
) -> dict[str, Stage]:
    """The backend's stages in order, as a plug-in's hook leaves them."""
    stages: dict[str, Stage] = {}
    backend.add_stages(stages, options, src.language)
    inspection = knobs.runtime.add_stages_inspection_hook
    if inspection is not None:
        inspection(backend, stages, options, src.language, None)
    if isinstance(src, IRSource) and src.ext not in stages:
        raise ValueError(
            f"{src.path}: '.{src.ext}' is no stage of this backend; its stages are {list(stages)}"
        )
    return stages


def _check_settings(options: Any, stages: Mapping[str, Stage]) -> None:
    """Refuse settings that no stage can honour, and warn of those without an effect."""
    if knobs.compilation.llvm_debug or knobs.compilation.llvm_debug_only:
        warnings.warn(
            "TRITON_ENABLE_LLVM_DEBUG and TRITON_LLVM_DEBUG_ONLY have no effect: only LLVM built "
            "with assertions has debug output, and that of llvmlite is built without",
            RuntimeWarning,
            stacklevel=3,
        )
    if knobs.compilation.llvm_pass_plugin:
        warn_of_plugin(knobs.compilation.llvm_pass_plugin)
    chosen = getattr(options, "ir_override", None)
    if chosen is not None and Path(chosen).suffix[1:] not in stages:
        raise ValueError(f"ir_override is {chosen!r}; it must be a file of a stage: {list(stages)}")


class _Compilation:
    """One source's way through the stages: results are kept, and replaced from files where the
    user asks for that.

    Attributes:
        known: the names in `metadata` before the first stage; stages add others.
        signature: of the kernel, as the last stage that has one states it.
        given: the file that replaced the last stage's result, to blame for errors in the next.
    """

    def __init__(
        self,
        src: ASTSource | IRSource,
        backend: BaseBackend,
        options: Any,
        metadata: dict[str, Any],
        name: str,
        timer: Timer,
    ):
        self.src, self.backend, self.options = src, backend, options
        self.metadata, self.name, self.timer = metadata, name, timer
        self.known = frozenset(metadata)
        self.keep = _Keeper(src, backend, name)
        self.replacement = replacer(src, name, options)
        self.signature: Mapping[int, str] | None = None
        self.given: str | None = None

    def start(self, module: Any) -> Any:
        """Keep the source's own module; returns the one for the first stage."""
        src = self.src
        if isinstance(src, ASTSource):
            if src.asked_options:
                self.metadata["asked_options"] = list(src.asked_options)
            self.keep("source", module)
            return module
        self.metadata.update(src.facts)
        # Nothing has changed the module since it was read: its text need not be written again.
        as_read = isinstance(module, ModuleOp) and not knobs.compilation.disable_line_info
        self.keep(src.ext, src.src if as_read else module)
        if src.is_launchable:
            self.signature = src.signature
        if knobs.compilation.use_ir_loc and isinstance(module, ModuleOp):
            module = located_in(src.path, src.src)
        return module

    def run(self, stage: str, transform: Stage, module: Any) -> Any:
        """A stage's result for that of the one before, kept as settings ask."""
        self.timer.stage = stage
        with blaming(self.given), llvm_times():
            module = transform(module, self.metadata)
        if knobs.runtime.add_stages_inspection_hook is not None and isinstance(module, ModuleOp):
            from tritium.analysis.results import forget_results  # only on a cache miss

            forget_results(module)  # which a plug-in's stage may have changed
        path = self.replacement(stage)
        if path is not None:
            module, self.given = read(path, stage, self.backend, self.options), path
        if stage == "ttir":
            self.signature = entry_signature(module)
        if knobs.compilation.use_ir_loc == stage:
            module, text = located(module, self.name, stage, self.metadata["hash"])
            self.keep(stage, text)
        else:
            same = transform is unchanged and path is None
            self.keep(stage, module, self._facts(stage, module), same)
        self.timer.finished_stage(stage)
        if stage == "llir" and knobs.compilation.dump_llvm:
            sys.stderr.write(f"; *** IR Dump of {self.name} ***\n{module}\n")
        return module

    def _facts(self, stage: str, module: Any) -> str:
        """The comment below a stage's text: what stages found out about the kernel."""
        if stage not in COMMENT or not isinstance(module, str):
            return ""
        facts = {n: v for n, v in self.metadata.items() if n == "name" or n not in self.known}
        return with_facts(stage, self.signature, facts)


@contextmanager
def llvm_times() -> Generator[None]:
    """With `knobs.compilation.llvm_timing`, write LLVM's report of what its passes took."""
    if not knobs.compilation.llvm_timing:
        yield
        return
    llvm: Any = importlib.import_module("llvmlite.binding")
    llvm.set_time_passes(True)
    try:
        yield
    finally:
        sys.stderr.write(llvm.report_and_reset_timings())
        llvm.set_time_passes(False)


class _Keeper:
    """Collects the stages' results, and dumps them where that is asked for."""

    def __init__(self, src: ASTSource | IRSource, backend: BaseBackend, name: str):
        self.binary, self.name, self.late = backend.binary_ext, name, backend.late_stages
        self.last_module, self.results = backend.last_module, Files()
        self.text: str | bytes = ""
        """The last result."""
        self.dump = get_dump_manager(source_hash(src)) if knobs.compilation.dump_ir else None

    def __call__(self, stage: str, value: Any, note: str = "", unchanged: bool = False) -> None:
        """Keep a stage's result; `unchanged`: it is that of the stage before."""
        late = stage in self.late and not isinstance(value, str)  # which a file has replaced
        if late and self.dump is None:
            return
        filename = f"{self.name}.{stage}"
        kept = not late and not knobs.compilation.store_binary_only
        # A plug-in's stages may change a module that ours only read.
        ours = knobs.runtime.add_stages_inspection_hook is None
        if stage == self.last_module and kept and ours and self.dump is None:
            self.results[filename] = ""  # in its place among the others
            put_off(lambda: self.results.update({filename: _as_text(value)}))
            return
        if not unchanged:
            self.text = _as_text(value)
        text = self.text
        if note and isinstance(text, str):
            text = f"{text.rstrip()}\n{note}"
        if kept or stage == self.binary:
            self.results[filename] = text
        if self.dump is not None:
            self.dump.put(text, filename)


def located(module: ModuleOp, name: str, stage: str, key: str) -> tuple[ModuleOp, str]:
    """A stage's module with its ops' locations in the file of that stage, and that file's text."""
    from tritium.ir.printing import print_module  # as below

    text = print_module(module, locations=False)
    return located_in(Path(get_cache_manager(key).put(text, f"{name}.{stage}")), text), text


def located_in(path: Path, text: str) -> ModuleOp:
    """The module of a file, with the places in that file as its ops' locations."""
    from tritium.ops.parsing import parse_module  # only on a cache miss

    print(f"Creating new locations for {path}")
    return parse_module(text, str(path), here=True)


def _as_text(value: Any) -> str | bytes:
    """A stage's result as it is stored."""
    if isinstance(value, ModuleOp):
        from tritium.ir.printing import print_module  # only on a cache miss

        return print_module(value, locations=not knobs.compilation.disable_line_info)
    return value if isinstance(value, (str, bytes)) else str(value)


@functools.cache
def warn_of_plugin(path: str) -> None:
    """Say, once in a process, that passes of a library are not run."""
    warnings.warn(
        f"LLVM_PASS_PLUGIN_PATH={path} has no effect: llvmlite cannot load passes from a library; "
        "knobs.runtime.add_stages_inspection_hook can change the text of the stage llir",
        RuntimeWarning, stacklevel=3,
    )  # fmt: skip
