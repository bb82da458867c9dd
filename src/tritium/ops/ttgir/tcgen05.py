"""`ttng`: products of Blackwell's tensor cores, which keep sums in tensor memory (tcgen05)."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any, ClassVar

import numpy as np

from tritium.errors import OpError
from tritium.ir import types as ir
from tritium.ir.layouts.encodings import LinearEncoding, part_of
from tritium.ir.layouts.tensor_memory import (
    TensorEncoding,
    TensorMemoryEncoding,
    TensorMemoryScalesEncoding,
)
from tritium.ops.base import Op
from tritium.ops.effects import SHARED, TENSOR, Queue, arrives, reads, writes
from tritium.ops.elementwise import describe
from tritium.ops.fields import enum_attr, operand, optional, unit_attr, variadic
from tritium.ops.memory import Context
from tritium.ops.ttgir.hopper import WarpGroupDotOp
from tritium.ops.ttgir.memory import is_padded
from tritium.ops.ttgir.model import Buffer, state_of
from tritium.ops.ttgir.tensor_memory import check_tensor_memory
from tritium.ops.ttgir.tma import check_flag
from tritium.ops.ttgir.types import (
    MemDescType,
    blocks_of_barrier,
    blocks_of_memory,
    check_barrier,
    check_matrix,
    check_memory,
    copies_of,
)
from tritium.ops.ttir.dot import ScaleFormat, TileProduct, check_product, scale_factors, unpack_fp4


class TensorCoreProduct(Op):
    """Base: start `d += a @ b` (`d = a @ b` where `useD` is false), if `pred`. The barriers, each
    where its predicate holds, get an arrival when the product is done.

    In a cluster each block multiplies what it has. With `two_ctas` each two have one product, which
    the first of them starts: each has half of the rows of `a` and `d`, and half of the columns of
    `b`; both get the arrival. With `multicast` so do the blocks with copies of an operand."""

    exact = "none"
    effects = (
        reads(SHARED, "a", Queue.TENSOR_DOT), reads(SHARED, "b", Queue.TENSOR_DOT),
        reads(TENSOR), writes(TENSOR, "d"), arrives("barriers", Queue.TENSOR_DOT),
    )  # fmt: skip
    a: Any
    b: Any
    is_async = unit_attr()
    two_ctas = unit_attr()
    multicast = unit_attr()

    @property
    def reaches_blocks(self) -> bool:
        return self.two_ctas or self.multicast

    @classmethod
    def check(
        cls, a: ir.Type, b: ir.Type, d: ir.Type, flags: Sequence[ir.Type],
        barriers: Sequence[ir.Type], conditions: Sequence[ir.Type],
        packs: tuple[int, int] = (1, 1),
    ) -> tuple[MemDescType, MemDescType, MemDescType]:  # fmt: skip
        """The operands' types. `packs`: the elements along k in one of each operand's memory.
        Raises `OpError` for types that do not fit."""
        left, right = check_memory(cls.name, a), check_matrix(cls.name, b)
        if not isinstance(left.encoding, TensorEncoding):
            check_matrix(cls.name, a)
        sums = check_tensor_memory(cls.name, d, mutable=True)
        shapes = [m.get_shape() for m in (left, right, sums)]
        (m, k), (k2, n) = (s if len(s) == 2 else (0, -1) for s in shapes[:2])
        if k * packs[0] != k2 * packs[1] or shapes[2] != (m, n):
            raise OpError(f"{cls.name}: {describe(a)} @ {describe(b)} to {describe(d)}")
        for flag in (*flags, *conditions):
            check_flag(cls.name, flag)
        for barrier in barriers:
            check_barrier(cls.name, barrier)
        if len(barriers) != len(conditions):
            raise OpError(f"{cls.name}: {len(conditions)} predicates of {len(barriers)} barriers")
        _check_shared(cls.name, barriers)
        encoding: Any = sums.encoding
        cls.check_parts("a", left, [basis[0] for basis in blocks_of_memory(sums)], 0)
        columns = [basis[1] for basis in blocks_of_memory(sums)]
        if is_of_pair(sums):
            width = part_of(encoding.get("CGALayout"), (m, n))[1]
            if width > min(encoding.get("blockN"), 256):
                raise OpError(
                    f"{cls.name}: each two blocks have {width} columns of {describe(d)}; at most "
                    f"{min(encoding.get('blockN'), 256)} are required"
                )
            columns[0] = width // 2
        cls.check_parts("b", right, columns, 1)
        return left, right, sums

    @classmethod
    def check_parts(cls, name: str, memory: MemDescType, wanted: Sequence[int], axis: int) -> None:
        """The blocks of a cluster must have the rows (or columns) of an operand that belong to what
        they have of the result, and all along the other axis."""
        found = blocks_of_memory(memory)
        at = [[x if i == axis else 0 for i in range(2)] for x in wanted]
        if found != at and (found or any(wanted)):
            raise OpError(
                f"{cls.name}: {name} is {describe(memory)}, whose parts begin at {found}, for each "
                f"bit of a block's number in the cluster; {at} is required"
            )

    def start(
        self, context: Context, d: Buffer, product: np.ndarray, operands: Sequence[Buffer],
        use: Any, barriers: Sequence[Buffer], conditions: Sequence[Any],
    ) -> None:  # fmt: skip
        """Start the work, and tie it to the barriers."""
        state = state_of(context)
        state.of_pairs = self.two_ctas
        memories = [self.a.type, self.b.type] if self.multicast else []
        route = route_of_commits(memories, self.two_ctas, state.blocks)
        before = state.newest(d).astype(product.dtype) if use else 0
        total = (product + before).astype(d.data.dtype)
        state.start_tensor_work(d, total, [o.data for o in operands])
        for barrier, condition in zip(barriers, conditions, strict=True):
            if condition:
                state.commit_tensor_work(barrier, self.arrivals, route)

    @property
    def arrivals(self) -> int:
        """The number of blocks whose products arrive at a barrier."""
        memories: list[Any] = [self.a.type, self.b.type] if self.multicast else []
        return blocks_that_commit(memories, self.two_ctas)

    def most_arrivals(self) -> float:
        return inf if self.reaches_blocks else 1


def blocks_that_commit(memories: Sequence[Any], two_ctas: bool) -> int:
    """The number of blocks of a cluster that commit to the first one's barrier: those with copies
    of what it has in one of the memories; with `two_ctas` one of each two."""
    found = set[int]()
    for memory in memories:
        copies = copies_of(memory)
        blocks = range(0, 1 << len(blocks_of_memory(memory)), 2 if two_ctas else 1)
        found |= {block for block in blocks if not block & ~copies}
    return max(len(found), 1)


def route_of_commits(memories: Sequence[Any], two_ctas: bool, blocks: int) -> list[tuple[int, int]]:
    """Pairs of blocks of a cluster: one that commits to the barrier of the other, which has copies
    of what the first has in one of the memories. With `two_ctas` the first of each two commits, to
    both."""
    pair = int(two_ctas and blocks > 1)
    masks = [0, *map(copies_of, memories)] if blocks > 1 else [0]
    return [
        (source, target) for target in range(blocks) for source in range(0, blocks, 1 + pair)
        if any(not (source ^ target) & ~(mask | pair) for mask in masks)
    ]  # fmt: skip


def is_of_pair(type: Any) -> bool:
    """True if a type is of tensor memory with the results of products of two blocks."""
    encoding = getattr(type, "encoding", None)
    return isinstance(encoding, TensorMemoryEncoding) and encoding.get("twoCTAs")


def _check_shared(name: str, barriers: Sequence[ir.Type]) -> None:
    """Both blocks of two wait for a product: each needs a barrier of its own."""
    if any(map(blocks_of_barrier, barriers)):
        raise OpError(
            f"{name}: a barrier that blocks share cannot be told of the end of a product; one for "
            "each block, allocate_mbarrier() without two_ctas, is required"
        )


def _read(context: Context, memory: Buffer, two_ctas: bool) -> np.ndarray:
    """An operand: shared memory that nothing is being copied to, or what tensor memory will hold
    for the product."""
    state = state_of(context)
    pending = any(np.shares_memory(w.target, memory.data) for w in state.own.works if not w.done)
    if pending:
        return state.newest(memory)
    # The first of two blocks reads the memory of both.
    pair = int(two_ctas and state.blocks > 1)
    route = [(block & ~pair, block) for block in range(state.blocks)]
    return state.check_read(memory, by_proxy=True, route=route)


class TCGen5MMAOp(TensorCoreProduct):
    """See `TensorCoreProduct`. `a` may be in tensor memory."""

    name = "ttng.tc_gen5_mma"
    capabilities = 100, 119
    reads_operand_types = True
    syntax = (
        "$a, $b, $d, $useD, $pred pairs(barriers barrierPreds) attrs : type(a), type(b), type(d) "
        "[, type(barriers)]"
    )
    a = operand()
    b = operand()
    d = operand()
    useD = operand()
    pred = operand()
    barriers = variadic()
    barrierPreds = variadic()

    @classmethod
    def infer(
        cls, a: ir.Type, b: ir.Type, d: ir.Type, use: ir.Type, pred: ir.Type,
        barriers: Sequence[ir.Type], conditions: Sequence[ir.Type], **attrs: Any,
    ) -> None:  # fmt: skip
        left, right, _ = cls.check(a, b, d, (use, pred), barriers, conditions)
        if left.element_type != right.element_type and not all(
            ir.bit_width(m.element_type) == 8 for m in (left, right)
        ):
            raise OpError(f"{cls.name}: {describe(a)} @ {describe(b)}; the types must be the same")

    def evaluate(
        self, context: Context, a: Buffer, b: Buffer, d: Buffer, use: Any, pred: Any,
        barriers: Sequence[Buffer], conditions: Sequence[Any],
    ) -> None:  # fmt: skip
        if not pred:
            return
        left, right = (_read(context, m, self.two_ctas) for m in (a, b))
        wide = np.int64 if d.data.dtype.kind == "i" else np.float64
        product = np.matmul(left.astype(wide), right.astype(wide))
        self.start(context, d, product, (a, b), use, barriers, conditions)


def _packs(a: ScaleFormat, b: ScaleFormat) -> tuple[int, int]:
    """The elements along k in one of each operand's memory."""
    left, right = (2 if format is ScaleFormat.E2M1 else 1 for format in (a, b))
    return left, right


