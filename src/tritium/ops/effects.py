"""Effects of ops: what an op does to a resource, beside computing its results.

An op class lists its effects once:

    effects = (reads(GLOBAL, "src"), writes(SHARED, "result", Queue.COPY_GROUP))

Each effect names an action, the resource it acts on, and the operand or result through which the
op reaches the resource. Passes that move ops, barrier placement, liveness of shared memory and
alias analysis read these.

The actions are those of MLIR's `MemoryEffects` (read, write, allocate, free) with `arrive` and
`wait` for synchronization and `opaque` for everything that must stay where it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Resource(Enum):
    """State outside of SSA values that an op can act on."""

    GLOBAL = "global"
    """Memory that pointers and descriptors address."""
    SHARED = "shared"
    """On-chip memory of a thread block."""
    TENSOR = "tensor"
    """Blackwell's tensor memory."""
    BARRIER = "barrier"
    """An mbarrier, which lies in shared memory."""
    HOST = "host"
    """Output, traps, calls: what a debugger or the host observes."""


GLOBAL, SHARED, BARRIER, HOST = Resource.GLOBAL, Resource.SHARED, Resource.BARRIER, Resource.HOST
TENSOR = Resource.TENSOR


class Action(Enum):
    """The kind of an effect."""

    READ = "read"
    WRITE = "write"
    ALLOCATE = "allocate"
    FREE = "free"
    ARRIVE = "arrive"
    WAIT = "wait"
    OPAQUE = "opaque"


class Queue(Enum):
    """The means by which the completion of an asynchronous access is waited for."""

    COPY_GROUP = "cp.async"
    """Groups of `cp.async` copies; `ttg.async_wait`."""
    WARP_GROUP_DOT = "wgmma"
    """Groups of matrix products by a warp group; `ttng.warp_group_dot_wait`."""
    BULK_STORE = "bulk store"
    """Groups of bulk copies out of shared memory; `ttng.async_tma_store_wait`."""
    TENSOR_DOT = "tcgen05"
    """Products and copies into tensor memory; an mbarrier that `ttng.tc_gen5_commit` names."""
    TENSOR_COPY = "tensor copy"
    """Copies between tensors and LDS (AMD's tensor data mover); `amdg.async_tdm_wait`."""
    MBARRIER = "mbarrier"
    """Bytes counted by an mbarrier; `ttng.wait_barrier`."""

    @property
    def per_thread(self) -> bool:
        """True if a wait covers the waiting thread's own accesses alone. The phase of an mbarrier
        ends for all threads at once."""
        return self not in (Queue.MBARRIER, Queue.TENSOR_DOT)

    @property
    def has_groups(self) -> bool:
        """True if a wait counts groups of accesses, each ended by an op; else it counts the ops
        that begin some."""
        return self in (Queue.COPY_GROUP, Queue.TENSOR_COPY)

    @property
    def reads_for_long(self) -> bool:
        """True if operands in shared memory are read until a wait that names no memory."""
        return self in (Queue.BULK_STORE, Queue.COPY_GROUP, Queue.TENSOR_COPY)

    @property
    def reads_by_async_proxy(self) -> bool:
        """True if operands in shared memory are read through the async proxy (PTX ISA, "Async
        proxy"): writes by threads become visible to it by `fence.proxy.async`."""
        return self in (Queue.WARP_GROUP_DOT, Queue.BULK_STORE, Queue.TENSOR_DOT)


@dataclass(frozen=True)
class Effect:
    """One effect.

    Attributes:
        value: the operand or result that names the part of the resource; None for all of it.
        queue: for an asynchronous read or write, how its completion is waited for; for a wait,
            what it waits for; for an arrival, what must be done before it counts; for an opaque
            effect, the queue whose accesses so far become a group.
    """

    action: Action
    resource: Resource
    value: str | None = None
    queue: Queue | None = None

    @property
    def is_read(self) -> bool:
        """True if the effect changes nothing and orders nothing."""
        return self.action is Action.READ


Effects = tuple[Effect, ...]


def reads(resource: Resource, value: str | None = None, queue: Queue | None = None) -> Effect:
    """The op reads the resource."""
    return Effect(Action.READ, resource, value, queue)


def writes(resource: Resource, value: str | None = None, queue: Queue | None = None) -> Effect:
    """The op writes the resource."""
    return Effect(Action.WRITE, resource, value, queue)


def allocates(resource: Resource, value: str | None = None) -> Effect:
    """The op's result is a new part of the resource."""
    return Effect(Action.ALLOCATE, resource, value)


def frees(resource: Resource, value: str) -> Effect:
    """The op ends the life of a part of the resource."""
    return Effect(Action.FREE, resource, value)


def arrives(value: str | None = None, queue: Queue | None = None) -> Effect:
    """The op counts towards the phase of an mbarrier. Without a value: it tells other threads that
    what the threads which run it have done with shared memory is done."""
    resource = Resource.SHARED if value is None else Resource.BARRIER
    return Effect(Action.ARRIVE, resource, value, queue)


def waits(resource: Resource, queue: Queue | None = None, value: str | None = None) -> Effect:
    """The op waits for asynchronous accesses, for a barrier, or for the other threads."""
    return Effect(Action.WAIT, resource, value, queue)


def opaque(resource: Resource = Resource.HOST, queue: Queue | None = None) -> Effect:
    """The op must run where it stands, exactly as often as it does."""
    return Effect(Action.OPAQUE, resource, None, queue)


def only_read(effects: Effects) -> bool:
    """True if all effects are reads (also where there are none)."""
    return not effects or all(effect.action is Action.READ for effect in effects)


def observes(effects: Effects) -> bool:
    """True if an op sees what other programs write while this one runs: an atomic or volatile
    access. Programs wait for each other with these."""
    actions = {effect.action for effect in effects if effect.resource is Resource.GLOBAL}
    return Action.OPAQUE in actions or {Action.READ, Action.WRITE} <= actions
