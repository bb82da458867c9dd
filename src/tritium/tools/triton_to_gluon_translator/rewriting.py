"""Rewrites the syntax tree of a Triton function to Gluon."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import tritium.language as tl
from tritium.experimental.gluon import language as gl
from tritium.language.jit.function import JITCallable
from tritium.language.values.base import base_type, module_of
from tritium.language.values.constexpr import ConstexprFunction, constexpr

LANGUAGE = "tritium.language"
HELPERS = "tritium.tools.triton_to_gluon_translator"
HELPED = dict.fromkeys(("arange", "cat", "full", "zeros", "expand_dims", "dot"), "helpers") | {
    "dot_scaled": "scaled", "sort": "sorting", "topk": "sorting",
    **dict.fromkeys(("advance", "make_block_ptr", "make_tensor_descriptor"), "memory_blocks"),
}
"""The modules of helpers by the functions that they replace."""
OF_BLOCKS = {"load", "store"}
"""Functions that block pointers have others for."""
OF_DESCRIPTORS = {
    "load": "load_block", "store": "store_block", "load_tensor_descriptor": "load_block",
    "store_tensor_descriptor": "store_block",
}
"""Functions for methods of descriptors, and the functions that do the same."""
SETTLED = {
    "argmax", "argmin", "cat", "flip", "gather", "histogram", "interleave", "join", "max", "min",
    "permute", "ravel", "reduce", "reduce_or", "reshape", "split", "sum", "trans", "view",
    "xor_sum",
}  # fmt: skip
"""Functions, and methods of blocks, whose results have other layouts than their operands."""
METHODS = {
    "gather", "scatter", "atomic_add", "atomic_and", "atomic_max", "atomic_min", "atomic_or",
    "atomic_xor",
}
"""Methods of descriptors, and some of blocks, too, that are helpers of the same names."""
MISSING = object()


def of_language(value: Any) -> str | None:
    """The name in `tritium.language` of a function or object of it."""
    module = module_of(value)
    name = getattr(value, "__name__", None)
    if isinstance(value, base_type):
        return next((n for n, known in vars(gl).items() if known is value), None)
    inside = module.startswith(LANGUAGE) and not module.startswith(f"{LANGUAGE}.extra")
    return name if inside and isinstance(name, str) else None


def functions_in(value: Any) -> list[JITCallable]:
    """The functions of a list or tuple of the program's functions; none of other values.

    Raises `NotImplementedError` for one with other things, too.
    """
    members: Any = value.value if isinstance(value, constexpr) else value
    if not isinstance(members, list | tuple):
        return []
    found = [member for member in members if isinstance(member, JITCallable)]  # pyright: ignore
    if found and len(found) < len(members):  # pyright: ignore
        raise NotImplementedError(f"{members} has functions and other values")
    return found


class Rewriter(ast.NodeTransformer):
    """Rewrites one function.

    Attributes:
        callees: the program's own functions that it calls, by name.
        imports: the lines by which further names are imported.
        constants: the values of names that the function reads.
        tables: the texts of lists of `callees` that it reads, by name.
    """

    def __init__(self, function: JITCallable, scope: Mapping[str, Any]):
        self.function, self.scope = function, scope
        self.callees: dict[str, JITCallable] = {}
        self.imports, self.constants = set[str](), dict[str, Any]()
        self.tables: dict[str, str] = {}
        self.locals = set[str]()
        self.has_block_pointers = False

    def rewritten(self) -> ast.FunctionDef:
        """The function in Gluon."""
        found: Any = self.function.parse().body[0]
        self.locals = {a.arg for a in ast.walk(found) if isinstance(a, ast.arg)}
        self.locals |= {n.id for n in ast.walk(found) if isinstance(n, ast.Name)
                        and isinstance(n.ctx, ast.Store)}  # fmt: skip
        names = {getattr(n, "attr", getattr(n, "id", getattr(n, "arg", None)))
                 for n in ast.walk(found)}  # fmt: skip
        self.has_block_pointers = bool(names & {"make_block_ptr", "boundary_check"})
        found.decorator_list = [ast.parse("gluon.jit", mode="eval").body]
        return ast.fix_missing_locations(self.generic_visit(found))  # pyright: ignore

    def _resolved(self, node: ast.AST) -> Any:
        """The value of a name, or of an attribute of one, when the function is compiled; `MISSING`
        for local values."""
        if isinstance(node, ast.Name):
            return MISSING if node.id in self.locals else self.scope.get(node.id, MISSING)
        if isinstance(node, ast.Attribute):
            owner = self._resolved(node.value)
            return MISSING if owner is MISSING else getattr(owner, node.attr, MISSING)
        return MISSING

    def _named(self, value: Any, node: Any) -> ast.expr:
        """The expression for a global value."""
        name = of_language(value)
        if name is not None:
            if name in HELPED:
                return self._helper(HELPED[name], name)
            if name in OF_DESCRIPTORS and name not in OF_BLOCKS:
                return self._helper("memory_blocks", OF_DESCRIPTORS[name])
            if name in OF_BLOCKS and self.has_block_pointers:
                return self._helper("memory_blocks", name)
            if hasattr(gl, name):
                return ast.parse(f"gl.{name}", mode="eval").body
            self.imports.add("import tritium.language as tl")  # which works on layouts as well
            place = name if getattr(tl, name, None) is value else f"core.{name}"
            return ast.parse(f"tl.{place}", mode="eval").body
        root: Any = node
        while isinstance(root, ast.Attribute):
            root = root.value
        if isinstance(value, JITCallable):
            self.callees[value.__name__] = value
            return ast.Name(value.__name__, ast.Load())
        first = self.scope[root.id]
        if isinstance(first, ModuleType):
            self.imports.add(f"import {first.__name__} as {root.id}")
        elif functions := functions_in(value):
            self.callees.update({f.__name__: f for f in functions})
            self.tables[root.id] = f"[{', '.join(f.__name__ for f in functions)}]"
        elif isinstance(value, constexpr):
            self.constants[root.id] = value.value
        elif isinstance(value, ConstexprFunction) or callable(value):
            self.imports.add(f"from {module_of(value)} import {value.__name__} as {root.id}")
        else:
            self.constants[root.id] = value
        return node

    def _helper(self, module: str, name: str) -> ast.expr:
        """The expression for a helper."""
        if module != "helpers":
            self.imports.add(f"from {HELPERS} import {module}")
        return ast.parse(f"{module}.{name}", mode="eval").body

    def visit_Name(self, node: ast.Name) -> ast.expr:
        value = self._resolved(node)
        builtin = getattr(builtins, node.id, MISSING)
        if value is MISSING or value is builtin or isinstance(value, ModuleType):
            return node
        return self._named(value, node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        value = self._resolved(node)
        if value is not MISSING:
            return self._named(value, node)
        self.generic_visit(node)
        return _settled(node) if node.attr == "T" else node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        value = self._resolved(node.func)
        name = of_language(value) if value is not MISSING else None
        method = isinstance(node.func, ast.Attribute) and value is MISSING
        self.generic_visit(node)
        attribute: str = getattr(node.func, "attr", "") if method else ""
        helper = None
        if attribute in OF_BLOCKS:
            helper = self._helper("memory_blocks", OF_DESCRIPTORS[attribute])
        elif attribute in HELPED:
            helper = self._helper(HELPED[attribute], attribute)
        elif attribute in METHODS:
            helper = self._helper("memory_blocks", attribute)
        if helper is not None:
            owner: Any = node.func
            return ast.Call(helper, [owner.value, *node.args], node.keywords)
        called: Any = getattr(node.func, "attr", name) if method else name
        return _settled(node) if called in SETTLED else node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        """`x[:, None]` is a further axis; all else stays."""
        self.generic_visit(node)
        index = node.slice
        parts = index.elts if isinstance(index, ast.Tuple) else [index]
        new = [isinstance(p, ast.Constant) and p.value is None for p in parts]
        whole = [isinstance(p, ast.Slice) and not (p.lower or p.upper or p.step) for p in parts]
        if not any(new) or not all(a or b for a, b in zip(new, whole, strict=True)):
            return node
        found: ast.expr = node.value
        for axis, is_new in enumerate(new):
            if is_new:
                helper = ast.parse("helpers.expand_dims", mode="eval").body
                found = ast.Call(helper, [found, ast.Constant(axis)], [])
        return found


def _settled(node: ast.expr) -> ast.Call:
    return ast.Call(ast.parse("helpers.settle", mode="eval").body, [node], [])
