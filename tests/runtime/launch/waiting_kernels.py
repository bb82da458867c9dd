"""Kernels whose programs wait for each other, or are long; for programs of `test_waiting.py`."""

import signal
import threading
import time

import tritium
import tritium.language as tl

# Programs that a shell starts in the background ignore the signal.
signal.signal(signal.SIGINT, signal.default_int_handler)


def say_when(x, at):
    def watch():
        while x[at] == 0:
            time.sleep(0.001)
        print("runs", flush=True)

    threading.Thread(target=watch, daemon=True).start()


@tritium.jit
def barrier(count, out, G):
    pid = tl.program_id(0)
    tl.store(out + pid, pid * 10)
    tl.atomic_add(count, 1, sem="release")
    while tl.atomic_add(count, 0, sem="acquire") < G:
        pass
    s = 0
    for i in range(G):
        s += tl.load(out + i, volatile=True)
    tl.store(out + G + pid, s)


@tritium.jit
def volatile_barrier(count, out, G):
    pid = tl.program_id(0)
    tl.store(out + pid, pid * 10)
    tl.atomic_add(count, 1, sem="release")
    while tl.load(count, volatile=True) < G:
        pass
    tl.store(out + G + pid, 45 if G == 10 else 0)


@tritium.jit
def from_the_end(flags, out, G):
    pid = tl.program_id(0)
    if pid < G - 1:
        while tl.atomic_add(flags + pid + 1, 0) == 0:
            pass
    tl.store(out + pid, pid)
    tl.atomic_xchg(flags + pid, 1)


@tritium.jit
def for_ever(flag):
    tl.atomic_xchg(flag + 1, 1)
    while tl.atomic_add(flag, 0) == 0:
        pass


@tritium.jit
def long_programs(x, n):
    i = tl.arange(0, 1024)
    v = tl.load(x + i)
    for k in range(n):
        v = tl.sin(v + k)
    tl.store(x + i, v)
    tl.atomic_add(x + 1024, 1.0)
