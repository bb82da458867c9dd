"""`tt.dot` on registers by MFMA and WMMA, whose operands are exchanged (`ir.layouts.amd`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tritium.backends.amd.matrix import Instruction, MatrixCores
from tritium.codegen.gpu.context import Context, layout_of
from tritium.codegen.gpu.emitter import bits_of
from tritium.codegen.gpu.shape import register_coordinates
from tritium.codegen.llvm.writer import Value, const, lanes, scalar, vector
from tritium.ir import types as ir
from tritium.ir.layouts.amd import AMDMfmaEncoding, AMDWmmaEncoding


class MatrixProducts:
    """Products by the matrix unit of a processor."""

    def __init__(self, unit: MatrixCores):
        self._unit = unit

    def multiply(self, c: Context, op: Any) -> None:
        """Each part of the result, of the size of an instruction, sums over all of K. Which
        elements along K meet in an instruction does not matter, as long as both operands have
        them in the same places. Of a tile that is smaller, rows and columns are repeated."""
        result = op.results[0].type
        encoding, shape = result.encoding, ir.shape_of(result)
        if not isinstance(encoding, (AMDMfmaEncoding, AMDWmmaEncoding)):
            raise c.unsupported(op, f"a result in {encoding}")
        rows, columns = encoding.get("instrShape")[:2]
        chosen = self._unit.instruction(op, rows, columns)
        if chosen is None or encoding.get("version") != self._unit.version:
            raise c.unsupported(op, f"{ir.element_type(op.a.type)} in {encoding}")
        out, axes = list(c.tile(op.c)), ["dim0", "dim1"]
        part = encoding.instruction(*axes).transpose_outs(axes)
        held = {place: r for r, place in enumerate(register_coordinates(layout_of(result)))}
        left, right = _fragments(c, op.a, 0, chosen), _fragments(c, op.b, 1, chosen)
        exchanged = encoding.get("isTransposed" if self._unit.family == "mfma" else "isTranspose")
        for m, n in sorted({(m - m % rows, n - n % columns) for m, n in held}):
            places = register_coordinates(part)
            registers = [held[(m + i) % shape[0], (n + j) % shape[1]] for i, j in places]
            total = _vector(c, [out[r] for r in registers])
            for a, b in zip(left[m], right[n], strict=True):
                total = self._instruction(c, chosen, *((b, a) if exchanged else (a, b)), total)
            for lane, register in enumerate(registers):
                out[register] = c.f.extract(total, lane)
        c.set(op.results[0], out)

    def _instruction(
        self, c: Context, chosen: Instruction, a: Value, b: Value, total: Value
    ) -> Value:
        name, no = f"llvm.amdgcn.{chosen.intrinsic}", const("i1", 0)
        if self._unit.family == "mfma":
            return c.f.call(total.type, name, a, b, total, *[c.i32(0)] * 3)
        if ".iu8." in name:
            signed = const("i1", 1)
            last = [no, no] if self._unit.version == 3 else [no]
            return c.f.call(total.type, name, signed, a, signed, b, total, *last)
        if self._unit.version < 3:
            return c.f.call(total.type, name, a, b, total)
        whole, reuse = const("i16", 0), [no, no]
        if chosen.operand == "<8 x i32>":  # fp8, which has no signs to change
            return c.f.call(total.type, name, a, b, whole, total, *reuse)
        return c.f.call(total.type, name, no, a, no, b, whole, total, *reuse)


def _fragments(
    c: Context, value: Any, k_first: int, chosen: Instruction
) -> dict[int, list[Value]]:
    """An operand's registers as instructions take them: by row (of b: column) of the first thread,
    in the order of K."""
    tile = c.tile(value)
    found: dict[int, list[tuple[int, Value]]] = {}
    for place, register in zip(register_coordinates(layout_of(value.type)), tile, strict=True):
        found.setdefault(place[k_first], []).append((place[1 - k_first], register))
    fragments: dict[int, list[Value]] = {}
    for outer, elements in found.items():
        values = [v for _, v in sorted(elements, key=lambda e: e[0])]
        groups = [values[i : i + chosen.count] for i in range(0, len(values), chosen.count)]
        fragments[outer] = [_operand(c, group, chosen.operand) for group in groups]
    return fragments


def _operand(c: Context, values: Sequence[Value], type: str) -> Value:
    """Neighbours as one operand."""
    word = scalar(type)
    if bits_of(word) <= bits_of(values[0].type):
        return _vector(c, [c.as_type(v, word) for v in values])
    packed = c.f.cast("bitcast", _vector(c, values), type)
    assert lanes(type) * bits_of(word) == len(values) * bits_of(values[0].type)
    return packed


def _vector(c: Context, values: Sequence[Value]) -> Value:
    """Values as a vector; one alone as it is."""
    if len(values) == 1:
        return values[0]
    found = Value(vector(values[0].type, len(values)), "poison")
    for lane, value in enumerate(values):
        found = c.f.insert(found, value, lane)
    return found
