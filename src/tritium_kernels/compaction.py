"""Keep the elements of a sparse matrix whose columns are in a set, on the left of each row."""

from __future__ import annotations

import torch

from tritium_kernels.errors import (
    WORDS,
    check_integer,
    check_operand,
    check_rank,
    check_tensor,
    check_without_gradient,
    refuse,
)
from tritium_kernels.launching.launch import on, power_of_two
from tritium_kernels.launching.operators import untraced
from tritium_kernels.moe_kernels import compaction as kernels
from tritium_kernels.tensor_details.dtype import BIT
from tritium_kernels.tensor_details.storage import Tensor

_INTEGERS = (torch.int16, torch.int32, torch.int64)
_WORDS = (torch.int32, torch.uint32, torch.int64)
_VALUES = (torch.float16, torch.bfloat16, torch.float32, *_INTEGERS)


def _words(yv: torch.Tensor, yi: torch.Tensor, bitmask: torch.Tensor | Tensor) -> torch.Tensor:
    """The words of the mask, (rows, words)."""
    check_tensor("compaction", "yv", yv, _VALUES)
    check_rank("compaction", "yv", yv, (2,))
    check_operand("compaction", "yi", yi, yv.shape, "yv", yv, _INTEGERS)
    if isinstance(bitmask, Tensor):
        if bitmask.dtype != BIT:
            raise refuse("compaction", "bitmask", f"has elements {bitmask.dtype}", "BIT")
        bitmask = bitmask.data
    check_tensor("compaction", "bitmask", bitmask, _WORDS)
    check_rank("compaction", "bitmask", bitmask, (2,))
    check_operand("compaction", "bitmask", bitmask, (yv.shape[0], bitmask.shape[-1]), "yv", yv,
                  _WORDS)  # fmt: skip
    check_without_gradient("compaction", yv=yv)
    if yi.is_cpu and yi.numel():  # seen without waiting
        most, columns = int(yi.max()), 32 * bitmask.shape[1]
        if most >= columns:
            accepted = f"less than {columns}, the columns of bitmask"
            raise refuse("compaction", "yi", f"has {most}", accepted)
    # Of the words of torch's own sums of bits, int64, the low halves count.
    return bitmask.view(torch.int32) if bitmask.dtype == torch.uint32 else bitmask.int()


@untraced
def compaction(
    yv: torch.Tensor, yi: torch.Tensor, bitmask: torch.Tensor | Tensor, sentinel: int = -1
) -> tuple[torch.Tensor, torch.Tensor]:
    """(values, columns): of each row those whose column's bit is set, in order, then `sentinel`.

    Args:
        yv, yi: values and columns (rows, k); a column must be one of the mask's, or negative.
        bitmask: bits (rows, columns), as words of 32 (int32, uint32, or the low halves of
            int64) or as a `Tensor` of bits.
    """
    words = _words(yv, yi, bitmask)
    check_integer("compaction", "sentinel", sentinel, *WORDS)
    rows, k = yv.shape
    values = torch.empty((rows, k), dtype=yv.dtype, device=yv.device)
    columns = torch.empty((rows, k), dtype=yi.dtype, device=yi.device)
    if values.numel():
        with on("compaction", "yv", yv):
            kernels.compaction[(rows,)](
                yv.contiguous(), yi.contiguous(), words, *words.stride(), values, columns, sentinel,
                K=k, KP=power_of_two(k), num_warps=1,
            )  # fmt: skip
    return values, columns


def compaction_torch(
    yv: torch.Tensor, yi: torch.Tensor, bitmask: torch.Tensor | Tensor, sentinel: int = -1
) -> tuple[torch.Tensor, torch.Tensor]:
    """`compaction` by torch's functions, for comparison."""
    words = _words(yv, yi, bitmask)
    index = yi.long()
    word = torch.gather(words.long(), 1, index.clamp(min=0) // 32)
    keep = (index >= 0) & ((word >> (index.clamp(min=0) % 32)) & 1).bool()
    order = torch.argsort((~keep).to(torch.int8), dim=1, stable=True)
    values, columns = (
        torch.gather(torch.where(keep, t, torch.full_like(t, sentinel)), 1, order) for t in (yv, yi)
    )
    return values, columns
