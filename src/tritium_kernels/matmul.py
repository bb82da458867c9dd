"""Products with ragged and batched matrices: the layers of a mixture of experts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from tritium_kernels.errors import (
    check_kind,
    check_like,
    check_operand,
    check_rank,
    check_tensor,
    dtype_name,
    refuse,
)
from tritium_kernels.launching.launch import cdiv
from tritium_kernels.launching.operators import autocast, untraced
from tritium_kernels.matmul_details.apart import launch_apart
from tritium_kernels.matmul_details.gradient import (
    Options,
    Product,
    check_differentiable,
    wants_gradient,
)
from tritium_kernels.matmul_details.launch import Call, choose, launch
from tritium_kernels.matmul_details.launch import can_overflow_int32 as can_overflow_int32
from tritium_kernels.matmul_details.launch import get_swap_xw as get_swap_xw
from tritium_kernels.matmul_details.launch import should_upcast_indices as should_upcast_indices
from tritium_kernels.matmul_details.operands import (
    EIGHT_BITS,
    FLOAT8,
    FLOATS,
    INDICES,
    OP,
    Operand,
    Problem,
    block_size,
    check_bias,
    check_indices,
    check_rows,
    check_scales,
    check_slices,
    check_slices_of_k,
    read_operands,
    read_problem,
)
from tritium_kernels.matmul_details.opt_flags import OptFlags, set_idle_sms
from tritium_kernels.matmul_details.precision import Epilogue as Epilogue
from tritium_kernels.matmul_details.precision import FlexCtx as FlexCtx
from tritium_kernels.matmul_details.precision import FnName as FnName
from tritium_kernels.matmul_details.precision import FusedActivation as FusedActivation
from tritium_kernels.matmul_details.precision import FusedComm as FusedComm
from tritium_kernels.matmul_details.precision import MatmulAllocation as MatmulAllocation
from tritium_kernels.matmul_details.precision import PrecisionConfig as PrecisionConfig
from tritium_kernels.matmul_details.reference import apply_precision as apply_precision
from tritium_kernels.matmul_details.reference import matmul_torch as matmul_torch
from tritium_kernels.matmul_details.reference import (
    post_matmul_comm_torch as post_matmul_comm_torch,
)
from tritium_kernels.matmul_details.reference import scale as scale
from tritium_kernels.matmul_details.reference import scaled_back
from tritium_kernels.moe_kernels.matmul import Rows
from tritium_kernels.moe_kernels.mxfp import (
    quantize_e2m1,
    quantize_e4m3,
    quantize_e5m2,
    quantize_nvfp4,
)
from tritium_kernels.numerics import compute_actual_scale as compute_actual_scale
from tritium_kernels.numerics_details.mxfp import MXFP_BLOCK_SIZE, SCALE_TYPES, upcast_from_mxfp
from tritium_kernels.reduce import PostprocessFn, reduce_forward
from tritium_kernels.specialize import FnSpecs
from tritium_kernels.tensor_details.layout import BlackwellActMXScaleLayout, StridedLayout
from tritium_kernels.tensor_details.ragged_tensor import RaggedTensorMetadata, clear_other_rows
from tritium_kernels.tensor_details.storage import Tensor as Wrapped

_QUANTIZE = {
    (torch.uint8, torch.uint8): FnSpecs(FnName.QUANTIZE_MXFP4.name, quantize_e2m1),
    (torch.float8_e4m3fn, torch.uint8): FnSpecs(FnName.QUANTIZE_MXFP8.name, quantize_e4m3),
    (torch.float8_e5m2, torch.uint8): FnSpecs(
        FnName.QUANTIZE_MXFP8.name + "_E5M2", quantize_e5m2
    ),
    (torch.uint8, torch.float8_e4m3fn): FnSpecs(FnName.QUANTIZE_NVFP4.name, quantize_nvfp4),
}
"""Functions that quantize results, by the types of results and of their scales."""
_PACKS = (FnName.QUANTIZE_MXFP4.name, FnName.QUANTIZE_NVFP4.name)



def matmul_set_idle_sms(num_idle_sms: int) -> None:
    """Have persistent products leave that many processors to others."""
    set_idle_sms(num_idle_sms)


def _out_dtype(a: Any, config: PrecisionConfig) -> torch.dtype:
    dtype = config.out_dtype or (a.dtype if a.dtype in FLOATS else torch.bfloat16)
    accepted = (*FLOATS, *FLOAT8)
    if config.c_mx_scale is not None:
        accepted = (torch.uint8,) if config.c_value_pack_factor == 2 else EIGHT_BITS
    if dtype not in accepted:
        names = ", ".join(dtype_name(d) for d in accepted)
        raise refuse(OP, "out_dtype", f"is {dtype_name(dtype)}", names)
    return dtype


def init_allocation(
    x: Any, w: Any, precision_config: PrecisionConfig, fused_activation: FusedActivation,
    gather_indx: Tensor | None, scatter_indx: Tensor | None, batch_dim: int, n_reduce_shards: int,
    opt_flags: OptFlags,
) -> MatmulAllocation:  # fmt: skip
    """The memory of a product.

    `batch_dim`: batches of the result. `n_reduce_shards`: parts of its rows.
    """
    m = x.shape[-2] if gather_indx is None else gather_indx.shape[0]
    m = m if scatter_indx is None else scatter_indx.shape[0]
    n = w.shape[-1] // fused_activation.specs.reduction_n
    n = n // precision_config.c_value_pack_factor * n_reduce_shards
    leading = (batch_dim,) if batch_dim > 1 else ()
    output = ((*leading, m, n), _out_dtype(x.data, precision_config))
    scratchpads: dict[str, tuple[tuple[int, ...], torch.dtype]] = {}
    if opt_flags.split_k > 1:
        dtype = precision_config.intermediate_out_dtype or torch.float32
        scratchpads["parts"] = (opt_flags.split_k, *leading, m, w.shape[-1]), dtype
    return MatmulAllocation(x.data.device, output, scratchpads)


def apply_allocation(allocation: MatmulAllocation, output: Tensor | None) -> dict[str, Any]:
    """{"output": a tensor, "scratchpad": {name: a tensor}}; `output`: the result, if there is."""
    shape, dtype = allocation.output
    if output is None:
        output = torch.empty(shape, dtype=dtype, device=allocation.device)
    else:
        check_tensor(OP, "c", output, (dtype,))
        if tuple(output.shape) != shape:
            raise refuse(OP, "c", f"has shape {tuple(output.shape)}", f"{shape}")
    scratchpad = {
        name: torch.empty(shape, dtype=dtype, device=allocation.device)
        for name, (shape, dtype) in allocation.scratchpads.items()
    }
    return {"output": output, "scratchpad": scratchpad}


def _result(
    c: Tensor | None, call: Call, dtype: torch.dtype, device: torch.device, clear: bool
) -> Tensor:
    size, config, shards = call.size, call.config, 1
    if call.comm is not None:
        shards = call.comm.n_reduce_shards
    columns = cdiv(call.columns, config.c_value_pack_factor) * shards
    shape = (*((size.batch,) if size.batched else ()), size.m, columns)
    dtype = c.dtype if c is not None and config.out_dtype is None else dtype
    if c is None:
        ragged = None if call.rows.scatter is not None or call.comm is not None else call.a_ragged
        if clear and ragged is None:
            return torch.zeros(shape, dtype=dtype, device=device)
        y = torch.empty(shape, dtype=dtype, device=device)
        if ragged is not None and y.numel():  # a product writes the rows of its slices
            clear_other_rows(y, ragged)
        return y
    if tuple(c.shape) != shape or c.dtype != dtype:
        found = f"has shape {tuple(c.shape)} and dtype {dtype_name(c.dtype)}"
        raise refuse(OP, "c", found, f"{shape} and {dtype_name(dtype)}")
    check_like(OP, "c", c, "a", call.x.data)
    return c


def _scale_of_result(
    config: PrecisionConfig, dtype: torch.dtype, size: Problem, columns: int, a: Tensor,
    ragged: RaggedTensorMetadata | None, scattered: bool,
) -> tuple[PrecisionConfig, Any]:  # fmt: skip
    """(the configuration with the storage of the result's scales, their layout or None)."""
    name, scale_ = "c_mx_scale", config.c_mx_scale
    if scale_ is None:
        return config, None
    accepted = SCALE_TYPES if dtype == torch.uint8 else (torch.uint8,)
    data = scale_.data if isinstance(scale_, Wrapped) else scale_
    check_tensor(OP, name, data, accepted)
    block = block_size("c_microblock_size", config.c_microblock_size, data.dtype)
    config = replace(config, c_microblock_size=block)
    leading = (size.batch,) if size.batched else ()
    shape = (*leading, size.m, cdiv(columns, block))
    layout: Any = scale_.storage.layout if isinstance(scale_, Wrapped) else None
    if layout is None or isinstance(layout, StridedLayout):
        check_operand(OP, name, data, shape, "a", a, accepted)
        return replace(config, c_mx_scale=data), None
    if not isinstance(layout, BlackwellActMXScaleLayout):
        found = f"has the layout {layout.name}"
        raise refuse(OP, name, found, "StridedLayout, BlackwellActMXScaleLayout")
    if tuple(scale_.shape) != shape:
        raise refuse(OP, name, f"has shape {tuple(scale_.shape)}", f"{shape}")
    check_like(OP, name, data, "a", a)
    if layout.ragged_metadata is not None and (layout.ragged_metadata is not ragged or scattered):
        accepted_ = "those of a_ragged_metadata, without scatter_indx"
        raise refuse(OP, name, "has the layout of other slices", accepted_)
    return replace(config, c_mx_scale=data), layout


def _epilogue(
    epilogue: Epilogue | None, config: PrecisionConfig, dtype: torch.dtype, columns: int
) -> Epilogue:
    """The last function of a result; one with MX scales is quantized."""
    mx = config.c_mx_scale
    if mx is None:
        if config.c_value_pack_factor != 1:
            found = f"is {config.c_value_pack_factor}"
            raise refuse(OP, "c_value_pack_factor", found, "1, without c_mx_scale")
        return epilogue or Epilogue()
    if dtype == torch.uint8 and columns % 2:
        raise refuse(OP, "b", f"has {columns} columns of results", "an even number, for e2m1")
    for name in ("actual", "checksum"):
        if getattr(config.flex_ctx.out_data, f"{name}_scale") is not None:
            raise refuse(OP, f"flex_ctx.out_data.{name}_scale", "is given with c_mx_scale", "None")
    if epilogue is None or epilogue.specs.fn is None:
        return Epilogue(_QUANTIZE[dtype, mx.dtype], effective_itemsize=6.0)
    return epilogue


def _logical_scales(call: Call) -> tuple[int, ...]:
    size = call.size
    assert call.config.c_microblock_size is not None
    blocks = cdiv(call.columns, call.config.c_microblock_size)
    return (*((size.batch,) if size.batched else ()), size.m, blocks)


def _store_scales(call: Call, scales: Tensor) -> None:
    """Write scales of all rows to where those of the result are to be."""
    target, shape = call.config.c_mx_scale, _logical_scales(call)
    scales = scales.view(shape)
    if call.mx_layout is not None:
        scales = call.mx_layout.make_transformation(shape, False).swizzle_data(scales)
    target.copy_(scales)


def _plain_scales(call: Call) -> Tensor:
    """The result's scales by strides."""
    scales = call.config.c_mx_scale
    if call.mx_layout is None:
        return scales
    way = call.mx_layout.make_transformation(_logical_scales(call), False)
    return way.unswizzle_data(scales)


def _rows_of_slices(call: Call) -> Tensor:
    """Flags (m, 1) of the rows that are in some slice."""
    ragged, m = call.a_ragged, call.size.m
    assert ragged is not None
    first = ragged.slice_offs[:-1]
    changes = first.new_zeros(m + 1)
    ones = torch.ones_like(first)
    changes.index_add_(0, first.clamp(max=m), ones)
    changes.index_add_(0, (first + ragged.slice_sizes).clamp(max=m), -ones)
    return (changes[:m].cumsum(0) > 0)[:, None]


def _chosen_rows(used: Tensor | None, new: Tensor, old: Tensor) -> Tensor:
    """`new` in the rows that `used` flags, else `old`; None: in all rows."""
    if used is None:
        return new
    if new.element_size() == 1:
        words = torch.where(used, new.view(torch.uint8), old.view(torch.uint8))
        return words.view(new.dtype)
    return torch.where(used, new, old)


def _add_parts(call: Call, flags: OptFlags, y: Tensor) -> None:
    """A product whose sum is divided: its parts, then their sums."""
    config, size = call.config, call.size
    dtype = config.intermediate_out_dtype or torch.float32
    shape = (flags.split_k, *((size.batch,) if size.batched else ()), size.m, size.n)
    # Rows of no slice have no products.
    make = torch.empty if call.a_ragged is None else torch.zeros
    parts = make(shape, dtype=dtype, device=y.device)
    launch(call, flags, parts, partial=True)
    terms = parts.view(flags.split_k, -1, size.n)
    kept = call.given and call.a_ragged is not None  # rows of no slice stay as they are
    direct = y.is_contiguous() and not kept
    rows = y.view(-1, y.shape[-1]) if direct else y.new_empty((terms.shape[1], y.shape[-1]))
    epilogue, mx = call.epilogue, config.c_mx_scale
    sums, scales = reduce_forward(
        terms, 0, y=rows, y_flex=config.flex_ctx.out_data,
        y_flex_saturate_inf=config.flexpoint_saturate_inf, y_has_mx=mx is not None,
        y_mx_scale_dtype=None if mx is None else mx.dtype,
        y_microblock_size=config.c_microblock_size or MXFP_BLOCK_SIZE.value,
        y_value_pack_factor=config.c_value_pack_factor,
        postprocess_fn1=PostprocessFn(call.activation.specs, call.activation.fn_args),
        postprocess_fn2=None if mx is not None else PostprocessFn(
            epilogue.specs, epilogue.fn_arg_values_finalize
        ),
        unpadded_batch_size=None if call.a_ragged is None else call.a_ragged.slice_offs[-1:],
    )  # fmt: skip
    used = _rows_of_slices(call) if kept else None
    if not direct:
        y.copy_(_chosen_rows(used, sums.view(y.shape), y))
    if mx is not None:
        assert scales is not None
        if used is not None:
            before = _plain_scales(call)
            scales = _chosen_rows(used, scales.view(before.shape), before)
        _store_scales(call, scales)


def _report(call: Call, flags: OptFlags, y: Tensor) -> None:
    """Tell how far what was stored is from the result in float32."""
    config = call.config
    plain = replace(
        config, out_dtype=torch.float32, c_mx_scale=None, c_value_pack_factor=1,
        flex_ctx=replace(config.flex_ctx, out_data=FlexCtx().out_data),
        flexpoint_saturate_inf=False,
    )  # fmt: skip
    size = call.size
    shape = (*((size.batch,) if size.batched else ()), size.m, call.columns)
    exact = torch.zeros(shape, dtype=torch.float32, device=y.device)
    epilogue = Epilogue() if config.c_mx_scale is not None else call.epilogue
    plain_call = replace(call, config=plain, epilogue=epilogue, mx_layout=None)
    launch(plain_call, flags, exact, partial=False)
    if config.c_mx_scale is not None:
        stored = upcast_from_mxfp(y, _plain_scales(call), torch.float32, -1)
    else:
        stored = y.float()
    stored = scaled_back(stored, config.flex_ctx.out_data.expected_scale)
    assert config.report_quantization_err_fn is not None
    config.report_quantization_err_fn(exact, stored)


def _compute(call: Call, y: Tensor) -> None:
    """Write the result of a call to `y`."""
    flags = choose(call, y.dtype)
    if flags.split_k > 1:
        _add_parts(call, flags, y)
    elif flags.apart:
        launch_apart(call, flags, y)
    else:
        launch(call, flags, y, partial=False)
    if call.config.report_quantization_err_fn is not None:
        _report(call, flags, y)


def _checked_size(
    x: Operand, w: Operand, a_ragged: RaggedTensorMetadata | None,
    b_ragged: RaggedTensorMetadata | None, gather_indx: Tensor | None, scatter_indx: Tensor | None,
) -> Problem:  # fmt: skip
    """The size of the problem, with slices that fit the operands."""
    for name, indices in (("gather_indx", gather_indx), ("scatter_indx", scatter_indx)):
        if indices is not None:
            check_tensor(OP, name, indices, INDICES)
            check_rank(OP, name, indices, (1,))
    rows_of_a = x.shape[0] if gather_indx is None else gather_indx.shape[0]
    extent = rows_of_a if b_ragged is None else x.shape[-1]
    check_slices("a_ragged_metadata", a_ragged, extent, x.data)
    check_slices("b_ragged_metadata", b_ragged, w.shape[-2], x.data)
    size = read_problem(x.shape, w.shape, a_ragged, b_ragged, gather_indx, scatter_indx)
    if b_ragged is not None:
        check_slices_of_k("a", x, a_ragged or b_ragged)
        check_slices_of_k("b", w, b_ragged)
    return size


def _checked_rows(
    x: Operand, size: Problem, gather_indx: Tensor | None, scatter_indx: Tensor | None,
    betas: Tensor | None, gammas: Tensor | None,
) -> Rows:  # fmt: skip
    """The vectors with an element for each row, of the right length and type."""
    if x.scale_layout is not None and gather_indx is not None:
        raise refuse(OP, "gather_indx", f"is given with {x.scale_layout_name} scales", "None")
    return Rows(
        check_rows("gather_indx", gather_indx, size.m, x.data, INDICES),
        check_rows("scatter_indx", scatter_indx, size.m, x.data, INDICES),
        check_rows("betas", betas, size.m, x.data, FLOATS),
        check_rows("gammas", gammas, size.m, x.data, FLOATS),
    )


def _check_accumulation(
    out_alpha: Any, c_acc_in: Tensor | None, size: Problem, columns: int, a: Tensor
) -> None:
    """Check the factor of the product and the matrix that is added to it."""
    if isinstance(out_alpha, Tensor):
        check_operand(OP, "out_alpha", out_alpha.reshape(-1), (1,), "a", a, (torch.float32,))
    elif not isinstance(out_alpha, int | float | None):
        raise refuse(OP, "out_alpha", f"is {type(out_alpha).__name__}", "a number, torch.Tensor")
    if c_acc_in is not None:
        shape = (*((size.batch,) if size.batched else ()), size.m, columns)
        check_operand(OP, "c_acc_in", c_acc_in, shape, "a", a, FLOATS)


@untraced
def matmul(
    a: Any, b: Any, bias: Tensor | None,
    a_ragged_metadata: RaggedTensorMetadata | None = None,
    b_ragged_metadata: RaggedTensorMetadata | None = None, gather_indx: Tensor | None = None,
    scatter_indx: Tensor | None = None, precision_config: PrecisionConfig | None = None,
    betas: Tensor | None = None, gammas: Tensor | None = None,
    out_alpha: float | Tensor | None = None, c: Tensor | None = None,
    fused_comm: FusedComm | None = None, fused_activation: FusedActivation | None = None,
    epilogue: Epilogue | None = None, c_acc_in: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """epilogue(activation(out_alpha * (a @ b + bias * betas)) * gammas + c_acc_in).

    a, b, bias and gammas have gradients, with operands of 16 or 32 bits and an activation with a
    derivative.

    Args:
        a, b: (m, k) or (batch, m, k), and (k, n) or (batch, k, n); any strides, or a `Tensor` of a
            layout for the device.
        bias: (n,) or (batch, n).
        a_ragged_metadata: rows of a are in slices; slice i is multiplied by b[i], with bias[i].
        b_ragged_metadata: columns of a and rows of b are in slices; result i is the product of
            slice i: (slices, m, n). `a_ragged_metadata` is of a's columns then, if its slices begin
            elsewhere: those of a, of b or of both may be filled up.
        gather_indx: the row of a for each row of the product; -1: a row of zeros.
        scatter_indx: the row of the result for each row of the product; -1: none. Rows of the
            result that no row is written to are 0, or what `c` has there.
        betas, gammas: for each row of the product.
        out_alpha: a number, or a tensor of one.
        c: a tensor to write the result to; c_acc_in: one of its shape, which is added to it.
        fused_comm: results go to other processes, and those of others come here.
    """
    check_kind(OP, PrecisionConfig, precision_config=precision_config)
    check_kind(OP, FusedActivation, fused_activation=fused_activation)
    check_kind(OP, Epilogue, epilogue=epilogue)
    check_kind(OP, FusedComm, fused_comm=fused_comm)
    check_kind(OP, Tensor, c=c)
    config = precision_config or PrecisionConfig()
    if config.c_mx_scale is not None and epilogue is not None and epilogue.specs.name in _PACKS:
        config = replace(config, c_value_pack_factor=2)
    activation = fused_activation or FusedActivation()
    out_alpha = float(out_alpha) if isinstance(out_alpha, int) else out_alpha
    a, b = autocast(a, b)
    if wants_gradient(a, b, bias, betas, gammas, out_alpha, c_acc_in, c, *activation.fn_args):
        options = Options(
            a_ragged_metadata, b_ragged_metadata, gather_indx, scatter_indx, config, betas,
            out_alpha, activation,
        )  # fmt: skip
        check_differentiable({"a": a, "b": b}, options, c, c_acc_in, fused_comm, epilogue)
        return Product.apply(matmul, options, a, b, bias, gammas)
    return _matmul(
        a, b, bias, a_ragged_metadata, b_ragged_metadata, gather_indx, scatter_indx, config, betas,
        gammas, out_alpha, c, fused_comm, activation, epilogue, c_acc_in,
    )  # fmt: skip


def _matmul(
    a: Any, b: Any, bias: Tensor | None, a_ragged_metadata: RaggedTensorMetadata | None,
    b_ragged_metadata: RaggedTensorMetadata | None, gather_indx: Tensor | None,
    scatter_indx: Tensor | None, config: PrecisionConfig, betas: Tensor | None,
    gammas: Tensor | None, out_alpha: float | Tensor | None, c: Tensor | None,
    fused_comm: FusedComm | None, activation: FusedActivation, epilogue: Epilogue | None,
    c_acc_in: Tensor | None,
) -> Tensor:  # fmt: skip
    """`matmul` without a gradient."""
    x, w = read_operands(a, b, config)
    data = x.data
    size = _checked_size(x, w, a_ragged_metadata, b_ragged_metadata, gather_indx, scatter_indx)
    n = activation.specs.reduction_n
    if size.n % n:
        raise refuse(OP, "b", f"has {size.n} columns", f"a multiple of {n}")
    rows = _checked_rows(x, size, gather_indx, scatter_indx, betas, gammas)
    k_of_a = None
    if b_ragged_metadata is not None:
        a_ragged_metadata, k_of_a = None, a_ragged_metadata or b_ragged_metadata
    if fused_comm is None:
        check_indices(rows, size, x.shape[-2], a_ragged_metadata)
    check_bias(bias, size, w.shape, b_ragged_metadata is not None, data)
    slices = a_ragged_metadata.n_slices if a_ragged_metadata is not None else size.batch
    check_scales(size, slices, config, data)
    _check_accumulation(out_alpha, c_acc_in, size, size.n // n, data)
    dtype = _out_dtype(data, config if c is None or config.out_dtype else
                       replace(config, out_dtype=c.dtype))  # fmt: skip
    config, mx_layout = _scale_of_result(
        config, dtype, size, size.n // n, data, a_ragged_metadata, scatter_indx is not None
    )
    if mx_layout is not None and fused_comm is not None:
        raise refuse(OP, "fused_comm", f"is given with {mx_layout.name} scales of c", "None")
    last = _epilogue(epilogue, config, dtype, size.n // n)
    call = Call(
        x, w, bias, a_ragged_metadata, k_of_a, b_ragged_metadata, rows, size, config, out_alpha,
        activation, last, fused_comm, c_acc_in, c is not None, mx_layout,
    )  # fmt: skip
    sparse = scatter_indx is not None or a_ragged_metadata is not None or fused_comm is not None
    y = _result(c, call, dtype, data.device, sparse)
    if sparse and c is None and config.c_mx_scale is not None:
        config.c_mx_scale.zero_()
    if y.numel() and (a_ragged_metadata is None or a_ragged_metadata.n_slices):
        _compute(call, y)
    return y
