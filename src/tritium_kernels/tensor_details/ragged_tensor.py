"""Ragged tensors: slices of different sizes, one after the other, and how blocks cut them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch

from tritium_kernels.errors import (
    INDICES,
    LONGEST,
    check_given,
    check_integer,
    check_operand,
    check_rank,
    check_tensor,
    refuse,
)
from tritium_kernels.launching.launch import cdiv, on
from tritium_kernels.launching.operators import untraced
from tritium_kernels.moe_kernels import metadata as kernels


@dataclass(frozen=True)
class RaggedTensorMetadata:
    """The places of the slices of a ragged dimension.

    Attributes:
        slice_sizes: int32 (slices,).
        slice_offs: int32 (slices + 1,): where each slice begins; the last, where all end.
        block_offs_data: int32 (block sizes, slices + 1): the same in blocks.
        block_schedule_data: int32 (block sizes, blocks): (block in its slice << 16) + slice of each
            block, -1 past the last.
        expected_slice_size: what configurations assume of a slice; None: all are as large.
        slice_sizes_divisibility: a number that divides every size; None: not known.
    """

    slice_sizes: torch.Tensor
    slice_offs: torch.Tensor
    block_offs_data: torch.Tensor
    block_schedule_data: torch.Tensor
    expected_slice_size: int | None = None
    slice_sizes_divisibility: int | None = None

    @property
    def n_slices(self) -> int:
        return self.slice_sizes.shape[0]

    def block_offs(self, block_size: int) -> torch.Tensor:
        return self.block_offs_data[self._row(block_size)]

    def block_schedule(self, block_size: int) -> torch.Tensor:
        return self.block_schedule_data[self._row(block_size)]

    def _row(self, block_size: int) -> int:
        if block_size not in self.block_sizes():
            accepted = ", ".join(map(str, self.block_sizes()))
            raise refuse("RaggedTensorMetadata", "block_size", f"is {block_size}", accepted)
        return block_size.bit_length() - 1 - self.block_sizes_log2()[0]

    @staticmethod
    def n_blocks(n_slices: int, n_total_rows: int, block_size: int) -> int:
        """The most blocks that slices of this many rows in all can have."""
        if not n_slices or n_total_rows <= n_slices:
            return min(n_slices, n_total_rows)
        return n_slices - 1 + cdiv(n_total_rows - n_slices + 1, block_size)

    @staticmethod
    def max_n_blocks(n_slices: int, n_total_rows: int) -> int:
        """`n_blocks` of the smallest block."""
        smallest = min(RaggedTensorMetadata.block_sizes())
        return RaggedTensorMetadata.n_blocks(n_slices, n_total_rows, smallest)

    @staticmethod
    def block_sizes_log2() -> range:
        return range(4, 9)

    @staticmethod
    def block_sizes() -> list[int]:
        return [1 << log2 for log2 in RaggedTensorMetadata.block_sizes_log2()]


def _check(slice_sizes: torch.Tensor, n_total_rows: int) -> None:
    op = "make_ragged_tensor_metadata"
    check_tensor(op, "slice_sizes", slice_sizes, INDICES)
    check_rank(op, "slice_sizes", slice_sizes, (1,))
    if slice_sizes.shape[0] >= 1 << 16:
        raise refuse(op, "slice_sizes", f"has {slice_sizes.shape[0]} elements", "fewer than 65536")
    check_integer(op, "n_total_rows", n_total_rows, 0, LONGEST)
    if slice_sizes.device.type == "cpu" and slice_sizes.numel():  # seen without waiting
        least, total = int(slice_sizes.min()), int(slice_sizes.sum())
        if least < 0:
            raise refuse(op, "slice_sizes", f"has {least}", "0 or more")
        if total > n_total_rows:
            accepted = f"{n_total_rows} or fewer in all, n_total_rows"
            raise refuse(op, "slice_sizes", f"has {total} rows", accepted)


@untraced
def make_ragged_tensor_metadata(
    slice_sizes: torch.Tensor, n_total_rows: int
) -> RaggedTensorMetadata:
    """The metadata of slices that have at most `n_total_rows` rows in all."""
    _check(slice_sizes, n_total_rows)
    most = RaggedTensorMetadata.max_n_blocks(slice_sizes.shape[0], n_total_rows)
    return _with_blocks(slice_sizes, most)


def _with_blocks(slice_sizes: torch.Tensor, most: int) -> RaggedTensorMetadata:
    """The metadata of slices that follow each other, of at most `most` of the smallest blocks."""
    device, slices = slice_sizes.device, slice_sizes.shape[0]
    sizes = slice_sizes.to(torch.int32).contiguous()
    logs = RaggedTensorMetadata.block_sizes_log2()
    offsets = torch.zeros(slices + 1, dtype=torch.int32, device=device)
    blocks = torch.zeros((len(logs), slices + 1), dtype=torch.int32, device=device)
    schedule = torch.full((len(logs), most), -1, dtype=torch.int32, device=device)
    if slices:
        with on("make_ragged_tensor_metadata", "slice_sizes", slice_sizes):
            kernels.slice_offsets[(1 + len(logs),)](
                sizes, offsets, blocks, slices, FIRST_LOG2=logs[0], BLOCK=128
            )
            if most:
                kernels.block_schedule[slices + 1, len(logs)](
                    blocks, schedule, slices, most, BLOCK=64
                )
    return RaggedTensorMetadata(sizes, offsets, blocks, schedule)


def _with_blocks_torch(sizes: torch.Tensor, most: int) -> RaggedTensorMetadata:
    zero = sizes.new_zeros(1)
    offsets, schedules = [], []
    for block in RaggedTensorMetadata.block_sizes():
        counts = (sizes + block - 1) // block
        offsets.append(torch.cat([zero, counts.cumsum(0, dtype=torch.int32)]))
        words = [(b << 16) + i for i, count in enumerate(counts.tolist()) for b in range(count)]
        schedules.append(torch.tensor(words + [-1] * (most - len(words)), dtype=torch.int32))
    slice_offs = torch.cat([zero, sizes.cumsum(0, dtype=torch.int32)])
    schedule = torch.stack(schedules).to(sizes.device)
    return RaggedTensorMetadata(sizes, slice_offs, torch.stack(offsets), schedule)


def make_ragged_tensor_metadata_torch(
    slice_sizes: torch.Tensor, n_total_rows: int
) -> RaggedTensorMetadata:
    """The same by torch's functions, for comparison."""
    _check(slice_sizes, n_total_rows)
    most = RaggedTensorMetadata.max_n_blocks(slice_sizes.numel(), n_total_rows)
    return _with_blocks_torch(slice_sizes.to(torch.int32), most)


