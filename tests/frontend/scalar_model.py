"""The meaning of scalar programs by Python and NumPy alone: an oracle for `scalar_programs`.

A kernel's own text runs as Python, which does its control flow, with `tl` and `jit` of this module.
`Number` states how a scalar of a dtype computes: C's division and promotion, wrapping, rounding.
Python's own numbers are weak, as in the language, and a number that is assigned to a name is none
any more; `meant` rewrites assignments for that, and `and`, `or`, `not`, `... if ... else ...`,
which no class can define. It shares nothing with the compiler.
"""

from __future__ import annotations

import ast
from types import SimpleNamespace
from typing import Any

import numpy as np

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "float32", "float64")
_RANK = {"float16": 1, "float32": 2, "float64": 3}


class Refused(Exception):
    """The language does not take the operands."""


def kind_of(value: Any) -> str:
    """The dtype of a number, for Python's own the one that it has by itself."""
    if isinstance(value, Number):
        return value.dtype
    if isinstance(value, bool):
        return "int1"
    if isinstance(value, float):
        return "float32"
    for name in ("int32", "uint32", "int64", "uint64"):
        if np.iinfo(name).min <= value <= np.iinfo(name).max:
            return name
    raise Refused


def _width(name: str) -> int:
    return 1 if name == "int1" else 8 * np.dtype(name).itemsize


def _level(name: str) -> int:
    return 0 if name == "int1" else 1 if name in INTEGERS else 2


def promoted(a: Any, b: Any, divides: bool) -> str:
    """The dtype in which two numbers meet. Raises `Refused` where there is none."""
    left, right = kind_of(a), kind_of(b)
    if isinstance(a, Number) != isinstance(b, Number):
        weak, strong = (right, left) if isinstance(a, Number) else (left, right)
        if _level(weak) <= _level(strong):
            left = right = strong
    floats = [name for name in (left, right) if name in FLOATS]
    if floats:
        widest = max(floats, key=_RANK.__getitem__)
        return "float32" if divides and widest == "float16" else widest
    unsigned = [name for name in (left, right) if name.startswith("u")]
    if divides and len(unsigned) == 1:
        raise Refused
    if len(unsigned) == 1:
        (signed,) = [name for name in (left, right) if name not in unsigned]
        return unsigned[0] if _width(unsigned[0]) >= _width(signed) else signed
    return max(left, right, key=_width)


def _holds(dtype: str, value: Any) -> bool:
    return np.iinfo(dtype).min <= value <= np.iinfo(dtype).max


def converted(value: Any, dtype: str, exact: bool = False) -> Any:
    """A number as NumPy's of a dtype; `exact`: it must be representable."""
    if isinstance(value, Number):
        value = value.value
    elif exact and dtype in INTEGERS and not _holds(dtype, value):
        raise Refused
    if dtype == "int1":
        return np.bool_(value != 0)
    if dtype in FLOATS:
        return np.dtype(dtype).type(value)
    if isinstance(value, (float, np.floating)):
        if not np.isfinite(value) or not -(2.0**31) < float(value) < 2.0**31:
            raise Refused  # undefined
        if float(value) < 0 and dtype.startswith("u"):
            raise Refused
    whole = int(value) % (1 << _width(dtype))
    return np.array(whole, f"uint{_width(dtype)}").view(dtype)[()]


def _quotient(a: Any, b: Any) -> Any:
    if int(b) == 0:
        raise Refused
    return (abs(int(a)) // abs(int(b))) * (1 if (a < 0) == (b < 0) else -1)


def _shifted(a: Any, by: Any, left: bool) -> int:
    if not 0 <= int(by) < 8 * a.dtype.itemsize:
        raise Refused
    return int(a) << int(by) if left else int(a) >> int(by)


_WHOLE = {
    "+": lambda a, b: int(a) + int(b), "-": lambda a, b: int(a) - int(b),
    "*": lambda a, b: int(a) * int(b), "//": _quotient,
    "%": lambda a, b: int(a) - int(b) * _quotient(a, b), "&": lambda a, b: int(a) & int(b),
    "|": lambda a, b: int(a) | int(b), "^": lambda a, b: int(a) ^ int(b),
    "<<": lambda a, b: _shifted(a, b, True), ">>": lambda a, b: _shifted(a, b, False),
}  # fmt: skip
_REAL = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "%": np.fmod,
}  # fmt: skip
_ORDER = {
    "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "==": np.equal,
    "!=": np.not_equal,
}  # fmt: skip


def computed(symbol: str, a: Any, b: Any) -> Number:
    """An operator on two numbers, of which one at least is no Python number."""
    dtype = promoted(a, b, symbol in ("/", "//", "%"))
    weak_shift = symbol == ">>" and isinstance(a, Number) and a.dtype.startswith("u")
    if symbol == ">>" and weak_shift != dtype.startswith("u"):
        raise Refused  # the sign is that of the type before promotion
    for number in (a, b):
        if not isinstance(number, Number) and dtype.startswith("u") and number < 0:
            raise Refused
    x, y = (converted(n, dtype, exact=not isinstance(n, Number)) for n in (a, b))
    with np.errstate(all="ignore"):
        if symbol in _ORDER:
            return Number("int1", _ORDER[symbol](x, y))
        if symbol == "/" and dtype not in FLOATS:
            dtype = "float32"
            x, y = converted(Number("", x), dtype), converted(Number("", y), dtype)
        if dtype in FLOATS:
            if symbol not in _REAL:
                raise Refused
            return Number(dtype, np.dtype(dtype).type(_REAL[symbol](x, y)))
        if symbol not in _WHOLE or (dtype == "int1" and symbol not in "&|^"):
            raise Refused
        return Number(dtype, converted(_WHOLE[symbol](x, y), dtype))


