"""Results of analyses are kept until a pass changes the module."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from tritium.analysis.regions import functions
from tritium.analysis.results import result_of
from tritium.ops.parsing import parse_module
from tritium.passes import PassManager
from tritium.passes.base import Pass

TEXT = """
tt.func public @one() { tt.return }
tt.func private @two() { tt.return }
"""


@dataclass(frozen=True)
class Says(Pass):
    """Says that it changed the module, or not."""

    changed: bool = True
    name = "says"

    def run(self, module: ModuleOp) -> bool:
        return self.changed


class Keeps(Says):
    """Changes the module, but nothing that analyses are about."""

    name = "keeps"
    keeps_analyses = True


def test_results_are_found_once_and_again_after_a_change() -> None:
    module, asked = parse_module(TEXT), list[str]()

    def analysis(function: Any) -> str:
        asked.append(function.sym_name)
        return f"about {function.sym_name}"

    def ask() -> list[str]:
        return [result_of(function, analysis) for function in functions(module)]

    assert ask() == ask() == ["about one", "about two"]
    assert asked == ["one", "two"]
    PassManager([Says(False), Keeps()], continues=True).run(module)
    ask()
    assert asked == ["one", "two"]
    PassManager([Says()]).run(module)
    assert ask() == ["about one", "about two"]
    assert asked == ["one", "two"] * 2
