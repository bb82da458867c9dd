"""Products by torch's functions, for comparison."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from tritium_kernels.errors import refuse
from tritium_kernels.launching.launch import cdiv
from tritium_kernels.matmul_details.operands import Operand, read_operands, read_problem
from tritium_kernels.matmul_details.precision import PrecisionConfig
from tritium_kernels.numerics_details.mxfp import BLOCK_SIZES, upcast_from_mxfp_torch
from tritium_kernels.tensor_details import dtype as types
from tritium_kernels.tensor_details.layout_details.torch_utils import repack
from tritium_kernels.tensor_details.ragged_tensor import RaggedTensorMetadata


def _per_batch(val: Tensor, scal: Tensor) -> Tensor:
    """`scal` in the shape in which it is of all of `val`, or of each batch."""
    return scal.reshape((-1, *(1 for _ in val.shape[1:])) if scal.numel() > 1 else ())


def scale(val: Tensor, scal: Tensor | None) -> Tensor:
    """val / scal, as results are stored.

    `scal` has one element, or one for each batch; None: val.
    """
    return val if scal is None else val / _per_batch(val, scal)


def scaled_back(val: Tensor, scal: Tensor | None) -> Tensor:
    """val * scal in float32: the numbers that elements stand for."""
    return val if scal is None else val.float() * _per_batch(val, scal)


def _numbers(x: Operand, k_axis: int) -> Tensor:
    """The numbers for which an operand's elements stand, in float64."""
    data, packed = x.data, x.dtype == types.FP4
    if x.layout is not None:
        data = x.layout.make_transformation(x.shape, packed).unswizzle_data(data)
    if x.layout is not None or x.across:
        data = repack(data, -1, k_axis, packed)
    if x.scale is None:
        return scaled_back(data.float(), x.flex.scale).double()
    factors = x.scale
    if x.scale_layout is not None:
        shape = list(x.shape)
        shape[k_axis] = cdiv(shape[k_axis], BLOCK_SIZES[factors.dtype])
        factors = x.scale_layout.make_transformation(shape, False).unswizzle_data(factors)
    numbers = upcast_from_mxfp_torch(data, factors, torch.float32, k_axis)
    return scaled_back(numbers, x.flex.scale).double()


def apply_precision(
    x_tri: Any, w_tri: Any, precision_config: PrecisionConfig
) -> tuple[Tensor, Tensor]:
    """The numbers that a and b stand for, in float64."""
    x, w = read_operands(x_tri, w_tri, precision_config)
    return _numbers(x, -1), _numbers(w, -2)


def matmul_torch(
    a: Any, b: Any, bias: Tensor | None,
    a_ragged_metadata: RaggedTensorMetadata | None = None,
    b_ragged_metadata: RaggedTensorMetadata | None = None, gather_indx: Tensor | None = None,
    scatter_indx: Tensor | None = None, precision_config: PrecisionConfig | None = None,
    betas: Tensor | None = None, gammas: Tensor | None = None, round_x: Any = None,
    round_y: Any = None,
) -> Tensor:  # fmt: skip
    """`matmul` without functions of the result, in float64; `a` may be float64.

    The result is divided by the flexpoint scale that is expected, and its actual scale is written;
    it is not rounded to types of 8 bits, but float32 then.

    Args:
        round_x: a function of some rows of a and of their numbers; round_y: one of their results.
    """
    config = precision_config or PrecisionConfig()
    if isinstance(a, Tensor) and a.dtype == torch.float64:
        x, w, dtype = a, b.double(), torch.float64
    else:
        x, w = apply_precision(a, b, config)
        dtype = a.data.dtype if a.element_size() > 1 else torch.bfloat16
    dtype = config.out_dtype or dtype
    size = read_problem(
        x.shape, w.shape, a_ragged_metadata, b_ragged_metadata, gather_indx, scatter_indx
    )
    w = w * config.acc_scale
    if b_ragged_metadata is not None:
        of_a = a_ragged_metadata or b_ragged_metadata
        y = _of_slices_of_k(x, w, of_a, b_ragged_metadata, round_x)
        if bias is not None:
            y = y + bias.double()[:, None]
        y = y if round_y is None else round_y(y)
    else:
        y = _by_slices(x, w, bias, a_ragged_metadata, gather_indx, scatter_indx, betas, gammas,
                       size.m, round_x, round_y)  # fmt: skip
    out = config.flex_ctx.out_data
    if out.actual_scale is not None:
        batches = tuple(range(1 if out.is_per_batch else 0, y.ndim))
        out.actual_scale.copy_(y.abs().amax(batches) / torch.finfo(dtype).max)
    return scale(y, out.expected_scale).to(dtype if dtype.itemsize > 1 else torch.float32)