def _check_gaps(name: str, operand: str, memory: MemDescType, wanted: bool) -> None:
    """Operands of E2M1 have gaps in memory where the other one has another format."""
    encoding: Any = memory.encoding
    if encoding.get("fp4Padded") != wanted:
        which = "with fp4Padded" if wanted else "without fp4Padded"
        raise OpError(f"{name}: {operand} is {describe(memory)}; memory {which} is required, as "
                      "operands of e2m1 beside other formats have it alone")  # fmt: skip


class TCGen5MMAScaledOp(TensorCoreProduct):
    """See `TensorCoreProduct`. `a_scale` and `b_scale`, in tensor memory, hold the factors by which
    each run of elements along k is multiplied, of each row of `a` and column of `b`: powers of two
    for 32 elements, or float8 for 16. E2M1 operands are bytes, two elements along k in each;
    beside another format with gaps (`fp4Padded`)."""

    name = "ttng.tc_gen5_mma_scaled"
    capabilities = 100, 119
    syntax = (
        "$a, $b, $d, $a_scale, $b_scale, $useD, $pred "
        "lhs = $a_type rhs = $b_type pairs(barriers barrierPreds) attrs "
        ": type(a), type(b), type(d), type(a_scale), type(b_scale) [, type(barriers)]"
    )
    a = operand()
    b = operand()
    d = operand()
    a_scale = operand()
    b_scale = operand()
    useD = operand()
    pred = operand()
    barriers = variadic()
    barrierPreds = variadic()
    a_type = enum_attr(ScaleFormat)
    b_type = enum_attr(ScaleFormat)
    reads_operand_types = True

    @property
    def packed(self) -> bool:
        """True if both operands have two elements a byte."""
        return self.packs == (2, 2)

    @property
    def packs(self) -> tuple[int, int]:
        """The elements along k in one of each operand's memory."""
        return _packs(self.a_type, self.b_type)

    @classmethod
    def infer(
        cls, a: ir.Type, b: ir.Type, d: ir.Type, a_scale: ir.Type, b_scale: ir.Type,
        use: ir.Type, pred: ir.Type, barriers: Sequence[ir.Type], conditions: Sequence[ir.Type],
        **attrs: Any,
    ) -> None:  # fmt: skip
        packs = _packs(attrs["a_type"], attrs["b_type"])
        left, right, sums = cls.check(a, b, d, (use, pred), barriers, conditions, packs)
        (m, k), n = left.get_shape(), right.get_shape()[1]
        packed = packs == (2, 2)
        for name, memory, pack in (("a", left, packs[0]), ("b", right, packs[1])):
            _check_gaps(cls.name, name, memory, pack == 2 and not packed)
        blocks = blocks_of_memory(sums)
        for axis, (scale, rows) in enumerate(((a_scale, m), (b_scale, n))):
            memory = check_tensor_memory(cls.name, scale)
            scales = isinstance(memory.encoding, TensorMemoryScalesEncoding)
            run = run_of(memory)
            wanted = rows, packs[0] * k // run
            if not scales or memory.get_shape() != wanted or (run == 16 and not packed):
                raise OpError(
                    f"{cls.name}: scales {describe(scale)}; {wanted[0]}x{wanted[1]} are required"
                )
            cls.check_parts(f"{'ab'[axis]}_scale", memory, [basis[axis] for basis in blocks], 0)

    def evaluate(
        self, context: Context, a: Buffer, b: Buffer, d: Buffer, a_scale: Buffer,
        b_scale: Buffer, use: Any, pred: Any, barriers: Sequence[Buffer],
        conditions: Sequence[Any],
    ) -> None:  # fmt: skip
        if not pred:
            return
        left, right, a_scales, b_scales = (
            _read(context, m, self.two_ctas) for m in (a, b, a_scale, b_scale)
        )
        if is_padded(self.a.type):
            left = (left >> 2 & 0xF | left >> 6 & 0xF0).astype(np.uint8)
        left = unpack_fp4(left, 1) if self.packs[0] == 2 else left
        right = unpack_fp4(right, 0) if self.packs[1] == 2 else right
        run = run_of(self.a_scale.type)
        product = np.matmul(
            left.astype(np.float64) * _factors(a_scales, run),
            right.astype(np.float64) * np.transpose(_factors(b_scales, run)),
        )
        operands = (a, b, a_scale, b_scale)
        self.start(context, d, product, operands, use, barriers, conditions)


