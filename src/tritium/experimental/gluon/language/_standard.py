"""Functions of Gluon that are written in the language itself."""

from __future__ import annotations

from typing import Any

from tritium.experimental.gluon.language import _core as gl
from tritium.language.jit.function import device_function


@device_function
def zeros(shape: Any, dtype: Any, layout: Any = None) -> Any:
    """A block of zeros of `shape` in a layout (`AutoLayout()` by default)."""
    return gl.full(shape, 0, dtype, layout)


@device_function
def full_like(
    input: Any, value: Any, shape: Any = None, dtype: Any = None, layout: Any = None
) -> Any:
    """A block like `input`, every element `value`; what is given is as said, not as there."""
    return gl.full(
        input.shape if shape is None else shape,
        value,
        input.dtype if dtype is None else dtype,
        input.type.layout if layout is None else layout,
    )


@device_function
def zeros_like(input: Any, shape: Any = None, dtype: Any = None, layout: Any = None) -> Any:
    """A block of zeros like `input`; what is given is as said, not as there."""
    return full_like(input, 0, shape=shape, dtype=dtype, layout=layout)
