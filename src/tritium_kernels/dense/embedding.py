"""Rows of a table by number, with the gradient of the table."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tritium_kernels.dense.kernels import embedding as kernels
from tritium_kernels.errors import INDICES, check_integer, check_like, check_rank, check_tensor
from tritium_kernels.launching.launch import cdiv, matrix_of, on, power_of_two
from tritium_kernels.launching.operators import operator
from tritium_kernels.launching.plans import repeated
from tritium_kernels.launching.tables import plan_rows

NO_PADDING = -1

_SUMS = (torch.float32, torch.float64)
_TURN = 256
"""Columns of a program that adds rows to the table, one after the other."""


@operator("embedding")
def embedding_op(index: Tensor, table: Tensor, padding: int) -> Tensor:
    rows, columns = table.shape
    y = torch.empty(*index.shape, columns, dtype=table.dtype, device=table.device)
    if y.numel() == 0:
        return y
    plan = plan_rows(table.device, 1, columns)
    source, step = (table, columns) if not rows else matrix_of(table)[::3]
    with on("embedding", "table", table):
        kernels.embedding_forward[(index.numel() * cdiv(columns, plan.step),)](
            index.contiguous(), source, y, rows, columns, step,
            BLOCK=plan.step, num_warps=plan.warps,
        )  # fmt: skip
    return y


@operator("embedding_backward")
def embedding_backward_op(index: Tensor, dy: Tensor, rows: int, padding: int) -> Tensor:
    columns = dy.shape[-1]
    dtable = torch.zeros(rows, columns, dtype=dy.dtype, device=dy.device)
    if dy.numel() == 0 or rows == 0:
        return dtable
    given, _, _, step = matrix_of(dy)
    if dy.is_cpu and dy.dtype in _SUMS:  # what is in memory is no less accurate than the sum
        block = min(_TURN, power_of_two(columns))
        with on("embedding", "table", dy):
            kernels.embedding_backward_in_turn[(cdiv(columns, block),)](
                index.contiguous(), given, dtable, index.numel(), rows, columns, step, padding,
                BLOCK=block,
            )  # fmt: skip
        return dtable
    numbers, order = torch.sort(index.flatten(), stable=True)
    plan = plan_rows(dy.device, 1, columns)
    with on("embedding", "table", dy):
        kernels.embedding_backward[(numbers.numel() * cdiv(columns, plan.step),)](
            numbers, order, given, dtable, numbers.numel(), rows, columns, step, padding,
            BLOCK=plan.step, num_warps=plan.warps,
        )  # fmt: skip
    return dtable


@embedding_op.register_fake
def _(index: Tensor, table: Tensor, padding: int) -> Tensor:
    return torch.empty((*index.shape, table.shape[1]), dtype=table.dtype, device=table.device)


@embedding_backward_op.register_fake
def _(index: Tensor, dy: Tensor, rows: int, padding: int) -> Tensor:
    return torch.empty((rows, dy.shape[-1]), dtype=dy.dtype, device=dy.device)


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    index, table, ctx.padding = inputs
    ctx.rows = table.shape[0]
    ctx.save_for_backward(index)


def _backward(ctx: Any, dy: Tensor) -> tuple[None, Tensor, None]:
    (index,) = ctx.saved_tensors
    return None, embedding_backward_op(index, dy, ctx.rows, ctx.padding), None


embedding_op.register_autograd(_backward, setup_context=_save)


@repeated
def embedding(index: Tensor, table: Tensor, padding_idx: int | None = None) -> Tensor:
    """table[index]: (..., columns) for index (...) and table (rows, columns).

    An index that is no row gives NaN and no gradient. The row `padding_idx` gets no gradient.
    Gradients of a row are summed in the order of the indices, in float32 (float64 for float64).
    """
    check_tensor("embedding", "table", table)
    check_rank("embedding", "table", table, (2,))
    check_tensor("embedding", "index", index, INDICES)
    check_like("embedding", "index", index, "table", table)
    rows = table.shape[0]
    if padding_idx is not None:
        accepted = f"an integer, 0 to {rows - 1}, or None" if rows else "None: table has no rows"
        check_integer("embedding", "padding_idx", padding_idx, 0, rows - 1, accepted)
    return embedding_op(index, table, NO_PADDING if padding_idx is None else padding_idx)
