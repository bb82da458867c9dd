"""The thread pool that runs the programs of a grid: its memory and what the system offers to it.

`pool_writer` holds the native code, and says how it works.
"""

from __future__ import annotations

from dataclasses import dataclass

from tritium import forking, knobs
from tritium.native.host import is_x86
from tritium.native.records import Record, allocate
from tritium.system import at_fork
from tritium.system.interface import Threads

CONTEXT = Record(
    ("nx", "i32"), ("ny", "i32"), ("nz", "i32"), ("thread_index", "i32"),
    ("scratch", "ptr"), ("fault", "ptr"), ("exclusive", "i32"),
)  # fmt: skip
"""The record that a kernel gets as `ctx`. `scratch` is aligned to 64 bytes and holds at least the
kernel's `scratch_bytes`; its content is undefined at each program's start. `exclusive`: no other
thread runs programs, of this kernel or another."""

FAULT = Record(
    ("raised", "i32"), ("pid_x", "i32"), ("pid_y", "i32"), ("pid_z", "i32"), ("message", "ptr"),
    ("stall", "ptr"), ("counter", "ptr"), ("own", "i64"), ("pool", "ptr"), ("job", "ptr"),
    ("thread", "i64"), ("helpers", "i32"), ("starting", "i32"), ("detail", "i64"),
)  # fmt: skip
"""The status that programs report to their launch. `raised` and what follows it is set (by a
compare-exchange of `raised`) by the first program whose device_assert fails, or a check of the
sanitizer, whose `detail` is an address; the launcher sets it to `INTERRUPTED`.

`stall(this record)` is called by a program now and then while it may wait for another one; when it
returns, the program ends if `raised` is set. It lets Python handle signals (in the launcher's own
`thread`), and other threads run, and starts helpers for programs that nobody has begun: those from
`*counter` on (the pool's counter or `own`; NULL where none is left). `helpers` are alive;
`starting` is a lock."""

INTERRUPTED = 2
POLLS = 2

JOB = Record(
    ("kernel", "ptr"), ("args", "ptr"), ("fault", "ptr"), ("scratch_bytes", "i64"),
    ("total", "i64"), ("nx", "i32"), ("ny", "i32"), ("nz", "i32"),
    ("threads", "i32"), ("count", "i32"), ("base", "i32"), ("split", "i32"), ("least", "i64"),
    ("ahead", "i64"), ("exclusive", "i32"), ("waits", "i32"),
    ("ticks", "i64"), ("most", "i64"), ("entry", "ptr"),
)  # fmt: skip
"""A launch. `exclusive`: whether exclusive launches of the kernel are faster; `waits`: whether it
may wait for another one, so that the GIL must be released before it begins (`POLLS`: also for
another program of its own grid, in loops that call `stall`). `threads` (0 until Python was asked
for it), `count` (workers to wake), `base` (the first of them), `split` (whether each thread has a
range of its own to begin with), `least` (programs a chunk) and `ahead` (how many the launcher is
expected to do before the others have begun) are set when it goes parallel; `ticks` (what the
launcher's own programs took) when that is over. A range of more than `most` programs is run in
parts, as others may want to stop it; `entry` is the launcher's `ENTRY`."""

RANGE = Record(("next", "i64"), ("limit", "i64"))
"""Programs that are not handed out yet; `next` is drawn from."""

ENTRY = Record(
    ("function", "ptr"), ("thread_state", "ptr"), ("state", "ptr"), ("poll", "ptr"),
    ("polled", "i64"),
)
"""The callbacks of `tritium_run` for long grids: `function` takes the address of this record,
releases the GIL and returns the number of threads to use, or -1 for an error that is set. `poll`
takes the same, lets Python handle signals, and returns a negative number when a handler has raised;
it was last called at `polled` (ticks). The launcher's functions use the other fields: its kernel's
state, and the thread state that it sets when it has released the GIL."""

HELPER = Record(("context", f"bytes {CONTEXT.size}"), ("capacity", "i64"), ("fault", "ptr"))
"""A thread that `stall` has started."""

SLOT = Record(("context", f"bytes {CONTEXT.size}"), ("capacity", "i64"), ("busy", "i32"), align=64)
"""A context for a launching thread: taken for one launch, its scratch kept for the next."""

SLEEP_BYTES = 192  # room for a mutex and a condition variable behind each word slept on

