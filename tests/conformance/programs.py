"""Random kernels as text: elementwise chains of mixed dtypes, broadcasting, masks, reductions,
scans, shape changes, loops with carried values, branches, calls.

A kernel is a tree of statements, so that a divergence can be reduced: each assignment may be
replaced by a constant of its type, and what is unused goes. Choices come from a function
`pick(sequence)`, that hypothesis or a seeded generator supplies.

Results must agree exactly, therefore whatever may round differently natively (sums of floats,
division, exp) is marked inexact: it goes into an output, compared with a tolerance, and into
nothing that would magnify the difference.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.conformance.checking import Check, Divergence, Invalid, View
from tests.conformance.nodes import Assign, Block, Shape, Store, Var
from tests.conformance.shared import SharedMemory
from tests.conformance.statements import Statements
from tests.conformance.support import DTYPES, FLOATS, INTEGERS, SIGNED, promoted, samples
from tests.support import device

Pick = Callable[[Sequence[Any]], Any]
MORE = (
    "order", "gather", "histogram", "scan_by", "reduce_by", "pair_up", "spread", "fp8", "bits",
    "number", "dot", "strided", "by_index", "block_pointer", "descriptor", "atomic", "store",
    "call_more", "leave", "over",
)  # fmt: skip
"""The kinds of statement that `Statements` has."""
ORDERED = ("over", "atomic", "read_shared", "write_shared", "change_shared", "count_shared")
"""Those whose accesses to memory have no order on GPUs."""
MEETING = ("read_shared", "write_shared", "change_shared", "count_shared", "exchange")
"""Those of `SharedMemory`."""

HELPERS = """
@jit
def safe_int(x):
    y = x.to(tl.float32)
    y = tl.where(y == y, y, 0.0)
    return tl.minimum(tl.maximum(y, -100.0), 100.0).to(tl.int32)


@jit
def pick_larger(a, i, b, j):
    first = (a > b) | ((a == b) & (i < j))
    return tl.where(first, a, b), tl.where(first, i, j)


@jit
def mixed(a, b):
    return a * 3 + b * 5


@jit(noinline=True)
def apart(a, b):
    if b > 2:
        a = a + b
    return a ^ b


@jit
def larger(a, b):
    return tl.maximum(a, b)


@jit
def first(a, b):
    return a


@jit
def compose(a, x, b, y):
    return a * b, x * b + y


@jit
def scaled(a, BY: tl.constexpr, TWICE: tl.constexpr = False):
    if BY == 0:
        return a
    if TWICE:
        a = a + a
    return a * BY


@jit(noinline=True)
def far(a, b):
    return tl.where(a > 5, a, b * 3)


@jit
def both(a, K):
    x = a + K
    return x, scaled(x, 3)


@jit
def steps(x):
    if x > 7:
        return x * 2
    y = x
    while y < 20:
        y = y * 2 + 1
    return y
"""


@dataclass
class Program:
    """A kernel and its arguments."""

    nodes: list[Any]
    inputs: dict[str, np.ndarray | View]
    scalars: dict[str, Any]
    grid: int
    how: dict[str, Any] = field(default_factory=dict)
    """Options of `Check`."""

    def stores(self) -> list[Store]:
        return [n for nodes in _lists(self.nodes) for n in nodes if isinstance(n, Store)]

    def source(self) -> str:
        """The module's text: helpers and the kernel."""
        params = [*self.inputs, *self.scalars, *(f"o_{s.var.name}" for s in self.stores())]
        lines = [f"def kernel({', '.join(params)}):", "    pid = tl.program_id(0)"]
        for node in self.nodes:
            lines += node.lines("    ")
        return HELPERS + "\n\n" + "\n".join(lines) + "\n"

    def arguments(self) -> dict[str, Any]:
        outs = {}
        for store in self.stores():
            size = int(np.prod(store.var.shape)) if store.var.shape else 1
            fill = np.full(self.grid * size, 85, np.uint8)
            outs[f"o_{store.var.name}"] = fill.astype(DTYPES[store.var.dtype])
        return {**self.inputs, **self.scalars, **outs}

    def check(self) -> Check:
        """The comparison of all ways to run this program."""
        inexact = {f"o_{s.var.name}" for s in self.stores() if not s.var.exact}
        return Check(self.source(), self.arguments(), self.grid, frozenset(inexact), **self.how)

    def kind(self) -> str:
        """The sort of divergence: what must stay when a program is reduced."""
        text = self.divergence()
        if " against " in text:
            return text.split(": ")[0]
        return re.sub(r"v?[0-9]+", "", text.split("^")[-1])[-80:]

    def divergence(self, progress: Callable[[str], None] | None = None) -> str:
        """Differences between the ways; "" if there are none. For `progress` see `Check`."""
        check = self.check()
        check.progress = progress or check.progress
        try:
            check.run()
        except Divergence as error:
            return str(error)
        except Invalid as error:
            return f"invalid: {error}"
        return ""


