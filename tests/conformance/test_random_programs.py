"""Random kernels run natively and in the interpreter; `make fuzz` runs many more."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.conformance.programs import (
    Assign,
    Generator,
    Program,
    Store,
    Var,
    differing,
    ready_to_run,
    reduce_program,
    simplify,
)
from tests.support.device import device

CHECKS = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


def check(data, size):
    """Generate a program with hypothesis' choices; show it reduced where the ways differ."""
    program = Generator(lambda options: data.draw(st.sampled_from(list(options)))).program(size)
    if program.kind():
        found = program.divergence()
        pytest.fail(f"{found}\n\n{ready_to_run(reduce_program(program))}")


@settings(
    max_examples=40 if device == "cpu" else 12, deadline=None, suppress_health_check=CHECKS,
    derandomize=True,
)  # fmt: skip
@given(st.data())
def test_native_code_agrees_with_the_interpreter(data):
    check(data, data.draw(st.integers(2, 10)))


@pytest.mark.slow
@settings(max_examples=300, deadline=None, suppress_health_check=CHECKS)
@given(st.data())
def test_longer_programs(data):
    check(data, data.draw(st.integers(5, 25)))


def a_program(text):
    values = Var("v1", "int32", (8,)), Var("v2", "int32", (8,)), Var("v3", "int32", (8,))
    nodes = [
        Assign(values[0], "tl.load(x0 + tl.arange(0, 8))"),
        Assign(values[1], "v1 * 2"),
        Assign(values[2], text),
        Store(values[1], False),
        Store(values[2], False),
    ]
    return Program(nodes, {"x0": np.arange(8, dtype=np.int32)}, {"n": 0}, 1)


def test_divergences_are_found_and_reduced():
    """A program whose result differs on purpose: the ways do not agree on `math.nan`-free code
    that asks which of them runs."""
    program = a_program("v1 + v2 + (1 if hasattr(v1.handle, 'array') else 0)")
    assert program.kind() == "wrong"
    reduce_program(program)
    assert [type(n).__name__ for n in program.nodes] == ["Assign", "Assign", "Assign", "Store"]
    assert "tl.load" not in program.source() and "o_v2" not in program.source()
    assert "hasattr" in ready_to_run(program)
    assert not a_program("v1 + v2").kind()


def test_what_fails_one_way_only_is_a_divergence():
    text = "v1 if hasattr(v1.handle, 'array') else nothing"
    assert a_program(text).divergence().startswith("one way fails: CompilationError")


def test_unused_statements_go():
    program = a_program("v1 + 1")
    program.nodes.pop(3)  # nothing stores v2
    simplify(program)
    assert "v2" not in program.source()


def test_comparison_of_outputs():
    x = np.float32([1, np.nan, 0.0])
    assert not differing(x, np.float32([1, np.nan, -0.0]), True)
    assert differing(x, np.float32([1.0000001, np.nan, 0.0]), True).startswith("[0]")
    assert not differing(x, np.float32([1.0000001, np.nan, 0.0]), False)
    assert differing(np.int8([1]), np.int8([2]), False)
