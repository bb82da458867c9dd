"""`tile-prefetch`: which memory is prefetched where, the addresses, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tests.cpu.support import Kernel
from tritium._filecheck import run_filecheck
from tritium.backends.compiler import GPUTarget
from tritium.backends.cpu.processors import processor
from tritium.backends.cpu.tiles.build import lower_to_tiles, passes
from tritium.backends.cpu.tiles.prefetch import Prefetch
from tritium.ir.printing import print_module
from tritium.native.host import host
from tritium.native.loader import compile_ir
from tritium.ops.parsing import ParseError, parse_module
from tritium.ops.tile import NestOp
from tritium.passes import PassManager, run_pipeline

pytestmark = pytest.mark.cpu


@tritium.jit
def softmax(x_ptr, w_ptr, out_ptr, stride, columns, BLOCK: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + i, mask=i < columns, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * stride + i, e / tl.sum(e, axis=0), mask=i < columns)


@tritium.jit
def rms(x_ptr, w_ptr, out_ptr, stride, columns, BLOCK: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + i, mask=i < columns, other=0.0)
    scale = tl.sqrt(columns / tl.sum(x * x, axis=0))
    w = tl.load(w_ptr + i, mask=i < columns)
    tl.store(out_ptr + row * stride + i, x * scale * w, mask=i < columns)


@tritium.jit
def running(x_ptr, w_ptr, out_ptr, stride, columns, BLOCK: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + i, mask=i < columns, other=0.0)
    tl.store(out_ptr + row * stride + i, tl.cumsum(x, axis=0), mask=i < columns)


@tritium.jit
def rows_of_a_loop(x_ptr, w_ptr, out_ptr, stride, columns, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    for row in range(tl.program_id(0), 64, tl.num_programs(0)):
        x = tl.load(x_ptr + row * stride + i)
        e = tl.exp(x - tl.max(x, axis=0))
        tl.store(out_ptr + row * stride + i, e / tl.sum(e, axis=0))


@tritium.jit
def chosen(x_ptr, w_ptr, out_ptr, stride, columns, BLOCK: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + i, mask=tl.load(w_ptr + i) > 0, other=0.0)
    tl.store(out_ptr + row, tl.sum((x - tl.sum(x, axis=0)) * x, axis=0))


@tritium.jit
def indirect(x_ptr, w_ptr, out_ptr, stride, columns, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    row = tl.load(w_ptr + tl.program_id(0)).to(tl.int32)
    x = tl.load(x_ptr + row * stride + i)
    tl.store(out_ptr + row * stride + i, x / tl.sum(x, axis=0))


@tritium.jit
def one_row(x_ptr, w_ptr, out_ptr, stride, columns, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)
    tl.store(out_ptr + i, x / tl.sum(x, axis=0))


@tritium.jit
def sums_of_one_row(x_ptr, w_ptr, out_ptr, stride, columns, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i[None, :], mask=(i < columns)[None, :], other=0.0)
    tl.store(out_ptr + i, tl.sum(x, axis=0), mask=i < columns)


def tiles_of(kernel: Any, block: int = 1024, arch: str = "haswell", stage: str = "tile") -> str:
    x = np.ones(1 << 16, np.float32)
    arguments = (x, x.copy(), x.copy(), block, block)
    return kernel.warmup(*arguments, BLOCK=block, grid=(1,), arch=arch).asm[stage]


SOFTMAX = """
CHECK: [[ROW:%.+]] = tt.get_program_id x
CHECK: along 0
CHECK-NOT: tile.prefetch
CHECK: tile.copy %x
CHECK: [[NEXT:%.+]] = arith.addi [[ROW]], %c1_i32 : i32
CHECK: [[AT:%.+]] = arith.muli [[NEXT]], %stride : i32
CHECK: [[FIRST:%.+]] = tt.addptr %x_ptr, [[AT]]
CHECK: along 0
CHECK: tile.copy %e
CHECK-NEXT: tile.prefetch [[X:%.+]], [[MASK:%.+]] {rounds = 32 : i32}
CHECK-NEXT: tile.prefetch [[OUT:%.+]], [[MASK]] {rounds = 32 : i32, {{.*written.*}}}
CHECK: tt.store
CHECK-NOT: tile.prefetch
"""
RMS = """
CHECK: along 0
CHECK: tt.reduce.return
CHECK: tile.prefetch {{.+}} {rounds = 32 : i32, {{.*written.*}}}
CHECK-NOT: tile.prefetch
CHECK: tt.store
CHECK-NEXT: tile.prefetch {{.+}} {rounds = 32 : i32}
CHECK-NOT: tile.prefetch
"""
SCAN = """
CHECK: along 0
CHECK: tt.scan.return
CHECK: tile.prefetch {{.+}} {rounds = 32 : i32, {{.*written.*}}}
CHECK-NOT: tile.prefetch
CHECK: tt.store
CHECK-NEXT: tile.prefetch {{.+}} {rounds = 32 : i32}
"""
LOOP = """
CHECK: scf.for [[ROW:%[a-z0-9_]+]] = {{.+}} step [[STEP:%[a-z0-9_]+]]
CHECK: [[NEXT:%.+]] = arith.addi [[ROW]], [[STEP]] : i32
CHECK: arith.muli [[NEXT]], %stride
CHECK: tile.prefetch {{.+}} {rounds = 32 : i32}
CHECK: tile.prefetch {{.+}} {rounds = 32 : i32, {{.*written.*}}}
"""


@pytest.mark.parametrize(
    ("kernel", "checks"), [(softmax, SOFTMAX), (rms, RMS), (running, SCAN), (rows_of_a_loop, LOOP)],
    ids=lambda p: getattr(p, "__name__", ""),
)  # fmt: skip
def test_prefetches_in_text(kernel: Any, checks: str) -> None:
    run_filecheck("prefetches", tiles_of(kernel), checks)


@pytest.mark.parametrize(
    ("kernel", "block"),
    [
        (chosen, 1024), (one_row, 1024), (softmax, 64), (softmax, 1 << 15), (sums_of_one_row, 128),
        (rms, 2048),
    ],
    ids=[
        "a mask from memory", "the same row", "short", "past the cache", "another shape",
        "longer than a page, in loops of few instructions",
    ],
)  # fmt: skip
def test_what_is_not_prefetched(kernel: Any, block: int) -> None:
    assert "tile.prefetch" not in tiles_of(kernel, block)


def test_long_rows_are_prefetched_by_loops_that_compute_much() -> None:
    assert tiles_of(softmax, 2048).count("tile.prefetch") == 2


def test_a_row_whose_number_is_in_memory() -> None:
    """The next one's is not known."""
    text = tiles_of(indirect)
    assert text.count("tile.prefetch") == text.count("written") == 1