class TensorDotOp(WarpGroupDotOp):
    """`a @ b + c` by the tensor cores, as passes see it until `tensor-products` puts its sums into
    tensor memory: operands in shared memory, sums as tiles whose registers that memory fills."""

    name = "ttng.tensor_dot"
    capabilities = 100, 119
    takes_registers = False
    in_tensor_memory = True

    @classmethod
    def check_registers(cls, a: ir.Type, c: ir.Type) -> None:
        check_matrix(cls.name, a)
        if not isinstance(ir.encoding_of(c), LinearEncoding) or ir.bit_width(c) != 32:
            raise OpError(
                f"{cls.name}: accumulator {describe(c)}; 32-bit sums in #ttg.linear are required"
            )


class TensorScaledDotOp(TileProduct):
    """`(a * a_scale) @ (b * b_scale) + c` by the tensor cores, as `TensorDotOp`; the scales are
    tiles that the registers of all warps have. E2M1 operands are bytes of two elements along K."""

    name = "ttng.tensor_dot_scaled"
    capabilities = 100, 119
    effects = (reads(SHARED, "a"), reads(SHARED, "b"))
    has_scales = True
    in_tensor_memory = True
    takes_registers: ClassVar[bool] = False
    isAsync: ClassVar[bool] = False
    useC: ClassVar[None] = None
    syntax = (
        "$a scale $a_scale, $b scale $b_scale, $c lhs = $a_type rhs = $b_type attrs : "
        "type(a), type(a_scale) * type(b), type(b_scale) -> type(result)"
    )
    a_scale = operand()
    b_scale = operand()
    a_type = enum_attr(ScaleFormat)
    b_type = enum_attr(ScaleFormat)

    @classmethod
    def infer(
        cls, a: ir.Type, b: ir.Type, c: ir.Type, a_scale: ir.Type, b_scale: ir.Type, **attrs: Any
    ) -> ir.Type:
        TensorDotOp.check_registers(a, c)
        check_matrix(cls.name, b)
        left, right = (check_memory(cls.name, m).get_shape() for m in (a, b))
        check_product(cls.name, left, right, a, b, c)
        return c

    def evaluate(
        self, context: Context, a: Buffer, b: Buffer, c: Any, a_scale: Any, b_scale: Any
    ) -> Any:
        packed = self.a_type is ScaleFormat.E2M1
        left, right = (state_of(context).check_read(m, by_proxy=True) for m in (a, b))
        if packed:
            left, right = unpack_fp4(left, 1), unpack_fp4(right, 0)
        run = left.shape[1] // a_scale.shape[1]
        product = np.matmul(
            left.astype(np.float64) * _factors(a_scale, run),
            right.astype(np.float64) * np.transpose(_factors(b_scale, run)),
        )
        return (product + np.asarray(c, np.float64)).astype(np.asarray(c).dtype)


