"""Files that users put in place of a stage's result: found, read, and named where they are at
fault."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from tritium import knobs
from tritium.backends.base import BaseBackend
from tritium.cache import get_override_manager
from tritium.compiler.sources import ENTRY, ASTSource, IRSource
from tritium.errors import OutOfResources, StageFileError


def source_hash(src: ASTSource | IRSource) -> str:
    """The key of a source's dumps and overrides, independent of compiler and options."""
    return hashlib.sha256(src.hash().encode()).hexdigest()


def replacements(src: ASTSource | IRSource, options: Any) -> str:
    """The key part of files that replace stages: a digest of their contents."""
    paths: list[Path] = []
    if getattr(options, "ir_override", None):
        paths.append(Path(options.ir_override))
        if not paths[0].is_file():
            raise FileNotFoundError(f"ir_override: there is no file {options.ir_override}")
    if knobs.compilation.override:
        folder = get_override_manager(source_hash(src)).get_file("")
        found = sorted(Path(folder).iterdir()) if folder is not None else []
        paths += [path for path in found if path.is_file()]
    return "".join(f"-{p.name}:{hashlib.sha256(p.read_bytes()).hexdigest()}" for p in paths)


def replacer(
    src: ASTSource | IRSource, name: str, options: Any
) -> Callable[[str], str | None]:
    """A function from a stage to the file that replaces its result, if the user has put one in
    place."""
    override = get_override_manager(source_hash(src)) if knobs.compilation.override else None
    chosen = getattr(options, "ir_override", None)

    def replacement(stage: str) -> str | None:
        if chosen is not None and str(chosen).endswith(f".{stage}"):
            return str(chosen)
        if override is not None and (path := override.get_file(f"{name}.{stage}")) is not None:
            print(f"\nOverriding kernel with file {path}")
            return path
        return None

    return replacement


def read(path: str, stage: str, backend: BaseBackend, options: Any) -> Any:
    """A stage's result from a file. Raises `StageFileError`, or `ParseError` with the file's path,
    if it is none."""
    with blaming(path):
        data = Path(path).read_bytes()
        text: Any = data if stage == backend.binary_ext else data.decode()
        if stage in ENTRY and ENTRY[stage].search(text) is None:
            raise StageFileError(f"no kernel is defined in this {stage} text")
        result = backend.parse_stage(stage, text, options)
        if isinstance(result, ModuleOp):
            result.verify()
        return result


@contextmanager
def blaming(path: str | None) -> Generator[None]:
    """Name the file in the errors of what follows from it; nothing for None."""
    try:
        yield
    except OutOfResources:
        raise
    except Exception as error:
        if path is None:
            raise
        from tritium.ops.parsing import ParseError  # where it may have been raised, it is loaded

        if isinstance(error, ParseError):
            place = error.line, error.column, error.source
            raise ParseError(error.reason, path, *place) from error
        # LLVM calls a text without a name so, and then tells the line.
        text = str(error).replace("<string>:", f"{path}:")
        raise StageFileError(text if f"{path}:" in text else f"{path}: {text}") from error
