"""Tensor memory: layouts, allocation, loads, stores and views."""

from __future__ import annotations

from dataclasses import InitVar, dataclass, field
from typing import Any

from tritium.experimental.gluon.language._core import checked
from tritium.experimental.gluon.language._descriptor import memory_descriptor
from tritium.experimental.gluon.language._layouts import DistributedLinearLayout, Layout
from tritium.experimental.gluon.language._types import memory_type
from tritium.ir.layouts.encodings import counted
from tritium.ir.layouts.tensor_access import ATOMS, register_bases
from tritium.ir.layouts.tensor_memory import (
    TensorMemoryEncoding,
    TensorMemoryScalesEncoding,
    TensorMemorySpace,
)
from tritium.language import core as tl
from tritium.language import emitter, math
from tritium.language.builtins import casts
from tritium.language.builtins.arithmetic import PropagateNan
from tritium.language.builtins.build import build, emit
from tritium.language.builtins.creation import check_dtype
from tritium.language.decorators import builtin
from tritium.language.jit.function import device_function
from tritium.language.values.constexpr import constexpr, constexpr_function, unwrap
from tritium.language.values.tensor import tensor
from tritium.language.values.tuples import tuple as tl_tuple
from tritium.language.values.types import int1, int32
from tritium.ops import ttgir


class TensorLayout(Layout):
    """Base of the layouts of tensor memory."""


@dataclass(frozen=True)
class TensorMemoryLayout(TensorLayout):
    """Blocks of `block` elements, a row of a block in a row of the memory. `col_stride`: 1 where
    elements fill the columns of 32 bits, 32 / bits where each has one of its own.
    `fp4_padded`: of the left operand of `tcgen05_mma_scaled` in "e2m1" beside another format: two
    bytes for each byte of two elements, bits 2 to 5 of them; made by `reinterpret`.
    `cta_split_num`: into how many parts thread blocks split each axis (release 3.6, instead of a
    `cga_layout`)."""

    ENCODING = TensorMemoryEncoding
    TAG = "TL"
    block: tuple[int, int]
    col_stride: int
    cga_layout: list[list[int]] = field(default_factory=list[list[int]])
    two_ctas: bool = False
    fp4_padded: bool = False
    cta_split_num: InitVar[Any] = None
    __hash__ = Layout.__hash__

    def __post_init__(self, cta_split_num: Any) -> None:
        _split(self, cta_split_num)
        super().__post_init__()

    def to_encoding(self) -> TensorMemoryEncoding:
        if len(self.block) != 2:
            raise ValueError(f"block is {self.block}; two extents are required")
        return TensorMemoryEncoding.make(
            blockM=self.block[0], blockN=self.block[1], colStride=self.col_stride,
            CGALayout=tuple(map(tuple, self.cga_layout)), twoCTAs=self.two_ctas,
            fp4Padded=self.fp4_padded,
        )  # fmt: skip

    @classmethod
    def _of(cls, encoding: Any) -> TensorMemoryLayout:
        block = encoding.get("blockM"), encoding.get("blockN")
        cluster = [list(basis) for basis in encoding.get("CGALayout")]
        flags = encoding.get("twoCTAs"), encoding.get("fp4Padded")
        return cls(block, encoding.get("colStride"), cluster, *flags)


@dataclass(frozen=True)
class TensorMemoryScalesLayout(TensorLayout):
    """Scales of an operand of `tcgen05_mma_scaled`: a copy for each warp."""

    ENCODING = TensorMemoryScalesEncoding
    KEYS = ("CGALayout",)
    TAG = "TLS"
    cga_layout: list[list[int]] = field(default_factory=list[list[int]])
    cta_split_num: InitVar[Any] = None
    __hash__ = Layout.__hash__

    def __post_init__(self, cta_split_num: Any) -> None:
        _split(self, cta_split_num)
        super().__post_init__()


def _split(layout: Any, counts: Any) -> None:
    """Give the layout the `cga_layout` of blocks that split each axis into its number of
    `counts`."""
    counts = unwrap(counts)
    if counts is not None:
        object.__setattr__(layout, "cga_layout", counted(unwrap(list(counts))))