def _remap(
    op: str, name: str, source: RaggedTensorMetadata, slice_map: torch.Tensor,
    make: Callable[[torch.Tensor, int], RaggedTensorMetadata],
) -> RaggedTensorMetadata:  # fmt: skip
    check_given(op, RaggedTensorMetadata, **{name: source})
    check_operand(op, "slice_map", slice_map, (source.n_slices,), "slice_sizes",
                  source.slice_sizes, (torch.int16, *INDICES))  # fmt: skip
    old = torch.nonzero(slice_map >= 0).flatten()
    new = slice_map[old].long()
    if not torch.equal(new.sort().values, torch.arange(new.numel(), device=new.device)):
        accepted = f"the numbers 0 to {new.numel() - 1} once each, and -1"
        raise refuse(op, "slice_map", f"is {slice_map.tolist()}", accepted)
    old = old[torch.argsort(new)]
    made = make(source.slice_sizes[old], source.block_schedule_data.shape[1])
    # Rows stay where they are: the end of all of them is kept as the last offset.
    offsets = torch.cat([source.slice_offs[old], source.slice_offs[-1:]])
    return replace(
        made, slice_offs=offsets, expected_slice_size=source.expected_slice_size,
        slice_sizes_divisibility=source.slice_sizes_divisibility,
    )  # fmt: skip


@untraced
def remap_ragged_tensor_metadata(
    src_ragged_tensor_metadata: RaggedTensorMetadata, slice_map: torch.Tensor
) -> RaggedTensorMetadata:
    """The metadata of some of the slices, under other numbers, of the same rows.

    `slice_map[i]` is the new number of slice i, -1 if it is left out. Slices need not follow each
    other then: slice i has `slice_sizes[i]` rows from `slice_offs[i]` on.
    """
    op = "remap_ragged_tensor_metadata"
    name = "src_ragged_tensor_metadata"
    return _remap(op, name, src_ragged_tensor_metadata, slice_map, _with_blocks)


def remap_ragged_tensor_metadata_torch(
    ragged_tensor_metadata: RaggedTensorMetadata, slice_map: torch.Tensor
) -> RaggedTensorMetadata:
    """The same by torch's functions, for comparison."""
    op = "remap_ragged_tensor_metadata_torch"
    name = "ragged_tensor_metadata"
    return _remap(op, name, ragged_tensor_metadata, slice_map, _with_blocks_torch)


def ragged_metadata_fields(
    metadata: RaggedTensorMetadata | None, block_size: int
) -> tuple[torch.Tensor | None, torch.Tensor | None, torch.Tensor | None, torch.Tensor | None]:
    """Arguments of kernels: sizes and offsets of slices; offsets and schedule of blocks."""
    if metadata is None:
        return None, None, None, None
    return (
        metadata.slice_sizes, metadata.slice_offs, metadata.block_offs(block_size),
        metadata.block_schedule(block_size),
    )  # fmt: skip


def clear_other_rows(y: torch.Tensor, metadata: RaggedTensorMetadata) -> None:
    """Write zeros to the rows of a matrix that are in no slice."""
    rows, columns = y.shape
    with on("clear_other_rows", "y", y):
        kernels.clear_other_rows[(cdiv(rows, 64),)](
            y, metadata.slice_sizes, metadata.slice_offs, metadata.n_slices, rows, columns,
            *y.stride(), ROWS=64, BLOCK=128,
        )  # fmt: skip


def exact_div(x: int, y: int) -> int:
    """x / y, of which nothing is left."""
    if x % y:
        raise refuse("exact_div", "x", f"is {x}", f"a multiple of {y}")
    return x // y


def empty_aligned(
    shape: Sequence[int], dtype: torch.dtype, device: str | torch.device, pad_size: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """(a tensor whose last dimension is a multiple of `pad_size`, its part of `shape`)."""
    *leading, last = shape
    whole = torch.empty((*leading, cdiv(last, pad_size) * pad_size), dtype=dtype, device=device)
    return whole, whole[..., :last]
