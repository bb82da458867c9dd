"""`tile-version`: which versions nests get, what emission makes of them, and which are refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tests.cpu.support import Kernel
from tritium._filecheck import run_filecheck
from tritium.backends.compiler import GPUTarget
from tritium.backends.cpu.tiles.build import lower_to_tiles
from tritium.ir.printing import print_module
from tritium.native.host import host
from tritium.ops.parsing import parse_module
from tritium.ops.tile import NestOp

pytestmark = pytest.mark.cpu


@tritium.jit
def masked(p, o, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o + i, tl.load(p + i, mask=i < n) + 1, mask=i < n)


@tritium.jit
def whole(p, o, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(o + i, tl.load(p + i) + 1)


@tritium.jit
def largest(p, o, n, BLOCK: tl.constexpr):
    tl.store(o, tl.max(tl.load(p + tl.arange(0, BLOCK)), 0))


@tritium.jit
def largest_of_rows(p, o, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(p + i[:, None] * 16 + tl.arange(0, 16)[None, :])
    tl.store(o + i, tl.max(x, 1))


@tritium.jit
def smallest_of_columns(p, o, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(p + tl.arange(0, 16)[:, None] * BLOCK + i[None, :])
    tl.store(o + i, tl.min(x, 0))


@tritium.jit
def chosen(p, o, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(p + i)
    tl.store(o + i, x, mask=x > 0)


@tritium.jit
def scattered(p, o, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(o + 2 * i, tl.load(p + i))


@tritium.jit
def running(p, o, n, BLOCK: tl.constexpr):
    i = n + tl.arange(0, BLOCK)
    tl.store(o + tl.arange(0, BLOCK), tl.cumsum(tl.load(p + i), 0))


@tritium.jit
def updated(p, o, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(o + i, tl.load(p + i) + tl.load(o + i))


@tritium.jit
def counted(p, o, n, BLOCK: tl.constexpr):
    x = tl.load(p + tl.arange(0, BLOCK))
    tl.atomic_add(o + (x > 0).to(tl.int32), 1.0)


@tritium.jit
def centered(p, o, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(p + i, mask=i < n, other=0)
    x = tl.where(i < n, x - tl.sum(x, 0) / n, 0)
    tl.store(o, tl.sum(x * x, 0))


@tritium.jit
def corner(p, o, n, BLOCK: tl.constexpr):
    rows, columns = tl.arange(0, 8)[:, None], tl.program_id(0) * 32 + tl.arange(0, 32)[None, :]
    at = rows * 64 + columns
    mask = (rows < n // 32) & (columns < n % 64)
    tl.store(o + at, tl.load(p + at, mask=mask) + 1, mask=mask)


@tritium.jit
def bent(p, o, n, BLOCK: tl.constexpr):
    rows, columns = tl.arange(0, 8)[:, None], tl.arange(0, 32)[None, :]
    tl.store(o + rows * 32 + columns, 1.0, mask=31 * columns - columns * columns < n + rows)


def text_of(kernel: Any, stage: str = "tile") -> str:
    x = np.ones(4096, np.float32)
    return kernel.warmup(x, x.copy(), 200, BLOCK=256, grid=(1,), arch="skylake-avx512").asm[stage]


SCHEDULE = "tile.nest [256] lane 0 width 16 unroll 4"
REDUCED = "tile.nest [256] along 0 lane 0 width 16 unroll 4"


@pytest.mark.parametrize(
    ("kernel", "checks"),
    [
        (masked, f"CHECK: {SCHEDULE} versions [linear, apart, unmasked, streaming] {{"),
        (whole, f"CHECK: {SCHEDULE} versions [apart, streaming] {{"),
        (largest, f"CHECK: {REDUCED} versions [quick] {{"),
        (largest_of_rows, "CHECK: tile.nest [256, 16] along 1 lane 1 width 16 unroll 1 "
         "versions [quick] {"),
        (smallest_of_columns, "CHECK: tile.nest [16, 256] along 0 lane 1 width 16 unroll 4 "
         "versions [quick] {"),
        (chosen, f"CHECK: {SCHEDULE} versions [apart] {{"),
        (scattered, f"CHECK: {SCHEDULE} versions [apart] {{"),
        (updated, f"CHECK: {SCHEDULE} versions [apart] {{"),
        (corner, "CHECK: tile.nest [8, 32] lane 1 width 16 unroll 2 versions [linear, apart, "
         "unmasked] {"),
        (centered, f"CHECK-COUNT-2: {REDUCED} versions [unmasked] {{"),
        (running, "CHECK: tile.nest [256] along 0 lane 0 width 16 unroll 1 versions [linear] {"),
        (counted, "CHECK: tile.nest [256] versions [exclusive] {"),
    ],
    ids=lambda p: p.__name__ if hasattr(p, "__name__") else "",
)
def test_versions_in_text(kernel: Any, checks: str) -> None:
    run_filecheck("versions", text_of(kernel), checks)


def test_a_launch_stores_past_the_caches_only_what_it_has_not_read() -> None:
    checks = """
    CHECK: [[MUCH:%v[0-9]+]] = icmp uge i64
    CHECK: [[OTHER:%v[0-9]+]] = icmp ne ptr [[WRITTEN:%v[0-9]+]], [[READ:%v[0-9]+]]
    CHECK: [[STREAM:%v[0-9]+]] = and i1 [[MUCH]], [[OTHER]]
    CHECK: call void @whole.program(ptr [[READ]], ptr [[WRITTEN]], {{.+}}, i1 [[STREAM]],
    """
    run_filecheck("streams", text_of(whole, "llir"), checks)


def compiled(text: str) -> Kernel:
    """A kernel of the tile stage's text, for the machine that runs this."""
    module = parse_module(text)
    return Kernel(module, tiles=lambda *_: module)


def with_versions(source: Any, keep: Callable[[str], bool]) -> Kernel:
    """A kernel with some of its versions."""
    x = np.ones(4096, np.float32)
    ttir = source.warmup(x, x.copy(), 200, BLOCK=256, grid=(1,)).asm["ttir"]
    tiles = lower_to_tiles(parse_module(ttir), host())
    for nest in (op for op in tiles.walk() if isinstance(op, NestOp)):
        nest.set_versions([name for name in nest.versions if keep(name)])
    return compiled(print_module(tiles))


WITHOUT = ((), ("linear",), ("apart",), ("streaming",), ("unmasked", "streaming"), ("quick",))


@pytest.mark.covering(1)
@pytest.mark.parametrize("without", [*WITHOUT, NestOp], ids=str)
@pytest.mark.parametrize("shift", [-3, 0, 3, 300])
def test_kernels_run_without_versions(without: Any, shift: int) -> None:
    """Of `masked` all accesses may overlap; `n` cuts the last program's tile."""

    def keep(name: str) -> bool:
        return without is not NestOp and name not in without

    memory = np.arange(1024, dtype=np.float32)
    expected = memory.copy()
    start = 16
    for first in range(0, 512, 256):
        i = np.arange(first, min(first + 256, 300))
        expected[start + shift + i] = expected[start + i] + 1
    kernel = with_versions(masked, keep)
    kernel.run([memory[start:], memory[start + shift :], 300], (2,))
    np.testing.assert_array_equal(memory, expected)


@pytest.mark.covering(1)
@pytest.mark.parametrize("rows", [1, 7, 8, 9])
@pytest.mark.parametrize("columns", [31, 32, 33, 63])
def test_tiles_with_a_corner_outside(rows: int, columns: int) -> None:
    """`n` is 32 times the rows and, modulo 64, the columns that the mask leaves."""
    n = 32 * rows + columns % 32
    columns = n % 64
    memory = np.arange(512, dtype=np.float32)
    out, expected = np.zeros(512, np.float32), np.zeros((8, 64), np.float32)
    expected[:rows, :columns] = memory.reshape(8, 64)[:rows, :columns] + 1
    corner[(2,)](memory, out, n, BLOCK=256)
    np.testing.assert_array_equal(out.reshape(8, 64), expected)


def test_a_mask_that_is_true_at_the_corners_alone() -> None:
    out, expected = np.zeros(256, np.float32), np.zeros((8, 32), np.float32)
    rows, columns = np.arange(8)[:, None], np.arange(32)[None, :]
    expected[31 * columns - columns * columns < 1 + rows] = 1
    bent[(1,)](out, out, 1, BLOCK=256)
    np.testing.assert_array_equal(out.reshape(8, 32), expected)


@pytest.mark.covering(1)
@pytest.mark.parametrize("versions", [True, False])
@pytest.mark.parametrize("value", [np.nan, -np.inf, 2.0])
def test_the_largest_number(versions: bool, value: float) -> None:
    x, out = np.full(256, value, np.float32), np.zeros(1, np.float32)
    with_versions(largest, lambda _: versions).run([x, out, 0])
    np.testing.assert_array_equal(out, x[:1])


@pytest.mark.covering(1)
@pytest.mark.parametrize("versions", [True, False])
@pytest.mark.parametrize("most", [2.0, -np.inf])
@pytest.mark.parametrize("kernel", [largest_of_rows, smallest_of_columns])
def test_the_largest_numbers_of_rows(kernel: Any, versions: bool, most: float) -> None:
    """Rows without NaN, with one at every place, of NaN alone, of infinities and NaN."""
    sign = 1 if kernel is largest_of_rows else -1
    x = np.full((256, 16), most, np.float32)
    x[np.arange(16), np.arange(16)] = np.nan
    x[20], x[30, ::3], x[40], x[50] = np.nan, np.nan, -np.inf, np.inf
    x *= sign
    expected = sign * np.fmax.reduce(sign * x, 1)
    given = x if sign > 0 else np.ascontiguousarray(x.T)
    out = np.zeros(256, np.float32)
    with_versions(kernel, lambda _: versions).run([given, out, 0])
    np.testing.assert_array_equal(out, expected)


MARKS = {
    "linear": "wrapping", "apart": "fused", "unmasked": "whole", "streaming": "!nontemporal",
    "quick": "exact", "exclusive": "label %exclusive",
}  # fmt: skip
"""Text that LLVM IR has for one version alone."""


def edited(tmp_path: Path, kernel: Any, change: Callable[[str], str]) -> str:
    file = tmp_path / "kernel.tile"
    file.write_text(change(text_of(kernel)))
    return tritium.compile(str(file), target=GPUTarget("cpu", "skylake-avx512", 1)).asm["llir"]


@pytest.mark.parametrize(
    ("kernel", "name"),
    [
        (running, "linear"), (whole, "apart"), (masked, "unmasked"), (whole, "streaming"),
        (largest, "quick"), (counted, "exclusive"),
    ],
)  # fmt: skip
def test_an_edited_version_is_what_is_emitted(tmp_path: Path, kernel: Any, name: str) -> None:
    def without(text: str) -> str:
        kept = text.replace(", streaming", "") if name == "unmasked" else text
        for old in (f"{name}, ", f", {name}", f" versions [{name}]"):
            if old in kept:
                return kept.replace(old, "")
        raise AssertionError(text)

    mark = MARKS[name]
    assert mark in edited(tmp_path, kernel, lambda text: text)
    assert mark not in edited(tmp_path, kernel, without)


@pytest.mark.parametrize(
    ("kernel", "old", "new", "message"),
    [
        (masked, "[linear, apart, unmasked, streaming]", "[slow]", "versions are some of linear"),
        (whole, "[apart, streaming]", "[apart, apart]", "versions are some of linear"),
        (whole, "[apart, streaming]", "[quick]", "cannot have a version quick"),
        (whole, "[apart, streaming]", "[exclusive]", "cannot have a version exclusive"),
        (largest, "[quick]", "[streaming]", "cannot have a version streaming"),
        (largest, "[quick]", "[apart]", "cannot have a version apart"),
        (running, "[linear]", "[unmasked]", "cannot have a version unmasked"),
        (running, "width 16 unroll 1", "width 16 unroll 2", "scans one chunk at a time"),
        (counted, "versions", "lane 0 width 16 unroll 1 versions", "has loops of its own"),
        (chosen, "[apart]", "[apart, streaming]", "cannot have a version streaming"),
        (
            whole, "width 16 unroll 4 versions [apart, streaming]",
            "width 32 unroll 1 versions [streaming]", "cannot have a version streaming",
        ),
    ],
)  # fmt: skip
def test_versions_that_are_refused(
    tmp_path: Path, kernel: Any, old: str, new: str, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        edited(tmp_path, kernel, lambda text: text.replace(old, new))
