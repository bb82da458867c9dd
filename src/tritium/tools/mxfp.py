"""Microscaled numbers on the host: fp4 (E2M1) elements and their E8M0 scales, bit by bit.

Formats and rounding are those of the OCP Microscaling Formats (MX) Specification 1.0, sections 5.3
and 5.4. Data are tensors of torch, or NumPy arrays; results are of the kind that the data were, and
without data of torch if that is installed.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from abc import ABC, abstractmethod
from typing import Any, cast

import ml_dtypes
import numpy as np

__all__ = ["MXFP4Tensor", "MXScaleTensor", "fp8e8m0_to_float32"]

_E8M0_NAN = 255
_BIAS = 127


class _Codes(ABC):
    """Codes of a format, a byte each.

    Args:
        data: float32 numbers to convert.
        size: without data, the shape to fill later (with `random`).
        device: torch's, where the codes are to be.

    Attributes:
        data: the codes, uint8.
    """

    def __init__(self, data: Any = None, size: Any = None, device: Any = None):
        self.device = device
        if data is not None:
            given: Any = data
            if not (isinstance(data, np.ndarray) or _is_torch(data)):
                raise TypeError(
                    f"{type(self).__name__}: data is {type(given).__name__}; a tensor of torch or "
                    "a NumPy array is required"
                )
            self._torch = _is_torch(data)
            self.device = device or getattr(given, "device", None) if self._torch else None
            self.size: tuple[int, ...] = tuple(given.shape)
            self.data = self._wrap(self._from_float(_to_numpy(given)))
        elif size is not None:
            self._torch = device is not None or importlib.util.find_spec("torch") is not None
            shape: Any = (size,) if isinstance(size, int) else size
            self.size = tuple(int(extent) for extent in shape)
            self.data = self._wrap(np.zeros(self.size, np.uint8))
        else:
            raise ValueError(f"{type(self).__name__}: data or size is required")

    @abstractmethod
    def _from_float(self, values: np.ndarray) -> np.ndarray:
        """The codes of some numbers."""

    @abstractmethod
    def _to_float(self, codes: np.ndarray) -> np.ndarray:
        """The numbers of some codes."""

    def _wrap(self, array: np.ndarray) -> Any:
        """Make tensors of the kind that this object has."""
        if not self._torch:
            return array
        torch: Any = importlib.import_module("torch")
        return torch.from_numpy(np.array(array)).to(self.device)

    def _fill(self, low: int, high: int) -> None:
        """Random codes, `low <= code < high`, from the generator that the library seeds."""
        if self._torch:
            torch: Any = importlib.import_module("torch")
            self.data = torch.randint(low, high, self.size, dtype=torch.uint8, device=self.device)
        else:
            self.data = np.random.randint(low, high, self.size, dtype=np.uint8)

    def to(self, dtype: Any) -> Any:
        """The numbers, as a floating-point dtype of the library that the data are of."""
        values = self._wrap(self._to_float(_to_numpy(self.data)))
        converted = values.to(dtype) if self._torch else values.astype(dtype)
        floating = dtype.is_floating_point if self._torch else np.dtype(dtype).kind in "fV"
        if not floating:
            raise TypeError(f"{type(self).__name__}.to: {dtype} is no floating-point dtype")
        return converted


class MXFP4Tensor(_Codes):
    __doc__ = f"""fp4 (E2M1) numbers: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives.

    Converting rounds to nearest, ties to even; what is too large, and NaN, becomes 6.
    {_Codes.__doc__}"""

    def random(self) -> MXFP4Tensor:
        """Fill with random codes, each of the 16 as likely; returns this."""
        self._fill(0, 16)
        return self

    def _from_float(self, values: np.ndarray) -> np.ndarray:
        numbers = values.astype(np.float32)
        numbers = np.copysign(np.fmin(np.abs(numbers), 6), numbers)  # fmin: 6 for NaN
        return numbers.astype(ml_dtypes.float4_e2m1fn).view(np.uint8) & 15

    def _to_float(self, codes: np.ndarray) -> np.ndarray:
        return codes.view(ml_dtypes.float4_e2m1fn).astype(np.float32)

    def to_packed_tensor(self, dim: int) -> Any:
        """Two neighbours along `dim` in each byte, the first in the low half; of an odd extent the
        last byte's high half is 0."""
        codes = _last(_to_numpy(self.data), dim)
        if codes.shape[-1] % 2:
            codes = np.concatenate([codes, np.zeros_like(codes[..., :1])], axis=-1)
        packed = codes[..., 0::2] | codes[..., 1::2] << 4
        return self._wrap(np.ascontiguousarray(np.moveaxis(packed, -1, dim)))

    def unpack_packed_tensor(self, packed_tensor: Any, dim: int, original_shape: Any) -> Any:
        """The codes, a byte each, of what `to_packed_tensor` made of a tensor of this shape."""
        packed = _last(_to_numpy(packed_tensor), dim)
        shape = tuple(original_shape)
        codes = np.stack([packed & 15, packed >> 4], axis=-1).reshape(
            *packed.shape[:-1], 2 * packed.shape[-1]
        )
        codes = np.moveaxis(codes[..., : shape[dim]], -1, dim)
        if codes.shape != shape:
            raise ValueError(
                f"unpack_packed_tensor: the packed tensor has shape {tuple(packed_tensor.shape)}, "
                f"which is not {shape} with two in one along axis {dim}"
            )
        return self._wrap(np.ascontiguousarray(codes))


