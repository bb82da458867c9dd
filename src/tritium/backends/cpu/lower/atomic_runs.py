"""Atomic operations on blocks of consecutive addresses: sixteen bytes by one locked instruction.

A locked instruction takes the same time for four floats as for one. Only on x86-64, where locked
instructions of any size and place exclude each other (Linux's queued spinlocks mix sizes on one
word in this way) and `cmpxchg16b` is one of them; it wants an address that is a multiple of
sixteen. The elements before and behind, and those next to masked ones, go one by one: nothing is
written, nor any address touched, that the program did not name.
"""

from __future__ import annotations

from functools import partial

from tritium.backends.cpu.host import is_x86
from tritium.backends.cpu.lower.access import buffer_pointer, load, store, store_buffer
from tritium.backends.cpu.lower.atomic import (
    FAILURE,
    ORDER,
    check_supported,
    combined,
    fence,
    masked,
    private,
    rmw,
    settles,
    write_rmw,
    write_settling,
)
from tritium.backends.cpu.lower.context import Context
from tritium.backends.cpu.lower.emitter import At, Emitter
from tritium.backends.cpu.lower.shape_choice import Shape
from tritium.backends.cpu.lower.types import memory_bytes, value_type
from tritium.backends.cpu.lower.values import Lanes, Linear, Vec
from tritium.backends.cpu.tiles.ir import Nest, Root
from tritium.lowering.llvm import FLOAT_TYPES, Value, const, vector
from tritium.lowering.registry import lowers
from tritium.ops.ttir.atomic import AtomicRMWOp

_WIDE = 16
_CHUNK = 64


