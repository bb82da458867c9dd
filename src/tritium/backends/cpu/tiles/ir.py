"""Functions of the tile stage: where their values are in memory.

The stage's IR is the module itself: ttir with the ops of the `tile` dialect (`ops/tile`). This is
an index of one function, found from its ops.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from xdsl.dialects.builtin import ArrayAttr, ModuleOp, UnitAttr
from xdsl.ir import Attribute, Operation, SSAValue

from tritium.analysis.axis_info import AxisAnalysis
from tritium.analysis.regions import functions
from tritium.analysis.results import result_of
from tritium.backends.cpu.tiles.alias import base_of
from tritium.ir import types as ir
from tritium.ops.base import Op
from tritium.ops.fields import integer_attr, symbol
from tritium.ops.tile.nests import (
    BUFFERS,
    SCRATCH,
    VIEW_A,
    VIEW_B,
    BufferOp,
    CopyOp,
    NestOp,
    PrefetchOp,
    buffers_of,
    is_tile,
)
from tritium.ops.ttir.dot import MatrixProduct
from tritium.ops.ttir.function import FuncOp
from tritium.ops.ttir.reduction import CombiningOp


@dataclass(eq=False)
class TileFunction:
    """A function: `buffers` maps every value that is kept in memory to where it is."""

    op: FuncOp
    buffers: dict[SSAValue, BufferOp] = field(default_factory=dict[SSAValue, BufferOp])
    copied: set[SSAValue] = field(default_factory=set[SSAValue])
    """The values that copies put there."""
    named: dict[str, BufferOp] = field(default_factory=dict[str, BufferOp])
    results: list[BufferOp | None] = field(default_factory=list[Any])
    """Buffers of the caller that results go to (None for scalars)."""

    order: list[Operation] = field(default_factory=list[Operation])
    """All ops as they were found, those of a region after the op that has it."""

    products: list[Any] = field(default_factory=list[Any])
    """The matrix products in order."""

    slices: dict[NestOp, Any] = field(default_factory=dict[NestOp, Any])
    """Values that nests compute (`slices`)."""

    @classmethod
    def of(cls, op: FuncOp) -> TileFunction:
        """The index of a function."""
        function = cls(op, results=[None] * len(op.function_type.outputs))
        function.named = {buffer.sym_name: buffer for buffer in buffers_of(op)}
        _add_ops(op, function.order)
        inner: Any
        for inner in function.order:
            if inner.__class__ is CopyOp:
                if inner.keeps:
                    function.buffers[inner.value] = function.named[inner.target]
                    function.copied.add(inner.value)
                continue
            listed: Any = inner.attributes.get(BUFFERS)
            if listed is None:
                continue
            if isinstance(inner, MatrixProduct):
                function.products.append(inner)
            found = [function._named(name) for name in listed.data]
            for values, buffer in zip(homes(inner), found, strict=False):
                if buffer is not None:
                    function.buffers.update(dict.fromkeys(values, buffer))
            if inner is op:
                function.results = found[len(homes(op)) :]
        return function

    @cached_property
    def axes(self) -> AxisAnalysis:
        """Runs and alignment of numbers, which may wrap around."""
        return AxisAnalysis(self.op, wraps=True)

    @cached_property
    def address_axes(self) -> AxisAnalysis:
        """Runs and alignment if nothing wraps around and nothing that is divided is negative."""
        return AxisAnalysis(self.op, assume_no_wrap=True, carried=self.axes)

    @cached_property
    def _loads(self) -> list[Any]:
        return [op for op in self.order if isinstance(op, Op) and op.loads_elements]

    @cached_property
    def read(self) -> set[SSAValue]:
        """The pointers that tiles are loaded through."""
        return {base_of(load.ptr) for load in self._loads if is_tile(load.ptr)}

    @cached_property
    def load_masks(self) -> set[SSAValue]:
        """The masks of loads."""
        return {load.mask for load in self._loads if load.mask is not None}

    def _named(self, name: Any) -> BufferOp | None:
        return None if isinstance(name, UnitAttr) else self.named[name.string_value()]

    @property
    def scratch_bytes(self) -> int:
        """Bytes that the buffers take."""
        size: Any = self.op.attributes.get(SCRATCH)
        return 0 if size is None else size.value.data

    @scratch_bytes.setter
    def scratch_bytes(self, size: int) -> None:
        self.op.attributes[SCRATCH] = integer_attr(size, ir.i64)

    def buffer_for(self, value: SSAValue) -> BufferOp:
        """An unused buffer that fits a tile."""
        return self.new_buffer(f"{value.name_hint or 't'}.{len(self.named)}", value.type)

    def new_buffer(self, name: str, tile: ir.Type) -> BufferOp:
        """An unused buffer of a name."""
        buffer, block = BufferOp.build(sym_name=name, tile=tile), self.op.body
        if self.named:
            block.insert_op_after(buffer, next(reversed(self.named.values())))
        elif block.first_op is None:
            block.add_op(buffer)
        else:
            block.insert_op_before(buffer, block.first_op)
        self.named[name] = buffer
        return buffer

    def keep(self, value: SSAValue) -> BufferOp:
        """A new buffer for a tile."""
        held = self.buffers[value] = self.buffer_for(value)
        return held

    def held(self, op: Operation) -> list[BufferOp | None]:
        """The buffers of an op's results."""
        return [self.buffers.get(result) for result in op.results]

    def touched(self, root: Operation) -> list[BufferOp | None]:
        """The buffers that a root names: those that it fills, then its source."""
        if isinstance(root, CopyOp):
            return [self.named[name] for name in (root.target, root.source) if name]
        return self.held(root)


