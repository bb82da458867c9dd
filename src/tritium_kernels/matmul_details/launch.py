"""Launches of products: how operands are read, which kernel, how many programs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

import tritium.language as tl
from tritium.tools.tensor_descriptor import TensorDescriptor
from tritium_kernels import proton_opts, target_info
from tritium_kernels.errors import check_choice
from tritium_kernels.launching.launch import cdiv, on, processors
from tritium_kernels.matmul_details.apart import can_be_apart
from tritium_kernels.matmul_details.operands import OP, Operand, Problem, formats, three
from tritium_kernels.matmul_details.opt_flags import OptFlags, make_opt_flags
from tritium_kernels.matmul_details.opt_flags_details.opt_flags_nvidia import (
    compute_swap_xw,
    has_warp_group_products,
)
from tritium_kernels.matmul_details.precision import (
    Epilogue,
    FusedActivation,
    FusedComm,
    PrecisionConfig,
)
from tritium_kernels.moe_kernels import matmul as kernels
from tritium_kernels.numerics_details.mxfp import BLOCK_SIZES
from tritium_kernels.specialize import IDENTITY, ClosureArg, FnSpecs, SpecializationModule
from tritium_kernels.tensor_details.layout import BlackwellActMXScaleLayout
from tritium_kernels.tensor_details.ragged_tensor import (
    RaggedTensorMetadata,
    ragged_metadata_fields,
)
from tritium_kernels.tensor_details.storage import torch_dtype_to_dtype

_LARGEST_OFFSET = 1 << 31
_TILES = {"BLACKWELL_SCALE": (128, 128), "GFX1250_SCALE": (128, 128), "CDNA4_SCALE": (32, 256),
          "HOPPER_SCALE": (1, 128)}  # fmt: skip
"""Columns and elements along k that tiles are to be multiples of, by the layout of b's scales."""


def can_overflow_int32(tensor: Any) -> bool:
    """True if elements lie farther than 2**31 from the first."""
    data = tensor.data
    reach = sum((n - 1) * abs(s) for n, s in zip(data.shape, data.stride(), strict=True) if n)
    return reach >= _LARGEST_OFFSET


def should_upcast_indices(*args: Any) -> bool:
    """True if offsets into one of the tensors need 64 bits; None is no tensor."""
    return any(t is not None and can_overflow_int32(t) for t in args)


def get_swap_xw(
    precision_config: PrecisionConfig, opt_flags: OptFlags, lhs_dtype: Any, rhs_dtype: Any
) -> bool:
    """True if (b.T @ a.T).T is computed in place of a @ b."""
    if not target_info.is_cuda():
        return False
    return compute_swap_xw(
        precision_config, opt_flags.block_m, opt_flags.is_persistent, lhs_dtype, rhs_dtype
    )


def _widens_b(w: Any, flags: OptFlags) -> bool:
    """True if b is widened in registers, which hold left operands only: (b.T @ a.T).T."""
    return target_info.is_cuda() and w.layout_name == "HOPPER_VALUE" and flags.block_n >= 64


def _ends_are_columns(flags: OptFlags) -> bool:
    """True if ends of slices have fewer rows than a product of a warp group, 64: as columns they
    may be any multiple of 8, (b.T @ a.T).T."""
    return (
        target_info.is_cuda() and has_warp_group_products(target_info.machine().arch)
        and flags.tail_m % 64 > 0 and flags.block_n >= 64
    )  # fmt: skip


