"""Running Gluon kernels: interpreted, compiled by `codegen/gpu` for warps on the CPU, on a GPU."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import tritium
from tests.simt.backend import installed
from tests.simt.backend.compiler import run_ttgir
from tests.simt.backend.driver import SimtDriver
from tests.simt.engine import descriptor
from tests.simt.hardware import Simt
from tests.support.device import from_gpu, to_gpu
from tritium.backends import active
from tritium.experimental import gluon
from tritium.experimental.gluon._runtime import InterpretedGluonFunction
from tritium.experimental.gluon.nvidia.hopper import TensorDescriptor, TensorDescriptorIm2Col
from tritium.launch.signature import canonical_dtype
from tritium.ops.parsing import parse_module
from tritium.sanitize.launch import Checks
from tritium.sanitize.report import REPORT, run_checked
from tritium.target import GPUTarget

DESCRIPTORS = TensorDescriptor, TensorDescriptorIm2Col
Launch = Callable[..., None]
HOW = ("interpreted", "simt", "sm_80", "sm_90")


def launcher(how: str) -> Launch:
    """`launch(kernel, grid, *arguments, **constants)`, of NumPy arrays, in one of the ways of `HOW`
    or on a "gpu". "sm_80": interpreted, and assembled for such a GPU; "engine": what is compiled
    for sm_90, by the engine of `simt`."""
    if how == "engine":
        return _on_engine
    if how.startswith("sm_"):
        return functools.partial(_assembled, int(how[3:]))
    return {"interpreted": _interpreted, "simt": _on_simt, "gpu": _on_gpu}[how]


def _assembled(arch: int, kernel: Any, grid: Any, *arguments: Any, **constants: Any) -> None:
    options = {n: constants[n] for n in ("num_warps", "num_ctas") if n in constants}
    types = " ".join(type_of(a) for a in arguments)
    own = {n: v for n, v in constants.items() if n in kernel.arg_names}
    assert compiled(kernel, types, own, arch, **options).asm["cubin"].startswith(b"\x7fELF")
    _interpreted(kernel, grid, *arguments, **constants)


def _on_engine(kernel: Any, grid: Any, *arguments: Any, **constants: Any) -> None:
    warps = constants.get("num_warps", 4)
    types = " ".join(type_of(a) for a in arguments)
    own = {n: v for n, v in constants.items() if n in kernel.arg_names}
    mode = {n: v for n, v in constants.items() if n == "instrumentation_mode"}
    mode |= {n: v for n, v in constants.items() if n == "num_ctas"}
    made = compiled(kernel, types, own, num_warps=warps, **mode)
    kept: list[np.ndarray] = []
    slots = slots_of(arguments, kept)

    def run(more: Sequence[int] = ()) -> None:
        run_ttgir(parse_module(made.asm["ttgir"]), warps, [*slots, *more], grid, Simt(32))

    data = getattr(made.metadata, "sanitizer", None)
    if not data:
        return run()
    bases = [a.base if isinstance(a, DESCRIPTORS) else a for a in arguments]
    names = [name for name in kernel.arg_names if name not in own]
    checks, record = Checks(data, names, made.metadata.name), np.zeros(1, REPORT)
    run_checked(checks, bases, grid, record.ctypes.data, run)


def slots_of(arguments: Sequence[Any], kept: list[np.ndarray]) -> list[Any]:
    """The words by which the engine hands arguments over; `kept` gets memory of which some are
    addresses."""
    slots: list[Any] = []
    for argument in arguments:
        if isinstance(argument, DESCRIPTORS):
            kept.append(descriptor(argument))
            slots += [kept[-1].ctypes.data, *argument.shape, *argument.strides]
        elif isinstance(argument, np.ndarray):
            slots.append(argument.ctypes.data)
        elif isinstance(argument, float):
            slots.append(np.float32(argument).view(np.uint32))
        else:
            slots.append(argument & 0xFFFFFFFF)
    return slots


def type_of(argument: Any) -> str:
    """The type of an argument in a signature."""
    if isinstance(argument, (int, float)):
        return "i32" if isinstance(argument, int) else "fp32"
    if isinstance(argument, np.ndarray):
        return "*" + canonical_dtype(argument.dtype)
    element = canonical_dtype(argument.base.dtype)
    if argument.mode == "im2col":
        element, kind = f"{element}{list(argument.block_shape)}", "tensordesc_im2col"
        filters = f"{argument.filters}," if argument.shares_positions else ""
        return f"{kind}<{element},input_rank={len(argument.shape)},{filters}{argument.layout!r}>"
    return f"tensordesc<{element}{list(argument.block_shape)},{argument.layout!r}>"


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
    moved = [_moved(a) for a in arguments]
    kernel[grid](*moved, **constants)
    for argument, on_gpu in zip(arguments, moved, strict=True):
        if argument is not on_gpu:
            from_gpu(_memory(on_gpu), _memory(argument))


def _memory(argument: Any) -> Any:
    return argument.base if isinstance(argument, DESCRIPTORS) else argument


def _moved(argument: Any) -> Any:
    if isinstance(argument, DESCRIPTORS):
        return replace(argument, base=to_gpu(argument.base))
    return to_gpu(argument) if isinstance(argument, np.ndarray) else argument


def _split(types: str) -> list[str]:
    """The types in a text; those of descriptors have spaces of their own."""
    return re.findall(r"tensordesc\w*<.*?\)>|\S+", types)


def compiled(
    kernel: Any, types: str, constants: Mapping[str, Any] | None = None, arch: int = 90,
    aligned: bool = True, **options: Any,
) -> Any:  # fmt: skip
    """A kernel compiled for a GPU; `types`: those of its arguments but the constants."""
    given = dict(constants or {})
    names: Sequence[str] = [n for n in kernel.arg_names if n not in given]
    signature = dict(zip(names, _split(types), strict=True)) | dict.fromkeys(given, "constexpr")
    positions = [kernel.arg_names.index(n) for n in names]
    attrs = {(i,): [["tt.divisibility", 16]] for i in positions if aligned}
    source = gluon.GluonASTSource(kernel, signature, given, attrs)
    return tritium.compile(source, target=GPUTarget("cuda", arch, 32), options=options)
