"""Loads and stores through pointers, blocks of pointers and block pointers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from tritium.language.builtins import arithmetic, casts
from tritium.language.builtins.build import build, emit
from tritium.language.decorators import builtin, must_use_result, tensor_member
from tritium.language.values.base import as_tuple
from tritium.language.values.constexpr import unwrap
from tritium.language.values.tensor import TensorLike, tensor
from tritium.language.values.tuples import tuple as tl_tuple
from tritium.language.values.types import (
    block_type,
    dtype,
    int1,
    int8,
    int32,
    int64,
    pointer_type,
    validate_block_shape,
)
from tritium.ops import ttir
from tritium.ops.ttir import CacheModifier, EvictionPolicy

V = TypeVar("V")

_EVICTION = {
    "": EvictionPolicy.EVICT_NORMAL,
    "evict_first": EvictionPolicy.EVICT_FIRST,
    "evict_last": EvictionPolicy.EVICT_LAST,
}
_LOAD_CACHE = {
    "": CacheModifier.NONE, ".ca": CacheModifier.CA, ".cg": CacheModifier.CG,
    ".cs": CacheModifier.CS, ".cv": CacheModifier.CV,
}  # fmt: skip
_STORE_CACHE = {
    "": CacheModifier.NONE, ".wb": CacheModifier.WB, ".cg": CacheModifier.CG,
    ".cs": CacheModifier.CS, ".wt": CacheModifier.WT,
}  # fmt: skip


def choose(what: str, value: str | None, allowed: Mapping[str, V]) -> V:
    """The meaning of a word; None, False and 0 are no word. Raises `ValueError` naming those that
    are allowed."""
    key = value or ""
    if key not in allowed:
        words = ", ".join(repr(k) for k in allowed)
        raise ValueError(f"{what} {value} not supported; allowed: {words}")
    return allowed[key]


class EvictionHints(str):
    """An eviction policy together with words that only one processor knows, its `hints`."""

    hints = ""


def cache_options(
    modifier: str | None, eviction: str | None, stores: bool = False
) -> dict[str, Any]:
    """The attributes of an op that reads (or `stores`), from the words of a program. Raises
    `ValueError`."""
    return {
        "cache": choose("Cache modifier", modifier, _STORE_CACHE if stores else _LOAD_CACHE),
        "evict": choose("Eviction policy", eviction, _EVICTION),
        "hints": getattr(eviction, "hints", ""),
    }


def is_block_pointer(value: tensor) -> bool:
    """True if it is a scalar that `make_block_ptr` made."""
    return isinstance(value.type, pointer_type) and value.type.element_ty.is_block()


def through_bytes(pointer: tensor, element: dtype) -> tuple[tensor, dtype]:
    """Booleans occupy bytes in memory."""
    if not element.is_bool():
        return pointer, element
    assert isinstance(pointer.dtype, pointer_type)
    as_bytes = pointer_type(int8, pointer.dtype.address_space, pointer.dtype.const)
    return casts.cast(pointer, as_bytes), int8


def check_pointer(name: str, value: TensorLike) -> tensor:
    """The pointer argument of a memory operation. Raises `ValueError` for anything else."""
    pointer = casts.to_tensor(value)
    if not pointer.dtype.is_ptr():
        raise ValueError(
            f"Unsupported ptr type {pointer.type} in `tl.{name}`; a pointer, or a block of "
            "pointers, is required"
        )
    return pointer


def check_mask(pointer: tensor, mask: TensorLike | None, what: str = "Mask") -> tensor | None:
    """A mask in the shape of the pointers. Raises `ValueError` for no booleans or a block mask
    with a scalar pointer."""
    if mask is None:
        return None
    m = casts.to_tensor(mask)
    if not m.dtype.is_bool():
        raise ValueError(f"{what} must have boolean scalar type; got {m.dtype}")
    return fit(pointer, m, what)


def fit(pointer: tensor, value: tensor, what: str) -> tensor:
    """`value` broadcast to the shape of the pointers."""
    if value.type.is_block() and not pointer.type.is_block():
        raise ValueError(f"{what} argument cannot be block type if pointer argument is not a block")
    while value.type.is_block() and len(value.type.shape) < len(pointer.type.shape):
        value = arithmetic.expand_dims(value, 0)
    value = arithmetic.broadcast_like(arithmetic.decided(value, pointer), pointer.type)
    if value.type.encoding != pointer.type.encoding:
        raise arithmetic.layouts_differ(pointer, value)
    return value


def _stretched(pointer: tensor, mask: tensor | None) -> tensor:
    """A block of pointers to load from, repeated where the mask is larger."""
    if mask is not None and pointer.type.is_block() and mask.type.is_block():
        pointer, _ = arithmetic.broadcast_values(pointer, mask)
    return pointer


def check_covered(pointer: tensor, other: tensor, what: str) -> None:
    """Raise `ValueError` for a value or mask that has more elements, or axes, than the block of
    pointers: which of the elements for one address were written would be left to chance."""
    if not pointer.type.is_block() or not other.type.is_block():
        return
    have, given = pointer.type.shape, other.type.shape
    shape = arithmetic.common_shape(have, given)
    if shape != have:
        raise ValueError(
            f"Expected pointer argument to have shape {list(shape)} but got {list(have)}: the "
            f"{what.lower()} has shape {list(given)}, and only a smaller one is broadcast to the "
            "pointers"
        )


@builtin
def load(
    pointer: TensorLike,
    mask: TensorLike | None = None,
    other: TensorLike | None = None,
    boundary_check: object = (),
    padding_option: str = "",
    cache_modifier: str = "",
    eviction_policy: str = "",
    volatile: bool = False,
) -> tensor:
    """Load the values in memory at `pointer`.

    Args:
        pointer: a scalar pointer, a block of pointers, or a block pointer.
        mask: int1, broadcast to the pointers; where it is false memory is not touched.
        other: the result where the mask is false (undefined without it), cast to the element type.
        boundary_check: for block pointers: the axes along which the block may cross the border.
        padding_option: for block pointers: "zero" or "nan" beyond the border.
        cache_modifier: "", ".ca", ".cg", ".cs" (streaming, an extension) or ".cv".
        eviction_policy: "", "evict_first" or "evict_last".
        volatile: neither merge nor drop the access.

    Raises `ValueError` for arguments that do not fit together.
    """
    options = {**cache_options(cache_modifier, eviction_policy), "isVolatile": bool(volatile)}
    paddings = {"": None, "zero": "zero", "nan": "nan"}
    padding = choose("Padding option", padding_option, paddings)
    pointer = check_pointer("load", pointer)
    if is_block_pointer(pointer):
        if mask is not None or other is not None:
            raise ValueError(
                "`mask` and `other` arguments cannot be specified for loading block pointers"
            )
        return _load_block_pointer(pointer, boundary_check, padding, options)
    if mask is None and other is not None:
        raise ValueError("`other` cannot be provided without `mask`")
    if padding or boundary_check:
        raise ValueError(
            "`padding_option` or `boundary_check` argument is not supported for loading a tensor "
            "of pointers or a scalar, whose bounds are unknown; use `mask`, or a block pointer "
            "made by `make_block_ptr`"
        )
    return _load_pointers(pointer, mask, other, options)


def _load_pointers(
    pointer: tensor, mask: TensorLike | None, other: TensorLike | None, options: Mapping[str, Any]
) -> tensor:
    assert isinstance(pointer.dtype, pointer_type)
    element = pointer.dtype.element_ty
    casts.check_dtype_supported(element)
    m = None if mask is None else casts.to_tensor(mask)
    pointer = _stretched(pointer, m)
    m = check_mask(pointer, m)
    pointer, memory_type = through_bytes(pointer, element)
    o = None
    if other is not None:
        o = fit(pointer, casts.as_element(other, memory_type, pointer.type), "Other")
    return casts.cast(build(ttir.LoadOp, pointer, m, o, like=memory_type, **options), element)


@tensor_member
@builtin
def store(
    pointer: TensorLike,
    value: TensorLike,
    mask: TensorLike | None = None,
    boundary_check: object = (),
    cache_modifier: str = "",
    eviction_policy: str = "",
) -> None:
    """Write `value`, cast to the element type and broadcast, to memory at `pointer`.

    Args:
        pointer: a scalar pointer, a block of pointers, or a block pointer.
        value: a number or tensor.
        mask: int1, broadcast to the pointers; where it is false memory is not touched.
        boundary_check: for block pointers: the axes along which the block may cross the border;
            what lies beyond is dropped.
        cache_modifier: "", ".wb", ".cg", ".cs" or ".wt".
        eviction_policy: "", "evict_first" or "evict_last".

    Raises `ValueError` for arguments that do not fit together, or a const pointer.
    """
    options = cache_options(cache_modifier, eviction_policy, stores=True)
    pointer = check_pointer("store", pointer)
    if pointer.dtype.is_const():
        raise ValueError("Cannot store to a constant pointer")
    if is_block_pointer(pointer):
        if mask is not None:
            raise ValueError("`mask` argument cannot be specified for storing block pointers")
        _store_block_pointer(pointer, value, boundary_check, options)
        return
    if boundary_check:
        raise ValueError(
            "`boundary_check` argument is not supported for storing a tensor of pointers or a "
            "scalar, whose bounds are unknown; use `mask`, or a block pointer made by "
            "`make_block_ptr`"
        )
    assert isinstance(pointer.dtype, pointer_type)
    element = pointer.dtype.element_ty
    m = None if mask is None else casts.to_tensor(mask)
    v = casts.as_element(value, element, pointer.type)
    pointer = arithmetic.decided(pointer, v)
    for part, what in ((v, "Value"), (m, "Mask")):
        if part is not None:
            check_covered(pointer, part, what)
    v, m = fit(pointer, v, "Value"), check_mask(pointer, m)
    pointer, memory_type = through_bytes(pointer, element)
    v = casts.cast(v, memory_type)
    emit(ttir.StoreOp, pointer, v, m, **options)


# Block pointers


def _block_of(pointer: tensor, check: object, accessed: str) -> tuple[dtype, tuple[int, ...]]:
    """The type of the block at a pointer, and the axes to check."""
    assert isinstance(pointer.type, pointer_type)
    block = pointer.type.element_ty
    if block.scalar.is_bool():
        raise ValueError(f"a block pointer to int1 cannot be {accessed}; use int8")
    rank, axes = len(block.shape), as_tuple(check)
    if any(not isinstance(a, int) or not 0 <= a < rank for a in axes):
        raise ValueError(f"boundary_check is {check}; axes from 0 to {rank - 1} are allowed")
    if len(set(axes)) != len(axes):
        raise ValueError(f"boundary_check is {check}; each axis may be given once")
    return block, tuple(sorted(axes))


def _load_block_pointer(
    pointer: tensor, boundary_check: object, padding: str | None, options: Mapping[str, Any]
) -> tensor:
    block, axes = _block_of(pointer, boundary_check, "loaded from")
    attrs = dict(options)
    if padding is not None:
        attrs["padding"] = ttir.PaddingOption[f"PAD_{padding.upper()}"]
    return build(ttir.LoadOp, pointer, like=block, boundaryCheck=axes, **attrs)


def _store_block_pointer(
    pointer: tensor, value: TensorLike, boundary_check: object, options: Mapping[str, Any]
) -> None:
    block, axes = _block_of(pointer, boundary_check, "stored to")
    stored = casts.as_element(value, block.scalar, block)
    stored = arithmetic.broadcast_shape(stored, block.shape)
    emit(ttir.StoreOp, pointer, stored, boundaryCheck=axes, **options)


def integers(values: object, type: dtype, what: str) -> list[tensor]:
    """Integers and integer scalars as scalars of `type`. Raises `TypeError` for anything else."""
    sequence = values.values if isinstance(values, tl_tuple) else as_tuple(values)
    result: list[tensor] = []
    for value in sequence:
        scalar = casts.to_tensor(unwrap(value))
        if not scalar.dtype.is_int() or scalar.type.is_block():
            raise TypeError(f"{what} has an entry of type {scalar.type}; integers are required")
        result.append(casts.cast(scalar, type))
    return result


@builtin
def make_block_ptr(
    base: TensorLike,
    shape: object,
    strides: object,
    offsets: object,
    block_shape: object,
    order: object,
) -> tensor:
    """A pointer to a block of a strided tensor in memory.

    Args:
        base: a scalar pointer to the tensor's first element.
        shape, strides: of the whole tensor, in elements.
        offsets: where the block begins.
        block_shape: compile-time powers of two.
        order: the axes from the fastest varying to the slowest.

    Raises `OpError` where lengths differ or `order` is no permutation.
    """
    base = casts.to_tensor(base)
    if not isinstance(base.type, pointer_type):
        raise ValueError(f"Expected `base` to be a pointer type; got {base.type}")
    if base.type.element_ty.is_bool():
        base, _ = through_bytes(base, int1)
        assert isinstance(base.type, pointer_type)
    extents, axes = as_tuple(block_shape), as_tuple(order)
    validate_block_shape(extents)
    parts = (
        integers(shape, int64, "shape"),
        integers(strides, int64, "strides"),
        integers(offsets, int32, "offsets"),
    )
    type = pointer_type(block_type(base.type.element_ty, extents), base.type.address_space)
    return build(ttir.MakeTensorPtrOp, base, *parts, like=type, result=type.to_ir(), order=axes)


@tensor_member
@must_use_result(
    "tl.advance has no side effects: it returns a new block pointer, which must be assigned."
)
@builtin
def advance(base: TensorLike, offsets: object) -> tensor:
    """The block pointer `base` moved by `offsets` elements along each axis; `base` itself stays,
    so the result must be used."""
    pointer = casts.to_tensor(base)
    return build(ttir.AdvanceOp, pointer, integers(offsets, int32, "offsets"), like=pointer)
