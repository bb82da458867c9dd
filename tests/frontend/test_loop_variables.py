"""The variable of a loop after the loop, which has the value of the last iteration as in Python."""

from __future__ import annotations

import numpy as np
import pytest

import tritium.language as tl
from tests.support.agreement import run_all
from tests.support.frontend import evaluate
from tritium.errors import CompilationError
from tritium.runtime.jit import JITFunction


def used_after(out, n):
    i = 100
    for i in range(3, n):
        pass
    tl.store(out, i)
    k, total = n, 0
    for j in range(2):
        total += k
        for k in range(n - 1, -2, -1):
            total += k * j
        k += 1
    tl.store(out + 1, k)
    tl.store(out + 2, total)
    n = 7
    for n in range(5):
        n = n * 3
    tl.store(out + 3, n)


def by_python(n):
    i = 100
    for i in range(3, n):
        pass
    k, total = n, 0
    for j in range(2):
        total += k
        for k in range(n - 1, -2, -1):
            total += k * j
        k += 1
    return [i, k, total, 12]


@pytest.mark.parametrize("n", [2, 6])
def test_a_name_that_had_a_value_before(n):
    assert run_all(used_after, out=np.zeros(4, np.int32), n=n)["out"].tolist() == by_python(n)


def of_another_type(out):
    i = 0.5
    for i in range(3):
        pass
    tl.store(out, i)


def only_in_the_loop(out):
    for i in range(3):
        pass
    tl.store(out, i)


@pytest.mark.parametrize("kernel", [of_another_type, only_in_the_loop])
def test_a_name_without_a_value_after(kernel):
    with pytest.raises(CompilationError, match="it is the variable of a loop that has ended"):
        evaluate(JITFunction(kernel), out=np.zeros(4, np.int32))
