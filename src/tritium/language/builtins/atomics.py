"""Atomic operations on memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeAlias

from tritium.language.builtins import arithmetic, casts
from tritium.language.builtins.build import build, emit
from tritium.language.builtins.memory import (
    check_covered,
    check_mask,
    check_pointer,
    choose,
    fit,
    through_bytes,
)
from tritium.language.decorators import builtin, tensor_member
from tritium.language.values.tensor import TensorLike, tensor
from tritium.language.values.types import (
    bfloat16,
    dtype,
    float16,
    float32,
    float64,
    int1,
    int8,
    int16,
    int32,
    int64,
    pointer_type,
    uint8,
    uint16,
    uint32,
    uint64,
)
from tritium.ops import ttir
from tritium.ops.ttir import AtomicKind, MemScope, MemSemantic

_SEMANTICS = {
    "": MemSemantic.ACQUIRE_RELEASE, "acq_rel": MemSemantic.ACQUIRE_RELEASE,
    "acquire": MemSemantic.ACQUIRE, "release": MemSemantic.RELEASE,
    "relaxed": MemSemantic.RELAXED,
}  # fmt: skip
_SCOPES = {
    "": MemScope.GPU, "gpu": MemScope.GPU, "cta": MemScope.CTA, "sys": MemScope.SYSTEM,
}  # fmt: skip
_LOAD_SEMANTICS = {
    "": MemSemantic.ACQUIRE, "acquire": MemSemantic.ACQUIRE, "relaxed": MemSemantic.RELAXED,
}  # fmt: skip
_STORE_SEMANTICS = {
    "": MemSemantic.RELEASE, "release": MemSemantic.RELEASE, "relaxed": MemSemantic.RELAXED,
}  # fmt: skip
Mask: TypeAlias = "TensorLike | None"
Word: TypeAlias = "str | None"

_NARROW = (int8, int16, uint8, uint16)


def _order(
    sem: Word, scope: Word, semantics: Mapping[str, MemSemantic] = _SEMANTICS
) -> dict[str, Any]:
    return {
        "sem": choose("Memory semantic", sem, semantics),
        "scope": choose("Memory scope", scope, _SCOPES),
    }


def _pointer(name: str, pointer: TensorLike) -> tuple[tensor, dtype]:
    p = check_pointer(name, pointer)
    assert isinstance(p.dtype, pointer_type)
    if p.dtype.const:
        raise ValueError("Cannot store to a constant pointer")
    return p, p.dtype.element_ty


class Access:
    """The checked arguments of one atomic operation."""

    prefix = "atomic"
    """The first part of the function's name."""

    def __init__(
        self, name: str, pointer: TensorLike, val: TensorLike, mask: Mask, sem: Word, scope: Word
    ):
        function = f"{self.prefix}_{name}"
        p, element = _pointer(function, pointer)
        if element in (float16, bfloat16) and name != "add":
            raise ValueError(f"{function} does not support {element}")
        if element in _NARROW or element.is_bool() or element.is_fp8() or element.is_ptr():
            raise ValueError(f"{function} does not support {element}")
        value = casts.as_element(val, element, p.type)
        m = None if mask is None else casts.to_tensor(mask)
        for part, what in ((value, "Value"), (m, "Mask")):
            if part is not None:
                check_covered(p, part, what)
        self.name, self.pointer = name, p
        self.mask = check_mask(p, m)
        self.value = fit(p, value, "Value")
        self.element = element
        self.order = _order(sem, scope)

    def emit(
        self, kind: AtomicKind, value: tensor | None = None, mask: tensor | None = None
    ) -> tensor:
        """The operation, perhaps on the bits of another value of the same width."""
        value = self.value if value is None else value
        return self.made(
            self.to(self.pointer, value.dtype), value, self.mask if mask is None else mask, kind
        )

    def to(self, pointer: tensor, element: dtype) -> tensor:
        """The pointer, as one to other elements."""
        if element == self.element:
            return pointer
        assert isinstance(pointer.dtype, pointer_type)
        return casts.cast(pointer, pointer_type(element, pointer.dtype.address_space))

    def made(
        self, pointer: tensor, value: tensor, mask: tensor | None, kind: AtomicKind
    ) -> tensor:
        """The op."""
        return build(
            ttir.AtomicRMWOp, pointer, value, mask, like=value, atomic_rmw_op=kind, **self.order
        )


def _sum(access: Access) -> tensor:
    return access.emit(AtomicKind.FADD if access.element.is_floating() else AtomicKind.ADD)