class Number:
    """A scalar that has a dtype."""

    def __init__(self, dtype: str, value: Any):
        self.dtype, self.value = dtype, value

    def __bool__(self) -> bool:
        return bool(self.value != 0)

    def __index__(self) -> int:
        return int(self.value)

    def __neg__(self) -> Number:
        if self.dtype in FLOATS:
            return Number(self.dtype, -self.value)
        return computed("-", Number(self.dtype, converted(0, self.dtype)), self)

    def __invert__(self) -> Number:
        if self.dtype in FLOATS:
            raise Refused
        return Number(self.dtype, ~self.value)

    def to(self, dtype: str) -> Number:
        with np.errstate(all="ignore"):
            return Number(dtype, converted(self, dtype))


for _name, _symbol in {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "and": "&",
    "or": "|", "xor": "^", "lshift": "<<", "rshift": ">>",
}.items():  # fmt: skip
    setattr(Number, f"__{_name}__", lambda a, b, s=_symbol: computed(s, a, b))
    setattr(Number, f"__r{_name}__", lambda a, b, s=_symbol: computed(s, b, a))
for _name, _symbol in {
    "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!=",
}.items():  # fmt: skip
    setattr(Number, f"__{_name}__", lambda a, b, s=_symbol: computed(s, a, b))


def named(value: Any) -> Any:
    """A value that is assigned to a name."""
    if isinstance(value, tuple):
        parts = [named(v) for v in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return scalar(value)
    return value


def scalar(value: Any) -> Any:
    """A number of the dtype that it has by itself."""
    if isinstance(value, Number):
        return value
    dtype = kind_of(value)
    return Number(dtype, converted(value, dtype))


def _truth(value: Any) -> Number:
    return Number("int1", np.bool_(bool(value)))


def decide(is_and: bool, *values: Any) -> Any:
    """`and` or `or`: known values decide as in Python, others give an int1."""
    last, dynamic = None, None
    for make in values:
        value = make()
        if not isinstance(value, Number):
            if bool(value) != is_and:
                return value
            last = value
        elif dynamic is None:
            dynamic = value
        else:
            both = [bool(dynamic), bool(value)]
            dynamic = _truth(all(both) if is_and else any(both))
    return last if dynamic is None else dynamic


def negated(value: Any) -> Any:
    """`not value`."""
    return _truth(not value) if isinstance(value, Number) else not value


def chosen(condition: Any, first: Any, second: Any) -> Any:
    """`first if condition else second`."""
    value = first() if condition else second()
    return scalar(value) if isinstance(condition, Number) else value


def chain(*values: Any) -> Any:
    """`a < b < c` as its two comparisons."""
    return decide(True, *[lambda value=value: value for value in values])


def counted(*bounds: Any) -> Any:
    """`range` in a kernel: its variable has the common type of the bounds."""
    dtype = "int32"
    for bound in bounds:
        dtype = promoted(Number(dtype, 0), scalar(bound), False)
    for i in range(*(int(b) for b in bounds)):
        yield Number(dtype, converted(i, dtype))


class _Meaning(ast.NodeTransformer):
    def _call(self, name: str, *args: ast.expr) -> ast.expr:
        return ast.Call(ast.Name(name, ast.Load()), list(args), [])

    def _later(self, value: ast.expr) -> ast.expr:
        nothing = ast.arguments([], [], None, [], [], None, [])
        return ast.Lambda(nothing, value)

    def visit_Assign(self, node: ast.Assign) -> Any:
        self.generic_visit(node)
        node.value = self._call("named", node.value)
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        self.generic_visit(node)
        read = ast.Name(node.target.id, ast.Load())  # pyright: ignore
        value = self._call("named", ast.BinOp(read, node.op, node.value))
        return ast.Assign([node.target], value)

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        self.generic_visit(node)
        is_and = ast.Constant(isinstance(node.op, ast.And))
        return self._call("decide", is_and, *map(self._later, node.values))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        self.generic_visit(node)
        return self._call("negated", node.operand) if isinstance(node.op, ast.Not) else node

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        self.generic_visit(node)
        return self._call("chosen", node.test, self._later(node.body), self._later(node.orelse))

    def visit_Compare(self, node: ast.Compare) -> Any:
        self.generic_visit(node)
        if len(node.ops) == 1:
            return node
        pairs = zip([node.left, *node.comparators], node.ops, node.comparators, strict=False)
        return self._call("chain", *[ast.Compare(a, [op], [b]) for a, op, b in pairs])


def meant(text: str, **names: Any) -> dict[str, Any]:
    """The names that a program defines, for Python to run."""
    tree = ast.fix_missing_locations(_Meaning().visit(ast.parse(text)))
    tl = SimpleNamespace(
        constexpr=int, static_range=range, range=lambda *b, **_: counted(*b), store=store,
        static_assert=holds,
        **{name: name for name in (*INTEGERS, *FLOATS, "int1")},
    )  # fmt: skip
    scope: dict[str, Any] = {
        "tl": tl, "jit": lambda f=None, **_: f or (lambda g: g), "range": counted, "named": named,
        "decide": decide, "negated": negated, "chosen": chosen, "chain": chain, **names,
    }  # fmt: skip
    exec(compile(tree, "<meant>", "exec"), scope)
    return scope


def holds(condition: Any) -> None:
    """`tl.static_assert`."""
    assert condition


def store(place: tuple[Any, int], value: Any) -> None:
    """`tl.store`; the pointer is `(array, index)`."""
    array, index = place
    array[index] = scalar(value)


class Out:
    """The pointer to stored numbers."""

    def __init__(self) -> None:
        self.found: dict[int, Number] = {}

    def __add__(self, index: int) -> tuple[dict[int, Number], int]:
        return self.found, index
