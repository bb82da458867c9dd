"""Products in the tile stage: operands as views of memory, masks, and loops that add one up."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from xdsl.ir import SSAValue

from tritium.backends.cpu.dot.operand import Chunks, Step, View, static
from tritium.backends.cpu.lower.types import memory_type
from tritium.backends.cpu.tiles.ir import TileFunction, is_scalar, views_of
from tritium.backends.cpu.tiles.steps import Steps
from tritium.backends.cpu.tiles.views import Prefix, is_stored_within, peel, prefix_masks
from tritium.codegen.llvm.types import FORMATS, memory_bytes
from tritium.codegen.llvm.writer import Function, Value, const
from tritium.ir import types as ir
from tritium.ops.scf import ForOp
from tritium.ops.tile import BUFFERS, PLAN, BufferOp, ProductPlan
from tritium.ops.tile.nests import ZERO

FEW_ROWS = 16
"""Tiles of at most this many rows of A compute only the rows that a mask leaves, in blocks of four:
they wait for memory, not for arithmetic."""


@dataclass(frozen=True)
class Product:
    """A product: `buffer` holds C on entry (unless `zero`) and the result afterwards; `filled` are
    the tiles that are in memory before it."""

    op: Any
    filled: Container[SSAValue]
    buffer: BufferOp
    zero: bool
    a_is_view: bool
    b_is_view: bool

    @classmethod
    def of(cls, function: TileFunction, op: Any, filled: Container[SSAValue]) -> Product:
        """The product as the op's attributes describe it."""
        buffer, zero = function.buffers[op.result], ZERO in op.attributes
        return cls(op, filled, buffer, zero, *views_of(op))

    @property
    def plan(self) -> ProductPlan | None:
        """The op's plan; None before `tile-plan-products`."""
        held: Any = self.op.attributes.get(PLAN)
        return None if held is None else held.data

    @property
    def is_batched(self) -> bool:
        """True if there is a batch axis in front."""
        return len(ir.shape_of(self.op.result.type)) == 3

    @property
    def shape(self) -> tuple[int, int, int]:
        """(M, N, K)."""
        a, b = ir.shape_of(self.op.a.type), ir.shape_of(self.op.b.type)
        return a[-2], b[-1], a[-1]

    @property
    def precision(self) -> str:
        """The permission to be less exact, as `make_plan` takes it."""
        name = self.op.inputPrecision.name.lower()
        return name if name in ("tf32", "tf32x3") else "ieee"

    @property
    def operands(self) -> tuple[tuple[SSAValue, bool, int], tuple[SSAValue, bool, int]]:
        """A and B, each with whether it is a view, and its axis along K."""
        return (self.op.a, self.a_is_view, 1), (self.op.b, self.b_is_view, 0)

    @cached_property
    def masks(self) -> tuple[list[Prefix], list[Prefix]]:
        """The masks of A and of B, where these are views."""
        a, b = (self._masks_of(*operand) for operand in self.operands)
        return a, b

    @property
    def prefixes(self) -> list[Prefix]:
        """The masks of both operands."""
        return [*self.masks[0], *self.masks[1]]

    @property
    def used_rows(self) -> Prefix | None:
        """The mask that leaves a few rows of A, if there are not many."""
        if self.shape[0] > FEW_ROWS:
            return None
        masks = self.masks[0]
        return next((mask for mask in masks if not mask.along_k and mask.compared), None)

    def _masks_of(self, value: SSAValue, view: bool, axis: int) -> list[Prefix]:
        value, swapped = peel(value, self.filled)
        if not view or value in self.filled:  # what is there has been loaded under its mask
            return []
        masks = prefix_masks(value.owner, 1 - axis if swapped else axis)
        assert masks is not None
        return masks


_NOWHERE = Value("ptr", "%nowhere")


def _no_conversion(f: Function, value: Value) -> Value:
    raise AssertionError("a plan emits no code")


