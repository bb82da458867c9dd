"""Control flow, calls, tuples, aggregates, `map_elementwise`, hints, printing and assertions."""

import re
from typing import NamedTuple

import numpy as np
import pytest

import tritium.language as tl
from tests.conformance.support import build, run
from tests.support.device import native
from tritium.runtime.interpreted import InterpretedFunction


def both(source, args, grid=(1,), **names):
    """The output `o` after a launch, the same both ways."""
    found, other = (
        run(build(source, **names), args, grid, w)["o"] for w in ("native", "interpreted")
    )
    np.testing.assert_array_equal(found, other)
    return found


def integers(n=16):
    return np.zeros(n, np.int32)


LOOPS = """
def kernel(x, o, n, k):
    i = tl.arange(0, 4)
    # nested loops that carry a tile, a scalar and a pointer
    acc = tl.zeros([4], tl.int32)
    s = 0
    p = x
    for a in range(n):
        for b in range(a, n, 2):
            acc += tl.load(p + i) * b
            s += a
        p += 4
        if s % 3 == 0:
            acc = acc + 1
            s += 1
        elif s % 3 == 1:
            s += 2
        else:
            acc, s = acc * 2, s - 1
    tl.store(o + i, acc)
    # while: a block and a scalar, with a condition of both
    v = tl.load(x + i)
    t = 0
    while (tl.max(v, 0) > 3) & (t < 10):
        v = v // 2
        t += 1
    tl.store(o + 4 + i, v + t)
    # backwards, by a run-time bound, hints, static
    w = tl.zeros([4], tl.int32)
    for a in range(n, -2, -1):
        w = w * 2 + a
    for a in tl.range(0, n, num_stages=3, loop_unroll_factor=2, flatten=True,
                      disallow_acc_multi_buffer=True):
        w += a
    for a in tl.static_range(3):
        w += a * 100
    tl.store(o + 8 + i, w)
    # a loop that never runs, an empty tuple of conditions, ternaries
    z = 5
    for a in range(k, 0):
        z += a
    y = z if n > 3 else z * 2
    tl.store(o + 12, y)
    tl.store(o + 13, z if True else nothing)
    if n > 100:
        tl.store(o + 14, 1)
    elif n > 3 and k >= 0:
        tl.store(o + 14, 2)
    else:
        tl.store(o + 14, 3)
    tl.store(o + 15, 1 if not (n == 0 or k > 5) else 0)
"""


@pytest.mark.covering(1)
@pytest.mark.parametrize("n", [0, 2, 4, 7])
@pytest.mark.parametrize("k", [0, 2])
def test_control_flow(n, k):
    x = np.arange(64, dtype=np.int32)
    acc, s = np.zeros(4, np.int32), 0
    for a in range(n):
        for b in range(a, n, 2):
            acc, s = acc + x[4 * a : 4 * a + 4] * b, s + a
        rest = int(np.fmod(s, 3))
        if rest == 0:
            acc, s = acc + 1, s + 1
        elif rest == 1:
            s += 2
        else:
            acc, s = acc * 2, s - 1
    v, t = x[:4], 0
    while v.max() > 3 and t < 10:
        v, t = v // 2, t + 1
    w = 0
    for a in range(n, -2, -1):
        w = w * 2 + a
    w += sum(range(n)) + 300
    branch = 2 if n > 3 and k >= 0 else 3
    tail = [5 if n > 3 else 10, 5, branch, 0 if n == 0 or k > 5 else 1]
    found = both(LOOPS, {"x": x, "o": integers(), "n": n, "k": k})
    np.testing.assert_array_equal(found, [*acc, *(v + t), *[w] * 4, *tail])


CALLS = """
@jit
def classify(x, low=2, high=5):
    if x < low:
        return -1
    if x > high:
        if x > 2 * high:
            return 2
        return 1
    return 0


@jit(noinline=True)
def apart(x, i):
    y = tl.load(x + i)
    return y * 2, i + 1


@jit(noinline=True)
def effect(o, value):
    tl.store(o, value)


@jit
def apply(f: tl.constexpr, *args):
    return f(*args)


@jit
def add(a, b):
    return a + b


@jit
def scaled(a, b, factor: tl.constexpr = 3):
    return (a + b) * factor


FUNCTIONS = tl.constexpr((add, scaled))


@tritium.constexpr_function
def power(n):
    return 1 << n


def kernel(x, o, n):
    i = tl.arange(0, power(2))
    tl.store(o, classify(n))
    tl.store(o + 1, classify(n, high=n, low=0))
    v, j = apart(x, i)
    tl.store(o + 4 + i, v + j)
    s, t = apart(x, n)
    tl.store(o + 2, s + t)
    effect(o + 3, n * 7)
    tl.store(o + 8 + i, apply(scaled, v, 1))
    total = v * 0
    for k in tl.static_range(len(FUNCTIONS)):
        total += FUNCTIONS[k](v, k)
    tl.store(o + 12 + i, total)
"""


