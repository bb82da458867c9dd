"""Gluon programs that keep their state in aggregates, each with a check against NumPy:
`check(launch)`; see `support.launcher`."""

from __future__ import annotations

from typing import Any, Union

import numpy as np

from tests.gluon.hopper_programs import block_layout
from tests.gluon.support import Launch
from tritium.experimental import gluon
from tritium.experimental.gluon import language as gl
from tritium.experimental.gluon.language.nvidia.blackwell import (
    tcgen05_mma,
    tensor_memory_descriptor,
)
from tritium.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_accumulator,
    warpgroup_mma_wait,
)
from tritium.experimental.gluon.nvidia.hopper import TensorDescriptor


@gluon.constexpr_function
def product_layout(columns: int, warps: int) -> gl.NVMMADistributedLayout:
    return gl.NVMMADistributedLayout([3, 0], [warps, 1], [16, min(columns, 256), 16])


@gluon.aggregate
class WarpGroups:
    """A product by warp groups: in flight, or a block."""

    acc: Union[warpgroup_mma_accumulator, gl.tensor]  # noqa: UP007
    use_acc: gl.tensor

    @gluon.constexpr_function
    def __init__(self, acc, use_acc):
        self.acc = acc
        self.use_acc = use_acc

    @gluon.jit
    def zero(M: gl.constexpr, N: gl.constexpr, num_warps: gl.constexpr):
        layout: gl.constexpr = product_layout(N, num_warps)
        return WarpGroups(gl.zeros((M, N), gl.float32, layout), gl.to_tensor(False))

    @gluon.jit
    def start(self, a, b):
        acc = warpgroup_mma(a, b, self.acc, is_async=True, use_acc=self.use_acc)
        return WarpGroups(acc, gl.to_tensor(True))

    @gluon.jit
    def wait(self, pending: gl.constexpr):
        return WarpGroups(warpgroup_mma_wait(pending, (self.acc,)), self.use_acc)


@gluon.aggregate
class TensorMemory:
    """A product of Blackwell, which is never made here."""

    acc: tensor_memory_descriptor
    barrier: gl.shared_memory_descriptor

    @gluon.jit
    def start(self, a, b):
        tcgen05_mma(a, b, self.acc)
        return self


