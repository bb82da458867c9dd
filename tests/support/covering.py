"""The marker `covering`: few cases of a test that still have each value, or each pair of values."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

Case = dict[Any, Any]
"""The value that a case has for each parametrization of its test."""


def covering(cases: Sequence[Case], strength: int) -> set[int]:
    """Cases that together have every combination of `strength` values that any case has.

    The case that adds most is taken next, and of those that add as much one whose values have
    been taken least.
    """
    parts = [set(combinations(case.items(), strength)) for case in cases]
    missing = set[Any]().union(*parts)
    taken = Counter[tuple[Any, Any]]()
    chosen: set[int] = set()

    def gain(i: int) -> tuple[int, int, int]:
        return len(parts[i] & missing), -sum(taken[pair] for pair in cases[i].items()), -i

    while missing:
        best = max(range(len(parts)), key=gain)
        chosen.add(best)
        missing -= parts[best]
        taken.update(cases[best].items())
    return chosen


def _case(item: pytest.Function) -> Case:
    """Parameters that are given together are one; values are told apart by identity."""
    values = {name: id(value) for name, value in item.callspec.params.items()}
    case: Case = {}
    for mark in item.iter_markers("parametrize"):
        names = mark.kwargs.get("argnames", mark.args[0] if mark.args else ())
        group = names.split(",") if isinstance(names, str) else names
        names = tuple(name.strip() for name in group)
        case[names] = tuple(values.pop(name) for name in names)
    return {**case, **values}


def mark_the_rest_slow(items: Sequence[pytest.Item]) -> None:
    """Of a test marked `covering(strength)`, leave those cases in the normal group."""
    tests = defaultdict[tuple[Path, str], list[pytest.Function]](list)
    for item in items:
        if not isinstance(item, pytest.Function) or item.get_closest_marker("slow"):
            continue
        if item.get_closest_marker("covering"):
            tests[item.path, item.originalname].append(item)
    for members in tests.values():
        marker = members[0].get_closest_marker("covering")
        assert marker is not None
        kept = covering([_case(item) for item in members], *marker.args)
        for i, item in enumerate(members):
            if i not in kept:
                item.add_marker(pytest.mark.slow)
