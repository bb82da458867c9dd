"""Masked and scaled sums along one of three dimensions, and their gradient."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

import tritium.language as tl
from tritium_kernels.errors import (
    check_choice,
    check_flag,
    check_kind,
    check_like,
    check_operand,
    check_rank,
    check_row_count,
    check_tensor,
    check_without_gradient,
    dtype_name,
    refuse,
)
from tritium_kernels.launching.launch import cdiv, device_class, on, power_of_two
from tritium_kernels.launching.operators import once, untraced
from tritium_kernels.launching.overrides import InapplicableConstraint as InapplicableConstraint
from tritium_kernels.launching.overrides import Overrides, all_constraints_satisfied
from tritium_kernels.moe_kernels import reduce as kernels
from tritium_kernels.moe_kernels.mxfp import (
    quantize_e2m1,
    quantize_e4m3,
    quantize_e5m2,
    quantize_nvfp4,
)
from tritium_kernels.moe_kernels.reduce import ReduceForwardCommonArgs as ReduceForwardCommonArgs
from tritium_kernels.numerics import UNSCALED, UNSCALED_RESULT, InFlexData, OutFlexData
from tritium_kernels.numerics import compute_actual_scale as compute_actual_scale
from tritium_kernels.numerics_details.mxfp import (
    BLOCK_SIZES,
    MXFP_BLOCK_SIZE,
    SCALE_TYPES,
    check_block_size,
    downcast_to_mxfp_torch,
    upcast_from_mxfp_torch,
)
from tritium_kernels.specialize import IDENTITY, FnSpecs

_FLOATS = (torch.float16, torch.bfloat16, torch.float32)
_STORED = (torch.float8_e4m3fn, torch.float8_e5m2)
_MASKS = (torch.bool, torch.uint8, torch.int8, torch.int32)
_QUANTIZE = {
    (torch.uint8, torch.uint8): quantize_e2m1,
    (torch.float8_e4m3fn, torch.uint8): quantize_e4m3,
    (torch.float8_e5m2, torch.uint8): quantize_e5m2,
    (torch.uint8, torch.float8_e4m3fn): quantize_nvfp4,
}
"""Functions that quantize results, by the types of results and of their scales."""

_BLOCKS = {"cpu": (4, 512), "hopper": (4, 512), "gpu": (4, 256)}
"""Rows and columns of a tile, by the class of device."""

_MANY = 64
"""A row with more terms than this is heavy."""


@dataclass(frozen=True)
class OptFlags:
    """A configuration of sums.

    Attributes:
        block_s0: rows of a tile.
        block_x_s1, block_y_s1: columns of a tile of x and of y.
        num_warps: of a program.
        use_static_loop: the number of terms is a constant of the kernel.
        chain_factor: terms that one iteration adds up if `use_static_loop` is off.
        use_rowidxs: sort the rows by their number of unmasked terms and read only these terms. The
            mask must be the same in all columns.
        subtile_heavy_blocks: tiles of heavy rows have half the columns.
    """

    block_s0: int
    block_x_s1: int
    block_y_s1: int
    num_warps: int
    use_static_loop: bool
    chain_factor: int
    use_rowidxs: bool
    subtile_heavy_blocks: bool


_PRESCRIBED: Overrides[OptFlags] = Overrides(tuple(field.name for field in fields(OptFlags)))
update_opt_flags_constraints = _PRESCRIBED.update_opt_flags_constraints
reset_opt_flags_constraints = _PRESCRIBED.reset_opt_flags_constraints
scoped_opt_flags_constraints = _PRESCRIBED.scoped_opt_flags_constraints
scoped_opt_flags = _PRESCRIBED.scoped_opt_flags


@dataclass(frozen=True)
class PostprocessFn:
    """A function of the sums: see `FnSpecs`.

    `derivative`: a `jit` function of (sums, the gradient of the function's result, *fn_args), tiles
    in float32, that gives the gradient of the sums; None: there is none.
    """

    specs: FnSpecs = IDENTITY
    fn_args: tuple[Any, ...] = ()
    derivative: Any = None


_SUMS = PostprocessFn()


def _choose(
    device: torch.device, count: int, rows: int, columns: int, n: int, mx: bool
) -> OptFlags:
    if _PRESCRIBED.flags is not None:
        return _PRESCRIBED.flags
    given = {name: v for name, v in _PRESCRIBED.constraints.items() if v is not None}
    most_rows, most_columns = _BLOCKS[device_class(device)]
    heavy = given.get("subtile_heavy_blocks", False)
    block = max(n * (MXFP_BLOCK_SIZE.value if mx else 1), min(power_of_two(columns), most_columns))
    if heavy and count > _MANY and block > n * (MXFP_BLOCK_SIZE.value if mx else 1):
        block //= 2
    block = given.get("block_x_s1", given.get("block_y_s1", block // n) * n)
    flags = OptFlags(
        block_s0=given.get("block_s0", min(power_of_two(rows), most_rows)), block_x_s1=block,
        block_y_s1=block // n, num_warps=given.get("num_warps", 4),
        use_static_loop=given.get("use_static_loop", False),
        chain_factor=given.get("chain_factor", 1), use_rowidxs=given.get("use_rowidxs", False),
        subtile_heavy_blocks=heavy,
    )  # fmt: skip
    if not all_constraints_satisfied(flags, given):
        raise InapplicableConstraint(f"{given} are prescribed; {flags} is what there can be")
    return flags


def _broadcast(name: str, t: Tensor | None, x: Tensor, shape: Any, dtypes: Any) -> Tensor | None:
    """`t` with x's shape; dimensions along which it is the same have stride 0."""
    if t is None:
        return None
    check_tensor("reduce", name, t, dtypes)
    check_like("reduce", name, t, "x", x)
    try:
        t = t.expand(shape)
    except RuntimeError:
        accepted = f"those that broadcast to {tuple(shape)}"
        raise refuse("reduce", name, f"has shape {tuple(t.shape)}", accepted) from None
    return t.view(torch.uint8) if t.dtype == torch.bool else t


def _strides(t: Tensor | None) -> tuple[int, ...]:
    return (0, 0, 0) if t is None else t.stride()


def _check(
    x: Tensor, dim: int, x_mxscale: Tensor | None, x_flex: InFlexData, saturate: bool = False,
    rows: int | Tensor | None = None,
) -> tuple[int, Any]:  # fmt: skip
    """(the dimension, the shape of the terms)."""
    check_tensor("reduce", "x", x, (*_FLOATS, *_STORED, torch.uint8))
    check_rank("reduce", "x", x, (3,))
    check_choice("reduce", "dim", dim, (0, 1, 2, -1, -2, -3))
    check_flag("reduce", y_flex_saturate_inf=saturate)
    check_row_count("reduce", "unpadded_batch_size", rows, x)
    shape = list(x.shape)
    if x.dtype == torch.uint8 and x_flex.dtype is None:
        if x_mxscale is None:
            raise refuse("reduce", "x_mxscale", "is None", "scales, for x of e2m1")
        shape[2] *= 2
    if x_mxscale is not None:
        check_tensor("reduce", "x_mxscale", x_mxscale, SCALE_TYPES)
        blocks = (*shape[:2], cdiv(shape[2], BLOCK_SIZES[x_mxscale.dtype]))
        check_operand("reduce", "x_mxscale", x_mxscale, blocks, "x", x, SCALE_TYPES)
        if dim % 3 == 2:
            raise refuse("reduce", "dim", f"is {dim}", "0 or 1, with x_mxscale")
    if x_flex.scale is not None:
        check_operand("reduce", "x_flex.scale", x_flex.scale.reshape(-1), (1,), "x", x,
                      (torch.float32,))  # fmt: skip
    return dim % 3, tuple(shape)


def _rows_used(value: int | Tensor | None, x: Tensor) -> Tensor | None:
    if value is None or isinstance(value, Tensor):
        return value
    return torch.tensor([value], dtype=torch.int32, device=x.device)


def _result(
    y: Tensor | None, shape: tuple[int, int], dtype: torch.dtype, pack: int, device: torch.device
) -> Tensor:
    shape = shape[0], cdiv(shape[1], pack)
    if y is None:
        return torch.empty(shape, dtype=dtype, device=device)
    if tuple(y.shape) != shape or y.dtype != dtype:
        found = f"has shape {tuple(y.shape)} and dtype {y.dtype}"
        raise refuse("reduce", "y", found, f"{shape} and {dtype}")
    return y


def _result_dtype(
    x: Tensor, y: Tensor | None, y_dtype: torch.dtype | None, y_flex: OutFlexData, mx: bool,
    pack: int,
) -> torch.dtype:  # fmt: skip
    dtype = y_dtype or (y.dtype if y is not None else y_flex.dtype)
    dtype = dtype or (torch.float32 if x.dtype == torch.uint8 and not mx else x.dtype)
    accepted = ((torch.uint8,) if pack == 2 else _STORED) if mx else (*_FLOATS, *_STORED)
    if dtype not in accepted:
        names = ", ".join(dtype_name(d) for d in accepted)
        raise refuse("reduce", "y_dtype", f"is {dtype_name(dtype)}", names)
    return dtype


def _check_mx(
    has_mx: bool, scale_dtype: torch.dtype, size: int, pack: int, y_flex: OutFlexData
) -> None:
    """Check the kind of MX scales that the result has, or that it is to have none."""
    check_flag("reduce", y_has_mx=has_mx)
    check_choice("reduce", "y_value_pack_factor", pack, (1, 2) if has_mx else (1,))
    accepted = SCALE_TYPES if has_mx and pack == 2 else (torch.uint8,)
    check_choice("reduce", "y_mx_scale_dtype", scale_dtype, accepted)
    check_block_size("reduce", "y_microblock_size", size, scale_dtype)
    if has_mx and (y_flex.actual_scale is not None or y_flex.checksum_scale is not None):
        found = "has actual_scale or checksum_scale"
        raise refuse("reduce", "y_flex", found, "expected_scale alone, with scales of the result")


def _active_rows(mask: Tensor | None, flags: OptFlags) -> tuple[Tensor | None, Tensor | None]:
    """(terms up to the last that is not masked, rows by that) of each row."""
    if mask is None or not flags.use_rowidxs or mask.stride(2) or not mask.shape[2]:
        return None, None
    terms = torch.arange(1, mask.shape[0] + 1, device=mask.device, dtype=torch.int32)
    counts = ((mask[:, :, 0] != 0) * terms[:, None]).amax(0).to(torch.int32)
    return counts, torch.argsort(counts, descending=True).to(torch.int32)


def _broadcasts(t: Tensor | None) -> tuple[Any, ...]:
    return tuple(tl.constexpr(stride == 0) for stride in _strides(t))


def reduce_forward(
    x: Tensor, dim: int, mask: Tensor | None = None, scale: Tensor | None = None,
    x_mxscale: Tensor | None = None, x_flex: InFlexData | None = UNSCALED,
    x_global_scale: Tensor | None = None, y_dtype: torch.dtype | None = None,
    y_flex: OutFlexData | None = UNSCALED_RESULT, y_flex_saturate_inf: bool = False,
    y_has_mx: bool | None = None, y_mx_scale_dtype: torch.dtype | None = None,
    y_microblock_size: int = MXFP_BLOCK_SIZE.value, y_value_pack_factor: int = 1,
    y: Tensor | None = None, postprocess_fn1: PostprocessFn | None = None,
    postprocess_fn2: PostprocessFn | None = None, unpadded_batch_size: int | Tensor | None = None,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """`reduce` without a gradient."""
    x_flex, y_flex = x_flex or UNSCALED, y_flex or UNSCALED_RESULT
    dim, shape = _check(x, dim, x_mxscale, x_flex, y_flex_saturate_inf, unpadded_batch_size)
    x = x_flex.reinterpret(x)
    mx = x_mxscale is not None if y_has_mx is None else y_has_mx
    scale_dtype = y_mx_scale_dtype or torch.uint8
    _check_mx(mx, scale_dtype, y_microblock_size, y_value_pack_factor, y_flex)
    mask = _broadcast("mask", mask, x, shape, _MASKS)
    scale = _broadcast("scale", scale, x, shape, _FLOATS)
    if x_global_scale is not None:
        check_operand("reduce", "x_global_scale", x_global_scale.reshape(-1), (1,), "x", x,
                      (torch.float32,))  # fmt: skip
    terms, scales, mask, scale = (
        None if t is None else t.movedim(dim, 0) for t in (x, x_mxscale, mask, scale)
    )
    assert terms is not None
    count, rows, columns = shape[dim], *(n for d, n in enumerate(shape) if d != dim)
    first, second = postprocess_fn1 or _SUMS, postprocess_fn2 or _SUMS
    n = first.specs.reduction_n
    if columns % n:
        raise refuse("reduce", "x", f"has {columns} columns", f"a multiple of {n}")
    dtype = _result_dtype(x, y, y_dtype, y_flex, mx, y_value_pack_factor)
    y, y_scale = _result(y, (rows, columns // n), dtype, y_value_pack_factor, x.device), None
    if mx:
        blocks = cdiv(columns // n, y_microblock_size)
        make = torch.empty if unpadded_batch_size is None else torch.zeros
        y_scale = make((rows, blocks), dtype=scale_dtype, device=x.device)
    if not y.numel():
        return y, y_scale
    flags = _choose(x.device, count, rows, columns, n, mx)
    counts, order = _active_rows(mask, flags)
    values: list[Any] = [
        terms, *terms.stride(), scales, *_strides(scales), y, *y.stride(), y_scale,
        *((0, 0) if y_scale is None else y_scale.stride()), mask, *_strides(mask), scale,
        *_strides(scale), count, rows, columns, columns // n,
        tl.constexpr(count if flags.use_static_loop else 0), tl.constexpr(first.specs.fn),
        tuple(first.fn_args), tl.constexpr(second.specs.fn), tuple(second.fn_args),
        tl.constexpr(_QUANTIZE[dtype, scale_dtype] if mx else None), (), x_flex.scale,
        x_global_scale, *y_flex,
        tl.constexpr(y_flex_saturate_inf), counts, order, *_broadcasts(mask),
        tl.constexpr(scale is None), *_broadcasts(scale), tl.constexpr(flags.block_x_s1),
        tl.constexpr(flags.block_y_s1), tl.constexpr(flags.chain_factor),
        tl.constexpr(y_microblock_size), tl.constexpr(y_value_pack_factor),
    ]  # fmt: skip
    with on("reduce", "x", x):
        kernels.reduce_forward[(cdiv(rows, flags.block_s0) * cdiv(columns, flags.block_x_s1),)](
            ReduceForwardCommonArgs(*values), _rows_used(unpadded_batch_size, x),
            ROWS=flags.block_s0, num_warps=flags.num_warps,
        )  # fmt: skip
    return y, y_scale


def reduce_launch_metadata(grid: Any, kernel: Any, args: dict[str, Any]) -> dict[str, Any]:
    """Name, operations and bytes of a launch, for profilers; masked terms count as read."""
    a: ReduceForwardCommonArgs = args["a"]
    read = a.K * a.S0 * a.X_S1
    tensors = [t for t in (a.XMx, a.YMx, a.Y) if t is not None]
    return {
        "name": f"{kernel.name} [terms={a.K}, rows={a.S0}, columns={a.X_S1}]", "flops32": read,
        "bytes": a.X.numel() * a.X.element_size()
        + sum(t.numel() * t.element_size() for t in tensors),
    }  # fmt: skip


kernels.reduce_forward.launch_metadata = reduce_launch_metadata


def _derivative(function: PostprocessFn) -> Any:
    if function.derivative is None:
        found = f"{function.specs.name!r} has no derivative, with a gradient wanted"
        accepted = "PostprocessFn(specs, fn_args, derivative), a jit function of (sums, gradient "
        raise refuse("reduce", "postprocess_fn1", found, accepted + "of the result, *fn_args)")
    return function.derivative


def _factors(
    scale: Tensor | None, x_mxscale: Tensor | None, strides: Sequence[int] | None,
    shape: tuple[int, ...],
) -> Tensor | None:  # fmt: skip
    """The factor of each element of x: its scale times that of its block."""
    if x_mxscale is None:
        return scale
    size = BLOCK_SIZES[x_mxscale.dtype]
    if strides is not None:
        x_mxscale = x_mxscale.as_strided((*shape[:2], cdiv(shape[2], size)), strides)
    ones = torch.ones(x_mxscale.shape, device=x_mxscale.device).to(torch.float8_e5m2)
    factors = upcast_from_mxfp_torch(
        ones.repeat_interleave(size, 2)[..., : shape[2]], x_mxscale, torch.float32, 2
    )
    return factors if scale is None else factors * scale


def reduce_backward(
    dy: Tensor, x_shape: Sequence[int], dim: int, mask: Tensor | None, scale: Tensor | None,
    x_mxscale: Tensor | None, x_flex: InFlexData, postprocess_fn1: PostprocessFn | None,
    x_strides: Sequence[int] | None, x_mx_strides: Sequence[int] | None,
    mask_strides: Sequence[int] | None, scale_strides: Sequence[int] | None, dx: Tensor,
    unpadded_batch_size: int | Tensor | None = None, sums: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Write the gradient of x to dx.

    Args:
        x_strides, ...: strides with which the memory of dx, mask and scale is seen as of `x_shape`,
            that of x_mxscale as of its blocks; None: those of the tensors, broadcast.
        sums: float32, without gaps, what `postprocess_fn1` was applied to.
    """
    first = postprocess_fn1 or _SUMS
    n, derivative = first.specs.reduction_n, None
    if first.specs.fn is not None:
        derivative = _derivative(first)
    shape = tuple(x_shape)
    seen = [
        t if t is None or strides is None else t.as_strided(shape, strides)
        for t, strides in ((dx, x_strides), (mask, mask_strides), (scale, scale_strides))
    ]
    target = seen[0]
    assert target is not None
    dim, _ = _check(target, dim, None, x_flex)
    mask = _broadcast("mask", seen[1], dx, shape, _MASKS)
    scale = _broadcast("scale", _factors(seen[2], x_mxscale, x_mx_strides, shape), dx, shape,
                       _FLOATS)  # fmt: skip
    terms, mask, scale = (None if t is None else t.movedim(dim, 0) for t in (target, mask, scale))
    assert terms is not None
    count, rows, columns = terms.shape
    if derivative is not None:
        check_operand("reduce", "sums", sums, (rows, columns), "dy", dy, (torch.float32,))
        assert sums is not None
        sums = sums.contiguous()
    if dx.numel():
        flags = _choose(dx.device, count, rows, columns, n, False)
        size, block = flags.block_s0, flags.block_x_s1
        with on("reduce", "x", dx):
            kernels.reduce_backward[(cdiv(rows, size) * cdiv(columns, block),)](
                dy, terms, mask, scale, x_flex.scale, sums, count, rows,
                _rows_used(unpadded_batch_size, dx), columns, *terms.stride(), *_strides(mask),
                *_strides(scale), *dy.stride(), derivative, tuple(first.fn_args), N=n, ROWS=size,
                BLOCK=block,
            )  # fmt: skip
    return dx


class _Reduce(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, dim: int, options: dict[str, Any]
    ) -> tuple[Tensor, Tensor | None]:
        ctx.dim, ctx.options = dim, options
        ctx.like = x.shape, x.dtype
        function = options["postprocess_fn1"]
        ctx.has_function = function is not None and function.specs.fn is not None
        if ctx.has_function:
            ctx.save_for_backward(x)
        y, y_mxscale = reduce_forward(x, dim, **options)
        ctx.has_mx = y_mxscale is not None
        if y_mxscale is not None:
            ctx.mark_non_differentiable(y_mxscale)
        return y, y_mxscale

    @staticmethod
    @once("reduce")
    def backward(ctx: Any, dy: Tensor, _: Tensor | None) -> tuple[Tensor | None, ...]:
        given, (shape, dtype) = ctx.options, ctx.like
        if ctx.has_mx:
            raise NotImplementedError("reduce: the gradient of a result that has MX scales")
        names = ("mask", "scale", "x_mxscale", "x_flex", "unpadded_batch_size")
        same: dict[str, Any] = {name: given[name] for name in names} | {"y_has_mx": False}
        sums = None
        if ctx.has_function:
            _derivative(given["postprocess_fn1"])
            (x,) = ctx.saved_tensors
            sums, _ = reduce_forward(x, ctx.dim, y_dtype=torch.float32, **same)
        dx = torch.empty(shape, dtype=dtype, device=dy.device)
        return reduce_backward(
            dy, shape, ctx.dim, given["mask"], given["scale"], given["x_mxscale"],
            given["x_flex"] or UNSCALED, given["postprocess_fn1"], None, None, None, None, dx,
            given["unpadded_batch_size"], sums,
        ), None, None  # fmt: skip


@untraced
def reduce(
    x: Tensor, dim: int, mask: Tensor | None = None, scale: Tensor | None = None,
    x_mxscale: Tensor | None = None, x_flex: InFlexData | None = UNSCALED,
    x_global_scale: Tensor | None = None, y: Tensor | None = None,
    y_dtype: torch.dtype | None = None, y_flex: OutFlexData | None = UNSCALED_RESULT,
    y_flex_saturate_inf: bool = False, y_has_mx: bool | None = None,
    y_mx_scale_dtype: torch.dtype | None = None, y_microblock_size: int = MXFP_BLOCK_SIZE.value,
    y_value_pack_factor: int = 1, postprocess_fn1: PostprocessFn | None = None,
    postprocess_fn2: PostprocessFn | None = None, unpadded_batch_size: int | Tensor | None = None,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """Sum `x * scale` along `dim` where `mask` holds. Returns the sums, and their MX scales or
    None.

    Args:
        x: a tensor of three dimensions.
        mask, scale: are broadcast to the shape of x. No gradient flows to scale.
        x_mxscale: the MX scales of x, which is e2m1 if it is uint8: one scale for 32 columns (E8M0
            in uint8) or for 16 columns (float8_e4m3fn). No gradient flows to it.
        x_flex, x_global_scale: factors of all of x.
        y: a tensor to write the result to.
        y_dtype: the dtype of the result; by default that of x, float32 for e2m1.
        y_flex: the flexpoint scales of the result.
        y_flex_saturate_inf: whether results beyond the range of the dtype become its largest
            number.
        y_has_mx: whether the result has MX scales; by default it has if x has. The sums are divided
            by `y_flex.expected_scale` before they are quantized.
        y_mx_scale_dtype: the dtype of these scales: uint8; for e2m1 also float8_e4m3fn.
        y_microblock_size: the columns that share a scale: 32; 16 for float8_e4m3fn.
        y_value_pack_factor: elements of the result in a byte: 2 for e2m1.
        postprocess_fn1, postprocess_fn2: functions that are applied to the sums, in this order. The
            first may have a derivative; no gradient flows to its arguments.
        unpadded_batch_size: the number of rows of the result that are computed, an int or a tensor
            of one element; the other rows are not written.
    """
    options: dict[str, Any] = {
        "mask": mask, "scale": scale, "x_mxscale": x_mxscale, "x_flex": x_flex,
        "x_global_scale": x_global_scale, "y_dtype": y_dtype, "y_flex": y_flex,
        "y_flex_saturate_inf": y_flex_saturate_inf, "y_has_mx": y_has_mx,
        "y_mx_scale_dtype": y_mx_scale_dtype, "y_microblock_size": y_microblock_size,
        "y_value_pack_factor": y_value_pack_factor, "y": y, "postprocess_fn1": postprocess_fn1,
        "postprocess_fn2": postprocess_fn2, "unpadded_batch_size": unpadded_batch_size,
    }  # fmt: skip
    check_kind("reduce", Tensor, y=y, x_global_scale=x_global_scale)
    check_kind("reduce", InFlexData, x_flex=x_flex)
    check_kind("reduce", OutFlexData, y_flex=y_flex)
    check_kind("reduce", PostprocessFn, postprocess_fn1=postprocess_fn1,
               postprocess_fn2=postprocess_fn2)  # fmt: skip
    check_without_gradient("reduce", scale=scale)
    given: Any = x  # may be no tensor
    if torch.is_grad_enabled() and isinstance(given, Tensor) and given.requires_grad:
        for name in ("y", "postprocess_fn2", "x_global_scale"):
            if options[name] is not None:
                raise refuse("reduce", name, "is given with a gradient wanted", "None")
        return _Reduce.apply(x, dim, options)
    return reduce_forward(x, dim, **options)


def reduce_torch(
    x: Tensor, dim: int, mask: Tensor | None = None, scale: Tensor | None = None,
    x_mxscale: Tensor | None = None, x_flex: InFlexData | None = None,
    y_flex: OutFlexData | None = None, y_flex_saturate_inf: bool = False,
    postprocess_fn1: Any = None, unpadded_batch_size: int | Tensor | None = None,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """`reduce` by torch's functions, for comparison; `postprocess_fn1` takes a torch tensor.

    `y_flex.actual_scale` is written as `reduce` does. Rows that are not computed are 0. With
    `x_mxscale` the result is float8_e4m3fn with MX scales.
    """
    x_flex, y_flex = x_flex or UNSCALED, y_flex or UNSCALED_RESULT
    dim, shape = _check(x, dim, x_mxscale, x_flex)
    x = x_flex.reinterpret(x)
    if x_mxscale is None:
        terms = x.float()
    elif x.dtype == torch.uint8:
        terms = upcast_from_mxfp_torch(x, x_mxscale, torch.float32, 2)
    else:
        factors = _factors(None, x_mxscale, None, shape)
        assert factors is not None
        terms = x.float() * factors
    if x_flex.scale is not None:
        terms = terms * x_flex.scale
    if scale is not None:
        terms = terms * scale.float()
    if mask is not None:
        terms = torch.where(mask.expand(shape) != 0, terms, 0.0)
    y = terms.sum(dim)
    y = y if postprocess_fn1 is None else postprocess_fn1(y)
    if unpadded_batch_size is not None:
        y = y * (torch.arange(y.shape[0], device=y.device) < unpadded_batch_size)[:, None]
    dtype = y_flex.dtype or (torch.float32 if x.dtype == torch.uint8 else x.dtype)
    if y_flex.actual_scale is not None and y.numel():
        y_flex.actual_scale.copy_(compute_actual_scale(y, dtype))
    if y_flex.expected_scale is not None:
        y = y / y_flex.expected_scale
    if y_flex_saturate_inf:
        most = torch.finfo(dtype).max
        y = y.clamp(-most, most)
    if x_mxscale is not None:
        return downcast_to_mxfp_torch(y, torch.float8_e4m3fn, -1)
    return y.to(dtype), None
