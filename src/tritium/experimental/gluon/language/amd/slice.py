"""Parts of blocks in registers."""

from __future__ import annotations

from typing import Any

from tritium.experimental.gluon.language._core import checked
from tritium.experimental.gluon.language._layouts import AutoLayout
from tritium.experimental.gluon.language._types import distributed_type
from tritium.language.builtins.build import build
from tritium.language.decorators import builtin
from tritium.language.values.tensor import tensor
from tritium.ops import ttgir

__all__ = ["slice"]


@builtin
def slice(source: Any, shape: Any, offsets: Any) -> tensor:
    """The part of a block that begins at `offsets`, in the block's layout. Nothing moves between
    threads: where something would have to, that is an error."""
    type = source.type
    if not isinstance(type, distributed_type) or isinstance(type.layout, AutoLayout):
        raise TypeError(f"slice: source is {type}; a block with a layout is required")
    for name, given in (("shape", shape), ("offsets", offsets)):
        if len(given) != len(type.shape):
            raise ValueError(f"slice: {name} must have rank {len(type.shape)}, got {len(given)}")
    result = checked(type.layout, shape, source.dtype).to_ir()
    return build(ttgir.ExtractSliceOp, source, like=source, static_offsets=tuple(offsets),
                 result=result)  # fmt: skip
