"""Gluon tutorial 05: a convolution on Hopper.

A convolution is a matrix product in disguise. Each row of the left operand belongs to one position
of the filter and holds the pixels that the filter covers there; each column of the right operand is
one filter. The left operand, known as *im2col*, would be as many times larger than the image as the
filter has elements, so nobody wants to write it down.

Nobody has to: the copy engine can read it straight out of the image. For one element of the filter
and a run of positions it brings the pixels that this element meets, row by row and image by image,
with zeros where the filter hangs over the edge. That block is part of the left operand, laid out
as the tensor cores want it.

    python tutorials/gluon/05_convolution.py
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import tritium
from tritium.experimental import gluon
from tritium.experimental.gluon import language as gl
from tritium.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_init,
    warpgroup_mma_wait,
)
from tritium.experimental.gluon.nvidia.hopper import TensorDescriptor, TensorDescriptorIm2Col
from tritium.target import GPUTarget

sys.path.insert(0, str(Path(__file__).parents[1]))
from arrays import empty, fetch, on_gpu, place

if not on_gpu():
    tritium.knobs.runtime.interpret = True

# ---------------------------------------------------------------------------------------------
# Where a filter can be
#
# Images are (batch, rows, columns, channels), filters (filters, rows, columns, channels): channels
# come last, so that what lies side by side in memory is summed over.
#
# A `TensorDescriptorIm2Col` says at which pixels the filter's first element can be:
#
# - `pixel_box_lower_corner`: the first such pixel of each image, minus the padding;
# - `pixel_box_upper_corner`: the last, counted from the last pixel: the padding minus how far the
#   filter reaches beyond its first element;
# - `element_strides`: how far apart they are.
#
# A block is (positions, channels). Positions run along the rows, then down them, then on to the
# next image: a block may begin in the middle of a row and end in another image.


def patches(x, positions: int, channels: int, size: int, stride: int, padding: int):
    """A descriptor of what a filter of size x size elements covers."""
    layout = gl.NVMMASharedLayout.get_default_for([positions, channels], gl.float16)
    return TensorDescriptorIm2Col.from_tensor(
        x, [positions, channels], layout, element_strides=[1, stride, stride, 1],
        pixel_box_lower_corner=[-padding] * 2, pixel_box_upper_corner=[padding - size + 1] * 2,
    )  # fmt: skip


def tiles(x, block: list[int]) -> TensorDescriptor:
    """A descriptor of a matrix of float16."""
    return TensorDescriptor.from_tensor(
        x, block, gl.NVMMASharedLayout.get_default_for(block, gl.float16)
    )


# ---------------------------------------------------------------------------------------------
# Loading
#
# `async_load_im2col` takes the first position as a pixel, (image, row, column, channel), and in
# `offsets` which element of the filter it is about. The offsets are 16-bit integers. The engine
# counts on from there: which pixels come next the program need not know.


@gluon.jit
def load(x, w, first, lefts, rights, full, empty, HEIGHT: gl.constexpr, WIDTH: gl.constexpr,
         SIZE: gl.constexpr, CHANNELS: gl.constexpr, STRIDE: gl.constexpr, PADDING: gl.constexpr):
    """`HEIGHT` and `WIDTH`: of the result. `first`: of the positions."""
    slots: gl.constexpr = lefts.shape[0]
    PART: gl.constexpr = x.block_shape[1]
    image, place = first // (HEIGHT * WIDTH), first % (HEIGHT * WIDTH)
    row, column = place // WIDTH * STRIDE - PADDING, place % WIDTH * STRIDE - PADDING
    step = 0
    for element in range(SIZE * SIZE):
        offsets = [(element // SIZE).to(gl.int16), (element % SIZE).to(gl.int16)]
        for channel in range(0, CHANNELS, PART):
            slot = step % slots
            mbarrier.wait(empty.index(slot), step // slots & 1 ^ 1)
            bar = full.index(slot)
            mbarrier.expect(bar, x.nbytes_per_cta + w.nbytes_per_cta)
            at = [image, row, column, channel]
            tma.async_load_im2col(x, at, offsets, bar, lefts.index(slot))
            k = element * CHANNELS + channel
            tma.async_load(w, [gl.program_id(1) * w.block_shape[0], k], bar, rights.index(slot))
            step += 1


# ---------------------------------------------------------------------------------------------
# Multiplying
#
# From here on it is the product of tutorial 02. Filters are stored one after the other, k along the
# rows; `permute` shows the tensor cores the same memory with k down the columns.


@gluon.jit
def multiply(out, first, count, lefts, rights, full, empty):
    positions: gl.constexpr = lefts.shape[1]
    filters: gl.constexpr = rights.shape[1]
    slots: gl.constexpr = lefts.shape[0]
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, filters, 16])
    acc = warpgroup_mma_init(gl.zeros([positions, filters], gl.float32, layout))
    for step in range(count):
        slot = step % slots
        mbarrier.wait(full.index(slot), step // slots & 1)
        right = rights.index(slot).permute((1, 0))
        acc = warpgroup_mma(lefts.index(slot), right, acc, is_async=True)
        acc = warpgroup_mma_init(warpgroup_mma_wait(1, deps=[acc]))
        mbarrier.arrive(empty.index((step + slots - 1) % slots), pred=step > 0)
    result = warpgroup_mma_wait(0, deps=[acc])
    done = gl.allocate_shared_memory(out.dtype, out.block_shape, out.layout)
    done.store(result.to(out.dtype))
    fence_async_shared()
    tma.async_store(out, [first, gl.program_id(1) * filters], done)
    tma.store_wait(0)


@gluon.jit
def ring_of_barriers(count: gl.constexpr):
    bars = mbarrier.allocate_mbarrier(batch=count)
    for i in gl.static_range(count):
        mbarrier.init(bars.index(i), count=1)
    return bars


@gluon.jit
def convolution(x, w, out, HEIGHT: gl.constexpr, WIDTH: gl.constexpr, SIZE: gl.constexpr,
                CHANNELS: gl.constexpr, STRIDE: gl.constexpr, PADDING: gl.constexpr,
                STAGES: gl.constexpr):
    lefts = gl.allocate_shared_memory(x.dtype, [STAGES, *x.block_shape], x.layout)
    rights = gl.allocate_shared_memory(w.dtype, [STAGES, *w.block_shape], w.layout)
    full, empty = ring_of_barriers(STAGES), ring_of_barriers(STAGES)
    first = gl.program_id(0) * x.block_shape[0]
    count: gl.constexpr = SIZE * SIZE * (CHANNELS // x.block_shape[1])
    memory = (lefts, rights, full, empty)
    gl.warp_specialize(
        [
            (multiply, (out, first, count, *memory)),
            (load, (x, w, first, *memory, HEIGHT, WIDTH, SIZE, CHANNELS, STRIDE, PADDING)),
        ],
        worker_num_warps=[1],
        worker_num_regs=[40],
    )


# ---------------------------------------------------------------------------------------------
# Launching


def sizes(x, w, stride: int, padding: int) -> tuple[int, int, int, int]:
    """(images, rows, columns, filters) of the result."""
    count, rows, columns, _ = x.shape
    size = w.shape[1]
    reach = 2 * padding - size
    return count, (rows + reach) // stride + 1, (columns + reach) // stride + 1, w.shape[0]


def convolve(x, w, stride: int = 1, padding: int = 1, positions: int = 128, filters: int = 64,
             channels: int = 64, stages: int = 3):  # fmt: skip
    """Each filter at each position of each image. Channels are a multiple of `channels`."""
    shape = sizes(x, w, stride, padding)
    rows = shape[0] * shape[1] * shape[2]
    out = empty((rows, w.shape[0]), x)
    size = w.shape[1]
    convolution[(tritium.cdiv(rows, positions), tritium.cdiv(w.shape[0], filters))](
        patches(x, positions, channels, size, stride, padding),
        tiles(w.reshape(w.shape[0], -1), [filters, channels]), tiles(out, [positions, filters]),
        HEIGHT=shape[1], WIDTH=shape[2], SIZE=size, CHANNELS=x.shape[3], STRIDE=stride,
        PADDING=padding, STAGES=stages, num_warps=4,
    )  # fmt: skip
    return out.reshape(shape)


def reference(x, w, stride: int, padding: int) -> np.ndarray:
    """The same by NumPy, with the patches written down."""
    size, edge = w.shape[1], (padding, padding)
    wide = np.pad(x.astype(np.float32), ((0, 0), edge, edge, (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(wide, (size, size), axis=(1, 2))
    return np.einsum("nhwcrs,frsc->nhwf", windows[:, ::stride, ::stride], w.astype(np.float32))


def check(shape: tuple[int, ...], filters: int, size: int, stride: int, padding: int) -> None:
    """Raise `AssertionError` where a result is wrong; small integers are multiplied exactly."""
    rng = np.random.default_rng(0)
    x = rng.integers(-2, 3, shape).astype(np.float16)
    w = rng.integers(-2, 3, (filters, size, size, shape[-1])).astype(np.float16)
    found = fetch(convolve(place(x), place(w), stride, padding))
    np.testing.assert_array_equal(found, reference(x, w, stride, padding).astype(np.float16))


def compiled(positions: int = 128, filters: int = 64, channels: int = 64):
    """The kernel compiled for sm_90: 3 x 3 filters of 128 channels on images of 56 x 56 pixels."""
    spare = np.zeros((1, 8, 8, 128), np.float16)
    x = patches(spare, positions, channels, 3, 1, 1)
    matrix = spare.reshape(64, 128)
    types = {"x": f"tensordesc_im2col<fp16{[positions, channels]},input_rank=4,{x.layout!r}>"}
    for name, block in (("w", [filters, channels]), ("out", [positions, filters])):
        types[name] = f"tensordesc<fp16{block},{tiles(matrix, block).layout!r}>"
    constants = {
        "HEIGHT": 56, "WIDTH": 56, "SIZE": 3, "CHANNELS": 128, "STRIDE": 1, "PADDING": 1,
        "STAGES": 3,
    }  # fmt: skip
    kernel = gluon.GluonJITFunction(convolution.fn)
    source = gluon.GluonASTSource(kernel, types, constants)
    return tritium.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})


if __name__ == "__main__":
    code = compiled()
    ptx = code.asm["ptx"]
    print(f"convolution: {ptx.count('wgmma.mma_async')} wgmma, {ptx.count('.im2col')} copies of "
          f"patches, {code.metadata.shared} bytes of shared memory")  # fmt: skip
    check((2, 9, 12, 64), filters=64, size=3, stride=1, padding=1)
    check((3, 10, 8, 128), filters=96, size=3, stride=2, padding=1)
    check((1, 11, 11, 64), filters=64, size=5, stride=1, padding=0)
    print("the convolutions are right")