def _add_ops(op: Operation, found: list[Operation]) -> None:
    """The ops of a function in order; `walk` takes five times as long."""
    found.append(op)
    for region in op.regions:
        for block in region.blocks:
            for inner in block.ops:
                if inner.regions:
                    _add_ops(inner, found)
                else:
                    found.append(inner)


def homes(op: Any) -> list[tuple[SSAValue, ...]]:
    """The values that are in each of the buffers that an op names: the arguments and results that
    take the same carried value are in one."""
    if isinstance(op, FuncOp):
        return [(a,) for block in op.regions[0].blocks for a in block.args]
    return op.tied_values() or [(result,) for result in op.results]


def name_buffers(op: Operation, buffers: Sequence[BufferOp | None]) -> None:
    """State the buffers of an op's `homes`."""
    op.attributes[BUFFERS] = ArrayAttr[Attribute](
        [UnitAttr() if buffer is None else symbol(buffer.sym_name) for buffer in buffers]
    )


def functions_of(module: ModuleOp, buffered: bool = False) -> list[TileFunction]:
    """The functions of a module; with `buffered`, only those that have buffers."""
    return [
        result_of(op, TileFunction.of)
        for op in functions(module) if not buffered or any(buffers_of(op))
    ]  # fmt: skip


def kernel_of(module: ModuleOp) -> FuncOp:
    """The function that is launched, the only public one. Raises `ValueError` for several."""
    defined = list(functions(module))
    public = [op for op in defined if op.sym_visibility == "public"]
    if len(public) != 1 and len(defined) != 1:
        names = ", ".join(op.sym_name for op in public)
        raise ValueError(f"a module has one public function, the kernel; found: {names}")
    return (public or defined)[0]


def is_inlined(op: Operation) -> bool:
    """True if an op has no place of its own: its elements are computed where they are needed."""
    return not (BUFFERS in op.attributes or op.regions) and _has_tiles(op)


def is_scalar(op: Operation) -> bool:
    """True if an op neither takes nor makes tiles, nor controls others."""
    return not (BUFFERS in op.attributes or op.regions or _has_tiles(op))


def _has_tiles(op: Operation) -> bool:
    return any(map(is_tile, op.results)) or any(map(is_tile, op.operands))


def is_scalarized(root: Any) -> bool:
    """True if a root is done element by element, in row-major order (atomics, printing)."""
    if root.stores_elements or root.extracts:
        return False
    return not isinstance(root, (CombiningOp, CopyOp))


def runs_on_scalars(op: Any) -> bool:
    """True if a reduction or scan combines element by element, as its region has control flow or
    effects."""
    ops = op.regions[0].blocks[0].ops
    return any(isinstance(o, Op) and (o.regions or o.memory_effects()) for o in ops)


def views_of(product: Operation) -> tuple[bool, bool]:
    """For each operand of a product, whether it is a view of memory."""
    return VIEW_A in product.attributes, VIEW_B in product.attributes


def copy_of(value: SSAValue, buffer: BufferOp, keeps: bool = False) -> CopyOp:
    """A copy of a tile to a buffer."""
    return CopyOp.build(value, target=buffer.sym_name, keeps=keeps)


class Shape(NamedTuple):
    """A schedule. `lane`: the dimension that runs over lanes; `width` lanes; `unroll` chunks at a
    time. `block`: the dimension along which blocks are transposed in registers."""

    lane: int
    width: int
    unroll: int
    block: int | None = None

    def in_order(self, nest: Nest) -> bool:
        """True if chunks come in the row-major order of their elements."""
        last = max(len(nest.domain) - 1, 0)
        return self.lane == last and self.block is None and nest.axis in (None, last)


class Nest(NamedTuple):
    """Loops that do some roots: all of a `tile.nest`, as scheduled and versioned, with its
    prefetches, or a part."""

    domain: tuple[int, ...]
    axis: int | None
    roots: tuple[Any, ...]
    shape: Shape | None = None
    versions: tuple[str, ...] = ()
    prefetches: tuple[PrefetchOp, ...] = ()

    @property
    def copies(self) -> list[CopyOp]:
        """The roots that copy tiles to buffers."""
        return [root for root in self.roots if isinstance(root, CopyOp)]

    @property
    def others(self) -> list[Any]:
        """The roots that do more than to copy tiles to buffers."""
        return [root for root in self.roots if not isinstance(root, CopyOp)]

    @property
    def stores(self) -> bool:
        """True if a root stores to memory."""
        return any(root.stores_elements for root in self.roots)

    @property
    def is_scalarized(self) -> bool:
        """True if roots are done element by element, in loops of their own."""
        return any(map(is_scalarized, self.roots))

    @property
    def is_sequential(self) -> bool:
        """True if elements depend on those before them: of scans, and of scalarized roots."""
        return self.is_scalarized or self.scan is not None

    @property
    def scan(self) -> CombiningOp | None:
        """The scan that is the nest's only root, if one is."""
        scans = (r for r in self.roots if isinstance(r, CombiningOp) and r.running)
        return next(scans, None)

    @classmethod
    def of(cls, op: NestOp) -> Nest:
        """The domain of a whole nest."""
        shape = None if op.lane is None else Shape(op.lane, op.width, op.unroll, op.block)
        return cls(op.domain, op.axis, op.roots, shape, op.versions, op.prefetches)
