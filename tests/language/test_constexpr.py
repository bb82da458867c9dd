"""Compile-time values and tuples."""

import collections
import copy
import pickle

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tests.language.support import block, eager
from tritium.language.values.constexpr import constexpr_type, unwrap
from tritium.language.values.tuples import type_of, wrap

C = tl.constexpr


@tritium.constexpr_function
def one_more(n):
    """A number and one."""
    return n + 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("C(7) + 2", 9), ("2 + C(7)", 9), ("C(7) - C(2)", 5), ("2 - C(7)", -5), ("C(7) * 2", 14),
        ("C(7) / 2", 3.5), ("1 / C(2)", 0.5), ("C(7) // 2", 3), ("-7 // C(2)", -4), ("C(7) % 4", 3),
        ("9 % C(4)", 1), ("C(2) ** 5", 32), ("2 ** C(5)", 32), ("C(6) & 3", 2), ("6 | C(1)", 7),
        ("C(6) ^ 3", 5), ("C(1) << 4", 16), ("1 << C(4)", 16), ("C(16) >> 2", 4), ("-C(3)", -3),
        ("~C(3)", -4), ("abs(C(-3))", 3), ("C(3) < 4", True), ("3 >= C(4)", False),
        ("C('a') == 'a'", True), ("C(None) != None", False), ("C('a') + 'b'", "ab"),
        ("C((1, 2, 3))[1]", 2), ("C('abc')[C(0):C(2)]", "ab"), ("C(len)('abc')", 3),
        ("C(3).logical_and(C(0))", 0), ("C(0).logical_or(5)", 5),
    ],
)  # fmt: skip
def test_operators(text, expected):
    value = eval(text)
    value = value.value if isinstance(value, C) else value
    assert value == expected and type(value) is type(expected)
    assert isinstance(eval(text), C) or "len" in text


def test_conversions():
    assert int(C(3)) == 3 and float(C(2)) == 2.0 and list(range(C(3))) == [0, 1, 2]
    assert not C(0) and C("x") and len(C("abc")) == 3 and list(C((1, 2))) == [1, 2]
    assert repr(C(tl.float32)) == "constexpr[fp32]" and f"{C(3.0):.2f}" == "3.00"
    assert C(C(C(4))).value == 4 and {C(1): "a"}[C(1)] == "a"
    assert C(tl.int8).primitive_bitwidth == 8
    with pytest.raises(AttributeError):
        _ = C(3).nothing
    assert unwrap([C(1), (C(2), tl.tuple([C(3)]))]) == [1, (2, (3,))]


def test_constants_meet_tensors():
    with eager():
        x = block([1, 2, 3, 4])
        assert (C(10) - x).value.tolist() == [9, 8, 7, 6]
        assert (x - C(1)).value.tolist() == [0, 1, 2, 3]
        assert (C(2) < x).value.tolist() == [False, False, True, True]
        assert (C(2) == x).value.tolist() == [False, True, False, False]


def test_types_of_constants():
    assert tl.constexpr_type(3) == tl.constexpr_type(C(3)) != tl.constexpr_type(3.0)
    assert tl.constexpr_type(True) != tl.constexpr_type(1)
    assert C(3).type.unflatten([], 0)[0].value == 3 and C(3).flatten() == []
    assert tl.constexpr_type(tl.int8).mangle() == "ci8"


def test_constexpr_function():
    @tl.constexpr_function
    def half(n, extra=0):
        assert isinstance(n, int)
        return n // 2 + extra

    assert half(16) == 8 and half(C(16), extra=C(1)) == 9


def test_tuples():
    t = tl.tuple([1, C(2), (3, None)])
    assert len(t) == 3 and t[0] == 1 and t[C(1)].value == 2 and t[2][0] == 3
    four = (4,)
    assert t[1:][0].value == 2 and len(t + four) == 4 and len(four + t) == 4
    assert len(t * 2) == 6 and (tl.tuple([1, 2]) == (1, 2)).value
    assert not (tl.tuple([1, 2]) == (1, 3)).value and (tl.tuple([1]) != (1, 2)).value
    with pytest.raises(TypeError, match="compile-time integer"):
        t[1.5]
    with pytest.raises(IndexError):
        t[5]
    with pytest.raises(TypeError, match="the other must be a tuple"):
        t + 3