@gluon.aggregate
class Ring:
    """Buffers of operands, and barriers that say when they are full and empty."""

    a: tma.tensor_descriptor
    b: tma.tensor_descriptor
    lefts: gl.shared_memory_descriptor
    rights: gl.shared_memory_descriptor
    full: gl.shared_memory_descriptor
    empty: gl.shared_memory_descriptor
    stages: gl.constexpr

    @gluon.constexpr_function
    def __init__(self, a, b, lefts, rights, full, empty, stages):
        self.a, self.b, self.lefts, self.rights = a, b, lefts, rights
        self.full, self.empty, self.stages = full, empty, gl.constexpr(stages)

    @gluon.jit
    def make(a, b, stages: gl.constexpr):
        lefts = gl.allocate_shared_memory(a.dtype, [stages] + a.block_type.shape, a.layout)  # noqa: RUF005
        rights = gl.allocate_shared_memory(b.dtype, [stages] + b.block_type.shape, b.layout)  # noqa: RUF005
        full = gl.allocate_shared_memory(gl.int64, [stages, 1], mbarrier.MBarrierLayout())
        empty = gl.allocate_shared_memory(gl.int64, [stages, 1], mbarrier.MBarrierLayout())
        for i in gl.static_range(stages):
            mbarrier.init(full.index(i), count=1)
            mbarrier.init(empty.index(i), count=1)
        return Ring(a, b, lefts, rights, full, empty, stages)

    @gluon.jit
    def load(self, producer, row, column, k, pred=True):
        index = producer % self.stages
        bar = self.full.index(index)
        nbytes: gl.constexpr = self.a.block_type.nbytes + self.b.block_type.nbytes
        mbarrier.expect(bar, nbytes, pred=pred)
        tma.async_copy_global_to_shared(self.a, [row, k], bar, self.lefts.index(index), pred)
        tma.async_copy_global_to_shared(self.b, [k, column], bar, self.rights.index(index), pred)
        return producer + 1

    @gluon.jit
    def multiply(self, consumer, product):
        index = consumer % self.stages
        mbarrier.wait(self.full.index(index), consumer // self.stages & 1)
        product = product.wait(0)
        product = product.start(self.lefts.index(index), self.rights.index(index))
        return consumer + 1, product


@gluon.jit
def store(out, row, column, block):
    memory = gl.allocate_shared_memory(out.dtype, out.block_type.shape, out.layout)
    memory.store(block.to(out.dtype))
    fence_async_shared()
    tma.async_copy_shared_to_global(out, [row, column], memory)
    tma.store_wait(pendings=0)


@gluon.jit
def product_kernel(a, b, out, Product: gl.constexpr, STAGES: gl.constexpr,
                   num_warps: gl.constexpr):  # fmt: skip
    M: gl.constexpr = out.block_type.shape[0]
    N: gl.constexpr = out.block_type.shape[1]
    BK: gl.constexpr = a.block_type.shape[1]
    row, column = gl.program_id(0) * M, gl.program_id(1) * N
    ring = Ring.make(a, b, STAGES)
    producer, consumer = 0, 0
    product = Product.zero(M, N, num_warps)
    for k in gl.static_range(0, BK * (STAGES - 2), BK):
        producer = ring.load(producer, row, column, k)
    for k in range(BK * (STAGES - 2), a.shape[1], BK):
        producer = ring.load(producer, row, column, k)
        consumer, product = ring.multiply(consumer, product)
    for _ in gl.static_range(STAGES - 2):
        consumer, product = ring.multiply(consumer, product)
    product = product.wait(0)
    store(out, row, column, product.acc)


@gluon.jit
def load_partition(ring, row, column, K):
    for step in range(gl.cdiv(K, ring.a.block_type.shape[1])):
        mbarrier.wait(ring.empty.index(step % ring.stages), step // ring.stages & 1 ^ 1)
        ring.load(step, row, column, step * ring.a.block_type.shape[1])


@gluon.jit
def product_partition(ring, out, row, column, K, Product: gl.constexpr):
    product = Product.zero(out.block_type.shape[0], out.block_type.shape[1], gl.num_warps())
    for step in range(gl.cdiv(K, ring.a.block_type.shape[1])):
        index = step % ring.stages
        mbarrier.wait(ring.full.index(index), step // ring.stages & 1)
        product = product.start(ring.lefts.index(index), ring.rights.index(index))
        product = product.wait(0)
        mbarrier.arrive(ring.empty.index(index), count=1)
    store(out, row, column, product.acc)


@gluon.jit
def specialized_kernel(a, b, out, Product: gl.constexpr, STAGES: gl.constexpr,
                       num_warps: gl.constexpr):  # fmt: skip
    row = gl.program_id(0) * out.block_type.shape[0]
    column = gl.program_id(1) * out.block_type.shape[1]
    ring = Ring.make(a, b, STAGES)
    gl.warp_specialize([
        (product_partition, (ring, out, row, column, a.shape[1], Product)),
        (load_partition, (ring, row, column, a.shape[1])),
    ], [1], [24])  # fmt: skip


def _check(launch: Launch, kernel: Any) -> None:
    rng = np.random.default_rng(7)
    a = rng.integers(-4, 5, (200, 160)).astype(np.float16)
    b = rng.integers(-4, 5, (160, 96)).astype(np.float16)
    out = np.zeros((200, 96), np.float16)
    made = [TensorDescriptor.from_tensor(x, s, block_layout(s))
            for x, s in ((a, [128, 32]), (b, [32, 64]), (out, [128, 64]))]  # fmt: skip
    launch(kernel, (2, 2), *made, Product=WarpGroups, STAGES=3, num_warps=8)
    np.testing.assert_array_equal(out, (a.astype(np.float32) @ b).astype(np.float16))


def products_in_aggregates(launch: Launch) -> None:
    _check(launch, product_kernel)


def partitions_with_aggregates(launch: Launch) -> None:
    _check(launch, specialized_kernel)


PROGRAMS: dict[str, Any] = {
    check.__name__: check for check in (products_in_aggregates, partitions_with_aggregates)
}
