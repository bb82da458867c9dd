"""Facts of the sources of the package and of the library of kernels. Each file is parsed once, as
that takes longer than all that tests ask of it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "tritium"
KERNELS = ROOT / "src" / "tritium_kernels"
FILES = sorted(PACKAGE.rglob("*.py"))
ALL_FILES = [*FILES, *sorted(KERNELS.rglob("*.py"))]
MAX_FUNCTION = 60
MAX_KERNEL = 80
"""Lines of a function, and of a kernel: a `jit` function has no helpers that share its variables,
and what a kernel's tile needs is best read in one piece."""


def module_name(file: Path) -> str:
    """The name under which a file is imported; those of the reference's paths, see
    `tritium.reference_paths`, look as if they were in the package that they extend."""
    parts = file.relative_to(PACKAGE.parent).with_suffix("").parts
    if parts[1:3] == ("compat", "reference"):
        parts = (parts[0], *parts[3:])
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(f): f for f in ALL_FILES}
INNER = MODULES.keys() - {"tritium", "tritium_kernels"}


class Source(NamedTuple):
    """Facts of a file."""

    imports: list[tuple[int, str]]
    """(line, absolute module) of each import of our own: at the top, inside functions, under
    `if TYPE_CHECKING:`, and each module that a string names, for `import_module`."""
    functions: list[tuple[int, int, str]]
    """(lines, the most that are allowed, place and name) of the functions, decorators aside and
    with those inside of them."""
    named: frozenset[str]
    """The names that it reads or imports, and its strings."""
    asked: frozenset[str]
    """The names and strings by which it may ask which op it has, list ops or lower one."""
    defined: frozenset[str]
    """The functions at its top."""


@cache
def source(file: Path) -> Source:
    tree = ast.parse(file.read_text(), str(file))
    nodes = list(ast.walk(tree))
    imported: list[tuple[int, str]] = []
    functions: list[tuple[int, int, str]] = []
    named, asked, used = set[str](), set[str](), _used(nodes)
    for node in nodes:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                functions.append(_function(file, node))
            case ast.Import() | ast.ImportFrom():
                imported += _imports(file, node)
                named |= {alias.name for alias in node.names}
            case ast.Constant(value=str(text)):
                if text in INNER:
                    imported.append((node.lineno, text))
                named.add(text)
                if id(node) not in used:
                    asked.add(text)
            case ast.Name(id=text) | ast.Attribute(attr=text) | ast.ClassDef(name=text):
                named.add(text)
                if id(node) not in used:
                    asked.add(text)
            case _:
                pass
    defined = frozenset(f.name for f in tree.body if isinstance(f, ast.FunctionDef))
    return Source(imported, functions, frozenset(named), frozenset(asked), defined)


def _imports(file: Path, node: ast.Import | ast.ImportFrom) -> Iterator[tuple[int, str]]:
    """The modules that a statement imports; `from . import x` counts as the module x where there
    is one."""
    if isinstance(node, ast.Import):
        yield from ((node.lineno, alias.name) for alias in node.names)
        return
    package = module_name(file).split(".")
    if file.name != "__init__.py":
        package = package[:-1]
    base = package[: len(package) - node.level + 1] if node.level else []
    origin = ".".join([*base, *([node.module] if node.module else [])])
    for alias in node.names:
        inner = f"{origin}.{alias.name}"
        yield node.lineno, inner if inner in MODULES else origin


def _function(file: Path, node: ast.FunctionDef | ast.AsyncFunctionDef) -> tuple[int, int, str]:
    wrappers = [d.func if isinstance(d, ast.Call) else d for d in node.decorator_list]
    jitted = any(ast.unparse(d).split(".")[-1] == "jit" for d in wrappers)
    lines = (node.end_lineno or node.lineno) - node.lineno + 1
    place = f"{file.relative_to(ROOT)}:{node.lineno}: {node.name}"
    return lines, MAX_KERNEL if jitted else MAX_FUNCTION, place


BUILDERS = {"become", "build", "create", "emit", "insert", "make", "of", "reduced",
            "reduced_along", "value"}
GENERICS = {"Iterator", "Sequence", "dict", "list", "set", "tuple"}


def _used(nodes: list[ast.AST]) -> set[int]:
    """The nodes (ids) that only build an op, `X.build(...)` or `make(X, ...)`, or say a type."""
    found: set[int] = set()
    for node in nodes:
        parts: list[ast.expr | None] = []
        if isinstance(node, ast.Call):
            function = node.func
            if isinstance(function, ast.Attribute) and function.attr in BUILDERS:
                parts.append(function.value)
            if getattr(function, "attr", getattr(function, "id", "")) in BUILDERS:
                parts += node.args[:1]
                parts += [a for a in node.args[1:] if isinstance(a, ast.Name | ast.Attribute)]
        elif isinstance(node, ast.FunctionDef):
            arguments = (*node.args.args, *node.args.kwonlyargs)
            parts += [node.returns, *(argument.annotation for argument in arguments)]
        elif isinstance(node, ast.AnnAssign):
            parts.append(node.annotation)
        elif isinstance(node, ast.Subscript) and getattr(node.value, "id", "") in GENERICS:
            parts.append(node.slice)
        found |= {id(inner) for part in parts if part is not None for inner in ast.walk(part)}
    return found
