"""`compile`: from a source, through a backend's stages or the cache, to a `CompiledKernel`."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any, cast

from xdsl.dialects.builtin import ModuleOp

from tritium import knobs
from tritium.backends.active import driver
from tritium.backends.base import BaseBackend, Stage, make_backend
from tritium.cache import get_cache_manager, get_dump_manager, get_override_manager
from tritium.compiler.kernel import CompiledKernel
from tritium.compiler.key import cache_invalidating_env_vars, get_cache_key
from tritium.compiler.sources import ASTSource, IRSource
from tritium.target import GPUTarget
from tritium.version import REFERENCE_VERSION

_MAX_NAME = 150


class _Timer:
    """Microseconds spent in each part of a compilation."""

    def __init__(self) -> None:
        self.start = self.last = time.perf_counter()
        self.ir_initialization = 0
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


def _as_text(value: Any) -> str | bytes:
    """A stage's result as it is stored."""
    if isinstance(value, ModuleOp):
        from tritium.ir.printing import print_module  # only on a cache miss

        return print_module(value, locations=not knobs.compilation.disable_line_info)
    return value if isinstance(value, (str, bytes)) else str(value)


def _report(src: Any, metadata: Mapping[str, Any], group: Any, timer: _Timer, hit: bool) -> None:
    listener = knobs.compilation.listener
    if listener is not None:
        times = timer.end(hit)
        data = dict(metadata)
        listener(src=src, metadata=data, metadata_group=group, times=times, cache_hit=hit)


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
    timer = _Timer()
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
    env_vars = cache_invalidating_env_vars() if _env_vars is None else _env_vars
    text = get_cache_key(src, backend, parsed, env_vars)
    inspection = knobs.runtime.add_stages_inspection_hook
    if inspection is not None:
        key_and_hash: Any = inspection()
        text += key_and_hash[0]
    text += _replacements(src, parsed)
    key = hashlib.sha256(text.encode()).hexdigest()
    name = src.name[:_MAX_NAME]
    cache = get_cache_manager(key)
    group = cache.get_group(f"{name}.json")
    needed = (f"{name}.json", f"{name}.{backend.binary_ext}")
    complete = group is not None and all(file in group for file in needed)
    if group is not None and complete and not knobs.compilation.always_compile:
        _report(src, _stored(group, name), group, timer, hit=True)
        return CompiledKernel(src, group, key)
    metadata = {
        "hash": key,
        "target": asdict(target),
        **_fields(parsed),
        **env_vars,
        "triton_version": REFERENCE_VERSION,
    }
    metadata["name"] = src.name
    results = _run_stages(src, backend, parsed, metadata, name, timer)
    # Stored only now, and the group last: an interrupted compilation leaves nothing to be found.
    written = {filename: cache.put(result, filename) for filename, result in results.items()}
    data = json.dumps(metadata, default=_plain)
    written[f"{name}.json"] = cache.put(data, f"{name}.json", binary=False)
    cache.put_group(f"{name}.json", written)
    _report(src, metadata, written, timer, hit=False)
    return CompiledKernel(src, written, key)


def _replacements(src: Any, options: Any) -> str:
    """What tells apart compilations with files in place of stages: those files' contents."""
    paths: list[Path] = []
    if getattr(options, "ir_override", None):
        paths.append(Path(options.ir_override))
    if knobs.compilation.override:
        folder = get_override_manager(_source_hash(src)).get_file("")
        paths += sorted(Path(folder).iterdir()) if folder is not None else []
    return "".join(f"-{p.name}:{hashlib.sha256(p.read_bytes()).hexdigest()}" for p in paths)


def _source_hash(src: Any) -> str:
    return hashlib.sha256(src.hash().encode()).hexdigest()


def _stored(group: Mapping[str, str], name: str) -> dict[str, Any]:
    if knobs.compilation.listener is None:
        return {}
    return json.loads(Path(group[f"{name}.json"]).read_text())


def _fields(options: Any) -> dict[str, Any]:
    return asdict(options) if is_dataclass(options) else options.__dict__  # pyright: ignore


def _plain(value: Any) -> Any:
    """Option values that JSON does not know."""
    if isinstance(value, (set, frozenset, tuple)):
        return list(cast("tuple[Any, ...]", value))
    return str(value)


def _run_stages(
    src: ASTSource | IRSource,
    backend: BaseBackend,
    options: Any,
    metadata: dict[str, Any],
    name: str,
    timer: _Timer,
) -> dict[str, str | bytes]:
    """Run all stages after the source's own; returns the files to store, by name."""
    stages: dict[str, Stage] = {}
    backend.add_stages(stages, options, src.language)
    inspection = knobs.runtime.add_stages_inspection_hook
    if inspection is not None:
        inspection(backend, stages, options, src.language, None)
    order = list(stages)
    if isinstance(src, IRSource) and src.ext not in stages:
        raise ValueError(
            f"{src.path}: '.{src.ext}' is no stage of this backend; its stages are {order}"
        )
    first = order.index(src.ext) + (1 if isinstance(src, IRSource) else 0)
    module = src.make_ir(backend, options)
    timer.finished_ir()
    source_hash = _source_hash(src)
    override = get_override_manager(source_hash) if knobs.compilation.override else None
    dump = get_dump_manager(source_hash) if knobs.compilation.dump_ir else None
    results: dict[str, str | bytes] = {}

    def keep(stage: str, value: Any) -> None:
        filename = f"{name}.{stage}"
        text = _as_text(value)
        if not knobs.compilation.store_binary_only or stage == backend.binary_ext:
            results[filename] = text
        if dump is not None:
            dump.put(text, filename)

    keep("source" if isinstance(src, ASTSource) else src.ext, module)
    for stage in order[first:]:
        module = stages[stage](module, metadata)
        replacement = _replacement(f"{name}.{stage}", stage, options, override)
        if replacement is not None:
            data = Path(replacement).read_bytes()
            text: Any = data if stage == backend.binary_ext else data.decode()
            module = backend.parse_stage(stage, text, options)
        keep(stage, module)
        timer.finished_stage(stage)
    return results


def _replacement(filename: str, stage: str, options: Any, override: Any) -> str | None:
    """The file that replaces a stage's result, if the user put one in place."""
    per_config = getattr(options, "ir_override", None)
    if per_config is not None and str(per_config).endswith(f".{stage}"):
        return str(per_config)
    if override is not None and (path := override.get_file(filename)) is not None:
        print(f"\nOverriding kernel with file {path}")
        return path
    return None
