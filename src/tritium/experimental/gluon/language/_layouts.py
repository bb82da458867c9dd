"""Layouts: how the elements of a block lie in threads, or in shared memory.

    BlockedLayout(size_per_thread=[1, 4], threads_per_warp=[8, 4], warps_per_cta=[4, 1],
                  order=[1, 0])

A layout is a compile-time value. It is a notation of an encoding of the IR (`ir.layouts`), which
alone says what it means: `to_encoding` gives that, `layout_of` the layout of an encoding.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from math import prod
from typing import Any, ClassVar

from tritium.errors import OpError
from tritium.experimental.gluon.language import _pictures, _views
from tritium.ir.layouts import encodings as ir
from tritium.ir.layouts import shared_linear, undecided
from tritium.ir.layouts.encodings import BLOCK, LANE, OFFSET, REGISTER, WARP, Encoding
from tritium.ir.layouts.encodings import linear as linear
from tritium.ir.layouts.linear import LinearLayout
from tritium.language.values.constexpr import constexpr_function, constexpr_type, unwrap

_OF: dict[type[Encoding], type[Layout]] = {}
"""The classes of layouts by those of their encodings."""


def _plain(value: Any) -> Any:
    """A field's value without constexprs, its sequences as lists."""
    value = unwrap(value)
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]  # pyright: ignore[reportUnknownVariableType]
    return value


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value  # pyright: ignore


def _text(value: Any) -> str:
    """A field in a mangled name."""
    if isinstance(value, list):
        members: list[Any] = value  # pyright: ignore[reportUnknownVariableType]
        flat = members and not isinstance(members[0], list)
        return ("~" if flat else "_").join(map(_text, members))
    return value.mangle() if isinstance(value, Layout) else str(value)


@contextmanager
def named_in_errors(layout: object) -> Generator[None]:
    """Name the layout in a `ValueError` that does not."""
    try:
        yield
    except ValueError as error:
        if repr(layout) in str(error):
            raise
        raise ValueError(f"{layout!r}: {error}") from error


class Layout:
    """Base of layouts. A subclass is a frozen dataclass; `ENCODING` is the class of its encoding,
    `KEYS` that encoding's parameters in the order of the fields, `TAG` marks mangled names."""

    ENCODING: ClassVar[type[Encoding]]
    KEYS: ClassVar[tuple[str, ...]] = ()
    TAG: ClassVar[str] = ""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "ENCODING" in vars(cls):
            _OF[cls.ENCODING] = cls

    def __post_init__(self) -> None:
        for part in fields(self):  # pyright: ignore[reportArgumentType]
            object.__setattr__(self, part.name, _plain(getattr(self, part.name)))
        with named_in_errors(self):
            self.to_encoding()  # which checks the parameters

    @property
    def type(self) -> Any:
        """The type of the layout as a compile-time value of kernels."""
        return constexpr_type(self)

    def _values(self) -> list[Any]:
        return [getattr(self, part.name) for part in fields(self)]  # pyright: ignore

    def to_encoding(self) -> Encoding:
        """The encoding. Raises `ValueError` for parameters that do not fit together."""
        values = [v.to_encoding() if isinstance(v, Layout) else v for v in self._values()]
        return self.ENCODING.make(**dict(zip(self.KEYS, map(_tuples, values), strict=True)))

    def verify(self) -> None:
        """Raise `ValueError` for parameters that do not fit together."""
        self.to_encoding()

    def _to_ir(self, builder: object = None) -> Encoding:
        """The name of `to_encoding` in the reference."""
        return self.to_encoding()

    @classmethod
    def _of(cls, encoding: Encoding) -> Any:
        """The layout of an encoding of this class."""
        values = [encoding.get(key) for key in cls.KEYS]
        return cls(*[layout_of(v) if isinstance(v, Encoding) else v for v in values])

    def mangle(self) -> str:
        """The layout in the name of a function that is compiled for it."""
        return f"{self.TAG}{'_'.join(map(_text, self._values()))}{self.TAG}"

    def __hash__(self) -> int:
        return hash((type(self), _tuples(self._values())))

    def _linear(self, shape: Sequence[int]) -> LinearLayout:
        return linear(self.to_encoding(), tuple(unwrap(list(shape))))

    def format_tensor_view(self, shape: Sequence[int]) -> str:
        """Text that gives, for each element of a block of this shape, what holds it."""
        return _views.tensor_view(self._linear(shape))

    def format_hardware_view(self, shape: Sequence[int]) -> str:
        """Text that gives what each register of each thread, or each place in memory, holds."""
        return _views.hardware_view(self._linear(shape))

    def to_svg(self, shape: Sequence[int]) -> str:
        """A picture of a block of this shape: what holds each element."""
        return _pictures.svg(self._linear(shape), repr(self))