def _last(array: np.ndarray, dim: int) -> np.ndarray:
    """The array with the axis `dim` behind the others. Raises `AssertionError`, as the reference
    does, for an axis that it lacks."""
    if not -array.ndim <= dim < array.ndim:
        raise AssertionError(f"dim is {dim}; the tensor has {array.ndim} dimensions")
    return np.moveaxis(array, dim, -1)


class MXScaleTensor(_Codes):
    __doc__ = f"""E8M0 scales: powers of two from 2**-127 to 2**127, and NaN.

    Converting rounds down to a power of two; what is not positive, infinite or NaN becomes NaN.
    {_Codes.__doc__}"""

    def random(self, low: float | None = None, high: float | None = None) -> MXScaleTensor:
        """Fill with random powers of two from `low` to `high`, rounded down (both included; all
        that are not NaN by default); returns this. Raises `ValueError` for an empty range."""
        bounds = [low or 2.0**-_BIAS, high or 2.0 ** (254 - _BIAS)]
        first, last = (int(c) for c in self._from_float(np.array(bounds)))
        if _E8M0_NAN in (first, last) or first > last:
            raise ValueError(f"random: there is no scale from {low} to {high}")
        self._fill(first, last + 1)
        return self

    def _from_float(self, values: np.ndarray) -> np.ndarray:
        numbers = values.astype(np.float64)
        good = np.isfinite(numbers) & (numbers > 0)
        exponents = np.frexp(np.where(good, numbers, 1.0))[1] - 1 + _BIAS
        return np.where(good, np.clip(exponents, 0, _E8M0_NAN - 1), _E8M0_NAN).astype(np.uint8)

    def _to_float(self, codes: np.ndarray) -> np.ndarray:
        return codes.view(ml_dtypes.float8_e8m0fnu).astype(np.float32)


def fp8e8m0_to_float32(scale: Any) -> Any:
    """E8M0 codes, a byte each (uint8 or torch's own dtype), as float32: 2**(code - 127), and NaN
    for 255."""
    of_torch = _is_torch(scale)
    if not of_torch and not isinstance(scale, np.ndarray):
        given = type(scale).__name__
        raise TypeError(f"fp8e8m0_to_float32: scale is {given}; a tensor or array is required")
    if scale.dtype.itemsize != 1:
        raise TypeError(f"fp8e8m0_to_float32: scale holds {scale.dtype}; bytes are required")
    if not of_torch:
        return _powers(cast("np.ndarray", scale))
    torch: Any = importlib.import_module("torch")
    tensor: Any = cast(Any, scale)
    return torch.from_numpy(_powers(tensor.view(torch.uint8).cpu().numpy())).to(tensor.device)


def _powers(codes: np.ndarray) -> np.ndarray:
    return codes.view(ml_dtypes.float8_e8m0fnu).astype(np.float32)


def _is_torch(data: Any) -> bool:
    torch: Any = sys.modules.get("torch")
    return torch is not None and isinstance(data, torch.Tensor)


def _to_numpy(data: Any) -> np.ndarray:
    if not _is_torch(data):
        return np.asarray(data)
    tensor = data.detach().cpu()
    return (tensor if str(tensor.dtype) == "torch.uint8" else tensor.float()).numpy()
