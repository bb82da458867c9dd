"""AMX's instructions in NumPy, so that LLVM IR with them runs on any x86-64 processor.

A register becomes an i64, the number of an array: registers are values in the IR, never changed.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable

import llvmlite.binding as llvm
import ml_dtypes
import numpy as np

FEATURES = ("amx-tile", "amx-bf16", "amx-fp16", "amx-int8")

_registers: list[np.ndarray] = []
_kept: list[object] = []
_SHORT, _LONG, _POINTER = ctypes.c_uint16, ctypes.c_int64, ctypes.c_void_p


def calls(text: str) -> str:
    """The IR with calls of the functions below in the place of the instructions."""
    if not _kept:
        _define()
    text = re.sub(r"@llvm\.x86\.(t[a-z0-9]+)\.internal", r"@emulated.\1", text)
    return text.replace("x86_amx", "i64")


def _held(array: np.ndarray) -> int:
    _registers.append(array)
    return len(_registers) - 1


def _memory(rows: int, width: int, pointer: int, stride: int) -> list[np.ndarray]:
    """The rows of a register in memory."""
    assert 0 < rows <= 16 and 0 < width <= 64 and width % 4 == 0, (rows, width)
    return [
        np.frombuffer((ctypes.c_uint8 * width).from_address(pointer + r * stride), np.uint8)
        for r in range(rows)
    ]


def _zero(rows: int, width: int) -> int:
    return _held(np.zeros((rows, width), np.uint8))


def _load(rows: int, width: int, pointer: int, stride: int) -> int:
    return _held(np.stack(_memory(rows, width, pointer, stride)))


def _store(rows: int, width: int, pointer: int, stride: int, register: int) -> None:
    held = _registers[register]
    assert held.shape == (rows, width)
    for row, target in zip(held, _memory(rows, width, pointer, stride), strict=True):
        target[:] = row


def _product(a: type, b: type, wide: type) -> Callable[..., int]:
    """acc + A @ B, the elements of B's cells one below the other."""

    def multiply(rows: int, width: int, depth: int, acc: int, left: int, right: int) -> int:
        x, y, z = (_registers[n] for n in (left, right, acc))
        assert x.shape == (rows, depth), (x.shape, rows, depth)
        assert y.shape == (depth // 4, width), (y.shape, depth, width)
        assert z.shape == (rows, width), (z.shape, rows, width)
        group = 4 // np.dtype(b).itemsize
        cells = y.view(b).reshape(depth // 4, width // 4, group).transpose(0, 2, 1)
        flat = cells.reshape(-1, width // 4).astype(wide)
        return _held((z.view(wide) + x.view(a).astype(wide) @ flat).view(np.uint8))

    return multiply


def _define() -> None:
    multiply = [_SHORT, _SHORT, _SHORT, _LONG, _LONG, _LONG]
    memory = [_SHORT, _SHORT, _POINTER, _LONG]
    half, bfloat = np.float16, ml_dtypes.bfloat16
    functions: dict[str, tuple[Callable[..., int | None], object, list[object]]] = {
        "tilezero": (_zero, _LONG, [_SHORT, _SHORT]),
        "tileloadd64": (_load, _LONG, [*memory]),
        "tilestored64": (_store, None, [*memory, _LONG]),
        "tdpbf16ps": (_product(bfloat, bfloat, np.float32), _LONG, [*multiply]),
        "tdpfp16ps": (_product(half, half, np.float32), _LONG, [*multiply]),
    }
    for x, a in (("s", np.int8), ("u", np.uint8)):
        for y, b in (("s", np.int8), ("u", np.uint8)):
            functions[f"tdpb{x}{y}d"] = (_product(a, b, np.int32), _LONG, [*multiply])
    for name, (function, result, arguments) in functions.items():
        native = ctypes.CFUNCTYPE(result, *arguments)(function)  # type: ignore[arg-type]
        _kept.append(native)
        address = ctypes.cast(native, ctypes.c_void_p).value
        llvm.add_symbol(f"emulated.{name}", address)