class Operands:
    """The operands of products as they lie in memory, for the choice of a plan: where that is does
    not matter. `info` gives what is known of a tile of addresses."""

    def __init__(self, steps: Steps, info: Callable[[SSAValue], Any]):
        self.steps, self.info = steps, info

    def place(self, value: SSAValue) -> Value:
        """The address of a tile in memory."""
        return _NOWHERE

    def address(self, pointer: SSAValue, at: tuple[Value, ...]) -> Value:
        """One of a tile of addresses."""
        return _NOWHERE

    def converter(self, type: ir.Type) -> Any:
        """The conversion to float of elements that LLVM has no type for (fp8); None for others."""
        return _no_conversion if FORMATS.get(ir.element_type(type), "").startswith("fp8") else None

    def of(self, product: Product, is_b: bool) -> View | Chunks:
        """An operand of a product without batch axis."""
        value, swapped = peel(product.op.b if is_b else product.op.a, product.filled)
        element, convert = memory_type(value.type), self.converter(value.type)
        if value in product.filled:
            columns = ir.shape_of(value.type)[1]
            strides = (1, columns) if swapped else (columns, 1)
            return View(element, self.place(value), *strides, convert=convert)
        load: Any = value.owner
        return self._at(load.ptr, swapped, is_b, element, convert)

    def _at(
        self, pointer: SSAValue, swapped: bool, is_b: bool, element: str, convert: Any
    ) -> View | Chunks:
        """The operand at a tile of addresses."""
        along = [self.steps.along(pointer, d) for d in (0, 1)]
        if swapped:
            along.reverse()
        row, column = along
        if row is not None and column is not None:
            zero = const("i64", 0)
            return View(element, self.address(pointer, (zero, zero)), row, column, convert=convert)

        def address(f: Function, r: Value, k: Value) -> Value:
            return self.address(pointer, (k, r) if swapped else (r, k))

        run = self.info(pointer).contiguity[0 if swapped else 1]
        return Chunks(element, address, run, row if is_b else column, convert=convert)

    def of_batch(self, product: Product, is_b: bool, base: Value = _NOWHERE) -> View:
        """An operand of one product of a batch, in a buffer, from `base` on."""
        value = product.op.b if is_b else product.op.a
        columns = ir.shape_of(value.type)[-1]
        return View(memory_type(value.type), base, columns, 1, convert=self.converter(value.type))


# Loops


def loop_of(op: Any) -> Any:
    """The counted loop of which a product is all that it does with tiles; None if there is none."""
    loop: Any = op.parent_op()
    if not loop.is_loop or len(loop.regions) > 1 or len(ir.shape_of(op.result.type)) != 2:
        return None
    steps = [inner for inner in loop.body.ops if BUFFERS in inner.attributes or inner.regions]
    return loop if steps == [op] else None


def carried_result(function: TileFunction, loop: Any, product: Product) -> SSAValue | None:
    """The loop's result if `for k: acc += a_k @ b_k` is all that it computes; else None."""
    terminator: Any = loop.body.last_op
    buffers = function.held(loop)
    carried = [i for i, buffer in enumerate(buffers) if buffer is not None]
    if len(carried) != 1 or buffers[carried[0]] is not product.buffer or product.zero:
        return None
    if terminator.operands[carried[0]] is not product.op.result:
        return None
    if any(r.uses for i, r in enumerate(loop.results) if i not in carried) or loop.unsignedCmp:
        return None
    if any(inner.memory_effects() for inner in scalars_of(loop)):
        return None
    return loop.results[carried[0]]


def scalars_of(loop: ForOp) -> list[Any]:
    """The ops on scalars of a loop's body."""
    return [op for op in loop.body.ops if is_scalar(op) and op is not loop.body.last_op]


def advances(steps: Steps, product: Product) -> tuple[Step, Step] | None:
    """The bytes by which the operands move on in an iteration of the loop of `steps`; None if they
    do not move steadily, or not all masks move with them along K."""
    moves = [_advance(steps, value, view, product.filled) for value, view, _ in product.operands]
    if None in moves:
        return None
    depth = product.shape[2]
    for prefix in product.prefixes:
        changes = [steps.along(v, None) for v in prefix.compared or (prefix.condition,)]
        known = [0 if change is None else static(change) for change in changes]
        if None in changes or None in known:
            return None
        if prefix.along_k and known[0] - known[1] != depth:  # pyright: ignore
            return None
        if not prefix.along_k and any(known):
            return None
    return moves[0], moves[1]  # pyright: ignore[reportReturnType]


def _advance(steps: Steps, value: SSAValue, view: bool, filled: Container[SSAValue]) -> Step | None:
    source, _ = peel(value, filled)
    if source in filled:
        return 0
    if not view:
        return None
    load: Any = source.owner
    advance = steps.along(load.ptr, None)
    return None if advance is None else steps.scaled(advance, memory_bytes(source.type))


def uses_only(result: SSAValue, rows: Prefix | None) -> bool:
    """True if of a product's result only the rows are used that a mask of A leaves."""
    return rows is not None and is_stored_within(result, rows, 0)
