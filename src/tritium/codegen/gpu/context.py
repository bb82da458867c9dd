"""State of lowering one function: the values of its SSA values, places in memory, barriers.

A scalar is one LLVM value. A tile is a tuple of values, one for each register of its layout in the
layout's order, so that `coordinates` says which elements they are. A piece of shared memory is a
`Memory`. Tokens have no value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from xdsl.ir import Attribute, SSAValue

from tritium.codegen.gpu.emitter import Emitter
from tritium.codegen.gpu.hardware import Hardware
from tritium.codegen.gpu.types import SHARED
from tritium.codegen.llvm.types import memory_bytes
from tritium.codegen.llvm.writer import Value, lanes
from tritium.ir import types as ir
from tritium.ir.layouts.encodings import REGISTER, linear
from tritium.ir.layouts.linear import LinearLayout
from tritium.ir.source_errors import unsupported_at

SHARED_MEMORY = "smem$"
"""The symbol of all shared memory of a kernel; no function has a name with a dollar sign."""


@dataclass(frozen=True)
class Memory:
    """A tile in shared memory: the pointer to the start of the tile that it is a slice of (or to
    its own), its type, `!ttg.memdesc`, the offset of its first element, which is to be XORed
    to those of others, and, where it is known, the pointer's distance in bytes from the start of
    the program's shared memory."""

    address: Value
    type: Any
    origin: int = 0
    start: int | None = None


UNUSED = Value("unused", "!")
"""In the place of a register of a tile that nothing uses (`demand`). No LLVM IR can name it."""

Tile: TypeAlias = "tuple[Value, ...]"
Lowered: TypeAlias = "Value | Tile | Memory | None"


def layout_of(type: Attribute) -> LinearLayout:
    """The linear layout of a tile type."""
    encoding: Any = getattr(type, "encoding", None)
    if encoding is None or not hasattr(encoding, "to_linear"):
        raise NotImplementedError(f"lowering needs a layout on {type}")
    return linear(encoding, ir.shape_of(type))


def register_count(type: Attribute) -> int:
    """The number of elements of a tile that one thread holds."""
    return layout_of(type).in_size(REGISTER)


