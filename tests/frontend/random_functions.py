"""Random functions, syntactically valid and mostly wrong.

A function is drawn as text, statement by statement: Python of all kinds, with the names, numbers
and calls of kernels in it, so that some of it compiles. `judging` says what must come of it.
"""

from __future__ import annotations

import random
import re

import numpy as np

import tritium.language as tl
from tritium.language.jit.function import JITCallable
from tritium.language.values.base import is_builtin

HELPERS = '''
import collections
import math

Pair = collections.namedtuple("Pair", ["left", "right"])
WIDTH = tl.constexpr(8)
plain_global = 3
table = {"a": 1}

@jit
def pair(a, b=2):
    return a + b, a - b

@jit
def scaled(a, K: tl.constexpr = 4):
    return a * K

@jit(noinline=True)
def apart(a, b):
    if a > b:
        return a
    return b

@jit
def larger(a, b):
    return tl.maximum(a, b)

@tritium.must_use_result
@jit
def fresh(a):
    return a + 1

@tl.core._aggregate
class Box:
    data: tl.tensor
    size: tl.constexpr

    def __init__(self, data, size):
        self.data = data
        self.size = size

    @jit
    def grown(self, by):
        return Box(self.data + by, self.size)

@tl.constexpr_function
def doubled(n):
    return n * 2

def python_function(a, b=1):
    return a
'''

ARGUMENTS = {
    "x": np.zeros(64, np.float32), "n": np.zeros(64, np.int32), "h": np.zeros(64, np.float16),
    "u": np.zeros(64, np.uint8), "i": 5, "f": 2.5, "C": 16, "S": "text", "T": (4, 8), "none": None,
}  # fmt: skip
PARAMETERS = "x, n, h, u, i, f, C: tl.constexpr, S: tl.constexpr, T: tl.constexpr, none"

FUNCTIONS = sorted(
    name for name in dir(tl)
    if isinstance(getattr(tl, name), JITCallable) or is_builtin(getattr(tl, name))
)  # fmt: skip
DTYPES = (
    "int1", "int8", "int16", "int32", "int64", "uint8", "uint32", "uint64", "float16", "bfloat16",
    "float32", "float64", "float8e5", "float8e4nv",
)  # fmt: skip
METHODS = (
    "to", "sum", "max", "reshape", "trans", "expand_dims", "broadcast_to", "argmax", "item", "T",
    "dtype", "shape", "numel", "value", "type", "load", "store", "gather", "cumsum", "sort", "exp",
    "data", "size", "grown", "left", "nothing", "split", "ravel", "permute", "atomic_add", "flip",
)  # fmt: skip
NAMES = (
    "x", "n", "h", "u", "i", "f", "C", "S", "T", "none", "a", "b", "c", "v", "w", "WIDTH", "pair",
    "scaled", "apart", "larger", "Box", "Pair", "doubled", "tl", "math", "plain_global", "missing",
    "table", "python_function", "fresh", "tritium",
)  # fmt: skip
LOCALS = ("a", "b", "c", "v", "w")
BUILTINS = (
    "len", "int", "float", "min", "max", "abs", "range", "print", "isinstance", "tuple", "list",
    "str", "bool", "type", "getattr", "hasattr", "repr", "sum", "zip", "enumerate", "sorted", "any",
    "pow", "round", "divmod", "dict", "set", "id", "super", "iter", "next", "map", "reversed",
)  # fmt: skip
NUMBERS = (
    "0", "1", "2", "3", "4", "8", "16", "-1", "True", "False", "1.5", "0.0", "None", "'s'", "''",
    "float('inf')", "2**31", "2**40", "-2**31", "2**63", "...", "b'x'", "1j", "5", "7", "-0.0",
)  # fmt: skip


OPERATORS = (
    "+", "-", "*", "/", "//", "%", "<", "==", "&", ">>", "@", "is", "in", "and", "or", "!=",
)  # fmt: skip

