"""Memory that all processes of a group have, and that each maps: the search for races compares
what their kernels do there.

    from tritium.experimental.gsan import symmetric_memory

    mine = symmetric_memory.empty(n, dtype=torch.float32, device="cuda")
    handle = symmetric_memory.rendezvous(mine, dist.group.WORLD)
    theirs = handle.get_buffer(peer, (n,), torch.float32)
    kernel[grid](x, theirs, n, instrumentation_mode="races")
    handle.barrier()

`barrier` orders what is before it in all processes before what is after it, and reports accesses
of two processes that nothing orders.
"""

from __future__ import annotations

import functools
import importlib
import math
import operator
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from tritium.experimental.gsan.allocator import create_mem_pool
from tritium.experimental.gsan.circle import Circle
from tritium.experimental.gsan.notes import Notes, Part, compare
from tritium.experimental.gsan.segments import DeviceSegment, HostSegment, Mapping
from tritium.experimental.gsan.settings import configure as configure_pools
from tritium.sanitize import extents, shadow
from tritium.sanitize.extents import Pooled

__all__ = ["GSanSymmetricMemoryHandle", "configure", "empty", "rendezvous"]


def empty(
    *size: Any, dtype: Any = None, device: Any = None, write_once: bool = False
) -> Any:
    """A torch tensor whose memory other processes can map.

    Args:
        size: its shape, as integers or as one sequence.
        dtype: torch's default by default.
        device: "cpu" or a CUDA device; the current CUDA device by default.
        write_once: each byte may be written once, by any process, before it is read.
    """
    torch: Any = importlib.import_module("torch")
    shape = _shape("empty", size[0] if len(size) == 1 and not isinstance(size[0], int) else size)
    dtype = torch.get_default_dtype() if dtype is None else dtype
    place = torch.device("cuda" if device is None else device)
    if place.type == "cuda":
        if place.index is None:
            place = torch.device("cuda", torch.cuda.current_device())
        # Which bytes were written is told by allocation: each tensor has its own.
        pool = create_mem_pool(write_once=True) if write_once else _pool()
        with torch.cuda.use_mem_pool(pool, place):
            return torch.empty(shape, dtype=dtype, device=place)
    if place.type != "cpu":
        raise ValueError(f"empty: device is {device!r}; expected 'cpu' or a CUDA device")
    count = math.prod(shape) * dtype.itemsize
    if HostSegment.live not in extents.pools:
        extents.pools.insert(0, HostSegment.live)
    segment = HostSegment.new(max(count, 1), bool(write_once))
    return segment.tensor(0, count).view(dtype).view(shape)


def configure(
    group: Any, *, rng_seed: int | None = None, clock_buffer_size: int | None = None
) -> None:
    """Change the settings of pools for the current CUDA devices of a group's processes, which are
    numbered by their ranks.

    Args:
        group: a process group of torch, or its name.
        rng_seed, clock_buffer_size: as of `gsan.configure`.
    """
    torch: Any = importlib.import_module("torch")
    found = _resolved(group)
    configure_pools(device_ranks={torch.cuda.current_device(): found.rank()},
                    num_devices=found.size(), rng_seed=rng_seed,
                    clock_buffer_size=clock_buffer_size)  # fmt: skip


def rendezvous(tensor: Any, group: Any) -> GSanSymmetricMemoryHandle:
    """Map the memory of the tensors that the processes of a group give; all of them call it. The
    same tensors have the same handle.

    Args:
        tensor: of `empty`, or in memory of `gsan.create_mem_pool`; it has as many bytes in all
            processes.
        group: a process group of torch, or its name; its processes run on one machine, or their
            pools have handles of the fabric.

    Raises:
        ValueError: a process gave no such tensor, or one of another kind than rank 0's.
    """
    meeting = _meeting(_resolved(group))
    circle, address = meeting.circle, tensor.data_ptr()
    segment = HostSegment.at(address) or DeviceSegment.at(address)
    mine: dict[str, Any] = {}
    if segment is not None:
        mine = {
            "kind": segment.kind, "write_once": segment.write_once, "bytes": tensor.nbytes,
            "size": segment.length, "offset": address - segment.begin,
            "known": meeting.number_of(tensor),
            "written": _written(segment, address, tensor.nbytes),
        }  # fmt: skip
    every: list[dict[str, Any]] = circle.gather("rendezvous", mine)
    _check_alike(every)
    assert segment is not None, "checked: each process has a segment"
    if {meta["known"] for meta in every} == {mine["known"]} and mine["known"] >= 0:
        return next(h for h in meeting.handles if h.number == mine["known"])
    handles = circle.exchange(segment.export())
    mappings: list[Mapping] = []
    for rank, (handle, meta) in enumerate(zip(handles, every, strict=True)):
        if rank == circle.rank:
            mappings.append(Mapping(segment.begin, segment.tensor, lambda: None))
        else:
            mappings.append(segment.map(handle, meta["size"]))
        if isinstance(handle, int):
            os.close(handle)
    return GSanSymmetricMemoryHandle(meeting, tensor, mappings, every)


