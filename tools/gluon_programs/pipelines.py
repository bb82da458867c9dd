"""Statements on work beside the program: copies by threads, partitions of warps, buffers."""

from __future__ import annotations

from typing import Any

import numpy as np

from tools.gluon_programs.layouts import Bases, Layouts, part_of, shared, split
from tools.gluon_programs.program import GluonProgram, index, named, offsets, strides_of
from tools.tile_programs.accesses import ELEMENTS
from tools.tile_programs.program import row_major
from tritium.experimental.gluon import language as gl

_SHAPES = ((64,), (256,), (16, 16), (8, 64), (32, 32))


def _for_copies(p: GluonProgram, shape: tuple[int, ...], size: int) -> tuple[Any, Any]:
    """Layouts of addresses and of memory such that a thread copies 4 bytes or more at once."""
    s, rank, least = p.source, len(shape), max(4 // size, 1)
    per_thread = [1] * rank
    per_thread[-1] = s.choice([w for w in (least, 2 * least, 16 // size) if w <= 16 // size])
    order = list(reversed(range(rank)))
    if "copies4" in p.abilities:  # lanes write places one after the other, 4 or 16 bytes each
        per_thread[-1] = s.choice((4, 16)) // size
        in_row = min(p.lanes, shape[-1] // per_thread[-1]) if rank > 1 else p.lanes
        rest = [p.lanes // in_row] * (rank - 1)
        warps = [p.warps, *[1] * (rank - 1)]
        return (gl.BlockedLayout(per_thread, [*rest, in_row], warps, order),
                gl.SwizzledSharedLayout(1, 1, 1, order))  # fmt: skip
    threads = split(s, p.lanes, rank)
    cluster = p.layouts.cluster(shape)
    addresses = gl.BlockedLayout(per_thread, threads, split(s, p.warps, rank), order, cluster)
    if least == 1 and s.random() < 0.4 and p.blocks == 1:
        return p.layouts.any(shape), shared(s, shape, 8 * size)
    row = part_of(shape, cluster)[-1]
    vec = s.choice([v for v in (least, 2 * least, 16 // size) if v <= row])
    phases = s.choice([m for m in (1, 2, 4) if vec * m <= row])
    return addresses, gl.SwizzledSharedLayout(vec, s.choice((1, 2)), phases, order, cluster)


def copied(p: GluonProgram) -> bool:
    """A sum of tiles that copies bring to one buffer after the other, some steps ahead."""
    s = p.source
    if "copies" not in p.abilities and "copies4" not in p.abilities:
        return False
    shape, dtype = (
        s.choice(_SHAPES),
        np.dtype(s.choice((np.float32, np.int32, np.float16, np.int8))),
    )
    numel, stages, count = int(np.prod(shape)), s.choice((1, 2, 3)), s.choice((0, 1, 3, 4))
    if "copies4" in p.abilities and numel * dtype.itemsize < 16 * p.lanes * p.warps:
        return False  # warps would copy the same
    nbytes = 2 * stages * numel * dtype.itemsize
    if nbytes > p.room:
        return False
    p.room -= nbytes
    addresses, memory = _for_copies(p, shape, dtype.itemsize)
    pointer = p.pointer(dtype, p.programs * max(count, 1) * numel)
    data = pointer.base.data.reshape(p.programs, max(count, 1), *shape)
    result = np.dtype(np.int32 if dtype.kind == "i" else np.float32)
    total = data[:, :count].sum(1, dtype=result)
    if not p.exact(total):
        return False
    ring, at, name, step = p.name("s"), p.name("at"), p.name("v"), p.name("k")
    layout = p.any_layout(shape)
    held = p.scalar(count) if s.random() < 0.7 else str(count)
    start = f"{pointer.name} + pid * {max(count, 1) * numel}"
    p.line(
        f"{ring} = gl.allocate_shared_memory({named(dtype)}, {[stages, *shape]}, "
        f"{p.layout(memory)})"
    )
    p.line(f"{at} = {offsets(shape, strides_of(shape), p.layout(addresses))}")
    p.line(f"{name} = gl.zeros({list(shape)}, {named(result)}, {layout})")
    copy = "ampere.async_copy" if "copies" in p.abilities else "gl.amd.cdna4.async_copy"
    load = "async_load" if "copies" in p.abilities else "global_load_to_shared"

    p.meet()

    def start_copy(number: str, indent: str) -> None:
        p.line(
            f"{indent}{copy}.{load}({ring}.index(({number}) % {stages}), {start} + ({number}) * "
            f"{numel} + {at}, ({at} < {numel}) & (({number}) < {held}))"
        )
        p.line(f"{indent}{copy}.commit_group()")

    for number in range(stages - 1):
        start_copy(str(number), "")
    p.line(f"for {step} in range({held}):")
    start_copy(f"{step} + {stages - 1}", "    ")
    p.line(f"    {copy}.wait_group({stages - 1})")
    p.meet("    ")
    p.line(f"    {name} += {ring}.index({step} % {stages}).load({layout}).to({named(result)})")
    p.meet("    ")
    p.line(f"{copy}.wait_group(0)")
    p.new(name, total)
    return True


def buffered(p: GluonProgram) -> bool:
    """A buffer load with a mask, or an atomic addition by a buffer instruction."""
    s = p.source
    if "buffers" not in p.abilities:
        return False
    shape, dtype = s.choice(_SHAPES), s.choice(ELEMENTS)
    numel = int(np.prod(shape))
    pointer = p.pointer(dtype, p.programs * numel - s.randrange(numel))
    where = row_major(shape) + p.first(len(shape), numel)
    active = where < pointer.length
    data = pointer.base.read(where, p.among_active(active))
    assert data is not None
    name, other = p.name("at"), s.choice((0, 1, -3))
    p.line(f"{name} = pid * {numel} + {offsets(shape, strides_of(shape), p.any_layout(shape))}")
    tile = p.new(
        f"gl.amd.cdna3.buffer_load({pointer.name}, {name}, {name} < {p.scalar(pointer.length)}, "
        f"{other})", np.where(active, data, np.asarray(other).astype(dtype)),
    )  # fmt: skip
    if dtype in (np.dtype(np.int32), np.dtype(np.int64)) and s.random() < 0.5:
        sums = p.pointer(dtype, 64)
        at = (tile.data & dtype.type(63)).astype(np.int64)
        np.add.at(sums.base.data, at[p.active].ravel(), tile.data[p.active].ravel())
        sums.shared = True
        p.line(
            f"gl.amd.cdna3.buffer_atomic_add({sums.name}, ({tile.name} & 63).to(gl.int32), "
            f"{tile.name})"
        )
    return True


def _step(
    p: GluonProgram, layouts: Layouts, shape: tuple[int, ...], data: np.ndarray
) -> tuple[str, np.ndarray]:
    """The code by which a partition changes a tile `x` of step `k`, and the result (steps are its
    second axis)."""
    s, axis = p.source, p.source.randrange(len(shape))
    kind = s.choice(("add", "scan", "convert", "sums", *["gather"] * (layouts.blocks == 1)))
    if kind == "add":
        steps = np.arange(data.shape[1], dtype=np.int32).reshape(1, -1, *(1,) * len(shape))
        return "x + k", data + steps
    if kind == "scan":
        return f"gl.cumsum(x, {axis})", np.cumsum(data, axis + 2, dtype=np.int32)
    if kind == "sums":
        total = data.max(axis + 2, keepdims=True)
        if len(shape) == 1:
            return "x - gl.max(x, 0)", data - total
        return f"x - gl.expand_dims(gl.max(x, {axis}), {axis})", data - total
    if kind == "gather":
        n, by = shape[axis], s.choice((1, 3))
        at = f"({index(axis, shape, 'x.type.layout')} + {by}) % {n}"
        zeros = f"gl.zeros({list(shape)}, gl.int32, x.type.layout)"
        return f"gl.gather(x, {at} + {zeros}, {axis})", np.take(
            data, (np.arange(n) + by) % n, axis + 2
        )
    return f"gl.convert_layout(x, {p.layout(layouts.any(shape))})", data


def partitioned(p: GluonProgram) -> bool:
    """Partitions of warps in a row: the first loads tiles, each hands them to the next through
    buffers in shared memory, the last stores them."""
    s = p.source
    if "partitions" not in p.abilities or p.indent or p.warps % 4:
        return False
    shape, count = s.choice(_SHAPES), s.choice((1, 2, 5))
    numel, stages = int(np.prod(shape)), s.choice((2, 2, 3))
    rings = [s.choice((1, 2, 3)) for _ in range(stages - 1)]
    if 2 * 4 * numel * sum(rings) > p.room:
        return False
    p.room -= 2 * 4 * numel * sum(rings)
    warps = [p.warps, *(s.choice((1, 2, 4)) for _ in range(stages - 1))]
    s.shuffle(warps)
    source = p.pointer(np.int32, p.programs * count * numel)
    out = p.pointer(
        np.int32, p.programs * count * numel, np.zeros(p.programs * count * numel, np.int32)
    )
    data = source.base.data.reshape(p.programs, count, *shape)
    cluster = p.layouts.cluster(shape)
    names = [_ring(p, shape, depth, cluster) for depth in rings]
    held = p.scalar(count) if s.random() < 0.7 else str(count)
    arguments = [
        held,
        f"{source.name} + pid * {count * numel}",
        f"{out.name} + pid * {count * numel}",
    ]
    called: list[str] = []
    for stage, number in enumerate(warps):
        layouts = p.layouts.of_warps(number, cluster)
        text, data = _partition(p, shape, layouts, stage, rings, data)
        parts = [n for ring in names for n in ring]
        called.append(f"({text}, ({', '.join([*parts, *arguments])}))")
    main = warps.index(p.warps)
    called.insert(0, called.pop(main))
    others = [n for i, n in enumerate(warps) if i != main]
    p.line(f"gl.warp_specialize([{', '.join(called)}], {others})")
    where = np.arange(data.size).reshape(p.programs, -1)
    out.base.write(where, np.ones(where.shape, bool), data.reshape(p.programs, -1))
    return True


def _ring(
    p: GluonProgram, shape: tuple[int, ...], depth: int, cluster: Bases
) -> tuple[str, str, str]:
    """Buffers, with barriers of those that are full and of those that are empty."""
    ring, full, empty = p.name("s"), p.name("b"), p.name("b")
    layout = p.layout(shared(p.source, shape, 32, cluster))
    p.line(f"{ring} = gl.allocate_shared_memory(gl.int32, {[depth, *shape]}, {layout})")
    for bars in (full, empty):
        p.line(f"{bars} = mbarrier.allocate_mbarrier(batch={depth})")
        p.line(f"for i in gl.static_range({depth}):")
        p.line(f"    mbarrier.init({bars}.index(i), count=1)")
    return ring, full, empty


def _partition(
    p: GluonProgram,
    shape: tuple[int, ...],
    layouts: Layouts,
    stage: int,
    rings: list[int],
    data: np.ndarray,
) -> tuple[str, np.ndarray]:
    """The function of a partition, which becomes one of the kernel's, and what it hands on."""
    numel, name = int(np.prod(shape)), p.name("part")
    parts = ", ".join(f"r{i}, f{i}, e{i}" for i in range(len(rings)))
    lines = [f"@gluon.jit\ndef {name}({parts}, count, src, out):", "    for k in range(count):"]

    def add(text: str) -> None:
        lines.append(f"        {text}")

    first, at = p.layout(layouts.any(shape)), strides_of(shape)
    if stage == 0:
        leaves_open = len(shape) == 1 and layouts.blocks == 1 and p.source.random() < 0.5
        loaded = offsets(shape, at, "gl.CoalescedLayout()" if leaves_open else first)
        add(f"x = gl.convert_layout(gl.load(src + k * {numel} + {loaded}), {first})")
    else:
        ring, depth = stage - 1, rings[stage - 1]
        add(f"mbarrier.wait(f{ring}.index(k % {depth}), k // {depth} & 1)")
        add(f"x = r{ring}.index(k % {depth}).load({first})")
        add(f"mbarrier.arrive(e{ring}.index(k % {depth}))")
    for _ in range(p.source.choice((0, 1, 2))):
        text, data = _step(p, layouts, shape, data)
        add(f"x = {text}")
    if stage == len(rings):
        add(f"gl.store(out + k * {numel} + {offsets(shape, at, 'x.type.layout')}, x)")
    else:
        depth = rings[stage]
        add(f"mbarrier.wait(e{stage}.index(k % {depth}), k // {depth} & 1 ^ 1)")
        add(f"r{stage}.index(k % {depth}).store(x)")
        add(f"mbarrier.arrive(f{stage}.index(k % {depth}))")
    p.functions.append("\n".join(lines) + "\n\n\n")
    return name, data
