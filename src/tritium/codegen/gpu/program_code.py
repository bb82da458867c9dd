"""Code that the program brings: assembly, for `packed_element` registers of a thread at a time or
for all at once, and regions that `tt.map_elementwise` applies to elements."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from tritium.codegen.gpu.collective.gather import offsets, row_major
from tritium.codegen.gpu.context import Context, layout_of
from tritium.codegen.gpu.control import inline
from tritium.codegen.gpu.emitter import bits_of
from tritium.codegen.gpu.memory.shared import first_address
from tritium.codegen.gpu.types import GPU, value_type
from tritium.codegen.llvm.writer import Value, escaped
from tritium.codegen.registry import lowers
from tritium.ir import types as ir
from tritium.ir.layouts.encodings import REGISTER
from tritium.ir.source_errors import assembly_error
from tritium.ops import ttgir, ttir
from tritium.ops.ttgir.inline_asm import codes_of, registers
from tritium.ops.ttir.extern import ElementwiseInlineAsmOp

_TIED = re.compile(r"\d+")


@lowers(GPU, ElementwiseInlineAsmOp)
def inline_asm(c: Context, op: Any) -> None:
    """The assembly for each `packed_element` registers; operands narrower than 32 bits are packed
    into words of at most 32 bits."""
    pack, tiles = op.packed_element, [_registers(c, v) for v in op.arguments]
    shaped = [v for v in (*op.arguments, *op.results) if ir.shape_of(v.type)]
    count = layout_of(shaped[0].type).in_size(REGISTER) if shaped else 1
    kinds = [value_type(r.type) for r in op.results]
    widths = [min(pack, max(32 // bits_of(kind), 1)) for kind in kinds]
    words = [
        kind if width == 1 else f"i{width * bits_of(kind)}"
        for kind, width in zip(kinds, widths, strict=True)
        for _ in range(pack // width)
    ]
    struct = "void" if not words else words[0] if len(words) == 1 else f"{{ {', '.join(words)} }}"
    text, constraints = escaped(op.asm_string), escaped(",".join(op.operand_codes))
    results: list[list[Value]] = [[] for _ in op.results]
    for start in range(0, count, pack):
        arguments: list[Value] = []
        for tile, value in zip(tiles, op.arguments, strict=True):
            if isinstance(value.type, ttgir.MemDescType):
                arguments += tile
                continue
            # Fewer registers than go into one piece of assembly: the last ones are repeated.
            group = [tile[min(start + i, len(tile) - 1) if len(tile) > 1 else 0]
                     for i in range(pack)]  # fmt: skip
            width = min(pack, max(32 // bits_of(group[0].type), 1))
            word = f"i{width * bits_of(group[0].type)}"
            arguments += c.pack(group, word) if width > 1 else group
        if start == 0:
            _check(c, op, len(words), len(arguments))
        done = c.asm(struct, text, constraints, *arguments, effects=not op.pure)
        parts = c.members(done, words) if words else []
        for n, (kind, width) in enumerate(zip(kinds, widths, strict=True)):
            mine, parts = parts[: pack // width], parts[pack // width :]
            results[n] += c.unpack(mine, kind) if width > 1 else mine
    for result, values in zip(op.results, results, strict=True):
        c.set(result, values[:count])


def _registers(c: Context, value: Any) -> Sequence[Value]:
    """The registers of an operand; of shared memory the address at which it begins."""
    return [first_address(c, c.memory(value))] if isinstance(value.type, ttgir.MemDescType) \
        else c.tile(value)  # fmt: skip


@lowers(GPU, ttgir.InlineAsmOp)
def thread_asm(c: Context, op: ttgir.InlineAsmOp) -> None:
    """The assembly, once."""
    arguments = [part for v in op.arguments for part in _registers(c, v)]
    kinds = [value_type(r.type) for r in op.results for _ in range(registers(r.type))]
    _check_codes(c, op, codes_of(op.constraints), len(kinds))
    struct = "void" if not kinds else kinds[0] if len(kinds) == 1 else f"{{ {', '.join(kinds)} }}"
    text, constraints = escaped(op.asm_string), escaped(op.constraints.replace(" ", ""))
    done = c.asm(struct, text, constraints, *arguments, effects=not op.pure)
    parts = c.members(done, kinds) if kinds else []
    for result in op.results:
        count = registers(result.type)
        c.set(result, parts[:count])
        parts = parts[count:]


def _check_codes(c: Context, op: Any, codes: Sequence[str], outputs: int) -> None:
    """Raise `CompilationError` for constraints that LLVM ends the process for, and where the
    processor takes no assembly."""
    found = c.hardware.assembly
    if found is None:
        raise c.unsupported(op)
    if op.asm_string and (why := found.missing()):
        raise c.unsupported(op, why)
    for constraint in codes:
        tied = _TIED.fullmatch(constraint) is not None and int(constraint) < outputs
        if not tied and not found.registers.fullmatch(constraint):
            raise assembly_error(
                op.location,
                f"the constraint '{constraint}' in {op.constraints!r} is none of {found.title}: "
                f"{found.explained}, with '=' before those of outputs; a number is that of an "
                "output",
            )


def _check(c: Context, op: Any, outputs: int, inputs: int) -> None:
    """Raise `CompilationError` for constraints that LLVM does not take, or that do not fit the
    operands."""
    given = [code for code in op.operand_codes if not code.startswith("~{")]
    _check_codes(c, op, given, outputs)
    found = sum(code.startswith("=") for code in given)
    if (found, len(given) - found) != (outputs, inputs):
        raise assembly_error(
            op.location,
            f"{op.constraints!r} has {found} outputs and {len(given) - found} inputs; the operands "
            f"(pack={op.packed_element}) are {outputs} registers of results and {inputs} of "
            "arguments",
        )


@lowers(GPU, ttir.MapElementwiseOp)
def map_elementwise(c: Context, op: Any) -> None:
    """The region for each register, or for each `pack` neighbours, which are in one thread."""
    tiles, pack = [c.tile(v) for v in op.inputs], op.pack
    results: list[dict[int, Value]] = [{} for _ in op.results]
    for group in _neighbours(op, pack):
        arguments = [tile[register] for tile in tiles for register in group]
        found = inline(c, op.regions[0].block, arguments)
        for n, result in enumerate(results):
            result.update(zip(group, found[n * pack : (n + 1) * pack], strict=True))
    for value, result in zip(op.results, results, strict=True):
        c.set(value, [result[r] for r in range(len(result))])


def _neighbours(op: Any, pack: int) -> list[list[int]]:
    """The registers in groups of neighbours in row-major order."""
    type = op.inputs[0].type
    layout, shape = layout_of(type), ir.shape_of(type)
    count = layout.in_size(REGISTER)
    if pack == 1:
        return [[register] for register in range(count)]
    flat = offsets(layout, row_major(shape), 1 << layout.total_out_bits)
    columns = flat.columns_of(REGISTER)
    steps = [1 << i for i in range(pack.bit_length() - 1)]
    if pack & (pack - 1) or any(step not in columns for step in steps):
        raise NotImplementedError(
            f"tt.map_elementwise of {pack} neighbours of {type}, which are in several threads"
        )
    bits = [columns.index(step) for step in steps]
    inner = [sum(1 << b for j, b in enumerate(bits) if i >> j & 1) for i in range(pack)]
    return [[r | i for i in inner] for r in range(count) if not r & inner[-1]]
