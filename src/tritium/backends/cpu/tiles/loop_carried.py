"""Protect loop-carried tiles: new values must not overwrite old ones that are still to be read.

before:
    for ... in %a, %b {
      loops [16] { %a <- %b }
      loops [16] { %b <- %a }
    }
after:
    for ... in %a, %b {
      loops [16] { %t <- %b }
      loops [16] { %u <- %a }
      loops [16] { %a <- %t }
      loops [16] { %b <- %u }
    }
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from xdsl.ir import Block, SSAValue

from tritium.backends.cpu.tiles.grouping import Grouping
from tritium.backends.cpu.tiles.ir import Buffer, Nest, Root, RootKind, TileFunction
from tritium.backends.cpu.tiles.program import TileProgram
from tritium.ir import types as ir
from tritium.ops.ttir.memory import LoadOp
from tritium.passes.base import Pass


@dataclass(frozen=True)
class ProtectCarried(Pass[TileProgram]):
    """Where the new value of a carried tile is computed from carried tiles that may have been
    overwritten by then, compute it into a buffer of its own first, and copy."""

    name: ClassVar[str] = "tile-protect-carried"
    title: ClassVar[str] = "TileProtectCarried"

    def run(self, module: TileProgram) -> bool:
        for function, grouping in module.groupings.items():
            _protect(function, grouping)
        return True


def _protect(function: TileFunction, grouping: Grouping) -> None:
    by_end: dict[tuple[Block, float], list[Nest]] = {}
    for nest, block in list(grouping.nest_block.items()):
        if isinstance(nest, Nest) and nest.roots[0].kind == RootKind.COPY:
            last: Any = block.last_op
            if last is not None and nest.position == grouping.positions[last]:
                by_end.setdefault((block, nest.position), []).append(nest)
    for (block, _), nests in by_end.items():
        _protect_block(function, grouping, block, nests)


def _protect_block(
    function: TileFunction, grouping: Grouping, block: Block, nests: list[Nest]
) -> None:
    written = {r.buffers[0]: nest for nest in nests for r in nest.roots if r.kind == RootKind.COPY}
    for nest in nests:
        for root in list(nest.roots):
            value, target = root.values[0], root.buffers[0]
            if root.kind != RootKind.COPY or function.buffers.get(value) is target:
                continue
            touched = _reads(function, value)
            if any(
                buffer in written and (not identity or written[buffer] is not nest)
                for buffer, identity in touched.items()
            ):
                _through_temporary(function, grouping, block, root, value)


def _through_temporary(
    function: TileFunction, grouping: Grouping, block: Block, root: Root, value: SSAValue
) -> None:
    temporary = grouping.new_buffer(value)
    early = Root.copy(value, root.domain, root.position - 0.5, temporary)
    grouping.insert(early, block)
    root.source = temporary


def _reads(function: TileFunction, value: SSAValue) -> dict[Buffer, bool]:
    """The buffers that computing a value reads; True for those read at the same position only."""
    found: dict[Buffer, bool] = {}
    stack, seen = [(value, True)], set[tuple[SSAValue, bool]]()
    while stack:
        place = stack.pop()
        if place in seen:
            continue
        seen.add(place)
        value, identity = place
        held = function.buffers.get(value)
        if held is not None:
            found[held] = found.get(held, True) and identity
            continue
        if isinstance(value.owner, Block) or not isinstance(value.type, ir.TensorType):
            continue
        op: Any = value.owner
        same = identity and keeps_places(op)
        stack.extend((operand, same) for operand in op.operands)
    return found


def keeps_places(op: Any) -> bool:
    """Whether each element of an op's result depends on those at the same position only."""
    return op.is_elementwise or isinstance(op, LoadOp)
