"""LLVM IR, as LLVM prints it, to functions of blocks of instructions."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.amd.execution.types import Type, bitcast, poison, to_bytes, unsigned, zero

_TOKEN = re.compile(
    r'\s*([%@]"[^"]*"|[%@][\w.$-]+|c?"[^"]*"|#\d+|![\w.]*|-?\d+\.\d+(?:e[+-]?\d+)?'
    r"|0x[HRKLM]?[0-9A-Fa-f]+|-?\d+|[A-Za-z_][\w.]*|\.\.\.|[^\s])"
)
_FLAGS = frozenset((
    "nuw", "nsw", "exact", "disjoint", "nneg", "inbounds", "nusw", "samesign", "contract", "nnan",
    "ninf", "nsz", "arcp", "afn", "reassoc", "fast", "fastcc",
))  # fmt: skip
_FLOATS = ("half", "bfloat", "float", "double")


@dataclass
class Local:
    """A value that an instruction or a parameter has."""

    name: str


@dataclass
class Symbol:
    """The address of a global variable, and a number of bytes behind it."""

    name: str
    offset: int = 0


@dataclass
class Instruction:
    """One instruction; `args` are `Local`, `Symbol` or constants.

    Attributes:
        what: the predicate, callee, kind of update, or mode of a fence.
        other: the type that is accessed, stepped over, or converted to.
    """

    opcode: str
    type: Type
    text: str
    dest: str = ""
    args: list[Any] = field(default_factory=list[Any])
    types: list[Type] = field(default_factory=list[Type])
    what: str = ""
    other: Type | None = None
    align: int = 1
    labels: list[str] = field(default_factory=list[str])
    numbers: list[int] = field(default_factory=list[int])
    scope: str = "system"
    metadata: frozenset[str] = frozenset()
    flags: frozenset[str] = frozenset()


@dataclass
class Block:
    name: str
    phis: list[Instruction]
    body: list[Instruction]


@dataclass
class Function:
    name: str
    type: Type
    params: list[str]
    types: list[Type]
    blocks: list[Block]


@dataclass
class Global:
    """A global variable; `data`: the bytes that it begins with, None of LDS."""

    name: str
    space: int
    data: bytes | None


class Reader:
    """Reads the tokens of one line."""

    def __init__(self, line: str):
        self.line, self.tokens, self.place = line, _TOKEN.findall(line), 0

    @property
    def next(self) -> str:
        return self.tokens[self.place] if self.place < len(self.tokens) else ""

    def take(self, wanted: str = "") -> str:
        token = self.next
        if wanted and token != wanted:
            raise ValueError(f"{wanted!r} is expected, not {token!r}: {self.line.strip()}")
        self.place += 1
        return token

    def accept(self, wanted: str) -> bool:
        if self.next == wanted:
            self.place += 1
            return True
        return False

    def type(self) -> Type:
        token = self.take()
        if token == "<":
            count = int(self.take())
            self.take("x")
            found = Type("vector", count=count, parts=(self.type(),))
            self.take(">")
            return found
        if token == "[":
            count = int(self.take())
            self.take("x")
            found = Type("array", count=count, parts=(self.type(),))
            self.take("]")
            return found
        if token == "{":
            parts = [self.type()]
            while self.accept(","):
                parts.append(self.type())
            self.take("}")
            return Type("struct", parts=tuple(parts))
        if token == "ptr":
            return Type("ptr", space=self._space())
        if token in (*_FLOATS, "void", "label", "metadata"):
            return Type(token)
        if re.fullmatch(r"i\d+", token):
            return Type("i", int(token[1:]))
        raise ValueError(f"{token!r} is no known type: {self.line.strip()}")

    def _space(self) -> int:
        if not self.accept("addrspace"):
            return 0
        self.take("(")
        space = int(self.take())
        self.take(")")
        return space

    def flags(self) -> frozenset[str]:
        found = set[str]()
        while self.next in _FLAGS or self.next == "volatile":
            found.add(self.take())
        return frozenset(found)

    def value(self, type: Type) -> Any:
        """A local, a symbol, or a constant."""
        token = self.take()
        if token[0] == "%":
            return Local(_name(token))
        if token[0] == "@":
            return Symbol(_name(token))
        if token in ("zeroinitializer", "null"):
            return zero(type)
        if token in ("undef", "poison"):
            return poison(type)
        if token in ("true", "false"):
            return np.array([token == "true"])
        if token == "splat":
            self.take("(")
            one = self.value(self.type())
            self.take(")")
            return np.repeat(one[:, None], type.count, axis=1)
        if token in ("<", "[", "{"):
            return self._aggregate(type, {"<": ">", "[": "]", "{": "}"}[token])
        if token == "getelementptr":
            return self._stepped()
        if type.kind in _FLOATS:
            return _float(type, token)
        return unsigned(type, np.array([int(token)], object))

    def _aggregate(self, type: Type, end: str) -> Any:
        parts = [self.value(self.type())]
        while self.accept(","):
            parts.append(self.value(self.type()))
        self.take(end)
        if type.kind == "struct":
            return tuple(parts)
        return np.stack([np.asarray(part, type.dtype) for part in parts], axis=1)

    def _stepped(self) -> Symbol:
        self.flags()
        self.take("(")
        element = self.type()
        self.take(",")
        self.type()
        base = self.take()
        self.take(",")
        self.type()
        offset = int(self.take()) * element.size
        self.take(")")
        return Symbol(_name(base), offset)

    def typed(self, into: Instruction) -> None:
        """A type and a value, with attributes of parameters between them."""
        type = self.type()
        while re.fullmatch(r"[a-z_]+", self.next) and self.next not in _WORDS:
            self.take()
            if self.accept("("):
                while not self.accept(")"):
                    self.take()
            elif re.fullmatch(r"\d+", self.next) and self.tokens[self.place + 1] not in ",)":
                self.take()
        into.types.append(type)
        into.args.append(self.value(type))


_WORDS = ("true", "false", "null", "undef", "poison", "zeroinitializer", "splat", "getelementptr")


def _name(token: str) -> str:
    return token[1:].strip('"')


def _float(type: Type, token: str) -> Any:
    if token.startswith(("0xH", "0xR")):
        bits = Type("i", 16)
        return bitcast(bits, type, np.array([int(token[3:], 16)], np.uint16))
    if token.startswith("0x"):
        number = struct.unpack("<d", int(token[2:], 16).to_bytes(8, "little"))[0]
    else:
        number = float(token)
    with np.errstate(all="ignore"):
        return np.array([number], np.float64).astype(type.dtype)


def _arithmetic(read: Reader, ins: Instruction) -> None:
    if ins.opcode in ("icmp", "fcmp"):
        ins.what = read.take()
    read.typed(ins)
    ins.type = ins.types[0]
    if ins.opcode not in ("fneg", "freeze"):
        read.take(",")
        ins.args.append(read.value(ins.type))
        ins.types.append(ins.type)
    if ins.what:
        bit = Type("i", 1)
        ins.type = Type("vector", count=ins.type.count, parts=(bit,)) if ins.type.count else bit


def _cast(read: Reader, ins: Instruction) -> None:
    read.typed(ins)
    read.take("to")
    ins.type = read.type()


def _list(read: Reader, ins: Instruction) -> None:
    """Values one after the other: select, extractelement, insertelement, shufflevector."""
    read.typed(ins)
    while read.accept(","):
        if read.next in ("!", "!dbg") or read.next.startswith("!"):
            read.place -= 1
            break
        read.typed(ins)
    first = ins.types[0]
    if ins.opcode == "select":
        ins.type = ins.types[1]
    elif ins.opcode == "extractelement":
        ins.type = first.element
    elif ins.opcode == "shufflevector":
        ins.type = Type("vector", count=ins.types[2].count, parts=first.parts)
    else:
        ins.type = first


def _indexed(read: Reader, ins: Instruction) -> None:
    """extractvalue, insertvalue: of one level."""
    read.typed(ins)
    if ins.opcode == "insertvalue":
        read.take(",")
        read.typed(ins)
    read.take(",")
    ins.numbers.append(int(read.take()))
    whole = ins.types[0]
    ins.type = whole if ins.opcode == "insertvalue" else (
        whole.parts[ins.numbers[0]] if whole.kind == "struct" else whole.element
    )  # fmt: skip


def _ordering(read: Reader, ins: Instruction) -> None:
    while read.next and read.next != ",":
        token = read.take()
        if token == "syncscope":
            read.take("(")
            ins.scope = read.take().strip('"')
            read.take(")")
        else:
            ins.what = ins.what or token
    if read.accept(","):
        if read.accept("align"):
            ins.align = int(read.take())
        else:
            read.place -= 1


def _load(read: Reader, ins: Instruction) -> None:
    read.accept("atomic")
    ins.flags = read.flags()
    ins.type = read.type()
    read.take(",")
    read.typed(ins)
    _ordering(read, ins)


def _store(read: Reader, ins: Instruction) -> None:
    read.accept("atomic")
    ins.flags = read.flags()
    read.typed(ins)
    read.take(",")
    read.typed(ins)
    _ordering(read, ins)


def _getelementptr(read: Reader, ins: Instruction) -> None:
    ins.other = read.type()
    while read.accept(","):
        if read.next.startswith("!"):
            read.place -= 1
            break
        read.typed(ins)
    ins.type = ins.types[0]


def _call(read: Reader, ins: Instruction) -> None:
    read.flags()
    while re.fullmatch(r"(noundef|range|signext|zeroext|nofpclass)", read.next):
        read.take()
        if read.accept("("):
            while not read.accept(")"):
                read.take()
    ins.type = read.type()
    if read.accept("asm"):
        text, _, constraints = (read.take() for _ in range(3))
        ins.what = f"asm {text} {constraints}"
    else:
        ins.what = _name(read.take())
    read.take("(")
    while not read.accept(")"):
        read.typed(ins)
        read.accept(",")


def _phi(read: Reader, ins: Instruction) -> None:
    ins.type = read.type()
    while read.accept("["):
        ins.args.append(read.value(ins.type))
        read.take(",")
        ins.labels.append(_name(read.take()))
        read.take("]")
        if not read.accept(","):
            break


def _branch(read: Reader, ins: Instruction) -> None:
    if read.next != "label":
        read.typed(ins)
        read.take(",")
    while read.accept("label"):
        ins.labels.append(_name(read.take()))
        if not read.accept(",") or read.next.startswith("!"):
            break


def _switch(read: Reader, ins: Instruction) -> None:
    read.typed(ins)
    read.take(",")
    read.take("label")
    ins.labels.append(_name(read.take()))
    read.take("[")
    while not read.accept("]"):
        read.type()
        ins.numbers.append(int(read.take()))
        read.take(",")
        read.take("label")
        ins.labels.append(_name(read.take()))


def _return(read: Reader, ins: Instruction) -> None:
    if read.next != "void":
        read.typed(ins)


def _update(read: Reader, ins: Instruction) -> None:
    ins.flags = read.flags()
    ins.what = read.take() if ins.opcode == "atomicrmw" else ""
    read.typed(ins)
    read.take(",")
    read.typed(ins)
    if ins.opcode == "cmpxchg":
        read.take(",")
        read.typed(ins)
        ins.type = Type("struct", parts=(ins.types[1], Type("i", 1)))
    else:
        ins.type = ins.types[1]
    _ordering(read, ins)


def _other(read: Reader, ins: Instruction) -> None:
    raise NotImplementedError(f"instruction of LLVM: {ins.text}")


CASTS = (
    "bitcast", "trunc", "zext", "sext", "fptrunc", "fpext", "sitofp", "uitofp", "fptosi", "fptoui",
    "ptrtoint", "inttoptr", "addrspacecast",
)  # fmt: skip
_ARITHMETIC = (
    "add", "sub", "mul", "sdiv", "udiv", "srem", "urem", "shl", "lshr", "ashr", "and", "or", "xor",
    "fadd", "fsub", "fmul", "fdiv", "frem", "fneg", "icmp", "fcmp", "freeze",
)  # fmt: skip
_READ: dict[str, Any] = {
    **dict.fromkeys(_ARITHMETIC, _arithmetic),
    **dict.fromkeys(CASTS, _cast),
    **dict.fromkeys(("select", "extractelement", "insertelement", "shufflevector"), _list),
    **dict.fromkeys(("extractvalue", "insertvalue"), _indexed),
    "load": _load, "store": _store, "getelementptr": _getelementptr, "call": _call, "phi": _phi,
    "br": _branch, "switch": _switch, "ret": _return, "atomicrmw": _update, "cmpxchg": _update,
    "fence": _ordering, "unreachable": lambda read, ins: None,
}  # fmt: skip


def _instruction(line: str) -> Instruction:
    read = Reader(line.split(" ; ")[0])
    dest = ""
    if read.next[0] == "%" and read.tokens[1] == "=":
        dest = _name(read.take())
        read.take("=")
    while read.next in ("tail", "musttail", "notail"):
        read.take()
    opcode = read.take()
    ins = Instruction(opcode, Type("void"), line.strip(), dest)
    ins.metadata = frozenset(re.findall(r", !([a-z][\w.]*) ", line))
    if opcode not in ("load", "store", "call", "atomicrmw", "cmpxchg"):
        ins.flags = read.flags()
    _READ.get(opcode, _other)(read, ins)
    return ins


def _header(line: str) -> Function:
    head, rest = re.split(r"(?=@)", line, maxsplit=1)
    words = head.split()
    kind = next(w for i in range(len(words)) for w in [" ".join(words[i:])] if _is_type(w))
    read = Reader(rest)
    name, params, types = _name(read.take()), list[str](), list[Type]()
    read.take("(")
    while not read.accept(")"):
        ins = Instruction("", Type("void"), line)
        read.typed(ins)
        params.append(ins.args[0].name)
        types.append(ins.types[0])
        read.accept(",")
    return Function(name, Reader(kind).type(), params, types, [])


def _is_type(text: str) -> bool:
    try:
        read = Reader(text)
        read.type()
    except (ValueError, IndexError):
        return False
    return not read.next


def _global(line: str) -> Global:
    read = Reader(line)
    name, space = _name(read.take()), re.search(r"addrspace\((\d+)\)", line.split(" global ")[0])
    number = int(space[1]) if space else 0
    external = re.search(r"= external ", line)
    while read.next not in ("global", "constant"):
        read.take()
    read.take()
    type = read.type()
    if external:
        return Global(name, number, None)
    token = read.next
    if token.startswith('c"'):
        text = re.sub(rb"\\([0-9A-Fa-f]{2})", lambda m: bytes([int(m[1], 16)]),
                      token[2:-1].encode())  # fmt: skip
        return Global(name, number, text)
    return Global(name, number, to_bytes(type, read.value(type)).tobytes())


@dataclass
class Module:
    functions: dict[str, Function]
    globals: list[Global]


def parse(text: str) -> Module:
    """The functions and global variables of a module that LLVM has printed."""
    functions, variables = dict[str, Function](), list[Global]()
    current: Function | None = None
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith("define"):
            current = _header(line)
            functions[current.name] = current
        elif line.startswith("@"):
            variables.append(_global(line))
        elif current is None or not line.strip() or line.lstrip().startswith((";", "#dbg")):
            continue
        elif line == "}":
            current = None
        elif (label := re.match(r'^("[^"]*"|[\w.$-]+):', line)) is not None:
            current.blocks.append(Block(label[1].strip('"'), [], []))
        else:
            while line.rstrip().endswith("[") and " switch " in line:
                following = ""
                while "]" not in following:
                    following = next(lines)
                    line += following
            if not current.blocks:
                current.blocks.append(Block("0", [], []))
            ins, block = _instruction(line), current.blocks[-1]
            (block.phis if ins.opcode == "phi" else block.body).append(ins)
    return Module(functions, variables)