def _bitwise(kind: AtomicKind, access: Access) -> tensor:
    if not access.element.is_int():
        raise ValueError(f"{access.prefix}_{access.name} does not support {access.element}")
    return access.emit(kind)


def _extremum(larger: bool, access: Access) -> tensor:
    signed, unsigned = (
        (AtomicKind.MAX, AtomicKind.UMAX) if larger else (AtomicKind.MIN, AtomicKind.UMIN)
    )
    if access.element.is_int():
        return access.emit(signed if access.element.is_int_signed() else unsigned)
    if access.element not in (float32, float64):
        raise TypeError(f"{access.prefix}_{access.name} not supported for dtype {access.element}")
    # Floats of one sign are ordered as their bits are: non-negative ones as signed integers, and
    # negative ones (-0.0 too) the other way round as unsigned integers.
    wide = access.element == float64
    bits = casts.bitcast(access.value, int64 if wide else int32)
    positive = arithmetic.compare("ge", bits, 0)
    negative = arithmetic.invert(positive)
    if access.mask is not None:
        positive = arithmetic.and_(positive, access.mask)
        negative = arithmetic.and_(negative, access.mask)
    above = access.emit(signed, bits, positive)
    unsigned_bits = casts.bitcast(bits, uint64 if wide else uint32)
    opposite = AtomicKind.UMIN if larger else AtomicKind.UMAX
    below = casts.bitcast(access.emit(opposite, unsigned_bits, negative), bits.dtype)
    return casts.bitcast(arithmetic.where(positive, above, below), access.element)


UPDATES: dict[str, Callable[[Access], tensor]] = {
    "add": _sum, "xchg": lambda access: access.emit(AtomicKind.XCHG),
    "and": partial(_bitwise, AtomicKind.AND), "or": partial(_bitwise, AtomicKind.OR),
    "xor": partial(_bitwise, AtomicKind.XOR),
    "max": partial(_extremum, True), "min": partial(_extremum, False),
}  # fmt: skip
"""Writes the ops of an access, by its name."""


@tensor_member
@builtin
def atomic_add(
    pointer: TensorLike, val: TensorLike, mask: Mask = None, sem: Word = None, scope: Word = None
) -> tensor:
    """Add `val` to memory at `pointer` where `mask` holds; returns what was there before.

    Args:
        pointer: a pointer or a block of them (which may repeat) to 32- or 64-bit integers or
            floats, float16 or bfloat16.
        val: cast to the element type and broadcast.
        sem: "acq_rel" (the default), "acquire", "release" or "relaxed".
        scope: "gpu" (the default), "cta" or "sys".

    Raises `ValueError` for other dtypes and words.
    """
    return UPDATES["add"](Access("add", pointer, val, mask, sem, scope))


def _operation(name: str, does: str) -> Callable[..., tensor]:
    """The function `atomic_NAME`, which takes what `atomic_add` does."""

    def operation(
        pointer: TensorLike, val: TensorLike, mask: Mask = None, sem: Word = None,
        scope: Word = None,
    ) -> tensor:  # fmt: skip
        return UPDATES[name](Access(name, pointer, val, mask, sem, scope))

    operation.__name__ = operation.__qualname__ = f"atomic_{name}"
    operation.__doc__ = f"{does} See `atomic_add`."
    return tensor_member(builtin(operation))


atomic_and = _operation("and", "Bitwise and of integers in memory with `val`.")
atomic_or = _operation("or", "Bitwise or of integers in memory with `val`.")
atomic_xor = _operation("xor", "Bitwise exclusive or of integers in memory with `val`.")
atomic_xchg = _operation("xchg", "Replace what is in memory by `val`.")
atomic_max = _operation(
    "max", "The larger of memory and `val` (integers, fp32, fp64), with -0.0 below 0.0."
)
atomic_min = _operation(
    "min", "The smaller of memory and `val` (integers, fp32, fp64), with -0.0 below 0.0."
)


@tensor_member
@builtin
def atomic_cas(
    pointer: TensorLike, cmp: TensorLike, val: TensorLike, sem: Word = None, scope: Word = None
) -> tensor:
    """Replace memory by `val` where it equals `cmp` (bit for bit); returns what was there before.

    Elements have 16, 32 or 64 bits; `ValueError` otherwise. See `atomic_add` for `sem`, `scope`.
    """
    p, element = _pointer("atomic_cas", pointer)
    if element.primitive_bitwidth not in (16, 32, 64):
        raise ValueError(
            f"atomic_cas only supports elements with width {{16, 32, 64}}; got {element}"
        )
    order = _order(sem, scope)
    values = [casts.as_element(v, element, p.type) for v in (cmp, val)]
    for value in values:
        check_covered(p, value, "Value")
    expected, new = (fit(p, v, "Value") for v in values)
    return build(ttir.AtomicCASOp, p, expected, new, like=element, **order)


