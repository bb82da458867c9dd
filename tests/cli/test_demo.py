"""`tritium demo`: its table, and that a wrong result makes it fail."""

from __future__ import annotations

import numpy as np
import pytest
from typer.testing import CliRunner

from tritium.cli import demo, demo_cases
from tritium.cli.app import app
from tritium.cli.timing import Timing, compare


@pytest.fixture
def invoke(monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(demo, "load_torch", lambda: None)
    return lambda *arguments: CliRunner().invoke(app, ["demo", *arguments])


def test_the_quick_demo_is_right(invoke):
    done = invoke("--quick")
    assert done.exit_code == 0, done.output
    for text in ("vector add", "fused softmax", "layer norm", "matmul", "GB/s", "GFLOP/s"):
        assert text in done.output
    for heading in ("max error", "time", "×numpy", "compile"):
        assert heading in done.output
    assert "all 5 results agree" in done.output and "×torch" not in done.output


@pytest.mark.parametrize("damage", [1e-3, float("nan")])
def test_a_wrong_result_makes_it_exit_non_zero(invoke, monkeypatch, damage):
    def wrong(n, torch=None):
        case = demo_cases.vector_add(n)
        right = case.exact
        error = np.zeros(n)
        error[7] = damage
        case.exact = lambda part: right(part) + error[part]
        return case

    monkeypatch.setitem(demo.DEMO, "add", ((wrong, (1000,), (1000,)),))
    done = invoke("--only", "add")
    assert done.exit_code == 1
    assert "wrong: vector add 1000 differs" in done.output


def test_one_kernel_only(invoke):
    done = invoke("--quick", "--only", "softmax")
    assert done.exit_code == 0 and "fused softmax" in done.output and "matmul" not in done.output


def test_a_kernel_that_it_does_not_have(invoke):
    done = invoke("--only", "fft")
    assert done.exit_code == 1
    assert "'fft'; there are add, softmax, layernorm, matmul" in done.output


def test_a_kernel_that_does_not_write_is_found_out(invoke, monkeypatch):
    """The output is spoiled between the launch that is timed and the one that is checked."""

    def lazy(n, torch=None):
        case = demo_cases.vector_add(n)
        launches = []
        real = case.launch

        def launch():
            launches.append(None)
            if len(launches) == 1:
                real()

        case.launch = launch
        return case

    monkeypatch.setitem(demo.DEMO, "add", ((lazy, (1000,), (1000,)),))
    assert invoke("--only", "add").exit_code == 1


@pytest.mark.parametrize(
    "case",
    [
        demo_cases.vector_add(5000, block=1024),
        demo_cases.softmax(8, 300),
        demo_cases.layer_norm(8, 300),
        demo_cases.matmul(128, blocks=(64, 64, 64)),
    ],
    ids=lambda case: case.name,
)
def test_cases_are_right_and_their_rivals_run(case):
    case.launch()
    assert 0 <= case.error() <= case.tolerance
    for run in case.rivals.values():
        run()
    case.out[0] += 1
    assert case.error() > case.tolerance
    assert case.rate(1.0) == pytest.approx(case.work / 1e9)


def test_matmul_blocks_must_divide_the_size():
    with pytest.raises(ValueError, match="multiple of each of the blocks"):
        demo_cases.matmul(100)


def test_timings_are_medians_with_quartiles():
    timing = Timing((4.0, 1.0, 2.0, 3.0, 100.0))
    assert timing.median == 3.0 and timing.quartiles == (2.0, 4.0)
    assert Timing((1.0,)).quartiles == (1.0, 1.0)


def test_rivals_are_interleaved():
    order = []
    runs = {name: lambda name=name: order.append(name) for name in "ab"}
    timings = compare(runs, rounds=3, sample_seconds=0)
    assert order[-6:] == ["a", "b"] * 3
    assert all(len(t.samples) == 3 for t in timings.values())
