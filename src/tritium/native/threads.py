"""Threads, sleeping, clocks and memory as LLVM IR: what the thread pool calls on each system."""

from __future__ import annotations

import platform
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager

from tritium.codegen.llvm.writer import Module, Value, const
from tritium.native.host import is_macos
from tritium.native.writer import NULL, Code, i32, i64
from tritium.system.interface import Threads
from tritium.system.linux import FUTEX

STACK = 8 << 20
"""Bytes of a thread's stack; by default macOS gives half a megabyte, Windows one."""
_BESIDE = 64
"""From a word that is slept on to its mutex; its condition variable is `_MUTEX` bytes further."""
_MUTEX = 96
_LOOK = 100
"""Milliseconds of a sleep that no signal ends."""


class Posix:
    """POSIX threads, with a mutex and a condition variable behind each word that is slept on."""

    def __init__(self, module: Module, darwin: bool = sys.platform == "darwin"):
        self.module, self._darwin = module, darwin

    def nanoseconds(self, f: Code) -> Value:
        """A clock that never goes back (i64)."""
        time = f.variable("", size=16)
        f.call("i32", "clock_gettime", i32(6 if self._darwin else 1), time)  # CLOCK_MONOTONIC
        seconds, rest = f.get("i64", time), f.get("i64", f.offset(time, 8))
        return f.add(f.op("mul", seconds, i64(1_000_000_000)), rest)

    def prepare_sleep(self, f: Code, word: Value) -> None:
        """Make a word one that can be slept on."""
        f.call("i32", "pthread_mutex_init", f.offset(word, _BESIDE), NULL)
        f.call("i32", "pthread_cond_init", f.offset(word, _BESIDE + _MUTEX), NULL)

    def park(self, f: Code, word: Value, expected: Value, signals: bool) -> None:
        """Sleep while the word has this value; may return early. With `signals`, it does so soon
        after the thread got a signal."""
        mutex, condition = f.offset(word, _BESIDE), f.offset(word, _BESIDE + _MUTEX)
        until = f.variable("", size=16)
        if signals:  # which do not end this kind of sleep
            f.call("i32", "clock_gettime", i32(0), until)
            rest = f.offset(until, 8)
            later = f.add(f.get("i64", rest), i64(_LOOK * 1_000_000))
            f.put(until, f.add(f.get("i64", until), f.op("udiv", later, i64(1_000_000_000))))
            f.put(rest, f.op("urem", later, i64(1_000_000_000)))
        f.call("i32", "pthread_mutex_lock", mutex)
        with f.when(f.icmp("eq", f.atomic_load("i32", word), expected)):
            if signals:
                f.call("i32", "pthread_cond_timedwait", condition, mutex, until)
            else:
                f.call("i32", "pthread_cond_wait", condition, mutex)
        f.call("i32", "pthread_mutex_unlock", mutex)

    def unpark(self, f: Code, word: Value) -> None:
        """Wake whoever sleeps on a word that has been changed."""
        mutex, condition = f.offset(word, _BESIDE), f.offset(word, _BESIDE + _MUTEX)
        f.call("i32", "pthread_mutex_lock", mutex)
        f.call("i32", "pthread_cond_broadcast", condition)
        f.call("i32", "pthread_mutex_unlock", mutex)

    def allocate(self, f: Code, size: Value) -> Value:
        """Memory, aligned to 64 bytes; null if there is none."""
        place = f.variable("ptr", NULL)
        status = f.call("i32", "posix_memalign", place, i64(64), size)
        return f.select(f.icmp("eq", status, i32(0)), f.get("ptr", place), NULL)

    def free(self, f: Code, memory: Value) -> None:
        """Give back what `allocate` gave, or null."""
        f.call("void", "free", memory)

    def yield_processor(self, f: Code) -> None:
        """Let another thread run."""
        f.call("i32", "sched_yield")

    def nap(self, f: Code) -> None:
        """Sleep for a moment."""
        f.call("i32", "usleep", i32(50))

    def current(self, f: Code) -> Value:
        """The current thread (i64); no thread is 0."""
        return f.call("i64", "pthread_self")

    @contextmanager
    def creating(self, f: Code) -> Generator[None]:
        """Threads created meanwhile get no signals: Python's thread gets them."""
        every, before = f.variable("", size=256), f.variable("", size=256)
        f.call("i32", "sigfillset", every)
        for name in ("SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE"):  # of an instruction of its own
            f.call("i32", "sigdelset", every, i32(getattr(signal, name)))
        set_mask = i32(signal.SIG_SETMASK)
        f.call("i32", "pthread_sigmask", set_mask, every, before)
        yield
        f.call("i32", "pthread_sigmask", set_mask, before, NULL)

    def create(self, f: Code, function: str, argument: Value) -> Value:
        """Start a thread, `ptr function(argument)`; returns whether the system gives one (i1)."""
        attributes, thread = f.variable("", size=128), f.variable("ptr", NULL)
        f.call("i32", "pthread_attr_init", attributes)
        f.call("i32", "pthread_attr_setstacksize", attributes, i64(STACK))
        run = Value("ptr", f"@{function}")
        status = f.call("i32", "pthread_create", thread, attributes, run, argument)
        f.call("i32", "pthread_attr_destroy", attributes)
        created = f.icmp("eq", status, i32(0))
        with f.when(created):
            f.call("i32", "pthread_detach", f.get("ptr", thread))
        return created

    def processor(self, f: Code) -> Value | None:
        """The CPU that the thread is on (i32), where threads are pinned to one."""
        return None

    def pin(self, f: Code, cpu: Value) -> None:
        """Keep the current thread on one CPU, where that is possible."""


