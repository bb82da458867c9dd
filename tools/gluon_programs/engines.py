"""Statements on copy engines: blocks of matrices, patches of convolutions, chosen rows."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from tools.gluon_programs.program import Described, GluonProgram, Memory, named, offsets
from tools.tile_programs.program import Pointer
from tritium.experimental.gluon import language as gl
from tritium.ir.layouts.encodings import part_of

_KINDS: dict[int, Any] = {1: gl.int8, 2: gl.float16, 4: gl.float32}
_DTYPES = (np.float32, np.int32, np.float16, np.int8)
_REDUCTIONS = {
    "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip


def fence(p: GluonProgram) -> None:
    """Let engines of all blocks of a cluster see what threads wrote to shared memory."""
    p.line(f"hopper.fence_async_shared({'cluster=True' if p.blocks > 1 else ''})")
    p.meet()


def _window(p: GluonProgram) -> tuple[list[int], tuple[int, int]]:
    """The shape of a block, and that of a larger array."""
    s = p.source
    block = [s.choice((8, 16, 32)), s.choice((32, 64))]
    return block, (block[0] * 2 - s.choice((0, 1, 5)), block[1] + s.choice((0, 16, 48)))


def _layout(p: GluonProgram, block: list[int], dtype: np.dtype, kept: tuple[int, ...] = ()) -> Any:
    """The layout of blocks in shared memory; `kept`: of `Layouts.cluster`. Thread blocks have rows
    of 16 bytes or more."""
    cluster = p.layouts.cluster(block, kept)
    if part_of(cluster, block)[-1] * dtype.itemsize < 16:
        cluster = p.layouts.cluster(block, (*kept, len(block) - 1))
    return gl.NVMMASharedLayout.get_default_for(
        block, _KINDS[dtype.itemsize], cga_layout=cluster
    )  # fmt: skip


def _reserved(p: GluonProgram, block: list[int], dtype: np.dtype) -> bool:
    """Take room for a block, if there is enough."""
    nbytes = 4 * block[0] * block[1] * dtype.itemsize
    if nbytes > p.room:
        return False
    p.room -= nbytes
    return True


def _descriptor(
    p: GluonProgram, pointer: Pointer, shape: tuple[int, int], block: list[int], layout: Any
) -> str:
    """A descriptor of each program's array of a shape."""
    desc = p.name("d")
    p.line(f"{desc} = tma.make_tensor_descriptor({pointer.name} + pid * {shape[0] * shape[1]}, "
           f"{list(shape)}, [{shape[1]}, 1], {block}, {p.layout(layout)})")  # fmt: skip
    return desc


def stored(p: GluonProgram) -> bool:
    """A block that the copy engine stores, or adds and the like, without what is beyond the
    array."""
    s = p.source
    if "bulk" not in p.abilities or p.indent:
        return False
    kind = s.choice(("store", "store", *_REDUCTIONS))
    dtype = np.dtype(s.choice(_DTYPES) if kind == "store" else np.int32)
    block, (rows, columns) = _window(p)
    if not _reserved(p, block, dtype):
        return False
    tile = p.tile_of(block, dtype)
    pointer = p.pointer(dtype, p.programs * rows * columns)
    # A block that is stored before its array is an illegal instruction.
    row, column = s.choice((0, 8, rows - 1)), s.choice((0, 16, columns - 16))
    at = [np.arange(n) + start for n, start in zip(block, (row, column), strict=True)]
    inside = [(a >= 0) & (a < n) for a, n in zip(at, (rows, columns), strict=True)]
    active = np.broadcast_to(inside[0][:, None] & inside[1], tile.data.shape)
    where = at[0][:, None] * columns + at[1] + p.first(2, rows * columns)
    values = tile.data
    if kind != "store":
        before = pointer.base.data[np.where(active, where, 0)]
        values = _REDUCTIONS[kind](before, values)
    if not pointer.base.write(where, active, values):
        return False
    layout = _layout(p, block, dtype)
    desc, memory = _descriptor(p, pointer, (rows, columns), block, layout), p.name("s")
    p.meet()
    p.line(
        f"{memory} = gl.allocate_shared_memory({named(dtype)}, {block}, {p.layout(layout)}, "
        f"{tile.name})"
    )
    fence(p)
    call = "async_store" if kind == "store" else f"async_atomic_{kind}"
    p.line(f"tma.{call}({desc}, [{row}, {column}], {memory})")
    p.line(f"tma.store_wait({s.choice((0, 0, 1))})")
    if s.random() < 0.5:
        p.line("tma.store_wait(0)")
        p.memories.append(_memory(memory, tile.data, layout))
    return True


