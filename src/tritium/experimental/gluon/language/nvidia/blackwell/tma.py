"""Bulk copies: those of Hopper, and copies of chosen rows of matrices."""

from __future__ import annotations

from typing import Any

from tritium.experimental.gluon.language._memory import bulk_hints
from tritium.experimental.gluon.language.nvidia.hopper.tma import *  # noqa: F403
from tritium.experimental.gluon.language.nvidia.hopper.tma import check, is_shared
from tritium.language.builtins import casts
from tritium.language.builtins.build import emit
from tritium.language.decorators import builtin
from tritium.language.values.types import int1, int32
from tritium.ops import ttgir


@builtin
def async_gather(
    tensor_desc: Any, x_offsets: Any, y_offset: Any, barrier: Any, result: Any, pred: Any = True,
    multicast: bool = False, cache_policy: Any = None,
) -> None:  # fmt: skip
    """Start copying the rows `x_offsets` of a matrix, from column `y_offset` on, to shared memory.

    Args:
        tensor_desc: of blocks of one row.
        x_offsets: int32, a multiple of four of them.
        y_offset: the column.
        barrier, result, pred, multicast, cache_policy: as for `async_load`.
    """
    check("async_gather", tensor_desc, result)
    column, flag = casts.as_element(y_offset, int32, int32), casts.cast(casts.to_tensor(pred), int1)
    emit(ttgir.AsyncTMAGatherOp, tensor_desc, x_offsets, column, barrier, result, flag,
         multicast=bool(multicast) and is_shared(result),
         hints=bulk_hints(cache_policy))  # fmt: skip


@builtin
def async_scatter(
    tensor_desc: Any, x_offsets: Any, y_offset: Any, src: Any, cache_policy: Any = None
) -> None:
    """Start writing shared memory to the rows `x_offsets` of a matrix, from column `y_offset` on.
    Arguments as of `async_gather`."""
    check("async_scatter", tensor_desc, src)
    column = casts.as_element(y_offset, int32, int32)
    emit(
        ttgir.AsyncTMAScatterOp, tensor_desc, x_offsets, column, src,
        hints=bulk_hints(cache_policy),
    )  # fmt: skip
