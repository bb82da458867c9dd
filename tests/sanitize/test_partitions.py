"""Checks of global memory in partitions of warps, which see captures and constants alone."""

from __future__ import annotations

import numpy as np
import pytest

from tests.gluon.partition_programs import scan_kernel, scans_of_partitions
from tests.gluon.support import compiled, launcher
from tests.nvidia.support import in_order
from tritium.sanitize.launch import SanitizerError

pytestmark = pytest.mark.cpu
HOW = ["engine", pytest.param("gpu", marks=pytest.mark.gpu)]


@pytest.mark.every(2)
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("mode", ["bounds", "races", "unwritten", "fp", "bounds,races,unwritten"])
def test_right_programs_run_with_checks(
    mode: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_INSTRUMENTATION_MODE", mode)
    scans_of_partitions(launcher(how))


def test_what_checks_use_is_captured() -> None:
    text = compiled(scan_kernel, "*i32 *i32", {}, instrumentation_mode="races").asm["ttgir"]
    in_order(text, r"%shadow: i64", r"ttg.warp_specialize\(.*%shadow",
             r"partition0\(.*%shadow\w*: i64", r"tt.race_check %\w+, %shadow")  # fmt: skip


@pytest.mark.parametrize("how", HOW)
def test_loads_outside_of_their_array_are_found(how: str) -> None:
    source = np.zeros((31, 32), np.int32)
    out = np.zeros((32, 32), np.int32)
    with pytest.raises(SanitizerError, match=r"(?s)load out of bounds.*'src'"):
        launcher(how)(scan_kernel, (1,), source, out, instrumentation_mode="bounds")
