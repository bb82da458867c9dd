"""What lowering one function shares: the writer, where values are, thread indices, inline asm.

A scalar is one LLVM value. A tile is a tuple of values, one for each register of its layout in the
layout's order, so that `coordinates` says which elements they are. A piece of shared memory is a
`Memory`. Tokens have no value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from xdsl.ir import Attribute, SSAValue

from tritium.backends.nvidia.lower.types import SHARED
from tritium.ir import types as ir
from tritium.ir.layouts.encodings import BLOCK, LANE, REGISTER, WARP, linear
from tritium.ir.layouts.linear import LinearLayout
from tritium.lowering.llvm import Function, Section, Value, const

SHARED_MEMORY = "smem$"
"""The symbol of all shared memory of a kernel; no function has a name with a dollar sign."""


@dataclass(frozen=True)
class Memory:
    """A tile in shared memory: the pointer to its start, and its type, `!ttg.memdesc`."""

    address: Value
    type: Any


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
    """How many elements of a tile one thread holds."""
    return layout_of(type).in_size(REGISTER)


@dataclass(eq=False)
class Context:
    """State of lowering one function.

    Args:
        f: the LLVM function being written.
        arch: the compute capability, 90 for example.
        num_warps: warps of a block.
        num_ctas: blocks of a program; with more than one they are a cluster.
        axis_info: what is known of alignment, by value.
        offsets: where the allocations and the scratch of ops are in shared memory, in bytes.
        barriers: ops before which all warps must meet, and whether the tensor cores (the async
            proxy) read what was written.
        entry: a section that dominates the whole body; index arithmetic goes there.
        thread: the thread's index; `lane` and `warp` are parts of it.
        contract: fast-math flag that lets a product and a sum become one operation, or "".
        demand: the mask of the registers of a tile that are used.
        line_of: the debug metadata of an op's instructions.
        libraries: bitcode files to link.
        sharing: the functions that use shared memory, by name.
        share: where the program's share of global scratch memory begins, and the places of
            allocations in it; None without any.
    """

    f: Function
    arch: int
    num_warps: int
    axis_info: Callable[[SSAValue], Any]
    offsets: dict[Any, int]
    barriers: dict[Any, bool]
    entry: Section
    thread: Value
    lane: Value
    warp: Value
    num_ctas: int = 1
    contract: str = "contract"
    demand: Callable[[SSAValue], int] = lambda value: -1
    line_of: Callable[[Any], str] = lambda op: ""
    values: dict[SSAValue, Lowered] = field(default_factory=dict[SSAValue, Lowered])
    libraries: set[str] = field(default_factory=set[str])
    sharing: frozenset[str] = frozenset()
    share: Any = None
    _uniform_warp: Value | None = None
    _block: Value | None = None
    _parts: dict[tuple[tuple[int, ...], ...], tuple[Value, int]] = field(
        default_factory=dict[tuple[tuple[int, ...], ...], tuple[Value, int]]
    )

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
        """The error for what is not built, with the source line."""
        where = getattr(op, "location", None)
        place = "" if where is None else f" at {where}"
        reason = f" ({why})" if why else ""
        return NotImplementedError(f"the NVIDIA backend does not support {op.name}{reason}{place}")

    # Indices

    def i32(self, number: int) -> Value:
        return const("i32", number)

    def linear_map(self, index: Value, columns: Sequence[int]) -> Value | None:
        """The XOR of the columns that the bits of `index` select; None if that is always 0.

        Bits that move by the same distance are moved together: an identity costs one `and`.
        """
        moves: dict[int, int] = {}
        for source, column in enumerate(columns):
            for target in range(column.bit_length()):
                if column >> target & 1:
                    distance = target - source
                    moves[distance] = moves.get(distance, 0) | 1 << source
        result, reached = None, 0
        for distance, mask in sorted(moves.items()):
            part = self.f.op("and", index, self.i32(mask))
            if distance > 0:
                part = self.f.op("shl", part, self.i32(distance), "nuw nsw")
            elif distance < 0:
                part = self.f.op("lshr", part, self.i32(-distance), "exact")
            moved = mask << distance if distance >= 0 else mask >> -distance
            result = part if result is None else self.merge(result, part, reached & moved != 0)
            reached |= moved
        return result

    def merge(self, a: Value, b: Value, overlap: bool) -> Value:
        """`a ^ b`, written as an addition without carry where their bits do not overlap."""
        return self.f.op("xor", a, b) if overlap else self.f.op("or", a, b, "disjoint")

    def thread_part(self, layout: LinearLayout) -> tuple[Value, int]:
        """What the lane, the warp and the block contribute to the layout's (only) output, and
        which bits of it they can set. `layout` has one output dimension; outputs wider than 31
        bits do not occur."""
        key = tuple(layout.columns_of(name) for name in (LANE, WARP, BLOCK))
        if key not in self._parts:
            lines = self.f.enter(self.entry)
            self._parts[key] = self._thread_part(*key)
            self.f.leave(lines)
        return self._parts[key]

    def _thread_part(
        self, of_lane: tuple[int, ...], of_warp: tuple[int, ...], of_block: tuple[int, ...]
    ) -> tuple[Value, int]:
        columns = (*of_lane, *[0] * (5 - len(of_lane)), *of_warp)
        parts: list[tuple[Value, int]] = []
        for index, chosen in ((self.thread, columns), (self.block, of_block)):
            part, reached = self.linear_map(index, chosen), 0
            for column in chosen:
                reached |= column
            if part is not None:
                parts.append((part, reached))
        if not parts:
            return self.i32(0), 0
        if len(parts) == 1:
            return parts[0]
        (a, mine), (b, theirs) = parts
        return self.merge(a, b, mine & theirs != 0), mine | theirs

    def positions(self, layout: LinearLayout, registers: Sequence[int]) -> list[Value]:
        """The layout's (only) output, for each of some registers."""
        base, reached = self.thread_part(layout)
        columns = layout.columns_of(REGISTER)
        result: list[Value] = []
        for register in registers:
            offset = 0
            for bit, column in enumerate(columns):
                if register >> bit & 1:
                    offset ^= column
            if offset == 0:
                result.append(base)
            else:
                result.append(self.merge(base, self.i32(offset), reached & offset != 0))
        return result

    def pointers(
        self, base: Value, place: LinearLayout, registers: Sequence[int], element: str,
        moved: tuple[Value | None, int] = (None, 0),
    ) -> list[Value]:  # fmt: skip
        """Where some registers are in shared memory, `place` being the offsets in elements: what
        the thread does not change is left to the instructions' immediate offsets.

        `moved`: what is to be XORed to all offsets, and the bits that this can set.
        """
        part, reached = self.thread_part(place)
        further, bits = moved
        if further is not None:
            part = self.merge(part, further, bool(reached & bits))
            reached |= bits
        columns, size = place.columns_of(REGISTER), max(bits_of(element) // 8, 1)
        starts: dict[int, Value] = {}
        result: list[Value] = []
        for register in registers:
            offset = 0
            for bit, column in enumerate(columns):
                if register >> bit & 1:
                    offset ^= column
            mixed = offset & reached
            if mixed not in starts:
                index = self.f.op("xor", part, self.i32(mixed)) if mixed else part
                starts[mixed] = self.f.emit(base.type, f"getelementptr {element}, {base}, {index}")
            result.append(self.byte_offset(starts[mixed], self.i32((offset ^ mixed) * size)))
        return result

    def owner(self, layout: LinearLayout, *, of_program: bool = False) -> Value | None:
        """Whether this thread is the one that writes what it holds: of the threads of its block
        (with `of_program`, of all blocks of the cluster) with copies of the same elements, the
        first. None where there are no copies."""
        free = layout.free_variables()
        condition = None
        names = (LANE, WARP, BLOCK) if of_program else (LANE, WARP)
        for name in names:
            mask = free.get(name, 0)
            if mask:
                index = {LANE: self.lane, WARP: self.warp}.get(name) or self.block
                first = self.f.icmp("eq", self.f.op("and", index, self.i32(mask)), self.i32(0))
                condition = first if condition is None else self.f.op("and", condition, first)
        return condition

    @property
    def first(self) -> Value:
        """Whether this is the thread that acts for the whole program."""
        first = self.f.icmp("eq", self.thread, self.i32(0))
        if self.num_ctas == 1:
            return first
        return self.f.op("and", first, self.f.icmp("eq", self.block, self.i32(0)))

    @property
    def block(self) -> Value:
        """The block's index in its cluster."""
        if self.num_ctas == 1:
            return self.i32(0)
        if self._block is None:
            lines = self.f.enter(self.entry)
            self._block = self.f.call("i32", "llvm.nvvm.read.ptx.sreg.cluster.ctarank")
            self.f.leave(lines)
        return self._block

    @property
    def uniform_warp(self) -> Value:
        """The warp's index in a form that the assembler knows to be the same in all lanes."""
        if self._uniform_warp is None:
            lines = self.f.enter(self.entry)
            name = "llvm.nvvm.shfl.sync.idx.i32"
            self.f.module.declare(name, "i32", ["i32"] * 4)
            call = f"call i32 @{name}(i32 -1, {self.warp}, i32 0, i32 31) {self.convergent}"
            self._uniform_warp = self.f.emit("i32", call)
            self.f.leave(lines)
        return self._uniform_warp

    # Instructions

    def asm(
        self, result: str, text: str, constraints: str, *arguments: Value, effects: bool = True
    ) -> Value:
        """Inline PTX. `result` may be a struct type, whose members `members` takes apart."""
        flags = "sideeffect " if effects else ""
        call = (
            f'call {result} asm {flags}"{text}", "{constraints}"'
            f"({', '.join(map(str, arguments))}) {self.convergent}"
        )
        if result == "void":
            self.f.line(call)
            return Value("void", "")
        return self.f.emit(result, call)

    @property
    def convergent(self) -> str:
        """The attribute group of calls that all threads must reach together."""
        return self.f.module.attributes("convergent nounwind")

    def members(self, struct: Value, types: Sequence[str]) -> list[Value]:
        """The members of a struct (of the value itself if there is only one)."""
        if len(types) == 1:
            return [struct]
        return [self.f.emit(t, f"extractvalue {struct}, {i}") for i, t in enumerate(types)]

    def barrier(self, proxy: bool = False) -> None:
        """All threads of the block meet. `proxy`: what they wrote to shared memory is then also
        visible to the tensor cores and the bulk copy engine."""
        if proxy:
            self.asm("void", "fence.proxy.async.shared::cta;", "~{memory}")
        self.f.module.declare("llvm.nvvm.barrier.cta.sync.aligned.all", "void", ["i32"])
        self.f.line(
            f"call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0) {self.convergent}"
        )

    def meet(self) -> None:
        """All threads of the program meet, and see what they wrote to each other's memory."""
        if self.num_ctas == 1:
            self.barrier()
            return
        text = "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;"
        self.asm("void", text, "~{memory}")

    def in_block(self, address: Value, block: Value) -> Value:
        """The address (i32) in the cluster's shared memory of what lies at `address` of this
        block's, but in that of another block."""
        text = "mapa.shared::cluster.u32 $0, $1, $2;"
        return self.asm("i32", text, "=r,r,r", address, block, effects=False)

    def shared(self, offset: int) -> Value:
        """The pointer to a place in the program's shared memory, in bytes from its start."""
        return self.byte_offset(Value(SHARED, f"@{SHARED_MEMORY}"), self.i32(offset))

    def byte_offset(self, pointer: Value, offset: Value) -> Value:
        """A pointer moved on by some bytes."""
        if offset.ref == "0":
            return pointer
        return self.f.emit(pointer.type, f"getelementptr i8, {pointer}, {offset}")

    def address(self, pointer: Value) -> Value:
        """A pointer to shared memory as the i32 that asm operands take."""
        return self.f.cast("ptrtoint", pointer, "i32")

    def pack(self, parts: Sequence[Value], word: str) -> list[Value]:
        """Neighbouring elements put together into words: four half as two i32."""
        element = parts[0].type
        per_word = bits_of(word) // bits_of(element)
        if per_word == 1:
            return [self.as_type(p, word) for p in parts]
        words: list[Value] = []
        for start in range(0, len(parts), per_word):
            vector = Value(f"<{per_word} x {element}>", "poison")
            for lane in range(per_word):
                vector = self.f.insert(vector, parts[start + lane], lane)
            words.append(self.f.cast("bitcast", vector, word))
        return words

    def unpack(self, words: Sequence[Value], element: str) -> list[Value]:
        """The elements of words, the inverse of `pack`."""
        per_word = bits_of(words[0].type) // bits_of(element)
        if per_word == 1:
            return [self.as_type(w, element) for w in words]
        parts: list[Value] = []
        for word in words:
            vector = self.f.cast("bitcast", word, f"<{per_word} x {element}>")
            parts += [self.f.extract(vector, lane) for lane in range(per_word)]
        return parts

    def as_type(self, value: Value, type: str) -> Value:
        """The same bits as another type; pointers as i64."""
        if value.type == type:
            return value
        if value.type.startswith("ptr"):
            return self.f.cast("ptrtoint", value, type)
        if type.startswith("ptr"):
            return self.f.cast("inttoptr", value, type)
        return self.f.cast("bitcast", value, type)


_BITS = {"half": 16, "bfloat": 16, "float": 32, "double": 64}


def bits_of(type: str) -> int:
    """The width of a scalar LLVM type."""
    if type.startswith("ptr"):
        return 64
    return _BITS.get(type) or int(type[1:])
