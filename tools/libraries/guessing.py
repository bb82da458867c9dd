"""Possible arguments of a kernel's launch, by its text.

What is loaded from or stored to is a pointer, of integers where addresses or bounds follow from
what is loaded; what has a method `load` or `store` is a tensor descriptor. A library's own launches
of the kernel say more: numbers that they write, strides, tensors' sizes. Else the spelling of a
parameter tells strides, sizes, flags and scales apart. Choices vary at random, so that asking again
helps.
"""

from __future__ import annotations

import ast
import inspect
import random
import re
import textwrap
from pathlib import Path
from typing import Any, NamedTuple

_ADDRESSED = {"load", "store", "make_block_ptr", "make_tensor_descriptor"}
_INDEX = re.compile(
    r"ind(ex|ic)|idx|offset|seqlen|lens?\b|_len|table|pos|ids?\b|count|num_|map|slot|token|label"
    r"|target|loc|page|lock",
    re.I,
)
_EXTENT = re.compile(r"block|size|dim|tile|head|^[a-z]{1,3}$|num_|^n_", re.I)
_FLAG = re.compile(
    r"(has|is|use|even|do|with|need|enable|allow|apply|store|return|causal|flag|should|reverse"
    r"|trans)_?",
    re.I,
)
_REAL = re.compile(r"scale|eps|alpha|beta|gamma|^lr$|prob|temperature|softcap|decay|slope", re.I)
_FLOATS = ("fp32", "fp16", "bf16")
_DTYPES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}

_BITS = (ast.FloorDiv, ast.Mod, ast.BitAnd, ast.BitOr, ast.BitXor, ast.LShift, ast.RShift)

Argument = tuple[str, Any]
"""("pointer", element type), ("descriptor", [element type, block shape]), ("number", value) or
("constexpr", value or {"dtype": name})"""


class Facts(NamedTuple):
    """Facts about a kernel's parameters in its text."""

    names: list[str]
    constant: set[str]
    pointers: set[str]
    defaults: dict[str, Any]
    compared: dict[str, list[Any]]
    integers: set[str]
    descriptors: dict[str, int]
    given: dict[str, list[ast.expr]]


def definition(fn: Any) -> ast.FunctionDef:
    """The function's syntax tree."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(fn.fn)))
    return next(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def returns_a_value(fn: Any) -> bool:
    """Whether it is a part of kernels, and none itself."""
    nodes = ast.walk(definition(fn))
    return any(isinstance(node, ast.Return) and node.value is not None for node in nodes)


def facts_of(fn: Any) -> Facts:
    """Read the kernel's text."""
    function = definition(fn)
    parameters = [*function.args.args, *function.args.kwonlyargs]
    names = [p.arg for p in parameters]
    annotated = {p.arg: ast.unparse(p.annotation) for p in parameters if p.annotation}
    constant = {name for name, text in annotated.items() if "constexpr" in text}
    given = zip(reversed(function.args.args), reversed(function.args.defaults), strict=False)
    defaults = {p.arg: d.value for p, d in given if isinstance(d, ast.Constant)}
    compared: dict[str, list[Any]] = {name: [] for name in names}
    for node in ast.walk(function):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            constants = [s.value for s in sides if isinstance(s, ast.Constant)]
            for side in sides:
                if isinstance(side, ast.Name) and side.id in compared:
                    compared[side.id] += constants
    pointers, descriptors = _pointers(fn, function, 3), _descriptors(function, set(names))
    integers = _integers(function, pointers)
    given = _launches(fn, names)
    return Facts(names, constant, pointers, defaults, compared, integers, descriptors, given)


def _descriptors(function: ast.FunctionDef, names: set[str]) -> dict[str, int]:
    """Parameters that are tensor descriptors, and how many offsets an access of each has."""
    found = dict[str, int]()
    for node in ast.walk(function):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        base, offsets = node.func.value, node.args[:1]
        if node.func.attr not in ("load", "store") or not offsets:
            continue
        if isinstance(base, ast.Name) and base.id in names:
            found[base.id] = len(getattr(offsets[0], "elts", ())) or found.get(base.id, 0)
    return {name: rank for name, rank in found.items() if rank}


