"""Inline assembly of the host's processor, for `pack` neighbouring elements at a time."""

from __future__ import annotations

import functools
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from tritium.backends.cpu.lower.access import load_buffer, store_buffer
from tritium.backends.cpu.lower.context import Context
from tritium.backends.cpu.lower.emitter import Emitter
from tritium.backends.cpu.lower.moves.shape import unflatten
from tritium.backends.cpu.lower.types import value_type
from tritium.backends.cpu.lower.values import Uniform
from tritium.codegen.llvm.writer import BITS_OF, Function, Value, const, escaped
from tritium.codegen.registry import lowers
from tritium.ir import types as ir
from tritium.ir.source_errors import assembly_error
from tritium.native.host import CPU
from tritium.ops.ttir.extern import ElementwiseInlineAsmOp

_PTX = re.compile(
    r"\.reg\b|@%?p\d|%(?:tid|ctaid|laneid|smid|globaltimer)\b"
    r"|\b(?:griddepcontrol|membar|fence|bar|barrier|mbarrier|cp|mma|wgmma|ld|st|red|atom|elect)\.\w"
    r"|\.(?:[bfsu](?:8|16|32|64)|f16x2|bf16x2|bf16|pred)\b"
)
# LLVM takes x86 assembly to leave the flags as they are unless it is told; any arithmetic does not.
_CLOBBERS = {"x86_64": "~{dirflag},~{fpsr},~{flags}"}

# An error in assembly ends the process that compiles it: LLVM has no other way to report it.
_TRIAL = """
import sys, llvmlite.binding as llvm
llvm.initialize_all_targets()
llvm.initialize_all_asmprinters()
llvm.initialize_native_asmparser()
triple, cpu, features = sys.argv[1:]
target = llvm.Target.from_triple(triple)
machine = target.create_target_machine(cpu=cpu, features=features, opt=3, reloc="pic")
try:
    machine.emit_object(llvm.parse_assembly(sys.stdin.read()))
except RuntimeError as error:
    sys.exit(str(error))
"""


@lowers("cpu.whole_tile", ElementwiseInlineAsmOp)
def inline_asm(c: Context, op: Any) -> None:
    """The assembly in a loop over the elements in row-major order."""
    shape, pack = ir.shape_of(op.results[0].type), op.packed_element
    total = functools.reduce(lambda a, b: a * b, shape, 1)
    snippet = _Snippet(c, op)
    e = Emitter(c, 1)
    e.push()
    with e.loop(total, pack) as i:
        places = [
            unflatten(e, Uniform(e.f.op("add", i.index, const("i64", k)), e.depth), shape)
            for k in range(pack)
        ]

        def element(value: Any, k: int) -> Value:
            found = load_buffer(e, c.filled[value], places[k])
            assert isinstance(found, Uniform)
            return found.value

        results = snippet.run([[element(v, k) for k in range(pack)] for v in op.arguments])
        for result, values in zip(op.results, results, strict=True):
            buffer = c.function.buffers[result]
            for place, value in zip(places, values, strict=True):
                store_buffer(e, buffer, place, Uniform(value, e.depth))
    e.pop()
    for result in op.results:
        c.fill(result)


@lowers("cpu.scalar", ElementwiseInlineAsmOp)
def inline_asm_of_scalars(c: Context, op: Any, *values: Value) -> tuple[Value, ...]:
    """The assembly once."""
    return tuple(found[0] for found in _Snippet(c, op).run([[v] for v in values]))


