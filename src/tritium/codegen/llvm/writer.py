"""A writer of LLVM IR text: typed values, instructions, blocks and phis, and nothing else.

Lowering writes text directly because unrolled code has thousands of instructions: one costs about
a microsecond here. The writer only knows syntax; what to emit is decided by the lowerings.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np


class Value(NamedTuple):
    """An LLVM value: its type and how it is referred to (`%3`, `@f`, `42`, `zeroinitializer`)."""

    type: str
    ref: str

    def __str__(self) -> str:
        return f"{self.type} {self.ref}"


_VECTOR = re.compile(r"<(\d+) x (.+)>$")
BITS_OF = {"half": "%float16", "bfloat": "%bfloat16"}
"""Names of i16 for 16-bit floats that are carried as their bits (`Module.text` defines them).

LLVM makes library calls (`__truncsfbf2`) even of selections and masked accesses of types that
the processor has no instructions for. Of these it sees integers only."""
FLOAT_TYPES = frozenset({"half", "bfloat", "float", "double", *BITS_OF.values()})


@lru_cache(maxsize=1024)
def lanes(type: str) -> int:
    """The number of lanes of a vector type; 1 for a scalar."""
    match = _VECTOR.match(type)
    return int(match[1]) if match else 1


def escaped(text: str) -> str:
    """Text as it stands between quotes in LLVM IR."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return text
    return "".join(
        chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:02X}" for b in text.encode()
    )


def c_string(text: str) -> tuple[str, str]:
    """The type and the value of a constant that is a C string."""
    return f"[{len(text.encode()) + 1} x i8]", f'c"{escaped(text)}\\00"'


@lru_cache(maxsize=1024)
def scalar(type: str) -> str:
    """The lane type of a vector type; a scalar type itself."""
    match = _VECTOR.match(type)
    return match[2] if match else type


def vector(type: str, count: int) -> str:
    """`<count x type>`, or `type` itself when `count` is 1."""
    return type if count == 1 else f"<{count} x {type}>"


_SHORT = {
    "half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64", "ptr": "p0",
    **dict.fromkeys(BITS_OF.values(), "i16"),
}  # fmt: skip


def mangle(type: str) -> str:
    """The suffix that overloaded intrinsics carry for a type: `v16f32`, `i64`, `p0`."""
    count, base = lanes(type), scalar(type)
    name = _SHORT.get(base, base)
    return f"v{count}{name}" if count > 1 else name


@lru_cache(maxsize=4096)
def _float_text(type: str, packed: bytes) -> str:
    # The key is the number's bytes because -0.0 == 0.0.
    (value,) = struct.unpack("<d", packed)
    if type == BITS_OF["half"]:
        return str(int(_float_text("half", packed)[3:], 16))
    if type == BITS_OF["bfloat"]:
        return str(int(_float_text("bfloat", packed)[3:], 16))
    if type == "half":
        return f"0xH{int(np.float16(value).view(np.uint16)):04X}"
    if type == "bfloat":
        bits = int(np.float32(value).view(np.uint32))
        rounded = bits if np.isnan(value) else bits + 0x7FFF + ((bits >> 16) & 1)
        return f"0xR{(rounded >> 16) & 0xFFFF:04X}"
    if type == "float":
        value = float(np.float32(value))
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def const(type: str, value: float | int | bool) -> Value:
    """A constant; for a vector type the same number in every lane."""
    base, count = scalar(type), lanes(type)
    if base in FLOAT_TYPES:
        text = _float_text(base, struct.pack("<d", value))
    elif base == "i1":
        text = "true" if value else "false"
    elif base == "ptr":
        text = "null" if value == 0 else f"inttoptr (i64 {int(value)} to ptr)"
    else:
        text = str(int(value))
    return Value(type, text if count == 1 else f"splat ({base} {text})")


def const_vector(type: str, values: Sequence[float | int]) -> Value:
    """A vector constant with the given lanes."""
    base = scalar(type)
    assert len(values) == lanes(type), (type, len(values))
    return Value(type, "<" + ", ".join(str(const(base, v)) for v in values) + ">")


