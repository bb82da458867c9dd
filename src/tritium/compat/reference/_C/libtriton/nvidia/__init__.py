"""The reference's bindings for NVIDIA GPUs, as far as programs use them."""

from __future__ import annotations

from typing import Any

from . import cublas as cublas

__all__ = ["cublas", "load_dialects"]


def load_dialects(context: Any) -> None:
    """Do nothing: a context knows every dialect from the start."""