@pytest.mark.parametrize("n", [0, 2, 4, 9, 13])
def test_calls(n):
    x = np.arange(3, 40, dtype=np.int32)
    classes = -1 if n < 2 else 2 if n > 10 else 1 if n > 5 else 0
    v = x[:4] * 2
    expected = [classes, 0, 2 * x[n] + n + 1, n * 7, *(v + np.arange(1, 5)), *((v + 1) * 3),
                *(v + (v + 1) * 3)]  # fmt: skip
    np.testing.assert_array_equal(both(CALLS, {"x": x, "o": integers(), "n": n}), expected)


class Pair(NamedTuple):
    first: object
    second: object


TUPLES = """
@jit
def swap(p):
    return Pair(p.second, p.first)


@jit
def three(a, b, c):
    return a * 100 + b * 10 + c


def kernel(o, p, nested, N: tl.constexpr):
    q = swap(p)
    tl.store(o, q.first)
    tl.store(o + 1, q[1])
    (a, (b, c)), none = nested
    tl.store(o + 2, a + b + c)
    tl.store(o + 3, 1 if none is None else 2)
    t = (1, 2) + (a,)
    tl.store(o + 4, three(*t))
    tl.store(o + 5, len(t) + t[-1])
    first, *rest = t
    tl.store(o + 6, first + rest[0] * rest[1])
    u = (a, b)
    for k in range(N):
        u = (u[1], u[0] + u[1])
    tl.store(o + 7, u[0])
    tl.store(o + 8, 1 if (1, 2) == (1, 2) else 0)
    r = tl.tuple([a, b]) * 2
    tl.store(o + 9, r[3])
    sizes: tl.constexpr = [e * 2 for e in (1, 2, 3) if e != 2]
    tl.store(o + 10, sizes[0] + sizes[1])
"""


def test_tuples():
    args = {"o": integers(11), "p": Pair(5, 6), "nested": ((2, (3, 4)), None), "N": 5}
    found = both(TUPLES, args, Pair=Pair)
    a, b = 2, 3
    for _ in range(5):
        a, b = b, a + b
    assert found.tolist() == [6, 5, 9, 1, 122, 5, 5, a, 1, 3, 8]


AGGREGATES = """
@tl.core._aggregate
class Point:
    x: tl.tensor
    y: tl.tensor
    scale: tl.constexpr

    def __init__(self, x, y, scale):
        self.x = x
        self.y = y
        self.scale = tl.constexpr(scale)

    @jit
    def dot(self, other):
        return (self.x * other.x + self.y * other.y) * self.scale

    @jit
    def moved(self, dx):
        return Point(self.x + dx, self.y, self.scale)


def kernel(o, n):
    i = tl.arange(0, 4)
    p = Point(i, i * 0 + n, 2)
    q = p.moved(1)
    tl.store(o + i, p.dot(q))
    if n > 3:
        p.x += 10
        q = q.moved(5)
    else:
        p = p.moved(-1)
    for k in range(n):
        q = q.moved(k)
        q.y += 1
    tl.store(o + 4 + i, p.x)
    tl.store(o + 8 + i, q.x + q.y)
"""


@pytest.mark.parametrize("n", [0, 2, 5])
def test_aggregates(n):
    i = np.arange(4)
    p = i + 10 if n > 3 else i - 1
    q = i + 1 + (5 if n > 3 else 0) + sum(range(n)) + n + n
    dot = (i * (i + 1) + n * n) * 2
    np.testing.assert_array_equal(both(AGGREGATES, {"o": integers(12), "n": n}), [*dot, *p, *q])


NESTED_AGGREGATES = """
@tl.core._aggregate
class Point:
    x: tl.tensor
    y: tl.tensor

    def __init__(self, x, y):
        self.x = x
        self.y = y


@tl.core._aggregate
class Line:
    start: Point
    more: tl.tuple

    def __init__(self, start, more):
        self.start = start
        self.more = more

    @jit
    def changed(self):
        self.start.x += 1000
        return self


def kernel(o, n):
    i = tl.arange(0, 4)
    line = Line(Point(i, i + n), (i * 0 + 1, 5))
    line.changed()  # works on a copy
    if n > 3:
        line.start.x = line.start.x * 2
    for k in range(n):
        line.start.y += k
        line.more = (line.more[0] * 2, line.more[1])
    pair = (Point(i, i), 3)
    if n > 3:
        pair[0].x = i * 10
    else:
        pair[0].y = i * 100
    for k in range(n):
        pair[0].x += pair[1]
    tl.store(o + i, line.start.x + line.start.y)
    tl.store(o + 4 + i, line.more[0] + line.more[1])
    tl.store(o + 8 + i, pair[0].x + pair[0].y)
"""


