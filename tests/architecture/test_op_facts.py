"""An op is stated on its class, and few other files know it."""

from __future__ import annotations

import ast
from functools import lru_cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "tritium"
MOST_FILES = 4


@lru_cache
def names() -> dict[Path, frozenset[str]]:
    """By module, the names that it reads or imports, its strings, and `def NAME` for functions of
    the language; without the modules that gather names: `__init__`, `language/core`."""
    found: dict[Path, frozenset[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        file = path.relative_to(PACKAGE)
        if file.name == "__init__.py" or file == Path("language/core.py"):
            continue
        tree, seen = ast.parse(path.read_text()), set[str]()
        for node in ast.walk(tree):
            match node:
                case ast.Name(id=text) | ast.Attribute(attr=text) | ast.ClassDef(name=text):
                    seen.add(text)
                case ast.alias(name=text) | ast.Constant(value=str(text)):
                    seen.add(text)
                case _:
                    pass
        if file.parts[0] == "language":
            seen |= {f"def {f.name}" for f in tree.body if isinstance(f, ast.FunctionDef)}
        found[file] = frozenset(seen)
    return found


@pytest.mark.parametrize("op_class, op_name, function", [
    ("GatherOp", "tt.gather", "gather"),
    ("HistogramOp", "tt.histogram", "histogram"),
    ("Exp2Op", "math.exp2", "exp2"),
    ("AtomicCASOp", "tt.atomic_cas", "atomic_cas"),
    ("DotOp", "tt.dot", "dot"),
    ("DotScaledOp", "tt.dot_scaled", "dot_scaled"),
    ("SortOp", "tt.sort", "sort_whole"),
    ("CatOp", "tt.cat", "cat"),
    ("SplitOp", "tt.split", "split"),
    ("ErfOp", "math.erf", "erf"),
])  # fmt: skip
def test_few_files_name_an_op(op_class: str, op_name: str, function: str) -> None:
    """At most four: the op's class, the function of the language that builds it, and a lowering for
    the CPU and for GPUs (the shared one, or that of a GPU with an instruction for it). A pass or an
    analysis asks for a trait, an effect or a hook instead, which no op is named by.

    A file names an op if the class is read or imported in it, if the op's name stands in it as a
    string, or if it defines the function of the language. Callers of that function, such as the
    library that is written in the language, are its users and do not count; nor do modules that
    only gather names.
    """
    wanted = {op_class, op_name, f"def {function}"}
    found = [str(file) for file, seen in names().items() if wanted & seen]
    assert len(found) <= MOST_FILES, "\n".join(found)