@dataclass(frozen=True)
class Call:
    """A product, checked.

    Attributes:
        a_ragged: of slices of rows; `k_of_a`, `b_ragged`: of slices of k, in a and in b.
        rows: the sources, targets and factors of the product's rows.
        given: the result was there before.
        mx_layout: of the result's scales, whose storage is `config.c_mx_scale`; None: strides say
            it all.
    """

    x: Operand
    w: Operand
    bias: Tensor | None
    a_ragged: RaggedTensorMetadata | None
    k_of_a: RaggedTensorMetadata | None
    b_ragged: RaggedTensorMetadata | None
    rows: kernels.Rows
    size: Problem
    config: PrecisionConfig
    alpha: Any
    activation: FusedActivation
    epilogue: Epilogue
    comm: FusedComm | None
    acc: Tensor | None
    given: bool
    mx_layout: BlackwellActMXScaleLayout | None

    @property
    def mx_blocks(self) -> str | None:
        """The rows that the blocks of the result's scales are of: "BATCH", "SLICES"; None: no
        blocks."""
        if self.mx_layout is None:
            return None
        return "BATCH" if self.mx_layout.ragged_metadata is None else "SLICES"

    @property
    def ragged(self) -> RaggedTensorMetadata | None:
        return self.a_ragged or self.k_of_a

    @property
    def b_offsets(self) -> Tensor | None:
        """The places at which slices of k begin in b; None: where they do in a."""
        if self.b_ragged is None or self.b_ragged is self.k_of_a:
            return None
        return self.b_ragged.slice_offs

    @property
    def columns(self) -> int:
        """The columns of the result."""
        return self.size.n // self.activation.specs.reduction_n


def _kind(x: Operand) -> int:
    """The way in which a descriptor reads it: 1: as it is, 2: its dimensions exchanged, 0: none."""
    data = x.data
    if x.layout is not None or x.across or not data.numel() or data.data_ptr() % 16:
        return 0
    for kind, (major, minor) in ((1, (-1, -2)), (2, (-2, -1))):
        others = [data.stride(minor), *data.stride()[:-2]]
        if data.stride(major) == 1 and all(s * data.element_size() % 16 == 0 for s in others):
            return kind
    return 0


def _descriptor(x: Operand, kind: int, rows: int, columns: int) -> TensorDescriptor | None:
    if not kind:
        return None
    data = x.data if x.data.ndim == 3 else x.data[None]
    block = [1, rows, columns]
    if kind == 2:
        data, block = data.mT, [1, columns, rows]
    return TensorDescriptor(data, list(data.shape), list(data.stride()), block)


def _block_size(x: Operand, w: Operand) -> int | None:
    """The size of the smallest blocks that share a scale; None: there are no scales."""
    scales = [t for t in (x.scale, w.scale) if t is not None]
    return min((BLOCK_SIZES[t.dtype] for t in scales), default=None)


def choose(call: Call, out_dtype: torch.dtype) -> OptFlags:
    """The configuration of a product."""
    x, w, size, config = call.x, call.w, call.size, call.config
    copies = target_info.is_cpu() or target_info.cuda_capability_geq(9, 0)
    persistent = copies and call.b_ragged is None and (
        call.comm is None or call.comm.all_writes_issued is None
    )  # fmt: skip
    divisible = (
        call.rows.scatter is None and call.comm is None
        and (call.activation.specs.fn is None
             or (call.rows.gammas is None and call.acc is None))
        and config.report_quantization_err_fn is None
    )  # fmt: skip
    columns, along = _TILES.get(w.scale_layout_name or "", (1, 0))
    if w.layout_name == "HOPPER_VALUE":
        along = max(along, 128)
    n = call.activation.specs.reduction_n
    flags = make_opt_flags(
        torch_dtype_to_dtype(out_dtype), x.dtype, w.dtype, config, size.batch,
        size.m, size.n, size.k, call.a_ragged, persistent and _kind(w) > 0, divisible,
        call.epilogue.effective_itemsize, x.data.stride(-1) != 1, call.acc is not None,
        along or None, _block_size(x, w),
        call.rows.gather is None, w.data.stride(-2) == 1, w.layout, n,
        can_be_apart(call, out_dtype),
    )  # fmt: skip
    check_choice(OP, "epilogue_subtile", flags.epilogue_subtile, (1, 2, 4))
    if call.config.c_mx_scale is not None:
        flags = replace(flags, epilogue_subtile=1)
        columns = max(columns, 32 * n)
    if flags.block_n % columns or flags.block_n // n // flags.epilogue_subtile < 1:
        flags = replace(flags, block_n=max(columns, 2 * n))
    return flags