class Generator(Statements, SharedMemory):
    """Makes one program."""

    def __init__(self, pick: Pick):
        self.pick = pick
        self.count = 0
        self.m, self.n = pick([1, 2, 4, 8, 16]), pick([2, 8, 16, 32, 64, 128])
        self.pool: list[Var] = []
        self.arrays: dict[str, np.ndarray | View] = {}
        self.how: dict[str, Any] = {}
        self.shared: dict[str, str] = {}
        self.meets = pick([0, 0, 3])
        """How many times as often as usual statements meet in memory."""

    def program(self, size: int) -> Program:
        inputs, nodes = self._inputs()
        # Not 1: the compiler takes that for a constant, which then is weak in promotion.
        scalars = {"n": self.pick([0, 2, 5, 13, 100]), "k": self.pick([0, 2, 3, 4])}
        scalars["f"] = self.pick([0.5, -2.0, 3.25])
        self.pool += [Var("pid", "int32", ()), Var("n", "int32", ()), Var("k", "int32", ())]
        self.pool.append(Var("f", "float32", ()))
        for _ in range(size):
            nodes.append(self.statement(depth=0))
        stored = [v for v in self.pool if v.name.startswith("v")]
        nodes += [Store(v, self.pick([False, False, True])) for v in stored[-8:]]
        how = {**self.how, "aligned": self.pick([True, False])}
        how["round_trip"] = self.pick([False] * 7 + [True])
        program = Program(nodes, {**inputs, **self.arrays}, scalars, self.pick([1, 2, 2, 3]), how)
        simplify(program)
        return program

    def _inputs(self) -> tuple[dict[str, np.ndarray], list[Any]]:
        inputs: dict[str, np.ndarray] = {}
        nodes: list[Any] = []
        shapes: list[Shape] = [(self.n,), (self.m, self.n), (self.m, 1), ()]
        for i in range(4):
            dtype = self.pick([*INTEGERS, *FLOATS])
            shape = shapes[i]
            size = int(np.prod(shape)) if shape else 1
            values = samples(dtype, max(size, 8) * 5, i)
            if dtype in FLOATS:  # what is huge or infinite hides other differences
                with np.errstate(all="ignore"):
                    values = np.where(np.abs(values.astype(np.float64)) < 50, values, 1)
                values = values.astype(DTYPES[dtype])
            inputs[f"x{i}"] = values
            at = f"pid * {size}"
            if shape:
                at += f" + tl.reshape(tl.arange(0, {size}), {list(shape)})"
            text = f"tl.load(x{i} + {at})"
            if shape and self.pick([True, False]):
                other = self.pick(["", ", other=1", ", other=0"])
                text = f"tl.load(x{i} + {at}, ({at}) < n + 3{other or ', other=2'})"
            var = self.new(dtype, shape)
            nodes.append(Assign(var, text))
            self.pool.append(var)
        return inputs, nodes

    def new(self, dtype: str, shape: Shape, exact: bool = True) -> Var:
        self.count += 1
        return Var(f"v{self.count}", dtype, shape, exact)

    def some(self, test: Callable[[Var], bool] = lambda v: True) -> Var | None:
        """A value from the pool, exact, that passes a test."""
        found = [v for v in self.pool if v.exact and test(v)]
        return self.pick(found[::-1]) if found else None

    def statement(self, depth: int) -> Any:
        kinds = ["binary"] * 6 + ["unary", "cast", "compare", "where", "minmax", "shape", "reduce"]
        kinds += ["reduce", "scan", "inexact", "call", "weak", *MORE]
        kinds += MEETING * self.meets
        if device.device in device.EXECUTED:
            kinds = [kind for kind in kinds if kind not in ORDERED]
        if depth < 2:
            kinds += ["for", "while", "if", "for", "if"]
        node = getattr(self, "_" + self.pick(kinds))(depth)
        return node if node is not None else self._binary(depth)

    def _result(self, text: str, dtype: str, shape: Shape, exact: bool = True) -> Assign:
        var = self.new(dtype, shape, exact)
        self.pool.append(var)
        return Assign(var, text)

    def _pair(self, test: Callable[[Var], bool] = lambda v: True) -> tuple[Var, Var, Shape]:
        a = self.some(test) or self.pool[0]
        b = self.some(lambda v: test(v) and broadcast(a.shape, v.shape) is not None) or a
        shape = broadcast(a.shape, b.shape)
        assert shape is not None
        return a, b, shape

    def _binary(self, depth: int) -> Assign:
        a, b, shape = self._pair()
        dtype = promoted(a.dtype, b.dtype)
        signs = ["+", "-", "*"]
        if not (a.dtype in FLOATS or b.dtype in FLOATS):
            signs += ["&", "|", "^"]
            if dtype != "int1" and (a.dtype in SIGNED) == (b.dtype in SIGNED):
                signs += ["//", "%"]
            if dtype != "int1":
                text = self.pick([f"{a.name} << ({b.name} & 7)", f"{a.name} >> ({b.name} & 7)", ""])
                if text:
                    amount = "int32" if b.dtype == "int1" else b.dtype
                    return self._result(text, promoted(a.dtype, amount), shape)
        return self._result(f"{a.name} {self.pick(signs)} {b.name}", dtype, shape)

    def _weak(self, depth: int) -> Assign:
        a = self.some(lambda v: v.dtype != "int1") or self.pool[0]
        sign, number = self.pick(["+", "-", "*"]), self.pick([1, 2, 3, 7])
        if a.dtype in FLOATS:
            number = self.pick([1, 0.5, -3.0])
        text = self.pick([f"{a.name} {sign} {number}", f"{number} {sign} {a.name}"])
        return self._result(text, a.dtype, a.shape)

    def _unary(self, depth: int) -> Assign | None:
        a = self.some()
        assert a is not None
        if a.dtype in FLOATS:
            texts = [f"-{a.name}", f"tl.abs({a.name})"]
            if a.dtype in ("float32", "float64"):
                texts += [f"tl.floor({a.name})", f"tl.ceil({a.name})"]
        elif a.dtype == "int1":
            texts = [f"~{a.name}"]
        else:
            texts = [f"-{a.name}", f"~{a.name}", f"tl.abs({a.name})"]
        return self._result(self.pick(texts), a.dtype, a.shape)

    def _cast(self, depth: int) -> Assign:
        a = self.some()
        assert a is not None
        dtype = self.pick(["int1", *INTEGERS, *FLOATS, "float8e5", "float8e4nv"])
        if dtype.startswith("float8"):
            return self._result(f"{converted(a, dtype)}.to(tl.float32)", "float32", a.shape)
        return self._result(converted(a, dtype), dtype, a.shape)

    def _compare(self, depth: int) -> Assign:
        a, b, shape = self._pair()
        sign = self.pick(["<", "<=", "==", "!=", ">", ">="])
        return self._result(f"{a.name} {sign} {b.name}", "int1", shape)

    def _where(self, depth: int) -> Assign | None:
        a, b, shape = self._pair()
        c = self.some(lambda v: v.dtype == "int1" and broadcast(shape, v.shape) is not None)
        if c is None:
            return None
        whole = broadcast(shape, c.shape)
        assert whole is not None
        text = f"tl.where({c.name}, {a.name}, {b.name})"
        return self._result(text, promoted(a.dtype, b.dtype), whole)

    def _minmax(self, depth: int) -> Assign | None:
        a, b, shape = self._pair(lambda v: v.dtype != "int1")
        if "int1" in (a.dtype, b.dtype):
            return None
        left, right = ("float32" if v.dtype == "bfloat16" else v.dtype for v in (a, b))
        nan = ""
        if left in FLOATS or right in FLOATS:
            nan = self.pick(["", ", propagate_nan=tl.PropagateNan.ALL"])
        text = f"tl.{self.pick(['minimum', 'maximum'])}({a.name}, {b.name}{nan})"
        return self._result(text, promoted(left, right), shape)

    def _shape(self, depth: int) -> Assign | None:
        a = self.some(lambda v: bool(v.shape))
        if a is None:
            return None
        name, shape, choices = a.name, a.shape, []
        size = int(np.prod(shape))
        if len(shape) == 1:
            choices += [(f"{name}[None, :]", (1, *shape)), (f"{name}[:, None]", (*shape, 1))]
            choices += [(f"tl.broadcast_to({name}[None, :], {[self.m, *shape]})", (self.m, *shape))]
            if size > 1:
                half = f"tl.split(tl.reshape({name}, [{size // 2}, 2]))[{self.pick([0, 1])}]"
                choices.append((half, (size // 2,)))
                choices.append((f"tl.flip({name})", shape))
            if size < 128:
                other = f"-{name}" if a.dtype in FLOATS else f"{name} ^ {name}"
                choices.append((f"tl.interleave({name}, {other})", (2 * size,)))
        else:
            swapped = (*shape[:-2], shape[-1], shape[-2])
            choices += [(f"tl.trans({name})", swapped), (f"{name}.T", swapped)]
            choices += [(f"tl.reshape({name}, [{size}])", (size,)), (f"tl.ravel({name})", (size,))]
            if size > 1:
                choices.append((f"tl.permute(tl.reshape({name}, [2, {size // 2}]), (1, 0))",
                                (size // 2, 2)))  # fmt: skip
        text, result = self.pick(choices)
        return self._result(text, a.dtype, result)

    def _reduce(self, depth: int) -> Assign | None:
        a = self.some(lambda v: bool(v.shape) and v.dtype != "int1")
        if a is None:
            return None
        axis = self.pick(range(len(a.shape)))
        shape = tuple(e for i, e in enumerate(a.shape) if i != axis)
        keep = self.pick(["", ", keep_dims=True"])
        if keep:
            shape = tuple(1 if i == axis else e for i, e in enumerate(a.shape))
        wide = widened(a.dtype)
        if a.dtype in FLOATS:
            kind = self.pick(["max", "min", "argmax", "sum"])
            if kind == "sum":
                text = f"tl.sum({a.name}, {axis}{keep})"
                return self._result(text, a.dtype, shape, exact=False)
            clean = f"tl.where({a.name} == {a.name}, {a.name}, 0)"
            dtype = "int32" if kind == "argmax" else wide
            return self._result(f"tl.{kind}({clean}, {axis}{keep})", dtype, shape)
        kind = self.pick(["sum", "max", "min", "xor_sum", "argmax", "argmin", "custom"])
        if kind == "custom":
            if keep:
                return None
            index = f"tl.broadcast_to(tl.reshape(tl.arange(0, {a.shape[axis]}), "
            index += f"{[e if i == axis else 1 for i, e in enumerate(a.shape)]}), {list(a.shape)})"
            text = f"tl.reduce(({a.name}, {index}), {axis}, pick_larger)[{self.pick([0, 1])}]"
            return self._result(text, a.dtype if text.endswith("[0]") else "int32", shape)
        dtype = wide
        if kind.startswith("arg"):
            dtype = "int32"
        if kind == "xor_sum":
            dtype = a.dtype
        if kind in ("max", "min") and DTYPES[a.dtype].itemsize < 4:
            dtype = "int32"
        return self._result(f"tl.{kind}({a.name}, {axis}{keep})", dtype, shape)

    def _scan(self, depth: int) -> Assign | None:
        a = self.some(lambda v: bool(v.shape) and v.dtype in INTEGERS)
        if a is None:
            return None
        axis, reverse = self.pick(range(len(a.shape))), self.pick([False, True])
        return self._result(f"tl.cumsum({a.name}, {axis}, {reverse})", widened(a.dtype), a.shape)

    def _inexact(self, depth: int) -> Assign | None:
        a = self.some(lambda v: v.dtype == "float32")
        if a is None:
            return None
        bounded = f"tl.minimum(tl.maximum({a.name}, -5.0), 5.0)"
        text = self.pick([
            f"tl.exp({bounded})", f"1.0 / (1.5 + tl.abs({a.name}))", f"tl.sin({bounded})",
            f"tl.sigmoid({bounded})", f"tl.sqrt(tl.abs({bounded}))", f"tl.log({bounded} + 6.0)",
        ])  # fmt: skip
        return self._result(text, "float32", a.shape, exact=False)

    def _call(self, depth: int) -> Assign | None:
        if self.pick([True, False]):
            a, b, shape = self._pair(lambda v: v.dtype != "int1")
            if "int1" in (a.dtype, b.dtype):
                return None
            return self._result(f"mixed({a.name}, {b.name})", promoted(a.dtype, b.dtype), shape)
        a = self.some(lambda v: v.shape == () and v.dtype == "int32")
        b = self.some(lambda v: v.shape == () and v.dtype == "int32")
        assert a is not None and b is not None
        return self._result(f"apart({a.name}, {b.name})", "int32", ())

    # Control flow

    def _body(self, depth: int, carried: Sequence[Var]) -> list[Any]:
        """Statements, the last of which change the carried values."""
        outer = list(self.pool)
        nodes = [self.statement(depth + 1) for _ in range(self.pick([0, 1, 2]))]
        for var in carried:
            value = self.some(lambda v, s=var.shape: broadcast(s, v.shape) == s) or var
            if var.dtype in FLOATS:
                # A sum of floats could run off; the larger or the mean of both cannot.
                right = converted(value, var.dtype)
                text = f"tl.where({var.name} < {value.name}, {right}, {var.name})"
                nodes.append(Assign(var, f"({text}).to(tl.{var.dtype})"))
                continue
            sign = self.pick(["+", "-", "^", "*", "|"] if var.dtype != "int1" else ["^", "|", "&"])
            right = converted(value, var.dtype)
            nodes.append(Assign(var, f"({var.name} {sign} {right}).to(tl.{var.dtype})"))
        self.pool = outer
        return nodes

    def _carried(self) -> list[Var]:
        found = [v for v in self.pool if v.exact and v.name.startswith("v")]
        return list(dict.fromkeys(self.pick(found[::-1]) for _ in range(self.pick([1, 2, 3]))))

    def _for(self, depth: int) -> Block:
        self.count += 1
        name, carried = f"i{self.count}", self._carried()
        bounds = self.pick(["k", "3", "n % 5", "1, k + 1", "0, n, 7", "k, -1, -1", "pid, k"])
        kind = self.pick(["range", "range", "tl.range", "tl.static_range"])
        if kind == "tl.static_range":
            bounds = self.pick(["3", "1, 4", "4, 0, -2"])
        # Interpreted, the variable of `range` is a Python number; a sum makes it a scalar.
        index = Var(f"j{self.count}", "int32", ())
        self.pool.append(index)
        body = self._body(depth, carried)
        self.pool = [v for v in self.pool if v.name != index.name]
        first = Assign(index, f"tl.program_id(1) + {name}")
        return Block(f"for {name} in {kind}({bounds}):", [first, *body])

    def _while(self, depth: int) -> Block:
        self.count += 1
        name, carried = f"w{self.count}", self._carried()
        counter = Var(name, "int32", ())
        self.pool.append(counter)
        body = self._body(depth, carried)
        self.pool = [v for v in self.pool if v.name != name]
        loop = Block(f"while {name} < k + 1:", body, update=f"{name} += 1")
        return Block("if k >= 0:", [Assign(counter, "n * 0"), loop])

    def _if(self, depth: int) -> Block:
        scalar = self.some(lambda v: v.shape == () and v.dtype != "int1")
        assert scalar is not None
        test = f"{scalar.name} {self.pick(['>', '<=', '=='])} {self.pick([0, 1, 3])}"
        if scalar.dtype not in FLOATS:
            test = self.pick([test, f"{scalar.name} % 2 == 0"])
        carried = self._carried()
        body = self._body(depth, carried)
        orelse = self._body(depth, self._carried()) if self.pick([True, False]) else []
        return Block(f"if {test}:", body, orelse)


def broadcast(a: Shape, b: Shape) -> Shape | None:
    """The common shape of two values, None where there is none."""
    try:
        return np.broadcast_shapes(a, b)
    except ValueError:
        return None


def widened(dtype: str) -> str:
    """Types in which sums and the like are computed."""
    if dtype in FLOATS:
        return "float32" if DTYPES[dtype].itemsize < 4 else dtype
    if DTYPES[dtype].itemsize < 4:
        return "int32" if dtype in SIGNED else "uint32"
    return dtype


def converted(var: Var, dtype: str) -> str:
    """`var` in another dtype, by a conversion that is defined for all its values."""
    if var.dtype == dtype:
        return var.name
    if var.dtype in FLOATS and dtype in INTEGERS:
        return f"safe_int({var.name}).to(tl.{dtype})"
    return f"{var.name}.to(tl.{dtype})"


# Reduction of a diverging program


def _lists(nodes: list[Any]) -> Iterator[list[Any]]:
    yield nodes
    for node in list(nodes):
        if isinstance(node, Block):
            yield from _lists(node.body)
            yield from _lists(node.orelse)


def simplify(program: Program) -> None:
    """Drop what no output needs."""
    while True:
        text = program.source()
        for nodes in _lists(program.nodes):
            for node in list(nodes):
                if isinstance(node, Assign):
                    # Used anywhere but in its own statements?
                    own = sum(len(re.findall(rf"\b{node.var.name}\b", line))
                              for n in _assigns(program.nodes, node.var)
                              for line in n.lines(""))  # fmt: skip
                    if len(re.findall(rf"\b{node.var.name}\b", text)) <= own:
                        nodes.remove(node)
                elif isinstance(node, Block) and not node.body and not node.update:
                    if node.orelse:
                        continue
                    nodes.remove(node)
                elif isinstance(node, Block) and not node.body:
                    nodes.remove(node)
        if program.source() == text:
            return


def _assigns(nodes: list[Any], var: Var) -> Iterator[Assign]:
    for part in _lists(nodes):
        for node in part:
            if isinstance(node, Assign) and node.var.name == var.name:
                yield node


def reduce_program(program: Program) -> Program:
    """Change statements to constants and drop them, as long as the same kind of divergence
    remains. The program is changed in place."""
    kind = program.kind()

    def still(candidate: Program) -> bool:
        return candidate.kind() == kind

    changed = True
    while changed:
        changed = False
        for nodes in list(_lists(program.nodes)):
            for at in range(len(nodes) - 1, -1, -1):
                changed |= at < len(nodes) and _shorten(program, nodes, at, still)
        if program.grid > 1:
            program.grid, old = 1, program.grid
            if not still(program):
                program.grid = old
    program.inputs = {
        k: v for k, v in program.inputs.items() if re.search(rf"\b{k}\b", program.source())
    }
    return program


def ready_to_run(program: Program) -> str:
    """A script that shows the divergence."""
    arrays = "".join(
        f"    {name}=np.array({array.tolist()}, DTYPES['{array.dtype.name}']),\n"
        if array.dtype.name in DTYPES
        else f"    {name}=np.array({array.tolist()}),\n"
        for name, array in program.arguments().items()
        if isinstance(array, np.ndarray)
    )
    arrays += "".join(
        f"    {name}={value!r},\n"
        for name, value in program.arguments().items()
        if isinstance(value, View)
    )
    numbers = "".join(f"    {name}={value!r},\n" for name, value in program.scalars.items())
    inexact = sorted(program.check().inexact)
    how = "".join(f", {name}={value!r}" for name, value in program.how.items())
    return (
        '"""Run from the root of the repository: PYTHONPATH=src:. python THIS_FILE."""\n\n'
        "from math import inf, nan\n\nimport numpy as np\n\n"
        "from tests.conformance.checking import Check, View\n"
        "from tests.conformance.support import DTYPES\n\n"
        f"SOURCE = \'\'\'{program.source()}\'\'\'\n"
        f"args = dict(\n{arrays}{numbers})\n"
        f"Check(SOURCE, args, {program.grid}, frozenset({inexact}){how}).run()\n"
        "print('All ways agree.')\n"
    )


def _shorten(program: Program, nodes: list[Any], at: int, still: Callable[[Program], bool]) -> bool:
    node = nodes[at]
    attempts: list[list[Any]] = [[]]
    if isinstance(node, Assign) and "tl.full" not in node.text:
        attempts.append(
            [Assign(node.var, f"tl.full({list(node.var.shape)}, 1, tl.{node.var.dtype})")]
        )
    if isinstance(node, Block):
        attempts.append(node.body)
    for attempt in attempts:
        nodes[at : at + 1] = attempt
        if still(program):
            return True
        nodes[at : at + len(attempt)] = [node]
    return False
