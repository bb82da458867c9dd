"""The language of `@gluon.jit` functions: `tl`, with layouts.

    import tritium.experimental.gluon.language as gl

    layout: gl.constexpr = gl.BlockedLayout([4], [32], [4], [0])
    offsets = gl.arange(0, 1024, layout)

Functions that make a block take its layout; others give the layout that follows from their
operands'. Names that are in `triton.language` as well mean the same.
"""

from __future__ import annotations

from tritium.experimental.gluon.language import _core as _core
from tritium.experimental.gluon.language import amd as amd
from tritium.experimental.gluon.language import extra as extra
from tritium.experimental.gluon.language import fpsan as fpsan
from tritium.experimental.gluon.language import nvidia as nvidia
from tritium.experimental.gluon.language._assembly import inline_asm as inline_asm
from tritium.experimental.gluon.language._assembly import (
    inline_asm_elementwise as inline_asm_elementwise,
)
from tritium.experimental.gluon.language._core import arange as arange
from tritium.experimental.gluon.language._core import bank_conflicts as bank_conflicts
from tritium.experimental.gluon.language._core import barrier as barrier
from tritium.experimental.gluon.language._core import convert_layout as convert_layout
from tritium.experimental.gluon.language._core import dot_fma as dot_fma
from tritium.experimental.gluon.language._core import fp4_to_fp as fp4_to_fp
from tritium.experimental.gluon.language._core import full as full
from tritium.experimental.gluon.language._core import num_ctas as num_ctas
from tritium.experimental.gluon.language._core import num_warps as num_warps
from tritium.experimental.gluon.language._core import set_auto_layout as set_auto_layout
from tritium.experimental.gluon.language._core import to_linear_layout as to_linear_layout
from tritium.experimental.gluon.language._layouts import AutoLayout as AutoLayout
from tritium.experimental.gluon.language._layouts import BlockedLayout as BlockedLayout
from tritium.experimental.gluon.language._layouts import CoalescedLayout as CoalescedLayout
from tritium.experimental.gluon.language._layouts import (
    DistributedLinearLayout as DistributedLinearLayout,
)
from tritium.experimental.gluon.language._layouts import DotOperandLayout as DotOperandLayout
from tritium.experimental.gluon.language._layouts import (
    NVMMADistributedLayout as NVMMADistributedLayout,
)
from tritium.experimental.gluon.language._layouts import NVMMASharedLayout as NVMMASharedLayout
from tritium.experimental.gluon.language._layouts import PaddedSharedLayout as PaddedSharedLayout
from tritium.experimental.gluon.language._layouts import SharedLinearLayout as SharedLinearLayout
from tritium.experimental.gluon.language._layouts import SliceLayout as SliceLayout
from tritium.experimental.gluon.language._layouts import (
    SwizzledSharedLayout as SwizzledSharedLayout,
)
from tritium.experimental.gluon.language._memory import CachePolicy as CachePolicy
from tritium.experimental.gluon.language._memory import load as load
from tritium.experimental.gluon.language._memory import store as store
from tritium.experimental.gluon.language._shared_memory import (
    allocate_shared_memory as allocate_shared_memory,
)
from tritium.experimental.gluon.language._shared_memory import (
    shared_memory_descriptor as shared_memory_descriptor,
)
from tritium.experimental.gluon.language._standard import full_like as full_like
from tritium.experimental.gluon.language._standard import zeros as zeros
from tritium.experimental.gluon.language._standard import zeros_like as zeros_like
from tritium.experimental.gluon.language._types import distributed_type as distributed_type
from tritium.experimental.gluon.language._types import (
    shared_memory_descriptor_type as shared_memory_descriptor_type,
)
from tritium.experimental.gluon.language._warp_specialize import warp_specialize as warp_specialize
from tritium.language.core import _unwrap_if_constexpr as _unwrap_if_constexpr  # pyright: ignore[reportPrivateUsage]
from tritium.language.core import add as add
from tritium.language.core import aggregate_replace as aggregate_replace
from tritium.language.core import associative_scan as associative_scan
from tritium.language.core import assume as assume
from tritium.language.core import atomic_add as atomic_add
from tritium.language.core import atomic_and as atomic_and
from tritium.language.core import atomic_cas as atomic_cas
from tritium.language.core import atomic_load as atomic_load
from tritium.language.core import atomic_max as atomic_max
from tritium.language.core import atomic_min as atomic_min
from tritium.language.core import atomic_or as atomic_or
from tritium.language.core import atomic_poll as atomic_poll
from tritium.language.core import atomic_store as atomic_store
from tritium.language.core import atomic_xchg as atomic_xchg
from tritium.language.core import atomic_xor as atomic_xor
from tritium.language.core import base_type as base_type
from tritium.language.core import base_value as base_value
from tritium.language.core import bfloat16 as bfloat16
from tritium.language.core import block_type as block_type
from tritium.language.core import broadcast as broadcast
from tritium.language.core import cast as cast
from tritium.language.core import clamp as clamp
from tritium.language.core import constexpr as constexpr
from tritium.language.core import device_assert as device_assert
from tritium.language.core import device_print as device_print
from tritium.language.core import dtype as dtype
from tritium.language.core import expand_dims as expand_dims
from tritium.language.core import expect_zero as expect_zero
from tritium.language.core import float8e4b8 as float8e4b8
from tritium.language.core import float8e4b15 as float8e4b15
from tritium.language.core import float8e4nv as float8e4nv
from tritium.language.core import float8e5 as float8e5
from tritium.language.core import float8e5b16 as float8e5b16
from tritium.language.core import float16 as float16
from tritium.language.core import float32 as float32
from tritium.language.core import float64 as float64
from tritium.language.core import gather as gather
from tritium.language.core import histogram as histogram
from tritium.language.core import int1 as int1
from tritium.language.core import int8 as int8
from tritium.language.core import int16 as int16
from tritium.language.core import int32 as int32
from tritium.language.core import int64 as int64
from tritium.language.core import join as join
from tritium.language.core import map_elementwise as map_elementwise
from tritium.language.core import max_constancy as max_constancy
from tritium.language.core import max_contiguous as max_contiguous
from tritium.language.core import maximum as maximum
from tritium.language.core import minimum as minimum
from tritium.language.core import mul as mul
from tritium.language.core import multiple_of as multiple_of
from tritium.language.core import num_programs as num_programs
from tritium.language.core import permute as permute
from tritium.language.core import pointer_type as pointer_type
from tritium.language.core import program_id as program_id
from tritium.language.core import reduce as reduce
from tritium.language.core import reshape as reshape
from tritium.language.core import split as split
from tritium.language.core import static_assert as static_assert
from tritium.language.core import static_print as static_print
from tritium.language.core import static_range as static_range
from tritium.language.core import sub as sub
from tritium.language.core import tensor as tensor
from tritium.language.core import to_tensor as to_tensor
from tritium.language.core import tuple as tuple
from tritium.language.core import tuple_type as tuple_type
from tritium.language.core import uint8 as uint8
from tritium.language.core import uint16 as uint16
from tritium.language.core import uint32 as uint32
from tritium.language.core import uint64 as uint64
from tritium.language.core import void as void
from tritium.language.core import where as where
from tritium.language.math import abs as abs
from tritium.language.math import ceil as ceil
from tritium.language.math import cos as cos
from tritium.language.math import div_rn as div_rn
from tritium.language.math import erf as erf
from tritium.language.math import exp as exp
from tritium.language.math import exp2 as exp2
from tritium.language.math import fdiv as fdiv
from tritium.language.math import floor as floor
from tritium.language.math import fma as fma
from tritium.language.math import log as log
from tritium.language.math import log2 as log2
from tritium.language.math import rsqrt as rsqrt
from tritium.language.math import sin as sin
from tritium.language.math import sqrt as sqrt
from tritium.language.math import sqrt_rn as sqrt_rn
from tritium.language.math import umulhi as umulhi
from tritium.language.standard import cdiv as cdiv
from tritium.language.standard import cumprod as cumprod
from tritium.language.standard import cumsum as cumsum
from tritium.language.standard import max as max
from tritium.language.standard import min as min
from tritium.language.standard import ravel as ravel
from tritium.language.standard import reduce_or as reduce_or
from tritium.language.standard import sum as sum
from tritium.language.standard import xor_sum as xor_sum

thread_barrier = barrier
"""The name of `barrier` in release 3.6."""