def _plain_pointer(name: str, pointer: TensorLike) -> tuple[tensor, dtype, dtype]:
    """A pointer that is only loaded or stored through: its type in memory, and the element's."""
    p = check_pointer(name, pointer)
    assert isinstance(p.dtype, pointer_type)
    element = p.dtype.element_ty
    if not (element.is_int() or element.is_floating()):
        raise ValueError(f"{name} does not support {element}; elements are integers or floats")
    casts.check_dtype_supported(element)
    p, in_memory = through_bytes(p, element)
    return p, in_memory, element


@tensor_member
@builtin
def atomic_load(
    pointer: TensorLike, mask: Mask = None, sem: Word = None, scope: Word = None
) -> tensor:
    """Atomic load: the values at `pointer`, each element read at once; undefined where `mask` is
    false.

    Args:
        pointer: a pointer or a block of them, to integers or floats.
        sem: "acquire" (the default) or "relaxed".
        scope: "gpu" (the default), "cta" or "sys".

    Raises `ValueError` for other dtypes and words.
    """
    p, in_memory, element = _plain_pointer("atomic_load", pointer)
    order = _order(sem, scope, _LOAD_SEMANTICS)
    m = None if mask is None else casts.to_tensor(mask)
    if m is not None and p.type.is_block() and m.type.is_block():
        p, _ = arithmetic.broadcast_values(p, m)
    m = check_mask(p, m)
    return casts.cast(build(ttir.AtomicLoadOp, p, m, like=in_memory, **order), element)


@tensor_member
@builtin
def atomic_store(
    pointer: TensorLike, val: TensorLike, mask: Mask = None, sem: Word = None, scope: Word = None
) -> None:
    """Write `val` to memory at `pointer` where `mask` holds, each element at once.

    `sem` is "release" (the default) or "relaxed". See `atomic_load`.
    """
    p, in_memory, element = _plain_pointer("atomic_store", pointer)
    assert isinstance(p.dtype, pointer_type)
    if p.dtype.const:
        raise ValueError("Cannot store to a constant pointer")
    order = _order(sem, scope, _STORE_SEMANTICS)
    value = casts.cast(casts.as_element(val, element, p.type), in_memory)
    check_covered(p, value, "Value")
    m = None if mask is None else casts.to_tensor(mask)
    if m is not None:
        check_covered(p, m, "Mask")
    m, value = check_mask(p, m), fit(p, value, "Value")
    emit(ttir.AtomicStoreOp, p, value, m, **order)


@tensor_member
@builtin
def atomic_poll(
    pointer: TensorLike,
    expected_value: TensorLike,
    sem: Word = None,
    scope: Word = None,
    timeout_ns: TensorLike | None = None,
) -> tensor:
    """Wait until memory at `pointer` holds `expected_value`; an int1 for each element, false for
    one that did not within `timeout_ns`.

    Args:
        pointer: a pointer or a block of them, to integers of 16, 32 or 64 bits.
        expected_value: cast to the element type and broadcast.
        sem: "acquire" (the default) or "relaxed".
        scope: "gpu" (the default), "cta" or "sys".
        timeout_ns: a non-negative integer or scalar: the nanoseconds that all elements have
            together. Each is looked at once at least. Without it the wait has no end.

    Raises `ValueError` for other dtypes, words and times.
    """
    p, in_memory, _ = _plain_pointer("atomic_poll", pointer)
    order = _order(sem, scope, _LOAD_SEMANTICS)
    value = casts.as_element(expected_value, in_memory, p.type)
    check_covered(p, value, "Value")
    value = fit(p, value, "Value")
    timeout = None if timeout_ns is None else _nanoseconds(timeout_ns)
    return build(ttir.AtomicPollOp, p, value, timeout, like=int1, **order)


def _nanoseconds(time: object) -> tensor:
    if isinstance(time, int) and time < 0:
        raise ValueError(f"atomic_poll: timeout_ns is {time}; it must not be negative")
    t = casts.to_tensor(time)
    if t.type.is_block() or not t.dtype.is_int():
        raise ValueError(f"atomic_poll: timeout_ns has type {t.type}; a scalar integer is required")
    return casts.cast(t, uint64)
