"""Aggregates with several names: as in Python, or refused; never another result in silence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tritium.language as tl
from tests.support.agreement import run_all
from tests.support.device import native
from tritium.errors import CompilationError


@tl.core._aggregate
class Box:
    x: tl.tensor

    def __init__(self, x: Any):
        self.x = x


@tl.core._aggregate
class Nest:
    box: Box
    y: tl.tensor

    def __init__(self, box: Any, y: Any):
        self.box = box
        self.y = y


def in_a_branch(out, n):
    box = Box(tl.to_tensor(5))
    same = box
    if n > 3:
        box.x = tl.to_tensor(7)
    box.x += 1
    tl.store(out, box.x)
    tl.store(out + 1, same.x)


def by_the_other_name(out, n):
    box = Box(tl.to_tensor(5))
    same = box
    if n > 3:
        same.x = tl.to_tensor(7)
    else:
        box.x += 1
    tl.store(out, box.x)
    tl.store(out + 1, same.x)


def inside_others(out, n):
    box = Box(tl.to_tensor(5))
    nest, pair = Nest(box, tl.to_tensor(1)), (box, 2)
    if n > 3:
        box.x = tl.to_tensor(7)
    tl.store(out, nest.box.x + nest.y)
    tl.store(out + 1, box.x + pair[0].x)


def past_a_branch(out, n):
    box = Box(tl.to_tensor(5))
    same = box
    if n > 3:
        tl.store(out + 2, 1)
    box.x = tl.to_tensor(9)
    tl.store(out, box.x)
    tl.store(out + 1, same.x)


def new_in_both(out, n):
    box = Box(tl.to_tensor(5))
    if n > 3:
        box = Box(tl.to_tensor(6))
    else:
        box = Box(tl.to_tensor(7))
    box.x += 1
    for i in range(n):
        box.x += i
        if i > 2:
            box.x += 10
    tl.store(out, box.x)


def new_in_a_loop(out, n):
    box = Box(tl.to_tensor(5))
    other = box
    for i in range(n):
        other = Box(box.x + i)
        other.x += 1
    tl.store(out, box.x)
    tl.store(out + 1, other.x)


@pytest.mark.parametrize(
    "kernel",
    [in_a_branch, by_the_other_name, inside_others, past_a_branch, new_in_both, new_in_a_loop],
)
def test_as_in_python(kernel: Any) -> None:
    for n in (2, 5):
        run_all(kernel, out=np.zeros(3, np.int32), n=n)


def in_a_loop(out, n):
    box = Box(tl.to_tensor(5))
    same = box
    for _ in range(n):
        box.x += 1  # here
    tl.store(out, box.x + same.x)


def named_in_a_loop(out, n):
    box = Box(tl.to_tensor(5))
    for _ in range(n):
        same = box
        same.x += 1  # here
    tl.store(out, box.x)


def in_a_while(out, n):
    box = Box(tl.to_tensor(5))
    same = box
    while n > box.x:
        if n > 3:
            box.x += 1  # here
    tl.store(out, same.x)


def one_of_two(out, n):
    box, other = Box(tl.to_tensor(5)), Box(tl.to_tensor(6))
    same = box
    if n > 3:
        same = other
    same.x = tl.to_tensor(7)  # here
    tl.store(out, box.x + other.x)


def chosen(out, n):
    box, other = Box(tl.to_tensor(5)), Box(tl.to_tensor(6))
    same = box if n > 3 else other
    box.x = tl.to_tensor(7)  # here
    tl.store(out, same.x)


@pytest.mark.parametrize("kernel", [in_a_loop, named_in_a_loop, in_a_while, one_of_two, chosen])
def test_refused(kernel: Any) -> None:
    with pytest.raises(CompilationError) as caught:
        native(kernel)[(1,)](np.zeros(3, np.int32), 5)
    assert "may be the same aggregate" in str(caught.value)
    assert str(caught.value).splitlines()[-3].endswith("# here")
