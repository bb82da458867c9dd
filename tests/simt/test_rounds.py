"""Changes of layout in rounds, executed: kernels for which shared memory is too small for one."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np
import pytest

from tests.simt.backend import installed
from tests.simt.backend.compiler import run_ttgir
from tests.simt.hardware import Simt
from tritium.codegen.gpu.memory.frames import fitted_frames
from tritium.ops.parsing import parse_module


@pytest.fixture(autouse=True)
def _installed() -> Generator[None]:
    with installed():
        yield


def blocked(per_thread: str, threads: str, warps: str, order: str) -> str:
    return (
        f"#ttg.blocked<{{sizePerThread = [{per_thread}], threadsPerWarp = [{threads}], "
        f"warpsPerCTA = [{warps}], order = [{order}]}}>"
    )


ROWS = blocked("1, 4", "1, 32", "4, 1", "1, 0")
COLUMNS = blocked("4, 1", "32, 1", "1, 4", "0, 1")
LAYOUTS = {
    "transposed": (ROWS, COLUMNS),
    "blocks": (blocked("1, 8", "4, 8", "2, 2", "1, 0"), blocked("8, 1", "8, 4", "2, 2", "0, 1")),
    "product": (
        "#ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [4, 1], "
        "instrShape = [16, 8]}>", ROWS,
    ),
}  # fmt: skip
KERNEL = """
#source = {source}
#result = {result}
module attributes {{"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32,
                    ttg.target = "simt:{lanes}", "ttg.threads-per-warp" = {lanes} : i32}} {{
  tt.func public @moved(%x: !tt.ptr<{kind}>, %out: !tt.ptr<{kind}>) {{
{start}
    %a = tt.load %from : tensor<{m}x{n}x!tt.ptr<{kind}>, #source>
    %b = ttg.convert_layout %a : tensor<{m}x{n}x{kind}, #source> -> tensor<{m}x{n}x{kind}, #result>
    tt.store %to, %b : tensor<{m}x{n}x!tt.ptr<{kind}>, #result>
    tt.return
  }}
}}
"""


def places(name: str, pointer: str, encoding: str, m: int, n: int, kind: str) -> str:
    """Pointers to the elements of a row-major array."""
    i32, row, column = f"tensor<{m}x{n}xi32, {encoding}>", 1, 0
    return f"""
    %r{name} = tt.make_range {{end = {m} : i32, start = 0 : i32}}
        : tensor<{m}xi32, #ttg.slice<{{dim = {row}, parent = {encoding}}}>>
    %e{name} = tt.expand_dims %r{name} {{axis = 1 : i32}}
        : tensor<{m}xi32, #ttg.slice<{{dim = {row}, parent = {encoding}}}>>
        -> tensor<{m}x1xi32, {encoding}>
    %n{name} = arith.constant dense<{n}> : tensor<{m}x1xi32, {encoding}>
    %s{name} = arith.muli %e{name}, %n{name} : tensor<{m}x1xi32, {encoding}>
    %c{name} = tt.make_range {{end = {n} : i32, start = 0 : i32}}
        : tensor<{n}xi32, #ttg.slice<{{dim = {column}, parent = {encoding}}}>>
    %f{name} = tt.expand_dims %c{name} {{axis = 0 : i32}}
        : tensor<{n}xi32, #ttg.slice<{{dim = {column}, parent = {encoding}}}>>
        -> tensor<1x{n}xi32, {encoding}>
    %g{name} = tt.broadcast %s{name} : tensor<{m}x1xi32, {encoding}> -> {i32}
    %h{name} = tt.broadcast %f{name} : tensor<1x{n}xi32, {encoding}> -> {i32}
    %i{name} = arith.addi %g{name}, %h{name} : {i32}
    %p{name} = tt.splat {pointer} : !tt.ptr<{kind}> -> tensor<{m}x{n}x!tt.ptr<{kind}>, {encoding}>
    %{name} = tt.addptr %p{name}, %i{name} : tensor<{m}x{n}x!tt.ptr<{kind}>, {encoding}>, {i32}
"""


def module_of(name: str, shape: tuple[int, int], kind: str, lanes: int) -> Any:
    (m, n), (source, result) = shape, LAYOUTS[name]
    start = places("from", "%x", "#source", m, n, kind) + places("to", "%out", "#result", m, n,
                                                                  kind)  # fmt: skip
    return parse_module(KERNEL.format(source=source, result=result, m=m, n=n, kind=kind,
                                      start=start, lanes=lanes))  # fmt: skip


@pytest.mark.covering(1)
@pytest.mark.parametrize("kind", ["f32", "f16"])
@pytest.mark.parametrize("shape", [(64, 128), (128, 128)])
@pytest.mark.parametrize("rounds", [1, 2, 3])
@pytest.mark.parametrize("name", ["transposed", "blocks", "product"])
def test_elements_arrive(name: str, shape: tuple[int, int], kind: str, rounds: int) -> None:
    module, size = module_of(name, shape, kind, 32), np.dtype({"f32": "f4", "f16": "f2"}[kind])
    hardware = Simt(32, max_shared=shape[0] * shape[1] * size.itemsize >> rounds)
    kernel = next(iter(module.ops))
    found = fitted_frames([kernel], kernel, hardware)
    assert list(found.rounds.values()) == [rounds] and found.size == hardware.max_shared
    x = np.arange(shape[0] * shape[1]).astype(f"u{size.itemsize}").view(size)
    out = np.zeros_like(x)
    run_ttgir(module, 4, [x.ctypes.data, out.ctypes.data], (1, 1, 1), hardware)
    assert x.tobytes() == out.tobytes()


def test_one_round_where_there_is_room() -> None:
    module = module_of("transposed", (64, 128), "f32", 32)
    kernel = next(iter(module.ops))
    assert not fitted_frames([kernel], kernel, Simt(32)).rounds
