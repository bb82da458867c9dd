"""Checks of arguments, made before anything is launched."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
"""Types that kernels of rows and elements take."""

INDICES = (torch.int32, torch.int64)


class ArgumentError(ValueError):
    """An argument that a kernel does not take: the message names it, its value, what fits."""


def refuse(op: str, name: str, found: str, accepted: str) -> ArgumentError:
    """The error for argument `name` of `op`."""
    return ArgumentError(f"{op}: {name} {found}; accepted: {accepted}")


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def check_tensor(op: str, name: str, value: Any, dtypes: Sequence[torch.dtype] = FLOATS) -> None:
    """`value` is a tensor of one of the dtypes."""
    if not isinstance(value, torch.Tensor):
        raise refuse(op, name, f"is {type(value).__name__}", "torch.Tensor")
    if value.dtype not in dtypes:
        accepted = ", ".join(dtype_name(dtype) for dtype in dtypes)
        raise refuse(op, name, f"has dtype {dtype_name(value.dtype)}", accepted)
    if value.layout != torch.strided:
        raise refuse(op, name, f"has the layout {value.layout}", "strided")


def check_like(
    op: str, name: str, value: torch.Tensor, first: str, reference: torch.Tensor
) -> None:
    """`value` is on the device of `reference`, which the caller knows as `first`."""
    if value.device != reference.device:
        accepted = f"the device of {first}, {reference.device}"
        raise refuse(op, name, f"is on {value.device}", accepted)


def check_shape(op: str, name: str, value: torch.Tensor, shape: Sequence[int]) -> None:
    if tuple(value.shape) != tuple(shape):
        raise refuse(op, name, f"has shape {tuple(value.shape)}", f"{tuple(shape)}")


def check_rank(op: str, name: str, value: torch.Tensor, ranks: Sequence[int]) -> None:
    if value.ndim not in ranks:
        accepted = " or ".join(str(rank) for rank in ranks)
        raise refuse(op, name, f"has {value.ndim} dimensions", accepted)


def check_same_dtype(
    op: str, name: str, value: torch.Tensor, first: str, reference: torch.Tensor
) -> None:
    if value.dtype != reference.dtype:
        found = f"has dtype {dtype_name(value.dtype)}"
        raise refuse(op, name, found, f"the dtype of {first}, {dtype_name(reference.dtype)}")


def check_operand(
    op: str, name: str, value: Any, shape: Sequence[int], first: str, reference: torch.Tensor,
    dtypes: Sequence[torch.dtype] = FLOATS,
) -> None:  # fmt: skip
    """A further tensor: its dtype, shape, and the device of the first one."""
    check_tensor(op, name, value, dtypes)
    check_shape(op, name, value, shape)
    check_like(op, name, value, first, reference)


def check_choice(op: str, name: str, value: Any, accepted: Sequence[Any]) -> None:
    if value not in accepted:
        raise refuse(op, name, f"is {value!r}", ", ".join(repr(a) for a in accepted))


def check_range(op: str, name: str, value: float, low: float, high: float) -> None:
    """`low` <= value < `high`; NaN is refused."""
    if not low <= value < high:
        raise refuse(op, name, f"is {value}", f"{low} <= {name} < {high}")
