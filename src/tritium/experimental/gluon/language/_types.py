"""The types of Gluon's blocks and of shared memory: language types with layouts."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any, ClassVar

from tritium.experimental.gluon.language._layouts import (
    AutoLayout,
    CoalescedLayout,
    DistributedLayout,
    Layout,
    SharedLayout,
    layout_of,
    named_in_errors,
)
from tritium.ir import types as ir
from tritium.ir.layouts.encodings import BLOCK, LANE, WARP, Encoding, linear
from tritium.ir.layouts.undecided import UndecidedEncoding
from tritium.language import emitter
from tritium.language.values.base import Handle, base_type
from tritium.language.values.constexpr import unwrap
from tritium.language.values.types import block_type, dtype
from tritium.ops.ttgir import MemDescType, copied_bytes_of, memdesc_of


class distributed_type(block_type):
    """Blocks of `element_ty` in a layout; `encoding` is the layout in the IR."""

    def __init__(self, element_ty: dtype, shape: Sequence[Any], layout: Any):
        layout = unwrap(layout)
        if not isinstance(layout, (DistributedLayout, Encoding)):
            raise TypeError(f"the layout of a block is {layout!r}; a DistributedLayout is required")
        given = layout.to_encoding() if isinstance(layout, Layout) else layout  # pyright: ignore
        super().__init__(element_ty, unwrap(list(shape)), given)
        if isinstance(layout, DistributedLayout):
            self._check(layout)

    def _check(self, layout: DistributedLayout) -> None:
        if isinstance(layout, (AutoLayout, CoalescedLayout)):
            return
        if layout.rank != len(self.shape):
            raise ValueError(
                f"tensor shape and layout rank mismatch: shape {list(self.shape)}, {layout} has "
                f"rank {layout.rank}"
            )
        if emitter.active():
            with named_in_errors(layout):
                check_threads(layout, self.encoding, self.shape)

    @property
    def layout(self) -> Any:
        """The layout."""
        return layout_of(self.encoding)  # pyright: ignore[reportArgumentType]

    @property
    def name(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return f"<{list(self.shape)}, {self.element_ty}, {self.layout}>"

    def mangle(self) -> str:
        shape = "_".join(map(str, self.shape))
        return f"{self.element_ty.mangle()}S{shape}SL{self.layout.mangle()}L"


block_type.distributed_class = distributed_type


def check_threads(layout: DistributedLayout, encoding: Any, shape: tuple[int, ...]) -> None:
    """Raise `ValueError` for a layout of more or fewer threads than run the kernel."""
    if isinstance(encoding, UndecidedEncoding):
        return
    features, found = emitter.current().features, linear(encoding, shape)
    if not found.is_surjective:
        raise ValueError(f"{layout} does not reach all elements of a block of {list(shape)}")
    lanes = (32, 64) if features.target is None else (features.target.warp_size,)
    if found.in_size(LANE) not in lanes:
        raise ValueError(f"{layout} has {found.in_size(LANE)} threads a warp; "
                         f"{' or '.join(map(str, lanes))} are required")  # fmt: skip
    if features.num_ctas > 1 and found.in_size(BLOCK) != features.num_ctas:
        raise ValueError(
            f"{layout} is of {found.in_size(BLOCK)} thread blocks; the kernel runs with "
            f"num_ctas={features.num_ctas}"
        )
    warps = features.asked_num_warps()
    if found.in_size(WARP) != warps:
        raise ValueError(
            f"{layout} has {found.in_size(WARP)} warps; the kernel runs with num_warps={warps}"
        )


class memory_type(base_type):
    """Base of the types of pieces of memory: `shape` elements of `element_ty`, part of
    `alloc_shape`. `LAYOUT` is the class of their layouts, `TAG` marks mangled names."""

    LAYOUT: ClassVar[type[Layout]]
    TAG: ClassVar[str]
    value_class: ClassVar[Any] = None
    """The class of values, which registers itself here."""

    def __init__(self, element_ty: dtype, shape: Any, layout: Any, alloc_shape: Any = None):
        layout = unwrap(layout)
        if not isinstance(layout, self.LAYOUT):
            raise TypeError(f"the layout of memory is {layout!r}; a {self.LAYOUT.__name__} is "
                            "needed")  # fmt: skip
        self.element_ty, self.layout = unwrap(element_ty), layout
        extents: Any = unwrap(shape)
        try:
            self.shape: list[int] = [index(size) for size in extents]
        except TypeError:
            raise TypeError(f"the shape of memory is {extents!r}; compile-time integers, one for "
                            "each axis, are required") from None  # fmt: skip
        self.alloc_shape: list[int] = self.shape if alloc_shape is None else list(alloc_shape)

    @classmethod
    def of(cls, type: MemDescType, element: dtype) -> Any:
        """The type of a piece of memory of the IR, whose element is of the dtype."""
        layout = layout_of(type.encoding)  # pyright: ignore[reportArgumentType]
        return cls(element, type.get_shape(), layout, type.allocation_shape())

    def to_ir(self, builder: object = None) -> MemDescType:
        """The IR type."""
        return memdesc_of(
            tuple(self.shape), self.element_ty.to_ir(), self.layout.to_encoding(),
            allocation=tuple(self.alloc_shape), space=self._space(),
        )  # fmt: skip

    def _space(self) -> Any:
        """The memory space; None for shared memory."""
        return None

    def flatten_types(self) -> list[ir.Type]:
        return [self.to_ir()]

    def unflatten(self, handles: Sequence[Handle], cursor: int) -> tuple[Any, int]:
        return type(self).value_class(handles[cursor], self.element_ty), cursor + 1

    def mangle(self) -> str:
        shape, allocated = ("_".join(map(str, s)) for s in (self.shape, self.alloc_shape))
        layout = self.layout.mangle()
        return f"{self.TAG}{self.element_ty.mangle()}S{shape}SL{layout}LAS{allocated}AS{self.TAG}"

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, memory_type)
            and self.element_ty == other.element_ty
            and self.to_ir() == other.to_ir()
        )

    def __hash__(self) -> int:
        return hash((self.element_ty, tuple(self.shape), self.layout))

    def __repr__(self) -> str:
        name = type(self).__name__.removesuffix("_type")
        return f"{name}<{self.element_ty}, {self.shape}, {self.layout}, {self.alloc_shape}>"


class shared_memory_descriptor_type(memory_type):
    """Pieces of shared memory."""

    LAYOUT = SharedLayout
    TAG = "MD"

    @property
    def nbytes_per_cta(self) -> int:
        """The bytes that each thread block has."""
        return copied_bytes_of(self.to_ir())
