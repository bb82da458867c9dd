"""Tensors that measuring a kernel again and again would spoil."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def tensor_named(arguments: Mapping[str, Any], name: str, option: str) -> Any:
    """The argument that an option of `autotune` names; None if this launch has none.

    Raises `TypeError` for what is no tensor.
    """
    tensor = arguments.get(name)
    if tensor is not None and not hasattr(tensor, "shape"):
        raise TypeError(f"autotune: {option} names '{name}', which is {tensor!r}, and no tensor")
    return tensor


def fill_zero(tensor: Any) -> None:
    """Make all elements zero."""
    if hasattr(tensor, "zero_"):
        tensor.zero_()
    else:
        tensor[...] = 0


def copied(tensor: Any) -> Any:
    """A copy."""
    return tensor.clone() if hasattr(tensor, "clone") else tensor.copy()


def assign(tensor: Any, value: Any) -> None:
    """Give a tensor the elements of a copy."""
    if hasattr(tensor, "copy_"):
        tensor.copy_(value)
    else:
        tensor[...] = value