LOG = 1 << 15
_CALL = re.compile(r"  call void @llvm.prefetch.p0\((ptr %\w+), i32 (\d).*\)")


class Logged(Kernel):
    """A kernel, for the machine that runs this, that writes down what it would prefetch."""

    def __init__(self, source: Any, block: int):
        self.log = np.zeros((2, LOG), np.int64)
        super().__init__(parse_module(tiles_of(source, block, "native", "ttir")),
                         compiled=lambda text, _: compile_ir(self._logged(text)))  # fmt: skip

    def _logged(self, text: str) -> str:
        numbers = iter(range(1 << 20))

        def write(match: re.Match[str]) -> str:
            base = f"ptr inttoptr (i64 {self.log[int(match[2])].ctypes.data} to ptr)"
            name = f"%logged.{next(numbers)}"
            return "\n".join([
                f"  {name} = load i64, {base}", f"  {name}.next = add i64 {name}, 1",
                f"  store i64 {name}.next, {base}",
                f"  {name}.at = getelementptr i64, {base}, i64 {name}.next",
                f"  {name}.value = ptrtoint {match[1]} to i64",
                f"  store i64 {name}.value, ptr {name}.at",
            ])  # fmt: skip

        found, count = _CALL.subn(write, text)
        assert count
        return found

    def addresses(self, written: int) -> np.ndarray:
        """The addresses that were prefetched to be read, or to be written, in order."""
        return self.log[written, 1 : 1 + self.log[written, 0]]


def lines(array: np.ndarray, rows: range, stride: int, block: int) -> np.ndarray:
    """The first bytes of the lines' worth of each row."""
    return np.concatenate([
        array.ctypes.data + 4 * stride * row + np.arange(0, 4 * block, 64) for row in rows
    ])  # fmt: skip


