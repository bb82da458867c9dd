"""The reference's memory accesses of interpreted kernels: NumPy arrays of addresses."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np

from tritium.forking import ForkSafeLock
from tritium.ops.math import fused
from tritium.ops.memory import Memory
from tritium.ops.ttir.atomic import combine, swapped


class RMW_OP(IntEnum):
    """The operation of `atomic_rmw`."""

    ADD, FADD, AND, OR, XOR, XCHG, MAX, MIN, UMIN, UMAX = range(10)


class MEM_SEMANTIC(IntEnum):
    """The order of other accesses around an atomic one. Every access here is in one order."""

    ACQUIRE_RELEASE, ACQUIRE, RELEASE, RELAXED = range(4)


ADD, FADD, AND, OR, XOR, XCHG, MAX, MIN, UMIN, UMAX = RMW_OP
ACQUIRE_RELEASE, ACQUIRE, RELEASE, RELAXED = MEM_SEMANTIC

_MEMORY = Memory()
_UPDATING = ForkSafeLock()
_KINDS = {
    "i": (ADD, AND, OR, XOR, XCHG, MAX, MIN),
    "u": (ADD, AND, OR, XOR, XCHG, UMAX, UMIN),
    "f": (FADD,),
}


def load(ptr: np.ndarray, mask: np.ndarray, other: np.ndarray, ret_dtype: Any) -> np.ndarray:
    """The elements of dtype `ret_dtype` at the addresses, those of `other` where the mask is
    false."""
    found = _MEMORY.load(_addresses("load", ptr), np.dtype(ret_dtype), mask)
    return np.where(mask, found, np.asarray(other).astype(ret_dtype))


def store(ptr: np.ndarray, value: np.ndarray, mask: np.ndarray) -> None:
    """Write the elements of `value` to the addresses where the mask is true."""
    _MEMORY.store(_addresses("store", ptr), value, mask)


def atomic_rmw(
    rmw_op: RMW_OP, ptr: np.ndarray, val: np.ndarray, mask: np.ndarray, sem: MEM_SEMANTIC
) -> np.ndarray:
    """Combine memory with `val` where the mask is true. Returns what was there; zero elsewhere."""
    kind, operand = RMW_OP(rmw_op), np.asarray(val)
    if kind not in _KINDS.get(operand.dtype.kind, ()):
        raise ValueError(f"Unsupported data type: atomic_rmw {kind.name} of {operand.dtype}")
    values = np.broadcast_to(operand, np.shape(ptr)).reshape(-1)
    with _UPDATING:
        return _MEMORY.update(
            _addresses("atomic_rmw", ptr), operand.dtype, mask,
            lambda old, at: combine(kind.name, old, values[at]),
        )  # fmt: skip


def atomic_cas(ptr: np.ndarray, cmp: np.ndarray, val: np.ndarray, sem: MEM_SEMANTIC) -> np.ndarray:
    """Replace memory by `val` where it holds `cmp`, bit for bit. Returns what was there."""
    change = swapped(cmp, val)
    with _UPDATING:
        return _MEMORY.update(_addresses("atomic_cas", ptr), np.asarray(val).dtype, None, change)


def fma_fp32(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """`x * y + z` of float32, rounded once."""
    return _fma("fma_fp32", np.float32, x, y, z)


def fma_fp64(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """`x * y + z` of float64, rounded once."""
    return _fma("fma_fp64", np.float64, x, y, z)


def _fma(name: str, dtype: type[np.floating[Any]], *operands: np.ndarray) -> np.ndarray:
    for operand in operands:
        if operand.dtype != dtype or operand.shape != operands[0].shape:
            shown = ", ".join(f"{o.dtype}{list(o.shape)}" for o in operands)
            raise ValueError(
                f"{name}: the operands are {shown}; {np.dtype(dtype)} of one shape is required"
            )
    with np.errstate(all="ignore"):
        return np.asarray(fused(*operands))


def _addresses(name: str, ptr: np.ndarray) -> np.ndarray:
    if np.asarray(ptr).dtype != np.uint64:
        raise ValueError(f"{name}: ptr has dtype {np.asarray(ptr).dtype}; addresses are uint64")
    return ptr
