"""State of the code generation of one function: the writer, the host, the places of values."""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

from xdsl.ir import Block, SSAValue

from tritium.backends.cpu.dot.plan import Host
from tritium.backends.cpu.lower.values import Lanes
from tritium.backends.cpu.tiles.ir import TileFunction
from tritium.backends.cpu.tiles.schedule import Facts
from tritium.codegen.llvm.types import memory_bytes
from tritium.codegen.llvm.writer import Function, Section, Value, const
from tritium.ir import types as ir
from tritium.ir.source_errors import unsupported_at
from tritium.native.host import CPU
from tritium.ops.tile import BufferOp

GRID = ("x", "y", "z", "nx", "ny", "nz")
"""The program's place in the grid, and the grid, as every function takes them (i32)."""
STREAM = "stream"
"""True if the launch writes so much that stores should bypass the caches (i1)."""
EXCLUSIVE = "exclusive"
"""True if no other thread runs programs (i1)."""


def class_of(op: object) -> type[Any]:
    """An op's class, by which rules are looked up."""
    return type(op)


def as_tuple(results: Any) -> tuple[Value, ...]:
    """A rule's result, a single value or a tuple, as a tuple."""
    if isinstance(results, Value) or not isinstance(results, tuple):
        return (results,)
    return cast("tuple[Value, ...]", results)


class Assumed(NamedTuple):
    """Assumptions of the code that is being written.

    Args:
        unwrapped: tiles of integers that are widened and do not wrap around in their own type.
        addresses_hold: whether the facts of `address_info` hold.
    """

    unwrapped: frozenset[SSAValue]
    addresses_hold: bool


NOTHING_ASSUMED = Assumed(frozenset(), False)


_NO_LINES = nullcontext()