def test_named_tuples_keep_their_fields():
    Pair = collections.namedtuple("Pair", ["left", "right"])
    p = tl.tuple(Pair(1, tl.tuple([2])))
    assert p.left == 1 and p.right[0] == 2
    with pytest.raises(AttributeError, match="no field 'middle'"):
        _ = p.middle
    assert wrap(Pair(1, 2)).left.value == 1


def test_flatten_and_unflatten_are_inverse():
    with eager():
        value = tl.tuple([block([1, 2]), C(5), tl.tuple([block(3), block([1.0], tl.float32)])])
        handles = value.flatten()
        again, cursor = value.type.unflatten(handles, 0)
        assert cursor == len(handles) == 3 == len(value.type.flatten_types())
        assert again.type == value.type and again[1].value == 5
        assert again[2][0].handle is handles[1]
        assert [h.type for h in handles] == value.type.flatten_types()
    assert type_of((1, None)).types[1] == tl.constexpr_type(None)


def test_types_of_values_that_compile_differently_differ():
    differ = [
        (0.0, -0.0), (1, 1.0), (1, True),
        ((1, 2), (1, 2.0)), ((0.0,), (-0.0,)), ((1,), (1, 2)),
    ]  # fmt: skip
    for left, right in differ:
        assert constexpr_type(left) != constexpr_type(right)
    for value in (0.0, float("nan"), (1, 2.0), "x", None):
        assert constexpr_type(value) == constexpr_type(value)


def test_constexpr_function_is_an_object():
    assert isinstance(one_more, tritium.runtime.jit.ConstexprFunction)
    assert one_more.__name__ == "one_more" and one_more.__module__ == __name__
    assert one_more.__doc__ == "A number and one." and one_more.__wrapped__ is one_more.fn
    assert one_more.src.startswith("def one_more(n):") and "@" not in one_more.src
    assert one_more(C(4)) == 5 and one_more(4, _semantic=object()).value == 5
    assert pickle.loads(pickle.dumps(one_more)) is one_more and copy.deepcopy(one_more) is one_more

    class Sizes:
        factor = 3

        @tl.constexpr_function
        def times(self, n):
            return self.factor * n

    assert Sizes().times(C(4)) == 12 and Sizes.times(Sizes(), 5) == 15


def test_sizes():
    assert isinstance(tritium.cdiv, tritium.runtime.jit.ConstexprFunction)
    assert [tritium.cdiv(n, 4) for n in (0, 1, 4, C(5))] == [0, 1, 1, 2]
    assert [tritium.next_power_of_2(n) for n in (0, 1, 2, 3, 64, 2**40 + 1)] == [
        *(0, 1, 2, 4, 64, 2**41)
    ]


def test_sizes_of_numpys_integers() -> None:
    for n, power in ((1, 1), (5, 8), (8, 8), (1000, 1024)):
        for kind in (int, np.int32, np.int64):
            assert tritium.next_power_of_2(kind(n)) == power
    assert tritium.next_power_of_2(0) == 0
    with pytest.raises(TypeError, match="float"):
        tritium.next_power_of_2(3.5)


@tritium.jit
def bits_of(x, T: tl.constexpr):
    kind = tl.core._unwrap_if_constexpr(T)
    own = tl.core._unwrap_if_constexpr(tl.load(x).dtype)
    bits = tl.load(x).to(kind, bitcast=True) + (1 << kind.primitive_bitwidth - 9)
    tl.store(x, bits.to(own, bitcast=True))


@pytest.mark.cpu
def test_dtypes_unwrapped_in_a_kernel() -> None:
    x = np.ones(1, np.float32)
    bits_of[(1,)](x, tl.uint32)
    assert x[0] == 2


@tritium.jit
def names_of(x, F: tl.constexpr):
    name: tl.constexpr = "__name__"
    tl.static_assert(getattr(F, name) == F.__name__ == "one_more")
    tl.static_assert(hasattr(F, "__module__") and not hasattr(F, "other"))
    tl.store(x, F(2))


@pytest.mark.cpu
def test_names_of_functions_in_a_kernel() -> None:
    """Names of Python's own are looked up on what the value holds, by `getattr` too."""
    x = np.zeros(1, np.int32)
    names_of[(1,)](x, one_more)
    assert x[0] == 3
