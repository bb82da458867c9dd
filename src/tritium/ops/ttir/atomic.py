"""Atomic operations. `evaluate` performs them one after the other, in row-major order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from time import monotonic_ns
from typing import Any, ClassVar

import numpy as np
from xdsl.ir import SSAValue

from tritium.errors import OpError
from tritium.ir import types as ir
from tritium.ops.arith.integer import unsigned
from tritium.ops.base import Op
from tritium.ops.effects import GLOBAL, reads, writes
from tritium.ops.elementwise import describe
from tritium.ops.fields import enum_attr, operand, optional
from tritium.ops.memory import Context
from tritium.ops.ttir.memory import check_access


class AtomicKind(IntEnum):
    """The operation of a read-modify-write."""

    AND = 1
    OR, XOR, ADD, FADD, MAX, MIN, UMAX, UMIN, XCHG = range(2, 11)


class MemSemantic(IntEnum):
    """The order of other memory accesses around an atomic one."""

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
    """The new value of memory after an operation named as in `AtomicKind`."""
    if kind == "XCHG":
        return value
    if kind in _UNSIGNED or not signed:
        function = _UNSIGNED.get(kind) or _PLAIN[kind]
        return function(unsigned(old), unsigned(value)).view(old.dtype)
    return _PLAIN[kind](old, value)


class AtomicOp(Op):
    """An access to memory that other programs may touch at the same time: how other accesses are
    ordered around it (`sem`), and who takes part in that order (`scope`).

    It counts as reading and writing whatever it does, so that no other access moves across it.
    """

    effects = (reads(GLOBAL, "ptr"), writes(GLOBAL, "ptr"))
    updates: ClassVar[bool] = False
    """True if what it writes depends on what it reads."""
    ptr = operand()
    sem = enum_attr(MemSemantic, words=SEMANTIC_WORDS)
    scope = enum_attr(MemScope, words=SCOPE_WORDS)

    @property
    def synchronizes(self) -> bool:
        return not ir.shape_of(self.ptr.type)


class AtomicCombination(AtomicOp):
    """Base of the ops that combine memory with a tile."""

    updates = changes_memory = True
    atomic_rmw_op = enum_attr(AtomicKind, words={"exch": AtomicKind.XCHG})

    @property
    def exact(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return "atomic sum" if self.atomic_rmw_op is AtomicKind.FADD else ""

    def by_pointers(self, at: Any, operands: Sequence[Any]) -> list[Any]:
        """The operands of `tt.atomic_rmw` (pointers, value, and the mask if there is one) for those
        of this op. `at`: makes the ops that compute them, by its `value`."""
        return [*operands]

    def as_update(self, at: Any) -> AtomicUpdate:
        """The op as one that takes pointers; a new one, before it, where it is none."""
        if isinstance(self, AtomicUpdate):
            return self
        return at.make(
            AtomicRMWOp, *self.by_pointers(at, self.operands), atomic_rmw_op=self.atomic_rmw_op,
            sem=self.sem, scope=self.scope,
        )  # fmt: skip


class AtomicUpdate(AtomicCombination):
    """Base of the ops that combine memory with `val` where the mask is true."""

    val = operand()
    mask = optional()

    def exchange(self, ptr: SSAValue, expected: SSAValue, new: SSAValue) -> AtomicOp:
        """A compare-and-swap with the order of this op."""
        return AtomicCASOp.build(
            ptr, expected, new, sem=self.sem, scope=self.scope, location=self.location
        )


class AtomicRMWOp(AtomicUpdate):
    """Combine memory with `val` where the mask is true; the result is what memory held before
    (zero where the mask is false)."""

    name = "tt.atomic_rmw"
    builders = ("create_atomic_rmw atomic_rmw_op ptr val mask sem scope",)
    syntax = "$atomic_rmw_op, $sem, $scope, $ptr, $val [, $mask] attrs : functional"

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


def unordered_update(ptr: Any, val: Any, mask: Any, kind: AtomicKind) -> AtomicUpdate:
    """A new update, in no block, that orders no other access of the GPU's programs."""
    return AtomicRMWOp.build(
        ptr, val, mask, atomic_rmw_op=kind, sem=MemSemantic.RELAXED, scope=MemScope.GPU
    )


def swapped(cmp: Any, val: Any) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """The change that a compare-and-swap makes to elements of memory."""
    expected, new = np.asarray(cmp).reshape(-1), np.asarray(val).reshape(-1)

    def change(old: np.ndarray, at: np.ndarray) -> np.ndarray:
        return np.where(unsigned(old) == unsigned(expected[at]), new[at], old)

    return change


