"""Checks of arguments, made before anything is launched."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import UnionType
from typing import Any, cast

import torch

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
"""Types that kernels of rows and elements take."""

INDICES = (torch.int32, torch.int64)
INTEGERS = (int, torch.SymInt)
"""Python's integers, and those of torch's tracers."""

WORDS = (-(1 << 63), (1 << 63) - 1)
"""The least and the largest integer of 64 bits, such as seeds."""

LONGEST = (1 << 31) - 1
"""The most rows that offsets in int32 tell."""

NUMBERS = (*INTEGERS, float, torch.SymFloat)


class ArgumentError(ValueError):
    """An argument that a kernel does not take: the message names it, its value, what fits."""

    def __init__(self, op: str, name: str, found: str, accepted: str) -> None:
        super().__init__(f"{op}: {name} {found}; accepted: {accepted}")
        self.parts = op, name, found, accepted

    def __reduce__(self) -> tuple[type[ArgumentError], tuple[str, str, str, str]]:
        return ArgumentError, self.parts

    def renamed(self, op: str, names: Mapping[str, str]) -> ArgumentError:
        """The same error of `op`, which hands its arguments on under other names; `names` maps
        these to its own."""
        _, name, found, accepted = self.parts
        whole = re.compile(rf"\bof ({'|'.join(names)})(?=,|$)")
        accepted = whole.sub(lambda match: f"of {names[match[1]]}", accepted)
        return refuse(op, names.get(name, name), found, accepted)


def refuse(op: str, name: str, found: str, accepted: str) -> ArgumentError:
    """The error for argument `name` of `op`."""
    return ArgumentError(op, name, found, accepted)


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def check_tensor(op: str, name: str, value: Any, dtypes: Sequence[torch.dtype] = FLOATS) -> None:
    """`value` is a tensor of one of the dtypes."""
    kind = type(value)
    if (
        (kind is torch.Tensor or kind is torch.nn.Parameter)
        and value.dtype in dtypes and value.layout is torch.strided
    ):  # fmt: skip
        return
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
    if value.shape != shape and tuple(value.shape) != tuple(shape):
        raise refuse(op, name, f"has shape {tuple(value.shape)}", f"{tuple(shape)}")


def check_sizes(op: str, name: str, value: Any) -> None:
    """`value` is a shape."""
    is_shape = isinstance(value, Sequence) and all(
        _is_integer(n) and 0 <= n <= WORDS[1] for n in cast("Sequence[Any]", value)
    )
    if not is_shape:
        raise refuse(op, name, f"is {value!r}", "a sequence of integers, 0 or more")


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
    # Types first: torch compares tensors element by element, and True equals 1.
    if not any(type(value) is type(a) and value == a for a in accepted):
        raise refuse(op, name, f"is {value!r}", ", ".join(repr(a) for a in accepted))


def check_flag(op: str, **given: Any) -> None:
    """Each of these is True or False."""
    for name, value in given.items():
        if value is not True and value is not False:
            raise refuse(op, name, f"is {value!r}", "True or False")


def check_kind(op: str, kind: type[Any] | UnionType, **given: Any) -> None:
    """Each of these, if it is given, is a `kind`."""
    check_given(op, kind, **{name: v for name, v in given.items() if v is not None})


def check_given(op: str, kind: type[Any] | UnionType, **given: Any) -> None:
    """Each of these is a `kind`."""
    for name, value in given.items():
        if not isinstance(value, kind):
            accepted = getattr(kind, "__name__", str(kind))
            raise refuse(op, name, f"is {type(value).__name__}", accepted)


def _is_integer(value: Any) -> bool:
    return isinstance(value, INTEGERS) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, NUMBERS) and not isinstance(value, bool)


def check_row_count(op: str, name: str, value: Any, x: torch.Tensor) -> None:
    """`value` says how many rows of x are looked at: a number, or a tensor of one; None: all."""
    if isinstance(value, torch.Tensor):
        check_tensor(op, name, value, INDICES)
        check_shape(op, name, value.reshape(-1), (1,))
        check_like(op, name, value, "x", x)
    elif value is not None:
        check_integer(op, name, value, 0, LONGEST)


def check_number(op: str, name: str, value: Any, accepted: str) -> None:
    """`value` is an integer or a float."""
    if not _is_number(value):
        raise refuse(op, name, f"is {value!r}", accepted)


def check_integer(
    op: str, name: str, value: Any, low: int, high: int | None = None, what: str | None = None
) -> None:
    """`value` is an integer from `low` to `high`; `what` says the same in words."""
    whole = _is_integer(value)
    if not whole or value < low or (high is not None and value > high):
        limits = f"{low} or more" if high is None else f"{low} to {high}"
        limits = limits if whole else f"an integer, {limits}"
        raise refuse(op, name, f"is {value!r}", what or limits)


def check_axis(op: str, x: torch.Tensor, dim: Any) -> None:
    """`dim` is a dimension of x, from the first or from the last."""
    rank = x.ndim
    if not _is_integer(dim) or not -rank <= dim < rank:
        accepted = f"{-rank} to {rank - 1}" if rank else "none: x has no dimension"
        raise refuse(op, "dim", f"is {dim!r}", accepted)


def check_eps(op: str, eps: Any) -> None:
    """`eps` is a number that may be added to a variance."""
    if not _is_number(eps) or not eps >= 0:
        raise refuse(op, "eps", f"is {eps!r}", "eps >= 0")


def check_without_gradient(op: str, **given: torch.Tensor | None) -> None:
    """Refuse tensors that require a gradient where the op computes none for them."""
    if not torch.is_grad_enabled():
        return
    for name, value in given.items():
        if isinstance(value, torch.Tensor) and value.requires_grad:
            raise NotImplementedError(
                f"{op}: {name} requires grad, and {op} has no gradient of it; give "
                f"{name}.detach(), or call it under torch.no_grad()"
            )


def check_range(op: str, name: str, value: Any, low: float, high: float) -> None:
    """`low` <= value < `high`; NaN is refused."""
    if not _is_number(value) or not low <= value < high:
        raise refuse(op, name, f"is {value!r}", f"{low} <= {name} < {high}")
