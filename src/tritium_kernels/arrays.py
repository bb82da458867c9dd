"""The functions of `tritium_kernels.dense` for NumPy and JAX arrays.

    from tritium_kernels import arrays
    y = arrays.softmax(numpy.random.rand(4, 8))

Arrays are lent to torch and back, through DLPack, without a copy; results are arrays of the first
array's kind. There are no gradients. NumPy arrays may have the types of `ml_dtypes`. NumPy arrays
are copied that are read-only, have strides that torch lacks, or another byte order than the
machine's; arrays of JAX must be ready to be read on the current stream.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from tritium_kernels import dense
from tritium_kernels.errors import ArgumentError, refuse

_EXTRA = {"bfloat16": torch.bfloat16, "float8_e4m3fn": torch.float8_e4m3fn,
          "float8_e5m2": torch.float8_e5m2}  # fmt: skip
"""Types that NumPy has from `ml_dtypes` alone."""

_OPTIMIZERS = {"Adam", "AdamW", "adam_", "adam_foreach_", "adamw_", "adamw_foreach_"}
_NAMES = sorted(set(dense.__all__) - _OPTIMIZERS)
__all__ = _NAMES  # pyright: ignore[reportUnsupportedDunderAll]


def _is_jax(value: Any) -> bool:
    jax = sys.modules.get("jax")  # who has such an array has loaded it
    return jax is not None and isinstance(value, jax.Array)


def _to_torch(op: str, name: str, value: Any) -> Any:
    """The tensor that shares an array's memory; what is no array as it is."""
    if _is_jax(value):
        if isinstance(value, sys.modules["jax"].core.Tracer):
            raise NotImplementedError(
                f"{op}: {name} is an array that jax traces, and {op} is not built for these; call "
                "it outside of jax.jit, jax.grad and jax.vmap"
            )
        return torch.from_dlpack(value)
    if not isinstance(value, np.ndarray):
        return value
    size = value.dtype.itemsize
    lendable = value.flags.writeable and all(s >= 0 and s % size == 0 for s in value.strides)
    native = value.dtype.newbyteorder("=")
    array: Any = value if lendable and value.dtype == native else value.astype(native, order="C")
    extra = _EXTRA.get(array.dtype.name)
    if extra is not None:
        return torch.from_numpy(array.view(f"u{size}")).view(extra)
    try:
        return torch.from_numpy(array)
    except TypeError:
        accepted = f"types that torch has too, and {', '.join(_EXTRA)} of ml_dtypes"
        raise refuse(op, name, f"has dtype {value.dtype}", accepted) from None


def _to_numpy(tensor: torch.Tensor) -> Any:
    for name, dtype in _EXTRA.items():
        if tensor.dtype == dtype:
            import ml_dtypes

            words = tensor.view(torch.uint8 if tensor.element_size() == 1 else torch.uint16)
            return words.numpy().view(getattr(ml_dtypes, name))
    return tensor.numpy()


def _to_jax(tensor: torch.Tensor) -> Any:
    return sys.modules["jax"].dlpack.from_dlpack(tensor.contiguous())


def _of_arrays(fn: Callable[..., Any]) -> Callable[..., Any]:
    op = fn.__name__
    names = [*inspect.signature(fn).parameters]

    @functools.wraps(fn)
    def call(*args: Any, **options: Any) -> Any:
        back = _to_jax if any(map(_is_jax, (*args, *options.values()))) else _to_numpy
        tensors = [_to_torch(op, *pair) for pair in zip(names, args, strict=False)]
        tensors += args[len(names) :]  # of which there are too many
        named = {name: _to_torch(op, name, value) for name, value in options.items()}
        try:
            with torch.no_grad():
                found = fn(*tensors, **named)
        except ArgumentError as error:
            _, name, what, accepted = error.parts
            if accepted != "torch.Tensor":
                raise
            raise refuse(op, name, what, "a NumPy or JAX array") from None
        return tuple(map(back, found)) if isinstance(found, tuple) else back(found)

    return call


globals().update({name: _of_arrays(getattr(dense, name)) for name in _NAMES})