@dataclass(frozen=True)
class TensorMemoryLinearLayout:
    """The coordinates in a tile of `shape` that the bits of a row's number and of a column's add,
    to print."""

    rows: list[list[int]]
    cols: list[list[int]]
    shape: list[int]


def layout_of(encoding: Encoding) -> Any:
    """The layout that an encoding is written as. Raises `OpError` for one that no layout is."""
    kind = _OF.get(type(encoding))
    if kind is None:
        raise OpError(f"{encoding} has no layout in Gluon")
    return kind._of(encoding)  # pyright: ignore[reportPrivateUsage]


class DistributedLayout(Layout):
    """Base of the layouts of blocks in threads."""

    @property
    def rank(self) -> int:
        """The number of axes."""
        raise ValueError(f"{type(self).__name__} has no rank")


class SharedLayout(Layout):
    """Base of the layouts of shared memory."""


@dataclass(frozen=True)
class AutoLayout(DistributedLayout):
    """The layout of the blocks that this one is computed with."""

    ENCODING = undecided.AutoEncoding
    TAG = "AL"
    __hash__ = Layout.__hash__


@dataclass(frozen=True)
class CoalescedLayout(DistributedLayout):
    """The layout in which neighbouring threads access neighbouring memory."""

    ENCODING = undecided.CoalescedEncoding
    TAG = "CL"
    __hash__ = Layout.__hash__


@dataclass(frozen=True)
class BlockedLayout(DistributedLayout):
    """Each thread has a piece of `size_per_thread`, each warp `threads_per_warp` pieces, each
    thread block `warps_per_cta` of these, counted along the axes in `order`, fastest first. What is
    larger is covered by repeating this. `cga_layout`: where the parts of further thread blocks
    begin, for each bit of a block's number."""

    ENCODING = ir.BlockedEncoding
    KEYS = ("sizePerThread", "threadsPerWarp", "warpsPerCTA", "order", "CGALayout")
    TAG = "B"
    size_per_thread: list[int]
    threads_per_warp: list[int]
    warps_per_cta: list[int]
    order: list[int]
    cga_layout: list[list[int]] = field(default_factory=list[list[int]])
    __hash__ = Layout.__hash__

    @property
    def rank(self) -> int:
        return len(self.order)


@dataclass(frozen=True)
class SliceLayout(DistributedLayout):
    """The layout of a block of `parent` without the axis `dim`: that of a sum along the axis."""

    ENCODING = ir.SliceEncoding
    KEYS = ("dim", "parent")
    TAG = "SL"
    dim: int
    parent: DistributedLayout
    __hash__ = Layout.__hash__

    @property
    def rank(self) -> int:
        return self.parent.rank - 1

    @property
    def cga_layout(self) -> list[list[int]]:
        """The parts of further thread blocks."""
        return [b[: self.dim] + b[self.dim + 1 :] for b in _cluster(self.parent)]


def _cluster(layout: Any) -> list[list[int]]:
    return getattr(layout, "cga_layout", [])


