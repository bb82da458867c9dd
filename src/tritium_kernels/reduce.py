"""Sums along one of three dimensions, with a mask and factors, with the gradient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tritium_kernels.errors import check_choice, check_like, check_rank, check_tensor, refuse
from tritium_kernels.launch import cdiv, device_class, on, power_of_two
from tritium_kernels.moe_kernels import reduce as kernels
from tritium_kernels.specialize import IDENTITY, FnSpecs

_FLOATS = (torch.float16, torch.bfloat16, torch.float32)
_MASKS = (torch.bool, torch.uint8, torch.int8, torch.int32)
_BLOCKS = {"cpu": (4, 512), "hopper": (4, 512), "gpu": (4, 256)}
"""Rows and columns of a tile, by the class of device."""


@dataclass(frozen=True)
class PostprocessFn:
    """A function of the sums: see `FnSpecs`."""

    specs: FnSpecs = IDENTITY
    fn_args: tuple[Any, ...] = ()


def _broadcast(name: str, t: Tensor | None, x: Tensor, dtypes: Any) -> Tensor | None:
    """`t` with x's shape; dimensions along which it is the same have stride 0."""
    if t is None:
        return None
    check_tensor("reduce", name, t, dtypes)
    check_like("reduce", name, t, "x", x)
    try:
        t = t.expand(x.shape)
    except RuntimeError:
        accepted = f"those that broadcast to {tuple(x.shape)}"
        raise refuse("reduce", name, f"has shape {tuple(t.shape)}", accepted) from None
    return t.view(torch.uint8) if t.dtype == torch.bool else t


def _strides(t: Tensor | None) -> tuple[int, ...]:
    return (0, 0, 0) if t is None else t.stride()


def _check(x: Tensor, dim: int) -> int:
    check_tensor("reduce", "x", x, _FLOATS)
    check_rank("reduce", "x", x, (3,))
    check_choice("reduce", "dim", dim, (0, 1, 2, -1, -2, -3))
    return dim % 3


def _tiles(x: Tensor, rows: int, columns: int, n: int) -> tuple[int, int]:
    most_rows, most_columns = _BLOCKS[device_class(x.device)]
    return min(power_of_two(rows), most_rows), max(n, min(power_of_two(columns), most_columns))


def _rows_used(value: int | Tensor | None, x: Tensor) -> Tensor | None:
    if value is None or isinstance(value, Tensor):
        return value
    return torch.tensor([value], dtype=torch.int32, device=x.device)


