"""Products on registers by MFMA and WMMA, whose operands are exchanged (`ir.layouts.amd`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from tritium.backends.amd.matrix import FLOAT8_FORMATS, SCALED_FORMATS, Instruction, MatrixCores
from tritium.codegen.gpu.context import Context, layout_of
from tritium.codegen.gpu.emitter import bits_of
from tritium.codegen.llvm.writer import Value, const, lanes, mangle, scalar
from tritium.ir import types as ir
from tritium.ir.layouts.amd import SCALED_RUN, AMDMfmaEncoding, AMDWmmaEncoding
from tritium.ir.layouts.encodings import LANE
from tritium.ir.layouts.pieces import register_coordinates
from tritium.ops.attributes import CD_REGCLASS
from tritium.ops.ttir.dot import ScaleFormat

_PINGPONG_WARPS = 8
"""Two waves of a workgroup on each SIMD: while one multiplies, the other moves operands."""


class MatrixProducts:
    """Products by the matrix unit of a processor. With `pingpong`, those in loops of eight waves
    have priority, and LLVM moves nothing into them or out of them."""

    def __init__(self, unit: MatrixCores, *, pingpong: bool):
        self._unit, self._pingpong = unit, pingpong

    def multiply(self, c: Context, op: Any) -> None:
        if not (self._pingpong and op.parent_op().is_loop and c.num_warps == _PINGPONG_WARPS):
            self._multiply(c, op)
            return
        order, priority = "llvm.amdgcn.sched.barrier", "llvm.amdgcn.s.setprio"
        c.f.call("void", order, c.i32(0))
        c.f.call("void", priority, const("i16", 1))
        self._multiply(c, op)
        c.f.call("void", priority, const("i16", 0))
        c.f.call("void", order, c.i32(0))

    def _multiply(self, c: Context, op: Any) -> None:
        """Each part of the result, of the size of an instruction, sums over all of K. Which
        elements along K meet in an instruction does not matter, as long as both operands have
        them in the same places. Of a tile that is smaller, rows and columns are repeated."""
        result = op.results[0].type
        encoding, (height, width) = result.encoding, ir.shape_of(result)[-2:]
        if not isinstance(encoding, (AMDMfmaEncoding, AMDWmmaEncoding)):
            raise c.unsupported(op, f"a result in {encoding}")
        rows, columns, k = encoding.get("instrShape")
        chosen = self._unit.instruction(op, rows, columns, k)
        if chosen is None or encoding.get("version") != self._unit.version:
            kind = "scaled products of " * op.has_scales + str(ir.element_type(op.a.type))
            unit = f"{self._unit.family} of version {self._unit.version}"
            raise c.unsupported(op, f"{kind} in {encoding}; the target has {unit}")
        out, axes = list(c.tile(op.c)), ["dim0", "dim1"]
        part = encoding.instruction(*axes).transpose_outs(axes)
        rows, columns = (part.out_size(axis) for axis in axes)
        held = {place: r for r, place in enumerate(register_coordinates(layout_of(result)))}
        operands = self._scaled_operands if op.has_scales else _operands
        left, right = operands(c, op, chosen)
        exchanged = encoding.get("isTransposed" if self._unit.family == "mfma" else "isTranspose")
        places = register_coordinates(part)
        for *batch, m, n in sorted({(*b, m - m % rows, n - n % columns) for *b, m, n in held}):
            registers = [held[(*batch, (m + i) % height, (n + j) % width)] for i, j in places]
            total = c.vector([out[r] for r in registers])
            for a, b in zip(left[(*batch, m)], right[(*batch, n)], strict=True):
                total = _pinned(c, op, total)
                total = self._instruction(c, chosen, *((b, a) if exchanged else (a, b)), total)
            total = _pinned(c, op, total)
            for lane, register in enumerate(registers):
                out[register] = c.f.extract(total, lane)
        c.set(op.results[0], out)

    def _scaled_operands(self, c: Context, op: Any, chosen: Instruction) -> list[Fragments]:
        """Scales of a lane are in one word, of which MFMA takes one, and WMMA all."""
        found: list[Fragments] = []
        wmma, encoding = self._unit.family == "wmma", op.results[0].type.encoding
        run = 16 if ".scale16." in chosen.intrinsic else SCALED_RUN
        step, size = chosen.k // run, chosen.k // run if wmma else 4
        given = [ir.element_type(s.type) for s in (op.a_scale, op.b_scale) if s is not None]
        kind = _SCALE_KINDS[given[0] if given else ir.i8]
        ones = const(f"i{8 * size}", int.from_bytes([_ONES[kind]] * size, "little")), 0
        for index, (value, scale, format) in enumerate(
            ((op.a, op.a_scale, op.a_elem_type), (op.b, op.b_scale, op.b_elem_type))
        ):
            lane = chosen.k // self._unit.parts_of_k(chosen.rows)
            count = lane // 2 if format is ScaleFormat.E2M1 else lane
            rows: int = encoding.rows_of(index == 0) if wmma else 16
            whole = replace(chosen, operand=f"<{count * rows // 64} x i32>", count=count)
            numbers = _fragments(c, value, index, whole, rows // 16, op.k < chosen.k)
            words = _scales(c, scale, size, wmma)
            places = [(*row, n * step) for row, parts in numbers.items() for n in range(len(parts))]
            if scale is not None and any(place not in words for place in places):
                wanted = self._unit.scales(op, encoding, index)
                raise c.unsupported(op, f"scales in {scale.type.encoding}; {wanted} is required")
            found.append({
                row: [
                    Fragment(part.value, *words.get((*row, n * step), ones),
                             SCALED_FORMATS[format], kind)
                    for n, part in enumerate(parts)
                ]
                for row, parts in numbers.items()
            })  # fmt: skip
        return found

    def _instruction(
        self, c: Context, chosen: Instruction, a: Fragment, b: Fragment, total: Value
    ) -> Value:
        name, no = f"llvm.amdgcn.{chosen.intrinsic}", const("i1", 0)
        if ".scale" in name:
            return self._scaled(c, name, a, b, total)
        if self._unit.family == "mfma":
            return c.f.call(total.type, name, a.value, b.value, total, *[c.i32(0)] * 3)
        if ".iu8." in name:
            signed = const("i1", 1)
            last = [no, no] if self._unit.version == 3 else [no]
            return c.f.call(total.type, name, signed, a.value, signed, b.value, total, *last)
        if self._unit.version < 3:
            return c.f.call(total.type, name, a.value, b.value, total)
        whole, reuse = const("i16", 0), [no, no]
        if scalar(chosen.operand) == "i32":  # fp8, which has no signs to change
            return c.f.call(total.type, name, a.value, b.value, whole, total, *reuse)
        return c.f.call(total.type, name, no, a.value, no, b.value, whole, total, *reuse)

    def _scaled(self, c: Context, name: str, a: Fragment, b: Fragment, total: Value) -> Value:
        formats, types = [c.i32(p.format) for p in (a, b)], [mangle(p.value.type) for p in (a, b)]
        if self._unit.family == "mfma":
            scales = [v for p in (a, b) for v in (c.i32(p.byte), p.scale)]
            full = ".".join([name, *types])
            return c.f.call(total.type, full, a.value, b.value, total, *formats, *scales)
        numbers = [v for f, p in zip(formats, (a, b), strict=True) for v in (f, p.value)]
        if name.endswith(".f4"):
            numbers = [a.value, b.value]
        scales = [v for p in (a, b) for v in (c.i32(p.byte), c.i32(p.kind), p.scale)]
        full = ".".join([name, mangle(total.type), *types])
        no = const("i1", 0)
        return c.f.call(total.type, full, *numbers, const("i16", 0), total, *scales, no, no)


def _pinned(c: Context, op: Any, total: Value) -> Value:
    """Sums in the class of registers that the program chooses, if it does: code of no instruction
    that LLVM does not look into ties them to it."""
    chosen: Any = op.attributes.get(CD_REGCLASS)
    if chosen is None:
        return total
    return c.asm(total.type, "", f"={chosen.data},0", total, effects=False)


class Fragment(NamedTuple):
    """The part of one instruction's operand that a lane holds. `scale`: a word of exponents of
    factors, of which MFMA takes the `byte`; WMMA takes all in the lanes of the half of a wave that
    `byte` is; `format`: of the elements; `kind`: of the scales."""

    value: Value
    scale: Value = const("i32", 0)
    byte: int = 0
    format: int = 0
    kind: int = 0


Fragments = dict[tuple[int, ...], list[Fragment]]
"""The fragments of an operand by product of a batch and row (of the right operand: column) of the
first thread, in the order of K."""
_SCALE_KINDS: dict[ir.Type, int] = {ir.i8: 0, ir.f8e4m3fn: 2}
"""The numbers of formats of scales in instructions."""
_ONES = {0: 127, 2: 0x38}
"""The scale that stands for 1 in these formats."""


def _scales(
    c: Context, scale: Any, size: int, halves: bool
) -> dict[tuple[int, ...], tuple[Value, int]]:
    """The word of `size` scales, by the row and place along K of each, and the scale's byte, or
    with `halves` which half of the lanes has the word."""
    found = dict[tuple[int, ...], tuple[Value, int]]()
    for half in range((1 + halves) * (scale is not None)):
        coordinates = register_coordinates(layout_of(scale.type), 16 * half)
        held = dict(zip(coordinates, c.tile(scale), strict=True))
        places = sorted(held.keys() - found.keys())
        of_row = min(size, ir.shape_of(scale.type)[-1])
        for start in range(0, len(places), of_row):
            group = places[start : start + of_row]
            word = c.pack([held[group[i % len(group)]] for i in range(size)], f"i{8 * size}")[0]
            found |= {place: (word, half if halves else byte) for byte, place in enumerate(group)}
    return found


def _operands(c: Context, op: Any, chosen: Instruction) -> list[Fragments]:
    return [
        _fragments(c, value, index, chosen, short=op.k < chosen.k,
                   format=FLOAT8_FORMATS.get(ir.element_type(value.type), 0))
        for index, value in enumerate((op.a, op.b))
    ]  # fmt: skip


def _fragments(
    c: Context, value: Any, k_first: int, chosen: Instruction, count: int = 1, short: bool = False,
    format: int = 0,
) -> Fragments:  # fmt: skip
    """An operand's registers as instructions take them; `count`: the number of groups of rows,
    16 apart. `short`: K is, and zeros are behind it."""
    tile = _without_copies(c, value) if short else c.tile(value)
    found: dict[tuple[int, ...], dict[int, dict[int, Value]]] = {}
    for place, register in zip(register_coordinates(layout_of(value.type)), tile, strict=True):
        *batch, outer, k = (*place[:-2], *(reversed(place[-2:]) if k_first else place[-2:]))
        first = outer if count == 1 else outer - outer % (16 * count)
        found.setdefault((*batch, first), {}).setdefault(outer, {})[k] = register
    fragments: Fragments = {}
    for first, rows in found.items():
        ordered = [[rows[row][k] for k in sorted(rows[row])] for row in sorted(rows)]
        missing = max(chosen.count - len(ordered[0]), 0)
        zeros = [const(ordered[0][0].type, 0)] * missing
        groups = [
            [v for values in ordered for v in [*values[i : i + chosen.count], *zeros]]
            for i in range(0, len(ordered[0]), chosen.count)
        ]
        operands = (_operand(c, group, chosen.operand) for group in groups)
        fragments[first] = [Fragment(operand, format=format) for operand in operands]
    return fragments


def _without_copies(c: Context, value: Any) -> list[Value]:
    """The registers of an operand, zeros in lanes that have the same elements as others."""
    tile, copies = c.tile(value), layout_of(value.type).free_variables().get(LANE, 0)
    if not copies:
        return list(tile)
    first = c.f.icmp("eq", c.f.op("and", c.lane, c.i32(copies)), c.i32(0))
    return [c.f.select(first, v, const(v.type, 0)) for v in tile]


def _operand(c: Context, values: Sequence[Value], type: str) -> Value:
    """Neighbours as one operand."""
    word = scalar(type)
    if bits_of(word) <= bits_of(values[0].type):
        return c.vector([c.as_type(v, word) for v in values])
    packed = c.f.cast("bitcast", c.vector(values), type)
    assert lanes(type) * bits_of(word) == len(values) * bits_of(values[0].type)
    return packed
