"""Random kernels whose masks and addresses are random integer expressions, against NumPy.

    python -m tests.ops.memory.random_addresses SEED COUNT [avx | sse]

A kernel is a straight line of statements, each written twice: for `tl`, and for NumPy, which is the
oracle. Arrays end, or begin, at pages that cannot be accessed. The seed of each program is printed
before it runs, so that one that ends the process is known.
"""

from __future__ import annotations

import ctypes
import importlib.util
import random
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

WITHOUT = {
    "sse": ("avx", "fma", "f16c", "vaes", "vpclmul", "xop", "gfni"),
    "avx": ("avx2", "avx5", "avxv", "fma", "f16c", "vaes", "vpclmul", "xop", "gfni"),
}
"""How the names begin of features that a processor does not have."""
SIZE = 1 << 13
PAGE = 4096
BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
CONSTANTS = (1, 2, 3, 4, 5, 7, 8, 12, 16, 31, 32, 64, 100, 128, 1000, 4096, 65536, 1 << 20,
             1 << 28, 1 << 30, 1000000007, 2147483647, -1, -2, -3, -8, -16, -64, -1000,
             -(1 << 30), -1000000007)  # fmt: skip
SCALARS = (0, 1, 2, 3, 5, 8, 16, 48, 64, 100, 256, 1000, 4096, 65536, 1 << 24, 1 << 30, 2147483640,
           2147483647, -1, -2, -7, -16, -64, -4096, -(1 << 30), -2147483648)  # fmt: skip
HELPERS = '''
import numpy as np
def div(a, b):
    a, b = np.broadcast_arrays(a, b)
    return (a - np.fmod(a, b)) // b
def rem(a, b):
    return np.fmod(*np.broadcast_arrays(a, b))
def as_unsigned(a):
    return a.astype(f"u{a.dtype}").astype(np.int64)
def load(p, at, ok, other):
    at, ok = np.broadcast_arrays(at, ok)
    return np.where(ok, p[np.where(ok, at, 0)], np.asarray(other, p.dtype))
'''


