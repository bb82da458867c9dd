"""Gluon tutorial 01: layouts.

In a `tl` kernel the compiler decides which thread holds which element of a block. In a Gluon kernel
the program does: every block has a *layout*. This tutorial copies and transposes matrices, looks at
the code that layouts lead to, and counts what they cost.

It needs no GPU: without one the kernels run in the interpreter, which checks the layouts as the
compiler does, and the machine code is looked at, not run.

    python tutorials/gluon/01_layouts.py
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import tritium
from tritium.experimental import gluon
from tritium.experimental.gluon import language as gl
from tritium.target import GPUTarget

sys.path.insert(0, str(Path(__file__).parents[1]))
from arrays import empty, fetch, on_gpu, place

if not on_gpu():
    tritium.knobs.runtime.interpret = True

# ---------------------------------------------------------------------------------------------
# A copy
#
# `BlockedLayout` is made of nested boxes: each thread holds `size_per_thread` neighbours, 32
# threads are a warp, `warps_per_cta` warps are the thread block. A block that is larger than all of
# them together is covered by going round again. `order` says which axis is counted first; here
# there is only one.


@gluon.jit
def copy_kernel(src, out, n, layout: gl.constexpr, BLOCK: gl.constexpr):
    offsets = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, layout)
    # From here on layouts follow: sums, comparisons and loads have their operands' layout.
    mask = offsets < n
    gl.store(out + offsets, gl.load(src + offsets, mask), mask)


def line(per_thread: int, warps: int = 4) -> gl.BlockedLayout:
    """A layout of one axis with so many neighbours a thread."""
    return gl.BlockedLayout([per_thread], [32], [warps], [0])


def copy(x, layout, block: int = 1024):
    """A copy of a vector, made in the layout."""
    out = empty(x.shape, x)
    n = x.shape[0]
    copy_kernel[(tritium.cdiv(n, block),)](x, out, n, layout=layout, BLOCK=block)
    return out


# A layout can be printed. In the first picture each element shows who holds it: `T3:1` is the
# second register of thread 3. The second picture has a row for each thread.


def pictures() -> str:
    """A small layout both ways."""
    small = gl.BlockedLayout([1, 2], [2, 2], [1, 1], [1, 0])
    return f"{small.format_tensor_view([4, 8])}\n\n{small.format_hardware_view([4, 8])}"


# ---------------------------------------------------------------------------------------------
# What a layout costs
#
# A thread moves its neighbours in memory with one instruction, up to 16 bytes. So four `float32` a
# thread make a quarter of the instructions that one a thread makes. Compiling needs no GPU.


def instructions(layout, arch: int = 90) -> dict[str, int]:
    """How often the copy's machine code loads in each width."""
    types = {"src": "*fp32", "out": "*fp32", "n": "i32"}
    aligned = {(i,): [["tt.divisibility", 16]] for i in range(3)}
    source = gluon.GluonASTSource(
        compiled(copy_kernel), types, {"layout": layout, "BLOCK": 1024}, aligned
    )
    ptx: str = tritium.compile(source, target=GPUTarget("cuda", arch, 32)).asm["ptx"]
    kinds = {"ld.global.v4.b32": 0, "ld.global.v2.b32": 0, "ld.global.b32": 0}
    return {kind: ptx.count(kind) for kind in kinds}


def compiled(kernel):
    """The kernel for the compiler, also where kernels run in the interpreter."""
    return gluon.GluonJITFunction(kernel.fn)


# `CoalescedLayout` leaves the choice to the compiler, which looks at the addresses, as it does for
# `tl` kernels. `AutoLayout`, the default of functions that make a block, waits for the first
# operation with a block that has a layout.

# ---------------------------------------------------------------------------------------------
# Two axes, and changes of layout
#
# A transposed copy reads rows and writes columns. One layout cannot be good for both: in the rows'
# layout neighbouring threads would write addresses that are a column apart. So the block changes
# its layout in between. The compiler finds the cheapest way for that: renaming registers, shuffles
# in a warp, or through shared memory, in an order without bank conflicts.
#
# `SliceLayout(1, rows)` is the layout of a vector that becomes a column of a block in `rows` when
# it gets an axis, as `i[:, None]` does. It is also what a sum along axis 1 leaves.


