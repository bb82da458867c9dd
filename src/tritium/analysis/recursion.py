"""Recursion on an explicit stack: chains of thousands of dependent ops are walked without a
recursive call for each."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeVar

Key = TypeVar("Key")
Result = TypeVar("Result")


def resolve(
    key: Key, rule: Callable[[Key], Generator[Key, Result, Result]], known: dict[Key, Result]
) -> Result:
    """The result for a key, by a rule that takes the results of other keys.

    `rule(key)` is a generator: it yields each key whose result it needs, is sent that result, and
    returns the result for its own. Results are kept in `known`. No key may need itself.
    """
    stack = [(key, rule(key))] if key not in known else []
    answer: Any = None
    while stack:
        current, steps = stack[-1]
        try:
            wanted = steps.send(answer)
        except StopIteration as done:
            known[current] = answer = done.value
            stack.pop()
            continue
        if wanted in known:
            answer = known[wanted]
        else:
            stack.append((wanted, rule(wanted)))
            answer = None
    return known[key]
