"""The native code of the thread pool, written as LLVM IR.

A launch must cost nothing when the grid is small, and must not wait for a thread that the
operating system delays (benchmarks/launch_overhead.py measures both). So:

1. The launching thread takes part. It knows from the kernel's last launches what a program costs.
   A grid that should take less than `threshold` ticks is begun serially, in steps that grow; only
   when it turns out to last longer are other threads woken.
2. Otherwise it publishes the job, wakes workers (a binary tree: each wakes two more) and draws
   programs from an atomic counter like the others, in ascending chunks that get smaller towards
   the end. Workers are pinned, one to a CPU; the one on the launcher's own CPU is left asleep.
   For a grid that is expected to be short each thread has a range of its own, so that it finds
   its data in its cache again, and takes from the others' when its own is empty, lowest first.
   A worker that has nothing to do stays awake for some 50 us: grids follow each other.
3. When the counter is drained it shuts the door: a worker that comes late finds it shut and goes
   back to sleep. Only those inside are waited for.

Progress: a thread that has started a program runs it to its end before it takes another one, and
programs are handed out in ascending order (those of each range; the lowest range is the launcher's,
which is always there, and then takes from the lowest that is left). So a program may wait for one
with a lower number (or for whichever holds a lock) with any number of programs and threads: what it
waits for is running, done, or next in line. A program that waits for one with a higher number calls
`stall` now and then (the compiler writes that into loops that may wait), which starts threads for
programs that nobody has begun, up to `MAX_TOGETHER` of them. So programs of a grid may all wait for
each other.

Signals: Python's handlers run in the launching thread, between its programs, some 100 ms after each
other (`poll`). When one raises, all threads stop at their next program.

Exclusive launch: a launch that finds no other one running may run its programs on its own thread
without locked instructions (`backends/cpu/tiles/version.py`). Between any two chunks of
programs it checks whether another launch waits or the process has forked; then, and before it wakes
workers, the launch ends being exclusive. A kernel that may wait for another one never is.

Several Python threads may launch at once: one has the pool, the others run their grids serially,
chunk by chunk, and get the pool for the rest as soon as it is free. After a fork the child starts
workers of its own. Nothing is joined at exit: workers sleep in the kernel and hold no lock.

`threads` writes what differs between systems: Linux sleeps on futexes and pins workers, other POSIX
systems sleep on condition variables, Windows on addresses.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tritium.codegen.llvm.writer import Value, const
from tritium.native.pool import (
    CONTEXT,
    ENTRY,
    ERROR_SET,
    EXCLUSIVE,
    FAULT,
    HELPER,
    INTERRUPTED,
    JOB,
    MAX_TOGETHER,
    NO_MEMORY,
    OK,
    OPEN,
    POLLS,
    POOL,
    SLOT,
    SLOTS,
    WORKER,
)
from tritium.native.pool_work import PART, WorkWriter, worker_at
from tritium.native.writer import NULL, Code, i32, i64

DELAY = 1 / 48
"""The time until a worker that is awake has begun, in thresholds: about 0.1 us."""

SHORT = 16
"""A grid expected to take less than this many thresholds has its programs shared out at once, the
same ones to the same thread each time, as its data are likely to be in that thread's own cache."""

WAIT = 64
"""Thresholds (some 300 us) above which a program is not run exclusively: other launches would wait
for its end."""

FORGET = 63 / 64
"""The time that a program takes when the pool runs it is thought less by this factor with each grid
that was run without it, so that it is tried again at times."""


