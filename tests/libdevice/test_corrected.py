"""Rounding in a direction where the processor rounds to nearest only, beside one that does not."""

from __future__ import annotations

import ctypes
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest

from tritium.codegen.llvm.vmath import directed
from tritium.codegen.llvm.vmath.lanes import Lanes
from tritium.codegen.llvm.writer import Function, Module

TYPES = {"float": np.float32, "double": np.float64, "i64": np.int64}
C = {"float": ctypes.c_float, "double": ctypes.c_double, "i64": ctypes.c_int64}
SPECIAL = [0.0, -0.0, 1.0, 3.0, -7.0, np.inf, -np.inf, np.nan, 5e-324, -1e-310, 2.3e-308, 1.7e308,
           1e-45, 1e-38, 3.4e38, 4.0, 0.1]  # fmt: skip
INTEGERS = [0, 1, -1, 2**24 + 1, -(2**24) - 1, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63),
            2**32, 2**31, 2**62 + 2**8 + 1]  # fmt: skip


def functions(operation: str, base: str, result: str, corrects: bool) -> dict[str, Any]:
    """By direction."""
    module = Module()
    if corrects:
        module.nearest_only = frozenset({(operation, base)})
    count = 2 if operation == "fdiv" else 1
    for direction in directed.DIRECTIONS:
        arguments = [(base, f"x{i}", "") for i in range(count)]
        f = Function(module, direction, arguments, result or base, linkage="")
        lanes = [Lanes(f, value, frozenset()) for value in f.arguments]
        f.ret(directed.compute(operation, direction, *lanes, result=result).value)
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(module.text()), machine)
    engine.finalize_object()
    kind = ctypes.CFUNCTYPE(C[result or base], *[C[base]] * count)
    made = {d: kind(engine.get_function_address(d)) for d in directed.DIRECTIONS}
    return {**made, "engine": engine}


@pytest.mark.parametrize(("operation", "base", "result"), [
    ("fdiv", "double", ""), ("fdiv", "float", ""), ("sqrt", "double", ""), ("sqrt", "float", ""),
    ("sitofp", "i64", "float"), ("sitofp", "i64", "double"), ("uitofp", "i64", "float"),
    ("uitofp", "i64", "double"),
])  # fmt: skip
def test_as_where_it_is_an_instruction(operation: str, base: str, result: str) -> None:
    rng, type = np.random.default_rng(7), TYPES[base]
    if base == "i64":
        some = [*INTEGERS, *(rng.integers(-(2**63), 2**63, 40) >> rng.integers(0, 60, 40)).tolist()]
        inputs = [(x,) for x in some]
    else:
        spread = 300 if base == "double" else 36
        numbers = rng.standard_normal(40) * 10.0 ** rng.integers(-spread, spread, 40)
        with np.errstate(over="ignore"):
            some = [float(type(x)) for x in (*SPECIAL, *numbers)]
        inputs = [(x, y) for x in some for y in some] if operation == "fdiv" else [
            (x,) for x in some
        ]  # fmt: skip
    made, exact = (functions(operation, base, result, c) for c in (True, False))
    form = TYPES[result or base]
    for direction in directed.DIRECTIONS:
        found = np.array([made[direction](*x) for x in inputs], form)
        wanted = np.array([exact[direction](*x) for x in inputs], form)
        same = (found.tobytes() == wanted.tobytes())
        wrong = [(x, a, b) for x, a, b in zip(inputs, found, wanted, strict=True)
                 if not (a == b and np.signbit(a) == np.signbit(b)) and not (a != a and b != b)]
        assert same or not wrong, (direction, wrong[:3], len(wrong))
