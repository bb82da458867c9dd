"""The markers that leave few cases of a test in the normal group: `covering` those that still have
each value, or each pair of values, of the parameters; `every(n)` each n-th one."""

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
    """Leave the chosen cases of tests marked `covering(strength)`, `every(n)` or both in the normal
    group."""
    tests = defaultdict[tuple[Path, str], list[pytest.Function]](list)
    for item in items:
        if not isinstance(item, pytest.Function) or item.get_closest_marker("slow"):
            continue
        if item.get_closest_marker("covering") or item.get_closest_marker("every"):
            tests[item.path, item.originalname].append(item)
    for members in tests.values():
        strength, step = (_argument(members[0], name) for name in ("covering", "every"))
        kept = chosen([_case(item) for item in members], strength, step or 1)
        for i, item in enumerate(members):
            if i not in kept:
                item.add_marker(pytest.mark.slow)


def _argument(item: pytest.Function, name: str) -> int | None:
    """The argument of a marker of a test; None where it has none."""
    marker = item.get_closest_marker(name)
    return None if marker is None else marker.args[0]


def chosen(cases: Sequence[Case], strength: int | None, step: int) -> set[int]:
    """Each n-th case (`step`), of those alone that cover the parameters where there is a
    strength."""
    found = range(len(cases)) if strength is None else sorted(covering(cases, strength))
    return set(found[::step])
