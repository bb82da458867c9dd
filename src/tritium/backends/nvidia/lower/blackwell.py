"""Other instructions of sm_100: cluster launch control, arithmetic on pairs of elements."""

from __future__ import annotations

from typing import Any

from tritium.backends.nvidia.lower.hardware import NVIDIA
from tritium.codegen.gpu.context import Context
from tritium.codegen.gpu.emitter import bits_of
from tritium.codegen.llvm.writer import Value, const
from tritium.codegen.registry import lowers
from tritium.ops import ttgir

_FORMATS = {"float": "f32x2", "half": "f16x2", "bfloat": "bf16x2"}


@lowers(NVIDIA, ttgir.CLCTryCancelOp)
def try_cancel(c: Context, op: Any) -> None:
    answer, barrier = (c.address(c.memory(v).address) for v in (op.result, op.barrier))
    text = (
        "@$2 clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 "
        "[$0], [$1];"
    )
    c.asm("void", text, "r,r,b,~{memory}", answer, barrier, c.f.icmp("eq", c.thread, c.i32(0)))


@lowers(NVIDIA, ttgir.CLCLoadResultOp)
def load_result(c: Context, op: Any) -> None:
    low, high = c.load_neighbours(c.memory(op.src).address, "i64", 2)
    wide = c.f.op("shl", c.f.cast("zext", high, "i128"), const("i128", 64))
    c.set(op.results[0], c.f.op("or", c.f.cast("zext", low, "i128"), wide))


def _query(c: Context, op: Any, what: str) -> Value:
    answer = c.scalar(op.answer)
    low = c.f.cast("trunc", answer, "i64")
    high = c.f.cast("trunc", c.f.op("lshr", answer, const("i128", 64)), "i64")
    text = (
        f"{{ .reg .b128 answer; .reg .pred P; mov.b128 answer, {{$1, $2}}; "
        f"clusterlaunchcontrol.query_cancel.{what} }}"
    )
    return c.asm("i32", text, "=r,l,l", low, high, effects=False)


@lowers(NVIDIA, ttgir.CLCIsCanceledOp)
def is_canceled(c: Context, op: Any) -> None:
    found = _query(c, op, "is_canceled.pred.b128 P, answer; selp.b32 $0, 1, 0, P;")
    c.set(op.results[0], c.f.icmp("ne", found, c.i32(0)))


@lowers(NVIDIA, ttgir.CLCGetProgramIdOp)
def program_id(c: Context, op: Any) -> None:
    axis = op.dim.name.lower()
    block = _query(c, op, f"get_first_ctaid::{axis}.b32.b128 $0, answer;")
    whole = op.dim is ttgir.ProgramDim.X and c.num_ctas > 1
    shift = c.i32(c.num_ctas.bit_length() - 1)
    c.set(op.results[0], c.f.op("lshr", block, shift) if whole else block)


@lowers(NVIDIA, ttgir.PackedArithOp)
def packed(c: Context, op: Any) -> None:
    """Registers in pairs; a single one with itself."""
    operands = [c.tile(v) for v in op.values]
    element, count = operands[0][0].type, len(operands[0])
    word = f"i{2 * bits_of(element)}"
    code = {"i32": "r", "i64": "l"}[word]
    rounded = ".rn" if op.kind is ttgir.PackedKind.FMA else ""  # what others have by default
    name = f"{op.kind.name.lower()}{rounded}.{_FORMATS[element]}"
    names = ", ".join(f"${i}" for i in range(len(operands) + 1))
    constraints = ",".join([f"={code}", *[code] * len(operands)])
    results: list[Value] = []
    for first in range(0, count, 2):
        pair = [first, min(first + 1, count - 1)]
        words = [_joined(c, [tile[r] for r in pair], word) for tile in operands]
        found = c.asm(word, f"{name} {names};", constraints, *words, effects=False)
        vector = c.f.cast("bitcast", found, f"<2 x {element}>")
        results += [c.f.extract(vector, lane) for lane in range(min(2, count - first))]
    c.set(op.results[0], results)


def _joined(c: Context, pair: list[Value], word: str) -> Value:
    type = f"<2 x {pair[0].type}>"
    vector = Value(type, "poison")
    for lane, value in enumerate(pair):
        vector = c.f.emit(type, f"insertelement {vector}, {value}, i32 {lane}")
    return c.f.cast("bitcast", vector, word)