class GSanSymmetricMemoryHandle:
    """The memory of a group's processes; `rendezvous` makes it.

    Attributes:
        number: how many handles the group had before.
        address, bytes: of this process's tensor.
    """

    def __init__(
        self, meeting: _Meeting, tensor: Any, mappings: Sequence[Mapping],
        every: Sequence[dict[str, Any]],
    ):  # fmt: skip
        self._meeting, self._tensor, self._mappings = meeting, tensor, mappings
        self._offsets = [meta["offset"] for meta in every]
        self.address, self.bytes = tensor.data_ptr(), tensor.nbytes
        self.number = meeting.made
        meeting.made += 1
        self.notes = Notes([
            Part(m.begin + meta["offset"], meta["bytes"], meta["written"])
            for m, meta in zip(mappings, every, strict=True)
        ])  # fmt: skip
        meeting.handles.append(self)
        shadow.watchers.append(self.notes.launched)
        extents.pools.append(self._pooled)

    @property
    def rank(self) -> int:
        """This process's rank in the group."""
        return self._meeting.circle.rank

    @property
    def world_size(self) -> int:
        """The number of the group's processes."""
        return self._meeting.circle.size

    def get_buffer(
        self, rank: int, sizes: Sequence[int], dtype: Any, storage_offset: int = 0
    ) -> Any:
        """The tensor of a process, as a torch tensor of this shape and type.

        Args:
            rank: the process's.
            sizes: the shape.
            storage_offset: the number of elements to leave out at the beginning.

        Raises:
            ValueError: there is no such rank, or the tensor has fewer bytes.
        """
        mappings = self._open("get_buffer")
        if not 0 <= rank < self.world_size:
            raise ValueError(f"get_buffer: rank is {rank}; expected 0 to {self.world_size - 1}")
        shape = _shape("get_buffer", sizes)
        count, begin = math.prod(shape) * dtype.itemsize, int(storage_offset) * dtype.itemsize
        if begin < 0 or begin + count > self.bytes:
            raise ValueError(
                f"get_buffer: {shape} of {dtype} from element {storage_offset} on is bytes {begin} "
                f"to {begin + count}; the tensor has {self.bytes} bytes"
            )
        return mappings[rank].tensor(self._offsets[rank] + begin, count).view(dtype).view(shape)

    def barrier(self, channel: int = 0, timeout_ms: int = 0) -> None:
        """Wait for this device's work, and for the other processes to come here. What follows is
        ordered after all that came before, in all handles of the group.

        Args:
            channel: the same in all processes.
            timeout_ms: how long to wait for them; 0 for five minutes.

        Raises:
            SanitizerError: two processes' kernels, checked for races, touched the same bytes since
                the barrier before, one of them wrote, and nothing can have ordered them; or
                write-once memory was misused. All processes raise it.
            TimeoutError: a process did not come.
        """
        self._open("barrier")
        if timeout_ms < 0:
            raise ValueError(f"barrier: timeout_ms is {timeout_ms}; expected 0 or more")
        if self._tensor.is_cuda:
            torch: Any = importlib.import_module("torch")
            if torch.cuda.is_current_stream_capturing():
                raise RuntimeError("barrier: the host waits here, which a CUDA graph cannot hold")
            torch.cuda.synchronize(self._tensor.device)
        title = f"barrier of channel {channel}"
        self._meeting.meet(title, timeout_ms / 1000 if timeout_ms else None)

    def close(self) -> None:
        """Give the mappings of other processes' memory back. Buffers must not be used any more."""
        if self not in self._meeting.handles:
            return
        self._meeting.handles.remove(self)
        shadow.watchers.remove(self.notes.launched)
        extents.pools.remove(self._pooled)
        for mapping in self._mappings:
            mapping.unmap()
        self._mappings = ()

    def _open(self, name: str) -> Sequence[Mapping]:
        if not self._mappings:
            raise RuntimeError(f"{name}: the handle is closed")
        return self._mappings

    def _pooled(self) -> list[Pooled]:
        """The memory, for the search for races: what is write-once among processes is checked
        where they meet."""
        return [Pooled(p.begin, p.begin + p.size, -1, write_once=False, shared=True)
                for p in self.notes.parts]  # fmt: skip


