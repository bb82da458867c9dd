"""Atomic operations of tiles by chunks: several elements looked at, or exchanged, at once.

A locked instruction takes the same time for four floats as for one: of consecutive addresses,
sixteen bytes are exchanged at a time. Only on x86-64, where locked instructions of any size and
place exclude each other (Linux's queued spinlocks mix sizes on one word in this way) and
`cmpxchg16b` is one of them; it wants an address that is a multiple of sixteen. The elements before
and behind, and those next to masked ones, go one by one: nothing is written, nor any address
touched, that the program did not name.

A chunk of an operation that `settles` is looked at first, with one load or gather: of those,
each element is read at once (as Java's virtual machines rely on when they copy arrays).
"""

from __future__ import annotations

from functools import partial

from tritium.backends.cpu.lower.access import buffer_pointer, load, store, store_buffer
from tritium.backends.cpu.lower.atomics.operations import (
    FAILURE,
    check_supported,
    combined,
    fence,
    looks_first,
    masked,
    private,
    settles,
    write_rmw,
)
from tritium.backends.cpu.lower.context import Context
from tritium.backends.cpu.lower.emitter import At, Emitter
from tritium.backends.cpu.lower.types import value_type
from tritium.backends.cpu.lower.values import Lanes, Linear, Vec
from tritium.backends.cpu.tiles.ir import Nest, Shape
from tritium.codegen.llvm.types import ORDERS, memory_bytes
from tritium.codegen.llvm.writer import FLOAT_TYPES, Function, Value, const, lanes, mangle, vector
from tritium.ops.ttir.atomic import AtomicUpdate

_WIDE = 16
_CHUNK = 64
_GATHERED = 4
"""Eight bytes are gathered more slowly than loaded one by one (Zen 4, from the second cache)."""


def _exchanges_sixteen(c: Context) -> bool:
    return "cx16" in c.features


