"""Operands of products: what is accepted, how they lie in memory, how large the product is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from tritium_kernels import target_info
from tritium_kernels.errors import (
    check_choice,
    check_like,
    check_operand,
    check_tensor,
    dtype_name,
    refuse,
)
from tritium_kernels.launching.launch import cdiv
from tritium_kernels.matmul_details.precision import PrecisionConfig
from tritium_kernels.moe_kernels.matmul import Matrix, Rows
from tritium_kernels.numerics import InFlexData
from tritium_kernels.numerics_details.mxfp import BLOCK_SIZES, SCALE_TYPES, check_block_size
from tritium_kernels.tensor_details import dtype as types
from tritium_kernels.tensor_details import layout as layouts
from tritium_kernels.tensor_details.dtype import DataType
from tritium_kernels.tensor_details.ragged_tensor import RaggedTensorMetadata
from tritium_kernels.tensor_details.storage import Tensor, torch_dtype_to_dtype, wrap_torch_tensor

OP = "matmul"
FLOATS = (torch.float16, torch.bfloat16, torch.float32)
EIGHT_BITS = (torch.float8_e4m3fn, torch.float8_e5m2)
FLOAT8 = (*EIGHT_BITS, torch.float8_e4m3fnuz)
INDICES = (torch.int32, torch.int64)
_FORMATS: dict[DataType, str] = {
    types.BF16: "bf16", types.FP16: "fp16", types.FP8_E4M3FN: "e4m3", types.FP8_E5M2: "e5m2",
    types.FP4: "e2m1",
}  # fmt: skip
_SCALED = (types.FP8_E4M3FN, types.FP8_E5M2, types.FP4)
_VALUE_LAYOUTS = (
    layouts.StridedLayout, layouts.BlackwellMXValueLayout, layouts.HopperMXValueLayout,
    layouts.BlackwellMX4ValueShuffledLayout,
)  # fmt: skip
_SCALE_LAYOUTS = {
    "a": (layouts.StridedLayout, layouts.BlackwellActMXScaleLayout),
    "b": (layouts.StridedLayout, layouts.BlackwellMXScaleLayout, layouts.CDNA4MXScaleLayout,
          layouts.GFX1250MXScaleLayout, layouts.HopperMXScaleLayout),
}  # fmt: skip
_BYTES_ONLY = (
    layouts.CDNA4MXScaleLayout, layouts.GFX1250MXScaleLayout, layouts.HopperMXScaleLayout,
)  # fmt: skip
"""Layouts of E8M0 scales alone."""



@dataclass(frozen=True)
class Operand:
    """a or b.

    Attributes:
        data: the storage.
        dtype, shape: of the elements.
        layout, scale_layout: None where strides say it all.
        across: two elements of a byte are neighbours along the other dimension than k.
        scale: the storage of the scales.
        flex: the factor.
    """

    data: torch.Tensor
    dtype: DataType
    shape: tuple[int, ...]
    layout: Any
    scale: torch.Tensor | None
    scale_layout: Any
    flex: InFlexData
    across: bool = False

    @property
    def pack(self) -> int:
        """Elements of a byte, along k or across it."""
        return 2 if self.dtype == types.FP4 else 1

    @property
    def layout_name(self) -> str | None:
        return None if self.layout is None else self.layout.name

    @property
    def scale_layout_name(self) -> str | None:
        return None if self.scale_layout is None else self.scale_layout.name

    def matrix(self, columns_of_scales: bool) -> Matrix:
        """Arguments of kernels. `columns_of_scales`: k is the scales' dimension before the last."""
        data, flex = self.data, self.flex
        if isinstance(self.layout, layouts.BlackwellMX4ValueShuffledLayout):
            strides = (data.stride(0) if data.ndim == 5 else 0, data.stride(-3), data.stride(-4))
        else:
            strides = three(data)
        return Matrix(
            data, *strides, self.scale, *self._scale_strides(columns_of_scales), flex.scale,
            1 if flex.is_per_batch else 0,
        )  # fmt: skip

    def _scale_strides(self, columns_of_scales: bool) -> tuple[int, int, int]:
        """The scales' strides of batches, rows and k, or those by which kernels find swizzled
        scales."""
        scale, layout = self.scale, self.scale_layout
        if scale is None:
            return (0, 0, 0)
        if isinstance(layout, layouts.BlackwellActMXScaleLayout):
            return scale.stride(1), scale.stride(2), scale.stride(3)
        if isinstance(layout, layouts.BlackwellMXScaleLayout):
            row = scale.stride(1)
            return cdiv(self.shape[-1], 128) * row, row, 0
        z, i, j = three(scale)
        if layout is not None:
            return z, i, 0
        return (z, j, i) if columns_of_scales else (z, i, j)


