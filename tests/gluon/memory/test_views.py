"""Views of memory and of blocks: slices of buffers, slices that are seen otherwise, axes of size 1,
and layouts by their bases."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from tests.gluon.support import compiled, launcher
from tritium.errors import CompilationError, InterpreterError
from tritium.experimental import gluon
from tritium.experimental.gluon import language as gl
from tritium.experimental.gluon.language.nvidia.blackwell import (
    TensorMemoryLayout,
    TensorMemoryScalesLayout,
    allocate_tensor_memory,
)

TILE = gl.constexpr(gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0]))
SWIZZLED = gl.SwizzledSharedLayout(4, 1, 8, [1, 0])
PADDED = gl.PaddedSharedLayout.with_identity_for([[32, 4]], [32, 32], [1, 0])
DATA = np.arange(5 * 1024, dtype=np.int32).reshape(5, 32, 32)


@gluon.jit
def places(rows: gl.constexpr, columns: gl.constexpr):
    down = gl.arange(0, rows, gl.SliceLayout(1, TILE))[:, None] * columns
    return down + gl.arange(0, columns, gl.SliceLayout(0, TILE))[None, :]


@gluon.jit
def ring_kernel(
    out, layout: gl.constexpr, first: gl.constexpr, count: gl.constexpr, column: gl.constexpr,
    number: gl.constexpr,
):  # fmt: skip
    memory = gl.allocate_shared_memory(gl.int32, [5, 32, 32], layout)
    for n in gl.static_range(5):
        memory.index(n).store(places(32, 32) + 1024 * n)
    part = memory.slice(first, count)
    columns: gl.constexpr = 32 if column is None else 16
    if column is not None:
        part = part.slice(column, 16, dim=2)
    gl.store(out + places(32, columns), part.index(number).load(TILE))


@pytest.mark.covering(1)
@pytest.mark.parametrize("how", ["interpreted", "engine"])
@pytest.mark.parametrize(("layout", "first", "count", "column", "number"), [
    (SWIZZLED, 0, 5, None, 3), (SWIZZLED, 1, 3, None, 2), (SWIZZLED, 3, 2, 16, 1),
    (PADDED, 1, 3, 16, 2), (gl.NVMMASharedLayout(128, 32, 2), 2, 3, 16, 0),
])  # fmt: skip
def test_slices_of_buffers(
    layout: Any, first: int, count: int, column: int | None, number: int, how: str
) -> None:
    whole = DATA[first + number]
    wanted = whole if column is None else whole[:, column : column + 16]
    out = np.zeros(wanted.size, np.int32)
    launcher(how)(ring_kernel, (1,), out, layout=layout, first=first, count=count, column=column,
                  number=number)  # fmt: skip
    np.testing.assert_array_equal(out.reshape(wanted.shape), wanted)


@gluon.jit
def run_kernel(
    out, layout: gl.constexpr, first: gl.constexpr, axis: gl.constexpr, bytes: gl.constexpr
):
    memory = gl.allocate_shared_memory(gl.int32, [32, 32], layout, places(32, 32))
    part = memory.slice(first, 16, dim=axis)
    if bytes:
        part = part.reinterpret(gl.int32, [16, 32], layout)
    else:
        part = part.reshape([512]).reshape([16, 32])
    gl.store(out + places(16, 32), part.load(TILE))


@pytest.mark.covering(1)
@pytest.mark.parametrize("how", ["interpreted", "engine"])
@pytest.mark.parametrize("bytes", [True, False])
@pytest.mark.parametrize("layout", [SWIZZLED, gl.NVMMASharedLayout(128, 32, 2)])
def test_slices_that_are_seen_otherwise(layout: Any, bytes: bool, how: str) -> None:
    """Rows lie behind each other, columns have others between them."""
    for first in (0, 16):
        out = np.zeros((16, 32), np.int32)
        launcher(how)(run_kernel, (1,), out, layout=layout, first=first, axis=0, bytes=bytes)
        np.testing.assert_array_equal(out, DATA[0, first : first + 16])
    with pytest.raises((CompilationError, InterpreterError)) as caught:
        launcher(how)(run_kernel, (1,), out, layout=layout, first=0, axis=1, bytes=bytes)
    assert "a slice with other elements between its own; a slice that is one run" in str(
        caught.value
    )


@gluon.jit
def axes_kernel():
    tile: gl.constexpr = gl.BlockedLayout([1, 1, 4], [4, 1, 8], [4, 1, 1], [2, 1, 0])
    x = gl.full([64, 1, 64], 1, gl.int32, tile)
    flat = x.reshape([64, 64])
    gl.static_assert(flat.type.layout == gl.SliceLayout(1, tile))
    gl.static_assert((flat + x.sum(1)).reshape([64, 1, 64]).type.layout == tile)
    line = gl.full([1, 1, 64], 1, gl.int32, tile).reshape([1, 64])
    gl.static_assert(line.type.layout == gl.SliceLayout(0, tile))
    row = gl.arange(0, 64, gl.SliceLayout(1, TILE)).reshape([64, 1])
    gl.static_assert(row.type.layout == TILE)


def test_axes_of_size_1() -> None:
    """A reshape infers for them what Triton 3.9 does, so that blocks fit together."""
    compiled(axes_kernel, "", {})


@gluon.jit
def bases_kernel(layout: gl.constexpr, shape: gl.constexpr):
    found: gl.constexpr = gl.to_linear_layout(layout, shape)
    gl.static_print(found.rows, found.cols, found.shape)


@pytest.mark.parametrize(("layout", "shape", "rows", "columns"), [
    (TensorMemoryLayout((64, 64), col_stride=2), (64, 64),
     [[1, 0], [2, 0], [4, 0], [8, 0], [0, 0], [16, 0], [32, 0]],
     [[0, 0], *([0, 1 << i] for i in range(6))]),
    (TensorMemoryScalesLayout(), (64, 4), [[1 << i, 0] for i in range(5)] + [[0, 0], [0, 0]],
     [[0, 1], [0, 2], [32, 0]]),
])  # fmt: skip
def test_tensor_memory_by_its_bases(
    layout: Any, shape: Any, rows: Any, columns: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    compiled(bases_kernel, "", {"layout": layout, "shape": shape})
    assert capsys.readouterr().out.strip() == f"{rows} {columns} {list(shape)}"


@gluon.jit
def tensor_kernel(
    out, tiles: gl.constexpr, rows: gl.constexpr, first: gl.constexpr, count: gl.constexpr,
    axis: gl.constexpr,
):  # fmt: skip
    memory = allocate_tensor_memory(gl.int32, [tiles, rows, 128], TensorMemoryLayout([128, 64], 1))
    for n in gl.static_range(tiles):
        tile = memory.index(n)
        value = places(rows, 128) + n * rows * 128
        tile.store(gl.convert_layout(value, tile.get_reg_layout()))
    part = gl.convert_layout(memory.slice(first, count, dim=axis).index(0).load(), TILE)
    gl.store(out + places(part.shape[0], part.shape[1]), part)


@pytest.mark.every(2)
@pytest.mark.parametrize(("tiles", "rows", "part", "columns"), [
    (3, 128, (1, 2, 0), range(128, 256, 32)), (1, 256, (128, 128, 1), (64, 96, 192, 224)),
    (1, 512, (128, 256, 1), (64, 96, 128, 160, 320, 352, 384, 416)), (1, 128, (3, 16, 2), (3,)),
])  # fmt: skip
def test_slices_of_tensor_memory(
    tiles: int, rows: int, part: tuple[int, int, int], columns: Any
) -> None:
    """Tiles, and then blocks of 64 columns, lie side by side; blocks of rows within these."""
    first, count, axis = part
    data = np.arange(tiles * rows * 128, dtype=np.int32).reshape(tiles, rows, 128)
    wanted = np.take(data, range(first, first + count), axis)[0]
    out = np.zeros(wanted.shape, np.int32)
    constants = {"tiles": tiles, "rows": rows, "first": first, "count": count, "axis": axis}
    launcher("interpreted")(tensor_kernel, (1,), out, **constants)
    np.testing.assert_array_equal(out, wanted)
    text = compiled(tensor_kernel, "*i32", constants, 100).asm["ptx"]
    added = dict(re.findall(r"add\.s32\s+(%r\d+), %r\d+, (\d+);", text))
    loads = re.findall(r"tcgen05\.ld[^\[]*\[(%r\d+)\]", text)
    assert [int(added[name]) for name in loads] == list(columns)


@pytest.mark.parametrize("part", [(0, 64, 1), (64, 128, 1), (48, 32, 2), (0, 4, 0), (0, 1, 3)])
def test_slices_of_tensor_memory_that_there_are_not(part: tuple[int, int, int]) -> None:
    first, count, axis = part
    constants = {"tiles": 2, "rows": 256, "first": first, "count": count, "axis": axis}
    with pytest.raises(CompilationError, match="tmem_subslice: ") as caught:
        compiled(tensor_kernel, "*i32", constants, 100)
    assert "memory.slice(first, count, dim=axis)" in str(caught.value)


@gluon.jit
def seen_otherwise_kernel(first: gl.constexpr, count: gl.constexpr, axis: gl.constexpr):
    memory = allocate_tensor_memory(gl.float32, [256, 128], TensorMemoryLayout([128, 64], 1))
    part = memory.slice(first, count, dim=axis)
    part.reinterpret(gl.float32, [128, 64], TensorMemoryLayout([128, 64], 1))


@pytest.mark.parametrize(("part", "is_run"), [
    ((64, 64, 1), True), ((0, 32, 1), False), ((128, 128, 0), False),
])  # fmt: skip
def test_slices_of_tensor_memory_that_are_seen_otherwise(
    part: tuple[int, int, int], is_run: bool
) -> None:
    """Each 64 columns of the tile are of 128 rows, the next 64 of the other rows."""
    constants = dict(zip(("first", "count", "axis"), part, strict=True))
    if is_run:
        assert compiled(seen_otherwise_kernel, "", constants, 100)
        return
    with pytest.raises(CompilationError, match="a slice with other elements between its own"):
        compiled(seen_otherwise_kernel, "", constants, 100)
