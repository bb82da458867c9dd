"""`compile`: from a source, through a backend's stages or the cache, to a `CompiledKernel`."""

from __future__ import annotations

import gc
import hashlib
import importlib
import json
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, is_dataclass
from pathlib import Path
from typing import Any, NamedTuple, cast

from tritium import cache, knobs
from tritium.backends.active import driver
from tritium.backends.base import BaseBackend, make_backend
from tritium.compiler.kernel import CompiledKernel
from tritium.compiler.key import cache_invalidating_env_vars, get_cache_key
from tritium.compiler.overrides import replacements
from tritium.compiler.sources import ASTSource, IRSource
from tritium.compiler.stages import Files, Timer, run_stages
from tritium.errors import StageFileError, TritonError
from tritium.target import GPUTarget
from tritium.version import REFERENCE_VERSION, __version__

_MAX_NAME = 150


class Compiled(NamedTuple):
    """The result of a compilation, as it is passed between processes."""

    files: Files
    """The stages' results by file name."""
    metadata: dict[str, Any]
    ir_initialization: int
    stages: list[tuple[str, int]]


@dataclass(frozen=True)
class Compilation:
    """A source with all that decides on its result. Picklable where the source is (kernels travel
    by name), so that it can run elsewhere: `store(job.run())`."""

    src: ASTSource | IRSource
    backend: BaseBackend
    options: Any
    env_vars: Mapping[str, str]
    changes: str
    """The part of the key that a hook and replaced stages add."""
    key: str

    @property
    def name(self) -> str:
        """The names of the result's files."""
        return self.src.name[:_MAX_NAME]

    def identity(self) -> tuple[str, str]:
        """The compiler's version and the backend's hash, in this process."""
        return __version__, self.backend.hash()

    def code_key(self) -> str:
        """The key without the options that have no effect: compilations that share it share their
        code, unless the kernel asks for one of those."""
        none = self.backend.without_effect(self.options)
        if not none:
            return self.key
        effective = {n: v for n, v in _fields(self.options).items() if n not in none}
        neutral = type(self.options)(**effective)
        return get_cache_key(self.src, self.backend, neutral, self.env_vars) + self.changes

    def adopt(self, made: Compiled) -> Compiled | None:
        """Another compilation's result as this one's, which has the same `code_key`; None if the
        kernel asked for an option in which they may differ."""
        if self.backend.without_effect(self.options) & set(made.metadata.get("asked_options", ())):
            return None
        return made._replace(
            metadata={**made.metadata, "hash": self.key, **_fields(self.options)},
            ir_initialization=0, stages=[],
        )  # fmt: skip

    def find(self) -> Mapping[str, str] | None:
        """The paths of the result's files by name, if the cache has all that a launch needs."""
        if knobs.compilation.always_compile:
            return None
        group = cache.find(self.key, f"{self.name}.json")
        needed = (f"{self.name}.json", f"{self.name}.{self.backend.binary_ext}")
        return group if group is not None and all(file in group for file in needed) else None

    def load_compiler(self) -> None:
        """Import what `run` needs, which processes that find their kernels cached never do."""
        importlib.import_module("tritium.frontend.module")
        self.backend.add_stages({}, self.options, self.src.language)

    def run(self, timer: Timer | None = None) -> Compiled:
        """Compile, past the cache."""
        with _few_collections():
            return self._run(timer)

    def _run(self, timer: Timer | None) -> Compiled:
        timer = timer or Timer()
        metadata = {
            "hash": self.key,
            "target": asdict(self.backend.target),
            **_fields(self.options),
            **self.env_vars,
            "triton_version": REFERENCE_VERSION,
        }
        metadata["name"] = getattr(self.src, "entry", self.src.name)
        arguments = (self.src, self.backend, self.options)
        try:
            files = run_stages(*arguments, metadata, self.name, timer)
        except TritonError as error:
            from tritium.backends.pipeline import reproducing  # where it failed, it is loaded
            from tritium.compiler.faults import at_source, context
            from tritium.passes import PassError

            # Once more for what the failing pass was given: to keep it always would take longer.
            if isinstance(error, PassError) or isinstance(error.__cause__, PassError):
                with reproducing(), suppress(PassError, StageFileError):
                    run_stages(*arguments, dict(metadata), self.name, Timer())
            if isinstance(error, PassError):
                message = f"{error.message}\n{context(error, self.src, timer.stage)}"
                raise PassError(error.pass_name, message, error.pipeline) from error.__cause__
            if (found := at_source(error, self.src)) is not None:
                raise found from error
            raise
        except Exception as error:
            from tritium.compiler.faults import at_source, internal_error, is_fault

            if (found := at_source(error, self.src)) is not None:
                raise found from error
            if not is_fault(error, self.src):
                raise
            raise internal_error(error, self.src, timer.stage) from error
        return Compiled(files, metadata, timer.ir_initialization, timer.stages)

    def store(self, made: Compiled, timer: Timer | None = None) -> CompiledKernel:
        """Keep a result in the cache, tell the listener, and make the kernel."""
        if timer is None:
            timer = Timer()
            timer.ir_initialization, timer.stages = made.ir_initialization, made.stages
        # Stored only now, all together: an interrupted compilation leaves nothing to be found.
        data = json.dumps(made.metadata, default=_plain)
        files = {**made.files, f"{self.name}.json": data}
        again = knobs.compilation.always_compile
        group = cache.publish(self.key, f"{self.name}.json", files, replace=again)
        _report(self.src, made.metadata, group, timer, hit=False)
        return CompiledKernel(self.src, group, self.key)