class Linux(Posix):
    """Futexes and affinity."""

    def prepare_sleep(self, f: Code, word: Value) -> None:
        """Any word can be slept on."""

    def _futex(self, f: Code, word: Value, operation: int, value: Value) -> None:
        self.module.declare("syscall", "i64", ["i64", "..."])
        number, private = i64(FUTEX[platform.machine()]), i32(operation | 128)
        arguments = (number, word, private, value, NULL, NULL, i32(0))
        f.emit("i64", f"call i64 (i64, ...) @syscall({', '.join(map(str, arguments))})")

    def park(self, f: Code, word: Value, expected: Value, signals: bool) -> None:
        self._futex(f, word, 0, expected)

    def unpark(self, f: Code, word: Value) -> None:
        self._futex(f, word, 1, i32(0x7FFFFFFF))

    def processor(self, f: Code) -> Value | None:
        return f.call("i32", "sched_getcpu")

    def pin(self, f: Code, cpu: Value) -> None:
        """A CPU beyond the mask's size stays unpinned."""
        size = 1024  # bytes: 8192 CPUs
        with f.when(f.op("and", f.icmp("sge", cpu, i32(0)), f.icmp("slt", cpu, i32(8 * size)))):
            mask = f.variable("", size=size)
            f.call("void", "llvm.memset.p0.i64", mask, const("i8", 0), i64(size), const("i1", 0))
            wide = f.cast("zext", cpu, "i64")
            place = f.gep("i8", mask, f.op("lshr", wide, i64(3)))
            bit = f.op("shl", i32(1), f.op("and", cpu, i32(7)))
            f.put(place, f.cast("trunc", bit, "i8"))
            f.call("i32", "sched_setaffinity", i32(0), i64(size), mask)


class Windows(Posix):
    """The Windows API, from Windows 8 on."""

    def nanoseconds(self, f: Code) -> Value:
        count, frequency = f.variable("i64"), f.variable("i64")
        f.call("i32", "QueryPerformanceCounter", count)
        f.call("i32", "QueryPerformanceFrequency", frequency)
        ticks, second = f.get("i64", count), f.get("i64", frequency)
        billion = i64(1_000_000_000)
        rest = f.op("udiv", f.op("mul", f.op("urem", ticks, second), billion), second)
        return f.add(f.op("mul", f.op("udiv", ticks, second), billion), rest)

    def prepare_sleep(self, f: Code, word: Value) -> None:
        """Any word can be slept on."""

    def park(self, f: Code, word: Value, expected: Value, signals: bool) -> None:
        milliseconds = i32(_LOOK if signals else -1)
        f.call("i32", "WaitOnAddress", word, f.variable("i32", expected), i64(4), milliseconds)

    def unpark(self, f: Code, word: Value) -> None:
        f.call("void", "WakeByAddressAll", word)

    def allocate(self, f: Code, size: Value) -> Value:
        return f.call("ptr", "_aligned_malloc", size, i64(64))

    def free(self, f: Code, memory: Value) -> None:
        f.call("void", "_aligned_free", memory)

    def yield_processor(self, f: Code) -> None:
        f.call("i32", "SwitchToThread")

    def nap(self, f: Code) -> None:
        f.call("void", "Sleep", i32(1))

    def current(self, f: Code) -> Value:
        return f.cast("zext", f.call("i32", "GetCurrentThreadId"), "i64")

    @contextmanager
    def creating(self, f: Code) -> Generator[None]:
        yield  # there are no signals

    def create(self, f: Code, function: str, argument: Value) -> Value:
        reserve = i32(0x10000)  # STACK_SIZE_PARAM_IS_A_RESERVATION
        run = Value("ptr", f"@{function}")
        handle = f.call("ptr", "CreateThread", NULL, i64(STACK), run, argument, reserve, NULL)
        created = f.icmp("ne", handle, NULL)
        with f.when(created):
            f.call("i32", "CloseHandle", handle)
        return created


def writer_of(threads: Threads, module: Module) -> Posix:
    """The writer of the calls of a system."""
    return {"linux": Linux, "posix": Posix, "windows": Windows}[threads](module)


def clock_of(triple: str, module: Module) -> Posix:
    """The writer of the reading of a clock, for any system that code is compiled for."""
    if "windows" in triple:
        return Windows(module)
    return Posix(module, darwin=is_macos(triple))
