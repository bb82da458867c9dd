"""Branches, loops and returns: the frontend's IR computes what Python computes."""

import numpy as np
import pytest

import tritium.language as tl
from tests.support.frontend import evaluate, text_of
from tritium.errors import CompilationError, UnsupportedLanguageConstruct
from tritium.language.jit.function import device_function as jit


def run(kernel, *values, size=4, dtype=np.int32):
    out = np.full(size, -1, dtype)
    evaluate(kernel, out=out, **dict(zip(kernel.arg_names[1:], values, strict=True)))
    return out.tolist()


@jit
def if_else(out, n):
    if n > 3:
        a = n * 2
        b = 1
    elif n == 3:
        a = 100
        b = 2
    else:
        a = n - 1
        b = 3
    tl.store(out, a)
    tl.store(out + 1, b)


@pytest.mark.parametrize("n, expected", [(5, [10, 1]), (3, [100, 2]), (0, [-1, 3])])
def test_if_else_merges_values(n, expected):
    assert run(if_else, n)[:2] == expected


@jit
def early_return(out, n):
    tl.store(out, 7)
    if n < 0:
        return
    if n == 0:
        tl.store(out + 1, 5)
        return
    tl.store(out + 2, n)


@pytest.mark.parametrize("n, expected", [(-1, [7, -1, -1]), (0, [7, 5, -1]), (4, [7, -1, 4])])
def test_early_return(n, expected):
    assert run(early_return, n)[:3] == expected


@jit
def pick(n):
    if n > 10:
        return n * 2
    if n > 5:
        n += 1
        return n
    return 0


@jit
def returns_value(out, n):
    tl.store(out, pick(n))


@pytest.mark.parametrize("n, expected", [(11, 22), (6, 7), (1, 0)])
def test_returned_values_merge(n, expected):
    assert run(returns_value, n)[0] == expected


@jit
def nested_loops(out, n, m):
    total = 0
    steps = 0
    for i in range(n):
        for j in range(i, m, 2):
            total += i * j
        steps += 1
    tl.store(out, total)
    tl.store(out + 1, steps)


def test_nested_loops():
    expected = sum(i * j for i in range(5) for j in range(i, 9, 2))
    assert run(nested_loops, 5, 9)[:2] == [expected, 5]


@jit
def countdown(out, n):
    last = 0
    total = 0
    for i in range(n, 0, -3):
        last = i
        total += i
    tl.store(out, last)
    tl.store(out + 1, total)


@pytest.mark.parametrize("n", [10, 9, 1, 0, -4])
def test_a_loop_counts_down(n):
    values = list(range(n, 0, -3))
    assert run(countdown, n)[:2] == [values[-1] if values else 0, sum(values)]


@jit
def collatz(out, n):
    steps = 0
    while n != 1:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        steps += 1
    tl.store(out, steps)


def test_while():
    assert run(collatz, 27)[0] == 111


@jit
def unrolled(out, N: tl.constexpr):
    total = 0
    for i in tl.static_range(N):
        total += i
        if i == 2:
            tl.store(out + 1, i)
    tl.store(out, total)


def test_static_range_unrolls():
    assert run(unrolled, 5)[:2] == [10, 2]
    assert "scf.for" not in text_of(unrolled, out=np.zeros(2, np.int32), N=5)


@jit
def ternary(out, n):
    tl.store(out, n + 1 if n > 2 else 0)
    tl.store(out + 1, 1 if n > 2 else n)


@pytest.mark.parametrize("n, expected", [(3, [4, 1]), (1, [0, 1])])
def test_ternary(n, expected):
    assert run(ternary, n)[:2] == expected


@jit
def tuple_in_loop(out, n):
    state = (0, 1)
    for _ in range(n):
        state = (state[1], state[0] + state[1])
    tl.store(out, state[0])


def test_a_loop_carries_a_tuple():
    assert run(tuple_in_loop, 10)[0] == 55


@jit
def loop_hints(out, n):
    for i in tl.range(0, n, num_stages=3, loop_unroll_factor=2, flatten=True):
        tl.store(out + i, i)


def test_loop_hints_are_attributes():
    text = text_of(loop_hints, out=np.zeros(4, np.int32), n=4)
    assert "tt.num_stages = 3 : i32" in text
    assert "tt.loop_unroll_factor = 2 : i32" in text
    assert "tt.flatten" in text
    assert run(loop_hints, 4) == [0, 1, 2, 3]


# Errors


def message_of(kernel, **args):
    with pytest.raises(CompilationError) as caught:
        text_of(kernel, out=np.zeros(4, np.float32), **args)
    return caught.value


