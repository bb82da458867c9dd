"""Where kernels that tests call native run: `pytest --device cpu`, `cuda`, `ptx`, `simt` or `amd`.

`cuda`: the arguments' arrays are copied to the GPU (through torch) and back. `ptx`: kernels run on
the CPU, and are compiled and assembled for NVIDIA's architectures besides (`--targets`), which
needs no GPU.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import tritium
from tritium import knobs
from tritium.launch.allocation import set_allocator
from tritium.runtime.jit import JITFunction
from tritium.target import GPUTarget

EXECUTED = ("simt", "amd")
"""Devices whose code for GPUs is executed on the CPU."""

device = "cpu"
"""Set by the option `--device`."""

targets: tuple[int, ...] = (90,)
"""Compute capabilities that `ptx` compiles for; set by the option `--targets`."""

_REFUSED = re.compile(r"not supported in this architecture|sums of .* on sm_|requires sm_")
"""Messages by which an older architecture rightly refuses a kernel."""

_TORCH = {
    "bfloat16": "bfloat16", "float8_e5m2": "float8_e5m2", "float8_e4m3fn": "float8_e4m3fn",
    "float8_e4m3fnuz": "float8_e4m3fnuz", "float8_e5m2fnuz": "float8_e5m2fnuz",
}  # fmt: skip


def native(fn: Callable[..., Any]) -> Any:
    """A kernel for the chosen device, launched with NumPy arrays: `native(fn)[grid](...)`."""
    if device == "cuda":
        return Moved(fn)
    return JITFunction(fn)


def to_gpu(array: np.ndarray) -> Any:
    """A tensor on the GPU with the array's contents, strides and dtype."""
    import torch

    name = array.dtype.name
    plain = array.view(f"i{array.dtype.itemsize}") if name in _TORCH else array
    tensor = torch.from_numpy(np.array(plain, order="K")).cuda()
    return tensor.view(getattr(torch, _TORCH[name])) if name in _TORCH else tensor


def from_gpu(tensor: Any, array: np.ndarray) -> None:
    """Overwrite an array with a tensor's contents."""
    import torch

    if array.dtype.name in _TORCH:
        words = {1: torch.int8, 2: torch.int16}
        tensor = tensor.view(words[array.dtype.itemsize])
        array = array.view(f"i{array.dtype.itemsize}")
    array[...] = tensor.cpu().numpy()


class Moved:
    """A kernel on the GPU, called with NumPy arrays."""

    def __init__(self, fn: Callable[..., Any]):
        self._fn = fn if isinstance(fn, JITFunction) else JITFunction(fn)

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        def launch(*args: Any, **kwargs: Any) -> Any:
            import torch

            moved: dict[int, tuple[np.ndarray, Any]] = {}
            given = self._move(args, moved), {k: self._move(v, moved) for k, v in kwargs.items()}
            # Kernels that make descriptors need memory for their tensor maps.
            set_allocator(lambda size, alignment, stream: torch.empty(
                size, dtype=torch.int8, device="cuda"
            ))  # fmt: skip
            with knobs.language.scope():
                knobs.language.fp32_default = "ieee"  # as the other ways compute
                kernel = self._fn[grid](*given[0], **given[1])
            torch.cuda.synchronize()
            for array, tensor in moved.values():
                if array.flags.writeable:
                    from_gpu(tensor, array)
            return kernel

        return launch

    def _move(self, value: Any, moved: dict[int, tuple[np.ndarray, Any]]) -> Any:
        if isinstance(value, np.ndarray):
            if id(value) not in moved:
                moved[id(value)] = value, to_gpu(value)
            return moved[id(value)][1]
        if isinstance(value, tuple):
            parts = [self._move(v, moved) for v in value]
            return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
        if isinstance(getattr(value, "base", None), np.ndarray):  # a tensor descriptor
            from copy import copy

            other = copy(value)
            other.base = self._move(value.base, moved)
            return other
        return value


def assemble(source: Any, options: dict[str, Any], which: Sequence[int] | None = None) -> None:
    """Compile a kernel for each target down to machine code."""
    for arch in which or targets:
        try:
            compiled = tritium.compile(source, target=GPUTarget("cuda", arch, 32), options=options)
        except Exception as error:
            if arch < 90 and _REFUSED.search(str(error)):
                continue
            raise
        assert compiled.asm["cubin"][:4] == b"\x7fELF"


def assemble_too(src: Any, metadata: dict[str, Any], cache_hit: bool, **_: Any) -> None:
    """A compilation listener: what is compiled for the CPU is also assembled for `targets`."""
    if not cache_hit and metadata["target"].backend == "cpu" and hasattr(src, "fn"):
        assemble(src, {name: metadata[name] for name in _OPTIONS if name in metadata})


_OPTIONS = ("num_warps", "num_stages", "enable_fp_fusion", "debug", "maxnreg")
