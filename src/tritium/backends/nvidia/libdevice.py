"""NVIDIA's library of device functions (`libdevice.10.bc`), and other LLVM bitcode: found, linked.

A kernel that calls no function of it never touches the file. What is linked becomes internal, so
that inlining leaves of it only what the kernel uses.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tritium import knobs
from tritium.codegen.llvm.bitcode import link_called, link_files, make_internal

NAME = "libdevice.10.bc"


def _candidates() -> Iterator[Path]:
    """The places of the file: NVIDIA's packages, a CUDA toolkit, an installed Triton."""
    for entry in sys.path:
        root = Path(entry or ".")
        yield from sorted(root.glob(f"nvidia/*/nvvm/libdevice/{NAME}"), reverse=True)
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if home := knobs.getenv(variable):
            yield Path(home, "nvvm", "libdevice", NAME)
    for root in sorted(Path("/usr/local").glob("cuda*"), key=lambda p: (len(p.name), p.name)):
        yield root / "nvvm" / "libdevice" / NAME
    for entry in sys.path:
        yield Path(entry or ".", "triton", "backends", "nvidia", "lib", NAME)


def find() -> Path | None:
    """The file, which `TRITON_LIBDEVICE_PATH` may name; None where there is none."""
    chosen = knobs.nvidia.libdevice_path
    if chosen is not None:
        return Path(chosen) if os.path.isfile(chosen) else None
    return next((path for path in _candidates() if path.is_file()), None)


def link(module: Any, paths: Sequence[str], machine: Any, context: Any) -> bool:
    """Link into a module the bitcode files `paths`, and libdevice if it is called; returns whether
    anything was linked.

    Raises: `FileNotFoundError` that says how to get libdevice; `RuntimeError` for bad bitcode, and
    for a function that is in none of the files.
    """
    here = {f.name: not f.is_declaration for f in module.functions}
    link_files(module, paths, context)
    needed = [name for name, own in here.items() if name.startswith("__nv_") and not own]
    missing = [name for name in needed if module.get_function(name).is_declaration]
    if missing:
        path = find()
        if path is None:
            raise FileNotFoundError(_advice(missing))
        link_called(module, path, machine, context)
        for name in missing:
            if module.get_function(name).is_declaration:
                raise RuntimeError(f"{path} has no function {name!r}")
    if paths or missing:
        make_internal(module, {name for name, own in here.items() if own})
    return bool(paths or missing)


def _advice(missing: Sequence[str]) -> str:
    chosen = knobs.nvidia.libdevice_path
    where = "no file was found" if chosen is None else f"TRITON_LIBDEVICE_PATH names {chosen!r}"
    return (
        f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} in NVIDIA's {NAME}, but "
        f"{where}. It is in a CUDA toolkit and in the package nvidia-nvvm (pip install "
        "nvidia-nvvm); TRITON_LIBDEVICE_PATH may name the file."
    )
