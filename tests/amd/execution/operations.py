"""LLVM's instructions on values, lane by lane: arithmetic, comparisons, conversions, vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from tests.amd.execution.parse import CASTS, Instruction
from tests.amd.execution.types import (
    BOOL,
    LDS,
    OBJECT,
    Type,
    bitcast,
    poison,
    select,
    signed,
    storage,
    unsigned,
    wrapped,
)

Compute = Callable[..., Any]
"""Gives an instruction's value from those of its operands."""


def _magnitude(type: Type, value: Any) -> tuple[Any, Any]:
    number = signed(type, value)
    negative = number < 0
    if type.dtype == OBJECT:
        return np.where(negative, -number, number), negative
    return np.where(negative, wrapped(type, ~value + type.dtype.type(1)), value), negative


def _divide(type: Type, a: Any, b: Any) -> Any:
    (x, negative), (y, other) = _magnitude(type, a), _magnitude(type, b)
    found = _quotient(x, y)
    return np.where(negative ^ other, wrapped(type, -found), found)


def _quotient(a: Any, b: Any) -> Any:
    """Rounded down; by 0 it is undefined: 0 here, as `evaluate` has it."""
    one = b.dtype.type(1) if b.dtype != OBJECT else 1
    return np.where(b == 0, a ^ a, a // np.where(b == 0, one, b))


def _rest(a: Any, b: Any) -> Any:
    return np.where(b == 0, a ^ a, a - _quotient(a, b) * b)


def _remainder(type: Type, a: Any, b: Any) -> Any:
    (x, negative), (y, _) = _magnitude(type, a), _magnitude(type, b)
    found = _rest(x, y)
    return np.where(negative, wrapped(type, -found), found)


def _shift(compute: Callable[[Type, Any, Any], Any]) -> Callable[[Type, Any, Any], Any]:
    """A shift; by as many bits as a number has, or more, it is undefined."""

    def shifted(type: Type, a: Any, b: Any) -> Any:
        far = b >= type.element.bits
        if not np.any(far):
            return compute(type, a, b)
        return np.where(far, poison(type), compute(type, a, np.where(far, b ^ b, b)))

    return shifted


def _arithmetic_shift(type: Type, a: Any, b: Any) -> Any:
    number = signed(type, a)
    return unsigned(type, number >> (b.astype(number.dtype) if number.dtype != OBJECT else b))


def _add(type: Type, a: Any, b: Any) -> Any:
    return a ^ b if type.dtype == BOOL else wrapped(type, a + b)


def _subtract(type: Type, a: Any, b: Any) -> Any:
    return a ^ b if type.dtype == BOOL else wrapped(type, a - b)


def _multiply(type: Type, a: Any, b: Any) -> Any:
    return a & b if type.dtype == BOOL else wrapped(type, a * b)


_BINARY: dict[str, Callable[[Type, Any, Any], Any]] = {
    "add": _add, "sub": _subtract, "mul": _multiply,
    "udiv": lambda t, a, b: _quotient(a, b), "urem": lambda t, a, b: _rest(a, b),
    "sdiv": _divide, "srem": _remainder,
    "and": lambda t, a, b: a & b, "or": lambda t, a, b: a | b, "xor": lambda t, a, b: a ^ b,
    "shl": _shift(lambda t, a, b: wrapped(t, a << b)), "lshr": _shift(lambda t, a, b: a >> b),
    "ashr": _shift(_arithmetic_shift),
    "fadd": lambda t, a, b: a + b, "fsub": lambda t, a, b: a - b, "fmul": lambda t, a, b: a * b,
    "fdiv": lambda t, a, b: a / b, "frem": lambda t, a, b: np.fmod(a, b),
}  # fmt: skip


def _overflows(ins: Instruction) -> Callable[[Any, Any, Any], Any] | None:
    """A function that says where an instruction's promises (`nsw`, `exact`, ...) are broken, from
    the operands and the result: there it is undefined."""
    type, flags = ins.type, ins.flags
    checks: list[Callable[[Any, Any, Any], Any]] = []
    if "disjoint" in flags:
        checks.append(lambda a, b, r: (a & b) != 0)
    if ins.opcode == "lshr" and "exact" in flags:
        checks.append(lambda a, b, r: (r << b) != a)
    if type.dtype in (OBJECT, BOOL):
        return checks[0] if checks else None
    if ins.opcode == "add":
        if "nuw" in flags:
            checks.append(lambda a, b, r: r < a)
        if "nsw" in flags:
            checks.append(lambda a, b, r: signed(type, (a ^ r) & (b ^ r)) < 0)
    if ins.opcode == "sub":
        if "nuw" in flags:
            checks.append(lambda a, b, r: a < b)
        if "nsw" in flags:
            checks.append(lambda a, b, r: signed(type, (a ^ b) & (a ^ r)) < 0)
    if ins.opcode == "mul" and type.element.bits <= 32:
        wide = np.int64
        if "nsw" in flags:
            checks.append(lambda a, b, r: signed(type, a).astype(wide) * signed(type, b)
                          != signed(type, r))  # fmt: skip
        if "nuw" in flags:
            checks.append(lambda a, b, r: a.astype(np.uint64) * b != r)
    if ins.opcode == "shl":
        if "nuw" in flags:
            checks.append(lambda a, b, r: (r >> b) != a)
        if "nsw" in flags:
            checks.append(lambda a, b, r: signed(type, r) >> signed(type, b) != signed(type, a))
    if not checks:
        return None
    return lambda a, b, r: np.logical_or.reduce([check(a, b, r) for check in checks])


def _binary(ins: Instruction) -> Compute:
    compute, type, broken = _BINARY[ins.opcode], ins.type, _overflows(ins)
    if broken is None:
        return lambda a, b: compute(type, a, b)

    def checked(a: Any, b: Any) -> Any:
        found = compute(type, a, b)
        wrong = broken(a, b, found)
        return np.where(wrong, poison(type), found) if np.any(wrong) else found

    return checked


_SIGNED = {"slt": np.less, "sle": np.less_equal, "sgt": np.greater, "sge": np.greater_equal}
_UNSIGNED = {"eq": np.equal, "ne": np.not_equal, "ult": np.less, "ule": np.less_equal,
             "ugt": np.greater, "uge": np.greater_equal}  # fmt: skip
_FLOAT = {"eq": np.equal, "gt": np.greater, "ge": np.greater_equal, "lt": np.less,
          "le": np.less_equal}  # fmt: skip


def _compare(ins: Instruction) -> Compute:
    type, what = ins.types[0], ins.what
    if what in _SIGNED:
        return lambda a, b: _SIGNED[what](signed(type, a), signed(type, b)).astype(bool)
    return lambda a, b: _UNSIGNED[what](a, b).astype(bool)


def _compare_floats(ins: Instruction) -> Compute:
    what = ins.what

    def compare(a: Any, b: Any) -> Any:
        unordered = (a != a) | (b != b)
        if what in ("uno", "ord"):
            return unordered if what == "uno" else ~unordered
        if what in ("une", "one"):
            return (a != b) if what == "une" else (a != b) & ~unordered
        found = _FLOAT[what[1:]](a, b)
        return found | unordered if what[0] == "u" else found

    return compare


def rounded(value: Any, dtype: Any) -> Any:
    """A float rounded once, to nearest even; `ml_dtypes` rounds doubles twice."""
    if value.dtype != np.float64 or dtype != ml_dtypes.bfloat16:
        return value.astype(dtype)
    return to_odd(value).astype(dtype)


def to_odd(value: Any, rest: Any = 0) -> Any:
    """The double `value + rest` as a float whose last bit tells that it is not exact, so that it
    can be rounded again. `rest` is less than half of a double's last place."""
    near = value.astype(np.float32)
    error = value - near.astype(np.float64)
    error = np.where(error != 0, error, rest)
    bits = near.view(np.uint32)
    outward = (error > 0) == (bits >> np.uint32(31) == 0)
    odd = np.where(outward, bits, bits - np.uint32(1)) | np.uint32(1)
    return np.where((error != 0) & np.isfinite(near), odd, bits).view(np.float32)


def _integer_to_float(ins: Instruction) -> Compute:
    source, target, is_signed = ins.types[0], ins.type, ins.opcode == "sitofp"

    def convert(a: Any) -> Any:
        number = signed(source, a) if is_signed else a
        if number.dtype == BOOL:
            number = number.astype(np.uint8)
        if target.dtype in (np.float16, ml_dtypes.bfloat16):
            exact = number.astype(np.float64)
            return rounded(exact, target.dtype)
        return number.astype(target.dtype)

    return convert


def _float_to_integer(ins: Instruction) -> Compute:
    """Numbers that the type lacks become the nearest that it has, as the instructions of AMD GPUs
    have it; NaN 0."""
    target, is_signed = ins.type, ins.opcode == "fptosi"
    bits = target.element.bits
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if is_signed else (0, (1 << bits) - 1)
    least, most, none = (np.array(number, object) for number in (low, high, 0))

    def convert(a: Any) -> Any:
        wide = np.trunc(a.astype(np.float64))
        inside = (wide >= low) & (wide <= high) & (wide < 2.0**bits)
        inside &= (wide < float(high)) | (bits < 54)
        safe = np.where(inside, wide, 0.0)
        number = safe.astype(np.int64) if is_signed else safe.astype(np.uint64)
        limit = np.where(wide > 0, most, np.where(wide < 0, least, none))
        found = unsigned(target, number)
        return np.where(inside, found, unsigned(target, limit))

    return convert


def _cast(ins: Instruction) -> Compute:
    source, target, opcode = ins.types[0], ins.type, ins.opcode
    if opcode == "bitcast":
        return lambda a: bitcast(source, target, a)
    if opcode in ("fptrunc", "fpext"):
        return lambda a: rounded(a, target.dtype)
    if opcode in ("sitofp", "uitofp"):
        return _integer_to_float(ins)
    if opcode in ("fptosi", "fptoui"):
        return _float_to_integer(ins)
    if opcode == "sext":
        return lambda a: unsigned(target, signed(source, a))
    if opcode == "zext" and "nneg" in ins.flags:
        def extend(a: Any) -> Any:
            wrong = signed(source, a) < 0
            found = a.astype(target.dtype)
            return np.where(wrong, poison(target), found) if np.any(wrong) else found

        return extend
    if opcode == "trunc" and target.element.bits == 1:
        return lambda a: (a & 1).astype(bool)
    if opcode == "inttoptr" and target.space == LDS:
        return lambda a: a.astype(np.uint64) & np.uint64(0xFFFFFFFF)
    if opcode == "addrspacecast" and {source.space, target.space} - {0, 1, 4}:
        raise NotImplementedError(f"conversion of addresses: {ins.text}")
    return lambda a: unsigned(target, a) if target.kind != "ptr" else a.astype(np.uint64)


def _step(ins: Instruction) -> Compute:
    """Addresses: the first index counts whole elements."""
    element, kinds, local = ins.other, ins.types[1:], ins.types[0].space == LDS
    assert element is not None
    sizes, inner = [element.size], element
    for _ in kinds[1:]:
        inner = inner.element
        sizes.append(inner.size)

    def step(base: Any, *indices: Any) -> Any:
        total = base
        for type, size, index in zip(kinds, sizes, indices, strict=True):
            number = signed(type, index).astype(np.int64) * np.int64(size)
            total = total + number.view(np.uint64)
        return total & np.uint64(0xFFFFFFFF) if local else total

    return step


def _fill(vector: Any, value: Any, index: Any) -> Any:
    lanes = max(len(vector), len(value), len(index))
    found = np.broadcast_to(vector, (lanes, vector.shape[1])).copy()
    found[np.arange(lanes), index.astype(np.int64)] = value
    return found


def _pick(vector: Any, index: Any) -> Any:
    if len(index) == 1:
        return vector[:, int(index[0])]
    return np.take_along_axis(vector, index.astype(np.int64)[:, None], 1)[:, 0]


def _shuffle(a: Any, b: Any, mask: Any) -> Any:
    lanes = max(len(a), len(b))
    both = np.concatenate(
        [np.broadcast_to(v, (lanes, v.shape[1])) for v in (a, b)], axis=1
    )
    return both[:, mask[0].astype(np.int64) % both.shape[1]]


def _negate(ins: Instruction) -> Compute:
    bits = ins.type.element.width
    word = storage(bits)
    return lambda a: (a.view(word) ^ word.type(1 << (bits - 1))).view(ins.type.dtype)


def _put_value(ins: Instruction) -> Compute:
    at = ins.numbers[0]
    return lambda whole, part: (*whole[:at], part, *whole[at + 1 :])


_OTHERS: dict[str, Callable[[Instruction], Compute]] = {
    "icmp": _compare, "fcmp": _compare_floats, "fneg": _negate, "getelementptr": _step,
    "select": lambda ins: select, "freeze": lambda ins: lambda a: a,
    "extractelement": lambda ins: _pick, "insertelement": lambda ins: _fill,
    "shufflevector": lambda ins: _shuffle,
    "extractvalue": lambda ins: lambda whole: whole[ins.numbers[0]],
    "insertvalue": _put_value,
}  # fmt: skip


def compute(ins: Instruction) -> Compute | None:
    """The function of an instruction on values; None of one that does more."""
    if ins.opcode in _BINARY:
        return _binary(ins)
    if ins.opcode in _OTHERS:
        return _OTHERS[ins.opcode](ins)
    return _cast(ins) if ins.opcode in CASTS else None
