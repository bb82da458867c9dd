"""A processor that is none: code of `codegen.gpu` for the CPU that the tests run on.

Each thread is one call of the kernel's function. What concerns other threads (barriers, shuffles,
positions) is a call into `scheduler`, which decides which thread runs. Lowering rules: `rules`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property, partial
from typing import Any

from tests.simt import mma
from tests.simt.machine import MOST_BLOCKS, SHARED_BYTES, target_machine
from tests.simt.scheduler import ACCESSES, ARRIVALS
from tritium.codegen.gpu import hardware
from tritium.codegen.gpu.conversions import SoftwareConversions
from tritium.codegen.gpu.emitter import Emitter, bits_of
from tritium.codegen.gpu.functions import VectorMath
from tritium.codegen.gpu.hardware import OWN, Caching, Hardware, NoMatrixMoves, Order, meeting
from tritium.codegen.gpu.memory.llvm_accesses import LLVMSharedMemory
from tritium.codegen.gpu.memory.llvm_atomics import LLVMAtomics, zero
from tritium.codegen.llvm.writer import Function, Value, const
from tritium.codegen.registry import Rule
from tritium.ir.locations import source_position
from tritium.ops.base import Op
from tritium.ops.ttir import AtomicKind, MemScope, MemSemantic
from tritium.target import Banks

SIMT = "simt"


def neighbours(e: Emitter, pointer: Value, element: str, count: int) -> list[Value]:
    return [
        e.f.emit(pointer.type, f"getelementptr {element}, {pointer}, i32 {i}") for i in range(count)
    ]


def plain(e: Emitter, pointer: Value) -> Value:
    """A pointer as the scheduler's functions take it."""
    return e.f.cast("addrspacecast", pointer, "ptr")


