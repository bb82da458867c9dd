"""Running a pipeline of passes as the settings say: dumps, times, reproducers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from tritium import knobs
from tritium.ir.printing import print_module
from tritium.ir.reproducer import with_reproducer
from tritium.passes import PassError, PassManager, dump_before, pipelines, timing_report
from tritium.passes.base import IR, Pass, pipeline_text


def run_pipeline(module: IR, passes: Sequence[Pass[IR]], stage: str, verify: bool = True) -> IR:
    """Run the passes of a stage over the module, in place, and `verify` the result, unless other
    passes of the stage follow.

    `knobs.compilation` decides what is written beside: `dump_passes` the module before each pass,
    `pass_timing` a table of times, `reproducer_path` a file `PATH.STAGE.repro.mlir` with the module
    and the pipeline, which `tritium opt` runs again. Inside of `reproducing()` the same goes to
    standard error where a pass fails. Forms of a module that `tritium opt` does not read have no
    such file.
    """
    settings = knobs.compilation
    dump, path = settings.dump_passes, settings.dump_passes_path
    reproducer = ""
    readable = isinstance(module, ModuleOp)
    if readable and (settings.reproducer_path or _reproducing.get()):  # printing takes long
        reproducer = with_reproducer(print_module(module), pipeline_text(passes))
    if reproducer and settings.reproducer_path:
        with _written("TRITON_REPRODUCER_PATH", settings.reproducer_path):
            place = Path(f"{settings.reproducer_path}.{stage}.repro.mlir")
            place.write_text(reproducer, encoding="utf-8")
    wanted = dump and dump.lower() not in knobs.FALSE_WORDS
    with _written("MLIR_DUMP_PATH", path):
        if wanted and path:
            file = open(path, "a", encoding="utf-8")  # noqa: SIM115
        else:
            file = nullcontext(sys.stderr)
    with file as stream:
        kernel = None if dump is None or dump.lower() in knobs.TRUE_WORDS else dump
        hook = dump_before(stream, kernel) if wanted else None
        manager: PassManager[IR] = PassManager(passes, before=hook, continues=True)
        _observe(manager, module, stage)
        try:
            manager.run(module)
        except PassError as error:
            if reproducer and _reproducing.get():
                note = f"pass {error.pass_name} failed; `tritium opt FILE` runs this again:"
                sys.stderr.write(f"error: {error}\nnote: {note}\n{reproducer}\n")
            raise
    if settings.pass_timing:
        sys.stderr.write(timing_report(manager.timings))
    if verify:
        module.verify()
    return module


def make_ttir(module: ModuleOp, metadata: dict[str, Any]) -> ModuleOp:
    """Inline and simplify: the first stage of all backends."""
    return run_pipeline(module, pipelines.ttir(), "make_ttir")


def make_ttgir_of_gluon(module: Any, metadata: dict[str, Any], mode: str, **facts: Any) -> Any:
    """Find the layouts that a program of Gluon leaves open, and simplify. `mode`: as of
    `instrument`; `facts`: as `pipelines.gluon` takes them."""
    run_pipeline(module, pipelines.gluon(**facts), "gluon_to_ttgir")
    instrument(module, metadata, mode, gluon=True)
    return module


@contextmanager
def _written(variable: str, path: str | None) -> Generator[None]:
    """A file that a setting names is opened or written. Raises `RuntimeError` if that fails."""
    try:
        yield
    except OSError as error:
        raise RuntimeError(f"Unable to use {variable}={path}: {error}") from error


Observer = Callable[[str, Pass[Any] | None, Any, float], None]
"""Called with a stage, the pass that has run (None before the first), the module and the seconds
that the pass took."""

_observer: ContextVar[Observer | None] = ContextVar("observer", default=None)


def _observe(manager: PassManager[IR], module: IR, stage: str) -> None:
    observer = _observer.get()
    if observer is not None:
        observer(stage, None, module, 0.0)

        def after(item: Pass[IR], unit: IR) -> None:
            observer(stage, item, unit, manager.timings[-1][1])

        manager.after = after


@contextmanager
def observing(observer: Observer) -> Generator[None]:
    """Call a function before and after all passes that this thread runs."""
    token = _observer.set(observer)
    try:
        yield
    finally:
        _observer.reset(token)


_reproducing: ContextVar[bool] = ContextVar("reproducing", default=False)


@contextmanager
def reproducing() -> Generator[None]:
    """Print the input of a failing pass."""
    token = _reproducing.set(True)
    try:
        yield
    finally:
        _reproducing.reset(token)


def instrument(module: Any, metadata: dict[str, Any], mode: str, *, gluon: bool = False) -> None:
    """Put the checks or records of a mode into a kernel for a GPU."""
    if mode:
        from tritium.sanitize.passes import sanitizer  # which few kernels are compiled with

        passes, metadata["sanitizer"] = sanitizer(module, mode, on_gpu=True, gluon=gluon)
        run_pipeline(module, passes, "instrument")
