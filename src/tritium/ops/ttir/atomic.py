"""Atomic operations. `evaluate` performs them one after the other, in row-major order."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np

from tritium.errors import OpError
from tritium.ir import types as ir
from tritium.ops.arith.integer import unsigned
from tritium.ops.base import Op
from tritium.ops.effects import GLOBAL, reads, writes
from tritium.ops.elementwise import describe
from tritium.ops.evaluation import Context
from tritium.ops.fields import enum_attr, operand, optional
from tritium.ops.ttir.memory import check_access


class AtomicKind(IntEnum):
    """What a read-modify-write does."""

    AND = 1
    OR, XOR, ADD, FADD, MAX, MIN, UMAX, UMIN, XCHG = range(2, 11)


class MemSemantic(IntEnum):
    """How other memory accesses are ordered around an atomic one."""

    RELAXED = 1
    ACQUIRE, RELEASE, ACQUIRE_RELEASE = range(2, 5)


class MemScope(IntEnum):
    """Who takes part in the order: the GPU, the thread block (CTA), all devices."""

    GPU = 1
    CTA, SYSTEM = range(2, 4)


SEMANTIC_WORDS = {"acq_rel": MemSemantic.ACQUIRE_RELEASE}
SCOPE_WORDS = {"sys": MemScope.SYSTEM}
_UNSIGNED = {"UMAX": np.maximum, "UMIN": np.minimum}
_PLAIN = {
    "ADD": np.add, "FADD": np.add, "MAX": np.maximum, "MIN": np.minimum,
    "AND": np.bitwise_and, "OR": np.bitwise_or, "XOR": np.bitwise_xor,
}  # fmt: skip


def combine(kind: str, old: Any, value: Any, signed: bool = True) -> Any:
    """What memory holds after an operation named as in `AtomicKind`."""
    if kind == "XCHG":
        return value
    if kind in _UNSIGNED or not signed:
        function = _UNSIGNED.get(kind) or _PLAIN[kind]
        return function(unsigned(old), unsigned(value)).view(old.dtype)
    return _PLAIN[kind](old, value)


class AtomicRMWOp(Op):
    """Combine memory with `val` where the mask is true; the result is what memory held before
    (zero where the mask is false)."""

    name = "tt.atomic_rmw"
    effects = (reads(GLOBAL, "ptr"), writes(GLOBAL, "ptr"))
    syntax = "$atomic_rmw_op, $sem, $scope, $ptr, $val [, $mask] attrs : functional"
    ptr = operand()
    val = operand()
    mask = optional()
    atomic_rmw_op = enum_attr(AtomicKind, words={"exch": AtomicKind.XCHG})
    sem = enum_attr(MemSemantic, words=SEMANTIC_WORDS)
    scope = enum_attr(MemScope, words=SCOPE_WORDS)

    @classmethod
    def infer(
        cls,
        ptr: ir.Type,
        val: ir.Type,
        mask: ir.Type | None,
        *,
        atomic_rmw_op: AtomicKind,
        **attrs: Any,
    ) -> ir.Type:
        check_access(cls.name, ptr, mask, val)
        kind = atomic_rmw_op
        if kind is not AtomicKind.XCHG and ir.is_float(val) != (kind is AtomicKind.FADD):
            raise OpError(f"{cls.name}: {kind.name.lower()} of {describe(val)} is not supported")
        return val

    def evaluate(self, context: Context, ptr: Any, val: Any, mask: Any) -> Any:
        kind, val = self.atomic_rmw_op.name, np.asarray(val)
        return context.memory.update(
            ptr, val.dtype, mask, lambda old, at: combine(kind, old, val.reshape(-1)[at])
        )


class AtomicCASOp(Op):
    """Replace memory by `val` where it holds `cmp`, bit for bit; the result is what it held."""

    name = "tt.atomic_cas"
    effects = (reads(GLOBAL, "ptr"), writes(GLOBAL, "ptr"))
    syntax = "$sem, $scope, $ptr, $cmp, $val attrs : functional"
    ptr = operand()
    cmp = operand()
    val = operand()
    sem = enum_attr(MemSemantic, words=SEMANTIC_WORDS)
    scope = enum_attr(MemScope, words=SCOPE_WORDS)

    @classmethod
    def infer(cls, ptr: ir.Type, cmp: ir.Type, val: ir.Type, **attrs: Any) -> ir.Type:
        check_access(cls.name, ptr, None, val)
        if cmp != val:
            raise OpError(f"{cls.name}: compares {describe(cmp)} but stores {describe(val)}")
        return val

    def evaluate(self, context: Context, ptr: Any, cmp: Any, val: Any) -> Any:
        cmp, val = np.asarray(cmp), np.asarray(val)

        def change(old: np.ndarray, at: np.ndarray) -> np.ndarray:
            equal = unsigned(old) == unsigned(cmp.reshape(-1)[at])
            return np.where(equal, val.reshape(-1)[at], old)

        return context.memory.update(ptr, val.dtype, None, change)


OPS: tuple[type[Op], ...] = (AtomicRMWOp, AtomicCASOp)
