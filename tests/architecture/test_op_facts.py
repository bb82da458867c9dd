"""An op is stated on its class, and few other files know it."""

from __future__ import annotations

from collections import defaultdict
from functools import lru_cache
from pathlib import Path

import pytest

from tests.support.sources import FILES, PACKAGE, Source, source
from tritium.ops.base import REGISTRY
from tritium.ops.dialects import DIALECTS, op_classes

MOST_FILES = 4


@lru_cache
def sources() -> dict[Path, Source]:
    """The facts of modules, without those that only gather names: `__init__`, `language/core`."""
    paths = {file.relative_to(PACKAGE): file for file in FILES if file.name != "__init__.py"}
    return {path: source(f) for path, f in paths.items() if path != Path("language/core.py")}


def naming(op_class: str, op_name: str, function: str) -> list[str]:
    """The files that name an op."""
    wanted = {op_class, op_name}
    return [
        str(file) for file, found in sources().items()
        if wanted & found.named or (file.parts[0] == "language" and function in found.defined)
    ]  # fmt: skip


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
    ("ReduceOp", "tt.reduce", "reduce"),
    ("ScanOp", "tt.scan", "associative_scan"),
    ("MapElementwiseOp", "tt.map_elementwise", "map_elementwise"),
    ("FpToFpOp", "tt.fp_to_fp", "cast"),
    ("PrintOp", "tt.print", "device_print"),
    ("BroadcastOp", "tt.broadcast", "broadcast"),
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
    found = naming(op_class, op_name, function)
    assert len(found) <= MOST_FILES, "\n".join(found)


@pytest.mark.parametrize("op_class, op_name, function, most", [
    ("AtomicRMWOp", "tt.atomic_rmw", "atomic_add", 5),
    ("JoinOp", "tt.join", "join", 5),
    ("LoadOp", "tt.load", "load", 6),
    ("TransOp", "tt.trans", "trans", 6),
    ("SelectOp", "arith.select", "where", 7),
])  # fmt: skip
def test_no_more_files_name_an_op(op_class: str, op_name: str, function: str, most: int) -> None:
    """Ops that more than four files name: the numbers may only fall."""
    found = naming(op_class, op_name, function)
    assert len(found) <= most, "\n".join(found)


def test_no_more_than_four_files_ask_for_an_op() -> None:
    """Every op is counted. Files that only build an op are its users, and so are the functions of
    the languages. Ops whose classes have one name are counted together."""
    for dialect in DIALECTS:
        op_classes(dialect)
    wanted: defaultdict[str, set[str]] = defaultdict(set)
    for name, cls in REGISTRY.items():
        if cls.__module__.startswith("tritium."):
            wanted[cls.__name__] |= {cls.__name__, name}
    asking = [s.asked for file, s in sources().items() if "language" not in file.parts]
    counts = {cls: sum(bool(seen & texts) for seen in asking) for cls, texts in wanted.items()}
    beyond = {cls: count for cls, count in counts.items() if count > MOST_FILES}
    most = sorted(beyond.items(), key=lambda pair: -pair[1])
    listed = "\n".join(f"{count} {cls}" for cls, count in most)
    assert not beyond, listed
