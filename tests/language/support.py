"""Evaluating language functions at once, and running a kernel in both ways there are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import ml_dtypes
import numpy as np

import tritium.language as tl
from tests.support.frontend import evaluate
from tritium.backends.interpreter.emitter import EagerEmitter
from tritium.backends.interpreter.interpret import InterpretedKernel
from tritium.language.emitter import Evaluated, TargetFeatures, activate
from tritium.language.jit.function import JITCallable

NUMPY = {
    tl.int1: np.bool_, tl.int8: np.int8, tl.int16: np.int16, tl.int32: np.int32,
    tl.int64: np.int64, tl.uint8: np.uint8, tl.uint16: np.uint16, tl.uint32: np.uint32,
    tl.uint64: np.uint64, tl.float16: np.float16, tl.bfloat16: ml_dtypes.bfloat16,
    tl.float32: np.float32, tl.float64: np.float64, tl.float8e5: ml_dtypes.float8_e5m2,
    tl.float8e4nv: ml_dtypes.float8_e4m3fn, tl.float8e4b8: ml_dtypes.float8_e4m3fnuz,
    tl.float8e5b16: ml_dtypes.float8_e5m2fnuz,
}  # fmt: skip


@contextmanager
def eager(**features: Any) -> Iterator[EagerEmitter]:
    """Language functions evaluate at once."""
    emitter = EagerEmitter(TargetFeatures(**features))
    with activate(emitter), np.errstate(all="ignore"):
        yield emitter


def block(values: Any, dtype: tl.dtype = tl.int32) -> tl.tensor:
    """A tensor that holds these values; a scalar for a number."""
    array = np.asarray(values, NUMPY[dtype])
    type = tl.block_type(dtype, array.shape) if array.ndim else dtype
    stored = array.view(f"i{array.dtype.itemsize}") if array.dtype.kind == "u" else array
    return tl.tensor(Evaluated(type.to_ir(), stored if stored.ndim else stored[()]), type)


def both(kernel: JITCallable, grid: tuple[int, ...] = (1,), **args: Any) -> None:
    """Run a kernel interpreted and compiled to ttir; the arrays must come out the same to the
    bit. They are changed in place."""
    other = {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in args.items()}
    InterpretedKernel(kernel.fn)[grid](**args)
    evaluate(kernel, grid, **other)
    for name, value in args.items():
        if isinstance(value, np.ndarray):
            assert value.tobytes() == other[name].tobytes(), (name, value, other[name])
