"""Columns of locations count from 1, in the text of IR and in debug information."""

import re

import pytest

import tritium
import tritium.language as tl
from tritium.target import GPUTarget


@tritium.jit
def doubled(x):
    tl.store(x, tl.load(x) + 1.0)


@pytest.mark.ptxas
@pytest.mark.parametrize("stage", ["ttir", "llir"])
def test_columns_are_those_of_editors(stage: str) -> None:
    source = tritium.compiler.ASTSource(doubled, {"x": "*fp32"})
    text = tritium.compile(source, target=GPUTarget("cuda", 90, 32)).asm[stage]
    line = "    tl.store(x, tl.load(x) + 1.0)"
    number = doubled.starting_line_number + 2
    form = {"ttir": rf'py":{number}:(\d+)\)', "llir": rf"line: {number}, column: (\d+)"}[stage]
    found = {int(column) for column in re.findall(form, text)}
    assert {line.index("tl.store") + 1, line.index("tl.load") + 1} <= found
    assert line.index("tl.store") not in found
