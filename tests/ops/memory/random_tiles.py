"""Random kernels that move, reduce, multiply and carry tiles of floats, against NumPy.

    python -m tests.ops.memory.random_tiles SEED COUNT [avx | sse]

The same text runs natively and, with `tl` being `numpy_language`, on NumPy. Arrays begin at the
first element that a program reads and end after the last one, between pages that cannot be
accessed; what it does not read in between is NaN, or a number far from all others. Numbers are
small and whole, so that any order of additions gives the same bits; one program in four has
infinities and NaNs among them.
"""

from __future__ import annotations

import ctypes
import importlib.util
import random
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from tests.ops.memory.random_addresses import WITHOUT, Guarded, restrict
from tests.support import numpy_language

SIZE, START = 1 << 15, 1 << 14
"""Elements of an array, and which one a kernel's pointer points to."""
ARRAYS = {
    "pf": np.float32, "pg": np.float32, "ph": np.float16, "pb": ml_dtypes.bfloat16,
    "pd": np.float64, "p8": ml_dtypes.float8_e5m2, "pi": np.int32, "pc": np.int8,
}  # fmt: skip
DTYPES = {
    "pf": "float32", "pg": "float32", "ph": "float16", "pb": "bfloat16", "pd": "float64",
    "p8": "float8e5", "pi": "int32", "pc": "int8",
}  # fmt: skip
HOLDS = {"float32": 1 << 24, "float64": 1 << 40, "float16": 1 << 11, "bfloat16": 1 << 8,
         "float8e5": 4, "int32": 1 << 30, "int8": 127}  # fmt: skip
"""The largest of the whole numbers that a dtype has all of, from zero on."""
OUT = 1 << 17
SCALARS = (0, 1, 2, 3, 5, 7, 8, 13, 16, 17, 24, 31, 32, 33, 48, 63, 64, 100)
HELPERS = """
@tritium.jit
def larger(a, b):
    return tl.maximum(a, b)


@tritium.jit(noinline=True)
def apart(a, b):
    return tl.where(a > b, a, b * 2)
"""


