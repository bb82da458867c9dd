"""Nested loops that `tl.range(flatten=True)` makes one, evaluated after the passes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tests.support.frontend import compile_kernel
from tritium.backends.nvidia.lower.registrations import hardware
from tritium.backends.nvidia.options import CUDAOptions
from tritium.backends.nvidia.processor import processor
from tritium.backends.nvidia.stages import make_ttgir, make_ttir
from tritium.codegen.gpu.module import shared_bytes
from tritium.ir.printing import print_module
from tritium.ops.evaluation import Evaluator
from tritium.ops.memory import Memory
from tritium.ops.parsing import parse_module
from tritium.ops.scf import ForOp
from tritium.passes import PassManager, pipelines, run_pipeline


def launch(module: Any, name: str, arrays: list[np.ndarray], *scalars: Any, grid: int = 1) -> None:
    memory = Memory([(a.ctypes.data, a.nbytes) for a in arrays])
    arguments = [np.uint64(a.ctypes.data) for a in arrays]
    Evaluator(module, memory).launch(name, [*arguments, *scalars], (grid,))


NEST = """
tt.func public @nest(%p: !tt.ptr<TYPE>, %lo: TYPE, %hi: TYPE, %s: TYPE, %l: TYPE, %u: TYPE, %t: TYPE) {
  %c1 = arith.constant 1 : TYPE
  %c3 = arith.constant 3 : TYPE
  %n, %m = scf.for UNSIGNED %i = %lo to %hi step %s iter_args(%o = %lo, %e = %c3) -> (TYPE, TYPE) : TYPE {
    %before = tt.load %p : !tt.ptr<TYPE>
    %w = arith.addi %before, %i : TYPE
    tt.store %p, %w : !tt.ptr<TYPE>
    %k = arith.muli %i, %c3 : TYPE
    %a, %b, %c, %d = scf.for UNSIGNED %j = %l to %u step %t iter_args(%ka = %o, %kb = %c1, %kc = %k, %kd = %c1) -> (TYPE, TYPE, TYPE, TYPE) : TYPE {
      %x = arith.muli %ka, %c3 : TYPE
      %y = arith.addi %x, %j : TYPE
      %z = arith.xori %kb, %y : TYPE
      %v = tt.load %p : !tt.ptr<TYPE>
      %v2 = arith.addi %v, %kc : TYPE
      %v3 = arith.muli %v2, %c3 : TYPE
      tt.store %p, %v3 : !tt.ptr<TYPE>
      %q = arith.addi %kd, %v3 : TYPE
      %kc2 = arith.addi %kc, %k : TYPE
      scf.yield %y, %z, %kc2, %q : TYPE, TYPE, TYPE, TYPE
    }
    %f = arith.xori %a, %b : TYPE
    %g = arith.addi %f, %c : TYPE
    %g2 = arith.xori %g, %d : TYPE
    %h = tt.load %p : !tt.ptr<TYPE>
    %h2 = arith.addi %h, %g2 : TYPE
    tt.store %p, %h2 : !tt.ptr<TYPE>
    %next = arith.addi %o, %i : TYPE
    scf.yield %next, %g2 : TYPE, TYPE
  } {tt.flatten}
  %old = tt.load %p : !tt.ptr<TYPE>
  %new = arith.addi %old, %n : TYPE
  %newer = arith.xori %new, %m : TYPE
  tt.store %p, %newer : !tt.ptr<TYPE>
  tt.return
}
"""  # noqa: E501

BOUNDS = [
    (0, 3, 1, 0, 4, 1), (0, 3, 1, 0, 0, 1), (2, 2, 1, 0, 4, 1), (5, 2, 1, 0, 4, 1),
    (-7, 9, 4, -3, 8, 5), (0, 1, 1, 7, 8, 1), (1, 100, 33, 5, -5, 2), (3, 9, 5, 120, 127, 100),
    (-128, 127, 100, -128, 127, 90),
]  # fmt: skip


@pytest.mark.covering(1)
@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("unsigned", ["", "unsigned"])
@pytest.mark.parametrize("kind", ["i8", "i32", "i64"])
@pytest.mark.parametrize("constant", [False, True])
def test_fusing_keeps_the_meaning(bounds: Any, unsigned: str, kind: str, constant: bool):
    if unsigned and min(bounds) < 0:
        bounds = tuple(b if b >= 0 else -b // 2 for b in bounds)
    text = NEST.replace("TYPE", kind).replace("UNSIGNED", unsigned)
    if constant:
        for name, value in zip(("l", "u", "t"), bounds[3:], strict=True):
            text = text.replace(f"%{name}: {kind}", f"%{name}_unused: {kind}")
            head, tail = text.split("%c1 =", 1)
            text = f"{head}%{name} = arith.constant {value} : {kind}\n  %c1 ={tail}"
    results = []
    for passes in ("", "fuse-nested-loops", "fuse-nested-loops,canonicalize,cse,licm,dce"):
        module = parse_module(text)
        run_pipeline(module, passes, verify_each=True)
        if passes and not (constant and bounds[3] >= bounds[4]):
            assert "arith.select" in print_module(module)
        dtype = np.dtype(f"int{kind[1:]}")
        array = np.array([7], dtype)
        launch(module, "nest", [array], *(dtype.type(b) for b in bounds))
        results.append(array[0])
    assert results[0] == results[1] == results[2]


@tritium.jit
def persistent(
    a, b, c, m, n, k, PROGRAMS: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
    WALKING: tl.constexpr, SECOND: tl.constexpr,
):  # fmt: skip
    """c = a @ b by programs that stay; WALKING: pointers move along; SECOND: the tile of the
    epilogue is counted apart, as Triton's tutorial does."""
    a, b = tl.multiple_of(a, 16), tl.multiple_of(b, 16)
    n, k = tl.multiple_of(n, 16), tl.multiple_of(k, 16)
    tiles_n = tl.cdiv(n, N)
    tiles = tl.cdiv(m, M) * tiles_n
    depth = tl.arange(0, K)
    other = tl.program_id(0) - PROGRAMS
    for tile in tl.range(tl.program_id(0), tiles, PROGRAMS, flatten=True):
        rows = (tile // tiles_n) * M + tl.arange(0, M)
        columns = (tile % tiles_n) * N + tl.arange(0, N)
        acc = tl.zeros((M, N), tl.float32)
        if WALKING:
            at = a + rows[:, None] * k + depth[None, :]
            bt = b + depth[:, None] * n + columns[None, :]
            for _ in range(tl.cdiv(k, K)):
                acc = tl.dot(tl.load(at), tl.load(bt), acc)
                at += K
                bt += K * n
        else:
            for i in range(tl.cdiv(k, K)):
                d = i * K + depth
                x = tl.load(a + rows[:, None] * k + d[None, :], mask=d[None, :] < k, other=0.0)
                y = tl.load(b + d[:, None] * n + columns[None, :], mask=d[:, None] < k, other=0.0)
                acc = tl.dot(x, y, acc)
        if SECOND:
            other += PROGRAMS
            rows = (other // tiles_n) * M + tl.arange(0, M)
            columns = (other % tiles_n) * N + tl.arange(0, N)
        tl.store(c + rows[:, None] * n + columns[None, :], acc)


def compiled(kernel: Any, capability: int, stages: int, **arguments: Any) -> Any:
    module = compile_kernel(kernel, **arguments)
    passes = [*pipelines.ttir(), *pipelines.ttgir(processor(capability), 4, stages)]
    PassManager(passes, verify_each=True).run(module)
    return module


def pipelined_writers(module: Any) -> list[str]:
    """Loops without loops inside that copy ahead and store."""
    loops = (op for op in module.walk() if isinstance(op, ForOp))
    texts = [[inner.name for inner in loop.body.walk()] for loop in loops]
    texts = [t for t in texts if "tt.store" in t and "scf.for" not in t]
    return [t for t in texts if any("async" in name for name in t)]  # type: ignore


@pytest.mark.covering(1)
@pytest.mark.parametrize("capability, stages", [(80, 2), (90, 3), (90, 4)])
@pytest.mark.parametrize("walking", [False, True])
@pytest.mark.parametrize("second", [False, True])
@pytest.mark.parametrize("k", [128, 0])
def test_a_persistent_product(capability: int, stages: int, walking: bool, second: bool, k: int):
    rng = np.random.default_rng(1)
    m, n, programs = 192, 64, 2
    a = rng.integers(-4, 5, (m, max(k, 1))).astype(np.float16)
    b = rng.integers(-4, 5, (max(k, 1), n)).astype(np.float16)
    c = np.full((m, n), 99, np.float32)
    module = compiled(
        persistent, capability, stages, a=a, b=b, c=c, m=m, n=n, k=64, PROGRAMS=programs, M=64,
        N=32, K=32, WALKING=walking, SECOND=second,
    )  # fmt: skip
    assert len(pipelined_writers(module)) == 1, print_module(module, locations=False)
    sizes = [np.int32(v) for v in (m, n, k)]
    launch(module, "persistent", [a, b, c], *sizes, grid=programs)
    wanted = a.astype(np.float32) @ b.astype(np.float32) if k else np.zeros((m, n))
    np.testing.assert_array_equal(c, wanted)


def test_a_product_in_flight_is_waited_for_where_it_is_stored():
    a = b = np.zeros((64, 64), np.float16)
    module = compiled(
        persistent, 90, 3, a=a, b=b, c=np.zeros((64, 64), np.float32), m=192, n=64, k=64,
        PROGRAMS=2, M=64, N=64, K=64, WALKING=False, SECOND=False,
    )  # fmt: skip
    text = print_module(module, locations=False)
    loop = text[text.index("ttng.warp_group_dot ") :]
    waits = [loop.index(f"{{pendings = {n} : i32}}") for n in (1, 0)]
    store = loop.index("tt.store")
    assert loop.index("isAsync = true") < waits[0] < waits[1] < store
    assert waits[0] < loop.index("ttg.async_copy_global_to_local") < waits[1]


@tritium.jit
def in_place(a, b, n, N: tl.constexpr):
    """Each turn multiplies what the one before has stored."""
    r = tl.arange(0, N)
    at = a + r[:, None] * N + r[None, :]
    for _ in tl.range(0, n, flatten=True):
        acc = tl.zeros((N, N), tl.float32)
        for _ in range(2):
            acc = tl.dot(tl.load(at), tl.load(b + r[:, None] * N + r[None, :]), acc)
        tl.store(at, acc.to(tl.float16))


def test_loads_do_not_overtake_stores_to_the_same_argument():
    rng = np.random.default_rng(1)
    a = rng.integers(0, 2, (32, 32)).astype(np.float16)
    b = np.eye(32, dtype=np.float16)[:, ::-1].copy()
    module = compiled(in_place, 90, 3, a=a, b=b, n=3, N=32)
    assert not pipelined_writers(module)
    wanted = a
    for _ in range(3):
        wanted = 2 * (wanted @ b)
    launch(module, "in_place", [a, b], np.int32(3))
    np.testing.assert_array_equal(a, wanted)


@pytest.mark.parametrize("n, flat", [(64, True), (256, False)])
def test_a_loop_is_not_fused_where_shared_memory_does_not_suffice(n: int, flat: bool):
    """Buffers of early loads live beside the epilogue's scratch, which else has the same place."""
    a = b = np.zeros((256, 256), np.float16)
    module = compile_kernel(
        persistent, a=a, b=b, c=np.zeros((256, 256), np.float32), m=256, n=256, k=256, PROGRAMS=2,
        M=128, N=n, K=64, WALKING=False, SECOND=False,
    )  # fmt: skip
    options = CUDAOptions(num_warps=8, num_stages=3)
    module = make_ttgir(make_ttir(module, {}), {}, 90, options)
    assert bool(pipelined_writers(module)) == flat
    assert shared_bytes(module, hardware(90)) <= hardware(90).max_shared
    assert "ttg.async_copy_global_to_local" in print_module(module)
