"""Asynchronous copies from global to shared memory (`cp.async`)."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import numpy as np

from tritium.errors import OpError
from tritium.ir import types as ir
from tritium.ops.base import Op
from tritium.ops.effects import GLOBAL, SHARED, Queue, arrives, opaque, reads, waits, writes
from tritium.ops.elementwise import describe
from tritium.ops.fields import bool_attr, i32_attr, operand, optional, variadic
from tritium.ops.memory import Context
from tritium.ops.ttgir.model import Buffer, Copy, state_of
from tritium.ops.ttgir.types import (
    TOKEN,
    AsyncTokenType,
    check_barrier,
    check_left,
    check_memory,
    check_own_block,
    check_same_tile,
)
from tritium.ops.ttir.memory import CachedOp, check_access


def check_tokens(name: str, types: Sequence[ir.Type]) -> None:
    """Check that all are async tokens."""
    if any(not isinstance(t, AsyncTokenType) for t in types):
        raise OpError(f"{name}: operands are {describe(*types)}; async tokens are required")


class ElementCopy(CachedOp):
    """A copy between the elements at a tile of addresses and shared memory, which goes on beside
    the program."""

    pointers: Any
    memory: Any
    """The operands that are addresses in global memory, and the shared memory."""
    mask: Any
    contiguity: int


class AsyncCopyGlobalToLocalOp(ElementCopy):
    """Start copying the elements at the addresses `src` into the memory `result`.

    Where the mask is false `other` (or zero) is written. `contiguity`: how many neighbours along
    the fastest axis are known to be neighbours in memory, with one mask. The copy is part of the
    next `async_commit_group`, and done after a wait for that.
    """

    name = "ttg.async_copy_global_to_local"
    pointers, memory = property(attrgetter("src")), property(attrgetter("result"))
    effects = (reads(GLOBAL, "src"), writes(SHARED, "result", Queue.COPY_GROUP))
    syntax = (
        "$src, $result [mask $mask] [other $other] [cacheModifier = $cache] "
        "[evictionPolicy = $evict] attrs : type(src) -> pointee(result)"
    )
    src = operand()
    result = operand()  # pyright: ignore[reportIncompatibleMethodOverride]
    mask = optional()
    other = optional()
    isVolatile = bool_attr(False)
    contiguity = i32_attr(1)

    @classmethod
    def infer(
        cls, src: ir.Type, target: ir.Type, mask: ir.Type | None, other: ir.Type | None,
        **attrs: Any,
    ) -> ir.Type:  # fmt: skip
        if other is not None and mask is None:
            raise OpError(f"{cls.name}: `other` cannot be provided without `mask`")
        accessed, memory = (
            check_access(cls.name, src, mask, other), check_memory(cls.name, target, mutable=True)
        )
        check_same_tile(cls.name, accessed, memory)
        check_own_block(cls.name, accessed, memory, writes=True)
        return TOKEN

    def evaluate(self, context: Context, src: Any, result: Buffer, mask: Any, other: Any) -> None:
        state = state_of(context)
        loaded = context.memory.load(src, result.type, mask)
        values = loaded if other is None else np.where(mask, loaded, other)
        state.check_write(result)
        state.own.issued.append(result.copy(values))


class AsyncCopyLocalToGlobalOp(ElementCopy):
    """Start copying the memory `src` to the elements at the addresses `dst` where the mask is true
    (or absent). The memory must keep them until a wait for the copy's group."""

    name = "amdg.async_copy_local_to_global"
    pointers, memory = property(attrgetter("dst")), property(attrgetter("src"))
    effects = (reads(SHARED, "src", Queue.COPY_GROUP), writes(GLOBAL, "dst"))
    syntax = (
        "$src, $dst [mask $mask] [cacheModifier = $cache] [evictionPolicy = $evict] attrs : "
        "type(src) -> type(dst)"
    )
    src = operand()
    dst = operand()
    mask = optional()
    contiguity = i32_attr(1)

    @classmethod
    def infer(cls, src: ir.Type, dst: ir.Type, mask: ir.Type | None, **attrs: Any) -> ir.Type:
        accessed, memory = check_access(cls.name, dst, mask, None), check_memory(cls.name, src)
        check_same_tile(cls.name, accessed, memory)
        check_own_block(cls.name, accessed, memory, writes=False)
        return TOKEN

    def evaluate(self, context: Context, src: Buffer, dst: Any, mask: Any) -> None:
        state = state_of(context)
        data = state.check_read(src)
        context.memory.store(dst, data, mask)
        state.own.issued.append(Copy.out_of(src.data))


class AsyncCommitGroupOp(Op):
    """The copies started since the last one become a group, for which one can wait."""

    name = "ttg.async_commit_group"
    effects = (opaque(SHARED, Queue.COPY_GROUP),)
    syntax = "[tokens $inputTokens] attrs"
    inputTokens = variadic()

    @classmethod
    def infer(cls, tokens: Sequence[ir.Type]) -> ir.Type:
        check_tokens(cls.name, tokens)
        return TOKEN

    def evaluate(self, context: Context, tokens: tuple[Any, ...]) -> None:
        state_of(context).commit()


class AsyncCopyMbarrierArriveOp(Op):
    """The phase of the barrier ends only after the copies that were started so far. `arrivals`: of
    the threads that run the op, each arrives when its copies are done; 0 where none does."""

    name = "ttng.async_copy_mbarrier_arrive"
    effects = (arrives("barrier", Queue.COPY_GROUP), opaque(SHARED, Queue.COPY_GROUP))
    syntax = "$barrier attrs : type(barrier)"
    barrier = operand()
    arrivals = i32_attr(0)

    @classmethod
    def infer(cls, barrier: ir.Type, *, arrivals: int) -> None:
        check_barrier(cls.name, barrier)

    def thread_arrivals(self) -> int:
        """The threads that arrive."""
        return self.arrivals

    def most_arrivals(self) -> float:
        return self.thread_arrivals()

    def evaluate(self, context: Context, barrier: Buffer) -> None:
        state = state_of(context)
        if arrivals := self.thread_arrivals():
            state.barrier(barrier).arrive(arrivals, copies=state.own.copies())
        else:
            state.barrier(barrier).copies += state.own.copies()
        state.own.issued = []
        state.own.groups.clear()


class CopyWaitOp(Op):
    """Base of waits until all but the `num` newest groups of copies are done."""

    syntax = "$asyncToken attrs"
    asyncToken = variadic()
    num = i32_attr()

    @property
    def left_in_flight(self) -> int:
        return self.num

    @classmethod
    def infer(cls, tokens: Sequence[ir.Type], *, num: int) -> ir.Type:
        check_tokens(cls.name, tokens)
        check_left(cls.name, "num", num)
        return TOKEN


class AsyncWaitOp(CopyWaitOp):
    """Wait until all but the `num` newest groups are done."""

    name = "ttg.async_wait"
    effects = (waits(SHARED, Queue.COPY_GROUP),)

    def evaluate(self, context: Context, tokens: tuple[Any, ...]) -> None:
        state_of(context).wait_copies(self.num)
