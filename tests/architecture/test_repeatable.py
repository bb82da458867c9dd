"""Tests of random examples take the same ones each time: a failure can be had again, and one test
that fails does not make others fail by the examples that it has left in a folder they share."""

from __future__ import annotations

import ast
from pathlib import Path

TESTS = Path(__file__).parents[1]


def random_choices(path: Path) -> list[str]:
    """Tests of a file whose examples differ from run to run, and tests without settings."""
    tree = ast.parse(path.read_text())
    steady = {
        target.id
        for node in tree.body if isinstance(node, ast.Assign) and is_steady(node.value, set())
        for target in node.targets if isinstance(target, ast.Name)
    }  # fmt: skip
    return [
        f"{path.relative_to(TESTS)}: {node.name}"
        for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)
        if any(isinstance(d, ast.Call) and called(d) == "given" for d in node.decorator_list)
        if not any(is_steady(d, steady) for d in node.decorator_list)
    ]  # fmt: skip


def called(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else ""


def is_steady(node: ast.expr, steady: set[str]) -> bool:
    """True for settings with `derandomize`, or made of such."""
    if isinstance(node, ast.Name):
        return node.id in steady
    return isinstance(node, ast.Call) and called(node) == "settings" and (
        any(word.arg == "derandomize" for word in node.keywords)
        or any(is_steady(given, steady) for given in node.args)
    )  # fmt: skip


def test_examples_are_the_same_each_time() -> None:
    files = [p for p in TESTS.rglob("*.py") if "from hypothesis" in p.read_text()]
    assert len(files) > 5
    assert [name for path in files for name in random_choices(path)] == []
