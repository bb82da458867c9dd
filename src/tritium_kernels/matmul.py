"""Products with ragged and batched matrices: the layers of a mixture of experts."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from tritium_kernels.errors import (
    FLOATS,
    check_like,
    check_operand,
    check_rank,
    check_same_dtype,
    check_tensor,
    dtype_name,
    refuse,
)
from tritium_kernels.launch import cdiv, device_class, on, power_of_two
from tritium_kernels.moe_kernels import matmul as kernels
from tritium_kernels.specialize import IDENTITY, FnSpecs
from tritium_kernels.tensor_details.ragged_tensor import RaggedTensorMetadata

_FLOATS = (torch.float16, torch.bfloat16, torch.float32)
_SCALED = {torch.uint8: "e2m1", torch.float8_e4m3fn: "e4m3", torch.float8_e5m2: "e5m2"}
_FORMATS = {torch.bfloat16: "bf16", torch.float16: "fp16", **_SCALED}
_OPERANDS = (*_FLOATS, *_SCALED)
_INDICES = (torch.int32, torch.int64)


@dataclass(frozen=True)
class FusedActivation:
    """A function of the result, applied before it is stored: see `FnSpecs`."""

    specs: FnSpecs = IDENTITY
    fn_args: tuple[Any, ...] = ()


@dataclass(frozen=True)
class PrecisionConfig:
    """How numbers are read, multiplied and stored.

    Attributes:
        allow_tf32: float32 products may round their operands to tf32.
        a_mx_scale, b_mx_scale: E8M0 scales (uint8) of blocks of 32 along k, of the shape of a or b
            with k / 32 in place of k. a or b is float8, or uint8 with two e2m1 a byte along k.
        out_dtype: of the result; a's if not given, bfloat16 where a is of 8 bits or fewer.
        enforce_bitwise_invariance: a row's result does not depend on how many rows there are.
    """

    allow_tf32: bool = True
    a_mx_scale: Tensor | None = None
    b_mx_scale: Tensor | None = None
    out_dtype: torch.dtype | None = None
    enforce_bitwise_invariance: bool = False


@dataclass(frozen=True)
class Blocks:
    """Tile sizes, warps, stages."""

    m: int
    n: int
    k: int
    warps: int
    stages: int


_TABLE = {
    "cpu": Blocks(64, 64, 64, 4, 1), "hopper": Blocks(128, 128, 64, 8, 3),
    "gpu": Blocks(64, 128, 32, 4, 3),
}  # fmt: skip


def _choose(device: torch.device, rows: int, n: int, invariant: bool) -> Blocks:
    """Tiles for slices of about `rows` rows."""
    table = _TABLE[device_class(device)]
    m = table.m if invariant else min(table.m, max(16, power_of_two(rows)))
    columns = min(table.n, max(16, power_of_two(n)))
    return Blocks(m, columns, table.k, table.warps if m * columns > 4096 else 4, table.stages)


@dataclass(frozen=True)
class _Problem:
    """The sizes of a product: slices or batches, and elements along m, n, k."""

    batch: int
    m: int
    n: int
    k: int


def _elements(x: Tensor, axis: int) -> int:
    """Elements along an axis; two in a byte of e2m1."""
    return x.shape[axis] * (2 if x.dtype == torch.uint8 else 1)


def _problem(
    a: Tensor, b: Tensor, a_ragged: RaggedTensorMetadata | None,
    b_ragged: RaggedTensorMetadata | None, gather: Tensor | None, scatter: Tensor | None,
    dtypes: tuple[torch.dtype, ...] = _OPERANDS,
) -> _Problem:  # fmt: skip
    for name, x in (("a", a), ("b", b)):
        check_tensor("matmul", name, x, dtypes)
        check_rank("matmul", name, x, (2, 3))
        check_like("matmul", name, x, "a", a)
    k, n = _elements(a, -1), b.shape[-1]
    if _elements(b, -2) != k:
        raise refuse("matmul", "b", f"has {_elements(b, -2)} rows", f"{k}, the columns of a")
    if a_ragged is not None and b_ragged is not None:
        found = "is given with a_ragged_metadata"
        raise refuse("matmul", "b_ragged_metadata", found, "one of both")
    if b_ragged is not None:
        check_rank("matmul", "a", a, (2,))
        check_rank("matmul", "b", b, (2,))
        if gather is not None or scatter is not None:
            name = "gather_indx" if gather is not None else "scatter_indx"
            raise refuse("matmul", name, "is given with b_ragged_metadata", "None")
        return _Problem(b_ragged.n_slices, a.shape[0], n, k)
    if a_ragged is not None:
        check_rank("matmul", "a", a, (2,))
        check_rank("matmul", "b", b, (3,))
        if b.shape[0] != a_ragged.n_slices:
            accepted = f"{a_ragged.n_slices}, the slices of a"
            raise refuse("matmul", "b", f"has {b.shape[0]} matrices", accepted)
        return _Problem(1, a.shape[0] if gather is None else gather.shape[0], n, k)
    if a.ndim == 3 and (gather is not None or scatter is not None):
        name = "gather_indx" if gather is not None else "scatter_indx"
        raise refuse("matmul", name, "is given with batches", "None")
    batch = a.shape[0] if a.ndim == 3 else 1
    if b.ndim == 3 and b.shape[0] != batch:
        raise refuse("matmul", "b", f"has {b.shape[0]} matrices", f"{batch}, the batches of a")
    return _Problem(batch, a.shape[-2] if gather is None else gather.shape[0], n, k)


def _formats(a: Tensor, b: Tensor, config: PrecisionConfig) -> tuple[str | None, str | None]:
    """(a's, b's) names for a scaled product; None for a plain one."""
    for name, x, scale in (("a", a, config.a_mx_scale), ("b", b, config.b_mx_scale)):
        axis = -1 if name == "a" else -2
        if scale is None:
            if x.dtype == torch.uint8:
                raise refuse("matmul", f"{name}_mx_scale", "is None", f"scales, for {name} of e2m1")
            continue
        if x.dtype not in _SCALED:
            accepted = f"None for {name} of {dtype_name(x.dtype)}"
            raise refuse("matmul", f"{name}_mx_scale", "is given", accepted)
        shape = list(x.shape)
        shape[axis] = cdiv(_elements(x, axis), 32)
        check_operand("matmul", f"{name}_mx_scale", scale, shape, "a", a, (torch.uint8,))
    if config.a_mx_scale is None and config.b_mx_scale is None:
        if not (a.dtype in _SCALED and b.dtype in _SCALED):
            check_same_dtype("matmul", "b", b, "a", a)
        return None, None
    for name, x in (("a", a), ("b", b)):
        if x.dtype not in _FORMATS:
            accepted = ", ".join(dtype_name(d) for d in _FORMATS)
            raise refuse("matmul", name, f"has dtype {dtype_name(x.dtype)}", accepted)
    return _FORMATS[a.dtype], _FORMATS[b.dtype]


def _check_rows(name: str, t: Tensor | None, rows: int, a: Tensor, dtypes: Any) -> Tensor | None:
    if t is None:
        return None
    check_operand("matmul", name, t, (rows,), "a", a, dtypes)
    return t.contiguous()


def _three(t: Tensor | None) -> tuple[int, ...]:
    """Strides of three dimensions; 0 for a leading one that is not there."""
    if t is None:
        return (0, 0, 0)
    return (0,) * (3 - t.ndim) + tuple(t.stride())


def _result(
    c: Tensor | None, shape: tuple[int, ...], a: Tensor, config: PrecisionConfig, clear: bool
) -> Tensor:
    dtype = config.out_dtype or (a.dtype if a.dtype in _FLOATS else torch.bfloat16)
    if c is None:
        return (torch.zeros if clear else torch.empty)(shape, dtype=dtype, device=a.device)
    if tuple(c.shape) != shape or (config.out_dtype and c.dtype != dtype):
        found = f"has shape {tuple(c.shape)} and dtype {dtype_name(c.dtype)}"
        raise refuse("matmul", "c", found, f"{shape} and {dtype_name(dtype)}")
    return c


def matmul(
    a: Tensor, b: Tensor, bias: Tensor | None,
    a_ragged_metadata: RaggedTensorMetadata | None = None,
    b_ragged_metadata: RaggedTensorMetadata | None = None, gather_indx: Tensor | None = None,
    scatter_indx: Tensor | None = None, precision_config: PrecisionConfig | None = None,
    betas: Tensor | None = None, gammas: Tensor | None = None, out_alpha: float | None = None,
    c: Tensor | None = None, fused_activation: FusedActivation | None = None,
) -> Tensor:  # fmt: skip
    """out_alpha * activation((a @ b + bias * betas) * gammas).

    Args:
        a, b: (m, k) or (batch, m, k), and (k, n) or (batch, k, n); any strides.
        bias: (n,) or (batch, n), float32.
        a_ragged_metadata: rows of a are in slices; slice i is multiplied by b[i], with bias[i].
        b_ragged_metadata: columns of a and rows of b are in slices; result i is the product of
            slice i: (slices, m, n).
        gather_indx: the row of a for each row of the product; -1: a row of zeros.
        scatter_indx: the row of the result for each row of the product; -1: none. Rows of the
            result that no row is written to are 0, or what `c` has there.
        betas, gammas: float32, for each row of the product.
        c: a tensor to write the result to.
    """
    config = precision_config or PrecisionConfig()
    size = _problem(a, b, a_ragged_metadata, b_ragged_metadata, gather_indx, scatter_indx)
    formats = _formats(a, b, config)
    activation = fused_activation or FusedActivation()
    columns = activation.specs.reduction_n
    if size.n % columns:
        raise refuse("matmul", "b", f"has {size.n} columns", f"a multiple of {columns}")
    gather = _check_rows("gather_indx", gather_indx, size.m, a, _INDICES)
    scatter = _check_rows("scatter_indx", scatter_indx, size.m, a, _INDICES)
    betas = _check_rows("betas", betas, size.m, a, _FLOATS)
    gammas = _check_rows("gammas", gammas, size.m, a, _FLOATS)
    if bias is not None:
        leading = b.shape[:-2] if b_ragged_metadata is None else (size.batch,)
        check_operand("matmul", "bias", bias, (*leading, size.n), "a", a, _FLOATS)
    ragged = a_ragged_metadata or b_ragged_metadata
    batched = a.ndim == 3 or b_ragged_metadata is not None
    shape = (*((size.batch,) if batched else ()), size.m, size.n // columns)
    y = _result(c, shape, a, config, scatter is not None or a_ragged_metadata is not None)
    if not y.numel():
        return y
    slices = 1 if a_ragged_metadata is None else max(1, a_ragged_metadata.n_slices)
    rows = cdiv(size.m, slices)
    if a_ragged_metadata is not None and a_ragged_metadata.expected_slice_size:
        rows = a_ragged_metadata.expected_slice_size
    blocks = _choose(a.device, rows, size.n, config.enforce_bitwise_invariance)
    down, schedule = cdiv(size.m, blocks.m), None
    if a_ragged_metadata is not None:
        down = RaggedTensorMetadata.n_blocks(a_ragged_metadata.n_slices, size.m, blocks.m)
        schedule = a_ragged_metadata.block_schedule(blocks.m)
    scales = config.a_mx_scale, config.b_mx_scale
    bias_strides = (0, 0) if bias is None else ((0,) * (2 - bias.ndim) + tuple(bias.stride()))
    with on("matmul", "a", a):
        kernels.matmul[down * cdiv(size.n, blocks.n), size.batch](
            a, b, y, bias, *scales, gather, scatter, betas, gammas,
            None if ragged is None else ragged.slice_offs, schedule, out_alpha,
            size.m, size.n, size.k, *_three(a), *_three(b), *_three(y), *bias_strides,
            *_three(scales[0]), *_three(scales[1]), FN=activation.specs.fn,
            fn_args=tuple(activation.fn_args), N=columns, RAGGED_K=b_ragged_metadata is not None,
            A_FORMAT=formats[0], B_FORMAT=formats[1], A_PACK=2 if a.dtype == torch.uint8 else 1,
            B_PACK=2 if b.dtype == torch.uint8 else 1,
            PRECISION="tf32" if config.allow_tf32 else "ieee",
            EVEN_N=size.n % blocks.n == 0, BLOCK_M=blocks.m,
            BLOCK_N=blocks.n, BLOCK_K=blocks.k, STAGES=blocks.stages, num_warps=blocks.warps,
        )  # fmt: skip
    return y


def matmul_torch(
    a: Tensor, b: Tensor, bias: Tensor | None,
    a_ragged_metadata: RaggedTensorMetadata | None = None,
    b_ragged_metadata: RaggedTensorMetadata | None = None, gather_indx: Tensor | None = None,
    scatter_indx: Tensor | None = None, precision_config: PrecisionConfig | None = None,
    betas: Tensor | None = None, gammas: Tensor | None = None, round_x: Any = None,
    round_y: Any = None,
) -> Tensor:  # fmt: skip
    """`matmul` of operands of 16 bits or more by torch's functions, for comparison, in float64.

    `round_x` and `round_y` are applied to a's rows and to the result.
    """
    size = _problem(
        a, b, a_ragged_metadata, b_ragged_metadata, gather_indx, scatter_indx, FLOATS
    )
    config = precision_config or PrecisionConfig()
    x, w = (a if round_x is None else round_x(a)).double(), b.double()
    dtype = config.out_dtype or a.dtype
    if b_ragged_metadata is not None:
        at = b_ragged_metadata.slice_offs.tolist()
        y = torch.stack([x[:, i:j] @ w[i:j] for i, j in pairwise(at)])
        if bias is not None:
            y = y + bias.double()[:, None]
        return (y if round_y is None else round_y(y)).to(dtype)
    if gather_indx is not None:
        index = gather_indx.long()
        x = x[index.clamp(min=0)] * (index >= 0)[:, None]
    if a_ragged_metadata is None:
        slices = [(0, size.m)]
    else:
        at = a_ragged_metadata.slice_offs.tolist()
        slices = list(pairwise(at))
    y = x.new_zeros((*x.shape[:-1], size.n))
    for number, (i, j) in enumerate(slices):
        ragged = a_ragged_metadata is not None
        y[..., i:j, :] = x[..., i:j, :] @ (w[number] if ragged else w)
        if bias is not None:
            row = (bias[number] if ragged else bias).double()
            row = row[..., None, :] if betas is None else row * betas[i:j, None].double()
            y[..., i:j, :] += row
        if gammas is not None:
            y[..., i:j, :] *= gammas[i:j, None].double()
    if scatter_indx is not None:
        used = torch.arange(size.m, device=a.device) < slices[-1][1] if slices else scatter_indx < 0
        wanted = (scatter_indx >= 0) & used
        result = torch.zeros_like(y)
        result[scatter_indx[wanted].long()] = y[wanted]
        y = result
    return (y if round_y is None else round_y(y)).to(dtype)
