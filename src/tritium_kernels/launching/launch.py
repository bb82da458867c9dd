"""Helpers for launches: the device, its class, matrices of rows."""

from __future__ import annotations

import math
import sys
from contextlib import AbstractContextManager, nullcontext
from functools import cache, lru_cache
from typing import Any

import torch

from tritium.runtime import driver
from tritium_kernels.errors import refuse


@cache
def device_class(device: torch.device) -> str:
    """The key of a device in the tables of configurations: "cpu", "hopper", "gpu"."""
    if device.type == "cpu":
        return "cpu"
    if device.type != "cuda":
        raise refuse("tritium_kernels", "a tensor", f"is on {device}", "cpu, cuda")
    index = device.index or 0
    if torch.version.hip is None and torch.cuda.get_device_capability(index)[0] == 9:
        return "hopper"
    return "gpu"


@cache
def processors(device: torch.device) -> int:
    """Multiprocessors of a GPU; threads of the CPU."""
    if device.type == "cpu":
        return torch.get_num_threads()
    count: int = torch.cuda.get_device_properties(device).multi_processor_count  # pyright: ignore
    return count


def on(op: str, name: str, tensor: torch.Tensor) -> AbstractContextManager[object]:
    """The context in which kernels for `tensor` are launched; refuses other devices' tensors."""
    kind = _kind(driver.active)
    if tensor.is_cpu and kind == "cpu":
        return _HERE
    device = tensor.device
    if device.type != kind:
        raise refuse(op, name, f"is on {device}", f"{kind}, the device of the active driver")
    if device.index == torch.cuda.current_device():
        return _HERE
    return torch.cuda.device(device)


_HERE = nullcontext()


@lru_cache(maxsize=8)
def _kind(active: Any) -> str:
    """The type of torch devices that an active driver is for."""
    return "cpu" if active.get_current_target().backend == "cpu" else "cuda"


def constant(text: str | None) -> str | None:
    """The one object of equal texts: launches know constants by identity, and torch hands its ops
    a new object each time."""
    return None if text is None else sys.intern(text)


def empty_like(x: torch.Tensor) -> torch.Tensor:
    """Memory for a tensor of x's shape, type and device, without gaps."""
    if x.is_contiguous():
        return torch.empty_like(x)
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def as_rows(x: torch.Tensor) -> torch.Tensor:
    """A matrix of x's last dimension, whose columns are adjacent; copies only what has none."""
    if x.ndim == 2 and x.stride(1) == 1:
        return x
    columns = x.shape[-1]
    matrix = x.reshape(x.numel() // columns if columns else math.prod(x.shape[:-1]), columns)
    return matrix if columns <= 1 or matrix.stride(1) == 1 else matrix.contiguous()


def matrix_of(x: torch.Tensor) -> tuple[torch.Tensor, int, int, int]:
    """(memory, rows, columns, elements from row to row) of x, which has elements: the matrix of
    its last dimension as launches take it; makes a view or a copy only where x has gaps."""
    if x.is_contiguous():
        columns = x.shape[-1]
        return x, x.numel() // columns, columns, columns
    matrix = as_rows(x)
    rows, columns = matrix.shape
    return matrix, rows, columns, matrix.stride(0)


def power_of_two(n: int) -> int:
    """The least power of two that is not below n."""
    return 1 << max(n - 1, 0).bit_length()


def cdiv(x: int, y: int) -> int:
    return -(-x // y)
