"""Arrays of float64 numbers with bounds of how far a computation in fewer bits may be from them.

Each operation adds what it may lose itself, as the running error analysis of Higham's "Accuracy
and Stability of Numerical Algorithms" does (section 3.3): u * |result| for one that is rounded, and
what it makes of the errors of its operands to first order. Sums of n terms, in any order, lose
SPREAD * sqrt(n) * u times the sum of magnitudes: the probabilistic bound of Higham and Mary (2019).
Where a number leaves the range of the type that it is computed in, its error is infinite: anything
may be found there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
SPREAD = 4.0
"""Standard deviations of a sum's error that are allowed; a blocked sum's order is not known."""
FUNCTION = 8.0
"""Roundings that a function such as exp may lose."""


@dataclass(frozen=True)
class Format:
    """A type of numbers: half its spacing at 1, the largest, the least normal, its spacing at 0."""

    u: float
    most: float
    normal: float
    least: float


FORMATS = {
    "float16": Format(2.0**-11, 65504.0, 2.0**-14, 2.0**-24),
    "bfloat16": Format(2.0**-8, 3.3895313892515355e38, 2.0**-126, 2.0**-133),
    "float32": Format(2.0**-24, 3.4028234663852886e38, 2.0**-126, 2.0**-149),
    "float64": Format(2.0**-53, 1.7976931348623157e308, 2.0**-1022, 2.0**-1074),
}


class Bounded:
    """Numbers and bounds of their errors, in computations of the format `to`."""

    __array_ufunc__ = None  # NumPy's arrays leave their operators to this class

    def __init__(self, value: Any, error: Any = 0.0, to: Format = FORMATS["float32"]):
        self.value = np.asarray(value, dtype=np.float64)
        self.error = np.broadcast_to(np.asarray(error, dtype=np.float64), self.value.shape)
        self.to = to

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape

    def _new(self, value: Any, error: Any, roundings: float = 1.0) -> Bounded:
        """A result: its own rounding is added; out of range, the error is infinite. Numbers below
        the least normal may be taken for 0."""
        magnitude = np.abs(value)
        error = error + roundings * (self.to.u * magnitude + self.to.normal)
        out = np.isfinite(value) & ~(magnitude + error < self.to.most)
        return Bounded(value, np.where(out, np.inf, error), self.to)

    def _other(self, other: Any) -> Bounded:
        return other if isinstance(other, Bounded) else Bounded(other, 0.0, self.to)

    def __add__(self, other: Any) -> Bounded:
        b = self._other(other)
        return self._new(self.value + b.value, self.error + b.error)

    __radd__ = __add__

    def __neg__(self) -> Bounded:
        return Bounded(-self.value, self.error, self.to)

    def __sub__(self, other: Any) -> Bounded:
        return self + -self._other(other)

    def __rsub__(self, other: Any) -> Bounded:
        return self._other(other) + -self

    def __mul__(self, other: Any) -> Bounded:
        b = self._other(other)
        spread = times(np.abs(self.value), b.error) + times(np.abs(b.value), self.error)
        return self._new(self.value * b.value, spread + times(self.error, b.error))

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Bounded:
        return self * self._other(other).inverse()

    def __rtruediv__(self, other: Any) -> Bounded:
        return self._other(other) * self.inverse()

    def inverse(self) -> Bounded:
        """1 / x."""
        room = np.abs(self.value) - self.error
        error = np.where(
            room > 0, self.error / np.maximum(room, 1e-300) / np.abs(self.value), np.inf
        )
        return self._new(1 / self.value, np.where(self.error == 0, 0.0, error))

    def __getitem__(self, key: Any) -> Bounded:
        return Bounded(self.value[key], self.error[key], self.to)

    def moved(self, how: Callable[[Array], Array]) -> Bounded:
        """The same numbers in other places."""
        return Bounded(how(self.value), how(np.array(self.error)), self.to)

    def reshape(self, *shape: int) -> Bounded:
        return self.moved(lambda a: a.reshape(shape))

    def where(self, mask: Any, other: Any) -> Bounded:
        """These numbers where `mask`, else `other`."""
        b = self._other(other)
        return Bounded(
            np.where(mask, self.value, b.value), np.where(mask, self.error, b.error), self.to
        )

    def apply(self, function: Callable[[Array], Array], slope: Any, extra: float = 0.0) -> Bounded:
        """A smooth function: `slope` bounds its derivative near each number."""
        value = function(self.value)
        return self._new(value, times(np.abs(slope), self.error) + extra, FUNCTION)

    def exp(self) -> Bounded:
        value = np.exp(self.value)
        # By way of exp2: the rounding of x * log2(e) counts too.
        inner = self.error + self.to.u * np.where(np.isfinite(self.value), np.abs(self.value), 0)
        return self._new(value, times(value, np.expm1(np.minimum(inner, 700.0))), FUNCTION)

    def sigmoid(self) -> Bounded:
        """1 / (1 + exp(-x)); 0 for x of which exp(-x) is out of range."""
        value = 1 / (1 + np.exp(-self.value))
        inner = self.error + self.to.u * np.where(np.isfinite(self.value), np.abs(self.value), 0)
        return self._new(value, times(value, np.expm1(np.minimum(inner, 700.0))), FUNCTION)

    def log(self) -> Bounded:
        return self.apply(np.log, 1 / np.maximum(self.value - self.error, 1e-300), self.to.u)

    def sqrt(self) -> Bounded:
        value = np.sqrt(self.value)
        with np.errstate(all="ignore"):
            near = np.where(value > 0, self.error / value, np.inf)
        return self._new(value, np.where(self.error > 0, np.minimum(near, np.sqrt(self.error)), 0))

    def sum(self, axis: int | tuple[int, ...], keepdims: bool = False) -> Bounded:
        axes = (axis,) if isinstance(axis, int) else axis
        count = float(np.prod([self.shape[a] for a in axes])) if axes else 1.0
        magnitude = np.abs(self.value).sum(axis, keepdims=keepdims)
        error = np.array(self.error).sum(axis, keepdims=keepdims)
        own = times(SPREAD * np.sqrt(count) * self.to.u, magnitude)
        # Partial sums may leave the range, whatever the sum is.
        own = np.where(magnitude < self.to.most, own, np.where(np.isfinite(magnitude), np.inf, 0.0))
        return self._new(self.value.sum(axis, keepdims=keepdims), error + own)

    def mean(self, axis: int, keepdims: bool = False) -> Bounded:
        return self.sum(axis, keepdims) / float(self.shape[axis])

    def max(self, axis: int, keepdims: bool = False) -> Bounded:
        error = np.array(self.error).max(axis, keepdims=keepdims)
        return Bounded(self.value.max(axis, keepdims=keepdims), error, self.to)

    def matmul(self, other: Any) -> Bounded:
        """The product of matrices, whose sums are kept in this format."""
        b = self._other(other)
        ours, theirs = np.abs(self.value), np.abs(b.value)
        k = float(self.shape[-1])
        magnitude = ours @ theirs
        own = times(SPREAD * np.sqrt(max(k, 1.0)) * self.to.u, magnitude)
        own = np.where(magnitude < self.to.most, own, np.where(np.isfinite(magnitude), np.inf, 0.0))
        error = ours @ b.error + self.error @ theirs + self.error @ b.error
        return self._new(self.value @ b.value, error + own)

    def rounded(self, to: Format, sums: Format | None = None) -> Bounded:
        """The numbers stored in another format; what follows is computed in `sums`."""
        stored = Bounded(self.value, self.error, to)._new(self.value, self.error)
        return Bounded(stored.value, stored.error, sums or self.to)


def times(a: Any, b: Any) -> Array:
    """A product of magnitudes and errors: no error of an infinite number is no error."""
    with np.errstate(all="ignore"):
        return np.where(np.asarray(b) == 0, 0.0, np.where(np.asarray(a) == 0, 0.0, a * b))


def stack(parts: Sequence[Bounded], axis: int = 0) -> Bounded:
    """Arrays of the same shape, one beside the other."""
    values = np.stack([p.value for p in parts], axis)
    return Bounded(values, np.stack([p.error for p in parts], axis), parts[0].to)


def difference(found: Array, right: Bounded, to: Format) -> str:
    """The places where `found`, of the format `to`, is not what it may be, in words, or ""."""
    if found.shape != right.shape:
        return f"has the shape {found.shape}, not {right.shape}"
    want = right.value
    with np.errstate(all="ignore"):
        error = right.error + to.u * np.abs(want) + to.least + to.normal
        near = np.isfinite(want) & (np.abs(found - want) <= error)
        # Numbers above the largest are infinite.
        past = np.isfinite(want) & np.isinf(found) & (np.abs(want) + error >= to.most * (1 - to.u))
        past &= np.sign(found) == np.sign(want)
        same = (found == want) | (np.isnan(found) & np.isnan(want))
        fits = near | past | same | np.isposinf(right.error) | np.isnan(right.error)
        beyond = np.isfinite(want) & (np.abs(want) > to.most)
        fits |= beyond & (np.isinf(found) | (np.abs(found) >= to.most * (1 - 4 * to.u)))
    if fits.all():
        return ""
    place = tuple(int(i) for i in np.argwhere(~fits)[0])
    wrong = int((~fits).sum())
    return (
        f"is {found[place]!r} at {place}, not {want[place]!r} within {error[place]:.3g} "
        f"({wrong} of {cast('int', fits.size)} wrong)"
    )