WORKER = Record(
    ("context", f"bytes {CONTEXT.size}"), ("capacity", "i64"), ("pool", "ptr"),
    ("index", "i32"), ("cpu", "i32"),
    ("", "align 128"), ("wake", "i32"), ("asleep", "i32"),
    ("", "align 64"), ("wake_sleep", f"bytes {SLEEP_BYTES}"),
    ("", "align 128"), ("range", f"bytes {RANGE.size}"),
    align=128,
)  # fmt: skip

POOL = Record(
    ("started", "i32"), ("lock", "i32"), ("worker_count", "i32"), ("slot_count", "i32"),
    ("threshold", "i64"), ("spin", "i64"), ("workers", "ptr"), ("slots", "ptr"), ("forked", "i32"),
    ("", "align 128"), ("launches", "i32"),
    ("", "align 128"), ("counter", "i64"),
    ("", "align 128"), ("door", "i32"), ("", "align 64"), ("door_sleep", f"bytes {SLEEP_BYTES}"),
    ("", "align 128"), ("job", f"bytes {JOB.size}"),
    ("", "align 128"), ("range", f"bytes {RANGE.size}"),
    align=128,
)  # fmt: skip

OPEN = 1 << 30  # the door's bit; below it the number of workers inside
EXCLUSIVE = 1 << 30
"""In `launches`, above the number of threads that are launching: the one that was the only one
runs programs that count on it."""
MAX_TOGETHER = 1024
"""Programs of one grid that can wait for each other on the CPU: as many threads run them."""
SLOTS = 64

OK, NO_MEMORY, ERROR_SET = 0, 1, 2
"""Return values of the native `tritium_run`."""


def check_together(name: str, programs: int) -> None:
    """Raise `ValueError` if the CPU cannot run all programs of a grid at the same time."""
    if programs > MAX_TOGETHER:
        raise ValueError(
            f"kernel '{name}': launch_cooperative_grid=True runs all programs at the same time; "
            f"the grid has {programs} programs, the CPU runs at most {MAX_TOGETHER}"
        )


@dataclass(frozen=True)
class System:
    """The parts of a thread pool: the functions for threads and the reports of crashes (see
    `tritium.system`), and whether user code can read a counter of cycles of a constant rate."""

    threads: Threads
    crash_reports: bool
    cycle_counter: bool

    @staticmethod
    def here() -> System:
        """The system this process runs on."""
        system = knobs.system()
        return System(system.threads, system.crash_reports, is_x86())

    @property
    def threshold(self) -> int:
        """Ticks of serial work before others are woken: about 15k cycles."""
        return 15_000 if self.cycle_counter else 6_000

    @property
    def spin(self) -> int:
        """Ticks that a worker waits for the next grid before it sleeps: about 50 microseconds, ten
        times what waking it costs."""
        return 130_000 if self.cycle_counter else 50_000


class Pool:
    """The pool's memory. Its threads start with the first grid that lasts long enough.

    Args:
        cpus: the CPUs to pin workers to, one each.
        threads: workers besides the launching thread are at least `threads - 1`, taking CPUs in
            turn where there are fewer.
        system: what the operating system offers.
    """

    def __init__(self, cpus: list[int], threads: int, system: System):
        self.worker_count = max(len(cpus), threads)
        self.system = system
        self.address, self._memory = allocate(POOL.size)
        self.workers, self._workers = allocate(WORKER.size * max(self.worker_count, 1))
        self.slots, self._slots = allocate(SLOT.size * SLOTS)
        POOL.write(
            self.address, worker_count=self.worker_count, slot_count=SLOTS,
            threshold=system.threshold, workers=self.workers, slots=self.slots,
            spin=system.spin if 1 < self.worker_count <= len(cpus) else 0,
            forked=int(forking.started_to_share()),
        )  # fmt: skip
        for i in range(self.worker_count):
            at = self.workers + i * WORKER.size
            WORKER.write(at, pool=self.address, index=i, cpu=cpus[i % len(cpus)])
            CONTEXT.write(at, thread_index=i + 1)
        at_fork(before=self._forked, after_in_child=self.restart)

    def _forked(self) -> None:
        if forking.shares():
            POOL.write(self.address, forked=1)

    def restart(self) -> None:
        """Forget the workers, which do not exist in a forked child; it starts its own."""
        POOL.write(
            self.address, started=0, lock=0, door=0, launches=0, worker_count=self.worker_count
        )  # fmt: skip
        for i in range(self.worker_count):
            WORKER.write(self.workers + i * WORKER.size, wake=0, asleep=0)
        for i in range(SLOTS):
            SLOT.write(self.slots + i * SLOT.size, busy=0)