@dataclass(frozen=True)
class DotOperandLayout(DistributedLayout):
    """The left (`operand_index` 0) or right operand of a product with the layout `parent`; a thread
    has `k_width` neighbours along the axis that is summed over."""

    ENCODING = ir.DotOperandEncoding
    KEYS = ("opIdx", "parent", "kWidth")
    TAG = "DO"
    operand_index: int
    parent: DistributedLayout
    k_width: int
    __hash__ = Layout.__hash__

    @property
    def rank(self) -> int:
        return self.parent.rank

    @property
    def cga_layout(self) -> list[list[int]]:
        """The parts of further thread blocks, each of which has all of the summed axis."""
        summed = self.rank - 1 - self.operand_index
        return [[0 if i == summed else x for i, x in enumerate(b)] for b in _cluster(self.parent)]


@dataclass(frozen=True)
class NVMMADistributedLayout(DistributedLayout):
    """The result of NVIDIA's tensor cores: `version` [2, 0] is mma.sync, [3, 0] wgmma;
    `instr_shape` is the instruction's (M, N) or (M, N, K)."""

    ENCODING = ir.NvidiaMmaEncoding
    TAG = "MMA"
    version: list[int]
    warps_per_cta: list[int]
    instr_shape: list[int]
    cga_layout: list[list[int]] = field(default_factory=list[list[int]])
    __hash__ = Layout.__hash__

    def to_encoding(self) -> Encoding:
        return ir.NvidiaMmaEncoding.make(
            versionMajor=self.version[0], versionMinor=self.version[1],
            warpsPerCTA=tuple(self.warps_per_cta), CGALayout=_tuples(self.cga_layout),
            instrShape=tuple(self.instr_shape),
        )  # fmt: skip

    @classmethod
    def _of(cls, encoding: Encoding) -> Any:
        version = [encoding.get("versionMajor"), encoding.get("versionMinor")]
        return cls(version, *map(encoding.get, ("warpsPerCTA", "instrShape", "CGALayout")))

    @property
    def rank(self) -> int:
        return len(self.warps_per_cta)


def _extents(bases: Sequence[Sequence[int]], rank: int) -> list[int]:
    """The shape of the least block that has the elements of all bases."""
    return [1 << max((b[i] for b in bases), default=0).bit_length() for i in range(rank)]


@dataclass(frozen=True)
class DistributedLinearLayout(DistributedLayout):
    """A layout by its bases: the coordinates that each bit of the register, lane, warp and thread
    block adds (by exclusive or), in blocks of `shape`."""

    ENCODING = ir.LinearEncoding
    KEYS = (REGISTER, LANE, WARP, BLOCK)
    TAG = "DLL"
    reg_bases: list[list[int]]
    lane_bases: list[list[int]]
    warp_bases: list[list[int]]
    block_bases: list[list[int]]
    shape: list[int]
    __hash__ = Layout.__hash__

    def to_encoding(self) -> Encoding:
        rank, parts = len(self.shape), self._values()[:4]
        if any(len(basis) != rank for part in parts for basis in part):
            raise ValueError(f"{self}: a basis of another rank; {rank} coordinates are required")
        reached = _extents([basis for part in parts for basis in part], rank)
        if reached != list(self.shape):
            raise ValueError(f"{self}: the bases are of blocks of {reached}; so must be the shape")
        return ir.LinearEncoding.make(**dict(zip(self.KEYS, map(_tuples, parts), strict=True)))

    @classmethod
    def _of(cls, encoding: Encoding) -> Any:
        parts: Any = [encoding.get(key) for key in cls.KEYS]
        rank = len(next(basis for part in parts for basis in part))
        return cls(*parts, shape=_extents([basis for part in parts for basis in part], rank))

    @property
    def rank(self) -> int:
        return len(self.shape)


