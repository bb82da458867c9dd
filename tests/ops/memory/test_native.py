"""Loads and stores natively: strides, transposition, masks at the edge of memory, aliasing."""

from __future__ import annotations

import ctypes
import mmap

import numpy as np
import pytest

from tests.cpu.support import Kernel, compare, run_reference


def copy_2d(rows: int, columns: int, masked: bool) -> str:
    """`y[i * ya + j * yb] = x[i * xa + j * xb]`, for i < m and j < n when masked."""
    tile, vector = f"tensor<{rows}x{columns}x", f"{rows}x{columns}x"
    access = ", %mask" if masked else ""

    def at(name: str) -> str:
        return f"""
      %r{name} = tt.splat %{name}a : i32 -> tensor<{rows}x1xi32>
      %ri{name} = arith.muli %i, %r{name} : tensor<{rows}x1xi32>
      %c{name} = tt.splat %{name}b : i32 -> tensor<1x{columns}xi32>
      %ci{name} = arith.muli %j, %c{name} : tensor<1x{columns}xi32>
      %rb{name} = tt.broadcast %ri{name} : tensor<{rows}x1xi32> -> {tile}i32>
      %cb{name} = tt.broadcast %ci{name} : tensor<1x{columns}xi32> -> {tile}i32>
      %o{name} = arith.addi %rb{name}, %cb{name} : {tile}i32>
      %p{name} = tt.splat %{name} : !tt.ptr<f32> -> {tile}!tt.ptr<f32>>
      %a{name} = tt.addptr %p{name}, %o{name} : {tile}!tt.ptr<f32>>, {tile}i32>"""

    return f"""
    tt.func public @kernel(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>, %xa: i32, %xb: i32, %ya: i32,
                           %yb: i32, %m: i32, %n: i32) {{
      %ir = tt.make_range {{end = {rows} : i32, start = 0 : i32}} : tensor<{rows}xi32>
      %i = tt.expand_dims %ir {{axis = 1 : i32}} : tensor<{rows}xi32> -> tensor<{rows}x1xi32>
      %jr = tt.make_range {{end = {columns} : i32, start = 0 : i32}} : tensor<{columns}xi32>
      %j = tt.expand_dims %jr {{axis = 0 : i32}} : tensor<{columns}xi32> -> tensor<1x{columns}xi32>
      %ms = tt.splat %m : i32 -> tensor<{rows}x1xi32>
      %mr = arith.cmpi slt, %i, %ms : tensor<{rows}x1xi32>
      %ns = tt.splat %n : i32 -> tensor<1x{columns}xi32>
      %mc = arith.cmpi slt, %j, %ns : tensor<1x{columns}xi32>
      %mrb = tt.broadcast %mr : tensor<{rows}x1xi1> -> {tile}i1>
      %mcb = tt.broadcast %mc : tensor<1x{columns}xi1> -> {tile}i1>
      %mask = arith.andi %mrb, %mcb : {tile}i1>{at("x")}{at("y")}
      %v = tt.load %ax{access} : tensor<{vector}!tt.ptr<f32>>
      tt.store %ay, %v{access} : tensor<{vector}!tt.ptr<f32>>
      tt.return
    }}
    """


@pytest.mark.covering(1)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("shape", [(8, 32), (32, 4), (1, 64), (64, 1), (16, 2), (2, 16)])
@pytest.mark.parametrize("order", ["rows", "columns", "skips", "backwards"])
def test_strides(order: str, shape: tuple[int, int], masked: bool) -> None:
    rows, columns = shape
    x, y = np.arange(8192, dtype=np.float32), np.zeros(8192, np.float32)
    strides = {
        "rows": (columns, 1, columns, 1), "columns": (1, rows, columns, 1),
        "skips": (3 * columns, 2, 1, 2 * rows), "backwards": (columns, -1, columns, -1),
    }[order]  # fmt: skip
    start = columns - 1 if order == "backwards" else 0
    limits = (max(1, rows - 3), max(1, columns - 1))
    text, other = copy_2d(rows, columns, masked), y.copy()
    Kernel(text).run([x[start:], y[start:], *strides, *limits])
    run_reference(text, [x[start:], other[start:], *strides, *limits])
    np.testing.assert_array_equal(y, other)
    assert y.any()


def guarded(count: int) -> tuple[np.ndarray, mmap.mmap]:
    """`count` floats that end where an inaccessible page begins."""
    page = mmap.PAGESIZE
    memory = mmap.mmap(-1, 2 * page)
    array = np.frombuffer(memory, np.float32)
    start = array.ctypes.data
    libc = ctypes.CDLL(None)
    assert libc.mprotect(ctypes.c_void_p(start + page), ctypes.c_size_t(page), 0) == 0
    last = page // 4
    return array[last - count : last], memory


@pytest.mark.parametrize("count", [1, 5, 16, 17, 31])
def test_masked_lanes_do_not_touch_memory(count: int) -> None:
    kernel = Kernel(copy_2d(1, 32, True))
    (x, keep_x), (y, keep_y) = guarded(count), guarded(count)
    x[:], y[:] = np.arange(count), -1
    kernel.run([x, y, 0, 1, 0, 1, 1, count])
    np.testing.assert_array_equal(y, x)
    y[:] = -1
    kernel.run([x, y, 32, 1, 32, 1, 0, 32])
    assert (y == -1).all()
    del keep_x, keep_y