def _form(call: Call, flags: OptFlags, partial: bool, tensors: tuple[Any, ...]) -> kernels.Form:
    """The facts for which the kernel is compiled; equal forms are one object."""
    x, w = call.x, call.w
    a_format, b_format = formats(x, w)
    persistent = flags.is_persistent
    described = persistent or (
        call.a_ragged is not None and target_info.cuda_capability_geq(9, 0)
    )
    layout = w.layout
    halves = (
        _widens_b(w, flags) and w.scale_layout_name == "HOPPER_SCALE" and x.scale is None
        and flags.block_k == 128 and flags.tail_m > 0
    )  # fmt: skip
    plain = call.rows.gather is None and call.b_ragged is None and not flags.tail_m
    a_desc = _kind(x) if persistent and plain else 0
    if halves and call.rows.gather is None and _kind(x) == 1:
        a_desc = 1
    form = kernels.Form(
        n=1 if partial else call.activation.specs.reduction_n,
        ragged_k=call.b_ragged is not None, persistent=persistent, split_k=flags.split_k,
        group_m=flags.group_m, xcds=flags.xcd_swizzle,
        subtile=flags.epilogue_subtile, a_format=a_format, b_format=b_format, a_pack=x.pack,
        b_pack=1 if w.across else w.pack, b_across=w.across,
        out_pack=1 if partial else call.config.c_value_pack_factor,
        a_desc=a_desc, b_desc=_kind(w) if described else 0,
        a_swizzled=x.scale_layout is not None, b_layout=w.layout_name,
        b_scale_layout=w.scale_layout_name, tile_k=getattr(layout, "block_k", 0),
        tile_n=getattr(layout, "block_n", 0), cache=flags.w_cache_modifier,
        precision="tf32" if call.config.allow_tf32 else "ieee",
        imprecise=call.config.max_num_imprecise_acc,
        swap=(
            get_swap_xw(call.config, flags, x.dtype, w.dtype) or _widens_b(w, flags)
            or _ends_are_columns(flags)
        ),
        halves=halves,
        # Where b is widened in registers at once, instructions bound the product, not what it
        # reads.
        skip_rows=halves or (call.a_ragged is not None and not _widens_b(w, flags)),
        tail_m=flags.tail_m if call.a_ragged is not None else 0,
        even_n=call.size.n % flags.block_n == 0,
        saturate=not partial and call.config.flexpoint_saturate_inf,
        mx=not partial and call.config.c_mx_scale is not None,
        mx_blocks=None if partial else call.mx_blocks,
        shards=1 if call.comm is None else call.comm.n_reduce_shards,
        index=_INDEX[should_upcast_indices(x.data, w.data, *tensors)],
        block_m=flags.block_m, block_n=flags.block_n, block_k=flags.block_k,
        stages=flags.num_stages,
    )  # fmt: skip
    return _FORMS.setdefault(form, form)


