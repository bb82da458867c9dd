"""Where tile programs run: this processor, a GPU, or a model of one that executes its code here."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from tools.tile_programs.memory import Guarded
from tools.tile_programs.program import BFLOAT16, E4M3, E5M2, Program

_TORCH = {BFLOAT16: "bfloat16", E4M3: "float8_e4m3fn", E5M2: "float8_e5m2"}
_WRITES = re.compile(r"tl\.atomic_|\.(store|scatter)\(")
MARGIN, _CANARY = 4096, 0xA5


def ordered(text: str) -> str:
    """A kernel with a barrier before and after each line that writes memory: the threads of a
    program on a GPU have no other order."""
    lines: list[str] = []
    for line in text.splitlines():
        if not _WRITES.search(line):
            lines.append(line)
            continue
        barrier = line[: len(line) - len(line.lstrip())] + "tl.debug_barrier()"
        lines += [barrier, line, barrier]
    return "\n".join(lines) + "\n"


def use(device: str) -> None:
    """Run kernels on a device from now on: `cpu`, `interpreter`, `cuda`, `simt32`, `simt64`, or the
    name of an AMD processor, whose model executes the code."""
    from tritium import knobs
    from tritium.runtime import driver

    if device == "cpu":
        driver.set_active_to_cpu()
    elif device == "interpreter":
        knobs.runtime.interpret = True
    elif device.startswith("simt"):
        from tests.simt.backend import use as use_simt

        use_simt(int(device.removeprefix("simt")))
    elif device.startswith("sm_"):
        driver.set_active_to_cpu()
    elif device != "cuda":
        from tests.amd.execution.backend import use as use_model

        use_model(device)
    else:
        import torch

        from tritium.launch.allocation import set_allocator

        set_allocator(
            lambda size, alignment, stream: torch.empty(size, dtype=torch.int8, device="cuda")
        )
    if device != "cpu":
        knobs.language.fp32_default = "ieee"


def options(seed: int, device: str, arch: str) -> dict[str, Any]:
    """Options of a launch: the processor to compile for, or warps and stages by chance, where no
    product and sum may become one operation: they are two in NumPy."""
    if device == "cpu":
        return {} if arch == "native" else {"arch": arch}
    chance = random.Random(seed)
    return {
        "num_warps": chance.choice((1, 2, 4, 4, 8)), "num_stages": chance.choice((1, 2, 3)),
        "enable_fp_fusion": False,
    }  # fmt: skip


class Array:
    """Memory of the processor between pages that cannot be accessed."""

    def __init__(self, data: np.ndarray, at_end: bool):
        self._memory = Guarded(data, at_end)

    def argument(self, start: int) -> Any:
        """The argument that stands for a pointer to the element `start`."""
        return self._memory.array[start:]

    def found(self) -> np.ndarray:
        """The elements as the kernel left them."""
        return self._memory.array


class Tensor:
    """Memory of a GPU between bytes that must not change.

    Args:
        margin: the number of these bytes on each side; the array's storage has them, too.
    """

    def __init__(self, data: np.ndarray, margin: int):
        import torch

        self._dtype, self._size, self._margin = data.dtype, data.nbytes, margin
        self._whole = torch.full(
            (self._size + 2 * margin,), _CANARY, dtype=torch.uint8, device="cuda"
        )
        self._bytes = self._whole[margin : margin + self._size]
        self._bytes.copy_(torch.from_numpy(data.view(np.uint8)))
        self._tensor = self._bytes.view(getattr(torch, _TORCH.get(data.dtype, data.dtype.name)))

    def argument(self, start: int) -> Any:
        """The argument that stands for a pointer to the element `start`."""
        return self._tensor[start:]

    def found(self) -> np.ndarray:
        """The elements as the kernel left them; an error if bytes beside them changed."""
        whole = self._whole.cpu().numpy()
        margins = np.concatenate([whole[: self._margin], whole[self._margin + self._size :]])
        if (margins != _CANARY).any():
            raise RuntimeError("the kernel wrote beside an array")
        return whole[self._margin : self._margin + self._size].view(self._dtype)


def arrays_of(
    made: Program, device: str, margin: int = MARGIN
) -> Mapping[int, Array | Tensor]:
    """Memory for each array of a program, as it is at the start; by the identity of its base.
    `margin`: as of `Tensor`."""
    bases = {id(p.base): p.base for p in made.pointers}
    if device == "cuda":
        return {key: Tensor(base.first, margin) for key, base in bases.items()}
    return {key: Array(base.first, made.source.random() < 0.7) for key, base in bases.items()}
