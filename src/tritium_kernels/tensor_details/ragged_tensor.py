"""Ragged tensors: slices of different sizes, one after the other, and how blocks cut them."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from tritium_kernels.errors import INDICES, check_rank, check_tensor, refuse
from tritium_kernels.launch import cdiv, on
from tritium_kernels.moe_kernels import metadata as kernels


@dataclass(frozen=True)
class RaggedTensorMetadata:
    """Where the slices of a ragged dimension are.

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
        if n_total_rows <= n_slices:
            return n_total_rows
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
    if n_total_rows < 0:
        raise refuse(op, "n_total_rows", f"is {n_total_rows}", "n_total_rows >= 0")


def make_ragged_tensor_metadata(
    slice_sizes: torch.Tensor, n_total_rows: int
) -> RaggedTensorMetadata:
    """The metadata of slices that have at most `n_total_rows` rows in all."""
    _check(slice_sizes, n_total_rows)
    device, slices = slice_sizes.device, slice_sizes.shape[0]
    sizes = slice_sizes.to(torch.int32).contiguous()
    logs = RaggedTensorMetadata.block_sizes_log2()
    most = RaggedTensorMetadata.max_n_blocks(slices, n_total_rows)
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


def make_ragged_tensor_metadata_torch(
    slice_sizes: torch.Tensor, n_total_rows: int
) -> RaggedTensorMetadata:
    """The same by torch's functions, for comparison."""
    _check(slice_sizes, n_total_rows)
    sizes = slice_sizes.to(torch.int32)
    zero = sizes.new_zeros(1)
    most = RaggedTensorMetadata.max_n_blocks(sizes.numel(), n_total_rows)
    offsets, schedules = [], []
    for block in RaggedTensorMetadata.block_sizes():
        counts = (sizes + block - 1) // block
        offsets.append(torch.cat([zero, counts.cumsum(0, dtype=torch.int32)]))
        words = [
            (b << 16) + i for i, count in enumerate(counts.tolist()) for b in range(count)
        ]
        schedules.append(torch.tensor(words + [-1] * (most - len(words)), dtype=torch.int32))
    slice_offs = torch.cat([zero, sizes.cumsum(0, dtype=torch.int32)])
    schedule = torch.stack(schedules).to(sizes.device)
    return RaggedTensorMetadata(sizes, slice_offs, torch.stack(offsets), schedule)
