"""Processes that work together, and memory of each that all of them can write to."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from tritium_kernels.errors import refuse
from tritium_kernels.launching.launch import cdiv

ALIGNMENT = 128
"""Bytes to a multiple of which tensors and regions are aligned."""


class Mesh:
    """The processes of a group of `torch.distributed`; None: this process alone.

    Attributes:
        local_rank: the number of this process.
        world_size: of the group.
    """

    def __init__(self, process_group: Any = None) -> None:
        self.process_group = process_group
        self.local_rank = 0 if process_group is None else dist.get_rank(process_group)
        self.world_size = 1 if process_group is None else dist.get_world_size(process_group)


class MockSymmetricMemoryHandle:
    """The handle of memory that one process has for itself: there is nobody to wait for."""

    def barrier(self, channel: int = 0) -> None:
        """Return at once."""


class _GroupHandle:
    """The handle of memory of processes on one machine that share files."""

    def __init__(self, mesh: Mesh) -> None:
        self.mesh = mesh

    def barrier(self, channel: int = 0) -> None:
        """Wait for all processes; what they wrote before is seen after."""
        dist.barrier(self.mesh.process_group)


@dataclass(frozen=True)
class Region:
    """A part of the memory: where it begins, and its bytes."""

    start: int
    size: int


def _shared_files(mesh: Mesh, size: int) -> list[Tensor]:
    """Memory of `size` bytes of each process, in files that have no name any more."""
    folder = "/dev/shm" if Path("/dev/shm").is_dir() else None
    descriptor, name = tempfile.mkstemp(prefix="tritium_kernels_", dir=folder)
    try:
        os.ftruncate(descriptor, size)
        names: list[Any] = [None] * mesh.world_size
        dist.all_gather_object(names, name, group=mesh.process_group)
        found = [torch.from_file(file, shared=True, size=size, dtype=torch.uint8) for file in names]
        dist.barrier(mesh.process_group)  # all have opened all files
    finally:
        os.close(descriptor)
        Path(name).unlink()
    return found


class SymmetricMemoryPool:
    """Memory of the same size in each process of a mesh, in regions with names.

    A tensor of a region is at the same place in each process; the next one of the region is in the
    same place as well. On CPUs processes share files, so they are on one machine; on GPUs memory is
    that of `torch.distributed._symmetric_memory`.

    Attributes:
        regions: name -> region.
        hdl: `barrier(channel)` waits for all processes.
    """

    def __init__(self, mesh: Mesh) -> None:
        self.mesh = mesh
        self.regions: dict[str, Region] = {}
        self.hdl: Any = MockSymmetricMemoryHandle()
        self._memory: list[Tensor] = []

    @staticmethod
    def align_up(n: int, alignment: int = ALIGNMENT) -> int:
        """The least multiple of `alignment` that is not below n."""
        return cdiv(n, alignment) * alignment

    def initialize(self, sizes: Mapping[str, int], device: torch.device | str) -> None:
        """Make the memory: regions of `sizes` bytes, by name. All processes of the mesh call it."""
        start = 0
        self.regions = {}
        for name, size in sizes.items():
            self.regions[name] = Region(start, self.align_up(size))
            start += self.regions[name].size
        size, mesh, device = max(start, ALIGNMENT), self.mesh, torch.device(device)
        if mesh.world_size == 1:
            self._memory = [torch.empty(size, dtype=torch.uint8, device=device)]
        elif device.type == "cpu":
            self._memory, self.hdl = _shared_files(mesh, size), _GroupHandle(mesh)
        else:
            import torch.distributed._symmetric_memory as symmetric

            # torch's allocator takes the device by its number, which that of a tensor has.
            device = torch.empty(0, device=device).device
            own = symmetric.empty(size, dtype=torch.uint8, device=device)
            self.hdl = symmetric.rendezvous(own, mesh.process_group)
            self._memory = [
                self.hdl.get_buffer(rank, (size,), torch.uint8) for rank in range(mesh.world_size)
            ]

    def initialize_matmul(
        self, n_tokens_global: int, d_input: int, d_model: int, n_expts_act: int,
        n_expts_tot: int, dtype: torch.dtype, device: torch.device | str,
    ) -> None:  # fmt: skip
        """Make the memory of a layer of experts: its choice, its rows on their way there and back.

        Args:
            n_tokens_global: of all processes. d_input, d_model: columns there and back.
            n_expts_act, n_expts_tot: experts of a token, and in all.
        """
        rows = n_tokens_global * n_expts_act
        words = cdiv(n_expts_tot, 32) * self.align_up(n_tokens_global, 32) * 4
        self.initialize(
            {
                "topk": rows * (dtype.itemsize + 2) + words + 3 * ALIGNMENT,
                "dp_to_ep": rows * d_input * dtype.itemsize,
                "ep_to_dp": cdiv(rows, self.mesh.world_size) * d_model * dtype.itemsize,
            },
            device,
        )  # fmt: skip

    def make_empty(
        self, shape: tuple[int, ...], dtype: torch.dtype, region: str, region_offset: int = 0,
        clear: bool = False,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        """A tensor of each process, `region_offset` bytes from the begin of the region.

        `clear`: this process sets its own to 0.
        """
        if region not in self.regions:
            accepted = ", ".join(self.regions) or "none: initialize() comes first"
            raise refuse("make_empty", "region", f"is {region!r}", accepted)
        part = self.regions[region]
        size = prod(shape) * dtype.itemsize
        if region_offset % ALIGNMENT or region_offset + size > part.size:
            found = f"{shape} of {dtype} at byte {region_offset}"
            accepted = f"{part.size} bytes, from multiples of {ALIGNMENT} on"
            raise refuse("make_empty", "shape", f"is {found}", accepted)
        first = part.start + region_offset
        made = tuple(
            memory[first : first + size].view(dtype).view(shape) for memory in self._memory
        )
        if clear:
            made[self.mesh.local_rank].zero_()
        return made