# What each symbol may be; `<other>` in it is replaced. Repeated: more often.
GRAMMAR: dict[str, tuple[str, ...]] = {
    "local": LOCALS,
    "name": NAMES,
    "number": NUMBERS,
    "dtype": tuple(f"tl.{name}" for name in DTYPES),
    "member": METHODS,
    "builtin": BUILTINS,
    "function": tuple(f"tl.{name}" for name in FUNCTIONS),
    "operator": OPERATORS,
    "axis": ("0", "1", "0", "-1", "None", "2"),
    "size": ("4", "16", "C", "8", "1", "i", "3", "0"),
    "small": ("2", "3", "C", "i", "a", "0", "-1", "f", "v"),
    "keyword": ("axis", "mask", "other", "dtype", "dim", "K", "keep_dims", "b", "bad"),
    "leaf": (
        "<local>", "<local>", "<local>", "v", "b", "i", "C", "a", "<number>", "<name>", "<dtype>",
        "tl.arange(0, 16)", "tl.program_id(0)",
    ),
    "pointer": ("x", "n", "h", "u", "x + b", "n + tl.arange(0, 16)", "<value>"),
    "condition": (
        "i > 3", "C == 16", "a < 2", "tl.program_id(0) == 0", "none is None", "<value>",
        "<value> <operator> <value>", "not <value>",
    ),
    "value": (
        *["<leaf>"] * 6, *["(<value> <operator> <value>)"] * 5, *["<call>"] * 7, *["<access>"] * 3,
        "<display>", "<odd>", "(-<value>)", "(not <value>)", "(~<value>)", "(<value> ** 2)",
        "(<value> if <condition> else <value>)", "(<value> < <value> < 3)",
    ),
    "arguments": (
        "", "<value>", "<value>", "<value>", "<leaf>", "<leaf>, <axis>", "<value>, <value>",
        "<value>, <value>", "<leaf>, <leaf>, <leaf>", "<value>, <leaf>, <leaf>, <leaf>",
        "<value>, <keyword>=<value>", "<leaf>, <keyword>=<value>", "*T", "<leaf>, *a", "**table",
        "*pair(1, 2)",
    ),
    "call": (
        "tl.load(<pointer>)", "tl.load(<pointer>, mask=<value>)", "tl.zeros([<size>], <dtype>)",
        "tl.full([4, 4], <value>, <dtype>)", "<leaf>.to(<dtype>)", "tl.sum(<leaf>, <axis>)",
        "tl.reduce(<leaf>, <axis>, <name>)", "tl.associative_scan(<leaf>, <axis>, larger)",
        "Box(<value>, <value>)", "pair(<arguments>)", "scaled(<arguments>)", "apart(<arguments>)",
        "larger(<value>, <value>)", "Pair(<value>, <value>)", "doubled(<value>)",
        "python_function(<value>)", "math.log2(<value>)", "tl.dot(<leaf>, <leaf>)",
        "tl.map_elementwise(larger, <leaf>, <leaf>)", "fresh(<value>)",
        "tl.where(<value>, <value>, <value>)", "tl.reshape(<leaf>, [<size>, <size>])",
        "tl.make_block_ptr(x, (8, 8), (8, 1), (<leaf>, 0), (4, 4), (1, 0))",
        "tl.make_tensor_descriptor(x, [8, <leaf>], [8, 1], [4, <size>])",
        *["<function>(<arguments>)"] * 22, *["<builtin>(<arguments>)"] * 4, "<leaf>(<arguments>)",
    ),
    "access": (
        "<value>.<member>", "<value>.<member>(<arguments>)", "<leaf>.<member>(<arguments>)",
        "<value>[:, None]", "<value>[None]", "<value>[<value>]", "<value>[1:]",
        "<value>[<value>:<value>]", "<value>[..., None]", "<value>[::-1]",
    ),
    "display": (
        "[<value>, <value>]", "(<value>, <value>)", "()", "[]", "[<value>] * 2", "(<value>,)",
    ),
    "odd": (
        "[q for q in <value>]", "[q + 1 for q in range(<small>) if <condition>]", "(q := <value>)",
        "f'{<leaf>}'", "f'{<leaf>:>4}'", "(q for q in <value>)", "lambda: <value>",
        "'%s' % <value>", "{}", "{1: 2}", "{q: q for q in <value>}",
        "[q for q in T for r in <value>]",
        "f'{<leaf>!r}'", "(*<value>,)",
    ),
    "bounds": ("<small>", "<small>, <small>", "<small>, <small>, <small>", "3"),
    "header": (
        *["for <local> in range(<bounds>):"] * 4, "for k in tl.range(<bounds>, num_stages=2):",
        "for <local> in tl.static_range(<small>):", "for k in tl.static_range(3):",
        "for <local> in <value>:", "for <local>, b in range(<bounds>):", "while <condition>:",
        "while <local> < i:",
    ),
    "assignment": (
        *["<local> = <value>"] * 10, "<local> <augmented> <value>", "<local> <augmented> <leaf>",
        "<local>: tl.constexpr = <value>", "<local>: int = <value>", "<local>, <local> = <value>",
        "<local> = <local> = <value>", "<local>, *<local> = <value>",
        "(<local>, (<local>,)) = <value>", "<local>[<value>] = <value>", "<local>.data = <value>",
        "<local>.size += <value>",
    ),
    "augmented": ("+=", "-=", "*=", "//=", "&=", "<<=", "**=", "@=", "%="),
    "simple": (
        *["tl.store(<pointer>, <value>)"] * 4, "<call>", "<value>", "tl.device_print('p', <value>)",
        "tl.static_print(<value>)", "tl.static_assert(<value>, 'm')", "tl.device_assert(<value>)",
        "assert <value>, <value>", "print(<value>)", "fresh(i)",
    ),
    "rare": (
        "return", "return <value>", "break", "continue", "pass", "del a", "global plain_global",
        "import math", "raise <value>", "try:\n    pass\nexcept ValueError:\n    pass",
        "with <value> as a:\n    pass", "def inner():\n    pass", "class Inner:\n    pass",
        "a = lambda q: <value>", "'docstring'", "a = {'k': <value>}", "a = {<value>}",
        "match <value>:\n    case 1:\n        pass", "from math import pi",
        "if <condition>:\n    return\na = <value>", "if <condition>:\n    return <value>",
    ),
}  # fmt: skip

