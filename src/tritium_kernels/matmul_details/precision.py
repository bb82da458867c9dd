"""Options of products: how they read, multiply and store numbers, and what is done to results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

import torch
from torch import Tensor

from tritium_kernels.meta import Closure
from tritium_kernels.numerics import UNSCALED, UNSCALED_RESULT, InFlexData, OutFlexData
from tritium_kernels.specialize import IDENTITY, FnSpecs


class FnName(Enum):
    """Names of functions that products themselves have."""

    QUANTIZE_MXFP8 = auto()
    QUANTIZE_MXFP4 = auto()
    QUANTIZE_NVFP4 = auto()


@dataclass(frozen=True)
class FusedActivation:
    """A function of the result, applied before it is stored: see `FnSpecs`.

    `derivative`: a `jit` function of (tile, the gradient of the function's result, *fn_args), in
    float32, that gives the gradient of the tile; None: there is none, but that of `swiglu_fn`.
    """

    specs: FnSpecs = IDENTITY
    fn_args: tuple[Any, ...] = ()
    derivative: Any = None


@dataclass(frozen=True)
class Epilogue:
    """The last function of a result, of a tile in float32.

    For a result with MX scales it gives (values, scales), and gets the mask of the tile after it if
    it has a parameter `mask`; others give values of the same shape, and get the type of the result
    if they have a parameter `target_dtype`.

    Attributes:
        fn_arg_values_matmul, fn_arg_values_finalize: arguments after the tile, in the product's
            kernel, and in that which adds up parts of the sum.
        effective_itemsize: bytes of shared memory that an element takes; None: 4.
    """

    specs: FnSpecs = IDENTITY
    fn_arg_values_matmul: tuple[Any, ...] = ()
    fn_arg_values_finalize: tuple[Any, ...] = ()
    effective_itemsize: float | None = None


@dataclass(frozen=True)
class FlexCtx:
    """Scales of a, b, the result, and of what is added to products."""

    lhs_data: InFlexData = UNSCALED
    rhs_data: InFlexData = UNSCALED
    out_data: OutFlexData = UNSCALED_RESULT
    acc_data: InFlexData = UNSCALED


_NO_FLEX = FlexCtx()


@dataclass
class PrecisionConfig:
    """The forms in which numbers are read, multiplied and stored.

    Attributes:
        max_num_imprecise_acc: float8 products that are added up before they enter a float32 sum;
            None: the device's choice.
        allow_tf32: float32 products may round their operands to tf32.
        flex_ctx: flexpoint scales.
        acc_scale: a factor of the product.
        flexpoint_saturate_inf: results past the largest number of their type are that number.
        report_quantization_err_fn: called with the result in float32 and with what was stored for
            it; the product is computed twice.
        a_mx_scale, b_mx_scale: scales of blocks along k, of the shape of a or b with the number of
            blocks in place of k: torch's tensors, or `Tensor`s of some layout. E8M0 (uint8) or
            float8_e4m3fn; a further scale of all of a or b is `flex_ctx`'s.
        c_mx_scale: where scales of the result go, of blocks of its columns: torch's tensor, or a
            `Tensor` in the layout `BlackwellActMXScaleLayout`. The result is divided by
            `flex_ctx.out_data.expected_scale` before.
        a_microblock_size, b_microblock_size, c_microblock_size: 32 for E8M0, 16 for float8_e4m3fn;
            None: that.
        c_value_pack_factor: elements of the result in a byte: 2 for e2m1. An epilogue with the name
            of a function that packs them says so too.
        out_dtype: of the result; a's if not given, bfloat16 where a is of 8 bits or fewer.
        intermediate_out_dtype: of the parts of a divided sum; None: float32.
        enforce_bitwise_invariance: a row's result does not depend on how many rows there are.
    """

    max_num_imprecise_acc: int | None = None
    allow_tf32: bool = True
    flex_ctx: FlexCtx = _NO_FLEX
    acc_scale: float = 1.0
    flexpoint_saturate_inf: bool = False
    report_quantization_err_fn: Callable[[Tensor, Tensor], Any] | None = None
    a_mx_scale: Any = None
    a_microblock_size: int | None = None
    b_mx_scale: Any = None
    b_microblock_size: int | None = None
    c_mx_scale: Any = None
    c_microblock_size: int | None = None
    c_value_pack_factor: int = 1
    out_dtype: torch.dtype | None = None
    intermediate_out_dtype: torch.dtype | None = None
    enforce_bitwise_invariance: bool = False


@dataclass(frozen=True)
class FusedComm:
    """Results are written to the memory of the processes that they belong to.

    Attributes:
        out_handles: int64 (processes,): addresses of their results, (rows, columns of this result
            times `n_reduce_shards`), without gaps.
        map_dst_coord: a function of the first row of a tile (None where rows are scattered), its
            rows, its first column and its columns, that gives (group of processes, rows there,
            columns there). The group is a number, or a tile of them that broadcasts; None: there
            is one. `all_writes_issued` and it are `jit` functions.
        all_writes_issued: called at the end of each program.
        reduce_rank, n_reduce_shards: a group has `n_reduce_shards` processes, and rows of
            their results as many parts; this process writes part `reduce_rank`, to all of them.
    """

    out_handles: Tensor
    map_dst_coord: Closure
    all_writes_issued: Closure | None = None
    reduce_rank: int = 0
    n_reduce_shards: int = 1


@dataclass(frozen=True)
class MatmulAllocation:
    """Memory of a product.

    Attributes:
        output: (shape, dtype) of the result.
        scratchpads: name -> (shape, dtype) of further memory: "parts" of a divided sum.
    """

    device: torch.device
    output: tuple[tuple[int, ...], torch.dtype]
    scratchpads: dict[str, tuple[tuple[int, ...], torch.dtype]]