class _Meeting:
    """A group's processes and their handles.

    Args:
        circle: by which the processes exchange messages.
        group: torch's; it is kept, so that its id is not another's.
    """

    def __init__(self, circle: Circle, group: Any):
        self.circle, self.group, self.made = circle, group, 0
        self.handles: list[GSanSymmetricMemoryHandle] = []

    def number_of(self, tensor: Any) -> int:
        """The number of the tensor's handle; -1 where it has none."""
        place = tensor.data_ptr(), tensor.nbytes
        found = (h.number for h in self.handles if (h.address, h.bytes) == place)
        return next(found, -1)

    def meet(self, title: str, seconds: float | None) -> None:
        """Wait for the others, and compare accesses."""
        mine = {handle.number: handle.notes.report() for handle in self.handles}
        every = self.circle.gather(title, mine, seconds)
        failed = None
        for handle in self.handles:
            if failed is None and all(handle.number in theirs for theirs in every):
                failed = _compared(handle.notes, [theirs[handle.number] for theirs in every])
            handle.notes.clear()
        if failed is not None:
            raise failed


def _compared(notes: Notes, reports: list[Any]) -> Exception | None:
    parts = notes.parts
    return compare(reports, [(part.size, part.written) for part in parts])


@functools.cache
def _pool() -> Any:
    return create_mem_pool()


def _resolved(group: Any) -> Any:
    """A process group, given as such or by its name."""
    distributed: Any = importlib.import_module("torch.distributed.distributed_c10d")
    if isinstance(group, str):
        return distributed._resolve_process_group(group)
    if not isinstance(group, distributed.ProcessGroup):
        raise TypeError(f"group is {group!r}; expected a process group of torch, or its name")
    return group


def _shape(name: str, sizes: Any) -> tuple[int, ...]:
    try:
        shape = tuple(operator.index(size) for size in sizes)
    except TypeError:
        raise TypeError(f"{name}: the shape is {sizes!r}; expected integers") from None
    if any(size < 0 for size in shape):
        raise ValueError(f"{name}: the shape is {shape}; expected sizes of 0 or more")
    return shape


def _written(
    segment: HostSegment | DeviceSegment, address: int, count: int
) -> np.ndarray[Any, np.dtype[np.bool_]] | None:
    """Marks of the bytes that kernels have written of a tensor in write-once memory; None in other
    memory."""
    if not segment.write_once:
        return None
    begin = address - segment.begin
    return shadow.written_bytes(segment.number, segment.length)[begin : begin + count]


def _check_alike(every: Sequence[dict[str, Any]]) -> None:
    """Raise `ValueError` unless all processes gave tensors of the same kind."""
    for rank, meta in enumerate(every):
        if not meta:
            raise ValueError(
                f"rendezvous: the tensor of rank {rank} is in no memory that can be shared; make "
                "it by symmetric_memory.empty, or in a pool of gsan.create_mem_pool"
            )
        for what, text in (("kind", "is on '{}'"), ("bytes", "has {} bytes"),
                           ("write_once", "has write_once={}")):  # fmt: skip
            if meta[what] != every[0][what]:
                raise ValueError(
                    f"rendezvous: the tensor of rank 0 {text.format(every[0][what])}, that of rank "
                    f"{rank} {text.format(meta[what])}; they must be alike"
                )


_meetings: dict[int, _Meeting] = {}


def _meeting(group: Any) -> _Meeting:
    if id(group) not in _meetings:
        dist: Any = importlib.import_module("torch.distributed")

        def broadcast(given: Any) -> Any:
            held = [given]
            dist.broadcast_object_list(held, src=dist.get_global_rank(group, 0), group=group)
            return held[0]

        circle = Circle(group.rank(), group.size(), broadcast)
        _meetings[id(group)] = _Meeting(circle, group)
    return _meetings[id(group)]
