"""The language's own functions and types, all but the library that is written in it.

This is the module that programs know as `triton.language.core`.
"""

from __future__ import annotations

from typing import Any

from tritium.language.builtins import numbers as numbers
from tritium.language.builtins import operators as operators
from tritium.language.builtins.arithmetic import PropagateNan as PropagateNan
from tritium.language.builtins.atomics import atomic_add as atomic_add
from tritium.language.builtins.atomics import atomic_and as atomic_and
from tritium.language.builtins.atomics import atomic_cas as atomic_cas
from tritium.language.builtins.atomics import atomic_load as atomic_load
from tritium.language.builtins.atomics import atomic_max as atomic_max
from tritium.language.builtins.atomics import atomic_min as atomic_min
from tritium.language.builtins.atomics import atomic_or as atomic_or
from tritium.language.builtins.atomics import atomic_poll as atomic_poll
from tritium.language.builtins.atomics import atomic_store as atomic_store
from tritium.language.builtins.atomics import atomic_xchg as atomic_xchg
from tritium.language.builtins.atomics import atomic_xor as atomic_xor
from tritium.language.builtins.creation import arange as arange
from tritium.language.builtins.creation import full as full
from tritium.language.builtins.creation import full_like_type as full_like_type
from tritium.language.builtins.creation import num_programs as num_programs
from tritium.language.builtins.creation import program_id as program_id
from tritium.language.builtins.creation import zeros as zeros
from tritium.language.builtins.creation import zeros_like as zeros_like
from tritium.language.builtins.debug import assume as assume
from tritium.language.builtins.debug import debug_barrier as debug_barrier
from tritium.language.builtins.debug import device_assert as device_assert
from tritium.language.builtins.debug import device_print as device_print
from tritium.language.builtins.debug import expect_zero as expect_zero
from tritium.language.builtins.debug import max_constancy as max_constancy
from tritium.language.builtins.debug import max_contiguous as max_contiguous
from tritium.language.builtins.debug import multiple_of as multiple_of
from tritium.language.builtins.debug import static_assert as static_assert
from tritium.language.builtins.debug import static_print as static_print
from tritium.language.builtins.descriptors import load_tensor_descriptor as load_tensor_descriptor
from tritium.language.builtins.descriptors import make_tensor_descriptor as make_tensor_descriptor
from tritium.language.builtins.descriptors import store_tensor_descriptor as store_tensor_descriptor
from tritium.language.builtins.dot import dot as dot
from tritium.language.builtins.dot import dot_scaled as dot_scaled
from tritium.language.builtins.elementwise import add as add
from tritium.language.builtins.elementwise import clamp as clamp
from tritium.language.builtins.elementwise import gather as gather
from tritium.language.builtins.elementwise import histogram as histogram
from tritium.language.builtins.elementwise import maximum as maximum
from tritium.language.builtins.elementwise import minimum as minimum
from tritium.language.builtins.elementwise import mul as mul
from tritium.language.builtins.elementwise import sort_whole as sort_whole
from tritium.language.builtins.elementwise import sorts_whole as sorts_whole
from tritium.language.builtins.elementwise import sub as sub
from tritium.language.builtins.elementwise import to_tensor as to_tensor
from tritium.language.builtins.elementwise import where as where
from tritium.language.builtins.external import dispatch as dispatch
from tritium.language.builtins.external import extern_elementwise as extern_elementwise
from tritium.language.builtins.external import inline_asm_elementwise as inline_asm_elementwise
from tritium.language.builtins.iterators import common_integer_type as common_integer_type
from tritium.language.builtins.iterators import condition as condition
from tritium.language.builtins.iterators import range as range
from tritium.language.builtins.iterators import static_range as static_range
from tritium.language.builtins.memory import advance as advance
from tritium.language.builtins.memory import load as load
from tritium.language.builtins.memory import make_block_ptr as make_block_ptr
from tritium.language.builtins.memory import store as store
from tritium.language.builtins.operators import cast as cast
from tritium.language.builtins.operators import item as item
from tritium.language.builtins.operators import logical_and as logical_and
from tritium.language.builtins.operators import logical_not as logical_not
from tritium.language.builtins.operators import logical_or as logical_or
from tritium.language.builtins.operators import slice as slice
from tritium.language.builtins.regions import associative_scan as associative_scan
from tritium.language.builtins.regions import map_elementwise as map_elementwise
from tritium.language.builtins.regions import reduce as reduce
from tritium.language.builtins.shapes import broadcast as broadcast
from tritium.language.builtins.shapes import broadcast_to as broadcast_to
from tritium.language.builtins.shapes import cat as cat
from tritium.language.builtins.shapes import expand_dims as expand_dims
from tritium.language.builtins.shapes import join as join
from tritium.language.builtins.shapes import permute as permute
from tritium.language.builtins.shapes import reshape as reshape
from tritium.language.builtins.shapes import split as split
from tritium.language.builtins.shapes import trans as trans
from tritium.language.builtins.shapes import view as view
from tritium.language.decorators import builtin as builtin
from tritium.language.decorators import extern as extern
from tritium.language.decorators import must_use_result as must_use_result
from tritium.language.decorators import tensor_member
from tritium.language.values.aggregate import _aggregate as _aggregate  # pyright: ignore[reportPrivateUsage]
from tritium.language.values.aggregate import aggregate_replace as aggregate_replace
from tritium.language.values.aggregate import aggregate_type as aggregate_type
from tritium.language.values.base import base_type as base_type
from tritium.language.values.base import base_value as base_value
from tritium.language.values.base import is_builtin as is_builtin
from tritium.language.values.constexpr import constexpr as constexpr
from tritium.language.values.constexpr import constexpr_function as constexpr_function
from tritium.language.values.constexpr import constexpr_type as constexpr_type
from tritium.language.values.constexpr import unwrap
from tritium.language.values.tensor import tensor as tensor
from tritium.language.values.tensor import tensor_descriptor as tensor_descriptor
from tritium.language.values.tuples import tuple as tuple
from tritium.language.values.tuples import tuple_type as tuple_type
from tritium.language.values.types import TRITON_MAX_TENSOR_NUMEL as TRITON_MAX_TENSOR_NUMEL
from tritium.language.values.types import bfloat16 as bfloat16
from tritium.language.values.types import block_type as block_type
from tritium.language.values.types import const as const
from tritium.language.values.types import dtype as dtype
from tritium.language.values.types import float8e4b8 as float8e4b8
from tritium.language.values.types import float8e4b15 as float8e4b15
from tritium.language.values.types import float8e4nv as float8e4nv
from tritium.language.values.types import float8e5 as float8e5
from tritium.language.values.types import float8e5b16 as float8e5b16
from tritium.language.values.types import float16 as float16
from tritium.language.values.types import float32 as float32
from tritium.language.values.types import float64 as float64
from tritium.language.values.types import get_int_dtype as get_int_dtype
from tritium.language.values.types import int1 as int1
from tritium.language.values.types import int8 as int8
from tritium.language.values.types import int16 as int16
from tritium.language.values.types import int32 as int32
from tritium.language.values.types import int64 as int64
from tritium.language.values.types import pi32_t as pi32_t
from tritium.language.values.types import pointer_type as pointer_type
from tritium.language.values.types import slice_type as slice_type
from tritium.language.values.types import str_to_ty as str_to_ty
from tritium.language.values.types import tensor_descriptor_type as tensor_descriptor_type
from tritium.language.values.types import uint8 as uint8
from tritium.language.values.types import uint16 as uint16
from tritium.language.values.types import uint32 as uint32
from tritium.language.values.types import uint64 as uint64
from tritium.language.values.types import validate_block_shape as validate_block_shape
from tritium.language.values.types import void as void

CONSTEXPR_0 = constexpr(0)

_unwrap_if_constexpr = unwrap


def _unwrap_shape(shape: object) -> list[Any]:  # pyright: ignore[reportUnusedFunction]
    """The extents of a shape as numbers; libraries that extend the language call it."""
    return [unwrap(extent) for extent in unwrap(shape)]


_tensor_member_fn = tensor_member
"""The name that kernels of torch.compile call: their scans across programs, for dtypes."""