@pytest.mark.parametrize("n", [0, 2, 5])
def test_fields_of_aggregates_inside_others(n):
    i, far = np.arange(4), n > 3
    line = (2 * i if far else i) + i + n + sum(range(n))
    pair = (10 * i if far else i) + 3 * n + (i if far else 100 * i)
    found = both(NESTED_AGGREGATES, {"o": integers(12), "n": n})
    np.testing.assert_array_equal(found, [*line, *np.full(4, 2**n + 5), *pair])


MAPPED = """
@jit
def collatz(x, limit):
    steps = 0
    while x > 1 and steps < limit:
        if x % 2 == 0:
            x = x // 2
        else:
            x = 3 * x + 1
        steps += 1
    return steps, x


@jit
def pairs(a, b, c, d):
    return a + b, c + d


def kernel(p, o):
    i = tl.arange(0, 16)
    x = tl.load(p + i)
    s, e = tl.map_elementwise(collatz, x, i * 0 + 50)
    tl.store(o + i, s * 1000 + e)
    (sums,) = tl.map_elementwise(pairs, x, i, pack=2)
    tl.store(o + 16 + i, sums)
"""


def test_map_elementwise():
    x = np.arange(1, 17, dtype=np.int32) * 3
    expected = []
    for value in x.tolist():
        steps = 0
        while value > 1 and steps < 50:
            value = value // 2 if value % 2 == 0 else 3 * value + 1
            steps += 1
        expected.append(steps * 1000 + value)
    i = np.arange(16)
    pairs = np.stack([x[0::2] + x[1::2], i[0::2] + i[1::2]], -1).ravel()
    np.testing.assert_array_equal(both(MAPPED, {"p": x, "o": integers(32)}), [*expected, *pairs])


HINTS = """
def kernel(x, o, n):
    tl.assume(n > 0)
    i = tl.max_contiguous(tl.multiple_of(tl.arange(0, 16), 16), 16)
    j = tl.max_constancy(i // 4, [4])
    tl.debug_barrier()
    tl.static_assert(16 > 4, "sizes")
    tl.store(o + i, tl.load(x + i) + j)
"""


