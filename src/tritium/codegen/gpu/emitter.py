"""Writing one thread's instructions: thread indices, addresses, packed words, inline assembly."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tritium.codegen.llvm.writer import Function, Section, Value, const
from tritium.ir.layouts import gf2
from tritium.ir.layouts.encodings import BLOCK, LANE, REGISTER, WARP
from tritium.ir.layouts.linear import LinearLayout


@dataclass(eq=False)
class Emitter(ABC):
    """Writes the instructions of one function.

    Args:
        f: the LLVM function being written.
        entry: a section that dominates the whole body; index arithmetic goes there.
        num_warps: warps that run this code, a power of two.
        num_ctas: thread blocks of a program; with more than one they are a cluster.
        lane_bits: the logarithm of the number of lanes of a warp.
        thread: the thread's index among those that run this code: of its block, or of a partition
            of it; `lane` and `warp` are parts of it.
        barrier_number: the barrier of the threads that run this code; None where that is all
            threads of the block.
    """

    f: Function
    entry: Section
    num_warps: int
    num_ctas: int
    lane_bits: int
    thread: Value
    lane: Value
    warp: Value
    barrier_number: int | None = None
    _parts: dict[tuple[tuple[int, ...], ...], tuple[Value, int]] = field(
        default_factory=dict[tuple[tuple[int, ...], ...], tuple[Value, int]], init=False
    )

    _words: dict[tuple[Value, ...], Value] = field(
        default_factory=dict[tuple[Value, ...], Value], init=False
    )
    """The words that elements were unpacked from."""
    _moved: dict[Value, tuple[Value, int]] = field(
        default_factory=dict[Value, tuple[Value, int]], init=False
    )
    """Pointers that are others moved on by a constant number of bytes."""
    _entry_values: dict[str, Value] = field(default_factory=dict[str, Value], init=False)

    def at_entry(self, name: str, compute: Callable[[], Value]) -> Value:
        """A value that is computed once, at the function's entry; `name` identifies it."""
        if name not in self._entry_values:
            lines = self.f.enter(self.entry)
            self._entry_values[name] = compute()
            self.f.leave(lines)
        return self._entry_values[name]

    def place_anew(self, thread: Value) -> None:
        """Compute what depends on the thread's index from `thread`, here, for the code behind."""
        self.thread, self.entry = thread, self.f.section()
        self.lane = self.f.op("and", thread, self.i32((1 << self.lane_bits) - 1))
        self.warp = self.f.op("lshr", thread, self.i32(self.lane_bits))
        self._parts.clear()

    @abstractmethod
    def anew(self, value: Value) -> Value:
        """The value; what is computed from it in a loop is computed in each iteration."""

    @property
    @abstractmethod
    def block(self) -> Value:
        """The index of the thread block in its cluster."""

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
        """The part of the layout's (only) output that lane, warp and block give, and the bits of it
        that they can set. `layout` has one output dimension of less than 32 bits."""
        key = tuple(layout.columns_of(name) for name in (LANE, WARP, BLOCK))
        if key not in self._parts:
            lines = self.f.enter(self.entry)
            self._parts[key] = self._thread_part(*key)
            self.f.leave(lines)
        return self._parts[key]

    def _thread_part(
        self, of_lane: tuple[int, ...], of_warp: tuple[int, ...], of_block: tuple[int, ...]
    ) -> tuple[Value, int]:
        columns = (*of_lane, *[0] * (self.lane_bits - len(of_lane)), *of_warp)
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
            offset = gf2.apply(columns, register)
            if offset == 0:
                result.append(base)
            else:
                result.append(self.merge(base, self.i32(offset), reached & offset != 0))
        return result

    def pointers(
        self, base: Value, place: LinearLayout, registers: Sequence[int], element: str,
        moved: tuple[Value | None, int] = (None, 0),
    ) -> list[Value]:  # fmt: skip
        """Pointers to some registers' elements in shared memory. `place`: their offsets in
        elements; what the thread does not change is left to the instructions' immediate offsets.

        `moved`: what is to be XORed to all offsets, and the bits that this can set.
        """
        part, reached = self.thread_part(place)
        further, bits = moved
        if further is not None:
            part = self.merge(part, further, bool(reached & bits))
            reached |= bits
        columns, size = place.columns_of(REGISTER), max(bits_of(element) // 8, 1)
        offsets = [gf2.apply(columns, register) for register in registers]
        if len({offset & reached for offset in offsets}) > 1:
            part = self.anew(part)
        starts: dict[int, Value] = {}
        result: list[Value] = []
        for offset in offsets:
            mixed = offset & reached
            if mixed not in starts:
                index = self.f.op("xor", part, self.i32(mixed)) if mixed else part
                starts[mixed] = self.f.emit(base.type, f"getelementptr {element}, {base}, {index}")
            result.append(self.byte_offset(starts[mixed], self.i32((offset ^ mixed) * size)))
        return result

    def owner(self, layout: LinearLayout, *, of_program: bool = False) -> Value | None:
        """True if this thread is the one that writes what it holds: of the threads of its block
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
        """True if this is the thread that acts for the whole program."""
        first = self.f.icmp("eq", self.thread, self.i32(0))
        if self.num_ctas == 1:
            return first
        return self.f.op("and", first, self.f.icmp("eq", self.block, self.i32(0)))

    # Instructions

    def asm(
        self, result: str, text: str, constraints: str, *arguments: Value, effects: bool = True
    ) -> Value:
        """Inline assembly. `result` may be a struct type, whose members `members` takes apart."""
        flags = "sideeffect " if effects else ""
        if len(result) > _LONG_TYPE:
            result = self.f.module.named_type(result)
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

    def call_together(self, result: str, name: str, *arguments: Value) -> Value:
        """Call a function that all threads must reach together."""
        return self.f.call(result, name, *arguments, suffix=f" {self.convergent}")

    def members(self, struct: Value, types: Sequence[str]) -> list[Value]:
        """The members of a struct (of the value itself if there is only one)."""
        if len(types) == 1:
            return [struct]
        return [self.f.emit(t, f"extractvalue {struct}, {i}") for i, t in enumerate(types)]

    def byte_offset(self, pointer: Value, offset: Value) -> Value:
        """A pointer moved on by some bytes."""
        if offset.ref == "0":
            return pointer
        moved = self.f.emit(pointer.type, f"getelementptr i8, {pointer}, {offset}")
        if offset.ref.isdigit():
            self._moved[moved] = pointer, int(offset.ref)
        return moved

    def address(self, pointer: Value) -> Value:
        """A pointer to shared memory as the i32 that asm operands take."""
        return self.f.cast("ptrtoint", pointer, "i32")

    def immediate(self, pointer: Value) -> tuple[Value, str]:
        """A pointer to shared memory as an instruction of asm takes it: `address` of what it is
        moved on from, and the text behind that operand which adds the constant (` + 1024`). LLVM
        compares pointers that differ by constants in pairs; these are none."""
        start, offset = self._moved.get(pointer, (pointer, 0))
        return self.address(start), f" + {offset}" if offset else ""

    def load_neighbours(
        self, pointer: Value, element: str, count: int, flags: str = "", metadata: str = ""
    ) -> list[Value]:
        """Load aligned neighbours by an instruction that LLVM can give an immediate offset."""
        return self.unpack(self.load_words(pointer, element, count, flags, metadata), element)

    def load_words(
        self, pointer: Value, element: str, count: int, flags: str = "", metadata: str = ""
    ) -> list[Value]:
        """Load aligned neighbours as the words that `unpack` takes apart."""
        size = max(bits_of(element) // 8, 1) * count
        word = word_type(element, count) if count > 1 else element
        words = bits_of(element) * count // bits_of(word)
        type = f"<{words} x {word}>" if words > 1 else word
        vector = self.f.emit(type, f"load {flags}{type}, {pointer}, align {size}{metadata}")
        return [self.f.extract(vector, i) for i in range(words)] if words > 1 else [vector]

    def store_neighbours(
        self, pointer: Value, parts: Sequence[Value], flags: str = "", metadata: str = ""
    ) -> None:
        """Store aligned neighbours; LLVM puts the constant part of the address into the
        instruction."""
        word = word_type(parts[0].type, len(parts))
        words = self.pack(parts, word)
        value = self.vector(words)
        size = bits_of(word) * len(words) // 8
        self.f.line(f"store {flags}{value}, {pointer}, align {size}{metadata}")

    def vector(self, values: Sequence[Value]) -> Value:
        """Values as a vector; one alone as it is."""
        if len(values) == 1:
            return values[0]
        found = Value(f"<{len(values)} x {values[0].type}>", "poison")
        for lane, value in enumerate(values):
            found = self.f.insert(found, value, lane)
        return found

    def pack(self, parts: Sequence[Value], word: str) -> list[Value]:
        """Neighbouring elements put together into words: four half as two i32."""
        element = parts[0].type
        per_word = bits_of(word) // bits_of(element)
        if per_word == 1:
            return [self.as_type(p, word) for p in parts]
        words: list[Value] = []
        for start in range(0, len(parts), per_word):
            chosen = tuple(parts[start : start + per_word])
            whole = self._words.get(chosen)
            if whole is None or whole.type != word:
                whole = self.f.cast("bitcast", self.vector(chosen), word)
            words.append(whole)
        return words

    def unpack(self, words: Sequence[Value], element: str) -> list[Value]:
        """The elements of words, the inverse of `pack`."""
        per_word = bits_of(words[0].type) // bits_of(element)
        if per_word == 1:
            return [self.as_type(w, element) for w in words]
        parts: list[Value] = []
        for word in words:
            vector = self.f.cast("bitcast", word, f"<{per_word} x {element}>")
            held = tuple(self.f.extract(vector, lane) for lane in range(per_word))
            self._words[held] = word
            parts += held
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


_LONG_TYPE = 64
"""Characters of a struct type from which on it gets a name."""
_BITS = {"half": 16, "bfloat": 16, "float": 32, "double": 64}


def bits_of(type: str) -> int:
    """The width of a scalar LLVM type."""
    if type.startswith("ptr"):
        return 64
    return _BITS.get(type) or int(type[1:])


def word_type(element: str, count: int) -> str:
    """The widest word that divides a vector: up to 32 bits, 64 for elements of 64 bits."""
    total = bits_of(element) * count
    if bits_of(element) == 64:
        return "i64"
    return f"i{min(total, 32)}"