@pytest.mark.parametrize("source", [softmax, rms])
@pytest.mark.parametrize("columns", [1024, 1000, 700])
def test_the_addresses(source: Any, columns: int) -> None:
    rows, stride = -(-host().l2 // 8192), 1040
    x = np.random.default_rng(0).standard_normal((rows, stride)).astype(np.float32)
    w, out = np.ones(1024, np.float32), np.zeros_like(x)
    kernel = Logged(source, 1024)
    kernel.run([x, w, out, stride, columns], (rows,))
    np.testing.assert_array_equal(kernel.addresses(0), lines(x, range(1, rows + 1), stride, 1024))
    np.testing.assert_array_equal(kernel.addresses(1), lines(out, range(rows), stride, 1024))
    part = x[:, :columns].astype(np.float64)
    if source is rms:
        expected = part * np.sqrt(columns / (part**2).sum(1, keepdims=True))
    else:
        expected = np.exp(part - part.max(1, keepdims=True))
        expected /= expected.sum(1, keepdims=True)
    np.testing.assert_allclose(out[:, :columns], expected, rtol=1e-5)
    assert not out[:, columns:].any()


@pytest.mark.parametrize("columns", [1024, 700])
def test_the_lines_that_a_scan_asks_for(columns: int) -> None:
    """Its vectors may be shorter than a line, which it asks for more than once then."""
    rows, stride = -(-host().l2 // 8192), 1040
    x = np.random.default_rng(0).integers(-9, 9, (rows, stride)).astype(np.float32)
    out = np.zeros_like(x)
    kernel = Logged(running, 1024)
    kernel.run([x, x, out, stride, columns], (rows,))
    for written, array, first in ((0, x, 1), (1, out, 0)):
        found = kernel.addresses(written) - array.ctypes.data
        expected = [stride // 16 * row + i for row in range(first, first + rows) for i in range(64)]
        np.testing.assert_array_equal(np.unique(found // 64), expected)
    np.testing.assert_array_equal(out[:, :columns], np.cumsum(x[:, :columns], 1))


@pytest.mark.parametrize(
    ("rows", "columns"), [(2, 1024), (-1, 300)], ids=["few programs", "a mask of less than half"]
)
def test_where_nothing_is_fetched_from_memory(rows: int, columns: int) -> None:
    """The loops ask for lines of the thread's scratch then."""
    rows = rows % (host().l2 // 8192 + 2)
    x = np.ones((rows, 1024), np.float32)
    out = np.zeros_like(x)
    kernel = Logged(softmax, 1024)
    kernel.run([x, x, out, 1024, columns], (rows,))
    for array in (x, out):
        low, high = array.ctypes.data, array.ctypes.data + array.nbytes + 4096
        for written in range(2):
            found = kernel.addresses(written)
            assert found.size and not ((found >= low) & (found < high)).any()
    np.testing.assert_allclose(out[:, :columns], 1 / columns, rtol=1e-6)


@pytest.mark.parametrize("programs", [1, 3])
def test_rows_of_a_loop(programs: int) -> None:
    x = np.random.default_rng(0).standard_normal((64, 1024)).astype(np.float32)
    out = np.zeros_like(x)
    kernel = Logged(rows_of_a_loop, 1024)
    kernel.run([x, x, out, 1024, 1024], (programs,))
    expected = np.exp(x.astype(np.float64))
    np.testing.assert_allclose(out, expected / expected.sum(1, keepdims=True), rtol=1e-5)
    if host().l2 <= 1 << 20:  # 64 rows are more than half of it
        order = [row for first in range(programs) for row in range(first, 64, programs)]
        following = np.concatenate([
            lines(x, range(row + programs, row + programs + 1), 1024, 1024) for row in order
        ])  # fmt: skip
        np.testing.assert_array_equal(kernel.addresses(0), following)


@pytest.mark.parametrize(
    ("arch", "instruction"),
    [("neoverse-v1", "prfm"), ("x86-64", "prefetcht0"), ("skylake-avx512", "prefetchw")],
)
def test_instructions(arch: str, instruction: str) -> None:
    assert instruction in tiles_of(softmax, arch=arch, stage="asm")


def test_prefetches_are_added_once() -> None:
    module = parse_module(tiles_of(softmax, stage="ttir"))
    tiles = lower_to_tiles(module, processor("haswell"))
    once = print_module(tiles)
    run_pipeline(tiles, "tile-prefetch", verify_each=True)
    assert print_module(tiles) == once and "tile.prefetch" in once


def test_the_cache_bounds_what_is_prefetched() -> None:
    stage = passes(processor("haswell"))
    before = stage[: next(n for n, item in enumerate(stage) if isinstance(item, Prefetch))]
    for l2, rounds in ((32 << 10, 2), (1 << 20, 64)):
        module = parse_module(tiles_of(softmax, stage="ttir"))
        PassManager([*before, Prefetch(l2)], verify_each=True).run(module)
        found = [
            op.rounds for nest in module.walk() if isinstance(nest, NestOp)
            for op in nest.prefetches
        ]  # fmt: skip
        assert found == [rounds, rounds]


PREFETCH = re.compile(r"tile.prefetch %\w+, (%\w+) (\{[^}]*\}) : \S+")


@pytest.mark.parametrize(
    ("new", "message"),
    [
        (r"tile.prefetch %x_ptr \2 : !tt.ptr<f32>", r"tile.prefetch of .* nest over \(1024,\)"),
        (r"tile.prefetch \1 \2 : tensor<1024xi1>", "a pointer is required"),
    ],
    ids=["another shape", "no pointer"],
)
def test_prefetches_that_are_refused(tmp_path: Path, new: str, message: str) -> None:
    text, count = PREFETCH.subn(new, tiles_of(softmax), count=1)
    assert count
    file = tmp_path / "kernel.tile"
    file.write_text(text)
    with pytest.raises((ValueError, ParseError), match=message):
        tritium.compile(str(file), target=GPUTarget("cpu", "haswell", 1))
