"""`ttng`: dots on shared memory by warp groups (wgmma), and fences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeGuard

import numpy as np
from xdsl.ir import Block, Operation, SSAValue

from tritium.errors import OpError
from tritium.ir import types as ir
from tritium.ir.layouts.encodings import DotOperandEncoding, NvidiaMmaEncoding
from tritium.ops.base import Op
from tritium.ops.effects import GLOBAL, SHARED, Queue, arrives, opaque, reads, waits, writes
from tritium.ops.elementwise import describe
from tritium.ops.fields import bool_attr, i32_attr, operand, optional, variadic
from tritium.ops.memory import Context
from tritium.ops.ttgir.model import Buffer, Pending, state_of
from tritium.ops.ttgir.types import (
    MemDescType,
    bytes_of,
    check_barrier,
    check_matrix,
    check_memory,
    check_same_tile,
    route_of_stores,
)
from tritium.ops.ttir.dot import MatrixProduct, check_product


def _tile(type: ir.Type) -> ir.Type:
    """The tile that an operand in memory stands for."""
    if isinstance(type, MemDescType):
        return ir.tensor_of(type.get_shape(), type.element_type)
    return type


class WarpGroupDotOp(MatrixProduct):
    """`a @ b + c` by warp groups: `b` in shared memory, `a` there or in registers as a dot operand.

    With `useC` false, `a @ b`. With `isAsync` the dot only starts: the result may be used, and the
    operands' memory written, after a `warp_group_dot_wait`. `evaluate` as that of `tt.dot`.
    """

    name = "ttng.warp_group_dot"
    capabilities = 90, 90
    effects = (
        reads(SHARED, "a", Queue.WARP_GROUP_DOT), reads(SHARED, "b", Queue.WARP_GROUP_DOT)
    )  # fmt: skip
    syntax = "$a, $b, $c [, $useC] attrs : type(a) * type(b) -> type(result)"
    asynchronous = True
    takes_registers = True
    useC = optional()
    isAsync = bool_attr(False)

    @classmethod
    def infer(
        cls, a: ir.Type, b: ir.Type, c: ir.Type, use: ir.Type | None, **attrs: Any
    ) -> ir.Type:
        for matrix in (a, b) if isinstance(a, MemDescType) else (b,):
            check_matrix(cls.name, matrix)
        left, right = _tile(a), _tile(b)
        check_product(cls.name, ir.shape_of(left), ir.shape_of(right), a, b, c)
        kinds = [ir.element_type(t) for t in (left, right)]
        if kinds[0] != kinds[1] and not all(ir.is_float(k) and ir.bit_width(k) == 8 for k in kinds):
            raise OpError(f"{cls.name}: {describe(a, b)}; one dtype, or two of fp8, is required")
        cls.check_registers(a, c)
        if use is not None and use != ir.i1:
            raise OpError(f"{cls.name}: useC is {describe(use)}; i1 is required")
        return c

    @classmethod
    def check_registers(cls, a: ir.Type, c: ir.Type) -> None:
        """The encodings of what is in registers must be those of the instruction."""
        encoding, fragment = ir.encoding_of(c), ir.encoding_of(a)
        if not isinstance(encoding, NvidiaMmaEncoding) or encoding.version != 3:
            raise OpError(
                f"{cls.name}: accumulator {describe(c)}; #ttg.nvidia_mma version 3 needed"
            )
        if not isinstance(a, MemDescType) and not isinstance(fragment, DotOperandEncoding):
            raise OpError(f"{cls.name}: {describe(a)} is in registers; #ttg.dot_op is required")

    def evaluate(self, context: Context, a: Any, b: Buffer, c: Any, use: Any) -> Any:
        state = state_of(context)
        memories = [v for v in (a, b) if isinstance(v, Buffer)]
        left, right = (
            state.check_read(v, by_proxy=True) if isinstance(v, Buffer) else np.asarray(v)
            for v in (a, b)
        )
        before = c.value if isinstance(c, Pending) else np.asarray(c)
        wide = np.int32 if ir.is_integer(self.result_types[0]) else np.float64
        product = np.matmul(left.astype(wide), right.astype(wide))
        if use is None or use:
            product = product + before.astype(wide)
        value = product.astype(before.dtype)
        number = state.start_dot([m.data for m in memories])
        if not self.isAsync:
            state.wait_dots(0)
            return value
        return Pending(value, number)


class WarpGroupDotWaitOp(Op):
    """Wait until all but the `pendings` newest dots are done. Results are the inputs: accumulators,
    and operands' memory that must live until then."""

    name = "ttng.warp_group_dot_wait"
    capabilities = 90, 90
    effects = (waits(SHARED, Queue.WARP_GROUP_DOT),)
    syntax = "$inputs attrs : type(inputs)"
    takes_any_layout = True
    inputs = variadic()
    pendings = i32_attr()

    @property
    def left_in_flight(self) -> int:
        return self.pendings

    @classmethod
    def infer(cls, inputs: Sequence[ir.Type], *, pendings: int) -> Sequence[ir.Type]:
        if pendings < 0 or not inputs:
            raise OpError(f"{cls.name}: pendings is {pendings}, with {len(inputs)} operands")
        return tuple(inputs)

    def forwarded_values(self) -> Iterator[tuple[SSAValue, SSAValue]]:
        return zip(self.inputs, self.results, strict=True)

    def evaluate(self, context: Context, inputs: tuple[Any, ...]) -> Any:
        state = state_of(context)
        state.wait_dots(self.pendings)
        results = tuple(state.finished(v) for v in inputs)
        return results[0] if len(results) == 1 else results


