"""The part of the pool's native code that runs programs and looks after workers (see
`pool_writer`)."""

from __future__ import annotations

import platform

from tritium.codegen.llvm.writer import Module, Value, const
from tritium.native.host import is_x86
from tritium.native.pool import (
    CONTEXT,
    ENTRY,
    FAULT,
    INTERRUPTED,
    JOB,
    OPEN,
    POOL,
    RANGE,
    WORKER,
    System,
)
from tritium.native.threads import writer_of
from tritium.native.writer import NULL, Code, i32, i64

HOT = (
    "tritium_run", "begin", "end_exclusive", "share_memory", "serial", "ticks", "grow", "take_slot",
    "finish", "parallel", "choose", "wake", "share_out", "place", "take", "drain_ranges", "enter",
    "await", "run_parts", "look",
)  # fmt: skip
"""The functions that a small launch passes through."""

POLL = 20_000
"""Thresholds between two times that signals are handled: some 100 ms."""
PART = 4_000
"""Thresholds (20 ms) below which a range is run as one."""

ASLEEP = WORKER.fields["asleep"].offset - WORKER.fields["wake"].offset
"""From a worker's word to the one that says whether it sleeps."""


def worker_at(f: Code, pool: Value, index: Value) -> Value:
    """The pool's worker of a number (i32)."""
    step = f.op("mul", f.cast("zext", index, "i64"), i64(WORKER.size))
    return f.gep("i8", f.read(pool, POOL, "workers"), step)


def _worker_of_job(f: Code, pool: Value, position: Value) -> Value:
    """The worker at a position (from 1) of the job."""
    index = f.sub(f.add(f.read(f.at(pool, POOL, "job"), JOB, "base"), position), i32(1))
    return worker_at(f, pool, f.op("urem", index, f.read(pool, POOL, "worker_count")))


