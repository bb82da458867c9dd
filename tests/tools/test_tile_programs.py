"""The random tile programs of `tools/fuzz_tiles.py`: a sample of them, and what finds faults."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tools.tile_programs import sessions
from tools.tile_programs.memory import Base, Guarded
from tools.tile_programs.program import Unlike
from tools.tile_programs.running import check, program_of
from tools.tile_programs.schedules import random_schedules
from tritium import knobs

pytestmark = pytest.mark.cpu
ROOT = Path(__file__).parents[2]


@pytest.mark.covering(1)
@pytest.mark.parametrize("first", range(0, 6, 3))
@pytest.mark.parametrize("arch", ["native", "x86-64"])
def test_programs_agree_with_numpy(first: int, arch: str) -> None:
    wrong = {seed: found for seed in range(first, first + 3)
             if (found := check(seed, arch))["outcome"] != "right"}  # fmt: skip
    assert not wrong


def test_programs_with_random_schedules_agree_with_numpy() -> None:
    wrong = list[object]()
    for seed in range(100, 104):
        with random_schedules(seed):
            found = check(seed, "native")
        wrong.extend([seed, found] if found["outcome"] != "right" else [])
    assert not wrong


def test_a_program_is_the_same_everywhere() -> None:
    assert program_of(7).text() == program_of(7).text() != program_of(8).text()


def test_a_wrong_result_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    made = program_of(3)
    made.pointers[-1].base.data[-1] += 1
    monkeypatch.setattr("tools.tile_programs.running.program_of", lambda seed: made)
    assert check(3, "native")["outcome"] == "wrong"


@pytest.mark.parametrize(("at_end", "place"), [(True, 1000), (False, -1)])
def test_an_access_beyond_an_array_ends_the_process(at_end: bool, place: int) -> None:
    program = (
        "import ctypes, numpy as np\nfrom tools.tile_programs.memory import Guarded\n"
        f"a = Guarded(np.arange(1000, dtype=np.int32), {at_end}).array\n"
        "print(a.sum(), flush=True)\n"
        f"ctypes.c_int32.from_address(a.ctypes.data + 4 * {place}).value"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True
    )
    assert done.stdout == "499500\n" and done.returncode < 0


def test_programs_that_meet_are_refused() -> None:
    base, every = Base(np.zeros(8, np.int32)), np.ones((2, 2), bool)
    apart, shared = np.array([[0, 1], [2, 3]]), np.array([[4, 5], [4, 6]])
    assert base.write(apart, every, np.ones((2, 2), np.int32))
    assert not base.write(shared, every, np.ones((2, 2), np.int32))
    assert base.read(apart, every) is not None
    assert base.read(apart[::-1], every) is None
    assert base.read(shared, every) is not None
    assert not base.write(shared[:1, :1], every[:1, :1], np.ones((1, 1), np.int32))
    assert Guarded(np.arange(3), True).array.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("fault", "found"), [("exchanged accesses", 1023), ("overwritten tiles", 1015)]
)
def test_planted_faults_of_order_are_found(
    fault: str, found: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loads and stores that are exchanged wherever they overlap, and loop-carried tiles that are
    overwritten before they are read, are found by some of a hundred programs; the one that has
    found it is tried first."""
    from tritium.backends.cpu.tiles import fusion, loop_carried, materialization

    if fault == "exchanged accesses":
        for module in (fusion, materialization):
            monkeypatch.setattr(module, "in_step", lambda *arguments: True)
    else:
        monkeypatch.setattr(loop_carried.ProtectCarried, "run", lambda self, module: False)
    monkeypatch.setattr(knobs.compilation, "always_compile", True)
    seeds = [found, *range(1000, 1100)]
    assert any(check(seed, "native")["outcome"] == "wrong" for seed in seeds)


def test_a_refused_loop_leaves_no_trace() -> None:
    made = program_of(5)
    before = made.text(), [pointer.base.state() for pointer in made.pointers]
    with made.attempt():
        made.new("0", np.zeros((made.programs,), np.int32))
        made.pointer(np.int32, 8)
        made.pointers[0].base.data[:] = 1
        raise Unlike
    assert made.text() == before[0]
    for pointer, state in zip(made.pointers, before[1], strict=True):
        found = pointer.base.state()
        assert [x.tobytes() for x in found] == [x.tobytes() for x in state]


def test_a_worker_that_cannot_begin_ends_the_session_with_its_error(tmp_path: Path) -> None:
    script = tmp_path / "broken.py"
    script.write_text("raise SystemExit('there is no abacus')")
    given = sessions.options("", "cpu", "").parse_args(["--jobs", "1"])
    with pytest.raises(SystemExit, match="there is no abacus"):
        sessions.run(str(script), given)
