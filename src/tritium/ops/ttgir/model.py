"""Model of shared memory and asynchronous copies for `evaluate`.

A memdesc's value is a `Buffer`, a view of a NumPy array. Asynchronous work is done as late as the
program allows: what a copy brings is written when the program waits for it, and every access that
comes too early raises `EvaluationError`, so that a missing wait is an error and not luck:

- reading memory into which a copy is in flight (no `async_wait`, or too few groups waited for),
- writing memory that a dot or a bulk store still reads,
- using an accumulator before its `warp_group_dot_wait`,
- waiting for a barrier that nothing will complete (a deadlock); the partitions of
  `ttg.warp_specialize` run in turns, each until it has to wait,
- using tensor memory before the barrier that a commit names says that its product is done,
- any use of memory after its `local_dealloc`,
- two partitions, or thread blocks of a cluster, that access the same memory, one of them to write,
  with no barrier between them; each block has a part of the memory, and its own barriers,
- a read by tensor cores or a bulk store of what threads wrote before a fence, in programs that have
  their own fences.

New memory is filled with ones (NaN, -1), so that reading what nobody wrote shows. Which threads
do the work, and so the barriers between them, is not modelled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tritium.ir import types as ir
from tritium.ops.memory import Context, EvaluationError, Place
from tritium.ops.ttgir.races import Clock, Races, Route, extent, join
from tritium.ops.ttgir.scheduler import JobScheduler

BULK_ALIGNMENT = 128
"""Bytes that the place in shared memory of a bulk copy is a multiple of."""


@dataclass(eq=False)
class Allocation:
    """Shared memory between its allocation and its `local_dealloc`; `start`: its address; `place`:
    where it is allocated."""

    start: int = 0
    live: bool = True
    place: Place = field(default_factory=Place)

    @property
    def text(self) -> str:
        """The memory for messages."""
        source = f": `{self.place.source}`" if self.place.source else ""
        where = f", allocated {self.place.text.strip()}{source}" if self.place.file else ""
        return f"shared memory{where}"


@dataclass(frozen=True)
class Buffer:
    """The value of a memdesc: `data` is a view into the array of `allocation`. Of a view that no
    strides describe, such as one that is permuted and then reshaped, `order` says which elements of
    `data` it shows: for each of its own elements, of the type `dtype`, the numbers (in row-major
    order) of those that it consists of."""

    data: np.ndarray
    allocation: Allocation
    order: np.ndarray | None = None
    dtype: Any = None

    @staticmethod
    def new(type: Any, values: Any = None) -> Buffer:
        """Memory of a memdesc's type that holds some values; without, all of its bits are ones."""
        dtype = ir.numpy_dtype(type.element_type)
        data = np.empty(type.get_shape(), dtype)
        data.reshape(-1).view(np.uint8).fill(1 if dtype == np.bool_ else 0xFF)
        if values is not None:
            data[...] = values
        return Buffer(data, Allocation(_address_of(data)))

    def view(self, data: np.ndarray) -> Buffer:
        """A part of this memory, or another view of it."""
        return Buffer(data, self.allocation)

    def moved(self, move: Callable[[Any], Any]) -> Buffer:
        """The view of this memory that `move` makes of an array."""
        if self.order is None and np.shares_memory(found := move(self.data), self.data):
            return self.view(found)
        order = self.numbers()
        shape, parts = order.shape[:-1], order.shape[-1]
        chosen = np.asarray(move(np.arange(order.size // parts).reshape(shape)))
        return self.ordered(self.data, order.reshape(-1, parts)[chosen], self.type)

    def numbers(self) -> np.ndarray:
        """The elements of `data` that this memory shows, as `order`."""
        if self.order is not None:
            return self.order
        return np.arange(self.data.size).reshape(*self.data.shape, 1)

    @property
    def type(self) -> np.dtype[Any]:
        """The type of the elements."""
        return self.data.dtype if self.order is None else self.dtype

    def ordered(self, data: np.ndarray, order: np.ndarray, dtype: Any) -> Buffer:
        """A view of elements of `data`, which is cut to the part that has them all."""
        places = np.unravel_index(order, data.shape)
        first = [int(place.min()) for place in places]
        part = data[tuple(slice(f, int(p.max()) + 1) for f, p in zip(first, places, strict=True))]
        within = [place - f for place, f in zip(places, first, strict=True)]
        numbers = np.ravel_multi_index(within, part.shape)
        return Buffer(part, self.allocation, numbers, np.dtype(dtype))

    def reinterpreted(
        self, shape: Sequence[int], dtype: Any, before: np.ndarray, after: np.ndarray
    ) -> Buffer:
        """The memory as elements of another type. `before`, `after`: at which byte each element is,
        in row-major order, of this memory and of the result."""
        part, new = self.data.dtype.itemsize, np.dtype(dtype).itemsize
        places = self.numbers().reshape(-1, 1) * part + np.arange(part)
        contents = np.empty(places.size, np.int64)  # which byte of `data` each byte in memory is
        old = self.type.itemsize
        contents[before.reshape(-1, 1) + np.arange(old)] = places.reshape(-1, old)
        chosen = contents[after.reshape(-1, 1) + np.arange(new)].reshape(*shape, new)
        return self.ordered(_bytes_of(self.data), chosen, dtype)

    def contents(self) -> Any:
        """The elements that the view shows: `data`, or a copy of some of its elements."""
        if self.order is None:
            return self.data
        return np.take(self.data, self.order).view(self.dtype)[..., 0]

    def write(self, values: Any) -> None:
        """Fill the memory that the view shows."""
        if self.order is None:
            self.data[...] = values
            return
        filled = np.empty((*self.order.shape[:-1], 1), self.dtype)
        filled[..., 0] = values
        self.data[np.unravel_index(self.order, self.data.shape)] = filled.view(self.data.dtype)

    def copy(self, values: np.ndarray, bytes: int = 0, counted_by: Any = None) -> Copy:
        """A copy of the values into the memory that the view shows; see `Copy`."""
        return Copy(self.data, values, bytes, counted_by=counted_by, buffer=self)


class Beside(Buffer):
    """The memory beside an allocation, where an index of no buffer leads. It may be named, as the
    operand of an op whose predicate is false; any use is an error, with a message."""

    def __init__(self, message: str):
        object.__setattr__(self, "message", message)

    def __getattribute__(self, name: str) -> Any:
        if name in ("data", "allocation"):
            raise EvaluationError(object.__getattribute__(self, "message"))
        return object.__getattribute__(self, name)


class Pending:
    """An accumulator of a dot in flight: not to be looked at, only handed to further dots and to
    the wait."""

    def __init__(self, value: np.ndarray, number: int):
        self.value, self.number = value, number

    def __array__(self, *arguments: Any, **options: Any) -> np.ndarray:
        raise EvaluationError("an accumulator is used before the wait for its dot")


@dataclass(eq=False)
class Copy:
    """A copy (or a product) in flight: `values` will be written to `target`, and `operands` are
    read until then. Barriers count `bytes`: all blocks of a cluster copy their part, and each has a
    barrier for it. `counted_by`: the memory of the barrier, which the copy uses until it is done.
    `buffer`: of which `target` is the data, if it has an order of its own.
    """

    target: np.ndarray
    values: np.ndarray
    bytes: int = 0
    operands: tuple[np.ndarray, ...] = ()
    done: bool = False
    counted_by: np.ndarray | None = None
    buffer: Buffer | None = None

    @staticmethod
    def out_of(data: np.ndarray) -> Copy:
        """A copy that shared memory is read by until it is done."""
        nothing = np.empty(0, np.uint8)
        return Copy(nothing, nothing, operands=(data,))

    def finish(self) -> None:
        if not self.done:
            if self.buffer is None:
                self.target[...] = self.values
            else:
                self.buffer.write(self.values)
            self.done = True


@dataclass
class Barrier:
    """An mbarrier: a phase is complete when `count` arrivals and all expected bytes are there.

    Attributes:
        unseen: the phases that have ended since the last wait.
        races, partition: of what uses the barrier now, among what runs together.
        arriving, released: by the block whose barrier it is, the clocks of what has arrived in
            this phase, and in those that have ended.
        ended: the copies of phases that have ended.
    """

    count: int
    phase: int = 0
    arrivals: int = 0
    expected: int = 0
    copies: list[Copy] = field(default_factory=list[Copy])
    unseen: int = 0
    races: Races | None = None
    partition: int = 0
    arriving: dict[int, Clock] = field(default_factory=dict[int, Clock])
    released: dict[int, Clock] = field(default_factory=dict[int, Clock])
    ended: list[Copy] = field(default_factory=list[Copy])

    @property
    def copied(self) -> int:
        """The bytes of the copies of this phase."""
        return sum(copy.bytes for copy in self.copies)

    @property
    def progress(self) -> str:
        """The arrivals and bytes of the phase so far, for messages."""
        bytes = f", {self.copied} of {self.expected} bytes" if self.expected or self.copied else ""
        ended = ""
        if self.unseen > 1:
            ended = f"; {self.unseen} phases have ended since the last wait, arrivals too many"
        return f"{self.arrivals} of {self.count} arrivals{bytes}{ended}"

    @property
    def is_complete(self) -> bool:
        """True if the phase ends when its copies do."""
        return self.arrivals >= self.count and self.expected == self.copied

    def settle(self) -> bool:
        """Finish the copies and, if that completes the phase, begin the next; returns whether it
        did."""
        if not self.is_complete:
            return False
        for copy in self.copies:
            copy.finish()
        self.ended += self.copies if self.races is not None else []
        for block, clock in self.arriving.items():
            join(self.released.setdefault(block, {}), clock)
        self.arriving = {}
        self.phase, self.arrivals, self.expected, self.copies = self.phase ^ 1, 0, 0, []
        self.unseen += 1
        return True

    def arrive(
        self, count: int = 1, expected: int = 0, copies: Sequence[Copy] = (),
        route: Route | None = None,
    ) -> int:  # fmt: skip
        """Threads arrive, perhaps for the next phase when this one only lacks copies' ends. The
        phase lacks `expected` more bytes and the ends of the `copies`. `route`: which block of a
        cluster arrives at whose barrier. Returns the phase's parity."""
        if self.arrivals + count > self.count and not self.settle():
            raise EvaluationError(f"more than {self.count} arrivals in one phase of a barrier")
        if self.races is not None:
            route = self.races.own() if route is None else route
            clocks = {source: self.races.release(self.partition, source) for source, _ in route}
            for source, target in route:
                join(self.arriving.setdefault(target, {}), clocks[source])
        phase = self.phase
        self.arrivals += count
        self.expected += expected
        self.copies += copies
        if all(copy.done for copy in self.copies):
            self.settle()  # at once: what may come late are copies
        return phase


@dataclass
class Queues:
    """The asynchronous work of threads that run the same code: copies by threads, in groups,
    dots, bulk stores, copies of tensors' blocks."""

    issued: list[Copy] = field(default_factory=list[Copy])
    groups: deque[list[Copy]] = field(default_factory=deque[list[Copy]])
    dots: deque[tuple[int, list[np.ndarray]]] = field(
        default_factory=deque[tuple[int, list[np.ndarray]]]
    )
    stores: deque[np.ndarray] = field(default_factory=deque[np.ndarray])
    works: list[Copy] = field(default_factory=list[Copy])
    tensors: deque[list[Copy]] = field(default_factory=deque[list[Copy]])

    def copies(self) -> list[Copy]:
        self.works = [work for work in self.works if not work.done]
        groups = (*self.groups, *self.tensors)
        return [*self.issued, *(copy for group in groups for copy in group), *self.works]

    def readers(self) -> list[np.ndarray]:
        used = [data for copy in self.copies() if not copy.done for data in copy.operands]
        return [data for _, read in self.dots for data in read] + list(self.stores) + used


@dataclass
class AsyncState:
    """The asynchronous work of one program. `own`: of the partition that runs; `others`: of the
    partitions that run at the same time. `of_pairs`: whether products of the tensor cores are those
    of two thread blocks each. `cluster_arrived`: the clock with which the program has arrived at
    the barrier of its cluster, where it has not waited yet. `blocks`: of the cluster."""

    barriers: dict[int, Barrier] = field(default_factory=dict[int, Barrier])
    own: Queues = field(default_factory=Queues)
    others: list[Queues] = field(default_factory=list[Queues])
    started: int = 0
    of_pairs: bool = False
    cluster_arrived: Clock | None = None
    blocks: int = 1
    place: Callable[[], Place] = Place
    checks_fences: bool = False
    unfenced: dict[Any, tuple[np.ndarray, Place]] = field(
        default_factory=dict[Any, tuple[np.ndarray, Place]]
    )
    _races: Races | None = None
    _partition: int = 0
    _scheduler: JobScheduler | None = None

    def run_together(self, jobs: Sequence[Callable[[], Any]]) -> None:
        """Run jobs at the same time, the first as part of what runs now, the others with queues of
        their own. Raises what a job raises."""
        assert self._scheduler is None, "partitions of partitions"
        queues = [self.own, *(Queues() for _ in jobs[1:])]
        races = self._races = self.races or Races()
        races.fork(len(jobs))

        def enter(job: int) -> None:
            self._partition = job
            self.own, self.others = queues[job], [*queues[:job], *queues[job + 1 :]]

        self._scheduler = JobScheduler(jobs, enter)
        try:
            self._scheduler.run()
        finally:
            self._scheduler, self.own, self.others = None, queues[0], []
            races.end()
            self._races, self._partition = races if self.blocks > 1 else None, 0

    @property
    def races(self) -> Races | None:
        """The accesses of what runs at the same time; None where a single thread does."""
        if self._races is None and self.blocks > 1:
            self._races = Races(self.blocks)
        return self._races

    def wait(self, ready: Callable[[], bool]) -> bool:
        """Let other partitions run until it is ready; False if it will never be."""
        return ready() if self._scheduler is None else self._scheduler.wait(ready)

    def in_flight(self) -> list[Copy]:
        """Copies that may not have arrived."""
        tied = [c for barrier in self.barriers.values() for c in barrier.copies if not c.done]
        return [*(copy for queues in (self.own, *self.others) for copy in queues.copies()), *tied]

    def check_read(
        self, buffer: Buffer, by_proxy: bool = False, route: Route | None = None
    ) -> np.ndarray:
        """The contents, if they are there. `by_proxy`: a copy engine or tensor cores read them,
        which see what threads wrote before a fence. `route`: which block reads whose memory."""
        data = self._check_use(buffer, "read")
        self._note(buffer, False, route)
        if by_proxy and self.checks_fences:
            for written, place in self.unfenced.values():
                if np.shares_memory(written, data):
                    raise EvaluationError(
                        f"{buffer.allocation.text}, is read by a copy engine or tensor cores, and "
                        f"threads have written it {place.text}without a fence_async_shared since"
                    )
        return buffer.contents()

    def _note(
        self, buffer: Buffer, writes: bool, route: Route | None = None, kind: str = ""
    ) -> None:
        """Note an access of memory that partitions or blocks share."""
        if self.races is not None:
            known, place = buffer.allocation, self.place()
            self.races.access(self._partition, known, buffer.data, writes, place, route, kind)

    def acquired(self, barrier: Barrier, shared: int = 0) -> None:
        """Let what has waited for a barrier come after its arrivals: the partition that runs, in
        all blocks; of those that differ in the bits `shared` of their number, in the first."""
        if self.races is not None:
            used = [copy.counted_by for copy in barrier.ended if copy.counted_by is not None]
            targets = [*(copy.target for copy in barrier.ended), *used]
            for block in range(self.blocks):
                if not block & shared:
                    clock = barrier.released.get(block, {})
                    self.races.acquire(self._partition, block, clock, targets, shared)

    def blocks_meet(self) -> None:
        """The blocks of the cluster wait for each other."""
        if self.races is not None:
            self.races.synchronize(self._partition)

    def blocks_come(self) -> None:
        """The blocks arrive at the barrier of the cluster. Raises `EvaluationError` where they have
        arrived and not waited."""
        if self.cluster_arrived is not None:
            raise EvaluationError("arriving at the cluster's barrier again before a wait for it")
        self.cluster_arrived = {} if self.races is None else self.races.come(self._partition)

    def blocks_leave(self) -> None:
        """The blocks wait for the barrier of the cluster. Raises `EvaluationError` where they have
        not arrived."""
        if self.cluster_arrived is None:
            raise EvaluationError("waiting for the cluster's barrier before arriving at it")
        if self.races is not None:
            self.races.leave(self._partition, self.cluster_arrived)
        self.cluster_arrived = None

    def fence(self) -> None:
        """Let copy engines and tensor cores see the writes of threads."""
        self.unfenced.clear()

    def _check_use(self, buffer: Buffer, use: str) -> np.ndarray:
        """The contents, if they may be used."""
        if not buffer.allocation.live:
            raise EvaluationError("shared memory is used after its deallocation")
        flying = (copy for copy in self.in_flight() if not copy.done)
        if any(np.shares_memory(copy.target, buffer.data) for copy in flying):
            tensor = any(np.shares_memory(work.target, buffer.data) for work in self.own.works)
            kind, what = ("tensor", "a product or a copy") if tensor else ("shared", "a copy")
            raise EvaluationError(f"{kind} memory is {use} while {what} into it is in flight")
        return buffer.data

    def check_write(
        self, buffer: Buffer, by_threads: bool = False, route: Route | None = None
    ) -> np.ndarray:
        """The contents, if nothing that is in flight uses them: `Buffer.write` or `Buffer.copy` may
        change them. `by_threads`: not by a copy engine or tensor cores. `route`: which block writes
        whose memory."""
        self._check_use(buffer, "written")
        self._note(buffer, True, route)
        if by_threads and self.checks_fences:
            self.unfenced[extent(buffer.data)] = buffer.data, self.place()
        readers = [data for queues in (self.own, *self.others) for data in queues.readers()]
        if any(np.shares_memory(data, buffer.data) for data in readers):
            raise EvaluationError("shared memory is written while a dot or a store reads it")
        return buffer.contents()

    def check_bulk(self, buffer: Buffer) -> None:
        """Bulk copies begin at multiples of 128 bytes of shared memory."""
        offset = _address(buffer) - buffer.allocation.start
        if buffer.data.flags.c_contiguous and offset % BULK_ALIGNMENT:
            raise EvaluationError(
                f"a bulk copy of shared memory from byte {offset} of an allocation on; multiples "
                f"of {BULK_ALIGNMENT} are required"
            )

    def commit(self) -> None:
        """The copies issued since the last commit become a group."""
        self.own.groups.append(self.own.issued)
        self.own.issued = []

    def wait_copies(self, pending: int) -> None:
        """Finish all groups but the `pending` newest."""
        while len(self.own.groups) > pending:
            for copy in self.own.groups.popleft():
                copy.finish()

    def wait_tensor_copies(self, pending: int) -> None:
        """Finish all copies of tensors' blocks but the `pending` newest."""
        while len(self.own.tensors) > pending:
            for copy in self.own.tensors.popleft():
                copy.finish()

    def start_tensor_work(
        self, target: Buffer, values: np.ndarray, operands: Sequence[np.ndarray]
    ) -> None:
        """Tensor memory will hold the values when a barrier's phase ends for which a later commit
        arrives."""
        self.own.works.append(Copy(target.data, values, 0, tuple(operands)))

    def newest(self, buffer: Buffer) -> np.ndarray:
        """Contents of tensor memory when the next product reads it: units work in order."""
        works = [work for work in self.own.works if not work.done]
        before: list[Any] = [np.array(work.target) for work in works]
        for work in works:
            work.target[...] = work.values
        found = np.array(buffer.data)
        for work, values in zip(reversed(works), reversed(before), strict=True):
            work.target[...] = values
        return found

    def commit_tensor_work(
        self, buffer: Buffer, blocks: int = 1, route: Route | None = None
    ) -> None:
        """Arrive at a barrier when the work that `blocks` blocks of a cluster started is done."""
        started = [work for work in self.own.works if not work.done]
        self.barrier(buffer, route).arrive(blocks, copies=started, route=route)

    def start_dot(self, operands: list[np.ndarray]) -> int:
        """A dot that reads shared memory from now on; its number."""
        self.started += 1
        self.own.dots.append((self.started, operands))
        return self.started

    def wait_dots(self, pending: int) -> None:
        """Finish all dots but the `pending` newest."""
        while len(self.own.dots) > pending:
            self.own.dots.popleft()

    def finished(self, value: Any) -> Any:
        """An accumulator as it may be used now."""
        if not isinstance(value, Pending) or any(n == value.number for n, _ in self.own.dots):
            return value
        return value.value

    def barrier(self, buffer: Buffer, route: Route | None = None) -> Barrier:
        """The barrier kept in a piece of memory. `route`: which blocks of a cluster use whose."""
        found = self.barriers.get(_address(buffer))
        if found is None:
            raise EvaluationError("a barrier is used that was not initialized")
        found.races, found.partition = self.races, self._partition
        there = [(source, target) for source, target in route or () if source != target]
        if there:
            self._note(buffer, False, there, "used")
        return found

    def new_barrier(self, buffer: Buffer, count: int) -> None:
        """Initialize the barrier in a piece of memory."""
        self.barriers[_address(buffer)] = Barrier(count)
        if self.blocks > 1:
            self._note(buffer, True, kind="initialized")

    def drop_barrier(self, buffer: Buffer) -> None:
        """The memory is no barrier any more."""
        if self.barrier(buffer).copies:
            raise EvaluationError("a barrier is invalidated while copies are in flight")
        del self.barriers[_address(buffer)]
        if self.blocks > 1:
            self._note(buffer, True, kind="invalidated")


class _Bytes:
    """The bytes of the elements of an array, along one more axis, by NumPy's array interface."""

    def __init__(self, data: np.ndarray):
        self.array = data
        self.__array_interface__ = {
            "data": (_address_of(data), False), "typestr": "|u1", "version": 3,
            "shape": (*data.shape, data.dtype.itemsize), "strides": (*data.strides, 1),
        }  # fmt: skip


def _bytes_of(data: np.ndarray) -> np.ndarray:
    """The bytes of the elements of an array, along one more axis."""
    return np.asarray(_Bytes(data))


def _address(buffer: Buffer) -> int:
    return _address_of(buffer.data)


def _address_of(data: np.ndarray) -> int:
    return data.__array_interface__["data"][0]


def state_of(context: Context) -> AsyncState:
    """The asynchronous work of the program that is being evaluated."""
    found = context.state(AsyncState)
    found.place, found.checks_fences = context.place, context.checks_fences
    found.blocks = context.num_ctas
    return found