@jit
def mismatched_branches(out, n):
    if n > 0:
        x = 1
    else:
        x = tl.zeros((4,), tl.float32)
    tl.store(out, x)


def test_branches_must_agree():
    error = message_of(mismatched_branches, n=1)
    assert "Mismatched type for x between then block (int32) and else block" in str(error)


@jit
def mismatched_loop(out, n):
    acc = 0
    for _ in range(n):
        acc += 0.5
    tl.store(out, acc)


def test_a_loop_must_keep_types():
    text = str(message_of(mismatched_loop, n=1))
    assert "Loop-carried variable acc has initial type int32 but is re-assigned to fp32" in text
    assert "at 3:4:" in text


@jit
def return_in_loop(out, n):
    for i in range(n):
        if i == 2:
            return
        tl.store(out, i)


def test_return_in_a_loop_is_rejected():
    error = message_of(return_in_loop, n=1)
    assert isinstance(error, UnsupportedLanguageConstruct)
    assert "Cannot have `return` statements inside `while` or `for`" in str(error)
    assert error.node.lineno == 4


@jit
def mismatched_returns(n):
    if n > 0:
        return n
    return tl.zeros((4,), tl.float32)


@jit
def calls_mismatched(out, n):
    tl.store(out, mismatched_returns(n))


def test_returns_must_agree_and_the_error_points_at_the_second():
    error = message_of(calls_mismatched, n=1)
    assert isinstance(error.__cause__, CompilationError)
    assert error.__cause__.node.lineno == 4
    assert "Return type mismatch" in str(error.__cause__)


@jit
def one_branch_only(out, n):
    if n > 0:
        x = 1
    tl.store(out, x)


def test_a_name_assigned_on_one_path_only():
    message = str(message_of(one_branch_only, n=1))
    assert "x is not defined here: only one branch of the `if`" in message


@jit
def bad_iterator(out, n):
    for i in (1, 2):
        tl.store(out, i)


def test_other_iterators_are_rejected():
    text = str(message_of(bad_iterator, n=1))
    assert "Only `range` and `static_range` iterators are currently supported" in text


@jit
def float_bounds(out, n):
    for i in range(0, 0.5):
        tl.store(out, i)


def test_float_bounds_are_rejected():
    assert "For loop bounds and step must all be ints, are" in str(message_of(float_bounds, n=1))


@jit
def block_condition(out, n):
    if tl.arange(0, 4) > n:
        tl.store(out, 1)


def test_a_block_is_no_condition():
    text = str(message_of(block_condition, n=1))
    assert "Boolean value of Tensor with more than one value is ambiguous" in text


@jit
def endless(out, n):
    while True:
        tl.store(out, n)


def test_an_endless_loop_is_rejected():
    assert "always true" in str(message_of(endless, n=1))


def test_nested_conditional_returns_are_limited(tmp_path):
    lines = ["def kernel(out, n):"]
    for i in range(9):
        lines += [f"    if n > {i}:", f"        if n == {i + 20}:", "            return"]
    path = tmp_path / "nested_returns.py"
    path.write_text("\n".join([*lines, "    pass", ""]))
    namespace = {}
    exec(compile(path.read_text(), str(path), "exec"), namespace)
    error = message_of(jit(namespace["kernel"]), n=1)
    assert isinstance(error, UnsupportedLanguageConstruct)
    assert "nested conditional returns" in str(error)


def test_a_path_that_ends_gives_no_value():
    """The other path's type counts; the value is undefined where nothing is returned."""

    @jit
    def found(x, n):
        if n > 3:
            return tl.load(x) + 1
        elif n > 2:
            return 2

    @jit
    def pair(x, n):
        if n > 2:
            return n, tl.load(x)
        else:
            tl.store(x, 9)

    @jit
    def kernel(x, out, n):
        value = found(x, n)
        first, second = pair(x, n)
        if n > 2:
            tl.store(out, value)
            tl.store(out + 1, first + second)

    for n, expected in ((4, [8, 11]), (3, [2, 10]), (2, [0, 0])):
        x, out = np.full(1, 7, np.int32), np.zeros(2, np.int32)
        evaluate(kernel, x=x, out=out, n=n)
        assert out.tolist() == expected and x[0] == (9 if n == 2 else 7)


def test_a_bare_return_beside_a_value():
    @jit
    def found(n):
        if n > 3:
            return n
        return

    @jit
    def kernel(n):
        found(n)

    with pytest.raises(CompilationError, match="Return type mismatch"):
        text_of(kernel, n=5)
