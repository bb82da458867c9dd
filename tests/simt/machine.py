"""A processor that is none: it runs kernels of `Simt`, one warp after the other, on the CPU.

Kernels are compiled for the CPU that the tests run on; `scheduler` is the native part.
"""

from __future__ import annotations

import ctypes
import mmap
import platform
import re
import threading
from collections.abc import Sequence
from functools import cache
from math import prod
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from tests.simt import scheduler
from tests.simt.scheduler import BLOCK, COPIES, COPY, MACHINE, PROGRAM, PROGRAMS, THREAD
from tests.simt.small_floats import NAMES, small_floats_ir
from tritium.codegen.gpu.context import SHARED_MEMORY
from tritium.native.loader import Image, compile_ir, load_object
from tritium.native.records import allocate

SHARED_BYTES = 227 << 10
"""Shared memory of a block."""
STACK_BYTES = 1 << 20
"""The stack of a thread; memory is taken only as it is used."""
ENTRY = "simt_entry"
"""The function that calls the kernel with arguments from 8-byte slots."""
MOST_BLOCKS = 16
"""The most thread blocks of a cluster."""
WARP_BYTES = 1 << 20
"""Memory through which the lanes of a warp exchange the operands of matrix products."""

_ENDS = {
    scheduler.LANES_DIFFER: "lanes of a warp are at different barriers or shuffles",
}

_BARRIERS = {
    scheduler.BARRIER: "barrier {}", scheduler.CLUSTER: "the barrier of the cluster",
}  # fmt: skip


class KernelFailure(RuntimeError):
    """An assertion of a kernel has failed, or a check of the machine."""


@cache
def target_machine() -> Any:
    """LLVM's code generator: for a fixed processor where that is possible, so that all machines
    compute the same (AVX512_BF16 takes subnormal numbers for zero)."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    host = llvm.get_host_cpu_features()
    fixed = platform.machine() in ("x86_64", "AMD64") and host.get("avx2") and host.get("f16c")
    name = "x86-64-v3" if fixed else llvm.get_host_cpu_name()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=name, features="" if fixed else host.flatten(), opt=1, reloc="pic", codemodel="small",
        jit=True,
    )  # fmt: skip


def compile_kernel(text: str) -> bytes:
    """Object code of a kernel's LLVM IR."""
    module = llvm.parse_assembly(_with_own_memory(text), context=llvm.create_context())
    module.verify()
    return target_machine().emit_object(module)


def _with_own_memory(text: str) -> str:
    """The IR of functions that ask for the shared memory of the block that they run for, in place
    of a variable at a fixed place."""
    name, (declared, _, rest) = re.escape(f"@{SHARED_MEMORY}"), text.partition("\ndefine ")
    if not re.search(f"^{name} = ", declared, re.MULTILINE):
        return text
    declared = re.sub(f"^{name} = .*$", "declare ptr addrspace(3) @simt_shared()", declared,
                      flags=re.MULTILINE)  # fmt: skip
    own = f"%{SHARED_MEMORY}"
    rest = rest.replace(f"@{SHARED_MEMORY}", own).replace(
        "\nentry:\n", f"\nentry:\n  {own} = call ptr addrspace(3) @simt_shared()\n"
    )
    return f"{declared}\ndefine {rest}"


@cache
def native() -> tuple[Image, Image]:
    """The scheduler, and conversions of floats that LLVM expects to find in a library."""
    code = compile_ir(scheduler.scheduler_ir(), opt=1)
    runtime = load_object(code, [*scheduler.SYMBOLS, "run_grid"])
    return runtime, load_object(compile_kernel(small_floats_ir()), NAMES)


