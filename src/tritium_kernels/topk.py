"""The k largest elements of each row, with the softmax over them, and its gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F

from tritium_kernels.distributed_details.mesh import SymmetricMemoryPool
from tritium_kernels.errors import (
    INDICES,
    check_choice,
    check_flag,
    check_integer,
    check_kind,
    check_operand,
    check_rank,
    check_row_count,
    check_tensor,
    refuse,
)
from tritium_kernels.launching.launch import cdiv, device_class, on, power_of_two
from tritium_kernels.launching.operators import once, untraced
from tritium_kernels.moe_kernels import topk as kernels
from tritium_kernels.tensor import SparseMatrix
from tritium_kernels.tensor_details.dtype import BIT
from tritium_kernels.tensor_details.storage import wrap_torch_tensor

MOST_COLUMNS = 32767
FLOATS = (torch.float16, torch.bfloat16, torch.float32)
COLUMNS = (torch.int16, *INDICES)
"""Types of numbers of columns."""

_ROWS = {"cpu": 4, "hopper": 8, "gpu": 8}
"""Rows of a program."""

_WIDEST = 1024
"""Columns that are sorted at once."""


def _row_count(n_rows: int | torch.Tensor | None, x: torch.Tensor) -> torch.Tensor | None:
    if n_rows is None or isinstance(n_rows, torch.Tensor):
        return n_rows
    return torch.tensor([n_rows], dtype=torch.int32, device=x.device)


def _check(x: torch.Tensor, k: int, dim: int, y_indx: torch.Tensor | None) -> None:
    check_tensor("topk", "x", x, FLOATS)
    check_rank("topk", "x", x, (2,))
    check_choice("topk", "dim", dim, (1, -1))
    if x.shape[1] > MOST_COLUMNS:
        raise refuse("topk", "x", f"has {x.shape[1]} columns", f"{MOST_COLUMNS} or fewer")
    columns = x.shape[1]
    check_integer("topk", "k", k, 1, columns, f"1 to {columns}, the columns of x")
    if y_indx is not None:
        check_operand("topk", "y_indx", y_indx, (x.shape[0], k), "x", x, COLUMNS)


def _check_columns(y_indx: torch.Tensor, n_rows: int | torch.Tensor | None, columns: int) -> None:
    """Given columns of the rows that are looked at exist; seen without waiting on CPUs alone."""
    if y_indx.device.type != "cpu":
        return
    used = y_indx if n_rows is None else y_indx[: int(n_rows)]
    if used.numel():
        low, high = (int(end) for end in used.aminmax())
        if low < -1 or high >= columns:
            found = f"has {low if low < -1 else high}"
            raise refuse("topk", "y_indx", found, f"-1 to {columns - 1}, the columns of x")


def make_empty(
    offset: int, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device,
    all_gather: bool, symm_mem_pool: Any,
) -> tuple[tuple[torch.Tensor, ...], torch.Tensor, int]:  # fmt: skip
    """(a tensor of each process, that of this one, where the next begins) in the region "topk".

    Without `all_gather` there is one tensor, in memory of its own.
    """
    if not all_gather:
        made = torch.empty(shape, dtype=dtype, device=device)
        return (made,), made, 0
    peers = symm_mem_pool.make_empty(shape, dtype, "topk", offset)
    own = peers[symm_mem_pool.mesh.local_rank]
    return peers, own, symm_mem_pool.align_up(offset + own.numel() * own.element_size())


def _gather(pool: Any, found: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The rows of all processes, one process's after the other's; all have as many."""
    rank, size, offset = pool.mesh.local_rank, pool.mesh.world_size, 0
    pool.hdl.barrier(0)  # nobody reads what was there before
    result: list[torch.Tensor] = []
    for part in found:
        rows, columns = part.shape
        peers, own, offset = make_empty(
            offset, (rows * size, columns), part.dtype, part.device, True, pool
        )
        for peer in peers:
            peer[rank * rows : (rank + 1) * rows].copy_(part)
        result.append(own)
    pool.hdl.barrier(1)
    return result