@dataclass
class Phi:
    """A phi whose incoming values are added as they become known."""

    value: Value
    incoming: list[tuple[Value, str]]

    def add(self, value: Value, label: str) -> None:
        """State that the phi has `value` when entered from block `label`."""
        assert value.type == self.value.type, (value, self.value)
        self.incoming.append((value, label))

    def text(self) -> str:
        sources = ", ".join(f"[ {v.ref}, %{label} ]" for v, label in self.incoming)
        return f"  {self.value.ref} = phi {self.value.type} {sources}"


class Section:
    """A place in a function that instructions can still be added to later: hoisted code."""

    def __init__(self) -> None:
        self.lines: list[str | Phi | Section] = []

    def text(self) -> str:
        """The instructions, one a line; empty when there are none."""
        return "\n".join(line if isinstance(line, str) else line.text() for line in self.lines)


class Module:
    """An LLVM module: functions, globals and declarations, each stated once."""

    def __init__(self, triple: str = "", data_layout: str = ""):
        self.triple, self.data_layout = triple, data_layout
        self.functions: list[Function] = []
        self.globals: dict[str, str] = {}
        self.declarations: dict[str, str] = {}
        self.attribute_groups: dict[str, int] = {}
        self.named_types: dict[str, str] = {}
        self.metadata: list[str] = []
        self._nodes: dict[str, str] = {}
        self.named_metadata: dict[str, list[str]] = {}
        self.debug_nodes: dict[Any, str] = {}
        self.outlined = "noinline"
        """The attribute of functions of vector math that are not written where they are used."""
        self.nearest_only: frozenset[tuple[str, str]] = frozenset()
        """Operations, by instruction and operands' type, that the processor rounds to nearest."""

    def declare(self, name: str, result: str, arguments: Sequence[str]) -> None:
        """Declare a function (or intrinsic) that is called but not defined here."""
        self.declarations.setdefault(name, f"declare {result} @{name}({', '.join(arguments)})")

    def constant(self, type: str, text: str, *, align: int = 64, prefix: str = "const") -> Value:
        """A private constant array; the same text is stored once. Returns a pointer to it."""
        body = f"private unnamed_addr constant {type} {text}, align {align}"
        for name, known in self.globals.items():
            if known == body:
                return Value("ptr", f"@{name}")
        name = f"{prefix}.{len(self.globals)}"
        self.globals[name] = body
        return Value("ptr", f"@{name}")

    def attributes(self, text: str) -> str:
        """The group (`#0`) for a list of function attributes."""
        return f"#{self.attribute_groups.setdefault(text, len(self.attribute_groups))}"

    def named_type(self, struct: str) -> str:
        """The name of a struct type, which values of it stand with: LLVM's parser takes longer for
        the hundreds of members of a wgmma's results than for all else of an instruction."""
        return self.named_types.setdefault(struct, f"%struct{len(self.named_types)}")

    def add_metadata(self, body: str) -> str:
        """The reference (`!7`) of a metadata node, `distinct !{...}` or `!{...}`. Nodes that are
        not distinct are written once."""
        known = self._nodes.get(body)
        if known is None:
            known = f"!{len(self.metadata)}"
            self.metadata.append(body)
            if not body.startswith("distinct"):
                self._nodes[body] = known
        return known

    def loop_metadata(self, hint: str, number: int | None = None) -> str:
        """The end of a branch back to a loop's start that gives LLVM a hint about the loop."""
        value = "" if number is None else f", i32 {number}"
        node = self.add_metadata(f'!{{!"{hint}"{value}}}')
        itself = f"!{len(self.metadata)}"
        return f", !llvm.loop {self.add_metadata(f'distinct !{{{itself}, {node}}}')}"

    def text(self) -> str:
        """The module as LLVM IR."""
        head: list[str] = []
        if self.data_layout:
            head.append(f'target datalayout = "{self.data_layout}"')
        if self.triple:
            head.append(f'target triple = "{self.triple}"')
        defined = {f.name for f in self.functions}
        body = "\n".join([
            *(f"@{name} = {body}" for name, body in self.globals.items()),
            *(text for name, text in self.declarations.items() if name not in defined),
            *(f.text() for f in self.functions),
        ])  # fmt: skip
        aliases = (name for name in BITS_OF.values() if name in body)
        return "\n".join([
            *head,
            *(f"{name} = type i16" for name in aliases),
            *(f"{name} = type {struct}" for struct, name in self.named_types.items()),
            body,
            *(f"attributes #{n} = {{ {text} }}" for text, n in self.attribute_groups.items()),
            *(f"!{name} = !{{{', '.join(nodes)}}}" for name, nodes in self.named_metadata.items()),
            *(f"!{i} = {body}" for i, body in enumerate(self.metadata)),
            "",
        ])  # fmt: skip


