"""Protect loop-carried tiles: new values must not overwrite old ones that are still to be read.

before:
    scf.for ... iter_args(%a, %b) {
      tile.nest [16] { tile.copy %b to @a }
      tile.nest [16] { tile.copy %a to @b }
    }
after:
    scf.for ... iter_args(%a, %b) {
      tile.nest [16] { tile.copy %b to @t }
      tile.nest [16] { tile.copy %a to @u }
      tile.nest [16] { tile.copy %b to @a {source = @t} }
      tile.nest [16] { tile.copy %a to @b {source = @u} }
    }
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, SSAValue

from tritium.backends.cpu.tiles.ir import TileFunction, copy_of, functions_of
from tritium.ir import types as ir
from tritium.ops.tile.nests import BufferOp, CopyOp, NestOp, is_nest
from tritium.passes.base import Pass


@dataclass(frozen=True)
class ProtectCarried(Pass):
    """Compute the new value of a carried tile into a buffer of its own first, and copy it, if it is
    computed from carried tiles that may have been overwritten by then."""

    name: ClassVar[str] = "tile-protect-carried"

    def run(self, module: ModuleOp) -> bool:
        for function in functions_of(module, buffered=True):
            for op in function.order:
                if is_nest(op) and _is_last(op):
                    _protect(function, _last_copies(op))
        return True


def _is_last(nest: NestOp) -> bool:
    return nest.parent is not None and nest.next_op is nest.parent.last_op


def _last_copies(nest: Any) -> list[NestOp]:
    """The nests, up to the last one of a block, that hand tiles on."""
    found: list[NestOp] = []
    while is_nest(nest) and _hands_on(nest.roots[0]):
        found.append(nest)
        nest = nest.prev_op
    return found[::-1]


def _hands_on(root: Any) -> bool:
    return isinstance(root, CopyOp) and not root.keeps


def _protect(function: TileFunction, nests: list[NestOp]) -> None:
    written = {
        root.target: nest for nest in nests for root in nest.roots if isinstance(root, CopyOp)
    }
    for nest in nests:
        for root in filter(_hands_on, nest.roots):
            touched = _reads(function, root.value)
            if any(
                buffer.sym_name in written
                and (not identity or written[buffer.sym_name] is not nest)
                for buffer, identity in touched.items()
            ):
                _through_temporary(function, root, nests[0])


def _through_temporary(function: TileFunction, root: CopyOp, first: NestOp) -> None:
    temporary, early = function.buffer_for(root.value), NestOp.of(ir.shape_of(root.value.type))
    early.body.add_op(copy_of(root.value, temporary))
    assert first.parent is not None
    first.parent.insert_op_before(early, first)
    root.properties["source"] = CopyOp.attr_fields["source"].encode(temporary.sym_name)


def _reads(function: TileFunction, value: SSAValue) -> dict[BufferOp, bool]:
    """The buffers that computing a value reads; True for those read at the same position only."""
    found: dict[BufferOp, bool] = {}
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
    """True if each element of an op's result depends on those at the same position only."""
    return op.is_elementwise or op.loads_elements