class _Snippet:
    """One op's assembly. Elements narrower than 32 bits share a word with their neighbours."""

    def __init__(self, c: Context, op: Any):
        self.f, self.op, self.pack, self.processor = c.f, op, op.packed_element, c.processor
        clobbers = _CLOBBERS.get(c.processor.architecture, "")
        self.constraints = ",".join(filter(None, [*op.operand_codes, clobbers]))
        words = [_word(_kind(r.type), self.pack) for r in op.results]
        self.results = [kind for kind, count in words for _ in range(count)]
        several = f"{{ {', '.join(self.results)} }}"
        self.returned = self.results[0] if len(self.results) == 1 else several
        flags = "" if op.pure else "sideeffect "
        text = f'"{escaped(op.asm_string)}", "{escaped(self.constraints)}"'
        self.callee = f"call {self.returned} asm {flags}{text}"
        self._check()

    def run(self, arguments: Sequence[Sequence[Value]]) -> list[list[Value]]:
        """The elements of each result for `pack` elements of each argument."""
        f = self.f
        words = [w for values in arguments for w in _packed(f, values, self.pack)]
        found = f.emit(self.returned, f"{self.callee}({', '.join(map(str, words))})")
        parts = [found]
        if len(self.results) > 1:
            parts = [
                f.emit(kind, f"extractvalue {found}, {i}") for i, kind in enumerate(self.results)
            ]
        left = iter(parts)
        return [
            [f.cast("bitcast", v, to) if v.type != to else v
             for v in _unpacked(f, _kind(r.type), left, self.pack)]
            for r in self.op.results for to in [value_type(r.type)]
        ]  # fmt: skip

    def _check(self) -> None:
        """Raise `CompilationError` for assembly that this processor does not have."""
        if _PTX.search(self.op.asm_string):
            raise assembly_error(
                self.op.location,
                f"this is PTX, which a CPU cannot run: {self.op.asm_string!r}; give assembly of "
                f"this processor ({self.processor.architecture}, in AT&T syntax), or use the "
                "language's own functions",
            )
        kinds = [_kind(v.type) for v in self.op.arguments]
        inputs = [k for kind in kinds for k, n in [_word(kind, self.pack)] for _ in range(n)]
        values = [Value(kind, f"%a{i}") for i, kind in enumerate(inputs)]
        arguments = ", ".join(map(str, values))
        trial = (
            f"define {self.returned} @trial({arguments}) {{\n"
            f"  %r = {self.callee}({arguments})\n  ret {self.returned} %r\n}}\n"
        )
        if message := _trial(trial, self.processor):
            raise assembly_error(self.op.location, f"not valid on this processor: {message}")


@functools.cache
def _trial(text: str, processor: CPU) -> str:
    """LLVM's error message for assembly that it cannot compile; "" if it can."""
    names = processor.triple, processor.cpu, processor.feature_string
    done = subprocess.run(
        [sys.executable, "-c", _TRIAL, *names],
        input=text, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return (done.stderr.strip() or "it is refused") if done.returncode else ""


def _kind(type: ir.Type) -> str:
    """The LLVM type of one element in a register of its own: vector registers hold 16-bit floats
    as `half`, whichever format their bits are of."""
    kind = value_type(type)
    return "half" if kind in BITS_OF.values() else kind


def _bits(kind: str) -> int:
    known = {"ptr": 64, "half": 16, "float": 32, "double": 64}
    return known[kind] if kind in known else int(kind[1:])


def _word(kind: str, pack: int) -> tuple[str, int]:
    """The type of a register with elements of a type, and how many take `pack` of them."""
    width = _width(kind, pack)
    return (kind if width == 1 else f"i{width * _bits(kind)}"), pack // width


def _width(kind: str, pack: int) -> int:
    return min(pack, max(32 // _bits(kind), 1))


def _packed(f: Function, values: Sequence[Value], pack: int) -> list[Value]:
    kind = values[0].type
    if kind in BITS_OF.values():
        kind, values = "half", [f.cast("bitcast", v, "half") for v in values]
    width, bits = _width(kind, pack), _bits(kind)
    if width == 1:
        return list(values)
    words: list[Value] = []
    word_type = f"i{width * bits}"
    for start in range(0, pack, width):
        word = const(word_type, 0)
        for i, value in enumerate(values[start : start + width]):
            number = value if kind.startswith("i") else f.cast("bitcast", value, f"i{bits}")
            wide = f.cast("zext", number, word_type)
            word = f.op("or", word, f.op("shl", wide, const(word_type, i * bits)))
        words.append(word)
    return words


def _unpacked(f: Function, kind: str, words: Iterator[Value], pack: int) -> list[Value]:
    width, bits = _width(kind, pack), _bits(kind)
    if width == 1:
        return [next(words) for _ in range(pack)]
    values: list[Value] = []
    for _ in range(pack // width):
        word = next(words)
        for i in range(width):
            shifted = f.op("lshr", word, const(word.type, i * bits))
            number = f.cast("trunc", shifted, f"i{bits}")
            values.append(number if kind.startswith("i") else f.cast("bitcast", number, kind))
    return values