def _memory(name: str, held: np.ndarray, layout: Any) -> Memory:
    """Memory that an engine has filled or read."""
    parts = layout.cga_layout
    parted = frozenset(axis for basis in parts for axis, x in enumerate(basis) if x)
    return Memory(name, held.copy(), None, parted=parted, copies=not all(map(any, parts)))


def _loaded(
    p: GluonProgram, block: list[int], dtype: np.dtype, layout: Any, nbytes: str, call: str,
    found: np.ndarray,
) -> None:  # fmt: skip
    """Memory that a copy (`call`, without the words for barrier and memory) fills, and a tile
    loaded from it. Where blocks of a cluster have copies, it may read for all of them."""
    bar, memory = p.name("b"), p.name("s")
    copies = not all(map(any, layout.cga_layout))
    multicast = ", multicast=True" if copies and p.source.random() < 0.7 else ""
    p.line(f"{memory} = gl.allocate_shared_memory({named(dtype)}, {block}, {p.layout(layout)})")
    p.line(f"{bar} = mbarrier.allocate_mbarrier()")
    p.line(f"mbarrier.init({bar}, count=1)")
    p.meet()
    p.line(f"mbarrier.expect({bar}, {nbytes})")
    p.line(f"tma.{call}, {bar}, {memory}{multicast})")
    p.line(f"mbarrier.wait({bar}, 0)")
    p.line(f"mbarrier.invalidate({bar})")
    p.meet()
    p.memories.append(_memory(memory, found, layout))
    p.new(f"{memory}.load({p.any_layout(block)})", found.copy())
    p.meet()


def copied(p: GluonProgram) -> bool:
    """A block that the copy engine loads, with what is beyond the array as zeros."""
    s = p.source
    if "bulk" not in p.abilities or p.indent:
        return False
    dtype = np.dtype(s.choice(_DTYPES))
    block, (rows, columns) = _window(p)
    if not _reserved(p, block, dtype):
        return False
    pointer = p.pointer(dtype, p.programs * rows * columns)
    data = pointer.base.data.reshape(p.programs, rows, columns)
    row, column = s.choice((0, 8, rows - 1, -3)), s.choice((0, 16, -16))
    whole = np.zeros((p.programs, rows + 128, columns + 256), dtype)
    whole[:, 64 : 64 + rows, 128 : 128 + columns] = data
    found = whole[:, 64 + row : 64 + row + block[0], 128 + column : 128 + column + block[1]]
    layout = _layout(p, block, dtype)
    desc = _descriptor(p, pointer, (rows, columns), block, layout)
    _loaded(p, block, dtype, layout, f"{desc}.nbytes_per_cta",
            f"async_load({desc}, [{row}, {column}]", found)  # fmt: skip
    return True


