"""Possible arguments of a kernel's launch, by its text.

What is loaded from or stored to is a pointer; how names of other parameters are spelled tells
strides, sizes, flags and scales apart. Choices vary at random, so that asking again helps.
"""

from __future__ import annotations

import ast
import inspect
import random
import re
import textwrap
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

Argument = tuple[str, Any]
"""("pointer", element type), ("number", value) or ("constexpr", value or {"dtype": name})"""


class Facts(NamedTuple):
    """Facts about a kernel's parameters in its text."""

    names: list[str]
    constant: set[str]
    pointers: set[str]
    defaults: dict[str, Any]
    compared: dict[str, list[Any]]


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
    return Facts(names, constant, _pointers(fn, function, 3), defaults, compared)


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
            found[name] = "constexpr", _constant(name, facts, config, element, extent, rng)
        elif name in facts.pointers:
            found[name] = "pointer", _element(name, element, rng)
        elif _REAL.search(name):
            found[name] = "number", rng.choice((0.5, 0.125, 1e-5))
        elif "stride" in name.lower():
            found[name] = "number", rng.choice((1, 64, 64, 128))
        else:
            found[name] = "number", rng.choice((extent, 64, 5, 33, 2))
        if name not in facts.constant and rng.random() < 0.05:
            found[name] = "constexpr", None
    return found


def _element(name: str, element: str, rng: random.Random) -> str:
    if _INDEX.search(name):
        return rng.choice(("i32", "i32", "i64", element))
    if "mask" in name.lower():
        return rng.choice(("i1", "i32", "u8"))
    if re.search(r"quant|_q|packed|int8|zero", name, re.I):
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