@dataclass(eq=False)
class Context:
    """State of lowering one function.

    Args:
        f: the LLVM function being written.
        function: the tile function it comes from.
        processor: what the code is for.
        scratch: pointer to this function's buffers.
        program: pointers and numbers of the kernel ABI (`pid.x`, `grid.x`, `fault`, ...).
        contract: fast-math flags that let a product and a sum become one operation, or "".
        axis_info: what is known of alignment, by value, whatever wraps around; `address_info`
            where nothing does and nothing that is divided is negative (`assume_no_wrap`).
        entry: a section that dominates the whole body.
        callees: LLVM names of the functions that can be called.
        run: writes the steps of a block (`control.lower_steps`).
        load_buffer: reads elements of a buffer (`access.load_buffer`).
        axes: by op what `result_axes` gives.
        external: addresses of buffers that the caller provides, by identity.
    """

    f: Function
    function: TileFunction
    processor: CPU
    scratch: Value
    program: dict[str, Value]
    contract: str
    axis_info: Callable[[SSAValue], Any]
    address_info: Callable[[SSAValue], Any]
    entry: Section
    callees: dict[str, str]
    run: Callable[[Context, Block], None]
    load_buffer: Callable[..., Lanes]
    axes: dict[Any, tuple[int | None, ...]] = field(
        default_factory=dict[Any, "tuple[int | None, ...]"]
    )
    external: dict[int, Value] = field(default_factory=dict[int, Value])
    scalars: dict[SSAValue, Value] = field(default_factory=dict[SSAValue, Value])
    filled: dict[SSAValue, BufferOp] = field(default_factory=dict[SSAValue, BufferOp])
    temporary_bytes: int = 0
    exclusive: bool = False
    """True if what is being written runs only where `EXCLUSIVE` is true."""
    assumed: Assumed = NOTHING_ASSUMED
    """The assumptions of the code that is being written."""
    kept: list[int] = field(default_factory=list[int])
    """The offsets of the parts of the memory that programs leave for the next (`keep`)."""
    kept_bytes: int = 0
    line_of: Callable[[Any], str] | None = None
    """The debug metadata of an op's instructions (`DebugInfo.of_op`); None without lines."""
    copies_views: bool = False
    """True if dots copy the operands that they could read where they are."""
    _note: str | None = None
    _addresses: dict[int, Value] = field(default_factory=dict[int, Value])

    def lines(self, op: Any) -> AbstractContextManager[None]:
        """The instructions that are written meanwhile come from an op's line."""
        return _NO_LINES if self.line_of is None else self._located(self.line_of(op))

    @contextmanager
    def _located(self, location: str) -> Generator[None]:
        outer, self.f.location = self.f.location, location
        try:
            yield
        finally:
            self.f.location = outer

    @property
    def buffers(self) -> dict[SSAValue, BufferOp]:
        """The buffers of tiles that are in memory by now."""
        return self.filled

    def fill(self, value: SSAValue) -> None:
        """Record that from here on the tile can be read from its buffer."""
        held = self.function.buffers.get(value)
        if held is not None:
            self.filled[value] = held

    def info(self, value: SSAValue) -> Any:
        """Known alignments in the code that is being written."""
        return self.address_info(value) if self.assumed.addresses_hold else self.axis_info(value)

    @functools.cached_property
    def features(self) -> frozenset[str]:
        """LLVM's names of what the processor has."""
        return frozenset(self.processor.features)

    @property
    def facts(self) -> Facts:
        """Facts on which the schedules of parts of nests depend."""
        return Facts(self.filled, self.address_info, self.host.bits, self.host.registers)

    @functools.cached_property
    def host(self) -> Host:
        """The processor as the dot emitters know it: register sizes and instructions."""
        return Host.of(self.processor.architecture, self.features)

    @contextmanager
    def temporary(self) -> Generator[Callable[[int], Value], None, None]:
        """Scratch behind the buffers for one step; yields a function that gives 64-byte-aligned
        memory of a number of bytes."""
        base = -(-self.function.scratch_bytes // 64) * 64
        used = 0

        def allocate(size: int) -> Value:
            nonlocal used
            place = self.scratch_at(base + used)
            used += -(-size // 64) * 64
            self.temporary_bytes = max(self.temporary_bytes, used)
            return place

        yield allocate

    def streaming_note(self) -> str:
        """The metadata that makes a store bypass the caches."""
        if self._note is None:
            self._note = self.f.module.add_metadata("!{i32 1}")
        return self._note

    def address(self, buffer: BufferOp) -> Value:
        """The address of a buffer's first element."""
        given = self.external.get(id(buffer))
        if given is not None:
            return given
        assert buffer.offset >= 0, f"@{buffer.sym_name} has no place"
        return self.scratch_at(buffer.offset)

    @property
    def scratch_end(self) -> Value:
        """The memory behind all that this function uses; defined when the function is complete."""
        return Value("ptr", "%scratch.end")

    def keep(self, size: int) -> Value:
        """Memory that a program finds as the one before on its thread left it; its first 8 bytes
        are -1 where there is none before. In kernels only."""
        self.kept.append(self.kept_bytes)
        self.kept_bytes += -(-size // 64) * 64
        return self.f.offset(Value("ptr", "%kept"), self.kept[-1])

    def finish(self, callees: int) -> int:
        """Define `scratch_end` and the kept memory; returns how much this function and those that
        it calls (`callees` bytes) use."""
        used = -(-(self.function.scratch_bytes + self.temporary_bytes) // 64) * 64
        total = -(-(used + callees) // 64) * 64
        for name, offset in ((self.scratch_end.ref, used), ("%kept", total)):
            text = f"  {name} = getelementptr inbounds i8, {self.scratch}, i64 {offset}"
            self.entry.lines.append(text)
        self.kept = [total + offset for offset in self.kept]
        return total + self.kept_bytes

    def scratch_at(self, offset: int) -> Value:
        """An address in scratch."""
        known = self._addresses.get(offset)
        if known is None:
            lines = self.f.enter(self.entry)
            known = self.f.gep("i8", self.scratch, const("i64", offset))
            self.f.leave(lines)
            self._addresses[offset] = known
        return known

    def pointee_bytes(self, type: ir.Type) -> int:
        """Bytes of what a pointer (or tile of pointers) points to."""
        element = ir.element_type(type)
        assert isinstance(element, ir.PointerType)
        return memory_bytes(element.pointee)

    def unsupported(self, op: Any, why: str = "") -> NotImplementedError:
        """The error for what is not built, with the source line."""
        return unsupported_at(
            getattr(op, "location", None), f"the CPU backend does not support {op.name}{why}"
        )


def either(
    c: Context,
    results: Sequence[SSAValue],
    holds: Value,
    first: Callable[[], None],
    second: Callable[[], None],
    names: tuple[str, str] = ("whole", "general"),
) -> None:
    """Code that does `first` if `holds`, else `second`; both define the scalars `results`, unless
    these have a value already. `names` are those of the blocks."""
    f, before = c.f, {r: c.scalars[r] for r in results if r in c.scalars}
    labels, done = [f.new_label(name) for name in names], f.new_label("joined")
    f.branch_if(holds, labels[0], labels[1])
    arrivals: list[tuple[str, list[Value]]] = []
    for label, write in zip(labels, (first, second), strict=True):
        f.label(label)
        c.scalars.update(before)
        write()
        arrivals.append((f.block, [c.scalars[r] for r in results]))
        f.branch(done)
    f.label(done)
    for number, result in enumerate(results):
        incoming = [(values[number], label) for label, values in arrivals]
        c.scalars[result] = f.phi(incoming[0][0].type, incoming).value