class Function:
    """Writes one function, block after block. Instruction methods return the `Value` they define.

    `arguments` are (type, name, attributes) triples: `("ptr", "args", "noalias nonnull")`.
    """

    def __init__(
        self,
        module: Module,
        name: str,
        arguments: Sequence[tuple[str, str, str]],
        result: str = "void",
        *,
        linkage: str = "",
        attributes: str = "nounwind",
    ):
        self.module, self.name, self.result = module, name, result
        self.arguments = [Value(type, f"%{arg}") for type, arg, _ in arguments]
        parameters = ", ".join(f"{t} {a} %{n}".replace("  ", " ") for t, n, a in arguments)
        self._header = (
            f"define {linkage + ' ' if linkage else ''}{result} @{name}({parameters}) "
            f"{module.attributes(attributes)}"
        )
        #: Debug metadata: of the function (` !dbg !1`) and of instructions (`, !dbg !2`).
        self.debug, self.location = "", ""
        self._lines: list[str | Phi | Section] = []
        self._counter = 0
        self._labels = 0
        self.block = ""
        module.functions.append(self)
        self.label("entry")

    def text(self) -> str:
        """The function as LLVM IR."""
        body = (line if isinstance(line, str) else line.text() for line in self._lines)
        return "\n".join([f"{self._header}{self.debug} {{", *body, "}"])

    @property
    def position(self) -> tuple[int, int]:
        """The place that the next instruction comes to; it changes with each one written."""
        return id(self._lines), len(self._lines)

    # Blocks

    def new_label(self, hint: str = "b") -> str:
        """A label not used so far."""
        self._labels += 1
        return f"{hint}{self._labels}"

    def label(self, name: str) -> None:
        """Start the block `name`; the previous one must have ended in a terminator."""
        self._lines.append(f"{name}:")
        self.block = name

    def branch(self, label: str, metadata: str = "") -> None:
        self._lines.append(f"  br label %{label}{metadata}")

    def branch_if(self, condition: Value, then: str, other: str, metadata: str = "") -> None:
        assert condition.type == "i1", condition
        self._lines.append(f"  br {condition}, label %{then}, label %{other}{metadata}")

    def ret(self, value: Value | None = None) -> None:
        self._lines.append(f"  ret {value}" if value else "  ret void")

    def unreachable(self) -> None:
        self._lines.append("  unreachable")

    def phi(self, type: str, incoming: Sequence[tuple[Value, str]] = ()) -> Phi:
        """A phi at the current position (which must be the start of a block)."""
        node = Phi(self._new(type), list(incoming))
        self._lines.append(node)
        return node

    @contextmanager
    def when(self, condition: Value, then: str = "then", done: str = "done") -> Generator[None]:
        """`if (condition) { ... }`; `then`, `done`: hints of labels."""
        first, last = self.new_label(then), self.new_label(done)
        self.branch_if(condition, first, last)
        self.label(first)
        yield
        self.branch(last)
        self.label(last)

    @contextmanager
    def where(self, condition: Value | None) -> Generator[None]:
        """`when`, of a condition that may be None: always."""
        if condition is None:
            yield
            return
        with self.when(condition):
            yield

    def choose(
        self, condition: Value, other: Value, write: Callable[[], Value],
        then: str = "then", done: str = "done",
    ) -> Value:  # fmt: skip
        """`write()` where the condition holds; else `other`."""
        return self.choose_all(condition, [other], lambda: [write()], then, done)[0]

    def choose_all(
        self, condition: Value | None, others: Sequence[Value],
        write: Callable[[], Sequence[Value]], then: str = "then", done: str = "done",
    ) -> list[Value]:  # fmt: skip
        """The values of `write()` where the condition holds (None: everywhere); else `others`."""
        if condition is None:
            return list(write())
        before = self.block
        with self.when(condition, then, done):
            found = write()
            last = self.block
        pairs = zip(found, others, strict=True)
        return [self.phi(o.type, [(v, last), (o, before)]).value for v, o in pairs]

    @contextmanager
    def loop(
        self,
        start: Value,
        stop: Value,
        step: Value,
        carried: Sequence[Value] = (),
        *,
        at_least_once: bool = False,
        signed: bool = True,
        wraps: bool = False,
        metadata: str = "",
    ) -> Generator[Loop]:
        """`for (i = start; i < stop; i += step)` with loop-carried values.

        Inside, `loop.index` and `loop.carried` are the phis; set `loop.next` to the values for the
        next iteration. Afterwards `loop.results` are the final values. With `at_least_once` the
        first test is left out (for trip counts known to be positive). `wraps`: the last index and
        the step may add up to more than the type holds.
        """
        body, exit_ = self.new_label("loop"), self.new_label("exit")
        pred = "slt" if signed else "ult"
        before = self.block
        if not at_least_once:
            guard = self.icmp(pred, start, stop)
            before = self.block
            self.branch_if(guard, body, exit_)
        else:
            self.branch(body)
        self.label(body)
        index = self.phi(start.type, [(start, before)])
        phis = [self.phi(v.type, [(v, before)]) for v in carried]
        loop = Loop(index.value, [p.value for p in phis])
        yield loop
        assert len(loop.next) == len(phis), "loop.next must be set to the carried values"
        following = self.op("add", index.value, step, flags="nsw" if signed else "")
        index.add(following, self.block)
        for phi, value in zip(phis, loop.next, strict=True):
            phi.add(value, self.block)
        if wraps:  # what is left to go fits, as an unsigned number
            again = self.icmp("ugt", self.op("sub", stop, index.value), step)
        else:
            again = self.icmp(pred, following, stop)
        last = self.block
        self.branch_if(again, body, exit_, metadata)
        self.label(exit_)
        if at_least_once:
            loop.results = list(loop.next)
        else:
            merged = [
                self.phi(v.type, [(v, before), (n, last)])
                for v, n in zip(carried, loop.next, strict=True)
            ]
            loop.results = [p.value for p in merged]

    def section(self) -> Section:
        """Mark the current position as a place where code can be put later."""
        section = Section()
        self._lines.append(section)
        return section

    def enter(self, section: Section) -> list[str | Phi | Section]:
        """Append to `section` from now on (straight-line code only) until `leave(...)` is called
        with what this returns."""
        lines, self._lines = self._lines, section.lines
        return lines

    def leave(self, lines: list[str | Phi | Section]) -> None:
        """Go on where `enter` left off."""
        self._lines = lines

    # Instructions

    def _new(self, type: str) -> Value:
        self._counter += 1
        return Value(type, f"%v{self._counter}")

    def line(self, text: str) -> None:
        """Append an instruction that defines nothing."""
        self._lines.append(f"  {text}{self.location}")

    def emit(self, type: str, text: str) -> Value:
        """Append `%new = text`, a value of `type`."""
        value = self._new(type)
        self._lines.append(f"  {value.ref} = {text}{self.location}")
        return value

    def op(self, opcode: str, left: Value, right: Value, flags: str = "") -> Value:
        """A binary instruction: `op("fadd", a, b, "fast")`, `op("add", a, b)`."""
        assert left.type == right.type, (opcode, left, right)
        return self.emit(left.type, f"{opcode} {flags + ' ' if flags else ''}{left}, {right.ref}")

    def fneg(self, value: Value) -> Value:
        return self.emit(value.type, f"fneg {value}")

    def icmp(self, predicate: str, left: Value, right: Value) -> Value:
        assert left.type == right.type, (predicate, left, right)
        return self.emit(vector("i1", lanes(left.type)), f"icmp {predicate} {left}, {right.ref}")

    def fcmp(self, predicate: str, left: Value, right: Value) -> Value:
        assert left.type == right.type, (predicate, left, right)
        return self.emit(vector("i1", lanes(left.type)), f"fcmp {predicate} {left}, {right.ref}")

    def select(self, condition: Value, then: Value, other: Value) -> Value:
        assert then.type == other.type, (then, other)
        return self.emit(then.type, f"select {condition}, {then}, {other}")

    def cast(self, opcode: str, value: Value, type: str) -> Value:
        """`sext`, `zext`, `trunc`, `fpext`, `sitofp`, `bitcast`, `ptrtoint`, ...; lanes are kept
        except by a bitcast, for which `type` is the whole type."""
        if value.type == type and opcode != "bitcast":
            return value
        return self.emit(type, f"{opcode} {value} to {type}")

    def load(self, type: str, pointer: Value, align: int, metadata: str = "") -> Value:
        return self.emit(type, f"load {type}, {pointer}, align {align}{metadata}")

    def store(self, value: Value, pointer: Value, align: int, metadata: str = "") -> None:
        self.line(f"store {value}, {pointer}, align {align}{metadata}")

    def gep(self, type: str, pointer: Value, *indices: Value, flags: str = "inbounds") -> Value:
        """`getelementptr type, pointer, indices`; a vector of pointers if any operand is one."""
        count = max(lanes(v.type) for v in (pointer, *indices))
        flags = flags + " " if flags else ""
        return self.emit(
            vector("ptr", count),
            f"getelementptr {flags}{type}, {pointer}, {', '.join(map(str, indices))}",
        )

    def offset(self, pointer: Value, byte_count: int) -> Value:
        """`pointer` advanced by a constant number of bytes."""
        if byte_count == 0:
            return pointer
        return self.gep("i8", pointer, const("i64", byte_count))

    def call(
        self, result: str, name: str, *arguments: Value, flags: str = "", suffix: str = ""
    ) -> Value:
        """Call `@name` (declared on the way); returns its result (of type void: unusable).
        `suffix`: attributes of the call, or a comma and metadata."""
        self.module.declare(name, result, [a.type for a in arguments])
        passed = ", ".join(map(str, arguments))
        text = f"call {flags + ' ' if flags else ''}{result} @{name}({passed}){suffix}"
        if result == "void":
            self.line(text)
            return Value("void", "")
        return self.emit(result, text)

    def intrinsic(self, name: str, *arguments: Value, result: str = "", flags: str = "") -> Value:
        """Call `llvm.<name>.<mangled result type>`, for intrinsics overloaded on that type only."""
        type = result or arguments[0].type
        return self.call(type, f"llvm.{name}.{mangle(type)}", *arguments, flags=flags)

    def fma(self, a: Value, b: Value, c: Value) -> Value:
        return self.intrinsic("fma", a, b, c)

    def splat(self, value: Value, count: int) -> Value:
        """A vector with `value` in each of `count` lanes (the scalar itself for a count of 1)."""
        if count == 1:
            return value
        type = vector(value.type, count)
        if not value.ref.startswith("%"):
            return Value(type, f"splat ({value})")
        first = self.emit(type, f"insertelement {type} poison, {value}, i64 0")
        lanes = f"<{count} x i32> zeroinitializer"
        return self.emit(type, f"shufflevector {first}, {type} poison, {lanes}")

    def extract(self, value: Value, lane: int | Value) -> Value:
        """One lane of a vector."""
        index = lane if isinstance(lane, Value) else const("i64", lane)
        return self.emit(scalar(value.type), f"extractelement {value}, {index}")

    def insert(self, into: Value, value: Value, lane: int | Value) -> Value:
        """The vector `into` with one lane replaced."""
        index = lane if isinstance(lane, Value) else const("i64", lane)
        return self.emit(into.type, f"insertelement {into}, {value}, {index}")

    def shuffle(self, first: Value, second: Value | None, indices: Sequence[int]) -> Value:
        """Pick lanes of two vectors by constant indices (-1: any)."""
        mask = ", ".join("i32 poison" if i < 0 else f"i32 {i}" for i in indices)
        other = second or Value(first.type, "poison")
        type = vector(scalar(first.type), len(indices))
        if len(indices) == 1:
            type = f"<1 x {scalar(first.type)}>"
        return self.emit(type, f"shufflevector {first}, {other}, <{len(indices)} x i32> <{mask}>")


@dataclass
class Loop:
    """The values that the body of `Function.loop` reads and sets."""

    index: Value
    carried: list[Value]

    def __post_init__(self) -> None:
        self.next: list[Value] = list(self.carried) if not self.carried else []
        self.results: list[Value] = []