class Machine:
    """Threads of `blocks` thread blocks of `warps` warps of `lanes` lanes, which run a kernel's
    programs, two at a time. Several blocks run at random paces."""

    def __init__(
        self, lanes: int, warps: int, blocks: int = 1, *, last_warp_first: bool = False,
        last_program_first: bool = False, seed: int = 0,
    ):  # fmt: skip
        self._count, self._blocks = lanes * warps * blocks, blocks
        self._seed = seed or int(blocks > 1)
        shared, self._shared = allocate(SHARED_BYTES * blocks * PROGRAMS, 1024)
        states, self._states = allocate(BLOCK.size * blocks * PROGRAMS)
        self._address, self._memory = allocate(MACHINE.size)
        self._programs, self._program_memory = allocate(PROGRAM.size * PROGRAMS)
        count = self._count * PROGRAMS
        self._threads, self._thread_memory = allocate(THREAD.size * count)
        self._copies = mmap.mmap(-1, COPY.size * COPIES * count)
        self._stacks = mmap.mmap(-1, STACK_BYTES * (count + PROGRAMS))
        warp_memory, self._warp_memory = allocate(WARP_BYTES * PROGRAMS)
        copies, stacks = (_start(memory) for memory in (self._copies, self._stacks))
        for i in range(count):
            stack = stacks + i * STACK_BYTES
            _guard(stack)
            block, number = divmod(i % self._count, lanes * warps)
            THREAD.write(
                self._threads + i * THREAD.size, number=number, block=block, stack=stack,
                copies=copies + i * COPY.size * COPIES,
            )  # fmt: skip
        for i in range(PROGRAMS):
            PROGRAM.write(
                self._programs + i * PROGRAM.size, live=0, started=0,
                threads=self._threads + i * self._count * THREAD.size,
                warp_memory=warp_memory + i * WARP_BYTES,
                shared=shared + i * blocks * SHARED_BYTES, states=states + i * blocks * BLOCK.size,
                stack=stacks + (count + i) * STACK_BYTES,
            )  # fmt: skip
        MACHINE.write(
            self._address, programs=self._programs, lanes=lanes, warps=warps, blocks=blocks,
            backwards=last_warp_first, last_first=last_program_first, shared_bytes=SHARED_BYTES,
            stack_bytes=STACK_BYTES,
        )  # fmt: skip
        self._lock = threading.Lock()
        self._run = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(native()[0]["run_grid"])

    def load(self, code: bytes) -> Image:
        """Put a kernel's object code into memory."""
        runtime, floats = native()
        imports = {name: runtime[name] for name in scheduler.SYMBOLS}
        imports |= {name: floats[name] for name in NAMES}
        return load_object(code, [ENTRY], imports)

    def run(
        self, kernel: Image, slots: Sequence[int], grid: Sequence[int], seed: int = 0
    ) -> None:
        """Run every program of a grid, with a seed other than 0 in another order than the machine's
        own. Raises `KernelFailure`."""
        arguments = np.array([*slots, 0], np.uint64)
        sizes = (*grid, 1, 1)[:3]
        with _running, self._lock:
            MACHINE.write(
                self._address, entry=kernel[ENTRY], arguments=arguments.ctypes.data,
                sizes_x=sizes[0], sizes_y=sizes[1], sizes_z=sizes[2], total=prod(sizes),
                random=seed or self._seed,
            )  # fmt: skip
            status = self._run(self._address)
            if status != scheduler.OK:
                self._fail(status)

    def _waiting(self) -> str:
        """The barriers or ops for which unfinished warps wait, and the lines of these."""
        lanes, warps = (MACHINE.read(self._address, n) for n in ("lanes", "warps"))
        found = dict[str, list[str]]()
        for warp in range(self._count // lanes):
            at = MACHINE.read(self._address, "threads") + warp * lanes * THREAD.size
            why, number, line = (THREAD.read(at, n) for n in ("request", "barrier", "line"))
            if why != scheduler.END:
                of_block = f" of block {warp // warps}" if self._blocks > 1 else ""
                what = _BARRIERS.get(why, "an mbarrier").format(number)
                file = ctypes.c_char_p(THREAD.read(at, "file")).value if line else None
                where = f" ({file.decode()}:{line})" if file else ""
                found.setdefault(f"{of_block} at {what}{where}", []).append(str(warp % warps))
        return ", ".join(
            f"warp{'s' * (len(which) > 1)} {', '.join(which)}{rest}"
            for rest, which in found.items()
        )

    def _fail(self, status: int) -> None:
        for i in range(self._count * PROGRAMS):  # their stacks are in the middle of the kernel
            THREAD.write(self._threads + i * THREAD.size, started=0)
        for i in range(PROGRAMS):
            PROGRAM.write(self._programs + i * PROGRAM.size, live=0, started=0)
        program = tuple(MACHINE.read(self._address, axis) for axis in "xyz")
        if status == scheduler.DEADLOCK:
            raise KernelFailure(f"warps wait for ever: {self._waiting()} [program {program}]")
        if status in _ENDS:
            raise KernelFailure(f"{_ENDS[status]} [program {program}]")
        message, file = (
            (ctypes.c_char_p(MACHINE.read(self._address, name)).value or b"").decode()
            for name in ("message", "file")
        )
        where = f" at {file}:{MACHINE.read(self._address, 'line')}" if file else ""
        raise KernelFailure(f"device-side assert triggered: {message}{where} [program {program}]")


_running = threading.Lock()
"""One machine runs at a time: the scheduler knows the one that does."""


def _start(memory: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def _guard(stack: int) -> None:
    """Forbid accesses to the lowest page of a stack."""
    libc: Any = ctypes.CDLL(None, use_errno=True)
    if libc.mprotect(ctypes.c_void_p(stack), ctypes.c_size_t(mmap.PAGESIZE), 0):
        raise OSError(ctypes.get_errno(), "mprotect")


@cache
def machine(
    lanes: int, warps: int, blocks: int = 1, *, last_warp_first: bool = False,
    last_program_first: bool = False, seed: int = 0,
) -> Machine:  # fmt: skip
    """The machine of a number of lanes, warps and blocks, which kernels share. With a seed other
    than 0 the order is random."""
    return Machine(
        lanes, warps, blocks, last_warp_first=last_warp_first,
        last_program_first=last_program_first, seed=seed,
    )  # fmt: skip