def three(t: torch.Tensor | None) -> tuple[int, int, int]:
    """Strides of three dimensions; 0 for a leading one that is not there."""
    if t is None:
        return (0, 0, 0)
    z, i, j = (0,) * (3 - t.ndim) + tuple(t.stride())
    return z, i, j


def block_size(name: str, size: int | None, scale_dtype: torch.dtype) -> int:
    """The size of blocks with a scale of this type, which `size` is, if it is given."""
    if size is not None:
        check_block_size(OP, name, size, scale_dtype)
    return BLOCK_SIZES[scale_dtype]


def _check_axis(name: str, layout: Any, k_axis: int) -> None:
    axis = getattr(layout, "mx_axis", k_axis)
    if axis != k_axis:
        raise refuse(OP, name, f"has mx_axis {axis}", f"{k_axis}")


def _values(name: str, x: Any, flex: InFlexData, k_axis: int) -> Operand:
    if isinstance(x, Tensor):
        layout: Any = x.storage.layout
        data, across = flex.reinterpret(x.data), False
        if x.dtype.bitwidth == 8:
            x = wrap_torch_tensor(data, None, x.shape, x.shape_max, layout)
        if not isinstance(layout, _VALUE_LAYOUTS[: 1 if name == "a" else None]):
            accepted = ", ".join(kind.__name__ for kind in _VALUE_LAYOUTS)
            raise refuse(OP, name, f"has the layout {layout.name}", accepted)
        if isinstance(layout, layouts.StridedLayout):
            across = x.dtype == types.FP4 and layout.order(x.ndim)[0] - x.ndim != k_axis
            if across and name == "a":
                raise refuse(OP, name, "has FP4 packed across k", "FP4 packed along k")
            layout = None
        elif isinstance(layout, layouts.BlackwellMXValueLayout):
            # Strides say it all, of the part that is not there to fill columns up.
            layout, data = None, data[..., : x.shape[-2] // (2 if x.dtype == types.FP4 else 1), :]
        else:
            _check_axis(name, layout, k_axis)
        operand = Operand(data, x.dtype, x.shape, layout, None, None, flex, across)
    else:
        check_tensor(OP, name, x, (*FLOATS, torch.uint8, *FLOAT8))
        data = flex.reinterpret(x)
        shape = list(data.shape)
        dtype = types.FP4 if data.dtype == torch.uint8 else torch_dtype_to_dtype(data.dtype)
        if dtype == types.FP4 and data.ndim > 1:
            shape[k_axis] *= 2
        operand = Operand(data, dtype, tuple(shape), None, None, None, flex)
    if len(operand.shape) not in (2, 3):
        raise refuse(OP, name, f"has {len(operand.shape)} dimensions", "2 or 3")
    return operand


def _with_scale(name: str, x: Operand, scale: Any, k_axis: int, size: int | None) -> Operand:
    label = f"{name}_mx_scale"
    if scale is None:
        if x.dtype == types.FP4:
            raise refuse(OP, label, "is None", f"scales, for {name} of e2m1")
        return x
    if x.dtype not in _SCALED:
        accepted = f"None for {name} of {dtype_name(x.data.dtype)}"
        raise refuse(OP, label, "is given", accepted)
    data = scale.data if isinstance(scale, Tensor) else scale
    check_tensor(OP, label, data, SCALE_TYPES)
    size = block_size(f"{name}_microblock_size", size, data.dtype)
    shape = list(x.shape)
    shape[k_axis] = cdiv(shape[k_axis], size)
    layout: Any = None
    if isinstance(scale, Tensor):
        known = _SCALE_LAYOUTS[name]
        if data.dtype != torch.uint8:
            known = tuple(kind for kind in known if kind not in _BYTES_ONLY)
        if scale.shape != tuple(shape):
            raise refuse(OP, label, f"has shape {scale.shape}", f"{tuple(shape)}")
        layout = scale.storage.layout
        if not isinstance(layout, known):
            accepted = ", ".join(kind.__name__ for kind in known)
            raise refuse(OP, label, f"has the layout {layout.name}", accepted)
        _check_axis(label, layout, k_axis)
        layout = None if isinstance(layout, layouts.StridedLayout) else layout
    else:
        check_operand(OP, label, scale, shape, name, x.data, SCALE_TYPES)
    return replace(x, scale=data, scale_layout=layout)


def _check_flex(name: str, flex: InFlexData, batches: int, x: torch.Tensor) -> None:
    if flex.scale is not None:
        check_tensor(OP, name, flex.scale, (torch.float32,))
        check_like(OP, name, flex.scale, "a", x)
        if flex.scale.numel() not in (1, batches):
            found = f"has {flex.scale.numel()} elements"
            raise refuse(OP, name, found, f"1 or {batches}, one for each batch")


def read_operands(a: Any, b: Any, config: PrecisionConfig) -> tuple[Operand, Operand]:
    """a and b, whose types fit each other."""
    for name, size in (("a", config.a_microblock_size), ("b", config.b_microblock_size),
                       ("c", config.c_microblock_size)):  # fmt: skip
        if size is not None:
            check_choice(OP, f"{name}_microblock_size", size, tuple(BLOCK_SIZES.values()))
    flex = config.flex_ctx
    x = _with_scale("a", _values("a", a, flex.lhs_data, -1), config.a_mx_scale, -1,
                    config.a_microblock_size)  # fmt: skip
    w = _with_scale("b", _values("b", b, flex.rhs_data, -2), config.b_mx_scale, -2,
                    config.b_microblock_size)  # fmt: skip
    check_like(OP, "b", w.data, "a", x.data)
    if types.FP8_E4M3FNUZ in (x.dtype, w.dtype) and target_info.is_cuda():
        found = "has dtype float8_e4m3fnuz"
        raise refuse(OP, "a", found, "float8_e4m3fn, float8_e5m2 on NVIDIA GPUs")
    if isinstance(w.layout, layouts.HopperMXValueLayout):
        if x.dtype not in (types.BF16, types.FP8_E4M3FN, types.FP8_E5M2):
            found = f"has dtype {dtype_name(x.data.dtype)}"
            raise refuse(OP, "a", found, "bfloat16, float8, for b in the layout HOPPER_VALUE")
    elif x.scale is None and w.scale is None:
        if x.dtype != w.dtype and not (x.dtype in _SCALED and w.dtype in _SCALED):
            found = f"has dtype {dtype_name(w.data.dtype)}"
            raise refuse(OP, "b", found, f"the dtype of a, {dtype_name(x.data.dtype)}")
    else:
        for name, operand in (("a", x), ("b", w)):
            if operand.dtype not in _FORMATS:
                accepted = "bfloat16, float16, float8_e4m3fn, float8_e5m2, e2m1"
                found = f"has dtype {dtype_name(operand.data.dtype)}"
                raise refuse(OP, name, found, accepted)
    return x, w


def formats(x: Operand, w: Operand) -> tuple[str | None, str | None]:
    """Names for a scaled product; None for a plain one."""
    if x.scale is None and w.scale is None:
        return None, None
    return _FORMATS[x.dtype], _FORMATS[w.dtype]


@dataclass(frozen=True)
class Problem:
    """Batches (or slices of k), and elements along m, n, k.

    `batched`: the result has three dimensions. `k_of_b`: rows of b, whose slices may be filled up
    to other sizes than a's.
    """

    batch: int
    m: int
    n: int
    k: int
    batched: bool
    k_of_b: int


def _not_with(given: dict[str, Any], what: str) -> None:
    for name, value in given.items():
        if value is not None:
            raise refuse(OP, name, f"is given with {what}", "None")


def _check_same_slices(a: RaggedTensorMetadata | None, b: RaggedTensorMetadata) -> None:
    """Slices of a's columns are as large as those of b's rows; seen without waiting on CPUs alone.
    Where they begin may differ: one or both may be filled up."""
    if a is None or a is b:
        return
    name = "a_ragged_metadata"
    if a.n_slices != b.n_slices:
        raise refuse(OP, name, f"has {a.n_slices} slices", f"{b.n_slices}, as b_ragged_metadata")
    check_like(OP, name, a.slice_sizes, "b_ragged_metadata", b.slice_sizes)
    if a.slice_sizes.device.type == "cpu" and not torch.equal(a.slice_sizes, b.slice_sizes):
        accepted = f"{b.slice_sizes.tolist()}, as b_ragged_metadata"
        raise refuse(OP, name, f"has slices of {a.slice_sizes.tolist()} elements", accepted)


def check_slices_of_k(name: str, x: Operand, metadata: RaggedTensorMetadata) -> None:
    """Slices of k begin where a byte, and a block with a scale of its own, does."""
    if x.scale is None:
        return
    layout = next((y for y in (x.layout, x.scale_layout) if y is not None), None)
    blocks, known = BLOCK_SIZES[x.scale.dtype], metadata.slice_sizes_divisibility or 1
    if layout is not None:
        blocks = 128
        if not isinstance(layout, (layouts.HopperMXValueLayout, layouts.HopperMXScaleLayout)):
            raise NotImplementedError(f"{OP}: slices of k of {name} in the layout {layout.name}")
    if known % blocks:
        found = f"has slice_sizes_divisibility {metadata.slice_sizes_divisibility}"
        accepted = f"slices that are filled up to multiples of {blocks}, for {name} with scales"
        raise refuse(OP, f"{name}_ragged_metadata", found, accepted)


def read_problem(
    a: Sequence[int], b: Sequence[int], a_ragged: RaggedTensorMetadata | None,
    b_ragged: RaggedTensorMetadata | None, gather: Any, scatter: Any,
) -> Problem:  # fmt: skip
    """The sizes of a product of operands of these shapes."""
    k, n = a[-1], b[-1]
    rows = {"gather_indx": gather, "scatter_indx": scatter}
    if b[-2] != k and (a_ragged is None or b_ragged is None):
        raise refuse(OP, "b", f"has {b[-2]} rows", f"{k}, the columns of a")
    if b_ragged is not None:
        _check_same_slices(a_ragged, b_ragged)
        for name, shape in (("a", a), ("b", b)):
            if len(shape) != 2:
                raise refuse(OP, name, f"has {len(shape)} dimensions", "2")
        _not_with(rows, "b_ragged_metadata")
        return Problem(b_ragged.n_slices, a[0], n, k, True, b[-2])
    if a_ragged is not None:
        if len(a) != 2:
            raise refuse(OP, "a", f"has {len(a)} dimensions", "2")
        if len(b) != 3:
            raise refuse(OP, "b", f"has {len(b)} dimensions", "3")
        if b[0] != a_ragged.n_slices:
            raise refuse(OP, "b", f"has {b[0]} matrices", f"{a_ragged.n_slices}, the slices of a")
        return Problem(1, a[0] if gather is None else gather.shape[0], n, k, False, k)
    if len(a) == 3:
        _not_with(rows, "batches")
    batch = a[0] if len(a) == 3 else 1
    if len(b) == 3 and b[0] != batch:
        raise refuse(OP, "b", f"has {b[0]} matrices", f"{batch}, the batches of a")
    m = a[-2] if gather is None else gather.shape[0]
    return Problem(batch, m, n, k, len(a) == 3, k)


def check_slices(name: str, metadata: Any, extent: int, a: torch.Tensor) -> None:
    """Metadata of slices that do not end past the `extent` of the ragged dimension; how large they
    are is seen without waiting on CPUs alone. Kernels stop at the last element anyway."""
    if metadata is None:
        return
    if not isinstance(metadata, RaggedTensorMetadata):
        raise refuse(OP, name, f"is {type(metadata).__name__}", "RaggedTensorMetadata")
    check_like(OP, name, metadata.slice_sizes, "a", a)
    end = int(metadata.slice_offs[-1]) if a.device.type == "cpu" else 0
    if end > extent:
        accepted = f"{extent} or fewer, as {name[0]} has"
        raise refuse(OP, name, f"has slices of {end} elements", accepted)


def check_rows(
    name: str, t: torch.Tensor | None, rows: int, a: torch.Tensor, dtypes: Any
) -> torch.Tensor | None:
    """A vector with an element for each row of the product."""
    if t is None:
        return None
    check_operand(OP, name, t, (rows,), "a", a, dtypes)
    return t.contiguous()


def check_indices(
    rows: Rows, size: Problem, rows_of_a: int, a_ragged: RaggedTensorMetadata | None
) -> None:
    """Rows that the product's rows come from and go to exist; seen without waiting on CPUs alone.

    Rows of no slice may have any.
    """
    for name, t, most, what in (("gather_indx", rows.gather, rows_of_a, "a"),
                                ("scatter_indx", rows.scatter, size.m, "the result")):
        if t is None or t.device.type != "cpu":
            continue
        used = t if a_ragged is None else t[: int(a_ragged.slice_offs[-1])]
        last = int(used.max()) if used.numel() else -1
        if last >= most:
            raise refuse(OP, name, f"has {last}", f"less than {most}, the rows of {what}")


def check_bias(
    bias: torch.Tensor | None, size: Problem, b_shape: Sequence[int], ragged_k: bool,
    a: torch.Tensor,
) -> None:  # fmt: skip
    if bias is not None:
        leading = (size.batch,) if ragged_k else tuple(b_shape[:-2])
        check_operand(OP, "bias", bias, (*leading, size.n), "a", a, FLOATS)


def check_scales(size: Problem, batches: int, config: PrecisionConfig, a: torch.Tensor) -> None:
    """Flexpoint scales: one, or one for each batch."""
    flex = config.flex_ctx
    _check_flex("flex_ctx.lhs_data.scale", flex.lhs_data, batches, a)
    _check_flex("flex_ctx.rhs_data.scale", flex.rhs_data, batches, a)
    _check_flex("flex_ctx.acc_data.scale", flex.acc_data, 1, a)
    for name, value, dtype in (
        ("expected_scale", flex.out_data.expected_scale, torch.float32),
        ("actual_scale", flex.out_data.actual_scale, torch.float32),
        ("checksum_scale", flex.out_data.checksum_scale, torch.int32),
    ):  # fmt: skip
        if value is not None:
            check_tensor(OP, f"flex_ctx.out_data.{name}", value, (dtype,))
            check_like(OP, f"flex_ctx.out_data.{name}", value, "a", a)
    sizes = {v.numel() for v in (flex.out_data.expected_scale, flex.out_data.actual_scale)
             if v is not None}  # fmt: skip
    if not sizes <= {1} and not sizes <= {size.batch}:
        found = f"have {sorted(sizes)} elements"
        raise refuse(OP, "flex_ctx.out_data", found, f"1 or {size.batch}, all alike")
