"""Arrays between pages that cannot be accessed, and who accessed which element."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np

_libc = ctypes.CDLL(None, use_errno=True)


class Guarded:
    """An array that ends, or begins, at a page that cannot be accessed; another one is at its other
    side, less than a page away.

    Attributes:
        array: the array, one-dimensional.
    """

    def __init__(self, data: np.ndarray, at_end: bool):
        page = mmap.PAGESIZE
        inner = max(page, -(-data.nbytes // page) * page)
        self._memory = mmap.mmap(-1, inner + 2 * page)
        first = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        for guard in (first, first + page + inner):
            if _libc.mprotect(ctypes.c_void_p(guard), ctypes.c_size_t(page), 0):
                raise OSError(ctypes.get_errno(), "mprotect")
        start = page + (inner - data.nbytes if at_end else 0)
        raw = (ctypes.c_uint8 * data.nbytes).from_buffer(self._memory, start)
        self.array: np.ndarray = np.frombuffer(raw, data.dtype)
        self.array[:] = data


class Base:
    """Memory as the programs of a grid leave it, none of which knows when another one runs: an
    element that one writes is accessed by no other."""

    def __init__(self, data: np.ndarray):
        self.data = data
        self.first = data.copy()
        self._owner = np.zeros(data.size, np.int64)
        """The program that accessed an element, from 1 on; -1: several read it."""
        self._written = np.zeros(data.size, bool)

    def state(self) -> tuple[np.ndarray, ...]:
        """Copies of the elements, their owners and which are written."""
        return self.data.copy(), self._owner.copy(), self._written.copy()

    def restore(self, state: tuple[np.ndarray, ...]) -> None:
        """Go back to an earlier `state()`."""
        self.data, self._owner, self._written = (part.copy() for part in state)

    def read(self, at: np.ndarray, active: np.ndarray) -> np.ndarray | None:
        """The elements `at` (programs first) where `active`, else 0; None if programs conflict."""
        owner = self._owner.copy()
        for number in range(len(at)):
            places = at[number][active[number]]
            before = owner[places]
            if (self._written[places] & (before != number + 1)).any():
                return None
            owner[places] = np.where((before == 0) | (before == number + 1), number + 1, -1)
        self._owner = owner
        found = self.data[np.where(active, at, 0)]
        return np.where(active, found, np.zeros((), self.data.dtype))

    def write(self, at: np.ndarray, active: np.ndarray, values: np.ndarray) -> bool:
        """Store where `active`; whether programs and elements do not conflict."""
        owner = self._owner.copy()
        for number in range(len(at)):
            places = at[number][active[number]]
            if np.unique(places).size != places.size:
                return False
            if (~np.isin(owner[places], (0, number + 1))).any():
                return False
            owner[places] = number + 1
        self._owner = owner
        self._written[at[active]] = True
        self.data[at[active]] = values[active]
        return True


def bits(array: np.ndarray) -> Any:
    """The bytes of an array, but -0 as 0 and each NaN as one: conversions and sums of a signaling
    NaN leave other bits on other processors, and in NumPy."""
    with np.errstate(invalid="ignore"):  # of a signaling NaN
        zeros = np.where(array == 0, np.zeros((), array.dtype), array)
        nan = np.asarray(array != array)
    if nan.any():
        zeros[nan] = np.nan
    return np.ascontiguousarray(zeros).view(np.uint8)
