"""Memory that its layout does not fit is an error where it is made: a layout with a shape of its
own beside memory of another, axes, element sizes."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from tests.gluon.support import compiled, launcher
from tritium.errors import CompilationError, InterpreterError
from tritium.experimental import gluon
from tritium.experimental.gluon import language as gl
from tritium.experimental.gluon.amd.cdna5 import TensorDescriptor
from tritium.experimental.gluon.language.nvidia.blackwell import (
    TensorMemoryLayout,
    TensorMemoryScalesLayout,
    allocate_tensor_memory,
)
from tritium.experimental.gluon.nvidia.hopper import TensorDescriptor as HopperDescriptor

BLOCKED = gl.constexpr(gl.BlockedLayout([1, 4], [8, 4], [4, 1], [1, 0]))


@gluon.jit
def allocation(out, layout: gl.constexpr, shape: gl.constexpr, dtype: gl.constexpr):
    gl.allocate_shared_memory(dtype, shape, layout)


@gluon.jit
def view(out, layout: gl.constexpr, shape: gl.constexpr, dtype: gl.constexpr):
    all = gl.allocate_shared_memory(dtype, [1 << 14], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    all.reinterpret(dtype, shape, layout)


@gluon.jit
def stored(out, layout: gl.constexpr, shape: gl.constexpr, dtype: gl.constexpr):
    memory = gl.allocate_shared_memory(dtype, shape, layout)
    memory.store(gl.zeros(shape, dtype, BLOCKED))


@gluon.jit
def tensor_memory(out, layout: gl.constexpr, shape: gl.constexpr, dtype: gl.constexpr):
    allocate_tensor_memory(dtype, shape, layout)


def bases(rows: int, columns: int) -> list[list[int]]:
    """The bases of offsets of a tile in row-major order."""
    ones = [[0, 1 << i] for i in range(columns.bit_length() - 1)]
    return [*ones, *([1 << i, 0] for i in range(rows.bit_length() - 1))]


def padded(rows: int, columns: int) -> Any:
    return gl.PaddedSharedLayout([[64, 8]], bases(rows, columns), [], [rows, columns])


def check(kernel: Any, constants: dict[str, Any], message: str, arch: int = 90) -> None:
    """Compiled and interpreted, the kernel must fail at the line that makes the memory."""
    text = re.compile(r"def .*\^\n.*" + message, re.DOTALL)
    with pytest.raises(CompilationError, match=text):
        compiled(kernel, "*fp16", constants, arch)
    with pytest.raises(InterpreterError, match=text):
        launcher("interpreted")(kernel, (1,), np.zeros(1, np.float16), **constants)


@pytest.mark.parametrize("kernel", [allocation, view])
@pytest.mark.parametrize(("layout", "message"), [
    (gl.SharedLinearLayout(bases(32, 64)), r"are of a tile of \[32, 64\]; of \[64, 64\] are"),
    (gl.SharedLinearLayout(bases(64, 128)), r"are of a tile of \[64, 128\]; of \[64, 64\] are"),
    (gl.SharedLinearLayout([*bases(64, 64)[:-2], [32, 0], [0, 1]]),
     r"the 12 bases of the layout that are not zero do not give each element of \[64, 64\] one"),
    (gl.SharedLinearLayout([*bases(64, 64), [1, 1]]), r"the 13 bases of the layout that are not"),
    (padded(64, 32), r"are of a tile of \[64, 32\]; of \[64, 64\] are required"),
    (padded(128, 64), r"are of a tile of \[128, 64\]; of \[64, 64\] are required"),
    (gl.PaddedSharedLayout.with_identity_for([[64, 8]], [32, 128], [1, 0]),
     r"are of a tile of \[32, 128\]; of \[64, 64\] are required"),
    (gl.amd.cdna5.PartitionedSharedLayout(2, 1, 0, padded(64, 64)),
     r"are of a tile of \[64, 64\]; of \[32, 64\] are required"),
    (gl.NVMMASharedLayout(128, 16, 3), r"3 axes, more axes than the shape \[64, 64\]"),
    (gl.NVMMASharedLayout(128, 8), r"rows of 64 elements, .* 128 or more are required"),
])  # fmt: skip
def test_shared_memory(kernel: Any, layout: Any, message: str) -> None:
    check(kernel, {"layout": layout, "shape": [64, 64], "dtype": gl.float16}, message)


PLAIN = gl.SwizzledSharedLayout(1, 1, 1, [1, 0])


@pytest.mark.parametrize("kernel", [allocation, view])
@pytest.mark.parametrize(("shape", "message"), [
    ([0, 64], r"is \[0, 64\]; powers of two are required"),
    ([48, 64], r"is \[48, 64\]; powers of two are required"),
    ([-64, 64], r"is \[-64, 64\]; powers of two are required"),
    ([0, 64, 64], r"is \[0, 64, 64\]; powers of two are required, of buffers one or more"),
    (["a", 64], r"is \['a', 64\]; compile-time integers, one for each axis, are required"),
    (64, "of memory is 64; compile-time integers, one for each axis, are required"),
])  # fmt: skip
def test_extents(kernel: Any, shape: Any, message: str) -> None:
    check(kernel, {"layout": PLAIN, "shape": shape, "dtype": gl.float16}, message)


def test_any_number_of_buffers() -> None:
    compiled(allocation, "*fp16", {"layout": PLAIN, "shape": [3, 64, 64], "dtype": gl.float16})


def test_bases_that_move_nothing_are_room() -> None:
    layout = gl.SharedLinearLayout([*bases(64, 64), [0, 0]])
    constants = {"layout": layout, "shape": [2, 64, 64], "dtype": gl.float16}
    compiled(allocation, "*fp16", constants)


def test_buffers_are_no_tile() -> None:
    layout = gl.SwizzledSharedLayout(1, 1, 1, [0])
    constants = {"layout": layout, "shape": [64, 64], "dtype": gl.float16}
    check(stored, constants, r"has buffers in front of the axes of its layout; one of them is")


@gluon.jit
def permuted(out, layout: gl.constexpr, shape: gl.constexpr, dtype: gl.constexpr):
    memory = gl.allocate_shared_memory(dtype, shape, layout)
    memory.permute((0, 2, 1))


def test_buffers_are_not_permuted() -> None:
    constants = {"layout": PLAIN, "shape": [2, 64, 64], "dtype": gl.float16}
    check(permuted, constants, r"has buffers in front of the 2 axes of its layout; one of them is")


@pytest.mark.parametrize(("layout", "shape", "dtype", "message"), [
    (TensorMemoryLayout([128, 64], 1), [64, 64], gl.float32, r"64 rows; 128 \(blockM\) or more"),
    (TensorMemoryLayout([64, 64], 1), [96, 64], gl.float32, r"of \[96, 64\]; powers of two are"),
    (TensorMemoryLayout([128, 64], 1), [128], gl.float32, r"is \[128\]; tensor memory has two axe"),
    (TensorMemoryLayout([128, 64], 2), [128, 64], gl.float32, "colStride is 2, of elements of 32"),
    (TensorMemoryScalesLayout(), [128, 6], gl.uint8, r"tiles of \[128, 6\]; powers of two are"),
    (TensorMemoryScalesLayout(), [128, 4], gl.float32, "elements of 32 bits; scales have 8"),
])  # fmt: skip
def test_tensor_memory(layout: Any, shape: list[int], dtype: Any, message: str) -> None:
    constants = {"layout": layout, "shape": shape, "dtype": dtype}
    check(tensor_memory, constants, message, 100)


def test_blocks_of_descriptors() -> None:
    tensor = np.zeros((64, 64), np.float16)
    with pytest.raises(ValueError, match=r"rank=3.* for blocks of \[64, 64\]; a layout of 2 axes"):
        HopperDescriptor.from_tensor(tensor, [64, 64], gl.NVMMASharedLayout(128, 16, 3))
    with pytest.raises(ValueError, match=r"are of a tile of \[64, 64\]; of \[32, 64\] are"):
        TensorDescriptor(tensor, [64, 64], [64, 1], [32, 64], padded(64, 64))
