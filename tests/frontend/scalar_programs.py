"""Random programs of scalars, which compile: arithmetic of mixed types, branches, loops, calls.

Each statement is tried by `scalar_model` as it is written, out of its branch or loop, so that its
types are known; a program whose numbers are undefined (a division by zero, say) is left out.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.conformance.support import build
from tests.frontend.scalar_model import FLOATS, INTEGERS, Number, Out, Refused, meant
from tritium import knobs

HELPERS = """
@jit
def larger(a, b):
    if a > b:
        return a
    return b

@jit
def early(a, *, by, times=2):
    if a > 10:
        return a - by
    elif a > 5:
        return a * times
    c = a + 1
    if c == 3:
        return c + by
    return c

@jit(noinline=True)
def both(a, b=5):
    return a + b, a - b

@jit
def summed(*numbers):
    total = numbers[0]
    for i in tl.static_range(1, len(numbers)):
        total = total + numbers[i]
    return total

@jit
def counted_down(n, K: tl.constexpr = 3):
    n = n & 7
    total = n * K
    while n > 0 and total != 77:
        total += K if n % 2 == 0 else 1
        n -= 1
    return total
"""
ARGUMENTS: dict[str, Any] = {"n": 5, "m": -7, "w": 3_000_000_000, "one": 1, "x": 2.5, "big": 2**40}
TYPES = {"n": "int32", "m": "int32", "w": "int64", "one": "int32", "x": "float32", "big": "int64"}
_LITERALS = (
    "0", "1", "2", "3", "7", "(-1)", "(-5)", "100", "127", "128", "255", "256", "40000", "65535",
    "2147483647", "(-2147483648)", "2147483648", "4294967295", "4294967296", "9223372036854775807",
    "0.5", "1.5", "(-2.0)", "0.1", "1e10", "True", "False", "C", "K",
)  # fmt: skip
_OPERATORS = ("+", "-", "*", "/", "//", "%", "&", "|", "^", "<<", ">>", "+", "-", "*")
_ORDER = ("<", "<=", ">", ">=", "==", "!=")
LOCALS = ("a", "b", "c", "d", "e")


class Program:
    """A random kernel: `text` (with its helpers), and what it stores."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.scope = meant(HELPERS, C=6, K=-3)
        self.scope |= _numbers()
        self.names = [*ARGUMENTS]
        self.loops = self.stores = 0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for name in LOCALS[:3]:  # numbers that are assigned, and computed from such
                known = [n for n in self.names if n in LOCALS]
                operands = [self._pick(*_LITERALS, *known * 9) for _ in range(2)]
                texts = [f"({self._pick(*_OPERATORS[:9]).join(operands)})", operands[0]]
                if any(self._line("    ", f"{name} = {text}") for text in texts):
                    self.names.append(name)
            self._block("    ", self.random.randint(4, 9), 0)
            for name in [n for n in self.names if n in LOCALS]:
                self._store("    ", name)
        parameters = ", ".join([*ARGUMENTS, "C: tl.constexpr", "K: tl.constexpr"])
        self.text = f"{HELPERS}\ndef kernel(out, real, {parameters}):\n" + "\n".join(self.lines)

    def expected(self) -> tuple[dict[int, Number], dict[int, Number]]:
        """The stored integers and floats by index. Raises `Refused` where one is undefined."""
        out, real = Out(), Out()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            meant(self.text)["kernel"](out, real, **_numbers(), C=6, K=-3)
        return out.found, real.found

    # Trying

    def _try(self, line: str) -> bool:
        """Run a statement as the model does; whether it has a meaning."""
        before = dict(self.scope)
        try:
            meant_now = meant(line, **self.scope)
        except (Refused, OverflowError, ZeroDivisionError, TypeError, ValueError, AttributeError):
            self.scope = before
            return False
        self.scope = meant_now
        return True

    def _value(self, text: str) -> Any:
        """The value of an expression, or None if it has no meaning."""
        return self.scope.pop("found") if self._try(f"found: int = {text}") else None

    def _pick(self, *options: str) -> str:
        return self.random.choice(options)

    # Expressions

    def expression(self, depth: int = 0) -> str:
        """An expression that has a meaning."""
        for _ in range(8):
            text = self._candidate(depth)
            if self._value(text) is not None:
                return text
        return self._pick("n", "m", "one")

    def condition(self, depth: int = 0) -> str:
        """A condition, mostly one that is known at run time only."""
        kind = self.random.random()
        if kind < 0.15 and depth < 2:
            joined = self._pick("and", "or")
            text = f"({self.condition(depth + 1)} {joined} {self.condition(depth + 1)})"
        elif kind < 0.25 and depth < 2:
            text = f"(not {self.condition(depth + 1)})"
        elif kind < 0.35:
            a, b, c = (self.expression(2) for _ in range(3))
            text = f"({a} {self._pick(*_ORDER)} {b} {self._pick(*_ORDER)} {c})"
        else:
            text = f"({self.expression(1)} {self._pick(*_ORDER)} {self.expression(1)})"
        return text if self._value(text) is not None else "(n > 3)"

    def _candidate(self, depth: int) -> str:
        kind = self.random.random()
        if depth > 2 or kind < 0.3:
            return self._pick(*self.names, *self.names, self._pick(*_LITERALS))
        if kind < 0.7:
            operator = self._pick(*_OPERATORS)
            right = self.expression(depth + 1)
            if operator in ("<<", ">>"):
                right = f"({right} & 5)"
            elif operator in ("//", "%") and self.random.random() < 0.8:
                right = f"({right} | 1)"
            return f"({self.expression(depth + 1)} {operator} {right})"
        inner = self.expression(depth + 1)
        if kind < 0.75:
            return f"({self._pick('-', '~')}{inner})"
        if kind < 0.83:
            name = self._pick(*self.names)
            return f"{name}.to(tl.{self._pick(*INTEGERS, *FLOATS)})"
        if kind < 0.88:
            return self._choice(inner, depth)
        other = self.expression(depth + 1)
        return self._pick(
            f"early({inner}, by=1)", f"early({inner}, times=C, by=C)", f"both({inner})[0]",
            f"both({inner}, {other})[1]", f"both(b={inner}, a={other})[0]", "counted_down(n)",
            f"summed({inner}, {other}, 3)", f"summed(*both({inner}, {other}))",
            f"counted_down({self._pick('n', 'one', 'm')}, K={self._pick('2', 'C')})",
            f"[q * 2 for q in ({inner}, {other}, n) if C > 3][1]", f"({inner}, {other})[-1]",
        )  # fmt: skip

    def _choice(self, inner: str, depth: int) -> str:
        """A conditional expression, or the larger of two, of one dtype."""
        value = self._value(inner)
        if not isinstance(value, Number) or value.dtype == "int1":
            return inner
        name = self._pick(*self.names)
        other = f"{name}.to(tl.{value.dtype})"
        return self._pick(
            f"larger({inner}, {other})", f"({inner} if {self.condition(1)} else {other})"
        )

    # Statements

    def _line(self, indent: str, text: str, tried: str = "") -> bool:
        if not self._try(tried or text):
            return False
        self.lines.append(indent + text)
        return True

    def _store(self, indent: str, text: str) -> None:
        value = self._value(text)
        values = value if isinstance(value, tuple) else (value,)
        for i, one in enumerate(values):
            if value is None or isinstance(one, tuple):
                continue
            place = f"{text}[{i}]" if isinstance(value, tuple) else text
            if isinstance(one, Number):
                self.lines.append(f"{indent}tl.static_assert(({place}).dtype == tl.{one.dtype})")
            is_real = (one.dtype in FLOATS) if isinstance(one, Number) else isinstance(one, float)
            array = "real" if is_real else "out"
            self.lines.append(f"{indent}tl.store({array} + {self.stores}, {place})")
            self.stores += 1

    def _block(self, indent: str, count: int, depth: int) -> None:
        for _ in range(count):
            kind = self.random.random()
            if kind < 0.55 or depth > 2:
                self._assign(indent, depth)
            elif kind < 0.62:
                self._store(indent, self.expression())
            elif kind < 0.8:
                self._if(indent, depth)
            else:
                self._loop(indent, depth)

    def _assign(self, indent: str, depth: int) -> None:
        if depth:  # in a branch or loop: a value of the same dtype, or the name is gone after it
            name = self._pick(*[n for n in self.names if n not in ("one", "C")])
            value = self.scope[name]
            if not isinstance(value, Number):
                return
            text = self.expression()
            found = self._value(text)
            if not isinstance(found, Number):
                return
            self._line(indent, f"{name} = ({text}).to(tl.{value.dtype})")
            return
        name = self._pick(*LOCALS)
        kind = self.random.random()
        if kind < 0.15:
            rest = self._pick("_u", "*_u")
            done = self._line(indent, f"{name}, {rest} = ({self.expression()}, n)")
        elif kind < 0.3 and name in self.names:
            done = self._line(indent, f"{name} {self._pick(*_OPERATORS[:9])}= {self.expression()}")
        else:
            done = self._line(indent, f"{name} = {self.expression()}")
        if done and name not in self.names:
            self.names.append(name)

    def _body(self, indent: str, depth: int) -> None:
        names, before = list(self.names), len(self.lines)
        self._block(indent + "    ", self.random.randint(1, 3), depth + 1)
        self.names = names
        if len(self.lines) == before:
            self.lines.append(indent + "    pass")

    def _if(self, indent: str, depth: int) -> None:
        self.lines.append(f"{indent}if {self.condition()}:")
        self._body(indent, depth)
        if self.random.random() < 0.3:
            self.lines.append(f"{indent}elif {self.condition()}:")
            self._body(indent, depth)
        if self.random.random() < 0.5:
            self.lines.append(f"{indent}else:")
            self._body(indent, depth)

    def _loop(self, indent: str, depth: int) -> None:
        self.loops += 1
        kind, i = self.random.random(), f"i{self.loops}"
        bounds = self._pick(
            "3", "n & 3", "1, n & 7", "n & 7, 0, -2", "m | -8, 3, 4", "C", "n, n", "0, n & 7, C - 4"
        )
        if kind < 0.25:
            header, tried = f"for {i} in tl.static_range(2):", f"{i}: int = 1"
        elif kind < 0.5:
            hint = self._pick("num_stages=2", "loop_unroll_factor=2", "flatten=True",
                              "disable_licm=True", "disallow_acc_multi_buffer=True")  # fmt: skip
            header, tried = f"for {i} in tl.range({bounds}, {hint}):", f"{i} = 1"
        elif kind < 0.8:
            header, tried = f"for {i} in range({bounds}):", f"{i} = 1"
        else:
            self.lines.append(f"{indent}{i} = 0")
            header, tried = f"while {i} < 3 and {self.condition()}:", f"{i} = 1"
        changed = [n for n in self.names if not isinstance(self.scope[n], Number)]
        self._try(tried)
        self.lines.append(indent + header)
        self.names = [*[n for n in self.names if n not in changed], i]
        if header.startswith("while"):
            self.lines.append(f"{indent}    {i} += 1")
            self.names.remove(i)
        self._body(indent, depth)
        self.names = [*[n for n in self.names if n != i], *changed]


def _numbers() -> dict[str, Number]:
    return {k: Number(TYPES[k], np.dtype(TYPES[k]).type(v)) for k, v in ARGUMENTS.items()}


def wrong(program: Program, way: Callable[..., None]) -> str:
    """The differences of a program that `way` runs from its meaning, or "". Raises `Refused`
    for a program that has none."""
    whole, real = program.expected()
    given: dict[str, Any] = {**ARGUMENTS, "C": 6, "K": -3}
    given |= {"out": np.zeros(program.stores, np.int64), "real": np.zeros(program.stores)}
    with warnings.catch_warnings(), knobs.language.scope():
        warnings.simplefilter("ignore")
        knobs.language.default_fp_fusion = False  # the meaning rounds each product
        try:
            way(build(program.text), (1,), given)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
    found = [(given["out"], i, n) for i, n in whole.items()]
    found += [(given["real"], i, n) for i, n in real.items()]
    differing = [
        f"{array[i]!r} instead of {number.dtype} {number.value!r} at {i}"
        for array, i, number in found
        if not np.array_equal(array[i], number.value.astype(array.dtype), equal_nan=True)
    ]
    return "; ".join(differing)
