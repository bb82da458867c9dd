"""Encodings: the names under which layouts appear in `ttg` types, and their linear layouts.

    #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1],
                  order = [1, 0]}>

An encoding is syntax: `linear(encoding, shape)` is what it means, and all that passes and lowering
look at. Distributed encodings map (register, lane, warp, block) to coordinates (dim0, dim1, ...),
shared-memory encodings (offset, block), offsets counted in elements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from math import prod
from typing import Any, ClassVar, TypeAlias, TypeVar

from xdsl.dialects.builtin import ArrayAttr, BoolAttr, DictionaryAttr, IntegerAttr, i64
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition, param_def
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from tritium.ir.layouts.linear import LinearLayout, dims_of

EncodingT = TypeVar("EncodingT", bound="Encoding")

REGISTER, LANE, WARP, BLOCK, OFFSET = "register", "lane", "warp", "block", "offset"
INPUTS = OFFSET, REGISTER, LANE, WARP, "row", "column", BLOCK
"""The inputs of layouts: of shared memory, of threads, of tensor memory."""

Cluster: TypeAlias = "tuple[tuple[int, ...], ...]"
"""The value of `CGALayout`."""


def dim(axis: int) -> str:
    """The name of a tensor's axis in a layout."""
    return f"dim{axis}"


@lru_cache(maxsize=4096)
def _integer(value: int) -> Attribute:
    return IntegerAttr(value, i64)


@lru_cache(maxsize=4096)
def _integers(values: tuple[int, ...]) -> Attribute:
    return ArrayAttr([_integer(v) for v in values])


def encode(value: Any) -> Attribute:
    """The attribute of a parameter's Python form."""
    if isinstance(value, Attribute):
        return value
    if isinstance(value, bool):
        return BoolAttr.from_bool(value)
    if isinstance(value, int):
        return _integer(value)
    values = tuple(value)
    if all(type(v) is int for v in values):
        return _integers(values)
    return ArrayAttr([encode(v) for v in values])


def decode(attribute: Attribute) -> Any:
    """The Python form of a parameter."""
    if attribute.__class__ is ArrayAttr:
        return tuple([decode(a) for a in attribute.data])  # pyright: ignore
    if isinstance(attribute, IntegerAttr):
        value: int = attribute.value.data
        return bool(value) if attribute.type != i64 else value  # pyright: ignore
    return attribute


def _print_plain(printer: Printer, attribute: Attribute) -> None:
    value = decode(attribute)
    if isinstance(value, bool):
        printer.print_string("true" if value else "false")
    elif isinstance(value, int):
        printer.print_string(str(value))
    elif isinstance(attribute, ArrayAttr):
        printer.print_string("[")
        printer.print_list(attribute.data, lambda a: _print_plain(printer, a))  # pyright: ignore
        printer.print_string("]")
    else:
        printer.print_attribute(attribute)