def test_masked_gathers_do_not_touch_memory() -> None:
    kernel = Kernel(copy_2d(1, 32, True))
    (x, keep), y = guarded(9), np.zeros(32, np.float32)
    x[:] = np.arange(9)
    kernel.run([x, y, 0, 2, 0, 1, 1, 5])
    np.testing.assert_array_equal(y[:5], x[::2])
    del keep


SHIFT = """
    tt.func public @kernel(%x: !tt.ptr<f32>, %by: i32) {
      %range = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
      %xs = tt.splat %x : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
      %from = tt.addptr %xs, %range : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
      %bys = tt.splat %by : i32 -> tensor<64xi32>
      %to = tt.addptr %from, %bys : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
      %v = tt.load %from : tensor<64x!tt.ptr<f32>>
      tt.store %to, %v : tensor<64x!tt.ptr<f32>>
      tt.return
    }
"""


@pytest.mark.parametrize("by", [0, 1, 16, 31])
def test_a_tile_moved_onto_itself_is_read_before_it_is_written(by: int) -> None:
    compare(SHIFT, [np.arange(128, dtype=np.float32), by])


def test_a_load_is_not_delayed_past_a_store() -> None:
    text = """
    tt.func public @kernel(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>, %z: !tt.ptr<f32>) {
      %range = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
      %small = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32>
      %xs = tt.splat %x : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
      %xa = tt.addptr %xs, %range : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
      %ys = tt.splat %y : !tt.ptr<f32> -> tensor<32x!tt.ptr<f32>>
      %ya = tt.addptr %ys, %small : tensor<32x!tt.ptr<f32>>, tensor<32xi32>
      %zs = tt.splat %z : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
      %za = tt.addptr %zs, %range : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
      %v = tt.load %xa : tensor<64x!tt.ptr<f32>>
      %ones = arith.constant dense<1.0> : tensor<32xf32>
      tt.store %ya, %ones : tensor<32x!tt.ptr<f32>>
      tt.store %za, %v : tensor<64x!tt.ptr<f32>>
      tt.return
    }
    """
    x, z = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    expected = x.copy()
    Kernel(text).run([x, x, z])
    np.testing.assert_array_equal(z, expected)
    assert (x[:32] == 1).all()


@pytest.mark.parametrize("grid", [(0,), (1, 0), (3, 2, 2)])
def test_grids(grid: tuple[int, ...]) -> None:
    text = """
    tt.func public @kernel(%x: !tt.ptr<i32>) {
      %a = tt.get_program_id x : i32
      %b = tt.get_program_id y : i32
      %c = tt.get_program_id z : i32
      %na = tt.get_num_programs x : i32
      %nb = tt.get_num_programs y : i32
      %nc = tt.get_num_programs z : i32
      %cb = arith.muli %c, %nb : i32
      %s = arith.addi %cb, %b : i32
      %sa = arith.muli %s, %na : i32
      %p = arith.addi %sa, %a : i32
      %at = tt.addptr %x, %p : !tt.ptr<i32>, i32
      %v = arith.addi %p, %nc : i32
      tt.store %at, %v : !tt.ptr<i32>
      tt.return
    }
    """
    compare(text, [np.zeros(16, np.int32)], grid)


def test_large_launches_store_past_the_caches() -> None:
    text = """
    tt.func public @kernel(%x: !tt.ptr<f32>, %n: i32) {
      %c = arith.constant 256 : i32
      %pid = tt.get_program_id x : i32
      %start = arith.muli %pid, %c : i32
      %range = tt.make_range {end = 256 : i32, start = 0 : i32} : tensor<256xi32>
      %starts = tt.splat %start : i32 -> tensor<256xi32>
      %offs = arith.addi %starts, %range : tensor<256xi32>
      %ns = tt.splat %n : i32 -> tensor<256xi32>
      %m = arith.cmpi slt, %offs, %ns : tensor<256xi32>
      %xs = tt.splat %x : !tt.ptr<f32> -> tensor<256x!tt.ptr<f32>>
      %xa = tt.addptr %xs, %offs : tensor<256x!tt.ptr<f32>>, tensor<256xi32>
      %v = arith.sitofp %offs : tensor<256xi32> to tensor<256xf32>
      tt.store %xa, %v, %m : tensor<256x!tt.ptr<f32>>
      tt.return
    }
    """
    kernel = Kernel(text)
    assert "nontemporal" in kernel.llir
    size = (96 << 20) // 4
    for start in (0, 1):
        x = np.zeros(size + 8, np.float32)
        kernel.run([x[start:], size - 3], (size // 256,))
        expected = np.arange(size - 3, dtype=np.int32).astype(np.float32)
        np.testing.assert_array_equal(x[start : start + size - 3], expected)
        assert not x[start + size - 3 :].any()