def _own_share(pool: Any, dy: torch.Tensor) -> torch.Tensor:
    """The sum over all processes of their gradients of this process's rows."""
    rank, size = pool.mesh.local_rank, pool.mesh.world_size
    parts = dy.view(size, -1, dy.shape[1])
    pool.hdl.barrier(0)  # nobody reads what was there before
    peers, own, _ = make_empty(0, tuple(parts.shape), dy.dtype, dy.device, True, pool)
    for peer, part in zip(peers, parts, strict=True):
        peer[rank].copy_(part)
    pool.hdl.barrier(1)
    return own.float().sum(0).to(dy.dtype)


def topk_forward(
    x: torch.Tensor, k: int, apply_softmax: bool = True, dim: int = 1,
    y_indx: torch.Tensor | None = None, n_rows: int | torch.Tensor | None = None,
    all_gather: bool = False, symm_mem_pool: Any = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    """(values, columns, words of bits (rows, words), one column of words after the other)."""
    if all_gather and symm_mem_pool is None:
        raise refuse("topk", "symm_mem_pool", "is None", "a pool, for all_gather")
    _check(x, k, dim, y_indx)
    rows, columns = x.shape
    x = x if x.stride(1) == 1 else x.contiguous()
    given = y_indx is not None
    if given:
        _check_columns(y_indx, n_rows, columns)
    values = torch.empty((rows, k), dtype=x.dtype, device=x.device)
    index = y_indx.contiguous() if given else values.new_empty((rows, k), dtype=torch.int16)
    words = cdiv(columns, 32)
    bits = torch.zeros((words, cdiv(rows, 32) * 32), dtype=torch.int32, device=x.device)
    if rows:
        padded = power_of_two(k)
        block = max(min(power_of_two(columns), _WIDEST), padded)
        with on("topk", "x", x):
            size = _ROWS[device_class(x.device)]
            kernels.topk_forward[(cdiv(rows, size),)](
                x, x.stride(0), values, index, bits, bits.stride(0), rows, _row_count(n_rows, x),
                columns, SOFTMAX=apply_softmax, GIVEN=given, K=k, KP=padded, ROWS=size,
                BLOCK=block, ONCE=columns <= block, WORDS=words,
            )  # fmt: skip
    if all_gather:
        values, index, words_ = _gather(symm_mem_pool, (values, index, bits.T[:rows]))
        return values, index, words_
    return values, index, bits.T[:rows]


def topk_backward(
    x: torch.Tensor, y_indx: torch.Tensor, dy_vals: torch.Tensor, k: int,
    n_rows: int | torch.Tensor | None, apply_softmax: bool,
) -> torch.Tensor:  # fmt: skip
    """The gradient of x, of x's dtype; 0 where no element was chosen."""
    _check(x, k, 1, y_indx)
    check_operand("topk", "dy_vals", dy_vals, (x.shape[0], k), "x", x)
    rows, columns = x.shape
    dx = torch.zeros((rows, columns), dtype=x.dtype, device=x.device)
    if rows:
        x = x if x.stride(1) == 1 else x.contiguous()
        size, padded = _ROWS[device_class(x.device)], power_of_two(k)
        with on("topk", "x", x):
            kernels.topk_backward[(cdiv(rows, size),)](
                x, x.stride(0), y_indx.contiguous(), dy_vals.contiguous(), dx, dx.stride(0), rows,
                _row_count(n_rows, x), columns, SOFTMAX=apply_softmax, K=k, KP=padded, ROWS=size,
                BLOCK=min(power_of_two(columns), max(16, 512 // padded)),
            )  # fmt: skip
    return dx


class TopK(torch.autograd.Function):
    """`topk_forward`, whose values have a gradient."""

    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, k: int, apply_softmax: bool, dim: int,
        y_indx: torch.Tensor | None, n_rows: int | torch.Tensor | None, all_gather: bool,
        symm_mem_pool: Any,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
        values, index, bits = topk_forward(
            x, k, apply_softmax, dim, y_indx, n_rows, all_gather, symm_mem_pool
        )
        own = index
        if all_gather and ctx.needs_input_grad[0]:
            # The pool's memory is used again before the gradient needs what is there.
            values, index, bits = values.clone(), index.clone(), bits.clone()
            first = symm_mem_pool.mesh.local_rank * x.shape[0]
            own = index[first : first + x.shape[0]]
        ctx.save_for_backward(x, own)
        ctx.pool = symm_mem_pool if all_gather else None
        ctx.options = k, n_rows, apply_softmax
        ctx.mark_non_differentiable(index, bits)
        return values, index, bits

    @staticmethod
    @once("topk")
    def backward(ctx: Any, dy_vals: torch.Tensor, *_: Any) -> tuple[torch.Tensor | None, ...]:
        x, index = ctx.saved_tensors
        k, n_rows, apply_softmax = ctx.options
        if ctx.pool is not None:
            dy_vals = _own_share(ctx.pool, dy_vals.contiguous())
        dx = topk_backward(x, index, dy_vals, k, n_rows, apply_softmax)
        return dx, None, None, None, None, None, None, None


@untraced
def topk(
    x: torch.Tensor, k: int, apply_softmax: bool = True, dim: int = 1,
    y_indx: torch.Tensor | None = None, n_rows: int | torch.Tensor | None = None,
    all_gather: bool = False, symm_mem_pool: Any = None,
) -> SparseMatrix:  # fmt: skip
    """The k largest elements of each row of x (rows, columns), largest first.

    Of equal elements, as the two zeros are, the one with the smaller column comes first, and zeros
    are given without a sign; NaN is larger than any number.

    Args:
        apply_softmax: values are the softmax over the k elements.
        y_indx: the columns to take (rows, k), in place of those of the largest; -1 takes none.
        n_rows: rows that are looked at (a number, or a tensor of one); the others have no elements.
        all_gather: rows of all processes follow those of x, or precede them: x has some of the rows
            of one matrix, as many in each process of the mesh. The gradient is that of the sum of
            all processes' losses: all of them compute it.
        symm_mem_pool: memory of the mesh, with a region "topk".
    """
    check_kind("topk", SymmetricMemoryPool, symm_mem_pool=symm_mem_pool)
    check_flag("topk", apply_softmax=apply_softmax, all_gather=all_gather)
    check_tensor("topk", "x", x, FLOATS)
    check_row_count("topk", "n_rows", n_rows, x)
    values, index, bits = TopK.apply(
        x, k, apply_softmax, dim, y_indx, n_rows, all_gather, symm_mem_pool
    )
    mask = wrap_torch_tensor(bits, BIT, shape=(values.shape[0], x.shape[1]))
    return SparseMatrix(index, values, mask)


def topk_torch(
    x: torch.Tensor, k: int, apply_softmax: bool = True, dim: int = 1,
    y_indx: torch.Tensor | None = None, n_rows: int | torch.Tensor | None = None,
) -> SparseMatrix:  # fmt: skip
    """`topk` by torch's functions, for comparison."""
    _check(x, k, dim, y_indx)
    rows, columns = x.shape
    if y_indx is not None:
        _check_columns(y_indx, n_rows, columns)
    if y_indx is None:
        index = torch.argsort(x, dim=1, descending=True, stable=True)[:, :k]
    else:
        index = y_indx.long()
    chosen = (index >= 0) & (index < columns)
    if n_rows is not None:
        chosen &= torch.arange(rows, device=x.device)[:, None] < n_rows
    values = torch.gather(x, 1, index.clamp(0, columns - 1)).float()
    if apply_softmax:
        values = torch.softmax(values.masked_fill(~chosen, -torch.inf), 1)
    values = torch.where(chosen, values, 0.0).to(x.dtype)
    index = torch.where(chosen, index, -1)
    flags = torch.zeros((rows, cdiv(columns, 32) * 32), dtype=torch.int64, device=x.device)
    flags.scatter_add_(1, torch.where(chosen, index, 0), chosen.long())
    weights = 1 << torch.arange(32, device=x.device)
    words = (flags.clamp(max=1).unflatten(1, (-1, 32)) * weights).sum(2).to(torch.int32)
    # The strides of `topk`: one column of words after the other, with places for 32 rows.
    words = F.pad(words.T.contiguous(), (0, -rows % 32))[:, :rows].T
    mask = wrap_torch_tensor(words, BIT, shape=(rows, columns))
    return SparseMatrix(index.to(torch.int16), values, mask)