def test_hints_change_nothing():
    x = np.arange(16, dtype=np.int32)
    np.testing.assert_array_equal(both(HINTS, {"x": x, "o": integers(), "n": 4}), x + x // 4)


def test_program_ids():
    source = """
def kernel(o):
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    at = x + tl.num_programs(0) * (y + tl.num_programs(1) * z)
    tl.store(o + at, x + 10 * y + 100 * z + 1000 * tl.num_programs(2))
"""
    found = both(source, {"o": integers(24)}, (2, 3, 4))
    z, y, x = np.indices((4, 3, 2))
    np.testing.assert_array_equal(found, (x + 10 * y + 100 * z + 4000).ravel())


def test_scalars_behave_as_tensors():
    """Arguments, program ids and loop variables have tensors' methods."""
    source = """
def kernel(o, n, f, B: tl.constexpr):
    s = n.to(tl.int64) + tl.program_id(0).to(tl.int64) + f.to(tl.int64)
    for k in tl.range(n):
        s += k.to(tl.int64)
    tl.store(o, s + B.value + B)
    tl.store(o + 1, s.dtype == tl.int64)
"""
    assert both(source, {"o": integers(2), "n": 4, "f": 2.5, "B": 3}).tolist() == [18, 1]


def test_annotations_fix_types():
    source = """
def kernel(o, a: tl.int8, b: "tl.uint8", c: tl.float32, d: int):
    tl.store(o, a.to(tl.int32))
    tl.store(o + 1, b.to(tl.int32))
    tl.store(o + 2, (c / 2).to(tl.int32))
    tl.store(o + 3, d)
"""
    assert both(source, {"o": integers(4), "a": -3, "b": 200, "c": 9, "d": 5}).tolist() == [
        -3,
        200,
        4,
        5,
    ]


PRINTS = """
def kernel(x):
    i = tl.arange(0, 4)
    tl.device_print("values:", tl.load(x + i))
    tl.device_print("both", tl.program_id(0), i[None, :])
    tl.device_print("hex ", i + 10, hex=True)
"""


def test_printing(capfd):
    x = np.float32([0.5, 1, -2, 8])
    native(build(PRINTS))[(1,)](x)
    lines = capfd.readouterr().out.splitlines()
    assert "pid (0, 0, 0) idx (0) values: 0.500000" in [line.replace("( ", "(") for line in lines]
    assert len(lines) == 4 + 1 + 4 + 4 or len(lines) == 4 + 4 + 4 + 4
    assert any("(operand 0)" in line for line in lines)
    assert any("0xd" in line.replace("0x0000000d", "0xd") for line in lines)
    InterpretedFunction(build(PRINTS))[(1,)](x)


def test_static_print(capsys):
    source = """
def kernel(o, N: tl.constexpr):
    tl.static_print("N is", N, f"twice {N * 2:03d}", sep="-")
    tl.store(o, N)
"""
    run(build(source), {"o": integers(1), "N": 8})
    assert "N is-8-twice 016" in capsys.readouterr().out


ASSERTS = """
def kernel(x, o):
    i = tl.arange(0, 4)
    v = tl.load(x + i)
    tl.device_assert(v > 0, "all must be positive")
    tl.device_assert(v > 100, "not looked at", mask=v < 0)
    assert tl.sum(v, 0) > 3, "sum"
    tl.store(o + i, v)
"""


@pytest.mark.parametrize(
    "runner", [pytest.param(native, marks=pytest.mark.cpu), InterpretedFunction]
)
def test_assertions(runner):
    good, bad = np.int32([1, 2, 3, 4]), np.int32([1, 0, 3, 4])
    out = np.zeros(4, np.int32)
    runner(build(ASSERTS))[(1,)](good, out, debug=True)
    assert out.tolist() == [1, 2, 3, 4]
    runner(build(ASSERTS))[(1,)](bad, out, debug=False)
    with pytest.raises(Exception, match="all must be positive") as caught:
        runner(build(ASSERTS))[(1,)](bad, out, debug=True)
    # The line, and the program.
    text = str(caught.value)
    place = r":5 \[program \(0, 0, 0\)\]|^at 4:4:.*program \(0, 0, 0\)|pid \(0, 0, 0\).*:5: "
    assert re.search(place, text, re.S), text


OVERFLOWS = {
    "tl.load(x) + 1": "int32 overflow detected for operation add",
    "-2 - tl.load(x)": "int32 overflow detected for operation sub",
    "tl.load(x) * 2": "int32 overflow detected for operation mul",
    "tl.load(x).to(tl.int16) - 32767 - 3": "int16 overflow detected for operation sub",
}


@pytest.mark.cpu
@pytest.mark.parametrize("text", OVERFLOWS)
def test_overflow_sanitizer(text):
    """Only with debug on, and not where the sanitizer is switched off."""
    source = (
        "def kernel(x, o):\n    if tl.program_id(1) == 2:\n"
        f"        tl.store(o, ({text}).to(tl.int32))\n"
    )
    x, o = np.int32([2**31 - 1]), np.zeros(1, np.int32)
    for runner in (native, InterpretedFunction):
        fn = runner(build(source))
        fn[(1, 3)](x, o)
        fn[(1, 3)](x, o, debug=True, sanitize_overflow=False)
        with pytest.raises(Exception, match=OVERFLOWS[text]) as caught:
            fn[(1, 3)](x, o, debug=True)
        assert re.search(r"(program|pid) \(0, 2, 0\)", str(caught.value))
        assert re.search(r":3( \[|: )|^at 3:", str(caught.value))


@pytest.mark.parametrize("runner", [native, InterpretedFunction])
def test_no_overflow_no_complaint(runner):
    source = (
        "def kernel(x, o):\n    v = tl.load(x)\n    tl.store(o, (v + 1 - 1) * 1 - v)\n"
        "    wide = v.to(tl.int64) * (1 << 40) * 3 + (1 << 62)\n"  # words of 64 bits may wrap
        "    tl.store(o, 1, mask=wide == 1)\n"
    )
    x, o = np.int32([-(2**31)]), np.ones(1, np.int32)
    runner(build(source))[(1,)](x, o, debug=True)
    assert o[0] == 0


def test_specialized_numbers_give_the_same():
    source = """
def kernel(x, o, stride, n):
    i = tl.arange(0, 8)
    tl.store(o + i, tl.load(x + i * stride, i < n, other=-1))
"""
    x = np.arange(200, dtype=np.int32)
    for stride in (1, 2, 16, 17):
        for n in (0, 1, 8, 16):
            found = both(source, {"x": x, "o": integers(8), "stride": stride, "n": n})
            i = np.arange(8)
            np.testing.assert_array_equal(found, np.where(i < n, i * stride, -1))


def test_floats_that_the_caller_makes_constant_keep_their_digits():
    """They do in the reference; a name that the kernel assigns is a float32."""
    source = """
def kernel(x, o, s):
    tl.store(o, tl.load(x) * (s * 3))
    y = s * 3
    tl.store(o + 1, tl.load(x) * y)
"""
    arguments = {"x": np.ones(1), "o": np.zeros(2), "s": tl.constexpr(0.1)}
    assert both(source, arguments).tolist() == [0.1 * 3, float(np.float32(0.1 * 3))]


def test_short_circuits_at_compile_time():
    source = """
def kernel(o, maybe, N: tl.constexpr):
    tl.store(o, 1 if maybe is not None and maybe > 3 else 2)
    tl.store(o + 1, 3 if N == 4 or maybe > 3 else 4)
    tl.store(o + 2, N and 7)
    tl.store(o + 3, (maybe is None) + 0)
"""
    assert both(source, {"o": integers(4), "maybe": None, "N": 4}).tolist() == [2, 3, 7, 1]


BEYOND_ASCII = """
def kernel(σ, o, μ, N: tl.constexpr):
    é = tl.arange(0, N)
    Δ = tl.load(σ + é)
    ω = tl.zeros([N], tl.int32)
    for ι in range(μ):
        ω += Δ * ι
    if μ > 3:
        λ = ω
    else:
        λ = -ω
    tl.store(o + é, λ)
"""


def test_names_beyond_ascii():
    args = {"σ": np.arange(8, dtype=np.int32), "o": integers(8), "μ": 4, "N": 8}
    np.testing.assert_array_equal(both(BEYOND_ASCII, args), 6 * args["σ"])


def test_a_placeholder_does_nothing():
    lines = ("...", "if n > 1:", "    ...", "else:", "    tl.store(o, 7)")
    body = "def kernel(o, n):\n" + "\n".join(f"    {line}" for line in lines)
    assert both(body, {"o": integers(1), "n": 1}).tolist() == [7]


BLOCK_POINTERS = """
@jit(noinline=True)
def doubled(p):
    return tl.load(p, boundary_check=(0,)) * 2


def kernel(x, y, o, n):
    p = tl.make_block_ptr(x, (n,), (1,), (0,), (4,), (0,))
    q = tl.make_block_ptr(o, (24,), (1,), (0,), (4,), (0,))
    k = 0
    while k < n:
        if k % 8 == 0:
            tl.store(q, tl.load(p, boundary_check=(0,)), boundary_check=(0,))
        else:
            tl.store(q, -tl.load(p, boundary_check=(0,)), boundary_check=(0,))
        p = tl.advance(p, (4,))
        q = tl.advance(q, (4,))
        k += 4
    if n > 8:
        r = tl.make_block_ptr(x, (n,), (1,), (1,), (4,), (0,))
    else:
        r = tl.make_block_ptr(y, (n,), (2,), (0,), (4,), (0,))
    for k in range(3):
        if k == 1:
            r = tl.advance(r, (2,))
    s = tl.make_block_ptr(y, (n,), (1,), (0,), (4,), (0,))
    for k in range(3):  # exchanges two
        r, s = s, r
    tl.store(o + 12 + tl.arange(0, 4), tl.load(s, boundary_check=(0,)))
    tl.store(o + 16 + tl.arange(0, 4), tl.load(r, boundary_check=(0,)))
    tl.store(o + 20 + tl.arange(0, 4), doubled(tl.advance(s, (1,))))
"""


@pytest.mark.parametrize("n", [7, 11])
def test_block_pointers_that_are_passed_on(n):
    x, y = np.arange(1, 25, dtype=np.int32), np.arange(100, 124, dtype=np.int32)
    copied = np.where(np.arange(12) < n, x[:12] * [1, 1, 1, 1, -1, -1, -1, -1, 1, 1, 1, 1], 0)
    far = [x[i] if i < n else 0 for i in range(3, 8)] if n > 8 else \
        [y[2 * i] if i < n else 0 for i in range(2, 7)]  # fmt: skip
    found = both(BLOCK_POINTERS, {"x": x, "y": y, "o": integers(24), "n": n})
    np.testing.assert_array_equal(found, [*copied, *far[:4], *y[:4], *(2 * v for v in far[1:])])
