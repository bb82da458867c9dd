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
waits for is running, done, or next in line. A program must not wait for one with a higher number to
start.

Several Python threads may launch at once: one has the pool, the others run their grids serially,
chunk by chunk, and get the pool for the rest as soon as it is free. After a fork the child starts
workers of its own. Nothing is joined at exit: workers sleep in the kernel and hold no lock.

Linux sleeps on futexes; other POSIX systems on a mutex and a condition variable; elsewhere there
are no workers and every grid runs on the launching thread.
"""

from __future__ import annotations

from tritium.backends.cpu.pool import (
    ENTRY,
    ERROR_SET,
    JOB,
    NO_MEMORY,
    OK,
    OPEN,
    POOL,
    SLOT,
    SLOTS,
    WORKER,
)
from tritium.backends.cpu.pool_work import WorkWriter
from tritium.lowering.llvm import Value, const
from tritium.lowering.native import Code, Forever, i32, i64

DELAY = 1 / 6
"""Until a worker that is awake has begun, in thresholds: about 1 us."""

SHORT = 16
"""A grid expected to take less than this many thresholds has its programs shared out at once, the
same ones to the same thread each time, as its data are likely to be in that thread's own cache."""


class PoolWriter(WorkWriter):
    """Writes the pool's functions into a module. `tritium_run` is what a launcher calls."""

    def write(self) -> None:
        """Write every function."""
        super().write()
        self._choose()
        self._parallel()
        self._serial()
        self._finish()
        self._take_slot()
        self._run()

    # Launching

    def _choose(self) -> None:
        """i32 choose(pool, job, left): who helps with `left` programs; sets count and base."""
        f = self._code("choose", "ptr pool,ptr job,i64 left", "i32")
        pool, job, left = f.arguments
        n = f.read(pool, POOL, "worker_count")
        wanted = f.sub(f.read(job, JOB, "threads"), i32(1))
        count = f.variable("i32", f.minimum(wanted, n))
        base = f.variable("i32", i32(0))
        if self.system.affinity:
            here = f.call("i32", "sched_getcpu")
            index = f.variable("i32", i32(0))
            with f.forever() as search:
                at = f.get("i32", index)
                with f.when(f.icmp("sge", at, n)):
                    search.leave()
                step = f.op("mul", f.cast("zext", at, "i64"), i64(WORKER.size))
                worker = f.gep("i8", f.read(pool, POOL, "workers"), step)
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
        mine = f.call("i64", "drain", pool, context, i32(0))
        f.atomic("and", door, i32(~OPEN), "acq_rel")
        turns = f.variable("i32", i32(0))
        with f.forever() as wait:
            inside = f.atomic_load("i32", door)
            with f.when(f.icmp("eq", inside, i32(0))):
                wait.leave()
            turn = f.get("i32", turns)
            with f.when(f.icmp("sge", turn, i32(2000))):
                f.call("void", "park", door, inside)
            f.put(turns, f.add(turn, i32(1)))
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
        total = f.read(job, JOB, "total")
        limit = f.cast("sitofp", f.read(pool, POOL, "threshold"), "double")
        expected = f.op("fmul", f.get("double", cost), f.cast("sitofp", total, "double"))
        done = f.variable("i64", i64(0))
        with f.when(f.fcmp("olt", expected, limit)):
            f.put(done, f.call("i64", "serial", pool, context, job, cost))
        status = f.variable("i32", i32(OK))
        unfinished = f.icmp("slt", f.get("i64", done), total)
        calm = f.op("xor", self._faulted(f, job), const("i1", 1))
        with f.when(f.op("and", unfinished, calm)):
            threads = f.invoke("i32", f.read(entry, ENTRY, "function"), entry)
            f.write(job, JOB, "threads", threads)
            with f.when(f.icmp("slt", threads, i32(0))):
                f.atomic_store(f.at(slot, SLOT, "busy"), i32(0))
                f.ret(i32(ERROR_SET))
            f.call("void", "finish", pool, context, job, cost, f.get("i64", done))
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
        own until the pool is ours."""
        f = self._code("finish", "ptr pool,ptr ctx,ptr job,ptr cost,i64 first")
        pool, context, job, cost, first = f.arguments
        done = f.variable("i64", first)
        total, lock = f.read(job, JOB, "total"), f.at(pool, POOL, "lock")
        start = f.call("i64", "ticks")
        limit = f.cast("sitofp", f.read(pool, POOL, "threshold"), "double")
        mine = f.variable("i64", i64(0))
        with f.forever() as loop:
            begin = f.get("i64", done)
            left = f.sub(total, begin)
            ended = f.op("or", f.icmp("sle", left, i64(0)), self._faulted(f, job))
            with f.when(ended):
                loop.leave()
            # Chunks of at least a quarter of the threshold keep the counter's cost below 1 %.
            quarter = f.op("fmul", limit, const("double", 0.25))
            least = self._whole(f, f.op("fdiv", quarter, f.get("double", cost)), left)
            f.write(job, JOB, "least", least)
            expected = f.op("fmul", f.get("double", cost), f.cast("sitofp", left, "double"))
            short = f.fcmp("olt", expected, f.op("fmul", limit, const("double", SHORT)))
            f.write(job, JOB, "split", f.cast("zext", short, "i32"))
            delay = f.op("fmul", limit, const("double", DELAY))
            ahead = f.op("fdiv", delay, f.get("double", cost))
            ahead = f.call("i64", "llvm.fptosi.sat.i64.f64", ahead)
            f.write(job, JOB, "ahead", ahead)
            alone = f.icmp("sle", f.read(job, JOB, "threads"), i32(1))
            alone = f.op("or", alone, f.icmp("eq", left, i64(1)))
            alone = f.op("or", alone, f.icmp("sle", f.read(pool, POOL, "worker_count"), i32(0)))
            self._share(f, loop, (pool, context, job, lock), alone, (done, mine))
            # No pool for us (now): some programs of our own, then ask again.
            end = f.add(begin, f.select(alone, left, least))
            self._run_range(f, job, context, begin, end)
            f.put(done, end)
            f.put(mine, f.add(f.get("i64", mine), f.sub(end, begin)))
        own = f.get("i64", mine)
        with f.when(f.icmp("sgt", own, i64(0))):
            spent = f.maximum(f.sub(f.call("i64", "ticks"), start), i64(1))
            ratio = f.cast("sitofp", spent, "double"), f.cast("sitofp", own, "double")
            f.put(cost, f.op("fdiv", *ratio))
        f.ret()

    def _share(
        self, f: Code, loop: Forever, values: tuple[Value, Value, Value, Value],
        alone: Value, counts: tuple[Value, Value],
    ) -> None:  # fmt: skip
        """Unless `alone`: if the pool is free, run all that is left with it and leave the loop."""
        pool, context, job, lock = values
        done, mine = counts
        with f.when(f.op("xor", alone, const("i1", 1))), f.when(
            f.compare_exchange(lock, i32(0), i32(1))
        ):
            ran = f.call("i64", "parallel", pool, context, job, f.get("i64", done))
            f.put(mine, f.add(f.get("i64", mine), ran))
            f.atomic_store(lock, i32(0))
            loop.leave()
