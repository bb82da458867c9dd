"""One of two processes that share symmetric memory: what each scenario is expected to find is
asserted in both. Run as `python -m tests.sanitize.symmetric_program RANK FILE DEVICE`."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

import tritium
import tritium.language as tl
from tritium.experimental import gsan
from tritium.experimental.gsan import symmetric_memory
from tritium.sanitize.launch import SanitizerError

N, BLOCK = 256, 64


@tritium.jit
def fill(out, begin, end, value, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, value, mask=(i >= begin) & (i < end))


@tritium.jit
def read(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n), mask=i < n)


@tritium.jit
def count(x):
    tl.atomic_add(x + tl.program_id(0), 1.0)


@tritium.jit
def signal(flag):
    tl.atomic_xchg(flag, 1, sem="release", scope="sys")


@tritium.jit
def wait(flag, x):
    while tl.atomic_cas(flag, 1, 1, sem="acquire", scope="sys") != 1:
        pass
    tl.store(x, tl.load(x) + 1.0)


class Process:
    """A process and the memory that it shares with the other one."""

    def __init__(self, rank: int, device: str, write_once: bool = False):
        self.rank, self.device = rank, device
        mine = symmetric_memory.empty(N, dtype=torch.float32, device=device, write_once=write_once)
        self.handle = symmetric_memory.rendezvous(mine, dist.group.WORLD)
        assert symmetric_memory.rendezvous(mine, dist.group.WORLD) is self.handle
        self.parts = [self.handle.get_buffer(r, [N], torch.float32) for r in (0, 1)]
        assert self.parts[rank].data_ptr() == mine.data_ptr()

    def finds(self, text: str, place: str = "") -> None:
        """The next barrier reports this in both processes."""
        try:
            self.handle.barrier()
        except SanitizerError as error:
            assert re.match(text, str(error)), error
            assert place in str(error), error
        else:
            raise AssertionError(f"nothing was found: {text}")


def halves(p: Process) -> None:
    """Both write disjoint halves of both parts, and read everything after the barrier."""
    for part in p.parts:
        fill[(4,)](part, 128 * p.rank, 128 * (p.rank + 1), 1.0 + p.rank, BLOCK)
    p.handle.barrier()
    out = torch.zeros(N, device=p.device)
    for part in p.parts:
        read[(4,)](part, out, N, BLOCK)
        assert out.cpu().tolist() == [1.0] * 128 + [2.0] * 128
    p.handle.barrier()


def overlap(p: Process) -> None:
    """Both write element 128 of rank 1's part."""
    fill[(4,)](p.parts[1], 128 * p.rank, 129 + 127 * p.rank, 3.0, BLOCK)
    p.finds(r"race: store in kernel 'fill' of rank 0, program \(2, 0, 0\), at .*program.py:\d+\n"
            r"    tl.store\(out \+ i, value.*\n"
            r"  without order beside the store in kernel 'fill' of rank 1, program \(2, 0, 0\), at",
            "byte 512 of rank 1's symmetric memory, which has 1024 bytes")  # fmt: skip
    p.handle.barrier()  # nothing is left


def read_of_what_the_other_writes(p: Process) -> None:
    if p.rank:
        read[(4,)](p.parts[0], torch.zeros(N, device=p.device), N, BLOCK)
        read[(4,)](p.parts[0], torch.zeros(N, device=p.device), N, BLOCK)
    else:
        fill[(1,)](p.parts[0], 7, 8, 3.0, BLOCK)
    p.finds(r"race: store in kernel 'fill' of rank 0.*\n.*\n.* beside the load in kernel 'read' of "
            r"rank 1", "byte 28 of rank 0's")  # fmt: skip


def atomics(p: Process) -> None:
    count[(4,)](p.parts[0][8:])
    p.handle.barrier()
    if p.rank:
        count[(4,)](p.parts[0][8:])
    else:
        fill[(1,)](p.parts[0], 11, 12, 3.0, BLOCK)
    p.finds("race: (store|atomic access)", "byte 44 of rank 0's")