class Program:
    """One random kernel: `tl` and `np` are the lines of both versions."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.tl: list[str] = []
        self.np: list[str] = []
        self.ints: list[tuple[str, str]] = []
        self.flags: list[str] = []
        self.count = 0
        pick = self.random.choice
        self.shape = (pick((16, 32, 64, 128, 256, 512)),)
        if self.random.random() < 0.5:
            self.shape = (pick((4, 8, 16, 32)), pick((8, 16, 32, 64)))
        self.total = int(np.prod(self.shape))
        self.scalars = {f"s{i}": pick(SCALARS) for i in range(3)}
        self.scalars["w"] = pick((1 << 33, -(1 << 40), (1 << 62) + 5, (1 << 32) + 16))
        self.kind = pick(("int8", "int16", "int32", "int64"))
        self.build()

    # Statements

    def say(self, tl: str, numpy: str | None = None) -> None:
        self.tl.append(tl)
        self.np.append(tl if numpy is None else numpy)

    def new(self, tl: str, dtype: str, numpy: str | None = None) -> str:
        name = f"v{self.count}"
        self.count += 1
        self.say(f"{name} = {tl}", f"{name} = {tl if numpy is None else numpy}")
        (self.flags if dtype == "bool" else self.ints).append(
            name if dtype == "bool" else (name, dtype)  # type: ignore
        )
        return name

    def build(self) -> None:
        self.leaves()
        kinds = [self.binary] * 4 + [self.cast] * 2 + [self.compare] * 2 + [self.where]
        kinds += [self.linear] * 5 + [self.run] * 3
        kinds += [self.move] * 3 + [self.reduce] + [self.load] * 2 + [self.loop]
        kinds += [self.scatter, self.atomic, self.scatter]
        if len(self.shape) == 2 and min(self.shape) >= 16:
            kinds += [self.dot] * 4
        kinds = self.random.sample(kinds, 8)
        for _ in range(self.random.randint(1, 9)):
            self.random.choice(kinds)()
        self.random.choice((self.load, self.run, self.linear))()
        if self.random.random() < 0.4:
            self.move()
        self.store()

    def leaves(self) -> None:
        if len(self.shape) == 1:
            (n,) = self.shape
            self.flat = self.new(f"tl.arange(0, {n})", "int32", f"np.arange({n}, dtype=np.int32)")
            start = self.random.choice((1, 5, 16, n))
            text = f"tl.arange({n}, {2 * n})" if start == n else f"{self.flat} + {start}"
            self.new(text, "int32", f"{self.flat} + np.int32({start})")
        else:
            m, n = self.shape
            row = self.new(f"tl.arange(0, {m})[:, None]", "int32",
                           f"np.arange({m}, dtype=np.int32)[:, None]")  # fmt: skip
            column = self.new(f"tl.arange(0, {n})[None, :]", "int32",
                              f"np.arange({n}, dtype=np.int32)[None, :]")  # fmt: skip
            self.flat = self.new(f"{row} * {n} + {column}", "int32")
        self.new(f"{self.flat} + pid * {self.total}", "int32",
                 f"{self.flat} + pid * np.int32({self.total})")  # fmt: skip

    def value(self, dtype: str | None = None) -> tuple[str, str]:
        found = [v for v in self.ints if dtype is None or v[1] == dtype]
        if not found:
            self.new(f"{self.flat}.to(tl.{dtype})", str(dtype), f"{self.flat}.astype(np.{dtype})")
            found = self.ints[-1:]
        recent = found[-4:] if self.random.random() < 0.6 else found
        return self.random.choice(recent)

    def operand(self, dtype: str) -> tuple[str, str]:
        """A second operand of the same type, as both texts."""
        chance = self.random.random()
        if chance < 0.45:
            name = self.value(dtype)[0]
            return name, name
        if chance < 0.75 or dtype in ("int8", "int16"):
            number = self.random.choice([c for c in CONSTANTS if abs(c) < 1 << (BITS[dtype] - 1)])
            return str(number), f"np.{dtype}({number})"
        scalar = self.random.choice(("s0", "s1", "s2", "pid"))
        if dtype == "int64" and chance > 0.93:
            return "w", "w"
        return scalar, f"{scalar}.astype(np.{dtype})"

    def binary(self) -> None:
        left, dtype = self.value()
        right, right_np = self.operand(dtype)
        op = self.random.choice(["+", "+", "+", "-", "*", "*", "//", "%", "<<", ">>", "&", "|", "^",
                                 "min", "max"])  # fmt: skip
        bits = BITS[dtype]
        if op in ("//", "%"):
            number = abs(self.random.choice([c for c in CONSTANTS if 1 < c < 1 << (bits - 1)]))
            if self.random.random() < 0.3:
                small = f"(({right_np} & np.{dtype}(31)) + np.{dtype}(2))"
                divisor = f"(({right} & 31) + 2)", small
            else:
                divisor = str(number), f"np.{dtype}({number})"
            name = "div" if op == "//" else "rem"
            self.new(f"{left} {op} {divisor[0]}", dtype, f"{name}({left}, {divisor[1]})")
        elif op in ("<<", ">>"):
            amount = self.random.randrange(bits)
            self.new(f"{left} {op} {amount}", dtype, f"{left} {op} np.{dtype}({amount})")
        elif op in ("min", "max"):
            if bits < 32:  # a number would be of 32 bits
                right = right_np = self.value(dtype)[0]
            self.new(f"tl.{op}imum({left}, {right})", dtype, f"np.{op}imum({left}, {right_np})")
        elif self.random.random() < 0.15 and op == "-":
            self.new(f"{right} - {left}", dtype, f"{right_np} - {left}")
        else:
            self.new(f"{left} {op} {right}", dtype, f"{left} {op} {right_np}")

    def linear(self) -> str:
        """Sums, differences and products with a number, of ranges or what was made of them."""
        names = [self.ints[0], self.ints[1], (self.flat, "int32"), self.ints[-1], self.ints[-1]]
        name, dtype = self.random.choice(names)
        if dtype == "int32" and self.random.random() < 0.4:
            dtype = "int64"
            name = self.new(f"{name}.to(tl.int64)", dtype, f"{name}.astype(np.int64)")
        for _ in range(self.random.randint(1, 3)):
            right, right_np = self.operand(dtype)
            if right.startswith("v"):
                op = self.random.choice("+-")
            else:
                op = self.random.choice("++-***")
            name = self.new(f"{name} {op} {right}", dtype, f"{name} {op} {right_np}")
        return name

    def line_mask(self) -> str:
        """A mask that compares such a number with a number."""
        name, dtype = self.linear(), self.ints[-1][1]
        limit = self.random.choice(("s0", "s1", str(self.random.choice(CONSTANTS[:20]))))
        if dtype in ("int8", "int16"):
            limit = "9"
        op = self.random.choice(("<", "<", "<=", ">", ">="))
        return self.new(f"{name} {op} {limit}", "bool")

    def run(self) -> None:
        """A load of consecutive elements."""
        mask = self.line_mask() if self.random.random() < 0.7 else self.flag()
        at = self.random.choice((self.flat, f"(pid * {self.total} + {self.flat})"))
        other = self.random.choice(("3", "0"))
        self.new(f"tl.load(p + {at}, mask={mask}, other={other})", self.kind,
                 f"load(p, {at}, {mask}, {other})")  # fmt: skip

    def cast(self) -> None:
        name, dtype = self.value()
        if self.random.random() < 0.25:
            self.new(f"{name}.to(tl.u{dtype}, bitcast=True).to(tl.int64)", "int64",
                     f"as_unsigned({name})")  # fmt: skip
            return
        to = self.random.choice(("int16", "int32", "int32", "int64", "int64", "int8"))
        self.new(f"{name}.to(tl.{to})", to, f"{name}.astype(np.{to})")

    def compare(self) -> None:
        left, dtype = self.value()
        right, right_np = self.operand(dtype)
        op = self.random.choice(("<", "<", "<", "<=", ">", ">=", "==", "!="))
        if self.random.random() < 0.1:
            self.new(f"{left}.to(tl.u{dtype}, bitcast=True) < 40", "bool",
                     f"{left}.astype(np.u{dtype}) < 40")  # fmt: skip
        else:
            self.new(f"{left} {op} {right}", "bool", f"{left} {op} {right_np}")
        if len(self.flags) > 1 and self.random.random() < 0.5:
            joined = self.random.choice("&&|^")
            self.new(f"{self.flags[-2]} {joined} {self.flags[-1]}", "bool")

    def flag(self) -> str:
        if not self.flags or self.random.random() < 0.3:
            self.compare()
        return self.random.choice(self.flags[-3:])

    def where(self) -> None:
        left, dtype = self.value()
        right = self.value(dtype)[0]
        flag = self.flag()
        self.new(f"tl.where({flag}, {left}, {right})", dtype, f"np.where({flag}, {left}, {right})")

    def whole(self, name: str) -> tuple[str, str]:
        """A value in the full shape."""
        if len(self.shape) == 1:
            return name, f"np.broadcast_to({name}, {self.shape})"
        return f"tl.broadcast_to({name}, {self.shape})", f"np.broadcast_to({name}, {self.shape})"

    def move(self) -> None:
        if self.flags and self.random.random() < 0.2:
            source, dtype = self.random.choice(self.flags[-3:]), "bool"
        else:
            source, dtype = self.value()
        x, x_np = self.whole(source)
        shape, half = self.shape, self.total // 2
        kind = self.random.choice(("flip", "turn", "split", "gather", "gather"))
        if kind == "flip":
            dim = self.random.randrange(len(shape))
            if dtype == "bool":
                return
            self.new(f"tl.flip({x}, {dim})", dtype, f"np.flip({x_np}, {dim})")
        elif kind == "turn":
            rows = self.random.choice([r for r in (2, 4, 8, 16) if r < self.total])
            inner = (rows, self.total // rows)
            self.new(f"tl.reshape(tl.trans(tl.reshape({x}, {inner})), {shape})", dtype,
                     f"{x_np}.reshape({inner}).T.reshape({shape})")  # fmt: skip
        elif kind == "split":
            self.say(f"a, b = tl.split(tl.reshape({x}, ({half}, 2)))",
                     f"a, b = {x_np}.reshape({half}, 2).T")  # fmt: skip
            self.new(f"tl.reshape(tl.join(b, a), {shape})", dtype,
                     f"np.stack([b, a], -1).reshape({shape})")  # fmt: skip
        elif dtype != "bool":
            dim = self.random.randrange(len(shape))
            index, _ = self.whole(self.value("int32")[0])
            low = shape[dim] - 1
            self.new(f"tl.gather({x}, {index} & {low}, {dim})", dtype,
                     f"np.take_along_axis({x_np}, {self.np_of(index)} & {low}, {dim})")  # fmt: skip

    @staticmethod
    def np_of(text: str) -> str:
        return text.replace("tl.broadcast_to", "np.broadcast_to")

    def reduce(self) -> None:
        name, dtype = self.value(self.random.choice(("int32", self.value()[1])))
        if dtype not in ("int32", "int64"):
            return
        x, x_np = self.whole(name)
        rows = self.random.choice([r for r in (1, 2, 4, 8, 16) if r < self.total])
        inner = (rows, self.total // rows)
        kind, axis = self.random.choice(("sum", "max", "min", "cumsum")), self.random.randrange(2)
        how = f", dtype=np.{dtype}" if "sum" in kind else ""
        x, x_np = f"tl.reshape({x}, {inner})", f"{x_np}.reshape({inner})"
        if kind == "cumsum":
            self.new(f"tl.reshape(tl.cumsum({x}, {axis}), {self.shape})", dtype,
                     f"np.cumsum({x_np}, {axis}{how}).reshape({self.shape})")  # fmt: skip
            return
        self.new(
            f"tl.reshape(tl.broadcast_to(tl.{kind}({x}, {axis}, keep_dims=True), {inner}),"
            f" {self.shape})", dtype,
            f"np.broadcast_to({x_np}.{kind}({axis}, keepdims=True{how}), {inner})"
            f".reshape({self.shape})",
        )  # fmt: skip

    def address(self) -> tuple[str, str]:
        """A tile of addresses that the array has, if a flag is true."""
        name, dtype = self.value(self.random.choice(("int32", "int32", "int64", None)))
        if dtype in ("int8", "int16"):
            self.new(f"{name}.to(tl.int32)", "int32", f"{name}.astype(np.int32)")
            name, dtype = self.ints[-1]
        chance = self.random.random()
        if chance < 0.3:
            at = self.new(f"{name} & {SIZE - 1}", dtype, f"{name} & np.{dtype}({SIZE - 1})")
            return at, self.flag()
        at = name
        if chance < 0.5:
            half = f"np.{dtype}({SIZE // 2})"
            at = self.new(f"{name} % {SIZE // 2} + {SIZE // 2}", dtype,
                          f"rem({name}, {half}) + {half}")  # fmt: skip
            return at, self.flag()
        ok = self.new(f"({at} >= 0) & ({at} < {SIZE})", "bool")
        if self.random.random() < 0.5:
            ok = self.new(f"{ok} & {self.flag()}", "bool")
        return at, ok

    def load(self) -> None:
        at, ok = self.address()
        pointer, pointer_np = "p + ", ""
        x = f"tl.load({pointer}({at}), mask={ok}, other=3)"
        self.new(x, self.kind, f"load(p, {pointer_np}{at}, {ok}, 3)")

    def loop(self) -> None:
        """A sum of loads whose addresses change from turn to turn."""
        at, dtype = self.value(self.random.choice(("int32", "int64", "int32")) if any(
            d == "int64" for _, d in self.ints) else "int32")  # fmt: skip
        step, step_np = self.operand(dtype)
        turn = f"np.{dtype}(t)"
        if step[0] not in "vw":  # a product of two numbers of 32 bits is one
            step_np, turn = step_np.replace("int64", "int32"), "np.int32(t)"
        turns = self.random.choice((1, 2, 5, "s0 & 7"))
        name = f"v{self.count}"
        self.count += 1
        x, x_np = self.whole(at)
        self.say(f"{name} = {x} * 0", f"{name} = {x_np} * np.{dtype}(0)")
        self.say(f"for t in range(0, {turns}):")
        self.say(f"    at = {at} + {step} * t", f"    at = {at} + {step_np} * {turn}")
        self.say(f"    ok = (at >= 0) & (at < {SIZE})")
        self.say(f"    {name} += tl.load(p + at, mask=ok, other=0).to(tl.{dtype})",
                 f"    {name} = {name} + load(p, at, ok, 0).astype(np.{dtype})")  # fmt: skip
        self.ints.append((name, dtype))

    def scatter(self) -> None:
        """Stores of what depends on the address alone, wherever the array has it."""
        at, ok = self.address()
        self.say(f"tl.store(q + {self.whole(at)[0]}, {self.whole(at)[0]}.to(tl.int64) * 3 + 1, "
                 f"mask={self.whole(ok)[0]})",
                 f"np.putmask(q, *scattered({SIZE}, {at}, {at} * np.int64(3) + 1, {ok}))",
        )  # fmt: skip

    def atomic(self) -> None:
        at, ok = self.address()
        name = self.value("int32")[0]
        tiles = [self.whole(x)[0] for x in (at, name, ok)]
        self.say(f"tl.atomic_add(r + {tiles[0]}, {tiles[1]}, mask={tiles[2]})",
                 f"add_at({self.shape}, r, {at}, {name}, {ok})")  # fmt: skip

    def dot(self) -> None:
        """A product, maybe summed over a loop, whose operands end where a mask along K does."""
        (m, n), k = self.shape, self.random.choice((16, 32))
        start, turns = self.random.choice(("s0", "s1", "0", "3")), self.random.choice((1, 1, 2, 3))
        limit = self.random.choice(("s1", "s2", "20", "7", "40", str(k * turns)))
        start_np, limit_np = (
            x if x[0] == "s" else f"np.int32({x})" for x in (start, limit)
        )  # fmt: skip
        name = f"v{self.count}"
        self.count += 1
        flat, out = f"tl.arange(0, {k})", f"np.arange({k}, dtype=np.int32)"
        rows, columns = f"tl.arange(0, {m})[:, None]", f"tl.arange(0, {n})[None, :]"
        self.say(f"{name} = tl.zeros(({m}, {n}), tl.float32)",
                 f"{name} = np.zeros(({m}, {n}), np.float32)")  # fmt: skip
        self.say(f"for t in range(0, {turns}):")
        self.say(f"    k = {flat}", f"    k = {out}")
        self.say(f"    on = k + {start} < {limit} - t * {k}",
                 f"    on = k + {start_np} < {limit_np} - np.int32(t * {k})")  # fmt: skip
        self.say(f"    fa = tl.load(f + ({rows} * {k} + k[None, :] + t), on[None, :], other=0)",
                 f"    fa = load(f, np.arange({m})[:, None] * {k} + k + t, on, 0)")  # fmt: skip
        self.say(f"    fb = tl.load(f + (k[:, None] * {n} + {columns}), on[:, None], other=0)",
                 f"    fb = load(f, k[:, None] * {n} + np.arange({n}), on[:, None], 0)",
        )  # fmt: skip
        self.say(f"    {name} = tl.dot(fa, fb, {name})", f"    {name} = {name} + fa @ fb")
        self.new(f"{name}.to(tl.int32)", "int32", f"{name}.astype(np.int32)")

    def store(self) -> None:
        for number in range(self.random.randint(1, 3)):
            name = self.ints[-1 - number][0] if number < len(self.ints) else self.value()[0]
            place = self.random.choice((
                self.flat, self.flat, f"({self.total - 1} - {self.flat})",
                f"({self.flat} ^ {self.random.randrange(self.total)})",
                f"({self.flat} * 3 & {self.total - 1})",
            ))  # fmt: skip
            x, x_np = self.whole(name)
            mask, mask_np = "None", "True"
            if self.random.random() < 0.7:
                flag = self.line_mask() if self.random.random() < 0.5 else self.flag()
                mask, mask_np = self.whole(flag)
            at = f"(pid * 3 + {number}) * {self.total} + {place}"
            self.say(f"tl.store(o + ({at}), {x}.to(tl.int64), mask={mask})",
                     f"np.putmask(o, *scattered(o.size, {at}, {x_np}, {mask_np}))")  # fmt: skip

    # Running

    def source(self) -> str:
        lines = "\n    ".join(["pid = tl.program_id(0)", *self.tl])
        return (
            "import tritium\nimport tritium.language as tl\n\n@tritium.jit\n"
            f"def kernel(p, o, q, r, f, s0, s1, s2, w):\n    {lines}\n"
        )

    def oracle(self) -> str:
        lines = "\n    ".join(["pass", *self.np])
        head = "def kernel(pid, p, o, q, r, f, s0, s1, s2, w):"
        return f"{HELPERS}{SCATTERED}\n{head}\n    {lines}\n"


SCATTERED = '''
def scattered(size, at, values, mask):
    at, values, mask = np.broadcast_arrays(at, values, mask)
    flags, found = np.zeros(size, bool), np.zeros(size, np.int64)
    flags[at[mask]], found[at[mask]] = True, values[mask]
    return flags, found
def add_at(shape, r, *tiles):
    at, values, mask = (np.broadcast_to(tile, shape) for tile in tiles)
    np.add.at(r, at[mask], values[mask])
'''

PROGRAMS = 3


class Guarded:
    """An array at the end (or the beginning) of pages between two that cannot be accessed."""

    def __init__(self, array: Any, at_end: bool):
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mmap.restype = ctypes.c_void_p
        libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
        libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
        self.inner = -(-array.nbytes // PAGE) * PAGE
        self.base = libc.mmap(None, self.inner + 2 * PAGE, 0, 0x22, -1, 0)
        assert libc.mprotect(self.base + PAGE, self.inner, 3) == 0
        start = self.base + PAGE + (self.inner - array.nbytes if at_end else 0)
        memory = (ctypes.c_char * array.nbytes).from_address(start)
        self.array = np.frombuffer(memory, array.dtype)
        self.array[:] = array
        self.libc = libc

    def close(self) -> None:
        self.libc.munmap(self.base, self.inner + 2 * PAGE)


def run(seed: int, folder: Path) -> str | None:
    """Run a program; what is wrong, or None."""
    program = Program(seed)
    file = folder / f"program{seed}.py"
    file.write_text(program.source())
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    held: dict[str, Any] = {}
    exec(program.oracle(), held)
    rng = np.random.default_rng(seed)
    p = rng.integers(-100, 100, SIZE).astype(program.kind)
    o = np.full(PROGRAMS * 3 * program.total, -77, np.int64)
    q, r = np.zeros(SIZE, np.int64), np.zeros(SIZE, np.int32)
    f = rng.integers(-8, 8, SIZE).astype(np.float32)
    guarded = [Guarded(a, bool(seed % 2)) for a in (p, o, q, r, f)]
    numbers = [program.scalars[n] for n in ("s0", "s1", "s2", "w")]
    module.kernel[(PROGRAMS,)](*(g.array for g in guarded), *numbers)
    results = [guarded[i].array.copy() for i in (1, 2, 3)]
    for g in guarded:
        g.close()
    typed = [np.int32(n) for n in numbers[:3]] + [np.int64(numbers[3])]
    with np.errstate(all="ignore"):
        for pid in range(PROGRAMS):
            held["kernel"](np.int32(pid), p, o, q, r, f, *typed)
    for name, found, wanted in zip("oqr", results, (o, q, r), strict=True):
        wrong = np.flatnonzero(found != wanted)
        if wrong.size:
            places = ", ".join(f"[{i}] {found[i]} for {wanted[i]}" for i in wrong[:6])
            count = f"{wrong.size} of {wanted.size} of {name} are wrong"
            return f"{count}: {places}\n{program.scalars} {program.kind}"
    return None


def restrict(missing: tuple[str, ...]) -> None:
    """Compile for a processor that lacks some of this one's features from here on."""
    import tritium.native.host as hosts

    real = hosts.host()
    known = tuple(f for f in real.features if not f.startswith(missing))
    parts = (part[1:] for part in real.feature_string.split(","))
    text = ",".join(f"{'+' if part in known else '-'}{part}" for part in parts)
    narrow = replace(real, features=known, feature_string=text)
    hosts.host = lambda: narrow  # type: ignore


def main() -> int:
    first, count = int(sys.argv[1]), int(sys.argv[2])
    if len(sys.argv) > 3 and sys.argv[3] in WITHOUT:
        restrict(WITHOUT[sys.argv[3]])
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(first, first + count):
            print(f"program {seed}", flush=True)
            try:
                wrong = run(seed, Path(folder))
            except Exception as error:
                wrong = f"{type(error).__name__}: {str(error)[:600]}"
            if wrong is not None:
                failures += 1
                print(f"WRONG {seed}: {wrong}", flush=True)
    print(f"{failures} of {count} programs failed", flush=True)
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())
