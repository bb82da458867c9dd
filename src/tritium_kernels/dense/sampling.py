"""One column of each row, drawn by the softmax of the row."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from tritium_kernels.dense.kernels import sampling as kernels
from tritium_kernels.errors import (
    WORDS,
    check_integer,
    check_number,
    check_rank,
    check_tensor,
    refuse,
)
from tritium_kernels.launching.launch import as_rows, device_class, on, power_of_two
from tritium_kernels.launching.operators import operator
from tritium_kernels.launching.tables import plan_rows

_BLOCK = {"cpu": 512, "hopper": 4096, "gpu": 4096}
"""Columns of a step at most, by the class of device."""

_LANES_KEPT = 2
"""Elements of a row that are put aside as candidates, for each column of a step."""

_FLOATS = (torch.float16, torch.bfloat16, torch.float32)


@operator("sample")
def sample_op(x: Tensor, temperature: float, top_k: int, top_p: float, seed: int) -> Tensor:
    rows, columns = x.shape
    y = torch.empty(rows, dtype=torch.int64, device=x.device)
    if rows == 0:
        return y
    source = as_rows(x)
    plan = plan_rows(x.device, 1, columns)
    block = min(power_of_two(columns), _BLOCK[device_class(x.device)])
    is_cut = 0 < top_k < columns
    most = _LANES_KEPT * block if is_cut else 0
    kept = torch.empty(rows, most, dtype=torch.float32, device=x.device) if is_cut else None
    places = torch.empty(rows, most, dtype=torch.int32, device=x.device) if is_cut else None
    with on("sample", "logits", x):
        kernels.sample_rows[(rows,)](
            source, y, kept, places, columns, source.stride(0),
            1.0 / temperature if temperature else 1.0, float(top_k), top_p, seed,
            GREEDY=temperature == 0, TOP_K=is_cut, TOP_P=top_p < 1, MOST=most, BLOCK=block,
            num_warps=max(4, plan.warps),
        )  # fmt: skip
    return y


@sample_op.register_fake
def _(x: Tensor, temperature: float, top_k: int, top_p: float, seed: int) -> Tensor:
    return torch.empty(x.shape[0], dtype=torch.int64, device=x.device)


def sample(
    logits: Tensor, temperature: float = 1.0, top_k: int | None = None,
    top_p: float | None = None, seed: int = 0,
) -> Tensor:  # fmt: skip
    """int64 (rows,): a column of each row of logits (rows, columns), the same for the same seed.

    A column is drawn with the probability that softmax(logits / temperature) gives it among those
    that are left: first the `top_k` largest, of these the fewest largest that have at least the
    share `top_p`; elements equal to the smallest that is left stay too. NaN has no probability; a
    row in which nothing has any gives -1.

    Args:
        temperature: 0 takes the first of the largest.
        seed: other seeds draw independently.
    """
    check_tensor("sample", "logits", logits, _FLOATS)
    check_rank("sample", "logits", logits, (2,))
    if not logits.shape[1]:
        raise refuse("sample", "logits", "has 0 columns", "1 or more")
    check_number("sample", "temperature", temperature, "0 or more, finite")
    if not (temperature >= 0 and math.isfinite(temperature)):
        raise refuse("sample", "temperature", f"is {temperature}", "0 or more, finite")
    if top_k is not None:
        check_integer("sample", "top_k", top_k, 1, what="1 or more, or None")
    if top_p is not None:
        check_number("sample", "top_p", top_p, "0 < top_p <= 1, or None")
        if not 0 < top_p <= 1:
            raise refuse("sample", "top_p", f"is {top_p}", "0 < top_p <= 1, or None")
    check_integer("sample", "seed", seed, *WORDS)
    return sample_op(
        logits.detach(), float(temperature), top_k or 0, 1.0 if top_p is None else top_p, seed
    )
