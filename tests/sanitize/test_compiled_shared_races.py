"""Races in shared memory of compiled Gluon programs, on an engine for the CPU and on GPUs: each
planted one is an error that names both accesses, and right programs have none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.gluon import bulk_programs, hopper_programs, memory_programs, partition_programs
from tests.gluon.cluster_programs import start_kernel
from tests.gluon.support import compiled, launcher
from tests.gluon.test_races import LINE, PLAIN, race_kernel
from tests.sanitize.test_shared_races import CASES, line_of
from tritium.experimental import gluon
from tritium.experimental.gluon import language as gl
from tritium.ir import types as ir
from tritium.ir.layouts.encodings import linear
from tritium.ops.parsing import parse_module
from tritium.sanitize.chip.footprint import parts_of, unit_of
from tritium.sanitize.launch import Checks, SanitizerError

pytestmark = pytest.mark.cpu
HOW = ["engine", pytest.param("gpu", marks=pytest.mark.gpu)]
MODE = {"instrumentation_mode": "races"}
OF_HOPPER = [case for case in CASES if case[0].__name__ != "product"]
QUICK = ("producer_and_consumer",)
PROGRAMS = {
    **memory_programs.PROGRAMS, **hopper_programs.PROGRAMS, **partition_programs.PROGRAMS,
    **{name: p for name, p in bulk_programs.PROGRAMS.items() if "atomics" not in name},
}  # fmt: skip


@pytest.mark.covering(1)
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize(("kernel", "arguments", "constants", "title", "lines"), OF_HOPPER)
def test_asynchronous_accesses(
    kernel: Any, arguments: Any, constants: dict[str, Any], title: str, lines: tuple[str, str],
    how: str,
) -> None:  # fmt: skip
    given = arguments()
    given = given if isinstance(given, tuple) else (given,)
    with pytest.raises(SanitizerError) as caught:
        launcher(how)(kernel, (1,), *given, **constants, **MODE)
    error, (own, other), file = caught.value, lines, kernel.fn.__code__.co_filename
    began, _, text = other.partition("@")
    assert f"race: {title} in kernel '{kernel.__name__}', program (0, 0, 0), at {file}:" in str(
        error
    )
    assert (error.kind, error.site) == ("races", (file, line_of(kernel, own)))
    assert f"asynchronous {began}{file}:{line_of(kernel, text)}\n    {text}" in str(error)


def partitions(launch: Any, how: str) -> Any:
    out = np.zeros(128, np.float32)
    launch(race_kernel, (1,), out, how=how, LINE=LINE, PLAIN=PLAIN, **MODE)
    return out


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize(("order", "result"), [
    ("write after read", 2), ("apart", 2),
    *(pytest.param(*case, marks=pytest.mark.slow)
      for case in (("read after write", 3), ("only read", 2))),
])  # fmt: skip
def test_partitions_in_order(order: str, result: int, how: str) -> None:
    assert (partitions(launcher(how), order) == result).all()


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize(("order", "accesses"), [
    ("too early", ("load", "store")),
    *(pytest.param(*case, marks=pytest.mark.slow)
      for case in (("none", ("load", "store")), ("write", ("store", "store")))),
])  # fmt: skip
def test_partitions_without_order(order: str, accesses: tuple[str, str], how: str) -> None:
    """Which of the two comes first is not known."""
    with pytest.raises(SanitizerError, match=r"^race: \w+ of shared memory") as caught:
        partitions(launcher(how), order)
    text, file = str(caught.value), __file__.replace("sanitize/test_compiled_shared_races",
                                                     "gluon/test_races")  # fmt: skip
    assert "by partition" in text and "without an mbarrier's order beside the" in text
    assert text.count(file) == 2
    found = (text.split()[1], text.split("beside the ")[1].split()[0])
    assert sorted(found) == sorted(accesses)


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("name", [
    pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in PROGRAMS
])  # fmt: skip
def test_no_report_on_right_programs(
    name: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their results are right, too: with the checks as well, there are the barriers of threads."""
    monkeypatch.setenv("TRITON_INSTRUMENTATION_MODE", "races")
    PROGRAMS[name](launcher(how))


def test_clusters_are_not_watched_and_that_is_said() -> None:
    kernel = compiled(start_kernel, "*i32", {
        "cga": [[1]], "shared": gl.SwizzledSharedLayout(1, 1, 1, [0], cga_layout=[[1]])
    }, num_ctas=2, **MODE)  # fmt: skip
    data = kernel.metadata.sanitizer
    with pytest.warns(UserWarning, match="races: of kernel 'start_kernel' shared memory"):
        checks = Checks(data, ["out"], "start_kernel")
    assert checks.parameters == ["report", *checks.parameters[1:-1], "shadow"]


@gluon.jit
def views(ROWS: gl.constexpr, PAD: gl.constexpr, ODD: gl.constexpr):
    rows: gl.constexpr = gl.BlockedLayout([1, 4], [8, 4], [4, 1], [1, 0])
    ring = gl.allocate_shared_memory(gl.float16, [3, 64, 32], gl.NVMMASharedLayout(64, 16))
    ring.index(1).slice(ROWS, 32).store(gl.zeros([32, 32], gl.float16, rows))
    padded = gl.allocate_shared_memory(gl.float16, [2, 64, 32], PAD)
    padded.index(1).store(gl.zeros([64, 32], gl.float16, rows))
    mixed = gl.allocate_shared_memory(gl.float32, [8, 32], ODD)
    mixed.slice(4, 4).store(gl.zeros([4, 32], gl.float32, rows))


def test_parts_of_memory() -> None:
    """The parts of each piece, found again from the places of its elements one by one."""
    padded = gl.PaddedSharedLayout.with_identity_for([[32, 8]], [64, 32], [1, 0])
    constants = {"ROWS": 32, "PAD": padded, "ODD": gl.SwizzledSharedLayout(4, 2, 4, [0, 1])}
    module = parse_module(compiled(views, "", constants).asm["ttgir"])
    found = []
    for op in (op for op in module.walk() if op.name == "ttg.local_store"):
        type: Any = op.operands[1].type
        unit = unit_of(type)
        found.append((unit, parts_of(type, 2048 if unit == 2048 else 0, unit)))
        if type.allocation_shape() != type.get_shape():
            layout = linear(type.encoding, type.allocation_shape()).inverse()
            rows, columns = np.indices(type.get_shape())
            size = ir.bit_width(type.element_type) // 8
            at = layout.apply({"dim0": rows, "dim1": columns})["offset"] * size
            parts = set((at // unit).ravel().tolist())
            assert parts == set(parts_of(type, 0, unit))
            assert len(parts) * unit == at.size * size  # no byte of others is in them
    assert found[:2] == [(2048, [1]), (4096 + 1024, [0])]
    assert found[2][0] < 512
