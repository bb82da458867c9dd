"""Building small Python extension modules from C, for backends of others.

Tritium itself needs no C compiler.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import platform
import shlex
import shutil
import subprocess
import sysconfig
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from tritium import cache, knobs


@functools.cache
def platform_key() -> str:
    """The machine, system and Python that a built module is for."""
    return ",".join([platform.machine(), platform.system(), *platform.architecture(), _suffix()])


def _suffix() -> str:
    return sysconfig.get_config_var("EXT_SUFFIX") or ".so"


def _compiler() -> list[str]:
    if chosen := knobs.build.cc:
        try:
            return shlex.split(chosen)
        except ValueError as error:
            raise RuntimeError(
                f"CC={chosen} (knobs.build.cc) is no command line: {str(error).lower()}"
            ) from None
    for name in ("gcc", "clang"):
        if path := shutil.which(name):
            return [path]
    raise RuntimeError(
        "no C compiler was found: there is no gcc or clang on PATH; set CC to the path of one"
    )


def _build(
    name: str,
    src: str,
    srcdir: str,
    library_dirs: Sequence[str],
    include_dirs: Sequence[str],
    libraries: Sequence[str],
    ccflags: Sequence[str],
) -> str:
    """Build the C file `src` into a module in the folder `srcdir`; returns its path.

    Raises `RuntimeError` with the compiler's messages.
    """
    if knobs.build.impl is not None:
        made: Any = knobs.build.impl(
            name, src, srcdir, list(library_dirs), list(include_dirs), list(libraries)
        )
        if not isinstance(made, (str, Path)) or not os.path.isfile(made):
            raise RuntimeError(
                f"knobs.build.impl returned {made!r} for {name}; the path of the module that it "
                "has built is required"
            )
        return str(made)
    target = os.path.join(srcdir, f"{name}{_suffix()}")
    cuda = sorted(knobs.build.backend_dirs)
    paths = [sysconfig.get_path("include"), srcdir, *include_dirs, *cuda]
    command = [
        *_compiler(), src, "-O3", "-shared", "-fPIC", "-Wno-psabi", "-o", target,
        *(f"-l{library}" for library in libraries), *(f"-L{folder}" for folder in library_dirs),
        *(f"-I{folder}" for folder in paths), *ccflags,
    ]  # fmt: skip
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError as error:
        raise RuntimeError(f"the C compiler {command[0]} cannot be run: {error}") from error
    if done.returncode:
        raise RuntimeError(f"building {name} failed: {shlex.join(command)}\n{done.stderr.strip()}")
    return target


def _load(name: str, path: str) -> ModuleType:
    """Import the module from the file. Raises `ImportError` if it is damaged."""
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no extension module")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def compile_module_from_src(
    src: str,
    name: str,
    library_dirs: Sequence[str] | None = None,
    include_dirs: Sequence[str] | None = None,
    libraries: Sequence[str] | None = None,
    ccflags: Sequence[str] | None = None,
) -> ModuleType:
    """The Python extension module `name` of this C source, built once and kept in the cache.

    It is built by `$CC`, gcc or clang, or by `knobs.build.impl`. What is cached and cannot be
    imported is built again, with a warning. Raises `RuntimeError` if building fails, `TypeError`
    for arguments.
    """
    if not isinstance(src, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"compile_module_from_src: src is {src!r}; C source, a str, is required")
    given = {
        "library_dirs": library_dirs, "include_dirs": include_dirs, "libraries": libraries,
        "ccflags": ccflags,
    }  # fmt: skip
    for part, value in given.items():
        if isinstance(value, str):
            raise TypeError(f"compile_module_from_src: {part} is {value!r}; a list is required")
    lists = [list(value or ()) for value in given.values()]
    key = hashlib.sha256("\0".join([src, platform_key(), repr(lists[2:])]).encode()).hexdigest()
    filename = f"{name}{_suffix()}"
    path = (cache.find(key, filename) or {}).get(filename)
    if path is not None:
        try:
            return _load(name, path)
        except (RuntimeError, ImportError) as error:
            warnings.warn(
                f"the cached module {path} cannot be imported ({error}); it is built again",
                RuntimeWarning,
                stacklevel=2,
            )
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, f"{name}.c")
        Path(file).write_text(src, encoding="utf-8")
        built = Path(_build(name, file, folder, *lists)).read_bytes()
    path = cache.publish(key, filename, {filename: built}, replace=path is not None)[filename]
    return _load(name, path)
