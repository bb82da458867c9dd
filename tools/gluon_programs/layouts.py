"""Random layouts of blocks and of shared memory."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from math import prod
from typing import Any

from tritium.experimental.gluon import language as gl
from tritium.experimental.gluon.language.amd import AMDMFMALayout, AMDWMMALayout

Bases = list[list[int]]


def text_of(layout: Any) -> str:
    """The expression that makes a layout in a kernel."""
    plain = repr(layout)
    return re.sub(r"(AMD)?(\w+?Layout)\(",
                  lambda m: f"gl.{'amd.AMD' if m[1] else ''}{m[2]}(", plain)  # fmt: skip


def split(s: random.Random, total: int, rank: int) -> list[int]:
    """`total`, a power of two, as the product of one factor for each axis."""
    factors = [1] * rank
    for _ in range(total.bit_length() - 1):
        factors[s.randrange(rank)] *= 2
    return factors


def order_of(s: random.Random, rank: int) -> list[int]:
    """The axes in any order."""
    order = list(range(rank))
    s.shuffle(order)
    return order


def unit_bases(shape: Sequence[int], order: Sequence[int] | None = None) -> Bases:
    """A basis for each bit of each coordinate, those of the first axis in `order` first."""
    axes = range(len(shape)) if order is None else order
    return [[1 << bit if i == axis else 0 for i in range(len(shape))]
            for axis in axes for bit in range(shape[axis].bit_length() - 1)]  # fmt: skip


def mixed(s: random.Random, bases: Bases, of_one_axis: bool) -> Bases:
    """Bases that reach the same elements: some added (by exclusive or) to others."""
    made = [list(basis) for basis in bases]
    for _ in range(s.choice((0, 0, 1, 3, 6)) if len(made) > 1 else 0):
        a, b = s.sample(range(len(made)), 2)
        total = [x ^ y for x, y in zip(made[a], made[b], strict=True)]
        if not of_one_axis or sum(map(bool, total)) == 1:
            made[a] = total
    return made


class Layouts:
    """Layouts for a number of warps of some lanes, in each block of a cluster.

    Args:
        s: the source of chance.
        units: the matrix units whose layouts there are: `mma`, `wgmma`, `mfma3`, `mfma4`, `wmma1`
            or `wmma2`.
        blocks: the thread blocks of the cluster.
        fixed: where the parts of further blocks begin, if it is the same for all layouts.
    """

    def __init__(
        self, s: random.Random, lanes: int, warps: int, units: Sequence[str] = (), blocks: int = 1,
        fixed: Bases | None = None,
    ):  # fmt: skip
        self.s, self.lanes, self.warps, self.units = s, lanes, warps, units
        self.blocks, self.fixed = blocks, fixed

    def of_warps(self, warps: int, fixed: Bases) -> Layouts:
        """Those of the tiles of a partition, of which each block has the same part."""
        return Layouts(
            self.s, self.lanes, warps, self.units, self.blocks, fixed if self.blocks > 1 else None
        )

    def cluster(self, shape: Sequence[int], kept: Sequence[int] = ()) -> Bases:
        """The places at which the parts of further blocks begin in a tile of this shape; some have
        copies. All blocks have all of the axes `kept`."""
        if self.fixed is not None:
            return self.fixed
        s, found, counts = self.s, Bases(), [1] * len(shape)
        for _ in range(self.blocks.bit_length() - 1):
            axes = [a for a, n in enumerate(shape) if a not in kept and 2 * counts[a] <= n]
            basis = [0] * len(shape)
            if axes and s.random() < 0.75:
                axis = s.choice(axes)
                basis[axis] = counts[axis]
                counts[axis] *= 2
            found.append(basis)
        return found

    def blocked(self, shape: Sequence[int]) -> Any:
        """Nested boxes in any order."""
        s, rank = self.s, len(shape)
        return gl.BlockedLayout(
            split(s, s.choice((1, 1, 2, 4, 8)), rank), split(s, self.lanes, rank),
            split(s, self.warps, rank), order_of(s, rank), self.cluster(shape),
        )  # fmt: skip

    def splittable(self, shape: Sequence[int]) -> Any:
        """Nested boxes in which each thread has both elements along the last axis."""
        rank = len(shape)
        layout = self.blocked(shape)
        size, threads, warps = (list(x) for x in (
            layout.size_per_thread, layout.threads_per_warp, layout.warps_per_cta))  # fmt: skip
        for factors in (threads, warps):
            factors[0], factors[-1] = factors[0] * factors[-1], 1
        size[-1] = 2
        order = [rank - 1, *(a for a in layout.order if a != rank - 1)]
        return gl.BlockedLayout(size, threads, warps, order, self.cluster(shape, [rank - 1]))

    def linear(self, shape: Sequence[int]) -> Any:
        """All bits of all coordinates in any order, some added to others; lanes and warps for which
        there are none, and sometimes registers, hold copies."""
        s, rank = self.s, len(shape)
        bases = mixed(s, unit_bases(shape), of_one_axis=s.random() < 0.5)
        s.shuffle(bases)
        between = [bases.pop() if bases and s.random() < 0.75 else [0] * rank
                   for _ in range(self.blocks.bit_length() - 1)]  # fmt: skip
        threads = self.lanes.bit_length() + self.warps.bit_length() - 2
        spare = min(threads, max(threads - len(bases), s.choice((0, 0, 1))))
        held = [*bases[: threads - spare], *[[0] * rank] * spare]
        s.shuffle(held)
        lane_bits = self.lanes.bit_length() - 1
        registers = bases[threads - spare :]
        if s.random() < 0.1:
            registers.insert(s.randrange(len(registers) + 1), [0] * rank)
        return gl.DistributedLinearLayout(
            registers, held[:lane_bits], held[lane_bits:], between, list(shape)
        )

    def unit(self, name: str, shape: Sequence[int] = (1, 1)) -> Any:
        """The layout of results, of this shape where blocks of a cluster have parts, of a matrix
        unit."""
        s, warps = self.s, split(self.s, self.warps, 2)
        if name == "mma":
            return gl.NVMMADistributedLayout([2, 0], warps, [16, 8], self.cluster(shape))
        if name == "wgmma":
            rest = split(s, self.warps // 4, 2)
            n = s.choice((8, 16, 32, 64))
            return gl.NVMMADistributedLayout(
                [3, 0], [4 * rest[0], rest[1]], [16, n, 16], self.cluster(shape)
            )
        if name.startswith("mfma"):
            version = int(name[4:])
            shape = s.choice(((32, 32, 8), (16, 16, 16)) if version == 3
                             else ((32, 32, 16), (16, 16, 32)))  # fmt: skip
            return AMDMFMALayout(version, list(shape), s.random() < 0.5, warps)
        bases = unit_bases(warps)
        s.shuffle(bases)
        return AMDWMMALayout(int(name[4:]), s.random() < 0.5, bases)

    def of_units(self) -> list[str]:
        """The units that there are for the number of warps."""
        return [u for u in self.units if u != "wgmma" or self.warps % 4 == 0]

    def any(self, shape: Sequence[int]) -> Any:
        """Any layout for blocks of this shape."""
        s, rank = self.s, len(shape)
        if self.fixed is not None:
            return self.blocked(shape)
        kinds = ["blocked"] * 3 + ["linear"] * 2 + ["slice"] * (rank < 3)
        kinds += ["unit", "operand"] * (rank == 2)
        kind = s.choice(kinds)
        units = self.of_units()
        if kind == "linear":
            return self.linear(shape)
        if kind == "slice":
            axis = s.randrange(rank + 1)
            whole = [*shape[:axis], s.choice((1, 2, 8)), *shape[axis:]]
            return gl.SliceLayout(axis, self.any(whole))
        if kind == "unit" and units:
            return self.unit(s.choice(units), shape)
        if kind == "operand" and units:
            return self.operand(s.choice((0, 1)), self.unit(s.choice(units), shape))
        return self.blocked(shape)

    def operand(
        self, index: int, parent: Any, bits: int | None = None, wider: int = 1
    ) -> Any:
        """The layout of an operand of a product; of elements of so many bits, or of any. Threads
        have `wider` times as many neighbours along the axis that is summed over as an instruction
        takes."""
        size = self.s.choice((8, 16, 32)) if bits is None else bits
        if isinstance(parent, gl.NVMMADistributedLayout):
            width = 32 // size
        elif isinstance(parent, AMDMFMALayout):
            width = (
                {8: 8, 16: 4, 32: 1}[size] if parent.version == 3 else {8: 16, 16: 8, 32: 1}[size]
            )
        else:
            width = {1: 16, 2: 8}[parent.version]
        return gl.DotOperandLayout(index, parent, width * wider)


def shared(
    s: random.Random, shape: Sequence[int], bits: int, cluster: Sequence[Sequence[int]] = ()
) -> Any:
    """Any layout of shared memory for elements of so many bits. `cluster`: where the parts of
    further blocks begin."""
    whole, cluster = shape, [list(basis) for basis in cluster]
    shape = part_of(shape, cluster)
    kind = s.choice(("swizzled", "swizzled", "plain", "padded", "nvmma", "linear"))
    rank, order = len(shape), order_of(s, len(shape))
    if kind == "nvmma" and rank >= 2:
        turned = rank == 2 and s.random() < 0.5
        row, rows = shape[-1], prod(shape[:-1])
        if turned:
            row, rows = shape[0], shape[1]
        widths = [w for w in (32, 64, 128) if row * bits // 8 >= w and rows >= 8]
        return gl.NVMMASharedLayout(s.choice((0, *widths)), bits, rank, turned, cga_layout=cluster)
    if kind == "linear" and prod(shape) > 1:
        bases = mixed(s, unit_bases(shape, order), of_one_axis=False)
        return gl.SharedLinearLayout(bases, starts_of(shape, cluster))
    if kind == "padded" and prod(shape) > 1:
        pairs = {s.choice((4, 8, 16, 32, 64, 256)): s.choice((1, 2, 4, 8, 16))
                 for _ in range(s.choice((1, 1, 2)))}  # fmt: skip
        intervals = [[i, p] for i, p in sorted(pairs.items())]
        starts = starts_of(shape, cluster)
        return gl.PaddedSharedLayout(intervals, unit_bases(shape, order), starts, list(whole))
    if kind == "plain":
        return gl.SwizzledSharedLayout(1, 1, 1, order, cluster)
    row = shape[order[0]]
    vec = s.choice([v for v in (1, 2, 4, 8, 16) if v <= row])
    phases = s.choice([m for m in (1, 2, 4, 8, 16) if vec * m <= row])
    return gl.SwizzledSharedLayout(vec, s.choice((1, 2, 4)), phases, order, cluster)


def starts_of(part: Sequence[int], cluster: Bases) -> Bases:
    """The coordinates where the parts of further blocks begin."""
    return [[x * n for x, n in zip(basis, part, strict=True)] for basis in cluster]


def part_of(shape: Sequence[int], cluster: Sequence[Sequence[int]]) -> list[int]:
    """The part of a tile that each block of a cluster has."""
    found = list(shape)
    for basis in cluster:
        found = [n // 2 if step else n for n, step in zip(found, basis, strict=True)]
    return found