def matmul_launch_metadata(grid: Any, kernel: Any, args: dict[str, Any]) -> dict[str, Any]:
    """Name, operations and bytes of a launch, for profilers."""
    a, b, y, size, form = (args[name] for name in ("a", "b", "y", "size", "F"))
    rows, matrices = size.z * size.m, size.z
    described = {"name": f"{kernel.name} [m={size.m}, n={size.n}, k={size.k}]"}
    k = size.k
    slices = args["slices"].sizes
    if slices is not None:
        if not proton_opts.launch_metadata_allow_sync():
            return described
        if form.ragged_k:
            k, matrices = int(slices.sum()) / max(1, size.z), int((slices > 0).sum())
        else:
            rows, matrices = int(slices.sum()), int((slices > 0).sum())
    bits = max(a.ptr.element_size() * 8 // form.a_pack, 8)
    read = rows * k * a.ptr.element_size() / form.a_pack
    weights = size.n * k * b.ptr.element_size() / (2 if form.b_across else form.b_pack)
    written = rows * size.n // form.n * y.ptr.element_size() // form.out_pack * form.split_k
    return {
        **described, f"flops{bits}": 2 * rows * size.n * k,
        "bytes": int(read + weights * (size.z if form.ragged_k else matrices) + written),
    }  # fmt: skip


kernels.matmul.launch_metadata = matmul_launch_metadata
_FORMS: dict[kernels.Form, kernels.Form] = {}
_INDEX = {False: tl.int32, True: tl.int64}
_MATMUL = SpecializationModule(
    __name__, [("matmul", kernels.matmul)],
    {
        "activation": ClosureArg("ACTIVATION", "activation_args"),
        "epilogue": ClosureArg("EPILOGUE", "epilogue_args"),
        "destination": ClosureArg("DESTINATION", "destination_args"),
        "written": ClosureArg("WRITTEN", "written_args"),
    },
)  # fmt: skip


def _bias_strides(bias: Tensor | None) -> tuple[int, int]:
    _, z, column = (0, 0, 0) if bias is None else three(bias)
    return z, column


def _of_closure(closure: Any) -> tuple[FnSpecs, tuple[Any, ...]]:
    if closure is None:
        return IDENTITY, ()
    names = tuple(f"value_{i}" for i in range(len(closure.captured)))
    return FnSpecs(closure.fn.__name__, closure.fn, names), tuple(closure.captured)


def launch(call: Call, flags: OptFlags, y: Tensor, partial: bool) -> None:
    """Compute the product into y; `partial`: y has the parts of a divided sum, (parts, ...)."""
    x, w, size, config, comm = call.x, call.w, call.size, call.config, call.comm
    flex = config.flex_ctx.out_data
    if partial:
        part, strides = y.stride(0), three(y[0])
        scale, expected, actual, checksum = None, None, None, None
    else:
        part, strides = 0, three(y)
        scale, expected, actual, checksum = config.c_mx_scale, *flex
    if comm is not None:
        strides = (0, call.columns // config.c_value_pack_factor * comm.n_reduce_shards, 1)
    if scale is None or call.mx_layout is None:
        scales = three(scale)
    else:
        _, outer, middle, inner, *_ = scale.stride()
        scales = outer, middle, inner
    result = kernels.Result(
        y, part, *strides, scale, *scales, expected, actual, checksum,
        1 if flex.is_per_batch else 0, call.acc, *three(call.acc), config.flex_ctx.acc_data.scale,
    )  # fmt: skip
    sizes, offsets, _, schedule = ragged_metadata_fields(call.ragged, flags.block_m)
    down = cdiv(size.m, flags.block_m)
    scale_blocks = None
    if call.a_ragged is not None:
        assert schedule is not None
        down = RaggedTensorMetadata.n_blocks(call.a_ragged.n_slices, size.m, flags.block_m)
        down = min(down, schedule.shape[0])  # slices may have fewer rows in all than a
        if isinstance(x.scale_layout, BlackwellActMXScaleLayout) or call.mx_blocks == "SLICES":
            scale_blocks = call.a_ragged.block_offs(128)
    else:
        schedule = None
    form = _form(call, flags, partial, (y, call.acc))
    programs = down * cdiv(size.n, flags.block_n) * size.batch * flags.split_k
    if flags.is_persistent:
        most = processors(y.device) * flags.occupancy_target - flags.idle_sms
        programs = max(1, min(programs, most))
    specs = {} if partial else {
        "activation": call.activation.specs, "epilogue": call.epilogue.specs
    }  # fmt: skip
    values = () if partial else (*call.activation.fn_args, *call.epilogue.fn_arg_values_matmul)
    if comm is not None:
        specs["destination"], captured = _of_closure(comm.map_dst_coord)
        specs["written"], more = _of_closure(comm.all_writes_issued)
        values = (*values, *captured, *more)
    bias, columns_of_a = call.bias, flags.block_k // (2 if form.halves else 1) // x.pack
    kernel = _MATMUL.get(**specs).matmul
    with on(OP, "a", y):
        kernel[(programs,)](
            x.matrix(False), w.matrix(True), result,
            _descriptor(x, form.a_desc, flags.block_m, columns_of_a),
            _descriptor(w, form.b_desc, flags.block_k // w.pack, flags.block_n),
            kernels.Bias(bias, *_bias_strides(bias)), call.rows,
            kernels.Slices(sizes, offsets, schedule, scale_blocks, call.b_offsets),
            kernels.Size(size.batch, size.m, size.n, size.k, size.k_of_b, down),
            kernels.Comm(None, 0) if comm is None else
            kernels.Comm(comm.out_handles, comm.reduce_rank),
            call.alpha, None if config.acc_scale == 1.0 else config.acc_scale, *values, form,
            num_warps=flags.num_warps, **flags.target_kernel_kwargs,
        )  # fmt: skip
