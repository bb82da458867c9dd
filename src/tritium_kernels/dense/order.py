"""Running sums, sorted rows, counts of equal intervals."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from tritium_kernels.dense.kernels import order as kernels
from tritium_kernels.errors import (
    FLOATS,
    INDICES,
    check_axis,
    check_flag,
    check_integer,
    check_number,
    check_tensor,
    refuse,
)
from tritium_kernels.launching.launch import as_rows, cdiv, empty_like, matrix_of, on, power_of_two
from tritium_kernels.launching.operators import autocast_wide, operator
from tritium_kernels.launching.plans import repeated
from tritium_kernels.launching.tables import plan_flat, plan_rows

MOST_SORTED = 16384
"""Elements that one program sorts; runs of as many of a longer row are merged."""

MOST_BINS = 16384
_MOST_COLUMNS = 1 << 30
_SORTED = (torch.float16, torch.bfloat16, torch.float32, torch.int32)


@operator("cumsum", like=("x",))
def cumsum_op(x: Tensor, reverse: bool) -> Tensor:
    """Running sums along the last dimension."""
    y = empty_like(x)
    if y.numel() == 0:
        return y
    source, rows, columns, step = matrix_of(x)
    plan = plan_rows(x.device, rows, columns)
    with on("cumsum", "x", x):
        kernels.cumsum_rows[(cdiv(rows, plan.rows),)](
            source, y, rows, columns, step, columns, REVERSE=reverse, ROWS=plan.rows,
            BLOCK=plan.block, num_warps=plan.warps,
        )  # fmt: skip
    return y


def _sort_long(x: Tensor, y: Tensor, index: Tensor, descending: bool) -> None:
    """Sort rows that no program holds: runs of them, then pairs of runs, of twice as many, ..."""
    rows, columns = x.shape
    keys, merged = torch.empty((2, rows, columns), dtype=torch.int64, device=x.device)
    table, _ = plan_flat(x.device, x.numel())
    programs = rows * cdiv(columns, table.block)
    with on("sort", "x", x):
        kernels.sort_runs[(rows * cdiv(columns, MOST_SORTED),)](
            x, keys, rows, columns, x.stride(0), DESCENDING=descending, BLOCK=MOST_SORTED,
            num_warps=16,
        )  # fmt: skip
        run = MOST_SORTED
        while run < columns:
            kernels.merge_runs[(programs,)](
                keys, merged, columns, run, run.bit_length(), BLOCK=table.block,
                num_warps=table.warps,
            )  # fmt: skip
            keys, merged, run = merged, keys, 2 * run
        kernels.sorted_rows[(programs,)](
            keys, x, y, index, rows, columns, x.stride(0), BLOCK=table.block,
            num_warps=table.warps,
        )  # fmt: skip


@operator("sort")
def sort_op(x: Tensor, descending: bool) -> tuple[Tensor, Tensor]:
    """The last dimension sorted: values, and the columns that they come from."""
    y = empty_like(x)
    index = torch.empty(x.shape, dtype=torch.int64, device=x.device)
    if y.numel() == 0:
        return y, index
    source = as_rows(x)
    rows, columns = source.shape
    if columns > MOST_SORTED:
        _sort_long(source, y, index, descending)
        return y, index
    block = max(2, power_of_two(columns))
    many = max(1, min(1024 // block, power_of_two(rows)))
    with on("sort", "x", x):
        kernels.sort_rows[(cdiv(rows, many),)](
            source, y, index, rows, columns, source.stride(0), DESCENDING=descending, ROWS=many,
            BLOCK=block, num_warps=min(16, max(4, block * many // 512)),
        )  # fmt: skip
    return y, index


@operator("histogram")
def histogram_op(x: Tensor, bins: int, low: float, high: float) -> Tensor:
    counts = torch.zeros(bins, dtype=torch.int32, device=x.device)
    n = x.numel()
    if n:
        table, _ = plan_flat(x.device, n)
        with on("histogram", "x", x):
            kernels.histogram_flat[(cdiv(n, table.block),)](
                x.contiguous(), counts, n, low, high, bins, BINS=max(2, power_of_two(bins)),
                BLOCK=table.block, num_warps=table.warps,
            )  # fmt: skip
    return counts


@sort_op.register_fake
def _(x: Tensor, descending: bool) -> tuple[Tensor, Tensor]:
    y = empty_like(x)
    return y, torch.empty(x.shape, dtype=torch.int64, device=x.device)


@histogram_op.register_fake
def _(x: Tensor, bins: int, low: float, high: float) -> Tensor:
    return torch.empty(bins, dtype=torch.int32, device=x.device)


def _save_cumsum(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.reverse = inputs[1]


def _cumsum_backward(ctx: Any, dy: Tensor) -> tuple[Tensor, None]:
    return cumsum_op(dy, not ctx.reverse), None


def _save_sort(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(output[1])


def _sort_backward(ctx: Any, dy: Tensor, _: Tensor) -> tuple[Tensor, None]:
    (index,) = ctx.saved_tensors
    return torch.zeros_like(dy).scatter(-1, index, dy), None


cumsum_op.register_autograd(_cumsum_backward, setup_context=_save_cumsum)
sort_op.register_autograd(_sort_backward, setup_context=_save_sort)


def _last(op: str, x: Tensor, dim: int) -> Tensor:
    check_axis(op, x, dim)
    return x if dim == -1 or dim == x.ndim - 1 else x.movedim(dim, -1)


def _back(y: Tensor, dim: int) -> Tensor:
    """y with the last dimension at `dim`."""
    return y if dim == -1 or dim == y.ndim - 1 else y.movedim(-1, dim)


@repeated
def cumsum(x: Tensor, dim: int = -1, reverse: bool = False) -> Tensor:
    """The sum of the elements up to each one along `dim`; `reverse`: from each one on.

    Added up in float32 (float64 for float64), rounded once for each element. Integers wrap around.
    """
    x = autocast_wide(x)
    check_tensor("cumsum", "x", x, (*FLOATS, *INDICES))
    check_flag("cumsum", reverse=reverse)
    return _back(cumsum_op(_last("cumsum", x, dim), reverse), dim)


@repeated
def sort(x: Tensor, dim: int = -1, descending: bool = False) -> tuple[Tensor, Tensor]:
    """(values, where each comes from) along `dim`.

    Equal elements stay in order, as the two zeros do. NaN is larger than any number.
    """
    check_tensor("sort", "x", x, _SORTED)
    check_flag("sort", descending=descending)
    x = _last("sort", x, dim)
    if x.shape[-1] > _MOST_COLUMNS:
        found = f"has {x.shape[-1]} elements along dim"
        raise refuse("sort", "x", found, f"{_MOST_COLUMNS} or fewer")
    values, index = sort_op(x, descending)
    return _back(values, dim), _back(index, dim)


def histogram(x: Tensor, bins: int, low: float, high: float) -> Tensor:
    """int32 counts of the elements of x in `bins` equal intervals from `low` to `high`.

    Elements outside and NaN are not counted; `high` is in the last interval.
    """
    check_tensor("histogram", "x", x)
    check_integer("histogram", "bins", bins, 1, MOST_BINS)
    for name, value in (("low", low), ("high", high)):
        check_number("histogram", name, value, "a finite number")
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise refuse("histogram", "high", f"is {high} for low {low}", "finite low < high")
    return histogram_op(x.detach(), bins, float(low), float(high))
