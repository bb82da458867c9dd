"""Padded shared memory that copies of waves fill (gfx950)."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from tests.gluon.amd.test_programs import compiled
from tests.gluon.support import launcher
from tritium.errors import CompilationError
from tritium.experimental import gluon
from tritium.experimental.gluon import language as gl
from tritium.experimental.gluon.language.amd import AMDMFMALayout, cdna4
from tritium.ir.layouts.encodings import linear

padding = cdna4.compute_efficient_padded_shared_layout
NARROW = AMDMFMALayout(4, [16, 16, 32], True, [4, 1])
WIDE = AMDMFMALayout(4, [32, 32, 16], True, [4, 1])


@pytest.mark.parametrize(("parent", "width", "element", "gap"), [
    (NARROW, 8, gl.float16, [512, 16]), (WIDE, 8, gl.float16, [512, 8]),
    (NARROW, 4, gl.float16, [512, 4]), (NARROW, 16, gl.float8e4nv, [1024, 32]),
    (NARROW, 8, gl.float8e4nv, [1024, 8]),
])  # fmt: skip
@pytest.mark.parametrize("index", [0, 1])
def test_layouts(parent: Any, width: int, element: Any, gap: list[int], index: int) -> None:
    shape = [128, 64] if index == 0 else [64, 128]
    found = padding(gl.DotOperandLayout(index, parent, width), shape, element)
    assert found is not None and found.interval_padding_pairs == [gap]
    layout = linear(found.to_encoding(), tuple(shape))
    assert layout.is_surjective and layout.total_out_bits == layout.total_in_bits
    along = [b[1 - index] for b in found.offset_bases[:6]]
    assert along == [1, 2, 4, 8, 16, 32], "rows are together"
    together = [b[index] for b in found.offset_bases[6 : gap[0].bit_length() - 1]]
    assert min(together) >= 8, "neighbours are in different copies"


@pytest.mark.parametrize(("parent", "width", "element"), [
    (NARROW, 8, gl.float16), (WIDE, 8, gl.float16), (NARROW, 16, gl.float8e4nv),
    (WIDE, 16, gl.float8e4nv),
])  # fmt: skip
@pytest.mark.parametrize("rows", [64, 128])
@pytest.mark.parametrize("index", [0, 1])
def test_neighbours_along_the_rows(
    parent: Any, width: int, element: Any, rows: int, index: int
) -> None:
    """Values of attention: what the lanes of a wave read at once is in different banks."""
    operand, deep = gl.DotOperandLayout(index, parent, width), 128
    shape = [rows, deep] if index == 0 else [deep, rows]
    found = padding(operand, shape, element, is_k_contig=False)
    assert found is not None
    interval, gap = found.interval_padding_pairs[0]
    size = element.primitive_bitwidth // 8
    assert interval * size == 1024
    layout = linear(found.to_encoding(), tuple(shape))
    assert layout.is_surjective and layout.total_out_bits == layout.total_in_bits
    assert [b[index] for b in found.offset_bases[: rows.bit_length() - 1]][:3] == [1, 2, 4]
    columns = [tuple(b) for b in found.offset_bases]
    lanes = linear(operand.to_encoding(), tuple(shape))
    banks: dict[int, set[int]] = {}
    for lane in range(64):
        place = lanes.apply({"lane": lane})
        at = sum(1 << i for i, (m, n) in enumerate(columns)
                 if (m and place["dim0"] & m) or (n and place["dim1"] & n))  # fmt: skip
        word = (at + at // interval * gap) * size // 4
        banks.setdefault(word % 64, set()).add(word)
    assert max(map(len, banks.values())) == 1


def test_what_has_no_such_layout() -> None:
    operand = gl.DotOperandLayout(0, NARROW, 8)
    assert padding(operand, [128, 64], gl.float32) is None
    assert padding(gl.DotOperandLayout(1, NARROW, 8), [8, 64], gl.float16, False) is None
    assert padding(operand, [8, 64], gl.float16) is None
    other = AMDMFMALayout(3, [16, 16, 16], True, [4, 1])
    with pytest.raises(TypeError, match="of an AMDMFMALayout of version 4 is required"):
        padding(gl.DotOperandLayout(0, other, 4), [128, 64], gl.float16)


@gluon.jit
def rows_kernel(src, out, rows: gl.constexpr, shared: gl.constexpr, back: gl.constexpr):
    i = gl.arange(0, 128, gl.SliceLayout(1, rows))[:, None]
    j = gl.arange(0, 64, gl.SliceLayout(0, rows))[None, :]
    memory = gl.allocate_shared_memory(gl.float16, [128, 64], shared)
    cdna4.async_copy.buffer_load_to_shared(memory, src, i * 64 + j)
    cdna4.async_copy.commit_group()
    cdna4.async_copy.wait_group(0)
    i = gl.arange(0, 128, gl.SliceLayout(1, back))[:, None]
    j = gl.arange(0, 64, gl.SliceLayout(0, back))[None, :]
    gl.store(out + i * 64 + j, memory.load(back))


OF_COPIES = gl.DistributedLinearLayout(
    [[0, 1], [0, 2], [0, 4], [4, 0], [8, 0]], [[0, 8], [0, 16], [0, 32], [16, 0], [32, 0], [64, 0]],
    [[1, 0], [2, 0]], [], [128, 64],
)  # fmt: skip
BACK = gl.BlockedLayout([1, 8], [8, 8], [4, 1], [1, 0])


def test_copies_leave_the_gaps() -> None:
    shared = padding(gl.DotOperandLayout(0, NARROW, 8), [128, 64], gl.float16)
    constants = {"rows": OF_COPIES, "shared": shared, "back": BACK}
    kernel = compiled(rows_kernel, "*fp16 *fp16", constants, "gfx950")
    assert kernel.metadata.shared == 2 * (128 * 64 + 16 * 16)
    assert kernel.asm["amdgcn"].count("global_load_lds_dwordx4") == 4
    # A wave's copies begin at multiples of 1 KiB and of the gaps before: 528 elements each.
    assert re.search(r"mul i32 %v\d+, 16\b", kernel.asm["llir"]) is not None
    src = np.arange(128 * 64, dtype=np.float16).reshape(128, 64)
    out = np.zeros_like(src)
    launcher("interpreted")(rows_kernel, (1,), src, out, **constants)
    np.testing.assert_array_equal(out, src)


def test_gaps_within_a_copy() -> None:
    shared = gl.PaddedSharedLayout.with_identity_for([[64, 8]], [128, 64], [1, 0])
    rows = gl.BlockedLayout([1, 8], [8, 8], [4, 1], [1, 0])
    message = "memory with gaps closer than the 512 elements of a copy of a warp"
    with pytest.raises(CompilationError, match=message):
        compiled(rows_kernel, "*fp16 *fp16", {"rows": rows, "shared": shared, "back": BACK},
                 "gfx950")  # fmt: skip
