"""Shared memory in partitions, 64 KiB apart (gfx1250)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.gluon.amd.tensor_mover import LDS, run
from tests.gluon.amd.test_programs import compiled
from tests.gluon.amd.test_tensors import barrier_kernel, move_kernel
from tests.gluon.support import launcher
from tritium.errors import CompilationError
from tritium.experimental import gluon
from tritium.experimental.gluon import language as gl
from tritium.experimental.gluon.language.amd import cdna5, gfx1250
from tritium.ir.layouts.encodings import linear
from tritium.ops.parsing import parse_module

PLAIN = gl.SwizzledSharedLayout(1, 1, 1, [1, 0])
Partitioned = cdna5.PartitionedSharedLayout


def layout(shape: list[int], groups: int, axis: int, padded: bool = True) -> Partitioned:
    piece = [n // (2 * groups) if i == axis else n for i, n in enumerate(shape)]
    inner = gl.PaddedSharedLayout.with_identity_for([[piece[1], 8]], piece, [1, 0])
    return Partitioned(2, groups, axis, inner if padded else PLAIN)


LAYOUTS = {
    "rows": layout([64, 64], 1, 0), "groups": layout([64, 64], 2, 0),
    "columns": layout([64, 64], 1, 1), "many": layout([64, 64], 8, 0, padded=False),
}  # fmt: skip


@gluon.jit
def turn_kernel(src, out, rows: gl.constexpr, columns: gl.constexpr, shared: gl.constexpr,
                PLAIN: gl.constexpr):
    """Two buffers, written in one layout and read in another; and a view of one."""
    i = gl.arange(0, 64, gl.SliceLayout(1, rows))[:, None]
    j = gl.arange(0, 64, gl.SliceLayout(0, rows))[None, :]
    memory = gl.allocate_shared_memory(gl.float16, [2, 64, 64], shared)
    other = gl.allocate_shared_memory(gl.float16, [64, 64], PLAIN)
    x = gl.load(src + i * 64 + j)
    memory.index(0).store(x)
    memory.index(1).store(x + x)
    other.store(x + x + x)
    a = memory.index(0).load(columns) + memory.index(1).load(columns) + other.load(columns)
    b = memory.index(1).permute((1, 0)).load(columns)
    i = gl.arange(0, 64, gl.SliceLayout(1, columns))[:, None]
    j = gl.arange(0, 64, gl.SliceLayout(0, columns))[None, :]
    gl.store(out + i * 64 + j, a)
    gl.store(out + 4096 + i * 64 + j, b)


TURN: dict[str, Any] = {
    "PLAIN": PLAIN,
    "rows": gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0]),
    "columns": gl.BlockedLayout([4, 1], [16, 2], [1, 4], [0, 1]),
}


@pytest.mark.parametrize("how", ["interpreted", "simt"])
@pytest.mark.parametrize("case", LAYOUTS)
def test_stores_and_loads(case: str, how: str) -> None:
    src = np.random.default_rng(4).integers(-9, 9, (64, 64)).astype(np.float16)
    out = np.zeros((2, 64, 64), np.float16)
    launcher(how)(turn_kernel, (1,), src, out, shared=LAYOUTS[case], **TURN)
    np.testing.assert_array_equal(out[0], 6 * src)
    np.testing.assert_array_equal(out[1], 2 * src.T)


@pytest.mark.every(2)
@pytest.mark.covering(1)
@pytest.mark.parametrize("case", LAYOUTS)
def test_places(case: str) -> None:
    """The memory between partitions is used."""
    kernel = compiled(turn_kernel, "*fp16 *fp16", {**TURN, "shared": LAYOUTS[case]}, "gfx1250")
    padding = 0 if case == "many" else 1024 if case == "columns" else 512
    assert kernel.metadata.shared == 65536 + 8192 + 2 * padding
    text = kernel.asm["ttgir"]
    assert "ttg.partitioned_shared" in text
    assert str(parse_module(text)) == str(parse_module(str(parse_module(text))))
    encoding = LAYOUTS[case].to_encoding()
    assert linear(encoding, (64, 64)).is_surjective


@pytest.mark.covering(1)
@pytest.mark.parametrize("case", LAYOUTS)
@pytest.mark.parametrize("at", [(0, 0), (70, 56)])
def test_copies(case: str, at: tuple[int, int]) -> None:
    shared = LAYOUTS[case]
    src = np.arange(100 * 80, dtype=np.float16).reshape(100, 80)
    out, wanted = np.zeros_like(src), np.zeros_like(src)
    launcher("interpreted")(move_kernel, (1,), src, wanted, 100, 80, *at, shared=shared)
    kernel = compiled(move_kernel, "*fp16 *fp16 i32 i32 i32 i32", {"shared": shared}, "gfx1250")
    mover = run(kernel, [src, out, 100, 80, *at])
    np.testing.assert_array_equal(out, wanted)
    assert wanted.any()
    count = kernel.asm["amdgcn"].count("tensor_load_to_lds")
    assert count == (4 if case == "many" else 1)
    if at == (0, 0) and case == "many":  # the pieces of four rows are in the partitions in turn
        for piece in range(16):
            place = (piece % 2 << 16) + piece // 2 * 512
            there = mover.lds[place : place + 512].view(np.float16).reshape(4, 64)
            np.testing.assert_array_equal(there, src[4 * piece : 4 * piece + 4, :64])
    assert LDS % 65536 == 0


def test_arrivals() -> None:
    inner = gl.SwizzledSharedLayout(1, 1, 1, [2, 1, 0])
    constants = {"BLOCK": [4, 8, 16], "hint": 0b0011, "shared": Partitioned(2, 4, 1, inner)}
    src = np.arange(8 * 10 * 12, dtype=np.float32).reshape(8, 10, 12)
    out, wanted = np.zeros_like(src), np.zeros_like(src)
    constants["arrivals"] = 8
    launcher("interpreted")(barrier_kernel, (1,), src, wanted, 10, 12, **constants)
    kernel = compiled(barrier_kernel, "*fp32 *fp32 i32 i32", constants, "gfx1250")
    assert [*run(kernel, [src, out, 10, 12]).arrivals.values()] == [8]
    np.testing.assert_array_equal(out, wanted)


SIZES = {
    "plain": (128, 128, 64, 4, [16, 16, 32], {}),
    "eight": (256, 256, 64, 8, [16, 16, 32], {}),
    "sliced": (256, 128, 32, 4, [16, 16, 32], {"slice_m": 128, "slice_n": 64}),
    "turned": (256, 128, 32, 8, [16, 16, 64],
               {"a_transposed": True, "b_transposed": True, "transposed": False}),
}  # fmt: skip


def dot_layouts(case: str) -> Any:
    m, n, k, warps, instruction, options = SIZES[case]
    left, right = [m, k], [k, n]
    left = left[::-1] if options.get("a_transposed") else left
    right = right[::-1] if options.get("b_transposed") else right
    a, b = (gl.PaddedSharedLayout.with_identity_for([[shape[1], 8]], shape, [1, 0])
            for shape in (left, right))  # fmt: skip
    return cdna5.make_partitioned_dot_layouts(m, n, a, b, warps, instruction, **options)


def test_layouts_of_products() -> None:
    a, b, result = dot_layouts("plain")
    assert (a.num_groups, a.partition_dim, a.partition_layout.shape) == (1, 0, [64, 64])
    assert (b.num_groups, b.partition_dim, b.partition_layout.shape) == (1, 1, [64, 64])
    assert result.warp_bases == [[4, 4], [2, 0]]
    assert result.reg_bases == [[0, 1], [0, 2], [1, 0], [4, 0]]
    a, b, result = dot_layouts("sliced")
    assert (a.num_groups, b.num_groups) == (2, 2)
    assert (result.warp_bases, result.reg_bases) == ([[4, 2], [2, 0]], [[0, 1], [1, 0], [4, 0]])
    a, b, result = dot_layouts("turned")
    assert (a.partition_dim, b.partition_dim, result.transposed) == (1, 0, False)
    assert result.warp_bases == [[8, 4], [4, 0], [8, 0]]
    _, _, result = dot_layouts("eight")
    assert result.warp_bases == [[8, 8], [4, 0], [8, 0]] and [8, 0] not in result.reg_bases
    assert gfx1250.make_partitioned_dot_layouts is cdna5.make_partitioned_dot_layouts


def test_warps_read_from_different_partitions() -> None:
    """Warps whose numbers differ in the first bit have rows of the two partitions."""
    for case in SIZES:
        a, _, result = dot_layouts(case)
        rows = 128 if case == "sliced" else SIZES[case][0]
        found = linear(result.to_encoding(), (rows, SIZES[case][1]))
        first = found.bases("warp")[0]
        assert first[0] == rows // 2, a
        assert found.is_surjective and not any(found.free_variables().values())


@pytest.mark.parametrize(("changed", "message"), [
    ({"num_warps": 2}, "num_warps is 2; 4 or 8 is required"),
    ({"instr_shape": [8, 16, 64]}, r"instrShape is \(8, 16\); \(16, 16\) or \(32, 16\) is"),
    ({"slice_m": 32}, "a part of 32 along M, of 128; a power of two that divides it, 64 or more"),
    ({"slice_n": 96}, "a part of 96 along N, of 128; a power of two that divides it, 32 or more"),
])  # fmt: skip
def test_sizes_without_such_layouts(changed: dict[str, Any], message: str) -> None:
    plain = gl.PaddedSharedLayout.with_identity_for([[64, 8]], [128, 64], [1, 0])
    given = {"num_warps": 4, "instr_shape": [16, 16, 32], **changed}
    with pytest.raises(ValueError, match=message):
        cdna5.make_partitioned_dot_layouts(128, 128, plain, plain, **given)


@pytest.mark.parametrize(("arguments", "message"), [
    ((3, 1, 0), "numPartitions is 3; a power of two is required"),
    ((2, 1, 2), "partitionDim is 2; 0 to 1 is required"),
])  # fmt: skip
def test_wrong_layouts(arguments: tuple[int, int, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Partitioned(*arguments, PLAIN)


@gluon.jit
def large_kernel(shared: gl.constexpr):
    gl.allocate_shared_memory(gl.float32, [256, 256], shared)


def test_partitions_that_are_too_large() -> None:
    shared = Partitioned(2, 1, 0, PLAIN)
    with pytest.raises(CompilationError, match=r"131072 bytes in a partition; 65536 are the most"):
        compiled(large_kernel, "", {"shared": shared}, "gfx1250")