def _of_slices_of_k(
    x: Tensor, w: Tensor, of_a: RaggedTensorMetadata, of_b: RaggedTensorMetadata, round_x: Any
) -> Tensor:
    """The product of each slice of k."""
    y = x.new_zeros((of_b.n_slices, x.shape[0], w.shape[-1]))
    firsts = zip(of_a.slice_offs.tolist(), of_b.slice_offs.tolist(), of_b.slice_sizes.tolist(),
                 strict=False)  # fmt: skip
    rows = torch.arange(x.shape[0], device=x.device)
    for number, (i, j, k) in enumerate(firsts):
        part = x[:, i : i + k]
        y[number] = (part if round_x is None else round_x(part, rows).double()) @ w[j : j + k]
    return y


def _by_slices(
    x: Tensor, w: Tensor, bias: Tensor | None, ragged: RaggedTensorMetadata | None,
    gather: Tensor | None, scatter: Tensor | None, betas: Tensor | None, gammas: Tensor | None,
    m: int, round_x: Any, round_y: Any,
) -> Tensor:  # fmt: skip
    """The product of each slice of rows with its matrix, or of all of them."""
    if gather is not None:
        index = gather.long()
        x = x[index.clamp(min=0)] * (index >= 0)[:, None]
    slices = [(0, m)]
    if ragged is not None:
        firsts = ragged.slice_offs[:-1].tolist()
        slices = [(i, i + n) for i, n in zip(firsts, ragged.slice_sizes.tolist(), strict=True)]
    y = x.new_zeros((*x.shape[:-1], w.shape[-1]))
    used = torch.zeros(m, dtype=torch.bool, device=x.device)
    for number, (i, j) in enumerate(slices):
        used[i:j] = True
        part = x[..., i:j, :]
        if round_x is not None:
            part = round_x(part, torch.arange(i, j, device=x.device)).double()
        y[..., i:j, :] = part @ (w if ragged is None else w[number])
        if bias is not None:
            row = (bias if ragged is None else bias[number]).double()
            row = row[..., None, :] if betas is None else row * betas[i:j, None].double()
            y[..., i:j, :] += row
        if gammas is not None:
            y[..., i:j, :] *= gammas[i:j, None].double()
        if round_y is not None:
            y[..., i:j, :] = round_y(y[..., i:j, :]).double()
    if scatter is None:
        return y
    wanted = (scatter >= 0) & used
    result = torch.zeros_like(y)
    result[scatter[wanted].long()] = y[wanted]
    return result


def _gathered(t: Tensor, world_size: int) -> list[Tensor]:
    """The tensors of all processes."""
    if world_size == 1:
        return [t]
    found = [torch.empty_like(t) for _ in range(world_size)]
    dist.all_gather(found, t.contiguous())
    return found


def post_matmul_comm_torch(
    y: Tensor, rank: int, n_reduce_shards: int, world_size: int,
    scatter_shard_indx: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Result of a product with `FusedComm` on process `rank`, from the products y of all.

    Processes are in groups of `n_reduce_shards` that follow each other; row i of the j-th of a
    group is row i * n_reduce_shards + j of the result: (..., rows * n_reduce_shards, columns).

    Args:
        scatter_shard_indx: (rows,): the group that each row goes to, the same in each process of a
            group; rows that come from none are 0. None: there is one group, which gets all rows.
    """
    op = "post_matmul_comm_torch"
    if world_size % n_reduce_shards:
        found = f"is {world_size}"
        raise refuse(op, "world_size", found, f"a multiple of {n_reduce_shards}")
    if scatter_shard_indx is None and n_reduce_shards != world_size:
        raise refuse(op, "n_reduce_shards", f"is {n_reduce_shards}", f"{world_size}, world_size")
    ys = _gathered(y, world_size)
    whole = torch.stack(ys, -2)  # (..., rows, processes, columns)
    if scatter_shard_indx is None:
        return whole.flatten(-3, -2)
    result = torch.zeros_like(whole[..., :n_reduce_shards, :])
    indices = _gathered(scatter_shard_indx, world_size)
    for first in range(0, world_size, n_reduce_shards):
        here = indices[first] == rank // n_reduce_shards
        result[..., here, :, :] = whole[..., here, first : first + n_reduce_shards, :]
    return result.flatten(-3, -2)