def signals(p: Process) -> None:
    """Launches of their own tell, and learn, that a store is made."""
    flag = symmetric_memory.empty(1, dtype=torch.int32, device=p.device)
    flag.zero_()
    flags = symmetric_memory.rendezvous(flag, dist.group.WORLD)
    flags.barrier()
    if p.rank:
        wait[(1,)](flag, p.parts[0])
        assert p.parts[0][0].item() == 10.0
    else:
        fill[(1,)](p.parts[0], 0, 1, 9.0, BLOCK)
        signal[(1,)](flags.get_buffer(1, (1,), torch.int32))
    p.handle.barrier()
    if p.rank:
        wait[(1,)](flag, p.parts[0])
    else:
        signal[(1,)](flags.get_buffer(1, (1,), torch.int32))
        fill[(1,)](p.parts[0], 0, 1, 9.0, BLOCK)  # after the signal
    p.finds("race: store in kernel '(fill|wait)'", "byte 0 of rank 0's")
    flags.close()


def write_once(p: Process) -> None:
    own = Process(p.rank, p.device, write_once=True)
    fill[(4,)](own.parts[1], 128 * p.rank, 128 * p.rank + 64, 1.0, BLOCK)
    own.handle.barrier()
    out = torch.zeros(N, device=p.device)
    read[(1,)](own.parts[1], out, 64, BLOCK)  # what rank 0 wrote
    own.handle.barrier()
    try:
        fill[(4,)](own.parts[1], 128 - 128 * p.rank, 129 - 128 * p.rank, 1.0, BLOCK)
    except SanitizerError as error:
        assert re.match(r"second store to write-once memory in kernel 'fill', program", str(error))
    else:
        raise AssertionError("a second store was not found")
    own.handle.barrier()
    if p.rank:
        read[(4,)](own.parts[1], out, 65, BLOCK)
    own.finds("load of write-once memory that was not written before in kernel 'read' of rank 1",
              "byte 256 of rank 1's")  # fmt: skip
    own.handle.close()


def misuse(p: Process) -> None:
    raises(ValueError, "rank is 2; expected 0 to 1", p.handle.get_buffer, 2, [N], torch.float32)
    raises(ValueError, "is bytes 4 to 1028; the tensor has 1024 bytes",
           p.handle.get_buffer, 0, [N], torch.float32, 1)  # fmt: skip
    assert p.handle.get_buffer(0, (2, 3), torch.int16, 506).shape == (2, 3)
    raises(ValueError, "tensor of rank 0 is in no memory that can be shared",
           symmetric_memory.rendezvous,
           symmetric_memory.empty(4, device=p.device) if p.rank else torch.zeros(4),
           dist.group.WORLD)  # fmt: skip
    raises(ValueError, "rank 0 has 16 bytes, that of rank 1 has 32 bytes",
           symmetric_memory.rendezvous,
           symmetric_memory.empty(4 + 4 * p.rank, device=p.device), dist.group.WORLD)  # fmt: skip
    raises(TypeError, "group is 3; expected a process group", symmetric_memory.rendezvous,
           p.parts[0], 3)  # fmt: skip
    p.handle.barrier(1, 60_000)
    if p.rank == 0:
        raises(TimeoutError, "barrier of channel 0: rank 1 did not come in time",
               p.handle.barrier, 0, 1)  # fmt: skip
        dist.barrier()
    else:
        dist.barrier()
        raises(TimeoutError, "rank 1 did not come in time", p.handle.barrier)
    raises(RuntimeError, "out of step since: .*rank 1 did not come", p.handle.barrier)
    p.handle.close()
    raises(RuntimeError, "get_buffer: the handle is closed", p.handle.get_buffer, 0, [N],
           torch.float32)  # fmt: skip


def raises(error: type[Exception], text: str, call: Callable[..., Any], *args: Any) -> None:
    try:
        call(*args)
    except error as found:
        assert re.search(text, str(found)), found
    else:
        raise AssertionError(f"no error: {text}")


def main(rank: int, file: str, device: str) -> None:
    dist.init_process_group("gloo", f"file://{file}", rank=rank, world_size=2)
    if device == "cuda":
        torch.cuda.set_device(rank % torch.cuda.device_count())
        symmetric_memory.configure(dist.group.WORLD)
        assert not gsan.has_live_allocations()
    p = Process(rank, device)
    for scenario in (halves, overlap, read_of_what_the_other_writes, atomics, signals, write_once,
                     misuse):  # fmt: skip
        scenario(p)
        print(f"rank {rank}: {scenario.__name__} is as expected", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3])
