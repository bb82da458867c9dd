"""Kernels in Triton that others have published, as peers of `benchmarks.kernels` where they are
installed: Liger's (`pip install liger-kernel`) and FLA's (`pip install flash-linear-attention`).

On CPUs they run under Tritium: `python -m tritium run -m benchmarks.kernels`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Any


def is_installed(package: str) -> bool:
    """True if a package of kernels, and the language that they are written in, can be imported."""
    return find_spec(package) is not None and find_spec("triton") is not None


@cache
def liger() -> dict[str, tuple[Callable[..., Any], bool]]:
    """Liger's functions by the first word of a case's name, and if their gradients can be measured
    again and again: some are written over what the gradient reads."""
    if not is_installed("liger_kernel"):
        return {}
    from liger_kernel.transformers import functional

    def group_norm(x: Any, w: Any, b: Any) -> Any:
        return functional.liger_group_norm(x.flatten(2), w, b, 256, 32, 1e-5).view_as(x)

    return {
        "softmax": (functional.liger_softmax, True),
        "layer_norm": (lambda x, w, b: functional.liger_layer_norm(x, w, b, 1e-5), True),
        "rms_norm": (lambda x, w: functional.liger_rms_norm(x, w, 1e-6, 0.0, "llama", False), True),
        "group_norm": (group_norm, True),
        "swiglu": (functional.liger_swiglu, False),
    }


@cache
def fla_linear_attention() -> Callable[..., Any] | None:
    """FLA's linear attention of (batch, rows, heads, d)."""
    if not is_installed("fla"):
        return None
    from fla.ops.linear_attn import chunk_linear_attn

    return lambda q, k, v: chunk_linear_attn(q, k, v, normalize=False)[0]
