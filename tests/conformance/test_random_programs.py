"""Random kernels run natively and in the interpreter; `make fuzz` runs many more."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.conformance import checking
from tests.conformance.checking import differing
from tests.conformance.nodes import Assign, Effect, Store, Var
from tests.conformance.programs import Generator, Program, ready_to_run, reduce_program, simplify
from tests.support.device import device
from tritium.ops import arith
from tritium.passes import Pass, pipelines
from tritium.passes.ttir import Canonicalize

CHECKS = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


def check(data, size):
    """Generate a program with hypothesis' choices; show it reduced where the ways differ."""
    program = Generator(lambda options: data.draw(st.sampled_from(list(options)))).program(size)
    if program.kind():
        found = program.divergence()
        pytest.fail(f"{found}\n\n{ready_to_run(reduce_program(program))}")


@settings(
    max_examples=5, deadline=None, suppress_health_check=CHECKS,
    derandomize=True,
)  # fmt: skip
@given(st.data())
def test_native_code_agrees_with_the_interpreter(data):
    check(data, data.draw(st.integers(2, 10)))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))  # each takes other examples
@settings(
    max_examples=30 if device == "cpu" else 10, deadline=None, suppress_health_check=CHECKS,
    derandomize=True,
)  # fmt: skip
@given(data=st.data())
def test_longer_programs(data, part):
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
    assert program.kind() == "evaluation against interpreter"
    reduce_program(program)
    assert [type(n).__name__ for n in program.nodes] == ["Assign", "Assign", "Assign", "Store"]
    assert "tl.load" not in program.source() and "o_v2" not in program.source()
    assert "hasattr" in ready_to_run(program)
    assert not a_program("v1 + v2").kind()


def test_what_fails_one_way_only_is_a_divergence():
    text = "v1 if hasattr(v1.handle, 'array') else nothing"
    assert a_program(text).divergence().startswith("frontend: NameError")


def test_a_pass_that_changes_the_meaning_is_found(monkeypatch):
    class Wrong(Pass):
        name = "wrong"

        def run(self, module):
            for op in module.walk():
                if isinstance(op, arith.AddIOp):
                    op.parent.insert_op_before(new := arith.SubIOp.build(*op.operands), op)
                    op.results[0].replace_all_uses_with(new.results[0])
                    return True
            return False

    monkeypatch.setattr(pipelines, "ttir", lambda: [Canonicalize(), Wrong()])
    assert a_program("v1 + v2").kind() == "after wrong against before"


def test_wrong_native_code_is_found(monkeypatch):
    original = checking.compile_unless

    def wrong(text, level, done):
        return original(text.replace("mul <", "add <") if level == 2 else text, level, done)

    monkeypatch.setattr(checking, "compile_unless", wrong)
    assert a_program("v1 * v2").kind() == "native code at -O2 against evaluation"


def test_stores_out_of_bounds_are_found():
    program = a_program("v1 + v2")
    program.nodes.append(Effect(["tl.store(x0 + tl.arange(0, 8) - 1, v1)"]))
    assert program.divergence().startswith("interpreter: EvaluationError: ")


def fuzz(tmp_path, *options):
    """Run the tool; returns its exit status and its summary."""
    root = Path(__file__).parents[2]
    command = [
        sys.executable, str(root / "tools" / "fuzz.py"), "--out", str(tmp_path / "s.json"),
        "--minutes", "60", *options,  # the programs end it, however busy the machine is
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    return done.returncode, json.loads((tmp_path / "s.json").read_text())


def test_the_tool_counts_programs(tmp_path):
    status, summary = fuzz(tmp_path, "--programs", "1", "--jobs", "1", "--seed", "5")
    assert (status, summary["programs"], summary["diverged"]) == (0, 1, 0)
    assert summary["statements"]["load"] == 1


@pytest.mark.slow
def test_the_tool_survives_a_crash(tmp_path, monkeypatch):
    """A worker that is killed at one program goes on with the next."""
    (tmp_path / "sitecustomize.py").write_text(
        "import os, random\n"
        "begin = random.Random.__init__\n"
        "def dying(self, seed=None):\n"
        "    begin(self, seed)\n"
        "    if seed == 7 and '--worker' in __import__('sys').argv:\n"
        "        os.abort()\n"
        "random.Random.__init__ = dying\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    status, summary = fuzz(tmp_path, "--programs", "2", "--jobs", "1", "--seed", "7")
    assert (status, summary["programs"]) == (1, 2)
    assert [d["seed"] for d in summary["divergences"]] == [7]


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