def each_shape(c: Context, nest: Nest) -> Shape:
    """The lanes of a nest that goes element by element: more than one for blocks of consecutive
    addresses."""
    lane = len(nest.domain) - 1
    op = nest.roots[0].op
    if lane < 0 or not isinstance(op, AtomicRMWOp) or len(nest.roots) > 1:
        return Shape(lane, 1, 1)
    type = value_type(op.val.type)
    if type not in FLOAT_TYPES and type not in ("i16", "i32", "i64"):
        return Shape(lane, 1, 1)
    size = memory_bytes(op.val.type)
    width = min(_CHUNK // size, nest.domain[lane], c.address_info(op.ptr).contiguity[lane])
    wide = is_x86() and "cx16" in c.features and width * size >= _WIDE
    return Shape(lane, width if private(op) or wide else 1, 1)


@lowers("cpu.each", AtomicRMWOp)
def rmw_chunk(e: Emitter, op: AtomicRMWOp, root: Root, at: At) -> None:
    if e.width == 1:
        rmw(e, op, root, at)
        return
    check_supported(e.context, op)
    size = memory_bytes(op.val.type)
    pointer, value = e.emit(op.ptr, at), e.vec(e.emit(op.val, at))
    if not isinstance(pointer, Linear) or pointer.stride != size:
        first = e.f.extract(e.vec(pointer), 0)
        pointer = Linear(first, size, None, 0, e.depth, e.depth, pinned=True)
    mask = None if op.mask is None else e.emit(op.mask, at)
    if private(op):
        _write_plain(e, op, root, at, pointer, value, mask)
    else:
        if settles(op):
            fence(e, op)
        _Run(e, op, root, at, value).write(e.moved(pointer), None if mask is None else e.vec(mask))


def _write_plain(
    e: Emitter, op: AtomicRMWOp, root: Root, at: At, pointer: Linear, value: Value,
    mask: Lanes | None,
) -> None:  # fmt: skip
    type, size = op.val.type, memory_bytes(op.val.type)
    old = e.vec(load(e, pointer._replace(level=e.depth), type, mask, None, size))
    new = combined(e.context, op.atomic_rmw_op, old, value)
    store(e, pointer, Vec(new, e.depth), type, mask, size)
    if root.buffers and root.buffers[0] is not None:
        store_buffer(e, root.buffers[0], at, Vec(old, e.depth))


class _Run:
    """Writes the loop over one chunk of a block, whose values are put into memory first: at which
    element sixteen bytes begin is known only then."""

    def __init__(self, e: Emitter, op: AtomicRMWOp, root: Root, at: At, value: Value):
        self.c, self.f, self.op, self.value = e.context, e.f, op, value
        self.size, self.width = memory_bytes(op.val.type), e.width
        self.count = _WIDE // self.size
        self.type = value_type(op.val.type)
        self.olds: Value | None = None
        if root.buffers and root.buffers[0] is not None:
            place = buffer_pointer(e, root.buffers[0], at)
            assert isinstance(place, Linear)
            self.olds = e.moved(place)

    def write(self, start: Value, mask: Value | None) -> None:
        """Do the elements at `start` and behind whose mask is true."""
        f = self.f
        with self.c.temporary() as allocate:
            self.values = allocate(_CHUNK)
            f.store(self.value, self.values, _CHUNK)
            self.active: Value | None = None
            if mask is not None:
                self.active = allocate(_CHUNK + _WIDE)  # tests of `count` at once may overrun
                f.store(f.cast("zext", mask, vector("i8", self.width)), self.active, _CHUNK)
            self._loop(start)

    def _loop(self, start: Value) -> None:
        f, before = self.f, self.f.block
        head, wide, single, latch, done = map(
            f.new_label, ("elements", "sixteen", "single", "next", "done")
        )
        f.branch(head)
        f.label(head)
        index = f.phi("i64", [(const("i64", 0), before)])
        at = index.value
        address = f.gep(self.type, start, at)
        f.branch_if(self._fits(address, at), wide, single)
        f.label(wide)
        self._sixteen(address, at)
        after_wide, wide_end = f.op("add", at, const("i64", self.count)), f.block
        f.branch(latch)
        f.label(single)
        self._single(address, at)
        after_single, single_end = f.op("add", at, const("i64", 1)), f.block
        f.branch(latch)
        f.label(latch)
        following = f.phi("i64", [(after_wide, wide_end), (after_single, single_end)]).value
        index.add(following, latch)
        f.branch_if(f.icmp("ult", following, const("i64", self.width)), head, done)
        f.label(done)

    def _fits(self, address: Value, at: Value) -> Value:
        """Whether sixteen bytes begin here, all of them of active elements of this chunk."""
        f = self.f
        odd = f.op("and", f.cast("ptrtoint", address, "i64"), const("i64", _WIDE - 1))
        fits = f.icmp("eq", odd, const("i64", 0))
        inside = f.icmp("ule", at, const("i64", self.width - self.count))
        fits = f.op("and", fits, inside)
        if self.active is not None:
            bits = f"i{8 * self.count}"
            flags = f.load(bits, f.gep("i8", self.active, at), 1)
            all_ = int.from_bytes(b"\1" * self.count, "little")
            fits = f.op("and", fits, f.icmp("eq", flags, const(bits, all_)))
        return fits

    def _sixteen(self, address: Value, at: Value) -> None:
        f, op, type = self.f, self.op, vector(self.type, self.count)
        value = f.load(type, f.gep(self.type, self.values, at), self.size)
        # Volatile: read once. Torn or not, it is right if the exchange finds the same.
        guess = f.emit(type, f"load volatile {type}, {address}, align {_WIDE}")
        before, again, done = f.block, f.new_label("again"), f.new_label("exchanged")
        f.branch(again)
        f.label(again)
        old = f.phi(type, [(guess, before)])
        new = combined(self.c, op.atomic_rmw_op, old.value, value)
        held, put = f.cast("bitcast", old.value, "i128"), f.cast("bitcast", new, "i128")
        if settles(op):
            exchange = f.new_label("exchange")
            f.branch_if(f.icmp("eq", held, put), done, exchange)
            f.label(exchange)
        pair = "{ i128, i1 }"
        order = f"{ORDER[op.sem]} {FAILURE[op.sem]}, align {_WIDE}"
        result = f.emit(pair, f"cmpxchg {address}, {held}, {put} {order}")
        found = f.emit("i128", f"extractvalue {pair} {result.ref}, 0")
        old.add(f.cast("bitcast", found, type), f.block)
        f.branch_if(f.emit("i1", f"extractvalue {pair} {result.ref}, 1"), done, again)
        f.label(done)
        self._keep(old.value, at)

    def _single(self, address: Value, at: Value) -> None:
        f, op = self.f, self.op
        mask = None
        if self.active is not None:
            mask = f.icmp("ne", f.load("i8", f.gep("i8", self.active, at), 1), const("i8", 0))
        value = f.load(self.type, f.gep(self.type, self.values, at), self.size)
        if settles(op):
            old = write_settling(self.c, op, address, value, mask)
        else:
            write = partial(write_rmw, self.c, op, address, value)
            old = masked(self.c, mask, self.type, write)
        self._keep(old, at)

    def _keep(self, old: Value, at: Value) -> None:
        if self.olds is not None:
            self.f.store(old, self.f.gep(self.type, self.olds, at), self.size)