@gluon.jit
def transpose_kernel(
    src, out, rows: gl.constexpr, columns: gl.constexpr, M: gl.constexpr, N: gl.constexpr
):
    i = gl.arange(0, M, gl.SliceLayout(1, rows))[:, None]
    j = gl.arange(0, N, gl.SliceLayout(0, rows))[None, :]
    x = gl.load(src + i * N + j)
    x = gl.convert_layout(x, columns)
    i = gl.arange(0, M, gl.SliceLayout(1, columns))[:, None]
    j = gl.arange(0, N, gl.SliceLayout(0, columns))[None, :]
    gl.store(out + j * M + i, x)


ROWS = gl.BlockedLayout([1, 4], [2, 16], [4, 1], [1, 0])
COLUMNS = gl.BlockedLayout([4, 1], [16, 2], [1, 4], [0, 1])


def transpose(x):
    """A transposed copy of a 64 x 64 matrix."""
    out = empty((64, 64), x)
    transpose_kernel[(1,)](x, out, rows=ROWS, columns=COLUMNS, M=64, N=64)
    return out


# ---------------------------------------------------------------------------------------------
# Through shared memory by hand
#
# Shared memory has layouts, too. With plain rows, threads that read a column all want the same bank
# and are served one after the other; `SwizzledSharedLayout` permutes each row's groups so that a
# column is spread over all banks. `bank_conflicts` counts the further turns an access takes.


@gluon.jit
def shared_kernel(
    src, out, rows: gl.constexpr, columns: gl.constexpr, shared: gl.constexpr
):
    i = gl.arange(0, 64, gl.SliceLayout(1, rows))[:, None]
    j = gl.arange(0, 64, gl.SliceLayout(0, rows))[None, :]
    memory = gl.allocate_shared_memory(gl.float32, [64, 64], shared)
    gl.static_print(
        "further turns:",
        gl.bank_conflicts(gl.distributed_type(gl.float32, [64, 64], rows), memory.type),
        gl.bank_conflicts(gl.distributed_type(gl.float32, [64, 64], columns), memory.type),
    )
    memory.store(gl.load(src + i * 64 + j))
    # `permute` is a view: rows of the memory are columns of the block from here on.
    gl.store(out + i * 64 + j, memory.permute((1, 0)).load(rows))


PLAIN = gl.SwizzledSharedLayout(1, 1, 1, [1, 0])
SWIZZLED = gl.SwizzledSharedLayout(4, 4, 16, [1, 0])


def transpose_in_memory(x, shared=SWIZZLED):
    """A transposed copy of a 64 x 64 matrix, by a view of shared memory."""
    out = empty((64, 64), x)
    shared_kernel[(1,)](x, out, rows=ROWS, columns=COLUMNS, shared=shared)
    return out


# ---------------------------------------------------------------------------------------------
# Checks


def check(n: int = 5000) -> None:
    """Raise `AssertionError` where a copy is wrong."""
    x = np.arange(n, dtype=np.float32)
    for layout in (line(1), line(4), gl.CoalescedLayout()):
        np.testing.assert_array_equal(fetch(copy(place(x), layout)), x)
    square = np.arange(64 * 64, dtype=np.float32).reshape(64, 64)
    for shared in (PLAIN, SWIZZLED):
        out = transpose_in_memory(place(square), shared)
        np.testing.assert_array_equal(fetch(out), square.T)
    np.testing.assert_array_equal(fetch(transpose(place(square))), square.T)


if __name__ == "__main__":
    print(pictures(), "\n")
    for layout in (line(1), line(2), line(4), gl.CoalescedLayout()):
        print(instructions(layout), layout)
    check()
    print("the copies are right")