@constexpr_function
def get_tmem_reg_layout(
    element_ty: Any, shape: Any, layout: Any, num_warps: int, instr_variant: str = "32x32b",
    cga_layout: Any = (),
) -> DistributedLinearLayout:  # fmt: skip
    """The layout of blocks that are loaded from or stored to tensor memory by `num_warps` warps.
    With "32x32b" a lane has a row, or where a block of 64 rows is alone half of one, with
    "32x32b_splitn" each thread has elements of both halves of the columns; with "16x64b",
    "16x128b" and "16x256b" neighbouring lanes have neighbours of a row. Raises `ValueError` for
    numbers of warps that cannot share it."""
    variant, split, _ = instr_variant.partition("_splitn")
    if variant not in ATOMS or (split and variant != "32x32b"):
        wanted = ", ".join([*ATOMS, "32x32b_splitn"])
        raise ValueError(f"instr_variant is {instr_variant!r}; one of {wanted} is required")
    encoding = layout.to_encoding()
    registers, lanes, warps, blocks = register_bases(
        encoding, tuple(shape), element_ty.primitive_bitwidth, num_warps, variant
    )
    failure = ValueError(f"{instr_variant} by {num_warps} warps for tensor memory of {list(shape)}")
    if split:
        _split_columns(registers, lanes, warps, [0, shape[1] // 2], failure)
    return DistributedLinearLayout(registers, lanes, warps, blocks, list(shape))


def _split_columns(
    registers: list[list[int]], lanes: list[list[int]], warps: list[list[int]], half: list[int],
    failure: ValueError,
) -> None:  # fmt: skip
    """Let each thread have elements of both halves of the columns."""
    if registers[-1] == half:
        return
    for bases, first in ((lanes, 4), (warps, 2)):
        if half in bases[first:]:
            number = bases.index(half)
            bases[number], registers[-1] = registers[-1], half
            return
    raise failure


class tensor_memory_descriptor_type(memory_type):
    """Pieces of tensor memory: `shape` elements of `element_ty`, part of `alloc_shape`."""

    LAYOUT = TensorLayout
    TAG = "TMD"

    def _space(self) -> Any:
        return TensorMemorySpace()

    def get_reg_layout(
        self, num_warps: Any = None, instr_variant: str = "32x32b"
    ) -> DistributedLinearLayout:
        """The layout of blocks that are loaded from or stored to the memory."""
        count = emitter.current().features.asked_num_warps() if num_warps is None else num_warps
        shape = self.shape[-2:]
        return get_tmem_reg_layout(
            self.element_ty, shape, self.layout, unwrap(count), unwrap(instr_variant)
        )


@device_function
def _max(a: Any, b: Any) -> Any:
    return tl.maximum(a, b)


@device_function
def _max_or_nan(a: Any, b: Any) -> Any:
    return tl.maximum(a, b, propagate_nan=PropagateNan.ALL)


@device_function
def _min(a: Any, b: Any) -> Any:
    return tl.minimum(a, b)


@device_function
def _min_or_nan(a: Any, b: Any) -> Any:
    return tl.minimum(a, b, propagate_nan=PropagateNan.ALL)


_MAX = {PropagateNan.NONE: _max, PropagateNan.ALL: _max_or_nan}
_MIN = {PropagateNan.NONE: _min, PropagateNan.ALL: _min_or_nan}


class tensor_memory_descriptor(memory_descriptor):
    """A piece of tensor memory."""

    TYPE = tensor_memory_descriptor_type

    @builtin
    def get_reg_layout(self, num_warps: Any = None, instr_variant: str = "32x32b") -> constexpr:
        """The layout of blocks that are loaded from or stored to the memory."""
        return constexpr(self.type.get_reg_layout(num_warps, instr_variant))

    @builtin
    def load(self, layout: Any = None) -> tensor:
        """The contents as a block in the layout (`get_reg_layout()` by default)."""
        wanted = self.type.get_reg_layout() if layout is None else layout
        type = checked(wanted, self.shape, self.dtype)
        return build(
            ttgir.TMemLoadOp, self, like=self.dtype, result=type.to_ir()  # pyright: ignore
        )

    def _reduced(self, layout: Any, magnitudes: bool, combine: Any) -> tl_tuple:
        x = self.load(layout)
        return tl_tuple([x, tl.reduce(math.abs(x) if magnitudes else x, 1, combine)])

    @builtin
    def load_max(
        self, layout: Any = None, abs: bool = False, propagate_nan: Any = PropagateNan.NONE
    ) -> tl_tuple:
        """The contents and the largest (with `abs`, the largest magnitude) of each row; NaN only
        where all are, or with `propagate_nan=ALL` one is."""
        return self._reduced(layout, abs, _MAX[propagate_nan])

    @builtin
    def load_min(
        self, layout: Any = None, abs: bool = False, propagate_nan: Any = PropagateNan.NONE
    ) -> tl_tuple:
        """The contents and the smallest of each row; arguments as of `load_max`."""
        return self._reduced(layout, abs, _MIN[propagate_nan])

    @builtin
    def store(self, value: Any, pred: Any = True) -> None:
        """Write a block of the same shape and dtype, if `pred`."""
        x = self._to_store(value)
        flag = casts.cast(casts.to_tensor(pred), int1)
        emit(ttgir.TMemStoreOp, x, self, flag)  # pyright: ignore[reportArgumentType]

    @builtin
    def slice(self, start: int, length: int, dim: int = 1) -> tensor_memory_descriptor:
        """The `length` elements from `start` on along the axis `dim`: columns, whole blocks of
        rows, or tiles."""
        return self._view(ttgir.TMemSubSliceOp, offset=start, result=length, dim=dim)

    @builtin
    def index(self, index: Any) -> tensor_memory_descriptor:
        """One of the pieces along the first axis, which the result does not have."""
        at = casts.to_tensor(index)
        if at.type != int32:
            raise TypeError(f"index is {at.type}; an int32 scalar is required")
        return self._view(ttgir.MemDescIndexOp, at)

    @builtin
    def reinterpret(
        self, dtype: Any = None, shape: Any = None, layout: Any = None
    ) -> tensor_memory_descriptor:
        """The same columns as memory of another dtype, shape or layout."""
        element = self.dtype if dtype is None else check_dtype("reinterpret", dtype)
        extents = self.shape if shape is None else shape
        type = tensor_memory_descriptor_type(element, extents, layout or self.layout)
        (handle,) = emit(ttgir.MemDescReinterpretOp, self, result=type.to_ir())  # pyright: ignore
        return tensor_memory_descriptor(handle, element)

    @builtin
    def _reinterpret(self, dtype: Any, shape: Any, layout: Any) -> tensor_memory_descriptor:
        """The name of `reinterpret` in release 3.6."""
        return self.reinterpret(dtype, shape, layout)


@builtin
def allocate_tensor_memory(
    element_ty: Any, shape: Any, layout: Any, value: Any = None
) -> tensor_memory_descriptor:
    """Tensor memory for elements of the dtype, filled with the block `value` if one is given."""
    element = check_dtype("allocate_tensor_memory", element_ty)
    type = tensor_memory_descriptor_type(element, shape, layout)
    filled = None if value is None else casts.to_tensor(value)
    (handle,) = emit(ttgir.TMemAllocOp, filled, result=type.to_ir())  # pyright: ignore
    return tensor_memory_descriptor(handle, element)