def sums_columns(product: TileProduct) -> int:
    """The columns of tensor memory, at most, for the sums of a product, and for scales."""
    rows, columns = ir.shape_of(product.results[0].type)[-2:]
    found = max(rows // 128, 1) * columns
    if product.has_scales:
        values: Any = product
        scales = [v.type for v in (values.a_scale, values.b_scale) if v is not None]
        found += sum(TensorMemoryScalesEncoding.make().columns_of(ir.shape_of(t), 8)
                     for t in scales)  # fmt: skip
    return found


def run_of(scales: Any) -> int:
    """The elements along k with one scale, by the scales' type."""
    return 16 if scales.element_type == ir.f8e4m3fn else 32


def _factors(scales: np.ndarray, run: int) -> np.ndarray:
    """The scale of each element along k."""
    return np.repeat(scale_factors(scales), run, axis=1)


class TCGen5CommitOp(Op):
    """The barrier gets an arrival when all products and copies are done that were started before,
    if `pred`. In a cluster so do those of the blocks with copies of what is in `descs`."""

    name = "ttng.tc_gen5_commit"
    capabilities = 100, 119
    effects = (arrives("barrier", Queue.TENSOR_DOT), reads(TENSOR), writes(TENSOR))
    syntax = "$barrier [, $pred] [descs $descs] attrs : type(barrier) [, type(descs)]"
    reads_operand_types = True
    barrier = operand()
    pred = optional()
    descs = variadic()

    @property
    def reaches_blocks(self) -> bool:
        return bool(self.descs)

    def most_arrivals(self) -> float:
        return inf if self.reaches_blocks else 1

    @classmethod
    def infer(cls, barrier: ir.Type, pred: ir.Type | None, descs: Sequence[ir.Type]) -> None:
        check_barrier(cls.name, barrier)
        _check_shared(cls.name, [barrier])
        check_flag(cls.name, pred)
        for memory in descs:
            check_memory(cls.name, memory)

    def evaluate(
        self, context: Context, barrier: Buffer, pred: Any, descs: Sequence[Buffer]
    ) -> None:
        if pred is None or pred:
            state = state_of(context)
            memories = [m.type for m in self.descs]
            count = blocks_that_commit(memories, state.of_pairs)
            route = route_of_commits(memories, state.of_pairs, state.blocks)
            state.commit_tensor_work(barrier, count, route)