_YOUNG = 150_000
"""Objects made before Python looks for garbage while a kernel is compiled, some 30 MB of ops."""


@contextmanager
def _few_collections() -> Generator[None]:
    """Look for garbage seldom: most of what a compilation makes lives as long as it does, so that
    looking after every 700 objects takes a tenth of the time and finds little."""
    first, *others = gc.get_threshold()
    if not 0 < first < _YOUNG:  # turned off, or another thread compiles
        yield
        return
    gc.set_threshold(_YOUNG, *others)
    try:
        yield
    finally:
        gc.set_threshold(first, *others)


def prepare(
    src: ASTSource | IRSource | str | Path,
    target: GPUTarget | None = None,
    options: Mapping[str, Any] | None = None,
    env_vars: Mapping[str, str] | None = None,
) -> Compilation:
    """A plan of `compile` with these arguments; nothing is compiled yet.

    Raises `TypeError` or `ValueError` for arguments.
    """
    if target is None:
        target = driver.active.get_current_target()
    if not isinstance(target, GPUTarget):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"target must be of GPUTarget type; got {target!r}")
    backend = make_backend(target)
    if isinstance(src, (str, os.PathLike)):
        src = IRSource(src, None, backend)
    if not isinstance(src, (ASTSource, IRSource)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"source must be either AST or a filepath; got {src!r}")
    parsed = backend.parse_options({**(options or {}), **src.parse_options()})
    variables = cache_invalidating_env_vars() if env_vars is None else dict(env_vars)
    changes = replacements(src, parsed)
    inspection = knobs.runtime.add_stages_inspection_hook
    if inspection is not None:
        key_and_hash: Any = inspection()
        changes = key_and_hash[0] + changes
    text = get_cache_key(src, backend, parsed, variables) + changes
    key = hashlib.sha256(text.encode()).hexdigest()
    return Compilation(src, backend, parsed, variables, changes, key)


def compile(
    src: ASTSource | IRSource | str | Path,
    target: GPUTarget | None = None,
    options: Mapping[str, Any] | None = None,
    _env_vars: Mapping[str, str] | None = None,
) -> CompiledKernel:
    """Compile a kernel, or take it from the cache.

    Args:
        src: an `ASTSource`, or the path of a file holding a stage's text (`k.ttir`).
        target: what to compile for; the active driver's target by default.
        options: the backend's options by name.

    Raises: `CompilationError` for errors in the kernel, `TypeError` or `ValueError` for arguments.
    """
    timer = Timer()
    with _few_collections():  # reading a text makes as many objects as its passes
        job = prepare(src, target, options, _env_vars)
        return from_cache(job, timer) or job.store(job.run(timer), timer)


def from_cache(job: Compilation, timer: Timer | None = None) -> CompiledKernel | None:
    """The kernel, if the cache has it."""
    group = job.find()
    if group is None:
        return None
    try:
        kernel = CompiledKernel(job.src, group, job.key)
        metadata = _stored(group, job.name)
    except FileNotFoundError:  # somebody has just cleared the cache
        return None
    _report(job.src, metadata, group, timer or Timer(), hit=True)
    return kernel


def _report(src: Any, metadata: Mapping[str, Any], group: Any, timer: Timer, hit: bool) -> None:
    listener = knobs.compilation.listener
    if listener is not None:
        times = timer.end(hit)
        data = {**metadata, "target": GPUTarget(**metadata["target"])}
        listener(src=src, metadata=data, metadata_group=group, times=times, cache_hit=hit)


def _stored(group: Mapping[str, str], name: str) -> dict[str, Any]:
    if knobs.compilation.listener is None:
        return {}
    return json.loads(Path(group[f"{name}.json"]).read_text(encoding="utf-8"))


def _fields(options: Any) -> dict[str, Any]:
    return asdict(options) if is_dataclass(options) else options.__dict__  # pyright: ignore


def _plain(value: Any) -> Any:
    """Option values that JSON does not know."""
    if isinstance(value, (set, frozenset, tuple)):
        return list(cast("tuple[Any, ...]", value))
    return str(value)
