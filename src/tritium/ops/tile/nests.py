"""Nests of loops over tiles, and buffers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import takewhile
from math import prod
from typing import TYPE_CHECKING, Any, TypeGuard

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.traits import NoTerminator
from xdsl.utils.exceptions import VerifyException

from tritium.ir import types as ir
from tritium.ops.base import Op
from tritium.ops.fields import (
    i32_array_attr,
    i32_attr,
    operand,
    optional,
    plain_i32_attr,
    raw_attr,
    symbol_attr,
    unit_attr,
    words_attr,
)
from tritium.ops.ttir.memory import check_access

if TYPE_CHECKING:
    from xdsl.parser import Parser
    from xdsl.printer import Printer

SCRATCH = "tile.scratch"
"""The attribute of a function that says how many bytes its buffers take."""
ZERO, VIEW_A, VIEW_B = "tile.zero", "tile.view_a", "tile.view_b"
"""The flags of a product: its buffer does not hold C on entry; A, or B, is read in memory where it
is, as an unmasked load that nothing forbids to delay."""
BUFFERS = "tile.buffers"
"""The attribute of an op that lists the buffers of its results; of a function, those of its blocks'
arguments, then of its results. A unit stands for a scalar, or a tile that nobody needs."""

OPERAND = "tile.operand"
"""The attribute that says for which one of its operands an op in a nest is (`per_operand`)."""


VERSIONS = ("linear", "apart", "unmasked", "streaming", "quick", "exclusive")
"""The versions that a nest may have (`tile-version`)."""
_WORDS = {"along": "axis", "lane": "lane", "width": "width", "unroll": "unroll", "block": "block"}


def is_tile(value: SSAValue) -> bool:
    """True if a value is a tile."""
    return value.type.__class__ is TensorType


class BufferOp(Op):
    """A tile in scratch memory: dense, row-major, 64-byte aligned, at the start of the function.

    i1 elements take a byte each, pointers eight. `offset` is in bytes; without one the caller
    provides the memory, or `tile-allocate` has not run. `BufferOp.build(sym_name="b", tile=type)`.
    """

    name = "tile.buffer"
    syntax = "$sym_name attrs : $tile"
    sym_name = symbol_attr()
    tile = raw_attr()
    offset = plain_i32_attr(-1)

    @classmethod
    def infer(cls, **attrs: Any) -> tuple[ir.Type, ...]:
        return ()

    def verify_structure(self) -> None:
        """The first buffer of a function checks the copies to all."""
        function = self.parent_op()
        if function is None or self.prev_op is not None:
            return
        named: dict[str, BufferOp] = {}
        for buffer in buffers_of(function):
            if buffer.sym_name in named:
                raise VerifyException(f"two of tile.buffer @{buffer.sym_name}")
            named[buffer.sym_name] = buffer
        copies: list[Any] = [op for op in function.walk() if op.__class__ is CopyOp]
        for copy in copies:
            for name in filter(None, (copy.target, copy.source)):
                shape = named[name].shape if name in named else None
                if shape != ir.shape_of(copy.value.type):
                    raise VerifyException(
                        f"tile.copy of {copy.value.type} to @{name} of shape {shape}"
                    )

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The tile's shape."""
        return ir.shape_of(self.tile)

    @cached_property
    def element(self) -> ir.Type:
        """The type of the tile's elements."""
        return ir.element_type(self.tile)

    @cached_property
    def element_bytes(self) -> int:
        """Bytes of one element."""
        return ir.memory_bytes(self.element)

    @property
    def bytes(self) -> int:
        """Bytes of the whole tile."""
        return self.element_bytes * prod(self.shape)


class CopyOp(Op):
    """Write a tile to the buffer `target`, in a nest.

    With `keeps`, the value is read from that buffer from then on. With a `source`, the elements
    are read from that buffer, which holds the value. `CopyOp.build(value, target="b")`.
    """

    name = "tile.copy"
    syntax = "$value 'to' $target attrs : type(value)"
    value = operand()
    target = symbol_attr()
    source: Any = symbol_attr(None)
    keeps = unit_attr()

    @classmethod
    def infer(cls, value: ir.Type, **attrs: Any) -> tuple[ir.Type, ...]:
        return ()


