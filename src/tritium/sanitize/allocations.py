"""Fill memory that NumPy and torch allocate without values with a pattern, which kernels look for
(`tritium.sanitize.unwritten`)."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import numpy as np

PATTERN = b"\xf5\x7f"
"""Two bytes, repeated: a quiet NaN as float16, bfloat16, float32 and float64."""


@contextmanager
def new_arrays_filled() -> Generator[None]:
    """`np.empty`, `torch.empty` and their like give memory that holds the pattern."""
    before: list[tuple[Any, str, Any]] = []
    places: list[tuple[Any, str, Any]] = [(np, n, _fill_array) for n in ("empty", "empty_like")]
    if importlib.util.find_spec("torch") is not None:
        torch: Any = importlib.import_module("torch")
        names = ("empty", "empty_like", "empty_strided", "empty_permuted")
        places += [(torch, name, _fill_tensor) for name in names]
        names = ("new_empty", "new_empty_strided")
        places += [(torch.Tensor, name, _fill_tensor) for name in names]
    try:
        for owner, name, fill in places:
            allocate = getattr(owner, name)
            before.append((owner, name, allocate))
            setattr(owner, name, _filling(allocate, fill))
        yield
    finally:
        for owner, name, allocate in before:
            setattr(owner, name, allocate)


def _filling(allocate: Any, fill: Any) -> Any:
    def filled(*args: Any, **kwargs: Any) -> Any:
        found = allocate(*args, **kwargs)
        fill(found)
        return found

    return filled


def _fill_array(array: Any) -> None:
    if type(array) is np.ndarray and not array.dtype.hasobject and array.nbytes:
        memory = array.ravel(order="K").view(np.uint8)  # new arrays have no gaps
        memory[: array.nbytes & ~1].view("<u2")[:] = int.from_bytes(PATTERN, "little")


def _fill_tensor(tensor: Any) -> None:
    import torch

    # Subclasses stand for tensors without memory, as those do with which torch.compile traces.
    if type(tensor) is not torch.Tensor or tensor.layout is not torch.strided or tensor.is_meta:
        return
    try:
        storage = tensor.untyped_storage()
    except NotImplementedError:  # a view by torch.func, of memory that was allocated before
        return
    halves: Any = torch.tensor([], dtype=torch.int16, device=tensor.device)
    halves.set_(storage, 0, (storage.nbytes() // 2,)).fill_(int.from_bytes(PATTERN, "little"))