@dataclass(eq=False, kw_only=True)
class Context(Emitter):
    """State of lowering one function.

    Args:
        hardware: the processor that is compiled for.
        axis_info: alignment, contiguity and constancy, by value.
        address_info: the same of what only addresses are made of (`AxisAnalysis` with
            `assume_no_wrap`).
        offsets: the places of allocations and of the scratch of ops in shared memory, in bytes.
        rounds: for changes of layout that work in rounds, log2 of how many.
        barriers: ops before which all warps must synchronize, and whether the tensor cores (the
            async proxy) read what was written.
        iteration: the index of the innermost `for` loop around the op; None outside of loops.
        contract: fast-math flag that lets a product and a sum become one operation, or "".
        pointer_sums: by pointer that is one, the pointer, the type of element and the index in such
            that it is the sum of.
        moved_pointers: these sums, by block, type of element, and operands.
        moved_before: additions to pointers of a tile, and whether those are added to that one
            pointer first which all others are sums of.
        demand: the mask of the registers of a tile that are used.
        line_of: the debug metadata of an op's instructions.
        libraries: bitcode files to link.
        tensor_columns: of tensor memory, that the kernel allocates.
        sharing: the functions that use shared memory, by name.
        share: the start of the program's share of global scratch memory, and the places of
            allocations in it; None without any.
        cluster_place: the place in shared memory of the mbarrier at which the warps that run this
            code meet those of the cluster's other thread blocks; None where all warps run it.
        at_return: writes what comes before each return.
        plan: which warps run which partitions of a kernel (`partitions.Plan`); None where all run
            the same code.
    """

    hardware: Hardware
    axis_info: Callable[[SSAValue], Any]
    address_info: Callable[[SSAValue], Any]
    offsets: dict[Any, int]
    rounds: Mapping[Any, int] = field(default_factory=dict[Any, int])
    barriers: dict[Any, bool] = field(default_factory=dict[Any, bool])
    contract: str = "contract"
    demand: Callable[[SSAValue], int] = lambda value: -1
    line_of: Callable[[Any], str] = lambda op: ""
    values: dict[SSAValue, Lowered] = field(default_factory=dict[SSAValue, Lowered])
    vectors: dict[tuple[Value, ...], Value] = field(default_factory=dict[tuple[Value, ...], Value])
    pointer_sums: dict[Value, tuple[Value, str, Value]] = field(
        default_factory=dict[Value, tuple[Value, str, Value]]
    )
    moved_pointers: dict[tuple[str, ...], Value] = field(
        default_factory=dict[tuple[str, ...], Value]
    )
    moved_before: dict[Any, bool] = field(default_factory=dict[Any, bool])
    libraries: set[str] = field(default_factory=set[str])
    iteration: Value | None = None
    tensor_columns: int = 0
    sharing: frozenset[str] = frozenset()
    share: Any = None
    plan: Any = None
    cluster_place: int | None = None
    at_return: Callable[[], None] = lambda: None
    _last_barrier: tuple[tuple[int, int], bool, bool] | None = None

    # Values

    def scalar(self, value: SSAValue) -> Value:
        """The value of a scalar."""
        found = self.values[value]
        assert isinstance(found, Value), value
        return found

    def tile(self, value: SSAValue) -> Tile:
        """The registers of a tile; a scalar is a tile of one."""
        found = self.values[value]
        if isinstance(found, Value):
            return (found,)
        assert isinstance(found, tuple), value
        return found

    def memory(self, value: SSAValue) -> Memory:
        """The place of a tile in shared memory."""
        found = self.values[value]
        assert isinstance(found, Memory), value
        return found

    def start_of(self, memory: Memory) -> Value:
        """The address (i32) of a tile's first row, which is not permuted: units that apply the
        swizzle of the layout themselves take it."""
        start = self.address(memory.address)
        size = memory_bytes(memory.type.element_type)
        return self.f.op("add", start, self.i32(memory.origin * size)) if memory.origin else start

    def set(self, value: SSAValue, lowered: Any) -> None:
        """Define a result. A sequence becomes a tile, or a scalar if the type is one."""
        if isinstance(lowered, (list, tuple)) and not isinstance(lowered, Value):
            lowered = self._parts_of(value, lowered)  # pyright: ignore[reportUnknownArgumentType]
        self.values[value] = lowered

    @staticmethod
    def _parts_of(value: SSAValue, parts: Sequence[Value]) -> Tile | Value:
        return tuple(parts) if ir.shape_of(value.type) else parts[0]

    def flat(self, value: SSAValue) -> list[Value]:
        """All LLVM values of a value, for phis and calls."""
        found = self.values[value]
        if found is None:
            return []
        if isinstance(found, Memory):
            if found.origin:
                raise NotImplementedError(f"a slice of shared memory, {found.type}, in a branch, "
                                          "loop or call")  # fmt: skip
            return [found.address]
        return [found] if isinstance(found, Value) else list(found)

    def unflat(self, value: SSAValue, parts: list[Value], like: Lowered) -> None:
        """Define a value from the front of `parts` (removed), in the form of `like`."""
        if like is None:
            self.values[value] = None
        elif isinstance(like, Memory):
            self.values[value] = Memory(parts.pop(0), value.type)
        elif isinstance(like, Value):
            self.values[value] = parts.pop(0)
        else:
            self.values[value] = tuple(parts.pop(0) for _ in like)

    def unsupported(self, op: Any, why: str = "") -> NotImplementedError:
        """The error for what is not built, with the op's source line."""
        reason = f" ({why})" if why else ""
        return unsupported_at(
            getattr(op, "location", None),
            f"the {self.hardware.title} backend does not support {op.name}{reason}",
        )

    # Pairs of elements that one instruction computes

    def joined(self, *values: Value) -> Value:
        """Values as a vector: the one that they were taken from (`parted`), if any."""
        known = self.vectors.get(values)
        return known if known is not None else self.vector(values)

    def parted(self, joined: Value) -> tuple[Value, ...]:
        """The values of a vector."""
        found = tuple(self.f.extract(joined, lane) for lane in range(lanes(joined.type)))
        self.vectors[found] = joined
        return found

    def anew(self, value: Value) -> Value:
        if self.iteration is None or not self.hardware.computes_again:
            return value
        return self.hardware.handed_on(self, value, self.iteration)

    # Thread blocks

    @property
    def block(self) -> Value:
        """The index of the thread block in its cluster."""
        if self.num_ctas == 1:
            return self.i32(0)
        return self.at_entry("block", lambda: self.hardware.grid.block_in_cluster(self))

    def barrier(self, proxy: bool = False, everything: bool = False) -> None:
        """Synchronize the threads that run this code; each sees what the others wrote to shared
        memory, with `everything` to all memory. `proxy`: what they wrote to shared memory is then
        also visible to matrix units and copy engines that read it on their own. Nothing is written
        right behind a barrier that does as much."""
        if self._last_barrier is not None:
            position, had_proxy, had_everything = self._last_barrier
            if position == self.f.position and had_proxy >= proxy and had_everything >= everything:
                return
        self.hardware.barriers.block(self, proxy, everything)
        self._last_barrier = self.f.position, proxy, everything

    def synchronize(self) -> None:
        """Synchronize the threads of the program; each sees what the others wrote to memory."""
        if self.num_ctas == 1:
            self.barrier(everything=True)
        elif self.cluster_place is None:
            self.hardware.barriers.cluster(self)
        else:
            self.hardware.barriers.cluster_at(self, self.shared(self.cluster_place))

    def shared(self, offset: int) -> Value:
        """The pointer to a place in the program's shared memory, in bytes from its start."""
        return self.byte_offset(Value(SHARED, f"@{SHARED_MEMORY}"), self.i32(offset))
