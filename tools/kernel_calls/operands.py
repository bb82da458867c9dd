"""Random tensors: shapes about the sizes of tiles, layouts in memory, ranges of numbers."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tools.kernel_calls.bounded import FORMATS, Bounded, Format

SIZES = (
    0, 1, 1, 2, 3, 5, 7, 8, 13, 15, 16, 17, 31, 32, 33, 63, 64, 65, 97, 127, 128, 129, 255, 257,
)  # fmt: skip
LONG = (511, 512, 513, 1000, 1023, 1025, 2049, 4097, 8193, 16385)
LAYOUTS = (
    "plain", "plain", "plain", "transposed", "sliced", "padded", "expanded", "negative", "offset",
    "permuted",
)  # fmt: skip
VALUES = ("normal", "normal", "normal", "large", "tiny", "ties", "equal", "shifted", "special")
FLOATS = (torch.float32, torch.float32, torch.bfloat16, torch.float16, torch.float64)
HALVES = (torch.float32, torch.float32, torch.bfloat16, torch.float16)


class Source(random.Random):
    """Random choices of sizes, types and options."""

    device = "cpu"
    most = 1 << 16

    def size(self, most: int = 10**9, least: int = 0) -> int:
        return self.choice([s for s in SIZES if least <= s <= most])

    def long(self, least: int = 0) -> int:
        """A size of rows, which may be longer than what a program holds at once."""
        return self.choice(LONG) if self.random() < 0.2 else self.size(least=least)

    def shape(self, least: int = 1, most: int = 4) -> tuple[int, ...]:
        """A shape with few enough elements; the last dimension may be long."""
        rank = self.randint(least, most)
        while True:
            shape = (*(self.size(40) for _ in range(rank - 1)), self.long())
            if math.prod(shape) <= self.most:
                return shape[:rank]

    def maybe(self, chance: float = 0.5) -> bool:
        return self.random() < chance


def format_of(dtype: torch.dtype) -> Format:
    return FORMATS[str(dtype).removeprefix("torch.")]


def computed(dtype: torch.dtype) -> Format:
    """The format in which kernels compute with numbers of a type."""
    return FORMATS["float64" if dtype == torch.float64 else "float32"]


@dataclass
class Operand:
    """A tensor to be made: its shape and type, where its numbers lie, and of which kind they are.

    `values`: one of `VALUES`, "positive", or (low, high) of integers.
    """

    shape: tuple[int, ...]
    dtype: torch.dtype
    layout: str = "plain"
    values: Any = "normal"
    gradient: bool = True

    def make(self, random_: np.random.Generator, device: str) -> Tensor:
        """The tensor, with new numbers."""
        return place(self._numbers(random_), self.dtype, self.layout, device)

    def _numbers(self, random_: np.random.Generator) -> np.ndarray[Any, Any]:
        shape = self.shape
        if not isinstance(self.values, str):
            low, high = self.values
            return random_.integers(low, high, shape) if high > low else np.zeros(shape, np.int64)
        x = random_.standard_normal(shape)
        if self.values == "large":
            x = x * min(1e4, format_of(self.dtype).most / 64)
        elif self.values == "tiny":
            x = x * max(1e-20, format_of(self.dtype).normal)
        elif self.values == "ties":
            x = np.round(x)
        elif self.values == "equal":
            x = np.full(shape, random_.choice([0.0, 1.0, -2.5, 0.1]))
        elif self.values == "shifted":
            x = x + random_.choice([100.0, -1000.0])
        elif self.values == "positive":
            x = np.abs(x) + 0.01
        elif self.values == "special" and x.size:
            for number in (np.inf, -np.inf, np.nan, -0.0):
                if random_.random() < 0.5:
                    x.reshape(-1)[random_.integers(0, x.size, 1 + x.size // 50)] = number
        return x


def place(x: np.ndarray[Any, Any], dtype: torch.dtype, layout: str, device: str) -> Tensor:
    """Numbers as a tensor of a layout. Memory beside its elements has NaN, where it can."""
    if layout == "expanded" and x.ndim and 0 not in x.shape:
        axis = x.ndim // 2
        part = torch.tensor(x.take([0], axis)).to(device, dtype)
        return part.expand(x.shape)
    t = torch.tensor(x).to(device, dtype)
    if layout == "negative" and dtype.is_floating_point:
        return torch._neg_view((-t).contiguous())
    if layout == "transposed" and x.ndim >= 2:
        return t.mT.contiguous().mT
    if layout == "permuted" and x.ndim >= 2:
        order = [*range(1, x.ndim), 0]
        return t.permute(order).contiguous().permute([x.ndim - 1, *range(x.ndim - 1)])
    if layout not in ("sliced", "padded", "offset") or not x.ndim:
        return t
    beside = math.nan if dtype.is_floating_point else 0
    if layout == "sliced":  # every second column
        whole = torch.full((*x.shape[:-1], 2 * x.shape[-1] + 1), beside, dtype=dtype, device=device)
        view = whole[..., 1::2]
    elif layout == "padded":  # gaps between rows
        whole = torch.full((*x.shape[:-1], x.shape[-1] + 3), beside, dtype=dtype, device=device)
        view = whole[..., 2 : 2 + x.shape[-1]]
    else:  # adjacent, but not aligned
        whole = torch.full((t.numel() + 1,), beside, dtype=dtype, device=device)
        view = whole[1:].view(x.shape)
    view.copy_(t)
    return view


def exact(t: Tensor) -> np.ndarray[Any, Any]:
    """The numbers of a tensor, in float64 or int64."""
    t = t.detach().cpu().resolve_neg()
    wide = torch.float64 if t.dtype.is_floating_point else torch.int64
    return t.to(wide, copy=True).numpy()


def bounded(x: Any, to: Format) -> Bounded:
    """An operand's numbers, which have no error."""
    return Bounded(x, 0.0, to)


def layouts(source: Source, count: int) -> list[str]:
    """Layouts of so many operands, mostly plain."""
    return [source.choice(LAYOUTS) for _ in range(count)]


def floats(
    source: Source, shapes: Sequence[tuple[int, ...]], dtype: torch.dtype, values: str = ""
) -> list[Operand]:
    """Operands of a type, of random layouts and kinds of numbers."""
    return [
        Operand(shape, dtype, layout, values or source.choice(VALUES))
        for shape, layout in zip(shapes, layouts(source, len(shapes)), strict=True)
    ]
