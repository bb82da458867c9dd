"""Random launch arguments, good and bad."""

from __future__ import annotations

import collections
import enum
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

import tritium.language as tl
from tools.launch_programs.facts import NAMES, Described, Memory, Parameter
from tritium.tools.tensor_descriptor import TensorDescriptor

Pair = collections.namedtuple("Pair", "first second")
Other = collections.namedtuple("Other", "first second")  # the same fields in another class


class Level(enum.Enum):
    """Constants that are members of an enumeration."""

    LOW = 1
    HIGH = 2


class Number(enum.IntEnum):
    """Ints that have a class of their own."""

    SIXTEEN = 16
    SEVENTEEN = 17


INTEGERS = (
    0, 1, 2, 3, 7, 15, 16, 17, 32, 48, -1, -16, -17, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1,
    2**31 + 16, 2**32, 2**32 + 1, 2**40, 2**63 - 1, 2**63 - 16, 2**63, 2**63 + 1, 2**64 - 16,
    2**64 - 1, -(2**63), -(2**63) + 1,
)  # fmt: skip
FLOATS = (0.0, -0.0, 1.0, 0.5, -2.25, 16.0, 1e30, float("inf"), float("-inf"))
DTYPES = (
    torch.bool, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.uint16,
    torch.uint32, torch.uint64, torch.float16, torch.bfloat16, torch.float32, torch.float64,
    torch.float8_e4m3fn, torch.float8_e5m2,
)  # fmt: skip
LONGEST = 32
"""Elements that a kernel reads of a pointer at most."""