def reduce_forward(
    x: Tensor, dim: int, mask: Tensor | None = None, scale: Tensor | None = None,
    y_dtype: torch.dtype | None = None, y: Tensor | None = None,
    postprocess_fn1: PostprocessFn | None = None, unpadded_batch_size: int | Tensor | None = None,
) -> tuple[Tensor, None]:  # fmt: skip
    """`reduce` without a gradient."""
    dim = _check(x, dim)
    mask = _broadcast("mask", mask, x, _MASKS)
    scale = _broadcast("scale", scale, x, _FLOATS)
    post = PostprocessFn() if postprocess_fn1 is None else postprocess_fn1
    n = post.specs.reduction_n
    terms, mask_, scale_ = (None if t is None else t.movedim(dim, 0) for t in (x, mask, scale))
    assert terms is not None
    count, rows, columns = terms.shape
    if columns % n:
        raise refuse("reduce", "x", f"has {columns} columns", f"a multiple of {n}")
    shape = (rows, columns // n)
    dtype = y_dtype or (x.dtype if y is None else y.dtype)
    if y is None:
        y = torch.empty(shape, dtype=dtype, device=x.device)
    elif tuple(y.shape) != shape or y.dtype != dtype:
        found = f"has shape {tuple(y.shape)} and dtype {y.dtype}"
        raise refuse("reduce", "y", found, f"{shape} and {dtype}")
    if y.numel():
        size, block = _tiles(x, rows, columns, n)
        with on("reduce", "x", x):
            kernels.reduce_forward[(cdiv(rows, size) * cdiv(columns, block),)](
                terms, y, mask_, scale_, count, rows, _rows_used(unpadded_batch_size, x), columns,
                *terms.stride(), *_strides(mask_), *_strides(scale_), *y.stride(),
                FN=post.specs.fn, fn_args=tuple(post.fn_args), N=n, ROWS=size, BLOCK=block,
            )  # fmt: skip
    return y, None


def reduce_backward(
    dy: Tensor, x_shape: tuple[int, ...], dim: int, mask: Tensor | None, scale: Tensor | None,
    dx: Tensor, unpadded_batch_size: int | Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Write the gradient of x to dx."""
    dim = _check(dx, dim)
    mask = _broadcast("mask", mask, dx, _MASKS)
    scale = _broadcast("scale", scale, dx, _FLOATS)
    terms, mask_, scale_ = (None if t is None else t.movedim(dim, 0) for t in (dx, mask, scale))
    assert terms is not None
    count, rows, columns = terms.shape
    if dx.numel():
        size, block = _tiles(dx, rows, columns, 1)
        with on("reduce", "x", dx):
            kernels.reduce_backward[(cdiv(rows, size) * cdiv(columns, block),)](
                dy, terms, mask_, scale_, count, rows, _rows_used(unpadded_batch_size, dx),
                columns, *terms.stride(), *_strides(mask_), *_strides(scale_), *dy.stride(),
                ROWS=size, BLOCK=block,
            )  # fmt: skip
    return dx


class _Reduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, *arguments: Any) -> Tensor:
        ctx.arguments = arguments
        ctx.like = x.shape, x.dtype
        return reduce_forward(x, *arguments)[0]

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        dim, mask, scale, _, _, post, rows = ctx.arguments
        if post is not None:
            raise NotImplementedError("reduce: the gradient of postprocess_fn1 is not built")
        shape, dtype = ctx.like
        dx = torch.empty(shape, dtype=dtype, device=dy.device)
        return reduce_backward(dy, shape, dim, mask, scale, dx, rows), *(7 * [None])


def reduce(
    x: Tensor, dim: int, mask: Tensor | None = None, scale: Tensor | None = None,
    y: Tensor | None = None, y_dtype: torch.dtype | None = None,
    postprocess_fn1: PostprocessFn | None = None, unpadded_batch_size: int | Tensor | None = None,
) -> tuple[Tensor, None]:  # fmt: skip
    """(sum of x * scale where mask along `dim`, None: there is no scale of the result).

    Args:
        x: three dimensions.  mask, scale: broadcast to it; scale has no gradient.
        y: a tensor to write to.  y_dtype: of the result; x's if not given.
        postprocess_fn1: a function of the sums.
        unpadded_batch_size: rows of the result that are computed (a number, or a tensor of one);
            the others are left as they come.
    """
    arguments = (dim, mask, scale, y_dtype, y, postprocess_fn1, unpadded_batch_size)
    if torch.is_grad_enabled() and x.requires_grad:
        if y is not None:
            raise refuse("reduce", "y", "is given with a gradient wanted", "None")
        return _Reduce.apply(x, *arguments), None
    return reduce_forward(x, *arguments)


def reduce_torch(
    x: Tensor, dim: int, mask: Tensor | None = None, scale: Tensor | None = None,
    postprocess_fn1: Any = None,
) -> tuple[Tensor, None]:  # fmt: skip
    """`reduce` by torch's functions, for comparison; `postprocess_fn1` takes a torch tensor."""
    dim = _check(x, dim)
    terms = x.float()
    if scale is not None:
        terms = terms * scale.float()
    if mask is not None:
        terms = torch.where(mask.expand(x.shape) != 0, terms, 0.0)
    y = terms.sum(dim)
    return (y if postprocess_fn1 is None else postprocess_fn1(y)).to(x.dtype), None