@dataclass(frozen=True)
class Var:
    """A value: no element is larger than `bound`."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    bound: int

    @property
    def floats(self) -> bool:
        return "float" in self.dtype


class Program:
    """One random kernel."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.vars: list[Var] = []
        self.flags: list[tuple[str, tuple[int, ...]]] = []
        self.count, self.indent, self.stored = 0, 1, 0
        self.wild = self.random.random() < 0.25
        pick = self.random.choice
        self.n = pick((8, 16, 32, 64, 128, 256))
        self.m = pick((1, 2, 4, 8, 16, 16, 32, 32, 64)) if self.n <= 64 else pick((1, 2, 4, 8))
        self.scalars = {f"s{i}": pick(SCALARS) for i in range(4)}
        self.alias = pick((0, 0, 1, -1, 3, 8, -16, 5000))
        self.grid = 1 if self.random.random() < 0.5 else 3
        self.build()

    # Text

    def say(self, line: str) -> None:
        self.lines.append("    " * self.indent + line)

    def name(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def new(self, text: str, shape: tuple[int, ...], dtype: str, bound: int) -> Var:
        made = Var(self.name(), tuple(shape), dtype, bound)
        self.say(f"{made.name} = {text}")
        self.vars.append(made)
        return made

    def flag_of(self, text: str, shape: tuple[int, ...]) -> str:
        name = self.name()
        self.say(f"{name} = {text}")
        self.flags.append((name, shape))
        return name

    def chance(self, of: float) -> bool:
        return self.random.random() < of

    def number(self, *more: Any) -> str:
        return str(self.random.choice(("s0", "s1", "s2", "s3", 1, 3, 5, 8, 16, 17, *more)))

    # What values there are

    def value(self, test: Callable[[Var], bool] = lambda v: True, shape: Any = None) -> Var:
        """A value that passes a test, in a shape that is asked for."""
        found = [v for v in self.vars if test(v) and (shape is None or self.fits(v, shape))]
        if not found:
            shape = shape or self.random.choice(((self.n,), (self.m, self.n)))
            for _ in range(20):
                made = self.load(shape)
                if test(made):
                    return made
            raise numpy_language.Inexact("no value passes")
        recent = found[-5:] if self.chance(0.7) else found
        return self.into(self.random.choice(recent), shape)

    @staticmethod
    def fits(var: Var, shape: tuple[int, ...]) -> bool:
        if np.prod(var.shape, dtype=int) == np.prod(shape, dtype=int) and var.shape:
            return True
        try:
            return np.broadcast_shapes(var.shape, shape) == tuple(shape)
        except ValueError:
            return False

    def into(self, var: Var, shape: Any) -> Var:
        if shape is None or var.shape == tuple(shape):
            return var
        if var.shape and np.prod(var.shape) == np.prod(shape):
            if var.shape == tuple(shape[::-1]) and len(shape) == 2 and self.chance(0.6):
                return self.new(f"tl.trans({var.name})", shape, var.dtype, var.bound)
            text = f"tl.reshape({var.name}, {list(shape)})"
        elif not var.shape:
            kind = f"tl.{var.dtype}"
            text = f"tl.full({list(shape)}, 0, {kind}) + tl.cast({var.name}, {kind})"
            if var.dtype in ("int8", "float8e5"):
                text = f"tl.broadcast_to({var.name}, {list(shape)})"
        else:
            padded = [*(1,) * (len(shape) - len(var.shape)), *var.shape]
            text = f"tl.broadcast_to(tl.reshape({var.name}, {padded}), {list(shape)})"
        return self.new(text, shape, var.dtype, var.bound)

    def at_most(self, var: Var, bound: int) -> Var:
        """The value, with what is larger than `bound` cut off (NaN becomes a number)."""
        if var.dtype == "float8e5":
            var = self.cast_to(var, "float32")
        if var.bound <= bound and not (self.wild and var.floats):
            return var
        if var.dtype == "bfloat16":  # whose maximum is a float32
            var = self.cast_to(var, "float32")
        if var.dtype == "int8":
            var = self.cast_to(var, "int32")
        kind = f"tl.{var.dtype}"
        low, high = (f"tl.full([], {b}, {kind})" for b in (-bound, bound))
        text = f"tl.minimum(tl.maximum({var.name}, {low}), {high})"
        return self.new(text, var.shape, var.dtype, bound)

    def cast_to(self, var: Var, dtype: str) -> Var:
        if var.dtype == dtype:
            return var
        special = self.wild and var.floats and dtype in ("int32", "int8", "float8e5")
        if var.bound > HOLDS[dtype] or special:
            var = self.at_most(var, min(HOLDS[dtype], 100))
        return self.new(f"tl.cast({var.name}, tl.{dtype})", var.shape, dtype, var.bound)

    def plain(self, var: Var) -> Var:
        """The value in a dtype that the language computes with."""
        return self.cast_to(var, self.random.choice(("float32", "float16", "bfloat16"))) if (
            var.dtype in ("float8e5",)
        ) else var  # fmt: skip

    # Addresses and masks

    def index(self, shape: tuple[int, ...]) -> list[str]:
        """The index along each axis, as texts that broadcast."""
        found: list[str] = []
        for axis, size in enumerate(shape):
            text = f"tl.arange(0, {size})"
            if len(shape) > 1:
                inner = ", ".join(":" if i == axis else "None" for i in range(len(shape)))
                text += f"[{inner}]"
            found.append(text)
        return found

    def offset(self, shape: tuple[int, ...]) -> str:
        index = self.index(shape)
        strides = [int(np.prod(shape[i + 1 :], dtype=int)) for i in range(len(shape))]
        kind = self.random.random()
        if kind < 0.2:
            strides = [int(np.prod(shape[:i], dtype=int)) for i in range(len(shape))]
        elif kind < 0.3:
            strides = [self.random.choice((0, 1, 2, 3, shape[-1], -1, 17)) for _ in shape]
        elif kind < 0.45 and len(shape) > 1:
            strides[0] += self.random.choice((1, 3, 8, 16))
        texts = [f"{i} * {s}" if s != 1 else i for i, s in zip(index, strides, strict=True)]
        if 0.45 < kind < 0.55 and len(shape) > 1:
            texts[0] = f"{index[0]} * {self.number()}"
        base = self.random.choice(("", "", "3", "pid * 64", "s0", "s1 * 4", "pid * s2"))
        return " + ".join([*texts, *([base] if base else [])])

    def mask(self, shape: tuple[int, ...]) -> str:
        index = self.index(shape)
        pick = self.random.choice
        axis = self.random.randrange(len(shape)) if shape else 0
        if not shape:
            return f"{self.number()} > {self.number()}"
        limit = self.number(shape[axis] - 1, shape[axis] // 2 + 1)
        known = [f for f, s in self.flags if s == shape]
        texts = [f"({index[axis]} < {limit})"] * 4 + [
            f"({index[axis]} + {self.number()} < {limit})",
            f"({index[axis]} >= {limit})",
            f"({index[axis]} % 3 == 1)",
            f"({self.number()} > {self.number()})",
            f"(({self.offset(shape)}) < {self.number(100, 200)})",
            f"((({self.offset(shape)}) * 7 & 7) < 5)",
        ]
        if len(shape) > 1:
            texts.append(f"({index[0]} >= {index[-1]})")
        found = pick(known[-3:]) if known and self.chance(0.4) else pick(texts)
        if self.chance(0.3):
            found += f" {pick('&&|')} {pick(texts)}"
        return found

    def load(self, shape: Any = None, array: str = "") -> Var:
        shape = tuple(shape or self.random.choice(((self.n,), (self.m, self.n))))
        array = array or self.random.choice((*ARRAYS, "pf", "pf", "w", "z"))
        dtype = DTYPES.get(array, "float32")
        bound = 4
        if array in "wz":
            bound = 1 << 10
        if len(shape) == 2 and self.chance(0.1):
            (m, n), o = shape, [self.random.choice((0, 1, 5, "s0", "s1")) for _ in range(2)]
            sizes = f"({self.number(m)}, {self.number(n)}), ({n + 3}, 1), ({o[0]}, {o[1]})"
            block = f"tl.make_block_ptr({array}, {sizes}, ({m}, {n}), (1, 0))"
            extra = ', boundary_check=(0, 1), padding_option="zero"'
            return self.new(f"tl.load({block}{extra})", shape, dtype, bound)
        text = f"{array} + ({self.offset(shape)})"
        extra = ""
        if self.chance(0.65):
            others = ["0", "0", "0", "1", "-2"]
            if self.wild and "float" in dtype and dtype != "float8e5":  # that has none: 57344
                others += ["float('inf')", "float('nan')"]
            mask = self.flag_of(f"({self.mask(shape)}) & tl.full({list(shape)}, 1, tl.int1)", shape)
            extra = f", mask={mask}, other={self.random.choice(others)}"
        return self.new(f"tl.load({text}{extra})", shape, dtype, bound)

    # Statements

    def build(self) -> None:
        self.say("pid = tl.program_id(0)")
        kinds: list[Any] = [
            self.binary, self.binary, self.select, self.cast, self.move, self.move, self.reduce,
            self.reduce, self.scan, self.dot, self.dot, self.loop, self.loop, self.branch,
            self.store, self.atomic, self.compare, self.combine, self.order, self.guarded,
            self.gather, self.product,
        ]  # fmt: skip
        kinds = self.random.sample(kinds, 7)
        for _ in range(self.random.randint(1, 3)):
            self.load()
        for _ in range(self.random.randint(2, 9)):
            self.random.choice(kinds)()
        for _ in range(self.random.randint(1, 3)):
            self.out(self.random.choice(self.vars[-6:]))

    def binary(self) -> Var:
        a = self.plain(self.value())
        b = self.value(lambda v: v.floats == a.floats, a.shape)
        b = self.cast_to(self.plain(b), a.dtype)
        op = self.random.choice("++-*<>")
        limit = min(HOLDS[a.dtype], 1 << 20)
        if op == "*":
            root = int(limit**0.5)
            a, b = self.at_most(a, root), self.at_most(b, root)
            b = self.cast_to(b, a.dtype)
            return self.new(f"{a.name} * {b.name}", a.shape, a.dtype, a.bound * b.bound)
        if op in "<>":
            if a.dtype in ("int8", "bfloat16"):
                wide = "int32" if a.dtype == "int8" else "float32"
                a, b = self.cast_to(a, wide), self.cast_to(b, wide)
            name = "minimum" if op == "<" else "maximum"
            bound = max(a.bound, b.bound)
            return self.new(f"tl.{name}({a.name}, {b.name})", a.shape, a.dtype, bound)
        a, b = self.at_most(a, limit // 2), self.at_most(b, limit // 2)
        b = self.cast_to(b, a.dtype)
        return self.new(f"{a.name} {op} {b.name}", a.shape, a.dtype, a.bound + b.bound)

    def compare(self) -> None:
        a = self.plain(self.value(lambda v: bool(v.shape)))
        text = f"{a.name} {self.random.choice(('<', '>', '<=', '==', '!='))} "
        text += str(self.random.choice((0, 1, 2, -1)))
        self.flag_of(text, a.shape)

    def select(self) -> Var:
        a = self.plain(self.value(lambda v: bool(v.shape)))
        b = self.cast_to(self.value(lambda v: v.floats == a.floats, a.shape), a.dtype)
        text = f"tl.where({self.mask(a.shape)}, {a.name}, {b.name})"
        if self.chance(0.2) and a.dtype == b.dtype == "float32":
            a, b = self.at_most(a, 1 << 10), self.at_most(b, 1 << 10)
            text = f"apart({a.name}, {b.name})"
            return self.new(text, a.shape, a.dtype, 2 * max(a.bound, b.bound))
        return self.new(text, a.shape, a.dtype, max(a.bound, b.bound))

    def cast(self) -> Var:
        return self.cast_to(self.value(), self.random.choice(tuple(HOLDS)))

    def whole(self) -> Var:
        """A tile of at least 16 elements."""
        return self.value(lambda v: int(np.prod(v.shape, dtype=int)) >= 16)

    def move(self) -> Var:
        v = self.whole()
        total, kind = int(np.prod(v.shape)), self.random.randrange(7)
        if kind == 0 and v.dtype != "float8e5":
            axis = self.random.randrange(len(v.shape))
            return self.new(f"tl.flip({v.name}, {axis})", v.shape, v.dtype, v.bound)
        if kind == 1:
            shape = self.random.choice([(r, total // r) for r in (2, 4, 8, 16) if r < total])
            v = self.new(f"tl.reshape({v.name}, {list(shape)})", shape, v.dtype, v.bound)
            return self.new(f"tl.trans({v.name})", shape[::-1], v.dtype, v.bound)
        if kind == 2:
            shape = (2, self.random.choice((2, 4)))
            shape = (*shape, total // int(np.prod(shape)))
            order = self.random.sample(range(3), 3)
            text = f"tl.permute(tl.reshape({v.name}, {list(shape)}), {order})"
            return self.new(text, tuple(shape[i] for i in order), v.dtype, v.bound)
        if kind == 3:
            shape, (a, b) = (total // 2,), (self.name(), self.name())
            if self.chance(0.5):
                shape = (2, total // 4)
            self.say(f"{a}, {b} = tl.split(tl.reshape({v.name}, {[*shape, 2]}))")
            self.vars += [Var(a, shape, v.dtype, v.bound), Var(b, shape, v.dtype, v.bound)]
            return self.vars[-1]
        if kind == 4 and total <= 2048:
            b = self.cast_to(self.value(lambda x: x.floats == v.floats, v.shape), v.dtype)
            text, shape = f"tl.join({v.name}, {b.name})", (*v.shape, 2)
            if self.chance(0.5):
                text, shape = f"tl.interleave({v.name}, {b.name})", (*v.shape[:-1], v.shape[-1] * 2)
            return self.new(text, shape, v.dtype, max(v.bound, b.bound))
        if kind == 5 and len(v.shape) == 2:
            return self.new(f"tl.trans({v.name})", v.shape[::-1], v.dtype, v.bound)
        return self.new(f"tl.reshape({v.name}, [{total}])", (total,), v.dtype, v.bound)

    def gather(self) -> Var:
        v = self.plain(self.whole())
        axis = self.random.randrange(len(v.shape))
        size = v.shape[axis]
        if self.chance(0.5):
            index = f"(({self.offset(v.shape)}) * {self.number()}) & {size - 1}"
        else:
            by = self.value(lambda x: x.dtype == "int32" or x.floats, v.shape)
            by = self.cast_to(self.at_most(by, 100), "int32")
            index = f"{by.name} & {size - 1}"
        index = f"tl.broadcast_to({index}, {list(v.shape)})"
        return self.new(f"tl.gather({v.name}, {index}, {axis})", v.shape, v.dtype, v.bound)

    def summed(self, v: Var, count: int) -> Var:
        """A value of which `count` can be added up."""
        v = self.plain(v)
        if v.dtype in ("int8", "bfloat16"):
            v = self.cast_to(v, "int32" if v.dtype == "int8" else "float32")
        if v.bound * count > HOLDS[v.dtype]:
            v = self.at_most(v, max(1, HOLDS[v.dtype] // count))
        return v

    def reduce(self) -> Var:
        v = self.whole()
        axis = self.random.choice((*range(len(v.shape)), None))
        count = int(np.prod(v.shape)) if axis is None else v.shape[axis]
        shape = () if axis is None else tuple(s for i, s in enumerate(v.shape) if i != axis)
        kind = self.random.choice(("sum", "sum", "max", "min", "argmax", "argmin", "total", "xor"))
        if kind == "xor" and axis is not None:
            v = self.cast_to(self.at_most(v, 100), "int32")
            return self.new(f"tl.xor_sum({v.name}, {axis})", shape, "int32", 255)
        if kind.startswith("arg") and axis is not None:
            v = self.at_most(self.plain(v), v.bound if not self.wild else 50)
            return self.new(f"tl.{kind}({v.name}, {axis})", shape, "int32", count)
        if kind in ("max", "min"):
            v = self.plain(v)
            v = self.cast_to(v, "int32") if v.dtype == "int8" else v
            v = self.cast_to(v, "float32") if v.dtype == "bfloat16" else v
            return self.new(f"tl.{kind}({v.name}, {axis})", shape, v.dtype, v.bound)
        v = self.summed(v, count)
        keep = axis is not None and self.chance(0.2)
        if keep:
            shape = tuple(1 if i == axis else s for i, s in enumerate(v.shape))
        text = f"tl.sum({v.name}, {axis}{', keep_dims=True' * keep})"
        return self.new(text, shape, v.dtype, v.bound * count)

    def guarded(self) -> Var:
        """A sum of what a load gives where its mask, or another one, is true."""
        v = self.load()
        mask = self.mask(v.shape)
        v = self.plain(v)
        v = self.summed(v, int(np.prod(v.shape)))
        inner = f"tl.where({mask}, {v.name}, tl.full([], 0, tl.{v.dtype}))"
        axis = self.random.choice((*range(len(v.shape)), None))
        shape = () if axis is None else tuple(s for i, s in enumerate(v.shape) if i != axis)
        bound = v.bound * int(np.prod(v.shape))
        return self.new(f"tl.sum({inner}, {axis})", shape, v.dtype, bound)

    def scan(self) -> Var:
        v = self.whole()
        axis = self.random.randrange(len(v.shape))
        v = self.summed(v, v.shape[axis])
        reverse = self.random.choice(("", ", reverse=True"))
        text = f"tl.cumsum({v.name}, {axis}{reverse})"
        return self.new(text, v.shape, v.dtype, v.bound * v.shape[axis])

    def combine(self) -> Var:
        v = self.whole()
        v = self.summed(v, 1)
        axis = self.random.randrange(len(v.shape))
        shape = tuple(s for i, s in enumerate(v.shape) if i != axis)
        if self.chance(0.5):
            text = f"tl.associative_scan({v.name}, {axis}, larger)"
            return self.new(text, v.shape, v.dtype, v.bound)
        return self.new(f"tl.reduce({v.name}, {axis}, larger)", shape, v.dtype, v.bound)

    def order(self) -> Var:
        v = self.whole()
        if self.chance(0.3):
            v = self.into(v, (int(np.prod(v.shape)),))
            v = self.cast_to(self.at_most(v, 100), "int32")
            mask = ", mask=" + self.mask(v.shape) if self.chance(0.5) else ""
            text = f"tl.histogram({v.name} & 15, 16{mask})"
            return self.new(text, (16,), "int32", int(np.prod(v.shape)))
        v = self.plain(v)
        v = self.at_most(v, v.bound if not self.wild else 50)
        down = self.random.choice(("", ", descending=True"))
        return self.new(f"tl.sort({v.name}{down})", v.shape, v.dtype, v.bound)

    def operand(self, shape: tuple[int, int], axis: int, array: str, limit: str, at: str) -> Var:
        """An operand of a product, mostly masked along K, its `axis`."""
        swapped = self.chance(0.3)
        shape, axis = (shape[::-1], 1 - axis) if swapped else (shape, axis)
        index = self.index(shape)
        strides = self.random.choice(((shape[1], 1), (1, shape[0]), (shape[1] + 8, 1)))
        where = f"{index[0]} * {strides[0]} + {index[1]} * {strides[1]}{at}"
        other = 1 - axis
        mask = f"({index[axis]} < {limit})"
        kind = self.random.random()
        if kind < 0.15:
            mask = f"({index[other]} < {self.number(shape[other] - 1)})"
        elif kind < 0.35:
            mask += f" & ({index[other]} < {self.number(shape[other] - 1)})"
        extra = "" if 0.35 < kind < 0.5 else f", mask={mask}, other=0"
        if self.chance(0.1):
            extra = extra.replace("other=0", "other=1")
        v = self.new(f"tl.load({array} + {where}{extra})", shape, DTYPES[array], 4)
        if self.chance(0.1):
            v = self.new(f"{v.name} + {v.name}", shape, v.dtype, 8) if v.dtype != "float8e5" else v
        if swapped:
            v = self.new(f"tl.trans({v.name})", shape[::-1], v.dtype, v.bound)
        return v

    def dot(self) -> Var:
        m, n, k = (self.random.choice((16, 16, 32, 64)) for _ in range(3))
        array = self.random.choice(("pf", "pf", "ph", "pb", "pc", "p8", "pd"))
        second = "pg" if array == "pf" else array
        whole = array == "pc"
        dtype = "int32" if whole else "float64" if array == "pd" else "float32"
        turns = self.random.choice((1, 1, 2, 3, "s3 & 3"))
        how = ', input_precision="ieee"' if array == "pf" else ""
        limit = self.number(k - 1, k // 2)
        start = f"tl.zeros(({m}, {n}), tl.{dtype})"
        if self.chance(0.25):
            v = self.value(lambda v: v.floats != whole, (m, n))
            start = self.cast_to(self.at_most(v, 1 << 10), dtype).name
        name = self.name()
        self.say(f"{name} = {start}")
        kept = len(self.vars), len(self.flags)
        loop = turns != 1 or self.chance(0.2)
        if loop:
            self.say(f"for t in range(0, {turns}):")
            self.indent += 1
            limit = self.random.choice((limit, f"{limit} - t * {k}"))
        at = [self.random.choice(("", f" + t * {k * 2}", " + t") if loop else ("", " + 3"))
              for _ in range(2)]  # fmt: skip
        a = self.operand((m, k), 1, array, limit, at[0])
        b = self.operand((k, n), 0, second, limit, at[1])
        if self.chance(0.2):
            self.say(f"{name} = {name} + tl.dot({a.name}, {b.name}{how})")
        else:
            self.say(f"{name} = tl.dot({a.name}, {b.name}, {name}{how})")
        if self.chance(0.2):
            self.say(f"{name} = {name} + 1")
        if loop:
            self.indent -= 1
            del self.vars[kept[0] :], self.flags[kept[1] :]
        made = Var(name, (m, n), dtype, (1 << 10) + 4 * k * 64 + 3)
        self.vars.append(made)
        return made

    def product(self) -> Var:
        """A product of tiles that were computed."""
        m, n, k = (self.random.choice((16, 16, 32)) for _ in range(3))
        dtype = self.random.choice(("float32", "float16", "bfloat16"))
        a = self.cast_to(self.at_most(self.value(lambda v: v.floats, (m, k)), 8), dtype)
        b = self.cast_to(self.at_most(self.value(lambda v: v.floats, (k, n)), 8), dtype)
        text = f'tl.dot({a.name}, {b.name}, input_precision="ieee")'
        return self.new(text, (m, n), "float32", 64 * k)

    def loop(self) -> None:
        """A loop that carries two tiles and maybe a scalar."""
        a = self.cast_to(self.at_most(self.value(lambda v: bool(v.shape)), 16), "float32")
        b = self.cast_to(self.at_most(self.value(shape=a.shape), 16), "float32")
        x, y = self.name(), self.name()
        self.say(f"{x}, {y} = {a.name}, {b.name}")
        turns = self.random.choice((1, 2, 3, 5, "s0 & 3", "s1 & 7"))
        kept = len(self.vars), len(self.flags)
        if self.chance(0.2):
            self.say("t = 0")
            self.say(f"while t < {turns}:")
            self.indent += 1
            self.say("t += 1")
        else:
            self.say(f"for t in range(0, {turns}):")
            self.indent += 1
        first, second = self.change(x, y, a.shape), self.change(x, y, a.shape)
        if self.chance(0.3):
            self.say(f"{x} = {first}")
            self.say(f"{y} = {second}")
        else:
            self.say(f"{x}, {y} = {first}, {second}")
        if self.chance(0.2):
            self.say(f"tl.store(w + ({self.offset(a.shape)}) + t, {x})")
        self.indent -= 1
        del self.vars[kept[0] :], self.flags[kept[1] :]
        for name in (x, y):
            self.vars.append(Var(name, a.shape, "float32", 1 << 20))

    def change(self, x: str, y: str, shape: tuple[int, ...], t: str = "t") -> str:
        """The carried tiles after an iteration, which adds to them at most once."""
        kind, pick = self.random.randrange(9), self.random.choice((x, y))
        last = len(shape) - 1
        if kind < 3:
            mask = self.mask(shape).replace("s0", f"(s0 - {t})")
            where = f"{self.offset(shape)} + {t} * {self.random.choice((1, 16, shape[-1]))}"
            mask = f"({mask}) & tl.full({list(shape)}, 1, tl.int1)"
            return f"{pick} + tl.load(pf + ({where}), mask={mask}, other=0)"
        if kind == 3:
            return f"tl.where({self.mask(shape)}, {x}, {y})"
        if kind == 4:
            return f"tl.flip({pick}, {last})"
        if kind == 5 and len(shape) == 2 and shape[0] == shape[1]:
            return f"tl.trans({pick})"
        if kind == 6:
            index = f"tl.broadcast_to({self.index(shape)[-1]} ^ 1, {list(shape)})"
            return f"tl.gather({pick}, {index}, {last})"
        if kind == 7:
            small = f"tl.minimum(tl.maximum({pick}, -64.0), 64.0)"
            return f"tl.max({small}, {last}, keep_dims=True) - {small}"
        return pick

    def branch(self) -> None:
        a = self.cast_to(self.at_most(self.value(lambda v: bool(v.shape)), 64), "float32")
        name = self.name()
        self.say(f"{name} = {a.name}")
        condition = f"{self.number()} > {self.number()}"
        scalars = [v for v in self.vars if v.shape == () and v.dtype == "float32"]
        if scalars and self.chance(0.5):
            condition = f"{scalars[-1].name} > 2"
        self.say(f"if {condition}:")
        for last in (False, True):
            kept = len(self.vars), len(self.flags)
            self.indent += 1
            self.say(f"{name} = {self.change(name, a.name, a.shape, 's1')}")
            if self.chance(0.3):
                self.say(f"tl.store(w + ({self.offset(a.shape)}), {name})")
            self.indent -= 1
            del self.vars[kept[0] :], self.flags[kept[1] :]
            if last or self.chance(0.5):
                break
            self.say("else:")
        self.vars.append(Var(name, a.shape, "float32", 1 << 10))

    def store(self) -> None:
        """A store to memory that other statements read; no place twice."""
        v = self.cast_to(self.at_most(self.value(lambda v: bool(v.shape)), 1 << 10), "float32")
        index = self.index(v.shape)
        strides = [int(np.prod(v.shape[i + 1 :], dtype=int)) for i in range(len(v.shape))]
        if self.chance(0.2):
            strides = [int(np.prod(v.shape[:i], dtype=int)) for i in range(len(v.shape))]
        text = " + ".join(f"{i} * {s}" for i, s in zip(index, strides, strict=True))
        base = self.random.choice(("", " + 3", " + s0", " + s1 * 4", f" + {v.shape[-1]}"))
        mask = f", mask={self.mask(v.shape)}" if self.chance(0.5) else ""
        if mask and self.chance(0.9):
            flag = f"({mask[7:]}) & tl.full({list(v.shape)}, 1, tl.int1)"
            mask = f", mask={self.flag_of(flag, v.shape)}"
        elif mask:
            mask = ""
        self.say(f"tl.store({self.random.choice('wwz')} + ({text}{base}), {v.name}{mask})")
        self.stored += 1

    def atomic(self) -> None:
        v = self.at_most(self.value(lambda v: bool(v.shape)), 4)
        v = self.cast_to(v, "float32")
        full = list(v.shape)
        flag = self.flag_of(f"({self.mask(v.shape)}) & tl.full({full}, 1, tl.int1)", v.shape)
        if self.chance(0.4):  # each place once: what was there before is known
            strides = [int(np.prod(v.shape[i + 1 :], dtype=int)) for i in range(len(v.shape))]
            index = self.index(v.shape)
            text = " + ".join(f"{i} * {s}" for i, s in zip(index, strides, strict=True))
            kind = self.random.choice(("add", "max", "xchg"))
            old = f"tl.atomic_{kind}(r + pid * 8192 + ({text}), {v.name}, mask={flag})"
            zero = f"tl.full({full}, 0, tl.float32)"
            self.new(f"tl.where({flag}, {old}, {zero})", v.shape, "float32", 1 << 12)
            return
        at = f"tl.broadcast_to({self.offset(v.shape)}, {full})"
        self.say(f"tl.atomic_add(r + pid * 8192 + {at}, {v.name}, mask={flag})")

    def out(self, v: Var) -> None:
        """A store of a result."""
        if v.dtype in ("int8", "float8e5", "float16", "bfloat16") and self.chance(0.7):
            v = self.cast_to(v, "float32")
        array = {"float32": "of", "float64": "od", "int32": "oi", "float16": "oh",
                 "bfloat16": "ob", "int8": "oc"}.get(v.dtype)  # fmt: skip
        if array is None:
            v, array = self.cast_to(v, "float32"), "of"
        total = int(np.prod(v.shape, dtype=int))
        if (self.stored + 1) * 3 * total > OUT // 4:
            return
        index = self.index(v.shape)
        strides = [int(np.prod(v.shape[i + 1 :], dtype=int)) for i in range(len(v.shape))]
        text = " + ".join([f"{i} * {s}" for i, s in zip(index, strides, strict=True)] or ["0"])
        mask = ""
        if v.shape and self.chance(0.3):
            flag = f"({self.mask(v.shape)}) & tl.full({list(v.shape)}, 1, tl.int1)"
            mask = f", mask={self.flag_of(flag, v.shape)}"
        base = f"(pid * 8 + {self.stored & 7}) * 4096"
        if total > 4096:
            base = f"pid * {total}"
        self.say(f"tl.store({array} + {base} + ({text}), {v.name}{mask})")
        self.stored += 1

    def source(self) -> str:
        names = ", ".join([*ARRAYS, *WRITTEN, *self.scalars])
        body = "\n".join(self.lines)
        return (
            "import tritium\nimport tritium.language as tl\n\n"
            f"{HELPERS}\n\n@tritium.jit\ndef kernel({names}):\n{body}\n"
        )


WRITTEN = {"w": np.float32, "z": np.float32, "r": np.float32, "of": np.float32, "od": np.float64,
           "oi": np.int32, "oh": np.float16, "ob": ml_dtypes.bfloat16, "oc": np.int8}  # fmt: skip
OUTPUTS = {k: v for k, v in WRITTEN.items() if k.startswith("o")}


class Oracle:
    """The arrays of a program, and what it makes of them on NumPy."""

    def __init__(self, program: Program, seed: int):
        rng = np.random.default_rng(seed)
        self.given: dict[str, Any] = {}
        for name, dtype in ARRAYS.items():
            self.given[name] = rng.integers(-4, 5, SIZE).astype(dtype)
            if program.wild and not np.issubdtype(dtype, np.integer):
                places = rng.integers(0, SIZE, SIZE // 50)
                special = rng.choice([np.inf, -np.inf, np.nan], places.size)
                self.given[name][places] = special.astype(dtype)
        self.given["w"] = rng.integers(-4, 5, SIZE).astype(np.float32)
        self.given["r"] = rng.integers(-4, 5, SIZE * 2).astype(np.float32)
        for name, dtype in OUTPUTS.items():
            self.given[name] = np.full(OUT, 7, dtype)
        self.found = {k: v.copy() for k, v in self.given.items()}
        self.reads: dict[str, set[int]] = {k: set() for k in self.given}
        pointers = {
            k: numpy_language.Pointer(v, np.int64(START if k in ARRAYS or k in "wr" else 0),
                                      self.reads[k])
            for k, v in self.found.items()
        }  # fmt: skip
        pointers["z"] = pointers["w"] + program.alias
        held: dict[str, Any] = {"tritium": Tritium, "tl": numpy_language}
        text = program.source().replace("import tritium.language as tl", "")
        exec(text.replace("import tritium\n", ""), held)
        language: Any = numpy_language
        language.reduce = lambda x, axis, f: np.fmax.reduce(x, axis)
        language.associative_scan = lambda x, axis, f: np.fmax.accumulate(x, axis)
        with np.errstate(all="ignore"):
            for pid in range(program.grid):
                numpy_language.pid = pid
                held["kernel"](**pointers, **program.scalars)


class Tritium:
    """Stands for the package."""

    @staticmethod
    def jit(function: Any = None, **_: Any) -> Any:
        return function or (lambda f: f)


def run(seed: int, folder: Path) -> str | None:
    """Run a program; what is wrong, or None. Raises `Inexact` if it has no one right result."""
    program = Program(seed)
    if program.grid > 1 and any(f"tl.store({a}" in program.source() for a in "wz"):
        program.grid = 1
    oracle = Oracle(program, seed)
    file = folder / f"tiles{seed}.py"
    file.write_text(program.source())
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    held: list[Guarded] = []
    arguments: dict[str, Any] = {}
    for name in ARRAYS:
        array = oracle.given[name].copy()
        reads = sorted(oracle.reads[name]) or [START]
        unread = np.ones(SIZE, bool)
        unread[reads] = False
        array[unread] = 99 if np.issubdtype(array.dtype, np.integer) else np.nan
        low, high = reads[0], reads[-1] + 1
        if seed % 3 == 0:  # aligned as launches find most arrays
            low = low // 64 * 64
            high = -(-high // 64) * 64
        held.append(Guarded(array[low:high], seed % 2 == 1))
        arguments[name] = at(held[-1].array, START - low)
    for name in ("w", "r", *OUTPUTS):
        held.append(Guarded(oracle.given[name], seed % 2 == 1))
        start = START if name in "wr" else 0
        arguments[name] = at(held[-1].array, start)
    arguments["z"] = at(arguments["w"], program.alias)
    results = dict(zip((*ARRAYS, "w", "r", *OUTPUTS), held, strict=True))
    module.kernel[(program.grid,)](**arguments, **program.scalars)
    wrong = None
    for name in ("w", "r", *OUTPUTS):
        found, wanted = (a.astype(np.float64) for a in (results[name].array, oracle.found[name]))
        places = np.flatnonzero(~((found == wanted) | (np.isnan(found) & np.isnan(wanted))))
        if places.size:
            shown = ", ".join(f"[{i}] {found[i]} for {wanted[i]}" for i in places[:6])
            wrong = f"{places.size} of {name} are wrong: {shown}"
            break
    for g in held:
        g.close()
    return wrong


def at(array: Any, offset: int) -> Any:
    """An array of a few elements that begins `offset` elements after another one."""
    address = array.ctypes.data + offset * array.itemsize
    memory = (ctypes.c_char * (array.itemsize * 16)).from_address(address)
    return np.frombuffer(memory, array.dtype)


def main() -> int:
    first, count = int(sys.argv[1]), int(sys.argv[2])
    if len(sys.argv) > 3 and sys.argv[3] in WITHOUT:
        restrict(WITHOUT[sys.argv[3]])
    failures = inexact = 0
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(first, first + count):
            print(f"program {seed}", flush=True)
            try:
                wrong = run(seed, Path(folder))
            except (IndexError, numpy_language.Inexact) as error:
                inexact += 1
                wrong = None
                print(f"inexact {seed}: {str(error)[:80]!r}")
            except Exception as error:
                wrong = f"{type(error).__name__}: {str(error)[:1600]}"
            if wrong is not None:
                failures += 1
                print(f"WRONG {seed}: {wrong}", flush=True)
    print(f"{failures} of {count} programs failed, {inexact} had no right result", flush=True)
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())
