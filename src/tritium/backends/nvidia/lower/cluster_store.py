"""`ttng.async_shared_store`: stores to the shared memory of the blocks of a cluster, which tell the
barrier there how many bytes have come (st.async). The order that barriers give to memory which
threads of several blocks use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from weakref import WeakKeyDictionary

from xdsl.ir import Operation

from tritium.backends.nvidia.lower.hardware import NVIDIA
from tritium.backends.nvidia.lower.memory import braced
from tritium.codegen.gpu.context import Context, layout_of
from tritium.codegen.gpu.emitter import bits_of, word_type
from tritium.codegen.gpu.memory.access import distinct_registers, grouped, to_memory
from tritium.codegen.gpu.memory.shared import copies_in, memory_layout, place_in_blocks
from tritium.codegen.llvm.types import memory_bytes
from tritium.codegen.llvm.writer import Value
from tritium.codegen.registry import lowers
from tritium.ir import types as ir
from tritium.ir.layouts.swizzle import run_bits
from tritium.ops import ttgir
from tritium.ops.base import Op
from tritium.ops.effects import GLOBAL, SHARED, Action, Effect, Resource

LEAST_BYTES = 4


@lowers(NVIDIA, ttgir.AsyncSharedStoreOp)
def store(c: Context, op: Any) -> None:
    owner = c.owner(layout_of(op.src.type), of_program=True)
    bar = c.address(c.memory(op.barrier).address)
    for to, words, block in stores(c, op):
        n, word = len(words), words[0].type
        vector = f".v{n}" if n > 1 else ""
        names = braced([f"${i + 3}" for i in range(n)])
        guard = "" if owner is None else f"@${n + 3} "
        text = (
            "{ .reg .b32 to, bar; mapa.shared::cluster.u32 to, $0, $2; "
            f"mapa.shared::cluster.u32 bar, $1, $2; {guard}st.async.weak.shared::cluster."
            f"mbarrier::complete_tx::bytes{vector}.b{bits_of(word)} [to], {names}, [bar]; }}"
        )
        codes = ["r", "r", "r", *[{"i32": "r", "i64": "l"}[word]] * n]
        given = [] if owner is None else [owner]
        constraints = ",".join([*codes, *["b"] * len(given), "~{memory}"])
        c.asm("void", text, constraints, to, bar, block, *words, *given)


def stores(c: Context, op: Any) -> Iterator[tuple[Value, list[Value], Value]]:
    """(the address as in this block's memory, words, the block that gets them) of each store."""
    memory, type = c.memory(op.dst), op.src.type
    layout, tile, size = memory_layout(memory.type), layout_of(type), memory_bytes(type)
    if memory.origin:
        raise c.unsupported(op, "to a slice")
    place, above = place_in_blocks(tile, layout)
    groups = grouped(distinct_registers(tile), run_bits(place, size))
    if len(groups[0]) * size < LEAST_BYTES:
        raise c.unsupported(op, f"of {len(groups[0]) * size} bytes; {LEAST_BYTES} are the least")
    f, values, start = c.f, c.tile(op.src), c.address(memory.address)
    for group, at in zip(groups, c.positions(place, [g[0] for g in groups]), strict=True):
        index = f.op("and", at, c.i32((1 << above) - 1))
        to = f.op("add", start, f.op("mul", index, c.i32(size)))
        parts = [to_memory(c, values[r]) for r in group]
        words = c.pack(parts, word_type(parts[0].type, len(parts)))
        block = f.op("lshr", at, c.i32(above))
        for copy in copies_in(layout):
            yield to, words, f.op("xor", block, c.i32(copy)) if copy else block


_found: WeakKeyDictionary[Operation, bool] = WeakKeyDictionary()
"""If threads hand on memory to those of other blocks, by module."""


def order(c: Context, op: Any, how: str) -> str:
    """The scope that an arrival (`release`) at a barrier, or a wait (`acquire`), has.

    In the cluster's a release waits until all writes to memory are done, and an acquire drops the
    first-level cache: each costs hundreds of cycles. Without a scope threads are ordered in their
    own block. That is enough where they take no data from each other: what copy engines and tensor
    cores have done is done when they count for a barrier, or when a product has been waited for.
    """
    if c.num_ctas == 1 or getattr(op, "ownBlock", False):
        return ""
    while (around := op.parent_op()) is not None:
        op = around
    if op not in _found:
        _found[op] = _hands_on_memory(op)
    return f".{how}.cluster" if _found[op] else ""


def _hands_on_memory(module: Operation) -> bool:
    """True if a thread may read what a thread of another block has written."""
    actions = set[Action]()
    for op in module.walk():
        if not isinstance(op, Op) or op.is_call:
            continue
        if isinstance(op, ttgir.AsyncSharedStoreOp):
            return True
        for effect in op.own_effects():
            if effect.resource is SHARED and op.reaches_blocks and _is_access(effect):
                return True
            if effect.resource is Resource.HOST and not op.regions:  # code of the user's
                actions |= {Action.READ, Action.WRITE}
            elif effect.resource is GLOBAL and _by_pointer(op, effect):
                actions.add(effect.action)
    return {Action.READ, Action.WRITE} <= actions


def _is_access(effect: Effect) -> bool:
    """True for what the threads do themselves, and not an engine."""
    return effect.queue is None and effect.action in (Action.READ, Action.WRITE)


def _by_pointer(op: Op, effect: Effect) -> bool:
    """True if an effect is of the memory that pointers point to."""
    value = getattr(op, effect.value) if effect.value else None
    return value is not None and ir.is_pointer(ir.element_type(value.type))