# Mostly right: such functions get far, so that what fails does so in the midst of loops and calls.
TAME = GRAMMAR | {
    "number": ("0", "1", "2", "3", "4", "8", "16", "1.5", "0.5", "True"),
    "dtype": ("tl.int32", "tl.int32", "tl.float32", "tl.int64", "tl.float16", "tl.int8"),
    "operator": ("+", "+", "-", "*", "<", "==", "&", ">=", "//", "%", ">>", "/", "|"),
    "small": ("2", "3", "C", "i", "4", "0"),
    "bounds": ("<small>", "0, <small>", "0, i, 2", "3"),
    "leaf": (
        "i", "a", "a", "b", "b", "v", "v", "w", "C", "<number>", "tl.program_id(0)", "b + 1",
        "WIDTH", "tl.arange(0, 16)", "T[0]", "<wild>",
    ),
    "value": (
        *["<leaf>"] * 4, *["(<leaf> <operator> <leaf>)"] * 4, *["<call>"] * 5, "(-<leaf>)",
        "(<value> if <condition> else <value>)", "<access>", "[q for q in T]", "f'{C}'", "(q := i)",
    ),
    "wild": tuple(["i", "v"] * 8 + ["none", "S", "x", "h", "T", "c", "pair", "Box", "f"]),
    "condition": (
        "i > 3", "C == 16", "tl.program_id(0) == 0", "none is None", "i > 2 and <condition>",
        "not <condition>", "f > 1.0", "tl.max(v, 0) > 1.0", "S == 'text'", "a < 3",
    ),
    "pointer": ("x", "x + b", "n + tl.arange(0, 16)", "h + b", "x + i", "n + b * 2", "u + v"),
    "arguments": ("<leaf>", "<leaf>", "<leaf>, <leaf>", "<leaf>, <axis>", "<leaf>, <leaf>, <leaf>"),
    "call": (
        "tl.load(x + b)", "tl.load(n + b, mask=b < i, other=0)", "tl.zeros([16], <dtype>)",
        "tl.full([16], <number>, <dtype>)", "<leaf>.to(<dtype>)", "tl.sum(v, 0)", "tl.max(w, 1)",
        "tl.where(b > <leaf>, <leaf>, <leaf>)", "tl.reduce(v, 0, larger)", "tl.cumsum(<leaf>, 0)",
        "pair(<leaf>, <leaf>)", "pair(<leaf>)[0]", "scaled(<leaf>)", "scaled(<leaf>, K=3)",
        "apart(i, <leaf>)", "larger(<leaf>, <leaf>)", "doubled(<number>)", "Pair(<leaf>, b).right",
        "Box(<leaf>, 3).grown(<leaf>).data", "tl.reshape(v, [4, 4])", "tl.dot(w, w)", "v[:, None]",
        "tl.map_elementwise(apart, <leaf>, <leaf>)", "min(<leaf>, <leaf>)", "tl.join(v, <leaf>)",
        "tl.sort(<leaf>)", "tl.flip(<leaf>)", "tl.abs(<leaf>)", "tl.trans(w)", "len(T)",
        "tl.associative_scan(<leaf>, 0, larger)", "tl.cdiv(<leaf>, 4)", "tl.expand_dims(b, <axis>)",
        "<function>(<arguments>)",
    ),
    "access": (
        "v.sum(<axis>)", "v.shape[0]", "<leaf>.dtype", "w.T", "b[None, :]", "v[:, None]",
        "T[<axis>]", "<leaf>.<member>", "w.trans(1, 0)", "b.reshape(4, 4)",
    ),
    "header": (
        *["for k in range(<bounds>):"] * 4, "for k in tl.range(<bounds>, num_stages=2):",
        "for k in tl.static_range(3):", "while a < i:", "for <local> in range(<bounds>):",
    ),
    "local": ("a", "b", "v", "c", "c", "e", "e"),
    "augmented": ("+=", "-=", "*="),
    "assignment": (
        *["<local> = <value>"] * 6, *["a += <leaf>", "v += <leaf>", "v = v * <leaf>"] * 2, "a = i",
        "c: tl.constexpr = C", "c, e = pair(<leaf>, <leaf>)", "c = Box(<leaf>, 3)", "c.data += 1",
        "a = a + 1", "v = <leaf>", "(c, (e, a)) = (i, (<leaf>, <leaf>))", "c, *e = (1, 2, 3)",
    ),
    "simple": (
        "tl.store(x + b, <leaf>)", "tl.store(n + i, a)", "tl.store(n + b, <value>, mask=b < i)",
        "tl.device_print('p', <leaf>)", "tl.static_assert(C == 16)",
        "tl.device_assert(<condition>)",
        "tl.atomic_add(n + b, <leaf>)", "assert C > 3",
    ),
    "rare": (
        "pass", "if <condition>:\n    return", "return",
        "if <condition>:\n    return\nelse:\n    a = 3",
        "if <condition>:\n    c = <value>\nelse:\n    c = <value>", "tl.debug_barrier()",
    ),
}  # fmt: skip


