"""The reference's own `.ttir` files are read, verified, and printed as they were."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from xdsl.dialects.builtin import ModuleOp

from tritium.ir.printing import print_module
from tritium.ops.parsing import parse_module

REFERENCE = Path(__file__).parent / "reference"
FILES = sorted(REFERENCE.glob("*.ttir"))


Parse = Callable[[Path], ModuleOp]


@pytest.fixture(scope="module")
def parsed() -> Parse:
    """Parses each file once for the tests of this module."""
    return cache(lambda file: parse_module(file.read_text(), file.name))


def lines(text: str) -> list[str]:
    """The lines of a module without location aliases' definitions and numbers."""
    kept = (line for line in text.splitlines() if line and not line.startswith("#loc"))
    return [re.sub(r"#loc\d*", "#loc", line).rstrip() for line in kept]


def test_the_corpus_is_there() -> None:
    assert len({f.name.split(".")[0] for f in FILES}) * 2 == len(FILES) == 54


@pytest.mark.every(2)
@pytest.mark.parametrize("file", FILES, ids=lambda f: f.name)
def test_prints_as_the_reference_does(file: Path, parsed: Parse) -> None:
    module = parsed(file)
    module.verify()
    wanted, found = lines(file.read_text()), lines(print_module(module))
    difference = difflib.unified_diff(wanted, found, lineterm="", n=0)
    assert not "\n".join(difference)


@pytest.mark.every(2)
@pytest.mark.parametrize("file", FILES, ids=lambda f: f.name)
def test_round_trip_keeps_ops_names_and_locations(file: Path, parsed: Parse) -> None:
    module = parsed(file)
    printed = print_module(module)
    again = parse_module(printed)
    assert module.is_structurally_equivalent(again)
    for before, after in zip(module.walk(), again.walk(), strict=True):
        assert before.location == after.location
        hints = [r.name_hint for r in before.results]
        assert hints == [r.name_hint for r in after.results]
    assert print_module(again) == printed


@pytest.mark.every(3)
@pytest.mark.parametrize("file", FILES, ids=lambda f: f.name)
def test_prints_without_locations(file: Path, parsed: Parse) -> None:
    module = parsed(file)
    printed = print_module(module, locations=False)
    assert "loc(" not in printed
    assert module.is_structurally_equivalent(parse_module(printed))