@constexpr_function
def _get_shape_per_cta(shape: Any, cga_layout: Any) -> list[int]:
    """The part of a block that one thread block of a cluster has. Raises `ValueError`."""
    splits = ir.split_of(_tuples(_plain(cga_layout)), len(shape))
    if any(s % split for s, split in zip(shape, splits, strict=True)):
        raise ValueError(f"shape {list(shape)} is not divisible by the CGA layout {cga_layout}")
    return [s // split for s, split in zip(shape, splits, strict=True)]


@dataclass(frozen=True)
class NVMMASharedLayout(SharedLayout):
    """The shared memory that TMA fills and tensor cores read: rows of `swizzle_byte_width` bytes
    (0, 32, 64, 128) in which groups of 16 bytes are permuted. `transposed`: columns are rows."""

    ENCODING = ir.NVMMASharedEncoding
    TAG = "NVMMA"
    swizzle_byte_width: int
    element_bitwidth: int
    rank: int = 2
    transposed: bool = False
    fp4_padded: bool = False
    cga_layout: list[list[int]] = field(default_factory=list[list[int]])
    __hash__ = Layout.__hash__

    def to_encoding(self) -> Encoding:
        if self.swizzle_byte_width not in (0, 32, 64, 128):
            raise ValueError(
                f"swizzle_byte_width is {self.swizzle_byte_width}; 0, 32, 64 or 128 is required"
            )
        if self.element_bitwidth not in (8, 16, 32, 64):
            raise ValueError(
                f"element_bitwidth is {self.element_bitwidth}; 8, 16, 32 or 64 is required"
            )
        if self.fp4_padded and (self.swizzle_byte_width, self.element_bitwidth) != (128, 8):
            raise ValueError(f"{self}: fp4_padded goes with elements of 8 bits and rows of 128")
        return ir.NVMMASharedEncoding.make(
            swizzlingByteWidth=self.swizzle_byte_width, transposed=self.transposed,
            elementBitWidth=self.element_bitwidth, fp4Padded=self.fp4_padded, rank=self.rank,
            CGALayout=_tuples(self.cga_layout),
        )  # fmt: skip

    def check_block(self, shape: Any, bits: int) -> None:
        """Raise `ValueError` for a block of elements of `bits` bits with rows too short."""
        part = self._part(shape)
        axis = -2 if self.transposed and len(part) > 1 else -1
        least = self.swizzle_byte_width * 8 // bits // (2 if self.fp4_padded else 1)
        if part[axis] < least:
            raise ValueError(
                f"rows of {part[axis]} elements, of a block of {list(shape)}, in {self}; {least} "
                f"or more are required, or a swizzle_byte_width of {part[axis] * bits // 8} or less"
            )

    def check_copies(self, shape: Any, bits: int) -> None:
        """Raise `ValueError` for a block of elements of `bits` bits of which a thread block has
        rows too short for the copy engine."""
        part = self._part(shape)
        if part[-1] * bits < 8 * ir.LEAST_ROW_BYTES:
            of_block = f", of which each thread block has {part}" if self.cga_layout else ""
            raise ValueError(
                f"block_shape is {list(shape)}{of_block}, of {bits} bits an element; copies by "
                f"descriptors take {ir.LEAST_ROW_BYTES} bytes or more along the last axis, "
                f"{8 * ir.LEAST_ROW_BYTES // bits} elements"
            )

    def check_memory(self, shape: Any, bits: int) -> None:
        """Raise `ValueError` for memory of this shape with rows too short or too few: a swizzle is
        a function of the address, which eight rows go through."""
        for width in {bits, self.element_bitwidth}:
            self.check_block(shape, width)
        part = self._part(shape)
        axis = -2 if self.transposed and len(part) > 1 else -1
        rows = prod(part) // part[axis]
        if self.swizzle_byte_width and rows < ir.LEAST_ROWS:
            raise ValueError(
                f"{rows} rows, of memory of {list(shape)}, in {self}; {ir.LEAST_ROWS} or more are "
                "required, or a swizzle_byte_width of 0"
            )

    def _part(self, shape: Any) -> list[int]:
        """The part of a block that one thread block has; axes in front of its own are buffers."""
        part = list(shape)[-self.rank :]
        if not self.cga_layout:
            return part
        return _get_shape_per_cta(part[-len(self.cga_layout[0]) :], self.cga_layout)

    @classmethod
    def _of(cls, encoding: Encoding) -> Any:
        keys = ("swizzlingByteWidth", "elementBitWidth", "rank", "transposed", "fp4Padded",
                "CGALayout")  # fmt: skip
        return cls(*map(encoding.get, keys))

    @staticmethod
    @constexpr_function
    def get_default_for(
        block_shape: Any, dtype: Any, transposed: bool = False, fp4_padded: bool = False,
        cga_layout: Any = None,
    ) -> NVMMASharedLayout:  # fmt: skip
        """The layout with the widest rows that a block of this shape fills; blocks of fewer than
        eight rows are not swizzled."""
        shape = list(block_shape)
        part = _get_shape_per_cta(shape, cga_layout) if cga_layout else shape
        *outer, fastest = [*part[1:], part[0]] if transposed else part
        row = fastest * dtype.primitive_bitwidth // 8 * (2 if fp4_padded else 1)
        width = next((w for w in (128, 64, 32) if row >= w and row % w == 0), 0)
        if prod(outer) < ir.LEAST_ROWS:
            width = 0
        return NVMMASharedLayout(
            width, 8 if fp4_padded else dtype.primitive_bitwidth, len(shape), transposed,
            fp4_padded, cga_layout or [],
        )  # fmt: skip


@dataclass(frozen=True)
class SwizzledSharedLayout(SharedLayout):
    """Rows (along `order[0]`) whose groups of `vec` elements are permuted: in row r the group g is
    at g ^ (r / per_phase % max_phase)."""

    ENCODING = ir.SwizzledSharedEncoding
    KEYS = ("vec", "perPhase", "maxPhase", "order", "CGALayout")
    TAG = "SSS"
    vec: int
    per_phase: int
    max_phase: int
    order: list[int]
    cga_layout: list[list[int]] = field(default_factory=list[list[int]])
    __hash__ = Layout.__hash__


@dataclass(frozen=True)
class PaddedSharedLayout(SharedLayout):
    """Elements in the order of `offset_bases`, with gaps: after every `interval` elements so much
    `padding`, for each pair (interval, padding), in blocks of `shape`."""

    ENCODING = shared_linear.PaddedSharedEncoding
    KEYS = ("intervals", OFFSET, BLOCK)
    TAG = "PaddedShared"
    interval_padding_pairs: list[list[int]]
    offset_bases: list[list[int]]
    cga_layout: list[list[int]]
    shape: list[int]
    __hash__ = Layout.__hash__

    def to_encoding(self) -> Encoding:
        rank = len(self.shape)
        if any(len(basis) != rank for basis in [*self.offset_bases, *self.cga_layout]):
            raise ValueError(f"{self}: a basis of another rank; {rank} coordinates are required")
        parts = map(_tuples, self._values()[:3])
        return self.ENCODING.make(**dict(zip(self.KEYS, parts, strict=True)))

    @classmethod
    def _of(cls, encoding: Encoding) -> Any:
        parts: Any = [encoding.get(key) for key in cls.KEYS]
        return cls(*parts, shape=_extent([*parts[1], *parts[2]]))

    @staticmethod
    @constexpr_function
    def with_identity_for(
        interval_padding_pairs: Any, shape: Any, order: Any, cga_layout: Any = ()
    ) -> PaddedSharedLayout:
        """The padded layout whose elements run along the axes in `order`, fastest first."""
        bases = shared_linear.bases_in_order(order, _get_shape_per_cta(shape, cga_layout))
        return PaddedSharedLayout(interval_padding_pairs, bases, cga_layout, shape)


@dataclass(frozen=True)
class SharedLinearLayout(SharedLayout):
    """A layout of shared memory by its bases: the coordinates that each bit of the offset adds (by
    exclusive or), and each bit of the thread block."""

    ENCODING = shared_linear.SharedLinearEncoding
    KEYS = (OFFSET, BLOCK, "alignment")
    TAG = "SharedLinear"
    offset_bases: list[list[int]]
    block_bases: list[list[int]] = field(default_factory=list[list[int]])
    alignment: int = 16
    __hash__ = Layout.__hash__

    @property
    def shape(self) -> list[int]:
        """The shape of the block."""
        return _extent([*self.offset_bases, *self.block_bases])


def _extent(bases: Sequence[Sequence[int]]) -> list[int]:
    """The shape of what bases reach."""
    return [1 << max(b[i] for b in bases).bit_length() for i in range(len(bases[0]))]