def _integers(function: ast.FunctionDef, pointers: set[str]) -> set[str]:
    """Pointers to integers: what is loaded from them is in bounds of loops, addresses, or an
    operand of an operation on bits."""
    loaded: dict[str, set[str]] = {}

    def sources(node: ast.AST) -> set[str]:
        """Pointers to what a value has: not what it is compared with, divided by or masked by."""
        if isinstance(node, ast.Compare) or (
            isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)
        ):
            return set()
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".load"):
            begins = ast.walk(node.args[0]) if node.args else ()
            return {next((n.id for n in begins if isinstance(n, ast.Name)), "")} & pointers
        if isinstance(node, ast.Name):
            return loaded.get(node.id, set())
        return set[str]().union(*map(sources, ast.iter_child_nodes(node)))

    found = set[str]()
    nodes = [n for n in ast.walk(function) if hasattr(n, "lineno")]
    for node in sorted(nodes, key=lambda n: (n.lineno, n.col_offset)):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            if origin := sources(node.value):
                loaded.setdefault(node.targets[0].id, origin)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, _BITS):
            found |= sources(node.left) | sources(node.right)
        elif isinstance(node, ast.AugAssign) and isinstance(node.op, _BITS):
            found |= sources(node.target) | sources(node.value)
        elif isinstance(node, ast.keyword) and node.arg == "mask":
            found |= sources(node.value)
        elif isinstance(node, ast.Call):
            called = ast.unparse(node.func).split(".")[-1]
            if called in ("range", "static_range"):
                found |= set[str]().union(*map(sources, node.args))
            elif called in _ADDRESSED and node.args and isinstance(node.args[0], ast.BinOp):
                found |= sources(node.args[0])
    return found


def _launches(fn: Any, names: list[str]) -> dict[str, list[ast.expr]]:
    """Parameters' expressions in launches of a kernel by the functions of its own file."""
    given: dict[str, list[ast.expr]] = {name: [] for name in names}
    try:
        tree = ast.parse(Path(inspect.getfile(fn.fn)).read_text(errors="replace"))
    except (OSError, SyntaxError, TypeError):
        return given
    numbers = {
        ast.unparse(node.targets[0]): node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript)):
            continue
        if ast.unparse(node.func.value).split(".")[-1] != fn.fn.__name__:
            continue
        pairs = [*zip(names, node.args, strict=False)]
        pairs += [(k.arg, k.value) for k in node.keywords if k.arg in given]
        for name, value in pairs:
            given[name].append(numbers.get(ast.unparse(value), value))
    return given


def _pointers(fn: Any, function: ast.FunctionDef, depth: int) -> set[str]:
    names = {p.arg for p in [*function.args.args, *function.args.kwonlyargs]}
    origin: dict[str, str] = {}
    found = {name for name in names if re.search(r"_ptrs?$|_pointer$|^p?ptr", name)}

    def first(node: ast.expr | None) -> str | None:
        """The parameter that an address begins with."""
        while not isinstance(node, ast.Name):
            if isinstance(node, ast.BinOp):
                node = node.left
            elif isinstance(node, ast.Subscript):
                node = node.value
            elif isinstance(node, ast.Call) and node.args:
                node = node.args[0]
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                node = node.func.value
            else:
                return None
        name, seen = node.id, set[str]()
        while name not in names and name in origin and name not in seen:
            seen.add(name)
            name = origin[name]
        return name if name in names else None

    nodes = [n for n in ast.walk(function) if hasattr(n, "lineno")]
    for node in sorted(nodes, key=lambda n: (n.lineno, n.col_offset)):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            begin = node.value
            while isinstance(begin, ast.BinOp):
                begin = begin.left
            if isinstance(begin, ast.Name):
                origin.setdefault(node.targets[0].id, begin.id)
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Attribute):
            if node.func.attr in _ADDRESSED or node.func.attr.startswith("atomic_"):
                named = (k.value for k in node.keywords if k.arg in ("pointer", "base"))
                found.add(first(node.args[0] if node.args else next(named, None)) or "")
        elif isinstance(node.func, ast.Name) and node.func.id in _ADDRESSED:
            found.add(first(node.args[0] if node.args else None) or "")
        elif isinstance(node.func, ast.Name) and depth:
            callee = fn.fn.__globals__.get(node.func.id)
            if type(callee).__name__ != "JITFunction":
                continue
            inner = definition(callee)
            theirs = _pointers(callee, inner, depth - 1)
            pairs = list(zip((p.arg for p in inner.args.args), node.args, strict=False))
            pairs += [(k.arg, k.value) for k in node.keywords if k.arg]
            found |= {first(value) or "" for name, value in pairs if name in theirs}
    return found & names