class WorkWriter:
    """Writes the functions of threads at work."""

    def __init__(self, module: Module, system: System):
        self.module, self.system = module, system
        self.threads = writer_of(system.threads, module)

    def write(self) -> None:
        """Write every function."""
        self._ticks()
        self._park()
        self._unpark()
        self._poll()
        self._look()
        self._run_parts()
        self._grow()
        self._wake()
        self._place()
        self._take()
        self._drain_ranges()
        self._share_out()
        self._drain()
        self._enter()
        self._await()
        self._worker()
        self._start()

    def _code(self, name: str, arguments: str, result: str = "void") -> Code:
        pairs = [tuple(a.split()) for a in arguments.split(",") if a]
        exported, cold = name == "tritium_run", name not in HOT
        triples = [(type, arg) for type, arg in pairs]
        return Code(self.module, name, triples, result, exported=exported, cold=cold)

    # Time and sleeping

    def _ticks(self) -> None:
        """i64 ticks(): a clock; the unit is that of `System.threshold`."""
        f = self._code("ticks", "", "i64")
        if self.system.cycle_counter:
            f.ret(f.call("i64", "llvm.readcyclecounter"))
        else:
            f.ret(self.threads.nanoseconds(f))

    def _park(self) -> None:
        """park(word, expected): sleep while *word == expected; may return early.
        park_launcher(word, expected): the same, but signals end it soon."""
        for name in ("park", "park_launcher"):
            f = self._code(name, "ptr word,i32 expected")
            self.threads.park(f, *f.arguments, signals=name == "park_launcher")
            f.ret()

    def _unpark(self) -> None:
        """unpark(word): wake whoever sleeps on a word that has been changed."""
        f = self._code("unpark", "ptr word")
        self.threads.unpark(f, *f.arguments)
        f.ret()

    def _prefetch(self, f: Code, address: Value, size: int, write: bool = False) -> None:
        """Have the lines of `size` bytes on their way from another CPU's cache, all at once: what
        follows is atomic, and would wait for them one after the other."""
        for start in range(0, size, 64):
            line = f.offset(address, start)
            f.call("void", "llvm.prefetch.p0", line, i32(write), i32(3), i32(1))

    # Work

    def _grow(self) -> None:
        """i1 grow(ctx, capacity, need): make the scratch hold `need` bytes; returns whether it
        does."""
        f = self._code("grow", "ptr ctx,ptr capacity,i64 need", "i1")
        context, capacity, need = f.arguments
        with f.when(f.icmp("sle", need, f.get("i64", capacity))):
            f.ret(const("i1", 1))
        self.threads.free(f, f.read(context, CONTEXT, "scratch"))
        f.write(context, CONTEXT, "scratch", NULL)
        f.put(capacity, i64(0))
        size = f.op("and", f.add(need, i64(4095)), i64(-4096))
        scratch = self.threads.allocate(f, size)
        with f.when(f.icmp("eq", scratch, NULL)):
            f.ret(const("i1", 0))
        f.write(context, CONTEXT, "scratch", scratch)
        f.put(capacity, size)
        f.ret(const("i1", 1))

    def _wake(self) -> None:
        """wake(pool, position): wake the job's worker number `position` (from 1)."""
        f = self._code("wake", "ptr pool,i32 position")
        pool, position = f.arguments
        word = f.at(_worker_of_job(f, pool, position), WORKER, "wake")
        f.atomic("add", word, i32(1), "seq_cst")
        asleep = f.atomic_load("i32", f.offset(word, ASLEEP), "seq_cst")
        with f.when(f.icmp("ne", asleep, i32(0))):
            f.call("void", "unpark", word)
        f.ret()

    def _run_range(self, f: Code, job: Value, context: Value, begin: Value, end: Value) -> None:
        args = f.read(job, JOB, "args")
        f.invoke("void", f.read(job, JOB, "kernel"), args, context, begin, end)

    # Signals

    def _poll(self) -> None:
        """poll(job): let Python handle signals, for the launcher."""
        f = self._code("poll", "ptr job")
        (job,) = f.arguments
        entry = f.read(job, JOB, "entry")
        f.write(entry, ENTRY, "polled", f.call("i64", "ticks"))
        answer = f.invoke("i32", f.read(entry, ENTRY, "poll"), entry)
        with f.when(f.icmp("slt", answer, i32(0))):
            raised = f.at(f.read(job, JOB, "fault"), FAULT, "raised")
            f.atomic_store(raised, i32(INTERRUPTED), "monotonic")
        f.ret()

    def _look(self) -> None:
        """look(pool, job): between the launcher's programs, `poll` now and then."""
        f = self._code("look", "ptr pool,ptr job")
        pool, job = f.arguments
        spent = f.sub(f.call("i64", "ticks"), f.read(f.read(job, JOB, "entry"), ENTRY, "polled"))
        with f.when(f.icmp("sgt", spent, self._thresholds(f, pool, POLL))):
            f.call("void", "poll", job)
        f.ret()

    def _thresholds(self, f: Code, pool: Value, number: int) -> Value:
        return f.op("mul", f.read(pool, POOL, "threshold"), i64(number))

    def _run_parts(self) -> None:
        """run_parts(pool, ctx, job, position, begin, end): run programs; a range that is expected
        to last is run in parts, so that a fault or an interruption ends it soon."""
        arguments = "ptr pool,ptr ctx,ptr job,i32 position,i64 begin,i64 end"
        f = self._code("run_parts", arguments)
        pool, context, job, position, begin, end = f.arguments
        step = f.variable("i64", f.maximum(f.read(job, JOB, "most"), i64(1)))
        at, part = f.variable("i64", begin), self._thresholds(f, pool, PART)
        with f.forever() as loop:
            first = f.get("i64", at)
            following = f.add(first, f.minimum(f.get("i64", step), f.sub(end, first)))
            start = f.call("i64", "ticks")
            self._run_range(f, job, context, first, following)
            with f.when(f.icmp("eq", position, i32(0))):
                f.call("void", "look", pool, job)
            f.put(at, following)
            ended = f.icmp("sge", following, end)
            with f.when(f.op("or", ended, self._faulted(f, job))):
                loop.leave()
            short = f.icmp("slt", f.sub(f.call("i64", "ticks"), start), part)
            with f.when(short):
                f.put(step, f.op("shl", f.get("i64", step), i64(1)))
        f.ret()

    def _faulted(self, f: Code, job: Value) -> Value:
        raised = f.atomic_load("i32", f.at(f.read(job, JOB, "fault"), FAULT, "raised"), "monotonic")
        return f.icmp("ne", raised, i32(0))

    def _place(self) -> None:
        """ptr place(pool, position): the `RANGE` of a thread of the job: 0 is the launcher."""
        f = self._code("place", "ptr pool,i32 position", "ptr")
        pool, position = f.arguments
        with f.when(f.icmp("eq", position, i32(0))):
            f.ret(f.at(pool, POOL, "range"))
        f.ret(f.at(_worker_of_job(f, pool, position), WORKER, "range"))

    def _take(self) -> None:
        """i64 take(pool, ctx, place, position): run programs of a range, half of what is left at a
        time, for the thread of this position; returns how many."""
        f = self._code("take", "ptr pool,ptr ctx,ptr place,i32 position", "i64")
        pool, context, place, position = f.arguments
        job = f.at(pool, POOL, "job")
        least, limit = f.read(job, JOB, "least"), f.read(place, RANGE, "limit")
        done = f.variable("i64", i64(0))
        with f.forever() as loop:
            begin = f.atomic_load("i64", place, "monotonic")
            left = f.sub(limit, begin)
            empty = f.icmp("sle", left, i64(0))
            with f.when(f.op("or", empty, self._faulted(f, job))):
                loop.leave()
            half = f.op("lshr", left, i64(1))
            size = f.minimum(f.maximum(half, least), left)
            end = f.add(begin, size)
            with f.when(f.compare_exchange(place, begin, end)):
                f.call("void", "run_parts", pool, context, job, position, begin, end)
                f.put(done, f.add(f.get("i64", done), size))
        f.ret(f.get("i64", done))

    def _drain_ranges(self) -> None:
        """i64 drain_ranges(pool, ctx, position): run programs of one's own range, then of those
        that others have not got to, the lowest first; returns how many."""
        f = self._code("drain_ranges", "ptr pool,ptr ctx,i32 position", "i64")
        pool, context, position = f.arguments
        own = f.call("ptr", "place", pool, position)
        done = f.variable("i64", f.call("i64", "take", pool, context, own, position))
        other, last = f.variable("i32", i32(0)), f.read(f.at(pool, POOL, "job"), JOB, "count")
        with f.forever() as loop:
            number = f.get("i32", other)
            with f.when(f.icmp("sgt", number, last)):
                loop.leave()
            f.put(other, f.add(number, i32(1)))
            place = f.call("ptr", "place", pool, number)
            more = f.call("i64", "take", pool, context, place, position)
            f.put(done, f.add(f.get("i64", done), more))
        f.ret(f.get("i64", done))

    def _share_out(self) -> None:
        """share_out(pool, begin): give each thread of the job its range."""
        f = self._code("share_out", "ptr pool,i64 begin")
        pool, begin = f.arguments
        job = f.at(pool, POOL, "job")
        count = f.read(job, JOB, "count")
        shares = f.cast("sext", f.add(count, i32(1)), "i64")
        left = f.sub(f.read(job, JOB, "total"), begin)
        # The launcher, who begins at once, has more: what it does until the others have begun.
        ahead = f.minimum(f.read(job, JOB, "ahead"), left)
        left = f.sub(left, ahead)
        each, rest = f.op("udiv", left, shares), f.op("urem", left, shares)
        extra = f.variable("i64", ahead)
        at, number = f.variable("i64", begin), f.variable("i32", i32(0))
        with f.forever() as loop:
            position = f.get("i32", number)
            with f.when(f.icmp("sgt", position, count)):
                loop.leave()
            f.put(number, f.add(position, i32(1)))
            longer = f.icmp("slt", f.cast("sext", position, "i64"), rest)
            start = f.get("i64", at)
            end = f.add(start, f.add(each, f.select(longer, i64(1), i64(0))))
            end = f.add(end, f.get("i64", extra))
            f.put(extra, i64(0))
            f.put(at, end)
            place = f.call("ptr", "place", pool, position)
            f.write(place, RANGE, "limit", end)
            f.atomic_store(place, start, "monotonic")
        f.ret()

    def _drain(self) -> None:
        """i64 drain(pool, ctx, position): run programs until none is left; returns how many."""
        f = self._code("drain", "ptr pool,ptr ctx,i32 position", "i64")
        pool, context, position = f.arguments
        job, counter = f.at(pool, POOL, "job"), f.at(pool, POOL, "counter")
        with f.when(f.icmp("ne", f.read(job, JOB, "split"), i32(0))):
            f.ret(f.call("i64", "drain_ranges", pool, context, position))
        total, least = f.read(job, JOB, "total"), f.read(job, JOB, "least")
        share = f.op("mul", f.cast("zext", f.read(job, JOB, "threads"), "i64"), i64(4))
        done = f.variable("i64", i64(0))
        with f.forever() as loop:
            begin = f.atomic_load("i64", counter, "monotonic")
            left = f.sub(total, begin)
            empty = f.icmp("sle", left, i64(0))
            with f.when(f.op("or", empty, self._faulted(f, job))):
                loop.leave()
            size = f.minimum(f.maximum(f.op("sdiv", left, share), least), left)
            # One that may wait for another must not have that one in its own range.
            size = f.select(f.icmp("ne", f.read(job, JOB, "waits"), i32(0)), i64(1), size)
            end = f.add(begin, size)
            with f.when(f.compare_exchange(counter, begin, end)):
                f.call("void", "run_parts", pool, context, job, position, begin, end)
                f.put(done, f.add(f.get("i64", done), size))
        f.ret(f.get("i64", done))

    def _fill_context(self, f: Code, context: Value, job: Value) -> None:
        for name in ("nx", "ny", "nz", "fault"):
            f.write(context, CONTEXT, name, f.read(job, JOB, name))
        f.write(context, CONTEXT, "exclusive", i32(0))

    # Workers

    def _enter(self) -> None:
        """enter(worker): take part in the job, once inside the door."""
        f = self._code("enter", "ptr worker")
        (worker,) = f.arguments
        pool, context = f.read(worker, WORKER, "pool"), f.at(worker, WORKER, "context")
        job = f.at(pool, POOL, "job")
        self._prefetch(f, f.read(job, JOB, "args"), 128)
        self._prefetch(f, f.read(job, JOB, "fault"), 4)
        count, n = f.read(job, JOB, "count"), f.read(pool, POOL, "worker_count")
        apart = f.sub(f.add(f.read(worker, WORKER, "index"), n), f.read(job, JOB, "base"))
        position = f.add(f.op("urem", apart, n), i32(1))
        with f.when(f.icmp("sgt", position, count)):
            f.ret()  # woken for an earlier job, not needed in this one
        for child in (1, 2):
            other = f.add(f.op("mul", position, i32(2)), i32(child))
            drawn = f.atomic_load("i64", f.at(pool, POOL, "counter"), "monotonic")
            more = f.icmp("slt", drawn, f.read(job, JOB, "total"))
            with f.when(f.op("and", f.icmp("sle", other, count), more)):
                f.call("void", "wake", pool, other)
        need = f.read(job, JOB, "scratch_bytes")
        # A worker that gets no scratch takes no programs; the launcher runs them all.
        with f.when(f.call("i1", "grow", context, f.at(worker, WORKER, "capacity"), need)):
            self._fill_context(f, context, job)
            f.call("i64", "drain", pool, context, position)
        f.ret()

    def _worker(self) -> None:
        """ptr work(worker): a thread's life."""
        f = self._code("work", "ptr worker", "ptr")
        (worker,) = f.arguments
        pool, word = f.read(worker, WORKER, "pool"), f.at(worker, WORKER, "wake")
        door = f.at(pool, POOL, "door")
        self.threads.pin(f, f.read(worker, WORKER, "cpu"))
        last = f.variable("i32", i32(0))
        with f.forever() as life:
            seen = f.atomic_load("i32", word)
            with f.when(f.icmp("eq", seen, f.get("i32", last))):
                f.call("void", "await", pool, word, seen)
                life.restart()
            f.put(last, seen)
            self._prefetch(f, door, 4, write=True)
            self._prefetch(f, f.at(pool, POOL, "job"), JOB.size)
            self._prefetch(f, f.at(worker, WORKER, "range"), RANGE.size, write=True)
            with f.forever() as knock:
                state = f.atomic_load("i32", door, "monotonic")
                with f.when(f.icmp("eq", f.op("and", state, i32(OPEN)), i32(0))):
                    life.restart()
                with f.when(f.compare_exchange(door, state, f.add(state, i32(1)))):
                    knock.leave()
            f.call("void", "enter", worker)
            before = f.atomic("sub", door, i32(1), "acq_rel")
            with f.when(f.icmp("eq", before, i32(1))):  # shut, and this was the last one inside
                f.call("void", "unpark", door)
        f.unreachable()

    def _await(self) -> None:
        """await(pool, word, seen): wait for a worker's word to change: awake for a while, because
        grids follow each other, then asleep."""
        f = self._code("await", "ptr pool,ptr word,i32 seen")
        pool, word, seen = f.arguments
        limit = f.read(pool, POOL, "spin")
        with f.when(f.icmp("sgt", limit, i64(0))):
            start = f.call("i64", "ticks")
            with f.forever() as loop:
                with f.when(f.icmp("ne", f.atomic_load("i32", word), seen)):
                    f.ret()
                spent = f.sub(f.call("i64", "ticks"), start)
                with f.when(f.icmp("sgt", spent, limit)):
                    loop.leave()
                self._pause(f)
        # Whoever changes the word looks here afterwards: one of the two sees the other.
        asleep = f.offset(word, ASLEEP)
        f.atomic_store(asleep, i32(1), "seq_cst")
        with f.when(f.icmp("eq", f.atomic_load("i32", word, "seq_cst"), seen)):
            f.call("void", "park", word, seen)
        f.atomic_store(asleep, i32(0), "seq_cst")
        f.ret()

    def _start(self) -> None:
        """start(pool): create the workers."""
        f = self._code("start", "ptr pool")
        (pool,) = f.arguments
        f.write(pool, POOL, "started", i32(1))
        count = f.read(pool, POOL, "worker_count")
        self.threads.prepare_sleep(f, f.at(pool, POOL, "door"))
        index = f.variable("i32", i32(0))
        with self.threads.creating(f), f.forever() as loop:
            at = f.get("i32", index)
            with f.when(f.icmp("eq", at, count)):
                loop.leave()
            worker = worker_at(f, pool, at)
            self.threads.prepare_sleep(f, f.at(worker, WORKER, "wake"))
            created = self.threads.create(f, "work", worker)
            with f.when(f.op("xor", created, const("i1", 1))):
                f.write(pool, POOL, "worker_count", at)  # as many as the system gives
                loop.leave()
            f.put(index, f.add(at, i32(1)))
        f.ret()

    def _pause(self, f: Code) -> None:
        if is_x86():
            f.call("void", "llvm.x86.sse2.pause")
        elif platform.machine().lower() in ("aarch64", "arm64"):
            f.call("void", "llvm.aarch64.hint", i32(1))