def is_asynchronous(op: Operation) -> TypeGuard[WarpGroupDotOp]:
    """True if an op is a product that threads can leave to their matrix unit."""
    return isinstance(op, MatrixProduct) and op.asynchronous


def is_product_wait(op: Operation | Block | None) -> TypeGuard[WarpGroupDotWaitOp]:
    """True if an op waits for products that threads have left to their matrix unit."""
    return isinstance(op, WarpGroupDotWaitOp)


class ClusterBarrierOp(Op):
    """The threads of all blocks of a cluster wait for each other; unless `relaxed`, they see what
    the others wrote."""

    name = "ttng.cluster_barrier"
    effects = (reads(GLOBAL), writes(GLOBAL), waits(SHARED))
    syntax = "attrs"
    relaxed = bool_attr(False)

    @classmethod
    def infer(cls, *, relaxed: bool) -> tuple[ir.Type, ...]:
        return ()

    def evaluate(self, context: Context) -> None:
        """The blocks are evaluated as one, which notes what they come after."""
        state_of(context).blocks_meet()


class AsyncSharedStoreOp(Op):
    """Start writing a tile to the shared memory of the blocks of a cluster that have its elements;
    the bytes that a block gets count for its barrier."""

    name = "ttng.async_shared_store"
    capabilities = 90, 999
    effects = (writes(SHARED, "dst", Queue.MBARRIER), arrives("barrier"))
    reads_operand_types = True
    syntax = "$src, $dst, $barrier attrs : type(src), type(dst), type(barrier)"
    takes_any_layout = True
    src = operand()
    dst = operand()
    barrier = operand()

    @property
    def reaches_blocks(self) -> bool:
        return True

    @classmethod
    def infer(cls, src: ir.Type, dst: ir.Type, barrier: ir.Type) -> None:
        check_same_tile(cls.name, src, check_memory(cls.name, dst, mutable=True))
        check_barrier(cls.name, barrier)

    def evaluate(self, context: Context, src: Any, dst: Buffer, barrier: Buffer) -> None:
        state = state_of(context)
        route = route_of_stores(self.src.type, self.dst.type, state.blocks)
        state.check_write(dst, route=route)
        copy = dst.copy(np.array(src), bytes_of(self.dst.type), barrier.data)
        state.barrier(barrier, route).copies.append(copy)


class FenceAsyncSharedOp(Op):
    """Fence: tensor cores and bulk copies see what threads wrote to shared memory."""

    name = "ttng.fence_async_shared"
    capabilities = 90, 999
    publishes_stores = True
    effects = (opaque(SHARED),)
    syntax = "attrs"
    bCluster = bool_attr()

    @classmethod
    def infer(cls, *, bCluster: bool) -> tuple[ir.Type, ...]:
        return ()

    def evaluate(self, context: Context) -> None:
        state_of(context).fence()
