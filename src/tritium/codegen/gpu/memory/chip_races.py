"""Notes about accesses of shared memory (`tritium.sanitize.chip`): the first thread of each
partition writes them, one partition at a time."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import Any

from tritium.codegen.gpu.context import Context
from tritium.codegen.gpu.debug import program_number, write_report
from tritium.codegen.gpu.types import GPU
from tritium.codegen.llvm.types import memory_bytes
from tritium.codegen.llvm.writer import Function, Value, const
from tritium.codegen.registry import lowers
from tritium.ops.ttir.sanitize import ChipAccessOp, ChipEvent, ChipEventOp
from tritium.sanitize.chip.footprint import parts_of
from tritium.sanitize.chip.state import (
    BARRIER_BYTES,
    COUNT,
    EXPECTED,
    HEAD_BYTES,
    PENDING,
    PHASE,
    SITE_BITS,
    STEP_SHIFT,
    Place,
    State,
    places_of,
)

_NOTE = "tritium_note_shared"


def i32(value: int) -> Value:
    return const("i32", value)


def i64(value: int) -> Value:
    return const("i64", value)


@contextmanager
def _noting(c: Context, op: Any) -> Generator[tuple[State, Value, Value]]:
    """Code of the first thread of the partition, where `pred` holds, with the program's part to
    itself: how it lies in memory, its address, and that of the table."""
    f, state = c.f, State(*op.state)
    first = f.icmp("eq", c.thread, c.i32(0))
    condition = first if op.pred is None else f.op("and", first, c.scalar(op.pred))
    number = f.cast("zext", program_number(c), "i64")
    table = f.emit("ptr", f"inttoptr {c.scalar(op.table)} to ptr")
    offset = f.op("add", f.op("mul", number, i64(state.bytes)), i64(HEAD_BYTES))
    part = f.gep("i8", table, offset)
    with f.when(condition, "note", "noted"):
        if state.partitions > 1:
            _lock(f, part)
        yield state, part, table
        if state.partitions > 1:
            f.line(f"store atomic i32 0, {part} release, align 4")


def _lock(f: Function, part: Value) -> None:
    again, done = f.new_label("lock"), f.new_label("locked")
    f.branch(again)
    f.label(again)
    pair = f.emit("{ i32, i1 }", f"cmpxchg {part}, i32 0, i32 1 acquire monotonic, align 4")
    f.branch_if(f.emit("i1", f"extractvalue {{ i32, i1 }} {pair.ref}, 1"), done, again)
    f.label(done)


def _raise(f: Function, word: Value, value: Value) -> None:
    """Let a word be no less than a value."""
    old = f.load("i32", word, 4)
    f.store(f.select(f.icmp("ugt", value, old), value, old), word, 4)


def _add(f: Function, word: Value, value: int) -> Value:
    new = f.op("add", f.load("i32", word, 4), i32(value))
    f.store(new, word, 4)
    return new


# Where memory is


def _address(c: Context, value: Any) -> Value:
    return c.f.cast("ptrtoint", c.memory(value).address, "i64")


def _index(c: Context, state: State, part: Value, value: Any, places: Sequence[Place]) -> Value:
    """The number (i32) of the first row, or of the barrier, of a piece of memory, which is in one
    of the places."""
    f, address = c.f, _address(c, value)
    found = i32(0)
    for place in places:
        start = f.load("i64", f.offset(part, state.places_at + 8 * place.number), 8)
        offset = f.op("sub", address, start)
        index = f.cast("trunc", f.op("udiv", offset, i64(place.unit)), "i32")
        index = f.op("add", index, i32(place.first))
        inside = f.icmp("ult", offset, i64(place.unit * place.rows))
        found = index if len(places) == 1 else f.select(inside, index, found)
    return found


# Accesses


@lowers(GPU, ChipAccessOp)
def note_access(c: Context, op: Any) -> None:
    f, memory = c.f, c.memory(op.memory)
    places = places_of(op.places)
    origin = memory.origin * memory_bytes(memory.type.element_type)
    parts = parts_of(memory.type, origin, places[0].unit)
    with _noting(c, op) as (state, part, table):
        row = _index(c, state, part, op.memory, places)
        actor, step = _step(c, op, state, part)
        step = f.op("shl", f.cast("zext", step, "i64"), i64(STEP_SHIFT))
        actor = f.op("shl", f.cast("zext", actor, "i64"), i64(SITE_BITS))
        word = f.op("or", f.op("or", step, actor), i64(op.site))
        name = f"{_NOTE}_{'load' if op.column >= 0 else 'store'}"
        if all(other.name != name for other in f.module.functions):
            _write_note(f, name, state, reads=op.column >= 0)
        met = i64(0)
        for first, count in _runs(parts):
            begin = f.op("add", row, i32(first))
            other = f.call("i64", name, part, begin, i32(count), i32(op.partition), word,
                           i32(op.column))  # fmt: skip
            met = f.select(f.icmp("ne", met, i64(0)), met, other)
        with f.when(f.icmp("ne", met, i64(0)), "race", "fine"):
            site = f.op("and", met, i64((1 << SITE_BITS) - 1))
            write_report(c, f.load("ptr", table, 8), op.site, site)


def _step(c: Context, op: Any, state: State, part: Value) -> tuple[Value, Value]:
    """The actor of an access and its step, as i32."""
    f, own = c.f, state.clock(op.partition) + 4 * op.partition
    if op.barrier is not None:
        barrier = _index(c, state, part, op.barrier, places_of(op.barriers))
        phase = f.load("i32", _of_barrier(f, state, part, barrier, PHASE), 4)
        actor = f.op("add", barrier, i32(state.partitions + state.queues))
        return actor, f.op("add", phase, i32(1))
    at = own if op.queue < 0 else state.counters + 4 * (op.queue - state.partitions)
    actor = op.partition if op.queue < 0 else op.queue
    return i32(actor), f.op("add", f.load("i32", f.offset(part, at), 4), i32(1))


def _runs(parts: Sequence[int]) -> list[tuple[int, int]]:
    """Numbers in order as (first, count) of those that follow each other."""
    groups = groupby(enumerate(parts), lambda pair: pair[1] - pair[0])
    runs = [[number for _, number in group] for _, group in groups]
    return [(run[0], len(run)) for run in runs]


def _write_note(caller: Function, name: str, state: State, *, reads: bool) -> None:
    """Write the function that notes an access in some rows; it gives the word of another access
    that is not over, or 0."""
    names = [("ptr", "part"), ("i32", "row"), ("i32", "count"), ("i32", "me"), ("i64", "word"),
             ("i32", "column")]  # fmt: skip
    arguments = [(type, hint, "") for type, hint in names]
    f = Function(caller.module, name, arguments, "i64", linkage="internal",
                 attributes="nounwind noinline")  # fmt: skip
    part, row, count, me, word, column = f.arguments
    clock = f.gep("i32", f.offset(part, state.clock(0)), f.op("mul", me, i32(state.actors)))

    def late(other: Value) -> Value:
        """True if an access is not over as far as this partition knows."""
        rest = f.op("lshr", other, i64(SITE_BITS))
        actor = f.op("and", f.cast("trunc", rest, "i32"), i32(0xFFFF))
        step = f.cast("trunc", f.op("lshr", other, i64(STEP_SHIFT)), "i32")
        known = f.load("i32", f.gep("i32", clock, actor), 4)
        apart = f.op("and", f.icmp("ne", other, i64(0)), f.icmp("ne", actor, me))
        return f.op("and", apart, f.icmp("ugt", step, known))

    end = f.op("add", row, count)
    with f.loop(row, end, i32(1), [i64(0)], at_least_once=True) as loop:
        at = f.gep("i8", f.offset(part, state.rows_at),
                   f.op("mul", loop.index, i32(state.row_bytes)))  # fmt: skip
        others = [f.load("i64", at, 8)]
        if reads:
            read = f.gep("i64", f.offset(at, 8), column)
            f.store(word, read, 8)
        else:
            for n in range(state.readers):
                others.append(f.load("i64", f.offset(at, 8 + 8 * n), 8))
                f.store(i64(0), f.offset(at, 8 + 8 * n), 8)
            f.store(word, at, 8)
        found = loop.carried[0]
        for other in others:
            found = f.select(late(other), other, found)
        loop.next = [found]
    f.ret(loop.results[0])


# Events


def _of_barrier(f: Function, state: State, part: Value, barrier: Value, what: int) -> Value:
    at = f.gep("i8", f.offset(part, state.barriers_at), f.op("mul", barrier, i32(BARRIER_BYTES)))
    return f.offset(at, what)


def _clocks_of(f: Function, state: State, part: Value, barrier: Value) -> tuple[Value, Value]:
    """The clocks of what arrives at a barrier in this phase, and of what has in those that have
    ended."""
    start = f.offset(part, state.clock(state.partitions))
    first = f.gep("i32", start, f.op("mul", barrier, i32(2 * state.actors)))
    return first, f.offset(first, 4 * state.actors)


def _join(f: Function, state: State, to: Value, other: Value) -> None:
    """Let a clock come after another."""
    with f.loop(i32(0), i32(state.actors), i32(1), at_least_once=True) as loop:
        _raise(f, f.gep("i32", to, loop.index), f.load("i32", f.gep("i32", other, loop.index), 4))


def _release(f: Function, state: State, part: Value, partition: int, to: Value) -> None:
    """Let a clock come after a partition, with which a step of that ends."""
    own = f.offset(part, state.clock(partition))
    _add(f, f.offset(own, 4 * partition), 1)
    _join(f, state, to, own)


@lowers(GPU, ChipEventOp)
def note_event(c: Context, op: Any) -> None:
    with _noting(c, op) as (state, part, _):
        _EVENTS[op.event](c, op, state, part)


def _place(c: Context, op: Any, state: State, part: Value) -> None:
    f, (place,) = c.f, places_of(op.places)
    f.store(_address(c, op.memory), f.offset(part, state.places_at + 8 * place.number), 8)
    if op.count:
        words = state.row_bytes // 8
        begin, end = words * place.first, words * (place.first + op.count)
        with f.loop(i32(begin), i32(end), i32(1), at_least_once=True) as loop:
            f.store(i64(0), f.gep("i64", f.offset(part, state.rows_at), loop.index), 8)


def _counter(f: Function, op: Any, state: State, part: Value) -> Value:
    return f.offset(part, state.counters + 4 * (op.queue - state.partitions))


def _start(c: Context, op: Any, state: State, part: Value) -> None:
    _add(c.f, _counter(c.f, op, state, part), 1)


def _wait_queue(c: Context, op: Any, state: State, part: Value) -> None:
    f, at = c.f, state.clock(op.partition) + 4 * op.queue
    begun = f.load("i32", _counter(f, op, state, part), 4)
    _raise(f, f.offset(part, at), _less(f, begun, i32(op.count)))


def _less(f: Function, number: Value, by: Value) -> Value:
    """The difference of unsigned numbers; 0 for one below."""
    return f.select(f.icmp("ult", number, by), i32(0), f.op("sub", number, by))


def _init(c: Context, op: Any, state: State, part: Value) -> None:
    """Phases are counted on, from an even number, as the first has parity 0."""
    f, barrier = c.f, _index(c, state, part, op.memory, places_of(op.places))
    phase, pending, count, expected = (
        _of_barrier(f, state, part, barrier, what) for what in (PHASE, PENDING, COUNT, EXPECTED)
    )
    next = f.op("add", f.load("i32", phase, 4), i32(1))
    f.store(f.op("and", next, i32(-2)), phase, 4)
    f.store(i32(op.count), pending, 4)
    f.store(i32(op.count), count, 4)
    f.store(i32(0), expected, 4)


def _arrive(c: Context, op: Any, state: State, part: Value) -> None:
    f, barrier = c.f, _index(c, state, part, op.memory, places_of(op.places))
    phase, pending, count, expected = (
        _of_barrier(f, state, part, barrier, what) for what in (PHASE, PENDING, COUNT, EXPECTED)
    )
    arriving, released = _clocks_of(f, state, part, barrier)
    if op.count:
        _release(f, state, part, op.partition, arriving)
    if op.queue >= 0:
        begun = f.load("i32", _counter(f, op, state, part), 4)
        _raise(f, f.offset(arriving, 4 * op.queue), begun)
    lacks, bytes = _add(f, pending, -op.count), _add(f, expected, op.bytes)
    complete = f.op("and", f.icmp("sle", lacks, i32(0)), f.icmp("eq", bytes, i32(0)))
    with f.when(complete, "ended", "goes_on"):
        _add(f, phase, 1)
        f.store(f.op("add", lacks, f.load("i32", count, 4)), pending, 4)
        _join(f, state, released, arriving)


def _wait(c: Context, op: Any, state: State, part: Value) -> None:
    """The phase that has ended is the last one of its parity. One more may have ended here, whose
    bytes are still to come."""
    f, barrier = c.f, _index(c, state, part, op.memory, places_of(op.places))
    ended = f.load("i32", _of_barrier(f, state, part, barrier, PHASE), 4)
    same = f.op("and", f.op("xor", ended, c.scalar(op.phase)), i32(1))
    own = f.offset(part, state.clock(op.partition))
    _join(f, state, own, _clocks_of(f, state, part, barrier)[1])
    first = f.offset(own, 4 * (state.partitions + state.queues))
    _raise(f, f.gep("i32", first, barrier), _less(f, ended, f.op("xor", same, i32(1))))


def _fork(c: Context, op: Any, state: State, part: Value) -> None:
    for partition in range(1, op.count + 1):
        _release(c.f, state, part, 0, c.f.offset(part, state.clock(partition)))


def _join_all(c: Context, op: Any, state: State, part: Value) -> None:
    for partition in range(1, op.count + 1):
        _release(c.f, state, part, partition, c.f.offset(part, state.clock(0)))


_EVENTS: dict[ChipEvent, Callable[[Context, Any, State, Value], None]] = {
    ChipEvent.PLACE: _place, ChipEvent.START: _start, ChipEvent.WAIT_QUEUE: _wait_queue,
    ChipEvent.INIT: _init, ChipEvent.ARRIVE: _arrive, ChipEvent.WAIT: _wait,
    ChipEvent.FORK: _fork, ChipEvent.JOIN: _join_all,
}  # fmt: skip
