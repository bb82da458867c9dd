"""Conversions of 8-bit floats and `v_med3`, after AMD's "Instruction Set Architecture" of MI300,
CDNA4 and RDNA4 (VOP1, VOP3). Rounding is to nearest even; too large a number becomes infinity, or
NaN where there is none, as MODE.FP16_OVFL is clear."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from tests.amd.execution.lanes import number
from tests.amd.execution.memory import ExecutionError
from tests.amd.execution.types import spread

_FNUZ = {"fp8": ml_dtypes.float8_e4m3fnuz, "bf8": ml_dtypes.float8_e5m2fnuz}
_OCP = {"fp8": ml_dtypes.float8_e4m3fn, "bf8": ml_dtypes.float8_e5m2}


def small_float(arch: str, name: str) -> Any:
    """The dtype of `fp8` and `bf8` on a processor."""
    if arch == "gfx942":
        return _FNUZ[name]
    if arch == "gfx950" or arch.startswith("gfx12"):
        return _OCP[name]
    raise ExecutionError(f"{arch} has no instructions for {name}")


def _widen(name: str) -> Any:
    def widen(wave: Any, mask: Any, word: Any, byte: Any) -> Any:
        small = (word >> np.uint32(8 * number(byte))).astype(np.uint8)
        return small.view(small_float(wave.arch, name)).astype(np.float32)

    return widen


def _narrow(name: str) -> Any:
    def narrow(wave: Any, mask: Any, a: Any, b: Any, old: Any, upper: Any) -> Any:
        dtype, words = small_float(wave.arch, name), list[Any]()
        for value in (a, b):
            small = spread(value, wave.lanes).astype(dtype)
            words.append(small.view(np.uint8).astype(np.uint32))
        pair, old = words[0] | words[1] << np.uint32(8), spread(old, wave.lanes)
        if number(upper):
            return pair << np.uint32(16) | old & np.uint32(0xFFFF)
        return pair | old & np.uint32(0xFFFF0000)

    return narrow


def _middle(wave: Any, mask: Any, a: Any, b: Any, c: Any) -> Any:
    """The one between; with NaN the least of the three, NaN left out."""
    three = np.stack(np.broadcast_arrays(a, b, c))
    found = np.sort(three, axis=0)[1]
    return np.where(np.isnan(three).any(0), np.fmin(np.fmin(a, b), c), found)


CONVERSIONS: dict[str, Any] = {
    "cvt.f32.fp8": _widen("fp8"), "cvt.f32.bf8": _widen("bf8"),
    "cvt.pk.fp8.f32": _narrow("fp8"), "cvt.pk.bf8.f32": _narrow("bf8"), "fmed3": _middle,
}  # fmt: skip
