"""The language on NumPy alone: what a kernel's text means if `tl` is this module.

Floats are float64 and integers int64 whatever their dtype: programs are such that every number is
one that its dtype holds (`cast` sees to it and raises `Inexact`). It shares nothing with the
compiler, and so is an oracle of both the compiler and the interpreter.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

float64, float32, float16, bfloat16 = np.float64, np.float32, np.float16, ml_dtypes.bfloat16
float8e5, float8e4nv = ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fn
int8, int16, int32, int64, int1 = np.int8, np.int16, np.int32, np.int64, np.bool_
constexpr = int
pid = 0


class Inexact(Exception):
    """A number that its dtype does not hold: the program has no one right result."""


class Pointer:
    """A tile of addresses in an array; `reads` collects the places that were loaded."""

    def __init__(self, array: Any, at: Any, reads: set[int]):
        self.array, self.at, self.reads = array, at, reads

    def __add__(self, offset: Any) -> Pointer:
        return Pointer(self.array, self.at + np.asarray(offset, np.int64), self.reads)


class BlockPointer:
    """A tile within an array of rows and columns; what is outside of it is read as zero."""

    def __init__(self, base: Pointer, shape: Any, strides: Any, offsets: Any, tile: Any):
        index = [np.arange(n) + o for n, o in zip(tile, offsets, strict=True)]
        grid = np.meshgrid(*index, indexing="ij")
        self.pointer, self.inside = base, np.ones(tile, bool)
        for places, size, stride in zip(grid, shape, strides, strict=True):
            self.pointer += places * stride
            self.inside &= (places >= 0) & (places < size)


def program_id(axis: int) -> int:
    return pid


def arange(start: int, end: int) -> Any:
    return np.arange(start, end, dtype=np.int64)


def cast(x: Any, dtype: Any, bitcast: bool = False) -> Any:
    with np.errstate(all="ignore"):
        number = np.asarray(x)
        if np.issubdtype(dtype, np.integer):
            found = np.trunc(number).astype(np.int64)
            if (found != found.astype(dtype)).any():
                raise Inexact(f"{dtype.__name__}: {found}")
            return found
        if dtype is np.bool_:
            return number.astype(bool)
        number = number.astype(np.float64)
        if not np.array_equal(number.astype(dtype).astype(np.float64), number, equal_nan=True):
            raise Inexact(f"{dtype.__name__}: {number}")
    return number


def make_block_ptr(base, shape, strides, offsets, block_shape, order):
    return BlockPointer(base, shape, strides, offsets, block_shape)


def load(p: Any, mask: Any = True, other: Any = 0, boundary_check=(), padding_option="") -> Any:
    if isinstance(p, BlockPointer):
        p, mask = p.pointer, p.inside
    at, ok, other = np.broadcast_arrays(p.at, mask, other)
    p.reads.update(at[ok].tolist())
    values = p.array[np.where(ok, at, 0)]
    whole = np.issubdtype(values.dtype, np.integer)
    return np.where(ok, values.astype(np.int64 if whole else np.float64), other)


def store(p: Any, value: Any, mask: Any = True) -> None:
    at, value, ok = np.broadcast_arrays(p.at, value, mask)
    with np.errstate(all="ignore"):
        p.array[at[ok]] = value[ok].astype(p.array.dtype)


def atomic_add(p: Any, value: Any, mask: Any = True) -> Any:
    return _atomic(p, value, mask, np.add)


def atomic_max(p: Any, value: Any, mask: Any = True) -> Any:
    return _atomic(p, value, mask, np.fmax)


def atomic_xchg(p: Any, value: Any, mask: Any = True) -> Any:
    return _atomic(p, value, mask, lambda a, b: b)


def _atomic(p: Any, value: Any, mask: Any, change: Any) -> Any:
    at, value, ok = np.broadcast_arrays(p.at, value, mask)
    old = np.zeros(at.shape, value.dtype)
    for place in np.ndindex(at.shape):
        if ok[place]:
            p.reads.add(int(at[place]))
            old[place] = p.array[at[place]]
            p.array[at[place]] = change(old[place], value[place])
    return old


def where(flag: Any, a: Any, b: Any) -> Any:
    return np.where(flag, a, b)


def maximum(a: Any, b: Any) -> Any:
    return np.fmax(a, b)


def minimum(a: Any, b: Any) -> Any:
    return np.fmin(a, b)


def fma(a: Any, b: Any, c: Any) -> Any:
    with np.errstate(all="ignore"):
        return a * b + c


def abs(x: Any) -> Any:
    return np.abs(x)


def zeros(shape: Any, dtype: Any) -> Any:
    return np.zeros(shape, np.int64 if np.issubdtype(dtype, np.integer) else np.float64)


def full(shape: Any, value: Any, dtype: Any) -> Any:
    return np.full(shape, value, bool if dtype is int1 else zeros((), dtype).dtype)


def broadcast_to(x: Any, shape: Any) -> Any:
    return np.broadcast_to(x, shape)


def reshape(x: Any, shape: Any) -> Any:
    return np.reshape(x, shape)


def trans(x: Any) -> Any:
    return x.T


def permute(x: Any, order: Any) -> Any:
    return np.transpose(x, order)


def flip(x: Any, dim: int) -> Any:
    return np.flip(x, dim)


def join(a: Any, b: Any) -> Any:
    return np.stack([a, b], -1)


def interleave(a: Any, b: Any) -> Any:
    return np.stack([a, b], -1).reshape(*a.shape[:-1], -1)


def split(x: Any) -> Any:
    return x[..., 0], x[..., 1]


def expand_dims(x: Any, axis: int) -> Any:
    return np.expand_dims(x, axis)


def gather(x: Any, index: Any, axis: int) -> Any:
    return np.take_along_axis(x, index, axis)


def sum(x: Any, axis: Any = None, keep_dims: bool = False) -> Any:
    with np.errstate(all="ignore"):
        return np.sum(x, axis, keepdims=keep_dims)


def max(x: Any, axis: Any = None, keep_dims: bool = False) -> Any:
    return np.fmax.reduce(x, axis, keepdims=keep_dims)


def min(x: Any, axis: Any = None, keep_dims: bool = False) -> Any:
    return np.fmin.reduce(x, axis, keepdims=keep_dims)


def argmax(x: Any, axis: int) -> Any:
    return np.argmax(x, axis)


def argmin(x: Any, axis: int) -> Any:
    return np.argmin(x, axis)


def xor_sum(x: Any, axis: int) -> Any:
    return np.bitwise_xor.reduce(x, axis)


def cumsum(x: Any, axis: int, reverse: bool = False) -> Any:
    with np.errstate(all="ignore"):
        if reverse:
            return np.flip(np.cumsum(np.flip(x, axis), axis), axis)
        return np.cumsum(x, axis)


def sort(x: Any, descending: bool = False) -> Any:
    found = np.sort(x, -1)
    return np.flip(found, -1) if descending else found


def histogram(x: Any, bins: int, mask: Any = True) -> Any:
    flags = np.broadcast_to(mask, x.shape) & (x >= 0) & (x < bins)
    return np.bincount(x[flags], minlength=bins)


def dot(a: Any, b: Any, acc: Any = None, input_precision: str = "", out_dtype: Any = None) -> Any:
    with np.errstate(all="ignore"):
        product = np.matmul(a, b)
        return product if acc is None else product + acc


def static_range(*bounds: int) -> Any:
    return range(*bounds)