class PoolWriter(WorkWriter):
    """Writes the pool's functions into a module. `tritium_run` is what a launcher calls."""

    def write(self) -> None:
        """Write every function."""
        super().write()
        self._end_exclusive()
        self._share_memory()
        self._count_threads()
        self._begin()
        self._choose()
        self._parallel()
        self._helper()
        self._stall()
        self._finish_waiting()
        self._serial()
        self._finish()
        self._take_slot()
        self._run()

    # Exclusive launches

    def _end_exclusive(self) -> None:
        """end_exclusive(pool, ctx): others may run programs from here on."""
        f = self._code("end_exclusive", "ptr pool,ptr ctx")
        pool, context = f.arguments
        with f.when(f.icmp("ne", f.read(context, CONTEXT, "exclusive"), i32(0))):
            f.write(context, CONTEXT, "exclusive", i32(0))
            f.atomic("and", f.at(pool, POOL, "launches"), i32(~EXCLUSIVE), "release")
        f.ret()

    def _share_memory(self) -> None:
        """share_memory(pool, ctx): between two programs, let those begin who wait."""
        f = self._code("share_memory", "ptr pool,ptr ctx")
        pool, context = f.arguments
        with f.when(f.icmp("ne", f.read(context, CONTEXT, "exclusive"), i32(0))):
            launches = f.atomic_load("i32", f.at(pool, POOL, "launches"), "monotonic")
            forked = f.atomic_load("i32", f.at(pool, POOL, "forked"), "monotonic")
            waited = f.icmp("ne", launches, i32(EXCLUSIVE | 1))
            with f.when(f.op("or", waited, f.icmp("ne", forked, i32(0)))):
                f.call("void", "end_exclusive", pool, context)
        f.ret()

    def _count_threads(self) -> None:
        """i32 count_threads(job, entry): set the job's `threads`, the first time, which releases
        the GIL; negative if an error is set."""
        f = self._code("count_threads", "ptr job,ptr request", "i32")
        job, entry = f.arguments
        with f.when(f.icmp("eq", f.read(job, JOB, "threads"), i32(0))):
            threads = f.invoke("i32", f.read(entry, ENTRY, "function"), entry)
            f.write(job, JOB, "threads", threads)
            f.write(entry, ENTRY, "polled", f.call("i64", "ticks"))
        f.ret(f.read(job, JOB, "threads"))

    def _begin(self) -> None:
        """i1 begin(pool, ctx, job, cost, entry): count this launch; make it exclusive if it
        wants to be and no other runs; wait until no other is exclusive. False: error is set."""
        f = self._code("begin", "ptr pool,ptr ctx,ptr job,double cost,ptr request", "i1")
        pool, context, job, cost, entry = f.arguments
        launches = f.at(pool, POOL, "launches")
        before = f.atomic("add", launches, i32(1), "acq_rel")
        exclusive = f.op("and", before, i32(EXCLUSIVE))
        waits = f.op("or", exclusive, f.read(job, JOB, "waits"))
        with f.when(f.icmp("ne", waits, i32(0))):  # for whom, may need the GIL
            threads = f.call("i32", "count_threads", job, entry)
            with f.when(f.icmp("slt", threads, i32(0))):
                f.atomic("sub", launches, i32(1), "acq_rel")
                f.ret(const("i1", 0))
        with f.when(f.icmp("ne", exclusive, i32(0))):
            self._wait_for(f, launches)
            f.ret(const("i1", 1))
        forked = f.atomic_load("i32", f.at(pool, POOL, "forked"), "monotonic")
        wanted = f.icmp("ne", f.read(job, JOB, "exclusive"), i32(0))
        threshold = f.cast("sitofp", f.read(pool, POOL, "threshold"), "double")
        short = f.fcmp("olt", cost, f.op("fmul", threshold, const("double", WAIT)))
        empty = f.icmp("eq", f.op("or", before, forked), i32(0))
        with f.when(f.op("and", f.op("and", wanted, short), empty)):
            won = f.compare_exchange(launches, i32(1), i32(EXCLUSIVE | 1))
            f.write(context, CONTEXT, "exclusive", f.cast("zext", won, "i32"))
        f.ret(const("i1", 1))

    def _wait_for(self, f: Code, launches: Value) -> None:
        """Wait until no launch is exclusive."""
        spins = f.variable("i32", i32(0))
        with f.forever() as wait:
            now = f.atomic_load("i32", launches)
            with f.when(f.icmp("eq", f.op("and", now, i32(EXCLUSIVE)), i32(0))):
                wait.leave()
            spin = f.add(f.get("i32", spins), i32(1))
            f.put(spins, spin)
            self._pause(f)
            with f.when(f.icmp("eq", f.op("and", spin, i32(255)), i32(0))):
                self.threads.yield_processor(f)

    # Launching

    def _choose(self) -> None:
        """i32 choose(pool, job, left): who helps with `left` programs; sets count and base."""
        f = self._code("choose", "ptr pool,ptr job,i64 left", "i32")
        pool, job, left = f.arguments
        n = f.read(pool, POOL, "worker_count")
        wanted = f.sub(f.read(job, JOB, "threads"), i32(1))
        count = f.variable("i32", f.minimum(wanted, n))
        base = f.variable("i32", i32(0))
        here = self.threads.processor(f)
        if here is not None:
            index = f.variable("i32", i32(0))
            with f.forever() as search:
                at = f.get("i32", index)
                with f.when(f.icmp("sge", at, n)):
                    search.leave()
                worker = worker_at(f, pool, at)
                with f.when(f.icmp("eq", f.read(worker, WORKER, "cpu"), here)):
                    f.put(base, f.add(at, i32(1)))  # the last to be woken is this CPU's own
                    search.leave()
                f.put(index, f.add(at, i32(1)))
        most = f.cast("trunc", f.minimum(f.sub(left, i64(1)), i64(1 << 20)), "i32")
        f.put(count, f.minimum(f.get("i32", count), most))
        f.write(job, JOB, "count", f.get("i32", count))
        f.write(job, JOB, "base", f.get("i32", base))
        f.ret(f.get("i32", count))

    def _parallel(self) -> None:
        """i64 parallel(pool, ctx, job, begin): run the rest with the pool, which is locked."""
        f = self._code("parallel", "ptr pool,ptr ctx,ptr job,i64 begin", "i64")
        pool, context, job, begin = f.arguments
        with f.when(f.icmp("eq", f.read(pool, POOL, "started"), i32(0))):
            f.call("void", "start", pool)
        shared, door = f.at(pool, POOL, "job"), f.at(pool, POOL, "door")
        self._prefetch(f, door, 4, write=True)
        self._prefetch(f, shared, JOB.size, write=True)
        left = f.sub(f.read(job, JOB, "total"), begin)
        count = f.call("i32", "choose", pool, job, left)
        size = i64(JOB.size)
        f.call("void", "llvm.memcpy.p0.p0.i64", shared, job, size, const("i1", 0))
        f.atomic_store(f.at(pool, POOL, "counter"), begin, "monotonic")
        with f.when(f.icmp("ne", f.read(job, JOB, "split"), i32(0))):
            f.call("void", "share_out", pool, begin)
        f.atomic_store(door, i32(OPEN), "release")
        for position in (1, 2):
            with f.when(f.icmp("sge", count, i32(position))):
                f.call("void", "wake", pool, i32(position))
        start = f.call("i64", "ticks")
        mine = f.call("i64", "drain", pool, context, i32(0))
        f.write(job, JOB, "ticks", f.sub(f.call("i64", "ticks"), start))
        f.atomic("and", door, i32(~OPEN), "acq_rel")
        spins = f.variable("i32", i32(0))
        with f.forever() as wait:
            inside = f.atomic_load("i32", door)
            with f.when(f.icmp("eq", inside, i32(0))):
                wait.leave()
            spin = f.get("i32", spins)
            with f.when(f.icmp("sge", spin, i32(2000))):
                f.call("void", "park_launcher", door, inside)
                f.call("void", "poll", job)
            f.put(spins, f.add(spin, i32(1)))
            self._pause(f)
        f.ret(mine)

    def _serial(self) -> None:
        """i64 serial(pool, ctx, job, cost): run programs until all are done or `threshold` ticks
        have passed; returns the number done. `cost` (double, ticks a program) is updated."""
        f = self._code("serial", "ptr pool,ptr ctx,ptr job,ptr cost", "i64")
        pool, context, job, cost = f.arguments
        total, threshold = f.read(job, JOB, "total"), f.read(pool, POOL, "threshold")
        limit = f.cast("sitofp", threshold, "double")
        with f.when(f.icmp("eq", total, i64(1))):
            start = f.call("i64", "ticks")
            self._run_range(f, job, context, i64(0), i64(1))
            spent = f.maximum(f.sub(f.call("i64", "ticks"), start), i64(1))
            f.put(cost, f.cast("sitofp", spent, "double"))
            f.ret(i64(1))
        # A first step of what should take a sixteenth of the threshold, at least one program.
        first = f.op("fdiv", f.op("fmul", limit, const("double", 1 / 16)), f.get("double", cost))
        first = self._whole(f, first, total)
        done, step = f.variable("i64", i64(0)), f.variable("i64", first)
        start = f.call("i64", "ticks")
        with f.forever() as loop:
            begin = f.get("i64", done)
            end = f.add(begin, f.minimum(f.get("i64", step), f.sub(total, begin)))
            self._run_range(f, job, context, begin, end)
            f.put(done, end)
            f.call("void", "share_memory", pool, context)
            spent = f.sub(f.call("i64", "ticks"), start)
            elapsed = f.cast("sitofp", f.maximum(spent, i64(1)), "double")
            each = f.op("fdiv", elapsed, f.cast("sitofp", end, "double"))
            f.put(cost, each)
            finished = f.op("or", f.icmp("eq", end, total), f.icmp("sge", spent, threshold))
            with f.when(f.op("or", finished, self._faulted(f, job))):
                loop.leave()
            more = f.op("fdiv", f.op("fsub", limit, elapsed), each)
            f.put(step, f.minimum(self._whole(f, more, total), f.op("mul", end, i64(3))))
        f.ret(f.get("i64", done))

    def _whole(self, f: Code, number: Value, most: Value) -> Value:
        """A double as an integer from 1 to `most`."""
        number = f.call("i64", "llvm.fptosi.sat.i64.f64", number)
        return f.minimum(f.maximum(number, i64(1)), most)

    def _run(self) -> None:
        """i32 tritium_run(pool, job, cost, entry): run a grid; returns `OK`, `NO_MEMORY`, ....

        `entry` points to an `ENTRY`, whose `function` is called, once, for grids that last.
        """
        f = self._code("tritium_run", "ptr pool,ptr job,ptr cost,ptr request", "i32")
        pool, job, cost, entry = f.arguments
        slot = f.call("ptr", "take_slot", pool)
        context = f.at(slot, SLOT, "context")
        need = f.read(job, JOB, "scratch_bytes")
        enough = f.call("i1", "grow", context, f.at(slot, SLOT, "capacity"), need)
        with f.when(f.op("xor", enough, const("i1", 1))):
            f.atomic_store(f.at(slot, SLOT, "busy"), i32(0))
            f.ret(i32(NO_MEMORY))
        self._fill_context(f, context, job)
        counted = f.call("i1", "begin", pool, context, job, f.get("double", cost), entry)
        with f.when(f.op("xor", counted, const("i1", 1))):
            f.atomic_store(f.at(slot, SLOT, "busy"), i32(0))
            f.ret(i32(ERROR_SET))
        total = f.read(job, JOB, "total")
        limit = f.cast("sitofp", f.read(pool, POOL, "threshold"), "double")
        expected = f.op("fmul", f.get("double", cost), f.cast("sitofp", total, "double"))
        done = f.variable("i64", i64(0))
        # Programs that may wait for each other are handed out one by one.
        quick = f.icmp("ne", f.read(job, JOB, "waits"), i32(POLLS))
        with f.when(f.op("and", quick, f.fcmp("olt", expected, limit))):
            f.put(done, f.call("i64", "serial", pool, context, job, cost))
        status = f.variable("i32", i32(OK))
        unfinished = f.icmp("slt", f.get("i64", done), total)
        calm = f.op("xor", self._faulted(f, job), const("i1", 1))
        with f.when(f.op("and", unfinished, calm)):
            threads = f.call("i32", "count_threads", job, entry)
            known = f.icmp("sge", threads, i32(0))
            f.put(status, f.select(known, i32(OK), i32(ERROR_SET)))
            with f.when(known):
                f.write(job, JOB, "entry", entry)
                f.call("void", "finish", pool, context, job, cost, f.get("i64", done))
                fault = f.read(job, JOB, "fault")
                raised = f.atomic_load("i32", f.at(fault, FAULT, "raised"))
                stopped = f.icmp("eq", raised, i32(INTERRUPTED))
                f.put(status, f.select(stopped, i32(ERROR_SET), i32(OK)))
        f.call("void", "end_exclusive", pool, context)
        f.atomic("sub", f.at(pool, POOL, "launches"), i32(1), "acq_rel")
        f.atomic_store(f.at(slot, SLOT, "busy"), i32(0))
        f.ret(f.get("i32", status))

    def _take_slot(self) -> None:
        """ptr take_slot(pool): a free context; with too many launching threads, wait for one."""
        f = self._code("take_slot", "ptr pool", "ptr")
        (pool,) = f.arguments
        index = f.variable("i64", i64(0))
        with f.forever() as search:
            step = f.op("mul", f.get("i64", index), i64(SLOT.size))
            slot = f.gep("i8", f.read(pool, POOL, "slots"), step)
            busy = f.at(slot, SLOT, "busy")
            with f.when(f.compare_exchange(busy, i32(0), i32(1))):
                search.leave()
            following = f.add(f.get("i64", index), i64(1))
            f.put(index, f.op("urem", following, i64(SLOTS)))
        step = f.op("mul", f.get("i64", index), i64(SLOT.size))
        f.ret(f.gep("i8", f.read(pool, POOL, "slots"), step))

    def _finish(self) -> None:
        """finish(pool, ctx, job, cost, done): run what the serial phase has left: chunks of our
        own until the pool is ours. An exclusive launch does that only if it is faster."""
        f = self._code("finish", "ptr pool,ptr ctx,ptr job,ptr cost,i64 first")
        pool, context, job, cost, first = f.arguments
        shared = f.offset(cost, 8)
        done, mine = f.variable("i64", first), f.variable("i64", i64(0))
        ticks, joined = f.variable("i64", i64(0)), f.variable("i1", const("i1", 0))
        total, lock = f.read(job, JOB, "total"), f.at(pool, POOL, "lock")
        with f.when(f.icmp("eq", f.read(job, JOB, "waits"), i32(POLLS))):
            f.call("void", "finish_waiting", pool, context, job, cost, first)
            f.ret()
        with f.forever() as loop:
            begin = f.get("i64", done)
            left = f.sub(total, begin)
            ended = f.op("or", f.icmp("sle", left, i64(0)), self._faulted(f, job))
            with f.when(ended):
                loop.leave()
            self._divide(f, pool, job, f.get("double", cost), left)
            serial = f.icmp("sle", f.read(job, JOB, "threads"), i32(1))
            serial = f.op("or", serial, f.icmp("eq", left, i64(1)))
            serial = f.op("or", serial, f.icmp("sle", f.read(pool, POOL, "worker_count"), i32(0)))
            f.call("void", "share_memory", pool, context)
            exclusive = f.icmp("ne", f.read(context, CONTEXT, "exclusive"), i32(0))
            slower = f.fcmp("ogt", f.get("double", shared), f.get("double", cost))
            slower = f.op("or", slower, f.icmp("eq", f.get("i64", mine), i64(0)))
            others = f.op("xor", f.op("or", serial, f.op("and", exclusive, slower)), const("i1", 1))
            with f.when(others), f.when(f.compare_exchange(lock, i32(0), i32(1))):
                f.call("void", "end_exclusive", pool, context)
                start = f.call("i64", "ticks")
                ran = f.call("i64", "parallel", pool, context, job, begin)
                f.put(shared, self._each(f, f.sub(f.call("i64", "ticks"), start), left))
                f.atomic_store(lock, i32(0))
                f.put(mine, f.add(f.get("i64", mine), ran))
                f.put(ticks, f.add(f.get("i64", ticks), f.read(job, JOB, "ticks")))
                f.put(joined, const("i1", 1))
                loop.leave()
            # No pool for us (now): some programs of our own, then ask again.
            whole = f.op("and", serial, f.op("xor", exclusive, const("i1", 1)))
            size = f.select(whole, left, f.read(job, JOB, "least"))
            size = f.minimum(size, f.read(job, JOB, "most"))
            start, end = f.call("i64", "ticks"), f.add(begin, size)
            self._run_range(f, job, context, begin, end)
            f.call("void", "look", pool, job)
            f.put(ticks, f.add(f.get("i64", ticks), f.sub(f.call("i64", "ticks"), start)))
            f.put(done, end)
            f.put(mine, f.add(f.get("i64", mine), size))
            f.put(cost, self._each(f, f.get("i64", ticks), f.get("i64", mine)))
        own = f.get("i64", mine)
        with f.when(f.icmp("sgt", own, i64(0))):
            f.put(cost, self._each(f, f.get("i64", ticks), own))
        with f.when(f.fcmp("oeq", f.get("double", cost), const("double", math.inf))):
            # The workers were so quick that we got no program: a small grid is to begin serially.
            limit = f.cast("sitofp", f.read(pool, POOL, "threshold"), "double")
            f.put(cost, f.op("fmul", limit, const("double", 1 / 16)))
        with f.when(f.op("xor", f.get("i1", joined), const("i1", 1))):
            f.put(shared, f.op("fmul", f.get("double", shared), const("double", FORGET)))
        f.ret()

    # Programs that wait for later ones

    def _finish_waiting(self) -> None:
        """finish_waiting(pool, ctx, job, cost, first): the same for programs that may wait for
        others: each is drawn from a counter, so that helpers can begin those that are waited for.
        """
        f = self._code("finish_waiting", "ptr pool,ptr ctx,ptr job,ptr cost,i64 first")
        pool, context, job, cost, first = f.arguments
        fault, lock = f.read(job, JOB, "fault"), f.at(pool, POOL, "lock")
        total, started = f.read(job, JOB, "total"), f.call("i64", "ticks")
        left = f.sub(total, first)
        self._divide(f, pool, job, f.get("double", cost), left)
        f.write(job, JOB, "split", i32(0))
        for name, value in (("pool", pool), ("job", job)):
            f.write(fault, FAULT, name, value)
        f.write(fault, FAULT, "thread", self.threads.current(f))
        own, counter = f.at(fault, FAULT, "own"), f.at(fault, FAULT, "counter")
        f.put(own, first)
        fewest = f.minimum(f.read(job, JOB, "threads"), f.read(pool, POOL, "worker_count"))
        several = f.icmp("sgt", left, i64(1))
        shared = f.op("and", several, f.icmp("sge", fewest, i32(1)))
        mine, joined = f.variable("i64", i64(0)), f.variable("i1", const("i1", 0))
        with f.when(shared), f.when(f.compare_exchange(lock, i32(0), i32(1))):
            f.put(joined, const("i1", 1))
            # Before a program begins; the counter is set by `parallel`.
            f.put(f.at(pool, POOL, "counter"), first)
            f.atomic_store(counter, f.at(pool, POOL, "counter"))
            f.put(mine, f.call("i64", "parallel", pool, context, job, first))
            f.atomic_store(counter, NULL)
            self._await_helpers(f, fault)
            f.atomic_store(lock, i32(0))
        with f.when(f.op("xor", f.get("i1", joined), const("i1", 1))):
            f.atomic_store(counter, own)
            f.put(mine, self._draw(f, own, job, context, lambda: f.call("void", "look", pool, job)))
            f.atomic_store(counter, NULL)
            self._await_helpers(f, fault)
        spent = f.sub(f.call("i64", "ticks"), started)
        f.put(cost, self._each(f, spent, f.maximum(f.get("i64", mine), i64(1))))
        f.ret()

    def _draw(
        self, f: Code, counter: Value, job: Value, context: Value, between: Callable[[], object]
    ) -> Value:
        """Run programs, one by one, until none is left; how many."""
        done = f.variable("i64", i64(0))
        with f.forever() as loop:
            begin = f.atomic_load("i64", counter, "monotonic")
            empty = f.icmp("sge", begin, f.read(job, JOB, "total"))
            with f.when(f.op("or", empty, self._faulted(f, job))):
                loop.leave()
            with f.when(f.compare_exchange(counter, begin, f.add(begin, i64(1)))):
                self._run_range(f, job, context, begin, f.add(begin, i64(1)))
                f.put(done, f.add(f.get("i64", done), i64(1)))
                between()
        return f.get("i64", done)

    def _await_helpers(self, f: Code, fault: Value) -> None:
        """Wait until no helper of a launch is left."""
        with f.forever() as wait:
            helpers = f.atomic_load("i32", f.at(fault, FAULT, "helpers"))
            starting = f.atomic_load("i32", f.at(fault, FAULT, "starting"))
            with f.when(f.icmp("eq", f.op("or", helpers, starting), i32(0))):
                wait.leave()
            self.threads.nap(f)

    def _helper(self) -> None:
        """ptr help(helper): a helper's life: programs of its launch until none is left."""
        f = self._code("help", "ptr record", "ptr")
        (helper,) = f.arguments
        context, fault = f.at(helper, HELPER, "context"), f.read(helper, HELPER, "fault")
        job = f.read(fault, FAULT, "job")
        need = f.read(job, JOB, "scratch_bytes")
        with f.when(f.call("i1", "grow", context, f.at(helper, HELPER, "capacity"), need)):
            self._fill_context(f, context, job)
            counter = f.atomic_load("ptr", f.at(fault, FAULT, "counter"))
            with f.when(f.icmp("ne", counter, NULL)):
                self._draw(f, counter, job, context, lambda: None)
        self.threads.free(f, f.read(context, CONTEXT, "scratch"))
        f.call("void", "free", helper)
        f.atomic("sub", f.at(fault, FAULT, "helpers"), i32(1), "acq_rel")
        f.ret(NULL)

    def _stall(self) -> None:
        """stall(fault): a program may be waiting for another one. Let others run; if there are
        programs that nobody has begun, start as many helpers as there are, and one."""
        f = self._code("stall", "ptr fault")
        (fault,) = f.arguments
        pool = f.read(fault, FAULT, "pool")
        mine = f.icmp("eq", f.read(fault, FAULT, "thread"), self.threads.current(f))
        with f.when(mine):  # the launcher's: Python can handle signals in it
            f.call("void", "look", pool, f.read(fault, FAULT, "job"))
        self.threads.yield_processor(f)
        starting = f.at(fault, FAULT, "starting")
        with f.when(f.op("xor", f.compare_exchange(starting, i32(0), i32(1)), const("i1", 1))):
            f.ret()
        counter = f.atomic_load("ptr", f.at(fault, FAULT, "counter"))
        with f.when(f.icmp("ne", counter, NULL)):
            self._start_helpers(f, fault, counter)
        f.atomic_store(starting, i32(0))
        f.ret()

    def _start_helpers(self, f: Code, fault: Value, counter: Value) -> None:
        total = f.read(f.read(fault, FAULT, "job"), JOB, "total")
        left = f.sub(total, f.atomic_load("i64", counter, "monotonic"))
        helpers = f.at(fault, FAULT, "helpers")
        alive = f.cast("sext", f.atomic_load("i32", helpers), "i64")
        wanted = f.minimum(left, f.add(alive, i64(1)))
        wanted = f.minimum(wanted, f.sub(i64(MAX_TOGETHER), alive))
        number = f.variable("i64", i64(0))
        with self.threads.creating(f), f.forever() as loop:
            with f.when(f.icmp("sge", f.get("i64", number), wanted)):
                loop.leave()
            f.put(number, f.add(f.get("i64", number), i64(1)))
            helper = f.call("ptr", "calloc", i64(1), i64(HELPER.size))
            with f.when(f.icmp("eq", helper, NULL)):
                loop.leave()
            f.write(helper, HELPER, "fault", fault)
            f.atomic("add", helpers, i32(1), "acq_rel")
            created = self.threads.create(f, "help", helper)
            with f.when(f.op("xor", created, const("i1", 1))):  # as many as the system gives
                f.atomic("sub", helpers, i32(1), "acq_rel")
                f.call("void", "free", helper)
                loop.leave()

    def _each(self, f: Code, ticks: Value, programs: Value) -> Value:
        """Ticks a program (double)."""
        ticks = f.cast("sitofp", f.maximum(ticks, i64(1)), "double")
        return f.op("fdiv", ticks, f.cast("sitofp", programs, "double"))

    def _divide(self, f: Code, pool: Value, job: Value, cost: Value, left: Value) -> None:
        """Choose how programs are handed out: the job's `least`, `split` and `ahead`."""
        limit = f.cast("sitofp", f.read(pool, POOL, "threshold"), "double")
        # Chunks of at least a quarter of the threshold keep the counter's cost below 1 %.
        quarter = f.op("fmul", limit, const("double", 0.25))
        f.write(job, JOB, "least", self._whole(f, f.op("fdiv", quarter, cost), left))
        part = f.op("fmul", limit, const("double", PART))
        f.write(job, JOB, "most", self._whole(f, f.op("fdiv", part, cost), left))
        expected = f.op("fmul", cost, f.cast("sitofp", left, "double"))
        short = f.fcmp("olt", expected, f.op("fmul", limit, const("double", SHORT)))
        f.write(job, JOB, "split", f.cast("zext", short, "i32"))
        ahead = f.op("fdiv", f.op("fmul", limit, const("double", DELAY)), cost)
        f.write(job, JOB, "ahead", f.call("i64", "llvm.fptosi.sat.i64.f64", ahead))
