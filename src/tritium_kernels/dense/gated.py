"""Gated activations: activation(gate) * up, with gradients."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tritium_kernels.dense.kernels import activation as kernels
from tritium_kernels.errors import check_choice, check_operand, check_same_dtype, check_tensor
from tritium_kernels.launching.launch import cdiv, constant, empty_like, matrix_of, on
from tritium_kernels.launching.operators import operator
from tritium_kernels.launching.plans import repeated
from tritium_kernels.launching.tables import plan_rows


def _matrices(*tensors: Tensor) -> tuple[list[Tensor], int, int, list[int]]:
    """(memory, rows, columns, elements from row to row) of tensors of the same shape; one row where
    all elements are adjacent."""
    for t in tensors:
        if not t.is_contiguous():
            break
    else:
        columns = tensors[0].numel()
        return [*tensors], 1, columns, [columns] * len(tensors)
    memory, rows, columns, steps = zip(*map(matrix_of, tensors), strict=True)
    return [*memory], rows[0], columns[0], [*steps]


@operator("gated", like=("gate",))
def gated_op(gate: Tensor, up: Tensor, activation: str) -> Tensor:
    y = empty_like(gate)
    if y.numel() == 0:
        return y
    matrices, rows, columns, steps = _matrices(gate, up, y)
    plan = plan_rows(gate.device, rows, columns)
    grid = (cdiv(rows, plan.rows) * cdiv(columns, plan.block),)
    with on("gated", "gate", gate):
        kernels.gated_forward[grid](
            *matrices, rows, columns, *steps,
            KIND=constant(activation), ROWS=plan.rows, BLOCK=plan.block, EVEN=plan.even,
            num_warps=plan.warps,
        )  # fmt: skip
    return y


@operator("gated_backward", like=("gate", "gate"))
def gated_backward_op(
    gate: Tensor, up: Tensor, dy: Tensor, activation: str
) -> tuple[Tensor, Tensor]:
    dgate = empty_like(gate)
    dup = torch.empty_like(dgate)
    if dup.numel() == 0:
        return dgate, dup
    matrices, rows, columns, steps = _matrices(gate, up, dy, dgate, dup)
    plan = plan_rows(gate.device, rows, columns)
    grid = (cdiv(rows, plan.rows) * cdiv(columns, plan.block),)
    with on("gated", "gate", gate):
        kernels.gated_backward[grid](
            *matrices, rows, columns, *steps,
            KIND=constant(activation), ROWS=plan.rows, BLOCK=plan.block, EVEN=plan.even,
            num_warps=plan.warps,
        )  # fmt: skip
    return dgate, dup


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    gate, up, ctx.activation = inputs
    ctx.save_for_backward(gate, up)


def _backward(ctx: Any, dy: Tensor) -> tuple[Tensor, Tensor, None]:
    gate, up = ctx.saved_tensors
    return *gated_backward_op(gate, up, dy, ctx.activation), None


gated_op.register_autograd(_backward, setup_context=_save)


def _gated(op: str, gate: Tensor, up: Tensor, activation: str) -> Tensor:
    check_tensor(op, "gate", gate)
    check_operand(op, "up", up, gate.shape, "gate", gate)
    check_same_dtype(op, "up", up, "gate", gate)
    return gated_op(gate, up, activation)


@repeated
def swiglu(gate: Tensor, up: Tensor) -> Tensor:
    """gate * sigmoid(gate) * up."""
    return _gated("swiglu", gate, up, "silu")


@repeated
def geglu(gate: Tensor, up: Tensor, approximate: str = "none") -> Tensor:
    """gelu(gate) * up; `approximate`: "none" (erf) or "tanh"."""
    check_choice("geglu", "approximate", approximate, ("none", "tanh"))
    return _gated("geglu", gate, up, "gelu" if approximate == "none" else "gelu_tanh")