def scalarized_shape(c: Context, nest: Nest) -> Shape:
    """The lanes of a nest that goes element by element: more than one for atomic operations that
    have a use for it."""
    lane = len(nest.domain) - 1
    op, *others = nest.others
    if lane < 0 or not isinstance(op, AtomicUpdate) or others:
        return Shape(lane, 1, 1)
    type = value_type(op.val.type)
    if type not in FLOAT_TYPES and type not in ("i16", "i32", "i64"):
        return Shape(lane, 1, 1)
    size = memory_bytes(op.val.type)
    width = min(_CHUNK // size, nest.domain[lane])
    run = min(width, c.address_info(op.ptr).contiguity[lane])
    wide = _exchanges_sixteen(c) and run * size >= _WIDE
    if looks_first(c, op) and not (wide or (private(c, op) and run > 1)):
        return Shape(lane, width if size <= _GATHERED else 1, 1)
    return Shape(lane, run if private(c, op) or wide else 1, 1)


def rmw_chunk(e: Emitter, op: AtomicUpdate, at: At) -> None:
    """The elements of a chunk of a tile."""
    check_supported(e.context, op)
    size = memory_bytes(op.val.type)
    pointer, value = e.emit(op.ptr, at), e.vec(e.emit(op.val, at))
    mask = None if op.mask is None else e.emit(op.mask, at)
    lane = len(at) - 1
    if not isinstance(pointer, Linear) and (e.context.info(op.ptr).contiguity[lane] % e.width == 0):
        first = e.f.extract(e.vec(pointer), 0)
        pointer = Linear(first, size, None, 0, e.depth, e.depth, pinned=True)
    if private(e.context, op) and isinstance(pointer, Linear) and pointer.stride == size:
        _write_plain(e, op, at, pointer, value, mask)
    else:
        _Chunk(e, op, at, value).write(pointer, mask)


def _write_plain(
    e: Emitter, op: AtomicUpdate, at: At, pointer: Lanes, value: Value, mask: Lanes | None
) -> None:  # fmt: skip
    """Consecutive addresses that nobody else works on."""
    f, type, size = e.f, op.val.type, memory_bytes(op.val.type)
    old = _read(e, op, pointer, mask)
    new = combined(e.context, op.atomic_rmw_op, old, value)
    active = None if mask is None else e.vec(mask)
    if (buffer := e.context.function.buffers.get(op.result)) is not None:
        store_buffer(e, buffer, at, Vec(old, e.depth))
    done = f.new_label("written")
    if settles(e.context, op):  # a load has to wait for a store that wrote some of its elements
        _leave_unchanged(f, old, new, active, done)
    store(e, pointer, Vec(new, e.depth), type, mask, size)
    f.branch(done)
    f.label(done)


def _read(e: Emitter, op: AtomicUpdate, pointer: Lanes, mask: Lanes | None) -> Value:
    """The values in memory (zero where masked), read here and not inside a loop of the nest."""
    here = pointer._replace(level=e.depth)
    return e.vec(load(e, here, op.val.type, mask, None, memory_bytes(op.val.type)))


def _leave_unchanged(f: Function, old: Value, new: Value, active: Value | None, done: str) -> None:
    """Go to `done` if no active element changes."""
    changes = f.icmp("ne", new, old)
    if active is not None:
        changes = f.op("and", changes, active)
    go = f.new_label("changes")
    f.branch_if(_folded(f, "or", changes), go, done)
    f.label(go)


def _folded(f: Function, how: str, flags: Value) -> Value:
    return f.call("i1", f"llvm.vector.reduce.{how}.{mangle(flags.type)}", flags)


class _Chunk:
    """Writes the code for one chunk."""

    def __init__(self, e: Emitter, op: AtomicUpdate, at: At, value: Value):
        self.e, self.c, self.f, self.op, self.value = e, e.context, e.f, op, value
        self.size, self.width = memory_bytes(op.val.type), e.width
        self.count = _WIDE // self.size
        self.type = value_type(op.val.type)
        self.olds: Value | None = None
        if (buffer := self.c.function.buffers.get(op.result)) is not None:
            place = buffer_pointer(e, buffer, at)
            assert isinstance(place, Linear)
            self.olds = e.moved(place)
        self.start: Value | None = None
        """The first address, if the others follow it and sixteen bytes can be exchanged."""

    def write(self, pointer: Lanes, mask: Lanes | None) -> None:
        """Do the elements at `pointer` whose mask is true."""
        e, f = self.e, self.f
        done = f.new_label("done")
        active = None if mask is None else e.vec(mask)
        if isinstance(pointer, Linear) and pointer.stride == self.size and (
            _exchanges_sixteen(self.c) and self.width >= self.count
        ):  # fmt: skip
            self.start = e.moved(pointer)
        places = None if self.start is not None else e.vec(pointer)
        if settles(self.c, self.op):
            fence(e, self.op)
            self._look(_read(e, self.op, pointer, mask), active, done)
        if self.start is not None:
            self._aligned(active, done)
        with self.c.temporary() as allocate:
            self.values = self._spilled(self.value, allocate(_CHUNK))
            self.places = None
            if places is not None:
                self.places = self._spilled(places, allocate(8 * self.width))
            self.active: Value | None = None
            if active is not None:  # tests of `count` at once may overrun
                flags = f.cast("zext", active, vector("i8", self.width))
                self.active = self._spilled(flags, allocate(_CHUNK + _WIDE))
            self._loop(done)
        f.label(done)

    def _spilled(self, value: Value, place: Value) -> Value:
        self.f.store(value, place, _CHUNK)
        return place

    def _look(self, found: Value, active: Value | None, done: str) -> None:
        """Leave for `done` if nothing would change."""
        f = self.f
        if self.olds is not None:
            f.store(found, self.olds, self.size)
        new = combined(self.c, self.op.atomic_rmw_op, found, self.value)
        _leave_unchanged(f, found, new, active, done)

    def _begins(self, address: Value) -> Value:
        """True if sixteen bytes begin at an address."""
        odd = self.f.op("and", self.f.cast("ptrtoint", address, "i64"), const("i64", _WIDE - 1))
        return self.f.icmp("eq", odd, const("i64", 0))

    def _aligned(self, active: Value | None, done: str) -> None:
        """The chunk if it is aligned and all of it active: all is read before the first exchange,
        behind which a load would have to wait."""
        f, start = self.f, self.start
        assert start is not None
        whole, parts = f.new_label("whole"), f.new_label("parts")
        holds = self._begins(start)
        if active is not None:
            holds = f.op("and", holds, _folded(f, "and", active))
        f.branch_if(holds, whole, parts)
        f.label(whole)
        type = vector(self.type, self.width)
        guess = f.emit(type, f"load volatile {type}, {start}, align {_WIDE}")
        for first in range(0, self.width, self.count):
            pick = list(range(first, first + self.count))
            old, value = (f.shuffle(v, None, pick) for v in (guess, self.value))
            self._exchange(f.offset(start, first * self.size), const("i64", first), old, value)
        f.branch(done)
        f.label(parts)

    def _loop(self, done: str) -> None:
        f, before = self.f, self.f.block
        head, wide, single, latch = map(f.new_label, ("elements", "sixteen", "single", "next"))
        f.branch(head)
        f.label(head)
        index = f.phi("i64", [(const("i64", 0), before)])
        at, steps = index.value, list[tuple[Value, str]]()
        if self.start is not None:
            address = f.gep(self.type, self.start, at)
            f.branch_if(self._fits(address, at), wide, single)
            f.label(wide)
            type = vector(self.type, self.count)
            value = f.load(type, f.gep(self.type, self.values, at), self.size)
            guess = f.emit(type, f"load volatile {type}, {address}, align {_WIDE}")
            self._exchange(address, at, guess, value)
            steps.append((f.op("add", at, const("i64", self.count)), f.block))
            f.branch(latch)
            f.label(single)
        else:
            assert self.places is not None
            address = f.load("ptr", f.gep("ptr", self.places, at), 8)
        self._single(address, at)
        steps.append((f.op("add", at, const("i64", 1)), f.block))
        f.branch(latch)
        f.label(latch)
        following = f.phi("i64", steps).value
        index.add(following, latch)
        f.branch_if(f.icmp("ult", following, const("i64", self.width)), head, done)

    def _fits(self, address: Value, at: Value) -> Value:
        """True if sixteen bytes begin here, all of them of active elements of this chunk."""
        f = self.f
        inside = f.icmp("ule", at, const("i64", self.width - self.count))
        fits = f.op("and", self._begins(address), inside)
        if self.active is not None:
            bits = f"i{8 * self.count}"
            flags = f.load(bits, f.gep("i8", self.active, at), 1)
            all_ = int.from_bytes(b"\1" * self.count, "little")
            fits = f.op("and", fits, f.icmp("eq", flags, const(bits, all_)))
        return fits

    def _exchange(self, address: Value, at: Value, guess: Value, value: Value) -> None:
        """Sixteen bytes at an address. The guess, torn or not, is what was there if the exchange
        finds the same."""
        f, op, type = self.f, self.op, guess.type
        before, again, done = f.block, f.new_label("again"), f.new_label("exchanged")
        f.branch(again)
        f.label(again)
        old = f.phi(type, [(guess, before)])
        new = combined(self.c, op.atomic_rmw_op, old.value, value)
        held, put = f.cast("bitcast", old.value, "i128"), f.cast("bitcast", new, "i128")
        pair = "{ i128, i1 }"
        order = f"{ORDERS[op.sem]} {FAILURE[op.sem]}, align {_WIDE}"
        result = f.emit(pair, f"cmpxchg {address}, {held}, {put} {order}")
        found = f.emit("i128", f"extractvalue {pair} {result.ref}, 0")
        old.add(f.cast("bitcast", found, type), f.block)
        f.branch_if(f.emit("i1", f"extractvalue {pair} {result.ref}, 1"), done, again)
        f.label(done)
        self._keep(old.value, at)

    def _single(self, address: Value, at: Value) -> None:
        f, mask = self.f, None
        if self.active is not None:
            mask = f.icmp("ne", f.load("i8", f.gep("i8", self.active, at), 1), const("i8", 0))
        value = f.load(self.type, f.gep(self.type, self.values, at), self.size)
        write = partial(write_rmw, self.c, self.op, address, value)
        self._keep(masked(self.c, mask, self.type, write), at)

    def _keep(self, old: Value, at: Value) -> None:
        if self.olds is not None:
            align = min(self.size, 16 // lanes(old.type))
            self.f.store(old, self.f.gep(self.type, self.olds, at), align)