class Arguments:
    """Makes arguments from a source of random numbers.

    Args:
        source: the random numbers.
        device: torch's name of where tensors are.
        functions: kernel functions and dtypes that may be compile-time values.
    """

    def __init__(self, source: random.Random, device: str, functions: Sequence[Any]):
        self.source, self.device = source, device
        self.functions = list(functions)

    def _choose(self, *makers: Callable[[], Any]) -> Any:
        return self.source.choice(makers)()

    def good(self, parameter: Parameter) -> Any:
        """An argument that a parameter takes."""
        if parameter.is_constexpr:
            return self.constant()
        if parameter.fixed:
            return self._annotated(parameter.fixed)
        return self.dynamic()

    def dynamic(self, depth: int = 0) -> Any:
        """An argument for a parameter without annotation."""
        makers = [self.integer, self.integer, self.number, self.tensor, self.tensor, self.plain]
        if self.device == "cpu":
            makers.append(self.array)
        if depth == 0:
            makers.append(self.descriptor)
        if depth < 3:
            makers.append(lambda: self._tuple(lambda: self.dynamic(depth + 1)))
        return self._choose(*makers)

    def _tuple(self, make: Callable[[], Any]) -> Any:
        if self.source.random() < 0.4:
            return self.source.choice((Pair, Other))(make(), make())
        return tuple(make() for _ in range(self.source.choice((1, 1, 2, 3))))

    def integer(self) -> Any:
        """An int, of Python or of NumPy."""
        value = self.source.choice(INTEGERS)
        if self.source.random() < 0.3:
            kinds = [k for k in (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint64)
                     if np.iinfo(k).min <= value <= np.iinfo(k).max]  # fmt: skip
            return self.source.choice(kinds)(value)
        return value if self.source.random() < 0.95 else self.source.choice(list(Number))

    def number(self) -> Any:
        """A float, of Python or of NumPy, or a bool."""
        value = self.source.choice(FLOATS)
        return self._choose(
            lambda: value, lambda: np.float64(value), lambda: np.float32(value),
            lambda: self.source.random() < 0.5, lambda: np.bool_(self.source.random() < 0.5),
        )  # fmt: skip

    def plain(self) -> Any:
        """A compile-time value for a parameter that is none."""
        return self._choose(
            lambda: None, lambda: None, lambda: self.source.choice(self.functions),
            lambda: self.source.choice((tl.float32, tl.int8)), lambda: "text",
            lambda: tl.constexpr(self.source.choice((1, 2, 0.5, True))),
        )  # fmt: skip

    def constant(self, depth: int = 0) -> Any:
        """A value for a constexpr parameter."""
        makers = [
            self.plain, self.plain, lambda: self.source.choice(INTEGERS),
            lambda: self.source.choice((0, 1, 2, 2)), lambda: self.source.choice(FLOATS),
            lambda: self.source.choice((True, False)), lambda: self.source.choice(list(Level)),
            lambda: self.source.choice(("a", "b", "1")), lambda: self.source.choice(DTYPES),
        ]
        if depth < 2:
            makers.append(lambda: self._tuple(lambda: self.constant(depth + 1)))
        return self._choose(*makers)

    def _annotated(self, kind: str) -> Any:
        if kind == "u1":
            return self.source.random() < 0.5
        if kind[0] in "iu":
            low = 0 if kind[0] == "u" else -(2 ** (int(kind[1:]) - 1))
            high = 2 ** int(kind[1:]) - 1 if kind[0] == "u" else -low - 1
            fitting = [value for value in (*INTEGERS, 96, 127) if low <= value <= high]
            return self.source.choice(fitting)
        return self.source.choice((*FLOATS, 3, 1, 16))

    # Memory

    def tensor(self, dtype: torch.dtype | None = None) -> Memory:
        """A tensor with any alignment, shape and strides."""
        dtype = dtype or self.source.choice(DTYPES)
        values = [self.source.randrange(2 if dtype is torch.bool else 4) for _ in range(96)]
        base = torch.tensor(values, dtype=torch.float32).to(dtype).to(self.device)
        start = self.source.choice((0, 0, 0, 1, 2, 3, 4, 8, 16))
        flat, shape = base[start:], self.source.randrange(6)
        count = self.source.randrange(1, LONGEST + 1)
        views = (
            lambda: flat, lambda: flat[:count], lambda: flat[:32].reshape(4, 8).t(),
            lambda: flat[: 2 * count : 2], lambda: flat[0], lambda: flat[:1].expand(7),
        )  # fmt: skip
        made = views[shape]()
        readable = (LONGEST, count, LONGEST, 2 * count - 1, 1, 1)[shape]
        if self.source.random() < 0.08:
            made, readable = self._empty(base, start), 0
        readable = min(readable, LONGEST)
        if self.source.random() < 0.1 and dtype.is_floating_point:
            made = torch.nn.Parameter(made, requires_grad=False)
        name = str(dtype).rpartition(".")[2]
        total = sum(values[start : start + readable])
        return Memory(made, made.data_ptr(), NAMES[name], readable, total)

    def _empty(self, base: torch.Tensor, start: int) -> torch.Tensor:
        return self._choose(
            lambda: base[start:start], lambda: base.new_empty(0), lambda: base.new_empty(3, 0)
        )

    def array(self) -> Memory:
        """A NumPy array; some are read-only."""
        name = self.source.choice([n for n in NAMES if n in np.sctypeDict and n != "bool"])
        start = self.source.choice((0, 0, 1, 2, 8))
        values = [self.source.randrange(4) for _ in range(64)]
        base = np.empty(64 * np.dtype(name).itemsize + 16, np.uint8)
        shift = -base.ctypes.data % 16
        made = base[shift:].view(f"V{np.dtype(name).itemsize}")[:64].view(name)
        made[:] = values
        made = made[start:]
        if self.source.random() < 0.2:
            made.flags.writeable = False
        return Memory(made, made.ctypes.data, NAMES[name], LONGEST,
                      sum(values[start : start + LONGEST]))  # fmt: skip

    def descriptor(self) -> Described:
        """A tensor descriptor made on the host."""
        dtype = self.source.choice((torch.float32, torch.float16, torch.int32, torch.uint8))
        block = self.source.choice(([16], [4, 16], [8, 16], [2, 2, 16]))
        rows, columns = int(np.prod(block[:-1], dtype=int)), 16 * self.source.choice((1, 2))
        values = np.random.default_rng(self.source.randrange(2**30)).integers(0, 4, rows * columns)
        made = torch.tensor(values).to(dtype).to(self.device).reshape(*block[:-1], columns)
        found = TensorDescriptor(made, list(made.shape), list(made.stride()), block)
        name = NAMES[str(dtype).rpartition(".")[2]]
        total = int(values.reshape(rows, columns)[:, :16].sum())
        return Described(found, f"tensordesc<{name}{block}>", total)

    # What no kernel takes

    def bad(self, parameter: Parameter) -> tuple[Any, tuple[type[BaseException], ...]]:
        """An argument that a parameter cannot take, and the errors that may say so."""
        kinds = TypeError, ValueError, OverflowError
        if parameter.is_constexpr:
            return self.source.choice((np.zeros(3), {1, 2}, bytearray(2))), (TypeError,)
        if parameter.fixed:
            if parameter.fixed[0] in "iu":
                return self.source.choice((2**64, -(2**63) - 1, 0.5, 1j)), kinds
            return self.source.choice((1j, object(), [1.0])), kinds
        objects = (
            object(), 1j, [1, 2], {"a": 1}, 2**64, -(2**63) - 1, (1, object()), Pair(2**64, 2),
            np.zeros(3, np.complex64), np.zeros(3, object), np.zeros(3, "M8[s]"),
            torch.zeros(3, dtype=torch.complex64), torch.zeros(3, device="meta"),
            torch.zeros(3, 3).to_sparse(), b"bytes", int, range(3), np.zeros(3, ">i4"),
        )  # fmt: skip
        return self.source.choice(objects), kinds
