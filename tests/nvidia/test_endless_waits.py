"""Programs that wait for phases of barriers that never end are refused, at their own lines."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

import tritium
from tests.nvidia.support import kernel_text, lowered
from tritium.errors import CompilationError
from tritium.experimental.gluon._runtime import GluonASTSource
from tritium.target import GPUTarget

HEAD = """
#shared = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
#smem = #ttg.shared_memory
"""
KIND = "!ttg.memdesc<1xi64, #shared, #smem, mutable>"
RING = "!ttg.memdesc<2x1xi64, #shared, #smem, mutable>"


def arrive(times: int = 1) -> str:
    return f"ttng.arrive_barrier %b, {times} : {KIND}"


def wait(phase: int) -> str:
    return f"ttng.wait_barrier %b, %p{phase} : {KIND}"


def repeated(op: str) -> str:
    return f"scf.for %i = %p0 to %n step %p1 : i32 {{\n{op}\n}}"


def text_of(count: int, *ops: str) -> str:
    body = "\n".join([
        "%p0 = arith.constant 0 : i32", "%p1 = arith.constant 1 : i32",
        f"%b = ttg.local_alloc : () -> {KIND}", f"ttng.init_barrier %b, {count} : {KIND}", *ops,
    ])  # fmt: skip
    return kernel_text(body, "%n: i32", head=HEAD)


@pytest.mark.parametrize("count,ops,why", [
    (1, [wait(0)], "nothing arrives"),
    (1, [repeated(wait(0))], "nothing arrives"),
    (2, [arrive(), wait(0)], "at least 1 phase .* takes 2 arrivals, and there is 1"),
    (1, [arrive(), wait(0), wait(0), wait(1)], "at least 2 phases .* 1 arrival, and there is 1"),
    (1, [arrive(), wait(0), arrive(), wait(1), wait(0)], "at least 3 phases .* there are 2 in all"),
    (4, [arrive(2), arrive(1), wait(0)], "4 arrivals, and there are 3 in all"),
])  # fmt: skip
def test_phases_that_never_end(count: int, ops: list[str], why: str) -> None:
    with pytest.raises(CompilationError, match=f"ttng.wait_barrier: .*{why}.* wait for ever"):
        lowered(text_of(count, *ops))


@pytest.mark.parametrize("count,ops", [
    (1, [wait(1)]),  # passes at once
    (2, [arrive(), arrive(), wait(0)]),
    (2, [repeated(arrive()), wait(0)]),
    (1, [arrive(), wait(0), wait(0)]),
    (1, [arrive(2), wait(0), wait(1)]),
    (1, [arrive(), repeated(f"{wait(0)}\n{wait(1)}"), repeated(arrive())]),
])  # fmt: skip
def test_phases_that_may_end(count: int, ops: list[str]) -> None:
    lowered(text_of(count, *ops))


def test_barriers_of_a_ring_are_not_one() -> None:
    """Each of the two ends one phase, which is waited for."""
    body = [f"%r = ttg.local_alloc : () -> {RING}"]
    body += [f"%p{i} = arith.constant {i} : i32" for i in (0, 1)]
    for i in (0, 1):
        body.append(f"%b{i} = ttg.memdesc_index %r[%p{i}] : {RING} -> {KIND}")
        body += [f"ttng.init_barrier %b{i}, 1 : {KIND}", f"ttng.arrive_barrier %b{i}, 1 : {KIND}"]
    body += [f"ttng.wait_barrier %b{i}, %p0 : {KIND}" for i in (0, 1)]
    lowered(kernel_text("\n".join(body), "%n: i32", head=HEAD))


PROGRAM = """
from tritium.experimental import gluon
from tritium.experimental.gluon import language as gl
from tritium.experimental.gluon.language.nvidia.hopper import mbarrier


@gluon.jit
def waits(bar):
    mbarrier.wait(bar, 0)


@gluon.jit
def arrives(bar):
    mbarrier.arrive(bar, count=1)


@gluon.jit
def kernel(workers: gl.constexpr, count: gl.constexpr):
    bar = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(bar, count=count)
    gl.warp_specialize([(waits, (bar,)), (arrives, (bar,))], [workers], [24])
"""


@pytest.mark.parametrize("workers,count,line,message", [
    (1, 2, "    mbarrier.wait(bar, 0)\n    ^", "takes 2 arrivals, and there is 1 in all"),
    (32, 1, "    gl.warp_specialize(", r"36 warps \(4 \+ 32"),
])  # fmt: skip
def test_the_line_is_shown(
    workers: int, count: int, line: str, message: str, tmp_path: Path, fresh_cache: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    (tmp_path / f"waiting{workers}.py").write_text(PROGRAM)
    monkeypatch.syspath_prepend(str(tmp_path))
    program = importlib.import_module(f"waiting{workers}")
    constants = {"workers": workers, "count": count}
    source = GluonASTSource(program.kernel, dict.fromkeys(constants, "constexpr"), constants)
    with pytest.raises(CompilationError, match=message) as caught:
        tritium.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})
    assert line in str(caught.value) and f"waiting{workers}.py:" in str(caught.value)
