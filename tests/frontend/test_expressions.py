"""Expressions, calls and compile-time evaluation."""

import collections
import math
from typing import NamedTuple

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tests.language.support import both
from tests.support.agreement import run_all
from tests.support.frontend import evaluate, text_of
from tritium.language.jit.function import device_function as jit

Pair = collections.namedtuple("Pair", ["first", "second"])
FOUR = tl.constexpr(4)


def run(kernel, size=8, dtype=np.float32, **args):
    out = np.full(size, -1, dtype)
    evaluate(kernel, out=out, **args)
    return out


def test_compile_time_evaluation():
    @jit
    def kernel(out, N: tl.constexpr):
        M: tl.constexpr = N * 2 + int(math.log2(8))
        shape = [M - 3, len("ab")]
        if N > 3 and isinstance(N, int):
            tl.store(out, M)
        tl.store(out + 1, shape[0] + shape[1])
        tl.store(out + 2, max(N, 5) - min(N, 5))
        tl.store(out + 3, float(N) / 8)

    assert run(kernel, N=4)[:4].tolist() == [11, 10, 1, 0.5]


def test_short_circuit_at_compile_time():
    @jit
    def kernel(out, x):
        if x is not None and x > 2:
            tl.store(out, 1.0)
        if x is None or x > 2:
            tl.store(out + 1, 1.0)

    assert run(kernel, x=3)[:2].tolist() == [1, 1]
    assert run(kernel, x=None)[:2].tolist() == [-1, 1]


@jit
def divmod_(a, b):
    return a // b, a % b


@jit
def swap(pair):
    return Pair(pair.second, pair.first)


def test_tuples_and_named_tuples():
    @jit
    def kernel(out, n):
        q, r = divmod_(n, 3)
        first, *rest = (q, r, 5)
        pair = swap(Pair(q, r))
        tl.store(out, first)
        tl.store(out + 1, rest[0] + rest[1])
        tl.store(out + 2, pair.first * 10 + pair[1])
        tl.store(out + 3, len((q, r) + (1,)))  # noqa: RUF005

    assert run(kernel, n=14)[:4].tolist() == [4, 7, 24, 3]


@jit
def scaled(x, factor=2.0, *, bias=0.0):
    return x * factor + bias


def test_defaults_and_keywords():
    @jit
    def kernel(out, x):
        tl.store(out, scaled(x))
        tl.store(out + 1, scaled(x, 3.0))
        tl.store(out + 2, scaled(x, bias=1.0))
        args = (x, 0.5)
        tl.store(out + 3, scaled(*args))

    assert run(kernel, x=4.0)[:4].tolist() == [8, 12, 9, 2]


def test_a_function_is_generated_once_for_each_signature():
    @jit
    def kernel(out, x):
        tl.store(out, scaled(x) + scaled(x))
        tl.store(out + 1, scaled(x, 3))

    text = text_of(kernel, out=np.zeros(2, np.float32), x=1.0)
    assert text.count("tt.func private") == 2
    assert text.count("tt.call") == 3


def test_functions_as_constexprs():
    @jit
    def kernel(out, x, OP: tl.constexpr):
        tl.store(out, OP(x))

    assert run(kernel, x=4.0, OP=scaled)[0] == 8


def test_noinline_is_kept():
    callee = jit(scaled.fn)
    callee.noinline = True

    @jit
    def kernel(out, x, OP: tl.constexpr):
        tl.store(out, OP(x))

    assert "noinline = true" in text_of(kernel, out=np.zeros(1, np.float32), x=1.0, OP=callee)


def test_globals_and_methods():
    @jit
    def kernel(out):
        x = tl.arange(0, FOUR)[:, None] + tl.arange(0, 4)[None, :]
        tl.store(out + tl.arange(0, 4), x.T.to(tl.float32).sum(1))

    assert run(kernel)[:4].tolist() == [6, 10, 14, 18]


def test_f_strings(capsys):
    @jit
    def kernel(out, N: tl.constexpr):
        tl.static_print(f"N={N:03d} {N!r}")

    run(kernel, N=7)
    assert capsys.readouterr().out == "N=007 7\n"


def test_list_comprehension():
    @jit
    def kernel(out, n):
        parts = [n * i for i in tl.static_range(4) if i != 1]
        tl.store(out, parts[0] + parts[1] + parts[2])

    assert run(kernel, n=2)[0] == 10