class PrefetchOp(Op):
    """Ask, in the loops of a nest, for the lines of memory of a tile of consecutive addresses.

    It is done where the mask holds in the middle of the tile, and where the launch has at least
    `rounds` programs (or the loop around the nest as many iterations, of all programs). With
    `written`, something stores there; with `unless_streaming`, not where stores go past the caches.
    Nothing is computed, and no address is wrong. `PrefetchOp.build(pointers, mask, rounds=9)`.
    """

    name = "tile.prefetch"
    syntax = "$ptr [, $mask] attrs : type(ptr)"
    ptr = operand()
    mask = optional()
    rounds = plain_i32_attr(0)
    written = unit_attr()
    unless_streaming = unit_attr()

    @classmethod
    def infer(cls, ptr: ir.Type, mask: ir.Type | None, **attrs: Any) -> tuple[ir.Type, ...]:
        check_access(cls.name, ptr, mask, None)
        return ()


class NestOp(Op, traits=[NoTerminator()]):
    """Loops over `domain` that do all roots of the body at each point (or chunk of points).

    `axis` is the dimension that its reductions and scans run along. `tile-schedule` sets the rest:
    the dimension `lane` runs over the lanes, `width` of them, `unroll` chunks at a time; along
    `block`, squares are transposed in registers. `versions` names the faster forms, each behind a
    test, that it has beside the one that is always right (`tile-version`). The body is executed
    once, so what it defines is visible after the nest.
    `NestOp.build(domain=(64,), regions=[region])`.
    """

    name = "tile.nest"
    recursive_effects = True
    scoped = False
    domain = i32_array_attr()
    axis: Any = i32_attr(None)
    lane: Any = i32_attr(None)
    width: Any = i32_attr(None)
    unroll: Any = i32_attr(None)
    block: Any = i32_attr(None)
    versions = words_attr()

    @classmethod
    def infer(cls, **attrs: Any) -> tuple[ir.Type, ...]:
        return ()

    @classmethod
    def of(cls, domain: tuple[int, ...], axis: int | None = None) -> NestOp:
        """One without roots."""
        return cls.build(domain=domain, axis=axis, regions=[Region(Block())])

    @property
    def body(self) -> Block:
        """The block of the roots."""
        return self.regions[0].block

    @property
    def roots(self) -> tuple[Any, ...]:
        """The roots in order."""
        return tuple(op for op in self.body.ops if op.__class__ is not PrefetchOp)

    @property
    def prefetches(self) -> tuple[PrefetchOp, ...]:
        """The prefetches in order."""
        return tuple(op for op in self.body.ops if isinstance(op, PrefetchOp))

    @property
    def kept(self) -> dict[SSAValue, CopyOp]:
        """The copies that keep tiles in buffers, by tile."""
        copies = (root for root in self.body.ops if isinstance(root, CopyOp) and root.keeps)
        return {copy.value: copy for copy in copies}

    def set_versions(self, names: Sequence[str]) -> None:
        """Have these versions and no others."""
        self.properties.pop("versions", None)
        if names:
            self.properties["versions"] = self.attr_fields["versions"].encode(tuple(names))

    def verify_structure(self) -> None:
        domain = self.domain
        for root in self.roots:
            if domain_of(root) != domain:
                raise VerifyException(
                    f"{root.name} in a nest over {domain} runs over {domain_of(root)}"
                )
        for op in self.prefetches:
            if ir.shape_of(op.ptr.type) != domain:
                raise VerifyException(f"{op.name} of {op.ptr.type} in a nest over {domain}")
        self._verify_schedule()
        unknown = [name for name in self.versions if name not in VERSIONS]
        if unknown or len(set(self.versions)) < len(self.versions):
            raise VerifyException(f"tile.nest: versions are some of {', '.join(VERSIONS)}")
        before = self.prev_op
        while before is not None and not isinstance(before, NestOp):
            before = before.prev_op
        if before is None:
            self._verify_order()

    def _verify_schedule(self) -> None:
        """Chunks divide the dimension of the lanes, and blocks their own."""
        numbers, block = (self.lane, self.width, self.unroll), self.block
        if numbers == (None, None, None) and block is None:
            return
        if None in numbers:
            raise VerifyException("tile.nest has some of lane, width and unroll, and not all")
        lane, width, unroll = numbers
        domain = self.domain or (1,)
        if not 0 <= lane < len(domain):
            raise VerifyException(f"tile.nest has no dimension {lane} for the lanes")
        if width < 1 or unroll < 1 or domain[lane] % (width * unroll):
            raise VerifyException(
                f"tile.nest: {unroll} chunks of {width} lanes do not divide {domain[lane]}"
            )
        if block is not None and (
            not 0 <= block < len(domain) or block == lane or self.axis is not None or unroll != 1
            or domain[block] % width
        ):  # fmt: skip
            raise VerifyException(f"tile.nest cannot transpose blocks along {block}")

    def _verify_order(self) -> None:
        """Check that all nests of a block (this is the first) come after what they use."""
        block, seen = self.parent, set[Operation]()
        for op in () if block is None else block.ops:
            if isinstance(op, NestOp):
                for value in (v for inner in op.body.ops for v in inner.operands):
                    owner = value.owner
                    if isinstance(owner, Operation) and owner.parent is block and (
                        owner not in seen
                    ):
                        raise VerifyException(f"tile.nest comes before the {owner.name} it uses")
            seen.add(op)

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {list(self.domain)}")
        for word, name in _WORDS.items():
            if name in self.properties:
                printer.print_string(f" {word} {self.attr_fields[name].get(self)}")
        if self.versions:
            printer.print_string(f" versions [{', '.join(self.versions)}]")
        if self.attributes:
            printer.print_string(" attributes ")
            printer.print_attr_dict(self.attributes)
        printer.print_string(" ")
        printer.print_region(self.regions[0], print_empty_block=False)

    @classmethod
    def parse(cls, parser: Parser) -> NestOp:
        domain = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)
        nest = cls.of(tuple(domain))
        for word, name in _WORDS.items():
            if parser.parse_optional_keyword(word) is not None:
                nest.properties[name] = cls.attr_fields[name].encode(parser.parse_integer())
        if parser.parse_optional_keyword("versions"):
            square = parser.Delimiter.SQUARE
            nest.set_versions(parser.parse_comma_separated_list(square, parser.parse_identifier))
        if parser.parse_optional_keyword("attributes"):
            nest.attributes.update(parser.parse_optional_attr_dict())
        parser.parse_punctuation("{")
        while parser.parse_optional_punctuation("}") is None:
            nest.body.add_op(parser.parse_operation())
        return nest


def buffers_of(function: Operation) -> Iterator[BufferOp]:
    """The buffers of a function."""
    first = function.regions[0].blocks[0]
    yield from takewhile(lambda op: op.__class__ is BufferOp, first.ops)  # pyright: ignore


def tiles_of(root: Any) -> tuple[SSAValue, ...]:
    """The tiles of which a root reads each element."""
    if OPERAND in root.attributes:
        return (root.operands[root.attributes[OPERAND].value.data],)  # pyright: ignore
    return tuple(filter(is_tile, root.operands))


def domain_of(root: Any) -> tuple[int, ...]:
    """The shape of what the loops of a root run over."""
    if root.extracts:
        return ()
    return max((ir.shape_of(v.type) for v in tiles_of(root)), key=len)


def nests_in(op: Operation) -> list[NestOp]:
    """The loop nests in an op, in order."""
    return [nest for nest in op.walk() if isinstance(nest, NestOp)]


def is_nest(op: Operation | None) -> TypeGuard[NestOp]:
    """True if an op is a nest of loops."""
    return isinstance(op, NestOp)