class AtomicCASOp(AtomicOp):
    """Replace memory by `val` where it holds `cmp`, bit for bit; the result is what it held."""

    name = "tt.atomic_cas"
    builders = ("create_atomic_cas ptr cmp val sem scope",)
    updates = changes_memory = True
    syntax = "$sem, $scope, $ptr, $cmp, $val attrs : functional"
    cmp = operand()
    val = operand()

    @classmethod
    def infer(cls, ptr: ir.Type, cmp: ir.Type, val: ir.Type, **attrs: Any) -> ir.Type:
        check_access(cls.name, ptr, None, val)
        if cmp != val:
            raise OpError(f"{cls.name}: compares {describe(cmp)} but stores {describe(val)}")
        return val

    def evaluate(self, context: Context, ptr: Any, cmp: Any, val: Any) -> Any:
        return context.memory.update(ptr, np.asarray(val).dtype, None, swapped(cmp, val))


def _check_semantic(name: str, sem: MemSemantic, allowed: MemSemantic) -> None:
    if sem not in (allowed, MemSemantic.RELAXED):
        words = f"{allowed.name.lower()} or relaxed"
        raise OpError(f"{name}: memory semantic {sem.name.lower()}; {words} is required")


class AtomicLoadOp(AtomicOp):
    """Atomic load: the value in memory where the mask is true, zero elsewhere."""

    name = "tt.atomic_load"
    syntax = "$sem, $scope, $ptr [, $mask] attrs : functional"
    mask = optional()

    @classmethod
    def infer(
        cls, ptr: ir.Type, mask: ir.Type | None, *, sem: MemSemantic, **attrs: Any
    ) -> ir.Type:
        _check_semantic(cls.name, sem, MemSemantic.ACQUIRE)
        return check_access(cls.name, ptr, mask, None)

    def evaluate(self, context: Context, ptr: Any, mask: Any) -> Any:
        return context.memory.load(ptr, ir.numpy_dtype(self.result_types[0]), mask)


class AtomicStoreOp(AtomicOp):
    """Write `val` to memory where the mask is true. Each element is written at once."""

    name = "tt.atomic_store"
    changes_memory = True
    syntax = "$sem, $scope, $ptr, $val [, $mask] attrs : type(ptr)"
    val = operand()
    mask = optional()

    @classmethod
    def infer(
        cls, ptr: ir.Type, val: ir.Type, mask: ir.Type | None, *, sem: MemSemantic, **attrs: Any
    ) -> None:
        _check_semantic(cls.name, sem, MemSemantic.RELEASE)
        check_access(cls.name, ptr, mask, val)

    def evaluate(self, context: Context, ptr: Any, val: Any, mask: Any) -> None:
        context.memory.store(ptr, val, mask)


class AtomicPollOp(AtomicOp):
    """Read each integer until it equals `expected`, or until `timeout` nanoseconds have passed
    since the op began; which ones were seen to be equal. Each is read once at least."""

    name = "tt.atomic_poll"
    may_wait = True
    syntax = (
        "$sem, $scope, $ptr, $expected [timeout $timeout] attrs "
        ": type(ptr), type(expected) -> type(result)"
    )
    expected = operand()
    timeout = optional()

    @classmethod
    def infer(
        cls, ptr: ir.Type, expected: ir.Type, timeout: ir.Type | None, *, sem: MemSemantic,
        **attrs: Any,
    ) -> ir.Type:  # fmt: skip
        _check_semantic(cls.name, sem, MemSemantic.ACQUIRE)
        check_access(cls.name, ptr, None, expected)
        if not ir.is_integer(expected) or ir.bit_width(expected) not in (16, 32, 64):
            raise OpError(
                f"{cls.name}: elements are {describe(expected)}; integers of 16, 32 or 64 bits "
                "are required"
            )
        if timeout is not None and timeout != ir.i64:
            raise OpError(f"{cls.name}: timeout has type {describe(timeout)}; i64 is required")
        return ir.with_element(expected, ir.i1)

    def evaluate(self, context: Context, ptr: Any, expected: Any, timeout: Any) -> Any:
        limit = None if timeout is None else int(timeout) % 2**64
        start, expected = monotonic_ns(), np.asarray(expected)
        seen = np.zeros(expected.shape, bool)
        while True:
            seen |= context.memory.load(ptr, expected.dtype, None) == expected
            if seen.all() or (limit is not None and monotonic_ns() - start >= limit):
                return seen if expected.shape else seen[()]
            context.pause()