@dataclass(frozen=True, init=False)  # so that the dictionary is part of equality in subclasses
class Encoding(ParametrizedAttribute):
    """Base of encodings: a dictionary of parameters. `KEYS` are their names, in printing order;
    `DEFAULTS` are left out when printed."""

    parameters_dict: DictionaryAttr = param_def()  # noqa: RUF009  (xDSL's)
    KEYS: ClassVar[tuple[str, ...]] = ()
    DEFAULTS: ClassVar[dict[str, Any]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.__hash__ = Encoding._kept_hash  # before dataclass() writes one

    def _kept_hash(self) -> int:
        """The hash, computed once: layouts are looked up by encoding thousands of times."""
        found: int | None = self.__dict__.get("_hash")
        if found is None:
            found = hash((type(self), self.parameters_dict))
            object.__setattr__(self, "_hash", found)
        return found

    def __reduce__(self) -> Any:
        return type(self), (self.parameters_dict,)  # another process has other hashes

    @classmethod
    def make(cls: type[EncodingT], **values: Any) -> EncodingT:
        """The encoding with these parameters (ints, bools, sequences of ints, encodings).

        Raises `ValueError` for a parameter that is missing or unknown.
        """
        unknown = [k for k in values if k not in cls.KEYS]
        missing = [k for k in cls.KEYS if k not in values and k not in cls.DEFAULTS]
        if unknown or missing:
            raise ValueError(
                f"#{cls.name}: {'unknown' if unknown else 'missing'} parameter "
                f"{(unknown or missing)[0]}; it takes {', '.join(cls.KEYS)}"
            )
        kept = {k: encode(values[k]) for k in cls.KEYS
                if k in values and values[k] != cls.DEFAULTS.get(k, encode)}  # fmt: skip
        encoding = cls(DictionaryAttr(kept))
        encoding.check()
        return encoding

    def check(self) -> None:
        """Raise `ValueError` for parameters that do not fit together."""

    def get(self, key: str) -> Any:
        """A parameter in its Python form."""
        attribute = self.parameters_dict.data.get(key)
        return self.DEFAULTS[key] if attribute is None else decode(attribute)

    BRACKETS: ClassVar[tuple[str, str]] = ("<{", "}>")
    """Around the parameters in the text."""

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(self.BRACKETS[0])
        entries = [(k, self.parameters_dict.data[k]) for k in self.KEYS
                   if k in self.parameters_dict.data]  # fmt: skip

        def entry(item: tuple[str, Attribute]) -> None:
            printer.print_string(f"{item[0]} = ")
            _print_plain(printer, item[1])

        printer.print_list(entries, entry)
        printer.print_string(self.BRACKETS[1])

    @classmethod
    def parse_entries(cls, parser: AttrParser) -> Mapping[str, Attribute]:
        """The parameters of a text, within the angle brackets."""
        return parser.parse_optional_dictionary_attr_dict()

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            entries = cls.parse_entries(parser)
        at = parser.pos
        try:
            return [cls.make(**{k: decode(v) for k, v in entries.items()}).parameters_dict]
        except ValueError as error:
            parser.raise_error(str(error), at)

    def to_linear(self, shape: tuple[int, ...]) -> LinearLayout:
        """The meaning for a tile of this shape; see `linear`."""
        raise NotImplementedError(f"#{self.name} has no linear layout")


CTA: dict[str, Any] = {"CGALayout": ()}
"""The parts of a tile that the blocks of a cluster have: for each bit of the block's number where
that block's part begins, counted in parts; `[[1, 0], [0, 0]]` is 4 blocks of which two have each
half of the rows. Left out where a program is one block."""


def _check_order(name: str, order: Sequence[int]) -> None:
    if sorted(order) != list(range(len(order))):
        last = len(order) - 1
        raise ValueError(f"#{name}: order {list(order)} must be a permutation of 0 to {last}")


@irdl_attr_definition
class BlockedEncoding(Encoding):
    """Each thread holds a block of elements, each warp a block of threads, and so on; a tile that
    is larger than all warps together wraps around into more registers."""

    name = "ttg.blocked"
    KEYS: ClassVar[tuple[str, ...]] = (
        "sizePerThread", "threadsPerWarp", "warpsPerCTA", "order", *CTA,
    )  # fmt: skip
    DEFAULTS: ClassVar[dict[str, Any]] = CTA

    def check(self) -> None:
        order = self.get("order")
        _check_order(self.name, order)
        for key in ("sizePerThread", "threadsPerWarp", "warpsPerCTA"):
            if len(self.get(key)) != len(order):
                raise ValueError(f"#{self.name}: {key} and order have different lengths")

    def to_linear(self, shape: tuple[int, ...]) -> LinearLayout:
        order = self.get("order")
        layout = LinearLayout.empty()
        for name, key in ((REGISTER, "sizePerThread"), (LANE, "threadsPerWarp"),
                          (WARP, "warpsPerCTA")):  # fmt: skip
            layout *= identity_nd(name, self.get(key), order)
        return spread(layout, self.get("CGALayout"), shape)


@irdl_attr_definition
class SliceEncoding(Encoding):
    """The parent's layout with one axis removed: what a reduction along `dim` leaves, and what
    `expand_dims` at `dim` makes the parent."""

    name = "ttg.slice"
    KEYS: ClassVar[tuple[str, ...]] = ("dim", "parent")

    def to_linear(self, shape: tuple[int, ...]) -> LinearLayout:
        axis = self.get("dim")
        if not 0 <= axis <= len(shape):
            raise ValueError(f"#{self.name}: dim {axis} of a block of {len(shape) + 1} axes; 0 to "
                             f"{len(shape)} are required")
        parent = linear(self.get("parent"), (*shape[:axis], 1, *shape[axis:]))
        kept = [i for i in range(len(shape) + 1) if i != axis]
        layout = parent.restrict(parent.in_names, [dim(i) for i in kept])
        layout = layout.rename_outs({dim(old): dim(new) for new, old in enumerate(kept)})
        # Registers that now hold the same element are one register.
        columns = [c for c in layout.columns_of(REGISTER) if c]
        return layout.with_columns(REGISTER, columns)


class MatrixEncoding(Encoding):
    """Base of the encodings of matrix units' results. Parameters: `warpsPerCTA`, `CGALayout`."""

    def operand_part(self, left: bool, k: str, outer: str, width: int) -> LinearLayout:
        """The part of an operand that one instruction takes from a warp: the axis `k` is summed
        over, `width` elements along it are neighbours in a thread."""
        raise NotImplementedError(f"{type(self).__name__}.operand_part")

    def warp_order(self, rank: int) -> tuple[int, ...]:
        """The axes over which consecutive warps run, the last first."""
        return tuple(reversed(range(rank)))

    def repeated(self, part: LinearLayout, rank: int, skipped: int | None = None) -> LinearLayout:
        """The layout of all warps from that of one; those along the axis `skipped` hold copies."""
        warps = self.get("warpsPerCTA")
        for axis in self.warp_order(rank):
            make = LinearLayout.zeros if axis == skipped else LinearLayout.identity
            part *= make(warps[axis], WARP, dim(axis))
        return part


@irdl_attr_definition
class NvidiaMmaEncoding(MatrixEncoding):
    """The accumulator of the tensor cores: mma.sync (version 2) or wgmma (version 3)."""

    name = "ttg.nvidia_mma"
    KEYS: ClassVar[tuple[str, ...]] = (
        "versionMajor", "versionMinor", "warpsPerCTA", *CTA, "instrShape",
    )  # fmt: skip
    DEFAULTS: ClassVar[dict[str, Any]] = CTA

    @property
    def version(self) -> int:
        return self.get("versionMajor")

    def to_linear(self, shape: tuple[int, ...]) -> LinearLayout:
        rank = len(shape)
        m, n = dim(rank - 2), dim(rank - 1)
        layout = (
            LinearLayout.identity(2, REGISTER, n)
            * LinearLayout.identity(4, LANE, n)
            * LinearLayout.identity(8, LANE, m)
            * LinearLayout.identity(2, REGISTER, m)
        )
        if self.version == 3:
            width = self.get("instrShape")[1]
            layout *= LinearLayout.identity(width // 8, REGISTER, n)
        return spread(self.repeated(layout, rank), self.get("CGALayout"), shape)

    def operand_part(self, left: bool, k: str, outer: str, width: int) -> LinearLayout:
        layout = (
            LinearLayout.identity(width, REGISTER, k)
            * LinearLayout.identity(4, LANE, k)
            * LinearLayout.identity(8, LANE, outer)
        )
        if left:
            layout *= LinearLayout.identity(2, REGISTER, outer)
        return layout * LinearLayout.identity(2, REGISTER, k)

    def warp_order(self, rank: int) -> tuple[int, ...]:
        """The order of warps: for wgmma the rows first, because the four warps of a warpgroup hold
        64 rows."""
        order = list(reversed(range(rank)))
        if self.version == 3:
            order[0], order[1] = order[1], order[0]
        return tuple(order)


@irdl_attr_definition
class DotOperandEncoding(Encoding):
    """An operand of a dot held in registers: `opIdx` 0 is the left one, 1 the right one. `kWidth`
    elements along k are in one 32-bit register (or wider, with a permutation of k)."""

    name = "ttg.dot_op"
    KEYS: ClassVar[tuple[str, ...]] = ("opIdx", "parent", "kWidth")
    DEFAULTS: ClassVar[dict[str, Any]] = {"kWidth": 0}

    def to_linear(self, shape: tuple[int, ...]) -> LinearLayout:
        parent, rank = self.get("parent"), len(shape)
        left = self.get("opIdx") == 0
        k_axis, other = (rank - 1, rank - 2) if left else (rank - 2, rank - 1)
        if isinstance(parent, BlockedEncoding):
            return self._for_fma(parent, shape, k_axis)
        layout = parent.operand_part(left, dim(k_axis), dim(other), self.get("kWidth"))
        layout = parent.repeated(layout, rank, k_axis)
        return spread(layout, _without_axis(parent, k_axis), shape)

    @staticmethod
    def _for_fma(parent: BlockedEncoding, shape: tuple[int, ...], k_axis: int) -> LinearLayout:
        order, layout = parent.get("order"), LinearLayout.empty()
        sizes = list(parent.get("sizePerThread"))
        sizes[k_axis] = shape[k_axis]
        layout *= identity_nd(REGISTER, sizes, order)
        for name, key in ((LANE, "threadsPerWarp"), (WARP, "warpsPerCTA")):
            for axis in order:
                size = parent.get(key)[axis]
                make = LinearLayout.zeros if axis == k_axis else LinearLayout.identity
                layout *= make(size, name, dim(axis))
        return spread(layout, _without_axis(parent, k_axis), shape)


def _without_axis(parent: Encoding, axis: int) -> Cluster:
    """The blocks of a product's result over an operand that has k along the axis: each block has
    all of k."""
    return tuple(
        tuple(0 if i == axis else x for i, x in enumerate(basis))
        for basis in parent.get("CGALayout")
    )


@irdl_attr_definition
class LinearEncoding(Encoding):
    """A layout given by its bases; a tile that is larger wraps around into more registers, along
    the axes in the order in which registers go along them."""

    name = "ttg.linear"
    KEYS: ClassVar[tuple[str, ...]] = (REGISTER, LANE, WARP, BLOCK)

    def to_linear(self, shape: tuple[int, ...]) -> LinearLayout:
        names = [dim(i) for i in range(len(shape))]
        layout = LinearLayout.of({k: self.get(k) for k in self.KEYS}, names)
        layout = layout.resize_outs({n: max(1 << b, 1) for n, b in layout.out_dims})
        along = [i for basis in self.get(REGISTER) for i, c in enumerate(basis) if c]
        for i in dict.fromkeys([*along, *reversed(range(len(shape)))]):
            more = shape[i] >> layout.out_bits(dim(i))
            layout *= LinearLayout.identity(max(more, 1), REGISTER, dim(i))
        return fit(layout, shape)

    @staticmethod
    def from_layout(layout: LinearLayout) -> LinearEncoding:
        """The encoding of a layout."""
        return LinearEncoding.make(**{k: layout.bases(k) for k in LinearEncoding.KEYS})


class SharedEncoding(Encoding):
    """Base of encodings of shared memory."""

    @property
    def rank(self) -> int:
        """The axes of the tile that is laid out; memory may have buffers in front of them."""
        raise NotImplementedError(f"#{self.name} has no rank")

    @property
    def base_alignment(self) -> int:
        """The least alignment, in bytes, of memory with this encoding."""
        return 16

    def elements_of_block(self, shape: tuple[int, ...]) -> int:
        """The number of elements of a tile of this shape that a block of a cluster has room for.
        Axes in front of the encoding's own are buffers."""
        cluster: Cluster = self.get("CGALayout")
        rank = len(cluster[0]) if cluster else 0
        return prod((*shape[: len(shape) - rank], *part_of(cluster, shape[len(shape) - rank :])))

    def gaps(self, shape: tuple[int, ...], size: int) -> tuple[tuple[int, int], ...]:
        """Pairs (interval, padding): `padding` elements follow every `interval` elements, of `size`
        bytes, of a tile of this shape."""
        return ()

    def check_memory(self, shape: tuple[int, ...], bits: int) -> None:
        """Raise `ValueError` for memory of this shape, of elements of `bits` bits, that cannot have
        the encoding."""
        if self.rank > len(shape):
            raise ValueError(f"the layout has {self.rank} axes, more axes than the shape "
                             f"{list(shape)}")  # fmt: skip
        own = shape[len(shape) - self.rank :]
        if any(n < 1 for n in shape) or any(n & n - 1 for n in own):
            raise ValueError(f"the shape is {list(shape)}; powers of two are required, of buffers "
                             "one or more")  # fmt: skip

    @property
    def parts(self) -> tuple[int, ...]:
        """Starts of the parts of memory with this encoding, in bytes from its own; each part has
        the bytes of `elements_of_block`."""
        return (0,)


class PermutedSharedEncoding(SharedEncoding):
    """Rows with their groups of `vec` elements permuted: in row r, group g is stored at
    g ^ phase(r)."""

    KEYS: ClassVar[tuple[str, ...]] = ("vec", "perPhase", "maxPhase", "order", *CTA)
    DEFAULTS: ClassVar[dict[str, Any]] = CTA

    def check(self) -> None:
        _check_order(self.name, self.get("order"))
        for key in ("vec", "perPhase", "maxPhase"):
            if (value := self.get(key)) < 1 or value & (value - 1):
                raise ValueError(f"#{self.name}: {key} is {value}; a power of two is required")

    def to_linear(self, shape: tuple[int, ...]) -> LinearLayout:
        return spread(self._part(part_of(self.get("CGALayout"), shape)), self.get("CGALayout"),
                      shape, OFFSET)  # fmt: skip

    @property
    def rank(self) -> int:
        return len(self.get("order"))

    def phase(self, row: int) -> int:
        """The number to which those of a row's groups are XORed, below `maxPhase`."""
        raise NotImplementedError(f"{type(self).__name__}.phase")

    def _part(self, shape: tuple[int, ...]) -> LinearLayout:
        """The part of a tile that one thread block of a cluster holds."""
        order: tuple[int, ...] = self.get("order")
        if len(order) != len(shape):
            raise ValueError(f"#{self.name}: order {list(order)} for a shape of {len(shape)} axes")
        if len(shape) == 1:
            return LinearLayout.identity(shape[0], OFFSET, dim(0))
        columns, rows = shape[order[0]], shape[order[1]]
        bases = [(1 << i, 0) for i in range(columns.bit_length() - 1)]
        for i in range(rows.bit_length() - 1):
            bases.append(((self.get("vec") * self.phase(1 << i)) % columns, 1 << i))
        layout = LinearLayout.of({OFFSET: bases}, {dim(order[0]): columns, dim(order[1]): rows})
        for axis in order[2:]:
            layout *= LinearLayout.identity(shape[axis], OFFSET, dim(axis))
        return layout


@irdl_attr_definition
class SwizzledSharedEncoding(PermutedSharedEncoding):
    """Rows that are permuted in the same way in each block of perPhase times maxPhase of them."""

    name = "ttg.swizzled_shared"

    def phase(self, row: int) -> int:
        return row // self.get("perPhase") % self.get("maxPhase")


@irdl_attr_definition
class AMDRotatingSharedEncoding(PermutedSharedEncoding):
    """Rows of which each block is permuted in a way of its own: by the XOR of the phase that
    `SwizzledSharedEncoding` has and of the block's number."""

    name = "ttg.amd_rotating_shared"

    def phase(self, row: int) -> int:
        count = row // self.get("perPhase")
        return (count ^ count // self.get("maxPhase")) % self.get("maxPhase")


@irdl_attr_definition
class NVMMASharedEncoding(SharedEncoding):
    """The shared memory layout of TMA and wgmma: rows of `swizzlingByteWidth` bytes, in which the
    address permutes groups of 16 bytes, the same way every 1024 bytes. Without that (0), rows of
    the tile, of `WIDEST_ROW` elements at most, as one copy has them. Rows go down first, then
    right. `transposed`: the rows of this are the tile's columns; `rank`: the tile's axes.
    `fp4Padded`: behind each 8 bytes, which hold 16 elements of 4 bits, there is a gap of 8."""

    name = "ttg.nvmma_shared"
    KEYS: ClassVar[tuple[str, ...]] = (
        "swizzlingByteWidth", "transposed", "elementBitWidth", "fp4Padded", "rank", *CTA,
    )  # fmt: skip
    DEFAULTS: ClassVar[dict[str, Any]] = {**CTA, "fp4Padded": False, "rank": 2}

    def to_linear(self, shape: tuple[int, ...]) -> LinearLayout:
        rank, bits, swizzle = (
            len(shape), self.get("elementBitWidth"), self.get("swizzlingByteWidth")
        )  # fmt: skip
        if rank < 2:
            none = LinearLayout.zeros(1, OFFSET, dim(0))
            return spread(none, self.get("CGALayout"), shape, OFFSET)
        row_axis, column_axis = (rank - 1, rank - 2) if self.get("transposed") else \
            (rank - 2, rank - 1)  # fmt: skip
        group, part = 128 // bits // self.dilution, part_of(self.get("CGALayout"), shape)
        width = 8 * swizzle // bits // self.dilution or min(part[column_axis], WIDEST_ROW)
        per_phase = max(1, 128 // max(16, swizzle))
        phases = max(1, swizzle // 16)
        above = {row_axis: 1, column_axis: width, **dict.fromkeys(reversed(range(rank - 2)), 1)}
        steps = [(axis, start << i) for axis, start in above.items()
                 for i in range((part[axis] // start).bit_length() - 1)]  # fmt: skip
        bases = [_at(rank, column_axis, 1 << i) for i in range(width.bit_length() - 1)]
        for number, (axis, step) in enumerate(steps):
            turned = group * ((1 << number) // per_phase % phases)
            bases.append(_at(rank, axis, step, column_axis, turned))
        sizes = {dim(i): max(n, width if i == column_axis else 1) for i, n in enumerate(part)}
        layout = LinearLayout.of({OFFSET: bases}, sizes)
        return spread(layout, self.get("CGALayout"), shape, OFFSET)

    @property
    def rank(self) -> int:
        return self.get("rank")

    @property
    def dilution(self) -> int:
        """The bytes of memory for each byte of a tile."""
        return 2 if self.get("fp4Padded") else 1

    def elements_of_block(self, shape: tuple[int, ...]) -> int:
        return super().elements_of_block(shape) * self.dilution

    def gaps(self, shape: tuple[int, ...], size: int) -> tuple[tuple[int, int], ...]:
        return ((8, 8),) if self.get("fp4Padded") else ()

    @property
    def pattern_bytes(self) -> int:
        """The bytes after which the swizzle repeats: it is a function of the address."""
        return LEAST_ROWS * self.get("swizzlingByteWidth")

    @property
    def base_alignment(self) -> int:
        # Memory starts where the pattern does; bulk copies need 128 bytes.
        return max(128, self.pattern_bytes)


WIDEST_ROW = 256
"""Elements along an axis that one bulk copy moves, at most."""
LEAST_ROWS = 8
"""Rows after which a swizzle repeats."""
LEAST_ROW_BYTES = 16
"""Bytes of a row that one bulk copy moves at least: those of a box's first dimension are a multiple
of it (CUDA driver API, `cuTensorMapEncodeTiled`)."""


def _at(rank: int, axis: int, value: int, other: int = 0, more: int = 0) -> tuple[int, ...]:
    """Coordinates that are `value` along one axis, and `more` besides along another."""
    found = [0] * rank
    found[axis] = value
    found[other] |= more
    return tuple(found)


@irdl_attr_definition
class SharedMemorySpace(ParametrizedAttribute):
    """`#ttg.shared_memory`: the memory space of shared memory."""

    name = "ttg.shared_memory"


def identity_nd(name: str, shape: Sequence[int], order: Sequence[int]) -> LinearLayout:
    """The input counts through a block of `shape`, the axes in `order` fastest first."""
    if not order:
        return LinearLayout.empty()
    outs = dims_of({dim(axis): shape[axis] for axis in order})
    bits = sum(n for _, n in outs)
    return LinearLayout(((name, bits),), outs, tuple([1 << i for i in range(bits)]))


def counted(counts: Sequence[int], steps: Sequence[int] | None = None) -> list[list[int]]:
    """Bases of `counts` parts along the axes, the last axis first; `steps`: how far apart."""
    rank = len(counts)
    return [
        [(steps[axis] if steps else 1) << bit if a == axis else 0 for a in range(rank)]
        for axis in reversed(range(rank)) for bit in range(counts[axis].bit_length() - 1)
    ]  # fmt: skip


def grow(layout: LinearLayout, sizes: dict[str, int], name: str) -> LinearLayout:
    """Repeat the layout along its outputs, in their order, with more of input `name`."""
    for out in layout.out_names:
        have, want = layout.out_size(out), sizes[out]
        if have < want:
            layout *= LinearLayout.identity(want // have, name, out)
    return layout


def fit(layout: LinearLayout, shape: Sequence[int]) -> LinearLayout:
    """Cut outputs down to the shape: bits beyond it become copies; registers' are dropped."""
    sizes = {dim(i): s for i, s in enumerate(shape)}
    bases: dict[str, list[list[int]]] = {}
    for name in layout.in_names:
        kept: list[list[int]] = []
        for basis in layout.bases(name):
            named = zip(basis, layout.out_names, strict=True)
            inside = [c if c < sizes[o] else 0 for c, o in named]
            if name in (REGISTER, OFFSET) and any(basis) and not any(inside):
                continue
            kept.append(inside)
        bases[name] = kept
    return LinearLayout.of(bases, {o: sizes[o] for o in layout.out_names})


def split_of(cluster: Cluster, rank: int) -> tuple[int, ...]:
    """Into how many parts the blocks of a cluster split each axis (see `CGALayout`)."""
    splits = [1] * rank
    for basis in cluster:
        splits = [max(s, 2 * x) for s, x in zip(splits, basis, strict=True)]
    return tuple(splits)


def part_of(cluster: Cluster, shape: Sequence[int]) -> tuple[int, ...]:
    """The shape of what one block of a cluster has of a tile."""
    splits = split_of(cluster, len(shape))
    return tuple(max(1, s // split) for s, split in zip(shape, splits, strict=True))


def spread(
    layout: LinearLayout, cluster: Cluster, shape: tuple[int, ...], name: str = REGISTER
) -> LinearLayout:
    """A block's layout made to cover the tile: repeated (in `name`) or cut to the part of the shape
    that a block of the cluster has, with the blocks spread over the tile. Blocks for which a short
    axis has no part hold copies."""
    rank = len(shape)
    part = part_of(cluster, shape)
    layout = grow(layout, {dim(i): s for i, s in enumerate(part)}, name)
    layout = fit(layout, part)
    over = [s // p for s, p in zip(shape, part, strict=True)]
    blocks = LinearLayout.of(
        {BLOCK: [[x if x < s else 0 for x, s in zip(b, over, strict=True)] for b in cluster]},
        {dim(i): s for i, s in enumerate(over)},
    )
    return (layout * blocks).transpose_outs([dim(i) for i in range(rank)])


@lru_cache(maxsize=4096)
def linear(encoding: Encoding, shape: tuple[int, ...]) -> LinearLayout:
    """The linear layout of an encoding for a tile (or allocation) of this shape; its inputs are in
    the order of `INPUTS`."""
    found = encoding.to_linear(shape)
    names = [name for name in INPUTS if name in found.in_names]
    return found if tuple(names) == found.in_names else found.transpose_ins(names)


_ALIASES: dict[type[Attribute], str] = {
    BlockedEncoding: "blocked", LinearEncoding: "linear", SharedMemorySpace: "smem",
}  # fmt: skip


@cache
def alias_of(kind: type[Attribute]) -> str | None:
    """The stem of the alias under which encodings of a class are printed, if they are given one."""
    if issubclass(kind, SharedEncoding):
        return "shared"
    return "mma" if issubclass(kind, MatrixEncoding) else _ALIASES.get(kind)


ENCODINGS: tuple[type[ParametrizedAttribute], ...] = (
    BlockedEncoding, SliceEncoding, NvidiaMmaEncoding, DotOperandEncoding, LinearEncoding,
    SwizzledSharedEncoding, AMDRotatingSharedEncoding, NVMMASharedEncoding, SharedMemorySpace,
)  # fmt: skip