def patches(p: GluonProgram) -> bool:
    """Copies of what one element of a convolution's filter meets: pixel after pixel, row
    after row, image after image, from a chosen position on. Programs share the images."""
    s = p.source
    if "patches" not in p.abilities or p.indent:
        return False
    dtype, axes = np.dtype(s.choice(_DTYPES)), s.choice((1, 2, 2, 3))
    block = [s.choice((8, 16, 32)), s.choice((32, 64))]
    if not _reserved(p, block, dtype):
        return False
    spatial = [s.choice((3, 5, 8)) for _ in range(axes)]
    shape = [s.choice((1, 2, 3)), *spatial, block[1] + s.choice((0, 16))]
    pointer = p.pointer(dtype, int(np.prod(shape)))
    steps, low = [s.choice((1, 1, 2)) for _ in spatial], [s.choice((0, -1, -2)) for _ in spatial]
    high = [s.choice((0, -1, 1)) for _ in spatial]
    begins = [range(a, n + b, step)
              for n, a, b, step in zip(spatial, low, high, steps, strict=True)]  # fmt: skip
    places = list(itertools.product(range(shape[0]), *begins))
    first, moved = s.randrange(len(places)), [s.choice((0, 1, 2)) for _ in spatial]
    found = np.zeros(block, dtype)
    images, channel = pointer.base.data.reshape(shape), s.choice((0, 16))
    for row, (image, *at) in zip(found, places[first:], strict=False):
        pixel = [a + more for a, more in zip(at, moved, strict=True)]
        if all(0 <= x < n for x, n in zip(pixel, spatial, strict=True)):
            values = images[(image, *pixel)][channel:][: block[1]]
            row[: len(values)] = values
    layout = _layout(p, block, dtype, (0,))
    desc = p.described(Described(
        pointer, tuple(shape), tuple(block), layout, tuple(low), tuple(high), (1, *steps, 1)
    ))  # fmt: skip
    _loaded(p, block, dtype, layout, f"{desc}.nbytes_per_cta",
            f"async_load_im2col({desc}, {[*places[first], channel]}, {moved}",
            np.broadcast_to(found, (p.programs, *block)))  # fmt: skip
    return True


def rows(p: GluonProgram) -> bool:
    """Rows of a matrix by their numbers, of which some are beyond it: loaded, or stored."""
    s = p.source
    if "rows" not in p.abilities or p.indent:
        return False
    dtype, loads = np.dtype(s.choice(_DTYPES)), s.random() < 0.6
    block = [s.choice((8, 16, 32)), s.choice((32, 64))]
    if not _reserved(p, block, dtype):
        return False
    shape = (2 * block[0] - s.choice((0, 1, 5)), block[1] + s.choice((0, 16, 48)))
    factor, start, column = s.choice((1, 3, 5)), s.choice((0, 1)), s.choice((0, 16))
    at = (np.arange(block[0]) * factor + start) % (2 * block[0])
    inside = (at < shape[0])[:, None] & (np.arange(block[1]) + column < shape[1])
    where = np.where(inside, at[:, None] * shape[1] + np.arange(block[1]) + column, 0)
    numel = shape[0] * shape[1]
    where, active = where + p.first(2, numel), np.broadcast_to(inside, (p.programs, *block))
    layout, pointer = _layout(p, block, dtype, (0,)), p.pointer(dtype, p.programs * numel)
    tile = None if loads else p.tile_of(block, dtype)
    if tile is not None and not pointer.base.write(where, active, tile.data):
        return False
    desc, numbers = p.name("d"), p.name("at")
    p.line(f"{desc} = tma.make_tensor_descriptor({pointer.name} + pid * {numel}, {list(shape)}, "
           f"[{shape[1]}, 1], [1, {block[1]}], {p.layout(layout)})")  # fmt: skip
    by_rows = p.layout(gl.SliceLayout(0, _rows_layout(p, layout.cga_layout)))
    p.line(f"{numbers} = ({offsets([block[0]], [factor], by_rows)} + {start}) % {2 * block[0]}")
    if tile is None:
        found = np.where(active, pointer.base.data[where], np.zeros((), dtype))
        nbytes = int(np.prod(block)) * dtype.itemsize
        for basis in layout.cga_layout:
            nbytes //= 1 + any(basis)
        _loaded(p, block, dtype, layout, str(nbytes),
                f"async_gather({desc}, {numbers}, {column}", found)  # fmt: skip
        return True
    memory = p.name("s")
    p.meet()
    p.line(
        f"{memory} = gl.allocate_shared_memory({named(dtype)}, {block}, {p.layout(layout)}, "
        f"{tile.name})"
    )
    fence(p)
    p.line(f"tma.async_scatter({desc}, {numbers}, {column}, {memory})")
    p.line("tma.store_wait(0)")
    p.meet()
    return True


def _rows_layout(p: GluonProgram, cluster: Any) -> Any:
    """The layout of the numbers of rows: each thread of a warp has the same, four at a time."""
    return gl.BlockedLayout([1, 4], [p.lanes, 1], [1, p.warps], [1, 0],
                            [basis[::-1] for basis in cluster])  # fmt: skip