def guess(facts: Facts, configs: list[Any], rng: random.Random) -> dict[str, Argument]:
    """Arguments that the kernel may take."""
    element, extent = rng.choice(_FLOATS), rng.choice((16, 32, 64))
    config = rng.choice(configs).kwargs if configs and rng.random() < 0.6 else {}
    found: dict[str, Argument] = {}
    for name in facts.names:
        if name in facts.constant:
            value = _given(facts.given[name], extent, rng)
            if value is None:
                value = _constant(name, facts, config, element, extent, rng)
            found[name] = "constexpr", value
        elif name in facts.descriptors:
            block = [extent] * facts.descriptors[name]
            block[:-2] = [1] * len(block[:-2])
            found[name] = "descriptor", [element, block]
        elif name in facts.pointers:
            found[name] = "pointer", _element(name, facts, element, rng)
        else:
            found[name] = "number", _number(name, facts, extent, rng)
        if name not in facts.constant and rng.random() < _absent(name, facts):
            found[name] = "constexpr", None
    return found


def _absent(name: str, facts: Facts) -> float:
    """The probability that a guess gives None for a parameter."""
    nones = any(isinstance(n, ast.Constant) and n.value is None for n in facts.given[name])
    return 0.3 if nones or None in facts.compared[name] else 0.01


def _number(name: str, facts: Facts, extent: int, rng: random.Random) -> Any:
    if (value := _given(facts.given[name], extent, rng)) is not None:
        return value
    if _REAL.search(name):
        return rng.choice((0.5, 0.125, 1e-5))
    if "stride" in name.lower():
        return rng.choice((1, 64, 64, 128))
    return rng.choice((extent, 64, 5, 33, 2))


def _given(expressions: list[ast.expr], extent: int, rng: random.Random) -> Any:
    """A number or a flag as a launch of the library gives it, None where that says nothing."""
    if not expressions or rng.random() < 0.15:
        return None
    node = rng.choice(expressions)
    text = ast.unparse(node)
    if isinstance(node, ast.Constant) and node.value is not None:
        return node.value
    if isinstance(node, ast.Compare) or text.startswith("bool("):
        return rng.random() < 0.5
    if stride := re.search(r"\.stride\((-?\d)\)$", text):
        return 1 if stride[1] == "-1" else rng.choice((1, 64, 128, extent))
    if "next_power_of_2" in text:
        return extent
    if ".shape[" in text or ".size(" in text or ".numel()" in text:
        return rng.choice((extent, extent, 2, 5, 33))
    if dtype := re.fullmatch(r"(?:tl|torch|triton\.language)\.((?:b?float|u?int)\d+)", text):
        return {"dtype": dtype[1]}
    return None


def _element(name: str, facts: Facts, element: str, rng: random.Random) -> str:
    if name in facts.integers and rng.random() < 0.9:
        return rng.choice(("i32", "i32", "i64", "u8"))
    if _INDEX.search(name):
        return rng.choice(("i32", "i32", "i64", element))
    if "mask" in name.lower():
        return rng.choice(("i1", "i32", "u8"))
    if re.search(r"fp8|f8", name, re.I):
        return rng.choice((element, "fp8e4nv", "u8"))
    if re.search(r"quant|_q|packed|int8|zero|mx|fp4", name, re.I):
        return rng.choice((element, "i8", "u8", "i32"))
    return element


def _constant(
    name: str, facts: Facts, config: dict[str, Any], element: str, extent: int, rng: random.Random
) -> Any:
    if isinstance(config.get(name), (int, float, str, bool)):
        return config[name]
    if facts.compared[name] and rng.random() < 0.4:
        return rng.choice(facts.compared[name])
    if name in facts.defaults and rng.random() < 0.7:
        return facts.defaults[name]
    if "dtype" in name.lower() or "type" in name.lower():
        return {"dtype": _DTYPES[element]}
    if _FLAG.match(name):
        return rng.random() < 0.5
    if _EXTENT.search(name):
        return rng.choice((extent, extent, 16, 32, 64))
    return rng.choice((True, False, 1, 2, 16))
