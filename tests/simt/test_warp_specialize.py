"""Loops split among warps, executed on the CPU: what partitions compute, the barriers that their
code needs, and warps that wait for ever."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.simt import rules as rules
from tests.simt.backend.compiler import run_ttgir
from tests.simt.engine import descriptor
from tests.simt.hardware import Simt
from tests.simt.machine import KernelFailure
from tests.support import split_loops
from tests.support.warp_specialize import attended, attention, launch, product, random, split
from tritium.launch.scalars import extract_scalar
from tritium.ops.ttgir import ArriveBarrierOp, AsyncCopyGlobalToLocalOp, WaitBarrierOp


def run(
    module: Any, num_warps: int, grid: tuple[int, ...], arrays: Sequence[np.ndarray], *rest: Any,
    dropped: frozenset[int] = frozenset(), last_warp_first: bool = False,
) -> int:  # fmt: skip
    """Run a kernel that takes descriptors of arrays; the number of its barriers."""
    kept = [descriptor(array) for array in arrays]
    slots: list[Any] = []
    for array, made in zip(arrays, kept, strict=True):
        strides = [step // array.itemsize for step in array.strides]
        slots += [made.ctypes.data, *array.shape, *strides]
    for value in rest:
        kind = {np.int32: "i32", np.float32: "fp32"}.get(type(value), "")
        slots.append(value.ctypes.data if isinstance(value, np.ndarray) and value.ndim
                     else extract_scalar(value.item(), 0, "", kind))  # fmt: skip
    hardware = Simt(32, dropped)
    run_ttgir(module, num_warps, slots, grid, hardware, last_warp_first)
    return hardware.barriers.count


@pytest.mark.covering(1)
@pytest.mark.parametrize("last_warp_first", [False, True])
@pytest.mark.parametrize("depth", [0, 16, 200])
@pytest.mark.parametrize("num_warps,num_stages", [(4, 2), (8, 3)])
@pytest.mark.parametrize("name,grid", [("matmul_blocks", 4), ("persistent", 3), ("halves", 3)])
def test_products(
    name: str, grid: int, num_warps: int, num_stages: int, depth: int, last_warp_first: bool
) -> None:
    m, n = 200, 100
    a, b = random(m, max(depth, 8)), random(n, max(depth, 8), seed=1)
    c = np.zeros((m, n), np.float16)
    module = product(name, num_warps, num_stages)
    run(module, num_warps, (grid,), [a, b, c], *map(np.int32, (m, n, depth)),
        last_warp_first=last_warp_first)  # fmt: skip
    want = a[:, :depth].astype(np.float64) @ b[:, :depth].T.astype(np.float64)
    np.testing.assert_allclose(c.astype(np.float64), want, 2e-2, 2e-2)


@pytest.mark.every(2)
@pytest.mark.covering(1)
@pytest.mark.parametrize("last_warp_first", [False, True])
@pytest.mark.parametrize(
    "causal,num_warps,depth", [(False, 4, 32), (True, 8, 32), (False, 8, 128), (True, 8, 128)]
)
def test_attention(causal: bool, num_warps: int, depth: int, last_warp_first: bool) -> None:
    length, scale = 256, np.float32(0.25)
    q, k, v = (random(length, depth, seed=i) for i in range(3))
    out, top = np.zeros_like(q), np.zeros(length, np.float32)
    module = attention(causal, num_warps, depth=depth)
    run(module, num_warps, (length // 128, 1), [q, k, v, out], top, np.int32(length), scale,
        last_warp_first=last_warp_first)  # fmt: skip
    want = attended(q, k, v, scale, causal)
    np.testing.assert_allclose(out.astype(np.float64), want, 1e-2, 1e-2)


def small_product(module: Any, **options: Any) -> int:
    """Run a product of several iterations and check it."""
    a, b, c = random(128, 160), random(64, 160, seed=1), np.zeros((128, 64), np.float16)
    count = run(module, 4, (1,), [a, b, c], *map(np.int32, (128, 64, 160)), **options)
    want = a.astype(np.float64) @ b.T.astype(np.float64)
    np.testing.assert_allclose(c.astype(np.float64), want, 2e-2, 2e-2)
    return count


def test_warps_that_wait_for_ever_are_named() -> None:
    module = product("matmul_blocks", 4, 2)
    small_product(module)
    in_loop: Any = next(op for op in module.walk() if isinstance(op, ArriveBarrierOp))
    in_loop.parent.erase_op(in_loop)
    message = r"warps wait for ever: warps 0, 1, 2, 3, 4 at an mbarrier \(.*kernels.py:\d+\)"
    with pytest.raises(KernelFailure, match=message):
        small_product(module)


@pytest.mark.every(2)
@pytest.mark.parametrize("number", [1, 3])
def test_waits_between_loops_that_share_buffers_are_needed(number: int) -> None:
    """Without the wait of the consumer, or that of the producer, in the second of two loops that
    use the same buffers, results are wrong or warps wait for ever."""
    shape = split_loops.SHAPE
    m, n, k = shape.values()
    signature = f"tensordesc<fp16[{m},{k}]> tensordesc<fp16[{n},{k}]> tensordesc<fp16[{m},{n}]> i32"
    a, b = random(m, 6 * k), random(n, 6 * k, seed=1)
    want = split_loops.RESULTS["two_loops"](a.astype(np.float64), b.astype(np.float64))

    def wrong(removed: int | None, last_warp_first: bool) -> bool:
        module = split(split_loops.two_loops, signature, shape, 4, 2)
        waits: list[Any] = [op for op in module.walk() if isinstance(op, WaitBarrierOp)]
        assert len(waits) == 4
        if removed is not None:
            waits[removed].parent.erase_op(waits[removed])
        c = np.zeros(want.shape, np.float16)
        try:
            run(module, 4, (1,), [a, b, c], np.int32(6), last_warp_first=last_warp_first)
        except KernelFailure:
            return True
        return not np.allclose(c.astype(np.float64), want, 2e-2, 4e-2)

    assert not wrong(None, False)
    assert wrong(number, False) or wrong(number, True)


def test_an_arrival_too_many_is_found() -> None:
    module = product("matmul_blocks", 4, 2)
    arrival: Any = next(op for op in module.walk() if isinstance(op, ArriveBarrierOp))
    again = arrival.clone()
    arrival.parent.insert_op_after(again, arrival)
    with pytest.raises(KernelFailure, match=r"wait for ever|more arrivals than a phase"):
        small_product(module)


def test_barriers_of_regions_are_needed() -> None:
    """Without any one of the barriers where partitions begin and end, or of the epilogue, results
    are wrong or warps wait for ever. Those between the initializations of mbarriers are not
    needed: one thread does these."""
    count, found = small_product(product("matmul_blocks", 4, 2)), list[int]()
    for number in range(count):
        for reverse in (False, True):
            module = product("matmul_blocks", 4, 2)
            try:
                small_product(module, dropped=frozenset({number}), last_warp_first=reverse)
            except (AssertionError, KernelFailure):
                found.append(number)
                break
    assert found[-2:] == [count - 2, count - 1] and len(found) >= 4


@pytest.mark.covering(1)
@pytest.mark.parametrize("num_warps,num_stages", [(1, 2), (4, 3), (8, 4)])
@pytest.mark.parametrize("last_warp_first", [None, False, True])
@pytest.mark.parametrize("name", split_loops.RESULTS)
def test_loops(name: str, last_warp_first: bool | None, num_warps: int, num_stages: int) -> None:
    """In the reference semantics (None), and on the CPU with warps in either order."""
    shape = split_loops.SHAPE
    blocks = (("BM", "BK"), ("BN", "BK"), ("BM", "BN"))
    signature = " ".join(f"tensordesc<fp16[{shape[r]},{shape[c]}]>" for r, c in blocks)
    kernel = getattr(split_loops, name)
    module = split(kernel, f"{signature} i32", shape, num_warps, num_stages,
                   3 if name == "after_a_return" else 1)  # fmt: skip
    columns = shape["BK"] * split_loops.ITERATIONS
    a, b = random(shape["BM"], columns), random(shape["BN"], columns, seed=1)
    want = split_loops.RESULTS[name](a.astype(np.float64), b.astype(np.float64))
    c, count = np.zeros(want.shape, np.float16), np.int32(split_loops.ITERATIONS)
    if last_warp_first is None:
        launch(module, (2,), [a, b, c], count)
    else:
        run(module, num_warps, (2,), [a, b, c], count, last_warp_first=last_warp_first)
    np.testing.assert_allclose(c.astype(np.float64), want, 2e-2, 4e-2)


@pytest.mark.parametrize("num_warps,num_stages", [(4, 3), (8, 2)])
def test_loads_by_pointers(num_warps: int, num_stages: int) -> None:
    """Copies that the consumer starts ahead itself, into memory that products read."""
    shape = split_loops.SHAPE
    blocks = (("BN", "BK"), ("BM", "BN"))
    described = " ".join(f"tensordesc<fp16[{shape[r]},{shape[c]}]>" for r, c in blocks)
    module = split(split_loops.by_pointers, f"{described} *fp16 i32", shape, num_warps, num_stages)
    assert any(isinstance(op, AsyncCopyGlobalToLocalOp) for op in module.walk())
    columns = shape["BK"] * split_loops.ITERATIONS
    a, b = random(columns, shape["BM"]), random(shape["BN"], columns, seed=1)
    want = a.T.astype(np.float64) @ b.T.astype(np.float64)
    for execute in (launch, run):
        c, how = np.zeros(want.shape, np.float16), () if execute is launch else (num_warps,)
        execute(module, *how, (1,), [b, c], a, np.int32(split_loops.ITERATIONS))
        np.testing.assert_allclose(c.astype(np.float64), want, 2e-2, 4e-2)
