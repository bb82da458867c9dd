"""Kernels with functions in place of parameters."""

from __future__ import annotations

import linecache
from types import ModuleType

import pytest

import tritium
import tritium.language as tl
from tests.kernels.support import place, torch
from tritium_kernels.errors import ArgumentError
from tritium_kernels.specialize import (
    ClosureArg,
    FnSpecs,
    SpecializationModule,
    cacheable,
    define_kernel,
    specialize,
)


@tritium.jit
def apply(x_ptr, y_ptr, n, FIRST: tl.constexpr, first_args, B: tl.constexpr, SECOND, second_args):
    """y = SECOND(FIRST(x))."""
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < n)
    if FIRST is not None:
        x = FIRST(x, *first_args)
    if SECOND is not None:
        x = SECOND(x, *second_args)
    tl.store(y_ptr + i, x, mask=i < n)


@tritium.jit
def line(x, slope, offset):
    return x * slope + offset


@tritium.jit
def negative(x):
    return -x


LINE = FnSpecs("line", line, ("slope", "offset"), ("slope",))
NEGATIVE = FnSpecs("negative", negative)
APPLY = SpecializationModule(
    "applied", [("apply", apply)],
    {"first": ClosureArg("FIRST", "first_args"), "second": ClosureArg("SECOND", "second_args")},
)  # fmt: skip


@pytest.mark.parametrize(
    ("specs", "given", "name", "expected"),
    [
        ({}, (), "apply", [0.0, 1.0, 2.0]),
        ({"first": LINE}, (2.0, 1.0), "apply_line", [1.0, 3.0, 5.0]),
        ({"first": LINE, "second": NEGATIVE}, (2.0, 1.0), "apply_line_negative", [-1.0, -3.0, -5]),
    ],
)
def test_functions_of_results(specs, given, name: str, expected: list[float]):
    kernel = APPLY.get(**specs).apply
    x, y = torch.arange(3.0, device=place()), torch.zeros(3, device=place())
    compiled = kernel[(1,)](x, y, 3, *given, B=4)
    assert y.tolist() == expected
    assert compiled.metadata.name == kernel.__name__ == name
    arguments = ["first_slope", "first_offset"][: len(given)]
    assert kernel.arg_names == ["x_ptr", "y_ptr", "n", *arguments, "B"]
    assert kernel.do_not_specialize == (["first_slope"] if given else [])
    assert "y = SECOND" in "".join(linecache.getlines(kernel.fn.__code__.co_filename))


def test_modules_are_made_once():
    assert APPLY.get(first=LINE) is APPLY.get(first=LINE)
    other = FnSpecs("line", negative)  # the same name, another function
    assert APPLY.get(first=other) is not APPLY.get(first=LINE)


def test_kernels_from_text():
    text = "def twice(x_ptr):\n    tl.store(x_ptr, tl.load(x_ptr) * FACTOR)\n"
    module = ModuleType("texts")
    vars(module)["tl"] = tl

    @cacheable
    def named():
        return define_kernel(text, module, {"do_not_specialize": ["x_ptr"]}, FACTOR=tl.constexpr(2))

    x = torch.full((1,), 3.0, device=place())
    named[(1,)](x)
    assert x.item() == 6.0 and named.fn.__qualname__.endswith("named")
    assert named.__name__ == "named" and named.do_not_specialize == ["x_ptr"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: specialize(len, m, {}, {}), "specialize: fn is .*; accepted: a function of @tr"),
        (lambda m: specialize(apply, m, {"Q": 1}, {}), "constants names 'Q'; accepted: x_ptr, y"),
        (lambda m: specialize(apply, m, {}, {"first_args": ["n"]}), "tuples gives 'n' twice"),
        (lambda m: define_kernel("x = 1", m), "src defines 0 functions; accepted: one"),
        (lambda m: APPLY.get(third=LINE), "third is given; accepted: first, second"),
    ],
)
def test_errors(call, message: str):
    with pytest.raises(ArgumentError, match=message):
        call(ModuleType("bad"))