class Writer:
    """Writes one function from the choices of a seeded generator."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        # Deep expressions hardly ever compile; shallow ones reach further statements.
        self.limit = self.random.choice([2, 3, 3, 4, 6])
        self.tame = self.random.random() < 0.6
        self.grammar = TAME if self.tame else GRAMMAR

    def function(self) -> str:
        """The text of a kernel."""
        lines = ["a = 1", "b = tl.arange(0, 16)", "v = tl.load(x + b)", "w = v[:, None] + v"]
        chosen = [line for line in lines if self.tame or self.random.random() < 0.9]
        body = [*chosen, *self.block(self.random.randint(1, 6), 0)]
        text = "\n".join("    " + line for line in body)
        return f"def kernel({PARAMETERS}):\n{text}\n"

    def block(self, count: int, depth: int) -> list[str]:
        """Statements, as lines."""
        return [line for _ in range(count) for line in self.statement(depth)]

    def statement(self, depth: int) -> list[str]:
        kinds = ["assignment"] * 9 + ["simple"] * 4 + ["if"] * 3 + ["loop"] * 3 + ["rare"]
        kind = self.random.choice(kinds if depth < 3 else kinds[:13])
        if kind not in ("if", "loop"):
            return self.expand(f"<{kind}>").split("\n")
        first = self.expand("<header>" if kind == "loop" else "if <condition>:")
        lines = [first, *self.inside(depth)]
        if kind == "if" and self.random.random() < 0.3:
            lines += [self.expand("elif <condition>:"), *self.inside(depth)]
        if self.random.random() < (0.5 if kind == "if" else 0.0 if self.tame else 0.05):
            lines += ["else:", *self.inside(depth)]
        return lines

    def inside(self, depth: int) -> list[str]:
        return ["    " + line for line in self.block(self.random.randint(1, 2), depth + 1)]

    def expand(self, text: str, depth: int = 0) -> str:
        """A text with its symbols replaced."""

        def replaced(match: re.Match[str]) -> str:
            symbol = match[1]
            if symbol in ("value", "call", "access") and depth > self.limit:
                symbol = "leaf"
            deeper = depth + (symbol == "value")
            return self.expand(self.random.choice(self.grammar[symbol]), deeper)

        return re.sub(r"<([a-z]+)>", replaced, text)