def check_alignment(e: Emitter, pointer: Value, element: str, count: int) -> None:
    """Fail where neighbours that are accessed together are not aligned to their size."""
    if count > 1:
        size = count * max(bits_of(element) // 8, 1)
        e.f.call("void", "simt_aligned", plain(e, pointer), const("i64", size))


def write_all(e: Emitter, pointer: Value, parts: Sequence[Value]) -> list[Value]:
    check_alignment(e, pointer, parts[0].type, len(parts))
    size = max(bits_of(parts[0].type) // 8, 1)
    for place, part in zip(neighbours(e, pointer, parts[0].type, len(parts)), parts, strict=True):
        e.f.store(part, place, size)
    return []


class Grid:
    def thread(self, f: Function, threads: int) -> Value:
        return f.call("i32", "simt_thread")

    def block_in_cluster(self, e: Emitter) -> Value:
        return e.f.call("i32", "simt_block")

    def program_id(self, e: Emitter, axis: int, *, blocks: bool = False) -> Value:
        found = self._of_grid(e, "simt_program", axis, blocks)
        if not blocks or axis or e.num_ctas == 1:
            return found
        return e.f.op("add", found, self.block_in_cluster(e))

    def num_programs(self, e: Emitter, axis: int, *, blocks: bool = False) -> Value:
        return self._of_grid(e, "simt_programs", axis, blocks)

    @staticmethod
    def _of_grid(e: Emitter, name: str, axis: int, blocks: bool) -> Value:
        """A number of programs, or of as many times as many blocks: these are along the first
        axis."""
        found = e.f.call("i32", name, e.i32(axis))
        return e.f.op("mul", found, e.i32(e.num_ctas)) if blocks and axis == 0 else found


class Shuffles:
    def xor(self, e: Emitter, word: Value, mask: int, alike: int) -> Value:
        """From the lane that is farthest of those that have the same word, if they have."""
        return self.index(e, word, e.f.op("xor", e.lane, e.i32(mask | alike)))

    def index(self, e: Emitter, word: Value, lane: Value) -> Value:
        return e.f.call("i32", "simt_shuffle", word, lane)


class GlobalMemory:
    def load(
        self, e: Emitter, pointer: Value, element: str, count: int, mask: Value | None,
        others: Sequence[Value] | None, caching: Caching,
    ) -> list[Value]:  # fmt: skip
        size = max(bits_of(element) // 8, 1)

        def read() -> list[Value]:
            check_alignment(e, pointer, element, count)
            return [e.f.load(element, p, size) for p in neighbours(e, pointer, element, count)]

        return e.f.choose_all(mask, others or [zero(element)] * count, read)

    def store(
        self, e: Emitter, pointer: Value, parts: Sequence[Value], condition: Value | None,
        caching: Caching,
    ) -> None:  # fmt: skip
        def write() -> list[Value]:
            e.f.call("void", "simt_store")
            return write_all(e, pointer, parts)

        e.f.choose_all(condition, [], write)


class Buffers:
    """A buffer is its start and its size."""

    atomics = ("i32", "i64", "f32", "f64")

    def resource(self, e: Emitter, start: Value, size: int) -> tuple[Value, int]:
        return start, size

    def load(
        self, e: Emitter, resource: Any, offset: Value, element: str, count: int, caching: Caching
    ) -> list[Value]:
        size = max(bits_of(element) // 8, 1)

        def read() -> list[Value]:
            places = neighbours(e, self._place(e, resource, offset, count * size), element, count)
            return [e.f.load(element, place, min(size, 4)) for place in places]

        return e.f.choose_all(self._inside(e, resource, offset), [zero(element)] * count, read)

    def store(
        self, e: Emitter, resource: Any, offset: Value, parts: Sequence[Value], caching: Caching
    ) -> None:
        size, element = max(bits_of(parts[0].type) // 8, 1), parts[0].type

        def write() -> list[Value]:
            e.f.call("void", "simt_store")
            start = self._place(e, resource, offset, len(parts) * size)
            for place, part in zip(neighbours(e, start, element, len(parts)), parts, strict=True):
                e.f.store(part, place, min(size, 4))
            return []

        e.f.choose_all(self._inside(e, resource, offset), [], write)

    def copy(
        self, e: Emitter, resource: Any, offset: Value, to: Value, size: int, caching: Caching
    ) -> None:
        lane = e.f.op("mul", e.lane, e.i32(size))
        place = e.f.emit(to.type, f"getelementptr i8, {to}, {lane}")
        source = plain(e, self._place(e, resource, offset, size))
        inside = self._inside(e, resource, offset)
        source = e.f.select(inside, source, Value("ptr", "null"))
        e.f.call("void", "simt_copy", plain(e, place), source, const("i64", size))

    def update(
        self, e: Emitter, kind: AtomicKind, resource: Any, offset: Value, operand: Value
    ) -> Value:
        order = Order(MemSemantic.RELAXED, MemScope.GPU)
        place = self._place(e, resource, offset, max(bits_of(operand.type) // 8, 1))
        inside = self._inside(e, resource, offset)
        return LLVMAtomics().update(e, kind, order, place, operand, inside)

    def compare_and_swap(
        self, e: Emitter, resource: Any, offset: Value, expected: Value, new: Value
    ) -> Value:
        order = Order(MemSemantic.RELAXED, MemScope.GPU)
        place = self._place(e, resource, offset, max(bits_of(new.type) // 8, 1))
        inside = self._inside(e, resource, offset)
        return LLVMAtomics().compare_and_swap(e, order, place, expected, new, inside)

    def fence(self, e: Emitter, order: Order, *, release: bool) -> None:
        pass

    def _inside(self, e: Emitter, resource: Any, offset: Value) -> Value:
        return e.f.icmp("ult", offset, e.i32(resource[1] - (resource[1] >> 31 << 32)))

    def _place(self, e: Emitter, resource: Any, offset: Value, size: int) -> Value:
        wide, start = e.f.cast("zext", offset, "i64"), resource[0]
        place = e.f.emit(start.type, f"getelementptr i8, {start}, {wide}")
        if size > 1:
            e.f.call("void", "simt_aligned", plain(e, place), const("i64", min(size, 4)))
        return place


class Place:
    """The source line of the op that is being lowered."""

    file, line = "", 0

    def enter(self, op: Any) -> None:
        found = source_position(op.location)
        if found is not None:
            self.file, self.line, _ = found

    def tell(self, e: Emitter) -> None:
        """Have the thread tell that it has come to this line."""
        e.f.call("void", "simt_at", text_of(e, self.file), e.i32(self.line))


class SharedMemory(LLVMSharedMemory):
    """Memory of the blocks of a cluster, which accesses to other blocks' need to be running."""

    def __init__(self, place: Place):
        self._place = place

    def read_metadata(self, e: Emitter) -> str:
        return ""

    def store(
        self, e: Emitter, pointer: Value, parts: Sequence[Value], condition: Value | None
    ) -> None:
        e.f.choose_all(condition, [], partial(write_all, e, pointer, parts))

    def add(self, e: Emitter, pointer: Value, number: Value, condition: Value) -> None:
        def add() -> list[Value]:
            return [e.f.emit("i32", f"atomicrmw add {pointer}, {number} monotonic")]

        e.f.choose_all(condition, [e.i32(0)], add)

    def load_remote(
        self, e: Emitter, place: Value, block: Value, element: str, count: int
    ) -> list[Value]:
        pointer = self.mapped(e, place, block)
        check_alignment(e, pointer, element, count)
        size = max(bits_of(element) // 8, 1)
        return [e.f.load(element, p, size) for p in neighbours(e, pointer, element, count)]

    def store_remote(
        self, e: Emitter, place: Value, block: Value, parts: Sequence[Value],
        condition: Value | None,
    ) -> None:  # fmt: skip
        def write() -> list[Value]:
            return write_all(e, self.mapped(e, place, block), parts)

        e.f.choose_all(condition, [], write)

    def remote(self, e: Emitter, place: Value, block: Value) -> Value:
        """A pointer to a block's memory, for an access that may be masked because there is no such
        block."""
        return self.mapped(e, place, block, 0)

    def mapped(self, e: Emitter, place: Value, block: Value, chances: int = ACCESSES) -> Value:
        """A pointer to a block's memory for what is at a place (a pointer or an address) in this
        block's; see `simt_remote`."""
        self._place.tell(e)
        address = place if place.type == "i32" else e.address(place)
        return e.f.call("ptr", "simt_remote", address, block, e.i32(chances))


class AsyncCopies(hardware.AsyncCopies):
    """Copies that are done when their thread waits for them."""

    least_bytes = 4

    def copy(
        self, e: Emitter, to: Value, source: Value, size: int, filled: Value | None, keep: bool,
        condition: Value | None,
    ) -> None:  # fmt: skip
        def copy() -> list[Value]:
            for pointer in (to, source):
                check_alignment(e, pointer, "i8", size)
            place = plain(e, source)
            if filled is not None:
                place = e.f.select(filled, place, Value("ptr", "null"))
            e.f.call("void", "simt_copy", plain(e, to), place, const("i64", size))
            return []

        e.f.choose_all(condition, [], copy)

    def commit(self, e: Emitter) -> None:
        e.f.call("void", "simt_commit")

    def wait(self, e: Emitter, pending: int) -> None:
        e.f.call("void", "simt_wait", const("i64", pending))


class Barriers(hardware.Barriers):
    """Barriers of a block; those whose numbers are in `dropped` are left out."""

    def __init__(self, dropped: frozenset[int], place: Place, shared: SharedMemory):
        self.count, self._dropped = 0, dropped
        self._place, self._shared = place, shared

    def block(self, e: Emitter, proxy: bool, everything: bool) -> None:
        if e.barrier_number is None:
            self._meet(e, 0, 0)
        else:
            self._meet(e, e.barrier_number, e.num_warps)

    def named(self, e: Emitter, number: int, warps: int) -> None:
        self._meet(e, number, warps)

    def _meet(self, e: Emitter, number: int, warps: int) -> None:
        if self._kept():
            self._place.tell(e)
            e.f.call("void", "simt_barrier", e.i32(number), e.i32(warps))

    def _kept(self) -> bool:
        self.count += 1
        return self.count - 1 not in self._dropped

    def cluster(self, e: Emitter, *, relaxed: bool = False) -> None:
        if self._kept():
            self._place.tell(e)
            e.f.call("void", "simt_cluster")

    def prepare_clusters(self, e: Emitter, places: Sequence[Value]) -> None:
        def make() -> list[Value]:
            for place in places:
                e.f.call("void", "simt_mbarrier_init", plain(e, place), e.i32(e.num_ctas))
            return []

        e.f.choose_all(e.f.icmp("eq", e.thread, e.i32(0)), [], make)

    def cluster_at(self, e: Emitter, place: Value) -> None:
        self.block(e, proxy=False, everything=True)
        first = e.f.icmp("eq", e.thread, e.i32(0))

        def arrive() -> list[Value]:
            own = [self._arrive(e, place, step) for step in meeting(e.num_ctas)]
            return [state for state in own if state is not None]

        def wait() -> list[Value]:
            self._place.tell(e)
            (state,) = e.f.choose_all(first, [e.i32(0)], arrive)
            state = e.f.call("i32", "simt_shuffle", state, e.i32(0))
            e.f.call("void", "simt_mbarrier_wait", plain(e, place), state)
            return []

        if self._kept():
            acts = e.f.icmp("ult", e.thread, e.i32(1 << e.lane_bits))
            e.f.choose_all(acts, [], wait)
        self.block(e, proxy=False, everything=True)

    def _arrive(self, e: Emitter, place: Value, block: int) -> Value | None:
        """A step of `meeting`; the phase of the own block's mbarrier if that is it."""
        one, nothing = e.i32(1), e.i32(0)
        if block == OWN:
            return e.f.call("i32", "simt_mbarrier_arrive", plain(e, place), one, nothing)

        def arrive() -> list[Value]:
            at = self._shared.mapped(e, place, e.i32(block), ARRIVALS)
            e.f.call("i32", "simt_mbarrier_arrive", at, one, nothing)
            return []

        e.f.choose_all(e.f.icmp("ne", e.block, e.i32(block)), [], arrive)
        return None


class Atomics(LLVMAtomics):
    """Each access counts, and another program runs behind one that releases memory."""

    def begin(self, e: Emitter) -> None:
        e.f.call("void", "simt_look")

    def update(
        self, e: Emitter, kind: AtomicKind, order: Order, pointer: Value, operand: Value,
        condition: Value | None,
    ) -> Value:  # fmt: skip
        old = super().update(e, kind, order, pointer, operand, condition)
        return self._published(e, order, condition, old)

    def compare_and_swap(
        self, e: Emitter, order: Order, pointer: Value, expected: Value, new: Value,
        condition: Value | None,
    ) -> Value:  # fmt: skip
        old = super().compare_and_swap(e, order, pointer, expected, new, condition)
        return self._published(e, order, condition, old)

    def store(
        self, e: Emitter, order: Order, pointer: Value, value: Value, condition: Value | None
    ) -> Value:
        nothing = super().store(e, order, pointer, value, condition)
        return self._published(e, order, condition, nothing)

    def _published(
        self, e: Emitter, order: Order, condition: Value | None, result: Value
    ) -> Value:
        """Behind an access with a result: let another program see what has been released."""

        def switch() -> list[Value]:
            e.f.call("void", "simt_published")
            return []

        if order.semantic in (MemSemantic.RELEASE, MemSemantic.ACQUIRE_RELEASE):
            e.f.choose_all(condition, [], switch)
        return result


class Host:
    """The process that runs the kernel."""

    def print(self, e: Emitter, format: str, values: Sequence[Value]) -> None:
        e.f.module.declarations["printf"] = "declare i32 @printf(ptr, ...)"
        arguments = ", ".join(map(str, [text_of(e, format), *values]))
        e.f.emit("i32", f"call i32 (ptr, ...) @printf({arguments})")
        e.f.call("i32", "fflush", Value("ptr", "null"))

    def fail(self, e: Emitter, message: str, file: str, line: int) -> None:
        e.f.call("void", "simt_fail", text_of(e, message), text_of(e, file), e.i32(line))


def text_of(e: Emitter, text: str) -> Value:
    """A C string in the module."""
    data = text.encode() + b"\0"
    body = "".join(chr(b) if 32 <= b < 127 and b not in (34, 92) else f"\\{b:02X}" for b in data)
    return e.f.module.constant(f"[{len(data)} x i8]", f'c"{body}"', align=1, prefix="text")


class Simt(Hardware):
    """`lanes` threads a warp, with `max_shared` bytes of shared memory. `dropped`: the numbers of
    barriers to leave out."""

    name = SIMT
    title = "simt"
    kernel_linkage = ""
    function_attributes = "convergent nounwind"
    descriptor_attributes = ""
    handed_on = "=r,0"
    reserved_names = re.compile(r"simt_.*|printf|fflush|mem\w+|.*\$")

    def __init__(
        self, lanes: int, dropped: frozenset[int] = frozenset(), max_shared: int = SHARED_BYTES
    ):
        self.max_shared = max_shared
        machine = target_machine()
        self.triple, self.data_layout = machine.triple, str(machine.target_data)
        self.lanes, self.banks, self.grid, self.shuffles = lanes, Banks(), Grid(), Shuffles()
        self.place = Place()
        self.memory, self.shared = GlobalMemory(), SharedMemory(self.place)
        self.matrices, self.buffers, self.async_copies = NoMatrixMoves(), Buffers(), AsyncCopies()
        self.barriers = Barriers(dropped, self.place, self.shared)
        self.atomics, self.conversions, self.host = Atomics(), SoftwareConversions(), Host()
        self.functions, self.products = VectorMath(), mma

    @cached_property
    def rules(self) -> dict[type[Op], Rule]:
        """The rules, which tell the line of their op first."""
        return {op: self._placed(rule) for op, rule in super().rules.items()}

    def _placed(self, rule: Rule) -> Rule:
        def placed(c: Any, op: Any) -> None:
            self.place.enter(op)
            rule(c, op)

        return placed

    def check_cluster(self, num_ctas: int) -> None:
        if num_ctas > MOST_BLOCKS or num_ctas & num_ctas - 1 or num_ctas < 1:
            raise ValueError(
                f"num_ctas={num_ctas}: a cluster has 1, 2, 4, 8 or {MOST_BLOCKS} thread blocks"
            )

    def prepare(self, module: Any, options: Any) -> None:
        pass

    def kernel_attributes(
        self, num_warps: int, num_ctas: int, options: Any, registers: int | None
    ) -> str:
        return self.function_attributes
