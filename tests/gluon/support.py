"""Running Gluon kernels: interpreted, compiled by `codegen/gpu` for warps on the CPU, on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import tritium
from tests.simt.backend import installed
from tests.simt.backend.driver import SimtDriver
from tests.support.device import from_gpu, to_gpu
from tritium.backends import active
from tritium.experimental import gluon
from tritium.experimental.gluon._runtime import InterpretedGluonFunction
from tritium.target import GPUTarget

Launch = Callable[..., None]
HOW = ("interpreted", "simt")


def launcher(how: str) -> Launch:
    """`launch(kernel, grid, *arguments, **constants)`, of NumPy arrays, in one of the ways of `HOW`
    or on a "gpu"."""
    return {"interpreted": _interpreted, "simt": _on_simt, "gpu": _on_gpu}[how]


def _interpreted(kernel: Any, grid: Any, *arguments: Any, **constants: Any) -> None:
    InterpretedGluonFunction(kernel.fn)[grid](*arguments, **constants)


def _on_simt(kernel: Any, grid: Any, *arguments: Any, **constants: Any) -> None:
    with installed():
        active.driver.set_active(SimtDriver(32))
        try:
            kernel[grid](*arguments, **constants)
        finally:
            active.driver.reset_active()


def _on_gpu(kernel: Any, grid: Any, *arguments: Any, **constants: Any) -> None:
    moved = [to_gpu(a) if isinstance(a, np.ndarray) else a for a in arguments]
    kernel[grid](*moved, **constants)
    for array, tensor in zip(arguments, moved, strict=True):
        if isinstance(array, np.ndarray):
            from_gpu(tensor, array)


def compiled(
    kernel: Any, types: str, constants: Mapping[str, Any] | None = None, arch: int = 90,
    aligned: bool = True, **options: Any,
) -> Any:  # fmt: skip
    """A kernel compiled for a GPU; `types`: those of its arguments but the constants."""
    given = dict(constants or {})
    names: Sequence[str] = [n for n in kernel.arg_names if n not in given]
    signature = dict(zip(names, types.split(), strict=True)) | dict.fromkeys(given, "constexpr")
    positions = [kernel.arg_names.index(n) for n in names]
    attrs = {(i,): [["tt.divisibility", 16]] for i in positions if aligned}
    source = gluon.GluonASTSource(kernel, signature, given, attrs)
    return tritium.compile(source, target=GPUTarget("cuda", arch, 32), options=options)
