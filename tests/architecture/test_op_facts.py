"""An op is stated on its class, and few other files know it."""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import lru_cache
from pathlib import Path

import pytest

from tritium.ops.base import REGISTRY
from tritium.ops.dialects import DIALECTS, op_classes

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


MOST_BEYOND = 407
"""Of all ops, the files that name one beyond the first four; the number may only fall. Most of it
is control flow, constants and the arithmetic of addresses, which many passes build, and what the
CPU's tile stage asks of loads, stores and reductions."""


def test_files_that_name_ops_beyond_the_first_four() -> None:
    """Every op is counted as above, but for the function of the language, whose file names the
    class. Ops whose classes have one name are counted together."""
    for dialect in DIALECTS:
        op_classes(dialect)
    wanted: defaultdict[str, set[str]] = defaultdict(set)
    for name, cls in REGISTRY.items():
        if cls.__module__.startswith("tritium."):
            wanted[cls.__name__] |= {cls.__name__, name}
    counts = {cls: sum(bool(seen & texts) for seen in names().values())
              for cls, texts in wanted.items()}  # fmt: skip
    beyond = {cls: count for cls, count in counts.items() if count > MOST_FILES}
    total = sum(count - MOST_FILES for count in beyond.values())
    most = sorted(beyond.items(), key=lambda pair: -pair[1])
    assert total <= MOST_BEYOND, "\n".join(f"{count} {cls}" for cls, count in most)
