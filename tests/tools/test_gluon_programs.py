"""The random Gluon programs of `tools/fuzz_gluon.py`: a sample of them, and what finds faults."""

from __future__ import annotations

import pytest

from tests.simt.backend import installed
from tests.simt.backend.driver import SimtDriver
from tools.gluon_programs.program import whole
from tools.gluon_programs.running import ABILITIES, check, program_of
from tritium.backends import active


@pytest.fixture
def simt():
    with installed():
        active.driver.set_active(SimtDriver(32))
        yield
        active.driver.reset_active()


def test_programs_agree_with_numpy(simt: None) -> None:
    found = {seed: check(seed, "simt32") for seed in range(3)}
    assert not {seed: outcome for seed, outcome in found.items() if outcome["outcome"] != "right"}


@pytest.mark.parametrize("device", ABILITIES)
def test_a_program_is_the_same_everywhere(device: str) -> None:
    assert program_of(7, device).text() == program_of(7, device).text()
    assert program_of(7, device).text() != program_of(8, device).text()


def test_a_wrong_result_is_found(simt: None, monkeypatch: pytest.MonkeyPatch) -> None:
    made = program_of(3, "simt32")
    made.pointers[-1].base.data[-1] += 1
    monkeypatch.setattr("tools.gluon_programs.running.program_of", lambda seed, device: made)
    assert check(3, "simt32")["outcome"] == "wrong"


def test_every_statement_is_made() -> None:
    texts = "".join(program_of(seed, "interpreter").text() for seed in range(150))
    for part in ("set_auto_layout", "associative_scan", "gl.split", "atomic_scatter", "warpgroup_",
                 "mma_v2", "dot_fma", "async_copy", "warp_specialize", "tma.async_load", ".slice(",
                 "reinterpret", "histogram", "while ", "PaddedShared", "SharedLinear",
                 "cluster.barrier", "multicast=True", "async_load_im2col", "async_gather",
                 "async_scatter"):  # fmt: skip
        assert part in texts, part


def test_parts_of_memory_are_views() -> None:
    for seed in range(60):
        for memory in program_of(seed, "simt32").memories:
            assert whole(memory.data).nbytes >= memory.data.nbytes