def test_names_follow_variables():
    @jit
    def kernel(out, n):
        offset = n * 2
        tl.store(out + offset, 1.0)

    text = text_of(kernel, out=np.zeros(9, np.float32), n=2)
    assert "%offset" in text
    assert "%n: i32" in text


@pytest.mark.parametrize("value, kind", [(3, "i32"), (2**40, "i64")])
def test_argument_types(value, kind):
    @jit
    def kernel(out, n):
        tl.store(out, n.to(tl.float32))

    assert f"%n: {kind}" in text_of(kernel, out=np.zeros(1, np.float32), n=value)


class Named(NamedTuple):
    a: tl.tensor
    k: tl.constexpr


def test_isinstance_sees_what_a_value_stands_for():
    """A compile-time value is its Python value, a number with a name a tensor; none a constexpr."""
    @jit
    def tell(out, at, value):
        found = 0
        if isinstance(value, tl.constexpr):
            found += 1
        if isinstance(value, tl.tensor):
            found += 2
        if isinstance(value, int):
            found += 4
        if isinstance(value, float):
            found += 8
        if isinstance(value, (int, tl.tensor)):
            found += 16
        tl.store(out + at, found)

    @jit
    def kernel(out, n, N: tl.constexpr):
        named = 3
        half = 0.5
        copied = N
        pair = (n, 3)
        tell(out, 0, N)
        tell(out, 1, named)
        tell(out, 2, n)
        tell(out, 3, 7)
        tell(out, 4, 1.5)
        tell(out, 5, half)
        tell(out, 6, N + 1)
        tell(out, 7, named + 1)
        tell(out, 8, copied)
        tell(out, 9, pair[1])
        tell(out, 10, None)
        tell(out, 11, tl.arange(0, 2))

    out = np.zeros(12, np.int32)
    both(kernel, out=out, n=5, N=4)
    constant, tensor = 4 + 16, 2 + 16
    assert out.tolist() == [constant, tensor, tensor, constant, 8, tensor, constant, tensor,
                            tensor, tensor, 0, tensor]  # fmt: skip


def test_a_choice_of_calls_that_return_nothing():
    @jit
    def mark(out, value):
        tl.store(out, value)

    @jit
    def kernel(out, n):
        mark(out, 1.0) if n > 3 else mark(out + 1, 2.0)
        tl.store(out + 2, 3.0) if n > 3 else tl.store(out + 3, 4.0)
        tl.store(out + 4, 5.0) if n > 3 else None

    for n, expected in ((5, [1, 0, 3, 0, 5]), (2, [0, 2, 0, 4, 0])):
        out = np.zeros(5, np.float32)
        both(kernel, out=out, n=n)
        assert out.tolist() == expected


def test_a_dtype_converts():
    @jit
    def kernel(out, n):
        i = tl.arange(0, 2)
        tl.store(out, tl.int32(10) + tl.int8(300))
        tl.store(out + 1, tl.float32(n) / 2)
        tl.store(out + 2 + i, tl.uint8(i - 1))

    out = np.zeros(4, np.float32)
    both(kernel, out=out, n=5)
    assert out.tolist() == [54, 2.5, 255, 0]


def test_tuples_of_compile_time_values():
    @jit
    def widened(t):
        return tl.sum(tl.zeros([4 * t.k], tl.int32) + t.a, 0)

    @jit
    def make(n):
        return Named(n, 2)

    @jit
    def kernel(out, x, n):
        shape, offsets = (n, 16), (0, 0)
        block: tl.constexpr = (1, 16)
        rows = tl.make_tensor_descriptor(x, shape, (16, 1), block)
        tl.store(out, widened(make(n)) + widened(Named(1, 4)))
        tl.store(out + 1, tl.sum(rows.load(offsets)))

    x, out = np.arange(32, dtype=np.int32), np.zeros(2, np.int32)
    both(kernel, out=out, x=x, n=2)
    assert out.tolist() == [2 * 8 + 16, sum(range(16))]


@tritium.constexpr_function
def pair_of(n):
    return Pair(n, n + 1)


def named_constants(out):
    pair: tl.constexpr = pair_of(4)
    both = (pair, 3)
    tl.store(out, both[0].second * 10 + pair.first)


def test_declared_named_tuples_keep_their_names():
    assert run_all(named_constants, out=np.zeros(1, np.int32))["out"].tolist() == [54]
